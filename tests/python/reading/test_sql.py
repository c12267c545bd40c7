"""pfs.sql: reads what a statement names, once; exact numbers; no files, no writes; errors that name the nearest."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pandas as pd
import pyarrow  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
from pfs._read.source import OWN
from pfs._save.held import Held, HeldTables
from pfs._sql import database
from pfs._sql import result as pfs_result
from pfs._sql.names import names_in
from pfs._sql.query import run
from pfs._sql.sources import ProcessTables
from pfs._sql.views.declared import VIEWS
from tests.python._programs.subject import Subject, subject, until

WAITS = "events_waits_summary_global_by_event_name"


class Counted(ProcessTables):
    """Counts the reads."""

    def __init__(self) -> None:
        super().__init__(OWN)
        self.read: list[tuple[str, Sequence[str] | None]] = []

    def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
        self.read.append((table, columns))
        return super().arrow(table, columns, any_order)


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder) as running:
        running.do("lock = pfs.Lock('app/LOCK')")
        running.do("[lock.acquire() and lock.release() for _ in range(7)]")
        yield running


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("select count(*) from threads", [("threads", ["THREAD_ID"])]),
        ("select NAME from performance_schema.Threads t where t.type = 'FOREGROUND'", [("threads", ["NAME", "TYPE"])]),
        ("select * from hosts", [("hosts", None)]),
        ("select a.user from accounts a join accounts b using (host)", [("accounts", ["USER", "HOST"])]),
        ("with c as (select name from threads) select * from c", [("threads", None)]),
        ("select h from hosts h", [("hosts", None)]),
        ("select 1 where 1 in (select thread_id from threads)", [("threads", ["THREAD_ID"])]),
        ("select user from users union all select host from hosts", [("users", ["USER"]), ("hosts", ["HOST"])]),
        ("select 1", []),
    ],
)
def test_reads_only_what_is_named(statement: str, read: list[tuple[str, list[str] | None]]) -> None:
    tables = Counted()
    run(statement, tables)
    assert sorted(tables.read, key=str) == sorted(read, key=str)


def test_a_self_join_reads_once() -> None:
    tables = Counted()
    run("select count(*) from threads a join threads b using (thread_id) join threads c using (thread_id)", tables)
    assert len(tables.read) == 1


FREE_OF_ORDER = [
    "select EVENT_NAME, count(*), sum(TIMER_WAIT) from x where a > 3 and b like '%a%' and not d group by 1 having count(*) > 1",
    "select a, round(avg(b) / 1000, 1) from x group by all order by 2 desc limit 10",
    "select min(a), max(b), sum(case when a > 1 then 1 else 0 end), sum(a) filter (where a > 1) from x",
]
NOT_FREE_OF_ORDER = [
    "select * from x",
    "select distinct a from x",
    "select a from x order by a limit 3",
    "select first(a), count(*) from x",
    "select string_agg(a), count(*) from x",
    "select arg_max(a, b), count(*) from x",
    "select max(a) over () from x",
    "select count(*), row_number() over () from x group by 1",
    "select count(*) from (select * from x limit 5)",
    "select count(*) from x positional join y",
    "select count(*) from x tablesample 10%",
    "select count(*) from x union all select 1",
    "with q as (select a from x limit 1) select count(*) from q",
]


@pytest.mark.parametrize(
    ("statement", "is_free"), [*((each, True) for each in FREE_OF_ORDER), *((each, False) for each in NOT_FREE_OF_ORDER)]
)
def test_events_are_read_in_any_order_only_if_nobody_sees_it(statement: str, is_free: bool) -> None:
    assert names_in(duckdb.connect(), statement).is_free_of_order == is_free


def test_events_of_a_view_are_read_in_order() -> None:
    """The view, not the statement, may show their order."""

    class Noted(ProcessTables):
        def arrow(self, table: str, columns: Sequence[str] | None, any_order: bool = False) -> object:
            asked.append(any_order)
            return super().arrow(table, columns, any_order)

    asked: list[bool] = []
    views = {"own.last": "select last(EVENT_ID) as id from events_waits_history_long"}
    run("select sum(id) from own.last", Noted(OWN), views=views)
    run("select sum(EVENT_ID) from events_waits_history_long", Noted(OWN), views=views)
    assert asked == [False, True]


def test_an_answer_is_the_same_for_events_in_any_order(program: Subject) -> None:
    """Three threads wait for locks, and end their waits in another order than they began them."""
    history = "events_waits_history_long"
    program.do(f"pfs.setup_consumers[{history!r}].enabled = True")
    program.do("locks = [pfs.Lock('sql/ORDER') for _ in range(3)]")
    program.do("[lock.acquire() for lock in locks]")
    program.do("import threading; threads = [threading.Thread(target=lock.acquire) for lock in locks]")
    schema = pfs.attach(program.pid)
    for number in range(3):
        program.do(f"threads[{number}].start()")
        until(lambda number=number: len(schema.table("blocked")) == number + 1)  # type: ignore[misc]
    for number in (2, 0, 1):
        program.do(f"locks[{number}].release(); threads[{number}].join()")
    waits: list[list[tuple[int, int]]] = []
    for any_order in (False, True):
        rows = [
            row for row in pyarrow.table(schema._source.arrow(history, None, any_order)).to_pylist() if row["OPERATION"] == "lock"
        ]
        main = min(row["THREAD_ID"] for row in rows)
        waits.append([(row["TIMER_START"], row["TIMER_END"]) for row in rows if row["THREAD_ID"] != main])
    in_order, in_any_order = waits
    assert len(in_order) == 3
    assert in_order == sorted(in_order, key=lambda row: row[1]) != sorted(in_order)
    assert sorted(in_any_order) == sorted(in_order) != in_order
    assert in_any_order != in_order  # else the flag does nothing
    statement = (
        f"select count(*), min(TIMER_START), max(TIMER_END), sum(TIMER_END - TIMER_START) from {history} where OPERATION = 'lock'"
    )
    starts, ends = ([row[name] for row in rows] for name in ("TIMER_START", "TIMER_END"))
    assert schema.sql(statement).rows() == [(len(rows), min(starts), max(ends), sum(ends) - sum(starts))]


def test_same_answer_live_dead_and_saved(program: Subject, tmp_path: Path) -> None:
    question = f"select EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT from {WAITS} where EVENT_NAME like '%app/LOCK' order by 1"
    alive = pfs.sql(question, program.pid).rows()
    assert [row[:2] for row in alive] == [("wait/synch/mutex/app/LOCK", 7)]
    with pfs.attach(program.pid) as schema:
        assert schema.sql(question).rows() == alive
        taken = schema.snapshot(tmp_path / "saved")
    assert taken.sql(question).rows() == alive
    taken.to_file(tmp_path / "saved.pfs.zip")
    os.kill(program.pid, signal.SIGKILL)
    program.process.wait()
    assert pfs.sql(question, program.pid).rows() == alive
    assert pfs.sql(question, tmp_path / "saved").rows() == alive
    assert pfs.sql(question, tmp_path / "saved.pfs.zip").rows() == alive
    frame = taken[WAITS]
    expected = frame[frame["EVENT_NAME"].str.endswith("app/LOCK")][["EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT"]]
    assert pfs.sql(question, tmp_path / "saved").df().to_dict("records") == expected.to_dict("records")


def test_integers_are_exact() -> None:
    big = 2**64 - 1
    frame = pd.DataFrame({"N": pd.array([big, big, big, None], dtype="UInt64")})
    result = run("select sum(N) as s, max(N) as m, count(*) as c from t", HeldTables(Held({"t": frame})))
    assert result.rows() == [(3 * big, big, 4)]
    assert result.df()["s"][0] == 3 * big
    assert result.df()["m"][0] == big
    assert run("select sum(N) as s from t where N < 0", HeldTables(Held({"t": frame}))).df()["s"].isna().all()


@pytest.mark.parametrize("saved", ["saved", "saved.pfs.zip"])
def test_integers_of_saved_snapshots_are_exact(tmp_path: Path, saved: str) -> None:
    numbers = [2**64 - 1, 2**63, 2**63 - 1, 0]
    empty = pfs.snapshot()[WAITS].iloc[:0]
    frame = empty.reindex(range(4)).assign(EVENT_NAME=list("abcd"), MAX_SOURCE="a.c:1")
    frame = frame.assign(SUM_TIMER_WAIT=np.array(numbers, np.uint64))
    frame = frame.fillna(0).astype(empty.dtypes.to_dict() | {"SUM_TIMER_WAIT": "uint64"})
    taken = pfs.snapshot()
    large = pfs.Snapshot({WAITS: frame}, taken.process, taken.time, 0)
    (large.to_file if saved.endswith(".zip") else large.to_folder)(tmp_path / saved)
    question = (
        f"select sum(SUM_TIMER_WAIT), max(SUM_TIMER_WAIT), sum(SUM_TIMER_WAIT) filter (SUM_TIMER_WAIT >= {2**63}) from {WAITS}"
    )
    for source in (large, tmp_path / saved, pfs.read_snapshot(tmp_path / saved)):
        assert pfs.sql(question, source).rows() == [(sum(numbers), numbers[0], 2**64 - 1 + 2**63)]


def test_frames_have_the_types_of_tables() -> None:
    """A number is int64 where it fits, and nullable where a NULL is. ENUM is text, because DuckDB has it not."""
    frame = pd.DataFrame(
        {
            "A": np.array([1, 2], np.uint64), "B": np.array([1, 2**63], np.uint64), "C": pd.array([1, None], dtype="UInt64"),
            "D": pd.array([None, 2**63], dtype="UInt64"), "E": np.array([1, 2], np.int32), "F": pd.Categorical(["x", None]),
            "G": np.array(["2026-01-01", "NaT"], "datetime64[us]"), "H": [0.5, 1.5],
        }
    )  # fmt: skip
    found = run("select * from t", HeldTables(Held({"t": frame}))).df()
    kinds = ["int64", "uint64", "Int64", "UInt64", "int32", "string", "datetime64[us]", "float64"]
    assert [str(kind) for kind in found.dtypes] == kinds
    assert found["D"].tolist()[1] == 2**63
    sums = run(
        "select sum(A) as a, sum(B) as b, sum(C) filter (A > 5) as c, -sum(A) as d from t", HeldTables(Held({"t": frame}))
    ).df()
    assert [str(kind) for kind in sums.dtypes] == ["int64", "uint64", "Int64", "int64"]
    threads = pfs.sql("select * from threads").df()
    for name, column in pfs.table("threads").items():
        other = threads[name]
        assert str(other.dtype).lower() == ("string" if column.dtype == "category" else str(column.dtype).lower()), name


def test_result_shows_itself() -> None:
    frame = pd.DataFrame({"NAME": ["main"], "THREAD_ID": [1]})
    result = run("select NAME, THREAD_ID from threads order by 2 limit 1", HeldTables(Held({"threads": frame})))
    assert len(result) == 1
    assert result.columns == ["NAME", "THREAD_ID"]
    assert repr(result).startswith("1 row\nNAME")
    assert "<table>" in result._repr_html_()
    import polars

    for _ in range(2):
        assert polars.DataFrame(result.arrow).rows() == result.rows() == polars.DataFrame(result).rows()


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{path}')",
        "select * from '{path}'",
        "select * from read_text('{path}')",
        "copy (select 1) to '{path}.out'",
        "attach '{path}.db' as other",
        "install httpfs",
        "set enable_external_access = true",
        "select * from glob('{path}')",
        "select * from read_parquet('{path}')",
        "create table t as select 1",
    ],
)
@pytest.mark.parametrize("saved", [None, "saved", "saved.pfs.zip"])
def test_no_file_is_reachable(tmp_path: Path, statement: str, saved: str | None) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a,b\n1,2\n")
    taken = pfs.snapshot()
    if saved is not None:
        (taken.to_file if saved.endswith(".zip") else taken.to_folder)(tmp_path / saved)
    with pytest.raises(pfs.Error):
        pfs.sql(statement.format(path=path), None if saved is None else tmp_path / saved)
    assert {each.name for each in tmp_path.iterdir()} == {"secret.csv", saved} - {None}


def test_a_statement_on_a_folder_reaches_only_the_tables_that_it_names(tmp_path: Path) -> None:
    pfs.snapshot(tmp_path / "saved")
    other = tmp_path / "saved/hosts.parquet"
    assert other.exists()
    with pytest.raises(pfs.InvalidValue, match=r"hosts\.parquet"):
        pfs.sql(f"select t.* from threads as t, read_parquet('{other}')", tmp_path / "saved")


@pytest.mark.parametrize("name", ["it's", """q"'];copy (select 1) to 'made.csv';--"""])
def test_a_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The name of a folder is no part of the statement, for DuckDB neither."""
    monkeypatch.chdir(tmp_path)
    pfs.snapshot(tmp_path / name)
    assert pfs.sql("select count(*) from threads", tmp_path / name).rows()[0][0] > 0
    assert [each.name for each in tmp_path.iterdir()] == [name]


def _asks_of(function: str) -> list[str]:
    """Returns statements that call a function, each written in another way."""
    calls = [f"{function}(2)", f'"{function}"(2)', f"{function.upper()} /* ( */ (2)", f'"{function}" -- "\n(2)']
    calls += [f"list_transform([1], lambda x: {function}(2))", f"first({function}(2)) over ()"]
    one = "(select 'x' as b, 1 as a)"
    return [
        *(f"select {call}" for call in calls),
        *(f"select 1 from (pivot (select 'x' as b, {call} as a) on b in ('x') using count(*))" for call in calls),
        *(f"select 1 from (pivot {one} on b in ('x') using first({call}))" for call in calls[:4]),
        *(f"from {one} pivot (first({call}) for b in ('x'))" for call in calls[:4]),
        *(f"summarize select {call}" for call in calls),
        *(f"explain analyze select {call}" for call in calls),
        f"from query('select {function}(2)')",
        f"from json_execute_serialized_sql(json_serialize_sql('select {function}(2)'))",
        f"select 1 from (pivot (from query('select ''x'' as b, {function}(2)')) on b in ('x') using count(*))",
    ]


_SLEEPS = [
    name
    for (name,) in duckdb.execute(
        "select distinct function_name from duckdb_functions() where contains(lower(function_name), 'sleep') order by all"
    ).fetchall()
]
assert set(_SLEEPS) >= {"pg_sleep", "sleep_ms"}


@pytest.mark.parametrize("function", _SLEEPS)
def test_a_statement_cannot_sleep(tmp_path: Path, function: str) -> None:
    for statement in _asks_of(function):
        with pytest.raises(pfs.OperationNotAllowed, match=r"^(\w*sleep\w*|query|json_execute_serialized_sql)\(\) is not"):
            pfs.sql(statement)
    with pytest.raises(pfs.OperationNotAllowed, match=function):
        pfs.sql(f"select {function}(2)", dialect="mysql")
    pfs.snapshot(tmp_path / "saved")
    command = [sys.executable, "-m", "pfs", "sql", str(tmp_path / "saved"), f"select {function}(2)"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{function}() is not allowed" in ended.stderr


def test_a_text_may_name_a_function_that_sleeps() -> None:
    named = "select 'pg_sleep(2)' as b, 'sleep_ms (2)' as a -- query(2)"
    assert pfs.sql(f"from (pivot ({named}\n) on b in ('x', 'pg_sleep(2)') using first(a))").rows() == [(None, "sleep_ms (2)")]
    assert pfs.sql(named).rows() == [("pg_sleep(2)", "sleep_ms (2)")]


def test_a_statement_has_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfs._sql.database._MILLISECONDS", 200)
    monkeypatch.setattr("pfs._sql.database._idle", [])
    with pytest.raises(pfs.InvalidValue, match="maximum execution time"):
        pfs.sql("select count(*) from range(100000000000000)")


@pytest.mark.parametrize("dialect", ["duckdb", "mysql"])
def test_show_tables_are_those_that_can_be_read(dialect: Literal["duckdb", "mysql"]) -> None:
    shown = pfs.sql("show tables;", dialect=dialect)
    names = [name for (name,) in shown.rows()]
    assert names[: len(pfs.tables())] == list(pfs.tables())
    assert set(names) - set(pfs.tables()) == {f"sys.{view}" for view in VIEWS}
    assert shown.columns == ["name"]
    assert pfs.sql("/* of a tool */ -- and\nshow tables", dialect=dialect).rows() == shown.rows()
    assert pfs.sql("/**/" * 100 + "select 1 as a", dialect=dialect).rows() == [(1,)]  # in no time that doubles with each
    like = pfs.sql("SHOW tables LIKE '%Digest';", dialect=dialect).rows()
    assert like == [("events_statements_histogram_by_digest",), ("events_statements_summary_by_digest",)]


@pytest.mark.parametrize("dialect", ["duckdb", "mysql"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("show variables", r"SHOW VARIABLES has no answer here: legal are SHOW TABLES \[LIKE '\.\.\.'\] and DESCRIBE TABLE"),
        ("show global status like 'x%';", "SHOW GLOBAL has no answer here"),
        ("SHOW processlist", r"SHOW PROCESSLIST has no answer here: ask 'select \* from processlist'"),
        ("show tables from sys", "SHOW TABLES has no answer here"),
    ],
)
def test_other_show_statements_are_refused(dialect: Literal["duckdb", "mysql"], statement: str, said: str) -> None:
    """DuckDB would say that there is no row."""
    with pytest.raises(pfs.InvalidValue, match=said):
        pfs.sql(statement, dialect=dialect)


def test_no_variable_is_reachable() -> None:
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(pfs.UnknownTable):
        pfs.sql("select * from frame")
    assert len(frame) == 1


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("select NAM from threads", pfs.UnknownColumn, "the nearest is 'NAME'"),
        ("select x from hosts", pfs.UnknownColumn, "hosts has no column 'x': legal are HOST, CURRENT_CONNECTIONS"),
        ("select * from thraeds", pfs.UnknownTable, "the nearest is 'threads'"),
        ("select * from sys.statement_analysi", pfs.UnknownTable, "the nearest is 'statement_analysis'"),
        ("selec 1", pfs.InvalidValue, "no SQL"),
        ("", pfs.InvalidValue, "give one"),
        ("select 1; select 2", pfs.InvalidValue, "give one"),
        ("update threads set NAME = 'x'", pfs.OperationNotAllowed, "pfs.setup_instruments"),
        ("delete from threads", pfs.OperationNotAllowed, "pfs.truncate"),
        ("update extensions", pfs.OperationNotAllowed, "only reads"),
        (
            "explain create persistent secret s (type s3)",
            pfs.OperationNotAllowed,
            "^CREATE is not allowed",
        ),
        ("explain (format json) create secret s (type s3)", pfs.OperationNotAllowed, "^CREATE is not allowed"),
        ("Explain Analyze copy (select 1) to '/tmp/rows'", pfs.OperationNotAllowed, "^COPY is not allowed"),
        ("select cast('x' as integer)", pfs.InvalidValue, "Could not convert"),
    ],
)
def test_errors_say_what_is_legal(statement: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        pfs.sql(statement)


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("select `NAME` from `performance_schema`.`t` where name like 'GLOBAL%' limit 0, 1", [("global_instrumentation",)]),
        ("select ifnull(null, 3), substring_index('a/b/c', '/', -1), substring_index('a/b/c', '/', 2)", [(3, "c", "a/b")]),
        (
            "select format_pico_time(3501), format_pico_time(188732396662000), format_pico_time(0)",
            [("3.50 ns", "3.15 min", "  0 ps")],
        ),
        ("select format_bytes(512), format_bytes(18446644073709551615)", [(" 512 bytes", "16.00 EiB")]),
    ],
)
def test_mysql_dialect(statement: str, rows: list[tuple[Any, ...]]) -> None:
    pytest.importorskip("sqlglot")
    frame = pd.DataFrame({"NAME": ["global_instrumentation", "other"]})
    assert run(statement, HeldTables(Held({"t": frame})), "mysql").rows() == rows


def test_a_word_that_sqlglot_does_not_know_prints_nothing() -> None:
    """It warned, and Python prints warnings that no handler takes."""
    pytest.importorskip("sqlglot")
    text = "import pfs\ntry: pfs.sql('explain create secret s', dialect='mysql')\nexcept pfs.InvalidValue as error: print(error)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "no SQL" in done.stdout
    assert done.stderr == ""


def test_bad_dialect() -> None:
    with pytest.raises(pfs.InvalidValue, match="legal are 'duckdb' and 'mysql'"):
        pfs.sql("select 1", dialect="oracle")  # type: ignore[arg-type]


def test_explain_and_describe() -> None:
    assert "Projections: NAME" in str(pfs.sql("explain select NAME from threads").rows())
    assert pfs.sql("describe threads").rows()[0][:2] == ("THREAD_ID", "UBIGINT")


REACHING = [
    "select * from query_table('memory.main.answer')",
    "select * from query_table('performance_schema.t')",
    "select * from query_table('t')",
    "select * from query('select * from memory.main.answer')",
    "select json_execute_serialized_sql(json_serialize_sql('select * from memory.main.answer'))",
    "from json_execute_serialized_sql(json_serialize_sql('select * from memory.main.answer'))",
    "select * from pragma_table_info('memory.main.answer')",
    "select * from pragma_storage_info('memory.main.answer')",
    *(
        f"select x from {function} as x where x::varchar like '%zebra%'"
        for function in ("duckdb_databases()", "duckdb_views()", "duckdb_tables()", "duckdb_columns()", "duckdb_schemas()",
                         "duckdb_functions()", "duckdb_prepared_statements()", "duckdb_logs()", "duckdb_settings()",
                         "duckdb_variables()", "duckdb_types()", "pragma_database_list()", "information_schema.tables",
                         "information_schema.columns")
    ),
]  # fmt: skip


def unreached(statement: str) -> bool:
    try:
        return run(statement, HeldTables(Held({}))).rows() == []
    except pfs.Error:
        return True


def test_no_statement_reaches_another_ones_answer() -> None:
    """Neither while the other one's result is kept nor afterwards."""
    frame = pd.DataFrame({"zebra": ["zebra"]})
    kept = [run("select * from t", HeldTables(Held({"t": frame}))) for _ in range(3)]
    assert [statement for statement in REACHING if not unreached(statement)] == []
    assert [each.rows() for each in kept] == [[("zebra",)]] * 3
    # In the DuckDB of the answer such statements do reach it.
    reached = [statement for statement in REACHING if "information" not in statement and reaches(kept[0], statement)]
    assert len(reached) >= 6
    del kept
    gc.collect()
    assert [statement for statement in REACHING if not unreached(statement)] == []


