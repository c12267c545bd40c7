"""What a DBA types carries over: CREATE TABLE texts that a server takes with their rows, names with a schema, INSERT by place."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests.conftest import Run
from tests.each import for_each
from tests.python import servers
from tests.python._programs.driver import raises
from tests.python._programs.fresh_process import fresh_process
from tests.python.programs.test_programs import environment


def moment(micros: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=micros)


@pytest.mark.needs("mariadb")
def test_every_table_loads_into_a_server_with_its_own_rows() -> None:
    """Keys that may be NULL are UNIQUE KEYs: a PRIMARY KEY takes no NULL."""
    import pymysql

    with pfs.open(__file__, name="habits/file") as file, pfs.Lock("habits/LOCK_one"):
        file.read()
    pfs.set_account("habits", "localhost")
    with pfs.statement("sql/select", text="select 1"):
        pass
    loaded = 0
    with servers.mariadb() as socket:
        db = pymysql.connect(unix_socket=socket, user="root", database="shop", autocommit=True)
        cursor = db.cursor()
        cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE'")
        for table in pfs.tables():
            cursor.execute(pfs.ddl(table).replace("`performance_schema`.", "`shop`.", 1))
            is_time = [column["kind"] == "timestamp" for column in _core.table_info(table)["columns"]]
            rows = [
                [moment(value) if at and value is not None else value for value, at in zip(row, is_time, strict=True)]
                for row in _core.rows(table, None, None)
            ]
            if rows:
                places = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO `{table}` VALUES ({places})", rows)
            cursor.execute(f"SELECT COUNT(*) FROM `{table}`")
            assert cursor.fetchone() == (len(rows),), table
            loaded += len(rows)
        # Defaults are those of the table.
        cursor.execute("DELETE FROM setup_actors")
        cursor.execute("INSERT INTO setup_actors (USER) VALUES ('joe')")
        cursor.execute("SELECT * FROM setup_actors")
        assert cursor.fetchone()[:5] == ("%", "joe", "%", "YES", "YES")
        db.close()
    assert loaded > 500


@for_each("table", pfs.tables())
def test_a_key_that_may_be_null_is_no_primary_key(table: str) -> None:
    facts, text = _core.table_info(table), pfs.ddl(table)
    may_be_null = any(column["nullable"] for column in facts["columns"] if column["name"] in facts["key"])
    assert ("UNIQUE KEY" in text) == may_be_null
    assert ("PRIMARY KEY" in text) == bool(facts["key"] and not may_be_null)
    assert all(f"`{column['name']}`" in text for column in facts["columns"])


def test_names_of_tables_may_have_their_schema() -> None:
    plain = pfs.table("setup_consumers")
    assert pfs.table("performance_schema.setup_consumers").equals(plain)
    assert pfs.table("PERFORMANCE_SCHEMA.SETUP_CONSUMERS").equals(plain)
    assert pfs.ddl("performance_schema.threads") == pfs.ddl("threads")
    with pytest.raises(pfs.UnknownTable):
        pfs.table("information_schema.threads")


@fresh_process()
def test_insert_by_place() -> None:
    """INSERT INTO SETUP_ACTORS VALUES ('%', 'joe', '%', 'YES')."""
    pfs.setup_actors.insert("%", "joe", "%", "YES")
    pfs.setup_objects.insert("TABLE", "shop", enabled=False)
    actors = {tuple(row) for row in _core.rows("setup_actors", ["HOST", "USER", "ROLE", "ENABLED", "HISTORY"], None)}
    assert ("%", "joe", "%", "YES", "YES") in actors
    columns = ["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "ENABLED"]
    objects = {tuple(row) for row in _core.rows("setup_objects", columns, None)}
    assert ("TABLE", "shop", "%", "NO") in objects
    raises(pfs.InvalidValue, lambda: pfs.setup_actors.insert(*"1234567"), "columns, not 7", "HOST, USER")
    raises(pfs.InvalidValue, lambda: pfs.setup_actors.insert("%", host="%"), "HOST is given twice")
    raises(pfs.OperationNotAllowed, lambda: pfs.setup_consumers.insert("x"), "INSERT is not allowed")


@fresh_process()
def test_a_joined_thread_is_gone() -> None:
    """E3, F3, F13: right after join(), without a delay, also if the thread ended by an exception."""
    import threading

    threading.excepthook = lambda _: None
    lock = pfs.Lock("habits/LOCK_joined")

    def work(fails: bool) -> None:
        pfs.set_account("joe", "localhost")
        with lock:
            pass
        if fails:
            raise ValueError

    for i in range(200):
        thread = pfs.Thread(target=work, args=(i % 2 == 1,))
        thread.start()
        thread.join()
        (account,) = [row for row in _core.rows("accounts", None, None) if row[0] == "joe"]
        assert account[2:4] == (0, i + 1)
        names = [str(row[0]) for row in _core.rows("threads", ["NAME"], None)]
        assert not [name for name in names if name.startswith("thread/python/Thread-")], names
    (total,) = [
        row[1]
        for row in _core.rows("events_waits_summary_by_account_by_event_name", ["EVENT_NAME", "COUNT_STAR", "USER"], None)
        if row[0].endswith("LOCK_joined") and row[2] == "joe"
    ]
    assert total == 200


# ---- The dead ----------------------------------------------------------------------------------------------------------------

SERVICE = """
import os, signal, pfs
for i in range(3000):
    with pfs.statement("service/get", text=f"select {i} from t{i % 500}"), pfs.Lock(f"service/LOCK_{i % 50}"):
        pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_five_kills_leave_no_more_than_the_bound(tmp_path: Path) -> None:
    options = "performance_schema_max_dead_megabytes=6"
    for _ in range(5):
        env = environment(tmp_path, PFS_OPTIONS=options)
        done = subprocess.run([sys.executable, "-c", SERVICE], env=env, check=False)
        assert done.returncode == -signal.SIGKILL
    there = pfs.processes(tmp_path)
    sizes = [int(size) for size in there["SIZE"]]
    assert set(there["STATE"]) == {"dead"}
    assert len(sizes) < 5
    assert sum(sizes) - max(sizes) <= 6 * 2**20  # the last one stays in any case


