"""pytest --pfs-instrument: tests of a package that knows nothing of pfs, their counts against what they did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import MAY_FORK
from tests.python._programs.subject import clean_environment

SHOP = """
import sqlite3
import threading

LOCK = threading.RLock()

def order(path, count):
    for _ in range(count):
        with LOCK, open(path, "ab", buffering=0) as file:
            file.write(b"x" * 50)

def query(count):
    db = sqlite3.connect(":memory:")
    for number in range(count):
        db.execute("select ?", (number,)).fetchall()
    db.close()
"""
OTHER = """
import threading

LOCK = threading.RLock()

def take(count):
    for _ in range(count):
        with LOCK: pass
"""
TESTS = """
import os
import subprocess
import sys
import other
import shop

CHILD = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b'y' * int(sys.argv[2]))"

def child(path, size):
    subprocess.run([sys.executable, "-S", "-c", CHILD, path, str(size)], check=True)

def test_nothing():
    pass

def test_order(tmp_path):
    shop.order(tmp_path / "orders", 7)
    other.take(3)

def test_query():
    shop.query(4)

def test_program(tmp_path):
    child(tmp_path / "out", 1000)

def test_fork(tmp_path):
    if (pid := os.fork()) == 0:
        shop.order(tmp_path / "orders", 2)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
# As a baseline has them, which leaves lines out.
LOCK_OF_SHOP, LOCK_OF_OTHER = "wait/synch/mutex/python/shop", "wait/synch/mutex/python/other"
STATEMENTS = "statement/sqlite/statement"

