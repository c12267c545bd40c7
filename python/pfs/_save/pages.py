"""Reads what a Parquet file says of its columns and pages: a reader takes so much memory, whatever else the file says.

The end of a file and the head of a page are structs of Thrift, in its compact protocol:
https://github.com/apache/parquet-format. pyarrow gives the same of a good file. Of a damaged one it ends the process, for
its metadata let exceptions of C++ through.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Chunk", "chunks_of", "pages_of"]

_TRUE, _FALSE, _BYTE, _DOUBLE = 1, 2, 3, 7
_INTEGERS, _BINARY, _LISTS, _MAP, _STRUCT = (4, 5, 6), 8, (9, 10), 11, 12
_DEEPEST = 16
_LONG = 15  # a list whose size follows
_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a group of rows, as ``pyarrow.parquet.ColumnChunkMetaData`` describes it."""

    num_rows: int  # of the group
    path_in_schema: str
    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int  # 0: there is none

    @property
    def has_dictionary_page(self) -> bool:
        return self.dictionary_page_offset > 0


def chunks_of(data: bytes) -> list[Chunk]:
    """Returns the column chunks of a file.

    Raises:
        ValueError: the bytes are no Parquet file.
    """
    length = int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or length > len(data) - 12:
        raise ValueError("it is no Parquet file")
    whole = _struct(data, len(data) - 8 - length)[1]
    return [_chunk(group, column) for group in _list(whole, 4) for column in _list(group, 1)]


def _chunk(group: dict[int, Any], column: dict[int, Any]) -> Chunk:
    about = column.get(3)
    if not isinstance(about, dict):
        raise ValueError("a column is not described")
    path = about.get(3)
    if not isinstance(path, list) or not all(isinstance(part, bytes) for part in path):
        raise ValueError("a column has no name")
    return Chunk(
        num_rows=_integer(group, 3),
        path_in_schema=".".join(part.decode(errors="replace") for part in path),
        num_values=_integer(about, 5),
        total_uncompressed_size=_integer(about, 6),
        total_compressed_size=_integer(about, 7),
        data_page_offset=_integer(about, 9),
        dictionary_page_offset=_integer(about, 11, 0),
    )


def _list(of: dict[int, Any], field: int) -> list[dict[int, Any]]:
    found = of.get(field)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"field {field} is no list of structs")
    return found


def _integer(of: dict[int, Any], field: int, default: int | None = None) -> int:
    found = of.get(field, default)
    if type(found) is not int:
        raise ValueError(f"field {field} is no number")
    return found


def pages_of(data: bytes, chunk: Chunk) -> Iterator[int]:
    """Yields the length of each page of a column chunk without compression.

    Raises:
        ValueError: the bytes are no pages.
    """
    if not chunk.num_values:  # no page is read, and the first one has no place
        return
    begin = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
        begin = chunk.dictionary_page_offset
    end = begin + chunk.total_compressed_size
    if not 0 <= begin <= end <= len(data):
        raise ValueError("a column is outside of the file")
    while begin < end:
        begin, fields = _struct(data, begin)
        whole, stored = _integer(fields, 2), _integer(fields, 3)
        if whole < 0 or stored < 0:
            raise ValueError("a page has no length")
        yield whole
        begin += stored


def _struct(data: bytes, at: int) -> tuple[int, dict[int, Any]]:
    """Returns where a struct ends, and its fields by their numbers."""
    try:
        return _fields(data, at, _DEEPEST)
    except (IndexError, struct.error):
        raise ValueError("a struct is cut off") from None


def _fields(data: bytes, at: int, deepest: int) -> tuple[int, dict[int, Any]]:
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            at, number = _integer_at(data, at)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            found[number] = kind == _TRUE
        else:
            at, found[number] = _value(data, at, kind, deepest)
    return at + 1, found


def _value(data: bytes, at: int, kind: int, deepest: int) -> tuple[int, Any]:
    """Returns where a value ends, and the value. That of a map, of which nobody asks, is None."""
    if not deepest:
        raise ValueError("a struct has values in values")
    if kind in (_TRUE, _FALSE, _BYTE):  # an element of a list
        return at + 1, data[at]
    if kind == _DOUBLE:
        return at + 8, struct.unpack_from("<d", data, at)[0]
    if kind in _INTEGERS:
        return _integer_at(data, at)
    if kind == _BINARY:
        at, size = _varint(data, at)
        if at + size > len(data):
            raise ValueError("a text is cut off")
        return at + size, data[at : at + size]
    if kind == _STRUCT:
        return _fields(data, at, deepest - 1)
    if kind in _LISTS:
        head = data[at]
        at, size = (at + 1, head >> 4) if head >> 4 != _LONG else _varint(data, at + 1)
        values = []
        for _ in range(size):  # each takes a byte or more, and behind the last one there is none
            at, value = _value(data, at, head & 15, deepest - 1)
            values.append(value)
        return at, values
    if kind == _MAP:
        at, size = _varint(data, at)
        if size:
            kinds, at = data[at], at + 1
            for _ in range(size):
                at = _value(data, at, kinds >> 4, deepest - 1)[0]
                at = _value(data, at, kinds & 15, deepest - 1)[0]
        return at, None
    raise ValueError(f"a struct has a field of type {kind}")


def _integer_at(data: bytes, at: int) -> tuple[int, int]:
    at, value = _varint(data, at)
    return at, (value >> 1) ^ -(value & 1)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, value
        shift += 7
        if shift > 63:
            raise ValueError("a struct has a number of more than 64 bits")
