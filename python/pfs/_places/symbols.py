"""Turns a place in a file of code or data into a symbol.

A probe cannot look up symbols, so an instrument's DOCUMENTATION says where its object is: a file, an offset and the build-id. The
symbols come from the file itself, else from its debug file (``elf``).
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import re
from dataclasses import dataclass

from pfs._places.elf import files_of, opened

__all__ = ["Place", "place_of", "symbol_of"]

_PLACE = re.compile(r"(?P<used> first used)? (?:at|from) (?P<path>/.*)\+0x(?P<offset>[0-9a-f]+) build-id=(?P<build>[0-9a-f]*)$")
# A thread of std::thread has the name of the class of its state: the types of the function and its arguments.
_STD_THREAD = re.compile(r"^vtable for std::thread::_State_impl<std::thread::_Invoker<std::tuple<(.*)> > >$")


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
    starts, symbols = _symbols(place.path, place.build_id)
    at = bisect.bisect_right(starts, place.inside) - 1
    if at < 0:
        return None
    start, size, name = symbols[at]
    if place.inside >= start + max(size, 1):
        return None
    return _demangled(name) + (f"+0x{place.offset - start:x}" if place.offset > start else "")


@functools.lru_cache(maxsize=256)
def _symbols(path: str, build_id: str) -> tuple[list[int], list[tuple[int, int, str]]]:
    """Returns the addresses of the symbols of a file, sorted, and the symbols."""
    symbols = sorted({symbol for file in files_of(path, build_id) for symbol in _read(file)})
    return [symbol[0] for symbol in symbols], symbols


def _read(path: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    with opened(path) as elf:
        if elf is not None:
            from elftools.elf.sections import SymbolTableSection

            found += [
                (symbol["st_value"], symbol["st_size"], symbol.name)
                for part in elf.iter_sections()
                if isinstance(part, SymbolTableSection)
                for symbol in part.iter_symbols()
                if symbol["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT") and symbol["st_shndx"] != "SHN_UNDEF" and symbol.name
            ]
    return found


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
        readable = ctypes.string_at(text).decode(errors="replace")
        return _STD_THREAD.sub(r"std::thread(\1)", readable)
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))
