"""Counts and bytes of files against what the kernel saw: strace is the judge."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import pfs
from pfs import _core, demo
from tests.python._programs.fresh_process import environment

STRACE = shutil.which("strace")


def strace_works() -> bool:
    if STRACE is None:
        return False
    return subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not strace_works(), reason="needs strace and the right to trace")


@dataclass
class Truth:
    """What the kernel did for one file."""

    reads: int = 0
    bytes_read: int = 0
    writes: int = 0
    bytes_written: int = 0
    others: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def four(self) -> tuple[int, int, int, int]:
        return self.reads, self.bytes_read, self.writes, self.bytes_written


READS, WRITES = ("read", "pread64", "readv", "preadv"), ("write", "pwrite64", "writev", "pwritev")
_CALL = re.compile(r'^(\w+)\((?:(\d+)<([^>]*)>(?:\(deleted\))?|AT_FDCWD(?:<[^>]*>)?, "([^"]*)")?.*\)\s+= (-?\d+)')


def parse(line: str, truth: dict[str, Truth]) -> None:
    """Adds one line of strace -y to the truth."""
    match = _CALL.match(line)
    if match is None:
        return
    call, _, by_descriptor, by_name, result = match.groups()
    file = truth[by_descriptor if by_descriptor is not None else by_name if by_name is not None else ""]
    number = max(int(result), 0)
    if call in READS:
        file.reads += 1
        file.bytes_read += number
    elif call in WRITES:
        file.writes += 1
        file.bytes_written += number
    else:
        file.others[call] += 1


def traced(folder: Path, command: list[str], env: dict[str, str], names: str = "") -> tuple[str, dict[str, Truth]]:
    """Runs a command under strace. Gives its output and what it did to each file."""
    assert STRACE is not None
    calls = "trace=%file,read,write,pread64,pwrite64,readv,writev,openat,close,lseek,fsync,ftruncate"
    folder.mkdir()
    # A file for each thread: no call is interrupted by another thread's line.
    done = subprocess.run(
        [STRACE, "-ff", "-y", "-qq", "-s", "0", "-e", calls, "-e", "signal=none", "-o", str(folder / "trace"), *command],
        input=names,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    truth: dict[str, Truth] = defaultdict(Truth)
    for part in folder.iterdir():
        for line in part.read_text().splitlines():
            assert "unfinished" not in line, line
            parse(line, truth)
    return done.stdout, truth


def by_file(truth: dict[str, Truth]) -> dict[str, Truth]:
    """The same by resolved path: strace names a file of a call as it was named, that of a descriptor by the end of all links."""
    found: dict[str, Truth] = defaultdict(Truth)
    for name, part in truth.items():
        file = found[os.path.realpath(name) if name.startswith("/") else name]
        file.reads += part.reads
        file.bytes_read += part.bytes_read
        file.writes += part.writes
        file.bytes_written += part.bytes_written
        for call, count in part.others.items():
            file.others[call] += count
    return found


def summary(rows: list[tuple[str, int, int, int, int]]) -> dict[str, tuple[int, int, int, int]]:
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in rows}


COLUMNS = ("FILE_NAME", "COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE")


def run_demo(tmp_path: Path, files: list[str], threads: int) -> None:
    program = str(Path(demo.__file__).with_name("bin") / "pfs-demo-index")
    out = tmp_path / "out"
    out.mkdir(mode=0o700)
    command = [program, "--threads", str(threads), "--out", str(out), "-"]
    output, truth = traced(tmp_path / "strace", command, environment(out, PFS_KEEP="1"), "\n".join(files))
    segment = _core.Segment(next(line[8:] for line in output.splitlines() if line.startswith("segment ")))
    shown = summary(_core.rows("file_summary_by_instance", COLUMNS, segment))

    index = str(out / "index.txt")
    assert set(shown) == {*files, index}
    # A file that has several names is a row for each of them, and one file for the kernel.
    names: dict[str, list[str]] = defaultdict(list)
    for name in shown:
        names[os.path.realpath(name)].append(name)
    truth = by_file(truth)
    sums = {file: tuple(map(sum, zip(*(shown[name] for name in of_file), strict=True))) for file, of_file in names.items()}
    assert {file: four for file, four in sums.items() if four != truth[file].four()} == {}
    for name in files:
        # Opened once and closed once under each name, read whole.
        times = len(names[os.path.realpath(name)])
        assert truth[os.path.realpath(name)].others == {"openat": times, "close": times}
        assert shown[name][1] == os.stat(name).st_size
        assert shown[name][2:] == (0, 0)
    assert shown[index][1] == shown[index][3] == os.stat(index).st_size
    # The same sums in the table by event name, and every call is an event.
    by_name = {
        row[0]: row[1:] for row in _core.rows("file_summary_by_event_name", ("EVENT_NAME", *COLUMNS[1:], "COUNT_STAR"), segment)
    }
    source = by_name["wait/io/file/demo/source"]
    assert source[:4] == tuple(sum(shown[name][i] for name in files) for i in range(4))
    assert source[4] == source[0] + 2 * len(files)
    instances = _core.rows("file_instances", ("FILE_NAME", "OPEN_COUNT"), segment)
    assert set(instances) == {(name, 0) for name in shown}
    status = _core.rows("global_status", ("VARIABLE_NAME", "VARIABLE_VALUE"), segment)
    assert {value for name, value in status if name.endswith("_lost")} == {"0"}


def test_parser_of_strace_counts_what_it_should() -> None:
    """The judge is right: calls, bytes, failures, names."""
    truth: dict[str, Truth] = defaultdict(Truth)
    for line in (
        'openat(AT_FDCWD</tmp>, "/a/b.py", O_RDONLY|O_CLOEXEC) = 3</a/b.py>',
        'read(3</a/b.py>, ""..., 65536)          = 70',
        'read(3</a/b.py>, "", 65536)             = 0',
        'pwrite64(4</a/c>(deleted), ""..., 10, 0) = -1 EBADF (Bad file descriptor)',
        "close(3</a/b.py>)                       = 0",
        "+++ exited with 0 +++",
        "exit_group(0)                           = ?",
    ):
        parse(line, truth)
    assert truth["/a/b.py"].four() == (2, 70, 0, 0)
    assert truth["/a/b.py"].others == {"openat": 1, "close": 1}
    assert truth["/a/c"].four() == (0, 0, 1, 0)


def test_demo_on_a_small_tree_agrees_with_strace(tmp_path: Path) -> None:
    """Every file of a copied part of the standard library, with an empty file, a big one, and links."""
    root = tmp_path / "root"
    shutil.copytree(Path(demo.standard_library()) / "json", root / "json", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(demo.standard_library()) / "email", root / "email", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "empty.py").write_text("")
    (root / "with blanks, and üñí.py").write_text("x = 1\n")
    (root / "big.py").write_text("word other\n" * 200_000)
    (root / "link.py").symlink_to("big.py")
    (tmp_path / "elsewhere.py").write_text("y = 2\n")
    (root / "json/outside.py").symlink_to("../../elsewhere.py")
    (root / "again").symlink_to("json")  # a folder: os.walk() does not enter it
    files = [name for name in demo.python_files(root) if name.isascii()]
    assert len(files) > 20
    run_demo(tmp_path, files, 4)


def test_demo_on_the_standard_library_agrees_with_strace(tmp_path: Path) -> None:
    """Every file of the running Python's standard library."""
    files = demo.python_files()
    assert len(files) > 500
    run_demo(tmp_path, files, 3)


