"""pfs serve: clients of MySQL read the tables and views, with the types, errors and changes that MySQL has."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

import pfs
from pfs._export.serve import replication
from tests.python._programs.subject import subject, until
from tests.python.serve.serving import WAITS, WORK, ask, code_of, connected, pymysql, served, serving


def test_tables_and_views_as_they_are(folder: Path) -> None:
    """All tables and views answer. Values and NULLs are those of pfs.attach."""
    with served(folder) as (program, path), connected(path) as client, pfs.attach(str(program.path)) as schema:
        for name in schema.tables():
            with client.cursor() as cursor:
                cursor.execute(f"select * from `{name}` limit 3")
                assert [column[0] for column in cursor.description] == list(schema.table(name).columns), name

        def rows(name: str) -> list[tuple[object, ...]]:
            frame = schema.table(name).astype(object)
            return [tuple(row) for row in frame.where(frame.notna(), None).itertuples(index=False, name=None)]

        for name in ("threads", WAITS, "setup_consumers", "events_waits_history", "events_statements_summary_by_digest"):
            before, found, after = rows(name), ask(client, f"select * from performance_schema.{name}"), rows(name)
            assert found in (before, after), name  # PROCESSLIST_TIME is in seconds
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
            ("show tables like 'thr%'", ["Tables_in_performance_schema (thr%)"], 2),
            ("show full tables like 'thr%'", ["Tables_in_performance_schema (thr%)", "Table_type"], 2),
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


def test_the_processlist_of_a_program_that_hangs(folder: Path) -> None:
    """State says which lock a thread waits for and who holds it, Time for how long."""
    with served(folder) as (program, path), connected(path) as client:
        program.do("import threading\nhung = pfs.Lock('app/HUNG')\nhung.acquire()")
        program.do("threading.Thread(target=hung.acquire, daemon=True).start()")

        def waits() -> list[tuple[object, ...]]:
            return [row for row in ask(client, "show processlist") if "held by" in str(row[6]) and row[5] >= 1]

        (row,) = until(waits)
        assert ask(client, "select THREAD_ID from blocked") == [(row[0],)]
        assert row[6] == "wait/synch/mutex/app/HUNG held by 1"  # the first thread
        same = "select ID, STATE from information_schema.processlist where STATE like '% held by %' and TIME >= 1"
        assert ask(client, same) == [(row[0], row[6])]


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
            ("create table x (a int)", 1142), ("lock tables threads write", 1142),
            ("update setup_actors set enabled = 'NO'", 1142),
            ("truncate table file_instances", 1142), ("use mysql", 1049), ("call sys.ps_setup_save(1)", 1305),
            ("select * from read_csv('/etc/passwd')", 1064), ("select * from '/etc/passwd'", 1146),
            ("copy threads to '/tmp/x'", 1142), ("select pg_sleep(2)", 1142), ("select `sleep_ms` /* ( */ (2)", 1142),
            ("select * from (select 'x' as b, `sleep_ms`(2) as a) t pivot (count(*) for b in ('x'))", 1142),
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
                assert code_of(other, f"select * from query('select * from {place}')") == 1142
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


def test_samples_kept_and_those_that_come_meanwhile(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "app.ash"
    with subject(folder) as program:
        program.do("import threading\ncond = pfs.Condition(name='app/COND')\ndef wait():\n    with cond: cond.wait(60)\n")
        program.do("threading.Thread(target=wait, daemon=True).start()")
        with pfs.record(program.path, kept, hz=100):
            until(lambda: len(pfs.samples(kept)))
            with serving(str(kept), "--socket", str(tmp_path / "s")) as path, connected(path) as client:
                count = "select count(*) from active_session_history where EVENT_NAME like '%app/COND'"
                [(before,)] = ask(client, count)
                until(lambda: ask(client, count)[0][0] > before > 0)
                assert {"active_session_history", "active_session_totals"} <= {name for (name,) in ask(client, "show tables")}
                assert [row[:2] for row in ask(client, "desc active_session_totals")] == [
                    ("NODE", "varchar(64)"), ("PID", "bigint unsigned"), ("SAMPLE_TIME", "timestamp(6)"),
                    ("EVENT_NAME", "varchar(128)"), ("COUNT_STAR", "bigint unsigned"), ("SUM_TIMER_WAIT", "bigint unsigned"),
                ]  # fmt: skip
                assert [row[0] for row in ask(client, "desc active_session_history")] == [*pfs.samples(kept)]
                assert ask(client, "select distinct PID from sys.ash_threads") in ([], [(program.pid,)])
                views = [name for (name,) in ask(client, "select table_name from information_schema.views")]
                assert "ash_load" in views
                assert "statement_analysis" not in views  # it needs tables of a process
                assert [row[0] for row in ask(client, "desc sys.ash_load")] == ["BEGIN_TIME", "WAIT_CLASS", "AAS"]
                assert "active_session_history" in ask(client, "show create view sys.ash_load")[0][1]
                assert ask(client, "show processlist") == []
                assert code_of(client, "select * from threads") == 1146


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
