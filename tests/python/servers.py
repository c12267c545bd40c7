"""Database servers of tests: each in a new folder, on a socket there, as a user without rights, stopped at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.needs import postgresql_folders

NOBODY = 65534


def find(program: str, *folders: str) -> str:
    """Path of a program; the test is skipped if there is none."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", *postgresql_folders(), *folders])
    found = shutil.which(program, path=path)
    if found is None:
        pytest.skip(f"{program} is not installed: see tests/run.sh")
    return str(Path(found).resolve())


def drop_rights() -> dict[str, Any]:
    """For subprocess: servers do not run as root."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def folder() -> Iterator[Path]:
    memory = shutil.disk_usage("/dev/shm").free > 1 << 30  # a disk may be slow, and nothing of this is to last
    made = Path(tempfile.mkdtemp(prefix="pfs-db-", dir="/dev/shm" if memory else None))  # sockets need short paths
    if os.geteuid() == 0:
        os.chown(made, NOBODY, NOBODY)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def takes(connect: Callable[[], Any]) -> bool:
    try:
        connect().close()
    except Exception:
        return False
    return True


@contextmanager
def running(command: list[str], log: Path, socket: Path, connect: Callable[[], Any]) -> Iterator[None]:
    """The server, from the first connection that it takes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PFS_", "PG", "MYSQL", "MARIADB"))}
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=log.parent, **drop_rights())
        try:
            deadline = time.monotonic() + 60
            while not (socket.exists() and takes(connect)):
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{command[0]} does not start:\n{log.read_text()}")
                time.sleep(0.05)
            yield
        finally:
            server.send_signal(signal.SIGINT if "postgres" in command[0] else signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def prepare(command: list[str], where: Path) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=where, check=False, timeout=300, **drop_rights()
    )
    assert done.returncode == 0, done.stdout


@contextmanager
def mariadb(*options: str) -> Iterator[str]:
    """Gives its socket. User root without a password, database shop; it keeps its own events_transactions_history_long. `options`
    are further ones of the server."""
    import pymysql

    server, install = find("mariadbd"), find("mariadb-install-db")
    with folder() as where:
        data, socket = where / "data", str(where / "socket")
        files = ["--no-defaults", f"--datadir={data}", "--innodb-log-file-size=8M", "--innodb-flush-method=nosync"]
        prepare([install, *files, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"], where)
        schema = [
            "--performance-schema=ON",
            "--performance-schema-instrument=transaction=ON",
            "--performance-schema-consumer-events-transactions-current=ON",
            "--performance-schema-consumer-events-transactions-history-long=ON",
        ]
        small = ["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-networking", "--skip-log-bin"]
        command = [server, *files, f"--socket={socket}", f"--pid-file={where}/pid", *schema, *small, *options]
        with running(command, where / "log", Path(socket), lambda: pymysql.connect(unix_socket=socket, user="root")):
            db = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
            db.cursor().execute("CREATE DATABASE shop")
            db.close()
            yield socket


@contextmanager
def postgresql() -> Iterator[str]:
    """Gives a connection string without a database. User postgres; databases postgres and shop."""
    import psycopg

    initdb, server = find("initdb"), find("postgres")
    with folder() as where:
        data = where / "data"
        prepare([initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"], where)
        settings = {"listen_addresses": "", "unix_socket_directories": str(where), "fsync": "off", "autovacuum": "off"}
        command = [server, "-D", str(data), *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))]
        given = f"host={where} user=postgres"
        with running(command, where / "log", where / ".s.PGSQL.5432", lambda: psycopg.connect(f"{given} dbname=postgres")):
            with psycopg.connect(f"{given} dbname=postgres", autocommit=True) as db:
                db.execute("CREATE DATABASE shop")
            yield given
