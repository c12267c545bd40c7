"""``pfs run`` of unchanged Python programs: names of locks and threads, the GIL, and that the program does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path

import pytest

import pfs
from tests import LOCKS_ARE_BYTES
from tests.python.objects.test_subinterpreters import INTERPRETERS
from tests.python.run.test_run import PFS, ROOT, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

AUTO = Path(pfs.__file__).parent / "_auto"


def written(folder: Path, text: str, name: str = "app.py") -> Path:
    (path := folder / name).write_text(text)
    return path


@contextmanager
def running(tmp_path: Path, *command: str | Path) -> Iterator[pfs.Schema]:
    """Gives the tables of a program that runs under pfs until it is killed."""
    child = subprocess.Popen([*PFS, "run", "--no-report", "--", *map(str, command)])
    try:
        deadline = time.monotonic() + 60
        while len(found := pfs.processes()) == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        with pfs.attach(int(found["PID"].iloc[0])) as schema:
            yield schema
    finally:
        child.terminate()
        child.wait(60)


def locks_of(tmp_path: Path, program: Path) -> dict[str, int]:
    """Returns how often each Python lock was acquired in a program, by MODULE:LINE."""
    locks = report_of(tmp_path, sys.executable, program)["locks"]
    return {row["name"].removeprefix("wait/synch/mutex/python/"): row["count"] for row in locks}


# ---- Names

DEADLOCK = """\
import threading, time
first = threading.KIND()
class Account:
    def __init__(self):
        self.lock = threading.RLock()
second = Account()
ready = threading.Barrier(2)
def pay():
    with first:
        ready.wait()
        with second.lock:
            pass
def refund():
    with second.lock:
        ready.wait()
        first.acquire()
