"""Packets of the protocol, and a client that knows nothing but these."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FLAGS = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000  # of a login with a database
MULTI_STATEMENTS, DEPRECATE_EOF = 1 << 16, 1 << 24
CHANGE_USER, PREPARE, EXECUTE, LONG_DATA, CLOSE, RESET, FETCH, STATISTICS, SET_OPTION, RESET_CONNECTION = (
    0x11, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1C, 0x09, 0x1B, 0x1F,
)  # fmt: skip
IN_TRANS, AUTOCOMMIT, MORE, CURSOR, LAST = 1, 2, 8, 64, 128
TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, DATE, TIME, DATETIME = 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12
NEWDECIMAL, BLOB, VAR_STRING, STRING = 246, 252, 253, 254
UNSIGNED, BINARY = 32, 128
END = b"\xfe\0\0\2\0"  # no warnings; every statement commits itself


def packet(body: bytes, number: int = 0, size: int | None = None) -> bytes:
    return (len(body) if size is None else size).to_bytes(3, "little") + bytes([number]) + body


def login(user: bytes = b"me", database: bytes = b"performance_schema") -> bytes:
    return struct.pack("<IIB23x", FLAGS, 1 << 24, 45) + user + b"\0\x14" + b"x" * 20 + database + b"\0mysql_native_password\0"


@dataclass
class Column:
    """A column as the packet that describes it has it."""

    name: str
    charset: int
    length: int
    kind: int
    flags: int
    decimals: int


def column_in(body: bytes) -> Column:
    texts, place = [], 0
    for _ in range(6):
        size = body[place]
        texts.append(body[place + 1 : place + 1 + size].decode())
        place += 1 + size
    assert (texts[0], body[place]) == ("def", 12)
    charset, length, kind, flags, decimals = struct.unpack_from("<HIBHB", body, place + 1)
    assert len(body) == place + 13
    return Column(texts[4], charset, length, kind, flags, decimals)


class Raw:
    """A client that sends and reads packets, and knows nothing else."""

    def __init__(self, path: str, flags: int = FLAGS) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")
        self.greeting = self.read()
        self._socket.sendall(packet(struct.pack("<I", flags) + login()[4:], 1))
        self.welcome = self.read()

    def read(self) -> bytes:
        header = self._file.read(4)
        if len(header) < 4:
            raise ConnectionResetError
        return self._file.read(int.from_bytes(header[:3], "little"))

    def send(self, command: int, data: bytes = b"") -> None:
        self._socket.sendall(packet(bytes([command]) + data))

    def do(self, command: int, data: bytes = b"") -> bytes:
        """Returns the only packet of the answer."""
        self.send(command, data)
        return self.read()

    def until_end(self) -> tuple[list[bytes], bytes]:
        """Returns packets up to an EOF, and this."""
        found = []
        while not ((body := self.read())[0] == 0xFE and len(body) < 9):
            if body[0] == 0xFF:
                raise AssertionError(body)
            found.append(body)
        return found, body

    def prepare(self, statement: str) -> tuple[int, list[Column], list[Column]]:
        """Returns the number, the parameters and the columns."""
        first = self.do(PREPARE, statement.encode())
        assert first[0] == 0, first
        number, columns, parameters, warnings = struct.unpack_from("<IHHxH", first, 1)
        assert (len(first), warnings) == (12, 0)
        found = []
        for count in (parameters, columns):
            described, end = self.until_end() if count else ([], END)
            assert (len(described), end) == (count, END)
            found.append([column_in(each) for each in described])
        return int(number), found[0], found[1]

    def answer(self) -> tuple[list[Column], list[bytes], bytes]:
        """Reads columns, rows and the end."""
        first = self.read()
        if first[0] == 0:
            return [], [], first
        assert first[0] != 0xFF, first
        described, _ = self.until_end()
        assert len(described) == first[0]
        rows, end = self.until_end()
        return [column_in(each) for each in described], rows, end

    def query(self, statement: str) -> tuple[list[Column], list[bytes], bytes]:
        self.send(3, statement.encode())
        return self.answer()

    def execute(self, number: int, values: bytes = b"", cursor: int = 0) -> None:
        self.send(EXECUTE, struct.pack("<IBI", number, cursor, 1) + values)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def raw(path: str, flags: int = FLAGS) -> Iterator[Raw]:
    client = Raw(path, flags)
    try:
        yield client
    finally:
        client.close()


def code_in(body: bytes) -> int:
    assert body[0] == 0xFF, body
    return int.from_bytes(body[1:3], "little")
