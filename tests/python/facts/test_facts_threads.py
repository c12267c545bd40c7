"""Threads, sessions of thread pools, actors (semantics.md G), accounts, users and hosts (F2-F6, F13, F18, F19).

Each test runs in a process of its own.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import pfs
from tests.python._programs import sockets, tables
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.sessions import (
    BY_ACCOUNT,
    BY_HOST,
    BY_THREAD,
    BY_USER,
    E_NOT_FOUND,
    E_STATE,
    LEVELS,
    USER_FLAG,
    Counted,
    account,
    api,
    attach,
    by,
    connections,
    detach,
    id_of,
    session,
    settings_of,
    spawn,
    thread,
    totals,
    working_for,
)

UNTRACED = {"TRACE_ENABLED": "NO"}


# ---- F: numbers move up ------------------------------------------------------------------------------------------------------


@fresh_process()
def test_F2_numbers_flow_from_thread_to_account_to_user_and_host() -> None:
    """F2: sum by_thread = by_account = by_user = by_host = global for one workload, and each row is the sum of its threads."""
    lock = Counted()
    workers = {who: working_for(*who) for who in (("anna", "desk"), ("anna", "sofa"), ("bob", "desk"))}
    for times, worker in enumerate(workers.values(), 1):
        lock.use(worker, times)
    second = working_for("bob", "desk")
    lock.use(second, 10)
    lock.mutex.use(100)
    assert set(totals(lock.name).values()) == {116}
    assert by(BY_ACCOUNT, lock.name) == {("anna", "desk"): 1, ("anna", "sofa"): 2, ("bob", "desk"): 13, (None, None): 100}
    assert by(BY_USER, lock.name) == {"anna": 3, "bob": 13, None: 100}
    assert by(BY_HOST, lock.name) == {"desk": 14, "sofa": 2, None: 100}
    durations = [e["TIMER_WAIT"] for e in events() if e["THREAD_ID"] == second.id or e["THREAD_ID"] == workers["bob", "desk"].id]
    row = one(BY_ACCOUNT, USER="bob", HOST="desk", EVENT_NAME=lock.name)
    assert (row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) == (
        sum(durations),
        min(durations),
        max(durations),
    )


@fresh_process()
def test_F3_a_thread_that_ends_leaves_its_numbers_to_its_account() -> None:
    """F3: its by_thread row vanishes, by_account, by_user, by_host and global stay as they were, to the picosecond."""
    lock = Counted()
    worker = working_for("anna", "desk")
    lock.use(worker, 7)
    lock.mutex.use(2)
    before = {table: rows(table, EVENT_NAME=lock.name) for table in (BY_ACCOUNT, BY_USER, BY_HOST, WAITS)}
    worker.end()
    assert {table: rows(table, EVENT_NAME=lock.name) for table in before} == before
    assert by(BY_THREAD, lock.name) == {me(): 2}
    assert rows("threads", THREAD_ID=worker.id) == []


@fresh_process()
def test_F3_an_account_switch_leaves_the_numbers_with_the_old_account() -> None:
    """F2, F3: what a thread has counted for one account stays there when it begins to work for another."""
    lock = Counted()
    worker = working_for("anna", "desk")
    for user in ("anna", "bob", "anna"):
        worker.do(account, user, "desk")
        lock.use(worker, 3)
    assert by(BY_USER, lock.name) == {"anna": 6, "bob": 3}
    assert by(BY_THREAD, lock.name) == {worker.id: 3}
    worker.end()
    assert by(BY_ACCOUNT, lock.name) == {("anna", "desk"): 6, ("bob", "desk"): 3}


@fresh_process()
def test_F4_truncate_by_thread_changes_no_other_table() -> None:
    """F4: live threads become 0, account, user, host and global keep their totals: at once, and whenever a number moves later."""
    lock = Counted()
    fresh, stale, ending = (working_for("anna", host) for host in ("desk", "sofa", "desk"))
    for worker in (fresh, stale, ending):
        lock.use(worker, 5)
    pfs.truncate(BY_THREAD)
    expected = {BY_THREAD: 0, BY_ACCOUNT: 15, BY_USER: 15, BY_HOST: 15, WAITS: 15}
    assert totals(lock.name) == expected
    lock.use(fresh)
    ending.end()
    stale.do(account, "bob", "sofa")
    assert totals(lock.name) == {table: n + 1 if n else 1 for table, n in expected.items()}
    assert by(BY_USER, lock.name) == {"anna": 16}


# The model of F4-F6: a number of events that a table of a level may show, or may not any more.
EMPTIES = {
    BY_THREAD: {BY_THREAD},
    BY_ACCOUNT: {BY_THREAD, BY_ACCOUNT},
    BY_USER: {BY_THREAD, BY_ACCOUNT, BY_USER},
    BY_HOST: {BY_THREAD, BY_ACCOUNT, BY_HOST},
    WAITS: {WAITS},
    "accounts": {BY_THREAD, BY_ACCOUNT},
    "users": {BY_THREAD, BY_ACCOUNT, BY_USER},
    "hosts": {BY_THREAD, BY_ACCOUNT, BY_HOST},
}


def check(name: str, counted: list[dict[str, Any]], live: dict[int, tuple[str, str]]) -> None:
    """All tables against what was counted. A thread shows what it has counted since its last account switch."""
    want: dict[str, dict[Any, int]] = {table: {} for table in LEVELS}
    total = 0
    for one_use in counted:
        user, host = one_use["account"]
        keys = {BY_THREAD: one_use["thread"], BY_ACCOUNT: (user, host), BY_USER: user, BY_HOST: host}
        total += one_use["times"] if WAITS not in one_use["gone"] else 0
        for table, key in keys.items():
            if table in one_use["gone"] or (table == BY_THREAD and (key not in live or not one_use["present"])):
                continue
            want[table][key] = want[table].get(key, 0) + one_use["times"]
    assert {table: by(table, name) for table in LEVELS} == want
    assert count(WAITS, EVENT_NAME=name) == total


@fresh_process()
@pytest.mark.parametrize("truncated", list(EMPTIES))
def test_F5_F6_each_truncate_empties_its_level_and_those_below(truncated: str) -> None:
    """F4-F6, F8, the classic trap: live, dead and stale threads and account switches in between; all five tables after each of
    the truncates, right away and after every further step."""
    lock = Counted()
    counted: list[dict[str, Any]] = []
    live: dict[int, tuple[str, str]] = {}
    workers: dict[str, Worker] = {}

    def begin(name: str, user: str, host: str) -> None:
        workers[name] = working_for(user, host)
        live[workers[name].id] = (user, host)

    def use(name: str, times: int) -> None:
        worker = workers[name]
        lock.use(worker, times)
        counted.append({"thread": worker.id, "account": live[worker.id], "times": times, "gone": set(), "present": True})
        check(lock.name, counted, live)

    def switch(name: str, user: str, host: str) -> None:
        worker = workers[name]
        worker.do(account, user, host)
        live[worker.id] = (user, host)
        for one_use in counted:  # the same account again is a new connection
            one_use["present"] &= one_use["thread"] != worker.id
        check(lock.name, counted, live)

    def end(name: str) -> None:
        worker = workers.pop(name)
        worker.end()
        del live[worker.id]
        check(lock.name, counted, live)

    def truncate(table: str) -> None:
        pfs.truncate(table)
        for one_use in counted:
            one_use["gone"] |= EMPTIES[table]
        check(lock.name, counted, live)

    for name, user, host in (
        ("busy", "anna", "desk"),
        ("stale", "anna", "sofa"),
        ("ends", "bob", "desk"),
        ("moves", "bob", "sofa"),
    ):
        begin(name, user, host)
    for name in ("busy", "stale", "ends", "moves"):
        use(name, 1 + len(name))
    begin("dead", "anna", "desk")
    use("dead", 50)
    end("dead")
    switch("moves", "anna", "desk")
    use("moves", 100)
    truncate(truncated)
    use("busy", 1000)
    use("moves", 2000)
    end("ends")
    switch("stale", "bob", "desk")
    begin("new", "anna", "sofa")
    use("new", 4000)
    for more in random.Random(truncated).sample(list(EMPTIES), k=4):
        truncate(more)
        use("new", 3)
        switch("busy", random.Random(more).choice(["anna", "bob"]), "desk")
        use("stale", 5)
        truncate(truncated)
        use("busy", 7)
    for name in list(workers):
        end(name)


@fresh_process()
def test_F13_truncate_accounts_forgets_who_is_gone_and_counts_anew() -> None:
    """F13: 2 closed and 1 open connection: one row with 1/1 is left; its users and hosts keep their rows and numbers."""
    lock = Counted()
    stays = working_for("anna", "desk")
    for _ in range(2):
        ends = working_for("bob", "sofa")
        lock.use(ends, 3)
        ends.end()
    early = working_for("anna", "desk")
    early.end()
    lock.use(stays, 2)
    assert connections("accounts") == {("anna", "desk"): (1, 2), ("bob", "sofa"): (0, 2), (None, None): (0, 4)}
    users = connections("users")
    pfs.truncate("accounts")
    assert connections("accounts") == {("anna", "desk"): (1, 1)}
    assert connections("users") == users == {"anna": (1, 2), "bob": (0, 2), None: (0, 4)}
    assert by(BY_ACCOUNT, lock.name) == by(BY_THREAD, lock.name) == {}
    assert by(BY_USER, lock.name) == {"anna": 2, "bob": 6}
    assert by(BY_HOST, lock.name) == {"desk": 2, "sofa": 6}
    pfs.truncate("users")
    assert connections("users") == {"anna": (1, 1)}
    assert connections("hosts") == {"desk": (1, 2), "sofa": (0, 2), None: (0, 4)}
    assert by(BY_USER, lock.name) == {}
    assert by(BY_HOST, lock.name) == {"desk": 2, "sofa": 6}
    pfs.truncate("hosts")
    assert connections("hosts") == {"desk": (1, 1)}
    assert by(BY_HOST, lock.name) == {}
    assert count(WAITS, EVENT_NAME=lock.name) == 8
    again = working_for("bob", "sofa")
    lock.use(again)
    assert connections("accounts") == {("anna", "desk"): (1, 1), ("bob", "sofa"): (1, 1), (None, None): (0, 1)}
    assert by(BY_ACCOUNT, lock.name) == {("bob", "sofa"): 1}


@fresh_process()
def test_F13_connection_counts_are_right_under_churn() -> None:
    """F13: CURRENT is the number of live threads, TOTAL grows by one each time that one begins to work for it."""
    random_one = random.Random(13)
    workers: list[tuple[Worker, str, str]] = []
    current: dict[Any, int] = {}
    total: dict[Any, int] = {}
    for _ in range(60):
        if workers and random_one.random() < 0.4:
            worker, user, host = workers.pop(random_one.randrange(len(workers)))
            current[user, host] -= 1
            if random_one.random() < 0.5:
                worker.end()
                continue
        else:
            worker = Worker()
        user, host = random_one.choice(["anna", "bob", "eve"]), random_one.choice(["desk", "sofa"])
        worker.do(account, user, host)
        current[user, host] = current.get((user, host), 0) + 1
        total[user, host] = total.get((user, host), 0) + 1
        workers.append((worker, user, host))
        found = connections("accounts")
        assert {key: value[0] for key, value in found.items() if key[0] is not None} == current
        assert {key: value[1] for key, value in found.items() if key[0] is not None} == total
        for table, side in (("users", 0), ("hosts", 1)):
            for key, value in connections(table).items():
                if key is not None:
                    assert value[0] == sum(n for who, n in current.items() if who[side] == key)
    assert losses() == {}


@fresh_process()
def test_F18_threads_that_work_for_nobody_are_the_row_with_nulls() -> None:
    """F18: background threads are collected in the rows with USER and HOST NULL."""
    lock = Counted()
    worker = Worker()
    lock.use(worker, 4)
    assert connections("accounts") == {(None, None): (1, 1)}
    assert by(BY_ACCOUNT, lock.name) == {(None, None): 4}
    assert by(BY_USER, lock.name) == by(BY_HOST, lock.name) == {None: 4}
    worker.end()
    assert connections("users") == connections("hosts") == {None: (0, 1)}
    assert by(BY_USER, lock.name) == {None: 4}


@fresh_process("{options}")
@pytest.mark.parametrize(
    ("options", "account_lost", "user_lost", "host_lost"),
    [
        ("performance_schema_accounts_size=0", True, False, False),
        ("performance_schema_accounts_size=0,performance_schema_users_size=0", True, True, False),
        ("performance_schema_accounts_size=0,performance_schema_users_size=0,performance_schema_hosts_size=0", True, True, True),
        ("performance_schema_users_size=0", False, True, False),
        ("performance_schema_hosts_size=0", False, False, True),
    ],
)
def test_F19_without_accounts_numbers_reach_users_and_hosts(
    options: str, account_lost: bool, user_lost: bool, host_lost: bool
) -> None:
    """F19: each level works without the ones below it; with all three 0 the numbers are dropped at the thread's end and stay
    globally. Truncates hold all the same."""
    lock = Counted()
    worker = working_for("anna", "desk")
    lock.use(worker, 3)
    assert totals(lock.name) == {BY_THREAD: 3, BY_ACCOUNT: 0 if account_lost else 3} | {
        BY_USER: 0 if user_lost else 3,
        BY_HOST: 0 if host_lost else 3,
        WAITS: 3,
    }
    worker.end()
    assert by(BY_USER, lock.name) == ({} if user_lost else {"anna": 3})
    assert by(BY_HOST, lock.name) == ({} if host_lost else {"desk": 3})
    assert totals(lock.name)[WAITS] == 3
    assert (len(rows("accounts")) == 0, len(rows("users")) == 0, len(rows("hosts")) == 0) == (account_lost, user_lost, host_lost)
    assert (status("accounts_lost") > 0, status("users_lost") > 0, status("hosts_lost") > 0) == (
        account_lost,
        user_lost,
        host_lost,
    )
    other = working_for("bob", "desk")
    lock.use(other, 5)
    pfs.truncate(BY_USER)
    assert by(BY_USER, lock.name) == {}
    lock.use(other)
    other.do(account, "eve", "desk")
    other.end()
    assert by(BY_USER, lock.name) == ({} if user_lost else {"bob": 1})
    assert by(BY_HOST, lock.name) == ({} if host_lost else {"desk": 9})


@fresh_process("performance_schema_accounts_size=3,performance_schema_users_size=3,performance_schema_hosts_size=2")
def test_F19_full_tables_lose_rows_and_use_freed_ones_again() -> None:
    """F13, F19: a party without room is lost, its threads still reach the levels that have room; TRUNCATE frees rows."""
    lock = Counted()
    first, second = working_for("anna", "desk"), working_for("bob", "desk")  # and nobody: full, but for hosts
    assert losses() == {}
    third = working_for("eve", "desk")
    assert losses() == {"Performance_schema_accounts_lost": 1, "Performance_schema_users_lost": 1}
    lock.use(third, 4)
    assert by(BY_HOST, lock.name) == {"desk": 4}
    assert by(BY_ACCOUNT, lock.name) == by(BY_USER, lock.name) == {}
    assert connections("hosts") == {None: (0, 3), "desk": (3, 3)}
    first.end()
    pfs.truncate("users")
    assert connections("accounts") == {("bob", "desk"): (1, 1)}
    assert connections("users") == {"bob": (1, 1)}
    third.do(account, "eve", "desk")
    lock.use(third, 2)
    assert by(BY_ACCOUNT, lock.name) == {("eve", "desk"): 2}
    assert by(BY_USER, lock.name) == {"eve": 2}
    assert by(BY_HOST, lock.name) == {"desk": 6}
    second.end()
    third.end()
    for table in ("accounts", "users", "hosts"):
        pfs.truncate(table)
        assert rows(table) == []
    assert losses() == {"Performance_schema_accounts_lost": 1, "Performance_schema_users_lost": 1}


# ---- A, B: threads -----------------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_max_thread_instances=4")
def test_A1_thread_ids_are_never_reused_and_event_ids_begin_at_1() -> None:
    """A1: slots are used again, THREAD_IDs are not; EVENT_ID counts from 1 in each thread and each session."""
    lock = Mutex("a/LOCK_one")
    seen = set()
    for _ in range(8):
        worker = Worker()
        assert worker.id not in seen
        seen.add(worker.id)
        worker.do(lock.use, 2)
        assert [e["EVENT_ID"] for e in events(HISTORY, THREAD_ID=worker.id)] == [1, 2]
        worker.end()
    for _ in range(4):
        handle = session()
        assert id_of(handle) not in seen
        seen.add(id_of(handle))
        assert attach(handle) == 0
        lock.use()
        assert [e["EVENT_ID"] for e in events(HISTORY, THREAD_ID=id_of(handle))] == [1]
        assert api().pfs_thread_delete(handle) == 0
    assert losses() == {}


@fresh_process()
@pytest.mark.parametrize("instrumented", [True, False])
@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("consumers", [True, False])
def test_B8_instrumented_and_history_of_actors_and_consumers(instrumented: bool, history: bool, consumers: bool) -> None:
    """B8: INSTRUMENTED = NO silences a thread completely, HISTORY = NO keeps it out of history and history_long only."""
    lock = Counted()
    pfs.setup_actors.truncate()
    pfs.setup_actors.insert(user="anna", enabled=instrumented, history=history)
    for name in ("events_waits_history", "events_waits_history_long"):
        consumer(name, consumers)
    worker = working_for("anna", "desk")
    assert settings_of(worker) == ("YES" if instrumented else "NO", "YES" if history else "NO")
    lock.use(worker, 3)
    counted = 3 if instrumented else 0
    assert set(totals(lock.name).values()) == {counted}
    assert len(rows("events_waits_current", THREAD_ID=worker.id)) == (1 if instrumented else 0)
    kept = counted if history and consumers else 0
    assert len(events(HISTORY, THREAD_ID=worker.id)) == len(events(HISTORY_LONG, THREAD_ID=worker.id)) == kept


@fresh_process()
def test_B4_without_thread_instrumentation_nobody_counts() -> None:
    """B4: thread_instrumentation off: global and by_instance grow, by_thread, account, user and host do not."""
    lock = Counted()
    worker = working_for("anna", "desk")
    consumer("thread_instrumentation", False)
    lock.use(worker, 3)
    assert totals(lock.name) == dict.fromkeys(LEVELS, 0) | {WAITS: 3}
    consumer("thread_instrumentation", True)
    lock.use(worker)
    assert totals(lock.name) == dict.fromkeys(LEVELS, 1) | {WAITS: 4}


# ---- G: actors ---------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_G1_without_actors_new_foreground_threads_are_not_instrumented() -> None:
    """G1: one row % % % YES YES at the start; after TRUNCATE new foreground threads are NO, NO."""
    assert rows("setup_actors") == [{"HOST": "%", "USER": "%", "ROLE": "%", "ENABLED": "YES", "HISTORY": "YES", **UNTRACED}]
    before = working_for("anna", "desk")
    pfs.truncate("setup_actors")
    assert rows("setup_actors") == []
    after, background = working_for("anna", "desk"), Worker()
    assert settings_of(before) == settings_of(background) == ("YES", "YES")
    assert settings_of(after) == ("NO", "NO")
    without_account = session("g/session")
    assert thread(id_of(without_account))["INSTRUMENTED"] == thread(id_of(without_account))["HISTORY"] == "NO"
    key = key_of("thread", "g/foreground", USER_FLAG)
    assert spawn(key, lambda: thread(me()))["INSTRUMENTED"] == "NO"


@fresh_process()
def test_G2_the_first_of_four_matches_decides_both_flags() -> None:
    """G2: (user, host), (user, %), (%, host), (%, %); first hit decides both flags; no hit: NO, NO."""
    table = pfs.setup_actors
    table.truncate()
    rules = {
        ("%", "%"): (True, False),
        ("%", "desk"): (False, True),
        ("anna", "%"): (False, False),
        ("anna", "desk"): (True, True),
    }
    for (user, host), (enabled, history) in random.Random(2).sample(list(rules.items()), k=4):
        table.insert(user=user, host=host, enabled=enabled, history=history)

    def flags(user: str, host: str) -> tuple[str, str]:
        worker = working_for(user, host)
        found = settings_of(worker)
        worker.end()
        return found

    def expected(user: str, host: str) -> tuple[str, str]:
        enabled, history = rules[user, host]
        return ("YES" if enabled else "NO", "YES" if history else "NO")

    assert flags("anna", "desk") == expected("anna", "desk")
    assert flags("anna", "sofa") == expected("anna", "%")
    assert flags("bob", "desk") == expected("%", "desk")
    assert flags("bob", "sofa") == expected("%", "%")
    assert flags("ANNA", "sofa") == expected("%", "%")  # users are told apart to the letter
    assert table.delete({"USER": "anna", "HOST": "desk"}) == 1
    assert flags("anna", "desk") == expected("anna", "%")
    assert table.delete({"USER": "anna"}) == 1
    assert flags("anna", "desk") == expected("%", "desk")
    assert table.delete({"HOST": r"\%"}) == 1
    assert flags("bob", "sofa") == ("NO", "NO")
    assert rows("setup_actors") == [{"HOST": "desk", "USER": "%", "ROLE": "%", "ENABLED": "NO", "HISTORY": "YES", **UNTRACED}]
    raises(pfs.InvalidValue, lambda: table.insert(user="bob", role="boss"), "ROLE", "%")


@fresh_process()
def test_G3_changes_act_on_threads_that_connect_later() -> None:
    """G3: running threads stay as they are; they change when they set their account."""
    first = working_for("anna", "desk")
    assert pfs.setup_actors.update(enabled=False) == 1
    second = working_for("anna", "desk")
    assert settings_of(first) == ("YES", "YES")
    assert settings_of(second) == ("NO", "YES")
    first.do(account, "anna", "desk")
    assert settings_of(first) == ("NO", "YES")
    pfs.setup_actors["%"].enabled = True
    pfs.setup_actors["%"].history = False
    second.do(account, "anna", "desk")
    assert settings_of(second) == ("YES", "NO")


@fresh_process()
def test_G4_background_threads_ask_no_actor() -> None:
    """G4: threads without user and host are YES, YES unless setup_threads says otherwise for their class."""
    pfs.setup_actors.truncate()
    worker = Worker()
    assert settings_of(worker) == ("YES", "YES")
    key = key_of("thread", "g/helper")
    found = spawn(key, lambda: thread(me()))
    assert (found["TYPE"], found["INSTRUMENTED"], found["HISTORY"]) == ("BACKGROUND", "YES", "YES")
    pfs.setup_threads["thread/g/helper"].history = False
    assert spawn(key, lambda: thread(me()))["HISTORY"] == "NO"
    worker.do(account, "anna", "desk")
    assert settings_of(worker) == ("NO", "NO")
    worker.do(account, "", "")
    assert settings_of(worker) == ("YES", "YES")


@fresh_process()
def test_G5_setup_threads_says_how_new_threads_of_a_class_begin() -> None:
    """G5: ENABLED and HISTORY are the initial flags; no TIMED; running threads stay; thread instruments are not in
    setup_instruments."""
    key, other = key_of("thread", "g/worker", 0, "Does the work."), key_of("thread", "g/other", 64 | 1 | 5 << 24)
    assert rows("setup_threads") == [
        {
            "NAME": "thread/g/worker",
            "ENABLED": "YES",
            "HISTORY": "YES",
            "PROPERTIES": "",
            "VOLATILITY": 0,
            "DOCUMENTATION": "Does the work.",
        },
        {
            "NAME": "thread/g/other",
            "ENABLED": "YES",
            "HISTORY": "YES",
            "PROPERTIES": "singleton,user",
            "VOLATILITY": 5,
            "DOCUMENTATION": None,
        },
    ]
    assert not [row for row in rows("setup_instruments") if row["NAME"].startswith("thread/")]
    running = session("g/worker", 0)
    assert pfs.setup_threads.update("thread/g/worker", enabled=False) == 1
    lock = Counted()

    def life() -> tuple[str, str]:
        lock.mutex.use()
        row = thread(me())
        return row["INSTRUMENTED"], row["HISTORY"]

    assert spawn(key, life) == ("NO", "YES")
    assert totals(lock.name)[WAITS] == 0
    assert spawn(other, life) == ("YES", "YES")
    assert totals(lock.name)[WAITS] == 1
    assert thread(id_of(running))["INSTRUMENTED"] == "YES"
    worker = Worker()
    worker.do(api().pfs_set_thread_name, b"g/worker")  # a thread that says itself what it is
    assert settings_of(worker) == ("NO", "YES")
    raises(pfs.OperationNotAllowed, lambda: pfs.setup_threads.insert(name="thread/g/new"), "UPDATE")
    raises(pfs.UnknownName, lambda: pfs.setup_instruments.update("thread/%", enabled=False), "thread/%")


@fresh_process()
def test_G5_preset_of_start_time_disables_a_class() -> None:
    """G5, C8: PFS_DISABLED and start-time presets say ENABLED, never HISTORY."""
    key_of("thread", "g/disabled", 8192)
    assert [(row["ENABLED"], row["HISTORY"]) for row in rows("setup_threads")] == [("NO", "YES")]


@fresh_process()
def test_G6_parent_is_the_spawner_and_the_child_is_instrumented_from_its_start() -> None:
    """G6: PARENT_THREAD_ID = spawner, NAME = instrument; the row is there before the thread does anything."""
    key = key_of("thread", "g/worker")
    worker = Worker()

    def grandchild() -> tuple[dict[str, Any], dict[str, Any]]:
        mine = int(api().pfs_thread_current())
        row = thread(id_of(mine))
        return row, spawn(key, lambda: thread(id_of(int(api().pfs_thread_current()))))

    child, inner = worker.do(spawn, key, grandchild)
    assert (child["NAME"], child["PARENT_THREAD_ID"]) == ("thread/g/worker", worker.id)
    assert (inner["NAME"], inner["PARENT_THREAD_ID"]) == ("thread/g/worker", child["THREAD_ID"])
    assert (child["TYPE"], child["PROCESSLIST_ID"]) == ("BACKGROUND", None)
    foreground = spawn(key_of("thread", "g/session", USER_FLAG), lambda: thread(me()))
    assert (foreground["TYPE"], foreground["PROCESSLIST_ID"]) == ("FOREGROUND", foreground["THREAD_ID"])
    plain = spawn(0, lambda: thread(me()))  # key 0: the plain call
    assert plain["PARENT_THREAD_ID"] is None
    assert rows("threads", NAME="thread/g/worker") == []


@fresh_process()
def test_G6_python_threads_know_their_parent() -> None:
    """G6, G8: pfs.Thread has a parent and its account; threading.Thread carries its name and has neither."""
    lock = pfs.Lock("g/LOCK_python")
    pfs.set_account("anna", "desk")
    found: dict[str, dict[str, Any]] = {}

    def work() -> None:
        with lock:
            found[threading.current_thread().name] = thread(me())

    class Mine(pfs.Thread):
        def run(self) -> None:
            work()
            super().run()

    made = [
        pfs.Thread(target=work, name="first"),
        Mine(name="second", instrument="g/python"),
        threading.Thread(target=work, name="third"),
    ]
    for one_thread in made:
        one_thread.start()
        one_thread.join()
    assert {name: row["NAME"] for name, row in found.items()} == {
        "first": "thread/python/first",
        "second": "thread/g/python",
        "third": "thread/python/third",
    }
    assert [found[name]["PARENT_THREAD_ID"] for name in ("first", "second", "third")] == [me(), me(), None]
    assert [found[name]["PROCESSLIST_USER"] for name in ("first", "second", "third")] == ["anna", "anna", None]
    assert [row["NAME"] for row in rows("setup_threads")] == ["thread/g/python"]
    raises(RuntimeError, made[0].start)
    raises(pfs.InvalidValue, lambda: pfs.Thread(instrument="none"), "component")


# ---- G7: sessions of thread pools ----------------------------------------------------------------------------------------------


@fresh_process()
def test_G7_events_go_to_what_is_attached_at_the_moment() -> None:
    """G7: one thread, two instrumentations and its own, swapped between events; detached: no count at all."""
    lock = Counted()
    own = me()
    first, second = session(), session()
    assert [thread(id_of(h))["THREAD_OS_ID"] for h in (first, second)] == [None, None]
    os_id = thread(own)["THREAD_OS_ID"]
    lock.mutex.use()
    for handle, times in ((first, 2), (second, 4), (first, 8)):
        assert attach(handle) == 0
        assert int(api().pfs_thread_current()) == handle
        assert thread(id_of(handle))["THREAD_OS_ID"] == os_id
        assert thread(own)["THREAD_OS_ID"] is None
        lock.mutex.use(times)
    assert by(BY_THREAD, lock.name) == {own: 1, id_of(first): 10, id_of(second): 4}
    assert [e["EVENT_ID"] for e in events(HISTORY, THREAD_ID=id_of(first))] == list(range(1, 11))
    before = totals(lock.name)
    shown = len(events(HISTORY_LONG))
    assert detach() == 0
    assert int(api().pfs_thread_current()) == 0
    assert me() == 0
    lock.mutex.use(16)
    fd = C.open(key_of("file", "g/data"), "f", 0o102, 0o600)
    assert (C.write(fd, 10), C.close(fd)) == (10, 0)
    assert totals(lock.name) == before
    assert count(WAITS, EVENT_NAME="wait/io/file/g/data") == 0
    assert len(events(HISTORY_LONG)) == shown
    assert attach(int(api().pfs_thread_own())) == 0
    lock.mutex.use(32)
    assert by(BY_THREAD, lock.name)[own] == 33
    assert losses() == {}


@fresh_process()
def test_G7_an_instrumentation_is_attached_to_one_thread_at_a_time() -> None:
    """G7: a second attach is refused, so is delete from elsewhere and another thread's own; then hand-over works."""
    lock = Counted()
    worker, other = Worker(), Worker()
    handle = session(processlist_id=4711, identity=0x1234)
    assert (thread(id_of(handle))["PROCESSLIST_ID"], int(api().pfs_thread_identity(handle))) == (4711, 0x1234)
    assert worker.do(attach, handle) == 0
    assert worker.do(attach, handle) == 0  # it has it already
    assert other.do(attach, handle) == E_STATE
    assert b"attached to another thread" in other.do(lambda: api().pfs_last_error())
    assert other.do(api().pfs_thread_delete, handle) == E_STATE
    lock.use(other, 1)
    lock.use(worker, 2)
    assert worker.do(detach) == 0
    assert other.do(attach, handle) == 0
    lock.use(other, 4)
    lock.use(worker, 8)  # detached
    assert by(BY_THREAD, lock.name) == {id_of(handle): 6, other.id: 1}
    assert attach(worker.do(lambda: int(api().pfs_thread_own()))) == E_STATE
    assert api().pfs_thread_delete(worker.do(lambda: int(api().pfs_thread_own()))) == E_STATE
    assert other.do(api().pfs_thread_delete, handle) == 0
    lock.use(other, 16)  # detached by the delete
    assert rows("threads", THREAD_ID=id_of(handle)) == []
    for call in (attach, api().pfs_thread_delete):
        assert other.do(call, handle) == E_NOT_FOUND
    assert api().pfs_thread_identity(handle) is None
    again = session()  # takes the slot
    assert other.do(attach, handle) == E_NOT_FOUND
    assert other.do(attach, again) == 0
    assert other.do(attach, 0) == other.do(api().pfs_thread_delete, 0) == 0
    assert totals(lock.name)[BY_ACCOUNT] == 7
    assert attach(12345678901234567890) == E_NOT_FOUND


