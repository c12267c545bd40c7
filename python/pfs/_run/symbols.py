"""Turns the places in names of instruments, such as code+0x1f3b, into symbols.

A probe cannot look up symbols, so an instrument's DOCUMENTATION says where its object is: a file, an offset and the build-id. The
symbols come from the file itself, else from its debug file below /usr/lib/debug. It needs pyelftools (``pip install
perfschema[run]``); without it names stay as they are.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import re
from dataclasses import dataclass

__all__ = ["Place", "place_of", "readable", "symbol_of"]

_PLACE = re.compile(r" (?:at|from) (?P<path>/.*)\+0x(?P<offset>[0-9a-f]+) build-id=(?P<build>[0-9a-f]*)$")
_IN_NAME = re.compile(r"(?:code|data)\+0x[0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file of code."""

    path: str
    offset: int
    build_id: str


def place_of(documentation: str | None) -> Place | None:
    """Returns the place that the DOCUMENTATION of an instrument names, or None."""
    match = _PLACE.search(documentation or "")
    return match and Place(match["path"], int(match["offset"], 16), match["build"])


def readable(name: str, documentation: str | None) -> str:
    """Returns the name of an instrument with a symbol in the place of an offset, if the symbol is known."""
    place = place_of(documentation)
    symbol = None if place is None else symbol_of(place)
    return name if symbol is None else _IN_NAME.sub(lambda _: symbol, name)


def symbol_of(place: Place) -> str | None:
    """Returns the symbol of a place, such as ``queue_lock`` or ``worker+0x1f``; None if it is not known."""
    starts, symbols = _symbols(place.path, place.build_id)
    at = bisect.bisect_right(starts, place.offset) - 1
    if at < 0:
        return None
    start, size, name = symbols[at]
    if place.offset >= start + max(size, 1):
        return None
    return _demangled(name) + (f"+0x{place.offset - start:x}" if place.offset > start else "")


@functools.lru_cache(maxsize=256)
def _symbols(path: str, build_id: str) -> tuple[list[int], list[tuple[int, int, str]]]:
    """Returns the addresses of the symbols of a file, sorted, and the symbols."""
    debug = f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    found = {symbol for file in (path, debug) for symbol in _read(file, build_id)}
    symbols = sorted(found)
    return [symbol[0] for symbol in symbols], symbols


def _read(path: str, build_id: str) -> list[tuple[int, int, str]]:
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import NoteSection, SymbolTableSection
    except ImportError:
        return []
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            notes = [note for part in elf.iter_sections() if isinstance(part, NoteSection) for note in part.iter_notes()]
            own = next((note["n_desc"] for note in notes if note["n_type"] == "NT_GNU_BUILD_ID"), "")
            if build_id and own != build_id:
                return []  # the file has changed since
            return [
                (symbol["st_value"], symbol["st_size"], symbol.name)
                for part in elf.iter_sections()
                if isinstance(part, SymbolTableSection)
                for symbol in part.iter_symbols()
                if symbol["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT") and symbol["st_shndx"] != "SHN_UNDEF" and symbol.name
            ]
    except (OSError, ELFError):
        return []


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
    """Returns a C++ name as the program's source has it."""
    demangle = _demangler() if name.startswith("_Z") else None
    if demangle is None:
        return name
    status = ctypes.c_int(0)
    text = demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
