"""Queries that database administrators know: those of exporters, agents and reports run unchanged in the dialect of MySQL.

Their answers are computed again by plain Python from the frames.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.python._programs.subject import subject
from tests.python._recomputed import RECOMPUTED
from tests.python._recomputed.base import Row, base, grouped, total

pytest.importorskip("sqlglot")

WORK = """
import sqlite3
pfs.setup_consumers.update(enabled=True)
pfs.set_account("joe", "here")
connection = pfs.dbapi(sqlite3).connect(":memory:")
connection.execute("create table t (a)")
for number in range(30):
    with pfs.transaction(), pfs.statement("app/query", f"insert into t values ({number})") as statement, pfs.stage("app/step"):
        with pfs.Lock("app/LOCK"), pfs.open("file", "w", name="app/data") as file: file.write("x" * 1000)
kept = pfs.memory("app/buffer")
kept.alloc(5000)
pfs.setup_objects.update({"OBJECT_SCHEMA": "mysql"}, enabled=True)
tables = [pfs.Table("shop.orders", ("PRIMARY",)), pfs.Table("mysql.grants", ("PRIMARY",))]
for table in tables:
    with table.fetch("PRIMARY"), table.insert(): pass
    with table.fetch(): pass
for name in ("app/OFF_a", "app/OFF_b"): pfs.Lock(name)
pfs.setup_instruments.update({"NAME": "wait/synch/mutex/app/OFF_%"}, enabled=False)
"""
DIGESTS = "performance_schema.events_statements_summary_by_digest"
# The text, and the columns of its answer.
QUERIES = {
    "exporter, statements by digest": (
        f"""SELECT ifnull(SCHEMA_NAME, 'NONE') AS SCHEMA_NAME, DIGEST, LEFT(DIGEST_TEXT, 120) AS DIGEST_TEXT, COUNT_STAR,
            SUM_TIMER_WAIT, SUM_LOCK_TIME, SUM_CPU_TIME, SUM_ERRORS, SUM_WARNINGS, SUM_ROWS_AFFECTED, SUM_ROWS_SENT,
            SUM_ROWS_EXAMINED, SUM_CREATED_TMP_DISK_TABLES, SUM_CREATED_TMP_TABLES, SUM_SORT_MERGE_PASSES, SUM_SORT_ROWS,
            SUM_NO_INDEX_USED, QUANTILE_95, QUANTILE_99, QUANTILE_999
            FROM (SELECT * FROM {DIGESTS}
                  WHERE ifnull(SCHEMA_NAME, '') NOT IN ('mysql', 'performance_schema', 'information_schema')
                  AND LAST_SEEN > DATE_SUB(NOW(), INTERVAL 86400 SECOND) ORDER BY LAST_SEEN DESC) Q
            GROUP BY SCHEMA_NAME, DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, SUM_LOCK_TIME, SUM_CPU_TIME, SUM_ERRORS,
            SUM_WARNINGS, SUM_ROWS_AFFECTED, SUM_ROWS_SENT, SUM_ROWS_EXAMINED, SUM_CREATED_TMP_DISK_TABLES,
            SUM_CREATED_TMP_TABLES, SUM_SORT_MERGE_PASSES, SUM_SORT_ROWS, SUM_NO_INDEX_USED, QUANTILE_95, QUANTILE_99,
            QUANTILE_999 ORDER BY SUM_TIMER_WAIT DESC LIMIT 250""", 20,
    ),
    "exporter, sums of statements": (
        f"""SELECT SUM(COUNT_STAR) AS SUM_COUNT_STAR, SUM(SUM_CREATED_TMP_DISK_TABLES) AS SUM_SUM_CREATED_TMP_DISK_TABLES,
            SUM(SUM_ERRORS) AS SUM_SUM_ERRORS, SUM(SUM_TIMER_WAIT) AS SUM_SUM_TIMER_WAIT FROM {DIGESTS}""", 4,
    ),
    "exporter, waits": (
        """SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name""",
        3,
    ),
    "exporter, file events": (
        """SELECT EVENT_NAME, COUNT_READ, SUM_TIMER_READ, SUM_NUMBER_OF_BYTES_READ, COUNT_WRITE, SUM_TIMER_WRITE,
           SUM_NUMBER_OF_BYTES_WRITE, COUNT_MISC, SUM_TIMER_MISC FROM performance_schema.file_summary_by_event_name""", 9,
    ),
    "exporter, files": (
        """SELECT FILE_NAME, EVENT_NAME, COUNT_READ, COUNT_WRITE, SUM_NUMBER_OF_BYTES_READ, SUM_NUMBER_OF_BYTES_WRITE
           FROM performance_schema.file_summary_by_instance where FILE_NAME REGEXP '.*'""", 6,
    ),
    "exporter, waits of indexes": (
        """SELECT OBJECT_SCHEMA, OBJECT_NAME, ifnull(INDEX_NAME, 'NONE') as INDEX_NAME, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE,
           COUNT_DELETE, SUM_TIMER_FETCH, SUM_TIMER_INSERT, SUM_TIMER_UPDATE, SUM_TIMER_DELETE
           FROM performance_schema.table_io_waits_summary_by_index_usage
           WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema')""", 11,
    ),
    "exporter, memory": (
        """SELECT EVENT_NAME, SUM_NUMBER_OF_BYTES_ALLOC, SUM_NUMBER_OF_BYTES_FREE, CURRENT_NUMBER_OF_BYTES_USED
           FROM performance_schema.memory_summary_global_by_event_name where COUNT_ALLOC > 0""", 4,
    ),
    "exporter, waits of tables": (
        """SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, COUNT_DELETE, SUM_TIMER_FETCH,
           SUM_TIMER_INSERT, SUM_TIMER_UPDATE, SUM_TIMER_DELETE FROM performance_schema.table_io_waits_summary_by_table
           WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema')""", 10,
    ),
    "exporter, locks of tables": (
        """SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_READ_NORMAL, COUNT_READ_WITH_SHARED_LOCKS, COUNT_READ_HIGH_PRIORITY,
           COUNT_READ_NO_INSERT, COUNT_READ_EXTERNAL, COUNT_WRITE_ALLOW_WRITE, COUNT_WRITE_CONCURRENT_INSERT,
           COUNT_WRITE_LOW_PRIORITY, COUNT_WRITE_NORMAL, COUNT_WRITE_EXTERNAL
           FROM performance_schema.table_lock_waits_summary_by_table
           WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema', 'information_schema')""", 12,
    ),
    "exporter, users": ("SELECT `user`, statements, statement_latency, current_memory FROM `sys`.`x$user_summary`", 4),
    "reports, version": ("SELECT sys_version FROM sys.version", 1),
    "agent, history with waits": (
        """SELECT s.THREAD_ID, s.EVENT_ID, s.DIGEST_TEXT, s.TIMER_WAIT, w.EVENT_NAME, w.TIMER_WAIT AS WAITED,
           n.EVENT_NAME AS NESTED
           FROM performance_schema.events_statements_history AS s
           LEFT JOIN performance_schema.events_waits_history AS w ON w.THREAD_ID = s.THREAD_ID AND w.NESTING_EVENT_ID = s.EVENT_ID
           LEFT JOIN performance_schema.events_waits_history AS n ON n.THREAD_ID = w.THREAD_ID AND n.NESTING_EVENT_ID = w.EVENT_ID
           WHERE s.DIGEST IS NOT NULL AND s.CURRENT_SCHEMA IS NULL AND s.SQL_TEXT LIKE 'INSERT%'""", 7,
    ),
    "longest waits": (
        """select EVENT_NAME, count(*) as n, sum(TIMER_WAIT) as total, format_pico_time(max(TIMER_WAIT)) as longest
           from performance_schema.events_waits_history_long group by EVENT_NAME order by total desc limit 0, 10""", 4,
    ),
    "waits of threads": (
        """select t.NAME, w.EVENT_NAME, count(*), sum(w.TIMER_WAIT) from `performance_schema`.`events_waits_history_long` w
           join `performance_schema`.`threads` t using (THREAD_ID) where t.TYPE = 'FOREGROUND' and w.OPERATION <> 'idle'
           group by t.NAME, w.EVENT_NAME""", 4,
    ),
    "slowest events": (
        """select * from performance_schema.events_waits_history_long where TIMER_WAIT > 0 order by TIMER_WAIT desc limit 100""",
        None,
    ),
    "instruments that are off": (
        "select SUBSTRING_INDEX(NAME, '/', 2) as kind, count(*) from performance_schema.setup_instruments"
        " where ENABLED = 'NO' group by 1", 2,
    ),
    "accounts": (
        """SELECT USER, HOST, CURRENT_CONNECTIONS, TOTAL_CONNECTIONS FROM performance_schema.accounts
           WHERE USER IS NOT NULL AND HOST IS NOT NULL""", 4,
    ),
    "rates with a window": (
        """with s as (select EVENT_NAME, SUM_TIMER_WAIT, sum(SUM_TIMER_WAIT) over () as whole
                      from performance_schema.events_waits_summary_global_by_event_name)
           select EVENT_NAME, round(100 * SUM_TIMER_WAIT / whole, 2) as percent, SUM_TIMER_WAIT / 0 as nothing
           from s where whole > 0 order by 2 desc""", 3,
    ),
    "list of users in one row": (
        "select group_concat(distinct USER order by USER separator ';') as users from performance_schema.accounts", 1,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> pfs.Snapshot:
    folder = tmp_path_factory.mktemp("queries")
    folder.chmod(0o700)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with subject(folder) as running:
            running.do(WORK)
            with pfs.attach(str(running.path)) as schema:
                return schema.snapshot()
    finally:
        os.chdir(before)


Rows = list[tuple[Any, ...]]
SUMS = ("COUNT_STAR", "SUM_CREATED_TMP_DISK_TABLES", "SUM_ERRORS", "SUM_TIMER_WAIT")


def columns(table: str, names: str, where: Callable[[Row], bool] = lambda _: True) -> Callable[[pfs.Snapshot], Rows]:
    """Columns of the rows of a table. `x=y` stands for y where the column x is NULL."""
    wanted = [name.partition("=") for name in names.split()]

    def model(taken: pfs.Snapshot) -> Rows:
        chosen = [row for row in base(taken, table) if where(row)]
        return [
            tuple(row[name] if row[name] is not None or not equals else other for name, equals, other in wanted) for row in chosen
        ]

    return model


def outside(*schemas: str) -> Callable[[Row], bool]:
    """NULL is not in a list, and not outside of it."""
    return lambda row: row["OBJECT_SCHEMA"] is not None and row["OBJECT_SCHEMA"] not in schemas


def digests(taken: pfs.Snapshot) -> Rows:
    rows = base(taken, "events_statements_summary_by_digest")
    day_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
    rows = [row for row in rows if row["LAST_SEEN"] > day_ago and row["SCHEMA_NAME"] not in ("mysql", "performance_schema")]
    texts = [(row["SCHEMA_NAME"] or "NONE", row["DIGEST"], row["DIGEST_TEXT"] and row["DIGEST_TEXT"][:120]) for row in rows]
    names = taken.sql(QUERIES["exporter, statements by digest"][0], "mysql").columns[3:]
    return [(*text, *(row[name] for name in names)) for text, row in zip(texts, rows, strict=True)]


def events(taken: pfs.Snapshot) -> list[Row]:
    return base(taken, "events_waits_history_long")


def times(rows: list[Row]) -> list[int]:
    return [row["TIMER_WAIT"] for row in rows if row["TIMER_WAIT"] is not None]


def longest_waits(taken: pfs.Snapshot) -> Rows:
    found = grouped(events(taken), lambda row: row["EVENT_NAME"])
    rows = [(name, len(its), sum(times(its)), max(times(its))) for name, its in found.items() if times(its)]
    rows.sort(key=lambda row: -row[2])
    format_time = taken.sql("select " + ", ".join(f"format_pico_time({row[3]})" for row in rows)).rows()[0]
    return [(*row[:3], text) for row, text in zip(rows, format_time, strict=True)][:10]


def history_with_waits(taken: pfs.Snapshot) -> Rows:
    waits = base(taken, "events_waits_history")

    def nested(row: Row) -> list[Row]:
        found = [each for each in waits if (each["THREAD_ID"], each["NESTING_EVENT_ID"]) == (row["THREAD_ID"], row["EVENT_ID"])]
        return found or [dict.fromkeys(waits[0])]

    made = []
    for row in base(taken, "events_statements_history"):
        is_insert = row["SQL_TEXT"] is not None and row["SQL_TEXT"].lower().startswith("insert")
        if row["DIGEST"] is not None and row["CURRENT_SCHEMA"] is None and is_insert:
            first = [row[name] for name in ("THREAD_ID", "EVENT_ID", "DIGEST_TEXT", "TIMER_WAIT")]
            made += [
                (*first, wait["EVENT_NAME"], wait["TIMER_WAIT"], inner["EVENT_NAME"])
                for wait in nested(row)
                for inner in nested(wait)
            ]
    return made


def waits_of_threads(taken: pfs.Snapshot) -> Rows:
    names = {row["THREAD_ID"]: row["NAME"] for row in base(taken, "threads") if row["TYPE"] == "FOREGROUND"}
    rows = [row for row in events(taken) if row["THREAD_ID"] in names and row["OPERATION"] != "idle"]
    found = grouped(rows, lambda row: (names[row["THREAD_ID"]], row["EVENT_NAME"]))
    return [(*key, len(its), sum(times(its)) if times(its) else None) for key, its in found.items()]


def slowest(taken: pfs.Snapshot) -> Rows:
    rows = sorted((row for row in events(taken) if row["TIMER_WAIT"]), key=lambda row: -row["TIMER_WAIT"])
    return [tuple(row.values()) for row in rows[:100]]


def rates(taken: pfs.Snapshot) -> Rows:
    rows = base(taken, "events_waits_summary_global_by_event_name")
    whole = total(rows, "SUM_TIMER_WAIT")
    parts = [(row["EVENT_NAME"], round(100 * row["SUM_TIMER_WAIT"] / whole, 2), None) for row in rows]
    return sorted(parts, key=lambda row: -row[1])


def off(taken: pfs.Snapshot) -> Rows:
    names = [row["NAME"].split("/") for row in base(taken, "setup_instruments") if row["ENABLED"] == "NO"]
    return list(Counter("/".join(name[:2]) for name in names).items())


ANSWERS: dict[str, Callable[[pfs.Snapshot], Rows]] = {
    "exporter, statements by digest": digests,
    "exporter, sums of statements": lambda taken: [
        tuple(total(base(taken, "events_statements_summary_by_digest"), column) for column in SUMS)
    ],
    "exporter, waits": columns("events_waits_summary_global_by_event_name", "EVENT_NAME COUNT_STAR SUM_TIMER_WAIT"),
    "exporter, file events": columns(
        "file_summary_by_event_name",
        "EVENT_NAME COUNT_READ SUM_TIMER_READ SUM_NUMBER_OF_BYTES_READ COUNT_WRITE SUM_TIMER_WRITE SUM_NUMBER_OF_BYTES_WRITE"
        " COUNT_MISC SUM_TIMER_MISC",
    ),
    "exporter, files": columns(
        "file_summary_by_instance",
        "FILE_NAME EVENT_NAME COUNT_READ COUNT_WRITE SUM_NUMBER_OF_BYTES_READ SUM_NUMBER_OF_BYTES_WRITE",
    ),
    "exporter, waits of indexes": columns(
        "table_io_waits_summary_by_index_usage",
        "OBJECT_SCHEMA OBJECT_NAME INDEX_NAME=NONE COUNT_FETCH COUNT_INSERT COUNT_UPDATE COUNT_DELETE SUM_TIMER_FETCH"
        " SUM_TIMER_INSERT SUM_TIMER_UPDATE SUM_TIMER_DELETE",
        outside("mysql", "performance_schema"),
    ),
    "exporter, memory": columns(
        "memory_summary_global_by_event_name",
        "EVENT_NAME SUM_NUMBER_OF_BYTES_ALLOC SUM_NUMBER_OF_BYTES_FREE CURRENT_NUMBER_OF_BYTES_USED",
        lambda row: row["COUNT_ALLOC"] > 0,
    ),
    "exporter, waits of tables": columns(
        "table_io_waits_summary_by_table",
        "OBJECT_SCHEMA OBJECT_NAME COUNT_FETCH COUNT_INSERT COUNT_UPDATE COUNT_DELETE SUM_TIMER_FETCH SUM_TIMER_INSERT"
        " SUM_TIMER_UPDATE SUM_TIMER_DELETE",
        outside("mysql", "performance_schema"),
    ),
    "exporter, locks of tables": columns(
        "table_lock_waits_summary_by_table",
        "OBJECT_SCHEMA OBJECT_NAME COUNT_READ_NORMAL COUNT_READ_WITH_SHARED_LOCKS COUNT_READ_HIGH_PRIORITY COUNT_READ_NO_INSERT"
        " COUNT_READ_EXTERNAL COUNT_WRITE_ALLOW_WRITE COUNT_WRITE_CONCURRENT_INSERT COUNT_WRITE_LOW_PRIORITY COUNT_WRITE_NORMAL"
        " COUNT_WRITE_EXTERNAL",
        outside("mysql", "performance_schema", "information_schema"),
    ),
    "exporter, users": lambda taken: [
        tuple(row[name] for name in ("user", "statements", "statement_latency", "current_memory"))
        for row in RECOMPUTED["user_summary"](taken)
    ],
    "reports, version": lambda _: [(pfs.__version__,)],
    "agent, history with waits": history_with_waits,
    "longest waits": longest_waits,
    "waits of threads": waits_of_threads,
    "slowest events": slowest,
    "instruments that are off": off,
    "accounts": columns(
        "accounts",
        "USER HOST CURRENT_CONNECTIONS TOTAL_CONNECTIONS",
        lambda row: row["USER"] is not None and row["HOST"] is not None,
    ),
    "rates with a window": rates,
    "list of users in one row": lambda taken: [(";".join(sorted({row["USER"] for row in base(taken, "accounts")} - {None})),)],
}
ORDERED = {"longest waits": 2, "slowest events": -1, "rates with a window": 1}  # by this column, the most first


def test_every_query_has_an_answer() -> None:
    assert set(ANSWERS) == set(QUERIES)


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_of_a_query_that_runs_unchanged(taken: pfs.Snapshot, name: str) -> None:
    statement, count = QUERIES[name]
    result = taken.sql(statement, dialect="mysql")
    assert count is None or len(result.columns) == count
    found, wanted = result.rows(), ANSWERS[name](taken)
    assert wanted
    if name in ORDERED:
        place = ORDERED[name] if ORDERED[name] >= 0 else result.columns.index("TIMER_WAIT")
        assert [row[place] for row in found] == [row[place] for row in wanted]
    if name == "exporter, statements by digest":
        latencies = [row[4] for row in found]
        assert latencies == sorted(latencies, reverse=True)
    if name == "slowest events" and len(found) == 100:  # of several that took as long as the last, any may be the last
        found, wanted = ([row for row in rows if row[place] > found[-1][place]] for rows in (found, wanted))
    assert sorted(map(str, found)) == sorted(map(str, wanted))
