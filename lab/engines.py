"""Asks the simulated fleet by several engines: python -m lab.engines [--hosts 10 100 500] [--only duckdb prometheus].

Each engine answers the same question about the same processes, the ten waits of each node with the most time, and has the same
answer. Each is measured in processes of its own, by processor time and memory, which other programs hardly change. It needs
`pip install dask[dataframe] chdb` (ClickHouse in the process) and Debian's package prometheus. What is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pfs.metrics
from pfs._many.fleet.collector import tables_of
from tests.bench import fleet

INTERVAL, SCRAPES = 15, 12  # seconds between scrapes; scrapes of each host
CUTS = 10  # of each host, in ClickHouse
TOP = fleet.TOP.format(schema="process.")

_HEAD = """
import json, os, resource, sys, time
folder, table, question = sys.argv[1:]
def used():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) // 1024
def report(rows, **more):
    print(json.dumps({"rows": sorted([str(node), str(name), int(time)] for node, name, time in rows), **more}))
"""
# What a reader takes to import its library is not measured: a service has done it before.
DUCKDB = (
    _HEAD
    + """
import pfs.fleet
pfs.sql("select 1")
before, begin = used(), time.perf_counter()
rows = pfs.fleet.read(folder).sql(question).rows()
report(rows, processor=used() - before, wall=time.perf_counter() - begin, megabytes=peak())
"""
)
DASK = (
    _HEAD
    + """
import glob
import dask, dask.dataframe, distributed
from pfs._many.fleet.cut import PROCESS, read_cut
dask.config.set({"dataframe.convert-string": False})
def rows_of(path):
    stored = read_cut(path).stored([PROCESS + table])[PROCESS + table]()
    return stored.frame()[["NODE", "EVENT_NAME", "SUM_TIMER_WAIT"]].astype({"NODE": str, "EVENT_NAME": str})
def measured():
    return used(), peak()
if __name__ == "__main__":
    paths = sorted(glob.glob(folder + "/*/*.pfs.zip"))
    meta = rows_of(paths[0]).iloc[:0]
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, cluster.get_client() as client:
        client.gather(client.map(rows_of, paths[:2] * 2, pure=False))  # imports
        workers = client.run(measured).values()
        before, begin = used() + sum(each[0] for each in workers), time.perf_counter()
        parts = dask.dataframe.from_map(rows_of, paths, meta=meta)
        sums = parts.groupby(["NODE", "EVENT_NAME"])["SUM_TIMER_WAIT"].sum(split_every=16, split_out=1).compute()
        wall, workers = time.perf_counter() - begin, client.run(measured).values()
        processor = used() + sum(each[0] for each in workers) - before
        top = sums[sums > 0].reset_index().sort_values(["NODE", "SUM_TIMER_WAIT", "EVENT_NAME"], ascending=[True, False, True])
        rows = top.groupby("NODE").head(10).itertuples(index=False)
        report(rows, processor=processor, wall=wall, megabytes=peak() + sum(each[1] for each in workers))
"""
)
CLICKHOUSE = (
    _HEAD
    + f"""
import tempfile
import pyarrow
from chdb import session
import pfs.fleet
made = session.Session(tempfile.mkdtemp())
ask = lambda text: str(made.query(text, "JSONCompactEachRow"))
ask("create database fleet")
ask("create table fleet.waits (CUT UInt32, NODE LowCardinality(String), PID UInt64, EVENT_NAME LowCardinality(String),"
    " COUNT_STAR UInt64, SUM_TIMER_WAIT UInt64) engine = MergeTree order by (CUT, NODE, EVENT_NAME, PID)")
read = pfs.fleet.read(folder)
before, begin = used(), time.perf_counter()
rows = pyarrow.table(read.sql(f"select NODE, PID, EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT from process.{{table}}").arrow)
taken, before = used() - before, used()
for cut in range({CUTS}):
    ask(f"insert into fleet.waits select {{cut}}, NODE, PID, EVENT_NAME, COUNT_STAR + {{cut}}, SUM_TIMER_WAIT from Python(rows)")
loaded = (used() - before) / {CUTS}
ask("optimize table fleet.waits final")
size = int(ask("select sum(bytes_on_disk) from system.parts where active and database = 'fleet'").strip("[]\\n").strip('"'))
before, begin = used(), time.perf_counter()
text = ask("select NODE, EVENT_NAME, sum(SUM_TIMER_WAIT) as t from fleet.waits where CUT = 3 and SUM_TIMER_WAIT > 0"
           " group by NODE, EVENT_NAME order by NODE, t desc, EVENT_NAME limit 10 by NODE")
one, wall = used() - before, time.perf_counter() - begin
before = used()
ask("select NODE, CUT, sum(COUNT_STAR) from fleet.waits group by NODE, CUT")
history = used() - before
report([json.loads(line) for line in text.splitlines()], processor=one, wall=wall, read=taken, load=loaded, history=history,
       disk=size / {CUTS} / 1e6, megabytes=peak())
