"""Makes a statement of each wait of a task for a lock, semaphore, condition, event or queue: statement/asyncio/lock and the like.

Such a wait blocks no thread, and other tasks run in the thread meanwhile: no wait of the tables can have it. The digest has the
class and a line, as module:line: of the first wait for a lock or semaphore, and of the making of the others. A task that need not
wait makes no statement.

statement/asyncio/held is what a task awaits while it holds a lock that others wait for. Its digest has that line, too.
"""

import sys
from weakref import ref

import _pfs_run_native as native
from _pfs_run.statements import ByObject, Keys, identity, quiet
from _pfs_run.wrapping import put, replace

_SKIPPED = "asyncio,contextlib,_pfs_run"
_NO_LINE = "asyncio!,_pfs_run"  # of what a task awaits: it is not on the stack
_MOST_AWAITS = 100  # of one task that holds a lock
_keys = Keys("asyncio")
_lines = ByObject()  # by lock or queue
_holds = ByObject()  # of a lock
_STANDARD = sys.modules["os"].__file__.rpartition("/")[0] + "/"  # the folder of the standard library


def _own_line():
    """Returns the innermost line of the program, as module:line."""
    frame = sys._getframe(2)
    while frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] in ("asyncio", "_pfs_run"):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_globals.get('__name__') or 'unknown'}:{frame.f_lineno}"


@quiet()
def _note(made):
    _lines.put(made, _own_line())


def _making(original):
    def __init__(self, *arguments, **named):
        _note(self)
        original(self, *arguments, **named)

    return __init__


def _name(waited):
    line = _lines.get(waited)
    if line is None:
        line = _own_line()
        _lines.put(waited, line)
    return f"asyncio.{type(waited).__name__} {line}"


def _waiting(kind, must_wait):
    """Returns what wraps a function that waits."""

    @quiet()
    def begin(waited):
        return native.begin(_keys[kind], identity(_name(waited)), None, _SKIPPED, True) if must_wait(waited) else None

    def make(original):
        async def wait(self, *arguments, **named):
            handle = begin(self)
            if handle is None:
                return await original(self, *arguments, **named)
            try:
                result = await original(self, *arguments, **named)
            except BaseException as error:
                native.end(handle, 0, 0, 1, type(error).__name__)
                raise
            native.end(handle, 0, 0, 0, "")
            return result

        return wait

    return make


class _Hold:
    """A lock that a task has, for which others wait: from one await of the task to the next, until another task gets the lock.

    The callback of a future comes after that of the task: by then, the task awaits the next one.
    """

    def __init__(self, lock, task, loop):
        self._name, self._lock = _name(lock), ref(lock)
        self._task, self._loop, self._handle, self._left = task, loop, None, _MOST_AWAITS

    @quiet()
    def look(self, _=None):
        self._end()
        lock = self._lock()
        if self._task is None or not self._left or lock is None or not lock._locked or self._task.done():
            self._task = None
            return
        self._left -= 1
        future, place = self._task._fut_waiter, _awaiting(self._task.get_coro())
        if future is None:  # it lets others run, as by asyncio.sleep(0)
            self._loop.call_soon(self.look)
        elif place is not None:
            self._handle = native.begin(_keys["held"], identity(f"{self._name} held at {place}"), None, _NO_LINE, True)
            future.add_done_callback(self.look)

    def _end(self):
        if self._handle is not None:
            native.end(self._handle, 0, 0, 0, "")
            self._handle = None

    def end(self):
        self._end()
        self._task = None


def _awaiting(coroutine):
    """Returns the innermost line of the program at which a coroutine awaits, as app.py:12; else of a package, or None."""
    place = None
    is_own = False
    while coroutine is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(coroutine, kind + "_frame")), None)
        frame = kind and getattr(coroutine, kind + "_frame")
        if not frame:
            break
        path = frame.f_code.co_filename
        is_package = "-packages/" in path or path.startswith((_STANDARD, "<"))
        if not is_package or not is_own:
            place, is_own = f"{path.rpartition('/')[2]}:{frame.f_lineno}", not is_package
        coroutine = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else kind + "_await")
    return place


class _Loop:
    """Stands for the loop where a lock or semaphore makes the future of a task that must wait."""

    def __init__(self, kind, waited, loop):
        self._kind, self._waited, self._loop = kind, waited, loop
        self._task = self._handle = None

    def create_future(self):
        future = self._loop.create_future()
        self._begin(future)
        return future

    @quiet()
    def _begin(self, future):
        if not self._waited._waiters:  # the lock may have another holder by now
            _end_hold(self._waited)
        self._handle = native.begin(_keys[self._kind], identity(_name(self._waited)), None, _SKIPPED, True)
        if self._handle is not None:
            if self._kind == "lock":
                self._task = sys.modules["asyncio"].current_task(self._loop)
            future.add_done_callback(self._done)

    @quiet()
    def _done(self, future):
        if future.cancelled():
            native.end(self._handle, 0, 0, 1, "CancelledError")
            return
        native.end(self._handle, 0, 0, 0, "")
        _end_hold(self._waited)
        # With more waiters, the next one gets the lock from this task, and nobody else.
        if self._task is not None and len(self._waited._waiters) > 1:
            hold = _Hold(self._waited, self._task, self._loop)
            _holds.put(self._waited, hold)
            self._loop.call_soon(hold.look)


def _end_hold(lock):
    hold = _holds.pop(lock)
    if hold is not None:
        hold.end()


def _when_it_must_wait(cls, kind):
    """Notes the waits of a class whose acquire() asks for the loop only where it must wait: who need not wait pays nothing."""
    original, acquire = cls._get_loop, cls.acquire.__code__

    def _get_loop(self):
        loop = original(self)
        return _Loop(kind, self, loop) if sys._getframe(1).f_code is acquire else loop

    put(cls, "_get_loop", _get_loop)


def _locks(module):
    for cls, kind in ((module.Lock, "lock"), (module.Semaphore, "semaphore")):
        _when_it_must_wait(cls, kind)


def _conditions(module):
    for cls in (module.Event, module.Condition):
        replace(cls, "__init__", _making)
    replace(module.Event, "wait", _waiting("event", lambda event: not event.is_set()))
    replace(module.Condition, "wait", _waiting("condition", lambda condition: True))


def _queues(module):
    replace(module.Queue, "__init__", _making)
    replace(module.Queue, "get", _waiting("queue", lambda queue: queue.empty()))
    replace(module.Queue, "put", _waiting("queue", lambda queue: queue.full()))
    _conditions(sys.modules["asyncio.locks"])


PATCHES = {"asyncio.locks": _locks, "asyncio.queues": _queues}
