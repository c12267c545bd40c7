"""The report names the place where a program waits as its source has it, whatever functions of libraries stand between."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pfs._base import installed

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
    subprocess.run([*PFS, "run", "--json", "-o", report, "--", *command], check=True, timeout=60)
    return json.loads(report.read_text())


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_locks_of_cpp_have_the_lines_of_the_program(level: str, tmp_path: Path) -> None:
    source, program = PROGRAMS / "wrapped_locks.cpp", tmp_path / "wrapped_locks"
    subprocess.run(["c++", "-std=c++20", level, "-g", "-o", program, source, "-pthread"], check=True)
    report = report_of(tmp_path, program)
    places = [(row["name"], row["source"]) for row in report["blocked"]]
    for lock in ("orders", "stock"):
        held, waits = line_of(source, f"held: {lock}"), line_of(source, f"waits: {lock}")
        assert any(held in name and waits in place for name, place in places), (lock, places)
    assert not any("gthr" in place or "std_mutex.h" in place for row in places for place in row)
    assert any(row["name"].endswith("/(anonymous namespace)::is_ready") for row in report["locks"])
