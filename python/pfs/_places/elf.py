"""Finds the files that know the symbols and lines of a module: the module itself, and its debug file.

A debug file is found by the build-id below /usr/lib/debug, or by the name in the section .gnu_debuglink. It needs pyelftools
(``pip install perfschema[run]``); without it no file is found.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

__all__ = ["build_id_of", "files_of", "opened"]

_DEBUG = "/usr/lib/debug"
_CHUNK = 1 << 20


@contextlib.contextmanager
def opened(path: str) -> Iterator[ELFFile | None]:
    """Opens an ELF file. It yields None for any other file, and for a damaged one. Damage that shows later ends the block."""
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            # A path comes from the program: it may name a pipe by now, and must not block the reader.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            file: BinaryIO = stack.enter_context(os.fdopen(descriptor, "rb"))
            elf = ELFFile(file) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        except (OSError, ELFError):
            elf = None
        stack.enter_context(contextlib.suppress(Exception))  # pyelftools says so in many ways, also by assertions
        yield elf


def build_id_of(elf: ELFFile) -> str:
    """Returns the build-id as hexadecimal, or ""."""
    from elftools.elf.sections import NoteSection

    notes = (note for part in elf.iter_sections() if isinstance(part, NoteSection) for note in part.iter_notes())
    return next((str(note["n_desc"]) for note in notes if note["n_type"] == "NT_GNU_BUILD_ID"), "")


@functools.lru_cache(maxsize=256)
def files_of(path: str, build_id: str) -> tuple[str, ...]:
    """Returns the files that belong to a module, itself first. It leaves out files that have changed since: another build-id."""
    found = []
    link: tuple[str, int] | None = None
    with opened(path) as elf:
        if elf is not None and (not build_id or build_id_of(elf) == build_id):
            found.append(path)
            link = _debug_link(elf)
    by_id = f"{_DEBUG}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    if build_id and _has_build_id(by_id, build_id):
        found.append(by_id)
    elif link is not None:
        name, check = link
        folder = os.path.dirname(path)
        for place in (f"{folder}/{name}", f"{folder}/.debug/{name}", f"{_DEBUG}{folder}/{name}"):
            if place != path and (_has_build_id(place, build_id) if build_id else _has_sum(place, check)):
                found.append(place)
                break
    return tuple(found)


def _has_build_id(path: str, build_id: str) -> bool:
    own: str | None = None
    with opened(path) as elf:
        own = build_id_of(elf) if elf is not None else None
    return own == build_id


def _debug_link(elf: ELFFile) -> tuple[str, int] | None:
    """Returns the name of the debug file without a folder, and the CRC-32 of its contents."""
    section = elf.get_section_by_name(".gnu_debuglink")
    data = section.data() if section is not None else b""
    name = os.fsdecode(data.split(b"\0", 1)[0])
    if len(data) < 5 or not name or "/" in name:
        return None
    return name, int.from_bytes(data[-4:], "little" if elf.little_endian else "big")


def _has_sum(path: str, check: int) -> bool:
    now = 0
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                now = zlib.crc32(chunk, now)
    except OSError:
        return False
    return now == check
