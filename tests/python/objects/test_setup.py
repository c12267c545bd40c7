"""The setup tables as writable objects, options, account and thread name."""

from __future__ import annotations

from typing import Any

import pytest

import pfs
from pfs import _core, setup
from tests.conftest import Run

TABLES: list[setup.SetupTable] = [
    pfs.setup_actors,
    pfs.setup_consumers,
    pfs.setup_instruments,
    pfs.setup_threads,
    pfs.setup.setup_timers,
    pfs.threads,
]


@pytest.fixture(autouse=True)
def instruments() -> list[pfs.Lock]:
    worker = pfs.Thread(target=int, instrument="setup/worker")  # a row of setup_threads
    worker.start()
    worker.join()
    return [pfs.Lock("setup/LOCK_a"), pfs.Lock("setup/LOCK_b")]


@pytest.fixture(autouse=True)
def put_back() -> Any:
    saved = [(table, table.save()) for table in TABLES]
    yield
    for table, settings in saved:
        table.restore(settings)


A, B = "wait/synch/mutex/setup/LOCK_a", "wait/synch/mutex/setup/LOCK_b"


def test_update_returns_rows_changed_and_shows_in_the_table() -> None:
    assert pfs.setup_instruments.update("wait/synch/mutex/setup/%", enabled=False) == 2
    assert pfs.setup_instruments.update(where={"NAME": A}, enabled="YES", timed=False) == 1
    frame = pfs.table("setup_instruments").set_index("NAME")
    assert frame.loc[[A, B], ["ENABLED", "TIMED"]].to_numpy().tolist() == [["YES", "NO"], ["NO", "YES"]]
    with pytest.raises(pfs.UnknownName, match="no/such/%"):  # no instrument can ever match
        pfs.setup_instruments.update("no/such/%", enabled=False)
    assert pfs.setup_instruments.update(where={"NAME": "%/setup/%", "ENABLED": False}, enabled=True) == 1


def test_where_is_a_condition_as_pfs_table_takes_it() -> None:
    rules = len(pfs.setup_instruments.rules)
    assert pfs.setup_instruments.update("%/setup/%", where="NAME like '%_a' and TIMED = 'YES'", timed=False) == 1
    assert pfs.setup_instruments.update(where=f"NAME in ('{A}', '{B}') and TIMED = 'NO'", enabled=False) == 1
    condition = "NAME like '%/setup/LOCK_%' and ENABLED = 'NO'"
    assert pfs.table("setup_instruments", ["NAME", "TIMED"], where=condition).to_numpy().tolist() == [[A, "NO"]]
    assert len(pfs.setup_instruments.rules) == rules  # a condition is about the rows that there are
    pfs.setup_actors.insert(user="where_a", role="%")
    pfs.setup_actors.insert(user="where_b", role="%")
    assert pfs.setup_actors.delete(where="USER like 'where%' and USER <> 'where_b'") == 1
    assert pfs.setup_actors.delete("%", where={"USER": "where%"}) == 1
    before = pfs.setup_instruments.save()._rows
    with pytest.raises(pfs.InvalidValue, match="legal are comparisons"):
        pfs.setup_instruments.update(where="wait/%", enabled=False)
    with pytest.raises(pfs.UnknownColumn, match="NAMES"):
        pfs.setup_actors.delete(where="NAMES = 'x'")
    with pytest.raises(pfs.InvalidValue, match="SUNDIAL"):
        pfs.setup_instruments.update(where="NAME like '%/setup/%'", timed="SUNDIAL")
    with pytest.raises(TypeError, match="where of threads is a condition in a text"):
        pfs.table("threads", where=5)  # type: ignore[arg-type]
    assert pfs.setup_instruments.save()._rows == before


def test_where_is_like_without_regard_to_case() -> None:
    assert len(pfs.setup_instruments["WAIT/synch/MUTEX/setup/lock_a"]) == 1
    assert len(pfs.setup_instruments["%/setup/LOCK__"]) == 2
    assert len(pfs.setup_instruments["%"]) == len(pfs.setup_instruments) == len(pfs.table("setup_instruments"))


def test_attributes_read_and_write() -> None:
    both = pfs.setup_instruments["%/setup/LOCK__"]
    values = [both.enabled]
    pfs.setup_instruments[B].enabled = False
    values += [both.enabled]
    assert values == [True, None]
    assert (pfs.setup_instruments[A].enabled, pfs.setup_instruments[B].enabled) == (True, False)
    both.enabled = "NO"
    assert both.enabled is False
    both.timed = False
    assert pfs.setup_instruments[A].timed is False
    assert both.frame()["NAME"].tolist() == [A, B]


def test_unknown_pattern_names_the_nearest() -> None:
    with pytest.raises(pfs.UnknownName, match="wait/synch/mutex/setup/LOCK_a"):
        pfs.setup_instruments["wait/synch/mutex/setup/LOCK_aa"]
    with pytest.raises(pfs.UnknownName, match="events_waits_current"):
        pfs.setup_consumers["events_wait_current"].enabled = False
    with pytest.raises(pfs.UnknownName):
        pfs.threads[10**9]


