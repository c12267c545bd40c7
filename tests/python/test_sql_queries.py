"""Queries that database administrators know: those of exporters, agents and reports run unchanged in the dialect of MySQL."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pfs
from tests.python._programs.subject import subject

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
"""
DIGESTS = "performance_schema.events_statements_summary_by_digest"
# The text, the columns of its answer, and whether this program gives it rows.
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
            QUANTILE_999 ORDER BY SUM_TIMER_WAIT DESC LIMIT 250""", 20, True,
    ),
    "exporter, sums of statements": (
        f"""SELECT SUM(COUNT_STAR) AS SUM_COUNT_STAR, SUM(SUM_CREATED_TMP_DISK_TABLES) AS SUM_SUM_CREATED_TMP_DISK_TABLES,
            SUM(SUM_ERRORS) AS SUM_SUM_ERRORS, SUM(SUM_TIMER_WAIT) AS SUM_SUM_TIMER_WAIT FROM {DIGESTS}""", 4, True,
    ),
    "exporter, waits": (
        """SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name""",
        3, True,
    ),
    "exporter, file events": (
        """SELECT EVENT_NAME, COUNT_READ, SUM_TIMER_READ, SUM_NUMBER_OF_BYTES_READ, COUNT_WRITE, SUM_TIMER_WRITE,
           SUM_NUMBER_OF_BYTES_WRITE, COUNT_MISC, SUM_TIMER_MISC FROM performance_schema.file_summary_by_event_name""", 9, True,
    ),
    "exporter, files": (
        """SELECT FILE_NAME, EVENT_NAME, COUNT_READ, COUNT_WRITE, SUM_NUMBER_OF_BYTES_READ, SUM_NUMBER_OF_BYTES_WRITE
           FROM performance_schema.file_summary_by_instance where FILE_NAME REGEXP '.*'""", 6, True,
    ),
    "exporter, waits of indexes": (
        """SELECT OBJECT_SCHEMA, OBJECT_NAME, ifnull(INDEX_NAME, 'NONE') as INDEX_NAME, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE,
           COUNT_DELETE, SUM_TIMER_FETCH, SUM_TIMER_INSERT, SUM_TIMER_UPDATE, SUM_TIMER_DELETE
           FROM performance_schema.table_io_waits_summary_by_index_usage
           WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema')""", 11, False,
    ),
    "exporter, memory": (
        """SELECT EVENT_NAME, SUM_NUMBER_OF_BYTES_ALLOC, SUM_NUMBER_OF_BYTES_FREE, CURRENT_NUMBER_OF_BYTES_USED
           FROM performance_schema.memory_summary_global_by_event_name where COUNT_ALLOC > 0""", 4, True,
    ),
    "exporter, waits of tables": (
        """SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, COUNT_DELETE, SUM_TIMER_FETCH,
           SUM_TIMER_INSERT, SUM_TIMER_UPDATE, SUM_TIMER_DELETE FROM performance_schema.table_io_waits_summary_by_table
           WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema')""", 10, False,
    ),
    "exporter, locks of tables": (
        """SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_READ_NORMAL, COUNT_READ_WITH_SHARED_LOCKS, COUNT_READ_HIGH_PRIORITY,
           COUNT_READ_NO_INSERT, COUNT_READ_EXTERNAL, COUNT_WRITE_ALLOW_WRITE, COUNT_WRITE_CONCURRENT_INSERT,
           COUNT_WRITE_LOW_PRIORITY, COUNT_WRITE_NORMAL, COUNT_WRITE_EXTERNAL
           FROM performance_schema.table_lock_waits_summary_by_table
           WHERE OBJECT_SCHEMA NOT IN ('mysql', 'performance_schema', 'information_schema')""", 12, False,
    ),
    "exporter, users": ("SELECT `user`, statements, statement_latency, current_memory FROM `sys`.`x$user_summary`", 4, True),
    "reports, version": ("SELECT sys_version FROM sys.version", 1, True),
    "agent, history with waits": (
        """SELECT s.THREAD_ID, s.EVENT_ID, s.DIGEST_TEXT, s.TIMER_WAIT, w.EVENT_NAME, w.TIMER_WAIT AS WAITED,
           n.EVENT_NAME AS NESTED
           FROM performance_schema.events_statements_history AS s
           LEFT JOIN performance_schema.events_waits_history AS w ON w.THREAD_ID = s.THREAD_ID AND w.NESTING_EVENT_ID = s.EVENT_ID
           LEFT JOIN performance_schema.events_waits_history AS n ON n.THREAD_ID = w.THREAD_ID AND n.NESTING_EVENT_ID = w.EVENT_ID
           WHERE s.DIGEST IS NOT NULL AND s.CURRENT_SCHEMA IS NULL AND s.SQL_TEXT LIKE 'INSERT%'""", 7, True,
    ),
    "longest waits": (
        """select EVENT_NAME, count(*) as n, sum(TIMER_WAIT) as total, format_pico_time(max(TIMER_WAIT)) as longest
           from performance_schema.events_waits_history_long group by EVENT_NAME order by total desc limit 0, 10""", 4, True,
    ),
    "waits of threads": (
        """select t.NAME, w.EVENT_NAME, count(*), sum(w.TIMER_WAIT) from `performance_schema`.`events_waits_history_long` w
           join `performance_schema`.`threads` t using (THREAD_ID) where t.TYPE = 'FOREGROUND' and w.OPERATION <> 'idle'
           group by t.NAME, w.EVENT_NAME""", 4, True,
    ),
    "slowest events": (
        """select * from performance_schema.events_waits_history_long where TIMER_WAIT > 0 order by TIMER_WAIT desc limit 100""",
        None, True,
    ),
    "instruments that are off": (
        "select SUBSTRING_INDEX(NAME, '/', 2) as kind, count(*) from performance_schema.setup_instruments"
        " where ENABLED = 'NO' group by 1", 2, False,
    ),
    "accounts": (
        """SELECT USER, HOST, CURRENT_CONNECTIONS, TOTAL_CONNECTIONS FROM performance_schema.accounts
           WHERE USER IS NOT NULL AND HOST IS NOT NULL""", 4, True,
    ),
    "rates with a window": (
        """with s as (select EVENT_NAME, SUM_TIMER_WAIT, sum(SUM_TIMER_WAIT) over () as whole
                      from performance_schema.events_waits_summary_global_by_event_name)
           select EVENT_NAME, round(100 * SUM_TIMER_WAIT / whole, 2) as percent, SUM_TIMER_WAIT / 0 as nothing
           from s where whole > 0 order by 2 desc""", 3, True,
    ),
    "list of users in one row": (
        "select group_concat(distinct USER order by USER separator ';') as users from performance_schema.accounts", 1, True,
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


@pytest.mark.parametrize("name", QUERIES)
def test_runs_unchanged(taken: pfs.Snapshot, name: str) -> None:
    statement, columns, has_rows = QUERIES[name]
    result = taken.sql(statement, dialect="mysql")
    assert columns is None or len(result.columns) == columns
    assert not has_rows or len(result) > 0


def test_the_answers_are_those_of_the_frames(taken: pfs.Snapshot) -> None:
    sums = taken.sql(QUERIES["exporter, sums of statements"][0], "mysql").rows()
    frame = taken["events_statements_summary_by_digest"]
    columns = ("COUNT_STAR", "SUM_CREATED_TMP_DISK_TABLES", "SUM_ERRORS", "SUM_TIMER_WAIT")
    assert sums == [tuple(sum(frame[column].tolist()) for column in columns)]
    threads = taken.sql(QUERIES["waits of threads"][0], "mysql").rows()
    events = taken["events_waits_history_long"].merge(taken["threads"].query("TYPE == 'FOREGROUND'"), on="THREAD_ID")
    groups = events[events["OPERATION"] != "idle"].groupby(["NAME", "EVENT_NAME"], observed=True)["TIMER_WAIT"]
    assert sorted(threads) == sorted((*key, len(values), sum(values.tolist())) for key, values in groups)
