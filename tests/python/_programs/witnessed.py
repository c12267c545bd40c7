"""Runs programs under ``strace`` and ``libperfschema-run.so`` at the same time, and says what each of the two has seen.

Both look at one run, so the numbers of a server under load can be equal, however its requests are cut into pieces.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import pfs
from pfs._base import installed
from pfs._process.run.launch import environment

__all__ = ["CALLS", "Key", "Numbers", "Witnessed", "descendants", "until", "until_at_rest", "witnessed"]

# System calls by what they do. `sendfile` and its like count for the descriptor that they write to.
ACTIONS = {
    "read": ["read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"],
    "write": ["write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg", "sendfile"],
    "sync": ["fsync", "fdatasync", "sync_file_range"],
    "seek": ["lseek"],
}
ACTION_OF_CALL = {call: action for action, calls in ACTIONS.items() for call in calls}
# What strace is to show.
CALLS = ",".join([*ACTION_OF_CALL, "clone", "clone3", "fork", "vfork", "rename", "renameat", "renameat2"])
ACTION_OF_OPERATION = {
    **dict.fromkeys(("read", "recv", "recvfrom", "recvmsg"), "read"),
    **dict.fromkeys(("write", "send", "sendto", "sendmsg"), "write"),
    **{operation: operation for operation in ("sync", "seek")},
    "tell": "seek",
}
# NUMBER_OF_BYTES of these is NULL. The sums of all sockets have their bytes.
WITHOUT_BYTES = ("sendmsg", "recvmsg")
# What calls of libraries to themselves read never passes through a function that can be replaced; nor does what pfs itself reads.
ALWAYS_UNSEEN = {
    r"\.so(\.[0-9.]+)?$|^/etc/ld\.so": "the dynamic linker",
    r"^\{eventfd-|^signalfd:": "newer strace says more than the name",
    r"/locale/|^/etc/locale\.alias$|/gconv/|^/usr/share/zoneinfo/": "glibc",
    r"^/proc/(\d+/(maps|task/\d+/comm)|sys/kernel/ngroups_max)$": "glibc",
    r"^/sys/devices/system/cpu/(online|possible)$": "glibc",
    r"^/etc/(nsswitch\.conf|passwd|group|hosts|resolv\.conf|host\.conf|gai\.conf|services)$": "glibc",
    r"\.pfs$|^/proc/\d+/(cmdline|stat|task/\d+/schedstat)$": "pfs",
    r"^/proc/sys/kernel/random/boot_id$|^/sys/devices/system/clocksource/": "pfs",
    rf"^{re.escape(os.path.realpath(pfs.__path__[0]))}/_auto/": "pfs: its layer for Python",
}

Key = tuple[int, str, str]  # process, file or address of a socket, action
Numbers = list[int]  # calls, bytes


@dataclass
class Witnessed:
    """Holds what was seen of each process, file and action, and all bytes of sockets: [read, written]."""

    strace: dict[Key, Numbers]
    pfs: dict[Key, Numbers]
    strace_socket_bytes: Numbers
    pfs_socket_bytes: Numbers
    lost: dict[str, int]

    def differences(self, unseen: str) -> dict[Key, tuple[Numbers | None, Numbers | None]]:
        """Returns what strace and pfs do not agree on, apart from files whose names match `unseen`."""
        patterns = [re.compile(pattern) for pattern in (*ALWAYS_UNSEEN, unseen)]
        return {
            key: (self.strace.get(key), self.pfs.get(key))
            for key in sorted(self.strace.keys() | self.pfs.keys())
            if self.strace.get(key) != self.pfs.get(key) and not any(pattern.search(key[1]) for pattern in patterns)
        }

    def total(self, action: str) -> Numbers:
        """Returns calls and bytes of an action, as pfs has seen them."""
        rows = [numbers for key, numbers in self.pfs.items() if key[2] == action]
        return [sum(row[0] for row in rows), sum(row[1] for row in rows)]


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """Returns the processes that a process has started, and theirs."""
    with contextlib.suppress(OSError):
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [*children, *(below for child in children for below in descendants(child))]
    return []


def until_at_rest(pid: int) -> None:
    """Waits until no thread of what a process has started runs. A signal would come into the middle of a server's last event:
    its client has the answer before the server has done with it."""
    quiet = 0

    def rests() -> bool:
        nonlocal quiet
        tasks = [task for below in descendants(pid) for task in Path(f"/proc/{below}/task").glob("*/stat")]
        states = set()
        for task in tasks:
            with contextlib.suppress(OSError):
                states.add(task.read_text().rpartition(")")[2].split()[0])
        quiet = quiet + 1 if states <= {"S"} else 0
        return quiet == 10

    until(rests, "the server does not come to rest")


@contextlib.contextmanager
def witnessed(folder: Path, *command: str | Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs a program; its records are in `folder` when it has ended. Gives the process of strace; ``more`` is for subprocess."""
    segments, traces = folder / "segments", folder / "traces"
    for each in (segments, traces):
        each.mkdir(mode=0o700)
        if "user" in more:
            os.chown(each, more["user"], more["group"])
    variables = environment(str(segments))
    if "user" in more:  # who may not read the folder of this environment
        copy = shutil.copy(Path(installed.library_dir(), "libperfschema-run.so"), folder)
        variables = {
            name: value.replace(f"{installed.library_dir()}/libperfschema-run.so", str(copy)) for name, value in variables.items()
        }
    variables["PFS_OPTIONS"] += ",performance_schema_events_waits_history_long_size=200000"
    given = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    trace = ["strace", "-ff", "-yy", "-s", "0", "--signal=none", "-e", f"trace={CALLS}", "-o", str(traces / "trace"), *given]
    plain: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": folder}
    process: subprocess.Popen[str] = subprocess.Popen([*trace, *map(str, command)], text=True, **(plain | more))
    try:
        yield process
    finally:
        if process.poll() is None:
            for pid in descendants(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 15)
            process.wait(60)


