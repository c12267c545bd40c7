"""pfs otel: protobuf decodes its spans, which are those of the tables; ids repeat; a receiver gets each event once, or later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.proto", reason="needs the packages of perfschema[test]")
pytest.importorskip("opentelemetry.semconv", reason="needs the packages of perfschema[test]")

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.semconv._incubating.attributes import code_attributes as code
from opentelemetry.semconv._incubating.attributes import db_attributes as db
from opentelemetry.semconv._incubating.attributes import error_attributes as error
from opentelemetry.semconv._incubating.attributes import host_attributes as host
from opentelemetry.semconv._incubating.attributes import process_attributes as process
from opentelemetry.semconv._incubating.attributes import service_attributes as service
from opentelemetry.semconv._incubating.attributes import thread_attributes as thread
from opentelemetry.semconv.attributes import code_attributes as code_stable
from opentelemetry.semconv.attributes import db_attributes as db_stable
from opentelemetry.semconv.attributes import error_attributes as error_stable
from opentelemetry.semconv.attributes import service_attributes as service_stable

import pfs
import pfs.otel
from pfs._export.metrics.metric import Metric
from pfs._export.otel import traceparent
from pfs._export.otel.attributes import key_values
from pfs._export.otel.metrics import message_of
from pfs._export.otel.output import Endpoint, Outbox, Refused, line_of
from tests.python._programs.subject import Subject, clean_environment, subject

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = PARENT.split("-")[1:3]
WORK = """
import sqlite3, time
lock = pfs.Lock("app/LOCK")
db = pfs.dbapi(sqlite3).connect(":memory:")
for number in range({n}):
    with pfs.statement("app/job"), pfs.stage("app/step"):
        db.execute("select 'secret', %d" % number).fetchall()
        with pfs.wait("app/long"): time.sleep(0.05)
        with lock: pass
        with pfs.wait("app/around"), pfs.statement("app/inner"): pass
"""
JOINED = f"""
with pfs.transaction():
    with pfs.statement("app/joined", "GET /x /*a='b',traceparent='{PARENT}'*/"), pfs.stage("app/step"): pass