"""
)


def run(code: str, folder: str) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:  # Dask's processes import it again
        file.write(code)
        file.flush()
        command = [sys.executable, "-W", "ignore", file.name, folder, fleet.TABLE, TOP]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def exporters(texts: list[str]) -> Iterator[int]:
    """Serves the metrics of simulated hosts, at one port: /0, /1 ... Each scrape has counted more. Yields the port."""
    numbers = [[line.rpartition(" ") for line in text.splitlines()] for text in texts]
    scrapes: dict[int, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = int(self.path[1:])
            factor = scrapes[host] = scrapes.get(host, host % 37) + 1
            lines = (
                line if line.startswith("#") else f"{line} {float(value) * factor:.17g}"
                for line, _, value in numbers[host % len(numbers)]
            )
            body = "".join(
                f"{given}\n" if not given.startswith("#") else f"{line[0]} {line[2]}\n"
                for given, line in zip(lines, numbers[host % len(numbers)], strict=True)
                if given != "# EOF"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def processor_and_memory(pid: int) -> tuple[float, int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak // 1024


def answered(port: int, path: str) -> Any:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return json.loads(answer.read())["data"]
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def prometheus(hosts: int, texts: list[str]) -> dict[str, Any]:
    """Lets a Prometheus scrape the hosts for some minutes."""
    folder = Path(tempfile.mkdtemp(prefix="pfs-prometheus-"))
    with exporters(texts) as port:
        targets = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"__metrics_path__": f"/{host}", "host": str(host)}}
            for host in range(hosts)
        ]
        job = {"job_name": "pfs", "static_configs": targets}
        config = {"global": {"scrape_interval": f"{INTERVAL}s", "scrape_timeout": f"{INTERVAL}s"}, "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        own = port + 1 if port < 65000 else port - 1
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{own}", "--log.level=error"]
        with subprocess.Popen(command) as process:
            try:
                answered(own, "/api/v1/status/buildinfo")
                time.sleep(INTERVAL)
                before, _ = processor_and_memory(process.pid)
                time.sleep(INTERVAL * SCRAPES)
                after, megabytes = processor_and_memory(process.pid)
                head = answered(own, "/api/v1/status/tsdb")["headStats"]
                query = "topk by (host) (10, sum by (host, event_name) (rate(pfs_events_waits_seconds_total[1m])))"
                asked, _ = processor_and_memory(process.pid)
                begin = time.perf_counter()
                rows = answered(own, "/api/v1/query?query=" + urllib.request.quote(query))["result"]  # type: ignore[attr-defined]
                wall = time.perf_counter() - begin
                one = processor_and_memory(process.pid)[0] - asked
            finally:
                process.terminate()
        written = sum(file.stat().st_size for file in (folder / "data").rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return {
        "hosts": len({row["metric"]["host"] for row in rows}),
        "series": head["numSeries"],
        "megabytes": megabytes,
        "scrape": (after - before) / SCRAPES,
        "wall": wall,
        "processor": one,
        "wal": written / 1e6,
    }


def bytes_of_sample(text: str) -> tuple[float, int]:
    """Returns the bytes of a sample in a block of Prometheus, and its series: a day of one host, a sample each minute."""
    folder = Path(tempfile.mkdtemp(prefix="pfs-block-"))
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    with (folder / "day.om").open("w") as file:
        for name, _, value in lines:
            for minute in range(24 * 60):
                # Counters that grow by steps that differ, as in a program.
                file.write(f"{name} {float(value) * (1000 + minute * 7 + minute % 13):.17g} {1_700_000_000 + minute * 60}\n")
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "day.om"), str(folder / "data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    size = sum(file.stat().st_size for file in (folder / "data").rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return size / len(lines) / 24 / 60, len(lines)


def texts_of_programs() -> list[str]:
    """Returns what `pfs metrics` writes on a host with all the programs."""
    found = []
    for code in fleet.PROGRAMS.values():
        with fleet.program(code) as pid:
            found.append(pfs.metrics.text(pid))
    joined: dict[str, str] = {}
    for text in found:
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            joined.setdefault(name if not line.startswith("#") else line, value)
    samples = "\n".join(f"{name} {value}" for name, value in joined.items() if not name.startswith("#"))
    return [samples + "\n"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[10, 100, 500])
    parser.add_argument("--only", nargs="+", default=["duckdb", "dask", "clickhouse", "prometheus"])
    parser.add_argument("--folder", help="where the cuts of an earlier run are, or where they stay")
    options = parser.parse_args()
    readers = {"duckdb": DUCKDB, "dask": DASK, "clickhouse": CLICKHOUSE}
    chosen = {name: code for name, code in readers.items() if name in options.only}
    if chosen:
        folder = options.folder or tempfile.mkdtemp(prefix="pfs-fleet-")
        if not os.path.isdir(folder) or not os.listdir(folder):
            fleet.made(folder, max(options.hosts), fleet.snapshots(tables_of()), cuts=1)
    for hosts in options.hosts:
        answers: dict[str, Any] = {}
        if chosen:
            part = tempfile.mkdtemp(prefix="pfs-fleet-part-")
            for host in range(hosts):
                os.symlink(os.path.join(folder, f"host{host:03}"), os.path.join(part, f"host{host:03}"))
        for name, code in chosen.items():
            found = run(code, part)
            answers[name] = found.pop("rows")
            print(hosts, name, {key: round(value, 3) for key, value in found.items()}, flush=True)
        if len(answers) > 1:
            assert all(rows == answers["duckdb"] for rows in answers.values()), "the engines disagree"
            assert len(answers["duckdb"]) == hosts * 10
        if chosen:
            shutil.rmtree(part)
    if "prometheus" in options.only and shutil.which("prometheus"):
        texts = texts_of_programs()
        size, series = bytes_of_sample(texts[0])
        print(f"prometheus: {size:.2f} bytes of a sample in a block, {series} series of a host")
        for hosts in options.hosts:
            print(hosts, "prometheus", {key: round(value, 3) for key, value in prometheus(hosts, texts).items()}, flush=True)
    if chosen and options.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
