"""Samples against exact sums: the share of each wait lies in its interval, on programs that pfs run records."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pfs
from pfs._process.segment import SegmentSource
from pfs._read.places.readable import Readable
from tests.python.run.test_run import PFS, own_folder, pytestmark
from tests.python.run.test_run_calls import compiled

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

SECONDS, HZ, THREADS = 5.0, 100.0, 5  # the four workers, and the thread that joins them
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


def interval(samples: pd.DataFrame, event: str) -> tuple[float, float]:
    """Bounds of the share of an event, from blocks of ten samples drawn again: threads of one sample are not independent."""
    hits = samples["WEIGHT"].where(samples["EVENT_NAME"].eq(event).fillna(False), 0)
    per_sample = hits.groupby(samples["SAMPLE_ID"]).sum().to_numpy() / 1e12
    blocks = np.array([per_sample[at : at + 10].sum() for at in range(0, len(per_sample), 10)])
    drawn = np.random.default_rng(7).choice(blocks, (4000, len(blocks))).sum(axis=1) / (SECONDS * THREADS)
    low, high = np.percentile(drawn, [0.05, 99.95])
    unseen = 7 / (len(per_sample) * THREADS)  # what no sample of so many sees once in a thousand tries
    return float(low) - 0.003, max(float(high), unseen) + 0.003  # and what the two readings are apart


@pytest.mark.alone
@pytest.mark.parametrize("mode", ["lock", "two_locks", "timer", "rwlock", "queue", "sync"])
def test_the_share_of_each_wait_lies_in_its_interval(mode: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, "sampled")
    folder = tmp_path / "segments"
    folder.mkdir(mode=0o700)
    command: list[str | Path] = [*PFS, "run", "--no-report", "--all-on", "--", program, mode, str(SECONDS + 2)]
    with subprocess.Popen(command, env=os.environ | {"PFS_DIR": str(folder)}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = process.stdout.readline().strip()
        time.sleep(0.5)
        [segment] = folder.glob(f"**/{pid}.pfs")
        with pfs.attach(segment) as schema:
            exact_sums(schema)  # now it knows the names
            begin, before = exact_sums(schema)
            with pfs.record(segment, hz=HZ) as recording:
                time.sleep(SECONDS)
            end, after = exact_sums(schema)
            passed = end - begin
    if recording.told()["processes"][pid]["sampler"]["scheduling"] != "fifo":
        pytest.skip("without SCHED_FIFO a sampler sees too few threads that compute")
    batches = recording._store
    from pfs._process.history.samples import _frame_of
    from pfs._process.history.store import Memory

    assert isinstance(batches, Memory)
    samples, _ = _frame_of(batches.batches, recording.told(), exact=False)
    samples = samples[samples["THREAD_ID"].notna()]
    shares = after.sub(before, fill_value=0) / (passed * 1e12 * THREADS)
    checked = 0
    for event, share in shares[shares > LEAST].items():
        low, high = interval(samples, str(event))
        assert low <= share <= high, (event, share, low, high)
        assert high - low < 0.25, "the interval says nothing"
        checked += 1
    assert checked >= 2
    # The corrected weights are the exact ones, whatever was sampled.
    corrected = recording.samples()
    known = corrected[corrected["EVENT_NAME"].notna()].groupby("EVENT_NAME")["WEIGHT"].sum() / (passed * 1e12 * THREADS)
    for event, share in shares[shares > 0.05].items():
        assert known[str(event)] == pytest.approx(share, rel=0.1), event
