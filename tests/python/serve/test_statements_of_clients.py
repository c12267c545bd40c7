"""pfs serve answers the statements that tools for MySQL send: tests/golden/statements_of_clients.toml has them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python._programs.subject import subject

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pymysql = pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from tests.python.serve.serving import connected, serving  # noqa: E402

STATEMENTS = tomllib.loads((Path(__file__).parents[2] / "golden" / "statements_of_clients.toml").read_text())["statement"]
CLIENTS = ("Workbench", "Alloy", "DBeaver")
WORK = """
import sqlite3
lock, db = pfs.Lock("app/LOCK"), pfs.dbapi(sqlite3).connect(":memory:")
with lock, pfs.open(os.devnull, "w", name="app/data") as file: file.write("x")
with pfs.statement("app/query", "SELECT 1"): pass
db.execute("select 'in a schema'").fetchall()
try: db.execute("select nothing")
except sqlite3.Error: pass
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("clients")
    with subject(folder) as program:
        program.do(WORK)
        with serving(str(program.path), "--socket", str(folder / "s")) as path:
            yield path


def problem(client: Any, statement: dict[str, Any]) -> str | None:
    """Returns what is wrong with the answer."""
    wanted = statement.get("error")
    with client.cursor() as cursor:
        try:
            cursor.execute(statement["sql"])
        except pymysql.MySQLError as error:
            return None if error.args[0] == wanted else f"error {error.args}"
        if wanted is not None:
            return f"no error {wanted}"
        titles = [column[0] for column in cursor.description or ()]
        rows = list(cursor.fetchall())
    columns = statement.get("columns", 0)
    if not (titles == columns or len(titles) == columns or (columns == "some" and titles)):
        return f"columns are {titles}"
    count = statement.get("rows")
    if count is not None and not (len(rows) == count or (count == "some" and rows)):
        return f"{len(rows)} rows"
    cells = {str(cell) for row in rows for cell in row}
    missing = [text for text in statement.get("has", ()) if text not in cells]
    return f"no {missing} in {rows[:9]}" if missing else None


@pytest.mark.parametrize("name", CLIENTS)
def test_statements_of_a_client(address: str, name: str) -> None:
    with connected(address, None) as client:
        chosen = [statement for statement in STATEMENTS if statement["client"] == name]
        found = [(problem(client, each), each["sql"]) for each in chosen]
    assert len(found) > 20
    wrong = [f"{text}: {sql}" for text, sql in found if text is not None]
    assert not wrong, "\n".join(wrong)


CATALOGS = [
    (
        """SELECT COLUMN_NAME, CASE DATA_TYPE WHEN 'bigint' THEN @kind:=(-5) WHEN 'double'
        THEN @kind:=IF(NUMERIC_SCALE IS NULL, 8, 3) ELSE @kind:=(-9) END AS KIND,
        IF(CHARACTER_OCTET_LENGTH IS NULL, @size:=8, @size:=CHARACTER_OCTET_LENGTH) AS SIZE,
        @all:=CAST(CASE @kind WHEN (-5) THEN 20 ELSE @size END AS SIGNED) AS BYTES, @all + @kind AS BOTH_
        FROM information_schema.columns WHERE TABLE_NAME = 'THREADS' AND COLUMN_NAME IN ('THREAD_ID', 'NAME') ORDER BY 1 DESC""",
        [("THREAD_ID", -5, 8, 20, 15), ("NAME", -9, 512, 512, 503)],
    ),
    (
        "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE COLUMN_KEY = 'pri' AND TABLE_NAME = 'threads'",
        [("THREAD_ID",)],
    ),
]


@pytest.mark.parametrize(("sql", "rows"), CATALOGS)
def test_catalogs_of_odbc(address: str, sql: str, rows: list[tuple[object, ...]]) -> None:
    """Branches set variables that the same row reads; texts of information_schema are equal in any case."""
    with connected(address, None) as client, client.cursor() as cursor:
        cursor.execute(sql)
        assert list(cursor.fetchall()) == rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT @row:=@row + 1, NAME FROM threads",
        "SELECT CASE NAME WHEN 'a' THEN @b:=1 END, @b FROM threads",
        "SELECT @a:=concat(NAME, NAME), " + ", ".join(["@a:=concat(@a, @a)"] * 20) + " FROM threads",
    ],
)
def test_a_variable_of_another_row_is_refused(address: str, sql: str) -> None:
    with connected(address, None) as client:
        assert problem(client, {"sql": sql, "error": 1064}) is None


