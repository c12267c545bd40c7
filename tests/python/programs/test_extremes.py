"""Programs in places where programs seldom are: they print and return the same as without pfs, and what they did is counted."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import budgets
from tests.conftest import Build
from tests.python.programs.test_programs import count, environment, segments_in, status_of, values

CROWD = "5000"
FORKS = str(budgets.FORKS_OF_A_THREAD)
LOCK = "wait/synch/mutex/extremes/LOCK"
ROOT_ONLY = pytest.mark.needs("root")


def result(program: Path, *arguments: str, folder: Path, before: Sequence[str] = (), **env: str) -> tuple[int, str]:
    """Exit code and output. Its segment stays, in `folder`."""
    done = subprocess.run(
        [*before, program, *arguments], cwd=folder, env=environment(folder, PFS_KEEP="1", **env),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def segment_in(folder: Path) -> Path:
    (name,) = segments_in(folder)
    return folder / name


@pytest.mark.parametrize(
    "way",
    [
        ["small_stacks"],
        ["forks", FORKS],
        ["deep", "12"],
        ["descriptors"],
        ["last_descriptor"],
        pytest.param(["chroot", "."], marks=ROOT_ONLY),
    ],
    ids=lambda way: way[0],
)
def test_the_program_does_not_notice(build: Build, tmp_path: Path, way: list[str]) -> None:
    code, said = result(build("extremes", disabled=True), *way, folder=tmp_path)
    assert result(build("extremes"), *way, folder=tmp_path) == (code, said)
    assert (code, "wrong" in said) == (5 if way[0] == "deep" else 0, False)


@ROOT_ONLY
def test_a_child_that_locks_its_memory_begins_with_empty_tables(build: Build, tmp_path: Path) -> None:
    """The system does not take locked pages away: the child read its parent's queues and cells, and died."""
    plain = result(build("extremes", disabled=True), "locks_memory", folder=tmp_path)
    assert plain[0] == 0
    assert result(build("extremes"), "locks_memory", folder=tmp_path) == plain
    counts = sorted(count(tmp_path / name, "wait/synch/rwlock/extremes/tree") for name in segments_in(tmp_path))
    assert counts == [202, 4002, 4204]  # the child in the middle is also a parent


def test_more_threads_than_there_is_room_for(build: Build, tmp_path: Path) -> None:
    """All at once, with stacks as small as they may be: two locks of each are counted, or the thread is counted as lost."""
    assert result(build("extremes"), "crowd", CROWD, folder=tmp_path) == (0, f"done {CROWD}\n")
    segment = segment_in(tmp_path)
    lost = int(status_of(segment)["Performance_schema_thread_instances_lost"] or 0)
    assert lost == max(int(CROWD) - 4096, 0)
    # A thread that has had no room for its first lock may have had some for its second.
    assert 2 * (int(CROWD) - lost) <= count(segment, LOCK) <= 2 * int(CROWD) - lost


def test_twenty_thousand_threads_in_turn(build: Build, tmp_path: Path) -> None:
    assert result(build("extremes"), "turn", "20000", folder=tmp_path) == (0, "done 20000\n")
    segment = segment_in(tmp_path)
    assert count(segment, LOCK) == 20000
    assert {name: value for name, value in status_of(segment).items() if name.endswith("_lost") and value != "0"} == {}
    assert segment.stat().st_blocks * 512 < 2 << 20


def test_a_daemon_that_closes_all_descriptors_is_recorded(build: Build, tmp_path: Path) -> None:
    """Its children have segments of their own; nothing of pfs was among the descriptors."""
    said = {}
    for disabled in (True, False):
        file = tmp_path / f"said-{disabled}"
        code, before = result(build("extremes", disabled), "daemon", str(file), folder=tmp_path)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and "end" not in (file.read_text() if file.exists() else ""):
            time.sleep(0.01)
        said[disabled] = (code, before, file.read_text())
    assert said[True] == said[False]
    assert values(said[False][2])["end"] == "1"
    while len(segments_in(tmp_path)) < 3:  # of the first, of the daemon, of its child; the one between them had no event
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert sorted(count(tmp_path / name, LOCK) for name in segments_in(tmp_path))[-1] >= 100


