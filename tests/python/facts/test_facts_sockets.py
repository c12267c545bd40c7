"""Sockets: their life (semantics.md H13), what is counted (H10, H11), TRUNCATE (F8-F10), limits (C5-C7, H12). Each test runs in
a process of its own."""

from __future__ import annotations

import ctypes
import os
import socket as plain
import time
import warnings
from typing import Any

import pytest

import pfs
from tests.python._programs.driver import *
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.sockets import (
    ACCEPT,
    ACTIVE,
    AF_INET,
    AF_INET6,
    AF_UNIX,
    BIND,
    CLOSE,
    CONNECT,
    DATAGRAM,
    DONTWAIT,
    IDLE,
    LISTEN,
    RECV,
    RECVMSG,
    SELECT,
    SEND,
    SENDMSG,
    SOCKET,
    SOCKETS,
    SOCKETS_BY_INSTANCE,
    Socket,
    Wait,
    address,
    call,
    file_key,
    follow,
    listener,
    pair,
    set_address,
    set_state,
    set_thread,
    socket_key,
    unfollow,
)

TABLES = (SOCKETS, SOCKETS_BY_INSTANCE)
READS, WRITES, MISC = ("recv", "recvfrom", "recvmsg"), ("send", "sendto", "sendmsg"), "the rest"


def instance(socket: Socket) -> Row:
    return one("socket_instances", SOCKET_ID=socket.fd)


def shown(socket: Socket) -> tuple[str, int]:
    row = instance(socket)
    return row["IP"], row["PORT"]


def of(socket: Socket) -> Row:
    """Its row of socket_summary_by_instance."""
    return one(SOCKETS_BY_INSTANCE, OBJECT_INSTANCE_BEGIN=instance(socket)["OBJECT_INSTANCE_BEGIN"])


def lanes(row: Row) -> tuple[int, int, int]:
    return row["COUNT_READ"], row["COUNT_WRITE"], row["COUNT_MISC"]


def moved(row: Row) -> tuple[int, int]:
    return row["SUM_NUMBER_OF_BYTES_READ"], row["SUM_NUMBER_OF_BYTES_WRITE"]


def last() -> Row:
    return events()[-1]


# ---- H13: life, address, owner, state ----------------------------------------------------------------------------------------


@fresh_process()
@pytest.mark.parametrize("domain", [int(AF_INET), int(AF_INET6)])
def test_H13_addresses_of_internet_sockets(domain: int) -> None:
    """H13: nothing until there is an address; a listener shows its own (the port that the system chose), a connected or accepted
    one its peer's; OBJECT_NAME is IP:PORT."""
    host = "127.0.0.1" if domain == AF_INET else "::1"
    server, client = Socket("h/listen", domain), Socket("h/client", domain)
    if server.fd < 0 or server.bind(host) != 0:
        print("no such addresses here")
        return
    assert last()["OBJECT_NAME"] == "{}:{}".format(*server.name())
    assert shown(client) == ("", 0)
    assert server.listen() == 0
    assert shown(server) == server.name() == (host, server.name()[1])
    assert client.connect(host, server.name()[1]) == 0
    assert shown(client) == server.name()
    accepted = server.accept(socket_key("h/accepted"))
    assert shown(accepted) == client.name()
    assert shown(server) == server.name()
    assert accepted.send(3) == 3
    assert (last()["OBJECT_TYPE"], last()["OBJECT_NAME"]) == ("SOCKET", "{}:{}".format(*client.name()))
    assert last()["OBJECT_INSTANCE_BEGIN"] == instance(accepted)["OBJECT_INSTANCE_BEGIN"]
    names = {row["SOCKET_ID"]: row["EVENT_NAME"] for row in rows("socket_instances")}
    assert names == {s.fd: SOCKET + "h/" + name for s, name in ((server, "listen"), (client, "client"), (accepted, "accepted"))}


@fresh_process("performance_schema_events_waits_history_long_size=20000")
def test_events_of_closed_sockets_keep_their_peers() -> None:
    """More sockets than there are names of one size that wait to be used again, whatever the history's length."""
    server = listener("h/listen")
    host, port = server.name()
    clients = []
    for _ in range(1500):
        client = Socket("h/client")
        assert client.connect(host, port) == 0
        clients.append("{}:{}".format(*client.name()))
        accepted = server.accept(socket_key("h/accepted"))
        accepted.send(1)
        client.close()
        accepted.close()
    to_server = [f"{host}:{port}"] * 1500
    expected = {
        ("listen", "accept"): to_server,
        ("client", "connect"): to_server,
        ("client", "close"): to_server,
        ("accepted", "send"): clients,
        ("accepted", "close"): clients,
    }
    for (name, operation), peers in expected.items():
        assert [e["OBJECT_NAME"] for e in events(EVENT_NAME=SOCKET + "h/" + name, OPERATION=operation)] == peers


