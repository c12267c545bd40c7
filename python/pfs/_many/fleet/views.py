"""Makes the SQL of the views of a fleet: rates between two cuts, and the views of the schema sys for each node or process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pfs._many.fleet.tables import BEFORE, NODES, PROCESSES
from pfs._save.frames import ORIGIN, has_sums
from pfs._save.held import declared
from pfs._sql.database import SCHEMA
from pfs._sql.views.declared import VIEWS

__all__ = ["FleetViews"]

_RATES, _SYS = "rates.", "sys."
_TABLE = re.compile(rf"\b{SCHEMA}\.(\w+)")
_VIEW = re.compile(r"\b(from|join)\s+sys\.([\w$]+)", re.IGNORECASE)


class FleetViews(Mapping[str, str]):
    """Maps full names of views to their SQL, which is made when it is asked for."""

    def __init__(self, tables: Iterable[str], more: Mapping[str, str]) -> None:
        """``tables``: those that the files have. ``more``: views of the same kind."""
        self._more = more
        self._rates = {_RATES + name: name for name in tables if has_sums(declared(name))}

    def __getitem__(self, name: str) -> str:
        if name in self._more:
            return self._more[name]
        if name in self._rates:
            return _rates(self._rates[name])
        if name.startswith(_SYS) and name[len(_SYS) :] in VIEWS:
            return _for_each(name[len(_SYS) :])
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._more
        yield from self._rates
        yield from (_SYS + name for name in VIEWS)

    def __len__(self) -> int:
        return len(self._more) + len(self._rates) + len(VIEWS)


def _rates(name: str) -> str:
    """Returns sums per second between two cuts of each node, by process. A sum that fell counts from zero: it was emptied in
    between (TRUNCATE), or the process runs another program (exec)."""
    info = declared(name)
    sums = [column["name"] for column in info["columns"] if column["combine"] == "sum"]
    key = [*ORIGIN, *info["key"]]
    shown = [*key, *(column["name"] for column in info["columns"] if column["across"] == "same" and column["name"] not in key)]
    fell = " or ".join(f"a.{column} > b.{column}" for column in sums)
    there = ", ".join(f"b.{column}" for column in shown)
    same = " and ".join(f"a.{column} is not distinct from b.{column}" for column in key)
    changes = ", ".join(f"b.{column} - case when {fell} then 0 else coalesce(a.{column}, 0) end as {column}" for column in sums)
    # Empty buckets are not there: the counts below a bucket come from the buckets.
    below = f"sum(COUNT_BUCKET) over (partition by {', '.join(c for c in key if c != 'BUCKET_NUMBER')} order by BUCKET_NUMBER)"
    now = {column: below if column == "COUNT_BUCKET_AND_LOWER" else column for column in sums}
    rates = ", ".join(f"{value} / SECONDS as {column}" for column, value in now.items())
    changed = " or ".join(f"{column} > 0" for column in sums if column != "COUNT_BUCKET_AND_LOWER")
    return (
        f"select {', '.join(shown)}, {rates} from"
        f" (select {there}, n.SECONDS, {changes} from process.{name} as b join {NODES} as n on n.NODE = b.NODE and n.SECONDS > 0"
        f" left join {BEFORE}{name} as a on {same}) where {changed}"
    )


def _for_each(view: str) -> str:
    """Returns a view of sys for each node, with NODE in front; for each process, if it has a table that does not add up."""
    sql = _inlined(view)
    by_node = all(has_sums(declared(table)) for table in _TABLE.findall(sql))
    key = ORIGIN[:1] if by_node else ORIGIN
    same = " and ".join(f"{column} = whose.{column}" for column in key)

    def rows(found: re.Match[str]) -> str:
        schema = SCHEMA if by_node or not has_sums(declared(found[1])) else "process"
        return f"(select * from {schema}.{found[1]} where {same})"

    front = ", ".join(f"whose.{column}" for column in key)
    return f"select {front}, view.* from {NODES if by_node else PROCESSES} as whose, lateral ({_TABLE.sub(rows, sql)}) as view"


def _inlined(view: str) -> str:
    """Returns the SQL of a view without other views in it."""
    return _VIEW.sub(lambda found: f"{found[1]} ({_inlined(found[2])})" if found[2] in VIEWS else found[0], VIEWS[view].sql)
