"""``pfs run``: in a Python without the GIL, a wait for an object has the name of its variable, where that is certain."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import pfs
from tests.python.run.test_run import PFS, own_folder, pytestmark
from tests.python.run.test_run_absent import outcome
from tests.python.run_python.test_run_free_threaded import WITH_LAYER, interpreter, layered

__all__ = ["layered", "own_folder", "pytestmark"]  # their fixtures and mark hold here, too


# A thread does something to an object whose lock another thread has: at first, and when the interpreter has specialized it.
PROGRAM = """
import collections, contextlib, ctypes, gc, sys, threading, types, weakref
from time import sleep

lock, unlock = ctypes.pythonapi.PyMutex_Lock, ctypes.pythonapi.PyMutex_Unlock
lock.argtypes = unlock.argtypes = [ctypes.c_void_p]
LOCK_IN_OBJECT = 10


class Holder:
    def make(self, _):
        some = Holder()
        refs.append(weakref.ref(some, others.append))  # called when this function is over

    __getitem__ = make


class Slots:
    __slots__ = ("x",)


class Table(dict):
    pass


def dict_of(type):
    return gc.get_referents(type.__dict__)[0]


def state_of(thread):
    with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def wait(function, held, before):
    at, threads, asleep, may_begin = id(held) + LOCK_IN_OBJECT, [], 0, threading.Event()

    def call():
        with contextlib.suppress(KeyError, AttributeError):
            function()

    def run():
        for _ in range(before):
            call()
        threads.append(threading.get_native_id())
        while not may_begin.is_set():
            sleep(0.001)
        call()

    thread = threading.Thread(target=run)
    thread.start()
    while not threads:
        sleep(0.001)
    lock(at)
    may_begin.set()
    while asleep < 5 and thread.is_alive():
        sleep(0.005)
        asleep = asleep + 1 if state_of(threads[0]) == "S" else 0
    unlock(at)
    thread.join()


def trace(*_):
    return trace


counts, numbers, others, key, yes, no, slots, table = dict.fromkeys(range(1000)), [2], [1], "k", True, False, Slots(), Table()
me, old, kept, kinds, deque, ids, added = Holder(), Holder(), {"k": numbers}, {1}, collections.deque(), iter(range(1000)), 0
refs = []
me.items, me.table, me.inner, me.call, me.append = [2], {"k": 1}, Holder(), types.MethodType(list.append, others), numbers.append
me.inner.items, me.inner.new, counts["k"], vars(old)["x"] = [2], 1, 1, 1
if sys.argv[2:] == ["monitored"]:
    sys.monitoring.use_tool_id(3, "test")
    events = sys.monitoring.events
    sys.monitoring.set_events(3, events.CALL | events.PY_START | events.PY_RETURN | events.JUMP)
