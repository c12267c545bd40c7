"""What holds for every table, whatever it shows: the facts of MySQL's schema, dtypes, NULLs, keys, operations, docs, every
state of pfs.

tests/golden/mysql_tables.json has the facts of the tables as MySQL 8.4 and the seeds have them; DIFFERENCES says where pfs
goes its own way.
"""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs import _core
from tests.each import for_each
from tests.python._programs import nested
from tests.python._programs.counted import register, status
from tests.python._programs.driver import OWN_MEMORY, Cond, Mutex, OwnLock, Rwlock, Worker, every, key_of, raises, rows, settings
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.memory import Memory
from tests.python._programs.nested import PROGRESS, Call, Statement, Transaction, prepare, stage
from tests.python._programs.sockets import pair
from tests.python._programs.tables import FETCH, INSERT, Engine, MetadataLock, Table, idle

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "mysql_tables.json"
TABLES = pfs.tables()
TRUNCATED = [table for table in TABLES if "TRUNCATE" in _core.table_info(table)["operations"]]
Facts = dict[str, Any]

YES_NO = "enum('YES','NO')"
TIMED = "enum('YES','NO','CONTENDED','SAMPLED','STATE')"
STEP = "enum('FULL','SAMPLED','COUNTED','OFF')"
DIFFERENCES: dict[str, Facts] = {
    # Which events go to the trace; locks that are timed only if they wait, waits that are sampled; what the ceiling leaves.
    "setup_instruments": {
        "added": [["TRACE_ENABLED", YES_NO, False], ["OVERHEAD_STEP", STEP, False]],
        "types": {"TIMED": TIMED},
    },
    "setup_actors": {"added": [["TRACE_ENABLED", YES_NO, False]]},
    # TICK, and the processor time of a thread.
    "performance_timers": {
        "types": {"TIMER_NAME": "enum('CYCLE','NANOSECOND','MICROSECOND','MILLISECOND','TICK','THREAD_CPU')"},
    },
    # The span of the caller.
    **{
        f"events_statements_{view}": {"added": [["TRACEPARENT", "varchar(55)", True]]}
        for view in ("current", "history", "history_long")
    },
    # The waits that TIMED = 'SAMPLED' only counted.
    **{
        name: {"added": [["COUNT_NOT_SAMPLED", "bigint unsigned", False]]}
        for name in TABLES
        if name.startswith(("events_waits_summary_", "file_summary_", "socket_summary_", "table_io_waits_", "table_lock_waits_"))
        or name == "objects_summary_global_by_type"
    },
    # And the line of the longest wait.
    "events_waits_summary_global_by_event_name": {
        "added": [["COUNT_NOT_SAMPLED", "bigint unsigned", False], ["MAX_SOURCE", "varchar(64)", True]]
    },
    # The types of this one were never published.
    "component_scheduler_tasks": {
        "types": {
            "NAME": "varchar(64)",
            "STATUS": "varchar(16)",
            "COMMENT": "varchar(1023)",
            "INTERVAL_SECONDS": "bigint unsigned",
            "TIMES_RUN": "bigint unsigned",
            "TIMES_FAILED": "bigint unsigned",
        },
        "nullable": {"NAME": False, "STATUS": False, "COMMENT": True}
        | dict.fromkeys(("INTERVAL_SECONDS", "TIMES_RUN", "TIMES_FAILED"), False),
    },
}


def golden() -> dict[str, Facts]:
    facts: dict[str, Facts] = json.loads(GOLDEN.read_text())
    return facts


def expected(table: str) -> Facts:
    """The facts of a table with the differences put in."""
    facts: Facts = golden()[table]
    own = DIFFERENCES.get(table, {})
    types, nulls = own.get("types", {}), own.get("nullable", {})
    columns = [[name, types.get(name, kind), nulls.get(name, null)] for name, kind, null in facts["columns"]]
    facts["columns"] = columns + own.get("added", [])
    facts["updatable"] = facts["updatable"] + [
        name for name, *_ in own.get("added", []) if "UPDATE" in facts["operations"] and name != "OVERHEAD_STEP"
    ]
    return facts


