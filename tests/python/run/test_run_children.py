"""Programs that a recorded program starts run as without ``pfs run``, whatever they are; where they can be seen, they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.python.run.test_run import PFS, SOURCES, pytestmark

__all__ = ["pytestmark"]  # test_run's mark holds here, too

CHILD = """
#include <stdio.h>
int main(int n, char** a) { printf("%s %d\\n", a[n - 1], n); fprintf(stderr, "here\\n"); return 40 + n; }"""


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "starts"
    subprocess.run(["cc", "-O1", "-o", path, SOURCES / "starts.c"], check=True)
    return path


def run(tmp_path: Path, *command: str | Path, pfs_options: tuple[str, ...] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command, under ``pfs run`` if there are options. Programs of tmp_path are in PATH."""
    environment = os.environ | {"PFS_DIR": str(tmp_path / "segments"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    before = [] if pfs_options is None else [*PFS, "run", *pfs_options, "--"]
    return subprocess.run([*before, *command], env=environment, capture_output=True, text=True, timeout=240)


def report_of(tmp_path: Path, *command: str | Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    file = tmp_path / "report.json"
    done = run(tmp_path, *command, pfs_options=("--json", "-o", str(file)))
    report: dict[str, Any] = json.loads(file.read_text())
    return done, report


def child(tmp_path: Path, kind: str) -> Path:
    """Returns a program that says which arguments it has, of a kind; the test is skipped where it cannot be made."""
    (tmp_path / "child.c").write_text(CHILD)
    made = tmp_path / "child"
    commands = {
        "dynamic": ["cc"],
        "static": ["cc", "-static"],
        "setuid": ["cc"],
        "32 bits": ["cc", "-m32"],
        "musl": ["musl-gcc"],
        "address sanitizer": ["cc", "-fsanitize=address"],
        "script of musl": ["musl-gcc"],
    }
    if kind == "script":
        made.write_text('#!/bin/sh\necho "$2" 3\necho here >&2\nexit 43\n')
        made.chmod(0o755)
        return made
    if shutil.which(commands[kind][0]) is None:
        pytest.skip(f"{commands[kind][0]} is not installed")
    if subprocess.run([*commands[kind], "-o", made, tmp_path / "child.c"], capture_output=True).returncode != 0:
        pytest.skip(f"{' '.join(commands[kind])} does not work here")
    if kind == "setuid":
        if os.geteuid() != 0:
            pytest.skip("only root can make a program of another user")
        tmp_path.chmod(0o755)
        os.chown(made, 65534, 65534)
        made.chmod(0o4755)
    if kind == "script of musl":
        interpreter = made.rename(tmp_path / "interpreter")
        made.write_text(f"#!{interpreter} option\n")
        made.chmod(0o755)
    return made


@pytest.mark.parametrize(
    "kind", ["dynamic", "static", "setuid", "script", "32 bits", "musl", "script of musl", "address sanitizer"]
)
def test_a_child_of_any_kind_runs_as_without(starts: Path, tmp_path: Path, kind: str) -> None:
    made = child(tmp_path, kind)
    plain = run(tmp_path, starts, made)
    assert plain.stdout.count(": 43\n") + plain.stdout.count(": 45\n") >= 12
    done, report = report_of(tmp_path, starts, made)
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, 0)
    assert report["lost"] == {}
    commands = [row["command"] for row in report["processes"]]
    seen = sum(command.startswith(("child", "/bin/sh")) or str(made) in command for command in commands)
    # `starts` itself and its shells are always seen.
    assert seen >= 10 if kind in ("dynamic", "script") else seen <= 4, commands
    # The others are counted, each once. A child with an environment of its own is one of them in any case.
    counted = sum(row["count"] for row in report["unrecorded"])
    assert counted == (1 if kind in ("dynamic", "script") else plain.stderr.count("here")), report["unrecorded"]


def test_a_process_that_runs_another_program_keeps_both_segments(tmp_path: Path) -> None:
    """The shell becomes cat: same process, another program."""
    (tmp_path / "text").write_text("text")
    command = ["sh", "-c", f"read line < {tmp_path}/text; exec cat {tmp_path}/text"]
    done, report = report_of(tmp_path, *command)
    assert done.stdout == "text"
    assert len(report["processes"]) == 2
    assert len({row["pid"] for row in report["processes"]}) == 1
    assert next(row["reads"] for row in report["files"] if row["file"] == f"{tmp_path}/text") >= 3  # of both
    done = run(tmp_path, *command, pfs_options=("--keep", "--no-report"))
    folder = re.findall(r"Segments: (.*)", done.stderr)[0]
    tree = subprocess.run([*PFS, "ps", "--tree", "--dir", folder], capture_output=True, text=True, check=True).stdout
    assert re.search(r"  sh -c .*\n.*    cat ", tree), tree


def test_a_library_that_is_loaded_apart_is_seen_or_reported(tmp_path: Path) -> None:
    (tmp_path / "plugin.c").write_text('#include <unistd.h>\nvoid use(int fd) { (void)!write(fd, "abc", 3); }')
    (tmp_path / "loads.c").write_text(
        """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <unistd.h>
        int main(int count, char** arguments) {
          int fd = open(arguments[2], O_CREAT | O_WRONLY, 0644);
          void* library = dlopen(arguments[1], (count > 4 ? RTLD_LAZY : RTLD_NOW) | (count > 3 ? RTLD_DEEPBIND : 0));
          if (library == NULL) return 2;
          ((void (*)(int))dlsym(library, "use"))(fd);
          return close(fd);
        }"""
    )
    subprocess.run(["cc", "-o", tmp_path / "loads", tmp_path / "loads.c", f"-Wl,-rpath,{tmp_path}"], check=True)
    for linked in ("-z", "now"), ("-z", "lazy"):
        command: list[str | Path] = ["cc", "-shared", "-fPIC", *linked, "-o", tmp_path / "plugin.so", tmp_path / "plugin.c"]
        subprocess.run(command, check=True)
        for name, more in (
            (f"{tmp_path}/plugin.so", ()),
            (f"{tmp_path}/plugin.so", ("deep",)),
            (f"{tmp_path}/plugin.so", ("deep", "lazy")),
            ("plugin.so", ("deep",)),  # found by the program's own search path
        ):
            done, report = report_of(tmp_path, tmp_path / "loads", name, tmp_path / "file", *more)
            assert done.returncode == 0
            is_seen = "/" in name
            writes = next(row["writes"] for row in report["files"] if row["file"] == f"{tmp_path}/file")
            assert writes == (1 if is_seen else 0)
            assert ["plugin.so has been loaded apart" in note for note in report["notes"]] == ([] if is_seen else [True])


def test_children_of_a_server_that_overwrites_its_environment_are_in_the_run(tmp_path: Path) -> None:
    """A title that ps shows goes over the arguments and the environment: nginx, PostgreSQL and others do that."""
    (tmp_path / "titled.c").write_text(
        """
        #include <fcntl.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char** environ;
        int main(int count, char** arguments) {
          int fd = open(arguments[1], O_CREAT | O_WRONLY, 0644), status;
          if (chdir("/") != 0 || write(fd, "p", 1) != 1) return 1;
          for (char** each = environ; *each != NULL; ++each) memset(*each, 'x', strlen(*each));
          environ[0] = NULL;
          for (int i = 0; i < 3; ++i) {
            if (fork() == 0) _exit(write(fd, "child", 5) != 5);
            wait(&status);
            if (status != 0) return 2;
          }
          return 40 + count;
        }"""
    )
    subprocess.run(["cc", "-O1", "-o", tmp_path / "titled", tmp_path / "titled.c"], check=True)
    done, report = report_of(tmp_path, tmp_path / "titled", tmp_path / "file")
    assert done.returncode == 42
    assert len(report["processes"]) == 4
    assert next(row["writes"] for row in report["files"] if row["file"] == str(tmp_path / "file")) == 4


def test_a_handler_of_fork_that_takes_a_lock_meets_no_lock_of_pfs(tmp_path: Path) -> None:
    """redis with jemalloc stood still: pfs held its own lock while jemalloc's handler waited for a thread that waited for pfs."""
    library, program = tmp_path / "libforklocks.so", tmp_path / "fork_locks"
    source, linked = SOURCES / "fork_locks.c", (f"-L{tmp_path}", "-lforklocks", f"-Wl,-rpath,{tmp_path}", "-lpthread")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-DLIBRARY", "-o", library, source], check=True)
    subprocess.run(["cc", "-O1", "-o", program, source, *linked], check=True)
    done = subprocess.run(
        [*PFS, "run", "--no-report", "--all-on", "--", program, "300"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "300\n"), done.stderr


@pytest.mark.parametrize("kind", ["shared", "waited_for", "copied", "raw_fork", "raw_clone", "_Fork"])
def test_a_child_that_no_fork_made_is_not_recorded_and_disturbs_nothing(tmp_path: Path, kind: str) -> None:
    """One that shares its parent's memory left it with all signals blocked; one with a copy of it wrote to its parent's rows."""
    program, segments = tmp_path / "clones", tmp_path / "segments"
    subprocess.run(["cc", "-O1", "-o", program, SOURCES / "clones.c"], check=True)
    done = run(tmp_path, "timeout", "60", program, kind, pfs_options=("--keep",))
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    opened = int(done.stdout.splitlines()[0])
    files = [
        row
        for path in segments.rglob("*.pfs")
        for row in pfs.attach(path).table("file_summary_by_instance").to_dict("records")
        if row["FILE_NAME"] == "/dev/null"
    ]
    assert [row["COUNT_STAR"] for row in files] == [2 * opened]
