"""Changes the setup of another process, and truncates its tables.

A small process, the changer, adopts the segment and runs the compiled code that a process uses for itself. So a damaged or
malicious segment cannot harm the caller. The changer is an isolated Python: it looks for modules neither in the current directory
nor where the environment says. A changer of root first becomes the owner of the segment, and then loads this package. The program
takes no part and may hang. The changer and the program wait for each other only while the program creates an object of pfs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from pfs import _core, errors
from pfs._process import owners, processes
from pfs.errors import AttachError, Error, StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

# The isolated Python runs this. Root changes the segment of another user as that user, because its content cannot be trusted.
# Root becomes that user before it loads anything, unless that user cannot read Python or this package. Modules of the standard
# library win over modules beside the package.
_START = """
import os, sys
path, library, *folders = sys.argv[1:]
try:
    owner = os.stat(path, follow_symlinks=False).st_uid
except OSError:
    owner = os.geteuid()  # adopting it says what is wrong
def load():
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    import pfs
    if library not in pfs.__path__:  # a development build
        pfs.__path__.append(library)
    from pfs._process import remote
    return remote.main
if os.geteuid() == 0 and owner != 0:
    import pwd
    try:
        group = pwd.getpwuid(owner).pw_gid
    except KeyError:
        group = 65534  # nobody's
    os.setgroups([])
    os.setegid(group)
    os.seteuid(owner)
    is_readable = all(os.access(file, os.R_OK, effective_ids=True) for file in (os.__file__, library))
    os.seteuid(0)
    if not is_readable:
        load()
    os.setgid(group)
    os.setuid(owner)
sys.exit(load()(path))
"""

_SECONDS = 30.0  # longer than a change can wait for both locks of the cold path
_OPERATIONS: dict[str, Callable[..., object]] = {
    "update": _core.update,
    "insert": _core.insert,
    "delete": _core.delete,
    "truncate": _core.truncate,
}


class Remote:
    """Controls a process that changes the segment at `path`. The process starts with the first change.

    THREADS: the caller holds a lock around ``call``.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._process: subprocess.Popen[str] | None = None

    def call(self, operation: str, *arguments: object) -> Any:
        """Runs one of ``_core.update/insert/delete/truncate`` with these arguments on the segment, and returns what it returns.

        Raises:
            Error: the error that the operation raises in the process itself.
            StateError: the program does not leave its cold path (it is stopped there), or another changer holds it; nothing was
                changed.
            AttachError: the segment cannot be adopted: no permission to write, another version, damage.
        """
        if self._process is None:
            self._process = self._start()
        answer = self._ask(self._process, {"operation": operation, "arguments": arguments})
        if "error" in answer:
            known = getattr(errors, str(answer["error"]), Error)
            raise (known if isinstance(known, type) and issubclass(known, Error) else Error)(str(answer["message"]))
        return answer.get("result")

    def close(self) -> None:
        """Ends the process. Another ``call`` starts a new one."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[str]:
        _refuse_doubtful(self.path)
        # It has a session of its own, because Ctrl-C in the terminal is meant for the caller.
        process = subprocess.Popen(
            _command(self.path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            start_new_session=True,
        )
        answer = self._ask(process, None)
        if "error" in answer:
            self._process = process
            self.close()
            raise AttachError(str(answer["message"]))
        return process

    def _ask(self, process: subprocess.Popen[str], question: object) -> dict[str, Any]:
        from threading import Timer

        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(_SECONDS, process.kill)
        timer.start()
        try:
            if question is not None:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self._process = process
            self.close()
            ended = process.returncode
            why = (
                f"it was ended by {signal.Signals(-ended).name}" if ended is not None and ended < 0 else f"it ended with {ended}"
            )
            raise StateError(f"the process that changes {self.path} gave no answer: {why}; the segment may be damaged")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer


def _command(path: str) -> list[str]:
    if not sys.executable:
        raise StateError(
            f"{path} cannot be changed: this Python does not know its own program (sys.executable), which makes changes"
        )
    folders = dict.fromkeys(os.path.dirname(os.path.abspath(folder)) for folder in sys.modules["pfs"].__path__)
    library = os.path.dirname(os.path.abspath(_core.__file__))
    return [sys.executable, "-I", "-S", "-c", _START, os.path.abspath(path), library, *folders]


def _refuse_doubtful(path: str) -> None:
    """Raises AttachError if another user may have made the file."""
    found = processes.look(path)
    if found is None:
        return  # _core.adopt says what is wrong
    if found.doubt:
        raise AttachError(f"{path} is not changed: {found.doubt}")
    if found.state == "unknown" and os.geteuid() not in (0, found.info.st_uid):
        raise AttachError(
            f"{path} is not changed: its process cannot be found from here, and it belongs to {owners.user(found.info.st_uid)}: "
            "only that user, or root, may change it"
        )


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def main(path: str) -> int:
    """Adopts the segment, then answers one question per line until the input ends. It runs in the changer: see _START."""
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]

    def answer(**fields: object) -> None:
        print(json.dumps(fields), flush=True)

    try:
        _refuse_doubtful(path)
        _core.adopt(path)
    except (Error, OSError) as error:
        answer(error=type(error).__name__, message=str(error))
        return 1
    answer(result=None)
    for line in sys.stdin:
        question = json.loads(line)
        operation = _OPERATIONS[question["operation"]]
        arguments = [list(map(_tuples, value)) if isinstance(value, list) else value for value in question["arguments"]]
        try:
            answer(result=_core.in_outsider_section(lambda: operation(*arguments)))  # noqa: B023
        except Error as error:
            answer(error=type(error).__name__, message=str(error))
    return 0
