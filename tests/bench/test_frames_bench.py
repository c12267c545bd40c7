"""Limits of reading, starting and memory. Fastest of many runs, so that a busy machine does not matter."""

# ruff: noqa: E501
from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import reading

pytestmark = [pytest.mark.bench, pytest.mark.alone]


def test_10000_rows_become_a_frame_in_10_ms(capsys: pytest.CaptureFixture[str]) -> None:
    rows, best, median = reading.frames()["events_waits_history_long"]
    for _ in range(4):
        if best > 10:
            rows, best, median = min(reading.frames()["events_waits_history_long"], (rows, best, median))
    with capsys.disabled():
        print(f" [{rows} rows: {best:.2f} ms, median {median:.2f} ms]", end="")
    assert rows == reading.ROWS
    assert best <= 10


def test_import_takes_30_ms_beyond_bare_python(capsys: pytest.CaptureFixture[str]) -> None:
    best = reading.start_up()
    beyond = best["import pfs"] - best["python"]
    with capsys.disabled():
        print(
            f" [python {best['python']:.1f} ms, import pfs {beyond:+.1f} ms, first lock {best['import pfs, first lock'] - best['python']:+.1f} ms]",
            end="",
        )
    assert beyond <= 30


def test_a_small_program_has_less_than_4_mib_of_its_segment_resident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = reading.driver(tmp_path)
    first, full = reading.resident(program, 1), reading.resident(program, 100_000)
    with capsys.disabled():
        print(f" [{first / 1024:.0f} KiB after one event, {full / 1024:.0f} KiB after 100,000]", end="")
    assert full < 4 << 20
