"""thread_time says where all of the time of threads went. Programs tell their lives, and what the kernel has counted for them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pfs
from tests.python.run.test_run import PFS, SOURCES, kept, own_folder, pytestmark, run
from tests.python.run.test_run_calls import compiled

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

# What each thread of tests/programs/unchanged/thread_time.c does nearly all the time.
STATES = {
    "c": "computing",
    "s": "wait/system/sleep",
    "l": "wait/synch/mutex",
    "r": "wait/io/file",
    "w": "wait/synch/cond",
    "p": "idle",
    "a": "idle",
    "x": "elsewhere",
}
TICK = 10_000_000_000  # picoseconds to which the kernel tells the begin of a process
SLACK = 3_000_000_000  # picoseconds for the begin and the end of a thread, which the program does not see

LATER = 100_000_000_000  # picoseconds for which a thread may wait for a processor at its end, on a loaded machine

Times = dict[str, dict[str, int]]  # by name and state


def times_of(source: object) -> Times:
    with pfs.attach(str(source)) as schema:
        rows = schema.table("thread_time")
    times: Times = {}
    for name, state, time_ in zip(rows["NAME"], rows["STATE"], rows["SUM_TIMER_WAIT"], strict=True):
        times.setdefault(str(name), {})[str(state)] = int(time_)
    return times


def add_up(times: dict[str, int], life: int) -> bool:
    """Returns whether the states have all of a life, in nanoseconds, to 2 %; its end may have to wait for a processor."""
    return -0.02 * life * 1000 - SLACK <= sum(times.values()) - life * 1000 <= 0.02 * life * 1000 + LATER


def lives(output: str) -> dict[str, tuple[int, int, int]]:
    return {
        letter: (int(life), int(computed), int(runnable))
        for letter, life, computed, runnable in map(str.split, output.splitlines())
    }


def workers(times: Times) -> list[dict[str, int]]:
    return [states for name, states in times.items() if name.startswith("thread/thread_time/")]


def test_G16_the_states_of_a_thread_are_its_life(tmp_path: Path) -> None:
    """A thread of each kind: its states add up to its life, and those of the kernel are the kernel's."""
    program = compiled(tmp_path, "thread_time")
    for letter, state in STATES.items():
        run("rm", "-rf", tmp_path / "segments")
        output, segment = kept(tmp_path, program, letter)
        ((life, computed, runnable),) = lives(output).values()
        (states,) = workers(times_of(segment))
        assert add_up(states, life), letter
        # pfs reads the clocks a little later, perhaps after a wait for a processor.
        assert 0 <= states["computing"] - computed * 1000 <= SLACK, letter
        assert 0 <= states["runnable"] - runnable * 1000 <= LATER, letter
        rest = {name: time_ for name, time_ in states.items() if name not in ("computing", "runnable")}
        if letter != "c":
            assert max(rest, key=lambda name: rest[name]) == state, letter
            assert rest[state] >= 0.98 * sum(rest.values()) - SLACK, letter
        else:
            assert sum(rest.values()) <= 0.02 * life * 1000 + SLACK
        # A broken table: one whose largest state is missing.
        assert not add_up({name: time_ for name, time_ in states.items() if time_ != max(states.values())}, life), letter


def test_G16_threads_of_one_routine_are_one_role_after_their_ends_too(tmp_path: Path) -> None:
    program = compiled(tmp_path, "thread_time")
    output, segment = kept(tmp_path, program, "cslrwpxacslrwpxa")
    total = sum(int(line.split()[1]) for line in output.splitlines())
    times = times_of(segment)
    (states,) = workers(times)
    assert -16 * SLACK <= sum(states.values()) - total * 1000 <= 0.02 * total * 1000 + 16 * LATER
    assert set(STATES.values()) <= set(states)
    with pfs.attach(str(segment)) as schema:
        count = schema.table("thread_time", where="NAME like 'thread/thread_time/%' and STATE = 'computing'")["COUNT_THREADS"]
        assert list(count) == [16]
        with pytest.raises(pfs.errors.Error):
            schema.truncate("thread_time")


def test_G17_a_forked_child_begins_at_zero(tmp_path: Path) -> None:
    """The parent waits for its child, which has the threads. Each process has its own time."""
    program = compiled(tmp_path, "thread_time")
    done = run(*PFS, "run", "--keep", "--no-report", "--", program, "sx", "f", check=True)
    found = [times_of(segment) for segment in (tmp_path / "segments").glob("*/*.pfs")]
    assert len(found) == 2
    (child,) = [times for times in found if workers(times)]
    (parent,) = [times for times in found if not workers(times)]
    (states,) = workers(child)
    assert add_up(states, sum(life for life, _, _ in lives(done.stdout).values()))
    (main,) = [states for name, states in parent.items() if name.endswith("/main")]
    (mains,) = [states for name, states in child.items() if name.endswith("/main")]
    assert main["wait/system/child"] + main["runnable"] + main["computing"] >= 0.9 * sum(main.values()) - SLACK
    assert main["wait/system/child"] > 10 * main["elsewhere"]
    # Its own life is in its child's wait, whose exit it hears of a little later.
    assert sum(mains.values()) <= sum(main.values()) + SLACK
    assert "wait/system/child" not in mains


