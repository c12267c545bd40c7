"""Starts a program with ``libperfschema-run.so`` in it: its environment, its folder, its signals, its end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from pfs import _core
from pfs._base import paths
from pfs._base.installed import PACKAGE
from pfs._process import processes
from pfs.errors import StateError

__all__ = [
    "PARTS",
    "PYTHON_MORE",
    "PYTHON_PARTS",
    "Took",
    "cycle_rate",
    "end_as",
    "environment",
    "folder_of_run",
    "library",
    "options_text",
    "python_parts",
    "wait_for",
]

# What --only chooses, as patterns of setup_instruments. Memory is recorded only if it is chosen.
PARTS = {
    "locks": ("wait/synch/%",),
    "files": ("wait/io/file/%",),
    "sockets": ("wait/io/socket/%", "idle"),
    "statements": ("statement/%",),
    "waits": ("wait/system/%",),
    "memory": ("memory/%",),
}
# Parts of the Python layer: python/pfs/_auto/_pfs_run.
PYTHON_PARTS = ("threads", "locks", "requests", "clients", "drivers", "lines", "tasks", "tests", "cells", "asyncio")
PYTHON_MORE = ("queues",)  # parts that only --python chooses
# A program has more instruments of its own than a program that was instrumented by hand.
_NO_LIMIT = 1048576  # the most that these options take
_NOWHERE = "/dev/null/run"  # no folder can be made there
_MODES = ("600", "0600", "640", "0640", "644", "0644", "660", "0660", "664", "0664")  # of PFS_MODE: cpp/src/shm/place.cpp
SIZES = {"mutex": 1024, "rwlock": 512, "cond": 512, "file": 256, "socket": 128, "statement": 256, "thread": 512}


def library() -> str:
    """Returns the path of the library that records the program.

    Raises:
        StateError: this installation has none.
    """
    path = os.path.join(PACKAGE, "lib", "libperfschema-run.so")
    if not os.path.exists(path):
        raise StateError(f"there is no {path}: this package was built without pfs run")
    return path


def environment(
    folder: str,
    only: Sequence[str] = (),
    decode: Sequence[str] = (),
    python: Sequence[str] | None = None,
    all_on: bool = False,
    children: str = "all",
    sanitizers: Sequence[str] = (),
    keeps_dead: bool = False,
    wrappers: Sequence[str] = (),
) -> dict[str, str]:
    """Returns the variables of a program whose segments are to be in `folder`; the others are options of ``pfs run``.

    Args:
        python: parts of the Python layer; None: see python_parts().
        keeps_dead: processes leave the segments of dead ones to ``pfs run`` (``watch``), unless the file system is full.
        wrappers: functions that take a lock for their caller, by symbol; each may end in a ``*``.

    A program built with `sanitizers` gets these first. Programs that it starts get neither: they were built without.

    Raises:
        StateError: this installation cannot record.
    """
    recorder, before = library(), os.environ.get("LD_PRELOAD")
    memory = [recorder.replace("-run.so", "-run-memory.so")] if "memory" in only else []
    preload = ":".join([*sanitizers, recorder, *memory, *_library_of_threads()])
    if sanitizers:
        children = "fork" if children == "all" else children
    options = os.environ.get("PFS_OPTIONS")
    python = python_parts(python, options)
    return {
        "LD_PRELOAD": f"{preload}:{before}" if before else preload,
        "PFS_CYCLE_RATE": cycle_rate(),
        "PFS_DIR": folder,
        "PFS_KEEP": "1",
        "PFS_OPTIONS": options_text(only, all_on, keeps_dead, options),
        "PFS_RUN_PRELOAD": preload,
        **_unless_default("PFS_RUN_CHILDREN", children, "all"),
        **_unless_default("PFS_RUN_DECODE", ",".join(decode), ""),
        **_unless_default(
            "PFS_RUN_PYTHON", ",".join(part for part in python if part != "none") or "none", ",".join(PYTHON_PARTS)
        ),
        **_unless_default("PFS_RUN_WRAPPERS", ",".join(wrappers), ""),
    }


def python_parts(chosen: Sequence[str] | None, options: str | None) -> Sequence[str]:
    """Returns the parts of the Python layer: the chosen ones, else PYTHON_PARTS, without lines if the preset is production.

    Args:
        options: PFS_OPTIONS of the program.
    """
    if chosen is not None:
        return chosen
    is_production = "performance_schema_preset=production" in (options or "")
    return [part for part in PYTHON_PARTS if part != "lines" or not is_production]


def _library_of_threads() -> list[str]:
    """Returns what a program must have whose weak references to functions of threads find the recorder's.

    Before glibc 2.34 the C library has no such functions. The recorder could not make their calls.
    """
    version = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ").split(".")
    return ["libpthread.so.0"] if [int(number) for number in version] < [2, 34] else []


def cycle_rate() -> str:
    """Returns how fast the cycle counter is: each process of the program would sleep for 2 ms to measure it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return _core.cycle_rate(file.read().strip())
    except OSError:
        return ""


