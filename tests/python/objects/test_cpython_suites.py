"""CPython's own tests of locks, queues and files, run on ours. Skipped where Python came without its test package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("test.lock_tests", reason="Python without its test package")

LOCKS_AND_FILES = """
import sys, threading, unittest
from test import lock_tests, test_fileio
import pfs
from pfs._record.files import File

class Locks(lock_tests.LockTests):
    locktype = staticmethod(lambda: pfs.Lock("test/LOCK_cpython"))

class RLocks(lock_tests.RLockTests):
    locktype = staticmethod(lambda: pfs.RLock("test/RLOCK_cpython"))

class Conditions(lock_tests.ConditionTests):
    condtype = staticmethod(lambda lock=None: pfs.Condition("test/COND_cpython", lock))

class ConditionsOnStandardLocks(lock_tests.ConditionTests):
    condtype = staticmethod(lambda lock=None: pfs.Condition("test/COND_cpython", lock or threading.RLock()))

class StandardConditions(lock_tests.ConditionTests):
    condtype = staticmethod(lambda lock=None: threading.Condition(lock or pfs.RLock("test/RLOCK_cpython")))

class Events(lock_tests.EventTests):
    eventtype = staticmethod(lambda: pfs.Event("test/EVENT_cpython"))

class Semaphores(lock_tests.SemaphoreTests):
    semtype = staticmethod(lambda *arguments, **named: pfs.Semaphore("test/SEM_cpython", *arguments, **named))

class BoundedSemaphores(lock_tests.BoundedSemaphoreTests):
    semtype = staticmethod(lambda *arguments, **named: pfs.BoundedSemaphore("test/SEM_cpython", *arguments, **named))

class Barriers(lock_tests.BarrierTests):
    barriertype = staticmethod(lambda *arguments, **named: pfs.Barrier("test/BARRIER_cpython", *arguments, **named))

class Files(test_fileio.AutoFileTests, unittest.TestCase):
    FileIO = staticmethod(File)
    modulename = "pfs"
    # They look for the text "FileIO".
    testRepr = testReprNoCloseFD = None

class OtherFiles(test_fileio.OtherFileTests, unittest.TestCase):
    FileIO = staticmethod(File)
    modulename = "pfs"

unittest.main(argv=["x"])
"""

# The module under test has our classes, which take no name there. Its own tests look at the class's name, which stays.
QUEUES = """
import queue, sys, unittest
from test import test_queue
import pfs

class Unnamed:
    def __init__(self, *arguments, **named):
        super().__init__("test/QUEUE_cpython", *arguments, **named)

for kind in ("Queue", "LifoQueue", "PriorityQueue"):
    setattr(queue, kind, type(kind, (Unnamed, getattr(pfs, kind)), {}))

class Ours:
    queue = queue

class Queues(Ours, test_queue.QueueTest, unittest.TestCase): pass
class LifoQueues(Ours, test_queue.LifoQueueTest, unittest.TestCase): pass
class PriorityQueues(Ours, test_queue.PriorityQueueTest, unittest.TestCase): pass
class FailingQueues(Ours, test_queue.FailingQueueTest, unittest.TestCase): pass

class SimpleQueues(Ours, test_queue.BaseSimpleQueueTest, unittest.TestCase):
    def setUp(self):
        self.type2test = lambda: pfs.SimpleQueue("test/QUEUE_cpython")
        super().setUp()

unittest.main(argv=["x"])
"""


# As for queues. The tests of VSOCK need a host that answers: without one they wait for ever, with the standard class as well.
SOCKETS = """
import socket, unittest
import pfs

class Unnamed(pfs.socket):
    __slots__ = ()
    def __init__(self, *arguments, **named):
        if not (arguments and isinstance(arguments[0], str)):  # dup() knows the name
            arguments = ("test/SOCKET_cpython", *arguments)
        super().__init__(*arguments, **named)

Unnamed.__name__ = Unnamed.__qualname__ = "socket"
socket.socket = Unnamed

from test.test_socket import *
from test.test_socket import setUpModule
del ThreadedVSOCKSocketStreamTest

assert unittest.main(argv=["x"], exit=False).result.wasSuccessful()
rows = pfs.table("socket_summary_by_event_name").set_index("EVENT_NAME")
print("reads:", rows["COUNT_READ"]["wait/io/socket/test/SOCKET_cpython"], "left:", len(pfs.table("socket_instances")))
"""


def test_sockets_pass_the_tests_of_the_standard_ones(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SOCKETS], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    seen = re.search(r"reads: (\d+) left: (\d+)", done.stdout)
    assert seen is not None
    assert int(seen[1]) > 1000  # it was ours
    assert int(seen[2]) == 0


@pytest.mark.parametrize("script", [LOCKS_AND_FILES, QUEUES], ids=["locks and files", "queues"])
def test_ours_pass_the_tests_of_the_standard_ones(script: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