@fresh_process()
def test_H13_an_accepted_socket_is_of_the_key_given_or_of_the_listeners_instrument() -> None:
    """H13: pfs_accept(0, ...) takes the listener's instrument; the event is the listener's; the address is known however it is
    asked for."""
    server = listener("h/listen")
    assert last()["OPERATION"] == "listen"
    for key, name, length in ((0, "listen", None), (socket_key("h/other"), "other", ctypes.c_uint32(16))):
        client = Socket(0)
        assert client.connect("127.0.0.1", server.name()[1]) == 0
        before = of(server)["COUNT_MISC"]
        room = None if length is None else ctypes.create_string_buffer(16)
        accepted = Socket(0, fd=call("accept", key, server.fd, room, None if length is None else ctypes.byref(length)))
        assert instance(accepted)["EVENT_NAME"] == SOCKET + "h/" + name
        assert shown(accepted) == client.name()
        assert of(server)["COUNT_MISC"] == before + 1
        assert of(accepted)["COUNT_STAR"] == 0
        assert last()["OPERATION"] == "accept"
        client.close()
    # A listener that is not followed: its accept is no event, the new socket is followed if a key says so.
    unseen = plain.socket()
    unseen.bind(("127.0.0.1", 0))
    unseen.listen()
    total = count(WAITS)
    for key in (0, socket_key("h/other")):
        with plain.create_connection(unseen.getsockname()):
            accepted = Socket(0, fd=call("accept", key, unseen.fileno(), None, None))
            assert len(rows("socket_instances", SOCKET_ID=accepted.fd)) == (key != 0)
            os.close(accepted.fd)
    assert count(WAITS) == total


@fresh_process()
def test_H13_local_sockets_have_a_path() -> None:
    """H13 for AF_UNIX: IP '' and PORT 0; OBJECT_NAME is the path, "@name" for an abstract one; an accepted socket whose peer has
    none shows the listener's."""
    for path in ("h.socket", f"@pfs-{os.getpid()}\0x"):
        server, client = Socket("h/local", AF_UNIX), Socket("h/local", AF_UNIX)
        assert server.bind(path) == 0
        name = path.replace("\0", "@")
        assert last()["OBJECT_NAME"] == name
        assert server.listen() == 0
        assert client.connect(path) == 0
        assert last()["OBJECT_NAME"] == name
        accepted = server.accept()
        assert accepted.send(1) == 1
        assert last()["OBJECT_NAME"] == name
        assert {shown(s) for s in (server, client, accepted)} == {("", 0)}
    a, b = pair("h/pair")
    assert a.send(5) == b.recv(9) == 5
    assert last()["OBJECT_NAME"] is None
    assert {shown(a), shown(b)} == {("", 0)}


@fresh_process()
def test_H13_an_address_changes_with_connect_and_on_demand() -> None:
    """H13: set_info. A failed connect or bind changes nothing, one that is still being made does; AF_UNSPEC takes the peer
    away."""
    server = listener("h/server")
    port = server.name()[1]
    client = Socket("h/client")
    assert client.connect("127.0.0.1", 1) == -1
    assert shown(client) == ("", 0)
    assert client.bind("127.0.0.1") == 0
    assert shown(client) == client.name()
    assert client.bind("192.0.2.77", 1) == -1
    assert shown(client) == client.name()
    os.set_blocking(client.fd, False)
    assert client.connect("127.0.0.1", port) == -1
    assert shown(client) == ("127.0.0.1", port)
    datagrams = Socket("h/udp", AF_INET, DATAGRAM)
    assert datagrams.connect("127.0.0.1", 9) == 0
    assert shown(datagrams) == ("127.0.0.1", 9)
    nobody = b"\0" * 16
    assert call("connect", datagrams.fd, nobody, 16) == 0
    assert shown(datagrams)[1] != 9
    set_address(datagrams.fd, address(AF_INET6, "2001:db8::7", 65535))
    assert shown(datagrams) == ("2001:db8::7", 65535)
    set_address(datagrams.fd, address(AF_INET, "255.255.255.255", 1))
    assert shown(datagrams) == ("255.255.255.255", 1)
    set_address(server.fd, address(AF_INET, "192.0.2.1", 80))
    set_address(server.fd, None)
    assert shown(server) == server.name()
    set_address(1000, None)
    assert losses() == {}


@fresh_process()
def test_H13_owner_and_state_are_what_the_program_says() -> None:
    """H13: THREAD_ID by set_owner, NULL before; STATE toggles."""
    worker = Worker()
    a, b = pair("h/pair")
    assert {(row["THREAD_ID"], row["STATE"]) for row in rows("socket_instances")} == {(None, "ACTIVE")}
    set_thread(a.fd)
    worker.do(set_thread, b.fd)
    assert (instance(a)["THREAD_ID"], instance(b)["THREAD_ID"]) == (me(), worker.id)
    set_thread(b.fd)
    assert instance(b)["THREAD_ID"] == me()
    for state, text in ((IDLE, "IDLE"), (IDLE, "IDLE"), (ACTIVE, "ACTIVE"), (IDLE, "IDLE")):
        set_state(a.fd, state)
        assert (instance(a)["STATE"], instance(b)["STATE"]) == (text, "ACTIVE")
    assert a.send(1) == 1
    a.close()
    again = Socket("h/pair", AF_UNIX)
    assert again.fd == a.fd
    assert (instance(again)["THREAD_ID"], instance(again)["STATE"]) == (None, "ACTIVE")
    set_state(999, IDLE)
    set_thread(999)


