"""Errors (semantics.md L1, L2, B4, C2) and status variables (F17), and TRUNCATE of both (F4-F7, F13). Each test runs in a process
of its own."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import pfs
from tests.python._programs.counted import GLOBAL, add, handled, last_error, number_of, raised, register, status, status_key
from tests.python._programs.driver import Row, Worker, consumer, every, instrument, losses, me, one, raises, rows
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.sessions import account, working_for

THREAD, ACCOUNT, USER, HOST, ALL = "thread", "account", "user", "host", "global"
LEVELS = (THREAD, ACCOUNT, USER, HOST, ALL)
ERRORS, STATUS = "errors", "status"
# What TRUNCATE of a level empties.
EMPTIED = {
    THREAD: {THREAD},
    ACCOUNT: {THREAD, ACCOUNT},
    USER: {THREAD, ACCOUNT, USER},
    HOST: {THREAD, ACCOUNT, HOST},
    ALL: set(LEVELS),
}
NUMBER, NAME = 7001, "Facts_count"


def table_of(what: str, level: str) -> str:
    if what == STATUS:
        return "global_status" if level == ALL else f"status_by_{level}"
    return f"events_errors_summary_{'' if level == ALL else 'by_'}{level}_by_error"


def number(what: str, row: Row) -> int:
    return int(row["VARIABLE_VALUE"]) if what == STATUS else int(row["SUM_ERROR_RAISED"])


def of_level(what: str, level: str, **where: Any) -> int:
    """What all rows of a level show of NUMBER or NAME."""
    item = {"VARIABLE_NAME": NAME} if what == STATUS else {"ERROR_NUMBER": NUMBER}
    return sum(number(what, row) for row in rows(table_of(what, level), **item, **where))


def totals(what: str) -> dict[str, int]:
    return {level: of_level(what, level) for level in LEVELS}


def start(what: str) -> None:
    if what == STATUS:
        status_key(NAME)
    else:
        assert register(NUMBER, "ER_FACT") == 0


def do(what: str, n: int) -> None:
    if what == STATUS:
        status(NAME, n)
    else:
        raised(NUMBER, n)


# ---- TRUNCATE ------------------------------------------------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize("truncated", LEVELS)
@pytest.mark.parametrize("what", [ERRORS, STATUS])
def test_F4_F5_F6_F7_F17_each_truncate_empties_its_level_and_those_below(what: str, truncated: str) -> None:
    """F4-F7, F17: all five tables after TRUNCATE of each, at once and when threads count, change their account or end later."""
    start(what)
    live, late, ending, ended = (working_for(user, host) for user, host in ("ad", "ae", "bd", "be"))
    for worker in (live, late, ending, ended):
        worker.do(do, what, 3)
    do(what, 1)
    ended.end()
    assert totals(what) == {THREAD: 10, ACCOUNT: 13, USER: 13, HOST: 13, ALL: 13}
    before = losses()
    pfs.truncate(table_of(what, truncated))
    left = {level: 0 if level in EMPTIED[truncated] else n for level, n in {THREAD: 10, **dict.fromkeys(LEVELS[1:], 13)}.items()}
    assert totals(what) == left
    # Numbers move up when a thread counts again, works for somebody else, or ends: none comes back, none is lost.
    live.do(do, what, 2)
    late.do(account, "c", "f")
    if THREAD not in EMPTIED[truncated]:
        left[THREAD] -= 3
    ending.end()
    if THREAD not in EMPTIED[truncated]:
        left[THREAD] -= 3
    assert totals(what) == {level: n + 2 for level, n in left.items()}
    assert of_level(what, THREAD, THREAD_ID=live.id) == 2 + (0 if THREAD in EMPTIED[truncated] else 3)
    assert losses() == before


@fresh_process()
@pytest.mark.parametrize("forgotten", ["accounts", "users", "hosts"])
@pytest.mark.parametrize("what", [ERRORS, STATUS])
def test_F13_truncate_of_parties_takes_the_numbers_along(what: str, forgotten: str) -> None:
    """F13: rows without a connection go; what they counted stays where F5 and F6 say."""
    start(what)
    gone, stays = working_for("anna", "desk"), working_for("bob", "sofa")
    for worker in (gone, stays):
        worker.do(do, what, 4)
    gone.end()
    pfs.truncate(forgotten)
    emptied = EMPTIED[forgotten[:-1]]
    expected = {THREAD: 4, **dict.fromkeys(LEVELS[1:], 8)}
    assert totals(what) == {level: 0 if level in emptied else n for level, n in expected.items()}
    left = {row["USER"] if forgotten != "hosts" else row["HOST"] for row in rows(table_of(what, forgotten[:-1]))}
    assert left == {"bob" if forgotten != "hosts" else "sofa"}


@fresh_process()
def test_F12_rows_of_errors_stay_and_F7_their_times_become_null() -> None:
    """F7, F12: TRUNCATE leaves the rows of all errors, with 0 and NULL."""
    register(NUMBER, "ER_FACT")
    raised(NUMBER)
    raised(123456)
    for level in LEVELS:
        pfs.truncate(table_of(ERRORS, level))
        for row in rows(table_of(ERRORS, level)):
            assert (row["SUM_ERROR_RAISED"], row["SUM_ERROR_HANDLED"], row["FIRST_SEEN"], row["LAST_SEEN"]) == (0, 0, None, None)
        assert {row["ERROR_NUMBER"] for row in rows(table_of(ERRORS, level))} == {None, NUMBER}


# ---- Errors --------------------------------------------------------------------------------------------------------------------


def of_error(error: int | None, table: str = "events_errors_summary_global_by_error", **where: Any) -> tuple[int, int]:
    row = one(table, ERROR_NUMBER=error, **where)
    return row["SUM_ERROR_RAISED"], row["SUM_ERROR_HANDLED"]


@fresh_process()
def test_L1_rows_are_there_from_the_start_and_unknown_errors_have_one() -> None:
    """L1: 0 counts and NULL times from the start; raised and handled apart; unknown numbers go to the row with NULL."""
    assert me() != 0
    assert [row["ERROR_NUMBER"] for row in rows(table_of(ERRORS, ALL))] == [None]
    assert register(1062, "ER_DUP_ENTRY", "23000") == 0
    assert register(-5, "E" * 70) == 0
    for level in LEVELS:
        found = rows(table_of(ERRORS, level))
        assert [(row["ERROR_NUMBER"], row["ERROR_NAME"], row["SQL_STATE"]) for row in found] == [
            (None, None, None),
            (1062, "ER_DUP_ENTRY", "23000"),
            (-5, "E" * 64, "HY000"),
        ]
        for row in found:
            assert (row["SUM_ERROR_RAISED"], row["SUM_ERROR_HANDLED"], row["FIRST_SEEN"], row["LAST_SEEN"]) == (0, 0, None, None)
    before = int(time.time()) - 1  # the clock of the last tick may be a little behind
    raised(1062, 3)
    handled(1062, 2)
    raised(1063)
    handled(0)
    handled(2**31 - 1)
    after = int(time.time())
    for level in LEVELS:
        where = {"THREAD_ID": me()} if level == THREAD else {}
        assert of_error(1062, table_of(ERRORS, level), **where) == (3, 2)
        assert of_error(None, table_of(ERRORS, level), **where) == (1, 2)
        assert of_error(-5, table_of(ERRORS, level), **where) == (0, 0)
        row = one(table_of(ERRORS, level), ERROR_NUMBER=1062, **where)
        assert before <= row["FIRST_SEEN"] // 1_000_000 <= row["LAST_SEEN"] // 1_000_000 <= after
        assert row["FIRST_SEEN"] % 1_000_000 == 0


@fresh_process()
def test_L1_first_and_last_seen_of_several_threads_are_the_first_and_the_last() -> None:
    """L1: FIRST_SEEN is the earliest of all threads, also of ended ones; LAST_SEEN the latest."""
    register(NUMBER, "ER_FACT")
    early = working_for("anna", "desk")
    early.do(raised, NUMBER)
    early.end()
    first = one(table_of(ERRORS, ALL), ERROR_NUMBER=NUMBER)["FIRST_SEEN"]
    time.sleep(1.1)
    late = working_for("anna", "desk")
    late.do(raised, NUMBER)
    own = one(table_of(ERRORS, THREAD), ERROR_NUMBER=NUMBER, THREAD_ID=late.id)
    assert own["FIRST_SEEN"] == own["LAST_SEEN"] > first
    for level in LEVELS[1:]:
        where: dict[str, Any] = {ACCOUNT: {"USER": "anna"}, USER: {"USER": "anna"}, HOST: {"HOST": "desk"}, ALL: {}}[level]
        row = one(table_of(ERRORS, level), ERROR_NUMBER=NUMBER, **where)
        assert (row["FIRST_SEEN"], row["LAST_SEEN"]) == (first, own["LAST_SEEN"])


@fresh_process()
def test_L2_errors_of_the_process_have_no_rows_of_threads() -> None:
    """L2: codes tracked only globally have no per-thread rows."""
    register(8001, "ER_GLOBAL", flags=GLOBAL)
    register(8002, "ER_PLAIN")
    worker = working_for("anna", "desk")
    for error in (8001, 8002):
        raised(error)
        worker.do(raised, error)
    for level in LEVELS[:-1]:
        assert 8001 not in {row["ERROR_NUMBER"] for row in rows(table_of(ERRORS, level))}
        assert sum(row["SUM_ERROR_RAISED"] for row in rows(table_of(ERRORS, level), ERROR_NUMBER=8002)) == 2
    assert of_error(8001) == of_error(8002) == (2, 0)
    worker.end()
    assert of_error(8001) == of_error(8002) == (2, 0)
    pfs.truncate(table_of(ERRORS, HOST))
    assert of_error(8001) == of_error(8002) == (2, 0)
    pfs.truncate(table_of(ERRORS, ALL))
    assert of_error(8001) == of_error(8002) == (0, 0)


@fresh_process()
@pytest.mark.parametrize("off", ["thread", "consumer", "instrument"])
def test_L2_errors_respect_setup(off: str) -> None:
    """L2: INSTRUMENTED = NO, global_instrumentation and the instrument turn them off, and on again."""
    register(8001, "ER_GLOBAL", flags=GLOBAL)
    register(8002, "ER_PLAIN")

    def switch(on: bool) -> None:
        if off == "thread":
            pfs.threads.update(me(), instrumented=on)
        elif off == "consumer":
            consumer("global_instrumentation", on)
        else:
            instrument("error", enabled=on)

    def count() -> None:
        for error in (8001, 8002, 8003):
            raised(error)

    count()
    switch(False)
    count()
    assert of_error(8001) == of_error(8002) == of_error(None) == (1, 0)
    switch(True)
    count()
    assert of_error(8001) == of_error(8002) == of_error(None) == (2, 0)


@fresh_process()
def test_B4_without_thread_instrumentation_errors_count_for_the_total_only() -> None:
    """B4: global error statistics grow; by_thread, account, user and host do not. Status variables are not asked."""
    for what in (ERRORS, STATUS):
        start(what)
        do(what, 5)
    consumer("thread_instrumentation", False)
    for what in (ERRORS, STATUS):
        do(what, 3)
    assert totals(ERRORS) == {**dict.fromkeys(LEVELS, 5), ALL: 8}
    assert totals(STATUS) == dict.fromkeys(LEVELS, 8)
    pfs.truncate(table_of(ERRORS, HOST))
    assert of_level(ERRORS, ALL) == 8
    pfs.truncate(table_of(ERRORS, ALL))
    assert totals(ERRORS) == dict.fromkeys(LEVELS, 0)


@fresh_process("performance_schema_instrument='%=OFF',performance_schema_instrument='error=COUNTED'")
def test_C2_timed_of_error_is_null_whatever_is_said() -> None:
    """C2: TIMED is NULL; an update of it, or a preset, is ignored without an error; ENABLED can be set. C1: one instrument."""
    register(NUMBER, "ER_FACT")
    (row,) = [row for row in every("setup_instruments") if row["NAME"] == "error" or "ER_FACT" in row["NAME"]]
    assert (row["NAME"], row["ENABLED"], row["TIMED"]) == ("error", "YES", None)
    for timed in (True, False):
        instrument("error", timed=timed)
        assert every("setup_instruments")[-1] == row
    pfs.setup_instruments.update("%", enabled=False, timed=True)
    assert every("setup_instruments")[-1] == {**row, "ENABLED": "NO"}
    others = [row for row in every("setup_instruments") if row["NAME"] != "error" and not row["NAME"].startswith("memory/")]
    assert {row["TIMED"] for row in others} == {"YES"}


@fresh_process()
def test_errors_are_registered_once_and_bad_ones_refused() -> None:
    """L1: the same again is no news; another name for a number, or a bad one, is refused and changes nothing."""
    assert register(1, "ONE", "01000") == 0
    assert register(1, "ONE", "02000") == 0
    assert register(1, "TWO") == 4
    assert "ONE" in last_error()
    for name, sqlstate in ((None, None), ("", None), ("A\n", None), ("A", ""), ("A", "1234"), ("A", "123456"), ("A", "abcde")):
        assert register(2, name, sqlstate) == 1, (name, sqlstate)
    found = [(row["ERROR_NUMBER"], row["ERROR_NAME"], row["SQL_STATE"]) for row in rows(table_of(ERRORS, ALL))]
    assert found == [(None, None, None), (1, "ONE", "01000")]
    assert number_of("my.Error") == number_of("my.Error") >= 2**30
    assert len({number_of(f"my.Error{i}") for i in range(500)}) == 500
    names = [row["ERROR_NAME"] for row in rows(table_of(ERRORS, ALL))]
    assert names[2:4] == ["my.Error", "my.Error0"]


@fresh_process("performance_schema_error_size={size}")
@pytest.mark.parametrize("size", [0, 1, 3])
def test_L1_errors_without_room_count_among_the_others(size: int) -> None:
    """L1: out-of-range codes go to the row with NULL, which is one of error_size rows; with 0 the tables are empty. No error."""
    for i in range(4):
        assert register(100 + i, f"ER_{i}") == 0
        raised(100 + i)
    own = max(size - 1, 0)
    expected = [(None, 4 - own)] + [(100 + i, 1) for i in range(own)]
    for level in LEVELS:
        found = [(row["ERROR_NUMBER"], row["SUM_ERROR_RAISED"]) for row in rows(table_of(ERRORS, level))]
        assert found == (expected if size else [])
    assert losses() == {}
    assert every("setup_instruments")[-1]["ENABLED"] == "YES"


@fresh_process()
@pytest.mark.parametrize("what", [ERRORS, STATUS])
def test_a_forked_child_counts_from_zero_and_knows_what_was_registered(what: str) -> None:
    """L1, F17: the child has the rows and no numbers; the parent's stay as they are."""
    start(what)
    do(what, 5)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert totals(what) == dict.fromkeys(LEVELS, 0)
            do(what, 2)
            assert totals(what) == dict.fromkeys(LEVELS, 2)
            register(9009, "ER_OF_CHILD")
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert totals(what) == dict.fromkeys(LEVELS, 5)
    assert 9009 not in {row["ERROR_NUMBER"] for row in rows(table_of(ERRORS, ALL))}


