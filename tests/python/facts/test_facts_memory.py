"""Memory (semantics.md K, C2, F4-F7 of memory). Each test runs in a process of its own."""

from __future__ import annotations

import ctypes
import os
import random
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import pfs
from tests.python._programs.driver import Worker, consumer, instrument, losses, me, one, raises, rows, status
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.memory import (
    BY_ACCOUNT,
    BY_HOST,
    BY_THREAD,
    BY_USER,
    CONTROLLED,
    GLOBAL,
    GLOBAL_STATISTICS,
    LEVELS,
    Memory,
    call,
    claim,
    free,
    malloc,
)
from tests.python._programs.nested import Statement, key_of
from tests.python._programs.sessions import account, thread, working_for

OWN = "memory/performance_schema/"


@fresh_process()
def test_C2_memory_is_never_timed_and_own_memory_is_always_on() -> None:
    """C2: TIMED is NULL, updating it is silently ignored; ENABLED of memory/performance_schema/% is YES and stays so."""
    used = Memory("c/used")
    before = one("setup_instruments", NAME=used.name)
    assert (before["ENABLED"], before["TIMED"], before["FLAGS"], before["PROPERTIES"]) == ("YES", None, "", "")
    pfs.setup_instruments.update({"NAME": used.name}, timed=True)
    pfs.setup_instruments.update({"NAME": used.name}, timed=False)
    assert one("setup_instruments", NAME=used.name) == before
    own = [row for row in memory_rows("setup_instruments", "NAME") if row["NAME"].startswith(OWN)]
    assert len(own) > 20
    assert {(row["ENABLED"], row["TIMED"], row["PROPERTIES"]) for row in own} == {("YES", None, "global_statistics")}
    pfs.setup_instruments.update({"NAME": OWN + "%"}, enabled=False)
    pfs.setup_instruments.update({"NAME": own[0]["NAME"]}, enabled=False, timed=True)
    assert [row for row in memory_rows("setup_instruments", "NAME") if row["NAME"].startswith(OWN)] == own
    free(used.malloc(1))
    threads = one(GLOBAL, EVENT_NAME=OWN + "threads")
    assert threads["CURRENT_NUMBER_OF_BYTES_USED"] == threads["SUM_NUMBER_OF_BYTES_ALLOC"] >= 4096
    assert one(GLOBAL, EVENT_NAME=OWN + "thread_cells")["CURRENT_NUMBER_OF_BYTES_USED"] > 0
    assert rows(BY_THREAD, EVENT_NAME=OWN + "threads") == []


def memory_rows(table: str, column: str) -> list[dict[str, Any]]:
    from tests.python._programs.driver import every

    return [row for row in every(table) if row[column].startswith("memory/")]


@fresh_process()
def test_C2_flags_of_memory_can_be_set() -> None:
    """C2: FLAGS is "controlled" or empty, and can be changed; not of those that count globally only."""
    by_default, other, everyone = (
        Memory("c/default", CONTROLLED),
        Memory("c/other"),
        Memory("c/all", GLOBAL_STATISTICS | CONTROLLED),
    )
    names = [of.name for of in (by_default, other, everyone)]
    assert [one("setup_instruments", NAME=name)["FLAGS"] for name in names] == ["controlled", "", ""]
    assert one("setup_instruments", NAME=by_default.name)["PROPERTIES"] == "controlled_by_default"
    for name, flags in zip(names, ("", "controlled", "controlled"), strict=True):
        pfs.setup_instruments.update({"NAME": name}, flags=flags)
    assert [one("setup_instruments", NAME=name)["FLAGS"] for name in names] == ["", "controlled", ""]
    assert key_of("memory", "x/y") != 0
    assert call("register_memory", b"performance_schema", None, 0) == 0


@fresh_process("performance_schema_max_memory_classes=2")
def test_C5_a_full_family_gives_key_0() -> None:
    """C5: the third instrument is lost, and its blocks are plain ones."""
    assert [Memory(f"c/{i}").key != 0 for i in range(3)] == [True, True, False]
    assert losses() == {"Performance_schema_memory_classes_lost": 1}
    block = malloc(0, 100)
    free(block)
    assert status("memory_classes_lost") == 1