@fresh_process()
def test_H13_a_closed_socket_leaves_its_numbers_to_its_instrument() -> None:
    """H13: the row goes at close; by_event_name, global, by_thread keep the numbers, the close included."""
    a, b = pair("h/pair")
    for _ in range(3):
        assert a.send(10) == 10
    assert b.recv(30) == 30
    kept = {table: count(table) for table in (SOCKETS, WAITS, WAITS_BY_THREAD)}
    assert set(kept.values()) == {1 + 3 + 1}
    before = one(SOCKETS)
    assert a.close() == 0
    assert [row["SOCKET_ID"] for row in rows("socket_instances")] == [b.fd]
    assert len(rows(SOCKETS_BY_INSTANCE)) == len(rows(WAITS_BY_INSTANCE)) == 1
    assert {table: count(table) - kept[table] for table in kept} == dict.fromkeys(kept, 1)
    after = one(SOCKETS)
    assert lanes(after) == (1, 3, 2)
    assert moved(after) == moved(before) == (30, 30)
    assert after["MAX_TIMER_WRITE"] == before["MAX_TIMER_WRITE"] > 0
    assert after["MIN_TIMER_WRITE"] == before["MIN_TIMER_WRITE"]
    assert last()["OPERATION"] == "close"
    assert b.close() == 0
    assert rows("socket_instances") == []
    assert count(SOCKETS) == 1 + 3 + 1 + 2
    # A second close is the plain call.
    assert b.close() == -1
    assert count(SOCKETS) == 7


@fresh_process()
def test_H13_a_number_that_was_closed_behind_our_back_is_another_sockets() -> None:
    """H13: plain close() is not seen; the next socket of that number starts from zero, and the old one's numbers are kept."""
    a, b = pair("h/one")
    assert a.send(4) == 4
    os.close(a.fd)
    assert len(rows("socket_instances")) == 2
    again = Socket("h/two", AF_UNIX)
    assert again.fd == a.fd
    assert [row["EVENT_NAME"] for row in rows("socket_instances", SOCKET_ID=a.fd)] == [SOCKET + "h/two"]
    assert of(again)["COUNT_STAR"] == 1
    assert one(SOCKETS, EVENT_NAME=SOCKET + "h/one")["COUNT_STAR"] == 2
    os.close(again.fd)
    fd = int(C.open(file_key("h/file"), "f", os.O_RDWR | os.O_CREAT, 0o600))
    assert fd == a.fd
    assert rows("socket_instances", SOCKET_ID=fd) == []
    assert C.write(fd, 7) == 7
    assert one(SOCKETS, EVENT_NAME=SOCKET + "h/two")["COUNT_STAR"] == 1
    assert C.close(fd) == 0
    assert len(rows("socket_instances")) == 1
    unfollow(b.fd)
    assert rows("socket_instances") == []


@fresh_process()
def test_H13_a_call_on_a_socket_that_another_thread_closes_counts_for_its_instrument() -> None:
    """H13: the next socket takes the slot and the number meanwhile: none of its numbers are the old one's."""
    worker = Worker()
    for _ in range(20):
        a, b = pair("h/pair")
        worker.do(a.send, 1)  # the thread has a cell of the old one, in another lane
        before = one(SOCKETS, EVENT_NAME=SOCKET + "h/pair")
        worker.start(a.recv, 7)
        while not [row for row in rows(CURRENT, THREAD_ID=worker.id) if row["END_EVENT_ID"] is None]:
            time.sleep(0.001)
        time.sleep(0.002)
        begin = instance(a)["OBJECT_INSTANCE_BEGIN"]
        assert a.close() == 0
        c, d = pair("h/next")
        assert begin in (instance(c)["OBJECT_INSTANCE_BEGIN"], instance(d)["OBJECT_INSTANCE_BEGIN"])
        assert b.send(3) == 3
        assert worker.result() == 3
        assert lanes(of(c)) == (0, 0, 1)
        assert of(d)["COUNT_STAR"] == 0
        after = one(SOCKETS, EVENT_NAME=SOCKET + "h/pair")
        assert after["COUNT_READ"] == before["COUNT_READ"] + 1
        assert after["SUM_NUMBER_OF_BYTES_READ"] == before["SUM_NUMBER_OF_BYTES_READ"] + 3
        assert after["COUNT_STAR"] == before["COUNT_STAR"] + 3
        for socket in (b, c, d):
            socket.close()
    assert losses() == {}


# ---- H10, H11: what is counted -------------------------------------------------------------------------------------------------


