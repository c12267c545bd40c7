"""Stages, statements and transactions: consumers (semantics.md B), instruments (C), histories (E), what differs (G9, J).

Each test in a process of its own.
"""

from __future__ import annotations

import time

import pytest

import pfs
from tests.python._programs.driver import Worker, consumer, every, instrument, losses, me, one, rows, status
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.nested import (
    PROGRESS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    REPEATABLE_READ,
    SERIALIZABLE,
    UNKNOWN,
    Statement,
    Transaction,
    end_stage,
    key_of,
    progress,
    stage,
)
from tests.python._programs.sums import (
    KINDS,
    LEVELS,
    begin,
    digests,
    do,
    ids,
    in_histogram,
    of_digest,
    summary,
    totals,
    views,
)

TRANSACTIONS = "events_transactions_history_long"

# ---- B: consumers ------------------------------------------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_B4_without_thread_instrumentation_only_what_belongs_to_no_thread_grows(kind: str) -> None:
    """B4: global summaries and digests grow; current, history, by_thread, by_account, by_user, by_host do not."""
    do(kind, 2)
    before = {view: rows(view) for view in views(kind)}
    consumer("thread_instrumentation", False)
    do(kind, 5)
    worker = Worker()
    worker.do(do, kind, 3)
    assert totals(kind) == {**dict.fromkeys(LEVELS, 2), "global": 10}
    worker.end()
    assert totals(kind) == {**dict.fromkeys(LEVELS, 2), "global": 10}
    if kind == "statements":
        assert digests() == {(None, "SELECT ?"): 10}
        assert in_histogram() == 10
    assert {view: rows(view) for view in views(kind)} == before
    consumer("thread_instrumentation", True)
    do(kind)
    assert totals(kind) == {**dict.fromkeys(LEVELS, 3), "global": 11}
    assert ids(views(kind)[2]) == [1, 2, 3]
    pfs.truncate(summary(kind, "global"))
    assert totals(kind) == dict.fromkeys((*LEVELS, "global"), 0)


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_B5_histories_need_current(kind: str) -> None:
    """B5: history and history_long on with current off record nothing; they act again with current, at once (B9)."""
    current, history, long = views(kind)
    consumer(current, False)
    do(kind, 5)
    assert [rows(view) for view in views(kind)] == [[], [], []]
    assert set(totals(kind).values()) == {5}
    consumer(current, True)
    do(kind)
    assert [ids(view) for view in (current, history, long)] == [[1], [1], [1]]


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_B6_the_two_histories_are_independent(kind: str) -> None:
    """B6: either alone records what the other does not."""
    _, history, long = views(kind)
    consumer(history, False)
    do(kind)  # 1
    consumer(history, True)
    consumer(long, False)
    do(kind)  # 2
    consumer(long, True)
    do(kind)  # 3
    assert ids(history) == [2, 3]
    assert ids(long) == [1, 3]