# ---- Status variables ----------------------------------------------------------------------------------------------------------


@fresh_process()
def test_F17_status_variables_are_kept_by_thread_and_summed() -> None:
    """F17: status_by_thread, session_status (the calling thread), status_by_account, user, host, global_status; gauges."""
    key = status_key("Facts_gauge", "Things that are open.")
    assert status_key("facts_GAUGE") == key
    other = status_key("Facts_other")
    worker = working_for("anna", "desk")
    worker.do(add, key, 10)
    add(key, -4)
    assert one("status_by_thread", THREAD_ID=me(), VARIABLE_NAME="Facts_gauge")["VARIABLE_VALUE"] == "-4"
    assert one("status_by_thread", THREAD_ID=worker.id, VARIABLE_NAME="Facts_gauge")["VARIABLE_VALUE"] == "10"
    assert len(rows("status_by_thread")) == 2 * len(rows("threads"))
    for table, where in (
        ("status_by_account", {"USER": "anna", "HOST": "desk"}),
        ("status_by_user", {"USER": "anna"}),
        ("status_by_host", {"HOST": "desk"}),
    ):
        assert one(table, VARIABLE_NAME="Facts_gauge", **where)["VARIABLE_VALUE"] == "10"
        assert one(table, VARIABLE_NAME="Facts_gauge", **dict.fromkeys(where))["VARIABLE_VALUE"] == "-4"
    worker.end()
    assert (pfs.status["Facts_gauge"], pfs.status["Facts_other"]) == (6, 0)
    session = {row["VARIABLE_NAME"]: row["VARIABLE_VALUE"] for row in rows("session_status")}
    assert (session["Facts_gauge"], session["Facts_other"]) == ("-4", "0")
    assert {name for name in session if not name.startswith("Facts_")} == set(pfs.status) - {"Facts_gauge", "Facts_other"}
    other_session = Worker()
    shown = other_session.do(lambda: {row["VARIABLE_NAME"]: row["VARIABLE_VALUE"] for row in rows("session_status")})
    assert (shown["Facts_gauge"], shown["Facts_other"]) == ("0", "0")
    add(other, 2**62)
    add(other, 2**62)
    add(other, -(2**63))
    assert pfs.status["Facts_other"] == -(2**63) + 2**63
    raises(pfs.OperationNotAllowed, lambda: pfs.truncate("session_status"), "SELECT")


