"""Keeps the prepared statements of one client, within bounds, and reads the values of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from pfs._export.serve.statements import Statement
from pfs._export.serve.variables import MOST_STATEMENTS
from pfs._export.serve.wire import Fields, Kind, Refusal, parameter

__all__ = ["Prepared", "Store"]

# Bounds for one client.
_MOST_BYTES = 4 << 20  # of their texts; as many of parameters that come in parts
_MOST_CURSORS = 8  # each holds an answer
_MOST_PARAMETERS = 1000
_COST = 64  # bytes of an object that holds no bytes yet
_TOO_MANY_STATEMENTS, _TOO_MANY_PARAMETERS, _UNKNOWN_STATEMENT, _WRONG_ARGUMENTS, _NO_CURSOR = 1461, 1390, 1243, 1210, 1421


@dataclass
class Prepared:
    """A statement that waits for its values."""

    number: int
    statement: Statement
    types: list[tuple[int, bool]] = field(default_factory=list)  # of the parameters, and which are unsigned
    parts: dict[int, bytearray] = field(default_factory=dict)  # parameters that came in parts
    rows: Iterator[bytes] | None = None  # of its cursor: the packets that are left

    def fetch(self, count: int) -> Iterator[bytes]:
        """Yields the next rows. If there are fewer than `count`, these are the last ones, and the cursor is closed.

        Raises:
            Refusal: there is no cursor.
        """
        if self.rows is None:
            raise Refusal(_NO_CURSOR, f"The statement ({self.number}) has no open cursor")
        for _ in range(count):
            row = next(self.rows, None)
            if row is None:
                self.rows = None
                return
            yield row

    def reset(self) -> None:
        self.parts.clear()
        self.rows = None

    def values(self, fields: Fields, codec: str) -> list[object]:
        """Reads the values of the parameters. Each execution forgets what came in parts.

        Raises:
            Refusal: the client has never said of which types they are.
        """
        count = self.statement.parameters
        if not count:
            return []
        nulls = int.from_bytes(fields.take((count + 7) // 8), "little")
        if fields.number(1):
            kinds = [(fields.number(1), fields.number(1) >= 0x80) for _ in range(count)]
            self.types = kinds
        if len(self.types) != count:
            raise Refusal(_WRONG_ARGUMENTS, "Incorrect arguments to mysqld_stmt_execute: the parameters have no types")
        found: list[object] = []
        for number, (kind, is_unsigned) in enumerate(self.types):
            if number in self.parts:
                value: object = bytes(self.parts[number])
            elif nulls >> number & 1:
                value = None
            else:
                value = parameter(fields, kind, is_unsigned)
            found.append(_text_in(value, kind, codec) if isinstance(value, bytes) else value)
        self.parts.clear()
        return found


def _text_in(value: bytes, kind: int, codec: str) -> object:
    """Returns a text, as which DuckDB compares it with a text; bytes that are no text stay bytes."""
    if kind in (Kind.DECIMAL, Kind.NEWDECIMAL):
        try:
            return Decimal(value.decode("ascii"))
        except (UnicodeDecodeError, ArithmeticError):
            raise Refusal(_WRONG_ARGUMENTS, f"Incorrect arguments to EXECUTE: {value[:40]!r} is no number") from None
    try:
        return value.decode(codec)
    except UnicodeDecodeError:
        return value


class Store:
    """Has the prepared statements by number."""

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._held: dict[int, Prepared] = {}
        self._last = 0

    def check(self, size: int) -> None:
        """Raises unless a statement of this many bytes may come in addition."""
        held = sum(len(each.statement.text) for each in self._held.values())
        if len(self._held) >= MOST_STATEMENTS or held + size > _MOST_BYTES:
            text = f"Can't create more than max_prepared_stmt_count statements (current value: {MOST_STATEMENTS})"
            raise Refusal(_TOO_MANY_STATEMENTS, f"{text}; their texts have at most {_MOST_BYTES} bytes")

    def add(self, statement: Statement) -> Prepared:
        if statement.parameters > _MOST_PARAMETERS:
            text = f"Prepared statement contains too many placeholders: at most {_MOST_PARAMETERS} are legal"
            raise Refusal(_TOO_MANY_PARAMETERS, text)
        self._last += 1
        made = self._held[self._last] = Prepared(self._last, statement)
        return made

    def get(self, number: int) -> Prepared:
        try:
            return self._held[number]
        except KeyError:
            raise Refusal(_UNKNOWN_STATEMENT, f"Unknown prepared statement handler ({number})") from None

    def remove(self, number: int) -> None:
        self._held.pop(number, None)

    def clear(self) -> None:
        self._held.clear()

    def add_part(self, fields: Fields) -> None:
        """Takes a part of a parameter. The client waits for no answer, not even for an error."""
        held = self._held.get(fields.number(4))
        if held is None:
            return
        number, part = fields.number(2), fields.rest()
        if number >= held.statement.parameters:
            return
        held.parts.setdefault(number, bytearray()).extend(part)
        if sum(_COST + len(each) for one in self._held.values() for each in one.parts.values()) > _MOST_BYTES:
            self._hang_up()

    def check_cursors(self) -> None:
        """Raises unless one more cursor may be open."""
        opened = sum(each.rows is not None for each in self._held.values())
        if opened >= _MOST_CURSORS:
            raise Refusal(1105, f"{opened} cursors are open: close a statement")
