"""Turns a place in a file of code into a line of its source, from the section .debug_line of the file or of its debug file.

The lines of a compilation unit are decoded when a place in that unit is looked up first. Inlined code of a system header, such as
a lock of C++, has the line of its caller. It needs pyelftools.
pyelftools takes any time for a file that is made for it, so what it reads is counted. Files of other users than root and this one
have no lines.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import os
import re
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from pfs._base.paths import trusted
from pfs._read.places.elf import LEFT, TooMuchError, files_of, opened

if TYPE_CHECKING:
    from pfs._read.places.symbols import Place

__all__ = ["line_of"]

# A file with more bytes of debug information, or a unit with a larger table of lines, has no lines. Decoding 1 MiB takes 0.4 s.
MOST_BYTES = 96 << 20
MOST_BYTES_OF_UNIT = 1 << 20
_WITH_FUNCTIONS = ("DW_TAG_namespace", "DW_TAG_structure_type", "DW_TAG_enumeration_type", "DW_TAG_union_type")
# What is read of a file to find its units, and to decode those that are asked for: some two and four seconds. A read of
# .debug_abbrev counts as 1. Other reads cost more and count as 3, as does a byte of a table of lines. A unit of C++ takes
# 30,000 to 500,000.
MOST_READS, MOST_READS_OF_LINES = 2_000_000, 6_000_000
# Files of the compiler's libraries: a line of theirs says nothing of a program.
_SYSTEM = re.compile(
    r"/include/c\+\+/|^/usr/(?:local/)?include/|^/usr/lib/(?:gcc|llvm)|^/rustc/|^/usr/src/rustc-|/lib/rustlib/src/|/\.cargo/registry/"
)
_DECODED = (".debug_", ".eh_frame", ".gnu_debugaltlink")  # sections that pyelftools reads as a whole


def line_of(place: Place) -> str | None:
    """Returns the line of a place in code, such as ``app.c:42``; None if it is not known."""
    units = _units(place.path, place.build_id)
    return units.line(place.inside) if units is not None else None


@functools.lru_cache(maxsize=4)  # each holds the debug information of a file in memory
def _units(path: str, build_id: str) -> _Units | None:
    for file in files_of(path, build_id):
        with opened(file, trusted()) as elf:
            if (
                elf is None or elf.named(".debug_line") is None or elf.named(".zdebug_info") is not None
            ):  # no size without decoding
                continue
            from elftools.elf.elffile import ELFFile  # without it there are no lines

            whole = ELFFile(elf.file)
            if sum(part.data_size for part in whole.iter_sections() if part.name.startswith(_DECODED)) > MOST_BYTES:
                raise TooMuchError(f"more than {MOST_BYTES >> 20} MiB of debug information")
            return _Units(file, whole.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False))
    return None


class _Reads:
    """Counts what is read of a file's debug information."""

    def __init__(self) -> None:
        self.left = MOST_READS

    def count(self, reads: int) -> None:
        self.left -= reads
        if self.left < 0:
            raise EOFError  # the section ends here


