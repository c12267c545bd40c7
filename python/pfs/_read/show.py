"""Writes small tables, and numbers with units, as text and as HTML, without pandas."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_LIMIT = 60


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)


def _cut(rows: Sequence[Sequence[object]], limit: int) -> tuple[Sequence[Sequence[object]], str]:
    if len(rows) <= limit:
        return rows, some(len(rows), "row")
    return rows[:limit], f"{limit} of {some(len(rows), 'row')}; .frame() gives them all"


def as_text(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], limit: int = _LIMIT) -> str:
    """Returns a table of fixed-width text with the number of rows. Numbers are aligned to the right."""
    shown, note = _cut(rows, limit)
    return as_plain_text(f"{title}: {note}", columns, shown)


def as_plain_text(title: str, columns: Sequence[str], shown: Sequence[Sequence[object]]) -> str:
    """Returns a table of fixed-width text with all rows."""
    cells = [[_text(value) for value in row] for row in shown]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    numeric = [bool(shown) and all(isinstance(row[i], int) for row in shown) for i in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            text.rjust(width) if number else text.ljust(width) for text, width, number in zip(row, widths, numeric, strict=True)
        ).rstrip()

    return "\n".join([title, line(columns), line(["-" * width for width in widths]), *map(line, cells)])


def as_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], limit: int = _LIMIT) -> str:
    """Returns an HTML table for Jupyter with the number of rows."""
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


def some(count: int, noun: str) -> str:
    """Returns '1 process' or '1,200 processes'."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}"


def count_text(value: int) -> str:
    """Returns '12,345' for 12345."""
    return f"{value:,}"


def bytes_text(value: int) -> str:
    """Returns '2.0 KiB' for 2048."""
    if value < 1024:
        return f"{value:.0f} B"
    number = value / 1024
    for unit in ("KiB", "MiB"):
        if float(text := f"{number:.1f}") < 1024:  # as it is shown: 1023.96 KiB is 1.0 MiB
            return f"{text} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def rate_text(value: float) -> str:
    """Returns '0.25' for 0.25 and '12,346' for 12345.6."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def time_text(picoseconds: int | None) -> str:
    """Returns '1.5 µs' for 1500000, and '-' for None and pandas' NA."""
    try:
        number = float(picoseconds)  # type: ignore[arg-type]  # which is what fails for NULL
    except TypeError:
        return "-"
    if round(number) < 1000:
        return f"{number:.0f} ps"
    for unit, size in (("ns", 1e3), ("µs", 1e6), ("ms", 1e9), ("s", 1e12)):
        if float(text := f"{number / size:.3g}") < 1000:  # as it is shown: 999.7 ms is 1 s
            return f"{text} {unit}"
    return f"{number / 1e12:.0f} s"


def command_text(command: bytes) -> str:
    """Returns arguments that end with zero bytes as one line. Bytes that are no UTF-8 are shown as \\xNN."""
    return command.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "backslashreplace")


def plain(text: str) -> str:
    """Returns text without escape sequences, which other programs may have written and a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(9), *range(11, 32), *range(127, 160))}


def storable(text: str) -> str:
    """Returns a text that can be written as UTF-8: bytes of file names that are not UTF-8 become \\xNN."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def without_controls(text: str) -> str:
    """Returns text whose control characters are shown as \\xNN. Tabs and ends of lines stay, for a file may need them."""
    return text.translate(_CONTROLS)
