"""pfs serve: a statement has limits of time and memory, ends when its client leaves, and never keeps the server."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import ssl
import termios
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.python._programs.subject import subject, until

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pymysql = pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from pfs._export.serve.server import print_faults  # noqa: E402
from tests.python.serve.serving import WORK, ask, code_of, command, connected, served  # noqa: E402

ENDLESS = "select count(*) from range(100000000000000)"
_NO_MEMORY, _TIMEOUT, _INTERRUPTED, _NOT_OWNER = 1041, 3024, 1317, 1095


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def family(pid: int) -> list[int]:
    """Returns a process and all below it."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def resident(pid: int) -> int:
    """Returns the memory in bytes of a process and of all below it."""
    found = 0
    for each in family(pid):
        with suppress(OSError):
            found += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return found


def send(path: str, statement: str, **more: Any) -> Any:
    """A client that asks and does not wait."""
    client = pymysql.connect(unix_socket=path, user="me", database="performance_schema", **more)
    client._execute_command(3, statement)
    return client


def is_read(client: Any) -> bool:
    """Returns whether the server has taken all that the client has sent."""
    return fcntl.ioctl(client._sock, termios.TIOCOUTQ, bytes(4)) == bytes(4)


@pytest.mark.parametrize("statement", [ENDLESS, "select len(range(80000000)), len(range(80000001)), len(range(80000002))"])
def test_a_statement_has_a_limit_of_seconds(folder: Path, statement: str) -> None:
    """DuckDB does not look at its own limit while a function makes a list."""
    with served(folder, "--timeout", "1") as (_, path), connected(path) as client:
        begin = time.monotonic()
        assert code_of(client, statement) == _TIMEOUT
        assert time.monotonic() - begin < 10
        assert ask(client, "select 1") == [(1,)]


@pytest.mark.parametrize(
    "much", ["len(range(900000000))", "list_resize([1], 900000000)[1]", "len(string_split(repeat('a,', 200000000), ','))"]
)
def test_a_statement_has_a_limit_of_memory(folder: Path, much: str) -> None:
    with subject(folder) as program, command(str(program.pid)) as process:
        program.do(WORK)
        assert process.stderr is not None
        path = process.stderr.readline().split()[-1]
        with connected(path) as client:
            assert code_of(client, f"select {much}") == _NO_MEMORY
            assert resident(process.pid) < 5 << 30
            assert ask(client, "select 1") == [(1,)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_statement_ends_when_its_clients_leave(folder: Path) -> None:
    """Four clients ask for what never ends, two at a time work, and all leave: the next client is answered at once."""
    with served(folder) as (_, path):
        clients = [send(path, ENDLESS, ssl_disabled=number % 2 == 0) for number in range(4)]
        time.sleep(0.5)
        for client in clients:
            client._force_close()
        with connected(path) as good:
            assert ask(good, "select count(*) > 0 from threads") == [(1,)]


def test_a_client_ends_its_statement_and_its_connection_from_another_one(folder: Path) -> None:
    """As the client mysql does when its user presses Ctrl-C. Three statements: one of them waits for its turn."""
    with served(folder) as (_, path), connected(path) as other:
        clients = [send(path, ENDLESS) for _ in range(3)]
        with pymysql.connect(unix_socket=path, user="another") as stranger:
            assert code_of(stranger, f"kill query {clients[0].thread_id()}") == _NOT_OWNER
        for client in reversed(clients):
            until(partial(is_read, client))  # before, KILL QUERY would end nothing
            ask(other, f"KILL QUERY {client.thread_id()}")
            with pytest.raises(pymysql.Error) as error:
                client._read_query_result()
            assert error.value.args[0] == _INTERRUPTED
        assert [ask(client, "select 1") for client in clients] == [[(1,)]] * 3
        client = clients[0]
        ask(other, f"kill query {client.thread_id()}")  # none runs: it says nothing of the next one
        assert ask(client, "select 2") == [(2,)]
        client._execute_command(3, ENDLESS)
        ask(other, f"kill {client.thread_id()}")
        with pytest.raises(pymysql.Error, match="Lost connection"):
            client._read_query_result()
        for each in clients:
            each._force_close()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_while_statements_run(folder: Path, stop: signal.Signals) -> None:
    with subject(folder) as program, command(str(program.pid)) as process:
        program.do(WORK)
        assert process.stderr is not None
        path = process.stderr.readline().split()[-1]
        clients = [send(path, ENDLESS), send(path, "select len(range(90000000))"), send(path, ENDLESS)]
        until(lambda: len(family(process.pid)) >= 4)  # the server, two workers, and what forks them
        before = set(family(process.pid))
        process.send_signal(stop)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before))
        for client in clients:
            client._force_close()


def test_nothing_is_left_of_a_killed_server(folder: Path) -> None:
    with subject(folder) as program, command(str(program.pid)) as process:
        program.do(WORK)
        assert process.stderr is not None
        client = send(process.stderr.readline().split()[-1], ENDLESS)
        until(lambda: len(family(process.pid)) >= 3)
        before = set(family(process.pid))
        process.kill()
        process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before))
        client._force_close()


def test_a_worker_that_dies_ends_its_statement_alone(folder: Path) -> None:
    with subject(folder) as program, command(str(program.pid)) as process:
        program.do(WORK)
        assert process.stderr is not None
        path = process.stderr.readline().split()[-1]
        with connected(path) as client:
            assert ask(client, "select 1") == [(1,)]
            (nursery,) = children(process.pid)
            for worker in children(nursery):
                os.kill(worker, signal.SIGSEGV)
            assert code_of(client, "select 1") == _NO_MEMORY
            assert ask(client, "select 2") == [(2,)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_client_that_leaves_is_no_fault_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio says it of a future that has the client's last error, where the collector meets that one before its owner."""

    async def collected() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(print_faults)
        for error in (BrokenPipeError("left"), ssl.SSLError("left"), ValueError("a fault")):
            loop.create_future().set_exception(error)

    asyncio.run(collected())
    assert "a fault" in caplog.text
    assert "left" not in caplog.text
