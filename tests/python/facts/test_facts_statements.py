"""What statements say about themselves, stored programs, prepared statements (semantics.md I1, I13-I15).

Each test in a process of its own.
"""

from __future__ import annotations

import random

import pytest

import pfs
from tests.python._programs.driver import Worker, every, instrument, losses, me, one, rows, status
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.nested import (
    COUNTERS,
    FUNCTION,
    PROCEDURE,
    Call,
    Statement,
    destroy,
    drop_program,
    key_of,
    prepare,
    program,
    reprepare,
)
from tests.python._programs.sums import ids, of_digest, totals

CURRENT, HISTORY = "events_statements_current", "events_statements_history_long"
GLOBAL = "events_statements_summary_global_by_event_name"
PROGRAMS, PREPARED = "events_statements_summary_by_program", "prepared_statements_instances"


# ---- I1: texts ---------------------------------------------------------------------------------------------------------------


def cut(text: str, limit: int) -> str:
    """What is shown of a text: whole characters, the last three bytes dots."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    if limit < 3:
        return raw[:limit].decode(errors="ignore")
    return raw[: limit - 3].decode(errors="ignore") + "..."


@fresh_process("performance_schema_max_sql_text_length={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 10, 11, 1024])
def test_I1_a_long_text_ends_in_three_dots(limit: int) -> None:
    """I1: limit 10: 7 characters and "..."; the cut respects characters; limit 0: nothing is left; the digest is of the whole
    text."""
    texts = [
        "select a",
        "select a b",
        "select a bc",
        "select '" + "é" * 600 + "'",
        "select'" + "é" * 600 + "'",
        "select '" + "漢" * 400 + "'",
        "select '" + "😀" * 300 + "'",
        "é",
        "x" * 1024,
        "x" * 1025,
    ]
    for text in texts:
        statement = Statement("i/query", text)
        assert one(CURRENT)["SQL_TEXT"] == cut(text, limit) if limit > 2 else len(one(CURRENT)["SQL_TEXT"]) <= limit
        statement.end()
    shown = ids(HISTORY, "SQL_TEXT", "DIGEST")
    assert [digest for _, digest in shown] == [pfs.digest(text)[0] for text in texts]
    for (text, _), whole in zip(shown, texts, strict=True):
        assert len(text.encode()) <= limit
        if limit > 2:
            assert text == cut(whole, limit)
    if limit == 10:
        assert shown[2][0] == "select ..."
    assert of_digest("select 'a'")["QUERY_SAMPLE_TEXT"] in {text for text, _ in shown}


@fresh_process(
    "performance_schema_max_sql_text_length={limit},performance_schema_max_digest_length={tokens},"
    "performance_schema_events_statements_history_long_size=300"
)
@pytest.mark.parametrize(("limit", "tokens"), [(1024, 1024), (100, 4096), (4096, 0), (200, 200)])
def test_I1_texts_of_any_length_in_any_order(limit: int, tokens: int) -> None:
    """I1: short texts lie behind their record, long ones elsewhere. Each row has its own text, also where a second one of another
    length took the place of the first, where statements overlap, and after records have been used again."""
    dice, expected = random.Random(limit + tokens), []

    def text_of(number: int) -> str:
        columns = ", ".join(f"c{i}" for i in range(dice.choice((1, 2, 20, 60, 90, 200, 500))))
        return f"select {columns} from t{number}"

    open_ones: list[tuple[Statement, str]] = []
    for number in range(900):
        text = text_of(number)
        statement = Statement("i/query", text)
        if dice.random() < 0.3:
            statement.set_text(text := text_of(number))
        open_ones.append((statement, text))
        assert max(ids(CURRENT, "EVENT_ID", "SQL_TEXT"))[1] == cut(text, limit)
        while open_ones and (dice.random() < 0.6 or len(open_ones) > 5):
            ended, of = open_ones.pop(dice.randrange(len(open_ones)))
            if dice.random() < 0.2:
                ended.set_text(of := text_of(number))
            ended.end()
            expected.append((cut(of, limit), pfs.digest(of)[0]))
    found = sorted(ids(HISTORY, "SQL_TEXT", "DIGEST"), key=str)
    assert [text for text, _ in found] == [text for text, _ in sorted(expected[-300:], key=str)]
    assert all((digest is not None) == (tokens != 0) for _, digest in found)
    if tokens == 1024:  # that of pfs.digest()
        assert found == sorted(expected[-300:], key=str)
    assert losses() == {}


@fresh_process()
def test_I1_a_statement_without_a_text_has_none() -> None:
    """I1: SQL_TEXT is NULL if no text was given, and empty if it was empty; a second text takes the place of the first."""
    statement = Statement("i/query")
    assert (one(CURRENT)["SQL_TEXT"], one(CURRENT)["DIGEST"], one(CURRENT)["CURRENT_SCHEMA"]) == (None, None, None)
    statement.set_text("")
    assert (one(CURRENT)["SQL_TEXT"], one(CURRENT)["DIGEST"]) == ("", None)
    statement.set_text("select a, b from t").set_text("select 1").set_schema("shop").set_schema("bank")
    row = one(CURRENT)
    assert (row["SQL_TEXT"], row["DIGEST_TEXT"], row["CURRENT_SCHEMA"]) == ("select 1", "SELECT ?", "bank")
    statement.end()
    statement.set_text("late").set_schema("late")
    Statement("i/query").end()
    found = ids(HISTORY, "SQL_TEXT", "DIGEST_TEXT", "CURRENT_SCHEMA")
    assert found == [("select 1", "SELECT ?", "bank"), (None, None, None)]


@fresh_process()
@pytest.mark.parametrize("size", [1 << 20, 3 << 20])
def test_I1_texts_of_a_megabyte_and_texts_that_are_no_text(size: int) -> None:
    """I1: very long ones, zero bytes, broken UTF-8: the row is there, its text within the limit, the next row is right."""
    texts = [
        b"select '" + b"x" * size + b"'",
        b"select " + b"a, " * (size // 3) + b"b",
        b"select \0 from t",
        b"\0",
        b"\0" * 2000,
        b"select '\xff\xfe' from \x80",
        b"\xe2\x82" * 700,
        bytes(range(256)) * 8,
    ]
    for raw in texts:
        Statement("i/query", raw).end()
        shown = rows(HISTORY)[-1]["SQL_TEXT"]
        assert shown is not None
        if len(raw) <= 1024:
            assert shown.encode(errors="surrogateescape") == raw
        else:
            assert shown.endswith("...")
            assert shown.encode(errors="surrogateescape")[:20] == raw[:20]
    Statement("i/query", "select 1").end()
    assert rows(HISTORY)[-1]["SQL_TEXT"] == "select 1"
    assert totals("statements", "statement/i/query")["global"] == len(texts) + 1
    assert sum(row["COUNT_STAR"] for row in every("events_statements_summary_by_digest")) in range(len(texts) - 2, len(texts) + 2)
    assert losses() == {}


# ---- I13: counters and diagnostics -------------------------------------------------------------------------------------------


@fresh_process()
def test_I13_every_counter_is_shown_in_rows_and_sums() -> None:
    """I13: set and add of each; sums of two statements in all summaries; LOCK_TIME is given in us and shown in ps."""
    plain = [name for name in COUNTERS if name not in ("LOCK_TIME", "ERRORS")]
    for more in (0, 100):
        statement = Statement("i/query", "select 1")
        for i, name in enumerate(plain):
            statement.set(name, 1000).set(name, i).add(name, more).add(name, 1)
        statement.lock_time(7)
        assert one(CURRENT)["LOCK_TIME"] == 7_000_000
        statement.end()
        statement.add("ROWS_SENT", 5000)  # it has ended
    for more, row in zip((0, 100), rows(HISTORY), strict=True):
        assert [row[name] for name in plain] == [i + more + 1 for i in range(len(plain))]
        assert row["LOCK_TIME"] == 7_000_000
    for row in (one(GLOBAL), of_digest("select 1"), one("events_statements_summary_by_thread_by_event_name")):
        assert [row["SUM_" + name] for name in plain] == [2 * i + 102 for i in range(len(plain))]
        assert row["SUM_LOCK_TIME"] == 14_000_000


@fresh_process()
def test_I13_errors_are_0_or_1_and_say_what_happened() -> None:
    """I13: ERRORS 0/1 per statement; MYSQL_ERRNO, RETURNED_SQLSTATE, MESSAGE_TEXT <= 128; "00000" on OK; NULL while it runs."""
    columns = ("MYSQL_ERRNO", "RETURNED_SQLSTATE", "MESSAGE_TEXT", "ERRORS")
    statement = Statement("i/query", "select 1")
    assert ids(CURRENT, *columns) == [(None, None, None, 0)]
    statement.end()
    Statement("i/query", "select 1").error(1146, "42S02", "no such table").end()
    Statement("i/query", "select 1").error(1, None, "m" * 200).end()
    Statement("i/query", "select 1").error(5, "HY0001234", "é" * 100).end()
    Statement("i/query", "select 1").error(1146, "42S02", "gone").error(0).end()
    Statement("i/query", "select 1").error(7, "", None).error(8).end()
    assert ids(HISTORY, *columns) == [
        (0, "00000", None, 0),
        (1146, "42S02", "no such table", 1),
        (1, "HY000", "m" * 128, 1),
        (5, "HY000", "é" * 64, 1),
        (0, "00000", None, 0),
        (8, "HY000", None, 1),
    ]
    assert one(GLOBAL)["SUM_ERRORS"] == of_digest("select 1")["SUM_ERRORS"] == 4


@fresh_process()
def test_I13_number_engine_and_names() -> None:
    """I13: STATEMENT_ID is NULL or as given, EXECUTION_ENGINE PRIMARY or SECONDARY and counted, CURRENT_SCHEMA at most 64 bytes,
    SOURCE the call."""
    Statement("i/query").set_id(77).secondary().set_schema("é" * 40).end()
    Statement("i/query").set_id(0).secondary().secondary(False).end()
    found = ids(HISTORY, "STATEMENT_ID", "EXECUTION_ENGINE", "CURRENT_SCHEMA", "SOURCE")
    assert found == [(77, "SECONDARY", "é" * 32, "facts.c:1"), (None, "PRIMARY", None, "facts.c:1")]
    assert one(GLOBAL)["COUNT_SECONDARY"] == 1


# ---- I14: stored programs ----------------------------------------------------------------------------------------------------


@fresh_process()
def test_I14_calls_of_a_program_and_the_statements_in_it() -> None:
    """I14: a routine with 3 inner statements called twice: 2 and 6, and what these counted; a row as soon as it is known."""
    pay = program("shop", "pay")
    assert program("shop", "pay") == pay
    (row,) = every(PROGRAMS)
    assert (row["OBJECT_TYPE"], row["OBJECT_SCHEMA"], row["OBJECT_NAME"]) == ("PROCEDURE", "shop", "pay")
    assert (row["COUNT_STAR"], row["COUNT_STATEMENTS"], row["MIN_STATEMENTS_WAIT"]) == (0, 0, 0)
    worker = Worker()

    def run() -> None:
        outer = Statement("i/call", "call pay()")
        call = Call(pay)
        for i in range(3):
            Statement("i/query", f"select {i}", program=pay).add("ROWS_SENT", i).end()
        call.end()
        call.end()  # a second end does nothing
        outer.end()

    run()
    worker.do(run)
    worker.end()
    (row,) = every(PROGRAMS)
    assert (row["COUNT_STAR"], row["COUNT_STATEMENTS"], row["SUM_ROWS_SENT"]) == (2, 6, 6)
    waits = [row["TIMER_WAIT"] for row in rows(HISTORY) if row["OBJECT_NAME"] == "pay"]
    assert len(waits) == 6
    shown = [row[f"{part}_STATEMENTS_WAIT"] for part in ("SUM", "MIN", "AVG", "MAX")]
    assert shown == [sum(waits), min(waits), sum(waits) // 6, max(waits)]
    assert row["SUM_TIMER_WAIT"] >= row["SUM_STATEMENTS_WAIT"]
    objects = ids(HISTORY, "OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "NESTING_EVENT_LEVEL", THREAD_ID=me())
    assert objects == [(None, None, None, 0), *[("PROCEDURE", "shop", "pay", 1)] * 3]


@fresh_process()
def test_I14_a_dropped_program_is_gone_and_comes_back_empty() -> None:
    """I14: what still runs of it counts for no other; a function of the same name is another program."""
    pay = program("shop", "pay")
    other = program("shop", "pay", FUNCTION)
    assert other not in (0, pay)
    call, inner = Call(pay), Statement("i/query", program=pay)
    drop_program("shop", "pay")
    drop_program("shop", "pay")
    assert ids_of_programs() == {("FUNCTION", "pay"): (0, 0)}
    anew = program("shop", "refund")  # in the same slot, maybe
    inner.end()
    call.end()
    assert ids_of_programs() == {("FUNCTION", "pay"): (0, 0), ("PROCEDURE", "refund"): (0, 0)}
    Call(anew).end()
    program("shop", "pay", PROCEDURE)
    expected = {("FUNCTION", "pay"): (0, 0), ("PROCEDURE", "refund"): (1, 0), ("PROCEDURE", "pay"): (0, 0)}
    assert ids_of_programs() == expected


def ids_of_programs() -> dict[tuple[str, str], tuple[int, int]]:
    return {(row["OBJECT_TYPE"], row["OBJECT_NAME"]): (row["COUNT_STAR"], row["COUNT_STATEMENTS"]) for row in every(PROGRAMS)}


@fresh_process()
def test_I14_setup_objects_says_which_programs_are_watched() -> None:
    """I14, G11: programs of the server's schemas are not shown and do not count; a change is followed at once."""
    hidden, pay = program("mysql", "secret"), program("shop", "pay")
    for one_program in (hidden, pay):
        Call(one_program).end()
        Statement("i/query", program=one_program).end()
    assert ids_of_programs() == {("PROCEDURE", "pay"): (1, 1)}
    pfs.setup_objects.insert(object_type="PROCEDURE", object_schema="shop", object_name="%", enabled=False, timed=False)
    assert ids_of_programs() == {}
    Call(pay).end()
    pfs.setup_objects.update({"OBJECT_SCHEMA": "shop"}, enabled=True, timed=False)
    assert ids_of_programs() == {("PROCEDURE", "pay"): (1, 1)}
    before = one(PROGRAMS)["SUM_TIMER_WAIT"]
    Call(pay).end()
    assert (one(PROGRAMS)["COUNT_STAR"], one(PROGRAMS)["SUM_TIMER_WAIT"]) == (2, before)


