"""Trees of C++ tests: as released, under AddressSanitizer and UBSan, and under ThreadSanitizer.

Each tree has a test file of its own, because a test file runs in one worker: two must not build the same tree.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

TOOLS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

BUILDS = {
    "release": ("Release", "", ""),
    "asan-ubsan": ("None", "address,undefined", "-fno-sanitize-recover=all -O0 -g1"),  # see CLANG; -O1 compiles for twice as long
    "tsan": ("None", "thread", "-O1 -g1"),
}
# With clang, the fuzzer of segments (tests/fuzz/segment.sh) takes its objects from the tree of the address sanitizer.
CLANG = {"PFS_SANITIZE": "fuzzer-no-link,address,undefined", "CMAKE_C_COMPILER": "clang", "CMAKE_CXX_COMPILER": "clang++"}
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


def sources() -> list[str]:
    return sorted(path.stem for path in (ROOT / "tests/cpp").glob("*.cpp"))


@cache
def folder() -> Path:
    """Where the trees are: PFS_BUILD_DIR outlives this run, and has the wheel's own tree as `release` (tests/run.sh)."""
    given = os.environ.get("PFS_BUILD_DIR")
    if given:
        return Path(given)
    own = tempfile.mkdtemp(prefix="pfs-native-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def built(name: str) -> Path:
    """The tree of that name with all test programs; what is up to date is not built again."""
    for tool in ("cmake", "ninja", "ctest", "g++"):
        assert shutil.which(tool, path=TOOLS), f"{tool} is needed: see tests/run.sh"
    kind, sanitizer, flags = BUILDS[name]
    build = folder() / name
    if not (build / "build.ninja").exists():
        settings = {
            "PFS_DEVELOPER": "ON",
            "CMAKE_BUILD_TYPE": kind,
            "PFS_SANITIZE": sanitizer,
            "CMAKE_CXX_FLAGS": flags,
            "CMAKE_C_FLAGS": flags,
        }
        settings["CMAKE_COMPILE_WARNING_AS_ERROR"] = "OFF" if sanitizer else "ON"
        if name == "asan-ubsan" and shutil.which("clang++"):
            settings |= CLANG
        done = run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *(f"-D{key}={value}" for key, value in settings.items()))
        assert done.returncode == 0, done.stdout
    compiled(build, "tests/cpp/all")
    return build


def compiled(build: Path, target: str) -> None:
    # Other workers of pytest-xdist have the other processors.
    jobs = ("-j", "1") if "PYTEST_XDIST_WORKER" in os.environ else ()
    done = run("ninja", "-C", build, *jobs, target)
    assert done.returncode == 0, done.stdout[-20_000:]


def passed(name: str, seconds: float) -> set[str]:
    """Runs the tests of the tree, each stress for so long, and returns the names of those that passed: all of tests/cpp."""
    build = built(name)
    ctest = ("ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error")
    done = run(*ctest, PFS_STRESS_SECONDS=str(seconds), **SANITIZER_OPTIONS)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:]
    names = set(re.findall(r"Test +#\d+: (\w+) \.* +Passed", done.stdout))
    assert set(sources()) <= names, f"not run: {set(sources()) - names}"
    return names
