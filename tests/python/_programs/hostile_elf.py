"""ELF files that are made to cost their reader time and memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

FIRST = 0x1000  # address of all code and data
STEP = 0x1000  # from one unit to the next


def write(path: Path, *sections: tuple[str, int, bytes], places: Mapping[str, int] | None = None) -> None:
    """Writes a file of sections: name, type, contents. Each belongs to the one before it. `places`: offsets that they claim."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections)
    headers = [bytes(64)]
    at = 64
    with path.open("wb") as file:
        for index, (name, kind, contents) in enumerate((*sections, (".shstrtab", 3, names))):
            file.seek(at)
            file.write(contents)
            where = names.find(b"\0" + name.encode() + b"\0") + 1
            headers.append(
                struct.pack("<IIQQQQIIQQ", where, kind, 0, 0, (places or {}).get(name, at), len(contents), index, 0, 1, 0)
            )
            at += len(contents)
        file.seek(at)
        file.write(b"".join(headers))
        file.seek(0)
        file.write(
            struct.pack(
                "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, len(headers), len(headers) - 1
            )
        )


def _symbols(count: int, address: Callable[[int], int], size: int = 8) -> bytes:
    return b"".join(struct.pack("<IBxHQQ", 1, 2, 1, address(i), size) for i in range(count))


def _unit(contents: bytes, abbreviations: int = 0) -> bytes:
    """A unit of DWARF 4."""
    return struct.pack("<IHIB", 7 + len(contents), 4, abbreviations, 8) + contents


def _aranges(entries: Iterator[tuple[int, int, int]]) -> bytes:
    """Addresses, lengths and units."""
    sets = (struct.pack("<IHIBBIQQQQ", 44, 2, unit, 8, 0, 0, begin, size, 0, 0) for begin, size, unit in entries)
    return b"".join(sets)


# A unit without children, with the offset of its lines; a unit with children; a function; inlined code.
_ABBREVIATIONS = (
    bytes((1, 0x11, 0, 0x10, 0x17, 0, 0))  # DW_AT_stmt_list
    + bytes((2, 0x11, 1, 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0))
    + bytes((3, 0x2E, 1, 1, 0x13, 0x11, 1, 0x12, 7, 0, 0))
    + bytes((4, 0x1D, 1, 1, 0x13, 0x11, 1, 0x12, 7, 0x58, 0x0B, 0x59, 0x0B, 0, 0))
    + b"\0"
)


def line_program(code: bytes, folders: bytes = b"/usr/include/c++\0", files: bytes = b"a.h\0\1\0\0") -> bytes:
    """A table of lines of DWARF 4."""
    header = (
        struct.pack("<BBBbBB", 1, 1, 1, -5, 14, 13)
        + bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
        + folders
        + b"\0"
        + files
        + b"\0"
    )
    body = struct.pack("<HI", 4, len(header)) + header + code
    return struct.pack("<I", len(body)) + body


def at(address: int) -> bytes:
    """An operation of a table of lines."""
    return b"\0\x09\2" + struct.pack("<Q", address)


def with_lines(path: Path, lines: list[bytes]) -> None:
    """Writes a file in which each unit has lines of its own."""
    offsets = [sum(map(len, lines[:i])) for i in range(len(lines))]
    units = [_unit(b"\1" + struct.pack("<I", offset)) for offset in offsets]
    begin = (sum(map(len, units[:i])) for i in range(len(units)))
    ranges = ((FIRST + i * STEP, STEP, unit) for i, unit in enumerate(begin))
    write(
        path,
        (".debug_info", 1, b"".join(units)),
        (".debug_abbrev", 1, _ABBREVIATIONS),
        (".debug_line", 1, b"".join(lines)),
        (".debug_aranges", 1, _aranges(ranges)),
    )


def all_symbols_at_one_place(path: Path) -> None:
    """The names have no end."""
    write(path, (".strtab", 3, b"\0" + b"x" * (40 << 20)), (".symtab", 2, _symbols(1_000_000, lambda _: FIRST)))


def names_beyond_all_files(path: Path) -> None:
    """No file has a byte at the place of the names."""
    write(
        path,
        (".strtab", 3, b"\0x\0"),
        (".symtab", 2, _symbols(100, lambda i: FIRST + i * STEP, STEP)),
        places={".strtab": (1 << 64) - 1},
    )


def symbols_everywhere(path: Path) -> None:
    write(path, (".strtab", 3, b"\0x\0"), (".symtab", 2, _symbols(1_000_000, lambda i: FIRST + i * 97 % 1_000_000)))


