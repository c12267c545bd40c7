"""Segments whose program died, or was stopped, in the middle of a change: every section that can be left open is opened, and the
tables are those of before, with what was repaired counted. No number is silently gone.

Which words are such sections is read from the headers, and their offsets are the compiler's: a new one is tested as well.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pfs import _core
from tests.python._programs.segment_file import FIELDS, HEADER, SegmentFile, sparse_copy
from tests.python._programs.subject import PID_NAMESPACE, forge, subject

_WORK = """
import threading
pfs.setup_consumers["lock_holds"].enabled = True
for _ in range(100):  # in slots of locks that are gone
    with pfs.Lock("app/LOCK_short"): pass
pfs.set_account("anna", "desk")
lock, guard = pfs.Lock("app/LOCK_a"), pfs.RWLock("app/guard")
def work(turns):
    for i in range(turns):
        with lock: pass
        with guard.read(): pass
        with pfs.open("/dev/null", "rb", name="app/data") as file: file.read()
        with pfs.transaction():
            with pfs.statement("app/query", text=f"SELECT {i} FROM t{i % 3}", schema="shop"):
                with pfs.stage("app/step"): pass
def session():
    pfs.set_account("bob", "lamp")
    work(100)
    ready.set()
    threading.Event().wait()
def gone():
    def end():
        pfs.set_account("dora", "roof")
        work(3)
    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
# Numbers of hosts that are gone, of users and hosts, of accounts.
gone()
pfs.truncate("hosts")
gone()
pfs.truncate("accounts")
gone()
ready = threading.Event()
threading.Thread(target=session, daemon=True).start()
ready.wait()
work(200)
pfs.server.set_user_variable("mine", 1)
cakes = pfs.Table("shop.cakes", ["by_name"])
with cakes.fetch("by_name") as io: io.rows = 3
import ctypes, glob
from pfs._base import installed
library = ctypes.CDLL(glob.glob(installed.library_dir() + "/libperfschema.so.*")[0])  # the one that pfs uses
for made in (library.pfs_prepared_create, library.pfs_metadata_lock_create_at, library.pfs_program):
    made.restype = ctypes.c_void_p
