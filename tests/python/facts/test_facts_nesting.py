"""What is nested in what (semantics.md D), and what A says of stages, statements and transactions. Each test in a process of its
own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.python._programs.driver import MUTEX, Mutex, OwnLock, Worker, consumer, every, instrument, losses, me, one, rows
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.nested import Statement, Transaction, end_stage, key_of, stage
from tests.python._programs.sums import INSTRUMENTS, KINDS, begin, do, ids, in_histogram, members, totals, views

WAITS = "events_waits_history_long"
STAGES, STATEMENTS, TRANSACTIONS = (f"events_{kind}_history_long" for kind in KINDS)
NESTING = ("EVENT_ID", "END_EVENT_ID", "NESTING_EVENT_ID", "NESTING_EVENT_TYPE")
LEVEL = (*NESTING, "NESTING_EVENT_LEVEL")


# ---- A: one event ------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_A1_one_counter_of_event_ids_for_all_kinds() -> None:
    """A1: EVENT_ID grows by 1 for each recorded event of a thread; transaction, statement, stage, wait share one counter."""
    lock = Mutex("a/LOCK_one")
    transaction = Transaction()  # 1
    statement = Statement("a/select")  # 2
    stage("a/one")  # 3
    lock.use()  # 4
    stage("a/two")  # 5
    lock.use()  # 6
    end_stage()
    statement.end()
    transaction.end()
    do("statements")  # 7
    found = [(table, *ids(table)) for table in (TRANSACTIONS, STATEMENTS, STAGES, WAITS)]
    assert found == [(TRANSACTIONS, 1), (STATEMENTS, 2, 7), (STAGES, 3, 5), (WAITS, 4, 6)]
    worker = Worker()
    worker.do(do, "transactions", 2)
    assert ids(TRANSACTIONS, THREAD_ID=worker.id) == [1, 2]


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_A2_an_event_that_is_not_recorded_takes_no_event_id(kind: str) -> None:
    """A2: with the consumer of the kind, or of waits, off, no EVENT_ID is consumed; summaries still count."""
    do(kind)  # 1
    consumer(f"events_{kind}_current", False)
    do(kind, 5)
    consumer(f"events_{kind}_current", True)
    consumer("events_waits_current", False)
    Mutex("a/LOCK_one").use(7)
    do(kind)  # 2
    assert ids(views(kind)[2]) == [1, 2]
    assert set(totals(kind).values()) == {7}
    assert one("events_waits_summary_global_by_event_name", EVENT_NAME=MUTEX + "a/LOCK_one")["COUNT_STAR"] == 7


@fresh_process()
def test_A3_end_event_id_is_the_last_event_of_any_kind_that_had_begun() -> None:
    """A3: END_EVENT_ID: the last event started in the thread when this one ended; its own id if nothing nested; NULL while
    running."""
    statement = Statement("a/select")  # 1
    stage("a/one")  # 2
    Mutex("a/LOCK_one").use(2)  # 3, 4
    assert ids("events_stages_current", *NESTING) == [(2, None, 1, "STATEMENT")]
    stage("a/two")  # 5
    end_stage()
    transaction = Transaction()  # 6
    statement.end()
    assert ids("events_transactions_current", "END_EVENT_ID") == [None]
    transaction.end()
    do("stages")  # 7
    assert ids(STATEMENTS, "EVENT_ID", "END_EVENT_ID") == [(1, 6)]
    assert ids(STAGES, "EVENT_ID", "END_EVENT_ID") == [(2, 4), (5, 5), (7, 7)]
    assert ids(TRANSACTIONS, "EVENT_ID", "END_EVENT_ID") == [(6, 6)]


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_A11_an_event_keeps_the_settings_that_it_began_with(kind: str) -> None:
    """A11: its instrument, its timing or its consumers are switched in the middle: it ends as it began."""
    name, (current, history, long) = INSTRUMENTS[kind], views(kind)
    do(kind)  # 1
    # What is switched, and whether events that begin while it is off count.
    switches: list[tuple[Callable[[bool], None], int]] = [
        (lambda on: instrument(name, enabled=on), 0),
        (lambda on: instrument(name, timed=on), 1),
        (lambda on: consumer(f"events_{kind}_history", on), 1),
        (lambda on: consumer(f"events_{kind}_current", on), 1),
        (lambda on: consumer("thread_instrumentation", on), 1),
        (lambda on: consumer("global_instrumentation", on), 0),
    ]
    for switch, counts in switches:
        end = begin(kind)  # recorded, though not what follows
        switch(False)
        end()
        last = ids(current)[-1]
        assert ids(history)[-1] == ids(long)[-1] == last
        assert rows(current)[-1]["TIMER_WAIT"] is not None
        end = begin(kind)  # as the settings are now, whatever they are at its end
        before = totals(kind)["global"]
        switch(True)
        end()
        assert totals(kind)["global"] - before == counts
        do(kind)
        assert ids(current) == ids(history)[-1:]
        assert ids(current)[0] > last
    untimed = [row for row in rows(long) if row["TIMER_START"] is None]
    assert all(row["TIMER_WAIT"] is None for row in untimed)
    assert len(untimed) == 1  # the one begun while TIMED was NO
    assert losses() == {}


@fresh_process()
def test_A12_refine_changes_the_name_and_nothing_else() -> None:
    """A12: EVENT_NAME of a statement changes while it runs; EVENT_ID and TIMER_START stay, and it counts for the last name."""
    statement = Statement("abstract/query", "select 1", "shop")
    before = one("events_statements_current")
    assert before["EVENT_NAME"] == "statement/abstract/query"
    statement.refine("sql/select")
    after = one("events_statements_current")
    assert {key for key in after if after[key] != before[key]} == {"EVENT_NAME"}
    assert after["EVENT_NAME"] == "statement/sql/select"
    statement.refine("sql/update")
    statement.end()
    assert ids(STATEMENTS, "EVENT_ID", "EVENT_NAME", "TIMER_START") == [(1, "statement/sql/update", before["TIMER_START"])]
    assert (
        totals("statements", "statement/abstract/query")["global"] == totals("statements", "statement/sql/select")["global"] == 0
    )
    assert set(totals("statements", "statement/sql/update").values()) == {1}


@fresh_process()
def test_A12_refine_to_an_untimed_class_forgets_the_time() -> None:
    """A12, A4: what its instrument does not want timed has no times in the row, counts, and is in no histogram."""
    key = key_of("statement", "sql/quick")
    instrument("statement/sql/quick", timed=False)
    Statement("abstract/query", "select 1").refine(key).end()
    row = one(STATEMENTS)
    assert (row["TIMER_START"], row["TIMER_END"], row["TIMER_WAIT"]) == (None, None, None)
    summary = one("events_statements_summary_global_by_event_name", EVENT_NAME="statement/sql/quick")
    assert (summary["COUNT_STAR"], summary["SUM_TIMER_WAIT"]) == (1, 0)
    assert in_histogram() == 0


@fresh_process()
@pytest.mark.parametrize("via", [0, 1])
def test_A13_refining_to_a_disabled_class_drops_the_event(via: int) -> None:
    """A13: no current, history or summary effect, no digest, no histogram; what runs inside is nested in the statement around.
    There is no way back."""
    key = key_of("statement", "sql/secret")
    instrument("statement/sql/secret", enabled=False)
    outer = Statement("sql/call", "call p()")
    inner = Statement("abstract/query", "select 2")
    if via:
        inner.refine("sql/select")
    inner.refine(key)
    assert ids("events_statements_current", "EVENT_NAME") == ["statement/sql/call"]
    inner.refine("sql/select")  # too late
    Mutex("a/LOCK_one").use()
    Statement("sql/select", "select 3").end()
    outer_id = ids("events_statements_current")[0]
    inner.set_text("select 4").set_schema("s").add("ROWS_SENT", 4)
    inner.end()
    outer.end()
    assert ids(WAITS, "NESTING_EVENT_ID") == [outer_id]
    found = ids(STATEMENTS, "EVENT_NAME", "NESTING_EVENT_ID", "NESTING_EVENT_LEVEL")
    assert found == [("statement/sql/call", None, 0), ("statement/sql/select", outer_id, 2)]
    for name in ("sql/secret", "abstract/query"):
        assert set(totals("statements", "statement/" + name).values()) == {0}
    assert sorted(row["DIGEST_TEXT"] for row in every("events_statements_summary_by_digest")) == ["CALL `p` ( )", "SELECT ?"]
    assert in_histogram() == 2


# ---- D: nesting --------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_D1_a_wait_is_nested_in_the_wait_stage_or_statement_that_runs() -> None:
    """D1: innermost running wait, else the stage, else the statement, else NULL; a transaction is no parent of a wait."""
    leaf, outer, inner = Mutex("d/LOCK_leaf"), OwnLock("d/LOCK_outer", 0x10), OwnLock("d/LOCK_inner", 0x20)
    leaf.use()  # 1
    transaction = Transaction()  # 2
    leaf.use()  # 3
    statement = Statement("d/select")  # 4
    leaf.use()  # 5
    stage("d/one")  # 6
    leaf.use()  # 7
    wait = outer.begin()  # 8
    second = inner.begin()  # 9
    leaf.use()  # 10
    inner.end(second)
    end_stage()
    leaf.use()  # 11
    outer.end(wait)
    leaf.use()  # 12
    statement.end()
    leaf.use()  # 13
    transaction.end()
    stage("d/alone")  # 14
    leaf.use()  # 15
    end_stage()
    leaf.use()  # 16
    assert ids(WAITS, "EVENT_ID", "NESTING_EVENT_ID", "NESTING_EVENT_TYPE") == [
        (1, None, None),
        (3, None, None),
        (5, 4, "STATEMENT"),
        (7, 6, "STAGE"),
        (8, 6, "STAGE"),
        (9, 8, "WAIT"),
        (10, 9, "WAIT"),
        (11, 8, "WAIT"),
        (12, 4, "STATEMENT"),
        (13, None, None),
        (15, 14, "STAGE"),
        (16, None, None),
    ]
    assert losses() == {}


@fresh_process()
def test_D1_what_is_not_recorded_is_no_parent() -> None:
    """D1: with the consumer or the instrument of stages, or of the inner statement, off, waits are nested in what is recorded."""
    leaf = Mutex("d/LOCK_leaf")
    outer = Statement("d/call")  # 1
    consumer("events_stages_current", False)
    stage("d/one")
    leaf.use()  # 2
    consumer("events_statements_current", False)
    inner = Statement("d/select")
    leaf.use()  # 3
    consumer("events_stages_current", True)
    stage("d/two")  # 4, in the outer statement
    leaf.use()  # 5
    end_stage()
    inner.end()
    leaf.use()  # 6
    instrument("stage/d/two", enabled=False)
    stage("d/two")
    leaf.use()  # 7
    outer.end()
    leaf.use()  # 8
    assert ids(WAITS, "EVENT_ID", "NESTING_EVENT_ID") == [(2, 1), (3, 1), (5, 4), (6, 1), (7, 1), (8, None)]
    assert ids(STAGES, *NESTING) == [(4, 5, 1, "STATEMENT")]


@fresh_process()
def test_D2_a_stage_ends_the_stage_before_and_is_nested_in_the_statement() -> None:
    """D2: stage A, stage B, end, wait: B begins where A ends, the wait is nested in the statement."""
    leaf = Mutex("d/LOCK_leaf")
    stage("d/outside")  # 1
    statement = Statement("d/select")  # 2
    leaf.use()  # 3: the stage goes on
    stage("d/A")  # 4
    leaf.use()  # 5
    stage("d/B")  # 6
    assert ids("events_stages_current", "EVENT_NAME", "END_EVENT_ID") == [("stage/d/B", None)]
    end_stage()
    leaf.use()  # 7
    inner = Statement("d/select")  # 8
    stage("d/C")  # 9
    inner.end()
    statement.end()
    end_stage()
    found = ids(STAGES, *NESTING)
    assert found == [(1, 3, None, None), (4, 5, 2, "STATEMENT"), (6, 6, 2, "STATEMENT"), (9, 9, 8, "STATEMENT")]
    assert ids(WAITS, "NESTING_EVENT_ID", "NESTING_EVENT_TYPE") == [(1, "STAGE"), (4, "STAGE"), (2, "STATEMENT")]
    rows_ = [one(STAGES, EVENT_NAME=f"stage/d/{name}") for name in ("A", "B")]
    assert rows_[0]["TIMER_END"] == rows_[1]["TIMER_START"]


@fresh_process()
def test_D2_a_second_end_of_a_stage_does_nothing() -> None:
    """D2: a thread that is in no stage ends none."""
    end_stage()
    stage("d/A")
    end_stage()
    end_stage()
    stage("d/A")
    stage("d/A")  # again: another one
    stage(0)  # as end_stage()
    assert ids(STAGES) == [1, 2, 3]
    assert set(totals("stages", "stage/d/A").values()) == {3}


@fresh_process()
def test_D3_a_statement_is_nested_in_the_statement_or_in_a_newer_transaction() -> None:
    """D3: NESTING_EVENT_LEVEL is the depth, 0 at the top; a transaction that is active and newer than the enclosing statement
    is the parent."""
    old = Transaction()  # 1
    call = Statement("d/call")  # 2 in 1
    first = Statement("d/select")  # 3 in 2
    new = Transaction(autocommit=True)  # 4 in 3; the old one is shown no more
    second = Statement("d/select")  # 5 in 4, level 2
    third = Statement("d/select")  # 6 in 5, level 3
    third.end()
    second.end()
    fourth = Statement("d/select")  # 7 in 4
    fourth.end()
    new.end()
    fifth = Statement("d/select")  # 8 in 3, level 2
    fifth.end()
    first.end()
    call.end()
    old.end()
    Statement("d/select").end()  # 9
    assert ids(STATEMENTS, *LEVEL) == [
        (2, 8, 1, "TRANSACTION", 0),
        (3, 8, 2, "STATEMENT", 1),
        (5, 6, 4, "TRANSACTION", 2),
        (6, 6, 5, "STATEMENT", 3),
        (7, 7, 4, "TRANSACTION", 2),
        (8, 8, 3, "STATEMENT", 2),
        (9, 9, None, None, 0),
    ]


@fresh_process()
def test_D4_a_transaction_is_nested_in_the_statement_that_runs() -> None:
    """D4: the statement running when it started; NULL if none; never a stage or another transaction."""
    Transaction().end()  # 1
    stage("d/one")  # 2
    Transaction().end()  # 3
    outer = Statement("d/call")  # 4
    Transaction().end()  # 5
    inner = Statement("d/select")  # 6
    transaction = Transaction()  # 7
    inner.end()
    outer.end()
    transaction.end(committed=False)
    expected = [(1, 1, None, None), (3, 3, None, None), (5, 5, 4, "STATEMENT"), (7, 7, 6, "STATEMENT")]
    assert ids(TRANSACTIONS, *NESTING) == expected


def block() -> Transaction:
    """BEGIN; INSERT: the transaction is active."""
    statement = Statement("d/begin", "BEGIN")  # 1
    transaction = Transaction()  # 2
    statement.end()
    Statement("d/insert", "INSERT INTO t VALUES (1)").end()  # 3
    return transaction


@fresh_process()
def test_D5_the_worked_example() -> None:
    """D5: BEGIN, INSERT, UPDATE, COMMIT; a CALL inside a transaction; a SELECT that is a transaction of its own."""
    transaction = block()
    Statement("d/update", "UPDATE t SET a = 2").end()  # 4
    statement = Statement("d/commit", "COMMIT")  # 5
    transaction.end()
    statement.end()
    assert ids(TRANSACTIONS, *NESTING) == [(2, 5, 1, "STATEMENT")]
    assert ids(STATEMENTS, *LEVEL) == [
        (1, 2, None, None, 0),
        (3, 3, 2, "TRANSACTION", 0),
        (4, 4, 2, "TRANSACTION", 0),
        (5, 5, 2, "TRANSACTION", 0),
    ]

    def call() -> None:
        transaction = block()
        for _ in range(3):
            Statement("d/insert").end()  # 4, 5, 6
        outer = Statement("d/call", "CALL p()")  # 7
        Statement("d/insert", "INSERT INTO t VALUES (2)").end()  # 8
        outer.end()
        transaction.end()

    def autocommit() -> None:
        for _ in range(7):
            Statement("d/select").end()
        statement = Statement("d/select", "SELECT 1")  # 8
        Transaction(autocommit=True).end()  # 9
        statement.end()

    worker = Worker()
    worker.do(call)
    assert ids(STATEMENTS, *LEVEL, THREAD_ID=worker.id)[-2:] == [(7, 8, 2, "TRANSACTION", 0), (8, 8, 7, "STATEMENT", 1)]
    worker = Worker()
    worker.do(autocommit)
    assert ids(STATEMENTS, *LEVEL, THREAD_ID=worker.id)[-1] == (8, 9, None, None, 0)
    assert ids(TRANSACTIONS, *NESTING, THREAD_ID=worker.id) == [(9, 9, 8, "STATEMENT")]


@fresh_process("performance_schema_max_statement_stack=2")
def test_D8_deeper_statements_are_counted_and_not_recorded() -> None:
    """D8: stack 2, depth 4: two rows, nested_statement_lost 2, and all four are in summaries, digests and the histogram."""
    leaf = Mutex("d/LOCK_leaf")
    open_ = [Statement("d/select", f"select a from t{i}").add("ROWS_SENT", 1) for i in range(4)]
    assert ids("events_statements_current") == [1, 2]
    leaf.use()  # 3: in the innermost that is recorded
    for statement in reversed(open_):
        statement.add("ROWS_SENT", 1).end()
    assert ids(STATEMENTS, *LEVEL) == [(1, 3, None, None, 0), (2, 3, 1, "STATEMENT", 1)]
    assert ids(WAITS, "NESTING_EVENT_ID") == [2]
    # The two deepest share a room for texts: the digest of the one that gave its text first is lost.
    assert losses() == {"Performance_schema_nested_statement_lost": 2, "Performance_schema_digest_lost": 1}
    assert set(totals("statements", "statement/d/select").values()) == {4}
    assert one("events_statements_summary_global_by_event_name", EVENT_NAME="statement/d/select")["SUM_ROWS_SENT"] == 8
    assert len(every("events_statements_summary_by_digest")) == 3
    assert in_histogram() == 4
    Statement("d/select").end()
    assert ids("events_statements_current", *LEVEL) == [(4, 4, None, None, 0)]


@fresh_process()
def test_D8_ten_by_default() -> None:
    """D8: ten nested statements are recorded, each with its text."""
    open_ = [Statement("d/select", f"select {i}") for i in range(12)]
    found = ids("events_statements_current", "SQL_TEXT", "NESTING_EVENT_LEVEL")
    assert found == [(f"select {i}", i) for i in range(10)]
    for statement in reversed(open_):
        statement.end()
    assert losses() == {"Performance_schema_nested_statement_lost": 2, "Performance_schema_digest_lost": 1}


@fresh_process()
def test_D9_current_shows_all_running_statements_or_the_last_top_level_one() -> None:
    """D9: statements: all that run, when idle exactly one, the last of the top level. Stages and transactions: one row, which
    stays after its end."""
    assert all(rows(views(kind)[0]) == [] for kind in KINDS)
    outer = Statement("d/call")  # 1
    middle = Statement("d/call")  # 2
    Statement("d/select").end()  # 3
    assert ids("events_statements_current") == [1, 2]
    middle.end()
    assert ids("events_statements_current") == [1]
    outer.end()
    assert ids("events_statements_current", "EVENT_ID", "END_EVENT_ID") == [(1, 3)]
    for kind in ("stages", "transactions"):
        do(kind, 2)
        last = ids(views(kind)[2])[-1]
        assert ids(views(kind)[0], "EVENT_ID", "END_EVENT_ID") == [(last, last)]
        end = begin(kind)
        assert ids(views(kind)[0], "EVENT_ID", "END_EVENT_ID") == [(last + 1, None)]
        end()
    worker = Worker()
    worker.do(do, "statements")
    assert ids("events_statements_current", "THREAD_ID") == [me(), worker.id]
    worker.end()
    assert ids("events_statements_current", "THREAD_ID") == [me()]
    assert members("statements", "thread") == {}