class _Counted:
    """The stream of a section, for pyelftools."""

    def __init__(self, stream: BinaryIO, reads: _Reads, weight: int) -> None:
        self._stream = stream
        self._reads = reads
        self._weight = weight
        self.seek = stream.seek
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._reads.count(self._weight + len(data) // 64)
        return data


class _Lines(NamedTuple):
    """The rows of a table of lines, sorted by address. The number of a line is 0 where a piece of code ends."""

    addresses: array[int]
    numbers: array[int]
    files: array[int]
    names: list[tuple[str, bool]]  # by file: its name, whether it is of the system

    def at(self, address: int) -> tuple[str, bool]:
        """Returns a line, "" if there is none, and whether it is of the system."""
        row = bisect.bisect_right(self.addresses, address) - 1
        if row < 0 or self.numbers[row] == 0 or self.files[row] >= len(self.names):
            return "", False
        name, is_of_system = self.names[self.files[row]]
        return (f"{name}:{self.numbers[row]}", is_of_system) if name else ("", False)


class _Units:
    """Holds the compilation units of a file."""

    def __init__(self, path: str, dwarf: Any) -> None:
        self._path = path
        self._dwarf = dwarf
        self._reads = _Reads()
        for name, part in vars(dwarf).items():
            if hasattr(part, "stream"):
                weight = 1 if name == "debug_abbrev_sec" else 3
                setattr(dwarf, name, part._replace(stream=_Counted(part.stream, self._reads, weight)))
        self._lines: dict[int, _Lines | None] = {}  # by offset of the unit
        self._functions: dict[int, list[tuple[int, int, Any]]] = {}  # by offset of the unit: addresses and entries
        self._ranges = sorted(self._find_ranges())
        self._reads.left = MOST_READS_OF_LINES
        self._starts = [begin for begin, _, _ in self._ranges]

    def line(self, address: int) -> str | None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._ranges[at][1]:
            return None
        unit = self._ranges[at][2]
        if unit not in self._lines:
            self._lines[unit] = None  # stays so if the section is damaged
            with self._bounded():
                self._lines[unit] = self._decode(unit)
        lines = self._lines[unit]
        if lines is None:
            return None
        line, is_of_system = lines.at(address)
        caller = None
        if is_of_system:
            with self._bounded():
                caller = self._caller(unit, address, lines.names)
        return caller or line or None

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        """Ends the block where the section is damaged, of which pyelftools says so in many ways, or costs too much."""
        try:
            yield
        except Exception:
            if self._reads.left < 0:
                LEFT[self._path] = "its debug information takes too long to decode"

    def _find_ranges(self) -> list[tuple[int, int, int]]:
        """Returns the addresses of code, each with the offset of its unit."""
        found = []
        with self._bounded():
            table = self._dwarf.get_aranges()
            if table is not None:
                found = [(entry.begin_addr, entry.begin_addr + entry.length, entry.info_offset) for entry in table.entries]
            known = {unit for _, _, unit in found}
            for unit in self._dwarf.iter_CUs():
                if unit.cu_offset not in known:  # clang makes no .debug_aranges
                    found += [(begin, end, unit.cu_offset) for begin, end in self._ranges_of(unit, unit.get_top_DIE())]
        return [(begin, end, unit) for begin, end, unit in found if 0 < begin < end]  # 0: the linker has dropped the code

    def _ranges_of(self, unit: Any, part: Any) -> list[tuple[int, int]]:
        attributes = part.attributes
        first = (attributes if "DW_AT_low_pc" in attributes else unit.get_top_DIE().attributes).get("DW_AT_low_pc")
        base = first.value if first is not None else 0
        if "DW_AT_high_pc" in attributes:
            high = attributes["DW_AT_high_pc"]
            return [(base, high.value if high.form == "DW_FORM_addr" else base + high.value)]
        lists = self._dwarf.range_lists()
        if "DW_AT_ranges" not in attributes or lists is None:
            return []
        found = []
        for entry in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, cu=unit):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            else:
                start = 0 if entry.is_absolute else base
                found.append((start + entry.begin_offset, start + entry.end_offset))
        return found

    def _parts_of(self, part: Any) -> Iterator[Any]:
        for child in part.iter_children():
            self._reads.count(5)  # pyelftools may have read it before
            yield child

    def _inside(self, part: Any) -> Iterator[Any]:
        """Yields what is in a unit, also in its namespaces and types: Rust has functions there, C++ declarations."""
        for child in self._parts_of(part):
            yield child
            if child.tag in _WITH_FUNCTIONS:
                yield from self._inside(child)

    def _caller(self, offset: int, address: int, files: list[tuple[str, bool]]) -> str | None:
        """Returns the line of the program that calls the inlined code at an address."""
        unit = self._dwarf.get_CU_at(offset)
        if unit["unit_length"] > MOST_BYTES_OF_UNIT:
            return None
        if offset not in self._functions:
            self._functions[offset] = [
                (begin, end, part)
                for part in self._inside(unit.get_top_DIE())
                if part.tag == "DW_TAG_subprogram"
                for begin, end in self._ranges_of(unit, part)
            ]
        here = next((part for begin, end, part in self._functions[offset] if begin <= address < end), None)
        line = None
        while here is not None:
            if here.tag == "DW_TAG_inlined_subroutine" and "DW_AT_call_file" in here.attributes:
                name, is_of_system = files[here.attributes["DW_AT_call_file"].value]
                if not is_of_system:
                    line = f"{name}:{here.attributes['DW_AT_call_line'].value}"
            here = next(
                (
                    part
                    for part in self._parts_of(here)
                    if part.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block")
                    and any(begin <= address < end for begin, end in self._ranges_of(unit, part))
                ),
                None,
            )
        return line

    def _decode(self, offset: int) -> _Lines | None:
        program = self._dwarf.line_program_for_CU(self._dwarf.get_CU_at(offset))
        if program is None or program["unit_length"] > MOST_BYTES_OF_UNIT:
            return None
        stream = program.stream
        stream.seek(program.program_start_offset)
        code = stream.read(program.program_end_offset - program.program_start_offset)
        self._reads.count(3 * len(code))
        is_numbered_from_0 = program["version"] >= 5
        folders = [*([] if is_numbered_from_0 else [b""]), *program["include_directory"]]
        files = [] if is_numbered_from_0 else [("", False)]
        for entry in program["file_entry"]:
            folder = folders[entry.dir_index].decode(errors="replace") if entry.dir_index < len(folders) else ""
            path = os.path.join(folder, entry.name.decode(errors="replace"))
            files.append((path.rpartition("/")[2], _SYSTEM.search(path) is not None))
        rows = _rows(program.header, code)
        addresses, numbers, _ = rows
        # The end of a piece of code stands before the piece that begins there. Of rows for one address the last holds.
        order = sorted(range(len(addresses)), key=lambda row: numbers[row] > 0)
        order.sort(key=addresses.__getitem__)
        addresses, numbers, places = (array(column.typecode, map(column.__getitem__, order)) for column in rows)
        return _Lines(addresses, numbers, places, files)


