"""Finds the files that know the symbols and lines of a module: the module itself, and its debug file.

A debug file is found by the build-id below /usr/lib/debug, or by the name in the section .gnu_debuglink, or, where the user has
set DEBUGINFOD_URLS, by debuginfod-find, the client of elfutils, which asks these servers and keeps what they send.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Collection, Iterator
from typing import BinaryIO, NamedTuple

from pfs._base import paths

__all__ = ["LEFT", "Elf", "Section", "TooMuchError", "build_id_of", "files_of", "opened", "text_at"]

_DEBUG = "/usr/lib/debug"
_CHUNK = 1 << 20
_MOST_BYTES = 64 << 20  # of symbols, notes and names that are read of a file: some two million symbols
_MOST_SECTIONS = 4096
_MOST_OF_NOTES = 1 << 16  # a build-id is in a small one
_MOST_OF_A_NAME = 256  # of a section
_MOST_OF_A_SYMBOL = 1 << 16
_MOST_SUMMED = 1 << 30  # bytes of a debug file without a build-id
_MOST_SECONDS = 60  # for a debug file from a server
_HEADER = struct.Struct("<16s24xQ10xHHH")  # where the sections are, their size, their number, which has the names
_SECTION = struct.Struct("<II16xQQI4xQ8x")
_NOTE = struct.Struct("<III")
_IDENTITY = b"\x7fELF\x02\x01"  # 64 bits, little-endian, as every program that pfs can be in
_NOTES, _NO_BITS = 7, 8  # types of sections
_BUILD_ID = 3  # type of a note

_SERVERS_ARE_SLOW = "DEBUGINFOD_URLS"  # the name of their line in LEFT

LEFT: dict[str, str] = {}  # files that were not read, or not to their end, and why


class TooMuchError(ValueError):
    """A file would cost its reader too much. The text says what it has."""


class Section(NamedTuple):
    """A section of an ELF file."""

    name: str
    type: int
    offset: int
    size: int
    link: int  # index of the section that this one belongs to
    alignment: int


class Elf:
    """An ELF file.

    Raises:
        ValueError: it is no ELF file, or it is damaged. struct.error says the same.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._size = os.fstat(file.fileno()).st_size
        self._left = _MOST_BYTES
        identity, start, size, count, names = _HEADER.unpack(self._part(0, _HEADER.size))
        if not identity.startswith(_IDENTITY) or size != _SECTION.size:
            raise ValueError("no ELF file of 64 bits")
        if count > _MOST_SECTIONS:
            raise TooMuchError(f"more than {_MOST_SECTIONS:,} sections")
        found = list(_SECTION.iter_unpack(self._part(start, size * count)))
        texts = self._part(found[names][2], found[names][3]) if names < count else b""
        self.sections = tuple(Section(_text(texts[name : name + _MOST_OF_A_NAME]), *rest) for name, *rest in found)

    def _part(self, offset: int, size: int) -> bytes:
        if offset + size > self._size:
            raise ValueError("the file is too short")
        self._left -= size  # a file with holes can claim any size, and many sections the same bytes
        if self._left < 0:
            raise TooMuchError(f"more than {_MOST_BYTES >> 20} MiB of symbols and notes")
        self.file.seek(offset)
        return self.file.read(size)

    def named(self, name: str) -> Section | None:
        """Returns the section with this name."""
        return next((section for section in self.sections if section.name == name), None)

    def data(self, section: Section | None) -> bytes:
        """Returns the bytes of a section as they are in the file."""
        return self._part(section.offset, section.size) if section is not None and section.type != _NO_BITS else b""


def _text(texts: bytes) -> str:
    return texts.partition(b"\0")[0].decode(errors="replace")


def text_at(file: BinaryIO, section: Section, offset: int) -> str:
    """Returns a name of a section of names; "" if it is too long."""
    for size in (256, _MOST_OF_A_SYMBOL):  # most names are short, and the section may be large
        file.seek(min(section.offset + offset, sys.maxsize))  # the header of a section can claim any place
        part = file.read(max(min(size, section.size - offset), 0))
        if b"\0" in part or len(part) < size:
            return _text(part)
    return ""


