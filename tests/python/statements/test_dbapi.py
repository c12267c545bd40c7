"""pfs.dbapi on sqlite3: everything as the plain module, and a statement for each execution."""

from __future__ import annotations

import sqlite3
from typing import Any

import pandas as pd
import pytest

import pfs


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Any:
    return pfs.dbapi(sqlite3, schema=request.node.name[:60]).connect(":memory:")


def statements(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    frame = pfs.table("events_statements_history_long")
    frame = frame[frame["CURRENT_SCHEMA"] == request.node.name[:60]].sort_values("EVENT_ID")
    found: list[dict[str, Any]] = frame.to_dict("records")
    return found


def test_it_is_the_plain_thing_for_whoever_looks(db: Any) -> None:
    module = pfs.dbapi(sqlite3)
    assert module.paramstyle == sqlite3.paramstyle
    assert module.OperationalError is sqlite3.OperationalError
    assert isinstance(db, sqlite3.Connection)
    assert isinstance(db.cursor(), sqlite3.Cursor)
    db.row_factory = sqlite3.Row
    row = db.execute("SELECT 1 AS one").fetchone()
    assert row["one"] == 1
    assert db.row_factory is sqlite3.Row
    assert getattr(db, "isolation_level") == ""  # noqa: B009
    cursor = db.cursor()
    cursor.arraysize = 5
    assert cursor.arraysize == 5
    assert cursor.connection is db
    assert cursor.execute("SELECT 1") is cursor
    with pytest.raises(AttributeError):
        getattr(db, "nothing")  # noqa: B009
    with pytest.raises(TypeError, match="neither connect"):
        pfs.dbapi(3)


def test_rows_and_exceptions_are_those_of_the_plain_module(db: Any, request: pytest.FixtureRequest) -> None:
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    assert db.executemany("INSERT INTO t VALUES (?, ?)", [(i, str(i)) for i in range(10)]).rowcount == 10
    assert db.execute("SELECT a FROM t WHERE a < 3").fetchall() == [(0,), (1,), (2,)]
    assert list(db.execute("SELECT a FROM t WHERE a = 7")) == [(7,)]
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE") as raised:
        db.execute("INSERT INTO t VALUES (3, 'x')")
    assert raised.value.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
    rows = statements(request)
    assert [row["EVENT_NAME"].rsplit("/", 1)[1] for row in rows] == ["create", "insert", "select", "select", "insert"]
    assert [row["ROWS_AFFECTED"] for row in rows] == [0, 10, 0, 0, 0]
    assert [row["ROWS_SENT"] for row in rows] == [0, 0, 3, 1, 0]
    assert rows[-1]["ERRORS"] == 1
    assert rows[-1]["MYSQL_ERRNO"] == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
    assert rows[-1]["MESSAGE_TEXT"] == "IntegrityError: UNIQUE constraint failed: t.a"
    assert all(row["SOURCE"].startswith("test_dbapi.py:") for row in rows)


def test_statement_lasts_until_its_last_row_and_is_nobodys_parent_meanwhile(db: Any, request: pytest.FixtureRequest) -> None:
    db.execute("CREATE TABLE t (a)")
    db.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(5)])
    db.commit()
    for (value,) in db.execute("SELECT a FROM t"):
        db.execute("UPDATE t SET a = a WHERE a = ?", (value,))
    db.commit()
    cursor = db.execute("SELECT a FROM t")
    assert cursor.fetchone() == (0,)
    assert len(cursor.fetchmany(2)) == 2
    del cursor
    rows = statements(request)
    selects = [row for row in rows if row["EVENT_NAME"].endswith("select")]
    updates = [row for row in rows if row["EVENT_NAME"].endswith("update")]
    assert [row["ROWS_SENT"] for row in selects] == [5, 3]
    assert all(row["NESTING_EVENT_TYPE"] != "STATEMENT" for row in updates[1:])
    assert all(row["TIMER_END"] < selects[0]["TIMER_END"] for row in updates)


@pytest.mark.parametrize("committed", [True, False])
def test_transactions_begin_where_the_module_begins_them(db: Any, committed: bool, request: pytest.FixtureRequest) -> None:
    db.execute("CREATE TABLE t (a)")
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("INSERT INTO t VALUES (2)")
    db.execute("SAVEPOINT s")
    db.execute("ROLLBACK TO s")
    db.execute("RELEASE s")
    assert db.in_transaction
    db.commit() if committed else db.rollback()
    _create, first, second, *_ = statements(request)
    frame = pfs.table("events_transactions_history_long")
    transaction = frame[frame["NESTING_EVENT_ID"] == first["EVENT_ID"]].iloc[0]
    assert transaction["STATE"] == ("COMMITTED" if committed else "ROLLED BACK")
    assert transaction["NESTING_EVENT_TYPE"] == "STATEMENT"
    assert (second["NESTING_EVENT_ID"], second["NESTING_EVENT_TYPE"]) == (transaction["EVENT_ID"], "TRANSACTION")
    names = ["NUMBER_OF_SAVEPOINTS", "NUMBER_OF_ROLLBACK_TO_SAVEPOINT", "NUMBER_OF_RELEASE_SAVEPOINT"]
    assert transaction[names].tolist() == [1, 1, 1]