@fresh_process("performance_schema_instrument='memory/c/off=OFF',performance_schema_instrument='memory/c/counted=COUNTED'")
def test_C8_presets_of_memory() -> None:
    """C8: a preset turns memory off; none can time it."""
    for name, enabled in (("off", "NO"), ("counted", "YES"), ("usual", "YES")):
        row = one("setup_instruments", NAME=Memory("c/" + name).name)
        assert (row["ENABLED"], row["TIMED"]) == (enabled, None)


@fresh_process()
def test_K1_every_call_counts_what_was_asked_for() -> None:
    """K1: malloc, calloc, realloc, aligned_alloc, strdup and free, and what they return."""
    used = Memory()
    a = used.malloc(100)
    b = call("calloc", used.key, 5, 20)
    assert ctypes.string_at(b, 100) == bytes(100)
    c = call("strdup", used.key, b"abc")
    assert ctypes.string_at(c) == b"abc"
    assert used.counted() == (3, 0, 204, 0)
    for alignment in (1, 8, 16, 32, 64, 4096):
        block = call("aligned_alloc", used.key, alignment, 10)
        assert block % max(alignment, 16) == 0
        ctypes.memset(block, 1, 10)
        free(block)
    assert used.counted() == (9, 6, 264, 60)
    ctypes.memmove(a, b"0123456789", 10)
    a = call("realloc", used.key, a, 100_000)
    assert ctypes.string_at(a, 10) == b"0123456789"
    assert used.counted() == (10, 7, 100_264, 160)
    assert used.used(what="COUNT") == (0, 3, 4)
    assert call("realloc", used.key, b, 0) is None
    d = call("realloc", used.key, None, 7)
    e = call("aligned_alloc", used.key, 256, 10)
    ctypes.memmove(e, b"0123456789", 10)
    e = call("realloc", used.key, e, 5)
    assert ctypes.string_at(e, 5) == b"01234"
    for block in (a, c, d, e):
        free(block)
    free(0)
    assert used.used()[:2] == (0, 0)
    used.check()
    assert losses() == {}


@fresh_process()
def test_K1_what_the_system_refuses_is_not_counted() -> None:
    """K1: NULL and errno as the plain calls; nothing is counted."""
    used, huge = Memory(), 2**63
    assert call("malloc", used.key, huge) is None
    assert call("malloc", used.key, 2**64 - 1) is None
    assert call("calloc", used.key, 2**33, 2**33) is None
    assert call("aligned_alloc", used.key, 3, 10) is None
    assert call("aligned_alloc", used.key, 64, huge) is None
    block = used.malloc(10)
    assert call("realloc", used.key, block, huge) is None
    assert used.counted() == (1, 0, 10, 0)
    free(block)
    assert used.counted() == (1, 1, 10, 10)


@fresh_process()
def test_K1_random_allocations_in_all_five_tables() -> None:
    """K1: a random program of three threads of two users; CURRENT = ALLOC - FREE and LOW <= CURRENT <= HIGH at every step,
    HIGH of a thread exactly, and above it never below the truth."""
    random.seed(1)
    used = Memory()
    workers = [working_for(*who) for who in (("anna", "desk"), ("anna", "sofa"), ("bob", "desk"))]
    blocks: dict[int, list[tuple[int, int]]] = {worker.id: [] for worker in workers}
    peak, all_peak = dict.fromkeys(blocks, 0), 0
    for step in range(1500):
        worker = random.choice(workers)
        mine = blocks[worker.id]
        if mine and random.random() < 0.45:
            used.free(mine.pop(random.randrange(len(mine)))[0], worker)
        else:
            size = random.choice((0, 1, 10, 100, 1000, 50_000))
            mine.append((used.malloc(size, worker), size))
        now = {id_: sum(size for _, size in of) for id_, of in blocks.items()}
        peak = {id_: max(peak[id_], now[id_]) for id_ in now}
        all_peak = max(all_peak, sum(now.values()))
        if step % 50 == 0 or step < 60:
            used.check()
            for worker in workers:
                assert used.used(BY_THREAD, THREAD_ID=worker.id) == (0, now[worker.id], peak[worker.id])
            low, current, high = used.used()
            assert (low, current) == (0, sum(now.values()))
            assert all_peak <= high <= sum(peak.values())
            if step < 60:
                assert high == all_peak
    for worker in workers:
        for block, _ in blocks[worker.id]:
            used.free(block, worker)
        worker.end()
    used.check()
    assert used.used()[:2] == (0, 0)
    assert losses() == {}


