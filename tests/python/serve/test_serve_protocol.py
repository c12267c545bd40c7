"""pfs serve and the bytes of its answers: prepared statements, cursors, parameters, several answers, the state of a session."""

from __future__ import annotations

import datetime
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import astuple
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.python.serve.packets import (
    AUTOCOMMIT,
    BINARY,
    BLOB,
    CHANGE_USER,
    CLOSE,
    CURSOR,
    DATE,
    DATETIME,
    DEPRECATE_EOF,
    DOUBLE,
    END,
    EXECUTE,
    FETCH,
    FLAGS,
    FLOAT,
    IN_TRANS,
    LAST,
    LONG,
    LONG_DATA,
    LONGLONG,
    MORE,
    MULTI_STATEMENTS,
    NEWDECIMAL,
    NULL,
    PREPARE,
    RESET,
    RESET_CONNECTION,
    SET_OPTION,
    SHORT,
    STATISTICS,
    STRING,
    TIME,
    TIMESTAMP,
    TINY,
    UNSIGNED,
    VAR_STRING,
    code_in,
    raw,
)
from tests.python.serve.serving import ask, code_of, connected, pymysql, served, serving

SOURCES = Path(__file__).parents[2] / "programs" / "served"


def test_columns_are_known_when_a_statement_is_prepared(folder: Path) -> None:
    """They have the types and lengths of MySQL, and are the same when it is executed. The end of an answer counts no rows."""
    text = (
        "select t.Thread_id, name, 1.5, now(), curdate(), cast('a' as binary), ?, thread_id = 1, sum(thread_id) over (),"
        " 1e0 from threads t where thread_id >= ? and name like ? order by 1 limit 2"
    )
    wanted = [
        ("Thread_id", 63, 20, LONGLONG, BINARY | UNSIGNED, 0),
        ("name", 45, 65532, VAR_STRING, 0, 0),
        ("1.5", 63, 4, NEWDECIMAL, BINARY, 1),
        ("now()", 63, 19, DATETIME, BINARY, 0),
        ("curdate()", 63, 10, DATE, BINARY, 0),
        ("cast('a' as binary)", 63, 0xFFFFFFFF, BLOB, BINARY | 16, 0),
        ("?", 45, 65532, VAR_STRING, 0, 0),
        ("thread_id = 1", 63, 1, LONGLONG, BINARY, 0),
        ("sum(thread_id) over ()", 63, 41, NEWDECIMAL, BINARY, 0),
        ("1e0", 63, 23, DOUBLE, BINARY, 31),
    ]
    with served(folder) as (_, path), raw(path) as client:
        number, parameters, columns = client.prepare(text)
        assert [astuple(column) for column in columns] == wanted
        assert [column.name for column in parameters] == ["?"] * 3
        client.execute(number, b"\0\1" + bytes([STRING, 0, LONGLONG, 0, STRING, 0]) + b"\1x" + (0).to_bytes(8, "little") + b"\1%")
        executed, rows, end = client.answer()
        assert [astuple(column) for column in executed] == wanted
        assert len(rows) == 1
        assert end == END
        assert code_in(client.do(PREPARE, b"select nothing from threads")) == 1054
        assert code_in(client.do(PREPARE, b"select * from nothing where a = ?")) == 1146
        assert code_in(client.do(PREPARE, b"select 1; select 2")) == 1064
        assert client.prepare("set @a = 1")[2] == []
        assert client.prepare("truncate table threads")[2] == []
        assert [column.name for column in client.prepare("show variables like ?")[2]] == ["Variable_name", "Value"]
        assert len(client.prepare("show create table threads")[2]) == 2


def test_no_other_end_is_agreed(folder: Path) -> None:
    """An answer ends with EOF packets, also for a client that would understand others: the server offers none."""
    with served(folder) as (_, path), raw(path, FLAGS | DEPRECATE_EOF) as client:
        name = client.greeting.index(b"\0", 1)
        low, high = (
            struct.unpack_from("<H", client.greeting, name + 14)[0],
            struct.unpack_from("<H", client.greeting, name + 19)[0],
        )
        assert not (high << 16 | low) & DEPRECATE_EOF
        number, _, _ = client.prepare("select 1 where 1 = ?")
        client.execute(number, b"\0\1" + bytes([LONGLONG, 0]) + (1).to_bytes(8, "little"))
        assert client.answer()[1:] == ([b"\0\0" + (1).to_bytes(8, "little")], END)
        assert client.query("select 1")[1:] == ([b"\x011"], END)


