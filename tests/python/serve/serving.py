"""A server of `pfs serve` for a test, its clients, and a program that it serves."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.python._programs.subject import Subject, subject

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pymysql = pytest.importorskip("pymysql", reason="needs perfschema[databases]")

WORK = """
lock = pfs.Lock("app/LOCK")
for number in range(7):
    with lock, pfs.statement("app/query", "SELECT %d" % number): pass
with pfs.open(os.devnull, "w", name="app/data") as file: file.write("x")
"""
WAITS = "events_waits_summary_global_by_event_name"


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pfs", "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def refused(*arguments: str, status: int = 2) -> str:
    with command(*arguments) as process:
        _, error = process.communicate(timeout=120)
    assert process.returncode == status, error
    return error


@contextmanager
def serving(*arguments: str, silent: bool = True) -> Iterator[str]:
    """Serves, and gives the path of the socket or the address. The server must end well, and say nothing."""
    with server(*arguments, silent=silent) as (_, address):
        yield address


@contextmanager
def server(*arguments: str, silent: bool = True) -> Iterator[tuple[int, str]]:
    """The same with its pid."""
    with command(*arguments) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("serving at "), line + process.stderr.read()
        try:
            yield process.pid, line.split()[-1]
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=60)
        assert process.returncode == 0
        assert not silent or not error, error


@contextmanager
def connected(path: str, database: str | None = "performance_schema", **more: Any) -> Iterator[Any]:
    client = pymysql.connect(unix_socket=path, user="me", database=database, read_timeout=60, **more)
    try:
        yield client
    finally:
        with contextlib.suppress(pymysql.Error):
            client.close()


def ask(client: Any, statement: str) -> list[tuple[Any, ...]]:
    with client.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def code_of(client: Any, statement: str) -> int:
    with pytest.raises(pymysql.MySQLError) as error:
        ask(client, statement)
    return int(error.value.args[0])


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[Subject, str]]:
    """A program that has done its work, and the socket at which it is served."""
    with subject(folder) as program:
        program.do(WORK)
        with serving(str(program.pid), *arguments) as path:
            yield program, path
