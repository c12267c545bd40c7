"""The simulated fleet: every answer is that of the known factors, and a cut of 50,000 processes is asked in five seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pfs._many.fleet import files
from pfs._many.fleet.collector import tables_of
from tests import budgets
from tests.bench import fleet

HOSTS = budgets.FLEET_HOSTS
pytestmark = pytest.mark.alone


def test_sums_of_simulated_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    measured = fleet.main(["--hosts", str(HOSTS)])
    assert len(measured) == len({1, HOSTS} | {size for size in (10, 50, 100, 250, 500) if size < HOSTS})
    opened, by_node, by_process, _, _, megabytes = measured[-1]
    assert opened + by_node <= 5
    assert opened + by_process <= 5
    assert megabytes < 4000
    assert f"| {HOSTS} | {HOSTS * fleet.PROCESSES:,} |" in capsys.readouterr().out


READER = """
import resource, sys
import pfs.fleet
pfs.sql("select 1")  # imports
before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
read = pfs.fleet.read(sys.argv[1])
print(len(read.processes), len(read.sql(sys.argv[2]).rows()), *read.sql(sys.argv[3]).rows()[0])
print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before)
"""


def test_fifty_thousand_processes_are_asked_in_five_seconds(tmp_path: Path) -> None:
    """The reader alone: 500 files of 100 processes each. They are links to those of ten nodes, which are written in seconds. The
    bound is processor time, so that other programs change nothing."""
    (written := tmp_path / "written").mkdir()
    bases = fleet.snapshots(tables_of())
    fleet.made(str(written), 10, bases, cuts=1)
    for host in range(500):
        (there := tmp_path / "fleet" / f"host{host:03}").mkdir(parents=True)
        (cut,) = files.cuts(str(written / f"host{host % 10:03}"))
        os.link(cut.path, there / Path(cut.path).name)
    top = fleet.TOP.format(schema="process.")
    total = f"select sum(COUNT_STAR)::bigint from process.{fleet.TABLE}"
    command = [sys.executable, "-c", READER, str(tmp_path / "fleet"), top, total]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    processes, rows, count, seconds = done.stdout.split()
    print("seconds", seconds)
    assert (int(processes), int(rows)) == (50_000, 10 * 10)
    assert int(count) == 50 * fleet.expected_of(bases, 10, cut=0)["COUNT_STAR"]
    assert float(seconds) <= 5


def test_a_wrong_sum_is_found() -> None:
    """The measurement compares: factors that are not those of the files are an error. No two processes of a host are alike."""
    right = fleet.factor_of(0, 0, 0)
    assert right != fleet.factor_of(0, 0, 1)
    kinds = {(fleet.program_of(number), fleet.factor_of(5, number, 0)) for number in range(fleet.PROCESSES)}
    assert len(kinds) == fleet.PROCESSES
