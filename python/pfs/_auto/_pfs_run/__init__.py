"""The Python layer of ``pfs run``: wraps functions of modules when the program has imported them.

PFS_RUN_PYTHON says which parts, with commas in between; without it, all but queues. Each part is a module here whose PATCHES
maps a module of the program to the function that wraps what is in it. A part is imported when the program has imported that
module, and not before.
"""

import os
import sys

__all__ = ["HAS_GIL", "join", "leave", "start"]

HAS_GIL = "t" not in getattr(sys, "abiflags", "")

# Part: modules of the program that it wraps, and its own module here.
PARTS = {
    "threads": {"threading": "threads", "queue": "threads"},
    "requests": {
        "flask.app": "requests",
        "starlette.applications": "requests",
        "django.core.handlers.wsgi": "requests",
        "django.core.handlers.asgi": "requests",
        "wsgiref.handlers": "servers",
        "gunicorn.workers.base": "servers",
        "werkzeug.serving": "servers",
        "waitress.server": "servers",
        "uvicorn.protocols.http.h11_impl": "servers",
        "uvicorn.protocols.http.httptools_impl": "servers",
    },
    "clients": {"http.client": "clients", "httpx._client": "clients", "aiohttp.client": "clients"},
    "drivers": {
        "pymysql.connections": "pymysql_py",
        "redis.client": "redis_py",
        "redis.asyncio.client": "redis_py",
        "asyncpg.connection": "asyncpg_py",
        "asyncpg.prepared_stmt": "asyncpg_py",
        "pymongo.monitoring": "pymongo_py",
    },
    "locks": {"_thread": "locks"},
    "lines": {
        "time": "lines",
        "posix": "lines",
        "_posixsubprocess": "lines",
        "_io": "lines",
        "select": "lines",
        "_socket": "lines",
        "_sqlite3": "lines",
        "_ssl": "lines",
        "_signal": "lines",
        "fcntl": "lines",
        "mmap": "lines",
        "psycopg2._psycopg": "lines",
        "psycopg_binary.pq": "lines",
        "psycopg_c.pq": "lines",
        "MySQLdb._mysql": "lines",
    },
    "asyncio": {"asyncio.locks": "asyncio_py"},
    "queues": {"asyncio.queues": "asyncio_py"},
    "tasks": {"celery.app.trace": "tasks"},
    "tests": {"_pytest.runner": "tests"},
    "cells": {"IPython.core.interactiveshell": "cells"},
}
_DEFAULT = ",".join(part for part in PARTS if part != "queues")
# What needs the GIL. Without it, waits for locks are seen without the native layer.
_OF_GIL = ("locks",)
_finders = []  # the one that is in sys.meta_path


def start():
    """Loads the native module and begins to wait for imports. Returns False where nothing is recorded."""
    parts = os.environ.get("PFS_RUN_PYTHON", _DEFAULT).split(",")
    if not HAS_GIL:
        parts = [part for part in parts if part not in _OF_GIL]
    wanted = _modules_of(",".join(parts))
    if not wanted:
        return False
    package = __file__.rpartition("/_auto/")[0]
    if not _load_native(package + "/lib/libperfschema-run.so"):
        return False
    _wait_for(wanted)
    return True


def join(native, parts):
    """Begins in a program that was joined, or begins again (cpp/run/python/python_join.cpp). `native`: the native module."""
    sys.modules["_pfs_run_native"] = native
    _wait_for(_modules_of(parts or _DEFAULT))


def leave():
    """Puts back what was wrapped. The finder stays, and finds nothing: another thread may be going through sys.meta_path."""
    if _finders:
        _finders[0].wanted.clear()
    sys.modules["_pfs_run_native"].forget_calls()
    if "_pfs_run.lines" in sys.modules:
        sys.modules["_pfs_run.lines"].hash_again()
    if "_pfs_run.wrapping" in sys.modules:
        sys.modules["_pfs_run.wrapping"].undo()


def _modules_of(parts):
    return {name: module for part in parts.split(",") for name, module in PARTS.get(part, {}).items()}


def _wait_for(wanted):
    if _finders:
        _finders[0].wanted.update(wanted)
    else:
        _finders.append(_Finder(wanted))
        sys.meta_path.insert(0, _finders[0])
    for name in wanted:
        module = sys.modules.get(name)
        if module is not None:
            _wrap(module, wanted[name])


def _load_native(library):
    """Loads the module that is inside the preloaded library. Returns False without the library, which it never loads, or with pfs
    off."""
    import _imp

    only_loaded = 4  # RTLD_NOLOAD
    spec = type(__spec__)("_pfs_run_native", None, origin=library)
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | only_loaded)
    try:
        module = _imp.create_dynamic(spec)
    except ImportError:
        return False
    finally:
        sys.setdlopenflags(flags)
    _imp.exec_dynamic(module)
    sys.modules["_pfs_run_native"] = module
    return True


def _wrap(module, part):
    """Wraps the functions of a module. What goes wrong is noted in error_log: the program runs on."""
    try:
        __import__("_pfs_run." + part)
        sys.modules["_pfs_run." + part].PATCHES[module.__spec__.name](module)  # the name of _io is io
    except Exception as error:
        sys.modules["_pfs_run_native"].note(f"{module.__name__} is not wrapped: {error!r}")


class _Finder:
    """Stands first in sys.meta_path. It finds nothing itself: it asks the others, and wraps a module after its execution."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.find_spec = sys.modules["_pfs_run_native"].finder(wanted, self._find)

    def _find(self, name, path=None, target=None):
        part = self.wanted.get(name)
        if part is None:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec:
                break
        else:
            return None
        execute = getattr(spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            if module.__name__ != name:  # a loader of several modules
                return execute(module)
            vars(spec.loader).pop("exec_module", None)
            result = execute(module)
            if name in self.wanted:
                _wrap(module, part)
            return result

        if type(getattr(spec.loader, "__dict__", None)) is dict:
            spec.loader.exec_module = exec_module
        elif name in sys.builtin_module_names:
            spec.loader = _OfBuiltIn(spec.loader, part)
        return spec


class _OfBuiltIn:
    """Stands for the loader of a module of the interpreter itself, which is a class, until that module is made."""

    def __init__(self, loader, part):
        self._loader, self._part = loader, part

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _wrap(module, self._part)
