"""Digests by the rules of MySQL 8.4 (normalizer="mysql"): pairs of its own results, and the texts of a MariaDB server."""

from __future__ import annotations

import os
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.conftest import Run
from tests.python import servers

PAIRS = {
    "keywords need not be reserved": [
        ("select name, type, host from t", "SELECT NAME , TYPE , HOST FROM `t`"),
        ("select status, value, `name` from t", "SELECT STATUS , VALUE , `name` FROM `t`"),
        ("select t.name, name.t, name . t from name", "SELECT `t` . `name` , `name` . `t` , NAME . `t` FROM NAME"),
        ("vacuum; pragma x", "`vacuum` ; `pragma` `x`"),
    ],
    "the last spelling of a token": [
        ("select distinct a from t", "SELECT DISTINCTROW `a` FROM `t`"),
        ("select current_timestamp, localtime, now()", "SELECT NOW , NOW , NOW ( )"),
        ("select substr(a, 1), mid(a, 1)", "SELECT SUBSTRING ( `a` , ? ) , SUBSTRING ( `a` , ? )"),
        (
            "create table t (a bigint, b float, c double, d varchar(9), e mediumint, f int)",
            "CREATE TABLE `t` ( `a` INT8 , `b` FLOAT4 , `c` FLOAT8 , `d` VARCHARACTER (?) , `e` MIDDLEINT , `f` INTEGER )",
        ),
        ("select a = any (select 1)", "SELECT `a` = SOME ( SELECT ? )"),
        ("select a regexp 'x' from t", "SELECT `a` RLIKE ? FROM `t`"),
        ("show columns from t", "SHOW FIELDS FROM `t`"),
        ("describe t", "EXPLAIN `t`"),
        ("select a + interval 1 day, user()", "SELECT `a` + INTERVAL ? SQL_TSI_DAY , SYSTEM_USER ( )"),
        ("select std(a), variance(a)", "SELECT STDDEV_POP ( `a` ) , VAR_POP ( `a` )"),
    ],
    "functions": [
        ("select upper(a), round(a), uuid()", "SELECT `upper` ( `a` ) , `round` ( `a` ) , `uuid` ( )"),
        ("select sum(a), sum (a), count", "SELECT SUM ( `a` ) , `sum` ( `a` ) , `count`"),
        ("select avg (a)", "SELECT AVG ( `a` )"),
    ],
    "I4: a sign behind a comparison stays": [
        ("select * from t where a = -1", "SELECT * FROM `t` WHERE `a` = - ?"),
        ("select * from t where a < -1 or a > +2", "SELECT * FROM `t` WHERE `a` < - ? OR `a` > + ?"),
        ("set x = -1", "SET `x` = - ?"),
        ("select -1, (-1), a - -1, a * -1", "SELECT ? , (?) , `a` - ? , `a` * ?"),
        ("select * from t where -1 < a and -1 < b", "SELECT * FROM `t` WHERE - ? < `a` AND ? < `b`"),
        ("select = - -1", "SELECT = - ?"),
        ("select 5 --1", "SELECT ? - ?"),
    ],
    "variables, strings, comments": [
        ("select @a, 1", "SELECT @?, ..."),
        ("select @`a b`, @'c'", "SELECT @`a b` , @?"),
        ("select @@port, @@session.sql_mode, @@x", "SELECT @@PORT , @@SESSION . `sql_mode` , @@`x`"),
        ("grant all on *.* to root@localhost", "GRANT ALL ON * . * TO `root` @?"),
        ("select 'a' 'b'", "SELECT ? ?"),
        ("select _utf8mb4'a', _latin1 x'41', _other", "SELECT (_charset) ? , (_charset) ? , `_other`"),
        ("select n'a', x'41', b'01', \\N", "SELECT ?, ..."),
        ('select "a"', "SELECT ?"),
        ("select 1 -- c\n, 2 --c", "SELECT ?, ... - - `c`"),
    ],
    "lists as in all dialects": [
        ("select * from t where a in (1, 2) and b in (3)", "SELECT * FROM `t` WHERE `a` IN (...) AND `b` IN (...)"),
        ("insert into t values (1, null), (2, -3)", "INSERT INTO `t` VALUES (...) /* , ... */"),
        ("select a is null, b is not null, null from t", "SELECT `a` IS NULL , `b` IS NOT NULL , ? FROM `t`"),
        ("select * from t where a = %s and b = :name and c = ?", "SELECT * FROM `t` WHERE `a` = ? AND `b` = ? AND `c` = ?"),
    ],
}


@pytest.mark.parametrize("rule", PAIRS)
def test_texts_of_mysql(rule: str) -> None:
    for text, expected in PAIRS[rule]:
        assert pfs.digest(text, normalizer="mysql")[1] == expected, text


def test_the_default_keeps_its_digests() -> None:
    """Words of MySQL have codes behind those of all dialects."""
    digest, text = pfs.digest("select name, type from t where a = -1 and max(b) > 1 group by distinct c")
    assert text == "SELECT `name` , `type` FROM `t` WHERE `a` = ? AND MAX ( `b` ) > ? GROUP BY DISTINCT `c`"
    assert digest == "d4babe361231ec5f8462956c415b79ee0199afaaa9b10cbf534e5846bca9afe5"


@pytest.mark.parametrize("limit", [0, 1, 5, 20, 40])
def test_a_smaller_limit_gives_a_beginning(limit: int) -> None:
    text = "select name, 'a', -1 from host where type = @x and a in (1, 2, 3)"
    whole, part = pfs.digest(text, normalizer="mysql")[1], pfs.digest(text, limit, normalizer="mysql")[1]
    assert str(whole).startswith(part or "")


