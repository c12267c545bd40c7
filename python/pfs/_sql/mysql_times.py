"""Has what DuckDB calls functions of MySQL about times, as far as a name and an expression do not say it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

__all__ = ["TIMES", "is_text", "moved", "mysql_form"]

_DAYS = {"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND")
_MOMENT = "%Y-%m-%d %H:%M:%S"
# By two units: the expression of DuckDB for EXTRACT, whose x is the time.
_OF_TWO = {
    "YEAR_MONTH": "year(x) * 100 + month(x)",
    "DAY_HOUR": "day(x) * 100 + hour(x)",
    "DAY_MINUTE": "day(x) * 10000 + hour(x) * 100 + minute(x)",
    "DAY_SECOND": "day(x) * 1000000 + hour(x) * 10000 + minute(x) * 100 + second(x)",
    "HOUR_MINUTE": "hour(x) * 100 + minute(x)",
    "HOUR_SECOND": "hour(x) * 10000 + minute(x) * 100 + second(x)",
    "MINUTE_SECOND": "minute(x) * 100 + second(x)",
}
_MONTHS = "((year(y) - year(x)) * 12 + month(y) - month(x))"
_REST = "((y - date_trunc('month', y)) < (x - date_trunc('month', x)))::bigint"
_BEFORE = "((y - date_trunc('month', y)) > (x - date_trunc('month', x)))::bigint"
# Whole months from x to y. DuckDB's date_sub() takes the last day of a month for a whole one.
_WHOLE_MONTHS = f"(case when y >= x then {_MONTHS} - {_REST} else {_MONTHS} + {_BEFORE} end)"
_ISO_OR_ENDS = "case when isoyear(x) < year(x) then 0 when isoyear(x) > year(x) then 53 else weekofyear(x) end"
_FORMS = {"i": "%M", "s": "%S", "k": "%-H", "l": "%-I", "h": "%I", "r": "%I:%M:%S %p", "T": "%H:%M:%S"}
_OF_CLOCK = re.compile("%-?[HIMSfp]")
_DAY_MARK = "\1"  # stands for the day with its ending, which DuckDB does not know

Fill = Callable[[str, dict[str, Any]], Any]


def is_text(node: Any) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def moved(this: Any, value: Any, unit: str, back: bool) -> Any:
    """Returns a time plus or minus an interval. A date plus days is a date. A text gets the form in which it is shown."""
    has_form = is_text(this)
    span = _span(value, unit)
    is_date = not has_form and unit in _DAYS and _is_date(this)
    start = exp.TryCast(this=this, to=exp.DataType.build("timestamp")) if has_form else this
    made: Any = exp.paren((exp.Sub if back else exp.Add)(this=start, expression=span))
    if is_date:
        return exp.cast(made, "date")
    if has_form:
        has_clock = ":" in this.name or unit.rpartition("_")[2] not in _DAYS
        form = _MOMENT + (".%f" if "." in this.name or "MICROSECOND" in unit else "") if has_clock else _MOMENT[:8]
        made.meta["form"] = form
    return made


def _is_date(node: Any) -> bool:
    if isinstance(node, exp.Paren):
        return _is_date(node.this)
    return isinstance(node, exp.CurrentDate) or (isinstance(node, exp.Cast) and node.to.is_type("date"))


def _span(value: Any, unit: str) -> Any:
    """Returns an interval of DuckDB. It knows none of two units, such as '1:30' MINUTE_SECOND."""
    first, _, last = unit.partition("_")
    if not last:
        plain = exp.Literal.number(value.name) if _is_whole(value) else exp.paren(value.copy())
        return exp.Interval(this=plain, unit=exp.var(unit))
    units = _UNITS[_UNITS.index(first) : _UNITS.index(last) + 1]
    numbers = re.findall(r"\d+", value.name)[-len(units) :]
    sign = "-" if value.name.lstrip().startswith("-") else ""
    parts = [
        exp.Interval(this=exp.Literal.number(f"{sign}{number}"), unit=exp.var(each))
        for number, each in zip(numbers, units[-len(numbers) :], strict=True)
    ]
    made: Any = parts[0] if parts else exp.Interval(this=exp.Literal.number(0), unit=exp.var("DAY"))
    for part in parts[1:]:
        made = exp.Add(this=made, expression=part)
    return exp.paren(made)


def _is_whole(value: Any) -> bool:
    return isinstance(value, exp.Literal) and value.name.lstrip("-").isdecimal()


def _added(node: Any, fill: Fill) -> Any:
    back = isinstance(node, exp.DateSub)
    value = node.expression
    unit = node.text("unit").upper() or "DAY"
    if isinstance(value, exp.Interval):
        value, unit = value.this, value.text("unit").upper()
    return moved(node.this, value, unit, back) if unit.partition("_")[0] in {*_UNITS, *_DAYS} else node


def _extracted(node: Any, fill: Fill) -> Any:
    unit, text = node.this.name.upper(), node.expression
    if is_text(text):
        kind = "timestamp" if "-" in text.name[1:] else "interval"
        text = exp.TryCast(this=text, to=exp.DataType.build(kind, dialect="duckdb"))
        node.set("expression", text)
    return fill(_OF_TWO[unit], {"x": text}) if unit in _OF_TWO else node


def _difference(node: Any, fill: Fill) -> Any:
    """Returns whole units: DuckDB's date_diff() counts their borders."""
    end, start = (_moment(each) for each in (node.this, node.expression))
    unit = node.text("unit").upper()
    parts = {"x": exp.cast(start, "timestamp"), "y": exp.cast(end, "timestamp")}
    months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}.get(unit)
    if months is None:
        return exp.Anonymous(this="date_sub", expressions=[exp.Literal.string(unit), start, end])
    return fill(f"trunc({_WHOLE_MONTHS} / {months})::bigint", parts)