def reaches(result: pfs_result.Result, statement: str) -> bool:
    try:
        return bool(result._database.connection.execute(statement).fetchall())
    except duckdb.Error:
        return False


def test_statements_of_many_threads_share_nothing() -> None:
    """Each has a table of the same name. They leave no thread in the program, and reach nothing while others run."""
    pfs.sql("select 1")
    before = set(os.listdir("/proc/self/task"))
    wrong: list[object] = []

    def ask(number: int) -> None:
        for turn in range(10):
            frame = pd.DataFrame({"N": range(number, number + 50), "TURN": turn})
            kept = run("select sum(N) as s, max(TURN) as t from t", HeldTables(Held({"t": frame})))
            other = run("select count(*) from t where N is null", HeldTables(Held({"t": frame[:0]})))
            if kept.rows() != [(sum(range(number, number + 50)), turn)] or other.rows() != [(0,)]:
                wrong.append((number, turn, kept.rows()))
            there = run("select (select count(*) from duckdb_tables()), (select count(*) from duckdb_views() where not internal)",
                        HeldTables(Held({}))).rows()  # fmt: skip
            if there != [(1, 0)]:  # its own answer
                wrong.append(there)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    until(lambda: set(os.listdir("/proc/self/task")) <= before)  # the kernel removes them after they are joined


