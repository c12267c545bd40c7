"""Random programs against a plain model of what the tables must show (model.py), at every step."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.python._programs.fresh_process import ROOT, environment

Program = list[tuple[Any, ...]]
Judge = Callable[[Program], str]

EXAMPLES = int(os.environ.get("PFS_MODEL_EXAMPLES", "150"))

small = st.integers(0, 5)
flag = st.sampled_from([1, 1, 0])
size = st.sampled_from([0, 1, 7, 100, 4096])


def step(name: str, *arguments: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(name), *arguments)


steps = st.one_of(
    step("new_mutex", small),
    step("lock", small, small),
    step("trylock", small, small),
    step("unlock", small),
    step("own_begin", small, small),
    step("own_end", small, flag),
    step("open", small, small, flag),
    step("read", small, small, size),
    step("write", small, small, size),
    step("seek", small, small, size),
    step("close", small, small),
    step("stat", small, small),
    step("rename", small, small, small),
    step("unlink", small, small),
    step("free_mutex", small),
    step("rwlock", small, small, small),
    step("rwunlock", small, small),
    step("free_rwlock", small),
    step("cond", small, small),
    step("free_cond", small),
    step("instrument", small, flag, flag),
    step("consumer", small, flag),
    step("thread", small, flag, flag),
    step("end_thread", small),
    step("account", small, small),
    step("truncate", st.integers(0, 13)),
)
programs = st.lists(steps, min_size=1, max_size=100)


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
    """The same over hundreds of steps in one process: slots of threads, files and mutexes are used again and again."""
    random_ = random.Random(seed)
    names: list[tuple[str, int]] = [
        ("new_mutex", 1),
        ("lock", 2),
        ("trylock", 2),
        ("unlock", 1),
        ("own_begin", 2),
        ("own_end", 2),
    ]
    names += [("open", 3), ("read", 3), ("write", 3), ("seek", 3), ("close", 2), ("stat", 2), ("rename", 3), ("unlink", 2)]
    names += [
        ("free_mutex", 1),
        ("end_thread", 1),
        ("truncate", 1),
        ("instrument", 3),
        ("consumer", 2),
        ("thread", 3),
        ("account", 2),
    ]
    names += [("rwlock", 3), ("rwunlock", 2), ("free_rwlock", 1), ("cond", 2), ("free_cond", 1)]
    often = [random_.random() ** 2 + 0.02 for _ in names]
    program = [
        (name, *[random_.randrange(14 if name == "truncate" else 6) for _ in range(n)])
        for name, n in random_.choices(names, often, k=400)
    ]
    assert judge(program) == ""


def test_judge_sees_what_is_wrong(judge: Judge) -> None:
    """Negative control: a step that there is not, and an event that the model is not told of, are found."""
    assert "no_such_step" in judge([("no_such_step",)])
    assert "AssertionError" in judge([("new_mutex", 0), ("lock", 0, 0), ("behind_its_back",)])
