"""pfs.record and pfs.samples: files after a crash, corrected weights, programs that stop, fork, exec and die."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
import pfs.fleet
from pfs import _core
from pfs._process.history.names import SAMPLES
from pfs._process.history.sampled import Sampled
from pfs._process.history.store import Folder, read_table
from pfs._process.history.weights import corrected
from tests.python._programs.subject import Subject, clean_environment, until

SECOND = 10**12
COLUMNS = ["NODE", "PID", *(column["name"] for column in _core.table_info("active_sessions")["columns"])]

# One thread holds the lock for 0.15 s of 0.25 s. The other wants it all the time, and says when it waited.
PHASES = """
import threading, time
lock = pfs.Lock("app/LOCK_phases")
log, over = [], threading.Event()
def hold():
    while not over.is_set():
        with lock:
            time.sleep(0.15)
        time.sleep(0.1)
def want():
    while not over.is_set():
        begin = time.time()
        with lock:
            log.append((begin, time.time()))
        over.wait(0.02)
threads = [pfs.Thread(target=hold, name="hold"), pfs.Thread(target=want, name="want")]
for thread in threads:
    thread.start()
"""


def test_samples_are_right_about_a_program_that_keeps_a_log(program: Subject, folder: Path) -> None:
    """A sample says that the waiter waits exactly while the program's own log says so, but for the moments of change."""
    program.do(PHASES)
    samples = pfs.samples(program.pid, seconds=3, hz=100, exact=False)
    program.do(
        f"over.set()\nfor thread in threads: thread.join()\nwith open({str(folder / 'log')!r}, 'w') as f: f.write(repr(log))"
    )
    log = ast.literal_eval((folder / "log").read_text())
    want = samples[samples["THREAD_NAME"] == "thread/python/want"]
    right: list[bool] = []
    seen = want["EVENT_NAME"].fillna("").eq("wait/synch/mutex/app/LOCK_phases")
    for moment, is_seen in zip(want["SAMPLE_TIME"], seen, strict=True):
        at = moment.replace(tzinfo=UTC).timestamp()
        if not any(abs(at - change) < 0.005 for waited in log for change in waited):
            waits = any(begin < at < end for begin, end in log)
            right.append(waits == is_seen)
    assert len(right) > 100
    assert sum(right) / len(right) > 0.98  # a thread that loses its processor between its clock and the lock is late
    ids = samples.groupby("THREAD_NAME")["THREAD_ID"].first()
    assert set(want["BLOCKING_THREAD_ID"].dropna()) == {ids["thread/python/hold"]}


