"""Calls of the system that are refused to pfs, one at a time and all from there on: the program ends as without pfs."""

from __future__ import annotations

import errno
import fcntl
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pfs._process.processes import removed, scan
from tests import budgets
from tests.conftest import PROGRAMS, Build
from tests.lifecycle.lifecycle import unreadable
from tests.python.programs.test_programs import environment, run, segments_in


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("refusals") / "refuses.so"
    source = PROGRAMS / "preloaded" / "refuses.c"  # no program
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("call", ["fork-mmap", "mremap"])
def test_a_fork_that_is_refused_memory_has_a_child_all_the_same(build: Build, tmp_path: Path, refusals: Path, call: str) -> None:
    """Each call of fork()'s handlers refused, one at a time and all from there on: the child goes on, recorded or not."""
    for first in (*range(1, 16), 20, 30, 45, 60):
        for count in (1, 0):
            env = {"LD_PRELOAD": str(refusals), "REFUSE_CALL": call, "REFUSE_FIRST": str(first), "REFUSE_COUNT": str(count)}
            for way in ("work", "exit"):
                assert run(build("children"), "2", way, cwd=tmp_path, env=env) == "2 children, 0 bad\n", (first, count, way)


# Call and error. Each is refused one time, and from there on.
OTHERS = [
    *(("ftruncate", errno.ENOSPC), ("posix_fallocate", errno.ENOSPC), ("open", errno.EMFILE), ("openat", errno.EMFILE)),
    *(
        ("mkdir", errno.EACCES),
        ("fchmod", errno.EPERM),
        ("munmap", errno.ENOMEM),
        ("madvise", errno.ENOMEM),
        ("madvise", errno.EINVAL),
    ),
    ("membarrier", errno.EPERM),
    *(("pthread_key_create", errno.EAGAIN), ("pthread_setspecific", errno.ENOMEM)),
]


@pytest.mark.parametrize(("call", "error"), OTHERS, ids=[f"{call}-{errno.errorcode[number]}" for call, number in OTHERS])
def test_a_call_of_pfs_that_is_refused_does_not_show(build: Build, tmp_path: Path, refusals: Path, call: str, error: int) -> None:
    """Whatever the system refuses to pfs, the program and its children end as without it."""
    env = {"LD_PRELOAD": str(refusals), "REFUSE_CALL": call, "REFUSE_ERRNO": str(error)}
    for first in (1, 2, 3, 5, 8, 13) if budgets.REFUSALS_STEP > 1 else range(1, 40):
        for count in (1, 0):
            folder = tmp_path / f"new-{first}-{count}"
            more = {**env, "REFUSE_FIRST": str(first), "REFUSE_COUNT": str(count)}
            assert run(build("children"), "2", "work", cwd=tmp_path, segments=folder, env=more) == "2 children, 0 bad\n", (
                first,
                count,
            )


USES_ALL = """
    import pfs, os
    statement, stage = pfs.statement("a/statement", text="select 1"), pfs.stage("a/x")
    with pfs.Lock("a/LOCK"), pfs.open("/dev/null", name="a/file") as file, statement, stage:
        pfs.set_account("user", "host")
        file.read()
    pfs._core.rows("events_waits_summary_global_by_event_name", ["EVENT_NAME", "COUNT_STAR"], None)
    print("done")
"""


def test_a_python_program_without_memory_for_pfs_ends_or_says_so(tmp_path: Path, refusals: Path) -> None:
    """malloc refused below Python, one time and from there on: all works, or an error of Python says that there is no memory."""
    dice = random.Random(1)
    steps = range(1, 200) if budgets.REFUSALS_STEP == 1 else sorted(dice.sample(range(1, 200), 6))
    ends = set()
    for first in steps:
        for count in ("1", "0"):
            env = {"LD_PRELOAD": str(refusals), "REFUSE_CALL": "malloc", "REFUSE_FIRST": str(first), "REFUSE_COUNT": count}
            done = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(USES_ALL)],
                env=environment(tmp_path, **env), capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            last = done.stderr.strip().rpartition("\n")[2]
            is_said = done.returncode == 1 and last.startswith(("MemoryError", "ImportError", "pfs.errors"))
            assert is_said or (done.returncode, done.stdout) == (0, "done\n"), (first, count, done)
            ends.add(last.partition(":")[0])
    print(ends)