@fresh_process("performance_schema_max_program_instances={size}")
@pytest.mark.parametrize("size", [0, 1])
def test_I14_full_counts_program_lost(size: int) -> None:
    """I14: size 1: the second program is lost; NULL handles do nothing; a dropped one makes room."""
    first = program("shop", "pay")
    assert (first != 0) == (size > 0)
    assert program("shop", "refund") == 0
    assert status("program_lost") == 2 - size
    Call(0).end()
    Statement("i/query", program=0).end()
    assert len(every(PROGRAMS)) == size
    drop_program("shop", "pay")
    assert (program("shop", "refund") != 0) == (size > 0)
    assert losses().keys() == {"Performance_schema_program_lost"}


# ---- I15: prepared statements ------------------------------------------------------------------------------------------------


@fresh_process()
def test_I15_prepare_execute_destroy() -> None:
    """I15: TIMER_PREPARE once; COUNT_EXECUTE and SUM_ per execute; OWNER_EVENT_ID = preparing statement; gone after destroy."""
    Statement("i/query").end()
    preparing = Statement("i/prepare", "prepare p from 'select ?'")  # 2
    prepared = prepare("select ?", preparing, "p", 5, 0x7700)
    preparing.end()
    (row,) = every(PREPARED)
    prepare_time = row["TIMER_PREPARE"]
    assert 0 < prepare_time <= rows(HISTORY)[-1]["TIMER_WAIT"]
    named = ("OBJECT_INSTANCE_BEGIN", "STATEMENT_ID", "STATEMENT_NAME", "SQL_TEXT", "OWNER_THREAD_ID", "OWNER_EVENT_ID")
    assert [row[name] for name in named] == [0x7700, 5, "p", "select ?", me(), 2]
    assert (row["COUNT_EXECUTE"], row["SUM_TIMER_EXECUTE"], row["EXECUTION_ENGINE"]) == (0, 0, "PRIMARY")
    worker = Worker()

    def execute(n: int) -> None:
        Statement("i/execute", f"execute p using {n}").executes(prepared).add("ROWS_SENT", n).end()

    for n in (1, 2, 3):
        worker.do(execute, n)
    reprepare(prepared)
    worker.end()
    (row,) = every(PREPARED)
    waits = [row["TIMER_WAIT"] for row in rows(HISTORY, EVENT_NAME="statement/i/execute")]
    assert [row[f"{part}_TIMER_EXECUTE"] for part in ("SUM", "MIN", "AVG", "MAX")] == [
        sum(waits),
        min(waits),
        sum(waits) // 3,
        max(waits),
    ]
    assert (row["COUNT_EXECUTE"], row["SUM_ROWS_SENT"], row["COUNT_REPREPARE"], row["TIMER_PREPARE"]) == (3, 6, 1, prepare_time)
    late = Statement("i/execute").executes(prepared)
    destroy(prepared)
    destroy(prepared)
    assert every(PREPARED) == []
    other = prepare("select 1")
    late.end()
    (row,) = every(PREPARED)
    assert (row["SQL_TEXT"], row["STATEMENT_NAME"], row["COUNT_EXECUTE"], row["TIMER_PREPARE"]) == ("select 1", None, 0, 0)
    destroy(other)