def test_a_frame_of_samples_has_the_declared_columns_live_and_kept(program: Subject, folder: Path) -> None:
    program.do(PHASES)
    live = pfs.samples(program.pid, seconds=0.5, hz=50)
    with pfs.record(program.pid, folder / "kept.ash", hz=50):
        time.sleep(1)
    kept = pfs.samples(folder / "kept.ash")
    assert list(live.columns) == list(kept.columns) == COLUMNS
    assert live.dtypes.equals(kept.dtypes)
    assert pfs.samples(folder).equals(kept)  # a folder that has folders of samples
    assert list(pfs.samples(folder, ["PID", "EVENT_NAME"])) == ["PID", "EVENT_NAME"]
    for frame in (live, kept):
        assert len(frame) > 20
        assert frame.attrs["pid"] == program.pid == frame["PID"].iloc[0]
        assert (frame.attrs["hz"], frame.attrs["unit"]) == (50, "ps")
        assert frame.attrs["sampler"]["scheduling"] in ("fifo", "slice", "normal")
        per_sample = frame.groupby("SAMPLE_ID")["SAMPLE_TIME"].nunique()
        assert per_sample.max() == 1
    middle = kept["SAMPLE_TIME"].iloc[len(kept) // 2].to_pydatetime()
    assert (pfs.samples(folder, begin=middle)["SAMPLE_TIME"] >= middle).all()
    assert len(pfs.samples(folder, begin=middle)) + len(pfs.samples(folder, end=middle)) == len(kept)
    program.do("over.set()")


def test_a_wait_began_at_one_moment_in_all_samples_live_and_kept(program: Subject, folder: Path) -> None:
    """Files keep the begin, so that a long wait takes no space: it is the same in each sample, and the time so far follows."""
    program.do("import threading\nwait = pfs.Condition('app/COND_long')\ndef work():\n    with wait: wait.wait()")
    program.do("pfs.Thread(target=work, name='long', daemon=True).start()")
    live = pfs.samples(program.pid, seconds=1, hz=50)
    with pfs.record(program.pid, folder / "kept.ash", hz=50):
        time.sleep(1)
    for frame in (live, pfs.samples(folder / "kept.ash")):
        long = frame[frame["EVENT_NAME"].fillna("").str.endswith("COND_long")]
        assert len(long) > 20
        began = long["SAMPLE_TIME"].astype("int64") - long["TIMER_WAIT"].astype("int64") // 10**6
        assert began.max() - began.min() <= 1  # microseconds
        assert (long["TIMER_WAIT"].diff().dropna() > 0).all()


def test_the_weights_of_a_wait_add_up_to_its_exact_time(program: Subject) -> None:
    program.do("before = pfs.table('events_waits_summary_global_by_event_name')" + PHASES)
    samples = pfs.samples(program.pid, seconds=2, hz=30)
    rough = samples[samples["EVENT_NAME"] == "wait/synch/mutex/app/LOCK_phases"]
    exact = 2 * 0.6 * SECOND  # held 0.15 s of 0.25 s
    assert 0.7 < rough["WEIGHT"].sum() / exact < 1.2
    program.do("over.set()")


def frames(rows: list[tuple[Any, ...]], totals: list[tuple[Any, ...]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Makes samples of (second, THREAD_ID, EVENT_NAME, WEIGHT), and sums of (second, EVENT_NAME, SUM_TIMER_WAIT)."""
    start = pd.Timestamp("2026-01-01")
    samples = pd.DataFrame(rows, columns=["AT", "THREAD_ID", "EVENT_NAME", "WEIGHT"])
    samples["THREAD_ID"] = samples["THREAD_ID"].astype("Int64")
    sums = pd.DataFrame(totals, columns=["AT", "EVENT_NAME", "SUM_TIMER_WAIT"])
    for frame in (samples, sums):
        frame["SAMPLE_TIME"] = (start + pd.to_timedelta(frame.pop("AT"), unit="s")).astype("datetime64[us]")
        frame.insert(0, "PID", 7)
        frame.insert(0, "NODE", "here")
    return samples, sums


def test_weights_are_corrected_by_minute_and_the_rest_shares_what_is_left() -> None:
    samples, sums = frames(
        [
            (1, 1, "a", 10), (2, 1, "a", 10), (3, 1, None, 10), (4, 1, None, 10), (5, 1, "untimed", 10), (6, None, None, 10),
            (61, 1, "a", 10), (62, 1, None, 10),
            (121, 1, "a", 10), (122, 1, None, 10),
        ],
        [(1, "a", 20), (30, "a", 6), (31, "never seen", 4), (61, "a", 5)],
    )  # fmt: skip
    weights = corrected(samples, sums)["WEIGHT"].tolist()
    assert weights == [
        13, 13,  # 26 in all
        5, 5,  # of 50 known, 26 are a, 4 are never seen and 10 untimed
        10,  # it has no exact time
        10,  # the kernel's time is exact
        5, 15,  # the next minute
        10, 10,  # there are no sums
    ]  # fmt: skip


def test_a_reading_of_sums_is_of_the_second_before_it_in_whichever_minute_that_began() -> None:
    samples, sums = frames(
        [(59.4, 1, "a", 10), (59.8, 1, "a", 10), (60.2, 1, "a", 10), (60.3, 1, None, 10), (61, 1, "a", 10), (130, 1, "a", 10)],
        [(60.35, "a", 15), (61.3, "a", 10), (300, "a", 7)],
    )
    # A recording may begin less than a second before a minute is over, and its last second may have no reading.
    assert corrected(samples, sums)["WEIGHT"].tolist() == [6, 6, 6, 25, 6, 10]


def test_without_sums_the_weights_stay() -> None:
    samples, sums = frames([(1, 1, "a", 10)], [])
    assert corrected(samples, sums)["WEIGHT"].tolist() == [10]


def test_weights_of_two_processes_do_not_meet() -> None:
    samples, sums = frames([(1, 1, "a", 10), (2, 1, "a", 10)], [(1, "a", 30)])
    samples["PID"] = [7, 8]
    assert corrected(samples, sums)["WEIGHT"].tolist() == [30, 10]


def test_a_row_takes_few_bytes_in_files(folder: Path) -> None:
    """The rows of 40 threads for three minutes: in each sample a quarter of the threads is in a wait that is new."""
    random = np.random.default_rng(1)
    samples, threads = 3600, 40
    times = 1_760_000_000_000_000 + np.cumsum(random.integers(25_000, 75_000, samples))
    is_new = random.random((samples, threads)) < 0.25
    is_new[0] = True
    since = np.maximum.accumulate(np.where(is_new, np.arange(samples)[:, None], 0), axis=0)
    began = (times[:, None] - random.integers(0, 50_000, (samples, threads)))[since, np.arange(threads)]
    each = {
        "SAMPLE_ID": np.arange(1, samples + 1), "SAMPLE_TIME": times,
        "WEIGHT": random.integers(25_000, 75_000, samples) * 1_000_123, "LATENESS": random.integers(5, 9, samples) * 12_345_678,
    }  # fmt: skip
    columns = {name: np.repeat(values, threads) for name, values in each.items()}
    columns |= {
        "THREAD_ID": np.tile(np.arange(threads), samples), "EVENT_ID": np.cumsum(is_new * 37, axis=0).ravel(),
        "TIMER_WAIT": (columns["SAMPLE_TIME"] - began.ravel()) * 10**6,
    }  # fmt: skip
    rows = samples * threads
    parts: list[_core.Part] = [("PID", "uint64", False, np.full(rows, 7, np.uint64), None, None)]
    for name, values in columns.items():
        kind, of = ("timestamp", np.int64) if name == "SAMPLE_TIME" else ("uint64", np.uint64)
        parts.append((name, kind, False, values.astype(of), None, None))
    kept = Folder(folder / "small.ash")
    for at in range(0, rows, 10_000):
        kept.add((SAMPLES, min(10_000, rows - at), [(*part[:3], part[3][at : at + 10_000], None, None) for part in parts]))
    kept.close()
    [file] = kept.path.glob("*.parquet")
    assert file.stat().st_size < 3 * rows
    assert pq.ParquetFile(file).num_row_groups == 2  # a file of many rows is not in memory at once
    read = read_table(kept.path, SAMPLES)
    assert read is not None
    back = read.to_pandas().sort_values(["SAMPLE_ID", "THREAD_ID"], ignore_index=True)
    for name in ("EVENT_ID", "TIMER_WAIT", "WEIGHT"):
        assert (back[name].to_numpy() == columns[name]).all(), name


def recorder(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pfs", "record", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(folder),
    )


def test_a_collector_samples_beside_its_cuts(program: Subject, folder: Path) -> None:
    program.do(PHASES)
    to = folder / "many"
    command = [
        sys.executable,
        "-m",
        "pfs",
        "collect",
        "--to",
        str(to),
        "--node",
        "web1",
        "--interval",
        "0.5",
        "--sample",
        "--hz",
        "50",
    ]
    environment = clean_environment(program.path.parent)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            until(lambda: size(to / "web1" / "samples.ash") > 0 and len(list((to / "web1").glob("*.pfs.zip"))) > 1)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.communicate()[1] == ""
    samples = pfs.samples(to)
    assert set(samples["NODE"]) == {"web1"}
    assert set(samples["PID"]) == {program.pid}
    assert not list((to / "web1" / "samples.ash").glob("*.arrows"))  # it has ended in order
    assert pfs.sql("select distinct NODE from sys.ash_threads", to).rows() == [("web1",)]
    fleet = pfs.fleet.read(to)
    assert fleet.nodes["NODE"].tolist() == ["web1"]
    # Samples beside the sums, in one statement.
    question = "select NODE, COMMAND, count(*) from active_session_history join fleet.processes using (NODE, PID) group by all"
    assert [(node, count) for node, _, count in fleet.sql(question).rows()] == [("web1", len(samples))]
    assert fleet.sql("from sys.ash_classes").rows()
    program.do("over.set()")


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("active_session_history-*"))


def test_files_can_be_read_while_they_are_written_and_after_kill_9(program: Subject, folder: Path) -> None:
    program.do(PHASES)
    kept = folder / "killed.ash"
    process = recorder(folder, program.pid, "--hz", 100, "-o", kept)
    try:
        until(lambda: kept.exists() and size(kept) > 0)
        until(lambda: pfs.samples(kept)["SAMPLE_ID"].nunique() > 150)  # two batches
        meanwhile = pfs.samples(kept, exact=False)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
    after = pfs.samples(kept, exact=False)
    assert len(after) >= len(meanwhile)
    assert after.iloc[: len(meanwhile)].equals(meanwhile)
    [stream] = kept.glob("active_session_history-*.arrows")
    whole = stream.read_bytes()
    stream.write_bytes(whole[:-40])  # a tail that is damaged: the last batch is lost, the others are there
    cut = pfs.samples(kept, exact=False)
    assert 0 < len(cut) < len(after)
    assert cut.equals(after.iloc[: len(cut)])
    stream.write_bytes(whole)
    with pfs.record(program.pid, kept, hz=50):  # goes on in the folder, and makes Parquet of what was left
        time.sleep(0.3)
    assert not list(kept.glob("*.arrows"))
    both = pfs.samples(kept, exact=False)
    assert len(both) > len(after)
    assert both.groupby("SAMPLE_ID")["SAMPLE_TIME"].nunique().max() == 1  # the second recording gives no number again
    assert both["SAMPLE_ID"].is_monotonic_increasing
    program.do("over.set()")


@pytest.fixture
def own_thread() -> Iterator[None]:
    """A thread of this process that pfs knows."""
    over = threading.Event()
    thread = pfs.Thread(target=over.wait, name="samples/seen")
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("own_thread")
def test_old_files_go_and_the_newest_stay(folder: Path) -> None:
    kept = folder / "host.ash"
    with pfs.record(None, kept, hz=100):
        time.sleep(0.2)
    names = [f"active_session_history-{datetime.now(UTC) - timedelta(hours=hours):%Y%m%dT%H%M%SZ}.parquet" for hours in (3, 2, 1)]
    [written] = kept.glob("active_session_history-*.parquet")
    for name in names:
        (kept / name).write_bytes(written.read_bytes())
    Folder(kept, keep=timedelta(hours=1.5)).close()
    assert sorted(path.name for path in kept.glob("active_session_history-*")) == [names[2], written.name]
    room = sum(path.stat().st_size for path in kept.glob(f"*-{written.stem.rpartition('-')[2]}.parquet"))
    Folder(kept, keep_size=room).close()
    assert [path.name for path in kept.glob("active_session_history-*")] == [written.name]


@pytest.mark.usefixtures("own_thread")
def test_samples_go_on_while_rows_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []  # meanwhile
    read = Sampled._read_sums

    def read_slowly(self: Sampled) -> None:
        before, end = self._sampling.samples, time.monotonic() + 20
        while self._sampling.samples < before + 5 and time.monotonic() < end and not self._is_stopping:
            time.sleep(0.01)
        taken.append(self._sampling.samples - before)
        read(self)

    monkeypatch.setattr(Sampled, "_read_sums", read_slowly)
    with pfs.record(hz=100):
        until(lambda: len(taken) > 2, 90)
    assert min(taken[:3]) >= 5


@pytest.mark.usefixtures("own_thread")
def test_a_slow_rate_goes_on_when_a_second_has_no_sample() -> None:
    with pfs.record(hz=0.4) as recording:
        time.sleep(7)
        assert not recording.is_over
    assert recording.samples()["SAMPLE_ID"].nunique() >= 2


@pytest.mark.usefixtures("own_thread")
@pytest.mark.parametrize("error", [pa.ArrowInvalid("no such encoding"), OSError("No space left on device")])
def test_a_stream_that_cannot_become_parquet_is_said_and_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter", refuse)
    with pfs.record(None, folder / "own.ash", hz=100) as recording:
        time.sleep(0.3)
    [stream] = (folder / "own.ash").glob("active_session_history-*.arrows")
    assert f"{stream.name} did not become Parquet, and is read as it is: {error}" in recording.problems
    assert len(pfs.samples(folder / "own.ash")) > 5


def test_a_folder_with_other_files_is_refused(folder: Path) -> None:
    (folder / "letters").mkdir()
    (folder / "letters" / "to_anna.txt").write_text("dear Anna")
    with pytest.raises(pfs.InvalidValue, match="has no samples"):
        pfs.record(None, folder / "letters")
    with pytest.raises(pfs.InvalidValue, match="has no samples"):
        pfs.samples(folder / "letters")
    with pytest.raises(pfs.InvalidValue, match="bad value 0 for hz"):
        pfs.record(hz=0)


def test_a_program_that_is_stopped_is_sampled_and_one_that_dies_ends_the_recording(program: Subject) -> None:
    program.do(PHASES)
    with pfs.record(program.pid, hz=100) as recording:
        time.sleep(0.5)
        program.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        assert not recording.is_over
        stopped = recording.samples()["SAMPLE_TIME"].max()
        time.sleep(1.5)
        assert recording.samples()["SAMPLE_TIME"].max() > stopped  # it goes on
        program.process.send_signal(signal.SIGCONT)
        program.process.kill()
        program.process.wait()
        until(lambda: recording.is_over)
    assert len(recording.samples()) > 100


def test_a_process_that_has_ended_is_refused(program: Subject) -> None:
    program.kill()
    for ask in (pfs.samples, pfs.record):
        with pytest.raises(pfs.AttachError, match="has ended"):
            ask(program.path)


def test_an_exec_ends_a_recording_and_a_fork_does_not(program: Subject) -> None:
    program.do("import os, subprocess, sys, threading")
    with pfs.record(program.pid, hz=100) as recording:
        program.do("child = os.fork()\nif child == 0:\n    os._exit(0)\nos.waitpid(child, 0)")
        time.sleep(1.2)
        assert not recording.is_over
        program.send("os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)'])")
        until(lambda: recording.is_over)
        os.kill(program.pid, 0)  # the process is there: another program runs in it
    assert set(recording.samples()["PID"]) == {program.pid}


def test_threads_that_pfs_has_not_recorded_have_the_times_of_the_kernel(program: Subject) -> None:
    program.do("import _thread, time\ndef spin():\n    end = time.monotonic() + 60\n    while time.monotonic() < end: pass\n")
    program.do("_thread.start_new_thread(spin, ())")
    samples = pfs.samples(program.pid, seconds=3.5, hz=20)
    strangers = samples[samples["THREAD_ID"].isna()]
    assert set(strangers["EVENT_NAME"].isna()) == {True}
    busiest = strangers.groupby("THREAD_OS_ID")["WEIGHT"].sum().max()
    assert busiest < 4 * SECOND
    computes = strangers[strangers["THREAD_STATE"].isin(["ON CPU", "RUNNABLE"])].groupby("THREAD_OS_ID")["WEIGHT"].sum()
    assert computes.max() > SECOND  # of two seconds that were counted at least


@pytest.mark.usefixtures("own_thread")
def test_what_a_folder_says_about_itself(folder: Path) -> None:
    with pfs.record(None, folder / "own.ash", hz=200):
        time.sleep(0.3)
    about = json.loads((folder / "own.ash" / "about.json").read_text())
    assert about["hz"] == 200
    one = about["processes"][str(os.getpid())]["sampler"]
    assert one["samples"] > 10
    assert 0 < one["processor_time"] < 0.3
    assert (folder / "own.ash").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (folder / "own.ash").iterdir()} == {0o600}
