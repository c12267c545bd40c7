"""pfs serve: clients of MySQL read the tables, nobody else does, and nothing that a client sends ends the server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._export.serve import replication
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
NOBODY = 65534


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
        assert not silent or error == ""


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


def test_tables_and_views_as_they_are(folder: Path) -> None:
    """All tables and views answer. Values and NULLs are those of pfs.attach."""
    with served(folder) as (program, path), connected(path) as client, pfs.attach(str(program.path)) as schema:
        for name in schema.tables():
            with client.cursor() as cursor:
                cursor.execute(f"select * from `{name}` limit 3")
                assert [column[0] for column in cursor.description] == list(schema.table(name).columns), name
        for name in ("threads", WAITS, "setup_consumers", "events_waits_history", "events_statements_summary_by_digest"):
            frame = schema.table(name).astype(object)
            wanted = [tuple(row) for row in frame.where(frame.notna(), None).itertuples(index=False, name=None)]
            assert ask(client, f"select * from performance_schema.{name}") == wanted, name
        views = [row[0] for row in ask(client, "show tables from sys")]
        assert {"version", "processlist", "x$statement_analysis"} <= set(views)
        for name in views:
            ask(client, f"select * from sys.`{name}`")
        client.select_db("sys")
        assert ask(client, "select sys_version from version") == [(pfs.__version__,)]


def test_numbers_and_texts_of_every_kind(folder: Path) -> None:
    with served(folder) as (_, path), connected(path) as client:
        assert ask(
            client,
            "select 18446744073709551615, 9223372036854775807, -5, 1.5, null, 'é\\n', true, sum(x) "
            "from (select 18446744073709551615 as x union all select 1) as t",
        ) == [(18446744073709551615, 9223372036854775807, -5, pytest.approx(1.5), None, "é\n", 1, 18446744073709551616)]
        ((first, high),) = ask(client, "select first_seen, max_timer_wait from events_statements_summary_by_digest")
        assert abs(time.time() - first.timestamp()) < 24 * 3600
        assert high > 0
        with client.cursor() as cursor:
            cursor.execute(f"select count_star from {WAITS} where event_name = %s", ("wait/synch/mutex/app/LOCK",))
            assert cursor.fetchall() == ((7,),)
            cursor.execute(
                f"select 5ms, '5ms', count_star from {WAITS} where event_name = 'wait/synch/mutex/app/LOCK' and 1s > 9ms"
            )
            assert (cursor.fetchall(), cursor.description[0][0]) == (((5 * 10**9, "5ms", 7),), "5ms")
            cursor.execute("select %s", ("a'; drop table threads; --",))
            assert cursor.fetchall() == (("a'; drop table threads; --",),)
            cursor.execute("select count(*) from threads")
            assert cursor.description[0][0] == "count(*)"


def test_what_clients_ask_about_the_server(folder: Path) -> None:
    with served(folder) as (_, path), connected(path, None) as client:
        assert client.get_server_info().startswith("8.4.0-pfs")
        assert {row[0] for row in ask(client, "show databases")} == {"information_schema", "performance_schema", "sys"}
        assert code_of(client, "show tables") == 1046
        status = dict(ask(client, "show global status"))
        assert status["Queries"] == "7"
        assert status["Performance_schema_mutex_instances_lost"] == "0"
        assert int(status["Uptime"]) < 1000
        assert set(status) >= {
            "Threads_connected",
            "Threads_running",
            "Connections",
            "Questions",
            "Bytes_received",
            "Bytes_sent",
            "Open_files",
        }
        assert ask(client, "show status like 'quer%'") == [("Queries", "7")]
        assert ask(client, "show variables where Variable_name in ('version_comment', 'x')") == [("version_comment", "pfs")]
        assert ask(client, "select @@version_comment, @@performance_schema, database()") == [("pfs", 1, None)]
        client.select_db("performance_schema")
        assert ask(client, "show tables like 'setup\\_c%'") == [("setup_consumers",)]
        for statement in ("set names utf8mb4", "set autocommit=1", "set lock_wait_timeout=2", "set @x = 1", "begin"):
            ask(client, statement)
        assert ask(client, "select 1 from dual limit 1") == [(1,)]
        for statement in (
            "engines",
            "warnings",
            "errors",
            "plugins",
            "grants",
            "collation",
            "character set",
            "processlist",
            "triggers",
            "index from threads",
            "procedure status",
            "function status",
            "replica status",
            "table status",
            "full tables from sys where Table_type='VIEW'",
        ):
            ask(client, "show " + statement)
        fields = ask(client, "describe threads")
        assert fields[0] == ("THREAD_ID", "bigint unsigned", "NO", "PRI", None, "")
        assert ask(client, "show full columns from threads from performance_schema like 'THREAD\\_ID'")[0][8]
        assert [row[0] for row in ask(client, "desc sys.version")] == ["sys_version", "mysql_version"]
        tables = (
            "select table_type, count(*) from information_schema.tables where table_schema <> 'information_schema' group by 1"
        )
        assert dict(ask(client, tables))["BASE TABLE"] == len(pfs.tables()) + len(replication.TABLES)
        for name in replication.TABLES:
            assert ask(client, f"select * from {name} where channel_name = ''") == []
            assert [row[0] for row in ask(client, f"describe {name}")] == replication.columns_of(name)
        assert ask(client, "select 1 from replication_group_member_stats where MEMBER_ID = @@server_uuid") == []
        columns = "select column_name from information_schema.columns where table_schema = database() and table_name = 'threads'"
        assert [row[0] for row in ask(client, columns + " order by ordinal_position")] == list(pfs.table("threads").columns)
        assert ask(client, "select count(*) from information_schema.views where view_definition like '%threads%'")[0][0] > 5


def test_shows_as_mysql_has_them(folder: Path) -> None:
    """Titles with the pattern, columns in their order, and other words for the same."""
    full = ["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"]
    with served(folder) as (_, path), connected(path) as client, client.cursor() as cursor:
        for statement, titles, count in (
            ("show tables like 'thr%'", ["Tables_in_performance_schema (thr%)"], 1),
            ("show full tables like 'thr%'", ["Tables_in_performance_schema (thr%)", "Table_type"], 1),
            ("show databases like 'perf%'", ["Database (perf%)"], 1), ("show schemas", ["Database"], 3),
            ("show full columns from threads like 'name'", full, 1),
            ("show fields from threads like 'name'", [*full[:2], *full[3:7]], 1),
            ("show full fields from `threads` from `performance_schema` where Field = 'NAME'", full, 1),
            ("describe performance_schema.threads 'name'", [*full[:2], *full[3:7]], 1), ("show count(*) warnings", None, 1),
            ("show count(*) errors", None, 1), ("show grants for current_user()", None, 1),
            ("show grants for 'me'@'localhost'", None, 1),
            ("show keys from performance_schema.threads", None, 1), ("show indexes from threads", None, 1),
        ):  # fmt: skip
            assert cursor.execute(statement) == count, statement
            assert titles is None or [column[0] for column in cursor.description] == titles
        ask(client, "unlock tables")
        ask(client, "set nothing_like_it = 1")
        assert ask(client, "show count(*) warnings") == [(1,)]
        assert len(ask(client, "show warnings")) == 1


def test_columns_say_how_large_they_are(folder: Path) -> None:
    """Drivers ask in arithmetic: a number that is NULL for every column is a number all the same."""
    asked = (
        "select 11 + datetime_precision, numeric_scale,"
        " if(numeric_precision is null, least(character_maximum_length, 2147483647), numeric_precision)"
        " from information_schema.columns where table_schema = '{}' and table_name = '{}' and column_name = '{}'"
    )
    with served(folder) as (_, path), connected(path) as client:
        for schema, table, column, wanted in (
            ("performance_schema", "threads", "THREAD_ID", (None, 0, 20)),
            ("performance_schema", "threads", "NAME", (None, None, 128)),
            ("performance_schema", "setup_consumers", "ENABLED", (None, None, 3)),
            ("performance_schema", "events_statements_summary_by_digest", "FIRST_SEEN", (17, None, None)),
            ("performance_schema", "threads", "PROCESSLIST_INFO", (None, None, 2**31 - 1)),
            ("sys", "x$waits_global_by_latency", "avg_latency", (None, 0, 20)),
        ):  # fmt: skip
            assert ask(client, asked.format(schema, table, column)) == [wanted], column
        assert ask(client, "select 1 + numeric_scale, routine_comment from information_schema.routines") == []
        assert ask(client, "select cast(name as char character set utf8) from setup_consumers where name = 'lock_holds'") == [
            ("lock_holds",)
        ]


def test_errors_have_the_numbers_of_mysql(folder: Path) -> None:
    with served(folder) as (_, path), connected(path) as client:
        for statement, code in (
            ("select * from nothing", 1146), ("select * from mysql.user", 1146), ("describe nothing", 1146),
            ("show create table nothing", 1146),
            ("select nothing from threads", 1054), ("selec", 1064), ("select 1 +", 1064), ("select 'a", 1064),
            ("insert into threads values (1)", 1142), ("delete from setup_actors", 1142), ("drop table threads", 1142),
            ("create table x (a int)", 1142), ("lock tables threads read", 1142),
            ("update setup_actors set enabled = 'NO'", 1142),
            ("truncate table file_instances", 1142), ("use mysql", 1049), ("call sys.ps_setup_save(1)", 1305),
            ("select * from read_csv('/etc/passwd')", 1064), ("select * from '/etc/passwd'", 1146),
            ("copy threads to '/tmp/x'", 1142),
            ("select " + "(" * 5000 + "1" + ")" * 5000, 1064),
        ):  # fmt: skip
            assert code_of(client, statement) == code, statement[:50]
        assert ask(client, "select 1") == [(1,)]


def test_no_client_reaches_what_another_one_asks(folder: Path) -> None:
    """While a statement of one client runs, another client sees neither its tables nor that it exists."""
    long = (
        "select count(*) from setup_instruments a, setup_instruments b, setup_instruments c, setup_instruments d"
        " where concat(a.NAME, b.NAME) < concat(c.NAME, d.NAME)"
    )
    with served(folder) as (program, path), connected(path) as one, connected(path) as other:
        program.do("locks = [pfs.Lock('app/LOCK_%d' % number) for number in range(30)]")
        answers: list[object] = []
        asks = threading.Thread(target=lambda: answers.append(ask(one, long)))
        asks.start()
        turns = 0
        while not answers:
            turns += 1
            things = "select (select count(*) from duckdb_tables()), (select count(*) from duckdb_views() where not internal)"
            assert ask(other, things) == [(1, 0)]  # its own answer
            for place in ("memory.main.answer", "performance_schema.setup_instruments", "setup_instruments"):
                assert code_of(other, f"select * from query_table('{place}')") == 1064
                assert code_of(other, f"select * from query('select * from {place}')") == 1064
            assert asks.is_alive() or answers
        asks.join()
        assert turns > 1
        assert answers[0][0][0] > 0  # type: ignore[index]


def test_changes_only_with_write(folder: Path) -> None:
    with served(folder, "--write") as (program, path), connected(path) as client, pfs.attach(str(program.path)) as schema:
        ask(client, "update setup_instruments set enabled = 'NO', timed = 'NO' where name like 'wait/synch/mutex/app/%'")
        assert not schema.setup_instruments["wait/synch/mutex/app/LOCK"].enabled
        ask(client, "update performance_schema.setup_consumers set ENABLED = 'NO' where NAME = 'events_waits_history_long'")
        assert not schema.setup_consumers["events_waits_history_long"].enabled
        ask(client, f"truncate table {WAITS}")
        assert ask(client, f"select max(count_star) from {WAITS}") == [(0,)]
        for statement, code in (
            ("truncate threads", 1142), ("update file_instances set open_count = 0", 1142),
            ("update sys.version set sys_version = 1", 1142),
            ("update setup_consumers set enabled = 'MAYBE'", 1064), ("update setup_consumers set enabled = lower('NO')", 1064),
            ("update setup_consumers set name = 'x'", 1142),
            ("insert into setup_actors values ('a', 'b', '%', 'YES', 'YES', 'NO')", 1142),
        ):  # fmt: skip
            assert code_of(client, statement) == code, statement
        program.kill()
        assert code_of(client, f"truncate table {WAITS}") == 1105
        assert ask(client, f"select max(count_star) from {WAITS}") == [(0,)]  # the dead are read


@pytest.mark.parametrize("tls", ["--ssl", "--skip-ssl"])  # from MariaDB 11.4 on it is on
def test_command_line_client(folder: Path, tls: str) -> None:
    client = shutil.which("mariadb") or shutil.which("mysql")
    if client is None:
        pytest.skip("needs the command mariadb: package mariadb-client-core")
    with served(folder) as (_, path):
        text = f"select event_name, count_star from {WAITS} where event_name like '%LOCK'; show tables from sys like 'version'"
        done = subprocess.run(
            [client, tls, "-S", path, "-B", "performance_schema", "-e", text], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[1] == "wait/synch/mutex/app/LOCK\t7"
        assert "version" in lines
        done = subprocess.run(
            [client, tls, "-S", path, "-e", "drop database sys"], capture_output=True, text=True, timeout=120, check=False
        )
        assert "ERROR 1142" in done.stderr


def test_tls(folder: Path) -> None:
    """The connection is encrypted; whoever breaks it off, or sends no TLS after asking for it, stops nobody."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    with served(folder) as (_, path):
        request = (32).to_bytes(3, "little") + b"\1" + (0x0AA00 | 1 << 11).to_bytes(4, "little") + bytes(28)
        for bytes_after in (b"", b"no TLS at all" * 100):
            with socket.socket(socket.AF_UNIX) as broken:
                broken.connect(path)
                broken.recv(1000)
                broken.sendall(request + bytes_after)
                broken.settimeout(10)
                broken.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while broken.recv(1000):
                        pass
        for _ in range(3):
            with contextlib.closing(pymysql.connect(unix_socket=path, user="me", ssl=unchecked)) as client:
                assert isinstance(client._sock, ssl.SSLSocket)
                with client.cursor() as cursor:
                    cursor.execute(f"select count_star from performance_schema.{WAITS} where event_name like '%LOCK'")
                    assert cursor.fetchall() == ((7,),)


