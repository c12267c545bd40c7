"""Tables of the program, metadata locks, data locks, idle, setup_objects: semantics.md C, D6, D7, F8, F11, F12, G11-G13, L4-L7,
L13, and limits. Each test runs in a process of its own."""

from __future__ import annotations

import gc
import os
import time
from functools import partial
from typing import Any

import pytest

import pfs
from pfs import _core
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.tables import (
    BY_INDEX,
    BY_TABLE,
    DELETE,
    EXTERNAL,
    FETCH,
    GRANTED,
    IDLE,
    INSERT,
    INTERNAL,
    IO,
    LOCK,
    LOCKS,
    MDL,
    OBJECTS,
    TEMPORARY,
    UPDATE,
    Engine,
    MetadataLock,
    Table,
    call,
    idle,
    idle_begin,
    idle_end,
    rule,
)

SINGLE = {IO, LOCK, IDLE, MDL}
WAITS_BY = [f"events_waits_summary_by_{level}_by_event_name" for level in ("account", "user", "host", "thread")]


def numbers(table: str, **where: Any) -> dict[str, int]:
    """COUNT_* of the one row, of which all events are sampled."""
    found = {name: value for name, value in one(table, **where).items() if name.startswith("COUNT_")}
    assert found.pop("COUNT_NOT_SAMPLED") == 0
    return found


def counts_in(table: str) -> dict[Any, int]:
    """COUNT_STAR by name of the table, or of the index."""
    return {row.get("INDEX_NAME", row["OBJECT_NAME"]): row["COUNT_STAR"] for row in rows(table)}


# ---- C: the single instruments -----------------------------------------------------------------------------------------------


@fresh_process()
def test_C1_single_instruments_are_there_from_the_start_on_and_timed() -> None:
    """C1, C13: one row each before anything is opened; idle is a user's; nobody may register a second one."""
    shown = [
        (row["NAME"], row["ENABLED"], row["TIMED"], row["PROPERTIES"])
        for row in every("setup_instruments")
        if row["NAME"] in SINGLE
    ]
    assert sorted(shown) == sorted((name, "YES", "YES", "user" if name == IDLE else "") for name in SINGLE)
    assert {row["EVENT_NAME"]: row["COUNT_STAR"] for row in every(WAITS)} == dict.fromkeys(SINGLE, 0)


@fresh_process("performance_schema_instrument='wait/io/table/%=counted',performance_schema_instrument='idle=OFF'")
def test_C8_presets_are_for_single_instruments_too() -> None:
    """C8: COUNTED and OFF."""
    settings = {row["NAME"]: (row["ENABLED"], row["TIMED"]) for row in every("setup_instruments")}
    assert (settings[IO], settings[IDLE], settings[LOCK]) == (("YES", "NO"), ("NO", "NO"), ("YES", "YES"))
    Table("s.t").io(FETCH)
    idle()
    assert one(WAITS, EVENT_NAME=IO)["SUM_TIMER_WAIT"] == 0
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS, EVENT_NAME=IDLE)) == (1, 0)


@fresh_process()
def test_C7_disabled_instruments_count_nothing_and_act_at_once_on_open_tables() -> None:
    """C7: a table that is open follows the instruments; rows stay."""
    t = Table("s.t").io(FETCH).lock(0)
    for name in SINGLE:
        instrument(name, enabled=False)
    t.io(FETCH, rows=9).lock(8)
    idle()
    assert MetadataLock().at is None
    assert (counts_in(BY_TABLE), counts_in(LOCKS)) == ({"t": 1}, {"t": 1})
    assert one("table_handles")["INTERNAL_LOCK"] == "READ"
    for name in SINGLE:
        instrument(name, enabled=True)
    t.io(FETCH, rows=9).lock(8)
    assert (counts_in(BY_TABLE), counts_in(LOCKS)) == ({"t": 10}, {"t": 2})
    assert losses() == {}


@fresh_process()
def test_C11_untimed_events_count_and_keep_the_timed_part() -> None:
    """C11, A4: TIMED = NO: COUNT grows, SUM, MIN and MAX stay, AVG is over all rows; TIMER_* of the event are NULL."""
    t = Table("s.t").io(FETCH, rows=3)
    was = one(BY_TABLE)
    instrument(IO, timed=False)
    t.io(FETCH, rows=3)
    now = one(BY_TABLE)
    assert (now["COUNT_STAR"], now["SUM_TIMER_WAIT"], now["MIN_TIMER_WAIT"]) == (6, was["SUM_TIMER_WAIT"], was["MIN_TIMER_WAIT"])
    assert now["AVG_TIMER_WAIT"] == was["SUM_TIMER_WAIT"] // 6
    assert [row["TIMER_WAIT"] is None for row in events(HISTORY, EVENT_NAME=IO)] == [False, True]


@fresh_process("performance_schema_cycle_timer={cycles}")
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("cycles", ["ON", "OFF"])
def test_idle_takes_its_time_whatever_the_time_base_is(cycles: str, recorded: bool) -> None:
    """C11: with a record and without one; nanoseconds come from the cycle counter or from CLOCK_MONOTONIC."""
    for consumer in ("events_waits_history", "events_waits_history_long"):
        pfs.setup_consumers[consumer].enabled = False
    pfs.setup_consumers["events_waits_current"].enabled = recorded
    begun = time.monotonic_ns()
    for _ in range(5):
        wait = idle_begin()
        time.sleep(0.004)
        idle_end(wait)
    most = (time.monotonic_ns() - begun) * 1000
    shown = one(WAITS, EVENT_NAME=IDLE)
    assert (shown["COUNT_STAR"], 20 * 10**9 <= shown["SUM_TIMER_WAIT"] <= most) == (5, True)


@fresh_process()
def test_idle_has_the_timer_of_its_own_row_of_setup_timers() -> None:
    """instruments.json: idle is timed by NANOSECOND, waits by CYCLE."""
    idle()
    (event,) = events(HISTORY, EVENT_NAME=IDLE)
    assert event["TIMER_START"] % 1000 == event["TIMER_WAIT"] % 1000 == 0
    pfs.setup.setup_timers["wait"].timer_name = "MILLISECOND"
    pfs.setup.setup_timers["idle"].timer_name = "TICK"
    Table("s.t").io(FETCH)
    idle()
    assert events(HISTORY, EVENT_NAME=IO)[0]["TIMER_START"] % 10**9 == 0
    assert events(HISTORY, EVENT_NAME=IDLE)[1]["TIMER_START"] % 10**10 == 0


