"""What the views share: rows of the base tables as plain Python, sums, means, names of threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pfs

Row = dict[str, Any]
Model = Callable[[pfs.Snapshot], list[Row]]
ORDER = "the order"
FILE = "wait/io/file/"


def base(taken: pfs.Snapshot, table: str) -> list[Row]:
    """The rows of a base table; NULL is None, and numbers are whole numbers of Python."""
    frame = taken[table].astype(object)
    return [{str(k): v for k, v in row.items()} for row in frame.where(frame.notna(), None).to_dict("records")]


def total(rows: Iterable[Row], column: str) -> int:
    return sum(row[column] for row in rows)


def floor(amount: int, count: int) -> int:
    return amount // count if count else 0


def rounded(amount: int, count: int, places: int = 0) -> float:
    """A quotient that is rounded as people do it: half away from zero."""
    exact = Decimal(amount) / count if count else Decimal(0)
    return float(exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def grouped(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def who(row: Row, principal: str) -> str:
    return row[principal.upper()] or "background"


def newest(taken: pfs.Snapshot, kind: str) -> dict[int, Row]:
    """The newest event of each thread."""
    return {row["THREAD_ID"]: row for row in sorted(base(taken, f"events_{kind}_current"), key=lambda row: row["EVENT_ID"])}


def threads(taken: pfs.Snapshot) -> dict[int, Row]:
    return {row["THREAD_ID"]: row for row in base(taken, "threads")}


def account(thread: Row) -> str:
    return f"{thread['PROCESSLIST_USER'] or ''}@{thread['PROCESSLIST_HOST'] or ''}"


def session_or_name(thread: Row) -> str:
    return thread["NAME"].rpartition("/")[2] if thread["PROCESSLIST_ID"] is None else account(thread)


def times(row: Row) -> Row:
    total_latency = row["SUM_TIMER_WAIT"]
    return {
        "total": row["COUNT_STAR"],
        "total_latency": total_latency,
        "avg_latency": floor(total_latency, row["COUNT_STAR"]),
        "max_latency": row["MAX_TIMER_WAIT"],
    }
