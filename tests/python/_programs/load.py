"""Runs load.c in this process beside a reader of every table and a truncater, and compares the end with what the program
counted itself.

    python -m tests.python._programs.load LIBRARY FOLDER SECONDS TRUNCATED SEED

TRUNCATED says what is truncated at random meanwhile; what it leaves alone must be exact (semantics.md F4-F8). Prints what was
checked.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
import threading
import time
from collections import defaultdict
from typing import Any

import pfs
from pfs import _core

ALWAYS = (
    "events_waits_current",
    "events_waits_history",
    "events_waits_history_long",
    "events_waits_summary_by_thread_by_event_name",
)
GLOBAL = (
    "table_io_waits_summary_by_table",
    "table_lock_waits_summary_by_table",
    "events_waits_summary_global_by_event_name",
    "events_waits_summary_by_instance",
    "file_summary_by_instance",
    "file_summary_by_event_name",
)
# Name -> what is truncated besides ALWAYS, and the levels that keep everything.
TRUNCATED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "thread": ((), ("global", "account", "user", "host")),
    "global": (GLOBAL, ("account", "user", "host")),
    "account": (("events_waits_summary_by_account_by_event_name", "accounts"), ("global", "user", "host")),
    "user": (
        ("events_waits_summary_by_account_by_event_name", "events_waits_summary_by_user_by_event_name", "users"),
        ("global", "host"),
    ),
    "host": (("events_waits_summary_by_host_by_event_name", "hosts"), ("global", "user")),
}
KEYS = {"account": ("USER", "HOST"), "user": ("USER",), "host": ("HOST",), "global": ()}

Row = dict[str, Any]


def rows(table: str) -> list[Row]:
    names = [column["name"] for column in _core.table_info(table)["columns"]]
    return [dict(zip(names, row, strict=True)) for row in _core.rows(table, names, None)]


def wrong_in(table: str, row: Row) -> str:
    """Why no program can have made this row: empty if it may be true."""
    if "TIMER_END" in row:
        if (row["END_EVENT_ID"] is None) != (row["TIMER_WAIT"] is None):
            return "half an event"
        if row["TIMER_WAIT"] is not None and row["TIMER_START"] + row["TIMER_WAIT"] != row["TIMER_END"]:
            return "times of two events"
        if row["END_EVENT_ID"] is not None and row["END_EVENT_ID"] < row["EVENT_ID"]:
            return "ended before it began"
        return "" if row["EVENT_NAME"].startswith(("wait/", "idle")) and row["OPERATION"] else "no name"
    # One wait may be for many rows: then MIN is the whole wait's.
    of_rows = table.startswith(("table_io_", "objects_")) or row.get("EVENT_NAME") == "wait/io/table/sql/handler"
    for count in [name for name in row if name.startswith("COUNT_")]:
        suffix = count.removeprefix("COUNT_").replace("STAR", "WAIT")
        if "SUM_TIMER_" + suffix not in row:
            continue
        n, total, least, average, most = (
            row[name.format(suffix)] for name in (count, "SUM_TIMER_{}", "MIN_TIMER_{}", "AVG_TIMER_{}", "MAX_TIMER_{}")
        )
        if not least <= most or not (least * n <= total or of_rows) or total > most * n or average != (total // n if n else 0):
            return f"{suffix}: count {n}, sum {total}, min {least}, avg {average}, max {most} are not of one time"
    if "COUNT_MISC" in row and row["COUNT_STAR"] != row["COUNT_READ"] + row["COUNT_WRITE"] + row["COUNT_MISC"]:
        return "COUNT_STAR is not the sum of its parts"
    if "CURRENT_CONNECTIONS" in row and not 0 <= row["CURRENT_CONNECTIONS"] <= row["TOTAL_CONNECTIONS"] + 1:
        return "more connections than there ever were"
    return ""


def memory() -> int:
    return os.stat(_core.segment_path()).st_blocks * 512


def main(library: str, folder: str, seconds: float, truncated: str, seed: int) -> None:
    load = ctypes.CDLL(library)
    for name in ("load_instrument", "load_user", "load_host"):
        getattr(load, name).restype = ctypes.c_char_p
    for name in ("load_events", "load_bytes_read", "load_bytes_written"):
        getattr(load, name).restype = ctypes.c_uint64
    more, exact = TRUNCATED[truncated]
    done = threading.Event()
    wrong: list[str] = []
    read: dict[str, int] = defaultdict(int)

    def reader() -> None:
        while not done.is_set():
            for table in pfs.tables():
                for row in rows(table):
                    read[table] += 1
                    if reason := wrong_in(table, row):
                        wrong.append(f"{table}: {reason}: {row}")

    def truncater() -> None:
        dice = random.Random(seed)
        while not done.is_set():
            pfs.truncate(dice.choice(ALWAYS + more))
            time.sleep(dice.random() * 0.02)

    assert load.load_start(os.fsencode(folder), 8, ctypes.c_long(seed)) == 0
    helpers = [threading.Thread(target=target) for target in (reader, truncater)]
    for helper in helpers:
        helper.start()
    time.sleep(seconds / 3)
    early = memory()
    time.sleep(seconds * 2 / 3)
    late = memory()
    done.set()
    for helper in helpers:
        helper.join()
    load.load_stop()

    kinds = [load.load_instrument(kind).decode() for kind in range(load.load_kinds())]
    counted: dict[str, dict[tuple[Any, ...], int]] = {level: defaultdict(int) for level in KEYS}
    for account in range(load.load_accounts()):
        user, host = load.load_user(account).decode() or None, load.load_host(account).decode() or None
        for kind, name in enumerate(kinds):
            n = load.load_events(account, kind)
            for level, member in (("account", (user, host)), ("user", (user,)), ("host", (host,)), ("global", ())):
                counted[level][*member, name] += n
    if "PFS_LOAD_CONTROL" in os.environ:  # one event that pfs did not see
        for level, member in (("account", (None, None)), ("user", (None,)), ("host", (None,)), ("global", ())):
            counted[level][*member, kinds[0]] += 1
    lost = {row["VARIABLE_NAME"]: int(row["VARIABLE_VALUE"]) for row in rows("global_status") if "_lost" in row["VARIABLE_NAME"]}
    assert not {name: n for name, n in lost.items() if n}, lost
    assert not wrong, wrong[:5]
    for level in exact:
        table = (
            "events_waits_summary_global_by_event_name" if level == "global" else f"events_waits_summary_by_{level}_by_event_name"
        )
        shown = {
            (*[row[key] for key in KEYS[level]], row["EVENT_NAME"]): row["COUNT_STAR"]
            for row in rows(table)
            if row["EVENT_NAME"] in kinds
        }
        off = {key: (shown.get(key), n) for key, n in counted[level].items() if shown.get(key, 0) != n}
        assert not off, f"{table}: shown and counted by the program: {off}"
    if "global" in exact:
        (file,) = [row for row in rows("file_summary_by_event_name") if row["EVENT_NAME"] in kinds]
        assert file["SUM_NUMBER_OF_BYTES_READ"] == load.load_bytes_read()
        assert file["SUM_NUMBER_OF_BYTES_WRITE"] == load.load_bytes_written()
    # Flat: what comes and goes takes the place of what went. (The first third fills histories and pools.)
    assert late <= early + 512 * 1024, f"memory grew from {early >> 10} to {late >> 10} KiB"
    (skipped,) = [row["VARIABLE_VALUE"] for row in rows("global_status") if row["VARIABLE_NAME"].endswith("rows_skipped")]
    done_and_read = f"{sum(counted['global'].values())} events, {sum(read.values())} rows of {len(read)} tables read"
    print(f"{done_and_read}, {skipped} skipped, {early >> 10} to {late >> 10} KiB")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
