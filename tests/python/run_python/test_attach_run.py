"""``pfs attach-run`` makes statements of a Python program that runs already. The program here counts them itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pfs
from pfs._process.run import attach as attach_module
from pfs._process.run.attach import core_library
from tests.python._programs.subject import clean_environment
from tests.python.run.test_run import PFS, report_of, run

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


WANTED = {"GET /?/orders/? ?": (60, 0), "GET /?/absent": (3, 3)}


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


STRANGER = 4322
# Notes who runs it, and with which environment and terminal. Then it does what a hostile interpreter may do.
HOSTILE = """\
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char** words) {
  if (count == 1) { puts("ready"); fflush(stdout); for (;;) pause(); }
  char name[512];
  snprintf(name, sizeof name, "%s.ran", words[0]);
  FILE* const file = fopen(name, "w");
  const char* const secret = getenv("SECRET") ? "secret" : "none";
  if (file) { fprintf(file, "%d %d %s %d\\n", getuid(), getgid(), secret, isatty(0)); fclose(file); }
  for (int i = 0; i < 100000; ++i) fprintf(stderr, "noise of the interpreter\\n");
  return 0;
}
"""


@contextmanager
def strange_python(user: int, mode: int = 0o755) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """Runs a program called python3 as a user, from a folder of a user without rights. Yields the program and its process."""
    folder = Path(f"/var/tmp/pfs-test-attach-{os.getpid()}")
    folder.mkdir()
    try:
        (source := folder / "python.c").write_text(HOSTILE)
        program = folder / "python3"
        subprocess.run(["cc", "-o", program, source], check=True, timeout=60)
        for path in (folder, program):
            os.chown(path, STRANGER, STRANGER)
        folder.chmod(mode)
        with subprocess.Popen([program], user=user, group=user, extra_groups=[], stdout=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout is not None
                assert child.stdout.readline() == "ready\n"
                yield program, child
            finally:
                child.kill()
    finally:
        shutil.rmtree(folder)


@pytest.mark.needs("root")
def test_root_runs_the_interpreter_of_another_user_as_that_user() -> None:
    with strange_python(STRANGER) as (program, child):
        done = run(*PFS, "attach-run", str(child.pid), "--timeout", "1", env={**os.environ, "SECRET": "x"})
        assert done.returncode == 1
        assert Path(f"{program}.ran").read_text() == f"{STRANGER} {STRANGER} none 0\n"


@pytest.mark.needs("root")
def test_root_runs_no_file_of_another_user_as_root() -> None:
    with strange_python(0) as (program, child):
        done = run(*PFS, "attach-run", str(child.pid), "--timeout", "1")
        assert (done.returncode, f"which belongs to {STRANGER}" in done.stderr) == (1, True), done.stderr
        assert not Path(f"{program}.ran").exists()


@pytest.mark.needs("root")
def test_a_program_whose_file_is_another_one_here_is_refused() -> None:
    """In a container the same name is another file; so is a file that was replaced."""
    with strange_python(STRANGER) as (program, child):
        shutil.copy("/bin/true", f"{program}.new")
        os.replace(f"{program}.new", program)
        done = run(*PFS, "attach-run", str(child.pid), "--timeout", "1")
        assert done.returncode == 1
        assert "which is another file here" in done.stderr


@pytest.mark.needs("root")
@pytest.mark.parametrize("what", ["fifo", "link", "folder"])
def test_the_answer_of_a_program_is_in_no_folder_that_it_can_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    """A pipe would hang root, and a link would make root read any file."""
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # others enter it
    (secret := tmp_path / "secret").write_text("precious")
    refused = {
        "fifo": "os.unlink('answer'); os.mkfifo('answer')",
        "link": f"os.unlink('answer'); os.symlink({str(secret)!r}, 'answer')",
        "folder": "open('new', 'w')",
    }[what]
    with attach_module._folder(STRANGER) as (folder, answer):
        child = [sys.executable, "-I", "-c", f"import os; os.chdir({folder!r}); os.setuid({STRANGER}); {refused}"]
        assert "PermissionError" in run(*child).stderr
        write = f"import os; os.chdir({folder!r}); os.setuid({STRANGER}); os.write(os.open('answer', os.O_WRONLY), b'it runs')"
        run(sys.executable, "-I", "-c", write, check=True)
        assert os.pread(answer, 100, 0) == b"it runs"
    assert not os.path.exists(folder)


@pytest.mark.parametrize("library", ["real", "absent"])
def test_a_program_says_whether_it_has_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str) -> None:
    """The script runs as remote_exec would run it, in an interpreter of any version."""

    def send(interpreter: str, user: int, group: int, arguments: list[str], end: float) -> None:
        code = f"exec(open({arguments[-1]!r}).read())"
        subprocess.run([sys.executable, "-c", code], env=clean_environment(tmp_path), check=True, timeout=60)

    monkeypatch.setattr(attach_module, "_sent", send)
    if library == "absent":
        monkeypatch.setattr(attach_module, "core_library", lambda: "/absent/libperfschema.so")
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        if library == "real":
            attach_module.attach_run(child.pid, ["clients"], 10)
        else:
            with pytest.raises(pfs.AttachError, match=f"process {child.pid}: OSError: /absent/libperfschema.so: cannot open"):
                attach_module.attach_run(child.pid, ["clients"], 10)


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
