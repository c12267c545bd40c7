"""The report of ``pfs run``: who was blocked by a lock, and files that are gone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pfs
from pfs._process.run import report_text as run_report
from pfs._process.run.launch import Took
from pfs._process.run.report import Report
from pfs._read import losses
from pfs._read.losses import loss_text
from tests.python.run.test_run import PFS, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

LOCKS = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER, often = PTHREAD_MUTEX_INITIALIZER, unused = PTHREAD_MUTEX_INITIALIZER;
static void* keep(void* mutex) {
  pthread_mutex_lock(mutex);
  usleep(150000);
  pthread_mutex_unlock(mutex);
  return NULL;
}
static void wait_for(pthread_mutex_t* mutex) {
  pthread_t thread;
  pthread_create(&thread, NULL, keep, mutex);
  usleep(50000);
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  pthread_join(thread, NULL);
}
int main(int count, char** arguments) {
  wait_for(&early);
  for (int i = 0; i < 50000; ++i) {
    pthread_mutex_lock(&early), pthread_mutex_unlock(&early);
    pthread_mutex_lock(&unused), pthread_mutex_unlock(&unused);
  }
  if (count > 1)
    for (int i = 0; i < 12000; ++i) fclose(fopen("/dev/null", "w"));
  wait_for(&often);
  wait_for(&often);
}
"""


