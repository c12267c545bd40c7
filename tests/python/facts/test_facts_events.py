"""How one event lives (semantics.md A), consumers (B) and history tables (E). Each test runs in a process of its own."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import time
from functools import partial
from pathlib import Path

import pytest

import pfs
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process

VIEWS = (CURRENT, HISTORY, HISTORY_LONG)


# ---- A: one event ------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_A1_event_ids_are_1_2_3_in_each_thread_and_thread_ids_are_never_reused() -> None:
    """A1: EVENT_ID starts at 1 per thread and grows by 1; THREAD_ID is never used again."""
    m = Mutex("a/LOCK_one").use(4)
    assert [row["EVENT_ID"] for row in events(THREAD_ID=me())] == [1, 2, 3, 4]
    seen = [me()]
    for _ in range(5):
        worker = Worker()
        worker.do(m.use, 3)
        assert [row["EVENT_ID"] for row in events(THREAD_ID=worker.id)] == [1, 2, 3]
        seen.append(worker.id)
        worker.end()
    assert len(set(seen)) == 6
    assert min(seen) > 0
    m.use()
    assert events(THREAD_ID=me())[-1]["EVENT_ID"] == 5


@fresh_process()
def test_A2_events_that_are_not_recorded_take_no_event_id_but_count() -> None:
    """A2: with events_waits_current off no EVENT_ID is consumed; summaries still count."""
    m = Mutex("a/LOCK_one").use(2)
    consumer("events_waits_current", False)
    m.use(7)
    consumer("events_waits_current", True)
    m.use()
    assert [row["EVENT_ID"] for row in events(THREAD_ID=me())] == [1, 2, 3]
    assert counts(MUTEX + "a/LOCK_one") == {WAITS: 10, WAITS_BY_INSTANCE: 10, WAITS_BY_THREAD: 10}


@fresh_process()
def test_A3_end_event_id_is_the_youngest_event_when_it_ended() -> None:
    """A3: END_EVENT_ID = EVENT_ID if nothing nested, else the last event begun inside."""
    outer, inner = OwnLock("a/LOCK_outer", 0x10), OwnLock("a/LOCK_inner", 0x20)
    first = outer.begin()  # 1
    inner.use()  # 2
    second = inner.begin()  # 3
    Mutex("a/LOCK_leaf").use()  # 4
    inner.end(second)
    outer.end(first)
    outer.use()  # 5
    assert [(row["EVENT_ID"], row["END_EVENT_ID"]) for row in events()] == [(1, 4), (2, 2), (3, 4), (4, 4), (5, 5)]


@fresh_process()
def test_A3_in_a_thread_that_has_had_many_events() -> None:
    """A3: the same on the fast path, with events of other tasks of the thread, and after many chunks of history."""
    outer, leaf = OwnLock("a/LOCK_outer", 0x10), Mutex("a/LOCK_leaf")
    outer.use(50)
    leaf.use(50)
    fibers = perfschema()
    fibers.pfs_fiber_create.restype = ctypes.c_void_p
    task = ctypes.c_void_p(fibers.pfs_fiber_create(None))

    def last() -> tuple[int, int]:
        (row,) = events(THREAD_ID=me(), EVENT_NAME=MUTEX + "a/LOCK_outer")[-1:]
        return row["EVENT_ID"], row["END_EVENT_ID"]

    at = 100
    for inside in (0, 1, 0, 3, 0, 700, 0):
        wait = outer.begin()
        leaf.use(inside)
        outer.end(wait)
        assert last() == (at + 1, at + 1 + inside)
        at += 1 + inside
    for inside in (0, 1, 0, 700):
        fibers.pfs_fiber_switch(task)
        wait = outer.begin()
        fibers.pfs_fiber_switch(None)
        leaf.use(inside)
        fibers.pfs_fiber_switch(task)
        outer.end(wait)
        assert last() == (at + 1, at + 1 + inside)
        at += 1 + inside
    fibers.pfs_fiber_switch(None)
    fibers.pfs_fiber_destroy(task)
    assert losses() == {}


@fresh_process()
def test_D1_wait_in_a_wait_names_the_innermost_running_one() -> None:
    """D1: NESTING_EVENT_ID is the innermost running wait of the thread; NULL without one, whatever other threads do."""
    outer, inner = OwnLock("a/LOCK_outer", 0x10), OwnLock("a/LOCK_inner", 0x20)
    leaf = Mutex("a/LOCK_leaf")
    first = outer.begin()
    second = inner.begin()
    leaf.use()
    inner.end(second)
    leaf.use()
    worker = Worker()
    worker.do(leaf.use)
    outer.end(first)
    leaf.use()
    found = [(row["EVENT_ID"], row["NESTING_EVENT_ID"], row["NESTING_EVENT_TYPE"]) for row in events(THREAD_ID=me())]
    assert found == [(1, None, None), (2, 1, "WAIT"), (3, 2, "WAIT"), (4, 1, "WAIT"), (5, None, None)]
    assert [row["NESTING_EVENT_ID"] for row in events(THREAD_ID=worker.id)] == [None]


@fresh_process()
def test_D1_waits_that_overlap_end_in_any_order() -> None:
    """D1: the outer wait may end first: the inner one is still running, and is what the next event is nested in."""
    outer, inner, leaf = OwnLock("a/LOCK_outer", 0x10), OwnLock("a/LOCK_inner", 0x20), Mutex("a/LOCK_leaf")
    first = outer.begin()  # 1
    second = inner.begin()  # 2
    outer.end(first)
    assert [row["EVENT_ID"] for row in events(CURRENT)] == [2]
    leaf.use()  # 3
    inner.end(second)
    leaf.use()  # 4
    found = [(row["EVENT_ID"], row["END_EVENT_ID"], row["NESTING_EVENT_ID"]) for row in events()]
    assert found == [(1, 2, None), (2, 3, 1), (3, 3, 2), (4, 4, None)]
    assert [row["EVENT_ID"] for row in events(CURRENT)] == [4]
    assert count(WAITS) == 4
    assert losses() == {}


@fresh_process()
def test_D7_more_than_five_nested_waits_run_but_are_lost() -> None:
    """D7: at most 5 nested waits are recorded; the 6th runs, and counts as locker_lost."""
    locks = [OwnLock(f"a/LOCK_{i}", 0x100 + i) for i in range(7)]
    waits = [lock.begin() for lock in locks]
    assert status("locker_lost") == 2
    assert len(rows(CURRENT)) == 5
    for lock, wait in reversed(list(zip(locks, waits, strict=True))):
        lock.end(wait)
    assert len(events()) == 5
    m = Mutex("a/LOCK_after").use()
    assert events()[-1]["OBJECT_INSTANCE_BEGIN"] == m.at
    assert events()[-1]["NESTING_EVENT_ID"] is None
    assert status("locker_lost") == 2


@fresh_process()
def test_A4_untimed_event_has_no_times_but_a_row_and_counts() -> None:
    """A4: TIMED=NO at the start: TIMER_START, TIMER_END, TIMER_WAIT are NULL; the event exists, COUNT_STAR grows."""
    m = Mutex("a/LOCK_one")
    instrument(MUTEX + "a/LOCK_one", timed=False)
    m.use()
    for view in VIEWS:
        row = one(view)
        assert (row["TIMER_START"], row["TIMER_END"], row["TIMER_WAIT"]) == (None, None, None)
        assert row["END_EVENT_ID"] == 1
    row = one(WAITS, EVENT_NAME=MUTEX + "a/LOCK_one")
    assert (row["COUNT_STAR"], row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["AVG_TIMER_WAIT"]) == (1, 0, 0, 0)


@fresh_process()
def test_A5_open_event_seen_from_another_thread_has_no_end() -> None:
    """A5 as pfs has it: while an event runs TIMER_END, TIMER_WAIT, END_EVENT_ID, SPINS are NULL; TIMER_START is there and
    stays."""
    m = Mutex("a/LOCK_held")
    worker = Worker()
    assert m.lock() == 0
    worker.start(m.lock)
    deadline = time.monotonic() + 20
    while not rows(CURRENT, THREAD_ID=worker.id):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    row = one(CURRENT, THREAD_ID=worker.id)
    assert (row["TIMER_END"], row["TIMER_WAIT"], row["END_EVENT_ID"], row["SPINS"]) == (None, None, None, None)
    assert row["OPERATION"] == "lock"
    assert row["TIMER_START"] > 0
    assert rows(HISTORY, THREAD_ID=worker.id) == rows(HISTORY_LONG, THREAD_ID=worker.id) == []
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == me()
    assert one(CURRENT, THREAD_ID=worker.id) == row
    m.unlock()
    worker.result()
    done = one(CURRENT, THREAD_ID=worker.id)
    assert done["TIMER_START"] == row["TIMER_START"]
    assert done["END_EVENT_ID"] == row["EVENT_ID"]
    assert done == one(HISTORY, THREAD_ID=worker.id) == one(HISTORY_LONG, THREAD_ID=worker.id)
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == worker.id


@fresh_process()
def test_A6_timer_wait_is_end_minus_start_exactly() -> None:
    """A6: TIMER_WAIT = TIMER_END - TIMER_START, to the picosecond, in every view; times do not go back."""
    m = Mutex("a/LOCK_one").use(200)
    key = key_of("file", "a/data")
    for _ in range(100):
        C.close(C.open(key, "f", 0o102, 0o600))
    m.use(50)
    found = events()
    assert len(found) == 450
    assert all(row["TIMER_WAIT"] == row["TIMER_END"] - row["TIMER_START"] for row in found)
    assert all(a["TIMER_END"] <= b["TIMER_START"] for a, b in itertools.pairwise(found))


@fresh_process()
def test_A7_times_are_picoseconds_since_the_start() -> None:
    """A7: a wait of 50 ms is 50e9 picoseconds long, and began after the start of pfs."""
    before = time.monotonic()
    lock = OwnLock("a/LOCK_slow").use()
    lock.pause(0.05)
    life = time.monotonic() - before
    row = events()[-1]
    assert 50e9 <= row["TIMER_WAIT"] <= life * 1e12
    assert row["TIMER_END"] <= (life + 5) * 1e12


@fresh_process()
def test_A9_source_is_file_and_line_of_the_caller_and_at_most_64_characters() -> None:
    """A9, L13: SOURCE is basename:line, cut to 64 characters."""
    m = Mutex("a/LOCK_one").use()
    with pfs.Lock("a/LOCK_python"):
        pass
    assert all(re.fullmatch(r"[^/]+:\d+", row["SOURCE"]) for row in events())
    assert events()[0]["SOURCE"].startswith("driver.c:")
    assert events()[1]["SOURCE"].startswith("test_facts_events.py:")
    C.lock_far_away(m.at)
    m.unlock()
    assert len(events()[-1]["SOURCE"]) <= 64
    assert events()[-1]["SOURCE"].startswith("a_file_name_of_just_about")


@fresh_process()
def test_A10_spins_and_flags_where_there_are_any() -> None:
    """A10 as pfs has it: SPINS of a lock that counts them, NULL elsewhere; FLAGS of open, 0 of other operations on files,
    NULL elsewhere; a seek's object is the offset."""
    lock = OwnLock("a/SPIN_one")
    lock.end(lock.begin(), spins=17)
    lock.end(lock.begin(), spins=0)
    lock.end(lock.begin())
    lock.end(lock.begin(2), rc=EBUSY, spins=5)
    assert [(row["SPINS"], row["OPERATION"]) for row in events()] == [(17, "lock"), (0, "lock"), (None, "lock"), (5, "try_lock")]
    key = key_of("file", "a/data")
    fd = C.open(key, "f", 0o102 | 0o2000000, 0o600)
    C.write(fd, 100)
    C.lseek(fd, 42, 0)
    C.close(fd)
    opened, written, sought, closed = events()[4:]
    assert opened["FLAGS"] == 0o102 | 0o2000000
    assert [row["FLAGS"] for row in (written, sought, closed)] == [0] * 3
    assert {row["FLAGS"] for row in events()[:4]} == {None}
    assert (sought["OPERATION"], sought["OBJECT_INSTANCE_BEGIN"]) == ("seek", 42)
    assert opened["OBJECT_INSTANCE_BEGIN"] == written["OBJECT_INSTANCE_BEGIN"] == closed["OBJECT_INSTANCE_BEGIN"] != 42
    assert opened["OBJECT_INSTANCE_BEGIN"] == one(FILES_BY_INSTANCE)["OBJECT_INSTANCE_BEGIN"]
    assert all(row["SPINS"] is None for row in events()[4:])


