"""``pfs run --only memory``: the program's allocator works as without, whichever it is; what it gives is counted by module."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, SOURCES, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

LIBRARIES = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="module")
def allocates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "allocates"
    subprocess.run(["c++", "-std=c++17", "-O1", "-o", path, SOURCES / "allocates.cpp", "-lpthread"], check=True)
    return path


@pytest.mark.parametrize("allocator", ["", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.[0-9]*"])
def test_each_allocation_is_counted_once(
    allocates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allocator: str
) -> None:
    """The program says how often it allocates, and how much, apart from its four threads' states, whose size it does not know."""
    if allocator:
        found = sorted(glob.glob(f"{LIBRARIES}/{allocator}"))
        if not found:
            pytest.skip(f"{allocator} is not installed")
        monkeypatch.setenv("LD_PRELOAD", found[-1])
    command = [allocates, "does not throw"] if "mimalloc" in allocator else [allocates]
    plain = run(*command, check=True).stdout
    report = report_of(tmp_path, *command, options=("--only", "memory"))
    count, size, kept = (int(number) for number in plain.split())
    found_row = next(row for row in report["memory"] if row["name"] == "memory/allocates/heap")
    assert found_row["count"] == count
    assert size < found_row["bytes"] <= size + 4 * 200
    assert found_row["in_use"] == kept
    assert kept < found_row["most_in_use"] < size
    for options in ((), ("--only", "memory,locks")):
        seen = run(*PFS, "run", "--no-report", *options, "--", *command)
        assert (seen.stdout, seen.stderr, seen.returncode) == (plain, "", 0), options


def test_programs_run_as_without(tmp_path: Path) -> None:
    """An interpreter loads C++ libraries while it runs: their operators are not the program's."""
    script = "import ctypes; ctypes.CDLL('libstdc++.so.6'); import json, re; print(len(json.dumps(list(range(10000)))))"
    for command in ([sys.executable, "-c", script], ["sh", "-c", "ls / | sort | tail -1; exit 3"]):
        plain = run(*command)
        seen = run(*PFS, "run", "--no-report", "--only", "memory", "--", *command)
        assert (seen.stdout, seen.stderr, seen.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_a_program_that_may_have_no_more_data_runs(tmp_path: Path) -> None:
    """Its first allocation comes after the limit: pages of pfs could not be made writable, and it died of SIGSEGV."""
    text = """
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void) {
  const struct rlimit limit = {1 << 16, 1 << 16};
  char text[99];
  if (setrlimit(RLIMIT_DATA, &limit) != 0) return 1;
  void* const block = malloc(64 << 20);
  const int why = errno, length = snprintf(text, sizeof text, "%d %d\\n", block == NULL, why == ENOMEM);
  free(block);
  return write(1, text, length) != length;
}
"""
    (tmp_path / "program.c").write_text(text)
    subprocess.run(["cc", "-fno-builtin", "-o", tmp_path / "program", tmp_path / "program.c"], check=True)
    for options in ((), ("--only", "memory"), ("--only", "memory,locks,files")):
        seen = run(*PFS, "run", "--no-report", *options, "--", tmp_path / "program")
        assert (seen.stdout, seen.stderr, seen.returncode) == ("1 1\n", "", 0), options


def test_memory_is_off_unless_it_is_asked_for() -> None:
    script = "print('run-memory' in open('/proc/self/maps').read())"
    for options, loaded in (((), "False\n"), (("--only", "memory"), "True\n")):
        assert run(*PFS, "run", "--no-report", *options, "--", sys.executable, "-c", script).stdout == loaded
    children = run(*PFS, "run", "--no-report", "--only", "memory", "--children", "none", "--", "sh", "-c", "env").stdout
    assert "LD_PRELOAD" not in children
    assert "LD_PRELOAD" not in os.environ