"""
KINDS = ("waits", "stages", "statements", "transactions")


def attributes(part: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in part.attributes}


def spans(requests: list[ExportTraceServiceRequest]) -> list[Any]:
    """Returns the spans after a way through bytes."""
    decoded = [ExportTraceServiceRequest.FromString(request.SerializeToString()) for request in requests]
    return [
        span for each in decoded for resource in each.resource_spans for scope in resource.scope_spans for span in scope.spans
    ]


def once(source: int | str, **options: Any) -> tuple[list[Any], pfs.otel.Counts]:
    exporter = pfs.otel.exporter(source, **options)
    try:
        return spans(exporter.traces()), exporter.counts
    finally:
        exporter.close()


def ended(source: int | str) -> dict[tuple[int, int], Any]:
    """Returns the rows of all histories by THREAD_ID and EVENT_ID."""
    found: dict[Any, Any] = {}
    with pfs.attach(source) as schema:
        for kind in KINDS:
            for row in schema.table(f"events_{kind}_history_long").itertuples():
                found[row.THREAD_ID, row.EVENT_ID] = row
    return found


def key(span: Any) -> tuple[int, int]:
    values = attributes(span)
    return values["thread.id"], values["pfs.event_id"]


def assert_parents(found: list[Any]) -> int:
    """Asserts that each parent is there, or that the span says why it is not. Returns how many are there."""
    ids = {span.span_id: span for span in found}
    assert len(ids) == len(found)
    there = 0
    for span in found:
        if span.parent_span_id and span.parent_span_id.hex() != SPAN:
            parent, why = ids.get(span.parent_span_id), attributes(span).get("pfs.parent")
            assert (parent is None) == (why == "running"), span
            if parent is not None:
                there += 1
                assert parent.trace_id == span.trace_id
                assert parent.start_time_unix_nano <= span.start_time_unix_nano
                assert span.end_time_unix_nano <= parent.end_time_unix_nano + 1
    return there


class _Receiver(ThreadingHTTPServer):
    def __init__(self, port: int = 0) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.answer = b""
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/x-protobuf"
        if self.server.status == 200:
            self.server.headers.append(dict(self.headers))
            if self.path == "/v1/traces":
                self.server.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                self.server.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def receiver(port: int = 0) -> Iterator[_Receiver]:
    with _Receiver(port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Subject]:
    with subject(tmp_path) as made:
        made.do(WORK.format(n=5))
        yield made


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pfs", "otel", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def test_spans_are_the_events_of_the_tables(worker: Subject) -> None:
    found, counts = once(str(worker.path), min_wait=0)
    rows = ended(str(worker.path))
    assert {key(span) for span in found} == set(rows)
    assert counts.spans == len(found) >= 5 * 7
    assert (counts.missing, counts.untimed, counts.parents_missing) == (0, 0, 0)
    with pfs.attach(str(worker.path)) as schema:
        began = schema._source.identity.started * 1000
    for span in found:
        row, values = rows[key(span)], attributes(span)
        assert span.end_time_unix_nano - span.start_time_unix_nano == row.TIMER_WAIT // 1000
        assert span.start_time_unix_nano == began + row.TIMER_START // 1000
        assert values["pfs.timer_wait"] == row.TIMER_WAIT
        assert f"{values['code.file.path']}:{values['code.line.number']}" == row.SOURCE
    assert assert_parents(found) >= 5 * 5
    assert abs(found[-1].end_time_unix_nano - time.time_ns()) < 60 * 10**9


def test_short_waits_are_left_out(worker: Subject) -> None:
    found, _ = once(str(worker.path), min_wait="25ms")
    names = [span.name for span in found]
    assert names.count("wait/app/app/long") == 5 == names.count("statement/app/inner")
    assert "wait/app/app/around" not in names
    assert "wait/synch/mutex/app/LOCK" not in names
    assert assert_parents(found) == 5 * 4  # of the loop's step, SELECT, long wait and inner statement


def test_a_parent_without_a_time_is_left_out(worker: Subject) -> None:
    """The parent is then the nearest event around it that is a span."""
    worker.do(
        "pfs.setup_instruments.update('stage/app/step', timed=False)\n"
        "with pfs.statement('app/outer'), pfs.stage('app/step'), pfs.statement('app/deep'): pass"
    )
    found, counts = once(str(worker.path))
    spans_of = {span.name: span for span in found}
    assert counts.untimed == 1
    assert spans_of["statement/app/deep"].parent_span_id == spans_of["statement/app/outer"].span_id
    assert_parents(found)


def test_ids_repeat_and_no_two_events_share_one(worker: Subject) -> None:
    first, second = once(str(worker.path))[0], once(str(worker.path))[0]
    assert first == second
    worker.do("with pfs.statement('app/job'): pass")
    third = once(str(worker.path))[0]
    assert third[: len(first)] == first
    assert len(third) == len(first) + 1
    worker.kill()
    assert [span.span_id for span in once(str(worker.path))[0]][: len(first)] == [span.span_id for span in first]


def test_other_processes_have_other_ids(tmp_path: Path) -> None:
    seen: set[bytes] = set()
    for number in range(2):
        with subject(tmp_path / str(number)) as other:
            other.do(WORK.format(n=2))
            ids = {span.span_id for span in once(str(other.path))[0]}
            assert ids
            assert not ids & seen
            seen |= ids


def test_attributes_are_those_of_the_conventions(worker: Subject) -> None:
    """Each name without pfs. is in OpenTelemetry's own package; literals are there only on demand."""
    modules = (code, db, error, host, process, service, thread, code_stable, db_stable, error_stable, service_stable)
    known = {value for module in modules for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}
    worker.do("try: db.execute('select nonsense from')\nexcept Exception: pass")
    exporter = pfs.otel.exporter(str(worker.path), service="shop")
    requests = exporter.traces()
    exporter.close()
    found = spans(requests)
    names = {name for span in found for name in attributes(span)}
    resource = attributes(requests[0].resource_spans[0].resource)
    assert {name for name in names | set(resource) if not name.startswith("pfs.")} <= known
    assert resource["service.name"] == "shop"
    assert resource["process.pid"] == worker.pid
    select = next(span for span in found if attributes(span)["pfs.event_name"] == "statement/sql/select")
    values = attributes(select)
    assert values["db.operation.name"] == "SELECT"
    assert "secret" not in values["db.query.text"]
    assert values["db.response.returned_rows"] == 1
    assert values["thread.name"] == "thread/python/MainThread"
    failed = [span for span in found if span.status.code == 2]
    assert len(failed) == 1
    assert attributes(failed[0])["error.type"] == "1"
    assert failed[0].status.message
    full = once(str(worker.path), sql_text=True)[0]
    assert any("secret" in str(attributes(span).get("db.query.text")) for span in full)


