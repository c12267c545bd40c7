"""Turns a place in a file of code into a line of its source, from the section .debug_line of the file or of its debug file.

The lines of a compilation unit are decoded when a place in that unit is looked up first. Inlined code of a system header, such as
a lock of C++, has the line of its caller. It needs pyelftools
(``pip install perfschema[run]``); without it no line is found. pyelftools takes any time and memory for a file that is made for
it: files of other users than root and this one have no lines.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import os
import re
from typing import TYPE_CHECKING, Any

from pfs._base.paths import trusted
from pfs._read.places.elf import files_of, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pfs._read.places.symbols import Place

__all__ = ["line_of"]

# A file with more bytes of debug information, or a unit with a larger table of lines, has no lines. Decoding 1 MiB takes 0.4 s.
MOST_BYTES = 128 << 20
MOST_BYTES_OF_UNIT = 1 << 20
MOST_PARTS = 200_000  # of a unit or of a function that are searched for inlined code
_WITH_FUNCTIONS = ("DW_TAG_namespace", "DW_TAG_structure_type", "DW_TAG_enumeration_type", "DW_TAG_union_type")
# Files of the compiler's libraries: a line of theirs says nothing of a program.
_SYSTEM = re.compile(
    r"/include/c\+\+/|^/usr/(?:local/)?include/|^/usr/lib/(?:gcc|llvm)|^/rustc/|/lib/rustlib/src/|/\.cargo/registry/"
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
                continue
            return _Units(whole.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False))
    return None


class _Units:
    """Holds the compilation units of a file."""

    def __init__(self, dwarf: Any) -> None:
        self._dwarf = dwarf
        # By offset of the unit: addresses, lines, whether they are of the system. "" ends a piece of code.
        self._lines: dict[int, list[tuple[int, str, bool]]] = {}
        self._files: dict[int, list[tuple[str, bool]]] = {}  # by offset of the unit: names, whether they are of the system
        self._functions: dict[int, list[tuple[int, int, Any]]] = {}  # by offset of the unit: addresses and entries
        self._ranges = sorted(self._find_ranges())
        self._starts = [begin for begin, _, _ in self._ranges]

    def line(self, address: int) -> str | None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._ranges[at][1]:
            return None
        unit = self._ranges[at][2]
        if unit not in self._lines:
            self._lines[unit] = []  # stays so if the section is damaged
            with contextlib.suppress(Exception):
                self._lines[unit] = self._decode(unit)
        lines = self._lines[unit]
        at = bisect.bisect_right(lines, address, key=lambda line: line[0]) - 1
        if at < 0:
            return None
        _, line, is_of_system = lines[at]
        caller = None
        if is_of_system:
            with contextlib.suppress(Exception):  # the section is damaged
                caller = self._caller(unit, address)
        return caller or line or None

    def _find_ranges(self) -> list[tuple[int, int, int]]:
        """Returns the addresses of code, each with the offset of its unit."""
        found = []
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

    def _caller(self, offset: int, address: int) -> str | None:
        """Returns the line of the program that calls the inlined code at an address."""
        unit = self._dwarf.get_CU_at(offset)
        if unit["unit_length"] > MOST_BYTES_OF_UNIT:
            return None
        if offset not in self._functions:
            parts = itertools.islice(_inside(unit.get_top_DIE()), MOST_PARTS)
            self._functions[offset] = [
                (begin, end, part)
                for part in parts
                if part.tag == "DW_TAG_subprogram"
                for begin, end in self._ranges_of(unit, part)
            ]
        here = next((part for begin, end, part in self._functions[offset] if begin <= address < end), None)
        line = None
        while here is not None:
            if here.tag == "DW_TAG_inlined_subroutine" and "DW_AT_call_file" in here.attributes:
                name, is_of_system = self._files[offset][here.attributes["DW_AT_call_file"].value]
                if not is_of_system:
                    line = f"{name}:{here.attributes['DW_AT_call_line'].value}"
            here = next(
                (
                    part
                    for part in itertools.islice(here.iter_children(), MOST_PARTS)
                    if part.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block")
                    and any(begin <= address < end for begin, end in self._ranges_of(unit, part))
                ),
                None,
            )
        return line

    def _decode(self, offset: int) -> list[tuple[int, str, bool]]:
        program = self._dwarf.line_program_for_CU(self._dwarf.get_CU_at(offset))
        if program is None or program["unit_length"] > MOST_BYTES_OF_UNIT:
            return []
        stream = program.stream
        stream.seek(program.program_start_offset)
        code = stream.read(program.program_end_offset - program.program_start_offset)
        is_numbered_from_0 = program["version"] >= 5
        folders = [*([] if is_numbered_from_0 else [b""]), *program["include_directory"]]
        self._files[offset] = files = [] if is_numbered_from_0 else [("", False)]
        for entry in program["file_entry"]:
            folder = folders[entry.dir_index].decode(errors="replace") if entry.dir_index < len(folders) else ""
            path = os.path.join(folder, entry.name.decode(errors="replace"))
            files.append((path.rpartition("/")[2], _SYSTEM.search(path) is not None))
        # The end of a piece of code stands before the piece that begins there. Of rows for one address the last holds.
        return [
            (address, f"{files[file][0]}:{line}", files[file][1])
            if line > 0 and file < len(files) and files[file][0]
            else (address, "", False)
            for address, line, file in sorted(_rows(program.header, code), key=lambda row: (row[0], row[1] > 0))
        ]


def _inside(part: Any) -> Iterator[Any]:
    """Yields what is in a unit, also in its namespaces and types: Rust has functions there, C++ declarations."""
    for child in part.iter_children():
        yield child
        if child.tag in _WITH_FUNCTIONS:
            yield from _inside(child)


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


def _rows(header: Any, code: bytes) -> list[tuple[int, int, int]]:
    """Runs the program of a table of lines (DWARF 5, section 6.2.5). Returns an address, a line and a file for each row.

    The end of a piece of code has the line 0. pyelftools does the same in ten times the time.
    """
    base, span, least = header["opcode_base"], header["line_range"], header["minimum_instruction_length"]
    # What a special operation adds to the address and to the line.
    special = [(i // span * least, header["line_base"] + i % span) for i in range(256 - base)]
    lengths = header["standard_opcode_lengths"]
    rows: list[tuple[int, int, int]] = []
    address, line, file = 0, 1, 1
    at, end = 0, len(code)
    while at < end:
        operation = code[at]
        at += 1
        if operation >= base:
            more, further = special[operation - base]
            address += more
            line += further
            rows.append((address, line, file))
        elif operation == 0:
            size, at = _number(code, at)
            kind = code[at]
            if kind == 1:  # the end of a piece of code
                rows.append((address, 0, 0))
                address, line, file = 0, 1, 1
            elif kind == 2:
                address = int.from_bytes(code[at + 1 : at + size], "little")
            at += size
        elif operation == 1:
            rows.append((address, line, file))
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
    return rows
