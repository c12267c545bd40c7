"""The table active_sessions: one sample of what each thread does, from inside, from outside, and of a process that was killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

import pfs
from pfs import _core
from tests.python._programs.subject import Subject, until

# A thread holds a lock while it reads from a socket in a stage; another waits for it, and one for that. Two more are deadlocked.
HUNG = """
import os, threading, time
first, second, left, right = (pfs.Lock(f"app/LOCK_{name}") for name in ("first", "second", "left", "right"))
quiet = pfs.socketpair("app/quiet")
steps = [threading.Event() for _ in range(4)]
def hold():
    with first, pfs.stage("app/saving"):
        steps[0].set()
        quiet[0].recv(1)
def between():
    with second:
        steps[1].set()
        with first:
            pass
def behind():
    with second:
        pass
def circle(mine, other, number):
    with mine:
        steps[number].set()
        steps[5 - number].wait()
        with other:
            pass
def query():
    with pfs.statement("app/job", "select * from orders where customer = 4711 and secret = 'hush'"):
        time.sleep(1000)
def busy():
    with pfs.transaction():
        while True:
            pass
pfs.Thread(target=hold, name="hold", daemon=True).start()
steps[0].wait()
pfs.Thread(target=between, name="between", daemon=True).start()
steps[1].wait()
pfs.Thread(target=behind, name="behind", daemon=True).start()
pfs.Thread(target=circle, args=(left, right, 2), name="left", daemon=True).start()
pfs.Thread(target=circle, args=(right, left, 3), name="right", daemon=True).start()
pfs.Thread(target=query, name="query", daemon=True).start()
pfs.Thread(target=busy, name="busy", daemon=True).start()
"""


@pytest.fixture
def hung(program: Subject) -> Subject:
    program.do(HUNG)
    return program


def sessions(schema: pfs.Schema) -> dict[str, dict[Any, Any]]:
    """The rows by the last word of the thread's name."""
    rows = schema.table("active_sessions")
    return {
        str(row["THREAD_NAME"]).rpartition("/")[2]: row
        for row in rows.astype(object).where(rows.notna(), None).to_dict("records")
    }


def complete(schema: pfs.Schema) -> dict[str, dict[Any, Any]] | None:
    found = sessions(schema)
    waiting = all(found.get(name, {}).get("BLOCKING_THREAD_ID") for name in ("between", "behind", "left", "right"))
    return found if waiting and found["hold"]["EVENT_NAME"] and found["query"]["DIGEST"] and "busy" in found else None


def test_a_sample_says_who_waits_for_whom(hung: Subject) -> None:
    with pfs.attach(hung.pid) as schema:
        rows = until(lambda: complete(schema))
        ids = {name: row["THREAD_ID"] for name, row in rows.items()}
        blocked = schema.table("blocked").set_index("THREAD_ID")
    hold, between, behind = rows["hold"], rows["between"], rows["behind"]
    assert (hold["EVENT_NAME"], hold["OPERATION"], hold["THREAD_STATE"]) == ("wait/io/socket/app/quiet", "recv", "WAITING")
    assert hold["STAGE_NAME"] == "stage/app/saving"
    assert hold["WAIT_CLASS"] == "wait/io/socket"
    assert hold["BLOCKING_THREAD_ID"] is None
    assert (between["EVENT_NAME"], between["OPERATION"]) == ("wait/synch/mutex/app/LOCK_first", "lock")
    assert (between["BLOCKING_THREAD_ID"], between["FINAL_BLOCKING_THREAD_ID"], between["CHAIN_DEPTH"]) == (
        ids["hold"],
        ids["hold"],
        1,
    )
    assert (behind["BLOCKING_THREAD_ID"], behind["FINAL_BLOCKING_THREAD_ID"], behind["CHAIN_DEPTH"]) == (
        ids["between"],
        ids["hold"],
        2,
    )
    for row in (between, behind):
        assert row["IS_DEADLOCKED"] == 0
        same = blocked.loc[row["THREAD_ID"]]
        assert same["HOLDER_THREAD_ID"] == row["BLOCKING_THREAD_ID"]
        for column in ("EVENT_ID", "EVENT_NAME", "SOURCE", "OBJECT_INSTANCE_BEGIN"):
            assert same[column] == row[column], column
        assert 0 < row["TIMER_WAIT"] <= same["TIMER_WAIT"]
    for name, other in (("left", "right"), ("right", "left")):
        assert rows[name]["BLOCKING_THREAD_ID"] == ids[other]
        assert rows[name]["IS_DEADLOCKED"] == 1
        assert rows[name]["FINAL_BLOCKING_THREAD_ID"] in (ids["left"], ids["right"])


