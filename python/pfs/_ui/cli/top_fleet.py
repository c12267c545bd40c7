"""Samples for ``pfs top --fleet``: what the processes of many hosts did between the last two cuts."""

from __future__ import annotations

import time
from typing import Any

from pfs._many.fleet import fleet as fleets
from pfs._read.present import Blocked
from pfs._read.samples import UNTIMED, Choice, Row, Section
from pfs._read.show import plain, some
from pfs.errors import Error

__all__ = ["FleetSampler"]

_WAITS = "events_waits_summary_global_by_event_name"
_STATEMENTS = "events_statements_summary_by_digest"
SECTIONS = (
    Section("waits", _WAITS, ("EVENT_NAME",), untimed=UNTIMED),
    Section("nodes", _WAITS, ("NODE",), untimed=UNTIMED),
    Section("statements", _STATEMENTS, ("SCHEMA_NAME", "DIGEST_TEXT"), {"rows/s": "SUM_ROWS_SENT", "errors/s": "SUM_ERRORS"}),
    Section("processes", _WAITS, ("NODE", "PID", "COMMAND"), untimed=UNTIMED),
)


class FleetSampler:
    """Samples a folder of cuts. It is shown like a process. A node without two cuts has no rates."""

    sections = SECTIONS
    blocked: tuple[Blocked, ...] = ()

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.problem = ""
        self.remarks: list[str] = []
        self.roles: list[str] = []
        self._numbers: dict[str, int] = {}
        self._seen: dict[str, float] = {}  # when its newest cut came, by our clock: those of the nodes may differ
        self._rows: dict[str, list[Row]] = {}
        self._processes = 0
        self.look()
        if self.problem:
            raise Error(self.problem)

    def look(self) -> None:
        """Reads the folder again, if there are new cuts."""
        try:
            fleet = fleets.read(self._folder)
            numbers = {row[0]: row[1] for row in fleet.sql("select NODE, CUT from fleet.nodes").rows()}
            now = time.monotonic()
            for node, number in numbers.items():
                if self._numbers.get(node) != number:
                    self._seen[node] = now
            if numbers != self._numbers:
                self._rows = {section.name: _rows(fleet, section) for section in SECTIONS}
                self._processes = len(fleet.processes)
                self._numbers = numbers
        except (Error, OSError) as error:
            self.problem = str(error)
        else:
            self.problem = ""

    def rows(self, section: Section, choice: Choice) -> list[Row]:
        return choice.of(self._rows[section.name])

    def space(self, section: Section) -> tuple[int, int]:
        """Returns the longest name and the most rows."""
        rows = self._rows[section.name]
        return max([16, *(len(plain(row.name)) for row in rows)]), len(rows)

    def headline(self) -> str:
        """Returns the two lines of the headline."""
        ages = [time.monotonic() - seen for seen in self._seen.values()]
        first = f"pfs top: {some(len(self._numbers), 'node')}, {some(self._processes, 'process')} in {plain(self._folder)}"
        if self.problem:
            first += f" ({plain(self.problem)})"
        return f"{first}\nbetween the last two cuts of each node; no new cut of some node for {max(ages, default=0):.0f} s"


def _rows(fleet: fleets.Fleet, section: Section) -> list[Row]:
    key = ", ".join(section.key)
    sums = ", ".join(f"sum({column})" for column in section.sums)
    of_processes = " join fleet.processes using (NODE, PID, START)" if "COMMAND" in section.key else ""
    idle = " where EVENT_NAME != 'idle'" if section.table == _WAITS else ""
    found = fleet.sql(f"select {key}, {sums} from rates.{section.table}{of_processes}{idle} group by {key}")
    width, last = len(section.key), len(section.key) + 2 + len(section.extras)
    return [
        Row(_name(row[:width]), row[width], row[width + 1], tuple(row[width + 2 : last]), untimed=sum(row[last:]))
        for row in found.rows()
    ]


def _name(key: tuple[Any, ...]) -> str:
    texts = [str(text) for text in key if text is not None]
    return " ".join(texts) if texts else "(all others)"
