"""Reports of two runs: differences are shown if they are larger than their error, and only then."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pfs._export.report.against import compared, compared_samples, error_of
from pfs._export.report.sampled import sampled
from pfs._process.run.contents import Listed
from pfs._process.run.read import report_of
from pfs._process.run.report import Report
from pfs._process.run.report_json import as_json
from pfs.errors import InvalidValue
from tests.python._programs.sampled_frame import service
from tests.python.exports.test_report import PFS, data_of, hostile

LOCK = "wait/synch/mutex/app/LOCK"
KINDS: dict[str, Callable[[random.Random], float]] = {
    "exponential": lambda source: source.expovariate(1e-9),
    "of two lengths": lambda source: source.choice((1e7, 1e10)),
    "heavy": lambda source: 1e8 * source.paretovariate(1.5),
}


def report(times: list[float]) -> Report:
    """A report of a program whose one lock was waited for."""
    found = Report()
    numbers = [len(times), round(sum(times)), round(max(times, default=0))]
    found.locks[LOCK] = list(numbers)
    found.classes["mutexes"] = list(numbers)
    return found


def changed(after: Report, before: Report) -> set[str]:
    """The names of times that have changed."""
    return {
        row[-1]
        for part in compared(after, before, 100)
        if isinstance(part, Listed) and part.title == "Times that have changed"
        for row in part.rows
    }


@pytest.mark.parametrize("kind", KINDS)
def test_two_runs_of_one_program_differ_by_chance_only(kind: str) -> None:
    """With two standard errors 5 % would be chance, if the bound of the variance was reached."""
    source = random.Random(7)
    wrong = 0
    for _ in range(200):
        runs = [[KINDS[kind](source) for _ in range(300)] for _ in range(2)]
        wrong += bool(changed(report(runs[0]), report(runs[1])))
    assert wrong <= 14


@pytest.mark.parametrize("kind", ["exponential", "of two lengths"])
def test_a_program_that_waits_twice_as_long_is_found(kind: str) -> None:
    source = random.Random(7)
    for _ in range(20):
        before = [KINDS[kind](source) for _ in range(1000)]
        after = [2 * KINDS[kind](source) for _ in range(1000)]
        assert changed(report(after), report(before)) == {"synch/mutex/app/LOCK", "mutexes"}


def test_the_error_is_no_smaller_than_the_true_one() -> None:
    source = np.random.default_rng(7)
    for _ in range(100):
        times = source.gamma(source.uniform(0.1, 5), size=200)
        assert error_of(200, times.sum(), times.max()) >= np.sqrt(200) * times.std()
    assert error_of(1, 5, 5) == np.inf
    assert error_of(0, 0, 0) == 0


def test_a_single_wait_says_nothing() -> None:
    assert changed(report([9e12]), report([1e12])) == set()


def test_samples_are_compared_with_an_interval() -> None:
    one, other = (sampled(service(60, 12, digests=6, lines=6, seed=seed)) for seed in (1, 2))
    assert one is not None
    assert other is not None
    same = compared_samples(one, other)
    assert {row[2] for row in same.rows} == {"within its error"}
    fewer = sampled(service(60, 6, digests=6, lines=6))
    assert fewer is not None
    rows = {row[-1]: row for row in compared_samples(one, fewer).rows}
    assert rows["computing"][2].startswith("+")
    change, error = map(float, rows["computing"][2].split(" ± "))
    assert abs(change - (float(rows["computing"][1]) - float(rows["computing"][0]))) < 0.02
    assert 0 < error < change


PROGRAM = """
import sys, threading, time
lock = threading.Lock()

def work():
    for _ in range(50):
        with lock:
            if sys.argv[1] == "sleep":
                time.sleep(0.003)
        time.sleep(0.001)  # another thread's turn: else one may keep the lock, and a few long waits say nothing

threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_a_fault_that_was_mended_is_named(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    folders = []
    for way in ("sleep", "plain"):
        command = [*PFS, "run", "--keep", "--no-report", "--", sys.executable, "program.py", way]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        folders.append(done.stderr.rpartition("Segments: ")[2].strip())

    def against(form: str) -> str:
        command = [*PFS, "report", folders[1], "--against", folders[0], "--format", form]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    try:
        text, markdown, page = map(against, ("text", "markdown", "html"))
    finally:
        subprocess.run(["rm", "-r", *folders], check=True)
    for one in (text, markdown.replace("\\", "")):
        assert "Gone: " in one
        assert "program.py:" in one
    rows = text.partition("Times that have changed")[2].partition("\n\n")[0].splitlines()
    (lock,) = (row for row in rows if row.endswith("  lock  synch/mutex/python/__main__:3"))
    assert "  150  " in lock  # as often as before
    assert "-100%" in lock or "-9" in lock
    assert "Times that have changed" in page
    assert data_of(page)["report"]["processes"]


def kept_as(path: Path, times: dict[str, list[float]], limit: int) -> Report:
    """A report with these waits by name, as it is read from JSON."""
    found = Report(processes=[{"pid": 1, "command": "app", "events": 1}])
    for name, waits in times.items():
        found.locks[name] = [len(waits), round(sum(waits)), round(max(waits))]
    path.write_text(json.dumps(as_json(found, limit)))
    return report_of(str(path))


def test_a_report_that_was_kept_as_json_can_be_compared(tmp_path: Path) -> None:
    source = random.Random(7)

    def waits(mean: float) -> list[float]:
        return [source.expovariate(1 / mean) for _ in range(300)]

    before = kept_as(tmp_path / "a.json", {"large": waits(1e9), "middle": waits(5e8), "small": waits(2e8)}, 2)
    after = kept_as(tmp_path / "b.json", {"large": waits(3e9), "middle": waits(5e8), "small": waits(2e8)}, 3)
    assert set(before.locks) == {"large", "middle"}
    assert changed(after, before) == {"large"}  # nobody knows what "small" was
    after = kept_as(tmp_path / "b.json", {"large": waits(1e9), "small": waits(6e8)}, 3)
    assert changed(after, before) == {"middle", "small"}


def test_json_keeps_a_report(tmp_path: Path) -> None:
    report = hostile()
    report.findings = report.findings[:3]
    kept = [as_json(report, 100)]
    for number in range(2):  # rows of equal times are in the order of their names, whose bytes are escaped in JSON
        (tmp_path / "a.json").write_text(json.dumps(kept[number]))
        kept.append(as_json(report_of(str(tmp_path / "a.json")), 100))
    assert kept[2] == kept[1]
    for name, value in kept[0].items():
        same = sorted(map(str, value)) == sorted(map(str, kept[1][name])) if isinstance(value, list) else value == kept[1][name]
        assert same, name


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"host": 1}', "[" * 100_000, "\x80"])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="latin-1")
    with pytest.raises(InvalidValue, match="holds no report of pfs"):
        report_of(str(tmp_path / "a.json"))
