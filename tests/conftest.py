"""Shared fixtures. The tests run against the installed package."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._base import installed
from tests import MAY_FORK

pytest_plugins = ["tests.tiers"]

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[..., str]
Build = Callable[..., Path]
PROGRAMS = ROOT / "tests/programs"


def pytest_sessionstart() -> None:
    """Lets pandas register its types with pyarrow, which works once: tests interrupt imports, and block modules."""
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas.core.arrays.arrow.extension_types")


def pytest_collection_finish() -> None:
    """What there is before the first test stays. A gc.collect() of a test would look at all of it, for 0.3 s."""
    gc.freeze()


def pytest_report_header() -> list[str]:
    import numpy
    import pandas

    return [f"pfs {pfs.__version__} from {Path(pfs.__file__).parent}, pandas {pandas.__version__}, numpy {numpy.__version__}"]


_databases: list[sqlite3.Connection] = []


def _note_databases(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect/handle":
        _databases.append(arguments[0])


sys.addaudithook(_note_databases)


@pytest.fixture(autouse=True)
def databases_are_closed() -> Iterator[None]:
    """Python 3.13 warns of those that a test leaves open, in whatever test the collector finds them."""
    _databases.clear()  # of a fixture that stays
    yield
    while _databases:
        with contextlib.suppress(sqlite3.ProgrammingError):  # of another thread, or never initialized
            _databases.pop().close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of segments, for this process and those that it starts. Its name is short, because sockets may be in it."""
    there = tmp_path / "pfs"
    there.mkdir(mode=0o700)
    monkeypatch.setenv("PFS_DIR", str(there))
    return there


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the source tree."""
    return ROOT


@pytest.fixture
def fresh(tmp_path: Path) -> Run:
    """Runs a script in a fresh process with its segment in a folder of its own; gives its standard output.

    `fresh(script, options="...", status=0, timeout=120, **environment)`. Warnings are errors there too.
    """

    def run(
        script: str, *arguments: str, status: int = 0, options: str | None = None, timeout: float = 120, **environment: str
    ) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        env.update(PFS_DIR=str(tmp_path), **environment)
        if options is not None:
            env["PFS_OPTIONS"] = options
        done = subprocess.run(
            [sys.executable, "-W", "error", *MAY_FORK, "-c", textwrap.dedent(script), *arguments],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == status, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build("forks") compiles tests/programs/forks.c with the flags of pkg-config; with disabled=True, without the library.
    More flags make another program."""
    assert shutil.which("pkg-config"), "pkg-config is needed: see tests/run.sh"
    folder = tmp_path_factory.mktemp("programs")
    env = {**os.environ, "PKG_CONFIG_PATH": f"{installed.library_dir()}/pkgconfig"}

    def build(name: str, disabled: bool = False, flags: tuple[str, ...] = ()) -> Path:
        program = folder / "".join([name, "-plain" * disabled, *flags]).replace("/", "-")
        if program.exists():
            return program
        what = ["--cflags"] if disabled else ["--cflags", "--libs"]
        library = subprocess.run(
            ["pkg-config", *what, "perfschema"], env=env, capture_output=True, text=True, check=True
        ).stdout.split()
        source = PROGRAMS / f"{name}.c"
        compiler = ["gcc", "-std=c11"]
        if not source.exists():
            source = PROGRAMS / f"{name}.cpp"
            compiler = ["g++", "-std=c++17"]
        command = [*compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), *library, *flags]
        command += ["-DPFS_DISABLE", "-lpthread"] if disabled else [f"-Wl,-rpath,{installed.library_dir()}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return program

    return build