@fresh_process()
@pytest.mark.parametrize(
    "switch", ["instrument", "timed", "global", "thread", "current", "history", "history_long", "my_thread", "my_history"]
)
def test_A11_an_event_ends_with_the_settings_it_began_with(switch: str) -> None:
    """A11: what is switched off in mid-event acts on the next event; the open one ends as it began, and back again."""
    lock = OwnLock("a/LOCK_one").use()
    name = MUTEX + "a/LOCK_one"

    def turn(on: bool) -> None:
        if switch == "instrument":
            instrument(name, enabled=on)
        elif switch == "timed":
            instrument(name, timed=on)
        elif switch == "my_thread":
            pfs.threads[me()].instrumented = on
        elif switch == "my_history":
            pfs.threads[me()].history = on
        else:
            consumer(
                {"global": "global_instrumentation", "thread": "thread_instrumentation"}.get(switch, "events_waits_" + switch), on
            )

    wait = lock.begin()
    turn(False)
    lock.end(wait)
    full = one(HISTORY_LONG, EVENT_ID=2)
    assert full["TIMER_WAIT"] is not None
    assert full["END_EVENT_ID"] == 2
    assert one(HISTORY, EVENT_ID=2) == full
    assert counts(name) == {WAITS: 2, WAITS_BY_INSTANCE: 2, WAITS_BY_THREAD: 2}
    before = [rows(table) for table in (HISTORY, HISTORY_LONG)], counts(name)
    wait = lock.begin()
    turn(True)
    lock.end(wait)
    if switch in ("instrument", "global", "my_thread"):
        assert ([rows(table) for table in (HISTORY, HISTORY_LONG)], counts(name)) == before
    elif switch == "timed":
        assert one(HISTORY, EVENT_ID=3)["TIMER_WAIT"] is None
    else:
        seen = {"thread": (0, 0), "current": (0, 0), "history": (0, 1), "history_long": (1, 0), "my_history": (0, 0)}[switch]
        assert (len(rows(HISTORY)) - 2, len(rows(HISTORY_LONG)) - 2) == seen
        assert count(WAITS) == 3
    lock.use()
    assert events()[-1]["TIMER_WAIT"] is not None
    assert events()[-1]["NESTING_EVENT_ID"] is None


