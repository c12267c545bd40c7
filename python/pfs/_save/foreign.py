"""Reads files of snapshots that somebody else has made: damaged, or made to harm the reader.

Every failure is an InvalidValue that names the file. A file is refused before it is read if it would take much more memory than a
file of its size has a reason to. The limits are those of a file, because a reader may ask for all of its tables.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from pfs._base import paths
from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

__all__ = ["Members", "batches_of", "check_sizes", "check_total", "foreign", "members", "rows_of"]

_MOST_DEFLATED = 8 << 20  # bytes of a member that deflate shrinks: write_archive has 64 KiB, and what 20,000 processes are
_MOST_DEFLATED_TOTAL = 64 << 20
_MOST_TABLES = 512 << 20  # bytes of all tables without compression, unless the file is large, too
_MOST_RATIO = 200  # 4,500,000 rows of the histograms of 10,000 digests: 153
_MOST_KEPT = 4096  # bytes of a schema that is known again
_CONTINUES = 0xFFFFFFFF  # in front of each message
_DICTIONARY, _BATCH = 2, 3  # types of messages
_FRAME, _BUFFER, _LENGTH, _PLACE, _TYPES, _SHORT = (struct.Struct(f"<{form}") for form in ("Ii", "qq", "q", "I", "i", "H"))


@contextmanager
def foreign(what: str | os.PathLike[str], fails: str = "cannot be read") -> Iterator[None]:
    """Turns each exception of the block but those of pfs into InvalidValue.

    zipfile, json and pyarrow say that a file is damaged by exceptions of ten types, and of other types in other versions.
    """
    try:
        yield
    except Error:
        raise
    except FileNotFoundError:
        raise InvalidValue(f"{os.fspath(what)} {fails}: there is no such file") from None
    except OSError as error:
        raise InvalidValue(f"{os.fspath(what)} {fails}: {error.strerror or error}") from None
    except Exception as error:
        raise InvalidValue(f"{os.fspath(what)} {fails}: {str(error) or type(error).__name__}") from None


class Members:
    """The members of an open archive. Not more than the limits is read."""

    def __init__(self, path: str, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._left = _MOST_DEFLATED_TOTAL
        self._infos = {info.filename: info for info in archive.infolist()}

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def read(self, name: str) -> bytes:
        """Returns the bytes of a member."""
        if name not in self._infos:
            raise InvalidValue(f"{self._path} cannot be read: there is no {name}")
        info = self._infos[name]
        if info.compress_type == zipfile.ZIP_STORED:
            size = os.stat(self._path).st_size  # no more bytes are there
        elif info.compress_type == zipfile.ZIP_DEFLATED:
            size = min(_MOST_DEFLATED, self._left)
        else:
            raise InvalidValue(f"{self._path}: {name} cannot be read: compression method {info.compress_type}")
        if info.file_size > size:
            raise InvalidValue(f"{self._path}: {name} cannot be read: {info.file_size} bytes, and at most {size} are legal")
        with self._archive.open(info) as member:
            data = member.read(info.file_size + 1)  # a member that is longer than it says is not decompressed as a whole
        if info.compress_type != zipfile.ZIP_STORED:
            self._left -= len(data)
        return data


@contextmanager
def members(path: str | os.PathLike[str], fails: str = "cannot be read") -> Iterator[Members]:
    """Opens an archive, and yields its members.

    Raises:
        InvalidValue: there is no such file, or it cannot be read.
    """
    with foreign(path, fails), paths.reading(path, follow=True) as file, zipfile.ZipFile(file) as archive:
        yield Members(os.fspath(path), archive)


def check_sizes(path: str, datas: Mapping[str, bytes]) -> None:
    """Raises InvalidValue if the tables of a file, members that were read, take too much memory without compression."""
    stored = total = 0
    for name, data in datas.items():
        stored += len(data)
        with foreign(f"{path}: {name}"):
            total += len(data) + sum(_claimed(data))
    check_total(path, stored, total)


def check_total(path: str, stored: int, total: int) -> None:
    """Raises InvalidValue if tables of this many bytes in a file take too much memory."""
    if total > _MOST_TABLES and total > _MOST_RATIO * stored:
        raise InvalidValue(f"{path} cannot be read: its {stored >> 10} KiB would take {total >> 20} MiB of memory")


def _claimed(data: bytes) -> Iterator[int]:
    """Yields how long each compressed buffer says that it is. Arrow takes so much memory for it.

    It reads the heads of the messages in place: no body, and nothing twice. Arrow verifies the heads, and reads the same.
    """
    for head, metadata, body in _messages(data):
        kind = _field(metadata, head, 1, missing_is_legal=True)
        kind = metadata[kind] if kind else 0
        if kind not in (_DICTIONARY, _BATCH):
            continue
        batch = _table(metadata, _field(metadata, head, 2))
        if kind == _DICTIONARY:
            batch = _table(metadata, _field(metadata, batch, 1))
        if not _field(metadata, batch, 3, missing_is_legal=True):  # no compression: no memory but that of the file
            continue
        buffers = _table(metadata, _field(metadata, batch, 2))
        [count] = _PLACE.unpack_from(metadata, buffers)
        for number in range(count):
            offset, length = _BUFFER.unpack_from(metadata, buffers + 4 + 16 * number)
            if length >= 8:
                if offset < 0 or offset + 8 > len(body):
                    raise ValueError("a buffer is outside of its message")
                yield max(0, _LENGTH.unpack_from(body, offset)[0])


def _messages(data: bytes) -> Iterator[tuple[int, bytes, memoryview]]:
    """Yields the metadata of each message, where its table is in them, and its body."""
    view = memoryview(data)
    at = 0
    while at + _FRAME.size <= len(data):
        mark, size = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        if not size:  # the end
            return
        if mark != _CONTINUES or size < 0:
            raise ValueError("it has no messages of Arrow")
        metadata = data[at : at + size]
        at += size
        head = _table(metadata, 0)
        length = _field(metadata, head, 3, missing_is_legal=True)
        length = _LENGTH.unpack_from(metadata, length)[0] if length else 0
        if not 0 <= length <= len(data) - at:
            raise ValueError("a message is cut off")
        yield head, metadata, view[at : at + length]
        at += length


# A table of flatbuffers, in which Arrow says what a message has: https://flatbuffers.dev/internals


def _table(data: bytes, at: int) -> int:
    return at + int(_PLACE.unpack_from(data, at)[0])


def _field(data: bytes, table: int, number: int, missing_is_legal: bool = False) -> int:
    """Returns where a field of a table is; 0 if it is not there."""
    types = table - _TYPES.unpack_from(data, table)[0]
    place = 4 + 2 * number
    offset = _SHORT.unpack_from(data, types + place)[0] if place < _SHORT.unpack_from(data, types)[0] else 0
    if not offset and not missing_is_legal:
        raise ValueError(f"field {number} is missing")
    return table + offset if offset else 0


def batches_of(what: str, data: bytes) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a member, whose messages ``check_sizes`` has seen.

    Raises:
        InvalidValue: it is damaged; a column has a type that pfs does not write.
    """
    import pyarrow as pa

    message = data[: _FRAME.size + _FRAME.unpack_from(data)[1]]
    schema = (_unusual_schema if len(message) <= _MOST_KEPT else _unusual_schema.__wrapped__)(message)
    if schema is not None:
        check_types(what, schema)
    with pa.ipc.open_stream(pa.BufferReader(data), options=_options()) as reader:
        for batch in reader:
            batch.validate(full=True)  # texts are UTF-8, numbers of texts exist
            yield batch