@fresh_process()
def test_B3_switches_of_consumers_act_on_open_tables() -> None:
    """B3, B4: global off: nothing. thread_instrumentation off: tables count, threads do not."""
    t = Table("s.t")
    consumer("global_instrumentation", False)
    t.io(FETCH)
    consumer("global_instrumentation", True)
    assert counts_in(BY_TABLE) == {"t": 0}
    consumer("thread_instrumentation", False)
    t.io(FETCH)
    assert counts_in(BY_TABLE) == {"t": 1}
    assert [count(table, EVENT_NAME=IO) for table in (WAITS_BY_THREAD, *WAITS_BY)] == [0] * 5
    assert (count(WAITS, EVENT_NAME=IO), events(HISTORY)) == (1, [])


# ---- Events ------------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_events_of_tables_show_the_table_the_index_and_the_rows() -> None:
    """operations.json: OBJECT_TYPE, schema, name, INDEX_NAME, OPERATION; NUMBER_OF_BYTES is the number of rows at the end."""
    t = Table("shop.orders", "PRIMARY,by_name", identity=0x77)
    wait = t.begin(FETCH, 1)
    (open_one,) = events(CURRENT)
    assert (open_one["NUMBER_OF_BYTES"], open_one["END_EVENT_ID"]) == (None, None)
    t.end(wait, 12)
    t.io(INSERT, 1).io(UPDATE, 0, 0).io(DELETE)
    t.lock(5).lock(9, 1)
    shown = [
        (e["EVENT_NAME"], e["OPERATION"], e["OBJECT_SCHEMA"], e["OBJECT_NAME"], e["INDEX_NAME"], e["NUMBER_OF_BYTES"])
        for e in events(HISTORY)
    ]
    assert shown == [
        (IO, "fetch", "shop", "orders", "by_name", 12),
        (IO, "insert", "shop", "orders", None, 1),
        (IO, "update", "shop", "orders", "PRIMARY", 0),
        (IO, "delete", "shop", "orders", None, 1),
        (LOCK, "write allow write", "shop", "orders", None, None),
        (LOCK, "write external", "shop", "orders", None, None),
    ]
    for event in events(HISTORY):
        assert (event["OBJECT_TYPE"], event["OBJECT_INSTANCE_BEGIN"]) == ("TABLE", 0x77)
        assert event["SOURCE"].startswith("table_driver.c:")
        assert (event["SPINS"], event["FLAGS"]) == (None, None)


@fresh_process()
def test_all_kinds_of_locks_have_their_names_and_columns() -> None:
    """operations.json: ten operations; READ and WRITE are the sums of their kinds."""
    names = [
        "read normal",
        "read with shared locks",
        "read high priority",
        "read no inserts",
        "read external",
        "write allow write",
    ]
    names += ["write concurrent insert", "write low priority", "write normal", "write external"]
    t = Table("s.t")
    for kind in range(10):
        for _ in range(kind + 1):
            t.lock(kind)
    t.lock(10)  # no such kind: nothing
    counted = list(numbers(LOCKS))
    assert numbers(LOCKS) == dict(zip(counted, [55, 15, 40, *range(1, 11)], strict=True))
    assert [e["OPERATION"] for e in events()] == [name for kind, name in enumerate(names) for _ in range(kind + 1)]
    row = one(LOCKS)
    for what, join in (("SUM", sum), ("MIN", min), ("MAX", max)):
        assert row[f"{what}_TIMER_READ"] == join([row[f"{what}_TIMER_{c[6:]}"] for c in counted[3:8]])
        assert row[f"{what}_TIMER_WAIT"] == join([row[f"{what}_TIMER_READ"], row[f"{what}_TIMER_WRITE"]])


@fresh_process()
def test_D6_idle_never_has_a_parent() -> None:
    """D6: NESTING NULL also inside a wait; what is inside idle has idle as its parent; all other columns are NULL or 0."""
    outer = OwnLock("d/LOCK_outer")
    wait = outer.begin()
    quiet = idle_begin()
    Mutex("d/LOCK_inner").use()
    idle_end(quiet)
    outer.end(wait)
    found = {e["EVENT_NAME"].rpartition("/")[2]: e for e in events(HISTORY)}
    assert (found[IDLE]["NESTING_EVENT_ID"], found[IDLE]["NESTING_EVENT_TYPE"]) == (None, None)
    assert found["LOCK_inner"]["NESTING_EVENT_ID"] == found[IDLE]["EVENT_ID"]
    assert found[IDLE]["END_EVENT_ID"] == found["LOCK_inner"]["EVENT_ID"]
    assert found[IDLE]["OPERATION"] == "idle"
    for column in ("OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME", "NUMBER_OF_BYTES"):
        assert found[IDLE][column] is None
    assert found[IDLE]["OBJECT_INSTANCE_BEGIN"] == 0


@fresh_process()
def test_D7_a_sixth_nested_wait_is_not_recorded() -> None:
    """D7: of any family; locker_lost; ends in any order."""
    t, m = Table("s.t"), MetadataLock()
    waits = [t.begin(FETCH), t.lock_begin(0), m.begin(), idle_begin(), t.begin(UPDATE)]
    t.end(t.begin(DELETE), 3)
    assert status("locker_lost") == 1
    t.end(waits[0])
    t.lock_end(waits[1])
    m.end(waits[2])
    idle_end(waits[3])
    t.end(waits[4])
    assert [e["OPERATION"] for e in events()] == ["fetch", "read normal", "metadata lock", "idle", "update"]
    assert numbers(BY_TABLE)["COUNT_DELETE"] == 0
    t.io(DELETE)
    assert events()[-1]["NESTING_EVENT_ID"] is None


# ---- F: summaries and TRUNCATE -----------------------------------------------------------------------------------------------