def dtype_of(column: _core.ColumnInfo, fits_signed: bool) -> str:
    """The dtype that a declaration asks for. cpp/src/DECISIONS.md: uint64 whose values all fit int64 is int64."""
    kind, nullable = column["kind"], column["nullable"]
    kind = "int64" if kind == "uint64" and fits_signed else kind
    if kind in ("text", "set"):
        return "string"
    if kind in ("enum",):
        return "category"
    if kind == "timestamp":
        return "datetime64[us]"
    return (
        kind.replace("int", "Int").replace("uI", "UI") if nullable and kind != "double" else {"double": "float64"}.get(kind, kind)
    )


def program() -> None:
    """Something of all that the program itself says."""
    pfs.register_variable("contract_size", 4, minimum=1, maximum=9, attributes={"unit": "rows"}).value = 5
    pfs.register_variable("contract_mode", "fast", scope="SESSION").thread_value = "slow"
    pfs.server.set_user_variable("contract", b"\xff")
    pfs.set_account("otto", "desk")
    pfs.server.set_connect_attrs({"program_name": "contract", "empty": None})
    pfs.server.host_seen("192.0.2.1", "desk", validated=True)
    pfs.server.host_error("192.0.2.1", "ssl")
    pfs.server.login_failed("otto", "desk")
    pfs.server.account_lock("otto", "desk", locked=True)
    pfs.register_meter("contract").metric("size", "gauge", number=float)
    pfs.server.register_logger("contract")
    with pfs.server.register_task("contract", 60):
        pass
    pfs.server.register_function("contract", "integer")
    pfs.log("something", "Warning", code="PFS-000001", subsystem="test")


def load() -> None:
    """Something of everything: objects live and dead, open and ended events, two threads."""
    pfs.setup_instruments.update("wait/synch/mutex/contract_later/%", enabled=False)
    pfs.setup_consumers.update("lock_holds", enabled=True)
    m = Mutex("contract/LOCK_one").use(20)
    Mutex("contract/LOCK_one").use(3).free()
    OwnLock("contract/LOCK_own", 0x77).begin()
    with pfs.open("file", "w", name="contract/data") as f:
        f.write("text" * 100)
    with suppress(FileNotFoundError):
        pfs.open("no such file", name="contract/data")
    with pfs.open("file", name="contract/data") as f:
        f.read()
    a, b = pair("contract/pair")
    assert a.send(5) == b.recv(9) == 5
    Rwlock(key_of("rwlock", "contract/tree")).do("read_lock")
    Cond(key_of("cond", "contract/late")).late()
    key_of("thread", "contract/worker")
    worker = Worker()
    worker.do(m.use, 5)
    worker.do(pfs.set_account, "anna", "desk")
    Table("shop.orders", "PRIMARY").io(FETCH, 0, 10).io(INSERT).lock(8)
    Table("shop.gone").io(FETCH).drop()
    MetadataLock("shop.orders").wait()
    Engine("engine", 2).register()
    idle()
    stage("contract/reading", PROGRESS)
    stage("contract/writing")
    Transaction().end()
    with_program = nested.program("shop", "refill")
    call = Call(with_program)
    Statement("contract/part", "UPDATE stock SET n = n + 1", program=with_program).end()
    call.end()
    prepared = prepare("SELECT ?")
    Statement("contract/query", "SELECT 1", "shop").add("ROWS_SENT", 3).executes(prepared).end()
    program()
    with suppress(KeyError), pfs.raised(handled=True):
        raise KeyError
    register(1062, "ER_DUP_ENTRY", "23000")
    status("Contract_count", 3)
    blocks = Memory("contract/blocks")
    blocks.free(blocks.malloc(100))
    blocks.free(blocks.malloc(100, worker), worker)


def block() -> None:
    """A thread waits for a lock that another holds, for as long as the process runs."""
    lock, never, has_it = pfs.Lock("contract/LOCK_held"), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            never.wait()

    for work in (hold, lock.acquire):
        threading.Thread(target=work, daemon=True).start()
        has_it.wait()
    while not rows("lock_reasons"):
        time.sleep(0.01)


