"""mypy --strict on the package, on these tests and on a user's script; ruff; clang-format."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pfs

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
rows: int = pfs.setup_instruments.update("wait/io/file/%", enabled=True, timed=False)
pfs.setup_instruments["wait/io/file/%"].enabled = False
on: bool | None = pfs.setup_instruments["wait/io/file/%"].enabled
pfs.setup.setup_timers["wait"].timer_name = "NANOSECOND"
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

pfs.Lock(3)
pfs.setup_instruments["x"].enabled = 3
pfs.setup_instruments.update(colour=True)
pfs.table(3)
pfs.Condition("myapp/COND", lock=3)
pfs.RWLock("myapp/RW").acquire()
pfs.socket()
"""


@pytest.fixture(scope="module")
def mypy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says of the package, the tests, a user's script and one with mistakes. It runs once, for pandas takes longest."""
    scripts = tmp_path_factory.mktemp("scripts")
    (scripts / "user.py").write_text(USER)
    (scripts / "wrong.py").write_text(WRONG)
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"] is True
    files = [*settings["files"], str(scripts / "user.py"), str(scripts / "wrong.py")]
    command = [sys.executable, "-m", "mypy", "--no-incremental", *files]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr  # there are mistakes
    return done.stdout.splitlines()


def of(script: str, lines: list[str]) -> list[str]:
    return [line for line in lines if line.partition(":")[0].endswith(f"/{script}")]


@pytest.mark.needs("mypy")
def test_package_and_tests_pass_strict(mypy: list[str]) -> None:
    others = [line for line in mypy if line not in of("wrong.py", mypy)]
    assert not [line for line in others if ": error: " in line], others
    assert others[-1].startswith("Found 7 errors in 1 file"), others  # wrong.py


@pytest.mark.needs("mypy")
def test_users_script_passes_strict_and_mistakes_are_found(mypy: list[str]) -> None:
    assert (Path(pfs.__file__).parent / "py.typed").exists()  # of the installed package: users' tools look for it
    said = of("user.py", mypy)
    assert not [line for line in said if ": error: " in line], said
    assert 'Revealed type is "def (server: str, *, timeout: float =) -> int"' in "\n".join(said).replace("builtins.", "")
    assert len([line for line in of("wrong.py", mypy) if ": error: " in line]) == 7, mypy


@pytest.mark.needs("mypy")
def test_stub_of_the_core_agrees_with_the_module(tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = skip\n")  # the stub alone, without pandas
    command = ["mypy.stubtest", "pfs._core", "--ignore-missing-stub", "--concise", "--mypy-config-file", "mypy.ini"]
    done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    # pybind11 hides the signatures of functions: what is left is whether each name exists and is of the right kind.
    missing = re.findall(r"^pfs\._core\.(\S+) is not present at runtime", done.stdout, re.MULTILINE)
    assert set(missing) == {"ColumnInfo", "Part", "TableInfo"}, done.stdout  # types that only the stub has


def checked(root: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_is_clean(root: Path) -> None:
    checked(root, sys.executable, "-m", "ruff", "check", "--no-cache", "python", "tests")
    checked(root, sys.executable, "-m", "ruff", "format", "--no-cache", "--check", "python", "tests")


@pytest.mark.needs("clang-format")
def test_clang_format_is_clean(root: Path) -> None:
    folders = [root / "cpp", root / "tests"]
    files = [path for folder in folders for path in folder.rglob("*.*") if path.suffix in {".c", ".cpp", ".h", ".hpp"}]
    assert len(files) > 300
    checked(root, str(Path(sys.executable).parent / "clang-format"), "--dry-run", "-Werror", *map(str, files))