@pytest.mark.parametrize("options", [(), ("--all-on",)])
@pytest.mark.parametrize("arguments", [(), ("many",)])
def test_blocked_are_all_that_had_to_wait_and_no_free_lock(
    tmp_path: Path, options: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    """The history has at most the last 10,000 events, and 100,000 or 12,000 events come after the first wait."""
    (tmp_path / "locks.c").write_text(LOCKS)
    subprocess.run(["cc", "-O1", "-g", "-o", tmp_path / "locks", tmp_path / "locks.c", "-lpthread"], check=True)
    rows = report_of(tmp_path, tmp_path / "locks", *arguments, options=options)["blocked"]
    found = {row["name"].rpartition("/")[2]: row for row in rows if row["longest"] > 30e9}
    assert set(found) == {"early", "often"}
    assert "unused" not in {row["name"].rpartition("/")[2] for row in rows if row["longest"] < 1e6}
    assert len([row for row in rows if row["name"].endswith("/often") and row["longest"] > 30e9]) == 1
    assert found["often"]["count"] == 2
    assert found["often"]["longest"] < found["often"]["time"] < 2 * found["often"]["longest"] + 1
    for row in found.values():
        assert "wait_for+0x" in row["source"]
        assert "locks.c:" in row["source"]


LOCKS_OF_ONE_LINE = """
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static pthread_mutex_t* made(void) {
  pthread_mutex_t* mutex = malloc(sizeof *mutex);
  pthread_mutex_init(mutex, NULL);
  return mutex;
}
static sem_t is_kept;
static int microseconds;
static void* keep(void* mutex) {
  pthread_mutex_lock(mutex);
  sem_post(&is_kept);
  usleep(microseconds);
  pthread_mutex_unlock(mutex);
  return NULL;
}
static pthread_t start(pthread_mutex_t* mutex, int for_microseconds) {
  pthread_t thread;
  microseconds = for_microseconds;
  pthread_create(&thread, NULL, keep, mutex);
  sem_wait(&is_kept);
  return thread;
}
int main(void) {
  sem_init(&is_kept, 0, 0);
  pthread_mutex_t *first = made(), *second = made();
  pthread_t thread = start(first, 400000);
  pthread_mutex_lock(first);  // the longest
  pthread_mutex_unlock(first);
  pthread_join(thread, NULL);
  thread = start(second, 100000);
  pthread_mutex_lock(second);
  pthread_mutex_unlock(second);
  pthread_join(thread, NULL);
  for (int i = 0; i < 20000; ++i) {
    pthread_mutex_lock(first), pthread_mutex_unlock(first);
    pthread_mutex_lock(second), pthread_mutex_unlock(second);
  }
}
"""


def test_the_longest_wait_of_each_lock_of_a_line_outlives_its_event(tmp_path: Path) -> None:
    """40,000 events come after both waits. The instrument keeps the line of its longest one."""
    (source := tmp_path / "locks.c").write_text(LOCKS_OF_ONE_LINE)
    subprocess.run(["cc", "-O1", "-g", "-o", tmp_path / "locks", source, "-lpthread"], check=True)
    report = report_of(tmp_path, tmp_path / "locks", options=("--all-on",))
    long = [row for row in report["blocked"] if row["longest"] > 20e9]
    line = next(number for number, text in enumerate(LOCKS_OF_ONE_LINE.splitlines(), 1) if "the longest" in text)
    assert [(row["name"][-3:], row["source"].partition(" ")[2]) for row in long] == [(" #1", f"(locks.c:{line})"), (" #2", "")]


POOL = """\
import queue, threading, time
from concurrent.futures import ThreadPoolExecutor
real = threading.Lock()
def hold():
    with real:
        time.sleep(0.1)
with ThreadPoolExecutor(2) as pool:
    for _ in range(3):
        time.sleep(0.06)
        pool.submit(int).result()
    keeper = threading.Thread(target=hold)
    keeper.start()
    time.sleep(0.02)
    with real:
        pass
    slow = threading.Thread(target=time.sleep, args=(0.1,))
    slow.start()
    slow.join()
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="waits of Python's own queues are conditions there")
def test_idle_workers_and_joins_are_not_blocked_by_a_lock(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    report = report_of(tmp_path, sys.executable, tmp_path / "pool.py")
    long = [(row["name"], row["source"]) for row in report["blocked"] if row["longest"] > 20e9]
    assert long == [("wait/synch/mutex/python/__main__:3", "pool.py:14")]
    classes = {row["class"]: row for row in report["classes"]}
    assert classes["ends of threads of Python (join)"]["longest"] > 50e9


WAITS = """\
import signal, time
from pfs._process.run import launch
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup leaves it ignored
with launch.folder_of_run(keep=False) as folder:
    print(folder, flush=True)
    for _ in range(600):  # as the report does, of a large program; Python sleeps on if a signal comes just before it begins
        time.sleep(0.1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_report_is_made_leaves_no_folder(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert folder.name.startswith("run-")
        assert folder.is_dir()
        child.send_signal(number)
        assert child.wait(60) == -number
    assert not folder.exists()


REPORTS = """\
import subprocess, sys, time
from pfs._process.run import launch
launch._REPEATED = float(sys.argv[1])
with launch.folder_of_run(keep=False):
    child = subprocess.Popen(["sleep", "60"])
    launch.wait_for(child)
    print("ended", flush=True)
    time.sleep(2)  # as the report does
    print("report", flush=True)
"""


@pytest.mark.parametrize(("seconds", "code", "said"), [(60, 0, "report\n"), (0, -signal.SIGTERM, "")])
def test_a_signal_that_comes_twice_ends_the_program_and_not_the_report(seconds: int, code: int, said: str) -> None:
    """As timeout(1) sends it. Later, of which 0 s is the control, it ends the report, too."""
    command = [sys.executable, "-c", REPORTS, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        caught = 0
        while not caught & 1 << signal.SIGUSR1 - 1:  # wait_for() passes it on
            status = Path(f"/proc/{child.pid}/status").read_text()
            caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        child.terminate()
        assert child.stdout.readline() == "ended\n"
        child.terminate()
        assert (child.stdout.read(), child.wait(60)) == (said, code)


CIRCLE = """
#include <pthread.h>
#include <unistd.h>
pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t both;
void* left(void* none) {
  pthread_mutex_lock(&first);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&second);
  return none;
}
void* right(void* none) {
  pthread_mutex_lock(&second);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&first);
  return none;
}
int main(void) {
  pthread_t threads[2];
  pthread_barrier_init(&both, NULL, 2);
  pthread_create(&threads[0], NULL, left, NULL);
  pthread_create(&threads[1], NULL, right, NULL);
  usleep(500000);
  _exit(0);
}
"""


def test_holders_are_named_as_threads_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle.c").write_text(CIRCLE)
    subprocess.run(["cc", "-g", "-o", "circle", "circle.c", "-lpthread"], check=True)
    rows = report_of(tmp_path, "./circle")["not_ended"]
    assert sorted((row["thread"].partition(" ")[0], row["holder"].partition(" ")[0]) for row in rows if row["holder"]) == [
        ("thread/circle/left", "thread/circle/right"),
        ("thread/circle/right", "thread/circle/left"),
    ]


FILES = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  char buffer[8] = "";
  for (int i = 0; i < 3; ++i) {
    char name[] = "goneXXXXXX";
    int fd = mkstemp(name);
    if (write(fd, "hello", 5) + pread(fd, buffer, 5, 0) != 10) return 1;
    close(fd);
    unlink(name);
  }
  for (int i = 0; i < 4; ++i)
    if (open("missing/file", O_RDONLY) >= 0) return 1;
  FILE* kept = fopen("kept", "w");
  fputs("text", kept);
  fclose(kept);
  int unnamed = open(".", O_TMPFILE | O_RDWR, 0600);
  return write(unnamed, "123", 3) == 3 ? 0 : 1;
}
"""


def test_files_that_are_gone_have_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files.c").write_text(FILES)
    subprocess.run(["cc", "-o", "files", "files.c"], check=True)
    report = report_of(tmp_path, "./files")
    files = {row["file"]: row for row in report["files"]}
    gone = files["(removed or not there) files/file"]
    assert (gone["reads"], gone["bytes_read"], gone["writes"], gone["bytes_written"]) == (3, 15, 3, 15)
    assert (files[f"{tmp_path}/(temporary)"]["writes"], files[f"{tmp_path}/kept"]["bytes_written"]) == (1, 4)
    assert str(tmp_path) not in files
    (of_class,) = [row for row in report["classes"] if row["class"] == "files"]
    assert sum(row["time"] for row in files.values()) == of_class["time"]


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("output", ["-", "report"])
def test_names_that_are_no_utf_8_are_in_the_report(tmp_path: Path, output: str, options: tuple[str, ...]) -> None:
    """Of the command, and of files."""
    file = os.fsencode(tmp_path) + b"/caf\xe9"
    Path(os.fsdecode(file)).touch()
    command: list[str | bytes] = [*PFS, "run", *options, "-o", output, "--", "cat", file]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    said = (done.stdout if output == "-" else (tmp_path / output).read_bytes()).decode()
    name = f"{tmp_path}/caf\\xe9"
    if options:
        report = json.loads(said)
        assert report["command"] == ["cat", name]
        assert name in [row["file"] for row in report["files"]]
    else:
        assert f"pfs run: cat {name}: 1 process" in said
        assert said.count("caf") == 2


def text_of(*command: str | Path, options: tuple[str, ...] = ()) -> str:
    return subprocess.run([*PFS, "run", *options, "--", *command], capture_output=True, text=True, timeout=120, check=True).stderr


DEADLOCK = """
import os, threading, time
a, b = threading.Lock(), threading.Lock()
def one():
    with a:
        time.sleep(0.1)
        with b: pass
def two():
    with b:
        time.sleep(0.1)
        with a: pass
threads = [threading.Thread(target=f, name=f.__name__, daemon=True) for f in (one, two)]
for thread in threads: thread.start()
for thread in threads: thread.join(0.6)
"""


def test_what_has_not_ended_stands_above_all_and_counts(tmp_path: Path) -> None:
    """Two threads that wait for each other until the program ends, with the lines of both; their waits are in the sums."""
    script = tmp_path / "hang.py"
    script.write_text(DEADLOCK)
    text = text_of(sys.executable, script)
    head = text[: text.index("\nLocks\n")]
    assert re.search(r"DEADLOCK: 2 threads wait for each other for 1(\.\d+)? s", head), text
    assert re.search(r"python/one +hang\.py:7 +python/two +hang\.py:11 +mutex/python/__main__:3", head)
    assert re.search(r"python/two +hang\.py:11 +python/one +hang\.py:7 +mutex/python/__main__:3", head)
    found = report_of(tmp_path, sys.executable, script)
    assert [(row["source"], row["deadlock"] is not None) for row in found["not_ended"]].count(("hang.py:7", True)) == 1
    mutexes = next(row for row in found["classes"] if row["class"] == "mutexes")
    assert mutexes["time"] >= 2 * 900_000_000_000


HANG = """
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void* other(void* none) {
  pthread_mutex_lock(&b);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&a);
  return none;
}
int main(void) {
  pthread_t thread;
  pthread_barrier_init(&both, 0, 2);
  pthread_create(&thread, 0, other, 0);
  pthread_mutex_lock(&a);
  pthread_barrier_wait(&both);
  write(1, "x", 1);
  pthread_mutex_lock(&b);
}
"""


def test_an_interrupt_from_the_terminal_ends_the_deadlock_and_the_report_has_it(tmp_path: Path) -> None:
    """Ctrl-C reaches `pfs run` and the program at once. C: a thread of Python would take the signal only when it runs again."""
    (tmp_path / "hang.c").write_text(HANG)
    subprocess.run(["cc", "-w", "-g", "-o", tmp_path / "hang", tmp_path / "hang.c", "-pthread"], check=True)
    report = tmp_path / "report"
    command: list[str | Path] = [*PFS, "run", "-o", report, "--", tmp_path / "hang"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    text = report.read_text()
    assert re.search(r"^DEADLOCK: 2 threads wait for each other for ", text, re.MULTILINE), text
    assert text.index("DEADLOCK: ") < text.index("Not ended when the program did") < text.index("\nWaited for\n")
    for line in (9, 19):
        assert f"hang.c:{line}" in text


def test_a_program_that_is_killed_while_it_waits_says_for_what(tmp_path: Path) -> None:
    """Nothing but the system tells when it ended; the wait lasted until then."""
    found = report_of(tmp_path, "sh", "-c", "sleep 60 & sleep 0.5; kill -9 $!; wait")
    (row,) = [row for row in found["not_ended"] if "/sleep-" in row["name"]]
    assert 300_000_000_000 < row["time"] <= found["took"]["wall"]


def test_what_python_reads_of_itself_is_one_row_and_free_locks_are_none(tmp_path: Path) -> None:
    script = tmp_path / "reads.py"
    script.write_text("import json, threading\nwith threading.Lock(): open(__file__).close()\n")
    text = text_of(sys.executable, script)
    assert re.search(r"\(Python and its packages: \d+ files\)", text)
    assert ".pyc" not in text
    assert str(script) in text
    assert " 0 ps " not in text.partition("Files")[0]
    assert re.search(r"No thread had to wait for a lock: [\d,]+ were taken\.", text)
    every = text_of(sys.executable, script, options=("--all", "--limit", "500"))
    assert ".pyc" in every
    assert "Python and its packages" not in every


def test_processor_time_that_there_was_none_of_is_not_shown() -> None:
    report = Report(took=Took(21_700_000_000, 6_000_000_000, 0))
    assert "Took 21.7 ms, 6 ms of processors (6 ms user)\n" in run_report.text_of(report, 10)


def test_the_report_has_the_addresses_of_sockets(tmp_path: Path) -> None:
    """A client's peer has the name of its service; what a server accepted counts by host: each has a port of its own."""
    program = tmp_path / "peers.py"
    program.write_text(
        "import os, socket, threading\n"
        "pid = os.getpid()\n"
        "server = socket.create_server((f'127.7.{pid >> 8 & 255}.{pid & 255}', 6379))\n"
        "def serve():\n"
        "    for _ in range(3):\n"
        "        with server.accept()[0] as one: one.sendall(one.recv(9))\n"
        "thread = threading.Thread(target=serve)\n"
        "thread.start()\n"
        "for _ in range(3):\n"
        "    with socket.create_connection(server.getsockname()) as client: client.sendall(b'x'), client.recv(9)\n"
        "thread.join()\n"
        "print(server.getsockname()[0])\n"
    )
    report = tmp_path / "report"
    host = run(*PFS, "run", "--json", "-o", report, "--", sys.executable, program, check=True).stdout.strip()
    rows = {(row["name"].rpartition("/")[2], row["address"]): row for row in json.loads(report.read_text())["peers"]}
    assert {kind: at for kind, at in rows if kind != "listen"} == {"tcp": f"redis {host}:6379", "accepted": "127.0.0.1"}
    assert rows["tcp", f"redis {host}:6379"]["count"] >= 9  # connect, send and receive
    run(*PFS, "run", "-o", report, "--", sys.executable, program, check=True)
    assert "\nAddresses of sockets\n" in report.read_text()


BECOMES = """
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void* waits(void* unused) { pthread_mutex_lock(&lock); return unused; }
int main(void) {
  pthread_t thread;
  pthread_mutex_lock(&lock);
  pthread_create(&thread, 0, waits, 0);
  usleep(200000);
  execlp("sleep", "sleep", "1", (char*)0);
}
"""


def test_a_wait_ends_when_the_process_becomes_another_program(tmp_path: Path) -> None:
    """The other program runs for a second, and the wait that had not ended was as long as its own program."""
    (tmp_path / "becomes.c").write_text(BECOMES)
    run("cc", "-o", tmp_path / "becomes", tmp_path / "becomes.c", "-pthread", check=True)
    report = report_of(tmp_path, tmp_path / "becomes")
    (lock,) = [row for row in report["locks"] if row["time"] > 0]
    assert 0.15e12 <= lock["time"] <= report["took"]["wall"] - 1e12


@pytest.mark.parametrize(("preset", "least"), [("production", 1900), ("sampling", 2000), ("none", 0)])
def test_waits_that_were_only_counted_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str, least: int) -> None:
    """Else the time of the few that have one is taken for that of all."""
    monkeypatch.setenv("PFS_OPTIONS", f"performance_schema_preset={preset}")
    code = "import os\nfile = os.open('/dev/null', os.O_WRONLY)\nfor _ in range(2000): os.pwrite(file, b'x', 0)"
    counted = report_of(tmp_path, sys.executable, "-S", "-c", code)["only_counted"]
    assert (counted >= least) if least else (counted == 0)
    text = text_of(sys.executable, "-S", "-c", code)
    assert bool(re.search(r"Of [\d,]+ waits [\d,]+ were only counted: the lists have the time of the others\n", text)) == (
        least > 0
    )


def test_the_report_says_in_words_what_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = [name for name in pfs.status if name.endswith("_lost")]
    assert len(variables) > 40
    without_words = [name for name in variables if loss_text(name, 2) == f"{name} 2"]
    assert without_words == []
    without_variable = {f"performance_schema_{lost}_lost" for lost in losses._WORDS} - {name.lower() for name in variables}
    assert without_variable == set()
    assert loss_text("Performance_schema_of_later_versions_lost", 2) == "Performance_schema_of_later_versions_lost 2"
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_max_file_handles=1")
    said = run(*PFS, "run", "--", "cat", os.devnull, check=True).stderr
    words = (
        r"open files whose descriptor is at least performance_schema_max_file_handles \(Performance_schema_file_handles_lost\)"
    )
    assert re.search(rf"^Not recorded: \d+ {words}$", said, re.MULTILINE), said