def _moment(node: Any) -> Any:
    return exp.TryCast(this=node, to=exp.DataType.build("timestamp")) if is_text(node) else node


def _week(node: Any, fill: Fill) -> Any:
    mode = node.args.get("mode")
    this = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
    if mode is None or mode.name not in ("1", "3"):
        return node
    return fill("weekofyear(x)" if mode.name == "3" else _ISO_OR_ENDS, {"x": _moment(this)})


def _formatted(node: Any, fill: Fill) -> Any:
    """Returns DATE_FORMAT() with %D, such as 3rd."""
    form = node.args["format"]
    this = node.this.this if isinstance(node.this, exp.TsOrDsToTimestamp) else node.this
    if not (isinstance(form, exp.Literal) and "%D" in form.name):
        if _moment(this) is not this:
            node.set("this", _moment(this))
        return node
    day = "day(x)::varchar || case when day(x) in (11, 12, 13) then 'th' else coalesce(['st', 'nd', 'rd'][day(x) % 10], 'th') end"
    text = exp.Literal.string(form.name.replace("%D", _DAY_MARK))
    return fill(f"replace(strftime(x, y), '{_DAY_MARK}', {day})", {"x": _moment(this), "y": text})


def _parsed(node: Any, fill: Fill) -> Any:
    """Returns STR_TO_DATE(): NULL for a text of another form; a date, a time of the day, or both."""
    form = node.args["format"]
    found: Any = exp.Anonymous(this="try_strptime", expressions=[node.this, form])
    if not is_text(form):
        return found
    has_day = bool(re.search("%-?[YymdbBj]", form.name))
    has_clock = bool(_OF_CLOCK.search(form.name))
    kind = "timestamp_s" if has_day and has_clock and "%f" not in form.name else "timestamp" if has_day and has_clock else ""
    return exp.cast(found, exp.DataType.build(kind or ("time" if has_clock else "date"), dialect="duckdb"))


def _date(node: Any, fill: Fill) -> Any:
    return exp.TryCast(this=node.this, to=exp.DataType.build("date"))


def _time(node: Any, fill: Fill) -> Any:
    """Returns TIME(): a text without a day may have more than 24 hours."""
    this = node.this
    is_span = is_text(this) and "-" not in this.name[1:]
    kind = "interval" if is_span else "time"
    return exp.TryCast(this=this if is_span else _moment(this), to=exp.DataType.build(kind, dialect="duckdb"))


def _clock(node: Any, fill: Fill) -> Any:
    parts = {"x": node.args["hour"], "y": node.args["min"], "z": node.args["sec"]}
    return fill("to_hours(x) + to_minutes(y) + to_seconds(z)", parts)


TIMES: dict[type[Any], Callable[[Any, Fill], Any]] = {
    exp.DateAdd: _added,
    exp.DateSub: _added,
    exp.TimestampAdd: _added,
    exp.Extract: _extracted,
    exp.TimestampDiff: _difference,
    exp.Week: _week,
    exp.TimeToStr: _formatted,
    exp.StrToDate: _parsed,
    exp.StrToTime: _parsed,
    exp.TsOrDsToDate: _date,
    exp.Time: _time,
    exp.TimeFromParts: _clock,
}


def mysql_form(form: str) -> str:
    """Returns a format of a time of the day as DuckDB has it."""
    return re.sub("%([isklhrT])", lambda found: _FORMS[found[1]], form)