def check_frame(table: str) -> int:
    """A frame of the table is as its declaration says. Gives its number of rows."""
    facts = _core.table_info(table)
    frame = pfs.table(table)
    assert list(frame.columns) == [column["name"] for column in facts["columns"]]
    for column in facts["columns"]:
        values = frame[column["name"]]
        dtype = "string" if str(values.dtype).startswith("string") else str(values.dtype)
        fits = column["kind"] != "uint64" or int(values.max() if values.notna().any() else 0) < 2**63
        assert dtype == dtype_of(column, fits), (table, column["name"], dtype)
        assert column["nullable"] or not values.isna().any(), (table, column["name"])
        if column["values"] and column["kind"] == "enum":
            assert list(values.cat.categories) == list(column["values"])
        if (width := re.fullmatch(r"(?:var)?char\((\d+)\)", column["sql_type"])) and len(frame):
            assert int(values.str.len().max() if values.notna().any() else 0) <= int(width[1])
    key = list(facts["key"])
    assert not key or not frame.duplicated(key).any(), (table, key)
    return len(frame)


def test_the_list_of_tables_is_that_of_the_golden_files() -> None:
    """schema.json has all tables; of those that MySQL has not it alone has the facts, and test_package.py compares them."""
    assert set(json.loads(GOLDEN.with_name("schema.json").read_text())) == set(TABLES)
    assert set(golden()) < set(TABLES)


@for_each("table", golden())
def test_declaration_is_that_of_the_schema(table: str) -> None:
    """Names, order, SQL types, NULLs, key, operations, what can be updated, what is readable when off."""
    want, have = expected(table), _core.table_info(table)
    assert [[c["name"], c["sql_type"], c["nullable"]] for c in have["columns"]] == want["columns"]
    assert list(have["operations"]) == want["operations"]
    assert list(have["key"]) == want["key"]
    assert [c["name"] for c in have["columns"] if c["writable"]] == want["updatable"]
    assert have["available_when_disabled"] == want["available_when_disabled"]


@for_each("table", TABLES)
def test_docs_are_sentences_and_the_joins_that_they_name_exist(table: str) -> None:
    """One sentence each, ending in a period; "joins table.COLUMN" names a column of a compatible type."""
    facts = _core.table_info(table)
    columns = {name: {c["name"]: c for c in _core.table_info(name)["columns"]} for name in TABLES}
    for doc, column in [(facts["doc"], None), *[(c["doc"], c) for c in facts["columns"]]]:
        assert re.fullmatch(r"[A-Z0-9][^\n]*[^.\s]\.", doc), doc
        for other, name in re.findall(r"\b([a-z_]+)\.([A-Z_]+)\b", doc):
            assert name in columns[other], doc
            if column is not None and "joins" in doc:
                assert (columns[other][name]["kind"] in ("text", "enum")) == (column["kind"] in ("text", "enum")), doc
        for named in re.findall(r"performance_schema_[a-z_]+[a-z]", doc):
            assert named in pfs.variables, doc


@for_each("table", TABLES)
def test_ddl_names_every_column_type_and_key(table: str) -> None:
    """The CREATE TABLE text derives from the declaration."""
    facts, text = _core.table_info(table), pfs.ddl(table)
    position = 0
    for column in facts["columns"]:
        line = next(line for line in text[position:].splitlines() if re.match(rf"\s*`?{column['name']}`? ", line))
        position = text.index(line, position) + len(line)
        assert column["sql_type"].lower() in line.lower()
        assert ("NOT NULL" in line) is not column["nullable"]
    for name in facts["key"]:
        assert name in text.rpartition(" KEY (")[2]


def step_once() -> None:
    """Waits until a ceiling of 100 % has made an instrument dearer: overhead_steps has a row."""
    pfs.setup_overhead.update(limit_ppm=1_000_000)
    lock, end = pfs.Lock("app/STEPPED"), time.monotonic() + 60
    while not rows("overhead_steps"):
        assert time.monotonic() < end
        for _ in range(100):
            with lock:
                sum(range(20_000))
    pfs.setup_overhead.update(limit_ppm=0)


