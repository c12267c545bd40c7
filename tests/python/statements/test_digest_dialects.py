"""What quotes names, escapes quotes and begins comments depends on the dialect, and rows of values fold: facts I2 to I4."""

from __future__ import annotations

import pytest

import pfs

STANDARD = ["postgresql", "sqlite", "tsql", "oracle", "duckdb", "ansi"]
POSTGRES = ["postgresql", "duckdb", "ansi"]


def text(statement: str, dialect: str) -> str | None:
    return pfs.digest(statement, dialect=dialect)[1]


@pytest.mark.parametrize("dialect", STANDARD)
@pytest.mark.parametrize(
    ("statement", "digest"),
    [
        ('DELETE FROM "orders" WHERE "id"=1', "DELETE FROM `orders` WHERE `id` = ?"),
        ('SELECT COUNT(*) AS "__count" FROM "a""b"', 'SELECT COUNT ( * ) AS `__count` FROM `a""b`'),
        (r"SELECT a FROM t WHERE b LIKE ? ESCAPE '\' AND c = ?", "SELECT `a` FROM `t` WHERE `b` LIKE ? ESCAPE ? AND `c` = ?"),
        (r"a = 'C:\dir\' AND b = 'secret'", "`a` = ? AND `b` = ?"),
        ("SELECT 1 --2024-01-01 fix by bob", "SELECT ?"),
        ("--'x\nSELECT 2 FROM t", "SELECT ? FROM `t`"),
        ("SELECT 1_000_001, 0o17, 0b1, 0xFf, 1_0.5_0e-3, .5_0, 1e5", "SELECT ?, ..."),
        ("SELECT /*! a */ 1", "SELECT ?"),
        ('SELECT "never closed', "SELECT `never closed`"),
    ],
)
def test_all_but_mysql(dialect: str, statement: str, digest: str) -> None:
    assert text(statement, dialect) == digest


@pytest.mark.parametrize(
    ("dialects", "statement", "digest"),
    [
        (POSTGRES, "SELECT d #>> '{a}', d #> '{b}', d #- '{c}', d # 1", "SELECT `d` #>> ? , `d` #> ? , `d` #- ? , `d` # ?"),
        (POSTGRES, "a @> %s AND b <@ :b AND c @@ to_tsquery('x')", "`a` @> ? AND `b` <@ ? AND `c` @@ `to_tsquery` (?)"),
        (POSTGRES, r"SELECT E'a\'b', U&'\0061', N'x', B'01', $a$it's$a$, $$x$$", "SELECT ?, ..."),
        (POSTGRES, "SELECT U&\"d\\0061\", u & 'x'", "SELECT `d\\0061` , `u` & ?"),
        ([*POSTGRES, "tsql"], "SELECT /* a /* b */ secret */ 1", "SELECT ?"),
        (["sqlite", "oracle"], "SELECT /* a /* b */ c", "SELECT `c`"),
        (["sqlite", "tsql"], "SELECT [a b].[order] FROM [c'd]", "SELECT `a b` . `order` FROM `c'd`"),
        (["tsql"], "SELECT $1.50, N'x', @p FROM #tmp, ##t, [a]]b]", "SELECT ?, ... , @? FROM `#tmp` , `##t` , `a]]b`"),
        (
            ["oracle"],
            "SELECT q'[it's]', NQ'!a'b!', v$session.x, y$z#1 FROM dual",
            "SELECT ?, ... , `v$session` . `x` , `y$z#1` FROM DUAL",
        ),
        (["mysql", "sql"], "SELECT \"a\", 'b\\'c' # d", "SELECT ?, ..."),
        (["mysql"], "SELECT 1 --1", "SELECT ? - ?"),
        (["mysql"], "SAVEPOINT s1", "SAVEPOINT `s1`"),
        (["mysql"], "VALUES (1, DEFAULT)", "VALUES ( ? , DEFAULT )"),
    ],
)
def test_of_some_dialects(dialects: list[str], statement: str, digest: str) -> None:
    assert {dialect: text(statement, dialect) for dialect in dialects} == dict.fromkeys(dialects, digest)


