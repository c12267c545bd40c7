"""The modules that each command of ``pfs`` imports. pandas takes five times as long as the rest of most commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python._programs.subject import Subject, subject

SHOW = """
import sys
sys.argv = ["pfs", *sys.argv[1:]]
from pfs._ui.cli.commands import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules), file=sys.stderr)
"""
LARGE = {"numpy", "pandas", "pyarrow", "duckdb", "sqlglot", "matplotlib"}
PYTHON = (sys.executable, "-c", "import threading; threading.Lock().acquire()")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with subject(tmp_path_factory.mktemp("imports")) as program:
        program.do("lock = pfs.Lock('app/LOCK'); lock.acquire()")
        yield program


def imported(program: Subject, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *arguments],
        env={**os.environ, "PFS_DIR": str(program.path.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = set(done.stderr.splitlines()[-1].split())
    assert "pfs._ui.cli.commands" in found
    return found


@pytest.mark.parametrize(
    "command",
    [
        "ps",
        "ps --json",
        "ps --tree",
        "show PID threads",
        "show PID threads --json",
        "show PID events_waits_current --csv --where EVENT_ID>0 --sort EVENT_ID",
        "show PID blocked",
        "show PID running --human",
        "top PID --batch --count 1",
        "set PID wait/io/% --enabled yes",
        "truncate PID file_summary_by_instance",
        "gc --dry-run",
        "report PID --format html",
        "ddl threads",
        "run -- true",
        "run -- PYTHON",
        "run --json -- PYTHON",
    ],
)
def test_no_large_module_for_a_small_table(program: Subject, command: str) -> None:
    words = (PYTHON if word == "PYTHON" else (word.replace("PID", str(program.pid)),) for word in command.split())
    assert not imported(program, *(word for some in words for word in some)) & LARGE


def test_a_collector_does_without_pandas(program: Subject, tmp_path: Path) -> None:
    """It is half of the memory of a collector. Functions of pyarrow for arrays of numpy import it, too."""
    for _ in range(2):  # the second cut reads the first one
        found = imported(program, "collect", "--once", "--to", str(tmp_path / "fleet"))
        assert {"numpy", "pyarrow"} <= found
        assert not found & {"pandas", "duckdb", "sqlglot", "matplotlib"}


def test_the_check_sees_a_large_module(program: Subject, tmp_path: Path) -> None:
    assert "pandas" in imported(program, "snapshot", str(program.pid), str(tmp_path / "a.zip"))
