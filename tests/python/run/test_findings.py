"""Each rule finds the fault of its programs first, at its line, and nothing when they are mended. Ordinary programs have none.

``tests/programs/faults/NAME`` has the fault, or with the argument "mended" has it not. A comment FAULT marks the line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._process.findings.ask import of_sources
from pfs._process.findings.facts import Facts, kind_of
from pfs._process.findings.find import Finding, find, text_of
from pfs._process.findings.limits import LEAST, LIMITS, MOST, SHARE
from pfs._process.findings.queues import Wait, add_queues
from pfs._process.findings.rule import Rule
from pfs._process.findings.rules import RULES
from tests.python.run.test_run import PFS, own_folder, pytestmark

__all__ = ["own_folder", "pytestmark"]

PROGRAMS = Path(__file__).parents[2] / "programs"
FAULTS = {path.stem: path for path in (PROGRAMS / "faults").iterdir()}
FREE_THREADED = "python3.14t"
NEED = {"slow_names": "root", "round_trips": "redis-py", "shared_object": FREE_THREADED, "gc_pauses": FREE_THREADED}
WHOLE: dict[str, float] = defaultdict(lambda: 1.0)  # scales of times and counts: the history has lost nothing
CASES = [
    pytest.param(rule, FAULTS[name], id=name, marks=[pytest.mark.needs(NEED[name])] if name in NEED else [])
    for rule in RULES
    for name in rule.programs
]
# A wait for the GIL has no line, for another thread computes. No line of a shell is known.
WITHOUT_LINE = {"gil", "shell_each"}
# What the sentence says of the fault, beside its place.
SAYS = {
    "own_files": r"own-\d\.log and [123] more: .*write",
    "lock_held": "its holder computes$",
    "written_outside": "its holder computes$",
    "process_each": "60 processes such as basename",
    "shell_each": "8[0-2] processes such as cut",
    "busy_reads": "reads find nothing",
    "refused": "40 of ",
    "sleep_under_lock": r"its holder sleeps at sleep_under_lock\.c:10$",
}
# Its threads seldom meet while others have the processors: it is silent in one of ten runs then.
NEEDS_PROCESSORS = {"hot_lock"}
NEEDS_A_DISK = {"io_under_lock", "commit_each", "commit_each_later", "fsync_each"}  # programs: they sync


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("findings")


def built(source: Path, folder: Path) -> list[str]:
    if source.suffix == ".py":
        return [FREE_THREADED if NEED.get(source.stem) == FREE_THREADED else sys.executable, str(source)]
    if source.suffix == ".sh":
        return ["sh", str(source)]  # no line of it is known
    program = folder / source.stem
    if not program.exists():
        subprocess.run(["cc", "-O1", "-g", "-fopenmp", "-o", program, source, "-lpthread"], check=True)
    return [str(program)]


def reported(command: list[str], where: Path) -> dict[str, Any]:
    where.mkdir(exist_ok=True)
    report = where / "report.json"
    subprocess.run([*PFS, "run", "--json", "-o", report, "--", *command], cwd=where, check=True, timeout=60)
    read: dict[str, Any] = json.loads(report.read_text())
    return read


def found_in(command: list[str], where: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reported(command, where)["findings"]
    return found


def place_of(source: Path) -> str | None:
    """Returns the place that the finding of a program has: its line with the comment FAULT."""
    if source.stem in WITHOUT_LINE:
        return None
    line = next(number for number, text in enumerate(source.read_text().splitlines(), 1) if "FAULT" in text)
    return f"{source.name}:{line}"


def microseconds_of_sync(folder: Path) -> float:
    with open(folder / "synced", "w") as file:
        begun = time.perf_counter()
        for _ in range(5):
            file.write("x")
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - begun) / 5 * 1e6


@pytest.mark.parametrize(("rule", "source"), CASES)
def test_the_fault_is_found_first_at_its_line(rule: Rule, source: Path, folder: Path) -> None:
    if source.stem in NEEDS_A_DISK and microseconds_of_sync(folder) < 300:
        pytest.skip("fsync takes no time in this folder")
    for _ in range(3 if source.stem in NEEDS_PROCESSORS else 1):
        found = found_in(built(source, folder), folder / source.stem.join("w_"))
        if found:
            break
    assert [one["name"] for one in found][:1] == [rule.name], found
    assert found[0]["place"] == place_of(source)
    assert re.search(SAYS.get(source.stem, ""), found[0]["sentence"])
    assert found[0]["is_bound"] == rule.is_bound
    assert found[0]["time"] >= LEAST


@pytest.mark.parametrize(("rule", "source"), CASES)
def test_nothing_is_found_when_it_is_mended(rule: Rule, source: Path, folder: Path) -> None:
    assert found_in([*built(source, folder), "mended"], folder / source.stem.join("m_")) == []


@pytest.mark.alone
@pytest.mark.parametrize(("rule", "source"), [case for case in CASES if case.values[0].is_bound])  # type: ignore[union-attr]
def test_mending_saves_no_more_than_at_most(rule: Rule, source: Path, folder: Path) -> None:
    command = built(source, folder)
    with_fault = [reported(command, folder / "with_fault") for _ in range(3)]
    mended = [reported([*command, "mended"], folder / "mended") for _ in range(3)]
    most = max(found["time"] for report in with_fault for found in report["findings"] if found["name"] == rule.name)
    walls, walls_mended = ([report["took"]["wall"] for report in reports] for reports in (with_fault, mended))
    assert min(walls) - min(walls_mended) <= most + 0.1 * min(walls)


def test_every_rule_has_a_program_and_every_program_a_rule() -> None:
    assert all(rule.programs for rule in RULES)
    assert sorted(name for rule in RULES for name in rule.programs) == sorted(FAULTS)
    names = {rule.name for rule in RULES}
    assert all(set(rule.covers) <= names for rule in RULES)


def test_every_rule_has_a_program_on_the_page_of_both_ways() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/before_and_after.md").read_text()
    for rule in RULES:
        part = page.partition(f"\n## {rule.name}\n")[2].partition("\n## ")[0]
        assert "Fix first" in part, rule.name
        assert f"[{rule.name}]\n" in part, rule.name


def ordinary() -> Iterator[Any]:
    for source in sorted((PROGRAMS / "ordinary").iterdir()):
        yield pytest.param(source, id=source.stem)
    here = Path(__file__).parents[3]
    commands: dict[str, list[str]] = {
        "true": ["true"],
        "sleep": ["sleep", "0.2"],
        "find": ["find", str(here / "docs"), "-name", "*.md"],
        "dd": ["dd", "if=/dev/zero", "of=zeros", "bs=64k", "count=200"],
        "pipeline": ["sh", "-c", f"cat {here}/docs/reference/*.md | sort | uniq -c | gzip > sorted.gz"],
        "tar": ["tar", "cf", "tree.tar", str(here / "docs"), str(here / "cpp")],
        "compile": ["cc", "-c", "-o", "forks.o", str(PROGRAMS / "forks.c"), f"-I{here}/cpp/include"],
        "json": [sys.executable, "-c", "import json; json.loads(json.dumps(list(range(200000))))"],
    }
    for name, command in commands.items():
        yield pytest.param(command, id=name)


@pytest.mark.parametrize("what", list(ordinary()))
def test_ordinary_programs_have_no_finding(what: Path | list[str], folder: Path) -> None:
    command = built(what, folder) if isinstance(what, Path) else what
    where = folder / f"o_{what.stem if isinstance(what, Path) else what[0].rpartition('/')[2]}"
    assert found_in(command, where) == []


def sleeping(picoseconds: int, whole: int) -> Facts:
    """A process that sleeps ten times."""
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'app', 0, ?, ?)", (whole, whole))
    columns = "p, thread, event, name, kind, t0, t1, dt"
    for number in range(10):
        row = (0, 1, number, "wait/system/app/sleep-main", "sleep", number, number + 1, picoseconds // 10)
        facts.db.execute(f"insert into wait({columns}) values({', '.join('?' * len(row))})", row)
    return facts


@pytest.mark.parametrize(
    ("picoseconds", "whole", "is_found"),
    [
        (LEAST, LEAST, True),
        (LEAST - 10, LEAST, False),
        (int(SHARE * 10**12), 10**12, True),
        (int(SHARE * 10**12) - 10, 10**12, False),
    ],
)
def test_a_small_fault_is_no_finding(picoseconds: int, whole: int, is_found: bool) -> None:
    facts = sleeping(picoseconds, whole)
    assert [one.name for one in find(facts, whole)] == ["sleeps"] * is_found


def test_time_in_which_no_thread_does_anything_hides_no_fault() -> None:
    """The program sleeps for 0.9 s in a second, or waits for a processor: a fault of 20 ms is one."""
    facts = sleeping(20 * 10**9, 10**12)
    assert find(facts, 10**12) == []
    facts.active[0] = 10**11
    assert [(one.name, one.time, one.whole) for one in find(facts, 10**12)] == [("sleeps", 20 * 10**9, 10**12)]


def test_a_rule_that_another_one_covers_is_silent() -> None:
    facts = sleeping(2 * LEAST, 10**11)
    assert [one.name for one in find(facts, 10**11)] == ["sleeps"]
    facts.db.execute("insert into circle values(0, 1, null, ?)", (LEAST,))
    assert [one.name for one in find(facts, 10**11)] == ["deadlock"]


@pytest.mark.parametrize(("executed", "is_found"), [(1, True), (2, True), (3, False)])
def test_a_statement_of_a_server_that_is_prepared_again(executed: int, is_found: bool) -> None:
    """The texts of libpq and MySQL are known at prepare. The history has half of them: the sums are twice as large."""
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'app', 0, ?, ?)", (10**11, 10**11))
    columns = "p, thread, event, name, place, text, t0, dt"
    kinds = ("prepare", *["execute"] * executed) * 20
    for number, kind in enumerate(kinds):
        row = (0, 1, number, f"statement/libpq/{kind}", None, "SELECT ?", number, 10**9)
        facts.db.execute(f"insert into statement({columns}) values({', '.join('?' * len(row))})", row)
    facts.db.execute("insert into sent values(0, 'statement/libpq/prepare', 40, ?)", (40 * 10**9,))
    found = [one for one in find(facts, 10**11) if one.name == "prepared_again"]
    assert [(one.time, one.sentence) for one in found] == [(40 * 10**9, "SELECT ?: prepared 40 times")] * is_found


WAIT_FOR_CHILD = """
insert into wait(p, thread, event, name, kind, t0, t1, dt) values(0, 1, ?1, 'wait/system/sh/child', 'child', ?2, ?2 + ?3, ?3)"""


def children(commands: list[str], picoseconds: int) -> Facts:
    """A process that starts others, one after the other."""
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'sh all.sh', 0, ?1, ?1)", (10**12,))
    for number, command in enumerate(commands, 1):
        began = number * picoseconds
        row = (number, command, began // 10**6, picoseconds)
        facts.db.execute("insert into process values(?1, ?1 + 1, 1, ?2, ?3, ?4, ?4)", row)
        facts.db.execute(WAIT_FOR_CHILD, (number, began, picoseconds))
    sums = (len(commands), len(commands) * picoseconds)
    facts.db.execute("insert into total values(0, 'wait/system/sh/child', 'child', ?, ?, null, 0)", sums)
    return facts


@pytest.mark.parametrize(
    ("commands", "is_found"),
    [
        ([f"/usr/bin/convert {number}.png" for number in range(6)], True),
        ([f"python resize.py {number}" for number in range(6)], True),
        ([f"git {word} -q" for word in ("init", "add", "commit", "gc", "log", "status")], False),
        ([f"python {step}.py" for step in ("load", "clean", "train", "test", "plot", "send")], False),
        ([f'sh -c "/usr/bin/convert" {number}.png' for number in range(6)], True),
        ([f"sh -c {word} -q" for word in ("init", "load", "check", "clean", "start", "stop")], False),
        (["sh all.sh"] * 6, False),
        ([f"python -m {step}" for step in ("load", "clean", "train", "test", "plot", "send")], False),
    ],
)
def test_steps_that_differ_are_not_for_all_processors(commands: list[str], is_found: bool) -> None:
    found = find(children(commands, 50 * 10**9), 10**12)
    assert [one.name for one in found] == ["child_wait"] * is_found


def test_waits_for_long_processes_are_not_for_many_short_ones() -> None:
    """A script of 30 short processes waits for a second in between."""
    facts = children([f"cut -f{number}" for number in range(30)], 3 * 10**9)
    facts.db.execute(WAIT_FOR_CHILD, (99, 0, 5 * 10**11))
    facts.db.execute("update total set n = n + 1, dt = dt + ?", (5 * 10**11,))
    assert [(one.name, one.time) for one in find(facts, 10**12)] == [("process_each", 90 * 10**9)]


def test_the_start_of_a_process_is_no_process_of_its_own() -> None:
    """posix_spawn() waits until the child runs its program, and is an event, too."""
    facts = children([f"cut -f{number}" for number in range(30)], 3 * 10**9)
    columns = "p, thread, event, name, kind, op, t0, t1, dt"
    for number in range(30):
        row = (0, 1, 100 + number, "wait/system/sh/start", "child", "create", number, number + 1, 1)
        facts.db.execute(f"insert into wait({columns}) values({', '.join('?' * len(row))})", row)
    facts.db.execute("insert into total values(0, 'wait/system/sh/start', 'child', 30, 30, null, 0)")
    (found,) = find(facts, 10**12)
    assert found.sentence.startswith("30 processes such as cut")


def test_processes_whose_clocks_differ_a_little_run_one_after_the_other() -> None:
    facts = children([f"/usr/bin/convert {number}.png" for number in range(6)], 50 * 10**9)
    facts.db.execute("update process set began = began - p * 2500 where p > 0")
    assert [one.name for one in find(facts, 10**12)] == ["child_wait"]
    facts.db.execute("update process set began = 0 where p > 0")
    assert find(facts, 10**12) == []


def test_children_together_take_as_long_as_the_longest() -> None:
    """The first of six takes 500 ms, and each is waited for 10 ms longer than it is seen."""
    facts = children([f"/usr/bin/convert {number}.png" for number in range(6)], 50 * 10**9)
    facts.db.execute("update process set span = 500 * 1000000000, began = began - 450000 where p = 1")
    facts.db.execute("update wait set t0 = t0 - 460 * 1000000000, dt = 510 * 1000000000 where event = 1")
    facts.db.execute("update wait set t1 = t1 + 10 * 1000000000, dt = dt + 10 * 1000000000, scale = 1 where t0 > 0")
    facts.db.execute("update wait set scale = 1")
    assert [(one.name, one.time, one.is_bound) for one in find(facts, 10**12)] == [("child_wait", 310 * 10**9, True)]


def waiting(at: list[tuple[int, int, int, int]], **columns: Any) -> Facts:
    """Waits (p, thread, from, to) of processes, in milliseconds. Process p begins p * 100 ms after the first one."""
    facts = Facts()
    for p in {p for p, *_ in at}:
        facts.db.execute("insert into process values(?1, ?1 + 1, null, 'app', ?2, ?3, ?3)", (p, 10**15 + p * 10**5, 10**12))
    for event, (p, thread, t0, t1) in enumerate(at):
        row = {"p": p, "thread": thread, "event": event, "t0": t0 * 10**9, "t1": t1 * 10**9, "dt": (t1 - t0) * 10**9}
        row |= {"scale": 1, "more": 1} | columns
        facts.db.execute(f"insert into wait({', '.join(row)}) values({', '.join('?' * len(row))})", list(row.values()))
    return facts


def test_processes_that_come_one_after_the_other_wait_longer_than_each() -> None:
    """Each of three waits for 100 ms, until the one before it has ended: mending saves more than 100 ms."""
    facts = waiting(
        [(p, 1, 0, 100) for p in range(3)], kind="file", name="wait/io/file/app/lock", op="lock", file="a.lock", bytes=0
    )
    (found,) = find(facts, 10**12)
    assert (found.name, found.time, found.is_bound) == ("file_lock", 300 * 10**9, True)


def test_waits_for_the_gil_are_not_more_than_the_other_threads_and_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two threads waits at each time of 800 ms. The history has a quarter of it."""
    at = [(0, 1 + turn % 2, turn * 10, turn * 10 + 10) for turn in range(20)]
    for processors, saved in ((2, 400), (8, 400), (1, 0)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, count=processors: set(range(count)))
        found = find(waiting(at, kind="gil", name="wait/gil", scale=4), 10**12)
        assert [(one.name, one.time, one.is_bound) for one in found] == [("gil", saved * 10**9, False)] * (saved > 0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mutex/python/object-dict", "2 threads wait 20 times for one dict"),
        ("mutex/python/two-objects-collections.deque-items", "2 threads wait 20 times for one collections.deque (items)"),
        ("mutex/python/types", "2 threads wait 20 times for classes"),
        ("mutex/python/__main__:7", "2 threads queue for a lock; its holder computes"),
        ("cond/python/stopped-by-gc", "Python stops its threads 10 times to collect garbage"),
        ("cond/python/stopped-by-other", None),
        ("cond/python/stopped:7", None),
    ],
)
def test_what_threads_without_the_gil_wait_for(name: str, says: str | None) -> None:
    """One of two threads waits at each time of 200 ms: for an object, which is no lock, or in a pause of Python."""
    name = f"wait/synch/{name}"
    kind = kind_of(name, "a.py:1")
    turns = [(0, 1 + turn % 2, turn * 10, turn * 10 + 10) for turn in range(20)]
    facts = waiting(turns, kind=kind, name=name, object=7)
    ms = 10**9
    waits = [
        Wait(thread, 0, name, kind, None, "lock", 7, None, None, t0 * ms, t1 * ms, 10 * ms, None) for _, thread, t0, t1 in turns
    ]
    add_queues(0, waits, [], WHOLE, WHOLE, facts._insert)
    facts.db.execute("insert into total values(0, ?, ?, 20, ?, null, ?)", (name, kind, 200 * ms, 200 * ms))
    assert [(one.sentence, one.time) for one in find(facts, 10**12)] == [(says, 200 * ms)] * (says is not None)


