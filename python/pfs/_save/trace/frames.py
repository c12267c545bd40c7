"""Reads files of the trace (docs/reference/trace.md) as frames."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pfs._save.trace.files import NUMBERS, TABLES, Layout, Lines, layouts, no_line, sources, text_of
from pfs.errors import Error

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_trace"]


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
            if kind in NUMBERS:
                values, mask = _numbers(tokens, kind)
                self._masks[number].append(mask)
            else:
                dtype = np.int16 if kind == "enum" else np.intp
                values = np.fromiter(map(self._codes[number].__getitem__, tokens), dtype, len(tokens))
            self._values[number].append(values)
        return len(found)

    def finish(self, is_raw: bool) -> pd.DataFrame:
        import pandas as pd

        from pfs._read.dtypes import column_of
        from pfs._read.frame import as_signed

        values = [self._joined(number) for number in range(len(self._layout.columns))]
        masks = [np.concatenate(mask) if mask else np.zeros(0, bool) for mask in self._masks]
        chosen: Any = slice(None)
        if not is_raw:
            thread, event, end = (self._layout.place[name] for name in ("THREAD_ID", "EVENT_ID", "END_EVENT_ID"))
            chosen = _one_row_each(values[thread], values[event], masks[end])
        data = {}
        for column, value, mask, codes in zip(self._layout.columns, values, masks, self._codes, strict=True):
            picked = mask[chosen] if column["kind"] in NUMBERS else None
            data[column["name"]] = column_of(column["kind"], column["nullable"], value[chosen], picked, codes.texts)
        return as_signed(pd.DataFrame(data, copy=False))

    def _joined(self, number: int) -> Any:
        kind = self._layout.columns[number]["kind"]
        blocks, self._values[number] = self._values[number], []  # only one column is in memory twice
        return np.concatenate(blocks) if blocks else np.zeros(0, kind if kind in NUMBERS else np.intp)


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
            raise no_line(line, path)
