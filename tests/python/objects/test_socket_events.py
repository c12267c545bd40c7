"""Rows of pfs.socket, and its events when signals, threads and forks come in between."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.conftest import Run
from tests.python.objects.seen import Stop, alarm, await_waiting, count, events, open_events, operations, start, stop
from tests.python.objects.socket_fixtures import Pair, full, instances, last, nothing_seen_yet, pair, summary, tcp

__all__ = ["nothing_seen_yet", "pair", "tcp"]  # fixtures


# ---- Rows --------------------------------------------------------------------------------------------------------------------


def test_row_lives_as_long_as_the_socket_and_shows_its_address(tcp: tuple[pfs.socket, pfs.socket, pfs.socket]) -> None:
    server, accepted, client = tcp
    host, port = server.getsockname()
    rows = instances(client.name)
    assert rows[["SOCKET_ID", "IP", "PORT", "STATE"]].values.tolist() == [[client.fileno(), host, port, "ACTIVE"]]
    rows = instances(server.name).set_index("SOCKET_ID")
    assert rows["PORT"].to_dict() == {server.fileno(): port, accepted.fileno(): client.getsockname()[1]}
    before = count(client.name)
    client.close()
    client.close()
    assert len(instances(client.name)) == 0
    assert count(client.name) == before + 1
    assert last(client.name) == ("close", None)


def test_connection_that_takes_its_time_has_its_peer_in_the_end(tcp: tuple[pfs.socket, pfs.socket, pfs.socket]) -> None:
    server = tcp[0]
    with pfs.socket("test/OTHER") as one:
        one.setblocking(False)
        assert one.connect_ex(server.getsockname()) in (0, errno.EINPROGRESS)
        accepted = server.accept()[0]
        with accepted:
            accepted.send(b"x")
            one.setblocking(True)
            assert one.recv(1) == b"x"
        assert instances(one.name)[["IP", "PORT"]].values.tolist() == [list(server.getsockname())]


def test_unix_socket_has_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with pfs.socket("test/OTHER", socket.AF_UNIX) as server, pfs.socket("test/CLIENT", socket.AF_UNIX) as client:
        server.bind(path)
        server.listen()
        client.connect(path)
        with server.accept()[0] as accepted:
            accepted.send(b"x")
            assert client.recv(1) == b"x"
        assert events(client.name)["OBJECT_NAME"].iloc[-1] == path


def test_printing_a_socket_is_no_event(tcp: tuple[pfs.socket, pfs.socket, pfs.socket]) -> None:
    _, accepted, client = tcp
    before = count(client.name), count(accepted.name)
    assert "raddr=" in repr(client)
    assert "raddr=" in str(accepted)
    assert (count(client.name), count(accepted.name)) == before


def test_unclosed_socket_warns_is_closed_and_leaves_no_row() -> None:
    one = pfs.socket("test/OTHER")
    reference = [one]
    del one
    with pytest.warns(ResourceWarning, match=r"unclosed <pfs\.socket fd="):
        reference.clear()
    assert operations(full("test/OTHER")) == ["create", "close"]
    assert len(instances(full("test/OTHER"))) == 0


def test_detached_descriptor_is_not_followed_and_may_be_again(pair: Pair) -> None:
    one, other = pair
    name = one.name
    fd = one.detach()
    assert one.fileno() == -1
    assert len(instances(name)) == 1
    assert operations(name)[-1] != "close"
    with pfs.socket("test/AGAIN", fileno=fd) as again:
        assert (again.family, again.type) == (socket.AF_UNIX, socket.SOCK_STREAM)
        assert again.send(b"x") == 1
        assert operations(again.name) == ["send"]
    assert other.recv(2) == b"x"
    assert other.recv(2) == b""


def test_duplicate_is_a_socket_of_the_same_name(pair: Pair) -> None:
    one, other = pair
    one.settimeout(5)
    with one.dup() as second:
        assert isinstance(second, pfs.socket)
        assert (second.name, second.gettimeout()) == (one.name, 5)
        second.send(b"x")
        assert other.recv(2) == b"x"
        assert len(instances(one.name)) == 3
    assert len(instances(one.name)) == 2


def test_disabled_socket_works_and_is_not_counted() -> None:
    pfs.socket("test/OTHER").close()
    before = count(full("test/OTHER"))
    with pfs.setup_instruments:
        pfs.setup_instruments[full("test/OTHER")].enabled = False
        one, other = pfs.socketpair("test/OTHER")
        one.send(b"x")
        assert other.recv(2) == b"x"
        assert len(instances(one.name)) == 2
        other.close()
    assert count(one.name) == before
    one.close()
    assert count(one.name) == before + 1
    assert len(instances(one.name)) == 0


# ---- Signals, threads, processes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, 5])
def test_signal_handler_that_raises_ends_the_call_and_its_event(pair: Pair, timeout: float | None) -> None:
    one, _ = pair
    one.settimeout(timeout)
    with alarm(stop, 0.02), pytest.raises(Stop):
        one.recv(10)
    assert open_events() == 0
    assert last(one.name) == ("recv", 0)


def test_call_goes_on_after_a_handler_that_returns_and_is_one_event(pair: Pair) -> None:
    one, other = pair
    one.settimeout(0.2)
    calls: list[int] = []
    begin = time.monotonic()
    with alarm(lambda: calls.append(1), 0.02, 0.02), pytest.raises(TimeoutError):
        one.recv(10)
    assert time.monotonic() - begin > 0.19
    assert len(calls) > 1
    with alarm(lambda: other.send(b"x")):
        one.settimeout(None)
        assert one.recv(10) == b"x"
    rows = events(one.name)
    assert rows["OPERATION"].tolist()[-3:] == ["recv", "recv", "send"]
    assert rows["NESTING_EVENT_ID"].iloc[-1] == rows["EVENT_ID"].iloc[-2]  # the handler's, in the call


def test_other_threads_run_during_a_call_and_may_close(pair: Pair) -> None:
    one, other = pair

    def receive() -> None:
        with contextlib.suppress(OSError):  # closed between the event's beginning and the system's call
            one.recv(10)

    thread = start(receive)
    await_waiting(one.name)
    one.shutdown(socket.SHUT_RDWR)
    one.close()
    thread.join()
    assert len(instances(one.name)) == 1
    assert events(one.name)["END_EVENT_ID"].notna().all()
    assert other.fileno() >= 0


def test_bytes_are_exact_with_many_threads() -> None:
    pairs = [pfs.socketpair("test/OTHER") for _ in range(4)]

    def send(one: pfs.socket, size: int) -> None:
        for _ in range(200):
            one.sendall(bytes(size))
        one.close()

    received = [0]
    guard = threading.Lock()

    def receive(other: pfs.socket) -> None:
        mine = 0
        while part := other.recv(1000):
            mine += len(part)
        other.close()
        with guard:
            received[0] += mine

    threads = [start(send, one, 10 * i + 1) for i, (one, _) in enumerate(pairs)] + [start(receive, other) for _, other in pairs]
    for thread in threads:
        thread.join()
    numbers = summary(full("test/OTHER"))
    assert numbers["SUM_NUMBER_OF_BYTES_WRITE"] == numbers["SUM_NUMBER_OF_BYTES_READ"] == received[0] == 200 * (1 + 11 + 21 + 31)
    assert numbers["COUNT_WRITE"] == 800


def test_child_works_on_with_what_it_was_handed(fresh: Run) -> None:
    out = fresh("""
        import os
        import pfs
        one, other = pfs.socketpair("test/SOCKET_fork")
        one.send(b"parent")
        def counts():
            row = pfs.table("socket_summary_by_event_name").set_index("EVENT_NAME").loc[one.name]
            return int(row["COUNT_WRITE"]), int(row["SUM_NUMBER_OF_BYTES_WRITE"])
        pid = os.fork()
        if pid == 0:
            one.send(b"child")
            seen = counts()
            rows = len(pfs.table("socket_instances"))
            one.close()
            left = len(pfs.table("socket_instances"))
            os._exit(0 if (seen, rows, left) == ((1, 5), 2, 1) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), *counts(), other.recv(20))
        one.close()
        other.close()
    """)
    assert out == "0 1 6 b'parentchild'\n"


def test_what_a_library_gets_is_a_socket(tcp: tuple[pfs.socket, pfs.socket, pfs.socket]) -> None:
    import selectors

    _, accepted, client = tcp
    client.send(b"x")
    with selectors.DefaultSelector() as selector:
        selector.register(accepted, selectors.EVENT_READ)
        [(key, _)] = selector.select(5)
    sock: Any = key.fileobj
    assert sock.recv(1) == b"x"
