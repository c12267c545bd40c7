"""A Performance Schema for any program: it shows what the program waits for, locks, reads and writes, as pandas DataFrames.

    import pfs

    lock = pfs.Lock("myapp/LOCK_queue")            # a threading.Lock that is instrumented
    with lock, pfs.open("in.csv", name="myapp/data") as f:
        text = f.read()

    pfs.table("file_summary_by_instance")          # any table of pfs.tables(), at any time
    pfs.setup_instruments["wait/io/file/%"].enabled = False

    pfs.attach(4711).table("threads")              # a table of another process, or of a dead one: pfs.processes()

All times are picoseconds since the start of the program (columns TIMER_*); ``pfs.table(name, unit="s")`` gives seconds.
``pfs.describe()`` lists the tables, ``pfs.describe(table)`` explains every column. In Jupyter: ``%load_ext pfs`` and ``%%pfs``.
"""

from __future__ import annotations

try:
    from pfs import _core
except ImportError as error:
    if "subinterpreter" not in str(error):  # that message needs no note
        error.add_note(
            "pfs: the compiled module pfs._core is missing or broken. Install the package with 'pip install .' in the root of "
            "the source tree (it needs g++ and libmd-dev), and do not run Python from inside its python/ folder."
        )
        from pfs._base.namesake import namesake

        if other := namesake():
            error.add_note(f"pfs: {other}")
    raise

__version__ = _core.__version__

# The one list of public names: heading of the manual -> module -> names. Modules are imported when somebody asks for a name.
# __init__.pyi is made from it: python -m pfs._generate.
PUBLIC: dict[str, dict[str, tuple[str, ...]]] = {
    "Reading": {
        "_process.reading": (
            "tables", "table", "now", "arrow", "describe", "ddl", "truncate", "digest",
        ),
        "_process.questions": ("sql", "view"),
        "setup": ("variables", "status"),
    },
    "Other processes, snapshots and traces": {
        "_process.processes": ("processes", "gc"),
        "_process.attach": ("attach", "Schema"),
        "_save.snapshot": ("snapshot", "read_snapshot", "Snapshot", "Merged"),
        "_save.diff": ("Diff",),
        "_save.trace.frames": ("read_trace",),
    },
    "Setting up": {
        "setup": (
            "configure", "setup_actors", "setup_consumers", "setup_instruments", "setup_loggers", "setup_meters",
            "setup_objects", "setup_overhead", "setup_threads", "threads",
        ),
        "_record.thread": ("set_account", "set_thread_name"),
    },
    "Instrumenting": {
        "_core": ("Lock", "RLock", "RWLock", "Condition", "SimpleQueue", "stage", "statement", "transaction"),
        "_record.locks": ("Semaphore", "BoundedSemaphore", "Event", "Barrier"),
        "_record.queues": ("Queue", "LifoQueue", "PriorityQueue"),
        "_record.thread": ("Thread",),
        "_record.sockets": ("socket", "socketpair", "create_connection", "create_server"),
        "_record.files": ("open", "fsync"),
        "_record.instrument": ("wait", "idle", "Table"),
        "_record.dbapi.wrap": ("dbapi",),
        "_record.dbapi.rows": ("dbapi_plain",),
        "_record.blocks": ("memory",),
    },
    "Objects that the program declares": {
        "_record.program": ("register_variable", "register_meter", "Variable", "Meter"),
        "_record.error_log": ("log", "LoggingHandler"),
        "_record.counted": ("raised", "handled", "register_status", "StatusVariable"),
    },
    "Errors": {
        "errors": (
            "Error", "AlreadyExists", "AttachError", "InvalidValue", "LimitReached", "OperationNotAllowed", "StateError",
            "UnknownColumn", "UnknownName", "UnknownTable",
        ),
    },
}  # fmt: skip
# Modules with names of their own, which load when somebody asks for them. Most need a package that is an extra.
MODULES = ("dask", "errors", "fleet", "metrics", "otel", "plot", "server", "setup", "sqlalchemy")

_module_of = {name: module for modules in PUBLIC.values() for module, names in modules.items() for name in names}
__all__ = [*_module_of, "__version__"]

# Those of the core are there at once: a program that has given up its rights, or changed its root, may find no module any more.
globals().update((name, getattr(_core, name)) for name in PUBLIC["Instrumenting"]["_core"])


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _module_of:
        value = globals()[name] = getattr(import_module(f"pfs.{_module_of[name]}"), name)
        return value
    if name in MODULES:
        return import_module(f"pfs.{name}")
    raise AttributeError(f"module 'pfs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *MODULES]


def load_ipython_extension(shell: object) -> None:
    """Is called by ``%load_ext pfs``. It adds the magic ``%%pfs``, readable frames, and completion of names of tables."""
    from pfs._ui.notebook import extension

    extension.load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Is called by ``%unload_ext pfs``."""
    from pfs._ui.notebook import extension

    extension.unload(shell)
