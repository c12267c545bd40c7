"""``pfs.open`` is the built-in ``open`` with every system call under it recorded."""

from __future__ import annotations

import io
import os
import stat
import sys
from _operator import index  # operator itself is slower to import

from pfs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any, BinaryIO, Literal, NoReturn, overload

    from _typeshed import (
        FileDescriptorOrPath,
        OpenBinaryMode,
        OpenBinaryModeReading,
        OpenBinaryModeUpdating,
        OpenBinaryModeWriting,
        OpenTextMode,
        ReadableBuffer,
        WriteableBuffer,
    )

    Opener = Callable[[str, int], int]

    MaybeNone = Any  # read() returns None for a nonblocking descriptor only

    class _Raw(io.RawIOBase, BinaryIO):
        """The base that io.FileIO has for type checkers: the result of open() is a BinaryIO too."""
else:
    _Raw = io.RawIOBase

    def overload(function):
        return function


__all__ = ["File", "fsync", "open"]

DEFAULT_NAME = "python/file"

# Descriptors that a File has opened or named, each with an object of its own. A second File around one of them does not take its
# name away. Without the GIL, only one thread adds a descriptor: setdefault() says which.
_ours: dict[int, object] = {}


class _Printed:
    """An error that nobody can catch: the interpreter prints what a destructor raises."""

    __slots__ = ("_error",)

    def __init__(self, error: Warning) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


