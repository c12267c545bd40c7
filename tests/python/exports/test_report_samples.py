"""Reports of samples: what is added up is right, and small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pfs
from pfs._export.report.document import Document, document
from pfs._export.report.forms import written
from pfs._export.report.sampled import Sampled, sampled
from pfs._export.report.shared import LISTS
from pfs._process.run.report import Report
from tests.python._programs.sampled_frame import longer, service
from tests.python.exports.test_report import HOSTILE, PFS, Parsed, data_of

MOST_OF_PAGE = 1_500_000  # bytes


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return service(60, 12, digests=6, lines=6)


def of(frame: pd.DataFrame) -> Sampled:
    found = sampled(frame, 2)
    assert found is not None
    return found


def with_samples(frame: pd.DataFrame) -> Document:
    return document(Report(), 20, samples=frame)


def seconds_of(frame: pd.DataFrame) -> float:
    """Returns the seconds of thread time that the rows stand for."""
    return float(frame["WEIGHT"].sum()) / 1e12


def test_each_list_has_the_times_of_the_rows(frame: pd.DataFrame) -> None:
    found = of(frame)
    active = frame[frame["THREAD_STATE"] != "IDLE"]
    columns = {"By statement": "DIGEST_TEXT", "By line": "SOURCE", "By object": "OBJECT_NAME"}
    for number, title in enumerate(LISTS):
        sums = {text: sum(kinds.values()) * found.seconds for text, kinds in found.of_list(number)}
        if title in columns:
            truth = active.groupby(columns[title])["WEIGHT"].sum() / 1e12
            assert sums == pytest.approx(dict(truth), rel=0.01)
    (holder,) = found.of_list(LISTS.index("By what the holder of the lock does"))
    assert holder[0] == "shop/log: file/shop/log (sync) at log.c:7"
    waits = frame[frame["BLOCKING_THREAD_ID"].notna()]
    assert holder[1]["wait/synch/mutex"] * found.seconds == pytest.approx(seconds_of(waits), rel=0.01)


def test_a_process_that_was_recorded_twice_has_its_holders(frame: pd.DataFrame) -> None:
    """Samples of two recordings stay apart by their time, also if two recorders gave the same SAMPLE_ID."""
    later = frame["SAMPLE_TIME"].max() - frame["SAMPLE_TIME"].min() + pd.Timedelta(seconds=1)
    both = pd.concat([frame, frame.assign(SAMPLE_TIME=frame["SAMPLE_TIME"] + later)], ignore_index=True)
    both.attrs = frame.attrs
    number = LISTS.index("By what the holder of the lock does")
    once, twice = of(frame), of(both)
    assert [text for text, _ in twice.of_list(number)] == [text for text, _ in once.of_list(number)]
    assert "nobody sampled" not in twice.note


def test_the_chart_has_the_time_of_each_class_and_bin(frame: pd.DataFrame) -> None:
    found = of(frame)
    for kind, amounts in zip(found.classes, found.chart, strict=True):
        rows = frame[frame["WAIT_CLASS"] == kind]
        assert sum(amounts) * found.unit == pytest.approx(seconds_of(rows), rel=0.01)
    # Jitter of the samples is no jitter of the chart: twelve threads are twelve threads in each bin.
    whole = np.array(found.chart).sum(axis=0) * found.unit / found.width
    assert whole == pytest.approx(np.full(found.bins, 12.0), rel=0.02)
    mutex = np.array(found.chart[found.classes.index("wait/synch/mutex")])
    third = found.bins // 3
    assert mutex[: third - 1].sum() == 0 == mutex[2 * third + 2 :].sum()
    assert mutex[third + 2 : 2 * third - 2].min() > 0


def test_text_and_markdown_have_the_same_numbers(frame: pd.DataFrame) -> None:
    made = with_samples(frame)
    text, markdown = written(made, "text", 20), written(made, "markdown", 20)
    for one in (text, markdown):
        assert one.index("Samples: 20") < one.index("over time") < one.index("By event") < one.index("By thread")
    waits = frame[frame["BLOCKING_THREAD_ID"].notna()]
    average = f"{seconds_of(waits) / of(frame).seconds:.2f}"
    assert f"{average} " in text
    assert "mutex/shop/LOCK_stock (lock)" in text
    assert f"| {average} |" in markdown


def test_an_hour_of_a_service_fits_a_mail() -> None:
    """50 threads, 20 samples a second, 40 statements at 30 lines."""
    hour = longer(service(180, 50), 20)
    assert len(hour) == 3_600_000
    found = of(hour)
    assert len(written(with_samples(hour), "html", 20)) < MOST_OF_PAGE
    assert found.bins > 300
    names = {text for text, _ in found.of_list(LISTS.index("By statement"))}
    assert len(names) == 40
    assert "(others)" not in names


def test_many_names_are_folded_not_lost() -> None:
    frame = service(60, 40, digests=4000, lines=4000)
    found = of(frame)
    assert len(json.dumps(found.as_json())) < MOST_OF_PAGE
    sums = sum(sum(kinds.values()) for _, kinds in found.of_list(LISTS.index("By statement"))) * found.seconds
    assert sums == pytest.approx(seconds_of(frame[frame["DIGEST_TEXT"].notna()]), rel=0.03)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_sample_is_enough(frame: pd.DataFrame, rows: int) -> None:
    one = frame.iloc[:rows].reset_index(drop=True)
    found = of(one)
    assert found.bins >= 1
    assert sum(map(sum, found.chart)) * found.unit == pytest.approx(seconds_of(one), rel=0.05)
    assert sampled(frame.iloc[:0]) is None


def test_names_of_samples_cannot_do_anything(frame: pd.DataFrame) -> None:
    frame = frame.copy()
    hostile = [text[:10_000] for text in HOSTILE]
    names = pd.Series([hostile[number % len(hostile)] for number in range(len(frame))], dtype="object")
    for column in ("DIGEST_TEXT", "SOURCE", "OBJECT_NAME", "EVENT_NAME", "OPERATION", "THREAD_NAME", "WAIT_CLASS"):
        frame[column] = names
    page = written(with_samples(frame), "html", 20)
    page.encode()
    found = Parsed(page)
    assert [tag for tag in found.tags if tag in ("script", "img", "iframe", "a", "link", "form")] == ["script", "script"]
    assert not [name for name in found.attributes if name.startswith("on")]
    assert not any(c in page for c in "\0\x1b\u202e\u2066")
    assert len(page) < 400_000
    assert json.loads(found.data)["samples"]["texts"]


def test_a_gap_is_said(frame: pd.DataFrame) -> None:
    assert "nobody sampled" not in of(frame).note
    times = frame["SAMPLE_TIME"]
    gap = frame[(times < times.iloc[0] + pd.Timedelta("20s")) | (times > times.iloc[0] + pd.Timedelta("25s"))]
    assert "For 5" in of(gap.reset_index(drop=True)).note


WAITS = """
import threading, time
lock = threading.Lock()

