"""What methods take and refuse is what the standard objects take and refuse; texts arrive as os.fsencode makes them."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests import budgets
from tests.conftest import Run
from tests.each import for_each
from tests.python.programs.test_programs import environment

ODD: list[Any] = ["x", "", b"x", None, [], {}, 1.5, -1.5, float("nan"), float("inf"), -1, 0, 1, 0.001, 2**70, True, False]
ODD += [Decimal(1), Fraction(1, 100), 1j]


def outcome(call: Callable[[], Any]) -> str:
    try:
        result = call()
    except Exception as error:
        return type(error).__name__
    return repr(result)


# Names and the two ways to make the object; what is called must not wait.
OBJECTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "Lock": (lambda: pfs.Lock("test/X"), threading.Lock),
    "RLock": (lambda: pfs.RLock("test/X"), threading.RLock),
    "Condition": (lambda: pfs.Condition("test/X"), threading.Condition),
    "Semaphore": (lambda: pfs.Semaphore("test/X"), threading.Semaphore),
    "BoundedSemaphore": (lambda: pfs.BoundedSemaphore("test/X"), threading.BoundedSemaphore),
}


@pytest.mark.parametrize("kind", OBJECTS)
@for_each("value", ODD)
def test_acquire_takes_what_the_standard_one_takes(kind: str, value: Any) -> None:
    make, standard = OBJECTS[kind]
    calls: list[Callable[[Any], Any]] = [
        lambda lock: lock.acquire(value),
        lambda lock: lock.acquire(blocking=value),
        lambda lock: lock.acquire(timeout=value),
        lambda lock: lock.acquire(True, value),
        lambda lock: lock.acquire(False, value),
        lambda lock: lock.acquire(True, 1, value),
        lambda lock: lock.acquire(other=value),
    ]
    for call in calls:
        assert outcome(lambda: call(make())) == outcome(lambda: call(standard()))  # noqa: B023


@for_each("value", ODD)
def test_rwlock_takes_what_a_lock_takes(value: Any) -> None:
    for name in ("acquire_read", "acquire_write"):
        assert outcome(lambda: getattr(pfs.RWLock("test/X"), name)(value)) == outcome(lambda: threading.Lock().acquire(value))  # noqa: B023
        assert outcome(lambda: getattr(pfs.RWLock("test/X"), name)(timeout=value)) == outcome(  # noqa: B023
            lambda: threading.Lock().acquire(timeout=value)
        )


@for_each("value", [value for value in ODD if value is not None and value not in (float("inf"), 2**70)])
def test_waits_take_what_the_standard_ones_take(value: Any) -> None:
    if isinstance(value, int | float) and value >= 1:
        value = value / 1000
    for make, standard in (
        (lambda: pfs.Condition("test/X"), threading.Condition),
        (lambda: pfs.Event("test/X"), threading.Event),
    ):

        def wait(thing: Any) -> Any:
            if isinstance(thing, threading.Event):
                return thing.wait(value)
            with thing:
                return thing.wait(value)

        assert outcome(lambda: wait(make())) == outcome(lambda: wait(standard()))  # noqa: B023
    calls: tuple[Callable[[Any], Any], ...] = (
        lambda q: q.get(True, value),
        lambda q: q.get(timeout=value),
        lambda q: q.get(False, value),
        lambda q: q.get(block=False),
    )
    for call in calls:
        if value != value:
            continue  # queue.Queue would look for ever
        pairs: Any = ((pfs.SimpleQueue, queue.SimpleQueue), (pfs.Queue, queue.Queue))
        for mine, theirs in pairs:
            assert outcome(lambda: call(mine("test/X"))) == outcome(lambda: call(theirs()))  # noqa: B023
    puts = []
    for one in (pfs.SimpleQueue, queue.SimpleQueue):
        made: Any = one
        puts.append(outcome(lambda: made(*["test/X"] * (made is pfs.SimpleQueue)).put(1, value, value)))  # noqa: B023
    assert puts[0] == puts[1]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pfs.Snapshot.diff("a", "b"), "before must be a Snapshot"),  # type: ignore[arg-type]
        (lambda: pfs.Table(5), "name must be a str"),  # type: ignore[arg-type]
        (lambda: pfs.Table("a", "PRIMARY"), "indexes must be several names"),
        (lambda: pfs.server.set_connect_attrs("a"), "attributes must be a mapping"),  # type: ignore[arg-type]
        (lambda: pfs.server.set_connect_attrs({"a": 5}), "the value of attribute 'a' must be str or None, not int"),  # type: ignore[dict-item]
        (lambda: pfs.transaction(5), "a str or None is needed, not int"),  # type: ignore[arg-type]
        (lambda: pfs.statement(5), "str"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_type_errors_that_say_so(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call()


def test_exit_of_a_setup_table_without_enter() -> None:
    for table in (pfs.setup_instruments, pfs.setup_consumers, pfs.setup_actors, pfs.setup.setup_timers):
        with pytest.raises(RuntimeError, match=f"{table.name}: __exit__ without __enter__"):
            table.__exit__(None, None, None)


TEXT = "a\udcff\udcfeb"  # os.fsdecode of these bytes
BYTES = b"a\xff\xfeb"


def test_surrogate_escapes_arrive_as_their_bytes(fresh: Run) -> None:
    """In texts, names, attributes and logs, whoever takes them: the core, or Python."""
    out = fresh(f"""
        import logging
        import pfs
        text, raw = {TEXT!r}, {BYTES!r}
        assert text.encode("utf-8", "surrogateescape") == raw
        pfs.setup_consumers.update(enabled=True)
        def shown(table, column):
            return {{value.encode("utf-8", "surrogateescape") for value, in pfs._core.rows(table, (column,), None) if value}}
        def check(table, column, expected=raw):
            assert any(expected in value for value in shown(table, column)), (table, column, shown(table, column))

        with pfs.statement("test/s", text=text, schema=text) as s: s.error(1, message=text)
        check("events_statements_history", "SQL_TEXT"), check("events_statements_history", "CURRENT_SCHEMA")
        check("events_statements_history", "MESSAGE_TEXT")
        try:
            with pfs.statement("test/e"): raise ValueError(text)
        except ValueError: pass
        check("events_statements_history", "MESSAGE_TEXT", b"ValueError: " + raw)
        assert pfs.digest(text) == pfs.digest(raw)

        makes = [pfs.Lock, pfs.RLock, pfs.RWLock, pfs.Condition, pfs.SimpleQueue, pfs.Semaphore, pfs.Event, pfs.Queue, pfs.stage]
        things = [make(f"test/{{text}}") for make in (*makes, pfs.statement, pfs.wait, pfs.memory, pfs.socket)]
        assert things[0].name == "wait/synch/mutex/test/" + text, things[0].name
        repr(things), [repr(thing) for thing in things]
        things[-1].close()
        pfs.open("/etc/passwd", name=f"test/{{text}}").close()
        for prefix in (b"wait/synch/mutex/", b"wait/synch/rwlock/", b"wait/synch/cond/", b"stage/", b"statement/", b"memory/",
                       b"wait/io/socket/", b"wait/io/file/"):
            check("setup_instruments", "NAME", prefix + b"test/" + raw)
        pfs.setup_instruments[f"wait/io/file/test/{{text}}"].enabled = False
        assert pfs.setup_instruments[f"wait/io/file/test/{{text}}"].enabled is False

        with pfs.transaction() as t:
            t.gtid = text
            t.xid(text, text)
        for column in ("GTID", "XID_GTRID", "XID_BQUAL"): check("events_transactions_history", column)
        pfs.register_status("status_" + text, text).add()
        check("global_status", "VARIABLE_NAME", b"status_" + raw)
        pfs.register_variable("variable_" + text, text, attributes={{"k": text}})
        check("global_variables", "VARIABLE_VALUE")
        check("global_variable_attributes", "ATTR_VALUE")
        pfs.set_account(text, text)
        check("accounts", "USER"), check("accounts", "HOST")
        pfs.server.set_connect_attrs({{text: text}})
        check("session_connect_attrs", "ATTR_NAME"), check("session_connect_attrs", "ATTR_VALUE")
        pfs.server.set_user_variable("u", text)
        check("user_variables_by_thread", "VARIABLE_VALUE")
        pfs.server.set_processlist(info=text, state=text, db=text)
        check("threads", "PROCESSLIST_INFO"), check("threads", "PROCESSLIST_STATE"), check("threads", "PROCESSLIST_DB")
        pfs.set_thread_name("test/" + text)
        check("threads", "NAME")
        pfs.log(text, subsystem="s")
        logging.getLogger().addHandler(pfs.LoggingHandler())
        logging.warning("logged " + text)
        check("error_log", "DATA"), check("error_log", "DATA", b"logged " + raw)
        table = pfs.Table("test." + text)
        with table.fetch(): pass
        check("table_io_waits_summary_by_table", "OBJECT_NAME")
        try:
            with pfs.raised(): raise type("E", (Exception,), {{"__module__": text}})
        except Exception: pass
        check("events_errors_summary_global_by_error", "ERROR_NAME")
        print("done")
    """)
    assert out == "done\n"


LONE = "\ud800"  # stands for no byte


def test_surrogates_that_stand_for_no_byte_are_kept(fresh: Run) -> None:
    """In a process of its own: pandas compares no text with surrogates, so other tests must not meet these names."""
    out = fresh(f"""
        import pfs
        lone = {LONE!r}
        pfs.Lock("test/" + lone), pfs.Condition("test/" + lone), pfs.Queue("test/" + lone)
        pfs.register_status("test_" + lone)
        pfs.statement("test/" + lone, text=lone).begin().end()
        pfs.log(lone)
        pfs.server.set_user_variable(lone, lone)
        pfs.digest(lone)
        columns = {{"setup_instruments": "NAME", "error_log": "DATA", "user_variables_by_thread": "VARIABLE_VALUE",
                   "global_status": "VARIABLE_NAME"}}
        for table, column in columns.items():
            raw = [value.encode("utf-8", "surrogateescape") for value, in pfs._core.rows(table, (column,), None) if value]
            assert any(lone.encode("utf-8", "surrogatepass") in value for value in raw), (table, column)
        print("done")
    """)
    assert out == "done\n"


@pytest.mark.parametrize(
    "call",
    [
        lambda: pfs.Lock(LONE),
        lambda: pfs.Lock("\udcff"),
        lambda: pfs.transaction("\udcff"),
        lambda: pfs.table("\udcff"),
        lambda: pfs.table("threads", ["\udcff"]),
        lambda: pfs.setup_instruments["\udcff"],
        lambda: pfs.statement("test/s").begin().error(1, "\udcff"),
    ],
)
def test_refusals_of_such_texts_say_what_is_legal(call: Callable[[], Any]) -> None:
    with pytest.raises(pfs.Error, match=r"legal|no such|not|unknown|nearest"):
        call()


def test_a_wrong_call_is_an_error_that_says_what_is_wrong(root: Path, tmp_path: Path) -> None:
    """Public and compiled functions, methods of all objects, with a sample of wrong values: no crash, and no unclear error."""
    calls, seed = str(budgets.WRONG_CALLS), str(budgets.seed(1))
    said = tmp_path / "said"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.python._programs.wrong_calls", seed, calls, said, tmp_path],
        cwd=root, env=environment(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-4000:]}"
    found = json.loads(said.read_text())
    print({name: found[name] for name in ("functions", "values", "ends")})
    assert found["functions"] > 300
    assert found["wrong"] == []