@pytest.mark.parametrize(
    "item",
    [
        "$1::INTEGER",
        "%(a)s::double precision[]",
        "'x'::my.type(3)",
        "DATE '2024-01-01'",
        "mood 'happy'",
        "interval '1 day'",
        "CAST('x' AS uuid)",
        "now()",
        "now() - interval '1 day'",
        "DEFAULT",
        "TRUE",
        "CURRENT_TIMESTAMP",
        "-1",
        "-$1",
        "ST_Point(1, 2)",
        "ARRAY[1, 2]",
        "1 + 2",
    ],
)
@pytest.mark.parametrize("dialect", ["sql", *POSTGRES])
def test_rows_of_values_fold(dialect: str, item: str) -> None:
    """One digest whatever the length: of an IN list, of an INSERT of many rows."""
    for count in (1, 2, 50):
        assert text(f"a IN ({', '.join([item] * count)})", dialect) == "`a` IN (...)"
        row = ", ".join([item, "1", item])
        many = " /* , ... */" if count > 1 else ""
        assert text(f"INSERT INTO t VALUES {', '.join([f'({row})'] * count)}", dialect) == f"INSERT INTO `t` VALUES (...){many}"
        pairs = ", ".join([f"({item}, 'x')"] * count)
        assert text(f"(a, b) IN ({pairs})", dialect) == f"( `a` , `b` ) IN ( (...){many} )"
    assert len(pfs.digest("VALUES " + ", ".join([f"({item})"] * 5000), 20, dialect=dialect)[1] or "") < 40


@pytest.mark.parametrize(
    ("statement", "digest"),
    [
        ("a IN (1::int, b)", "`a` IN ( ? , `b` )"),
        ("a IN (SELECT $1::int)", "`a` IN ( SELECT ? :: INTEGER )"),
        ("VALUES (f(x), 1)", "VALUES ( `f` ( `x` ) , ? )"),
        ("VALUES (a.b)", "VALUES ( `a` . `b` )"),
        ("VALUES (1 + a)", "VALUES ( ? + `a` )"),
        ("SELECT f(now(), $1::int)", "SELECT `f` ( NOW ( ) , ? :: INTEGER )"),
        ("SELECT $1::int, $2::int", "SELECT ? :: INTEGER , ? :: INTEGER"),
    ],
)
def test_names_of_columns_stay(statement: str, digest: str) -> None:
    assert text(statement, "postgresql") == digest


@pytest.mark.parametrize("dialect", ["sql", *STANDARD])
@pytest.mark.parametrize(
    ("statement", "digest"),
    [
        ("SAVEPOINT {}", "SAVEPOINT ?"),
        ("RELEASE SAVEPOINT {}", "RELEASE SAVEPOINT ?"),
        ("RELEASE {}", "RELEASE ?"),
        ("ROLLBACK TO SAVEPOINT {}", "ROLLBACK TO SAVEPOINT ?"),
        ("ROLLBACK WORK TO {}", "ROLLBACK WORK TO ?"),
        ("ROLLBACK TRANSACTION {}", "ROLLBACK TRANSACTION ?"),
        ("SELECT 1; SAVEPOINT {}", "SELECT ? ; SAVEPOINT ?"),
        (
            "DECLARE {} NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM b",
            "DECLARE ? NO `SCROLL` CURSOR WITH `HOLD` FOR SELECT `a` FROM `b`",
        ),
        ("FETCH FORWARD 2000 FROM {}", "FETCH `FORWARD` ? FROM ?"),
        ("FETCH NEXT {}", "FETCH `NEXT` ?"),
        ("fetch all in {}", "FETCH ALL IN ?"),
        ("MOVE BACKWARD 10 IN {}", "`MOVE` `BACKWARD` ? IN ?"),
        ("CLOSE {}", "CLOSE ?"),
        ("DEALLOCATE {}", "DEALLOCATE ?"),
    ],
)
def test_names_that_differ_each_time_fold(dialect: str, statement: str, digest: str) -> None:
    """Savepoints, cursors, prepared statements: Django's and Rails' have a number in them."""
    names = ["s1", "_curs_2"] if dialect == "sql" else ["s1", '"s140735_x1"', '"_django_curs_140_sync_1"']
    assert {text(statement.format(name), dialect) for name in names} == {digest}