@fresh_process()
def test_H10_bytes_are_those_that_were_moved() -> None:
    """H10: a failed or empty-handed call counts, with 0 bytes; so does NUMBER_OF_BYTES of its event."""
    a, b = pair("h/pair")
    assert a.send(100) == 100
    assert last()["NUMBER_OF_BYTES"] == 100
    assert b.recv(60) == 60
    assert (last()["NUMBER_OF_BYTES"], last()["OPERATION"]) == (60, "recv")
    assert b.recv(1000) == 40
    assert last()["NUMBER_OF_BYTES"] == 40
    assert b.recv(10, DONTWAIT) == -1
    assert last()["NUMBER_OF_BYTES"] == 0
    assert (lanes(of(b)), moved(of(b))) == ((3, 0, 0), (100, 0))
    assert call("shutdown", a.fd, plain.SHUT_WR) == 0
    assert b.recv(10) == 0
    assert a.send(10, plain.MSG_NOSIGNAL) == -1
    assert (lanes(of(a)), moved(of(a))) == ((0, 2, 2), (0, 100))
    assert (lanes(of(b)), moved(of(b))) == ((4, 0, 0), (100, 0))


@fresh_process()
def test_H10_while_it_waits_an_event_shows_what_was_asked_for() -> None:
    """H10: NUMBER_OF_BYTES of a running recv is its size; of its end what came."""
    worker = Worker()
    a, b = pair("h/pair")
    worker.start(a.recv, 4000)
    while not (open_ones := rows(CURRENT, THREAD_ID=worker.id, END_EVENT_ID=None)):
        time.sleep(0.001)
    assert [(row["OPERATION"], row["NUMBER_OF_BYTES"], row["TIMER_END"]) for row in open_ones] == [("recv", 4000, None)]
    assert b.send(30) == 30
    assert worker.result() == 30
    assert one(HISTORY_LONG, THREAD_ID=worker.id)["NUMBER_OF_BYTES"] == 30


def message(*sizes: int) -> tuple[Any, Any]:
    """A struct msghdr, and what must live as long."""

    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    class Message(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_void_p),
            ("name_length", ctypes.c_uint32),
            ("parts", ctypes.POINTER(Part)),
            ("count", ctypes.c_size_t),
            ("control", ctypes.c_void_p),
            ("control_length", ctypes.c_size_t),
            ("flags", ctypes.c_int),
        )

    buffers = [ctypes.create_string_buffer(size) for size in sizes]
    parts = (Part * len(sizes))(*[Part(ctypes.addressof(b), len(b)) for b in buffers])
    return Message(None, 0, parts, len(sizes), None, 0, 0), buffers


@fresh_process()
def test_H11_every_call_is_in_its_lane_under_its_name() -> None:
    """H11: READ = recv, recvfrom, recvmsg, WRITE = send, sendto, sendmsg, MISC = the rest; COUNT_STAR and SUM_TIMER_WAIT are
    their sums. NUMBER_OF_BYTES of sendmsg and recvmsg is NULL, and their bytes are in the sums."""
    server, client = listener("h/tcp"), Socket("h/tcp")
    client.connect("127.0.0.1", server.name()[1])
    accepted = server.accept()
    room, size, value = ctypes.create_string_buffer(100), ctypes.c_size_t(100), ctypes.c_int(0)
    length, four = ctypes.c_uint32(100), ctypes.c_uint32(4)
    option = (plain.SOL_SOCKET, plain.SO_KEEPALIVE)
    out, kept_out = message(3, 4)
    into, kept_into = message(50)
    many = ctypes.create_string_buffer(bytes(out) + b"\0" * 8)
    fd = accepted.fd
    client.send(40)
    calls: list[tuple[str, Any, str, str, int | None, int]] = [
        # call, result, operation, lane, NUMBER_OF_BYTES, bytes of the sum
        ("getsockname", lambda: call("getsockname", fd, room, ctypes.byref(length)), "bind", "MISC", None, 0),
        ("getpeername", lambda: call("getpeername", fd, room, ctypes.byref(length)), "bind", "MISC", None, 0),
        ("setsockopt", lambda: call("setsockopt", fd, *option, ctypes.byref(value), 4), "opt", "MISC", None, 0),
        ("getsockopt", lambda: call("getsockopt", fd, *option, ctypes.byref(value), ctypes.byref(four)), "opt", "MISC", None, 0),
        ("sockatmark", lambda: call("sockatmark", fd), "stat", "MISC", None, 0),
        ("fstat", lambda: C.fstat(fd), "stat", "MISC", None, 0),
        ("lseek", lambda: C.lseek(fd, 5, 0), "seek", "MISC", None, 0),
        ("tell", lambda: C.tell(fd), "seek", "MISC", None, 0),
        ("send", lambda: call("send", fd, room, ctypes.c_size_t(5), 0), "send", "WRITE", 5, 5),
        ("write", lambda: C.write(fd, 6), "send", "WRITE", 6, 6),
        ("sendto", lambda: call("sendto", fd, room, ctypes.c_size_t(7), 0, None, 0), "sendto", "WRITE", 7, 7),
        ("sendmsg", lambda: call("sendmsg", fd, ctypes.byref(out), 0), "sendmsg", "WRITE", None, 7),
        ("sendmmsg", lambda: call("sendmmsg", fd, many, 1, 0), "sendmsg", "WRITE", None, 7),
        ("recv", lambda: call("recv", fd, room, ctypes.c_size_t(8), 0), "recv", "READ", 8, 8),
        ("read", lambda: C.read(fd, 9), "recv", "READ", 9, 9),
        ("recvfrom", lambda: call("recvfrom", fd, room, ctypes.c_size_t(10), 0, None, None), "recvfrom", "READ", 10, 10),
        ("recvmsg", lambda: call("recvmsg", fd, ctypes.byref(into), 0), "recvmsg", "READ", None, 13),
        ("recvmmsg", lambda: call("recvmmsg", fd, many, 1, DONTWAIT, None), "recvmsg", "READ", None, 0),
        ("shutdown", lambda: call("shutdown", fd, plain.SHUT_RDWR), "shutdown", "MISC", None, 0),
    ]  # fmt: skip
    for name, do, operation, lane, number, expected in calls:
        before = of(accepted)
        do()
        after, event = of(accepted), last()
        assert (event["OPERATION"], event["OBJECT_TYPE"], event["NUMBER_OF_BYTES"]) == (operation, "SOCKET", number), name
        assert event["OBJECT_INSTANCE_BEGIN"] == after["OBJECT_INSTANCE_BEGIN"]
        for other in ("READ", "WRITE", "MISC"):
            grown = 1 if other == lane else 0
            assert after["COUNT_" + other] == before["COUNT_" + other] + grown, name
            assert after["SUM_TIMER_" + other] == before["SUM_TIMER_" + other] + grown * event["TIMER_WAIT"], name
            if other != "MISC":
                column = "SUM_NUMBER_OF_BYTES_" + other
                assert after[column] == before[column] + grown * expected, name
    assert size.value == 100
    assert len(kept_out) + len(kept_into) == 3
    del client, server
    for table in TABLES:
        for row in rows(table):
            assert row["COUNT_STAR"] == sum(lanes(row))
            assert row["SUM_TIMER_WAIT"] == row["SUM_TIMER_READ"] + row["SUM_TIMER_WRITE"] + row["SUM_TIMER_MISC"]
            assert row["AVG_TIMER_WAIT"] == row["SUM_TIMER_WAIT"] // max(row["COUNT_STAR"], 1)
    # The same numbers in the tables of waits.
    total = one(WAITS, EVENT_NAME=SOCKET + "h/tcp")
    for table in (SOCKETS, SOCKETS_BY_INSTANCE, WAITS_BY_INSTANCE, WAITS_BY_THREAD):
        assert count(table) == total["COUNT_STAR"]
        assert sum(row["SUM_TIMER_WAIT"] for row in rows(table)) == total["SUM_TIMER_WAIT"]


