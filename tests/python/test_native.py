"""The C++ tests of tests/cpp, built and run as released, under AddressSanitizer and UBSan, and under ThreadSanitizer.

The Python module, too, gives its capsules of Arrow under AddressSanitizer.
"""

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
    """Where the trees are: PFS_BUILD_DIR outlives this run, and has the wheel's own tree as `release` (tests/run.sh)."""
    given = os.environ.get("PFS_BUILD_DIR")
    return Path(given) if given else tmp_path_factory.mktemp("native")


def built(name: str, folder: Path, root: Path) -> Path:
    """The tree of that name with all test programs; what is up to date is not built again."""
    for tool in ("cmake", "ninja", "ctest", "g++"):
        assert shutil.which(tool, path=TOOLS), f"{tool} is needed: see tests/run.sh"
    kind, sanitizer, flags = BUILDS[name]
    build = folder / name
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
        done = run("cmake", "-S", root, "-B", build, "-G", "Ninja", *(f"-D{key}={value}" for key, value in settings.items()))
        assert done.returncode == 0, done.stdout
    compiled(build, "tests/cpp/all")
    return build


def compiled(build: Path, target: str) -> None:
    # Other workers of pytest-xdist have the other processors.
    jobs = ("-j", "1") if "PYTEST_XDIST_WORKER" in os.environ else ()
    done = run("ninja", "-C", build, *jobs, target)
    assert done.returncode == 0, done.stdout[-20_000:]


def group(name: str) -> pytest.MarkDecorator:
    """A tree is built and used by one worker."""
    return pytest.mark.xdist_group(f"native-{name}")


@pytest.mark.native
@pytest.mark.parametrize("name", [pytest.param(name, marks=group(name)) for name in BUILDS])
def test_native_tests_compile(name: str, folder: Path, root: Path) -> None:
    built(name, folder, root)


def marks(name: str) -> pytest.MarkDecorator:
    """As released, a torn row needs threads that really run at once. A sanitizer finds a race without that."""
    return pytest.mark.alone if name == "release" else group(name)


@pytest.mark.native
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in BUILDS])
def test_native_tests_pass(name: str, folder: Path, root: Path) -> None:
    build = built(name, folder, root)
    # By hand 1.5 s each, or hours. Sanitizers need fewer turns: they look at what could happen.
    seconds = "0.7" if name == "release" else "0.4"
    ctest = ("ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error")
    done = run(*ctest, PFS_STRESS_SECONDS=seconds, **SANITIZER_OPTIONS)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:]
    passed = set(re.findall(r"Test +#\d+: (\w+) \.* +Passed", done.stdout))
    assert set(sources(root)) <= passed, f"not run: {set(sources(root)) - passed}"
    if name == "release":  # a reader without its checks is caught, else the stress tests prove nothing
        controls = ("torn_rows_broken_cells", "torn_rows_broken_events", "principals_broken", "churn_broken", "sessions_broken")
        controls += ("births_broken_path", "births_broken_cells")
        assert set(controls) <= passed


@pytest.fixture(scope="module")
def sanitized(folder: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python whose module pfs._core is compiled with AddressSanitizer and UBSan."""
    build = built("asan-ubsan", folder, root)
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


@pytest.mark.native
@group("asan-ubsan")
def test_capsules_of_arrow_are_clean(sanitized: dict[str, str], root: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    program = root / "tests/python/_programs/arrow_lifetimes.py"
    done = run(sys.executable, program, **sanitized, PFS_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout[-5000:]
    assert "bytes are left" in done.stdout


@pytest.mark.native
@group("asan-ubsan")
def test_the_sanitizer_sees_a_capsule_that_is_used_after_its_end(sanitized: dict[str, str], root: Path, tmp_path: Path) -> None:
    """Negative control."""
    tmp_path.chmod(0o700)
    program = root / "tests/python/_programs/arrow_lifetimes.py"
    done = run(sys.executable, program, "broken", **sanitized, PFS_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "heap-use-after-free" in done.stdout, done.stdout[-5000:]


@pytest.mark.native
@pytest.mark.slow
@group("asan-ubsan")
@pytest.mark.skipif(shutil.which("clang++") is None, reason="libFuzzer is a part of clang: apt-get install clang")
def test_segments_survive_a_fuzzer(folder: Path, root: Path) -> None:
    """tests/fuzz/segment.sh, for a few seconds and from the same seed: what a change breaks.

    PFS_FUZZ_SECONDS looks longer, PFS_FUZZ_SEED elsewhere.
    """
    tools = {"PFS_FUZZ_SEED": "1", **os.environ, "PATH": TOOLS, "PFS_FUZZ_BUILD": str(built("asan-ubsan", folder, root))}
    seconds = os.environ.get("PFS_FUZZ_SECONDS", "20")
    done = subprocess.run([root / "tests/fuzz/segment.sh", seconds], env=tools, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-10_000:]
    found = re.search(r"Done (\d+) runs", done.stderr)
    assert found, done.stderr[-10_000:]
    print(f"{found[1]} runs")
    assert int(found[1]) > 100
