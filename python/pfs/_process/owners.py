"""Decides which owners of segments are trusted. Everything that opens segments follows this one rule.

Any user can create a folder ``pfs-<uid>`` in ``/dev/shm`` first, and a file that claims to be the segment of any process. So a
segment is trusted only if file and folder belong to the user of the process, to root, or to the reader, and are not writable by
others.
"""

from __future__ import annotations

import os
import re
import stat

__all__ = ["doubt", "gids_of", "refusal", "uids_of", "user"]

_NAMED = re.compile(r"(?:.*/)?pfs-(\d{1,10})")


def user(uid: int) -> str:
    """Returns the name of a user, or the number if there is no name."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def uids_of(pid: int) -> frozenset[int]:
    """Returns the users of a process: real, effective, saved, of files. The set is empty if they cannot be known.

    The owner of /proc/PID is no substitute: it is root for a process that has changed its user.
    """
    return _ids(pid, b"Uid:")


def gids_of(pid: int) -> frozenset[int]:
    """Returns the groups of a process in the same way, without its supplementary groups."""
    return _ids(pid, b"Gid:")


def _ids(pid: int, name: bytes) -> frozenset[int]:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(name):
                    return frozenset(map(int, line.split()[1:]))
    except (OSError, ValueError):
        pass
    return frozenset()


def refusal(path: str) -> str:
    """Returns why this user may not read a file or folder of another user. "" if the reason is another one, or there is none."""
    for part in (os.path.dirname(path) or ".", path):  # a closed folder hides what is in it
        try:
            owner = os.stat(part).st_uid
        except OSError:
            return ""
        needed = os.R_OK | os.X_OK if part == path and os.path.isdir(path) else os.X_OK if part != path else os.R_OK
        if owner != os.geteuid() and not os.access(part, needed, effective_ids=True):
            return (
                f"{part} belongs to another user, {user(owner)}, and you may not read it: "
                "be that user, or start the program with PFS_MODE=0644 and a PFS_DIR that is open to you"
            )
    return ""


def doubt(folder: str, of_folder: os.stat_result, of_file: os.stat_result, uids: frozenset[int]) -> str:
    """Returns why a segment is not trusted to be that of the process that it names, or "" if it is trusted.

    Args:
        folder: the folder of the segment.
        of_folder, of_file: owners and modes.
        uids: the users of the process. If they are not known (the process is dead or elsewhere), file and folder must have one
            owner, and that must be the user in the name of the folder, if its name has one.
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
