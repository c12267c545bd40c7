"""Which dialect the statements of a driver, an engine and an instrument are read by."""

from __future__ import annotations

import sqlite3
import types
from typing import Any

import pytest

import pfs
from pfs._record.dbapi.dialects import dialect_of_connection, dialect_of_engine

NAMES = 'DELETE FROM "a" WHERE b = \'\\\' -- "c"'
STANDARD = "DELETE FROM `a` WHERE `b` = ?"


def digests() -> list[str]:
    return list(pfs.table("events_statements_summary_by_digest")["DIGEST_TEXT"])


@pytest.fixture(autouse=True)
def no_digests() -> None:
    pfs.truncate("events_statements_summary_by_digest")


def test_a_statement_names_its_dialect() -> None:
    for dialect in ("sqlite", "postgresql", "oracle", "tsql", "duckdb", "ansi"):
        with pfs.statement("test/query", text=NAMES, dialect=dialect):
            pass
    assert digests() == [STANDARD]
    with pfs.statement("test/query", text=NAMES):
        pass
    assert digests() == [STANDARD, "DELETE FROM ? WHERE `b` = ?"]


def test_a_dialect_that_is_set_later_and_one_that_there_is_not() -> None:
    query = pfs.statement("test/query", dialect="sqlite")
    for _ in range(3):  # the third text is one that has been seen before
        query.begin(NAMES).end()
        pfs.statement("test/query").begin(NAMES).end()
    assert digests() == [STANDARD, "DELETE FROM ? WHERE `b` = ?"]
    with pytest.raises(pfs.InvalidValue, match="unknown dialect 'SQL Server': legal are sql, mysql"):
        pfs.statement("test/query", dialect="SQL Server")
    with pytest.raises(TypeError, match="a dialect is a str"):
        pfs.statement("test/query", dialect=1)  # type: ignore[arg-type]


def test_sqlite3_is_sqlite() -> None:
    db = pfs.dbapi(sqlite3).connect(":memory:")
    db.execute('CREATE TABLE "order" ("to" TEXT)')
    db.execute('CREATE TABLE "group" ("to" TEXT)')
    for table in ("order", "group"):
        db.execute(f'INSERT INTO "{table}" ("to") VALUES (?)', ("x",))
        for value in ("alpha", "beta"):
            db.execute(rf"""SELECT * FROM "{table}" WHERE "to" LIKE ? ESCAPE '\' AND "to" <> '{value}'""", ("y",)).fetchall()
    assert digests()[2:] == [
        "INSERT INTO `order` ( `to` ) VALUES (?)",
        "SELECT * FROM `order` WHERE `to` LIKE ? ESCAPE ? AND `to` != ?",
        "INSERT INTO `group` ( `to` ) VALUES (?)",
        "SELECT * FROM `group` WHERE `to` LIKE ? ESCAPE ? AND `to` != ?",
    ]
    db.close()


def test_the_caller_names_the_dialect_of_a_driver() -> None:
    db = pfs.dbapi(sqlite3, dialect="mysql").connect(":memory:")
    db.execute('SELECT "a"').fetchall()
    assert digests() == ["SELECT ?"]
    with pytest.raises(pfs.InvalidValue, match="unknown dialect 'db2'"):
        pfs.dbapi(sqlite3, dialect="db2")


@pytest.mark.parametrize(
    ("module", "dialect"),
    [
        ("pymysql.connections", "mysql"),
        ("MySQLdb.connections", "mysql"),
        ("mysql.connector.connection_cext", "mysql"),
        ("psycopg", "postgresql"),
        ("psycopg2.extensions", "postgresql"),
        ("asyncpg.connection", "postgresql"),
        ("oracledb.connection", "oracle"),
        ("_duckdb", "duckdb"),
        ("pyodbc", "tsql"),
        ("pymssql._pymssql", "tsql"),
        ("snowflake.connector", None),
    ],
)
def test_dialects_of_drivers(module: str, dialect: str | None) -> None:
    made: Any = types.new_class("Connection", exec_body=lambda body: body.update(__module__=module))
    own: Any = types.new_class("Own", (made,), exec_body=lambda body: body.update(__module__="myapp"))
    assert dialect_of_connection(made()) == dialect_of_connection(own()) == dialect


def test_dialects_of_engines() -> None:
    names = ("sqlite", "postgresql", "mysql", "mariadb", "mssql", "oracle", "duckdb", "cockroachdb", "firebird")
    expected = ["sqlite", "postgresql", "mysql", "mysql", "tsql", "oracle", "duckdb", "postgresql", None]
    assert [dialect_of_engine(name) for name in names] == expected
