"""Finds the processes that have a segment, for pfs.processes, pfs.gc and pfs.attach.

The name of a segment proves nothing. Its header says which process wrote it, the kernel says whether that process still runs,
and the owners of the file and its folder say whether the header can be trusted (``owners``). Only this module checks all three.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pfs import _core
from pfs._base import paths
from pfs._process import elsewhere, owners
from pfs._process.elsewhere import stat_of
from pfs._read import show
from pfs.errors import AttachError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Found",
    "State",
    "boot_id",
    "closed",
    "default_directory",
    "find",
    "folders_of",
    "gc",
    "is_alive",
    "liveness",
    "processes",
    "runs",
    "scan",
    "scan_all",
    "shared_directories",
    "stat_of",
    "with_runs",
    "with_users",
]

State = Literal["alive", "alive (container)", "dead", "unknown"]
STATES: tuple[State, ...] = ("alive", "alive (container)", "dead", "unknown")

_SHARED = "/dev/shm"
_MOST_PID = 2**22  # the limit of Linux


def default_directory(uid: int | None = None) -> str:
    """Returns the folder of this user's segments: PFS_DIR, else /dev/shm/pfs-<uid>. For another user it is always the latter."""
    chosen = os.environ.get("PFS_DIR") if uid is None else None
    return chosen or f"{_SHARED}/pfs-{os.geteuid() if uid is None else uid}"


def shared_directories() -> list[str]:
    """Returns the folders of all users in /dev/shm, sorted."""
    try:
        return [f"{_SHARED}/{name}" for name in sorted(os.listdir(_SHARED)) if name.startswith("pfs-")]
    except OSError:
        return []


def _below(folder: str, name: str) -> list[str]:
    """Returns the folders in a folder whose names match a pattern, sorted. Leaves symbolic links out."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if re.fullmatch(name, entry.name) and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found)


def runs(folder: str) -> list[str]:
    """Returns the folders in which ``pfs run`` keeps the segments of the programs that it runs now."""
    return _below(folder, r"run-.*")


def with_users(folder: str) -> list[str]:
    """Returns the folder and those of single users in it: of users who share it, or whom processes of a run become."""
    return [folder, *_below(folder, r"pfs-\d+")]


def with_runs(folder: str) -> list[str]:
    """Returns all folders of segments at and below a folder."""
    return [part for one in with_users(folder) for part in (one, *(part for run in runs(one) for part in with_users(run)))]


def closed(folders: Iterable[str]) -> str:
    """Returns a sentence about the folders of segments at and below some folders that this user may not list, or ""."""
    parts = [part for folder in folders for part in with_runs(folder) if os.path.isdir(part)]
    shut = [part for part in parts if not os.access(part, os.R_OK | os.X_OK, effective_ids=True)]
    return f"{len(shut)} folder{'s' * (len(shut) > 1)} cannot be read (permission): {', '.join(shut[:3])}" if shut else ""


def is_alive(state: State) -> bool:
    """Returns whether a process of this state runs, in this container or in another one."""
    return state in ("alive", "alive (container)")


def liveness(identity: _core.Identity, path: str, descriptor: int | None = None) -> tuple[State, int]:
    """Returns whether the process that wrote a segment still runs, and its id here, which is 0 if it has none.

    A process is ``dead`` if its pid is free, belongs to a later process or to a zombie, or runs another program by now (exec)
    that has not mapped a file of that name. Of a process of another pid namespace the file knows, too (``elsewhere``). It is
    ``unknown`` if it ran before another boot, or if /proc hides it.

    Args:
        descriptor: the file, if it is open.
    """
    namespace, boot = _here()
    if not 0 < identity.pid <= _MOST_PID or identity.boot_id != boot or not namespace or not boot:
        return "unknown", 0
    name = os.path.basename(path)
    if identity.pid_namespace == namespace:
        state = _liveness_here(identity, name)
        return state, identity.pid if state == "alive" else 0
    if pid := elsewhere.pid_of(identity):
        return ("alive (container)", pid) if _maps(pid, name) else ("dead", 0)
    try:
        if descriptor is None:
            with _opened(path) as opened:
                is_open = elsewhere.is_open(opened) if is_of(path, identity) else None
        else:
            is_open = elsewhere.is_open(descriptor)
    except OSError:
        is_open = None
    if is_open is None and elsewhere.sees_all():
        return "dead", 0
    return ("unknown" if is_open is None else "alive (container)" if is_open else "dead"), 0


def _liveness_here(identity: _core.Identity, name: str) -> State:
    pid = identity.pid
    try:
        started, is_over = _kernel_says(pid)
    except (FileNotFoundError, ProcessLookupError):
        return "unknown" if _is_hidden(pid) else "dead"
    except (OSError, IndexError, ValueError):
        return "unknown"
    if started != identity.process_start_ticks or is_over:
        return "dead"
    return "alive" if _maps(pid, name) else "dead"


def _kernel_says(pid: int) -> tuple[int, bool]:
    """Returns when a process started, in ticks since the boot, and whether it is a zombie."""
    fields = stat_of(pid)
    kind, threads = fields[0], int(fields[17])
    return int(fields[19]), kind in (b"Z", b"X") and threads <= 1  # with more, only the first thread has ended


def _here() -> tuple[int, str]:
    """Returns the pid namespace and the boot of this process, or 0 and "" if /proc does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return os.stat("/proc/self/ns/pid").st_ino, file.read().strip().decode()
    except (OSError, ValueError):
        return 0, ""