@fresh_process()
def test_L7_rows_count_and_land_on_the_index_that_was_used() -> None:
    """L7: fetch 10, insert 2 through an index and without; READ = FETCH, WRITE = the rest; inserts use none."""
    t = Table("s.t", "PRIMARY,by_name")
    t.io(FETCH, 0, 10).io(FETCH, -1, 10).io(INSERT, 0, 2).io(INSERT, -1, 2).io(UPDATE, 1, 3).io(DELETE, 7, 4)
    found = {row["INDEX_NAME"]: {c: v for c, v in row.items() if c.startswith("COUNT_") and v} for row in rows(BY_INDEX)}
    assert found == {
        "PRIMARY": {"COUNT_STAR": 10, "COUNT_READ": 10, "COUNT_FETCH": 10},
        "by_name": {"COUNT_STAR": 3, "COUNT_WRITE": 3, "COUNT_UPDATE": 3},
        # An index that is not there is none.
        None: {"COUNT_STAR": 18, "COUNT_READ": 10, "COUNT_FETCH": 10, "COUNT_WRITE": 8, "COUNT_INSERT": 4, "COUNT_DELETE": 4},
    }
    assert numbers(BY_TABLE) == {
        "COUNT_STAR": 31,
        "COUNT_READ": 20,
        "COUNT_WRITE": 11,
        "COUNT_FETCH": 20,
        "COUNT_INSERT": 4,
        "COUNT_UPDATE": 3,
        "COUNT_DELETE": 4,
    }
    assert [count(table, EVENT_NAME=IO) for table in (WAITS, WAITS_BY_THREAD)] == [31, 31]
    assert rows(WAITS_BY_INSTANCE) == []


@fresh_process()
def test_one_wait_for_many_rows_adds_its_time_once() -> None:
    """operations.json: COUNT grows by rows; SUM, MIN and MAX by the whole time; no row: the time counts all the same."""
    t = Table("s.t").io(FETCH, rows=10)
    (event,) = events(HISTORY)
    for row in (one(BY_TABLE), one(OBJECTS), one(WAITS, EVENT_NAME=IO), one(WAITS_BY_THREAD, EVENT_NAME=IO)):
        assert row["COUNT_STAR"] == 10
        assert row["SUM_TIMER_WAIT"] == row["MIN_TIMER_WAIT"] == row["MAX_TIMER_WAIT"] == event["TIMER_WAIT"]
        assert row["AVG_TIMER_WAIT"] == event["TIMER_WAIT"] // 10
    t.io(FETCH, rows=0)
    both = sum(e["TIMER_WAIT"] for e in events(HISTORY))
    worker = Worker()
    worker.do(t.io, UPDATE, -1, 0)
    (third,) = events(HISTORY, THREAD_ID=worker.id)
    for row in (one(BY_TABLE), one(WAITS, EVENT_NAME=IO)):
        assert (row["COUNT_STAR"], row["SUM_TIMER_WAIT"]) == (10, both + third["TIMER_WAIT"])
    # Time without an event is carried as well when thread and table go.
    worker.end()
    t.drop()
    assert one(WAITS, EVENT_NAME=IO)["SUM_TIMER_WAIT"] == both + third["TIMER_WAIT"]
    by_user = rows("events_waits_summary_by_user_by_event_name", EVENT_NAME=IO)
    assert sum(row["SUM_TIMER_WAIT"] for row in by_user) == both + third["TIMER_WAIT"]


def loaded() -> Table:
    return Table("s.t", "PRIMARY").io(FETCH, 0, 5).io(INSERT).lock(0).lock(9)


@fresh_process()
@pytest.mark.parametrize(("table", "cleared"), [(BY_TABLE, "io"), (BY_INDEX, "io"), (LOCKS, "lock"), (OBJECTS, "io lock")])
def test_F11_truncate_clears_what_the_table_is_about(table: str, cleared: str) -> None:
    """F11: io tables clear both io tables, the lock table locks, objects both. F12: rows stay. Threads and totals keep theirs."""
    loaded()
    pfs.truncate(table)
    io, lock = (0 if kind in cleared.split() else full for kind, full in (("io", 6), ("lock", 2)))
    assert (counts_in(BY_TABLE), counts_in(LOCKS), counts_in(OBJECTS)) == ({"t": io}, {"t": lock}, {"t": io + lock})
    assert counts_in(BY_INDEX) == {None: min(io, 1), "PRIMARY": min(io, 5)}
    if io == 0:
        assert {v for row in rows(BY_INDEX) for c, v in row.items() if "TIMER" in c} == {0}
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS, EVENT_NAME=LOCK)) == (6, 2)
    assert [count(t, EVENT_NAME=IO) for t in WAITS_BY] == [6] * 4
    assert [count(t, EVENT_NAME=LOCK) for t in WAITS_BY] == [2] * 4


@fresh_process()
def test_F11_the_total_keeps_what_truncate_takes_off_a_table() -> None:
    """F11: sum, minimum and maximum too; whether or not the table is used later, by which thread, and after it is dropped."""

    def total() -> list[object]:
        (row,) = [row for row in every(WAITS) if row["EVENT_NAME"] == IO]
        return [row[column] for column in ("COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "MAX_TIMER_WAIT")]

    t = loaded()
    other = Table("s.u")
    Worker().do(other.io, INSERT)
    everything = total()
    assert everything[0] == 7
    for _ in range(3):
        pfs.truncate(BY_TABLE)
        assert total() == everything
        assert counts_in(BY_TABLE) == {"t": 0, "u": 0}
    t.io(FETCH, 0, 5)
    assert (counts_in(BY_TABLE), total()[0]) == ({"t": 5, "u": 0}, 12)
    everything = total()
    pfs.truncate(OBJECTS)
    other.io(INSERT)
    assert (counts_in(BY_TABLE), total()[0]) == ({"t": 0, "u": 1}, 13)
    everything = total()
    t.drop()
    other.drop()
    assert total() == everything
    pfs.truncate(BY_TABLE)
    assert total() == everything
    pfs.truncate(WAITS)
    assert total() == [0] * 4
    loaded()
    pfs.truncate(BY_INDEX)
    pfs.truncate(WAITS)
    assert total() == [0] * 4
    loaded()
    assert total()[0] == 6


@fresh_process()
def test_F11_truncate_leaves_what_dropped_tables_left() -> None:
    """F9 for tables: numbers of tables, dropped or not, stay in the global summary until that is truncated."""
    loaded().drop()
    loaded()
    pfs.truncate(OBJECTS)
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS, EVENT_NAME=LOCK)) == (12, 4)
    pfs.truncate(WAITS)
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS, EVENT_NAME=LOCK)) == (0, 0)


@fresh_process()
def test_F8_truncate_of_global_waits_clears_tables_but_no_threads() -> None:
    """F8: table, lock, metadata and idle numbers go; by_thread, by_account, by_user, by_host stay."""
    loaded()
    MetadataLock().wait()
    idle()
    pfs.truncate(WAITS)
    assert {row["COUNT_STAR"] for table in (WAITS, BY_TABLE, BY_INDEX, LOCKS, OBJECTS) for row in rows(table)} == {0}
    for table in WAITS_BY:
        assert [count(table, EVENT_NAME=name) for name in (IO, LOCK, MDL, IDLE)] == [6, 2, 1, 1]


