"""Makes a statement of each wait of a task for a lock, semaphore, condition, event or queue: statement/asyncio/lock and the like.

Such a wait blocks no thread, and other tasks run in the thread meanwhile: no wait of the tables can have it. The digest is the
line that makes the object, as module:line. A task that need not wait makes no statement.
"""

import sys

import _pfs_run_native as native
from _pfs_run.statements import ByObject, Keys, identity, quiet
from _pfs_run.wrapping import replace

_SKIPPED = "asyncio,contextlib,_pfs_run"
_keys = Keys("asyncio")
_lines = ByObject()  # text by lock or queue


@quiet()
def _note_line(made):
    frame = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] in ("asyncio", "_pfs_run"):
        frame = frame.f_back
    if frame is not None:
        _lines.put(made, identity(f"{frame.f_globals.get('__name__') or 'unknown'}:{frame.f_lineno}"))


def _making(original):
    def __init__(self, *arguments, **named):
        _note_line(self)
        original(self, *arguments, **named)

    return __init__


def _waiting(kind, must_wait):
    @quiet()
    def begin(waited):
        return native.begin(_keys[kind], _lines.get(waited) or "`unknown`", None, _SKIPPED, True) if must_wait(waited) else None

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


def _locks(module):
    for cls in (module.Lock, module.Event, module.Condition, module.Semaphore):
        replace(cls, "__init__", _making)
    replace(module.Lock, "acquire", _waiting("lock", lambda lock: lock.locked()))
    replace(module.Semaphore, "acquire", _waiting("semaphore", lambda semaphore: semaphore.locked()))
    replace(module.Event, "wait", _waiting("event", lambda event: not event.is_set()))
    replace(module.Condition, "wait", _waiting("condition", lambda condition: True))


def _queues(module):
    replace(module.Queue, "__init__", _making)
    replace(module.Queue, "get", _waiting("queue", lambda queue: queue.empty()))
    replace(module.Queue, "put", _waiting("queue", lambda queue: queue.full()))


PATCHES = {"asyncio.locks": _locks, "asyncio.queues": _queues}
