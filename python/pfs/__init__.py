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

from pfs._base.public import MODULE_OF, MODULES, PUBLIC

__version__ = _core.__version__

__all__ = [*MODULE_OF, "__version__"]

# Those of the core are there at once: a program that has given up its rights, or changed its root, may find no module any more.
globals().update((name, getattr(_core, name)) for name in PUBLIC["Instrumenting"]["_core"])


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in MODULE_OF:
        value = globals()[name] = getattr(import_module(f"pfs.{MODULE_OF[name]}"), name)
        return value
    if name in MODULES:
        return import_module(f"pfs.{name}")
    near = ""
    if not name.startswith("_"):
        from pfs._read.nearest import hint

        near = hint(name, __dir__())
    raise AttributeError(f"module 'pfs' has no attribute {name!r}{near}")


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
