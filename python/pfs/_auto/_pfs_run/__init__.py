"""The Python layer of ``pfs run``: wraps functions of modules when the program has imported them.

PFS_RUN_PYTHON says which parts, with commas in between; without it, all but asyncio. Each part is a module here whose PATCHES
maps a module of the program to the function that wraps what is in it. A part is imported when the program has imported that
module, and not before.
"""

import os
import sys

__all__ = ["attach", "start"]

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
    "lines": {"time": "lines", "posix": "lines", "_io": "lines", "select": "lines", "_socket": "lines", "_sqlite3": "lines"},
    "asyncio": {"asyncio.locks": "asyncio_py", "asyncio.queues": "asyncio_py"},
    "tasks": {"celery.app.trace": "tasks"},
    "tests": {"_pytest.runner": "tests"},
    "cells": {"IPython.core.interactiveshell": "cells"},
}


def start():
    """Loads the native module and begins to wait for imports. Returns False where nothing is recorded."""
    wanted = _modules_of(os.environ.get("PFS_RUN_PYTHON", ",".join(part for part in PARTS if part != "asyncio")))
    if not wanted or "t" in getattr(sys, "abiflags", ""):
        return False
    package = __file__.rpartition("/_auto/")[0]
    if not _load_native(package + "/lib/libperfschema-run.so"):
        return False
    _wait_for(wanted)
    return True


def attach(library, parts):
    """Begins in a program that runs already. `library` is the core, libperfschema.so.

    Raises:
        RuntimeError: the layer is there already.
    """
    if "_pfs_run_native" in sys.modules:
        raise RuntimeError("this program is recorded already")
    from _pfs_run import attached

    attached.start(library)
    _wait_for(_modules_of(parts))


def _modules_of(parts):
    return {name: module for part in parts.split(",") for name, module in PARTS.get(part, {}).items()}


def _wait_for(wanted):
    sys.meta_path.insert(0, _Finder(wanted))
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
        self._wanted = wanted
        self.find_spec = sys.modules["_pfs_run_native"].finder(wanted, self._find)

    def _find(self, name, path=None, target=None):
        part = self._wanted.get(name)
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
