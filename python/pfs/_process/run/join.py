"""Records a program that runs already, and leaves it again: ``pfs join`` and ``pfs leave``.

cpp/bindings/call_in_process.h says how the library comes into the program.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfs import _core
from pfs._base.installed import PACKAGE
from pfs._process import by_name, owners, processes
from pfs._process.run import launch
from pfs._process.run.where_time import NOT_SEEN
from pfs.errors import AttachError, OperationNotAllowed, StateError

if TYPE_CHECKING:
    from pfs._process.findings.facts import Recorded
    from pfs._process.run.report import Report
    from pfs._process.segment import SegmentSource

__all__ = ["CHILDREN", "add_silent", "begin", "is_joined", "join", "judge", "leave", "pid_of", "silent", "threads_of"]

CHILDREN = ("none", "fork")
_SECONDS = 2.0  # that a safe point is looked for
_JOIN, _LEAVE = "pfs_run_join", "pfs_run_leave"  # cpp/run/calls/process.cpp
_FAILED, _IS_RECORDED = 1, 2  # what they return
# Another copy of the core in a program: pfs of its own. The library of `pfs run` has another name.
_OWN_PFS = re.compile(r"/(libperfschema\.so[0-9.]*|_core\.[^/]*\.so)$", re.MULTILINE)
_SEGMENT = re.compile(r"/[^ \n]*/[0-9][0-9-]*\.pfs$", re.MULTILINE)
_STATES = {"T": "it is stopped", "t": "a debugger has stopped it", "Z": "it has ended", "X": "it has ended"}
_FROZEN = ("__refrigerator", "do_freezer_trap")  # where the kernel holds threads of a frozen cgroup, of version 1 and 2


def join(
    pid: int,
    only: Sequence[str] = (),
    *,
    all_on: bool = False,
    children: str = "fork",
    force: bool = False,
    python: Sequence[str] | None = None,
) -> str:
    """Records a program that runs already, as ``pfs run`` does, until it ends or :func:`pfs.leave` is called.

    Returns the path of its segment. One thread of the program stands for less than a millisecond. If it cannot be joined, nothing
    in it is changed.

    Args:
        only: record only these parts, such as ``locks`` and ``files``; empty: all but memory.
        all_on: time each lock, and not only those that must be waited for.
        children: "fork" also records the children that it forks from then on, "none" does not.
        force: join a program with a filter of system calls (seccomp), too. A filter that kills may end it.
        python: of a Python program also record these: names of its threads, requests, queries; ``["none"]``: nothing; None: the
            default of ``pfs join --python``.

    Raises:
        AttachError: there is no such process, or it must not be touched. The message says why.
        StateError: it was at no safe point in two seconds: a later try may succeed.
    """
    return begin(pid, only, all_on, children, force, python)[0]


def begin(
    pid: int, only: Sequence[str], all_on: bool, children: str, force: bool, python: Sequence[str] | None
) -> tuple[str, bool]:
    """As :func:`join`. Also returns whether the process was recorded already: by ``pfs run``, or by an earlier join.

    Such a recording is to go on.
    """
    status = judge(pid, force)
    settings = _settings(pid, only, all_on, children, python)
    result = _call(pid, _JOIN, b"".join(f"{name}={value}".encode() + b"\0" for name, value in settings.items()))
    segment = _SEGMENT.search(_read(pid, "maps"))
    if result == _FAILED or segment is None:
        if result == 0:
            _call(pid, _LEAVE, b"")
        folder = settings.get("PFS_DIR") or processes.default_directory(int(status["Uid"].split()[1]))
        raise StateError(
            f"process {pid} has no segment and is not recorded: {folder} cannot be used there, or pfs is off for good"
        )
    is_elsewhere = os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    # A program of chroot has the folder before all its names, too.
    inside = segment[0].removeprefix(os.readlink(f"/proc/{pid}/root").rstrip("/"))
    return f"/proc/{pid}/root{inside}" if is_elsewhere else segment[0], result == _IS_RECORDED


def leave(pid: int) -> None:
    """Stops the recording of a program that was joined, or that ``pfs run`` has started. Its tables can be read until it ends.

    Raises:
        AttachError: there is no such process, or it is not recorded.
        StateError: as :func:`pfs.join`.
    """
    judge(pid, force=True)
    if "libperfschema-run.so" not in (maps := _read(pid, "maps")) and "/memfd:pfs " not in maps:
        raise AttachError(f"process {pid} is not recorded by pfs join or pfs run")
    _call(pid, _LEAVE, b"")


def judge(pid: int, force: bool = False) -> Mapping[str, str]:
    """Returns the fields of /proc/PID/status of a process that may be joined. Nothing of it is touched.

    Raises:
        AttachError: it must not be joined.
    """

    def refused(why: str) -> AttachError:
        return AttachError(f"process {pid} cannot be joined: {why}")

    if pid == os.getpid():
        raise refused("it is this one")
    status = dict(line.split(":\t", 1) for line in _read(pid, "status").splitlines() if ":\t" in line)
    if why := _STATES.get(status["State"][0]):
        raise refused(why)
    if _read(pid, "wchan") in _FROZEN:
        raise refused("its cgroup is frozen")
    if status["Tgid"] != str(pid):
        raise refused(f"it is a thread of process {status['Tgid']}")
    if (tracer := status["TracerPid"].strip()) != "0":
        raise refused(f"process {tracer} traces it")
    if status.get("Seccomp", "0").strip() != "0" and not force:
        raise refused("a filter of system calls (seccomp) may end it when the library is loaded (--force: join it all the same)")
    if "shstk" in status.get("x86_Thread_features", ""):
        raise refused("it has a shadow stack, and a call from outside would end it")
    if len(owners.uids_of(pid)) != 1:
        raise refused("it has the rights of several users")
    if own := _OWN_PFS.search(_read(pid, "maps")):
        raise refused(f"it has pfs of its own ({own[1]})")
    _call(pid, _JOIN, b"", is_dry=True)
    return status


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a process, as /proc tells it. Times are seconds."""

    role: str
    computed: float
    age: float


