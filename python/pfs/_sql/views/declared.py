"""All views by name."""

from __future__ import annotations

from pfs import _core
from pfs._read.nearest import hint
from pfs._sql.views.sessions import SESSIONS
from pfs._sql.views.statements import STATEMENTS
from pfs._sql.views.tables import TABLES
from pfs._sql.views.view import View, declare
from pfs._sql.views.waits import WAITS
from pfs.errors import UnknownTable

__all__ = ["VIEWS", "View", "question_of"]

_VERSION = declare(
    "version",
    "The version of these views and of pfs.",
    {"sys_version": f"'{_core.__version__}'", "mysql_version": f"'pfs {_core.__version__}'"},
    "",
)
VIEWS: dict[str, View] = {
    view.name: view for view in sorted([*STATEMENTS, *WAITS, *TABLES, *SESSIONS, *_VERSION], key=lambda v: v.name)
}


def question_of(view: str) -> str:
    """Returns the SELECT of a view, whose name may have ``sys.`` in front.

    Raises:
        UnknownTable: no view has this name.
    """
    if not isinstance(view, str):
        raise TypeError(f"the name of a view is a str, not {type(view).__name__}")
    short = view.lower().removeprefix("sys.")
    if short not in VIEWS:
        raise UnknownTable(f"unknown view '{view}'{hint(short, list(VIEWS))}")
    return f'select * from sys."{short}"'
