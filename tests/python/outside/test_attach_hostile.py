"""Segments that cannot be trusted: cut short, with holes, of another version, not segments at all.

A reader gets rows or an AttachError that says what is wrong: no signal, no waiting, and nothing is stored to the file.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests import budgets
from tests.conftest import Build, Run
from tests.each import for_each
from tests.python._programs.killed import killed_program
from tests.python._programs.segment_file import ARRAYS, EXTENTS, HEADER, HEADER_ROOM, PAGE, SegmentFile, sparse_copy
from tests.python.programs.test_programs import environment, rows, status_of

MAJOR, MINOR = HEADER["layout_major"], HEADER["layout_major"] + 4


def allocated(path: Path) -> int:
    return os.stat(path).st_blocks * 512


@pytest.fixture(scope="module")
def segment(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with killed_program(build, tmp_path_factory.mktemp("hostile")) as path:
        yield path


@pytest.fixture
def copy(segment: Path) -> Iterator[Path]:
    path = sparse_copy(segment, segment.with_name("copy"))
    yield path
    path.unlink(missing_ok=True)


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


def test_a_segment_that_claims_what_it_has_not_is_read_as_far_as_there_is_memory(copy: Path) -> None:
    """`used`, `reserved` and `capacity` of every array lie: nothing beyond the file's memory is touched, so it gets none."""
    before, honest = allocated(copy), read_all(copy)
    with SegmentFile(copy) as file:
        for i in range(file.word("array_count")):
            array = file.array(i)
            file.put_array(i, capacity=max(array.capacity, 1 << 40), used=max(array.used, 1 << 40), reserved=1 << 50)
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


def major_of(segment: Path) -> int:
    return int.from_bytes(segment.read_bytes()[MAJOR : MAJOR + 4], "little")


@pytest.mark.parametrize(("more", "advice"), [(-1, "an older version"), (1, "a newer version"), (70000, "a newer version")])
def test_another_major_version_is_refused_and_says_who_wrote_and_who_reads(copy: Path, more: int, advice: str) -> None:
    own = major_of(copy)
    with SegmentFile(copy) as file:
        file.put(MAJOR, "<II", own + more, 7)
    expected = f"written with layout {own + more}.7, and this library reads layout {own}.x.*{advice}"
    with pytest.raises(pfs.AttachError, match=expected):
        _core.Segment(str(copy))


