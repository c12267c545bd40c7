"""Draws the history of the row that a user of ``pfs top`` has opened."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from pfs._read.past import HEADINGS, Past
from pfs._read.show import count_text, plain, some, time_text

__all__ = ["cut", "past_screen"]

_NOTHING = "The history has none of its events: a lock that was free and a wait that is only counted leave none."
_MOST_LINE = 44  # columns of a line of code: its end tells more


def past_screen(section: str, name: str, past: Past, width: int, height: int) -> list[Text]:
    """Returns `height` lines of at most `width`: the name, its lines of code, and its last events."""
    what, more = HEADINGS[section]
    ages = [event.ago for event in past.events if event.ago is not None]
    since = f" of the last {time_text(max(ages))}" if ages else ""
    title = plain(name.replace("thread/", "")) if section == "threads" else plain(name)
    title = title if section == "waits" else f"{section[:-1]} {title}"
    shown = [Text(cut(title, width, keeps_end=section != "statements"), style="bold")]
    if not past.events:
        shown += [Text(""), Text(_NOTHING[:width])]
        return [*shown, *(Text("") for _ in range(height - len(shown)))][:height]
    by_line = [
        (time_text(line.time), count_text(line.count), time_text(line.longest), line.what, line.line) for line in past.lines
    ]
    most = max(1, min(len(by_line), height // 3 - 2))
    shown.append(Text(f"{some(len(past.events), 'event')}{since}, {some(len(by_line), 'line')}"[:width]))
    shown += _grid(("time", "events", "longest", what, "line"), by_line[:most], 3, width)
    shown.append(Text(""))
    last = [
        ("now" if event.is_running else time_text(event.ago), time_text(event.time), event.what, event.line, event.more)
        for event in past.events
    ]
    shown += _grid(("ago", "took", what, "line", more), last[: max(0, height - len(shown) - 1)], 2, width)
    return [*shown, *(Text("") for _ in range(height - len(shown)))][:height]


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: int, width: int) -> list[Text]:
    """Returns a heading and the rows. The first `numbers` columns are numbers; the texts share the rest of the width."""
    texts = [headings, *([plain(text) for text in row] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(headings))]
    left = width - sum(widths[:numbers]) - 2 * (len(headings) - 1)
    given = []
    for at in range(numbers, len(headings)):
        most = left if at == len(headings) - 1 else max(8, left // (len(headings) - at))
        if headings[at] == "line":
            most = min(_MOST_LINE, max(most, min(24, left)))
        given.append(max(0, min(widths[at], most)))
        left -= given[-1]
    drawn = []
    for row in texts:
        cells = [f"{text:>{widths[at]}}" for at, text in enumerate(row[:numbers])]
        for text, space, heading in zip(row[numbers:], given, headings[numbers:], strict=True):
            cells.append(f"{cut(text, space, keeps_end=heading not in ('text', 'operation')):<{space}}")
        drawn.append(Text("  ".join(cells)[:width]))
    drawn[0] = Text(f"{drawn[0].plain:<{width}}", style="bold reverse")
    return drawn


def cut(text: str, width: int, keeps_end: bool) -> str:
    """Returns a text that fits the width: without its beginning, or without its end."""
    if len(text) <= width:
        return text
    if width < 2:
        return text[:width]
    return "…" + text[len(text) - width + 1 :] if keeps_end else text[: width - 1] + "…"
