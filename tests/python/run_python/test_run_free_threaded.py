"""``pfs run``: of an interpreter without the GIL nothing is called; what its threads wait for has a name and a line."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import pfs
from pfs._process.recorded import is_idle, object_waited_for
from tests.python.run.test_run import PFS, ROOT, own_folder, pytestmark
from tests.python.run.test_run_absent import compiled, outcome

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

WITHOUT_GIL = ["python3.13t", "python3.14t", "python3.15t"]
WITH_LAYER = WITHOUT_GIL[1:]  # the Python layer runs in these


def interpreter(name: str) -> str:
    """Returns the Python of that name in PATH, or of that variable."""
    if (python := os.environ.get(name) if name.startswith("PFS_") else shutil.which(name)) is None:
        pytest.skip(f"no {name}")
    return python


@pytest.mark.parametrize("has_gil", [False, True])
def test_a_free_threaded_python_is_recorded_as_a_c_program(tmp_path: Path, has_gil: bool) -> None:
    """Its objects have another form: the first lock crashed.

    This program has the names of such an interpreter. Each of them ends it; so it is no test of the objects' form.
    """
    header = (ROOT / "cpp/run/python/python_api.h").read_text()
    names = set(re.findall(r"^  F\([^,]+, (\w+)[,)]", header, re.MULTILINE))
    assert {"PyGILState_GetThisThreadState", "PyType_GetFlags", "_PyRuntime"} <= names
    text = "#include <semaphore.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
    text += "".join(f'void {name}(void) {{ write(2, "{name}\\n", {len(name) + 1}); _exit(9); }}\n' for name in sorted(names))
    text += "" if has_gil else "void _Py_MergeZeroLocalRefcount(void) {}\n"
    text += 'int main(void) { sem_t s; sem_init(&s, 0, 1); sem_wait(&s); sem_post(&s); puts("end"); }\n'
    program = compiled(tmp_path, text, "-rdynamic", "-lpthread")
    assert outcome(program) == (0, "end\n", "")
    report = tmp_path / "report.json"
    seen = outcome(*PFS, "run", "--json", "-o", report, "--", program)
    if has_gil:  # the control: pfs calls the interpreter
        assert seen[0] == 9
        return
    assert seen == (0, "end\n", "")
    notes = json.loads(report.read_text())["notes"]
    assert [note for note in notes if "free-threaded" in note] != []


@pytest.fixture(params=WITH_LAYER)
def layered(request: pytest.FixtureRequest) -> str:
    """Each free-threaded Python that the Python layer runs in."""
    return interpreter(request.param)


@pytest.mark.parametrize("name", WITHOUT_GIL)
def test_a_real_free_threaded_python(tmp_path: Path, name: str) -> None:
    """Its tests of threads have the same results, and one line of the report says how it was recorded."""
    python = interpreter(name)
    (tmp_path / "work.py").write_text("""
import queue, sqlite3, sys, threading
lock, items, total = threading.Lock(), queue.Queue(), [0]
sqlite3.connect(":memory:").execute("create table made (a)")
def work(thread):
    for n in range(500):
        with lock: total[0] += 1
        items.put((thread, n))
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
for thread in threads: thread.start()
got = {items.get() for _ in range(4000)}
for thread in threads: thread.join()
print(total, len(got), sys._is_gil_enabled())
""")
    report = tmp_path / "report.json"
    assert outcome(*PFS, "run", "--json", "-o", report, "--", python, tmp_path / "work.py") == (0, "[4000] 4000 False\n", "")
    said = json.loads(report.read_text())
    (note,) = [note for note in said["notes"] if "free-threaded" in note]
    has_layer = name in WITH_LAYER
    assert ("its locks are seen when" if has_layer else "statements of SQLite, libpq and MySQL's library are recorded") in note
    assert [row["digest_text"] for row in said["statements"]] == ["CREATE TABLE `made` ( `a` )"]
    assert {row["class"] for row in said["classes"]} >= {"mutexes", "files"}
    found = []
    for under in [(), (*PFS, "run", "--no-report", "--")]:
        code, out, err = outcome(*under, python, "-m", "test", "test_thread", "test_queue")
        assert code == 0, out + err
        found.append(re.findall(r"^Total tests: .*", out, re.MULTILINE))
    assert found[0] == found[1]
    assert len(found[0]) == 1


NAMED = """
import sys, threading
gate = threading.Barrier(8)
def work():
    gate.wait()
    threading.current_thread().name += " again"
    gate.wait()
