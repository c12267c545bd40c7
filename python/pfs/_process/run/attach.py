"""Starts the Python layer of ``pfs run`` in a program that runs already, by ``sys.remote_exec`` of CPython 3.14."""

from __future__ import annotations

import glob
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pfs._base.installed import PACKAGE
from pfs._process import owners
from pfs.errors import AttachError, StateError

__all__ = ["attach_run", "core_library"]

_MOST_TEXT = 1 << 16  # of an answer: the program is not trusted
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
        file = os.open({answer!r}, os.O_WRONLY)  # pfs has made it, in a folder that only pfs writes to
        os.write(file, text.encode("utf-8", "replace") + b"\\0")
        os.close(file)
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
    found = sorted(glob.glob(os.path.join(PACKAGE, "lib", "libperfschema.so.*")))
    if not found:
        raise StateError(f"there is no libperfschema.so in {PACKAGE}/lib: this package was built without the C library")
    return found[0]


def attach_run(pid: int, parts: Sequence[str], seconds: float) -> None:
    """Starts the layer in a program, and waits until it has begun.

    Root runs the program's interpreter as the program's user: the file, and all that it imports, may be that user's.

    Raises:
        AttachError: there is no such program, it is no CPython 3.14, or it must not be touched.
        StateError: it has not begun in that time.
    """
    library = core_library()
    interpreter, user, group = _interpreter(pid)
    end = time.monotonic() + seconds
    with _folder(user) as (folder, answer):
        script = os.path.join(folder, "script.py")
        with open(script, "x", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)  # the program reads it
            auto = os.path.join(PACKAGE, "_auto")
            file.write(_SCRIPT.format(folder=auto, library=library, parts=",".join(parts), answer=os.path.join(folder, "answer")))
        problem = _sent(interpreter, user, group, ["-I", "-c", _SENDER, str(pid), script], end)
        if problem is not None:
            raise AttachError(f"process {pid}: {problem or interpreter}")
        while not (text := os.pread(answer, _MOST_TEXT, 0)).endswith(b"\0") and len(text) < _MOST_TEXT:
            if time.monotonic() > end:
                raise StateError(f"process {pid} has not begun in {seconds:g} s: its main thread is in a call that takes long")
            time.sleep(0.02)
    if said := text.rstrip(b"\0").decode("utf-8", "replace"):
        raise AttachError(f"process {pid}: {said}")


def _interpreter(pid: int) -> tuple[str, int, int]:
    """Returns the Python that a process runs, and the user and the group that may run it.

    Raises:
        AttachError: there is no such process, it runs no Python, or its file is not trusted.
    """
    try:
        process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # stays the same process
    except OSError as error:
        raise AttachError(f"process {pid}: {error.strerror}") from None
    try:
        interpreter = os.readlink("exe", dir_fd=process)
        there = os.stat("exe", dir_fd=process)
        uids, gids = owners.uids_of(pid), owners.gids_of(pid)
        os.stat("exe", dir_fd=process)  # if it has ended, the number may be another process's
    except OSError as error:
        raise AttachError(f"process {pid}: {error.strerror}") from None
    finally:
        os.close(process)
    if not os.path.basename(interpreter).startswith("python"):
        raise AttachError(f"process {pid} runs {interpreter}, which is no Python")
    own = os.geteuid()
    if own != 0:
        return interpreter, own, os.getegid()  # the kernel decides whether it may touch the process
    try:
        here = os.stat(interpreter)
    except OSError:
        here = None
    if here is None or (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        raise AttachError(f"process {pid} runs {interpreter}, which is another file here: call pfs where it is the same file")
    if len(uids) != 1 or len(gids) != 1:
        raise AttachError(f"process {pid} has the rights of several users: legal is a process of one user and group")
    [user], [group] = uids, gids
    if user == 0 and here.st_uid != 0:
        whose = owners.user(here.st_uid)
        raise AttachError(f"process {pid} runs {interpreter}, which belongs to {whose}: root runs only programs of root")
    return interpreter, user, group


@contextmanager
def _folder(user: int) -> Iterator[tuple[str, int]]:
    """Makes a folder that only this process writes to, with a file that `user` may write. Yields its name, and the open file.

    The folder stays if the program may still run the script.
    """
    folder = tempfile.mkdtemp(prefix="pfs-attach-")
    answer = os.open(os.path.join(folder, "answer"), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if user != os.geteuid():
            os.chmod(folder, 0o711)
            os.fchown(answer, user, -1)
        yield folder, answer
    except StateError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(answer)


def _sent(interpreter: str, user: int, group: int, arguments: Sequence[str], end: float) -> str | None:
    """Runs the interpreter as `user`, until `end` at most. Returns the last line of its complaints, or None if it succeeds.

    Another user's process gets no environment, terminal or open file of root.
    """
    others: dict[str, Any] = {}
    if user != os.geteuid():
        others = {"user": user, "group": group, "extra_groups": [], "env": {}, "cwd": "/"}
    try:
        child = subprocess.Popen(
            [interpreter, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **others,
        )
    except OSError as error:
        return f"{interpreter} cannot be run: {error.strerror}"
    assert child.stderr is not None
    text = b""
    with child.stderr as stream:
        while len(text) < _MOST_TEXT and select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (piece := os.read(stream.fileno(), 4096)):
                break
            text += piece
    try:
        child.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return f"{interpreter} gave no answer"
    if child.returncode == 0:
        return None
    lines = text.decode("utf-8", "backslashreplace").strip().splitlines()
    return lines[-1] if lines else ""
