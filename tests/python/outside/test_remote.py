"""Changes from outside (write=True): those of the process itself, and no danger to it whatever becomes of who makes
them."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs import _core
from pfs._process.remote import Remote
from tests import budgets
from tests.python._programs.subject import Subject, forge, subject

# Something of every kind that a TRUNCATE or an UPDATE can reach.
_WORK = """
import threading
lock = pfs.Lock("app/LOCK_a")
def work(turns):
    for i in range(turns):
        with lock: pass
        with pfs.open("/dev/null", name="app/data") as file: file.read()
        with pfs.statement("app/query", text=f"SELECT {i} FROM t{i % 3}", schema="shop"):
            with pfs.stage("app/step"): pass
        with pfs.transaction(): pass
"""


def rows(name: str, columns: tuple[str, ...] | None, program: Subject) -> list[tuple[Any, ...]]:
    return _core.rows(name, columns, _core.Segment(str(program.path)))


def count(program: Subject, event: str, table: str = "events_waits_summary_global_by_event_name") -> int:
    return int(dict(rows(table, ("EVENT_NAME", "COUNT_STAR"), program))[event])


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Subject]:
    (tmp_path / "segments").mkdir(mode=0o700)
    with subject(tmp_path / "segments", PFS_OPTIONS="performance_schema_setup_actors_size=1021") as running:
        running.do(_WORK)
        running.do("work(10)")
        yield running


@pytest.fixture
def remote(program: Subject) -> Iterator[Remote]:
    with Remote(str(program.path)) as running:
        yield running


# A process that takes a turn and stays in it until it is told or killed.
_STAYS = """
import sys
from pfs import _core
_core.adopt(sys.argv[1])
def stay():
    print("in", flush=True)
    sys.stdin.read()
