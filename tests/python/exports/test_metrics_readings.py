"""pfs metrics: each mode of it lies between two readings of the tables, and no counter goes down in 1,000 readings under load."""

from __future__ import annotations

import operator
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import budgets

pytest.importorskip("prometheus_client", reason="needs prometheus_client: pip install '.[test]'")

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parsed_plain

import pfs
import pfs.metrics
from pfs._export.metrics.metric import Metric
from pfs._export.metrics.text import text_of
from pfs._process import processes
from tests.python._programs.subject import Subject, subject
from tests.python.exports.test_metrics import (
    LOOP,
    MUTEX,
    WORK,
    WRITTEN,
    Series,
    command,
    exporter,
    fetched,
    listening,
    plain,
    run,
    series,
)  # fmt: skip


def sampled(metrics: list[Metric]) -> dict[tuple[Any, ...], float]:
    """The counters, without a text: it is faster."""
    return {
        (metric.name + suffix, *labels): float(value)
        for metric in metrics
        for suffix, labels, value in metric.samples
        if suffix in ("_total", "_bucket") or metric.bare
    }


def scraped(url: str) -> Series:
    """The counters that a scrape reads."""
    found = series(fetched(url, "application/openmetrics-text")[1], "")
    return {key: value for key, value in found.items() if str(key[0]).endswith(("_total", "_bucket", "_count", "_sum"))}