@fresh_process()
def test_B7_digests_do_without_current_and_current_without_digests() -> None:
    """B7: with events_statements_current off digests grow; with statements_digest off DIGEST is NULL in rows and none grows."""
    consumer("events_statements_current", False)
    Statement("b/select", "select 1").end()
    assert digests() == {(None, "SELECT ?"): 1}
    assert rows("events_statements_history_long") == []
    consumer("events_statements_current", True)
    consumer("statements_digest", False)
    Statement("b/select", "select 2").end()
    row = one("events_statements_history_long")
    assert (row["SQL_TEXT"], row["DIGEST"], row["DIGEST_TEXT"]) == ("select 2", None, None)
    assert digests() == {(None, "SELECT ?"): 1}
    assert in_histogram() == 2
    consumer("statements_digest", True)
    Statement("b/select", "select 3").end()
    assert rows("events_statements_history_long")[-1]["DIGEST"] == pfs.digest("select 3")[0]
    assert digests() == {(None, "SELECT ?"): 2}


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_B8_a_thread_that_is_not_instrumented_is_silent(kind: str) -> None:
    """B8: INSTRUMENTED=NO: not even summaries or digests; HISTORY=NO keeps it out of histories only."""
    do(kind)
    pfs.threads.update(me(), history=False)
    do(kind)
    assert [ids(view) for view in views(kind)] == [[2], [1], [1]]
    assert set(totals(kind).values()) == {2}
    pfs.threads.update(me(), instrumented=False)
    do(kind, 3)
    assert set(totals(kind).values()) == {2}
    assert ids(views(kind)[0]) == [2]
    if kind == "statements":
        assert (digests(), in_histogram()) == ({(None, "SELECT ?"): 2}, 2)


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@fresh_process()
def test_B10_cpu_time_is_measured_if_its_consumer_is_on() -> None:
    """B10: off, the default: CPU_TIME is 0 everywhere; on: of a busy statement what it used, of one that sleeps much less than
    it took."""
    assert pfs.setup_consumers["events_statements_cpu"].enabled is False
    statement = Statement("b/busy", "busy")
    spin(0.01)
    statement.end()
    assert one("events_statements_history_long")["CPU_TIME"] == 0
    assert of_digest("busy")["SUM_CPU_TIME"] == 0
    consumer("events_statements_cpu", True)
    statement = Statement("b/busy", "busy")
    spin(0.03)
    statement.end()
    statement = Statement("b/sleep", "sleep")
    time.sleep(0.1)
    statement.end()
    _, busy, sleep = sorted(rows("events_statements_history_long"), key=lambda row: row["EVENT_ID"])
    assert 30e9 <= busy["CPU_TIME"] <= busy["TIMER_WAIT"] * 1.01
    assert 0 < sleep["CPU_TIME"] < sleep["TIMER_WAIT"] / 4
    assert of_digest("busy")["SUM_CPU_TIME"] == busy["CPU_TIME"]
    found = one("events_statements_summary_global_by_event_name", EVENT_NAME="statement/b/sleep")
    assert found["SUM_CPU_TIME"] == sleep["CPU_TIME"]


# ---- C: instruments ----------------------------------------------------------------------------------------------------------


@fresh_process()
def test_C13_each_instrument_of_the_kind_has_a_row_in_each_table() -> None:
    """C13: per-event-name tables list every registered instrument of the family, used or not, for each thread, account, ..."""
    names = {
        "stages": {f"stage/c/{name}" for name in ("one", "two", "three")},
        "statements": {f"statement/c/{name}" for name in ("one", "two")},
        "transactions": {"transaction"},
    }
    worker = Worker()
    worker.do(pfs.set_account, "anna", "desk")
    do_nothing = Transaction()  # this thread is known as well
    do_nothing.end()
    for kind, found in names.items():
        for name in found:
            if name != "transaction":
                key_of(kind[:-1], name.split("/", 1)[1])
        for level, who in (("global", 1), ("thread", 2), ("account", 2), ("user", 2), ("host", 2)):
            shown = every(summary(kind, level))
            assert len(shown) == len(found) * who, (kind, level)
            assert {row["EVENT_NAME"] for row in shown} == found
            assert sum(row["COUNT_STAR"] for row in shown) == (kind == "transactions")


# ---- E: histories ------------------------------------------------------------------------------------------------------------

SMALL = ",".join(
    f"performance_schema_events_{kind}_{option}" for kind in KINDS for option in ("history_size=4", "history_long_size=40")
)
NONE = SMALL.replace("=40", "=0").replace("=4", "=0")


@fresh_process(SMALL)
@pytest.mark.parametrize("kind", KINDS)
def test_E1_history_has_the_last_of_each_thread_and_history_long_of_all(kind: str) -> None:
    """E1: N + 3 events: the newest N, in each thread; and the newest M of the process."""
    workers = [Worker() for _ in range(2)]
    for times in range(1, 8):
        do(kind)
        assert ids(views(kind)[1], THREAD_ID=me()) == list(range(max(1, times - 3), times + 1))
    for worker in workers:
        worker.do(do, kind, 5)
        assert ids(views(kind)[1], THREAD_ID=worker.id) == [2, 3, 4, 5]
    assert len(rows(views(kind)[2])) == 17
    for total in range(18, 120):
        workers[total % 2].do(do, kind)
        assert len(rows(views(kind)[2])) == min(total, 40)
    last = ids(views(kind)[2], THREAD_ID=workers[0].id)
    assert last == list(range(5 + 51 - 19, 5 + 51 + 1))