@fresh_process()
def test_K1_one_thread_has_exact_watermarks_at_every_level() -> None:
    """K1, K8: as long as one thread uses an instrument, HIGH is exact in all tables, however often it allocates."""
    used = Memory()
    worker = working_for("anna", "desk")

    def work() -> int:
        random.seed(2)
        blocks: list[tuple[int, int]] = []
        now = most = 0
        for _ in range(20_000):
            if blocks and random.random() < 0.49:
                block, size = blocks.pop(random.randrange(len(blocks)))
                free(block)
                now -= size
            else:
                size = random.choice((8, 100, 3000))
                blocks.append((malloc(used.key, size), size))
                now += size
                most = max(most, now)
        for block, _ in blocks:
            free(block)
        return most

    most = worker.do(work)
    who = {BY_THREAD: {"THREAD_ID": worker.id}, BY_ACCOUNT: {"USER": "anna", "HOST": "desk"}, BY_USER: {"USER": "anna"}}
    for table in LEVELS:
        assert used.used(table, **who.get(table, {"HOST": "desk"} if table == BY_HOST else {})) == (0, 0, most), table
    worker.end()
    assert used.used() == (0, 0, most)
    assert used.used(BY_USER, USER="anna") == (0, 0, most)


@fresh_process()
@pytest.mark.parametrize("table", LEVELS)
def test_K2_truncate_keeps_what_is_in_use(table: str) -> None:
    """K2: alloc 3, free 1, TRUNCATE: ALLOC 2, FREE 0, LOW = HIGH = CURRENT; and watermarks go on from there."""
    used = Memory()
    worker = working_for("anna", "desk")
    blocks = [used.malloc(size, worker) for size in (10, 20, 30)]
    used.free(blocks[0], worker)
    where: dict[str, Any] = {
        BY_THREAD: {"THREAD_ID": worker.id},
        BY_ACCOUNT: {"USER": "anna"},
        BY_USER: {"USER": "anna"},
        BY_HOST: {"HOST": "desk"},
        GLOBAL: {},
    }[table]
    assert used.counted(table, **where) == (3, 1, 60, 10)
    assert used.used(table, **where) == (0, 50, 60)
    pfs.truncate(table)
    assert used.counted(table, **where) == (2, 0, 50, 0)
    assert used.used(table, **where) == (50, 50, 50)
    assert used.used(table, "COUNT", **where) == (2, 2, 2)
    pfs.truncate(table)
    assert used.counted(table, **where) == (2, 0, 50, 0)
    used.free(blocks[1], worker)
    block = used.malloc(100, worker)
    assert used.used(table, **where) == (30, 130, 130)
    assert used.counted(table, **where) == (3, 1, 150, 20)
    pfs.truncate(table)
    assert used.counted(table, **where) == (2, 0, 130, 0)
    for last in (block, blocks[2]):
        used.free(last, worker)
    pfs.truncate(table)
    assert used.counted(table, **where) == (0, 0, 0, 0)
    assert used.used(table, **where) == (0, 0, 0)


@fresh_process()
def test_K3_a_block_freed_by_another_thread_counts_globally_only() -> None:
    """K3: its thread still shows it; the total does not; also if its thread has ended. LOW of the total is never below 0."""
    used = Memory()
    a, b = working_for("anna", "desk"), working_for("bob", "sofa")
    first, second = used.malloc(100, a), used.malloc(50, a)
    used.free(first, b)
    assert used.counted(BY_THREAD, THREAD_ID=a.id) == (2, 0, 150, 0)
    assert used.counted(BY_THREAD, THREAD_ID=b.id) == (0, 0, 0, 0)
    assert used.counted() == (2, 1, 150, 100)
    assert used.used() == (0, 50, 150)
    a.end()
    used.free(second, b)
    assert used.counted(BY_USER, USER="anna") == (2, 0, 150, 0)
    assert used.counted() == (2, 2, 150, 150)
    assert used.used() == (0, 0, 150)
    pfs.truncate(GLOBAL)
    assert used.counted() == (0, 0, 0, 0)
    # The other sums are not rebased as one, each its own: anna's blocks were never freed by anna.
    assert used.counted(BY_USER, USER="anna") == (2, 0, 150, 0)
    # Per thread CURRENT may be negative: what a thread frees for another account than it allocated for.
    third = used.malloc(10, b)
    b.do(account, "carl", "sofa")
    used.free(third, b)
    assert used.used(BY_THREAD, THREAD_ID=b.id) == (-10, -10, 0)
    assert used.used(BY_USER, USER="carl") == (-10, -10, 0)
    assert used.used(BY_USER, USER="bob") == (0, 10, 10)
    assert used.used(BY_HOST, HOST="sofa") == (0, 0, 10)
    assert used.used()[:2] == (0, 0)
    used.check()


