"""Any bytes as a statement, and as tokens, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import budgets

BASE = ("digest", "sql_lexer", "request_digest")


@pytest.mark.needs("trees")
def test_mutated_statements(root: Path, tmp_path: Path) -> None:
    """I2 to I4: some thousand mutations, the same ones in each run; needs g++ only."""
    sources = ["tests/fuzz/digest_fuzz.cpp", *(f"cpp/src/base/{name}.cpp" for name in BASE)]
    flags = [
        "-std=c++20",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-DPFS_FUZZ_ALONE",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    command = ["g++", *flags, "-Icpp/src", "-Icpp/include", *sources, "-l:libmd.a", "-o", str(tmp_path / "digest_fuzz")]
    subprocess.run(command, cwd=root, check=True)
    done = subprocess.run([tmp_path / "digest_fuzz", "100000", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "100000 texts\n"


@pytest.mark.needs("trees")
@pytest.mark.needs("clang")
def test_libfuzzer(root: Path) -> None:
    """tests/fuzz/digest.sh, for a few seconds and from the same seed: what a change breaks."""
    same = {**os.environ, "PFS_FUZZ_SEED": str(budgets.seed(1))}
    seconds = str(budgets.DIGEST_FUZZ_SECONDS)
    done = subprocess.run([root / "tests/fuzz/digest.sh", seconds], env=same, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-10_000:]
    found = re.search(r"Done (\d+) runs", done.stderr)
    assert found, done.stderr[-10_000:]
    assert int(found[1]) > 1000