def test_context_manager_script_and_closing(db: Any, request: pytest.FixtureRequest) -> None:
    def ended() -> list[str]:
        return list(pfs.table("events_transactions_history_long").sort_values("EVENT_ID")["STATE"])

    db.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1); /* two */ INSERT INTO t VALUES (2)")
    with db:
        db.execute("INSERT INTO t VALUES (3)")
    assert ended()[-1] == "COMMITTED"

    def fail() -> None:
        with db:
            db.execute("INSERT INTO t VALUES (4)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert ended()[-1] == "ROLLED BACK"
    assert db.execute("SELECT count(*) FROM t").fetchone() == (3,)
    db.execute("INSERT INTO t VALUES (5)")
    db.close()
    assert ended()[-1] == "ROLLED BACK"
    assert len(statements(request)) == 5
    with pytest.raises(sqlite3.ProgrammingError):
        db.execute("SELECT 1")


def test_names_and_schemas_of_ones_own(tmp_path: Any) -> None:
    plain = sqlite3.connect(tmp_path / "shop.db")
    pfs.dbapi(plain, name="dbapi/reports").execute("/* why */ SELECT 11").fetchall()
    row = pfs.table("events_statements_history_long").query("EVENT_NAME == 'statement/dbapi/reports'").iloc[0]
    assert (row["CURRENT_SCHEMA"], row["ROWS_SENT"]) == ("shop.db", 1)
    with pytest.raises(pfs.InvalidValue):
        pfs.dbapi(plain, name="reports")
    plain.close()


@pytest.mark.parametrize(
    ("sql", "keyword"),
    [
        ("select 1", "select"),
        ("  -- why\n\tINSERT INTO t", "insert"),
        ("/* a */ /* b */((SELECT 1))", "select"),
        ("SELEC 1", "other"),
        ("", "other"),
        ("-- nothing", "other"),
        ("/* open", "other"),
        ("\ufeffBEGIN", "begin"),
        ("é", "other"),
    ],
)
def test_first_keyword(sql: str, keyword: str) -> None:
    from pfs._record.dbapi.wrap import first_keyword

    assert first_keyword(sql) == keyword


def test_sqlalchemy_engine() -> None:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    import sqlalchemy

    import pfs.sqlalchemy

    engine = sqlalchemy.create_engine("sqlite://")
    pfs.sqlalchemy.instrument(engine, schema="alchemy")
    with pytest.raises(pfs.StateError):
        pfs.sqlalchemy.instrument(engine)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (a INTEGER)"))
        connection.execute(sqlalchemy.text("INSERT INTO t VALUES (:a)"), [{"a": 1}, {"a": 2}])
        with connection.begin_nested():
            connection.execute(sqlalchemy.text("UPDATE t SET a = 3"))
    with pytest.raises(sqlalchemy.exc.OperationalError), engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT * FROM nowhere"))
    pfs.sqlalchemy.uninstrument(engine)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("SELECT 1"))
    frame = pfs.table("events_statements_history_long")
    frame = frame[frame["CURRENT_SCHEMA"] == "alchemy"].sort_values("EVENT_ID")
    names = [name.rsplit("/", 1)[1] for name in frame["EVENT_NAME"] if "savepoint" not in name and "release" not in name]
    assert names == ["create", "insert", "update", "select"]
    assert frame["ROWS_AFFECTED"].tolist()[1] == 2
    assert frame["ERRORS"].tolist()[-1] == 1
    transactions = pfs.table("events_transactions_history_long").sort_values("EVENT_ID").tail(2)
    assert transactions["STATE"].tolist() == ["COMMITTED", "ROLLED BACK"]
    assert transactions["NUMBER_OF_SAVEPOINTS"].tolist()[0] == 1
    assert not pd.isna(transactions["TIMER_WAIT"]).any()
    engine.dispose()


