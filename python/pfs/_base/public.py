"""Lists the public names. Their modules are imported when somebody asks for a name.

``python -m pfs._generate`` makes __init__.pyi from this list.
"""

from __future__ import annotations

__all__ = ["MODULES", "MODULE_OF", "PUBLIC"]

# Heading of the manual -> module -> names.
PUBLIC: dict[str, dict[str, tuple[str, ...]]] = {
    "Reading": {
        "_process.reading": (
            "tables", "table", "now", "arrow", "describe", "ddl", "truncate", "digest",
        ),
        "_process.questions": ("sql", "view"),
        "_process.findings.ask": ("findings",),
        "setup": ("variables", "status"),
    },
    "Other processes, snapshots and traces": {
        "_process.processes": ("processes", "gc"),
        "_process.attach": ("attach", "Schema"),
        "_process.history.samples": ("record", "samples", "Recording"),
        "_process.run.join": ("join", "leave"),
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
MODULE_OF = {name: module for modules in PUBLIC.values() for module, names in modules.items() for name in names}
# Modules with names of their own, which load when somebody asks for them. Most need a package that is an extra.
MODULES = ("dask", "errors", "fleet", "metrics", "otel", "plot", "server", "setup", "sqlalchemy")