def test_the_file_is_whole() -> None:
    """Each statement has an answer or an error with its reason; no statement is there twice for a client."""
    known = {"client", "for", "sql", "columns", "rows", "has", "error", "reason"}
    for each in STATEMENTS:
        assert set(each) <= known, each
        assert each["client"] in CLIENTS
        assert ("error" in each) == ("reason" in each), each
        assert not {"error", "columns"} <= set(each), each
    pairs = [(each["client"], each["sql"]) for each in STATEMENTS]
    assert len(set(pairs)) == len(pairs)


def test_a_wrong_answer_is_seen(address: str) -> None:
    """The comparison can fail."""
    with connected(address, None) as client:
        assert problem(client, {"sql": "SELECT 1", "columns": 2})
        assert problem(client, {"sql": "SELECT 1", "columns": 1, "rows": 2})
        assert problem(client, {"sql": "SELECT 1", "columns": 1, "has": ["2"]})
        assert problem(client, {"sql": "SELECT 1", "error": 1146})
        assert problem(client, {"sql": "SELECT * FROM nothing.at_all", "error": 1064})


# Titles as MySQL 8.4 has them: a tool may read columns by name, also of what a program has none of.
SETS = ["character_set_client", "collation_connection", "Database Collation"]
ROUTINE = ["Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment", *SETS]
EMPTY: dict[str, list[str]] = {
    "show triggers": ["Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer", *SETS],
    "show procedure status": ROUTINE,
    "show function status where Db = 'sys'": ROUTINE,
    "show engine performance_schema status": ["Type", "Name", "Status"],
    "show slave hosts": ["Server_id", "Host", "Port", "Master_id", "Slave_UUID"],
    "help 'nothing'": ["name", "is_it_category"],
    "show profiles": ["Query_ID", "Duration", "Query"],
    "select * from information_schema.user_privileges": ["GRANTEE", "TABLE_CATALOG", "PRIVILEGE_TYPE", "IS_GRANTABLE"],
    "select trx_id, trx_state from information_schema.innodb_trx": ["trx_id", "trx_state"],
    "select name, count from information_schema.innodb_metrics where status = 'enabled'": ["name", "count"],
    "select grantee from information_schema.table_privileges where table_name = 'threads'": ["grantee"],
}


def test_what_a_program_has_none_of_is_empty(address: str) -> None:
    with connected(address, "performance_schema") as client, client.cursor() as cursor:
        for statement, titles in EMPTY.items():
            cursor.execute(statement)
            assert ([column[0] for column in cursor.description], list(cursor.fetchall())) == (titles, []), statement
        cursor.execute("show events")
        assert [column[0] for column in cursor.description][3:8] == [
            "Time zone", "Type", "Execute at", "Interval value", "Interval field",
        ]  # fmt: skip
        cursor.execute("show create database performance_schema")
        ((name, text),) = cursor.fetchall()
        assert (name, text.startswith("CREATE DATABASE `performance_schema` ")) == ("performance_schema", True)
        cursor.execute("start transaction with consistent snapshot")
        assert cursor.description is None
        for statement in ("lock tables threads write", "repair table threads", "optimize table threads"):
            with pytest.raises(pymysql.MySQLError, match="command denied") as refused:
                cursor.execute(statement)
            assert refused.value.args[0] == 1142


def test_a_list_of_modes_is_extended(address: str) -> None:
    """Connector/J does so when it connects."""
    with connected(address, None) as client, client.cursor() as cursor:
        cursor.execute("set sql_mode = 'ANSI'")
        assert cursor.execute("set autocommit=1, sql_mode = concat(@@sql_mode, ',STRICT_TRANS_TABLES')") == 0
        cursor.execute("show warnings")
        assert cursor.fetchall() == ()
        cursor.execute('select @@sql_mode, 1 as "a name"')
        assert cursor.fetchall() == (("ANSI,STRICT_TRANS_TABLES", 1),)
