"""Folders of Parquet files that are damaged, or made to harm the reader: each is read or refused, and takes little memory."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
from pfs._save.pages import chunks_of, pages_of
from pfs._save.parquet import SavedParquet
from tests import budgets
from tests.python._programs.subject import subject

SEED = budgets.seed()
# Of a column chunk, as pyarrow has them.
NAMES = (
    "path_in_schema", "num_values", "total_uncompressed_size", "total_compressed_size", "data_page_offset", "has_dictionary_page",
)  # fmt: skip
LARGE = 1 << 30
MEGABYTES = 300
READS = """
import sys, pfs
table = sys.argv[2]
try:
    taken = pfs.read_snapshot(sys.argv[1])
    print("read", len(taken[table]))
except pfs.InvalidValue as error: print(error)
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) >> 10)
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("good")
    with subject(place) as program:
        program.do("lock = pfs.Lock('app/LOCK')\nwith lock: pass")
        with pfs.attach(program.path) as schema:
            schema.snapshot().to_folder(place / "x")
    return place / "x"


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "x")
    return tmp_path / "x"


def of_numbers(path: Path, rows: int, **options: object) -> None:
    """Writes a column of a number, some rows at a time."""
    piece = pa.table({"THREAD_ID": pa.Array.from_buffers(pa.uint64(), 1 << 23, [None, pa.py_buffer(bytes(8 << 23))])})
    with pq.ParquetWriter(path, piece.schema, **options) as writer:
        for _ in range(rows >> 23):
            writer.write_table(piece)


def of_texts(path: Path, rows: int, **options: object) -> None:
    """Writes a column of texts of a megabyte."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * (1 << 20)]))
    pq.write_table(pa.table({"NAME": texts}), path, store_schema=False, write_statistics=False, **options)


def with_smaller(path: Path, number: int) -> None:
    """Replaces a number that the end of the file has: by 8, in as many bytes."""

    def varint(value: int, size: int = 0) -> bytes:
        found: list[int] = []
        while value or len(found) < size or not found:
            found.append(value & 0x7F)
            value >>= 7
        return bytes([*(each | 0x80 for each in found[:-1]), found[-1]])

    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    old = varint(2 * number)
    assert data.count(old, begin) >= 1
    path.write_bytes(data[:begin] + data[begin:].replace(old, varint(16, len(old))))


def made(path: Path, kind: str) -> None:
    if kind == "equal rows":
        of_numbers(path, LARGE // 4)
    elif kind == "zstd":
        of_numbers(path, LARGE // 8, use_dictionary=False, compression="zstd")
    elif kind == "a text in each row":
        of_texts(path, 10_000)
    else:
        of_texts(path, 600, use_dictionary=False, compression="zstd", data_page_size=LARGE)
        if kind == "a lie":
            chunk = pq.read_metadata(path).row_group(0).column(0)
            with_smaller(path, chunk.total_uncompressed_size)
            assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 8


def read(folder: Path, table: str = "threads") -> tuple[str, int]:
    """Returns what a process says that reads a table, and its largest memory in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", READS, str(folder), table], capture_output=True, text=True, timeout=100, check=True
    )
    *said, megabytes = done.stdout.splitlines()
    return "\n".join(said), int(megabytes)


@pytest.mark.parametrize("kind", ["equal rows", "zstd", "texts", "a lie"])
def test_a_bomb_is_refused_by_its_sizes(folder: Path, kind: str) -> None:
    """A file of some kilobytes that would take gigabytes, also if the end of the file says that it would not."""
    made(folder / "threads.parquet", kind)
    assert (folder / "threads.parquet").stat().st_size < 1 << 20
    said, megabytes = read(folder)
    assert str(folder) in said
    assert megabytes < MEGABYTES


def test_the_limits_are_those_of_the_folder(folder: Path) -> None:
    """No file of it takes too much memory, and all of them do."""
    for table in ("threads", "users", "hosts", "accounts"):
        of_numbers(folder / f"{table}.parquet", 3 << 24)
        assert pq.read_metadata(folder / f"{table}.parquet").num_rows == 3 << 24
    said, megabytes = read(folder)
    assert f"{folder} cannot be read: its " in said
    assert megabytes < MEGABYTES


@pytest.mark.parametrize("table", ["threads", "of_another_version"])
def test_a_text_of_many_rows_is_in_memory_once(folder: Path, table: str) -> None:
    made(folder / f"{table}.parquet", "a text in each row")
    summary = json.loads((folder / "snapshot.json").read_text())
    summary["rows"][table] = 10_000
    (folder / "snapshot.json").write_text(json.dumps(summary))
    said, megabytes = read(folder, table)
    assert said == "read 10000"
    assert megabytes < MEGABYTES


def test_a_type_that_pfs_does_not_write_is_refused(folder: Path) -> None:
    pq.write_table(pa.table({"NAME": [[1, 2], [3]]}), folder / "threads.parquet")
    said, _ = read(folder)
    assert said == f"{folder / 'threads.parquet'} cannot be read: NAME has type list<element: int64>"


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_as_long_as_the_end_of_the_file_says(compression: str, version: str) -> None:
    """The sum lacks only the heads of the pages."""
    rows = 50_000
    columns = {"a": list(range(rows)), "b": [f"t{n % 1000}" for n in range(rows)], "c": [None, 1.5] * (rows // 2)}
    written = io.BytesIO()
    pq.write_table(
        pa.table(columns), written, compression=compression, data_page_version=version, data_page_size=4096, row_group_size=20_000
    )
    data = written.getvalue()
    metadata, chunks = pq.read_metadata(io.BytesIO(data)), chunks_of(data)
    assert sum(chunk.num_rows for chunk in chunks[::3]) == rows
    for group in range(metadata.num_row_groups):
        for place in range(3):
            chunk = metadata.row_group(group).column(place)
            same = chunks[group * 3 + place]
            assert {name: getattr(chunk, name) for name in NAMES} == {name: getattr(same, name) for name in NAMES}
            pages = list(pages_of(data, chunk))
            assert len(pages) > (2 if place != 2 else 1)
            assert chunk.total_uncompressed_size - 200 * len(pages) < sum(pages) < chunk.total_uncompressed_size


def test_an_end_that_disagrees_with_its_columns_does_not_end_the_process(folder: Path) -> None:
    """The schema says that a column is never NULL, and its statistics count NULLs. pyarrow's metadata call abort()."""
    table = "events_waits_summary_global_by_event_name"
    path = folder / f"{table}.parquet"
    optional, required = b"\x25\x02\x18\x0aMAX_SOURCE", b"\x25\x00\x18\x0aMAX_SOURCE"
    assert path.read_bytes().count(optional) == 1
    path.write_bytes(path.read_bytes().replace(optional, required))
    said, _ = read(folder, table)
    assert said.startswith(f"{path} cannot be read: ")


def test_every_mutant_is_read_or_refused(folder: Path) -> None:
    print(f"seed {SEED}")
    path = folder / "events_waits_summary_global_by_event_name.parquet"
    original = path.read_bytes()
    refused = 0
    for number in range(budgets.ARCHIVE_MUTANTS):
        chance = random.Random(SEED + number)
        changed = bytearray(original)
        for _ in range(chance.choice((1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed if number % 4 else changed[: chance.randrange(len(changed))])
        try:
            SavedParquet(folder, path.stem)()
        except pfs.InvalidValue:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {SEED + number}") from error
    assert refused > budgets.ARCHIVE_MUTANTS // 3
