"""Calls public and compiled functions of pfs with wrong arguments, and says what is wrong: errors that no caller can understand.

python -m tests.python._programs.wrong_calls SEED CALLS SAID FOLDER

It takes a sample of all functions and values, works in the folder, and writes JSON to the file SAID.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import io
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pfs
from pfs import _core

# They turn the process into another kind of one; the last is made by this package alone.
LEFT_OUT = {"adopt", "in_outsider_section", "Diff"}


class Surprise(BaseException):
    """An alarm: the call waits."""


class Hostile:
    """Raises wherever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("hostile")

    def __index__(self) -> int:
        raise RuntimeError("hostile")

    def __hash__(self) -> int:
        raise RuntimeError("hostile")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hostile")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("hostile")

    def __str__(self) -> str:
        raise RuntimeError("hostile")

    def __fspath__(self) -> str:
        raise RuntimeError("hostile")


class Text(str):
    """A str that is none."""

    __slots__ = ()

    def encode(self, *_: object, **__: object) -> bytes:
        raise RuntimeError("hostile")


def values() -> list[Any]:
    lock = pfs.Lock("wrong/LOCK")
    return [
        *(None, True, False, 10**6, -1, 2**31, 2**32, 2**63, 2**64, -(2**63) - 1, 10**30),
        *(0.5, -0.5, 1e300, float("nan"), float("inf"), 1j, Decimal("0.1"), Fraction(1, 3)),
        *(
            "",
            "a",
            "a/b",
            "wait/synch/mutex/a/b",
            "wait/io/%",
            "%",
            "\0",
            "a\0b",
            "\ud800",
            "é" * 300,
            "x" * 100_000,
            "/",
            "threads",
        ),
        *(
            "TIMER_WAIT > 5ms",
            "select 1",
            "COUNT_STAR desc",
            b"",
            b"a",
            b"\xff\0",
            bytearray(b"a"),
            memoryview(b"abc"),
            Text("a/b"),
        ),
        *([], ["a"], [("a", 1)], (), (1, 2), {}, {"a": 1}, set(), range(3), iter([1]), [[]] * 3, [None], {"THREAD_ID": 1}),
        *(
            object(),
            object,
            int,
            type,
            lambda *_: None,
            Hostile(),
            Hostile,
            pfs,
            lock,
            pfs.Lock,
            ValueError,
            ValueError("x"),
            ...,
        ),
    ]


def objects() -> dict[str, Any]:
    """One of each type whose methods are called, by a name."""
    left, right = pfs.socketpair("wrong/socket")
    return {
        "Lock": pfs.Lock("wrong/LOCK"), "RLock": pfs.RLock("wrong/RLOCK"), "RWLock": pfs.RWLock("wrong/RW"),
        "Condition": pfs.Condition("wrong/COND"), "Event": pfs.Event("wrong/EVENT"), "Semaphore": pfs.Semaphore("wrong/SEM"),
        "Barrier": pfs.Barrier("wrong/BARRIER", 1), "Queue": pfs.Queue("wrong/QUEUE"),
        "SimpleQueue": pfs.SimpleQueue("wrong/SIMPLE"),
        "statement": pfs.statement("wrong/statement"), "running": pfs.statement("wrong/statement").begin(),
        "transaction": pfs.transaction(), "stage": pfs.stage("wrong/stage"), "wait": pfs.wait("wrong/wait"),
        "memory": pfs.memory("wrong/memory"), "block": pfs.memory("wrong/memory").block(1), "Table": pfs.Table("wrong"),
        "raised": pfs.raised(), "status": pfs.register_status("Wrong_status"), "file": pfs.open("/dev/null", name="wrong/file"),
        "socket": left, "other socket": right, "setup_instruments": pfs.setup_instruments, "setup_consumers": pfs.setup_consumers,
        "setup_actors": pfs.setup_actors, "setup_objects": pfs.setup_objects, "setup_threads": pfs.setup_threads,
        "setup_timers": pfs.setup.setup_timers, "status of pfs": pfs.status,
    }  # fmt: skip