@pytest.mark.parametrize("dialect", ["sql", *STANDARD])
@pytest.mark.parametrize(
    ("statement", "digest"),
    [
        ("create temp table {} (a int)", "CREATE TEMP TABLE ? ( `a` INTEGER )"),
        (
            "CREATE GLOBAL TEMPORARY TABLE IF NOT EXISTS {} AS SELECT 1",
            "CREATE GLOBAL TEMPORARY TABLE IF NOT EXISTS ? AS SELECT ?",
        ),
        ("CREATE TEMP VIEW a.{} AS SELECT b FROM c", "CREATE TEMP VIEW `a` . ? AS SELECT `b` FROM `c`"),
        ("SELECT a INTO TEMP {} FROM b", "SELECT `a` INTO TEMP ? FROM `b`"),
        ("INSERT INTO pg_temp.{} VALUES (1)", "INSERT INTO `pg_temp` . ? VALUES (?)"),
        ("SELECT a FROM pg_temp . {} b", "SELECT `a` FROM `pg_temp` . ? `b`"),
        (
            "CREATE TEMP TABLE {0} (a int); INSERT INTO {0} SELECT {0}.a FROM t1, x.{0}; DROP TABLE {0}",
            "CREATE TEMP TABLE ? ( `a` INTEGER ) ; INSERT INTO ? SELECT ? . `a` FROM `t1` , `x` . ? ; DROP TABLE ?",
        ),
    ],
)
def test_names_of_temporary_tables_with_a_digit_fold(dialect: str, statement: str, digest: str) -> None:
    """Programs make them with a suffix that differs each time."""
    names = ["tmp_8f3a", "tmp_17", "t1_"] if dialect == "sql" else ["tmp_8f3a", '"tmp_17"', '"T 1"']
    assert {text(statement.format(name), dialect) for name in names} == {digest}


def test_a_text_may_name_any_number_of_temporary_tables() -> None:
    """Only the first four names are values behind their declaration."""
    declared = "".join(f"CREATE TEMP TABLE x{number} (a int);" for number in range(20_000))
    assert (text(declared, "postgresql") or "").startswith("CREATE TEMP TABLE ? ( `a` INTEGER ) ; CREATE TEMP TABLE ?")
    assert text("CREATE TEMP TABLE x1 AS SELECT 1; SELECT a FROM x1, pg_temp.x2, x2", "postgresql") == (
        "CREATE TEMP TABLE ? AS SELECT ? ; SELECT `a` FROM ? , `pg_temp` . ?, ..."
    )
    for end in (
        'CREATE TEMP TABLE "x1',
        "CREATE TEMP TABLE x1.",
        "SELECT pg_temp.",
        'SELECT pg_temp."1',
        "CREATE TEMP TABLE",
        "INTO TEMP 1",
    ):
        assert text(end, "postgresql")


@pytest.mark.parametrize(
    ("statement", "digest"),
    [
        ("SELECT a INTO {} FROM b", "SELECT `a` INTO ? FROM `b`"),
        ("INSERT INTO {} (a) VALUES (1), (2)", "INSERT INTO ? ( `a` ) VALUES (?) /* , ... */"),
        (
            "SELECT x.a FROM tempdb..{} x JOIN t1 ON x.a = t1.b",
            "SELECT `x` . `a` FROM `tempdb` . . ? `x` JOIN `t1` ON `x` . `a` = `t1` . `b`",
        ),
        ("DROP TABLE IF EXISTS {}", "DROP TABLE IF EXISTS ?"),
    ],
)
def test_temporary_names_of_sql_server_with_a_digit_fold(statement: str, digest: str) -> None:
    assert {text(statement.format(name), "tsql") for name in ("#tmp123", "#t_8f3a", "##all4", "[#tmp 7]")} == {digest}


