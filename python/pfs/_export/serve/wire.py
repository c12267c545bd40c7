"""Reads and writes the bytes of MySQL's protocol, as its documentation has them: packets, columns, rows, parameters.

Answers end with EOF packets: a server that does not offer CLIENT_DEPRECATE_EOF need not write them in two ways.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import IntEnum, IntFlag
from typing import Any

__all__ = [
    "Column", "Fields", "Flag", "Kind", "Malformed", "Origin", "Refusal", "Status", "binary_rows", "counted", "definition",
    "parameter", "text_rows", "time_text",
]  # fmt: skip

_SQLSTATES = {
    **dict.fromkeys((1049, 1064, 1065, 1104, 1115, 1142, 1231, 1232, 1235, 1305, 1461), b"42000"),
    **dict.fromkeys((1043, 1047, 1153, 1156), b"08S01"),
    1040: b"08004", 1317: b"70100", 1045: b"28000", 1046: b"3D000", 1054: b"42S22", 1146: b"42S02",
}  # fmt: skip
UTF8, BINARY = 45, 63  # numbers of collations


class Refusal(Exception):
    """The answer to a command that is refused, with the number that MySQL has for the reason."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)  # both, so that it can be sent to another process
        self.code = code

    def __str__(self) -> str:
        return str(self.args[1])

    def packet(self, has_state: bool = True) -> bytes:
        state = b"#" + _SQLSTATES.get(self.code, b"HY000") if has_state else b""
        return b"\xff" + struct.pack("<H", self.code) + state + str(self).encode(errors="replace")


class Malformed(Exception):
    """Says that a packet ends before its fields do."""


class Flag(IntFlag):
    """What a client and the server can do."""

    LONG_PASSWORD = 1 << 0
    FOUND_ROWS = 1 << 1
    LONG_FLAG = 1 << 2
    WITH_DATABASE = 1 << 3
    ODBC = 1 << 6
    IGNORE_SPACE = 1 << 8
    PROTOCOL_41 = 1 << 9
    INTERACTIVE = 1 << 10
    TLS = 1 << 11
    TRANSACTIONS = 1 << 13
    SECURE_CONNECTION = 1 << 15
    MULTI_STATEMENTS = 1 << 16
    MULTI_RESULTS = 1 << 17
    PS_MULTI_RESULTS = 1 << 18
    PLUGIN_AUTH = 1 << 19


class Status(IntFlag):
    IN_TRANS = 0x1
    AUTOCOMMIT = 0x2
    MORE_RESULTS = 0x8
    CURSOR_EXISTS = 0x40
    LAST_ROW_SENT = 0x80


