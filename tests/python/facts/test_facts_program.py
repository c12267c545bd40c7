"""What the program says: variables, sessions' attributes, hosts, meters, tasks, log: semantics.md G14, G15, L3, L8, L10.

Each test runs in a process of its own.
"""

from __future__ import annotations

import datetime
import logging
import os
import subprocess
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs import _core
from tests.conftest import Run
from tests.python._programs.driver import Worker, every, losses, me, one, raises, rows, status
from tests.python._programs.fresh_process import fresh_process

ATTRS, OWN_ATTRS, HOSTS, LOG = "session_connect_attrs", "session_account_connect_attrs", "host_cache", "error_log"
LIMIT = "performance_schema_max_program_rows"


def attributes(table: str = ATTRS, segment: _core.Segment | None = None) -> dict[int, list[tuple[str, str | None]]]:
    """Name and value in order, by session."""
    found: dict[int, list[tuple[str, str | None]]] = {}
    for session, position, *pair in sorted(
        _core.rows(table, ("PROCESSLIST_ID", "ORDINAL_POSITION", "ATTR_NAME", "ATTR_VALUE"), segment)
    ):
        assert position == len(found.setdefault(session, []))
        found[session].append((pair[0], pair[1]))
    return found


def value_of(table: str, name: str, **where: Any) -> Any:
    return one(table, VARIABLE_NAME=name, **where)["VARIABLE_VALUE"]


def in_child(check: Any) -> None:
    """Runs check() in a forked child, which must succeed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


# ---- G14, G15: attributes of sessions ----------------------------------------------------------------------------------------


@fresh_process()
def test_G14_attributes_keep_their_order_and_what_does_not_fit_is_told() -> None:
    """G14: ORDINAL_POSITION from 0; 512 bytes; too long: "_truncated" with the lost bytes first, attrs_lost + 1, longest_seen."""
    pfs.set_account("anna", "desk")
    pfs.server.set_connect_attrs({"zebra": "1", "ant": None, "bee": ""})
    ((session, shown),) = attributes().items()
    assert shown == [("zebra", "1"), ("ant", None), ("bee", "")]
    assert session == one("processlist")["ID"]
    assert status("session_connect_attrs_longest_seen") == 5 + 1 + 3 + 3 + 6
    pfs.server.set_connect_attrs({"first": "a" * 100, "second": "b" * 100, "third": "c" * 100, "fourth": "d" * 281})
    assert attributes()[session] == [
        ("_truncated", str(6 + 281 + 1 + 3)),
        ("first", "a" * 100),
        ("second", "b" * 100),
        ("third", "c" * 100),
    ]
    assert status("session_connect_attrs_lost") == 1
    assert status("session_connect_attrs_longest_seen") == 300 + 281 + 22 + 1 + 4 * 2 + 2 - 1
    pfs.server.set_connect_attrs({"n" * 40: "v" * 100})
    assert attributes()[session] == [("n" * 32, "v" * 100)]
    pfs.server.set_connect_attrs({})
    assert attributes() == {}
    assert status("session_connect_attrs_lost") == 1


@fresh_process("performance_schema_session_connect_attrs_size={size}")
@pytest.mark.parametrize(("size", "kept", "lost"), [(0, [], 1), (9, [], 1), (10, ["a"], 0), (13, [], 1), (14, ["_truncated"], 1)])
def test_G14_the_limit_is_an_option_and_holds_for_the_mark_as_well(size: int, kept: list[str], lost: int) -> None:
    """G14: nothing beyond session_connect_attrs_size, not even "_truncated" (14 bytes with its value)."""
    pfs.set_account("anna", "desk")
    pfs.server.set_connect_attrs({"a": "1234567"} if size <= 10 else {"a": "1" * 50})
    assert [name for pairs in attributes().values() for name, _ in pairs] == kept
    assert status("session_connect_attrs_lost") == lost


@fresh_process()
def test_G15_the_reader_sees_sessions_of_its_own_account() -> None:
    """G15: two accounts, read from each; another process has no account here, and sees none; nobody sees nobody's."""
    workers = {}
    for user, host in (("anna", "desk"), ("anna", "lab"), ("otto", "desk"), ("anna", "desk")):
        worker = Worker()
        worker.do(pfs.set_account, user, host)
        worker.do(pfs.server.set_connect_attrs, {"who": f"{user}@{host}"})
        workers[worker.id] = (worker, user, host)
    assert len(attributes()) == 4
    for worker, user, host in workers.values():
        seen = worker.do(attributes, OWN_ATTRS)
        assert {value for pairs in seen.values() for _, value in pairs} == {f"{user}@{host}"}
        assert len(seen) == (2 if (user, host) == ("anna", "desk") else 1)
    assert attributes(OWN_ATTRS) == {}
    elsewhere = _core.Segment(_core.segment_path())
    assert (len(attributes(ATTRS, elsewhere)), attributes(OWN_ATTRS, elsewhere)) == (4, {})


