"""Turns a place in a file of code into a line of its source, from the section .debug_line of the file or of its debug file.

The lines of a compilation unit are decoded when a place in that unit is looked up first.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
from typing import TYPE_CHECKING, Any

from pfs._places.elf import files_of, opened

if TYPE_CHECKING:
    from pfs._places.symbols import Place

__all__ = ["line_of"]

# A file with more bytes of debug information, or a unit with a larger table of lines, has no lines. Decoding 1 MiB takes 4 s.
MOST_BYTES = 128 << 20
MOST_BYTES_OF_UNIT = 1 << 20


def line_of(place: Place) -> str | None:
    """Returns the line of a place in code, such as ``app.c:42``; None if it is not known."""
    units = _units(place.path, place.build_id)
    return units.line(place.inside) if units is not None else None


@functools.lru_cache(maxsize=4)  # each holds the debug information of a file in memory
def _units(path: str, build_id: str) -> _Units | None:
    for file in files_of(path, build_id):
        with opened(file) as elf:
            if elf is None or elf.get_section_by_name(".debug_line") is None:
                continue
            if sum(part.data_size for part in elf.iter_sections() if part.name.startswith(".debug_")) > MOST_BYTES:
                continue
            return _Units(elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False))
    return None


class _Units:
    """Holds the compilation units of a file."""

    def __init__(self, dwarf: Any) -> None:
        self._dwarf = dwarf
        self._lines: dict[int, list[tuple[int, str]]] = {}  # by offset of the unit: addresses and lines; "" ends a piece of code
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
        return (lines[at][1] or None) if at >= 0 else None

    def _find_ranges(self) -> list[tuple[int, int, int]]:
        """Returns the addresses of code, each with the offset of its unit."""
        found = []
        table = self._dwarf.get_aranges()
        if table is not None:
            found = [(entry.begin_addr, entry.begin_addr + entry.length, entry.info_offset) for entry in table.entries]
        known = {unit for _, _, unit in found}
        for unit in self._dwarf.iter_CUs():
            if unit.cu_offset not in known:  # clang makes no .debug_aranges
                found += [(begin, end, unit.cu_offset) for begin, end in self._ranges_of(unit)]
        return [(begin, end, unit) for begin, end, unit in found if 0 < begin < end]  # 0: the linker has dropped the code

    def _ranges_of(self, unit: Any) -> list[tuple[int, int]]:
        top = unit.get_top_DIE()
        attributes = top.attributes
        base = attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else 0
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

    def _decode(self, offset: int) -> list[tuple[int, str]]:
        program = self._dwarf.line_program_for_CU(self._dwarf.get_CU_at(offset))
        if program is None or program["unit_length"] > MOST_BYTES_OF_UNIT:
            return []
        files = program["file_entry"]
        first = 0 if program["version"] >= 5 else 1
        found = []
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            at = state.file - first
            is_known = not state.end_sequence and state.line > 0 and 0 <= at < len(files)
            name = files[at].name.decode(errors="replace").rpartition("/")[2] if is_known else ""
            found.append((state.address, f"{name}:{state.line}" if name else ""))
        # The end of a piece of code stands before the line of the piece that begins there.
        return sorted(found, key=lambda line: (line[0], bool(line[1])))