identity = ctypes.create_string_buffer(8)
assert library.pfs_prepared_create(identity, ctypes.c_uint64(1), None, b"mine", b"SELECT ?", ctypes.c_size_t(8))
assert library.pfs_metadata_lock_create_at(identity, 4, b"shop", b"cakes", None, 10, 1, 1, b"file.c", 3)
assert library.pfs_program(2, b"shop", b"price")
"""

_SECTION = re.compile(r"^\s+HalfWord ([^;]*);", re.MULTILINE)
_IS_SECTION = re.compile(r"(^|_)seq$|^lap$")
# Of a reader, and of the time of reading.
_OWN = {"active_sessions", "performance_timers", "global_status", "session_status"}
_FROM_STATEMENTS = {"threads", "processlist"}  # their INFO, DB, COMMAND and STATE are those of the statement that runs
_WITHOUT = {"threads": {"PROCESSLIST_TIME"}, "processlist": {"TIME"}, "thread_time": {"SUM_TIMER_WAIT"}}


class Sections(NamedTuple):
    """The sections of the layout."""

    ready: int  # offset of ShmClass.ready
    all: list[tuple[str, str, str, int]]  # array without the k, or "" for the header; struct, field, offset


@pytest.fixture(scope="module")
def sections(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Sections:
    """Finds every section in the headers, and asks the compiler for the offsets."""
    folder = root / "cpp/src/shm"
    texts = "".join(path.read_text() for path in sorted(folder.glob("*.h")))
    structs = dict(
        re.findall(r"^struct (?:alignas\(\d+\) )?(\w+)(?: : \w+)? \{[^\n]*\n(.*?)^\};", texts, re.MULTILINE | re.DOTALL)
    )
    arrays = re.findall(r"^  X\(k(\w+), +(Shm\w+)\)", texts, re.MULTILINE)
    assert len(arrays) > 35
    wanted = []
    for array, kind in [("", "ShmHeader"), *arrays]:
        for declared in _SECTION.findall(structs[kind]):
            names = [name.split("[")[0].strip() for name in declared.split(",")]
            wanted += [(array, kind, name) for name in names if _IS_SECTION.search(name)]
    lines = [
        f'std::printf("%zu\\n", static_cast<size_t>({what}));'
        for what in (
            "offsetof(ShmClass, ready)",
            *(f"offsetof({kind}, {name})" for _, kind, name in wanted),
        )
    ]
    source = tmp_path_factory.mktemp("layout") / "layout.cpp"
    source.write_text(
        '#include <cstdio>\n#include "shm/layout.h"\nusing namespace perfschema;\nint main() {\n' + "\n".join(lines) + "\n}\n"
    )
    command = ["g++", "-std=c++20", "-O0", "-Wno-invalid-offsetof", f"-I{root}/cpp/src", f"-I{root}/cpp/include", str(source)]
    subprocess.run([*command, "-o", str(source.with_suffix(""))], check=True)
    numbers = list(map(int, subprocess.run([source.with_suffix("")], capture_output=True, check=True).stdout.split()))
    ready, *offsets = numbers
    return Sections(ready, [(*section, offset) for section, offset in zip(wanted, offsets, strict=True)])


class Image(SegmentFile):
    """A segment whose sections can be opened."""

    def __init__(self, path: Path, ready: int) -> None:
        super().__init__(path)
        self._ready = ready

    def places(self, name: str) -> Iterator[int]:
        """Yields where in the file the elements of an array lie that a program can write."""
        array = self.array(name)
        if name.endswith("Records"):
            kind = ["WaitRecords", "StageRecords", "StatementRecords", "TransactionRecords"].index(name)
            (record,) = self.get(HEADER["record_bytes"] + 8 * kind, "<Q")
            chunks = name.replace("Records", "Chunks")
            heads = [self.place(chunks, i) for i in range(1, self.array(chunks).used)]
            words = [
                (self.get(at + FIELDS["ShmChunk"]["begin"], "<Q")[0], self.get(at + FIELDS["ShmChunk"]["ready"], "<I")[0])
                for at in heads
            ]
            bytes_ = (begin + i * record for begin, ready in words for i in range(ready))
        elif name in ("ThreadCells", "AccountCells", "UserCells", "HostCells", "GlobalCells"):
            members = self.array({"ThreadCells": "Threads", "GlobalCells": "Threads"}.get(name, name.replace("Cells", "s")))
            width = array.capacity // members.capacity
            classes = self.array("Classes")
            columns = [
                i
                for i in range(1, classes.used)
                if (at := self.place_with_memory(classes, i * classes.stride)) is not None and self.get(at + self._ready, "<I")[0]
            ]
            bytes_ = ((member * width + column) * array.stride for member in range(members.used) for column in columns)
        else:
            bytes_ = (i * array.stride for i in range(1, array.used))
        yield from (at for byte in bytes_ if (at := self.place_with_memory(array, byte)) is not None)

    def open_section(self, at: int) -> None:
        self.put(at, "<I", self.get(at, "<I")[0] | 1)


def rows_of(segment: _core.Segment) -> dict[str, list[tuple[Any, ...]]]:
    tables = {}
    for table in _core.tables():
        if table not in _OWN:
            without = _WITHOUT.get(table, set())
            columns = [column["name"] for column in _core.table_info(table)["columns"] if column["name"] not in without]
            tables[table] = _core.rows(table, columns, segment)
    return tables


def counted(segment: _core.Segment) -> tuple[int, int]:
    """Rows that this reader has repaired, and left out."""
    status = dict(_core.rows("global_status", None, segment))
    return int(status["Performance_schema_rows_repaired"]), int(status["Performance_schema_rows_skipped"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = Path(f"/dev/shm/pfs-test-half-{os.getpid()}")  # where holes are told from pages
    path.mkdir(mode=0o700)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def dead(place: Path) -> Path:
    with subject(place) as program:
        program.do(_WORK)
        program.kill()
        return program.path


@pytest.fixture
def copy(dead: Path) -> Iterator[Path]:
    path = sparse_copy(dead, dead.with_name("copy.pfs"))
    yield path
    path.unlink()


def test_every_section_that_a_dead_process_left_open_is_read(dead: Path, root: Path, sections: Sections) -> None:
    assert {("Cells", "seq"), ("", "move_seq"), ("Classes", "fold_seq"), ("WaitChunks", "lap")} <= {
        (array, field) for array, _, field, _ in sections.all
    }
    before = _core.Segment(str(dead))
    expected = rows_of(before)
    assert counted(before) == (0, 0)
    assert sum(map(len, expected.values())) > 3000
    wrong = []
    unused = set()
    for array, kind, field, offset in sections.all:
        path = sparse_copy(dead, dead.with_name("copy.pfs"))
        try:
            image = Image(path, sections.ready)
            places = [offset] if not array else [at + offset for at in image.places(array)]
            unused |= {array} if not places else set()
            for at in places:
                image.open_section(at)
            image.close()
            segment = _core.Segment(str(path))
            now = rows_of(segment)
            repaired, skipped = counted(segment)
            differing = [table for table in expected if now[table] != expected[table]]
            if field == "lap":  # what was about to be written over is left out, and counted
                lost = sum(len(expected[table]) - len(now[table]) for table in differing)
                parts = [table for table in differing if array != "StatementChunks" or table not in _FROM_STATEMENTS]
                good = all(set(now[table]) <= set(expected[table]) for table in parts) and (lost == 0 or skipped > 0)
            else:
                good = not differing and skipped == 0 and (repaired > 0 or not places or field == "trace_status_seq")
            if not good:
                wrong.append((array, kind, field, len(places), repaired, skipped, differing))
        finally:
            path.unlink()
    assert not wrong
    assert not unused  # the program had one of everything


def test_one_open_cell_hides_no_other_and_is_repaired(copy: Path, root: Path, sections: Sections) -> None:
    """A cell whose minimum is above its sum was caught halfway: its count and sum are right, its minimum is not shown."""
    table = "events_waits_summary_by_thread_by_event_name"
    columns = ("THREAD_ID", "EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "MAX_TIMER_WAIT")
    expected = _core.rows(table, columns, _core.Segment(str(copy)))
    image = Image(copy, sections.ready)
    changed = None
    for at in image.places("ThreadCells"):
        count, total, inverted, _ = image.get(at + 16, "<4Q")
        if count > 50 and inverted and (count, total) in {row[2:4] for row in expected}:
            image.open_section(at)
            image.put(at + 32, "<Q", 2**64 - 1 - 10**15)  # a minimum of a quarter of an hour
            changed = count
            break
    image.close()
    assert changed is not None
    segment = _core.Segment(str(copy))
    now = _core.rows(table, columns, segment)
    assert [row[:4] for row in now] == [row[:4] for row in expected]
    differing = [row for row, then in zip(now, expected, strict=True) if row != then]
    assert [row[2:] for row in differing] == [(changed, differing[0][3], 0, 0)]
    assert counted(segment) == (1, 0)


@pytest.mark.parametrize(
    ("state", "repaired", "skipped"),
    [("stopped", True, False), ("running", False, True), ("elsewhere", True, False)],
)
def test_who_can_go_on_is_waited_for_and_who_cannot_is_not(
    place: Path,
    root: Path,
    sections: Sections,
    state: str,
    repaired: bool,
    skipped: bool,
) -> None:
    """Of a process that runs a row that stays open is left out, and counted for the reader; of one that is stopped it is read."""
    table = "events_waits_summary_by_thread_by_event_name"
    with subject(place) as program:
        program.do(_WORK)
        expected = _core.rows(table, None, _core.Segment(str(program.path)))
        if state == "stopped":
            os.kill(program.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
        if state == "elsewhere":
            forge(program.path, PID_NAMESPACE, 1)  # a pid namespace that is not ours
        image = Image(program.path, sections.ready)
        counts = {tuple(row[2:4]) for row in expected if row[2] > 50}
        at = next(at for at in image.places("ThreadCells") if image.get(at + 16, "<2Q") in counts)
        image.open_section(at)
        image.close()
        segment = _core.Segment(str(program.path))
        now = _core.rows(table, None, segment)
        assert (now == expected) == repaired
        assert (len(now) == len(expected)) == repaired
        here = counted(segment)
        assert (here[0] > 0, here[1] > 0) == (repaired, skipped)