@fresh_process()
def test_frames_keep_the_contract_on_an_empty_engine() -> None:
    """Dtypes and NULLs also without a row."""
    for table in TABLES:
        check_frame(table)


@fresh_process()
def test_frames_keep_the_contract_with_something_of_everything() -> None:
    """Dtypes as declared, never object; no NA where NOT NULL; key unique; text within its width."""
    load()
    step_once()
    block()
    assert {table for table in TABLES if check_frame(table) == 0} == set()


@fresh_process(
    ",".join(
        f"performance_schema_consumer_{name}=OFF"
        for name in ("global_instrumentation", "thread_instrumentation", "events_waits_current")
    )
)
def test_frames_keep_the_contract_with_everything_disabled() -> None:
    """All consumers off: tables are readable, events and counts stay empty."""
    pfs.setup_consumers.update(enabled=False)
    load()
    for table in TABLES:
        number = check_frame(table)
        assert number == 0 or not table.startswith("events_waits_history")
        assert sum(row.get("COUNT_STAR", 0) for row in rows(table)) == 0


@fresh_process("performance_schema=OFF")
def test_frames_keep_the_contract_with_pfs_off() -> None:
    """L10: all readable; empty but for those that are always available; every one of these has rows."""
    load()
    for table in TABLES:
        assert (check_frame(table) > 0) == _core.table_info(table)["available_when_disabled"], table
        if "TRUNCATE" in _core.table_info(table)["operations"]:
            pfs.truncate(table)
        else:
            raises(pfs.OperationNotAllowed, partial(pfs.truncate, table), "TRUNCATE")


@fresh_process(PFS_SEGMENT="private")
def test_frames_keep_the_contract_with_a_private_segment() -> None:
    """PFS_SEGMENT=private: the same tables."""
    load()
    step_once()
    block()
    assert {table for table in TABLES if check_frame(table) == 0} == set()


@fresh_process()
def test_frames_keep_the_contract_while_a_thread_writes() -> None:
    """Law 3: a reader never shows nonsense: the contract holds in the middle of work, and every event is whole."""
    load()
    m = Mutex("contract/LOCK_busy")
    key = key_of("file", "contract/busy")
    workers = [Worker(), Worker()]

    def work() -> None:
        from tests.python._programs.driver import C

        for i in range(3000):
            m.use()
            if i % 10 == 0:
                fd = C.open(key, f"f{i % 30}", 0o102, 0o600)
                C.write(fd, 10)
                C.close(fd)
                C.unlink(key, f"f{i % 30}")
            if i % 500 == 0:
                Mutex("contract/LOCK_short").use().free()

    for worker in workers:
        worker.start(work)
    for _ in range(5):
        for table in TABLES:
            check_frame(table)
        for row in rows("events_waits_history_long"):
            assert row["TIMER_WAIT"] == row["TIMER_END"] - row["TIMER_START"]
            assert row["END_EVENT_ID"] >= row["EVENT_ID"] > 0
            assert row["OPERATION"]
            assert row["EVENT_NAME"].startswith("wait/") or row["EVENT_NAME"] == "idle"
        for row in rows("file_summary_by_event_name"):
            assert row["COUNT_STAR"] == row["COUNT_READ"] + row["COUNT_WRITE"] + row["COUNT_MISC"]
    for worker in workers:
        worker.result()
    assert sum(row["COUNT_STAR"] for row in rows("events_waits_summary_by_instance", OBJECT_INSTANCE_BEGIN=m.at)) == 6000


@fresh_process()
def test_operations_that_a_table_lacks_are_refused() -> None:
    """F15: the error says what is legal, and nothing has changed."""
    load()
    for table in set(TABLES) - set(TRUNCATED):
        before, state = every(table), settings()
        text = raises(pfs.OperationNotAllowed, partial(pfs.truncate, table), table, "TRUNCATE")
        assert all(operation in text for operation in _core.table_info(table)["operations"]), table
        assert settings() == state, table
        assert len(every(table)) == len(before), table


