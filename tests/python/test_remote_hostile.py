"""A changer adopts the segment of another process: whatever is in it, the changer changes it or says what is wrong. It neither crashes
nor hangs; and a segment that is as it should be is changed.

PFS_FUZZ_SECONDS and PFS_FUZZ_SEED: as for the fuzzers.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests.python._programs.segment_file import ARRAYS, ENTRY_BYTES, HEADER, SegmentFile, sparse_copy
from tests.python._programs.subject import subject

_WORK = """
import threading
lock = pfs.Lock("app/LOCK_a")
pfs.set_account("anna", "desk")
pfs.set_user_variable("mine", "x" * 1000)
pfs.login_failed("lamp", "bob")
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

_WORDS = [0, 1, 2, 3, 64, 4096, 65535, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, 1 << 63, (1 << 64) - 1]
_MOST_SECONDS = 40


def changes() -> None:
    """All that can be changed."""
    truncated = [name for name in _core.tables() if "TRUNCATE" in _core.facts(name)["operations"]]

    def one(change: object) -> None:
        try:
            _core.in_turn(change)  # type: ignore[arg-type]
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


class Damage(SegmentFile):
    """A segment of which words are changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.arrays = [self.array(name) for name in ARRAYS]  # as they were
        self.made: list[tuple[int, int, int]] = []  # where, old, new

    def make(self, dice: random.Random) -> None:
        """Changes a word of the header, of the directory, or of an element."""
        kind = dice.randrange(16)
        if kind == 0:
            at = HEADER["timers"] + dice.randrange(9000 // 4) * 4
        elif kind == 1:
            at = HEADER["arrays"] + dice.randrange(ENTRY_BYTES * len(ARRAYS) // 4) * 4
        else:
            array = dice.choice(self.arrays)
            if array.used < 2 or not array.reserved:
                return
            byte = dice.randrange(1, min(array.used, 2000)) * array.stride + dice.randrange(min(array.stride, 2048) // 4) * 4
            if byte >= array.mapped:
                return
            at = array.place(byte)
        if not self.has_memory(at):
            return
        (old,) = self.get(at, "<I")
        small, bit = dice.randrange(300), old ^ 1 << dice.randrange(32)
        word = dice.choice([small, bit, old + 1, dice.choice(_WORDS), dice.getrandbits(32)]) & 0xFFFFFFFF
        self.made.append((at, old, word))
        self.put(at, "<I", word)


def test_a_changer_survives_whatever_it_adopts(copy: Path) -> None:
    seed = int(os.environ.get("PFS_FUZZ_SEED", "1"))
    seconds = float(os.environ.get("PFS_FUZZ_SECONDS", "6"))
    dice = random.Random(seed)
    whole = copy.with_name("whole.pfs")
    sparse_copy(copy, whole)
    assert changed_in_a_process_of_its_own(copy) == 0
    found: Counter[int] = Counter()
    end = time.monotonic() + seconds
    bad = []
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        mutant = sparse_copy(whole, copy.with_name("mutant.pfs"))
        with Damage(mutant) as damage:
            for _ in range(dice.randrange(1, 24)):
                damage.make(dice)
        status = changed_in_a_process_of_its_own(mutant)
        found[status] += 1
        if status not in (0, 1):
            bad.append((rounds, status, damage.made))
        mutant.unlink()
    whole.unlink()
    print(f"\nseed {seed}: {rounds} mutants, by outcome {dict(found)}")
    assert not bad, (seed, bad[:3])
    assert found[0] > 0


@pytest.mark.parametrize("what", ["free list of setup_actors", "free list of setup_objects"])
def test_a_list_that_leads_out_or_is_a_circle_is_told(copy: Path, what: str) -> None:
    """The changer names what is wrong, and nothing is changed."""
    array = {"free list of setup_actors": "Actors", "free list of setup_objects": "ObjectRules"}[what]
    with SegmentFile(copy) as file:
        file.put_array(array, free_head=1 << 33)
    from pfs._remote import Remote

    with Remote(str(copy)) as remote, pytest.raises(pfs.AttachError, match=rf"is damaged \(the {what} is wrong\): it can be read but not changed"):
        remote.call("update", "setup_instruments", [], [("ENABLED", "NO")])
