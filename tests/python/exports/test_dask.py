"""pfs.dask counts all work that workers have done, by their own logs, also of a worker that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs perfschema[dask]")

import pandas as pd
from distributed import Client, LocalCluster

import pfs
import pfs.dask
from pfs import _core
from pfs._many.dask.frames import _fixed
from pfs._read.frame import made
from pfs._read.source import OWN
from pfs._save.archive import empty
from tests.each import for_each

WAITS = "events_waits_summary_global_by_event_name"
MUTEX = "wait/synch/mutex/app/LOCK_dask"
pytestmark = pytest.mark.filterwarnings("default")  # workers that are killed make Dask warn


def work(times: int, logs: str) -> None:
    """Takes a lock some times, and says so in a log of this process, each time, before the kernel could lose it."""
    lock = pfs.Lock("app/LOCK_dask")
    file = os.open(f"{logs}/{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(times):
        with lock:
            pass
        os.write(file, b".")
    os.close(file)


def done(logs: Path) -> dict[int, int]:
    return {int(path.name): path.stat().st_size for path in logs.iterdir()}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    folder = tmp_path / "segments"
    folder.mkdir(mode=0o700)
    (tmp_path / "logs").mkdir()
    monkeypatch.setenv("PFS_DIR", str(folder))
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as made,
    ):
        yield made


def count(frame: pd.DataFrame) -> int:
    return int(frame.loc[frame["EVENT_NAME"] == MUTEX, "COUNT_STAR"].sum())


def kill(client: Client, address: str, pid: int) -> None:
    """Kills a worker and waits until its nanny has started another one."""
    os.kill(pid, signal.SIGKILL)
    for _ in range(600):
        now = client.scheduler_info(n_workers=-1)["workers"]
        if address not in now and len(now) == 3:
            return
        time.sleep(0.05)
    raise AssertionError("the nanny has not started another worker")


def test_work_counted_is_work_done(client: Client, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    client.register_plugin(pfs.dask.Plugin({"max_thread_instances": 100}, consumers="events_waits_history_long"))
    before: dict[str, int] = client.run(os.getpid)
    client.gather(client.map(work, [50] * 30, logs=str(logs), pure=False))
    victim, pid = sorted(before.items())[0]
    client.submit(work, 70, str(logs), workers=[victim], pure=False).result()  # it has done some, whatever the scheduler chose
    kill(client, victim, pid)
    alive: dict[str, int] = client.run(os.getpid)
    for address in alive:  # the new worker works, too
        client.gather(client.map(work, [50] * 10, logs=str(logs), workers=[address], pure=False))

    by_pid = done(logs)
    assert sum(by_pid.values()) == 60 * 50 + 70
    assert by_pid[pid] >= 70
    assert count(pfs.dask.merge(client, WAITS)) == sum(by_pid.values())

    frame = pfs.dask.table(client, WAITS)
    assert frame.npartitions == 4
    whole: pd.DataFrame = frame.compute()
    assert whole.dtypes.equals(frame.dtypes)
    mine = whole[whole["EVENT_NAME"] == MUTEX]
    assert dict(zip(mine["PID"].astype(int), mine["COUNT_STAR"].astype(int), strict=True)) == by_pid
    assert set(before) <= set(whole["WORKER"])

    named = pfs.dask.workers(client)
    dead = named[named["STATE"] == "dead"]
    assert [(row.WORKER, row.PID) for row in dead.itertuples()] == [(victim, pid)]
    assert dict(zip(named["WORKER"][:3], named["PID"][:3].astype(int), strict=True)) == alive
    live = sum(times for worker, times in by_pid.items() if worker != pid)
    assert live < sum(by_pid.values())  # negative control: without the dead one, work is missing

    # The plugin reached the new worker, too.
    history = pfs.dask.table(client, "events_waits_history_long").compute()
    assert set(history["PID"].astype(int)) == {pid, *alive.values()}
    options = pfs.dask.table(client, "global_variables").compute()
    limits = options.loc[options["VARIABLE_NAME"] == "performance_schema_max_thread_instances", "VARIABLE_VALUE"]
    assert list(limits) == ["100"] * 4
    stays_apart = pfs.dask.merge(client, "threads")
    assert set(stays_apart["PID"].astype(int)) == {pid, *alive.values()}
    with pytest.raises(pfs.UnknownTable):
        pfs.dask.table(client, "thread")


def test_a_worker_that_is_killed_at_work(client: Client, tmp_path: Path) -> None:
    """Its tasks are done again elsewhere. What it had done before counts, too: by its log, and one turn that is not in it yet."""
    logs = tmp_path / "logs"
    client.register_plugin(pfs.dask.Plugin())
    before: dict[str, int] = client.run(os.getpid)
    victim, pid = sorted(before.items())[0]
    turns = 50_000
    tasks = client.map(work, [turns] * 6, logs=str(logs), pure=False)
    deadline = time.monotonic() + 60
    while done(logs).get(pid, 0) < 100:
        assert time.monotonic() < deadline
    kill(client, victim, pid)
    at_end = done(logs)[pid]
    client.gather(tasks)

    by_pid = done(logs)
    assert by_pid[pid] == at_end
    assert at_end % turns != 0  # it was at work
    assert sum(by_pid.values()) == 6 * turns + at_end  # Dask does all of it again
    whole: pd.DataFrame = pfs.dask.table(client, WAITS).compute()
    mine = whole[whole["EVENT_NAME"] == MUTEX]
    counted = dict(zip(mine["PID"].astype(int), mine["COUNT_STAR"].astype(int), strict=True))
    assert 0 <= counted[pid] - at_end <= 1
    assert counted | {pid: at_end} == by_pid
    assert count(pfs.dask.merge(client, WAITS)) == sum(counted.values())


def test_a_cluster_without_the_plugin_is_refused(client: Client) -> None:
    with pytest.raises(pfs.Error, match=r"tcp://127\.0\.0\.1:\d+.* has no pfs\.dask\.Plugin: client\.register_plugin"):
        pfs.dask.merge(client, WAITS)


@for_each("name", _core.tables())
def test_types_of_partitions_come_from_the_declarations(name: str) -> None:
    """The types of rows of this process are those of no rows, for every table."""
    rows, _, parts = OWN.read(name, None)
    found = _fixed(made(rows, 0, parts), "tcp://x", 1)
    assert found.dtypes.equals(_fixed(made(0, 0, empty(name).parts), "", 0).dtypes)
    assert list(found)[:2] == ["WORKER", "PID"]


@pytest.mark.parametrize(("library", "recipe"), [("ray", "ray_workers"), ("pyspark", "spark_executors")])
@pytest.mark.parametrize("dies", [False, True], ids=["all end", "one is killed"])
def test_recipes_for_other_clusters(tmp_path: Path, library: str, recipe: str, dies: bool) -> None:
    pytest.importorskip(library, reason=f"{library} is large: pip install {library}")
    text = (Path(__file__).parents[3] / f"docs/examples/{recipe}.py").read_text()
    (tmp_path / "segments").mkdir(mode=0o700)
    assert "/dev/shm/pfs-my-job" in text
    text = text.replace("/dev/shm/pfs-my-job", str(tmp_path / "segments"))
    text = text.replace("SparkSession.builder", "SparkSession.builder.master('local[2, 4]')")  # it tries a task four times
    once = tmp_path / "dead"
    if dies:  # the first task to finish its work ends its process
        end = f"if not os.path.exists({str(once)!r}): open({str(once)!r}, 'x'); os.kill(os.getpid(), 9)"
        text = "import os\n" + text.replace("            pass\n", f"            pass\n    {end}\n", 1)
    (program := tmp_path / "program.py").write_text(text)
    environment = os.environ | {"PFS_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    environment["PYSPARK_PYTHON"] = sys.executable
    ran = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=300)
    assert once.exists() == dies
    assert ran.returncode == 0, ran.stderr
    shown = [line for line in ran.stdout.splitlines() if "LOCK_work" in line]
    # A task that is killed at its end has done its work, and is done again.
    assert [int(part) for part in shown[0].replace("|", " ").split()[1:2]] == [900 if dies else 800]
