"""The report names the place where a program waits as its source has it, whatever functions of libraries stand between."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._base import installed
from pfs._read.places.short_names import shortened

PROGRAMS = Path(__file__).resolve().parents[3] / "tests/programs/unchanged"
PFS = [sys.executable, "-m", "pfs"]

pytestmark = pytest.mark.skipif(
    not Path(installed.library_dir(), "libperfschema-run.so").exists(), reason="libperfschema-run.so is for x86-64"
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))


def line_of(source: Path, words: str) -> str:
    """Returns the line of a source whose comment has these words."""
    (number,) = [n for n, text in enumerate(source.read_text().splitlines(), 1) if text.endswith(f"// {words}")]
    return f"({source.name}:{number})"


def report_of(tmp_path: Path, *command: str | Path) -> dict[str, Any]:
    """Returns the report of a program that must end well."""
    report = tmp_path / "report"
    subprocess.run([*PFS, "run", "--limit", "1000", "--json", "-o", report, "--", *command], check=True, timeout=60)
    read: dict[str, Any] = json.loads(report.read_text())
    return read


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_locks_of_cpp_have_the_lines_of_the_program(level: str, tmp_path: Path) -> None:
    source, program = PROGRAMS / "wrapped_locks.cpp", tmp_path / "wrapped_locks"
    subprocess.run(["c++", "-std=c++20", level, "-g", "-o", program, source, "-pthread"], check=True)
    report = report_of(tmp_path, program)
    places = [(row["name"], row["source"]) for row in report["blocked"]]
    for lock in ("orders", "stock", "prices"):
        held, waits = line_of(source, f"held: {lock}"), line_of(source, f"waits: {lock}")
        assert any(held in name and waits in place for name, place in places), (lock, places)
    assert not any("gthr" in place or "std_mutex.h" in place or "shared_mutex" in place for row in places for place in row)
    assert any(row["name"].endswith("/(anonymous namespace)::is_ready") for row in [*report["conditions"], *report["idle"]])


ATOMIC = """
#include <atomic>
#include <chrono>
#include <latch>
#include <semaphore>
#include <thread>
static std::atomic<int> number = 0;
static std::atomic_flag flag;
static std::latch latch(1);
static std::binary_semaphore semaphore(0);
[[gnu::noinline]] static int wait_number() { return number.wait(0), 0; }
[[gnu::noinline]] static int wait_flag() { return flag.wait(false), 0; }
[[gnu::noinline]] static int wait_latch() { return latch.wait(), 0; }
[[gnu::noinline]] static int wait_semaphore() { return semaphore.acquire(), 0; }
int main() {
  int (*const waits[])() = {wait_number, wait_flag, wait_latch, wait_semaphore};
  for (int i = 0; i < 4; ++i) {
    std::thread later([i] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (i == 0) number = 1, number.notify_all();
      if (i == 1) flag.test_and_set(), flag.notify_all();
      if (i == 2) latch.count_down();
      if (i == 3) semaphore.release();
    });
    waits[i]();
    later.join();
  }
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_waits_for_atomics_of_cpp_have_the_lines_of_the_program(level: str, tmp_path: Path) -> None:
    source, program = tmp_path / "atomic.cpp", tmp_path / "atomic"
    source.write_text(ATOMIC)
    subprocess.run(["c++", "-std=c++20", level, "-g", "-o", program, source, "-pthread"], check=True)
    report = report_of(tmp_path, program)
    for line, what in enumerate(("number", "flag", "latch", "semaphore"), 11):
        waits = [row for row in (*report["conditions"], *report["idle"]) if f"wait_{what}" in row["name"]]
        assert sum(row["time"] for row in waits) >= 10_000_000_000, (what, report["conditions"])
        assert all(f"(atomic.cpp:{line})" in row["name"] for row in waits), waits


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.needs("libomp"))])
def test_a_team_of_openmp_waits_at_the_constructs_of_the_program(compiler: str, tmp_path: Path) -> None:
    source, program = PROGRAMS / "team.c", tmp_path / "team"
    subprocess.run([compiler, "-O1", "-g", "-fopenmp", "-o", program, source], check=True)
    report = report_of(tmp_path, program)
    waits = {row["name"].rpartition(" ")[2]: row for row in report["waits"] if "/openmp-" in row["name"]}
    for words, count in (("barrier", 3), ("critical", 2), ("named", 2), ("lock", 2)):
        row = waits[line_of(source, f"waits: {words}")]
        assert row["longest"] >= 10_000_000_000, (words, row)
        assert row["count"] == count or words != "barrier", (words, row)
    ends = [row for row in report["waits"] if "openmp-main+" in row["name"]]
    assert len(ends) == (2 if compiler == "gcc" else 0), ends
    assert {row["class"]: row["time"] for row in report["classes"]}["OpenMP"] >= sum(row["time"] for row in waits.values())