@fresh_process()
def test_G7_a_session_outlives_the_threads_that_work_for_it() -> None:
    """G7: a thread that ends with a session attached detaches it, and keeps nothing itself; the next one goes on with it."""
    lock = Counted()
    handle = session()
    worker = Worker()
    own = worker.id
    assert worker.do(attach, handle) == 0
    worker.do(account, "anna", "desk")
    lock.use(worker, 3)
    worker.end()
    assert rows("threads", THREAD_ID=own) == []
    row = thread(id_of(handle))
    assert (row["THREAD_OS_ID"], row["PROCESSLIST_USER"]) == (None, "anna")
    assert len(events(HISTORY, THREAD_ID=id_of(handle))) == 3
    worker = Worker()
    assert worker.do(attach, handle) == 0
    lock.use(worker, 4)
    assert by(BY_THREAD, lock.name) == {id_of(handle): 7}
    assert connections("accounts")["anna", "desk"] == (1, 1)
    assert worker.do(api().pfs_thread_delete, handle) == 0
    assert connections("accounts")["anna", "desk"] == (0, 1)
    assert by(BY_ACCOUNT, lock.name) == {("anna", "desk"): 7}
    assert len(events(HISTORY_LONG, THREAD_ID=id_of(handle))) == 7
    assert events(HISTORY, THREAD_ID=id_of(handle)) == []
    worker.end()
    assert losses() == {}


