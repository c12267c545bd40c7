"""Starts the Python layer of ``pfs run`` in a program that runs already, by ``sys.remote_exec`` of CPython 3.14."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence

from pfs.errors import AttachError, StateError

__all__ = ["attach_run", "core_library"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Runs in the program, in its main thread, between two instructions.
_SCRIPT = """\
def _pfs_attach():
    import os, sys
    sys.path.insert(0, {folder!r})
    try:
        import _pfs_run
        _pfs_run.attach({library!r}, {parts!r})
        text = ""
    except BaseException as error:
        text = f"{{type(error).__name__}}: {{error}}"
    finally:
        sys.path.remove({folder!r})
    try:
        with open({answer!r} + ".new", "w") as file:
            file.write(text)
        os.rename({answer!r} + ".new", {answer!r})
    except OSError:
        pass
_pfs_attach()
del _pfs_attach
"""
# Runs in another process of the same interpreter: only that one has the layout of the program's memory.
_SENDER = """\
import sys
if not hasattr(sys, "remote_exec"): sys.exit("it is CPython %d.%d: sys.remote_exec needs 3.14" % sys.version_info[:2])
try: sys.remote_exec(int(sys.argv[1]), sys.argv[2])
except BaseException as error: sys.exit(f"{type(error).__name__}: {error}")
"""


def core_library() -> str:
    """Returns the path of the C library. The name without a version is for the linker only.

    Raises:
        StateError: this installation has none.
    """
    found = sorted(glob.glob(os.path.join(_PACKAGE, "lib", "libperfschema.so.*")))
    if not found:
        raise StateError(f"there is no libperfschema.so in {_PACKAGE}/lib: this package was built without the C library")
    return found[0]


def attach_run(pid: int, parts: Sequence[str], seconds: float) -> None:
    """Starts the layer in a program, and waits until it has begun.

    Raises:
        AttachError: there is no such program, it is no CPython 3.14, or it must not be touched.
        StateError: it has not begun in that time.
    """
    library = core_library()
    try:
        interpreter = os.readlink(f"/proc/{pid}/exe")
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError as error:
        raise AttachError(f"process {pid}: {error.strerror}") from None
    if not os.path.basename(interpreter).startswith("python"):
        raise AttachError(f"process {pid} runs {interpreter}, which is no Python")
    folder = tempfile.mkdtemp(prefix="pfs-attach-")
    answer, script = os.path.join(folder, "answer"), os.path.join(folder, "script.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(_SCRIPT.format(folder=os.path.join(_PACKAGE, "_auto"), library=library, parts=",".join(parts), answer=answer))
    if owner != os.geteuid():
        os.chmod(script, 0o644)
        os.chown(folder, owner, -1)
    done = subprocess.run([interpreter, "-I", "-c", _SENDER, str(pid), script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise AttachError(f"process {pid}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else interpreter}")
    end = time.monotonic() + seconds
    while not os.path.exists(answer):
        if time.monotonic() > end:  # the script stays: the program may still run it
            raise StateError(f"process {pid} has not begun in {seconds:g} s: its main thread is in a call that takes long")
        time.sleep(0.02)
    with open(answer, encoding="utf-8") as file:
        text = file.read()
    shutil.rmtree(folder, ignore_errors=True)
    if text:
        raise AttachError(f"process {pid}: {text}")
