"""Says at which lines of the program the events of a test were: SOURCE of the events that events_*_history_long still hold."""

from __future__ import annotations

from pfs._read import show
from pfs._read.source import OWN
from pfs._ui.testing.totals import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pfs._read.source import Source
    from pfs._ui.testing.totals import Totals

    Lines = Callable[[Sequence[str]], str]

__all__ = ["lines_of"]

_KINDS = {"stage": "stages", "statement": "statements", "transaction": "transactions"}  # all others are waits
_COLUMNS = ("EVENT_NAME", "SOURCE", "TIMER_START", "TIMER_WAIT")
_MOST = 5


def lines_of(done: Callable[[], Totals], source: Source = OWN) -> Lines:
    """Returns a function that says where instruments had the events that `done` returns: those of this process, just now."""

    def lines(names: Sequence[str]) -> str:
        found: dict[str, list[int]] = {}  # by SOURCE: events, picoseconds
        counts = done().counts
        for name in names:
            events = counts[name][EVENTS] if name in counts else 0
            if not events:
                continue  # they were in children
            table = f"events_{_KINDS.get(name.partition('/')[0], 'waits')}_history_long"
            rows = [row for row in source.rows(table, _COLUMNS) if row[0] == name and row[1] is not None]
            for _, line, _, waited in sorted(rows, key=lambda row: row[2] or 0)[-events:]:  # the last ones are the test's
                numbers = found.setdefault(str(line), [0, 0])
                numbers[0] += 1
                numbers[1] += int(waited or 0)
        if not found:
            return ""
        most = sorted(found.items(), key=lambda item: (-item[1][1], item[0]))
        texts = [f"{source} ({show.some(n, 'event')}, {show.time_text(waited)})" for source, (n, waited) in most[:_MOST]]
        more = f" and {len(most) - _MOST} more lines" if len(most) > _MOST else ""
        return "\nat " + ", ".join(texts) + more

    return lines
