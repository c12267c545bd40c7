"""The C++ tests of tests/cpp, built and run as released, under AddressSanitizer and UBSan, and under ThreadSanitizer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

BUILDS = {
    "release": ("Release", "", "-Wno-error=maybe-uninitialized"),  # gcc guesses
    "asan-ubsan": ("None", "address,undefined", "-fno-sanitize-recover=all -O1 -g"),
    "tsan": ("None", "thread", "-O1 -g"),
}
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PFS_", "ASAN_", "TSAN_", "UBSAN_"))}
    env.update(PATH=TOOLS, **environment)
    words = [str(part) for part in command]
    return subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def sources(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "tests/cpp").glob("*.cpp"))


def test_every_cpp_file_of_tests_is_a_test_or_a_stress(root: Path) -> None:
    names = sources(root)
    assert len(names) >= 7
    assert all(name.endswith(("_test", "_stress")) for name in names), names
    # In the folder itself, where the pattern of CMakeLists.txt finds them; compile/ is for other drivers.
    nested = {path.parent.name for path in (root / "tests/cpp").rglob("*.cpp")} - {"cpp", "compile"}
    assert not nested, nested


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("native")


@pytest.mark.native
@pytest.mark.parametrize("name", list(BUILDS))
def test_native_tests_pass(name: str, folder: Path, root: Path) -> None:
    for tool in ("cmake", "ninja", "ctest", "g++"):
        assert shutil.which(tool, path=TOOLS), f"{tool} is needed: see tests/run.sh"
    kind, sanitizer, flags = BUILDS[name]
    build = folder / name
    done = run(
        "cmake", "-S", root, "-B", build, "-G", "Ninja", "-DPFS_DEVELOPER=ON",
        f"-DCMAKE_BUILD_TYPE={kind}", f"-DPFS_SANITIZE={sanitizer}", f"-DCMAKE_CXX_FLAGS={flags}", f"-DCMAKE_C_FLAGS={flags}",
        f"-DCMAKE_COMPILE_WARNING_AS_ERROR={'OFF' if sanitizer else 'ON'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    done = run("ninja", "-C", build, "tests/cpp/all")
    assert done.returncode == 0, done.stdout[-20_000:]
    # Sanitizers are slow, and need fewer turns: they look at what could happen.
    seconds = "1" if name == "release" else "0.7"
    ctest = ("ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error")
    done = run(*ctest, PFS_STRESS_SECONDS=seconds, **SANITIZER_OPTIONS)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:]
    passed = set(re.findall(r"Test +#\d+: (\w+) \.* +Passed", done.stdout))
    assert set(sources(root)) <= passed, f"not run: {set(sources(root)) - passed}"
    if name == "release":
        # A reader without its checks is caught by the stress tests, else they prove nothing: tests/cpp/CMakeLists.txt says how.
        assert {"torn_rows_broken_cells", "torn_rows_broken_events"} <= passed
