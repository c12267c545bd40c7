"""Reads the lines of the trace (docs/reference/trace.md), merges its files, and prints the tables that a database needs for them.

It never evaluates a file as SQL. It matches each line against the one form that the columns of its table allow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import merge as merge_sorted
from pathlib import Path
from typing import IO, TypeAlias

from pfs import _core
from pfs._base import paths
from pfs.errors import Error, InvalidValue

__all__ = [
    "TABLES",
    "Header",
    "Layout",
    "Lines",
    "Progress",
    "Source",
    "Token",
    "ddl",
    "merge",
    "rows",
    "sources",
    "text_of",
]

Token: TypeAlias = bytes  # a value as it is written
Progress: TypeAlias = Callable[[int], object]  # its argument is the number of bytes read since the last call

TABLES = tuple(f"events_{kind}_current" for kind in ("transactions", "statements", "stages", "waits"))  # the outer events first

_FORMAT = 1
_BLOCK = 1 << 18  # the tokens of 256 KB stay in the processor's caches
_MERGE_BYTES = 1 << 26  # of all blocks of a merge together
_FILE_NAME = re.compile(r"trace\.[\w@-]+\.[\w@-]+\.(\d+)\.(\d+)\.(\d+)\.sql", re.ASCII)
_HEADER = re.compile(
    rb"/\* pfs trace file for (\S+) on ([-0-9]+ [:0-9]+); format (\d+); thread (\d+) (\S+); process (\d+); part (\d+) \*/"
)
_MERGED = re.compile(rb"/\* pfs trace merged from (\d+) files; format (\d+); process (\d+) \*/")

# The forms of values. The quantifiers are possessive: a long text is scanned once, whatever follows it.
NUMBERS = {"uint64": rb"[0-9]{1,20}+", "int64": rb"-?[0-9]{1,19}+", "uint32": rb"[0-9]{1,10}+", "int32": rb"-?[0-9]{1,10}+"}
_TEXT = rb"'[^'\n]*+(?:''[^'\n]*+)*+'|CAST\(X'(?:[0-9A-F][0-9A-F])*+' AS TEXT\)"


def text_of(token: Token, errors: str = "surrogateescape") -> str:
    """Returns the text of a quoted or hexadecimal value. Bytes that are no UTF-8 are decoded as os.fsdecode does."""
    if token[:1] == b"'":
        return token[1:-1].replace(b"''", b"'").decode("utf-8", errors)
    return bytes.fromhex(token[len("CAST(X'") : -len("' AS TEXT)")].decode("ascii")).decode("utf-8", errors)


class Layout:
    """Describes the lines of a table."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.columns = _core.table_info(table)["columns"]
        self.place = {column["name"]: number for number, column in enumerate(self.columns)}
        self.head = b"INSERT INTO " + table.encode() + b" VALUES ("
        values = [self._value(column) for column in self.columns]
        head = re.escape(self.head)
        line = head + b",".join(b"(" + value + b")" for value in values) + rb"\);"
        self.line = re.compile(line)
        self.lines = re.compile(b"\n" + line + b"(?=\n)")  # it begins with a literal, not with ^: a literal is found much faster
        wanted = [self.place[name] for name in ("END_EVENT_ID", "TIMER_START", "TIMER_END")]
        assert wanted == sorted(wanted)
        to_times = [b"(?:" + value + b")" for value in values[: wanted[-1] + 1]]
        for number in wanted:
            to_times[number] = b"(" + values[number] + b")"
        self.times = re.compile(head + b",".join(to_times))

    @staticmethod
    def _value(column: _core.ColumnInfo) -> bytes:
        value = NUMBERS.get(column["kind"], _TEXT)
        return b"NULL|" + value if column["nullable"] else value


@lru_cache(maxsize=1)
def layouts() -> dict[bytes, Layout]:
    """Returns the layout of each table, by the words that its lines begin with."""
    found = [Layout(table) for table in TABLES]
    return {layout.head: layout for layout in found}


# ---- Files