OF_OTHERS = """
import _thread, time
work, held, done = (_thread.allocate_lock(), _thread.allocate_lock(), _thread.allocate_lock())
def worker():
    for _ in range(5): work.acquire()
    with held: time.sleep(0.05)
    done.release()
work.acquire()
done.acquire()
_thread.start_new_thread(worker, ())
for _ in range(5):
    time.sleep(0.02)
    work.release()
time.sleep(0.02)
with held: pass
done.acquire()
"""


def test_a_lock_of_python_that_another_thread_releases_is_a_condition(tmp_path: Path) -> None:
    (tmp_path / "others.py").write_text(OF_OTHERS)
    report = report_of(tmp_path, sys.executable, tmp_path / "others.py")
    blocked = {row["source"]: row for row in report["blocked"]}
    assert blocked["others.py:15"]["longest"] >= 10_000_000_000  # the lock that is held
    assert blocked["others.py:5"]["count"] <= 2  # until a thread releases what another one has taken
    (wait,) = [row for row in report["conditions"] if row["name"] == "wait/synch/cond/python/__main__:3"]
    assert wait["count"] >= 3
    assert wait["time"] >= 40_000_000_000


LINES = """
import json, os, select, socket, sqlite3, subprocess, sys, time
def nap(): time.sleep(0.03)
nap()
sqlite3.connect(":memory:").execute("select 1").fetchall()
subprocess.run(["sleep", "0.03"])
select.select([socket.socketpair()[0]], [], [], 0.03)
def never(): raise AssertionError
try: sqlite3.connect(":memory:").execute("select wrong")
except sqlite3.OperationalError: pass
print(time.sleep.__name__, repr(time.sleep), sqlite3.Cursor.execute.__name__)
"""


def test_waits_and_statements_of_functions_of_c_have_the_line_of_python(tmp_path: Path) -> None:
    program = tmp_path / "calls.py"
    program.write_text(LINES)
    plain = subprocess.run([sys.executable, program], check=True, capture_output=True, text=True).stdout
    command: list[str | Path] = [*PFS, "run", "--keep", "--no-report", "--", sys.executable, program]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout == plain
    sources: dict[str, str] = {}
    for segment in (tmp_path / "segments").glob("*/*.pfs"):
        with pfs.attach(str(segment)) as schema:
            waits = schema.table("events_waits_history_long")
            sources |= dict(zip(waits["EVENT_NAME"], waits["SOURCE"], strict=True))
            statements = schema.table("events_statements_history_long")
            sources |= dict(zip(statements["SQL_TEXT"], statements["SOURCE"], strict=True))
    assert sources["wait/system/python/sleep-__main__:3"] == "calls.py:3"
    assert sources["wait/system/python/child-__main__:6"] == "calls.py:6"
    assert sources["idle"] == "calls.py:7"
    assert sources["select 1"] == "calls.py:5"
    assert sources["select wrong"] == "calls.py:9"