@fresh_process("performance_schema_max_status_variables=2,performance_schema_max_mutex_classes=1")
def test_F17_L9_truncate_of_global_status_leaves_what_was_lost() -> None:
    """F17, L9: TRUNCATE global_status sets the program's own to zero in every thread; *_lost never decrease."""
    first, second = status_key("Facts_a"), status_key("Facts_b")
    assert (status_key("Facts_c"), status_key("Facts_a")) == (0, first)
    add(0)
    add(99999)
    for key in (first, second):
        add(key, 7)
    pfs.Lock("facts/one"), pfs.Lock("facts/two")
    lost = losses()
    assert lost["Performance_schema_status_variables_lost"] == 1
    assert lost["Performance_schema_mutex_classes_lost"] >= 1
    pfs.truncate("global_status")
    assert losses() == lost
    assert (pfs.status["Facts_a"], pfs.status["Facts_b"]) == (0, 0)
    for level in LEVELS[:-1]:
        assert {row["VARIABLE_VALUE"] for row in rows(f"status_by_{level}")} == {"0"}
    add(first)
    assert pfs.status["Facts_a"] == 1


@fresh_process()
@pytest.mark.parametrize("off", ["thread", "consumer", "instruments"])
def test_F17_nothing_turns_status_variables_off(off: str) -> None:
    """F17: they are the program's numbers, not events: INSTRUMENTED, consumers, instruments do not matter; no row in setup."""
    key = status_key(NAME)
    if off == "thread":
        pfs.threads.update(me(), instrumented=False)
    elif off == "consumer":
        pfs.setup_consumers.update(enabled=False)
    else:
        pfs.setup_instruments.update("%", enabled=False)
    add(key, 3)
    assert totals(STATUS) == dict.fromkeys(LEVELS, 3)
    assert not [row for row in rows("setup_instruments") if NAME in row["NAME"]]


@fresh_process()
def test_bad_names_of_status_variables_are_refused() -> None:
    """F17: 1 to 64 bytes, no control characters, no '%', not pfs's own."""
    for name in ("", "x" * 65, "a\n", "a%", "Performance_schema_mine", "PERFORMANCE_SCHEMA_mine", "a\0b"):
        raises(pfs.InvalidValue, lambda name=name: pfs.register_status(name), "status variable")  # type: ignore[misc]
    variable = pfs.register_status("x" * 64)
    variable.add(2)
    assert (variable.name, pfs.status["x" * 64]) == ("x" * 64, 2)


@fresh_process("performance_schema=OFF")
def test_L10_off_means_no_count_and_no_error() -> None:
    """L10: everything is legal and nothing is counted; global_status and session_status have pfs's own."""
    start(ERRORS)
    start(STATUS)
    do(ERRORS, 2)
    do(STATUS, 2)
    assert number_of("my.Error") == number_of("my.Error") >= 2**30
    assert totals(ERRORS) == totals(STATUS) == dict.fromkeys(LEVELS, 0)
    assert rows("session_status") == rows("global_status")
