"""``pfs run``: programs that let the system kill them for calls that they never make."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pfs._process.run import launch
from tests.python.run.test_run import PFS, ROOT, SOURCES, own_folder, pytestmark

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

NOTE = "nothing is recorded from then on"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in ("filtered", "many_calls"):
        subprocess.run(["cc", "-O1", "-w", "-o", folder / name, SOURCES / f"{name}.c", "-lpthread"], check=True)
    return folder


@pytest.mark.parametrize("first", [0, 10])
@pytest.mark.parametrize("allowed", ["few", "opens"])
@pytest.mark.parametrize("how", ["prctl", "seccomp", "raw", "errno", "arguments", "strict", "tsc"])
def test_a_program_in_a_sandbox_lives(tmp_path: Path, programs: Path, how: str, allowed: str, first: int) -> None:
    """It died at the first call of pfs that it does not make itself, or at the timer."""
    program = [str(programs / "filtered"), how, allowed, str(first)]
    plain = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    said = "first\ndone\n" if first else "done\n"
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, said, "")
    file = tmp_path / "report.json"
    command = [*PFS, "run", "--json", "-o", str(file), "--", *program]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert (seen.returncode, seen.stdout, seen.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    report = json.loads(file.read_text())
    # The other thread's wait may have needed a new place, and a cell, when pfs ended.
    assert all(lost <= (0 if how == "errno" else 1) for lost in report["lost"].values())
    assert any(NOTE in note for note in report["notes"]) == (how != "errno")
    (mutexes,) = [row["count"] for row in report["classes"] if row["class"] == "mutexes"] or [0]
    if how == "errno":
        assert mutexes >= 2 * first + 2000
    else:
        assert 2 * first <= mutexes < 2 * first + 10  # until the sandbox, with those of the other thread


def test_what_pfs_calls_is_what_it_asks_the_filter_about(tmp_path: Path, programs: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    listed = set(re.findall(r"\bSYS_(\w+)", (ROOT / "cpp/run/calls/sandbox.cpp").read_text()))
    assert {"rt_sigprocmask", "gettid", "ftruncate"} <= listed

    def called(environment: dict[str, str]) -> set[str]:
        trace = tmp_path / "trace"
        subprocess.run(["strace", "-f", "-qq", "-o", trace, programs / "many_calls"], env=environment, check=True)
        text = trace.read_text()
        return set(re.findall(r"^\d+ +(\w+)\(", text[text.index("getpriority(") :], re.MULTILINE))

    plain = called(dict(os.environ))
    for all_on in (False, True):
        own = called({**os.environ, **launch.environment(str(tmp_path), all_on=all_on)}) - plain
        assert len(own) > 10
        assert own - listed == set()