@fresh_process()
def test_H11_calls_of_files_and_sockets_do_not_mix() -> None:
    """H11: what no socket can do is no event of it; a socket's call on a file is no event either."""
    a, _ = pair("h/pair")
    fd = int(C.open(file_key("h/file"), "f", os.O_RDWR | os.O_CREAT, 0o600))
    before = count(WAITS)
    assert C.fsync(a.fd) == -1
    assert C.ftruncate(a.fd, 0) == -1
    assert call("send", fd, b"x", ctypes.c_size_t(1), 0) == -1
    assert call("accept", 0, fd, None, None) == -1
    assert call("connect", fd, address(AF_INET, "127.0.0.1", 1), 16) == -1
    assert Wait(fd, SEND, 1).begun == 0
    assert count(WAITS) == before
    set_state(fd, IDLE)
    set_address(fd, None)
    assert one("file_instances")["FILE_NAME"] == os.getcwd() + "/f"
    assert C.close(fd) == 0
    assert count(WAITS) == before + 1


def check_left_out(setting: str, calls: int) -> None:
    """All calls count for the instrument. Of those that succeed, SAMPLED leaves out all but some, fewer than 50."""
    assert one(WAITS, EVENT_NAME=SOCKET + "h/pair")["COUNT_STAR"] == sum(lanes(one(SOCKETS)))
    left_out = one(SOCKETS)["COUNT_NOT_SAMPLED"]
    assert calls - 50 < left_out < calls + 1 if "sampled" in setting else left_out == 0


@fresh_process()
@pytest.mark.parametrize("setting", PATHS)
def test_H11_read_and_write_count_with_any_settings(setting: str) -> None:
    """H11: a call of files on a socket has a fast path of its own with each of these. The counts are the same."""
    a, b = pair("h/pair")
    choose_path(SOCKET + "h/pair", setting)
    for _ in range(200):
        assert C.write(a.fd, 6) == 6
        assert C.read(b.fd, 9) == 6
    assert C.read(-1, 9) == -1
    os.set_blocking(b.fd, False)
    assert C.read(b.fd, 9) == -1
    assert (lanes(of(a))[:2], moved(of(a))) == ((0, 200), (0, 1200))
    assert (lanes(of(b))[:2], moved(of(b))) == ((201, 0), (1200, 0))
    assert (lanes(one(SOCKETS))[:2], moved(one(SOCKETS))) == ((201, 200), (1200, 1200))
    check_left_out(setting, 400)


