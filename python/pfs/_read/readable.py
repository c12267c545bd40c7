"""Writes frames for people: times and bytes with units, long texts cut: statements at their end, others in the middle."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from pfs import _core
from pfs._read.dtypes import TEXT
from pfs._read.show import bytes_text, count_text, some, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["html", "is_ours", "readable"]

_WIDEST = 56  # characters of a text
_MOST_ROWS = 60  # in a notebook
_EMPTY = {
    "blocked": "no thread waits for a lock",
    "running": "no event is open",
    "lock_reasons": "no thread had to wait for a lock",
}
_MEASURE = re.compile(r"NULL|[\d.]+ (ps|ns|us|µs|ms|s|m|h|d|w|bytes|[KMGTPE]iB)")
_STATEMENTS = re.compile(r"(?:.*_)?(?:text|info|query|statement)", re.IGNORECASE)  # columns of statements and messages
_WRITERS: dict[str, Callable[[Any], str]] = {"picoseconds": time_text, "bytes": bytes_text, "count": count_text}


@lru_cache(maxsize=1)
def _units() -> dict[str, str]:
    return {column["name"]: column["unit"] for name in _core.tables() for column in _core.table_info(name)["columns"]}


def shortened(text: str, is_statement: bool = False, widest: int = _WIDEST) -> str:
    """Returns '/usr/lib/…/encodings/ascii.py' for a long path: beginning and end tell names apart.

    A statement keeps its beginning.
    """
    if len(text) <= widest:
        return text
    tail = 0 if is_statement else (widest - 1) * 2 // 3
    return text[: widest - 1 - tail] + "…" + text[len(text) - tail :]


def cell(text: str, shown: str, is_number: bool) -> str:
    """Returns a cell of a table in HTML, which has the whole text as its title if it does not show it."""
    from html import escape

    title = f" title='{escape(text)}'" if text != shown else ""
    return f"<td style='text-align:{'right' if is_number else 'left'};white-space:nowrap'{title}>{escape(shown)}</td>"


def readable(frame: pd.DataFrame, limit: int | None = None) -> pd.DataFrame:
    """Returns a frame of texts for people. See ``Accessor.readable``."""
    is_picoseconds = frame.attrs.get("unit", "ps") == "ps"
    shown: dict[Any, Any] = {}
    for name in frame.columns:
        values = frame[name] if limit is None else frame[name].head(limit)
        unit = "" if name in frame.attrs.get("computed", ()) else _units().get(str(name), "")
        if unit == "picoseconds" and (not is_picoseconds or values.dtype.kind not in "iuf"):
            unit = ""
        is_number = pd.api.types.is_numeric_dtype(values)
        is_statement = _STATEMENTS.fullmatch(str(name)) is not None
        write: Callable[[Any], str] = _WRITERS.get(
            unit if is_number else "", str if is_number else lambda value, of=is_statement: shortened(str(value), of)
        )
        if unit == "count" and values.dtype.kind == "f":
            write = "{:,.1f}".format
        shown[name] = pd.Series(["NULL" if pd.isna(v) else write(v) for v in values], index=values.index, dtype=TEXT)
    result = pd.DataFrame(shown, index=frame.index if limit is None else frame.index[:limit])
    result.attrs = {**frame.attrs, "is_readable": True}
    return result


def is_ours(frame: pd.DataFrame) -> bool:
    """Returns whether a frame was made from a table of pfs."""
    return "read_at" in frame.attrs and "table" in frame.attrs


def _is_measured(texts: pd.Series[str]) -> bool:
    """Returns whether all texts are times or sizes, as those of a view."""
    return len(texts) > 0 and all(_MEASURE.fullmatch(text) for text in texts) and not all(text == "NULL" for text in texts)


def html(frame: pd.DataFrame) -> str:
    """Returns the table for a notebook, with a line that says what it is."""
    from html import escape

    from pandas.api.types import is_numeric_dtype

    texts = frame.head(_MOST_ROWS) if frame.attrs.get("is_readable") else readable(frame, _MOST_ROWS)
    first = [name for name in frame.attrs.get("order", ()) if name in texts.columns]  # what it is sorted by is not off the screen
    if first:
        texts = texts[[*first, *(name for name in texts.columns if name not in first)]]
    right = {name for name in frame.columns if is_numeric_dtype(frame[name]) or _is_measured(texts[name])}
    whole = frame[list(texts.columns)].head(_MOST_ROWS)
    head = "".join(f"<th style='text-align:{'right' if n in right else 'left'}'>{escape(str(n))}</th>" for n in texts.columns)
    body = "".join(
        f"<tr><th>{escape(str(index))}</th>"
        + "".join(
            cell(value if isinstance(value, str) else text, text, name in right)
            for name, text, value in zip(texts, row, values, strict=True)
        )
        + "</tr>"
        for index, row, values in zip(
            texts.index, texts.itertuples(index=False, name=None), whole.itertuples(index=False, name=None), strict=True
        )
    )
    count = frame.attrs.get("rows", len(frame))
    number = some(count, "row")
    if count > _MOST_ROWS:
        number = f"{_MOST_ROWS} of {number}"
    lost = sum(frame.attrs.get("lost", {}).values())
    table, pid = frame.attrs.get("table", ""), frame.attrs.get("pid")
    note = f"{table} of process {pid}: " if pid is not None else f"{table}: "
    if frame.empty and table in _EMPTY:
        return f"<div>{escape(note + _EMPTY[table])}</div>"
    note += number
    note += f"; {lost} events or objects were lost, see attrs" if lost else ""
    return (
        f"<div><table><caption>{escape(note)}</caption><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