@pytest.mark.parametrize(("chosen", "has_lines"), [((), False), (("--python", "lines"), True)])
def test_the_preset_production_leaves_lines_out_unless_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...], has_lines: bool
) -> None:
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_preset=production")
    program = tmp_path / "calls.py"
    program.write_text(LINES)
    subprocess.run([*PFS, "run", "--keep", "--no-report", *chosen, "--", sys.executable, program], check=True, timeout=60)
    found = []
    for segment in (tmp_path / "segments").glob("*/*.pfs"):
        with pfs.attach(str(segment)) as schema:
            statements = schema.table("events_statements_history_long")
            found += list(statements["SOURCE"][statements["SQL_TEXT"] == "select 1"])
    assert [source == "calls.py:5" for source in found] == [has_lines]


# Each call that has a comment makes an event of this name or operation, at its line.
MORE_LINES = """
import fcntl, mmap, multiprocessing, os, select, signal, socket, ssl, threading, time
def lock(): os.lockf(file, os.F_LOCK, 1)  # lock
file = os.open("file", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
fcntl.flock(file, fcntl.LOCK_EX)  # lock
lock()
fcntl.lockf(file, fcntl.LOCK_EX)  # lock
select.poll().poll(30)  # idle
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
signal.pause()  # signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
signal.sigwait([signal.SIGALRM])  # signal
signal.sigwaitinfo([signal.SIGALRM])  # signal
signal.setitimer(signal.ITIMER_REAL, 0)
signal.sigtimedwait([signal.SIGUSR2], 0.03)  # signal
mmap.mmap(file, 4096).flush()  # msync
os.mkdir("folder")  # mkdir
os.rename("folder", "other")  # rename
os.rmdir("other")  # rmdir
os.unlink("file")  # delete
process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.2,))
process.start()
process.join(0.01)  # idle
process.join()  # child
sides = [ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER)]
sides[0].check_hostname, sides[0].verify_mode = False, ssl.CERT_NONE
for side in sides: side.maximum_version = ssl.TLSVersion.TLSv1_2; side.set_ciphers("aNULL:@SECLEVEL=0")
def serve():
    with sides[1].wrap_socket(pair[1], server_side=True) as there: there.write(there.read(10))  # recv
pair = socket.socketpair()
threading.Thread(target=serve).start()
here = sides[0].wrap_socket(pair[0])  # recv
here.write(b"hello")  # send
print(here.read(10))  # recv
"""


def test_waits_for_locks_signals_children_and_peers_have_the_line_of_python(tmp_path: Path) -> None:
    program = tmp_path / "more.py"
    program.write_text(MORE_LINES)
    command: list[str | Path] = [*PFS, "run", "--keep", "--no-report", "--", sys.executable, program]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert said.stdout == "b'hello'\n"
    found: set[tuple[str, str]] = set()
    for segment in (tmp_path / "segments").glob("*/*.pfs"):
        with pfs.attach(str(segment)) as schema:
            waits = schema.table("events_waits_history_long")
            for name, operation, source in zip(waits["EVENT_NAME"], waits["OPERATION"], waits["SOURCE"], strict=True):
                of_system = re.match(r"wait/system/python/(\w+)-__main__:", name)
                found.add((source, of_system[1] if of_system else operation))
    calls = [(number, line.partition("  # ")[2]) for number, line in enumerate(MORE_LINES.splitlines(), 1)]
    expected = {(f"more.py:{number}", name) for number, name in calls if name}
    assert expected <= found, expected - found
    assert len(expected) == 19


TEMPLATES = """
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
template <typename Value> struct Store {
  inline static std::mutex lock;
  __attribute__((noinline)) static void take(const Value*, int time) { lock.lock(); usleep(time); lock.unlock(); }
};
using Names = std::map<std::string, std::vector<std::map<std::string, std::string>>>;
using Whole = std::map<std::string, std::vector<Names>>;
int main() {
  std::thread holder(Store<Whole>::take, nullptr, 100000);
  usleep(20000);
  Store<Whole>::take(nullptr, 1);
  holder.join();
}
"""


