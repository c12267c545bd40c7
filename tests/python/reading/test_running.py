"""What runs now: pfs.now, the tables running and blocked, pfs.table(running="elapsed"), pfs top; of hung, stopped, dead and
forked processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import pfs
from pfs._ui.cli.blocked import blocked_lines
from pfs._ui.cli.top import Process, View, lines, screen_of
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import Subject, clean_environment, until

SECOND = 10**12

# A thread holds a lock while it reads from a pipe; two others wait for the lock. The lines of the code count from 1.
HUNG = """
import os, threading
lock = pfs.Lock("app/LOCK_orders")
ready, tell = os.pipe()
quiet = pfs.socketpair("app/quiet")
def hold():
    with lock:
        os.write(tell, b"x")
        with pfs.stage("app/saving"):
            quiet[0].recv(1)
def want():
    with lock:
        pass
pfs.Thread(target=hold, name="holder", daemon=True).start()
os.read(ready, 1)
for name in ("reader", "writer"):
    pfs.Thread(target=want, name=name, daemon=True).start()
"""


def hung(program: Subject, schema: pfs.Schema) -> None:
    program.do(HUNG)
    until(
        lambda: len(schema.table("blocked")) == 2 and schema.table("running")["EVENT_NAME"].eq("wait/io/socket/app/quiet").any()
    )


def check_hung(rows: Any, longest: int) -> None:
    """The rows of `blocked` are those of HUNG."""
    assert sorted(rows["THREAD"].str.rpartition("/")[2]) == ["reader", "writer"]
    assert set(rows["EVENT_NAME"]) == {"wait/synch/mutex/app/LOCK_orders"}
    assert set(rows["SOURCE"]) == {"<string>:12"}
    assert set(rows["OPERATION"]) == {"lock"}
    assert rows["TIMER_WAIT"].between(1, longest).all()
    assert rows["TIMER_WAIT"].is_monotonic_decreasing
    assert rows["HOLDER"].str.endswith("/holder").all()
    assert set(rows["HOLDER_SOURCE"]) == {"<string>:7"}
    assert (rows["HOLDER_TIMER_WAIT"] >= rows["TIMER_WAIT"]).all()
    assert set(rows["HOLDER_EVENT_NAME"]) == {"wait/io/socket/app/quiet"}
    assert set(rows["HOLDER_EVENT_SOURCE"]) == {"<string>:10"}
    assert rows["DEADLOCK"].isna().all()


# ---- The time line


@fresh_process()
def test_now_is_on_the_time_line_of_the_events() -> None:
    lock = pfs.Lock("app/LOCK")
    for timer in ("CYCLE", "NANOSECOND", "MICROSECOND"):
        pfs.setup.setup_timers["wait"].timer_name = timer
        before = pfs.now()
        with lock:
            pass
        after = pfs.now()
        last = pfs.table("events_waits_history").iloc[-1]
        assert before - 10**6 <= last["TIMER_START"] <= last["TIMER_END"] <= after, timer
    with pfs.attach(os.getpid()) as schema:
        assert after <= schema.now() <= pfs.now()


@fresh_process("performance_schema=OFF")
def test_of_a_process_that_records_nothing_there_is_nothing() -> None:
    assert pfs.now() == 0
    assert pfs.table("running").empty
    assert pfs.table("blocked").empty


def test_now_of_another_process_goes_on_while_it_is_stopped(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        first, begin = schema.now(), time.monotonic()
        program.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        passed, wall = schema.now() - first, (time.monotonic() - begin) * SECOND
        assert 0.2 * SECOND <= passed <= wall * 1.01


def test_now_of_a_dead_process_is_the_last_moment_that_is_known(program: Subject) -> None:
    program.do("with pfs.Lock('app/LOCK'): pass")
    with pfs.attach(program.pid) as seen, pfs.attach(program.pid) as unseen:
        newest = int(seen.table("events_waits_history_long")["TIMER_END"].max())
        time.sleep(0.1)
        alive = seen.now()
        assert alive > newest
        program.kill()
        assert (seen.now(), unseen.now()) == (alive, newest)
        time.sleep(0.05)
        assert (seen.now(), unseen.now()) == (alive, newest)


# ---- Running events


@fresh_process()
def test_running_has_all_open_events_with_the_time_so_far() -> None:
    with pfs.transaction(), pfs.statement("app/query", text="SELECT 1"), pfs.stage("app/thinking"), pfs.wait("app/GPU"):
        time.sleep(0.05)
        before = pfs.now()
        found = pfs.table("running")
    assert found["EVENT_TYPE"].tolist() == ["TRANSACTION", "STATEMENT", "STAGE", "WAIT"]
    assert found["EVENT_ID"].is_monotonic_increasing
    assert found["SQL_TEXT"].tolist()[1] == "SELECT 1"
    assert (found["TIMER_WAIT"] >= 0.05 * SECOND).all()
    assert (found["TIMER_START"] + found["TIMER_WAIT"] >= before).all()
    assert found["THREAD"].str.startswith("thread/").all()
    assert found["NESTING_EVENT_ID"].tolist()[1:] == found["EVENT_ID"].tolist()[:3]
    assert pfs.table("running").empty
    assert found.dtypes.equals(pfs.table("running").dtypes)


@fresh_process()
def test_table_fills_running_events_only_if_it_is_asked() -> None:
    tables = [f"events_{kind}_current" for kind in ("transactions", "statements", "stages", "waits")]
    with pfs.transaction(), pfs.statement("app/query"), pfs.stage("app/thinking"), pfs.wait("app/GPU"):
        for name in tables:
            assert pfs.table(name)[["TIMER_END", "TIMER_WAIT"]].isna().all(axis=None)
            row, later = (pfs.table(name, running="elapsed").iloc[-1] for _ in range(2))
            assert row["TIMER_END"] - row["TIMER_START"] == row["TIMER_WAIT"] > 0
            assert later["TIMER_WAIT"] > row["TIMER_WAIT"]
            assert pfs.table(name, running="elapsed")["END_EVENT_ID"].isna().all()
    for name in tables:
        assert pfs.table(name, running="elapsed").equals(pfs.table(name))


@fresh_process()
def test_what_is_not_timed_has_no_elapsed_time() -> None:
    wait = pfs.wait("app/GPU")
    pfs.setup_instruments["wait/%"].timed = False
    with wait:
        row = pfs.table("events_waits_current", running="elapsed").iloc[-1]
        assert row[["TIMER_START", "TIMER_END", "TIMER_WAIT"]].isna().all()
        assert pfs.table("running")[["TIMER_START", "TIMER_WAIT"]].isna().all(axis=None)


@fresh_process()
def test_bad_value_says_what_is_legal() -> None:
    import pytest

    with pytest.raises(pfs.InvalidValue, match="bad value 'now' for running: legal is 'elapsed'"):
        pfs.table("threads", running="now")  # type: ignore[arg-type]


# ---- Blocked threads


def test_hung_program(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        begin = time.monotonic()
        hung(program, schema)
        time.sleep(0.05)
        check_hung(schema.table("blocked"), int((time.monotonic() - begin) * SECOND))
        program.do("quiet[1].send(b'x')")
        until(lambda: schema.table("blocked").empty)


def test_stopped_program(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        hung(program, schema)
        program.process.send_signal(signal.SIGSTOP)
        first = schema.table("blocked")
        check_hung(first, 60 * SECOND)
        time.sleep(0.1)
        assert (schema.table("blocked")["TIMER_WAIT"] >= first["TIMER_WAIT"] + SECOND // 10).all()


def test_dead_program(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        hung(program, schema)
        time.sleep(0.1)
        schema.now()
        program.kill()
        rows = schema.table("blocked")
        check_hung(rows, 60 * SECOND)
        assert (rows["TIMER_WAIT"] >= SECOND // 10).all()
        assert schema.table("blocked").equals(rows)  # time stands still
    with pfs.attach(program.path) as later:
        rows = later.table("blocked")
        assert rows["HOLDER_SOURCE"].tolist() == ["<string>:7"] * 2
        assert (rows["TIMER_WAIT"] <= later.now()).all()


def test_child_of_fork_waits_for_a_lock_of_a_thread_that_it_has_not(program: Subject) -> None:
    """The usual hang after fork(): the thread that holds the lock was not copied."""
    program.do(HUNG)
    with pfs.attach(program.pid) as parent:
        until(lambda: len(parent.table("blocked")) == 2)
        program.do(
            """
            child = os.fork()
            if child == 0:
                lock.acquire()
            """
        )
        check_hung(parent.table("blocked"), 60 * SECOND)
    children = until(lambda: [int(pid) for pid in pfs.processes()["PID"] if pid != program.pid])
    try:
        with pfs.attach(children[0]) as child:
            until(lambda: len(child.table("blocked")) == 1)
            (row,) = child.table("blocked").to_dict("records")
            assert row["EVENT_NAME"] == "wait/synch/mutex/app/LOCK_orders"
            assert row["SOURCE"] == "<string>:4"
            assert 0 < row["TIMER_WAIT"] < 60 * SECOND
            assert child.table("blocked")["HOLDER"].isna().all()  # the child has no such thread
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


DEADLOCK = """
import threading
a, b = pfs.Lock("app/LOCK_a"), pfs.Lock("app/LOCK_b")
both = threading.Barrier(2)
def take(one, other):
    with one:
        both.wait()
        with other: pass
