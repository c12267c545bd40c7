"""Conditions on rows, and orders of rows: parts of SQL's WHERE and ORDER BY, for frames and for the rows of the commands.

    COUNT_STAR > 0 and (EVENT_NAME like 'wait/io/%' or TIMER_END is null)
    SUM_TIMER_WAIT > 5ms            -- times may have a unit: ps ns us ms s min

A comparison with NULL is neither true nor false, as in SQL.
"""

from __future__ import annotations

import operator
import re
from datetime import UTC, datetime

from pfs import _core
from pfs._read.nearest import hint
from pfs._read.units import LEGAL, in_picoseconds
from pfs.errors import InvalidValue, UnknownColumn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol

    Test = Callable[[Mapping[str, "Column"]], tuple[Any, Any]]

    class Column(Protocol):
        """Compares the values of a column. It answers with two sets of rows: where the comparison is true, and where it is false.

        Sets have ``&`` and ``|``: they are arrays of bool, or sets of numbers of rows.
        """

        @property
        def kind(self) -> str: ...  # text, number, time; "" if all values are NULL
        def nulls(self) -> tuple[Any, Any]: ...
        def compared(self, compare: Callable[[Any, Any], Any], value: Any) -> tuple[Any, Any]: ...  # of a time: microseconds
        def matches(self, pattern: str) -> tuple[Any, Any]: ...


__all__ = ["Condition", "PlainColumn", "order_of", "places"]

