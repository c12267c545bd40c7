"""What Python's instrumented objects cost beside the standard ones: the fastest of many interleaved blocks, in one process.

python lab/python_objects.py [--rounds 40]

Each line: nanoseconds of the standard object, and of ours with its instruments disabled, counted only (no timer, no records) and
with everything on, for one pass of the statement; an empty pass is taken off. "events" is how many one pass makes.
"""

from __future__ import annotations

import argparse
import queue
import random
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from timeit import Timer

import pfs

PASSES = 2000
STATES = ("off", "counted", "on")


@dataclass
class Case:
    name: str
    statement: str
    standard: dict[str, object] | None
    ours: dict[str, object]
    best: dict[str, float] = field(default_factory=dict)

    def measure(self, state: str) -> None:
        names = self.standard if state == "standard" else self.ours
        if names is None:
            return
        timer = Timer(self.statement, globals=names)
        timer.timeit(20)
        self.best[state] = min(self.best.get(state, 1e9), timer.timeit(PASSES) / PASSES * 1e9)


def cases() -> list[Case]:
    def both(name: str, statement: str, standard: Callable[[], object], ours: Callable[[], object]) -> Case:
        return Case(name, statement, {"x": standard()}, {"x": ours()})

    def held(condition: threading.Condition | pfs.Condition) -> object:
        condition.acquire()
        return condition

    standard_pair, pair = socket.socketpair(), pfs.socketpair("bench/SOCKET")
    send = "a.send(data); b.recv(100)"
    data = {"data": bytes(64)}
    return [
        both("Lock", "with x: pass", threading.Lock, lambda: pfs.Lock("bench/LOCK")),
        both("RLock", "with x: pass", threading.RLock, lambda: pfs.RLock("bench/RLOCK")),
        both("Condition, taken", "with x: pass", threading.Condition, lambda: pfs.Condition("bench/COND")),
        both(
            "Condition.wait(0)",
            "x.wait(0)",
            lambda: held(threading.Condition(threading.Lock())),
            lambda: held(pfs.Condition("bench/COND_wait", pfs.Lock("bench/COND_wait"))),
        ),
        both(
            "Condition.notify()", "x.notify()", lambda: held(threading.Condition()), lambda: held(pfs.Condition("bench/COND_n"))
        ),
        both("Semaphore", "with x: pass", threading.Semaphore, lambda: pfs.Semaphore("bench/SEM")),
        both("Event.set()", "x.set()", threading.Event, lambda: pfs.Event("bench/EVENT")),
        both("Queue", "x.put(1); x.get()", queue.Queue, lambda: pfs.Queue("bench/QUEUE")),
        both("SimpleQueue", "x.put(1); x.get()", queue.SimpleQueue, lambda: pfs.SimpleQueue("bench/SIMPLE")),
        Case("RWLock.read()", "with x.read(): pass", None, {"x": pfs.RWLock("bench/RW")}),
        Case("RWLock.write()", "with x.write(): pass", None, {"x": pfs.RWLock("bench/RW")}),
        Case(
            "socket send, recv",
            send,
            {"a": standard_pair[0], "b": standard_pair[1], **data},
            {"a": pair[0], "b": pair[1], **data},
        ),
    ]


def set_state(state: str) -> None:
    instruments = pfs.setup_instruments
    instruments.update("wait/%/bench/%", enabled=state != "off", timed=state == "on")
    for consumer in ("events_waits_current", "events_waits_history", "events_waits_history_long"):
        pfs.setup_consumers[consumer].enabled = state == "on"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    empty = Case("", "pass", {}, {})
    every = cases()
    made: dict[str, int] = {}
    for case in every:
        start = events()
        Timer(case.statement, globals=case.ours).timeit(100)
        made[case.name] = (events() - start) // 100
    for _ in range(rounds):
        for state in random.sample(STATES, 3):
            set_state(state)
            for case in random.sample(every, len(every)):
                case.measure("standard")
                case.measure(state)
            empty.measure("standard")
    nothing = empty.best["standard"]
    print(f"{'':20} {'events':>6} {'standard':>9} " + " ".join(f"{state:>15}" for state in STATES))
    for case in every:
        base = case.best.get("standard")
        line = f"{case.name:20} {made[case.name]:6} " + (f"{base - nothing:9.0f} " if base is not None else f"{'':10}")
        for state in STATES:
            cost = case.best[state] - nothing
            line += f"{cost:8.0f} " + (f"({cost / (base - nothing):.2f}) " if base is not None else f"{'':7}")
        print(line)


def events() -> int:
    return int(pfs.table("events_waits_summary_global_by_event_name")["COUNT_STAR"].sum())


if __name__ == "__main__":
    main()