def boot_id() -> str:
    """Returns the id of this boot of the machine, or "" if /proc does not say."""
    return _here()[1]


def is_of_this_boot(identity: _core.Identity) -> bool:
    """Returns whether a process ran on this machine since its last boot, so that the clocks of now are its clocks."""
    boot = boot_id()
    return bool(boot) and identity.boot_id == boot


def _is_hidden(pid: int) -> bool:
    """Returns whether /proc hides a running process from this user (mount option hidepid)."""
    try:
        os.kill(pid, 0)  # signal 0 only checks
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _maps(pid: int, name: str) -> bool:
    """Returns False if the process certainly has no file of this name mapped."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            maps = file.read()
    except OSError:
        return True  # this user may not read it
    if b"/" not in maps:
        return True
    end = b"/" + os.fsencode(name)
    return any(line.removesuffix(b" (deleted)").endswith(end) for line in maps.splitlines() if end in line)


@dataclass(frozen=True, slots=True)
class Found:
    """Describes a segment file: its header, its owner, and the state of its process."""

    path: str
    identity: _core.Identity
    info: os.stat_result
    state: State
    doubt: str = ""  # why the segment is not trusted; the state is unknown then
    pid_here: int = 0  # of a process that runs and that our pid namespace has

    @property
    def size(self) -> int:
        """The bytes that take memory."""
        return self.info.st_blocks * 512

    @property
    def command(self) -> str:
        """The command line: all of it while the process runs, later its first 256 bytes."""
        if self.pid_here:
            try:
                with open(f"/proc/{self.pid_here}/cmdline", "rb") as file:
                    now = file.read(4096)
            except OSError:
                now = b""
            if now.strip(b"\0"):
                return show.command_text(now)
        return show.command_text(self.identity.command)


def started(identity: _core.Identity) -> datetime | None:
    """Returns when pfs started in a process, UTC, or None for a number that is no time, or if it died before."""
    if not identity.started:
        return None
    try:
        return datetime(1970, 1, 1) + timedelta(microseconds=identity.started)
    except OverflowError:
        return None


def version(identity: _core.Identity) -> str:
    """Returns the versions of the library and of the layout."""
    return f"{identity.library_version or '?'} (layout {identity.layout[0]}.{identity.layout[1]})"


@contextmanager
def _opened(path: str, directory: int | None = None) -> Iterator[int]:
    descriptor = paths.opened(path, directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _look(directory: int, folder: str, name: str, unfinished: bool = False) -> Found | None:
    """Returns a file of an open folder, or None if it is no segment or this user may not read it.

    Args:
        unfinished: also returns what is left of a process that died while it made its segment. Nobody can read that.
    """
    try:
        with _opened(name, directory) as descriptor:
            info = os.fstat(descriptor)
            identity = _core.identity(descriptor)
            if identity is None:
                return None
            state, pid = liveness(identity, name, descriptor)
    except (OSError, ValueError, IndexError):  # removed meanwhile, no plain file, or not readable
        return None
    if not identity.is_finished and not (unfinished and state == "dead"):
        return None
    # The users of a process that does not run here are not known.
    uids = owners.uids_of(pid) if pid else frozenset[int]()
    doubt = owners.doubt(os.path.abspath(folder), os.fstat(directory), info, uids)
    return Found(os.path.join(folder, name), identity, info, "unknown" if doubt else state, doubt, 0 if doubt else pid)


def is_of(path: str, identity: _core.Identity) -> bool:
    """Returns whether a file is the segment of the same run of the same process."""
    try:
        with _opened(path) as descriptor:
            now = _core.identity(descriptor)
    except OSError:
        return False
    return now is not None and (now.pid, now.pid_namespace, now.process_start_ticks, now.boot_id, now.started) == (
        identity.pid,
        identity.pid_namespace,
        identity.process_start_ticks,
        identity.boot_id,
        identity.started,
    )


@contextmanager
def _directory(folder: str) -> Iterator[int]:
    descriptor = paths.directory(folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def look(path: str) -> Found | None:
    """Returns a segment by its path, or None if there is none or this user may not read it."""
    folder, name = os.path.split(path)
    try:
        with _directory(folder or ".") as directory:
            return _look(directory, folder, name)
    except OSError:
        return None


def scan(folder: str, unfinished: bool = False) -> list[Found]:
    """Returns the segments of a folder, sorted by path. The list is empty if this user cannot read the folder. See ``_look``."""
    try:
        with _directory(folder) as directory:
            names = sorted(name for name in os.listdir(directory) if name.endswith(".pfs"))
            return [found for name in names if (found := _look(directory, folder, name, unfinished)) is not None]
    except OSError:
        return []


def scan_all(folders: Iterable[str], unfinished: bool = False) -> list[Found]:
    """Returns the segments of several folders. The same file is there once: each process of a container has a way to it."""
    there: dict[tuple[int, int], Found] = {}
    for folder in folders:
        for found in scan(folder, unfinished):
            there.setdefault((found.info.st_dev, found.info.st_ino), found)
    return list(there.values())


def map_runs(folders: Iterable[str]) -> list[str]:
    return [part for folder in folders for part in with_runs(folder)]


def find(pid: int) -> Found:
    """Returns the segment of a process, also of one in a container below this pid namespace.

    Raises:
        AttachError: there is none, or only that of an earlier process with this pid, or several.
    """
    folders = [default_directory()]
    for uid in sorted(owners.uids_of(pid)):
        if (folder := default_directory(uid)) not in folders and uid != os.geteuid():
            folders.append(folder)
    parts = map_runs(folders)
    there = scan_all(parts)
    of_pid = [found for found in there if found.identity.pid == pid and not found.doubt]
    of_pid += [found for found in there if found.pid_here == pid and found not in of_pid]
    if not any(found.pid_here for found in of_pid):  # its container has a folder of its own
        of_pid += [found for found in scan_all(map_runs(elsewhere.folders_of(pid))) if found.pid_here == pid]
    alive = [found for found in of_pid if found.pid_here == pid]
    if len(alive) == 1:
        return alive[0]
    if len(alive) > 1:
        raise AttachError(
            f"process {pid} has {len(alive)} segments, one for each copy of the library in it: "
            f"give the path of one: {_list(alive)}"
        )
    if not of_pid:
        for path in (path for folder in parts for path in (folder, *_files_of(folder, pid))):
            if refused := owners.refusal(path):
                raise AttachError(f"process {pid}: {refused}")
        where = " or ".join(folders)
        doubts = "".join(f"; {found.path} is not taken for its: {found.doubt}" for found in there if found.identity.pid == pid)
        if os.path.exists(f"/proc/{pid}"):
            raise AttachError(f"process {pid} is not recorded (pfs join {pid} records it): no segment of it in {where}{doubts}")
        raise AttachError(f"no segment of process {pid} in {where}: {_list(there)}{doubts}")
    if len(of_pid) > 1:
        raise AttachError(f"several segments of processes {pid}: give the path of one: {_list(of_pid)}")
    if _runs_now(pid):
        whose = "an earlier one" if of_pid[0].state == "dead" else "one elsewhere, or of an earlier boot,"
        raise AttachError(
            f"process {pid} of now has no segment; {of_pid[0].path} is of {whose} with this pid ({of_pid[0].command}): "
            "give that path to read it"
        )
    return of_pid[0]


def _files_of(folder: str, pid: int) -> list[str]:
    """Returns the files of a folder that are named after a process."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if re.fullmatch(rf"{pid}[-.].*pfs", name)]


