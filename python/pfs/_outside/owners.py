"""Whom a segment file may belong to: the one rule of everybody who opens segments.

Anybody can make a folder ``/dev/shm/pfs-<uid>`` first, and a file that claims to be of any process. So a segment counts as
that of its process only if file and folder belong to the user of the process, to root, or to ourselves, and not everybody can
write to them.
"""

from __future__ import annotations

import os
import re
import stat

__all__ = ["doubt", "uids_of", "user"]

_NAMED = re.compile(r"/dev/shm/pfs-(\d{1,10})")


def user(uid: int) -> str:
    """The name of a user, or the number of one that has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def uids_of(pid: int) -> frozenset[int]:
    """The users that a process works for: real, effective, saved, of files. Empty: nobody can tell.

    Not the owner of /proc/PID, which is root for a process that has changed its user.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return frozenset(map(int, line.split()[1:]))
    except (OSError, ValueError):
        pass
    return frozenset()


def doubt(folder: str, of_folder: os.stat_result, of_file: os.stat_result, uids: frozenset[int]) -> str:
    """Why a segment does not count as that of the process that it names; empty = it does.

    Args:
        folder: where it lies.
        of_folder, of_file: owners and modes.
        uids: of the process. Empty, of one that is gone or elsewhere: file and folder have one owner, who is the user that the
            folder is named after, if it is named after one.
    """
    named = _NAMED.fullmatch(folder.rstrip("/"))
    if uids:
        whose = " or ".join(map(user, sorted(uids)))
        expected = {0, os.geteuid()} | uids
    elif named:
        whose = "the user that the folder is named after"
        expected = {0, int(named[1])}
    else:
        whose = f"{user(of_folder.st_uid)}, as its folder does"
        expected = {of_folder.st_uid}
    if of_folder.st_uid not in expected:
        return f"its folder belongs to {user(of_folder.st_uid)}, and not to {whose}"
    if of_file.st_uid not in expected:
        return f"it belongs to {user(of_file.st_uid)}, and not to {whose}"
    if of_folder.st_mode & stat.S_IWOTH:
        return "everybody can write to its folder"
    if of_file.st_mode & stat.S_IWOTH:
        return "everybody can write to it"
    return ""