def test_a_statement_leaves_nothing() -> None:
    """The next one finds the DuckDB that it used as it was before."""
    things = "select (select count(*) from duckdb_databases()), (select count(*) from duckdb_views()), (select count(*) from"
    things += " duckdb_functions()), (select count(*) from duckdb_tables()), (select count(*) from duckdb_prepared_statements())"
    frame = pd.DataFrame({"N": range(3)})
    gc.collect()
    before = run(things, HeldTables(Held({}))).rows()
    for _ in range(3):
        run("select N, format_bytes(N), sys.format_time(N) from t", HeldTables(Held({"t": frame}))).rows()
        with pytest.raises(pfs.UnknownColumn):
            run("select M from t", HeldTables(Held({"t": frame})))
        with pytest.raises(pfs.UnknownTable):
            pfs.sql("select * from t")
        with pytest.raises(pfs.InvalidValue):
            pfs.sql("selec 1")
    gc.collect()
    assert run(things, HeldTables(Held({}))).rows() == before


def test_idle_databases_are_few() -> None:
    kept = [pfs.sql("select 1") for _ in range(4)]
    assert len({id(each._database.connection) for each in kept}) == 4
    del kept
    gc.collect()
    assert len(database._idle) == 2
    first = [id(owner) for _, owner in database._idle]
    again = pfs.sql("select 1")
    assert len(database._idle) == 1
    assert id(database._idle[0][1]) in first
    assert again.rows() == [(1,)]