def _runs_now(pid: int) -> bool:
    try:
        return not _kernel_says(pid)[1]
    except (OSError, IndexError, ValueError):
        return False


def _list(there: Sequence[Found], most: int = 10) -> str:
    if not there:
        return "there are no segments at all (PFS_DIR says where they are)"
    shown = [f"{found.path} (process {found.identity.pid}, {found.state})" for found in there[:most]]
    return "there are " + ", ".join(shown) + (f" and {len(there) - most} more" if len(there) > most else "")


def columns_of(there: Sequence[Found]) -> dict[str, list[Any]]:
    """Returns the columns of ``processes``, without types."""
    return {
        "PID": [found.identity.pid for found in there],
        "COMMAND": [found.command for found in there],
        "USER": [owners.user(found.info.st_uid) for found in there],
        "STARTED": [started(found.identity) for found in there],
        "STATE": [found.state for found in there],
        "PID_HERE": [found.pid_here or None for found in there],
        "CONTAINER": [elsewhere.container_of(found.pid_here) or None if found.pid_here else None for found in there],
        "VERSION": [version(found.identity) for found in there],
        "SIZE": [found.size for found in there],
        "PATH": [found.path for found in there],
    }


def _frame_of(there: Sequence[Found]) -> pd.DataFrame:
    import pandas as pd

    from pfs._read.dtypes import dtype_of

    kinds = {"PID": "uint64", "PID_HERE": "uint64", "STARTED": "timestamp", "STATE": "enum", "SIZE": "uint64"}
    columns = columns_of(there)
    types = {name: dtype_of(kinds.get(name, "text"), name == "PID_HERE", STATES) for name in columns}
    return pd.DataFrame({name: pd.Series(values, dtype=types[name]) for name, values in columns.items()})