def test_sqlalchemy_and_pandas(folder: Path) -> None:
    import pandas as pd

    sqlalchemy = pytest.importorskip("sqlalchemy")
    with served(folder) as (program, path), pfs.attach(str(program.path)) as schema:
        engine = sqlalchemy.create_engine(f"mysql+pymysql://me@localhost/performance_schema?unix_socket={path}")
        try:
            frame = pd.read_sql(f"select EVENT_NAME, COUNT_STAR from {WAITS}", engine)
            wanted = schema.table(WAITS, ["EVENT_NAME", "COUNT_STAR"])
            assert frame.to_dict("list") == wanted.to_dict("list")
            whole = pd.read_sql("setup_consumers", engine)  # by reflection
            assert whole.to_dict("list") == schema.table("setup_consumers").astype({"ENABLED": "string"}).to_dict("list")
            inspector = sqlalchemy.inspect(engine)
            assert set(inspector.get_table_names()) == {*pfs.tables(), *replication.TABLES}
            assert "statement_analysis" in inspector.get_view_names("sys")
            for name in pfs.tables():
                assert [column["name"] for column in inspector.get_columns(name)] == list(schema.table(name).columns)
            assert inspector.get_pk_constraint("setup_actors")["constrained_columns"] == ["HOST", "USER", "ROLE"]
        finally:
            engine.dispose()


