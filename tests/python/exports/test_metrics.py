"""pfs metrics: Prometheus' own parsers read the text, the counts are those of the tables, and no counter goes down."""

from __future__ import annotations

import base64
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unicodedata
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="needs prometheus_client: pip install '.[test]'")

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parsed_plain

import pfs
import pfs.metrics
from pfs import _core
from pfs._export.metrics.exporter import Exporter
from pfs._export.metrics.families import GROUPS
from pfs._export.metrics.http import address_of
from pfs._export.metrics.metric import Metric, seconds
from pfs._export.metrics.text import text_of
from pfs._export.metrics.totals import Counts, Sums
from pfs._process.follow import all_processes
from tests.conftest import Run
from tests.python._programs.subject import clean_environment, subject
from tests.python._programs.witnessed import until

WORK = """
import sqlite3
if "lock" not in globals():
    lock, db = pfs.Lock("app/LOCK"), pfs.dbapi(sqlite3).connect(":memory:")
    done = pfs.register_status("Requests_done", "Requests.")
for number in range({n}):
    with lock, pfs.open(os.devnull, "w", name="app/data") as file: file.write("x" * 10)
    with pfs.statement("app/query", "SELECT %d" % number): pass
    db.execute("select 'in a schema', %d" % number).fetchall()
    done.add(1)
"""
LOOP = WORK.format(n=10**9)
MUTEX = ("events_waits_total", ("event_name", "wait/synch/mutex/app/LOCK"))
WRITTEN = ("file_events_bytes_total", ("event_name", "wait/io/file/app/data"), ("mode", "write"))
Series = dict[tuple[Any, ...], float]
parsed: Any = text_string_to_metric_families  # it has no types
# What mysqld_exporter 0.14 writes: names of samples with their labels.
EVENT, TABLE = {"event_name"}, {"schema", "name", "operation"}
DIGEST = {"schema", "digest", "digest_text"}
OF_MYSQLD_EXPORTER = {
    "events_waits_total": EVENT, "events_waits_seconds_total": EVENT,
    **{f"file_events_{name}total": EVENT | {"mode"} for name in ("", "seconds_", "bytes_")},
    **{f"events_statements_{name}total": DIGEST for name in (
        "", "seconds_", "errors_", "warnings_", "rows_affected_", "rows_sent_", "rows_examined_", "tmp_tables_",
        "tmp_disk_tables_", "sort_merge_passes_", "sort_rows_", "no_index_used_")},
    "table_io_waits_total": TABLE, "table_io_waits_seconds_total": TABLE,
    "index_io_waits_total": TABLE | {"index"}, "index_io_waits_seconds_total": TABLE | {"index"},
    "sql_lock_waits_total": TABLE, "sql_lock_waits_seconds_total": TABLE,
    "external_lock_waits_total": TABLE, "external_lock_waits_seconds_total": TABLE,
    "memory_events_alloc_bytes_total": EVENT, "memory_events_free_bytes_total": EVENT, "memory_events_used_bytes": EVENT,
}  # fmt: skip
# What its collectors eventsstatementssum and file_instances write. They are off unless asked for.
OF_ITS_OTHER_COLLECTORS: dict[str, set[str]] = {
    **{f"events_statements_sum_{name}": set() for name in (
        "total", "created_tmp_disk_tables", "created_tmp_tables", "errors", "lock_time", "no_good_index_used", "no_index_used",
        "rows_affected", "rows_examined", "rows_sent", "select_full_join", "select_full_range_join", "select_range",
        "select_range_check", "select_scan", "sort_merge_passes", "sort_range", "sort_rows", "sort_scan", "timer_wait",
        "warnings")},
    "file_instances_total": {"file_name", "event_name", "mode"}, "file_instances_bytes": {"file_name", "event_name", "mode"},
}  # fmt: skip


@contextmanager
def exporter(folder: Path, top: int = 250, compat: bool = False) -> Iterator[Exporter]:
    made = Exporter(all_processes(str(folder)), top, compat)
    yield made
    made.close()