def test_a_newer_minor_version_is_read(copy: Path) -> None:
    """It has more arrays, longer elements, fields at the end of the header: what this library knows is as it was."""
    honest = {table: rows(copy, table) for table in ("mutex_instances", "setup_actors", "file_summary_by_event_name")}
    with SegmentFile(copy) as file:
        count = file.word("array_count")
        file.put(MINOR, "<I", 9)
        file.put_word("array_count", count + 2)
        for new in (count, count + 1):
            file.put_array(
                new, offset=file.word("segment_bytes"), stride=1 << 30, capacity=1 << 20, first_extent=PAGE, used=77,
                reserved=1 << 40, free_head=3, mapped=PAGE, extents=(file.size() // PAGE,) * EXTENTS,
            )  # fmt: skip
        # An array whose elements are 128 bytes longer.
        actors, old = file.array("Actors"), file.content("Actors")
        new_content = b"".join(old[n : n + actors.stride] + b"\xff" * 128 for n in range(0, len(old), actors.stride))
        file.move("Actors", new_content, actors.stride + 128, actors.used)
    assert honest["setup_actors"]
    for table, expected in honest.items():
        assert rows(copy, table) == expected, table
    read_all(copy)


def test_a_header_that_is_not_of_its_version_is_refused(copy: Path) -> None:
    own = major_of(copy)
    with SegmentFile(copy) as file:
        for field, bad in (
            ("header_bytes", 8),
            ("header_bytes", 1 << 60),
            ("array_count", 1),
            ("segment_bytes", 100),
            ("segment_bytes", 1 << 60),
        ):
            good = file.word(field)
            file.put_word(field, bad)
            with pytest.raises(pfs.AttachError, match=rf"header that is not of layout {own}\.\d"):
                _core.Segment(str(copy))
            file.put_word(field, good)
    assert status_of(copy)


# ---- Extents -----------------------------------------------------------------------------------------------------------------

INSTANCES = "Instances"  # of mutexes, rwlocks and conditions


def read_or_refused(path: Path) -> dict[str, int] | None:
    try:
        return read_all(path)
    except pfs.AttachError:
        return None


def test_the_file_is_longer_or_shorter_than_it_says(copy: Path) -> None:
    """`file_bytes` beyond the end: the file was cut. Below it: a writer was about to use what it had added."""
    honest = read_all(copy)
    with SegmentFile(copy) as file:
        for bad in (file.size() + 1, 1 << 60, (1 << 64) - 1):
            file.put_word("file_bytes", bad)
            with pytest.raises(pfs.AttachError, match="is cut short"):
                _core.Segment(str(copy))
        file.put_word("file_bytes", HEADER_ROOM)
        assert read_all(copy) == honest


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(lambda file: 0, id="in-the-header"),
        pytest.param(lambda file: HEADER_ROOM // PAGE - 1, id="half-in-the-header"),
        pytest.param(lambda file: file.array("Classes").extents[0], id="of-another-array"),
        pytest.param(lambda file: file.size() // PAGE - 1, id="half-behind-the-end"),
        pytest.param(lambda file: file.size() // PAGE, id="behind-the-end"),
        pytest.param(lambda file: 0xFFFFFFFF, id="far-behind-the-end"),
    ],
)
def test_an_extent_that_lies_elsewhere_harms_only_its_array(copy: Path, page: Callable[[SegmentFile], int]) -> None:
    """Its rows are nonsense or gone; tables of other arrays are as they were, and the file gets no memory."""
    before, honest = allocated(copy), read_all(copy)
    with SegmentFile(copy) as file:
        file.put_array(INSTANCES, extents=(page(file),) * EXTENTS)
        behind = page(file) * PAGE >= file.size()
    damaged = read_all(copy)
    for table in ("threads", "setup_instruments", "setup_actors", "file_instances", "events_statements_history"):
        assert damaged[table] == honest[table], table
    if behind:
        assert damaged["mutex_instances"] == 0
    assert allocated(copy) == before


_BAD = [0, PAGE, PAGE + 8, 1, 1 << 32, 1 << 46, 1 << 47, 1 << 63, (1 << 64) - 1, (1 << 64) - PAGE]


@pytest.mark.parametrize("field", ["first_extent", "mapped", "offset", "stride", "capacity"])
@for_each("bad", _BAD if budgets.LONG > 1 else _BAD[::3])
def test_a_directory_that_lies_is_an_error_or_what_is_left(copy: Path, field: str, bad: int) -> None:
    """Of every array at once, and of one: no signal, no memory for the file, no more rows than there were elements."""
    before, honest = allocated(copy), read_all(copy)
    for names in ((INSTANCES,), ("ThreadCells",), tuple(range(len(ARRAYS)))):
        mutant = sparse_copy(copy, copy.with_name("mutant"))
        try:
            with SegmentFile(mutant) as file:
                for name in names:
                    file.put_array(name, **{field: bad})
            read_or_refused(mutant)
            assert allocated(mutant) == before
        finally:
            mutant.unlink()
    assert read_all(copy) == honest


def test_what_is_mapped_may_be_more_than_the_capacity(copy: Path) -> None:
    """The reader maps no extent that is not in the file, and shows what there was."""
    honest = read_all(copy)
    with SegmentFile(copy) as file:
        array = file.array(INSTANCES)
        file.put_array(INSTANCES, mapped=1 << 40)
        assert array.mapped < 1 << 40
    assert read_all(copy)["mutex_instances"] == honest["mutex_instances"]


def test_addresses_of_two_arrays_overlap(copy: Path) -> None:
    """The one that comes first in the directory has them."""
    honest = read_all(copy)
    with SegmentFile(copy) as file:
        classes = file.array("Classes")
        for name in (INSTANCES, "Files", "GlobalCells"):
            file.put_array(name, offset=classes.offset)
        file.put_array("Hosts", offset=0)
    damaged = read_all(copy)
    for table in ("setup_actors", "setup_consumers"):
        assert damaged[table] == honest[table], table


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
    for length in (size // 2, 1 << 20, 65536, HEADER_ROOM, HEADER_ROOM - 1, 100, 0):
        os.truncate(copy, length)
        with pytest.raises(pfs.AttachError, match=r"cut short|too short"):
            _core.Segment(str(copy))
        if length >= HEADER_ROOM:
            with SegmentFile(copy) as file:
                file.put_word("file_bytes", length)
            read_all(copy)


# ---- Tables without end ------------------------------------------------------------------------------------------------------

READS_ONE = """
    import resource, sys, time
    from pfs import _core

    segment = _core.Segment(sys.argv[1])
    _core.read("threads", [], segment)
    before, took, loops = resource.getrusage(resource.RUSAGE_SELF), [], []
    for _ in range(3):  # if it is slow, the fastest of each: other work on the machine slows both
        start = time.process_time()
        rows, skipped, _ = _core.read(sys.argv[2], None, segment)
        middle = time.process_time()
        sum(range(10_000_000))  # 0.09 s on an AMD EPYC
        took.append(middle - start)
        loops.append(time.process_time() - middle)
        if took[-1] < 1:
            break
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(rows, skipped, min(took), min(loops), (after.ru_maxrss - before.ru_maxrss) // 1024)
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
def test_a_small_file_makes_no_large_table(copy: Path, root: Path, prefix: str, table: str) -> None:
    """Every thread has a row for every instrument: a file of 11 MiB could ask for 19 million.

    What counted something has memory in the file; of the rest there are no more rows than a reader can bear, and
    it is told that some are missing."""
    threads, classes = 4096, 4687
    numbers = families(root)
    assert prefix in numbers, sorted(numbers)

    with SegmentFile(copy) as file:
        for name, count in (("Classes", classes), ("Threads", threads), ("Accounts", threads)):
            stride = file.array(name).stride
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
            file.move(name, bytes(elements), stride, count)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READS_ONE), str(copy), table],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rows, skipped, seconds, loop, mebibytes = map(float, done.stdout.split())
    print(
        f"\n{table}: {rows:.0f} rows, {skipped:.0f} left out, {seconds:.2f} s ({seconds / loop:.1f} loops), {mebibytes:.0f} MiB"
    )
    assert skipped > 0
    assert 100_000 < rows < 3_000_000
    assert mebibytes <= 200
    assert seconds < max(1, 13 * loop)  # of the processor; 4 to 10.5 loops were seen
