"""Steps with mutexes, rwlocks, conditions, and locks of the program's own whose waits stay open."""

from __future__ import annotations

from errno import ETIMEDOUT

from tests.python._programs.driver import EBUSY, NO_SPINS, Cond, Mutex, OwnLock, Rwlock, Worker, every, key_of
from tests.python._programs.world.base import Base
from tests.python._programs.world.compare import same
from tests.python.facts.model import COND, MUTEX, RWLOCK, Thing

MUTEXES = ("m/LOCK_a", "m/LOCK_b")
OWN, TREE, LATE = "m/OWN", "m/tree", "m/late"


class Locks(Base):
    def __init__(self) -> None:
        super().__init__()
        self.mutex_keys = [self.registered(key_of("mutex", name)) for name in MUTEXES]
        self.rwlock_key, self.cond_key = self.registered(key_of("rwlock", TREE)), self.registered(key_of("cond", LATE))
        self.mutexes: list[tuple[Mutex, Thing]] = []
        self.owners: dict[Mutex, Worker] = {}
        self.rwlocks: list[tuple[Rwlock, Thing]] = []
        self.held: dict[Rwlock, list[tuple[Worker, str, bool]]] = {}  # by whom, how, and whether anybody looked
        self.conds: list[tuple[Cond, Thing]] = []
        own_key = self.registered(key_of("mutex", OWN))
        self.own_things = [Thing(MUTEX + OWN, self.new_identity()) for _ in range(2)]
        self.own = [OwnLock(own_key, thing.identity) for thing in self.own_things]
        for thing in self.own_things:
            self.model.add(thing)

    def is_free(self, worker: Worker) -> bool:
        holders = {holder for held in self.held.values() for holder, _, _ in held}
        return super().is_free(worker) and worker not in self.owners.values() and worker not in holders

    def new_mutex(self, n: int) -> None:
        if len(self.mutexes) < 4:
            mutex = Mutex(self.mutex_keys[n % 2])
            thing = Thing(MUTEX + MUTEXES[n % 2], mutex.at)
            self.mutexes.append((mutex, thing))
            self.model.add(thing)

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
            lock = Rwlock(self.rwlock_key)
            self.rwlocks.append((lock, Thing(RWLOCK + TREE, lock.at)))
            self.model.add(self.rwlocks[-1][1])
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
            cond = Cond(self.cond_key)
            self.conds.append((cond, Thing(COND + LATE, cond.at)))
            self.model.add(self.conds[-1][1])
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
        worker, lock, thing = self.worker(t), self.own[n % 2], self.own_things[n % 2]
        if not self.may_begin(worker):
            return
        event = self.model.begin(worker.id, thing.instrument, "lock", thing.identity)
        wait = worker.do(lock.begin)

        def end(rc: int) -> None:
            worker.do(lock.end, wait, rc % 2 * EBUSY, NO_SPINS)
            self.model.end(event, thing)

        self.waits[worker].append(end)

    # ---- Comparison

    def compare(self) -> None:
        super().compare()
        owners = {row["OBJECT_INSTANCE_BEGIN"]: row["LOCKED_BY_THREAD_ID"] for row in every("mutex_instances")}
        for mutex, thing in self.mutexes:
            assert owners[thing.identity] in ((self.owners[mutex].id, None) if mutex in self.owners else (None,))
        shown = {row["OBJECT_INSTANCE_BEGIN"]: row for row in every("rwlock_instances")}
        same("rwlocks", shown, [thing.identity for _, thing in self.rwlocks])
        for lock, thing in self.rwlocks:
            writers = [worker.id for worker, kind, seen in self.held[lock] if kind == "write" and seen]
            readers = [worker.id for worker, kind, seen in self.held[lock] if kind == "read" and seen]
            row = shown[thing.identity]
            assert row["WRITE_LOCKED_BY_THREAD_ID"] == (writers[0] if writers else None), (row, self.held[lock])
            assert row["READ_LOCKED_BY_COUNT"] == len(readers), (row, self.held[lock])
        conds = [row["OBJECT_INSTANCE_BEGIN"] for row in every("cond_instances")]
        same("conds", conds, [thing.identity for _, thing in self.conds])
