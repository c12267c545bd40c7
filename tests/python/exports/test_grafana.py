"""The dashboard for Grafana asks for metrics and labels that pfs metrics has, and its queries have answers."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pfs.metrics
from tests.python._programs.subject import subject

WORK = """
import sqlite3
if "lock" not in globals():
    lock, db = pfs.Lock("app/LOCK"), pfs.dbapi(sqlite3).connect(":memory:")
    left, right = pfs.socketpair(name="app/pair")
    held = pfs.Lock("app/LOCK_held")
    held.acquire()
    pfs.Thread(target=held.acquire, daemon=True).start()
    while pfs.table("blocked").empty: pass
for number in range(10):
    with lock, pfs.open(os.devnull, "w", name="app/data") as file: file.write("x" * 10)
    with pfs.statement("app/query", "SELECT %d" % number): pass
    left.sendall(b"x" * 7); right.recv(100)
    try: db.execute("select nothing")
    except sqlite3.Error: pass
"""


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """The script that draws the panels."""
    path = Path(__file__).parents[3] / "docs/examples/grafana_pictures.py"
    found = importlib.util.spec_from_file_location("grafana_pictures", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def readings(pictures: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, Any]]:
    """Two readings of a program, three seconds apart as the queries see them. It has worked once before each."""
    found = []
    with subject(tmp_path_factory.mktemp("grafana")) as program:
        for second in (0.0, 3.0):
            program.do(WORK)
            found.append((second, pictures.parsed(pfs.metrics.text(str(program.path)))))
    return found


def unknown_names(target: dict[str, str], exported: dict[str, Any]) -> list[str]:
    """Returns metrics and labels of a query that nobody exports."""
    query = target["expr"]
    metrics = re.findall(r"\bpfs_\w+", query)
    wrong = [name for name in metrics if name not in exported]
    if wrong or not metrics:
        return wrong or ["no metric"]
    known = set.intersection(*({name for labels in exported[metric] for name, _ in labels} for metric in metrics))
    grouped = {name.strip() for names in re.findall(r"by \(([^)]*)\)", query) for name in names.split(",")}
    chosen = set(re.findall(r"(\w+)=", query))
    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    return sorted((grouped | chosen) - known) + sorted(shown - (grouped or known))


def test_the_dashboard_names_what_is_exported(pictures: ModuleType, readings: list[tuple[float, Any]]) -> None:
    exported = readings[-1][1]
    panels = pictures.panels()
    assert len(panels) > 8
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert unknown_names(target, exported) == [], panel["title"]


@pytest.mark.parametrize(
    ("query", "legend"),
    [
        ("sum by (event_name) (rate(pfs_event_waits_total[5m]))", "{{event_name}}"),
        ("sum by (event) (rate(pfs_events_waits_total[5m]))", ""),
        ("sum by (event_name) (rate(pfs_events_waits_total[5m]))", "{{mode}}"),
        ('pfs_events_waits_total{mode="read"}', ""),
        ("up", ""),
    ],
)
def test_a_wrong_name_is_seen(readings: list[tuple[float, Any]], query: str, legend: str) -> None:
    assert unknown_names({"expr": query, "legendFormat": legend}, readings[-1][1])


def test_each_panel_has_an_answer(pictures: ModuleType, readings: list[tuple[float, Any]]) -> None:
    """The script evaluates every query. Some numbers are known."""
    found = {
        (panel["title"], pictures.legend(target, labels)): value
        for panel in pictures.panels()
        for target in panel["targets"]
        for labels, value in pictures.Query(target["expr"]).at(readings).items()
    }
    assert {title for title, _ in found} == {panel["title"] for panel in pictures.panels()} - {"Lost objects and events"}
    assert found["Statements per second", "statement/app/query"] == pytest.approx(10 / 3)
    assert found["Files: bytes per second", "write"] == pytest.approx(100 / 3)
    assert found["Sockets: bytes per second", "read"] == pytest.approx(70 / 3)
    assert found["Processes", "alive"] == 1
    assert found["Active threads by class", "wait/synch/mutex"] == found["Threads that wait for a lock", "blocked"] == 1
    assert found["Threads that wait for a lock", "deadlocked"] == 0
    errors = [value for (title, _), value in found.items() if title == "Statements: errors per second"]
    assert sum(errors) == pytest.approx(10 / 3)
    assert 0 < found["Statements: durations", "50 %"] <= found["Statements: durations", "99 %"]


def test_quantiles_are_those_of_prometheus(pictures: ModuleType) -> None:
    buckets = {frozenset({("le", bound)}): count for bound, count in (("0.1", 10.0), ("0.2", 30.0), ("+Inf", 40.0))}
    for part, wanted in ((0.25, 0.1), (0.5, 0.15), (0.75, 0.2), (0.99, 0.2)):
        assert pictures.quantiles(part, buckets) == {frozenset(): pytest.approx(wanted)}
    with pytest.raises(ValueError, match="can evaluate"):
        pictures.Query("rate(x[5m]) + 1")


def test_the_file_is_one_dashboard(root: Path) -> None:
    dashboard = json.loads((root / "docs/examples/grafana.json").read_text())
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    for panel in dashboard["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"  # the one that its user chooses
        assert panel["description"].endswith(".")
    assert [variable["type"] for variable in dashboard["templating"]["list"]] == ["datasource"]


GOT = re.compile(r'expr: (".*?"), time: 3s,\s*exp: .*?\s*got: ?(.*?)$', re.DOTALL | re.MULTILINE)
SAMPLE = re.compile(r"(?:^|, )(\{.*?\}) ([-+0-9.E]+|NaN)(?=,|$)")


@pytest.mark.needs("promtool")
def test_prometheus_answers_the_queries_alike(pictures: ModuleType, readings: list[tuple[float, Any]], tmp_path: Path) -> None:
    """Prometheus itself evaluates each query over the two readings and straight lines between them. Our script has the same
    answers, and so Prometheus takes every query."""
    (_, first), (_, last) = readings
    series = [
        {
            "series": name + "{" + ",".join(f'{label}="{text}"' for label, text in labels) + "}",
            "values": f"{first.get(name, {}).get(labels, value)}{(value - first.get(name, {}).get(labels, value)) / 3:+}x3",
        }
        for name, vector in last.items()
        for labels, value in vector.items()
    ]
    ours = {}
    for panel in pictures.panels():
        for target in panel["targets"]:
            ours[target["expr"].replace("$__rate_interval", "3s")] = pictures.Query(target["expr"]).at(readings)
    nothing = [{"labels": '{no="sample"}', "value": 0}]  # promtool says what it has got only if something else was expected
    asked = [{"expr": expression, "eval_time": "3s", "exp_samples": nothing} for expression in ours]
    test = {"interval": "1s", "input_series": series, "promql_expr_test": asked}
    (file := tmp_path / "test.yml").write_text(json.dumps({"evaluation_interval": "1s", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    found = {json.loads(match[1]): SAMPLE.findall(match[2]) for match in GOT.finditer(done.stdout + done.stderr)}
    assert found.keys() == ours.keys(), done.stdout + done.stderr
    compared = 0
    for expression, samples in found.items():
        theirs = {
            frozenset(
                (label, text) for label, text in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels) if label != "__name__"
            ): value
            for labels, text in samples
            if (value := float(text)) == value
        }
        if expression.startswith("topk"):  # which of equal ones are the first is open
            assert sorted(theirs.values()) == pytest.approx(sorted(ours[expression].values())), expression
        else:
            assert theirs == pytest.approx(ours[expression]), expression
        compared += len(theirs)
    assert compared > 30
