"""Compares the results of tests, plain and under `pfs run`: what differs twice differs, what differs once is unstable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Results = dict[str, str]


@dataclass(frozen=True)
class Compared:
    """`plain` and `under` are the results of the last round. `always`: the tests that differ. `unstable`: those that differ once
    only, or whose two plain results differ.
    """

    plain: Results
    under: Results
    always: list[str]
    unstable: list[str]

    def lines(self) -> list[str]:
        """One for each test of both kinds."""
        return [
            *(f"    {test}: plain {self.plain.get(test)}, under pfs {self.under.get(test)}" for test in self.always),
            *(f"    unstable: {test}" for test in self.unstable),
        ]


def compare(both: Callable[[int], tuple[Results, Results]]) -> Compared:
    """Runs tests both ways: once, and once more if any differs. `both` takes the number of the round, from 0."""
    plain, under = both(0)
    differ = {test for test in plain.keys() | under.keys() if plain.get(test) != under.get(test)}
    if not differ:
        return Compared(plain, under, [], [])
    first = plain
    plain, under = both(1)
    again = {test for test in plain.keys() | under.keys() if plain.get(test) != under.get(test)}
    always = {test for test in differ & again if first.get(test) == plain.get(test)}
    return Compared(plain, under, sorted(always), sorted((differ | again) - always))
