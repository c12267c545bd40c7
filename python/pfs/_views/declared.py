"""All views by name."""

from __future__ import annotations

from pfs import _core
from pfs._views.sessions import SESSIONS
from pfs._views.statements import STATEMENTS
from pfs._views.tables import TABLES
from pfs._views.view import View, declare
from pfs._views.waits import WAITS

__all__ = ["VIEWS", "View"]

_VERSION = declare(
    "version",
    "The version of these views and of pfs.",
    {"sys_version": f"'{_core.__version__}'", "mysql_version": f"'pfs {_core.__version__}'"},
    "",
)
VIEWS: dict[str, View] = {
    view.name: view for view in sorted([*STATEMENTS, *WAITS, *TABLES, *SESSIONS, *_VERSION], key=lambda v: v.name)
}
