"""Arrow: every table read through the C stream equals pfs.table, for each consumer; the exported memory outlives its owner."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import pfs
from pfs import _core
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import Subject, subject

WORK = (
    "pfs.setup_consumers.update(enabled=True); pfs.set_account('joe', 'here')\n"
    "for i in range(20):\n"
    "    with pfs.Lock('app/LOCK'), pfs.open('file', 'w', name='app/data') as file: file.write('x' * 100)\n"
    "    with pfs.statement('app/query', 'SELECT %d' % i), pfs.stage('app/step'): pass\n"
    "kept = pfs.Lock('app/KEPT')"
)


@pytest.fixture
def program(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    monkeypatch.chdir(tmp_path)
    with subject(folder) as running:
        running.do(WORK)
        yield running


def values_of(frame: pd.DataFrame) -> list[list[Any]]:
    """Returns the values of each column as Python objects, with None for NULL."""
    columns = []
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            column = column.dt.tz_localize(None)
        null = column.isna().to_numpy()
        columns.append([None if is_null else value for value, is_null in zip(column.tolist(), null, strict=True)])
    return columns


def arrow_values(arrow: Any) -> list[list[Any]]:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    table = pa.table(arrow)
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            assert str(column.type) == "timestamp[us, tz=UTC]"
            column = column.cast(pa.timestamp("us"))
            columns.append([None if v is None else pd.Timestamp(v) for v in column.to_pylist()])
        else:
            columns.append(column.to_pylist())
    return columns


def assert_all_equal(tables: dict[str, pd.DataFrame], arrow: Any) -> None:
    checked = 0
    for name, frame in tables.items():
        stream = arrow(name)
        assert stream.columns == list(frame.columns), name
        assert len(stream) == len(frame), name
        for column, one, two in zip(frame.columns, values_of(frame), arrow_values(stream), strict=True):
            assert one == two, (name, column)
        checked += 1
    assert checked == len(pfs.tables())


def test_every_table_of_a_dead_process_equals_its_frame(program: Subject) -> None:
    """A dead process does not change between two reads, so all values of all tables can be compared."""
    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()
    with pfs.attach(program.pid) as schema:
        _core.measure_timers()
        frames = {name: schema.table(name) for name in schema.tables()}
        assert sum(map(len, frames.values())) > 1000
        assert_all_equal(frames, schema.arrow)
        taken = schema.snapshot()
        assert_all_equal(dict(taken), taken.arrow)


@fresh_process()
def test_tables_of_this_process_equal_their_frames() -> None:
    pfs.setup_consumers.update(enabled=True)
    with pfs.Lock("app/LOCK"):
        pass
    pfs.setup_instruments.update(enabled=False)
    for name in (
        "events_waits_summary_global_by_event_name",
        "threads",
        "setup_instruments",
        "performance_timers",
        "mutex_instances",
    ):
        one, two = pfs.table(name), pfs.arrow(name)
        assert values_of(one) == arrow_values(two), name
    assert pfs.arrow("threads", ["NAME", "thread_id"]).columns == ["NAME", "THREAD_ID"]


def test_bad_names_are_errors() -> None:
    with pytest.raises(pfs.UnknownTable, match="nearest"):
        pfs.arrow("thread")
    with pytest.raises(pfs.UnknownColumn, match="legal"):
        pfs.arrow("threads", ["NOTHING"])


@pytest.mark.needs("nanoarrow")
@fresh_process()
def test_four_consumers_agree() -> None:
    import nanoarrow  # type: ignore[import-untyped, unused-ignore]
    import polars
    import pyarrow as pa

    pfs.setup_consumers.update(enabled=True)
    for _ in range(10):
        with pfs.Lock("app/LOCK"):
            pass
    for name in ("events_waits_history_long", "threads", "events_statements_histogram_global", "setup_objects", "hosts"):
        held = pfs.arrow(name)
        rows = list(zip(*arrow_values(held), strict=True)) if len(held) else []
        assert pa.table(held).num_rows == len(held)
        assert [tuple(row) for row in polars.DataFrame(held).rows()] == rows, name
        connection = duckdb.connect(":memory:")
        connection.register("held", held)
        assert connection.sql("select * from held").fetchall() == rows, name
        array = nanoarrow.ArrayStream(held).read_all()
        assert len(array) == len(rows)
        from_arrow: Any = getattr(pd.DataFrame, "from_arrow", None)  # pandas 3
        if from_arrow is not None:
            assert values_of(from_arrow(held)) == arrow_values(held)


@fresh_process()
def test_text_that_is_no_utf8_is_escaped() -> None:
    """Two different texts that look equal after the escape are one member of the dictionary."""
    import pyarrow as pa

    for name in (b"caf\xc3\xa9\xff", b"caf\xc3\xa9\\xff", b"\xed\xa0\x80"):
        with pfs.open(os.path.join(os.getcwdb(), name), "w", name="app/data"):
            pass
    column = pa.table(pfs.arrow("file_summary_by_instance", ["FILE_NAME"]))["FILE_NAME"].combine_chunks()
    texts = sorted(os.path.basename(text) for text in column.to_pylist())
    assert texts == ["\\xed\\xa0\\x80", "caf\u00e9\\xff", "caf\u00e9\\xff"]
    members = column.dictionary.to_pylist()
    assert len(members) == len(set(members)) == 2


@fresh_process()
def test_memory_lives_as_long_as_its_last_reader() -> None:
    """Streams that nobody reads, streams that end early, and arrays whose table is gone."""
    import ctypes

    import pyarrow as pa

    held = pfs.arrow("setup_instruments")
    expected = arrow_values(held)
    for _ in range(200):
        held.__arrow_c_stream__()
        held.__arrow_c_schema__()
        reader = pa.RecordBatchReader.from_stream(held)
        reader.close()
    batch = pa.RecordBatchReader.from_stream(held).read_next_batch()
    names = batch.column(0)
    one_schema = pa.schema(held)
    del held, batch
    gc.collect()
    assert names.to_pylist() == expected[0]
    assert one_schema.names[0] == "NAME"
    capsule = pfs.arrow("setup_instruments").__arrow_c_stream__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    assert pointer(capsule, b"arrow_array_stream")
    again = pfs.arrow("setup_instruments")
    assert arrow_values(again) == arrow_values(again)


@fresh_process()
def test_a_consumer_that_dies_in_the_middle() -> None:
    """An exception between two batches, a thread that ends with its reader, and a forked child that is killed, free their own."""
    import contextlib
    import threading

    import pyarrow as pa

    held = pfs.arrow("setup_instruments")
    expected = arrow_values(held)

    def fails(reader: pa.RecordBatchReader) -> None:
        for _ in reader:
            raise InterruptedError

    for _ in range(50):
        with contextlib.suppress(InterruptedError):
            fails(pa.RecordBatchReader.from_stream(held))
            raise AssertionError("it has read nothing")
    thread = threading.Thread(target=lambda: pa.RecordBatchReader.from_stream(held).schema.names)
    thread.start()
    thread.join()
    capsule = held.__arrow_c_stream__()  # this process and its child have the struct, and each frees its own
    child = os.fork()
    if child == 0:
        pa.RecordBatchReader.from_stream(held).read_next_batch()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    del capsule
    gc.collect()
    assert arrow_values(held) == expected


def test_timers_are_measured_once(tmp_path: Path) -> None:
    first = pfs.table("performance_timers")
    assert values_of(first) == values_of(pfs.table("performance_timers"))
    _core.measure_timers()
    frequency = pfs.table("performance_timers")["TIMER_FREQUENCY"].astype("float64")
    assert np.allclose(frequency, first["TIMER_FREQUENCY"].astype("float64"), rtol=0.01)


def test_every_column_of_a_summary_has_a_rule() -> None:
    """A column is of the key, or says how processes merge."""
    count = 0
    for name in pfs.tables():
        info = _core.table_info(name)
        if not any(column["combine"] == "sum" for column in info["columns"]):
            continue
        count += 1
        missing = [c["name"] for c in info["columns"] if c["name"] not in info["key"] and not c["across"]]
        assert not missing, name
    assert count == 53