@pytest.mark.parametrize(("name", "is_found"), [("sqlite/statement", False), ("libpq/statement", True)])
def test_threads_that_compute_in_sqlite_do_not_compute_in_python(name: str, is_found: bool) -> None:
    """It computes without the GIL. On a busy machine the thread that has it loses its processor, and the others wait for long."""
    facts = waiting([(0, 1 + turn % 2, turn * 10, turn * 10 + 10) for turn in range(20)], kind="gil", name="wait/gil")
    for thread in (1, 2):
        row = (0, thread, f"statement/{name}", "SELECT ?", 60 * 10**9)  # of the 90 in which the thread does not wait
        facts.db.execute("insert into statement(p, thread, name, text, dt) values(?, ?, ?, ?, ?)", row)
    assert [one.name for one in find(facts, 10**12)] == ["gil"] * is_found


@pytest.mark.parametrize(("files", "is_found"), [(1, True), (100, False)])
@pytest.mark.parametrize(("ops", "rule"), [(("open", "write", "close"), "reopened"), (("write", "sync"), "fsync_each")])
def test_many_files_are_not_one_that_is_used_again(files: int, is_found: bool, ops: tuple[str, ...], rule: str) -> None:
    """The history has one of 40 events."""
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'app', 0, ?1, ?1)", (10**12,))
    columns = "p, thread, event, name, kind, op, file, t0, t1, dt, scale, more, waited_for"
    for number in range(100):
        for op in ops:
            row = (0, 1, number, "wait/io/file/app/md", "file", op, f"/{number % files}.md", number, number, 10**10, 40, 40, 1)
            facts.db.execute(f"insert into wait({columns}) values({', '.join('?' * len(row))})", row)
    assert [one.name for one in find(facts, 10**12)] == [rule] * is_found


