"""gevent and eventlet: whoever waits for an object of pfs lets the other greenlets run; each greenlet has its own events."""

from __future__ import annotations

import textwrap

import pytest

from tests.conftest import Run

# spawn(function, *args), join_all(greenlets), sleep(seconds), kill(greenlet), limit(seconds): raises when the time is over.
PATCHES = {
    "gevent": """
        import gevent, gevent.monkey
        def patch(): gevent.monkey.patch_all()
        spawn, sleep, kill = gevent.spawn, gevent.sleep, gevent.kill
        def join_all(greenlets): gevent.joinall(greenlets, raise_error=True)
        limit = gevent.Timeout
    """,
    "eventlet": """
        import warnings
        warnings.simplefilter("ignore")
        import eventlet
        def patch(): eventlet.monkey_patch()
        spawn, sleep, kill = eventlet.spawn, eventlet.sleep, eventlet.kill
        def join_all(greenlets): [greenlet.wait() for greenlet in greenlets]
        limit = eventlet.Timeout
    """,
}
ORDERS = {"patched first": "patch()\nimport pfs\n", "pfs first": "import pfs\npfs.Lock('test/early').acquire()\npatch()\n"}


@pytest.fixture(params=[(library, order) for library in PATCHES for order in ORDERS], ids=lambda param: f"{param[0]}, {param[1]}")
def greenlets(request: pytest.FixtureRequest, fresh: Run) -> Run:
    """Runs a script under gevent or eventlet; a script that hangs is stopped after 90 seconds."""
    library, order = request.param

    def run(script: str, **more: str) -> str:
        head = "import faulthandler\nfaulthandler.dump_traceback_later(90, exit=True)\n"
        rows = "def rows(table, *columns): return pfs._core.rows(table, columns, None)\n"  # pandas takes long to import
        return fresh(head + textwrap.dedent(PATCHES[library]) + ORDERS[order] + rows + textwrap.dedent(script), **more)

    return run


# make, enter and leave: what is held over a switch.
HELD = {
    "Lock": "thing = pfs.Lock('test/X'); enter, leave = thing.acquire, thing.release",
    "Lock with a timeout": "thing = pfs.Lock('test/X'); enter, leave = lambda: thing.acquire(timeout=20), thing.release",
    "RLock": "it = pfs.RLock('test/X')\ndef enter(): it.acquire(), it.acquire()\ndef leave(): [it.release() for _ in '12']",
    "Condition": "thing = pfs.Condition('test/X'); enter, leave = thing.acquire, thing.release",
    "Condition on a standard lock": (
        "import threading; thing = pfs.Condition('test/X', threading.RLock()); enter, leave = thing.acquire, thing.release"
    ),
    "Semaphore": "thing = pfs.Semaphore('test/X', 1); enter, leave = thing.acquire, thing.release",
    "BoundedSemaphore": "thing = pfs.BoundedSemaphore('test/X', 1); enter, leave = thing.acquire, thing.release",
    "RWLock": "thing = pfs.RWLock('test/X'); enter, leave = thing.acquire_write, thing.release_write",
    "Queue": "thing = pfs.Queue('test/X', 1); enter, leave = lambda: thing.put(1), thing.get",
    "SimpleQueue": "thing = pfs.SimpleQueue('test/X'); thing.put(1); enter, leave = thing.get, lambda: thing.put(1)",
}


def test_held_over_a_switch(greenlets: Run) -> None:
    out = greenlets(f"""
makes = {HELD!r}
def check(make):
    names = {{"pfs": pfs}}
    exec(make, names)
    inside = done = 0
    def work():
        nonlocal inside, done
        for _ in range(3):
            names["enter"]()
            inside += 1
            assert inside == 1
            sleep(0.001)
            assert inside == 1
            inside -= 1
            names["leave"]()
            done += 1
    with limit(60):
        join_all([spawn(work) for _ in range(10)])
    return done
for name, make in makes.items(): print(name, check(make))
print([name for name, end in rows("events_waits_current", "EVENT_NAME", "END_EVENT_ID") if "/test/X" in name and end is None])
""")
    assert out.splitlines() == [*(f"{name} 30" for name in HELD), "[]"]


