"""Makes a first import of pandas work in an ``atexit`` handler. It must be imported before pandas.

pandas imports ``concurrent.futures.thread``, which registers a function that the interpreter calls when it shuts threads down.
``atexit`` handlers run after that, so the interpreter refuses the registration with a RuntimeError. No pool of threads can run
then, so there is nothing to call.
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
