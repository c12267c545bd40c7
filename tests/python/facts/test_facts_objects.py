"""Instruments (semantics.md C), mutexes and files (H), summaries and TRUNCATE (F), limits. Each test runs in a process of its
own."""

from __future__ import annotations

import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process

CREATE = os.O_RDWR | os.O_CREAT
SUMMARIES = (WAITS, WAITS_BY_INSTANCE, WAITS_BY_THREAD, FILES, FILES_BY_INSTANCE)


def opened(key: int, path: str) -> int:
    fd = int(C.open(key, path, CREATE, 0o600))
    assert fd >= 0
    return fd


# ---- C: instruments ----------------------------------------------------------------------------------------------------------


@fresh_process()
def test_C1_registered_instruments_are_enabled_and_timed_unless_told_otherwise() -> None:
    """C1 as pfs has it: on and timed; PFS_DISABLED and PFS_UNTIMED start otherwise."""
    for name, flags in (("LOCK_plain", 0), ("LOCK_disabled", 8192), ("LOCK_untimed", 16384)):
        key_of("mutex", "c/" + name, flags)
    key_of("file", "c/data")
    found = {row["NAME"].rpartition("/")[2]: (row["ENABLED"], row["TIMED"]) for row in rows("setup_instruments")}
    assert found["LOCK_plain"] == found["data"] == ("YES", "YES")
    assert found["LOCK_disabled"][0] == "NO"
    assert found["LOCK_untimed"] == ("YES", "NO")


@fresh_process()
def test_C3_registering_a_name_again_gives_the_same_key_and_no_row() -> None:
    """C3: same full name, same key, one row."""
    keys = [key_of("mutex", name) for name in ("c/LOCK_a", "c/LOCK_b", "c/LOCK_a", "c/LOCK_b")]
    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]
    with pfs.Lock("c/LOCK_a"):
        pass
    assert len(rows("setup_instruments")) == 2
    key_of("file", "c/LOCK_a")
    assert len(rows("setup_instruments")) == 3


@fresh_process()
@pytest.mark.parametrize(
    ("component", "name", "good"),
    [
        ("a" * 13, "b" * 97, True),
        ("a" * 13, "b" * 98, False),
        ("a" * 60, "b" * 50, True),
        ("a" * 60, "b" * 51, False),
        ("a" * 90, "b", True),
        ("a/b", "c", True),
        ("", "c", False),
        ("a", "", False),
        ("a", "b\n", False),
        ("a", "é" * 20, True),
    ],
)
def test_C4_names_that_break_the_taxonomy_get_key_0(component: str, name: str, good: bool) -> None:
    """C4, with longer components: full name at most 128 bytes, nothing empty: else key 0, an error that says what is legal, no
    row."""
    import ctypes

    keys = (ctypes.c_uint32 * 3)(9, 9, 9)
    if component == "a/b":
        assert C.register_batch(b"a/b", b"c", keys) == 1
        assert list(keys) == [0, 0, 0]
        assert rows("setup_instruments") == []
        return
    before = settings()
    assert (C.register_batch(component.encode(), name.encode(), keys) == 0) is good
    if good:
        assert one("setup_instruments", NAME=f"{MUTEX}{component}/{name}")["ENABLED"] == "YES"
        assert min(keys) > 0
    elif component:
        # The others of the batch are registered.
        assert keys[1] == 0
        assert keys[0] != 0
        assert keys[2] != 0
        assert len(rows("setup_instruments")) == 2
    else:
        assert list(keys) == [0, 0, 0]
        assert settings() == before
    if not good:
        text = perfschema().pfs_last_error().decode()
        assert "legal" in text or "empty" in text
        if component:
            raises(pfs.InvalidValue, lambda: pfs.Lock(f"{component}/{name}"), "legal" if name else "empty")
            longer = name and name + "b" * (len(MUTEX) - len("wait/app/"))  # its full names have more room
            raises(pfs.InvalidValue, lambda: pfs.wait(f"{component}/{longer}"), "legal" if name else "empty")