def test_a_cursor_gives_each_row_once(folder: Path) -> None:
    rows = 23
    with served(folder) as (_, path), raw(path) as client:
        number, _, _ = client.prepare(f"select i from range({rows}) as r(i) order by i")
        for size in (1, 2, 7, 22, 23, 24, 1000):
            client.execute(number, cursor=1)
            count = client.read()[0]
            described, end = client.until_end()
            assert (count, len(described), end[3]) == (1, 1, AUTOCOMMIT | CURSOR)
            found: list[int] = []
            status = CURSOR
            while status & CURSOR:
                client.send(FETCH, struct.pack("<II", number, size))
                batch, end = client.until_end()
                assert len(batch) <= size
                found += [int.from_bytes(each[2:], "little") for each in batch]
                status = end[3]
            assert status == AUTOCOMMIT | LAST
            assert found == list(range(rows)), size
            assert code_in(client.do(FETCH, struct.pack("<II", number, 1))) == 1421  # it is closed
        client.execute(number, cursor=1)
        client.read(), client.until_end()
        assert client.do(RESET, struct.pack("<I", number))[0] == 0
        assert code_in(client.do(FETCH, struct.pack("<II", number, 1))) == 1421
        client.send(CLOSE, struct.pack("<I", number))  # has no answer
        for command, rest in ((RESET, b""), (EXECUTE, bytes(5)), (FETCH, bytes(4))):
            assert code_in(client.do(command, struct.pack("<I", number) + rest)) == 1243
        client.execute(client.prepare("select 1")[0], cursor=2)
        assert code_in(client.read()) == 1235


VALUES: tuple[tuple[int, int, bytes, Any], ...] = (
    (TINY, 0, b"\xfb", -5), (TINY, 128, b"\xfb", 251), (SHORT, 0, b"\0\x80", -32768), (SHORT, 128, b"\0\x80", 32768),
    (LONG, 0, b"\xff\xff\xff\xff", -1), (LONG, 128, b"\xff\xff\xff\xff", 2**32 - 1),
    (LONGLONG, 0, b"\xff" * 8, -1), (LONGLONG, 128, b"\xff" * 8, 2**64 - 1),
    (FLOAT, 0, struct.pack("<f", 0.5), 0.5), (DOUBLE, 0, struct.pack("<d", -1e300), -1e300),
    (NEWDECIMAL, 0, b"\5-1.25", Decimal("-1.25")), (STRING, 0, b"\4a'b\\", "a'b\\"),
    (VAR_STRING, 0, "\2é".encode("latin1"), None),
    (BLOB, 0, b"\3a?b", "a?b"), (BLOB, 0, b"\3\xff\0'", b"\xff\0'"),
    (DATE, 0, b"\4\xe8\7\2\x1d", datetime.date(2024, 2, 29)),
    (DATETIME, 0, b"\7\xe8\7\2\x1d\1\2\3", datetime.datetime(2024, 2, 29, 1, 2, 3)),
    (TIMESTAMP, 0, b"\x0b\xe8\7\2\x1d\1\2\3" + struct.pack("<I", 7), datetime.datetime(2024, 2, 29, 1, 2, 3, 7)),
    (DATETIME, 0, b"\4\xe8\7\2\x1d", datetime.datetime(2024, 2, 29)),
    (TIME, 0, b"\x08\0\0\0\0\0\x0a\x0b\x0c", "10:11:12"), (TIME, 0, b"\x08\1\1\0\0\0\1\0\0", "-25:00:00"),
    (NULL, 0, b"", None),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "flag", "value", "wanted"), VALUES, ids=[f"{kind}-{value.hex()}" for kind, _, value, _ in VALUES]
)
def test_each_type_of_a_parameter(address: str, kind: int, flag: int, value: bytes, wanted: Any) -> None:
    """A value arrives as itself, and again when the client does not repeat its type."""
    with raw(address) as client:
        number, _, _ = client.prepare("select ?")
        found = []
        for types in (b"\1" + bytes([kind, flag]), b"\0"):
            client.execute(number, b"\0" + types + value)
            if wanted is None and value:  # no character of utf8mb4, and no more bytes than it says
                assert code_in(client.read()) in (1300, 1835)
                return
            columns, rows, end = client.answer()
            assert end == END
            found.append((columns[0].kind, rows[0]))
        assert found[0] == found[1]
    is_unsigned = bool(columns[0].flags & UNSIGNED)
    assert (int.from_bytes(rows[0][2:], "little") if is_unsigned else read(*found[0])) == wanted


