"""Where the elements of a segment's arrays lie in its file: the directory of the header, as layout.h declares it."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

_PAGE = 4096
_BYTES = {"uint64_t": 8, "Word": 8, "HalfWord": 4}


class Directory:
    """The arrays of the segment in an open file.

    Args:
        root: of the source tree.
        file: the descriptor.
        begin: where the directory begins in the header; found, behind header_bytes, array_count and file_bytes, if None.
    """

    def __init__(self, root: Path, file: int, begin: int | None = None) -> None:
        folder = root / "cpp/src/shm"
        text = (folder / "array.h").read_text() + (folder / "layout.h").read_text()
        rooms = {name: int(number) for name, number in re.findall(r"constexpr uint\d+_t (k\w+Room) = (\d+)", text)}
        body = re.search(r"^struct ShmArray \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL)
        assert body is not None
        self.fields: dict[str, tuple[int, int, int]] = {}  # offset, bytes, count
        at = 0
        for kind, name, count in re.findall(r"^\s+(\w+) (\w+)(?:\[(\w+)\])?;", body[1], re.MULTILINE):
            elements = 1 if not count else int(rooms.get(count, 0) or count)
            self.fields[name] = (at, _BYTES[kind], elements)
            at += _BYTES[kind] * elements
        self.stride = (at + 7) // 8 * 8
        texts = [text, (folder / "layout_program.h").read_text()]
        self.names = [name for part in texts for name in re.findall(r"^  X\((k\w+), +Shm", part, re.MULTILINE)]
        words = struct.unpack("<1024Q", os.pread(file, 8192, 0))
        counts = (8 * (i + 3) for i in range(1021) if words[i : i + 2] == (rooms["kHeaderRoom"], len(self.names)))
        self.file, self.begin = file, next(counts) if begin is None else begin

    def entry(self, array: str, field: str = "offset") -> int:
        """Where a field of the array's entry is in the file."""
        return self.begin + self.stride * self.names.index(array) + self.fields[field][0]

    def get(self, array: str, field: str) -> int:
        return self._words(array, field)[0]

    def _words(self, array: str, field: str) -> tuple[int, ...]:
        _, size, count = self.fields[field]
        content = os.pread(self.file, size * count, self.entry(array, field))
        return struct.unpack(f"<{count}{'Q' if size == 8 else 'I'}", content)

    def place(self, array: str, byte: int) -> int | None:
        """Where a byte of an array is in the file. None: it has no memory there."""
        at: int | None = self.get(array, "offset") + byte
        if "extents" in self.fields:  # the first, then as much as there is already
            first, number, begin = self.get(array, "first_extent"), 0, 0
            if first == 0:
                return None
            while byte >= begin + (first if number == 0 else first << (number - 1)):
                begin += first if number == 0 else first << (number - 1)
                number += 1
            extents = self._words(array, "extents")
            at = extents[number] * _PAGE + byte - begin if number < len(extents) and extents[number] else None
        if at is None:
            return None
        try:
            return at if os.lseek(self.file, at, os.SEEK_DATA) == at else None
        except OSError:
            return None

    def elements(self, array: str) -> Iterator[int]:
        """Where those begin that were ever taken and have memory."""
        stride = self.get(array, "stride")
        for i in range(1, self.get(array, "used")):
            at = self.place(array, i * stride)
            if at is not None:
                yield at
