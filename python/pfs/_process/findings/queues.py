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

__all__ = ["Covered", "Wait", "add_queues", "threads_waited_for", "times_outside"]

_SHORTEST = 1_000_000  # picoseconds: a shorter wait for a lock is no queue
_TURN = 2_000_000_000  # picoseconds: a thread that got its lock does what it locked for within this time
_AFTER = 500_000_000  # picoseconds: a thread that waits has the lock within this time after its holder's call
_FALSE_WAKE = 100_000_000  # picoseconds: a thread that waits again after a shorter time, and called nothing, had no lock
_MOST = 8  # locks of a process that are of interest, the worst
_REQUEST = re.compile(r"`?[A-Z]+`? /")  # of HTTP: it contains all that it waits for

# Waits of other kinds that may be waits for a lock: semaphores, futexes (a Mutex of Rust), and critical sections of OpenMP.
_LIKE_LOCKS: dict[str, Callable[[Wait], bool]] = {
    "cond": lambda wait: "/sem-" in wait.name or "/futex-" in wait.name,
    "openmp": lambda wait: wait.op == "lock",
}

_TELLING = ("io", "statement", "sleeps")  # calls that are known by their ends
# What a holder does that is neither I/O nor a statement, by the kind of its wait.
_DOES = {
    "sleep": "sleeps",
    "child": "waits for a process",
    "resolve": "looks up host names",
    "cond": "waits for a condition",
    "join": "waits for a thread",
    "lock": "waits for another lock",
    "object": "waits for an object of Python",
    "pause": "is in a pause of all threads",
    "gil": "waits for the GIL",
    "idle": "waits in poll",
    "accept": "waits for a connection",
    "file": "does I/O",
    "socket": "does I/O",
}

_FOR_OTHERS = ("join", "cond", "lock", "work", "object", "pause")  # kinds of waits that another thread ends

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


class Covered:
    """An aggregate of SQLite: how long at least one of the intervals [a, b] lasts."""

    def __init__(self) -> None:
        self._intervals: list[Interval] = []

    def step(self, a: int, b: int) -> None:
        self._intervals.append((a, b))

    def finalize(self) -> int:
        return int(sum(b - a for a, b in _merged(self._intervals)))


class _Call(NamedTuple):
    t0: int
    t1: int
    what: str  # io, statement, or the words of _DOES
    thing: str  # a file, or the text of a statement
    op: str
    place: str | None
    more: float  # calls that it stands for: the history has the last ones


class _Sum:
    """Calls of one kind under a lock. `turns` are the waits for the lock that these calls explain."""

    def __init__(self) -> None:
        self.ops: set[str] = set()
        self.things: dict[str, int] = defaultdict(int)
        self.places: dict[str | None, int] = defaultdict(int)
        self.count, self.time = 0.0, 0
        self.turns: set[tuple[int, int]] = set()

    def add(self, call: _Call, held: int) -> None:
        self.ops.add(call.op)
        self.things[call.thing] += held
        self.places[call.place] += held
        self.count += call.more
        self.time += held

    def row(self, share: float = 1.0) -> tuple[Any, ...]:
        """Returns the columns of `under` from `thing` on. `share`: the part of the waits in which the holder is known."""
        others = sum(time > LIMITS["by_the_way"] * self.time for time in self.things.values())
        thing = max(self.things, key=self.things.__getitem__)
        place = max(self.places, key=self.places.__getitem__)
        ops = ", ".join(sorted(self.ops))
        return thing, max(others - 1, 0), ops, round(self.count / share), int(self.time / share), len(self.turns), place


