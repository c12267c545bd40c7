"""What the system says of threads that waited before pfs recorded their process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pfs
from pfs._process.system_calls import waits_of
from tests.python.join.test_join import command, running

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of calls are those of x86-64")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_DIR", str(tmp_path))


HANGS = """
import os, socket, threading
lock, (here, there), (end, start) = threading.Lock(), socket.socketpair(), os.pipe()
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=600)
peer = server.accept()
lock.acquire()
waits = [lock.acquire, lambda: os.read(end, 1), lambda: here.recv(1), lambda: client.recv(1), server.accept]
for wait in waits:
    threading.Thread(target=wait, daemon=True).start()
print(os.readlink(f"/proc/self/fd/{end}"), *server.getsockname(), *client.getsockname(), flush=True)
if os.fork():
    os.wait()
os.close(start)
os.read(end, 1)  # the child ends with its parent
"""


@pytest.mark.parametrize("joined", [False, True])
def test_a_program_that_hung_before_says_what_its_threads_wait_in(joined: bool) -> None:
    with running(sys.executable, "-c", HANGS, ready=False) as process:
        assert process.stdout is not None
        pipe, _, port, _, own = process.stdout.readline().split()
        wanted = ["futex: a lock", f"read of {pipe}", "recv of a socket", f"poll of socket 127.0.0.1:{own} to 127.0.0.1:{port}"]
        wanted += [f"accept of socket 127.0.0.1:{port}", "wait4 (end of a child)"]
        deadline = time.monotonic() + 60
        while len(waits_of(process.pid)) < len(wanted) or any("runs" in text for _, text in waits_of(process.pid)):
            assert time.monotonic() < deadline, waits_of(process.pid)
            time.sleep(0.01)
        if joined:
            pfs.join(process.pid)
        said = command("show", process.pid, "blocked", code=0 if joined else 1)
        assert ("had no event since" in said) == joined
        assert ("is not recorded" in said) != joined
        for text in wanted[: 5 if joined else 6]:  # the main thread of a joined program may have had an event
            assert re.search(rf"^  \d+ .{{1,15}}: {re.escape(text)}", said, re.MULTILINE), f"{text}\n{said}"


@pytest.mark.needs("root")
def test_a_user_who_may_not_trace_a_program_hears_nothing_of_its_calls() -> None:
    with running("sleep", "600", ready=False) as process:
        deadline = time.monotonic() + 60
        while not any("sleep" in text for _, text in waits_of(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.seteuid(65534)
        try:
            assert waits_of(process.pid) == []
        finally:
            os.seteuid(0)


MUTEX = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void* waits(void* none) { pthread_mutex_lock(&mutex); return none; }
int main(void) {
  pthread_t thread;
  pthread_mutex_lock(&mutex);
  pthread_create(&thread, NULL, waits, NULL);
  puts("ready"); fflush(stdout);
  for (;;) pause();
}
"""


@pytest.mark.needs("gcc")
def test_the_holder_of_a_plain_mutex_is_known_without_pfs(tmp_path: Path) -> None:
    (tmp_path / "mutex.c").write_text(MUTEX)
    subprocess.run(["gcc", "-o", tmp_path / "mutex", tmp_path / "mutex.c", "-lpthread"], check=True)
    with running(tmp_path / "mutex") as process:
        deadline = time.monotonic() + 60
        while len(waits := waits_of(process.pid)) < 2 or any("runs" in text for _, text in waits):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [text for _, text in waits if text.startswith("futex")] == [
            f"futex: a lock, a condition or the end of a thread. It is a mutex that {process.pid} holds"
        ]
