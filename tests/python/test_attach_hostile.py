"""Segments that cannot be trusted: cut short, with holes, of another version, not segments at all (issue 5, must hold 3).

A reader gets rows or an AttachError that says what is wrong: no signal, no waiting, and nothing is stored to the file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests.conftest import Build, Run
from tests.python.test_programs import Talker, environment, rows, status_of

# ShmHeader: docs/shm_layout.md.
MAJOR, MINOR, SEGMENT_BYTES = 8, 12, 24
PAGE = 4096


@pytest.fixture(scope="module")
def offsets(root: Path) -> dict[str, int]:
    """Where fields of the header are: from the page that the C++ tests compare with the compiler's numbers."""
    cells = [
        line.split("|") for line in (root / "docs/shm_layout.md").read_text().splitlines() if line.startswith("| ShmHeader |")
    ]
    return {row[2].strip(): int(row[3]) for row in cells}


@pytest.fixture(scope="module")
def arrays(root: Path) -> list[str]:
    """Names of the arrays in the order of the directory."""
    return re.findall(r"^  X\(k(\w+), +Shm", (root / "cpp/src/shm/layout.h").read_text(), re.MULTILINE)


def allocated(path: Path) -> int:
    return os.stat(path).st_blocks * 512


def sparse_copy(source: Path, target: Path) -> Path:
    """With the same holes."""
    with open(source, "rb") as a, open(target, "wb") as b:
        os.ftruncate(b.fileno(), os.stat(source).st_size)
        at = 0
        while True:
            try:
                at = os.lseek(a.fileno(), at, os.SEEK_DATA)
            except OSError:
                return target
            end = os.lseek(a.fileno(), at, os.SEEK_HOLE)
            os.pwrite(b.fileno(), os.pread(a.fileno(), end - at, at), at)
            at = end


