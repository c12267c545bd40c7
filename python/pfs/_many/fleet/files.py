"""Names, lists and removes the files of a folder of cuts: FOLDER/NODE/0000000007-20261123T190500.pfs.zip."""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import suppress
from typing import NamedTuple, TypeGuard

from pfs._base import paths
from pfs.errors import InvalidValue, StateError

__all__ = [
    "Named",
    "checked_node",
    "cuts",
    "is_fleet",
    "is_node",
    "locked",
    "name_of",
    "nodes",
    "number_of",
    "remove_old",
    "remove_parts",
]

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_CUT = re.compile(r"(\d{10})-\d{8}T\d{6}\.pfs\.zip")
_PART = re.compile(rf"{_CUT.pattern}.*{re.escape(paths.PART)}")
_LOCK = ".lock"
_FEWEST = 2  # cuts that stay in any case: rates need two


class Named(NamedTuple):
    """Names the file of a cut."""

    number: int
    path: str


def is_node(name: object) -> TypeGuard[str]:
    """Returns whether a node can have this name."""
    return isinstance(name, str) and _NODE.fullmatch(name) is not None


def checked_node(name: str) -> str:
    """Returns the name of a node.

    Raises:
        InvalidValue: it cannot be the name of a folder.
    """
    if not is_node(name):
        raise InvalidValue(f"bad name '{name}' for a node: legal are letters, digits, '.', '_' and '-', as in the name of a host")
    return name


def name_of(number: int, when: float) -> str:
    """Returns the name of a file. The number orders the files: a clock may jump."""
    return f"{number:010d}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(when))}.pfs.zip"


def number_of(path: str) -> int | None:
    """Returns the number of a cut by the name of its file, or None if no cut has such a name."""
    found = _CUT.fullmatch(os.path.basename(path))
    return int(found[1]) if found else None


def nodes(folder: str) -> list[str]:
    """Returns the nodes that have a folder, sorted.

    Raises:
        InvalidValue: there is no such folder.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _NODE.fullmatch(entry.name) and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidValue(f"there is no folder '{folder}': pfs collect --to makes it") from None


def is_fleet(folder: str) -> bool:
    """Returns whether there are cuts in a folder."""
    return os.path.isdir(folder) and any(cuts(os.path.join(folder, node)) for node in nodes(folder))


def cuts(folder: str) -> list[Named]:
    """Returns the cuts of a node, the oldest first. Files that are being written have other names."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(Named(int(found[1]), os.path.join(folder, name)) for name in names if (found := _CUT.fullmatch(name)))


def remove_parts(folder: str) -> None:
    """Removes what a collector has left that was killed while it wrote."""
    for name in os.listdir(folder):
        if _PART.fullmatch(name):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def remove_old(folder: str, most: int, most_bytes: int | None) -> None:
    """Removes the oldest cuts of a node, until there are at most this many files and bytes. Two cuts always stay."""
    there = cuts(folder)
    sizes = [os.stat(cut.path).st_size for cut in there]
    size = sum(sizes)
    for number, cut in enumerate(there[:-_FEWEST]):
        if len(there) - number <= most and (most_bytes is None or size <= most_bytes):
            return
        with suppress(FileNotFoundError):
            os.unlink(cut.path)
        size -= sizes[number]


def locked(folder: str) -> int:
    """Makes the folder of a node, for this user alone, and returns a lock of it: a descriptor. No other process can have it at
    the same time.

    Raises:
        StateError: another process has it.
        OSError: the folder cannot be made or written, or belongs to another user.
    """
    paths.own_folder(folder)
    descriptor = paths.kept(os.path.join(folder, _LOCK))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StateError(f"another collector writes to {folder}: stop it, or give another --node") from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
