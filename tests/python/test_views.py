"""The schema sys: documented columns and order, values recomputed from the base tables, formats as documented."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import pfs
from pfs._sql import result as pfs_result
from pfs._sql.functions import MACROS
from pfs._sql.query import connected
from pfs._views.declared import VIEWS
from tests.python._programs.subject import subject

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden/sys_views.json").read_text())
OWN = {"file_slowest", "hung_threads", "lock_holders", "mutex_by_contention"}  # MySQL has them not
WORK = """
import sqlite3, threading
pfs.setup_consumers.update(enabled=True)
pfs.set_account("joe", "here")
connection = pfs.dbapi(sqlite3).connect(":memory:")
connection.execute("create table t (a)")
for number in range(30):
    connection.execute("insert into t values (?)", (number,))
    connection.execute("select * from t where a < ?", (number,)).fetchall()
    try: connection.execute("select nothing")
    except sqlite3.OperationalError: pass
    with pfs.Lock("app/LOCK"), pfs.stage("app/step"), pfs.open(f"file{number % 3}", "w", name=f"app/data{number % 2}") as file:
        file.write("x" * 1000 * (number + 1))
    with pfs.open(f"file{number % 3}", name="app/data0") as file: file.read()
def other():
    pfs.set_account("ann", "there")
    with pfs.Lock("app/OTHER"), pfs.statement("app/query", "SELECT 1"): pass
thread = threading.Thread(target=other); thread.start(); thread.join()
kept = pfs.memory("app/buffer")
kept.alloc(5000)
pfs.set_connect_attrs({"program_name": "tester", "_pid": "7"})
held = pfs.Lock("app/HELD")
held.acquire()
started = threading.Event()
waiter = threading.Thread(target=lambda: (started.set(), held.acquire()), daemon=True)
waiter.start(); started.wait()
import time; time.sleep(0.3)
"""


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> pfs.Snapshot:
    folder = tmp_path_factory.mktemp("views")
    folder.chmod(0o700)
    import os

    before = os.getcwd()
    os.chdir(folder)
    try:
        with subject(folder) as running:
            running.do(WORK)
            with pfs.attach(str(running.path)) as schema:
                return schema.snapshot()
    finally:
        os.chdir(before)


def formatting() -> duckdb.DuckDBPyConnection:
    connection = connected()
    for macro in MACROS:
        connection.execute(macro)
    return connection


def test_columns_are_the_documented_ones_in_order() -> None:
    assert {name for name in VIEWS if not name.startswith("x$")} == set(GOLDEN) | OWN
    for name, columns in GOLDEN.items():
        assert list(VIEWS[name].columns) == columns, name
        if f"x${name}" in VIEWS:
            assert list(VIEWS[f"x${name}"].columns) == columns


@pytest.fixture(scope="module")
def answers(taken: pfs.Snapshot) -> dict[str, pfs_result.Result]:
    return {name: taken.sql(f'select * from sys."{name}"') for name in VIEWS}


def test_every_view_answers(answers: dict[str, pfs_result.Result]) -> None:
    for name, view in VIEWS.items():
        assert answers[name].columns == list(view.columns), name
        assert view.doc.endswith("."), name
    assert len([name for name in VIEWS if len(answers[name])]) > 50


def test_a_twin_has_the_same_rows(answers: dict[str, pfs_result.Result]) -> None:
    """A formatted value is the format of the twin's value."""
    formats = formatting()
    for name in VIEWS:
        if f"x${name}" not in VIEWS:
            continue
        shown, raw = answers[name].rows(), answers[f"x${name}"].rows()
        assert len(shown) == len(raw), name
        for one, two in zip(shown, raw, strict=True):
            for text, value in zip(one, two, strict=True):
                if text == value or value is None or isinstance(value, str):
                    continue
                legal = formats.execute(
                    "select format_pico_time(?::hugeint), format_bytes(?::hugeint)", [value, value]
                ).fetchall()[0]
                assert text in legal, (name, text, value)


@pytest.mark.parametrize(
    ("picoseconds", "text"),
    [
        (0, "  0 ps"), (999, "999 ps"), (1000, "1.00 ns"), (3501, "3.50 ns"), (188732396662000, "3.15 min"),
        (10**12, "1.00 s"), (3600 * 10**12, "1.00 h"), (86400 * 10**12 * 3, "3.00 d"), (None, None),
    ],
)  # fmt: skip
def test_times_are_written_as_documented(picoseconds: int | None, text: str | None) -> None:
    assert formatting().execute("select format_pico_time(?::ubigint)", [picoseconds]).fetchall() == [(text,)]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "   0 bytes"), (512, " 512 bytes"), (1024, "1.00 KiB"), (5 << 20, "5.00 MiB"), (2**64 - 1, "16.00 EiB"), (None, None)],
)
def test_sizes_are_written_as_documented(size: int | None, text: str | None) -> None:
    assert formatting().execute("select format_bytes(?::ubigint)", [size]).fetchall() == [(text,)]