def test_other_greenlets_run_while_one_waits(greenlets: Run) -> None:
    """Whatever it waits for: each wait ends when another greenlet lets it."""
    out = greenlets("""
        condition, event, barrier = pfs.Condition("test/C"), pfs.Event("test/E"), pfs.Barrier("test/B", 2)
        queue, simple, rwlock = pfs.Queue("test/Q"), pfs.SimpleQueue("test/S"), pfs.RWLock("test/W")
        said = []
        def wait():
            with condition: said.append(condition.wait(10))
            said.append(event.wait(10))
            barrier.wait(10)
            said.append(queue.get(timeout=10))
            said.append(simple.get(timeout=10))
            with rwlock.read(): said.append("read")
        def help():
            sleep(0.01)
            with condition: condition.notify()
            sleep(0.01)
            event.set()
            barrier.wait(10)
            rwlock.acquire_write()
            sleep(0.01)
            queue.put("queue")
            sleep(0.01)
            simple.put("simple")
            sleep(0.01)
            rwlock.release_write()
        with limit(20):
            join_all([spawn(wait), spawn(help)])
        print(said)
    """)
    assert out == "[True, True, 'queue', 'simple', 'read']\n"


def test_times_that_are_over_and_greenlets_that_are_killed(greenlets: Run) -> None:
    out = greenlets("""
        import queue
        lock, condition = pfs.Lock("test/L"), pfs.Condition("test/C")
        simple, rwlock = pfs.SimpleQueue("test/S"), pfs.RWLock("test/W")
        lock.acquire(), rwlock.acquire_write()
        print(lock.acquire(timeout=0.01), lock.acquire(False))
        with condition: print(condition.wait(0.01))
        try:
            simple.get(timeout=0.01)
        except queue.Empty:
            print("empty")
        said = []
        def wait(name, call, leave):
            try:
                call()
            except BaseException as error:
                said.append((name, type(error).__name__))
                raise
            said.append(name)
            leave()
        def wait_for_condition():
            with condition: condition.wait()
        waits = {"lock": (lock.acquire, lock.release), "condition": (wait_for_condition, bool), "queue": (simple.get, bool),
                 "rwlock": (rwlock.acquire_read, rwlock.release_read)}
        def spawn_all(): return [spawn(wait, name, *both) for name, both in waits.items()]
        killed = spawn_all()
        sleep(0.01)
        alive = spawn_all()
        sleep(0.01)
        for greenlet in killed: kill(greenlet)
        sleep(0.01)
        print(sorted(said))
        said.clear()
        with limit(20):
            lock.release(), rwlock.release_write(), simple.put(1)
            with condition: condition.notify_all()
            join_all(alive)
        print(sorted(said))
        print(lock.locked(), rwlock.locked(), condition.locked())
        waits = rows("events_waits_current", "EVENT_NAME", "END_EVENT_ID")
        print([name for name, end in waits if "/test/" in name and end is None])
    """)
    assert out.splitlines() == [
        "False False",
        "False",
        "empty",
        "[('condition', 'GreenletExit'), ('lock', 'GreenletExit'), ('queue', 'GreenletExit'), ('rwlock', 'GreenletExit')]",
        "['condition', 'lock', 'queue', 'rwlock']",
        "False False False",
        "[]",
    ]


def test_rlock_and_rwlock_are_held_by_the_greenlet(greenlets: Run) -> None:
    out = greenlets("""
        rlock, rwlock = pfs.RLock("test/R"), pfs.RWLock("test/W")
        with rlock, rwlock.write():
            def other():
                print(rlock.acquire(False), rwlock.acquire_read(False))
                for release in (rlock.release, rwlock.release_write):
                    try:
                        release()
                    except RuntimeError as error:
                        print(error)
            join_all([spawn(other)])
            print(rlock.acquire(False))
            rlock.release()
        print(rlock.acquire(False), rwlock.acquire_write(False))
    """)
    assert out.splitlines() == [
        "False False",
        "cannot release un-acquired lock",
        "release_write() without acquire_write()",
        "True",
        "True True",
    ]


