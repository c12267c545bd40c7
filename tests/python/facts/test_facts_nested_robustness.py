"""Stages, statements and transactions that are begun, ended or left in ways nobody should: nothing crashes, what is lost is
counted, and what is counted is exact. Each test in a process of its own."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any

import pytest

import pfs
from tests.python._programs.driver import Mutex, Worker, every, losses, me, one, rows, status
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.nested import Call, Statement, Transaction, destroy, end_stage, key_of, prepare, program, stage
from tests.python._programs.sessions import attach, detach, id_of, session
from tests.python._programs.sums import (
    DIGESTS,
    HISTOGRAM,
    HISTOGRAMS,
    KINDS,
    LEVELS,
    begin,
    digests,
    do,
    ids,
    in_histogram,
    in_histograms,
    members,
    summary,
    totals,
    views,
)

CURRENT, HISTORY = "events_statements_current", "events_statements_history_long"
WORK = "statement/n/work"


LOADED: list[ctypes.CDLL] = []


def program_in_c() -> ctypes.CDLL:
    if not LOADED:
        from tests.python._programs.fresh_process import compile_library  # not at the top: codes_of() leaves it out there

        LOADED.append(ctypes.CDLL(compile_library("nested.c")))
    return LOADED[0]


def work(texts: int, schemas: int, times: int) -> None:
    keys = key_of("statement", "n/work"), key_of("stage", "n/stage")
    program_in_c().n_work(*keys, texts, schemas, ctypes.c_long(times))


# ---- Ends that come twice, too late, elsewhere or never ------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_end_does_nothing(kind: str) -> None:
    """A second end, and all that is said of an event after its end, is nobody's."""
    end = begin(kind)
    end()
    end()
    other = begin(kind)
    end()
    assert ids(views(kind)[0], "END_EVENT_ID") == [2 if kind == "stages" else None]
    other()
    assert ids(views(kind)[2]) == [1, 2]
    assert set(totals(kind).values()) == {2}
    assert losses() == {}


@fresh_process()
def test_statements_that_outlive_the_one_around_them_go_on() -> None:
    """D3: outer before inner: the inner ones run on and are recorded; what comes next is nested in the innermost."""
    outer, middle = Statement("n/work", "select 1"), Statement("n/work", "select a")  # 1, 2
    inner = Statement("n/work", "select b")  # 3
    outer.end()
    assert ids(CURRENT, "EVENT_ID", "END_EVENT_ID") == [(2, None), (3, None)]
    Mutex("n/LOCK_one").use()  # 4
    next_one = Statement("n/work", "select c")  # 5
    inner.add("ROWS_SENT", 7).set_text("select d").set_schema("late")
    inner.end()
    assert ids(CURRENT, "EVENT_ID", "SQL_TEXT", "ROWS_SENT", "NESTING_EVENT_ID", "NESTING_EVENT_LEVEL") == [
        (2, "select a", 0, 1, 1),
        (5, "select c", 0, 3, 2),
    ]
    middle.end()
    next_one.end()
    shown = {text: count for (_, text), count in digests().items()}
    assert shown == {"SELECT ?": 1, "SELECT `a`": 1, "SELECT `d`": 1, "SELECT `c`": 1}
    assert sorted(ids(HISTORY, "EVENT_ID", "END_EVENT_ID", "SQL_TEXT", "NESTING_EVENT_ID")) == [
        (1, 3, "select 1", None),
        (2, 5, "select a", 1),
        (3, 5, "select d", 2),
        (5, 5, "select c", 3),
    ]
    assert ids("events_waits_history_long", "NESTING_EVENT_ID") == [3]
    assert set(totals("statements", WORK).values()) == {4}
    assert in_histogram() == 4
    assert one(summary("statements", "global"))["SUM_ROWS_SENT"] == 7
    assert losses() == {}


@fresh_process()
def test_a_chain_of_statements_that_overlap_never_fills_the_stack() -> None:
    """D3: each begins before the one before it ends, a thousand times: all are recorded with their texts."""
    before = Statement("n/work", "select 0")
    for i in range(1, 1000):
        after = Statement("n/work", f"select {i}")
        before.end()
        assert ids(CURRENT, "SQL_TEXT") == [f"select {i}"]
        before = after
    before.end()
    assert sorted(ids(HISTORY, "SQL_TEXT"), key=lambda text: int(text.split()[1])) == [f"select {i}" for i in range(1000)]
    assert digests() == {(None, "SELECT ?"): 1000}
    assert losses() == {}


