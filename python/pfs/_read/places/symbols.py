"""Turns a place in a file of code or data into a symbol.

A probe cannot look up symbols, so an instrument's DOCUMENTATION says where its object is: a file, an offset and the build-id. The
symbols come from the file itself, else from its debug file (``elf``).
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import os
import re
import struct
from dataclasses import dataclass
from typing import BinaryIO

from pfs._base import paths
from pfs._read.places import rust
from pfs._read.places.elf import Elf, Section, TooMuchError, files_of, opened, text_at

__all__ = ["Place", "place_of", "symbol_of"]

_PLACE = re.compile(r"(?P<used> first used)? (?:at|from) (?P<path>/.*)\+0x(?P<offset>[0-9a-f]+) build-id=(?P<build>[0-9a-f]*)$")
# What a name of C++ refers back to. Each level of references that refer to references multiplies the text.
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
_MOST_CHARACTERS = 5e7  # a name whose text may have more stays as it is: of 135,930 names in 40 large libraries, some ten
# A thread of std::thread has the name of the class of its state: the types of the function and its arguments.
_STD_THREAD = re.compile(r"^vtable for std::thread::_State_impl<std::thread::_Invoker<std::tuple<(.*)> > >$")

_SYMBOLS = (2, 11)  # types of sections: all symbols, and those of the dynamic linker
_MOST_SYMBOLS = 1 << 20  # of a module: sorting them takes a second, and 80 MiB
_MOST_NAMES = 32  # of a place that are compared
_MOST_ALIKE = 1000  # symbols that begin at one place
_MOST_TEXT = 1 << 16  # characters of a name as the source has it
_CODE_AND_DATA = (1, 2)  # types of symbols
_ENTRY = struct.Struct("<IBxHQQ")  # name, type, section (0: it is in another file), address, size


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file of code or data. A return address stands behind its call, which may be the last of its function."""

    path: str
    offset: int
    build_id: str
    is_return: bool = False

    @property
    def inside(self) -> int:
        """An offset inside the call or the object."""
        return self.offset - self.is_return


def place_of(documentation: str | None) -> Place | None:
    """Returns the place that the DOCUMENTATION of an instrument names, or None."""
    match = _PLACE.search(documentation or "")
    return match and Place(match["path"], int(match["offset"], 16), match["build"], match["used"] is not None)


def symbol_of(place: Place) -> str | None:
    """Returns the symbol of a place, such as ``queue_lock`` or ``worker+0x1f``; None if it is not known."""
    found = _table(place.path, place.build_id).symbol(place.inside)
    if found is None:
        return None
    start, name = found
    return _demangled(name) + (f"+0x{place.offset - start:x}" if place.offset > start else "")


_Identity = tuple[int, int, int, int]


def _identity(file: BinaryIO) -> _Identity:
    """Returns what tells a file from one that has taken its place, or that was written to."""
    info = os.fstat(file.fileno())
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


class _Table:
    """The symbols of a module. Large ones have some 500,000: names are read when a place needs them."""

    def __init__(self) -> None:
        self._entries = b""  # of all tables of symbols
        self._parts: list[tuple[int, str, _Identity, Section]] = []  # for each table: its end in _entries, its file, its names
        self._order: list[int] = []  # sorted: address, and index in _entries

    def add(self, path: str, elf: Elf) -> None:
        """Adds the tables of a file."""
        for section in elf.sections:
            if section.type not in _SYMBOLS:
                continue
            names, first = elf.sections[section.link], len(self._entries) // _ENTRY.size
            if first + section.size // _ENTRY.size > _MOST_SYMBOLS:
                raise TooMuchError(f"more than {_MOST_SYMBOLS:,} symbols")
            entries = elf.data(section)
            entries = entries[: len(entries) // _ENTRY.size * _ENTRY.size]
            self._entries += entries
            self._parts.append((first + len(entries) // _ENTRY.size, path, _identity(elf.file), names))
            self._order += [
                address << 32 | index
                for index, (name, info, defined, address, _) in enumerate(_ENTRY.iter_unpack(entries), first)
                if defined and info & 15 in _CODE_AND_DATA and name
            ]

    def sort(self) -> None:
        self._order.sort()

    def symbol(self, address: int) -> tuple[int, str] | None:
        """Returns the start and the name of the symbol at an address. Of several that begin there, the largest is the one."""
        at = bisect.bisect_right(self._order, address << 32 | 0xFFFFFFFF) - 1
        if at < 0:
            return None
        start = self._order[at] >> 32
        some = self._order[max(bisect.bisect_left(self._order, start << 32), at + 1 - _MOST_ALIKE) : at + 1]
        indexes = [entry & 0xFFFFFFFF for entry in some]
        sizes = [_ENTRY.unpack_from(self._entries, index * _ENTRY.size)[4] for index in indexes]
        if address >= start + max((most := max(sizes)), 1):
            return None
        largest = [index for index, size in zip(indexes, sizes, strict=True) if size == most]
        return start, max(map(self._name, largest[:_MOST_NAMES]))

    def _name(self, index: int) -> str:
        _, path, read, names = self._parts[bisect.bisect_right(self._parts, index, key=lambda part: part[0])]
        try:
            with paths.reading(path, follow=True) as file:
                if _identity(file) == read:
                    return text_at(file, names, _ENTRY.unpack_from(self._entries, index * _ENTRY.size)[0])
        except OSError:
            pass
        return ""


@functools.lru_cache(maxsize=256)
def _table(path: str, build_id: str) -> _Table:
    table = _Table()
    for file in files_of(path, build_id):
        with opened(file) as elf:
            if elf is not None:
                table.add(file, elf)
    table.sort()
    return table


@functools.cache
def _demangler() -> ctypes._NamedFuncPointer | None:
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    return demangle


def _demangled(name: str) -> str:
    """Returns a name of C++ or Rust as the program's source has it."""
    if name.startswith("_R"):
        return rust.of_v0(name) or name
    demangle = _demangler() if name.startswith("_Z") else None
    if demangle is None or len(name) * 3 ** min(len(_REFERENCE.findall(name)) / 3, 99) > _MOST_CHARACTERS:
        return name
    status = ctypes.c_int(0)
    text = demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not text:
        return name
    try:
        readable = ctypes.string_at(text).decode(errors="replace")
        if len(readable) > _MOST_TEXT:
            return name
        return rust.of_legacy(_STD_THREAD.sub(r"std::thread(\1)", readable))
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