@fresh_process()
def test_G7_an_open_wait_goes_with_its_instrumentation() -> None:
    """G7: begun by one thread, ended by the next one that has the session; by one that has not: nothing but a loss."""
    lock, name = OwnLock("g/LOCK_own"), MUTEX + "g/LOCK_own"
    first, second = Worker(), Worker()
    handle = session()
    first.do(attach, handle)
    wait, other_wait = first.do(lock.begin), first.do(OwnLock("g/LOCK_second", 0x20).begin)
    first.do(detach)
    assert [row["EVENT_ID"] for row in events("events_waits_current", THREAD_ID=id_of(handle))] == [1, 2]
    first.do(lock.end, wait, 1)
    assert losses() == {"Performance_schema_locker_lost": 1}
    assert second.do(attach, handle) == 0
    second.do(lock.end, other_wait)
    assert one(HISTORY, THREAD_ID=id_of(handle))["EVENT_ID"] == 2
    assert count(BY_THREAD, THREAD_ID=id_of(handle), EVENT_NAME=name) == 0
    assert count(BY_THREAD, THREAD_ID=id_of(handle)) == 1
    for _ in range(6):
        second.do(lock.use)
    assert count(BY_THREAD, THREAD_ID=id_of(handle), EVENT_NAME=name) == 6


