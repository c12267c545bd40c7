"""Draws events of threads as a picture: one lane per thread, time from left to right."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pfs._base import paths
from pfs._export.plot.kinds import kind_of
from pfs._read.show import some, time_text
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Timeline", "timeline"]

_WIDTH, _LANE, _LEFT, _TOP, _BOTTOM = 900, 26, 190, 30, 26
_MOST_EVENTS = 3000
_NEEDED = ("THREAD_ID", "EVENT_NAME", "TIMER_START", "TIMER_WAIT")
# By what the picture says of a color: the variable of Jupyter's themes.
_THEMED = {
    'fill="black"': "--jp-ui-font-color1",
    'fill="#555"': "--jp-ui-font-color2",
    'fill="white"': "--jp-layout-color0",
    'stroke="#ddd"': "--jp-border-color2",
}


class Timeline:
    """A picture of events, which a notebook shows. ``svg`` is its text."""

    def __init__(self, svg: str, events: int, drawn: int) -> None:
        self.svg = svg
        self.events, self.drawn = events, drawn

    def _repr_html_(self) -> str:
        """Returns the picture in the colors of the notebook's theme, which may be dark. A file has its own."""
        svg = self.svg
        for plain, color in _THEMED.items():
            name, _, value = plain.partition("=")
            themed = f"{name}:var({color},{value.strip(chr(34))})"
            svg = svg.replace(plain, f'style="{themed}"')
        return f"<div>{svg}</div>"

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<timeline of {self.drawn} of {self.events} events>"

    def save(self, path: str) -> None:
        """Writes the picture to a file, as SVG. Only its user can read a new file."""
        with paths.replaced(path) as file:
            file.write(self.svg.encode())


def timeline(
    events: pd.DataFrame, threads: dict[int, str] | None = None, begin: int | None = None, end: int | None = None
) -> Timeline:
    """Draws a frame of events. The cells of ``%%pfs`` show it."""
    missing = [name for name in _NEEDED if name not in events]
    if missing:
        raise InvalidValue(f"a timeline needs the columns {', '.join(_NEEDED)}: {', '.join(missing)} is missing")
    if events.attrs.get("unit", "ps") != "ps":
        raise InvalidValue(f"a timeline needs times in picoseconds, not in {events.attrs['unit']}: read the table without unit")
    timed = events.dropna(subset=["TIMER_START", "TIMER_WAIT"])
    rows = [
        (int(thread), str(name), int(start), int(wait), str(source))
        for thread, name, start, wait, source in zip(
            timed["THREAD_ID"],
            timed["EVENT_NAME"],
            timed["TIMER_START"],
            timed["TIMER_WAIT"],
            timed["SOURCE"] if "SOURCE" in timed else [""] * len(timed),
            strict=True,
        )
        if (end is None or start < end) and (begin is None or start + wait > begin)
    ]
    count = len(rows)
    # The longest events of the whole picture, so that no lane that waited long is empty.
    rows = sorted(sorted(rows, key=lambda row: -row[3])[:_MOST_EVENTS], key=lambda row: row[2])
    if not rows:
        return Timeline(_svg([], {}, 0, 1), 0, 0)
    first = begin if begin is not None else min(row[2] for row in rows)
    last = end if end is not None else max(row[2] + row[3] for row in rows)
    return Timeline(_svg(rows, threads or {}, first, max(last, first + 1)), count, len(rows))


def _alternative(rows: list[tuple[int, str, int, int, str]], lanes: int, span: int) -> str:
    """Returns what the picture shows, for a reader who does not see it."""
    return escape(f"{some(len(rows), 'event')} of {some(lanes, 'thread')} in {time_text(span)}")


def _svg(rows: list[tuple[int, str, int, int, str]], names: dict[int, str], first: int, last: int) -> str:
    lanes = {thread: lane for lane, thread in enumerate(sorted({row[0] for row in rows}))}
    height = _TOP + max(1, len(lanes)) * _LANE + _BOTTOM
    scale = (_WIDTH - _LEFT - 10) / (last - first)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="black" role="img" '
        f'aria-label="{_alternative(rows, len(lanes), last - first)}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    x = float(_LEFT)
    for title, color in dict.fromkeys(kind_of(row[1]) for row in rows):
        parts.append(f'<rect x="{x:.0f}" y="8" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{x + 16:.0f}" y="18">{title}</text>')
        x += 30 + 7 * len(title)
    for thread, lane in lanes.items():
        y = _TOP + lane * _LANE
        label = f"{thread} {names[thread]}" if names.get(thread) else f"thread {thread}"
        label = label if len(label) <= 27 else "…" + label[-26:]
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y + _LANE}" y2="{y + _LANE}" stroke="#ddd"/>')
    for thread, name, start, wait, source in rows:
        left = _LEFT + max(0.0, (start - first) * scale)
        right = min(_WIDTH - 10.0, _LEFT + (start + wait - first) * scale)
        tip = escape(f"{name} {time_text(wait)} {source if source not in ('<NA>', 'nan') else ''}".strip())
        y, width, color = _TOP + lanes[thread] * _LANE + 3, max(0.8, right - left), kind_of(name)[1]
        parts.append(
            f'<rect x="{left:.2f}" y="{y}" width="{width:.2f}" height="{_LANE - 6}" fill="{color}" fill-opacity="0.8">'
            f"<title>{tip}</title></rect>"
        )
    for step in range(6):
        at = _LEFT + (_WIDTH - 10 - _LEFT) * step / 5
        anchor, time = "end" if step == 5 else "middle", time_text((last - first) * step // 5) if step else "0"
        parts.append(f'<text x="{at:.0f}" y="{height - 8}" text-anchor="{anchor}" fill="#555">{time}</text>')
    if not rows:
        parts.append(f'<text x="{_LEFT}" y="{_TOP + 17}" fill="#555">no timed events</text>')
    return "".join([*parts, "</svg>"])