@fresh_process()
def test_statements_on_the_heap_that_nobody_ends_make_room_and_are_counted() -> None:
    """D8: nothing tells whether such a one will be ended still; it stays until the stack is full."""
    left = []
    for i in range(30):
        outer = Statement("n/work", f"select {i}")
        left.append(Statement("n/work", "select left"))
        outer.end()
    assert ids(CURRENT, "SQL_TEXT") == ["select left"] * 9
    assert len(ids(HISTORY, "SQL_TEXT")) == 30
    assert losses() == {"Performance_schema_locker_lost": 21}
    for statement in left:
        statement.end()
    assert set(totals("statements", WORK).values()) == {60}
    assert len(ids(HISTORY, "SQL_TEXT")) == 39


@fresh_process()
@pytest.mark.parametrize("kind", ["statements", "transactions"])
def test_an_end_in_another_thread_counts_there(kind: str) -> None:
    """The row stays in the thread that began it, and ends; the thread that ends it counts it."""
    worker = Worker()
    end = worker.do(begin, kind)
    end()
    assert status("locker_lost") == 0
    assert (totals(kind)["global"], members(kind, "thread")) == (1, {me(): 1})
    assert ids(views(kind)[0], "THREAD_ID", "END_EVENT_ID") == [(worker.id, 1)]
    worker.do(end)  # it has ended
    do(kind)
    assert members(kind, "thread") == {me(): 2}
    worker.end()
    assert ids(views(kind)[0], "THREAD_ID") == [me()]


@fresh_process()
@pytest.mark.parametrize("kind", ["statements", "transactions"])
def test_an_end_in_another_session_counts_there(kind: str) -> None:
    """G7: the row is of the session that was attached when the event began; the one that is attached at its end counts it."""
    first, second = session("n/session"), session("n/session")
    attach(first)
    end = begin(kind)
    attach(second)
    do(kind)
    assert ids(views(kind)[0], "THREAD_ID", "END_EVENT_ID") == [(id_of(first), None), (id_of(second), 1)]
    end()
    assert ids(views(kind)[0], "THREAD_ID", "END_EVENT_ID") == [(id_of(first), 1), (id_of(second), 1)]
    attach(first)
    do(kind)
    assert ids(views(kind)[0], "THREAD_ID", "END_EVENT_ID") == [(id_of(first), 2), (id_of(second), 1)]
    detach()
    assert status("locker_lost") == 0
    assert members(kind, "thread") == {id_of(first): 1, id_of(second): 2}


@fresh_process()
def test_two_sessions_in_one_thread_each_have_their_own_stack() -> None:
    """G7, D3: statements of two sessions that a thread changes between are not nested in each other, and both end well."""
    first, second = session("n/session"), session("n/session")
    attach(first)
    one_statement = Statement("n/work", "select 1")
    stage("n/one")
    attach(second)
    other = Statement("n/work", "select 2")
    stage("n/two")
    Mutex("n/LOCK_one").use()
    attach(first)
    inner = Statement("n/work", "select 3")
    inner.end()
    end_stage()
    one_statement.end()
    attach(second)
    end_stage()
    other.end()
    found = ids(HISTORY, "THREAD_ID", "SQL_TEXT", "NESTING_EVENT_LEVEL")
    assert found == [(id_of(first), "select 1", 0), (id_of(first), "select 3", 1), (id_of(second), "select 2", 0)]
    assert losses() == {}
    detach()


@fresh_process()
def test_a_thread_that_ends_inside_everything_leaves_a_clean_slot() -> None:
    """E3: it ends in a statement, a stage, a transaction; its slot's next thread is in none of them."""
    for _ in range(20):
        worker = Worker()
        open_ = [worker.do(begin, kind) for kind in (*KINDS, "statements")]
        assert len(open_) == 4  # kept: memory that is used again is a statement that was left
        assert ids(CURRENT, "NESTING_EVENT_LEVEL", THREAD_ID=worker.id) == [0, 1]
        worker.end()
        assert all(rows(views(kind)[0]) == rows(views(kind)[2]) == [] for kind in KINDS)
        assert [row["PROCESSLIST_STATE"] for row in rows("threads")] == [None] * len(rows("threads"))
    assert all(set(totals(kind).values()) == {0} for kind in KINDS)
    assert losses() == {}