def test_an_answer_is_streamed_after_its_result_is_gone() -> None:
    frame = pd.DataFrame({"N": range(100_000)})
    stream = run("select * from t", HeldTables(Held({"t": frame}))).arrow.__arrow_c_stream__()

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return stream

    gc.collect()
    pfs.sql("select 1").rows()
    assert pyarrow.table(Stream()).column("N").to_pylist() == list(range(100_000))


def test_a_forked_child_asks_too() -> None:
    kept = pfs.sql("select 1 as a")
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            signal.alarm(60)
            ok = pfs.sql("select 2 as a").rows() == [(2,)]
            del kept
            gc.collect()
            os._exit(0 if ok and pfs.sql("select 3").rows() == [(3,)] else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert kept.rows() == [(1,)]


UNITS = "select 5ms, 1.5us, 0.25s, 2MIN, 1e3ns, -5µs, 7ps, '5ms', 1 as a5s, 5 /* 5s */ -- 5ms"


@pytest.mark.parametrize("dialect", ["duckdb", "mysql"])
def test_times_have_units(dialect: Literal["duckdb", "mysql"]) -> None:
    """A unit behind a number makes it picoseconds. Texts, names and comments stay as they are."""
    numbers = (5 * 10**9, 1500000, 25 * 10**10, 12 * 10**13, 10**6, -5 * 10**6, 7)
    assert pfs.sql(UNITS, dialect=dialect).rows() == [(*numbers, "5ms", 1, 5)]
    quote = '"' if dialect == "duckdb" else "`"
    named = f"select {quote}é5ms{quote}, 'é 5ms', 3us as x from (select 1 as {quote}é5ms{quote})"
    assert pfs.sql(named if dialect == "duckdb" else named + " as t", dialect=dialect).rows() == [(1, "é 5ms", 3 * 10**6)]
    said = (
        r"unknown unit 'parsecs' in 3parsecs: legal are ps, ns, us, ms, s, min" if dialect == "duckdb" else "no column '3parsecs'"
    )
    with pytest.raises((pfs.InvalidValue, pfs.UnknownColumn), match=said):
        pfs.sql(f"select COUNT_STAR from {WAITS} where SUM_TIMER_WAIT > 3parsecs", dialect=dialect)
    assert pfs.sql(f"select count(*) from {WAITS} where SUM_TIMER_WAIT > 1min", dialect=dialect).rows() == [(0,)]
    where = "where SUM_TIMER_WAIT<1min order by SUM_TIMER_WAIT limit 1"
    assert len(pfs.sql(f"explain select EVENT_NAME from {WAITS} {where}", dialect=dialect).rows()) == 1


def test_a_notebook_shows_units_and_what_nothing_means() -> None:
    """A table, a view and an answer look alike. A number that was computed has no unit."""
    from pfs._read.readable import html
    from pfs._read.show import bytes_text

    with pfs.open(os.devnull, "w", name="shown/file") as file:
        file.write("x" * 2048)
    wanted = "EVENT_NAME like '%/shown/file'"
    shown = html(pfs.table("file_summary_by_instance", where=wanted, order="SUM_NUMBER_OF_BYTES_WRITE desc"))
    assert re.findall(r"<th style='[^']*'>(\w+)", shown)[:2] == ["SUM_NUMBER_OF_BYTES_WRITE", "FILE_NAME"]
    columns = "SUM_NUMBER_OF_BYTES_WRITE, SUM_NUMBER_OF_BYTES_READ / 2 as SUM_NUMBER_OF_BYTES_READ"
    answer = pfs.sql(f"select {columns} from file_summary_by_instance where {wanted}")._repr_html_()
    cells = [re.findall(r"<td[^>]*>([^<]*)", page)[:2] for page in (shown, answer)]
    assert cells == [[bytes_text(2048), os.devnull], [bytes_text(2048), "0"]]
    assert "<caption>Result: 1 row</caption>" in answer
    view = html(pfs.view("io_global_by_file_by_bytes"))
    assert "sys.io_global_by_file_by_bytes: " in view
    assert "<th style='text-align:right'>total_written" in view
    assert "no thread waits for a lock" in html(pfs.table("blocked"))