def test_the_report_shortens_arguments_of_templates(tmp_path: Path) -> None:
    (tmp_path / "stores.cpp").write_text(TEMPLATES)
    program = tmp_path / "stores"
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-pthread", "-o", program, tmp_path / "stores.cpp"], check=True)
    ours = [row for row in report_of(tmp_path, program)["blocked"] if "Store<" in row["name"]]
    assert len(ours) == 1
    assert min(len(ours[0]["name"]), len(ours[0]["source"])) > 400  # whole
    text = subprocess.run([*PFS, "run", "--", program], check=True, capture_output=True, text=True).stderr
    assert re.search(
        r"mutex/stores/Store<std::map<std::string, ...> >::lock +Store<...>::take\(std::map<std::string, ...> const\*, int\)"
        r"\+0x[0-9a-f]+ \(stores.cpp:10\)\n",
        text,
    ), text
    assert max(map(len, text.splitlines())) <= 200


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Store<int, Hash<int, Less<int> > >::get(int)", None),
        ("/srv/" + "long/" * 30 + "a<b", None),
        ("libshop+0x1f", None),
        ("Store<std::pair<int, int>, Hash<std::vector<std::map<int, double> > > >::get(int) const+0x1f (a.cpp:3)",
         "Store<std::pair<int, ...>, Hash<...> >::get(int) const+0x1f (a.cpp:3)"),
    ],
)  # fmt: skip
def test_only_long_names_of_templates_are_shortened(name: str, expected: str | None) -> None:
    assert shortened(name) == (expected or name)


POOLS = """
import queue, threading, time
from concurrent.futures import ThreadPoolExecutor
lock, items = threading.Lock(), queue.Queue()
def hold():
    with lock: time.sleep(0.1)
def work():
    while items.get(): pass
pool = ThreadPoolExecutor(5)
for future in [pool.submit(time.sleep, 0.01) for _ in range(20)]: future.result()
workers = [threading.Thread(target=work) for _ in range(5)]
for each in workers: each.start()
holder = threading.Thread(target=hold)
holder.start()
time.sleep(0.03)
with lock: pass
time.sleep(0.3)
for _ in workers: items.put(0)
for each in workers: each.join()
pool.shutdown()
"""


def test_ten_idle_threads_do_not_hide_the_lock_that_hurts(tmp_path: Path) -> None:
    program = tmp_path / "pools.py"
    program.write_text(POOLS)
    report = report_of(tmp_path, sys.executable, program)
    lock = "wait/synch/mutex/python/__main__:4"
    assert [row["name"] for row in report["locks"] if row["time"] > 10_000_000_000] == [lock]
    assert (report["blocked"][0]["name"], report["blocked"][0]["source"]) == (lock, "pools.py:16")
    idle = {row["name"].rpartition("/")[2] for row in report["idle"]}
    assert idle >= {"__main__:8"}
    assert {name for name in idle if not name.startswith("concurrent.futures.")} <= {"__main__:8", "__main__:9"}
    assert len(idle) == 2
    assert sum(row["time"] for row in report["idle"]) >= 2_000_000_000_000
    # The first thread's wait for a result is none of an idle thread.
    assert not any("__main__:10" in row["name"] for row in report["idle"])
    text = subprocess.run([*PFS, "run", "--", sys.executable, program], check=True, capture_output=True, text=True).stderr
    assert text.index("\nLocks\n") < text.index("pools.py:16") < text.index("\nIdle threads\n")
    command: list[str | Path] = [*PFS, "run", "--all", "--", sys.executable, program]
    assert "\nIdle threads\n" not in subprocess.run(command, check=True, capture_output=True, text=True).stderr