def test_traceparent_joins_the_trace_of_the_program(worker: Subject) -> None:
    worker.do(JOINED)
    found = once(str(worker.path))[0]
    joined = next(span for span in found if span.name == "statement/app/joined")
    assert (joined.trace_id.hex(), joined.parent_span_id.hex()) == (TRACE, SPAN)
    stage = next(span for span in found if span.parent_span_id == joined.span_id)
    assert stage.trace_id == joined.trace_id
    transaction = next(span for span in found if span.name == "transaction")
    assert transaction.trace_id != joined.trace_id
    assert [link.span_id for link in joined.links] == [transaction.span_id]
    assert sum(span.trace_id.hex() == TRACE for span in found) == 2
    assert_parents(found)


def test_a_traceparent_that_was_set_joins_and_wins(worker: Subject) -> None:
    """The program sets the caller's span; the text stays, and a comment in it does not count."""
    worker.do(
        f"""
        with pfs.statement("app/set", "select 1 /*traceparent='{PARENT.replace(TRACE, "f" * 32)}'*/", traceparent="{PARENT}"):
            with pfs.stage("app/inside"): pass
        with pfs.statement("app/after"): pass
        """
    )
    found = once(str(worker.path), sql_text=True)[0]
    joined = next(span for span in found if span.name == "statement/app/set")
    assert (joined.trace_id.hex(), joined.parent_span_id.hex()) == (TRACE, SPAN)
    assert "f" * 32 in str(attributes(joined)["pfs.text"])
    assert "pfs.traceparent" not in attributes(joined)
    assert {span.name for span in found if span.trace_id.hex() == TRACE} == {"statement/app/set", "stage/app/inside"}
    assert_parents(found)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (f"select 1 /*traceparent='{PARENT}'*/", True),
        (f"select 1 /* app='x', traceparent=\"{PARENT}\" */ from t", True),
        (f"select 1 /*traceparent='{PARENT.replace('-', '%2D')}'*/", True),
        (f"select 1 /*traceparent='cc{PARENT[2:]}-more'*/", True),  # of a later version
        (f"select 'traceparent={PARENT}'", False),  # no comment
        (f"select 1 /*xtraceparent='{PARENT}'*/", False),
        (f"select 1 /*traceparent='ff{PARENT[2:]}'*/", False),
        (f"select 1 /*traceparent='{PARENT}-more'*/", False),
        (f"select 1 /*traceparent='{PARENT.upper()}'*/", False),
        (f"select 1 /*traceparent='{PARENT[:-3]}'*/", False),
        ("select 1 /*traceparent='00-" + "0" * 32 + "-b7ad6b7169203331-01'*/", False),
        (f"select 1 /*traceparent='{PARENT}'", False),  # cut off
        (None, False),
    ],
)
def test_traceparents(text: str | None, is_one: bool) -> None:
    assert traceparent.of_statement(None, text) == ((bytes.fromhex(TRACE), bytes.fromhex(SPAN), 1) if is_one else None)