def test_rows_that_sqlalchemy_sends_are_counted() -> None:
    """Statements have digests, transactions and rows: a result that was read to its end, a part of one, none of
    one, and one that fails halfway. The statement ends with its last row, and holds nobody meanwhile."""
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    import sqlalchemy as sa

    import pfs.sqlalchemy

    engine = sa.create_engine("sqlite://")
    pfs.sqlalchemy.instrument(engine, schema="rows")
    table = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, primary_key=True), sa.Column("b", sa.Integer))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [{"a": i, "b": i} for i in range(10)])
        select = sa.select(table.c.a).order_by(table.c.a)
        assert len(connection.execute(select).all()) == 10
        assert connection.execute(select.where(table.c.a < 7)).fetchmany(3) == [(0,), (1,), (2,)]
        first, second = connection.execute(select.where(table.c.a < 6)), connection.execute(select.where(table.c.a < 5))
        assert [next(first), next(second), next(first)] == [(0,), (0,), (1,)]
        first.close()
        second.close()
        connection.execute(select.where(table.c.a < 4)).close()
        returned = connection.execute(table.update().where(table.c.a < 3).values(b=7).returning(table.c.a)).all()
        assert len(returned) == 3
        failing = connection.execute(sa.text("SELECT abs(-9223372036854775807 - (a = 3)) FROM t"))
        assert failing.fetchmany(2) == [(9223372036854775807,)] * 2
        with pytest.raises(sa.exc.OperationalError):
            failing.fetchone()
    frame = pfs.table("events_statements_history_long")
    frame = frame[(frame["CURRENT_SCHEMA"] == "rows")].sort_values("EVENT_ID")
    assert frame["END_EVENT_ID"].notna().all()
    assert (frame["NESTING_EVENT_TYPE"] == "TRANSACTION").all()
    selects = frame[frame["EVENT_NAME"] == "statement/sql/select"]
    assert selects["ROWS_SENT"].tolist() == [10, 3, 2, 1, 0, 2]
    assert selects["ERRORS"].tolist() == [0, 0, 0, 0, 0, 1]
    update = frame[frame["EVENT_NAME"] == "statement/sql/update"].iloc[0]
    assert (update["ROWS_SENT"], update["ROWS_AFFECTED"]) == (3, 3)
    # SQLAlchemy may send one statement for each row: history_long need not have room for all of them, their digest has.
    with engine.begin() as connection:
        batched = table.insert().returning(table.c.a, sort_by_parameter_order=True)
        assert len(connection.execute(batched, [{"a": i, "b": i} for i in range(100, 2500)]).all()) == 2400
    pfs.sqlalchemy.uninstrument(engine)
    engine.dispose()
    digests = pfs.table("events_statements_summary_by_digest")
    inserts = digests[(digests["SCHEMA_NAME"] == "rows") & digests["DIGEST_TEXT"].str.startswith("INSERT")]
    assert inserts["SUM_ROWS_AFFECTED"].sum() == 2410


@pytest.mark.parametrize("of_engine", [True, False])
def test_autocommit_of_sqlalchemy_is_no_transaction(of_engine: bool) -> None:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    import sqlalchemy as sa

    import pfs.sqlalchemy

    def count() -> int:
        return len(pfs.table("events_transactions_history_long"))

    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if of_engine else {}
    engine = sa.create_engine("sqlite://", **options)
    pfs.sqlalchemy.instrument(engine)
    before = count()
    with engine.connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.execute(sa.text("SELECT 1"))
        connection.commit()
        connection.execute(sa.text("SELECT 1"))
    assert count() == before
    with engine.connect() as connection:
        connection = connection.execution_options(isolation_level="READ UNCOMMITTED")
        connection.execute(sa.text("SELECT 1"))
        connection.commit()
    assert count() == before + 1
    last = pfs.table("events_transactions_history_long").sort_values("EVENT_ID").iloc[-1]
    assert (last["STATE"], last["ISOLATION_LEVEL"]) == ("COMMITTED", "READ UNCOMMITTED")
    pfs.sqlalchemy.uninstrument(engine)
    engine.dispose()


def test_two_threads_instrument_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes between the steps of the first one: its statements would count twice."""
    engine = pytest.importorskip("sqlalchemy").create_engine("sqlite://")
    hooks = pfs.sqlalchemy._Hooks

    def made(*arguments: Any) -> object:
        monkeypatch.setattr(pfs.sqlalchemy, "_Hooks", hooks)
        pfs.sqlalchemy.instrument(engine)
        return hooks(*arguments)

    monkeypatch.setattr(pfs.sqlalchemy, "_Hooks", made)
    with pytest.raises(pfs.StateError):
        pfs.sqlalchemy.instrument(engine)
    pfs.sqlalchemy.uninstrument(engine)
    engine.dispose()