@fresh_process()
@pytest.mark.parametrize("table", TRUNCATED)
def test_truncate_does_what_the_table_says(table: str) -> None:
    """F12, F14: it empties events, zeroes summaries, keeps status."""
    load()
    # An event that is open stays out of the way of counting.
    facts, before = _core.table_info(table), every(table)
    pfs.truncate(table)
    after = every(table)
    if table == "global_status":
        assert after == [{**row, "VARIABLE_VALUE": "0"} if row["VARIABLE_NAME"] == "Contract_count" else row for row in before]
        assert {"VARIABLE_NAME": "Contract_count", "VARIABLE_VALUE": "3"} in before
    elif table.startswith("status_by_"):
        assert after == [{**row, "VARIABLE_VALUE": "0"} for row in before]
    elif table in ("accounts", "users", "hosts"):
        assert after == [{**row, "TOTAL_CONNECTIONS": row["CURRENT_CONNECTIONS"]} for row in before if row["CURRENT_CONNECTIONS"]]
    elif table == "events_statements_summary_by_digest":
        assert len(before) == 2
        assert after == []
    elif table.startswith("lock_holds_summary_"):  # it has rows of locks with a hold since the last TRUNCATE
        assert before
        assert after == []
    elif "_summary_" in table or "_histogram_" in table or table == "prepared_statements_instances":
        assert len(after) == len(before) > 0
        kept = {*facts["key"], "TIMER_PREPARE", "BUCKET_TIMER_LOW", "BUCKET_TIMER_HIGH"}
        numbers = {c["name"] for c in facts["columns"] if c["unit"] and c["name"] not in kept}
        # What pfs itself takes is as it is.
        counted = [row for row in after if not str(row.get("EVENT_NAME", "")).startswith(OWN_MEMORY)]
        assert {row[name] for row in counted for name in numbers} == {0}
        for was, now in zip(before, after, strict=True):
            assert {c: was[c] for c in facts["key"]} == {c: now[c] for c in facts["key"]}
    else:
        assert after == []


@fresh_process()
def test_columns_of_a_frame_may_be_chosen_and_names_ignore_case() -> None:
    """pfs.table(name, columns) gives the chosen columns in the chosen order."""
    load()
    for table in TABLES:
        names = [column["name"] for column in _core.table_info(table)["columns"]]
        assert list(pfs.table(table.upper(), [name.lower() for name in names[::-1]]).columns) == names[::-1]


