"""A sampler costs the program that it samples no instruction."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pfs
from tests.bench import instructions
from tests.bench.marks import CALLGRIND
from tests.python._programs.subject import clean_environment, until

pytestmark = CALLGRIND

OPERATIONS = 100_000
LEAST_SAMPLES = 20  # while the operations run: each takes some 10 microseconds under callgrind
# Each operation makes a row. No timer is read: a longest or shortest wait that is new would take the slow path.
OPTIONS = "performance_schema_instrument='wait/%=COUNTED',performance_schema_events_waits_history_long_size=500"


def recorder(folder: Path, hz: float) -> pfs.Recording | None:
    with suppress(StopIteration, pfs.AttachError):  # the segment is being made
        return pfs.record(next(folder.glob("*.pfs")), hz=hz)
    return None


def counted(driver: Path, folder: Path, hz: float = 0) -> int:
    """Returns the instructions of the second half of a run, sampled so often meanwhile."""
    folder.mkdir(mode=0o700)
    out = folder / "callgrind"
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-before=pfs_bench_part"]
    with subprocess.Popen(
        [*tool, str(driver), "lock", str(OPERATIONS)],
        env=clean_environment(folder, PFS_OPTIONS=OPTIONS),
        stderr=subprocess.DEVNULL,
    ) as process:
        if hz:
            with until(lambda: recorder(folder, hz), 60) as recording:
                process.wait(120)
            assert recording.samples()["SAMPLE_ID"].nunique() >= LEAST_SAMPLES
        assert process.wait(120) == 0
    found = re.search(r"^totals: (\d+)$", Path(f"{out}.2").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_a_sampler_costs_no_instruction(tmp_path: Path) -> None:
    driver, longer = instructions.build(tmp_path), instructions.build(tmp_path, padding=1)
    alone = [counted(driver, tmp_path / f"alone{number}") for number in range(2)]
    sampled = [counted(driver, tmp_path / f"sampled{number}", hz=1000) for number in range(2)]
    most = max(alone) + OPERATIONS // 100
    assert max(sampled) <= most, (alone, sampled)
    assert counted(longer, tmp_path / "longer") > most  # one instruction more would be seen
