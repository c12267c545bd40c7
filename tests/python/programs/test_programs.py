"""C programs built against the installed package, as others see them: forks, signals, threads that end, places without room.

Tables are read from outside: from the segment of a program that waits, or (PFS_KEEP=1) that has ended.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pfs import _core
from tests.conftest import PROGRAMS, Build, Run

TIMEOUT = 120

Row = dict[str, Any]

# Locks go different ways through the code: PFS_OPTIONS for each.
_NO_RECORDS = "performance_schema_consumer_events_waits_current=OFF"
WAYS = {
    "everything": "",
    "untimed": "performance_schema_instrument='wait/%=COUNTED'",
    "timed": _NO_RECORDS,
    "counted": f"performance_schema_instrument='wait/synch/%=COUNTED',{_NO_RECORDS}",
    "contended": "performance_schema_instrument='wait/%=CONTENDED'",
}
every_way = pytest.mark.parametrize("way", WAYS)


def environment(folder: Path | str, **more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    return {**env, "PFS_DIR": str(folder), **more}


def run(program: Path | str, *arguments: str, cwd: Path, status: int = 0, segments: Path | None = None, **more: Any) -> str:
    env = environment(segments or cwd, **more.pop("env", {}))
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [program, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False, **more
    )
    assert done.returncode == status, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def values(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def rows(segment: str | Path, table: str, *columns: str) -> list[Row]:
    """Rows of a table in somebody else's segment."""
    facts = [column["name"] for column in _core.table_info(table)["columns"]]
    names = list(columns) or facts
    return [dict(zip(names, row, strict=True)) for row in _core.rows(table, names, _core.Segment(str(segment)))]


def count(
    segment: str | Path, name: str, table: str = "events_waits_summary_global_by_event_name", column: str = "COUNT_STAR"
) -> int:
    return sum(row[column] for row in rows(segment, table, "EVENT_NAME", column) if row["EVENT_NAME"] == name)


def status_of(segment: str | Path) -> dict[str, str | None]:
    return {row["VARIABLE_NAME"]: row["VARIABLE_VALUE"] for row in rows(segment, "global_status")}


def segments_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pfs"))


class Talker:
    """A running program that says "name value" lines and waits for lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: dict[str, str] = {}

    def until(self, name: str) -> str:
        assert self.process.stdout is not None
        while name not in self.said:
            line = self.process.stdout.readline()
            assert line, f"ended before it said {name}: {self.said}"
            key, _, value = line.rstrip("\n").partition(" ")
            self.said[key] = value
        return self.said[name]

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("g\n")
        self.process.stdin.flush()


@contextmanager
def talking(program: Path, *arguments: str, folder: Path, status: int = 0, options: str = "") -> Iterator[Talker]:
    env = environment(folder, PFS_OPTIONS=options)
    process = subprocess.Popen(
        [program, *arguments], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield Talker(process)
            process.communicate("g\ng\n", timeout=TIMEOUT)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == status


# ---- The same with and without pfs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "all_file_calls",
        "all_socket_calls",
        "all_sync_calls",
        "cancelled",
        "first_mutex",
        "memory",
        "sockets_cancelled",
        "spawned",
        "tables",
        "told",
    ],
)
def test_results_and_errno_are_those_of_the_plain_calls(name: str, build: Build, tmp_path: Path) -> None:
    outputs = []
    scarce = ",".join(f"performance_schema_max_{family}_instances=1" for family in ("file", "socket", "rwlock", "cond"))
    cases = [(True, ""), (False, "performance_schema=OFF"), (False, scarce), *((False, options) for options in WAYS.values())]
    for index, (disabled, options) in enumerate(cases):
        folder = tmp_path / str(index)
        work = folder / "work"
        work.mkdir(parents=True)
        arguments = [str(work)] if name == "all_file_calls" else []
        outputs.append(run(build(name, disabled), *arguments, cwd=work, segments=folder, env={"PFS_OPTIONS": options}))
    assert len(outputs[0].splitlines()) >= {"all_file_calls": 200, "all_socket_calls": 400, "all_sync_calls": 120}.get(name, 1)
    for output in outputs[1:]:
        assert output == outputs[0]


@pytest.mark.parametrize(
    "name", ["counts_class", "memory_class", "raii", "raii_threads", "socket_class", "statement_class", "table_class"]
)
def test_classes_behave_as_those_of_the_standard_library(name: str, build: Build, tmp_path: Path) -> None:
    for disabled in (False, True):
        assert run(build(name, disabled), str(tmp_path), cwd=tmp_path) == f"{name}: ok\n"


def test_memory_of_a_program_is_what_it_says_itself(build: Build, tmp_path: Path) -> None:
    """K1, K3, K4, K6: of every call of memory.h, read from the segment that the program leaves."""
    (anna,) = [row for row in rows(says_its_memory(tmp_path, str(build("memory"))), "users") if row["USER"] == "anna"]
    assert anna["MAX_SESSION_CONTROLLED_MEMORY"] >= 1100
    assert anna["MAX_SESSION_TOTAL_MEMORY"] >= 3 * 1000 * 999 // 8  # a quarter is given away at once


def says_its_memory(tmp_path: Path, *command: str) -> Path:
    """Returns the segment of a program that says its memory, which is compared."""
    said = values(run(*command, cwd=tmp_path, env={"PFS_KEEP": "1"}))
    (segment,) = segments_in(tmp_path)
    columns = ("COUNT_ALLOC", "COUNT_FREE", "SUM_NUMBER_OF_BYTES_ALLOC", "SUM_NUMBER_OF_BYTES_FREE")
    everything = {row["EVENT_NAME"]: row for row in rows(tmp_path / segment, "memory_summary_global_by_event_name")}
    for name, text in said.items():
        row = everything["memory/program/" + name]
        assert [row[column] for column in columns][: len(text.split())] == [int(number) for number in text.split()], name
    assert everything["memory/program/passed"]["CURRENT_NUMBER_OF_BYTES_USED"] == 77
    return tmp_path / segment


def test_errors_and_status_variables_of_classes_are_counted(build: Build, tmp_path: Path) -> None:
    """Registered error numbers have names and SQLSTATE, and are counted when they are raised and handled."""
    run(build("counts_class"), cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = segments_in(tmp_path)
    errors = {row["ERROR_NAME"]: row for row in rows(tmp_path / segment, "events_errors_summary_global_by_error")}
    columns = ("ERROR_NUMBER", "SQL_STATE", "SUM_ERROR_RAISED", "SUM_ERROR_HANDLED")
    assert [errors["ER_DUP_ENTRY"][c] for c in columns] == [1062, "23000", 2, 1]
    assert errors["shop::OutOfStock"]["SUM_ERROR_RAISED"] == 1
    values = status_of(tmp_path / segment)
    assert (values["Counts_done"], values["Counts_open"]) == ("40", "-1")


@pytest.mark.parametrize("options", ["", "performance_schema=OFF"])
def test_tasks_of_fiber_h(options: str, build: Build, tmp_path: Path) -> None:
    """D: nested in what the parent was taken in, also after that has ended; never in another task's."""
    said = run(build("fibers"), cwd=tmp_path, env={"PFS_KEEP": "1", "PFS_OPTIONS": options}).splitlines()
    nothing = ["another thread's task: 0", "errno 123", "turns 0", "task of a thread that has ended: 0"]
    if options:
        assert said == nothing
        assert run(build("fibers", True), cwd=tmp_path).splitlines() == nothing
        return
    assert said == [nothing[0], nothing[1], "turns 8", nothing[3]]
    (segment,) = segments_in(tmp_path)
    statements = rows(tmp_path / segment, "events_statements_history_long")
    names = [row["EVENT_NAME"].rpartition("/")[2] for row in statements]
    assert sorted(names) == ["outer", "outer", "task", "task"]  # what was forgotten is not there
    outer, *_ = [row for row in statements if row["EVENT_NAME"].endswith("outer")]
    tasks = {row["SQL_TEXT"]: row for row in statements if row["EVENT_NAME"].endswith("task")}
    assert set(tasks) == {"first", "second"}
    for row in tasks.values():
        assert (row["NESTING_EVENT_ID"], row["NESTING_EVENT_TYPE"]) == (outer["EVENT_ID"], "STATEMENT")
        assert row["TIMER_END"] > outer["TIMER_END"]
    stages = rows(tmp_path / segment, "events_stages_history_long")
    assert [row["NESTING_EVENT_ID"] for row in stages] == [tasks[text]["EVENT_ID"] for text in ("first", "second")]
    assert count(tmp_path / segment, "statement/fibers/left", "events_statements_summary_global_by_event_name") == 0


