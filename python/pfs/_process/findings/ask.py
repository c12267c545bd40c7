"""``pfs.findings`` says what to mend first, of this process, another one, or all processes of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pfs import _core
from pfs._process import processes
from pfs._process.attach import Schema, attach
from pfs._process.findings.facts import Facts, Moment
from pfs._process.findings.find import Finding, find, text_of
from pfs._process.findings.limits import MOST
from pfs._process.recorded import hidden, recorded
from pfs._process.saved import SavedSource
from pfs._process.segment import SegmentSource
from pfs._save.places import is_snapshot
from pfs.errors import AttachError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "FromNow",
    "LastMinute",
    "findings",
    "found_in",
    "frame_of",
    "of_sources",
    "processor_time",
    "segments_in",
]

_MINUTE = 60.0  # seconds
_FIND_EVERY = 5  # questions for the worst one: the history takes longer to read than the sums
COLUMNS = ("NAME", "SENTENCE", "PLACE", "PROCESS_ID", "TIME", "SHARE", "OF", "IS_BOUND", "ADVICE")


def findings(source: Schema | int | str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Says what to mend first: at most three faults, the largest first.

        pfs.findings(4711)

    Each is at least 5 % of the time in which a thread did something, and 5 ms. docs/reference/findings.md lists the rules.

    Args:
        source: None is this process; else a `Schema`, a process id, or the path of a segment, of the folder of a run, or of a
            saved snapshot.

    Returns:
        A row for each finding: NAME is the rule, SENTENCE says what happens, PLACE is the line or NULL. TIME is what the fault
        takes, in picoseconds, and SHARE is its share of OF, which is ``wall`` or ``processor`` time. If IS_BOUND, TIME is that in
        a queue, and mending saves TIME at most. ADVICE says what to do.

    Raises:
        AttachError: there is no such process, segment or folder.
    """
    return frame_of(found_in(source))


def frame_of(found: Iterable[Finding]) -> pd.DataFrame:
    """Returns a row for each finding."""
    import pandas as pd

    rows = [
        (one.name, *_places_of(one), one.pid, one.time, one.time / one.whole, one.of, one.is_bound, one.advice) for one in found
    ]
    text, number = "string", "Int64"
    types = (text, text, text, number, number, "float64", text, "boolean", text)
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict(zip(COLUMNS, types, strict=True)))


def _places_of(one: Finding) -> tuple[str, str | None]:
    """Returns the sentence and the place: of this process, a notebook, with the numbers of cells."""
    if one.place is None or one.pid != os.getpid():
        return one.sentence, one.place
    from pfs._read.frame import text_in_cells

    return text_in_cells(one.sentence), text_in_cells(one.place)


@hidden()
def found_in(source: Schema | int | str | os.PathLike[str] | None = None) -> list[Finding]:
    """Returns the findings of a source: see ``findings``."""
    if source is None:
        return of_sources(_own())
    if isinstance(source, Schema):
        return of_sources([source._source])
    if not isinstance(source, int) and is_snapshot(source):
        return of_sources([SavedSource.of(source)])
    if isinstance(source, int) or not os.path.isdir(source):
        with attach(source) as schema:
            return of_sources([schema._source])
    return _of_folder(os.fspath(source))


class FromNow:
    """Finds faults in what this process does from now on."""

    @hidden()
    def __init__(self) -> None:
        self._begun = [(source, Moment(source)) for source in _own()]

    @hidden()
    def findings(self) -> list[Finding]:
        return [one for source, then in self._begun for one in of_sources([source], then)][:MOST]


class LastMinute:
    """Finds faults in what processes have done in the last minute. The first answer is of all that they did."""

    def __init__(self) -> None:
        self._moments: list[tuple[float, dict[str, Moment]]] = []  # by path
        self._questions = 0
        self._worst: list[str] = []

    def worst(self, sources: Iterable[SegmentSource]) -> list[str]:
        """Returns the lines of the worst finding. It looks for it at some of the questions; else nothing is read."""
        if self._questions % _FIND_EVERY == 0:
            self._worst = text_of(self.findings(sources)[:1]).splitlines()
        self._questions += 1
        return self._worst

    def is_over(self, path: str) -> bool:
        """Returns whether a process was dead a minute ago: it adds nothing to the next answer."""
        return bool(self._moments) and path in self._moments[0][1] and self._moments[0][1][path].is_last

    def findings(self, sources: Iterable[SegmentSource]) -> list[Finding]:
        taken = time.monotonic()
        while len(self._moments) > 1 and self._moments[1][0] <= taken - _MINUTE:
            del self._moments[0]
        before = self._moments[0][1] if self._moments else {}
        now = {}
        facts = Facts()
        for source in sources:
            now[source.path] = Moment(source)
            facts.add(source, before.get(source.path))
        self._moments.append((taken, {**self._moments[-1][1], **now} if self._moments else now))
        return find(facts)


def of_sources(sources: Sequence[SegmentSource | SavedSource], since: Moment | None = None) -> list[Finding]:
    """Returns the findings of some processes together."""
    facts = Facts()
    for source in sources:
        facts.add(source, since)
    used = [processor_time(source) if since is None else None for source in sources]
    known = [time for time in used if time is not None]
    return find(facts, cpu=sum(known) if len(known) == len(used) else None)


def _own() -> list[SegmentSource]:
    path = _core.segment_path()
    own = [SegmentSource(_core.Segment(path), write=False)] if path else []
    under_run = recorded()
    return [*own, *([] if under_run is None else [under_run])]


def _of_folder(folder: str) -> list[Finding]:
    facts = Facts()
    for found in segments_in(folder):
        if not found.doubt:
            with attach(found.path) as schema:
                facts.add(schema._source)
    return find(facts)


def segments_in(folder: str, or_none: bool = False) -> list[processes.Found]:
    """Returns the segments in a folder and in the folders of runs below it.

    Raises:
        AttachError: there are none, and `or_none` is false.
    """
    there = [found for part in processes.with_runs(folder) for found in processes.scan_all([part])]
    if not there and not or_none:
        raise AttachError(f"there is no segment in {folder}")
    return there


def processor_time(source: SegmentSource | SavedSource) -> int | None:
    """Returns the picoseconds of processors that a process has used until now, or None."""
    pid = source.pid_here
    if not pid:
        return None
    try:
        fields = processes.stat_of(pid)
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) * 10**12 // os.sysconf("SC_CLK_TCK")
