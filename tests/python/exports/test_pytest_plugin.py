"""The pytest plugin: runs of pytest in processes and folders of their own, and what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

from pfs._ui.testing import budget, overhead
from pfs._ui.testing.totals import Totals, chosen
from pfs.errors import InvalidValue
from tests import MAY_FORK
from tests.conftest import Run
from tests.python._programs.subject import CI_VARIABLES

pytest_plugins = ["pytester"]

# What the tests inside use.
HELPERS = """
import multiprocessing, os, sys, threading
import pytest
import pfs

def use(path, times=1):
    for _ in range(times):
        with pfs.open(path, "w", name="app/data") as file:  # 7 events, 50 bytes
            file.write("x" * 50)

def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
EVENTS_OF_USE, BYTES_OF_USE = 7, 50
DATA = "wait/io/file/app/data"


class Inner:
    """pytest in a folder, with the plugin and nothing else that is installed."""

    def __init__(self, pytester: pytest.Pytester, segments: Path) -> None:
        self.pytester = pytester
        self.segments = segments
        self.may_be_left = 0

    def run(self, body: str, *arguments: str, helpers: str = HELPERS, **outcomes: int) -> list[str]:
        """The lines of the output. Without `outcomes` they are not checked."""
        self.pytester.makepyfile(test_inner=helpers + body)
        result = self.pytester.runpytest_subprocess(
            "-p", "pytest_pfs", "-p", "no:cacheprovider", "-W", "error", *MAY_FORK, "--strict-markers", *arguments, timeout=300
        )
        if outcomes:
            result.assert_outcomes(**outcomes)
        self.status = int(result.ret)
        self.errors = result.errlines
        assert self.left_behind() == self.may_be_left
        return result.outlines

    def left_behind(self) -> int:
        """Segments that are there after the run."""
        return len(list(self.segments.glob("*.pfs")))