@cache
def _options() -> Any:
    import pyarrow as pa

    return pa.ipc.IpcReadOptions(use_threads=False)  # see SavedParquet


def rows_of(what: str, data: bytes) -> pa.RecordBatch | pa.Table:
    """Returns the rows of a member: its batch, or a table if it has several. See ``batches_of``."""
    import pyarrow as pa

    with foreign(what):
        found = list(batches_of(what, data))
        if not found:
            raise InvalidValue(f"{what} cannot be read: it has no rows")
        return found[0] if len(found) == 1 else pa.Table.from_batches(found).unify_dictionaries()


def check_types(what: str, schema: pa.Schema) -> None:
    """Raises InvalidValue if a column has a type that pfs does not write."""
    for field in schema:
        if not _is_known(field.type):
            raise InvalidValue(f"{what} cannot be read: {field.name} has type {field.type}")


@lru_cache(256)
def _unusual_schema(message: bytes) -> pa.Schema | None:
    """Returns the schema of a message if it has a type that pfs does not write. The same tables come from each process."""
    import pyarrow as pa

    schema = pa.ipc.read_schema(pa.py_buffer(message))
    return None if all(_is_known(kind) for kind in schema.types) else schema


def _is_known(kind: pa.DataType) -> bool:
    """Returns whether pfs, of any version, writes columns of this type. The rows of each of them take memory in the file."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind))
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_timestamp(kind) or types.is_boolean(kind)
    return bool(is_number or types.is_string(kind) or types.is_large_string(kind))
