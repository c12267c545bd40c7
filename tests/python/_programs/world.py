"""Carries out programs of test_model_waits.py, with pfs and with the model, and compares them after each step.

A server: each line of its input is a program (a list of steps in JSON); each is run in a fork of its own, which starts pfs
anew; the
answer is a line, "" if all went well.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from errno import ETIMEDOUT
from typing import Any

import pfs
from tests.python._programs import driver
from tests.python._programs.driver import EBUSY, FILE, MUTEX, NO_SPINS, C, Cond, Mutex, OwnLock, Rwlock, Worker, key_of, rows
from tests.python.model import ACCOUNT, CURRENT, HISTORY, HISTORY_LONG, HOST, THREAD, USER, Event, Model, Settings, Thing, numbers

HISTORY_SIZE = 4
MOST_OPEN = 4  # waits of one's own in a thread: with the operation inside there are 5
RWLOCK, COND = "wait/synch/rwlock/", "wait/synch/cond/"
INSTRUMENTS = (MUTEX + "m/LOCK_a", MUTEX + "m/LOCK_b", MUTEX + "m/OWN", FILE + "m/data", RWLOCK + "m/tree", COND + "m/late")
CONSUMERS = ("global_instrumentation", "thread_instrumentation", CURRENT, HISTORY, HISTORY_LONG)
TRUNCATED = (
    CURRENT,
    HISTORY,
    HISTORY_LONG,
    "events_waits_summary_by_instance",
    "events_waits_summary_by_thread_by_event_name",
    "events_waits_summary_global_by_event_name",
    "file_summary_by_event_name",
    "file_summary_by_instance",
    "events_waits_summary_by_account_by_event_name",
    "events_waits_summary_by_user_by_event_name",
    "events_waits_summary_by_host_by_event_name",
    "accounts",
    "users",
    "hosts",
)
ACCOUNTS = ((None, None), ("anna", "desk"), ("anna", "phone"), ("bert", "desk"), ("bert", None), (None, "phone"))
LEVELS = (
    (THREAD, "threads", ("THREAD_ID",)),
    (ACCOUNT, "accounts", ("USER", "HOST")),
    (USER, "users", ("USER",)),
    (HOST, "hosts", ("HOST",)),
)
READ, WRITE = ("read",), ("write",)
MISC = ("open", "close", "seek", "rename", "delete", "stat")


class World:
    def __init__(self) -> None:
        self.model = Model(HISTORY_SIZE, int(pfs.variables["events_waits_history_long_size"]))
        self.keys = [key_of("mutex", "m/LOCK_a"), key_of("mutex", "m/LOCK_b"), key_of("mutex", "m/OWN"), key_of("file", "m/data")]
        self.keys += [key_of("rwlock", "m/tree"), key_of("cond", "m/late")]
        for name in INSTRUMENTS:
            self.model.instruments[name] = Settings()
        self.workers: list[Worker | None] = [None, None, None]
        self.mutexes: list[tuple[Mutex, Thing]] = []
        self.owners: dict[Mutex, Worker] = {}
        self.rwlocks: list[tuple[Rwlock, Thing]] = []
        self.held: dict[Rwlock, list[tuple[Worker, str, bool]]] = {}  # by whom, how, and whether anybody looked
        self.conds: list[tuple[Cond, Thing]] = []
        self.own = [OwnLock(self.keys[2], 0x5000 + i) for i in range(2)]
        self.own_things = [Thing(INSTRUMENTS[2], 0x5000 + i) for i in range(2)]
        for thing in self.own_things:
            self.model.things[thing] = []
        self.waits: dict[Worker, list[tuple[int, int, Event | None]]] = {}
        self.names: dict[str, Thing] = {}  # files as pfs knows them
        self.descriptors: list[tuple[int, Thing | None]] = []

    # ---- Steps. Numbers are taken modulo what there is; a step that makes no sense does nothing.

    def worker(self, n: int) -> Worker:
        n %= len(self.workers)
        found = self.workers[n]
        if found is None:
            found = self.workers[n] = Worker()
            self.model.new_thread(found.id)
            self.waits[found] = []
        return found

    def new_mutex(self, n: int) -> None:
        if len(self.mutexes) < 4:
            mutex = Mutex(self.keys[n % 2])
            thing = Thing(INSTRUMENTS[n % 2], mutex.at)
            self.mutexes.append((mutex, thing))
            self.model.things[thing] = []

    def free_mutex(self, n: int) -> None:
        free = [pair for pair in self.mutexes if pair[0] not in self.owners]
        if free:
            mutex, thing = free[n % len(free)]
            assert mutex.free() == 0
            self.mutexes.remove((mutex, thing))
            self.model.kill(thing)

    def lock(self, t: int, n: int) -> None:
        self.take(t, n, "lock")

    def trylock(self, t: int, n: int) -> None:
        self.take(t, n, "try_lock")

    def take(self, t: int, n: int, operation: str) -> None:
        if not self.mutexes:
            return
        worker = self.worker(t)
        mutex, thing = self.mutexes[n % len(self.mutexes)]
        held = mutex in self.owners
        if held:
            operation = "try_lock"
        event = self.model.begin(worker.id, thing.instrument, operation, thing.identity)
        rc = worker.do(mutex.lock if operation == "lock" else mutex.trylock)
        assert rc == (EBUSY if held else 0)
        self.model.end(event, thing)
        if not held:
            self.owners[mutex] = worker

    def unlock(self, n: int) -> None:
        if self.owners:
            mutex = list(self.owners)[n % len(self.owners)]
            assert self.owners.pop(mutex).do(mutex.unlock) == 0

    def rwlock(self, t: int, n: int, how: int) -> None:
        """Takes one for reading or writing, where it cannot be had without waiting by a try."""
        worker = self.worker(t)
        if len(self.rwlocks) < 3:
            lock = Rwlock(self.keys[4])
            self.rwlocks.append((lock, Thing(INSTRUMENTS[4], lock.at)))
            self.model.things[self.rwlocks[-1][1]] = []
            self.held[lock] = []
        lock, thing = self.rwlocks[n % len(self.rwlocks)]
        kind = "read" if how % 3 else "write"
        held = self.held[lock]
        free = not held or (kind == "read" and held[0][1] == "read")
        operation = f"{kind}_lock" if free and how % 2 else f"try_{kind}_lock"
        event = self.model.begin(worker.id, thing.instrument, operation, thing.identity)
        rc = worker.do(lock.do, operation)
        assert rc == (0 if free else EBUSY), (rc, operation)
        self.model.end(event, thing)
        if free:
            held.append((worker, kind, event is not None))

    def rwunlock(self, n: int, which: int) -> None:
        taken = [lock for lock, _ in self.rwlocks if self.held[lock]]
        if taken:
            lock = taken[n % len(taken)]
            worker, kind, _ = self.held[lock][which % len(self.held[lock])]
            assert worker.do(lock.do, "unlock") == 0
            # Nobody can tell a thread's own read locks apart: those that were looked at count down first.
            mine = [one for one in self.held[lock] if one[0] is worker and one[1] == kind]
            self.held[lock].remove(next((one for one in mine if one[2]), mine[0]))

    def free_rwlock(self, n: int) -> None:
        free = [pair for pair in self.rwlocks if not self.held[pair[0]]]
        if free:
            lock, thing = free[n % len(free)]
            assert lock.do("free") == 0
            self.rwlocks.remove((lock, thing))
            self.model.kill(thing)

    def cond(self, t: int, n: int) -> None:
        worker = self.worker(t)
        if len(self.conds) < 2:
            cond = Cond(self.keys[5])
            self.conds.append((cond, Thing(INSTRUMENTS[5], cond.at)))
            self.model.things[self.conds[-1][1]] = []
        cond, thing = self.conds[n % len(self.conds)]
        event = self.model.begin(worker.id, thing.instrument, "timed_wait", thing.identity)
        assert worker.do(cond.late) == ETIMEDOUT
        worker.do(cond.signal)
        self.model.end(event, thing)

    def free_cond(self, n: int) -> None:
        if self.conds:
            cond, thing = self.conds.pop(n % len(self.conds))
            cond.free()
            self.model.kill(thing)

    def own_begin(self, t: int, n: int) -> None:
        worker = self.worker(t)
        if len(self.waits[worker]) < MOST_OPEN:
            n %= 2
            event = self.model.begin(worker.id, INSTRUMENTS[2], "lock", self.own_things[n].identity)
            self.waits[worker].append((n, worker.do(self.own[n].begin), event))

    def own_end(self, t: int, rc: int) -> None:
        worker = self.worker(t)
        if self.waits[worker]:
            n, wait, event = self.waits[worker].pop()
            worker.do(self.own[n].end, wait, rc % 2 * EBUSY, NO_SPINS)
            self.model.end(event, self.own_things[n])

    def open(self, t: int, n: int, create: int) -> None:
        if len(self.descriptors) >= 6:
            return
        worker, path = self.worker(t), os.path.abspath(f"f{n % 3}")
        event = self.model.begin(worker.id, INSTRUMENTS[3], "open")
        fd = worker.do(C.open, self.keys[3], path, os.O_RDWR | os.O_CREAT if create % 2 else os.O_RDWR, 0o600)
        thing = None
        if fd >= 0:
            if event is not None:
                thing = self.names.get(path)
                if thing is None:
                    thing = self.names[path] = Thing(INSTRUMENTS[3], name=path)
                    self.model.things[thing] = []
                    (row,) = rows("file_summary_by_instance", FILE_NAME=path)
                    thing.identity = row["OBJECT_INSTANCE_BEGIN"]
                thing.open_count += 1
                event.target = thing.identity
            self.descriptors.append((fd, thing))
        self.model.end(event, thing)

    def on_descriptor(self, t: int, n: int, operation: str, target: int | None, *arguments: int) -> None:
        if not self.descriptors:
            return
        worker = self.worker(t)
        fd, thing = self.descriptors[n % len(self.descriptors)]
        event = None
        if thing is not None:
            event = self.model.begin(worker.id, INSTRUMENTS[3], operation, thing.identity if target is None else target)
        result = worker.do(getattr(C, {"seek": "lseek"}.get(operation, operation)), fd, *arguments)
        self.model.end(event, thing, max(result, 0) if operation in ("read", "write") else None)
        if operation == "close":
            self.descriptors.remove((fd, thing))
            if thing is not None:
                thing.open_count -= 1

    def read(self, t: int, n: int, size: int) -> None:
        self.on_descriptor(t, n, "read", None, size)

    def write(self, t: int, n: int, size: int) -> None:
        self.on_descriptor(t, n, "write", None, size)

    def seek(self, t: int, n: int, offset: int) -> None:
        self.on_descriptor(t, n, "seek", offset, offset, os.SEEK_SET)

    def close(self, t: int, n: int) -> None:
        self.on_descriptor(t, n, "close", None)

    def by_name(self, t: int, n: int, operation: str, other: str | None = None) -> None:
        worker, path = self.worker(t), os.path.abspath(f"f{n % 3}")
        event = self.model.begin(worker.id, INSTRUMENTS[3], operation)
        thing = self.names.get(path)
        more = () if other is None else (other,)
        rc = worker.do(getattr(C, {"delete": "unlink"}.get(operation, operation)), self.keys[3], path, *more)
        if event is not None:
            event.target = thing.identity if thing is not None else 0
        self.model.end(event, thing)
        # Whether or not anybody looked: the file has gone, or has another name.
        if rc == 0 and operation == "delete" and thing is not None:
            self.model.kill(self.names.pop(path))
        if rc == 0 and other is not None and other != path:
            if other in self.names:
                self.model.kill(self.names.pop(other))
            if thing is not None:
                thing.name = other
                self.names[other] = self.names.pop(path)

    def unlink(self, t: int, n: int) -> None:
        self.by_name(t, n, "delete")

    def stat(self, t: int, n: int) -> None:
        self.by_name(t, n, "stat")

    def rename(self, t: int, n: int, to: int) -> None:
        self.by_name(t, n, "rename", os.path.abspath(f"f{to % 3}"))

    def instrument(self, n: int, enabled: int, timed: int) -> None:
        name = INSTRUMENTS[n % len(INSTRUMENTS)]
        driver.instrument(name, enabled > 0, timed > 0)
        self.model.instruments[name].enabled, self.model.instruments[name].timed = enabled > 0, timed > 0

    def consumer(self, n: int, on: int) -> None:
        name = CONSUMERS[n % len(CONSUMERS)]
        driver.consumer(name, on > 0)
        self.model.consumers[name] = on > 0

    def thread(self, t: int, instrumented: int, history: int) -> None:
        worker = self.worker(t)
        pfs.threads.update(worker.id, instrumented=instrumented > 0, history=history > 0)
        settings = self.model.threads[worker.id]
        settings.enabled, settings.timed = instrumented > 0, history > 0

    def end_thread(self, t: int) -> None:
        worker = self.worker(t)
        holders = {holder for held in self.held.values() for holder, _, _ in held}
        if not self.waits[worker] and worker not in self.owners.values() and worker not in holders:
            worker.end()
            self.workers[t % len(self.workers)] = None
            self.model.end_thread(worker.id)

    def account(self, t: int, n: int) -> None:
        worker, (user, host) = self.worker(t), ACCOUNTS[n % len(ACCOUNTS)]
        worker.do(pfs.set_account, user or "", host or "")
        self.model.set_account(worker.id, user, host)

    def truncate(self, n: int) -> None:
        pfs.truncate(TRUNCATED[n % len(TRUNCATED)])
        self.model.truncate(TRUNCATED[n % len(TRUNCATED)])

    def behind_its_back(self) -> None:
        """An event that the model is not told of: the comparison must see it."""
        self.worker(0).do(self.own[0].use)

    # ---- Comparison

    def learn(self) -> None:
        """Durations come from the tables."""
        known = {
            (row["THREAD_ID"], row["EVENT_ID"]): row["TIMER_WAIT"]
            for view in (CURRENT, HISTORY, HISTORY_LONG)
            for row in rows(view)
        }
        for event in self.model.events[-4:]:
            if event.timed and event.wait is None:
                event.wait = known.get((event.thread, event.id))

    def compare(self) -> None:
        self.learn()
        model = self.model
        for view in (CURRENT, HISTORY, HISTORY_LONG):
            same(view, [event_row(row) for row in rows(view)], [event.row() for event in model.rows(view)])
            waits = {(row["THREAD_ID"], row["EVENT_ID"]): row["TIMER_WAIT"] for row in rows(view)}
            assert all(waits[e.thread, e.id] == e.wait for e in model.rows(view) if e.wait is not None and e.end_id is not None)
        things = {thing.identity: cell for thing, cell in model.things.items()}
        objects = {row["OBJECT_INSTANCE_BEGIN"]: row for row in rows("events_waits_summary_by_instance")}
        same("objects", sorted(objects), sorted(things))
        for identity, cell in things.items():
            check(objects[identity], "WAIT", numbers(cell), "COUNT_STAR")
        for level, table, key in LEVELS:
            cells = model.sums(level)
            found = {
                tuple(row[column] for column in (*key, "EVENT_NAME")): row
                for row in rows(f"events_waits_summary_by_{level}_by_event_name")
            }
            for member, row in found.items():
                check(row, "WAIT", numbers(cells.pop(member, [])), "COUNT_STAR")
            assert not cells, f"by_{level}: not shown {list(cells)}"
            if level == THREAD:
                assert {row["THREAD_ID"] for row in found.values()} <= set(model.threads)
                continue
            counts = [(*[row[c] for c in key], row["CURRENT_CONNECTIONS"], row["TOTAL_CONNECTIONS"]) for row in rows(table)]
            same(table, counts, [(*party, *both) for party, both in model.connections[level].items()])
        total = {row["EVENT_NAME"]: row for row in rows("events_waits_summary_global_by_event_name")}
        same("instruments", sorted(total), sorted(INSTRUMENTS))
        for name in INSTRUMENTS:
            check(total[name], "WAIT", numbers(model.of_class(name)), "COUNT_STAR")
        (row,) = rows("file_summary_by_event_name")
        check_file(row, model.of_class(INSTRUMENTS[3]))
        files = {row["FILE_NAME"]: row for row in rows("file_summary_by_instance")}
        same("files", sorted(files), sorted(self.names))
        for name, thing in self.names.items():
            check_file(files[name], model.things[thing])
        opened = {(row["FILE_NAME"], row["OPEN_COUNT"]) for row in rows("file_instances")}
        same("open", sorted(opened), sorted((name, thing.open_count) for name, thing in self.names.items()))
        owners = {row["OBJECT_INSTANCE_BEGIN"]: row["LOCKED_BY_THREAD_ID"] for row in rows("mutex_instances")}
        for mutex, thing in self.mutexes:
            assert owners[thing.identity] in ((self.owners[mutex].id, None) if mutex in self.owners else (None,))
        shown = {row["OBJECT_INSTANCE_BEGIN"]: row for row in rows("rwlock_instances")}
        same("rwlocks", sorted(shown), sorted(thing.identity for _, thing in self.rwlocks))
        for lock, thing in self.rwlocks:
            writers = [worker.id for worker, kind, seen in self.held[lock] if kind == "write" and seen]
            readers = [worker.id for worker, kind, seen in self.held[lock] if kind == "read" and seen]
            row = shown[thing.identity]
            assert row["WRITE_LOCKED_BY_THREAD_ID"] == (writers[0] if writers else None), (row, self.held[lock])
            assert row["READ_LOCKED_BY_COUNT"] == len(readers), (row, self.held[lock])
        same(
            "conds", [row["OBJECT_INSTANCE_BEGIN"] for row in rows("cond_instances")], [thing.identity for _, thing in self.conds]
        )
        assert driver.losses() == {}


def event_row(row: driver.Row) -> tuple[object, ...]:
    assert row["TIMER_WAIT"] is None or row["TIMER_WAIT"] == row["TIMER_END"] - row["TIMER_START"]
    columns = ("THREAD_ID", "EVENT_ID", "END_EVENT_ID", "EVENT_NAME", "OPERATION", "OBJECT_INSTANCE_BEGIN", "NESTING_EVENT_ID")
    size = row["NUMBER_OF_BYTES"] if row["OPERATION"] in ("read", "write") and row["END_EVENT_ID"] is not None else None
    return (*[row[c] for c in columns], size, row["TIMER_START"] is not None, row["TIMER_WAIT"] is not None)


def same(what: str, have: list[Any], want: list[Any]) -> None:
    extra, missing = [x for x in have if x not in want], [x for x in want if x not in have]
    assert sorted(map(str, have)) == sorted(map(str, want)), f"{what}: shown and wrong {extra}, not shown {missing}"


def check(row: driver.Row, suffix: str, want: tuple[int | None, ...], count: str) -> None:
    have = (row[count], *[row[f"{kind}_TIMER_{suffix}"] for kind in ("SUM", "MIN", "AVG", "MAX")])
    if want[-1] is None:
        have = (*have[:1], None)
    assert have == want, f"{suffix}: {have} is not {want} in {row}"


def check_file(row: driver.Row, cell: list[Event]) -> None:
    check(row, "WAIT", numbers(cell), "COUNT_STAR")
    for group, kinds in (("READ", READ), ("WRITE", WRITE), ("MISC", MISC)):
        check(row, group, numbers(cell, kinds), "COUNT_" + group)
    assert row["SUM_NUMBER_OF_BYTES_READ"] == sum(e.bytes or 0 for e in cell if e.operation in READ)
    assert row["SUM_NUMBER_OF_BYTES_WRITE"] == sum(e.bytes or 0 for e in cell if e.operation in WRITE)


def run(program: list[list[Any]], folder: str) -> str:
    """Empty, or what went wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.chdir(folder)
    step: Any = "start"
    try:
        world = World()
        for step in program:
            getattr(world, step[0])(*step[1:])
            world.compare()
    except BaseException:
        return f"step {step}:\n{traceback.format_exc()}"
    return ""


def main(folder: str) -> None:
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                out.write(run(json.loads(line), folder))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps(text if status == 0 else f"{text}\nended with status {status}"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