# ---- B: consumers ------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_B1_B2_there_are_16_consumers_on_at_start_and_only_enabled_changes() -> None:
    """B1 as pfs has it: all are on but the one that costs system calls. B2: 16 fixed rows, and our own lock_holds, which is off;
    only ENABLED can be updated."""
    found = rows("setup_consumers")
    assert [row["NAME"] for row in found[16:]] == ["lock_holds"]
    assert len(found) == 17
    assert [row["NAME"] for row in found if row["ENABLED"] != "YES"] == ["events_statements_cpu", "lock_holds"]
    raises(pfs.OperationNotAllowed, pfs.setup_consumers.insert, "UPDATE")
    raises(pfs.OperationNotAllowed, pfs.setup_consumers.delete, "UPDATE")
    raises(pfs.OperationNotAllowed, partial(pfs.truncate, "setup_consumers"), "UPDATE")
    raises(pfs.OperationNotAllowed, partial(setattr, pfs.setup_consumers["events_waits_current"], "name", "x"), "enabled")
    assert rows("setup_consumers") == found


@fresh_process()
def test_B3_global_instrumentation_off_stops_all_and_on_resumes_for_live_objects() -> None:
    """B3: nothing is counted while global_instrumentation is off; existing objects count again afterwards."""
    m = Mutex("b/LOCK_one").use()
    key = key_of("file", "b/data")
    fd = C.open(key, "f", 0o102, 0o600)
    for _ in range(2):
        before = counts(MUTEX + "b/LOCK_one"), count(FILES), events()
        consumer("global_instrumentation", False)
        m.use(5)
        C.write(fd, 10)
        assert (counts(MUTEX + "b/LOCK_one"), count(FILES), events()) == before
        consumer("global_instrumentation", True)
        m.use()
        C.write(fd, 10)
        assert count(WAITS_BY_INSTANCE, EVENT_NAME=MUTEX + "b/LOCK_one") == before[0][WAITS_BY_INSTANCE] + 1
        assert count(FILES) == before[1] + 1
        assert len(events()) == len(before[2]) + 2


