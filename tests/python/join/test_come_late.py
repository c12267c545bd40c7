"""libperfschema-run.so comes into a program that runs: the program loads it itself. What it counts is what the program does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pfs
from tests.python._programs.subject import clean_environment
from tests.python.run.test_run import LIBRARY, ROOT, pytestmark

__all__ = ["pytestmark"]  # test_run's mark holds here, too

SOURCES = ROOT / "tests/programs/joined"
THREADS = 3  # of told.c


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the test programs, compiled without any part of pfs."""
    folder = tmp_path_factory.mktemp("programs")
    for name, flags in {
        "told": ["-Wl,-z,now"],  # all calls are bound, and the table of them is constant
        "lazy": ["-Wl,-z,lazy", "-no-pie"],
    }.items():
        subprocess.run(["cc", "-O1", "-g", *flags, "-o", folder / name, SOURCES / "told.c", "-lpthread"], check=True)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "plugin.so", SOURCES / "plugin.c"], check=True)
    return folder


class Told:
    """A program that does what it is told, and says the result of each."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [program, folder / "data"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment(folder)
        )
        self.pid = self.process.pid

    def do(self, line: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer.strip().lstrip("-").isdigit(), answer
        return int(answer)

    def join(self, **settings: str) -> int:
        told = {"PFS_DIR": str(self.folder), "PFS_KEEP": "1", "PFS_RUN_CHILDREN": "fork"} | settings
        return self.do(f"join {LIBRARY} " + " ".join(f"{name}={value}" for name, value in told.items()))


@contextmanager
def told(program: Path, folder: Path) -> Iterator[Told]:
    subject = Told(program, folder)
    try:
        yield subject
        subject.process.communicate("exit\n", timeout=60)
        assert subject.process.returncode == 0
    finally:
        subject.process.kill()
        subject.process.communicate()


def counts(pid: int, folder: Path) -> dict[str, int]:
    """Returns the events of a process by the kind of instrument: "mutex/told" -> 30."""
    found: dict[str, int] = {}
    with pfs.attach(folder / f"{pid}.pfs") as process:
        table = process.table("events_waits_summary_global_by_event_name")
        for name, count in zip(table.EVENT_NAME, table.COUNT_STAR, strict=True):
            kind = "/".join(name.split("/")[2:4])
            found[kind] = found.get(kind, 0) + count
    return {kind: count for kind, count in found.items() if count}


@pytest.mark.parametrize("kind", ["told", "lazy"])
def test_what_it_does_from_the_join_to_the_leave_is_counted(kind: str, programs: Path, tmp_path: Path) -> None:
    with told(programs / kind, tmp_path) as program:
        program.do("work 10")
        assert program.join() == 0
        program.do("work 100")
        assert program.do(f"plugin {programs}/plugin.so 55") == 55
        seen = counts(program.pid, tmp_path)
        assert seen[f"mutex/{kind}"] == seen[f"rwlock/{kind}"] == THREADS * 100
        assert seen["mutex/plugin"] == 55
        files = pfs.attach(tmp_path / f"{program.pid}.pfs").table("file_summary_by_instance")
        data = files[files.FILE_NAME.str.endswith("/data")]
        assert (data.COUNT_READ.tolist(), data.COUNT_WRITE.tolist()) == ([0], [THREADS * 100])  # it was open before
        names = pfs.attach(tmp_path / f"{program.pid}.pfs").table("threads").NAME.tolist()
        assert "thread/native/early" in names  # it began before the join
        assert program.do("leave") == 0
        left = counts(program.pid, tmp_path)
        program.do("work 100")
        assert program.do(f"plugin {programs}/plugin.so 5") == 5
        waits = f"cond/{kind}"  # waits that were under way at the leave, which end
        now = counts(program.pid, tmp_path)
        assert now[waits] - left[waits] <= THREADS + 1
        assert {**now, waits: 0} == {**left, waits: 0}


def test_it_joins_and_leaves_again(programs: Path, tmp_path: Path) -> None:
    with told(programs / "told", tmp_path) as program:
        for _ in range(20):
            assert program.join() == 0
            program.do("work 5")
            assert program.do("leave") == 0
            program.do("work 5")
        assert counts(program.pid, tmp_path)["mutex/told"] == 20 * THREADS * 5


def test_a_forked_child_is_recorded_as_the_settings_say(programs: Path, tmp_path: Path) -> None:
    for children, recorded in {"fork": [30], "none": []}.items():
        folder = tmp_path / children
        folder.mkdir()
        with told(programs / "told", folder) as program:
            assert program.join(PFS_RUN_CHILDREN=children) == 0
            assert program.do("fork 30") == 9  # SIGKILL, by itself
            program.do("leave")
            assert program.do("fork 30") == 9
            others = [int(path.stem) for path in folder.glob("*.pfs") if int(path.stem) != program.pid]
            assert [count for pid in others if (count := counts(pid, folder).get("mutex/told"))] == recorded


def test_a_process_without_a_segment_runs_on(programs: Path, tmp_path: Path) -> None:
    with told(programs / "told", tmp_path) as program:
        assert program.join(PFS_OPTIONS="performance_schema=OFF") == 1
        program.do("work 10")
    assert list(tmp_path.glob("*.pfs")) == []


def test_a_preloaded_library_leaves_and_joins_too(programs: Path, tmp_path: Path) -> None:
    """``pfs leave`` stops the recording of a program that ``pfs run`` has started."""
    environment = clean_environment(tmp_path, LD_PRELOAD=str(LIBRARY), PFS_KEEP="1")
    lines = f"work 10\njoin {LIBRARY}\nleave\nwork 100\njoin {LIBRARY}\nwork 5\nexit\n"
    done = subprocess.run(
        [programs / "told"], input=lines, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["0", "2", "0", "0", "0", "0"]  # 2: it is recorded already
    (segment,) = tmp_path.glob("*.pfs")
    assert counts(int(segment.stem), tmp_path)["mutex/told"] == THREADS * 15
