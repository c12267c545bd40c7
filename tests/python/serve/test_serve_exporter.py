"""pfs serve and Debian's mysqld_exporter: all of its collectors of performance_schema work, and its counters are those of pfs."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import pfs
import pfs.metrics
from pfs._export.metrics.text import text_of

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.python.serve.serving import served

EXPORTER = shutil.which("prometheus-mysqld-exporter") or ""
pytestmark = pytest.mark.skipif(not EXPORTER, reason="needs prometheus-mysqld-exporter: the Debian package of this name")
COLLECTORS = [
    *("eventsstatements", "eventsstatementssum", "eventswaits", "file_events", "file_instances", "indexiowaits", "memory_events"),
    *("tableiowaits", "tablelocks"),
    *("replication_group_members", "replication_group_member_stats", "replication_applier_status_by_worker"),
]
OFF = ("slave_status",)
# These ask a server for its users, for TokuDB, and for tables of InnoDB and of pt-heartbeat.
FAIL = {"engine_tokudb_status", "heartbeat", "info_schema.innodb_metrics", "info_schema.innodb_tablespaces", "mysql.user"}
CHOSEN = [f"--collect.perf_schema.{name}" for name in COLLECTORS] + [f"--no-collect.{name}" for name in OFF]
Series = dict[tuple[Any, ...], float]


def scraped(url: str) -> str:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return str(answer.read().decode())
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def series(text: str) -> Series:
    return {(s.name, *sorted(s.labels.items())): s.value for family in parsed(text) for s in family.samples}


@contextmanager
def exporting(path: str, folder: Path, flags: Sequence[str] = CHOSEN, said: int = subprocess.DEVNULL) -> Iterator[str]:
    """Runs it for the server at a socket. Yields the address of its metrics. `said`: where its errors go."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder.parent / "exporter.cnf"
    config.write_text(f"[client]\nuser = me\npassword = any\nsocket = {path}\n")
    command = [EXPORTER, f"--web.listen-address=127.0.0.1:{port}", f"--config.my-cnf={config}"]
    with subprocess.Popen([*command, *flags], stderr=said) as process:
        try:
            yield f"http://127.0.0.1:{port}/metrics"
        finally:
            process.terminate()


def test_it_has_no_other_collectors() -> None:
    helped = subprocess.run([EXPORTER, "--help"], capture_output=True, text=True)
    offered = re.findall(r"--collect\.perf_schema\.(\w+) ", helped.stderr + helped.stdout)
    assert len(offered) >= 12
    # 0.17 has more: one needs the function GTID_SUBTRACT.
    assert set(offered) - {"replication_group_member_lag", "processlist"} <= set(COLLECTORS)


def test_its_text_is_that_of_compat(folder: Path) -> None:
    """It reads a program as it reads a server, and has the numbers of pfs metrics --compat."""
    with served(folder) as (program, path), exporting(path, folder) as url:
        text = scraped(url)
        with closing(pfs.metrics.exporter(str(program.path), compat=True)) as reading:
            ours = text_of(reading.metrics(), openmetrics=False)
    found = series(text)
    assert found[("mysql_up",)] == 1
    succeeded = {key[1:]: value for key, value in found.items() if key[0] == "mysql_exporter_collector_success"}
    # 0.14 has one number for all collectors, 0.17 has one for each.
    assert found.get(("mysql_exporter_last_scrape_error",)) == 0 or len(succeeded) > len(COLLECTORS)
    assert set(succeeded.values()) <= {1.0}
    assert found[("mysql_perf_schema_events_statements_sum_total",)] == 7
    known = series(ours)
    theirs = {key: value for key, value in found.items() if key[0].startswith("mysql_perf_schema_")}
    assert len(theirs) > 40
    # The parser appends _total to names of counters: the names themselves are compared, too.
    names = {line.partition("{")[0].split()[0] for line in text.splitlines() if line.startswith("mysql_perf_schema_")}
    assert names <= {line.partition("{")[0].split()[0] for line in ours.splitlines()}
    assert names >= {"mysql_perf_schema_events_statements_sum_timer_wait", "mysql_perf_schema_file_instances_bytes"}
    assert theirs.keys() <= known.keys()
    assert {key: value for key, value in theirs.items() if known[key] != pytest.approx(value)} == {}
    assert not any(
        "statements" in str(key[0]) and "_sum_" not in str(key[0]) for key in theirs
    )  # it drops statements without a schema
    assert any("events_statements_total" in str(key[0]) for key in known)


def test_of_all_its_collectors_those_fail_that_need_a_server(folder: Path) -> None:
    helped = subprocess.run([EXPORTER, "--help"], capture_output=True, text=True)
    flags = set(re.findall(r"--(?:\[no-\])?collect\.([\w.]+)", helped.stderr + helped.stdout))
    options = {name for name in flags if any(name.startswith(f"{other}.") for other in flags)}
    log = folder.parent / "exporter.log"
    chosen = [f"--collect.{name}" for name in sorted(flags - options)]
    with served(folder) as (_, path), log.open("wb") as said, exporting(path, folder, chosen, said.fileno()) as url:
        assert series(scraped(url))[("mysql_up",)] == 1
    assert len(flags - options) > 25
    assert set(re.findall(r"(?:scraper|collector)=([\w.]+) err=", log.read_text())) == FAIL


LOOP = """
file = pfs.open("/dev/zero", "r+b", buffering=0, name="app/zero")
while True:
    file.read(100); file.write(b"x" * 50); file.seek(0)
    with lock, pfs.statement("app/query", "SELECT 1"): pass
"""
MODES = {"read": "READ", "write": "WRITE", "misc": "MISC"}


def test_its_counters_lie_between_two_readings_of_the_tables(folder: Path) -> None:
    """While the program works: counts of files in each mode, of waits and of statements, and bytes."""
    with served(folder) as (program, path), exporting(path, folder) as url, pfs.attach(str(program.path)) as schema:
        program.send(LOOP)

        def row(table: str, name: str, *columns: str) -> list[int]:
            rows = schema._source.rows(table, ["EVENT_NAME", *columns])
            return next(([int(value) for value in values] for event, *values in rows if event == name), [0] * len(columns))

        def counts() -> list[int]:
            file = [f"COUNT_{name}" for name in MODES.values()] + [f"SUM_NUMBER_OF_BYTES_{name}" for name in ("READ", "WRITE")]
            return [
                *row("file_summary_by_event_name", "wait/io/file/app/zero", *file),
                *row("events_waits_summary_global_by_event_name", "wait/synch/mutex/app/LOCK", "COUNT_STAR"),
                *row("events_statements_summary_global_by_event_name", "statement/app/query", "COUNT_STAR"),
            ]

        deadline = time.monotonic() + 60
        while not all(counts()):
            assert time.monotonic() < deadline
        scraped(url)
        for _ in range(3):
            before, found, after = counts(), series(scraped(url)), counts()
            of_file = ("event_name", "wait/io/file/app/zero")
            names: list[tuple[Any, ...]] = [("file_events_total", of_file, ("mode", mode)) for mode in MODES]
            names += [("file_events_bytes_total", of_file, ("mode", mode)) for mode in ("read", "write")]
            names += [("events_waits_total", ("event_name", "wait/synch/mutex/app/LOCK")), ("events_statements_sum_total",)]
            for low, (name, *labels), high in zip(before, names, after, strict=True):
                assert low <= found[(f"mysql_perf_schema_{name}", *labels)] <= high, name
                assert low < high  # the program works
