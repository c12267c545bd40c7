"""Shared fixtures. The tests run against the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import pfs

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[..., str]


def pytest_report_header() -> list[str]:
    import numpy
    import pandas

    return [f"pfs {pfs.__version__} from {Path(pfs.__file__).parent}, pandas {pandas.__version__}, numpy {numpy.__version__}"]


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the source tree."""
    return ROOT


@pytest.fixture
def fresh(tmp_path: Path) -> Run:
    """Runs a script in a fresh process with its segment in a folder of its own; gives its standard output.

    `fresh(script, options="...", status=0, **environment)`. Warnings are errors there too.
    """

    def run(script: str, *arguments: str, status: int = 0, options: str | None = None, **environment: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        env.update(PFS_DIR=str(tmp_path), **environment)
        if options is not None:
            env["PFS_OPTIONS"] = options
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
