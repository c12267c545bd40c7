"""``call_sites`` under ``pfs run`` has each call that failed or found nothing, as a library says that counts them itself."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import pfs
from tests.python.run.test_run import PFS, SOURCES, kept, own_folder, pytestmark, run
from tests.python.run.test_run_calls import compiled

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

Calls = Counter[tuple[str, int]]  # by operation and errno, 0 = nothing found


def calls_in(segment: Path) -> Calls:
    """What the table has, whichever column counts it."""
    with pfs.attach(str(segment)) as schema:
        frame = schema.table("call_sites")
    assert ((frame["COUNT_FAILED"] == 0) != (frame["COUNT_EMPTY"] == 0)).all()
    frame["COUNT"] = frame["COUNT_FAILED"] + frame["COUNT_EMPTY"]
    found: Calls = Counter()
    for operation, error, count in frame[["OPERATION", "ERRNO", "COUNT"]].fillna({"ERRNO": 0}).to_numpy().tolist():
        found[str(operation), int(error)] += int(count)
    return found


def truth(tmp_path: Path, program: Path) -> list[Calls]:
    """What each process of the program does, without pfs. Polls of its signal handler are not among it."""
    library = tmp_path / "count_failures.so"
    source = SOURCES / "count_failures.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True)
    with open(tmp_path / "counts", "w") as file:
        os.set_inheritable(file.fileno(), True)
        environment = os.environ | {"LD_PRELOAD": str(library), "COUNT_FAILURES": str(file.fileno())}
        handled = int(run(program, env=environment, close_fds=False, check=True).stdout)
    processes: dict[str, Calls] = {}
    for pid, operation, error, count in (line.split() for line in (tmp_path / "counts").read_text().splitlines()):
        processes.setdefault(pid, Counter())[operation, int(error)] += int(count)
    child, parent = processes.values()  # the child ends first
    parent["idle", 0] -= handled
    return [child, parent]


def without_handler(found: Calls, expected: Calls, handled: int) -> Calls:
    """Takes off what the handler polled. Where it interrupts pfs itself, its poll is a plain call."""
    polled = found["idle", 0] - expected["idle", 0]
    assert 0 < polled <= handled
    return found - Counter({("idle", 0): polled})


@contextmanager
def waiting(tmp_path: Path, program: Path) -> Iterator[tuple[int, Path, int]]:
    """A process that has done its calls, and waits: its pid, its segment, and how often its handler has polled."""
    command = [*PFS, "run", "--keep", "--no-report", "--", str(program), "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        handled = int(process.stdout.readline())
        (segment,) = (tmp_path / "segments").glob("*/*.pfs")
        pid = int(segment.stem)
        try:
            yield pid, segment, handled
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("options", [(), ("--all-on",)])
def test_L14_call_sites_agrees_with_a_counting_library(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Eight threads, a signal handler, a child of fork()."""
    program = compiled(tmp_path, "fails")
    child, parent = truth(tmp_path, program)
    done = run(*PFS, "run", "--keep", "--no-report", *options, "--", program, check=True)
    found = [calls_in(segment) for segment in (tmp_path / "segments").glob("*/*.pfs")]
    of_child, of_parent = sorted(found, key=Counter.total)
    assert [of_child, without_handler(of_parent, parent, int(done.stdout))] == [child, parent]


def test_L14_rows_have_place_error_and_time(tmp_path: Path) -> None:
    program = compiled(tmp_path, "fails")
    _, segment = kept(tmp_path, program, options=("--children", "none"))
    with pfs.attach(str(segment)) as schema:
        frame = schema.table("call_sites")
    assert not frame.duplicated(["EVENT_NAME", "OPERATION", "SOURCE", "ERRNO"]).any()
    assert frame["SOURCE"].str.fullmatch(r"fails\+0x[0-9a-f]+").all()
    opened = frame[frame["OPERATION"] == "open"].set_index("ERRNO")
    assert set(opened.index) == {errno.ENOENT, errno.EISDIR}
    assert opened.loc[errno.ENOENT, "OBJECT_NAME"] == "settings.conf"
    assert set(frame[frame["OPERATION"] == "stat"]["OBJECT_NAME"]) == {"modül"}
    events = frame[frame["EVENT_NAME"].str.startswith(("wait/io/file/", "wait/io/socket/"))]
    assert (events["SUM_TIMER_WAIT"] > 0).all()
    polls = frame[frame["OPERATION"] == "idle"]
    assert (polls["COUNT_EMPTY"] > 0).all()
    assert polls["ERRNO"].isna().all()
    assert len(polls) == 3  # the places of epoll_wait and poll, and that of the handler


def test_L14_truncate_begins_at_zero_and_a_killed_process_leaves_its_rows(tmp_path: Path) -> None:
    program = compiled(tmp_path, "fails")
    _, expected = truth(tmp_path, program)
    with waiting(tmp_path, program) as (pid, segment, handled):
        assert without_handler(calls_in(segment), expected, handled) == expected
        os.kill(pid, signal.SIGKILL)
        assert without_handler(calls_in(segment), expected, handled) == expected
    segment.unlink()
    with waiting(tmp_path, program) as (pid, segment, _):
        run(*PFS, "truncate", str(pid), "call_sites", check=True)
        assert calls_in(segment) == Counter()
