"""Conditions on rows: a part of SQL's WHERE, evaluated on whole columns.

    COUNT_STAR > 0 and (EVENT_NAME like 'wait/io/%' or TIMER_END is null)
    SUM_TIMER_WAIT > 5ms            -- times may have a unit: ps ns us ms s min

A comparison with NULL is neither true nor false, as in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pfs import _core
from pfs._tables.nearest import hint
from pfs.errors import InvalidValue, UnknownColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    Mask = np.ndarray[Any, np.dtype[np.bool_]]

__all__ = ["Column", "Condition", "order_of"]

_UNITS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}
_WORDS = ("and", "or", "not", "like", "in", "is", "null", "between")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit>[a-zµ]+)?|'(?P<text>(?:[^']|'')*)'|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,))"
)


class Column:
    """Holds the values of a column as arrays: numbers, or codes of texts."""

    def __init__(self, part: _core.Part, rows: int) -> None:
        _, kind, _, values, mask, texts = part
        self.is_text = kind in ("text", "set", "enum")
        self.texts = list(texts) if self.is_text else []
        self.values: Any = np.arange(rows) if values is None else np.asarray(values)
        self.null: Mask = np.zeros(rows, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        if self.is_text and values is not None:
            self.null = self.values < 0
        elif kind == "timestamp":
            self.null = self.values == np.iinfo(np.int64).min

    def of_texts(self, test: Callable[[list[str]], Sequence[bool]]) -> Mask:
        """Returns for each row what `test` says about its text."""
        if not self.texts:
            return np.zeros(len(self.values), dtype=bool)
        found = np.asarray(test([str(text) for text in self.texts]), dtype=bool)
        return found[np.where(self.null, 0, self.values)] & ~self.null

    def sort_keys(self) -> Any:
        """Returns numbers that order the rows as the values do."""
        if not self.is_text:
            return self.values
        if not self.texts:
            return np.zeros(len(self.values), dtype=np.intp)
        rank = np.empty(len(self.texts), dtype=np.intp)
        rank[sorted(range(len(self.texts)), key=lambda i: str(self.texts[i]))] = np.arange(len(self.texts))
        return rank[np.where(self.null, 0, self.values)]


class Condition:
    """Is a condition on the rows of a table. It has a parse error from the start, and no column that the table lacks."""

    def __init__(self, table: str, columns: Sequence[str], where: str | Mapping[str, object]) -> None:
        self._table, self._known = table, list(columns)
        self.columns: list[str] = []  # that it uses
        self._text = where if isinstance(where, str) else _sql_of(where)
        self._tokens = self._split()
        self._at = 0
        self._test = self._either()
        if self._at < len(self._tokens):
            raise self._bad(f"unexpected {self._tokens[self._at][1]!r}")

    def rows(self, columns: Mapping[str, Column]) -> Mask:
        """Returns which rows meet the condition."""
        true: Mask = self._test(columns)[0]
        return true

    def _bad(self, why: str) -> InvalidValue:
        return InvalidValue(
            f"where={self._text!r} of {self._table}: {why}; legal are comparisons (= <> < <= > >=, like, in, between, is null) "
            "of a column with a number or a 'text', joined by and, or, not"
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
                value = float(value) if any(c in value for c in ".eE") else int(value)
                if (unit := found["unit"]) is not None:
                    if unit not in _UNITS:
                        raise self._bad(f"unknown unit {unit!r}: legal are {', '.join(_UNITS)}")
                    value *= _UNITS[unit]
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
            first = _joined(first, self._both(), np.logical_or, np.logical_and)
        return first

    def _both(self) -> Any:
        first = self._one()
        while self._next("and"):
            first = _joined(first, self._one(), np.logical_and, np.logical_or)
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
                f"{self._table} has no column '{typed}'{hint(typed, self._known)}"
                f" (a text stands in single quotes); legal are {', '.join(self._known)}"
            )
        if name not in self.columns:
            self.columns.append(name)
        if self._next("is"):
            is_not = self._next("not")
            if not self._next("null"):
                raise self._bad("'is' needs null or not null")
            return (lambda c: (~c[name].null, c[name].null)) if is_not else (lambda c: (c[name].null, ~c[name].null))
        is_not = self._next("not")
        if self._next("like"):
            pattern = self._take("text")
            test = self._on_texts(name, lambda texts: _core.matches(texts, pattern))
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
            test = _joined(low, self._compared(name, "<=", self._take("text", "number")), np.logical_and, np.logical_or)
        elif is_not:
            raise self._bad(f"'not' behind {name} needs like, in or between")
        else:
            sign = self._take("sign")
            if sign in "(),":
                raise self._bad(f"unexpected {sign!r}")
            test = self._compared(name, sign, self._take("text", "number"))
        return _negated(test) if is_not else test

    @staticmethod
    def _any_of(tests: list[Any]) -> Any:
        first = tests[0]
        for test in tests[1:]:
            first = _joined(first, test, np.logical_or, np.logical_and)
        return first

    def _on_texts(self, name: str, test: Any) -> Any:
        def run(columns: Mapping[str, Column]) -> tuple[Mask, Mask]:
            column = columns[name]
            if not column.is_text:
                raise self._bad(f"{name} is a number, not a text")
            found = column.of_texts(test)
            return found, ~found & ~column.null

        return run

    def _compared(self, name: str, sign: str, value: Any) -> Any:
        compare = {
            "=": np.equal, "==": np.equal, "<>": np.not_equal, "!=": np.not_equal,
            "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
        }[sign]  # fmt: skip
        if isinstance(value, str):
            return self._on_texts(name, lambda texts: compare(np.asarray(texts, dtype=object), value).astype(bool))

        def run(columns: Mapping[str, Column]) -> tuple[Mask, Mask]:
            column = columns[name]
            if column.is_text:
                raise self._bad(f"{name} is a text, not a number: put '{value}' in single quotes")
            found = np.asarray(compare(column.values, value), dtype=bool) & ~column.null
            return found, ~found & ~column.null

        return run


def _joined(first: Any, second: Any, true: Any, false: Any) -> Any:
    def run(columns: Mapping[str, Column]) -> tuple[Mask, Mask]:
        (a, not_a), (b, not_b) = first(columns), second(columns)
        return true(a, b), false(not_a, not_b)

    return run


def _negated(test: Any) -> Any:
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


def order_of(table: str, columns: Sequence[str], order: str | Sequence[str]) -> list[tuple[str, bool]]:
    """Returns the columns of ``"SUM_TIMER_WAIT desc, EVENT_NAME"`` or of a list, and whether each is descending."""
    parts = order.split(",") if isinstance(order, str) else list(order)
    found = []
    for part in parts:
        name, _, direction = part.strip().partition(" ")
        direction = direction.strip().lower()
        known = next((column for column in columns if column.lower() == name.lower()), None)
        if known is None:
            raise UnknownColumn(f"{table} has no column '{name}'{hint(name, columns)}")
        if direction not in ("", "asc", "desc"):
            raise InvalidValue(f"order={order!r} of {table}: '{direction}' is not legal behind {known}: legal are asc and desc")
        found.append((known, direction == "desc"))
    return found