@pytest.mark.parametrize(
    ("dialect", "statement", "digest"),
    [
        ("postgresql", "CREATE TABLE t1 (a int)", "CREATE TABLE `t1` ( `a` INTEGER )"),
        ("postgresql", "SELECT a FROM orders_2023, t2", "SELECT `a` FROM `orders_2023` , `t2`"),
        ("postgresql", "CREATE TEMP TABLE basket (a int)", "CREATE TEMP TABLE `basket` ( `a` INTEGER )"),
        ("postgresql", "CREATE TEMP TABLE x1 AS SELECT a FROM x2", "CREATE TEMP TABLE ? AS SELECT `a` FROM `x2`"),
        ("postgresql", "SELECT temp, t1 FROM temporary", "SELECT TEMP , `t1` FROM TEMPORARY"),
        ("postgresql", "SELECT pg_temp, pg_temp.basket FROM t1", "SELECT `pg_temp` , `pg_temp` . `basket` FROM `t1`"),
        ("postgresql", "SELECT NULL, pg_temp()", "SELECT ? , `pg_temp` ( )"),
        ("tsql", "SELECT a FROM #basket", "SELECT `a` FROM `#basket`"),
        ("tsql", "SELECT a FROM [t1]", "SELECT `a` FROM `t1`"),
        ("mysql", "CREATE TEMPORARY TABLE t1 (a int)", "CREATE TEMPORARY TABLE `t1` ( `a` INTEGER )"),  # as the server has it
    ],
)
def test_other_names_of_tables_stay(dialect: str, statement: str, digest: str) -> None:
    assert text(statement, dialect) == digest


@pytest.mark.parametrize(
    ("statement", "digest"),
    [
        ("ROLLBACK", "ROLLBACK"),
        ("CLOSE ALL", "CLOSE ALL"),
        ("START TRANSACTION READ ONLY", "START TRANSACTION READ ONLY"),
        ("SELECT a FROM b FETCH FIRST 10 ROWS ONLY", "SELECT `a` FROM `b` FETCH FIRST ? ROWS ONLY"),
        ("SELECT move, t.close FROM fetch.a", "SELECT `move` , `t` . `close` FROM `fetch` . `a`"),
        ("EXECUTE refresh(1)", "EXECUTE REFRESH (?)"),
        ("EXECUTE my_plan(1)", "EXECUTE `my_plan` (?)"),
        ("EXECUTE p12(1)", "EXECUTE ? (?)"),
        ("GRANT ALL ON a TO b", "GRANT ALL ON `a` TO `b`"),
        ("ALTER TABLE a RENAME TO b", "ALTER TABLE `a` RENAME TO `b`"),
    ],
)
def test_other_names_stay(statement: str, digest: str) -> None:
    assert text(statement, "postgresql") == digest


def test_a_dialect_that_there_is_not() -> None:
    with pytest.raises(pfs.InvalidValue, match="unknown dialect 'mssql': legal are sql, mysql, postgresql, sqlite, tsql"):
        pfs.digest("SELECT 1", dialect="mssql")


def test_the_normalizer_is_the_dialect_of_texts_that_have_none() -> None:
    assert pfs.digest('DELETE FROM "a"', normalizer="sqlite") == pfs.digest('DELETE FROM "a"', dialect="sqlite")
    assert pfs.digest('DELETE FROM "a"', normalizer="mysql", dialect="sqlite") == pfs.digest("DELETE FROM a", dialect="sqlite")


