"""Corrects the weights of samples by exact sums of the same time.

A sample sees an event with a chance that is its length divided by the period: the share of a rare event has a wide interval.
And a sampler that gets its processor late sees too few events that compute. The sums of pfs have neither fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["corrected"]

_WINDOW = 60_000_000  # microseconds
_READ_WITHIN = 5_000_000  # the sums are read once a second, if there is a processor for it


def corrected(samples: pd.DataFrame, totals: pd.DataFrame) -> pd.DataFrame:
    """Returns the samples with other weights: in each minute the weights of a wait add up to its exact time.

    Sums are read once a second, so a minute here is the seconds whose reading is in it: the second over its end is not cut.
    The rows in no wait share the rest of their process's time in proportion. Rows of threads that pfs has not recorded stay: the
    kernel's times in them are exact. A wait that no sample saw is in no row, and a wait that is not timed keeps its weights.
    """
    import pandas as pd

    if samples.empty or totals.empty:
        return samples
    keys = ["NODE", "PID", "WINDOW"]
    times = totals.assign(
        TIME=totals["SAMPLE_TIME"].astype("int64"),
        NODE=totals["NODE"].astype(str),
        PID=totals["PID"].astype("int64"),
        EVENT_NAME=totals["EVENT_NAME"].astype(object),
    )
    is_known = samples["THREAD_ID"].notna()
    work = pd.DataFrame(
        {
            "NODE": samples["NODE"].astype(str),
            "PID": samples["PID"].astype("int64"),
            "EVENT_NAME": samples["EVENT_NAME"].astype(object).where(samples["EVENT_NAME"].notna(), ""),
            "WEIGHT": samples["WEIGHT"].astype("float64").where(is_known, 0.0),
        }
    )
    work["WINDOW"] = _read_at(work.assign(TIME=samples["SAMPLE_TIME"].astype("int64")), times) // _WINDOW
    exact = (
        times.assign(WINDOW=times["TIME"] // _WINDOW)
        .groupby([*keys, "EVENT_NAME"])["SUM_TIMER_WAIT"]
        .sum()
        .astype("float64")
        .rename("EXACT")
        .reset_index()
    )
    exact = exact[exact["EXACT"] > 0]
    waits = work[work["EVENT_NAME"] != ""]
    seen = waits.groupby([*keys, "EVENT_NAME"])["WEIGHT"].sum().rename("SEEN").reset_index()
    both = seen.merge(exact, on=[*keys, "EVENT_NAME"], how="left")
    both["FACTOR"] = np.where(both["EXACT"].notna() & (both["SEEN"] > 0), both["EXACT"] / both["SEEN"].replace(0, np.nan), 1.0)
    # What waits take now, seen or not, is not left for the rest.
    taken = (both["SEEN"] * both["FACTOR"]).groupby([both[key] for key in keys]).sum().rename("TAKEN").reset_index()
    unseen = exact.merge(seen, on=[*keys, "EVENT_NAME"], how="left")
    unseen = unseen[unseen["SEEN"].isna()].groupby(keys)["EXACT"].sum().rename("UNSEEN").reset_index()
    rest = work.groupby(keys)["WEIGHT"].sum().rename("ALL").reset_index()
    others = work[work["EVENT_NAME"] == ""].groupby(keys)["WEIGHT"].sum().rename("OTHERS").reset_index()
    for frame in (others, taken, unseen):
        rest = rest.merge(frame, on=keys, how="left")
    rest = rest.fillna(0.0)
    left = (rest["ALL"] - rest["TAKEN"] - rest["UNSEEN"]).clip(lower=0)
    rest["FACTOR"] = np.where((rest["OTHERS"] > 0) & rest[keys].apply(tuple, axis=1).isin(exact[keys].apply(tuple, axis=1)),
                              left / rest["OTHERS"].replace(0, np.nan), 1.0)  # fmt: skip
    factors = pd.concat([both[[*keys, "EVENT_NAME", "FACTOR"]], rest[[*keys, "FACTOR"]].assign(EVENT_NAME="")])
    factor = work.merge(factors, on=[*keys, "EVENT_NAME"], how="left")["FACTOR"].fillna(1.0).to_numpy()
    weights = np.where(
        is_known.to_numpy(), np.rint(samples["WEIGHT"].to_numpy().astype(float) * factor), samples["WEIGHT"].to_numpy()
    )
    return samples.assign(WEIGHT=weights.astype(np.int64))


def _read_at(samples: pd.DataFrame, times: pd.DataFrame) -> pd.Series[int]:
    """Returns when the sums were read that a sample's wait is part of; of a sample that no reading followed, its own time."""
    import pandas as pd

    own = ["NODE", "PID"]
    readings = times[[*own, "TIME"]].drop_duplicates().sort_values("TIME").assign(READ_AT=lambda frame: frame["TIME"])
    asked = samples[[*own, "TIME"]].reset_index().sort_values("TIME")
    found = pd.merge_asof(asked, readings, on="TIME", by=own, direction="forward", tolerance=_READ_WITHIN)
    return found["READ_AT"].fillna(found["TIME"]).astype("int64").set_axis(found["index"]).sort_index()
