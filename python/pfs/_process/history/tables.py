"""Answers questions in SQL about samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._process.history.names import DECLARED, NOT_ACTIVE, SAMPLES, TOTALS
from pfs._process.history.samples import read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["VIEWS", "HistoryTables", "columns_of"]


_TABLE = f"performance_schema.{SAMPLES}"
_ACTIVE = f"(THREAD_STATE NOT IN {NOT_ACTIVE} OR STATEMENT_EVENT_ID IS NOT NULL OR STAGE_NAME IS NOT NULL)"
_SECONDS = f"(SELECT epoch(max(SAMPLE_TIME) - min(SAMPLE_TIME)) FROM {_TABLE})"
_NUMBERS = (
    f"sum(WEIGHT) / 1e12 AS SECONDS, sum(WEIGHT) / 1e12 / {_SECONDS} AS AAS, sum(WEIGHT) / sum(sum(WEIGHT)) OVER () AS SHARE"
)


def _by(columns: str, where: str = "TRUE") -> str:
    return f"SELECT {columns}, {_NUMBERS} FROM {_TABLE} WHERE {_ACTIVE} AND {where} GROUP BY ALL ORDER BY SECONDS DESC"


VIEWS = {
    "sys.ash_load": "SELECT time_bucket(INTERVAL 10 SECOND, SAMPLE_TIME) AS BEGIN_TIME, WAIT_CLASS, sum(WEIGHT) / 1e13 AS AAS "
    f"FROM {_TABLE} WHERE {_ACTIVE} GROUP BY ALL ORDER BY BEGIN_TIME, AAS DESC, WAIT_CLASS",
    "sys.ash_classes": _by("WAIT_CLASS"),
    "sys.ash_events": _by("coalesce(EVENT_NAME, WAIT_CLASS) AS EVENT_NAME"),
    "sys.ash_sources": _by("EVENT_NAME, OPERATION, SOURCE", "EVENT_NAME IS NOT NULL"),
    "sys.ash_objects": _by("OBJECT_SCHEMA, OBJECT_NAME, OPERATION", "OBJECT_NAME IS NOT NULL"),
    "sys.ash_statements": _by(
        "coalesce(DIGEST_TEXT, STATEMENT_NAME) AS STATEMENT, coalesce(EVENT_NAME, WAIT_CLASS) AS EVENT_NAME",
        "STATEMENT_EVENT_ID IS NOT NULL",
    ),
    "sys.ash_threads": _by("NODE, PID, THREAD_NAME"),
    "sys.ash_blockers": "SELECT NODE, PID, FINAL_BLOCKING_THREAD_ID, EVENT_NAME, count(DISTINCT THREAD_ID) AS WAITERS, "
    f"max(CHAIN_DEPTH) AS CHAIN_DEPTH, max(IS_DEADLOCKED) AS IS_DEADLOCKED, sum(WEIGHT) / 1e12 AS SECONDS FROM {_TABLE} "
    "WHERE FINAL_BLOCKING_THREAD_ID IS NOT NULL GROUP BY ALL ORDER BY SECONDS DESC",
}  # docs/howto/sampling.md lists them


def _columns(*columns: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "kind": kind, "sql_type": sql, "nullable": False, "doc": ""} for name, kind, sql in columns]


_ORIGIN = _columns(("NODE", "text", "varchar(64)"), ("PID", "uint64", "bigint unsigned"))
_OF_TOTALS = _columns(
    ("SAMPLE_TIME", "timestamp", "timestamp(6)"), ("EVENT_NAME", "text", "varchar(128)"),
    ("COUNT_STAR", "uint64", "bigint unsigned"), ("SUM_TIMER_WAIT", "uint64", "bigint unsigned"),
)  # fmt: skip


def columns_of(table: str) -> Iterable[Any]:
    """Returns the columns of samples or of sums, as a declaration has them; none of another table."""
    if table == SAMPLES:
        return [*_ORIGIN, *_core.table_info(DECLARED)["columns"]]
    return [*_ORIGIN, *_OF_TOTALS] if table == TOTALS else []


class HistoryTables:
    """Gives a statement the samples of folders."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    @cached_property
    def _frames(self) -> dict[str, pd.DataFrame]:
        samples, totals = read(self._folders)
        return {SAMPLES: samples, TOTALS: totals}

    def names(self) -> Sequence[str]:
        return [SAMPLES, TOTALS]

    def columns(self, table: str) -> Sequence[str]:
        return [column["name"] for column in columns_of(table)]

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        from pfs._read.arrow import arrow_of

        return arrow_of(self._frames[table], columns)

    def file(self, table: str) -> str | None:
        return None