@given(st.text())
def test_no_text_breaks_the_search_for_a_traceparent(text: str) -> None:
    traceparent.of_statement(None, f"/*traceparent={text}*/ /*{text} traceparent='{text}")


def test_a_parent_that_was_overwritten_is_said(tmp_path: Path) -> None:
    """A ring of 10 statements, and stages that outlive theirs."""
    with subject(tmp_path, PFS_OPTIONS="performance_schema_events_statements_history_long_size=10,"
                 "performance_schema_events_statements_history_size=1") as small:  # fmt: skip
        exporter = pfs.otel.exporter(str(small.path))
        small.do("for number in range(100):\n  with pfs.statement('app/job'), pfs.stage('app/step'): pass")
        found = spans(exporter.traces())
        exporter.close()
        counts = exporter.counts
        kinds = [span.name for span in found]
        assert kinds.count("stage/app/step") == 100
        lost = 100 - kinds.count("statement/app/job")
        assert 80 <= lost < 100
        assert counts.missing == counts.parents_missing == lost
        orphans = [span for span in found if attributes(span).get("pfs.parent") == "missing"]
        assert len(orphans) == lost
        assert not any(span.parent_span_id for span in orphans)
        assert_parents(found)


def test_each_event_comes_once_also_when_it_ends_later(worker: Subject) -> None:
    exporter = pfs.otel.exporter(str(worker.path))
    first = spans(exporter.traces())
    assert spans(exporter.traces()) == []
    worker.do("job = pfs.statement('app/job', 'x'); job.__enter__()\nwith pfs.stage('app/step'): pass")
    stage = spans(exporter.traces())
    assert [attributes(span).get("pfs.parent") for span in stage] == ["running"]
    worker.do("job.__exit__(None, None, None)")
    job = spans(exporter.traces())
    assert [span.span_id for span in job] == [stage[0].parent_span_id]
    assert job[0].trace_id == stage[0].trace_id
    worker.do("pfs.truncate('events_statements_history_long'); pfs.truncate('events_statements_history')")
    assert spans(exporter.traces()) == []
    worker.do("with pfs.statement('app/job'): pass")
    assert len(spans(exporter.traces())) == 1
    assert exporter.counts.spans == len(first) + 3
    assert exporter.counts.missing == 0
    exporter.close()


def test_nothing_is_lost_or_doubled_under_load(worker: Subject) -> None:
    """A program of two threads; each span comes once, and spans and missing events are all events that it counted.

    History_long has fewer rows than that. The threads live until all is read: with a thread goes the number of its last event.
    """
    worker.do(
        "import threading\nmeeting = threading.Barrier(3)\ndef work():\n  for number in range(3000):\n"
        "    with pfs.statement('app/load'): pass\n  meeting.wait(); meeting.wait()\n"
        "threads = [threading.Thread(target=work) for _ in range(2)]"
    )
    exporter = pfs.otel.exporter(str(worker.path))
    exporter.traces()
    before = exporter.counts.missing
    worker.send("[t.start() for t in threads]; meeting.wait()")
    found: list[Any] = []
    while not worker.is_done(0.01):
        found += spans(exporter.traces())
    found += spans(exporter.traces())
    exporter.close()
    worker.do("meeting.wait(); [t.join() for t in threads]")
    assert len({span.span_id for span in found}) == len(found)
    assert len(found) + exporter.counts.missing - before == 6000
    assert len(found) > 1000


def test_a_dead_process_is_read_once_with_what_it_did_last(worker: Subject) -> None:
    worker.do("job = pfs.statement('app/last'); job.__enter__()\nwith pfs.stage('app/step'): pass")
    worker.kill()
    exporter = pfs.otel.exporter(str(worker.path))
    found = spans(exporter.traces())
    assert spans(exporter.traces()) == []
    assert str(worker.path) not in Path("/proc/self/maps").read_text()
    exporter.close()
    last = next(span for span in found if span.name == "statement/app/last")
    assert attributes(last)["pfs.unfinished"]
    assert last.end_time_unix_nano >= last.start_time_unix_nano
    assert_parents(found)
    assert found == once(str(worker.path))[0]


