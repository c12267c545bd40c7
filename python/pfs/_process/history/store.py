"""Keeps samples: in memory, or in a folder of files that can be read while they are written, and after a crash.

A folder NAME.ash has, for each table, streams of Arrow and files of Parquet: ``active_session_history-20261129T101500Z.arrows``.
A stream gets the rows of each process once a second. After ten minutes it becomes a file of Parquet of the same name, whose rows
are in the order that takes least space, and is removed. Old files go when the folder keeps enough.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfs import _core
from pfs._base import paths
from pfs._process.history.sampled import Batch
from pfs._read.arrow import arrow_of_parts
from pfs._save.parquet import need_pyarrow
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = ["TOTALS_COLUMNS", "Folder", "Memory", "about_of", "folders_of", "is_folder", "read_table"]

TOTALS_COLUMNS = ("NODE", "PID", "SAMPLE_TIME", "EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT")
ABOUT = "about.json"
_STREAM, _PARQUET = ".arrows", ".parquet"
_MINUTES = 10
_STAMP = "%Y%m%dT%H%M%SZ"


class Memory:
    """Keeps batches in memory."""

    left: Mapping[str, str] = {}  # as of Folder

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.about: dict[str, Any] = {}

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)

    def note(self, about: dict[str, Any]) -> None:
        self.about = about

    def close(self) -> None:
        pass


class Folder:
    """Writes batches into a folder. `keep`: how long; `keep_size`: bytes that stay, besides what is written now.

    Attributes:
        left: streams that could not become Parquet, and why. They can be read all the same.
    """

    def __init__(
        self, path: str | os.PathLike[str], keep: timedelta | None = None, keep_size: int | None = None, minutes: float = _MINUTES
    ) -> None:
        need_pyarrow()
        self.path = Path(path)
        self._keep, self._keep_size = keep, keep_size
        self._longest = timedelta(minutes=minutes)
        self._streams: dict[str, _Stream] = {}
        self._about = ""
        self.left: dict[str, str] = {}
        self._rolling: threading.Thread | None = None
        if self.path.exists() and not is_folder(self.path) and (not self.path.is_dir() or any(self.path.iterdir())):
            raise InvalidValue(f"{self.path} is there already, and has no samples: give another name, or remove it")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.note({})
        self._roll(list(self.path.glob(f"*{_STREAM}")))  # of an earlier recording that was killed

    def add(self, batch: Batch) -> None:
        import pyarrow as pa

        table, rows, parts = batch
        now = datetime.now(UTC)
        stream = self._streams.get(table)
        if stream is not None and now - stream.begun >= self._longest:
            del self._streams[table]
            stream.close()
            self._roll([stream.path])
            stream = None
        if stream is None:
            stream = self._streams[table] = _Stream(self.path, table, now)
        try:
            stream.write(arrow_of_parts(rows, _to_store(parts)))
        except pa.ArrowException as error:
            raise OSError(f"{stream.path} takes no more rows: {error}") from error

    def note(self, about: dict[str, Any]) -> None:
        text = json.dumps(about, indent=1)
        if text == self._about:
            return
        self._about = text
        with paths.replaced(self.path / ABOUT) as file:
            file.write(text.encode())

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._roll([stream.path for stream in self._streams.values()])
        self._streams.clear()
        if self._rolling is not None:
            self._rolling.join()

    def _roll(self, streams: list[Path]) -> None:
        """Makes Parquet of streams, in a thread of its own, one after the other."""
        import pyarrow as pa

        before = self._rolling

        def roll() -> None:
            if before is not None:
                before.join()
            for path in streams:
                try:
                    _to_parquet(path)
                except (OSError, pa.ArrowException) as error:  # a full disk, or rows that Parquet refuses
                    self.left[path.name] = str(error) or type(error).__name__
            with suppress(OSError):  # another recorder of the folder removes files, too
                self._remove_old()
            pa.default_memory_pool().release_unused()  # else 120 MB stay for some minutes

        self._rolling = threading.Thread(target=roll, name="pfs.samples", daemon=True)
        self._rolling.start()

    def _remove_old(self) -> None:
        files = sorted(self.path.glob(f"*{_PARQUET}"), key=lambda path: path.name.rpartition("-")[2], reverse=True)
        size = 0
        for path in files:
            size += path.stat().st_size
            is_old = self._keep is not None and datetime.now(UTC) - _begun(path) > self._keep + self._longest
            if is_old or (self._keep_size is not None and size > self._keep_size):
                path.unlink()


# In files a time so far is the moment when it began: that is the same in all rows of one wait, and takes hardly any space.
_BEGAN = {"TIMER_WAIT": "WAIT_BEGAN", "STATEMENT_TIMER_WAIT": "STATEMENT_BEGAN"}
_MICROSECOND = 10**6  # picoseconds


def _to_store(parts: list[_core.Part]) -> list[_core.Part]:
    """Returns the columns as files have them."""
    times = next(part[3] for part in parts if part[0] == "SAMPLE_TIME")

    def stored(part: _core.Part) -> _core.Part:
        name, _, nullable, values, mask, _ = part
        if name not in _BEGAN:
            return part
        return _BEGAN[name], "timestamp", nullable, times - (values // _MICROSECOND).astype(times.dtype), mask, None

    return [stored(part) for part in parts]


def _as_declared(rows: pa.Table) -> pa.Table:
    """Returns rows of files with the columns that samples have."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped, unused-ignore]

    for name, began in _BEGAN.items():
        if began in rows.schema.names:
            passed = pc.subtract(rows["SAMPLE_TIME"].cast(pa.int64()), rows[began].cast(pa.int64()))
            value = pc.multiply(passed, pa.scalar(_MICROSECOND, pa.int64())).cast(pa.uint64())
            rows = rows.set_column(rows.schema.get_field_index(began), name, value)
    return rows


