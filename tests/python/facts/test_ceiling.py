"""A ceiling for what pfs costs (performance_schema_overhead_limit): a thread of pfs makes instruments cheaper and dearer. And the
preset "production". Each test runs in a process of its own, through the C API."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import pfs
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import subject
from tests.python.commands.test_commands_processes import command

LOCK, TREE = MUTEX + "c/LOCK", "wait/synch/rwlock/c/tree"
LIMIT = "performance_schema_overhead_limit"


def step(name: str = LOCK) -> str:
    return str(one("setup_instruments", NAME=name)["OVERHEAD_STEP"])


def ceiling() -> Row:
    return one("setup_overhead")


def eventually(what: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, (ceiling(), rows("overhead_steps"))
        time.sleep(0.05)


def eventually_of(what: Callable[[], bool]) -> None:
    """The same of another process."""
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


class Busy:
    """A thread that takes locks without a rest, in C."""

    def __init__(self) -> None:
        self.mutex, self.tree = Mutex(key_of("mutex", "c/LOCK")), Rwlock(key_of("rwlock", "c/tree"))
        self.stop = False
        self.done = 0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop:
            assert C.hammer(self.mutex.at, self.tree.at, 10_000) == 10_000
            self.done += 10_000

    def end(self) -> None:
        self.stop = True
        self.thread.join()


@fresh_process(f"{LIMIT}=1%")
def test_a_busy_instrument_stays_cheap_and_every_event_counts() -> None:
    busy = Busy()
    assert step() == step(TREE) == "COUNTED"
    eventually(lambda: ceiling()["PERIODS"] >= 8)
    time.sleep(1)
    assert step() == "COUNTED"
    assert events(EVENT_NAME=LOCK) == []
    busy.end()
    assert count(WAITS, EVENT_NAME=LOCK) == busy.done
    assert count(WAITS, EVENT_NAME=TREE) == busy.done
    assert one(WAITS, EVENT_NAME=LOCK)["COUNT_NOT_SAMPLED"] == busy.done
    assert ceiling()["LIMIT_PPM"] == 10_000
    assert ceiling()["OVERHEAD_PPM"] > 0


@fresh_process(f"{LIMIT}=1%")
def test_a_rare_instrument_becomes_dear() -> None:
    """It starts cheap, goes up step by step, and overhead_steps says so. Then it is busy, and goes down."""
    rare = Mutex(key_of("mutex", "c/LOCK"))
    assert step() == "COUNTED"

    def work() -> bool:
        for _ in range(100):
            rare.use()
            sum(range(20_000))  # some 0.2 ms
        return step() == "FULL"

    eventually(work)
    rare.use(10)
    assert len(events(EVENT_NAME=LOCK)) >= 10
    steps = rows("overhead_steps", EVENT_NAME=LOCK)
    assert [(row["FROM_STEP"], row["TO_STEP"]) for row in steps] == [("COUNTED", "SAMPLED"), ("SAMPLED", "FULL")]
    assert all(row["LIMIT_PPM"] == 10_000 and 0 <= row["EVENT_PPM"] <= row["OVERHEAD_PPM"] <= 10_000 for row in steps)
    busy = Busy()
    eventually(lambda: step() != "FULL")
    last = rows("overhead_steps", EVENT_NAME=LOCK)[-1]
    assert last["OVERHEAD_PPM"] > last["LIMIT_PPM"]
    assert last["EVENTS_PER_SECOND"] > 10_000
    busy.end()


@fresh_process()
def test_the_limit_can_be_changed_at_any_time() -> None:
    """From Python and C. Without it all instruments are as they are set, at once."""

    def governors() -> int:
        names = [Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")]
        return names.count("pfs-governor")

    mutex = Mutex(key_of("mutex", "c/LOCK"))
    assert (step(), ceiling()["LIMIT_PPM"], governors()) == ("FULL", 0, 0)
    pfs.setup_overhead["process"].limit_ppm = 5_000
    assert (step(), pfs.setup_overhead["process"].limit_ppm) == ("COUNTED", 5_000)
    eventually(lambda: governors() == 1)
    mutex.use(10)
    assert events(EVENT_NAME=LOCK) == []
    pfs.setup_overhead.update(limit_ppm=0)
    assert step() == "FULL"
    mutex.use(10)
    assert len(events(EVENT_NAME=LOCK)) == 10
    assert governors() == 1  # it stays, because another process may set a limit again
    library = perfschema()
    import ctypes

    library.pfs_set_overhead_limit.argtypes = [ctypes.c_double]
    assert library.pfs_set_overhead_limit(0.25) == 0
    assert ceiling()["LIMIT_PPM"] == 2_500
    assert governors() == 1
    for bad in (-1.0, 101.0, float("nan")):
        assert library.pfs_set_overhead_limit(bad) != 0
    raises(pfs.InvalidValue, lambda: pfs.setup_overhead.update(limit_ppm=1_000_001), "1000000")
    assert ceiling()["LIMIT_PPM"] == 2_500
    pfs.setup_overhead.update(may_disable=True)
    assert ceiling()["MAY_DISABLE"] == "YES"


@fresh_process(f"{LIMIT}=1%")
def test_a_forked_child_has_a_governor_of_its_own() -> None:
    mutex = Mutex(key_of("mutex", "c/LOCK"))
    eventually(lambda: ceiling()["PERIODS"] > 0)
    child = os.fork()
    if child == 0:
        try:
            mutex.use()
            begun = ceiling()["PERIODS"]
            eventually(lambda: ceiling()["PERIODS"] > begun, 10)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    begun = ceiling()["PERIODS"]
    eventually(lambda: ceiling()["PERIODS"] > begun)


@fresh_process(f"{LIMIT}=0.01%")
def test_an_instrument_is_switched_off_only_if_that_is_allowed() -> None:
    """One that is off is tried again."""
    busy = Busy()
    time.sleep(1)
    assert step() == "COUNTED"
    pfs.setup_overhead.update(may_disable=True)
    eventually(lambda: step() == "OFF")
    eventually(lambda: step() == "COUNTED")
    busy.end()


@fresh_process(f"{LIMIT}=1%")
def test_settings_of_the_user_hold_below_the_ceiling() -> None:
    """ENABLED = NO stays off, and a traced instrument keeps all."""
    mutex = Mutex(key_of("mutex", "c/LOCK"))
    instrument(LOCK, enabled=False)
    mutex.use(10)
    assert count(WAITS, EVENT_NAME=LOCK) == 0
    instrument(LOCK, enabled=True, timed="SAMPLED")
    mutex.use(10)
    assert count(WAITS, EVENT_NAME=LOCK) == 10
    assert one("setup_instruments", NAME=LOCK)["TIMED"] == "SAMPLED"


@pytest.mark.parametrize(("text", "millionths"), [("1%", 10_000), ("0.5%", 5_000), ("100%", 1_000_000), ("300", 300), ("0", 0)])
def test_the_option(text: str, millionths: int) -> None:
    code = f"import pfs; print(pfs.variables['{LIMIT}'])"
    assert _run(code, f"{LIMIT}={text}").stdout == f"{millionths}\n"


@pytest.mark.parametrize("text", ["101%", "-1%", "%", "1.5", "one", "1%%", "1000001", "0.5.5%"])
def test_a_bad_option(text: str) -> None:
    done = _run("import pfs; pfs.Lock('app/LOCK')", f"{LIMIT}={text}")
    assert text in done.stderr
    assert "1%" in done.stderr


def _run(code: str, options: str) -> subprocess.CompletedProcess[str]:
    import sys

    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    env["PFS_OPTIONS"] = options
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)


def test_from_outside_and_in_top(tmp_path: Path) -> None:
    with subject(tmp_path, PFS_OPTIONS=f"{LIMIT}=2%") as program:
        program.do("lock = pfs.Lock('app/LOCK')\nfor _ in range(1000):\n    with lock: pass")
        shown = command(program, "top", str(program.pid), "--count", "1")
        assert "of at most 2 %" in shown
        assert "counted" in shown
        command(program, "set", str(program.pid), "process", "--table", "setup_overhead", "--limit-ppm", "0")
        with pfs.attach(program.path) as schema:
            assert schema.table("setup_overhead")["LIMIT_PPM"].item() == 0
            assert set(schema.table("setup_instruments")["OVERHEAD_STEP"]) == {"FULL"}
        assert "of at most" not in command(program, "top", str(program.pid), "--count", "1")
        command(program, "set", str(program.pid), "process", "--table", "setup_overhead", "--limit-ppm", "3.5%")
        with pfs.attach(program.path) as schema:
            assert schema.table("setup_overhead")["LIMIT_PPM"].item() == 35_000
            before = schema.table("setup_overhead")["PERIODS"].item()
            eventually_of(lambda: schema.table("setup_overhead")["PERIODS"].item() > before)
    with subject(tmp_path) as program:
        program.do("lock = pfs.Lock('app/LOCK')")
        with pfs.attach(program.path, write=True) as schema, pytest.raises(pfs.OperationNotAllowed, match="overhead_limit"):
            schema.setup_overhead.update(limit_ppm=10_000)


# ---- The preset ------------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_preset=production,performance_schema_instrument='wait/io/file/c/journal=ON'")
def test_production() -> None:
    for family, name in {"mutex": "LOCK", "rwlock": "tree", "cond": "COND", "file": "data"}.items():
        key_of(family, f"c/{name}")
    with pfs.statement("c/query", "SELECT 1"), pfs.stage("c/work"):
        pass
    key_of("file", "c/journal")
    timed = {row["NAME"]: row["TIMED"] for row in every("setup_instruments")}
    assert timed[LOCK] == timed[TREE] == "CONTENDED"
    assert timed["wait/synch/cond/c/COND"] == timed["stage/c/work"] == timed["statement/c/query"] == "YES"
    assert timed[FILE + "c/data"] == timed["wait/io/table/sql/handler"] == timed["wait/lock/metadata/sql/mdl"] == "SAMPLED"
    assert timed[FILE + "c/journal"] == "YES"  # the options themselves hold over the preset


NO_WORDS = """\
import pfs
for name in ("preset", "trace_on_limit"):
    for value in ("0", "1", "on", "busy", ""):
        try:
            pfs.configure(**{name: value})
        except pfs.InvalidValue as error:
            print(error)
"""


def test_a_preset_is_a_word() -> None:
    """So is the value of the other option that is a choice."""
    done = subprocess.run([sys.executable, "-c", NO_WORDS], capture_output=True, text=True, check=True)
    legal = {"preset": "none or production or sampling", "trace_on_limit": "stop or rotate or drop"}
    assert done.stdout.splitlines() == [
        f"bad value '{value}' for option 'performance_schema_{name}': legal is {words}"
        for name, words in legal.items()
        for value in ("0", "1", "on", "busy", "")
    ]


@fresh_process("performance_schema_preset=PRODUCTION,performance_schema_trace_on_limit=Rotate")
def test_variables_show_the_word() -> None:
    assert pfs.variables["preset"] == "production"
    assert pfs.variables["trace_on_limit"] == "rotate"
    found = one("variables_metadata", VARIABLE_NAME="performance_schema_preset")
    assert (found["DATA_TYPE"], found["MIN_VALUE"], found["MAX_VALUE"]) == ("Enumeration", None, None)