def test_metrics_are_the_sums_of_the_tables(worker: Subject) -> None:
    exporter = pfs.otel.exporter(str(worker.path))
    exporter.traces()
    request = ExportMetricsServiceRequest.FromString(exporter.metrics().SerializeToString())
    exporter.close()
    (resource,) = request.resource_metrics
    assert attributes(resource.resource)["process.pid"] == worker.pid
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    waits = metrics["pfs_events_waits"].sum
    assert (waits.is_monotonic, waits.aggregation_temporality) == (True, 2)
    numbers = {attributes(point)["event_name"]: point for point in waits.data_points}
    assert numbers["wait/synch/mutex/app/LOCK"].as_int == 5
    with pfs.attach(str(worker.path)) as schema:
        assert {point.start_time_unix_nano for point in waits.data_points} == {schema._source.identity.started * 1000}
        statements = int(schema.table("events_statements_summary_global_by_event_name")["COUNT_STAR"].sum())
    assert metrics["pfs_events_waits_seconds"].unit == "s"
    (histogram,) = metrics["pfs_statements_duration_seconds"].histogram.data_points
    assert histogram.count == sum(histogram.bucket_counts) == statements == 15
    assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1
    assert list(histogram.explicit_bounds) == sorted(histogram.explicit_bounds)
    assert metrics["pfs_processes"].WhichOneof("data") == "gauge"
    missed = metrics["pfs_otel_events_missed"].gauge.data_points
    assert {attributes(point)["reason"] for point in missed} == {"missing", "untimed"}


def test_numbers_beyond_int64_and_bytes_that_are_no_text() -> None:
    metric = Metric("big", "counter", "Big.")
    metric.add((("name", "\udcff"),), str(2**64 - 1))
    made = message_of([metric], type(message_of([], None, "", 0, 0).resource)(), "", 1, 2)  # type: ignore[arg-type]
    assert made.scope_metrics[0].metrics[0].sum.data_points[0].as_double == 2.0**64
    assert [each.value.int_value for each in key_values({"a": 2**64 - 1})] == [2**63 - 1]


def test_spans_of_texts_that_are_no_utf_8(folder: Path) -> None:
    """Names of schemas and messages of errors are the program's."""
    work = """
try:
    with pfs.statement("sql/select", text="select 1", schema="caf\\udce9"): raise ValueError("caf\\udce9 is missing")
except ValueError: pass
"""
    with subject(folder) as program:
        program.do(work)
        (span,) = once(str(program.path), sql_text=True)[0]
    assert span.name == "SELECT caf\\xe9"
    assert span.status.message == "ValueError: caf\\xe9 is missing"
    assert attributes(span)["db.namespace"] == "caf\\xe9"


def test_a_receiver_gets_what_the_tables_hold(worker: Subject) -> None:
    with receiver() as server:
        done = run(str(worker.path), "--endpoint", server.url + "/", OTEL_EXPORTER_OTLP_HEADERS="x-key=a%20b")
        assert done.returncode == 0, done.stderr
        assert spans(server.traces) == once(str(worker.path))[0]
        assert f"{len(spans(server.traces))} spans" in done.stderr
        assert len(server.metrics) == 1
        assert server.headers[0]["x-key"] == "a b"


