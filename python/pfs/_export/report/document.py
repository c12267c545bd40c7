"""The contents of a report to send."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._process.run.contents import Listed, clean, contents
from pfs._read.show import bytes_text, count_text, some, storable, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pfs._export.report.sampled import Sampled
    from pfs._process.run.report import Report

__all__ = ["LISTS", "Document", "cut", "document"]

# The lists of samples, in the order of the numbers of a key that follow its class.
LISTS = ("By event", "By statement", "By line", "By object", "By thread", "By what the holder of the lock does")
_LONGEST = 300  # characters of a name: some programs have a statement of a megabyte
# What an event costs, picoseconds: docs/explanation/costs.md.
_PRICES = {"locks": 7_000, "waits": 60_000, "statements": 500_000}


@dataclass(slots=True)
class Document:
    """A report that is ready to be written."""

    title: str
    about: list[tuple[str, str]]
    report: Report
    parts: list[str | Listed]
    command: Sequence[str]
    code: int | None
    sampled: Sampled | None = None

    def all_parts(self, limit: int) -> list[str | Listed]:
        """Returns the parts with the lists of the samples: first sentences, then samples, then the other lists."""
        more = self.sampled.lists(limit) if self.sampled is not None else []
        first = next((number for number, part in enumerate(self.parts) if not isinstance(part, str)), len(self.parts) - 1)
        return [*self.parts[:first], *more, *self.parts[first:]]

    def as_json(self, limit: int) -> dict[str, Any]:
        run = {"command": list(map(storable, self.command)), "exit_code": self.code} if self.command else {}
        return run | self.report.as_json(limit)


def document(
    report: Report, limit: int, everything: bool = False, command: Sequence[str] = (), code: int | None = None
) -> Document:
    """Returns the contents of a report. `command` and `code`: of a program that has just run."""
    commands = [str(process["command"]) for process in report.processes]
    program = clean(" ".join(command) if command else commands[0] if commands else "no process")
    about = [("Program", cut(program))]
    if len(commands) > 1:
        about.append(("Processes", count_text(len(commands))))
    elif report.processes:
        about.append(("Process", str(report.processes[0]["pid"])))
    if report.facts.began:
        began, ended = min(report.facts.began), max(report.facts.ended)
        wall = report.took.wall if report.took is not None else (ended - began) * 1_000_000
        about.append(("Time", f"{_moment(began)} to {_moment(ended)} UTC, {time_text(wall)}"))
    if code is not None:
        about.append(("Exit code", str(code)))
    here = os.uname()
    if report.host == here.nodename:
        about.append(("Host", f"{here.nodename}, {some(os.cpu_count() or 1, 'processor')}, {here.sysname} {here.release}"))
    elif report.host:
        about.append(("Host", clean(report.host)))
    about.append(("Made by", f"pfs {_core.__version__}"))
    parts = [*contents(report, limit, everything), _cost(report)]
    return Document(f"pfs report: {cut(program, 80)}", about, report, parts, command, code)


def _moment(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M:%S}"


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


def cut(text: str, most: int = _LONGEST) -> str:
    """Returns the beginning of a long text."""
    return text if len(text) <= most else text[: most - 1] + "…"
