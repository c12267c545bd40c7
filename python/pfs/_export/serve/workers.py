"""Answers statements in processes that can be ended. DuckDB neither ends every statement nor counts all of its memory."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pickle
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pfs._export.serve.wire import Refusal
from pfs._sql import memory

__all__ = ["Workers"]

_AT_ONCE = 2  # statements: each may take so much
_POLL = 0.1  # seconds after which somebody is asked whether the answer is still wanted
_SIZE, _PID = struct.Struct("<Q"), struct.Struct("<i")
_NO_MEMORY, _TIMEOUT = 1041, 3024
_PR_SET_PDEATHSIG = 1

# Called in a worker with what all workers were given, and with its arguments. Returns a value, and bytes that follow it.
Job = Callable[..., tuple[Any, Iterable[bytes]]]


def _send(there: socket.socket, data: bytes) -> None:
    there.sendall(_SIZE.pack(len(data)))
    there.sendall(data)


def _receive(there: socket.socket) -> bytes:
    """Returns what `_send` has sent.

    Raises:
        EOFError: the other process has ended.
    """
    (size,) = _SIZE.unpack(_exactly(there, _SIZE.size))
    return _exactly(there, size)


def _exactly(there: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    view = memoryview(found)
    while view:
        count = there.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return bytes(found)


# ---- In the other processes.


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, and the server ends them
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _nursery(control: socket.socket, given: object) -> None:
    """Forks workers until the server ends. It has no threads, so that a fork of it is whole."""
    import duckdb  # noqa: F401  # workers share what is imported here
    import pandas  # noqa: F401
    import sqlglot.optimizer.annotate_types  # noqa: F401

    children: set[int] = set()
    while True:
        command, fds, _, _ = socket.recv_fds(control, 1 + _PID.size, 1)
        if not command:
            return
        while children and (ended := os.waitpid(-1, os.WNOHANG)[0]):
            children.discard(ended)
        if command[:1] == b"k":
            (pid,) = _PID.unpack(command[1:])
            if pid in children:  # nobody else can have its number before it is waited for
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                children.discard(pid)
            continue
        there = socket.socket(fileno=fds[0])
        pid = os.fork()
        if pid == 0:
            control.close()
            _work(there, given)
            os._exit(0)
        there.close()
        children.add(pid)
        control.sendall(_PID.pack(pid))


def _work(there: socket.socket, given: object) -> None:
    _die_with_parent()
    memory.bound()
    with suppress(EOFError, OSError):
        while True:
            job, arguments = pickle.loads(_receive(there))
            try:
                value, parts = job(given, *arguments)
                answer = pickle.dumps(value)
            except MemoryError:
                answer, parts = pickle.dumps(_no_memory()), None
            except Exception as error:
                answer, parts = _pickled(error), None
            _send(there, answer)
            if parts is not None:
                for part in parts:  # what fails here ends the process
                    _send(there, part)
                _send(there, b"")


def _pickled(error: Exception) -> bytes:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return pickle.dumps(RuntimeError(str(error)))
    return data


def _no_memory() -> Refusal:
    return Refusal(_NO_MEMORY, f"Out of memory: the statement needs more than {memory.MOST >> 30} GiB")


# ---- In the server.


class _Worker:
    """One process. Threads: one at a time."""

    def __init__(self, pid: int, there: socket.socket) -> None:
        self.pid = pid
        self._there = there

    def ask(self, job: Job, arguments: Sequence[object]) -> tuple[Any, list[bytes]]:
        _send(self._there, pickle.dumps((job, arguments)))
        value = pickle.loads(_receive(self._there))
        if isinstance(value, Exception):
            raise value
        parts: list[bytes] = []
        while part := _receive(self._there):
            parts.append(part)
        return value, parts

    def close(self) -> None:
        with suppress(OSError):
            self._there.shutdown(socket.SHUT_RDWR)  # a thread may wait there
        self._there.close()


class Workers:
    """Processes that answer statements, two at a time. Threads: the event loop's."""

    def __init__(self, given: object) -> None:
        """``given``: what each job gets first. REQUIRES: the process has no other thread."""
        self._control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._nursery = os.fork()
        if self._nursery == 0:
            with suppress(BaseException):
                self._control.close()
                _die_with_parent()
                _nursery(there, given)
            os._exit(0)
        there.close()
        self._lock = threading.Lock()  # of the control socket
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._idle: list[_Worker] = []

    async def ask(self, job: Job, *arguments: object, seconds: float, check: Callable[[], None]) -> tuple[Any, list[bytes]]:
        """Returns what a job returns.

        Args:
            check: raises if nobody wants the answer any more. It is called again and again, and the job ends then.

        Raises:
            Refusal: the job needed more time or memory than it may have.
            Exception: what the job has raised, or the check.
        """
        await self._take_turn(check)
        try:
            worker = self._idle.pop() if self._idle else await asyncio.to_thread(self._new)
            loop = asyncio.get_running_loop()
            asked = loop.run_in_executor(None, worker.ask, job, arguments)
            end = loop.time() + seconds
            try:
                while not (await asyncio.wait({asked}, timeout=_POLL))[0]:
                    check()
                    if loop.time() > end:
                        raise Refusal(_TIMEOUT, f"Query execution was interrupted: it took more than {seconds:g} s")
            except BaseException:
                self._end(worker)
                await asyncio.wait({asked})  # its thread sees the end of the process
                asked.exception()
                raise
            try:
                found = asked.result()
            except (EOFError, OSError):
                self._end(worker)
                raise _no_memory() from None
            except BaseException:
                self._idle.append(worker)
                raise
            self._idle.append(worker)
            return found
        finally:
            self._turn.release()

    async def _take_turn(self, check: Callable[[], None]) -> None:
        turn = asyncio.ensure_future(self._turn.acquire())
        try:
            while not (await asyncio.wait({turn}, timeout=_POLL))[0]:
                check()
        except BaseException:
            if not turn.cancel():  # it has just come
                self._turn.release()
            raise

    def _new(self) -> _Worker:
        here, there = socket.socketpair()
        with self._lock, there:
            socket.send_fds(self._control, [b"n" + bytes(_PID.size)], [there.fileno()])
            (pid,) = _PID.unpack(self._control.recv(_PID.size))
        return _Worker(pid, here)

    def _end(self, worker: _Worker) -> None:
        with self._lock, suppress(OSError):
            self._control.send(b"k" + _PID.pack(worker.pid))
        worker.close()

    def close(self) -> None:
        """Ends all of them."""
        self._control.close()
        with suppress(OSError):
            os.kill(self._nursery, signal.SIGKILL)  # its children die with it
            os.waitpid(self._nursery, 0)