class _Stream:
    """A stream of Arrow that is being written."""

    def __init__(self, folder: Path, table: str, begun: datetime) -> None:
        while True:
            self.begun = begun
            self.path = folder / f"{table}-{begun:{_STAMP}}{_STREAM}"
            if not self.path.exists() and not self.path.with_suffix(_PARQUET).exists():
                break
            begun += timedelta(seconds=1)
        self._file = os.fdopen(paths.made(self.path), "wb", buffering=0)
        self._writer: Any = None

    def write(self, rows: object) -> None:
        import pyarrow as pa

        for batch in pa.RecordBatchReader.from_stream(rows):
            if self._writer is None:
                options = pa.ipc.IpcWriteOptions(compression="zstd")
                self._writer = pa.ipc.new_stream(self._file, batch.schema, options=options)
            self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._file.close()


def _begun(path: Path) -> datetime:
    try:
        return datetime.strptime(path.stem.rpartition("-")[2], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return datetime.now(UTC)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Returns whether a folder has samples."""
    return os.path.isfile(os.path.join(path, ABOUT))


def folders_of(source: object) -> list[Path]:
    """Returns the folders of samples that a source names or has in it; none if it is something else."""
    if not isinstance(source, str | os.PathLike) or not os.path.isdir(source):
        return []
    folder = Path(source)
    return [folder] if is_folder(folder) else sorted(one for one in folder.glob("**/*.ash") if is_folder(one))


def about_of(folder: Path) -> dict[str, Any]:
    """Returns what a folder says about its samples."""
    with suppress(OSError, ValueError), paths.reading(folder / ABOUT, follow=True) as file:
        found = json.load(file)
        if isinstance(found, dict):
            return found
    return {}


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a stream up to its end, or to where it is damaged or still written."""
    import pyarrow as pa

    with paths.reading(path, follow=True) as file, suppress(pa.ArrowException, OSError, StopIteration, EOFError):
        reader = pa.ipc.open_stream(file)
        while True:
            yield reader.read_next_batch()


def _table_of(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()


# What is the same in all rows of a sample: where threads follow each other, the values of the one before are near, and are found.
_OF_SAMPLE = ("SAMPLE_TIME", "WEIGHT", "LATENESS")
_GROWS = ("SAMPLE_ID", "EVENT_ID", "WAIT_BEGAN", "STATEMENT_EVENT_ID", "STATEMENT_BEGAN", "TRANSACTION_EVENT_ID")
_SMALL = ("CPU_TIME", "RUNNABLE_TIME", "COUNT_STAR", "SUM_TIMER_WAIT")
_SORTED_SECONDS = 30
_ROWS_AT_ONCE = 100_000


def _sorted(table: pa.Table) -> pa.Table:
    """Returns rows in the order in which a file is smallest: by thread within each half minute."""
    import pyarrow as pa
    import pyarrow.compute as pc

    part = pc.divide(table["SAMPLE_TIME"].cast(pa.int64()), _SORTED_SECONDS * 1_000_000)
    keys = [key for key in ("PID", "PART", "THREAD_ID", "SAMPLE_TIME") if key == "PART" or key in table.schema.names]
    return table.append_column("PART", part).sort_by([(key, "ascending") for key in keys]).drop_columns("PART")


def _encodings(columns: Iterable[str]) -> dict[str, Any]:
    """Returns how Parquet writes columns: many values differ, so that a dictionary of them would be larger than they are."""
    deltas = {name for name in columns if name in _GROWS + _SMALL}
    return {
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        "use_dictionary": [name for name in columns if name not in deltas and name not in _OF_SAMPLE],
    }


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields tables of about 100,000 rows: they take little memory, and a file of Parquet has few of them."""
    part: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        part.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield _sorted(_table_of(part))
            part, rows = [], 0
    if part:
        yield _sorted(_table_of(part))


def _to_parquet(path: Path) -> None:
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    target = path.with_suffix(_PARQUET)
    parts = iter(()) if target.exists() else _parts(_batches(path))
    if (first := next(parts, None)) is not None:
        with (
            paths.replaced(target) as file,
            pq.ParquetWriter(file, first.schema, compression="zstd", **_encodings(first.schema.names)) as writer,
        ):
            for part in chain([first], parts):
                writer.write_table(part)
    path.unlink()


def read_table(folder: Path, table: str, begin: datetime | None = None, end: datetime | None = None) -> pa.Table | None:
    """Returns the rows of a folder from `begin` to before `end`; None if there are none. Damaged files are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet as pq

    found = []
    for stem in sorted({path.with_suffix("") for path in folder.glob(f"{table}-*")}):
        rows = None
        with suppress(OSError, pa.ArrowException):
            if (file := stem.with_suffix(_PARQUET)).exists():
                rows = pq.read_table(file)
            elif (file := stem.with_suffix(_STREAM)).exists():
                batches = list(_batches(file))
                rows = _table_of(batches) if batches else None
        if rows is None or "SAMPLE_TIME" not in rows.schema.names:
            continue
        for limit, compare in ((begin, pc.greater_equal), (end, pc.less)):
            if limit is not None:
                rows = rows.filter(compare(rows["SAMPLE_TIME"], pa.scalar(limit, rows["SAMPLE_TIME"].type)))
        found.append(_as_declared(rows))
    if not found:
        return None
    return pa.concat_tables(found, promote_options="permissive").unify_dictionaries().combine_chunks()