@fresh_process()
def test_attributes_and_values_go_with_their_thread_and_stay_with_a_session() -> None:
    """G14: rows of threads that are gone vanish; background threads have no PROCESSLIST_ID and so no rows."""
    worker = Worker()
    mode = pfs.register_variable("mode", "fast", scope="SESSION")

    def say() -> None:
        pfs.set_account("anna", "desk")
        pfs.server.set_connect_attrs({"a": "1"})
        pfs.server.set_user_variable("u", "1")
        mode.thread_value = "slow"

    worker.do(say)
    pfs.server.set_connect_attrs({"hidden": "1"})
    assert {len(attributes()), len(rows("user_variables_by_thread"))} == {1}
    assert value_of("variables_by_thread", "mode", THREAD_ID=worker.id) == "slow"
    worker.do(pfs.set_account, "", "")
    assert attributes() == {}
    worker.end()
    assert rows("user_variables_by_thread") == []
    assert rows("variables_by_thread", THREAD_ID=worker.id) == []
    for _ in range(200):  # rows of the dead are used again
        worker = Worker()
        worker.do(say)
        worker.end()
    assert losses() == {}
    assert every("user_variables_by_thread") == []


@fresh_process()
def test_bad_attributes_are_refused() -> None:
    """Bad input changes nothing."""
    pfs.set_account("anna", "desk")
    pfs.server.set_connect_attrs({"a": "1"})
    raises(pfs.InvalidValue, lambda: pfs.server.set_connect_attrs({"": "1"}), "name")
    raises(pfs.InvalidValue, lambda: _core.connect_attrs([("x", "1"), ("x", "2")]), "'x'", "twice")
    raises(pfs.InvalidValue, lambda: pfs.server.set_user_variable("", "1"), "name", "64")
    assert list(attributes().values()) == [[("a", "1")]]


# ---- Variables ---------------------------------------------------------------------------------------------------------------


@fresh_process("performance_schema_max_mutex_classes=7,performance_schema_users_size=-1")
def test_options_of_pfs_are_in_all_tables_of_variables() -> None:
    """One place for each fact: type, range, documentation and source of options; the names of global_variables."""
    names = [row["VARIABLE_NAME"] for row in every("global_variables")]
    for table in ("session_variables", "variables_info", "variables_metadata"):
        assert [row["VARIABLE_NAME"] for row in every(table)] == names
    info = one("variables_info", VARIABLE_NAME="performance_schema_max_mutex_classes")
    assert (info["VARIABLE_SOURCE"], info["MIN_VALUE"], info["MAX_VALUE"], info["SET_USER"]) == (
        "COMMAND_LINE",
        "0",
        "1024",
        None,
    )
    assert abs(info["SET_TIME"] / 1e6 - time.time()) < 300
    sources = {row["VARIABLE_NAME"]: row["VARIABLE_SOURCE"] for row in every("variables_info")}
    assert {name for name, source in sources.items() if source != "COMPILED"} == {
        "performance_schema_max_mutex_classes",
        "performance_schema_users_size",
    }
    meta = one("variables_metadata", VARIABLE_NAME="performance_schema")
    assert (meta["VARIABLE_SCOPE"], meta["DATA_TYPE"], meta["MIN_VALUE"]) == ("GLOBAL", "Boolean", None)
    meta = one("variables_metadata", VARIABLE_NAME="performance_schema_max_mutex_classes")
    assert (meta["DATA_TYPE"], meta["DOCUMENTATION"]) == ("Integer", "Mutex instruments.")
    assert every("variables_by_thread") == []
    raises(pfs.OperationNotAllowed, lambda: _core.variable_set("PERFORMANCE_SCHEMA", "0", 9, None), "option", "start")
    raises(pfs.AlreadyExists, lambda: pfs.register_variable("Performance_Schema", 1), "option")
    _core.variable_attribute("performance_schema", "owner", "me")
    assert every("global_variable_attributes") == [
        {"VARIABLE_NAME": "performance_schema", "ATTR_NAME": "owner", "ATTR_VALUE": "me"}
    ]