def add_queues(
    p: int,
    waits: Sequence[Wait],
    statements: Sequence[tuple[Any, ...]],
    scale: Mapping[str, float],
    more: Mapping[str, float],
    insert: Callable[[str, Iterable[Any]], None],
) -> None:
    """Adds the locks that threads queue for, and the calls made meanwhile, to the tables `queue` and `under`."""
    locks: dict[int, list[Wait]] = defaultdict(list)
    calls: dict[int, list[_Call]] = defaultdict(list)  # by thread
    for wait in waits:
        if wait.dt >= _SHORTEST and (wait.kind == "lock" or (wait.kind in _LIKE_LOCKS and _LIKE_LOCKS[wait.kind](wait))):
            locks[wait.object].append(wait)
        if wait.kind in _DOES and wait.nest is None:
            is_io = wait.kind in ("file", "socket") and wait.file is not None and wait.op != "lock"
            what, thing = ("io", str(wait.file)) if is_io else (_DOES[wait.kind], "")
            calls[wait.thread].append(_Call(wait.t0, wait.t1, what, thing, wait.op, wait.place, more[wait.name]))
    for _, thread, _, _, place, text, _, t0, t1, *_ in statements:
        if text is not None and not _REQUEST.match(text):
            calls[thread].append(_Call(t0, t1, "statement", text, "", place, 1.0))
    for each in calls.values():
        each.sort(key=lambda call: call.t0)
    of_name: dict[str, list[Interval]] = defaultdict(list)
    for each_wait in locks.values():
        of_name[each_wait[0].name] += ((wait.t0, wait.t1) for wait in each_wait)
    whole = {name: sum(b - a for a, b in _merged(spans)) for name, spans in of_name.items()}
    for lock, each_wait in sorted(locks.items(), key=lambda item: -sum(wait.dt for wait in item[1]))[:_MOST]:
        of_lock = _without_false_wakes(each_wait, calls) if "/futex-" in each_wait[0].name else each_wait
        merged = _merged((wait.t0, wait.t1) for wait in of_lock)
        waited = sum(b - a for a, b in merged)
        name = of_lock[0].name
        if whole[name] * scale[name] < LEAST:
            continue
        if of_lock[0].kind == "cond" and (_all_wait(of_lock) > LIMITS["all_wait"] * waited or _end_together(of_lock)):
            continue
        places: dict[str | None, int] = defaultdict(int)
        for wait in of_lock:
            places[wait.place] += wait.dt
        threads = len({wait.thread for wait in of_lock})
        computes, under = _under_known(of_lock, merged, calls) or (None, _under_likely(of_lock, merged, calls))
        place = max(places, key=places.__getitem__)
        insert("queue", [(p, lock, name, place, len(of_lock), threads, waited, whole[name], scale[name], computes)])
        insert("under", [(p, lock, *row) for row in under])


def threads_waited_for(waits: Sequence[Wait]) -> set[int]:
    """Returns the threads whose calls hold somebody up: the first one, those that serve, and those that the first one waits for.

    A thread that writes a log while the first one computes is not among them.
    """
    first = _merged((wait.t0, wait.t1) for wait in waits if wait.thread == 1 and wait.kind in _FOR_OTHERS)
    result = {1}
    calls: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for wait in waits:
        if wait.kind == "socket" or wait.nest is not None:
            result.add(wait.thread)
        elif wait.kind == "file":
            calls[wait.thread][0] += wait.dt
            calls[wait.thread][1] += _within(first, wait.t0, wait.t1)
    return result | {thread for thread, (time, meanwhile) in calls.items() if meanwhile * 2 >= time}


def times_outside(waits: Iterable[Wait], intervals: Iterable[Interval]) -> list[int]:
    """Returns how long each wait is outside of all intervals."""
    merged = _merged(intervals)
    return [wait.dt - _within(merged, wait.t0, wait.t1) for wait in waits]


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
    """Returns whether waits of several threads end at once, as at a barrier. A lock lets one thread in after the other.

    The thread that had the lock often waits for it again in between: then two ends are not at once, even if others waited longer.
    """
    soon = LIMITS["at_once"] * sum(wait.dt for wait in waits) / len(waits)
    begins = sorted(wait.t0 for wait in waits)
    near: set[Wait] = set()
    for pair in itertools.pairwise(sorted(waits, key=lambda wait: wait.t1)):
        is_at_once = pair[1].t1 - pair[0].t1 < soon and pair[0].thread != pair[1].thread
        if is_at_once and bisect_left(begins, pair[0].t1) == bisect_left(begins, pair[1].t1):
            near.update(pair)
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


