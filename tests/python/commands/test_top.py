"""pfs top: right numbers, works at 80x24, survives the process dying under it."""

from __future__ import annotations

import html
import io
import itertools
import os
import re
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import pfs
from pfs._read.places.readable import Readable
from pfs._read.present import Blocked
from pfs._read.samples import SECTIONS, Choice, Row, Sample, rows_between, take
from pfs._ui.cli.top import Process, View, cut_at_comma, lines, picture, screen_of, shares
from pfs._ui.cli.top_minute import blocks
from tests.python._programs.subject import Subject, clean_environment, subject
from tests.python._programs.terminal import Terminal

_WORK = """
import threading
lock = pfs.Lock("app/LOCK_a")
def work(turns):
    for i in range(turns):
        with lock: pass
        with pfs.open("/etc/passwd", name="app/data") as file: file.read(100)
        with pfs.statement("app/query", text=f"SELECT {i} FROM t{i % 3}", schema="shop"): pass
work(10)
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Subject]:
    (tmp_path / "segments").mkdir(mode=0o700)
    with subject(tmp_path / "segments") as running:
        running.do(_WORK)
        yield running


def top(program: Subject) -> tuple[Path, str, str, str, str]:
    return program.path.parent, "top", str(program.pid), "--interval", "0.2"


def text_of(process: Process, view: View, width: int, height: int) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False
    )
    console.print(screen_of(process, view, width, height), end="")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().split("\n")


def sample(taken: float, **waits: tuple[int, ...]) -> Sample:
    """The numbers of a wait: how many, their time, and how many of them have none (0)."""
    sums: dict[str, dict[tuple[object, ...], list[int]]] = {section.name: {} for section in SECTIONS}
    sums["waits"] = {(name,): [*numbers, 0][:3] for name, numbers in waits.items()}
    return Sample(taken, sums, {}, {}, 0)


def test_rows_are_what_happened_in_between_per_second() -> None:
    before = sample(10.0, a=(10, 1000), b=(5, 500), gone=(3, 3))
    after = sample(12.0, a=(30, 5000), b=(5, 500), new=(4, 8000))
    rows = rows_between(before, after, 2.0, SECTIONS[0])
    assert rows == [Row("new", 2.0, 4000.0, ()), Row("a", 10.0, 2000.0, ())]  # nothing of what did nothing
    assert [row.average for row in rows] == [2000.0, 200.0]
    assert [row.name for row in rows_between(before, after, 2.0, SECTIONS[0], Choice("COUNT_STAR desc"))] == ["a", "new"]
    assert [row.name for row in rows_between(before, after, 2.0, SECTIONS[0], Choice("NAME"))] == ["a", "new"]


def test_an_average_is_that_of_the_timed_ones() -> None:
    """Waits that SAMPLED only counted have no time."""
    before, after = sample(10.0, a=(100, 1000, 90), b=(5, 500, 5)), sample(12.0, a=(300, 5000, 270), b=(25, 500, 25))
    a, b = rows_between(before, after, 2.0, SECTIONS[0], Choice("NAME"))
    assert (a.count, a.time, a.untimed, a.average) == (100.0, 2000.0, 90.0, 200.0)
    assert (b.count, b.untimed, b.average) == (10.0, 10.0, 0.0)


def test_a_sum_that_went_down_was_truncated_and_counts_from_then() -> None:
    assert rows_between(sample(0, a=(100, 9)), sample(1, a=(7, 70)), 1.0, SECTIONS[0]) == [Row("a", 7.0, 70.0, ())]


def test_the_numbers_are_those_of_the_tables(program: Subject) -> None:
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        program.do("work(20)")
        process.look()
        by_name = {section.name: {row.name: row for row in process.rows(section)} for section in SECTIONS}
        count = {name: round(row.count * process.seconds) for name, row in by_name["waits"].items()}
        assert count["wait/synch/mutex/app/LOCK_a"] == 20
        assert count["wait/io/file/app/data"] == 20 * (count["wait/io/file/app/data"] // 20) > 0
        assert round(by_name["files"]["/etc/passwd"].extras[0] * process.seconds) == 20 * os.path.getsize("/etc/passwd")
        statements = {name: round(row.count * process.seconds) for name, row in by_name["statements"].items()}
        assert statements == {"shop: SELECT ? FROM `t0`": 7, "shop: SELECT ? FROM `t1`": 7, "shop: SELECT ? FROM `t2`": 6}
        (thread,) = by_name["threads"].values()
        assert round(thread.count * process.seconds) == sum(count.values())


def test_the_last_minute_is_a_line_of_blocks_by_class(program: Subject) -> None:
    program.do("""
        import threading
        held, ready = pfs.Lock("app/LOCK_held"), threading.Event()
        def hold():
            with held:
                ready.set()
                threading.Event().wait()
        pfs.Thread(target=hold, name="hold", daemon=True).start()
        ready.wait()
        for _ in range(3): pfs.Thread(target=held.acquire, name="want", daemon=True).start()
    """)
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        assert process.minute.lines() == []  # nobody has looked yet
        process.minute.watch()
        end = time.monotonic() + 20
        while not process.minute.lines() and time.monotonic() < end:
            time.sleep(0.1)
        (line,) = process.minute.lines()
        assert any(text.startswith(line[:20]) for text in text_of(process, View(1.0), 120, 50))
    assert re.match(r"last minute: mutexes \d\.\d +[▁-█]", line), line
    assert blocks([0, 1, 2, 8], 8) == " ▁▂█"
    assert blocks([0.0, 0.0], 0.0) == "  "


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (40, 12), (20, 5)])
def test_a_screen_has_its_size(program: Subject, width: int, height: int) -> None:
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        for section in range(5):
            shown = text_of(process, View(1.0, section=section), width, height)
            assert max(map(len, shown)) <= width
            if height >= 12:
                assert len(shown) == height, "\n".join(shown)
        if width >= 80:
            assert "wait/synch/mutex/app/LOCK_a" in "\n".join(shown := text_of(process, View(1.0), width, height))
            assert shown[0].startswith(f"pfs top: process {program.pid} ")
            assert "frozen" in "\n".join(text_of(process, View(1.0, is_frozen=True), width, height))


def test_all_is_read_before_names_are_looked_for(program: Subject) -> None:
    """Symbols of a large program take a while: the numbers and their time must be of one moment."""
    order: list[str] = []

    class Slow(Readable):
        def name(self, name: str) -> str:
            order.append("name")
            return super().name(name)

    with pfs.attach(program.path) as schema:
        source = schema._source
        read = source.rows

        def rows(*arguments: Any) -> list[tuple[Any, ...]]:
            order.append("read")
            return read(*arguments)

        source.rows = rows  # type: ignore[method-assign, assignment]
        take(source, names=Slow(source))
    assert order.count("name") > 2
    assert order.count("read") == 5  # busiest, threads, their time, what was lost, running
    assert order == sorted(order, reverse=True)


def test_a_deadlock_is_whole_on_a_small_screen(program: Subject) -> None:
    def blocked(waiter: int, holder: int) -> Blocked:
        thread = "thread/python/Thread-{} (process_request_thread)".format
        lock, line = "wait/synch/mutex/python/shop.inventory.locks:{}".format, "request_handlers.py:{}".format
        waits = (waiter, thread(waiter), lock(waiter), "lock", None, line(waiter), 6_370_000_000_000)
        held = (holder, thread(holder), None, None)
        return Blocked(*waits, *held, lock(holder), line(holder), 6_370_000_000_000, 0, "16 -> 17 -> 16")

    with pfs.attach(program.path) as schema:
        process = Process(schema)
        process.after.blocked = [blocked(16, 17), blocked(17, 16)]
        process.after.threads = {16: "thread/python/Thread-15 (process_request_thread)"}
        process.after.sums["threads"] = {(16,): [1, 996_000_000_000, 0]}
        process.after.sums["files"] = process.after.sums["statements"] = {}
        screen = text_of(process, View(1), 80, 24)
    shown = " ".join("\n".join(screen).split())
    assert len(screen) == 24
    assert "blocked now: 2 threads; DEADLOCK 16 -> 17 -> 16" in shown
    assert "16 waits 6.37 s at request_handlers.py:16 for mutex/python/shop.inventory.locks:16 (lock)" in shown
    assert "held by 17 17 waits" in shown
    assert "17 waits 6.37 s at request_handlers.py:17" in shown
    assert "(lock), python/Thread-17 (process_request_thread) held by 16" in shown
    assert "1 thread, lost" in shown
    (thread,) = [line for line in screen if line.startswith("16 ")]
    assert re.match(r"16 …\S*request_thread\) ", thread)
    places = [
        next(at for at, line in enumerate(screen) if line.startswith(name)) for name in ("files ", "statements ", "threads ")
    ]
    assert (places[1] - places[0], places[2] - places[1]) == (1, 1)  # parts without rows
    # More than fit: the first is whole, and a line has the number of the others.
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        process.after.blocked = [blocked(16, 17)] * 9
        screen = text_of(process, View(1), 40, 12)
    assert len(screen) == 12
    assert any(re.match(r"  and \d more: pfs show PID blocked", line) for line in screen)


def test_a_share_is_whole_on_a_small_screen() -> None:
    line = "threads: mutexes 60 %, computing 30 %, others 10 %"
    assert cut_at_comma(line, len(line)) == line
    assert cut_at_comma(line, len(line) - 1) == "threads: mutexes 60 %, computing 30 %"
    assert cut_at_comma(line, 12) == line[:12]


_ROLES = """
import threading, time
stop = threading.Event()
def nap():
    while not stop.is_set(): time.sleep(0.01)