@fresh_process()
def test_F9_truncate_by_instance_does_not_touch_tables() -> None:
    """F9: only objects that it shows."""
    loaded()
    idle()
    pfs.truncate(WAITS_BY_INSTANCE)
    assert (counts_in(OBJECTS), count(WAITS, EVENT_NAME=IDLE)) == ({"t": 8}, 1)


@fresh_process()
def test_events_after_a_truncate_count_from_zero() -> None:
    """TRUNCATE is exact: minimum and maximum start again as well, in each cell."""
    t = loaded()
    worker = Worker()
    worker.do(t.io, FETCH, 0, 3)
    pfs.truncate(BY_TABLE)
    t.io(FETCH, 0)
    worker.do(t.io, FETCH, 0)
    last = [events(HISTORY, THREAD_ID=thread)[-1]["TIMER_WAIT"] for thread in (me(), worker.id)]
    row = one(BY_INDEX, INDEX_NAME="PRIMARY")
    assert (row["COUNT_STAR"], row["SUM_TIMER_WAIT"]) == (2, sum(last))
    assert (row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) == (min(last), max(last))


@fresh_process()
def test_tables_of_locks_and_handles_refuse_changes() -> None:
    """F15: TRUNCATE, INSERT, DELETE and UPDATE on the tables that list."""
    Table("s.t")
    for table in ("table_handles", "metadata_locks", "data_locks", "data_lock_waits"):
        raises(pfs.OperationNotAllowed, partial(pfs.truncate, table), table, "SELECT")
        raises(pfs.OperationNotAllowed, partial(_core.insert, table, []), table, "INSERT")
        raises(pfs.OperationNotAllowed, partial(_core.delete, table, []), table, "DELETE")
        raises(pfs.OperationNotAllowed, partial(_core.update, table, [], [("OBJECT_NAME", "x")]), table, "UPDATE")
    assert len(rows("table_handles")) == 1


# ---- Tables: life and death --------------------------------------------------------------------------------------------------


@fresh_process()
def test_a_table_stays_known_when_it_is_closed_and_keeps_its_numbers() -> None:
    """One table for all its handles: of the name, of any thread; temporary tables are others."""
    first, second = Table("s.t", "PRIMARY"), Table("s.t", "PRIMARY,by_name")
    other = Table("s.t", kind=TEMPORARY)
    first.io(FETCH, 0)
    second.io(FETCH, 0).io(FETCH, 1)
    other.io(FETCH)
    for t in (first, second, other):
        t.close()
    assert rows("table_handles") == []
    again = Table("s.t", "by_name")
    again.io(FETCH, 0)
    table = rows(BY_INDEX, OBJECT_TYPE="TABLE")
    assert {row["INDEX_NAME"]: row["COUNT_STAR"] for row in table} == {None: 0, "PRIMARY": 2, "by_name": 2}
    assert numbers(BY_TABLE, OBJECT_TYPE="TEMPORARY TABLE")["COUNT_STAR"] == 1


@fresh_process()
def test_L7_drop_removes_rows_and_the_instrument_keeps_the_numbers() -> None:
    """L7, seed aggregates: the table's rows go, global_by_event_name stays; the same name is a fresh table."""
    t = loaded()
    t.close()
    t.drop()
    assert [rows(table) for table in (BY_TABLE, BY_INDEX, LOCKS, OBJECTS)] == [[], [], [], []]
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS, EVENT_NAME=LOCK)) == (6, 2)
    Table("s.t").io(FETCH)
    assert (counts_in(BY_INDEX), count(WAITS, EVENT_NAME=IO)) == ({None: 1}, 7)
    Table("s.unknown").drop()
    call("table_drop", 4, "s", "never")
    assert losses() == {}


@fresh_process()
def test_a_table_that_is_dropped_while_it_is_open_counts_for_its_instruments() -> None:
    """As a deleted file: open handles go on, in all threads; a wait that is open meanwhile ends well; the slot is used again."""
    t = Table("s.t", "PRIMARY", identity=0x10)
    worker = Worker()
    worker.do(t.io, FETCH, 0, 100)
    t.io(FETCH, 0, 10)
    open_io, open_lock = worker.do(t.begin, FETCH, 0), t.lock_begin(0)
    t.drop()
    assert (rows(BY_TABLE), rows(BY_INDEX), rows(LOCKS)) == ([], [], [])
    worker.do(t.end, open_io, 1000)
    t.lock_end(open_lock)
    t.io(FETCH, 0, 10_000).lock(8)
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS, EVENT_NAME=LOCK)) == (11_110, 2)
    handle = one("table_handles")
    assert (handle["OBJECT_SCHEMA"], handle["OBJECT_NAME"], handle["INTERNAL_LOCK"]) == ("s", "t", "WRITE")
    assert events()[-1]["OBJECT_NAME"] == "t"
    new = Table("s.t").io(FETCH)
    assert counts_in(BY_TABLE) == {"t": 1}
    t.close()
    worker.end()
    assert (counts_in(BY_TABLE), count(WAITS, EVENT_NAME=IO)) == ({"t": 1}, 11_111)
    new.drop()
    pfs.truncate(WAITS)
    assert count(WAITS, EVENT_NAME=IO) == 0
    assert losses() == {}


@fresh_process()
def test_L5_handles_show_owner_and_locks() -> None:
    """L5: NULL locks when unlocked; NULL owner while cached; a failed lock shows nothing."""
    Mutex("l/LOCK_any").use(3)
    t = Table("s.t", identity=0xABC)
    row = one("table_handles", OBJECT_INSTANCE_BEGIN=0xABC)
    assert row == {
        "OBJECT_TYPE": "TABLE",
        "OBJECT_SCHEMA": "s",
        "OBJECT_NAME": "t",
        "OBJECT_INSTANCE_BEGIN": 0xABC,
        "OWNER_THREAD_ID": me(),
        "OWNER_EVENT_ID": 3,
        "INTERNAL_LOCK": None,
        "EXTERNAL_LOCK": None,
    }

    def locks() -> tuple[str | None, str | None]:
        row = one("table_handles")
        return row["INTERNAL_LOCK"], row["EXTERNAL_LOCK"]

    for kind, name in INTERNAL.items():
        t.lock(kind)
        assert locks() == (name, None)
    for kind, name in EXTERNAL.items():
        t.lock(kind)
        assert locks() == ("WRITE", name)
    t.unlock("_internal")
    assert locks() == (None, "WRITE EXTERNAL")
    t.lock(0).unlock("_external")
    assert locks() == ("READ", None)
    t.lock(4).lock(8, 1)
    assert locks() == ("READ", "READ EXTERNAL")
    t.unlock()
    assert locks() == (None, None)
    t.unbind()
    row = one("table_handles")
    assert (row["OWNER_THREAD_ID"], row["OWNER_EVENT_ID"]) == (None, None)
    worker = Worker()
    own = OwnLock("l/LOCK_own")
    wait = worker.do(own.begin)
    worker.do(Mutex("l/LOCK_any").use)
    worker.do(t.bind)
    # The innermost event that runs.
    (running,) = events(CURRENT, THREAD_ID=worker.id)
    row = one("table_handles")
    assert (row["OWNER_THREAD_ID"], row["OWNER_EVENT_ID"]) == (worker.id, running["EVENT_ID"])
    worker.do(own.end, wait)