def begins(tmp_path: Path) -> Path:
    """Returns a program that computes for 100 ms and sleeps for 100 ms before pfs is there, and sleeps for 100 ms after it."""
    source, library = SOURCES / "begins.c", tmp_path / "libbegins.so"
    subprocess.run(["cc", "-DLIBRARY", "-shared", "-fPIC", "-o", library, source], check=True)
    subprocess.run(["cc", "-o", tmp_path / "begins", source, library, f"-Wl,-rpath,{tmp_path}"], check=True)
    return tmp_path / "begins"


def said(output: str) -> list[tuple[str, int]]:
    return [(word, int(at)) for word, at in map(str.split, output.splitlines())]


def test_G17_what_pfs_was_not_there_for_is_the_processs(tmp_path: Path) -> None:
    """The program says when it began, and when it ended: none of that time is missing."""
    report = tmp_path / "report"
    done = run(*PFS, "run", "--json", "-o", report, "--", begins(tmp_path), check=True)
    (_, began), _, (_, ended) = said(done.stdout)
    found = json.loads(report.read_text())
    of_process = {row["state"]: row["time"] for row in found["thread_time"] if row["name"] == "(process)"}
    whole = sum(row["time"] for row in found["thread_time"] if row["name"] != "(not seen)")
    assert of_process["starting"] >= 200e9 - TICK - SLACK
    assert of_process["ending"] >= 100e9
    assert whole >= (ended - began) * 1000 - TICK - SLACK
    # A broken table: one that lacks either.
    assert whole - min(of_process.values()) < (ended - began) * 1000 - TICK - SLACK


def test_G17_a_program_begins_when_its_process_becomes_it(tmp_path: Path) -> None:
    """A process runs another program: it begins when the earlier one ends, and has not computed what that one did."""
    done = run(*PFS, "run", "--keep", "--no-report", "--", begins(tmp_path), "again", check=True)
    times = [times_of(segment) for segment in (tmp_path / "segments").glob("*/*.pfs")]
    assert len(times) == 2
    _, (_, first_main), (_, execs), _, (_, second_main), _ = said(done.stdout)
    main = "thread/native/main"
    first, second = sorted(times, key=lambda its: -its[main]["computing"])
    assert first["(process)"]["starting"] >= 200e9 - TICK - SLACK
    assert sum(first[main].values()) >= (execs - first_main) * 1000
    assert first[main]["computing"] >= 100e9
    assert 200e9 <= second["(process)"]["starting"] <= (second_main - execs) * 1000
    assert second[main]["computing"] < 50e9
    assert second.get("(not seen)", {}).get("computing", 0) < 50e9


def test_G18_a_killed_process_has_what_was_known(tmp_path: Path) -> None:
    """Threads that had ended are known. Of the others only the waits are: the rest was not seen, and nothing is made up."""
    program = compiled(tmp_path, "thread_time")
    done = run(*PFS, "run", "--keep", "--no-report", "--", program, "s", "k")
    assert done.returncode != 0
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    times = times_of(segment)
    (main,) = [states for name, states in times.items() if name.endswith("/main")]
    assert main["computing"] == main["runnable"] == main["elsewhere"] == 0
    assert 0.9 * 300e9 <= main["not seen"] <= 100 * 300e9


