"""What ``pfs join`` names in a program of CPython is what ``pfs run`` names there. The program counts it itself."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import Popen

import pytest

import pfs
from tests import LOCKS_ARE_BYTES
from tests.python.join.test_join import folder, pytestmark, running

__all__ = ["folder", "pytestmark"]  # test_join's fixture and mark hold here, too

SERVED = """\
import http.client, os, queue, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path == "/absent" else 200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *more): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True, name="acceptor").start()
lock, jobs, done = threading.Lock(), queue.SimpleQueue(), queue.SimpleQueue()
def ask(path):
    link = http.client.HTTPConnection("127.0.0.1", server.server_port)
    link.request("GET", path); link.getresponse().read(); link.close()
def work():
    while times := jobs.get():
        for n in range(times):
            with lock: pass
        for n in range(20): ask(f"/orders/{n}?verbose=1")
        ask("/absent"); time.sleep(0.001)
        done.put(threading.current_thread().name)
def parts():
    return (
        threading.Thread.__init__, threading.Thread._set_native_id, threading.Thread.name, http.client.HTTPConnection.putrequest,
        http.client.HTTPConnection.getresponse, time.sleep, tuple(sys.path), tuple(os.environ.items()),
    )
before = parts()
workers = [threading.Thread(target=work, name=f"worker-{n}") for n in range(3)]
for worker in workers: worker.start()
print("ready", flush=True)
for line in sys.stdin:
    what, *arguments = line.split()
    if what == "work":
        for worker in workers: jobs.put(int(arguments[0]))
        print(*sorted(done.get() for worker in workers), flush=True)
    elif what == "hold":
        import ctypes
        print("held", flush=True)
        ctypes.PyDLL(None).usleep(int(arguments[0]))
    elif what == "layer": print("_pfs_run" in sys.modules, flush=True)
    else: print([a is b or a == b for a, b in zip(before, parts())], threading.active_count(), flush=True)
for worker in workers: jobs.put(0)
"""
LOCK, SLEEP, STATEMENT = "__main__:16", "__main__:18", "app.py:12"
REQUESTS = {"GET /?/orders/? ?": (60, 0), "GET /?/absent": (3, 3)}


def do(process: Popen[str], line: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def statements(schema: pfs.Schema) -> dict[str, tuple[int, int]]:
    rows = schema.table("events_statements_summary_by_digest")
    return {
        text: (int(count), int(errors))
        for text, count, errors in zip(rows["DIGEST_TEXT"], rows["COUNT_STAR"], rows["SUM_ERRORS"], strict=True)
    }


def waits(schema: pfs.Schema) -> dict[str, int]:
    rows = schema.table("events_waits_summary_global_by_event_name")
    return {
        name.removeprefix("wait/"): int(count)
        for name, count in zip(rows["EVENT_NAME"], rows["COUNT_STAR"], strict=True)
        if count
    }


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (path := tmp_path / "app.py").write_text(SERVED)
    return path


def test_locks_threads_the_gil_and_statements_have_their_names(program: Path) -> None:
    workers = "worker-0 worker-1 worker-2"
    with running(sys.executable, program) as process:
        assert do(process, "work 5") == workers
        pfs.join(process.pid)
        assert do(process, "work 100") == workers
        with pfs.attach(process.pid) as schema:
            assert statements(schema) == REQUESTS
            assert set(schema.table("events_statements_history_long")["SOURCE"]) == {STATEMENT}
            seen = waits(schema)
            assert seen[f"synch/mutex/python/{LOCK}"] == 300
            assert seen[f"system/python/sleep-{SLEEP}"] == 3
            assert seen["synch/cond/python/gil"] > 0
            assert not [name for name in seen if "data+" in name]
            names = set(schema.table("threads")["NAME"])
            assert names >= {f"thread/python/{name}" for name in ("MainThread", "acceptor", *workers.split())}


def test_leaving_takes_all_of_it_out_again(program: Path) -> None:
    with running(sys.executable, program) as process:
        threads = do(process, "parts").rpartition(" ")[2]
        for round in range(1, 4):
            pfs.join(process.pid)
            assert "False" in do(process, "parts")
            do(process, "work 10")
            pfs.leave(process.pid)
            assert do(process, "parts") == f"{[True] * 8} {threads}"
            do(process, "work 10")
            with pfs.attach(process.pid) as schema:
                assert statements(schema) == {text: (round * count, round * errors) for text, (count, errors) in REQUESTS.items()}
                assert waits(schema)[f"synch/mutex/python/{LOCK}"] == round * 30
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 0


def test_nothing_of_the_layer_is_there_where_it_is_not_wanted(program: Path) -> None:
    with running(sys.executable, program) as process:
        pfs.join(process.pid, python=["none"])
        assert do(process, "layer") == "False"
        do(process, "work 10")
        with pfs.attach(process.pid) as schema:
            assert statements(schema) == {}
            assert LOCKS_ARE_BYTES or waits(schema)[f"synch/mutex/python/{LOCK}"] == 30


def test_a_thread_that_has_the_gil_for_long_delays_only_the_layer(program: Path) -> None:
    with running(sys.executable, program) as process:
        assert do(process, "hold 4000000") == "held"
        segment = pfs.join(process.pid)
        assert Path(segment).exists()
        while do(process, "parts").split(", ")[4] != "False":  # the last function of http.client
            pass
        do(process, "work 10")
        with pfs.attach(process.pid) as schema:
            assert statements(schema) == REQUESTS
