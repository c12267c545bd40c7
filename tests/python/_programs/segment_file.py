"""A segment file by arrays, elements and words. The numbers are those of cpp/src/shm/LAYOUT.md, which
the C++ tests compare with the compiler's."""

from __future__ import annotations

import os
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).resolve().parents[3]
PAGE = 4096
EXTENTS = 20


def _offsets() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    page = (ROOT / "cpp/src/shm/LAYOUT.md").read_text()
    for struct_name, field, offset in re.findall(r"^\| (Shm\w+) \| (\w+) \| (\d+) \|$", page, re.MULTILINE):
        found.setdefault(struct_name, {})[field] = int(offset)
    return found


def _arrays() -> list[str]:
    texts = [(ROOT / "cpp/src/shm" / name).read_text() for name in ("layout.h", "layout_program.h")]
    return [name for text in texts for name in re.findall(r"^  X\(k(\w+), +Shm", text, re.MULTILINE)]


FIELDS = _offsets()
HEADER, ENTRY = FIELDS["ShmHeader"], FIELDS["ShmArray"]
_ENTRY_LAYOUT = f"<8Q{EXTENTS}I"
ENTRY_BYTES = struct.calcsize(_ENTRY_LAYOUT)
ARRAYS = _arrays()  # in the order of the directory
(HEADER_ROOM,) = map(int, re.findall(r"kHeaderCapacity = (\d+);", (ROOT / "cpp/src/shm/layout.h").read_text()))


class Array(NamedTuple):
    """An entry of the directory."""

    offset: int
    stride: int
    capacity: int
    first_extent: int
    used: int
    reserved: int
    free_head: int
    mapped: int
    extents: tuple[int, ...]

    def place(self, byte: int) -> int:
        """Where a byte of the array lies in the file. REQUIRES: byte < mapped."""
        assert byte < self.mapped, (byte, self)
        i = 0
        while byte >= self.first_extent << i:
            i += 1
        return self.extents[i] * PAGE + byte - (self.first_extent << i >> 1 if i else 0)


