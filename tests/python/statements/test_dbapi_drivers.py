"""pfs.dbapi on the drivers people use: the transactions that it shows are those that the database had.

MariaDB keeps events_transactions_history_long of its own, PostgreSQL counts commits and rollbacks: they are the judges."""

from __future__ import annotations

import copy
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import pfs
from tests.each import for_each
from tests.python import servers

COLUMNS = ("STATE", "NUMBER_OF_SAVEPOINTS", "NUMBER_OF_ROLLBACK_TO_SAVEPOINT", "NUMBER_OF_RELEASE_SAVEPOINT")
Step = str | Callable[[Any], Any]


class Seen:
    """The transactions of this process from now on. An EVENT_ID is one of its thread: other tests had threads of their own."""

    def __init__(self) -> None:
        frame = pfs.table("events_transactions_history_long", ["THREAD_ID", "EVENT_ID"])
        self.before = frozenset(frame.itertuples(index=False, name=None))

    def rows(self) -> list[tuple[Any, ...]]:
        frame = pfs.table("events_transactions_history_long").sort_values("TIMER_START")
        is_new = [event not in self.before for event in zip(frame["THREAD_ID"], frame["EVENT_ID"], strict=True)]
        return [tuple(row) for row in frame.loc[is_new, list(COLUMNS)].itertuples(index=False)]

    def states(self) -> list[str]:
        return [row[0] for row in self.rows()]


def do(db: Any, steps: list[Step]) -> None:
    """Runs texts and calls. Errors of the database are part of it."""
    cursor = db.cursor()
    for step in steps:
        with suppress(db.Error):
            if callable(step):
                step(db)
            else:
                cursor.execute(step)
                if cursor.description is not None:
                    cursor.fetchall()
    with suppress(db.Error):  # the connection may be closed
        cursor.close()


def commit(db: Any) -> None:
    db.commit()


def rollback(db: Any) -> None:
    db.rollback()


def autocommit_on(db: Any) -> None:
    db.autocommit(True)


def many(db: Any) -> None:
    db.cursor().executemany("INSERT INTO t VALUES (%s, 0)", [(i,) for i in range(100, 110)])


# ---- MySQL and MariaDB -------------------------------------------------------------------------------------------------------