@fresh_process()
def test_what_is_no_table_is_not_instrumented() -> None:
    """table.h: no name, another type: NULL, which every function accepts; nothing is counted as lost."""
    for t in (Table("s."), Table("s.t", kind=0), Table("s.t", kind=7), Table("s.t", kind=99)):
        assert t.at is None
        t.io(FETCH).lock(0).bind()
        t.unbind()
        t.unlock()
        t.close()
    t = Table("t").io(7).io(-1)
    assert one(BY_TABLE)["OBJECT_SCHEMA"] is None
    assert one("table_handles")["OBJECT_SCHEMA"] == ""
    assert (events(), counts_in(BY_TABLE), losses()) == ([], {"t": 0}, {})
    t.io(FETCH)
    assert (events()[0]["OBJECT_SCHEMA"], events()[0]["OBJECT_NAME"]) == (None, "t")


@fresh_process()
def test_L13_names_are_cut_at_64_bytes_between_characters() -> None:
    """L13: schema, table, index, column: longer input is cut, never rejected; what shows the same is the same table."""
    t = Table("s" * 65 + "." + "t" * 65, "i" * 65)
    t.io(FETCH, 0)
    assert Table("s" * 70 + "." + "t" * 70, "i" * 64).io(FETCH, 0).at
    row = one(BY_INDEX, INDEX_NAME="i" * 64)
    assert (row["OBJECT_SCHEMA"], row["OBJECT_NAME"], row["COUNT_STAR"]) == ("s" * 64, "t" * 64, 2)
    assert (events()[0]["OBJECT_NAME"], events()[0]["INDEX_NAME"]) == ("t" * 64, "i" * 64)
    # Two bytes each: the 33rd character does not fit.
    Table("x." + "é" * 33).io(FETCH)
    assert one(BY_TABLE, OBJECT_SCHEMA="x")["OBJECT_NAME"] == "é" * 32
    MetadataLock("s" * 65 + "." + "t" * 65, "c" * 65).wait()
    lock = one("metadata_locks")
    assert (lock["OBJECT_SCHEMA"], lock["OBJECT_NAME"], lock["COLUMN_NAME"]) == ("s" * 64, "t" * 64, "c" * 64)
    assert events()[-1]["OBJECT_NAME"] == "t" * 64
    assert losses() == {}


# ---- G: setup_objects --------------------------------------------------------------------------------------------------------


@fresh_process()
def test_G11_default_rules_and_the_order_of_matching() -> None:
    """G11: 20 rows; exact, then schema, then type; no rule: not watched. '%' is no pattern."""
    kinds, server = ("EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"), ("mysql", "performance_schema", "information_schema")
    found = {tuple(row.values()) for row in rows("setup_objects")}
    assert found == {(kind, schema, "%", "NO", "NO") for kind in kinds for schema in server} | {
        (kind, "%", "%", "YES", "YES") for kind in kinds
    }
    rule("a", timed="NO")
    rule("a", "exact")
    rule("a", "off", enabled="NO")
    rule("%", "only", enabled="NO")  # the name of a schema: it is for nothing else
    rule("b%", "%", enabled="NO")
    rule("a", "exact", kind="TRIGGER", enabled="NO")
    for name in ("a.exact", "a.off", "a.other", "mysql.user", "x.only", "bb.t", "A.off", "mysqlx.t"):
        Table(name).io(FETCH, rows=2)
    shown = {f"{row['OBJECT_SCHEMA']}.{row['OBJECT_NAME']}": row["SUM_TIMER_WAIT"] > 0 for row in rows(BY_TABLE)}
    assert shown == {"a.exact": True, "a.other": False, "x.only": True, "bb.t": True, "A.off": True, "mysqlx.t": True}
    assert Table("a.other", kind=TEMPORARY).io(FETCH).at
    assert one(BY_TABLE, OBJECT_TYPE="TEMPORARY TABLE")["SUM_TIMER_WAIT"] == 0
    assert count(WAITS, EVENT_NAME=IO) == 13
    pfs.truncate("setup_objects")
    assert (rows("setup_objects"), rows(BY_TABLE), rows("table_handles")) == ([], [], [])
    assert Table("new.t").io(FETCH).at
    assert (rows(BY_TABLE), count(WAITS, EVENT_NAME=IO)) == ([], 13)


@fresh_process()
def test_G12_changes_of_rules_act_on_open_tables() -> None:
    """G12: ENABLED = NO hides and stops, TIMED = NO keeps counts only; INSERT and DELETE act as well; numbers come back."""
    t = Table("s.t", "PRIMARY").io(FETCH, rows=2).lock(0)
    was = one(BY_TABLE)
    rule("s", "t", timed="NO")
    t.io(FETCH).lock(0)
    now = one(BY_TABLE)
    assert (now["COUNT_STAR"], now["SUM_TIMER_WAIT"]) == (3, was["SUM_TIMER_WAIT"])
    assert events()[-2]["TIMER_WAIT"] is None
    pfs.setup_objects[{"OBJECT_SCHEMA": "s"}].enabled = False
    t.io(FETCH, rows=50).lock(8)
    assert [rows(table) for table in (BY_TABLE, BY_INDEX, LOCKS, OBJECTS, "table_handles")] == [[]] * 5
    assert (count(WAITS, EVENT_NAME=IO), len(events())) == (3, 4)
    assert pfs.setup_objects.delete("s") == 1
    t.io(FETCH)
    assert (counts_in(BY_TABLE), counts_in(LOCKS)) == ({"t": 4}, {"t": 2})
    assert one("table_handles")["INTERNAL_LOCK"] == "READ"
    with pfs.setup_objects:
        pfs.setup_objects.update({"OBJECT_TYPE": "TABLE", "OBJECT_SCHEMA": "\\%"}, enabled=False)
        assert rows(BY_TABLE) == []
    assert counts_in(BY_TABLE) == {"t": 4}