def begin_of_every_family() -> dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]:
    """Begin and end, where they are two calls."""
    table, metadata = tables.Table("g.t"), tables.MetadataLock("g.t")
    first, second = sockets.pair("g/socket")
    mutex = OwnLock("g/LOCK_own")
    rwlock, cond = C.ownrw_new(key_of("rwlock", "g/own"), 0x30), C.owncond_new(key_of("cond", "g/own"), 0x40)
    return {
        "mutex": (mutex.begin, mutex.end),
        "rwlock": (lambda: C.ownrw_begin(rwlock, 2), lambda wait: C.ownrw_end(wait, 0, NO_SPINS)),
        "cond": (lambda: C.owncond_begin(cond, 1), lambda wait: C.owncond_end(wait, 0)),
        "socket": (lambda: sockets.Wait(first.fd, sockets.SEND, 7), lambda wait: wait.end(7)),
        "close": (lambda: sockets.Wait(second.fd, sockets.CLOSE), lambda wait: wait.end()),
        "table io": (lambda: table.begin(tables.FETCH), table.end),
        "table lock": (lambda: table.lock_begin(0), table.lock_end),
        "metadata": (metadata.begin, metadata.end),
        "idle": (tables.idle_begin, tables.idle_end),
    }


@fresh_process()
@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("timed", [True, False])
def test_G7_no_wait_is_ended_by_a_thread_that_has_not_its_session(current: bool, timed: bool) -> None:
    """G7, of each family, however it is recorded: a loss, no count, and the event is open until its session is gone."""
    first, second = Worker(), Worker()
    pairs = begin_of_every_family()
    consumer(CURRENT, current)
    pfs.setup_instruments.update(timed=timed)
    before = count(WAITS)
    for number, (begin, end) in enumerate(pairs.values(), 1):
        handle = session()
        assert first.do(attach, handle) == 0
        wait = first.do(begin)
        for other in (detach, lambda: attach(session())):
            first.do(other)
            assert len(rows(CURRENT, THREAD_ID=id_of(handle), END_EVENT_ID=None)) == current
        first.do(end, wait) if number % 2 else second.do(end, wait)
        assert losses() == {"Performance_schema_locker_lost": number}
        assert len(rows(CURRENT, THREAD_ID=id_of(handle), END_EVENT_ID=None)) == current
        assert count(BY_THREAD, THREAD_ID=id_of(handle)) == 0
    assert count(WAITS) == before
    # A socket that was closed is gone all the same; nobody holds what was not taken.
    assert len(rows("socket_instances")) == 1
    assert one("table_handles")["INTERNAL_LOCK"] is None


