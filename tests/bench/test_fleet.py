"""The simulated fleet: every answer is that of the known factors, and a cut of 50,000 processes is asked in five seconds."""

from __future__ import annotations

import os

import pytest

from tests.bench import fleet

HOSTS = int(os.environ.get("PFS_FLEET_HOSTS", "3"))
pytestmark = pytest.mark.alone


def test_sums_of_simulated_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    measured = fleet.main(["--hosts", str(HOSTS)])
    assert len(measured) == len({1, HOSTS} | {size for size in (10, 50, 100, 250, 500) if size < HOSTS})
    opened, by_node, by_process, _, _, megabytes = measured[-1]
    assert opened + by_node <= 5
    assert opened + by_process <= 5
    assert megabytes < 4000
    assert f"| {HOSTS} | {HOSTS * fleet.PROCESSES:,} |" in capsys.readouterr().out


def test_a_wrong_sum_is_found() -> None:
    """The measurement compares: factors that are not those of the files are an error."""
    right = fleet.factor_of(0, 0, 0)
    assert right != fleet.factor_of(0, 0, 1)
    assert len({fleet.factor_of(5, number, 0) for number in range(fleet.PROCESSES)}) == fleet.PROCESSES