@pytest.mark.parametrize(
    ("folders", "names", "is_found"),
    [(20, 5, True), (1, 1, True), (1000, 1, False), (1, 1000, False)],
)
def test_files_that_are_missed_once_are_not_searched(folders: int, names: int, is_found: bool) -> None:
    """Of 1,000 calls: 20 folders for 5 names, one file again and again, one name in each folder, many names in one folder."""
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'app', 0, ?1, ?1)", (10**12,))
    facts.db.execute("insert into call values(0, 'file', 'open', null, 2, 2000, 0, ?, 'x')", (10**11,))
    columns = "p, thread, event, kind, op, place, file, t0, t1, dt"
    for number in range(1000):
        row = (0, 1, number, "file", "open", None, f"/{number % folders}/{number % names}.h", number, number, 1)
        facts.db.execute(f"insert into wait({columns}) values({', '.join('?' * len(row))})", row)
    assert [one.name for one in find(facts, 10**12)] == ["searched"] * is_found


def test_connections_count_that_the_history_has_lost() -> None:
    """It has 30 of 300."""
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'app', 0, ?1, ?1)", (10**12,))
    columns = "p, thread, event, name, kind, op, object, t0, t1, dt, scale, more"
    for number in range(60):
        row = (
            0,
            1,
            number,
            "wait/io/socket/app/tcp",
            "socket",
            ("connect", "send")[number % 2],
            number // 2,
            number,
            number,
            10**9,
            10,
            10,
        )
        facts.db.execute(f"insert into wait({columns}) values({', '.join('?' * len(row))})", row)
    (found,) = find(facts, 10**12)
    assert found.sentence == "300 connections are opened, each for a few messages; opening and closing"