@fresh_process("performance_schema_max_thread_instances=3")
def test_G7_sessions_without_room_are_lost_and_their_events_go_nowhere() -> None:
    """G7: pfs_thread_new gives 0 and counts thread_instances_lost; 0 may be attached: nothing is recorded; freed slots are used
    again."""
    lock = Counted()
    lock.mutex.use()
    key = key_of("thread", "g/session", USER_FLAG)
    handles = [int(api().pfs_thread_new(key, None, 0)) for _ in range(4)]
    assert [handle != 0 for handle in handles] == [True, True, False, False]
    assert losses() == {"Performance_schema_thread_instances_lost": 2}
    assert attach(handles[3]) == 0
    lock.mutex.use(5)
    assert attach(handles[0]) == 0
    lock.mutex.use(2)
    assert totals(lock.name)[WAITS] == 3
    for handle in handles:
        assert api().pfs_thread_delete(handle) == 0
    assert int(api().pfs_thread_new(key, None, 0)) != 0
    assert int(api().pfs_thread_new(0, None, 0)) == 0
    assert losses() == {"Performance_schema_thread_instances_lost": 2}


@fresh_process()
def test_G7_a_thread_may_give_up_its_own_instrumentation() -> None:
    """G7: deleted, its row and its numbers go where those of an ended thread go; the thread runs on in silence."""
    lock = Counted()
    worker = working_for("anna", "desk")
    lock.use(worker, 3)
    own = worker.do(lambda: int(api().pfs_thread_own()))
    assert worker.do(api().pfs_thread_delete, own) == 0
    lock.use(worker, 5)
    assert by(BY_ACCOUNT, lock.name) == {("anna", "desk"): 3}
    assert rows("threads", THREAD_ID=worker.id) == []
    assert worker.do(me) == 0
    handle = session()
    assert worker.do(attach, handle) == 0
    lock.use(worker, 7)
    worker.end()
    assert by(BY_THREAD, lock.name) == {id_of(handle): 7}


