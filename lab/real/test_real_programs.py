"""leveldb and sqlite3 on pfs: the tables say what strace and the programs themselves count, and nothing that they do changes.

sqlite3 runs where its header is. leveldb is built (a minute) if PFS_BENCH_LEVELDB is set: to a folder with its sources, or to 1
for those of Debian, which are fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.real import common, leveldb, sqlite

pytestmark = pytest.mark.bench

_CALL = re.compile(r"^\d+\s+(\w+)\(\d+<([^>]+)>", re.MULTILINE)
_COUNT = re.compile(r"^shim: count (\w+) locks (\d+)(?: waits (\d+))?$", re.MULTILINE)


def strace(log: Path) -> tuple[str, ...]:
    """In front of a command: what it does with files, and their names, go to `log`."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-o", "/dev/null", "true"], check=False).returncode != 0:
        pytest.skip("strace is not there, or may not trace: apt-get install strace; in a container, --cap-add SYS_PTRACE")
    return ("strace", "-f", "-y", "-o", str(log), "-e", "trace=read,pread64,write,pwrite64,fsync,fdatasync,ftruncate,fcntl")


def calls(log: Path) -> dict[str, tuple[int, int]]:
    """File name -> (reads, writes)."""
    counted = Counter((path, call.strip("p64")) for call, path in _CALL.findall(log.read_text()))
    return {path: (counted[path, "read"], counted[path, "write"]) for path, call in counted if call in ("read", "write")}


def calls_in(folder: Path, log: Path) -> Counter[tuple[str, str]]:
    """(call, file) of files in a folder, which is one of them."""
    names = [(call, path.removesuffix(" (deleted)")) for call, path in _CALL.findall(log.read_text())]
    return Counter(
        (call, os.path.relpath(path, folder)) for call, path in names if path == str(folder) or path.startswith(f"{folder}/")
    )


def locks(output: str, component: str) -> dict[str, int]:
    """Instrument -> how often the shim was asked to lock or was woken."""
    counted = {}
    for name, locked, woken in _COUNT.findall(output):
        counted[f"wait/synch/mutex/{component}/{name}"] = int(locked)
        counted[f"wait/synch/cond/{component}/{name}"] = int(woken or 0)
    return {name: count for name, count in counted.items() if count}


def recorded_locks(events: common.Events) -> dict[str, int]:
    return {name: count for name, count in events.by_name.items() if name.startswith("wait/synch/")}


