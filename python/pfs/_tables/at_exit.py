"""Makes a first import of pandas work in an ``atexit`` handler. Imported before pandas.

pandas imports ``concurrent.futures.thread``, which asks the interpreter to call a function when threads are shut down. That time
is over when ``atexit`` handlers run, and the interpreter refuses with a RuntimeError. No pool of threads can be running then, so
there is nothing to call.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__: list[str] = []


def _import_executors() -> None:
    threading: Any = sys.modules.get("threading")
    if threading is None or not getattr(threading, "_SHUTTING_DOWN", False) or "concurrent.futures.thread" in sys.modules:
        return
    register = threading._register_atexit
    threading._register_atexit = lambda function, *args, **kwargs: None
    try:
        import concurrent.futures.thread  # noqa: F401
    finally:
        threading._register_atexit = register


_import_executors()
