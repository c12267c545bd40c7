"""A segment that was copied says what the original says: tools that copy files make holes of zeros, or zeros of holes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pfs import _core
from tests.conftest import Build
from tests.python._programs.killed import killed_program
from tests.python._programs.segment_file import PAGE, SegmentFile

# Of the moment of reading.
_OF_NOW = {
    "active_sessions": {"SAMPLE_ID", "SAMPLE_TIME", "TIMER_WAIT", "STATEMENT_TIMER_WAIT"},
    "threads": {"PROCESSLIST_TIME"},
    "processlist": {"TIME"},
    "running": {"TIMER_WAIT"},
    "blocked": {"TIMER_WAIT", "HOLDER_TIMER_WAIT", "HOLDER_EVENT_WAIT"},
    "lock_reasons": {"SUM_TIMER_WAIT", "COUNT_STAR"},
    "thread_time": {"SUM_TIMER_WAIT"},
    "performance_timers": {"TIMER_FREQUENCY", "TIMER_RESOLUTION", "TIMER_OVERHEAD"},
}


Tables = dict[str, list[tuple[Any, ...]]]


def tables_of(path: Path) -> Tables:
    """All rows of all tables; and as "" what global_status says at the end, with the rows that were left out."""
    segment = _core.Segment(str(path))
    tables: Tables = {}
    for table in _core.tables():
        columns = [
            column["name"] for column in _core.table_info(table)["columns"] if column["name"] not in _OF_NOW.get(table, set())
        ]
        tables[table] = _core.rows(table, columns, segment)
    tables[""] = _core.rows("global_status", None, segment)
    return tables


@pytest.fixture(scope="module")
def original(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with killed_program(build, tmp_path_factory.mktemp("copies")) as segment:
        yield segment


@pytest.fixture(scope="module")
def expected(original: Path) -> Tables:
    tables = tables_of(original)
    for table in (
        "events_statements_history", "events_stages_history", "events_transactions_history", "events_waits_history",
        "file_summary_by_event_name", "mutex_instances", "memory_summary_by_thread_by_event_name",
    ):  # fmt: skip
        assert tables[table], table
    return tables


def sparse(original: Path, folder: Path) -> Path:
    subprocess.run(["cp", "--sparse=always", original, folder / "copy.pfs"], check=True)
    return folder / "copy.pfs"


def archived(original: Path, folder: Path) -> Path:
    subprocess.run(["tar", "-S", "-C", original.parent, "-cf", folder / "copy.tar", original.name], check=True)
    subprocess.run(["tar", "-C", folder, "-xf", folder / "copy.tar"], check=True)
    return folder / original.name


def synchronized(original: Path, folder: Path) -> Path:
    if shutil.which("rsync") is None:
        pytest.skip("apt-get install rsync")
    subprocess.run(["rsync", "--sparse", original, folder / "copy.pfs"], check=True)
    subprocess.run(
        ["rsync", "--inplace", "--no-whole-file", original, folder / "copy.pfs"], check=True
    )  # once more: nothing to do
    return folder / "copy.pfs"


def to_disk_and_back(original: Path, folder: Path) -> Path:
    """Byte for byte: every page is written."""
    (folder / "on-disk").write_bytes(original.read_bytes())
    back = original.with_name("back")
    back.write_bytes((folder / "on-disk").read_bytes())
    return back


def on_disk(original: Path, folder: Path) -> Path:
    (folder / "on-disk").write_bytes(original.read_bytes())
    return folder / "on-disk"


@pytest.mark.parametrize("copy", [sparse, archived, synchronized, on_disk, to_disk_and_back])
def test_a_copy_has_the_rows_of_the_original(
    original: Path, expected: Tables, tmp_path: Path, copy: Callable[[Path, Path], Path]
) -> None:
    copied = copy(original, tmp_path)
    now = tables_of(copied)
    assert [table for table in expected if now[table] != expected[table]] == []
    skipped = "Performance_schema_rows_skipped"
    assert [row for row in now[""] if skipped in row] == [row for row in expected[""] if skipped in row] != []


def test_a_copy_with_more_holes_was_made(original: Path, tmp_path: Path) -> None:
    """The test above has something to show: cp leaves out pages that the program has stored zeros to, or only reserved."""

    def holes(path: Path) -> int:
        with SegmentFile(path) as file:
            return sum(not file.has_memory(at) for at in range(0, file.size(), PAGE))

    assert holes(sparse(original, tmp_path)) > holes(original)