def too_many_symbols(path: Path) -> None:
    one = struct.pack("<IBxHQQ", 1, 2, 1, FIRST, 8)
    write(path, (".strtab", 3, b"\0x\0"), (".symtab", 2, one * 2_500_000))


def many_sections(path: Path) -> None:
    some = ((".strtab", 3, b"\0" + b"x" * 1000), (".symtab", 2, _symbols(5_000, lambda i: FIRST + i // 32 * 16)))
    write(path, *some, *((f".s{i}", 1, b"") for i in range(60_000)))


def many_notes(path: Path) -> None:
    """Each has nothing, and they are those of one MiB."""
    write(path, *((".note", 7, bytes(1 << 20)) for _ in range(60)))


def a_debug_file_of_holes(path: Path) -> None:
    write(path, (".gnu_debuglink", 1, b"holes\0\0\0\0\0\0\0"))
    with path.with_name("holes").open("wb") as file:
        file.truncate(1 << 40)


def units_everywhere(path: Path) -> None:
    write(
        path,
        (".debug_info", 1, _unit(b"\1" + bytes(4)) * 2_000_000),
        (".debug_line", 1, b""),
        (".debug_abbrev", 1, _ABBREVIATIONS),
    )


def long_abbreviations(path: Path) -> None:
    """Each unit has its own of a table without an end."""
    units = b"".join(_unit(b"\1", 7 * i) for i in range(10_000))
    write(
        path,
        (".debug_info", 1, units),
        (".debug_line", 1, b""),
        (".debug_abbrev", 1, bytes((1, 0x11, 0, 0x10, 0x17, 0, 0)) * 2_000_000),
    )


def many_ranges_of_addresses(path: Path) -> None:
    entry = struct.pack("<QQ", FIRST, 16)
    ranges = struct.pack("<IHIBBI", 0xFFFFFF0, 2, 0, 8, 0, 0) + entry * 3_000_000
    write(path, (".debug_info", 1, b""), (".debug_line", 1, b""), (".debug_abbrev", 1, b"\0"), (".debug_aranges", 1, ranges))


def many_ranges_of_a_unit(path: Path) -> None:
    write(
        path,
        (".debug_info", 1, _unit(b"\1" + bytes(4))),
        (".debug_line", 1, b""),
        (".debug_abbrev", 1, bytes((1, 0x11, 0, 0x55, 0x17, 0, 0, 0))),
        (".debug_ranges", 1, struct.pack("<QQ", FIRST, FIRST + 16) * 3_000_000),
    )


def many_lines(path: Path) -> None:
    """Each byte is a row."""
    with_lines(path, [line_program(at(FIRST + i * STEP) + b"\x14" * ((1 << 20) - 200)) for i in range(60)])


def many_files(path: Path) -> None:
    with_lines(path, [line_program(at(FIRST + i * STEP) + b"\x14", files=b"a\0\1\0\0" * 180_000) for i in range(60)])


def code_inlined_in_itself(path: Path) -> None:
    """A function whose child is its own next child."""
    unit = b"\2" + bytes(4) + struct.pack("<QQ", FIRST, 1 << 20)
    function_at = 11 + len(unit)
    inlined_at = function_at + 21
    function = b"\3" + struct.pack("<IQQ", function_at, FIRST, 1 << 20)
    inlined = b"\4" + struct.pack("<IQQBB", inlined_at, FIRST, 1 << 20, 1, 7)
    write(
        path,
        (".debug_info", 1, _unit(unit + function + inlined + inlined)),
        (".debug_abbrev", 1, _ABBREVIATIONS),
        (".debug_line", 1, line_program(at(FIRST) + b"\x14" * 4000)),
    )


# With the words that the reader says of each; "": it reads all that it needs.
MAKERS: dict[Callable[[Path], None], str] = {
    all_symbols_at_one_place: "",
    names_beyond_all_files: "",
    symbols_everywhere: "",
    too_many_symbols: "more than 1,048,576 symbols",
    many_sections: "more than 4,096 sections",
    many_notes: "",
    a_debug_file_of_holes: "more than 1 GiB",
    units_everywhere: "too long",
    long_abbreviations: "too long",
    many_ranges_of_addresses: "too long",
    many_ranges_of_a_unit: "too long",
    many_lines: "too long",
    many_files: "too long",
    code_inlined_in_itself: "too long",
}
