"""The summaries of stages, statements and transactions and their TRUNCATEs (semantics.md F).

Each test has its own process.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import pfs
from tests.python._programs.driver import Row, Worker, every, losses, me, one, rows
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.nested import Call, Statement, destroy, drop_program, prepare, program, reprepare
from tests.python._programs.sums import (
    DIGESTS,
    HISTOGRAM,
    HISTOGRAMS,
    INSTRUMENTS,
    KINDS,
    LEVELS,
    begin,
    digests,
    do,
    ids,
    in_histogram,
    in_histograms,
    members,
    numbers,
    summary,
    totals,
    views,
    working_for,
)

ALL = (*LEVELS, "global")


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_F1_sums_are_those_of_the_events(kind: str) -> None:
    """F1: COUNT, SUM, MIN, AVG, MAX are those of the rows of history, to the picosecond, in all five tables."""
    do(kind, 57)
    waits = ids(views(kind)[2], "TIMER_WAIT")
    assert len(waits) == 57
    expected = (57, sum(waits), min(waits), sum(waits) // 57, max(waits))
    for level in ALL:
        row = one(summary(kind, level), EVENT_NAME=INSTRUMENTS[kind])
        assert tuple(row[f"{part}_TIMER_WAIT"] for part in ("SUM", "MIN", "AVG", "MAX")) == expected[1:]
        assert row["COUNT_STAR"] == 57


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_F2_numbers_flow_from_thread_to_account_to_user_and_host(kind: str) -> None:
    """F2: sum by_thread = by_account = by_user = by_host = global, and each row is the sum of its threads."""
    workers = [working_for(*who) for who in (("anna", "desk"), ("anna", "sofa"), ("bob", "desk"), ("bob", "desk"))]
    for times, worker in zip((1, 2, 3, 10), workers, strict=True):
        worker.do(do, kind, times)
    do(kind, 100)
    assert set(totals(kind).values()) == {116}
    assert members(kind, "account") == {("anna", "desk"): 1, ("anna", "sofa"): 2, ("bob", "desk"): 13, (None, None): 100}
    assert members(kind, "user") == {"anna": 3, "bob": 13, None: 100}
    assert members(kind, "host") == {"desk": 14, "sofa": 2, None: 100}
    waits = [row["TIMER_WAIT"] for worker in workers[2:] for row in rows(views(kind)[2], THREAD_ID=worker.id)]
    row = one(summary(kind, "account"), USER="bob", HOST="desk", EVENT_NAME=INSTRUMENTS[kind])
    shown = (row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"])
    assert shown == (sum(waits), min(waits), max(waits))


@fresh_process()
def test_F2_what_statements_count_flows_as_well() -> None:
    """F2: sums of counters, and the greatest of what is a maximum, are the same at every level."""
    worker = working_for("anna", "desk")

    def run(n: int) -> None:
        statement = Statement("f/work", f"select {n}")
        statement.add("ROWS_SENT", n).add("ROWS_EXAMINED", 10 * n).lock_time(n).error(n % 2).secondary(n == 3)
        statement.set("WARNINGS", n).add("NO_INDEX_USED", 1).end()

    for n in range(1, 6):
        worker.do(run, n)
    expected = {
        "SUM_ROWS_SENT": 15,
        "SUM_ROWS_EXAMINED": 150,
        "SUM_LOCK_TIME": 15_000_000,
        "SUM_ERRORS": 3,
        "SUM_WARNINGS": 15,
        "SUM_NO_INDEX_USED": 5,
        "SUM_ROWS_AFFECTED": 0,
        "COUNT_SECONDARY": 1,
    }
    for moment in range(3):
        for level in ALL[moment > 0 :]:
            (row,) = numbers("statements", level)
            assert {name: row[name] for name in expected} == expected, (moment, level)
        (row,) = every(DIGESTS)
        assert {name: row[name] for name in expected} == expected
        if moment == 0:
            worker.end()
        else:
            pfs.truncate(summary("statements", "thread"))


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_F3_a_thread_that_ends_leaves_its_numbers_to_its_account(kind: str) -> None:
    """F3: its by_thread row vanishes; by_account, by_user, by_host and global stay, to the picosecond and the row sent."""
    worker = working_for("anna", "desk")
    worker.do(do, kind, 7)
    worker.do(pfs.set_account, "bob", "desk")
    worker.do(do, kind, 3)
    do(kind, 2)
    before = {level: every(summary(kind, level)) for level in ALL[1:]}
    assert members(kind, "thread") == {worker.id: 3, me(): 2}
    worker.end()
    assert {level: every(summary(kind, level)) for level in ALL[1:]} == before
    assert members(kind, "thread") == {me(): 2}
    assert members(kind, "user") == {"anna": 7, "bob": 3, None: 2}


# The model of F4-F7, F13: what a TRUNCATE empties.
EMPTIES = {
    "thread": {"thread"},
    "account": {"thread", "account"},
    "user": {"thread", "account", "user"},
    "host": {"thread", "account", "host"},
    "global": set(ALL),
}
PARTIES = {"accounts": "account", "users": "user", "hosts": "host"}


def table_of(kind: str, truncated: str) -> str:
    return truncated if truncated in PARTIES else summary(kind, truncated)


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("truncated", ALL)
def test_F4_F5_F6_F7_all_five_tables_after_each_truncate(kind: str, truncated: str) -> None:
    """F4: by_thread only; F5: by_account and by_thread; F6: by_user (by_host), by_account, by_thread; F7: all five. One live and
    one ended thread, with accounts; what is not emptied is as before, to the picosecond."""
    live, ended = working_for("anna", "desk"), working_for("bob", "sofa")
    live.do(do, kind, 3)
    ended.do(do, kind, 5)
    ended.end()
    do(kind, 2)
    before = {level: every(summary(kind, level)) for level in ALL}
    assert totals(kind) == {"thread": 5, "account": 10, "user": 10, "host": 10, "global": 10}
    others = {other: totals(other) for other in KINDS if other != kind}
    histogram = in_histogram()
    pfs.truncate(summary(kind, truncated))
    for level in ALL:
        if level not in EMPTIES[truncated]:
            assert every(summary(kind, level)) == before[level], level
            continue
        for row in every(summary(kind, level)):  # F12: the rows are there still
            assert all(value == 0 for name, value in row.items() if name.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX"))), row
        assert len(every(summary(kind, level))) == len(before[level])
    is_all = kind == "statements" and truncated == "global"
    assert in_histogram() == (0 if is_all else histogram)
    if kind == "statements":
        assert digests() == {(None, "SELECT ?"): 10}
    assert {other: totals(other) for other in others} == others
    live.do(do, kind)
    expected = {level: (0 if level in EMPTIES[truncated] else 5 if level == "thread" else 10) + 1 for level in ALL}
    assert totals(kind) == expected
    live.end()
    assert totals(kind) == {**expected, "thread": expected["thread"] - 1 - (0 if "thread" in EMPTIES[truncated] else 3)}


@fresh_process()
def test_F7_the_histogram_is_emptied_with_the_global_statements_and_alone() -> None:
    """F7: TRUNCATE of events_statements_summary_global_by_event_name empties the histogram of all, not those of digests; that
    of the histogram empties nothing else; those of other tables leave it."""
    do("statements", 10)
    for table in (*(summary("statements", level) for level in LEVELS), DIGESTS, "accounts", "events_statements_history_long"):
        pfs.truncate(table)
        assert in_histogram() == 10, table
    do("statements", 5)
    pfs.truncate(summary("statements", "global"))
    assert in_histogram() == 0
    assert list(in_histograms().values()) == [5]
    do("statements", 3)
    pfs.truncate(HISTOGRAM)
    assert in_histogram() == 0
    assert set(totals("statements").values()) == {3}
    do("statements")
    assert in_histogram() == 1
    assert digests() == {(None, "SELECT ?"): 9}


def check(kind: str, counted: list[dict[str, Any]], live: dict[int, tuple[str, str]]) -> None:
    """All tables against what was counted."""
    want: dict[str, dict[Any, int]] = {level: {} for level in LEVELS}
    total = 0
    for use in counted:
        user, host = use["account"]
        keys = {"thread": use["thread"], "account": (user, host), "user": user, "host": host}
        total += use["times"] if "global" not in use["gone"] else 0
        for level, key in keys.items():
            if level in use["gone"] or (level == "thread" and (key not in live or not use["present"])):
                continue
            want[level][key] = want[level].get(key, 0) + use["times"]
    assert {level: members(kind, level) for level in LEVELS} == want
    assert sum(members(kind, "global").values()) == total


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_F4_F7_F13_random_orders_of_all_truncates(kind: str, seed: int) -> None:
    """F2-F7, F13, the classic trap: live, ended and stale threads, account switches, all TRUNCATEs in any order; all five tables
    after every step."""
    random_ = random.Random(f"{kind}{seed}")
    counted: list[dict[str, Any]] = []
    live: dict[int, tuple[str, str]] = {}
    workers: list[Worker] = []
    for _ in range(120):
        step = random_.random()
        if step < 0.12 and len(workers) < 5:
            worker = Worker()
            who = random_.choice(("anna", "bob")), random_.choice(("desk", "sofa"))
            worker.do(pfs.set_account, *who)
            workers.append(worker)
            live[worker.id] = who
        elif step < 0.18 and workers:
            worker = workers.pop(random_.randrange(len(workers)))
            worker.end()
            del live[worker.id]
        elif step < 0.28 and workers:
            worker = random_.choice(workers)
            who = random_.choice(("anna", "bob")), random_.choice(("desk", "sofa"))
            worker.do(pfs.set_account, *who)
            live[worker.id] = who
            for use in counted:
                use["present"] &= use["thread"] != worker.id
        elif step < 0.45:
            truncated = random_.choice((*ALL, *PARTIES))
            pfs.truncate(table_of(kind, truncated))
            for use in counted:
                use["gone"] |= EMPTIES[PARTIES.get(truncated, truncated)]
        elif workers:
            worker, times = random_.choice(workers), random_.randrange(1, 4)
            worker.do(do, kind, times)
            counted.append({"thread": worker.id, "account": live[worker.id], "times": times, "gone": set(), "present": True})
        check(kind, counted, live)
    assert losses() == {}


@fresh_process("performance_schema_accounts_size={accounts},performance_schema_users_size={users}")
@pytest.mark.parametrize(("accounts", "users"), [(0, -1), (0, 0), (-1, 0)])
@pytest.mark.parametrize("kind", KINDS)
def test_F2_F19_without_accounts_numbers_reach_users_and_hosts(kind: str, accounts: int, users: int) -> None:
    """F2, F19: each level works without those below it."""
    worker = working_for("anna", "desk")
    worker.do(do, kind, 4)
    worker.end()
    expected = {"thread": 0, "account": 4 if accounts else 0, "user": 4 if users else 0, "host": 4, "global": 4}
    assert totals(kind) == expected
    pfs.truncate(summary(kind, "host"))
    assert totals(kind) == {**expected, "account": 0, "host": 0}


@fresh_process()
def test_F12_what_keeps_its_rows_and_what_loses_them() -> None:
    """F12: rows of by_event_name, by_program and prepared statements stay and become 0; digests lose all rows; the histogram by
    digest keeps its digests and zeroes its buckets."""

    def values(row: Row) -> list[Any]:
        return [value for name, value in row.items() if name.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX"))]

    called = program("shop", "pay")
    prepared = prepare("select ?", identity=0x77)
    reprepare(prepared)
    for i in range(3):
        call = Call(called)
        Statement("f/work", f"select {i}", "shop", called).add("ROWS_SENT", 1).executes(prepared).end()
        call.end()
    by_program, instances = "events_statements_summary_by_program", "prepared_statements_instances"
    (row,) = every(by_program)
    assert (row["COUNT_STAR"], row["COUNT_STATEMENTS"], row["SUM_ROWS_SENT"]) == (3, 3, 3)
    (row,) = every(instances)
    assert (row["COUNT_EXECUTE"], row["SUM_ROWS_SENT"], row["COUNT_REPREPARE"]) == (3, 3, 1)
    for table in (by_program, instances, *(summary("statements", level) for level in ALL)):
        keys = [[value for name, value in row.items() if value not in values(row)] for row in every(table)]
        pfs.truncate(table)
        assert len(every(table)) == len(keys), table
        for row in every(table):
            assert set(values(row)) == {0}, table
    (row,) = every(instances)
    assert (row["OBJECT_INSTANCE_BEGIN"], row["SQL_TEXT"]) == (0x77, "select ?")
    assert len(every(HISTOGRAMS)) == 450
    assert sum(row["COUNT_BUCKET"] for row in every(HISTOGRAMS)) == 3
    pfs.truncate(HISTOGRAMS)
    assert len(every(HISTOGRAMS)) == 450
    assert sum(row["COUNT_BUCKET"] for row in every(HISTOGRAMS)) == 0
    assert [row["COUNT_STAR"] for row in every(DIGESTS)] == [3]
    Statement("f/work", "select 9", "shop", called).executes(prepared).end()
    assert [row["COUNT_STATEMENTS"] for row in every(by_program)] == [1]
    assert [row["COUNT_EXECUTE"] for row in every(instances)] == [1]
    assert sum(row["COUNT_BUCKET"] for row in every(HISTOGRAMS)) == 1
    pfs.truncate(DIGESTS)
    assert every(DIGESTS) == every(HISTOGRAMS) == []
    destroy(prepared)
    drop_program("shop", "pay")
    assert every(instances) == every(by_program) == []


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_F13_truncate_of_parties_cascades_to_all_kinds(kind: str) -> None:
    """F13: 2 closed and 1 open connection; TRUNCATE accounts: one row with 1/1; by_account and by_thread become 0, users and
    hosts keep their numbers; then the same of users and of hosts; the total stays."""
    stays = working_for("anna", "desk")
    stays.do(do, kind, 2)
    for times in (3, 4):
        ends = working_for("bob", "sofa")
        ends.do(do, kind, times)
        ends.end()
    pfs.truncate("accounts")
    shown = [(row["USER"], row["HOST"], row["CURRENT_CONNECTIONS"], row["TOTAL_CONNECTIONS"]) for row in every("accounts")]
    assert shown == [("anna", "desk", 1, 1)]
    assert totals(kind) == {"thread": 0, "account": 0, "user": 9, "host": 9, "global": 9}
    assert members(kind, "user") == {"anna": 2, "bob": 7}
    stays.do(do, kind)
    pfs.truncate("users")
    assert totals(kind) == {"thread": 0, "account": 0, "user": 0, "host": 10, "global": 10}
    pfs.truncate("hosts")
    assert totals(kind) == {"thread": 0, "account": 0, "user": 0, "host": 0, "global": 10}
    stays.do(do, kind, 5)
    assert totals(kind) == {"thread": 5, "account": 5, "user": 5, "host": 5, "global": 15}


@fresh_process()
@pytest.mark.parametrize("kind", KINDS)
def test_F14_truncate_of_views_empties_them(kind: str) -> None:
    """F14: no row right after the TRUNCATE; a running event that was truncated ends silently, the next one is normal."""
    do(kind, 3)
    end = begin(kind)
    for view in views(kind):
        pfs.truncate(view)
        assert rows(view) == []
    end()
    assert rows(views(kind)[0]) == []
    do(kind)
    assert [ids(view)[-1] for view in views(kind)] == [5, 5, 5]
    assert totals(kind)["global"] == 5
