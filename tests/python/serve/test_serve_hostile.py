"""pfs serve and 10,000 malformed packets, slow clients, many clients, texts that look like SQL: it answers in bounded memory."""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import budgets
from tests.python._programs.subject import Subject, subject
from tests.python.serve.packets import EXECUTE, LONG_DATA, PREPARE, login, packet

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pymysql = pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from tests.python.serve.serving import WAITS, WORK, ask, code_of, connected, served, server  # noqa: E402

SEED = budgets.seed(1)
MOST_GROWTH = 8 << 20  # bytes that the server may have more at the end than after a tenth of the packets
COMMANDS = (*range(32), 99, 255)


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def threads_and_time(pid: int) -> tuple[int, int]:
    """Threads of a process, and the ticks of CPU time that it has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[17]), int(fields[11]) + int(fields[12])


def exchanged(path: str, sent: bytes) -> bytes:
    """Sends bytes, and nothing more. Returns all that the server answers, up to its end of the connection."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(path)
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while more := client.recv(1 << 16):
                answer += more
    return answer


def packets_in(answer: bytes) -> list[bytes]:
    found = []
    while len(answer) >= 4:
        size = int.from_bytes(answer[:3], "little")
        found.append(answer[4 : 4 + size])
        answer = answer[4 + size :]
    return found


def broken_login(generator: random.Random) -> bytes:
    """A first packet: random, cut off, with a wrong length or number, or with one wrong byte."""
    body = login()
    match generator.randrange(5):
        case 0:
            return packet(generator.randbytes(generator.choice([0, 1, 5, 33, 300])), 1)
        case 1:
            return packet(body, 1)[: generator.randrange(len(body))]
        case 2:
            return packet(body, 1, generator.choice([0, 3, len(body) - 9, len(body) + 50, 0xFFFFFF]))
        case 3:
            return packet(body, generator.choice([0, 2, 77, 255]))
        case _:
            changed = bytearray(body)
            changed[generator.randrange(len(changed))] = generator.choice([0, 1, 0xFC, 0xFD, 0xFE, 0xFF, 65])
            return packet(bytes(changed), 1)


def broken_commands(generator: random.Random, count: int) -> bytes:
    """Commands of random bytes, after a login. The last one has a wrong length or number, which ends the connection."""
    sent = b""
    for _ in range(count - 1):
        body = bytes([generator.choice(COMMANDS)]) + generator.randbytes(generator.choice([0, 1, 4, 9, 30, 200]))
        if generator.random() < 0.1:
            body = b"\x16select ?, ?" if generator.random() < 0.5 else b"\x03select " + generator.randbytes(20)
        if body[0] == 1:
            body = b""  # COM_QUIT would be no error
        sent += packet(body)
    last = generator.randbytes(10)
    return sent + generator.choice([packet(last, 9), packet(last, 0, 500), packet(last, 0, 0xFFFFFF), b"\1\0"])


def attack(path: str, generator: random.Random, count: int) -> int:
    """Sends so many malformed packets. Returns how many answers were errors."""
    errors = 0
    while count > 0:
        if generator.random() < 0.7:
            exchanged(path, broken_login(generator))
            count -= 1
        else:
            batch = min(count, 60)
            answers = packets_in(exchanged(path, packet(login(), 1) + broken_commands(generator, batch)))
            errors += sum(answer[:1] == b"\xff" for answer in answers)
            count -= batch
    return errors


@contextmanager
def slow_clients(path: str, count: int) -> Iterator[list[socket.socket]]:
    """Clients that have sent a part of a packet: of the login, or of a statement."""
    clients = []
    for number in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(path)
        client.recv(1000)
        if number % 2:
            client.sendall(packet(login(), 1))
            assert client.recv(1000)[4] == 0  # logged in
            client.sendall(packet(b"\3select 1")[:7])
        clients.append(client)
    yield clients
    for client in clients:
        client.close()


