"""pfs serve and answers that clients do not read, or that are too large: its memory is bounded, and others are answered."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.python._programs.subject import subject

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pymysql = pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from pfs._export.serve.answers import MOST_OF_ROW, MOST_WAITING  # noqa: E402
from tests.python.serve.packets import EXECUTE  # noqa: E402
from tests.python.serve.serving import WAITS, WORK, ask, code_of, connected, served, server  # noqa: E402
from tests.python.serve.test_serve_hostile import assert_alive, prepared, resident, threads_and_time  # noqa: E402

READERS = 40
ROWS = 300_000
LARGE = f"select i, i * 2 as twice, concat('text ', i) as text from range({ROWS}) as r(i)"
# Python with DuckDB and pandas, the answers, and as much again for those that are computed and for memory that is not given back.
MOST_RESIDENT = (250 << 20) + 2 * MOST_WAITING


def unread(path: str, stack: ExitStack, statement: str = LARGE) -> Any:
    """A client that asks and never reads."""
    client = stack.enter_context(connected(path, ssl_disabled=True))
    client._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client._execute_command(3, statement)
    return client


def is_hung_up_on(client: Any) -> bool:
    """Reads all that is there."""
    client._sock.settimeout(3)
    try:
        while client._sock.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def all_rows(client: Any, statement: str) -> list[tuple[int, int, bytes]]:
    """Executes a prepared statement with the columns of LARGE, and reads its rows by the binary protocol."""
    client._execute_command(EXECUTE, struct.pack("<IBI", prepared(client, statement), 0, 1))
    for _ in range(5):
        client._read_packet()
    found = []
    while (row := bytes(client._read_packet()._data))[0] != 0xFE:
        first, second = struct.unpack_from("<qq", row, 2)
        found.append((first, second, row[19:]))
    return found


def asked(client: Any, statement: str) -> list[tuple[Any, ...]]:
    """Asks again when too many others are reading."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask(client, statement)
        except pymysql.MySQLError as error:
            if error.args[0] != 1041 or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def test_clients_that_never_read(folder: Path) -> None:
    """They ask for more than may wait. Memory is bounded, others get their answers, the idlest are hung up on, and the program
    notices nothing."""
    with subject(folder) as program, ExitStack() as stack:
        program.do(WORK)
        before = threads_and_time(program.pid)
        pid, path = stack.enter_context(server(str(program.pid), silent=False))
        good = stack.enter_context(connected(path))
        most, clients = 0, []
        for number in range(READERS):
            clients.append(unread(path, stack))
            assert ask(good, "select 1") == [(1,)]
            if number % 10 == 9:
                assert [row[0] for row in asked(good, LARGE)] == list(range(ROWS))
            most = max(most, resident(pid))
        print("resident", most >> 20)
        assert most < MOST_RESIDENT
        assert 0 < sum(stack.enter_context(ThreadPoolExecutor(READERS)).map(is_hung_up_on, clients)) < READERS
        assert_alive(program, good, before)


def test_a_slow_reader_gets_the_whole_answer(folder: Path) -> None:
    """It takes a part, does something else, and takes the rest. Each row is right, also in TLS and by the binary protocol."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    wanted = [(number, number * 2, f"text {number}") for number in range(ROWS)]
    with served(folder) as (_, path), connected(path, ssl_disabled=True) as slow, connected(path, ssl=unchecked) as encrypted:
        assert isinstance(encrypted._sock, ssl.SSLSocket)
        with pymysql.cursors.SSCursor(slow) as cursor:
            cursor.execute(LARGE)
            first = cursor.fetchmany(5000)
            assert ask(encrypted, LARGE) == wanted
            time.sleep(2.5)  # idle, and nobody needs its memory
            assert [*first, *cursor.fetchall()] == wanted
        assert ask(slow, "select 1") == [(1,)]
        assert all_rows(slow, LARGE)[:2] == [(0, 0, b"text 0"), (1, 2, b"text 1")]
        assert len(all_rows(slow, LARGE)) == ROWS
        # A number beyond the signed ones in the last row alone.
        high = ask(slow, f"select case when i = {ROWS - 1} then 18446744073709551615 else i end from range({ROWS}) as r(i)")
        assert [row[0] for row in high] == [*range(ROWS - 1), 2**64 - 1]


def test_rows_that_are_too_long_are_refused(folder: Path) -> None:
    with served(folder) as (_, path), connected(path) as client:
        assert ask(client, f"select repeat('x', {MOST_OF_ROW}), 7") == [("x" * MOST_OF_ROW, 7)]
        for text in (f"repeat('x', {MOST_OF_ROW + 1})", "repeat('x', 16777215)", "repeat('x', 16777216)", "repeat('é', 9000000)"):
            assert code_of(client, f"select 1, {text}") == 1153, text
        assert code_of(client, "select i, repeat('x', i) from range(16777300) as r(i) where i in (5, 16777216)") == 1153
        assert ask(client, "select repeat('x', 1000000) from range(20)") == [("x" * 1_000_000,)] * 20
        number = prepared(client, "select repeat('x', 16777216)")
        client._execute_command(EXECUTE, struct.pack("<IBI", number, 0, 1))
        with pytest.raises(pymysql.MySQLError, match="1153"):
            client._read_packet()
        assert ask(client, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(7,)]


def test_an_answer_that_is_too_large_is_refused(folder: Path) -> None:
    with served(folder) as (_, path), connected(path) as client:
        with pytest.raises(pymysql.MySQLError, match="MiB: at most 256 are legal; add LIMIT") as error:
            ask(client, f"select i from range({MOST_WAITING // 16 + 1}) as r(i)")
        assert error.value.args[0] == 1104
        # DuckDB stops when the answer is too large, and at 2 GB. It writes no file.
        many = "from range(20000) as a(i), range(20000) as b(i)"
        assert code_of(client, f"select a.i, b.i as j {many}") == 1104
        assert code_of(client, f"select a.i from range(9) as a(i) union all select b.i {many}") == 1104
        distinct = f"select distinct concat(repeat('x', 500), a.i, '.', b.i) {many}"
        assert code_of(client, f"select count(*) from ({distinct}) as t") == 1041
        assert not os.path.exists(".tmp")
        assert ask(client, "select count(*) from range(100000000) as r(i)") == [(100_000_000,)]


def test_open_cursors_are_bounded(folder: Path) -> None:
    """Cursors that nobody reads hold answers, too. Their clients are hung up on when others need the memory."""
    with subject(folder) as program, ExitStack() as stack:
        program.do(WORK)
        pid, path = stack.enter_context(server(str(program.pid), silent=False))
        good = stack.enter_context(connected(path))
        greedy = [stack.enter_context(connected(path)) for _ in range(4)]
        for client in greedy:
            for _ in range(8):
                number = prepared(client, LARGE)
                try:
                    client._execute_command(EXECUTE, struct.pack("<IBI", number, 1, 1))
                    for _ in range(5):  # the number of columns, three columns, their end
                        client._read_packet()
                except (pymysql.MySQLError, OSError):
                    break  # refused, or hung up on
        assert [row[0] for row in asked(good, LARGE)] == list(range(ROWS))
        print("resident", resident(pid) >> 20)
        assert resident(pid) < MOST_RESIDENT