def test_a_sample_says_what_runs_in_no_wait(hung: Subject) -> None:
    with pfs.attach(hung.pid) as schema:
        rows = until(lambda: complete(schema))
    query, busy = rows["query"], rows["busy"]
    assert (query["THREAD_STATE"], query["WAIT_CLASS"], query["EVENT_NAME"]) == ("SLEEPING", "elsewhere", None)
    assert (query["STATEMENT_NAME"], query["DIGEST_TEXT"]) == (
        "statement/app/job", "SELECT * FROM `orders` WHERE `customer` = ? AND `secret` = ?",
    )  # fmt: skip
    assert query["STATEMENT_TIMER_WAIT"] > 0
    assert query["SOURCE"]
    texts = [value for value in query.values() if isinstance(value, str)]  # an address or a time has 4711 in it now and then
    assert not any(literal in text for text in texts for literal in ("hush", "4711"))
    assert busy["THREAD_STATE"] in ("ON CPU", "RUNNABLE")
    assert busy["TRANSACTION_EVENT_ID"] > 0


def test_of_a_killed_process_the_waits_are_known_and_the_kernel_is_not_asked(hung: Subject) -> None:
    with pfs.attach(hung.pid) as schema:
        alive = until(lambda: complete(schema))
        os.kill(hung.pid, signal.SIGKILL)
        hung.process.wait()
        dead = sessions(schema)
        again = sessions(schema)
    for name, row in alive.items():
        assert dead[name]["EVENT_NAME"] == row["EVENT_NAME"], name
        assert dead[name]["BLOCKING_THREAD_ID"] == row["BLOCKING_THREAD_ID"], name
    assert {row["THREAD_STATE"] for row in dead.values() if row["EVENT_NAME"] is None} == {"UNKNOWN"}
    assert dead["between"]["TIMER_WAIT"] == again["between"]["TIMER_WAIT"]  # no time passes there any more


def test_an_own_thread_that_waits_is_seen_and_the_one_that_samples_is_not() -> None:
    """The thread that reads a table has a row. That of a sampler has none."""
    lock = pfs.Lock("samples/LOCK_own")
    with lock:
        waiter = pfs.Thread(target=lock.acquire, name="samples/waiter")
        waiter.start()
        until(lambda: len(pfs.table("blocked")))
        sampling = _core.Sampling(None, 200.0)
        runs, rows, skipped, parts = sampling.run(0.2)
        columns = {part[0]: part for part in parts}
        own = threading.get_native_id()
        assert runs
        assert rows >= 20
        assert skipped == 0
        assert own not in columns["THREAD_OS_ID"][3].tolist()
        assert own in pfs.table("active_sessions")["THREAD_OS_ID"].tolist()
        codes, names = columns["EVENT_NAME"][3].tolist(), columns["EVENT_NAME"][5].tolist()
        waiting = [code for code in codes if code >= 0 and names[code] == "wait/synch/mutex/samples/LOCK_own"]
        assert len(waiting) == sampling.samples
    waiter.join()
    lock.release()


def test_a_sampling_that_is_stopped_ends_at_once_and_gaps_are_counted() -> None:
    sampling = _core.Sampling(None, 1000.0)
    threading.Timer(0.2, sampling.stop).start()
    before = time.monotonic()
    sampling.run(60.0)
    assert time.monotonic() - before < 10
    assert sampling.samples > 0
    assert sampling.missed >= 0
    assert sampling.scheduling in ("fifo", "slice", "normal")


def test_a_fixed_period_is_not_what_the_sampler_has() -> None:
    """The time between samples is random: a program that works in step with them would be seen always, or never."""
    over = threading.Event()
    thread = pfs.Thread(target=over.wait, name="samples/seen")
    thread.start()
    sampling = _core.Sampling(None, 100.0)
    taken: dict[int, tuple[int, float]] = {}  # when, and how late: microseconds, by SAMPLE_ID
    end = time.monotonic() + 2
    while time.monotonic() < end:
        _, _, _, parts = sampling.run(0.5)
        columns = {part[0]: part[3].tolist() for part in parts}
        for number, at, late in zip(columns["SAMPLE_ID"], columns["SAMPLE_TIME"], columns["LATENESS"], strict=True):
            taken[number] = at, late / 1e6
    over.set()
    thread.join()
    pairs = list(pairwise(taken.values()))
    gaps = sorted(later - earlier for (earlier, _), (later, _) in pairs)
    assert len(gaps) > 50
    assert gaps[len(gaps) // 10] < 8_000  # microseconds: with a fixed period nearly all are 10 ms
    assert gaps[len(gaps) * 9 // 10] > 12_000
    # No burst: the one behind a sample that is late keeps its time, or half a period behind one that is later than that.
    assert all(later - earlier > 4_000 - (late if late < 5_000 else 0) for (earlier, late), (later, _) in pairs)
