"""Reads files of the trace (docs/trace.md) as frames, merges them, and prints the tables that a database needs for them.

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
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pfs import _core
from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    import pandas as pd

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
    "read_trace",
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
_NUMBER = {"uint64": rb"[0-9]{1,20}+", "int64": rb"-?[0-9]{1,19}+", "uint32": rb"[0-9]{1,10}+", "int32": rb"-?[0-9]{1,10}+"}
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
        value = _NUMBER.get(column["kind"], _TEXT)
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
            with open(self.path, "rb") as file:
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


def _no_line(line: bytes, path: Path) -> Error:
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
                raise _no_line(line, source.path)


# ---- Reading


class _Codes(dict[bytes, int]):
    """Maps written values to their places in a list of texts, and NULL to -1."""

    def __init__(self, texts: list[str], is_complete: bool) -> None:
        super().__init__({b"NULL": -1})
        self.texts = texts
        if is_complete:
            self.update({b"'" + text.encode() + b"'": code for code, text in enumerate(texts)})
        self._is_complete = is_complete

    def __missing__(self, token: bytes) -> int:
        if self._is_complete:
            raise Error(f"bad value {text_of(token, 'backslashreplace')!r} in a trace: legal is one of {', '.join(self.texts)}")
        if len(self) > 1 << 16:  # the texts all differ: the written values are not kept in addition
            self.clear()
            self[b"NULL"] = -1
        code = self[token] = len(self.texts)
        self.texts.append(text_of(token))
        return code


class _Frame:
    """Builds a frame block by block."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._values: list[list[Any]] = [[] for _ in layout.columns]
        self._masks: list[list[Any]] = [[] for _ in layout.columns]
        shared = _Codes([], is_complete=False)
        self._codes = [_Codes(list(c["values"]), True) if c["kind"] == "enum" else shared for c in layout.columns]

    def add(self, block: bytes) -> int:
        """Adds the rows of this table in a block, and returns their number. REQUIRES: the block begins with a line end."""
        found = self._layout.lines.findall(block)
        for number, tokens in enumerate(zip(*found, strict=True)):
            kind = self._layout.columns[number]["kind"]
            if kind in _NUMBER:
                values, mask = _numbers(tokens, kind)
                self._masks[number].append(mask)
            else:
                dtype = np.int16 if kind == "enum" else np.intp
                values = np.fromiter(map(self._codes[number].__getitem__, tokens), dtype, len(tokens))
            self._values[number].append(values)
        return len(found)

    def finish(self, is_raw: bool) -> pd.DataFrame:
        import pandas as pd

        from pfs._tables.frame import as_signed, column_of

        values = [self._joined(number) for number in range(len(self._layout.columns))]
        masks = [np.concatenate(mask) if mask else np.zeros(0, bool) for mask in self._masks]
        chosen: Any = slice(None)
        if not is_raw:
            thread, event, end = (self._layout.place[name] for name in ("THREAD_ID", "EVENT_ID", "END_EVENT_ID"))
            chosen = _one_row_each(values[thread], values[event], masks[end])
        data = {}
        for column, value, mask, codes in zip(self._layout.columns, values, masks, self._codes, strict=True):
            picked = mask[chosen] if column["kind"] in _NUMBER else None
            data[column["name"]] = column_of(column["kind"], column["nullable"], value[chosen], picked, codes.texts)
        return as_signed(pd.DataFrame(data, copy=False))

    def _joined(self, number: int) -> Any:
        kind = self._layout.columns[number]["kind"]
        blocks, self._values[number] = self._values[number], []  # only one column is in memory twice
        return np.concatenate(blocks) if blocks else np.zeros(0, kind if kind in _NUMBER else np.intp)


