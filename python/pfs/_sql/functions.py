"""Functions of MySQL and of its schema sys that DuckDB has not, as macros."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["MACROS", "MYSQL", "body_of", "macros_named"]

MYSQL = (8, 4, 0)  # the version whose tables pfs has

_PICO = (
    *((86400_000000000000, "d"), (3600_000000000000, "h"), (60_000000000000, "min"), (1_000000000000, "s")),
    *((1000000000, "ms"), (1000000, "us"), (1000, "ns")),
)
_BYTES = tuple(
    (1 << (10 * power), unit) for power, unit in ((6, "EiB"), (5, "PiB"), (4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"))
)


def _case(units: Iterable[tuple[int, str]], smallest: str) -> str:
    """Returns an expression that writes the number x with two decimals and its unit. A number below one unit is whole."""
    steps = " ".join(f"when abs(x) >= {size} then printf('%.2f {unit}', x::double / {size})" for size, unit in units)
    return f"case when x is null then null {steps} else printf('{smallest}', x::bigint) end"


def _found(table: str, key: str, value: str) -> str:
    """Returns an expression for the value of the row whose key is x.

    The subquery does not name x: an argument like THREAD_ID would mean the column of this table there.
    """
    return f"(select map(list({key}), list({value})) from performance_schema.{table} where {key} is not null)[x]"


# A consumer acts if all that it depends on act, too: cpp/src/base/consumers.h.
_CONSUMER = (
    "case when x is null then null"
    " when not list_contains((select list(NAME) from performance_schema.setup_consumers), lower(x))"
    " then error('unknown consumer ''' || x || '''')"
    " when list_has_all((select list(NAME) from performance_schema.setup_consumers where ENABLED = 'YES'), [lower(x),"
    " 'global_instrumentation'] || case when regexp_matches(x, '^events_[a-z]+_(current|history)', 'i')"
    " then ['thread_instrumentation', regexp_replace(lower(x), '_history(_long)?$', '_current')] else [] end)"
    " then 'YES' else 'NO' end"
)
# Every instrument is on by default, and timed unless it counts memory or errors.
_INSTRUMENT = (
    "case when list_contains((select list(NAME) from performance_schema.setup_instruments), x){timed} then 'YES' else 'NO' end"
)

# Names with their parameters, by what they stand for. A parameter is no name of a column: DuckDB would replace the column.
_MACROS = {
    "format_pico_time(x)": _case(_PICO, "%3d ps"),
    "format_bytes(x)": _case(_BYTES, "%4d bytes"),
    "ps_thread_id(x)": _found("threads", "PROCESSLIST_ID", "THREAD_ID"),
    "substring_index(x, mark, n)": "case when n > 0 then array_to_string(string_split(x, mark)[:n], mark)"
    " when n < 0 then array_to_string(string_split(x, mark)[n:], mark) else '' end",
    "sys.extract_schema_from_file_name(x)": "nullif(regexp_extract(x, '([^/]+)/[^/]+$', 1), '')",
    "sys.extract_table_from_file_name(x)": "regexp_extract(x, '([^/]+?)(\\.[^./]*)?$', 1)",
    # The functions of sys have other units than those of MySQL itself, and do not align.
    "sys.format_bytes(x)": _case(_BYTES[1:], "%d bytes"),
    "sys.format_path(x)": "x",
    "sys.format_statement(x)": "case when length(x) > 64 then x[:30] || ' ... ' || x[-30:] else x end",
    "sys.format_time(x)": _case(
        [(604800_000000000000, "w"), *((size, unit.replace("min", "m")) for size, unit in _PICO)], "%d ps"
    ),
    "sys.ps_is_consumer_enabled(x)": _CONSUMER,
    "sys.ps_is_instrument_default_enabled(x)": _INSTRUMENT.format(timed=""),
    "sys.ps_is_instrument_default_timed(x)": _INSTRUMENT.format(timed=" and not regexp_matches(x, '^(memory/|error$)')"),
    "sys.ps_is_thread_instrumented(x)": "case when x is not null then coalesce("
    + _found("threads", "PROCESSLIST_ID", "INSTRUMENTED")
    + ", 'UNKNOWN') end",
    "sys.ps_thread_account(x)": _found("threads", "THREAD_ID", "PROCESSLIST_USER || '@' || PROCESSLIST_HOST"),
    "sys.ps_thread_id(x)": _found("threads", "PROCESSLIST_ID", "THREAD_ID"),
    "sys.quote_identifier(x)": "'`' || replace(x, '`', '``') || '`'",
    **{f"sys.version_{part}()": str(number) for part, number in zip(("major", "minor", "patch"), MYSQL, strict=True)},
}
MACROS = {
    **{name: f"create macro {name} as {body}" for name, body in _MACROS.items()},
    "unix_timestamp(x)": "create macro unix_timestamp() as floor(epoch(now()))::bigint, (x) as epoch(x)",
}
_BY_NAME: dict[str, list[str]] = {}
for _signature in MACROS:
    _BY_NAME.setdefault(_signature.partition("(")[0].removeprefix("sys."), []).append(_signature)


def macros_named(functions: Iterable[str]) -> list[str]:
    """Returns the macros of these functions. To make all of them takes longer than most questions."""
    return [signature for function in sorted(functions) for signature in _BY_NAME.get(function, ())]


def body_of(signature: str) -> str:
    """Returns the expression of a macro that reads tables; "" for others."""
    body = _MACROS.get(signature, "")
    return body if "performance_schema." in body else ""
