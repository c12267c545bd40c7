"""``pfs run`` shows the statements that unchanged clients of PostgreSQL and MariaDB send. The programs say themselves how many it
were, with how many rows, affected rows and errors.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from tests.python import servers
from tests.python.run.test_run import PFS, SOURCES, own_folder, pytestmark, report_of, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """Gives the connection string of a database with a table of 100 numbers."""
    with servers.postgresql() as given:
        shop = f"{given} dbname=shop"
        table = "create table numbers as select i as n from generate_series(1, 100) i"
        run(program_of_postgresql("psql"), "-X", shop, "-c", table, check=True)
        yield shop


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    with servers.mariadb() as socket:
        yield socket


def program_of_postgresql(name: str) -> str:
    """Returns the program itself: the one in /usr/bin is a script that starts it."""
    found = shutil.which(name, path=os.pathsep.join(sorted(glob.glob("/usr/lib/postgresql/*/bin"))))
    return servers.find(name) if found is None else found


def statements_of(tmp_path: Path, *command: str | Path, code: int = 0) -> dict[str, tuple[int, int, int, int]]:
    """Returns count, rows, affected rows and errors by the text of the digest."""
    rows = report_of(tmp_path, *command, code=code)["statements"]
    return {row["digest_text"]: (row["count"], row["rows_sent"], row["rows_affected"], row["errors"]) for row in rows}


def test_statements_of_psql(tmp_path: Path, postgresql: str) -> None:
    script = [
        "select n from numbers where n <= 11",
        "begin",
        "update numbers set n = n where n > 50",
        "rollback",
        "select nothing",
        "select n from numbers where n <= 5",
    ]
    command = [program_of_postgresql("psql"), "-X", postgresql, *(word for text in script for word in ("-c", text))]
    plain = run(*command)
    seen = run(*PFS, "run", "--no-report", "--", *command)
    assert (seen.stdout, seen.stderr, seen.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    assert statements_of(tmp_path, *command) == {
        "SELECT `n` FROM `numbers` WHERE `n` <= ?": (2, 16, 0, 0),
        "BEGIN": (1, 0, 0, 0),
        "UPDATE `numbers` SET `n` = `n` WHERE `n` > ?": (1, 0, 50, 0),
        "ROLLBACK": (1, 0, 0, 0),
        "SELECT NOTHING": (1, 0, 0, 1),
    }


def test_prepared_statements_of_pgbench(tmp_path: Path, postgresql: str) -> None:
    """pgbench sends without waiting, and has several connections in each thread. It counts itself."""
    (script := tmp_path / "script.sql").write_text(
        "\\set n random(1, 100)\nselect n from numbers where n = :n;\nupdate numbers set n = n where n = :n;\n"
    )
    where = dict(part.split("=") for part in postgresql.split())
    command = [program_of_postgresql("pgbench"), "-h", where["host"], "-U", "postgres", "-n", "-M", "prepared", "-f", str(script)]
    found = statements_of(tmp_path, *command, "-t", "40", "-c", "3", "-j", "2", "shop")
    turns = 3 * 40
    # Each connection also prepares each statement once, and that is one of the count.
    assert found["SELECT `n` FROM `numbers` WHERE `n` = ?"] == (turns + 3, turns, 0, 0)
    assert found["UPDATE `numbers` SET `n` = `n` WHERE `n` = ?"] == (turns + 3, 0, turns, 0)


DRIVERS = """
import sys, threading
first, second = (__import__(name) for name in sys.argv[2:4])
texts = []
def work(driver, turns):
    with driver.connect(sys.argv[1]) as db:
        for turn in range(turns):
            rows = db.cursor()
            rows.execute("select n from numbers where n <= %s", (turn,))
            texts.append(len(rows.fetchall()))
            rows.execute("select n as long_one from numbers where n in (" + ",".join(["1000"] * 2000) + ")")
            assert rows.fetchall() == []
        try:
            rows.execute("select nothing")
        except driver.Error:
            db.rollback()
