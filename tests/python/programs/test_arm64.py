"""The instructions of arm64 in the sources are assembled. docs/contribute/platforms.md says how to run them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.each import for_each

ROOT = Path(__file__).resolve().parents[3]
COMPILER = "aarch64-linux-gnu-g++"
OPTIONS = ("-std=c++20", "-O1", "-fno-builtin", "-D_LARGEFILE64_SOURCE", "-DPFS_BUILDING_LIBRARY")
# Files with instructions of the processor, or with a header that has them.
SOURCES = [path for path in sorted(ROOT.glob("cpp/run/**/*.cpp")) if re.search(r'\basm\(R"|stubs_aarch64', path.read_text())]


@pytest.mark.needs("arm64")
@for_each("source", SOURCES)
def test_instructions_of_arm64_are_assembled(source: Path, tmp_path: Path) -> None:
    folders = [f"-I{ROOT / folder}" for folder in ("cpp/include", "cpp/src", "cpp")]
    command: list[str | Path] = [COMPILER, *OPTIONS, *folders, "-c", source, "-o", tmp_path / f"{source.stem}.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
