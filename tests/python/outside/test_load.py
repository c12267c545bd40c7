"""A program under load, read and truncated all the time: nothing is lost, nothing is torn, memory stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import budgets
from tests.python._programs.fresh_process import ROOT, compile_library, environment
from tests.python._programs.load import TRUNCATED


def run(tmp_path: Path, truncated: str, seconds: float, seed: int, **more: str) -> subprocess.CompletedProcess[str]:
    work = tmp_path / "work"
    work.mkdir()
    program = [sys.executable, "-W", "error", "-m", "tests.python._programs.load"]
    return subprocess.run(
        [*program, compile_library("load.c"), str(work), str(seconds), truncated, str(seed)],
        env=environment(tmp_path, **more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 + 3 * seconds,
        check=False,
    )


@pytest.mark.alone
@pytest.mark.parametrize("truncated", sorted(TRUNCATED))
def test_nothing_is_lost_or_torn_under_load(truncated: str, tmp_path: Path) -> None:
    """F2-F6, F8, L9, L11: 8 threads with objects and threads that come and go, a reader of every table, a truncater."""
    seed = budgets.seed()
    done = run(tmp_path, truncated, budgets.LOAD_SECONDS, seed)
    assert done.returncode == 0, f"seed {seed}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    print(f"{truncated}: {done.stdout.strip()}")


def test_one_event_too_few_is_found(tmp_path: Path) -> None:
    """Negative control: the program counts one event more than pfs saw."""
    done = run(tmp_path, "thread", 0.5, 1, PFS_LOAD_CONTROL="1")
    assert done.returncode == 1
    assert "shown and counted by the program" in done.stderr