@dataclass(frozen=True)
class Header:
    """Holds the first line of a file."""

    actor: str
    written: str  # UTC
    thread_id: int
    thread: str
    process: int
    part: int
    line: bytes


@dataclass
class Source:
    """Describes a file of the trace, of a thread or merged."""

    path: Path
    headers: list[Header]  # a merged file has those of all its parts
    process: int
    size: int
    is_merged: bool = False

    @property
    def thread_and_part(self) -> tuple[int, int]:
        return (self.headers[0].thread_id, self.headers[0].part) if self.headers else (0, 0)


@dataclass
class Lines:
    """Yields the whole lines of a file in blocks. Between two blocks the file is closed: a trace may have more files than a
    process may open."""

    path: Path
    block: int = _BLOCK
    rest: int = field(default=0, init=False)  # bytes after the last line end, once the file was read

    def __iter__(self) -> Iterator[bytes]:
        done = 0
        rest = b""
        size = self.block
        while True:
            with paths.reading(self.path, follow=True) as file:
                file.seek(done)
                data = file.read(size)
            if not data:
                break
            done += len(data)
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
                size = self.block
            else:
                rest += data
                size *= 2  # a line of many blocks is not copied once per block
        self.rest = len(rest)


def _header(line: bytes, path: Path) -> Header:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise Error(f"{path} is no trace file: its first line should be '/* pfs trace file for ... */'")
    actor, written, form, thread_id, thread, process, part = (word.decode("utf-8", "replace") for word in found.groups())
    _check_format(int(form), path)
    return Header(actor, written, int(thread_id), thread, int(process), int(part), line)


def _check_format(form: int, path: Path) -> None:
    if form != _FORMAT:
        raise Error(f"{path} has format {form}: this version of pfs reads format {_FORMAT}")


def _source(path: Path) -> Source | None:
    """Returns a file of the trace, or None if its program was killed before the first line was whole."""
    size = path.stat().st_size
    lines = (line for block in Lines(path, 4096) for line in block[:-1].split(b"\n"))
    first = next(lines, None)
    if first is None:
        return None
    merged = _MERGED.fullmatch(first)
    if merged is None:
        header = _header(first, path)
        return Source(path, [header], header.process, size)
    _check_format(int(merged[2]), path)
    headers = [_header(line, path) for line, _ in zip(lines, range(int(merged[1])), strict=False)]
    return Source(path, headers, int(merged[3]), size, is_merged=True)


def sources(path: str | os.PathLike[str], process: int | None = None) -> tuple[list[Source], dict[str, int]]:
    """Returns the files of a trace in the order of threads and parts, and the sizes of files without a whole line.

    Raises:
        FileNotFoundError: there is no such file or folder.
        Error: a file is no trace file, or of another format; or the folder has none.
        InvalidValue: files of several processes and ``process`` is None, or none of ``process``.
    """
    place = Path(path)
    if place.is_dir():
        paths = [file for file in place.iterdir() if _FILE_NAME.fullmatch(file.name)]
        if not paths:
            raise Error(f"{place} has no trace files: their names are trace.ACTOR.THREAD.THREAD_ID.PID.PART.sql")
    else:
        paths = [place]
    found: list[Source] = []
    torn: dict[str, int] = {}
    for file in sorted(paths):
        source = _source(file)
        if source is not None:
            found.append(source)
        elif _FILE_NAME.fullmatch(file.name):
            torn[str(file)] = file.stat().st_size
        else:
            raise Error(f"{file} is no trace file: it has no whole line")
    processes = sorted({source.process for source in found})
    if process is not None:
        if found and process not in processes:
            raise InvalidValue(f"{place} has no files of process {process}: legal are {', '.join(map(str, processes))}")
        found = [source for source in found if source.process == process]
    elif len(processes) > 1:  # their times have different origins, and their thread ids overlap
        raise InvalidValue(
            f"{place} has files of several processes, choose one (process=, --process): {', '.join(map(str, processes))}"
        )
    found.sort(key=lambda source: source.thread_and_part)
    return found, torn