def test_bad_updates_raise_and_change_nothing() -> None:
    before = [table.save()._rows for table in TABLES]
    for call in (
        lambda: pfs.setup_instruments.update(A, enabled="MAYBE"),
        lambda: pfs.setup.setup_timers.update("wait", timer_name="SUNDIAL"),
        lambda: pfs.setup.setup_timers["wait"].__setattr__("timer_name", "THREAD_CPU"),
        lambda: pfs.setup_instruments.update(A),
    ):
        with pytest.raises(pfs.InvalidValue) as caught:
            call()
        assert any(word in str(caught.value) for word in ("YES", "CYCLE", "enabled"))
    with pytest.raises(pfs.UnknownName, match="NAME"):
        pfs.setup_instruments.update({"NAMES": "x"}, enabled=True)
    with pytest.raises(pfs.InvalidValue, match="None"):
        pfs.setup_instruments.update({"TIMED": None}, enabled=True)
    with pytest.raises(pfs.OperationNotAllowed, match="enabled"):
        pfs.setup_instruments[A].name = "x"
    with pytest.raises(pfs.OperationNotAllowed, match="ENABLED"):
        _core.update("setup_instruments", [], [("NAME", "x")])
    with pytest.raises(TypeError):
        pfs.setup_instruments.update(A, volatility=1)  # type: ignore[call-arg]
    for table in (table for table in TABLES if table is not pfs.setup_actors):
        for refused in (table.insert, table.delete):
            with pytest.raises(pfs.OperationNotAllowed, match="UPDATE"):
                refused("x")
        with pytest.raises(pfs.OperationNotAllowed):
            pfs.truncate(table.name)
    for table, old in zip(TABLES, before, strict=True):
        new = table.save()._rows
        # A thread of an earlier test may end meanwhile.
        gone = set(old) - set(new) if table is pfs.threads else set()
        assert {row: old[row] for row in old if row not in gone} == new


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_writable_column_has_a_keyword_and_only_those(table: setup.SetupTable) -> None:
    columns = {column["name"].lower(): column["writable"] for column in _core.table_info(table.name)["columns"]}
    for name, is_writable in columns.items():
        assert hasattr(table[{}], name) == (name in dir(table[{}])) == is_writable, name
        with pytest.raises(
            pfs.InvalidValue if is_writable else TypeError, match="nothing to change" if is_writable else "legal: "
        ):
            table.update({}, **{name: None})


def test_save_and_restore() -> None:
    saved = pfs.setup_instruments.save()
    assert "setup_instruments" in repr(saved)
    pfs.setup_instruments.update(enabled=False)
    pfs.setup_instruments.update(A, timed=False)
    newer = pfs.Lock("setup/LOCK_newer")
    assert pfs.setup_instruments.restore(saved) >= 2
    assert pfs.setup_instruments.restore(saved) == 0
    assert (pfs.setup_instruments[A].enabled, pfs.setup_instruments[A].timed) == (True, True)
    del newer
    with pytest.raises(pfs.InvalidValue, match="setup_consumers"):
        pfs.setup_instruments.restore(pfs.setup_consumers.save())


def test_with_puts_back_also_after_an_exception_and_nested() -> None:
    def change() -> None:
        with pfs.setup_instruments as table:
            assert table is pfs.setup_instruments
            table[A].enabled = False
            with pfs.setup_instruments:
                table[B].enabled = False
            assert (table[A].enabled, table[B].enabled) == (False, True)
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert pfs.setup_instruments[A].enabled is True
    with pfs.setup_consumers, pfs.setup.setup_timers:
        pfs.setup_consumers["events_waits_history"].enabled = False
        pfs.setup.setup_timers["wait"].timer_name = "NANOSECOND"
        assert pfs.setup.setup_timers["wait"].timer_name == "NANOSECOND"
    assert pfs.setup_consumers["events_waits_history"].enabled is True


def test_only_enables_these_during_the_block() -> None:
    with pfs.setup_instruments.only(A) as table:
        assert table[A].enabled is True
        assert table[B].enabled is False
    assert pfs.setup_instruments[B].enabled is True
    with pytest.raises(pfs.UnknownName), pfs.setup_instruments.only({"NOTHING": "x"}):
        pass
    assert pfs.setup_instruments[B].enabled is True


def test_changes_act_at_once_on_counting(instruments: list[pfs.Lock]) -> None:
    def count() -> int:
        frame = pfs.table("events_waits_summary_by_instance").set_index("OBJECT_INSTANCE_BEGIN")
        return int(frame["COUNT_STAR"].to_dict()[id(instruments[0])])

    for enabled, counted in ((True, 1), (False, 1), (True, 2)):
        pfs.setup_instruments[A].enabled = enabled
        with instruments[0]:
            pass
        assert count() == counted


def test_threads_by_id_and_by_name() -> None:
    pfs.set_thread_name("setup/main")
    with pfs.Lock("setup/LOCK_a"):
        pass
    row = pfs.threads["thread/setup/main"]
    number = row.frame()["THREAD_ID"].tolist()[0]
    pfs.threads[number].history = False
    assert row.history is False
    assert pfs.threads.update({"THREAD_ID": number}, instrumented=False, history=True) == 1
    assert row.instrumented is False
    with pytest.raises(pfs.InvalidValue):
        pfs.set_thread_name("")


