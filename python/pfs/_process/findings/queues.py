"""Finds locks for which threads queue, and the calls that their holders make meanwhile."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pfs._process.findings.limits import LEAST, LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["Wait", "add_queues", "threads_waited_for"]

_SHORTEST = 1_000_000  # picoseconds: a shorter wait for a lock is no queue
_TURN = 2_000_000_000  # picoseconds: a thread that got its lock does what it locked for within this time
_AFTER = 500_000_000  # picoseconds: a thread that waits has the lock within this time after its holder's call
_MOST = 8  # locks of a process that are of interest, the worst
_REQUEST = re.compile(r"`?[A-Z]+`? /")  # of HTTP: it contains all that it waits for

# Waits of other kinds that may be waits for a lock: semaphores, futexes (a Mutex of Rust), and critical sections of OpenMP.
_LIKE_LOCKS: dict[str, Callable[[Wait], bool]] = {
    "cond": lambda wait: "/sem-" in wait.name or "/futex-" in wait.name,
    "openmp": lambda wait: wait.op == "lock",
}

Interval = tuple[int, int]


class Wait(NamedTuple):
    """A wait that has ended. `nest` is the statement that it is a part of."""

    thread: int
    event: int
    name: str
    kind: str
    place: str | None
    op: str
    object: int
    file: str | None
    bytes: int | None
    t0: int
    t1: int
    dt: int
    nest: int | None


class _Call(NamedTuple):
    t0: int
    t1: int
    what: str  # io or statement
    thing: str  # a file, or the text of a statement
    op: str


def add_queues(
    p: int,
    waits: Sequence[Wait],
    statements: Sequence[tuple[Any, ...]],
    scale: Mapping[str, float],
    insert: Callable[[str, Iterable[Any]], None],
) -> None:
    """Adds the locks that threads queue for, and the calls made meanwhile, to the tables `queue` and `under`."""
    locks: dict[int, list[Wait]] = defaultdict(list)
    calls: dict[int, list[_Call]] = defaultdict(list)  # by thread
    for wait in waits:
        if wait.dt >= _SHORTEST and (wait.kind == "lock" or (wait.kind in _LIKE_LOCKS and _LIKE_LOCKS[wait.kind](wait))):
            locks[wait.object].append(wait)
        elif wait.kind in ("file", "socket") and wait.file is not None and wait.nest is None and wait.op != "lock":
            calls[wait.thread].append(_Call(wait.t0, wait.t1, "io", wait.file, wait.op))
    for _, thread, _, _, _, text, _, t0, t1, *_ in statements:
        if text is not None and not _REQUEST.match(text):
            calls[thread].append(_Call(t0, t1, "statement", text, ""))
    for each in calls.values():
        each.sort(key=lambda call: call.t0)
    for lock, of_lock in sorted(locks.items(), key=lambda item: -sum(wait.dt for wait in item[1]))[:_MOST]:
        merged = _merged((wait.t0, wait.t1) for wait in of_lock)
        waited = sum(b - a for a, b in merged)
        name = of_lock[0].name
        if waited * scale[name] < LEAST:
            continue
        if of_lock[0].kind == "cond" and (_all_wait(of_lock) > LIMITS["all_wait"] * waited or _end_together(of_lock)):
            continue
        places: dict[str | None, int] = defaultdict(int)
        for wait in of_lock:
            places[wait.place] += wait.dt
        threads = len({wait.thread for wait in of_lock})
        insert("queue", [(p, lock, name, max(places, key=places.__getitem__), len(of_lock), threads, waited, scale[name])])
        insert("under", _under(p, lock, of_lock, merged, calls))


def threads_waited_for(waits: Sequence[Wait]) -> set[int]:
    """Returns the threads whose calls hold somebody up: the first one, those that serve, and those that the first one waits for.

    A thread that writes a log while the first one computes is not among them.
    """
    first = _merged((wait.t0, wait.t1) for wait in waits if wait.thread == 1 and wait.kind in ("join", "cond", "lock", "work"))
    result = {1}
    calls: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for wait in waits:
        if wait.kind == "socket" or wait.nest is not None:
            result.add(wait.thread)
        elif wait.kind == "file":
            calls[wait.thread][0] += wait.dt
            calls[wait.thread][1] += _within(first, wait.t0, wait.t1)
    return result | {thread for thread, (time, meanwhile) in calls.items() if meanwhile * 2 >= time}


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    result: list[Interval] = []
    for a, b in sorted(intervals):
        if result and a <= result[-1][1]:
            result[-1] = (result[-1][0], max(b, result[-1][1]))
        else:
            result.append((a, b))
    return result


def _all_wait(waits: Sequence[Wait]) -> int:
    """Returns for how long all threads that wait for an object do so at once.

    One of the threads that take turns has their semaphore. The workers of a queue wait together when it is empty.
    """
    threads = len({wait.thread for wait in waits})
    total = depth = last = 0
    for at, step in sorted([(wait.t0, 1) for wait in waits] + [(wait.t1, -1) for wait in waits]):
        total += at - last if depth == threads else 0
        depth += step
        last = at
    return total


def _end_together(waits: Sequence[Wait]) -> bool:
    """Returns whether waits of several threads end at once, as at a barrier. A lock lets one thread in after the other."""
    soon = LIMITS["at_once"] * sum(wait.dt for wait in waits) / len(waits)
    pairs = itertools.pairwise(sorted(waits, key=lambda wait: wait.t1))
    near = {wait for pair in pairs if pair[1].t1 - pair[0].t1 < soon and pair[0].thread != pair[1].thread for wait in pair}
    return len(near) * 2 > len(waits)


def _within(merged: Sequence[Interval], a: int, b: int) -> int:
    """Returns how long [a, b] is within the intervals."""
    total = 0
    for number in range(max(bisect_left(merged, (a, a)) - 1, 0), len(merged)):
        c, d = merged[number]
        if c >= b:
            break
        total += max(0, min(b, d) - max(a, c))
    return total


def _under(
    p: int, lock: int, of_lock: Sequence[Wait], merged: Sequence[Interval], calls: Mapping[int, Sequence[_Call]]
) -> list[tuple[Any, ...]]:
    """Returns the calls that threads made while others waited for a lock, added up by file or statement.

    No event says who holds a lock. A thread that has just got it, and then calls something at once, calls it as the holder. So
    does one at the end of whose calls the waits of others end: `turns`.
    """
    own: dict[int, list[Interval]] = defaultdict(list)
    for wait in of_lock:
        own[wait.thread].append((wait.t0, wait.t1))
    ops: dict[tuple[str, str], set[str]] = defaultdict(set)
    time: dict[tuple[str, str], int] = defaultdict(int)
    count: dict[tuple[str, str], int] = defaultdict(int)
    ends: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for thread, made in calls.items():
        mine = _merged(own.get(thread, ()))
        for call in made:
            held = _within(merged, call.t0, call.t1)
            if held and not _within(mine, call.t0, call.t1):  # a statement that waits for the lock itself is not under it
                key = (call.what, call.thing)
                ops[key].add(call.op)
                time[key] += held
                count[key] += 1
                ends[*key, thread].append(call.t1)
    turns: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for thread, got in own.items():
        made = calls.get(thread, ())
        starts = [call.t0 for call in made]
        for _, b in got:
            for call in made[bisect_left(starts, b) : bisect_left(starts, b + _TURN)]:
                turns[call.what, call.thing].add((thread, b))
    for (what, thing, thread), ended in ends.items():
        # By chance, this part of the waits would end so soon after a call.
        after = min(_AFTER, LIMITS["by_chance"] * (max(ended) - min(ended)) / len(ended))
        for wait in of_lock:
            at = bisect_left(ended, wait.t1) - 1
            if wait.thread != thread and at >= 0 and wait.t0 < ended[at] and wait.t1 - ended[at] <= after:
                turns[what, thing].add((wait.thread, wait.t1))
    return [(p, lock, *key, ", ".join(sorted(ops[key])), count[key], held, len(turns[key])) for key, held in time.items()]