@fresh_process()
def test_K4_a_claim_moves_a_block() -> None:
    """K4: the giver's free, an allocation of the total; its free, the taker's allocation; CURRENT of the total stays."""
    used = Memory()
    a, b = working_for("anna", "desk"), working_for("bob", "sofa")
    block = used.malloc(100, a)
    a.do(claim, block, False)
    assert used.used(BY_THREAD, THREAD_ID=a.id) == (0, 0, 100)
    assert used.counted() == (2, 1, 200, 100)
    assert used.used()[1:] == (100, 100)
    b.do(claim, block, True)
    assert used.used(BY_THREAD, THREAD_ID=b.id) == (0, 100, 100)
    assert used.counted() == (3, 2, 300, 200)
    assert used.used()[1:] == (100, 100)
    b.do(claim, block, True)  # it has it
    assert used.counted() == (3, 2, 300, 200)
    assert [thread(worker.id)["TOTAL_MEMORY"] for worker in (a, b)] == [0, 100]
    used.free(block, b)
    assert used.used(BY_THREAD, THREAD_ID=b.id) == (0, 0, 100)
    assert used.counted() == (3, 3, 300, 300)
    # Taken without having been given: its first owner goes on showing it.
    block = used.malloc(7, a)
    b.do(claim, block, True)
    used.free(block, b)
    assert used.used(BY_THREAD, THREAD_ID=a.id)[1] == 7
    assert used.used()[1] == 0
    used.check()


@fresh_process()
def test_K5_a_free_counts_if_the_allocation_did() -> None:
    """K5: also when the instrument, the thread or everything was turned off meanwhile; else never."""
    used = Memory()

    def turn(on: bool) -> None:
        instrument(used.name, enabled=on)

    switches = [
        turn,
        lambda on: consumer("global_instrumentation", on),
        lambda on: consumer("thread_instrumentation", on),
        instrumented,
    ]
    for i, switch in enumerate(switches):
        before = used.malloc(10)
        switch(False)
        during = used.malloc(1000)
        free(before)
        switch(True)
        is_counted = i == 2  # thread_instrumentation off: for the total only
        assert used.used()[1] == (1000 if is_counted else 0), i
        assert used.used(BY_THREAD, THREAD_ID=me())[1] == 0
        free(during)
        assert used.used()[1] == 0
    assert used.counted() == (5, 5, 1040, 1040)
    used.check()


def instrumented(on: bool) -> None:
    pfs.threads.update(me(), instrumented=on)


@fresh_process()
def test_K6_global_statistics_count_in_the_total_only() -> None:
    """K6: by thread, account, user and host 0; and no session's memory."""
    used = Memory("k/all", GLOBAL_STATISTICS)
    assert one("setup_instruments", NAME=used.name)["PROPERTIES"] == "global_statistics"
    worker = working_for("anna", "desk")
    block, other = used.malloc(10, worker), used.malloc(5)
    used.free(block)
    worker.do(claim, other, True)
    assert used.counted() == (2, 1, 15, 10)
    assert used.used() == (0, 5, 15)
    for table in LEVELS[:-1]:
        assert used.counted(table) == (0, 0, 0, 0), table
    assert thread(worker.id)["TOTAL_MEMORY"] == 0
    pfs.truncate(GLOBAL)
    assert used.counted() == (1, 0, 5, 0)


def session_memory(worker: Worker) -> tuple[int, ...]:
    row = thread(worker.id)
    return tuple(row[name] for name in ("CONTROLLED_MEMORY", "MAX_CONTROLLED_MEMORY", "TOTAL_MEMORY", "MAX_TOTAL_MEMORY"))