def read(kind: int, row: bytes) -> Any:
    """Returns the value of a row of one column."""
    if row[1] & 4:
        return None
    value = row[2:]
    if kind == LONGLONG:
        return int.from_bytes(value, "little", signed=True)
    if kind == DOUBLE:
        return struct.unpack("<d", value)[0]
    if kind in (DATE, DATETIME):
        year, month, day, hour, minute, second, micro = struct.unpack("<HBBBBBI", value[1:].ljust(11, b"\0"))
        return (
            datetime.date(year, month, day) if kind == DATE else datetime.datetime(year, month, day, hour, minute, second, micro)
        )
    text = value[1:]
    if kind == NEWDECIMAL:
        number = Decimal(text.decode())
        return int(number) if number == number.to_integral_value() else number
    return text if kind == BLOB else text.decode()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from tests.python._programs.subject import subject

    folder = tmp_path_factory.mktemp("protocol")
    with subject(folder) as program, serving(str(program.path), "--socket", str(folder / "s")) as path:
        yield path


def test_parameters_in_parts_and_without_types(address: str) -> None:
    with raw(address) as client:
        number, _, _ = client.prepare("select ?, ?")
        client.execute(number, b"\0\0")
        assert code_in(client.read()) == 1210  # it never said which types they are
        types = b"\0\1" + bytes([BLOB, 0, LONGLONG, 0])
        for part in (b"one ", b"two"):
            client.send(LONG_DATA, struct.pack("<IH", number, 0) + part)
        client.execute(number, types + (5).to_bytes(8, "little"))
        assert client.answer()[1] == [b"\0\0\7one two" + (5).to_bytes(8, "little")]
        client.send(LONG_DATA, struct.pack("<IH", number, 0) + b"forgotten")
        assert client.do(RESET, struct.pack("<I", number)) == b"\0\0\0\2\0\0\0"
        client.execute(number, types + b"\3new" + (5).to_bytes(8, "little"))
        assert client.answer()[1] == [b"\0\0\3new" + (5).to_bytes(8, "little")]
        client.execute(number, b"\0\1" + bytes([DOUBLE, 0, DOUBLE, 0]) + struct.pack("<dd", float("nan"), 1))
        assert code_in(client.read()) == 1064
        client.execute(number, b"\0\1" + bytes([200, 0, DOUBLE, 0]) + struct.pack("<dd", 1, 1))
        assert code_in(client.read()) == 1210
        client.execute(number, b"\0\1" + bytes([DATE, 0, DOUBLE, 0]) + b"\4\0\0\x0d\x2d" + struct.pack("<d", 1))
        assert code_in(client.read()) == 1210
        assert client.query("select 1")[1] == [b"\x011"]


def test_several_statements_have_several_answers(address: str) -> None:
    with raw(address, FLAGS | MULTI_STATEMENTS) as client:
        client.send(3, b"select 1; set @a = 'it''s; me'; select @a, 3 /* ; */;")
        first = client.answer()
        assert (first[1], first[2][3]) == ([b"\x011"], AUTOCOMMIT | MORE)
        assert client.answer()[2] == b"\0\0\0" + bytes([AUTOCOMMIT | MORE, 0, 0, 0])
        assert client.answer()[1:] == ([b"\x08it's; me\x013"], END)
        client.send(3, b"select 1; select nothing from threads; select 3")
        assert client.answer()[2][3] & MORE
        assert code_in(client.read()) == 1054  # and no third answer
        assert client.query("select 4")[1] == [b"\x014"]
        assert client.do(SET_OPTION, b"\1\0") == END
        assert code_in(client.do(3, b"select 1; select 2")) == 1064
        assert client.do(SET_OPTION, b"\0\0") == END
        client.send(3, b"select 1; select 2")
        client.answer()
        assert client.answer()[1] == [b"\x012"]
        assert code_in(client.do(SET_OPTION, b"\2\0")) == 1047
    with raw(address) as client:
        assert code_in(client.do(3, b"select 1; select 2")) == 1064
        assert client.query("select 1;")[1] == [b"\x011"]
        assert client.do(3, b"-- nothing")[:1] == b"\0"  # as in MySQL
        assert code_in(client.do(3, b" ; ")) == 1065