def test_account_shows_in_threads() -> None:
    pfs.set_thread_name("setup/account")
    pfs.set_account("anna", "desk")
    frame = pfs.threads["thread/setup/account"].frame()
    assert frame[["PROCESSLIST_USER", "PROCESSLIST_HOST"]].to_numpy().tolist() == [["anna", "desk"]]
    pfs.set_account("x" * 33, "desk")  # cut (semantics.md L13)
    assert pfs.threads["thread/setup/account"].frame()["PROCESSLIST_USER"].tolist() == ["x" * 32]
    pfs.set_account("", "")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_tables_show_themselves(table: setup.SetupTable) -> None:
    text, html = repr(table), table._repr_html_()
    assert text.startswith(table.name)
    for column in table.frame().columns:
        assert column in text
        assert f">{column}</th>" in html
    assert bool(table) is True
    rows = table[{}]
    assert repr(rows).startswith(table.name)
    assert "<table>" in rows._repr_html_()


def test_html_is_escaped() -> None:
    from pfs._read.show import as_html, as_text

    assert "<b>x" not in as_html("t", ["A"], [["<b>x"]])
    assert "60 of 100 rows" in as_text("t", ["A"], [[i] for i in range(100)])


def test_variables_and_status_are_mappings() -> None:
    assert pfs.variables["performance_schema"] == "ON"
    assert pfs.variables["events_waits_history_size"] == pfs.variables["PERFORMANCE_SCHEMA_EVENTS_WAITS_HISTORY_SIZE"] == 10
    assert pfs.status["Performance_schema_locker_lost"] == pfs.status["performance_schema_LOCKER_lost"]
    assert set(pfs.variables) == set(pfs.table("global_variables")["VARIABLE_NAME"])
    assert len(pfs.status) == len(list(pfs.status)) == len(pfs.status.frame())
    assert "events_waits_history_size" in pfs.variables
    assert "nothing" not in pfs.variables
    assert pfs.variables.get("nothing", 5) == 5
    with pytest.raises(KeyError, match="events_waits_history_size") as caught:
        pfs.variables["events_waits_history_sizes"]
    assert isinstance(caught.value, pfs.UnknownName)
    assert "performance_schema_max_file_classes" in repr(pfs.variables)
    assert "performance_schema_max_file_classes" in pfs.variables._repr_html_()
    with pytest.raises(TypeError):
        pfs.variables["events_waits_history_size"] = 5  # type: ignore[index]


def test_items_and_values_of_a_mapping_are_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reading of the table each, however many names there are."""
    readings = 0
    read = pfs.status._read

    def counted() -> dict[str, int | str]:
        nonlocal readings
        readings += 1
        return read()

    monkeypatch.setattr(pfs.status, "_read", counted)
    items = dict(pfs.status.items())
    assert readings == 1
    assert len(list(pfs.status.values())) == len(items) > 20
    assert readings == 2
    assert items.keys() == set(pfs.status)


def test_configure_before_first_use(fresh: Run) -> None:
    out = fresh("""
        import pfs
        pfs.configure(events_waits_history_size=3, performance_schema_max_mutex_classes=7, cycle_timer=False,
                      instrument="wait/synch/mutex/setup/%=counted", consumer_events_waits_history_long="OFF")
        lock = pfs.Lock("setup/LOCK_a")
        for _ in range(5):
            with lock: pass
        print(pfs.variables["events_waits_history_size"], pfs.variables["max_mutex_classes"], pfs.variables["cycle_timer"])
        print(len(pfs.table("events_waits_history")), len(pfs.table("events_waits_history_long")))
        print(pfs.setup_instruments["%/setup/LOCK_a"].enabled, pfs.setup_instruments["%/setup/LOCK_a"].timed)
        print(pfs.setup_consumers["events_waits_history_long"].enabled)
        try:
            pfs.configure(events_waits_history_size=4)
        except pfs.StateError as error:
            print(bool(str(error)))
    """)
    assert out == "3 7 OFF\n3 0\nTrue False\nFalse\nTrue\n"


def test_configure_with_bad_options_starts_nothing(fresh: Run) -> None:
    out = fresh("""
        import pfs
        for options, kind in (
            (dict(events_wait_history_size=1), pfs.UnknownName),
            (dict(events_waits_history_size=10**9), pfs.InvalidValue),
            (dict(events_waits_history_size="many"), pfs.InvalidValue),
            (dict(instrument="x"), pfs.InvalidValue),
            (dict(instrument="a'b=on"), pfs.InvalidValue),
            (dict(max_file_classes=[1]), pfs.InvalidValue),
        ):
            try:
                pfs.configure(**options)
            except pfs.Error as error:
                assert type(error) is kind, (options, error)
            else:
                raise AssertionError(options)
        pfs.configure(events_waits_history_size=4)
        print(pfs.variables["events_waits_history_size"])
    """)
    assert out == "4\n"