def test_malformed_packets_and_slow_clients(folder: Path) -> None:
    """The server answers afterwards, its memory is bounded, slow clients are hung up on, and the program notices nothing."""
    print(f"PFS_TEST_SEED={SEED}")
    generator = random.Random(SEED)
    with subject(folder) as program:
        program.do(WORK)
        before_all = threads_and_time(program.pid)
        with server(str(program.pid)) as (pid, path), connected(path, ssl_disabled=True) as good, slow_clients(path, 8) as slow:
            begin = time.monotonic()
            for client in slow[::2]:
                client.sendall(packet(login(), 1)[:1])
            attack(path, generator, budgets.SERVE_PACKETS // 10)
            assert ask(good, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(7,)]
            before = resident(pid)
            errors = 0
            for number in range(9):
                errors += attack(path, generator, budgets.SERVE_PACKETS // 10)
                for client in slow[::2]:  # a byte at a time
                    with contextlib.suppress(OSError):
                        client.sendall(packet(login(), 1)[number + 1 : number + 2])
                assert ask(good, "select 1") == [(1,)]
            print("resident", before >> 20, resident(pid) >> 20)
            assert resident(pid) - before < MOST_GROWTH
            assert errors > budgets.SERVE_PACKETS // 4  # the packets did reach the server
            for client in slow:
                while client.recv(1000):
                    pass  # hung up on
            assert time.monotonic() - begin > 9
            assert ask(good, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(7,)]
            assert_alive(program, good, before_all)


def changed_command(generator: random.Random) -> bytes:
    """A command that is right but for a byte, its end, or two of them in one."""
    number = struct.pack("<I", generator.choice([1, 1, 2, 3, 9]))
    times = struct.pack("<HBBBBBI", 2024, 2, 29, 1, 2, 3, 4)
    commands = (
        b"\x16select ?, now(), x'41' from threads where name like ?",
        b"\x16select i from range(9) as r(i)",
        b"\x17" + number + b"\0\1\0\0\0\0\1\xfd\0\xfe\0\1a\1%",
        b"\x17" + number + b"\0\1\0\0\0\0\1\x0c\0\x0b\0\x0b" + times + b"\x08\0" + times[:7],
        b"\x17" + number + b"\1\1\0\0\0\0\0" + b"\5\x80\x03\xf6" * 3,
        b"\x1c" + number + b"\3\0\0\0",
        b"\x18" + number + b"\0\0part",
        b"\x19" + number,
        b"\x1a" + number,
        b"\x04threads\0%",
        b"\x1b\0\0",
        b"\x1f",
        b"\x09",
        b"\x03set names latin1, @a = 'x', sql_select_limit = 3; select @a, @@sql_mode, 'b' as `c`; show warnings",
        b"\x03select /*!40000 1, */ _binary'\xff', \"a\" -- x\n, count(*) from setup_consumers s limit 3",
        b"\x11me\0\0sys\0\x2d\0mysql_native_password\0",
    )
    body = bytearray(generator.choice(commands))
    match generator.randrange(4):
        case 0:
            body[generator.randrange(1, len(body) + 1) - 1] = generator.choice([0, 1, 7, 0x27, 0x3B, 0x80, 0xFB, 0xFE, 0xFF])
        case 1:
            del body[generator.randrange(1, len(body) + 1) :]
        case 2:
            body += generator.choice(commands)[1:]
    return bytes(body) if body[0] != 1 else b"\x0e"


def test_commands_that_are_nearly_right(folder: Path) -> None:
    """Each is answered, or refused with a number that says why; 1105 would say that the server did not know what to do."""
    print(f"PFS_TEST_SEED={SEED}")
    generator = random.Random(SEED)
    with served(folder) as (_, path), connected(path) as good:
        codes: dict[int, int] = {}
        for _ in range(budgets.SERVE_PACKETS // 200):
            sent = packet(login(), 1) + b"".join(packet(changed_command(generator)) for _ in range(40))
            for answer in packets_in(exchanged(path, sent)):
                if answer[:1] == b"\xff":
                    number = int.from_bytes(answer[1:3], "little")
                    codes[number] = codes.get(number, 0) + 1
                    assert number != 1105, answer
        print(codes)
        assert sum(codes.values()) > budgets.SERVE_PACKETS // 40
        assert len(codes) > 5
        assert ask(good, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(7,)]


def assert_alive(program: Subject, client: Any, before: tuple[int, int]) -> None:
    """The program has its threads, has used no time, and counts on."""
    threads, ticks = threads_and_time(program.pid)
    assert threads == before[0]
    assert ticks - before[1] <= 1
    program.do("assert lock.acquire()")
    assert ask(client, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(8,)]


def test_fifty_clients_at_once(folder: Path) -> None:
    """All of them ask before the first one reads. Those beyond the most are told so, with the number of MySQL.

    The program notices nothing.
    """
    with subject(folder) as program, contextlib.ExitStack() as stack:
        program.do(WORK)
        before = threads_and_time(program.pid)
        _, path = stack.enter_context(server(str(program.pid)))
        clients = [stack.enter_context(connected(path, ssl_disabled=True)) for _ in range(50)]
        for client in clients:
            client._execute_command(3, f"select count_star from {WAITS} where event_name like '%LOCK'")
        for client in clients:
            client._read_query_result()
            assert client._result.rows == ((7,),)
        more = [stack.enter_context(connected(path, ssl_disabled=True)) for _ in range(14)]
        with pytest.raises(pymysql.MySQLError) as error:
            pymysql.connect(unix_socket=path, user="me", ssl_disabled=True)
        assert error.value.args[0] == 1040
        assert ask(more[-1], "select 1") == [(1,)]
        assert_alive(program, more[-1], before)


def test_a_long_statement_stops_no_other_client(folder: Path) -> None:
    """While it is parsed, others are answered."""
    with served(folder) as (_, path), connected(path, ssl_disabled=True) as busy, connected(path) as other:
        busy._execute_command(3, "select 1 in (" + "1," * 30_000 + "1)")
        time.sleep(0.1)
        assert ask(other, "select 1") == [(1,)]
        assert not select.select([busy._sock], [], [], 0)[0]
        busy._read_query_result()
        assert busy._result.rows == ((1,),)


def prepared(client: Any, statement: str) -> int:
    """Prepares a statement, and returns its number."""
    client._execute_command(PREPARE, statement)
    number, columns, parameters = struct.unpack_from("<IHH", client._read_packet()._data, 1)
    for count in (parameters, columns):
        for _ in range(count + 1 if count else 0):  # with their end
            client._read_packet()
    return int(number)


def executed(client: Any, number: int, value: str) -> tuple[Any, ...]:
    """Executes a statement with one text. Returns the bytes of the packets of its first row."""
    text = value.encode()
    data = struct.pack("<IBI", number, 0, 1) + b"\0\1" + b"\xfe\0" + b"\xfc" + struct.pack("<H", len(text)) + text
    client._execute_command(EXECUTE, data)
    packets = [client._read_packet()]
    while packets[-1]._data[0] != 0xFE or len(packets[-1]._data) > 9:
        packets.append(client._read_packet())
        if len(packets) > 2 and packets[-1]._data[0] == 0xFE and len(packets) == 3:
            packets.append(client._read_packet())  # the end of the columns
    return tuple(bytes(each._data) for each in packets)


TEXTS = ("plain", "a'b", 'a"b', "a`b", "a?b", "a\\b", "\\1'?", "' or '1'='1", "'; drop table threads; --", "é'")


def test_texts_of_prepared_statements_are_texts(folder: Path) -> None:
    """A parameter with quotes, backslashes or question marks is itself, and no SQL."""
    with served(folder) as (_, path), connected(path) as client:
        alone = prepared(client, "select ? /* '? */")
        compared = prepared(client, "select count(*) from threads where name = ? and name <> '?'")
        for text in TEXTS:
            answer = executed(client, alone, text)
            assert any(each.endswith(bytes([len(text.encode())]) + text.encode()) for each in answer), answer
            answer = executed(client, compared, text)
            assert any(each == bytes([0, 0]) + (0).to_bytes(8, "little") for each in answer), answer


def test_prepared_statements_are_bounded(folder: Path) -> None:
    with served(folder) as (_, path), connected(path) as client:
        for _ in range(1000):
            number = prepared(client, "select 1")
        assert code(client, PREPARE, "select 1") == 1461
        client._execute_command(0x19, struct.pack("<I", number))  # close one
        assert prepared(client, "select 1")
    with served(folder) as (_, path), connected(path) as client:
        text = "select '" + "x" * 250_000 + "'"
        for _ in range(16):
            prepared(client, text)
        assert code(client, PREPARE, text) == 1461  # by its bytes
        assert code(client, PREPARE, "select " + "?," * 10_000 + "?") == 1390
    with served(folder) as (_, path), connected(path) as client, connected(path) as other:
        number = prepared(client, "select ?")

        def send() -> None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                for _ in range(100):  # a parameter in parts of 100 kB
                    client._execute_command(LONG_DATA, struct.pack("<IH", number, 0) + b"x" * 100_000)

        # Not in this thread: OpenSSL keeps the error for its next call, and ssl of CPython 3.13 blames the other client.
        with ThreadPoolExecutor(1) as threads:
            threads.submit(send).result()
        with pytest.raises((pymysql.MySQLError, OSError)):
            client.ping(reconnect=False)
        assert ask(other, "select 1") == [(1,)]


def code(client: Any, command: int, data: str) -> int:
    client._execute_command(command, data)
    with pytest.raises(pymysql.MySQLError) as error:
        client._read_packet()
    return int(error.value.args[0])


NAMES = ("x'; drop table threads; --", 'x"', "x`; select 1", "a\\'b", "%", "é", "me;", "*/ select 1 /*")


def test_names_of_users_and_aliases_are_texts(folder: Path) -> None:
    with served(folder) as (_, path):
        for name in NAMES:
            with contextlib.closing(pymysql.connect(unix_socket=path, user=name)) as client:
                assert ask(client, "select current_user()") == [(f"{name}@localhost",)]
                assert code_of(client, "drop table threads") == 1142
                quoted = name.replace("`", "``")
                with client.cursor() as cursor:
                    cursor.execute(f"select 1 as `{quoted}`")
                    assert cursor.description[0][0] == name
                assert code_of(client, f"select `{quoted}`.* from performance_schema.threads as t") in (1054, 1064, 1146)
                assert code_of(client, f"select * from performance_schema.`{quoted}`.`{quoted}`") in (1064, 1146)
            with pytest.raises(pymysql.MySQLError, match="1049"):
                pymysql.connect(unix_socket=path, user=name, database=name)
        nul = exchanged(path, packet(login(b"a\0b"), 1) + packet(b"\3select 1"))
        assert b"\xff" in nul or len(packets_in(nul)) == 1  # refused: the NUL has ended the name
