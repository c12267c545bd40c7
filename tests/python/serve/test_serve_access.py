"""pfs serve: nobody else reads the tables, and nothing that a client says or sends ends the server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python._programs.subject import subject
from tests.python.serve.serving import WAITS, ask, code_of, connected, pymysql, refused, served, serving

NOBODY = 65534


def test_refusals(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o644)
    with subject(folder) as program:
        pid = str(program.pid)
        assert "--password-file" in refused(pid, "--port", "0")
        assert "0600" in refused(pid, "--port", "0", "--password-file", str(secret), status=1)
        secret.write_text("\n")
        secret.chmod(0o600)
        assert "no password" in refused(pid, "--port", "0", "--password-file", str(secret), status=1)
        assert "or --all" in refused()
        assert "--write needs one process" in refused("--all", "--write")
        assert "one of --socket and --port" in refused(pid, "--port", "0", "--socket", "x")
        assert "is no socket" in refused(pid, "--socket", str(secret), status=1)
        assert secret.exists()
        with serving(pid) as path:
            assert "already" in refused(pid, status=1)
            assert os.path.exists(path)
        assert not os.path.exists(path)
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
        with serving(pid):  # nobody listens there
            pass


# Imports come first: another user may not read the modules.
AS_USER = """
import os, socket, sys, pymysql
uid, segment, path, host, port = sys.argv[1:]
"localhost".encode("idna")
os.setuid(int(uid))
def said(work):
    try: work()
    except (OSError, pymysql.MySQLError) as error: return type(error).__name__ + str(error.args[0])
    return "read"
print(said(lambda: open(segment, "rb").read(1)))
print(said(lambda: pymysql.connect(unix_socket=path, user="me")))
for password in ("", "wrong", "hush"):
    print(said(lambda: pymysql.connect(host=host, port=int(port), user="me", password=password)))
"""


def test_another_user_reads_no_more_than_in_the_file(folder: Path, tmp_path: Path) -> None:
    """As uid 65534: neither the segment nor the socket can be opened; at TCP it needs the password. The user itself may all."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    os.chmod(tmp_path.parent.parent, 0o755)
    for place in (tmp_path.parent, tmp_path, folder):
        place.chmod(0o755)  # so that only the modes of the files refuse
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    with served(folder) as (program, path), serving(str(program.pid), "--port", "0", "--password-file", str(secret)) as address:
        assert stat.S_IMODE(os.stat(path).st_mode) == stat.S_IMODE(os.stat(program.path).st_mode) == 0o600
        files = [str(program.path), path, *address.split(":")]
        for uid, wanted in ((NOBODY, "PermissionError13 OperationalError2003"), (0, "read read")):
            done = subprocess.run([sys.executable, "-c", AS_USER, str(uid), *files], capture_output=True, text=True, timeout=120)
            assert done.stdout.split() == [*wanted.split(), "OperationalError1045", "OperationalError1045", "read"], done.stderr


