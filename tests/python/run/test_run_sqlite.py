"""Statements of SQLite under ``pfs run``: each has its own rows and affected rows. What SQLite calls of itself is none."""

from __future__ import annotations

import ctypes.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

Counts = tuple[int, int, int]


def statements_of(tmp_path: Path, *command: str | Path) -> dict[str, Counts]:
    """Returns count, rows and affected rows by the text of the digest."""
    rows = report_of(tmp_path, *command)["statements"]
    return {row["digest_text"]: (row["count"], row["rows_sent"], row["rows_affected"]) for row in rows}


def of_python(tmp_path: Path, code: str) -> dict[str, Counts]:
    start = 'import sqlite3; c = sqlite3.connect(":memory:", isolation_level=None)\n'
    return statements_of(tmp_path, sys.executable, "-c", start + code)


def only(found: dict[str, Counts], word: str) -> Counts:
    [counts] = [counts for text, counts in found.items() if word in text]
    return counts


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ('c.execute("create temp table x(a)"); c.execute("drop table x")', 20),
        ("c.execute(\"attach ':memory:' as q\"); c.execute('detach q')", 20),
        ('c.execute("vacuum")', 10),
        ('c.execute("analyze")', 10),
        ('c.create_function("f", 1, lambda x: x)', 0),
    ],
)
def test_a_statement_that_is_prepared_again_keeps_its_rows(change: str, more: int, tmp_path: Path) -> None:
    """Any change of the schema makes SQLite reset a statement within its step."""
    found = of_python(
        tmp_path,
        f"""
c.execute("create table m(id integer primary key, a text)")
c.executemany("insert into m(a) values (?)", [(str(i),) for i in range(10)])
for i in range(10):
    {change}
    assert len(c.execute("select * from m").fetchall()) == 10
    assert c.execute("update m set a = ? where id = ?", ("q", i + 1)).rowcount == 1
""",
    )
    assert only(found, "SELECT *") == (10, 100, 0)
    assert only(found, "UPDATE") == (10, 0, 10)
    assert sum(count for count, _, _ in found.values()) == 31 + more


def test_a_statement_of_c_that_is_prepared_again(tmp_path: Path) -> None:
    program = tmp_path / "again.c"
    program.write_text(
        """
        #include <sqlite3.h>
        #include <stdio.h>
        int main(void) {
          sqlite3* db; sqlite3_stmt* s; int rows = 0;
          sqlite3_open(":memory:", &db);
          sqlite3_exec(db, "create table m(a); insert into m values (1), (2), (3)", 0, 0, 0);
          sqlite3_prepare_v2(db, "select a from m", -1, &s, 0);
          for (int i = 0; i < 5; i++) {
            sqlite3_exec(db, "create temp table t(x); drop table t", 0, 0, 0);
            while (sqlite3_step(s) == SQLITE_ROW) rows++;
            sqlite3_reset(s);
          }
          sqlite3_finalize(s);
          sqlite3_close(db);
          return rows != 15;
        }
        """
    )
    if shutil.which("gcc") is None or ctypes.util.find_library("sqlite3") is None:
        pytest.skip("needs gcc and sqlite3")
    made = subprocess.run(["gcc", program, "-o", tmp_path / "again", "-lsqlite3"], check=False, capture_output=True)
    if made.returncode != 0:
        pytest.skip("needs sqlite3.h")
    found = statements_of(tmp_path, tmp_path / "again")
    assert only(found, "SELECT") == (5, 15, 0)
    assert only(found, "INSERT") == (1, 0, 3)
    assert {count for count, _, _ in (only(found, "CREATE TEMP"), only(found, "DROP"))} == {5}
    assert len(found) == 5


def test_statements_that_nobody_sent_are_none(tmp_path: Path) -> None:
    """DDL, full-text tables, VACUUM and ANALYZE make SQLite prepare and execute statements of its own."""
    found = of_python(
        tmp_path,
        """
for i in range(10): c.execute(f"create table t{i}(a)")
c.execute("create virtual table f using fts5(x)")
for i in range(10): assert c.execute("insert into f values ('hello')").rowcount == 1
assert len(c.execute("select * from f where f match 'hello'").fetchall()) == 10
c.execute("vacuum"); c.execute("analyze")
c.execute("drop table f")
""",
    )
    assert sum(count for count, _, _ in found.values()) == 25
    assert only(found, "INSERT") == (10, 0, 10)
    assert only(found, "SELECT") == (1, 10, 0)
    assert only(found, "CREATE VIRTUAL") == (1, 0, 0)


def test_a_budget_counts_what_a_test_sends(tmp_path: Path) -> None:
    """Three times the same test of six statements: a library's own would be seven and more."""
    (tmp_path / "work.py").write_text(
        """
import sqlite3
def work(n):
    db = sqlite3.connect(":memory:")
    db.execute('create table "a"("x")')
    for i in range(n): db.execute('insert into "a" values (?)', (i,))
    assert db.execute('select count(*) from "a"').fetchone() == (n,)
"""
    )
    (tmp_path / "test_work.py").write_text(
        """
import pytest, work
@pytest.mark.pfs_budget(max_events={"statement/sqlite/statement": 6})
def test_enough(): work.work(3)
@pytest.mark.pfs_budget(max_events={"statement/sqlite/statement": 5})
def test_too_few(): work.work(3)
"""
    )
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, "--pfs-instrument", cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "6 events, the limit is 5" in done.stdout


