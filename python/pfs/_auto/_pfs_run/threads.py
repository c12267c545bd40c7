"""Names threads by Thread.name, and says which locks are those of queues."""

import sys

import _pfs_run_native as native
from _pfs_run import HAS_GIL
from _pfs_run.wrapping import put, replace

named = {}  # the names of the last threads by THREAD_ID: their rows go when they end
_MOST = 1000


def _name(name):
    number = native.name_thread(name)
    if number:
        if len(named) >= _MOST:
            for oldest in list(named)[: len(named) - _MOST + 1]:  # at once: another thread may name itself
                named.pop(oldest, None)
        named[number] = name


def _threading(threading):
    def naming(original):
        # A thread calls this once for itself, before run(): no frame of this layer stays on its stack.
        def with_name(self):
            original(self)
            _name(self._name)

        return with_name

    # From CPython 3.14 on a thread then names itself for the system, too, by at most 15 bytes of its name: ours comes after that.
    last = "_set_os_name" if hasattr(threading.Thread, "_set_os_name") else "_set_native_id"
    replace(threading.Thread, last, naming)
    own = threading.get_native_id()
    for thread in list(threading._active.values()):
        if thread._native_id == own:
            _name(thread._name)
        else:  # the program was joined
            native.name_early(thread._native_id or 0, thread._name)

    before = threading.Thread.name

    def name(self, name):
        before.fset(self, name)
        if threading.get_ident() == self._ident:
            _name(self._name)

    name.__doc__, name.__qualname__ = before.fset.__doc__, before.fset.__qualname__
    put(threading.Thread, "name", before.setter(name))
    if not HAS_GIL:
        __import__("_pfs_run.variables")
        sys.modules["_pfs_run.variables"].note()


def _queue(queue):
    kind = queue.SimpleQueue
    # Else it is made of locks of threading, or has none, as without the GIL: then its waits are known by the line that waits.
    if kind.__module__ == "_queue" and HAS_GIL:
        native.note_queues(kind)


PATCHES = {"threading": _threading, "queue": _queue}