def spin():
    while not stop.is_set(): pass
helpers = [pfs.Thread(target=nap, name=f"app/napper-{i}") for i in range(2)] + [pfs.Thread(target=spin, name="app/spinner")]
for helper in helpers: helper.start()
time.sleep(0.3)
"""


def test_threads_have_a_line_for_each_role_where_there_is_room(program: Subject) -> None:
    program.do(_ROLES)
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        time.sleep(0.3)
        process.look()
        tall, small = (text_of(process, View(1.0), 100, height) for height in (40, 24))
        (at,) = [at for at, line in enumerate(tall) if line.startswith("threads: ")]
        roles = dict(line[2:].split(": ") for line in itertools.takewhile(lambda line: line.startswith("  "), tall[at + 1 :]))
        assert {"python/app/napper-*", "python/app/spinner"} <= set(roles)
        assert len(roles) <= 4
        assert "computing" in roles["python/app/spinner"]
        assert "computing" not in roles["python/app/napper-*"].partition(",")[0]
        assert (len(tall), len(small)) == (40, 24)
        assert not any("napper-*" in line for line in small)
    program.do("stop.set(); [helper.join() for helper in helpers]")
    printed = run_top(program, "--count", "1").stdout
    assert "\n  python/app/napper-*: " in printed


def test_parts_get_the_lines_that_they_need() -> None:
    assert shares([10, 10, 10, 10], 40) == [10, 10, 10, 10]
    assert shares([3, 40, 3, 4], 40) == [3, 30, 3, 4]
    assert shares([3, 3, 3, 3], 40) == [3, 3, 3, 31]
    assert shares([50], 20) == [20]
    assert sum(shares([50, 2, 50, 7], 21)) == 21


def test_a_wide_screen_has_numbers_beside_names_and_two_parts_in_a_line(program: Subject) -> None:
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        shown = text_of(process, View(1.0), 200, 50)
        narrow = text_of(process, View(1.0), 120, 50)
    assert len(shown) == 50
    assert max(map(len, shown)) <= 200
    heading = next(line for line in shown if line.startswith("waits "))
    assert heading.index("files ") >= 99
    assert next(line for line in narrow if line.startswith("waits ")).find("files ") == -1
    for lines_ in (shown, narrow):  # a reader's eye need not cross the screen
        (line,) = (line for line in lines_ if line.startswith("wait/synch/mutex/app/LOCK_a "))
        number = re.search(r"LOCK_a +[0-9]", line)
        assert number is not None
        assert len(number[0]) < 30
    below = [line for line in shown if line.startswith("statements ")]
    assert len(below) == 1
    assert "threads " in "".join(line[100:] for line in shown)


def test_help(program: Subject) -> None:
    view = View(1.0)
    view.press("?")
    with pfs.attach(program.path) as schema:
        for height in (24, 10):
            shown = text_of(Process(schema), view, 80, height)
            assert len(shown) == height
            assert "Keys" in shown
            assert max(map(len, shown)) <= 80
        assert "blocked now" in "\n".join(text_of(Process(schema), view, 80, 24))
        view.press("2")  # any key leaves the help
        assert (view.is_help, view.section) == (False, 0)
        assert "Keys" not in text_of(Process(schema), view, 80, 24)


def test_keys() -> None:
    view = View(1.0)
    for key in "2c +x\t":
        view.press(key)
    assert (view.interval, view.choice.order, view.section, view.is_frozen) == (2.0, [("COUNT_STAR", True)], 2, True)
    for _ in range(20):
        view.press("-")
    assert view.interval == 0.1
    view.press("q")
    assert view.is_over


def press(process: Process, view: View, keys: str, width: int = 80, height: int = 24) -> list[str]:
    """Presses keys as a user does, who sees the screen before each of them. Returns the last screen."""
    for key in keys:
        text_of(process, view, width, height)
        view.press(key)
    return text_of(process, view, width, height)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 12)])
def test_a_row_is_followed_into_its_history_and_back(program: Subject, width: int, height: int) -> None:
    program.do("""
        held = pfs.Lock("app/LOCK_held")
        held.acquire()
        late = pfs.Thread(target=held.acquire, name="late", daemon=True)
        late.start()
    """)
    with pfs.attach(program.path) as schema:
        process, view = Process(schema), View(1.0)

        def chosen() -> str:
            return "" if view.chosen is None else view.chosen[1].name

        def follow(part: str, name: str) -> list[str]:
            view.press(part)
            view.chosen = None
            for _ in range(60):
                press(process, view, "j", width, height)
                if name in chosen():
                    break
            assert name in chosen()
            shown = press(process, view, "\n", width, height)
            assert view.is_open
            assert len(shown) == height
            assert max(map(len, shown)) <= width
            view.press("\x1b")
            assert not view.is_over
            return shown

        lock = follow("1", "LOCK_a")
        assert any(re.match(r"10 events of the last .*, 1 line", line) for line in lock), lock
        assert sum(bool(re.match(r" *\d+\S* \S?s +\d+.* lock ", line)) for line in lock) >= min(9, height - 8)
        waiting = follow("1", "LOCK_held")
        assert any(re.match(r" *now +[\d.]+ \S?s  lock ", line) and (width < 80 or "late" in line) for line in waiting), waiting
        file = follow("2", "/etc/passwd")
        assert any(re.search(r"  (read|open|close)  ", line) for line in file), file
        statement = follow("3", "FROM `t1`")
        assert any("3 events" in line for line in statement), statement
        assert width < 80 or any(line.rstrip().endswith("SELECT 4 FROM t1") for line in statement), statement
        thread = follow("4", "late")
        assert thread[2].startswith("thread ")
        assert any("K_held" in line for line in thread), thread
        # Another sample shows what has happened meanwhile; a frozen screen stays.
        view.press("1")
        before = follow("1", "LOCK_a")
        program.do("work(10)")
        assert follow("1", "LOCK_a")[3:] == before[3:]
        process.look()
        assert any(line.startswith("20 events") for line in follow("1", "LOCK_a"))


def test_a_picture_has_no_texts_of_statements(program: Subject, tmp_path: Path) -> None:
    """The history of a statement has them. It is for the screen alone: a picture is sent to others."""
    with pfs.attach(program.path) as schema:
        process, view = Process(schema), View(1.0)
        shown = press(process, view, "3\n")
        assert any(re.search(r"SELECT \d FROM t\d", line) for line in shown), shown
        picture(process, view, str(tmp_path / "top.svg"))
    drawn = html.unescape((tmp_path / "top.svg").read_text()).replace("\xa0", " ")
    assert "SELECT ? FROM `t" in drawn
    assert not re.search(r"SELECT \d", drawn)


def test_a_row_without_events_says_why(program: Subject) -> None:
    program.do("pfs.setup_consumers['events_waits_%'].enabled = False; work(1)")
    with pfs.attach(program.path, write=True) as schema:
        schema.truncate("events_waits_history_long")
        shown = press(Process(schema), View(1.0), "1\n")
    assert any(line.startswith("The history has none of its events") for line in shown), shown


def test_the_chosen_row_stays_on_the_screen_and_keeps_its_name() -> None:
    view = View(1.0)
    view.press("\n")
    assert (view.is_open, view.chosen) == (False, None)  # there is no row
    rows = [(SECTIONS[0], Row(name, 1.0, 1.0, (), key=(name,))) for name in "abc"]
    view.listed = rows
    for key in "jjjjk":
        view.press(key)
    assert view.chosen == rows[1]
    view.listed = rows[::-1]  # sorted otherwise
    view.press("k")
    assert view.chosen == rows[2]
    view.listed = []  # none of them had an event
    for key, state in (("\n", (True, False)), ("\x7f", (False, False)), ("\x7f", (False, False)), ("\x1b", (False, True))):
        view.press(key)
        assert (view.is_open, view.is_over) == state


def test_names_that_programs_give_cannot_write_on_the_terminal(program: Subject) -> None:
    program.do("with pfs.statement('app/evil', text='SELECT \"x\" FROM `\\x1b[31m`'): pass")
    with pfs.attach(program.path) as schema:
        shown = "\n".join(text_of(Process(schema), View(1.0, section=3), 100, 20))
    assert "\x1b" not in shown
    assert "\\x1b[31m" in shown


def run_top(program: Subject, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder = program.path.parent
    return subprocess.run(
        [sys.executable, "-m", "pfs", "top", str(program.pid), *arguments],
        env=clean_environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_it_chooses_rows_as_tables_do(program: Subject) -> None:
    done = run_top(program, "--count", "1", "--where", "NAME like '%lock_a' and SUM_TIMER_WAIT < 1min", "--sort", "NAME")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()[3:]] == ["waits", "wait/synch/mutex/app/LOCK_a"]
    for option in ("--where", "--sort"):
        wrong = run_top(program, "--count", "1", option, "count > 1" if option == "--where" else "count")
        assert wrong.returncode == 2
        assert "legal are NAME, COUNT_STAR, SUM_TIMER_WAIT, AVG_TIMER_WAIT" in " ".join(wrong.stderr.split())


def test_an_interval_is_seconds_or_a_time_with_a_unit(program: Subject) -> None:
    for interval in ("0.1", "100ms", "100000us"):
        assert run_top(program, "--count", "1", "--interval", interval).returncode == 0
    for wrong, said in (
        ("fast", "legal are seconds, a timedelta, or a text such as '5ms' (ps, ns, us, ms, s, min)"),
        ("2min", "0.1 s to 60 s"),
    ):
        done = run_top(program, "--count", "1", "--interval", wrong)
        assert done.returncode == 2
        assert said in " ".join(done.stderr.split())


def test_without_a_terminal_it_prints_lines(program: Subject) -> None:
    done = run_top(program, "--count", "2", "--interval", "0.1", "--sort", "COUNT_STAR desc")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.split("\n\n")
    assert "since the start" in first
    assert "wait/synch/mutex/app/LOCK_a" in first
    assert "SELECT ? FROM `t0`" in first
    assert "in 0." in second
    assert "LOCK_a" not in second  # nothing happened


def test_of_a_dead_process_it_shows_what_there_is_and_says_so(program: Subject) -> None:
    program.kill()
    done = run_top(program)
    assert done.returncode == 0
    assert "wait/synch/mutex/app/LOCK_a" in done.stdout
    done = run_top(program, "--count", "2", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "pfs: the process is dead\n")


def test_of_no_process_it_fails(program: Subject) -> None:
    program.pid = 2**22 - 1
    done = run_top(program)
    assert done.returncode == 1
    assert done.stderr.startswith("pfs: no segment of process")


def test_without_a_pid_it_shows_the_only_process_that_runs(program: Subject) -> None:
    def top() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pfs", "top", "--count", "1"],
            env=clean_environment(program.path.parent),
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert top().stdout.startswith(f"pfs top: process {program.pid} (alive)")
    with subject(program.path.parent) as second:
        done = top()
        assert done.returncode == 1
        first_line, *rows = done.stderr.splitlines()
        assert first_line == "pfs: 2 processes run: give the pid or the name of one"
        assert [int(row.split()[0]) for row in rows] == [second.pid, program.pid]  # the newest first
    second.path.unlink(missing_ok=True)
    program.kill()
    done = top()
    assert done.returncode == 1
    assert done.stderr == f"pfs: no process with pfs runs in {program.path.parent}; pfs ps lists 1 that ended\n"


def test_a_dumb_terminal_gets_lines(program: Subject) -> None:
    running = Terminal(*top(program), "--count", "1", term="dumb")
    try:
        running.wait_for("LOCK_a")
        running.wait_for("threads ")
        assert running.process.wait(30) == 0
        assert "\x1b" not in running.seen
    finally:
        running.close()


def test_without_a_screen_the_death_of_the_process_ends_it(program: Subject, capsys: pytest.CaptureFixture[str]) -> None:
    with pfs.attach(program.path) as schema:
        process = Process(schema)
        program.kill()
        lines(process, View(0.1), None, 10)
    said = capsys.readouterr()
    assert "the process is dead" in said.err
    assert "LOCK_a" in said.out


@pytest.fixture
def terminal(program: Subject) -> Iterator[Terminal]:
    running = Terminal(*top(program))
    yield running
    running.close()


def test_on_a_terminal(program: Subject, terminal: Terminal) -> None:
    terminal.wait_for("LOCK_a")
    terminal.wait_for("statements")
    terminal.press("3")
    terminal.wait_for("statements")
    program.do("work(20)")
    terminal.wait_for("rows/s")
    terminal.press(" ")
    terminal.wait_for("frozen")
    terminal.press("\x1b[B")  # an arrow is not Escape
    terminal.press("\r")
    terminal.wait_for("events of the last")
    terminal.press("\x1b[D")
    terminal.wait_for("frozen")
    assert terminal.process.poll() is None
    terminal.press("?")
    terminal.wait_for("leaves it")
    terminal.press("?")
    terminal.press("q")
    terminal.wait_for("\x1b[?1049l")  # leaves the other screen
    assert terminal.process.wait(30) == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_on_a_terminal_it_survives_the_process(program: Subject, terminal: Terminal) -> None:
    terminal.wait_for("LOCK_a")
    program.kill()
    terminal.wait_for("the process is dead")
    assert terminal.process.poll() is None
    os.unlink(program.path)
    terminal.press("1")
    terminal.wait_for("waits")
    terminal.press("q")
    assert terminal.process.wait(30) == 0


def test_ctrl_c_ends_it(terminal: Terminal) -> None:
    terminal.wait_for("LOCK_a")
    terminal.process.send_signal(2)
    terminal.wait_for("\x1b[?1049l")
    assert terminal.process.wait(30) == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before