def test_G16_a_process_that_lives_has_its_time_so_far(tmp_path: Path) -> None:
    """A reader asks the kernel about threads that live. A wait that has not ended counts."""
    source = tmp_path / "hang.c"
    source.write_text(
        '#include <unistd.h>\n#include <time.h>\nint main(void) { struct timespec t = {30, 0}; write(1, "x", 1);'
        " return nanosleep(&t, 0); }\n"
    )
    subprocess.run(["cc", "-w", "-o", tmp_path / "hang", source], check=True)
    with subprocess.Popen([*PFS, "run", "--keep", "--no-report", "--", tmp_path / "hang"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        (segment,) = (tmp_path / "segments").glob("*/*.pfs")
        time.sleep(0.5)
        before, begin = times_of(segment), time.monotonic_ns()
        time.sleep(1)
        after, end = times_of(segment), time.monotonic_ns()
        pid = int(segment.stem)
        os.kill(pid, signal.SIGKILL)
        process.wait()
    (first,) = [states for name, states in before.items() if name.endswith("/main")]
    (second,) = [states for name, states in after.items() if name.endswith("/main")]
    grown = second["wait/system/sleep"] - first["wait/system/sleep"]
    assert abs(grown - (end - begin) * 1000) <= 0.3 * (end - begin) * 1000
    assert grown >= 0.98 * (sum(second.values()) - sum(first.values())) - SLACK  # its start takes longer on a busy machine


def test_G16_a_thread_that_accepts_is_idle_in_each_answer(tmp_path: Path) -> None:
    """The tables and the report agree about a thread that waits for a connection, also where it is the first one."""
    program = tmp_path / "accepts.py"
    program.write_text(
        "import socket, sys\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "with listener.accept()[0] as one: one.recv(1)\n"
    )
    report = tmp_path / "report"
    command: list[str | Path] = [*PFS, "run", "--keep", "--json", "-o", report, "--", sys.executable, program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        (segment,) = (tmp_path / "segments").glob("*/*.pfs")
        with pfs.attach(str(segment)) as schema:
            for _ in range(600):
                sessions = schema.table("active_sessions", where="EVENT_NAME LIKE 'wait/io/socket/%/listen'")
                if len(sessions):
                    break
                time.sleep(0.1)
            time.sleep(0.5)
        with socket.create_connection(("127.0.0.1", port)) as link:
            link.send(b"x")
        assert process.wait() == 0
    assert list(sessions["THREAD_STATE"]) == ["IDLE"]
    assert list(sessions["WAIT_CLASS"]) == ["idle"]
    found = json.loads(report.read_text())
    of_idle = sum(row["time"] for row in found["thread_time"] if row["state"] == "idle")
    assert of_idle >= 0.4e12
    assert not any(row["state"] == "wait/io/socket" and row["time"] > 0.1e12 for row in found["thread_time"])
    (row,) = [row for row in found["idle"] if row["name"].endswith("/listen")]
    assert row["time"] >= 0.4e12
    classes = {row["class"]: row["time"] for row in found["classes"]}
    assert classes["idle (poll, select, epoll, accept)"] >= row["time"]
    assert classes["sockets"] < 0.4e12
    assert found["findings"] == []


def test_threads_of_python_have_roles_without_their_numbers(tmp_path: Path) -> None:
    program = tmp_path / "threads.py"
    program.write_text(
        "import threading, time\n"
        "def nap(): time.sleep(0.3)\n"
        "threads = [threading.Thread(target=nap) for _ in range(4)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
    )
    _, segment = kept(tmp_path, sys.executable, program)
    times = times_of(segment)
    (naps,) = [states for name, states in times.items() if "*" in name]
    assert sum(naps.values()) >= 4 * 300e9
    assert naps["wait/system/sleep"] >= 0.9 * sum(naps.values())


def test_what_a_static_child_computed_was_not_seen(tmp_path: Path) -> None:
    """Its processor time is in a row of its own, and in none of the others."""
    (tmp_path / "spin.c").write_text(
        "#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC / 2) continue; return 0; }\n"
    )
    made = subprocess.run(["cc", "-static", "-o", tmp_path / "spin", tmp_path / "spin.c"], capture_output=True)
    if made.returncode != 0:
        pytest.skip("cc -static does not work here")
    report = tmp_path / "report"
    run(*PFS, "run", "-o", report, "--", "sh", "-c", f"{tmp_path}/spin; exit 0", check=True)
    where = report.read_text().partition("\nWhere the time went\n")[2].partition("\n\n")[0]
    (row,) = [line for line in where.splitlines() if "(not seen)" in line]
    unseen, unit = row.split()[:2]
    assert row.endswith("(not seen)  computing in processes and threads that pfs did not record")
    assert 0.5 <= float(unseen) / {"ms": 1000, "s": 1}[unit] < 1.5
    assert "child processes" in where.splitlines()[1]


def test_the_report_has_where_the_time_went(tmp_path: Path) -> None:
    program = compiled(tmp_path, "thread_time")
    report = tmp_path / "report"
    run(*PFS, "run", "-o", report, "--", program, "sxsx", check=True)
    blocks = report.read_text().split("\n\n")
    (at,) = [i for i, block in enumerate(blocks) if block.startswith("Where the time went\n")]
    lines = blocks[at].splitlines()
    (first,) = [block.splitlines()[1] for block in blocks if block.startswith("Took ")]
    assert first.startswith("Threads lived ")
    assert first.endswith(lines[2].partition("all threads  ")[2])
    assert 3 <= len(lines) <= 11
    for words in ("time (sleep)", "blocked elsewhere"):
        assert words in lines[2]
    run(*PFS, "run", "--json", "-o", report, "--", program, "sxsx", check=True)
    found = json.loads(report.read_text())
    total = sum(row["time"] for row in found["thread_time"] if row["name"] != "(not seen)")
    assert total >= 4 * 300e9