def shapes(statements: list[str], dialect: str) -> list[str]:
    return sorted({text(statement, dialect) or "" for statement in statements})


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_statements_of_sqlalchemy(driver: str) -> None:
    """As its dialects write them: names in double quotes, a cast behind each parameter."""
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    from sqlalchemy.dialects.postgresql import asyncpg, psycopg

    dialect = {"asyncpg": asyncpg, "psycopg": psycopg}[driver].dialect()
    orders, groups = (
        sqlalchemy.Table(
            name,
            sqlalchemy.MetaData(),
            sqlalchemy.Column("id", sqlalchemy.Integer),
            sqlalchemy.Column("User", sqlalchemy.Uuid),
            sqlalchemy.Column("at", sqlalchemy.DateTime(timezone=True)),
        )
        for name in ("order", "group")
    )

    def compiled(statement: object) -> str:
        return str(statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True}))  # type: ignore[attr-defined]

    found = []
    for table in (orders, groups):
        for count in (2, 3, 40):
            found.append(compiled(sqlalchemy.select(table.c.id).where(table.c.id.in_([1] * count))))
            rows = [{"id": n, "User": None, "at": sqlalchemy.func.now()} for n in range(count)]
            found.append(compiled(sqlalchemy.insert(table).values(rows)))
    assert shapes(found, "postgresql") == [
        "INSERT INTO `group` ( `id` , `User` , `at` ) VALUES (...) /* , ... */",
        "INSERT INTO `order` ( `id` , `User` , `at` ) VALUES (...) /* , ... */",
        "SELECT `group` . `id` FROM `group` WHERE `group` . `id` IN (...)",
        "SELECT `order` . `id` FROM `order` WHERE `order` . `id` IN (...)",
    ]


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_statements_of_rails(dialect: str) -> None:
    """As ActiveRecord writes them."""
    found = [
        """SELECT "users".* FROM "users" WHERE "users"."email" = $1 LIMIT $2 /*application='Shop',controller='users'*/""",
        """SELECT "users".* FROM "users" WHERE "users"."email" = ? LIMIT ? /*application='Shop',controller='orders'*/""",
        """INSERT INTO "users" ("email", "created_at") VALUES ('a@b.c', '2024-01-01 10:00:00') RETURNING "id\"""",
        """INSERT INTO "users" ("email", "created_at") VALUES (?, ?) RETURNING "id\"""",
        """SELECT "orders".* FROM "orders" WHERE "orders"."user_id" IN (1, 2, 3) ORDER BY "orders"."id" DESC""",
        """SELECT "orders".* FROM "orders" WHERE "orders"."user_id" IN (?, ?) ORDER BY "orders"."id" DESC""",
        r"""SELECT 1 AS one FROM "users" WHERE (name LIKE '%it''s\%' ESCAPE '\') LIMIT 1""",
        """SAVEPOINT active_record_1""",
        """SAVEPOINT active_record_2""",
        """RELEASE SAVEPOINT active_record_2""",
        """ROLLBACK TO SAVEPOINT active_record_1""",
        """DEALLOCATE a17""",
        """DEALLOCATE a18""",
    ]
    assert shapes(found, dialect) == [
        "DEALLOCATE ?",
        "INSERT INTO `users` ( `email` , `created_at` ) VALUES (...) RETURNING `id`",
        "RELEASE SAVEPOINT ?",
        "ROLLBACK TO SAVEPOINT ?",
        "SAVEPOINT ?",
        "SELECT ? AS `one` FROM `users` WHERE ( `name` LIKE ? ESCAPE ? ) LIMIT ?",
        "SELECT `orders` . * FROM `orders` WHERE `orders` . `user_id` IN (...) ORDER BY `orders` . `id` DESC",
        "SELECT `users` . * FROM `users` WHERE `users` . `email` = ? LIMIT ?",
    ]


def test_identity() -> None:
    """Blanks, case and comments stay; cut without half a character."""
    text = " GET  /a/1 -- größe;"
    digest, found = pfs.digest(text, normalizer="identity")
    assert found == text
    assert digest != pfs.digest(text + " ", normalizer="identity")[0]
    assert pfs.digest(text, len(" GET  /a/1 -- gr") + 2, normalizer="identity")[1] == " GET  /a/1 -- gr"
    assert pfs.digest("a", 1, normalizer="identity") == pfs.digest("", normalizer="identity") == (None, None)


def test_bad_normalizers() -> None:
    with pytest.raises(pfs.InvalidValue, match=r"unknown normalizer 'regex': legal are sql, mysql, postgresql, .*, identity$"):
        pfs.digest("a", normalizer="regex")