@fresh_process(SMALL)
def test_E1_history_long_has_the_last_statements_of_threads_that_ended() -> None:
    """E1: threads of a few statements each leave the newest M rows, and so does a thread that goes on after them."""
    finished: list[tuple[int, int]] = []

    def check() -> None:
        assert set(ids("events_statements_history_long", "THREAD_ID", "EVENT_ID")) == set(finished[-40:])

    for n in range(300):
        worker = Worker()
        worker.do(do, "statements", 1 + n % 3)
        finished += [(worker.id, i) for i in range(1, 2 + n % 3)]
        worker.end()
        if n in (10, 30, 100, 299):
            check()
    worker = Worker()
    for i in range(1, 100):
        worker.do(do, "statements")
        finished.append((worker.id, i))
        check()
    assert losses() == {}


@fresh_process(SMALL)
def test_E1_E6_a_statement_enters_history_after_those_nested_in_it() -> None:
    """E6, E1: an outer statement is the last to enter, however many ran inside it: its row was kept for it."""
    outer = Statement("e/call", "call p()")  # 1
    for i in range(500):
        Statement("e/select", f"select {i}").end()
    assert ids("events_statements_current", "EVENT_ID", "SQL_TEXT") == [(1, "call p()")]
    assert ids("events_statements_history") == [498, 499, 500, 501]
    outer.end()
    assert ids("events_statements_history", "EVENT_ID", "SQL_TEXT") == [
        (1, "call p()"),
        *[(i, f"select {i - 2}") for i in (499, 500, 501)],
    ]
    ends = [row["TIMER_END"] for row in rows("events_statements_history")]
    assert max(ends) == one("events_statements_history", EVENT_ID=1)["TIMER_END"]
    Statement("e/select", "select 1").end()
    assert ids("events_statements_history") == [1, 500, 501, 502]
    assert 1 in ids("events_statements_history_long")
    assert losses() == {}


@fresh_process(SMALL)
def test_E1_a_transaction_and_a_stage_outlast_many_others() -> None:
    """E1: a transaction and a stage that stay open while hundreds of other events come and go have their rows."""
    transaction = Transaction()  # 1
    stage("e/long")  # 2
    for i in range(300):
        Statement("e/select", f"select {i}").end()
    assert [ids(views(kind)[0], "EVENT_ID", "END_EVENT_ID") for kind in ("transactions", "stages")] == [[(1, None)], [(2, None)]]
    end_stage()
    transaction.end()
    assert [ids(views(kind)[1], "EVENT_ID", "END_EVENT_ID") for kind in ("transactions", "stages")] == [[(1, 302)], [(2, 302)]]


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_E3_the_rows_of_a_thread_that_ended_are_in_history_long_only(kind: str) -> None:
    """E3: they leave current and history; history_long keeps them. What ran when the thread ended is in no table."""
    worker = Worker()
    worker.do(do, kind, 3)
    worker.do(begin, kind)
    assert ids(views(kind)[0]) == [4]
    worker.end()
    assert [ids(view) for view in views(kind)] == [[], [], [1, 2, 3]]
    assert totals(kind) == {"thread": 0, "account": 3, "user": 3, "host": 3, "global": 3}
    worker = Worker()  # in the same slot: nothing runs in it
    worker.do(do, kind)
    assert ids(views(kind)[0], "NESTING_EVENT_ID", THREAD_ID=worker.id) == [None]


@fresh_process(NONE)
@pytest.mark.parametrize("kind", KINDS)
def test_E4_histories_of_size_0_are_empty(kind: str) -> None:
    """E4: no rows though the consumers are on, and no error."""
    do(kind, 30)
    end = begin(kind)
    assert [ids(view) for view in views(kind)] == [[31], [], []]
    end()
    assert ids(views(kind)[0]) == [31]
    assert set(totals(kind).values()) == {31}
    assert losses() == {}


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_E5_only_finished_events_are_in_histories(kind: str) -> None:
    """E5: END_EVENT_ID is not NULL in histories."""
    do(kind, 2)
    begin(kind)
    for view in views(kind)[1:]:
        assert ids(view, "EVENT_ID", "END_EVENT_ID") == [(1, 1), (2, 2)]


