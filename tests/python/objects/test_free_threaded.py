"""A Python without the GIL: threads that really run at once use one object, and each count is exact."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import pfs
from tests.python._programs import native

PROGRAM = Path(__file__).parent.parent / "_programs/free_threaded.py"
CASES = re.findall(r"^def (\w+)\(\) -> Case:", PROGRAM.read_text(), re.MULTILINE)
# The events of one class, by the beginning of its name.
TABLES = {
    "wait": "events_waits_summary_global_by_event_name",
    "idle": "events_waits_summary_global_by_event_name",
    "statement": "events_statements_summary_global_by_event_name",
    "stage": "events_stages_summary_global_by_event_name",
    "transaction": "events_transactions_summary_global_by_event_name",
}


@cache
def interpreter() -> str | None:
    """Returns a Python without the GIL that has this version of pfs: PFS_FREE_THREADED, or one in PATH."""
    for name in filter(None, [os.environ.get("PFS_FREE_THREADED"), "python3.15t", "python3.14t", "python3.13t"]):
        check = "import pfs, sys; from importlib.util import find_spec\n"
        check += "print(pfs.__version__, sys._is_gil_enabled(), all(map(find_spec, ['numpy', 'pandas'])))"
        words = [name, "-W", "error", "-c", check]
        if (
            shutil.which(name)
            and subprocess.run(words, capture_output=True, text=True).stdout == f"{pfs.__version__} False True\n"
        ):
            return name
    return None


@pytest.fixture(scope="module")
def child() -> Iterator[subprocess.Popen[str]]:
    """A process for all cases: to start such a Python takes long on a busy machine."""
    python = interpreter()
    if python is None:
        pytest.skip("no Python without the GIL has pfs, numpy and pandas: say which in PFS_FREE_THREADED")
    with subprocess.Popen([python, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize("case", CASES)
def test_threads_share_an_object(child: subprocess.Popen[str], case: str) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{case} {os.environ.get('PFS_STRESS_SECONDS', '2')}\n")
    child.stdin.flush()
    said = json.loads(child.stdout.readline())
    assert said["failures"] == []
    assert sum(said["done"].values()) > 0
    with pfs.attach(child.pid) as schema:
        for family, name in TABLES.items():
            wanted = {what: times for what, times in said["done"].items() if what.split("/")[0] == family}
            if wanted:
                counts: dict[str, int] = dict(schema.table(name)[["EVENT_NAME", "COUNT_STAR"]].itertuples(index=False))
                assert {what: counts.get(what) for what in wanted} == wanted


@pytest.mark.needs("clang", "trees")
def test_the_sanitizer_reports_nothing_of_pfs(root: Path) -> None:
    """Its negative control is by hand, because it compiles the module again (docs/contribute/platforms.md)."""
    python = os.environ.get("PFS_FREE_THREADED_TSAN")
    if not python:
        pytest.skip("no Python without the GIL has ThreadSanitizer: say which in PFS_FREE_THREADED_TSAN")
    program, build = root / "lab/free_threaded_stress.py", native.folder() / "free_threaded"
    words = ["--interpreter", python, "--build", str(build), "--seconds", "1"]
    cases = ["lock", "simple_queue", "one_statement", "elsewhere", "tables"]
    done = subprocess.run([sys.executable, program, *words, *cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