Session = Callable[..., "subprocess.CompletedProcess[str]"]
Counts = dict[str, dict[str, int]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Runs pytest in a folder of its own, with `TESTS` or another text, and returns what it said."""
    folder, segments = tmp_path / "project", tmp_path / "segments"
    folder.mkdir()
    segments.mkdir(mode=0o700)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "shop.py").write_text(SHOP)
    (folder / "other.py").write_text(OTHER)
    own = clean_environment(segments, PYTHONDONTWRITEBYTECODE="1")
    environment = {name: value for name, value in own.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    def run(*arguments: str, tests: str = TESTS, status: int = 0) -> subprocess.CompletedProcess[str]:
        (folder / "test_shop.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", "-p", "pytest_pfs", "-p", "no:cacheprovider", "-W", "error", *MAY_FORK]
        # Not in the folder that all sessions share: pytest takes the rights of others away there, which servers of tests need.
        command += [f"--basetemp={tmp_path / 'of_session'}", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=300)
        assert done.returncode == status, done.stdout + done.stderr
        assert list(segments.iterdir()) == []
        return done

    return run


def counts(path: Path) -> Counts:
    tests = json.loads(path.read_text())["tests"]
    return {test.rpartition("::")[2]: found for test, found in tests.items()}


def of(found: dict[str, int], prefix: str) -> int:
    return sum(count for name, count in found.items() if name.startswith(prefix))


@pytest.mark.parametrize("workers", [0, 2])
def test_counts_are_what_the_tests_did(session: Session, tmp_path: Path, workers: int) -> None:
    """Also of programs that a test starts and of children that it forks, each in the test that did it."""
    parallel = ("-p", "xdist", "-n", str(workers)) if workers else ()
    done = session("--pfs-instrument", "--pfs-write-baseline", str(tmp_path / "base.json"), *parallel)
    found = counts(tmp_path / "base.json")
    assert {test: counts.get(LOCK_OF_SHOP, 0) for test, counts in found.items() if test != "test_fork"} == {
        "test_nothing": 0,
        "test_order": 7,
        "test_query": 0,
        "test_program": 0,
    }
    assert {test: counts.get(STATEMENTS, 0) for test, counts in found.items()}["test_query"] == 4
    assert {test: of(counts, "statement/") for test, counts in found.items() if test != "test_query"} == dict.fromkeys(
        ("test_nothing", "test_order", "test_program", "test_fork"), 0
    )
    assert found["test_order"][LOCK_OF_OTHER] == 3
    if not workers:  # a worker's own threads work meanwhile
        assert found["test_nothing"] == {}
    written = {line.split()[0]: line.split()[-2:] for line in done.stdout.splitlines() if line.startswith("test_shop.py::")}
    assert written["test_shop.py::test_order"] == ["350", "B"]
    assert written["test_shop.py::test_program"] == ["1000", "B"]
    assert written["test_shop.py::test_fork"] == ["100", "B"]


def test_what_the_fixture_reads_is_no_work_of_the_test(session: Session) -> None:
    tests = """
import shop

def test_order(tmp_path, pfs_schema):
    shop.order(tmp_path / "orders", 7)
    for _ in range(2):
        files = pfs_schema.table("file_summary_by_instance")
        names = list(files["FILE_NAME"])
        assert [name for name in names if name.endswith("/orders")]
        assert not [name for name in names if name.startswith("/proc/") or "/segments" in name]
"""
    assert "1 passed" in session("--pfs-instrument", tests=tests).stdout


def test_budget_of_a_package_that_knows_nothing_of_pfs(session: Session) -> None:
    tests = f"""
import pytest, shop

@pytest.mark.pfs_budget(max_events={{"{STATEMENTS}": 3}})
def test_good(): shop.query(3)

@pytest.mark.pfs_budget(max_events={{"{STATEMENTS}": 3}})
def test_bad(): shop.query(4)

@pytest.mark.pfs_budget(max_bytes_written=99)
def test_written(tmp_path): shop.order(tmp_path / "orders", 2)
"""
    said = session("--pfs-instrument", tests=tests, status=1).stdout
    assert f"max_events of {STATEMENTS}: 4 events, the limit is 3" in said
    assert "max_bytes_written" in said
    assert "2 failed, 1 passed" in said


def test_a_limit_of_waits_for_locks_counts_no_join_and_no_idle_pool(session: Session) -> None:
    tests = """
import concurrent.futures, threading, time
import pytest

pytestmark = pytest.mark.pfs_budget(max_lock_wait="50ms")

def test_join():
    thread = threading.Thread(target=time.sleep, args=(0.3,))
    thread.start()
    thread.join()

def test_pool():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(abs, range(9)))
        time.sleep(0.3)
        pool.submit(abs, 1).result()

def test_held():
    lock = threading.Lock()
    def hold():
        with lock:
            taken.set()
            time.sleep(0.3)
    taken = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    with lock:
        pass
    thread.join()
"""
    said = session("--pfs-instrument", tests=tests, status=1).stdout
    assert "1 failed, 2 passed" in said, said
    assert "FAILED test_shop.py::test_held" in said
    assert "max_lock_wait: " in said


def test_a_setting_records_as_the_option_does(session: Session) -> None:
    tests = f"""
import pytest, shop

