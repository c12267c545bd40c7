"""How long each test works that could work for hours: seconds, kills, forks, random programs. The gate has these.

PFS_TEST_LONG=20 makes all of them 20 times as long; PFS_TEST_SEED=7 is the seed of every random test.
"""

from __future__ import annotations

import os
import random

LONG = float(os.environ.get("PFS_TEST_LONG", "1"))


def times(number: int) -> int:
    return max(1, round(number * LONG))


def seed(usual: int | None = None) -> int:
    """The seed that was asked for, else the usual one of the test, else one that nobody has tried. The test prints it."""
    given = os.environ.get("PFS_TEST_SEED")
    return int(given) if given is not None else random.randrange(1 << 30) if usual is None else usual


ARCHIVE_MUTANTS = times(200)
CLIENT_MUTANTS = times(15)  # of what a server sends, for each library
CLOCK_SECONDS = 2 * LONG
CROWD = times(60)  # threads and instruments of a program that is read
DIGEST_FUZZ_SECONDS = times(5)
ELF_MUTANTS = times(60)
ENDS_OF_PROGRAMS = times(5)
FLEET_HOSTS = times(3)  # of 100 simulated processes
FORKS_OF_A_THREAD = times(10)  # each of 8 threads
JOINS = times(12)  # of programs that are nearly nowhere safe: each is joined and left twice
JOINERS_KILLED = times(30)
KILLS = times(12)  # of programs in C; half as many in Python
LIFECYCLE_SECONDS = 20 * LONG
LOAD_SECONDS = 4 * LONG
METRICS_READINGS = times(1000)
MODEL_EXAMPLES = times(70)
READS_OF_A_PROGRAM = times(100)  # from outside, while it works
REFUSALS_STEP = max(1, round(4 / LONG))  # 1: each call in turn, no sample
REMOTE_FUZZ_SECONDS = 6 * LONG
RUN_PROGRAMS = times(8)  # random ones under pfs run
SEGMENT_FUZZ_SECONDS = times(20)
SEGMENT_MUTANTS = times(48)
SERVE_PACKETS = times(10_000)
SOAK_NAMES = 40  # of each kind
SOAK_SECONDS = times(2)
STRESS_SECONDS = 0.7 * LONG  # each test of a *_stress.cpp
STRESS_SECONDS_SANITIZED = 0.4 * LONG  # few turns: it looks at what could happen, and finds a race without threads at once
WRONG_CALLS = times(3000)
