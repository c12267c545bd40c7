"""``pfs run``: a program that nobody has changed runs as before, and its tables agree with strace and with a counting library."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._base import installed
from pfs._read.places.readable import Readable

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "tests/programs/unchanged"
LIBRARY = Path(installed.library_dir(), "libperfschema-run.so")
OFF = "performance_schema=OFF"
PFS = [sys.executable, "-m", "pfs"]

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="libperfschema-run.so is for x86-64")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the test programs, compiled without any part of pfs."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("matrix", "locks", "locking_malloc", "sandboxed"):
        subprocess.run(["cc", "-O1", "-g", "-o", folder / name, SOURCES / f"{name}.c", "-lpthread"], check=True)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "count_locks.so", SOURCES / "count_locks.c"], check=True)
    return folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments go to a folder of the test."""
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))


def run(*command: str | Path, check: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=check, **more)


def report_of(
    tmp_path: Path, *command: str | Path, options: tuple[str, ...] = (), code: int = 0, lost: dict[str, int] | None = None
) -> dict[str, Any]:
    """Runs a program under pfs and returns the report. `lost`: what may not be recorded."""
    file = tmp_path / "report.json"
    done = run(*PFS, "run", "--json", "--limit", "1000", *options, "-o", file, "--", *command)
    assert done.returncode == code, done.stderr
    report: dict[str, Any] = json.loads(file.read_text())
    assert report["exit_code"] == code
    assert report["lost"] == (lost or {})
    assert report["unread"] == []
    return report


def kept(tmp_path: Path, *command: str | Path, options: tuple[str, ...] = ()) -> tuple[str, Path]:
    """Runs a program under pfs. Returns its output and its segment."""
    done = run(*PFS, "run", "--keep", "--no-report", *options, "--", *command, check=True)
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    return done.stdout, segment


# ---- The program does not notice


@pytest.mark.parametrize("letters", ["f", "F", "v", "p", "d", "s", "j", "c", "e", "x", "fvpsjcex"])
def test_a_program_runs_as_without(programs: Path, letters: str) -> None:
    """f fork, F fork under load, v vfork, p posix_spawn, d dlopen, s signals, j siglongjmp, c cancellation, e errors, x exec."""
    plain = run(programs / "matrix", letters)
    seen = run(*PFS, "run", "--no-report", "--", programs / "matrix", letters)
    assert (seen.stdout, seen.returncode) == (plain.stdout, plain.returncode)
    assert plain.returncode == 42


def test_all_on_and_each_choice_of_children_run_as_without(programs: Path) -> None:
    plain = run(programs / "matrix", "fvpsjce")
    for options in (["--all-on"], ["--children", "none"], ["--children", "fork"], ["--only", "files"]):
        seen = run(*PFS, "run", "--no-report", *options, "--", programs / "matrix", "fvpsjce")
        assert (seen.stdout, seen.returncode) == (plain.stdout, plain.returncode), options


def test_an_allocator_that_locks_is_never_entered_from_a_probe(programs: Path, tmp_path: Path) -> None:
    report = report_of(tmp_path, programs / "locking_malloc")
    assert sum(row["count"] for row in report["locks"] if "mutex" in row["name"]) > 800


def test_end_by_a_signal(programs: Path) -> None:
    seen = run(*PFS, "run", "--no-report", "--", "sh", "-c", "kill -TERM $$")
    assert seen.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("SEGV", (), ", ended by SIGSEGV (--keep leaves its tables)\n"),
        ("SEGV", ("--keep",), ", ended by SIGSEGV\n"),
        ("TERM", (), ", ended by SIGTERM\n"),
    ],
)
def test_the_report_says_which_signal_ended_the_program(name: str, options: tuple[str, ...], said: str) -> None:
    seen = run(*PFS, "run", *options, "--", "sh", "-c", f"kill -{name} $$")
    assert seen.returncode == -getattr(signal, f"SIG{name}")
    assert said in seen.stderr


