"""pfs.socket behaves as socket.socket, of which it is a subclass; each of its calls is one event, with its bytes."""

from __future__ import annotations

import array
import asyncio
import errno
import io
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.python.objects.seen import count, events, open_events, operations, seconds, start
from tests.python.objects.socket_fixtures import Pair, full, instances, last, nothing_seen_yet, pair, summary, tcp

__all__ = ["nothing_seen_yet", "pair", "tcp"]  # fixtures


SENDS: dict[str, tuple[Callable[[pfs.socket], object], str, object]] = {
    "send": (lambda s: s.send(b"hello"), "send", 5),
    "send with flags": (lambda s: s.send(bytearray(b"hello"), socket.MSG_NOSIGNAL), "send", 5),
    "send of an array": (lambda s: s.send(array.array("i", [1, 2])), "send", 8),
    "sendall": (lambda s: s.sendall(memoryview(b"hello!")), "send", None),
    "sendmsg": (lambda s: s.sendmsg([b"he", b"llo"]), "sendmsg", 5),
}
RECEIVES: dict[str, tuple[Callable[[pfs.socket], object], str]] = {
    "recv": (lambda s: s.recv(100), "recv"),
    "recv with flags": (lambda s: s.recv(100, socket.MSG_DONTWAIT), "recv"),
    "recv_into": (lambda s: s.recv_into(bytearray(100)), "recv"),
    "recv_into by name": (lambda s: s.recv_into(buffer=bytearray(100), nbytes=50), "recv"),
    "recvfrom": (lambda s: s.recvfrom(100), "recvfrom"),
    "recvfrom_into": (lambda s: s.recvfrom_into(bytearray(100), 50), "recvfrom"),
    "recvmsg": (lambda s: s.recvmsg(100), "recvmsg"),
    "recvmsg_into": (lambda s: s.recvmsg_into([bytearray(2), bytearray(98)]), "recvmsg"),
}


@pytest.mark.parametrize(("call", "operation", "result"), SENDS.values(), ids=SENDS)
def test_what_is_sent_is_written(pair: Pair, call: Callable[[pfs.socket], object], operation: str, result: object) -> None:
    one, other = pair
    before = summary(one.name)
    assert call(one) == result
    sent = len(other.recv(100))
    after = summary(one.name)
    assert last(one.name)[0] == "recv"
    assert operations(one.name)[-2] == operation
    assert after["COUNT_WRITE"] - before["COUNT_WRITE"] == 1
    assert after["SUM_NUMBER_OF_BYTES_WRITE"] - before["SUM_NUMBER_OF_BYTES_WRITE"] == sent


@pytest.mark.parametrize(("call", "operation"), RECEIVES.values(), ids=RECEIVES)
def test_what_is_received_is_read(pair: Pair, call: Callable[[pfs.socket], object], operation: str) -> None:
    one, other = pair
    other.send(b"hello")
    call(one)
    numbers = summary(one.name)
    assert last(one.name) == (operation, None if operation == "recvmsg" else 5)
    assert (numbers["COUNT_READ"], numbers["SUM_NUMBER_OF_BYTES_READ"]) == (1, 5)