threads = [threading.Thread(target=work, name=f"a name of more than fifteen bytes {n}") for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys._is_gil_enabled(), sorted(name for name in sys.modules if name.startswith("_pfs_run")))
"""


def test_threads_have_their_names(tmp_path: Path, layered: str) -> None:
    """Also a name that is longer than the system's, and one that a thread gives itself. The GIL stays off."""
    (tmp_path / "named.py").write_text(NAMED)
    report = tmp_path / "report.json"
    code, out, err = outcome(*PFS, "run", "--json", "-o", report, "--", layered, "-W", "error", tmp_path / "named.py")
    assert (code, err) == (0, "")
    assert out.startswith("False ['_pfs_run', ")
    threads = {row["name"].removeprefix("thread/"): row["threads"] for row in json.loads(report.read_text())["thread_time"]}
    assert threads["python/MainThread"] == 1
    assert threads["python/a name of more than fifteen bytes * again"] == 8


LINES = """
import os, socket, sqlite3, sys, threading, time
folder = sys.argv[1]
def sleep():
    time.sleep(0.001)  # sleep
def use(me, connection):
    with open(f"{folder}/{me}", "w") as file:  # open
        file.write("x")
    descriptor = os.open(f"{folder}/{me}", os.O_RDONLY)
    os.read(descriptor, 1)  # read
    os.close(descriptor)
    one, other = socket.socketpair()
    one.sendall(b"x")  # send
    other.recv(1)  # recv
    one.close(), other.close()
    connection.execute("select 1").fetchall()  # select
def work(me):
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    for n in range(100):
        sleep()
        use(me, connection)
    connection.close()
threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys._is_gil_enabled())
"""


def test_calls_of_many_threads_have_lines(tmp_path: Path, layered: str) -> None:
    """Every sleep and statement has its line. Of calls that are over soon, some have: no other line has any."""
    (tmp_path / "lines.py").write_text(LINES)
    code, out, err = outcome(*PFS, "run", "--keep", "--no-report", "--", layered, tmp_path / "lines.py", tmp_path)
    assert (code, out) == (0, "False\n"), err
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(segment) as seen:
        waits, statements = seen.table("events_waits_history_long"), seen.table("events_statements_history_long")
        summary = seen.table("events_waits_summary_global_by_event_name")
    at = {text.rpartition("# ")[2]: f"lines.py:{line}" for line, text in enumerate(LINES.splitlines(), 1) if "# " in text}
    sleeps = summary[summary["EVENT_NAME"] == f"wait/system/python/sleep-__main__:{at['sleep'].partition(':')[2]}"]
    assert list(sleeps["COUNT_STAR"]) == [800]
    assert set(statements["SOURCE"]) == {at["select"]}
    assert len(statements[statements["EVENT_NAME"] == "statement/sqlite/statement"]) == 800
    soon = waits[waits["OPERATION"].isin(["send", "recv"]) & waits["SOURCE"].str.startswith("lines.py:")]
    assert set(soon["SOURCE"]) <= {at["send"], at["recv"]}


# Threads that use files, sleep, and run statements, in functions that they make and throw away: another thread may run one, and
# the last one that does frees its code.
STRESS = """
import gc, os, shutil, socket, sqlite3, sys, tempfile, threading, time
seconds, workers = float(sys.argv[1]), 8
folder, end, counts, shared = tempfile.mkdtemp(), time.monotonic() + seconds, [0] * 8, {}
def made(n, name):
    text = "def made(path, connection):\\n" + "\\n" * (n % 50) + f'''
    with open(path, "w") as file: file.write("x")
    descriptor = os.open(path, os.O_RDONLY)
    os.read(descriptor, 1), os.close(descriptor)
    connection.execute("select {n % 20}").fetchall()
    connection.execute("insert into made values (?)", ({n},))
    return lambda: time.sleep(0)
'''
    space = {"__name__": name, "os": os, "time": time}
    exec(compile(text, f"{folder}/{name}.py", "exec"), space)
    return space["made"]
def work(me):
    connection = sqlite3.connect(":memory:")
    connection.execute("create table made (a)")
    while time.monotonic() < end:
        n = counts[me] = counts[me] + 1
        shared[n % 16] = function = made(n, f"m{me}_{n % 200}")
        function(f"{folder}/{me}", connection)()
        if other := shared.get((n * 7 + me) % 16):
            other(f"{folder}/{me}", connection)
        one, two = socket.socketpair()
        one.sendall(b"x"), two.recv(1), one.close(), two.close()
        threading.current_thread().name = f"{me} {n % 10}"
        if n % 20 == 0:
            short = threading.Thread(target=os.stat, args=(folder,), name=f"short {me}")
            short.start(), short.join()
        if n % 200 == 0:
            gc.collect()
    connection.close()
threads = [threading.Thread(target=work, args=(me,)) for me in range(workers)]
for thread in threads: thread.start()
for thread in threads: thread.join()
shutil.rmtree(folder)
print(sys._is_gil_enabled(), min(counts) > 0)
"""