@fresh_process()
def test_a_variable_is_shown_with_who_set_it_when_and_from_where() -> None:
    """variables_info: SET_TIME, SET_USER, SET_HOST, source and path of the last setting."""
    size = pfs.register_variable("size", 4, minimum=1, maximum=64, documentation="How many.", attributes={"unit": "rows"})
    before = one("variables_info", VARIABLE_NAME="size")
    assert (before["VARIABLE_SOURCE"], before["SET_USER"], size.value, pfs.variables["size"]) == ("COMPILED", None, 4, 4)
    pfs.set_account("anna", "desk")
    size.value = 8
    now = one("variables_info", VARIABLE_NAME="size")
    assert (now["VARIABLE_SOURCE"], now["SET_USER"], now["SET_HOST"], now["VARIABLE_PATH"]) == ("DYNAMIC", "anna", "desk", None)
    assert before["SET_TIME"] <= now["SET_TIME"]
    size.set(9, "EXPLICIT", "/etc/my.conf")
    now = one("variables_info", VARIABLE_NAME="size")
    assert (now["VARIABLE_SOURCE"], now["VARIABLE_PATH"]) == ("EXPLICIT", "/etc/my.conf")
    assert one("variables_metadata", VARIABLE_NAME="size") == {
        "VARIABLE_NAME": "size",
        "VARIABLE_SCOPE": "GLOBAL",
        "DATA_TYPE": "Integer",
        "MIN_VALUE": "1",
        "MAX_VALUE": "64",
        "DOCUMENTATION": "How many.",
    }
    pfs.register_variable("SIZE", 5, minimum=1, maximum=100, documentation="Another text.")
    again = one("variables_metadata", VARIABLE_NAME="size")
    assert (again["MAX_VALUE"], again["DOCUMENTATION"], size.value) == ("100", "Another text.", 9)
    pfs.register_variable("size", 5, minimum=1, maximum=6)
    assert size.value == 5
    size.set_attribute("unit", "bytes")
    size.set_attribute("owner", "me")
    assert {row["ATTR_NAME"]: row["ATTR_VALUE"] for row in every("global_variable_attributes")} == {
        "unit": "bytes",
        "owner": "me",
    }
    size.set_attribute("unit", None)
    assert [row["ATTR_NAME"] for row in every("global_variable_attributes")] == ["owner"]
    size.unregister()
    assert rows("variables_info", VARIABLE_NAME="size") == every("global_variable_attributes") == []
    raises(pfs.UnknownName, lambda: setattr(size, "value", 1), "'size'", "registered")


@fresh_process()
@pytest.mark.parametrize(
    ("value", "scope", "good", "shown", "bad"),
    [
        (1, "GLOBAL", -7, "-7", ["x", 1.5, "", 10**30]),
        (1.5, "GLOBAL", 2e300, "2e+300", ["x", "nan", "1,5", "1e999"]),
        (True, "GLOBAL", "off", "OFF", ["maybe", 2, ""]),
        ("text", "GLOBAL", "any \N{SNOWMAN}", "any \N{SNOWMAN}", []),
    ],
)
def test_values_are_checked_by_type(value: Any, scope: Any, good: Any, shown: str, bad: list[Any]) -> None:
    """Bad input is named with what is legal, and changes nothing."""
    variable = pfs.register_variable("v", value, scope=scope)
    variable.value = good
    assert value_of("global_variables", "v") == shown
    for one_bad in bad:
        raises(pfs.InvalidValue, partial(variable.set, one_bad), "'v'", "legal")
    raises(pfs.InvalidValue, lambda: variable.set(object()), "legal")  # type: ignore[arg-type]
    raises(pfs.InvalidValue, lambda: variable.set(good, "NOWHERE"), "source", "COMMAND_LINE")  # type: ignore[arg-type]
    assert value_of("global_variables", "v") == shown
    variable.value = None
    assert variable.value is None


@fresh_process()
def test_bad_registrations_are_refused() -> None:
    """Names, types, scopes, ranges."""
    for name in ("", "two words", "x" * 65, "line\n"):
        raises(pfs.InvalidValue, partial(pfs.register_variable, name, 1), "1 to 64")
    raises(pfs.InvalidValue, lambda: pfs.register_variable("v", 1, type="Float"), "Integer", "Set")  # type: ignore[arg-type]
    raises(pfs.InvalidValue, lambda: pfs.register_variable("v", 1, scope="LOCAL"), "SESSION_ONLY")  # type: ignore[arg-type]
    raises(pfs.InvalidValue, lambda: pfs.register_variable("v", 10, minimum=1, maximum=9), "from 1 to 9")
    assert rows("variables_metadata", VARIABLE_NAME="v") == []
    raises(pfs.UnknownName, lambda: _core.variable_attribute("v", "a", "b"), "'v'")
    v = pfs.register_variable("v", 1)
    raises(pfs.InvalidValue, lambda: v.set_attribute("x" * 33, "1"), "32")
    raises(pfs.OperationNotAllowed, lambda: setattr(v, "thread_value", 1), "GLOBAL")


@fresh_process()
def test_sessions_have_values_of_their_own_or_the_global_one() -> None:
    """variables_by_thread: every live thread x every variable with session scope; session_variables: the reader's."""
    mode = pfs.register_variable("mode", "fast", scope="SESSION")
    own = pfs.register_variable("own", 1, scope="SESSION_ONLY", minimum=0, maximum=9)
    pfs.register_variable("all", 1)
    worker = Worker()
    mode.thread_value = "slow"
    worker.do(setattr, own, "thread_value", 5)
    mode.value = "medium"
    found = {(row["THREAD_ID"], row["VARIABLE_NAME"]): row["VARIABLE_VALUE"] for row in every("variables_by_thread")}
    main = me()
    assert found == {(main, "mode"): "slow", (main, "own"): "1", (worker.id, "mode"): "medium", (worker.id, "own"): "5"}
    assert (mode.thread_value, own.thread_value, worker.do(lambda: (mode.thread_value, own.thread_value))) == (
        "slow",
        1,
        ("medium", 5),
    )
    assert [row for row in every("global_variables") if row["VARIABLE_NAME"] == "own"] == []
    elsewhere = _core.rows("session_variables", ("VARIABLE_NAME", "VARIABLE_VALUE"), _core.Segment(_core.segment_path()))
    assert dict(elsewhere)["mode"] == "medium"
    raises(pfs.OperationNotAllowed, lambda: setattr(own, "value", 3), "SESSION_ONLY")
    raises(pfs.InvalidValue, lambda: setattr(own, "thread_value", 10), "0 to 9")
    del mode.thread_value
    assert mode.thread_value == "medium"
    pfs.register_variable("OWN", 1, scope="SESSION_ONLY", maximum=5)
    assert worker.do(lambda: own.thread_value) == 5
    pfs.register_variable("own", 2, scope="SESSION_ONLY", maximum=4)
    assert worker.do(lambda: own.thread_value) == 1
    own.unregister()
    assert {row["VARIABLE_NAME"] for row in every("variables_by_thread")} == {"mode"}


