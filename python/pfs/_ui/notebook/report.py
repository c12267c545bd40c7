"""Reports what the program waited for during a piece of code.

In a kernel under ``pfs run`` that is what the library has recorded and what pfs has: two segments of one process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pfs._process.findings.ask import FromNow
from pfs._process.findings.find import text_of
from pfs._process.recorded import hidden, is_noise, is_recorded, recorded
from pfs._read import frame, show
from pfs._read.places.readable import Readable
from pfs._read.samples import BUSIEST, SECTIONS, Row, Sample, Section, rows_between, take
from pfs._read.source import OWN
from pfs._ui.notebook.timeline import Timeline, timeline

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pfs._read.source import Source

__all__ = ["SEES_ITS_OWN", "Report", "Samples"]

SEES_ITS_OWN = (
    "pfs sees its own objects here: pfs.Lock, pfs.Queue, pfs.open, pfs.dbapi. It sees all that kernels do of "
    "'pfs run --no-report -- jupyter lab'."
)
_MOST = 10  # rows of each part
_EVENTS = "events_waits_history_long"


class Samples:
    """Holds the sums of this process at one moment: those of pfs, and those that ``pfs run`` has recorded."""

    def __init__(self, sources: list[tuple[Source, Readable]]) -> None:
        self._sources = sources
        self.each = [take(source, names=names, leave_out=is_noise) for source, names in sources]

    @classmethod
    def first(cls) -> Samples:
        """Looks for the segments of this process, and takes the first samples."""
        found = recorded() if is_recorded() else None
        if found is None:
            return cls([(OWN, Readable(OWN))])
        return cls([(OWN, Readable(OWN)), (found, Readable(found))])

    def again(self) -> Samples:
        """Takes samples of the same segments."""
        return Samples(self._sources)

    def since(self, before: Samples, section: Section) -> list[Row]:
        """Returns what happened to each key since then, busiest first. Counts and times are sums."""
        rows = rows_between(before.each[0], self.each[0], 1.0, section)
        for old, new in zip(before.each[1:], self.each[1:], strict=True):
            found = rows_between(old, _without_waiters(old, new, section), 1.0, section)
            rows += [row for row in found if not row.name.endswith(f"/{os.getpid()}.pfs")]  # where the objects of pfs are
        return BUSIEST.of(rows)

    @property
    def main(self) -> tuple[Source, Sample]:
        """The segment that has the most of what the code does: a timeline has the clock and the threads of one."""
        return self._sources[-1][0], self.each[-1]

    @property
    def names(self) -> Readable:
        """The names of the same segment."""
        return self._sources[-1][1]

    @property
    def lost(self) -> int:
        return sum(sample.lost for sample in self.each)


def _without_waiters(old: Sample, new: Sample, section: Section) -> Sample:
    """Leaves out what ran before and has not ended: threads of the kernel wait all the time, for the next message or cell."""
    counts = {key: numbers[0] for key, numbers in new.sums[section.name].items()}
    before = {key: numbers[0] for key, numbers in old.sums[section.name].items()}
    ran = old.running[section.name]
    running = {
        key: time for key, time in new.running[section.name].items() if key not in ran or counts.get(key, 0) != before.get(key, 0)
    }
    return replace(new, running={**new.running, section.name: running}, now={})


def _names_of_ended() -> dict[int, str]:
    """Returns names of threads by THREAD_ID that the library has recorded, also of some that have ended."""
    named = getattr(sys.modules.get("_pfs_run.threads"), "named", {})
    return {number: f"thread/python/{name}" for number, name in named.copy().items()}


class Report:
    """Measures the code of a ``with`` block, and shows its busiest waits, files, statements and threads, and a timeline.

    The library records neither its reading nor its pictures.
    """

    @hidden()
    def __enter__(self) -> Self:
        self.before = Samples.first()
        self._from_now = FromNow()
        self._begin = self.before.main[0].now()
        self._started = time.monotonic()
        return self

    @hidden()
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds = time.monotonic() - self._started
        self.findings = text_of(self._from_now.findings())  # first: what takes time here is no part of the block
        self._after = self.before.again()
        self.lost = self._after.lost - self.before.lost
        (source, after), (_, before) = self._after.main, self.before.main
        end = self._begin + round(self.seconds * 1e12)
        # What ran before is of threads that wait all the time, for the next message or cell.
        events = frame.frame(_EVENTS, source=source, where=f"TIMER_START between {self._begin} and {end}")
        events = events[~events["EVENT_NAME"].map(is_noise).astype(bool)]
        # With symbols and lines. SOURCE may be NULL.
        readable = {"EVENT_NAME": self._after.names.name, "SOURCE": self._after.names.source}
        columns = {name: {text: words(text) for text in events[name].dropna().unique()} for name, words in readable.items()}
        self.events = events.assign(**{name: events[name].map(texts) for name, texts in columns.items()})
        self._names = {**_names_of_ended(), **before.threads, **after.threads}
        self.timeline: Timeline = timeline(self.events, self._names, self._begin, end)

    def rows(self, section: Section) -> list[Row]:
        """Returns what happened to each key, busiest first. Counts and times are sums of the block."""
        rows = self._after.since(self.before, section)
        return BUSIEST.of([*rows, *self._ended_threads()]) if section.name == "threads" else rows

    def _ended_threads(self) -> Iterator[Row]:
        """Yields the threads that have ended meanwhile, whose sums went with them: from those of their events that are kept."""
        there = self._after.main[1].threads
        ended = self.events[~self.events["THREAD_ID"].isin(there)]
        for thread in ended["THREAD_ID"].unique().tolist():
            times = ended["TIMER_WAIT"][ended["THREAD_ID"] == thread]
            yield Row(f"{thread} {self._names.get(thread, '')}".rstrip(), len(times), float(times.sum()), ())

    def _parts(self) -> list[tuple[str, list[str], list[list[object]]]]:
        parts = []
        for section in SECTIONS:
            rows = self.rows(section)
            if not rows:
                continue
            names = [section.name, "events", "time", "average", *(name.removesuffix("/s") for name in section.extras)]
            write = [show.bytes_text if section.name == "files" else show.count_text for _ in section.extras]
            cells: list[list[object]] = [
                [
                    row.name,
                    show.count_text(int(row.count)),
                    show.time_text(int(row.time)),
                    show.time_text(int(row.average)),
                    *(text(int(extra)) for text, extra in zip(write, row.extras, strict=True)),
                ]
                for row in rows
            ]
            parts.append((section.name, names, cells))
        return parts

    @property
    def is_empty(self) -> bool:
        """Is there nothing that the code waited for?"""
        return not any(self.rows(section) for section in SECTIONS if section.name != "statements")

    @property
    def headline(self) -> str:
        """The sentence above the tables."""
        text = f"{self.seconds:.3f} s; "
        if self._parts():
            waits = self.rows(SECTIONS[0])
            total = show.time_text(int(sum(row.time for row in waits)))
            text += f"{show.some(int(sum(row.count for row in waits)), 'wait')}, {total} waited in all threads"
        else:
            text += f"no event of pfs. {SEES_ITS_OWN}" if not is_recorded() else "no event"
        return text + (f"; {self.lost} events or objects were lost" if self.lost else "")

    @hidden()
    def __repr__(self) -> str:
        from pfs._read.readable import shortened

        lines = [*([frame.text_in_cells(self.findings), ""] if self.findings else []), self.headline]
        for name, names, cells in self._parts():
            rows = [[shortened(str(cell), name == "statements") for cell in row] for row in cells[:_MOST]]
            lines += ["", show.as_plain_text(f"{name}: {min(_MOST, len(cells))} of {len(cells)}", names, rows)]
        return "\n".join(lines)

    @hidden()
    def _repr_html_(self) -> str:
        from html import escape

        from pfs._read.readable import cell, shortened

        parts = [f"<pre>{escape(frame.text_in_cells(self.findings))}</pre>"] if self.findings else []
        parts.append(f"<p>{escape(self.headline)}</p>")
        for name, names, cells in self._parts():
            head = "".join(f"<th style='text-align:{'right' if i else 'left'}'>{escape(n)}</th>" for i, n in enumerate(names))
            body = "".join(
                "<tr>"
                + "".join(cell(str(each), shortened(str(each), name == "statements"), i > 0) for i, each in enumerate(row))
                + "</tr>"
                for row in cells[:_MOST]
            )
            more = f"<caption>{_MOST} of {len(cells)}</caption>" if len(cells) > _MOST else ""
            parts.append(f"<table>{more}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if self.timeline.drawn:
            parts.append(self.timeline._repr_html_())
        return "".join(parts)
