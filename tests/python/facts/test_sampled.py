"""TIMED = 'SAMPLED': one wait in some is timed and recorded, the others only count, and the summaries say how many these are.
Each test runs in a process of its own, through the C API."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from math import log, sqrt
from pathlib import Path
from statistics import fmean, pstdev, stdev
from typing import Any

import pandas as pd
import pytest

import pfs
from pfs._read.samples import SECTIONS, rows_between, take
from pfs._read.source import OWN
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.sockets import pair
from tests.python._programs.subject import subject
from tests.python._programs.tables import FETCH, MetadataLock, Table, idle

N = 64  # the default of performance_schema_sampling_interval
LOCK, TREE, DATA = MUTEX + "s/LOCK", "wait/synch/rwlock/s/tree", FILE + "s/data"
BY_THREAD = WAITS_BY_THREAD
LEFT_OUT = "COUNT_NOT_SAMPLED"


def left_out(table: str, name: str) -> int:
    return sum(int(row[LEFT_OUT]) for row in rows(table, EVENT_NAME=name))


def data(path: str = "data") -> int:
    fd = int(C.open(key_of("file", "s/data"), path, os.O_RDWR | os.O_CREAT, 0o600))
    assert fd >= 0
    assert os.write(fd, bytes(1 << 16)) == 1 << 16
    return fd


def uses() -> dict[str, Callable[[], Any]]:
    """One event of each instrument that is called."""
    mutex, tree = Mutex(key_of("mutex", "s/LOCK")), Rwlock(key_of("rwlock", "s/tree"))
    cond, own, fd = Cond(key_of("cond", "s/COND")), OwnLock(key_of("mutex", "s/OWN")), data()
    left, right = pair("s/socket")
    table, metadata = Table("s.t"), MetadataLock()

    def sends() -> None:
        assert left.send(1) == len(os.read(right.fd, 1)) == 1  # the plain call is no event

    def reads() -> None:
        assert tree.do("read_lock") == tree.do("unlock") == 0

    return {
        LOCK: mutex.use,
        MUTEX + "s/OWN": own.use,
        TREE: reads,
        "wait/synch/cond/s/COND": cond.late,
        DATA: lambda: C.pread(fd, 10, 0),
        "wait/io/socket/s/socket": sends,
        "wait/io/table/sql/handler": lambda: table.io(FETCH),
        "wait/lock/table/sql/handler": lambda: table.lock(0),
        "wait/lock/metadata/sql/mdl": metadata.wait,
        "idle": idle,
    }


@fresh_process()
def test_every_wait_counts_and_one_in_some_is_an_event() -> None:
    """Rows of history are the timed ones, and SUM, MIN, AVG and MAX are theirs alone."""
    use = uses()
    for table in (WAITS, BY_THREAD, HISTORY_LONG):
        pfs.truncate(table)
    for name in use:
        instrument(name, timed="SAMPLED")
    for _ in range(1000):
        for one_event in use.values():
            one_event()
    for name in use:
        total, by_thread = one(WAITS, EVENT_NAME=name), one(BY_THREAD, EVENT_NAME=name)
        times = [row["TIMER_WAIT"] for row in events(EVENT_NAME=name)]
        assert total["COUNT_STAR"] == by_thread["COUNT_STAR"] == 1000, name
        assert total["COUNT_STAR"] - total[LEFT_OUT] == by_thread["COUNT_STAR"] - by_thread[LEFT_OUT] == len(times), name
        assert 1 <= len(times) <= 60
        for row in (total, by_thread):
            assert row["SUM_TIMER_WAIT"] == sum(times)
            assert row["AVG_TIMER_WAIT"] == sum(times) // len(times)
            assert (row["MIN_TIMER_WAIT"], row["MAX_TIMER_WAIT"]) == (min(times), max(times))
    assert losses() == {}


@fresh_process()
def test_top_divides_by_the_timed_ones() -> None:
    """The averages of `pfs top` are those of the tables."""
    use = uses()
    for name in use:
        instrument(name, timed="SAMPLED")
    pfs.truncate(WAITS)
    before = take(OWN)
    for _ in range(1000):
        for one_event in use.values():
            one_event()
    rows = {row.name: row for row in rows_between(before, take(OWN), 1.0, SECTIONS[0])}
    for name in use.keys() - {"idle"}:  # which pfs top leaves out
        total = one(WAITS, EVENT_NAME=name)
        assert total[LEFT_OUT] > 900
        assert rows[name].count == total["COUNT_STAR"] == 1000
        assert int(rows[name].average) == total["AVG_TIMER_WAIT"]


@fresh_process()
def test_by_object_and_by_operation() -> None:
    """Also the bytes, and the objects that are held."""
    use = uses()
    for name in use:
        instrument(name, timed="SAMPLED")
    for name in (LOCK, TREE, DATA, "wait/io/table/sql/handler", "wait/lock/table/sql/handler"):
        for _ in range(500):
            use[name]()
    for name in (LOCK, TREE, DATA):
        row = one(WAITS_BY_INSTANCE, EVENT_NAME=name)
        assert row["COUNT_STAR"] - row[LEFT_OUT] == len(events(EVENT_NAME=name)) > 0
    row = one(FILES_BY_INSTANCE)
    timed = len(events(EVENT_NAME=DATA, OPERATION="read"))
    assert (row["COUNT_READ"], row["SUM_NUMBER_OF_BYTES_READ"]) == (500, 5000)
    assert row["AVG_TIMER_READ"] == row["SUM_TIMER_READ"] // timed
    assert row[LEFT_OUT] == row["COUNT_STAR"] - len(events(EVENT_NAME=DATA))
    io = one("table_io_waits_summary_by_table")
    assert io["COUNT_FETCH"] == 500
    assert io["AVG_TIMER_FETCH"] == io["SUM_TIMER_FETCH"] // len(events(EVENT_NAME="wait/io/table/sql/handler"))
    locks = one("table_lock_waits_summary_by_table")
    assert locks["COUNT_STAR"] - locks[LEFT_OUT] == len(events(EVENT_NAME="wait/lock/table/sql/handler"))
    assert one("mutex_instances", NAME=LOCK)["LOCKED_BY_THREAD_ID"] is None
    assert one("rwlock_instances")["READ_LOCKED_BY_COUNT"] == 0


@fresh_process()
def test_owners_are_shown_whether_the_lock_was_timed_or_not() -> None:
    mutex, tree = Mutex(key_of("mutex", "s/LOCK")), Rwlock(key_of("rwlock", "s/tree"))
    instrument(LOCK, timed="SAMPLED")
    instrument(TREE, timed="SAMPLED")
    for _ in range(300):
        assert mutex.lock() == tree.do("read_lock") == 0
        assert one("mutex_instances")["LOCKED_BY_THREAD_ID"] == me()
        assert one("rwlock_instances")["READ_LOCKED_BY_COUNT"] == 1
        assert mutex.unlock() == tree.do("unlock") == 0
        assert tree.do("write_lock") == 0
        assert one("rwlock_instances")["WRITE_LOCKED_BY_THREAD_ID"] == me()
        assert tree.do("unlock") == 0
    assert count(WAITS, EVENT_NAME=LOCK) == 300
    assert count(WAITS, EVENT_NAME=TREE) == 600


@fresh_process()
def test_truncate_forgets_both_numbers_and_dead_objects_keep_them() -> None:
    mutex, fd = Mutex(key_of("mutex", "s/LOCK")), data()
    for name in (LOCK, DATA):
        instrument(name, timed="SAMPLED")
    for _ in range(200):
        mutex.use()
        C.pread(fd, 1, 0)
    before = {name: left_out(WAITS, name) for name in (LOCK, DATA)}
    assert all(0 < number <= 201 for number in before.values())
    pfs.truncate(WAITS_BY_INSTANCE)
    assert left_out(WAITS_BY_INSTANCE, LOCK) == left_out(WAITS_BY_INSTANCE, DATA) == 0
    mutex.use(100)
    now = left_out(WAITS, LOCK)
    assert left_out(WAITS_BY_INSTANCE, LOCK) == now > 0
    assert mutex.free() == 0  # its numbers move to its class
    assert left_out(WAITS, LOCK) == now
    assert C.close(fd) == 0
    os.remove("data")
    pfs.truncate(BY_THREAD)
    assert left_out(BY_THREAD, LOCK) == 0
    pfs.truncate(WAITS)
    assert left_out(WAITS, LOCK) == left_out(WAITS, DATA) == count(WAITS, EVENT_NAME=LOCK) == 0


@fresh_process("performance_schema_sampling_interval=1")
def test_an_interval_of_one_times_everything() -> None:
    mutex = Mutex(key_of("mutex", "s/LOCK"))
    instrument(LOCK, timed="SAMPLED")
    mutex.use(100)
    assert (count(WAITS, EVENT_NAME=LOCK), left_out(WAITS, LOCK), len(events(EVENT_NAME=LOCK))) == (100, 0, 100)


@fresh_process()
def test_other_settings_leave_nothing_out() -> None:
    """YES, NO and CONTENDED: AVG divides by all waits, as ever. The numbers of SAMPLED stay apart from theirs."""
    mutex = Mutex(key_of("mutex", "s/LOCK"))
    for timed in (True, False, "CONTENDED"):
        instrument(LOCK, timed=timed)
        mutex.use(10)
    row = one(WAITS, EVENT_NAME=LOCK)
    assert (row["COUNT_STAR"], row[LEFT_OUT]) == (30, 0)
    assert row["AVG_TIMER_WAIT"] == row["SUM_TIMER_WAIT"] // 30
    instrument(LOCK, timed="SAMPLED")
    mutex.use(300)
    row = one(WAITS, EVENT_NAME=LOCK)
    assert row["COUNT_STAR"] == 330
    assert 250 <= row[LEFT_OUT] <= 299
    assert row["AVG_TIMER_WAIT"] == row["SUM_TIMER_WAIT"] // (330 - row[LEFT_OUT])


# ---- Which events are timed ------------------------------------------------------------------------------------------


@fresh_process("performance_schema_events_waits_history_long_size=20000")
def test_no_loop_stays_in_step() -> None:
    """Loops of N different locks, and of N/2, N - 1 and 2 N: each lock is timed about as often as the others."""
    for period in (N, N // 2, N - 1, 2 * N):
        key = key_of("mutex", f"s/LOCK{period}")
        instrument(f"{MUTEX}s/LOCK{period}", timed="SAMPLED")
        locks = [Mutex(key) for _ in range(period)]
        turns = 200_000 // period
        for _ in range(turns):
            for lock in locks:
                C.mutex_lock(lock.at)
                C.mutex_unlock(lock.at)
        timed = [row["COUNT_STAR"] - row[LEFT_OUT] for row in rows(WAITS_BY_INSTANCE, EVENT_NAME=f"{MUTEX}s/LOCK{period}")]
        assert len(timed) == period
        expected = turns / N
        # The distances are uniform from 1 to 2 N - 1: the numbers scatter less than those of independent draws.
        assert all(abs(number - expected) <= 5.5 * sqrt(expected) for number in timed), (period, min(timed), max(timed))
        for lock in locks:
            lock.free()


def workloads() -> Iterator[tuple[str, Callable[[int], int]]]:
    """How much the i-th operation reads. Periods that SAMPLED could be in step with, bursts, trends and rare large ones."""
    draw = random.Random(7)
    yield "constant", lambda i: 100
    for period in (2, 3, 16, 32, N - 1, N, N + 1, 2 * N, 3 * N):
        yield f"one large in {period}", lambda i, period=period: 5000 if i % period == 0 else 50  # type: ignore[misc]
    yield "halves of a period", lambda i: 4000 if i % N < N // 2 else 10
    yield "saw", lambda i: 1 + i % N * 40
    yield "slow wave", lambda i: 1 + abs(i % 5000 - 2500)
    yield "trend", lambda i: 1 + i // 20
    yield "two phases", lambda i: 10 if i < 20_000 else 3000
    yield "bursts", lambda i: 6000 if i // 100 % 10 == 0 else 20
    sizes = [draw.randrange(1, 8000) for _ in range(40_000)]
    yield "uniform", lambda i: sizes[i]
    heavy = [min(60_000, int(20 * draw.paretovariate(1.5))) for _ in range(40_000)]
    yield "heavy tail", lambda i: heavy[i]
    exponential = [1 + int(draw.expovariate(1 / 500)) for _ in range(40_000)]
    yield "exponential", lambda i: exponential[i]
    yield "squares", lambda i: 5000 if int(sqrt(i)) ** 2 == i else 100


def judged(sample: list[int], everything: list[int]) -> tuple[bool, bool]:
    """Whether the mean of all is outside of the sample's own 95 % interval, and whether the sample is none of independent draws.

    The second is Bernstein's inequality: it holds for rare large ones, too, and is broken once in a million.
    """
    n, mean, true = len(sample), fmean(sample), fmean(everything)
    own = 1.96 * stdev(sample) / sqrt(n)
    rare = log(2e6)
    bound = pstdev(everything) * sqrt(2 * rare / n) + 2 / 3 * (max(everything) - min(everything)) * rare / n
    return abs(mean - true) > own, abs(mean - true) > bound


MOST_OUTSIDE = 5  # of 20 one is on average, and more than five in 1 of 1,300 runs: simulated, with the rare large ones of these


@fresh_process("performance_schema_events_waits_history_long_size=20000")
def test_the_timed_ones_are_like_all() -> None:
    """20 workloads of known operations: their mean over the timed ones is in its own confidence interval of the mean over all.
    What an operation reads stands for its time: every operation's is known, and no other load changes it."""
    fd, done = data(), 0
    instrument(DATA, timed="SAMPLED")
    outside = []
    for name, size in workloads():
        done += 1
        pfs.truncate(HISTORY_LONG)
        everything = [C.pread(fd, size(i), 0) for i in range(40_000)]
        sample = [row["NUMBER_OF_BYTES"] for row in events(EVENT_NAME=DATA)]
        assert abs(len(sample) - len(everything) / N) <= 6 * sqrt(len(everything) / N), (name, len(sample))
        is_outside, is_impossible = judged(sample, everything)
        assert not is_impossible, name
        if is_outside:
            outside.append(name)
    assert done == 20
    assert len(outside) <= MOST_OUTSIDE, outside