def threads_of(pid: int) -> dict[int, Thread]:
    """Returns the threads of a process by the id that it knows."""
    found = {}
    ticks, now = os.sysconf("SC_CLK_TCK"), time.clock_gettime(time.CLOCK_BOOTTIME)
    with suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/task"):
            with suppress(AttachError):
                [own] = re.findall(r"^NSpid:.*\t(\d+)$", _read(pid, f"task/{entry}/status"), re.MULTILINE)
                name, _, rest = _read(pid, f"task/{entry}/stat").partition("(")[2].rpartition(")")
                user, system, *_, started = map(int, rest.split()[11:20])
                role = "thread/native/" + ("main" if entry == str(pid) else name)
                found[int(own)] = Thread(role, (user + system) / ticks, now - started / ticks)
    return found


def is_joined(pid: int) -> bool:
    """Returns whether this process has pfs by a join. A process of another user has none that is seen."""
    try:
        return "/memfd:pfs " in _read(pid, "maps")
    except AttachError:
        return False


def add_silent(report: Report, source: Recorded, pid: int, seconds: float, before: Mapping[int, Thread] | None = None) -> None:
    """Adds the threads that have had no event for these seconds. `before`: the threads at the begin, or None if nobody knows.

    Then a thread may have computed in all of the time in which pfs has not seen who computes.
    """
    from pfs._process.run.report import add_up

    heard = {row[0] for row in source.rows("threads", ("THREAD_OS_ID",))}
    unseen = report.times.get((NOT_SEEN, "computing"), [0, 0])[1] / 1e12
    for own, thread in threads_of(pid).items():
        if own in heard or (before is not None and own not in before):
            continue
        computed = thread.computed - before[own].computed if before is not None else min(thread.computed, unseen)
        if before is not None:
            add_up(report.times, (thread.role, "computing"), (1, int(computed * 1e12)))
        blocked = max(0.0, min(seconds, thread.age) - computed)
        add_up(report.times, (thread.role, "elsewhere"), (1, int(blocked * 1e12)))


def silent(source: SegmentSource) -> tuple[int, list[int]]:
    """Returns the id of a process that was joined, as the reader has it, and its threads without an event since then."""
    pid = source.pid_here
    if not pid or not is_joined(pid):
        return 0, []
    heard = {row[0] for row in source.rows("threads", ("THREAD_OS_ID",))}
    return pid, [own for own in threads_of(pid) if own not in heard]


def pid_of(name: str) -> int:
    """Returns the process of a number, or the only one that runs a program of this name.

    Raises:
        AttachError: none runs it, or several do.
    """
    if name.isascii() and name.isdigit():
        return int(name)
    found = by_name.running(name)
    if len(found) == 1:
        return found[0][0]
    lines = by_name.lines_of(found)
    raise AttachError(f"{len(found) or 'no'} processes are called '{name}'" + (f": give the pid of one{lines}" if found else ""))


def _settings(pid: int, only: Sequence[str], all_on: bool, children: str, python: Sequence[str] | None) -> dict[str, str]:
    """Returns the variables that the library takes in place of its environment. Empty ones are left out."""
    there = dict(entry.split("=", 1) for entry in _read(pid, "environ").split("\0") if entry.startswith("PFS_") and "=" in entry)
    folder, options = os.environ.get("PFS_DIR"), os.environ.get("PFS_OPTIONS") or there.get("PFS_OPTIONS")
    settings = {
        "PFS_CYCLE_RATE": launch.cycle_rate(),
        "PFS_DIR": os.path.abspath(folder) if folder else there.get("PFS_DIR", ""),
        "PFS_MODE": os.environ.get("PFS_MODE") or there.get("PFS_MODE", ""),
        "PFS_OPTIONS": launch.options_text(only, all_on, False, options),
        "PFS_RUN_CHILDREN": children,
        "PFS_RUN_LAYER": os.path.join(PACKAGE, "_auto"),
        "PFS_RUN_PYTHON": ",".join(launch.python_parts(python, options)),
    }
    return {name: value for name, value in settings.items() if value}


def _call(pid: int, function: str, text: bytes, is_dry: bool = False) -> int:
    try:
        return _core.call_in_process(pid, launch.library(), function, text, _SECONDS, is_dry, True)[0]
    except OperationNotAllowed as error:
        raise AttachError(f"process {pid} cannot be joined: {error}") from None
    except StateError as error:
        raise StateError(f"process {pid}: {error}") from None


def _read(pid: int, name: str) -> str:
    """Returns the text of a file of /proc/PID.

    Raises:
        AttachError: there is no such process, or this user may not read it.
    """
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        raise AttachError(f"there is no process {pid}") from None
    except OSError as error:
        raise AttachError(
            f"process {pid} cannot be joined: the system does not let this user trace it: {error.strerror}"
        ) from None