def most(table: str, **where: Any) -> tuple[int, int]:
    row = one(table, **where)
    return row["MAX_SESSION_CONTROLLED_MEMORY"], row["MAX_SESSION_TOTAL_MEMORY"]


@fresh_process()
def test_K7_memory_of_sessions() -> None:
    """K7: never below 0, the maximum never decreases in a session, parties keep the maximum over their sessions."""
    plain, controlled = Memory("k/plain"), Memory("k/controlled", CONTROLLED)
    a, b = working_for("anna", "desk"), working_for("anna", "sofa")
    blocks = [plain.malloc(100, a), controlled.malloc(1000, a)]
    assert session_memory(a) == (1000, 1000, 1100, 1100)
    plain.free(blocks[0], a)
    assert session_memory(a) == (1000, 1000, 1000, 1100)
    # What it was counted as holds, whatever FLAGS say by now.
    pfs.setup_instruments.update({"NAME": controlled.name}, flags="")
    controlled.free(blocks[1], a)
    assert session_memory(a) == (0, 1000, 0, 1100)
    blocks = [controlled.malloc(5000, b)]
    assert session_memory(b) == (0, 0, 5000, 5000)
    assert most("accounts", USER="anna", HOST="desk") == (1000, 1100)
    assert most("accounts", USER="anna", HOST="sofa") == (0, 5000)
    assert most("users", USER="anna") == (1000, 5000)
    assert most("hosts", HOST="desk") == (1000, 1100)
    # Its next session begins with nothing; a block of the one before takes nothing from it.
    b.do(account, "bob", "sofa")
    assert session_memory(b) == (0, 0, 0, 0)
    controlled.free(blocks[0], b)
    assert session_memory(b) == (0, 0, 0, 0)
    plain.free(plain.malloc(30, b), b)
    assert session_memory(b) == (0, 0, 0, 30)
    a.end()
    assert most("users", USER="anna") == (1000, 5000)
    assert most("users", USER="bob") == (0, 30)
    assert most("hosts", HOST="sofa") == (0, 5000)
    pfs.truncate("users")
    assert rows("users", USER="anna") == []
    assert most("users", USER="bob") == (0, 30)
    assert working_for("anna", "desk").do(me) > 0
    assert most("users", USER="anna") == (0, 0)


@fresh_process()
def test_K8_watermarks_of_parents_are_those_of_the_sum() -> None:
    """K8: two threads with peaks at different times: HIGH of their user and of all is below the sum of theirs, and the most there
    ever was; small and large, and after either thread has ended."""
    used = Memory()
    a, b = working_for("anna", "desk"), working_for("anna", "sofa")
    for worker, size in ((a, 1000), (b, 800), (a, 10_000_000), (b, 9_000_000)):
        used.free(used.malloc(size, worker), worker)
        kept = [used.malloc(1, worker)]
        assert (
            used.used(BY_USER, USER="anna")[2]
            == used.used()[2]
            == max(used.used(BY_THREAD, THREAD_ID=one_of.id)[2] for one_of in (a, b))
        )
        used.free(kept[0], worker)
    assert [used.used(BY_THREAD, THREAD_ID=worker.id)[2] for worker in (a, b)] == [10_000_000, 9_000_000]
    a.end()
    assert used.used() == (0, 0, 10_000_000)
    for size in (4_000_000, 6_000_000):
        used.free(used.malloc(size, b), b)
    both = [used.malloc(9_999_999, b), used.malloc(2)]
    assert used.used()[2] == 10_000_001
    used.free(both[0], b)
    free(both[1])


@fresh_process()
def test_K8_many_changes_widen_the_bound_and_no_more() -> None:
    """K8: beyond what a thread tells at once, HIGH of parents is never below the truth, nor above the documented bound."""
    used = Memory()
    a, b = working_for("anna", "desk"), working_for("anna", "sofa")

    def churn(times: int) -> None:
        for _ in range(times):
            free(malloc(used.key, 100))

    a.do(churn, 5000)
    b.do(churn, 5000)
    block = used.malloc(1_000_000, a)
    used.free(block, a)
    block = used.malloc(1_000_000, b)
    low, current, high = used.used()
    assert current == 1_000_000
    assert low == 0
    assert 1_000_000 <= high < 2_000_000