class File(_Raw):
    """The raw file under ``pfs.open``. It behaves like ``io.FileIO``, the raw file under ``open``."""

    name: Any
    _fd = -1

    def __init__(
        self,
        file: FileDescriptorOrPath,
        mode: str = "r",
        closefd: bool = True,
        opener: Opener | None = None,
        *,
        name: str = DEFAULT_NAME,
    ) -> None:
        self._closefd = True
        self._bound = False
        self._seekable: bool | None = None
        letters = set(mode) - {"b"}
        if len(letters & set("xrwa")) != 1 or letters - set("xrwa+"):
            raise ValueError(f"invalid mode: {mode}")
        self._created = "x" in letters
        self._appending = "a" in letters
        self._truncated = "w" in letters
        self._readable = bool(letters & set("r+"))
        self._writable = bool(letters & set("xwa+"))
        flags = os.O_RDWR if self._readable and self._writable else os.O_RDONLY if self._readable else os.O_WRONLY
        flags |= os.O_CLOEXEC
        flags |= os.O_EXCL | os.O_CREAT if self._created else 0
        flags |= os.O_CREAT | os.O_TRUNC if "w" in letters else 0
        flags |= os.O_APPEND | os.O_CREAT if self._appending else 0

        key = _core.file_key(name)
        if isinstance(file, int):
            if isinstance(file, bool) and sys.version_info >= (3, 13):
                import warnings

                warnings.warn("bool is used as a file descriptor", RuntimeWarning, stacklevel=2)
            if file < 0:
                raise ValueError("negative file descriptor")
            self._fd = int(file)
            self._closefd = bool(closefd)
            self._bind(key, None)
        else:
            if not closefd:
                raise ValueError("Cannot use closefd=False with file name")
            path = os.fsencode(file)
            if b"\0" in path:
                raise ValueError("embedded null byte")
            sys.audit("open", file, mode, flags)
            if opener is None:
                self._fd = _core.file_open(key, path, flags, 0o666, file)
                self._bound = True
                _ours[self._fd] = object()
            else:
                fd = opener(file, flags)  # type: ignore[arg-type]
                if not isinstance(fd, int):
                    raise TypeError("expected integer from opener")
                if fd < 0:
                    raise ValueError(f"opener returned {fd}")
                self._fd = fd
                os.set_inheritable(fd, False)
                self._bind(key, path)
        try:
            self.name = file
            kind, block, _ = _core.file_stat(self._fd)
            if stat.S_ISDIR(kind):
                import errno

                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
            self._blksize = block if block > 1 else io.DEFAULT_BUFFER_SIZE
            if sys.version_info >= (3, 14):
                self._blksize = max(min(block, 8 << 20), io.DEFAULT_BUFFER_SIZE)
            if self._appending:
                try:
                    _core.file_seek(self._fd, 0, os.SEEK_END)
                except OSError as error:
                    import errno

                    if error.errno != errno.ESPIPE:
                        raise
        except BaseException:
            if isinstance(file, int):
                self._forget()
                self._fd = -1  # the caller still owns it
            else:
                self.close()
            raise

    def _bind(self, key: int, path: bytes | None) -> None:
        """Names a descriptor that pfs did not open itself."""
        mine = object()
        if _ours.setdefault(self._fd, mine) is not mine:
            return
        if path is None:
            try:
                path = os.fsencode(os.readlink(f"/proc/self/fd/{self._fd}"))
            except OSError:
                path = b"fd:%d" % self._fd
        self._bound = _core.file_bind(self._fd, key, path)

    def _forget(self) -> None:
        if self._bound:
            _ours.pop(self._fd, None)
            _core.file_unbind(self._fd)

    def close(self) -> None:
        """Closes the file. A second call has no effect."""
        if self.closed:
            return
        try:
            super().close()  # flushes; `closed` from here on
        finally:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                if not self._closefd:
                    if self._bound:
                        _ours.pop(fd, None)
                        _core.file_unbind(fd)
                else:
                    _ours.pop(fd, None)
                    _core.file_close(fd)

    def _dealloc_warn(self, source: object, stacklevel: int = 2) -> None:
        if self._fd >= 0 and self._closefd:
            import warnings

            try:
                warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=stacklevel, source=source)
            except ResourceWarning as error:
                _Printed(error)  # warnings are errors here, and a destructor cannot raise

    def __del__(self) -> None:
        self._dealloc_warn(self, 3)
        super().__del__()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _refuse(self, action: str) -> NoReturn:
        raise io.UnsupportedOperation(f"File not open for {action}")

    def readable(self) -> bool:
        self._check_open()
        return self._readable

    def writable(self) -> bool:
        self._check_open()
        return self._writable

    def seekable(self) -> bool:
        self._check_open()
        if self._seekable is None:
            try:
                _core.file_tell(self._fd)
            except OSError:
                self._seekable = False
            else:
                self._seekable = True
        return self._seekable

    def fileno(self) -> int:
        self._check_open()
        return self._fd

    def isatty(self) -> bool:
        self._check_open()
        return os.isatty(self._fd)

    @property
    def closefd(self) -> bool:
        """True if closing this object closes the descriptor."""
        return self._closefd

    @property
    def mode(self) -> str:
        """The mode, spelled as FileIO spells it."""
        if self._created:
            return "xb+" if self._readable else "xb"
        if self._appending:
            return "ab+" if self._readable else "ab"
        if self._truncated and sys.version_info >= (3, 15):
            return "wb+" if self._readable else "wb"
        if self._readable:
            return "rb+" if self._writable else "rb"
        return "wb"

    def readinto(self, buffer: WriteableBuffer, /) -> int | MaybeNone:
        self._check_open()
        if not self._readable:
            self._refuse("reading")
        return _core.file_read_into(self._fd, buffer)

    def readall(self) -> bytes | MaybeNone:
        self._check_open()
        if not self._readable:
            self._refuse("reading")
        try:
            guess = _core.file_stat(self._fd)[2] - _core.file_tell(self._fd)
        except OSError:
            guess = 0
        return _core.file_read_all(self._fd, guess)

    def read(self, size: int | None = -1, /) -> bytes | MaybeNone:
        self._check_open()
        if not self._readable:
            self._refuse("reading")
        if size is None or size < 0:
            return self.readall()
        buffer = bytearray(size)
        count = _core.file_read_into(self._fd, buffer)
        return None if count is None else bytes(memoryview(buffer)[:count])

    def write(self, data: ReadableBuffer, /) -> int | MaybeNone:
        self._check_open()
        if not self._writable:
            self._refuse("writing")
        return _core.file_write(self._fd, data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._check_open()
        return _core.file_seek(self._fd, offset, whence)

    def tell(self) -> int:
        self._check_open()
        return _core.file_tell(self._fd)

    def truncate(self, size: int | None = None, /) -> int:
        self._check_open()
        if not self._writable:
            self._refuse("writing")
        if size is None:
            size = self.tell()
        _core.file_truncate(self._fd, size)
        return size

    def sync(self) -> None:
        """Waits until the file is on its device, as ``os.fsync`` does."""
        self._check_open()
        _core.file_sync(self._fd, False)

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __repr__(self) -> str:
        kind = "pfs.File" if type(self) is File else f"{type(self).__module__}.{type(self).__qualname__}"
        if self.closed or self._fd < 0:
            return f"<{kind} [closed]>"
        name = self.__dict__.get("name", self._fd)
        return f"<{kind} name={name!r} mode={self.mode!r} closefd={self._closefd}>"


def fsync(file: IO[Any] | File | int, *, data_only: bool = False) -> None:
    """Writes what is buffered, and waits until the file is on its device: ``os.fsync`` as an event ``sync`` of the file.

        with pfs.open("orders.log", "a", name="shop/log") as log:
            log.write(line)
            pfs.fsync(log)

    Args:
        file: what ``pfs.open`` returned, or its descriptor. Files that pfs has not opened are synchronized without an event.
        data_only: calls ``os.fdatasync`` instead.

    Raises:
        OSError: whatever ``os.fsync`` raises.
        ValueError: the file is closed.
    """
    if not isinstance(file, int):
        if not hasattr(file, "flush"):
            raise TypeError(f"a file or its descriptor is needed, not {type(file).__name__}")
        file.flush()
        file = file.fileno()
    _core.file_sync(file, data_only)


@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenTextMode = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> io.TextIOWrapper: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: Literal[0],
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> File: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeUpdating,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> io.BufferedRandom: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeWriting,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> io.BufferedWriter: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeReading,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> io.BufferedReader: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> IO[Any]: ...
def open(
    file: FileDescriptorOrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    name: str = DEFAULT_NAME,
) -> IO[Any]:
    """Opens a file as the built-in ``open`` does, with the same arguments, results and errors, and records it under ``name``.

    The file counts as ``wait/io/file/<name>`` and has a row in ``file_instances``; its bytes and times are those of the system
    calls under the buffers. SOURCE is the line of the program that made a call happen.

    Args:
        name: "component/name" of the instrument, or its full name. All others are those of the built-in ``open``.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        Whatever the built-in ``open`` raises.
    """
    if not isinstance(file, int):
        file = os.fspath(file)
    if not isinstance(file, str | bytes | int):
        raise TypeError(f"invalid file: {file!r}")
    if not isinstance(mode, str):
        raise TypeError(f"open() argument 'mode' must be str, not {type(mode).__name__}")
    letters = set(mode)
    if letters - set("axrwb+t") or len(mode) > len(letters):
        raise ValueError(f"invalid mode: {mode!r}")
    text = "b" not in letters
    if "t" in letters and not text:
        raise ValueError("can't have text and binary mode at once")
    if len(letters & set("xrwa")) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    if not text:
        for argument, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                article = "an " if argument in ("encoding", "errors") else "a "
                raise ValueError(f"binary mode doesn't take {article}{argument} argument")
        if buffering == 1:
            import warnings

            warnings.warn(
                "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used",
                RuntimeWarning,
                stacklevel=2,
            )
    elif encoding is None:
        encoding = io.text_encoding(encoding, 2)

    buffering = index(buffering)
    raw = File(file, "".join(sorted(letters - set("tb"))), closefd, opener, name=name)
    result: File | io.BufferedReader | io.BufferedWriter | io.BufferedRandom = raw
    try:
        line_buffering = False
        if buffering == 1 or (buffering < 0 and raw.isatty()):
            buffering = -1
            line_buffering = True
        if buffering < 0:
            buffering = raw._blksize
        if buffering == 0:
            if text:
                raise ValueError("can't have unbuffered text I/O")
            return raw
        if "+" in letters:
            result = io.BufferedRandom(raw, buffering)
        elif "r" in letters:
            result = io.BufferedReader(raw, buffering)
        else:
            result = io.BufferedWriter(raw, buffering)
        if not text:
            return result
        wrapped = io.TextIOWrapper(result, encoding, errors, newline, line_buffering)
        wrapped.mode = mode  # type: ignore[misc]
        return wrapped
    except BaseException:
        result.close()
        raise
