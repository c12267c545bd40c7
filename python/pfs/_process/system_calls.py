"""Says which system call each thread of a process waits in, and for which file or socket, as /proc tells a user who may trace it.

A wait that began before pfs joined the process is in no table. The system knows it all the same.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Collection

__all__ = ["waits_of"]

_FD, _POLL, _FUTEX, _PLAIN = range(4)  # the kinds of arguments: see _text_of()
# The calls of x86-64 that a thread may wait in for long.
_CALLS = {
    0: ("read", _FD),
    1: ("write", _FD),
    7: ("poll", _POLL),
    17: ("pread", _FD),
    18: ("pwrite", _FD),
    19: ("readv", _FD),
    20: ("writev", _FD),
    23: ("select", _PLAIN),
    34: ("pause", _PLAIN),
    35: ("nanosleep", _PLAIN),
    42: ("connect", _FD),
    43: ("accept", _FD),
    44: ("send", _FD),
    45: ("recv", _FD),
    46: ("sendmsg", _FD),
    47: ("recvmsg", _FD),
    61: ("wait4 (end of a child)", _PLAIN),
    65: ("semop", _PLAIN),
    70: ("msgrcv", _PLAIN),
    72: ("fcntl", _FD),
    73: ("flock", _FD),
    74: ("fsync", _FD),
    75: ("fdatasync", _FD),
    128: ("sigtimedwait", _PLAIN),
    130: ("sigsuspend", _PLAIN),
    202: ("futex", _FUTEX),
    219: ("a sleep or poll that a signal broke", _PLAIN),
    220: ("semtimedop", _PLAIN),
    230: ("sleep", _PLAIN),
    232: ("epoll_wait", _PLAIN),
    247: ("waitid (end of a child)", _PLAIN),
    270: ("select", _PLAIN),
    271: ("poll", _POLL),
    281: ("epoll_wait", _PLAIN),
    288: ("accept", _FD),
    299: ("recvmmsg", _FD),
    426: ("io_uring_enter", _PLAIN),
    441: ("epoll_wait", _PLAIN),
    449: ("futex (several)", _PLAIN),
}
_FUTEX_WAITS = (0, 9)  # FUTEX_WAIT and FUTEX_WAIT_BITSET, without the flags
_CONTENDED = 2  # the word of a mutex of glibc for which a thread waits
_MOST_POLLED = 4
_SYN_SENT, _LISTEN = "02", "0A"


def waits_of(pid: int, chosen: Collection[int] | None = None) -> list[tuple[list[str], str]]:
    """Returns the waits of threads in words, each with its threads: those waits that most threads have come first.

    It returns nothing on other processors than x86-64, and if this user may not trace the process.

    Args:
        chosen: only these threads, by the id that the process itself knows; None: all.
    """
    if os.uname().machine != "x86_64":
        return []
    texts: dict[str, list[str]] = {}
    try:
        for task in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):
            try:
                own = int(re.findall(r"^NSpid:.*?(\d+)$", _read(pid, f"task/{task}/status"), re.MULTILINE)[0])
                if chosen is None or own in chosen:
                    name = _read(pid, f"task/{task}/comm").rstrip("\n")
                    text = _text_of(pid, _read(pid, f"task/{task}/syscall").split())
                    texts.setdefault(text, []).append(f"{own} {name}")
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue  # it has ended
    except OSError:
        return []
    return sorted(((threads, text) for text, threads in texts.items()), key=lambda wait: -len(wait[0]))


def _text_of(pid: int, words: list[str]) -> str:
    """Returns a line of /proc/PID/task/TID/syscall in words: number, six arguments, stack and place; or two other forms."""
    if words[0] == "running":
        return "runs, or waits for a processor"
    if words[0] == "-1":
        return "waits outside of a system call: for memory, or it is stopped"
    arguments = [int(word, 16) for word in words[1:7]]
    name, kind = _CALLS.get(int(words[0]), (f"system call {words[0]}", _PLAIN))
    if kind == _FD:
        return f"{name} of {_described(pid, arguments[0])}"
    if kind == _POLL:
        polled = _memory(pid, arguments[0], 8 * min(arguments[1], _MOST_POLLED))
        files = [_described(pid, number) for number, _, _ in struct.iter_unpack("=ihh", polled) if number >= 0]
        return f"{name} of {', '.join(files)}" if files else name
    if kind == _FUTEX:
        return f"{name}: a lock, a condition or the end of a thread{_held(pid, *arguments[:3])}"
    return name


def _held(pid: int, address: int, operation: int, value: int) -> str:
    """Returns who holds the mutex of a futex: a plain mutex of the C library has the id of its holder 8 bytes behind its word."""
    if operation & 0x7F not in _FUTEX_WAITS or value != _CONTENDED:
        return ""
    words = _memory(pid, address, 12)
    if len(words) < 12:
        return ""
    futex, _, holder = struct.unpack("=iIi", words)
    threads = {_read(pid, f"task/{task}/status") for task in os.listdir(f"/proc/{pid}/task")} if futex == _CONTENDED else set()
    is_thread = any(re.search(rf"^NSpid:.*\b{holder}$", text, re.MULTILINE) for text in threads)
    return f". It is a mutex that {holder} holds" if is_thread else ""


def _memory(pid: int, address: int, size: int) -> bytes:
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            return os.pread(file.fileno(), size, address)
    except (OSError, OverflowError):
        return b""


def _described(pid: int, number: int) -> str:
    """Returns a descriptor in words: the path of a file, or the addresses of a socket."""
    try:
        target = os.readlink(f"/proc/{pid}/fd/{number & 0xFFFFFFFF}")
    except OSError:
        return f"descriptor {number}"
    if (inode := re.fullmatch(r"socket:\[(\d+)\]", target)) is None:
        return target
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        for words in _lines(pid, protocol):
            if words[9] == inode[1]:
                here, there = _address(words[1]), _address(words[2])
                if words[3] == _LISTEN:
                    return f"socket {here}"
                return f"socket {there}, which does not answer yet" if words[3] == _SYN_SENT else f"socket {here} to {there}"
    for words in _lines(pid, "unix"):
        if words[6] == inode[1] and len(words) > 7:
            return f"socket {words[7]}"
    return "a socket"


def _lines(pid: int, protocol: str) -> list[list[str]]:
    try:
        return [line.split() for line in _read(pid, f"net/{protocol}").splitlines()[1:]]
    except OSError:
        return []


def _address(text: str) -> str:
    """Returns ``0100007F:1538`` as ``127.0.0.1:5432``. The kernel writes an address in words of the processor."""
    digits, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, len(digits), 8))
    shown = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    shown = shown.removeprefix("::ffff:")
    return f"[{shown}]:{int(port, 16)}" if ":" in shown else f"{shown}:{int(port, 16)}"


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()
