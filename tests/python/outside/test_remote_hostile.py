"""A changer adopts the segment of another process: whatever is in it, the changer changes it or says what is wrong. It neither
crashes nor hangs; and a segment that is as it should be is changed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests import budgets
from tests.python._programs.segment_file import Damage, SegmentFile, sparse_copy
from tests.python._programs.subject import subject

_WORK = """
import threading
lock = pfs.Lock("app/LOCK_a")
pfs.set_account("anna", "desk")
pfs.server.set_user_variable("mine", "x" * 1000)
pfs.server.login_failed("lamp", "bob")
def work():
    for i in range(30):
        with lock: pass
        with pfs.open("/dev/null", name="app/data") as file: file.read()
        with pfs.transaction():
            with pfs.statement("app/query", text=f"SELECT {i} FROM t{i % 3}", schema="shop"):
                with pfs.stage("app/step"): pass
def other():
    pfs.set_account("bob", "lamp")
    work()
work()
thread = threading.Thread(target=other); thread.start(); thread.join()
pfs.set_account("carl", "door")
"""

_MOST_SECONDS = 40


def changes() -> None:
    """All that can be changed."""
    truncated = [name for name in _core.tables() if "TRUNCATE" in _core.table_info(name)["operations"]]

    def one(change: object) -> None:
        try:
            _core.in_outsider_section(change)  # type: ignore[arg-type]
        except pfs.Error as error:
            if "is damaged" in str(error):
                raise

    for flag in ("NO", "YES"):
        one(lambda flag=flag: _core.update("setup_instruments", [], [("ENABLED", flag)]))
        one(lambda flag=flag: _core.update("setup_consumers", [], [("ENABLED", flag)]))
        one(lambda flag=flag: _core.update("threads", [], [("HISTORY", flag)]))
        one(lambda flag=flag: _core.update("setup_objects", [], [("ENABLED", flag)]))
    one(lambda: _core.insert("setup_actors", [("USER", "u")]))
    one(lambda: _core.insert("setup_objects", [("OBJECT_SCHEMA", "s"), ("OBJECT_NAME", "o")]))
    one(lambda: _core.delete("setup_actors", [("USER", "u", False)]))
    one(lambda: _core.delete("setup_objects", [("OBJECT_SCHEMA", "s", False)]))
    for name in truncated:
        one(lambda name=name: _core.truncate(name))
    one(lambda: _core.insert("setup_objects", [("OBJECT_SCHEMA", "s"), ("OBJECT_NAME", "o")]))


def changed_in_a_process_of_its_own(path: Path) -> int:
    """0: done. 1: refused. Otherwise a wait status that should not be."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_MOST_SECONDS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            _core.adopt(str(path))
            changes()
            status = 0
        except pfs.Error:
            status = 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else status + (1 << 16)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    path = Path(f"/dev/shm/pfs-test-adopted-{os.getpid()}")
    path.mkdir(mode=0o700)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def copy(place: Path) -> Iterator[Path]:
    with subject(place) as program:
        program.do(_WORK)
        path = sparse_copy(program.path, place / "copy.pfs")
    yield path
    path.unlink()


def damage_and_change(copy: Path, seed: int, seconds: float) -> None:
    """In a process that has not started pfs: only such a one can adopt."""
    dice = random.Random(seed)
    whole, mutant = copy.with_name("whole.pfs"), copy.with_name("mutant.pfs")
    sparse_copy(copy, whole)
    assert changed_in_a_process_of_its_own(copy) == 0, "a segment as it should be is refused"
    found: Counter[int] = Counter()
    bad = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with Damage(sparse_copy(whole, mutant)) as damage:
            for _ in range(dice.randrange(1, 24)):
                damage.make(dice)
        status = changed_in_a_process_of_its_own(mutant)
        found[status] += 1
        if status not in (0, 1):
            bad.append((found.total(), status, damage.before))
    mutant.unlink()
    whole.unlink()
    print(f"seed {seed}: {found.total()} mutants, by outcome {dict(found)}", flush=True)
    assert not bad, bad[:3]
    assert found[0] > 0


def test_a_changer_survives_whatever_it_adopts(copy: Path, root: Path) -> None:
    seed = str(budgets.seed(1))
    seconds = str(budgets.REMOTE_FUZZ_SECONDS)
    script = (
        "import sys; from pathlib import Path; from tests.python.outside.test_remote_hostile import damage_and_change as run\n"
        "run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(copy), seed, seconds], cwd=root, capture_output=True, text=True, check=False
    )
    print(f"\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["free list of setup_actors", "free list of setup_objects"])
def test_a_list_that_leads_out_or_is_a_circle_is_reported(copy: Path, what: str) -> None:
    """The changer names what is wrong, and nothing is changed."""
    array = {"free list of setup_actors": "Actors", "free list of setup_objects": "ObjectRules"}[what]
    with SegmentFile(copy) as file:
        file.put_array(array, free_head=1 << 33)
    from pfs._process.remote import Remote

    with (
        Remote(str(copy)) as remote,
        pytest.raises(pfs.AttachError, match=rf"is damaged \(the {what} is wrong\): it can be read but not changed"),
    ):
        remote.call("update", "setup_instruments", [], [("ENABLED", "NO")])


def test_elements_that_have_no_memory_are_reported(copy: Path) -> None:
    """An array has 15 elements, and says that no byte of it is in the file."""
    with SegmentFile(copy) as file:
        file.put_array("Classes", mapped=0)
    from pfs._process.remote import Remote

    with (
        Remote(str(copy)) as remote,
        pytest.raises(pfs.AttachError, match=r"is damaged \(an array has more elements than .* is wrong\): it can be read but"),
    ):
        remote.call("update", "setup_instruments", [], [("ENABLED", "NO")])