@pytest.mark.parametrize("way", ["return", "exit", "quick_exit", "thread_exit", "main_ends_first"])
def test_what_runs_before_and_after_main_is_as_without_pfs(build: Build, tmp_path: Path, way: str) -> None:
    """Static objects, thread_local ones, atexit, beside six threads that nobody joins: some times, as threads differ."""
    plain = result(build("at_exit", disabled=True), way, folder=tmp_path)
    for _ in range(budgets.ENDS_OF_PROGRAMS):
        assert result(build("at_exit"), way, folder=tmp_path) == plain


# ---- Namespaces, file systems ------------------------------------------------------------------------------------------------

NAMESPACES = {
    "user": ["unshare", "--user"],
    "user, as root": ["unshare", "--user", "--map-root-user"],
    "pid": ["unshare", "--pid", "--fork"],
    "pid, with its own /proc": ["unshare", "--pid", "--fork", "--mount-proc"],
    "net": ["unshare", "--net"],
    "ipc and host": ["unshare", "--ipc", "--uts"],
    "without /proc": ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"'],
    "without /sys": ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys && exec "$0" "$@"'],
    "without /dev/shm": ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$0" "$@"'],
    "read-only": [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec "$0" "$@"',
    ],
}


@ROOT_ONLY
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_a_namespace_of_its_own_changes_nothing(build: Build, tmp_path: Path, namespace: str) -> None:
    """Forks, and events of all kinds."""
    before = NAMESPACES[namespace]
    if subprocess.run([*before, "true"], cwd=tmp_path, capture_output=True, check=False).returncode != 0:
        pytest.skip("this kernel does not allow it")
    for program, way in (("extremes", ["deep", "2"]), ("children", ["3", "work"])):
        plain = result(build(program, disabled=True), *way, folder=tmp_path, before=before)
        assert result(build(program), *way, folder=tmp_path, before=before) == plain


@ROOT_ONLY
@pytest.mark.parametrize("inodes", [1, 2, 3, 4])
def test_a_file_system_with_few_files_is_enough(build: Build, tmp_path: Path, inodes: int) -> None:
    """One for its root, and each process wants one: the others keep their segments in private memory."""
    mount = tmp_path / "small"
    mount.mkdir()
    script = f'mount -t tmpfs -o mode=0700,nr_inodes={inodes} none {mount} && "$0" "$@"; code=$?; '
    script += f"cp {mount}/*.pfs {tmp_path} 2>/dev/null; exit $code"
    before = ["unshare", "--mount", "sh", "-c", script]
    assert result(build("children"), "5", "work", folder=tmp_path, before=before, PFS_DIR=str(mount)) == (
        0,
        "5 children, 0 bad\n",
    )
    found = [count(tmp_path / name, "wait/synch/mutex/children/LOCK") for name in segments_in(tmp_path)]
    assert len(found) == inodes - 1
    assert all(n >= 3 for n in found)


# ---- Sanitizers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sanitizer", ["address", "thread", "undefined"])
def test_a_program_built_with_a_sanitizer_uses_the_installed_library(build: Build, tmp_path: Path, sanitizer: str) -> None:
    """Threads, files, objects that come and go: no report, the same output, exact counts."""
    program = build("busy", flags=(f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"))
    work = tmp_path / "work"
    work.mkdir()
    plain = result(build("busy", disabled=True), str(work), folder=tmp_path)
    assert result(program, str(work), folder=tmp_path) == plain
    assert count(segment_in(tmp_path), "wait/synch/mutex/busy/LOCK") == 3 * 3000 * 8


def test_thread_sanitizer_sees_no_race_in_what_threads_find_of_each_other(build: Build, tmp_path: Path) -> None:
    """Places, names of files and digests are compared without a lock, and texts of statements take the place of others.

    It knows memcpy() and memcmp() of this library, but not the atomic words beside them: it reported five races.
    """
    program = build("found", flags=("-fsanitize=thread", "-fno-sanitize-recover=all"))
    assert result(program, folder=tmp_path) == (0, "0\n")
    assert count(segment_in(tmp_path), "wait/io/file/found/file") == 8