# The model of F4-F7. A change is a dictionary; a TRUNCATE of a table cancels what was allocated and freed in every row of the
# tables that it empties.
EMPTIES = {
    BY_THREAD: {BY_THREAD},
    BY_ACCOUNT: {BY_THREAD, BY_ACCOUNT},
    BY_USER: {BY_THREAD, BY_ACCOUNT, BY_USER},
    BY_HOST: {BY_THREAD, BY_ACCOUNT, BY_HOST},
    GLOBAL: set(LEVELS),
    "accounts": {BY_THREAD, BY_ACCOUNT},
    "users": {BY_THREAD, BY_ACCOUNT, BY_USER},
    "hosts": {BY_THREAD, BY_ACCOUNT, BY_HOST},
}
# TRUNCATE of these also forgets who has no connection.
FORGETS = {"accounts": {BY_ACCOUNT}, "users": {BY_ACCOUNT, BY_USER}, "hosts": {BY_ACCOUNT, BY_HOST}}
KEYS = {BY_THREAD: ("THREAD_ID",), BY_ACCOUNT: ("USER", "HOST"), BY_USER: ("USER",), BY_HOST: ("HOST",), GLOBAL: ()}


class Model:
    """What each row of the five tables must show of one instrument."""

    def __init__(self, used: Memory) -> None:
        self.used = used
        self.members: dict[tuple[str, Any], list[int]] = {}  # alloc, free, low, current, high: bytes

    def add(self, worker: Worker, who: tuple[str, str], size: int) -> None:
        keys = {BY_THREAD: (worker.id,), BY_ACCOUNT: who, BY_USER: who[:1], BY_HOST: who[1:], GLOBAL: ()}
        for table, key in keys.items():
            row = self.members.setdefault((table, key), [0] * 5)
            row[0 if size > 0 else 1] += abs(size)
            row[3] += size
            row[2], row[4] = min(row[2], row[3]), max(row[4], row[3])

    def truncate(self, table: str, connected: list[tuple[str, str]]) -> None:
        for (of, key), row in list(self.members.items()):
            if of in FORGETS.get(table, ()) and key not in {
                (*who,) if of == BY_ACCOUNT else who[of == BY_HOST :][:1] for who in connected
            }:
                del self.members[of, key]
            if of in EMPTIES[table]:
                less = min(row[0], row[1])
                row[:] = row[0] - less, row[1] - less, row[3], row[3], row[3]

    def leave(self, worker: Worker) -> None:
        """It ends, or begins to work for another account."""
        self.members.pop((BY_THREAD, (worker.id,)), None)

    def check(self) -> None:
        shown = {}
        for table in LEVELS:
            for row in rows(table, EVENT_NAME=self.used.name):
                numbers = [row[f"SUM_NUMBER_OF_BYTES_{what}"] for what in ("ALLOC", "FREE")]
                numbers += [row[f"{what}_NUMBER_OF_BYTES_USED"] for what in ("LOW", "CURRENT", "HIGH")]
                if any(numbers):
                    shown[table, tuple(row[column] for column in KEYS[table])] = numbers
        assert shown == {key: row for key, row in self.members.items() if any(row)}