@pytest.fixture(scope="module")
def segment(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The segment of a program that was killed in the middle of its work, in a file system of memory."""
    folder = tmp_path_factory.mktemp("killed")
    place = Path(f"/dev/shm/pfs-test-{os.getpid()}")
    place.mkdir(mode=0o700)
    try:
        with subprocess.Popen(
            [build("checked"), folder, "0"], env=environment(place), stdout=subprocess.PIPE, text=True
        ) as process:
            Talker(process).until("working")
            time.sleep(0.3)
            process.kill()
        yield next(place.glob("*.pfs"))
    finally:
        shutil.rmtree(place)


@pytest.fixture
def copy(segment: Path) -> Iterator[Path]:
    path = sparse_copy(segment, segment.with_name("copy"))
    yield path
    path.unlink(missing_ok=True)


def put(path: Path, at: int, layout: str, *numbers: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(struct.pack(layout, *numbers))


def get(path: Path, at: int, layout: str) -> tuple[int, ...]:
    with open(path, "rb") as file:
        file.seek(at)
        return struct.unpack(layout, file.read(struct.calcsize(layout)))


def read_all(path: Path) -> dict[str, int]:
    """Rows of every table."""
    opened = _core.Segment(str(path))
    return {table: _core.read(table, None, opened)[0] for table in _core.tables()}


# ---- Reading never writes ----------------------------------------------------------------------------------------------------


def test_reading_gives_the_file_no_memory_and_changes_no_byte(segment: Path) -> None:
    """Holes of a file in memory stay holes, whatever is read."""
    before, data = allocated(segment), segment.read_bytes()[:PAGE]
    counts = read_all(segment)
    assert counts["threads"] >= 5
    assert counts["events_statements_history"] > 0
    assert allocated(segment) == before
    assert segment.read_bytes()[:PAGE] == data


def test_a_segment_that_claims_what_it_has_not_is_read_as_far_as_there_is_memory(copy: Path, offsets: dict[str, int]) -> None:
    """`used`, `reserved` and `capacity` of every array lie: nothing beyond the file's memory is touched, so it gets none."""
    before, honest = allocated(copy), read_all(copy)
    entry = struct.calcsize("<6Q")
    (count,) = get(copy, offsets["array_count"], "<Q")
    for i in range(count):
        at = offsets["arrays"] + i * entry
        offset, stride, capacity, used, _, free = get(copy, at, "<6Q")
        put(copy, at, "<6Q", offset, stride, max(capacity, 1 << 40), max(used, 1 << 40), 1 << 50, free)
    assert allocated(copy) == before
    lying = read_all(copy)
    assert allocated(copy) == before
    for table in ("mutex_instances", "events_statements_history", "file_instances", "setup_instruments"):
        assert lying[table] >= honest[table], table
    assert honest["mutex_instances"] > 0  # a file may be gone when the program is killed


# ---- Files that shrink -------------------------------------------------------------------------------------------------------

SHRINKS = """
    import os, sys, faulthandler, signal
    import pfs
    from pfs import _core

    path, handler = sys.argv[1:]
    heard = []
    if handler == "faulthandler-before":
        faulthandler.enable()
    elif handler == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGBUS])
    segment = _core.Segment(path)
    assert _core.read("threads", None, segment)[0] >= 5
    if handler == "faulthandler-after":
        faulthandler.enable()
    elif handler == "python-after":
        signal.signal(signal.SIGBUS, lambda *_: heard.append(1))
    os.truncate(path, int(os.environ["CUT"]))
    for table in _core.tables():
        try:
            _core.read(table, None, segment)
        except pfs.AttachError as error:
            assert "cut short" in str(error), error
            assert path in str(error)
            break
    else:
        raise AssertionError("nobody saw it")
    for table in ("threads", "setup_instruments", "events_waits_history"):
        try:
            _core.read(table, None, segment)
        except pfs.AttachError:
            continue
        raise AssertionError("it came back")
    assert not heard
    again = None
    try:
        again = _core.Segment(path)
    except pfs.AttachError as error:
        print("attach:", error)
    pfs.table("threads")
    print("alive")
"""


@pytest.mark.parametrize("handler", ["none", "faulthandler-before", "faulthandler-after", "python-after", "blocked"])
@pytest.mark.parametrize("cut", [0, PAGE, 3 * PAGE + 100])
def test_a_file_that_shrinks_while_it_is_read_is_an_error_not_a_signal(copy: Path, fresh: Run, handler: str, cut: int) -> None:
    """Whoever has the signal besides us: it never reaches them."""
    said = fresh(SHRINKS, str(copy), handler, CUT=str(cut))
    assert said.endswith("alive\n")
    assert "too short" in said


FOREIGN = """
    import ctypes, faulthandler, mmap, os, signal, sys
    from pfs import _core

    path, handler, how = sys.argv[1:]
    if handler == "before":
        faulthandler.enable()
    segment = _core.Segment(path)
    _core.read("threads", None, segment)
    if handler == "after":
        faulthandler.enable()
        _core.read("threads", None, segment)
    if how == "sent":
        os.kill(os.getpid(), signal.SIGBUS)
    file = os.memfd_create("other")
    os.ftruncate(file, 4096)
    other = mmap.mmap(file, 4096)
    os.ftruncate(file, 0)
    other[0]
"""


@pytest.mark.parametrize("handler", ["none", "before", "after"])
@pytest.mark.parametrize("how", ["sent", "fault"])
def test_a_bus_error_of_the_program_itself_ends_it_as_ever(copy: Path, tmp_path: Path, handler: str, how: str) -> None:
    """Not ours: the default action, and what faulthandler prints before it, once."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FOREIGN), copy, handler, how],
        env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert done.stderr.count("Fatal Python error: Bus error") == (0 if handler == "none" else 1), done.stderr


def test_the_handler_goes_with_the_last_segment(copy: Path, fresh: Run) -> None:
    """Installed when a segment is attached, as it was before when none is."""
    fresh(
        """
        import os, sys
        from pfs import _core

        def caught():
            line = next(line for line in open("/proc/self/status") if line.startswith("SigCgt"))
            return int(line.split()[1], 16) >> 6 & 1

        assert not caught()
        one, two = _core.Segment(sys.argv[1]), _core.Segment(sys.argv[1])
        assert caught()
        del one
        assert caught()
        _core.read("threads", None, two)
        del two
        assert not caught()
        """,
        str(copy),
    )


def test_a_descriptor_that_the_program_has_closed_and_reused_is_left_alone(copy: Path, fresh: Run) -> None:
    """The reader's descriptor is taken from it: it goes on reading, and does not touch the file that is there now."""
    fresh(
        """
        import os, sys
        from pfs import _core

        segment = _core.Segment(sys.argv[1])
        (mine,) = [int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")
                   and os.path.samefile(f"/proc/self/fd/{n}", sys.argv[1])]
        other = os.open("other", os.O_RDWR | os.O_CREAT)
        os.write(other, b"0123456789")
        os.dup2(other, mine)
        os.lseek(other, 3, os.SEEK_SET)
        for table in _core.tables():
            _core.read(table, None, segment)
        assert os.lseek(mine, 0, os.SEEK_CUR) == 3
        del segment
        assert os.read(mine, 3) == b"345"
        """,
        str(copy),
    )


# ---- Versions ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("major", "advice"), [(0, "an older version"), (2, "a newer version"), (70000, "a newer version")])
def test_another_major_version_is_refused_and_says_who_wrote_and_who_reads(copy: Path, major: int, advice: str) -> None:
    put(copy, MAJOR, "<II", major, 7)
    with pytest.raises(pfs.AttachError, match=f"written with layout {major}.7, and this library reads layout 1.x.*{advice}"):
        _core.Segment(str(copy))


def test_a_newer_minor_version_is_read(copy: Path, offsets: dict[str, int], arrays: list[str]) -> None:
    """It has more arrays, longer elements, fields at the end of the header: what this library knows is as it was."""
    honest = {table: rows(copy, table) for table in ("mutex_instances", "setup_actors", "file_summary_by_event_name")}
    entry = struct.calcsize("<6Q")
    (count,) = get(copy, offsets["array_count"], "<Q")
    put(copy, MINOR, "<I", 9)
    put(copy, offsets["array_count"], "<Q", count + 2)
    at = offsets["arrays"] + count * entry
    put(copy, at, "<12Q", *[os.stat(copy).st_size, 1 << 30, 1 << 20, 77, 1 << 40, 3] * 2)
    # An array whose elements are 128 bytes longer: it moves to the end of the file.
    longer = 0
    for i in range(count):
        offset, stride, capacity, used, reserved, free = get(copy, offsets["arrays"] + i * entry, "<6Q")
        if arrays[i : i + 1] == ["Actors"]:
            old, size = copy.read_bytes()[offset : offset + used * stride], os.stat(copy).st_size
            new = b"".join(old[n * stride : (n + 1) * stride] + b"\xff" * 128 for n in range(used))
            with open(copy, "r+b") as file:
                file.seek(size)
                file.write(new.ljust(reserved + PAGE * 16, b"\0"))
            put(copy, offsets["arrays"] + i * entry, "<6Q", size, stride + 128, capacity, used, len(new), free)
            put(copy, SEGMENT_BYTES, "<Q", os.stat(copy).st_size)
            longer += 1
    assert longer == 1
    for table, expected in honest.items():
        assert rows(copy, table) == expected, table
    read_all(copy)


def test_a_header_that_is_not_of_its_version_is_refused(copy: Path, offsets: dict[str, int]) -> None:
    for field, bad in (("header_bytes", 8), ("header_bytes", 1 << 60), ("array_count", 1)):
        (good,) = get(copy, offsets[field], "<Q")
        put(copy, offsets[field], "<Q", bad)
        with pytest.raises(pfs.AttachError, match=r"header that is not of layout 1\.0"):
            _core.Segment(str(copy))
        put(copy, offsets[field], "<Q", good)
    assert status_of(copy)


# ---- What is no segment ------------------------------------------------------------------------------------------------------


def test_what_is_no_plain_file_is_refused_without_waiting(segment: Path, tmp_path: Path) -> None:
    os.symlink(segment, tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    bound = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(tmp_path)
    bound.bind("socket")
    os.chdir(here)
    for name, what in (("link", "symbolic link"), ("pipe", "pipe"), ("folder", "directory"), ("socket", "socket")):
        with pytest.raises(pfs.AttachError, match=f"{name} is not a pfs segment: it is a {what}"):
            _core.Segment(str(tmp_path / name))
    with pytest.raises(pfs.AttachError, match="device"):
        _core.Segment("/dev/zero")
    bound.close()


def test_files_that_are_cut_short_are_refused_or_read(copy: Path) -> None:
    """Any length: a clear error, or the rows that are left."""
    size = os.stat(copy).st_size
    for length in (size // 2, 1 << 20, 65536, 16384, 16383, 100, 0):
        os.truncate(copy, length)
        with pytest.raises(pfs.AttachError, match=r"cut short|too short"):
            _core.Segment(str(copy))
        if length >= 16384:
            put(copy, SEGMENT_BYTES, "<Q", length)
            read_all(copy)


# ---- Any damage --------------------------------------------------------------------------------------------------------------


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang++") is None, reason="libFuzzer is a part of clang: apt-get install clang")
def test_libfuzzer(root: Path) -> None:
    """tests/fuzz/segment.sh, for a few seconds and from the same seed: what a change breaks.

    PFS_FUZZ_SECONDS looks longer, PFS_FUZZ_SEED elsewhere.
    """
    tools = {"PFS_FUZZ_SEED": "1", **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    seconds = os.environ.get("PFS_FUZZ_SECONDS", "20")
    done = subprocess.run([root / "tests/fuzz/segment.sh", seconds], env=tools, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-10_000:]
    found = re.search(r"Done (\d+) runs", done.stderr)
    assert found, done.stderr[-10_000:]
    assert int(found[1]) > 100


# ---- Tables without end ------------------------------------------------------------------------------------------------------

READS_ONE = """
    import resource, sys, time
    from pfs import _core

    segment = _core.Segment(sys.argv[1])
    _core.read("threads", [], segment)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
    rows, skipped, _ = _core.read(sys.argv[2], None, segment)
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(rows, skipped, time.process_time() - start, (after.ru_maxrss - before.ru_maxrss) // 1024)
"""


def families(root: Path) -> dict[str, int]:
    """Numbers of the families by the prefix of their names."""
    text = (root / "cpp/src/base/families.h").read_text()
    listed = re.findall(r'^    \{"([^"]*)", "[^"]*", Kind::', text, re.MULTILINE)
    return {prefix: number for number, prefix in enumerate(listed)}


@pytest.mark.parametrize(
    ("prefix", "table"),
    [
        ("wait/synch/mutex", "events_waits_summary_by_thread_by_event_name"),
        ("wait/synch/mutex", "events_waits_summary_by_account_by_event_name"),
        ("statement", "events_statements_summary_by_thread_by_event_name"),
        ("transaction", "events_transactions_summary_by_thread_by_event_name"),
        ("memory", "memory_summary_by_thread_by_event_name"),
    ],
)
def test_a_small_file_makes_no_large_table(
    copy: Path, arrays: list[str], offsets: dict[str, int], root: Path, prefix: str, table: str
) -> None:
    """Every thread has a row for every instrument: a file of 11 MiB could ask for 19 million. What counted something has memory
    in the file; of the rest there are no more rows than a reader can bear, and it is told that some are missing."""
    threads, classes = 4096, 4687
    numbers = families(root)
    assert prefix in numbers, sorted(numbers)

    def entry(name: str) -> int:
        return offsets["arrays"] + arrays.index(name) * struct.calcsize("<6Q")

    with open(copy, "r+b") as file:
        for name, count in (("Classes", classes), ("Threads", threads), ("Accounts", threads)):
            file.seek(entry(name))
            stride = struct.unpack("<6Q", file.read(48))[1]
            elements = bytearray(count * stride)
            for i in range(1, count):
                at = i * stride
                if name == "Classes":
                    struct.pack_into("<I4xI", elements, at, 1, i)
                    struct.pack_into("<2I", elements, at + 28, numbers[prefix], i)
                elif name == "Threads":
                    struct.pack_into("<Q", elements, at, i)
                    struct.pack_into("<I", elements, at + 24, 0xFFFFFFFF)
                else:
                    struct.pack_into("<4I", elements, at, 1, 1, 0, 0xFFFFFFFF)
            file.seek(0, os.SEEK_END)
            end = (file.tell() + PAGE - 1) // PAGE * PAGE
            file.seek(end)
            file.write(elements)
            file.seek(entry(name))
            file.write(struct.pack("<6Q", end, stride, count, count, count * stride, 0))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READS_ONE), str(copy), table],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rows, skipped, seconds, mebibytes = map(float, done.stdout.split())
    print(f"\n{table}: {rows:.0f} rows, {skipped:.0f} left out, {seconds:.2f} s, {mebibytes:.0f} MiB")
    assert skipped > 0
    assert 100_000 < rows < 3_000_000
    assert mebibytes <= 200
    assert seconds < 5  # 1 s on a machine of its own