@pytest.fixture
def inner(pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inner:
    segments = tmp_path / "segments"
    segments.mkdir(mode=0o700)
    for name in ("PFS_OPTIONS", "PFS_KEEP", "PFS_SEGMENT", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", *CI_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PFS_DIR", str(segments))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Inner(pytester, segments)


def after(lines: list[str], start: str, count: int) -> list[str]:
    """The lines that follow the one that starts so, and the line itself. A failure's first line says who found it."""
    (at,) = (i for i, line in enumerate(lines) if line.removeprefix("pfs: ").startswith(start))
    return [lines[at].removeprefix("pfs: "), *lines[at + 1 : at + count + 1]]


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


# What it costs who does not use it.


def test_import_of_the_plugin_imports_nothing_of_pfs(fresh: Run) -> None:
    out = fresh("""
        import sys
        import pytest_pfs
        print(sorted({"pfs", "numpy", "pandas"} & set(sys.modules)))
    """)
    assert out == "[]\n"


def test_a_run_that_asks_for_nothing_does_not_load_pfs(inner: Inner) -> None:
    body = "import sys\ndef test(): assert not {'pfs', 'numpy', 'pandas'} & set(sys.modules)\n"
    inner.run(body, helpers="", passed=1)


def test_entry_point_is_declared() -> None:
    from importlib.metadata import entry_points

    (plugin,) = entry_points(group="pytest11", name="pfs")
    assert plugin.value == "pytest_pfs"


# The fixture pfs_schema.


def test_schema_shows_what_happened_in_this_test_only(inner: Inner) -> None:
    inner.run(
        """
GLOBAL = "events_waits_summary_global_by_event_name"

def test_noise(tmp_path):
    use(tmp_path / "a", times=3)
    with pfs.Lock("app/OTHER"):
        pass

def test_own(pfs_schema, tmp_path):
    threads = [threading.Thread(target=use, args=(tmp_path / str(i), i)) for i in (1, 2)]  # they end before anybody looks
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waits = pfs_schema.table(GLOBAL)
    assert waits[["EVENT_NAME", "COUNT_STAR"]].values.tolist() == [["wait/io/file/app/data", 21]]
    files = pfs_schema.table("file_summary_by_instance")
    assert sorted(files["SUM_NUMBER_OF_BYTES_WRITE"]) == [50, 100]
    events = pfs_schema.events()
    assert len(events) == 21 and set(events["EVENT_NAME"]) == {"wait/io/file/app/data"}
    assert len(pfs.table("events_waits_history_long")) == 43

    lock = pfs.Lock("app/NEW")
    assert pfs_schema.table("mutex_instances")["NAME"].tolist() == ["wait/synch/mutex/app/NEW"]
    pfs_schema.restart()
    assert len(pfs_schema.table(GLOBAL)) == len(pfs_schema.events()) == len(pfs_schema.table("mutex_instances")) == 0
    with lock:
        pass
    assert pfs_schema.table(GLOBAL.upper())["COUNT_STAR"].tolist() == [1]
    assert "events_waits_summary_by_instance" in repr(pfs_schema)

def test_errors(pfs_schema):
    with pytest.raises(pfs.InvalidValue, match="data_locks has no difference: each reading asks the program's engines"):
        pfs_schema.table("data_locks")
    with pytest.raises(pfs.InvalidValue, match="threads has no events: legal are events_stages_current, .*history_long"):
        pfs_schema.events("threads")
    with pytest.raises(pfs.UnknownTable):
        pfs_schema.table("nothing")
""",
        passed=3,
    )


def test_schema_shows_forked_children_on_request(inner: Inner) -> None:
    """However they end, theirs as well; those that lived before, from the beginning of the test."""
    inner.run(
        """
def test_ends(pfs_schema, tmp_path):
    fork(lambda: use(tmp_path / "a"))                             # os._exit: leaves its segment
    fork(lambda: fork(lambda: use(tmp_path / "b", times=2)))       # a child's child
    fork(lambda: (use(tmp_path / "d", times=4), os.execv(sys.executable, [sys.executable, "-c", ""])))
    pid = os.fork()
    if pid == 0:
        use(tmp_path / "c", times=3)
        import atexit, ctypes
        atexit._run_exitfuncs()
        ctypes.CDLL(None).exit(0)                                  # a clean exit removes the segment, if nobody wants it
    assert os.waitpid(pid, 0)[1] == 0
    assert len(pfs_schema.events()) == 0
    waits = pfs_schema.table("events_waits_summary_global_by_event_name", children=True)
    assert list(waits.columns[:3]) == ["PID", "CHANGE", "EVENT_NAME"]
    assert sorted(waits["COUNT_STAR"]) == [7, 14, 21, 28]
    assert os.getpid() not in set(waits["PID"]) and waits["PID"].nunique() == 4
    assert len(pfs_schema.events(children=True)) == 70

def test_lives(request, tmp_path):
    a, b = os.pipe()
    c, d = os.pipe()
    pid = os.fork()
    if pid == 0:
        use(tmp_path / "before", times=5)
        os.write(b, b".")
        os.read(c, 1)
        use(tmp_path / "meanwhile")
        os.write(b, b".")
        os.read(c, 1)
        os._exit(0)
    os.read(a, 1)
    schema = request.getfixturevalue("pfs_schema")
    os.write(d, b".")
    os.read(a, 1)
    try:
        waits = schema.table("events_waits_summary_global_by_event_name", children=True)
        assert waits[["PID", "COUNT_STAR"]].values.tolist() == [[pid, 7]]
    finally:
        os.write(d, b".")
        os.waitpid(pid, 0)
""",
        passed=2,
    )


def test_a_child_that_outlives_the_session_leaves_nothing(inner: Inner) -> None:
    """Nobody would read its segment, nor remove it."""
    inner.may_be_left = 1
    inner.run(
        """
def test(pfs_schema):
    a, b = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(b)
        os.read(a, 1)  # nothing: until pytest has ended
        import atexit, ctypes
        while os.path.exists("wait"):
            pass
        atexit._run_exitfuncs()
        ctypes.CDLL(None).exit(0)
    open("wait", "w").close()
""",
        passed=1,
    )
    (inner.pytester.path / "wait").unlink()
    until = time.monotonic() + 60
    while inner.left_behind() and time.monotonic() < until:
        time.sleep(0.05)
    assert inner.left_behind() == 0


# The marker pfs_budget.

BUDGETS = """
LOCK = pfs.Lock("app/LOCK")
mark = pytest.mark.pfs_budget

@mark(max_events={"wait/io/file/%": 7, "wait/synch/%": 0}, max_bytes_written="50 B", max_wait="1 min", max_lost=0)
@mark(max_bytes_read=0)
def test_within(tmp_path):
    use(tmp_path / "a")

@mark(max_events={"wait/io/file/%": 10, "wait/synch/%": 1})
def test_events(tmp_path):
    use(tmp_path / "a", times=2)
    with LOCK:
        pass

@mark(max_bytes_written="1.2 kB", max_bytes_read="10 B")
def test_bytes(tmp_path):
    use(tmp_path / "a", times=30)
    (tmp_path / "b").write_text("y" * 50)
    with pfs.open(tmp_path / "b", name="app/other") as file:
        file.read()

@mark(max_wait={"wait/app%": 60, "wait/synch/%": "1 ns"}, max_lock_wait=1e-9)
def test_time():
    with LOCK, LOCK2:
        pass
LOCK2 = pfs.RLock("app/RLOCK")

@mark(max_events={"statement/%": 2})
def test_statements():
    for _ in range(3):
        with pfs.statement("app/query", "SELECT 1"):
            pass

@mark(max_events=10)
def test_threads(tmp_path):
    thread = threading.Thread(target=use, args=(tmp_path / "a", 2))
    thread.start()
    thread.join()

@mark(max_events=10)
def test_children(tmp_path):
    context = multiprocessing.get_context("fork")
    for i in range(20):  # more than segments of dead ones may lie about
        process = context.Process(target=use, args=(tmp_path / str(i),))
        process.start()
        process.join()
    assert len(os.listdir(os.environ["PFS_DIR"])) < 20

@mark(max_events=0)
def test_own_failure_comes_first(tmp_path):
    use(tmp_path / "a")
    assert tmp_path is None

@mark(max_events=0)
def test_truncate_in_between(tmp_path):
    use(tmp_path / "a", times=2)
    pfs.truncate("events_waits_summary_global_by_event_name")
    with LOCK:
        pass

@mark(max_events=3)
def test_many_rows():
    for i in range(12):
        with pfs.Lock(f"app/LOCK_{i:02}"):
            pass
"""


def test_budget_says_what_was_too_much_and_of_which_instruments(inner: Inner) -> None:
    lines = inner.run(BUDGETS, passed=1, failed=9)
    head = ["EVENT_NAME", "EVENTS", "WAITED", "READ", "WRITTEN"]

    said, columns, _, row = after(lines, "max_events of wait/io/file/%: 14", 3)
    assert said == "max_events of wait/io/file/%: 14 events, the limit is 10"
    assert cells(columns) == head
    assert cells(row)[:2] == [DATA, "14"]
    assert cells(row)[3:] == ["-", "100 B"]
    assert not any(line.startswith("max_events of wait/synch/%") for line in lines)

    said, _, _, row = after(lines, "max_bytes_written", 3)
    assert said == "max_bytes_written: 1.5 KiB written, the limit is 1.2 KiB"
    assert cells(row)[0] == DATA
    said, _, _, row = after(lines, "max_bytes_read", 3)
    assert said == "max_bytes_read: 50 B read, the limit is 10 B"
    assert cells(row)[0] == "wait/io/file/app/other"

    said, _, _, one, two = after(lines, "max_wait of wait/synch/%", 4)
    assert re.fullmatch(r"max_wait of wait/synch/%: \S+ .s waited, the limit is 1 ns", said)
    assert {cells(one)[0], cells(two)[0]} == {"wait/synch/mutex/app/LOCK", "wait/synch/mutex/app/RLOCK"}
    assert after(lines, "max_lock_wait: ", 0)[0].endswith("the limit is 1 ns")

    assert cells(after(lines, "max_events of statement/%: 3 events, the limit is 2", 3)[3])[:2] == ["statement/app/query", "3"]
    assert cells(after(lines, "max_events: 14 events, the limit is 10", 3)[3])[:2] == [DATA, "14"]
    assert cells(after(lines, "max_events: 140 events, the limit is 10", 3)[3])[:2] == [DATA, "140"]
    assert cells(after(lines, "max_events: 1 event, the limit is 0", 3)[3])[0] == "wait/synch/mutex/app/LOCK"
    limit = next(i for i, line in enumerate(lines) if "max_events: 7 events" in line)
    own = next(i for i, line in enumerate(lines) if line.startswith(">") and "tmp_path is None" in line)
    assert own < limit
    shown = after(lines, "max_events: 12 events, the limit is 3", 13)
    assert cells(shown[12])[0] == "wait/synch/mutex/app/LOCK_09"
    assert shown[13] == "(2 more)"


def test_settings_hold_for_all_tests_until_a_marker_says_otherwise(inner: Inner) -> None:
    inner.pytester.makeini("""
[pytest]
pfs_budget_max_events =
    wait/io/file/% = 7
    wait/synch/% = 3
pfs_budget_max_bytes_written = 60
pfs_budget_max_lost = 0
pfs_budget_max_wait = 2.5 min
""")
    lines = inner.run(
        """
pytestmark = pytest.mark.pfs_budget(max_bytes_written="1 kB")

def test_of_all(tmp_path):
    use(tmp_path / "a", times=2)

@pytest.mark.pfs_budget(max_events={"wait/io/file/%": 14})
class TestOfClass:
    def test_good(self, tmp_path):
        use(tmp_path / "a", times=2)

    @pytest.mark.pfs_budget(max_events=None)
    def test_lifted(self, tmp_path):
        use(tmp_path / "a", times=20)

    @pytest.mark.pfs_budget(max_events=None, max_bytes_written=10)
    def test_own(self, tmp_path):
        use(tmp_path / "a")
""",
        passed=2,
        failed=2,
    )
    assert after(lines, "max_events of", 0) == ["max_events of wait/io/file/%: 14 events, the limit is 7"]
    assert after(lines, "max_bytes_written", 0) == ["max_bytes_written: 50 B written, the limit is 10 B"]


def test_lost_events_and_objects(inner: Inner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_max_mutex_instances=1")
    lines = inner.run(
        """
@pytest.mark.pfs_budget(max_lost=1)
def test_lost():
    locks = [pfs.Lock("app/LOCK") for _ in range(3)]
    assert pfs.status["performance_schema_mutex_instances_lost"] == 2

@pytest.mark.pfs_budget(max_lost=0)
def test_nothing_lost():
    pass
""",
        failed=1,
        passed=1,
    )
    assert after(lines, "max_lost=1: 2 were lost because a buffer was full; pfs.status counts them", 0)


def test_a_budget_fails_where_pfs_is_off_and_warns_where_instruments_are(inner: Inner, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
@pytest.mark.pfs_budget(max_wait=60, max_events={"wait/synch/%": 0})
def test_blind(tmp_path):
    with pfs.setup_instruments:
        use(tmp_path / "a")
    LOCKS = [pfs.Lock(f"app/LOCK_{i}") for i in range(4)]
    pfs.setup_instruments.update("wait/io/file/%", timed=False)
    pfs.setup_instruments.update("wait/synch/%/app/%", enabled=False)
"""
    lines = inner.run(body, "-W", "default", passed=1, warnings=2)
    warnings = "\n".join(lines)
    assert re.search(r"max_wait does not see wait/\S+, wait/\S+, wait/\S+ and \d+ more: off in setup_instruments", warnings)
    assert "max_events does not see wait/synch/mutex/app/LOCK_0, " in warnings
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema=OFF")
    lines = inner.run(body, failed=1)
    assert "pfs_budget: pfs is off, nothing is counted: performance_schema is OFF" in lines


BAD = {
    'max_wiat="1s"': "unknown keyword 'max_wiat': legal are max_wait, max_lock_wait, max_events, ",
    'max_wait="10 msec"': "bad value '10 msec' for max_wait: legal is seconds, a timedelta, or a text such as '10ms' "
    "(ps, ns, us, ms, s, min), or",
    "max_wait=-1": "bad value -1 for max_wait",
    "max_wait=True": "bad value True for max_wait",
    "max_wait=float('nan')": "bad value nan for max_wait",
    "max_events=1.5": "bad value 1.5 for max_events: legal is a whole number from 0 on, or a dict",
    "max_events={}": "bad value {} for max_events: legal are patterns of instruments",
    "max_events={1: 2}": "bad value {1: 2} for max_events",
    "max_events={'wait/%': None}": "bad value None for max_events",
    "max_bytes_read='1 KB'": "bad value '1 KB' for max_bytes_read: legal is bytes, or a text as '4 KiB'",
    "max_lost={'a': 1}": "bad value {'a': 1} for max_lost: legal is a whole number from 0 on; None lifts it",
    "max_overhead_ratio=0": "bad value 0 for max_overhead_ratio: legal is a number above 0; None lifts it",
}


@pytest.mark.parametrize("keywords", BAD)
def test_bad_keywords_are_named_with_what_is_legal(keywords: str) -> None:
    arguments = eval(f"dict({keywords})")
    limits = budget.Budget()
    with pytest.raises(InvalidValue) as error:
        limits.set(arguments)
    assert str(error.value).startswith(BAD[keywords])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("max_wiat=1", "unknown keyword 'max_wiat': legal are max_wait, "),
        ("3", "pfs_budget takes keywords only, not 3"),
        (
            "max_overhead_ratio=1.1",
            "max_overhead_ratio limits what the fixture pfs_overhead measures, and this test does not use it",
        ),
    ],
)
def test_bad_marker_is_a_usage_error_before_any_test_runs(inner: Inner, arguments: str, said: str) -> None:
    lines = inner.run(f"def test_good(): print('ran')\n@pytest.mark.pfs_budget({arguments})\ndef test_bad(): pass\n", "-s")
    assert inner.status == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: test_inner.py::test_bad: pytest.mark.pfs_budget: {said}" in "\n".join([*lines, *inner.errors])
    assert "ran" not in lines


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("pfs_budget_max_wait = soon", "pfs_budget_max_wait: bad value 'soon' for max_wait: legal is seconds"),
        ("pfs_budget_max_lost = many", "pfs_budget_max_lost: bad value 'many' for max_lost"),
        (
            "pfs_budget_max_events =\n    = 3",
            "pfs_budget_max_events: bad line '= 3' for max_events: legal are one number, or lines",
        ),
        (
            "pfs_budget_max_lost = 0\npfs_baseline_tolerance = some",
            "pfs_baseline_tolerance: bad line 'some': legal are '10%' or '3'",
        ),
    ],
)
def test_bad_setting_is_a_usage_error(inner: Inner, setting: str, said: str) -> None:
    inner.pytester.makeini(f"[pytest]\n{setting}\n")
    lines = inner.run("def test(): pass\n")
    assert inner.status == pytest.ExitCode.USAGE_ERROR
    assert said in "\n".join([*lines, *inner.errors])


def test_values_have_units() -> None:
    limits = budget.Budget()
    limits.set({"max_wait": "1.5 us", "max_lock_wait": 2, "max_bytes_read": "2KiB", "max_bytes_written": "1 MB", "max_lost": 0})
    assert limits.limits == {
        "max_wait": 1_500_000,
        "max_lock_wait": 2 * 10**12,
        "max_bytes_read": 2048,
        "max_bytes_written": 10**6,
        "max_lost": 0,
    }
    assert budget.parse_ini("max_wait", "2.5") == 2.5
    assert budget.parse_ini("max_events", "\n wait/% = 3\n idle = 4") == {"wait/%": "3", "idle": "4"}
    assert budget.parse_ini("max_events", "") is None


# Counting.


def test_totals_of_a_time() -> None:
    before = Totals({"a": [5, 50, 0, 0], "b": [1, 10, 0, 0], "same": [1, 1, 1, 1]}, lost=3)
    after = Totals({"a": [2, 20, 7, 0], "b": [3, 15, 0, 9], "c": [1, 1, 0, 0], "same": [1, 1, 1, 1]}, lost=4)
    done = after.since(before)
    assert done == Totals({"a": [2, 20, 7, 0], "b": [2, 5, 0, 9], "c": [1, 1, 0, 0]}, lost=1)  # a was truncated
    assert done + done - done == done
    assert Totals({"a": [1, 0, 0, 0]}) - Totals({"a": [1, 0, 0, 0]}) == Totals({})
    assert chosen(done.counts, ("A", "c%")) == {"a": [2, 20, 7, 0], "c": [1, 1, 0, 0]}


# Report, files, baseline.

THREE = """
def test_big(tmp_path):
    use(tmp_path / "a", times=100)
    with pfs.Lock("app/LOCK"):
        pass

def test_small(tmp_path):
    use(tmp_path / "a")

def test_nothing():
    pass
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_report_shows_who_waited_longest_and_for_what(inner: Inner, workers: int) -> None:
    """Also of what workers of pytest-xdist have counted."""
    parallel = ["-p", "xdist", "-n", str(workers)] if workers else []
    lines = inner.run(THREE, "--pfs-report", *parallel, passed=3)
    shown = after(lines, "2 of 3 tests", 7)
    assert [cells(line)[:2] for line in shown[3:]] == [
        ["test_inner.py::test_big", "701"],
        [DATA, "700"],
        ["wait/synch/mutex/app/LOCK", "1"],
        ["test_inner.py::test_small", "7"],
        [DATA, "7"],
    ]
    assert cells(shown[3])[3:] == ["-", "4.9 KiB"]
    assert re.match("=+ what tests waited for", lines[lines.index(shown[0]) - 1])


def test_report_of_the_first_ones(inner: Inner) -> None:
    lines = inner.run(THREE, "--pfs-report", "--pfs-report-top", "1", passed=3)
    assert after(lines, "1 of 3 tests", 0)
    assert not any("test_small" in line for line in lines)
    lines = inner.run(THREE, "--pfs-report", "--pfs-report-top", "0")
    assert "bad value 0 for --pfs-report-top: legal is a number from 1 on" in "\n".join([*lines, *inner.errors])


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_of_each_test(inner: Inner, form: str) -> None:
    inner.run(
        THREE + "\ndef test_fork(tmp_path):\n    fork(lambda: use(tmp_path / 'a'))\n",
        *("--pfs-snapshot-dir", "out", "--pfs-snapshot-format", form),
        passed=4,
    )
    folders = {}
    for folder in (inner.pytester.path / "out").iterdir():
        facts = json.loads((folder / "test.json").read_text())
        assert {path.name for path in folder.iterdir()} == {f"{name}.{form}" for name in facts["rows"]} | {"test.json"}
        folders[facts["test"].rpartition("::")[2]] = folder, facts
    assert set(folders) == {"test_big", "test_small", "test_nothing", "test_fork"}

    def read(test: str, table: str) -> pd.DataFrame:
        path = folders[test][0] / f"{table}.{form}"
        return pd.read_csv(path) if form == "csv" else pd.read_parquet(path)

    written = read("test_big", "file_summary_by_event_name")
    assert written[["EVENT_NAME", "SUM_NUMBER_OF_BYTES_WRITE"]].values.tolist() == [[DATA, 100 * BYTES_OF_USE]]
    assert len(read("test_small", "events_waits_history_long")) == EVENTS_OF_USE
    assert folders["test_small"][1]["counts"][DATA][0] == EVENTS_OF_USE
    assert folders["test_nothing"][1]["counts"] == {}
    child = read("test_fork", "events_waits_summary_global_by_event_name")
    assert child[["EVENT_NAME", "COUNT_STAR"]].values.tolist() == [[DATA, EVENTS_OF_USE]]


def with_times(small: int, locks: int = 1) -> str:
    return f"""
LOCK = pfs.Lock("app/LOCK")

def test_small(tmp_path):
    use(tmp_path / "a", times={small})
    for _ in range({locks}):
        with LOCK:
            pass

def test_nothing():
    pass
"""


def test_more_events_than_the_baseline_has(inner: Inner) -> None:
    file = inner.pytester.path / "folder" / "base.json"
    lines = inner.run(with_times(2), "--pfs-write-baseline", "folder/base.json", passed=2)
    assert f"pfs: 2 tests written to {file}" in lines
    stored = json.loads(file.read_text())
    assert stored["tests"]["test_inner.py::test_small"] == {DATA: 14, "wait/synch/mutex/app/LOCK": 1}
    text = file.read_text()
    compare = ("--pfs-fail-on-increase", "folder/base.json")

    inner.run(with_times(2), *compare, passed=2)
    inner.run(with_times(1), *compare, passed=2)
    lines = inner.run(with_times(3, locks=3), *compare, *("--pfs-write-baseline", "folder/base.json"), passed=1, failed=1)
    said, head, _, file_row, lock_row = after(lines, f"{file}: ", 4)
    assert said == f"{file}: 2 instruments have more events than there"
    assert cells(head) == ["EVENT_NAME", "EVENTS", "BASELINE", "ALLOWED"]
    assert cells(file_row) == [DATA, "21", "14", "14"]
    assert cells(lock_row) == ["wait/synch/mutex/app/LOCK", "3", "1", "1"]
    assert file.read_text() == text  # what failed is no new baseline

    inner.pytester.makeini("[pytest]\npfs_baseline_tolerance =\n    50%\n    wait/synch/% = 1\n")
    lines = inner.run(with_times(3, locks=3), *compare, failed=1, passed=1)
    assert cells(after(lines, f"{file}: 1 instruments", 3)[3]) == ["wait/synch/mutex/app/LOCK", "3", "1", "2"]
    inner.run(with_times(3, locks=2), *compare, passed=2)
    lines = inner.run(with_times(3, locks=2) + "\ndef test_new(tmp_path): use(tmp_path / 'a')\n", *compare, passed=3)
    assert f"pfs: not compared, because not in {file}: 1 test" in lines


def test_a_baseline_survives_a_moved_line(inner: Inner) -> None:
    """Of names that have a line or an address, as those of an unchanged program. Two that become one are added."""
    body = """
@pytest.mark.parametrize("case", [0])
def test_moves(case):
    for name in NAMES:
        with pfs.Lock(name):
            pass
"""
    names = ["python/shop:4", "python/shop:41", "libx/data+0x15eac8", "app/LOCK"]
    inner.run(f"NAMES = {names}\n{body}", "--pfs-write-baseline", "base.json", passed=1)
    (stored,) = json.loads((inner.pytester.path / "base.json").read_text())["tests"].values()
    assert stored == {f"wait/synch/mutex/{name}": n for name, n in {"python/shop": 2, "libx/data": 1, "app/LOCK": 1}.items()}
    moved = ["python/shop:5", "python/shop:40", "libx/data+0x1", "app/LOCK"]
    inner.run(f"NAMES = {moved}\n{body}", "--pfs-fail-on-increase", "base.json", passed=1)
    lines = inner.run(f"NAMES = {[*moved, 'python/shop:6']}\n{body}", "--pfs-fail-on-increase", "base.json", failed=1)
    table = after(lines, f"{inner.pytester.path}/base.json: 1 instruments", 4)
    assert cells(table[3]) == ["wait/synch/mutex/python/shop", "3", "2", "2"]
    assert table[4].startswith("at test_inner.py:")


SHARED = """
import orders

@pytest.mark.pfs_budget(max_events={"wait/io/file/%": 10, "wait/io/%": 1000}, max_bytes_written="1 B")
def test_two(tmp_path):
    orders.use(tmp_path / "a", times=2)

@pytest.mark.pfs_budget(max_lost=0)
def test_good(tmp_path):
    orders.use(tmp_path / "a")

@pytest.mark.pfs_budget(max_overhead_ratio=2)
def test_of_no_line(pfs_overhead):
    pass

@pytest.mark.pfs_budget(max_events={"wait/io/file/%": 1})
def test_fails_itself(tmp_path):
    orders.use(tmp_path / "a")
    assert tmp_path is None
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_results_for_programs_and_pull_requests(inner: Inner, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """The same limit is in the JSON, the Markdown and an annotation, at the line of the program."""
    folder = inner.pytester.path
    (folder / "orders.py").write_text(HELPERS)
    arguments = ["--pfs-json", "out/pfs.json", "--pfs-markdown", "out/pfs.md", "-p", "no:randomly"]
    arguments += ["-p", "xdist", "-n", str(workers)] if workers else []
    lines = inner.run(SHARED, *arguments, passed=1, failed=3)
    assert not any(line.startswith("::") for line in lines)
    report = json.loads((folder / "out/pfs.json").read_text())
    assert report["pfs_report"] == 1
    two = report["tests"]["test_inner.py::test_two"]
    assert two["instruments"][DATA]["events"] == 14
    assert two["instruments"][DATA]["bytes_written"] == 100
    assert report["tests"]["test_inner.py::test_good"]["exceeded"] == []
    first, second = two["exceeded"]
    assert first["limit"] == "max_events of wait/io/file/%: 14 events, the limit is 10"
    assert second["limit"] == "max_bytes_written: 100 B written, the limit is 1 B"
    assert (first["file"], HELPERS.splitlines()[first["line"] - 1].strip()[:4]) in {("orders.py", "with"), ("orders.py", "file")}
    (of_failed,) = report["tests"]["test_inner.py::test_fails_itself"]["exceeded"]
    assert of_failed["limit"] == "max_events of wait/io/file/%: 7 events, the limit is 1"
    (without_line,) = report["tests"]["test_inner.py::test_of_no_line"]["exceeded"]
    source = (folder / "test_inner.py").read_text().splitlines()
    assert without_line["file"] == "test_inner.py"
    assert "test_of_no_line" in "".join(source[without_line["line"] - 1 :][:2])

    markdown = (folder / "out/pfs.md").read_text()
    assert markdown.startswith("### pfs: 3 of 4 tests did more than they may\n")
    assert f"<code>test_inner.py::test_two</code> at orders.py:{first['line']}" in markdown
    assert first["text"] in markdown
    assert re.search(r"^\| `test_inner.py::test_good` \| 7 \| [\d.]+ .s \|$", markdown, re.MULTILINE)

    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "out/pfs.md"))
    lines = inner.run(SHARED, *arguments, passed=1, failed=3)
    said = [line for line in lines if line.startswith("::error ")]
    assert len(said) == 4
    assert any(
        line.startswith(
            f"::error file={folder.name}/orders.py,line={first['line']},title=pfs::test_inner.py::test_two: max_events of"
        )
        and "wait/io/file/%25: 14 events, the limit is 10%0A" in line
        for line in said
    )
    assert (folder / "out/pfs.md").read_text().count("### pfs") == 2  # others write to this file, too


@pytest.mark.parametrize("baseline", [True, False])
def test_action_of_github(inner: Inner, root: Path, baseline: bool) -> None:
    """Its step, as a runner does it."""
    import yaml  # type: ignore[import-untyped]

    (step,) = yaml.safe_load((root / ".github/actions/pytest/action.yml").read_text())["runs"]["steps"]
    assert step["env"] == {name.upper(): f"${{{{ inputs.{name} }}}}" for name in ("arguments", "instrument", "baseline", "json")}
    (inner.pytester.path / "orders.py").write_text(HELPERS)
    inner.run(SHARED, "--pfs-write-baseline", "base file.json")
    given = {
        "ARGUMENTS": "-p pytest_pfs -k good",
        "INSTRUMENT": "false",
        "BASELINE": "base file.json" * baseline,
        "JSON": "pfs.json",
    }
    environment = os.environ | given | {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md"}
    changed = SHARED.replace('"a")', '"a", times=2)')
    inner.pytester.makepyfile(test_inner=HELPERS + changed)
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env=environment, cwd=inner.pytester.path, capture_output=True, text=True
    )
    assert done.returncode == int(baseline), done.stdout + done.stderr
    assert ("::error file=orders.py,line=" in done.stdout) == baseline
    (found,) = json.loads((inner.pytester.path / "pfs.json").read_text())["tests"].values()
    assert found["passed"] == (not baseline)
    assert f"{int(baseline)} of 1 tests" in (inner.pytester.path / "summary.md").read_text()


def test_baseline_of_workers(inner: Inner) -> None:
    parallel = ("-p", "xdist", "-n", "2")
    inner.run(with_times(1), "--pfs-write-baseline", "base.json", *parallel, passed=2)
    assert (
        json.loads((inner.pytester.path / "base.json").read_text())["tests"]["test_inner.py::test_small"][DATA] == EVENTS_OF_USE
    )
    lines = inner.run(with_times(2), "--pfs-fail-on-increase", "base.json", *parallel, passed=1, failed=1)
    assert cells(after(lines, f"{inner.pytester.path}/base.json: 1 instruments", 3)[3]) == [DATA, "14", "7", "7"]


@pytest.mark.parametrize("option", ["--pfs-fail-on-increase", "--pfs-write-baseline"])
def test_files_that_are_no_baseline(inner: Inner, option: str) -> None:
    file = inner.pytester.path / "base.json"
    for text in ("nothing", "[]", "{}", '{"pfs_baseline": 1, "tests": {"a": 3}}'):
        file.write_text(text)
        lines = inner.run("def test(): pass\n", option, "base.json")
        assert inner.status == pytest.ExitCode.USAGE_ERROR
        assert f"{option}: {file} is no baseline that --pfs-write-baseline has made" in "\n".join([*lines, *inner.errors])
        assert file.read_text() == text
    lines = inner.run("def test(): pass\n", "--pfs-fail-on-increase", "none.json")
    none = inner.pytester.path / "none.json"
    said = "\n".join([*lines, *inner.errors])
    assert f"--pfs-fail-on-increase: there is no {none}: --pfs-write-baseline {none} makes it" in said


# The fixture pfs_overhead.


@pytest.mark.alone
def test_overhead_is_measured_and_limited(inner: Inner) -> None:
    """A function that does much more while instruments are on, so that no clock is bad enough to miss it."""
    lines = inner.run(
        """
LOCK = pfs.Lock("app/LOCK")

def heavy():
    with LOCK:
        pass
    for _ in range(300_000 if pfs.setup_consumers["global_instrumentation"].enabled else 100):
        pass

@pytest.mark.pfs_budget(max_overhead_ratio=1e6, max_events=1)
def test_result(pfs_overhead):
    result = pfs_overhead(heavy, blocks=5, block_seconds=0.001)
    assert 1.5 < result.low <= result.ratio <= result.high
    assert result.on > result.off > 0 and result.blocks == 5
    assert pfs.setup_consumers["global_instrumentation"].enabled
    with LOCK:  # counts, what was measured does not
        pass

@pytest.mark.pfs_budget(max_overhead_ratio=1.5)
def test_too_much(pfs_overhead):
    pfs_overhead(heavy, blocks=5)

@pytest.mark.pfs_budget(max_overhead_ratio=1.5)
def test_forgotten(pfs_overhead):
    pass

def test_errors(pfs_overhead):
    def broken():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        pfs_overhead(broken)
    with pytest.raises(pfs.InvalidValue, match="bad value 3: pfs_overhead measures a function"):
        pfs_overhead(3)
    with pytest.raises(pfs.InvalidValue, match="bad value 4 for blocks: at least 5"):
        pfs_overhead(heavy, blocks=4)
    with pytest.raises(pfs.InvalidValue, match="bad value 0 for block_seconds"):
        pfs_overhead(heavy, block_seconds=0)
    with pfs.setup_consumers:
        pfs.setup_consumers["global_instrumentation"].enabled = False
        with pytest.raises(pfs.StateError, match="its consumer global_instrumentation"):
            pfs_overhead(heavy)
""",
        passed=2,
        failed=2,
    )
    (said,) = after(lines, "max_overhead_ratio=1.5: ", 0)
    assert re.fullmatch(r"max_overhead_ratio=1\.5: [\d.]+ \[[\d.]+, [\d.]+\] \(5 pairs of blocks of \d+ calls\)", said)
    assert after(lines, "max_overhead_ratio: the test did not call pfs_overhead(function)", 0)


# As on a machine whose processor does not count, as most virtual ones.
NO_COUNTER = """
from pfs._ui.testing import counted

def refuse(event=None):
    raise FileNotFoundError
counted.Processor = refuse
"""
# As on a loaded machine: there a call seems long, so that fewer of them are enough.
SLOW_BELOW_VALGRIND = """
from pfs._ui.testing import overhead

if "PFS_COUNTED_BELOW_VALGRIND" in os.environ:
    overhead._LONG_CALL = 0
"""


def counting(rounds: int, limit: float) -> str:
    return f"""{NO_COUNTER}{SLOW_BELOW_VALGRIND}
LOCK = pfs.Lock("app/LOCK")

def work():
    with LOCK:
        for _ in range({rounds}):
            pass

@pytest.mark.pfs_budget(max_instructions={limit}, max_events=0)
def test_counted(pfs_overhead, tmp_path):
    less = pfs_overhead(lambda: None, count="instructions")
    result = pfs_overhead(work, count="instructions")
    assert less.ratio == less.low == less.high == 1.0  # it has no instrument
    assert less.counted_by == result.counted_by == "valgrind"
    assert less.on < result.off < result.on
    assert result.off > 20 * {rounds}  # of each call
    with open("counts", "a") as file:
        print(result.on, file=file)
"""


@pytest.mark.needs("valgrind")
def test_one_instruction_in_fifty_is_seen(inner: Inner) -> None:
    """Of those that valgrind counts, with and without it in a loaded run."""

    def last() -> float:
        return float((inner.pytester.path / "counts").read_text().split()[-1])

    inner.run(counting(200, 1e9), passed=1)
    before = last()
    inner.run(counting(200, before * 1.005), "-p", "xdist", "-n", "1", passed=1)
    lines = inner.run(counting(204, before * 1.005), failed=1)
    assert 1.01 < last() / before < 1.02
    (said,) = after(lines, "max_instructions=", 0)
    assert re.fullmatch(
        r"max_instructions=\S+: 1\.\d{4} \([\d,.]+ instructions a call, [\d,.]+ without, counted by valgrind\)", said
    )


def test_the_counter_of_the_processor(inner: Inner) -> None:
    """A virtual machine has none of instructions; the kernel's own of nanoseconds goes the same way."""
    inner.run(
        """
from pfs._ui.testing import counted
counted.Processor.__init__.__defaults__ = ((1, 1),)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK

@pytest.mark.pfs_budget(max_instructions=1e12)
def test_counted(pfs_overhead):
    try:
        counted.Processor().close()
    except OSError as error:
        pytest.skip(str(error))
    descriptors = len(os.listdir("/proc/self/fd"))
    result = pfs_overhead(lambda: sum(range(1000)), count="instructions")
    assert result.counted_by == "perf_event_open"
    assert 1_000 < result.on < 1_000_000_000  # nanoseconds
    assert len(os.listdir("/proc/self/fd")) == descriptors

@pytest.mark.pfs_budget(max_instructions=1)
def test_not_counted(pfs_overhead):
    pfs_overhead(int, blocks=5)
""",
    )
    assert inner.status == 1
    inner.pytester.path.joinpath("test_inner.py").unlink()
    lines = inner.run(
        NO_COUNTER
        + """
def test_no_counter(pfs_overhead, monkeypatch):
    with pytest.raises(pfs.InvalidValue, match="bad value 'cycles' for count: legal are time, instructions"):
        pfs_overhead(int, count="cycles")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(pfs.StateError, match="counters of the processor, which are not here, or valgrind"):
        pfs_overhead(int, count="instructions")
""",
        passed=1,
    )
    assert lines


def test_interval_is_of_the_median() -> None:
    import random

    low, high = overhead.interval([1.0] * 20 + [9.0], random.Random(1))
    assert (low, high) == (1.0, 1.0)  # one disturbed pair says nothing
    low, high = overhead.interval([1.0 + i / 100 for i in range(31)], random.Random(1))
    assert 1.05 < low < 1.15 < high < 1.25


# The guide.


def test_settings_of_the_guide_are_legal(inner: Inner, root: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (root / "docs/howto/pytest.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    assert blocks[0].startswith("[tool.pytest.ini_options]\n")
    (inner.pytester.path / "pyproject.toml").write_text("".join(blocks))
    lines = inner.run("def test(tmp_path):\n    use(tmp_path / 'a', times=143)\n", failed=1)
    assert after(lines, "max_events of wait/io/file/%: 1,001 events, the limit is 1,000", 0)


def test_the_guide_names_every_keyword_and_option(root: Path) -> None:
    guide = (root / "docs/howto/pytest.md").read_text()
    plugin = (root / "python/pytest_pfs/__init__.py").read_text()
    options = set(re.findall(r'"(--pfs-[a-z-]+)"', plugin))
    assert len(options) == 9
    for name in (*budget.KEYWORDS, *options - {"--pfs-report-top"}):
        assert f"`{name}`" in guide or f"{name} " in guide, name
    for name in budget.KEYWORDS:
        assert name in plugin, name


# ---- What a test run must not notice, and what it should ---------------------------------------------------------------------

COUNTS_DESCRIPTORS = """
@pytest.fixture(autouse=True)
def no_new_descriptors():
    before = sorted(os.listdir("/proc/self/fd"))
    yield
    assert sorted(os.listdir("/proc/self/fd")) == before

def test_one(tmp_path): use(tmp_path / "a")
def test_two(tmp_path): use(tmp_path / "b")
"""


@pytest.mark.parametrize(
    "option", ["--pfs-report", "--pfs-write-baseline=b.json", "--pfs-snapshot-dir=s", "marker", "--pfs-fail-on-increase=old.json"]
)
def test_no_descriptor_is_opened_inside_a_test(inner: Inner, option: str) -> None:
    (inner.pytester.path / "old.json").write_text('{"pfs_baseline": 1, "tests": {}}')
    marker = "\npytestmark = pytest.mark.pfs_budget(max_events=1000)\n" if option == "marker" else ""
    inner.run(marker + COUNTS_DESCRIPTORS, *([] if option == "marker" else [option]), passed=2)


UNMATCHED = """
@pytest.mark.pfs_budget(max_events={"wait/io/fil/app/%": 10, "wait/io/file/app/%": 1000})
def test_typo(tmp_path): use(tmp_path / "a")
"""


def test_a_pattern_that_never_matched_fails_the_run(inner: Inner) -> None:
    lines = inner.run(UNMATCHED, passed=1)
    (line,) = [line for line in lines if "no instrument matched" in line]
    assert "'wait/io/fil/app/%'" in line
    assert "pytest --pfs-instrument records" in line
    assert f"the nearest is '{DATA}'" in line
    assert inner.status == 1


def test_a_limit_where_nothing_is_recorded_fails_the_run(inner: Inner) -> None:
    """A plain lock is no lock of pfs: without the option the limit holds whatever the program does."""
    test = """
import threading
@pytest.mark.pfs_budget(max_lock_wait="1ms")
def test():
    with threading.Lock(): pass
"""
    (line,) = [line for line in inner.run(test, passed=1) if "no instrument matched" in line]
    assert "'max_lock_wait' of a budget" in line
    assert "and the run fails: only pytest --pfs-instrument records" in line
    assert inner.status == 1
    own = test.replace("threading.Lock()", "pfs.Lock()").replace("threading", "pfs")
    assert "no instrument matched" not in "".join(inner.run(own, passed=1))
    assert inner.status == 0


def test_a_pattern_that_never_matched_may_pass(inner: Inner) -> None:
    assert "no instrument matched" in "".join(inner.run(UNMATCHED, "-o", "pfs_unmatched_pattern=warn", passed=1))
    assert inner.status == 0
    assert "no instrument matched" not in "".join(inner.run(UNMATCHED, "-o", "pfs_unmatched_pattern=ignore", passed=1))
    assert inner.status == 0
    nothing = '@pytest.mark.pfs_budget(max_events={"wait/io/fil/app/%": 0})\ndef test(): pass\n'
    assert "no instrument matched" not in "".join(inner.run(nothing, passed=1))
    assert inner.status == 0


def test_a_pattern_that_matches_later_is_no_mistake(inner: Inner) -> None:
    """An instrument exists from its first use."""
    body = """
MARK = pytest.mark.pfs_budget(max_events={"wait/io/file/app/%": 1000})
@MARK
def test_before(): pass
@MARK
def test_after(tmp_path): use(tmp_path / "a")
"""
    assert "no instrument matched" not in "".join(inner.run(body, passed=2))


def test_a_failure_names_the_lines(inner: Inner) -> None:
    body = """
@pytest.mark.pfs_budget(max_events={"wait/io/file/app/%": 3})
def test_too_much(tmp_path): use(tmp_path / "a")
"""
    lines = inner.run(body, failed=1)
    (line,) = [line for line in lines if line.lstrip("E ").startswith("at test_inner.py:")]
    assert "events" in line


def test_an_empty_report_says_why(inner: Inner) -> None:
    text = "\n".join(inner.run("def test_nothing(): pass\n", "--pfs-report", passed=1))
    assert "0 of 1 tests" in text
    assert "No test had an event. pfs records what uses its objects" in text


def test_a_test_with_statements_alone_is_in_the_report(inner: Inner) -> None:
    """A database in memory makes statements and no wait."""
    body = 'import pfs\ndef test_asks():\n    for _ in range(8):\n        with pfs.statement("app/query", "select 1"): pass\n'
    lines = inner.run(body, "--pfs-report", passed=1)
    shown = after(lines, "1 of 1 tests", 4)
    assert [cells(line)[:2] for line in shown[3:]] == [["test_inner.py::test_asks", "8"], ["statement/app/query", "8"]]