threads = [threading.Thread(target=work, args=(driver, turns)) for driver in (first, second) for turns in (20, 30)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(texts), len(texts))
"""


@pytest.mark.parametrize("drivers", [("psycopg2", "psycopg2"), ("psycopg", "psycopg"), ("psycopg2", "psycopg")])
def test_statements_of_drivers_with_a_client_of_their_own(tmp_path: Path, postgresql: str, drivers: tuple[str, str]) -> None:
    """Both drivers bring a libpq, with another name each. Each call must reach the one of its caller, in every thread."""
    for name in drivers:
        pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[databases]'")
    command = [sys.executable, "-c", DRIVERS, postgresql, *drivers]
    plain = run(*command, check=True)
    seen = run(*PFS, "run", "--no-report", "--", *command)
    assert (seen.stdout, seen.returncode) == (plain.stdout, 0), seen.stderr
    rows, turns = (int(part) for part in plain.stdout.split())
    assert (rows, turns) == (2 * sum([*range(20), *range(30)]), 100)
    found = statements_of(tmp_path, *command)
    prepared = 2 * drivers.count("psycopg")  # it prepares what a connection repeats, and that is one of the count
    assert found["SELECT `n` FROM `numbers` WHERE `n` <= ?"] == (turns + prepared, rows, 0, 0)
    assert found["SELECT `n` AS `long_one` FROM `numbers` WHERE `n` IN (...)"] == (turns + prepared, 0, 0, 0)
    assert found["SELECT NOTHING"] == (4, 0, 0, 4)


PIPELINE = """
import sys, psycopg
with psycopg.connect(sys.argv[1]) as db:
    with db.pipeline():
        answers = [db.execute("select n from numbers where n <= %s", (turn,)) for turn in range(20)]
        print(sum(len(answer.fetchall()) for answer in answers))
    print(len(db.execute("select n + 1 from numbers").fetchall()))
    with db.cursor().copy("copy numbers to stdout") as copy:
        print(sum(1 for row in copy.rows()))
    db.execute("do $$ begin raise notice 'hello'; end $$")
"""


def test_a_pipeline_and_a_copy_run_as_without(tmp_path: Path, postgresql: str) -> None:
    """A pipeline is not recorded: its results come in turn, later."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[databases]'")
    command = [sys.executable, "-c", PIPELINE, postgresql]
    plain = run(*command, check=True)
    seen = run(*PFS, "run", "--no-report", "--", *command)
    assert (seen.stdout, seen.returncode) == (plain.stdout, 0), seen.stderr
    assert statements_of(tmp_path, *command)["SELECT `n` + ? FROM `numbers`"] == (1, 100, 0, 0)


MYSQL = """
import sys, MySQLdb
db = MySQLdb.connect(unix_socket=sys.argv[1], user="root", db="shop")
rows = db.cursor()
rows.execute("create or replace table python (n int primary key)")
for n in range(30):
    rows.execute("insert into python values (%s)", (n,))
for n in range(20):
    rows.execute("select n from python where n < %s", (n,))
    assert len(rows.fetchall()) == n
try:
    rows.execute("insert into python values (1)")
except MySQLdb.Error as error:
    print(error.args[0])
unbuffered = db.cursor(MySQLdb.cursors.SSCursor)
unbuffered.execute("select n, n from python")
print(len(unbuffered.fetchall()))
"""


def test_statements_of_mysqlclient(tmp_path: Path, mariadb: str) -> None:
    pytest.importorskip("MySQLdb", reason="mysqlclient is not installed: pip install '.[databases]'")
    command = [sys.executable, "-c", "import MySQLdb.cursors\n" + MYSQL, mariadb]
    plain = run(*command, check=True)
    assert plain.stdout == "1062\n30\n"
    seen = run(*PFS, "run", "--no-report", "--", *command)
    assert (seen.stdout, seen.returncode) == (plain.stdout, 0), seen.stderr
    found = statements_of(tmp_path, *command)
    assert found["INSERT INTO `python` VALUES (?)"] == (31, 0, 30, 1)
    assert found["SELECT `n` FROM `python` WHERE `n` < ?"] == (20, sum(range(20)), 0, 0)
    assert found["SELECT `n` , `n` FROM `python`"][0] == 1