PYTHON = """
import json, os, sys, threading
import pfs
from pfs import _core
os.chdir(sys.argv[1])
def use(number):
    with pfs.open(f"text{number}", "w", name="truth/text") as f:
        for i in range(3000):
            f.write(f"line {i} of {number}\\n")
    with pfs.open(f"text{number}", name="truth/text") as f:
        for line in f:
            pass
    with pfs.open(f"text{number}", encoding="utf-8", newline="", name="truth/text") as f:
        f.read(10); f.seek(0); f.readline(); f.read()
    with pfs.open(f"binary{number}", "wb", name="truth/binary") as f:
        f.write(b"x" * 100000); f.write(b"y" * 10); f.flush(); f.write(b"z")
    with pfs.open(f"binary{number}", "rb", name="truth/binary") as f:
        f.read(10); f.peek(); f.seek(-5, 2); f.read(); f.read()
    with pfs.open(f"binary{number}", "rb", buffering=0, name="truth/binary") as f:
        f.read(); f.seek(0); f.read(7); f.readinto(bytearray(99))
    with pfs.open(f"binary{number}", "r+b", name="truth/binary") as f:
        f.read(3); f.write(b"abc"); f.seek(50000); f.read(20000); f.write(b"d" * 9000); f.truncate(90000)
    with pfs.open(f"text{number}", "a+", name="truth/text") as f:
        f.write("end"); f.seek(0); f.read()
    with pfs.open(f"new{number}", "x", name="truth/text") as f:
        pass
threads = [threading.Thread(target=use, args=(i,)) for i in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
columns = ("FILE_NAME", "COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE", "COUNT_MISC")
print(json.dumps(_core.rows("file_summary_by_instance", columns, None)))
events = _core.rows("events_waits_history_long", ("OBJECT_NAME", "OPERATION"), None)
print(json.dumps([event for event in events if event[1] == "seek"]))
"""


def test_pfs_open_agrees_with_strace(tmp_path: Path) -> None:
    """pfs.open in Python: text and binary, buffered and not, read, write, append, update, in three threads."""
    work = tmp_path / "work"
    work.mkdir()
    output, truth = traced(tmp_path / "strace", [sys.executable, "-W", "error", "-c", PYTHON, str(work)], environment(tmp_path))
    rows, _ = [json.loads(line) for line in output.splitlines()]
    shown = summary([tuple(row[:5]) for row in rows])
    assert set(shown) == {str(work / f"{name}{i}") for name in ("text", "binary", "new") for i in range(3)}
    assert {name: (four, truth[name].four()) for name, four in shown.items() if four != truth[name].four()} == {}
    for name, (_, bytes_read, _, bytes_written) in shown.items():
        assert (bytes_read > 0) == (bytes_written > 0) == (os.stat(name).st_size > 0)
    assert pfs.__version__