def test_variables_of_opentelemetry_name_the_service_and_its_place(worker: Subject) -> None:
    """As the SDKs read them; an address may be that of the traces."""
    variables = {"OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=shop-1,service.name=lost,team=a%2Cb", "OTEL_SERVICE_NAME": "shop"}
    with receiver() as server:
        done = run(str(worker.path), "--endpoint", server.url + "/v1/traces", **variables)
        assert done.returncode == 0, done.stderr
        for message in (server.traces[0].resource_spans[0], server.metrics[0].resource_metrics[0]):
            found = {pair.key: pair.value.string_value for pair in message.resource.attributes}
            assert (found["service.name"], found["k8s.pod.name"], found["team"]) == ("shop", "shop-1", "a,b")
        done = run(str(worker.path), "-o", "-", "--only", "metrics", OTEL_RESOURCE_ATTRIBUTES="service.name=other")
        assert '{"key":"service.name","value":{"stringValue":"other"}}' in done.stdout
    refused = run(str(worker.path), "-o", "-", OTEL_RESOURCE_ATTRIBUTES="team")
    assert refused.stderr == "pfs: bad value of OTEL_RESOURCE_ATTRIBUTES: legal is name=value,...\n"


def test_idle_time_is_no_span(folder: Path) -> None:
    with subject(folder) as program:
        program.do("with pfs.statement('app/query', 'x'), pfs.idle(): pass")
        with pfs.attach(program.path) as schema:
            assert "idle" in set(schema.table("events_waits_history_long")["EVENT_NAME"])
        assert {span.name for span in once(str(program.path), min_wait=0)[0]} == {"statement/app/query"}


