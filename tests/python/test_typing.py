"""mypy --strict on the package, on these tests and on a user's script; ruff; clang-format."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

Mypy = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.xdist_group("typing")  # long, so it begins early

USER = """
import socket
import threading
from collections.abc import Mapping

import pandas as pd

import pfs

lock: pfs.Lock = pfs.Lock("myapp/LOCK_queue")
with lock, pfs.wait("myapp/GPU"):
    locked: bool = lock.locked()

with pfs.open("in.csv", name="myapp/data") as f:
    text: str = f.read()
with pfs.open("in.bin", "rb") as b:
    data: bytes = b.read()

rlock = pfs.RLock("myapp/LOCK_tree")
condition = pfs.Condition("myapp/COND_work", rlock)
with condition:
    found: str | None = condition.wait_for(lambda: "x", timeout=1.5)
    condition.notify_all()
rw = pfs.RWLock("myapp/RW_cache")
with rw.read(), pfs.Semaphore("myapp/SEM", 2):
    woken: bool = pfs.Event("myapp/EVENT").wait(0.1)
jobs: pfs.Queue[int] = pfs.Queue("myapp/QUEUE", maxsize=3)
jobs.put(1)
job: int = jobs.get(timeout=1)
names: pfs.SimpleQueue[str] = pfs.SimpleQueue("myapp/SIMPLE")
first: str = names.get_nowait()
with pfs.create_server("myapp/server", ("127.0.0.1", 0)) as server:
    server.settimeout(1)
    client, address = server.accept()
    part: bytes = client.recv(10)
    instrument: str = client.name
threading_condition: threading.Event = pfs.Event("myapp/EVENT")
plain: socket.socket = client

frame: pd.DataFrame = pfs.table("events_waits_current", ["THREAD_ID"])
rows: int = pfs.setup_instruments.update(where="wait/io/file/%", enabled=True, timed=False)
pfs.setup_instruments["wait/io/file/%"].enabled = False
on: bool | None = pfs.setup_instruments["wait/io/file/%"].enabled
pfs.setup_timers["wait"].timer_name = "NANOSECOND"
with pfs.setup_instruments.only("wait/io/%") as table:
    table.update(timed=True)
values: Mapping[str, int | str] = pfs.variables
pfs.configure(events_waits_history_size=10, performance_schema=True)

@pfs.wait("myapp/RPC")
def ask(server: str, *, timeout: float = 1.0) -> int:
    return 1

answer: int = ask("x", timeout=2)

with pfs.statement("sql/select", text="SELECT 1", schema="shop") as statement:
    statement.rows_sent += 1
    statement.add(rows_examined=3, select_scan=1)
    statement.error(1064, sqlstate="42000", message="no")
with pfs.stage("myapp/loading", estimated=3) as stage, pfs.transaction("READ COMMITTED") as transaction:
    stage.completed += 1
    transaction.savepoint()

@pfs.stage("myapp/answering")
async def reply(question: str) -> int:
    async with pfs.statement("myapp/asking") as asked:
        asked.text = question
    return 1

reveal_type(ask)
"""

WRONG = """
import pfs

pfs.Lock()
pfs.setup_instruments["x"].enabled = 3
pfs.setup_instruments.update(colour=True)
pfs.table(3)
pfs.Condition("myapp/COND", lock=3)
pfs.RWLock("myapp/RW").acquire()
pfs.socket()
"""


@pytest.fixture(scope="module")
def mypy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Mypy:
    """Runs mypy as pyproject.toml says, strictly. What it has found out about pandas and numpy it finds out once."""
    cache = tmp_path_factory.mktemp("mypy")

    def run(cwd: Path, *files: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), "--cache-dir", str(cache), *files]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)

    return run


@pytest.mark.slow
def test_package_and_tests_pass_strict(mypy: Mypy, root: Path) -> None:
    assert tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]["strict"] is True
    done = mypy(root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_users_script_passes_strict_and_mistakes_are_found(mypy: Mypy, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    done = mypy(tmp_path, "user.py", "wrong.py")
    assert not [line for line in done.stdout.splitlines() if line.startswith("user.py") and ": error: " in line], done.stdout
    assert 'Revealed type is "def (server: str, *, timeout: float =) -> int"' in done.stdout.replace("builtins.", "")
    assert "Found 7 errors in 1 file" in done.stdout, done.stdout


@pytest.mark.slow
def test_stub_of_the_core_agrees_with_the_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "pfs._core", "--ignore-missing-stub", "--concise"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    # pybind11 hides the signatures of functions: what is left is whether each name exists and is of the right kind.
    missing = re.findall(r"^pfs\._core\.(\S+) is not present at runtime", done.stdout, re.MULTILINE)
    wrong = set(missing) - {"ColumnInfo", "Part", "TableInfo"}  # types that only the stub has
    assert not wrong


def checked(root: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_is_clean(root: Path) -> None:
    checked(root, sys.executable, "-m", "ruff", "check", "--no-cache", "python", "tests")
    checked(root, sys.executable, "-m", "ruff", "format", "--no-cache", "--check", "python", "tests")


def test_clang_format_is_clean(root: Path) -> None:
    folders = [root / "cpp", root / "tests"]
    files = [path for folder in folders for path in folder.rglob("*.*") if path.suffix in {".c", ".cpp", ".h", ".hpp"}]
    assert len(files) > 300
    checked(root, str(Path(sys.executable).parent / "clang-format"), "--dry-run", "-Werror", *map(str, files))