def test_the_state_of_a_session(address: str) -> None:
    """Each answer says whether a transaction is open and whether statements commit themselves, and counts warnings."""
    with raw(address) as client:
        for statement, status in (
            ("begin", IN_TRANS | AUTOCOMMIT), ("set autocommit = 0", IN_TRANS), ("commit", 0),
            ("start transaction read only", IN_TRANS),
            ("savepoint a", IN_TRANS), ("rollback to savepoint a", IN_TRANS), ("release savepoint a", IN_TRANS), ("rollback", 0),
            ("set @@session.autocommit = on", AUTOCOMMIT),
        ):  # fmt: skip
            assert client.query(statement)[2] == b"\0\0\0" + bytes([status, 0, 0, 0]), statement
        assert client.query("begin")[2][3] == IN_TRANS | AUTOCOMMIT
        assert client.query("select 1")[2][3] == IN_TRANS | AUTOCOMMIT
        assert client.do(RESET_CONNECTION) == b"\0\0\0\2\0\0\0"
        assert client.query("set nothing_like_it = 1, version = 'x', sql_safe_updates = on")[2] == b"\0\0\0\2\0\2\0"
        _, rows, end = client.query("show warnings")
        assert [b"1193" in rows[0], b"1238" in rows[1], end] == [True, True, b"\xfe\2\0\2\0"]
        assert client.query("select @@sql_safe_updates")[1:] == ([b"\x011"], END)
        assert client.query("show warnings")[1] == []


def test_another_user_on_the_same_connection(folder: Path, tmp_path: Path) -> None:
    """It begins without what the first one has set. A wrong password ends the connection."""
    MySQLdb = pytest.importorskip("MySQLdb", reason="needs perfschema[databases]")
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    with served(folder) as (program, path), serving(str(program.pid), "--port", "0", "--password-file", str(secret)) as address:
        host, port = address.split(":")
        for place in ({"unix_socket": path}, {"host": host, "port": int(port)}):
            client = MySQLdb.connect(user="me", password="hush", database="performance_schema", charset="utf8mb4", **place)
            client.query("set @a = 1, sql_select_limit = 1")
            client.change_user("you", "hush", "sys")
            cursor = client.cursor()
            cursor.execute("select user(), current_user(), database(), @a, @@sql_select_limit")
            assert cursor.fetchall() == (("you@localhost", "you@localhost", "sys", None, 2**64 - 1),)
            assert re.match(r"Uptime: \d+  Threads: \d+  Questions: 7  Slow queries: 0  Opens: \d+ ", as_text(client.stat()))
            client.close()
        client = MySQLdb.connect(user="me", password="hush", host=host, port=int(port))
        with pytest.raises(MySQLdb.OperationalError, match="1045"):
            client.change_user("you", "wrong", "sys")
        with pytest.raises(MySQLdb.OperationalError):
            client.query("select 1")
        with raw(path) as one:
            number, _, _ = one.prepare("select 1")
            assert one.do(CHANGE_USER, b"you\0\0sys\0\x2d\0mysql_native_password\0") == b"\0\0\0\2\0\0\0"
            one.execute(number)
            assert code_in(one.read()) == 1243
            assert one.query("select database()")[1] == [b"\3sys"]
            assert code_in(one.do(CHANGE_USER, b"you\0\0nowhere\0\x2d\0")) == 1049
            with pytest.raises(ConnectionError):
                one.do(STATISTICS)
        with raw(path) as one:
            assert code_in(one.do(CHANGE_USER, b"no end")) == 1835


def as_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


def test_character_sets_of_answers(address: str) -> None:
    with connected(address) as client:
        for setting in ("set names binary", "set character_set_results = binary", "set character_set_results = NULL"):
            ask(client, setting)
            assert ask(client, "select 'é', 1") == [("é", 1)], setting
            assert ask(client, "select @@character_set_results") == [("binary",)]
        with connected(address, charset="latin1") as western, western.cursor() as cursor:
            cursor.execute(b"select '\xe9 \x80', @@character_set_client")
            assert cursor.fetchall() == (("é €", "latin1"),)
            assert cursor.description[0][0] == "é €"
        ask(client, "set names 'utf8mb4' collate 'utf8mb4_bin'")
        assert ask(client, "select 'é', @@collation_connection") == [("é", "utf8mb4_bin")]
        assert code_of(client, "set names klingon") == 1115
        with pytest.raises(pymysql.MySQLError, match="1064"):
            client.query(b"select '\xff'")
        assert ask(client, "select _binary'\\0a', _utf8mb4'b'") == [(b"\0a", "b")]
        client._execute_command(3, b"select _binary'\xff'")
        client._read_query_result()
        assert client._result.rows == ((b"\xff",),)