@fresh_process()
def test_B4_without_thread_instrumentation_objects_count_and_threads_do_not() -> None:
    """B4: thread_instrumentation off: by_instance, file and global summaries grow; current, history and by_thread do not."""
    m = Mutex("b/LOCK_one").use()
    key = key_of("file", "b/data")
    fd = C.open(key, "f", 0o102, 0o600)
    seen = [rows(view) for view in VIEWS], rows(WAITS_BY_THREAD)
    consumer("thread_instrumentation", False)
    m.use(3)
    C.write(fd, 10)
    assert ([rows(view) for view in VIEWS], rows(WAITS_BY_THREAD)) == seen
    assert count(WAITS_BY_INSTANCE, EVENT_NAME=MUTEX + "b/LOCK_one") == 4
    assert (one(FILES)["COUNT_WRITE"], one(FILES_BY_INSTANCE)["SUM_NUMBER_OF_BYTES_WRITE"]) == (1, 10)
    assert count(WAITS) == 4 + 2


@fresh_process()
@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("history_long", [True, False])
@pytest.mark.parametrize("current", [True, False])
def test_B5_B6_histories_need_current_and_not_each_other(current: bool, history: bool, history_long: bool) -> None:
    """B5: a history records nothing with its current off. B6: history and history_long are independent."""
    m = Mutex("b/LOCK_one")
    for name, on in (("current", current), ("history", history), ("history_long", history_long)):
        consumer("events_waits_" + name, on)
    m.use(2)
    assert len(rows(CURRENT)) == int(current)
    assert len(rows(HISTORY)) == 2 * int(current and history)
    assert len(rows(HISTORY_LONG)) == 2 * int(current and history_long)
    assert count(WAITS) == 2
    assert {row["NAME"]: row["ENABLED"] for row in rows("setup_consumers")}["events_waits_history"] == (
        "YES" if history else "NO"
    )