@fresh_process()
@pytest.mark.parametrize("truncated", list(EMPTIES))
def test_F4_F5_F6_F7_each_truncate_of_memory(truncated: str) -> None:
    """F4-F7, F13 of memory: after each TRUNCATE all five tables show what a plain model says, watermarks included; right away and
    after every further step, with threads that change their account, end, and go on."""
    used = Memory()
    model = Model(used)
    workers: dict[str, tuple[Worker, tuple[str, str]]] = {}
    blocks: dict[str, list[tuple[int, int]]] = {}

    def begin(name: str, *who: str) -> None:
        workers[name] = (working_for(*who), (who[0], who[1]))
        blocks[name] = []

    def use(name: str, *sizes: int) -> None:
        worker, who = workers[name]
        for size in sizes:
            if size > 0:
                blocks[name].append((used.malloc(size, worker), size))
            else:
                block, size = blocks[name].pop(0)
                used.free(block, worker)
                size = -size
            model.add(worker, who, size)
        model.check()

    def truncate(table: str) -> None:
        pfs.truncate(table)
        model.truncate(table, [who for _, who in workers.values()])
        model.check()

    begin("a", "anna", "desk")
    begin("b", "anna", "sofa")
    begin("c", "bob", "desk")
    begin("quiet", "bob", "desk")
    use("a", 10, 20, 0, 40)
    use("b", 100, 0, 200)
    use("c", 1000, 2000, 0)
    use("quiet", 5, 6, 0)
    ended, _ = workers.pop("quiet")
    ended.end()
    model.leave(ended)
    model.check()
    truncate(truncated)
    use("a", 0, 80)
    truncate(truncated)
    use("b", 0, 300, 0)
    moved, _ = workers["c"]
    moved.do(account, "carl", "sofa")
    model.leave(moved)
    model.check()
    workers["c"] = (moved, ("carl", "sofa"))
    blocks["c"].clear()
    use("c", 7, 8, 0)
    for table in LEVELS:
        truncate(table)
        use("a", 1)
    use("a", 0, 0)
    use("b", 11, 0)
    truncate(truncated)
    assert losses() == {}


@fresh_process()
def test_memory_of_a_forked_child_begins_with_nothing() -> None:
    """A child counts what it allocates; what it frees of its parent's was never counted there, and is not counted as freed."""
    used = Memory()
    block, other = used.malloc(100), used.malloc(10)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert used.counted() == (0, 0, 0, 0)
            free(block)
            assert used.counted() == (0, 0, 0, 0)
            assert thread(me())["MAX_TOTAL_MEMORY"] == 0
            mine = used.malloc(30)
            assert used.used() == (0, 30, 30)
            assert used.used(BY_THREAD, THREAD_ID=me()) == (0, 30, 30)
            pfs.truncate(GLOBAL)
            free(mine)
            call("realloc", used.key, other, 50)
            assert used.counted() == (2, 1, 80, 30)
            used.check()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert used.used() == (0, 110, 110)
    free(block)
    free(other)
    assert used.used() == (0, 0, 110)


@fresh_process()
def test_accounting_calls_say_what_to_keep() -> None:
    """The calls for memory of other allocators: key and owner are kept by the program."""
    used, other = Memory(), Worker()
    owner = ctypes.c_uint64(99)
    key = call("memory_alloc", used.key, 100, owner)
    assert key == used.key
    key = call("memory_realloc", key, 100, 300, owner)
    assert used.counted() == (2, 1, 400, 100)
    assert used.used() == (0, 300, 300)
    assert used.used(what="COUNT") == (0, 1, 1)
    key = call("memory_claim", key, 300, owner, 0)
    key = other.do(call, "memory_claim", key, 300, owner, 1)
    assert used.used(BY_THREAD, THREAD_ID=other.id) == (0, 300, 300)
    other.do(call, "memory_free", key, 300, owner)
    assert used.used()[:2] == (0, 0)
    instrument(used.name, enabled=False)
    assert call("memory_alloc", used.key, 1, owner) == 0
    assert owner.value == 0
    call("memory_free", 0, 1, owner)
    assert call("memory_realloc", 0, 1, 2, owner) == 0
    assert call("memory_claim", 0, 1, owner, 1) == 0
    instrument(used.name, enabled=True)
    assert used.used()[1] == 0
    assert call("memory_alloc", 12345, 1, owner) == 0


@fresh_process()
def test_a_detached_thread_counts_nothing_but_frees_for_the_total() -> None:
    """B8, K5: what a thread without an instrumentation frees counts in the total."""
    used = Memory()
    block = used.malloc(100)

    def work() -> None:
        call("thread_detach")
        free(block)
        free(malloc(used.key, 5))

    worker = Worker()
    worker.do(work)
    assert used.counted() == (1, 1, 100, 100)
    assert used.used() == (0, 0, 100)
    pfs.truncate(GLOBAL)
    assert used.counted() == (0, 0, 0, 0)