@contextlib.contextmanager
def opened(path: str, owners: Collection[int] | None = None) -> Iterator[Elf | None]:
    """Opens an ELF file, of these users if some are given. It yields None for any other file, and for a damaged one. Damage that
    shows later ends the block."""
    with contextlib.ExitStack() as stack:
        elf = None
        try:
            # A path comes from the program: it may name a pipe by now, and must not block the reader.
            elf = Elf(stack.enter_context(paths.reading(path, owners, follow=True)))
        except TooMuchError as error:
            LEFT[path] = str(error)
        except (OSError, ValueError, struct.error):
            pass
        try:
            yield elf
        except TooMuchError as error:
            LEFT[path] = str(error)
        except Exception:  # pyelftools, which reads lines, raises many
            pass


def build_id_of(elf: Elf) -> str:
    """Returns the build-id as hexadecimal, or ""."""
    left = _MOST_OF_NOTES
    for section in elf.sections:
        if section.type != _NOTES or section.size > left:
            continue
        left -= section.size
        data, step, at = elf.data(section), max(section.alignment, 4), 0
        while at + _NOTE.size <= len(data):
            name_size, size, kind = _NOTE.unpack_from(data, at)
            begin = at + -(-(_NOTE.size + name_size) // step) * step
            if kind == _BUILD_ID and data[at + _NOTE.size :].startswith(b"GNU\0"):
                return data[begin : begin + size].hex()
            at = begin + -(-size // step) * step
    return ""


@functools.lru_cache(maxsize=256)
def files_of(path: str, build_id: str) -> tuple[str, ...]:
    """Returns the files that belong to a module, itself first. It leaves out files that have changed since: another build-id."""
    found = []
    link: tuple[str, int] | None = None
    has_lines = False
    with opened(path) as elf:
        if elf is not None and (not build_id or build_id_of(elf) == build_id):
            found.append(path)
            link = _debug_link(elf)
            has_lines = any(elf.named(name) for name in (".debug_info", ".zdebug_info"))
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
    if build_id and not has_lines and len(found) < 2 and (fetched := _fetched(build_id)) and _has_build_id(fetched, build_id):
        found.append(fetched)
    return tuple(found)


def _fetched(build_id: str) -> str:
    """Returns the debug file that a server of DEBUGINFOD_URLS has for a module, or "". A build-id comes from the program, and the
    client would take any other text for an option or a file."""
    is_id = not build_id.strip("0123456789abcdef")
    tool = shutil.which("debuginfod-find") if is_id and os.environ.get("DEBUGINFOD_URLS") else None
    if tool is None or _SERVERS_ARE_SLOW in LEFT:
        return ""
    try:
        done = subprocess.run([tool, "debuginfo", build_id], capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
    except subprocess.TimeoutExpired:  # and each other file would take as long
        LEFT[_SERVERS_ARE_SLOW] = f"a debug file did not come in {_MOST_SECONDS} s"
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _has_build_id(path: str, build_id: str) -> bool:
    own: str | None = None
    with opened(path) as elf:
        own = build_id_of(elf) if elf is not None else None
    return own == build_id


def _debug_link(elf: Elf) -> tuple[str, int] | None:
    """Returns the name of the debug file without a folder, and the CRC-32 of its contents."""
    data = elf.data(elf.named(".gnu_debuglink"))
    name = os.fsdecode(data.split(b"\0", 1)[0])
    if len(data) < 5 or not name or "/" in name:
        return None
    return name, int.from_bytes(data[-4:], "little")


def _has_sum(path: str, check: int) -> bool:
    now = 0
    try:
        with paths.reading(path, follow=True) as file:
            if os.fstat(file.fileno()).st_size > _MOST_SUMMED:
                LEFT[path] = f"more than {_MOST_SUMMED >> 30} GiB, and no build-id"
                return False
            while chunk := file.read(_CHUNK):
                now = zlib.crc32(chunk, now)
    except OSError:
        return False
    return now == check
