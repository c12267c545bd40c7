"""Work in a child with limits: a crash, an error, a loop or a lot of memory is the end of the child, and is reported."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import tempfile
import traceback
from collections.abc import Callable

SECONDS, BYTES = 10, 1 << 30  # of the processor, and of memory


def fault_of(work: Callable[[], object]) -> str | None:
    """Returns what the work did that none should; None if it has ended in order. The time is ten times as long if others work."""
    with tempfile.TemporaryFile("w+") as said:
        if (child := os.fork()) == 0:
            try:
                faulthandler.enable(said)
                resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
                resource.setrlimit(resource.RLIMIT_DATA, (3 * BYTES, 3 * BYTES))
                signal.alarm(20 * SECONDS)
                work()
                os._exit(0)
            except BaseException:
                traceback.print_exc(file=said)
                said.flush()
            finally:
                os._exit(1)
        _, status, used = os.wait4(child, 0)
        said.seek(0)
        if status != 0:
            return f"status {status}\n{said.read()}"
    return f"{used.ru_maxrss >> 10} MiB" if used.ru_maxrss << 10 > BYTES else None