def _numbers(tokens: Sequence[bytes], kind: str) -> tuple[Any, Any]:
    """Returns the values of tokens, and where they are NULL."""
    unsigned = kind.startswith("u")
    wide = np.uint64 if unsigned else np.int64
    stand_in = b"18446744073709551615" if unsigned else b"-9223372036854775808"
    joined = b",".join(tokens)
    nulls = joined.count(b"N")
    if nulls == len(tokens):
        return np.zeros(len(tokens), kind), np.ones(len(tokens), bool)
    values = np.fromstring(joined.replace(b"NULL", stand_in) if nulls else joined, dtype=wide, sep=",")  # type: ignore[call-overload, unused-ignore]
    if not nulls:
        return values.astype(kind, copy=False), np.zeros(len(tokens), bool)
    mask = values == wide(int(stand_in))
    if stand_in in joined:  # a value equals the stand-in
        mask = np.fromiter((token == b"NULL" for token in tokens), bool, len(tokens))
    values[mask] = 0
    return values.astype(kind, copy=False), mask


def _one_row_each(thread: Any, event: Any, is_start: Any) -> Any:
    """Returns the rows to keep, in the order of the first row of each event. An end row replaces its start row."""
    place = np.arange(len(thread))
    order = np.lexsort((place, event, thread))
    first, second = order[:-1], order[1:]
    pair = (thread[first] == thread[second]) & (event[first] == event[second]) & is_start[first] & ~is_start[second]
    place[second[pair]] = first[pair]
    stays = np.ones(len(place), bool)
    stays[first[pair]] = False
    kept = np.flatnonzero(stays)
    return kept[np.argsort(place[kept], kind="stable")]


def read_trace(path: str | os.PathLike[str], *, raw: bool = False, process: int | None = None) -> dict[str, pd.DataFrame]:
    """Reads the events of a trace as frames like those of ``pfs.table``.

    Args:
        path: the folder of a trace, one file of it, or a file of ``pfs trace merge``. The program may still run.
        raw: gives one row for each line, instead of one for each event.
        process: reads only files of this process, in a folder with files of several.

    Returns:
        A frame for each of events_transactions_current, events_statements_current, events_stages_current and
        events_waits_current, empty if there are no such events. It has one row per event, in the order of their starts within a
        thread; the end columns of an event without an end row are NULL. With ``raw`` it has one row per line, in the order of the
        lines. Columns and dtypes are those of ``pfs.table``. ``frame.attrs["files"]`` is the number of files that were read.
        ``frame.attrs["partial_lines"]`` maps paths to the bytes after the last whole line, for files whose program was killed
        there (or is writing).

    Raises:
        FileNotFoundError: there is no such file or folder.
        Error: a file is no trace file, or of another version; the folder has none.
        InvalidValue: files of several processes and ``process`` is None, or none of ``process``.
    """
    found, partial = sources(path, process)
    frames = [_Frame(layout) for layout in layouts().values()]
    for source in found:
        lines = Lines(source.path)
        for block in lines:
            led = b"\n" + block
            known = sum(frame.add(led) for frame in frames)
            if known != block.count(b"\n"):
                _check(block, known, source.path)
        if lines.rest:
            partial[str(source.path)] = lines.rest
    tables = {}
    for table, frame in zip(TABLES, frames, strict=True):
        tables[table] = frame.finish(raw)
        tables[table].attrs = {"files": len(found), "partial_lines": dict(partial)}
    return tables


def _check(block: bytes, known: int, path: Path) -> None:
    """Checks a block with lines that are no rows: comments are legal."""
    if known + len(re.findall(rb"^/\*", block, re.MULTILINE)) == block.count(b"\n"):
        return
    for line in block[:-1].split(b"\n"):
        if not line.startswith(b"/*") and not any(layout.line.fullmatch(line) for layout in layouts().values()):
            raise _no_line(line, path)


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
                    raise _no_line(line, source.path)
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
            sql_type = "INTEGER" if column["kind"] in _NUMBER else "TEXT"
            comma = "," if number + 1 < len(layout.columns) else ""
            null = "" if column["nullable"] else " NOT NULL"
            lines.append(f"  {column['name']} {sql_type}{null}{comma}  -- {column['doc']}")
        statements.append(f"CREATE TABLE {layout.table} (\n" + "\n".join(lines) + "\n);\n")
    return "\n".join(statements)