# Each line that has a comment sends the statement of the comment.
OF_PSYCOPG2 = """
import sys, psycopg2
db = psycopg2.connect(sys.argv[1])
rows = db.cursor()
def ask(number): rows.execute("select %s + 1", (number,))  # select 5 + 1
ask(5)
rows.executemany("update numbers set n = n where n = %s", [(1,)])  # update numbers set n = n where n = 1
db.commit()  # COMMIT
"""
OF_PSYCOPG = """
import asyncio, sys, psycopg
with psycopg.connect(sys.argv[1]) as db:
    def ask(number): db.execute(f"select {number} + 1")  # select 5 + 1
    ask(5)
    db.execute("select %s::int", (7,))  # select $1::int
    db.execute("select %s::text", ("x",), prepare=True)  # select $1::text
    db.commit()  # COMMIT
async def work():
    async with await psycopg.AsyncConnection.connect(sys.argv[1], autocommit=True) as db:
        await db.execute("select 9")  # select 9
asyncio.run(work())
"""
OF_MYSQLCLIENT = """
import sys, MySQLdb
db = MySQLdb.connect(unix_socket=sys.argv[1], user="root", db="shop")
rows = db.cursor()
def ask(number): rows.execute("select %s + 1", (number,))  # select 5 + 1
ask(5)
rows.execute("select 7")  # select 7
"""
# While a statement waits, another greenlet sends its own. None has the line of another.
OF_GREENLETS = """
import sys, gevent, gevent.select, psycopg2, psycopg2.extensions
def wait(connection):
    while state := connection.poll():
        gevent.select.select([connection] * (state == 1), [connection] * (state == 2), [])
psycopg2.extensions.set_wait_callback(wait)
both = [psycopg2.connect(sys.argv[1]).cursor() for _ in range(2)]
def first():
    both[0].execute("select pg_sleep(0.05)")  # select pg_sleep(0.05)
    both[0].execute("select 1")  # select 1
def second():
    both[1].execute("select pg_sleep(0.1)")  # select pg_sleep(0.1)
    both[1].execute("select 2")  # select 2
gevent.joinall([gevent.spawn(first), gevent.spawn(second)])
open("file", "w").close()
"""


@pytest.mark.parametrize(
    ("program", "server", "drivers"),
    [
        (OF_PSYCOPG2, "postgresql", "psycopg2"),
        (OF_PSYCOPG, "postgresql", "psycopg"),
        (OF_MYSQLCLIENT, "mariadb", "MySQLdb"),
        (OF_GREENLETS, "postgresql", "psycopg2 gevent"),
    ],
)
def test_statements_of_drivers_have_the_line_of_python(
    tmp_path: Path, request: pytest.FixtureRequest, program: str, server: str, drivers: str
) -> None:
    for name in drivers.split():
        pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[databases]'")
    (script := tmp_path / "program.py").write_text(program)
    run(
        *PFS,
        "run",
        "--keep",
        "--no-report",
        "--",
        sys.executable,
        script,
        request.getfixturevalue(server),
        check=True,
        cwd=tmp_path,
    )
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(str(segment)) as schema:
        events = schema.table("events_statements_history_long")
        found = set(zip(events["SQL_TEXT"], events["SOURCE"], strict=True))
        waits = schema.table("events_waits_history_long")
    lines = {text: f"program.py:{n}" for n, line in enumerate(program.splitlines(), 1) if (text := line.partition("  # ")[2])}
    assert len(lines) >= 2
    assert {(text, source) for text, source in found if text in lines} == set(lines.items())
    if "gevent" in drivers:  # and no event after them has a line of theirs
        ours = set(waits["SOURCE"][waits["EVENT_NAME"].str.startswith("wait/io/socket/")])
        assert not ours & set(lines.values())


def test_prepared_statements_of_mysql(tmp_path: Path, mariadb: str) -> None:
    program = tmp_path / "mysql_prepared"
    flags = run(servers.find("mariadb_config"), "--cflags", "--libs", check=True).stdout.split()
    run("cc", "-O1", "-g", "-o", program, SOURCES / "mysql_prepared.c", *flags, check=True)

    def clean() -> None:
        run(
            servers.find("mariadb"),
            "--no-defaults",
            "-S",
            mariadb,
            "-u",
            "root",
            "shop",
            "-e",
            "drop table if exists numbers",
            check=True,
        )

    clean()
    assert run(program, mariadb, check=True).stdout == "20 rows, error 1146\n"
    clean()
    found = statements_of(tmp_path, program, mariadb)
    assert found["INSERT INTO `numbers` VALUES (?)"] == (1 + 25, 0, 25, 0)
    assert found["SELECT `n` FROM `numbers` WHERE `n` < ?"] == (2 + 2, 20, 0, 0)
    assert found["SELECT `n` FROM `nothing`"] == (1, 0, 0, 1)