class Kind(IntEnum):
    """Types of columns and parameters."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254


UNSIGNED, BINARY_VALUE, IS_BLOB = 0x20, 0x80, 0x10  # flags of a column


@dataclass(frozen=True, slots=True)
class Origin:
    """The column of a table that a column of an answer shows. ``table``: as the statement calls it."""

    schema: str
    table: str
    org_table: str
    org_name: str


_NO_ORIGIN = Origin("", "", "", "")  # that of an expression


@dataclass(slots=True)
class Column:
    """Describes a column of an answer. ``length``: the most bytes, or digits and signs, that a value has as text."""

    name: str
    kind: Kind
    length: int
    flags: int = 0
    decimals: int = 0
    origin: Origin = _NO_ORIGIN

    @property
    def is_text(self) -> bool:
        return self.kind in (Kind.VAR_STRING, Kind.BLOB) and not self.flags & BINARY_VALUE


class Fields:
    """Reads the fields of a packet, one after the other.

    Raises:
        Malformed: in each call, if the packet has no such field.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = 0

    def is_at_end(self) -> bool:
        return self._place >= len(self._body)

    def take(self, size: int) -> bytes:
        found = self._body[self._place : self._place + size]
        if len(found) < size:
            raise Malformed("the packet ends too early")
        self._place += size
        return found

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._place)

    def number(self, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def unpack(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def until_nul(self) -> bytes:
        end = self._body.find(b"\0", self._place)
        if end < 0:
            raise Malformed("a text has no end")
        found = self._body[self._place : end]
        self._place = end + 1
        return found

    def sized(self) -> bytes:
        """Returns a text that stands behind its length."""
        first = self.number(1)
        if first in (0xFB, 0xFF):
            raise Malformed("a length is missing")
        return self.take(self.number({0xFC: 2, 0xFD: 3, 0xFE: 8}[first]) if first > 0xFB else first)


def counted(number: int) -> bytes:
    """Returns an integer that has as many bytes as it needs."""
    if number < 251:
        return bytes((number,))
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def definition(column: Column, collation: int, codec: str) -> bytes:
    """Returns the packet that describes a column."""
    origin = column.origin
    names = ("def", origin.schema, origin.table, origin.org_table, column.name, origin.org_name)
    charset = collation if column.is_text else BINARY
    flags = column.flags if column.is_text else column.flags | BINARY_VALUE
    rest = struct.pack("<HIBHBxx", charset, column.length, column.kind, flags, column.decimals)
    return b"".join(sized(name.encode(codec, "replace")) for name in names) + b"\x0c" + rest


_SIZES = [bytes((size,)) for size in range(251)]


def _texts(column: Column, values: Sequence[Any], codec: str) -> list[bytes | None]:
    """Returns the values of a column as texts."""
    if column.is_text:
        return [None if value is None else value.encode(codec, "replace") for value in values]
    if column.kind == Kind.BLOB:
        return [None if value is None else bytes(value) for value in values]
    if column.kind == Kind.LONGLONG:
        return [None if value is None else b"%d" % value for value in values]
    if column.kind == Kind.DATETIME:
        return [None if value is None else _moment(value) for value in values]
    if column.kind == Kind.TIME:
        return [None if value is None else time_text(value).encode() for value in values]
    return [None if value is None else str(value).encode() for value in values]


def _moment(value: object) -> bytes:
    return value.isoformat(" ").encode() if isinstance(value, datetime) else str(value).encode()


def text_rows(columns: Sequence[Column], rows: Sequence[Sequence[Any]], codec: str) -> Iterator[bytes]:
    """Returns the packets of rows, with values as texts. It works by columns, because Python is slow by values."""
    made = []
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        texts = _texts(column, values, codec)
        made.append([b"\xfb" if text is None else sized(text) for text in texts])
    return map(b"".join, zip(*made, strict=True))


def sized(text: bytes) -> bytes:
    size = len(text)
    return _SIZES[size] + text if size < 251 else counted(size) + text


def _binary_moment(value: date) -> bytes:
    day = struct.pack("<HBB", value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return b"\4" + day
    seconds = struct.pack("<BBB", value.hour, value.minute, value.second)
    if value.microsecond:
        return b"\x0b" + day + seconds + struct.pack("<I", value.microsecond)
    return b"\7" + day + seconds


def time_text(value: time | timedelta) -> str:
    """Returns a time of the day, or a span, as MySQL writes a TIME."""
    sign, hours, minutes, seconds, more = _parts(value)
    return f"{'-' if sign else ''}{hours:02}:{minutes:02}:{seconds:02}" + (f".{more:06}" if more else "")


def _parts(value: time | timedelta) -> tuple[bool, int, int, int, int]:
    """Returns whether a time is negative, its hours, minutes, seconds and microseconds."""
    if isinstance(value, time):
        return False, value.hour, value.minute, value.second, value.microsecond
    is_negative = value < timedelta()
    whole = -value if is_negative else value
    minutes, seconds = divmod(whole.days * 86400 + whole.seconds, 60)
    return is_negative, minutes // 60, minutes % 60, seconds, whole.microseconds


def _binary_time(value: time | timedelta) -> bytes:
    sign, hours, minutes, seconds, more = _parts(value)
    made = struct.pack("<BIBBB", sign, hours // 24, hours % 24, minutes, seconds)
    return b"\x0c" + made + struct.pack("<I", more) if more else b"\x08" + made


def _binary_writer(column: Column, codec: str) -> Callable[[Any], bytes]:
    if column.kind == Kind.LONGLONG:
        return struct.Struct("<Q" if column.flags & UNSIGNED else "<q").pack
    if column.kind == Kind.DOUBLE:
        return struct.Struct("<d").pack
    if column.kind in (Kind.DATE, Kind.DATETIME):
        return _binary_moment
    if column.kind == Kind.TIME:
        return _binary_time
    return lambda value: sized(_texts(column, (value,), codec)[0] or b"")


def binary_rows(columns: Sequence[Column], rows: Sequence[Sequence[Any]], codec: str) -> Iterator[bytes]:
    """Yields the packet of each row, with values in the form of their type."""
    writers = [_binary_writer(column, codec) for column in columns]
    size = (len(columns) + 9) // 8
    for row in rows:
        nulls = sum(4 << number for number, value in enumerate(row) if value is None)  # two bits are unused
        values = [write(value) for value, write in zip(row, writers, strict=True) if value is not None]
        yield b"\0" + nulls.to_bytes(size, "little") + b"".join(values)


_FORMS = {
    Kind.TINY: "b", Kind.SHORT: "h", Kind.YEAR: "h", Kind.LONG: "i", Kind.INT24: "i", Kind.LONGLONG: "q", Kind.FLOAT: "f",
    Kind.DOUBLE: "d",
}  # fmt: skip
_TEXTS = {
    Kind.DECIMAL, Kind.NEWDECIMAL, Kind.VARCHAR, Kind.VAR_STRING, Kind.STRING, Kind.ENUM, Kind.SET, Kind.JSON, Kind.BIT,
    Kind.TINY_BLOB, Kind.MEDIUM_BLOB, Kind.LONG_BLOB, Kind.BLOB,
}  # fmt: skip


def parameter(fields: Fields, kind: int, is_unsigned: bool) -> object:
    """Reads the value of a parameter: a number, bytes, or a time.

    Raises:
        Refusal: the type is unknown.
    """
    if kind in _TEXTS:
        return fields.sized()
    if form := _FORMS.get(kind):  # type: ignore[call-overload]
        return fields.unpack(form.upper() if is_unsigned and form not in "fd" else form)
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _moment_in(Fields(fields.take(fields.number(1))), kind == Kind.DATE)
    if kind == Kind.TIME:
        return _time_in(Fields(fields.take(fields.number(1))))
    if kind == Kind.NULL:
        return None
    raise Refusal(1210, f"Incorrect arguments to EXECUTE: {kind} is no type of a parameter")


def _moment_in(fields: Fields, is_date: bool) -> date:
    numbers = [fields.number(size) for size in (2, 1, 1, 1, 1, 1, 4) if not fields.is_at_end()]
    try:
        return date(*numbers[:3]) if is_date else datetime(*numbers)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise Refusal(1210, f"Incorrect arguments to EXECUTE: {numbers} is no time") from None


def _time_in(fields: Fields) -> timedelta:
    numbers = [fields.number(size) for size in (1, 4, 1, 1, 1, 4) if not fields.is_at_end()]
    sign, days, hours, minutes, seconds, more = [*numbers, *[0] * (6 - len(numbers))]
    found = timedelta(days=min(days, 34), hours=hours, minutes=minutes, seconds=seconds, microseconds=more)
    return -found if sign else found