def read(folder: Path, threads: Mapping[int, int] | None = None) -> Witnessed:
    """Reads what strace and pfs have written. `threads`: the processes of those that were there before strace."""
    by_strace, sockets = _of_strace(folder / "traces", threads or {})
    by_pfs: dict[Key, Numbers] = defaultdict(lambda: [0, 0])
    pfs_sockets, lost = [0, 0], {}
    for path in (folder / "segments").glob("**/*.pfs"):
        with pfs.attach(str(path)) as schema:
            columns = ["EVENT_NAME", "OBJECT_NAME", "OPERATION", "NUMBER_OF_BYTES"]
            events = schema.table("events_waits_history_long", columns, where="EVENT_NAME like 'wait/io/%'")
            assert len(events) < 200_000
            for event, name, operation, size in events.itertuples(index=False):
                if (action := ACTION_OF_OPERATION.get(operation)) is None:
                    continue
                is_socket = event.startswith("wait/io/socket/")
                numbers = by_pfs[schema.pid, _socket_name(name) if is_socket else _file_name(str(name), schema.pid), action]
                numbers[0] += 1
                if action in ("read", "write") and not pd.isna(size):
                    numbers[1] += int(size)
            sums = schema.table("socket_summary_by_event_name")
            for at, column in enumerate(("SUM_NUMBER_OF_BYTES_READ", "SUM_NUMBER_OF_BYTES_WRITE")):
                pfs_sockets[at] += int(sums[column].sum())
            status = schema.table("global_status")
            for name, value in zip(status["VARIABLE_NAME"], status["VARIABLE_VALUE"], strict=True):
                if str(name).endswith("_lost") and str(value) != "0":
                    lost[f"{name} of {schema.command}"] = int(value)
    return Witnessed(by_strace, dict(by_pfs), sockets, pfs_sockets, lost)


def _file_name(name: str, pid: int) -> str:
    """Returns the name that strace has for a file: no link leads to it."""
    return os.path.realpath(name.replace("/proc/self/", f"/proc/{pid}/")) if name.startswith("/") else name


def _socket_name(name: object) -> str:
    return f"socket {name}" if isinstance(name, str) and name else "socket"


CALL = re.compile(r"(?P<call>\w+)\((?P<rest>.*)\) += (?P<result>-?\d+)")
SOCKET = r"(?:TCP|UDP|TCPv6|UDPv6|UNIX|UNIX-STREAM|UNIX-DGRAM|UNIX-SEQPACKET|NETLINK|socket)"
DESCRIPTOR = re.compile(rf"-?\d+<(?:(?P<kind>{SOCKET}):\[(?P<address>.*?)\]|(?P<name>[^<>]*)(?:<\w+ \d+:\d+>)?)>")


def _of_strace(folder: Path, threads: Mapping[int, int]) -> tuple[dict[Key, Numbers], Numbers]:
    """Returns the calls by process, file and action; and the bytes of sockets."""
    lines = {int(path.suffix[1:]): path.read_text().splitlines() for path in folder.glob("trace.*")}
    process_of = {thread: thread for thread in (*lines, *threads.values())} | dict(threads)
    for thread, its in lines.items():
        for line in its:
            if line.startswith("clone") and "CLONE_THREAD" in line and (match := re.search(r"= (\d+)$", line)):
                process_of[int(match[1])] = thread
    found: dict[Key, Numbers] = defaultdict(lambda: [0, 0])
    sockets = [0, 0]
    for thread, its in lines.items():
        process = thread
        while process_of[process] != process:  # a thread that a thread made
            process = process_of[process]
        for line in its:
            match = CALL.match(line)
            if match is None or (action := ACTION_OF_CALL.get(match["call"])) is None:
                continue
            if (where := DESCRIPTOR.match(match["rest"])) is None:  # a descriptor that is none
                continue
            name, result = where["name"], int(match["result"])
            if where["kind"]:
                name = _socket_name(_address(where["kind"], where["address"]))
                if action in ("read", "write"):
                    sockets[action == "write"] += max(result, 0)
            numbers = found[process, name, action]
            numbers[0] += 1
            if action in ("read", "write") and match["call"] not in WITHOUT_BYTES:
                numbers[1] += max(result, 0)
    return dict(found), sockets


def _address(kind: str, text: str) -> str | None:
    """Returns OBJECT_NAME of a socket: the address of the peer, or its own."""
    if kind.startswith("UNIX"):
        path = re.search(r'"(.*)"', text)
        return path[1] if path else None
    return re.sub(r"^\[(.*)\]:", r"\1:", text.rpartition("->")[2]) if kind != "socket" else None