HIERARCHY = {
    "events_waits_history": "events_waits_current",
    "events_waits_history_long": "events_waits_current",
    "events_waits_current": "thread_instrumentation",
    "thread_instrumentation": "global_instrumentation",
}


@fresh_process()
@pytest.mark.parametrize("name", list(HIERARCHY))
def test_B_hierarchy_a_consumer_acts_only_if_all_above_act(name: str) -> None:
    """consumers.json, rules: a consumer acts only if it and every one above it are enabled; ENABLED itself never changes for
    it."""
    m = Mutex("b/LOCK_one")
    above = name
    while above in HIERARCHY:
        above = HIERARCHY[above]
        consumer(above, False)
        m.use()
        assert rows(HISTORY) == rows(HISTORY_LONG) == rows(CURRENT) == []
        off = {row["NAME"] for row in rows("setup_consumers") if row["ENABLED"] == "NO"}
        assert off == {"events_statements_cpu", "lock_holds", above}
        consumer(above, True)
    m.use()
    assert len(rows(HISTORY)) == len(rows(HISTORY_LONG)) == len(rows(CURRENT)) == 1


@fresh_process()
@pytest.mark.parametrize("instrumented", [True, False])
@pytest.mark.parametrize("history", [True, False])
@pytest.mark.parametrize("consumer_on", [True, False])
def test_B8_threads_flags(instrumented: bool, history: bool, consumer_on: bool) -> None:
    """B8: INSTRUMENTED=NO silences a thread; HISTORY=NO keeps it out of both histories only; consumers filter besides."""
    m = Mutex("b/LOCK_one")
    worker = Worker()
    consumer("events_waits_history", consumer_on)
    pfs.threads[worker.id].instrumented = instrumented
    pfs.threads[worker.id].history = history
    worker.do(m.use, 2)
    m.use()
    name = MUTEX + "b/LOCK_one"
    assert count(WAITS_BY_THREAD, THREAD_ID=worker.id) == 2 * int(instrumented)
    assert count(WAITS_BY_INSTANCE) == count(WAITS, EVENT_NAME=name) == 1 + 2 * int(instrumented)
    assert len(rows(CURRENT, THREAD_ID=worker.id)) == int(instrumented)
    assert len(rows(HISTORY, THREAD_ID=worker.id)) == 2 * int(instrumented and history and consumer_on)
    assert len(rows(HISTORY_LONG, THREAD_ID=worker.id)) == 2 * int(instrumented and history)
    assert len(rows(HISTORY, THREAD_ID=me())) == int(consumer_on)