def most_arguments(function: Any) -> int:
    """How many positional arguments a function may have, as far as it says so; 4 at most."""
    try:
        parameters = inspect.signature(function).parameters.values()
        return min(sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters), 4)
    except (ValueError, TypeError):
        first = (function.__doc__ or "").strip().partition("\n")[0]
        return min(first.partition("(")[2].rpartition(")")[0].count(": "), 4)


def functions(things: dict[str, Any]) -> list[tuple[str, Callable[..., Any], int]]:
    """Name, function, how many arguments it may have."""
    found: list[tuple[str, Callable[..., Any], int]] = []
    for where in (pfs, _core):
        names = pfs.__all__ if where is pfs else [name for name in dir(_core) if not name.startswith("__")]
        for name in names:
            thing = getattr(where, name)
            if callable(thing) and not isinstance(thing, ModuleType) and name not in LEFT_OUT:
                found.append((f"{where.__name__}.{name}", thing, most_arguments(thing)))
    for kind, thing in things.items():
        for name in dir(type(thing)):
            if name.startswith("_") and name not in (
                "__enter__",
                "__exit__",
                "__call__",
                "__getitem__",
                "__setitem__",
                "__init__",
                "__eq__",
            ):
                continue
            method = getattr(type(thing), name, None)
            if name == "__init__" or not callable(method):
                continue
            call = lambda *a, thing=thing, name=name: getattr(thing, name)(*a)  # noqa: E731
            found.append((f"{kind}.{name}", call, max(most_arguments(method) - 1, 0)))
    return found


# Messages of the machinery below, which name no argument of the caller.
UNCLEAR = ("Unable to cast", "bad argument type for built-in", "Invoked with types")


def is_clear(error: BaseException, name: str) -> bool:
    if isinstance(error, SystemError | RecursionError | NameError):
        return False
    if isinstance(error, AttributeError):  # sockets and files have methods of the standard classes
        return name.startswith(("pfs._core.", "socket.", "other socket.", "file."))
    if isinstance(error, AssertionError):
        return name == "pfs.Thread"  # its base is the standard class, which asserts
    if name.startswith("pfs._core."):  # called by this package alone, which passes what fits
        return True
    return not any(words in str(error) for words in UNCLEAR)


def main(seed: int, calls: int, said: Path) -> None:
    dice = random.Random(seed)
    things = objects()
    sample, all_values = functions(things), values()
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    state = {"may": False}

    def alarm(*_: object) -> None:
        if state["may"]:
            raise Surprise

    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    before = os.dup(2)
    for number in range(calls):
        name, function, most = sample[number] if number < len(sample) else dice.choice(sample)
        count = dice.randrange(most + 1) if dice.random() < 0.3 else most + (dice.random() < 0.05)
        arguments = [dice.choice(all_values) for _ in range(count)]
        error: BaseException | None = None
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                state["may"] = True
                function(*arguments)
            ends["returns"] += 1
        except Surprise:
            ends["waits"] += 1
        except BaseException as raised:
            error = raised
            ends[type(raised).__name__] += 1
        finally:
            state["may"] = False
        if error is not None and not is_clear(error, name):
            shown = ", ".join(repr(type(a).__name__) if isinstance(a, Hostile) else repr(a)[:40] for a in arguments)
            wrong.append(f"{name}({shown}): {type(error).__name__}: {error!s:.200}")
        del error
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.dup2(before, 2)
    gc.collect()
    with pfs.Lock("wrong/LOCK"):  # all still works
        pass
    pfs.table("events_waits_summary_global_by_event_name")
    said.write_text(json.dumps({"functions": len(sample), "values": len(all_values), "ends": ends, "wrong": wrong}))
    os._exit(0)


if __name__ == "__main__":
    os.chdir(sys.argv[4])
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