_core.in_outsider_section(stay)
"""


@pytest.fixture
def outsider(program: Subject) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _STAYS, str(program.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        yield process
        process.kill()


def test_an_update_acts_at_once(program: Subject, remote: Remote) -> None:
    before = count(program, "wait/synch/mutex/app/LOCK_a")
    assert remote.call("update", "setup_instruments", [("NAME", "%/LOCK_a", True)], [("ENABLED", "NO")]) == 1
    program.do("work(5)")
    assert count(program, "wait/synch/mutex/app/LOCK_a") == before == 10
    assert count(program, "statement/app/query", "events_statements_summary_global_by_event_name") == 15
    assert remote.call("update", "setup_instruments", [("NAME", "%/LOCK_a", True)], [("ENABLED", "YES")]) == 1
    program.do("work(5)")
    assert count(program, "wait/synch/mutex/app/LOCK_a") == 15


def test_each_writable_table_is_written_from_outside(program: Subject, remote: Remote) -> None:
    program.do(
        "pfs.register_meter('app_meter'); pfs.server.register_logger('app_logger'); pfs.Thread(instrument='app/worker').start()"
    )
    program.do("pfs.setup_overhead.update(limit_ppm=1_000_000)")  # nobody outside can start the thread of a ceiling
    changes = {
        "setup_instruments": ("TIMED", "NO"),
        "setup_consumers": ("ENABLED", "NO"),
        "setup_timers": ("TIMER_NAME", "MICROSECOND"),
        "setup_actors": ("HISTORY", "NO"),
        "setup_objects": ("TIMED", "NO"),
        "setup_threads": ("ENABLED", "NO"),
        "setup_meters": ("FREQUENCY", "77"),
        "setup_loggers": ("LEVEL", "debug"),
        "threads": ("HISTORY", "NO"),
        "setup_overhead": ("LIMIT_PPM", "20000"),
    }
    writable = {name for name in _core.tables() if "UPDATE" in _core.table_info(name)["operations"]}
    assert set(changes) == writable
    for table, (column, value) in changes.items():
        changed = remote.call("update", table, [], [(column, value)])
        values = [str(row[0]) for row in rows(table, (column,), program)]
        assert changed == len(values) > 0, table
        if table not in ("setup_instruments", "setup_threads"):  # some of theirs have nothing to set
            assert set(values) == {value}, table
        program.do(f"assert {{str(row[0]) for row in pfs._core.rows('{table}', ('{column}',), None)}} == {set(values)!r}")


def test_each_truncate_is_the_same_from_outside(program: Subject, remote: Remote) -> None:
    for table in [name for name in _core.tables() if "TRUNCATE" in _core.table_info(name)["operations"]]:
        program.do("pfs.server.host_seen('10.0.0.1', 'here'); work(3)")
        program.do(
            f"""
            there = pfs._core.rows({table!r}, None, None)
            pfs.truncate({table!r})
            own = pfs._core.rows({table!r}, None, None)
            """
        )
        program.do("pfs.server.host_seen('10.0.0.1', 'here'); work(3)")
        remote.call("truncate", table)
        # All that is no name, time or identity: what the table counts.
        facts = [
            column
            for column in _core.table_info(table)["columns"]
            if column["name"].startswith(("COUNT", "SUM_NUMBER", "CURRENT_"))
        ]
        names = tuple(column["name"] for column in facts)
        if names:
            program.do(
                f"now = pfs._core.rows({table!r}, {names!r}, None)\n"
                f"pfs.truncate({table!r})\n"
                f"assert now == pfs._core.rows({table!r}, {names!r}, None), ({table!r}, now)"
            )
        else:
            program.do(f"now = pfs._core.rows({table!r}, None, None); assert len(now) <= len(own), (now, own)")


def test_private_tables_of_the_program_follow(program: Subject, remote: Remote) -> None:
    """What the program finds by private hash tables is found after an outsider has changed it, and found once."""
    remote.call("truncate", "events_statements_summary_by_digest")
    program.do("work(6)")
    digests = rows("events_statements_summary_by_digest", ("DIGEST_TEXT", "COUNT_STAR"), program)
    assert sorted(digests) == [(f"SELECT ? FROM `t{i}`", 2) for i in range(3)]
    remote.call("insert", "setup_objects", [("OBJECT_SCHEMA", "shop"), ("OBJECT_NAME", "orders"), ("ENABLED", "NO")])
    program.do(
        """
        try:
            pfs.setup_objects.insert(object_schema="shop", object_name="orders")
        except pfs.AlreadyExists:
            pass
        else:
            raise AssertionError
        assert pfs.setup_objects.delete({"OBJECT_SCHEMA": "shop"}) == 1
        pfs.server.host_seen("10.0.0.1", "one")
        """
    )
    remote.call("truncate", "host_cache")
    program.do("pfs.server.host_seen('10.0.0.1', 'one'); pfs.server.host_seen('10.0.0.1', 'one')")
    assert len(rows("host_cache", ("IP",), program)) == 1
    program.do(
        """
        def as_user():
            pfs.set_account("ann", "here")
            with lock: pass
        thread = threading.Thread(target=as_user); thread.start(); thread.join()
        """
    )
    assert ("ann", "here") in rows("accounts", ("USER", "HOST"), program)
    deadline = time.monotonic() + 30
    while rows("accounts", ("USER", "CURRENT_CONNECTIONS"), program).count(("ann", 0)) == 0:  # join() is not the thread's end
        assert time.monotonic() < deadline
        time.sleep(0.01)
    remote.call("truncate", "accounts")
    assert ("ann", "here") not in rows("accounts", ("USER", "HOST"), program)
    program.do("thread = threading.Thread(target=as_user); thread.start(); thread.join()")
    assert rows("accounts", ("USER", "HOST"), program).count(("ann", "here")) == 1


def test_errors_are_those_of_the_process_itself(program: Subject, remote: Remote) -> None:
    with pytest.raises(pfs.UnknownTable, match="nearest"):
        remote.call("truncate", "mutex_instance")
    with pytest.raises(pfs.OperationNotAllowed, match="SELECT"):
        remote.call("truncate", "mutex_instances")
    with pytest.raises(pfs.InvalidValue):
        remote.call("update", "setup_instruments", [], [("ENABLED", "PERHAPS")])
    remote.call("insert", "setup_actors", [("USER", "ann")])
    with pytest.raises(pfs.AlreadyExists):
        remote.call("insert", "setup_actors", [("USER", "ann")])
    assert remote.call("delete", "setup_actors", [("USER", "ann", False)]) == 1


def test_what_is_no_segment_of_this_library_is_not_changed(program: Subject, tmp_path: Path) -> None:
    path = tmp_path / "copy.pfs"
    subprocess.run(["cp", "--sparse=always", program.path, path], check=True)
    with path.open("rb") as file:
        at = file.read(1 << 16).index(struct.pack("<Q", 1021))  # one of the options
    forge(path, at, 1020)
    with pytest.raises(pfs.AttachError), Remote(str(path)) as broken:
        broken.call("truncate", "events_waits_history")
    with pytest.raises(pfs.AttachError), Remote(str(tmp_path / "nothing.pfs")) as missing:
        missing.call("truncate", "events_waits_history")


def test_a_program_does_not_wait_for_an_outsider_that_is_stopped(program: Subject, outsider: subprocess.Popen[str]) -> None:
    """It goes on without its cold path, counts what that has cost, and takes it up again."""
    lost = dict(rows("global_status", None, program))
    before = count(program, "wait/synch/mutex/app/LOCK_a")
    outsider.send_signal(signal.SIGSTOP)
    program.do("import time; start = time.monotonic(); work(300); assert time.monotonic() - start < 30")
    assert count(program, "wait/synch/mutex/app/LOCK_a") == before + 300  # nothing that the hot path does
    program.do("assert open('/dev/null').read() == ''")
    outsider.send_signal(signal.SIGCONT)
    assert outsider.stdin is not None
    outsider.stdin.close()
    assert outsider.wait(60) == 0
    program.do("other = pfs.Lock('app/LOCK_b')\nwith other: pass")
    assert count(program, "wait/synch/mutex/app/LOCK_b") == 1
    assert (
        lost["Performance_schema_mutex_classes_lost"]
        == dict(rows("global_status", None, program))["Performance_schema_mutex_classes_lost"]
    )


def test_an_outsider_that_dies_in_its_turn_leaves_the_program_whole(program: Subject, outsider: subprocess.Popen[str]) -> None:
    outsider.kill()
    outsider.wait()
    program.do("other = pfs.Lock('app/LOCK_b')\nwith other: pass\nwork(10)")
    assert count(program, "wait/synch/mutex/app/LOCK_b") == 1
    assert count(program, "wait/synch/mutex/app/LOCK_a") == 20
    with Remote(str(program.path)) as remote:
        assert remote.call("update", "setup_consumers", [("NAME", "events_waits_history", False)], [("ENABLED", "NO")]) == 1


def test_an_outsider_takes_the_place_of_one_that_died(program: Subject, outsider: subprocess.Popen[str]) -> None:
    outsider.kill()
    outsider.wait()
    with Remote(str(program.path)) as remote:
        remote.call("truncate", "events_waits_summary_global_by_event_name")
    assert count(program, "wait/synch/mutex/app/LOCK_a") == 0


def test_outsiders_wait_for_one_another(program: Subject, outsider: subprocess.Popen[str]) -> None:
    assert outsider.stdin is not None
    with Remote(str(program.path)) as remote, pytest.raises(pfs.StateError, match="another process"):
        remote.call("truncate", "events_waits_summary_global_by_event_name")
    outsider.stdin.close()
    assert outsider.wait(60) == 0
    with Remote(str(program.path)) as remote:
        remote.call("truncate", "events_waits_summary_global_by_event_name")


def test_a_program_may_fork_while_an_outsider_is_in(program: Subject, outsider: subprocess.Popen[str]) -> None:
    outsider.send_signal(signal.SIGSTOP)
    program.do(
        """
        import os, warnings
        child = os.fork()
        if child == 0:
            with pfs.Lock("app/LOCK_child"): pass
            names = dict(pfs._core.rows("events_waits_summary_global_by_event_name", ("EVENT_NAME", "COUNT_STAR"), None))
            os._exit(0 if names.get("wait/synch/mutex/app/LOCK_child") == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    outsider.send_signal(signal.SIGCONT)


# A process that changes everything, over and over, until it is killed.
_CHANGES_ALL = """
import os, sys
from pfs import _core
_core.adopt(sys.argv[1])
tables = [name for name in _core.tables() if "TRUNCATE" in _core.table_info(name)["operations"] and not name.startswith("setup_")]
print("in", flush=True)
turn = 0
while True:
    turn += 1
    flag = "YES" if turn % 2 else "NO"
    def change():
        for table in ("setup_instruments", "setup_consumers", "threads"):
            _core.update(table, [], [("ENABLED" if table != "threads" else "HISTORY", flag)])
        for table in tables:
            _core.truncate(table)
        _core.insert("setup_actors", [("USER", f"u{os.getpid()}_{turn}")])  # one that was killed may have left its row
        _core.insert("setup_objects", [("OBJECT_SCHEMA", f"s{os.getpid()}_{turn}"), ("OBJECT_NAME", "o")])
        _core.delete("setup_actors", [("USER", "u%", True)])
        _core.delete("setup_objects", [("OBJECT_SCHEMA", "s%", True)])
    _core.in_outsider_section(change)
"""


def test_outsiders_killed_at_random_moments(program: Subject) -> None:
    """The program is exact and its tables work, wherever the one that changed them was killed."""
    seed = budgets.seed()
    random.seed(seed)
    program.do("running = True\ndef forever():\n  while running: work(20)\n")
    program.do("threads = [threading.Thread(target=forever) for _ in range(2)]; [t.start() for t in threads]")
    for _ in range(budgets.KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", _CHANGES_ALL, str(program.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "in\n", (seed, process.stderr.read())
            time.sleep(random.random() * 0.1)
            process.kill()
            assert process.wait() == -signal.SIGKILL, (seed, process.stderr.read())
    program.do("running = False; [t.join() for t in threads]")
    with Remote(str(program.path)) as remote:
        for table in ("setup_instruments", "setup_consumers"):
            remote.call("update", table, [], [("ENABLED", "YES")])
        for table in [
            name
            for name in _core.tables()
            if "TRUNCATE" in _core.table_info(name)["operations"] and not name.startswith("setup_")
        ]:
            remote.call("truncate", table)
        remote.call("insert", "setup_actors", [("USER", "last")])
        assert remote.call("delete", "setup_actors", [("USER", "last", False)]) == 1
    program.do("work(50)")
    assert count(program, "wait/synch/mutex/app/LOCK_a") == 50, seed
    assert count(program, "statement/app/query", "events_statements_summary_global_by_event_name") == 50, seed
    digests = dict(rows("events_statements_summary_by_digest", ("DIGEST_TEXT", "COUNT_STAR"), program))
    assert digests == {"SELECT ? FROM `t0`": 17, "SELECT ? FROM `t1`": 17, "SELECT ? FROM `t2`": 16}, seed
    assert dict(rows("global_status", None, program))["Performance_schema_rows_skipped"] == "0", seed