def options_text(only: Sequence[str], all_on: bool, keeps_dead: bool, environment: str | None) -> str:
    """Returns PFS_OPTIONS of the program. Options of the user's own come last, so they win."""
    entries = [f"performance_schema_max_{family}_classes={size}" for family, size in SIZES.items()]
    if keeps_dead:
        entries += [f"performance_schema_max_dead_{what}={_NO_LIMIT}" for what in ("segments", "megabytes")]
    if not all_on:
        if "performance_schema_preset=" not in (environment or ""):
            entries += [f"performance_schema_instrument='wait/synch/{family}/%=CONTENDED'" for family in ("mutex", "rwlock")]
        # CPython holds them for nanoseconds, a hundred times in a request: who waits for the GIL waits for its condition.
        entries.append("performance_schema_instrument='wait/synch/mutex/python/gil%=OFF'")
    for part, patterns in PARTS.items():
        if only and part not in only:
            entries += [f"performance_schema_instrument='{pattern}=OFF'" for pattern in patterns]
    if only and "locks" not in only:  # the longest pattern wins
        entries += [f"performance_schema_instrument='wait/synch/{family}/%=OFF'" for family in ("mutex", "rwlock")]
    return ",".join([*entries, *([environment] if environment else [])])


def _unless_default(name: str, value: str, default: str) -> dict[str, str]:
    """Returns a variable that must be there: without it, the library takes the default.

    Programs read their environment, some at each request (requests looks for proxies): each variable costs them time.
    """
    return {name: value} if value != default or name in os.environ else {}


def _open_up(folder: str, parent_is_new: bool) -> None:
    """Lets those list and enter the folder of a run who may read the segments (PFS_MODE), and the new folder that it is in.

    Processes of root may become other users, and must enter it. They cannot list it, and each has a folder of its own there.
    """
    mode = os.environ.get("PFS_MODE", "")
    read = int(mode, 8) & 0o044 if mode in _MODES else 0
    enter = read >> 2 | (0o011 if os.geteuid() == 0 else 0)
    for each in (folder, os.path.dirname(folder)) if parent_is_new else (folder,):
        _add_mode(each, read | enter)
    if os.geteuid() == 0 and not os.environ.get("PFS_DIR"):
        _add_mode(os.path.dirname(folder), 0o011)


def _add_mode(folder: str, bits: int) -> None:
    descriptor = paths.directory(folder)
    try:
        info = os.fstat(descriptor)
        if info.st_uid == os.geteuid() and info.st_mode & bits != bits:
            os.chmod(descriptor, stat.S_IMODE(info.st_mode) | bits)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def folder_of_run(keep: bool) -> Iterator[str]:
    """Makes the folder of the segments, which ``pfs ps`` and ``pfs top`` find, and removes it at the end.

    If another user could replace that folder, or it cannot be made, the segments are in a private one, and stderr says where. If
    there is no place for a folder at all, the program runs all the same, and makes no segment. A signal that ends this process
    while it makes the report does not leave the folder either.
    """
    folder = _new_folder()

    def remove() -> None:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)

    def end(number: int, frame: FrameType | None) -> None:
        remove()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    ending = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    for number in ending:
        signal.signal(number, end)
    try:
        yield folder
    finally:
        remove()
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


def _new_folder() -> str:
    usual = os.path.abspath(processes.default_directory())  # the program may change its directory
    problem = ""
    for parent in (usual, os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp"):
        if not parent:
            continue
        try:
            is_new = parent == usual and not os.path.isdir(parent)
            if is_new:
                os.makedirs(parent, mode=0o700, exist_ok=True)
            if not paths.keeps_entries(parent):
                problem = problem or f"others could replace what is in {parent} (chmod +t forbids it)"
                continue
            folder = tempfile.mkdtemp(prefix="run-" if parent == usual else "run-pfs-", dir=parent)
            _open_up(folder, is_new)
        except OSError as error:
            problem = problem or f"{error.strerror}: {parent}"
            continue
        if problem:
            print(f"pfs: {problem}: the segments of this run are in {folder}", file=sys.stderr)
        return folder
    print(f"pfs: {problem}: nothing of this run is recorded", file=sys.stderr)
    return _NOWHERE


@dataclass(frozen=True, slots=True)
class Took:
    """Holds times in picoseconds. `user` and `system`: processor time of the processes that their parents have waited for."""

    wall: int
    user: int
    system: int

    @classmethod
    def so_far(cls) -> Took:
        """Returns the times of this process's children since some moment in the past."""
        import resource

        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(time.monotonic_ns() * 1000, round(used.ru_utime * 1e12), round(used.ru_stime * 1e12))

    @classmethod
    def of(cls, pid: int) -> Took:
        """Returns the times of a process so far. `wall` is since some moment in the past."""
        fields, ticks = processes.stat_of(pid), os.sysconf("SC_CLK_TCK")
        user, system = (int(field) * 10**12 // ticks for field in fields[11:13])
        return cls(time.monotonic_ns() * 1000, user, system)

    def __sub__(self, earlier: Took) -> Took:
        return Took(self.wall - earlier.wall, self.user - earlier.user, self.system - earlier.system)


# How long a signal that has been passed on may come again, in seconds: timeout(1) sends its own to pfs, then to its whole group.
_REPEATED = 1.0


def wait_for(child: subprocess.Popen[bytes]) -> int:
    """Waits for the program. The terminal sends its signals to the program itself; those sent to pfs alone are passed on."""
    passed: dict[int, float] = {}

    def pass_on(number: int, frame: FrameType | None) -> None:
        passed[number] = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    def unless_repeated(handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            before, passed[number] = passed[number], time.monotonic()
            if passed[number] - before > _REPEATED:
                handler(number, frame)

        return handle

    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    before |= {
        number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    }
    try:
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, unless_repeated(handler) if number in passed and callable(handler) else handler)


def end_as(code: int) -> int:
    """Returns the exit code of a program. If a signal ended the program, it ends this process, too."""
    if code >= 0:
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # no core dump of pfs
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
    return 128 - code
