"""Finds the name that is most like a typed one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["hint", "nearest"]

_LIKE = 0.55  # below that the nearest name is a random one
_SHOWN = 12


def nearest(name: str, names: Sequence[str]) -> str:
    """Returns the one of `names` that is most like `name`; "" if none is like it. A name that has all of its words is."""
    from difflib import get_close_matches

    # Of `Table` and `table` the one that is written as the typed name is.
    folded = {known.lower(): known for known in sorted(names, key=lambda known: known.islower() == name.islower())}
    words = set(name.lower().split("_"))
    if len(words) > 1 and (longer := [known for known in folded if words <= set(known.split("_"))]):
        return folded[min(longer, key=len)]
    found = get_close_matches(name.lower(), folded, n=1, cutoff=_LIKE)
    return folded[found[0]] if found else ""


def hint(name: str, names: Sequence[str], is_listed: bool = False) -> str:
    """Returns the end of a message about a name that does not exist: the nearest one, or what is legal. "" if nothing is, or if
    the message lists the legal ones itself."""
    if near := nearest(name, names):
        return f": the nearest is '{near}'"
    if is_listed:
        return ""
    more = len(names) - _SHOWN
    return f": legal are {', '.join(names[:_SHOWN])}{f' and {more} more' if more > 0 else ''}" if names else ""