@fresh_process()
def test_user_variables_are_bytes_of_a_thread() -> None:
    """Any bytes, NULL, cut at 65535; names are told apart to the letter."""
    pfs.server.set_user_variable("a", b"\x00\xff")
    pfs.server.set_user_variable("A", None)
    pfs.server.set_user_variable("long", b"x" * 70000)
    pfs.server.set_user_variable("n" * 70, 1.5)
    found = {row["VARIABLE_NAME"]: row["VARIABLE_VALUE"] for row in rows("user_variables_by_thread", THREAD_ID=me())}
    assert found == {"a": "\x00\udcff", "A": None, "long": "x" * 65535, "n" * 64: "1.5"}
    pfs.server.set_user_variable("a", ...)
    pfs.server.set_user_variable("not there", ...)
    assert len(every("user_variables_by_thread")) == 3


# ---- Meters, loggers, tasks, functions ---------------------------------------------------------------------------------------


@fresh_process()
def test_UPDATE_of_setup_meters_and_loggers_reaches_the_program() -> None:
    """setup_meters: FREQUENCY and ENABLED; setup_loggers: LEVEL. Bad values are refused and change nothing."""
    meter, other = (
        pfs.register_meter("app.queue", 10, documentation="The queue."),
        pfs.register_meter("app.disk", 5, enabled=False),
    )
    logger = pfs.server.register_logger("app/queue", "warn")
    assert (meter.frequency, other.frequency, logger.level) == (10, 0, "warn")
    assert pfs.setup_meters.update("app.%", frequency=20, enabled=True) == 2
    assert (meter.frequency, other.frequency) == (20, 20)
    pfs.setup_meters["app.disk"].enabled = False
    pfs.setup_meters["app.queue"].frequency = 16777215
    pfs.setup_loggers["app/queue"].level = "debug"
    assert (meter.frequency, other.frequency, logger.level) == (16777215, 0, "debug")
    state = every("setup_meters"), every("setup_loggers")
    for bad in (0, -1, 16777216, "x", 1.5, ""):
        raises(pfs.InvalidValue, lambda bad=bad: pfs.setup_meters.update(frequency=bad), "FREQUENCY")  # type: ignore[misc]
    raises(pfs.InvalidValue, lambda: pfs.setup_meters.update(enabled="MAYBE"), "YES", "NO")
    raises(pfs.InvalidValue, lambda: pfs.setup_loggers.update(level="loud"), "none", "debug")
    raises(pfs.OperationNotAllowed, lambda: setattr(pfs.setup_meters["app.disk"], "name", "x"), "frequency")
    assert (every("setup_meters"), every("setup_loggers")) == state
    with pfs.setup_loggers, pfs.setup_meters:
        pfs.setup_loggers.update(level="none")
        pfs.setup_meters.update(frequency=1)
        assert (logger.level, meter.frequency) == ("none", 1)
    assert (every("setup_meters"), every("setup_loggers")) == state
    pfs.register_meter("app.queue", 3, documentation="Said again.")  # what the user has set stays
    assert one("setup_meters", NAME="app.queue")["DESCRIPTION"] == "Said again."
    assert meter.frequency == 16777215
    meter.metric("depth", "gauge", unit="items", documentation="Items that wait.")
    meter.metric("rate", "updown", number=float)
    raises(pfs.InvalidValue, lambda: meter.metric("x", "histogram"), "counter", "gauge")  # type: ignore[arg-type]
    assert every("setup_metrics")[0] == {
        "NAME": "depth",
        "METER": "app.queue",
        "METRIC_TYPE": "ASYNC GAUGE COUNTER",
        "NUM_TYPE": "INTEGER",
        "UNIT": "items",
        "DESCRIPTION": "Items that wait.",
    }
    assert (one("setup_metrics", NAME="rate")["NUM_TYPE"], one("setup_metrics", NAME="rate")["UNIT"]) == ("DOUBLE", None)
    meter.unregister()
    logger.unregister()
    assert every("setup_metrics") == every("setup_loggers") == []
    assert (meter.frequency, logger.level) == (0, "none")
    raises(pfs.UnknownName, lambda: meter.metric("x"), "app.queue")
    raises(pfs.UnknownName, meter.unregister, "app.queue")