HELPER = """
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER, orders_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs = PTHREAD_COND_INITIALIZER;
static int is_over;
static void* help(void* none) {
  pthread_mutex_lock(&jobs_lock);
  while (!is_over) pthread_cond_wait(&jobs, &jobs_lock);
  pthread_mutex_unlock(&jobs_lock);
  return none;
}
static sem_t is_held;
static void* hold(void* none) {
  pthread_mutex_lock(&orders_lock);
  sem_post(&is_held);
  usleep(200000);
  pthread_mutex_unlock(&orders_lock);
  return none;
}
int main(void) {
  pthread_t helper, holder;
  pthread_create(&helper, 0, help, 0);
  pthread_create(&holder, 0, hold, 0);
  sem_wait(&is_held);
  pthread_mutex_lock(&orders_lock);
  pthread_mutex_unlock(&orders_lock);
  pthread_join(holder, 0);
  pthread_mutex_lock(&jobs_lock);
  is_over = 1;
  pthread_cond_signal(&jobs);
  pthread_mutex_unlock(&jobs_lock);
  return pthread_join(helper, 0);
}
"""


def test_a_helper_of_a_library_without_work_is_an_idle_thread(tmp_path: Path) -> None:
    (tmp_path / "helper.c").write_text(HELPER)
    subprocess.run(["cc", "-g", "-o", tmp_path / "helper", tmp_path / "helper.c", "-pthread"], check=True)
    report = report_of(tmp_path, tmp_path / "helper")
    assert [row["name"] for row in report["idle"]] == ["wait/synch/cond/helper/jobs"]
    assert not any("jobs" in row["name"] for row in report["conditions"])
    assert report["blocked"][0]["name"] == "wait/synch/mutex/helper/orders_lock"
    text = subprocess.run([*PFS, "run", "--", tmp_path / "helper"], check=True, capture_output=True, text=True).stderr
    assert text.index("\nLocks\n") < text.index("orders_lock") < text.index("\nIdle threads\n") < text.index("cond/helper/jobs")


def test_a_line_of_names_says_whether_a_condition_is_idle(tmp_path: Path) -> None:
    (tmp_path / "helper.c").write_text(HELPER)
    subprocess.run(["cc", "-g", "-o", tmp_path / "helper", tmp_path / "helper.c", "-pthread"], check=True)
    (tmp_path / "names").write_text("helper/jobs -> (not idle)\n*is_held* -> (idle)\n*is_held* -> shop/SEM_held\n")
    command: list[str | Path] = [*PFS, "run", "--json", "-o", tmp_path / "report", "--names", tmp_path / "names"]
    subprocess.run([*command, "--", tmp_path / "helper"], check=True, timeout=60)
    report = json.loads((tmp_path / "report").read_text())
    assert [row["name"] for row in report["idle"]] == ["wait/synch/cond/shop/SEM_held"]
    assert [row["name"] for row in report["conditions"]] == ["wait/synch/cond/helper/jobs"]