TITLES = (
    ("version()", "version()"), ("Count(*)", "Count(*)"), ("max( x )", "max( x )"), ("'it''s'", "it's"), ("x", "x"), ("r.X", "X"),
    ("`x`", "x"), ('"dq"', "dq"), ("'tab\\t'", "tab\t"), ("1+1", "1+1"), ("sum(x)/2", "sum(x)/2"), ("x as `a b`", "a b"),
    ("ifnull(null,1)", "ifnull(null,1)"), ("date_format(now(), '%H:%i')", "date_format(now(), '%H:%i')"),
    ("database()", "database()"),
    ("@@version", "@@version"), ("@@session.autocommit", "@@session.autocommit"), ("@a", "@a"), ("NULL", "NULL"),
    ("true", "true"), ("(select 1)", "(select 1)"), ("case when x=1 then 2 end", "case when x=1 then 2 end"), ("0x41", "0x41"),
    ("now( )", "now( )"),
    ("if(x, 'a', 'b')", "if(x, 'a', 'b')"), ("x /* c */ + 1", "x /* c */ + 1"),
)  # fmt: skip


def test_titles_are_as_typed(address: str) -> None:
    with connected(address) as client, client.cursor() as cursor:

        def titles(statement: str) -> list[str]:
            cursor.execute(statement)
            return [column[0] for column in cursor.description]

        for item, wanted in TITLES:
            grouped = "group by x" if re.search("max|sum|count", item, re.IGNORECASE) else ""
            assert titles(f"select {item} from (select 1 as x) r {grouped}") == [wanted], item
        assert titles("select " + ", ".join(item for item, _ in TITLES[:3]) + " from (select 1 as x)  r group by x") == [
            wanted for _, wanted in TITLES[:3]
        ]
        assert titles("SELECT SQL_NO_CACHE distinct version(), version() from threads union select 1, 2") == [
            "version()",
            "version()",
        ]
        assert titles("(select 1 as a, user()) union all (select 2, 3)") == ["a", "user()"]
        assert titles("with c as (select 1 as y) select Y, y+1 from c where y in (select 1) limit 1") == ["Y", "y+1"]
        assert titles("select name, s.*, name from setup_consumers s limit 1") == ["name", "NAME", "ENABLED", "name"]
        assert titles("select *, 1+1 from setup_consumers") == ["NAME", "ENABLED", "1+1"]
        assert titles("select straight_join thread_id from threads") == ["thread_id"]
        assert titles("select '" + "x" * 300 + "'") == ["x" * 256]
        cursor.execute("select max(thread_id), version() from threads")
        assert cursor.description[1][0] == "version()"


def test_who_and_when(address: str) -> None:
    with connected(address) as client:
        ((user, current, short, plain, day, seconds, utc, later, ago),) = ask(
            client,
            "select user(), current_user(), session_user(), now(), curdate(), timestampdiff(second, now(), utc_timestamp()),"
            " utc_timestamp(), now() + interval 5 minute, date_sub(now(), interval 1 day)",
        )
        assert user == current == short == "me@localhost"
        assert (type(plain), type(utc), type(day)) == (datetime.datetime, datetime.datetime, datetime.date)
        assert (utc.microsecond, utc.tzinfo, seconds) == (0, None, 0)
        assert (later - plain, plain - ago) == (datetime.timedelta(minutes=5), datetime.timedelta(days=1))
        assert abs(datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - utc) < datetime.timedelta(minutes=1)
        ask(client, "set time_zone = '+05:30'")
        assert ask(client, "select timestampdiff(minute, utc_timestamp(), now())") == [(330,)]
        assert code_of(client, "set time_zone = 'Nowhere/At_all'") == 1298
        assert ask(client, "select count(*) from (select now() as a, curtime() as b, current_date as c) t where a > c") == [(1,)]
        ask(client, "select 1 union select 2 union select 3")
        assert ask(client, "select found_rows(), row_count(), last_insert_id()") == [(3, -1, 0)]