threading.Thread(target=pay, name="pay").start()
threading.Thread(target=refund, name="refund").start()
"""


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_a_deadlock_is_named_by_the_lines_of_its_locks(tmp_path: Path, kind: str) -> None:
    with running(tmp_path, sys.executable, written(tmp_path, DEADLOCK.replace("KIND", kind))) as schema:
        deadline = time.monotonic() + 60
        while (rows := schema.table("blocked"))["DEADLOCK"].notna().sum() < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        rows = rows[rows["DEADLOCK"].notna()]
        locks = "wait/synch/mutex/python/__main__:"
        assert sorted(
            zip(rows["THREAD"], rows["EVENT_NAME"], rows["SOURCE"], rows["HOLDER"], rows["HOLDER_EVENT_NAME"], strict=True)
        ) == [
            ("thread/python/pay", f"{locks}5", "app.py:11", "thread/python/refund", f"{locks}2"),
            ("thread/python/refund", f"{locks}2", "app.py:16", "thread/python/pay", f"{locks}5"),
        ]
        first, second = sorted(int(n) for n in rows["THREAD_ID"])
        assert set(rows["DEADLOCK"]) == {f"{first} -> {second} -> {first}"}
        [pid] = pfs.processes()["PID"]
        top = run(*PFS, "top", str(pid), "--batch", "--count", "1", "--interval", "0.1", check=True).stdout
        for name, lock, line in (("pay", 5, 11), ("refund", 2, 16)):
            [shown] = [text for text in top.splitlines() if f"python/{name} waits" in text]
            assert shown.endswith(f" for {locks}{lock} (lock) at app.py:{line}, DEADLOCK {first} -> {second} -> {first}")
        # The main thread waits for a thread that does not end.
        joins = schema.table("blocked")
        assert "wait/synch/mutex/python/threading.Thread.join" in set(joins["EVENT_NAME"])


COUNTED = """\
import _thread, queue, sys, threading
a, b = threading.Lock(), _thread.allocate_lock()
c = threading.Condition()
q = queue.Queue()
def work():
    for _ in range(500):
        with a: pass
        b.acquire(); b.release()
        assert a.acquire(timeout=60); a.release()
        with c: pass
    q.put(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for _ in threads: q.get()
assert a.acquire(); assert not a.acquire(False); assert not a.acquire(timeout=0.01); a.release()
b.acquire(); other = threading.Thread(target=b.release); other.start(); other.join(); assert not b.locked()
"""


def test_acquisitions_of_locks_are_those_that_the_program_makes(tmp_path: Path) -> None:
    """Also of contended locks, and of one that another thread releases. A try that fails is no event; a timeout is one."""
    report = report_of(tmp_path, sys.executable, written(tmp_path, COUNTED))
    counts = {row["name"]: row["count"] for row in report["locks"]}
    made = "wait/synch/mutex/python/__main__:"
    assert counts[f"{made}2"] == 4 * 500 * 3 + 2 + 1
    assert counts[f"{made}3"] == 4 * 500
    assert counts[f"{made}4"] == 4 + 4  # put and get
    report = report_of(tmp_path, sys.executable, tmp_path / "app.py", options=("--python", "none", "--all-on"))
    assert LOCKS_ARE_BYTES or {row["name"]: row["count"] for row in report["locks"]}[f"{made}2"] == 4 * 500 * 3 + 2 + 1


PACKAGE = """\
import asyncio, queue, threading, time
from concurrent.futures import ThreadPoolExecutor
def make():
    event = threading.Event()
    threading.Thread(target=lambda: (time.sleep(0.05), event.set())).start()
    event.wait()
make()
with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
    list(pool.map(str, range(4)))
async def main():
    lock = asyncio.Lock()
    async with lock:
        await asyncio.to_thread(str)
asyncio.run(main())
open(__file__).close()
threading.current_thread().name = "renamed"
"""


def test_a_lock_of_the_standard_library_has_the_line_that_calls_it(tmp_path: Path) -> None:
    (folder := tmp_path / "shop").mkdir()
    written(folder, "", "__init__.py")
    written(folder, PACKAGE, "stock.py")
    done = run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, "-c", "import shop.stock", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [segment] = Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs")
    with pfs.attach(segment) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name")
        names = set(waits[waits["COUNT_STAR"] > 0]["EVENT_NAME"])
        assert {f"wait/synch/mutex/python/shop.stock:{line}" for line in (4, 5, 8, 14)} <= names
        assert "wait/synch/cond/python/shop.stock:6" in names  # the wait of the event
        assert not [name for name in names if "/threading:" in name or "/queue:" in name]


GENERATED = """\
import gc, threading
one = compile("lock = threading.Lock()\\nwith lock: pass", "one.py", "exec")
for turn in range(3000):
    name = f"made_{turn % 5}"
    two = compile("\\n" * (turn % 3) + f"def make_{turn}(): return threading.Lock()\\nwith make_{turn}(): pass", "two.py", "exec")
    for code in (one, two):
        exec(code, {"__name__": name, "threading": threading})
    del two  # its memory is another one's next time
gc.collect()
"""


def test_code_that_is_made_and_dropped_has_its_own_lines(tmp_path: Path) -> None:
    """What is remembered of a function's code is not taken for that of another, though its memory or its module is the same."""
    counts = locks_of(tmp_path, written(tmp_path, GENERATED))
    for module in range(5):
        assert counts[f"made_{module}:1"] == 3000 // 5 + 3000 // 5 // 3, counts  # of `one`, and of `two` without a line before
        assert counts[f"made_{module}:2"] == counts[f"made_{module}:3"] == 3000 // 5 // 3, counts


WITH_THREADS = "isolated=False" if INTERPRETERS == "_xxsubinterpreters" else "'isolated'"
SUBINTERPRETER = """\
import INTERPRETERS as interpreters
def run(number):
    inner = interpreters.create(KIND)
    interpreters.run_string(inner, '''
import threading
def work():
    for _ in range(200):
        lock = threading.Lock()
        with lock: pass
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
''')
    interpreters.destroy(inner)
import threading
threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
own = threading.Lock()
with own: pass
"""


def test_locks_of_subinterpreters_have_a_general_name(tmp_path: Path) -> None:
    """Their threads may have a GIL of their own, which does not guard what is remembered of the main interpreter's code."""
    counts = locks_of(
        tmp_path, written(tmp_path, SUBINTERPRETER.replace("INTERPRETERS", INTERPRETERS).replace("KIND", WITH_THREADS))
    )
    assert LOCKS_ARE_BYTES or counts["interpreter"] >= 2 * 3 * 200
    assert counts["__main__:19"] == 1, counts
    assert "__main__:5" not in counts, counts


NAMES = """\
import sys, threading, time
def work():
    threading.current_thread().name = "later"
    with open("on", "a") as file: file.write("x")
    time.sleep(60)
for name in ("first", "second", "ünïcode"):
    threading.Thread(target=work if name == "first" else lambda: (open("on", "a").write("x"), time.sleep(60)), name=name).start()
"""


def test_threads_have_their_python_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with running(tmp_path, sys.executable, written(tmp_path, NAMES)) as schema:
        wanted = {f"thread/python/{name}" for name in ("MainThread", "later", "second", "ünïcode")}
        deadline = time.monotonic() + 60
        while not wanted <= set(schema.table("threads")["NAME"]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert wanted <= set(schema.table("threads")["NAME"])


# ---- The GIL


@pytest.mark.parametrize(("options", "is_on"), [((), False), (("--all-on",), True)])
def test_the_mutexes_inside_the_gil_are_off_without_all_on(tmp_path: Path, options: tuple[str, ...], is_on: bool) -> None:
    """Two threads that compute wait for the GIL's condition. Its mutexes would only be many short events."""
    program = """
import threading, time
end = time.monotonic() + 0.3
def burn():
    while time.monotonic() < end: sum(range(1000))
threads = [threading.Thread(target=burn) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = run(*PFS, "run", "--keep", "--no-report", *options, "--", sys.executable, written(tmp_path, program))
    [segment] = Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs")
    with pfs.attach(segment) as schema:
        instruments = schema.table("setup_instruments").set_index("NAME")
        waits = schema.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
    of_gil = [name for name in instruments.index if name.startswith("wait/synch/mutex/python/gil")]
    assert "wait/synch/mutex/python/gil" in of_gil
    for name in of_gil:
        assert bool(instruments["ENABLED"][name] == "YES") is is_on
        assert bool(waits.get(name, 0) > 0) is is_on, name
    assert waits["wait/synch/cond/python/gil"] > 0


# ---- The program does not notice

FORCED = (*PFS, "run", "--no-report", "--force", "--")
SHOWN = """\
import inspect, os, sys, threading
print(sys.path, sys.argv, sys.flags, sys.modules.get("sitecustomize"))
print([type(finder).__name__ for finder in sys.meta_path if type(finder).__name__ != "_Finder"])
print(sorted(name for name in sys.modules if "pfs" in name and not name.startswith("_pfs_run")))
print(sorted((name, value) for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("PFS_")))
print(threading.Lock, type(threading.Lock()), type(threading.RLock), type(threading.Thread.name), threading.Thread.__mro__)
method = threading.Thread._set_native_id
print(type(method), method.__name__, method.__qualname__, method.__module__, inspect.signature(method))
print(threading.__spec__.loader.__dict__, type(threading.__loader__), threading.__spec__.origin)
supported = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)
some = os.open, os.stat, os.unlink, os.rename, os.scandir
print([sorted(f.__name__ for f in some if f in functions) for functions in supported])
import shutil
print(shutil.rmtree.avoids_symlink_attacks)
"""


@pytest.mark.parametrize("options", [(), ("-I",), ("-E",), ("-s",), ("-m",)])
def test_what_a_program_sees_is_as_without(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = written(tmp_path, SHOWN, "shown.py")
    command = [sys.executable, *options, "shown" if options == ("-m",) else str(path), "a b"]
    plain = run(*command, check=True, cwd=tmp_path)
    seen = run(*PFS, "run", "--no-report", "--", *command, cwd=tmp_path)
    assert (seen.stdout, seen.stderr, seen.returncode) == (plain.stdout, plain.stderr, 0)


def test_the_user_s_own_sitecustomize_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "own").mkdir()
    written(folder, "import sys\nprint('mine', __name__, __file__)\nsys.shop = 1\n", "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    command = [sys.executable, "-c", "import sys; print(sys.shop, sys.modules['sitecustomize'], sys.path)"]
    plain = run(*command, check=True)
    seen = run(*PFS, "run", "--no-report", "--", *command)
    of_pfs = plain.stdout.splitlines(keepends=True)[0]  # pfs itself is a Python program
    assert (seen.stdout, seen.stderr) == (of_pfs + plain.stdout, plain.stderr)
    written(folder, "raise ValueError('broken')\n", "sitecustomize.py")
    plain, seen = run(sys.executable, "-c", "pass"), run(*PFS, "run", "--no-report", "--", sys.executable, "-c", "pass")
    assert "broken" in plain.stderr
    assert (plain.returncode, 2 * plain.stderr.count("broken")) == (seen.returncode, seen.stderr.count("broken"))


CHILDREN = """\
import multiprocessing, os, subprocess, sys, threading
def work(n):
    with threading.RLock(): pass
    return "_pfs_run_native" in sys.modules
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            print(how, pool.map(work, range(2)), flush=True)
    code = "import sys, threading; print('_pfs_run_native' in sys.modules, '_pfs_run' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_children_are_python_programs_too(tmp_path: Path) -> None:
    path = written(tmp_path, CHILDREN)
    seen = run(*PFS, "run", "--no-report", "--", sys.executable, path)
    assert seen.stdout.splitlines() == [f"{how} [True, True]" for how in ("fork", "spawn", "forkserver")] + ["True True"], (
        seen.stderr
    )
    # A child without the library has no layer, and says nothing.
    seen = run(*PFS, "run", "--no-report", "--children", "none", "--", sys.executable, path)
    assert (seen.stdout.splitlines()[-1], seen.stderr) == ("False False", "")
    report = report_of(tmp_path, sys.executable, path)
    made = next(row for row in report["locks"] if row["name"] == "wait/synch/mutex/python/__main__:3")
    assert made["count"] == 2  # of the forked child; elsewhere the module is __mp_main__
    made = next(row for row in report["locks"] if row["name"] == "wait/synch/mutex/python/__mp_main__:3")
    assert made["count"] == 4


def test_an_interpreter_without_pfs_has_names_too(tmp_path: Path) -> None:
    """What names a lock runs in the interpreter of the program: here without site-packages."""
    lines = [
        "import sys, threading",
        "assert not any(p.endswith('site-packages') for p in sys.path)",
        "with threading.RLock(): pass",
        "lock = threading.Lock(); lock.acquire(); lock.acquire(timeout=0.05)",
    ]
    seen = [3, 4] if sys.version_info < (3, 14) else [4]  # from 3.14 on an RLock is no semaphore
    interpreter = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    if not interpreter.exists():
        pytest.skip(f"there is no {interpreter}")
    report = report_of(tmp_path, interpreter, "-S", written(tmp_path, "\n".join(lines)))
    assert {f"wait/synch/mutex/python/__main__:{line}" for line in seen} <= {row["name"] for row in report["locks"]}


def test_what_the_layer_cannot_wrap_is_noted_and_runs(tmp_path: Path) -> None:
    """A module of that name without what the layer looks for."""
    (folder := tmp_path / "starlette").mkdir()
    written(folder, "", "__init__.py")
    written(folder, "class Starlette: __call__ = len", "applications.py")
    command = [sys.executable, "-c", "import starlette.applications as m; print(m.Starlette.__call__)"]
    done = run(*PFS, "run", "--keep", "--no-report", "--", *command, cwd=tmp_path)
    assert done.stdout == "<built-in function len>\n"
    [segment] = Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs")
    with pfs.attach(segment) as schema:
        log = schema.table("error_log")
    assert list(log[log["ERROR_CODE"] == "PFS-PYTHON"]["DATA"]) == [
        "starlette.applications is not wrapped: TypeError('Starlette.__call__ is a builtin_function_or_method')"
    ]


def test_nothing_is_imported_outside_of_pfs_run() -> None:
    code = "import sys, pfs, threading; print([m for m in sys.modules if '_pfs_run' in m or '_auto' in m])"
    assert run(sys.executable, "-c", code, check=True).stdout == "[]\n"
    # Its folder is on PYTHONPATH, but the library is not there: it is not loaded.
    maps = "'perfschema' in open('/proc/self/maps').read()"
    code = f"import sys; print([m for m in sys.modules if '_pfs_run' in m], {maps}, sys.path)"
    environment = os.environ | {"PYTHONPATH": str(AUTO), "PFS_RUN_PYTHON": "threads"}
    plain = run(sys.executable, "-c", code, check=True)
    assert run(sys.executable, "-c", code, check=True, env=environment).stdout == plain.stdout
    assert plain.stdout.startswith("[] False")


@pytest.mark.parametrize("path", ["", ":", "there:", ":there"])
def test_pythonpath_is_as_without(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one adds no folder to sys.path; an empty part of one adds the working directory."""
    monkeypatch.setenv("PYTHONPATH", path)
    command = (sys.executable, "-c", "import os, sys; print(sys.path, repr(os.environ['PYTHONPATH']))")
    plain, seen = (run(*before, *command, check=True, cwd=tmp_path).stdout for before in ((), FORCED))
    assert seen == plain
    assert (str(tmp_path) in plain) is (path != "")


def test_a_tracer_sees_no_import_pass_here() -> None:
    """Such as a debugger that steps into it, or `python -m trace`."""
    code = """if 1:
        import sys
        seen = set()
        def trace(frame, event, argument): seen.add(frame.f_code.co_filename)
        sys.settrace(trace)
        import colorsys, wave
        sys.settrace(None)
        print(sorted(seen))"""
    plain, seen = (run(*before, sys.executable, "-c", code, check=True).stdout for before in ((), FORCED))
    assert "colorsys" in plain
    assert seen == plain


@pytest.mark.parametrize(("options", "is_wrapped"), [("performance_schema=OFF", "False"), ("performance_schema=ON", "True")])
def test_nothing_is_wrapped_where_pfs_is_off(options: str, is_wrapped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import http.client, sys, threading\n"
        "naming = getattr(threading.Thread, '_set_os_name', threading.Thread._set_native_id)\n"  # a start's last step
        "functions = naming, http.client.HTTPConnection.putrequest\n"
        "wrapped = ['/_pfs_run/' in function.__code__.co_filename for function in functions]\n"
        "print(*wrapped, '_pfs_run' in sys.modules, type(sys.meta_path[0]).__module__ == '_pfs_run')"
    )
    monkeypatch.setenv("PFS_OPTIONS", options)
    done = run(*FORCED, sys.executable, "-c", code, check=True)
    assert done.stdout.split() == [is_wrapped] * 4
    assert done.stderr == ""


IMPORTS = """
import importlib.util
[path] = {line.split()[-1] for line in open("/proc/self/maps") if "libperfschema-run.so" in line}
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("_pfs_run_native", path))
print(module.key("test", "embedded") > 0)
"""


def test_a_program_that_loads_python_later_may_import_the_layer(tmp_path: Path) -> None:
    """Its functions were not there when the library looked for them."""
    library = next(filter(None, (find_library(f"python3.{minor}") for minor in range(11, 16))), None)
    if library is None:
        pytest.skip("needs a shared libpython: apt-get install python3-dev")
    program = tmp_path / "embeds"
    subprocess.run(["cc", "-O1", "-o", program, ROOT / "tests/programs/unchanged/embeds.c", "-ldl"], check=True)
    done = run(*FORCED, program, library, IMPORTS)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_parts_of_python_are_checked() -> None:
    wrong = run(*PFS, "run", "--python", "thread", "--", "true")
    legal = "threads, locks, requests, clients, drivers, lines, tasks, tests, cells, asyncio, queues, none"
    assert (wrong.returncode, f"legal are {legal}" in wrong.stderr) == (2, True)


# Modules of CPython's own tests; lab/python_suites.py runs others.
SUITES = ["test_fileio", "test_contextlib", "test_tempfile", "test_httplib", "test_sqlite3", "test_socketserver", "test_thread"]


@pytest.mark.parametrize("suite", SUITES)
def test_suites_of_cpython_end_as_without(tmp_path: Path, suite: str) -> None:
    pytest.importorskip(f"test.{suite}", reason="Python without its test package")
    command = [sys.executable, "-m", "unittest", f"test.{suite}"]

    def outcome(*before: str) -> tuple[int, str, str]:
        done = run(*before, *command, cwd=tmp_path)
        ran, result = (
            next(line for line in done.stderr.splitlines() if line.startswith(word)) for word in ("Ran", ("OK", "FAILED"))
        )
        return done.returncode, ran.split(" in ")[0], result

    plain = outcome()
    assert plain[0] == 0
    assert outcome(*PFS, "run", "--no-report", "--") == plain


# ---- What pfs itself reads, and what it answers inside

INSIDE = """\
import os, warnings
open("/etc/hostname").read()
import pfs
from pfs._process.recorded import hidden
def rows(name, table=None):
    files = (table or pfs.attach(os.getpid()).table)("file_summary_by_instance")
    return files[files["FILE_NAME"] == name][["COUNT_READ"]].values.tolist()
with hidden():
    open("/etc/passwd").read(), open("/etc/hostname").read()
    late = open("/etc/group")
open("/etc/profile").read()
late.read()
hostname, services = rows("/etc/hostname"), rows("/etc/profile")
assert hostname == services == [[2]], (hostname, services)
assert rows("/etc/passwd") == rows("/etc/group") == []
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert pfs.table("file_summary_by_instance").empty
    assert len(pfs.sql("select * from file_summary_by_instance")) == 0
    assert not pfs.table("setup_consumers").empty
print(*[message.message for message in said], sep="\\n")
status = pfs.attach(os.getpid()).status
print([name for name in status if name.endswith("_lost") and status[name]])
"""


def test_inside_the_program_pfs_says_where_the_tables_are_and_hides_its_own_reading(tmp_path: Path) -> None:
    done = run(*PFS, "run", "--no-report", "--keep", "--", sys.executable, written(tmp_path, INSIDE), check=True)
    one, two, lost = done.stdout.splitlines()
    where = "is empty: this process has no object of pfs. What pfs run has recorded of it is in pfs.attach(os.getpid())"
    assert (one, two, lost) == (f"file_summary_by_instance {where}", f"the answer {where}", "[]")
    plain = run(sys.executable, "-W", "error", "-c", "import pfs; print(len(pfs.table('file_summary_by_instance')))", check=True)
    assert plain.stdout == "0\n"
    names = []
    for segment in Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs"):
        with pfs.attach(segment) as schema:
            names += schema.table("file_instances")["FILE_NAME"].to_list()
    assert any(name.endswith("/warnings.cpython-311.pyc") or "/encodings" in name for name in names)
    assert not [name for name in names if name.startswith(str(AUTO))]