"""

# What it does, to what, and the name of the wait.
CASES = [
    ('counts["k"] = 1', "counts", "object-dict-counts"),
    ("counts[key] += 1", "counts", "object-dict-counts"),
    ("counts[me.inner.items[0]] = str(1)", "counts", "object-dict-counts"),
    ("counts[3000] = counts[4000] = 1", "counts", "object-dict-counts"),
    ("del counts[next(ids)]", "counts", "object-dict-counts"),
    ("counts.update(other=1)", "counts", "two-objects-dict-counts"),
    ("counts |= {}", "counts", "two-objects-dict-counts"),
    ('counts.setdefault("m", []).append(1)', "counts", "object-dict-counts"),
    ('counts.pop("l", None)', "counts", "object-dict-counts"),
    ("dict(counts)", "counts", "two-objects-dict-counts"),
    ("[*counts]", "counts", "two-objects-dict-counts"),
    ('counts.pop("l", [key] if yes and not no else (no or None)); sleep(0)', "counts", "object-dict-counts"),
    ("counts.pop(key, None) if yes else numbers.append(1); sleep(0)", "counts", "object-dict-counts"),
    ("(yes and not no) and numbers.append(0 if yes else 1); sleep(0)", "numbers", "object-list-numbers"),
    ('(lambda shared: shared.pop("l", [0 for _ in numbers]))(counts)', "counts", "object-dict-shared"),
    ('inner = counts; (lambda: inner.pop("l", 0))()', "counts", "object-dict-inner"),
    ("numbers.append(1)", "numbers", "object-list-numbers"),
    ("numbers.extend(others)", "numbers", "two-objects-list-numbers"),
    ("others.extend(numbers)", "numbers", "two-objects-list-numbers"),
    ("numbers[0] = 1", "numbers", "object-list-numbers"),
    ("numbers[0:1] = [1]", "numbers", "two-objects-list-numbers"),
    ("del numbers[-1:]", "numbers", "object-list-numbers"),
    ("numbers += others", "numbers", "two-objects-list-numbers"),
    ("numbers + others", "numbers", "two-objects-list-numbers"),
    ("shared = numbers; shared.append(1)", "numbers", "object-list-shared"),
    ("me.items.append(1)", "me.items", "object-list-me.items"),
    ("me.inner.items.append(1)", "me.inner.items", "object-list-me.inner.items"),
    ('me.table["k"] = 1', "me.table", "object-dict-me.table"),
    ('me.table["k"] += 1', "me.table", "object-dict-me.table"),
    ("me.new = 1", "me", "object-Holder-with-me.new"),
    ("me.inner.new = 1", "me.inner", "object-Holder-with-me.inner.new"),
    ("del me.new", "me", "object-Holder-with-me.new"),
    ("(lambda: me)().new = 1", "me", "object-Holder-with-.new"),
    ('setattr(me, "newer", 1)', "me", "object-Holder-me"),
    ("old.x = 1", "vars(old)", "object-dict-with-old.x"),
    ("slots.x = 1", "slots", "object-Slots-with-slots.x"),
    ("Holder.x = 1", "dict_of(Holder)", "two-objects-dict-with-Holder.x"),
    ("global added; added = 1", "globals()", "object-dict-with-added"),
    ("table[1] = 1", "table", "object-Table-table"),
    ("(lambda self: super(Table, self).__setitem__(1, 1))(table)", "table", "object-Table-self"),
    ("kinds.add(2)", "kinds", "object-set-kinds"),
    ("2 in deque", "deque", "object-collections.deque-deque"),
    ("deque.append(2)", "deque", "object-collections.deque-deque"),
    # What is not certain: an argument when the call is over, a method of another object, an object without a variable, two ways
    # that meet, code that is traced.
    ('counts.update(**{"l": 1})', "counts", "two-objects-dict"),
    (
        "for _ in (1,):\n        for _ in (1,):\n            for _ in (1,):\n                others.append(me.make(key))",
        "others",
        "object-list",
    ),
    ("for _ in (1,):\n        for _ in (1,):\n            others += [me[key]]", "others", "object-list"),
    ("me.call(1)", "others", "object-list"),
    ("me.append(1)", "numbers", "object-list"),
    ('kept["k"].append(1)', "numbers", "object-list"),
    ("(lambda: numbers)().append(1)", "numbers", "object-list"),
    ("(numbers if yes else others)[0] = 1; sleep(0)", "numbers", "object-list"),
    ("(no or numbers)[0] = 1; sleep(0)", "numbers", "object-list"),
    ('sys.settrace(trace); (lambda: counts.pop("l", 0))(); sys.settrace(None)', "counts", "object-dict"),
]


def program() -> tuple[str, dict[int, str]]:
    """Returns the program, and the name of a wait by its line."""
    text, names = PROGRAM, {}
    for number, (statement, _held, name) in enumerate(CASES):
        changed = [each for each in ("counts", "numbers", "others") if f"{each} |=" in statement or f"{each} +=" in statement]
        text += f"def case_{number}():\n" + "".join(f"    global {each}\n" for each in changed) + f"    {statement}\n"
        names[text.count("\n")] = name
    text += "".join(f"wait(case_{number}, {held}, int(sys.argv[1]))\n" for number, (_, held, _) in enumerate(CASES))
    return text, names


@pytest.mark.parametrize("argument", [("0",), ("12",), ("12", "monitored")], ids=["first", "specialized", "monitored"])
def test_a_wait_has_the_name_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layered: str, argument: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_events_waits_history_long_size=100000")
    text, names = program()
    (tmp_path / "planted.py").write_text(text)
    missed: list[int] = []
    for _ in range(3):  # a thread that is asleep for another reason has not waited
        code, out, err = outcome(*PFS, "run", "--keep", "--no-report", "--", layered, tmp_path / "planted.py", *argument)
        assert (code, out, "Traceback" in err) == (0, "", False), err
        (segment,) = (tmp_path / "segments").glob("*/*.pfs")
        with pfs.attach(segment) as seen:
            waits = seen.table("events_waits_history_long")
        shutil.rmtree(tmp_path / "segments")
        waits = waits[waits["EVENT_NAME"].str.contains("/python/(?:two-)?objects?-")]
        found: dict[int, set[str]] = {line: set() for line in names}
        for name, source in zip(waits["EVENT_NAME"], waits["SOURCE"], strict=True):
            if source.startswith("planted.py:") and (line := int(source.partition(":")[2])) in found:
                found[line].add(name.rpartition("/")[2])
        assert {line: each for line, each in found.items() if each - {names[line]}} == {}
        missed = [line for line, each in found.items() if not each]
        if not missed:
            return
    pytest.fail(f"no waits: {[text.splitlines()[line - 1] for line in missed]}")


def test_the_program_does_not_see_what_was_imported(tmp_path: Path, layered: str) -> None:
    """The names of instructions are in a module of the standard library."""
    (tmp_path / "opcode.py").write_text("print('the own one')\n")
    (tmp_path / "use.py").write_text(
        "import sys, threading\nprint(sorted(name for name in sys.modules if 'opcode' in name))\nimport opcode\n"
        "print(sys.modules['opcode'].__file__)\n"
    )
    assert outcome(*PFS, "run", "--no-report", "--", layered, tmp_path / "use.py") == (
        0,
        f"[]\nthe own one\n{tmp_path}/opcode.py\n",
        "",
    )


# Threads that wait for a dict and a list, in functions that they make and throw away: another thread may run one, too.
STRESS = """
import ctypes, gc, sys, threading, time
end, counts = time.monotonic() + float(sys.argv[1]), [0] * 8
class Shared: pass
held, making, functions, words, numbers = Shared(), threading.Lock(), {}, {str(n): n for n in range(3000)}, [*range(3000)]
held.words, held.numbers = dict(words), list(numbers)
def made(n):
    long = "".join(f"    a{each} = {each}\\n" for each in range(n % 300))
    text = f'''
def outer():
  local = held.words
  def made(own):
{long}
    words.update(held.words if own else local)
    held.words.update(words), local.update(words)
    numbers.sort(), held.numbers.extend(numbers)
    del held.numbers[3000:]
    held.v{n % 50} = own
    global g{n % 20}
    g{n % 20} = own
    Shared.w{n % 9} = own
    local["x"] = words["x"] = local
    del local["x"]
  return made
'''
    space = {"__name__": f"m{n % 100}", "held": held, "words": words, "numbers": numbers, "Shared": Shared}
    with making:  # CPython has a race where two threads make a new name
        code = compile(text, f"made{n % 100}.py", "exec")
    exec(code, space)
    return space["outer"]()
