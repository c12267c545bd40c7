"""pfs collect and pfs.fleet: the sums of many hosts are exact, whatever dies; rates are those that programs logged."""

from __future__ import annotations

import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import pfs
import pfs.fleet
from pfs import _core
from pfs._many.fleet import files
from pfs._many.fleet.collector import Collector, Retention, tables_of
from pfs._many.fleet.cut import Cut, read_cut
from pfs._many.fleet.sums import Sum, sums_with_quantiles
from pfs._process import processes
from pfs._process.findings.ask import COLUMNS, segments_in
from pfs._process.segment import SegmentSource
from pfs._save.held import Columns
from pfs._save.merge import DIGESTS as BY_DIGEST
from pfs._save.merge import HISTOGRAM
from pfs._sql.views.declared import VIEWS
from tests.python._programs.nodes import Node, faketime, nodes, why_not
from tests.python._programs.subject import Subject, clean_environment, subject, until

WAITS = "events_waits_summary_global_by_event_name"
LOCK = "wait/synch/mutex/fleet/LOCK_work"
SOCKET = "wait/io/socket/fleet/link"
MESSAGE = 10  # bytes
COUNT = f"select sum(COUNT_STAR)::bigint from {{}}{WAITS} where EVENT_NAME = '{LOCK}'"

BETWEEN = f"""
    select PID, round(COUNT_STAR * SECONDS, 6) from rates.{WAITS} join fleet.nodes using (NODE) where EVENT_NAME = '{LOCK}'
"""
WORKER = f"""
import mmap, sys
import pfs
file = open(sys.argv[1], "r+b")
log = memoryview(mmap.mmap(file.fileno(), 16)).cast("Q")  # a number is one store
link = pfs.create_connection("fleet/link", (sys.argv[2], int(sys.argv[3]))) if sys.argv[2] else None
lock = pfs.Lock("fleet/LOCK_work")
begun = 0
print(pfs._core.segment_path(), flush=True)
for line in sys.stdin:
    for turn in range(int(line)):
        begun += 1
        log[0] = begun
        with lock: pass
        if link is not None: link.sendall(b"x" * {MESSAGE})
        log[1] = begun
    print("done", flush=True)
"""
SINK = """
import selectors, socket, sys
waits, total = selectors.DefaultSelector(), 0
server = socket.create_server(("0.0.0.0", 0))
waits.register(server, selectors.EVENT_READ); waits.register(sys.stdin, selectors.EVENT_READ)
print(server.getsockname()[1], flush=True)
is_over = False
while not is_over or len(waits.get_map()) > 2:
    for key, _ in waits.select():
        if key.fileobj is server: waits.register(server.accept()[0], selectors.EVENT_READ)
        elif key.fileobj is sys.stdin: is_over = True; sys.stdin.readline()
        else:
            data = key.fileobj.recv(1 << 16)
            total += len(data)
            if not data: waits.unregister(key.fileobj); key.fileobj.close()
print(total)
"""