def test_tcp_needs_the_password(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    with subject(folder) as program, serving(str(program.pid), "--port", "0", "--password-file", str(secret)) as address:
        host, port = address.split(":")
        assert host == "127.0.0.1"
        arguments = {"host": host, "port": int(port), "user": "me"}
        client = pymysql.connect(password="hush", **arguments)
        assert ask(client, "select 1") == [(1,)]
        client.close()
        for password in ("", "wrong"):
            with pytest.raises(pymysql.MySQLError, match="denied"):
                pymysql.connect(password=password, **arguments)
        assert answers_after_a_denial(host, int(port)) == []


def answers_after_a_denial(host: str, port: int) -> list[bytes]:
    """Logs in with a wrong password, and asks all the same. Returns the packets after the denial that are no errors."""
    with socket.create_connection((host, port), timeout=30) as client:
        file = client.makefile("rb")

        def packet() -> bytes:
            header = file.read(4)
            return file.read(int.from_bytes(header[:3], "little")) if len(header) == 4 else b""

        assert packet()[0] == 10
        flags = 0x1 | 0x200 | 0x8000 | 0x80000
        scramble = hashlib.sha1(b"x").digest()
        login = struct.pack("<IIB23x", flags, 1 << 24, 45) + b"me\0" + bytes([20]) + scramble + b"mysql_native_password\0"
        client.sendall(len(login).to_bytes(3, "little") + b"\1" + login)
        assert packet()[0] == 0xFF
        query = b"\3select * from performance_schema.threads"
        with contextlib.suppress(ConnectionError):
            client.sendall(len(query).to_bytes(3, "little") + b"\0" + query)
            found = []
            while answer := packet():
                if answer[0] != 0xFF:
                    found.append(answer)
            return found
    return []


TOO_LONG = """
import ast, sys, pymysql
with pymysql.connect(unix_socket=sys.argv[1], user="me", **ast.literal_eval(sys.argv[2])).cursor() as cursor:
    try:
        cursor.execute("select '" + "x" * (2 << 20) + "'")
    except pymysql.MySQLError:
        print("refused", flush=True)
"""


def test_broken_packets_end_no_server(folder: Path) -> None:
    """Thousands of random packets, many connections, a statement that is too long, and clients that say nothing."""
    generator = random.Random(1)
    # Without TLS: after one connection has failed, Python 3.13 finds its error in the next read of another.
    with served(folder) as (program, path), connected(path, ssl_disabled=True) as good:
        rounds = 60
        for _ in range(rounds):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                client.connect(path)
                client.recv(1000)
                with contextlib.suppress(OSError):
                    for number in range(20):
                        body = generator.randbytes(generator.choice([0, 1, 5, 40, 300]))
                        size = generator.choice([len(body), len(body), 0xFFFFFF, 3])
                        client.sendall(size.to_bytes(3, "little") + bytes([number + 1]) + body)
        assert ask(good, "select 1") == [(1,)]
        for _ in range(rounds):  # logins that are nearly right
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                flags = 0x1 | 0x200 | 0x8000 | generator.choice([0, 8, 0x80000, 0x200008, 0x280008])
                login = bytearray(struct.pack("<IIB23x", flags, 1 << 24, 45) + b"me\0" + b"\x14" + b"x" * 20 + b"db\0plugin\0")
                login[generator.randrange(32, len(login))] = generator.choice([1, 0xFC, 0xFD, 0xFE, 0xFF, 65])
                login = login[: generator.randrange(30, len(login) + 1)]
                with contextlib.suppress(OSError):
                    client.sendall(len(login).to_bytes(3, "little") + b"\1" + login)
        assert ask(good, "select 1") == [(1,)]
        with connected(path) as client:
            for number in range(200):  # a user who is logged in
                body = bytes([generator.choice([2, 4, 14, 17, 22, 23, 24, 25, 26, 28, 31, 99])]) + generator.randbytes(
                    number % 50
                )
                with contextlib.suppress(OSError):
                    client._sock.sendall(len(body).to_bytes(3, "little") + b"\0" + body)
        for tls in ({}, {"ssl_disabled": True}):
            long = subprocess.run([sys.executable, "-c", TOO_LONG, path, repr(tls)], capture_output=True, text=True, timeout=20)
            assert (long.stdout, long.returncode) == ("refused\n", 0), long.stderr
        silent = [socket.socket(socket.AF_UNIX) for _ in range(50)]
        for each in silent:
            each.connect(path)
        assert ask(good, "select count(*) from threads") == [(1,)]
        for each in silent:
            each.close()
        program.do("assert lock.acquire()")  # the program notices nothing
        assert ask(good, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(8,)]


def test_names_are_no_way_in(folder: Path) -> None:
    """Names of schemas, tables and columns that look like statements are unknown names."""
    with served(folder) as (_, path), connected(path) as client:
        for name in (
            'x"; drop table threads; --',
            "x'; select 1; --",
            "x``y",
            '"',
            "a'b",
            "x\\",
            "../../etc/passwd",
            "\x00",
            "x) union select 1",
        ):
            quoted = "`" + name.replace("`", "``") + "`"
            for statement in (f"select * from {quoted}", f"describe {quoted}", f"show create table {quoted}", f"use {quoted}",
                              f"show columns from {quoted} from {quoted}", f"show tables from {quoted}",
                              f"select {quoted} from threads"):  # fmt: skip
                assert code_of(client, statement) in (1146, 1049, 1054, 1064), statement
        assert ask(client, "show tables like 'x\\'; drop table threads; --'") == []
