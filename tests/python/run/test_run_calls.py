"""``pfs run`` replaces many functions of the C library: each does what it did, and counts where it should."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

import pfs
from pfs._read.places.readable import Readable
from tests.python.run.test_run import PFS, SOURCES, kept, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too


def compiled(tmp_path: Path, name: str, *options: str) -> Path:
    subprocess.run(["cc", "-g", *options, "-o", tmp_path / name, SOURCES / f"{name}.c", "-lpthread"], check=True)
    return tmp_path / name


@pytest.mark.parametrize("level", ["-O0", "-O2 -D_FORTIFY_SOURCE=2"])
def test_each_call_on_files_counts_once(tmp_path: Path, level: str) -> None:
    """The program says what it did with each file. With other options of the compiler it calls other functions of glibc."""
    program = compiled(tmp_path, "file_calls", *level.split())
    for folder in ("plain", "seen"):
        (tmp_path / folder).mkdir()
    plain = subprocess.run([program, tmp_path / "plain"], capture_output=True, text=True, check=True).stdout
    output, segment = kept(tmp_path, program, tmp_path / "seen")
    assert output == plain
    expected = {name: [int(n) for n in numbers] for name, *numbers in (line.split() for line in plain.splitlines())}
    columns = ["COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE", "COUNT_MISC"]
    with pfs.attach(str(segment)) as schema:
        files = schema.table("file_summary_by_instance").set_index("FILE_NAME")[columns]
        status = schema.table("global_status").set_index("VARIABLE_NAME")["VARIABLE_VALUE"]
    found = {Path(name).name: [int(n) for n in numbers] for name, *numbers in files.itertuples()}
    assert {name: found.get(name) for name in expected} == expected
    assert found["memfd:memory (deleted)"][2:4] == [1, 4]
    assert found["seen"][4] == 4  # the folder: open and close, opendir and closedir
    lost = {name: value for name, value in status.items() if str(name).endswith("_lost") and str(value) != "0"}
    assert lost == {}


@pytest.mark.parametrize("rows", [None, 10_000])
def test_each_failed_open_in_the_history_has_its_name(tmp_path: Path, rows: int | None) -> None:
    """Also in a child of fork(), and once both are killed."""
    environment = os.environ | (
        {} if rows is None else {"PFS_OPTIONS": f"performance_schema_events_waits_history_long_size={rows}"}
    )
    command = [*PFS, "run", "--keep", "--no-report", "--", str(compiled(tmp_path, "missing_names"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        segments = {int(segment.stem): segment for segment in (tmp_path / "segments").glob("*/*.pfs")}
        (parent,) = segments.keys() - {child}
        for pid in (child, parent):
            os.kill(pid, signal.SIGKILL)
    for pid, who in ((parent, "parent"), (child, "child")):
        with pfs.attach(str(segments[pid])) as schema:
            names = schema.table("events_waits_history_long", where="OPERATION = 'open'", order="EVENT_ID")["OBJECT_NAME"]
        assert len(names) >= (900 if rows is None else 5000)
        assert names.fillna("none").to_list() == [f"/nowhere/{who}/settings-{i:04}.conf" for i in range(5000 - len(names), 5000)]


def test_a_name_that_becomes_a_file_counts_for_the_file_from_then_on(tmp_path: Path) -> None:
    """Again and again the program asks for a file that is not there. Then it makes the file, removes it, and makes it again."""
    source = tmp_path / "asks.c"
    source.write_text("""
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/stat.h>
        #include <unistd.h>
        static void ask(const char* path, int times, int expected) {
          struct stat info;
          for (int i = 0; i < times; ++i) {
            errno = 0;
            stat(path, &info);
            if (errno != expected) printf("%d, not %d\\n", errno, expected);
            if (expected != 0 && open(path, O_RDONLY) >= 0) puts("opened");
          }
        }
        int main(int argc, char** argv) {
          ask(argv[1], 20, ENOENT);
          close(creat(argv[1], 0600));
          ask(argv[1], 3, 0);
          unlink(argv[1]);
          ask(argv[1], 20, ENOENT);
          close(creat(argv[1], 0600));
          ask(argv[1], 3, 0);
          return argc - 2;
        }
    """)
    subprocess.run(["cc", "-o", tmp_path / "asks", source], check=True)
    path = str(tmp_path / "journal.db-journal")
    output, segment = kept(tmp_path, tmp_path / "asks", path)
    assert output == ""
    with pfs.attach(str(segment)) as schema:
        files = schema.table("file_summary_by_instance")
        (event, count), *others = files.loc[files["FILE_NAME"] == path, ["EVENT_NAME", "COUNT_MISC"]].to_numpy().tolist()
        assert (count, others) == (2 + 3, []), "the second file: creat, close, stat"
        waits = schema.table("events_waits_summary_global_by_event_name")
        assert waits.loc[waits["EVENT_NAME"] == event, "COUNT_STAR"].tolist() == [2 * (20 + 20 + 2 + 3) + 1]
        history = schema.table("events_waits_history_long")
        history = history[history["EVENT_NAME"] == event]
        assert set(history["OBJECT_NAME"]) == {path}
        operations = history["OPERATION"].value_counts().to_dict()
        assert operations == {"stat": 46, "open": 40, "close": 2, "create": 2, "delete": 1}


def test_threads_of_c11_semaphores_with_names_and_futexes(tmp_path: Path) -> None:
    output, segment = kept(tmp_path, compiled(tmp_path, "c11_threads", "-O1"))
    assert output == "done\n"
    with pfs.attach(str(segment)) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name")
        waits = waits[(waits["COUNT_STAR"] > 0) & waits["EVENT_NAME"].str.startswith("wait/synch/")]
        readable = Readable(schema._source)
        counts: dict[str, int] = {}
        for name, count in zip(waits["EVENT_NAME"], waits["COUNT_STAR"], strict=True):
            key = readable.name(name).removeprefix("wait/synch/").replace("c11_threads/", "").partition("+")[0]
            counts[key] = counts.get(key, 0) + int(count)
        threads = schema.table("events_waits_summary_by_thread_by_event_name")
        assert threads["THREAD_ID"].nunique() >= 1
    assert 0 < counts.pop("cond/turned") <= 150 * 3
    assert counts.pop("cond/once-once") == 2, "two threads wait for the third one's initialization"
    assert counts.pop("cond/once-other_once") >= 1
    assert counts == {"mutex/lock": 150 + 3, "cond/sem-main": 3, "cond/futex-main": 6}


def test_names_of_threads(tmp_path: Path) -> None:
    """prctl() and pthread_setname_np() name threads. Others have the name of their start routine."""
    source = tmp_path / "named.c"
    source.write_text(
        """
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static int use(void) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); return 0; }
        void* by_prctl(void* unused) { prctl(PR_SET_NAME, "name-that-is-cut-there"); use(); pause(); return unused; }
        void* by_pthread(void* unused) { pthread_setname_np(pthread_self(), "second"); use(); pause(); return unused; }
        void* routine(void* unused) { use(); pause(); return unused; }
        int main(void) {
          pthread_t thread;
          pthread_create(&thread, NULL, by_prctl, NULL);
          pthread_create(&thread, NULL, by_pthread, NULL);
          pthread_create(&thread, NULL, routine, NULL);
          usleep(300000);
          use();
          _exit(0);  // without removal: the threads are in the tables
        }"""
    )
    subprocess.run(["cc", "-O1", "-o", tmp_path / "named", source, "-lpthread"], check=True)
    _, segment = kept(tmp_path, tmp_path / "named")
    with pfs.attach(str(segment)) as schema:
        readable = Readable(schema._source)
        names = {readable.name(name) for name in schema.table("threads")["NAME"]}
    assert {"thread/named/name-that-is-cu", "thread/named/second"} <= {name.replace("foreground/", "") for name in names}
    assert any("routine" in name for name in names), names


def test_names_of_cpp_are_demangled_and_the_same_in_each_run(tmp_path: Path) -> None:
    """Threads of std::thread have the class of their state, locks their symbol or the function that takes them first."""
    source = tmp_path / "names.cpp"
    source.write_text(
        """
        #include <mutex>
        #include <string>
        #include <thread>
        #include <unistd.h>
        namespace shop {
        std::mutex orders;
        struct Node { std::mutex own; __attribute__((noinline)) void use(int) { std::lock_guard guard{own}; } };
        }
        void order() { std::lock_guard guard{shop::orders}; }
        void work(shop::Node* node, double) { order(); node->use(1); pause(); }
        struct Job { void operator()() { order(); pause(); } };
        int main() {
          auto* node = new shop::Node;
          std::thread(work, node, 1.5).detach();
          std::thread(Job()).detach();
          std::thread([] { order(); pause(); }).detach();
          usleep(300000);
          _exit(0);
        }"""
    )
    subprocess.run(["c++", "-std=c++17", "-O1", "-g", "-o", tmp_path / "names", source, "-lpthread"], check=True)
    seen: list[set[str]] = []
    readable_names: set[str] = set()
    for _ in range(2):
        _, segment = kept(tmp_path, tmp_path / "names")
        with pfs.attach(str(segment)) as schema:
            waits = schema.table("events_waits_summary_global_by_event_name")
            names = {str(name) for name in waits[waits["COUNT_STAR"] > 0]["EVENT_NAME"]}
            names |= {str(name) for name in schema.table("threads")["NAME"]}
            readable = Readable(schema._source)
            readable_names = {readable.name(name) for name in names}
        seen.append(names)
        segment.unlink()
    assert seen[0] == seen[1], "the addresses differ (ASLR), the names do not"
    assert "wait/synch/mutex/names/shop::orders" in readable_names
    assert any("shop::Node::use(int)" in name for name in readable_names), readable_names
    expected = [
        "std::thread(void (*)(shop::Node*, double), shop::Node*, double)",
        "std::thread(Job)",
        "std::thread(main::{lambda()#1})",
    ]
    assert {f"thread/names/{name}" for name in expected} <= readable_names


@pytest.mark.parametrize("options", [(), ("--all-on",)])
def test_events_of_a_signal_handler_inside_a_blocking_call_are_recorded(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The real call is never made while pfs is busy in the thread: a handler that comes in it makes events of its own."""
    command = [compiled(tmp_path, "handled", "-O1"), tmp_path / "written"]
    runs = int(run(*command, check=True).stdout)
    assert runs == 12
    report = report_of(tmp_path, *command, options=options)
    assert {row["name"]: row["count"] for row in report["locks"]}["wait/synch/mutex/handled/of_handler"] == runs
    assert [row["writes"] for row in report["files"] if row["file"] == str(tmp_path / "written")] == [runs]


