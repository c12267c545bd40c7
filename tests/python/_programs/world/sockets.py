"""Steps with sockets: pairs, and connections over the loopback. No call waits for another."""

from __future__ import annotations

import ctypes
import os
import socket as plain
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.python._programs import sockets as calls
from tests.python._programs.driver import C, Worker, every, one
from tests.python._programs.sockets import AF_INET, DONTWAIT, STREAM, call
from tests.python._programs.world.base import Base
from tests.python._programs.world.compare import check_io, same, values
from tests.python.facts.model import SOCKET, Socket

NAMES = ("m/near", "m/far")
READS, WRITES = ("recv", "recvfrom", "recvmsg"), ("send", "sendto", "sendmsg")
MISC = ("create", "connect", "listen", "accept", "bind", "close", "seek", "opt", "stat", "shutdown", "select")
# Of pfs_socket_wait_begin().
OWN = {
    calls.CONNECT: "connect",
    calls.SEND: "send",
    calls.RECV: "recv",
    calls.SENDTO: "sendto",
    calls.RECVMSG: "recvmsg",
    calls.SELECT: "select",
    calls.CLOSE: "close",
    calls.LISTEN: "listen",
    calls.ACCEPT: "accept",
}
MOST_SOCKETS, MOST_PENDING = 8, 3
LOOPBACK = "127.0.0.1"


@dataclass(eq=False)
class Open:
    """A socket of the program. Those that pfs follows are what the model knows as well."""

    socket: calls.Socket
    thing: Socket
    listens: bool = False
    connected: bool = False
    pending: list[tuple[str, int]] = field(default_factory=list)  # addresses of clients that nobody has accepted

    @property
    def fd(self) -> int:
        return self.socket.fd