def test_the_judge_sees_what_keeps_step_with_a_loop() -> None:
    """Negative control: one event in N, always the N-th, wherever it begins. The other way round: independent draws pass."""
    draw = random.Random(3)
    everything = [[size(i) for i in range(40_000)] for _, size in workloads()]
    for phase in range(0, N, 7):
        verdicts = [judged(sizes[phase::N], sizes) for sizes in everything]
        assert any(impossible for _, impossible in verdicts) or sum(outside for outside, _ in verdicts) > MOST_OUTSIDE, phase
    verdicts = [judged(draw.choices(sizes, k=len(sizes) // N), sizes) for sizes in everything]
    assert not any(impossible for _, impossible in verdicts)
    assert sum(outside for outside, _ in verdicts) <= MOST_OUTSIDE


# ---- How it is set ---------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_instrument='%=SAMPLED'")
def test_from_the_start() -> None:
    """Instruments that cannot be sampled are timed."""
    for family in ("mutex", "file"):
        key_of(family, "s/one")
    with pfs.statement("s/query", "SELECT 1"), pfs.stage("s/work"):
        pass
    timed = {row["NAME"]: row["TIMED"] for row in rows("setup_instruments")}
    assert timed[MUTEX + "s/one"] == timed[FILE + "s/one"] == "SAMPLED"
    assert {value for name, value in timed.items() if name.startswith(("statement/", "stage/"))} == {"YES"}


@fresh_process()
def test_settings() -> None:
    key_of("mutex", "s/LOCK")
    chosen = pfs.setup_instruments["wait/synch/mutex/%"]
    chosen.timed = "SAMPLED"
    assert chosen.timed == "SAMPLED"
    key_of("mutex", "s/later")
    assert pfs.setup_instruments[MUTEX + "s/later"].timed == "SAMPLED"
    chosen.timed = True
    assert pfs.setup_instruments[LOCK].timed is True
    with pfs.statement("s/query", "SELECT 1"):
        pass
    before = settings()
    for pattern in ("statement/%", "transaction", "stage/none/%"):
        raises(pfs.InvalidValue, lambda: pfs.setup_instruments.update(pattern, timed="SAMPLED"), "SAMPLED", "wait/%")  # noqa: B023
    raises(pfs.InvalidValue, lambda: pfs.setup_instruments.update(FILE + "%", timed="SOMETIMES"), "SAMPLED")
    assert settings() == before


def test_from_outside(tmp_path: Path) -> None:
    with subject(tmp_path) as program:
        program.do("lock = pfs.Lock('app/LOCK')")
        with pfs.attach(program.path, write=True) as schema:
            schema.setup_instruments["wait/synch/mutex/%"].timed = "SAMPLED"
            program.do("for _ in range(1000):\n    with lock: pass")
            frame = schema.table(WAITS, where={"EVENT_NAME": "wait/synch/mutex/app/LOCK"})
            assert frame["COUNT_STAR"].item() == 1000
            assert 900 <= frame[LEFT_OUT].item() <= 999


# ---- What is computed from them --------------------------------------------------------------------------------------


def _waits(star: int, total: int, not_sampled: int, read: int = 0, read_total: int = 0) -> dict[str, pd.DataFrame]:
    from pfs._save.archive import empty

    made = {}
    for table, row in {
        WAITS: {"EVENT_NAME": LOCK, "COUNT_STAR": star, "SUM_TIMER_WAIT": total, LEFT_OUT: not_sampled},
        FILES: {"EVENT_NAME": DATA, "COUNT_STAR": star, "SUM_TIMER_WAIT": total, "COUNT_READ": read}
        | {"SUM_TIMER_READ": read_total, LEFT_OUT: not_sampled},
    }.items():
        frame = empty(table).frame()
        values = {column: row.get(column, 0) for column in frame.columns}
        made[table] = pd.DataFrame([values]).astype(frame.dtypes.to_dict())
    return made


@pytest.mark.parametrize("left", [0, 90])
def test_averages_of_differences_and_sums(left: int) -> None:
    from tests.python.files.test_merge import of_process

    first = of_process(_waits(100, 1000, left, 50, 500), 1)
    second = of_process(_waits(100, 3000, left, 50, 1500), 2)
    merged = pfs.Snapshot.merge([first, second])
    assert merged[WAITS]["AVG_TIMER_WAIT"].item() == 4000 // (200 - 2 * left)
    assert merged[FILES]["AVG_TIMER_READ"].item() == 2000 // ((100 - left) if left == 0 else 10)
