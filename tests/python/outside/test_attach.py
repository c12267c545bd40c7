"""pfs.attach: the same tables as from inside; of processes that are stopped, dead, gone over to another program, or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs import _core
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import BOOT_ID, PID, PID_NAMESPACE, START_TICKS, Subject, copy_header, forge, subject

GLOBAL = "events_waits_summary_global_by_event_name"


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder, "an", "argument") as running:
        yield running


def locked(schema: pfs.Schema, name: str) -> int:
    frame = schema.table(GLOBAL, ["EVENT_NAME", "COUNT_STAR"]).set_index("EVENT_NAME")
    return int(frame["COUNT_STAR"][f"wait/synch/mutex/{name}"])


def rich_world() -> None:
    """Something in many tables."""
    with pfs.Lock("app/LOCK"), pfs.open("a file", "w", name="app/data") as file:
        file.write("text")
    pfs.set_account("joe", "here")
    pfs.server.set_connect_attrs({"program": "test"})
    pfs.server.set_user_variable("number", "7")
    pfs.register_variable("app.level", 3)
    pfs.server.host_seen("192.0.2.1", "example")
    pfs.log("said")
    with pfs.transaction(), pfs.statement("app/query", "SELECT 1"):
        pass
    pfs.setup_actors.insert(user="ann", enabled=False)


# Tables that tell of the reader, or ask more than the segment.
BY_NATURE = {
    "active_sessions": "the kernel is asked what threads that live do, and time passes",
    "performance_timers": "frequencies and overheads are measured when they are read",
    "thread_time": "the kernel is asked about threads that live, and time passes",
    "session_account_connect_attrs": "those of the reader's account; somebody outside has none",
    "session_variables": "those of the thread that reads; somebody outside sees what a new session would",
    "session_status": "the same",
    "data_locks": "engines are asked, in their process",
    "data_lock_waits": "the same",
}


@fresh_process()
def test_own_process_has_the_same_frames_from_inside_and_outside() -> None:
    import pandas as pd

    rich_world()
    schema = pfs.attach(os.getpid())
    assert schema.tables() == pfs.tables()
    filled = 0
    for name in pfs.tables():
        own, outside = pfs.table(name), schema.table(name)
        if name in ("processlist", "threads") and not own.equals(outside):  # PROCESSLIST_TIME: a second has passed in between
            own, outside = pfs.table(name), schema.table(name)
        assert own.dtypes.equals(outside.dtypes), name
        if name not in BY_NATURE:
            pd.testing.assert_frame_equal(own, outside, obj=name)
            filled += len(own) > 0
    assert filled > 40
    assert len(pfs.table("session_account_connect_attrs")) == 1
    assert schema.table("session_account_connect_attrs").empty
    assert list(schema.table("performance_timers")["TIMER_NAME"]) == list(pfs.table("performance_timers")["TIMER_NAME"])


@fresh_process()
def test_schema_has_the_names_of_the_module() -> None:
    schema = pfs.attach(os.getpid())
    reading = ["tables", "table", "describe", "ddl", "truncate", "variables", "status", "threads", "snapshot"]
    reading += ["now"]
    for name in [*reading, *(name for name in pfs.__all__ if name.startswith("setup_"))]:
        assert type(getattr(schema, name)) is type(getattr(pfs, name)) or callable(getattr(schema, name)), name
    assert schema.ddl("threads") == pfs.ddl("threads")
    assert schema.describe("threads").equals(pfs.describe("threads"))
    for name in ("setup_instruments", "setup_consumers", "setup_actors", "setup_objects", "threads"):
        assert repr(getattr(schema, name)) == repr(getattr(pfs, name))
        assert getattr(schema, name).frame().equals(getattr(pfs, name).frame())
    assert dict(schema.variables) == dict(pfs.variables)
    assert schema.variables["max_thread_instances"] == pfs.variables["max_thread_instances"]
    assert dict(schema.status) == dict(pfs.status)


def test_another_process_is_read_anew_by_each_call(program: Subject) -> None:
    program.do("lock = pfs.Lock('app/LOCK')\nwith lock: pass")
    with pfs.attach(program.pid) as schema:
        assert schema.pid == program.pid
        assert schema.path == str(program.path)
        assert schema.is_alive is True
        assert locked(schema, "app/LOCK") == 1
        program.do("for _ in range(41):\n    with lock: pass")
        assert locked(schema, "app/LOCK") == 42
        assert len(schema.setup_instruments[{"NAME": "wait/synch/mutex/app/%", "ENABLED": True}]) == 1
        program.do("pfs.setup_instruments['wait/synch/mutex/app/%'].enabled = False")
        assert schema.setup_instruments["wait/synch/mutex/app/%"].enabled is False
        assert program.pid in schema.threads.frame()["THREAD_OS_ID"].tolist()
    with pytest.raises(pfs.StateError, match="is closed"):
        schema.table("threads")
    with pytest.raises(pfs.StateError, match="is closed"):
        schema.setup_instruments.frame()
    schema.close()


def test_a_path_in_any_form_opens_the_same(program: Subject) -> None:
    for path in (program.path, str(program.path)):
        with pfs.attach(path) as schema:
            assert schema.pid == program.pid


def test_it_shows_itself(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        assert repr(schema).startswith(f"<Schema of process {program.pid} (alive): {sys.executable} -W error ")
        assert str(program.path) in repr(schema)
        page = schema._repr_html_()
        assert "<table>" in page
        assert str(program.pid) in page
        assert "&#x27;done&#x27;" in page or "print(" in page


# ---- Processes that cannot be asked


def test_stopped_process_is_read(program: Subject) -> None:
    program.do("lock = pfs.Lock('app/LOCK')\nwith lock: pass")
    program.process.send_signal(signal.SIGSTOP)
    with pfs.attach(program.pid) as schema:
        assert locked(schema, "app/LOCK") == 1
        assert schema.is_alive


def test_dead_process_shows_its_last_event_and_the_lock_it_held(program: Subject) -> None:
    program.do("lock = pfs.Lock('app/LOCK'); other = pfs.Lock('app/OTHER'); lock.acquire(); other.acquire()")
    with pfs.attach(program.pid) as early:
        assert early.is_alive
        program.kill()
        for schema in (early, pfs.attach(program.pid), pfs.attach(program.path)):
            assert schema.is_alive is False
            assert "(dead)" in repr(schema)
            held = schema.table("mutex_instances").set_index("NAME")["LOCKED_BY_THREAD_ID"]
            assert held.notna().tolist() == [True, True]
            last = schema.table("events_waits_history_long").iloc[-1]
            assert last["EVENT_NAME"] == "wait/synch/mutex/app/OTHER"


def test_zombie_is_dead(program: Subject) -> None:
    program.kill(reap=False)
    assert pfs.attach(program.pid).is_alive is False


def test_process_whose_first_thread_has_ended_is_alive(program: Subject) -> None:
    program.do("import threading, time; threading.Thread(target=time.sleep, args=(100,)).start()")
    program.do("with pfs.Lock('app/LOCK'): pass")
    program.send("import ctypes; ctypes.CDLL(None).syscall(60, 0)")
    stat = Path(f"/proc/{program.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    with pfs.attach(program.pid) as schema:
        assert schema.is_alive
        assert locked(schema, "app/LOCK") == 1


def test_process_that_became_another_program_is_dead(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        program.send("os.execv('/bin/sleep', ['sleep', '100'])")
        while not Path(f"/proc/{program.pid}/cmdline").read_bytes().startswith(b"sleep"):
            pass
        assert schema.is_alive is False
        assert program.process.poll() is None
        assert schema.command.startswith(sys.executable)


def test_closing_lets_the_mapping_go(program: Subject) -> None:
    schema = pfs.attach(program.pid)
    assert str(program.path) in Path("/proc/self/maps").read_text()
    schema.close()
    assert str(program.path) not in Path("/proc/self/maps").read_text()
    assert schema.pid == program.pid
    assert schema.is_alive


def test_file_that_shrinks_is_an_error_and_no_signal(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        program.kill()
        os.truncate(program.path, 0)
        assert schema.pid == program.pid
        assert str(program.pid) in repr(schema) + schema._repr_html_()
        with pytest.raises(pfs.AttachError, match="cut short"):
            schema.table("threads")
        with pytest.raises(pfs.AttachError, match="cut short"):
            schema.snapshot()


# ---- Whose segment it is


def test_header_decides_and_not_the_name(program: Subject, folder: Path) -> None:
    program.path.rename(folder / "1.pfs")
    (folder / f"{program.pid}.pfs").write_bytes(b"planted" * 10_000)
    with pytest.raises(pfs.AttachError):
        pfs.attach(folder / f"{program.pid}.pfs")
    with pfs.attach(program.pid) as schema:
        assert schema.path == str(folder / "1.pfs")


def test_no_segment_says_what_is_there(program: Subject, folder: Path) -> None:
    with pytest.raises(pfs.AttachError) as caught:
        pfs.attach(4194304)
    assert str(folder) in str(caught.value)
    assert f"{program.path} (process {program.pid}, alive)" in str(caught.value)


def test_no_segment_of_a_process_that_runs_says_how_to_make_one(program: Subject, folder: Path) -> None:
    pid = os.getppid() if os.getppid() > 1 else 2
    with pytest.raises(pfs.AttachError) as caught:
        pfs.attach(pid)
    assert str(caught.value) == f"process {pid} is not recorded (pfs join {pid} records it): no segment of it in {folder}"


def test_no_segment_at_all(folder: Path) -> None:
    with pytest.raises(pfs.AttachError, match="no segments at all"):
        pfs.attach(4194304)
    with pytest.raises(pfs.AttachError, match="missing"):
        pfs.attach(folder / "missing.pfs")


@pytest.mark.parametrize(
    ("offset", "value", "alive"), [(START_TICKS, 1, False), (PID_NAMESPACE, 1, True), (BOOT_ID, b"another", None)], ids=str
)
def test_pid_that_is_another_process_now_is_refused(
    program: Subject, offset: int, value: int | bytes, alive: bool | None
) -> None:
    """A process runs under the pid, but the segment is of an earlier one, or of another container's."""
    forge(program.path, offset, value)
    with pytest.raises(pfs.AttachError, match="has no segment") as caught:
        pfs.attach(program.pid)
    assert str(program.path) in str(caught.value)
    with pfs.attach(program.path) as schema:
        assert schema.is_alive is alive