for name, locks in (("one", (a, b)), ("two", (b, a))):
    pfs.Thread(target=take, args=locks, name=name, daemon=True).start()
def third():
    with a: pass
pfs.Thread(target=third, name="three", daemon=True).start()
"""


def test_deadlock_is_named(program: Subject) -> None:
    program.do(DEADLOCK)
    with pfs.attach(program.pid) as schema:
        until(lambda: len(schema.table("blocked")) == 3)
        rows = schema.table("blocked")
        number = dict(zip(rows["THREAD"].str.rpartition("/")[2], rows["THREAD_ID"], strict=True))
        one, two = sorted((number["one"], number["two"]))
        circle = f"{one} -> {two} -> {one}"
        named = dict(zip(rows["THREAD"].str.rpartition("/")[2], rows["DEADLOCK"], strict=True))
        assert named["one"] == named["two"] == circle
        assert rows["DEADLOCK"].isna().sum() == 1  # the third waits for them, but nobody waits for it
        process = Process(schema)

        def both_name_the_circle() -> bool:  # the screen leaves out a wait that is young
            process.look()
            return "\n".join(blocked_lines(process.blocked)).count(f"DEADLOCK {circle}") == 2

        until(both_name_the_circle)


def test_thread_that_waits_for_itself(program: Subject) -> None:
    program.do("lock = pfs.Lock('app/LOCK'); lock.acquire()")
    program.send("lock.acquire()")
    with pfs.attach(program.pid) as schema:
        until(lambda: len(schema.table("blocked")) == 1)
        (row,) = schema.table("blocked").to_dict("records")
        assert row["HOLDER_THREAD_ID"] == row["THREAD_ID"]
        assert row["DEADLOCK"] == f"{row['THREAD_ID']} -> {row['THREAD_ID']}"


def test_read_write_locks(program: Subject) -> None:
    program.do(
        """
        import threading
        lock = pfs.RWLock("app/RW")
        lock.acquire_read()
        def write():
            with lock.write(): pass
        pfs.Thread(target=write, name="writer", daemon=True).start()
        """
    )
    with pfs.attach(program.pid) as schema:
        until(lambda: len(schema.table("blocked")) == 1)
        (row,) = schema.table("blocked").to_dict("records")
        assert (row["OPERATION"], row["READ_LOCKED_BY_COUNT"]) == ("write_lock", 1)
        assert schema.table("blocked")["HOLDER_THREAD_ID"].isna().all()


def test_table_locks(program: Subject) -> None:
    program.do(
        """
        import threading
        never = threading.Event()
        one, other = pfs.Table("shop.orders"), pfs.Table("shop.orders")
        with one.lock("write"): pass
        def want():
            with other.lock("read"): never.wait()
        pfs.Thread(target=want, name="reader", daemon=True).start()
        """
    )
    with pfs.attach(program.pid) as schema:
        until(lambda: len(schema.table("blocked")) == 1)
        (row,) = schema.table("blocked").to_dict("records")
        assert (row["EVENT_NAME"], row["OBJECT_NAME"]) == ("wait/lock/table/sql/handler", "orders")
        assert row["HOLDER"].endswith("/MainThread")


def test_waiting_for_locks_that_come_free_is_no_deadlock(program: Subject) -> None:
    """Threads hand locks on all the time. No reading mixes two moments."""
    program.do(
        """
        import threading
        locks = [pfs.Lock(f"app/LOCK_{i}") for i in range(3)]
        def work():
            while True:
                for lock in locks:
                    with lock: pass
        for _ in range(4): threading.Thread(target=work, daemon=True).start()
        """
    )
    with pfs.attach(program.pid) as schema:
        seen = 0

        def has_seen_somebody_wait() -> bool:
            nonlocal seen
            rows = schema.table("blocked")
            assert rows["DEADLOCK"].isna().all()
            seen += len(rows)
            return seen > 0

        for _ in range(100):
            has_seen_somebody_wait()
        until(has_seen_somebody_wait)  # on a busy machine the first hundred readings may meet nobody


# ---- pfs top, pfs show


def test_top_names_the_hung_threads_in_the_next_refresh(program: Subject, capsys: pytest.CaptureFixture[str]) -> None:
    with pfs.attach(program.pid) as schema:
        hung(program, schema)
        time.sleep(0.05)
        process = Process(schema)
        time.sleep(0.2)
        process.look()
        for name, row in ((row.name, row) for row in process.rows(process_section("waits"))):
            if name == "wait/synch/mutex/app/LOCK_orders":
                assert 1.8 * SECOND < row.time < 2.2 * SECOND  # two threads
                assert row.count == 0
                break
        else:
            pytest.fail("the lock is missing")
        speed = re.search(r" waits/s, ([0-9.]+) s waited/s", process.headline())
        assert speed is not None
        assert 2.7 < float(speed[1]) < 3.3  # two for the lock, one for the socket
        lines(process, View(1.0), 1, 10)
        shown = capsys.readouterr().out
        assert "blocked now: 2 threads" in shown
        assert re.search(r"/reader waits \S+ m?s for wait/synch/mutex/app/LOCK_orders \(lock\) at <string>:12", shown)
        assert re.search(
            r"held by \d+ \S+/holder for \S+ m?s from <string>:7, now in wait/io/socket/app/quiet at <string>:10", shown
        )
        program.do("quiet[1].send(b'x')")
        until(lambda: schema.table("blocked").empty)
        process.look()
        lines(process, View(1.0), 1, 10)
        assert "blocked now" not in capsys.readouterr().out


def process_section(name: str) -> Any:
    from pfs._read.samples import SECTIONS

    return next(section for section in SECTIONS if section.name == name)


def test_a_long_wait_counts_once(program: Subject) -> None:
    """What counted while the wait ran does not count again when it ends."""
    program.do(HUNG)
    with pfs.attach(program.pid) as schema:
        until(lambda: len(schema.table("blocked")) == 2)
        process = Process(schema)
        begin = process.after.taken
        total = 0.0
        for turn in range(4):
            time.sleep(0.1)
            if turn == 2:
                program.do("quiet[1].send(b'x')")
                until(lambda: schema.table("blocked").empty)
            process.look()
            found = {row.name: row for row in process.rows(process_section("waits"))}
            row = found.get("wait/synch/mutex/app/LOCK_orders")
            if row is not None:
                assert row.time * process.seconds <= 2 * SECOND * process.seconds * 1.1
                assert row.average >= 0
                total += row.time * process.seconds
        assert 0.4 * SECOND < total <= 2 * SECOND * (process.after.taken - begin)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (60, 12)])
def test_screen_of_a_hung_program_has_its_size(program: Subject, width: int, height: int) -> None:
    import io

    from rich.console import Console

    with pfs.attach(program.pid) as schema:
        hung(program, schema)
        time.sleep(0.05)
        process = Process(schema)
        output = io.StringIO()
        console = Console(file=output, width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False)
        console.print(screen_of(process, View(1.0), width, height), end="")
        shown = output.getvalue().split("\n")
        assert len(shown) == height, output.getvalue()
        assert max(map(len, shown)) <= width
        assert shown[2].startswith("blocked now: 2 threads")
        if width >= 80:
            assert re.search(r"^  \d+ waits \S+ m?s at <string>:12 for mutex/app/LOCK_orders \(lock\)", shown[3])
            assert "held by" in shown[4]


def run(program: Subject, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pfs", *arguments],
        env=clean_environment(program.path.parent),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_commands(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        hung(program, schema)
        time.sleep(0.05)
    pid = str(program.pid)
    shown = run(program, "show", pid, "blocked", "--human")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.count("wait/synch/mutex/app/LOCK_orders") == 2
    assert "<string>:7" in shown.stdout
    assert re.search(r"\d m?s ", shown.stdout)
    where = ("--where", "EVENT_TYPE = 'STAGE'", "--columns", "EVENT_NAME,TIMER_WAIT", "--format", "csv")
    head, row = run(program, "show", pid, "running", *where).stdout.split()
    assert head == "EVENT_NAME,TIMER_WAIT"
    assert re.fullmatch(r"stage/app/saving,\d{11,}", row)
    command = ("show", pid, "events_stages_current", "--columns", "TIMER_WAIT", "--format", "csv")
    assert run(program, *command).stdout.split()[1:] in (['""'], [])
    assert re.fullmatch(r"\d{11,}", run(program, *command, "--elapsed").stdout.split()[1])
    program.kill()
    shown = run(program, "top", pid)
    assert shown.returncode == 0
    assert "LOCK_orders (lock) at <string>:12" in shown.stdout


# ---- processlist


@fresh_process()
def test_processlist_knows_the_running_statement() -> None:
    pfs.set_account("joe", "here")
    with pfs.statement("app/query", text="SELECT * FROM t", schema="shop"), pfs.stage("app/sorting"):
        (row,) = pfs.table("processlist").to_dict("records")
        (thread,) = pfs.table("threads").to_dict("records")
    shown = [row[name] for name in ("USER", "DB", "COMMAND", "STATE", "INFO")]
    assert shown == ["joe", "shop", "Query", "sorting", "SELECT * FROM t"]
    assert 0 <= row["TIME"] < 60
    assert (thread["PROCESSLIST_INFO"], thread["PROCESSLIST_COMMAND"]) == ("SELECT * FROM t", "Query")
    (row,) = pfs.table("processlist").to_dict("records")
    assert row["COMMAND"] == "Sleep"
    assert pfs.table("processlist")[["DB", "INFO"]].isna().all(axis=None)


@fresh_process()
def test_processlist_time_is_the_age_of_the_statement() -> None:
    pfs.set_account("joe", "here")
    with pfs.statement("app/query", text="é" * 1000):
        time.sleep(1.1)
        before = int(pfs.table("running")["TIMER_WAIT"].iloc[0]) // SECOND
        (row,) = pfs.table("processlist").to_dict("records")
        assert 1 <= before <= row["TIME"] <= int(pfs.table("running")["TIMER_WAIT"].iloc[0]) // SECOND
        assert row["INFO"] == "é" * 510 + "..."  # as SQL_TEXT
        with pfs.statement("app/inner", text="SELECT 2"):
            (row,) = pfs.table("processlist").to_dict("records")
            assert row["INFO"].startswith("é" * 500)  # the outermost one


@fresh_process()
def test_processlist_shows_what_it_is_told() -> None:
    pfs.set_account("joe", "here")
    pfs.server.set_processlist(db="mine")
    pfs.server.set_processlist(command="Batch")
    pfs.server.set_processlist(info="told")
    with pfs.statement("app/query", text="SELECT 1", schema="shop"):
        (row,) = pfs.table("processlist").to_dict("records")
    assert [row[name] for name in ("DB", "COMMAND", "INFO")] == ["mine", "Batch", "told"]
