"""Reports of samples: what is added up is right, and small."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from pfs._export.report.document import LISTS, Document, document
from pfs._export.report.forms import written
from pfs._export.report.sampled import Sampled, sampled
from pfs._process.run.report import Report
from tests.python._programs.sampled_frame import longer, service
from tests.python.exports.test_report import HOSTILE, Parsed

MOST_OF_PAGE = 1_500_000  # bytes


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return service(60, 12, digests=6, lines=6)


def of(frame: pd.DataFrame) -> Sampled:
    found = sampled(frame, 2)
    assert found is not None
    return found


def with_samples(frame: pd.DataFrame) -> Document:
    made = document(Report(), 20)
    made.sampled = sampled(frame, 2)
    return made


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
        assert one.index("over time") < one.index("By event") < one.index("pfs cost")
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
