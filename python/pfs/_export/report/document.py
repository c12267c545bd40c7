"""The contents of a report to send."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._export.report.shared import cut
from pfs._process.run.contents import Listed, clean, contents
from pfs._process.run.report_json import as_json
from pfs._read.show import bytes_text, count_text, some, storable, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from pfs._export.report.sampled import Sampled
    from pfs._process.run.report import Report

__all__ = ["Document", "document"]

# What an event costs, picoseconds: docs/explanation/costs.md.
_PRICES = {"locks": 7_000, "waits": 60_000, "statements": 500_000}


@dataclass(slots=True)
class Document:
    """A report that is ready to be written. `cost`: a sentence on pfs itself, or "" if nobody knows."""

    title: str
    about: list[tuple[str, str]]
    report: Report
    parts: list[str | Listed]
    cost: str
    command: Sequence[str]
    code: int | None
    sampled: Sampled | None
    differences: list[str | Listed] = field(default_factory=list)

    def set_against(self, other: Document, limit: int) -> None:
        """Adds the differences from another document, which was earlier."""
        from pfs._export.report.against import compared, compared_samples

        self.about.append(("Against", ", ".join(text for name, text in other.about if name in ("Program", "Time", "Samples"))))
        if self.report.processes and other.report.processes:
            self.differences += compared(self.report, other.report, limit)
        if self.sampled is not None and other.sampled is not None:
            self.differences.append(compared_samples(self.sampled, other.sampled))
        self.report.read += other.report.read

    def all_parts(self, limit: int) -> list[str | Listed]:
        """Returns everything but the findings: first sentences, then the lists of the samples, then the other lists."""
        said = [part for part in self.parts if isinstance(part, str)]
        lists = [part for part in self.parts if isinstance(part, Listed)]
        samples = self.sampled.lists(limit) if self.sampled is not None else []
        return [*self.differences, *said, *samples, *lists, *filter(None, [self.cost])]

    def as_json(self, limit: int) -> dict[str, Any]:
        run = {"command": list(map(storable, self.command)), "exit_code": self.code} if self.command else {}
        return run | as_json(self.report, limit)


def document(
    report: Report,
    limit: int,
    everything: bool = False,
    command: Sequence[str] = (),
    code: int | None = None,
    samples: pd.DataFrame | None = None,
) -> Document:
    """Returns the contents of a report.

    Args:
        command, code: of a program that has just run.
        samples: what ``pfs.samples`` returns. Without a process in the report, the samples are all that is known.
    """
    found, told = None, {}
    if samples is not None:
        from pfs._export.report.sampled import sampled

        told = samples.attrs
        found = sampled(samples, _processors(told.get("node")))
    only_samples = found is not None and not report.processes
    host = str(told.get("node") or "") if only_samples else report.host
    commands = [str(told.get("program"))] if only_samples else [str(process["command"]) for process in report.processes]
    pids = [told.get("pid")] if only_samples else [process["pid"] for process in report.processes]
    program = clean(" ".join(command) if command else commands[0] if commands else "no process")
    about = [("Program", cut(program))]
    if len(pids) > 1:
        about.append(("Processes", count_text(len(pids))))
    elif pids:
        about.append(("Process", str(pids[0])))
    if report.facts.began:
        began, ended = min(report.facts.began), max(report.facts.ended)
        wall = report.took.wall if report.took is not None else (ended - began) * 1_000_000
        about.append(("Time", f"{_moment(began / 1e6)} to {_moment(ended / 1e6)} UTC, {time_text(wall)}"))
    if found is not None:
        begin, end = found.begin.timestamp(), found.begin.timestamp() + found.seconds
        about.append(("Samples", f"{_moment(begin)} to {_moment(end)} UTC, {time_text(round(found.seconds * 1e12))}"))
    if code is not None:
        about.append(("Exit code", str(code)))
    if processors := _processors(host):
        here = os.uname()
        about.append(("Host", f"{host}, {some(processors, 'processor')}, {here.sysname} {here.release}"))
    elif host:
        about.append(("Host", clean(host)))
    about.append(("Made by", f"pfs {_core.__version__}"))
    parts = [] if only_samples else contents(report, limit, everything)
    cost = _cost(report) if report.processes else ""
    return Document(f"pfs report: {cut(program, 80)}", about, report, parts, cost, command, code, found)


def _processors(host: str | None) -> int:
    """Returns how many processors a host has; 0 if it is another one."""
    return (os.cpu_count() or 1) if host == os.uname().nodename else 0


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _cost(report: Report) -> str:
    """Returns a sentence on what pfs itself cost."""
    locks = sum(count for count, *_ in report.locks.values())
    statements = sum(count for count, *_ in report.statements.values())
    waits = max(0, sum(process["events"] for process in report.processes) - locks)
    about = locks * _PRICES["locks"] + waits * _PRICES["waits"] + statements * _PRICES["statements"]
    events = some(locks + waits + statements, "event")
    said = [f"pfs cost about {time_text(about)} of processors for {events}, at their usual prices"]
    said += [f"and {bytes_text(report.segments)} of memory"] if report.segments else []
    measured = (
        f" The ceiling reckons {max(report.overhead.values()) / 1e4:.2g} % of the processor time." if report.overhead else ""
    )
    return f"{', '.join(said)}.{measured}{'' if report.lost else ' No event was lost.'}"
