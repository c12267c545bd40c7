"""Reads how long the pages of a Parquet file say that they are: a reader takes so much memory, whatever the end of the file says.

The head of a page is a struct of Thrift, in its compact protocol: https://github.com/apache/parquet-format
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["pages_of"]

_INT32 = 5
_FIXED = {1: 0, 2: 0, 3: 1, 7: 8}  # bytes of the values of types that have the same length always: true, false, a byte, a double
_INTEGERS, _BINARY, _LISTS, _MAP, _STRUCT = (4, 5, 6), 8, (9, 10), 11, 12
_DEEPEST = 16
_LONG = 15  # a list whose size follows


def pages_of(data: bytes, chunk: Any) -> Iterator[int]:
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
        try:
            begin, fields = _fields(data, begin, _DEEPEST)
        except (IndexError, struct.error):
            raise ValueError("a page is cut off") from None
        whole, stored = fields.get(2, -1), fields.get(3, -1)
        if whole < 0 or stored < 0:
            raise ValueError("a page has no length")
        yield whole
        begin += stored


def _fields(data: bytes, at: int, deepest: int) -> tuple[int, dict[int, int]]:
    """Returns where a struct ends, and its fields that are numbers of 32 bits."""
    found: dict[int, int] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            at, number = _varint(data, at)
            number = (number >> 1) ^ -(number & 1)
        kind = head & 15
        if kind == _INT32:
            at, value = _varint(data, at)
            value &= 0xFFFFFFFF
            found[number] = (value >> 1) ^ -(value & 1)
        else:
            at = _skipped(data, at, kind, deepest)
    return at + 1, found


def _skipped(data: bytes, at: int, kind: int, deepest: int) -> int:
    """Returns where a value ends."""
    if not deepest:
        raise ValueError("a page has values in values")
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind in _INTEGERS:
        return _varint(data, at)[0]
    if kind == _BINARY:
        at, size = _varint(data, at)
        return at + size
    if kind == _STRUCT:
        return _fields(data, at, deepest - 1)[0]
    of: tuple[int, ...] = ()
    if kind in _LISTS:
        head = data[at]
        at, size = (at + 1, head >> 4) if head >> 4 != _LONG else _varint(data, at + 1)
        of = (head & 15,)
    elif kind == _MAP:
        at, size = _varint(data, at)
        if size:
            of = data[at] >> 4, data[at] & 15
            at += 1
    else:
        raise ValueError(f"a page has a field of type {kind}")
    for _ in range(size):
        for each in of:
            at = _skipped(data, at, each, deepest - 1) if each not in (1, 2) else at + 1
        if at > len(data):
            raise ValueError("a page is cut off")
    return at


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
            raise ValueError("a page has a number of more than 64 bits")