def _number(code: bytes, at: int) -> tuple[int, int]:
    """Returns an unsigned LEB128 of at most 64 bits, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = code[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("the number is too long")


def _signed(code: bytes, at: int) -> tuple[int, int]:
    """Returns a signed LEB128 and the place behind it."""
    value, end = _number(code, at)
    return (value - (1 << 7 * (end - at)) if code[end - 1] & 64 else value), end


def _rows(header: Any, code: bytes) -> tuple[array[int], array[int], array[int]]:
    """Runs the program of a table of lines (DWARF 5, section 6.2.5). Returns the addresses, lines and files of its rows.

    The end of a piece of code has the line 0. pyelftools does the same in ten times the time.
    """
    base, span, least = header["opcode_base"], header["line_range"], header["minimum_instruction_length"]
    # What a special operation adds to the address and to the line.
    special = [(i // span * least, header["line_base"] + i % span) for i in range(256 - base)]
    lengths = header["standard_opcode_lengths"]
    addresses, lines, files = array("Q"), array("I"), array("I")

    def add(address: int, line: int, file: int) -> None:
        addresses.append(address & 0xFFFFFFFF_FFFFFFFF)
        lines.append(line if 0 < line <= 0xFFFFFFFF else 0)
        files.append(min(file, 0xFFFFFFFF))

    address, line, file = 0, 1, 1
    at, end = 0, len(code)
    while at < end:
        operation = code[at]
        at += 1
        if operation >= base:
            more, further = special[operation - base]
            address += more
            line += further
            add(address, line, file)
        elif operation == 0:
            size, at = _number(code, at)
            kind = code[at]
            if kind == 1:  # the end of a piece of code
                add(address, 0, 0)
                address, line, file = 0, 1, 1
            elif kind == 2:
                address = int.from_bytes(code[at + 1 : at + size], "little")
            at += size
        elif operation == 1:
            add(address, line, file)
        elif operation == 2:
            value, at = _number(code, at)
            address += value * least
        elif operation == 3:
            value, at = _signed(code, at)
            line += value
        elif operation == 4:
            file, at = _number(code, at)
        elif operation == 8:
            address += special[255 - base][0]
        elif operation == 9:
            address += int.from_bytes(code[at : at + 2], "little")
            at += 2
        else:  # columns and marks
            for _ in range(lengths[operation - 1]):
                _, at = _number(code, at)
    return addresses, lines, files