@fresh_process(
    "performance_schema_max_meter_classes=2,performance_schema_max_metric_classes=1,performance_schema_max_logger_classes=1"
)
def test_limits_of_meters_metrics_and_loggers_are_counted() -> None:
    """variables.json: max_meter_classes and meter_lost, and the like. What is there may be registered again."""
    pfs.register_meter("a").metric("x")
    meter = pfs.register_meter("b")
    pfs.server.register_logger("a")
    raises(pfs.LimitReached, lambda: pfs.register_meter("c"), "performance_schema_max_meter_classes is 2")
    raises(pfs.LimitReached, lambda: meter.metric("y"), "performance_schema_max_metric_classes is 1")
    raises(pfs.LimitReached, lambda: pfs.server.register_logger("b"), "performance_schema_max_logger_classes is 1")
    pfs.register_meter("a").metric("x")
    names = ("meter_lost", "metric_lost", "logger_lost")
    assert losses() == {"Performance_schema_" + name: 1 for name in names}
    for name in ("", "x" * 64):
        raises(pfs.InvalidValue, partial(pfs.register_meter, name), "63")


@fresh_process()
def test_tasks_and_functions_are_shown_while_they_run() -> None:
    """component_scheduler_tasks, user_defined_functions."""
    task = pfs.server.register_task("clean", 60, documentation="Cleans up.")
    with task:
        assert one("component_scheduler_tasks")["STATUS"] == "RUNNING"
    with Raises(ZeroDivisionError), task:
        1 / 0  # noqa: B018
    pfs.server.register_task("clean", 30)
    assert one("component_scheduler_tasks") == {
        "NAME": "clean",
        "STATUS": "WAITING",
        "COMMENT": None,
        "INTERVAL_SECONDS": 30,
        "TIMES_RUN": 2,
        "TIMES_FAILED": 1,
    }
    function = pfs.server.register_function("area", "real", library="shapes.so")
    with function, function:
        assert one("user_defined_functions")["UDF_USAGE_COUNT"] == 2
    assert one("user_defined_functions") == {
        "UDF_NAME": "area",
        "UDF_RETURN_TYPE": "real",
        "UDF_TYPE": "function",
        "UDF_LIBRARY": "shapes.so",
        "UDF_USAGE_COUNT": 0,
    }
    task.unregister()
    function.unregister()
    assert every("component_scheduler_tasks") == every("user_defined_functions") == []
    raises(pfs.UnknownName, task.begin, "task", "'clean'")
    raises(pfs.InvalidValue, lambda: pfs.server.register_task("", 1), "64")
    raises(pfs.InvalidValue, lambda: pfs.server.register_task("x", -1), "seconds")


