"""The line of a fault is on the first screen of ``pfs run``, whatever the program is written in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, own_folder, pytestmark

__all__ = ["own_folder", "pytestmark"]

PROGRAMS = Path(__file__).parents[2] / "programs"
SCREEN = 24
BUILT = {
    ".c": ["cc", "-O1", "-g", "-fopenmp", "-pthread"],
    ".cpp": ["c++", "-O1", "-g"],
    ".rs": ["rustc", "-O", "-g"],
}
INTERPRETERS = {".py": sys.executable, ".php": "php", ".sh": "sh"}
# The program, what it needs, and the file of the fault.
STRANGERS = [
    ("faults/semaphore.c", "", "semaphore.c"),
    ("strangers/lines.cpp", "", "lines.cpp"),
    ("strangers/records.rs", "rust", "records.rs"),
    ("strangers/locked.rs", "rust", "locked.rs"),
    ("strangers/futures.cpp", "", "futures.cpp"),
    ("strangers/rows.rs", "rust", "rows.rs"),
    ("strangers/threads.rs", "rust", "threads.rs"),
    ("faults/thread_each_message.py", "", "thread_each_message.py"),
    ("strangers/aio.py", "", "aio.py"),
    ("strangers/asked.py", "", "asked.py"),
    ("strangers/shop.py", "django", "shop.py"),
    ("strangers/orders.py", "django", "orders.py"),
    ("strangers/worker.py", "celery", "worker.py"),
    ("strangers/pipeline.sh", "", "source.py"),
    ("faults/critical.c", "", "critical.c"),
    ("strangers/orders.php", "php", "orders.php"),
]


def command_of(source: Path, folder: Path) -> list[str | Path]:
    if source.suffix in INTERPRETERS:
        return [INTERPRETERS[source.suffix], source]
    program = folder / source.stem
    subprocess.run([*BUILT[source.suffix], "-o", program, source], check=True)
    return [program]


def first_screen(command: list[str | Path], folder: Path) -> list[str]:
    report = folder / "report"
    work = folder / "work"
    work.mkdir()
    environment = os.environ | {"PYTHON": sys.executable}
    run = [*PFS, "run", "-o", report, "--", *command]
    subprocess.run(run, cwd=work, env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return report.read_text().splitlines()[:SCREEN]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, id=Path(name).name, marks=[pytest.mark.needs(need)] * (need != ""))
        for name, need, fault in STRANGERS
    ],
)
def test_the_line_of_the_fault_is_on_the_first_screen(name: str, fault: str, tmp_path: Path) -> None:
    source = PROGRAMS / name
    text = (source.parent / fault).read_text().splitlines()
    line = next(number for number, code in enumerate(text, 1) if code.endswith(" FAULT"))
    screen = "\n".join(first_screen(command_of(source, tmp_path), tmp_path))
    assert "Fix first" in screen
    assert f"{fault}:{line}" in screen