def processes(path: str | os.PathLike[str] | None = None, all_users: bool = False) -> pd.DataFrame:
    """Lists the processes of this machine that have a segment, running or not: one row per segment file. Processes that run
    come first, dead ones last; in each group the newest comes first.

    Args:
        path: the folder of the segments; None is PFS_DIR, else /dev/shm/pfs-<uid>.
        all_users: also lists the folders of other users below /dev/shm, and those of containers, that this user can read.

    Returns:
        PID as the process itself knows it; COMMAND (its first 256 bytes if the process is dead); USER who owns the file; STARTED,
        the time in UTC when pfs started and from which TIMER_* columns count; STATE; PID_HERE, which is another one for a process
        in a container, and NULL if it does not run or cannot be seen; CONTAINER, with its pod, if the cgroup says so; VERSION of
        its library and of the layout; SIZE, the bytes that take memory; PATH, which ``pfs.attach`` takes.

        STATE is ``alive``, ``alive (container)`` in another pid namespace, ``dead``, or ``unknown``: a process of another
        pid namespace of which nobody here knows, or of an earlier boot, and a file of another user than the process has. A folder
        that does not exist has no processes.
    """
    return _frame_of(listed(path, all_users))


def folders_of(directory: str | os.PathLike[str] | None, all_users: bool) -> list[str]:
    """Returns the folders that `processes` looks at. See there."""
    folders = [os.fspath(directory) if directory is not None else default_directory()]
    return elsewhere.with_containers([*folders, *shared_directories()]) if all_users else folders


def listed(directory: str | os.PathLike[str] | None = None, all_users: bool = False) -> list[Found]:
    """Returns what ``processes`` has rows for. It needs no pandas, whose import takes longer than the rest of a command."""
    there = scan_all(map_runs(folders_of(directory, all_users)))
    groups = ("alive", "alive (container)", "unknown", "dead")
    return sorted(there, key=lambda found: (groups.index(found.state), -found.identity.started, found.path))


def gc(path: str | os.PathLike[str] | None = None, dry_run: bool = False) -> pd.DataFrame:
    """Removes the segments of dead processes, also those that PFS_KEEP=1 has left.

    It leaves alone segments of STATE ``unknown``, files that are no segments, symbolic links, and, unless root calls it, files of
    other users.

    Args:
        path: as for ``pfs.processes``.
        dry_run: removes nothing.

    Returns:
        The segments that were removed, or would be, with the columns of ``pfs.processes``.
    """
    return _frame_of(removed(path, dry_run))


def removed(directory: str | os.PathLike[str] | None = None, dry_run: bool = False) -> list[Found]:
    """Does what ``gc`` does, and returns what it has rows for. It needs no pandas."""
    folder = os.fspath(directory) if directory is not None else default_directory()
    there = scan_all(with_runs(folder), unfinished=True)
    own = [found for found in there if found.state == "dead" and os.geteuid() in (0, found.info.st_uid)]
    return [found for found in own if dry_run or remove(found)]


def remove(found: Found) -> bool:
    """Removes a segment if the file is still the same: a new process may have the pid, and with it the name of the file."""
    folder, name = os.path.split(found.path)
    try:
        with _directory(folder) as directory:
            now = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if (now.st_dev, now.st_ino) != (found.info.st_dev, found.info.st_ino):
                return False
            os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True
