"""Finds processes of other pid namespaces: those of containers, from their host or from a container beside them.

A process is in /proc of the namespaces above its own, under other numbers. A container beside it does not see it there, but the
kernel says whether anybody has its segment open to write: a process maps its own segment as long as it runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
from collections.abc import Iterator, Sequence

from pfs import _core

__all__ = ["container_of", "folders_of", "is_open", "pid_of", "sees_all", "stat_of", "with_containers"]

PROC = "/proc"
_FIRST_NAMESPACE = 0xEFFFFFFC  # the inode of the machine's own pid namespace: PROC_PID_INIT_INO
# File systems that count who has a file open in the file itself. An overlay counts elsewhere.
_COUNTING = (b"tmpfs", b"ext4", b"xfs")
_found: dict[tuple[int, int, int], int] = {}  # what a search of /proc has found
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?$")


def sees_all() -> bool:
    """Returns whether /proc has every process of this machine for us."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_NAMESPACE and os.geteuid() == 0
    except OSError:
        return False


def _pids_in(pid: int) -> list[int]:
    """Returns the ids of a process, from our pid namespace to its own. Raises OSError if it is not there."""
    with open(f"/proc/{pid}/status", "rb") as file:
        text = file.read()
    match = re.search(rb"^NSpid:([\d\t ]+)$", text, re.MULTILINE)
    return list(map(int, match[1].split())) if match else [pid]


def stat_of(pid: int) -> list[bytes]:
    """Returns the fields of /proc/PID/stat from the state on."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def pid_of(identity: _core.Identity) -> int:
    """Returns the id that a process of another pid namespace has in ours, or 0 if it is not there or a zombie."""

    def is_it(pid: int) -> bool:
        try:
            ids, fields = _pids_in(pid), stat_of(pid)
            is_same = len(ids) > 1 and ids[-1] == identity.pid and int(fields[19]) == identity.process_start_ticks
            return is_same and fields[0] not in (b"Z", b"X")
        except (OSError, ValueError, IndexError):
            return False  # it has ended

    key = (identity.pid, identity.pid_namespace, identity.process_start_ticks)
    if (known := _found.get(key)) is None or not is_it(known):
        _found[key] = known = next((int(name) for name in os.listdir("/proc") if name.isdigit() and is_it(int(name))), 0)
    return known


def is_open(descriptor: int) -> bool | None:
    """Returns whether a process has a file open to write, or None if the kernel does not tell us. `descriptor` only reads.

    A lease on reading is refused then. It is given back at once; who opens the file meanwhile waits for that.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # nobody is to die of the signal of a broken lease
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None  # the file of another user, or of a file system without leases
    return False if _counts_here(os.fstat(descriptor).st_dev) else None


def _counts_here(device: int) -> bool:
    number = b"%d:%d" % (os.major(device), os.minor(device))
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return False
    return any(words[2] == number and words[words.index(b"-") + 1] in _COUNTING for words in lines)


def folders_of(pid: int) -> Iterator[str]:
    """Yields the folders in which a process of another pid namespace may have its segment, as seen from here."""
    try:
        if len(_pids_in(pid)) < 2:
            return
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
        users = [name for name in os.listdir(f"/proc/{pid}/root/dev/shm") if re.fullmatch(r"pfs-\d+", name)]
    except OSError:
        return
    chosen = [os.fsdecode(text[len(b"PFS_DIR=") :]) for text in variables if text.startswith(b"PFS_DIR=/")]
    for folder in chosen + [f"/dev/shm/{name}" for name in sorted(users)]:
        yield f"/proc/{pid}/root{folder}"


def with_containers(folders: Sequence[str]) -> list[str]:
    """Returns folders of segments, and those of all containers that this user may look into."""
    found: dict[tuple[int, int], str] = {}  # a folder is there once for each process of its container: the first one stays
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    for folder in [*folders, *(folder for pid in pids for folder in folders_of(pid))]:
        try:
            info = os.stat(folder)
        except OSError:
            continue
        found.setdefault((info.st_dev, info.st_ino), folder)
    return list(found.values())


def container_of(pid: int) -> str:
    """Returns the container of a process, and the pod that it is in, as far as the name of its cgroup says so."""
    try:
        with open(f"{PROC}/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            path = file.readline().strip()
    except OSError:
        return ""
    container, pod = _CONTAINER.search(path), _POD.search(path)
    return " ".join(filter(None, [container and container[1], pod and f"pod {pod[1].replace('_', '-')}"]))