@pytest.mark.parametrize("mode", ["pfs", "compat", "listen"])
def test_counters_never_go_down_under_load(folder: Path, mode: str) -> None:
    """Two programs work, one of them is killed and the other one truncated, while 1,000 readings are made. Parsers read them.
    A tenth as many are scrapes of the command."""
    last: Series = {}
    changes = 0
    readings = budgets.METRICS_READINGS // 10 if mode == "listen" else budgets.METRICS_READINGS
    programs = [Subject(folder) for _ in range(2)]
    try:
        for program in programs:
            program.send(LOOP)
        with ExitStack() as stack:
            schema = stack.enter_context(pfs.attach(str(programs[1].path), write=True))
            made = stack.enter_context(exporter(folder, compat=mode == "compat"))
            url = stack.enter_context(listening())[0] if mode == "listen" else ""
            for number in range(readings):
                if number == readings // 3:
                    programs[0].kill()
                if number == readings // 3 * 2:
                    schema.truncate("events_statements_summary_by_digest")
                metrics = [] if url else made.metrics()
                found = scraped(url) if url else sampled(metrics)
                fell = {key: (value, found.get(key)) for key, value in last.items() if found.get(key, -1) < value}
                assert fell == {}, number
                changes += found != last
                last = found
                if metrics and number % (readings // 10) == 0:
                    read = series(text_of(metrics), "")
                    assert {key: read[key] for key in found} == found
                    bare = {metric.name for metric in metrics if metric.bare}  # this parser appends _total to their names
                    old = plain(metrics)
                    assert {key: old[f"{key[0]}_total" if key[0] in bare else key[0], *key[1:]] for key in found} == found
        assert changes > readings // 3  # the programs did work
    finally:
        for program in programs:
            program.close()


class Truth:
    """Reads what a program has counted, from its tables. `compat` has no statements by EVENT_NAME."""

    TABLES = (
        ("events_waits_summary_global_by_event_name", "COUNT_STAR", "EVENT_NAME", "wait/synch/mutex/app/LOCK"),
        ("file_summary_by_event_name", "SUM_NUMBER_OF_BYTES_WRITE", "EVENT_NAME", "wait/io/file/app/data"),
        ("events_statements_summary_by_digest", "COUNT_STAR", "DIGEST_TEXT", "SELECT ?"),
        ("events_statements_summary_global_by_event_name", "COUNT_STAR", "EVENT_NAME", "statement/app/query"),
    )

    def __init__(self, *schemas: Any) -> None:
        self._schemas = schemas

    def now(self) -> list[int]:
        return [sum(self._one(schema, *which) for schema in self._schemas) for which in self.TABLES]

    def _one(self, schema: Any, table: str, column: str, key: str, value: str) -> int:
        return sum(int(number) for name, number in schema._source.rows(table, [key, column]) if name == value)


def shown(text: str, prefix: str) -> list[float]:
    """The same numbers in a text of either format."""
    if text.endswith("# EOF\n"):
        found = series(text, prefix)
    else:
        found = {(s.name.removeprefix(prefix), *s.labels.items()): s.value for f in parsed_plain(text) for s in f.samples}
    digests = [
        value for key, value in found.items() if key[0] == "events_statements_total" and ("digest_text", "SELECT ?") in key
    ]
    statements = ("statements_total", ("event_name", "statement/app/query"))
    return [found[MUTEX], found[WRITTEN], sum(digests), *([found[statements]] if prefix == "pfs_" else [])]


def all_users(compat: bool) -> str:
    with closing(pfs.metrics.exporter(compat=compat, all_users=True)) as made:
        return text_of(made.metrics())


def textfile(target: Path, *options: str) -> str:
    return run("--textfile", str(target), *options) + target.read_text()


def scrape(url: str, accept: str) -> str:
    return fetched(url, accept)[1]


def registered(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


@pytest.mark.parametrize("mode", ["once", "one process", "all users", "listen", "textfile", "every", "collector"])
def test_each_mode_lies_between_two_readings(folder: Path, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits, bytes, digests and statements, in both vocabularies."""
    with ExitStack() as stack:
        program = stack.enter_context(subject(folder))
        schemas = [stack.enter_context(pfs.attach(str(program.path)))]
        program.do(WORK.format(n=1))
        program.send(LOOP)
        truth = Truth(*schemas)
        ends: list[list[int]] = []

        def between(read: Callable[[], str], prefix: str, of: Truth = truth) -> None:
            before = of.now()
            found = shown(read(), prefix)
            after = of.now()
            for low, value, high in zip(before, found, after, strict=False):
                assert low <= value <= high
            ends.extend((before, after))

        for prefix, options in (("pfs_", ()), ("mysql_perf_schema_", ("--compat",))):
            if mode == "once":
                between(partial(run, *options), prefix)
            elif mode == "one process":
                between(partial(run, str(program.pid), *options), prefix)
            elif mode == "all users":
                (shared := tmp_path / "shm").mkdir(exist_ok=True)
                theirs = stack.enter_context(subject(shared / f"pfs-{4711 + len(options)}"))
                theirs.do(WORK.format(n=3))
                theirs.send(LOOP)
                schemas.append(stack.enter_context(pfs.attach(str(theirs.path))))
                with monkeypatch.context() as patched:
                    patched.setattr(processes, "_SHARED", str(shared))
                    between(partial(all_users, bool(options)), prefix, Truth(*schemas))
                low = truth.now()
                assert all(map(operator.ge, shown(run("--all-users", *options), prefix), low))  # others may run, too
            elif mode == "textfile":
                between(partial(textfile, tmp_path / "x.prom", *options), prefix)
            elif mode == "every":
                target = tmp_path / f"{prefix}.prom"
                with command("--textfile", str(target), "--interval", "0.1", *options) as process:
                    for _ in range(5):
                        between(partial(written, target), prefix)
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(60) == 0
            elif mode == "listen":
                with listening(*options) as (url, _):
                    for accept in ("*/*", "application/openmetrics-text"):
                        between(partial(scrape, url, accept), prefix)
            else:
                registry = CollectorRegistry()
                registry.register(pfs.metrics.Collector(compat=bool(options)))
                between(partial(registered, registry), prefix)
        assert all(low < high for low, high in zip(ends[0], ends[-1], strict=False))  # the program did work


def written(path: Path) -> str:
    """Returns a text that is written from now on: the second one, because the first may have been read before."""
    seen: list[int] = []
    deadline = time.monotonic() + 60
    while len(seen) < 3:
        assert time.monotonic() < deadline
        with suppress(FileNotFoundError):
            number = path.stat().st_ino
            if number not in seen[-1:]:
                seen.append(number)
        time.sleep(0.01)
    return path.read_text()