@fresh_process()
def test_G13_a_second_row_of_a_key_is_refused_and_bad_values_too() -> None:
    """G13, F16: duplicate key; bad enumeration; key columns cannot be updated; nothing changes."""
    rule("s")
    before = rows("setup_objects")
    raises(pfs.AlreadyExists, partial(rule, "s"), "duplicate", "'s'", "TABLE")
    raises(pfs.AlreadyExists, pfs.setup_objects.insert, "'%'")
    raises(pfs.InvalidValue, partial(pfs.setup_objects.insert, object_type="x"), "EVENT", "TRIGGER")
    raises(pfs.InvalidValue, partial(pfs.setup_objects.insert, object_type="TEMPORARY TABLE"), "TABLE")
    raises(pfs.InvalidValue, partial(pfs.setup_objects.insert, object_schema="n", enabled="MAYBE"), "YES", "NO")
    raises(pfs.InvalidValue, partial(pfs.setup_objects.insert, object_schema=None), "NULL")
    raises(pfs.InvalidValue, partial(pfs.setup_objects.insert, object_schema="s" * 65), "varchar(64)")
    raises(pfs.UnknownColumn, partial(pfs.setup_objects.insert, schema="n"), "SCHEMA")
    raises(pfs.InvalidValue, partial(pfs.setup_objects.update, "s", enabled="MAYBE"), "YES", "NO")
    raises(pfs.OperationNotAllowed, partial(_core.update, "setup_objects", [], [("OBJECT_NAME", "x")]), "ENABLED", "TIMED")
    assert rows("setup_objects") == before
    assert pfs.setup_objects.delete("nobody") == 0
    # The same key in another case, and of another type, is another row.
    for schema, kind in (("S", "TABLE"), ("s", "TRIGGER")):
        rule(schema, kind=kind)
    assert len(rows("setup_objects")) == len(before) + 2


@fresh_process("performance_schema_setup_objects_size={size}")
@pytest.mark.parametrize("size", [0, 1, 20, 22])
def test_setup_objects_takes_as_many_rows_as_it_may(size: int) -> None:
    """Capacity 0, 1, small: LimitReached; a row that goes makes room."""
    assert len(rows("setup_objects")) == min(size, 20)
    for i in range(20, size):
        rule(f"s{i}")
    raises(pfs.LimitReached, partial(rule, "more"), "setup_objects_size")
    Table("x.t").io(FETCH)
    assert len(rows(BY_TABLE)) == (1 if size >= 20 else 0)
    if size:
        pfs.truncate("setup_objects")
        rule("x")
        assert len(rows(BY_TABLE)) == 1
    assert losses() == {}


@fresh_process()
def test_setup_objects_saves_and_restores_rows() -> None:
    """Save, restore, context manager: rows that went are back, rows that came are gone."""
    saved = pfs.setup_objects.save()
    pfs.setup_objects.delete({"OBJECT_TYPE": "TABLE"})
    rule("s", timed="NO")
    assert "'s'" in repr(rows("setup_objects"))
    assert pfs.setup_objects.restore(saved) == 5
    assert sorted(map(str, rows("setup_objects"))) == sorted(map(str, rows("setup_objects")))
    assert len(rows("setup_objects")) == 20
    assert one("setup_objects", OBJECT_TYPE="TABLE", OBJECT_SCHEMA="mysql")["ENABLED"] == "NO"


# ---- L4: metadata locks ------------------------------------------------------------------------------------------------------


@fresh_process()
def test_L4_a_metadata_lock_lives_from_request_to_release() -> None:
    """L4: PENDING, GRANTED, gone; owner and event that asked; SOURCE; any thread may change it."""
    worker = Worker()
    worker.do(Mutex("l/LOCK_any").use, 2)
    m = worker.do(partial(MetadataLock, "shop.orders", "id", identity=0x55))
    assert one("metadata_locks") == {
        "OBJECT_TYPE": "TABLE",
        "OBJECT_SCHEMA": "shop",
        "OBJECT_NAME": "orders",
        "COLUMN_NAME": "id",
        "OBJECT_INSTANCE_BEGIN": 0x55,
        "LOCK_TYPE": "EXCLUSIVE",
        "LOCK_DURATION": "TRANSACTION",
        "LOCK_STATUS": "PENDING",
        "SOURCE": one("metadata_locks")["SOURCE"],
        "OWNER_THREAD_ID": worker.id,
        "OWNER_EVENT_ID": 2,
    }
    assert one("metadata_locks")["SOURCE"].startswith("table_driver.c:")
    wait = worker.do(m.begin)
    (event,) = events(CURRENT, THREAD_ID=worker.id)
    assert (event["EVENT_NAME"], event["OPERATION"], event["OBJECT_TYPE"]) == (MDL, "metadata lock", "TABLE")
    assert (event["OBJECT_SCHEMA"], event["OBJECT_NAME"], event["OBJECT_INSTANCE_BEGIN"]) == ("shop", "orders", 0x55)
    assert (event["INDEX_NAME"], event["NUMBER_OF_BYTES"]) == (None, None)
    m.set(status=GRANTED)  # by who lets it go
    worker.do(m.end, wait)
    assert one("metadata_locks")["LOCK_STATUS"] == "GRANTED"
    worker.end()
    assert one("metadata_locks")["OWNER_THREAD_ID"] == worker.id
    m.destroy()
    assert (rows("metadata_locks"), count(WAITS, EVENT_NAME=MDL)) == ([], 1)
    assert losses() == {}