def test_variables_have_one_truth(address: str) -> None:
    """What SHOW VARIABLES has, @@ has, and the tables; what they do not have is unknown."""
    with connected(address, autocommit=None) as client:
        shown = dict(ask(client, "show variables"))
        assert dict(ask(client, "select * from session_variables")) == shown
        assert dict(ask(client, "show global variables")) == shown == dict(ask(client, "select * from global_variables"))
        names = ("character_set_server", "max_allowed_packet", "time_zone", "sql_mode", "wait_timeout", "port", "socket",
                 "datadir", "log_bin", "server_uuid", "pid_file", "log_error", "autocommit", "performance_schema")  # fmt: skip
        assert set(names) <= set(shown)
        for name in shown:
            ((value,),) = ask(client, f"select @@{name}")
            is_switch = shown[name] in ("ON", "OFF") and isinstance(value, int)
            text = f"{value:.6f}" if isinstance(value, float) else str(value)
            assert text == (str(int(shown[name] == "ON")) if is_switch else shown[name]), name
        assert ask(client, "select @@socket, @@port, @@log_bin, @@global.datadir") == [
            (address, 0, 0, str(Path(address).parent) + "/")
        ]
        assert code_of(client, "select @@nope") == 1193
        assert code_of(client, "select 1 from threads where name = @@session.nope") == 1193
        ask(client, "set wait_timeout = 7, session sql_mode = 'ANSI', @@session.net_read_timeout = @@wait_timeout, @x = @@port")
        assert ask(client, "select @@wait_timeout, @@sql_mode, @@net_read_timeout, @x, @y") == [(7, "ANSI", 7, 0, None)]
        assert ask(client, "show variables like 'wait_timeout'") == [("wait_timeout", "7")]
        assert ask(client, "select @@global.wait_timeout") == [(28800,)]
        assert ask(client, "show global variables where variable_name = 'wait_timeout'") == [("wait_timeout", "28800")]
        ask(client, "set wait_timeout = default")
        assert ask(client, "select @@wait_timeout") == [(28800,)]
        ask(client, "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='' */")
        assert ask(client, "select @old_sql_mode, @@sql_mode") == [("ANSI", "")]


def test_a_client_may_bound_its_answers(address: str) -> None:
    many = "select * from setup_consumers"
    with connected(address) as client:
        ask(client, "SET SQL_SELECT_LIMIT=2")
        assert len(ask(client, many)) == 2
        assert len(ask(client, f"{many} limit 3")) == 3
        assert len(ask(client, "show variables")) > 50
        ask(client, "SET SQL_SELECT_LIMIT=DEFAULT")
        assert len(ask(client, many)) > 10


