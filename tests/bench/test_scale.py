"""Memory grows with what is used, not with what is configured."""

from __future__ import annotations

from tests.bench import scale


def test_memory_is_linear_in_what_is_used() -> None:
    """Ten times the objects and threads: at most ten times the memory; limits 16 times as large: the same memory; reading
    takes none."""
    few, many, large = scale.measure(300, 30, ""), scale.measure(3_000, 300, ""), scale.measure(3_000, 300, scale.LARGE)
    assert 5 * few.memory < many.memory <= 10 * few.memory
    assert large.memory <= 1.02 * many.memory
    assert many.after <= many.memory + 64 * 1024
    assert few.lost == many.lost == large.lost == {}
    assert many.tables["mutex_instances"][0] == 3_000
    assert many.tables["threads"][0] == 301
