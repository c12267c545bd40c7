"""AVG_* of rows that are differences or sums of other rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]

NOT_SAMPLED = "COUNT_NOT_SAMPLED"


def timed(counts: Mapping[str, Numbers], name: str) -> Numbers:
    """Returns how many of the events that column `name` counts have a time. COUNT_NOT_SAMPLED says so of COUNT_STAR alone; of
    reads, writes and the like this takes the same share."""
    count = counts[name]
    if NOT_SAMPLED not in counts or "COUNT_STAR" not in counts:
        return count
    star, left_out = counts["COUNT_STAR"], np.minimum(counts["COUNT_STAR"], counts[NOT_SAMPLED])
    if not left_out.any():
        return count
    if name == "COUNT_STAR":
        return star - left_out
    timed_ones = count.copy()
    for at in np.flatnonzero(left_out):
        timed_ones[at] = int(count[at]) - int(count[at]) * int(left_out[at]) // int(star[at])  # the product has up to 128 bits
    return timed_ones