@fresh_process()
def test_metadata_locks_show_every_word_of_the_schema() -> None:
    """operations.json: object types, lock types, durations, statuses; a value that is none changes nothing."""
    types = [
        "EVENT",
        "FUNCTION",
        "PROCEDURE",
        "TABLE",
        "TRIGGER",
        "TEMPORARY TABLE",
        "GLOBAL",
        "SCHEMA",
        "COMMIT",
        "USER LEVEL LOCK",
    ]
    types += [
        "TABLESPACE",
        "LOCKING SERVICE",
        "SRID",
        "ACL CACHE",
        "COLUMN STATISTICS",
        "BACKUP LOCK",
        "RESOURCE_GROUPS",
        "FOREIGN KEY",
    ]
    types += ["CHECK CONSTRAINT"]
    for kind, name in enumerate(types, 1):
        m = MetadataLock("s.t", kind=kind).wait()
        assert one("metadata_locks")["OBJECT_TYPE"] == events()[-1]["OBJECT_TYPE"] == name
        m.destroy()
    m = MetadataLock("", None, kind=7)
    row = one("metadata_locks")
    assert (row["OBJECT_SCHEMA"], row["OBJECT_NAME"], row["COLUMN_NAME"]) == (None, None, None)
    assert row["OBJECT_INSTANCE_BEGIN"] != 0
    words = {
        "LOCK_TYPE": "INTENTION_EXCLUSIVE SHARED SHARED_HIGH_PRIO SHARED_READ SHARED_WRITE SHARED_WRITE_LOW_PRIO "
        "SHARED_UPGRADABLE SHARED_READ_ONLY SHARED_NO_WRITE SHARED_NO_READ_WRITE EXCLUSIVE",
        "LOCK_DURATION": "STATEMENT TRANSACTION EXPLICIT",
        "LOCK_STATUS": "PENDING GRANTED PRE_ACQUIRE_NOTIFY POST_RELEASE_NOTIFY",
    }
    for argument, (column, values) in zip(("lock", "duration", "status"), words.items(), strict=True):
        for number, word in enumerate(values.split()):
            m.set(**{argument: number})
            assert one("metadata_locks")[column] == word
        m.set(**{argument: len(values.split())})
        assert one("metadata_locks")[column] == values.split()[-1]
    bad = [MetadataLock(kind=0), MetadataLock(kind=20), MetadataLock(lock=11), MetadataLock(duration=3), MetadataLock(status=4)]
    assert {m.at for m in bad} == {None}
    nothing = MetadataLock(kind=0)
    nothing.set(status=1)
    nothing.wait().destroy()
    assert (len(rows("metadata_locks")), losses()) == (1, {})


