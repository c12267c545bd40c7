"""A DBA's questions about a history of active sessions, in SQL: each answer is computed again from rows that are known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pfs
from pfs import _core
from pfs._process.history.names import SAMPLES, TOTALS
from pfs._process.history.store import Folder
from pfs._read.arrow import parts_of
from pfs._read.kinds import kinds

SECOND = 10**12
LOCK, FILE = "wait/synch/mutex/shop/LOCK_stock", "wait/io/file/shop/orders"
START = pd.Timestamp("2026-03-01 10:00:00")

# Twenty samples, one a second. Thread 1 holds the lock and writes; 2 and 3 wait for it; 4 computes in a statement, then lacks a
# processor; 5 is idle.
ROWS: list[dict[str, Any]] = []
for number in range(20):
    late = number >= 10
    common = {"SAMPLE_ID": number + 1, "SAMPLE_TIME": START + pd.Timedelta(seconds=number), "WEIGHT": SECOND}
    waits = {"THREAD_STATE": "WAITING", "WAIT_CLASS": "wait/synch/mutex", "EVENT_NAME": LOCK, "OPERATION": "lock"}
    ROWS += [
        common
        | {"THREAD_ID": 1, "THREAD_NAME": "writer", "THREAD_STATE": "WAITING", "WAIT_CLASS": "wait/io/file", "EVENT_NAME": FILE}
        | {"OPERATION": "sync", "SOURCE": "shop.c:10", "OBJECT_NAME": "/orders.log", "EVENT_ID": 100 + number}
        | {"STATEMENT_EVENT_ID": 7, "DIGEST_TEXT": "INSERT INTO `orders` VALUES (?)"},
        common | waits | {"THREAD_ID": 2, "THREAD_NAME": "worker", "SOURCE": "shop.c:20", "BLOCKING_THREAD_ID": 1, "EVENT_ID": 5}
        | {"FINAL_BLOCKING_THREAD_ID": 1, "CHAIN_DEPTH": 1, "TIMER_WAIT": (number + 1) * SECOND, "STATEMENT_EVENT_ID": 3}
        | {"DIGEST_TEXT": "UPDATE `stock` SET `n` = ?"},
        common | {"THREAD_ID": 4, "THREAD_NAME": "adder", "THREAD_STATE": "RUNNABLE" if late else "ON CPU"}
        | {"WAIT_CLASS": "runnable" if late else "computing", "STATEMENT_EVENT_ID": 9, "DIGEST_TEXT": "SELECT SUM ( `n` )"}
        | {"CPU_TIME": 0 if late else SECOND, "RUNNABLE_TIME": SECOND if late else 0},
        common | {"THREAD_ID": 5, "THREAD_NAME": "pool", "THREAD_STATE": "IDLE", "WAIT_CLASS": "wait/synch/cond"},
    ]  # fmt: skip
    if late:
        ROWS.append(
            common | waits | {"THREAD_ID": 3, "THREAD_NAME": "worker", "SOURCE": "shop.c:30", "BLOCKING_THREAD_ID": 2}
            | {"EVENT_ID": 6, "FINAL_BLOCKING_THREAD_ID": 1, "CHAIN_DEPTH": 2, "TIMER_WAIT": (number - 9) * SECOND}
        )  # fmt: skip


# The exact sums of the same waits: second, event, how often, seconds. They add up to the samples, so that the weights stay.
SUMS = [(5, FILE, 1000, 10), (5, LOCK, 50, 10), (15, FILE, 1000, 10), (15, LOCK, 40, 20)]


def sums() -> list[_core.Part]:
    seconds, events, counts, times = zip(*SUMS, strict=True)
    zeros, names = np.zeros(len(SUMS), np.int32), np.array([FILE, LOCK], object)
    moments = (START + pd.to_timedelta(seconds, unit="s")).astype("datetime64[us]").astype(np.int64).to_numpy()
    return [
        ("NODE", "text", False, zeros, None, np.array(["host"], object)),
        ("PID", "uint64", False, np.full(len(SUMS), 7, np.uint64), None, None),
        ("SAMPLE_TIME", "timestamp", False, moments, None, None),
        ("EVENT_NAME", "text", False, np.array([list(names).index(name) for name in events], np.int32), None, names),
        ("COUNT_STAR", "uint64", False, np.array(counts, np.uint64), None, None),
        ("SUM_TIMER_WAIT", "uint64", False, np.array(times, np.uint64) * np.uint64(SECOND), None, None),
    ]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of these samples."""
    info = _core.table_info("active_sessions")["columns"]
    frame = pd.DataFrame(ROWS, columns=["NODE", "PID", *(column["name"] for column in info)])
    frame = frame.assign(NODE="host", PID=7, LATENESS=0, IS_DEADLOCKED=0)
    types = {"uint64": "UInt64", "int64": "Int64"}
    for column in info:
        if column["kind"] in types:
            kind: Any = types[column["kind"]] if column["nullable"] else column["kind"]
            frame[column["name"]] = frame[column["name"]].astype(kind)
        elif column["kind"] in ("text", "enum"):
            frame[column["name"]] = frame[column["name"]].astype("string[python]")
    frame["SAMPLE_TIME"] = frame["SAMPLE_TIME"].astype("datetime64[us]")
    folder = Folder(tmp_path_factory.mktemp("sql") / "shop.ash")
    folder.add((SAMPLES, len(frame), parts_of(frame, kinds("active_sessions"))))
    folder.add((TOTALS, len(SUMS), sums()))
    folder.note({"processes": {"7": {"command": "shop"}}, "hz": 1, "node": "host"})
    folder.close()
    return folder.path