def in_c(name: str, folder: Path) -> Path:
    """A program with the C API."""
    config = shutil.which("mariadb_config") or shutil.which("mysql_config")
    if config is None:
        pytest.skip("needs the package libmariadb-dev")
    flags = subprocess.run([config, "--cflags", "--libs"], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-Wall", "-o", folder / name, SOURCES / f"{name}.c", *flags], check=True)
    return folder / name


# By statement: the columns, as db.table(org_table).name(org_name).
FIELDS = {
    "select THREAD_ID, name n, t.name, 1, concat(name) from threads t": "performance_schema.t(threads).THREAD_ID(THREAD_ID) "
    "performance_schema.t(threads).n(NAME) performance_schema.t(threads).name(NAME) .().1() .().concat(name)()",
    "select * from session_variables": "performance_schema.session_variables(session_variables).VARIABLE_NAME(VARIABLE_NAME) "
    "performance_schema.session_variables(session_variables).VARIABLE_VALUE(VARIABLE_VALUE)",
    # The column of USING is that of the first table, and the star shows it once.
    "select g.*, s.variable_value from global_variables g join session_variables s using (variable_name)":
    "performance_schema.g(global_variables).VARIABLE_NAME(VARIABLE_NAME) "
    "performance_schema.g(global_variables).VARIABLE_VALUE(VARIABLE_VALUE) "
    "performance_schema.s(session_variables).variable_value(VARIABLE_VALUE)",
    "select * from global_variables join session_variables using (variable_name)":
    "performance_schema.global_variables(global_variables).VARIABLE_NAME(VARIABLE_NAME) "
    "performance_schema.global_variables(global_variables).VARIABLE_VALUE(VARIABLE_VALUE) "
    "performance_schema.session_variables(session_variables).VARIABLE_VALUE(VARIABLE_VALUE)",
    "select host, u.user from users u, hosts": "performance_schema.hosts(hosts).host(HOST) "
    "performance_schema.u(users).user(USER)",
    "select user, count(*) from users group by user": "performance_schema.users(users).user(USER) .().count(*)()",
    "select @a := user as u, @a from users": ".().u() .().@a()",
    "select d.x, y from (select name as x, 1 as y from threads) d": "performance_schema.d(threads).x(NAME) .d().y(y)",
    "with c (a) as (select user from users) select a from c": "performance_schema.c(users).a(USER)",
    "select user from users union select host from hosts": ".().user()",
    "select d.u from (select user u from users union select host from hosts) d": ".d().u(u)",
    "select schema_name from information_schema.schemata s": "information_schema.s(SCHEMATA).schema_name(SCHEMA_NAME)",
    "select sys_version from sys.version": "sys.version(version).sys_version(sys_version)",
    "select 1 from dual": ".().1()",
}  # fmt: skip


def test_columns_have_the_names_of_their_tables(address: str, tmp_path: Path) -> None:
    done = subprocess.run([in_c("fields", tmp_path), address, *FIELDS], capture_output=True, text=True, timeout=120, check=False)
    assert dict(zip(FIELDS, done.stdout.splitlines(), strict=False)) == FIELDS
    assert done.returncode == 0


def test_origins_of_large_statements_are_bounded() -> None:
    """A query has twice the columns of the one in it; a UNION has many SELECTs."""
    from pfs._export.serve.origins import origins_of
    from pfs._export.serve.statements import statements

    def of(text: str) -> object:
        (statement,) = statements(text)
        return origins_of(statement.tree(), "performance_schema", lambda schema, table: ["A"])

    def doubled(levels: int) -> str:
        more = (f"c{level + 1} as (select x.*, y.* from c{level} x, c{level} y)" for level in range(levels))
        return f"with c0 as (select a from t), {', '.join(more)} select * from c{levels}"

    assert len(of(doubled(10))) == 1024  # type: ignore[arg-type]
    assert of(doubled(40)) is None
    assert of("select a from t" + " union select a from t" * 1000) == [("a", None)]


def test_statements_of_the_c_api(folder: Path, tmp_path: Path) -> None:
    """A program in C reads what it bound before it executed, with a cursor and without: all rows, twice."""
    program = in_c("statement", tmp_path)
    with served(folder) as (_, path), connected(path) as client:
        names = [name for (name,) in ask(client, "select NAME from setup_instruments order by 1")]
        for rows in (0, 1, 10, len(names), len(names) + 1):
            done = subprocess.run(
                [program, path, "select NAME from setup_instruments order by 1", str(rows)],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.stdout.splitlines() == ["NAME 253", *names, *names], rows
            assert done.returncode == 0
        text = "select THREAD_ID, NAME, PROCESSLIST_ID, 1.5, cast('2024-02-29 01:02:03' as datetime), 2.5e0 from threads limit 1"
        done = subprocess.run([program, path, text, "0"], capture_output=True, text=True, timeout=60, check=False)
        titles, first, again = done.stdout.splitlines()
        assert [title.rpartition(" ")[2] for title in titles.split(", ")] == ["8", "253", "8", "246", "12", "5"]
        assert first == again
        number, name, nothing, exact, moment, about = first.split("\t")
        assert (int(number), nothing, exact, float(about)) == (1, "NULL", "1.5", 2.5)
        assert name.startswith("thread/python/")
        assert moment.startswith("2024-02-29 01:02:03")


def test_a_table_can_be_dumped(folder: Path) -> None:
    """mariadb-dump asks for answers in bytes, and for the variables of its session in comments that are executed."""
    tool = shutil.which("mariadb-dump")
    if tool is None:
        pytest.skip("needs mariadb-dump: package mariadb-client-core")
    with served(folder) as (_, path):
        done = subprocess.run(
            [tool, "--no-defaults", "-S", path, "-u", "me", "--skip-lock-tables", "performance_schema", "setup_consumers"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "('global_instrumentation','YES')" in done.stdout, done.stderr
        assert done.returncode == 0