@fresh_process("performance_schema_max_mutex_classes={limit},performance_schema_max_file_classes={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_C5_class_limit_gives_key_0_and_counts_the_loss(limit: int) -> None:
    """C5: beyond the limit: key 0, *_classes_lost; objects of key 0 are plain and no lost instances."""
    for i in range(5):
        key, error = register("mutex", f"c/LOCK_{i}")
        assert (error, key != 0) == (0, i < limit)
        m = Mutex(key).use(2)
        assert m.free() == 0
        key, error = register("file", f"c/file_{i}")
        assert (error, key != 0) == (0, i < limit)
        fd = opened(key, f"f{i}")
        assert (C.write(fd, 10), C.close(fd)) == (10, 0)
    assert (status("mutex_classes_lost"), status("file_classes_lost")) == (5 - limit, 5 - limit)
    assert set(losses()) == {"Performance_schema_mutex_classes_lost", "Performance_schema_file_classes_lost"}
    assert len(rows("setup_instruments")) == 2 * limit
    assert count(WAITS) == limit * (2 + 3)
    assert key_of("mutex", "c/LOCK_0") == (0 if limit == 0 else 1)
    assert len(rows("file_instances")) == limit


@fresh_process("performance_schema_max_mutex_instances={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_C6_mutex_instance_limit(limit: int) -> None:
    """C6: beyond the limit creation succeeds uninstrumented and is counted each time; freed slots are used again."""
    key = key_of("mutex", "c/LOCK_one")
    mutexes = [Mutex(key).use(3) for _ in range(5)]
    assert len(rows("mutex_instances")) == limit
    assert status("mutex_instances_lost") == 5 - limit
    assert count(WAITS) == 3 * limit
    for m in mutexes:
        assert m.free() == 0
    assert rows("mutex_instances") == []
    Mutex(key).use()
    assert len(rows("mutex_instances")) == min(limit, 1)
    assert status("mutex_instances_lost") == 5 - limit + (limit == 0)
    assert count(WAITS) == 3 * limit + min(limit, 1)
    if limit == 0:
        with pfs.Lock("c/LOCK_one"):
            pass
        assert status("mutex_instances_lost") == 7


@fresh_process("performance_schema_max_file_instances={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_C6_file_instance_limit(limit: int) -> None:
    """C6 for files: the rest are counted as lost, keep working, and count by event name at most."""
    key = key_of("file", "c/data")
    for i in range(4):
        fd = opened(key, f"f{i}")
        assert C.write(fd, 10) == 10
        assert C.close(fd) == 0
    assert len(rows("file_instances")) == limit
    assert status("file_instances_lost") == 4 - limit
    assert one(FILES)["COUNT_STAR"] >= 3 * limit + (4 - limit)
    assert count(FILES_BY_INSTANCE) == 3 * limit
    for i in range(4):
        assert C.unlink(key, f"f{i}") == 0
    assert rows("file_instances") == []
    fd = opened(key, "again")
    assert len(rows("file_instances")) == min(limit, 1)
    C.close(fd)


@fresh_process("performance_schema_max_file_instances=40")
def test_C6_slots_that_a_thread_has_in_advance_are_not_missing() -> None:
    """C6 for files: a file is lost only if as many are live as the option allows, whatever other threads have ready."""
    key = key_of("file", "c/data")

    def open_some(first: int, end: int) -> None:
        for i in range(first, end):
            assert C.close(opened(key, f"f{i}")) == 0

    done, go_on = threading.Event(), threading.Event()

    def open_and_wait() -> None:
        open_some(0, 9)
        done.set()
        go_on.wait()

    other = threading.Thread(target=open_and_wait, daemon=True)
    other.start()
    done.wait()
    open_some(9, 40)
    assert len(rows("file_instances")) == 40
    assert status("file_instances_lost") == 0
    go_on.set()
    other.join()
    open_some(40, 41)
    assert status("file_instances_lost") == 1


@fresh_process("performance_schema_max_file_handles={limit}")
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_H12_descriptors_beyond_the_limit_are_lost_but_known_by_name(limit: int) -> None:
    """H12: descriptor >= max_file_handles: file_handles_lost, the file is still known by name; the program runs on."""
    key = key_of("file", "h/data")
    descriptors = [opened(key, f"f{i}") for i in range(4)]
    beyond = [fd for fd in descriptors if fd >= limit]
    for fd in descriptors:
        assert C.write(fd, 10) == 10
        assert C.close(fd) == 0
    assert status("file_handles_lost") == len(beyond)
    assert len(rows("file_instances")) == 4
    assert one(FILES)["COUNT_WRITE"] == 4 - len(beyond)
    assert {row["OPEN_COUNT"] for row in rows("file_instances")} == {0}


@fresh_process()
def test_files_of_long_names_that_begin_alike_are_several_files() -> None:
    """A name beyond FILE_NAME's 512 bytes keeps its beginning and its end, and between them a hash tells it from others."""
    key = key_of("file", "c/data")
    with tempfile.TemporaryDirectory() as folder:
        deep = Path(folder, *["d" * 200] * 3)
        names = [Path(deep, middle * 100, end) for middle in ("é", "ê") for end in ("one", "two")]
        for times, name in enumerate(names, 1):
            name.parent.mkdir(parents=True, exist_ok=True)
            for _ in range(times):
                assert C.close(opened(key, str(name))) == 0
        shown = [row["FILE_NAME"] for row in rows("file_instances")]
        assert len(set(shown)) == 4
        for name in names:
            (row,) = [row for row in rows("file_instances") if row["FILE_NAME"].endswith(str(name)[-100:])]
            assert row["FILE_NAME"].startswith(str(name)[:200])
            assert 500 <= len(row["FILE_NAME"].encode()) <= 512
            assert re.fullmatch(r".*~[0-9a-f]{16}~.*", row["FILE_NAME"])


@fresh_process("performance_schema_max_thread_instances={limit}")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_limit_of_threads_the_rest_run_unseen(limit: int) -> None:
    """Law 1, C6 for threads: threads beyond the limit run on, are counted as lost, and leave no event."""
    m = Mutex("c/LOCK_one").use()
    workers = [Worker() for _ in range(4)]
    for worker in workers:
        worker.do(m.use, 3)
    assert len(rows("threads")) == limit
    # Of main and four workers; what the rest did is counted as events: three each, and one of main's.
    assert status("thread_instances_lost") == 5 - limit
    assert status("locker_lost") >= 3 * (4 - limit) + (1 if limit == 0 else 0)
    assert {row["THREAD_ID"] for row in rows(HISTORY_LONG)} == {row["THREAD_ID"] for row in rows("threads")}
    if limit:
        seen = sum(1 for worker in workers if worker.id)
        assert count(WAITS) == 1 + 3 * seen if me() else 3 * seen
        for worker in workers:
            worker.end()
        fresh = Worker()
        fresh.do(m.use)
        assert (fresh.id != 0) is (limit > 1)


@fresh_process("performance_schema_max_source_locations={limit}")
@pytest.mark.parametrize("limit", [0, 1])
def test_limit_of_sources_leaves_source_null(limit: int) -> None:
    """Law 1: call sites beyond the limit have no SOURCE, and are counted as lost."""
    m = Mutex("c/LOCK_one").use(2)
    assert m.lock() == 0
    assert m.trylock() == EBUSY
    m.unlock()
    assert [row["SOURCE"] is None for row in events()] == [limit == 0] * 3 + [True]
    assert status("source_locations_lost") > 0
    assert count(WAITS) == 4


@fresh_process("performance_schema_max_object_cells={limit}")
@pytest.mark.parametrize("limit", [0, 1])
def test_limit_of_cells_is_counted(limit: int) -> None:
    """Law 1: without room for a thread's statistics of a file the loss is counted, and the instrument has all events."""
    key = key_of("file", "c/data")
    for i in range(3):
        fd = opened(key, f"f{i}")
        assert (C.write(fd, 10), C.close(fd)) == (10, 0)
    assert status("object_cells_lost") > 0
    assert len(rows("file_instances")) == 3
    assert len(events()) == 9
    assert count(WAITS) == count(WAITS_BY_THREAD) == 9
    assert count(FILES) == 9
    pfs.truncate(WAITS)
    assert count(WAITS) == 0
    fd = opened(key, "f3")
    assert (C.write(fd, 10), C.close(fd)) == (10, 0)
    assert count(WAITS) == 3
    (row,) = rows(FILES, COUNT_STAR=3)
    assert (row["COUNT_WRITE"], row["SUM_NUMBER_OF_BYTES_WRITE"]) == (1, 10)


@fresh_process()
def test_C7_disabled_classes_list_their_objects_and_do_not_count() -> None:
    """C7: instances of a disabled class are listed and count as soon as it is enabled; files opened while disabled are not
    listed."""
    key = key_of("mutex", "c/LOCK_one", 8192)
    m = Mutex(key).use(3)
    assert len(rows("mutex_instances")) == len(rows(WAITS_BY_INSTANCE)) == 1
    assert count(WAITS_BY_INSTANCE) == count(WAITS) == len(events()) == 0
    instrument(MUTEX + "c/LOCK_one", enabled=True, timed=True)
    m.use()
    assert count(WAITS_BY_INSTANCE) == count(WAITS) == len(events()) == 1
    file = key_of("file", "c/data", 8192)
    fd = opened(file, "f")
    C.write(fd, 10)
    instrument(FILE + "c/data", enabled=True)
    C.write(fd, 10)
    assert rows("file_instances") == []
    C.close(fd)
    fd = opened(file, "f")
    C.write(fd, 10)
    assert one(FILES_BY_INSTANCE)["SUM_NUMBER_OF_BYTES_WRITE"] == 10
    instrument(FILE + "c/data", enabled=False)
    C.write(fd, 10)
    C.close(fd)
    assert one(FILES_BY_INSTANCE)["SUM_NUMBER_OF_BYTES_WRITE"] == 10
    assert one("file_instances")["OPEN_COUNT"] == 0


PRESETS = ",".join(
    f"performance_schema_instrument='{text}'"
    for text in (
        "%=off",
        "wait/synch/mutex/%=on",
        "wait/synch/mutex/c/%=counted",
        "wait/synch/mutex/c/LOCK_a%=off",
        "wait/synch/mutex/c/LOCK_ab=ON",
        "wait/synch/mutex/c/LOCK_q?=yes",
        "wait/synch/mutex/c/LOCK_same=off",
        "wait/synch/mutex/c/LOCK_same=counted",
        "wait/io/file/c/bad=perhaps",
        "wait/io/file/c/none",
        "wait/io/file/c/%=no",
        "WAIT/IO/file/c/CASE=true",
        "wait/io/file/c/zero=0",
        "wait/io/file/c/one=1",
    )
)


@fresh_process(
    PRESETS
    + ",performance_schema_consumer_events_waits_history=OFF,performance_schema_consumer_events_waits_history_long='maybe'"
)
def test_C8_start_time_presets() -> None:
    """C8: the longest matching pattern wins; COUNTED = enabled, not timed; % and ? are wildcards; bad values are ignored and
    told."""
    expected = {
        "mutex d/LOCK_x": ("YES", "YES"),
        "mutex c/LOCK_x": ("YES", "NO"),
        "mutex c/LOCK_a": ("NO", "NO"),
        "mutex c/LOCK_abc": ("NO", "NO"),
        "mutex c/LOCK_ab": ("YES", "YES"),
        "mutex c/LOCK_q1": ("YES", "YES"),
        "mutex c/LOCK_q12": ("YES", "NO"),
        "mutex c/LOCK_same": ("YES", "NO"),
        "file d/x": ("NO", "NO"),
        "file c/bad": ("NO", "NO"),
        "file c/none": ("NO", "NO"),
        "file c/case": ("YES", "YES"),
        "file c/zero": ("NO", "NO"),
        "file c/one": ("YES", "YES"),
    }
    for name in expected:
        key_of(*name.split(" "))  # type: ignore[arg-type]
    found = {row["NAME"]: (row["ENABLED"], row["TIMED"]) for row in rows("setup_instruments")}
    prefix = {"mutex": MUTEX, "file": FILE}
    assert {name: found[prefix[name.split()[0]] + name.split()[1]] for name in expected} == expected
    assert pfs.setup_consumers["events_waits_history"].enabled is False
    assert pfs.setup_consumers["events_waits_history_long"].enabled is True
    assert "perhaps" in str(pfs.status["Performance_schema_status_reason"])
    m = Mutex("c/LOCK_x").use()
    assert one(HISTORY_LONG)["TIMER_WAIT"] is None
    assert count(WAITS_BY_INSTANCE, OBJECT_INSTANCE_BEGIN=m.at) == 1


@fresh_process()
def test_C9_C10_properties_volatility_and_documentation_read_back() -> None:
    """C9: singleton is shown and its dead statistics stay. C10: VOLATILITY 0..8; empty documentation is NULL; long text is
    cut."""
    for i in range(9):
        key_of("mutex", f"c/LOCK_{i}", i << 24, f"Number {i}.")
    single = key_of("mutex", "c/LOCK_single", 1)
    key_of("mutex", "c/LOCK_empty", 0, "")
    key_of("mutex", "c/LOCK_long", 0, "x" * 5000)
    found = {row["NAME"].rpartition("_")[2]: row for row in rows("setup_instruments")}
    assert [(found[str(i)]["VOLATILITY"], found[str(i)]["DOCUMENTATION"]) for i in range(9)] == [
        (i, f"Number {i}.") for i in range(9)
    ]
    assert found["single"]["PROPERTIES"] == "singleton"
    assert found["0"]["PROPERTIES"] == ""
    assert found["single"]["DOCUMENTATION"] is None
    assert found["empty"]["DOCUMENTATION"] is None
    assert set(found["long"]["DOCUMENTATION"]) == {"x"}
    m = Mutex(single).use(4)
    m.free()
    assert one(WAITS, EVENT_NAME=MUTEX + "c/LOCK_single")["COUNT_STAR"] == 4


@fresh_process()
def test_C11_untimed_events_raise_the_count_and_lower_the_average() -> None:
    """C11: 3 timed + 3 untimed events: SUM, MIN, MAX keep the timed part, AVG = SUM / 6."""
    m = Mutex("c/LOCK_one").use(3)
    before = one(WAITS_BY_INSTANCE)
    assert before["AVG_TIMER_WAIT"] == before["SUM_TIMER_WAIT"] // 3
    instrument(MUTEX + "c/LOCK_one", timed=False)
    m.use(3)
    for table in (WAITS_BY_INSTANCE, WAITS, WAITS_BY_THREAD):
        row = one(table)
        assert row["COUNT_STAR"] == 6
        assert [row[c] for c in ("SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "MAX_TIMER_WAIT")] == [
            before[c] for c in ("SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "MAX_TIMER_WAIT")
        ]
        assert row["AVG_TIMER_WAIT"] == before["SUM_TIMER_WAIT"] // 6


@fresh_process()
def test_C12_C13_every_instrument_has_a_row_of_zeros() -> None:
    """C12: never timed or never used: SUM, MIN, AVG, MAX are 0, not NULL. C13: one row for each instrument of the family."""
    for i in range(5):
        key_of("mutex", f"c/LOCK_{i}")
        key_of("file", f"c/file_{i}")
    m = Mutex("c/LOCK_0")
    fd = opened(key_of("file", "c/file_0"), "f")
    pfs.truncate(WAITS)
    pfs.truncate(WAITS_BY_THREAD)
    assert (len(rows(WAITS)), len(rows(FILES)), len(rows(WAITS_BY_THREAD, THREAD_ID=me()))) == (10, 5, 10)
    assert set(names_of(rows(WAITS))) == {row["NAME"] for row in rows("setup_instruments")}
    for table in SUMMARIES:
        for row in rows(table):
            assert {v for c, v in row.items() if c.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX_T"))} == {0}
    instrument(MUTEX + "c/LOCK_0", timed=False)
    m.use()
    row = one(WAITS, EVENT_NAME=MUTEX + "c/LOCK_0")
    assert [row[c] for c in row if "TIMER" in c] == [0] * 4
    C.close(fd)


# ---- H: mutexes and files ----------------------------------------------------------------------------------------------------


@fresh_process()
def test_H1_owner_of_a_mutex() -> None:
    """H1: LOCKED_BY_THREAD_ID is set by a successful lock, NULL after unlock; a failed try_lock is an event without an owner."""
    m = Mutex("h/LOCK_one")
    worker = Worker()
    assert one("mutex_instances") == {"NAME": MUTEX + "h/LOCK_one", "OBJECT_INSTANCE_BEGIN": m.at, "LOCKED_BY_THREAD_ID": None}
    assert worker.do(m.lock) == 0
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == worker.id
    assert m.trylock() == EBUSY
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == worker.id
    assert count(WAITS) == 2
    assert (events()[-1]["OPERATION"] if me() > worker.id else events()[0]["OPERATION"]) == "try_lock"
    worker.do(m.unlock)
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] is None
    assert m.trylock() == 0
    assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == me()
    m.unlock()
    assert count(WAITS) == 3
    own = OwnLock("h/LOCK_own", 0x99)
    own.end(own.begin(), rc=110)
    assert one("mutex_instances", OBJECT_INSTANCE_BEGIN=0x99)["LOCKED_BY_THREAD_ID"] is None


@fresh_process()
def test_H4_destroying_a_mutex_moves_its_numbers_to_its_class() -> None:
    """H4: the instance and its by_instance row go, totals keep the numbers."""
    name = MUTEX + "h/LOCK_one"
    m = Mutex("h/LOCK_one").use(5)
    Worker().do(m.use, 2)
    assert m.lock() == 0
    assert m.trylock() == EBUSY
    m.unlock()
    before = one(WAITS, EVENT_NAME=name)
    assert m.lock() == 0
    assert m.free() == EBUSY
    assert len(rows("mutex_instances")) == 1
    m.unlock()
    assert m.free() == 0
    assert rows("mutex_instances") == rows(WAITS_BY_INSTANCE) == []
    after = one(WAITS, EVENT_NAME=name)
    assert after["COUNT_STAR"] == before["COUNT_STAR"] + 1 == 10
    assert after["SUM_TIMER_WAIT"] >= before["SUM_TIMER_WAIT"] > 0
    assert after["MIN_TIMER_WAIT"] <= before["MIN_TIMER_WAIT"]


@fresh_process()
def test_H5_open_count_and_absolute_name() -> None:
    """H5: the row appears at the first open; OPEN_COUNT 1, 2, 1, 0; FILE_NAME is absolute."""
    key = key_of("file", "h/data")
    os.mkdir("sub")
    assert rows("file_instances") == []
    first = opened(key, "sub/../f")
    row = one("file_instances")
    assert row == {"FILE_NAME": os.getcwd() + "/f", "EVENT_NAME": FILE + "h/data", "OPEN_COUNT": 1}
    second = opened(key, ".//f")
    seen = [one("file_instances")["OPEN_COUNT"]]
    for fd in (second, first):
        assert C.close(fd) == 0
        seen.append(one("file_instances")["OPEN_COUNT"])
    assert seen == [2, 1, 0]
    assert C.close(first) == -1
    assert one("file_instances")["OPEN_COUNT"] == 0


@fresh_process()
def test_H5_names_are_resolved_by_their_text_alone() -> None:
    """H5: names of 400 paths of odd parts, absolute and relative, are what a plain model makes of them."""
    key = key_of("file", "h/data")
    source = random.Random(5)
    for _ in range(400):
        parts = source.choices(["", ".", "..", "...", "a", ".b", "..c", "d.", "e..f"], k=source.randint(1, 6))
        path = source.choice(["", "/", "//"]) + "/".join(parts)
        resolved: list[str] = []
        for part in (path if path.startswith("/") else f"{os.getcwd()}/{path}").split("/"):
            if part == "..":
                resolved = resolved[:-1]
            elif part not in ("", "."):
                resolved.append(part)
        C.stat(key, path)
        assert events()[-1]["OBJECT_NAME"] == "/" + "/".join(resolved), path


@fresh_process()
def test_H6_delete_removes_the_row_and_keeps_the_totals() -> None:
    """H6: delete: file_instances -1, statistics move to the event name; a failed delete changes nothing; later events of open
    descriptors count by event name."""
    key = key_of("file", "h/data")
    fd, other = opened(key, "f"), opened(key, "g")
    assert C.write(fd, 100) == 100
    before = one(FILES)
    assert C.unlink(key, "missing") == -1
    assert len(rows("file_instances")) == 2
    assert C.unlink(key, "f") == 0
    assert names_of(rows("file_instances"), "FILE_NAME") == [os.getcwd() + "/g"]
    after = one(FILES)
    assert after["SUM_NUMBER_OF_BYTES_WRITE"] == before["SUM_NUMBER_OF_BYTES_WRITE"] == 100
    assert (after["COUNT_WRITE"], after["COUNT_MISC"]) == (1, before["COUNT_MISC"] + 2)
    assert after["SUM_TIMER_WRITE"] == before["SUM_TIMER_WRITE"]
    assert C.write(fd, 50) == 50
    assert C.close(fd) == 0
    assert one(FILES)["SUM_NUMBER_OF_BYTES_WRITE"] == 150
    assert (
        count(FILES) == count(FILES_BY_INSTANCE) + 1 + 1 + 1 + 2 + 1
    )  # open, write, delete, then write and close, and the failed delete
    C.close(other)


@fresh_process()
def test_H7_rename_keeps_the_instance() -> None:
    """H7: same address, statistics and OPEN_COUNT under the new name; a failed rename changes nothing."""
    key = key_of("file", "h/data")
    fd = opened(key, "f")
    C.write(fd, 100)
    before = one(FILES_BY_INSTANCE)
    assert C.rename(key, "f", "no/such/folder") == -1
    failed = one(FILES_BY_INSTANCE)
    assert (failed["FILE_NAME"], failed["OBJECT_INSTANCE_BEGIN"]) == (before["FILE_NAME"], before["OBJECT_INSTANCE_BEGIN"])
    assert C.rename(key, "f", "g") == 0
    after = one(FILES_BY_INSTANCE)
    assert after["FILE_NAME"] == os.getcwd() + "/g"
    assert after["OBJECT_INSTANCE_BEGIN"] == before["OBJECT_INSTANCE_BEGIN"]
    assert after["SUM_NUMBER_OF_BYTES_WRITE"] == 100
    assert one("file_instances")["OPEN_COUNT"] == 1
    C.write(fd, 10)
    assert one(FILES_BY_INSTANCE)["SUM_NUMBER_OF_BYTES_WRITE"] == 110
    assert events()[-1]["OBJECT_NAME"] == os.getcwd() + "/g"
    again = opened(key, "f")
    assert len(rows("file_instances")) == 2
    assert C.rename(key, "g", "f") == 0
    row = one(FILES_BY_INSTANCE)
    assert (row["FILE_NAME"], row["OBJECT_INSTANCE_BEGIN"]) == (os.getcwd() + "/f", before["OBJECT_INSTANCE_BEGIN"])
    assert one(FILES)["SUM_NUMBER_OF_BYTES_WRITE"] == 110
    C.close(again)
    C.close(fd)
    assert one("file_instances")["OPEN_COUNT"] == 0


@fresh_process()
@pytest.mark.parametrize("blind", ["instrument", "thread", "global"])
def test_H6_H7_a_file_is_followed_also_while_nobody_looks(blind: str) -> None:
    """H6, H7, H8: delete and rename act on file_instances also without an event; the next file of that name starts from zero."""
    key = key_of("file", "h/data")
    for name in ("f", "g"):
        fd = opened(key, name)
        C.write(fd, 100)
        C.close(fd)

    def look(on: bool) -> None:
        if blind == "instrument":
            instrument(FILE + "h/data", enabled=on)
        elif blind == "thread":
            pfs.threads.update(me(), instrumented=on)
        else:
            consumer("global_instrumentation", on)

    before = one(FILES)
    look(False)
    assert C.unlink(key, "f") == 0
    assert C.rename(key, "g", "h") == 0
    look(True)
    assert names_of(rows("file_instances"), "FILE_NAME") == [os.getcwd() + "/h"]
    assert one(FILES) == before
    fd = opened(key, "f")
    assert one(FILES_BY_INSTANCE, FILE_NAME=os.getcwd() + "/f")["COUNT_STAR"] == 1
    C.close(fd)


@fresh_process()
def test_DESIGN_7_counts_agree_when_a_file_is_used_by_two_instruments() -> None:
    """A count is the same whichever table it is read from, also if a second instrument opens or deletes the file."""
    first, second = key_of("file", "d/first"), key_of("file", "d/second")
    worker = Worker()
    for key in (first, second):
        fd = opened(key, "f")
        C.write(fd, 10)
        worker.do(C.write, fd, 10)
        C.close(fd)
    C.stat(second, "f")
    C.rename(second, "f", "g")
    C.unlink(second, "g")
    for name in (FILE + "d/first", FILE + "d/second"):
        number = len(events(EVENT_NAME=name))
        assert count(WAITS, EVENT_NAME=name) == count(FILES, EVENT_NAME=name) == count(WAITS_BY_THREAD, EVENT_NAME=name) == number
    assert count(WAITS) == 11


@fresh_process()
def test_H8_temporary_files_disappear_at_close_and_a_new_one_starts_from_zero() -> None:
    """H8: temporary files go at close; the same name again is a fresh instance with zero counts."""
    import ctypes

    key = key_of("file", "h/temp")
    pattern = ctypes.create_string_buffer(b"tmpXXXXXX")
    fd = C.mkstemp(key, pattern)
    assert C.write(fd, 10) == 10
    name = os.getcwd() + "/" + pattern.value.decode()
    assert one("file_instances") == {"FILE_NAME": name, "EVENT_NAME": FILE + "h/temp", "OPEN_COUNT": 1}
    assert C.close(fd) == 0
    assert rows("file_instances") == rows(FILES_BY_INSTANCE) == []
    assert one(FILES)["COUNT_STAR"] == 3
    fd = opened(key, name)
    assert one(FILES_BY_INSTANCE)["COUNT_STAR"] == 1
    assert one(FILES)["COUNT_STAR"] == 4
    C.close(fd)
    assert C.unlink(key, name) == 0
    fd = opened(key, name)
    assert one(FILES_BY_INSTANCE)["COUNT_STAR"] == 1
    C.close(fd)


@fresh_process()
def test_H9_failed_open_counts_by_event_name_only() -> None:
    """H9: a missing path: COUNT_MISC +1 by event name, no instance; the event tells the flags."""
    key = key_of("file", "h/data")
    assert C.open(key, "no/such/file", os.O_RDONLY, 0) == -1
    assert C.errno() == 2
    row = one(FILES)
    assert (row["COUNT_STAR"], row["COUNT_MISC"]) == (1, 1)
    assert rows("file_instances") == rows(FILES_BY_INSTANCE) == []
    assert one(HISTORY)["OPERATION"] == "open"
    assert count(WAITS_BY_THREAD) == 1


@fresh_process("performance_schema_events_waits_history_long_size=10000")
def test_events_on_names_have_the_name_whether_or_not_there_is_a_file() -> None:
    """mkdir, rmdir, a failed open, stat of nothing; and every name is given back."""
    key = key_of("file", "h/data")
    here = os.getcwd()
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("open", lambda: C.open(key, "no/such/../file", os.O_RDONLY, 0)),
        ("create", lambda: C.creat(key, "no/file", 0o600)),
        ("mkdir", lambda: C.mkdir(key, "folder")),
        ("mkdir", lambda: C.mkdir(key, "folder")),
        ("rmdir", lambda: C.rmdir(key, "folder")),
        ("rmdir", lambda: C.rmdir(key, "folder")),
        ("stat", lambda: C.stat(key, "none")),
        ("delete", lambda: C.unlink(key, "none")),
        ("rename", lambda: C.rename(key, "none", "other")),
    ]
    results = [(call(), C.errno()) for _, call in calls]
    assert [rc for rc, _ in results] == [-1, -1, 0, -1, 0, -1, -1, -1, -1]
    assert [error for rc, error in results if rc != 0] == [2, 2, 17, 2, 2, 2, 2]
    names = ["no/file", "no/file", *["folder"] * 4, *["none"] * 3]
    assert [(e["OPERATION"], e["OBJECT_NAME"]) for e in events()] == [
        (operation, f"{here}/{name}") for (operation, _), name in zip(calls, names, strict=True)
    ]
    assert {e["OBJECT_TYPE"] for e in events()} == {"FILE"}
    assert rows("file_instances") == []
    # More names than are kept for the histories: freed names are used again, and each event that is left shows its own.
    before = losses()
    for i in range(25_000):
        C.stat(key, f"missing-{i:06}")
    assert losses() == before
    shown = [e["OBJECT_NAME"] for e in events()]
    assert len(shown) == 10_000
    assert shown == [f"{here}/missing-{i:06}" for i in range(15_000, 25_000)]
    pfs.truncate(HISTORY_LONG)
    for i in range(3000):
        C.stat(key, f"other-{i:06}")
    assert [e["OBJECT_NAME"] for e in events()] == [f"{here}/other-{i:06}" for i in range(3000)]


@fresh_process("performance_schema_events_waits_history_long_size=1000")
def test_names_of_events_take_no_more_memory_than_the_histories_need() -> None:
    """Names of all sizes, and each once. A name has 512 bytes at most, and fits in 9 granules."""
    key = key_of("file", "h/data")

    def memory() -> int:
        return int(
            one("memory_summary_global_by_event_name", EVENT_NAME="memory/performance_schema/names")[
                "CURRENT_NUMBER_OF_BYTES_USED"
            ]
        )

    def call(first: int, last: int) -> None:
        for i in range(first, last):
            C.stat(key, f"/{i:06}".ljust(7 + i * 7 % 500, "-"))

    before = losses()
    call(0, 10_000)
    taken = memory()
    call(10_000, 30_000)
    assert memory() == taken
    passing, stash, history = 256 * 9, 32 * (9 * 10 // 2), 4 * 1000
    assert taken <= 64 * (passing + stash + history) * 9 / 8 + 4096
    assert losses() == before
    # Those of the newest events are there, of whatever size.
    shown = [e["OBJECT_NAME"] for e in events()[-400:]]
    assert shown == [f"/{i:06}".ljust(7 + i * 7 % 500, "-") for i in range(29_600, 30_000)]


@fresh_process()
def test_an_open_that_blocks_shows_its_name() -> None:
    """A FIFO without a writer. From the begin of the call on, and afterwards as the file's."""
    key = key_of("file", "h/fifo")
    os.mkfifo("fifo")
    name = os.getcwd() + "/fifo"
    worker = Worker()
    worker.start(C.open, key, "fifo", os.O_RDONLY, 0)
    deadline = time.monotonic() + 20
    while not (running := [e for e in events(CURRENT) if e["END_EVENT_ID"] is None]) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [(e["OPERATION"], e["OBJECT_NAME"], e["FLAGS"]) for e in running] == [("open", name, os.O_RDONLY)]
    assert rows("file_instances") == []
    writer = os.open("fifo", os.O_WRONLY)
    fd = worker.result()
    assert fd >= 0
    assert one("file_instances")["FILE_NAME"] == name
    assert [e["OBJECT_NAME"] for e in events()] == [name]
    os.close(writer)
    C.close(fd)


@fresh_process()
def test_H10_bytes_are_those_that_were_moved() -> None:
    """H10: bytes = actually transferred; a failed call counts with 0 bytes."""
    key = key_of("file", "h/data")
    fd = opened(key, "f")
    assert [C.write(fd, 100), C.lseek(fd, 90, 0), C.read(fd, 100), C.read(fd, 100), C.pread(fd, 30, 0)] == [100, 90, 10, 0, 30]
    C.close(fd)
    fd = C.open(key, "f", os.O_RDONLY, 0)
    assert C.write(fd, 100) == -1
    assert C.errno() == 9
    row = one(FILES_BY_INSTANCE)
    assert (row["COUNT_READ"], row["SUM_NUMBER_OF_BYTES_READ"]) == (3, 40)
    assert (row["COUNT_WRITE"], row["SUM_NUMBER_OF_BYTES_WRITE"]) == (2, 100)
    found = [(e["OPERATION"], e["NUMBER_OF_BYTES"]) for e in events()]
    assert [pair for pair in found if pair[0] in ("read", "write")] == [
        ("write", 100),
        ("read", 10),
        ("read", 0),
        ("read", 30),
        ("write", 0),
    ]
    C.close(fd)


@fresh_process()
@pytest.mark.parametrize("setting", PATHS)
def test_H11_calls_on_a_known_name_count_with_any_settings(setting: str) -> None:
    """H11: open, stat and close of a known file have fast paths with each of these. The counts are the same, and the events show
    the file and its name; a call that fails, or has another key, is the slow path's."""
    key, other = key_of("file", "h/data"), key_of("file", "h/other")
    path = os.getcwd() + "/f"
    C.close(opened(key, path))
    C.stat(key, path)
    choose_path(FILE + "h/data", setting)
    for turn in range(100):
        fd = C.open(other if turn % 10 == 5 else key, path, os.O_RDWR, 0)
        assert one("file_instances")["OPEN_COUNT"] == 1
        assert C.stat(key, path) == 0
        assert C.close(fd) == 0
        assert one("file_instances")["OPEN_COUNT"] == 0
    assert C.open(key, path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600) == -1
    file = one(FILES_BY_INSTANCE)
    # A failed open has no instance: it counts by event name only.
    assert (file["COUNT_STAR"], file["COUNT_MISC"]) == (303, 303)
    assert [row["COUNT_MISC"] for row in rows(FILES, EVENT_NAME=FILE + "h/data")] == [304]
    assert one(WAITS, EVENT_NAME=FILE + "h/data")["COUNT_STAR"] == 304
    assert count(WAITS_BY_THREAD) == 304
    left_out = one(FILES, EVENT_NAME=FILE + "h/data")["COUNT_NOT_SAMPLED"]
    assert 270 < left_out < 304 if "sampled" in setting else left_out == 0
    if setting == "all on":
        ok = [event for event in events() if event["OPERATION"] != "open" or event["OBJECT_INSTANCE_BEGIN"]]
        assert [event["OPERATION"] for event in ok] == ["open", "close", "stat"] + ["open", "stat", "close"] * 100
        assert len({event["OBJECT_INSTANCE_BEGIN"] for event in ok}) == 1
        assert {(event["EVENT_NAME"], event["OBJECT_NAME"]) for event in ok} == {(FILE + "h/data", path)}
        assert file["SUM_TIMER_MISC"] == sum(event["TIMER_WAIT"] for event in ok)
    assert losses() == {}


@fresh_process()
def test_H11_star_is_read_plus_write_plus_misc() -> None:
    """H11: COUNT_STAR and SUM_TIMER_WAIT are the sums of READ, WRITE and MISC; MIN and MAX are those of all; and so in waits
    tables."""
    key = key_of("file", "h/data")
    worker = Worker()
    for i in range(20):
        fd = opened(key, f"f{i % 3}")
        C.write(fd, 1000)
        worker.do(C.lseek, fd, 0, 0)
        worker.do(C.read, fd, 2000)
        C.fstat(fd)
        C.close(fd)
        C.stat(key, f"f{i % 3}")
        C.stat(key, "none")
    C.unlink(key, "f0")
    for table in (FILES, FILES_BY_INSTANCE):
        for row in rows(table):
            assert row["COUNT_STAR"] == row["COUNT_READ"] + row["COUNT_WRITE"] + row["COUNT_MISC"]
            assert row["SUM_TIMER_WAIT"] == row["SUM_TIMER_READ"] + row["SUM_TIMER_WRITE"] + row["SUM_TIMER_MISC"]
            assert row["MAX_TIMER_WAIT"] == max(row["MAX_TIMER_READ"], row["MAX_TIMER_WRITE"], row["MAX_TIMER_MISC"])
            assert row["MIN_TIMER_WAIT"] == min(row["MIN_TIMER_READ"], row["MIN_TIMER_WRITE"], row["MIN_TIMER_MISC"])
    wait, file = one(WAITS), one(FILES)
    shared = [c for c in wait if c in file]
    assert {c: wait[c] for c in shared} == {c: file[c] for c in shared}
    found = events()
    assert (file["COUNT_STAR"], file["SUM_TIMER_WAIT"]) == (len(found), sum(row["TIMER_WAIT"] for row in found))
    assert count(WAITS_BY_THREAD) == len(found)


# ---- F: summaries and TRUNCATE -----------------------------------------------------------------------------------------------


@fresh_process()
def test_F1_summaries_are_the_arithmetic_of_their_events() -> None:
    """F1: COUNT, SUM, MIN, AVG = SUM div COUNT, MAX equal those of the events, to the picosecond, per object, thread and
    instrument."""
    locks = [Mutex("f/LOCK_a"), Mutex("f/LOCK_a"), Mutex("f/LOCK_b")]
    worker = Worker()
    for i in range(60):
        locks[i % 3].use(1 + i % 4)
        worker.do(locks[i * 5 % 3].use)
    found = events()

    def check(table: str, key: dict[str, str]) -> None:
        for row in rows(table):
            waits = [e["TIMER_WAIT"] for e in found if all(e[theirs] == row[ours] for ours, theirs in key.items())]
            assert row["COUNT_STAR"] == len(waits) > 0
            total = sum(waits)
            expected = (total, min(waits), total // len(waits), max(waits))
            assert (row["SUM_TIMER_WAIT"], row["MIN_TIMER_WAIT"], row["AVG_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) == expected

    name = {"EVENT_NAME": "EVENT_NAME"}
    check(WAITS, name)
    check(WAITS_BY_THREAD, name | {"THREAD_ID": "THREAD_ID"})
    check(WAITS_BY_INSTANCE, name | {"OBJECT_INSTANCE_BEGIN": "OBJECT_INSTANCE_BEGIN"})


@fresh_process()
def test_F4_truncate_by_thread_leaves_the_totals() -> None:
    """F4: by_thread becomes 0 for live threads; global and by_instance keep their numbers."""
    m = Mutex("f/LOCK_one").use(3)
    worker = Worker()
    worker.do(m.use, 4)
    totals = rows(WAITS), rows(WAITS_BY_INSTANCE)
    pfs.truncate(WAITS_BY_THREAD)
    assert count(WAITS_BY_THREAD) == 0
    assert (rows(WAITS), rows(WAITS_BY_INSTANCE)) == totals
    worker.do(m.use)
    assert [row["COUNT_STAR"] for row in rows(WAITS_BY_THREAD)].count(1) == 1
    assert count(WAITS) == 8
    worker.end()
    assert count(WAITS) == 8
    assert count(WAITS_BY_THREAD) == 0


@fresh_process()
def test_F8_truncate_global_resets_objects_and_classes_not_threads() -> None:
    """F8: global becomes 0, by_instance too, dead objects' part too; by_thread keeps its numbers."""
    m = Mutex("f/LOCK_one").use(3)
    Mutex("f/LOCK_one").use(2).free()
    fd = opened(key_of("file", "f/data"), "f")
    C.write(fd, 10)
    by_thread = rows(WAITS_BY_THREAD)
    pfs.truncate(WAITS)
    assert count(WAITS) == count(WAITS_BY_INSTANCE) == count(FILES) == count(FILES_BY_INSTANCE) == 0
    assert rows(WAITS_BY_THREAD) == by_thread
    m.use()
    assert counts(MUTEX + "f/LOCK_one") == {WAITS: 1, WAITS_BY_INSTANCE: 1, WAITS_BY_THREAD: 6}


@fresh_process()
def test_F9_truncate_by_instance_keeps_the_dead_objects_part() -> None:
    """F9: live objects become 0; totals of dead objects stay visible globally."""
    m = Mutex("f/LOCK_one").use(3)
    Mutex("f/LOCK_one").use(2).free()
    pfs.truncate(WAITS_BY_INSTANCE)
    assert counts(MUTEX + "f/LOCK_one") == {WAITS: 2, WAITS_BY_INSTANCE: 0, WAITS_BY_THREAD: 5}
    m.use()
    m.free()
    assert counts(MUTEX + "f/LOCK_one") == {WAITS: 3, WAITS_BY_INSTANCE: 0, WAITS_BY_THREAD: 6}


@fresh_process()
def test_F10_truncate_of_the_file_summaries() -> None:
    """F10: by_instance: instances 0, by_event_name keeps the dead files' part; by_event_name: both 0. Same seen by several
    threads."""
    key = key_of("file", "f/data")
    worker = Worker()
    live, dead = opened(key, "live"), opened(key, "dead")
    for fd in (live, dead):
        C.write(fd, 10)
        worker.do(C.write, fd, 5)
    C.close(dead)
    C.unlink(key, "dead")
    mutex = Mutex("f/LOCK_one").use(3)
    pfs.truncate(FILES_BY_INSTANCE)
    row = one(FILES_BY_INSTANCE)
    assert {v for c, v in row.items() if c.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX_T"))} == {0}
    row = one(FILES)
    assert (row["COUNT_WRITE"], row["SUM_NUMBER_OF_BYTES_WRITE"], row["COUNT_MISC"]) == (2, 15, 3)
    worker.do(C.write, live, 7)
    assert one(FILES)["SUM_NUMBER_OF_BYTES_WRITE"] == 22
    pfs.truncate(FILES)
    assert count(FILES) == count(FILES_BY_INSTANCE) == 0
    assert len(rows(FILES)) == 1
    assert counts(MUTEX + "f/LOCK_one") == {WAITS: 3, WAITS_BY_INSTANCE: 3, WAITS_BY_THREAD: 3}
    worker.do(C.write, live, 7)
    row = one(FILES_BY_INSTANCE)
    assert (row["COUNT_STAR"], row["MIN_TIMER_WAIT"]) == (1, row["MAX_TIMER_WAIT"])
    assert mutex.free() == 0


@fresh_process()
@pytest.mark.parametrize("table", SUMMARIES)
def test_F12_truncate_never_removes_rows_of_summaries(table: str) -> None:
    """F12: rows stay, their numbers become 0, also MIN and MAX."""
    Mutex("f/LOCK_one").use(3)
    fd = opened(key_of("file", "f/data"), "f")
    C.write(fd, 10)
    keys = [[v for c, v in row.items() if not c.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX"))] for row in rows(table)]
    pfs.truncate(table)
    assert [[v for c, v in row.items() if not c.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX"))] for row in rows(table)] == keys
    for row in rows(table):
        assert {v for c, v in row.items() if c.startswith(("COUNT", "SUM", "MIN", "AVG", "MAX_T"))} == {0}


@fresh_process()
@pytest.mark.parametrize("table", [CURRENT, HISTORY, HISTORY_LONG])
def test_F14_truncate_of_events_empties_only_that_table(table: str) -> None:
    """F14: 0 rows right after; other views and summaries keep theirs; a running event ends without harm, the next one shows."""
    m = Mutex("f/LOCK_one").use(3)
    lock = OwnLock("f/LOCK_own")
    wait = lock.begin()
    before = {view: rows(view) for view in (CURRENT, HISTORY, HISTORY_LONG)}
    pfs.truncate(table)
    for view, found in before.items():
        assert rows(view) == ([] if view == table else found)
    lock.end(wait, 0, NO_SPINS)
    assert count(WAITS) == 4
    m.use()
    for view in before:
        assert events(view)[-1]["EVENT_ID"] == 5
        assert events(view)[-1]["NESTING_EVENT_ID"] is None
    assert len(rows(CURRENT)) == 1


@fresh_process()
def test_F15_what_is_not_allowed_raises_and_changes_nothing() -> None:
    """F15: TRUNCATE, UPDATE, INSERT, DELETE where the table does not allow them: an error that names what is legal."""
    Mutex("f/LOCK_one").use(3)
    before = settings()
    for table in pfs.tables():
        operations = pfs._core.table_info(table)["operations"]
        if "TRUNCATE" not in operations:
            raises(pfs.OperationNotAllowed, partial(pfs.truncate, table), "TRUNCATE", table, *operations)
        if "UPDATE" not in operations:
            raises(pfs.OperationNotAllowed, partial(pfs._core.update, table, [], [("NAME", "x")]), table, *operations)
    for setup in (pfs.setup_instruments, pfs.setup_consumers, pfs.setup.setup_timers, pfs.threads):
        for call in (setup.insert, setup.delete):
            raises(pfs.OperationNotAllowed, call, setup.name, "SELECT", "UPDATE")
    assert settings() == before
    assert count(WAITS) == 3


@fresh_process()
def test_F16_key_columns_and_bad_enums_are_refused() -> None:
    """F16: updating a column that is not writable, or with a bad value: an error, and the row is as it was. Bad next to
    good: none acts."""
    Mutex("f/LOCK_one").use()
    before = settings()
    for table in ("setup_instruments", "setup_consumers", "setup_timers", "threads"):
        facts = pfs._core.table_info(table)
        writable = [column for column in facts["columns"] if column["writable"]]
        for column in facts["columns"]:
            if not column["writable"]:
                change: Any = [(writable[0]["name"], writable[0]["values"][-1]), (column["name"], "x")]
                raises(
                    pfs.OperationNotAllowed,
                    partial(pfs._core.update, table, [], change),
                    column["name"],
                    writable[0]["name"],
                )
        for column in writable:
            if column["values"] and column["kind"] == "enum":
                for bad in ("MAYBE", "", "YES ", "1"):
                    raises(
                        pfs.InvalidValue,
                        partial(pfs._core.update, table, [], [(column["name"], bad)]),
                        column["name"],
                        column["values"][0],
                    )
        raises(pfs.UnknownName, partial(pfs._core.update, table, [], [("NOTHING", "YES")]), "NOTHING")
        raises(pfs.UnknownName, partial(pfs._core.update, table, [("NOTHING", "x", True)], [("ENABLED", "YES")]))
    assert settings() == before


# ---- Timers ------------------------------------------------------------------------------------------------------------------

TIMERS = {"CYCLE": 60e9, "NANOSECOND": 60e9, "MICROSECOND": 59.9e9, "MILLISECOND": 54e9, "TICK": 49e9}  # at least, of 60 ms
STEP = {
    "CYCLE": 1e6,
    "NANOSECOND": 1e6,
    "MICROSECOND": 1e6,
    "MILLISECOND": 11e9,
    "TICK": 11e9,
}  # resolution in picoseconds, generous


@fresh_process("performance_schema_cycle_timer={cycle}")
@pytest.mark.parametrize("cycle", ["ON", "OFF"])
@pytest.mark.parametrize("timer", list(TIMERS))
def test_timer_measures_60_ms(timer: str, cycle: str) -> None:
    """A7, C1: a wait of 60 ms is 60e9 picoseconds by each timer; also by the one that stands in for CYCLE."""
    lock = OwnLock("t/LOCK_one")
    pfs.setup.setup_timers["wait"].timer_name = timer
    begin = time.monotonic()
    lock.pause(0.06)
    real = (time.monotonic() - begin) * 1e12
    row = one(HISTORY)
    assert TIMERS[timer] <= row["TIMER_WAIT"] <= real + STEP[timer]
    assert row["TIMER_WAIT"] == row["TIMER_END"] - row["TIMER_START"]
    assert one(WAITS)["SUM_TIMER_WAIT"] == row["TIMER_WAIT"]
    assert one("setup_timers", NAME="wait")["TIMER_NAME"] == timer
    assert [row["TIMER_NAME"] for row in rows("setup_timers") if row["NAME"] != "wait"] == ["NANOSECOND"] * 4


@fresh_process()
def test_timers_share_one_epoch() -> None:
    """Events under different timers lie on one axis, within the steps of the timers."""
    lock = OwnLock("t/LOCK_one")
    for timer in list(TIMERS) * 2:
        pfs.setup.setup_timers["wait"].timer_name = timer
        lock.pause(0.025)
    found = events()
    for i, timer in enumerate(list(TIMERS) * 2):
        for j in range(i):
            # Event j lasted 25 ms and ended before event i began.
            apart = found[i]["TIMER_START"] - found[j]["TIMER_START"]
            assert apart >= (i - j) * 25e9 - 2 * max(STEP[timer], STEP[(list(TIMERS) * 2)[j]]), (timer, j)
            assert found[i]["TIMER_START"] >= found[j]["TIMER_END"] - 2 * max(STEP[timer], STEP[(list(TIMERS) * 2)[j]])


@fresh_process()
@pytest.mark.parametrize("other", list(TIMERS))
@pytest.mark.parametrize("timer", list(TIMERS))
def test_timer_changed_in_mid_event_never_mixes_units(timer: str, other: str) -> None:
    """A11: an event is timed to its end by the timer that it began with."""
    lock = OwnLock("t/LOCK_one")
    pfs.setup.setup_timers["wait"].timer_name = timer
    begin = time.monotonic()
    wait = lock.begin()
    time.sleep(0.03)
    pfs.setup.setup_timers["wait"].timer_name = other
    lock.end(wait)
    real = (time.monotonic() - begin) * 1e12
    lock.use()
    first, second = events()
    assert TIMERS[timer] - 30e9 <= first["TIMER_WAIT"] <= real + STEP[timer]
    assert second["TIMER_START"] >= first["TIMER_END"] - 2 * max(STEP[timer], STEP[other])
    assert second["TIMER_WAIT"] <= (time.monotonic() - begin) * 1e12 + STEP[other]
    assert one(WAITS)["SUM_TIMER_WAIT"] == first["TIMER_WAIT"] + second["TIMER_WAIT"]


@fresh_process()
def test_L8_performance_timers() -> None:
    """L8 as pfs has it: 6 rows with frequency, resolution and overhead."""
    found = {row["TIMER_NAME"]: row for row in rows("performance_timers")}
    assert list(found) == ["CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK", "THREAD_CPU"]
    nominal = {
        "NANOSECOND": 10**9,
        "MICROSECOND": 10**6,
        "MILLISECOND": 1000,
        "TICK": os.sysconf("SC_CLK_TCK"),
        "THREAD_CPU": 10**9,
    }
    assert {name: found[name]["TIMER_FREQUENCY"] for name in nominal} == nominal
    for name, row in found.items():
        if row["TIMER_FREQUENCY"] is None:
            assert name == "CYCLE"
            assert "CYCLE" in str(pfs.status["Performance_schema_timer_reason"])
            continue
        assert row["TIMER_RESOLUTION"] > 0
        assert row["TIMER_OVERHEAD"] > 0


@fresh_process("performance_schema_cycle_timer=OFF")
def test_L8_unavailable_timer_is_null_and_its_substitute_is_said() -> None:
    """L8: without CYCLE its row is NULL, waits fall back to the closest timer, and pfs.status says why."""
    row = one("performance_timers", TIMER_NAME="CYCLE")
    assert [row[c] for c in row if c != "TIMER_NAME"] == [None, None, None]
    assert one("setup_timers", NAME="wait")["TIMER_NAME"] == "NANOSECOND"
    assert "cycle_timer" in str(pfs.status["Performance_schema_timer_reason"])
    lock = OwnLock("t/LOCK_one")
    pfs.setup.setup_timers["wait"].timer_name = "CYCLE"
    lock.pause(0.02)
    assert one(HISTORY)["TIMER_WAIT"] >= 20e9


@fresh_process()
def test_setup_of_consumers_and_timers_while_a_thread_works() -> None:
    """Changes act at once on running threads; nothing that was counted is lost or counted twice."""
    m = Mutex("t/LOCK_one")
    worker = Worker()
    worker.start(m.use, 30000)
    for i in range(40):
        pfs.setup.setup_timers["wait"].timer_name = list(TIMERS)[i % 5]
        consumer("events_waits_current", i % 2 == 0)
        instrument(MUTEX + "t/LOCK_one", timed=i % 3 != 0)
    worker.result()
    assert counts(MUTEX + "t/LOCK_one") == {WAITS: 30000, WAITS_BY_INSTANCE: 30000, WAITS_BY_THREAD: 30000}
    assert all(row["TIMER_WAIT"] < 60e12 for row in events() if row["TIMER_WAIT"] is not None)
