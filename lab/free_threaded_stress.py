"""Uses each type of pfs from eight threads in a Python without the GIL that ThreadSanitizer watches, and counts what it reports.

    python lab/free_threaded_stress.py --interpreter PATH [--seconds 5] [CASE ...]
    python lab/free_threaded_stress.py --interpreter PATH --guard off one_statement     # the negative control: must report races

PATH is a Python of clang with --disable-gil and --with-thread-sanitizer that has numpy and pandas; docs/contribute/platforms.md
has the commands. Run it with a Python that has pfs, cmake, ninja and pybind11: it compiles the module with clang in --build, and
compares the counts with the tables, which it reads from outside. CASE is a function of tests/python/_programs/free_threaded.py.

A report is ours if pfs made an access, or called the function of the interpreter that made it. Reports of the interpreter alone
are counted; --suppressions (CPython's Tools/tsan/suppressions_free_threading.txt) leaves out those that its developers know.
Exits with 1 at a report of ours, a wrong count, or a failed check.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pfs

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests/python/_programs/free_threaded.py"
CASES = re.findall(r"^def (\w+)\(\) -> Case:", PROGRAM.read_text(), re.MULTILINE)
TABLES = {family: f"events_{family}s_summary_global_by_event_name" for family in ("wait", "statement", "stage", "transaction")}
TABLES["idle"] = TABLES["wait"]
PATHS = "import json, sysconfig; print(json.dumps([sysconfig.get_config_var('EXT_SUFFIX'), sysconfig.get_path('include')]))"


def run(*words: str | Path, log: Path) -> None:
    with log.open("ab") as file:
        done = subprocess.run([str(word) for word in words], stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"{log.read_text()[-5000:]}\nfailed: {' '.join(map(str, words))}")


def package(interpreter: str, build: Path, guard: bool) -> Path:
    """Compiles the module. Returns the folder that has the package pfs with it."""
    said = subprocess.run([interpreter, "-c", PATHS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    suffix, include = json.loads(said)
    flags = "-D__SANITIZE_THREAD__=1" + ("" if guard else " -DPFS_TEST_WITHOUT_GUARD")  # clang has no such macro
    folder = subprocess.run([sys.executable, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=True)
    settings = {
        "CMAKE_C_COMPILER": "clang",
        "CMAKE_CXX_COMPILER": "clang++",
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_CXX_FLAGS": flags,
        "CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O1 -gline-tables-only",
        "CMAKE_INTERPROCEDURAL_OPTIMIZATION": "OFF",  # pybind11 would turn it on
        "PFS_SANITIZE": "thread",
        "PFS_PYTHON": "ON",
        "Python_EXECUTABLE": interpreter,
        "Python_INCLUDE_DIR": include,
        "PYTHON_MODULE_EXTENSION": suffix,
        "pybind11_DIR": folder.stdout.strip(),
    }
    build.mkdir(parents=True, exist_ok=True)
    log = build / "build.log"
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, *(f"-D{key}={value}" for key, value in settings.items()), log=log)
    run("ninja", "-C", build, "-j2", "_core", log=log)
    made = build / ("guarded" if guard else "unguarded") / "pfs"
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(Path(pfs.__file__).parent, made, ignore=shutil.ignore_patterns("*.so*", "include", "lib", "__pycache__"))
    shutil.copy(build / f"cpp/bindings/_core{suffix}", made)
    return made.parent


def reports(log: str) -> list[tuple[str, bool]]:
    """Returns a line for each report of ThreadSanitizer, and whether it is ours."""
    found = []
    for part in re.split(r"^={18}$", log, flags=re.MULTILINE):
        if "WARNING: ThreadSanitizer" not in part:
            continue
        kind = re.findall(r"WARNING: ThreadSanitizer: ([^(]+)", part)[0].strip()
        # The stacks of the accesses come first; where a block was allocated and a thread was made say nothing of the fault.
        stacks = re.split(r"\n\n", part.strip())[:2]
        frames = [re.findall(r"^ *#\d+ (.+)$", stack, re.MULTILINE) for stack in stacks]
        ours = any(is_ours(stack) for stack in frames)
        found.append((f"{kind}: " + " <> ".join(stack[0][:150] if stack else "?" for stack in frames), ours))
    return found


def is_ours(frames: list[str]) -> bool:
    """Returns whether pfs made an access, or called what made it. What evaluates Python's code is nobody's call."""
    for frame in frames:
        if "_core." in frame or "libperfschema" in frame:
            return True
        if re.match(r"_PyEval_\w+|_PyObject_Call\w*|PyObject_Call\w*|_PyFunction_\w+", frame):
            return False
    return False


def stress(case: str, seconds: float, interpreter: str, where: Path, options: argparse.Namespace) -> tuple[bool, int]:
    """Prints a row. Returns whether all was right, and how many reports were ours."""
    with tempfile.TemporaryDirectory(prefix="pfs-tsan-") as temporary:
        logs = Path(temporary)
        tsan = f"log_path={logs}/report:exitcode=0:second_deadlock_stack=1:history_size=4"
        tsan += f":suppressions={options.suppressions.resolve()}" if options.suppressions else ""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PFS_", "PYTHON"))}
        environment.update(TSAN_OPTIONS=tsan, PYTHONPATH=str(where), PYTHON_GIL="0")
        with subprocess.Popen(
            [interpreter, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{case} {seconds}\n")
            child.stdin.flush()
            line = child.stdout.readline()
            said = json.loads(line) if line else {"failures": ["no answer"], "done": {}}
            wrong = list(said["failures"])
            if line:
                with pfs.attach(child.pid) as schema:
                    for family, table in TABLES.items():
                        wanted = {what: times for what, times in said["done"].items() if what.split("/")[0] == family}
                        shown = schema.table(table)[["EVENT_NAME", "COUNT_STAR"]] if wanted else None
                        counts = dict(shown.itertuples(index=False)) if shown is not None else {}
                        wrong += [f"{what}: {counts.get(what)}, not {n}" for what, n in wanted.items() if counts.get(what) != n]
            child.communicate()
        if child.returncode != 0:
            wrong.append(f"exit {child.returncode}")
        found = [report for log in sorted(logs.iterdir()) for report in reports(log.read_text(errors="replace"))]
        if options.logs:
            options.logs.mkdir(parents=True, exist_ok=True)
            for log in logs.iterdir():
                shutil.copy(log, options.logs / f"{case}.log")
    ours = [text for text, is_our in found if is_our]
    numbers = [f"{sum(said['done'].values()):,}", len(ours), len(found) - len(ours), "; ".join(wrong)]
    print("|", " | ".join(map(str, [case, *numbers])), "|", flush=True)
    for text, times in collections.Counter(ours).most_common():
        print(f"  ours, {times} times: {text}", flush=True)
    return not wrong, len(ours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--interpreter", required=True, metavar="PATH", help="a Python without the GIL, with ThreadSanitizer")
    parser.add_argument("--seconds", type=float, default=5, help="works so long on each case (5)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/free_threaded", help="compiles there (build/free_threaded)")
    parser.add_argument("--guard", choices=["on", "off"], default="on", help="off: without what stands for the GIL")
    parser.add_argument("--suppressions", type=Path, metavar="FILE", help="leaves out the reports that it names")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keeps the reports there")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; legal are {', '.join(CASES)}")
    where = package(options.interpreter, options.build, options.guard == "on")
    print("| case | done | reports of ours | of the interpreter | wrong |\n|" + " --- |" * 5, flush=True)
    results = [stress(case, options.seconds, options.interpreter, where, options) for case in options.cases or CASES]
    return not all(right and ours == 0 for right, ours in results)


if __name__ == "__main__":
    sys.exit(main())
