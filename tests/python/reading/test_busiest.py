"""The table busiest: each part has the numbers of the table that it is made of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import pfs

FILES = ("SUM_NUMBER_OF_BYTES_READ", "SUM_NUMBER_OF_BYTES_WRITE")
STATEMENTS = ("SUM_ROWS_SENT", "SUM_ERRORS")
PARTS = {
    "waits": (
        "events_waits_summary_global_by_event_name",
        {"NAME": "EVENT_NAME", "EVENT_NAME": "EVENT_NAME"},
        ("COUNT_NOT_SAMPLED",),
    ),
    "files": ("file_summary_by_instance", {"NAME": "FILE_NAME", "EVENT_NAME": "EVENT_NAME"}, ("COUNT_NOT_SAMPLED", *FILES)),
    "statements": ("events_statements_summary_by_digest", {"NAME": "DIGEST_TEXT", "SCHEMA_NAME": "SCHEMA_NAME"}, STATEMENTS),
    "threads": (
        "events_waits_summary_by_thread_by_event_name",
        {"THREAD_ID": "THREAD_ID", "EVENT_NAME": "EVENT_NAME"},
        ("COUNT_NOT_SAMPLED",),
    ),
}
TIMES = ("COUNT_STAR", "SUM_TIMER_WAIT", "MAX_TIMER_WAIT")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_the_numbers_of_its_table(part: str, tmp_path: Path) -> None:
    with pfs.Lock("busiest/LOCK"), pfs.open(tmp_path / "data", "w", name="busiest/data") as file:
        file.write("twelve bytes")
    with pfs.statement("test/busiest", text="SELECT 1 FROM busiest", schema="shop") as statement:
        statement.add(rows_sent=3)
    with pfs.idle():
        pass
    table, key, more = PARTS[part]
    numbers = [*TIMES, *more]
    saved = pfs.snapshot()  # of one moment
    found, base = saved["busiest"], saved[table]
    found = found[found["PART"] == part]
    base = base[base["COUNT_STAR"] > 0]
    if "EVENT_NAME" in base:
        base = base[base["EVENT_NAME"] != "idle"]
    ours = Counter(tuple(row) for row in found[[*key, *numbers]].astype(object).fillna("").to_numpy())
    theirs = Counter(tuple(row) for row in base[[*key.values(), *numbers]].astype(object).fillna("").to_numpy())
    assert ours == theirs
    assert sum(ours.values()) > 0
    others = set(TIMES) | {"COUNT_NOT_SAMPLED", *FILES, *STATEMENTS}
    assert not found[sorted(others - {*numbers, "COUNT_NOT_SAMPLED"})].any(axis=None)


def test_threads_have_their_names() -> None:
    names = pfs.table("threads").set_index("THREAD_ID")["NAME"]
    rows = pfs.table("busiest", where="PART = 'threads'")
    assert rows["NAME"].tolist() == [names[thread] for thread in rows["THREAD_ID"]]
