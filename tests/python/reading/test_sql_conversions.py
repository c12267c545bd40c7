"""dialect="mysql": texts and numbers meet as in MySQL, which a server of MariaDB shows. The clock of a statement is UTC."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import pfs
from tests.conftest import Run
from tests.each import for_each
from tests.python import servers

pytest.importorskip("sqlglot")

# Columns of each kind: t and u are texts, n and m are numbers, e is an empty text, x is NULL.
FROM = "(select '12 apples' as t, '-3.5e1x' as u, 12 as n, 7 as m, '' as e, cast(null as char) as x) v"
EXPRESSIONS = """
t = n | n = t | t > m | u < m | e = 0 | x = 0 | x > n | t <> n | t <=> n | m <=> x | t >= '3' | n = '12' | n = '12.5' | n > '9z'
t + 1 | t - u | t * 2 | t / 4 | -u | u + u | e + 1 | x + 1 | n + '1' | '3' + '4' | (n = 12) + 1 | (t = n) * 3 | 7 % t
t between 1 and 20 | n between '1' and '20x' | t in (1, 12) | n in ('1', '12x') | n not in ('x', 'y') | m in (7, 8)
sum(t) | avg(u) | sum(t) > 3 | abs(u) | round(u) | floor(t) | ceil(u) | sign(u) | sqrt(t) | max(t) + 1 | sum(n = 12)
if(n, t, m) | if(e, 1, 2) | if(t, n, u) | ifnull(n, 'none') | ifnull(x, n) | coalesce(x, n, t) | case when n then n else t end
case n when '12' then 'twelve' else 'other' end | case t when 12 then 1 else 0 end
t and n | e or n | not t | not e | x or n | t and e
n like '1%' | concat(n, t) | length(n) | left(n, 1) | upper(n) | substring(n, 2) = 2 | trim(n) = '12'
18446744073709551615 = '18446744073709551615' | 18446744073709551614 = '18446744073709551615'
9007199254740993 = '9007199254740993'
""".replace("\n", " | ").strip(" |")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    import pymysql

    with servers.mariadb() as socket:
        db = pymysql.connect(unix_socket=socket, user="root", database="shop", autocommit=True)
        yield db.cursor()
        db.close()


@for_each("expression", [each.strip() for each in EXPRESSIONS.split("|") if each.strip()])
def test_expressions_have_the_values_of_a_server(server: Any, expression: str) -> None:
    statement = f"select {expression} as value from {FROM}"
    server.execute(statement)
    ((expected,),) = server.fetchall()
    ((found,),) = pfs.sql(statement, dialect="mysql").rows()
    if isinstance(found, int | float | Decimal) and isinstance(expected, int | float | Decimal):
        assert float(found) == pytest.approx(float(expected), rel=1e-12)
    elif isinstance(found, str) and isinstance(expected, int | float | Decimal):
        raise AssertionError(f"{found!r} is a text, and {expected!r} in the server")
    else:
        assert found == (expected.decode() if isinstance(expected, bytes) else expected)


@for_each("where", ["e", "t", "t > 5", "u < -30", "x", "n and t", "e or x", "t in (12)", "not e"])
def test_conditions_choose_the_rows_of_a_server(server: Any, where: str) -> None:
    statement = f"select n from {FROM} where {where}"
    server.execute(statement)
    assert pfs.sql(statement, dialect="mysql").rows() == list(server.fetchall())


def test_expressions_mean_what_they_mean_in_mysql() -> None:
    """A sample that needs no server: each had another value once, or none. The list beside MariaDB has more."""
    for expression, value in (
        ("'abc' not like 'b%'", True),
        ("not 'abc' not like 'A%'", True),
        ("'a_c' not like 'a\\\\_d'", True),
        ("length('é') * 10 + char_length('é')", 21),
        ("from_unixtime(1000000000, '%Y')", "2001"),
        ("timestampdiff(hour, '2026-01-01 10:59:00', '2026-01-01 11:01:00')", 0),  # whole hours
        ("cast('abc' as char(2))", "ab"),
        ("concat_ws(',', 7 div 0, 7 % 0, 7 div 2, 7 % 4)", "3,3"),
        ("locate('BAR', 'foobar') * 10 + instr('foobar', 'Bar')", 44),
    ):
        assert pfs.sql(f"select {expression}", dialect="mysql").rows() == [(value,)], expression
    every = pfs.sql("select count(*) from setup_consumers", dialect="mysql").rows()[0][0]
    of_events = "select count(*) from setup_consumers where name {} like 'EVENTS%'".format
    counts = [pfs.sql(of_events(word), dialect="mysql").rows()[0][0] for word in ("", "not")]
    assert min(counts) > 0
    assert sum(counts) == every


def test_groups_mean_what_they_mean_in_mysql() -> None:
    sums = pfs.sql("select enabled, count(*) from setup_consumers group by enabled with rollup", dialect="mysql").rows()
    assert sums[-1] == (None, sum(count for _, count in sums[:-1]))
    without_group = "select name from setup_consumers having name like 'global%'"
    assert pfs.sql(without_group, dialect="mysql").rows() == [("global_instrumentation",)]
    after = f"select name from setup_consumers limit {2**64 - 1} offset 1"  # what MySQL's manual has for all rows
    assert len(pfs.sql(after, dialect="mysql")) == len(pfs.table("setup_consumers")) - 1


def test_columns_of_tables_and_views_are_converted() -> None:
    with pfs.statement("conversions/query", "select 1"):
        pass
    assert pfs.sql("select count(*) from global_variables where variable_value > 0", dialect="mysql").rows()[0][0] > 0
    assert pfs.sql("select variable_value + 0 from global_variables limit 1", dialect="mysql").columns == ["variable_value + 0"]
    assert pfs.sql("select count(*) from sys.statement_analysis where exec_count >= '1'", dialect="mysql").rows()[0][0] > 0
    inner = "select v + 1 from (select variable_value as v from global_variables where variable_name = 'port' or true) a limit 1"
    assert len(pfs.sql(inner, dialect="mysql")) == 1


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_the_clock_of_a_statement_is_that_of_the_tables(fresh: Run, zone: str) -> None:
    script = """
        import sqlite3
        import pfs

        pfs.dbapi(sqlite3).connect(":memory:").execute("select 1").fetchall()
        table = "performance_schema.events_statements_summary_by_digest"
        for dialect, clocks in (
            ("duckdb", ("now()", "current_timestamp", "get_current_timestamp()", "current_localtimestamp()")),
            ("mysql", ("now()", "now(6)", "utc_timestamp()", "sysdate()", "localtime", "localtimestamp()", "current_timestamp")),
        ):
            for clock in clocks:
                between = f"{clock} - interval '1' minute and {clock} + interval '1' second"
                recent = f"select count(*) from {table} where LAST_SEEN between {between}"
                assert pfs.sql(recent, dialect=dialect).rows() == [(1,)], (dialect, clock)
        for question, answer in (
            ("timestampdiff(second, max(last_seen), now()) between -1 and 60", True),
            ("abs(unix_timestamp() - unix_timestamp(max(last_seen))) < 60", True),
            ("date(max(last_seen)) in (curdate(), utc_date())", True),
            ("timestampdiff(minute, utc_timestamp(), now())", 0),
        ):
            assert pfs.sql(f"select {question} from {table}", dialect="mysql").rows() == [(answer,)], question
    """
    fresh(script, TZ=zone)


ANSWERS = {
    "cast('12abc' as signed)": 12,
    "cast('x' as double)": 0,
    "cast(-1 as unsigned)": 2**64 - 1,
    "cast('nothing' as date)": None,
    "0x10 + 1": 17,
    "~1": 2**64 - 2,
    "sqrt(-1)": None,
    "ln(0)": None,
    "format(12345, 0)": "12,345",
    "'2026-01-31' + interval 1 month": "2026-02-28",
    "interval 1 hour + '2026-01-01'": "2026-01-01 01:00:00",
    "date '2026-01-01' + interval 1 day": datetime.date(2026, 1, 2),
    "date_sub('2026-01-01 00:00:00', interval '1:30' minute_second)": "2025-12-31 23:58:30",
    "timestampdiff(month, '2026-01-31', '2026-02-28')": 0,
    "extract(year_month from '2026-05-06')": 202605,
    "date_format('2026-05-22', '%D')": "22nd",
    "str_to_date('x', '%Y')": None,
    "week('2024-12-30', 1)": 53,
    "json_set('{}', '$.a', 'b')": '{"a":"b"}',
    "json_value('{\"a\": \"x\"}', '$.a')": "x",
    "concat('a', 'b') like concat('A', char(37))": True,
}


def test_functions_mean_what_they_mean_in_mysql() -> None:
    (found,) = pfs.sql("select " + ", ".join(ANSWERS), dialect="mysql").rows()
    assert dict(zip(ANSWERS, found, strict=True)) == ANSWERS


def test_a_hash_of_another_length_is_refused() -> None:
    with pytest.raises(pfs.InvalidValue, match="256 bits"):
        pfs.sql("select sha2('a', 512)", dialect="mysql")