NAMED = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char** arguments) {
  struct stat info;
  char* const name = malloc(32);
  strcpy(name, "data");
  close(open(name, O_RDWR | O_CREAT, 0600));
  if (stat(name, &info) != 0) return 1;
  if (count > 1) return open((const char*)strtoul(arguments[1], NULL, 16), O_RDONLY) != -1 || errno != EFAULT ? 2 : 0;
  return 0;
}
"""


@pytest.mark.needs("valgrind")
def test_valgrind_finds_nothing_in_a_program_that_it_finds_nothing_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the memory around a name, some has not been set: pfs looks whether it can be read, and memcheck would report that. An
    address that cannot be read is the program's error, with valgrind as without."""
    (source := tmp_path / "named.c").write_text(NAMED)
    subprocess.run(["cc", "-g", "-o", tmp_path / "named", source], check=True)
    check = ("valgrind", "-q", "--error-exitcode=9", tmp_path / "named")
    monkeypatch.chdir(tmp_path)
    run(*check, check=True)
    report = report_of(tmp_path, *check, options=("--force",))
    assert str(tmp_path / "data") in {row["file"] for row in report["files"]}
    for before in ((), ("valgrind", "-q")):
        report_of(tmp_path, *before, tmp_path / "named", "8", options=("--force",))
