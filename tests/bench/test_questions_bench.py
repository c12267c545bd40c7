"""Limits of questions, Arrow, files and merging: ratios of processor times in one process, and a size."""

from __future__ import annotations

import pytest

from tests.bench import questions
from tests.bench.questions import EVENTS, Figure

pytestmark = [pytest.mark.bench, pytest.mark.alone]


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return questions.measured()


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("small", 2.0),
        (f"group {EVENTS} processor", 1.15),
        ("arrow", 1.1),
        ("file", 0.3),
        ("merge", 14.0),  # ten times as many snapshots
        ("merge files", 12.0),
    ],
)
def test_a_ratio_stays_below_its_limit(found: dict[str, Figure], name: str, limit: float) -> None:
    figure = found[name]
    assert figure.value <= limit * figure.other, figure


def test_one_file_of_summaries_is_small(found: dict[str, Figure]) -> None:
    assert found["file size"].value <= 200