ROWS = """
c.executescript("create table a(id integer primary key); create table log(x);"
                "create table b(a references a(id) on delete cascade);"
                "create trigger t after insert on a begin insert into log values (1), (2), (3); end; pragma foreign_keys = on;"
                "create view v as select id from a; create table big(x);"
                "create trigger w instead of insert on v begin insert into a values (new.id); end")
def changes(sql, *values):
    cursor = c.execute(sql, values)
    return cursor.rowcount
print(json.dumps([
    changes("insert into a values (1)"),
    changes("insert into b values (1), (1), (1), (1)"),
    changes("delete from a"),
    changes("insert into v values (7)"),
    changes("update a set id = id + 1"),
    changes("delete from a where id = 1000"),
    changes("replace into a values (8)"),
]))
"""


def test_affected_rows_are_those_of_the_statement(tmp_path: Path) -> None:
    """Without those of triggers and cascades: as cursor.rowcount has it, and pfs.dbapi."""
    start = 'import json, sqlite3\n{}c = module.connect(":memory:", isolation_level=None)\n'
    wrapped = (
        start.format("import pfs\nmodule = pfs.dbapi(sqlite3)\n")
        + ROWS
        + """
table = pfs.table("events_statements_history_long")
print(json.dumps(table[table["ROWS_AFFECTED"].notna()]["ROWS_AFFECTED"].to_list()[-7:]))
"""
    )
    done = run(sys.executable, "-c", wrapped, check=True).stdout.splitlines()
    expected = [1, 4, 1, 0, 1, 0, 1]
    assert [json.loads(line) for line in done] == [expected, expected]
    file = tmp_path / "program.py"
    file.write_text(start.format("module = sqlite3\n") + ROWS)
    found = statements_of(tmp_path, sys.executable, file)
    texts = ("INSERT INTO `a`", "INSERT INTO `b`", "DELETE FROM `a`", "INSERT INTO `v`", "UPDATE `a`", "`id` = ?", "REPLACE INTO")
    sums = {
        text: max(counts[2] for name, counts in found.items() if name.startswith(text)) for text in texts if text != "`id` = ?"
    }
    assert [sums[text] for text in texts if text in sums] == [1, 4, 1, 0, 1, 1]


def test_statements_between_the_steps_do_not_count(tmp_path: Path) -> None:
    """INSERT ... RETURNING is read, or left, after another statement has changed a hundred rows."""
    found = of_python(
        tmp_path,
        """
c.execute("create table m(a)"); c.execute("create table n(a)")
c.executemany("insert into n values (?)", [(i,) for i in range(100)])
cursor = c.execute("insert into m values (1), (2), (3) returning a")
assert cursor.fetchone() == (1,)
assert c.execute("update n set a = a + 1").rowcount == 100
assert len(cursor.fetchall()) == 2
left = c.execute("delete from m returning a, 'left'")
left.fetchone()
c.execute("update n set a = a + 2")
left.close()
c.execute("with x as (select 1) insert into m select * from x")
""",
    )
    assert only(found, "INSERT INTO `m` VALUES") == (1, 3, 3)
    assert only(found, "DELETE") == (1, 2, 3)  # the cursor reads a row in advance
    assert only(found, "WITH") == (1, 0, 1)
    assert sum(counts[2] for text, counts in found.items() if "UPDATE" in text) == 200


def test_two_threads_on_one_connection_do_not_mix(tmp_path: Path) -> None:
    found = of_python(
        tmp_path,
        """
import threading
c = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
for name, rows in (("a", 7), ("b", 3)):
    c.execute(f"create table {name}(x)")
    c.executemany(f"insert into {name} values (?)", [(1,)] * rows)
def work(name):
    for _ in range(300): c.execute(f"update {name} set x = x + 1")
threads = [threading.Thread(target=work, args=name) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    )
    assert only(found, "UPDATE `a`") == (300, 0, 2100)
    assert only(found, "UPDATE `b`") == (300, 0, 900)


def test_what_a_function_of_the_program_sends_is_recorded(tmp_path: Path) -> None:
    """SQLite calls the function within a step, and the function has a connection of its own."""
    found = of_python(
        tmp_path,
        """
d = sqlite3.connect(":memory:")
c.create_function("f", 1, lambda x: d.execute("select ? + 1", (x,)).fetchone()[0])
assert c.execute("select f(1), f(2)").fetchall() == [(2, 3)]
""",
    )
    assert only(found, "SELECT ? + ?") == (2, 2, 0)
    assert only(found, "`f`") == (1, 1, 0)


def test_a_program_that_ends_within_a_statement_is_the_same(tmp_path: Path) -> None:
    """An exception of the program's function, an interrupt, a connection that is closed with a statement open."""
    code = """
import sqlite3
c = sqlite3.connect(":memory:")
def raises(x): raise ValueError
c.create_function("r", 1, raises)
for sql in ("select r(1)", "select nothing", "insert into t values (1)"):
    try: c.execute(sql)
    except sqlite3.Error as error: print(type(error), error)
open_one = c.execute("select 1 union select 2"); open_one.fetchone(); c.close()
"""
    plain = run(sys.executable, "-c", code, check=True)
    watched = run(*PFS, "run", "--no-report", "--", sys.executable, "-c", code, check=True)
    assert (watched.stdout, watched.stderr) == (plain.stdout, plain.stderr)