_WORDS = ("and", "or", "not", "like", "in", "is", "null", "between")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit>[A-Za-zµμ]+)?|'(?P<text>(?:[^']|'')*)'|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,))"
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "==": operator.eq, "<>": operator.ne, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PlainColumn:
    """The values of a column as Python has them: None is NULL."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self._rows = {row for row, value in enumerate(values) if value is not None}
        first = next((value for value in values if value is not None), None)
        self.kind = (
            "" if first is None
            else "time" if isinstance(first, datetime)
            else "number" if isinstance(first, int | float)
            else "text"
        )  # fmt: skip

    def nulls(self) -> tuple[set[int], set[int]]:
        return set(range(len(self._values))) - self._rows, self._rows

    def compared(self, compare: Callable[[Any, Any], Any], value: Any) -> tuple[set[int], set[int]]:
        if self.kind == "time":
            value = datetime.fromtimestamp(value / 1e6, UTC).replace(tzinfo=None)
        return self._found(row for row in self._rows if compare(self.key(row), value))

    def matches(self, pattern: str) -> tuple[set[int], set[int]]:
        rows = sorted(self._rows)
        found = _core.matches([self.key(row) for row in rows], pattern)
        return self._found(row for row, is_like in zip(rows, found, strict=True) if is_like)

    def _found(self, rows: Iterable[int]) -> tuple[set[int], set[int]]:
        found = set(rows)
        return found, self._rows - found

    def key(self, row: int) -> Any:
        """Returns what a value is compared by."""
        value = self._values[row]
        return value if value is None or self.kind != "text" else str(value)


class Condition:
    """A condition on rows with some columns. A wrong one raises from the start."""

    def __init__(self, table: str, columns: Sequence[str], where: str | Mapping[str, object], said: str = "where") -> None:
        """`said`: what errors call it."""
        if not isinstance(where, str) and not hasattr(where, "items"):
            raise TypeError(f"{said} of {table} is a condition in a text, or {{column: value}}, not a {type(where).__name__}")
        self._table, self._known, self._said = table, list(columns), said
        self.columns: list[str] = []  # that it uses
        self._text = where if isinstance(where, str) else _sql_of(where)
        self._tokens = self._split()
        self._at = 0
        self._test = self._either()
        if self._at < len(self._tokens):
            raise self._bad(f"unexpected {self._tokens[self._at][1]!r}")

    def rows(self, columns: Mapping[str, Column]) -> Any:
        """Returns the set of the rows that meet the condition."""
        return self._test(columns)[0]

    def _bad(self, why: str) -> InvalidValue:
        return InvalidValue(
            f"{self._said} {self._text!r} of {self._table}: {why}; legal are comparisons (= <> < <= > >=, like, in, between, "
            "is null) "
            "of a column with a number, a time such as 5ms or a 'text', joined by and, or, not"
        )

    def _split(self) -> list[tuple[str, Any]]:
        tokens: list[tuple[str, Any]] = []
        at = 0
        while at < len(self._text.rstrip()):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise self._bad(f"cannot read {self._text[at:].strip()[:20]!r}")
            at = found.end()
            kind = next(name for name in ("number", "text", "name", "sign") if found[name] is not None)
            value: Any = found[kind]
            if kind == "number":
                if (unit := found["unit"]) is not None:
                    size = in_picoseconds(value.removeprefix("-"), unit)
                    if size is None:
                        raise self._bad(f"unknown unit {unit!r}: legal are {LEGAL}")
                    value = -size if value[0] == "-" else size
                else:
                    value = float(value) if any(c in value for c in ".eE") else int(value)
            elif kind == "text":
                value = value.replace("''", "'")
            elif kind == "name" and value.lower() in _WORDS:
                kind, value = "word", value.lower()
            tokens.append((kind, value))
        return tokens

    # A parser returns a function of the columns, which returns where the condition is true and where it is false.

    def _next(self, *wanted: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1] in wanted and self._tokens[self._at][0] in ("word", "sign"):
            self._at += 1
            return True
        return False

    def _take(self, *kinds: str) -> Any:
        if self._at == len(self._tokens):
            raise self._bad("it ends too early")
        kind, value = self._tokens[self._at]
        if kind not in kinds:
            raise self._bad(f"unexpected {value!r}")
        self._at += 1
        return value

    def _either(self) -> Any:
        first = self._both()
        while self._next("or"):
            first = _either(first, self._both())
        return first

    def _both(self) -> Any:
        first = self._one()
        while self._next("and"):
            first = _negated(_either(_negated(first), _negated(self._one())))
        return first

    def _one(self) -> Any:
        if self._next("not"):
            return _negated(self._one())
        if self._next("("):
            inner = self._either()
            if not self._next(")"):
                raise self._bad("a ')' is missing")
            return inner
        return self._comparison()

    def _comparison(self) -> Any:
        typed = self._take("name")
        name = next((known for known in self._known if known.lower() == typed.lower()), None)
        if name is None:
            raise UnknownColumn(
                f"{self._said} {self._text!r}: {self._table} has no column '{typed}'{hint(typed, self._known)}"
                f" (a text stands in single quotes); legal are {', '.join(self._known)}"
            )
        if name not in self.columns:
            self.columns.append(name)
        if self._next("is"):
            is_not = self._next("not")
            if not self._next("null"):
                raise self._bad("'is' needs null or not null")
            found: Test = lambda columns: columns[name].nulls()  # noqa: E731
            return _negated(found) if is_not else found
        is_not = self._next("not")
        if self._next("like"):
            pattern = self._take("text")
            test = self._like(name, pattern)
        elif self._next("in"):
            if not self._next("("):
                raise self._bad("'in' needs a list in parentheses")
            values = [self._take("text", "number")]
            while self._next(","):
                values.append(self._take("text", "number"))
            if not self._next(")"):
                raise self._bad("a ')' is missing")
            test = self._any_of([self._compared(name, "=", value) for value in values])
        elif self._next("between"):
            low = self._compared(name, ">=", self._take("text", "number"))
            if not self._next("and"):
                raise self._bad("'between' needs 'and'")
            high = self._compared(name, "<=", self._take("text", "number"))
            test = _negated(_either(_negated(low), _negated(high)))
        elif is_not:
            raise self._bad(f"'not' behind {name} needs like, in or between")
        else:
            sign = self._take("sign")
            if sign in "(),":
                raise self._bad(f"unexpected {sign!r}")
            test = self._compared(name, sign, self._take("text", "number"))
        return _negated(test) if is_not else test

    @staticmethod
    def _any_of(tests: list[Test]) -> Test:
        first = tests[0]
        for test in tests[1:]:
            first = _either(first, test)
        return first

    def _like(self, name: str, pattern: str) -> Test:
        def run(columns: Mapping[str, Column]) -> tuple[Any, Any]:
            if columns[name].kind in ("number", "time"):
                raise self._bad(f"{name} is a {columns[name].kind}, not a text")
            return columns[name].matches(pattern)

        return run

    def _compared(self, name: str, sign: str, value: Any) -> Test:
        def run(columns: Mapping[str, Column]) -> tuple[Any, Any]:
            kind = columns[name].kind
            if kind == "number" and isinstance(value, str):
                raise self._bad(f"{name} is a number, not a text")
            if kind == "text" and not isinstance(value, str):
                raise self._bad(f"{name} is a text, not a number: put '{value}' in single quotes")
            return columns[name].compared(_COMPARE[sign], self._moment(name, value) if kind == "time" else value)

        return run

    def _moment(self, name: str, value: Any) -> int:
        """Returns the microseconds since 1970 of a time that a user has written."""
        try:
            when = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise self._bad(f"{name} is a time in UTC: write it as '2026-12-31' or '2026-12-31 23:59:59'") from None
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
        return round((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)


def _either(first: Test, second: Test) -> Test:
    def run(columns: Mapping[str, Column]) -> tuple[Any, Any]:
        (a, not_a), (b, not_b) = first(columns), second(columns)
        return a | b, not_a & not_b

    return run


def _negated(test: Test) -> Test:
    return lambda columns: test(columns)[::-1]


def _sql_of(where: Mapping[str, object]) -> str:
    """Returns the condition of a dict: a pattern or value per column, as the setup tables take it."""
    parts = []
    for column, value in where.items():
        if value is None:
            parts.append(f"{column} is null")
        elif isinstance(value, bool):
            parts.append(f"{column} = '{'YES' if value else 'NO'}'")
        elif isinstance(value, int | float):
            parts.append(f"{column} = {value}")
        else:
            parts.append(f"{column} like '{str(value).replace(chr(39), chr(39) * 2)}'")
    return " and ".join(parts)


def order_of(table: str, columns: Sequence[str], order: str | Sequence[str], said: str = "order") -> list[tuple[str, bool]]:
    """Returns the columns of ``"SUM_TIMER_WAIT desc, EVENT_NAME"`` or of a list, and whether each is descending."""
    parts = order.split(",") if isinstance(order, str) else list(order)
    found = []
    for part in parts:
        name, _, direction = part.strip().partition(" ")
        direction = direction.strip().lower()
        known = next((column for column in columns if column.lower() == name.lower()), None)
        if known is None:
            near = hint(name, columns, is_listed=True)
            raise UnknownColumn(f"{said} {order!r}: {table} has no column '{name}'{near}; legal are {', '.join(columns)}")
        if direction not in ("", "asc", "desc"):
            raise InvalidValue(f"{said} {order!r} of {table}: '{direction}' is not legal behind {known}: legal are asc and desc")
        found.append((known, direction == "desc"))
    return found


def places(
    columns: Mapping[str, Sequence[Any]], rows: int, where: Condition | None, order: Sequence[tuple[str, bool]]
) -> list[int]:
    """Returns the numbers of the rows that a condition chooses, in order. NULL comes first, as in MySQL; behind `desc` last."""
    used = {*(() if where is None else where.columns), *(name for name, _ in order)}
    plain = {name: PlainColumn(columns[name]) for name in used}
    found = list(range(rows)) if where is None else sorted(where.rows(plain))
    for name, is_descending in reversed(order):  # a stable sort by the last column first
        key = plain[name].key
        found.sort(key=lambda row: (key(row) is not None, key(row)), reverse=is_descending)
    return found
