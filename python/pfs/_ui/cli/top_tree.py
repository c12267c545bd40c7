"""Samples for ``pfs top`` over the processes of one ``pfs run``, or of all runs in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pfs._process.attach import attach
from pfs._process.findings.ask import LastMinute
from pfs._process.processes import is_alive
from pfs._process.run.tree import Node, trees
from pfs._process.segment import SegmentSource
from pfs._read.present import Blocked
from pfs._read.samples import BUSIEST, Choice, Row, Sample, Section, rows_between, take
from pfs._read.samples import SECTIONS as OF_PROCESS
from pfs._read.show import count_text, plain, rate_text, some, time_text
from pfs._ui.cli.top_roles import role_lines
from pfs.errors import Error

__all__ = ["TreeSampler"]

_SUMMED = OF_PROCESS[:3]  # waits, files, statements
_PROCESSES = Section("processes", OF_PROCESS[0].table, ("PID", "COMMAND"), untimed=OF_PROCESS[0].untimed)


class TreeSampler:
    """Samples all processes of a run, or of several runs, together. It is shown like a process.

    Processes that have ended count, too.
    """

    sections: Sequence[Section] = (*_SUMMED, _PROCESSES)

    def __init__(self, folder: str, root: int | None = None) -> None:
        self._folder, self._root = folder, root
        self.problem = ""
        self._last_minute = LastMinute()
        self._ended: dict[str, Sample] = {}  # by path: they change no more
        self._alive = self._ended_count = self._unknown = 0  # processes
        self._before: Sample | None = None
        self._after = self._take()
        if self.problem:
            raise Error(self.problem)
        self.remarks = self._finding()

    @property
    def blocked(self) -> Sequence[Blocked]:
        return self._after.blocked

    @property
    def roles(self) -> list[str]:
        return role_lines(self._before, self._after)

    def look(self) -> None:
        """Takes another sample. The screen keeps the last one when the run has ended."""
        sample = self._take()
        if not self.problem:
            self._before, self._after = self._after, sample
            self.remarks = self._finding()

    def _finding(self) -> list[str]:
        """Returns the lines of the worst finding."""
        return self._last_minute.worst(self._changing())

    def _changing(self) -> Iterator[SegmentSource]:
        """Yields the processes that have something to add to the last answer."""
        for node in trees(self._folder, self._root):
            if not self._last_minute.is_over(node.found.path):
                with suppress(Error), attach(node.found.path) as schema:  # it may have gone
                    assert isinstance(schema._source, SegmentSource)
                    yield schema._source

    def _take(self) -> Sample:
        total = Sample(time.monotonic(), {section.name: {} for section in self.sections}, {}, {}, 0)
        total.running = {section.name: {} for section in self.sections}
        nodes = trees(self._folder, self._root)
        self._alive = sum(is_alive(node.found.state) for node in nodes)
        self._ended_count = sum(node.found.state == "dead" for node in nodes)
        self._unknown = len(nodes) - self._alive - self._ended_count
        self.problem = "" if nodes else f"there is no process of pfs run in {self._folder}"
        for node in nodes:
            sample = self._ended.get(node.found.path)
            if sample is None:
                try:
                    with attach(node.found.path) as schema:
                        source = schema._source
                        assert isinstance(source, SegmentSource)
                        is_dead = node.found.state == "dead"  # as it was before the sample
                        sample = take(source, is_dead)
                except Error:  # it has gone meanwhile
                    continue
                if is_dead:
                    sample.blocked, sample.running = [], {}  # nothing waits now
                    self._ended[node.found.path] = sample
            _add(total, sample, node)
        return total

    @property
    def _seconds(self) -> float:
        if self._before is not None:
            return max(self._after.taken - self._before.taken, 1e-3)
        starts = [node.found.identity.started for node in trees(self._folder, self._root)]
        return max(time.time() - min(starts, default=0) / 1e6, 1e-3) if starts else 1.0

    def rows(self, section: Section, choice: Choice = BUSIEST) -> list[Row]:
        return rows_between(self._before, self._after, self._seconds, section, choice)

    def space(self, section: Section) -> tuple[int, int]:
        """Returns the longest name and the most rows."""
        rows = self.rows(section)
        return max([16, *(len(plain(row.name)) for row in rows)]), len(rows)

    def headline(self) -> str:
        """Returns the two lines of the headline."""
        waits = self.rows(self.sections[0])
        when = "since the start" if self._before is None else f"in {self._seconds:.1f} s"
        return (
            f"pfs top: {self._alive} running and {some(self._ended_count, 'ended process')}"
            + (f", and {self._unknown} whose state is not known," if self._unknown else "")
            + f" in {plain(self._folder)}"
            + (f" ({plain(self.problem)})" if self.problem else "")
            + f"\n{when}: {rate_text(sum(row.count for row in waits))} waits/s, "
            f"{time_text(int(sum(row.time for row in waits)))} waited/s, lost {count_text(self._after.lost)}"
        )


def _add(total: Sample, sample: Sample, node: Node) -> None:
    pid = node.found.identity.pid
    for section in _SUMMED:
        sums = total.sums[section.name]
        for key, numbers in sample.sums[section.name].items():
            sums[key] = [a + b for a, b in zip(sums[key], numbers, strict=True)] if key in sums else list(numbers)
        times = total.running[section.name]
        for key, passed in sample.running.get(section.name, {}).items():
            times[key] = times.get(key, 0) + passed
    waits = sample.sums["waits"].values()
    command = node.found.command[:60]
    if waits:
        total.sums["processes"][pid, command] = [sum(column) for column in zip(*waits, strict=True)]
    if running := sample.running.get("waits"):
        total.running["processes"][pid, command] = sum(running.values())
    for role, (threads, spent) in sample.times.items():
        of_others, others = total.times.get(role, (0, 0))
        total.times[role] = (of_others + threads, others + spent)
    total.lost += sample.lost
    total.blocked += [
        row._replace(
            thread=f"{row.thread} of process {pid}",
            holder_name=None if row.holder_name is None else f"{row.holder_name} of process {pid}",
        )
        for row in sample.blocked
    ]