def series(text: str, prefix: str = "pfs_") -> Series:
    """Returns the numbers of a text by their names and labels. Each series is there once."""
    found: Series = {}
    for family in parsed(text):
        for sample in family.samples:
            key = (sample.name.removeprefix(prefix), *sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def now(made: Exporter) -> Series:
    return series(text_of(made.metrics()))


def plain(metrics: list[Metric]) -> Series:
    """Returns what the parser of Prometheus' older format reads."""
    return {(s.name, *s.labels.items()): s.value for family in parsed_plain(text_of(metrics, False)) for s in family.samples}


def test_columns_add_up_over_processes() -> None:
    """Every column of a metric is a sum or a gauge by its declaration, and no label names a thread or a process."""
    for group in GROUPS:
        info = _core.table_info(group.table)
        rules = {column["name"]: column["across"] for column in info["columns"]}
        assert {rules[column] for column in group.columns} <= {"sum", "gauge"}, group.table
        assert not any(rules[column] == "local" for column in group.labels.values())
        assert not {"THREAD_ID", "OBJECT_INSTANCE_BEGIN", "FILE_NAME", "PID"} & set(group.labels.values())


@pytest.mark.parametrize("running", [True, False], ids=["running", "killed"])
def test_counts_lie_between_two_readings_of_the_tables(folder: Path, running: bool) -> None:
    with subject(folder) as program:
        program.do(WORK.format(n=1))
        program.send(LOOP)
        if not running:
            program.kill()
        with pfs.attach(str(program.path)) as schema:

            def counts() -> list[int]:
                waits = schema.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")
                files = schema.table("file_summary_by_event_name").set_index("EVENT_NAME")
                digests = schema.table("events_statements_summary_by_digest").set_index("DIGEST_TEXT")
                return [
                    int(waits["COUNT_STAR"]["wait/synch/mutex/app/LOCK"]),
                    int(files["SUM_NUMBER_OF_BYTES_WRITE"]["wait/io/file/app/data"]),
                    int(digests["COUNT_STAR"]["SELECT ?"]),
                ]

            for prefix, compat in (("pfs_", False), ("mysql_perf_schema_", True)):
                before = counts()
                found = series(pfs.metrics.text(str(program.path), compat=compat), prefix)
                after = counts()
                (digest,) = (
                    value
                    for key, value in found.items()
                    if key[0] == "events_statements_total" and ("digest_text", "SELECT ?") in key
                )
                for low, value, high in zip(before, (found[MUTEX], found[WRITTEN], digest), after, strict=True):
                    assert low <= value <= high
                    assert running or low == high
                # On a busy machine the program may not get its turn between two readings.
                until(lambda: not running or all(map(int.__lt__, before, counts())), "the program does not go on")  # noqa: B023


METERS = """
meter = pfs.register_meter("my.queue", documentation="The queue.")
meter.metric("done", unit="s", documentation="Time of jobs.")
meter.metric("depth", "gauge", unit="{{items}}", documentation="Items that wait.")
meter.metric("no_value", "updown")
seconds, depth = pfs.register_status("my.queue.done"), pfs.register_status("My.Queue.depth")
seconds.add({n})
depth.add(-{n})
"""


def test_metrics_of_the_programs_meters(folder: Path) -> None:
    """A row of setup_metrics is exported with the value of its status variable, while its meter is enabled."""
    with subject(folder) as a, subject(folder) as b, exporter(folder) as made:
        a.do(METERS.format(n=3))
        b.do(METERS.format(n=4))
        text = text_of(made.metrics())
        families = {family.name: family for family in parsed(text)}
        assert [families["my_queue_done_seconds"].type, families["my_queue_depth"].type] == ["counter", "gauge"]
        assert families["my_queue_done_seconds"].unit == "seconds"
        assert families["my_queue_depth"].documentation == "Items that wait."
        found = series(text)
        assert (found[("my_queue_done_seconds_total",)], found[("my_queue_depth",)]) == (7, -7)
        assert not any("no_value" in key[0] or key[0] == "program_status" for key in found)
        with pfs.attach(str(b.path), write=True) as schema:
            schema.setup_meters["my.queue"].enabled = False
        b.do("seconds.add(100)")
        a.do("seconds.add(10)")
        found = now(made)
        assert (found[("my_queue_done_seconds_total",)], found[("my_queue_depth",)]) == (17, -3)
        with exporter(folder, compat=True) as other:
            assert "my_queue" not in text_of(other.metrics())
        with subject(folder) as c:  # says that it is another kind of metric: the first process is right
            c.do(METERS.format(n=100).replace('"done"', '"done", "gauge"'))
            assert now(made)[("my_queue_done_seconds_total",)] == 17


def test_sums_are_those_of_merge(folder: Path) -> None:
    """All processes together, one of them killed, have the sums of pfs.Snapshot.merge."""
    with subject(folder) as a, subject(folder) as b, subject(folder) as c:
        for program, count in ((a, 3), (b, 5), (c, 7)):
            program.do(WORK.format(n=count))
        c.kill()
        with exporter(folder) as made:
            found = now(made)
        taken = []
        for program in (a, b, c):
            with pfs.attach(str(program.path)) as schema:
                taken.append(schema.snapshot())
    merged = pfs.Snapshot.merge(taken)
    assert found[MUTEX] == 15
    assert found[("processes", ("state", "alive"))] == 2
    assert found[("processes", ("state", "dead"))] == 1
    assert found[("program_status", ("variable", "Requests_done"))] == 8  # the dead one has no present
    assert found[("statements_duration_seconds_bucket", ("le", "+Inf"))] == 30
    compared = 0
    for group in GROUPS:
        for family in group.families:
            if any(number in group.gauges for number in map(group.columns.index, family.columns.values())):
                continue
            unit = 10**12 if family.name.endswith("_seconds") else 1
            for label, column in family.columns.items():
                frame = merged[group.table]
                wanted = sum(int(value) for value in frame[column].dropna().tolist())
                if label and family.without_index == label:
                    wanted = sum(int(value) for value in frame[column][frame["INDEX_NAME"].isna()].tolist())
                got = sum(
                    value
                    for key, value in found.items()
                    if key[0] == f"{family.name}_total" and (not label or (family.label, label) in key)
                )
                assert got == pytest.approx(wanted / unit, rel=1e-12), (family.name, label)
                compared += wanted > 0
    assert compared > 12


def is_mapped(path: Path) -> bool:
    return f"{path}\n" in Path("/proc/self/maps").read_text()


def test_no_counter_goes_down_when_processes_end(folder: Path) -> None:
    """A clean exit, a kill, pfs gc and a TRUNCATE leave all that was counted; what came after the last reading counts, too."""
    with subject(folder) as a, subject(folder) as b, subject(folder) as c, exporter(folder) as made:
        for program in (a, b, c):
            program.do(WORK.format(n=10))
        assert now(made)[MUTEX] == 30
        a.do(WORK.format(n=1))
        assert a.process.stdin is not None
        a.process.stdin.close()
        assert a.process.wait(60) == 0
        assert not a.path.exists()
        b.do(WORK.format(n=2))
        b.kill()
        assert now(made)[MUTEX] == 33
        assert is_mapped(c.path)
        assert not is_mapped(b.path)  # thousands of dead ones would fill the memory map
        assert len(pfs.gc(folder)) == 1
        assert now(made)[MUTEX] == 33
        with pfs.attach(str(c.path), write=True) as schema:
            schema.truncate("events_waits_summary_global_by_event_name")
            schema.truncate("events_statements_histogram_global")
        c.do(WORK.format(n=4))
        found = now(made)
        assert found[MUTEX] == 37
        assert found[WRITTEN] == 370
        assert found[("statements_duration_seconds_bucket", ("le", "+Inf"))] == 74
        with subject(folder) as d:
            d.do(WORK.format(n=5))
            assert now(made)[MUTEX] == 42
    assert found[("processes", ("state", "alive"))] == 1


def test_counts_that_fall() -> None:
    counts, ended = Counts(frozenset({1})), Sums()
    sums: list[dict[tuple[str, ...], list[int]]] = []
    for rows, is_dead in (({"a": [5, 9], "b": [1, 1]}, False), ({"a": [2, 3]}, False), ({"a": [1, 1], "b": [1, 4]}, True)):
        counts.add({(key,): values for key, values in rows.items()}, is_dead)
        sums.append(ended.with_all([(counts, True)]))
    assert sums == [
        {("a",): [5, 9], ("b",): [1, 1]},
        {("a",): [7, 3], ("b",): [1, 0]},
        {("a",): [7, 3], ("b",): [1, 4]},
    ]
    ended.take(counts)
    assert ended.rows == {("a",): [7, 0], ("b",): [1, 0]}


def test_compat_has_the_names_and_labels_of_mysqld_exporter(folder: Path) -> None:
    with subject(folder) as program:
        program.do(WORK.format(n=3))
        program.do(
            """
            orders = pfs.Table("shop.orders", ["by_day"])
            with orders.insert(): pass
            with orders.fetch("by_day"): pass
            """
        )
        plain = pfs.metrics.text(str(program.path))
        text = pfs.metrics.text(str(program.path), compat=True)
    found: dict[str, set[str]] = {}
    for family in parsed(text):
        for sample in family.samples:
            found.setdefault(sample.name, set(sample.labels))
            assert found[sample.name] == set(sample.labels)
    assert found.pop("mysql_up") == set()
    assert found.pop("mysql_global_status_performance_schema_lost_total") == {"instrumentation"}
    assert {name.removeprefix("mysql_perf_schema_"): labels for name, labels in found.items()} == (
        OF_MYSQLD_EXPORTER | OF_ITS_OTHER_COLLECTORS
    )
    assert not set(OF_ITS_OTHER_COLLECTORS) & {str(key[0]) for key in series(plain)}
    assert set(OF_MYSQLD_EXPORTER) <= {str(key[0]) for key in series(plain)}
    values = series(text, "mysql_perf_schema_")
    assert ("memory_events_used_bytes", ("event_name", "performance_schema/threads")) in values  # it removes "memory/"
    # The program's own statements have no schema. mysqld_exporter drops them.
    assert {dict(key[1:])["schema"] for key in values if key[0] == "events_statements_total"} == {"NONE", ":memory:"}
    with_index = {dict(key[1:])["operation"] for key in values if key[0] == "index_io_waits_total" and ("index", "by_day") in key}
    assert with_index == {"fetch", "update", "delete"}


def test_only_the_top_digests(folder: Path) -> None:
    with subject(folder) as program:
        program.do("for n in range(20):\n  with pfs.statement('app/query', f'SELECT a{n}'): os.sched_yield()")
        path = str(program.path)
        everything = series(pfs.metrics.text(path))
        few = series(pfs.metrics.text(path, top=3))
        none = series(pfs.metrics.text(path, top=0))
    times = {key: value for key, value in everything.items() if key[0] == "events_statements_seconds_total"}
    assert len(times) == 20
    top = {key for key, _ in sorted(times.items(), key=lambda item: -item[1])[:3]}
    assert {key for key in few if key[0] == "events_statements_seconds_total"} == top
    assert not any(key[0] == "events_statements_total" for key in none)
    assert few[("statements_total", ("event_name", "statement/app/query"))] == 20


def test_quantiles_of_a_digest_are_those_of_its_table(folder: Path) -> None:
    """Of two processes the longest one; of a process that has ended none."""

    def quantiles(values: Series) -> dict[str, float]:
        return {dict(key[1:])["quantile"]: value for key, value in values.items() if key[0].startswith("events_statements_quan")}

    with subject(folder) as one, exporter(folder) as made:
        for seconds_of, program in ((0.001, one), (0.02, one)):
            program.do(
                f"import time\nfor n in range(30):\n  with pfs.statement('app/query', 'SELECT 1'): time.sleep({seconds_of})"
            )
        expected = {}
        with pfs.attach(one.path) as schema:
            (row,) = schema.table("events_statements_summary_by_digest").to_dict("records")
            expected = {"0.95": row["QUANTILE_95"] / 1e12, "0.99": row["QUANTILE_99"] / 1e12}
        assert expected["0.95"] >= 0.02
        assert quantiles(now(made)) == pytest.approx(expected)
        with subject(folder) as other:
            other.do("for n in range(30):\n  with pfs.statement('app/query', 'SELECT 1'): pass")
            assert quantiles(now(made)) == pytest.approx(expected)
        assert quantiles(now(made)) == pytest.approx(expected)
        one.kill()
        assert quantiles(now(made)) == {}
        assert quantiles(series(pfs.metrics.text(one.path, top=0))) == {}


@settings(max_examples=50, deadline=None)
@given(
    st.text(st.characters(codec="utf-8"))
    | st.sampled_from(['"', "\\n", "\\", 'a"\n\\"b', "\udcff/x", "\x1b]0;x\x07", "\r\x9b2J"]),
    st.integers(0, 2**64),
)
def test_texts_and_numbers_survive_the_parsers(label: str, number: int) -> None:
    metric = Metric("x_seconds", "counter", 'With "quotes" and \\, two\nlines and an \x1b', "seconds")
    metric.add((("l", label),), seconds(number))
    shown = label.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = "".join(ascii(c)[1:-1] if unicodedata.category(c) == "Cc" and c not in "\t\n" else c for c in shown)
    for parse, is_open in ((parsed, True), (parsed_plain, False)):
        (family,) = parse(text_of([metric], is_open))
        (sample,) = family.samples
        assert (sample.name, sample.labels, sample.value) == ("x_seconds_total", {"l": shown}, float(seconds(number)))
        assert family.type == "counter"
        assert family.documentation == 'With "quotes" and \\, two\nlines and an \\x1b'
    whole, _, part = seconds(number).partition(".")
    assert int(whole) * 10**12 + int(part.ljust(12, "0")) == number


def test_both_formats_have_the_same_numbers(folder: Path) -> None:
    with subject(folder) as program:
        program.do(WORK.format(n=3))
        with exporter(folder) as made:
            metrics = made.metrics()
    assert plain(metrics) == series(text_of(metrics), prefix="")
    kinds = {family.name: family.type for family in parsed_plain(text_of(metrics, False))}
    assert kinds["pfs_events_waits"] == "counter"
    assert kinds["pfs_statements_duration_seconds"] == "histogram"
    assert kinds["pfs_memory_events_used_bytes"] == "gauge"


def test_collector_for_a_registry(folder: Path) -> None:
    registry = CollectorRegistry()
    registry.register(pfs.metrics.Collector())
    with subject(folder) as program:
        program.do(WORK.format(n=6))
        assert registry.get_sample_value("pfs_events_waits_total", {"event_name": "wait/synch/mutex/app/LOCK"}) == 6
        program.do(WORK.format(n=6))
        assert b'pfs_events_waits_total{event_name="wait/synch/mutex/app/LOCK"} 12.0' in generate_latest(registry)


def test_unknown_processes_are_errors(folder: Path) -> None:
    with pytest.raises(pfs.AttachError):
        pfs.metrics.text(2**22 - 1)
    with exporter(folder) as made:
        assert now(made) == {("processes", ("state", "alive")): 0}
        (folder / "1.pfs").write_bytes(b"nothing" * 1000)
        assert now(made) == {("processes", ("state", "alive")): 0}


def test_addresses() -> None:
    assert address_of("127.0.0.1:9404") == ("127.0.0.1", 9404)
    assert address_of("[::1]:0") == ("::1", 0)
    for bad in ("9404", ":9404", "localhost", "localhost:http", "localhost:65536"):
        with pytest.raises(pfs.InvalidValue, match=r"legal is HOST:PORT"):
            address_of(bad)


# ---- The command


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "pfs", "metrics", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str, status: int = 0) -> str:
    with command(*arguments) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == status, err
    return out if status == 0 else err