class Raises:
    """pytest.raises, which fresh processes do not have."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is self.kind


# ---- Hosts and logins --------------------------------------------------------------------------------------------------------


@fresh_process()
def test_host_cache_counts_each_error_in_its_column_and_TRUNCATE_empties_it() -> None:
    """host_cache: one row an address; each kind of error has a column; TRUNCATE."""
    columns = [c["name"] for c in _core.table_info(HOSTS)["columns"] if c["name"].startswith("COUNT_")]
    kinds = [name.removeprefix("COUNT_").removesuffix("_ERRORS").lower() for name in columns]
    for i, kind in enumerate(kinds):
        for _ in range(i + 1):
            pfs.server.host_error("192.0.2.1", kind)
    row = one(HOSTS)
    assert [row[name] for name in columns] == list(range(1, len(columns) + 1))
    assert (row["HOST"], row["HOST_VALIDATED"], row["SUM_CONNECT_ERRORS"]) == (None, "NO", 0)
    pfs.server.host_seen("192.0.2.1", "desk", validated=True)
    pfs.server.host_error("192.0.2.1", "handshake")
    row = one(HOSTS)
    assert (row["HOST"], row["HOST_VALIDATED"], row["SUM_CONNECT_ERRORS"]) == ("desk", "YES", 1)
    assert row["FIRST_SEEN"] <= row["LAST_SEEN"] <= time.time() * 1e6 + 1e6
    assert row["FIRST_SEEN"] % 10**6 == 0
    assert row["FIRST_ERROR_SEEN"] <= row["LAST_ERROR_SEEN"]
    pfs.server.host_seen("2001:db8::1")
    row = one(HOSTS, IP="2001:db8::1")
    assert (row["HOST"], row["FIRST_ERROR_SEEN"], row["LAST_ERROR_SEEN"]) == (None, None, None)
    text = raises(pfs.InvalidValue, lambda: pfs.server.host_error("192.0.2.1", "rude"))
    assert all(kind in text for kind in kinds)
    raises(pfs.InvalidValue, lambda: pfs.server.host_seen(""), "1 to 64")
    pfs.server.host_forget("2001:db8::1")
    raises(pfs.UnknownName, lambda: pfs.server.host_forget("2001:db8::1"), "2001:db8::1")
    assert len(every(HOSTS)) == 1
    pfs.truncate(HOSTS)
    assert every(HOSTS) == []
    pfs.server.host_error("192.0.2.1", "ssl")
    assert one(HOSTS)["COUNT_SSL_ERRORS"] == 1


@fresh_process()
def test_failed_logins_count_until_one_succeeds_and_locks_are_shown() -> None:
    """connection_control_failed_login_attempts, temporary_account_locks."""
    for _ in range(3):
        pfs.server.login_failed("anna", "desk")
    pfs.server.login_failed("otto", "desk")
    found = {row["USERHOST"]: row["FAILED_ATTEMPTS"] for row in every("connection_control_failed_login_attempts")}
    assert found == {"'anna'@'desk'": 3, "'otto'@'desk'": 1}
    pfs.server.login_succeeded("anna", "desk")
    pfs.server.login_succeeded("never", "seen")
    assert one("connection_control_failed_login_attempts")["USERHOST"] == "'otto'@'desk'"
    since, until = datetime.date(2024, 2, 29), datetime.date(2024, 3, 2)
    pfs.server.account_lock("u" * 40, "h" * 300, locked=True, failed_attempts=3, lock_days=2, since=since, until=until)
    pfs.server.account_lock("anna", "desk", failed_attempts=3, remaining_attempts=2, lock_days=-1)
    row = one("temporary_account_locks", USER="u" * 32, HOST="h" * 255)
    assert (row["LOCKED"], row["FAILED_LOGIN_ATTEMPTS"], row["REMAINING_LOGIN_ATTEMPTS"], row["PASSWORD_LOCK_TIME"]) == (
        "YES",
        3,
        0,
        2,
    )
    days = [datetime.datetime.fromtimestamp(row[c] / 1e6, datetime.UTC).date() for c in ("LOCKED_SINCE", "LOCKED_UNTIL")]
    assert days == [since, until]
    row = one("temporary_account_locks", USER="anna")
    assert (row["LOCKED"], row["PASSWORD_LOCK_TIME"], row["LOCKED_SINCE"], row["LOCKED_UNTIL"]) == ("NO", -1, None, None)
    pfs.server.account_lock("anna", "desk", remove=True)
    assert len(every("temporary_account_locks")) == 1


# ---- L3: the error log -------------------------------------------------------------------------------------------------------


def log_status() -> dict[str, int]:
    names = ("buffered_bytes", "buffered_events", "expired_events", "latest_write")
    return {name: int(pfs.status["Error_log_" + name]) for name in names}


@fresh_process()
def test_L3_events_keep_order_and_LOGGED_is_unique() -> None:
    """L3: PRIO, ERROR_CODE, SUBSYSTEM; events of the same microsecond are moved by one; the four statuses; no TRUNCATE."""
    assert log_status() == dict.fromkeys(("buffered_bytes", "buffered_events", "expired_events", "latest_write"), 0)
    for i in range(3000):
        _core.log(i % 4, "MY-010000", "server", b"%d" % i)
    found = every(LOG)
    assert [row["DATA"] for row in found] == [str(i) for i in range(3000)]
    times = [row["LOGGED"] for row in found]
    assert all(a < b for a, b in pairwise(times))
    assert [row["PRIO"] for row in found[:4]] == ["System", "Error", "Warning", "Note"]
    assert {(row["ERROR_CODE"], row["SUBSYSTEM"], row["THREAD_ID"]) for row in found} == {("MY-010000", "server", me())}
    assert log_status() == {"buffered_bytes": 3000 * 64, "buffered_events": 3000, "expired_events": 0, "latest_write": times[-1]}
    raises(pfs.OperationNotAllowed, lambda: pfs.truncate(LOG), "SELECT")
    pfs.truncate("global_status")
    assert log_status()["buffered_events"] == 3000


def test_L3_LOGGED_follows_a_wall_clock_that_was_set_back(fresh: Run, tmp_path: Path) -> None:
    """L3: after a jump forward and back events have the present time again, and LOGGED stays a key."""
    clock = tmp_path / "wall_clock.so"
    source = Path(__file__).parents[1] / "_programs" / "wall_clock.c"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-fPIC", "-shared", str(source), "-o", str(clock)], check=True)
    script = """
        import ctypes, sys
        import pfs
        from pfs import _core
        clock = ctypes.c_longlong.in_dll(ctypes.CDLL(sys.argv[1]), "wall_clock_micros")
        second = 1_000_000
        today, future = 1_800_000_000 * second, 10_000_000_000 * second
        for now in (today, future, today, today + 3, today + 10 * second, today + 1, future, today + 2, today + 11 * second):
            clock.value = now
            for _ in range(100):
                pfs.log(str(now))
        rows = _core.rows("error_log", ("LOGGED", "DATA"), None)
        assert len({row[0] for row in rows}) == len(rows) == 900
        for logged, data in rows:
            assert 0 <= logged - int(data) <= 2 * second, (logged, data)
        assert [logged for logged, data in rows if data == str(today + 11 * second)][0] == today + 11 * second
        assert int(pfs.status["Error_log_latest_write"]) == rows[-1][0]
        print("good")
    """
    assert fresh(script, str(clock), LD_PRELOAD=str(clock)) == "good\n"


def overfill_the_log() -> tuple[int, int]:
    """Returns the units of the events that are there, and those with one event more."""
    sizes = [(i * 7919) % 65000 for i in range(400)]
    for i, size in enumerate(sizes):
        pfs.log(f"{i:06d}" + "x" * size, "Note")
        if i % 50 == 49:
            now = log_status()
            assert now["buffered_events"] + now["expired_events"] == i + 1
            assert now["buffered_events"] == len(every(LOG))
    found = every(LOG)
    numbers = [int(row["DATA"][:6]) for row in found]
    assert numbers == list(range(400 - len(found), 400))
    assert all(row["DATA"] == f"{i:06d}" + "x" * sizes[i] for i, row in zip(numbers, found, strict=True))
    units = [(32 + 6 + sizes[i] + 63) // 64 for i in range(400)]
    assert log_status()["buffered_bytes"] == 64 * sum(units[-len(found) :])
    assert losses() == {}
    return sum(units[-len(found) :]), sum(units[-len(found) - 1 :])


@fresh_process()
def test_L3_the_ring_is_5_MiB_and_the_oldest_go_first() -> None:
    """L3: overfilled: the rest are the youngest, whole, in order; expired events are counted."""
    there, with_one_more = overfill_the_log()
    assert there <= 5 * 1024 * 1024 // 64 < with_one_more


@fresh_process(options="performance_schema_max_segment_megabytes=4")
def test_L3_a_ring_that_gets_less_memory_drops_the_oldest_earlier() -> None:
    """L3: the youngest are never lost for want of memory."""
    there, _ = overfill_the_log()
    assert 256 * 1024 // 64 < there < 4 * 1024 * 1024 // 64


@fresh_process()
def test_L3_texts_are_cut_and_NULL_where_there_is_none() -> None:
    """L3, L13: widths of columns; whole characters."""
    pfs.log("\N{SNOWMAN}" * 30000, code="123456789012", subsystem="\N{SNOWMAN}" * 3)
    pfs.log("")
    pfs.log("a\0b\udcff", "system")
    first, second, third = every(LOG)
    assert (first["DATA"], first["ERROR_CODE"], first["SUBSYSTEM"]) == ("\N{SNOWMAN}" * 21845, "1234567890", "\N{SNOWMAN}" * 2)
    assert (second["DATA"], second["ERROR_CODE"], second["SUBSYSTEM"], second["PRIO"]) == ("", None, None, "Note")
    assert (third["DATA"], third["PRIO"]) == ("a\0b\udcff", "System")  # the byte 0xff, as os.fsdecode() gives it
    raises(pfs.InvalidValue, lambda: pfs.log("x", "Fatal"), "System", "Error", "Warning", "Note", "'Fatal'")


@fresh_process()
def test_L3_the_standard_logging_goes_to_the_log() -> None:
    """L3: levels, name of the logger, code, exception, thread; a record that cannot be formatted does not stop the program."""
    logger = logging.getLogger("shop.orders")
    logger.setLevel(1)
    handler = pfs.LoggingHandler(level="INFO")
    logger.addHandler(handler)
    worker = Worker()
    logger.debug("left out")
    for level in (logging.INFO, 25, logging.WARNING, logging.ERROR, logging.CRITICAL):
        logger.log(level, "level %d", level)
    worker.do(partial(logger.warning, "elsewhere", extra={"error_code": "APP-000042"}))
    try:
        raise ValueError("no such order")
    except ValueError:
        logger.exception("failed")
    found = every(LOG)
    assert [row["PRIO"] for row in found] == ["Note", "Note", "Warning", "Error", "Error", "Warning", "Error"]
    assert {row["SUBSYSTEM"] for row in found} == {"shop.or"}
    assert [row["DATA"] for row in found[:2]] == ["level 20", "level 25"]
    assert (found[5]["THREAD_ID"], found[5]["ERROR_CODE"]) == (worker.id, "APP-000042")
    assert found[6]["DATA"].startswith("failed\nTraceback")
    assert found[6]["DATA"].endswith("ValueError: no such order")
    handler.setFormatter(logging.Formatter("<%(message)s>"))
    logger.warning("shown")
    assert every(LOG)[-1]["DATA"] == "<shown>"
    errors: list[object] = []
    handler.handleError = errors.append  # type: ignore[assignment,method-assign]
    logger.warning("%d", "no number")
    assert len(errors) == 1
    assert len(every(LOG)) == 8


# ---- Room, fork, off ---------------------------------------------------------------------------------------------------------


@fresh_process(f"{LIMIT}=4")
def test_rows_are_limited_and_their_room_is_used_again() -> None:
    """Never required: what has no room is refused, counted and named; the rest stays as it is."""
    for i in range(4):
        pfs.server.host_seen(f"192.0.2.{i}")
    raises(pfs.LimitReached, lambda: pfs.server.host_seen("192.0.2.9"), f"{LIMIT} is 4")
    raises(pfs.LimitReached, lambda: pfs.register_variable("v", 1), LIMIT)
    pfs.server.host_seen("192.0.2.3", "still")
    assert losses() == {"Performance_schema_program_rows_lost": 2}
    for i in range(1000):
        pfs.truncate(HOSTS)
        for j in range(4):
            pfs.server.host_seen(f"192.0.2.{j}", "name" * (i % 60))
    assert len(every(HOSTS)) == 4
    pfs.truncate(HOSTS)
    pfs.server.set_user_variable("big", b"1" * 3000)
    raises(pfs.LimitReached, lambda: pfs.server.set_user_variable("big", b"2" * 1000), LIMIT)
    assert one("user_variables_by_thread")["VARIABLE_VALUE"] == "1" * 3000


@fresh_process()
def test_fork_keeps_what_the_program_said_and_begins_a_log_of_its_own() -> None:
    """Facts stay in the child; values of threads that are not there vanish; the log is the parent's; nobody sees the other's."""
    mode = pfs.register_variable("mode", "fast", scope="SESSION")
    worker = Worker()
    pfs.set_account("anna", "desk")
    for do in (lambda call, *a: call(*a), worker.do):
        do(pfs.server.set_user_variable, "u", "1")
        do(setattr, mode, "thread_value", "slow")
    pfs.server.set_connect_attrs({"a": "x" * 600})
    pfs.server.host_seen("192.0.2.1", "desk")
    pfs.register_meter("m", 10)
    pfs.log("of the parent")
    here = me()

    def check() -> None:
        assert [row["THREAD_ID"] for row in every("user_variables_by_thread")] == [here]
        assert value_of("variables_by_thread", "mode", THREAD_ID=here) == "slow"
        assert len(every("variables_by_thread")) == 1
        assert (one(HOSTS)["HOST"], pfs.setup_meters["m"].frequency) == ("desk", 10)
        assert [name for name, _ in attributes().popitem()[1]] == ["_truncated"]
        assert (every(LOG), status("session_connect_attrs_lost"), log_status()["latest_write"]) == ([], 0, 0)
        pfs.log("of the child")
        mode.value = "medium"
        pfs.truncate(HOSTS)
        pfs.server.set_user_variable("u", "2")
        new = Worker()
        new.do(pfs.server.set_user_variable, "u", "3")
        assert len(every("user_variables_by_thread")) == 2
        assert one(LOG)["DATA"] == "of the child"

    in_child(check)
    assert (one(LOG)["DATA"], mode.value, one(HOSTS)["HOST"]) == ("of the parent", "fast", "desk")
    assert {row["VARIABLE_VALUE"] for row in every("user_variables_by_thread")} == {"1"}
    assert len(every("user_variables_by_thread")) == 2


ALWAYS = [table for table in pfs.tables() if _core.table_info(table)["available_when_disabled"]]


@fresh_process("performance_schema=OFF")
def test_L8_tables_that_are_always_available_work_while_pfs_is_off() -> None:
    """L8: variables of all kinds, hosts and account locks have rows that change; each thread has its own values; fork."""
    mode = pfs.register_variable("mode", "fast", scope="SESSION", attributes={"a": "b"})
    size = pfs.register_variable("size", 1, maximum=9)
    worker = Worker()
    mode.thread_value = "slow"
    worker.do(setattr, mode, "thread_value", "slower")
    size.value = 2
    pfs.server.host_error("192.0.2.1", "ssl")
    pfs.server.account_lock("anna", "desk", locked=True)
    assert {table for table in ALWAYS if not every(table)} == set()
    assert (mode.value, mode.thread_value, worker.do(lambda: mode.thread_value)) == ("fast", "slow", "slower")
    assert sorted(row["VARIABLE_VALUE"] for row in rows("variables_by_thread", VARIABLE_NAME="mode")) == ["slow", "slower"]
    assert one("variables_info", VARIABLE_NAME="size")["VARIABLE_SOURCE"] == "DYNAMIC"
    raises(pfs.InvalidValue, lambda: setattr(size, "value", 10), "9")
    worker.end()
    assert len(rows("variables_by_thread", VARIABLE_NAME="mode")) == 1
    worker = Worker()
    worker.do(setattr, mode, "thread_value", "gone")

    def check() -> None:
        assert (len(rows("variables_by_thread", VARIABLE_NAME="mode")), mode.thread_value) == (1, "slow")
        size.value = 3
        pfs.truncate(HOSTS)

    in_child(check)
    assert (size.value, len(every(HOSTS))) == (2, 1)
    pfs.truncate(HOSTS)
    assert every(HOSTS) == []


@fresh_process("performance_schema=OFF")
def test_L10_all_else_is_empty_and_nothing_fails_while_pfs_is_off() -> None:
    """L10: registrations give key 0, calls do nothing, tables are readable and empty; no segment is made."""
    assert _core.meter_register("m", 1, True, None) == _core.logger_register("l", 1, None) == 0
    assert (pfs.register_meter("m").frequency, pfs.server.register_logger("l").level) == (0, "none")
    with pfs.server.register_task("t", 1), pfs.server.register_function("f", "int"):
        pfs.server.set_user_variable("u", "1")
    pfs.server.set_connect_attrs({"a": "1"})
    pfs.server.login_failed("anna", "desk")
    pfs.log("nobody hears")
    assert {table for table in pfs.tables() if every(table) and table not in ALWAYS} == set()
    assert _core.segment_path() == ""
    assert losses() == {}