class SegmentFile:
    """Changes words of a segment that nobody else writes, or that must bear it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._file)

    def size(self) -> int:
        return os.fstat(self._file).st_size

    def get(self, at: int, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        return struct.unpack(layout, os.pread(self._file, size, at).ljust(size, b"\0"))  # a damaged file may end in a word

    def put(self, at: int, layout: str, *numbers: int) -> None:
        os.pwrite(self._file, struct.pack(layout, *numbers), at)

    def has_memory(self, at: int) -> bool:
        try:
            return os.lseek(self._file, at, os.SEEK_DATA) == at
        except OSError:
            return False

    def place_with_memory(self, array: Array, byte: int) -> int | None:
        """Returns where a byte of an array lies in the file, or None if it has no memory there."""
        if byte >= array.mapped:
            return None
        at = array.place(byte)
        return at if self.has_memory(at) else None

    def bytes_with_memory(self, array: Array) -> int:
        """How many bytes of an array's extents have memory."""
        found, begin, i = 0, 0, 0
        while begin < array.mapped:
            end = min(array.first_extent << i, array.mapped)
            at, last = array.extents[i] * PAGE, array.extents[i] * PAGE + end - begin
            while at < last:
                try:
                    at = os.lseek(self._file, at, os.SEEK_DATA)
                except OSError:  # only a hole
                    break
                hole = min(os.lseek(self._file, at, os.SEEK_HOLE), last)
                found += max(hole - at, 0)
                at = hole if at < last else last
            begin, i = end, i + 1
        return found

    # ---- The header ------------------------------------------------------------------------------------------------------------

    def word(self, field: str) -> int:
        """A 64-bit word of the header."""
        return self.get(HEADER[field], "<Q")[0]

    def put_word(self, field: str, number: int) -> None:
        self.put(HEADER[field], "<Q", number)

    def array(self, name: str | int) -> Array:
        """An entry of the directory, by the array's name or by its number."""
        words = self.get(self._entry(name), _ENTRY_LAYOUT)
        offset, stride, capacity, first_extent, used, reserved, free_head, mapped, *extents = words
        return Array(offset, stride, capacity, first_extent, used, reserved, free_head, mapped, tuple(extents))

    def put_array(self, name: str | int, **fields: int | tuple[int, ...]) -> None:
        """Changes some fields of an entry."""
        array = self.array(name)._replace(**fields)  # type: ignore[arg-type]
        self.put(self._entry(name), _ENTRY_LAYOUT, *array[:8], *array.extents)

    def _entry(self, name: str | int) -> int:
        return HEADER["arrays"] + ENTRY_BYTES * (name if isinstance(name, int) else ARRAYS.index(name))

    # ---- Elements --------------------------------------------------------------------------------------------------------------

    def place(self, name: str | int, index: int, field: int = 0) -> int:
        """Where byte `field` of an element lies in the file."""
        array = self.array(name)
        return array.place(index * array.stride + field)

    def elements(self, name: str | int) -> Iterator[int]:
        """The first bytes, counted from the array's begin, of elements that were ever taken and have memory."""
        array = self.array(name)
        return (
            byte for byte in range(array.stride, array.used * array.stride, array.stride) if self.has_memory(array.place(byte))
        )

    def content(self, name: str | int) -> bytes:
        """The bytes of all elements that were ever taken."""
        array = self.array(name)
        pages = range(0, array.used * array.stride, PAGE)
        return b"".join(os.pread(self._file, PAGE, array.place(at)) for at in pages)[: array.used * array.stride]

    def move(self, name: str | int, content: bytes, stride: int, used: int, capacity: int | None = None) -> None:
        """Gives an array other elements: in an extent at the end of the file, at addresses behind all others."""
        length = -(-len(content) // PAGE) * PAGE
        in_file, offset = -(-self.size() // PAGE) * PAGE, self.word("segment_bytes")
        os.pwrite(self._file, content.ljust(length, b"\0"), in_file)
        self.put_word("file_bytes", in_file + length)
        self.put_word("segment_bytes", offset + length)
        self.put_array(
            name, offset=offset, stride=stride, capacity=used if capacity is None else capacity, first_extent=length, used=used,
            reserved=len(content), free_head=0, mapped=length, extents=(in_file // PAGE,) + (0,) * (EXTENTS - 1),
        )  # fmt: skip


_WORDS = [0, 1, 2, 3, 64, 4096, 65535, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, 1 << 63, (1 << 64) - 1]


class Damage(SegmentFile):
    """A segment with changed words."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.arrays = [self.array(name) for name in ARRAYS]  # as they are before the damage
        self.before: list[tuple[int, int]] = []

    def make(self, dice: random.Random) -> None:
        """Changes any word, or what a reader goes by: the directory, an index, a whole element, a page, the end of the file."""
        ways = (self._word, self._directory, self._index, self._element, self._page, self._end)
        dice.choices(ways, (40, 8, 8, 8, 3, 1))[0](dice)

    def _some(self, dice: random.Random) -> tuple[Array, int] | None:
        """Returns an array, and the first byte of an element of it that was ever taken."""
        array = dice.choice(self.arrays)
        return (array, dice.randrange(1, min(array.used, 2000)) * array.stride) if array.used > 1 else None

    def _put(self, at: int, number: int) -> None:
        self.before.append((at, self.get(at, "<I")[0]))
        self.put(at, "<I", number & 0xFFFFFFFF)

    def _word(self, dice: random.Random) -> None:
        at: int | None = None
        if dice.randrange(8) == 0:
            at = 400 + dice.randrange(9000 // 4) * 4  # the header
        elif (some := self._some(dice)) is not None:
            at = self.place_with_memory(some[0], some[1] + dice.randrange(min(some[0].stride, 2048) // 4) * 4)
        if at is not None:
            (old,) = self.get(at, "<I")
            small, bit = dice.randrange(300), old ^ 1 << dice.randrange(32)
            self._put(at, dice.choice([small, bit, old + 1, dice.choice(_WORDS), dice.getrandbits(32)]))

    def _directory(self, dice: random.Random) -> None:
        """Gives an array what another one has, or a little less or more than it has."""
        mine, other = dice.randrange(len(self.arrays)), dice.choice(self.arrays)
        field = dice.choice(Array._fields[:8])
        own = getattr(self.array(mine), field)
        number = dice.choice([getattr(other, field), max(own - 1, 0), own + 1, own * 2, own // 2])
        self.put_array(mine, **{field: number & _WORDS[-1]})
        if dice.randrange(4) == 0:
            self.put_array(mine, extents=other.extents)

    def _index(self, dice: random.Random) -> None:
        """Makes a word that may be an index lead to another element, or to this one: a circle."""
        if (some := self._some(dice)) is None:
            return
        array, byte = some
        words = range(0, min(array.stride, 2048), 4)
        places = [at for word in words if (at := self.place_with_memory(array, byte + word)) is not None]
        if likely := [at for at in places if 0 < self.get(at, "<I")[0] < 4096]:
            own, any_other = byte // array.stride, dice.randrange(array.used)
            self._put(dice.choice(likely), dice.choice([own, any_other, array.used, array.used - 1]))

    def _element(self, dice: random.Random) -> None:
        """Fills an element with another one, of this or of another array, or with the same byte."""
        if (some := self._some(dice)) is None or (other := self._some(dice)) is None:
            return
        (at, source) = (self.place_with_memory(*one) for one in (some, other))
        if at is not None and source is not None:
            length = min(some[0].stride, 2048)
            filled = bytes([dice.choice(b"\0\1\xff\x1b\x80'")]) * length
            os.pwrite(self._file, dice.choice([os.pread(self._file, length, source), filled]), at)

    def _page(self, dice: random.Random) -> None:
        at = dice.randrange(HEADER_ROOM // PAGE, self.size() // PAGE + 1) * PAGE
        if self.has_memory(at):
            os.pwrite(self._file, dice.choice([bytes(PAGE), dice.randbytes(PAGE)]), at)

    def _end(self, dice: random.Random) -> None:
        """Cuts the file; the header knows it, or not."""
        size = dice.randrange(HEADER_ROOM, self.size() + 1)
        os.truncate(self._file, size)
        if dice.randrange(2):
            self.put_word("file_bytes", size)


def sparse_copy(source: Path, target: Path) -> Path:
    """With the same holes."""
    with open(source, "rb") as a, open(target, "wb") as b:
        os.ftruncate(b.fileno(), os.stat(source).st_size)
        at = 0
        while True:
            try:
                at = os.lseek(a.fileno(), at, os.SEEK_DATA)
            except OSError:
                return target
            end = os.lseek(a.fileno(), at, os.SEEK_HOLE)
            os.pwrite(b.fileno(), os.pread(a.fileno(), end - at, at), at)
            at = end
