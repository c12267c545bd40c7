"""The C++ tests of tests/cpp under AddressSanitizer and UBSan; the Python module, which gives its capsules of Arrow; a fuzzer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import pfs
from tests import budgets
from tests.python._programs.native import TOOLS, built, compiled, passed, run

pytestmark = pytest.mark.needs("trees")


def test_native_tests_compile() -> None:
    built("asan-ubsan")


def test_native_tests_pass() -> None:
    passed("asan-ubsan", budgets.STRESS_SECONDS_SANITIZED)


@pytest.fixture(scope="module")
def sanitized(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python whose module pfs._core is compiled with AddressSanitizer and UBSan."""
    build = built("asan-ubsan")
    found = subprocess.run([sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True)
    settings = {
        "PFS_PYTHON": "ON",
        "Python_EXECUTABLE": sys.executable,
        "Python_INCLUDE_DIR": sysconfig.get_path("include"),
        "pybind11_DIR": found.stdout.strip(),
        "CMAKE_INTERPROCEDURAL_OPTIMIZATION": "OFF",  # pybind11 would turn it on
    }
    done = run("cmake", "-B", build, *(f"-D{key}={value}" for key, value in settings.items()))
    assert done.returncode == 0, done.stdout
    compiled(build, "_core")
    package = tmp_path_factory.mktemp("package") / "pfs"
    shutil.copytree(Path(pfs.__file__).parent, package, ignore=shutil.ignore_patterns("*.so*", "include", "lib"))
    (module,) = build.glob("cpp/bindings/_core*.so")
    shutil.copy(module, package)
    compiler = re.search(r"CMAKE_CXX_COMPILER:\w+=(.+)", (build / "CMakeCache.txt").read_text())
    assert compiler is not None
    libraries = ["libclang_rt.asan-x86_64.so"] if "clang" in compiler[1] else ["libasan.so", "libubsan.so"]
    paths = [run(compiler[1], f"-print-file-name={name}").stdout.strip() for name in libraries]
    return {
        "PYTHONPATH": f"{package.parent}:{root}",
        "LD_PRELOAD": ":".join(paths),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves much at its end: the program counts what pfs leaves
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


def test_capsules_of_arrow_are_clean(sanitized: dict[str, str], root: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    program = root / "tests/python/_programs/arrow_lifetimes.py"
    done = run(sys.executable, program, **sanitized, PFS_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout[-5000:]
    assert "bytes are left" in done.stdout


def test_the_sanitizer_sees_a_capsule_that_is_used_after_its_end(sanitized: dict[str, str], root: Path, tmp_path: Path) -> None:
    """Negative control."""
    tmp_path.chmod(0o700)
    program = root / "tests/python/_programs/arrow_lifetimes.py"
    done = run(sys.executable, program, "broken", **sanitized, PFS_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "heap-use-after-free" in done.stdout, done.stdout[-5000:]


@pytest.mark.needs("clang")
def test_segments_survive_a_fuzzer(root: Path) -> None:
    """tests/fuzz/segment.sh, for a few seconds and from the same seed: what a change breaks."""
    tools = {**os.environ, "PFS_FUZZ_SEED": str(budgets.seed(1)), "PATH": TOOLS, "PFS_FUZZ_BUILD": str(built("asan-ubsan"))}
    seconds = str(budgets.SEGMENT_FUZZ_SECONDS)
    done = subprocess.run([root / "tests/fuzz/segment.sh", seconds], env=tools, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-10_000:]
    found = re.search(r"Done (\d+) runs", done.stderr)
    assert found, done.stderr[-10_000:]
    print(f"{found[1]} runs")
    assert int(found[1]) > 100
