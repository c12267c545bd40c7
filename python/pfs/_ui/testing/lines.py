"""Says at which lines of the program the events of a test were: SOURCE of the events that events_*_history_long still hold."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from pfs._read import show
from pfs._read.source import OWN
from pfs._ui.testing.totals import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pfs._read.source import Source
    from pfs._ui.testing.totals import Totals

    Lines = Callable[[Sequence[str]], Sequence["Line"]]

__all__ = ["Line", "file_of", "lines_of", "text_of"]

_KINDS = {"stage": "stages", "statement": "statements", "transaction": "transactions"}  # all others are waits
_COLUMNS = ("EVENT_NAME", "SOURCE", "TIMER_START", "TIMER_WAIT")
_MOST = 5


@dataclass(slots=True)
class Line:
    """A line of the program, ``orders.py:41``, with its events and their picoseconds."""

    source: str
    events: int = 0
    waited: int = 0


def lines_of(done: Callable[[], Totals], source: Source = OWN) -> Lines:
    """Returns a function that says where instruments had the events that `done` returns: those of this process, just now. The
    line that waited longest comes first, and places that no person knows come last."""

    def lines(names: Sequence[str]) -> Sequence[Line]:
        found: dict[str, Line] = {}
        counts = done().counts
        for name in names:
            events = counts[name][EVENTS] if name in counts else 0
            if not events:
                continue  # they were in children
            table = f"events_{_KINDS.get(name.partition('/')[0], 'waits')}_history_long"
            rows = [row for row in source.rows(table, _COLUMNS) if row[0] == name and row[1] is not None]
            for _, place, _, waited in sorted(rows, key=lambda row: row[2] or 0)[-events:]:  # the last ones are the test's
                line = found.setdefault(str(place), Line(str(place)))
                line.events += 1
                line.waited += int(waited or 0)
        return sorted(found.values(), key=lambda line: ("+0x" in line.source, -line.waited, line.source))

    return lines


def text_of(lines: Sequence[Line]) -> str:
    if not lines:
        return ""
    texts = [f"{line.source} ({show.some(line.events, 'event')}, {show.time_text(line.waited)})" for line in lines[:_MOST]]
    more = f" and {len(lines) - _MOST} more lines" if len(lines) > _MOST else ""
    return "\nat " + ", ".join(texts) + more


def file_of(line: Line, below: str) -> tuple[str, int] | None:
    """Returns the file of a line, relative to the folder `below`, and its number. None if no module there or several have that
    name: SOURCE has no folder."""
    name, _, number = line.source.rpartition(":")
    files = {str(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    found = [os.path.relpath(file, below) for file in files if os.path.basename(file) == name]
    found = [file for file in found if not file.startswith(os.pardir) and "site-packages" not in file.split(os.sep)]
    return (found[0], int(number)) if len(found) == 1 and number.isdigit() else None
