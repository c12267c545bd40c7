"""A program under load that others read, truncate, change and stop from outside: no row is torn, no count is lost."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pfs
from tests import budgets
from tests.conftest import Build
from tests.python._programs import checked
from tests.python._programs.checked import Log, Statements, Tables, check, log_in
from tests.python.programs.test_programs import Row, Talker, environment
from tests.python.programs.test_programs import rows as rows_of

EVENTS = [
    f"events_{kind}_{view}" for kind in ("waits", "stages", "statements", "transactions") for view in ("history", "history_long")
]
# Truncated at any moment: their rows prove themselves, and no count depends on them.
ANY_TIME = [*EVENTS, "events_waits_current", "events_statements_summary_by_digest", "events_statements_histogram_global"]
# Truncated between two readings: what they show is what the program's log says since then.
BY_THREAD = sorted({table.format("by_thread") for table, *_ in checked.COUNTED if not table.startswith("memory")})
FILE_EVENTS = checked.FILE_EVENTS["C"]
# The program was in the midst of making an object when it was stopped, or the other one is not ready: nothing was changed.
BUSY = re.compile("stopped, or hangs|another process is changing it")


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")
    while any((task / "stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
        time.sleep(0.001)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


class Observer:
    """Compares what tables show with the program's log, since the last TRUNCATE of each table."""

    def __init__(self, schema: pfs.Schema, path: str, log: Log) -> None:
        self.schema, self.path, self.log = schema, path, log
        nothing = [Statements(0, 0)] * checked.WORKERS
        # The log before and after the last TRUNCATE.
        self.since = {form.format("by_thread"): (nothing, nothing) for form, *_ in checked.COUNTED}
        self.done: Counter[str] = Counter()

    def truncate(self, table: str) -> None:
        before = self.log.read()
        try:
            self.schema.truncate(table)
        except pfs.StateError as error:
            if not BUSY.search(str(error)):
                raise
            self.done["truncates that could not be"] += 1
        else:
            self.since[table] = (before, self.log.read())
            self.done["truncates"] += 1

    def look(self) -> dict[str, list[Row]]:
        """Reads all tables, checks all rows and counts, and returns them."""
        tables = Tables(self.path)
        before = self.log.read()
        rows = tables.all()
        after = self.log.read()
        check(rows)
        for form, name, column, count in checked.COUNTED:
            table = form.format("by_thread")
            first, last = self.since[table]
            least = [count(i, worker.ended, FILE_EVENTS) for i, worker in enumerate(before)]
            most = [count(i, worker.begun, FILE_EVENTS) for i, worker in enumerate(after)]
            for i, n in checked.shown_by_thread(rows, form, name, column).items():
                low, high = least[i] - count(i, last[i].begun, FILE_EVENTS), most[i] - count(i, first[i].ended, FILE_EVENTS)
                assert low <= n <= high, f"{table} {name} {column}: worker {i} has {n}, its log says {low} to {high}"
            for level in ("by_account", "by_user", "by_host", "global"):
                total = checked.sum_of(rows[form.format(level)], name, column)
                assert sum(least) <= total <= sum(most), (
                    f"{form.format(level)} {name} {column}: {total}, its log says {least} to {most}"
                )
            self.done["counts"] += checked.WORKERS + 4
        self.done["readings"] += 1
        self.done["rows"] += sum(map(len, rows.values()))
        return rows


@contextmanager
def changed_all_the_time(path: str, seed: int) -> Iterator[Counter[str]]:
    """Another one, who truncates events and switches an instrument that the program does not use."""
    dice, done = random.Random(seed), Counter[str]()
    end, wrong = threading.Event(), []

    def work() -> None:
        try:
            with pfs.attach(path, write=True) as schema:
                while not end.wait(dice.random() * 0.05):
                    try:
                        if dice.random() < 0.3:
                            schema.setup_instruments["wait/io/socket/%"].enabled = dice.random() < 0.5
                            done["changes of the setup"] += 1
                        else:
                            schema.truncate(dice.choice(ANY_TIME))
                            done["truncates of events"] += 1
                    except pfs.StateError as error:
                        if not BUSY.search(str(error)):
                            raise
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        end.set()
        thread.join()
    assert not wrong, wrong


@pytest.fixture
def program(build: Build, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, Log]]:
    """A program that works, its segment, its log."""
    log, work = tmp_path / "log", tmp_path / "work"
    work.mkdir()
    few_rows = ",".join(
        f"performance_schema_{name}=500" for name in ("digests_size", *(f"{table}_size" for table in EVENTS if "long" in table))
    )
    env = environment(tmp_path, PFS_OPTIONS=f"{checked.OPTIONS},{few_rows}")
    with subprocess.Popen([build("checked"), work, "0", log], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            talker = Talker(process)
            path = talker.until("segment")
            talker.until("working")
            with log_in(log) as said:
                yield process, path, said
        finally:
            process.kill()


def test_nothing_is_lost_or_torn_whatever_others_do(program: tuple[subprocess.Popen[str], str, Log]) -> None:
    """Two truncate from outside; SIGSTOP, TRUNCATE while it is stopped, SIGCONT: all counts go on."""
    process, path, log = program
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    print(f"seed {seed}")
    with pfs.attach(path, write=True) as schema, changed_all_the_time(path, seed + 1) as more:
        observer = Observer(schema, path, log)
        end = time.monotonic() + budgets.LOAD_SECONDS
        while time.monotonic() < end:
            observer.look()
            if dice.random() < 0.5:
                observer.truncate(dice.choice(BY_THREAD))
            if dice.random() < 0.3:
                with stopped(process):
                    first = observer.look()
                    if dice.random() < 0.5:
                        observer.truncate(dice.choice(BY_THREAD))
                    second = observer.look()
                    for row in (*first["threads"], *second["threads"]):
                        del row["PROCESSLIST_TIME"]  # which goes on
                    for table in ("accounts", "users", "hosts", "threads", "mutex_instances", "file_summary_by_event_name"):
                        assert first[table] == second[table], table
                observer.done["stops"] += 1
                observer.look()
    with stopped(process):
        observer.look()
        lost = {
            row["VARIABLE_NAME"]: row["VARIABLE_VALUE"]
            for row in rows_of(path, "global_status")
            if "_lost" in row["VARIABLE_NAME"]
        }
        # Each statement has a schema of its own, and so a digest.
        assert {name for name, value in lost.items() if value != "0"} <= {"Performance_schema_digest_lost"}
    print(f"{sum(worker.ended for worker in log.read())} statements, {dict(observer.done + more)}")


@pytest.mark.parametrize("by", [-2, 2])
def test_a_count_that_is_off_is_found(program: tuple[subprocess.Popen[str], str, Log], by: int) -> None:
    """Negative control: a log that says two statements less, or more, than there were."""
    process, path, log = program
    time.sleep(0.1)

    class Wrong(Log):
        def read(self) -> list[Statements]:
            return [Statements(begun + by, ended + by) for begun, ended in log.read()]

    with stopped(process), pfs.attach(path) as schema:
        Observer(schema, path, log).look()
        with pytest.raises(AssertionError, match="its log says"):
            Observer(schema, path, Wrong(log._words)).look()