@pytest.mark.pfs_budget(max_events={{"{STATEMENTS}": 3}})
def test_bad(): shop.query(4)
"""
    said = session(tests=tests, status=1).stdout  # nothing is recorded, so the budget limits nothing
    assert f"no instrument matched '{STATEMENTS}'" in said
    assert "pytest --pfs-instrument records" in said
    for value in ("true", "shop"):
        said = session("-o", f"pfs_instrument={value}", tests=tests, status=1).stdout
        assert f"max_events of {STATEMENTS}: 4 events, the limit is 3" in said
    assert "no instrument matched" in session("-o", "pfs_instrument=false", tests=tests, status=1).stdout
    assert "'a/b' is no package" in session("-o", "pfs_instrument=a/b", tests=tests, status=4).stderr


def test_baseline_holds_from_run_to_run_and_says_what_became_more(session: Session) -> None:
    path = "base.json"
    session("--pfs-instrument", "--pfs-write-baseline", path)
    for _ in range(2):
        session("--pfs-instrument", "--pfs-fail-on-increase", path)
    more = TESTS.replace('"orders", 7', '"orders", 8')
    said = session("--pfs-instrument", "--pfs-fail-on-increase", path, tests=more, status=1).stdout
    assert [line.split() for line in said.splitlines() if line.startswith(LOCK_OF_SHOP)] == [[LOCK_OF_SHOP, "8", "7", "7"]]


def test_locks_of_a_package_only(session: Session, tmp_path: Path) -> None:
    session("--pfs-instrument=shop", "--pfs-write-baseline", str(tmp_path / "base.json"))
    found = counts(tmp_path / "base.json")["test_order"]
    assert found[LOCK_OF_SHOP] == 7
    assert [name for name in found if name.startswith("wait/synch/")] == [LOCK_OF_SHOP]
    assert of(found, "wait/io/file/") >= 7 * 3  # open, write, close


def test_schema_shows_the_recorded_tables(session: Session) -> None:
    tests = f"""
import shop

def test(pfs_schema, tmp_path):
    shop.order(tmp_path / "orders", 5)
    shop.query(2)
    files = pfs_schema.table("file_summary_by_instance").set_index("FILE_NAME")
    assert files.loc[str(tmp_path / "orders"), "SUM_NUMBER_OF_BYTES_WRITE"] == 250
    locks = pfs_schema.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")
    assert locks.loc["{LOCK_OF_SHOP}:5", "COUNT_STAR"] == 5
    texts = pfs_schema.events("events_statements_history_long")["SQL_TEXT"].fillna("prepare")
    assert list(texts) == ["prepare", "select ?", "select ?"]
"""
    session("--pfs-instrument", tests=tests)


def test_a_session_is_as_without(session: Session) -> None:
    """The outcomes, the captured output, sys.path and the exit code, also that of a signal."""
    tests = """
import os, sys
import pytest

def test_path(): assert sys.path[0] == os.getcwd(), sys.path
def test_fails():
    print("printed")
    os.write(1, b"written\\n")
    assert 1 == 2
def test_skipped(): pytest.skip("for a reason")
"""
    plain = session("-rs", tests=tests, status=1).stdout.splitlines()
    recorded = session("-rs", "--pfs-instrument", tests=tests, status=1).stdout.splitlines()
    start = recorded.index(next(line for line in recorded if "what tests waited for (pfs)" in line))
    assert recorded[:start] == plain[: plain.index(next(line for line in plain if "short test summary" in line))]
    assert recorded[-1].strip("= ").split(" in ")[0] == plain[-1].strip("= ").split(" in ")[0] == "1 failed, 1 passed, 1 skipped"
    assert session("--pfs-instrument", tests="def test(): import os; os.kill(os.getpid(), 15)\n", status=-15).stdout
    session("--pfs-instrument", tests="", status=5)  # no tests


def test_a_test_that_is_run_again_counts_its_last_run(session: Session, tmp_path: Path) -> None:
    """As pytest-rerunfailures runs it: without its own protocol. Such a test counted nothing."""
    (tmp_path / "project/again.py").write_text("""
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(3):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
""")
    tests = """
import shop
runs = []
def test_again():
    runs.append(0)
    shop.query(10 * len(runs) + 1)
    assert len(runs) == 2
"""
    session("--pfs-instrument", "--pfs-write-baseline", str(tmp_path / "base.json"), "-p", "again", tests=tests)
    assert counts(tmp_path / "base.json")["test_again"][STATEMENTS] == 21


@pytest.mark.parametrize("value", ["tests/unit", "test_shop.py", "shop,1"])
def test_a_value_that_is_no_package_is_refused(session: Session, value: str) -> None:
    said = session(f"--pfs-instrument={value}", status=4).stderr
    assert f"--pfs-instrument: {value.rpartition(',')[2]!r} is no package: legal are names as in import" in said
