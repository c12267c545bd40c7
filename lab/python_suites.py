"""Runs test suites of Python programs plain and under `pfs run`, and compares the result of each test.

    python lab/python_suites.py                 # CPython's modules and the packages from PyPI
    python lab/python_suites.py cpython         # or: packages, or names of both; test_... is any module of CPython's
    python lab/python_suites.py --interpreter python3.14t threads       # what a Python without the GIL must not change
    python lab/python_suites.py --folder DIR    # keeps sources, environment and results there
    PYTHONPATH=... python lab/python_suites.py --interpreter /usr/bin/python3 cpython

CPython's modules need an interpreter with its package `test`: --interpreter takes another one than this. Debian has the package
apart (libpython3.11-testsuite): PYTHONPATH may be a folder whose `test` is that package and the interpreter's own `test`.
Packages are fetched as sdists from PyPI, and are tested in an environment of their own, which has no pfs. A suite that differs
runs a second time both ways: a test that differs once only is printed as unstable, and so is one whose two plain runs differ.
Exits with 1 if a test differs twice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from lab import both_ways  # noqa: E402
from lab.both_ways import Results  # noqa: E402

CPYTHON = [
    "test_queue",
    "test_socketserver",
    "test_tempfile",
    "test_thread",
    "test_httplib",
    "test_fileio",
    "test_bz2",
    "test_shelve",
    "test_mailbox",
    "test_sqlite3",
    "test_file",
    "test_logging",
    "test_contextlib",
    "test_threading",
    "test_ssl",
    "test_subprocess",
    "test_socket",
    "test_asyncio",
    "test_concurrent_futures",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_spawn",
    "test_multiprocessing_main_handling",
]

# Of these, what a Python without the GIL does in another way.
THREADS = [
    "test_queue",
    "test_sqlite3",
    "test_threading",
    "test_free_threading",
    "test_concurrent_futures",
    "test_socket",
    "test_asyncio",
]

OPTIONS = {
    "test_socketserver": ["-u", "network"],  # without it, it runs nothing; it uses the loopback only
    "test_socket": ["-i", "ThreadedVSOCKSocketStreamTest"],  # hangs on virtual machines, also without pfs
}

# Name and version: what the tests need more, and the arguments of pytest in the folder of the sdist.
PACKAGES = {
    "tornado==6.5.2": ([], ["--pyargs", "tornado.test"]),
    "waitress==3.0.2": ([], ["tests", "-o", "addopts="]),
    "Werkzeug==3.1.3": (["pytest-timeout", "ephemeral-port-reserve", "watchdog", "cryptography"], ["tests", "--timeout=20"]),
    "Flask==3.1.2": (["pytest<9", "asgiref", "python-dotenv"], ["tests"]),
    "filelock==3.20.0": (["pytest-mock", "pytest-timeout", "pytest-asyncio", "virtualenv"], ["tests"]),
    "diskcache==5.6.3": (["django"], ["tests", "-o", "addopts=", "--ignore=tests/test_djangocache.py"]),
    "aiosqlite==0.21.0": ([], ["aiosqlite/tests/smoke.py"]),
    "requests==2.32.5": (["pytest-httpbin==2.1.0", "httpbin", "trustme", "PySocks", "pytest-mock"], ["tests"]),
    "pyftpdlib==2.1.0": (["psutil", "pyopenssl", "pytest-instafail", "pytest-xdist"], ["tests", "-o", "addopts="]),
    "watchdog==6.0.0": (["flaky", "pytest-timeout", "PyYAML"], ["tests", "-o", "addopts="]),
    "joblib==1.5.2": (["numpy"], ["--pyargs", "joblib.test.test_memory", "joblib.test.test_hashing"]),
}

PFS = [sys.executable, "-m", "pfs", "run", "--no-report", "--"]


def results_of(command: list[str], file: Path, folder: Path, seconds: float) -> tuple[Results, float]:
    """Runs a suite that writes `file`, as JUnit's XML. Returns the result of each test, and the seconds it took."""
    file.unlink(missing_ok=True)
    begin = time.monotonic()
    command = ["env", "--default-signal=INT", *command]  # a shell's job in the background ignores it, and asyncio's tests hang
    with file.with_suffix(".log").open("wb") as log:
        child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = str(child.wait(seconds))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            code = f"killed after {child.wait() and seconds:.0f} s"
    results: Results = {"exit code": code}
    for case in ET.parse(file).iter("testcase") if file.exists() else ():
        bad = [part.tag for part in case if part.tag in ("failure", "error", "skipped")]
        name = f"{case.get('classname') or ''}.{case.get('name')}"
        while name in results:
            name += "'"
        results[name] = bad[0] if bad else case.get("result", "passed")
    return results, time.monotonic() - begin


