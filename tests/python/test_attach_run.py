"""``pfs attach-run`` makes statements of a Python program that runs already. The program here counts them itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pfs
from pfs._run.attach import core_library
from tests.python._programs.subject import clean_environment
from tests.python.test_run import PFS, report_of, run

PACKAGE = Path(pfs.__file__).parent
pytestmark = pytest.mark.skipif(not list((PACKAGE / "lib").glob("libperfschema.so.*")), reason="without the C library")

SERVE = """\
import http.client, os, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path == "/absent" else 200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *more): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
def ask(path):
    link = http.client.HTTPConnection("127.0.0.1", server.server_port)
    link.request("GET", path); link.getresponse().read(); link.close()
def work():
    for n in range(20): ask(f"/orders/{n}?verbose=1")
    ask("/absent")
def all_of_it():
    threads = [threading.Thread(target=work, name=f"worker-{n}") for n in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
ATTACHED = (
    SERVE
    + """
before = sys.path[:], dict(os.environ)
sys.path.insert(0, sys.argv[1]); import _pfs_run; sys.path.remove(sys.argv[1])
_pfs_run.attach(sys.argv[2], "clients,threads")
assert (sys.path, dict(os.environ)) == before
try: _pfs_run.attach(sys.argv[2], "clients")
except RuntimeError: pass
else: raise AssertionError
all_of_it()
os.kill(os.getpid(), 9)
"""
)
RUNNING = (
    SERVE
    + """
import time
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
all_of_it()
print("done", flush=True)
time.sleep(100)
"""
)


def statements(schema: pfs.Schema) -> dict[str, tuple[int, int]]:
    rows = schema.table("events_statements_summary_by_digest")
    return {
        text: (int(count), int(errors))
        for text, count, errors in zip(rows["DIGEST_TEXT"], rows["COUNT_STAR"], rows["SUM_ERRORS"], strict=True)
    }


WANTED = {"`GET` / ? / `orders` / ? ?": (60, 0), "`GET` / ? / `absent`": (3, 3)}


def test_statements_of_a_layer_that_comes_late(tmp_path: Path) -> None:
    """As attach-run starts it, in an interpreter of any version."""
    (path := tmp_path / "app.py").write_text(ATTACHED)
    environment = clean_environment(tmp_path) | {"PFS_DIR": str(tmp_path / "pfs")}
    done = run(sys.executable, path, PACKAGE / "_auto", core_library(), env=environment)
    assert done.returncode == -9, done.stderr
    [segment] = (tmp_path / "pfs").glob("*.pfs")
    with pfs.attach(segment) as schema:
        assert statements(schema) == WANTED
        rows = schema.table("events_statements_history_long")
        assert set(rows["SOURCE"]) == {"app.py:11"}
        assert set(rows["EVENT_NAME"]) == {"statement/http-client/get"}


TARGETS = [
    "/",
    "/orders/7",
    "/a/3fae/x",
    "/it's/\\b",
    "/0123456789abcdef/x",
    "/_.a/b-c/",
    "//",
    "/7up",
    "/a?b=c'd",
    "/longer_than_sixteen",
]


def test_texts_of_requests_are_those_of_the_library(tmp_path: Path) -> None:
    """The text of a request is made in C++ for pfs run, and in Python for attach-run."""
    code = (
        "import sys, _pfs_run_native as native\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from _pfs_run.attached import request_text\n"
        "for target in sys.argv[2:]:\n"
        "    assert request_text('get', target) == native.request_text('get', target), target\n"
    )
    (path := tmp_path / "texts.py").write_text(code)
    report_of(tmp_path, sys.executable, path, PACKAGE / "_auto", *TARGETS)


@pytest.mark.parametrize("what", ["absent", "no Python", "too old"])
def test_a_program_that_cannot_be_attached_to_is_left_alone(what: str) -> None:
    command = ["sleep", "60"] if what == "no Python" else [sys.executable, "-c", "import time; time.sleep(60)"]
    if what == "too old" and sys.version_info >= (3, 14):
        pytest.skip("it is not")
    child = subprocess.Popen(command)
    try:
        while os.path.basename(os.readlink(f"/proc/{child.pid}/exe")) not in os.path.realpath(
            shutil.which(command[0]) or command[0]
        ):
            pass  # it has not become the program yet
        done = run(*PFS, "attach-run", str(1 << 22 if what == "absent" else child.pid))
        assert done.returncode == 1
        said = {"absent": "No such file", "no Python": "is no Python", "too old": "sys.remote_exec needs 3.14"}[what]
        assert said in done.stderr
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_program_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = sys.executable if sys.version_info >= (3, 14) else shutil.which("python3.14")
    if interpreter is None:
        pytest.skip("there is no CPython 3.14")
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "pfs"))
    (path := tmp_path / "app.py").write_text(RUNNING)
    child = subprocess.Popen([interpreter, path, tmp_path / "go"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        done = run(*PFS, "attach-run", str(child.pid))
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        again = run(*PFS, "attach-run", str(child.pid))
        assert "recorded already" in again.stderr
        (tmp_path / "go").touch()
        assert child.stdout.readline() == "done\n"
        with pfs.attach(child.pid) as schema:
            assert statements(schema) == WANTED
            assert "thread/python/MainThread" in set(schema.table("threads")["NAME"])
    finally:
        child.kill()
        child.wait()
        child.stdout.close() if child.stdout is not None else None
