"""Why a lock was held: the table lock_reasons, pfs.fsync."""

from __future__ import annotations

import os
import threading
import time

import pfs
from tests.python._programs.fresh_process import fresh_process

SECOND = 10**12


@fresh_process()
def test_why_names_what_the_holder_did_while_others_waited() -> None:
    lock, ends = pfs.Lock("app/LOCK_log"), pfs.socketpair("app/peer")
    has_it = threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            ends[0].recv(1)  # 0.2 s
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                pass

    holder = threading.Thread(target=hold)
    holder.start()
    has_it.wait()
    time.sleep(0.1)  # nobody waits: it does not count
    threading.Timer(0.2, ends[1].send, (b"x",)).start()
    with lock:
        pass
    holder.join()
    with pfs.open("alone", "w", name="app/alone") as file:  # after the lock came free
        file.write("x")
    found = pfs.table("lock_reasons", where="LOCK_NAME = 'wait/synch/mutex/app/LOCK_log'")
    assert found["EVENT_NAME"].fillna("").tolist() == ["wait/io/socket/app/peer", ""]
    assert pfs.sql("select SUM_TIMER_WAIT from lock_reasons where LOCK_NAME like '%/LOCK_log'").rows() == [
        (time,) for time in found["SUM_TIMER_WAIT"]
    ]
    first, second = found.to_dict("records")
    assert (first["LOCK_NAME"], first["OPERATION"], first["COUNT_STAR"]) == ("wait/synch/mutex/app/LOCK_log", "recv", 1)
    assert first["SOURCE"].startswith("test_why.py:")
    assert first["HOLDER_SOURCE"] == second["HOLDER_SOURCE"]
    longest = pfs.table("events_waits_history_long").groupby("EVENT_NAME", observed=True)["TIMER_WAIT"].max()
    assert 0.1 * SECOND < first["SUM_TIMER_WAIT"] < longest["wait/io/socket/app/peer"] - 0.09 * SECOND
    assert 0.09 * SECOND < second["SUM_TIMER_WAIT"] < 1 * SECOND
    total = longest["wait/synch/mutex/app/LOCK_log"]
    assert abs(int(found["SUM_TIMER_WAIT"].sum()) - int(total)) < 0.02 * SECOND  # all of the wait is explained


@fresh_process()
def test_why_of_a_lock_that_is_held_now() -> None:
    lock, ends = pfs.Lock("app/LOCK"), pfs.socketpair("app/peer")

    def hold() -> None:
        with lock:
            ends[0].recv(1)

    def want() -> None:
        with lock:
            pass

    threads = [threading.Thread(target=work) for work in (hold, want)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    found = pfs.table("lock_reasons")
    assert found["EVENT_NAME"].tolist()[:1] == ["wait/io/socket/app/peer"]
    with pfs.attach(os.getpid()) as schema:
        assert schema.table("lock_reasons")["EVENT_NAME"].tolist()[:1] == ["wait/io/socket/app/peer"]
    ends[1].send(b"x")
    for thread in threads:
        thread.join()


@fresh_process()
def test_why_of_a_lock_that_nobody_waited_for_is_empty() -> None:
    lock = pfs.Lock("app/LOCK_free")
    with lock, pfs.open("file", "w", name="app/file") as file:
        file.write("x")
    assert pfs.table("lock_reasons").empty


@fresh_process()
def test_fsync_is_an_event_of_the_file() -> None:
    import pytest

    with pfs.open("log", "w", name="app/log") as file:
        file.write("text")
        pfs.fsync(file)
        assert os.path.getsize("log") == 4  # the buffers were written
        pfs.fsync(file.fileno(), data_only=True)
    with pfs.open("raw", "wb", 0, name="app/log") as raw:
        raw.write(b"text")
        raw.sync()
    with open("plain", "w") as plain:
        pfs.fsync(plain)
    events = pfs.table("events_waits_history_long")
    events = events[events["OPERATION"] == "sync"]
    assert events["EVENT_NAME"].tolist() == ["wait/io/file/app/log"] * 3
    assert events["OBJECT_NAME"].tolist() == [os.path.abspath("log")] * 2 + [os.path.abspath("raw")]
    assert events["SOURCE"].str.startswith("test_why.py:").all()
    with pytest.raises(ValueError, match="closed file"):
        pfs.fsync(file)
    with pytest.raises(ValueError, match="closed file"):
        raw.sync()
    _, writing = os.pipe()
    with pytest.raises(OSError, match="Invalid argument") as caught:
        pfs.fsync(writing)
    with pytest.raises(OSError, match="Invalid argument") as expected:
        os.fsync(writing)
    assert str(caught.value) == str(expected.value)
