"""Locks of programs that nobody changed: each has its own name and numbers as long as it lives, and none is lost in silence."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._process.run import launch
from tests.python.programs.test_programs import tmpfs
from tests.python.run.test_run import PFS, SOURCES, kept, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark", "tmpfs"]  # fixtures and marks of others hold here, too


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the test programs, compiled without any part of pfs."""
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["c++", "-O1", "-g", "-pthread", "-o", folder / "lock_lives", SOURCES / "lock_lives.cpp"], check=True)
    subprocess.run(["cc", "-O1", "-g", "-o", folder / "lock_kinds", SOURCES / "lock_kinds.c"], check=True)
    return folder


def locks_by_function(report: dict[str, Any]) -> dict[str, int]:
    """Returns how often locks were taken, by the function that took them first."""
    counts: dict[str, int] = {}
    for row in report["locks"]:
        function = next(name for name in ("first", "second") if f"::{name}(" in row["name"])
        counts[function] = counts.get(function, 0) + row["count"]
    return counts


@pytest.mark.parametrize("options", [(), ("--all-on",)])
def test_a_lock_at_an_old_address_is_another_lock(programs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """std::mutex is neither initialized nor destroyed by a call."""
    report = report_of(tmp_path, programs / "lock_lives", "stack", "1000", options=options)
    assert sorted(row["count"] for row in report["locks"]) == [1000, 2000]


@pytest.mark.parametrize("options", [(), ("--all-on",)])
def test_threads_that_take_a_new_lock_at_once_agree(programs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """One of them gives the lock its instance, and ends that of the lock that was there before: no operation is lost, and no
    instance stays. Every other lock is made and destroyed by calls."""
    rounds = 3001
    _, segment = kept(tmp_path, programs / "lock_lives", "together", str(rounds), options=options)
    with pfs.attach(str(segment)) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
        mutexes = schema.table("mutex_instances")
        status = schema.table("global_status").set_index("VARIABLE_NAME")["VARIABLE_VALUE"]
    assert waits[waits.index.str.startswith("wait/synch/mutex/lock_lives/")].sum() == 4 * 8 * rounds
    mutexes = mutexes[mutexes["NAME"].str.startswith("wait/synch/mutex/lock_lives/")]
    assert mutexes["OBJECT_INSTANCE_BEGIN"].is_unique
    assert len(mutexes) == 8
    assert mutexes["LOCKED_BY_THREAD_ID"].isna().all()
    assert status["Performance_schema_mutex_instances_lost"] == "0"


def test_conditions_at_an_old_address(programs: Path, tmp_path: Path) -> None:
    """Whether a condition is made by a call or not, and whether the one before it was destroyed or not: each wait is recorded."""
    _, segment = kept(tmp_path, programs / "lock_lives", "conditions", "3000")
    with pfs.attach(str(segment)) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
        conditions = schema.table("cond_instances")
    assert waits[waits.index.str.startswith("wait/synch/cond/lock_lives/")].sum() == 3000
    assert conditions["NAME"].str.startswith("wait/synch/cond/lock_lives/").sum() <= 1


def test_many_short_lived_locks_have_their_names(programs: Path, tmp_path: Path) -> None:
    report = report_of(tmp_path, programs / "lock_lives", "heap", "100000")
    assert locks_by_function(report) == {"first": 100_000, "second": 200_000}


def test_many_short_lived_locks_need_no_more_memory_than_few(programs: Path) -> None:
    kibibytes = [
        int(run(*PFS, "run", "--no-report", "--", programs / "lock_lives", "heap", count, check=True).stdout)
        for count in ("3000", "100000")
    ]
    assert kibibytes[1] - kibibytes[0] < 512


def test_all_live_locks_are_shown(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take more than a segment may by default."""
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_max_segment_megabytes=0")
    report = report_of(tmp_path, programs / "lock_lives", "live", "200000")
    assert locks_by_function(report) == {"first": 200_000}


def test_locks_beyond_the_limit_are_counted(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_max_mutex_instances=1000")
    lost = {"Performance_schema_mutex_instances_lost": 4000}
    report = report_of(tmp_path, programs / "lock_lives", "live", "5000", lost=lost)
    assert locks_by_function(report) == {"first": 1000}


def test_a_copy_of_a_lock_is_another_lock(programs: Path, tmp_path: Path) -> None:
    report = report_of(tmp_path, programs / "lock_lives", "copy", "100")
    assert locks_by_function(report) == {"first": 2, "second": 199}


def test_locks_in_shared_memory_that_do_not_say_so(programs: Path, tmp_path: Path) -> None:
    """Each process finds what the other one has left in the lock, and goes on with its own."""
    report = report_of(tmp_path, programs / "lock_lives", "shared", "50")
    assert len(report["processes"]) == 2
    assert sum(locks_by_function(report).values()) == 101


@pytest.mark.parametrize("options", [(), ("--all-on",), ("--only", "files")])
def test_each_kind_of_lock(programs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """The program checks each result against POSIX."""
    report = report_of(tmp_path, programs / "lock_kinds", options=options)
    rows = [*report["locks"], *report["conditions"], *report["idle"]]
    counts = {row["name"].removeprefix("wait/synch/").replace("lock_kinds/", ""): row["count"] for row in rows}
    if "--only" in options:
        assert counts == {}
        return
    conditions = {name: counts.pop(name) for name in list(counts) if name.startswith("cond/")}
    assert sorted(conditions.values()) == [1, 3], "two lives at one address, in two functions"
    assert counts == {
        "mutex/normal": 10,
        "mutex/recursive": 10,
        "mutex/checking": 13,  # one wait failed at once (EDEADLK), and one attempt
        "mutex/adaptive": 10,
        "mutex/inheriting": 10,
        "rwlock/table": 80,
    }


@pytest.mark.parametrize("all_on", [False, True])
def test_a_segment_without_room_for_a_class_harms_no_lock(
    programs: Path, tmp_path: Path, tmpfs: Callable[..., Any], all_on: bool
) -> None:
    """Its header fits: a lock that is not recorded was looked up in a page that the full file system did not have (SIGBUS)."""
    plain = run(programs / "lock_kinds")
    assert plain.returncode == 0
    variables = launch.environment(str(tmp_path / "small"), all_on=all_on)
    given = ["env", *(f"{name}={value}" for name, value in variables.items())]
    for pages in range(1, 13):
        done = tmpfs(pages * 4096, *given, str(programs / "lock_kinds"))
        assert (done.returncode, done.stdout) == (0, plain.stdout), (pages, done.stderr)


LOCKS_MEMORY = """
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static void* work(void* unused) {
  for (int i = 0; i < 50; ++i) {
    if (pthread_mutex_lock(&mutex) | pthread_mutex_unlock(&mutex)) _exit(3);
    if (pthread_rwlock_rdlock(&table) | pthread_rwlock_unlock(&table)) _exit(4);
    fclose(fopen("/dev/null", "w"));
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  int status;
  work(NULL);
  const pid_t child = fork();
  if (child == 0) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) _exit(2);
    work(NULL);
    _exit(pthread_create(&thread, NULL, work, NULL) | pthread_join(thread, NULL));
  }
  waitpid(child, &status, 0);
  printf("%d\\n", status);
}
"""


@pytest.mark.needs("root")  # to lock so much memory
def test_a_child_that_locks_its_memory_lives_without_a_segment(tmp_path: Path) -> None:
    """In private memory, too: the system does not take locked pages of its parent's tables away."""
    (tmp_path / "program.c").write_text(LOCKS_MEMORY)
    subprocess.run(["cc", "-o", tmp_path / "program", tmp_path / "program.c", "-lpthread"], check=True)
    for folder in ("/nowhere/none", str(tmp_path)):
        variables = launch.environment(folder)
        done = run("env", *(f"{name}={value}" for name, value in variables.items()), tmp_path / "program")
        assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", ""), folder