@pytest.mark.parametrize("call", ["mmap", "malloc"])
def test_a_program_without_memory_for_pfs_goes_on(build: Build, tmp_path: Path, refusals: Path, call: str) -> None:
    """Each call refused, one at a time and all from there on: the program and its children end as without pfs. None hangs."""
    for first in (*range(1, 12), *range(12, 90, budgets.REFUSALS_STEP)):
        for count in (1, 0):
            env = {"LD_PRELOAD": str(refusals), "REFUSE_CALL": call, "REFUSE_FIRST": str(first), "REFUSE_COUNT": str(count)}
            assert run(build("children"), "2", "work", cwd=tmp_path, env=env) == "2 children, 0 bad\n", (first, count)


def test_refusals_are_refused(build: Build, tmp_path: Path, refusals: Path) -> None:
    """Negative control: with every mmap refused pfs is off, and there is no file; with none there is one."""
    env = {"LD_PRELOAD": str(refusals), "REFUSE_CALL": "mmap", "REFUSE_FIRST": "1", "REFUSE_COUNT": "0"}
    run(build("children"), "1", "work", cwd=tmp_path, env=env)
    assert segments_in(tmp_path) == []
    run(build("children"), "1", "work", cwd=tmp_path, env={**env, "REFUSE_FIRST": "100000"})
    assert len(segments_in(tmp_path)) == 1


# ---- Killed at start ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", ["mmap", "ftruncate", "fchmod", "posix_fallocate", "madvise", "open", "openat", "pthread_key_create"]
)
def test_what_a_process_leaves_that_is_killed_at_its_start_is_collected(
    build: Build, tmp_path: Path, refusals: Path, call: str
) -> None:
    """kill -9 at each call of the start, and at the first event of a child: the next process removes the file, and so does gc."""
    env = {"LD_PRELOAD": str(refusals), "REFUSE_CALL": call, "REFUSE_ERRNO": "0", "PFS_KEEP": "1"}
    folder, seen = tmp_path / "segments", 0
    for first in (1, 2, 3, 4, 6, 10, 20, 40) if budgets.REFUSALS_STEP > 1 else range(1, 100):
        subprocess.run(
            [build("children"), "1", "work"], cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=60, check=False,
            env=environment(folder, **env, REFUSE_FIRST=str(first), REFUSE_COUNT="1"),
        )  # fmt: skip
        left = segments_in(folder)
        for found in scan(str(folder)):  # the others: all that is in them is their own process's
            assert unreadable(Path(found.path)) is None, (first, found)
        seen += len(left)
        if first % 2 == 0:
            begun = sum((folder / name).stat().st_blocks != 0 for name in left)
            assert len(removed(folder)) == begun, (first, left)
        run(
            build("children"),
            "0",
            "work",
            cwd=tmp_path,
            segments=folder,
            env={"PFS_OPTIONS": "performance_schema_max_dead_segments=0"},
        )
        assert segments_in(folder) == [], first
    assert seen > 0


def test_an_empty_file_of_another_process_stays_while_it_is_locked(build: Build, tmp_path: Path) -> None:
    """It may be that of a process of another container, which begins. One that nobody has locked is of the dead."""
    with (tmp_path / "999999998.pfs").open("wb") as begun:
        fcntl.lockf(begun, fcntl.LOCK_EX)
        (tmp_path / "999999999.pfs").touch()
        run(build("children"), "0", "work", cwd=tmp_path, env={"PFS_OPTIONS": "performance_schema_max_dead_segments=0"})
    assert segments_in(tmp_path) == ["999999998.pfs"]


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("lost", [0, 1, 2, 9])
def test_a_process_whose_file_is_removed_as_one_of_the_dead_makes_another(
    build: Build, tmp_path: Path, lost: int, when: str
) -> None:
    """9: it does not try for ever. The program goes on, and nobody sees its segment."""
    library = tmp_path / "loses_file.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, PROGRAMS / "preloaded" / "loses_file.c"], check=True)
    env = {"LD_PRELOAD": str(library), "LOSE_COUNT": str(lost), "LOSE_WHEN": when, "PFS_KEEP": "1"}
    assert run(build("children"), "0", "work", cwd=tmp_path, env=env) == "0 children, 0 bad\n"
    assert len(segments_in(tmp_path)) == (lost != 9)