# Threads that share what a program gives to one thread: a connection, the variables of a request, and what ends a statement.
SHARED = """
import gc, http.client, sys, threading, time, wsgiref.handlers
import _pfs_run_native as native
from _pfs_run.requests import _WSGI
from _pfs_run.statements import Methods
end, counts, keys, asked = time.monotonic() + float(sys.argv[1]), [0] * 8, Methods("http-client", 9), {}
class Connection(http.client.HTTPConnection):
    def connect(self): pass
connection, variables, start, handle = Connection("host"), {"REQUEST_METHOD": "GET"}, None, None
def work(me):
    global connection, start, handle
    while time.monotonic() < end:
        n = counts[me] = counts[me] + 1
        native.ask((keys, "http", "host"), asked, connection, "GET", f"/{n}")
        if (sent := native.take_asked(asked, connection)) is not None:
            native.end(sent, 1, 1, 5, "error")
        if n % 7 == me % 7:
            connection = Connection(f"host{n % 9}")
        variables["PATH_INFO"], variables["QUERY_STRING"] = f"/p{n}" * 3, f"q{n}" * 3
        if n % 5 == 0:
            variables.pop("QUERY_STRING", None)
        before, start = start, native.begin_wsgi(_WSGI, variables, print, n % 2 == 0)
        for one in (start, before):
            if one is not None:
                one(f"{200 + n % 300} Reason{n}", end="", file=nowhere)
                native.leave_wsgi(one)
                native.end_wsgi(one)
        running, handle = handle, native.begin(keys["GET"], f"GET /{n % 40}", None, "http", n % 3 > 0)
        if running is not None:
            native.end(running, 0, 0, 0, "")
        if n % 500 == 0:
            gc.collect()
class Nowhere:
    def write(self, text): pass
nowhere = Nowhere()
threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys._is_gil_enabled(), min(counts) > 0)
"""


@pytest.mark.parametrize("text", [STRESS, SHARED], ids=["calls", "statements"])
@pytest.mark.parametrize("name", [*WITH_LAYER, "PFS_FREE_THREADED", "PFS_FREE_THREADED_TSAN"])
def test_threads_that_run_at_once_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Freed memory is overwritten, and the last interpreter reports races."""
    python = interpreter(name)
    monkeypatch.setenv("MALLOC_PERTURB_", "165")
    (tmp_path / "stress.py").write_text(text)
    seconds = os.environ.get("PFS_STRESS_SECONDS", "3")
    code, out, err = outcome(*PFS, "run", "--no-report", "--", python, tmp_path / "stress.py", seconds)
    assert (code, out, "ThreadSanitizer" in err) == (0, "False True\n", False), err


# Requests that threads answer and send at once, and commands of a client in Python: a stand-in that has what the layer wraps.
REQUESTS = """
import asyncio, http.client, socketserver, sys, threading, wsgiref.simple_server
import redis.client
class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    request_queue_size = 64
class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_): pass
def answer(variables, start_response):
    start_response("404 Not Found" if variables["PATH_INFO"] == "/absent" else "200 OK", [])
    return [b"x"] if "list" in variables["QUERY_STRING"] else (part for part in [b"x"])
server = wsgiref.simple_server.make_server("127.0.0.1", 0, answer, Server, Quiet)
threading.Thread(target=server.serve_forever, args=(0.01,)).start()
client = redis.client.Redis()
async def hold(lock):
    async with lock:
        await asyncio.sleep(0)
async def tasks():
    lock = asyncio.Lock()
    await asyncio.gather(hold(lock), hold(lock))
def send():
    for path in ["/?list", "/parts", "/absent"] * 10:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        connection.request("GET", path)  # sends
        connection.getresponse().read()
        connection.close()
        client.execute_command("SET", path, 1)  # commands
    asyncio.run(tasks())