def work(me):
    while time.monotonic() < end or counts[me] < 3:
        n = counts[me] = counts[me] + 1
        functions[n % 4] = function = made(n * 8 + me)
        for other in (function, functions.get((n + me) % 4)):
            try:
                other and other(n)
            except KeyError:
                pass
        if n % 50 == 0:
            gc.collect()
def hold():
    lock, unlock = ctypes.pythonapi.PyMutex_Lock, ctypes.pythonapi.PyMutex_Unlock
    while time.monotonic() < end or min(counts) < 3:
        for each in (words, held.words, numbers, held.numbers, held):
            at = ctypes.c_void_p(id(each) + 10)
            lock(at), time.sleep(0.005), unlock(at)
        time.sleep(0.005)
threads = [threading.Thread(target=work, args=(me,)) for me in range(8)] + [threading.Thread(target=hold)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys._is_gil_enabled(), min(counts) > 0)
"""


@pytest.mark.parametrize("name", [*WITH_LAYER, "PFS_FREE_THREADED", "PFS_FREE_THREADED_TSAN"])
def test_code_that_is_thrown_away_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Freed memory is overwritten, and the last interpreter reports races."""
    python = interpreter(name)
    monkeypatch.setenv("MALLOC_PERTURB_", "165")
    (tmp_path / "stress.py").write_text(STRESS)
    code, out, err = outcome(*PFS, "run", "--keep", "--no-report", "--", python, tmp_path / "stress.py", "3")
    assert (code, out, "ThreadSanitizer" in err) == (0, "False True\n", False), err
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(segment) as seen:
        names = set(seen.table("setup_instruments")["NAME"])
    assert [name for name in names if name.endswith("-words")] != []
    known = r"wait/synch/mutex/python/(two-)?objects?-\w+(-with)?(-[A-Za-z_.]\w*(\.\w+)*)?"
    assert [name for name in names if "object" in name and "/python/" in name and not re.fullmatch(known, name)] == []
