"""A row costs the same however many there are (a million events, a summary of 100,000 rows). Ratios in one process.

The smaller number of events is one that does not fit into the processor's caches either.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench import reading

pytestmark = [pytest.mark.bench, pytest.mark.alone]

# The program of reading.py, which reads few rows and then many. Milliseconds for 1,000 rows.
_RATIOS = (
    reading._CROWD
    + """
from pfs import _core

def cost(table, times):
    frame, best, _ = read(table, times)
    return len(frame), best / len(frame) * 1000

def cost_row_by_row(table):
    best = []
    for _ in range(3):
        start = time.perf_counter()
        rows = [dict(enumerate(row)) for row in _core.rows(table, None, None)]
        best.append(time.perf_counter() - start)
    return len(rows), min(best) / len(rows) * 1e6

long, by_instance = "events_waits_history_long", "events_waits_summary_by_instance"
assert crowd.crowd_events(folder, ctypes.c_long(8), ctypes.c_long(100_000)) == 0
few = cost(long, 15)
slow = cost_row_by_row(long)
assert crowd.crowd_events(folder, ctypes.c_long(8), ctypes.c_long(1_400_000)) == 0
found = {"events": [few, cost(long, 7)], "row by row": [few, slow]}
assert crowd.crowd_mutexes(ctypes.c_long(10_000)) == 0
few = cost(by_instance, 30)
assert crowd.crowd_mutexes(ctypes.c_long(90_000)) == 0
found["objects"] = [few, cost(by_instance, 15)]
print(json.dumps(found), flush=True)
os._exit(0)
"""
)
GATE = 2.0  # a row that costs more with their number costs ten times as much here


@pytest.fixture(scope="module")
def ratios() -> dict[str, float]:
    options = f"{reading._ROOM},performance_schema_events_waits_history_long_size=1000000"
    found: dict[str, Any] = reading._crowd(_RATIOS, options)
    assert found["events"][1][0] == 1_000_000
    assert found["objects"][1][0] >= 100_000
    print(json.dumps(found))
    return {name: many[1] / few[1] for name, (few, many) in found.items()}


def test_a_row_of_a_million_events_costs_what_one_of_100000_costs(ratios: dict[str, float]) -> None:
    assert ratios["events"] <= GATE


def test_a_row_of_a_summary_of_100000_costs_what_one_of_10000_costs(ratios: dict[str, float]) -> None:
    assert ratios["objects"] <= GATE


def test_the_gate_sees_a_python_object_for_each_cell(ratios: dict[str, float]) -> None:
    """Negative control: the same rows as dictionaries."""
    assert ratios["row by row"] > 1.5 * GATE