threads = [threading.Thread(target=send) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
server.shutdown()
server.server_close()
print(sys._is_gil_enabled())
"""

REDIS = """
class Redis:
    def execute_command(self, *args, **options):
        return args
class Pipeline(Redis):
    def immediate_execute_command(self, *args, **options): pass
    def execute(self, raise_on_error=True): pass
"""


def test_requests_of_many_threads_are_statements(tmp_path: Path, layered: str) -> None:
    """Each request that is answered or sent, each command of a client and each wait of a task, with the program's line."""
    (tmp_path / "requests.py").write_text(REQUESTS)
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "__init__.py").touch()
    (tmp_path / "redis" / "client.py").write_text(REDIS)
    code, out, err = outcome(*PFS, "run", "--keep", "--no-report", "--", layered, tmp_path / "requests.py")
    assert (code, out) == (0, "False\n"), err
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(segment) as seen:
        statements = seen.table("events_statements_history_long")
        summary = seen.table("events_statements_summary_global_by_event_name").set_index("EVENT_NAME")
        errors = seen.table("error_log")["DATA"]
    names = [f"statement/{name}" for name in ("http/get", "http-client/get", "redis-py/set", "asyncio/lock")]
    assert list(summary.loc[names, "COUNT_STAR"]) == [240, 240, 240, 8]
    assert list(summary.loc[names, "SUM_ERRORS"]) == [80, 80, 0, 0]
    at = {text.rpartition("# ")[2]: f"requests.py:{line}" for line, text in enumerate(REQUESTS.splitlines(), 1) if "# " in text}
    lines = statements.groupby("EVENT_NAME")["SOURCE"].unique()
    assert list(lines["statement/http-client/get"]) == [at["sends"]]
    assert list(lines["statement/redis-py/set"]) == [at["commands"]]
    assert [text for text in errors if "wrapped" in text or "recorded" in text] == []


@pytest.mark.parametrize(
    ("name", "has_nothing_to_do"), [("__main__:7", True), ("stopped-by-gc", False), ("stop-the-world-gc", False)]
)
def test_a_thread_that_is_stopped_is_not_idle(name: str, has_nothing_to_do: bool) -> None:
    """The report would leave out its waits of 300 ms: they look like those of a pool without work."""
    assert is_idle(f"wait/synch/cond/python/{name}", 3, 900 * 10**9, 10**12) == has_nothing_to_do


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("object-dict", "one dict"),
        ("object-list-self.items", "one list (self.items)"),
        ("two-objects-dict-with-Plain.x", "one dict (with Plain.x)"),
        ("types", "classes"),
        ("__main__:7", None),
        ("interpreter", None),
    ],
)
def test_an_object_has_words(name: str, words: str | None) -> None:
    assert object_waited_for(f"wait/synch/mutex/python/{name}") == words


# Threads wait for something that another thread holds for a while: its object of a kind. Or one collects garbage in a loop, and
# waits for the other one to stop. The program prints how long they waited, each and all together.
PLANTED = """
import ctypes
import gc
import sys
import threading
from time import perf_counter, sleep

kind, hold = sys.argv[1], float(sys.argv[2])
block = ctypes.PyDLL(None).usleep  # it keeps the locks of objects that the thread has
begun, is_over = threading.Event(), threading.Event()
times = 5 if kind == "gc" else 1
log, spans = [], []


def held(*_):
    begun.set()
    block(int(hold / times * 1e6))
    return 0


class Slow:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        held()
        return False


class Meta(type):
    def mro(cls):
        held()
        return type.mro(cls)


class Plain:
    pass


table, numbers, lock, rlock = {Slow(): 0}, [2], threading.Lock(), threading.RLock()


def hold_dict():
    table[Slow()] = 1


def wait_dict():
    table["x"] = 1  # waits for dict


def hold_list():
    numbers.sort(key=held)


def wait_list():
    numbers.append(1)  # waits for list


def hold_lock():
    with lock:
        held()


def wait_lock():
    lock.acquire()  # waits for lock
    lock.release()


def hold_rlock():
    with rlock:
        held()


def wait_rlock():
    rlock.acquire()  # waits for rlock
    rlock.release()


def hold_types():
    Meta("Made", (), {})


def wait_types():
    Plain.x = 1  # waits for types


def hold_gc():
    while not is_over.is_set():
        held()


def wait_gc():
    gc.collect()  # waits for gc


def wait_after(part, is_measured):
    begun.wait()
    sleep(hold * part)
    began = perf_counter()
    for _ in range(times):
        wait()
    spans.append((began, perf_counter()))
    if is_measured:
        log.append(spans[-1][1] - began)


wait = globals()[f"wait_{kind}"]
wait()
# The first thread that waits for a lock spins before; those behind it do not.
waits = [(0.1, True)] if kind == "gc" else [(0.1, False), (0.4, True), (0.4, True), (0.4, True)]
threads = [threading.Thread(target=wait_after, args=each) for each in waits]
holder = threading.Thread(target=globals()[f"hold_{kind}"])
for thread in [*threads, holder]:
    thread.start()
for thread in threads:
    thread.join()
is_over.set()
holder.join()
print(sum(log), max(span[1] for span in spans) - min(span[0] for span in spans))
"""