LIBRARY_OF_LOCKS = """
#include <pthread.h>
#include <stdlib.h>
pthread_mutex_t* CRYPTO_THREAD_lock_new(void) {
  pthread_mutex_t* const lock = malloc(sizeof *lock);
  pthread_mutex_init(lock, 0);
  return lock;
}
int CRYPTO_THREAD_write_lock(pthread_mutex_t* lock) { return pthread_mutex_lock(lock) == 0; }
int CRYPTO_THREAD_unlock(pthread_mutex_t* lock) { return pthread_mutex_unlock(lock) == 0; }
void rb_native_mutex_initialize(pthread_mutex_t* lock) { pthread_mutex_init(lock, 0); }
void rb_native_mutex_lock(pthread_mutex_t* lock) { pthread_mutex_lock(lock); }
void rb_native_mutex_unlock(pthread_mutex_t* lock) { pthread_mutex_unlock(lock); }
// parking_lot, mangled as Rust's old and new compilers do
void _ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0123456789abcdefE(pthread_mutex_t* lock) { pthread_mutex_lock(lock); }
void _RNvMNtCs1234_11parking_lot9raw_mutexNtB2_8RawMutex9lock_slow(pthread_mutex_t* lock) { pthread_mutex_lock(lock); }
"""
USERS_OF_LOCKS = """
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>
pthread_mutex_t* CRYPTO_THREAD_lock_new(void);
int CRYPTO_THREAD_write_lock(pthread_mutex_t*), CRYPTO_THREAD_unlock(pthread_mutex_t*);
void rb_native_mutex_initialize(pthread_mutex_t*), rb_native_mutex_lock(pthread_mutex_t*);
void rb_native_mutex_unlock(pthread_mutex_t*);
void _ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0123456789abcdefE(pthread_mutex_t*);
void _RNvMNtCs1234_11parking_lot9raw_mutexNtB2_8RawMutex9lock_slow(pthread_mutex_t*);
static pthread_mutex_t parked = PTHREAD_MUTEX_INITIALIZER, parked_too = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_held;
static void* hold(void* lock) {
  pthread_mutex_lock(lock);
  sem_post(&is_held);
  usleep(200000);
  pthread_mutex_unlock(lock);
  return lock;
}
static pthread_t held(pthread_mutex_t* lock) {
  pthread_t thread;
  pthread_create(&thread, 0, hold, lock);
  sem_wait(&is_held);
  return thread;
}
#define WAIT(lock, call) do { const pthread_t by = held(lock); call; pthread_mutex_unlock(lock); pthread_join(by, 0); } while (0)
int main(void) {
  pthread_mutex_t *const first = CRYPTO_THREAD_lock_new(), *const second = CRYPTO_THREAD_lock_new();
  CRYPTO_THREAD_write_lock(first);  // taken: openssl 1
  CRYPTO_THREAD_unlock(first);
  CRYPTO_THREAD_write_lock(second);  // taken: openssl 2
  CRYPTO_THREAD_unlock(second);
  WAIT(first, CRYPTO_THREAD_write_lock(first));  // waits: openssl 1
  WAIT(second, CRYPTO_THREAD_write_lock(second));  // waits: openssl 2
  pthread_mutex_t* const vm = malloc(sizeof *vm), *const timer = malloc(sizeof *timer);
  rb_native_mutex_initialize(vm);
  rb_native_mutex_initialize(timer);
  rb_native_mutex_lock(vm);  // taken: ruby 1
  rb_native_mutex_unlock(vm);
  rb_native_mutex_lock(timer);  // taken: ruby 2
  rb_native_mutex_unlock(timer);
  WAIT(vm, rb_native_mutex_lock(vm));  // waits: ruby 1
  WAIT(timer, rb_native_mutex_lock(timer));  // waits: ruby 2
  WAIT(&parked, _ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0123456789abcdefE(&parked));  // waits: parking_lot 1
  WAIT(&parked_too, _RNvMNtCs1234_11parking_lot9raw_mutexNtB2_8RawMutex9lock_slow(&parked_too));  // waits: parking_lot 2
  return 0;
}
"""


def test_locks_behind_functions_of_libraries_have_the_lines_of_their_callers(tmp_path: Path) -> None:
    """OpenSSL's, Ruby's and parking_lot's functions lock for their callers: each of two callers has a row of its own."""
    source = tmp_path / "users.c"
    source.write_text(USERS_OF_LOCKS)
    (tmp_path / "locks.c").write_text(LIBRARY_OF_LOCKS)
    subprocess.run(["cc", "-g", "-fPIC", "-shared", "-o", tmp_path / "liblocks.so", tmp_path / "locks.c", "-pthread"], check=True)
    command = ["cc", "-w", "-g", "-o", f"{tmp_path}/users", str(source), f"{tmp_path}/liblocks.so"]
    command += [f"-Wl,-rpath,{tmp_path}", "-pthread"]
    subprocess.run(command, check=True)
    report = report_of(tmp_path, tmp_path / "users")
    rows = [(row["name"], row["source"]) for row in report["blocked"]]
    assert not any("liblocks" in text or "locks.c" in text for row in rows for text in row), rows
    for which in ("openssl", "ruby", "parking_lot"):
        for number in (1, 2):
            found = [name for name, place in rows if line_of(source, f"waits: {which} {number}") in place]
            assert len(found) == 1, (which, number, rows)
            if which != "parking_lot":
                assert line_of(source, f"taken: {which} {number}") in found[0]