def _without_false_wakes(waits: Iterable[Wait], calls: Mapping[int, Sequence[_Call]]) -> list[Wait]:
    """Returns the waits for a futex, each until its thread has the lock: another thread may be faster, so it waits again."""
    last: dict[int, Wait] = {}
    result = []
    for wait in sorted(waits, key=lambda wait: wait.t0):
        before = last.get(wait.thread)
        if before is not None:
            made = calls.get(wait.thread, ())
            following = bisect_left(made, before.t1, key=lambda call: call.t0)
            if wait.t0 - before.t1 < _FALSE_WAKE and not (following < len(made) and made[following].t0 < wait.t0):
                wait = wait._replace(t0=before.t0, dt=wait.t1 - before.t0)
            else:
                result.append(before)
        last[wait.thread] = wait
    return result + list(last.values())


def _own(of_lock: Iterable[Wait]) -> dict[int, list[Interval]]:
    """Returns when each thread waited for a lock."""
    own: dict[int, list[Interval]] = defaultdict(list)
    for wait in of_lock:
        own[wait.thread].append((wait.t0, wait.t1))
    return own


def _under_likely(
    of_lock: Sequence[Wait], merged: Sequence[Interval], calls: Mapping[int, Sequence[_Call]]
) -> list[tuple[Any, ...]]:
    """Returns the calls that threads made while others waited for a lock, added up by file or statement.

    The lock is held by threads that seldom wait for it. A thread that has just got it, and then calls something at once, calls it
    as the holder. So does one at the end of whose calls the waits of others end: `turns`.
    """
    own = _own(of_lock)
    sums: dict[tuple[str, str], _Sum] = defaultdict(_Sum)
    ends: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for thread, made in calls.items():
        mine = _merged(own.get(thread, ()))
        for call in made:
            held = _within(merged, call.t0, call.t1) if call.what in _TELLING else 0
            if held and not _within(mine, call.t0, call.t1):  # a statement that waits for the lock itself is not under it
                sums[call.what, call.thing].add(call, held)
                ends[call.what, call.thing, thread].append(call.t1)
    for thread, got in own.items():
        made = calls.get(thread, ())
        starts = [call.t0 for call in made]
        for _, b in got:
            for call in made[bisect_left(starts, b) : bisect_left(starts, b + _TURN)]:
                if (call.what, call.thing) in sums:
                    sums[call.what, call.thing].turns.add((thread, b))
    for (what, thing, thread), ended in ends.items():
        # By chance, this part of the waits would end so soon after a call.
        after = min(_AFTER, LIMITS["by_chance"] * (max(ended) - min(ended)) / len(ended))
        for wait in of_lock:
            at = bisect_left(ended, wait.t1) - 1
            if wait.thread != thread and at >= 0 and wait.t0 < ended[at] and wait.t1 - ended[at] <= after:
                sums[what, thing].turns.add((wait.thread, wait.t1))
    return [(what, *each.row()) for (what, _), each in sums.items()]


def _under_known(
    of_lock: Sequence[Wait], merged: Sequence[Interval], calls: Mapping[int, Sequence[_Call]]
) -> tuple[float, list[tuple[Any, ...]]] | None:
    """Returns the part of the time in which the holder makes no call, and its calls, of all files together.

    No event says who holds a lock. A thread whose wait has ended is the holder until the next wait ends, or until it waits again.
    Returns None if the holder is unknown for most of the time: a thread that seldom waits holds the lock.
    """
    own = _own(of_lock)
    sums: dict[str, _Sum] = defaultdict(_Sum)
    known = called = 0
    for one, following in itertools.pairwise(sorted(of_lock, key=lambda wait: wait.t1)):
        again = bisect_left(own[one.thread], (one.t1, one.t1))
        until = min([following.t1, *(begun for begun, _ in own[one.thread][again : again + 1])])
        known += _within(merged, one.t1, until)
        made = calls.get(one.thread, ())
        for number in range(bisect_left(made, one.t1, key=lambda call: call.t0), len(made)):
            call = made[number]
            if call.t1 > until:  # it began after the unlock
                break
            if held := _within(merged, call.t0, call.t1):
                sums[call.what].add(call, held)
                sums[call.what].turns.add((one.thread, one.t1))
                called += held
    share = known / sum(b - a for a, b in merged)
    if share < LIMITS["known"]:
        return None
    return max(0.0, 1 - called / known), [(what, *each.row(share)) for what, each in sums.items()]
