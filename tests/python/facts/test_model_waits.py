"""Random programs against a plain model of what the tables must show (model.py), at every step."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import budgets
from tests.each import for_each
from tests.python._programs.fresh_process import ROOT, environment

Program = list[tuple[Any, ...]]
Judge = Callable[[Program], str]

EXAMPLES, LONG = budgets.MODEL_EXAMPLES, 12

T = N = range(6)  # which thread, which of something
YES = (1, 1, 1, 0)
SIZE = (0, 1, 7, 100, 4096)
# What each step may be given, by family.
FAMILIES: dict[str, dict[str, tuple[Sequence[int], ...]]] = {
    "locks": {
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
        "end_wait": (T, N, N),
    },
    "files": {
        "open": (T, N, YES),
        "read": (T, N, SIZE),
        "write": (T, N, SIZE),
        "seek": (T, N, SIZE),
        "close": (T, N),
        "stat": (T, N),
        "rename": (T, N, N),
        "unlink": (T, N),
    },
    "sockets": {
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
        "socket_begin": (T, N, range(9)),
        "close_socket": (T, N),
        "unfollow_socket": (N,),
    },
    "tables": {
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
    },
    "metadata and idle": {
        "metadata_create": (T, N, N),
        "metadata_set": (N, N, N),
        "metadata_wait": (T, N),
        "metadata_begin": (T, N),
        "metadata_destroy": (N,),
        "idle": (T,),
        "idle_begin": (T,),
    },
    "nested": {
        "stage": (T, N),
        "statement": (T, N, N, N),
        "transaction": (T, N),
        "change_statement": (T, N, range(4), N),
        "end_nested": (T, range(8), N),
    },
    "settings": {
        "instrument": (range(19), YES, YES),
        "consumer": (range(15), YES),
        "thread": (T, YES, YES),
        "end_thread": (T,),
        "account": (T, N),
    },
    "truncate": {
        "truncate": (range(48),),
    },
}
STEPS = {name: given for steps in FAMILIES.values() for name, given in steps.items()}


def step(name: str) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(name), *map(st.sampled_from, STEPS[name]))


programs = st.lists(st.one_of(*map(step, STEPS)), min_size=1, max_size=100)


def long_program(seed: int, length: int = 500) -> Program:
    """About two families more than about the others, some steps more often than others, TRUNCATE every now and then."""
    random_ = random.Random(seed)
    about = {*random_.sample(list(FAMILIES), 2), "truncate"}
    often = {
        name: (random_.random() ** 2 + 0.05) * (1 if family in about else 0.15)
        for family, steps in FAMILIES.items()
        for name in steps
    }
    names = random_.choices(list(often), list(often.values()), k=length)
    return [(name, *map(random_.choice, STEPS[name])) for name in names]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Runs a program in a process of its own. Gives what went wrong, "" if nothing."""
    folder = tmp_path_factory.mktemp("model")
    kinds = ("waits", "stages", "statements", "transactions")
    options = ",".join(f"performance_schema_events_{kind}_history_size=4" for kind in kinds)
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


@pytest.mark.parametrize("seed", range(LONG))
def test_long_program_reuses_records_threads_and_objects(judge: Judge, seed: int) -> None:
    """The same over hundreds of steps in one process: slots of threads, files, sockets, tables and locks are used
    again and again."""
    assert judge(long_program(seed)) == ""


# Something of everything, alive and gone; of two threads, one of which works for somebody.
WORK: Program = [
    ("account", 1, 1),
    *[("new_mutex", 0), ("lock", 0, 0), ("unlock", 0), ("new_mutex", 1), ("lock", 1, 1), ("unlock", 0), ("free_mutex", 0)],
    *[("rwlock", 0, 0, 1), ("rwunlock", 0, 0), ("cond", 1, 0), ("free_cond", 0), ("cond", 0, 0)],
    *[("open", 0, 0, 1), ("write", 1, 0, 100), ("open", 1, 1, 1), ("write", 0, 1, 7), ("unlink", 0, 1), ("close", 0, 1)],
    *[("socket", 0, 1), ("bind", 0, 0), ("listen", 0, 0), ("socket", 1, 2), ("connect", 1, 0, 0), ("accept", 0, 0)],
    *[("send", 1, 1, 100), ("recv", 0, 2, 7), ("pair", 1, 0), ("send", 0, 3, 7), ("recv", 1, 4, 7), ("close_socket", 0, 3)],
    *[("table_open", 0, 0, 2), ("table_io", 0, 0, 0, 2, 2), ("table_io", 1, 0, 1, 1, 4), ("table_lock", 1, 0, 8, 0)],
    *[
        ("table_open", 1, 1, 1),
        ("table_io", 1, 1, 0, 1, 1),
        ("table_lock", 0, 1, 0, 0),
        ("table_drop", 1),
        ("table_io", 0, 1, 2, 0, 1),
    ],
    *[("metadata_create", 0, 0, 0), ("metadata_wait", 1, 0), ("idle", 0), ("idle", 1)],
    *[("transaction", 0, 0), ("statement", 0, 0, 1, 1), ("statement", 1, 1, 3, 2), ("stage", 0, 0), ("stage", 1, 1), ("idle", 0)],
    *[("statement", 0, 2, 2, 1), ("transaction", 1, 1), ("metadata_wait", 0, 0), ("stage", 0, 3), ("end_nested", 1, 0, 0)],
    *[("end_nested", 0, 0, 0), ("end_nested", 0, 0, 0), ("end_nested", 0, 0, 1), ("end_nested", 1, 0, 0)],
]
CLEAR: Program = [("close_socket", 0, 0)] * 4 + [("close", 0, 0)] * 2 + [("table_close", 0)] * 2 + [("metadata_destroy", 0)]


@for_each("number", STEPS["truncate"][0])
def test_each_TRUNCATE_empties_what_it_should_and_nothing_else(judge: Judge, number: int) -> None:
    """F4-F11, F13, F14, G11: where there is something of everything; and the counting goes on."""
    assert judge([*WORK, ("truncate", number), *CLEAR, *WORK, *CLEAR, ("end_thread", 1)]) == ""


def test_rules_of_setup_objects_in_any_order(judge: Judge) -> None:
    """G11, G12: with rows that say the contrary of each other, inserted, changed and deleted while tables are open."""
    use: Program = [
        ("table_io", 0, 0, 0, 1, 1),
        ("table_lock", 0, 0, 0, 0),
        ("table_io", 0, 1, 0, 0, 1),
        ("table_io", 0, 2, 0, 0, 1),
    ]
    program: Program = [("table_open", 0, n, 1) for n in range(4)]
    for enabled, timed in ((1, 0), (0, 1), (1, 1), (0, 0)):
        for n in range(6):
            program += [("rule_insert", n, 1 - enabled, timed), *use, ("rule_update", n, enabled, timed), *use]
        program += [step for n in range(6) for step in (("rule_delete", n), *use)]
    assert judge(program) == ""


SECRETS = (
    "stage",
    "statement",
    "transaction",
    "mutex",
    "socket",
    "rows",
    "no rows",
    "table lock",
    "table unlock",
    "metadata wait",
    "metadata status",
    "idle",
    "rule",
)


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
