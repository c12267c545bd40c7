"""Opens and makes files in folders in which other users may have put something. No other module does so by itself.

A name may be a pipe that blocks its reader, a link to a file that only root can read or write, or a file of another user. So a
file is opened without waiting and checked afterwards, and a new file never writes into a file that is there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

__all__ = [
    "PART",
    "appended",
    "directory",
    "keeps_entries",
    "kept",
    "made",
    "mode_of",
    "opened",
    "own_folder",
    "readable_by",
    "reading",
    "replaced",
    "trusted",
]

PART = ".part"  # the end of the name of a file that is not complete
_ALWAYS = os.O_NOCTTY | os.O_CLOEXEC
_PRIVATE = 0o600


def _error(code: int, text: str, path: str | os.PathLike[str]) -> OSError:
    return OSError(code, text, os.fspath(path))


def trusted() -> tuple[int, int]:
    """Returns the users who may do to this one what they like: root, and this user."""
    return 0, os.geteuid()


def opened(
    path: str | os.PathLike[str],
    folder: int | None = None,
    owners: Collection[int] | None = None,
    follow: bool = False,
) -> int:
    """Opens a plain file for reading, and returns its descriptor.

    Args:
        path: its name; in `folder`, an open one, if that is given.
        owners: the users whose file it may be. None: of any user.
        follow: the user has named this file: it may be a link.

    Raises:
        OSError: there is no such file; it is a link, a pipe or a device; it belongs to somebody else.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | _ALWAYS | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise _error(errno.EINVAL, "it is no plain file", path)
        if owners is not None and info.st_uid not in owners:
            raise _error(errno.EPERM, "it belongs to another user", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def reading(path: str | os.PathLike[str], owners: Collection[int] | None = None, follow: bool = False) -> BinaryIO:
    """Returns a plain file, open for reading. See ``opened``."""
    return os.fdopen(opened(path, None, owners, follow), "rb")


def directory(path: str) -> int:
    """Opens a folder, which is no link, and returns its descriptor."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | _ALWAYS)


def readable_by(info: os.stat_result) -> frozenset[int]:
    """Returns the users whose files in a folder are trusted: its owner, root and this user."""
    return frozenset((info.st_uid, *trusted()))


def keeps_entries(folder: str) -> bool:
    """Returns whether no other user can take away or replace what this user puts into a folder."""
    info = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid not in trusted():
        return False
    return not _others_write(info) or bool(info.st_mode & stat.S_ISVTX)


def _others_write(info: os.stat_result) -> bool:
    return bool(info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and info.st_gid != os.getegid()))


def own_folder(path: str, mode: int = 0o700) -> None:
    """Makes a folder, unless there is one of this user that others cannot write to. The folders above it are made, too.

    Raises:
        OSError: it cannot be made; it is a link, or belongs to another user; others can write to it.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, mode)
        return
    descriptor = directory(path)
    try:
        info = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if info.st_uid not in trusted() and not _is_of_this_user(path, info):
        raise _error(errno.EPERM, "it belongs to another user", path)
    if _others_write(info):
        raise _error(errno.EPERM, "others can write to it", path)


def _is_of_this_user(folder: str, info: os.stat_result) -> bool:
    """Returns whether new files of this user get the owner of the folder: a server of files may map users (NFS' root_squash)."""
    probe = os.path.join(folder, f".{os.urandom(6).hex()}{PART}")
    descriptor = made(probe)
    try:
        return os.fstat(descriptor).st_uid == info.st_uid
    finally:
        os.close(descriptor)
        os.unlink(probe)


def mode_of(paths: Iterable[str | os.PathLike[str]]) -> int:
    """Returns the mode of a file that is made from these: a user who may not read all of them may not read it."""
    mode = 0o666
    count = 0
    for path in paths:
        try:
            mode &= os.stat(path).st_mode
        except OSError:  # it has gone meanwhile
            mode &= _PRIVATE
        count += 1
    return mode | _PRIVATE if count else _PRIVATE


def made(path: str | os.PathLike[str], mode: int = _PRIVATE) -> int:
    """Makes a new file, and returns its descriptor for writing."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _ALWAYS, mode)


def kept(path: str | os.PathLike[str], mode: int = _PRIVATE) -> int:
    """Opens a plain file for reading and writing, and returns its descriptor. The file is made if it is not there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | _ALWAYS
    descriptor = os.open(path, flags, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _error(errno.EINVAL, "it is no plain file", path)
    return descriptor


@contextmanager
def replaced(path: str | os.PathLike[str], mode: int = _PRIVATE) -> Iterator[BinaryIO]:
    """Yields a new file that takes the name at the end of the block. If the block fails, only the old file is left.

    A link, a pipe or a device is written to, as the shell would: see ``_existing``.

    Raises:
        OSError: the folder cannot be written, or the name is one that another user has put there.
    """
    name = os.fspath(path)
    try:
        is_plain = stat.S_ISREG(os.lstat(name).st_mode)
    except FileNotFoundError:
        is_plain = True
    if not is_plain:
        with os.fdopen(_existing(name, os.O_TRUNC, mode), "wb") as file:
            yield file
        return
    part = f"{name}.{os.urandom(6).hex()}{PART}"
    try:
        descriptor = made(part, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(part, name)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def appended(path: str | os.PathLike[str], mode: int = _PRIVATE) -> BinaryIO:
    """Opens a file to add to it; it is made if it is not there.

    Raises:
        OSError: as ``replaced``; or it is the file of another user.
    """
    name = os.fspath(path)
    try:
        return os.fdopen(made(name, mode), "ab")
    except FileExistsError:
        return os.fdopen(_existing(name, os.O_APPEND, mode), "ab")


def _existing(name: str, flags: int, mode: int) -> int:
    """Opens a file, link, pipe or device for writing that is there already.

    Raises:
        OSError: it belongs to another user; it is a link in a folder that others can write to.
    """
    pinned = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(pinned)
        if info.st_uid not in trusted():
            raise _error(errno.EPERM, "it belongs to another user", name)
        if not stat.S_ISLNK(info.st_mode):
            return os.open(f"/proc/self/fd/{pinned}", os.O_WRONLY | flags | _ALWAYS)
    finally:
        os.close(pinned)
    folder = os.stat(os.path.dirname(name) or ".")
    if folder.st_uid not in trusted() or _others_write(folder):
        raise _error(errno.ELOOP, "it is a link in a folder that others can write to", name)
    return os.open(name, os.O_WRONLY | os.O_CREAT | flags | _ALWAYS, mode)