@fresh_process()
def test_statements_that_nobody_ends_do_not_fill_the_stack() -> None:
    """D8: left by a longjmp or an exception: the next one in the same place, or one that finds the stack full, has the abandoned
    ones go; nothing of what they were is shown or counted."""
    key = key_of("statement", "n/left")
    levels: list[list[Any]] = []
    check = ctypes.CFUNCTYPE(None)(lambda: levels.append(ids(CURRENT, "NESTING_EVENT_LEVEL")))
    program_in_c().n_abandon_often(key, 3, 30, check)
    assert levels == [[0, 1, 2]] * 30
    for depth in range(1, 9):
        program_in_c().n_abandon(key, depth)
    statement = Statement("n/work", "select 1")
    assert "select 1" in ids(CURRENT, "SQL_TEXT")
    statement.end()
    assert ids(HISTORY, "SQL_TEXT") == ["select 1"]
    assert totals("statements", "statement/n/left")["global"] == 0
    assert set(totals("statements", WORK).values()) == {1}
    assert len(ids("events_transactions_current")) == 1
    assert status("nested_statement_lost") == 0


@fresh_process()
def test_a_child_of_fork_goes_on_inside_a_statement() -> None:
    """A child that was forked inside a statement, a stage, a transaction: its own events are its own; the ends of the parent's
    change nothing of them; the parent does not notice."""
    outer = Statement("n/work", "select 1")  # the first statement of this thread
    transaction = Transaction()
    stage("n/one")
    prepared, called = prepare("select ?"), program("n", "p")
    Statement("n/work", "select 2").executes(prepared).end()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        wrong = "nothing was checked"
        try:
            child = Statement("n/child", "select child")
            child_transaction = Transaction()
            outer.add("ROWS_SENT", 99).set_text("not mine")
            transaction.set("savepoints", 99)
            transaction.end()
            outer.end()
            assert ids(CURRENT, "SQL_TEXT", "ROWS_SENT", "NESTING_EVENT_LEVEL", "END_EVENT_ID") == [("select child", 0, 0, None)]
            assert ids("events_transactions_current", "NUMBER_OF_SAVEPOINTS", "END_EVENT_ID") == [(0, None)]
            child_transaction.end()
            child.executes(prepared).end()
            call = Call(called)
            call.end()
            end_stage()
            for text in ("select a", "select b", "select a"):
                Statement("n/child", text).executes(prepared).end()
            assert digests()[None, "SELECT `a`"] == 2
            assert digests()[None, "SELECT `b`"] == 1
            assert [row["COUNT_STAR"] for row in every("events_statements_summary_by_program")] == [1]
            assert one("prepared_statements_instances")["COUNT_EXECUTE"] == 4
            assert totals("statements", "statement/n/child") == dict.fromkeys((*LEVELS, "global"), 4)
            assert ids(HISTORY, "SQL_TEXT") == ["select child", "select a", "select b", "select a"]
            wrong = ""
        except BaseException as error:
            import traceback

            wrong = f"{error!r} {traceback.format_exc()}"
        os.write(writer, wrong.encode()[:60000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    assert said == ""
    end_stage()
    transaction.end()
    outer.end()
    assert ids(HISTORY, "SQL_TEXT", "ROWS_SENT") == [("select 1", 0), ("select 2", 0)]
    assert set(totals("statements", WORK).values()) == {2}
    assert totals("statements", "statement/n/child")["global"] == 0
    assert losses() == {}


@fresh_process()
def test_texts_of_statements_that_overlap_are_kept_apart() -> None:
    """I5, D3: the outer statement ends, others begin inside the inner one and give their texts; the inner one gives another and
    ends: each text is counted for its own digest."""
    outer, inner = Statement("n/work", "select 1"), Statement("n/work", "select stale from t")
    outer.end()
    again, other = Statement("n/work", "select 1"), Statement("n/work", "select b")
    inner.set_text("select late")
    inner.end()
    other.end()
    again.end()
    assert digests() == {(None, "SELECT ?"): 2, (None, "SELECT `late`"): 1, (None, "SELECT `b`"): 1}
    assert sorted(ids(HISTORY, "SQL_TEXT")) == ["select 1", "select 1", "select b", "select late"]
    assert losses() == {}
    assert set(totals("statements", WORK).values()) == {4}


# ---- Signal handlers -----------------------------------------------------------------------------------------------------------


@fresh_process()
def test_handlers_that_interrupt_the_probes_lose_or_count_exactly() -> None:
    """A handler begins and ends statements and transactions wherever it interrupts the same probes: each of its statements is
    counted or lost; those of the interrupted loop are all there, one by one."""
    keys = key_of("statement", "n/work"), key_of("stage", "n/stage"), key_of("statement", "n/handler")
    out = (ctypes.c_long * 3)()
    times = 60_000
    program_in_c().n_interrupted(*keys, ctypes.c_long(times), out)
    counted, refused, inner = out
    assert counted > 20
    assert set(totals("statements", WORK).values()) == {times}
    assert set(totals("statements", "statement/n/handler").values()) == {counted + inner}
    assert set(totals("stages", "stage/n/stage").values()) == {times}
    shown = digests()
    assert shown.get((None, "HANDLE ?"), 0) + shown.get((None, "`handle` ?"), 0) == counted
    assert sum(n for (schema, _), n in shown.items() if schema == "s0") == times
    assert in_histogram() == times + counted + inner
    lost = losses()
    assert set(lost) <= {"Performance_schema_locker_lost"}
    assert lost.get("Performance_schema_locker_lost", 0) >= refused
    assert ids(CURRENT, "NESTING_EVENT_LEVEL") == [0]
    for row in rows(HISTORY):
        assert row["END_EVENT_ID"] is not None
        if row["EVENT_NAME"] == WORK:
            assert row["DIGEST_TEXT"].startswith("SELECT `c")
            assert (row["CURRENT_SCHEMA"], row["ROWS_SENT"], row["NESTING_EVENT_LEVEL"]) == ("s0", 2, 0)


# ---- No room -------------------------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_max_{kind}_classes={size}")
@pytest.mark.parametrize("kind", ["stage", "statement"])
@pytest.mark.parametrize("size", [0, 1])
def test_C5_no_room_for_instruments(kind: str, size: int) -> None:
    """C5: class limit reached: key 0 and *_classes_lost; events of key 0 are plain, and the program runs on."""
    keys = [key_of(kind, f"n/{name}") for name in ("one", "two", "three")]
    assert [key != 0 for key in keys] == [i < size for i in range(3)]
    assert losses() == {f"Performance_schema_{kind}_classes_lost": 3 - size}
    for key in keys:
        if kind == "stage":
            stage(key)
            end_stage()
        else:
            statement = Statement(key, "select 1", "shop").add("ROWS_SENT", 1).error(7)
            assert statement.begun == (key != 0)
            statement.end()
    assert totals(f"{kind}s", f"{kind}/n/one")["global"] == size
    assert len(rows(f"events_{kind}s_history_long")) == size
    assert losses() == {f"Performance_schema_{kind}_classes_lost": 3 - size}


SMALL = ",".join(
    f"performance_schema_{name}=0"
    for name in (
        "digests_size",
        "max_sql_text_length",
        "max_digest_length",
        "max_program_instances",
        "max_prepared_statements_instances",
        "accounts_size",
        *(f"events_{kind}_history{long}_size" for kind in KINDS for long in ("", "_long")),
    )
)


@fresh_process(SMALL + ",performance_schema_max_statement_stack=1")
def test_with_no_room_for_anything_events_are_still_counted() -> None:
    """All sizes 0: current and the sums by event name work; the rest is empty."""
    statement = Statement("n/work", "select 1", "shop", program=program("a", "b")).executes(prepare("select 1"))
    Statement("n/work", "select 2").end()
    assert ids(CURRENT, "SQL_TEXT", "DIGEST", "CURRENT_SCHEMA") == [("", None, "shop")]
    statement.end()
    stage("n/one")
    Transaction().end()
    end_stage()
    assert totals("statements", WORK)["global"] == 2
    for table in (DIGESTS, HISTOGRAMS, HISTORY, "events_stages_history", "events_transactions_history_long"):
        assert every(table) == []
    assert in_histogram() == 2
    assert set(losses()) == {
        f"Performance_schema_{name}_lost" for name in ("nested_statement", "program", "prepared_statements", "accounts")
    }


# ---- Many at a time ------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_statements_of_one_digest_from_8_threads_are_all_counted() -> None:
    """I12, F2: by_digest, its histogram, the histogram of all, by_thread, global: all equal what was done."""
    times, threads = 4000, 8
    program_in_c()
    workers = [Worker() for _ in range(threads)]
    for worker in workers:
        worker.start(work, 2, 2, times)
    for worker in workers:
        worker.result()
    expected = {worker.id: times for worker in workers}
    assert members("statements", "thread", WORK) == expected
    assert members("stages", "thread", "stage/n/stage") == expected
    assert members("transactions", "thread") == expected
    total = times * threads
    assert digests() == {(f"s{i}", f"SELECT `c{i}` FROM `t` WHERE `a` = ?"): total // 2 for i in range(2)}
    assert digests("SUM_ROWS_SENT") == dict.fromkeys(digests(), total)
    assert list(in_histograms().values()) == [total // 2] * 2
    assert in_histogram() == total
    row = one("events_transactions_summary_global_by_event_name")
    assert (row["COUNT_STAR"], row["COUNT_READ_ONLY"], row["COUNT_READ_WRITE"]) == (total, total // 2, total // 2)
    sums = {row["SUM_TIMER_WAIT"] for row in rows(summary("statements", "global"))}
    assert sums == {sum(row["SUM_TIMER_WAIT"] for row in every(DIGESTS))}
    for worker in workers:
        worker.end()
    assert set(totals("statements", WORK).values()) == {0, total}
    assert digests("COUNT_STAR") == dict.fromkeys(digests(), total // 2)
    assert losses() == {}


TRUNCATED = {
    "digests": (DIGESTS, HISTOGRAMS),
    "threads": tuple(summary(kind, "thread") for kind in KINDS),
    "histogram": (HISTOGRAM, HISTOGRAMS),
    "everything": (
        DIGESTS,
        HISTOGRAM,
        HISTOGRAMS,
        "accounts",
        "users",
        "hosts",
        *(summary(kind, level) for kind in KINDS for level in (*LEVELS, "global")),
        *(view for kind in KINDS for view in views(kind)),
        "events_statements_summary_by_program",
        "prepared_statements_instances",
    ),
}


@fresh_process()
@pytest.mark.parametrize("what", list(TRUNCATED))
def test_truncates_beside_8_threads_lose_nothing_that_they_do_not_empty(what: str) -> None:
    """F4-F7, I12: TRUNCATEs and readers beside the writers; what they leave alone is exact, and after one at rest all is exact
    again."""
    times, threads = 3000, 8
    program_in_c()
    workers = [Worker() for _ in range(threads)]
    for worker in workers:
        worker.start(work, 3, 1, times)
    stop = threading.Event()
    problems: list[Any] = []

    def read() -> None:
        while not stop.is_set():
            for row in every(DIGESTS):
                if row["SUM_ROWS_SENT"] != 2 * row["COUNT_STAR"] or row["COUNT_STAR"] > times * threads:
                    problems.append(row)
            for level in LEVELS:
                for row in every(summary("statements", level)):
                    if row["SUM_ROWS_SENT"] != 2 * row["COUNT_STAR"]:
                        problems.append(row)
            time.sleep(0.001)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for worker in workers:
        while not worker.is_done():
            for table in TRUNCATED[what]:
                pfs.truncate(table)
        worker.result()
    stop.set()
    reader.join()
    assert problems == []
    total = times * threads
    if what != "everything":
        for level in LEVELS[1:]:
            assert sum(members("statements", level, WORK).values()) == total
        assert totals("transactions")["global"] == totals("stages", "stage/n/stage")["global"] == total
    if what in ("digests", "threads"):
        assert in_histogram() == total
    if what in ("threads", "histogram"):
        assert sum(digests().values()) == total
    for table in TRUNCATED["everything"]:
        pfs.truncate(table)
    for kind, name in (("statements", WORK), ("stages", "stage/n/stage"), ("transactions", None)):
        assert totals(kind, name) == dict.fromkeys((*LEVELS, "global"), 0)
    assert (digests(), in_histogram()) == ({}, 0)
    for worker in workers:
        worker.start(work, 3, 1, 300)
    for worker in workers:
        worker.result()
    for kind, name in (("statements", WORK), ("stages", "stage/n/stage"), ("transactions", None)):
        assert totals(kind, name) == dict.fromkeys((*LEVELS, "global"), 2400)
    assert list(digests().values()) == list(in_histograms().values()) == [800] * 3
    assert in_histogram() == 2400
    assert losses() == {}


@fresh_process()
def test_programs_and_prepared_statements_made_and_destroyed_beside_each_other() -> None:
    """I14, I15: handles of many threads; at the end no row is left, and nothing was lost."""

    def run(n: int) -> None:
        for i in range(150):
            prepared = prepare(f"select {n}", number=n, identity=0x1000 * n + i)
            called = program("n", f"p{(n + i) % 4}")
            call = Call(called)
            Statement("n/work", "execute", program=called).executes(prepared).end()
            call.end()
            destroy(prepared)

    workers = [Worker() for _ in range(4)]
    for n, worker in enumerate(workers, 1):
        worker.start(run, n)
    for worker in workers:
        worker.result()
    assert every("prepared_statements_instances") == []
    found = every("events_statements_summary_by_program")
    assert len(found) == 4
    assert sum(row["COUNT_STAR"] for row in found) == sum(row["COUNT_STATEMENTS"] for row in found) == 600
    assert losses() == {}
