"""pfs.raised, pfs.handled and pfs.register_status; errors and status variables of C programs."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import threading
import traceback
import weakref
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._read.samples import take
from pfs._read.source import OWN
from tests.conftest import Build
from tests.python._programs.counted import number_of
from tests.python._programs.driver import Row, Worker, losses, me, raises, rows
from tests.python._programs.fresh_process import fresh_process
from tests.python.programs.test_programs import rows as rows_of
from tests.python.programs.test_programs import run, status_of, talking, values

ALL = "events_errors_summary_global_by_error"


def counts(table: str = ALL) -> dict[str, tuple[int, int]]:
    """(raised, handled) by ERROR_NAME, of those that were seen."""
    return {
        row["ERROR_NAME"]: (row["SUM_ERROR_RAISED"], row["SUM_ERROR_HANDLED"])
        for row in rows(table)
        if row["FIRST_SEEN"] is not None
    }


class Own(Exception):
    class Inner(Exception):
        pass


# ---- pfs.raised ----------------------------------------------------------------------------------------------------------------


@fresh_process()
def test_L1_exceptions_that_leave_a_block_count_by_class() -> None:
    """L1: raised where they leave the block, handled where somebody says so; nothing where there is none."""
    with pfs.raised() as counter:
        pass
    assert counts() == {}
    for kind in (ValueError, ValueError, Own, Own.Inner, KeyboardInterrupt):
        with suppress(BaseException), counter:
            raise kind
    with suppress(OSError), pfs.raised(handled=True):
        open("nowhere")  # noqa: SIM115
    pfs.handled(ValueError(1))
    pfs.handled(Own.Inner)
    assert counts() == {
        "builtins.ValueError": (2, 1),
        f"{__name__}.Own": (1, 0),
        f"{__name__}.Own.Inner": (1, 1),
        "builtins.KeyboardInterrupt": (1, 0),
        "builtins.FileNotFoundError": (1, 1),
    }
    found = {row["ERROR_NAME"]: (row["ERROR_NUMBER"], row["SQL_STATE"]) for row in rows(ALL)}
    assert found["builtins.ValueError"] == (number_of("builtins.ValueError"), "HY000")
    assert losses() == {}


@fresh_process()
def test_the_number_of_a_class_is_the_same_in_every_process() -> None:
    """Errors of two processes can be compared: the number is made from the name alone."""
    assert number_of("builtins.ValueError") == 1283236108


@fresh_process()
def test_an_exception_goes_on_as_it_is() -> None:
    """Law 2: the same object, its traceback, cause and context; what it says of itself is not asked."""

    class Odd(Exception):
        __module__ = None  # type: ignore[assignment]

        def __str__(self) -> str:
            raise AssertionError("asked")

    def fail() -> None:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise error from inner

    for error in (Odd(1), ValueError("x")):
        seen: list[BaseException] = []
        for block in (nullcontext(), pfs.raised()):
            try:
                with block:
                    fail()
            except Exception as caught:
                seen.append(caught)
                frames = [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
                assert frames == [me_name(), "fail"]
                caught.__traceback__ = None
        assert seen == [error, error]
        assert isinstance(error.__cause__, KeyError)
        assert error.__context__ is error.__cause__
        assert not hasattr(error, "__notes__")
    assert counts()["test_an_exception_goes_on_as_it_is.<locals>.Odd"] == (1, 0)


def me_name() -> str:
    return sys._getframe(1).f_code.co_name


@fresh_process()
def test_functions_are_decorated_and_generators_refused() -> None:
    """Plain and async functions count what leaves them; names and docs stay; what raises later is refused."""

    @pfs.raised()
    def plain(x: int, *, y: int = 0) -> float:
        """Doc."""
        return x / y

    @pfs.raised(handled=True)
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        if x == 0:
            raise Own
        return x

    assert (plain(4, y=2), plain.__name__, plain.__doc__) == (2.0, "plain", "Doc.")
    raises(ZeroDivisionError, lambda: plain(1))
    assert inspect.iscoroutinefunction(later)
    assert asyncio.run(later(3)) == 3
    raises(Own, lambda: asyncio.run(later(0)))

    async def cancelled() -> None:
        with pfs.raised():
            await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.create_task(cancelled())
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert counts() == {
        "builtins.ZeroDivisionError": (1, 0),
        f"{__name__}.Own": (1, 1),
        "asyncio.exceptions.CancelledError": (1, 0),
    }

    def generator() -> Any:
        yield 1

    async def stream() -> Any:
        yield 1

    for function in (generator, stream):
        raises(TypeError, lambda function=function: pfs.raised()(function), "pfs.raised", "later")  # type: ignore[misc]
    raises(TypeError, lambda: pfs.handled(3), "exception", "3")  # type: ignore[arg-type]
    raises(TypeError, lambda: pfs.handled(int), "exception")  # type: ignore[arg-type]
    raises(TypeError, lambda: pfs.raised(True))  # type: ignore[call-arg]
    assert repr(pfs.raised(handled=True)) == "pfs.raised(handled=True)"


@fresh_process()
def test_classes_are_not_kept_alive_and_odd_ones_count() -> None:
    """Law 2: a class that nobody else needs goes; one that says strange things of itself counts all the same."""
    gone = []
    for _ in range(20):
        kind = type("Short", (Exception,), {"__module__": "m"})
        gone.append(weakref.ref(kind))
        with suppress(Exception), pfs.raised():
            raise kind
        del kind
        gc.collect()
    assert [ref for ref in gone if ref() is not None] == []
    assert counts() == {"m.Short": (20, 0)}

    class Unhashable(type):
        __hash__ = None  # type: ignore[assignment]

    class Odd(Exception, metaclass=Unhashable):
        pass

    Odd.__qualname__ = "x" * 200
    lone = type("Lone", (Exception,), {"__module__": "\udc80"})
    lone.__qualname__ = "\udc80"
    for kind in (Odd, Odd, lone):
        with suppress(Exception), pfs.raised():
            raise kind
    assert counts()[f"{__name__}.{'x' * 200}"[:64]] == (2, 0)
    assert counts()["\udc80.\udc80"] == (1, 0)  # the bytes that the surrogates stand for


@fresh_process()
def test_many_threads_see_a_class_for_the_first_time_at_once() -> None:
    """One row for one class, however many come first; every exception is counted in its thread."""
    classes = [type(f"E{i}", (Exception,), {"__module__": "m"}) for i in range(50)]
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for kind in classes * 3:
            with suppress(Exception), pfs.raised():
                raise kind

    workers = [Worker() for _ in range(8)]
    for worker in workers:
        worker.start(work)
    for worker in workers:
        worker.result()
    assert counts() == {f"m.E{i}": (24, 0) for i in range(50)}
    by_thread = [row for row in rows("events_errors_summary_by_thread_by_error") if row["ERROR_NUMBER"] is not None]
    assert {row["SUM_ERROR_RAISED"] for row in by_thread if row["THREAD_ID"] != me()} == {3}
    assert len(rows(ALL)) == 51


@fresh_process("performance_schema=OFF")
def test_with_pfs_off_exceptions_and_status_variables_do_nothing() -> None:
    """L10: the same program, nothing counted."""
    with suppress(ValueError), pfs.raised(handled=True):
        raise ValueError
    pfs.handled(ValueError)
    variable = pfs.register_status("Off")
    variable.add(3)
    assert "Off" not in pfs.status
    assert rows(ALL) == []


# ---- pfs.register_status -------------------------------------------------------------------------------------------------------


@fresh_process()
def test_F17_a_status_variable_of_python() -> None:
    """F17: add() counts for the calling thread; one name, one variable; wrong arguments change nothing."""
    variable = pfs.register_status("Python_count", "Counted by Python.")
    again = pfs.register_status("python_COUNT")
    variable.add()
    again.add(5)
    Worker().do(variable.add, -2)
    for wrong in (lambda: variable.add(1, 2), lambda: variable.add("x"), lambda: variable.add(1.5)):  # type: ignore[call-arg,arg-type]
        raises(TypeError, wrong)
    raises(OverflowError, lambda: variable.add(2**63))
    assert pfs.status["Python_count"] == 4
    assert {row["THREAD_ID"]: row["VARIABLE_VALUE"] for row in rows("status_by_thread")}[me()] == "6"
    assert (variable.name, repr(again)) == ("Python_count", "pfs.register_status('python_COUNT')")
    pfs.truncate("global_status")
    assert pfs.status["Python_count"] == 0


@fresh_process()
def test_what_the_program_lost_is_no_loss_of_pfs() -> None:
    """A variable of the program may end in _lost, too. Frames and screens warn of what pfs itself has lost."""
    pfs.register_status("Packets_lost").add(3)
    assert pfs.status["Packets_lost"] == 3
    assert pfs.table("threads").attrs["lost"] == {}
    assert take(OWN).lost == 0


# ---- C programs ----------------------------------------------------------------------------------------------------------------

LEVELS = ("thread", "account", "user", "host", "global")


def errors_of(segment: str, level: str = "global") -> list[Row]:
    table = f"events_errors_summary_{'' if level == 'global' else 'by_'}{level}_by_error"
    return [row for row in rows_of(segment, table) if row["FIRST_SEEN"] is not None]


def test_what_four_threads_register_and_count_at_once_is_all_there(build: Build, tmp_path: Path) -> None:
    """L1, F2, F17: one row for each error and variable; sums are what the program counted; a forked child has its own."""
    with talking(build("counted"), "threads", folder=tmp_path) as program:
        program.until("child")
        said = program.said
        assert said["bad"] == "0"
        for level in LEVELS[1:]:
            found = errors_of(said["segment"], level)
            assert sum(row["SUM_ERROR_RAISED"] for row in found) == int(said["raised"])
            named = {row["ERROR_NAME"]: (row["SUM_ERROR_RAISED"], row["SUM_ERROR_HANDLED"]) for row in found}
            # 5000 rounds of 40 errors in 4 threads, and one each at the registration; every second is handled.
            assert named == {None: (2000, 0)} | {f"Error_{i}": (504, 500 if i % 2 == 0 else 0) for i in range(40)}
        state = status_of(said["segment"])
        assert {name: value for name, value in state.items() if name.startswith("Counted_")} == {
            f"Counted_{i}": str(125 * (3 - 1 + 3 - 1)) for i in range(40)
        }
        by_user = rows_of(said["segment"], "status_by_user")
        assert {row["VARIABLE_NAME"]: row["VARIABLE_VALUE"] for row in by_user} == {f"Counted_{i}": "500" for i in range(40)}
        assert {name for name, value in state.items() if name.endswith("_lost") and value != "0"} == set()
        (own,) = [row for row in errors_of(said["child"]) if row["ERROR_NAME"] == "Error_0"]
        assert (own["SUM_ERROR_RAISED"], own["SUM_ERROR_HANDLED"]) == (7, 0)
        assert {row["ERROR_NAME"] for row in errors_of(said["child"])} == {"Error_0", "Of_the_child"}
        assert [row["ERROR_NAME"] for row in errors_of(said["child"], "thread")] == ["Error_0"]
        assert status_of(said["child"])["Counted_0"] == "14"
        # Nobody of this process is the calling thread of that one.
        session = {row["VARIABLE_NAME"] for row in rows_of(said["segment"], "session_status")}
        assert session == {name for name in state if not name.startswith("Counted_")}


def test_a_signal_handler_that_counts_loses_nothing_uncounted(build: Build, tmp_path: Path) -> None:
    """L9: what a handler raises inside of a probe is counted as lost, all else is there; the program's own is all there."""
    said = values(run(build("counted"), "timer", cwd=tmp_path, env={"PFS_KEEP": "1"}))
    calls, done = int(said["calls"]), int(said["done"])
    assert said["bad"] == "0"
    assert calls > 50
    found = {row["ERROR_NAME"]: row["SUM_ERROR_RAISED"] for row in errors_of(said["segment"])}
    state = {name: int(value or 0) for name, value in status_of(said["segment"]).items() if "reason" not in name}
    lost = state["Performance_schema_locker_lost"]
    print(f"{calls} calls of the handler, {lost} lost; {done} of the program")
    assert found["Of_the_program"] == done
    assert found["Of_the_handler"] + state["Timer"] + lost == 2 * calls + done
    assert state["Performance_schema_thread_statistics_lost"] == 0


@pytest.mark.parametrize("options", ["", "performance_schema=OFF", "performance_schema_error_size=5"])
def test_the_program_does_the_same_without_pfs(build: Build, tmp_path: Path, options: str) -> None:
    outputs = []
    for disabled in (True, False):
        text = run(build("counted", disabled), "threads", cwd=tmp_path, env={"PFS_OPTIONS": options}, input="g\n")
        outputs.append([line for line in text.splitlines() if line.split(" ")[0] in ("bad", "raised")])
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == "bad 0"