def by_time(frame: pd.DataFrame, column: str = "SUM_TIMER_WAIT") -> pd.DataFrame:
    return frame.sort_values(column, ascending=False, kind="stable")


def waits(taken: pfs.Snapshot) -> pd.DataFrame:
    frame = taken["events_waits_summary_global_by_event_name"]
    return frame[(frame["EVENT_NAME"] != "idle") & (frame["SUM_TIMER_WAIT"] > 0)]


def grouped(frame: pd.DataFrame, key: list[str], columns: dict[str, tuple[str, str]], order: str) -> list[tuple[Any, ...]]:
    made = frame.groupby(key, dropna=False, sort=False).agg(**{n: pd.NamedAgg(*c) for n, c in columns.items()}).reset_index()
    return rows_of(by_time(made, order))


def rows_of(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [tuple(row) for row in plain.itertuples(index=False, name=None)]


def principals(principal: str) -> Callable[[pfs.Snapshot], list[tuple[Any, ...]]]:
    def expected(taken: pfs.Snapshot) -> list[tuple[Any, ...]]:
        frame = taken[f"events_statements_summary_by_{principal}_by_event_name"].copy()
        frame[principal] = frame[principal.upper()].fillna("background")
        frame["scans"] = frame["SUM_NO_INDEX_USED"] + frame["SUM_NO_GOOD_INDEX_USED"]
        columns = {
            "total": ("COUNT_STAR", "sum"), "latency": ("SUM_TIMER_WAIT", "sum"), "most": ("MAX_TIMER_WAIT", "max"),
            "lock": ("SUM_LOCK_TIME", "sum"), "sent": ("SUM_ROWS_SENT", "sum"), "examined": ("SUM_ROWS_EXAMINED", "sum"),
            "affected": ("SUM_ROWS_AFFECTED", "sum"), "scans": ("scans", "sum"),
        }  # fmt: skip
        return grouped(frame, [principal], columns, "latency")

    return expected


def files_of(principal: str) -> Callable[[pfs.Snapshot], list[tuple[Any, ...]]]:
    def expected(taken: pfs.Snapshot) -> list[tuple[Any, ...]]:
        frame = taken[f"events_waits_summary_by_{principal}_by_event_name"]
        frame = frame[frame["EVENT_NAME"].str.startswith("wait/io/file/")].copy()
        frame[principal] = frame[principal.upper()].fillna("background")
        return grouped(frame, [principal], {"ios": ("COUNT_STAR", "sum"), "latency": ("SUM_TIMER_WAIT", "sum")}, "latency")

    return expected


def classes(taken: pfs.Snapshot) -> list[tuple[Any, ...]]:
    frame = waits(taken).copy()
    frame["class"] = frame["EVENT_NAME"].str.split("/").str[:3].str.join("/")
    columns = {
        "n": ("COUNT_STAR", "sum"),
        "s": ("SUM_TIMER_WAIT", "sum"),
        "l": ("MIN_TIMER_WAIT", "min"),
        "m": ("MAX_TIMER_WAIT", "max"),
    }
    return [(c, n, s, low, s // n, most) for c, n, s, low, most in grouped(frame, ["class"], columns, "s")]


def analysis(taken: pfs.Snapshot) -> list[tuple[Any, ...]]:
    columns = [
        "DIGEST_TEXT", "SCHEMA_NAME", "COUNT_STAR", "SUM_ERRORS", "SUM_WARNINGS", "SUM_TIMER_WAIT", "MAX_TIMER_WAIT",
        "AVG_TIMER_WAIT", "SUM_LOCK_TIME", "SUM_ROWS_SENT", "SUM_ROWS_EXAMINED", "SUM_ROWS_AFFECTED", "DIGEST",
    ]  # fmt: skip
    return rows_of(by_time(taken["events_statements_summary_by_digest"])[columns])


def memory(principal: str) -> Callable[[pfs.Snapshot], list[tuple[Any, ...]]]:
    def expected(taken: pfs.Snapshot) -> list[tuple[Any, ...]]:
        frame = taken[f"memory_summary_by_{principal}_by_event_name"].copy()
        frame[principal] = frame[principal.upper()].fillna("background")
        columns = {
            "count": ("CURRENT_COUNT_USED", "sum"), "bytes": ("CURRENT_NUMBER_OF_BYTES_USED", "sum"),
            "most": ("CURRENT_NUMBER_OF_BYTES_USED", "max"), "all": ("SUM_NUMBER_OF_BYTES_ALLOC", "sum"),
        }  # fmt: skip
        return grouped(frame, [principal], columns, "bytes")

    return expected


FILES = "file_summary_by_instance"
FILE_COLUMNS = ["FILE_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "COUNT_READ", "SUM_TIMER_READ", "COUNT_WRITE", "SUM_TIMER_WRITE"]
FILE_COLUMNS += ["COUNT_MISC", "SUM_TIMER_MISC"]
RECOMPUTED: dict[str, tuple[str, Callable[[pfs.Snapshot], list[tuple[Any, ...]]]]] = {
    "waits_global_by_latency": (
        "*",
        lambda t: rows_of(by_time(waits(t))[["EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "AVG_TIMER_WAIT", "MAX_TIMER_WAIT"]]),
    ),
    "wait_classes_global_by_latency": ("*", classes),
    "statement_analysis": (
        "query, db, exec_count, err_count, warn_count, total_latency, max_latency, avg_latency, lock_latency, rows_sent,"
        " rows_examined, rows_affected, digest",
        analysis,
    ),
    "statements_with_errors_or_warnings": (
        "digest, exec_count, errors",
        lambda t: rows_of(
            by_time(t["events_statements_summary_by_digest"].query("SUM_ERRORS > 0 or SUM_WARNINGS > 0"), "SUM_ERRORS")[
                ["DIGEST", "COUNT_STAR", "SUM_ERRORS"]
            ]
        ),
    ),
    "io_global_by_file_by_latency": (
        "file, total, total_latency, count_read, read_latency, count_write, write_latency, count_misc, misc_latency",
        lambda t: rows_of(by_time(t[FILES])[[*FILE_COLUMNS]]),
    ),
    "io_global_by_file_by_bytes": (
        "file, total_read, total_written, total",
        lambda t: rows_of(
            by_time(t[FILES].assign(ALL=t[FILES]["SUM_NUMBER_OF_BYTES_READ"] + t[FILES]["SUM_NUMBER_OF_BYTES_WRITE"]), "ALL")[
                ["FILE_NAME", "SUM_NUMBER_OF_BYTES_READ", "SUM_NUMBER_OF_BYTES_WRITE", "ALL"]
            ]
        ),
    ),
    "memory_global_by_current_bytes": (
        "event_name, current_count, current_alloc, high_count, high_alloc",
        lambda t: rows_of(
            by_time(
                t["memory_summary_global_by_event_name"].query("CURRENT_NUMBER_OF_BYTES_USED > 0"), "CURRENT_NUMBER_OF_BYTES_USED"
            )[
                [
                    "EVENT_NAME",
                    "CURRENT_COUNT_USED",
                    "CURRENT_NUMBER_OF_BYTES_USED",
                    "HIGH_COUNT_USED",
                    "HIGH_NUMBER_OF_BYTES_USED",
                ]
            ]
        ),
    ),
    "memory_global_total": (
        "*",
        lambda t: [(int(t["memory_summary_global_by_event_name"]["CURRENT_NUMBER_OF_BYTES_USED"].sum()),)],
    ),
    "user_summary_by_statement_latency": ("*", principals("user")),
    "host_summary_by_statement_latency": ("*", principals("host")),
    "user_summary_by_file_io": ("*", files_of("user")),
    "host_summary_by_file_io": ("*", files_of("host")),
    "memory_by_user_by_current_bytes": (
        '"user", current_count_used, current_allocated, current_max_alloc, total_allocated',
        memory("user"),
    ),
}


@pytest.mark.parametrize("name", RECOMPUTED)
def test_values_follow_from_the_base_tables(taken: pfs.Snapshot, name: str) -> None:
    columns, expected = RECOMPUTED[name]
    found = taken.sql(f"select {columns} from sys.x${name}").rows()
    wanted = expected(taken)
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert found
    times = VIEWS[f"x${name}"].columns
    order = next((c for c in ("total_latency", "io_latency") if c in times), None)
    if order is not None and name != "statements_with_errors_or_warnings":
        values = [row[0] for row in taken.sql(f"select {order} from sys.x${name}").rows()]
        assert values == sorted(values, reverse=True)


def test_lock_holders_names_both_threads(taken: pfs.Snapshot) -> None:
    (row,) = taken.sql("select * from sys.x$lock_holders").df().to_dict("records")
    assert row["lock_name"] == "wait/synch/mutex/app/HELD"
    assert row["holder_thread_id"] != row["waiting_thread_id"]
    hung = taken.sql("select thread_id, event_name from sys.hung_threads").rows()
    assert (row["waiting_thread_id"], "wait/synch/mutex/app/HELD") in hung


def test_session_shows_its_program(taken: pfs.Snapshot) -> None:
    rows = taken.sql("select user, program_name, pid from sys.session").rows()
    assert ("joe@here", "tester", "7") in rows


def test_view_is_a_frame() -> None:
    assert list(pfs.view("sys.version").columns) == ["sys_version", "mysql_version"]
    assert pfs.view("x$waits_global_by_latency")["total_latency"].dtype.kind in "u"
    with pytest.raises(pfs.UnknownTable, match="the nearest is 'statement_analysis'"):
        pfs.view("statement_analisis")