def compare(name: str, command: list[str], folder: Path, at: Path, seconds: float) -> bool:
    """Runs a suite both ways and prints a line. Returns whether no test differs twice."""
    took: list[float] = []

    def both(turn: int) -> tuple[Results, Results]:
        took.clear()
        results = []
        for way, before in (("plain", []), ("pfs", PFS)):
            file = at / f"{name}.{turn}.{way}.xml"
            found, seconds_taken = results_of(
                [*before, *(part.replace("OUT", str(file)) for part in command)], file, folder, seconds
            )
            results.append(found)
            took.append(seconds_taken)
        return results[0], results[1]

    compared = both_ways.compare(both)
    tests = {test: result for test, result in compared.plain.items() if test != "exit code"}
    passed = sum(result in ("passed", "completed") for result in tests.values())
    failed = sum(result in ("failure", "error") for result in tests.values())
    times = [f"{one:.0f} s" for one in took]
    numbers = [name, len(tests), passed, failed, len(compared.always), len(compared.unstable), *times]
    print("|", " | ".join(map(str, numbers)), "|", flush=True)
    for line in compared.lines():
        print(line, flush=True)
    return not compared.always and len(tests) > 0


def cpython(names: list[str], at: Path, seconds: float, interpreter: str) -> bool:
    (work := at / "cpython").mkdir(exist_ok=True)
    good = True
    for name in names:
        command = [interpreter, "-m", "test", *OPTIONS.get(name, []), "--junit-xml", "OUT", name]
        good &= compare(name, command, work, at, seconds)
    return good


def packages(names: list[str], at: Path, seconds: float) -> bool:
    good = True
    for package in names:
        needs, arguments = PACKAGES[package]
        name = package.partition("==")[0]
        if not (python := at / f"venv-{name}/bin/python").exists():
            subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "pytest", package, *needs], check=True)
        if not (folder := at / f"src-{name}").exists():
            folder.mkdir()
            fetch = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder), package]
            subprocess.run(fetch, check=True)
            [archive] = folder.iterdir()
            subprocess.run(["tar", "xf", archive, "--strip-components=1"], cwd=folder, check=True)
        command = [str(python), "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "--junitxml=OUT", *arguments]
        good &= compare(name, command, folder, at, seconds)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="cpython, threads, packages, names of packages, modules test_... of CPython"
    )
    parser.add_argument("--folder", type=Path, help="keeps everything there; without it, a temporary folder")
    parser.add_argument("--seconds", type=float, default=600, help="ends a suite after that time (600)")
    parser.add_argument("--interpreter", default=sys.executable, metavar="PATH", help="runs CPython's modules (this one)")
    options = parser.parse_args()
    everything = {name.partition("==")[0]: name for name in PACKAGES}
    names = options.names or ["cpython", "packages"]
    modules = [m for m in CPYTHON if m in names or "cpython" in names]
    modules += [m for m in THREADS if "threads" in names and m not in modules]
    modules += [name for name in names if name.startswith("test_") and name not in modules]
    wanted = [package for short, package in everything.items() if short in names or "packages" in names]
    if unknown := set(names) - {"cpython", "threads", "packages", *modules, *everything}:
        legal = ", ".join(["cpython", "threads", "packages", "test_...", *everything])
        parser.error(f"unknown: {', '.join(sorted(unknown))}; legal are {legal}")
    with tempfile.TemporaryDirectory(prefix="pfs-suites-") as temporary:
        at = (options.folder or Path(temporary)).resolve()
        at.mkdir(parents=True, exist_ok=True)
        print("| suite | tests | passed | failed | differ | unstable | plain | pfs run |\n|" + " --- |" * 8, flush=True)
        good = cpython(modules, at, options.seconds, options.interpreter)
        good &= packages(wanted, at, options.seconds)
    return not good


if __name__ == "__main__":
    sys.exit(main())
