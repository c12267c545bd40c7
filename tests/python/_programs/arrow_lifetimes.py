"""Gives and takes the capsules of Arrow in all orders, under AddressSanitizer, and says how many bytes are left of it.

arrow_lifetimes.py [broken]
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

import pfs
from pfs import _core

TURNS = 300
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_runtime = ctypes.CDLL(None)
_runtime.__sanitizer_get_current_allocated_bytes.restype = ctypes.c_size_t


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


def stream_of(capsule: object) -> Stream:
    address = _pointer(capsule, b"arrow_array_stream")
    assert address is not None
    return Stream.from_address(address)


def tables() -> list[_core.ArrowTable]:
    texts = np.array(["a", "", "caf\udcff", "x" * 1000], dtype=object)
    return [
        pfs.arrow("setup_instruments"),
        pfs.arrow("threads", ["NAME", "PROCESSLIST_ID"]),
        pfs.arrow("hosts"),
        _core.arrow_of(0, [("A", "uint64", True, np.zeros(0, np.uint64), None, None)]),
        _core.arrow_of(
            9,
            [
                ("A", "uint64", True, np.arange(9, dtype=np.uint64), np.arange(9) % 2 == 0, None),
                ("B", "int32", False, np.arange(9, dtype=np.int32), None, None),
                ("C", "double", True, np.arange(9.0), np.ones(9, bool), None),
                (
                    "D",
                    "text",
                    True,
                    np.array([0, 1, 2, 3, -1, 0, 0, 1, 2]),
                    None,
                    [str(t).encode("utf-8", "backslashreplace") for t in texts],
                ),
            ],
        ),
    ]


def rows(reader: Any) -> int:
    return sum(len(batch) for batch in reader)


def once() -> None:
    """One of each life of a capsule."""
    for held in tables():
        count = len(held)
        schema, stream = held.__arrow_c_schema__(), held.__arrow_c_stream__()  # nobody takes them
        assert stream_of(stream).release
        unread = held.__arrow_c_stream__()
        del schema, stream
        reader = pa.RecordBatchReader.from_stream(held)
        assert rows(reader) == count
        reader.close()  # early: before the first batch
        pa.RecordBatchReader.from_stream(held).close()
        batches = [pa.RecordBatchReader.from_stream(held).read_next_batch() for _ in range(3)]
        types, names = pa.schema(held), held.columns
        columns = [batch.column(number) for batch in batches for number in range(len(names))]
        connection = duckdb.connect(":memory:")
        connection.register("held", held)
        answer = connection.sql("select * from held a cross join (select count(*) from held b)")
        del held, batches  # the arrays outlive their table
        gc.collect()
        for column in columns:
            column.validate(full=True)
            column.to_pylist()
        assert types.names == names
        assert len(answer.fetchall()) == count
        del unread, columns

        def fails(reader: Any) -> None:
            for _ in reader:
                raise InterruptedError

        again = pfs.arrow("setup_instruments")
        with contextlib.suppress(InterruptedError):
            fails(pa.RecordBatchReader.from_stream(again))
        thread = threading.Thread(target=lambda table=again: rows(pa.RecordBatchReader.from_stream(table)))
        thread.start()
        thread.join()
    for bad in ([("A", "uint64", False, np.zeros(2), None, None)], [("A", "nothing", False, np.zeros(1), None, None)],
                [("A", "text", False, np.array([5]), None, ["x"])]):  # fmt: skip
        with contextlib.suppress(ValueError):
            _core.arrow_of(1, bad)
            raise AssertionError("it was accepted")


def without_readers() -> None:
    """The parts that allocate for pfs alone."""
    for held in tables():
        held.__arrow_c_schema__()
        held.__arrow_c_stream__()
        pa.schema(held)
        reader = pa.RecordBatchReader.from_stream(held)
        reader.read_next_batch()
        reader.close()


def left() -> int:
    gc.collect()
    return int(_runtime.__sanitizer_get_current_allocated_bytes())


def growth() -> int:
    before = left()
    for _ in range(TURNS):
        without_readers()
    return left() - before


def main() -> None:
    if sys.argv[1:] == ["broken"]:
        capsule = pfs.arrow("hosts").__arrow_c_stream__()
        release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(stream_of(capsule).release)
        address = _pointer(capsule, b"arrow_array_stream")
        del capsule
        release(address)
        return
    capsule = pfs.arrow("setup_instruments").__arrow_c_stream__()  # this process and its child have it, and each frees its own
    child = os.fork()
    if child == 0:
        del capsule
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    del capsule
    for _ in range(3):
        once()
    more = min(growth() for _ in range(3))  # Python itself keeps something now and then
    assert more < TURNS * 100, f"{more} bytes more after {TURNS} turns"  # one struct of each table is more
    print(f"{more} bytes are left of {TURNS} turns")


main()