# A program, how it is built and run, and the place where it waits.
C = """
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER;
static void* hold(void* lock) { pthread_mutex_lock(lock); usleep(100000); pthread_mutex_unlock(lock); return lock; }
__attribute__((noinline)) static void need_orders(void) { pthread_mutex_lock(&orders_lock); pthread_mutex_unlock(&orders_lock); }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, hold, &orders_lock);
  usleep(20000);
  need_orders();
  return pthread_join(thread, 0);
}
"""
CPP = """
#include <chrono>
#include <mutex>
#include <thread>
static std::mutex orders_lock;
static void hold() { std::lock_guard<std::mutex> held(orders_lock); std::this_thread::sleep_for(std::chrono::milliseconds(100)); }
__attribute__((noinline)) static void need_orders() { std::lock_guard<std::mutex> held(orders_lock); }
int main() {
  std::thread holder(hold);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  need_orders();
  holder.join();
}
"""
OPENMP = """
#include <omp.h>
#include <unistd.h>
int main(void) {
#pragma omp parallel num_threads(2)
  {
    usleep(100000 * omp_get_thread_num());
#pragma omp barrier
  }
  return 0;
}
"""
CELERY = """
import time
from celery import Celery
from celery.contrib.testing.worker import start_worker
app = Celery("program", broker="memory://", backend="cache+memory://")
@app.task
def ship(): time.sleep(0.3)
if __name__ == "__main__":
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="ERROR"):
        for result in [ship.delay() for _ in range(3)]: result.get(timeout=30)
"""
RUST = """
use std::{sync::{Arc, Mutex}, thread, time::Duration};
#[inline(never)]
fn hold(orders: &Mutex<i32>) { let mut guard = orders.lock().unwrap(); *guard += 1; thread::sleep(Duration::from_millis(100)); }
#[inline(never)]
fn need_orders(orders: &Mutex<i32>) { *orders.lock().unwrap() += 1; }
fn main() {
    let orders = Arc::new(Mutex::new(0));
    let other = orders.clone();
    let holder = thread::spawn(move || hold(&other));
    thread::sleep(Duration::from_millis(20));
    need_orders(&orders);
    holder.join().unwrap();
}
"""
ASYNC = """
import asyncio, time
async def blocks(): time.sleep(0.1)
async def main(): await asyncio.gather(blocks(), asyncio.sleep(0.05))
asyncio.run(main())
"""
DJANGO = """
import time
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
import django
from django.http import HttpResponse
from django.urls import path
django.setup()
def orders(request):
    time.sleep(0.1)
    return HttpResponse("ok")
urlpatterns = [path("orders", orders)]
from django.test import Client
assert Client().get("/orders").status_code == 200
"""
POOL = """
import multiprocessing, time
def work(n): time.sleep(0.05)
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool: pool.map(work, range(4))
"""
PHP = """<?php
$pair = [];
socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
if (pcntl_fork() == 0) { usleep(100000); socket_write($pair[1], "x"); exit(0); }
echo socket_read($pair[0], 1);
"""
CHILD = """
import subprocess
subprocess.run(["sleep", "0.1"])
"""
PYTHON = (sys.executable, "program.py")
NEEDS = {
    "Celery": ("celery",),
    "Django": ("django",),
    "PHP": ("php",),
    "Rust": ("rust",),
    "Rust -O": ("rust",),
}
ANSWERS = {
    "C": (
        "program.c",
        C,
        ("cc", "-O1", "-g", "program.c", "-o", "program", "-pthread"),
        ("./program",),
        r"need_orders.*program\.c:6",
    ),
    "C++ -O0": (
        "program.cpp",
        CPP,
        ("c++", "-std=c++20", "-O0", "-g", "program.cpp", "-o", "program", "-pthread"),
        ("./program",),
        r"need_orders.*program\.cpp:7",
    ),
    "C++ -O2": (
        "program.cpp",
        CPP,
        ("c++", "-std=c++20", "-O2", "-g", "program.cpp", "-o", "program", "-pthread"),
        ("./program",),
        r"need_orders.*program\.cpp:7",
    ),
    "OpenMP": (
        "program.c",
        OPENMP,
        ("cc", "-O1", "-g", "-fopenmp", "program.c", "-o", "program"),
        ("./program",),
        r"openmp.*program\.c:8",
    ),
    "Rust": ("program.rs", RUST, ("rustc", "-g", "program.rs"), ("./program",), r"need_orders.*program\.rs:6"),
    "Rust -O": ("program.rs", RUST, ("rustc", "-g", "-O", "program.rs"), ("./program",), r"need_orders.*program\.rs:6"),
    "threads": ("program.py", POOLS, (), PYTHON, r"program\.py:16"),
    "asyncio": ("program.py", ASYNC, (), PYTHON, r"program\.py:3"),
    "Django": ("program.py", DJANGO, (), PYTHON, r"program\.py:10"),
    "Celery": ("program.py", CELERY, (), PYTHON, r"program\.py:7"),
    "multiprocessing": ("program.py", POOL, (), PYTHON, r"sleep.*program\.py:3"),
    "child": ("program.py", CHILD, (), PYTHON, r"program\.py:3"),
    "pipeline": (
        "program.sh",
        "cat /dev/zero | head -c 300000000 | sort | tail -c 1",
        (),
        ("sh", "program.sh"),
        r"pipe from head to sort",
    ),
    "PHP": ("program.php", PHP, (), ("php", "program.php"), r"sockets/unix"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.needs(*NEEDS.get(name, ()))]) for name in ANSWERS])
