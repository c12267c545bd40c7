"""Finds the name that is most like a typed one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["nearest"]


def nearest(name: str, names: Sequence[str]) -> str:
    """Returns the one of `names` that is most like `name`; "" if there are none."""
    from difflib import get_close_matches

    folded = {known.lower(): known for known in names}
    found = get_close_matches(name.lower(), folded, n=1, cutoff=0.0)
    return folded[found[0]] if found else ""