@fresh_process()
def test_B9_a_history_consumer_acts_at_once_on_running_threads() -> None:
    """B9: switching a history consumer acts on the next event of running threads."""
    m = Mutex("b/LOCK_one")
    worker = Worker()
    worker.do(m.use)
    for on, expected in ((False, 1), (True, 2), (False, 2), (True, 3)):
        for name in ("events_waits_history", "events_waits_history_long"):
            consumer(name, on)
        worker.do(m.use)
        assert len(rows(HISTORY, THREAD_ID=worker.id)) == len(rows(HISTORY_LONG, THREAD_ID=worker.id)) == expected
        assert len(rows(CURRENT, THREAD_ID=worker.id)) == 1


# ---- E: histories ------------------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_events_waits_history_size={size}")
@pytest.mark.parametrize("size", [1, 4, 10, 31, 32, 33, 100])
def test_E1_history_is_the_last_n_of_each_live_thread(size: int) -> None:
    """E1: N + 3 (and many more) events leave the newest N rows of each live thread."""
    m = Mutex("e/LOCK_one")
    worker = Worker()
    for more in (size - 1, 1, 3, 200):
        m.use(more)
        worker.do(m.use, more)
    total = size + 203
    for thread in (me(), worker.id):
        assert [row["EVENT_ID"] for row in events(HISTORY, THREAD_ID=thread)] == list(range(total - size + 1, total + 1))