MARIADB: dict[str, list[Step]] = {
    "two": ["INSERT INTO t VALUES (1, 0)", "UPDATE t SET b = 1", commit, "DELETE FROM t WHERE a = 1", rollback],
    "read": ["SELECT * FROM t", "SELECT 1", commit, "SELECT 1", commit, "SELECT * FROM t", rollback],
    "of the schema": ["SELECT count(*) FROM information_schema.tables", commit, "SHOW TABLES", "SET @a = 1", commit],
    "by text": ["BEGIN", "INSERT INTO t VALUES (2, 0)", "COMMIT", "START TRANSACTION READ ONLY", "SELECT * FROM t", "ROLLBACK"],
    "nothing in it": ["BEGIN", "COMMIT", "START TRANSACTION", rollback, commit, rollback],
    "begin in one": ["INSERT INTO t VALUES (3, 0)", "BEGIN", "INSERT INTO t VALUES (4, 0)", "BEGIN", rollback],
    "savepoints": ["DELETE FROM t", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE SAVEPOINT s", "ROLLBACK WORK TO s", commit],
    "chain": ["DELETE FROM t", "COMMIT AND CHAIN", "DELETE FROM t", "ROLLBACK AND CHAIN", "SELECT * FROM t", commit],
    "commits implicitly": ["INSERT INTO t VALUES (7, 0)", "CREATE TABLE u (a INT)", "DELETE FROM t", "DROP TABLE u", rollback],
    "commits implicitly and fails": ["INSERT INTO t VALUES (8, 0)", "CREATE TABLE t (a INT)", "DELETE FROM t", rollback],
    "temporary tables do not": ["DELETE FROM t", "CREATE TEMPORARY TABLE x (a INT)", "DROP TEMPORARY TABLE x", rollback],
    "error of a row": ["INSERT INTO t VALUES (9, 0)", commit, "INSERT INTO t VALUES (9, 0)", rollback],
    "error before any table": ["SELECT * FROM nowhere", "SELEC", commit, "DELETE FROM t", "SELECT * FROM nowhere", commit],
    "autocommit by method": ["DELETE FROM t", autocommit_on, "DELETE FROM t", "BEGIN", "DELETE FROM t", rollback],
    "autocommit by text": ["DELETE FROM t", "SET autocommit = 1", "DELETE FROM t", "SET autocommit = 0", "DELETE FROM t", commit],
    "method begin": [lambda db: db.begin(), "DELETE FROM t", lambda db: db.begin(), commit],
    "many": [many, commit, many, rollback],
    "closed": ["DELETE FROM t"],
    "closed by with": ["DELETE FROM t", lambda db: db.__exit__(None, None, None)],
}  # fmt: skip


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: pip install '.[databases]'")
    with servers.mariadb() as socket:
        yield socket


def servers_own(socket: str, connection: int) -> list[tuple[Any, ...]]:
    """What MariaDB says of the transactions of a connection that were no single statements."""
    import pymysql

    db = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
    cursor = db.cursor()
    for _ in range(500):  # until the connection is closed there, too
        if not cursor.execute("SELECT 1 FROM information_schema.processlist WHERE id = %s", (connection,)):
            break
        time.sleep(0.01)
    # A thread of a connection that is gone is not in `threads` any more.
    table = "performance_schema.events_transactions_history_long"
    cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM {table} WHERE autocommit = 'NO' ORDER BY thread_id, event_id")
    rows = list(cursor.fetchall())
    cursor.execute(f"TRUNCATE {table}")
    db.close()
    return rows


@pytest.mark.parametrize("module", ["pymysql", "MySQLdb"])
@for_each("name", MARIADB)
def test_transactions_are_those_of_mariadb(mariadb: str, module: str, name: str) -> None:
    driver = pytest.importorskip(module, reason=f"{module} is not installed: pip install '.[databases]'")
    setup = driver.connect(unix_socket=mariadb, user="root", database="shop", autocommit=True)
    setup.cursor().execute("DROP TABLE IF EXISTS u")
    setup.cursor().execute("CREATE OR REPLACE TABLE t (a INT PRIMARY KEY, b INT) ENGINE = InnoDB")
    setup.cursor().execute("INSERT INTO t VALUES (50, 1)")
    number = setup.thread_id()
    setup.close()
    servers_own(mariadb, number)  # and forgets them
    seen = Seen()
    db = pfs.dbapi(driver).connect(unix_socket=mariadb, user="root", database="shop")
    number = db.thread_id()
    try:
        do(db, MARIADB[name])
    finally:
        with suppress(driver.Error):
            db.close()
    assert seen.rows() == servers_own(mariadb, number)
    assert (pfs.table("events_transactions_current")["STATE"] != "ACTIVE").all()


@pytest.mark.parametrize("module", ["pymysql", "MySQLdb"])
def test_statements_of_mysql_drivers_count_their_rows(mariadb: str, module: str) -> None:
    driver = pytest.importorskip(module, reason=f"{module} is not installed: pip install '.[databases]'")
    db = pfs.dbapi(driver, schema=f"rows of {module}").connect(unix_socket=mariadb, user="root", database="shop")
    cursor = db.cursor()
    cursor.execute("CREATE OR REPLACE TABLE r (a INT)")
    cursor.executemany("INSERT INTO r VALUES (%s)", [(1,), (2,), (3,)])
    cursor.execute("SELECT a FROM r ORDER BY a")
    assert [row for (row,) in cursor] == [1, 2, 3]
    cursor.execute("INSERT INTO r VALUES (4), (5) RETURNING a")
    assert len(cursor.fetchall()) == 2
    db.close()
    frame = pfs.table("events_statements_history_long").sort_values("EVENT_ID")
    frame = frame[frame["CURRENT_SCHEMA"] == f"rows of {module}"]
    assert frame["ROWS_SENT"].tolist() == [0, 0, 3, 2]
    assert frame["ROWS_AFFECTED"].tolist() == [0, 3, 0, 2]


# ---- PostgreSQL --------------------------------------------------------------------------------------------------------------


def fail(db: Any) -> None:
    db.cursor().execute("SELECT 1 / 0")


def block(db: Any) -> None:
    with db.transaction():
        db.execute("DELETE FROM t")
        with db.transaction():
            db.execute("DELETE FROM t")
        with suppress(ZeroDivisionError), db.transaction():
            raise ZeroDivisionError


def block_that_fails(db: Any) -> None:
    with suppress(ZeroDivisionError), db.transaction():
        db.execute("DELETE FROM t")
        raise ZeroDivisionError


def autocommit(db: Any) -> None:
    db.autocommit = True


def two_phases(db: Any) -> None:
    db.tpc_begin("pfs")
    db.cursor().execute("DELETE FROM t")
    db.tpc_commit()


POSTGRES: dict[str, tuple[list[Step], list[tuple[Any, ...]]]] = {
    "two": (["INSERT INTO t VALUES (1, 0)", "SELECT 1", commit, "DELETE FROM t", rollback], [("C", 0, 0, 0), ("R", 0, 0, 0)]),
    "read": (["SELECT 1", commit, commit, rollback, "SELECT * FROM t", rollback], [("C", 0, 0, 0), ("R", 0, 0, 0)]),
    "begin in one": (["INSERT INTO t VALUES (3, 0)", "BEGIN", "DELETE FROM t", "END"], [("C", 0, 0, 0)]),
    "savepoints": (["DELETE FROM t", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "ABORT"], [("R", 1, 1, 1)]),
    "chain": (["DELETE FROM t", "COMMIT AND CHAIN", "DELETE FROM t", rollback], [("C", 0, 0, 0), ("R", 0, 0, 0)]),
    "failed, and commit()": ([fail, "SELECT 1", commit, "SELECT 1", commit], [("R", 0, 0, 0), ("C", 0, 0, 0)]),
    "failed, and COMMIT": (["SELECT 1", fail, "COMMIT"], [("R", 0, 0, 0)]),
    "failed, and back to a savepoint": (["SAVEPOINT s", fail, "ROLLBACK TO SAVEPOINT s", commit], [("C", 1, 1, 0)]),
    "DDL is no commit": (["DELETE FROM t", "CREATE TABLE u (a INT)", rollback], [("R", 0, 0, 0)]),
    "constraint at commit": (["INSERT INTO d VALUES (1), (1)", commit, "SELECT 1", commit], [("R", 0, 0, 0), ("C", 0, 0, 0)]),
    "autocommit": ([autocommit, "BEGIN", "DELETE FROM t", "COMMIT", "BEGIN", rollback], [("C", 0, 0, 0), ("R", 0, 0, 0)]),
    "closed": (["DELETE FROM t"], [("R", 0, 0, 0)]),
    "left by with": (["DELETE FROM t", lambda db: db.__exit__(None, None, None)], [("C", 0, 0, 0)]),
    "failed, and left by with": ([fail, lambda db: db.__exit__(None, None, None)], [("R", 0, 0, 0)]),
}  # fmt: skip
PSYCOPG: dict[str, tuple[list[Step], list[tuple[Any, ...]]]] = {
    "block": ([autocommit, block, block, block_that_fails], [("C", 2, 1, 2), ("C", 2, 1, 2), ("R", 0, 0, 0)]),
    "block in one": (["SELECT 1", block_that_fails, commit], [("C", 1, 1, 1)]),
    "two phases": ([two_phases], [("C", 0, 0, 0)]),
}


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[databases]'")
    with servers.postgresql() as given:
        yield given


def counted(given: str) -> tuple[int, int]:
    """Commits and rollbacks of database shop, when nobody is there any more."""
    import psycopg

    with psycopg.connect(f"{given} dbname=postgres", autocommit=True) as db:
        for _ in range(500):
            if not db.execute("SELECT 1 FROM pg_stat_activity WHERE datname = 'shop'").fetchall():
                break
            time.sleep(0.01)
        row = db.execute("SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = 'shop'").fetchone()
        assert row is not None
        return row[0], row[1]


@pytest.mark.parametrize("module", ["psycopg", "psycopg2"])
@for_each("name", POSTGRES | PSYCOPG)
def test_transactions_are_those_of_postgresql(postgresql: str, module: str, name: str) -> None:
    if name in PSYCOPG and module != "psycopg":
        return
    driver = pytest.importorskip(module, reason=f"{module} is not installed: pip install '.[databases]'")
    where = f"{postgresql} dbname=shop"
    db = driver.connect(f"{where} options='-c lock_timeout=10s'")
    db.cursor().execute("DROP TABLE IF EXISTS t, u, d")
    db.cursor().execute("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    db.cursor().execute("CREATE TABLE d (a INT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    db.commit()
    db.close()
    before = counted(postgresql)
    driver.connect(where).close()
    empty = tuple(b - a for a, b in zip(before, counted(postgresql), strict=True))
    before = counted(postgresql)
    seen = Seen()
    steps, expected = (POSTGRES | PSYCOPG)[name]
    db = pfs.dbapi(driver).connect(where)
    try:
        do(db, steps)
    finally:
        db.close()
    after = counted(postgresql)
    assert seen.rows() == [({"C": "COMMITTED", "R": "ROLLED BACK"}[state], *rest) for state, *rest in expected]
    if name != "two phases":  # counted when it is prepared, and COMMIT PREPARED once more
        states = seen.states()
        shown = (states.count("COMMITTED"), states.count("ROLLED BACK"))
        assert shown == tuple(b - a - c for a, b, c in zip(before, after, empty, strict=True))


def test_rows_that_postgresql_returns(postgresql: str) -> None:
    import psycopg

    db = pfs.dbapi(psycopg, schema="rows of psycopg").connect(f"{postgresql} dbname=shop")
    db.execute("CREATE TEMPORARY TABLE r (a INT)")
    assert len(db.execute("INSERT INTO r VALUES (1), (2) RETURNING a").fetchall()) == 2
    assert [row for (row,) in db.execute("SELECT a FROM r ORDER BY a")] == [1, 2]
    db.close()
    frame = pfs.table("events_statements_history_long").sort_values("EVENT_ID")
    frame = frame[frame["CURRENT_SCHEMA"] == "rows of psycopg"]
    assert frame["ROWS_SENT"].tolist() == [0, 2, 2]
    assert frame["ROWS_AFFECTED"].tolist() == [0, 2, 0]


# ---- Drivers without a server ------------------------------------------------------------------------------------------------


def test_transactions_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install '.[databases]'")
    seen = Seen()
    db = pfs.dbapi(duckdb, schema="duck").connect()
    db.execute("CREATE TEMPORARY TABLE t (a INT)")  # there for this connection only: it executes itself
    db.executemany("INSERT INTO t VALUES (?)", [[1], [2]])
    assert db.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (2,)]
    assert seen.rows() == []
    db.begin()
    db.execute("DELETE FROM t")
    db.rollback()
    db.execute("BEGIN TRANSACTION")
    db.execute("DELETE FROM t WHERE a = 1")
    db.execute("COMMIT")
    assert db.execute("SELECT a FROM t").fetchone() == (2,)
    db.begin()
    with pytest.raises(duckdb.Error):
        db.execute("SELECT * FROM nowhere")
    db.rollback()
    other = db.cursor()  # another connection
    db.begin()
    other.execute("SELECT 1").fetchall()
    db.execute("SELECT 1").fetchall()
    db.commit()
    with suppress(duckdb.Error):  # some versions refuse it
        db.commit()
    db.begin()
    db.close()
    assert seen.states() == ["ROLLED BACK", "COMMITTED", "ROLLED BACK", "COMMITTED", "ROLLED BACK"]
    frame = pfs.table("events_statements_history_long")
    frame = frame[frame["CURRENT_SCHEMA"] == "duck"].sort_values("EVENT_ID")
    selects = frame[frame["EVENT_NAME"] == "statement/sql/select"]
    assert selects["ROWS_SENT"].tolist() == [2, 1, 0, 1, 1]


class Oracle:
    """As much of a connection of oracledb as the transactions need: there is no server to connect to."""

    def __init__(self) -> None:
        self.transaction_in_progress = False

    def cursor(self) -> Any:
        connection = self

        class Cursor:
            description, rowcount = None, 1

            def execute(self, sql: str) -> None:
                connection.transaction_in_progress = sql.startswith("INSERT")

        return Cursor()

    def commit(self) -> None:
        self.transaction_in_progress = False

    def rollback(self) -> None:
        self.transaction_in_progress = False

    def close(self) -> None:
        pass


def test_transactions_of_oracledb() -> None:
    oracledb = pytest.importorskip("oracledb", reason="oracledb is not installed: pip install '.[databases]'")
    assert isinstance(oracledb.Connection.transaction_in_progress, property)
    seen = Seen()
    db = pfs.dbapi(Oracle())
    cursor = db.cursor()
    cursor.execute("SELECT 1 FROM dual")
    db.commit()
    cursor.execute("INSERT INTO t VALUES (1)")
    db.rollback()
    cursor.execute("INSERT INTO t VALUES (1)")
    cursor.execute("CREATE TABLE u (a INT)")  # commits
    assert seen.states() == ["ROLLED BACK", "COMMITTED"]


# ---- sqlite3 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "autocommit"), reason="sqlite3 has autocommit from Python 3.12 on")
def test_transactions_of_sqlite3_with_autocommit() -> None:
    seen = Seen()
    db = pfs.dbapi(sqlite3).connect(":memory:", autocommit=False)  # type: ignore[call-arg,unused-ignore]
    db.execute("CREATE TABLE t (a)")
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
    assert seen.states() == ["COMMITTED"]
    db.commit()  # a transaction of nobody
    db.execute("DELETE FROM t")
    db.rollback()
    assert seen.states() == ["COMMITTED", "ROLLED BACK"]
    with db:
        db.execute("DELETE FROM t")
    db.execute("INSERT INTO t VALUES (2)")
    db.autocommit = True
    assert seen.states()[2:] == ["COMMITTED", "COMMITTED"]
    db.execute("INSERT INTO t VALUES (3)")
    db.commit()
    assert len(seen.rows()) == 4
    db.execute("BEGIN")
    db.commit()  # does nothing
    assert db.in_transaction
    assert len(seen.rows()) == 4
    with db:
        pass
    assert len(seen.rows()) == 4
    db.execute("ROLLBACK")
    db.autocommit = False
    db.execute("DELETE FROM t")
    db.close()
    assert seen.states()[4:] == ["ROLLED BACK", "ROLLED BACK"]


def test_transactions_of_sqlite3_that_no_commit_ends() -> None:
    seen = Seen()
    db = pfs.dbapi(sqlite3).connect(":memory:")
    db.execute("CREATE TABLE t (a UNIQUE)")
    db.execute("INSERT INTO t VALUES (1)")
    db.executescript("BEGIN; INSERT INTO t VALUES (2)")  # commits, and begins another one
    assert seen.states() == ["COMMITTED"]
    db.isolation_level = None  # commits
    assert seen.states() == ["COMMITTED"] * 2
    assert not db.in_transaction
    db.execute("SAVEPOINT s")
    db.execute("RELEASE s")
    assert seen.rows()[2:] == [("COMMITTED", 1, 0, 1)]
    db.execute("BEGIN")
    with suppress(sqlite3.IntegrityError):
        db.execute("INSERT OR ROLLBACK INTO t VALUES (1)")
    assert seen.states()[3:] == ["ROLLED BACK"]
    db.close()


def test_sqlite3_gets_the_plain_object_where_it_wants_its_own() -> None:
    db, copied = pfs.dbapi(sqlite3).connect(":memory:"), pfs.dbapi(sqlite3).connect(":memory:")
    db.execute("CREATE TABLE t (a)")
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
    db.backup(copied)
    assert copied.execute("SELECT a FROM t").fetchall() == [(1,)]
    plain = sqlite3.connect(":memory:")
    db.backup(target=plain, pages=1)
    assert plain.execute("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(TypeError):
        sqlite3.Cursor(db)
    cursor = sqlite3.Cursor(db.plain)
    assert cursor.connection is db.plain
    assert type(db.cursor().plain) is sqlite3.Cursor
    assert pfs.dbapi(sqlite3).plain is sqlite3
    db.row_factory = lambda cursor, row: (type(cursor), row)
    assert db.execute("SELECT a FROM t").fetchall() == [(sqlite3.Cursor, (1,))]  # a factory sees the plain cursor
    for connection in (db, copied, plain):
        connection.close()


def test_copying_a_connection_says_what_the_plain_one_says() -> None:
    db = pfs.dbapi(sqlite3).connect(":memory:")
    for function in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError) as plain:
            function(db.plain)
        with pytest.raises(TypeError) as watched:
            function(db)
        assert str(watched.value) == str(plain.value)
    db.close()
