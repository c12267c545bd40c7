"""``pfs run`` of unchanged Python programs: whichever way their frames are read, a lock has the line that made it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, own_folder, pytestmark
from tests.python.run_python.test_run_python import locks_of, written

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

TURNS = 60
# Makes a lock at each line that ends with the word, and takes it once. In between are frames of C and of the standard library,
# frames of generators, and code that is traced.
LINES = """\
import asyncio, contextlib, functools, gc, itertools, queue, signal, sys, threading, weakref
def use(lock):
    with lock: pass
def generator():
    while True:
        use(threading.Lock())  # here
        yield
def outer():
    yield from generator()
async def leaf():
    await asyncio.sleep(0)
    use(threading.Lock())  # here
async def several():
    async for _ in ticks(): use(threading.Lock())  # here
    await asyncio.gather(leaf(), leaf())
async def ticks():
    yield
def recursive(n):
    if n: return recursive(n - 1)
    use(queue.Queue().mutex)  # here
def handler(*_): use(threading.Lock())  # here
signal.signal(signal.SIGUSR1, handler)
class Finalized:
    def __init__(self): self.me = self
    def __del__(self): use(queue.Queue().mutex)  # here
class Slots:
    def __getattr__(self, name): use(threading.Lock())  # here
    def __eq__(self, other):
        use(threading.Lock())  # here
        return True
    __hash__ = object.__hash__
    @property
    def value(self): use(threading.Lock())  # here
def closure():
    count = 0
    def inner():
        nonlocal count
        count += 1
        use(threading.Lock())  # here
    return inner
inner = closure()
def raising():
    try:
        raise ValueError
    except ValueError:
        use(threading.Lock())  # here
    finally:
        use(threading.Lock())  # here
@contextlib.contextmanager
def entered():
    use(threading.Lock())  # here
    yield
def traced(frame, event, argument): return traced
def quiet():
    use(threading.Lock())  # here
running = outer()
def turn():
    next(running)
    sorted([0], key=lambda _: use(threading.Lock()) or 0)  # here
    [use(threading.Lock()) for _ in range(1)]  # here
    list(map(functools.partial(lambda a, b: use(queue.Queue().mutex), 1), [2]))  # here
    functools.reduce(lambda a, b: use(threading.Lock()), [1, 2])  # here
    recursive(50)
    signal.raise_signal(signal.SIGUSR1)
    Finalized(); gc.collect()
    slots = Slots(); slots.other; slots.value; slots == 1
    inner()
    try: raising()
    except ValueError: pass
    with entered(): pass
    sys.settrace(traced); quiet(); sys.settrace(None)
    class Body: use(threading.Lock())  # here
    gone = Slots(); kept = weakref.ref(gone, lambda _: use(threading.Lock())); del gone  # here
    for _ in itertools.starmap(lambda: use(threading.Lock()), [()]): pass  # here
    thread = threading.Thread(target=lambda: use(threading.Lock())); thread.start(); thread.join()  # here too
    exec("\\n\\nuse(threading.Lock())", {"__name__": "executed", "use": use, "threading": threading})
    asyncio.run(several())
for _ in range(TURNS): turn()
"""


@pytest.mark.parametrize("turns", [1, TURNS], ids=["first", "many"])
def test_a_lock_has_its_line_whatever_called_it(tmp_path: Path, turns: int) -> None:
    """From the first turn on, of which each frame is new, to those in which all of them are known."""
    counts = locks_of(tmp_path, written(tmp_path, LINES.replace("TURNS", str(turns))))
    expected = {f"__main__:{at}": turns for at, line in enumerate(LINES.splitlines(), 1) if line.endswith("# here")}
    expected[f"__main__:{LINES.splitlines().index('    use(threading.Lock())  # here') + 1}"] = 2 * turns  # leaf() runs twice
    expected["executed:3"] = turns
    assert {name: counts.get(name) for name in expected} == expected


# Does something with a lock over and over, and prints how many blocks of memory the last time has kept.
BLOCKS = """\
import _thread, sys
held = _thread.allocate_lock()
held.acquire()
def made():
    before = sys.getallocatedblocks()
    lock = _thread.allocate_lock()
    return sys.getallocatedblocks() - before
def waited():
    before = sys.getallocatedblocks()
    held.acquire(True, 0.0001)
    return sys.getallocatedblocks() - before
for _ in range(100): WORK()
print(WORK())
"""


@pytest.mark.parametrize("work", ["made", "waited"])
def test_a_frame_that_is_known_gets_no_object(tmp_path: Path, work: str) -> None:
    """Else each function that makes a lock or waits would have one, which CPython allocates and frees."""
    program = written(tmp_path, BLOCKS.replace("WORK", work))
    plain, under = (
        subprocess.run([*before, sys.executable, program], capture_output=True, text=True, check=True).stdout
        for before in ([], [*PFS, "run", "--no-report", "--"])
    )
    assert plain == under


GENERATED = """\
import time
for name in ("<orders generated made()>", "<made-gen-7>", "<made>"):
    made = {"time": time, "__name__": "made"}
    exec(compile("\\n\\ndef wait(): time.sleep(0.001)", name, "exec"), made)
    made["wait"]()
"""


def test_a_wait_in_code_that_a_package_has_written_has_the_line_that_calls_it(tmp_path: Path) -> None:
    """Such code is told by its name, as SQLAlchemy, attrs and decorator give it."""
    ran = subprocess.run(
        [*PFS, "run", "--json", "--", sys.executable, written(tmp_path, GENERATED)], capture_output=True, text=True, check=True
    )
    waits = {row["name"].partition(" ")[0]: row["count"] for row in json.loads(ran.stderr)["waits"] if "sleep" in row["name"]}
    assert waits == {"wait/system/python/sleep-__main__:5": 2, "wait/system/python/sleep-made:3": 1}
