"""Arrays that grow while others look: who has attached before sees what was added since, and so does who changes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pfs
from pfs import _core
from tests.python._programs.fresh_process import compile_library
from tests.python._programs.segment_file import SegmentFile
from tests.python._programs.subject import subject

MUTEXES, FILES, THREADS = 50_000, 20_000, 300
_LIMITS = ",".join(
    f"performance_schema_max_{name}_instances={limit}" for name, limit in (("mutex", 70_000), ("file", 30_000), ("thread", 400))
)
_MUTEXES = f"""
locks = [pfs.Lock("app/grown") for _ in range({MUTEXES})]
for lock in locks:
    with lock: pass
"""
_FILES = f"""
import shutil, tempfile
folder = tempfile.mkdtemp()
for i in range({FILES}):
    pfs.open(f"{{folder}}/{{i}}", "wb", name="app/grown").close()
shutil.rmtree(folder)
"""
_THREADS = f"""
import threading
started, end = threading.Barrier({THREADS} + 1), threading.Event()
def work():
    with locks[0]: pass
    started.wait()
    end.wait()
for _ in range({THREADS}): threading.Thread(target=work, daemon=True).start()
started.wait()
"""


def extents(path: Path) -> dict[str, int]:
    """How many extents the arrays have that grow here. Small arrays have one for all their elements."""
    counts = {}
    with SegmentFile(path) as file:
        for name in ("Instances", "Files", "Threads", "Names"):
            array = file.array(name)
            if array.first_extent < array.capacity * array.stride:
                counts[name] = sum(array.first_extent << i >> 1 < array.mapped for i in range(1, 20)) + 1
    assert len(counts) >= 3
    return counts


def counted(segment: _core.Segment) -> tuple[int, int, int, int]:
    """Mutexes, files and threads of the program, and rows that were left out."""
    mutexes = _core.rows("mutex_instances", ["NAME"], segment).count(("wait/synch/mutex/app/grown",))
    files = _core.rows("file_instances", ["EVENT_NAME"], segment).count(("wait/io/file/app/grown",))
    threads = len(_core.rows("threads", ["THREAD_ID"], segment))
    status = dict(_core.rows("global_status", None, segment))
    return mutexes, files, threads, int(status["Performance_schema_rows_skipped"])


def test_readers_that_came_before_see_all_that_grew(tmp_path: Path) -> None:
    with subject(tmp_path, PFS_OPTIONS=_LIMITS) as program:
        program.do("first = pfs.Lock('app/first')\nwith first: pass")
        segment = _core.Segment(str(program.path))
        assert counted(segment)[0] == 0
        before = extents(program.path)
        seen = 0
        for step in (_MUTEXES, _FILES, _THREADS):
            program.send(step)
            while not program.is_done(0.01):  # while they are made: never fewer than there were
                mutexes = _core.rows("mutex_instances", ["NAME"], segment).count(("wait/synch/mutex/app/grown",))
                assert seen <= mutexes <= MUTEXES
                seen = mutexes
        assert all(extents(program.path)[name] > before[name] for name in before)
        assert counted(segment) == counted(_core.Segment(str(program.path)))
        mutexes, files, threads, skipped = counted(segment)
        assert (mutexes, files, skipped) == (MUTEXES, FILES, 0)
        assert threads >= THREADS + 1
        by_instance = _core.rows("events_waits_summary_by_instance", ["EVENT_NAME", "COUNT_STAR"], segment)
        counts = [count for name, count in by_instance if name == "wait/synch/mutex/app/grown"]
        assert sum(counts) == MUTEXES + THREADS
        assert min(counts) == 1


def test_a_changer_that_came_before_changes_all_that_grew(tmp_path: Path) -> None:
    with subject(tmp_path, PFS_OPTIONS=_LIMITS) as program:
        program.do("first = pfs.Lock('app/first')\nwith first: pass")
        with pfs.attach(program.path, write=True) as schema:
            schema.truncate("events_waits_summary_by_instance")  # adopts the segment
            before = extents(program.path)
            for step in (_MUTEXES, _FILES, _THREADS):
                program.do(step)
            assert all(extents(program.path)[name] > before[name] for name in before)
            assert schema.threads.update(history=False) > THREADS
            program.do("assert set(pfs.table('threads')['HISTORY']) == {'NO'}")
            assert schema.setup_instruments.update("wait/%/app/grown", enabled=False) == 2
            program.do("with locks[-1]: pass")
            assert grown(schema) == MUTEXES + THREADS
            assert schema.setup_instruments.update("wait/%/app/grown", enabled=True) == 2
            program.do("for lock in locks:\n    with lock: pass")
            assert grown(schema) == 2 * MUTEXES + THREADS
            schema.truncate("events_waits_summary_by_instance")
            assert grown(schema) == 0


def test_a_changer_comes_while_arrays_grow(tmp_path: Path) -> None:
    """The file grows after each time that the changer asked how long it is: it maps what is there, and changes it all."""
    with subject(tmp_path, PFS_OPTIONS=_LIMITS) as program:
        program.do("locks = [pfs.Lock('app/grown')]")
        changes = "import sys; from pfs import _core; _core.adopt(sys.argv[1])\n"
        changes += "where, values = [('NAME', '%/app/grown', True)], [('ENABLED', 'NO')]\n"
        changes += "_core.in_outsider_section(lambda: print(_core.update('setup_instruments', where, values)))"
        with subprocess.Popen(
            [sys.executable, "-c", changes, program.path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": compile_library("stops.c")},
        ) as changer:
            steps = [10_000, 50_000]  # the second one is more than the pool at the end of the file
            stops = grew = 0
            try:
                while os.WIFSTOPPED(os.waitpid(changer.pid, os.WUNTRACED)[1]):
                    before = extents(program.path)
                    if steps:
                        program.do(f"locks += [pfs.Lock('app/grown') for _ in range({steps.pop(0)})]")
                    grew += extents(program.path) != before
                    stops += 1
                    os.kill(changer.pid, signal.SIGCONT)
            except BaseException:
                changer.kill()
                raise
            assert changer.stdout is not None
            assert changer.stderr is not None
            assert (changer.stdout.read(), changer.stderr.read()) == ("1\n", "")
            assert stops >= 2
            assert grew >= 2
        program.do("for lock in locks:\n    with lock: pass")
        program.do("counts = pfs.table('events_waits_summary_by_instance', ['EVENT_NAME', 'COUNT_STAR'])")
        program.do("assert set(counts['COUNT_STAR'][counts['EVENT_NAME'] == 'wait/synch/mutex/app/grown']) <= {0}, counts")


def grown(schema: pfs.Schema) -> int:
    """Events of the mutexes."""
    frame = schema.table("events_waits_summary_by_instance", ["EVENT_NAME", "COUNT_STAR"])
    return int(frame.loc[frame["EVENT_NAME"] == "wait/synch/mutex/app/grown", "COUNT_STAR"].sum())