@fresh_process()
@pytest.mark.parametrize("setting", PATHS)
def test_H11_waits_with_a_begin_and_an_end_count_with_any_settings(setting: str) -> None:
    """H11: the two calls have the fast paths that one call around the system's has."""
    a, b = pair("h/pair")
    choose_path(SOCKET + "h/pair", setting)
    for _ in range(200):
        sent = Wait(a.fd, SEND, 6)
        assert os.write(a.fd, b"sextet") == 6
        sent.end(6)
    failed = Wait(b.fd, RECV, 9)
    failed.end(-1)
    assert (lanes(of(a))[:2], moved(of(a))) == ((0, 200), (0, 1200))
    assert (lanes(of(b))[:2], moved(of(b))) == ((1, 0), (0, 0))
    check_left_out(setting, 200)
    if setting == "all on":
        assert [event["NUMBER_OF_BYTES"] for event in events(OPERATION="send")] == [6] * 200


@fresh_process()
def test_H9_a_socket_that_could_not_be_made_counts_for_its_instrument() -> None:
    """H9 for sockets: create, MISC, no object, no row."""
    key = socket_key("h/socket")
    assert call("socket", key, 12345, 1, 0) == -1
    assert call("socketpair", key, AF_INET, 1, 0, None) == -1
    assert [(e["OPERATION"], e["OBJECT_INSTANCE_BEGIN"], e["OBJECT_NAME"]) for e in events()] == [("create", 0, None)] * 2
    assert lanes(one(SOCKETS)) == (0, 0, 2)
    assert rows("socket_instances") == []
    made = Socket(key)
    assert last()["OBJECT_INSTANCE_BEGIN"] == instance(made)["OBJECT_INSTANCE_BEGIN"] == of(made)["OBJECT_INSTANCE_BEGIN"]
    assert lanes(of(made)) == (0, 0, 1)
    assert lanes(one(SOCKETS)) == (0, 0, 3)


# ---- F: TRUNCATE ---------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_F10_TRUNCATE_of_the_socket_tables() -> None:
    """F10: by_instance zeroes live sockets, by_event_name keeps what closed ones left; by_event_name resets both. Files keep
    theirs, and sockets keep theirs when the tables of files are truncated."""
    a, b = pair("f/pair")
    assert a.send(10) == b.recv(10) == 10
    fd = int(C.open(file_key("f/file"), "f", os.O_RDWR | os.O_CREAT, 0o600))
    C.write(fd, 3)
    assert a.close() == 0  # create, send, close stay with the class
    for table in ("file_summary_by_instance", "file_summary_by_event_name"):
        pfs.truncate(table)
    assert count(SOCKETS) == 4
    C.write(fd, 3)
    pfs.truncate(SOCKETS_BY_INSTANCE)
    assert lanes(of(b)) == (0, 0, 0)
    assert lanes(one(SOCKETS)) == (0, 1, 2)
    assert moved(one(SOCKETS)) == (0, 10)
    assert b.recv(1) == 0
    assert lanes(of(b)) == (1, 0, 0)
    assert lanes(one(SOCKETS)) == (1, 1, 2)
    pfs.truncate(SOCKETS)
    assert lanes(of(b)) == lanes(one(SOCKETS)) == (0, 0, 0)
    assert moved(one(SOCKETS)) == (0, 0)
    assert count("file_summary_by_event_name") == count("file_summary_by_instance") == 1
    b.close()
    assert lanes(one(SOCKETS)) == (0, 0, 1)
    assert len(rows(SOCKETS)) == 1
    assert count(WAITS_BY_THREAD, EVENT_NAME=SOCKET + "f/pair") == 6


@fresh_process()
def test_F8_F9_TRUNCATE_of_the_tables_of_waits_reaches_sockets() -> None:
    """F8, F9: by_instance zeroes live sockets and leaves the class's part; global resets both, and not the threads'."""
    a, b = pair("f/pair")
    assert a.send(10) == 10
    a.close()
    assert b.recv(10) == 10
    pfs.truncate(WAITS_BY_INSTANCE)
    assert count(WAITS_BY_INSTANCE) == count(SOCKETS_BY_INSTANCE) == 0
    assert count(WAITS) == count(SOCKETS) == 3
    assert b.recv(1) == 0
    pfs.truncate(WAITS)
    assert count(WAITS) == count(SOCKETS) == count(WAITS_BY_INSTANCE) == 0
    assert count(WAITS_BY_THREAD) == 5
    assert len(rows("socket_instances")) == 1


# ---- C, H12: limits, switches --------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_max_socket_classes={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_C5_socket_class_limit(limit: int) -> None:
    """C5: beyond the limit: key 0, counted; sockets of key 0 work, are not listed, and are no lost instances."""
    keys = [socket_key(f"c/s{i}") for i in range(4)]
    assert [key != 0 for key in keys] == [i < limit for i in range(4)]
    for key in keys:
        a, b = pair(key)
        assert a.send(5) == b.recv(5) == 5
    assert losses() == {"Performance_schema_socket_classes_lost": 4 - limit}
    assert len(rows("socket_instances")) == 2 * limit
    assert count(SOCKETS) == 3 * limit


