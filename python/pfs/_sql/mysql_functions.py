"""Has what DuckDB calls functions of MySQL, for those that it lacks, or that mean something else there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp

from pfs._sql.mysql_times import TIMES, is_text, mysql_form
from pfs.errors import InvalidValue

__all__ = ["written"]

_SUNDAY = "(cast(x as date) - to_days(dayofweek(x)::int))"
# By name: the expression of DuckDB, whose x, y and z are the arguments.
_EXPRESSIONS = {
    "ACOS": "case when abs(x) <= 1 then acos(x) end",  # MySQL has neither infinity nor NaN
    "ASIN": "case when abs(x) <= 1 then asin(x) end",
    "BENCHMARK": "0",
    "CHARSET": "case when x is null then 'binary' else 'utf8mb4' end",
    "COERCIBILITY": "4",
    "COLLATION": "case when x is null then 'binary' else 'utf8mb4_0900_ai_ci' end",
    "CURRENT_ROLE": "'NONE'",
    "FIND_IN_SET": "coalesce(list_position(string_split(y, ','), x), 0)",
    "FROM_DAYS": "(date '1970-01-01' + to_days((x - 719528)::int))::date",
    "INET_ATON": "list_reduce(string_split(x, '.')::bigint[], lambda sum, byte: sum * 256 + byte)",
    "INET_NTOA": "concat_ws('.', x >> 24 & 255, x >> 16 & 255, x >> 8 & 255, x & 255)",
    "IS_IPV4": "regexp_full_match(x, '((25[0-5]|2[0-4]\\d|1?\\d?\\d)(\\.|$)){4}')",
    "JSON_ARRAYAGG": "json_group_array(x)",
    "JSON_CONTAINS": "json_contains(json_extract(x, z), y)",
    "JSON_CONTAINS_PATH": "json_exists(x, z)",
    "JSON_KEYS": "to_json(json_keys(x))::varchar",
    "JSON_LENGTH": "case json_type(x) when 'OBJECT' then len(json_keys(x)) else greatest(json_array_length(x)::int, 1) end",
    "JSON_QUOTE": "to_json(x::varchar)::varchar",
    "JSON_UNQUOTE": "x::json ->> '$'",
    "LN": "case when x > 0 then ln(x) end",
    "LOAD_FILE": "null::varchar",
    "LOG": "case when x > 0 and y > 0 then log(x, y) end",
    "MAKEDATE": "(make_date(x, 1, 1) + to_days(y - 1))::date",
    "MID": "substring(x, y, z)",
    "NAME_CONST": "y",
    "OCT": "printf('%o', x::bigint)",
    "OCTET_LENGTH": "strlen(x::varchar)",
    "ORD": "coalesce(('0x' || nullif(hex(left(x::varchar, 1)), ''))::bigint, case when x is not null then 0 end)",
    "PERIOD_ADD": "strftime(strptime(x::varchar, '%Y%m') + to_months(y), '%Y%m')::bigint",
    "PERIOD_DIFF": "(x // 100 * 12 + x % 100) - (y // 100 * 12 + y % 100)",
    "QUOTE": "'''' || replace(replace(x, '\\', '\\\\'), '''', '\\''') || ''''",
    "REGEXP_SUBSTR": "nullif(regexp_extract(x, y, 0, 'i'), '')",
    "SEC_TO_TIME": "to_seconds(x)",
    "SQRT": "case when x >= 0 then sqrt(x) end",
    "STD": "stddev_pop(x)",
    "SLEEP": "0",  # a statement that only waits would keep others from theirs
    "UUID": "uuid()::varchar",
    "STRCMP": "sign((lower(x) > lower(y))::int - (lower(x) < lower(y))::int)::bigint",
    # Named locks: each is free, because nobody needs to wait for another here.
    "GET_LOCK": "1",
    "IS_FREE_LOCK": "1",
    "IS_USED_LOCK": "null::bigint",
    "RELEASE_ALL_LOCKS": "0",
    "RELEASE_LOCK": "1",
}
# The same for functions of a time: a text as argument is one.
_OF_TIMES = {
    "DAYNAME": "dayname(x)",
    "DAY_OF_WEEK": "dayofweek(x) + 1",
    "LAST_DAY": "last_day(x)",
    "QUARTER": "quarter(x)",
    "TO_SECONDS": "(epoch(x) + 62167219200)::bigint",
    "UNIX_TIMESTAMP": "epoch(x)::bigint",
    "WEEK": "strftime(x, '%U')::bigint",
    "WEEKDAY": "(dayofweek(x) + 6) % 7",
    "YEARWEEK": f"year({_SUNDAY}) * 100 + strftime({_SUNDAY}, '%U')::bigint",
}
# And for those of a time of the day.
_OF_CLOCKS = {
    "ADDTIME": "x + y",
    "HOUR": "hour(x)",
    "MICROSECOND": "microsecond(x) % 1000000",
    "MINUTE": "minute(x)",
    "SECOND": "second(x)",
    "SUBTIME": "x - y",
    "TIMEDIFF": "x - y",
    "TIME_FORMAT": "strftime(timestamp '2000-01-01' + x, y)",
    "TIME_TO_SEC": "epoch(x)::bigint",
}
_CHANGES_OF_JSON = {"JSON_SET", "JSON_INSERT", "JSON_REPLACE"}
_SETS: tuple[tuple[dict[str, str], Callable[[str], str]], ...] = (
    (_EXPRESSIONS, lambda text: ""),
    (_OF_TIMES, lambda text: "TIMESTAMP"),
    (_OF_CLOCKS, lambda text: "" if "%" in text else "TIMESTAMP" if "-" in text[1:] else "INTERVAL"),
)
_LEAST = {"JSON_CONTAINS": 3, "JSON_CONTAINS_PATH": 3, "LOG": 2}  # arguments that the expression has; DuckDB knows fewer itself
_OF_LISTS = {"FIELD": "coalesce(list_position(y, x), 0)", "ELT": "list_extract(y, x::int)"}  # y: all arguments but the first


def written(node: Any) -> Any:
    """Returns the expression of DuckDB for a function, with its arguments as they are; the node itself if it needs none."""
    name = node.name.upper() if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else ""
    if type(node) in TIMES:
        made = TIMES[type(node)](node, _filled)
        if made is not node or name not in _OF_TIMES:
            return made
    if isinstance(node, exp.DateDiff):
        if node.expression.name == "0000-01-01":  # sqlglot's TO_DAYS is a day too late
            node.expression.this.set("this", "0000-01-02")
        return node
    if isinstance(node, exp.Length) and node.args.get("binary"):
        return exp.func("strlen", exp.cast(node.this, "text"))
    if isinstance(node, exp.UnixToTime) and (form := node.args.get("format")) is not None:
        node.set("format", None)
        return exp.TimeToStr(this=exp.cast(node, "timestamp"), format=form)
    if isinstance(node, exp.ConvertTimezone):
        for zone in ("source_tz", "target_tz"):
            node.set(zone, _zone(node.args.get(zone)))
        return node
    if isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.TEXT_TYPES) and node.to.expressions:
        return exp.Left(this=exp.cast(node.this, "text"), expression=exp.Literal.number(node.to.expressions[0].name))
    if isinstance(node, exp.Atan) and (other := node.args.get("expression")) is not None:
        return exp.func("atan2", node.this, other)
    if name in ("ADDDATE", "SUBDATE") and len(node.expressions) == 2:
        kind = exp.DateAdd if name == "ADDDATE" else exp.DateSub
        return TIMES[kind](kind(this=node.expressions[0], expression=node.expressions[1], unit=exp.var("DAY")), _filled)
    if (made := _of_json(node, name) or _of_text(node, name)) is not None:
        return made
    if name == "TIME_FORMAT" and len(node.expressions) == 2 and is_text(node.expressions[1]):
        node.expressions[1].set("this", mysql_form(node.expressions[1].name))
    if name in _LEAST and len(_arguments(node)) < _LEAST[name]:
        return node
    for known, kind_of in _SETS:
        if name in known:
            arguments = [_cast(each, kind_of) for each in _arguments(node)]
            return (
                _filled(known[name], dict(zip("xyz", arguments, strict=False))) if arguments or "x" not in known[name] else node
            )
    if name in _OF_LISTS:
        first, *rest = _arguments(node)
        return _filled(_OF_LISTS[name], {"x": first, "y": exp.Array(expressions=rest)})
    return node


def _of_json(node: Any, name: str) -> Any:
    """Returns what changes or reads a part of a JSON text; None for other functions."""
    if isinstance(node, exp.JSONValue):
        return exp.JSONExtractScalar(this=exp.cast(node.this, "json"), expression=node.args["path"])
    if name not in {*_CHANGES_OF_JSON, "JSON_REMOVE"}:
        return None
    this, *rest = _arguments(node)
    made: Any = exp.cast(this, "json")
    step = 1 if name == "JSON_REMOVE" else 2
    for place in range(0, len(rest) - step + 1, step):
        value = [exp.func("to_json", rest[place + 1], dialect="duckdb")] if step == 2 else []
        made = exp.Anonymous(this=name.lower(), expressions=[made, rest[place], *value])
    return exp.cast(made, "text")


def _of_text(node: Any, name: str) -> Any:
    """Returns what makes a text, or finds a part of it; None for other functions."""
    if isinstance(node, exp.Chr):
        return exp.func("concat", *(exp.Anonymous(this="chr", expressions=[each]) for each in node.expressions))
    if isinstance(node, exp.Substring) and isinstance(start := node.args.get("start"), exp.Literal) and start.name == "0":
        return exp.func("left", node.this, start)
    if isinstance(node, exp.NumberToStr) and not isinstance(node.this, exp.Cast):
        node.set("this", exp.cast(node.this, "double"))
        return node
    if isinstance(node, exp.RegexpInstr) and not isinstance(node.parent, exp.Cast):
        return exp.cast(node.copy(), "bigint")
    if isinstance(node, exp.SHA2) and node.text("length") not in ("", "0", "256"):
        raise InvalidValue(f"SHA2() has 256 bits here, not {node.text('length')}")
    return None


def _arguments(node: Any) -> list[Any]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    given = [node.this, *(node.expressions if node.args.get("expressions") else [node.args.get("expression")])]
    return [each.this if isinstance(each, exp.TsOrDsToDate) else each for each in given if each is not None]


def _zone(node: Any) -> Any:
    """Returns a zone of time as DuckDB has it: it knows no '+02:00', but hours with the other sign."""
    if not is_text(node):
        return node
    found = re.fullmatch(r"([+-])0?(\d{1,2}):00", node.name)
    if node.name.upper() == "SYSTEM" or (found and found[2] == "0"):
        return exp.Literal.string("UTC")
    return exp.Literal.string(f"Etc/GMT{'-' if found[1] == '+' else '+'}{found[2]}") if found else node


def _cast(node: Any, kind_of: Callable[[str], str]) -> Any:
    kind = kind_of(node.name) if is_text(node) else ""
    return exp.TryCast(this=node, to=exp.DataType.build(kind, dialect="duckdb")) if kind else node


def _filled(text: str, parts: dict[str, Any]) -> Any:
    def change(part: Any) -> Any:
        is_parameter = isinstance(part, exp.Column) and not part.table and part.name in parts
        return exp.paren(parts[part.name].copy()) if is_parameter else part

    return exp.paren(sqlglot.parse_one(text, read="duckdb").transform(change))
