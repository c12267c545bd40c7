"""Locks of programs that nobody changed: each one has its own name and numbers for as long as it lives, and none is lost in silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pfs

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests/programs/unchanged"
PFS = [sys.executable, "-m", "pfs"]

pytestmark = pytest.mark.skipif(
    not Path(pfs.get_library_dir(), "libperfschema-run.so").exists(), reason="libperfschema-run.so is for x86-64"
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the test programs, compiled without any part of pfs."""
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["c++", "-O1", "-g", "-o", folder / "lock_lives", SOURCES / "lock_lives.cpp"], check=True)
    subprocess.run(["cc", "-O1", "-g", "-o", folder / "lock_kinds", SOURCES / "lock_kinds.c"], check=True)
    return folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments go to a folder of the test."""
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))


def report_of(tmp_path: Path, *command: str | Path, options: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """Runs a program under pfs. Returns the report and the program's output."""
    file = tmp_path / "report.json"
    plain = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    seen = subprocess.run([*PFS, "run", "--json", *options, "-o", file, "--", *command], capture_output=True, text=True, timeout=240)
    assert (seen.returncode, seen.stderr) == (0, plain.stderr)
    report: dict[str, Any] = json.loads(file.read_text())
    return report, seen.stdout


def locks_by_function(report: dict[str, Any]) -> dict[str, int]:
    """Returns how often locks were taken, by the function that took them first: (anonymous namespace)::first(Node&)+0x1f (a.cpp:3)."""
    counts: dict[str, int] = {}
    for row in report["locks"]:
        function = row["name"].rpartition("/")[2] if "::" not in row["name"] else row["name"].rpartition("::")[2]
        name = function.partition("(")[0].partition("+")[0]
        if "first(" in row["name"]:
            name = "first"
        elif "second(" in row["name"]:
            name = "second"
        counts[name] = counts.get(name, 0) + row["count"]
    return counts


@pytest.mark.parametrize("options", [(), ("--all-on",)])
def test_a_lock_at_an_old_address_is_another_lock(programs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """std::mutex is neither initialized nor destroyed by a call."""
    report, _ = report_of(tmp_path, programs / "lock_lives", "stack", "1000", options=options)
    assert sorted(row["count"] for row in report["locks"]) == [1000, 2000]
    assert report["lost"] == {}


def test_many_short_lived_locks_have_their_names_and_bounded_memory(programs: Path, tmp_path: Path) -> None:
    memory = {}
    for count in (3000, 100_000):
        report, output = report_of(tmp_path, programs / "lock_lives", "heap", str(count))
        assert locks_by_function(report) == {"first": count, "second": 2 * count}
        assert report["lost"] == {}
        memory[count] = int(output)
    assert memory[100_000] - memory[3000] < 512, "KiB"


def test_all_live_locks_are_shown(programs: Path, tmp_path: Path) -> None:
    report, _ = report_of(tmp_path, programs / "lock_lives", "live", "200000")
    assert locks_by_function(report) == {"first": 200_000}
    assert report["lost"] == {}


def test_locks_beyond_the_limit_are_counted(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_max_mutex_instances=1000")
    report, _ = report_of(tmp_path, programs / "lock_lives", "live", "5000")
    assert locks_by_function(report) == {"first": 1000}
    assert report["lost"] == {"Performance_schema_mutex_instances_lost": 4000}


def test_a_copy_of_a_lock_is_another_lock(programs: Path, tmp_path: Path) -> None:
    report, _ = report_of(tmp_path, programs / "lock_lives", "copy", "100")
    assert locks_by_function(report) == {"first": 2, "second": 199}


def test_locks_in_shared_memory_that_do_not_say_so(programs: Path, tmp_path: Path) -> None:
    """Each process finds what the other one has left in the lock, and goes on with its own."""
    report, _ = report_of(tmp_path, programs / "lock_lives", "shared", "50")
    assert len(report["processes"]) == 2
    assert sum(locks_by_function(report).values()) == 101


@pytest.mark.parametrize("options", [(), ("--all-on",), ("--only", "files")])
def test_each_kind_of_lock(programs: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    report, output = report_of(tmp_path, programs / "lock_kinds", options=options)
    assert output == "as POSIX says\n"
    counts = {row["name"].removeprefix("wait/synch/").replace("lock_kinds/", ""): row["count"] for row in report["locks"]}
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