def work():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        with lock:
            time.sleep(0.01)

threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_a_run_with_samples_has_them_in_its_page(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    run = [*PFS, "run", "--record", "a.ash", "--hz", "50", "-o", "run.html", "--", sys.executable, "waits.py"]
    subprocess.run(run, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    data = data_of((tmp_path / "run.html").read_text())
    assert data["report"]["locks"]
    subprocess.run([*PFS, "report", "a.ash", "-o", "samples.html"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    alone = data_of((tmp_path / "samples.html").read_text())
    assert not alone["report"]["locks"]
    assert alone["samples"] == data["samples"]
    assert "waits.py:8" in data["samples"]["texts"]
    assert [words for words, *_ in data["samples"]["classes"] if words == "mutexes"]


def test_a_live_process_is_sampled_before(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS.replace("+ 3", "+ 30"))
    with subprocess.Popen([*PFS, "run", "--no-report", "--", sys.executable, "waits.py"], cwd=tmp_path) as run:
        pid = child_of(run.pid)
        done = subprocess.run(
            [*PFS, "report", str(pid), "--for", "0.5s", "-f", "html"], capture_output=True, text=True, timeout=60, check=True
        )
        os.kill(pid, signal.SIGKILL)
        run.kill()
    data = data_of(done.stdout)
    assert data["samples"]["texts"]
    assert data["report"]["blocked"] or data["report"]["not_ended"]


def child_of(pid: int) -> int:
    """Returns the child of a process, when it has a segment."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        there = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if there and pfs.processes()["PID"].eq(int(there[0])).any():
            return int(there[0])
        time.sleep(0.05)
    raise AssertionError("no child appeared")
