"""Frames as ``pfs.samples`` returns them, of a program whose every moment is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["longer", "service"]

_BEGIN = 1_800_000_000 * 10**6  # microseconds since 1970
_FILE = "wait/io/file/shop/log"
_LOCK = "wait/synch/mutex/shop/LOCK_stock"


def service(seconds: int, threads: int, hz: int = 20, digests: int = 40, lines: int = 30, seed: int = 1) -> pd.DataFrame:
    """Returns samples of a service. Thread 1 holds a lock and syncs a file; half of the others wait for it in the second third of
    the time. The rest computes or reads, in some statement, or is idle."""
    random = np.random.default_rng(seed)
    samples = seconds * hz
    periods = np.rint(1e6 / hz * random.uniform(0.5, 1.5, samples)).astype(np.int64)
    times = _BEGIN + np.cumsum(periods)
    rows = samples * threads
    thread = np.tile(np.arange(1, threads + 1), samples)
    moment = np.repeat(np.arange(samples), threads)
    in_second_third = (times[moment] - _BEGIN) // (seconds * 10**6 // 3) == 1
    blocked = in_second_third & (thread % 2 == 0)
    holder = thread == 1
    busy = random.random(rows) < 0.5
    reads = random.random(rows) < 0.5
    kind = np.select(
        [blocked, holder, busy & reads, busy], ["wait/synch/mutex", "wait/io/file", "wait/io/file", "computing"], "idle"
    )
    text = pd.StringDtype("python")

    def column(values: Any) -> pd.Series[str]:
        return pd.Series(values, dtype="object").astype(text)

    active = kind != "idle"
    has_statement = active & ~holder
    statement = np.char.add(
        "SELECT * FROM `table", np.char.add(random.integers(0, digests, rows).astype(str), "` WHERE `id` = ?")
    )
    line = np.char.add("shop.c:", random.integers(100, 100 + lines, rows).astype(str))
    is_wait = np.char.startswith(kind, "wait/")
    state = np.select([kind == "idle", kind == "computing"], ["IDLE", "ON CPU"], "WAITING")
    name = np.where(holder, "thread/shop/log", np.char.add("thread/shop/worker-", thread.astype(str)))

    def where(condition: Any, values: Any) -> Any:
        return np.where(condition, np.asarray(values, dtype=object), None)  # type: ignore[call-overload, unused-ignore]

    frame = pd.DataFrame(
        {
            "NODE": column(np.full(rows, "host")),
            "PID": np.full(rows, 4711),
            "SAMPLE_ID": moment + 1,
            "SAMPLE_TIME": times[moment].astype("datetime64[us]"),
            "WEIGHT": periods[moment] * 1_000_000,
            "THREAD_ID": pd.array(thread, "Int64"),
            "THREAD_NAME": column(name),
            "THREAD_STATE": pd.Categorical(state),
            "WAIT_CLASS": column(kind),
            "EVENT_NAME": column(where(is_wait, np.where(blocked, _LOCK, _FILE))),
            "OPERATION": column(where(is_wait, np.select([blocked, holder], ["lock", "sync"], "read"))),
            "SOURCE": column(where(is_wait, np.where(holder, "log.c:7", line))),
            "OBJECT_NAME": column(where(is_wait & ~blocked, np.where(holder, "/var/log/shop", "/data/shop.db"))),
            "STATEMENT_EVENT_ID": pd.array(where(has_statement, np.ones(rows, int)), "Int64"),
            "STATEMENT_NAME": column(where(has_statement, np.full(rows, "statement/sql/select"))),
            "DIGEST_TEXT": column(where(has_statement, statement)),
            "STAGE_NAME": column(np.full(rows, None)),
            "BLOCKING_THREAD_ID": pd.array(where(blocked, np.ones(rows, int)), "Int64"),
        }
    )
    frame.attrs = {"pid": 4711, "program": "shop", "node": "host", "hz": hz}
    return frame


def longer(frame: pd.DataFrame, times: int) -> pd.DataFrame:
    """Returns the samples again and again, one after the other."""
    length = frame["SAMPLE_TIME"].max() - frame["SAMPLE_TIME"].min() + pd.Timedelta("50ms")
    parts = [
        frame.assign(SAMPLE_TIME=frame["SAMPLE_TIME"] + n * length, SAMPLE_ID=frame["SAMPLE_ID"] + n * 10**6)
        for n in range(times)
    ]
    found = pd.concat(parts, ignore_index=True)
    found.attrs = frame.attrs
    return found