@fresh_process()
def test_G8_a_spawned_thread_works_for_its_parents_account() -> None:
    """G8: the child's account is the spawner's; accounts and by_account share the row; setup_actors is asked."""
    lock = Counted()
    key = key_of("thread", "g/worker")
    worker = working_for("anna", "desk")

    def child() -> tuple[dict[str, Any], dict[Any, tuple[int, int]]]:
        lock.mutex.use(4)
        return thread(me()), connections("accounts")

    row, accounts = worker.do(spawn, key, child)
    assert (row["PROCESSLIST_USER"], row["PROCESSLIST_HOST"], row["TYPE"]) == ("anna", "desk", "BACKGROUND")
    assert accounts["anna", "desk"] == (2, 2)
    lock.use(worker, 1)
    assert by(BY_ACCOUNT, lock.name) == {("anna", "desk"): 5}
    pfs.setup_actors.insert(user="anna", enabled=False)
    row, _ = worker.do(spawn, key, child)
    assert row["INSTRUMENTED"] == "NO"
    assert by(BY_ACCOUNT, lock.name) == {("anna", "desk"): 5}


@fresh_process()
def test_G9_state_and_info_are_cut_to_their_width() -> None:
    """G9, L13: PROCESSLIST_STATE has at most 64 bytes, PROCESSLIST_INFO 1024, the others theirs; no character is cut in two."""
    handle = session()
    attach(handle)
    api().pfs_set_account(b"u" * 33, b"h" * 256)
    api().pfs_thread_set_state(b"s" * 65)
    api().pfs_thread_set_info(b"i" * 2000, 2000)
    api().pfs_thread_set_db(b"d" * 65)
    api().pfs_thread_set_command(b"c" * 17)
    api().pfs_thread_set_connection_type(b"t" * 17)
    api().pfs_thread_set_resource_group(b"g" * 65)
    row = thread(id_of(handle))
    columns = ("USER", "HOST", "STATE", "INFO", "DB", "COMMAND")
    assert [len(row["PROCESSLIST_" + c]) for c in columns] == [32, 255, 64, 1024, 64, 16]
    assert (row["CONNECTION_TYPE"], row["RESOURCE_GROUP"]) == ("t" * 16, "g" * 64)
    api().pfs_thread_set_state(b"s" * 63 + "ß".encode())
    api().pfs_thread_set_info("select 'ß'".encode(), 9)
    row = thread(id_of(handle))
    assert (row["PROCESSLIST_STATE"], row["PROCESSLIST_INFO"].encode("utf-8", "surrogateescape")[:8]) == ("s" * 63, b"select '")
    api().pfs_thread_set_info(b"select 1 and more", 8)
    api().pfs_thread_set_state(b"busy")
    assert (thread(id_of(handle))["PROCESSLIST_INFO"], thread(id_of(handle))["PROCESSLIST_STATE"]) == ("select 1", "busy")
    api().pfs_thread_set_info(None, 0)
    api().pfs_thread_set_state(None)
    api().pfs_thread_set_db(b"")
    row = thread(id_of(handle))
    assert row["PROCESSLIST_INFO"] is row["PROCESSLIST_STATE"] is row["PROCESSLIST_DB"] is None
    assert connections("accounts")["u" * 32, "h" * 255] == (1, 1)