def test_ps_shows_the_living_first_then_three_of_the_dead_and_the_sum_of_all(tmp_path: Path, fresh: Run) -> None:
    options = "performance_schema_max_dead_megabytes=64"
    for _ in range(4):
        service = [sys.executable, "-c", "import os, pfs; pfs.Lock('ps/LOCK_two').acquire(); os.kill(os.getpid(), 9)"]
        subprocess.run(service, env=environment(tmp_path) | {"PFS_OPTIONS": options}, check=False)
    script = """
        import subprocess, sys, pfs
        with pfs.Lock("ps/LOCK_one"): pass
        for options in ([], ["--all"], ["--where", "STATE = 'dead'"]):
            done = subprocess.run([sys.executable, "-m", "pfs", "ps", *options], capture_output=True, text=True)
            print([line.split(str(pfs.processes()["USER"][0]))[1].split()[2] for line in done.stdout.splitlines()[1:]])
            print(done.stderr, end="")
        started = pfs.processes()["STARTED"].tolist()
        print(started[1] > started[2])
    """
    states, hint, of_all, hint_of_all, of_dead, _, newest_first = fresh(script, options=options).splitlines()
    assert states == str(["alive"] + ["dead"] * 3)
    assert of_all == str(["alive"] + ["dead"] * 4)
    assert of_dead == str(["dead"] * 4)
    assert newest_first == "True"
    assert re.fullmatch(r"4 dead, [0-9.]+ [KM]iB, 1 of them not shown \(--all\): pfs gc removes them", hint), hint
    assert re.fullmatch(r"4 dead, [0-9.]+ [KM]iB: pfs gc removes them", hint_of_all), hint_of_all
