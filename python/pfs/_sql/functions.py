"""Functions of MySQL and of its schema sys that DuckDB has not, as macros."""

from __future__ import annotations

__all__ = ["MACROS", "macros_in"]

_TIMES = (
    *((86400_000000000000, "d"), (3600_000000000000, "h"), (60_000000000000, "min"), (1_000000000000, "s")),
    *((1000000000, "ms"), (1000000, "us"), (1000, "ns")),
)
_BYTES = tuple(
    (1 << (10 * power), unit) for power, unit in ((6, "EiB"), (5, "PiB"), (4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"))
)


def _case(units: tuple[tuple[int, str], ...], smallest: str, width: int) -> str:
    """Returns an expression that writes the number x with two decimals and its unit. A number below one unit is whole."""
    steps = " ".join(f"when abs(x) >= {size} then printf('%.2f {unit}', x::double / {size})" for size, unit in units)
    return f"case when x is null then null {steps} else printf('%{width}d {smallest}', x::bigint) end"


_TIME, _SIZE = _case(_TIMES, "ps", 3), _case(_BYTES, "bytes", 4)
_STATEMENT = "case when length(x) > 64 then x[:30] || ' ... ' || x[-30:] else x end"
MACROS = (
    f"create macro format_pico_time(x) as {_TIME}",
    f"create macro sys.format_time(x) as {_TIME}",
    f"create macro format_bytes(x) as {_SIZE}",
    f"create macro sys.format_bytes(x) as {_SIZE}",
    f"create macro format_statement(x) as {_STATEMENT}",
    f"create macro sys.format_statement(x) as {_STATEMENT}",
    "create macro sys.format_path(x) as x",
    "create macro sys.quote_identifier(x) as '`' || replace(x, '`', '``') || '`'",
    "create macro substring_index(x, mark, n) as case when n > 0 then array_to_string(string_split(x, mark)[:n], mark)"
    " when n < 0 then array_to_string(string_split(x, mark)[n:], mark) else '' end",
    "create macro unix_timestamp() as floor(epoch(now()))::bigint, (x) as epoch(x)",
)


def macros_in(text: str) -> list[str]:
    """Returns the macros whose names occur in a text. To make all of them takes longer than most questions."""
    small = text.lower()
    return [macro for macro in MACROS if macro.split("(", 1)[0].split()[-1].removeprefix("sys.") in small]