def test_signals_are_passed_on(tmp_path: Path) -> None:
    script = (
        f"import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(9)); open('{tmp_path}/on', 'w')\n"
        "while True: time.sleep(0.1)"
    )
    child = subprocess.Popen([*PFS, "run", "--no-report", "--", sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while not (tmp_path / "on").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.terminate()
    assert child.wait(60) == 9


def test_standard_streams_and_arguments_are_the_program_s_own() -> None:
    seen = run(*PFS, "run", "--no-report", "--", "sh", "-c", 'cat; echo "$0 $1" >&2', "zero", "-o --json", input="text")
    assert (seen.stdout, seen.stderr) == ("text", "zero -o --json\n")


def test_children_that_are_not_wanted_have_no_segment(programs: Path, tmp_path: Path) -> None:
    command = ["sh", "-c", "cat /dev/null; cat /dev/null"]
    assert len(report_of(tmp_path, *command)["processes"]) >= 3
    assert len(report_of(tmp_path, *command, options=("--children", "none"))["processes"]) == 1
    assert run(*PFS, "run", "--no-report", "--children", "none", "--", "sh", "-c", "env").stdout.count("LD_PRELOAD") == 0


# ---- What cannot be seen


def test_a_static_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "static.c").write_text('#include <stdio.h>\nint main(void) { puts("static"); return 3; }')
    subprocess.run(["cc", "-static", "-o", tmp_path / "static", tmp_path / "static.c"], check=True)
    refused = run(*PFS, "run", "--", tmp_path / "static")
    assert refused.returncode == 2
    assert "statically linked" in refused.stderr
    assert refused.stdout == ""
    forced = run(*PFS, "run", "--force", "--", tmp_path / "static")
    assert (forced.returncode, forced.stdout) == (3, "static\n")


def test_bad_command_lines() -> None:
    assert "there is no such program: nosuch" in run(*PFS, "run", "--", "nosuch").stderr
    wrong = run(*PFS, "run", "--only", "lokcs", "--", "true")
    assert (wrong.returncode, "legal are locks, files, sockets, statements, waits, memory" in wrong.stderr) == (2, True)


def test_a_file_of_python_is_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that may not be executed: its first line names the interpreter, else the one of pfs runs it."""
    monkeypatch.chdir(tmp_path)
    said = "import sys; print(sys.argv, sys.orig_argv[0])\n"
    app = tmp_path / "app.py"
    app.write_text(said)
    for name in ("app.py", "./app.py", str(app)):
        done = run(*PFS, "run", name, "-x")
        assert done.stdout == f"{[name, '-x']} {sys.executable}\n", done.stderr
        assert f"pfs run: {name} -x: 1 process" in done.stderr
    app.write_text(f"#!/usr/bin/env {Path(sys.executable).name}\n{said}")
    found = shutil.which(Path(sys.executable).name)
    assert run(*PFS, "run", "app.py").stdout == f"['app.py'] {found}\n"
    app.write_text('#!/bin/sh\necho "a program: $0"\n')
    app.chmod(0o755)
    assert run(*PFS, "run", "app.py").stdout == "a program: ./app.py\n"
    (tmp_path / "bin").mkdir()
    app.rename(tmp_path / "bin/app.py")
    app.write_text("print('here')")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert run(*PFS, "run", "app.py").stdout == f"a program: {tmp_path}/bin/app.py\n"
    assert "there is no such program: none.py" in run(*PFS, "run", "none.py").stderr


def test_a_shim_of_pyenv_is_the_program_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the processes of its scripts, in the environment that they make."""
    for folder in ("shims", "libexec", "versions/9/bin"):
        (tmp_path / folder).mkdir(parents=True)
    files = {
        "shims/tool": f'#!/bin/bash\nset -e\nprogram="${{0##*/}}"\nexec "{tmp_path}/libexec/pyenv" exec "$program" "$@"\n',
        "libexec/pyenv": f"""#!/usr/bin/env bash
[ -z "$BROKEN" ] || {{ echo "version 9 is not installed" >&2; exit 1; }}
export PYENV_ROOT="{tmp_path}" PYENV_VERSION=$(echo 9) LINES_OF="a
b"
path="{tmp_path}/versions/9/bin/$2"
[ $1 = exec ] || {{ echo "$path"; exit; }}
shift
[ -x "$path" ] || exec "$@"
export PATH="{tmp_path}/versions/9/bin:$PATH"
exec "$path" "${{@:2}}"
""",
        "versions/9/bin/tool": '#!/bin/sh\necho "$PYENV_VERSION ${PATH%%:*} $LINES_OF $*"; exit 3\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/shims:{os.environ['PATH']}")
    done = run(*PFS, "run", "--", "tool", "x y", "z")
    assert (done.returncode, done.stdout) == (3, f"9 {tmp_path}/versions/9/bin a\nb x y z\n")
    assert "pfs run: tool x y z: 1 process\n" in done.stderr
    monkeypatch.setenv("BROKEN", "1")
    done = run(*PFS, "run", "--no-report", "--", "tool")
    assert (done.returncode, done.stderr) == (1, "version 9 is not installed\n")


# ---- The numbers


def test_locks_agree_with_a_counting_library(programs: Path, tmp_path: Path) -> None:
    with open(tmp_path / "counts", "w") as file:
        os.set_inheritable(file.fileno(), True)
        environment = os.environ | {"LD_PRELOAD": str(programs / "count_locks.so"), "COUNT_LOCKS": str(file.fileno())}
        run(programs / "locks", env=environment, close_fds=False, check=True)
    lock, trylock, read, write, spin, semaphore, barrier = map(int, (tmp_path / "counts").read_text().split())
    for options in ((), ("--all-on",)):
        report = report_of(tmp_path, programs / "locks", options=options)
        rows = [*report["locks"], *report["conditions"], *report["idle"]]
        assert {row["name"].removeprefix("wait/synch/"): row["count"] for row in rows} == {
            "mutex/locks/named_lock": lock,
            "mutex/locks/made_lock": trylock,
            "rwlock/locks/table_lock": read + write,
            "mutex/locks/spin-spin": spin,
            "cond/locks/sem-tokens": semaphore,
            "cond/locks/barrier-barrier": barrier,
        }


def test_holds_of_an_unchanged_program(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer lock_holds counts each lock that was taken to write and released: locks.c knows how often that is."""
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_consumer_lock_holds=ON")
    _, segment = kept(tmp_path, programs / "locks")
    with pfs.attach(str(segment)) as schema:
        holds = schema.table("lock_holds_summary_global_by_event_name")
        readable = Readable(schema._source)
        names = [readable.name(name).removeprefix("wait/synch/") for name in holds["EVENT_NAME"]]
    assert (holds["MIN_TIMER_HOLD"] > 0).all()
    assert holds["LONGEST_SOURCE"].str.startswith("locks+0x").all()
    found = dict(zip(names, holds["COUNT_HOLD"].tolist(), strict=True))
    assert 0 < found.pop("mutex/locks/made_lock") <= 2000  # it is tried
    assert found == dict.fromkeys(("mutex/locks/named_lock", "mutex/locks/spin-spin", "rwlock/locks/table_lock"), 2000)


def traced(tmp_path: Path, *command: str | Path) -> dict[str, list[int]]:
    """Returns reads, bytes, writes, bytes of each file, as strace sees them."""
    file = tmp_path / "strace"
    calls = "read,pread64,readv,write,pwrite64,writev"
    run("strace", "-f", "-y", "-s", "0", "-e", f"trace={calls}", "-o", file, *command, check=True)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for line in file.read_text().splitlines():
        match = re.match(r"\d+ +(p?)(read|write)\w*\(\d+<([^>]+)>.* = (\d+)$", line)
        if match is not None:
            at = 0 if match[2] == "read" else 2
            sums[match[3]][at] += 1
            sums[match[3]][at + 1] += int(match[4])
    return sums


def recorded(report: dict[str, Any]) -> dict[str, list[int]]:
    return {row["file"]: [row["reads"], row["bytes_read"], row["writes"], row["bytes_written"]] for row in report["files"]}


@pytest.mark.parametrize("before", [0, 1])
def test_a_program_that_may_not_truncate_is_recorded(programs: Path, tmp_path: Path, before: int) -> None:
    """A sandbox (Landlock) forbids ftruncate: from the first event on, or when the segment is there and has to grow."""
    files, folder = 3000, tmp_path / "files"
    folder.mkdir()
    if run(programs / "sandboxed", folder, "0", "0").returncode == 77:
        pytest.skip("needs Landlock of version 3")
    report = report_of(tmp_path, programs / "sandboxed", folder, str(files), str(before))
    assert len(report["files"]) == 1000  # of the report's limit
    assert {tuple(numbers[2:]) for numbers in recorded(report).values()} == {(1, 7)}
    assert [row["count"] for row in report["classes"] if row["class"] == "files"] == [3 * files + 1]  # and truncate


@pytest.mark.needs("strace", "xz")
def test_xz_agrees_with_strace(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 20))
    command = ["xz", "-T1", "-0", "-k", "-f", str(data)]
    expected = traced(tmp_path, *command)
    content = Path(f"{data}.xz").read_bytes()
    got = recorded(report_of(tmp_path, *command))
    for name in (str(data), f"{data}.xz"):
        assert got[name] == expected[name]
    assert expected[str(data)][1] == 1 << 20
    assert Path(f"{data}.xz").read_bytes() == content


def test_a_pipe_has_the_name_that_the_kernel_gives_it(tmp_path: Path) -> None:
    """Standard output is a pipe here: it has no path."""
    report = report_of(tmp_path, sys.executable, "-c", "import os; os.write(1, b'xyz')")
    pipes = [row["bytes_written"] for row in report["files"] if re.fullmatch(r"pipe:\[\d+\]", row["file"])]
    assert sum(pipes) == 3


@pytest.mark.needs("strace", "sqlite3")
def test_sqlite_agrees_with_strace_and_shows_its_statements(tmp_path: Path) -> None:
    base = tmp_path / "base.db"
    inserts = "".join(f"insert into t values ({i}, 'x');" for i in range(30))
    sql = f"create table t(a integer primary key, b); {inserts} insert into t values (1, 'twice'); select * from t where a < 5;"
    done = run("strace", "-f", "-o", tmp_path / "unused", "sqlite3", base, sql)
    assert "UNIQUE constraint" in done.stderr
    code = done.returncode
    base.unlink()
    file = tmp_path / "strace"
    run("strace", "-f", "-y", "-s", "0", "-e", "trace=read,pread64,write,pwrite64", "-o", file, "sqlite3", base, sql)
    expected = [0, 0, 0, 0]
    for line in file.read_text().splitlines():
        if match := re.match(rf"\d+ +p?(read|write)\w*\(\d+<{re.escape(str(base))}>.* = (\d+)$", line):
            at = 0 if match[1] == "read" else 2
            expected[at] += 1
            expected[at + 1] += int(match[2])
    base.unlink()
    report = report_of(tmp_path, "sqlite3", base, sql, code=code)
    assert recorded(report)[str(base)] == expected
    assert expected[2] > 30
    statements = {row["digest_text"]: row for row in report["statements"]}
    insert = statements["INSERT INTO `t` VALUES (...)"]
    assert (insert["count"], insert["rows_affected"], insert["errors"]) == (31, 30, 1)


def test_statements_of_a_stock_python(tmp_path: Path) -> None:
    """Its sqlite3 module is loaded by dlopen. Two cursors run at the same time."""
    script = (
        "import sqlite3; c = sqlite3.connect(':memory:'); c.execute('create table t(a)');"
        "c.executemany('insert into t values(?)', [(i,) for i in range(100)]);"
        "x = c.execute('select a from t where a < 10'); y = c.execute('select a, a from t');"
        "print(sum(1 for pair in zip(x, y)), c.execute('update t set a = a + 1').rowcount, len(list(y)));"
        "c.commit(); d = sqlite3.connect(':memory:'); c.backup(d)"
    )
    plain = run("/usr/bin/python3", "-c", script) if os.path.exists("/usr/bin/python3") else run(sys.executable, "-c", script)
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    seen = run(*PFS, "run", "--no-report", "--", python, "-c", script)
    assert (seen.stdout, seen.returncode) == (plain.stdout, 0)
    rows = {row["digest_text"]: row for row in report_of(tmp_path, python, "-c", script)["statements"]}
    assert rows["INSERT INTO `t` VALUES (?)"]["rows_affected"] == 100
    assert rows["SELECT `a` FROM `t` WHERE `a` < ?"]["rows_sent"] == 10
    assert rows["UPDATE `t` SET `a` = `a` + ?"]["rows_affected"] == 100


# ---- The library


def imported() -> set[str]:
    """What the library takes from the program and its C library: name, or name@VERSION."""
    lines = run("nm", "-D", "--undefined-only", LIBRARY, check=True).stdout.splitlines()
    return {line.split()[-1].replace("@@", "@") for line in lines}


def listed() -> tuple[set[str], set[str], set[str]]:
    """The functions that the library replaces, those of them that a C library may lack, and those that it only calls."""
    replaced, _, borrowed = (ROOT / "cpp/run/loader/functions.def").read_text().partition("// ---- Called only")
    row = re.compile(r"^CALL\((?:BOTH|RUN|(NEW)\([\d.]+\)), \(\w*\), \w+, [^,]+,\s+(\w+),", re.MULTILINE)
    rows = row.findall((ROOT / "cpp/src/capi/calls.def").read_text())
    names = set(re.findall(r"FUNCTION\((\w+)\)", replaced)) - {"name"} | {name for _, name in rows}
    newer = set(re.findall(r"VERSION\((\w+), [\d.]+\)", replaced)) | {name for new, name in rows if new}
    return names, newer, set(re.findall(r"FUNCTION\((\w+)\)", borrowed))


def test_the_library_calls_no_function_that_it_replaces() -> None:
    """A call of the core that went through the PLT would meet the replacement, and an allocation the program's allocator."""
    replaced, _, borrowed = listed()
    assert len(replaced) > 100
    assert len(borrowed) > 10
    allocators = {"malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign", "_Znwm", "_ZdlPv"}
    symbols = run("nm", "-D", "--defined-only", LIBRARY, check=True).stdout.splitlines()
    wanted = {name.split("@")[0] for name in imported()}
    shown = {line.split()[-1].split("@")[0] for line in symbols if line.split()[-2] in ("T", "W", "i")}
    assert wanted & (replaced | borrowed | allocators) == set()
    clients = re.compile(r"^PFS_REPLACES .*?\b(\w+)\(", re.MULTILINE)
    of_clients = {
        name
        for file in ("protocols/libpq", "protocols/mysql", "protocols/sqlite", "python/python_module")
        for name in clients.findall((ROOT / f"cpp/run/{file}.cpp").read_text())
    }
    openmp = (ROOT / "cpp/run/calls/openmp.cpp").read_text()
    of_clients |= set(re.findall(r'"G?OMP_[\d.]+",(?: \w+,)? (\w+)[,)]', openmp))
    of_clients |= set(re.findall(r"\b__kmpc_\w+", (ROOT / "cpp/run/calls/openmp_llvm.cpp").read_text())) - {"__kmpc_"}
    shown -= {"pfs_run_allocated", "pfs_run_freed", "pfs_run_bind_calls"}  # for libperfschema-run-memory.so
    shown -= {"pfs_run_join", "pfs_run_leave"}  # for pfs join
    assert shown - of_clients == replaced
    assert of_clients <= shown


def test_the_library_starts_in_a_program_with_an_older_c_library() -> None:
    """A reference to a version that the C library lacks, or to a library that is not there, would end the program at its start.

    The list of what may be taken is complete. All of it is in glibc 2.17, in the C library itself and not in libpthread or libdl.
    """
    allowed = set((ROOT / "tests/golden/run_imports.txt").read_text().split())
    assert imported() - allowed == set()
    assert all(tuple(map(int, version.split("."))) <= (2, 17) for version in re.findall(r"@GLIBC_([\d.]+)", "\n".join(allowed)))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", LIBRARY, check=True).stdout)
    assert needed == ["libc.so.6", "ld-linux-x86-64.so.2"]


def test_a_program_without_events_has_no_segment(tmp_path: Path) -> None:
    report = report_of(tmp_path, "/bin/true")
    assert report["processes"] == []


def test_a_running_program_is_found_by_its_number(tmp_path: Path) -> None:
    script = f"open('{tmp_path}/on', 'w').close(); import time; time.sleep(60)"
    child = subprocess.Popen([*PFS, "run", "--no-report", "--", sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while not (tmp_path / "on").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        there = pfs.processes()
        assert list(there["STATE"]) == ["alive"]
        pid = int(there["PID"].iloc[0])
        with pfs.attach(pid) as schema:
            assert f"{tmp_path}/on" in set(schema.table("file_summary_by_instance")["FILE_NAME"])
    finally:
        child.terminate()
        child.wait(60)


def test_the_start_touches_few_pages() -> None:
    """Tables of megabytes must not be filled at the start: a page fault costs more than all the rest of it."""
    script = "import os, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
    plain = int(run(sys.executable, "-S", "-c", script).stdout)
    seen = int(run(sys.executable, "-S", "-c", script, env=os.environ | {"LD_PRELOAD": str(LIBRARY), "PFS_OPTIONS": OFF}).stdout)
    assert seen - plain < 250