@fresh_process()
def test_E7_sizes_of_the_histories_of_a_fresh_process() -> None:
    """E7: 10 rows a thread and 10000 in all, of each kind."""
    for kind in KINDS:
        assert (pfs.variables[f"events_{kind}_history_size"], pfs.variables[f"events_{kind}_history_long_size"]) == (10, 10000)


# ---- G9: what a thread is doing ----------------------------------------------------------------------------------------------


@fresh_process()
def test_G9_the_state_of_a_thread_is_its_stage_also_a_disabled_one() -> None:
    """G9: PROCESSLIST_STATE = name part of the last stage set, even if its instrument is disabled; max 64 chars; NULL after."""

    def state(worker: Worker) -> object:
        (row,) = rows("threads", THREAD_ID=worker.id)
        return row["PROCESSLIST_STATE"]

    worker = Worker()
    assert state(worker) is None
    worker.do(stage, "g/loading rows")
    assert state(worker) == "loading rows"
    key_of("stage", "g/secret")
    instrument("stage/g/secret", enabled=False)
    worker.do(stage, "g/secret")
    assert state(worker) == "secret"
    assert ids("events_stages_current", "EVENT_NAME", "END_EVENT_ID") == [("stage/g/loading rows", 1)]
    worker.do(stage, "g/" + "x" * 80)
    assert state(worker) == "x" * 64
    worker.do(stage, "g/a/b")
    assert state(worker) == "a/b"
    worker.do(end_stage)
    assert state(worker) is None
    worker.do(stage, "g/secret")
    worker.do(end_stage)
    assert state(worker) is None


@fresh_process()
def test_G9_progress_is_shown_of_stages_that_tell_it() -> None:
    """WORK_COMPLETED and WORK_ESTIMATED: of stages with the progress flag, while they run and after; NULL of others (G9)."""
    columns = ("WORK_COMPLETED", "WORK_ESTIMATED")
    stage("g/plain")
    progress(completed=1, estimated=2)
    assert ids("events_stages_current", *columns) == [(None, None)]
    stage("g/loading", PROGRESS)
    assert ids("events_stages_current", *columns) == [(0, 0)]
    progress(completed=5, estimated=10)
    progress(more=2)
    assert ids("events_stages_current", *columns) == [(7, 10)]
    end_stage()
    progress(completed=100, estimated=100)
    assert ids("events_stages_history_long", *columns) == [(None, None), (7, 10)]
    stage("g/loading", PROGRESS)
    assert ids("events_stages_current", *columns) == [(0, 0)]


# ---- J: transactions ---------------------------------------------------------------------------------------------------------