@contextmanager
def listening(*arguments: str, scheme: str = "http") -> Iterator[tuple[str, int]]:
    with command("--listen", "127.0.0.1:0", *arguments) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[-1]
        assert url.startswith(f"{scheme}://127.0.0.1:")
        try:
            yield url, int(url.split(":")[2].partition("/")[0])
        finally:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")


def fetched(url: str, accept: str = "*/*", method: str = "GET") -> tuple[str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_command_prints_once(folder: Path) -> None:
    with subject(folder) as program:
        program.do(WORK.format(n=2))
        assert series(run())[MUTEX] == 2
        assert series(run(str(program.pid)))[MUTEX] == 2
        assert series(run("--compat", "--dir", str(folder)), "mysql_perf_schema_")[MUTEX] == 2
        assert "HOST:PORT" in run("--listen", "9404", status=1)
    assert "one of --listen and --textfile" in run("--listen", "127.0.0.1:0", "--textfile", "x", status=2)
    assert "needs --textfile" in run("--interval", "1", status=2)
    assert "leave PID away" in run("1", "--all-users", status=2)


def test_scrapes_over_http(folder: Path) -> None:
    with subject(folder) as program, listening() as (url, _):
        program.do(WORK.format(n=2))
        kind, text = fetched(url, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert series(text)[MUTEX] == 2
        program.do(WORK.format(n=2))
        program.kill()
        kind, text = fetched(url)
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        values = {(s.name, *s.labels.items()): s.value for family in parsed_plain(text) for s in family.samples}
        assert values[("pfs_" + str(MUTEX[0]), *MUTEX[1:])] == 4
        assert fetched(url, method="HEAD")[1] == ""
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            fetched(url + "/etc/passwd")
        refused.value.close()
        with pytest.raises(urllib.error.HTTPError, match="501") as refused:
            fetched(url, method="DELETE")
        refused.value.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    made = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    new = [
        "openssl",
        "req",
        "-x509",
        "-nodes",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*new, "-addext", "subjectAltName=IP:127.0.0.1", "-out", made[0], "-keyout", made[1]], check=True)
    return made


def test_scrapes_over_tls_with_a_password(folder: Path, tmp_path: Path, certificate: tuple[str, str]) -> None:
    """A client that says nothing, or no TLS, holds nobody up."""
    secret = tmp_path / "password"
    secret.write_text("geh:eim\n")
    secret.chmod(0o600)
    options = ("--tls-cert", certificate[0], "--tls-key", certificate[1], "--password-file", str(secret))
    with subject(folder) as program, listening(*options, scheme="https") as (url, port):
        program.do(WORK.format(n=2))
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        silent[0].sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        trusts = ssl.create_default_context(cafile=certificate[0])

        def get(path: str, user: str = "") -> str:
            headers = {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()} if user else {}
            request = urllib.request.Request(url.removesuffix("/metrics") + path, headers=headers)
            with urllib.request.urlopen(request, timeout=60, context=trusts) as answer:
                return str(answer.read().decode())

        assert get("/-/healthy") == "pfs metrics is up\n"
        assert "app/LOCK" in get("/metrics", "pfs:geh:eim")
        for user in ("", "pfs:geh:ei", "pfs:", "root:geh:eim"):
            with pytest.raises(urllib.error.HTTPError, match="401") as refused:
                get("/metrics", user)
            assert refused.value.headers["WWW-Authenticate"] == 'Basic realm="pfs metrics"'
            assert b"app/LOCK" not in refused.value.read()
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(url, timeout=60)
        for client in silent:
            client.close()
    with subject(folder), listening() as (url, _):
        assert fetched(url.removesuffix("metrics") + "-/healthy")[1] == "pfs metrics is up\n"


def test_bad_files_of_tls_and_password(folder: Path, tmp_path: Path, certificate: tuple[str, str]) -> None:
    secret = tmp_path / "password"
    secret.write_text("x\n")
    listen = ("--listen", "127.0.0.1:0")
    assert "can be read by others" in run(*listen, "--password-file", str(secret), status=1)
    assert "need --listen" in run("--password-file", str(secret), status=2)
    assert "both of --tls-cert and --tls-key" in run(*listen, "--tls-cert", certificate[0], status=2)
    assert "legal are a certificate and its key" in run(*listen, "--tls-cert", str(secret), "--tls-key", certificate[1], status=1)
    assert "No such file or directory" in run(*listen, "--tls-cert", certificate[0], "--tls-key", "/none", status=1)


def test_slow_and_broken_clients_stop_nobody(folder: Path) -> None:
    """Clients that send nothing, half a request, rubbish, or close at once. The scrape of another one is answered meanwhile."""
    with subject(folder) as program, listening() as (url, port):
        program.do(WORK.format(n=2))
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        for number, client in enumerate(slow):
            if number % 2:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        begin = time.monotonic()
        assert "app/LOCK" in fetched(url)[1]
        assert time.monotonic() - begin < 4  # they are hung up on after 5 s
        for rubbish in (
            b"\x16\x03\x01" * 1000,
            b"GET " + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
            b"\0" * 10,
            b"GET /metrics HTTP/1.1\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(rubbish)
        for client in slow:
            client.settimeout(30)
            assert client.recv(1) == b""  # hung up on
            client.close()
        assert "app/LOCK" in fetched(url)[1]
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        for client in crowd:
            client.close()
        results: list[str] = []
        readers = [threading.Thread(target=lambda: results.append(fetched(url)[1])) for _ in range(8)]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:  # the crowd has to go first
            try:
                fetched(url)
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert len(results) == 8


def test_a_signal_inside_a_destructor_ends_the_command(fresh: Run) -> None:
    """Python prints and drops an exception that a handler raises there. A function that it calls is in the destructor, too."""
    out = fresh("""
        import os, signal, sys
        from pfs._ui.cli.stopping import Stop
        sys.unraisablehook = lambda dropped: print("dropped", dropped.exc_type.__name__)
        class Signals:
            def __del__(self):
                self.close()
            def close(self):
                os.kill(os.getpid(), signal.SIGTERM)
        stop = Stop()
        Signals()
        try:
            stop.sleep(60)
        except KeyboardInterrupt:
            print("ended")
    """)
    assert out.split("\n") == ["ended", ""]


def test_textfile_is_replaced_as_a_whole(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "pfs.prom"
    target.parent.mkdir()
    with subject(folder) as program:
        program.do(WORK.format(n=2))
        assert run("--textfile", str(target)) == ""
        assert os.listdir(target.parent) == ["pfs.prom"]
        first = target.stat().st_ino
        assert list(parsed_plain(target.read_text()))
        with command("--textfile", str(target), "--interval", "0.1") as process:
            deadline = time.monotonic() + 60
            seen: set[int] = set()
            while len(seen) < 3 and time.monotonic() < deadline:
                text = target.read_text()  # whole at each moment
                assert text.endswith('pfs_processes{state="alive"} 1\n')
                seen.add(target.stat().st_ino)
            program.kill()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert len(seen - {first}) >= 2
        assert os.listdir(target.parent) == ["pfs.prom"]
    assert "No such file" in run("--textfile", str(tmp_path / "nowhere" / "x.prom"), status=1)


def test_metrics_need_no_pandas(folder: Path) -> None:
    heavy = {"pandas", "numpy", "http.server", "prometheus_client"}
    code = f"import sys, pfs.metrics; pfs.metrics.text(); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=clean_environment(folder), capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