@fresh_process("performance_schema_events_waits_history_long_size={size}")
@pytest.mark.parametrize("size", [1, 5, 32, 50, 1000])
def test_E1_history_long_is_the_last_m_of_the_process(size: int) -> None:
    """E1: of all threads' events the last M to finish are left."""
    m = Mutex("e/LOCK_one")
    workers = [Worker() for _ in range(3)]
    finished: list[tuple[int, int]] = []
    number = dict.fromkeys([me(), *[worker.id for worker in workers]], 0)
    for i in range(size + 70):
        turn = i * 7 % 4
        if turn == 3:
            m.use()
            thread = me()
        else:
            workers[turn].do(m.use)
            thread = workers[turn].id
        number[thread] += 1
        finished.append((thread, number[thread]))
        if i in (0, size // 2, size - 1, size, size + 1, size + 69):
            assert {(row["THREAD_ID"], row["EVENT_ID"]) for row in rows(HISTORY_LONG)} == set(finished[-size:])


@fresh_process("performance_schema_events_waits_history_size=3")
def test_E1_history_is_by_end_not_by_begin() -> None:
    """E1, E6: an outer wait enters history after what is nested in it."""
    outer, leaf = OwnLock("e/LOCK_outer", 0x10), Mutex("e/LOCK_leaf")
    wait = outer.begin()  # 1
    leaf.use(50)
    assert [row["EVENT_ID"] for row in events(HISTORY)] == [49, 50, 51]
    outer.end(wait)
    assert [row["EVENT_ID"] for row in events(HISTORY)] == [1, 50, 51]
    leaf.use()
    assert [row["EVENT_ID"] for row in events(HISTORY)] == [1, 51, 52]
    leaf.use(2)
    assert [row["EVENT_ID"] for row in events(HISTORY)] == [52, 53, 54]


@fresh_process()
def test_E3_a_thread_that_ended_leaves_only_history_long() -> None:
    """E3: rows of an ended thread leave current, history and by_thread; history_long keeps them."""
    m = Mutex("e/LOCK_one")
    worker = Worker()
    worker.do(m.use, 5)
    assert len(rows(HISTORY, THREAD_ID=worker.id)) == 5
    worker.end()
    for table in (CURRENT, HISTORY, WAITS_BY_THREAD, "threads"):
        assert rows(table, THREAD_ID=worker.id) == []
    assert len(rows(HISTORY_LONG, THREAD_ID=worker.id)) == 5
    assert count(WAITS) == count(WAITS_BY_INSTANCE) == 5


@fresh_process("performance_schema_events_waits_history_size={size},performance_schema_events_waits_history_long_size={long}")
@pytest.mark.parametrize(("size", "long"), [(0, 10), (10, 0), (0, 0)])
def test_E4_size_0_is_an_empty_table(size: int, long: int) -> None:
    """E4: size 0: no rows though the consumer is on, and no error."""
    Mutex("e/LOCK_one").use(5)
    assert len(rows(HISTORY)) == min(size, 5)
    assert len(rows(HISTORY_LONG)) == min(long, 5)
    assert len(rows(CURRENT)) == 1
    assert count(WAITS) == 5
    assert losses() == {}
    assert pfs.setup_consumers["events_waits_history"].enabled is True


@fresh_process()
def test_E5_only_finished_events_are_in_histories() -> None:
    """E5: END_EVENT_ID is not NULL in histories; an open event is in current only."""
    outer, leaf = OwnLock("e/LOCK_outer", 0x10), Mutex("e/LOCK_leaf")
    leaf.use(3)
    wait = outer.begin()
    leaf.use(3)
    for table in (HISTORY, HISTORY_LONG):
        assert len(rows(table)) == 6
        assert all(row["END_EVENT_ID"] is not None for row in rows(table))
    assert names_of(rows(CURRENT)) == [MUTEX + "e/LOCK_outer"]
    outer.end(wait)


@fresh_process("performance_schema_events_waits_history_size=-1,performance_schema_events_waits_history_long_size=-1")
def test_E7_sizes_of_a_fresh_process() -> None:
    """E7: autosized to 10 rows a thread, and in all to what a quarter of the second-level cache holds."""
    known = os.sysconf("SC_LEVEL2_CACHE_SIZE") if "SC_LEVEL2_CACHE_SIZE" in os.sysconf_names else 0
    of_system = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    cache = known if known > 0 else int(of_system.read_text().strip("K\n")) << 10 if of_system.exists() else 0
    long = min(max(cache // 640, 1000), 10000) if cache else 10000
    assert (pfs.variables["events_waits_history_size"], pfs.variables["events_waits_history_long_size"]) == (10, long)


@fresh_process()
def test_D9_current_shows_all_running_waits_or_the_last_top_level_one() -> None:
    """D9: all running waits of a thread while busy, exactly one row, its last top-level wait, when idle."""
    outer, inner = OwnLock("e/LOCK_outer", 0x10), OwnLock("e/LOCK_inner", 0x20)
    assert rows(CURRENT) == []
    first = outer.begin()
    second = inner.begin()
    assert [row["EVENT_ID"] for row in events(CURRENT)] == [1, 2]
    inner.end(second)
    assert [row["EVENT_ID"] for row in events(CURRENT)] == [1]
    outer.end(first)
    assert [(row["EVENT_ID"], row["END_EVENT_ID"]) for row in events(CURRENT)] == [(1, 2)]
    inner.use()
    assert [row["EVENT_ID"] for row in events(CURRENT)] == [3]


# ---- G6, L -------------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_G6_threads_say_their_type_and_parent() -> None:
    """G6: FOREGROUND iff registered with the user flag; PROCESSLIST_ID is NULL for background threads."""
    key_of("thread", "g/session", 64)
    key_of("thread", "g/helper")
    workers = {name: Worker() for name in ("g/session", "g/helper", "g/nobody")}
    for name, worker in workers.items():
        worker.do(perfschema().pfs_set_thread_name, name.encode())
    found = {row["NAME"]: row for row in rows("threads")}
    assert {name: found["thread/" + name]["TYPE"] for name in workers} == {
        "g/session": "FOREGROUND",
        "g/helper": "BACKGROUND",
        "g/nobody": "BACKGROUND",
    }
    assert found["thread/g/helper"]["PROCESSLIST_ID"] is None
    assert found["thread/g/session"]["PROCESSLIST_ID"] is not None
    assert len({row["THREAD_ID"] for row in found.values()}) == len(found)
    assert all(row["PARENT_THREAD_ID"] in (None, me()) for row in found.values())
    assert len({row["THREAD_OS_ID"] for row in found.values()}) == len(found)


@fresh_process()
def test_L9_a_fresh_process_has_lost_nothing_and_counters_never_go_down() -> None:
    """L9: every *_lost counter is 0 at start, and TRUNCATE leaves them alone."""
    Mutex("l/LOCK_one").use()
    assert losses() == {}
    locks = [OwnLock("l/LOCK_deep", 0x10 + i) for i in range(6)]
    waits = [lock.begin() for lock in locks]
    assert losses() == {"Performance_schema_locker_lost": 1}
    pfs.truncate("global_status")
    assert losses() == {"Performance_schema_locker_lost": 1}
    for lock, wait in reversed(list(zip(locks, waits, strict=True))):
        lock.end(wait)
    assert losses() == {"Performance_schema_locker_lost": 1}


@fresh_process("performance_schema=OFF")
def test_L10_monitor_off_tables_are_empty_keys_are_0_and_the_program_runs() -> None:
    """L10: performance_schema=OFF: registrations give key 0, everything works, tables are readable, only the always
    available have rows."""
    assert perfschema().pfs_is_on() == 0
    assert key_of("mutex", "l/LOCK_one") == key_of("file", "l/data") == key_of("thread", "l/worker") == 0
    m = Mutex(0).use(3)
    assert m.lock() == 0
    assert m.trylock() == EBUSY
    assert m.unlock() == m.free() == 0
    fd = C.open(0, "f", 0o102, 0o600)
    assert (C.write(fd, 100), C.lseek(fd, 0, 0), C.read(fd, 200), C.close(fd)) == (100, 0, 100, 0)
    assert {table for table in pfs.tables() if rows(table)} <= {
        table for table in pfs.tables() if pfs._core.table_info(table)["available_when_disabled"]
    }
    assert pfs.variables["performance_schema"] == "OFF"
    assert "OFF" in str(pfs.status["Performance_schema_status_reason"])
    for call in (partial(pfs.setup_consumers.update, enabled=True), partial(pfs.setup.setup_timers.update, timer_name="TICK")):
        assert call() == 0
    pfs.truncate(HISTORY)


@fresh_process()
def test_L13_names_are_cut_to_the_width_of_their_column() -> None:
    """L13: of a file's name beyond 512 bytes the beginning, a hash and the end are shown; the program runs on."""

    deep = os.getcwd()
    while len(deep) < 560:
        deep += "/" + "d" * 60
        os.mkdir(deep)
    key = key_of("file", "l/deep")
    fd = C.open(key, deep + "/file", 0o102, 0o600)
    assert fd >= 0
    assert C.write(fd, 10) == 10
    shown = one("file_instances")["FILE_NAME"]
    beginning, _, end = shown.split("~")
    assert len(shown) == 512
    assert (deep + "/file").startswith(beginning)
    assert (deep + "/file").endswith(end)
    assert events()[-1]["OBJECT_NAME"] == shown
    C.close(fd)