@fresh_process()
def test_G10_time_counts_from_the_start_time() -> None:
    """G10: PROCESSLIST_TIME counts seconds since pfs_thread_set_start_time, NULL if it was never set."""
    handle = session()
    attach(handle)
    assert thread(id_of(handle))["PROCESSLIST_TIME"] is None
    api().pfs_thread_set_start_time(int(time.time()) - 5)
    assert 5 <= thread(id_of(handle))["PROCESSLIST_TIME"] <= 65
    api().pfs_thread_set_start_time(int(time.time()) + 1000)
    assert thread(id_of(handle))["PROCESSLIST_TIME"] == 0
    api().pfs_thread_set_start_time(0)
    assert thread(id_of(handle))["PROCESSLIST_TIME"] is None


@fresh_process()
def test_G13_a_second_actor_of_the_same_key_is_refused() -> None:
    """G13: duplicate row: an error, nothing changes; wrong enum and too wide text: an error; a full table too."""
    table = pfs.setup_actors
    table.insert(host="desk", user="anna", history=False)
    before = rows("setup_actors")
    raises(pfs.AlreadyExists, lambda: table.insert(host="desk", user="anna"), "anna", "desk")
    raises(pfs.InvalidValue, lambda: table.insert(user="bob", enabled="MAYBE"), "YES", "NO")
    raises(pfs.InvalidValue, lambda: table.insert(user="b" * 33), "32")
    raises(pfs.UnknownColumn, lambda: table.insert(usr="bob"), "USER")
    raises(pfs.InvalidValue, lambda: table.update(enabled="MAYBE"), "YES", "NO")
    assert rows("setup_actors") == before
    table.insert(host="desk", user="Anna")  # another user
    with table:
        table.truncate()
        table.insert(user="eve")
    assert sorted(map(str, rows("setup_actors"))) == sorted(
        map(str, [*before, {"HOST": "desk", "USER": "Anna", "ROLE": "%", "ENABLED": "YES", "HISTORY": "YES", **UNTRACED}])
    )