@fresh_process("performance_schema_max_metadata_locks={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_L4_full_table_of_metadata_locks_is_counted(limit: int) -> None:
    """L4: no row, metadata_lock_lost; a lock that goes makes room."""
    locks = [MetadataLock(f"s.t{i}").wait() for i in range(5)]
    assert [m.at is not None for m in locks] == [True] * limit + [False] * (5 - limit)
    assert (len(rows("metadata_locks")), status("metadata_lock_lost")) == (limit, 5 - limit)
    assert count(WAITS, EVENT_NAME=MDL) == limit
    for m in locks:
        m.destroy()
    again = MetadataLock("s.again").wait()
    assert (again.at is not None, len(rows("metadata_locks"))) == (limit > 0, min(limit, 1))


# ---- L6: data locks ----------------------------------------------------------------------------------------------------------


@fresh_process()
def test_L6_data_locks_are_pulled_when_they_are_read() -> None:
    """L6: the inspectors give the rows, each time; texts are cut and copied; nothing is stored."""
    engine = Engine("engine_of_a_name_that_is_longer_than_32_bytes", 3)
    assert (rows("data_locks"), engine.scans) == ([], 0)
    assert engine.register() == 0
    name = "engine_of_a_name_that_is_longer_than_32_bytes"[:32]
    first, second, third = rows("data_locks")
    empty = dict.fromkeys(
        (
            "ENGINE_TRANSACTION_ID",
            "THREAD_ID",
            "EVENT_ID",
            "OBJECT_SCHEMA",
            "OBJECT_NAME",
            "PARTITION_NAME",
            "SUBPARTITION_NAME",
            "INDEX_NAME",
        )
    )
    assert first == {
        "ENGINE": name,
        "ENGINE_LOCK_ID": "lock-0",
        **empty,
        "OBJECT_INSTANCE_BEGIN": 0x1000,
        "LOCK_TYPE": "RECORD",
        "LOCK_MODE": "X",
        "LOCK_STATUS": "GRANTED",
        "LOCK_DATA": None,
    }
    assert (second["ENGINE_LOCK_ID"], second["LOCK_DATA"]) == ("i" * 128, "d" * 8192)
    assert (second["ENGINE_TRANSACTION_ID"], second["THREAD_ID"], second["EVENT_ID"]) == (0, me(), 5)
    assert [second[c] for c in list(empty)[3:]] == ["shop", "orders", "p0", "p0s0", "PRIMARY"]
    assert (third["ENGINE_LOCK_ID"], third["LOCK_STATUS"], engine.scans) == ("lock-2", "WAITING", 1)
    waits = rows("data_lock_waits")
    assert waits[1] == {
        "ENGINE": name,
        "REQUESTING_ENGINE_LOCK_ID": "lock-2",
        "REQUESTING_ENGINE_TRANSACTION_ID": None,
        "REQUESTING_THREAD_ID": None,
        "REQUESTING_EVENT_ID": None,
        "REQUESTING_OBJECT_INSTANCE_BEGIN": 0x1002,
        "BLOCKING_ENGINE_LOCK_ID": "lock-1",
        "BLOCKING_ENGINE_TRANSACTION_ID": 7,
        "BLOCKING_THREAD_ID": 8,
        "BLOCKING_EVENT_ID": 9,
        "BLOCKING_OBJECT_INSTANCE_BEGIN": 0,
    }
    assert (len(waits), engine.scans) == (2, 2)


@fresh_process()
def test_L6_inspectors_come_and_go() -> None:
    """data_lock.h: several engines; EXISTS, NOT_FOUND, INVALID_ARGUMENT, STATE, FULL; no rows from a file."""
    first, second = Engine("first", 2), Engine("second", 1)
    assert [engine.register() for engine in (first, second, first)] == [0, 0, 4]
    assert [row["ENGINE"] for row in rows("data_locks")] == ["first", "first", "second"]
    assert call("engine_register", None) == 1
    assert b"engine" in perfschema().pfs_last_error()
    segment = _core.Segment(_core.segment_path())
    assert _core.rows("data_locks", None, segment) == _core.rows("data_lock_waits", None, segment) == []
    assert [first.unregister(), first.unregister()] == [0, 2]
    assert len(rows("data_locks")) == 1
    meddler = Engine("meddler", 1, registers=True)
    meddler.register()
    assert (len(rows("data_locks")), meddler.error) == (2, 6)
    assert meddler.unregister() == 0
    engines = [Engine(str(i), 1) for i in range(64)]
    assert [engine.register() for engine in engines] == [0] * 63 + [5]
    assert len(rows("data_locks")) == 64
    child = os.fork()
    if child == 0:
        os._exit(0 if len(rows("data_locks")) == 64 else 1)
    assert os.waitpid(child, 0)[1] == 0


# ---- Capacity ----------------------------------------------------------------------------------------------------------------


def opened(number: int) -> list[Table]:
    return [Table(f"s.t{i}", "PRIMARY").io(FETCH, 0).io(FETCH).lock(0) for i in range(number)]


@fresh_process("performance_schema_max_table_instances={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_full_table_of_tables_is_counted(limit: int) -> None:
    """What does not fit is not instrumented; table_instances_lost; a table that is dropped makes room."""
    tables = opened(5)
    assert [t.at is not None for t in tables] == [True] * limit + [False] * (5 - limit)
    assert (len(rows(BY_TABLE)), status("table_instances_lost")) == (limit, 5 - limit)
    assert count(WAITS, EVENT_NAME=IO) == 2 * limit
    for t in tables:
        t.close()
    assert Table("s.more").at is None
    if limit:
        tables[0].drop()
        assert Table("s.more").io(FETCH).at
        assert len(rows(BY_TABLE)) == limit


@fresh_process("performance_schema_max_table_handles={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_full_table_of_handles_is_counted(limit: int) -> None:
    """table_handles_lost counts; a handle that is closed makes room; the table is known all the same."""
    tables = opened(5)
    assert (len(rows("table_handles")), status("table_handles_lost"), len(rows(BY_TABLE))) == (limit, 5 - limit, 5)
    for t in tables:
        t.close()
    Table("s.t0").io(FETCH)
    assert (len(rows("table_handles")), counts_in(BY_TABLE)["t0"]) == (min(limit, 1), 3 if limit else 0)


@fresh_process("performance_schema_max_index_stat={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_indexes_without_statistics_count_for_the_instrument(limit: int) -> None:
    """index_stat_lost counts; nothing is lost in the global summary; what a table has shows."""
    tables = opened(2)
    assert (len(rows(BY_INDEX)), status("index_stat_lost")) == (limit, 4 - limit)
    assert counts_in(BY_TABLE) == {"t0": min(limit, 2), "t1": max(limit - 2, 0)}
    assert (count(WAITS, EVENT_NAME=IO), count(WAITS_BY_THREAD, EVENT_NAME=IO)) == (4, 4)
    tables[0].drop()
    tables[0].close()
    if limit:
        assert Table("s.new").io(FETCH).at
        assert counts_in(BY_TABLE)["new"] == 1
    assert count(WAITS, EVENT_NAME=IO) == 4 + min(limit, 1)


@fresh_process("performance_schema_max_table_lock_stat={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_tables_without_statistics_of_locks_count_for_the_instrument(limit: int) -> None:
    """table_lock_stat_lost counts; such a table has no row of locks; INTERNAL_LOCK shows; a dropped table makes room."""
    tables = opened(3)
    assert (counts_in(LOCKS), status("table_lock_stat_lost")) == ({f"t{i}": 1 for i in range(limit)}, 3 - limit)
    assert counts_in(OBJECTS) == {f"t{i}": 3 if i < limit else 2 for i in range(3)}
    assert count(WAITS, EVENT_NAME=LOCK) == 3
    assert [row["INTERNAL_LOCK"] for row in rows("table_handles")] == ["READ"] * 3
    for t in tables:
        t.drop()
        t.close()
    opened(1)
    assert (len(rows(LOCKS)), count(WAITS, EVENT_NAME=LOCK)) == (min(limit, 1), 4)


@fresh_process("performance_schema_max_object_cells=2")
def test_cells_without_room_are_counted() -> None:
    """object_cells_lost: the event counts for the thread and the instrument, and for no table; nothing fails."""
    Table("s.t", "PRIMARY").io(FETCH, 0).io(UPDATE, 0).io(DELETE, 0)
    assert (counts_in(BY_TABLE), status("object_cells_lost")) == ({"t": 2}, 1)
    assert count(WAITS_BY_THREAD, EVENT_NAME=IO) == count(WAITS, EVENT_NAME=IO) == 3


@fresh_process("performance_schema=OFF")
def test_L10_with_pfs_off_everything_is_accepted() -> None:
    """L10: NULL handles, no rows, no errors; inspectors are not asked."""
    t = Table("s.t").io(FETCH).lock(0)
    m = MetadataLock().wait()
    idle()
    assert (t.at, m.at) == (None, None)
    t.drop()
    engine = Engine("e", 2)
    assert engine.register() == 0
    for table in ("table_handles", "metadata_locks", "data_locks", "setup_objects", OBJECTS):
        assert rows(table) == []
    assert engine.scans == 0
    pfs.truncate("setup_objects")
    rule("s")


@fresh_process()
def test_slots_of_tables_handles_indexes_and_locks_are_used_again() -> None:
    """Memory stays flat: ten thousand tables one after the other take the room of one."""
    for i in range(10_000):
        t = Table(f"s.t{i}", "PRIMARY,by_name").io(FETCH, i % 3 - 1).lock(i % 10)
        m = MetadataLock(f"s.t{i}").wait()
        m.destroy()
        t.drop() if i % 2 else t.close()
        t.close() if i % 2 else t.drop()
    gc.collect()
    assert (rows(BY_TABLE), rows("table_handles"), rows("metadata_locks")) == ([], [], [])
    assert [count(WAITS, EVENT_NAME=name) for name in (IO, LOCK, MDL)] == [10_000] * 3
    assert losses() == {}


# ---- Fork --------------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_a_forked_child_has_the_tables_and_none_of_the_numbers() -> None:
    """Tables, handles, metadata locks and rules are there, statistics start from zero; the parent's stay."""
    t = loaded()
    dead = Table("s.dead", "PRIMARY").io(FETCH, 0)
    dead.drop()
    m = MetadataLock()
    rule("off", enabled="NO")
    child = os.fork()
    if child == 0:
        ok = counts_in(OBJECTS) == {"t": 0} and len(rows("table_handles")) == 2 and len(rows("metadata_locks")) == 1
        t.io(FETCH, 0, 3).lock(0)
        dead.io(FETCH)
        dead.close()
        m.wait().destroy()
        Table("off.t").io(FETCH)
        new = Table("s.new", "PRIMARY").io(FETCH, 0)
        ok = ok and counts_in(BY_TABLE) == {"t": 3, "new": 1} and count(WAITS, EVENT_NAME=IO) == 5
        t.drop()
        t.close()
        new.close()
        ok = ok and counts_in(BY_TABLE) == {"new": 1} and count(WAITS, EVENT_NAME=IO) == 5 and losses() == {}
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (counts_in(BY_TABLE), len(rows("metadata_locks"))) == ({"t": 6}, 1)