@pytest.mark.parametrize(("every", "is_holder"), [(30, True), (17, False)])
def test_a_holder_that_seldom_waits_is_known_by_the_ends_of_its_calls(every: int, is_holder: bool) -> None:
    """A reader waits until the writer's call has ended, in each 3 ms. A bystander calls every 1.7 ms."""
    step = 10**8  # picoseconds
    waits = [(2, "lock", None, number * 30 * step, (number * 30 + 20) * step + step // 2) for number in range(20)]
    calls = [(1, "file", "log", at * step, (at + min(every, 20)) * step) for at in range(0, 600, every)]
    both = [
        Wait(thread, number, "wait/x", kind, "app.c:1", "sync", 7, file, None, begun, end, end - begun, None)
        for number, (thread, kind, file, begun, end) in enumerate([*waits, *calls])
    ]
    under: list[Any] = []
    add_queues(0, both, [], WHOLE, WHOLE, lambda table, rows: under.extend(rows if table == "under" else ()))
    assert [row[-2] >= LIMITS["turns"] * len(waits) for row in under] == [is_holder]


def test_threads_that_leave_a_barrier_at_once_do_not_queue() -> None:
    """Three threads wait for a futex, at most two at once. One gets a lock after the other; a barrier lets all go."""

    def waits(ends_apart: int) -> list[Wait]:
        result = []
        for number in range(30):
            thread, begun = number % 2 + number // 2 % 2, number // 2 * 10**9
            end = begun + 8 * 10**8 + number % 2 * ends_apart
            result.append(
                Wait(
                    thread,
                    number,
                    "wait/synch/cond/app/futex-code",
                    "cond",
                    "app.rs:1",
                    "wait",
                    7,
                    None,
                    None,
                    begun,
                    end,
                    end - begun,
                    None,
                )
            )
        return result

    def queues(of: list[Wait]) -> list[str]:
        found: list[str] = []
        add_queues(0, of, [], WHOLE, WHOLE, lambda table, rows: found.extend(table for _ in rows))
        return found

    assert queues(waits(2 * 10**8)) == ["queue"]
    assert queues(waits(10**6)) == []


@pytest.mark.parametrize(
    ("kind", "count", "says"),
    [("lock", 400_000, "A lock is taken 400,000 times by 4"), ("openmp", 400_000, "A lock is waited for 400,000 times by 4"),
     ("openmp", 30_000, "A lock is waited for 30,000 times by 4"), ("openmp", 10_000, "4 threads queue for a lock"),
     ("lock", 30_000, "4 threads queue for a lock")],
)  # fmt: skip
def test_a_lock_whose_free_uses_make_no_event_is_hot_with_fewer(kind: str, count: int, says: str) -> None:
    facts = Facts()
    facts.db.execute("insert into process values(0, 1, null, 'app', 0, ?1, ?1)", (10**12,))
    facts.db.execute("insert into total values(0, 'wait/x', ?1, ?2, ?3, null, ?3)", (kind, count, 3 * 10**11))
    facts.db.execute("insert into queue values(0, 7, 'wait/x', null, 500, 4, ?1, ?1, 1, 1)", (2 * 10**11,))
    (found,) = find(facts, 10**12)
    assert found.sentence.startswith(says)


def test_locks_that_one_line_makes_are_one_queue() -> None:
    """Each of three phases has a lock of its own, for which two threads wait for 20 ms."""
    waits = [
        Wait(
            thread,
            0,
            "wait/synch/mutex/app/lock",
            "lock",
            "app.py:1",
            "lock",
            phase,
            None,
            None,
            begun,
            begun + 2 * 10**10,
            2 * 10**10,
            None,
        )
        for phase in range(3)
        for thread, begun in [(1, phase * 10**11), (2, phase * 10**11 + 10**9)]
    ]
    rows: list[Any] = []
    add_queues(0, waits, [], WHOLE, WHOLE, lambda table, added: rows.extend(added if table == "queue" else ()))
    assert [row[6:8] for row in rows] == [(21 * 10**9, 63 * 10**9)] * 3


def test_a_lock_that_starves_its_waiters_is_a_queue() -> None:
    """Two of three threads wait for 30 ms, and have the lock for 1 ms. The third one waits again in between."""
    ms = 10**9
    of_locks = [(thread, turn * 40.0, turn * 40.0 + 30 + thread) for turn in range(10) for thread in (0, 1)]
    again = [(2, turn * 40 + 30.5, turn * 40 + 38) for turn in range(10)]

    def queues(spans: Sequence[tuple[int, float, float]]) -> int:
        waits = [
            Wait(thread, number, "wait/synch/cond/app/futex-code", "cond", "app.rs:1", "wait", 7, None, None, *times, None)
            for number, (thread, *span) in enumerate(spans)
            for times in [(int(span[0] * ms), int(span[1] * ms), int((span[1] - span[0]) * ms))]
        ]
        found: list[str] = []
        add_queues(0, waits, [], WHOLE, WHOLE, lambda table, rows: found.extend(table for _ in rows))
        return found.count("queue")

    assert queues([*of_locks, *again]) == 1
    assert queues(of_locks) == 0  # two threads leave a barrier


def test_the_text_is_three_findings_of_80_columns() -> None:
    long = "SELECT a, b, c FROM somewhere WHERE it IS very LONG and LONGER than a line of a terminal " * 2
    found = [Finding("sleeps", long, "app.py:1", 1, 6 * 10**9, 10**11, "wall", is_bound, "Wait.") for is_bound in (True, False)]
    lines = text_of(found).splitlines()
    assert lines[0] == "Fix first"
    assert max(map(len, lines)) <= 80
    assert sum("at most 6 ms of 100 ms" in line for line in lines) == 1
    assert sum("takes 6 ms of 100 ms" in line for line in lines) == 1
    assert text_of([]) == ""


@pytest.mark.parametrize("name", ["tiny_messages", "pool_messages", "queue_messages", "tiny_stream", "child_wait", "file_lock"])
def test_the_order_of_processes_changes_nothing(name: str, tmp_path: Path) -> None:
    """They are read by their numbers, and a child's may be the lower one: the system begins again at 300."""
    run: list[str | Path] = [*PFS, "run", "--keep", "--no-report", "--", *built(FAULTS[name], tmp_path)]
    subprocess.run(run, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    segments = sorted((tmp_path / "segments").glob("*/*.pfs"))
    assert len(segments) > 1
    with ExitStack() as opened:
        sources = [opened.enter_context(pfs.attach(segment))._source for segment in segments]
        said = [[(one.name, one.place, one.sentence) for one in of_sources(order)] for order in (sources, sources[::-1])]
    assert said[0] == said[1]
    assert said[0][0][1] == place_of(FAULTS[name])


def test_the_command_the_function_and_the_report_say_the_same(tmp_path: Path) -> None:
    command = built(FAULTS["lock_held"], tmp_path)
    run: list[str | Path] = [*PFS, "run", "--keep", "--fail-on", "lock_held,gil", "-o", tmp_path / "report", "--", *command]
    ran = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 3
    kept = ran.stderr.rpartition("Segments: ")[2].strip()
    assert (tmp_path / "report").read_text().splitlines()[3].startswith("Fix first")
    said = [*PFS, "findings", kept, "--fail-on", "gil"]
    text = subprocess.run(said, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "lock_held.c:" in text
    assert "[lock_held]" in text
    rows = json.loads(subprocess.run([*said, "--json"], capture_output=True, text=True, timeout=60, check=True).stdout)
    assert [row["name"] for row in rows] == ["lock_held"]
    frame = pfs.findings(kept)
    assert len(frame) <= MOST
    assert list(frame["NAME"]) == ["lock_held"]
    assert frame.loc[0, "SENTENCE"] == rows[0]["sentence"]
    assert 0.05 < float(frame["SHARE"].iloc[0]) <= 1
    top = subprocess.run([*PFS, "top", kept, "--batch", "--count", "1"], capture_output=True, text=True, timeout=60, check=True)
    assert "[lock_held]" in top.stdout
    segment = next(Path(kept).glob("*.pfs"))
    assert list(pfs.findings(segment)["NAME"]) == ["lock_held"]
    metrics = subprocess.run([*PFS, "metrics", segment, "--findings"], capture_output=True, text=True, timeout=60, check=True)
    values = dict(re.findall(r'^pfs_finding_seconds\{rule="(\w+)"\} (\S+)$', metrics.stdout, re.MULTILINE))
    assert set(values) == {rule.name for rule in RULES}


def test_fail_on_keeps_the_code_of_the_program_and_refuses_unknown_rules(tmp_path: Path) -> None:
    def code(*arguments: str) -> int:
        return subprocess.run([*PFS, *arguments], cwd=tmp_path, capture_output=True, timeout=60).returncode

    assert code("run", "--no-report", "--fail-on", "any", "--", "true") == 0
    assert code("run", "--fail-on", "any", "--", "sh", "-c", "exit 7") == 7
    assert code("run", "--fail-on", "io_under_lok", "--", "true") == 2
    assert code("findings", str(tmp_path)) == 1  # no segment is there


def test_a_process_without_events_has_no_finding() -> None:
    frame = pfs.findings()
    assert list(frame.columns)[:3] == ["NAME", "SENTENCE", "PLACE"]


def test_findings_of_this_process_from_now_on(tmp_path: Path) -> None:
    """In %%pfs, in a budget of pytest, and in pfs top."""
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "def write(size):\n"
        "    file = os.open('pieces', os.O_CREAT | os.O_WRONLY)\n"
        "    for _ in range(80000 // size): os.write(file, b'x' * size)\n"
        "@pytest.mark.pfs_budget(findings=0)\n"
        "@pytest.mark.parametrize('size', [8, 4000])\n"
        "def test_write(size): write(size)\n"
        "def test_cell():\n"
        "    from pfs._ui.notebook.report import Report\n"
        "    with Report() as small: write(8)\n"
        "    with Report() as large: write(4000)\n"
        "    assert '[tiny_io]' in repr(small) and '[tiny_io]' in small._repr_html_()\n"
        "    assert 'Fix first' not in repr(large) + large._repr_html_()\n"
    )
    ran = subprocess.run(
        [*PFS, "run", "--no-report", "--", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_it.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "findings=0: Fix first" in ran.stdout
    assert "[tiny_io]" in ran.stdout


def test_numbers_and_names_that_sqlite_has_not_are_kept_once() -> None:
    """A counter has 64 bits, and a file's name may be no UTF-8: the rows before it are not there twice."""
    facts = Facts()
    rows = [(0, "select 1", 1, 2, 3, 0, 7, 8), (0, "\udcff", 2**64 - 1, 2**63, 0, 0, 7, 8), (0, "select 2", 4, 5, 6, 0, 7, 8)]
    facts._insert("digest", rows)
    facts._insert("digest", [])
    stored = facts.db.execute("select * from digest").fetchall()
    assert stored == [rows[0], (0, "\\xff", 2**63 - 1, 2**63 - 1, 0, 0, 7, 8), rows[2]]
