"""Gives the tables as attributes: ``pfs.t.threads``."""

from __future__ import annotations

from pfs import _core
from pfs._source import OWN
from pfs._tables.nearest import hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas as pd

    from pfs._source import Source

__all__ = ["Tables", "t"]


class Tables:
    """Has each table as an attribute and by its name: ``pfs.t.threads`` and ``pfs.t["threads"]`` are ``pfs.table("threads")``.

    Jupyter and the interactive Python complete the names.
    """

    def __init__(self, source: Source = OWN) -> None:
        self._source = source

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in _core.tables():
            near = "" if name.startswith("_") else hint(name, _core.tables())
            raise AttributeError(f"there is no table '{name}'{near}")
        return self[name]

    def __getitem__(self, name: str) -> pd.DataFrame:
        from pfs._tables import frame

        return frame.frame(name, None, self._source)

    def __dir__(self) -> list[str]:
        return _core.tables()

    def _ipython_key_completions_(self) -> list[str]:
        return _core.tables()

    def __repr__(self) -> str:
        return f"<{len(_core.tables())} tables: pfs.describe() lists them>"


t = Tables()