QUESTIONS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "how loaded was it, by class and time": (
        "select BEGIN_TIME, WAIT_CLASS, AAS from sys.ash_load where WAIT_CLASS in ('wait/synch/mutex', 'computing')",
        [
            (datetime(2026, 3, 1, 10, 0, 0), "computing", 1.0),
            (datetime(2026, 3, 1, 10, 0, 0), "wait/synch/mutex", 1.0),
            (datetime(2026, 3, 1, 10, 0, 10), "wait/synch/mutex", 2.0),
        ],
    ),
    "which statements took the time, and what did they wait for": (
        "select STATEMENT, EVENT_NAME, SECONDS from sys.ash_statements order by SECONDS desc, STATEMENT, EVENT_NAME",
        [
            ("INSERT INTO `orders` VALUES (?)", FILE, 20.0),
            ("UPDATE `stock` SET `n` = ?", LOCK, 20.0),
            ("SELECT SUM ( `n` )", "computing", 10.0),
            ("SELECT SUM ( `n` )", "runnable", 10.0),
        ],
    ),
    "at which lines do threads wait": (
        "select SOURCE, OPERATION, SECONDS, round(SHARE, 2) from sys.ash_sources order by SECONDS desc, SOURCE",
        [("shop.c:10", "sync", 20.0, 0.4), ("shop.c:20", "lock", 20.0, 0.4), ("shop.c:30", "lock", 10.0, 0.2)],
    ),
    "who blocks whom in the end": (
        "select FINAL_BLOCKING_THREAD_ID, EVENT_NAME, WAITERS, CHAIN_DEPTH, SECONDS from sys.ash_blockers",
        [(1, LOCK, 2, 2, 30.0)],
    ),
    "what does the blocker do meanwhile": (
        "select h.EVENT_NAME, h.SOURCE, sum(w.WEIGHT) / 1e12 from active_session_history w join active_session_history h "
        "on h.PID = w.PID and h.SAMPLE_ID = w.SAMPLE_ID and h.THREAD_ID = w.FINAL_BLOCKING_THREAD_ID group by all",
        [(FILE, "shop.c:10", 30.0)],
    ),
    "what did one thread do, second by second": (
        "select SAMPLE_TIME, THREAD_STATE from active_session_history where THREAD_ID = 4 and SAMPLE_ID in (10, 11) order by 1",
        [(datetime(2026, 3, 1, 10, 0, 9), "ON CPU"), (datetime(2026, 3, 1, 10, 0, 10), "RUNNABLE")],
    ),
    "which files": (
        "select OBJECT_NAME, OPERATION, SECONDS from sys.ash_objects",
        [("/orders.log", "sync", 20.0)],
    ),
    "is the machine too small": (
        "select sum(CPU_TIME) / 1e12, sum(RUNNABLE_TIME) / 1e12 from active_session_history",
        [(10.0, 10.0)],
    ),
    "which single waits were longest": (
        "select THREAD_ID, EVENT_ID, max(TIMER_WAIT) / 1e12 as s from active_session_history where TIMER_WAIT is not null "
        "group by all order by s desc",
        [(2, 5, 20.0), (3, 6, 10.0)],
    ),
    "what is different from the ten seconds before": (
        "with x as (select coalesce(EVENT_NAME, WAIT_CLASS) e, SAMPLE_TIME >= '2026-03-01 10:00:10' later, WEIGHT / 1e12 w "
        "from active_session_history where THREAD_STATE != 'IDLE') select e, coalesce(sum(w) filter (not later), 0), "
        "coalesce(sum(w) filter (later), 0) from x group by e "
        "having sum(w) filter (later) is distinct from sum(w) filter (not later) order by e",
        [("computing", 10.0, 0.0), ("runnable", 0.0, 10.0), (LOCK, 10.0, 20.0)],
    ),
    # What a report about a workload says.
    "load profile: time and waits, a second": (
        "select (select sum(SECONDS) from sys.ash_classes) / 20, (select sum(CPU_TIME) / 1e12 from active_session_history) / 20, "
        "sum(COUNT_STAR) / 20 from active_session_totals",
        [(3.5, 0.5, 104.5)],
    ),
    "top events: how often, how long in all, and each": (
        "select EVENT_NAME, sum(COUNT_STAR), sum(SUM_TIMER_WAIT) / 1e12, sum(SUM_TIMER_WAIT) / sum(COUNT_STAR) / 1e9, "
        "round(sum(SUM_TIMER_WAIT) / 1e12 / (select sum(SECONDS) from sys.ash_classes), 2) from active_session_totals "
        "group by 1 order by 3 desc",
        [(LOCK, 90, 30.0, 30 / 90 * 1000, 0.43), (FILE, 2000, 20.0, 10.0, 0.29)],
    ),
    "top statements by elapsed time, and how much of it they computed": (
        "select STATEMENT, sum(SECONDS) s, coalesce(sum(SECONDS) filter (EVENT_NAME = 'computing'), 0) from sys.ash_statements "
        "group by 1 order by s desc, 1",
        [
            ("INSERT INTO `orders` VALUES (?)", 20.0, 0.0),
            ("SELECT SUM ( `n` )", 20.0, 10.0),
            ("UPDATE `stock` SET `n` = ?", 20.0, 0.0),
        ],
    ),
    "efficiency: which part of the time did work": (
        "select round(sum(SECONDS) filter (WAIT_CLASS = 'computing') / sum(SECONDS), 3), "
        "round(sum(SECONDS) filter (WAIT_CLASS like 'wait/synch/%') / sum(SECONDS), 3) from sys.ash_classes",
        [(round(10 / 70, 3), round(30 / 70, 3))],
    ),
    "compare two periods: how often and how long each": (
        "with x as (select EVENT_NAME e, SAMPLE_TIME >= '2026-03-01 10:00:10' later, COUNT_STAR n, SUM_TIMER_WAIT / 1e12 s "
        "from active_session_totals) select e, sum(s) filter (later) - sum(s) filter (not later), "
        "round(sum(s) filter (later) / sum(n) filter (later) / (sum(s) filter (not later) / sum(n) filter (not later)), 2) "
        "from x group by e order by 2 desc",
        [(LOCK, 10.0, 2.5), (FILE, 0.0, 1.0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_its_answer(kept: Path, question: str) -> None:
    statement, answer = QUESTIONS[question]
    assert [tuple(row) for row in pfs.sql(statement, kept).rows()] == answer


def test_idle_threads_are_not_active(kept: Path) -> None:
    threads = pfs.sql("select THREAD_NAME, SECONDS, AAS from sys.ash_threads order by 1", kept).rows()
    assert [row[0] for row in threads] == ["adder", "worker", "writer"]
    assert [row[1] for row in threads] == [20.0, 30.0, 20.0]
    assert [round(row[2], 6) for row in threads] == [round(seconds / 19, 6) for seconds in (20, 30, 20)]


def test_other_tables_are_unknown_and_names_are_near(kept: Path) -> None:
    with pytest.raises(pfs.UnknownTable, match="active_session_history"):
        pfs.sql("select * from active_session_histori", kept)
    with pytest.raises(pfs.UnknownTable, match=r"ash_load"):
        pfs.sql("select * from sys.ash_lod", kept)
    with pytest.raises(pfs.UnknownColumn, match="THREAD_STATE"):
        pfs.sql("select THREAD_STAT from active_session_history", kept)


def test_samples_of_the_folder_are_these_rows(kept: Path) -> None:
    samples = pfs.samples(kept)
    assert len(samples) == len(ROWS)
    assert samples["WEIGHT"].sum() == len(ROWS) * SECOND
    assert samples.attrs["program"] == "shop"
    assert datetime.fromisoformat(samples.attrs["begin"]).replace(tzinfo=UTC) == START.to_pydatetime().replace(tzinfo=UTC)