@fresh_process("performance_schema_setup_actors_size=1")
def test_G13_a_full_table_of_actors_says_so() -> None:
    """G13, C6: no room: LimitReached with the name of the variable; a freed row is used again."""
    raises(pfs.LimitReached, lambda: pfs.setup_actors.insert(user="anna"), "setup_actors_size")
    assert pfs.setup_actors.delete() == 1
    pfs.setup_actors.insert(user="anna")
    assert len(rows("setup_actors")) == 1


@fresh_process("performance_schema_setup_actors_size=0")
def test_G1_no_room_for_actors_is_no_actor() -> None:
    """G1, G2: with size 0 the table is empty and no foreground thread is instrumented; the program runs."""
    assert rows("setup_actors") == []
    worker = working_for("anna", "desk")
    assert settings_of(worker) == ("NO", "NO")
    worker.do(Mutex("g/LOCK_one").use, 3)
    assert count(WAITS) == 0
    assert losses() == {}


@fresh_process()
def test_processlist_shows_foreground_threads() -> None:
    """processlist: a row per live foreground thread, host with port, all columns as set; background threads have none."""
    assert rows("processlist") == []
    lock = Mutex("p/LOCK_one").use()
    handle = session("p/session", processlist_id=77)
    attach(handle)
    account("anna", "desk")
    pfs.server.set_processlist(db="shop", command="Query", state="executing", info="select 1")
    pfs.server.set_processlist(start_time=time.time() - 2.5, peer_port=4000)
    lock.use()
    row = one("processlist")
    assert 2 <= row.pop("TIME") <= 62
    assert row == {
        "ID": 77,
        "USER": "anna",
        "HOST": "desk:4000",
        "DB": "shop",
        "COMMAND": "Query",
        "STATE": "executing",
        "INFO": "select 1",
        "EXECUTION_ENGINE": "PRIMARY",
    }
    assert thread(id_of(handle))["NAME"] == "thread/p/session"  # Python gives no name to a session of C code
    pfs.server.set_processlist(id=78, peer_port=None, info=None, start_time=None)
    api().pfs_thread_set_secondary_engine(1)
    row = one("processlist")
    assert (row["ID"], row["HOST"], row["INFO"], row["TIME"], row["EXECUTION_ENGINE"]) == (78, "desk", None, None, "SECONDARY")
    raises(pfs.InvalidValue, lambda: pfs.server.set_processlist(peer_port=70000), "peer_port")
    detach()
    pfs.server.set_processlist(info="nobody")
    assert one("processlist")["INFO"] is None
    assert thread(id_of(int(api().pfs_thread_own())))["EXECUTION_ENGINE"] is None
