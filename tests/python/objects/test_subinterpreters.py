"""pfs belongs to the main interpreter: another one gets an ImportError that says so, at once."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Run

INTERPRETERS, KINDS = "_xxsubinterpreters", ["isolated=True", "isolated=False"]
if sys.version_info >= (3, 13):
    INTERPRETERS, KINDS = "_interpreters", ["'isolated'", "'legacy'"]


@pytest.mark.parametrize("first", ["", "import pfs; pfs.Lock('test/X').acquire()"], ids=["alone", "after the main one"])
@pytest.mark.parametrize("isolated", KINDS)
def test_import_in_a_subinterpreter_is_an_import_error(fresh: Run, first: str, isolated: str) -> None:
    out = fresh(f"""
import {INTERPRETERS} as interpreters
{first}
import faulthandler
faulthandler.dump_traceback_later(60, exit=True)
inner = interpreters.create({isolated})
for _ in range(2):      # and again
    interpreters.run_string(inner, '''
try:
    import pfs
except ImportError as error:
    print("subinterpreter" in str(error), getattr(error, "__notes__", []))
else:
    print("imported")
''')
interpreters.destroy(inner)
import pfs
print(pfs.Lock("test/X").acquire())
""")
    assert out == "True []\nTrue []\nTrue\n"


def test_module_that_is_imported_again_is_the_same(fresh: Run) -> None:
    out = fresh("""
        import sys
        import pfs
        core, lock = pfs._core, pfs.Lock("test/X")
        for name in [name for name in sys.modules if name.split(".")[0] == "pfs"]: del sys.modules[name]
        import pfs as again
        print(again is pfs, again._core is core, isinstance(lock, again.Lock), again.tables() == pfs.tables())
        try:
            again.Lock("bad")
        except again.InvalidValue:
            print("refused")
    """)
    assert out == "False True True True\nrefused\n"
