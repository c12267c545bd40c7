"""Random programs against a plain model of what the tables must show (model.py), at every step."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.python._programs.fresh_process import ROOT, environment

Program = list[tuple[Any, ...]]
Judge = Callable[[Program], str]

EXAMPLES = int(os.environ.get("PFS_MODEL_EXAMPLES", "150"))

T = N = range(6)  # which thread, which of something
YES = (1, 1, 1, 0)
SIZE = (0, 1, 7, 100, 4096)
# What each step may be given.
STEPS: dict[str, tuple[Sequence[int], ...]] = {
    "new_mutex": (N,),
    "lock": (T, N),
    "trylock": (T, N),
    "unlock": (N,),
    "free_mutex": (N,),
    "rwlock": (T, N, N),
    "rwunlock": (N, N),
    "free_rwlock": (N,),
    "cond": (T, N),
    "free_cond": (N,),
    "own_begin": (T, N),
    "end_wait": (T, N),
    "open": (T, N, YES),
    "read": (T, N, SIZE),
    "write": (T, N, SIZE),
    "seek": (T, N, SIZE),
    "close": (T, N),
    "stat": (T, N),
    "rename": (T, N, N),
    "unlink": (T, N),
    "socket": (T, N),
    "pair": (T, N),
    "bind": (T, N),
    "listen": (T, N),
    "connect": (T, N, N),
    "accept": (T, N),
    "send": (T, N, SIZE),
    "recv": (T, N, SIZE),
    "socket_misc": (T, N, N),
    "socket_info": (T, N, N),
    "socket_begin": (T, N, range(7)),
    "close_socket": (T, N),
    "unfollow_socket": (N,),
    "table_open": (T, N, N),
    "table_io": (T, N, N, N, N),
    "table_lock": (T, N, range(10), (0, 0, 1)),
    "table_begin": (T, N, range(10)),
    "table_unlock": (N, N),
    "table_bind": (T, N, YES),
    "table_close": (N,),
    "table_drop": (N,),
    "rule_insert": (N, YES, YES),
    "rule_update": (N, YES, YES),
    "rule_delete": (N,),
    "metadata_create": (T, N, N),
    "metadata_set": (N, N, N),
    "metadata_wait": (T, N),
    "metadata_begin": (T, N),
    "metadata_destroy": (N,),
    "idle": (T,),
    "idle_begin": (T,),
    "instrument": (range(12), YES, YES),
    "consumer": (N, YES),
    "thread": (T, YES, YES),
    "end_thread": (T,),
    "account": (T, N),
    "truncate": (range(21),),
}


def step(name: str) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(name), *map(st.sampled_from, STEPS[name]))


programs = st.lists(st.one_of(*map(step, STEPS)), min_size=1, max_size=100)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Runs a program in a process of its own. Gives what went wrong, "" if nothing."""
    folder = tmp_path_factory.mktemp("model")
    options = "performance_schema_events_waits_history_size=4"
    server = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.python._programs.world", str(folder / "work")],
        env=environment(folder, options, PFS_SEGMENT="private"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def ask(program: Program) -> str:
        assert server.stdin is not None
        assert server.stdout is not None
        print(json.dumps(program), file=server.stdin, flush=True)
        answer: str = json.loads(server.stdout.readline())
        return answer

    yield ask
    server.stdin.close()
    assert server.wait(timeout=60) == 0
    server.stdout.close()


@settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(program=programs)
def test_tables_agree_with_the_model_after_every_step(judge: Judge, program: Program) -> None:
    """A, B, E, F, H: current, history, history_long and all summaries, for any mix of work, settings and TRUNCATE."""
    wrong = judge(program)
    assert not wrong, f"{wrong}\nprogram = {program!r}"


@pytest.mark.parametrize("seed", range(8))
def test_long_program_reuses_records_threads_and_objects(judge: Judge, seed: int) -> None:
    """The same over hundreds of steps in one process: slots of threads, files, sockets, tables and locks are used
    again and again."""
    random_ = random.Random(seed)
    often = [random_.random() ** 2 + 0.02 for _ in STEPS]
    names = random_.choices(list(STEPS), often, k=500)
    assert judge([(name, *map(random_.choice, STEPS[name])) for name in names]) == ""


SECRETS = "mutex", "socket", "rows", "no rows", "table lock", "table unlock", "metadata wait", "metadata status", "idle", "rule"


@pytest.mark.parametrize("what", SECRETS)
def test_judge_sees_what_the_model_is_not_told_of(judge: Judge, what: str) -> None:
    """Negative control, in each family; also where no thread is counted."""
    before: Program = [("pair", 0, 0), ("table_open", 0, 0, 1), ("table_lock", 0, 0, 8, 0), ("metadata_create", 0, 0, 0)]
    threads_off = [*before, ("consumer", 1, 0)]
    assert judge(threads_off) == ""
    assert "AssertionError" in judge([*before, ("behind_its_back", what)])
    assert "AssertionError" in judge([*threads_off, ("behind_its_back", what)])


def test_judge_sees_a_step_that_there_is_not(judge: Judge) -> None:
    """Negative control."""
    assert "no_such_step" in judge([("no_such_step",)])