def check_everything_is_on(events: common.Events) -> None:
    assert events.total > 0
    assert events.not_on == []
    assert events.consumers == ["events_statements_cpu", "lock_holds"]
    assert events.lost == {}


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """Where databases are: in memory if possible, as transactions wait for the disk."""
    with tempfile.TemporaryDirectory(prefix="pfs-real-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


# ---- sqlite3 -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory, data: Path) -> sqlite.Bench:
    try:
        programs = sqlite.build_all(tmp_path_factory.mktemp("work"), None, "in", "out", "stock", "counted", "floor")
    except common.Unavailable as why:
        pytest.skip(str(why))
    return sqlite.Bench(programs, data, 2000, common.EVERYTHING)


@pytest.mark.parametrize("workload", sqlite.WORKLOADS)
def test_sqlite_does_the_same_recorded_or_not(on_sqlite: sqlite.Bench, workload: str) -> None:
    results = {variant: on_sqlite.run(variant, workload, keep=True) for variant in ("in", "out", "stock", "floor")}
    told = [{name: json.loads(one.output)[name] for name in ("operations", "checksum")} for one in results.values()]
    assert all(one == told[0] for one in told)
    held = {variant: on_sqlite.scan(on_sqlite.data / f"{variant}.db") for variant in results}
    assert held["in"] == held["out"] == held["stock"] == held["floor"]
    if workload in ("insert", "update", "threads"):
        assert held["in"] != on_sqlite.scan(on_sqlite.filled()), "the workload was to change something"
    assert results["in"].events is not None
    check_everything_is_on(results["in"].events)
    assert results["out"].events is None


@pytest.mark.parametrize("workload", ["insert", "select", "update"])
def test_files_of_sqlite_are_counted_as_strace_counts_them(on_sqlite: sqlite.Bench, workload: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    events = on_sqlite.run("in", workload, prefix=strace(log)).events
    assert events is not None
    database = str(on_sqlite.data / "in.db")
    truth = calls(log)
    assert events.files[database] == truth[database]
    assert events.io["wait/io/file/sqlite/database"] == truth[database]
    assert truth[database][0] > 0
    # Its row goes with the journal, what it has counted stays with the instrument.
    assert events.io["wait/io/file/sqlite/journal"] == truth.get(f"{database}-journal", (0, 0))
    assert (events.io["wait/io/file/sqlite/journal"][1] > 0) == (workload != "select")


@pytest.mark.parametrize("workload", ["insert", "select", "update", "statements"])
def test_sqlite_asks_the_same_of_the_system_recorded_or_not(on_sqlite: sqlite.Bench, workload: str, tmp_path: Path) -> None:
    asked = []
    for variant in ("in", "out"):
        log = tmp_path / variant
        on_sqlite.run(variant, workload, prefix=strace(log))
        counted = calls_in(on_sqlite.data, log)
        asked.append(
            {(call, path.replace(variant, "VARIANT")): count for (call, path), count in counted.items() if "segment" not in path}
        )
    assert asked[0] == asked[1]
    assert asked[0]["pread64", "VARIANT.db"] > 0


@pytest.mark.parametrize("workload", ["insert", "range", "threads", "statements"])
def test_mutexes_of_sqlite_are_counted_as_the_shim_counts_them(on_sqlite: sqlite.Bench, workload: str) -> None:
    run = on_sqlite.run("counted", workload)
    assert run.events is not None
    truth = locks(run.output, "sqlite")
    assert recorded_locks(run.events) == truth
    assert {"wait/synch/mutex/sqlite/recursive", "wait/synch/mutex/sqlite/static_mem"} <= truth.keys()
    assert run.events.by_name.get("statement/sqlite/select", 0) == (run.operations if workload == "statements" else 0)


def test_the_program_that_is_not_recorded_needs_no_library(on_sqlite: sqlite.Bench) -> None:
    needed = {
        variant: subprocess.run(
            ["ldd", str(on_sqlite.programs / f"sqlite_bench_{variant}")], capture_output=True, text=True, check=True
        ).stdout
        for variant in ("in", "out")
    }
    assert "libperfschema" in needed["in"]
    assert "libperfschema" not in needed["out"]


def test_the_script_reports_pairs(on_sqlite: sqlite.Bench, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = "--pairs 2 --rows 200 --workloads select,statements --events --levels production,limit_1"
    arguments += f" --work {on_sqlite.programs.parent} --data {tmp_path} --json {report}"
    done = subprocess.run(
        [sys.executable, "-m", "lab.real.sqlite", *arguments.split()],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    workloads = json.loads(report.read_text())["workloads"]
    recorded = ["in", "in:production", "in:limit_1"]
    assert [(one["name"], one["comparison"][0]) for one in workloads] == [
        (name, variant) for name in ("select", "statements") for variant in recorded
    ]
    for one in workloads:
        low, high = one["wall"]["interval"]
        assert low <= one["wall"]["median"] <= high
        assert len(one["wall"]["ratios"]) == len(one["cpu"]["ratios"]) == 2
        assert one["events_per_operation"] > 1
        assert one["lost"] == {}
        assert f"{one['name']}, the last run:" in done.stdout


def test_a_workload_that_does_not_exist_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.real.sqlite", "--workloads", "select,dance"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no workload dance; there are insert, select" in done.stderr


# ---- leveldb -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_leveldb(tmp_path_factory: pytest.TempPathFactory, data: Path) -> leveldb.Bench:
    chosen = os.environ.get("PFS_BENCH_LEVELDB")
    if not chosen:
        pytest.skip("fetches and builds leveldb: set PFS_BENCH_LEVELDB to 1, or to a folder with its sources")
    work = tmp_path_factory.mktemp("work")
    try:
        sources = leveldb.fetch(work) if chosen == "1" else Path(chosen).resolve()
        programs = leveldb.build_all(work, sources, None, "in", "out", "stock", "counted", "floor")
    except common.Unavailable as why:
        pytest.skip(str(why))
    return leveldb.Bench(programs, data, 20_000, common.EVERYTHING)


@pytest.mark.parametrize("workload", ["fillseq", "fillrandom", "overwrite", "readrandom", "readseq"])
def test_leveldb_does_the_same_recorded_or_not(on_leveldb: leveldb.Bench, workload: str) -> None:
    results = {variant: on_leveldb.run(variant, workload, keep=True) for variant in ("in", "out", "stock", "floor")}
    held = {on_leveldb.scan(on_leveldb.data / f"db-{variant}") for variant in results}
    assert len(held) == 1
    assert int(next(iter(held)).split()[1]) > 0
    assert results["in"].events is not None
    check_everything_is_on(results["in"].events)


@pytest.mark.parametrize("workload", ["fillrandom", "readrandom"])
def test_files_of_leveldb_are_counted_as_strace_counts_them(on_leveldb: leveldb.Bench, workload: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    events = on_leveldb.run("in", workload, prefix=strace(log)).events
    assert events is not None
    database = f"{on_leveldb.data / 'db-in'}/"
    truth = {path: counts for path, counts in calls(log).items() if path.startswith(database)}
    files = {path: counts for path, counts in events.files.items() if path.startswith(database) and counts != (0, 0)}
    # Renamed ones (CURRENT was 000001.dbtmp, LOG is LOG.old afterwards) keep their numbers under another name.
    same = {path for path in files if re.search(r"\.(ldb|log)$", path)}
    assert same
    assert {path: files[path] for path in same} == {path: truth[path] for path in same}
    for instrument, pattern in (("table", r"\.ldb$"), ("log", r"/\d+\.log$")):
        counts = [counts for path, counts in truth.items() if re.search(pattern, path)]
        assert events.io[f"wait/io/file/leveldb/{instrument}"] == (sum(one for one, _ in counts), sum(two for _, two in counts))


def test_leveldb_asks_the_same_of_the_system_recorded_or_not(on_leveldb: leveldb.Bench, tmp_path: Path) -> None:
    asked = []
    for variant in ("in", "out"):
        log = tmp_path / variant
        on_leveldb.run(variant, "fillsync", prefix=strace(log))
        asked.append(calls_in(on_leveldb.data / f"db-{variant}", log))
    assert asked[0] == asked[1]
    assert asked[0]["fsync", "."] > 0  # with the manifest, which is not written for each of
    assert sum(count for (call, _), count in asked[0].items() if call == "fdatasync") > 100


@pytest.mark.parametrize("workload", ["fillrandom", "readrandom", "readwhilewriting"])
def test_locks_of_leveldb_are_counted_as_the_shim_counts_them(on_leveldb: leveldb.Bench, workload: str) -> None:
    run = on_leveldb.run("counted", workload)
    assert run.events is not None
    truth = locks(run.output, "leveldb")
    assert recorded_locks(run.events) == truth
    assert truth["wait/synch/mutex/leveldb/db_impl"] >= run.operations
