"""pfs serve: the rows of global_status and global_variables on which dashboards stand, with numbers that are known."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import pfs
import pfs.fleet
from pfs._many.fleet.collector import Collector
from pfs._process import processes
from tests.python._programs.subject import subject

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from tests.python.serve.serving import ask, connected, served, serving

# Two sessions, of which one runs a statement; 9 others have ended; 70 bytes there and 30 back; 3 files open, one closed again.
BUSY = """
import os, threading
left, right = pfs.socketpair(name="app/pair")
left.sendall(b"x" * 70); assert len(right.recv(100)) == 70
right.sendall(b"x" * 30); assert len(left.recv(100)) == 30
files = [pfs.open(os.devnull, name="app/data") for _ in range(4)]
files.pop().close()
for number in range(7):
    with pfs.statement("app/query", f"select {number}"): pass
pfs.set_account("one", "here")
is_in, leave = threading.Event(), threading.Event()
def session():
    pfs.set_account("two", "here")
    with pfs.statement("app/long"):
        is_in.set()
        leave.wait()
worker = threading.Thread(target=session)
worker.start()
is_in.wait()
with pfs.statement("app/query"), pfs.statement("app/inner"): pass
"""
WANTED = {
    "Bytes_received": 100,  # both ends are of this program
    "Bytes_sent": 100,
    "Com_insert": 0,
    "Com_select": 7,
    "Connections": 2,
    "Open_files": 3,
    "Queries": 9,
    "Questions": 9,
    "Threads_connected": 2,
    "Threads_running": 1,
}


def numbers(client: Any, table: str = "global_status") -> dict[str, int]:
    names = ", ".join(f"'{name}'" for name in (*WANTED, "Uptime"))
    rows = ask(client, f"select variable_name, variable_value from {table} where variable_name in ({names})")
    return {name: int(value) for name, value in rows}


def test_tools_find_what_they_divide_by(folder: Path) -> None:
    """A program without sessions has one connection, whose number no row of the process list has, and a status of no InnoDB."""
    with served(folder) as (_, path), connected(path) as client:
        assert ask(client, "select variable_value from global_status where variable_name = 'connections'") == [("1",)]
        ((own, threads),) = ask(client, "select connection_id(), (select group_concat(id) from information_schema.processlist)")
        assert str(own) not in threads.split(",")
        ((kind, _, text),) = ask(client, "show engine innodb status")
        assert (kind, "innodb_lock_waits" in text) == ("InnoDB", True)


def test_the_numbers_of_a_server(folder: Path, tmp_path: Path) -> None:
    """Of a process, of two processes together, of a snapshot, of a process that was killed."""
    with subject(folder) as one:
        begun = time.time()
        one.do(BUSY)
        with pfs.attach(str(one.path)) as schema:
            schema.snapshot(tmp_path / "saved")
        with serving(str(one.pid)) as path, connected(path) as client:
            found = numbers(client)
            assert found.pop("Uptime") <= time.time() - begun + 10
            assert found == WANTED
            assert {name: int(value) for name, value in ask(client, "show global status") if name in WANTED} == WANTED
            assert numbers(client, "session_status").keys() == numbers(client).keys()
            one.do("leave.set(); worker.join()")
            later = {"Queries": 10, "Questions": 10, "Threads_connected": 1, "Threads_running": 0}
            deadline = time.monotonic() + 30
            while numbers(client)["Threads_connected"] > 1:  # Python joins a thread shortly before it has ended
                assert time.monotonic() < deadline
            found = numbers(client)
            assert {name: found[name] for name in later} == later
        with subject(folder) as two:
            two.do(BUSY)
            with serving("--all") as path, connected(path) as client:
                found = numbers(client)
                assert found["Uptime"] >= int(time.time() - begun) - 10
                assert found["Queries"] == 10 + 9
                assert found["Threads_connected"] == 1 + 2
                assert found["Threads_running"] == 1
                assert found["Bytes_sent"] == 200
                assert found["Open_files"] == 6
                two.do("pfs.register_status('Jobs_done', 'Jobs.').add(5)")
                one.do("pfs.register_status('Jobs_done', 'Jobs.').add(6)")
                assert ask(client, "show status like 'Jobs_done'") == [("Jobs_done", "11")]
            two.kill()
    with serving(str(tmp_path / "saved")) as path, connected(path) as client:
        found = numbers(client)
        assert found.pop("Uptime") < 1000
        assert found == WANTED


def test_uptime_of_all_processes_is_that_of_the_oldest(folder: Path) -> None:
    with subject(folder) as old:
        began = time.time()
        time.sleep(2.1)
        with subject(folder), serving("--all") as path, connected(path) as client:
            assert 2 <= numbers(client)["Uptime"] <= time.time() - began + 5
            old.kill()
            assert numbers(client)["Uptime"] < time.time() - began  # the dead are as old as they were


def variables(client: Any) -> dict[str, str]:
    return dict(ask(client, "select variable_name, variable_value from global_variables"))


def test_hostname_and_version(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot has the hostname of its own host, and a cut the name of its node."""
    with subject(folder) as program:
        with serving(str(program.pid)) as path, connected(path) as client:
            found = variables(client)
            assert found["hostname"] == os.uname().nodename
            assert found["version"] == f"8.4.0-pfs-{pfs.__version__}"
            assert found["version_comment"] == "pfs"
            assert ask(client, "select @@hostname, version()") == [(os.uname().nodename, found["version"])]
        with monkeypatch.context() as patched, pfs.attach(str(program.path)) as schema:
            there = os.uname()
            patched.setattr(os, "uname", lambda: os.uname_result((there[0], "elsewhere", *there[2:])))
            schema.snapshot(tmp_path / "folder")
            schema.snapshot().to_file(tmp_path / "file.pfs.zip")
        with closing(Collector(str(tmp_path / "fleet"), "web1", lambda: processes.listed(folder))) as collector:
            cut = collector.cut().path
    for saved, host in ((tmp_path / "folder", "elsewhere"), (tmp_path / "file.pfs.zip", "elsewhere"), (cut, "web1")):
        with serving(str(saved)) as path, connected(path) as client:
            assert variables(client)["hostname"] == host, saved
