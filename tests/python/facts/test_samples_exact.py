"""Samples against exact sums: the share of each wait lies in its interval, on programs that pfs run records."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pfs
from pfs._process.history.samples import _frame_of
from pfs._process.history.store import Memory
from pfs._process.segment import SegmentSource
from pfs._read.places.readable import Readable
from tests.python.run.test_run import PFS, own_folder, pytestmark
from tests.python.run.test_run_calls import compiled

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

SECONDS, HZ = 5.0, 100.0
LEAST = 0.002  # a share


def exact_sums(schema: pfs.Schema) -> tuple[float, pd.Series[float]]:
    """When it was, and the picoseconds of all waits so far, with those that run, by readable name."""
    moment = time.monotonic()
    closed = schema.table("events_waits_summary_global_by_event_name", ["EVENT_NAME", "SUM_TIMER_WAIT"])
    runs = schema.table("running", where="EVENT_TYPE = 'WAIT'")
    source = schema._source
    assert isinstance(source, SegmentSource)
    words = Readable(source)
    sums: dict[str, float] = {}
    for name, spent in zip(closed["EVENT_NAME"], closed["SUM_TIMER_WAIT"], strict=True):
        sums[words.name(name)] = sums.get(words.name(name), 0.0) + float(spent)
    for name, spent in zip(runs["EVENT_NAME"], runs["TIMER_WAIT"].fillna(0), strict=True):
        sums[name] = sums.get(name, 0.0) + float(spent)
    return moment, pd.Series(sums)


@dataclass(frozen=True)
class Measured:
    """What a program did for some seconds: by exact sums, and by samples."""

    shares: pd.Series[float]  # of the threads' time, by readable name: exact
    samples: pd.DataFrame  # of threads that pfs has recorded, as sampled
    corrected: pd.DataFrame
    thread_time: float  # picoseconds of all threads between the two readings of sums
    sampled_time: float  # and while samples were taken
    scheduling: str  # of the sampler

    def interval(self, event: str, percent: float) -> tuple[float, float]:
        """Bounds of the share of an event, from blocks of ten samples drawn again: threads of one sample are not independent."""
        hits = self.samples["WEIGHT"].where(self.samples["EVENT_NAME"].eq(event).fillna(False), 0)
        per_sample = hits.groupby(self.samples["SAMPLE_ID"]).sum().to_numpy()
        blocks = np.array([per_sample[at : at + 10].sum() for at in range(0, len(per_sample), 10)])
        drawn = np.random.default_rng(7).choice(blocks, (4000, len(blocks))).sum(axis=1) / self.sampled_time
        low, high = np.percentile(drawn, [50 - percent / 2, 50 + percent / 2])
        unseen = -np.log(1 - percent / 100) / len(self.samples)  # what no sample sees
        return float(low) - 0.003, max(float(high), float(unseen)) + 0.003  # and what the two readings are apart


def measured(program: Path, mode: str, folder: Path, *, seconds: float, hz: float, threads: int = 4) -> Measured:
    folder.mkdir(mode=0o700)
    command: list[str | Path] = [*PFS, "run", "--no-report", "--all-on", "--", program, mode, str(seconds + 2), str(threads)]
    with subprocess.Popen(command, env=os.environ | {"PFS_DIR": str(folder)}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = process.stdout.readline().strip()
        time.sleep(0.5)
        [segment] = folder.glob(f"**/{pid}.pfs")
        with pfs.attach(segment) as schema:
            exact_sums(schema)  # now it knows the names
            begin, before = exact_sums(schema)
            with pfs.record(segment, hz=hz) as recording:
                time.sleep(seconds)
            end, after = exact_sums(schema)
    thread_time = (end - begin) * 1e12 * (threads + 1)  # the first thread joins the others
    store = recording._store
    assert isinstance(store, Memory)
    samples, _ = _frame_of(store.batches, recording.told(), exact=False)
    return Measured(
        shares=after.sub(before, fill_value=0) / thread_time,
        samples=samples[samples["THREAD_ID"].notna()],
        corrected=recording.samples(),
        thread_time=thread_time,
        sampled_time=seconds * 1e12 * (threads + 1),
        scheduling=recording.told()["processes"][pid]["sampler"]["scheduling"],
    )


def measured_at_rest(program: Path, mode: str, folder: Path) -> Measured | None:
    """Measures until sums and samples are of the same time, three times at most. Returns None if the machine is too busy."""
    folder.mkdir()
    for turn in ("first", "second", "third"):
        found = measured(program, mode, folder / turn, seconds=SECONDS, hz=HZ)
        if found.thread_time < 1.05 * found.sampled_time:
            return found
    return None


def outside(found: Measured) -> dict[str, tuple[float, float, float]]:
    """Returns the share and the interval of each event whose share does not lie in its interval."""
    result = {}
    for event, share in found.shares[found.shares > LEAST].items():
        low, high = found.interval(str(event), 99)
        assert high - low < 0.25, "the interval says nothing"
        if not low <= share <= high:
            result[str(event)] = (share, low, high)
    return result


@pytest.mark.alone
@pytest.mark.parametrize("mode", ["lock", "two_locks", "timer", "rwlock", "queue", "sync"])
def test_the_share_of_each_wait_lies_in_its_interval(mode: str, tmp_path: Path) -> None:
    """No event is outside of two intervals of 99 %. They see a fault as well as one of 99.9 %, and a tenth as often by chance."""
    program = compiled(tmp_path, "sampled")
    found = measured_at_rest(program, mode, tmp_path / "once")
    if found is None:
        pytest.skip("the machine is too busy to read sums and samples of the same time")
    if found.scheduling != "fifo":
        pytest.skip("without SCHED_FIFO a sampler sees too few threads that compute")
    assert (found.shares > LEAST).sum() >= 2
    if wrong := outside(found):
        again = measured_at_rest(program, mode, tmp_path / "again")
        assert again is not None, wrong
        assert not wrong.keys() & outside(again).keys(), wrong
    # The corrected weights are the exact ones, whatever was sampled.
    corrected = found.corrected
    known = corrected[corrected["EVENT_NAME"].notna()].groupby("EVENT_NAME")["WEIGHT"].sum() / found.thread_time
    for event, share in found.shares[found.shares > 0.05].items():
        assert known[str(event)] == pytest.approx(share, rel=0.1), event
