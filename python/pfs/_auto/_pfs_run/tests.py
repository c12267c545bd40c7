"""Makes a statement of each call of a test by pytest: statement/pytest/test. Fixtures are not in it.

The digest is the test's name without its parameters; the text has them.
"""

import _pfs_run_native as native
from _pfs_run.statements import Keys, identity, is_shared, literal, number_of, quiet
from _pfs_run.wrapping import replace

_SKIPPED = "_pytest,pluggy,_pfs_run"
_NO_FAILURES = ("Skipped", "XFailed", "Exit")
_key = Keys("pytest")


@quiet()
def _begin(item):
    name, bracket, parameters = item.nodeid.partition("[")
    text = identity(name) + (f" {literal(parameters[:-1])}" if bracket else "")
    return native.begin(_key["test"], text, None, _SKIPPED, is_shared())


def _call(original):
    def pytest_runtest_call(item):
        handle = _begin(item)
        if handle is None:
            return original(item)
        try:
            result = original(item)
        except BaseException as error:
            name = type(error).__name__
            native.end(handle, 0, 0, 0 if name in _NO_FAILURES else number_of(error), name)
            raise
        native.end(handle, 0, 0, 0, "")
        return result

    return pytest_runtest_call


PATCHES = {"_pytest.runner": lambda module: replace(module, "pytest_runtest_call", _call)}