@fresh_process()
def test_python_accounts_for_blocks() -> None:
    """pfs.memory: by blocks, by size, given and taken, resized, collected."""
    buffers = pfs.memory("k/buffers")
    assert buffers.name == "memory/k/buffers"
    used = Memory("k/buffers")
    with buffers.block(1000) as block:
        assert used.used() == (0, 1000, 1000)
        block.resize(1500)
        assert block.size == 1500
    block.free()
    assert used.counted() == (2, 2, 2500, 2500)
    raises(pfs.InvalidValue, lambda: block.resize(1), "freed")
    buffers.alloc(10)
    buffers.alloc(10)
    buffers.free(10)
    assert used.used()[1] == 10
    buffers.free(10)
    raises(pfs.InvalidValue, lambda: buffers.free(10), "no block of 10 bytes", "k/buffers")
    for bad in (-1, 1.5, True, 1 << 64):
        raises(pfs.InvalidValue, partial(buffers.block, bad), "number of bytes")  # type: ignore[arg-type]
    raises(pfs.InvalidValue, lambda: pfs.memory("bad"), "component/name")
    block = buffers.block(7)
    del block
    assert used.used()[1] == 0
    block, worker = buffers.block(50), Worker()
    block.give()
    worker.do(block.take)
    assert used.used(BY_THREAD, THREAD_ID=worker.id) == (0, 50, 50)
    worker.do(block.free)
    assert used.used(BY_THREAD, THREAD_ID=worker.id) == (0, 0, 50)
    assert repr(buffers) == "pfs.memory('memory/k/buffers')"
    used.check()


@fresh_process()
def test_a_name_that_is_taken() -> None:
    """The component of pfs itself is refused."""
    raises(AssertionError, lambda: key_of("memory", "performance_schema/mine"), "performance_schema", "taken")


@fresh_process()
def test_I16_the_peak_of_a_statement_includes_that_of_a_nested_one() -> None:
    """I16: MAX_TOTAL_MEMORY is the most above what the session used before; the summaries keep the largest."""
    blocks = Memory("facts/peak")
    kept = blocks.malloc(5000)
    outer = Statement("facts/outer", "CALL p()")
    blocks.free(blocks.malloc(1 << 20))
    inner = Statement("facts/inner", "SELECT 1")
    blocks.free(blocks.malloc(2 << 20))
    inner.end()
    blocks.free(blocks.malloc(1 << 10))
    outer.end()
    Statement("facts/after", "SELECT 2").end()
    most = {row["EVENT_NAME"].rpartition("/")[2]: row["MAX_TOTAL_MEMORY"] for row in rows("events_statements_history")}
    assert (2 << 20) <= most["inner"] <= most["outer"] < (2 << 20) + 65536
    assert most["after"] == 0
    summary = {
        row["EVENT_NAME"].rpartition("/")[2]: row["MAX_TOTAL_MEMORY"]
        for row in rows("events_statements_summary_global_by_event_name")
    }
    assert summary == most
    blocks.free(kept)


def test_arrays_of_numpy_count_where_they_were_made() -> None:
    """numpy's own allocations are counted through its public hooks: inside the block, of this context,
    until they are freed, also by another thread; realloc; blocks inside blocks; nothing of other threads."""
    outer, inner = pfs.memory("numpy/outer"), pfs.memory("numpy/inner")

    def shown(which: pfs.memory) -> tuple[int, int, int]:
        frame = pfs.table("memory_summary_global_by_event_name").set_index("EVENT_NAME")
        row = frame.loc[which.name].to_dict()
        return int(row["COUNT_ALLOC"]), int(row["CURRENT_COUNT_USED"]), int(row["CURRENT_NUMBER_OF_BYTES_USED"])

    def elsewhere() -> None:
        kept.append(np.ones(3000))

    kept: list[Any] = [np.ones(1000)]
    with outer.numpy():
        kept.append(np.ones(1000))
        with inner.numpy():
            kept.append(np.zeros(2000, dtype="u1"))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        kept.append(np.arange(10, dtype="u8"))
        kept[-1].resize(20, refcheck=False)
        with pytest.raises(ZeroDivisionError), inner.numpy():
            raise ZeroDivisionError
        kept.append(np.full(5, 7, dtype="u1"))
    kept.append(np.ones(1000))
    assert shown(inner) == (1, 1, 2000)
    assert shown(outer)[1:] == (3, 8000 + 160 + 5)  # numpy makes and frees arrays of its own as well
    assert kept[4].tolist() == [*range(10), *[0] * 10]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert shown(inner)[1:] == shown(outer)[1:] == (0, 0)