def no_line(line: bytes, path: Path) -> Error:
    shown = line[:100].decode("utf-8", "backslashreplace") + ("..." if len(line) > 100 else "")
    known = next((layout for head, layout in layouts().items() if line.startswith(head)), None)
    legal = f"all {len(known.columns)} columns of {known.table}" if known else f"a table of {', '.join(TABLES)}"
    return Error(f"{path}: this is no line of a trace of this version of pfs (legal is {legal}): {shown}")


def rows(source: Source, progress: Progress | None = None) -> Iterator[tuple[Layout, tuple[Token, ...]]]:
    """Yields the rows of a file in its order."""
    known = layouts()
    for block in Lines(source.path):
        if progress is not None:
            progress(len(block))
        for line in block[:-1].split(b"\n"):
            layout = known.get(line[: line.find(b"(") + 1])
            found = layout.line.fullmatch(line) if layout is not None else None
            if layout is not None and found is not None:
                yield layout, found.groups()
            elif not line.startswith(b"/*"):
                raise no_line(line, source.path)


# ---- Merging


@dataclass
class Merged:
    """Counts what a merge has done."""

    files: int
    threads: int
    lines: int
    partial: dict[str, int]  # by path: bytes after the last whole line


def _by_time(
    files: Iterable[Source], number: int, block: int, partial: dict[str, int], progress: Progress | None
) -> Iterator[tuple[int, int, bytes]]:
    """Yields the lines of a thread with their times, which never fall. A line without a time has that of the line before."""
    known = layouts()
    now = 0
    for source in files:
        lines = Lines(source.path, block)
        for part in lines:
            if progress is not None:
                progress(len(part))
            for line in part[:-1].split(b"\n"):
                layout = known.get(line[: line.find(b"(") + 1])
                found = layout.times.match(line) if layout is not None else None
                if found is not None:
                    ended, started, end = found.groups()
                    time = started if ended == b"NULL" else end
                    if time != b"NULL":
                        now = max(now, int(time))
                    yield now, number, line
                elif not line.startswith(b"/*"):
                    raise no_line(line, source.path)
        if lines.rest:
            partial[str(source.path)] = lines.rest


def merge(found: Sequence[Source], output: IO[bytes], partial: dict[str, int], progress: Progress | None = None) -> Merged:
    """Writes the lines of all files ordered by time: TIMER_START of start rows, TIMER_END of end rows. Lines of a thread stay in
    their order. It takes 64 MB of memory, or 4 KB for each thread if that is more, and the longest lines.

    Args:
        found, partial: the result of ``sources``.
        output: a binary file.
        progress: called with the number of bytes that were read since the last time.
    """
    threads: dict[int, list[Source]] = {}
    for source in found:
        threads.setdefault(-1 if source.is_merged else source.thread_and_part[0], []).append(source)
    headers = [header.line for source in found for header in source.headers]
    process = found[0].process if found else 0
    output.write(b"/* pfs trace merged from %d files; format %d; process %d */\n" % (len(headers), _FORMAT, process))
    output.writelines(line + b"\n" for line in headers)
    block = min(_BLOCK, max(4096, _MERGE_BYTES // max(1, len(threads))))
    streams = [_by_time(files, number, block, partial, progress) for number, files in enumerate(threads.values())]
    lines = 0
    for _time, _number, line in merge_sorted(*streams):
        output.write(line + b"\n")
        lines += 1
    return Merged(len(found), len(threads), lines, partial)


# ---- Tables of a database


def ddl() -> str:
    """Returns CREATE TABLE statements, for SQLite, of the tables of a trace. They have no keys, because an event has two rows."""
    statements = []
    for layout in layouts().values():
        lines = []
        for number, column in enumerate(layout.columns):
            sql_type = "INTEGER" if column["kind"] in NUMBERS else "TEXT"
            comma = "," if number + 1 < len(layout.columns) else ""
            null = "" if column["nullable"] else " NOT NULL"
            lines.append(f"  {column['name']} {sql_type}{null}{comma}  -- {column['doc']}")
        statements.append(f"CREATE TABLE {layout.table} (\n" + "\n".join(lines) + "\n);\n")
    return "\n".join(statements)
