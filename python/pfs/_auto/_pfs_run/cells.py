"""Makes a statement of each cell that IPython runs, also in a kernel of Jupyter: statement/notebook/cell.

Cells of a kernel may run in turns with other tasks, so waits are not nested in them.
"""

from contextvars import ContextVar

import _pfs_run_native as native
from _pfs_run.statements import PYTHON, Keys, clean, fail, number_of
from _pfs_run.wrapping import replace

_SKIPPED = "IPython,ipykernel,_pfs_run"
_key = Keys("notebook", PYTHON)
_is_in_cell = ContextVar("pfs_run_is_in_cell", default=False)  # a magic may run a cell inside a cell


def _cell(original):
    async def run_cell_async(self, raw_cell, *arguments, **named):
        handle = None
        if isinstance(raw_cell, str) and raw_cell.strip() and not _is_in_cell.get():
            handle = native.begin(_key["cell"], clean(raw_cell), None, _SKIPPED, True)
        if handle is None:
            return await original(self, raw_cell, *arguments, **named)
        token = _is_in_cell.set(True)
        try:
            result = await original(self, raw_cell, *arguments, **named)
        except BaseException as error:
            fail(handle, error)
            raise
        finally:
            _is_in_cell.reset(token)
        error = result.error_before_exec or result.error_in_exec
        native.end(handle, 0, 0, number_of(error) if error else 0, type(error).__name__ if error else "")
        return result

    return run_cell_async


PATCHES = {
    "IPython.core.interactiveshell": lambda module: replace(module.InteractiveShell, "run_cell_async", _cell),
}