class Sockets(Base):
    def __init__(self) -> None:
        super().__init__()
        self.socket_keys = [self.registered(calls.socket_key(name)) for name in NAMES]
        self.sockets: list[Open] = []
        self.closing: list[Socket] = []  # rows that go when the wait for their close ends

    def followed(self, socket: calls.Socket, instrument: str, connected: bool = False) -> Open:
        """A socket that was made. It has a row, also if its instrument is disabled (C7)."""
        identity = one("socket_instances", SOCKET_ID=socket.fd)["OBJECT_INSTANCE_BEGIN"]
        thing = Socket(instrument, identity, descriptor=socket.fd)
        self.model.add(thing)
        self.sockets.append(Open(socket, thing, connected=connected))
        return self.sockets[-1]

    def on_socket(self, worker: Worker, it: Open, operation: str, do: Callable[[], int], moves: bool = False) -> int:
        event = self.model.begin(worker.id, it.thing.instrument, operation, it.thing.identity)
        result = int(worker.do(do))
        self.model.end(event, it.thing, max(result, 0) if moves else None)
        return result

    # ---- Making and connecting

    def socket(self, t: int, n: int) -> None:
        """One of the internet, or one that cannot be made."""
        worker, instrument = self.worker(t), SOCKET + NAMES[n % 2]
        if len(self.sockets) >= MOST_SOCKETS:
            return
        event = self.model.begin(worker.id, instrument, "create")
        made = worker.do(calls.Socket, self.socket_keys[n % 2], AF_INET if n % 6 else 12345, STREAM)
        thing = self.followed(made, instrument).thing if made.fd >= 0 else None
        if event is not None and thing is not None:
            event.target = thing.identity
        self.model.end(event, thing)

    def pair(self, t: int, n: int) -> None:
        """One event, of the first of two."""
        worker, instrument = self.worker(t), SOCKET + NAMES[n % 2]
        if len(self.sockets) + 2 > MOST_SOCKETS:
            return
        event = self.model.begin(worker.id, instrument, "create")
        first, second = worker.do(calls.pair, self.socket_keys[n % 2])
        thing = self.followed(first, instrument, connected=True).thing
        self.followed(second, instrument, connected=True)
        if event is not None:
            event.target = thing.identity
        self.model.end(event, thing)

    def bind(self, t: int, n: int) -> None:
        """To a port that the system chooses; one of a pair to a path, which is no IP (H13). It may be bound already."""
        worker = self.worker(t)
        if self.sockets:
            it = self.sockets[n % len(self.sockets)]
            rc = self.on_socket(worker, it, "bind", lambda: it.socket.bind(LOOPBACK))
            if rc == 0 and it.socket.domain == AF_INET:
                it.thing.address = it.socket.name()

    def listen(self, t: int, n: int) -> None:
        worker = self.worker(t)
        bound = [it for it in self.sockets if it.thing.address[1] != 0 and not it.connected]
        if bound:
            it = bound[n % len(bound)]
            assert self.on_socket(worker, it, "listen", it.socket.listen) == 0
            it.listens = True

    def connect(self, t: int, n: int, to: int) -> None:
        """To one that listens; else to a port where nobody does. A failure (also of what was shut down) changes nothing."""
        worker = self.worker(t)
        clients = [it for it in self.sockets if not it.connected and not it.listens and it.socket.domain == AF_INET]
        servers = [it for it in self.sockets if it.listens and len(it.pending) < MOST_PENDING]
        if not clients:
            return
        it = clients[n % len(clients)]
        server = servers[to % len(servers)] if servers else None
        port = 1 if server is None else server.thing.address[1]
        rc = self.on_socket(worker, it, "connect", lambda: it.socket.connect(LOOPBACK, port))
        assert rc == -1 or server is not None
        if rc == 0 and server is not None:
            it.connected = True
            it.thing.address = server.thing.address
            server.pending.append(it.socket.name())

    def accept(self, t: int, n: int) -> None:
        """An event of the one that listens; the new socket is of its instrument, and has its client's address."""
        worker = self.worker(t)
        asked = [it for it in self.sockets if it.pending]
        if not asked or len(self.sockets) >= MOST_SOCKETS:
            return
        it = asked[n % len(asked)]
        event = self.model.begin(worker.id, it.thing.instrument, "accept", it.thing.identity)
        accepted = self.followed(worker.do(it.socket.accept), it.thing.instrument, connected=True)
        accepted.thing.address = it.pending.pop(0)
        self.model.end(event, it.thing)

    # ---- Using

    def send(self, t: int, n: int, size: int) -> None:
        worker = self.worker(t)
        if self.sockets:
            it = self.sockets[n % len(self.sockets)]
            self.on_socket(worker, it, "send", lambda: it.socket.send(size, DONTWAIT | plain.MSG_NOSIGNAL), moves=True)

    def recv(self, t: int, n: int, size: int) -> None:
        worker = self.worker(t)
        if self.sockets:
            it = self.sockets[n % len(self.sockets)]
            self.on_socket(worker, it, "recv", lambda: it.socket.recv(size, DONTWAIT), moves=True)

    def socket_misc(self, t: int, n: int, which: int) -> None:
        worker = self.worker(t)
        if not self.sockets:
            return
        it, yes = self.sockets[n % len(self.sockets)], ctypes.c_int(1)
        operation, do = (
            ("opt", lambda: call("setsockopt", it.fd, plain.SOL_SOCKET, plain.SO_KEEPALIVE, ctypes.byref(yes), 4)),
            ("stat", lambda: C.fstat(it.fd)),
            ("seek", lambda: C.lseek(it.fd, 5, 0)),
            ("shutdown", lambda: call("shutdown", it.fd, plain.SHUT_WR) if not it.listens else call("shutdown", it.fd, 99)),
        )[which % 4]
        self.on_socket(worker, it, operation, do)

    def socket_info(self, t: int, n: int, state: int) -> None:
        """No event: owner and state are what the program says (H13)."""
        worker = self.worker(t)
        if self.sockets:
            it = self.sockets[n % len(self.sockets)]
            worker.do(calls.set_state, it.fd, calls.IDLE if state % 2 else calls.ACTIVE)
            it.thing.state = "IDLE" if state % 2 else "ACTIVE"
            if state % 3 == 0:
                worker.do(calls.set_thread, it.fd)
                it.thing.thread = worker.id

    def close_socket(self, t: int, n: int) -> None:
        worker = self.worker(t)
        if self.sockets:
            it = self.sockets.pop(n % len(self.sockets))
            assert self.on_socket(worker, it, "close", it.socket.close) == 0
            self.model.kill(it.thing)

    def unfollow_socket(self, n: int) -> None:
        """No event: the row goes; it stays open, until nobody sees how it is closed."""
        if self.sockets:
            it = self.sockets.pop(n % len(self.sockets))
            calls.unfollow(it.fd)
            os.close(it.fd)
            self.model.kill(it.thing)

    def socket_begin(self, t: int, n: int, which: int) -> None:
        """A wait of the program's own. One for a close takes the descriptor's name at once, and the row when it ends."""
        worker = self.worker(t)
        if not self.sockets or not self.may_begin(worker):
            return
        it, op = self.sockets[n % len(self.sockets)], list(OWN)[which % len(OWN)]
        event = self.model.begin(worker.id, it.thing.instrument, OWN[op], it.thing.identity)
        if event is not None:
            event.bytes = 100
        wait = worker.do(calls.Wait, it.fd, op, 100)
        assert wait.begun == (event is not None)
        closes = op == calls.CLOSE
        if closes:
            self.sockets.remove(it)
            self.closing.append(it.thing)

        def closed() -> None:
            self.closing.remove(it.thing)
            os.close(it.fd)
            self.model.kill(it.thing)

        def end(moved: int) -> None:
            worker.do(wait.end, moved)
            self.model.end(event, it.thing, None if closes else moved)
            if closes and event is not None:
                closed()

        if closes and event is None:
            closed()
        self.waits[worker].append(end)

    # ---- Comparison

    def compare(self) -> None:
        super().compare()
        totals = {row["EVENT_NAME"]: row for row in every("socket_summary_by_event_name")}
        same("socket instruments", totals, [SOCKET + name for name in NAMES])
        for name, row in totals.items():
            check_io(row, self.model.of_class(name), READS, WRITES, MISC)
        things = {it.identity: it for it in [*(it.thing for it in self.sockets), *self.closing]}
        columns = ("EVENT_NAME", "OBJECT_INSTANCE_BEGIN", "THREAD_ID", "SOCKET_ID", "IP", "PORT", "STATE")
        same(
            "sockets",
            [values(row, *columns) for row in every("socket_instances")],
            [(it.instrument, it.identity, it.thread, it.descriptor, *it.address, it.state) for it in things.values()],
        )
        shown = {row["OBJECT_INSTANCE_BEGIN"]: row for row in every("socket_summary_by_instance")}
        same("socket summaries", shown, things)
        for identity, thing in things.items():
            check_io(shown[identity], self.model.things[thing], READS, WRITES, MISC)