def test_of_several_segments_of_a_pid_the_running_process_is_taken(program: Subject, folder: Path) -> None:
    copy = folder / f"{program.pid}-1.pfs"
    copy_header(program.path, copy)
    forge(copy, PID_NAMESPACE, 1)
    with pfs.attach(program.pid) as schema:
        assert schema.path == str(program.path)
    program.kill()
    with pytest.raises(pfs.AttachError, match="several segments") as caught:
        pfs.attach(program.pid)
    assert str(copy) in str(caught.value)
    assert str(program.path) in str(caught.value)


def test_pid_without_sense_is_unknown(program: Subject) -> None:
    for pid in (0, 2**63, 2**64 - 1):
        forge(program.path, PID, pid)
        with pfs.attach(program.path) as schema:
            assert schema.pid == pid
            assert schema.is_alive is None


def test_process_with_private_memory_says_why() -> None:
    script = """
import os, pfs
try:
    pfs.attach(os.getpid())
except pfs.AttachError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "PFS_DIR": "/proc/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "has no segment file: " in done.stdout
    assert "/proc/nowhere" in done.stdout


def test_child_of_fork_has_a_segment_of_its_own(program: Subject) -> None:
    program.do(
        """
        with pfs.Lock("app/LOCK"): pass
        import time
        ready, tell = os.pipe()
        if os.fork() == 0:
            with pfs.Lock("app/CHILD"): pass
            os.write(tell, b"x")
            while True: time.sleep(1)
        os.read(ready, 1)
        """
    )
    with pfs.attach(program.pid) as parent:
        children = [int(pid) for pid in pfs.processes()["PID"] if pid != parent.pid]
    try:
        assert len(children) == 1
        with pfs.attach(children[0]) as child:
            assert child.is_alive
            assert child.command == pfs.attach(program.pid).command
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


# ---- Changes

CHANGES: list[Callable[[pfs.Schema], object]] = [
    lambda schema: schema.truncate(GLOBAL),
    lambda schema: schema.setup_instruments.update("wait/%", enabled=False),
    lambda schema: setattr(schema.setup_instruments["wait/%"], "enabled", False),
    lambda schema: setattr(schema.setup_consumers["events_waits_history"], "enabled", True),
    lambda schema: schema.setup_actors.insert(user="joe"),
    lambda schema: schema.setup_actors.delete(),
    lambda schema: schema.setup_actors.truncate(),
    lambda schema: schema.setup_instruments.only("wait/%").__enter__(),
    lambda schema: schema.threads.update(1, history=False),
]


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_without_write_nothing_changes(program: Subject, change: int) -> None:
    program.do("with pfs.Lock('app/LOCK'): pass")
    with pfs.attach(program.pid) as schema:
        before = {name: schema.table(name) for name in pfs.tables() if name.startswith("setup_") or name == GLOBAL}
        with pytest.raises(pfs.OperationNotAllowed, match=r"attach\(\.\.\., write=True\)"):
            CHANGES[change](schema)
        assert all(schema.table(name).equals(frame) for name, frame in before.items())


def test_unknown_table_is_named_first(program: Subject) -> None:
    with pfs.attach(program.pid) as schema:
        for call in (schema.table, schema.truncate, schema.ddl, schema.describe):
            with pytest.raises(pfs.UnknownTable, match="the nearest is 'threads'"):
                call("thread")
        with pytest.raises(pfs.UnknownColumn):
            schema.table("threads", ["NO"])


def test_dead_process_cannot_be_changed(program: Subject) -> None:
    program.kill()
    with pfs.attach(program.pid, write=True) as schema:
        with pytest.raises(pfs.StateError, match=f"process {program.pid} is dead"):
            schema.truncate(GLOBAL)
        with pytest.raises(pfs.StateError, match="is dead"):
            schema.setup_instruments.update("wait/%", enabled=False)


@fresh_process()
def test_write_to_own_process_changes_it() -> None:
    with pfs.Lock("app/LOCK"):
        pass
    with pfs.attach(os.getpid(), write=True) as schema:
        schema.setup_instruments["wait/synch/mutex/app/%"].enabled = False
        assert pfs.setup_instruments["wait/synch/mutex/app/%"].enabled is False
        schema.truncate("events_waits_history_long")
        assert pfs.table("events_waits_history_long").empty
        with schema.setup_instruments:
            schema.setup_instruments.update(enabled=True)
        assert pfs.setup_instruments["wait/synch/mutex/app/%"].enabled is False
        schema.setup_actors.insert(user="ann")
        assert schema.setup_actors.delete({"USER": "ann"}) == 1


def test_write_changes_another_process(program: Subject) -> None:
    program.do("lock = pfs.Lock('app/LOCK')\nwith lock: pass")
    with pfs.attach(program.pid, write=True) as schema:
        with schema.setup_instruments.only("wait/io/%"):
            assert schema.setup_instruments["wait/synch/mutex/app/%"].enabled is False
            program.do("with lock: pass")
        program.do("assert pfs.setup_instruments['wait/synch/mutex/app/%'].enabled")
        assert locked(schema, "app/LOCK") == 1
        schema.truncate(GLOBAL)
        assert locked(schema, "app/LOCK") == 0
        schema.setup_actors.insert(user="ann", enabled=False)
        program.do("assert pfs.setup_actors[{'USER': 'ann'}].enabled is False")
        with pytest.raises(pfs.AlreadyExists):
            schema.setup_actors.insert(user="ann")
        with pytest.raises(pfs.OperationNotAllowed):
            schema.truncate("mutex_instances")
        with pytest.raises(pfs.InvalidValue):
            schema.setup_instruments.update("wait/%", enabled="MAYBE")


def test_write_goes_to_the_attached_process_only(program: Subject, folder: Path) -> None:
    """The name was taken by a later process."""
    with pfs.attach(program.pid, write=True) as schema, subject(folder) as later:
        later.path.rename(program.path)
        with pytest.raises(pfs.StateError, match="another process has taken its place"):
            schema.truncate(GLOBAL)


def test_write_goes_to_the_process_with_the_arguments_of_the_core(program: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    class Remote:
        def __init__(self, path: str) -> None:
            calls.append(("open", path))

        def call(self, operation: str, *arguments: object) -> object:
            calls.append((operation, *arguments))
            return 3

        def close(self) -> None:
            calls.append(("close",))

    module = types.ModuleType("pfs._process.remote")
    module.Remote = Remote  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pfs._process.remote", module)
    with pfs.attach(program.pid, write=True) as schema:
        assert calls == []
        assert schema.setup_instruments.update("wait/%", enabled=False) == 3
        schema.truncate(GLOBAL)
        schema.setup_actors.insert(user="joe")
        assert schema.setup_actors.delete({"USER": "joe"}) == 3
    assert calls == [
        ("open", str(program.path)),
        ("update", "setup_instruments", [("NAME", "wait/%", True)], [("ENABLED", "NO")]),
        ("insert", "setup_instrument_rules", [("PATTERN", "wait/%"), ("ENABLED", "NO")]),  # for instruments to come
        ("truncate", GLOBAL),
        ("insert", "setup_actors", [("USER", "joe")]),
        ("delete", "setup_actors", [("USER", "joe", True)]),
        ("close",),
    ]


def test_header_says_who_wrote_it(program: Subject) -> None:
    identity = _core.Segment(str(program.path)).identity
    descriptor = os.open(program.path, os.O_RDONLY)
    try:
        same = _core.identity(descriptor)
    finally:
        os.close(descriptor)
    assert same is not None
    for name in (
        "pid", "parent", "pid_namespace", "process_start_ticks", "boot_id", "started", "command", "library_version", "layout",
    ):  # fmt: skip
        assert getattr(same, name) == getattr(identity, name)
    assert identity.pid == program.pid
    assert identity.parent == os.getpid()
    assert identity.pid_namespace == os.stat("/proc/self/ns/pid").st_ino
    assert identity.process_start_ticks == int(Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[19])
    assert identity.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert identity.command == Path(f"/proc/{program.pid}/cmdline").read_bytes()[:256].rstrip(b"\0")
    assert identity.library_version == pfs.__version__
    assert identity.is_readable


def test_a_program_that_only_records_imports_none_of_this(fresh: Callable[..., str]) -> None:
    script = "import pfs, sys; print([name for name in sys.modules if name.startswith(('pfs._process', 'pfs._save'))])"
    assert fresh(script) == "[]\n"
