"""Stages, statements and transactions alike: one event of each, their tables, and what these say. Beside nested.py."""

from __future__ import annotations

from typing import Any

import pfs
from tests.python._programs.driver import Row, Worker, every, rows
from tests.python._programs.nested import Statement, Transaction, end_stage, stage

KINDS = ("stages", "statements", "transactions")
INSTRUMENTS = {"stages": "stage/f/work", "statements": "statement/f/work", "transactions": "transaction"}
LEVELS = ("thread", "account", "user", "host")
DIGESTS = "events_statements_summary_by_digest"
HISTOGRAM = "events_statements_histogram_global"
HISTOGRAMS = "events_statements_histogram_by_digest"


def views(kind: str) -> tuple[str, str, str]:
    """current, history, history_long."""
    return f"events_{kind}_current", f"events_{kind}_history", f"events_{kind}_history_long"


def summary(kind: str, level: str) -> str:
    return f"events_{kind}_summary_{'global' if level == 'global' else 'by_' + level}_by_event_name"


def begin(kind: str) -> Any:
    """Begins an event of INSTRUMENTS. Gives what ends it."""
    if kind == "stages":
        stage("f/work")
        return end_stage
    return Statement("f/work", "select 1").end if kind == "statements" else Transaction().end


def do(kind: str, times: int = 1) -> None:
    """That many events of INSTRUMENTS in the calling thread."""
    for _ in range(times):
        begin(kind)()


def ids(table: str, *columns: str, **where: Any) -> list[Any]:
    """Of each row these columns, EVENT_ID if none is named; by thread and EVENT_ID."""
    found = sorted(rows(table, **where), key=lambda row: (row["THREAD_ID"], row["EVENT_ID"]))
    wanted = columns or ("EVENT_ID",)
    return [row[wanted[0]] if len(wanted) == 1 else tuple(row[column] for column in wanted) for row in found]


def members(kind: str, level: str, name: str | None = None) -> dict[Any, int]:
    """COUNT_STAR by the member of the level, those that are not 0."""
    found: dict[Any, int] = {}
    for row in every(summary(kind, level)):
        if row["EVENT_NAME"] == (name or INSTRUMENTS[kind]) and row["COUNT_STAR"] != 0:
            key = tuple(row[column] for column in ("USER", "HOST", "THREAD_ID") if column in row)
            found[key if len(key) == 2 else key[0] if key else None] = row["COUNT_STAR"]
    return found


def totals(kind: str, name: str | None = None) -> dict[str, int]:
    """Sum of COUNT_STAR of an instrument in each of the five tables."""
    return {level: sum(members(kind, level, name).values()) for level in (*LEVELS, "global")}


def numbers(kind: str, level: str) -> list[Row]:
    """All rows of a level that have counted, without the thread, account... that they are of."""
    found = [row for row in every(summary(kind, level)) if row["COUNT_STAR"] != 0]
    return [{name: value for name, value in row.items() if name not in ("THREAD_ID", "USER", "HOST")} for row in found]


def digests(*columns: str) -> dict[Any, Any]:
    """By (SCHEMA_NAME, DIGEST_TEXT) COUNT_STAR, or these columns."""
    found = {}
    for row in every(DIGESTS):
        value = tuple(row[column] for column in columns) if columns else row["COUNT_STAR"]
        found[row["SCHEMA_NAME"], row["DIGEST_TEXT"]] = value[0] if len(columns) == 1 else value
    return found


def in_histogram() -> int:
    """Statements in the histogram of all."""
    return sum(row["COUNT_BUCKET"] for row in every(HISTOGRAM))


def in_histograms() -> dict[Any, int]:
    """Statements in the histogram of each (SCHEMA_NAME, DIGEST)."""
    found: dict[Any, int] = {}
    for row in every(HISTOGRAMS):
        key = row["SCHEMA_NAME"], row["DIGEST"]
        found[key] = found.get(key, 0) + row["COUNT_BUCKET"]
    return found


def of_digest(text: str, schema: str | None = None) -> Row:
    """The row of the digest of a text."""
    (row,) = rows(DIGESTS, SCHEMA_NAME=schema, DIGEST=pfs.digest(text)[0])
    return row


def working_for(user: str, host: str) -> Worker:
    worker = Worker()
    worker.do(pfs.set_account, user, host)
    return worker
