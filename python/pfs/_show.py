"""Small tables as text and as HTML, without pandas."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_LIMIT = 60


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)


def _cut(rows: Sequence[Sequence[object]], limit: int) -> tuple[Sequence[Sequence[object]], str]:
    if len(rows) <= limit:
        return rows, f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    return rows[:limit], f"{limit} of {len(rows)} rows; .frame() gives them all"


def as_text(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], limit: int = _LIMIT) -> str:
    """A table of fixed-width text; numbers are aligned to the right."""
    shown, note = _cut(rows, limit)
    cells = [[_text(value) for value in row] for row in shown]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    numeric = [bool(shown) and all(isinstance(row[i], int) for row in shown) for i in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            text.rjust(width) if number else text.ljust(width) for text, width, number in zip(row, widths, numeric, strict=True)
        ).rstrip()

    return "\n".join([f"{title}: {note}", line(columns), line(["-" * width for width in widths]), *map(line, cells)])


def as_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], limit: int = _LIMIT) -> str:
    """The same as an HTML table for Jupyter."""
    from html import escape

    shown, note = _cut(rows, limit)
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(_text(value))}</td>" for value in row) + "</tr>" for row in shown
    )
    return (
        f"<div><table><caption style='text-align:left'><b>{escape(title)}</b>: {escape(note)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