def test_lines_of_json(worker: Subject, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    for _ in range(2):
        assert run(str(worker.path), "--output", str(path), "--only", "spans").returncode == 0
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert first == second
    found = once(str(worker.path))[0]
    lines = first["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [line["spanId"] for line in lines] == [span.span_id.hex() for span in found]
    assert [line["traceId"] for line in lines] == [span.trace_id.hex() for span in found]
    assert lines[0]["kind"] in (1, 3)
    assert "\n" not in line_of(ExportTraceServiceRequest())


def test_a_receiver_that_is_down_loses_nothing(worker: Subject) -> None:
    """Spans wait until the receiver is there again: at first nobody listens, then it answers 503."""
    with receiver() as free:
        port = int(free.server_address[1])
    url = f"http://127.0.0.1:{port}"
    done = run(str(worker.path), "--endpoint", url)
    assert done.returncode == 1
    assert f"pfs: cannot send to {url}/v1/traces" in done.stderr
    assert "refused" in done.stderr
    program = subprocess.Popen(
        [sys.executable, "-m", "pfs", "otel", str(worker.path), "--endpoint", url, "--interval", "0.1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    assert "spans wait" in program.stderr.readline()
    with receiver(port) as server:
        server.status = 503
        worker.do("with pfs.statement('app/job'): pass")
        while "503" not in program.stderr.readline():
            pass
        server.status = 200
        expected = {span.span_id for span in once(str(worker.path))[0]}
        deadline = time.monotonic() + 30
        while {span.span_id for span in spans(server.traces)} != expected and time.monotonic() < deadline:
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=30)
        assert program.returncode == 0
        assert sorted(span.span_id for span in spans(server.traces)) == sorted(expected)


def test_what_a_receiver_refuses_is_said_and_does_not_block(worker: Subject) -> None:
    with receiver() as server:
        outbox = Outbox(Endpoint(server.url))
        exporter = pfs.otel.exporter(str(worker.path))
        requests = exporter.traces()
        count = len(spans(requests))
        exporter.close()
        server.status = 400
        outbox.put(*requests)
        with pytest.raises(Refused, match="400"):
            outbox.send()
        assert (outbox.waiting, outbox.dropped) == (0, count)
        server.status = 200
        part = ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
        server.answer = ExportTraceServiceResponse(partial_success=part).SerializeToString()
        outbox.put(*requests)
        with pytest.raises(Refused, match="refused 2 spans: too old"):
            outbox.send()


def test_beyond_the_bound_the_oldest_spans_are_dropped_and_counted(worker: Subject) -> None:
    with receiver() as free:
        url = free.url
    exporter = pfs.otel.exporter(str(worker.path))
    requests = exporter.traces()
    count = len(spans(requests))
    outbox = Outbox(Endpoint(url), most=2 * count)
    for number in range(5):
        if number == 4:
            worker.do("with pfs.statement('app/newest'): pass")
            requests = exporter.traces()
        outbox.put(*requests)
        assert outbox.waiting + outbox.dropped == min(number + 1, 4) * count + (number == 4)
    exporter.close()
    with pytest.raises(pfs.Error, match="cannot send"):
        outbox.send()
    assert (outbox.waiting, outbox.dropped) == (count + 1, 3 * count)
    with receiver(int(url.rpartition(":")[2])) as server:
        outbox.send()
        assert [span.name for span in spans(server.traces)][-1] == "statement/app/newest"
        assert len(spans(server.traces)) == count + 1
    assert (outbox.waiting, outbox.dropped) == (0, 3 * count)


def on_cpu(process: Subject) -> dict[str, str]:
    """Returns the nanoseconds and turns that each thread of a process has had on a processor."""
    return {task.name: (task / "schedstat").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir()}


def test_the_program_does_not_run_while_it_is_read(worker: Subject) -> None:
    """A thread that was not on a processor made no system call. The bytes of its segment stay as they are."""
    before: dict[str, str] = {}
    while on_cpu(worker) != before:  # until it waits for its next line
        before = on_cpu(worker)
        time.sleep(0.1)
    segment = worker.path.read_bytes()
    assert once(str(worker.path))[0]
    exporter = pfs.otel.exporter(str(worker.path))
    for _ in range(20):
        exporter.traces()
        exporter.metrics()
    exporter.close()
    assert on_cpu(worker) == before
    assert worker.path.read_bytes() == segment
    worker.do("with pfs.statement('app/job'): pass")
    assert on_cpu(worker) != before
    assert worker.path.read_bytes() != segment


def test_without_the_extra_it_says_how_to_install_it(worker: Subject) -> None:
    for name in ("opentelemetry", "urllib3"):
        code = f"import sys; sys.modules[{name!r}] = None; from pfs._ui.cli.commands import main; sys.exit(main())"
        arguments = [sys.executable, "-c", code, "otel", str(worker.path), "-o", "-"]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert done.stderr == "pfs: pfs.otel needs opentelemetry-proto and urllib3: pip install 'perfschema[otel]'\n"
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give a process, or --all"),
        (["--all", "1"], "Give a process, or --all"),
        (["--all"], "Give one of --endpoint and --output"),
        (["--all", "-o", "-", "--once", "--interval", "1"], "Give one of --once and --interval"),
        (["--all", "--endpoint", "ftp://x"], "bad value 'ftp://x' for an endpoint: legal is a URL"),
        (["--all", "--endpoint", "127.0.0.1:4318"], "for an endpoint: legal is a URL"),
        (["--all", "-o", "-", "--min-wait", "-1"], "--min-wait"),
        (["--all", "-o", "-", "--interval", "0"], "--interval"),
        (["--all", "-o", "/nowhere/x"], "/nowhere/x"),
        (["/nowhere/1.pfs", "-o", "-"], "/nowhere/1.pfs"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pfs", "otel", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(tmp_path))
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_headers_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "secret")
    with pytest.raises(pfs.InvalidValue, match="OTEL_EXPORTER_OTLP_HEADERS") as error:
        Endpoint("http://127.0.0.1:4318")
    assert "secret" not in str(error.value)


def test_all_processes_of_a_folder_also_those_that_end(tmp_path: Path) -> None:
    exporter = pfs.otel.exporter(path=str(tmp_path))
    found: list[Any] = []
    with subject(tmp_path) as one, subject(tmp_path) as two:
        for each in (one, two):
            each.do(WORK.format(n=1))
        found += spans(exporter.traces())
        two.do("with pfs.statement('app/end'): pass")
    found += spans(exporter.traces())  # both have ended cleanly: their files have gone
    assert [span.name for span in found].count("statement/app/end") == 1
    assert [span.name for span in found].count("statement/app/job") == 2
    assert exporter.traces() == []
    assert exporter.counts.spans == len(found)
    exporter.close()
