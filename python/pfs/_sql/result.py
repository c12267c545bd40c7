"""The answer to a question in SQL."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pfs._read import show

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

    from pfs._sql.database import Database

__all__ = ["Answer", "Result"]


class Answer:
    """Streams the rows of a result to any reader of the Arrow C stream interface, as often as it asks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        cursor = self._database.connection.cursor()
        return cursor.sql(f"from {self._database.answer}").__arrow_c_stream__(requested_schema)


class Result:
    """Holds the rows that ``pfs.sql`` has found.

    Attributes:
        columns: the names of its columns.
        arrow: the rows for polars, pyarrow, DuckDB and other readers of the Arrow C stream interface.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, database: Database, statement: str) -> None:
        """Is not for users: see ``pfs.sql``."""
        self._database = database
        self.statement = statement
        self.arrow = Answer(database)

    @cached_property
    def _columns(self) -> list[tuple[str, str]]:
        """Names and types of DuckDB. Nobody who asks for rows alone needs them."""
        relation = self._database.connection.cursor().sql(f"from {self._database.answer} limit 0")
        return [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]

    @property
    def columns(self) -> list[str]:
        return [name for name, _ in self._columns]

    @property
    def _types(self) -> list[str]:
        return [kind for _, kind in self._columns]

    def _select(self, what: str, rest: str = "") -> duckdb.DuckDBPyConnection:
        return self._database.connection.cursor().execute(f"select {what} from {self._database.answer} {rest}")

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns the rows as tuples of Python values. Integers of any size are exact."""
        return self._select("*").fetchall()

    def df(self) -> pd.DataFrame:
        """Returns a DataFrame with the types that ``pfs.table`` uses: int64, or uint64 if a value needs it, ``string``,
        datetime64[us].

        DuckDB keeps neither the values of an ENUM nor which columns may be NULL. So an ENUM is text here, and a number is
        nullable (Int64) if its column has a NULL. Integers beyond 64 bits have the dtype ``object``.
        """
        import pandas as pd

        from pfs._sql.columns import column_of

        wide = [kind in ("HUGEINT", "UHUGEINT") for kind in self._types]
        quoted = ['"' + name.replace('"', '""') + '"' for name in self.columns]
        chosen = ", ".join(f"{name}::varchar as {name}" if is_wide else name for name, is_wide in zip(quoted, wide, strict=True))
        found = self._select(chosen).fetchnumpy()
        return pd.DataFrame(
            {name: column_of(kind, found[name]) for name, kind in zip(self.columns, self._types, strict=True)}, copy=False
        )

    def duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns the rows as a relation of DuckDB, to filter, aggregate and join with tables of your own.

        Args:
            connection: of yours; None means the default connection of the module ``duckdb``.
        """
        if connection is not None:
            return connection.from_arrow(self.arrow)
        import duckdb

        return duckdb.from_arrow(self.arrow)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self._select("count(*)").fetchall()[0][0])

    def _shown(self) -> list[tuple[Any, ...]]:
        return self._select("*", "limit 61").fetchall()

    def __repr__(self) -> str:
        shown, count = self._shown()[:60], len(self)
        note = show.some(count, "row") if count <= 60 else f"60 of {show.some(count, 'row')}; .df() gives them all"
        return show.as_plain_text(note, self.columns, shown)

    def _repr_html_(self) -> str:
        """Returns a table as that of a frame: a number of a column of pfs has its unit, unless it was computed with."""
        import pandas as pd

        from pfs._read.readable import html

        frame = pd.DataFrame(self._shown()[:60], columns=self.columns).convert_dtypes()
        computed = [name for name, kind in zip(self.columns, self._types, strict=True) if "INT" not in kind]
        frame.attrs = {"table": "Result", "rows": len(self), "computed": computed}
        return html(frame)