def test_a_program_chooses_it(fresh: Run) -> None:
    text = fresh(
        """
        import pfs
        with pfs.statement("sql/select", text="select name from t where a = -1"):
            pass
        print(pfs.table("events_statements_summary_by_digest")["DIGEST_TEXT"][0])
        """,
        options="performance_schema_digest_normalizer=mysql",
    )
    assert text == "SELECT NAME FROM `t` WHERE `a` = - ?\n"


def own_differences(text: str, words: set[str]) -> str:
    """The text without what MariaDB alone does: words that one of the two servers does not know, IN of one value, X'..'."""
    text = re.sub(r"`(\w+)`", lambda name: name[1].upper() if name[1].upper() in words else name[0], text.rstrip())
    return text.replace("IN (?)", "IN (...)")


def statements(folder: str) -> list[str]:
    """Statements of MariaDB's test suite (package mariadb-test-data), without those that would end or change the server."""
    found: dict[str, None] = {}
    left_out = (
        r"shutdown|\bkill\b|sleep|benchmark|global|password|user|role|debug|lock|outfile|sql_mode|character_set|set\s+names|charset_"
        r"|collation_conn|delimiter|server\b|procedure|function|trigger|event\b|package|max_statement"
    )
    kinds = r"(select|insert|update|delete|create|alter|drop|replace|show|explain|set|with|values)\b"
    for path in sorted(Path(folder).glob("*.test")):
        lines = path.read_text(errors="replace").splitlines()
        of_tool = re.compile(r"\s*(#|--|let|eval|source|conn|disc|echo|if|while|error|send|reap)")
        plain = [line for line in lines if not of_tool.match(line)]
        for text in map(str.strip, "\n".join(plain).split(";")):
            if re.match(kinds, text, re.IGNORECASE) and not re.search(left_out, text, re.IGNORECASE) and text.isascii():
                found["" if "$" in text or len(text) > 2000 else text] = None
    chosen = [text for text in found if text]
    random.Random(1).shuffle(chosen)
    return chosen


@pytest.mark.needs("mariadb")
def test_texts_are_those_of_a_server() -> None:
    """PFS_MARIADB_TESTS=.../mysql-test/main compares thousands of statements; without it these pairs are asked."""
    import pymysql

    folder = os.environ.get("PFS_MARIADB_TESTS")
    asked = statements(folder)[:7000] if folder else [text for pairs in PAIRS.values() for text, _ in pairs]
    with servers.mariadb(
        "--performance-schema-consumer-events-statements-current=ON",
        "--performance-schema-consumer-events-statements-history-long=ON",
        "--performance-schema-events-statements-history-long-size=20000",
        "--performance-schema-max-digest-length=8192",
        "--max-digest-length=8192",
        "--performance-schema-max-sql-text-length=8192",
        "--lock-wait-timeout=1",
    ) as socket:

        def connected() -> pymysql.connections.Connection[Any]:
            return pymysql.connect(unix_socket=socket, user="root", database="shop", autocommit=True, charset="utf8mb4")

        db = connected()
        cursor = db.cursor()
        cursor.execute("SET SESSION max_statement_time = 1")
        cursor.execute("SELECT WORD FROM information_schema.KEYWORDS")
        theirs = {str(word).upper() for (word,) in cursor.fetchall()}
        for text in asked:
            # There is no such table, or its rows are no text: the statement has a digest all the same.
            with suppress(pymysql.err.MySQLError, UnicodeDecodeError):
                cursor.execute(text)
            if not db.open:  # a statement ended the connection
                db = connected()
                cursor = db.cursor()
        db.close()
        db = connected()
        cursor = db.cursor()
        cursor.execute(
            "SELECT CAST(SQL_TEXT AS BINARY), CAST(DIGEST_TEXT AS BINARY) FROM performance_schema.events_statements_history_long "
            "WHERE EVENT_NAME LIKE 'statement/sql/%' AND MYSQL_ERRNO <> 1064 AND DIGEST_TEXT IS NOT NULL"
        )
        rows = [tuple(value.decode("utf-8", "replace") for value in row) for row in cursor.fetchall()]
        db.close()
    header = (Path(__file__).resolve().parents[3] / "cpp/src/base/mysql_words.h").read_text()
    added = set(re.findall(r'"([A-Z0-9_]{2,})"', header.partition("kNotOfMysql")[0]))
    dropped = set(re.findall(r'"([A-Z0-9_]{2,})"', header.partition("kNotOfMysql")[2].partition("};")[0]))
    # Words that only one of the servers has as keywords.
    words = {word for word in added | theirs if (word in added) != (word in theirs)} | dropped
    wrong, compared = [], 0
    for text, expected in rows:
        if "(unknown)" in expected or not text.isascii():
            continue  # MariaDB does not know its own token of X'..'
        found = pfs.digest(text, 1 << 16, normalizer="mysql")[1] or ""
        compared += 1
        if re.search(r"\blocaltime\b", text, re.IGNORECASE):  # the token of CURTIME in MariaDB 11.8, that of NOW in MySQL
            expected = re.sub(r"\bCURTIME\b", "NOW", expected)
        if own_differences(found, words) != own_differences(expected, words):
            wrong.append((text, expected, found))
    assert compared > (5000 if folder else 20)
    assert len(wrong) <= 0.02 * compared, f"{len(wrong)} of {compared}: {wrong[:10]}"