# ---- Bad input ---------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_bad_input_is_named_with_what_is_legal_and_changes_nothing() -> None:
    """Bad input is refused: unknown table, column, instrument, timer; bad enum; read-only column; illegal TRUNCATE; bad names."""
    load()
    state = settings()
    for call in (pfs.table, pfs.ddl, pfs.truncate, pfs.describe):
        raises(pfs.UnknownTable, partial(call, "event_waits_current"), "event_waits_current", "'events_waits_current'")
        raises(pfs.UnknownTable, partial(call, ""))
    raises(pfs.UnknownColumn, lambda: pfs.table("threads", ["THREADID"]), "threads", "THREAD_ID")
    raises(pfs.InvalidValue, lambda: pfs.table("threads", ["NAME", "name"]), "NAME")
    raises(
        pfs.UnknownName,
        lambda: pfs.setup_instruments["wait/synch/mutex/contract/LOCK_onee"],
        "wait/synch/mutex/contract/LOCK_one",
    )
    raises(pfs.UnknownName, lambda: pfs.setup_consumers["events_wait_current"], "events_waits_current")
    raises(pfs.UnknownName, lambda: pfs.setup.setup_timers["waits"], "wait")
    raises(pfs.InvalidValue, lambda: pfs.setup.setup_timers.update("wait", timer_name="SUNDIAL"), "SUNDIAL", "CYCLE", "TICK")
    raises(pfs.InvalidValue, lambda: pfs.setup.setup_timers.update("wait", timer_name="THREAD_CPU"), "CYCLE", "TICK")
    raises(pfs.InvalidValue, lambda: pfs.setup_instruments.update(enabled="PERHAPS"), "PERHAPS", "YES", "NO")
    raises(pfs.InvalidValue, lambda: pfs.setup_consumers.update(enabled=""), "YES", "NO")
    raises(pfs.InvalidValue, lambda: pfs.setup_instruments.update("%"), "enabled", "timed")
    raises(pfs.Error, lambda: pfs.setup_instruments.update("%", flags="controlled"), "memory")
    raises(pfs.OperationNotAllowed, lambda: setattr(pfs.setup_instruments["%"], "documentation", "x"), "enabled", "timed")
    raises(pfs.OperationNotAllowed, lambda: setattr(pfs.threads["%"], "name", "x"), "instrumented", "history")
    raises(pfs.OperationNotAllowed, lambda: pfs.truncate("threads"), "SELECT", "UPDATE")
    raises(pfs.UnknownName, lambda: pfs.variables["events_waits_history_sizes"], "events_waits_history_size")
    raises(pfs.UnknownName, lambda: pfs.status["locker_los"], "Performance_schema_locker_lost")
    raises(pfs.StateError, lambda: pfs.configure(events_waits_history_size=3))
    for make in (pfs.Lock, pfs.wait):
        for name in ("noslash", "/x", "x/", "c" * 128 + "/x", "a/" + "b" * 120, "a/b%", "a/\n", ""):
            raises(pfs.InvalidValue, partial(make, name))
    for name in ("noslash", "/x", "x/", "c" * 128 + "/x", "a/" + "b" * 120):
        raises(pfs.InvalidValue, partial(pfs.open, "file", name=name))
    raises(pfs.InvalidValue, lambda: pfs.set_thread_name("x" * 200))
    raises(pfs.InvalidValue, lambda: pfs.set_thread_name(""))
    assert settings() == state


@fresh_process()
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("performance_schema_max_mutex_clases=3", ["performance_schema_max_mutex_classes"]),
        ("performance_schema_max_mutex_classes=many", ["many", "0", "1024"]),
        ("performance_schema_max_mutex_classes=-1", ["0", "1024"]),
        ("performance_schema_max_mutex_classes=99999999999999999999", ["1024"]),
        ("performance_schema=maybe", ["maybe", "ON", "OFF"]),
        ("performance_schema", ["name=value"]),
        ("performance_schema_instrument=x", ["PATTERN=ON"]),
        ("performance_schema_instrument='x=perhaps'", ["perhaps", "COUNTED"]),
        ("performance_schema_consumer_event=ON", ["events_waits_current"]),
        ("performance_schema_consumer_events_waits_current=perhaps", ["ON", "OFF"]),
    ],
)
def test_bad_options_of_pfs_init_start_and_change_nothing(option: str, words: list[str]) -> None:
    """A bad option of pfs_init() gives an error that names what is legal; a good one next to it does not act."""
    from tests.python._programs.driver import perfschema

    library = perfschema()
    assert library.pfs_init(f"performance_schema_events_waits_history_size=3,{option}".encode()) == (
        2 if "clases" in option else 1
    )
    text = library.pfs_last_error().decode()
    assert all(word in text for word in words), text
    assert library.pfs_init(b"performance_schema_max_file_classes=7") == 0
    assert (pfs.variables["max_file_classes"], pfs.variables["events_waits_history_size"]) == (7, 10)
    assert library.pfs_init(b"performance_schema_max_file_classes=8") == 6
    assert pfs.variables["max_file_classes"] == 7


@fresh_process(
    "performance_schema_max_mutex_clases=3,performance_schema_events_waits_history_size=3,performance_schema_max_file_classes=x"
)
def test_bad_options_of_the_environment_are_told_and_the_good_ones_act() -> None:
    """Law 2: PFS_OPTIONS with a mistake: the program runs on with the good ones, pfs.status says what was wrong."""
    assert pfs.variables["events_waits_history_size"] == 3
    assert pfs.variables["max_file_classes"] == 80
    reason = str(pfs.status["Performance_schema_status_reason"])
    assert "performance_schema_max_mutex_clases" in reason
    assert "performance_schema_max_mutex_classes" in reason