class Worker:
    """Does as many turns as it is told, and logs them in a file that outlives it."""

    def __init__(self, node: Node, log: Path, port: str) -> None:
        log.write_bytes(bytes(16))
        self.log = mmap.mmap(os.open(log, os.O_RDWR), 16)
        self.node = node
        command = [sys.executable, "-c", WORKER, str(log), node.hub, port]
        self.process = subprocess.Popen(
            node.inside(command), env=node.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.path = self.said()
        self.pid = self.process.pid

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, turns: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{turns}\n")
        self.process.stdin.flush()

    def work(self, turns: int) -> None:
        self.send(turns)
        assert self.said() == "done"

    def turns(self) -> tuple[int, int]:
        """Returns the turns that it has begun, and ended."""
        begun, ended = struct.unpack("<QQ", self.log[:])
        return begun, ended

    def counted(self) -> int:
        """Returns what its own segment says."""
        with pfs.attach(self.path) as schema:
            rows = schema._source.rows(WAITS, ("EVENT_NAME", "COUNT_STAR"))
        return int(dict(rows)[LOCK])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def one(fleet: pfs.fleet.Fleet, schema: str = "") -> int:
    return int(fleet.sql(COUNT.format(schema)).rows()[0][0] or 0)


@pytest.mark.parametrize("kind", ["namespaces", "folders", "wrong clock"])
def test_sums_and_rates_are_those_that_the_programs_logged(tmp_path: Path, kind: str) -> None:
    """Processes on 3 nodes, of which a third is killed while it works. The clock of a collector is an hour off, or that of all
    programs of a node."""
    if kind == "namespaces" and (reason := why_not()):
        pytest.skip(reason)
    if kind == "wrong clock" and faketime() is None:
        pytest.skip("needs libfaketime: the Debian package faketime")
    chance = random.Random(seed := random.randrange(10**9))
    print(f"seed {seed}")
    to = tmp_path / "fleet"
    shifts = [0, 3600, 0], [0, 0, -3600]  # of the first cut and of the second
    with nodes(tmp_path, 3, kind == "namespaces") as there, ExitStack() as stack:
        port, sink, count = "0", None, 12 if kind == "namespaces" else 6
        if kind == "wrong clock":
            there[1].wrong = 3600
            shifts = [0] * 3, [0] * 3
        if kind == "namespaces":
            command = there[0].inside([sys.executable, "-c", SINK])
            sink = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            stack.callback(sink.kill)
            assert sink.stdout is not None
            port = sink.stdout.readline().strip()
        workers = []
        for number in range(count):
            workers.append(Worker(there[number % 3], tmp_path / f"log{number}", port))
            stack.enter_context(workers[-1].process)
            stack.callback(workers[-1].process.kill)
        for worker in workers:
            worker.work(chance.randrange(1, 500))
        for node, shift in zip(there, shifts[0], strict=True):
            assert node.collect(to, shift=shift).stderr == ""
        first = pfs.fleet.read(to)
        assert one(first) == one(first, "process.") == sum(worker.turns()[1] for worker in workers)
        assert list(first.nodes["NODE"]) == ["node0", "node1", "node2"]
        assert first.sql(f"select * from rates.{WAITS}").rows() == []

        killed = chance.sample(workers, count // 3)
        between, before = {}, {worker: worker.turns()[1] for worker in killed}
        for worker in workers:
            if worker in killed:
                worker.send(10**9)
            else:
                between[worker.pid] = chance.randrange(1, 500)
                worker.work(between[worker.pid])
        for worker in killed:
            time.sleep(chance.random() / 20)
            worker.kill()
        for node, shift in zip(there, shifts[1], strict=True):
            assert node.collect(to, shift=shift).stderr == ""

        fleet = pfs.fleet.read(to)
        counted = sum(worker.counted() for worker in workers)
        assert one(fleet) == one(fleet, "process.") == counted
        for worker in workers:
            begun, ended = worker.turns()
            assert ended <= worker.counted() <= begun <= ended + (worker in killed)
        by_node = dict(fleet.sql(f"select NODE, COUNT_STAR from {WAITS} where EVENT_NAME = '{LOCK}'").rows())
        assert by_node == {node.name: sum(each.counted() for each in workers if each.node is node) for node in there}
        assert len(fleet) == len(fleet.nodes) == 3
        assert fleet.merged()[WAITS].set_index("EVENT_NAME")["COUNT_STAR"][LOCK] == counted
        states = fleet.processes.set_index("PID")["STATE"]
        assert {pid for pid in states.index if states[pid] == "dead"} == {worker.pid for worker in killed}

        # Rates: of one second, so times the seconds between the cuts they are what was logged. No clock of a node counts.
        assert (fleet.nodes["SECONDS"] > 0).all()
        assert (fleet.nodes["SECONDS"] < 60).all()
        between |= {worker.pid: worker.counted() - turns for worker, turns in before.items()}  # those that died in between
        found = dict(fleet.sql(BETWEEN).rows())
        assert {pid: found.get(pid, 0) for pid in between} == between
        if kind == "wrong clock":
            ahead = (fleet.nodes["TIME"] - pd.Timestamp.now("UTC").tz_localize(None)).dt.total_seconds()
            assert [round(seconds / 3600) for seconds in ahead] == [0, 1, 0]  # it was wrong indeed
            started = fleet.processes["STARTED"][fleet.processes["NODE"] == "node1"]
            ahead = (started - pd.Timestamp.now("UTC").tz_localize(None)).dt.total_seconds()
            assert {round(seconds / 3600) for seconds in ahead} == {1}
        if sink is not None:
            sent = (
                f"select sum(SUM_NUMBER_OF_BYTES_WRITE)::bigint from socket_summary_by_event_name where EVENT_NAME = '{SOCKET}'"
            )
            shown = int(fleet.sql(sent).rows()[0][0])
            for worker in workers:
                if worker not in killed:
                    worker.process.communicate()
            received, _ = sink.communicate("\n", timeout=30)
            assert shown <= int(received) <= shown + MESSAGE * len(killed)
            assert int(received) > count * MESSAGE

        # The dead are in one cut, and stay in the sums, also when nothing is left of them.
        alive = [worker for worker in workers if worker not in killed] if sink is None else []
        for is_removed in (False, True) if kind != "namespaces" else (True,):
            for node in there:
                if is_removed:
                    assert len(pfs.gc(node.folder)) == sum(worker.node is node for worker in killed)
                find = partial(processes.listed, node.folder)
                with closing(Collector(str(to), node.name, find)) as collector:
                    assert collector.cut().problems == []
            later = pfs.fleet.read(to)
            assert one(later) == counted
            assert {worker.pid for worker in alive} <= set(later.processes["PID"])
            assert not {worker.pid for worker in killed} & set(later.processes["PID"])
        assert one(pfs.fleet.read(to, back=3 if kind != "namespaces" else 2)) == one(first)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "segments"
    made.mkdir(mode=0o700)
    return made


def collector_of(tmp_path: Path, node: str = "here", **more: Any) -> Collector:
    return Collector(str(tmp_path / "fleet"), node, lambda: processes.listed(tmp_path / "segments"), **more)


WORK = 'lock = pfs.Lock("fleet/LOCK_work")\ndef work(turns):\n    for _ in range(turns):\n        with lock: pass'


@contextmanager
def busy(folder: Path, turns: int, **environment: str) -> Iterator[Subject]:
    with subject(folder, **environment) as program:
        program.do(f"{WORK}\nwork({turns})")
        yield program


def cut_of(tmp_path: Path, node: str = "here", **more: Any) -> Cut:
    """Writes a cut by a collector of its own."""
    with closing(collector_of(tmp_path, node, **more)) as collector:
        return collector.cut()


def collect_in_parts(tmp_path: Path, after: Callable[[], object], is_new: bool) -> tuple[pfs.fleet.Fleet, list[str]]:
    """Writes a cut, does something, and writes two more, perhaps by a new collector. Returns the fleet and the states seen."""
    collector = collector_of(tmp_path)
    collector.cut()
    after()
    if is_new:
        collector.close()
        collector = collector_of(tmp_path)
    states = [each.state for each in collector.cut().processes]
    collector.cut()
    collector.close()
    return pfs.fleet.read(tmp_path / "fleet"), states


@pytest.mark.parametrize("is_new", [False, True], ids=["runs on", "started again"])
def test_a_process_that_ends_cleanly_stays_in_the_sums(tmp_path: Path, folder: Path, is_new: bool) -> None:
    """A collector that runs on has mapped it, and misses nothing; one that starts anew has what the last cut had."""
    with busy(folder, 30) as stays, busy(folder, 70) as ends:

        def end() -> None:
            stays.do("work(1)")
            ends.do("work(7)")
            ends.process.communicate()

        fleet, states = collect_in_parts(tmp_path, end, is_new)
        assert not ends.path.exists()
        assert states == (["alive"] if is_new else ["alive", "ended"])
        assert one(fleet) == 31 + 70 + (0 if is_new else 7)
        assert list(fleet.processes["STATE"]) == ["alive"]


def test_exec_and_truncate_lose_nothing(tmp_path: Path, folder: Path) -> None:
    """A program that replaces itself leaves a dead segment with the same PID and START. A TRUNCATE gives rates from zero."""
    code = f"import pfs, sys, time\n{WORK}\nwork(5)\nprint('second', flush=True)\ntime.sleep(100)\n"
    with busy(folder, 20, PFS_KEEP="1") as program, busy(folder, 50) as other:

        def change() -> None:
            program.send(f"import sys; os.execv(sys.executable, [sys.executable, '-c', {code!r}])")
            assert program.process.stdout is not None
            assert program.process.stdout.readline() == "second\n"
            other.do(f"pfs.truncate('{WAITS}'); work(3)")

        collector = collector_of(tmp_path)
        collector.cut()
        change()
        assert [each.state for each in collector.cut().processes] == ["alive", "alive"]
        fleet = pfs.fleet.read(tmp_path / "fleet")
        assert one(fleet) == 20 + 5 + 3
        assert dict(fleet.sql(BETWEEN).rows())[other.pid] == 3
        collector.cut()
        assert one(pfs.fleet.read(tmp_path / "fleet")) == 20 + 5 + 3
        collector.close()
        program.kill()


def test_what_cannot_be_read_for_a_while_counts_once(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with busy(folder, 20) as program:
        collector = collector_of(tmp_path)
        collector.cut()
        with monkeypatch.context() as broken:

            def fail(self: Collector, source: object) -> None:
                raise pfs.AttachError("not today")

            broken.setattr(Collector, "_taken", fail)
            assert collector.cut().problems == [f"{program.path}: not today"]
            fleet = pfs.fleet.read(tmp_path / "fleet")
            assert one(fleet) == one(fleet, "process.") == 20
            assert fleet.problems == [f"here: {program.path}: not today"]
        program.do("work(2)")
        collector.cut()
        assert one(pfs.fleet.read(tmp_path / "fleet")) == 22
        collector.close()


def test_every_view_of_a_node_is_that_of_its_processes(tmp_path: Path, folder: Path) -> None:
    """Views of sums equal those of pfs.Snapshot.merge; views with identities equal those of the process that they come from."""
    with busy(folder, 20) as one_, busy(folder, 30) as two:
        for program, turns in ((one_, 3), (two, 8)):
            program.do(
                f"""
                import sqlite3
                db = pfs.dbapi(sqlite3).connect(":memory:")
                for turn in range({turns}):
                    db.execute("select 1").fetchall()
                    db.execute("select 2 + ?", (turn,)).fetchall()
                    with pfs.open("/etc/passwd", name="fleet/data") as file: file.read(10)
                    with pfs.stage("fleet/stage"): pass
                """
            )
        for program in (one_, two):
            program.kill()  # the dead stand still
        for node in ("a", "b"):
            cut_of(tmp_path, node, tables=tables_of(["%"]), sql_text=True)
        fleet = pfs.fleet.read(tmp_path / "fleet")
        merged = pfs.Snapshot.merge([pfs.attach(str(each.path)).snapshot() for each in (one_, two)])
        by_node, by_process = 0, 0
        for name in VIEWS:
            if f"x${name}" in VIEWS:
                continue  # the same with units
            columns = VIEWS[name].columns
            quoted = ", ".join(f'"{column}"' for column in columns)
            found = fleet.sql(f'select * from sys."{name}"')
            if found.columns[:3] != ["NODE", "PID", "START"]:
                assert found.columns == ["NODE", *columns], name
                expected = merged.sql(f'select {quoted} from sys."{name}"').rows()
                for node in ("a", "b"):
                    rows = fleet.sql(f"select {quoted} from sys.\"{name}\" where NODE = '{node}'").rows()
                    assert sorted(map(repr, rows)) == sorted(map(repr, expected)), name
                by_node += len(expected)
                continue
            for program in (one_, two):
                if "hung" in name:
                    continue  # its ages end at the newest event of its process
                rows = fleet.sql(
                    f"select * exclude (NODE, PID, START) from sys.\"{name}\" where NODE = 'a' and PID = {program.pid}"
                ).rows()
                with pfs.attach(str(program.path)) as schema:
                    expected = schema.sql(f'select {quoted} from sys."{name}"').rows()
                assert sorted(map(repr, rows)) == sorted(map(repr, expected)), name
                by_process += len(expected)
        assert by_node > 20
        assert by_process > 20
        waits = fleet.sql(f"select NODE, PID, COUNT_STAR from process.{WAITS} where EVENT_NAME = '{LOCK}'").duckdb()
        mine = duckdb.connect()
        mine.execute("create table racks as select * from (values ('a', 1), ('b', 2)) as r(NODE, RACK)")
        joined = (
            fleet.sql(f"from process.{WAITS}").duckdb(mine).filter(f"EVENT_NAME = '{LOCK}'").join(mine.table("racks"), "NODE")
        )
        assert waits.aggregate("sum(COUNT_STAR)").fetchall() == [(2 * 50,)]
        assert joined.aggregate("RACK, sum(COUNT_STAR)").order("RACK").fetchall() == [(1, 50), (2, 50)]
        assert set(fleet.view("statement_analysis")["NODE"]) == {"a", "b"}


def test_files_that_are_damaged_or_half_written_are_not_read(tmp_path: Path, folder: Path) -> None:
    with busy(folder, 20) as program:
        collector = collector_of(tmp_path)
        first = collector.cut()
        program.do("work(5)")
        second = collector.cut()
        collector.close()
        place = tmp_path / "fleet" / "here"
        (place / "0000000009-20260101T000000.pfs.zip.part").write_bytes(b"half")
        (place / "notes.txt").write_text("x")
        assert one(pfs.fleet.read(tmp_path / "fleet")) == 25
        data = Path(second.path).read_bytes()
        for damaged in (data[: len(data) // 2], b"", b"PK nothing"):
            Path(second.path).write_bytes(damaged)
            fleet = pfs.fleet.read(tmp_path / "fleet")
            assert one(fleet) == 20
            assert len(fleet.problems) == 1
            assert second.path in fleet.problems[0]
        again = cut_of(tmp_path)  # it goes on from the first cut
        assert (again.number, again.previous) == (second.number + 1, first.number)
        assert one(pfs.fleet.read(tmp_path / "fleet")) == 25
        assert not list(place.glob("*.part"))


def test_a_collector_that_is_killed_leaves_whole_files(tmp_path: Path, folder: Path) -> None:
    chance = random.Random(seed := random.randrange(10**9))
    print(f"seed {seed}")
    with busy(folder, 20), busy(folder, 30):
        cut_of(tmp_path)
        command = [sys.executable, "-m", "pfs", "collect", "--to", str(tmp_path / "fleet"), "--interval", "0.1", "--node", "here"]
        cuts = []
        for _ in range(3):
            before = len(files.cuts(str(tmp_path / "fleet/here")))
            with subprocess.Popen(command, env=clean_environment(folder), stderr=subprocess.PIPE, text=True) as running:
                while len(files.cuts(str(tmp_path / "fleet/here"))) < before + 2:
                    assert running.poll() is None
                    assert pfs.fleet.read(tmp_path / "fleet").problems == []
                end = time.monotonic() + chance.random() / 5
                while time.monotonic() < end:
                    assert one(pfs.fleet.read(tmp_path / "fleet")) == 50
                running.kill()
            cuts.append(pfs.fleet.read(tmp_path / "fleet"))
        assert [one(each) for each in cuts] == [50, 50, 50]
        assert [each.problems for each in cuts] == [[], [], []]
        assert all(read_cut(named.path).node == "here" for named in files.cuts(str(tmp_path / "fleet/here")))


@pytest.mark.needs("root", "unshare")
def test_a_full_disk_is_said_and_the_next_cut_goes_on(tmp_path: Path, folder: Path) -> None:
    (disk := tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=256k none "$0" && dd if=/dev/zero of="$0/filler" bs=1k count=250 2>/dev/null && exec "$@"'
    command = [sys.executable, "-m", "pfs", "collect", "--to", str(disk / "fleet"), "--interval", "0.2", "--node", "here"]
    with busy(folder, 20) as program, (tmp_path / "said").open("w+") as said:
        with subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script, str(disk), *command], env=clean_environment(folder), stderr=said
        ) as running:
            try:
                inside = Path(f"/proc/{running.pid}/root{disk}")
                until(lambda: "No space left on device" in (tmp_path / "said").read_text())
                program.do("work(1)")
                time.sleep(0.5)  # said once, however often it is tried
                assert not list(inside.glob("fleet/here/*.zip"))
                (inside / "filler").unlink()
                until(lambda: len(list(inside.glob("fleet/here/*.zip"))) > 1)  # the first may have begun before work(1)
                running.send_signal(signal.SIGSTOP)  # the disk has room for a few cuts
                assert one(pfs.fleet.read(inside / "fleet")) == 21
                running.send_signal(signal.SIGTERM)
                running.send_signal(signal.SIGCONT)
                assert running.wait(30) == 0
            finally:
                running.kill()
        assert (tmp_path / "said").read_text() == f"pfs: no cut was written: No space left on device: {disk}/fleet/here\n"


def test_a_folder_that_cannot_be_written_is_said_and_the_next_cut_goes_on(tmp_path: Path, folder: Path) -> None:
    (place := tmp_path / "fleet").write_text("a file")
    command = [sys.executable, "-m", "pfs", "collect", "--to", str(place), "--node", "here"]
    with busy(folder, 20), (tmp_path / "said").open("w+") as said:
        once = subprocess.run([*command, "--once"], env=clean_environment(folder), capture_output=True, text=True)
        assert (once.returncode, once.stderr) == (1, f"pfs: File exists: {place}\n")
        with subprocess.Popen([*command, "--interval", "0.2"], env=clean_environment(folder), stderr=said) as running:
            until(lambda: "no cut was written" in (tmp_path / "said").read_text())
            place.unlink()
            until(lambda: list(place.glob("here/*.zip")))
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 0
        assert (tmp_path / "said").read_text() == f"pfs: no cut was written: File exists: {place}\n"
        assert (place / "here").stat().st_mode & 0o077 == 0  # statements may have secrets


def test_old_cuts_go_by_count_and_by_size(tmp_path: Path, folder: Path) -> None:
    with busy(folder, 20):
        collector = collector_of(tmp_path, retention=Retention(cuts=4))
        numbers = [collector.cut().number for _ in range(7)]
        place = str(tmp_path / "fleet/here")
        assert [named.number for named in files.cuts(place)] == numbers[-4:]
        collector.close()
        size = os.stat(files.cuts(place)[-1].path).st_size
        collector = collector_of(tmp_path, retention=Retention(bytes=3 * size + size // 2))
        collector.cut()
        assert len(files.cuts(place)) == 3
        collector.close()
        cut_of(tmp_path, retention=Retention(bytes=1))
        assert len(files.cuts(place)) == 2  # rates need two
        assert one(pfs.fleet.read(tmp_path / "fleet")) == 20


def test_errors_name_the_problem(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(pfs.InvalidValue, match="there is no folder"):
        pfs.fleet.read(tmp_path / "fleet")
    (tmp_path / "fleet").mkdir()
    with pytest.raises(pfs.InvalidValue, match="no cut that can be read"):
        pfs.fleet.read(tmp_path / "fleet")
    with pytest.raises(pfs.InvalidValue, match=r"bad name '\.\./x' for a node"):
        collector_of(tmp_path, "../x")
    with pytest.raises(pfs.InvalidValue, match="there is no table 'nothing'"):
        tables_of(["nothing"])
    with closing(collector_of(tmp_path)) as first:
        assert first.cut().processes == []  # a host without processes has cuts, too
        with pytest.raises(pfs.StateError, match="another collector writes to"):
            cut_of(tmp_path)
    fleet = pfs.fleet.read(tmp_path / "fleet")
    assert fleet.sql(f"select count(*) from {WAITS}").rows() == [(0,)]
    assert fleet.sql(f"select count(*) from process.{WAITS}").rows() == [(0,)]
    assert fleet.view("waits_global_by_latency").empty
    with pytest.raises(pfs.UnknownTable, match="--also TABLE"):
        fleet.sql("select * from threads")
    with pytest.raises(pfs.UnknownTable, match="the nearest is"):
        fleet.view("statement_analysi")
    with pytest.raises(pfs.UnknownTable, match=f"the nearest is 'process.{WAITS}'"):
        fleet.sql(f"select * from process.{WAITS[:-1]}")
    with pytest.raises(pfs.UnknownColumn):
        fleet.sql(f"select NOTHING from {WAITS}")
    with pytest.raises(pfs.OperationNotAllowed):
        fleet.sql("drop table x")
    with pytest.raises(pfs.InvalidValue, match="bad value -1 for back"):
        pfs.fleet.read(tmp_path / "fleet", back=-1)


def test_top_shows_the_nodes(tmp_path: Path, folder: Path) -> None:
    def top(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pfs", "top", "--fleet", str(tmp_path / "fleet"), "--batch", "--count", "1", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert top().stderr == f"pfs: there is no folder '{tmp_path / 'fleet'}': pfs collect --to makes it\n"
    with busy(folder, 20) as program:
        collectors = [collector_of(tmp_path, node) for node in ("a", "b")]
        for turns in (10, 20):
            for collector in collectors:
                collector.cut()
            program.do(f"work({turns})\nwith pfs.statement('fleet/query', 'select 1'): pass")
        for collector in collectors:
            collector.cut()
        shown = top()
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"pfs top: 2 nodes, 2 processes in {tmp_path / 'fleet'}\n")
        assert LOCK in shown.stdout
        assert re.search(r"^a +\d", shown.stdout, re.MULTILINE)
        assert re.search(rf"^b {program.pid} ", shown.stdout, re.MULTILINE)
        assert "SELECT ?" in shown.stdout
        only = top("--only", "nodes", "--sort", "NAME").stdout.splitlines()
        assert [line.split()[0] for line in only[2:]] == ["nodes", "a", "b"]
        wrong = top("--only", "files")
        assert wrong.returncode == 2
        assert "legal are waits, nodes, statements, processes" in wrong.stderr
        assert pfs.fleet.read(tmp_path / "fleet").sql(BETWEEN).rows() == [(program.pid, 20), (program.pid, 20)]


def verified(unit: Path) -> str:
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stderr


@pytest.mark.needs("systemd-analyze")
def test_the_unit_for_systemd_is_right(root: Path, tmp_path: Path, folder: Path) -> None:
    """systemd finds nothing wrong with it, and its command writes a cut."""
    text = (root / "docs/examples/production/pfs-collect.service").read_text()
    pfs_here = shutil.which("pfs")
    assert pfs_here is not None
    assert "ExecStart=/usr/local/bin/pfs " in text
    (unit := tmp_path / "pfs-collect.service").write_text(text.replace("/usr/local/bin/pfs", pfs_here))
    assert verified(unit) == ""
    unit.write_text(unit.read_text().replace("RestartSec=10", "RestartSecond=10"))
    assert "RestartSecond" in verified(unit)  # it does look
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    command = line.partition("=")[2].replace("/usr/local/bin/pfs", pfs_here).replace("/shared/pfs", str(tmp_path / "fleet"))
    with busy(folder, 20):
        run = [*command.split(), "--once", "--node", "here", "--dir", str(folder)]
        subprocess.run(run, env=clean_environment(folder), check=True, capture_output=True, timeout=120)
        assert one(pfs.fleet.read(tmp_path / "fleet")) >= 20


# ---- Memory


DIGESTS = 10_000


def peaks_of_cuts(to: Path, folder: Path, processes_of_it: int, are_unlike: bool = False) -> list[float]:
    """Writes two cuts in a process of its own, and returns its largest memory after each, less that of libraries: megabytes.

    The same pyarrow takes 28 MB or 53 MB: as much of its files counts as the system has in its cache. More processes than one are
    the same segment with other ids. `are_unlike`: their digests are other ones, too.
    """
    code = f"""
        import itertools, sys
        from dataclasses import replace
        import numpy
        import pyarrow.compute, pyarrow.parquet
        from pfs._many.fleet import collector
        from pfs._many.fleet.collector import Collector
        from pfs._process import processes
        to, folder = sys.argv[1:]
        numbers = itertools.count(1)
        class Unlike(collector.SegmentSource):
            def __init__(self, *given, **named):
                super().__init__(*given, **named)
                self.number = next(numbers)
            def used(self, table):
                rows, parts, *more = super().used(table)
                def other(name, kind, nullable, codes, null, texts):
                    if name in ("DIGEST", "DIGEST_TEXT"):
                        texts = numpy.array([f"{{self.number:04}}{{text[4:]}}" for text in texts], object)
                    return name, kind, nullable, codes, null, texts
                return rows, [other(*part) for part in parts], *more
        if {are_unlike}:
            collector.SegmentSource = Unlike
        class Same:
            def __init__(self, of, number):
                self._of, self.pid = of, of.pid + number
            def __getattr__(self, name): return getattr(self._of, name)
        def find():
            [found] = processes.listed(folder)
            return [replace(found, identity=Same(found.identity, number)) for number in range({processes_of_it})]
        def most():  # ru_maxrss has the memory of the process that has started this one
            return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
        libraries = most()
        writer = Collector(to, "here", find)
        for left in ({processes_of_it}, 0):  # all of them are dead: they are in one cut, and then in the sums
            cut = writer.cut()
            assert (cut.problems, len(cut.processes)) == ([], left)
            print(most() - libraries)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(to), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return [float(line) for line in done.stdout.split()]


@pytest.fixture(scope="module")
def full_digests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The segment of a dead process with a full table of digests."""
    made = tmp_path_factory.mktemp("full") / "segments"
    made.mkdir(mode=0o700)
    with subject(made) as program:
        program.do(f"for n in range({DIGESTS}):\n    with pfs.statement('a/s', text='select c%d from t' % n): pass\n")
        program.kill()
    return made


@pytest.mark.parametrize(("processes_of_it", "megabytes"), [(1, [50, 60]), (20, [160, 175])])
def test_a_full_table_of_digests_takes_little_memory(
    tmp_path: Path, full_digests: Path, processes_of_it: int, megabytes: list[float]
) -> None:
    """Most of the 450 buckets of a digest are empty, and not more than some processes are in memory."""
    peaks = peaks_of_cuts(tmp_path / "fleet", full_digests, processes_of_it)
    print(peaks)
    fleet = pfs.fleet.read(tmp_path / "fleet")
    rows = fleet.sql("select count(*), sum(COUNT_STAR)::bigint from events_statements_summary_by_digest").rows()
    assert rows == [(DIGESTS, DIGESTS * processes_of_it)]
    assert fleet.sql("select sum(COUNT_BUCKET)::bigint from events_statements_histogram_by_digest").rows() == [(rows[0][1],)]
    assert [peak < most for peak, most in zip(peaks, megabytes, strict=True)] == [True, True], peaks


def test_digests_of_which_none_is_common_take_little_memory(tmp_path: Path, full_digests: Path) -> None:
    """The sums of all are never in memory at once. Each row of them is that of the only process that has the digest."""
    peaks = peaks_of_cuts(tmp_path / "fleet", full_digests, 12, are_unlike=True)
    print(peaks)
    fleet = pfs.fleet.read(tmp_path / "fleet", back=1)
    chosen_of = {
        BY_DIGEST: "DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, QUANTILE_95, QUANTILE_999",
        HISTOGRAM: "DIGEST, BUCKET_NUMBER, COUNT_BUCKET, COUNT_BUCKET_AND_LOWER",
    }
    newest = pfs.fleet.read(tmp_path / "fleet")  # they are all dead
    for table, chosen in chosen_of.items():
        sums, apart = (f"select {chosen} from {begin}{table} where DIGEST is not null" for begin in ("", "process."))
        assert fleet.sql(f"select count(*) from ({sums} except {apart})").rows() == [(0,)], table
        [count] = fleet.sql(f"select count(*), sum(hash({chosen})) from ({sums})").rows()
        assert count[0] >= 12 * (DIGESTS - 1), table  # one of them is that of the statements without a digest
        assert newest.sql(f"select count(*), sum(hash({chosen})) from ({sums})").rows() == [count], table
    assert [peak < 190 for peak in peaks] == [True, True], peaks


def test_sums_of_parts_are_those_of_the_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes have some digests in common. Parts of few rows give the same rows, with the same quantiles."""
    some = "for n in range({0}, {0} + 30):\n    with pfs.statement('a/s', text='select c%d from t' % n): pass\n"
    wanted: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        programs = [stack.enter_context(subject(folder)) for _ in range(3)]
        for number, program in enumerate(programs):
            program.do(some.format(20 * number))
        sources = [SegmentSource(_core.Segment(str(program.path)), write=False) for program in programs]
        for source in sources:
            stack.callback(source.close)
        read = {name: [Columns(*source.used(name)) for source in sources] for name in (HISTOGRAM, BY_DIGEST)}
    for most in (1 << 20, 25):
        monkeypatch.setattr("pfs._many.fleet.sums.MOST_ROWS", most)
        all_of = {}
        for name, pieces in read.items():
            gone, all_of[name] = Sum(name), Sum(name)
            gone.add(pieces[0])
            all_of[name].add_all(gone)
            for piece in pieces[1:]:
                all_of[name].add(piece)
            assert sum(each.rows for each in gone.pieces()) == pieces[0].rows  # it stays as it is
        made = {HISTOGRAM: all_of[HISTOGRAM].pieces(), BY_DIGEST: sums_with_quantiles(all_of[BY_DIGEST], all_of[HISTOGRAM])}
        found = {name: [each.frame() for each in pieces if each.rows] for name, pieces in made.items()}
        assert {len(frames) > 1 for frames in found.values()} == {most == 25}
        rows = {name: Counter(str(row) for frame in frames for row in frame.to_dict("records")) for name, frames in found.items()}
        assert rows[BY_DIGEST].total() == 70
        assert rows == (wanted := wanted or rows)


def test_empty_buckets_are_left_out_of_cuts_and_the_counts_below_stay_exact(tmp_path: Path, folder: Path) -> None:
    """Two processes use other buckets. The sums, the rates and differences are those of full histograms."""
    table = "events_statements_histogram_by_digest"
    fast = "for n in range(5):\n    with pfs.statement('a/s', text='select 1'): pass\n"
    slow = "import time\nfor n in range(3):\n    with pfs.statement('a/s', text='select 1'): time.sleep(0.01)\n"
    with subject(folder) as one_, subject(folder) as two, closing(collector_of(tmp_path)) as collector:
        one_.do(fast + slow)
        two.do(slow)
        first = collector.cut()
        whole = []
        for code in (fast, slow):
            one_.do(fast)
            two.do(code)
            with pfs.attach(one_.path) as a, pfs.attach(two.path) as b:
                whole.append(pfs.Snapshot.merge([a.snapshot(), b.snapshot()])[table])
            last = collector.cut()
        read = pfs.read_snapshot(last.path)[table]
        used = whole[-1][whole[-1]["COUNT_BUCKET"] > 0].reset_index(drop=True)
        assert len(read) < len(whole[-1]) / 10
        for column in used.columns:
            assert list(read[column]) == list(used[column]), column
        quantiles = ["QUANTILE_95", "QUANTILE_99", "QUANTILE_999"]
        digests = "events_statements_summary_by_digest"
        with pfs.attach(one_.path) as a, pfs.attach(two.path) as b:
            merged = pfs.Snapshot.merge([a.snapshot(), b.snapshot()])[digests][quantiles]
        assert pfs.read_snapshot(last.path)[digests][quantiles].equals(merged)
        # Between the last two cuts, and between the first and the last.
        fleet = pfs.fleet.read(tmp_path / "fleet")
        between = whole[1].assign(then=whole[0]["COUNT_BUCKET_AND_LOWER"], before=whole[0]["COUNT_BUCKET"])
        between = between[between["COUNT_BUCKET"] > between["before"]]
        sql = (
            "select BUCKET_NUMBER, round(sum(COUNT_BUCKET * SECONDS))::bigint as n "
            f"from rates.{table} join fleet.nodes using (NODE) group by 1 order by 1"
        )
        assert fleet.sql(sql).rows() == [
            (int(number), int(now - then))
            for number, now, then in zip(between["BUCKET_NUMBER"], between["COUNT_BUCKET"], between["before"], strict=True)
        ]
        below = f"select max(COUNT_BUCKET_AND_LOWER * SECONDS) from rates.{table} join fleet.nodes using (NODE)"
        assert round(fleet.sql(below).rows()[0][0]) == 5
        difference = pfs.Snapshot.diff(pfs.read_snapshot(first.path), pfs.read_snapshot(last.path))[table]
        assert int(difference["COUNT_BUCKET"].sum()) == int(difference["COUNT_BUCKET_AND_LOWER"].max()) == 18


@pytest.mark.parametrize("also", [(), ("events_%_history_long",)])
def test_findings_are_those_of_each_process(tmp_path: Path, folder: Path, also: tuple[str, ...]) -> None:
    """A rule of sums finds its fault in any cut, a rule of events in cuts that have them."""
    script = (
        "import os, time\n"
        "for _ in range(200000):\n"
        "    try: os.open('missing', 0)\n"
        "    except OSError: pass\n"
        "for _ in range(20): time.sleep(0.01)\n"
    )
    run = [sys.executable, "-m", "pfs", "run", "--keep", "--no-report", "--", sys.executable, "-c", script]
    subprocess.run(run, env=clean_environment(folder), check=True, timeout=60)
    for node in ("a", "b"):
        with closing(Collector(str(tmp_path / "fleet"), node, lambda: segments_in(str(folder)), tables_of(also))) as collector:
            (process,) = collector.cut().processes
    frame = pfs.fleet.read(tmp_path / "fleet").findings()
    assert list(frame.columns) == ["NODE", *COLUMNS]
    assert {*frame["PROCESS_ID"]} == {process.identity.pid}
    names = {"searched", *["sleeps"] * bool(also)}
    assert {*zip(frame["NODE"], frame["NAME"], strict=True)} == {(node, name) for node in ("a", "b") for name in names}
    command = [sys.executable, "-m", "pfs", "findings", str(tmp_path / "fleet")]
    shown = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60, check=True).stdout
    worst = json.loads(shown)
    assert [(one["node"], one["name"], one["time"]) for one in worst] == [
        *zip(frame["NODE"], frame["NAME"], frame["TIME"], strict=True)
    ][:3]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"1. {worst[0]['node']}, process {process.identity.pid}: " in " ".join(text.split())
