"""Loops of all that comes and goes: the memory of the process and its segment stay."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import budgets
from tests.conftest import Build, Run
from tests.python.programs.test_programs import environment, values

# What is done in a loop, and how many bytes one turn must not leave behind.
LOOPS: dict[str, tuple[str, int]] = {
    "locks": ("lock = pfs.Lock('leak/LOCK')\nwith lock: pass", 16),
    "all kinds of locks": (
        "a, b, c = pfs.RLock('leak/R'), pfs.RWLock('leak/RW'), pfs.Condition('leak/C')\nwith a, b.read(), c: c.notify()",
        32,
    ),
    "queues": ("q = pfs.SimpleQueue('leak/Q')\nq.put(1)\nq.get()\nb = pfs.Queue('leak/QQ')\nb.put(2)\nb.get()", 64),
    "files": ("with pfs.open('/dev/zero', 'rb', name='leak/file', buffering=0) as f: f.read(10)", 16),
    "files that fail": ("try: pfs.open('/no/such', name='leak/file')\nexcept OSError: pass", 16),
    "sockets": ("a, b = pfs.socketpair('leak/S')\na.send(b'x')\nb.recv(1)\na.close()\nb.close()", 64),
    "statements": ("with pfs.statement('leak/stmt', text='select 1 from t') as s, pfs.stage('leak/stage'): s.rows_sent = 1", 16),
    "statements that fail": (
        "try:\n    with pfs.statement('leak/stmt', text='select 1'), pfs.transaction(), pfs.raised(): 1 / 0\n"
        "except ZeroDivisionError: pass",
        32,
    ),
    "statements as decorators": ("pfs.statement('leak/stmt')(lambda: 1)()", 32),
    "memory": ("with pfs.memory('leak/block').block(100): pass", 16),
    "waits": ("w = pfs.wait('leak/w')\nwith w: pass", 16),
    "names that are refused": ("try: pfs.Lock('leak/%')\nexcept pfs.Error: pass", 16),
    "threads": ("t = pfs.Thread(target=int)\nt.start()\nt.join()", 512),
    "accounts": ("pfs.set_account('anna', 'desk')\npfs.set_account('bert', 'desk')", 16),
    "tables": ("t = pfs.Table('leak')\nt.close()", 64),
    "tasks": (
        "import asyncio\nasync def task():\n    async with pfs.statement('leak/task'): await asyncio.sleep(0)\n"
        "asyncio.run(task())",
        512,
    ),
    "rules": ("pfs.setup_instruments['wait/io/socket/%'].enabled = True", 64),
    "truncate": ("pfs.truncate('events_waits_history')", 32),
    "reading": ("pfs.table('threads')", 256),
    "reading as rows": ("pfs._core.rows('setup_instruments', ['NAME'], None)", 64),
    "reading with a condition": (
        "pfs.table('events_waits_history_long', where='TIMER_WAIT > 1 and EVENT_NAME like \\'wait/%\\'')",
        512,
    ),
    "arrow": ("pfs.arrow('threads')", 512),
    "status": ("pfs.status['Performance_schema_status_reason']", 32),
    "attach": ("with pfs.attach(pfs._core.segment_path()) as s: s.table('users')", 2048),
    "variables": ("pfs.register_variable('leak_v', 5)", 64),
    "log": ("pfs.log('a line')", 16),
}

LOOPS_ONE_BY_ONE = """
import gc, json, os, sys, time
import pfs

def memory():
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resident + 512 * os.stat(pfs._core.segment_path()).st_blocks

def turns(code, world, seconds, least):
    done, end = 0, time.process_time() + seconds
    while done < least or time.process_time() < end:
        exec(code, world)
        done += 1
    gc.collect()
    return done

def grows(name, text, limit, seconds):
    code, world = compile(text, name, "exec"), {"pfs": pfs}
    least = 8 * os.sysconf("SC_PAGESIZE") // limit  # memory is counted in pages: some of them must be allowed, on any machine
    turns(code, world, seconds, least)
    for attempt in range(6):  # what warms up late is no leak: it stops
        before = memory()
        done = turns(code, world, seconds, least)
        grown = memory() - before
        print(f"{name}: {done} turns, {grown} bytes")
        if grown <= done * limit // 2:
            return False
    return True

for piece in range(100):
    pfs.log("x" * 65535)  # fills error_log, a ring: what follows takes no new page of it
seconds = float(sys.argv[2])
print("grow:", [name for name, (text, limit) in json.loads(sys.argv[1]).items() if grows(name, text, limit, seconds)])
"""


# Rings that 1,000 rows fill: on a slow machine, a loop does not fill one of 10,000 in all its attempts.
RINGS = ",".join(
    f"performance_schema_events_{kind}_history_long_size=1000" for kind in ("waits", "stages", "statements", "transactions")
)


def test_loops_leave_no_memory_behind(fresh: Run) -> None:
    seconds = budgets.SOAK_SECONDS * 1.25 / 50
    said = fresh(LOOPS_ONE_BY_ONE, json.dumps(LOOPS), str(seconds), options=RINGS, timeout=120 + 500 * seconds)
    print(said)
    assert said.endswith("grow: []\n")


def test_a_leak_is_found(fresh: Run) -> None:
    """Negative control: 64 bytes a turn."""
    leak = {"leak": ("import gc\ngc.leak = getattr(gc, 'leak', [])\ngc.leak.append(bytes(64))", 16)}
    assert fresh(LOOPS_ONE_BY_ONE, json.dumps(leak), "0.05").endswith("grow: ['leak']\n")


def test_a_soak_reaches_a_size_and_stays_there(build: Build, tmp_path: Path) -> None:
    """Threads, objects, names, digests, accounts that come and go: the second half adds no memory to what the first half took."""
    seconds = str(budgets.SOAK_SECONDS)
    kinds = str(budgets.SOAK_NAMES)
    options = "performance_schema_digests_size=100"
    done = subprocess.run(
        [build("soak"), seconds, kinds],
        cwd=tmp_path,
        env=environment(tmp_path, PFS_OPTIONS=options),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = {name: int(value) for name, value in values(done.stdout).items()}
    print(said)
    assert said["threads"] > 100
    assert said["segment_end"] <= said["segment_half"] + 64
    assert said["memory_end"] <= said["memory_half"] + 1024