@fresh_process()
def test_J1_state_and_the_two_kinds_of_access() -> None:
    """J1: ACTIVE, then COMMITTED or ROLLED BACK; statistics split READ_ONLY and READ_WRITE; COUNT_STAR = both."""
    for read_only, committed in ((False, True), (False, False), (True, True), (False, True), (True, False)):
        transaction = Transaction(read_only=read_only)
        assert one("events_transactions_current")["STATE"] == "ACTIVE"
        transaction.end(committed)
    found = ids(TRANSACTIONS, "STATE", "ACCESS_MODE")
    assert found == [
        ("COMMITTED", "READ WRITE"),
        ("ROLLED BACK", "READ WRITE"),
        ("COMMITTED", "READ ONLY"),
        ("COMMITTED", "READ WRITE"),
        ("ROLLED BACK", "READ ONLY"),
    ]
    waits = {mode: ids(TRANSACTIONS, "TIMER_WAIT", ACCESS_MODE=mode) for mode in ("READ WRITE", "READ ONLY")}
    waits["both"] = waits["READ WRITE"] + waits["READ ONLY"]
    for level in (*LEVELS, "global"):
        row = one(summary("transactions", level), COUNT_STAR=5)
        for suffix, of in (("READ_WRITE", "READ WRITE"), ("READ_ONLY", "READ ONLY"), ("WAIT", "both")):
            count = row["COUNT_STAR" if suffix == "WAIT" else "COUNT_" + suffix]
            shown = [count, *(row[f"{kind}_TIMER_{suffix}"] for kind in ("SUM", "MIN", "AVG", "MAX"))]
            times = waits[of]
            assert shown == [len(times), sum(times), min(times), sum(times) // len(times), max(times)], (level, suffix)


@fresh_process()
def test_J2_what_a_transaction_says_about_itself() -> None:
    """J2: isolation, access mode, autocommit as given at start; savepoint counters; GTID, XID, XA_STATE, TRX_ID; NULL if not
    given."""
    levels = {
        UNKNOWN: None,
        READ_UNCOMMITTED: "READ UNCOMMITTED",
        READ_COMMITTED: "READ COMMITTED",
        REPEATABLE_READ: "REPEATABLE READ",
        SERIALIZABLE: "SERIALIZABLE",
    }
    for level in levels:
        Transaction(level, read_only=level % 2 == 1, autocommit=level > 2).end()
    found = ids(TRANSACTIONS, "ISOLATION_LEVEL", "ACCESS_MODE", "AUTOCOMMIT")
    modes = ("READ WRITE", "READ ONLY")
    assert found == [(name, modes[level % 2], "YES" if level > 2 else "NO") for level, name in levels.items()]
    texts = ("GTID", "XID_FORMAT_ID", "XID_GTRID", "XID_BQUAL", "XA_STATE", "TRX_ID")
    numbers = ("NUMBER_OF_SAVEPOINTS", "NUMBER_OF_ROLLBACK_TO_SAVEPOINT", "NUMBER_OF_RELEASE_SAVEPOINT")
    assert ids(TRANSACTIONS, *texts, *numbers, EVENT_ID=1) == [(None,) * 6 + (0, 0, 0)]
    transaction = Transaction()
    transaction.set("gtid", b"3E11FA47-71CA-11E1-9E33-C80AA9429562:23")
    transaction.set("trx_id", 7)
    transaction.set("trx_id", 8)  # the first one stays
    for state, name in enumerate(("NOTR", "ACTIVE", "IDLE", "PREPARED", "ROLLBACK ONLY")):
        transaction.set("xa_state", state)
        assert one("events_transactions_current")["XA_STATE"] == name
    transaction.set("xid", -1, b"g" * 200, b"", 3)
    for verb, more in (("savepoints", 3), ("rollbacks", 2), ("releases", 1), ("savepoints", 4)):
        transaction.set(verb, more)
    transaction.end()
    transaction.set("savepoints", 100)  # it has ended
    transaction.set("gtid", b"late")
    expected = ("3E11FA47-71CA-11E1-9E33-C80AA9429562:23", -1, "g" * 130, "", "PREPARED", 7, 7, 2, 1)
    assert ids(TRANSACTIONS, *texts, *numbers, EVENT_ID=6) == [expected]
    Transaction().end()  # nothing of it in the next row
    assert ids(TRANSACTIONS, *texts, *numbers, EVENT_ID=7) == [(None,) * 6 + (0, 0, 0)]


@fresh_process()
def test_J3_one_row_a_thread_a_second_start_takes_the_place() -> None:
    """J3: start, start, end: the second is the row; the first, when it ends after all, counts."""
    first = Transaction(read_only=True)  # 1
    second = Transaction()  # 2
    assert ids("events_transactions_current") == [2]
    first.set("savepoints", 5)
    first.end()
    assert ids("events_transactions_current", "EVENT_ID", "END_EVENT_ID") == [(2, None)]
    second.end()
    second.end()
    assert ids("events_transactions_current", "EVENT_ID", "NUMBER_OF_SAVEPOINTS") == [(2, 0)]
    assert ids(TRANSACTIONS) == [2]
    row = one("events_transactions_summary_global_by_event_name")
    assert (row["COUNT_STAR"], row["COUNT_READ_ONLY"], row["COUNT_READ_WRITE"]) == (2, 1, 1)
    assert status("locker_lost") == 0
