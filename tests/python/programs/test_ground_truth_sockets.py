"""Counts and bytes of sockets against what the kernel saw: strace is the judge, as in test_ground_truth.py for files."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from pfs import _core
from tests.conftest import Build
from tests.python._programs.fresh_process import environment
from tests.python.programs.test_ground_truth import STRACE, strace_works

pytestmark = pytest.mark.skipif(not strace_works(), reason="needs strace and the right to trace")

READS, WRITES = ("recvfrom", "recvmsg", "recvmmsg", "read", "readv"), ("sendto", "sendmsg", "sendmmsg", "write", "writev")
UNSEEN = ("getsockname", "getpeername")  # the program makes them plainly; and pfs asks for addresses itself
_CALL = re.compile(r"^(\w+)\((-?\d+).*\)\s+= (-?\d+)")
_PAIR = re.compile(r"^socketpair\(.*\[(\d+), (\d+)\]\)\s+= 0")


@dataclass
class Truth:
    """What the kernel did for one socket."""

    reads: int = 0
    bytes_read: int = 0
    writes: int = 0
    bytes_written: int = 0
    others: int = 0

    def five(self) -> tuple[int, ...]:
        return self.reads, self.bytes_read, self.writes, self.bytes_written, self.others


class Thread:
    """Sockets of one thread: by number while open, and those that were closed."""

    def __init__(self) -> None:
        self.open: dict[int, Truth] = {}
        self.closed: list[Truth] = []
        self.failed_to_make = 0

    def parse(self, line: str) -> None:
        if (pair := _PAIR.match(line)) is not None:
            first, second = int(pair[1]), int(pair[2])
            self.open[first], self.open[second] = Truth(others=1), Truth()
            return
        if line.startswith("socket("):
            fd = int(line.rpartition("= ")[2].split()[0])
            if fd >= 0:
                self.open[fd] = Truth(others=1)
            else:
                self.failed_to_make += 1
            return
        match = _CALL.match(line)
        if match is None:
            return
        call, fd, result = match[1], int(match[2]), int(match[3])
        if fd not in self.open or call in UNSEEN:
            return
        socket = self.open[fd]
        moved = max(result, 0)
        if call.endswith("mmsg"):
            moved = sum([int(size) for size in re.findall(r"msg_len=(\d+)", line)][:moved])
        if call in READS:
            socket.reads += 1
            socket.bytes_read += moved
        elif call in WRITES:
            socket.writes += 1
            socket.bytes_written += moved
        else:
            socket.others += 1
        if call.startswith("accept") and result >= 0:
            self.open[result] = Truth()
        if call == "close":
            self.closed.append(self.open.pop(fd))


def test_parser_of_strace_counts_what_it_should() -> None:
    """The judge is right: calls, bytes, failures, sockets that come and go."""
    thread = Thread()
    for line in (
        "socket(12345, SOCK_STREAM, 0)           = -1 EAFNOSUPPORT (Address family not supported by protocol)",
        "socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3",
        "bind(3, {sa_family=AF_INET, sin_port=htons(0)}, 16) = 0",
        "getsockname(3, {sa_family=AF_INET, sin_port=htons(1)}, [128 => 16]) = 0",
        "accept(3, NULL, NULL)                   = 5",
        'sendto(5, ""..., 70, MSG_DONTWAIT, NULL, 0) = 60',
        "recvfrom(5, 0x7ffd, 10, MSG_DONTWAIT, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)",
        "recvmmsg(5, [{msg_hdr={msg_iovlen=1}, msg_len=7}, {msg_hdr={}, msg_len=8}], 2, MSG_DONTWAIT, NULL) = 1",
        "close(3)                                = 0",
        "socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0",
        "close(99)                               = -1 EBADF (Bad file descriptor)",
    ):
        thread.parse(line)
    assert thread.failed_to_make == 1
    assert [truth.five() for truth in thread.closed] == [(0, 0, 0, 0, 4)]
    assert {fd: truth.five() for fd, truth in thread.open.items()} == {
        3: (0, 0, 0, 0, 1),
        4: (0, 0, 0, 0, 0),
        5: (2, 7, 1, 60, 0),
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sockets_agree_with_strace(seed: int, build: Build, tmp_path: Path) -> None:
    """Every open socket, and the instrument with what the closed ones left: calls and bytes are those of the kernel."""
    assert STRACE is not None
    folder = tmp_path / "strace"
    folder.mkdir()
    calls = "trace=%network,read,write,readv,writev,lseek,close"
    command = [STRACE, "-ff", "-qq", "-v", "-s", "9", "-e", calls, "-e", "signal=none", "-o", str(folder / "trace")]
    done = subprocess.run(
        [*command, str(build("socket_truth")), str(seed)],
        env=environment(tmp_path, PFS_KEEP="1"), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    truth: dict[int, Truth] = {}
    total = Truth()
    for part in folder.iterdir():
        thread = Thread()
        for line in part.read_text().splitlines():
            assert "unfinished" not in line, line
            thread.parse(line)
        assert not truth.keys() & thread.open.keys()
        truth.update(thread.open)
        total.others += thread.failed_to_make
        for one in [*thread.open.values(), *thread.closed]:
            total.reads += one.reads
            total.bytes_read += one.bytes_read
            total.writes += one.writes
            total.bytes_written += one.bytes_written
            total.others += one.others

    segment = _core.Segment(done.stdout.split()[1])
    columns = ("COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE", "COUNT_MISC")
    descriptors = dict(_core.rows("socket_instances", ("OBJECT_INSTANCE_BEGIN", "SOCKET_ID"), segment))
    shown = {
        descriptors[row[0]]: tuple(row[1:])
        for row in _core.rows("socket_summary_by_instance", ("OBJECT_INSTANCE_BEGIN", *columns), segment)
    }
    expected = {fd: one.five() for fd, one in truth.items()}
    assert shown == expected, {fd: (shown.get(fd), expected.get(fd)) for fd in shown.keys() | expected.keys()}
    assert len(shown) > 20
    (by_name,) = _core.rows("socket_summary_by_event_name", columns, segment)
    assert tuple(by_name) == total.five()
    assert total.bytes_read > 10_000
    (all_waits,) = [
        row[1] for row in _core.rows("events_waits_summary_global_by_event_name", ("EVENT_NAME", "COUNT_STAR"), segment)
        if row[0] == "wait/io/socket/truth/socket"
    ]  # fmt: skip
    assert all_waits == total.reads + total.writes + total.others
    by_operation: dict[str, int] = defaultdict(int)
    for (operation,) in _core.rows("events_waits_history_long", ("OPERATION",), segment):
        by_operation[operation] += 1
    usual = {"send", "sendto", "sendmsg", "recv", "recvfrom", "recvmsg", "seek", "opt"}
    usual |= {"connect", "listen", "accept", "create", "close"}
    assert usual <= set(by_operation)
    status = _core.rows("global_status", ("VARIABLE_NAME", "VARIABLE_VALUE"), segment)
    assert {value for name, value in status if name.endswith("_lost")} == {"0"}