NAMES = {
    "dict": {"mutex/python/object-dict-table"},
    "list": {"mutex/python/object-list-numbers"},
    "lock": {"mutex/python/__main__:LINE"},
    "rlock": {"mutex/python/__main__:LINE"},
    "types": {"mutex/python/types", "mutex/python/two-objects-dict-with-Plain.x"},  # of all types, and of this class
    "gc": {"cond/python/stop-the-world-gc"},
}
FINDS = {"dict": "shared_object", "list": "shared_object", "gc": "gc_pauses"}


@pytest.mark.parametrize("name", WITHOUT_GIL)
@pytest.mark.parametrize("kind", NAMES)
def test_a_wait_is_named_by_what_it_is_for(tmp_path: Path, kind: str, name: str) -> None:
    """The time that pfs shows at the line is that of the program's own log, and so is the time of the finding.

    A thread spins before it waits, and a busy machine makes that long: then threads wait longer.
    """
    python = interpreter(name)
    if kind == "rlock" and name == "python3.13t":
        pytest.skip("its RLock is a semaphore, which has the line that made it")
    (tmp_path / "planted.py").write_text(PLANTED)
    line = next(at for at, text in enumerate(PLANTED.splitlines(), 1) if text.endswith(f"# waits for {kind}"))
    ratios = []
    for hold in (0.5, 2, 8):
        code, out, err = outcome(*PFS, "run", "--keep", "--no-report", "--", python, tmp_path / "planted.py", kind, str(hold))
        assert code == 0, err
        (segment,) = (tmp_path / "segments").glob("*/*.pfs")
        with pfs.attach(segment) as seen:
            waits = seen.table("events_waits_history_long")
        found = [row for row in pfs.findings(segment).to_dict("records") if row["NAME"] == FINDS.get(kind)]
        shutil.rmtree(tmp_path / "segments")
        waits = waits[waits["SOURCE"] == f"planted.py:{line}"]
        # The list of the threads that wait has a lock, too: some threads that come at once wait for it, for microseconds.
        is_own = waits["EVENT_NAME"] == "wait/synch/mutex/python/interpreter"
        assert waits["TIMER_WAIT"][is_own].sum() < waits["TIMER_WAIT"].sum() / 1000
        names = {name.removeprefix("wait/synch/") for name in waits["EVENT_NAME"][~is_own]}
        expected = {each.replace("LINE", str(line)) for each in NAMES[kind]}
        if name == "python3.13t":  # it has no names of variables
            expected = {re.sub(r"(objects?-\w+).*", r"\1", each) for each in expected}
        assert names <= expected
        if kind != "gc" and len(waits) > 0:  # the first thread spins, and is not in the log
            waits = waits[waits["THREAD_ID"] != waits.sort_values("TIMER_START")["THREAD_ID"].iloc[0]]
        each, together = map(float, out.split())
        ratios.append([waits["TIMER_WAIT"].sum() / 1e12 / each])
        if kind in FINDS:
            ratios[-1].append(sum(row["TIME"] for row in found) / 1e12 / together)
            assert [row["PLACE"] for row in found] in ([], [f"planted.py:{line}"])
        if names and all(abs(ratio - 1) <= 0.1 for ratio in ratios[-1]):
            return
    pytest.fail(f"pfs shows {ratios} of the time that the program waited")


# A thread of C has a guard of the interpreter, whose end waits for it. CPython has guards from 3.15 on.
GUARDED = """
import ctypes, sys, threading, time
guard, close = ctypes.pythonapi.PyInterpreterGuard_FromCurrent, ctypes.pythonapi.PyInterpreterGuard_Close
guard.restype, close.argtypes, close.restype = ctypes.c_void_p, [ctypes.c_void_p], None
held = guard()
def work():
    time.sleep(1)
    close(held)
threading.Thread(target=work, daemon=True).start()
"""


def test_the_end_of_an_interpreter_waits_for_its_guards(tmp_path: Path) -> None:
    """That is no pause of all threads."""
    (tmp_path / "guarded.py").write_text(GUARDED)
    python = interpreter("python3.15t")
    code, out, err = outcome(*PFS, "run", "--keep", "--no-report", "--", python, tmp_path / "guarded.py")
    assert (code, out) == (0, ""), err
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(segment) as seen:
        waits = seen.table("events_waits_history_long")
    waits = waits[waits["EVENT_NAME"].str.startswith("wait/synch/cond/python/")].set_index("EVENT_NAME")
    assert waits["TIMER_WAIT"].idxmax() == "wait/synch/cond/python/interpreter"  # a real pause is short