def test_tasks_take_no_texts_from_the_memory_of_others(build: Build, tmp_path: Path) -> None:
    """The memory of a task was that of tasks that had texts, at other offsets. Each of its texts is found and counted."""
    run(build("fiber_memory"), cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = segments_in(tmp_path)
    digests = {row["DIGEST_TEXT"]: row["COUNT_STAR"] for row in rows(tmp_path / segment, "events_statements_summary_by_digest")}
    assert digests == {"SELECT ?": 600}


def test_statements_of_classes_are_recorded(build: Build, tmp_path: Path) -> None:
    """Blocks of C++: what they say, what an exception says, what nobody ended."""
    run(build("statement_class"), cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = segments_in(tmp_path)
    path = tmp_path / segment
    statements = {row["EVENT_NAME"].rpartition("/")[2]: row for row in rows(path, "events_statements_history_long")}
    columns = ("CURRENT_SCHEMA", "DIGEST_TEXT", "ROWS_SENT", "MYSQL_ERRNO", "RETURNED_SQLSTATE")
    assert [statements["query"][c] for c in columns] == ["town", "SELECT `name` FROM `people` WHERE `id` = ?", 5, 0, "00000"]
    assert [statements["failing"][c] for c in columns[3:]] == [1105, "HY000"]
    assert [statements["said"][c] for c in columns[3:]] == [1146, "42S02"]
    assert statements["query"]["SOURCE"].startswith("statement_class.cpp:")
    stages = [
        (row["EVENT_NAME"], row["WORK_COMPLETED"], row["WORK_ESTIMATED"]) for row in rows(path, "events_stages_history_long")
    ]
    assert stages == [("stage/class/parsing", None, None), ("stage/class/loading", 3, 10)]
    states = [
        (row["STATE"], row["ISOLATION_LEVEL"], row["ACCESS_MODE"]) for row in rows(path, "events_transactions_history_long")
    ]
    assert states == [("COMMITTED", "SERIALIZABLE", "READ WRITE"), ("ROLLED BACK", "READ COMMITTED", "READ ONLY")]


def test_memory_of_containers_is_counted(build: Build, tmp_path: Path) -> None:
    """The allocator and the resource of pfs.hpp: all is freed at the end, and the most was there."""
    run(build("memory_class"), cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = segments_in(tmp_path)
    found = {
        row["EVENT_NAME"].rpartition("/")[2]: row
        for row in rows(tmp_path / segment, "memory_summary_global_by_event_name")
        if row["EVENT_NAME"].startswith("memory/class/")
    }
    assert {name: row["CURRENT_NUMBER_OF_BYTES_USED"] for name, row in found.items() if name == "resource"} == {"resource": 0}
    assert found["numbers"]["HIGH_NUMBER_OF_BYTES_USED"] >= 8000
    assert (found["lines"]["COUNT_ALLOC"], found["lines"]["SUM_NUMBER_OF_BYTES_ALLOC"]) == (1, 640)
    assert found["list"]["COUNT_ALLOC"] == 10
    assert found["resource"]["COUNT_ALLOC"] == 201
    assert found["resource"]["HIGH_NUMBER_OF_BYTES_USED"] > 100 * 100


def test_tables_of_a_program_show_exactly_what_its_threads_did(build: Build, tmp_path: Path) -> None:
    """L7 and the seed's graph: by index = by table = global = by thread and its parents; drop carries the rows to the
    instrument."""
    io, lock = "wait/io/table/sql/handler", "wait/lock/table/sql/handler"
    operations = ("FETCH", "INSERT", "UPDATE", "DELETE")
    with talking(build("tables"), "wait", folder=tmp_path) as program:
        program.until("ready")
        segment, said = program.said["segment"], program.said
        by_index = {
            (row["OBJECT_NAME"], row["INDEX_NAME"]): row for row in rows(segment, "table_io_waits_summary_by_index_usage")
        }
        total = 0
        for table in ("first", "second"):
            for index in (None, "by_key"):
                row = by_index[table, index]
                want = [int(said[f"{table}_{number}_{index or 'without'}"]) for number in range(4)]
                assert [row["COUNT_" + operation] for operation in operations] == want
                total += sum(want)
        for row in rows(segment, "table_io_waits_summary_by_table"):
            own = [of for (table, _), of in by_index.items() if table == row["OBJECT_NAME"]]
            for column in row:
                if column.startswith(("COUNT_", "SUM_")):
                    assert row[column] == sum(of[column] for of in own)
            assert row["COUNT_STAR"] == sum(row["COUNT_" + operation] for operation in operations)
        assert {row["OBJECT_NAME"]: row["COUNT_WRITE_NORMAL"] for row in rows(segment, "table_lock_waits_summary_by_table")} == {
            "first": 4000,
            "second": 4000,
            "kept": 0,
        }
        levels = [f"events_waits_summary_by_{level}_by_event_name" for level in ("account", "user", "host")]
        for summary in ("events_waits_summary_global_by_event_name", *levels):
            assert (count(segment, io, summary), count(segment, lock, summary)) == (total, 8000)
        objects = {row["OBJECT_NAME"]: row["COUNT_STAR"] for row in rows(segment, "objects_summary_global_by_type")}
        assert sum(objects.values()) == total + 8000
        (handle,) = rows(segment, "table_handles")
        assert (handle["OBJECT_TYPE"], handle["OBJECT_NAME"], handle["OWNER_THREAD_ID"]) == ("TEMPORARY TABLE", "kept", None)
        assert [row["LOCK_STATUS"] for row in rows(segment, "metadata_locks")] == ["GRANTED"]
        assert (count(segment, "idle"), count(segment, "wait/lock/metadata/sql/mdl")) == (1, 1)
        program.go()
        program.until("dropped")
        assert {row["OBJECT_NAME"] for row in rows(segment, "objects_summary_global_by_type")} == {"second", "kept"}
        assert (count(segment, io), count(segment, lock)) == (total, 8000)
        assert {name: value for name, value in status_of(segment).items() if name.endswith("_lost") and value != "0"} == {}


def test_table_classes_record_what_they_do(build: Build, tmp_path: Path) -> None:
    with talking(build("table_class"), "x", "wait", folder=tmp_path) as program:
        program.until("ready")
        segment = program.said["segment"]
        (row,) = rows(segment, "table_io_waits_summary_by_table")
        # 300 put, 100 counted at once, 1 found, and none where an exception ended the wait.
        assert (row["OBJECT_NAME"], row["COUNT_INSERT"], row["COUNT_FETCH"]) == ("store", 300, 101)
        assert count(segment, "wait/lock/table/sql/handler") == 302
        (handle,) = rows(segment, "table_handles")
        assert (handle["OBJECT_SCHEMA"], handle["INTERNAL_LOCK"]) == ("app", None)
        assert rows(segment, "metadata_locks") == []
        sources = {row["SOURCE"].partition(":")[0] for row in rows(segment, "events_waits_history_long")}
        assert sources == {"table_class.cpp"}
        program.go()


def test_a_thread_that_is_cancelled_in_a_call_on_a_socket_leaves_an_event_that_failed(build: Build, tmp_path: Path) -> None:
    with talking(build("sockets_cancelled"), "wait", folder=tmp_path) as program:
        program.until("ready")
        (row,) = rows(program.said["segment"], "socket_summary_by_event_name")
        # recv, recvmsg and accept were cancelled; each time three bytes came afterwards.
        assert (row["COUNT_READ"], row["SUM_NUMBER_OF_BYTES_READ"]) == (2 + 3, 9)
        assert (row["COUNT_WRITE"], row["SUM_NUMBER_OF_BYTES_WRITE"]) == (3, 9)
        assert row["COUNT_MISC"] == 1 + 3 + 1
        events = rows(program.said["segment"], "events_waits_history_long")
        assert len(events) == row["COUNT_STAR"]
        assert all(event["END_EVENT_ID"] == event["EVENT_ID"] for event in events)
        assert sorted(event["NUMBER_OF_BYTES"] for event in events if event["OPERATION"] == "recv") == [0, 3, 3, 3]
        assert len(rows(program.said["segment"], "socket_instances")) == 3


def test_a_compiled_out_program_needs_no_library(build: Build, tmp_path: Path) -> None:
    program = build("disabled", disabled=True)
    assert run(program, cwd=tmp_path) == "disabled: ok\n"
    assert "perfschema" not in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert segments_in(tmp_path) == []


def test_every_program_is_run_here() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    for path in PROGRAMS.glob("*.c*"):
        assert f'"{path.stem}"' in text or f'"{path.name}"' in text, f"{path.name} is not built"


# ---- fork --------------------------------------------------------------------------------------------------------------------


def test_child_works_on_with_its_own_tables_and_parent_keeps_its_own(build: Build, tmp_path: Path) -> None:
    with talking(build("forks"), "work", folder=tmp_path) as program:
        program.until("child_ready")
        parent, child = program.said["parent_segment"], program.said["child_segment"]
        assert parent != child
        assert sorted([Path(parent).name, Path(child).name]) == segments_in(tmp_path)
        assert program.said["parent_thread"] == program.said["child_thread"]
        locks, files = "wait/synch/mutex/forks/LOCK", "wait/io/file/forks/file"
        # Statistics of the child start at zero: 5 locks; open, 2 writes, close.
        for segment, lock_count, writes in ((parent, 10, 3), (child, 5, 2)):
            assert count(segment, locks) == lock_count
            assert count(segment, locks, "events_waits_summary_by_instance") == lock_count
            assert count(segment, locks, "events_waits_summary_by_thread_by_event_name") == lock_count
            assert count(segment, files) == writes + 2
            assert count(segment, files, "file_summary_by_event_name", "SUM_NUMBER_OF_BYTES_WRITE") == 7 * writes
            assert len(rows(segment, "events_waits_history_long", "EVENT_ID")) == lock_count + writes + 2
            assert [row["THREAD_ID"] for row in rows(segment, "threads", "THREAD_ID")] == [int(program.said["parent_thread"])]
        written = {row["FILE_NAME"].rsplit("/", 1)[1]: row["COUNT_WRITE"] for row in rows(child, "file_summary_by_instance")}
        assert written["child"] == 2
        assert written.get("parent", 0) == 0
        program.go()
        program.until("parent_ready")
        assert program.said["child_exit"] == "7"
        assert segments_in(tmp_path) == [Path(parent).name]  # a clean exit takes the child's away
        assert count(parent, locks) == 10
    assert segments_in(tmp_path) == []


def test_fork_under_load_never_hangs_nor_breaks(build: Build, tmp_path: Path) -> None:
    # Where segments are without PFS_DIR: on a disk a fork takes ten times as long.
    with TemporaryDirectory(dir="/dev/shm") as segments:
        assert run(build("forks"), "hammer", "200", cwd=tmp_path, segments=Path(segments)) == "forks 200 bad 0\n"
        assert segments_in(Path(segments)) == []


def test_fork_inside_of_open_waits(build: Build, tmp_path: Path) -> None:
    enough = "performance_schema_events_waits_history_long_size=10000"
    with talking(build("forks"), "inside", folder=tmp_path, options=enough) as program:
        program.until("child_ready")
        own, lock = "wait/synch/mutex/forks/own", "wait/synch/mutex/forks/LOCK"
        child = program.said["child_segment"]
        # Both waits end in the child, which did not begin them: they are counted, with their time, and have no record.
        assert count(child, own) == 2
        assert count(child, lock) == 2101
        longest = max(row["MAX_TIMER_WAIT"] for row in rows(child, "events_waits_summary_global_by_event_name"))
        assert longest < 60 * 10**12
        assert all(row["END_EVENT_ID"] is not None for row in rows(child, "events_waits_history_long"))
        program.go()
        program.until("parent_ready")
        parent = program.said["parent_segment"]
        assert program.said["child_exit"] == "0"
        assert count(parent, own) == 2
        assert count(parent, lock) == 2101
        inner, outer = (row for row in rows(parent, "events_waits_history_long") if row["EVENT_NAME"] == own)  # as they ended
        assert inner["NESTING_EVENT_ID"] == outer["EVENT_ID"]
        assert outer["END_EVENT_ID"] == outer["EVENT_ID"] + 102


@every_way
def test_fork_in_a_signal_handler_inside_of_a_lock(way: str, build: Build, tmp_path: Path) -> None:
    """The end of the wait comes in two processes: in the child it is counted and has no record, since that is the parent's."""
    with talking(build("forks"), "signal", folder=tmp_path, options=WAYS[way]) as program:
        program.until("child_ready")
        held, lock, long = "wait/synch/mutex/forks/held", "wait/synch/mutex/forks/LOCK", "events_waits_history_long"
        child = program.said["child_segment"]
        assert (count(child, held), count(child, lock)) == (1, 5)
        assert [row["EVENT_NAME"] for row in rows(child, long)] == [lock] * (5 if way in ("everything", "untimed") else 0)
        program.go()
        program.until("parent_ready")
        parent = program.said["parent_segment"]
        assert program.said["child_result"] == program.said["parent_result"] == "1"
        assert program.said["child_exit"] == "0"
        waits = count(parent, held)  # the holder's, and the one that the handler came into; it may have come late
        assert waits >= 2
        assert count(parent, lock) == 5
        recorded = [row["EVENT_NAME"] for row in rows(parent, long)]
        assert recorded.count(held) == {"everything": waits, "untimed": waits, "contended": waits - 1}.get(way, 0)
        assert recorded.count(lock) == (5 if way in ("everything", "untimed") else 0)


def test_exec_gets_no_descriptor_of_ours(build: Build, tmp_path: Path) -> None:
    assert run(build("forks"), "exec", cwd=tmp_path) == "fork 0\nvfork 0\nspawn 0\n"


# ---- Signals -----------------------------------------------------------------------------------------------------------------


@every_way
def test_every_event_of_a_signal_handler_is_counted_or_counted_as_lost(way: str, build: Build, tmp_path: Path) -> None:
    said = values(run(build("signals"), "timer", cwd=tmp_path, env={"PFS_KEEP": "1", "PFS_OPTIONS": WAYS[way]}))
    calls, locks, reads = int(said["calls"]), int(said["locks"]), int(said["reads"])
    assert said["bad"] == said["handler_bad"] == "0"
    assert calls > 1000
    segment = said["segment"]
    state = status_of(segment)
    lost = int(state["Performance_schema_locker_lost"] or 0)
    no_room = {
        name: state[f"Performance_schema_{name}_lost"]
        for name in ("object_cells", "thread_statistics", "events", "source_locations")
    }
    of_handler = count(segment, "wait/synch/mutex/signals/handler") + count(segment, "wait/io/file/signals/pipe")
    print(f"{calls} calls of the handler: {of_handler} events, {lost} lost; {locks} locks, {reads} reads; {no_room}")
    assert set(no_room.values()) == {"0"}
    assert of_handler + lost == 2 * calls
    # What the program did itself is all there: it was never told to stand back.
    assert count(segment, "wait/synch/mutex/signals/main") == locks
    assert count(segment, "wait/io/file/signals/data", column="COUNT_STAR") == reads + 1  # the open
    assert count(segment, "wait/io/file/signals/data", "file_summary_by_event_name", "SUM_NUMBER_OF_BYTES_READ") == 7 * reads
    for row in rows(segment, "events_waits_history_long"):
        if way == "untimed":
            assert row["TIMER_START"] is row["TIMER_END"] is row["TIMER_WAIT"] is None
        else:
            assert row["TIMER_END"] - row["TIMER_START"] == row["TIMER_WAIT"]
        if row["NESTING_EVENT_ID"] is not None:
            assert row["EVENT_NAME"] in ("wait/synch/mutex/signals/handler", "wait/io/file/signals/pipe")
            assert row["NESTING_EVENT_TYPE"] == "WAIT"


LOST_IN_A_HANDLER = ("locker", "object_cells", "source_locations", "events")


def test_a_signal_handler_that_comes_into_the_cold_path_loses_no_count(build: Build, tmp_path: Path) -> None:
    """Of each call of the handler both events are counted, or counted as lost: from its first call on, also where the program is
    opening a file or making a mutex. There the first calls may lose the count of their file (see the next test) and their SOURCE:
    both places are written down under the lock that the interrupted program holds. The next call tries again."""
    said = values(run(build("signals"), "cold", cwd=tmp_path, env={"PFS_KEEP": "1"}))
    segment, calls = said["segment"], int(said["calls"])
    assert said["handler_bad"] == "0"
    assert calls > 500
    state = status_of(segment)
    names = [f"Performance_schema_{what}_lost" for what in LOST_IN_A_HANDLER]
    lost, cells_lost, sources_lost, rows_lost = (int(state[name] or 0) for name in names)
    said_lost = f"{cells_lost} cells and {sources_lost} places of first calls, {rows_lost} rows"
    print(f"{calls} calls of the handler, {lost} events lost, {said_lost}")
    lock, pipe = "wait/synch/mutex/signals/handler", "wait/io/file/signals/pipe"
    by_thread = "events_waits_summary_by_thread_by_event_name"
    assert count(segment, lock, by_thread) + count(segment, pipe, by_thread) + lost == 2 * calls
    assert count(segment, lock) == count(segment, lock, by_thread)
    assert count(segment, pipe) + cells_lost == count(segment, pipe, by_thread)
    assert cells_lost <= 1
    assert sources_lost <= 10  # two places; about one call in seven meets the lock
    # The pool of rows grows under that lock, too: such an event has no row, and all sums have it.
    assert rows_lost <= 20
    assert count(segment, "wait/synch/mutex/signals/main") == int(said["locks"])
    assert count(segment, "wait/io/file/signals/data") == 2 * int(said["opens"])
    others = {name: value for name, value in state.items() if value not in ("0", None)}
    assert set(others) <= set(names)


def test_the_first_operation_of_a_signal_handler_on_a_file_is_counted_or_its_cell_is_counted_as_lost(
    build: Build, tmp_path: Path
) -> None:
    """The thread's statistics of a file are made under a lock, which a handler cannot wait for if it interrupted the making
    of a mutex. The event and the sums of the thread have it all the same."""
    said = values(run(build("signals"), "first", cwd=tmp_path, env={"PFS_KEEP": "1"}))
    segment, calls = said["segment"], int(said["calls"])
    assert said["handler_bad"] == "0"
    state = status_of(segment)
    lost, cells_lost = (int(state[f"Performance_schema_{what}_lost"] or 0) for what in ("locker", "object_cells"))
    print(f"{calls} first operations, {lost} events lost, {cells_lost} cells lost")
    pipe = "wait/io/file/signals/pipe"
    in_thread = count(segment, pipe, "events_waits_summary_by_thread_by_event_name")
    assert in_thread + lost == calls == 500
    assert 0 < cells_lost < calls  # else no call came where it matters
    assert in_thread - cells_lost <= count(segment, pipe) <= in_thread  # the instrument has the events whose file found no cell
    assert count(segment, pipe, "file_summary_by_event_name") == count(segment, pipe)


def test_a_signal_handler_that_comes_into_a_change_of_account_loses_no_count(build: Build, tmp_path: Path) -> None:
    """Numbers that move from the thread to its account and events of a handler on the same thread: all are counted, or as
    lost."""
    said = values(run(build("signals"), "account", cwd=tmp_path, env={"PFS_KEEP": "1"}))
    segment, calls, locks = said["segment"], int(said["calls"]), int(said["locks"])
    assert said["handler_bad"] == "0"
    assert calls > 500
    by_user: dict[str, int] = {}
    for row in rows(segment, "events_waits_summary_by_user_by_event_name", "USER", "EVENT_NAME", "COUNT_STAR"):
        by_user[row["EVENT_NAME"]] = by_user.get(row["EVENT_NAME"], 0) + row["COUNT_STAR"]
    main, handler = "wait/synch/mutex/signals/main", "wait/synch/mutex/signals/handler"
    assert by_user[main] == count(segment, main) == locks
    lost = int(status_of(segment)["Performance_schema_locker_lost"] or 0)
    assert by_user[handler] == count(segment, handler)
    # A handler that is not heard loses its event and its text.
    assert calls - lost <= by_user[handler] <= calls - lost // 2
    accounts = {row["USER"]: row["TOTAL_CONNECTIONS"] for row in rows(segment, "accounts") if row["USER"]}
    assert sum(accounts.values()) == int(said["switches"]) + 3
    (row,) = [row for row in rows(segment, "threads") if row["PROCESSLIST_INFO"]]
    assert row["PROCESSLIST_INFO"] in ("h" * 40, "m" * 64)


def test_longjmp_out_of_a_read_leaves_later_events_recorded(build: Build, tmp_path: Path) -> None:
    said = values(run(build("signals"), "jump", cwd=tmp_path, env={"PFS_KEEP": "1"}))
    assert said["jumps"] == "20"
    assert count(said["segment"], "wait/synch/mutex/signals/main") == 1 + 50
    # Each read that was left is dropped when the next event shows that its frame is gone: nothing is nested in it.
    assert status_of(said["segment"])["Performance_schema_locker_lost"] == "20"
    kept = [row for row in rows(said["segment"], "events_waits_history") if row["EVENT_NAME"].endswith("/main")]
    assert len(kept) == 10
    assert [row["NESTING_EVENT_ID"] for row in kept] == [None] * 10
    current = rows(said["segment"], "events_waits_current")
    assert [row["EVENT_NAME"] for row in current if row["END_EVENT_ID"] is None] == []


@pytest.mark.parametrize("mode", ["files", "objects", "events", "log"])
def test_a_handler_that_jumps_out_of_pfs_leaves_it_whole(mode: str, build: Build, tmp_path: Path) -> None:
    """siglongjmp out of whatever it interrupted, thousands of times: no lock is left taken, other threads go on, and the thread
    itself is recorded as before."""
    said = values(run(build("jumps"), mode, cwd=tmp_path, env={"PFS_KEEP": "1"}))
    assert "hung" not in said
    segment = said["segment"]
    print(f"{mode}: {said['jumps']} jumps, {said['others']} other threads")
    assert int(said["jumps"]) > 200
    assert count(segment, "wait/synch/mutex/jumps/other") == int(said["others"])
    assert count(segment, "wait/synch/mutex/jumps/after") == 50
    of_main = [row for row in rows(segment, "events_waits_history_long") if row["EVENT_NAME"].endswith("/after")]
    assert {row["NESTING_EVENT_ID"] for row in of_main} <= {None} or mode == "events"  # a stage may have been left
    assert len(of_main) == 50
    if mode in ("files", "events"):  # the history is as long as before: no jump has taken a chunk out of it for good
        [size] = [
            row["VARIABLE_VALUE"]
            for row in rows(segment, "global_variables")
            if row["VARIABLE_NAME"].endswith("waits_history_long_size")
        ]
        ids = sorted(
            row["EVENT_ID"] for row in rows(segment, "events_waits_history_long") if row["THREAD_ID"] == int(said["thread"])
        )
        newest = ids[-int(size) // 2 :]
        assert newest[-1] - newest[0] < 8 * len(newest)  # a statement and a stage are events, too
    for table in ("events_waits_current", "events_statements_current"):
        assert [row["EVENT_NAME"] for row in rows(segment, table) if row["END_EVENT_ID"] is None] == []
    state = status_of(segment)
    assert state["Performance_schema_rows_skipped"] == "0"
    no_room = {name: value for name, value in state.items() if name.endswith("_lost") and value not in ("0", None)}
    # A first call whose place cannot be written down, because the handler interrupted the lock for it, has no SOURCE.
    assert set(no_room) <= {"Performance_schema_locker_lost", "Performance_schema_source_locations_lost"}


def test_locks_that_processes_share_are_plain_locks(build: Build, tmp_path: Path) -> None:
    """A second process knows nothing of the first one's rows: such locks, rwlocks and conditions have none, robust ones too."""
    for disabled in (True, False):
        said = values(run(build("shared_locks", disabled), f"locks-{disabled}", cwd=tmp_path, env={"PFS_KEEP": "1"}))
        assert said["result"] == "ok"
    for table in ("mutex_instances", "rwlock_instances", "cond_instances"):
        names = [row["NAME"] for row in rows(said["segment"], table) if "/shared/" in row["NAME"]]
        assert names == (["wait/synch/mutex/shared/m"] if table == "mutex_instances" else [])


def test_an_object_is_not_taken_for_one_65536_lives_before(build: Build, tmp_path: Path) -> None:
    with talking(build("many_lives"), folder=tmp_path) as program:
        program.until("ready")
        segment, name = program.said["segment"], "wait/synch/rwlock/lives/LIVES"
        assert count(segment, name) == 3
        assert count(segment, name, "events_waits_summary_by_instance") == 2
        for holders, then in ((2, "one"), (1, "none"), (0, "")):
            (row,) = rows(segment, "rwlock_instances")
            assert (row["READ_LOCKED_BY_COUNT"], row["WRITE_LOCKED_BY_THREAD_ID"]) == (holders, None)
            if then:
                program.go()
                program.until(then)


def test_wrong_calls_do_no_more_harm_than_in_the_plain_build(build: Build, tmp_path: Path) -> None:
    for disabled in (True, False):
        assert values(run(build("misused", disabled), cwd=tmp_path))["result"] == "ok"


# ---- Processors that cannot store two words at once --------------------------------------------------------------------------


def emulated(cpu: str, program: Path) -> list[str]:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-x86_64 is not installed: see tests/run.sh")
    return [emulator, "-cpu", cpu, str(program)]


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("cpu", ["qemu64", "Nehalem"])
def test_without_avx_a_program_of_many_threads_is_recorded_exactly(cpu: str, options: str, build: Build, tmp_path: Path) -> None:
    """x86-64 without AVX: 8 threads lock 3000 mutexes 3 times each, and main uses 300 files. Read from outside while it lives."""
    work = tmp_path / "work"
    work.mkdir()
    env = environment(tmp_path, PFS_OPTIONS=options or "performance_schema_events_waits_history_long_size=10000")
    command = [*emulated(cpu, build("busy")), str(work), "hold"]
    plain = run(build("busy"), str(work), cwd=tmp_path, env={"PFS_OPTIONS": "performance_schema=OFF"})
    with subprocess.Popen(
        command, cwd=work, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            segment = process.stderr.readline().removeprefix("ready ").strip()
            assert segment.endswith(".pfs"), "pfs is off"
            state = status_of(segment)
            assert state["Performance_schema_status_reason"] in ("", None)
            assert "CYCLE" in str(state["Performance_schema_timer_reason"])  # these processors promise no invariant counter
            lock, file = "wait/synch/mutex/busy/LOCK", "wait/io/file/busy/file"
            by_instance = [row for row in rows(segment, "events_waits_summary_by_instance") if row["EVENT_NAME"] == lock]
            assert [row["COUNT_STAR"] for row in by_instance] == [8 * 3] * 3000
            by_event = "events_waits_summary_global_by_event_name"
            (total,) = [row for row in rows(segment, by_event) if row["EVENT_NAME"] == lock]
            assert total["COUNT_STAR"] == 8 * 3 * 3000
            assert total["SUM_TIMER_WAIT"] == sum(row["SUM_TIMER_WAIT"] for row in by_instance)
            assert total["MAX_TIMER_WAIT"] == max(row["MAX_TIMER_WAIT"] for row in by_instance)
            if options == "":
                assert 0 < total["MIN_TIMER_WAIT"] <= total["AVG_TIMER_WAIT"] <= total["MAX_TIMER_WAIT"]
                waits = [row["TIMER_WAIT"] for row in rows(segment, "events_waits_history_long") if row["EVENT_NAME"] == lock]
                assert waits
                assert total["MIN_TIMER_WAIT"] <= min(waits) <= max(waits) <= total["MAX_TIMER_WAIT"]
            assert count(segment, file, "file_summary_by_event_name", "COUNT_WRITE") == 300
            assert count(segment, file, "file_summary_by_event_name", "SUM_NUMBER_OF_BYTES_READ") == 300 * 8
            lost = {name for name, value in state.items() if name.endswith("_lost") and value != "0"}
            assert lost == set()
            said = process.communicate("g\n", timeout=TIMEOUT)[0]
        except BaseException:
            process.kill()
            raise
    assert (process.returncode, said) == (0, plain)


def test_without_avx_the_memory_of_a_program_is_what_it_says_itself(build: Build, tmp_path: Path) -> None:
    """As test_memory_of_a_program_is_what_it_says_itself: blocks and bytes of one side have a section around them."""
    says_its_memory(tmp_path, *emulated("qemu64", build("memory")))


def test_without_avx_a_python_program_is_recorded_exactly(tmp_path: Path) -> None:
    script = """
        import threading, pfs
        lock = pfs.Lock("app/LOCK")
        def work():
            for _ in range(500):
                with lock, pfs.stage("app/step"):
                    pass
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """
    command = emulated("qemu64", Path(sys.executable))
    run(*command, "-c", textwrap.dedent(script), cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = segments_in(tmp_path)
    assert count(tmp_path / segment, "wait/synch/mutex/app/LOCK") == 4 * 500
    assert count(tmp_path / segment, "stage/app/step", "events_stages_summary_global_by_event_name") == 4 * 500


# ---- Threads that end --------------------------------------------------------------------------------------------------------


def test_threads_that_end_leave_totals_and_give_back_their_slots(build: Build, tmp_path: Path) -> None:
    with talking(build("thread_ends"), "2000", folder=tmp_path) as program:
        program.until("ready")
        segment = program.said["segment"]
        assert program.said["good"] == "2070"
        lock = "wait/synch/mutex/thread_ends/LOCK"
        assert count(segment, lock) == 2 * 2070 + 1
        assert count(segment, lock, "events_waits_summary_by_instance") == 2 * 2070 + 1
        assert count(segment, "wait/io/file/thread_ends/pipe") == 20
        # main has locked nothing; of the others only the one that is alive is shown.
        assert count(segment, lock, "events_waits_summary_by_thread_by_event_name") == 1
        assert len(rows(segment, "threads", "THREAD_ID")) <= 2
        assert max(row["THREAD_ID"] for row in rows(segment, "threads", "THREAD_ID")) >= 2071
        state = status_of(segment)
        assert not {name: value for name, value in state.items() if value not in ("0", None)}
    assert segments_in(tmp_path) == []


def test_spawned_threads_know_their_parent_and_leave_their_numbers_to_its_account(build: Build, tmp_path: Path) -> None:
    with talking(build("spawned"), "many", "400", folder=tmp_path) as program:
        program.until("ready")
        segment, lock = program.said["segment"], "wait/synch/mutex/spawned/LOCK"
        assert count(segment, lock) == 800
        assert count(segment, lock, "events_waits_summary_by_thread_by_event_name") == 0
        by_account = rows(segment, "events_waits_summary_by_account_by_event_name", "USER", "HOST", "EVENT_NAME", "COUNT_STAR")
        assert [(row["USER"], row["COUNT_STAR"]) for row in by_account if row["COUNT_STAR"]] == [("anna", 800)]
        (account,) = [row for row in rows(segment, "accounts") if row["USER"] == "anna"]
        assert (account["CURRENT_CONNECTIONS"], account["TOTAL_CONNECTIONS"]) == (1, 801)
        assert len(rows(segment, "threads")) == 1
        state = status_of(segment)
        assert not {name: value for name, value in state.items() if value not in ("0", None)}


def test_sessions_in_a_forked_child_are_those_of_the_parent_without_its_threads(build: Build, tmp_path: Path) -> None:
    """G7, fork: what the forking thread has attached stays attached, all other sessions are there, attached to nobody; THREAD_IDs
    are the same, numbers start at zero. In the parent nothing changes."""
    with talking(build("sessions"), folder=tmp_path) as program:
        program.until("child_ready")
        said = program.said
        program.until("attach_of_others")
        own, first, second, third = (int(said[name]) for name in ("own", "first", "second", "third"))
        lock = "wait/synch/mutex/sessions/LOCK"

        def shown(segment: str) -> dict[int, tuple[int, str | None, bool]]:
            counts = {
                row["THREAD_ID"]: row["COUNT_STAR"]
                for row in rows(segment, "events_waits_summary_by_thread_by_event_name")
                if row["EVENT_NAME"] == lock
            }
            return {
                row["THREAD_ID"]: (counts[row["THREAD_ID"]], row["PROCESSLIST_USER"], row["THREAD_OS_ID"] is not None)
                for row in rows(segment, "threads")
            }

        assert said["child_current"] == said["first"]
        assert (said["child_attach_of_others"], said["child_delete"], said["child_gone"], said["child_own"]) == (
            "0",
            "0",
            "2",
            "0",
        )
        new = int(said["child_new"])
        assert shown(said["child_segment"]) == {
            own: (16, None, True),
            first: (4, "anna", False),
            second: (8, "bob", False),
            new: (0, None, False),
        }
        assert {row["USER"]: row["CURRENT_CONNECTIONS"] for row in rows(said["child_segment"], "accounts")} == {
            None: 2,
            "anna": 1,
            "bob": 1,
        }
        assert count(said["child_segment"], lock) == 28
        assert said["attach_of_others"] == "6"
        program.go()
        program.until("ready")
        assert (said["child_exit"], said["attach_of_what_an_ended_thread_had"]) == ("0", "0")
        assert shown(said["segment"]) == {
            own: (1, None, False),
            first: (8, "anna", False),
            second: (8, "bob", True),
            third: (0, None, False),
        }
    assert segments_in(tmp_path) == []


# ---- Places without room -----------------------------------------------------------------------------------------------------

# Reads its own status, also where no file could be made.
ASK = """
    import pfs
    lock = pfs.Lock("test/LOCK")
    for _ in range(100):
        with lock:
            pass
    frame = pfs.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
    print(frame["wait/synch/mutex/test/LOCK"])
    print(pfs.status["Performance_schema_status_reason"])
"""


def in_small_tmpfs(size: int, command: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with PFS_DIR on a tmpfs of `size` bytes; 0 = one that is full."""
    mount = cwd / "small"
    mount.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size={size or 4096},mode=0700 none "{mount}" || exit 99; '
    if size == 0:
        script += f'head -c 4096 /dev/zero > "{mount}/full"; '
    script += f'"$@"; code=$?; ls -1s "{mount}" >&2; exit $code'
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command],
        env=environment(mount, **env), cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip


@pytest.fixture
def tmpfs(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    if shutil.which("unshare") is None or in_small_tmpfs(65536, ["true"], tmp_path).returncode != 0:
        pytest.skip("needs root, and a kernel that gives a mount namespace of its own: unshare -m and mount -t tmpfs")
    return lambda size, *command, **env: in_small_tmpfs(size, list(command), tmp_path, **env)


KIB = 1024
# The file system itself is the limit, not an eighth of it.
NO_LIMIT = "performance_schema_max_file_system_part=0,performance_schema_max_segment_megabytes=0"
SIZES = [KIB * size for size in (0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 65536)]


def test_a_full_file_system_never_stops_the_program(build: Build, tmp_path: Path, tmpfs: Callable[..., Any]) -> None:
    plain = run(build("busy", disabled=True), str(tmp_path), cwd=tmp_path)
    assert plain.startswith("threads 144000 24\n")
    for size in SIZES:
        done = tmpfs(size, str(build("busy")), str(tmp_path))
        assert done.returncode == 0, f"{size} bytes: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.stdout == plain, size


def test_a_full_file_system_is_told(tmp_path: Path, tmpfs: Callable[..., Any]) -> None:
    """Not even the header has room: private memory, and the reason. The header has, but nothing else: losses are counted."""
    done = tmpfs(0, sys.executable, "-W", "error", "-c", textwrap.dedent(ASK))
    assert done.returncode == 0, done.stderr
    events, reason = done.stdout.splitlines()
    assert events == "100"
    assert "cannot allocate the file" in reason
    assert "No space left" in reason
    # What has room differs by a page or two: somewhere the header fits, and objects do not.
    lost_somewhere = False
    for size in (4 * KIB, 8 * KIB, 12 * KIB, 16 * KIB, 20 * KIB, 24 * KIB, 32 * KIB, 64 * KIB):
        script = """
            import pfs
            locks = []
            for i in range(3000):
                lock = pfs.Lock("test/LOCK")
                with lock:
                    pass
                locks.append(lock)
            print({name: value for name, value in pfs.status.items() if value not in ("0", None, 0, "")})
        """
        done = tmpfs(size, sys.executable, "-W", "error", "-c", textwrap.dedent(script))
        assert done.returncode == 0, f"{size}: {done.stderr}"
        print(size, done.stdout.strip())
        assert done.stdout.strip() != "{}", size
        lost_somewhere |= "_lost" in done.stdout
    assert lost_somewhere


def test_long_texts_in_a_full_file_system(tmp_path: Path, tmpfs: Callable[..., Any]) -> None:
    """A statement whose text has no room shows the beginning of it. That is counted, and nothing else is lost by it."""
    script = """
        import pfs
        from tests.python._programs.nested import Statement
        long, short = "select " + ", ".join(f"c{i}" for i in range(200)), "select 1"
        for _ in range(3000):
            Statement("n/work", short).end()
            Statement("n/work", long).end()
        rows = pfs.table("events_statements_history_long")["SQL_TEXT"]
        whole = long[:1021] + "..."
        assert all(text == short or whole.startswith(text) and len(text) >= 512 for text in rows)
        print(len(rows), sum(len(text) == 512 for text in rows), pfs.status["performance_schema_digest_lost"])
    """
    cuts = []
    for size in (512 * KIB, 1024 * KIB, 2048 * KIB, 3072 * KIB, 4096 * KIB, 65536 * KIB):
        done = tmpfs(
            size, sys.executable, "-W", "error", "-c", textwrap.dedent(script), PYTHONPATH=str(PROGRAMS.parents[1]),
            PFS_OPTIONS=NO_LIMIT,
        )  # fmt: skip
        assert done.returncode == 0, f"{size}: {done.stderr}"
        rows, cut, lost = map(int, done.stdout.split())
        assert cut <= lost, size
        cuts.append(cut)
    assert rows == 6000
    assert cuts[-1] == 0
    assert max(cuts) > 0


def test_fork_in_a_full_file_system_goes_on(build: Build, tmp_path: Path, tmpfs: Callable[..., Any]) -> None:
    for size in (KIB * size for size in (0, 4, 16, 64, 96, 112, 128, 128, 128, 144, 160, 512, 1024)):
        done = tmpfs(size, str(build("forks")), "hammer", "10")
        assert done.returncode == 0, f"{size}: {done.stdout}\n{done.stderr}"


@pytest.fixture
def fresh_in(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    def in_folder(folder: Path | str, **more: str) -> tuple[str, str]:
        env = environment(folder, **more)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(ASK)],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        events, reason = done.stdout.splitlines()
        return events, reason

    return in_folder


def test_a_directory_that_cannot_be_trusted_means_private_memory_and_a_reason(
    fresh_in: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    good, everybody, link, file = (tmp_path / name for name in ("good", "everybody", "link", "file"))
    good.mkdir(mode=0o700)
    everybody.mkdir()
    everybody.chmod(0o777)
    link.symlink_to(good)
    file.write_text("")
    assert fresh_in(good) == ("100", "")
    assert fresh_in(everybody) == ("100", "")
    assert [path.name for path in everybody.iterdir()] == [f"pfs-{os.geteuid()}"]
    for folder, words in [
        (link, "is a symbolic link"),
        (file, "cannot open the directory"),
        (tmp_path / "missing/below", "cannot make the directory"),
        ("/proc", "" if os.geteuid() else "cannot make the file"),
    ]:
        events, reason = fresh_in(folder)
        assert events == "100", folder
        assert words in reason, (folder, reason)
        assert str(folder) in reason, (folder, reason)
    assert fresh_in(tmp_path / "new") == ("100", "")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert segments_in(good) == segments_in(everybody / f"pfs-{os.geteuid()}") == []


def test_private_segments_are_asked_for(fresh_in: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    folder = tmp_path / "never"
    assert fresh_in(folder, PFS_SEGMENT="private") == ("100", "")
    assert not folder.exists()


def test_a_small_file_size_limit_means_private_memory_and_a_reason(build: Build, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    plain = run(build("busy", disabled=True), str(tmp_path), cwd=tmp_path)
    assert run(build("busy"), str(tmp_path), cwd=tmp_path, preexec_fn=limit) == plain
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ASK)],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events, reason = done.stdout.splitlines()
    assert events == "100"
    assert "ulimit -f" in reason


def test_every_table_is_readable_when_pfs_is_off(fresh: Run) -> None:
    out = fresh(
        """
        import pfs
        with pfs.Lock("test/LOCK"), pfs.open("/dev/null", name="test/null"):
            pass
        for name in pfs.tables():
            frame = pfs.table(name)
            assert len(frame.columns) == len(pfs.describe(name))
            print(name, len(frame))
        print("reason", pfs.status["Performance_schema_status_reason"])
        """,
        options="performance_schema=OFF",
    )
    lengths = values(out)
    assert lengths.pop("reason") == "performance_schema is OFF"
    assert len(lengths) == len(_core.tables())
    assert lengths["mutex_instances"] == lengths["events_waits_history_long"] == lengths["threads"] == "0"
    assert int(lengths["global_variables"]) > 10


# ---- The end by violence -----------------------------------------------------------------------------------------------------


def test_kill_leaves_a_file_that_opens(build: Build, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    process = subprocess.Popen(
        [build("busy"), str(work), "hold"],
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        match = re.match(r"ready (.+)\n", process.stderr.readline())
        assert match is not None
        segment = match[1]
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert segments_in(tmp_path) == [Path(segment).name]
    assert count(segment, "wait/synch/mutex/busy/LOCK") == 3 * 3000 * 8
    assert len(rows(segment, "mutex_instances")) == 3000
    assert count(segment, "wait/io/file/busy/file", "file_summary_by_event_name", "SUM_NUMBER_OF_BYTES_WRITE") == 8 * 300
    assert _core.Segment(segment).pid == process.pid
    for table in _core.tables():
        rows(segment, table)


# ---- What a program says of itself -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end", "kill"])
def test_what_a_program_says_of_itself_is_read_from_outside(how: str, build: Build, tmp_path: Path) -> None:
    """All calls of variable.h, connection.h, program.h, log.h; also of a program that was killed."""
    with talking(build("told"), how, folder=tmp_path, status=0 if how == "end" else -signal.SIGKILL) as program:
        program.until("ready")
        said, segment = program.said, program.said["segment"]
        if how == "kill":
            program.go()
            program.process.wait(TIMEOUT)
        assert (said["sum"], said["levels"], said["none"]) == ("0", "10 3", "0 0")
        assert (said["errors"], said["error"]) == ("1 1 2 3 1 1 1 1 2", "1")
        assert "PFS_ROW_METER" in said["why"]

        def only(table: str, *columns: str) -> list[tuple[Any, ...]]:
            return [tuple(row.values()) for row in rows(segment, table, *columns)]

        values = {row["VARIABLE_NAME"]: row["VARIABLE_VALUE"] for row in rows(segment, "global_variables")}
        assert {name: value for name, value in values.items() if name.startswith("told")} == {
            "told_threads": "8",
            "told_verbose": "OFF",
        }
        info = {row["VARIABLE_NAME"]: row for row in rows(segment, "variables_info")}
        assert (info["told_threads"]["VARIABLE_SOURCE"], info["told_threads"]["SET_USER"]) == ("COMMAND_LINE", "anna")
        assert only("variables_by_thread", "VARIABLE_NAME", "VARIABLE_VALUE") == [("told_verbose", "ON"), ("told_ratio", "0.75")]
        assert only("global_variable_attributes") == [("told_threads", "unit", "threads")]
        assert only("user_variables_by_thread", "VARIABLE_NAME", "VARIABLE_VALUE") == [("bytes", "\0\1\2"), ("null", None)]
        assert only("session_connect_attrs", "ATTR_NAME", "ATTR_VALUE", "ORDINAL_POSITION") == [
            ("_client", "told", 0),
            ("_empty", None, 1),
        ]
        assert only("session_account_connect_attrs") == []
        (host,) = rows(segment, "host_cache")
        assert {value for name, value in host.items() if name.startswith(("COUNT_", "SUM_"))} == {1}
        assert only("connection_control_failed_login_attempts") == [("'anna'@'desk'", 2)]
        year, day = 365 * 86400 * 10**6, 86400 * 10**6
        assert only("temporary_account_locks") == [("anna", "desk", "YES", 3, 0, 2, year, year + 2 * day)]
        assert only("setup_meters") == [("told.queue", 10, "YES", "The queue.")]
        assert only("setup_metrics") == [("depth", "told.queue", "ASYNC GAUGE COUNTER", "INTEGER", "items", None)]
        assert only("setup_loggers") == [("told/queue", "info", None)]
        assert only("component_scheduler_tasks") == [("clean", "RUNNING", "Cleans up.", 60, 1, 1)]
        assert only("user_defined_functions") == [("area", "real", "function", "shapes.so", 2)]
        assert only("error_log", "PRIO", "ERROR_CODE", "SUBSYSTEM", "DATA") == [
            ("Warning", "TOLD-00001", "queue", "nearly full"),
            ("Note", None, None, "a\0b"),
        ]


def test_the_log_may_be_written_from_signal_handlers(build: Build, tmp_path: Path) -> None:
    """Nobody waits for ever; each call is an event or is counted as lost; events are whole."""
    with talking(build("log_signals"), folder=tmp_path) as program:
        program.until("ready")
        said, segment = program.said, program.said["segment"]
        status = status_of(segment)
        events = rows(segment, "error_log", "ERROR_CODE", "DATA")
        assert int(said["handled"]) >= 20
        assert int(status["Performance_schema_error_log_lost"] or 0) == int(said["lost"])
        logged = int(status["Error_log_buffered_events"] or 0) + int(status["Error_log_expired_events"] or 0)
        assert logged + int(said["lost"]) == int(said["calls"])
        assert len(events) == int(status["Error_log_buffered_events"] or 0)
        for event in events:
            text = event["DATA"]
            assert text == ("from the handler" if event["ERROR_CODE"] == "HANDLER" else text[:1] * len(text))
