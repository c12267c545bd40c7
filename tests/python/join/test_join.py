"""``pfs join`` and ``pfs leave``: programs that run already are recorded, and go on whatever happens to the joiner."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import pfs
from pfs import _core
from pfs._process.run import launch
from pfs.errors import AttachError, StateError
from tests.budgets import JOINERS_KILLED, JOINS, seed
from tests.python.join.test_come_late import SOURCES as JOINED
from tests.python.join.test_come_late import THREADS, counts, told
from tests.python.run.test_run import LIBRARY, PFS

GLIBC = tuple(int(part) for part in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))  # type: ignore[union-attr]

pytestmark = pytest.mark.skipif(
    not LIBRARY.exists() or os.uname().machine != "x86_64", reason="programs are joined on x86-64 only"
)

STATIC = "int main(void) { for (;;) __builtin_ia32_pause(); }\n"
SECCOMP = """
#include <stdio.h>
#include <sys/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <unistd.h>
int main(void) {
  struct sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  struct sock_fprog program = {1, allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 1;
  puts("ready"); fflush(stdout);
  for (;;) pause();
}
"""
SERVED = """\
import sqlite3, sys, threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
base = sqlite3.connect(":memory:", check_same_thread=False)
base.execute("CREATE TABLE orders (id INTEGER, price INTEGER)")
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        base.execute("INSERT INTO orders VALUES (?, 7)", (1,)); rows = base.execute("SELECT price FROM orders").fetchall()
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *more): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
for line in sys.stdin:
    for n in range(int(line)):
        link = HTTPConnection("127.0.0.1", server.server_port)
        link.request("GET", f"/{n}"); link.getresponse().read(); link.close()
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the test programs, compiled without any part of pfs."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("told", "storms", "in_malloc"):
        subprocess.run(["cc", "-O1", "-g", "-o", folder / name, JOINED / f"{name}.c", "-lpthread"], check=True)
    return folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Segments go to a folder of the test."""
    segments = tmp_path / "segments"
    segments.mkdir()
    monkeypatch.setenv("PFS_DIR", str(segments))
    return segments


@contextmanager
def running(*command: str | Path, ready: bool = True) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert not ready or process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def command(*arguments: object, code: int = 0) -> str:
    """Runs pfs and returns what it says on both outputs."""
    done = subprocess.run([*PFS, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def sums(pid: int, table: str, column: str, by: str) -> dict[str, int]:
    with pfs.attach(pid) as schema:
        frame = schema.table(table)
    return {name: count for name, count in zip(frame[by], frame[column], strict=True) if count}


def test_what_a_program_does_after_the_join_is_counted(programs: Path, tmp_path: Path, folder: Path) -> None:
    with told(programs / "told", tmp_path) as program:
        program.do("work 10")
        assert "is not recorded (pfs join" in command("show", program.pid, "threads", code=1)
        assert "can be joined: told, 4 threads" in command("join", program.pid, "--dry-run")
        assert list(folder.iterdir()) == []
        assert f"process {program.pid} is recorded" in command("join", program.pid)
        program.do("work 100")
        assert counts(program.pid, folder)["mutex/told"] == THREADS * 100
        command("leave", program.pid)
        program.do("work 50")
        assert counts(program.pid, folder)["mutex/told"] == THREADS * 100
        pfs.join(program.pid)
        program.do("work 20")
        pfs.leave(program.pid)
        assert counts(program.pid, folder)["mutex/told"] == THREADS * 120
    assert list(folder.iterdir()) == []  # as that of any program that has ended


def test_only_what_is_asked_for_is_recorded(programs: Path, tmp_path: Path, folder: Path) -> None:
    with told(programs / "told", tmp_path) as program:
        said = command("join", program.pid, "--only", "files", "--for", "2s", "--report")
        assert "Took 2" in said
        assert {kind.partition("/")[0] for kind in counts(program.pid, folder)} <= {"file", "told"}


def test_a_second_report_says_that_it_counts_since_the_first_join(programs: Path, tmp_path: Path) -> None:
    with told(programs / "told", tmp_path) as program:
        for is_second in (False, True):
            said = command("join", program.pid, "--for", "100ms", "--report")
            assert ("from when it was first recorded" in said) == is_second
            assert "Not ended when the program did" not in said
        command("leave", program.pid)
        assert "first recorded" not in command("join", program.pid)  # there is no report


@pytest.mark.parametrize("how", ["run", "join"])
def test_a_join_for_a_time_leaves_no_recording_that_it_has_not_begun(
    how: str, programs: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "run":
        monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
        monkeypatch.setenv("PFS_RUN_PRELOAD", str(LIBRARY))
    with told(programs / "told", tmp_path) as program:
        monkeypatch.delenv("LD_PRELOAD", raising=False)
        if how == "join":
            command("join", program.pid)
        said = command("join", program.pid, "--for", "100ms", "--report")
        assert "it was recorded before, with its own settings, and stays so" in said
        program.do("work 100")
        assert counts(program.pid, tmp_path if how == "run" else folder)["mutex/told"] == THREADS * 100


@pytest.mark.needs("gdb")
def test_a_debugger_can_attach_after_a_join(programs: Path, tmp_path: Path) -> None:
    """The library has no file that gdb could take for one of its own: it hung where that was a pipe."""
    with told(programs / "told", tmp_path) as program:
        command("join", program.pid)
        look = ["gdb", "-nx", "-batch", "-ex", "info threads", "-ex", "info sharedlibrary", "-p", str(program.pid)]
        done = subprocess.run(look, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert f"LWP {program.pid}" in done.stdout
        assert "/memfd:pfs/libperfschema-run.so" in done.stdout
        assert "/proc/self/fd/" not in done.stdout


def test_threads_that_do_nothing_are_in_the_report(programs: Path, tmp_path: Path, folder: Path) -> None:
    with told(programs / "told", tmp_path) as program:
        for arguments in [("join", program.pid, "--for", "1s", "--report"), ("report", program.pid)]:
            said = command(*arguments)
            assert re.search(rf"\s{THREADS}\s+native/early\s+blocked elsewhere (9[0-9]|100) %", said), said
            assert re.search(r"\s1\s+native/main\s+blocked elsewhere (9[0-9]|100) %", said), said


def test_blocked_says_what_began_before_the_join(programs: Path, tmp_path: Path, folder: Path) -> None:
    """A program that hangs already must not look as if nothing waited in it."""
    with told(programs / "told", tmp_path) as program:
        command("join", program.pid)
        said = command("show", program.pid, "blocked")
        assert said.startswith("No thread waits for a lock.\n4 threads had no event since pfs joined this process")
        for _ in range(2):  # in its first thread. Its first answer is an event at its second
            program.do("fork 1")
        assert f"\n{THREADS} threads had no event since pfs joined" in command("show", program.pid, "blocked")


def test_a_python_program_is_counted(folder: Path) -> None:
    requests = 40
    with running(sys.executable, "-c", SERVED) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pfs.join(process.pid)
        process.stdin.write(f"{requests}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        sockets = sums(process.pid, "socket_summary_by_event_name", "COUNT_STAR", "EVENT_NAME")
        assert sum(sockets.values()) >= requests * 8
        statements = sums(process.pid, "events_statements_summary_by_digest", "COUNT_STAR", "DIGEST_TEXT")
        assert {text.split()[0]: count for text, count in statements.items()} == {
            "INSERT": requests,
            "SELECT": requests,
            "BEGIN": 1,
            "GET": requests,  # what its client sends
        }
        pfs.leave(process.pid)


@pytest.mark.needs("redis")
def test_a_server_with_an_allocator_and_children_is_counted(tmp_path: Path, folder: Path) -> None:
    import redis

    path = tmp_path / "redis.sock"
    arguments = ["--port", "0", "--unixsocket", str(path), "--dir", str(tmp_path), "--save", "", "--io-threads", "2"]
    with running("redis-server", *arguments) as process:
        client = redis.Redis(unix_socket_path=str(path))
        while not path.exists():
            time.sleep(0.01)
        client.ping()
        pfs.join(process.pid)
        for n in range(1000):
            client.set(f"key{n}", "value")
        for _ in range(3):
            client.bgsave()
            while client.info("persistence")["rdb_bgsave_in_progress"]:
                time.sleep(0.01)
        assert client.info("persistence")["rdb_last_bgsave_status"] == "ok"
        sockets = sums(process.pid, "socket_summary_by_event_name", "COUNT_WRITE", "EVENT_NAME")
        assert sum(sockets.values()) >= 1000
        pfs.leave(process.pid)
        left = sums(process.pid, "events_waits_summary_global_by_event_name", "COUNT_STAR", "EVENT_NAME")
        for n in range(1000):
            client.get(f"key{n}")
        now = sums(process.pid, "events_waits_summary_global_by_event_name", "COUNT_STAR", "EVENT_NAME")
        assert sum(now.values()) - sum(left.values()) <= 8  # waits that were under way
        client.shutdown(nosave=True)
        assert process.wait(60) == 0


@pytest.mark.needs("root", "unshare")
def test_a_program_in_a_container_is_found_from_outside(programs: Path) -> None:
    """It has other mounts and numbers of processes."""
    inside = "mount -t tmpfs none /dev/shm && unset PFS_DIR && exec $0"
    with running("unshare", "-mpf", "--mount-proc", "sh", "-c", inside, programs / "told", ready=False) as process:
        while not (children := Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()):
            time.sleep(0.01)
        pid = int(children[0])
        while "told" not in Path(f"/proc/{pid}/cmdline").read_text() or "told" not in os.readlink(f"/proc/{pid}/exe"):
            time.sleep(0.01)
        before = os.environ.pop("PFS_DIR")
        try:
            path = pfs.join(pid)
        finally:
            os.environ["PFS_DIR"] = before
        assert path == f"/proc/{pid}/root/dev/shm/pfs-0/1.pfs"
        assert pfs.attach(path).table("threads").shape[0] >= 0
        pfs.leave(pid)


def test_a_child_that_was_not_recorded_is_joined(folder: Path) -> None:
    code = "import os, sys, time\nprint('ready', flush=True); sys.stdin.readline()\nchild = os.fork()\n"
    code += "if child: print(child, flush=True); os.waitpid(child, 0)\n"
    code += "while not child: open('/etc/hostname').close(); time.sleep(0.001)"
    with running(sys.executable, "-c", code) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pfs.join(process.pid, children="none")
        process.stdin.write("go\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        try:
            assert pfs.join(child) == str(folder / f"{child}.pfs")
            time.sleep(0.3)
            assert [count for kind, count in counts(child, folder).items() if kind.startswith("file/")]
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("flags", ["-pie", "-no-pie -fno-pic"])  # the variable is the C library's, or a copy in the program
def test_a_program_of_one_thread_is_one_again(flags: str, tmp_path: Path) -> None:
    """The C library locks with atomic instructions once a program had two threads, which costs more. It had: that of the join."""
    subprocess.run(["cc", "-O1", *flags.split(), "-o", tmp_path / "alone", JOINED / "alone.c", "-lpthread"], check=True)
    with running(tmp_path / "alone") as process:

        def do(line: str) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        never = do("work 20000")
        for call in (pfs.join, pfs.leave, pfs.join, pfs.leave):
            assert do("look") == 1
            call(process.pid)
        assert do("look") == 1
        print(f"{never} ps a lock, {do('work 20000')} after the leave")
        assert do("thread") == 1
        assert do("look") == 0  # the C library says so again
        print(f"{do('work 20000')} ps after a thread of its own")


def constant_places(pid: int) -> list[tuple[int, int]]:
    """Returns where the code of the program and its libraries is, and their tables of functions, once they are constant."""
    lines = [line.split(maxsplit=5) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    places = [line[0].split("-") for line in lines if line[1] in ("r-xp", "r--p") and line[5:] and line[5].startswith("/")]
    return [(int(begin, 16), int(end, 16)) for begin, end in places]


def test_after_the_leave_calls_lead_where_they_led_and_little_memory_stays(tmp_path: Path) -> None:
    """So a call costs what it cost: the same instructions run. What a join has put into bytes that nobody uses stays there."""
    subprocess.run(["cc", "-O1", "-Wl,-z,now", "-o", tmp_path / "told", JOINED / "told.c", "-lpthread"], check=True)

    def contents() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        with open(f"/proc/{program.pid}/mem", "rb", buffering=0) as memory:
            return np.concatenate([np.frombuffer(os.pread(memory.fileno(), end - at, at), "u1") for at, end in places])

    def changed() -> int:
        return int(np.count_nonzero((contents() != before) & (before != 0)))

    def resident() -> int:
        return int(re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{program.pid}/status").read_text())[0])

    with told(tmp_path / "told", tmp_path) as program:
        program.do("work 100")
        places = constant_places(program.pid)
        before, used = contents(), resident()
        for _ in range(3):
            pfs.join(program.pid)
            assert changed() > 0
            program.do("work 100")
            pfs.leave(program.pid)
            assert changed() == 0
        print(f"{resident() - used} KiB stay")
        assert resident() - used <= 8 << 10


# ---- It does no harm


def test_programs_that_are_nearly_nowhere_safe_go_on(programs: Path, folder: Path) -> None:
    """Each is joined and left twice, while it allocates, loads, forks, makes threads and jumps out of handlers."""
    declined = 0
    for _ in range(JOINS):
        with running(programs / "storms", "60") as process:
            for call in (pfs.join, pfs.leave, pfs.join, pfs.leave):
                try:
                    call(process.pid)
                except (StateError, AttachError):
                    declined += 1
            said = process.communicate(timeout=120)[0]
            assert (process.returncode, said[:5]) == (0, "ended")
    print(f"{declined} of {4 * JOINS} declined")
    assert declined <= 0.2 * 4 * JOINS


def call(pid: int, checks_thread: bool) -> int:
    return _core.call_in_process(pid, launch.library(), "pfs_run_join", b"", 0.5, False, checks_thread)[0]


def test_a_thread_inside_the_allocator_is_let_alone(programs: Path) -> None:
    with running(programs / "in_malloc") as process:
        with pytest.raises(StateError, match="no thread of it was at a safe point"):
            call(process.pid, True)
        assert process.communicate("xx", timeout=30)[0] == "done\n"
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("flags", "safe", "unsafe"),
    [
        ("-O1", "none old alloca qsort", "dl_iterate_phdr signal"),
        # The stack cannot be read. Frames of newer C libraries have words of the program's start that look like calls.
        (
            "-O1 -fno-asynchronous-unwind-tables",
            "none" if GLIBC < (2, 43) else "",
            "old alloca qsort dl_iterate_phdr signal",
        ),
    ],
)
def test_a_thread_is_where_its_calls_say(flags: str, safe: str, unsafe: str, tmp_path: Path) -> None:
    """And not where those were that have ended, if the compiler has said how the stack is read."""
    subprocess.run(["cc", *flags.split(), "-o", tmp_path / "calls", JOINED / "calls.c", "-ldl"], check=True)
    for where in safe.split():
        with running(tmp_path / "calls", where) as process:
            pfs.join(process.pid)
            pfs.leave(process.pid)
            process.communicate("x", timeout=30)
            assert process.returncode == 0
    for where in unsafe.split():
        with running(tmp_path / "calls", where) as process:
            with pytest.raises(StateError, match="no thread of it was at a safe point"):
                call(process.pid, True)
            process.communicate("x", timeout=30)
            assert process.returncode == 0


def test_without_the_check_that_thread_hangs(programs: Path) -> None:
    """The control of the tests above: it is the check that saves the program."""
    with running(programs / "in_malloc") as process:
        with pytest.raises(StateError):
            call(process.pid, False)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate("xx", timeout=3)


def test_the_joiner_may_be_killed_at_any_time(programs: Path, tmp_path: Path) -> None:
    number = seed()
    print("seed", number)
    chance = random.Random(number)
    code = "import os, sys, pfs\nos.write(1, b'x')\npfs.join(int(sys.argv[1])); pfs.leave(int(sys.argv[1]))"
    with told(programs / "told", tmp_path) as program:
        for _ in range(JOINERS_KILLED):
            joiner = subprocess.Popen([sys.executable, "-c", code, str(program.pid)], stdout=subprocess.PIPE)
            assert joiner.stdout is not None
            joiner.stdout.read(1)
            time.sleep(chance.random() * 0.15)
            joiner.kill()
            joiner.communicate()
            program.do("work 20")
        deadline = time.monotonic() + 30
        while True:  # a thread may still wait for its joiner
            try:
                pfs.join(program.pid)
                break
            except StateError:
                assert time.monotonic() < deadline
        program.do("work 20")


# ---- What must not be touched is refused


def refused(process: subprocess.Popen[str], match: str) -> None:
    maps = Path(f"/proc/{process.pid}/maps")
    before = maps.read_text()
    command("join", process.pid, "--dry-run", code=1)
    with pytest.raises(AttachError, match=match):
        pfs.join(process.pid)
    assert maps.read_text() == before
    assert process.poll() is None


def test_a_static_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "static.c").write_text(STATIC)
    subprocess.run(["cc", "-static", "-o", tmp_path / "static", tmp_path / "static.c"], check=True)
    with running(tmp_path / "static", ready=False) as process:
        time.sleep(0.2)
        refused(process, "it has no glibc")


def test_a_program_with_a_filter_of_system_calls_is_refused(tmp_path: Path) -> None:
    (tmp_path / "seccomp.c").write_text(SECCOMP)
    subprocess.run(["cc", "-o", tmp_path / "seccomp", tmp_path / "seccomp.c"], check=True)
    with running(tmp_path / "seccomp") as process:
        refused(process, "seccomp")
        with pytest.raises(StateError, match="at a safe point"):  # it waits for a signal, which a stop would end
            pfs.join(process.pid, force=True)
        assert process.poll() is None


def test_a_sanitized_program_is_refused(programs: Path, tmp_path: Path) -> None:
    subprocess.run(["cc", "-fsanitize=address", "-o", tmp_path / "told", JOINED / "told.c", "-lpthread"], check=True)
    with running(tmp_path / "told", ready=False) as process:
        time.sleep(0.5)
        refused(process, "sanitizer")


def test_a_program_that_has_pfs_is_refused() -> None:
    with running(
        sys.executable, "-c", "import pfs, time; pfs.Lock('a/b'); print('ready', flush=True); time.sleep(100)"
    ) as process:
        refused(process, "it has pfs of its own")


def test_a_stopped_program_is_refused(programs: Path) -> None:
    with running(programs / "told", ready=False) as process:
        time.sleep(0.1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        refused(process, "it is stopped")


@pytest.mark.needs("root")
@pytest.mark.skipif(not os.access("/sys/fs/cgroup/freezer", os.W_OK), reason="no freezer of version 1 is mounted")
def test_a_frozen_program_is_refused(programs: Path) -> None:
    group = Path(f"/sys/fs/cgroup/freezer/pfs-{os.getpid()}")
    group.mkdir()
    try:
        with running(programs / "told", ready=False) as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            (group / "freezer.state").write_text("FROZEN")
            try:
                time.sleep(0.1)
                refused(process, "its cgroup is frozen")
            finally:
                (group / "freezer.state").write_text("THAWED")
    finally:
        time.sleep(0.1)  # until the process has left it
        group.rmdir()


@pytest.mark.needs("root")
def test_another_users_program_is_refused(programs: Path, tmp_path: Path) -> None:
    place = Path(shutil.copy(programs / "told", "/tmp"))
    code = "import os, sys, pfs\nfrom pfs.errors import AttachError\njoin = pfs.join\nos.setgid(65534); os.setuid(65534)\n"
    code += "try: join(int(sys.argv[1]))\nexcept AttachError as error: print(error)"
    try:
        with running(place, ready=False) as process:
            time.sleep(0.1)
            before = Path(f"/proc/{process.pid}/maps").read_text()
            done = subprocess.run([sys.executable, "-c", code, str(process.pid)], capture_output=True, text=True, timeout=60)
            assert "does not let this user trace it" in done.stdout, done.stderr
            assert Path(f"/proc/{process.pid}/maps").read_text() == before
    finally:
        place.unlink()


def test_who_is_not_there_is_no_program(programs: Path, tmp_path: Path) -> None:
    assert "there is no process 4194304" in command("join", 4194304, code=1)
    assert "no processes are called 'nobody-has-this'" in command("join", "nobody-has-this", code=1)
    with pytest.raises(AttachError, match="it is this one"):
        pfs.join(os.getpid())
    with told(programs / "told", tmp_path) as program:
        assert "is not recorded by" in command("leave", program.pid, code=1)
        with pytest.raises(AttachError, match="is not recorded by"):
            pfs.leave(program.pid)