def test_each_greenlet_is_in_events_of_its_own(greenlets: Run) -> None:
    """Statements, transactions, stages and waits, suspended in any order: nothing is nested in what another greenlet is in."""
    out = greenlets(
        """
        import random
        pfs.setup_consumers.update(enabled=True)
        pfs.setup_instruments.update(enabled=True, timed=True)
        chance = random.Random(1)
        lock = pfs.Lock("test/X")
        def work(n):
            with pfs.statement(f"test/s{n}"):
                sleep(chance.random() / 100)
                with pfs.transaction():
                    sleep(chance.random() / 100)
                    with pfs.stage(f"test/g{n}"):
                        sleep(chance.random() / 100)
                        with lock: sleep(chance.random() / 1000)
                        with pfs.wait(f"test/w{n}"): sleep(chance.random() / 100)
                    sleep(chance.random() / 100)
        with limit(25):
            join_all([spawn(work, n) for n in range(20)])
        def read(kind):
            columns = "EVENT_ID", "EVENT_NAME", "NESTING_EVENT_ID", "NESTING_EVENT_TYPE"
            return {id: rest for id, *rest in rows(f"events_{kind}_history_long", *columns) if "/test/early" not in rest[0]}
        statements, transactions, stages = read("statements"), read("transactions"), read("stages")
        waits = {id: rest for id, rest in read("waits").items() if "/test/" in rest[0]}
        print(len(statements), len(transactions), len(stages), len(waits))
        def kinds(events): return {kind for *_, kind in events.values()}
        print({(parent, kind) for _, parent, kind in statements.values()})
        print(sorted(parent for _, parent, _ in transactions.values()) == sorted(statements), kinds(transactions))
        def number(name): return name.split("/")[-1][1:]
        print(all(number(statements[parent][0]) == number(name) for name, parent, _ in stages.values()), kinds(stages))
        own = [(name, parent) for name, parent, _ in waits.values() if "/test/w" in name]
        print(all(number(stages[parent][0]) == number(name) for name, parent in own), kinds(waits))
        print(sorted(parent for name, parent, _ in waits.values() if "/test/X" in name) == sorted(stages))
        counts = rows("events_stages_summary_global_by_event_name", "EVENT_NAME", "COUNT_STAR")
        print([count for name, count in counts if "/test/g" in name] == [1] * 20)
        """
    )
    assert out.splitlines() == [
        "20 20 20 40",
        "{(None, None)}",
        "True {'STATEMENT'}",
        "True {'STATEMENT'}",
        "True {'STAGE'}",
        "True",
        "True",
    ]


def test_sockets(greenlets: Run) -> None:
    """A server and its client in one thread: each call that waits lets the other run, and is seen."""
    out = greenlets("""
        server = pfs.create_server("test/server", ("127.0.0.1", 0))
        address = server.getsockname()
        def serve():
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                for line in lines: connection.sendall(line.upper())
            print(type(connection) is pfs.socket, connection.name)
        def ask():
            with pfs.create_connection("test/client", address) as client:
                for n in range(3):
                    client.sendall(b"%d a\\n" % n)
                    print(client.recv(100))
                client.settimeout(0.01)
                try:
                    client.recv(1)
                except TimeoutError:
                    print("late")
        with limit(20):
            join_all([spawn(serve), spawn(ask)])
            one, two = pfs.socketpair("test/pair")
            reader = spawn(lambda: print(one.recv(9)))
            sleep(0.001)
            two.sendall(b"pair")
            join_all([reader])
            for each in (one, two, server): each.close()
        columns = "EVENT_NAME", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE", "SUM_NUMBER_OF_BYTES_READ"
        for name, *numbers in sorted(rows("socket_summary_by_event_name", *columns)):
            if "/test/" in name: print(name.split("/")[-1], *numbers)
        print(len(rows("socket_instances", "EVENT_NAME")))
    """)
    assert out.splitlines() == [
        "b'0 A\\n'",
        "b'1 A\\n'",
        "b'2 A\\n'",
        "late",
        "True wait/io/socket/test/server",
        "b'pair'",
        "client 3 12 12",
        "pair 1 4 4",
        "server 3 12 12",
        "0",
    ]


def test_threads_that_are_greenlets_do_not_rename_their_thread(greenlets: Run) -> None:
    out = greenlets("""
        with pfs.Lock("test/X"): pass
        before = rows("threads", "NAME")
        def work():
            with pfs.Lock("test/X"): sleep(0)
        thread = pfs.Thread(target=work)
        thread.start()
        thread.join()
        print(rows("threads", "NAME") == before)
    """)
    assert out == "True\n"


def test_greenlets_without_patches_are_tasks(fresh: Run) -> None:
    out = fresh(
        """
        import greenlet
        import pfs
        pfs.setup_consumers.update(enabled=True)
        pfs.setup_instruments.update(enabled=True, timed=True)
        def work(n):
            with pfs.statement(f"test/s{n}"):
                main.switch()
                with pfs.stage(f"test/g{n}"):
                    main.switch()
                    with pfs.Lock("test/X"): pass
        main = greenlet.getcurrent()
        both = [greenlet.greenlet(work) for _ in range(2)]
        for _ in range(3):
            for n, each in enumerate(both): each.switch(n)
        counts = pfs._core.rows("events_stages_summary_global_by_event_name", ("EVENT_NAME", "COUNT_STAR"), None)
        print([count for name, count in counts if "/test/g" in name])
        print(pfs._core.rows("events_statements_history_long", ("NESTING_EVENT_ID",), None))
        """
    )
    assert out == "[1, 1]\n[(None,), (None,)]\n"