def test_datagrams() -> None:
    with pfs.socket("test/OTHER", socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        address = one.getsockname()
        assert one.sendto(b"hello", address) == 5
        assert one.sendto(b"hello", 0, address) == 5
        assert one.recvfrom(3) == (b"hel", address)
        assert operations(one.name) == ["create", "bind", "bind", "sendto", "sendto", "recvfrom"]
        assert last(one.name) == ("recvfrom", 3)


def test_what_moves_no_bytes_is_misc(tcp: tuple[pfs.socket, pfs.socket, pfs.socket]) -> None:
    server, accepted, client = tcp
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    client.getpeername()
    client.shutdown(socket.SHUT_WR)
    assert accepted.recv(10) == b""
    assert operations(client.name) == ["create", "connect", "opt", "opt", "bind", "shutdown"]
    assert operations(server.name) == ["create", "opt", "bind", "listen", "bind", "accept", "recv"]
    numbers = summary(server.name)
    assert (numbers["COUNT_MISC"], numbers["COUNT_READ"], numbers["COUNT_STAR"]) == (6, 1, 7)
    files = set(events(client.name)["SOURCE"].str.partition(":")[0])
    assert files == {"socket_fixtures.py", "test_sockets.py"}  # and not socket.py
    assert accepted.name == server.name == full("test/SERVER")


def test_time_that_is_over_is_one_event_without_bytes(pair: Pair) -> None:
    one, _ = pair
    one.settimeout(0.05)
    before = len(events(one.name))
    with pytest.raises(TimeoutError):
        one.recv(10)
    assert len(events(one.name)) == before + 1
    assert last(one.name) == ("recv", 0)
    assert seconds(events(one.name))[-1] >= 0.049
    one.setblocking(False)
    with pytest.raises(BlockingIOError):
        one.recv_into(bytearray(10))
    assert last(one.name) == ("recv", 0)
    assert summary(one.name)["COUNT_READ"] == 2


def test_sendall_that_fails_counts_no_bytes(pair: Pair) -> None:
    one, _ = pair
    one.settimeout(0.05)
    with pytest.raises(TimeoutError):
        one.sendall(bytes(10_000_000))  # some of it is gone, nobody knows how much
    assert last(one.name) == ("send", 0)


def test_errors_are_those_of_the_standard_one(pair: Pair) -> None:
    standard = socket.socketpair()
    with standard[0], standard[1]:
        wrongs: tuple[Callable[[Any], object], ...] = (
            lambda s: s.send("text"),
            lambda s: s.send(),
            lambda s: s.recv(-1),
            lambda s: s.recv("x"),
            lambda s: s.recv_into(b"constant"),
            lambda s: s.recv(1, 2, 3, 4, 5, 6, 7, 8),
            lambda s: s.sendto(b"x", 1, 2, 3),
            lambda s: s.setsockopt(1),
            lambda s: s.connect(("too", "many", "parts")),
            lambda s: s.recv(unknown=1),
            lambda s: s.listen("x"),
        )
        for wrong in wrongs:
            seen = []
            for each in (pair[0], standard[0]):
                with pytest.raises((TypeError, ValueError, OSError)) as caught:
                    wrong(each)
                seen.append((caught.type, str(caught.value)))
            assert seen[0] == seen[1]
    assert open_events() == 0


def test_constructor_is_that_of_the_standard_one() -> None:
    with pfs.socket("test/OTHER", proto=socket.IPPROTO_TCP) as one:
        assert (one.family, one.type, one.proto) == (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        assert not one.get_inheritable()
        assert repr(one).startswith("<pfs.socket fd=")
        assert isinstance(one, socket.socket)
    with pfs.socket("test/OTHER", type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as one:
        assert (one.type, one.gettimeout()) == (socket.SOCK_DGRAM, 0)
    socket.setdefaulttimeout(3)
    try:
        with pfs.socket("test/OTHER") as one:
            assert one.gettimeout() == 3
    finally:
        socket.setdefaulttimeout(None)
    before = count(full("test/OTHER"))
    with pytest.raises(OSError, match="Invalid argument"):
        pfs.socket("test/OTHER", socket.AF_UNIX, 77)
    assert count(full("test/OTHER")) == before + 1
    for arguments in ((-1, -1, -1, -5), (-1, -1, -1, 1.5), ("x",), (-1, -1, -1, 10**6)):
        seen = []
        for make in (lambda *a: pfs.socket("test/OTHER", *a), socket.socket):
            with pytest.raises((TypeError, ValueError, OSError)) as error:
                make(*arguments)
            seen.append(error.type)
        assert seen[0] is seen[1], arguments
    for name in ("SOCKET", "wait/io/file/test/SOCKET", "", "test/"):
        with pytest.raises(pfs.InvalidValue):
            pfs.socket(name)
    with pytest.raises(TypeError):
        pfs.socket(3)  # type: ignore[arg-type]
    assert len(instances(full("test/OTHER"))) == 0


# ---- Files, sendfile, helpers ------------------------------------------------------------------------------------------------


def test_file_of_a_socket_makes_events_of_the_socket(pair: Pair) -> None:
    one, other = pair
    with one.makefile("w", encoding="utf-8") as out, other.makefile("rb") as lines:
        out.write("first\n")
        out.write("second\n")
        before = summary(one.name)
        out.flush()
        assert lines.readline() == b"first\n"
        assert lines.readline() == b"second\n"
        one.close()  # not yet: the file has it
        assert one.fileno() >= 0
    after = summary(one.name)
    assert after["SUM_NUMBER_OF_BYTES_WRITE"] - before["SUM_NUMBER_OF_BYTES_WRITE"] == 13
    assert after["COUNT_READ"] == 1
    assert one.fileno() == -1
    assert len(instances(one.name)) == 1


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_sendfile_counts_what_was_sent(pair: Pair, kind: str, tmp_path: Path) -> None:
    one, other = pair
    data = bytes(range(256)) * 4000
    (tmp_path / "data").write_bytes(data)
    received = bytearray()

    def receive() -> None:
        while part := other.recv(1 << 16):
            received.extend(part)

    thread = start(receive)
    with open(tmp_path / "data", "rb") if kind == "file" else io.BytesIO(data) as source:
        assert one.sendfile(source) == len(data)
        assert one.sendfile(source, 10, 100) == 100
        assert source.tell() == 110
    one.shutdown(socket.SHUT_WR)
    thread.join()
    assert bytes(received) == data + data[10:110]
    assert summary(one.name)["SUM_NUMBER_OF_BYTES_WRITE"] == len(data) + 100
    assert summary(one.name)["SUM_NUMBER_OF_BYTES_READ"] == len(data) + 100
    assert set(operations(one.name)) >= {"send", "recv"}


def test_sendfile_with_a_timeout_and_one_that_does_not_block(pair: Pair, tmp_path: Path) -> None:
    one, _ = pair
    (tmp_path / "data").write_bytes(bytes(10_000_000))
    one.settimeout(0.05)
    with open(tmp_path / "data", "rb") as source:
        with pytest.raises(TimeoutError):
            one.sendfile(source)
        sent = source.tell()
        assert 0 < sent < 10_000_000
        assert summary(one.name)["SUM_NUMBER_OF_BYTES_WRITE"] == sent
        one.setblocking(False)
        with pytest.raises(ValueError, match="non-blocking"):
            one.sendfile(source)


def test_create_connection_says_what_went_wrong() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with pfs.create_connection("test/OTHER", address, timeout=5, source_address=("127.0.0.1", 0)) as one:
            assert one.gettimeout() == 5
    with pytest.raises(ConnectionRefusedError):
        pfs.create_connection("test/OTHER", address)
    with pytest.raises(ExceptionGroup, match="create_connection failed"):
        pfs.create_connection("test/OTHER", address, all_errors=True)
    assert operations(full("test/OTHER")) == ["create", "bind", "connect", "close"] + ["create", "connect", "close"] * 2
    with pytest.raises(pfs.InvalidValue):
        pfs.create_connection("SOCKET", address)


def test_create_server_takes_what_the_standard_one_takes() -> None:
    with pfs.create_server("test/OTHER", ("127.0.0.1", 0), backlog=1, reuse_port=True) as server:
        assert server.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
        with pytest.raises(OSError, match="while attempting to bind") as caught:
            pfs.create_server("test/OTHER", server.getsockname())
        assert caught.value.errno == errno.EADDRINUSE
    assert len(instances(full("test/OTHER"))) == 0


def test_event_loop_takes_our_sockets() -> None:
    async def talk() -> bytes:
        loop = asyncio.get_running_loop()
        one, other = pfs.socketpair("test/OTHER")
        with one, other:
            one.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=other)
            await loop.sock_sendall(one, b"hello\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert asyncio.run(talk()) == b"hello\n"
    assert summary(full("test/OTHER"))["SUM_NUMBER_OF_BYTES_READ"] == 6
    assert len(instances(full("test/OTHER"))) == 0
