"""The report says what failed, and the matrix has a name for everything that it measures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import matrix, peers, ratios, report

BENCH = report.ROOT / "cpp" / "bench"


@pytest.fixture
def empty(tmp_path: Path) -> report.Report:
    return report.Report(tmp_path, tmp_path, 1, True, Console(quiet=True))


def _breaks(_: report.Report) -> list[str]:
    raise SystemExit("no round was quiet")


def _has_no_peer(_: report.Report) -> list[str]:
    raise peers.NoPeerError("LTTng is not installed")


def test_a_part_that_fails_says_so_on_the_page(empty: report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.PARTS, "scale", _breaks)
    sections = {"scale": report.do(empty, "scale")}
    text = report.page(empty, sections, ["matrix"], "0.0")
    assert "**Parts that failed: scale**" in text
    assert "SystemExit: no round was quiet" in text
    assert "Left out of this run: matrix" in text


def test_a_peer_that_is_not_there_is_no_failure(empty: report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.PARTS, "peers", _has_no_peer)
    sections = {"peers": report.do(empty, "peers")}
    assert empty.troubles == {}
    assert "Left out: LTTng is not installed." in report.page(empty, sections, [], "0.0")


def test_figures_are_fastest_blocks_but_medians_of_two_threads() -> None:
    blocks = {
        "lock/bare/1T": [5.0, 6.0, 9.0], "lock/floor/1T": [10.0, 11.0, 12.0], "lock/all/1T": [12.0, 15.0, 14.0],
        "lock/bare/same": [5.0, 6.0, 9.0], "lock/floor/same": [10.0, 20.0, 21.0], "lock/all/same": [12.0, 30.0, 33.0],
    }  # fmt: skip
    found = matrix.cells(ratios.Round(blocks, {}))
    alone, both = found["lock", "all", "1T"], found["lock", "all", "same"]
    assert alone.x_floor is not None
    assert both.x_floor is not None
    assert (alone.nanoseconds, alone.over_bare.value, alone.x_floor.value) == (12.0, 7.0, 1.2)
    assert (both.nanoseconds, both.over_bare.value, both.x_floor.value) == (30.0, 24.0, 1.5)
    assert alone.x_floor.low <= alone.x_floor.value <= alone.x_floor.high


def test_every_family_and_mode_of_the_program_has_a_name_on_the_page() -> None:
    families = re.findall(r'\{"(\w+)", Kind::', (BENCH / "matrix_families.cpp").read_text())
    modes = re.findall(r'\{"(\w+)", +Level::', (BENCH / "matrix.cpp").read_text())
    assert len(families) == 16
    assert sorted(families) == sorted(matrix.FAMILIES)
    assert ["out", *modes] == list(matrix.MODES)