def test_snapshot_and_all_processes(folder: Path, tmp_path: Path) -> None:
    with subject(folder) as a, subject(folder) as b:
        for program in (a, b):
            program.do(WORK)
        with pfs.attach(str(a.path)) as schema:
            schema.snapshot(tmp_path / "saved")
        b.kill()
        with serving("--all") as path, connected(path) as client:
            assert ask(client, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(14,)]
            assert {row[0] for row in ask(client, "select PID from threads")} == {a.pid, b.pid}
            assert ask(client, "select count_star, quantile_95 > 0 from events_statements_summary_by_digest") == [(14, 1)]
            assert [row[0] for row in ask(client, "desc threads")][:4] == ["NODE", "PID", "START", "THREAD_ID"]
            assert ask(client, "select VARIABLE_VALUE from global_status where VARIABLE_NAME = 'Queries'") == [("14",)]
    with serving(str(tmp_path / "saved")) as path, connected(path) as client:
        assert ask(client, f"select count_star from {WAITS} where event_name like '%LOCK'") == [(7,)]
        assert code_of(client, f"truncate {WAITS}") == 1142
        assert ask(client, "show status like 'Queries'") == [("Queries", "7")]


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
                              f"show columns from {quoted} from {quoted}", f"select {quoted} from threads"):  # fmt: skip
                assert code_of(client, statement) in (1146, 1049, 1054, 1064), statement
            assert ask(client, f"show tables from {quoted}") == []
        assert ask(client, "show tables like 'x\\'; drop table threads; --'") == []