@fresh_process("performance_schema_max_socket_instances={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_C6_socket_instance_limit(limit: int) -> None:
    """C6: beyond the limit a socket works unrecorded and is counted each time; slots are used again, files have their own."""
    key = socket_key("c/socket")
    for _ in range(3):
        made = [Socket(key, AF_UNIX) for _ in range(4)]
        assert min(s.fd for s in made) >= 0
        assert len(rows("socket_instances")) == limit
        assert [s.close() for s in made] == [0] * 4
        assert rows("socket_instances") == []
    assert losses() == ({"Performance_schema_socket_instances_lost": 3 * (4 - limit)} if limit < 4 else {})
    # Each create is an event of the instrument; only those that are followed are seen to close.
    assert count(SOCKETS) == 3 * (4 + limit)
    assert len({row["OBJECT_INSTANCE_BEGIN"] for row in events() if row["OPERATION"] == "close"}) == limit
    a, b = pair(key)
    assert a.send(5) == b.recv(5) == 5
    assert len(rows("socket_instances")) == min(limit, 2)
    fd = int(C.open(file_key("c/file"), "f", os.O_RDWR | os.O_CREAT, 0o600))
    assert C.write(fd, 7) == 7
    assert len(rows("file_instances")) == 1
    assert status("file_instances_lost") == 0


@fresh_process("performance_schema_max_file_handles={limit}")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_H12_a_socket_whose_number_is_too_great_is_not_followed(limit: int) -> None:
    """H12: file_handles_lost for each; its making is an event of the instrument, and it has no row."""
    key = socket_key("h/socket")
    saved = [os.dup(fd) for fd in (0, 1)]
    os.close(0)
    os.close(1)
    made = [Socket(key, AF_UNIX) for _ in range(4)]
    found = [(s.fd, s.send(1, plain.MSG_NOSIGNAL)) for s in made]
    ids = [row["SOCKET_ID"] for row in rows("socket_instances")]
    closed = [s.close() for s in made]
    for fd, copy in enumerate(saved):
        os.dup2(copy, fd)
    assert [fd for fd, _ in found[:2]] == [0, 1]
    assert {sent for _, sent in found} == {-1}
    assert sorted(ids) == list(range(limit))
    assert closed == [0] * 4
    assert losses() == {"Performance_schema_file_handles_lost": 4 - limit}
    assert count(SOCKETS) == 4 + 2 * limit
    assert rows("socket_instances") == []


@fresh_process()
def test_C7_a_socket_of_a_disabled_instrument_is_listed_and_counts_when_it_is_enabled() -> None:
    """C7: made, bound, connected while disabled: the row is there with its address, and no number moves until it is enabled."""
    name = SOCKET + "c/socket"
    key = socket_key("c/socket")
    instrument(name, enabled=False)
    server = listener(key)
    client = Socket(key)
    assert client.connect("127.0.0.1", server.name()[1]) == 0
    accepted = server.accept()
    assert client.send(3) == accepted.recv(3) == 3
    assert [shown(s) for s in (server, client, accepted)] == [server.name(), server.name(), client.name()]
    assert count(SOCKETS) == count(WAITS) == 0
    assert Wait(client.fd, SEND, 4).begun == 0
    instrument(name, enabled=True)
    assert client.send(3) == accepted.recv(3) == 3
    assert (lanes(of(client)), lanes(of(accepted)), lanes(of(server))) == ((0, 1, 0), (1, 0, 0), (0, 0, 0))
    instrument(name, enabled=False)
    assert client.close() == 0
    assert len(rows("socket_instances")) == 2
    assert lanes(one(SOCKETS)) == (1, 1, 0)
    instrument(name, enabled=True, timed=False)
    assert accepted.recv(1) == 0
    assert (last()["TIMER_WAIT"], lanes(one(SOCKETS))) == (None, (2, 1, 0))
    consumer("events_waits_current", False)
    before = len(events())
    assert accepted.send(1, plain.MSG_NOSIGNAL) == 1
    assert (len(events()), lanes(one(SOCKETS))) == (before, (2, 2, 0))


# ---- Calls that the program makes itself
# -----------------------------------------------------------------------------------------


@fresh_process()
def test_waits_of_ones_own_on_a_followed_descriptor() -> None:
    """pfs_socket_bind takes the address that the system knows; begin and end are the event; a close ends the row."""
    server = plain.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    client = plain.create_connection(server.getsockname())
    accepted, _ = server.accept()
    fresh = plain.socket()
    local = plain.socket(plain.AF_UNIX)
    key = socket_key("o/own")
    followed = [Socket(0, fd=s.fileno()) for s in (server, client, accepted, fresh, local)]
    for socket in followed:
        assert follow(key, socket.fd) == 0
    own = server.getsockname()
    assert [shown(s) for s in followed] == [own, own, client.getsockname(), ("", 0), ("", 0)]
    assert count(WAITS) == 0
    fd = client.fileno()
    wait = Wait(fd, RECV, 100)
    assert wait.begun == 1
    running = one(CURRENT)
    assert (running["NUMBER_OF_BYTES"], running["TIMER_END"], running["SOURCE"]) == (100, None, "facts.c:1")
    wait.end(40)
    wait.end(40)
    more = [(SEND, 7, 7), (SENDMSG, 7, 9), (RECVMSG, 5, 5), (SELECT, -1, -1), (RECV, 10, -1)]
    more += [(operation, -1, -1) for operation in (BIND, LISTEN, ACCEPT)]
    for operation, requested, got in more:
        wait = Wait(fd, operation, requested)
        wait.end(got)
    found = [(e["OPERATION"], e["NUMBER_OF_BYTES"]) for e in events()]
    assert found[:3] == [("recv", 40), ("send", 7), ("sendmsg", None)]
    assert found[3:] == [("recvmsg", None), ("select", None), ("recv", 0), ("bind", None), ("listen", None), ("accept", None)]
    row = of(followed[1])
    assert (lanes(row), moved(row)) == ((3, 2, 4), (45, 16))
    wait = Wait(fd, CLOSE)
    assert (wait.begun, len(rows("socket_instances", SOCKET_ID=fd))) == (1, 1)
    assert Wait(fd, SEND, 1).begun == 0
    client.close()
    wait.end(0)
    assert rows("socket_instances", SOCKET_ID=fd) == []
    assert lanes(one(SOCKETS)) == (3, 2, 5)
    # Following it again is another life; a key that is none, and descriptors that are no sockets, are refused.
    begin = instance(followed[0])["OBJECT_INSTANCE_BEGIN"]
    Wait(followed[0].fd, CONNECT).end()
    assert follow(key, followed[0].fd) == 0
    assert of(followed[0])["COUNT_STAR"] == 0
    assert instance(followed[0])["OBJECT_INSTANCE_BEGIN"] == begin
    assert follow(0, followed[0].fd) == 1
    assert follow(999, followed[0].fd) == 6
    with open("f", "w") as file:
        assert follow(key, file.fileno()) == 1
        assert b"socket" in perfschema().pfs_last_error()
    assert follow(key, 999) == 1
    for operation in (0, ACCEPT + 1, -1):
        assert Wait(followed[0].fd, operation).begun == 0
    for made in (server, accepted, fresh, local):
        made.close()
    # A disabled instrument: a close is not looked at, but ends the row.
    instrument(SOCKET + "o/own", enabled=False)
    assert Wait(followed[0].fd, CLOSE).begun == 0
    assert rows("socket_instances", SOCKET_ID=followed[0].fd) == []
    assert losses() == {}
    raises(pfs.InvalidValue, lambda: pfs.setup_instruments.update({"NAME": SOCKET + "o/own"}, enabled="X"))


# ---- fork ----------------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_a_forked_child_keeps_its_sockets_and_starts_from_zero() -> None:
    """The child has the descriptors, so it has the rows; its tables tell what it did itself. One that another thread was
    closing is not there."""
    a, b = pair("f/pair")
    set_thread(a.fd)
    closing = Socket("f/closing", AF_UNIX)
    worker = Worker()
    wait = worker.do(Wait, closing.fd, CLOSE)
    assert wait.begun == 1
    assert a.send(5) == 5
    assert len(rows("socket_instances")) == 3
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of later Pythons, where there is another thread
        child = os.fork()
    if child == 0:
        code = 1
        try:
            assert sorted(row["SOCKET_ID"] for row in rows("socket_instances")) == sorted([a.fd, b.fd])
            assert instance(a)["THREAD_ID"] == me()
            assert count(SOCKETS) == count(WAITS) == 0
            assert b.recv(9) == 5
            assert (lanes(of(a)), lanes(of(b))) == ((0, 0, 0), (1, 0, 0))
            assert moved(one(SOCKETS, EVENT_NAME=SOCKET + "f/pair")) == (5, 0)
            assert b.close() == 0
            assert [row["SOCKET_ID"] for row in rows("socket_instances")] == [a.fd]
            assert count(SOCKETS) == 2
            made = Socket("f/pair", AF_UNIX)
            assert instance(made)["OBJECT_INSTANCE_BEGIN"] != instance(a)["OBJECT_INSTANCE_BEGIN"]
            code = 0
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(code)
    os.close(writer)
    said = os.read(reader, 1000)
    assert os.waitpid(child, 0)[1] == 0, said
    assert lanes(one(SOCKETS, EVENT_NAME=SOCKET + "f/pair")) == (0, 1, 1)
    assert len(rows("socket_instances")) == 3
    worker.do(wait.end)
    os.close(closing.fd)
    assert len(rows("socket_instances")) == 2


@fresh_process()
def test_a_forked_child_ends_a_wait_of_its_parent_without_touching_its_own_events() -> None:
    """The wait has no record in the child, where that place is another event's; its count and bytes are the child's."""
    a, b = pair("f/pair")
    pfs.truncate(HISTORY_LONG)
    outer = Wait(b.fd, RECV, 100)
    child = os.fork()
    if child == 0:
        assert [a.send(size) for size in (4, 5, 6)] == [4, 5, 6]
        outer.end(77)
        ok = [(e["OPERATION"], e["NUMBER_OF_BYTES"]) for e in events()] == [("send", 4), ("send", 5), ("send", 6)]
        os._exit(0 if ok and moved(one(SOCKETS)) == (77, 15) else 1)
    assert os.waitpid(child, 0)[1] == 0
    outer.end(50)
    assert [(e["OPERATION"], e["NUMBER_OF_BYTES"]) for e in events()] == [("recv", 50)]