@fresh_process()
def test_I15_the_text_is_kept_up_to_its_limit() -> None:
    """I15: at most 1024 bytes."""
    prepare("x" * 2000, identity=0x10)
    prepare("é" * 600, name="n" * 80, identity=0x20)
    assert one(PREPARED, OBJECT_INSTANCE_BEGIN=0x10)["SQL_TEXT"][:1000] == "x" * 1000
    assert all(len(row["SQL_TEXT"].encode()) <= 1024 for row in every(PREPARED))
    assert one(PREPARED, OBJECT_INSTANCE_BEGIN=0x20)["STATEMENT_NAME"] == "n" * 64


@fresh_process()
def test_I15_prepared_in_a_program() -> None:
    """I15: OWNER_OBJECT_ columns name the stored program of the statement that prepares it."""
    statement = Statement("i/prepare", program=program("shop", "pay"))
    prepare("select 1", statement)
    statement.end()
    row = one(PREPARED)
    owner = (row["OWNER_OBJECT_TYPE"], row["OWNER_OBJECT_SCHEMA"], row["OWNER_OBJECT_NAME"])
    assert owner == ("PROCEDURE", "shop", "pay")


@fresh_process("performance_schema_max_prepared_statements_instances={size}")
@pytest.mark.parametrize("size", [0, 1])
def test_I15_full_counts_prepared_statements_lost(size: int) -> None:
    """I15, C6: no row, a NULL handle that does nothing; what is destroyed makes room."""
    found = [prepare(f"select {i}", identity=i + 1) for i in range(3)]
    assert [handle != 0 for handle in found] == [i < size for i in range(3)]
    assert status("prepared_statements_lost") == 3 - size
    for handle in found:
        Statement("i/execute").executes(handle).end()
        destroy(handle)
    assert every(PREPARED) == []
    assert (prepare("select 9") != 0) == (size > 0)
    assert losses().keys() == {"Performance_schema_prepared_statements_lost"}


@fresh_process()
def test_I15_executions_that_are_not_timed_count() -> None:
    """I15, A4: of an instrument that is not timed."""
    key_of("statement", "i/execute")
    instrument("statement/i/execute", timed=False)
    prepared = prepare("select 1")
    Statement("i/execute").executes(prepared).end()
    assert (one(PREPARED)["COUNT_EXECUTE"], one(PREPARED)["SUM_TIMER_EXECUTE"]) == (1, 0)