def test_what_a_statement_waits_for_is_nested_in_it(tmp_path: Path, postgresql: str) -> None:
    """The socket is written, polled and read inside the statement."""
    environment = os.environ | {"PFS_OPTIONS": "consumer_events_waits_history_long=ON,consumer_events_statements_history_long=ON"}
    command = [program_of_postgresql("psql"), "-X", postgresql, "-c", "select pg_sleep(0.05)"]
    done = run(*PFS, "run", "--keep", "--no-report", "--", *command, env=environment)
    assert done.returncode == 0, done.stderr
    (segment,) = (tmp_path / "segments").rglob("*.pfs")
    with pfs.attach(str(segment)) as schema:
        statements = schema.table("events_statements_history_long")
        waits = schema.table("events_waits_history_long")
    there = statements[statements["SQL_TEXT"].str.contains("pg_sleep")]
    assert len(there) == 1
    slept = {name: there[name].iloc[0] for name in there}
    assert slept["TIMER_WAIT"] > 50e9
    assert slept["EVENT_NAME"] == "statement/libpq/query"
    assert slept["CURRENT_SCHEMA"] == "shop"
    inside = waits[(waits["NESTING_EVENT_TYPE"] == "STATEMENT") & (waits["NESTING_EVENT_ID"] == slept["EVENT_ID"])]
    assert set(inside["OPERATION"]) == {"send", "recv"}
    assert inside["TIMER_START"].min() >= slept["TIMER_START"]
    assert inside["TIMER_END"].max() <= slept["TIMER_END"]
    idle = waits[waits["EVENT_NAME"] == "idle"]  # the poll; idle events never have a parent
    longest = idle[idle["TIMER_WAIT"] > 40e9]
    assert len(longest) == 1
    assert slept["TIMER_START"] <= longest["TIMER_START"].iloc[0]
    assert longest["TIMER_END"].iloc[0] <= slept["TIMER_END"]


def test_statements_beyond_the_places_are_counted(tmp_path: Path) -> None:
    """20,000 cursors are open at a time."""
    script = (
        "import sqlite3; c = sqlite3.connect(':memory:'); c.execute('create table t(a)');"
        "c.executemany('insert into t values(?)', [(1,), (2,)]);"
        "cursors = [c.execute('select a from t') for _ in range(20000)]; print(len([next(x) for x in cursors]))"
    )
    file = tmp_path / "report.json"
    done = run(*PFS, "run", "--json", "-o", file, "--", sys.executable, "-c", script)
    assert (done.stdout, done.returncode) == ("20000\n", 0)
    report = json.loads(file.read_text())
    shown = next(row["count"] for row in report["statements"] if row["digest_text"] == "SELECT `a` FROM `t`")
    assert shown > 12_000
    assert report["lost"] == {"Performance_schema_locker_lost": 20_000 - shown}


def test_text_that_sqlite_cannot_prepare_is_a_statement_with_its_error(tmp_path: Path) -> None:
    """The program's own log is the witness: each statement, and whether it raised."""
    script = """
import json, sqlite3
link = sqlite3.connect(":memory:", cached_statements=0)
log = {}
for text in 2 * ["create table t(a)"] + 3 * ["select a from nothing"] + ["selekt", "select 1 x", "insert into t values(1, 2)"]:
    entry = log.setdefault(text, [0, 0])
    entry[0] += 1
    try:
        link.execute(text).fetchall()
    except sqlite3.Error:
        entry[1] += 1
print(json.dumps(log))
"""
    done = run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, "-c", script, check=True)
    (segment,) = (tmp_path / "segments").rglob("*.pfs")
    with pfs.attach(str(segment)) as schema:
        found = schema.table("events_statements_history_long")
        by_digest = schema.table("events_statements_summary_by_digest")
    log = json.loads(done.stdout)
    assert log["select a from nothing"] == [3, 3]
    assert log["create table t(a)"] == [2, 1]
    errors = {text: int(rows["ERRORS"].sum()) for text, rows in found.groupby("SQL_TEXT")}
    assert errors == {text: raised for text, (_, raised) in log.items()}
    assert int(by_digest["COUNT_STAR"].sum()) == sum(count for count, _ in log.values())
    assert int(by_digest["SUM_ERRORS"].sum()) == sum(raised for _, raised in log.values()) == 6


def test_clients_are_found_without_the_dynamic_linker(tmp_path: Path, postgresql: str) -> None:
    """A probe that asked the dynamic linker could wait for its lock. It notes that it had to."""
    insert = "import sqlite3; c = sqlite3.connect(':memory:'); c.execute('create table t(a)'); print(c.total_changes)"
    commands: list[list[str | Path]] = [
        [program_of_postgresql("psql"), "-X", postgresql, "-c", "select 1"],
        [sys.executable, "-c", insert],
        [sys.executable, "-c", f"import psycopg; print(psycopg.connect('{postgresql}').execute('select 1').fetchone())"],
    ]
    if shutil.which("sqlite3") is not None:
        commands.append(["sqlite3", ":memory:", "create table t(a)"])
    for command in commands:
        run(*PFS, "run", "--keep", "--no-report", "--", *command, check=True)
    segments = list((tmp_path / "segments").glob("*/*.pfs"))
    assert len(segments) == len(commands)
    for segment in segments:
        with pfs.attach(str(segment)) as schema:
            log = schema.table("error_log")
            assert list(log[log["ERROR_CODE"] == "PFS-RUN"]["DATA"]) == []
            assert len(schema.table("events_statements_summary_by_digest")) > 0