def test_the_first_lines_of_the_report_have_the_place(name: str, tmp_path: Path) -> None:
    file, text, build, command, place = ANSWERS[name]
    (tmp_path / file).write_text(text)
    if build:
        subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([*PFS, "run", "--", *command], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
    report = done.stderr.lstrip().splitlines()
    assert any(re.search(place, line) for line in report[:20]), "\n".join(report)


ONE_LINE = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t* made(void) {
  pthread_mutex_t* lock = malloc(sizeof *lock);
  pthread_mutex_init(lock, 0);
  return lock;
}
static void* hold(void* lock) { pthread_mutex_lock(lock); usleep(60000); pthread_mutex_unlock(lock); return lock; }
int main(void) {
  pthread_mutex_t* locks[3] = {made(), made(), made()};
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    pthread_create(&thread, 0, hold, locks[i]);
    usleep(i == 0 ? 20000 : 40000);
    pthread_mutex_lock(locks[i]);
    pthread_mutex_unlock(locks[i]);
    pthread_join(thread, 0);
  }
  for (int i = 0; i < 5; ++i) pthread_mutex_lock(locks[2]), pthread_mutex_unlock(locks[2]);
  return 0;
}
"""


def test_two_locks_of_one_line_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "one_line.c").write_text(ONE_LINE)
    subprocess.run(["cc", "-O0", "-g", "-o", tmp_path / "one_line", tmp_path / "one_line.c", "-pthread"], check=True)
    report = report_of(tmp_path, tmp_path / "one_line")
    made = {row["name"].partition("(one_line.c:7)")[2]: row for row in report["locks"] if "made" in row["name"]}
    assert {number: row["count"] for number, row in made.items()} == {" #1": 2, " #2": 2, "": 5}
    assert made[" #1"]["time"] > made[" #2"]["time"] > made[""]["time"] == 0
    assert {row["name"].partition("(one_line.c:7)")[2] for row in report["blocked"]} == {" #1", " #2"}
