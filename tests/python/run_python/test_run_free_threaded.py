"""``pfs run``: an interpreter without the GIL is left alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, ROOT, own_folder, pytestmark
from tests.python.run.test_run_absent import compiled, outcome

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too


@pytest.mark.parametrize("has_gil", [False, True])
def test_a_free_threaded_python_is_recorded_as_a_c_program(tmp_path: Path, has_gil: bool) -> None:
    """Its objects have another form: the first lock crashed. No such interpreter is here.

    This program has the names of one. Each of them ends it; so it is no test of the objects' form.
    """
    header = (ROOT / "cpp/run/python/python_api.h").read_text()
    names = set(re.findall(r"^  F\([^,]+, (\w+)[,)]", header, re.MULTILINE))
    assert {"PyGILState_GetThisThreadState", "PyType_GetFlags", "_PyRuntime"} <= names
    text = "#include <semaphore.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
    text += "".join(f'void {name}(void) {{ write(2, "{name}\\n", {len(name) + 1}); _exit(9); }}\n' for name in sorted(names))
    text += "" if has_gil else "void _Py_MergeZeroLocalRefcount(void) {}\n"
    text += 'int main(void) { sem_t s; sem_init(&s, 0, 1); sem_wait(&s); sem_post(&s); puts("end"); }\n'
    program = compiled(tmp_path, text, "-rdynamic", "-lpthread")
    assert outcome(program) == (0, "end\n", "")
    report = tmp_path / "report.json"
    seen = outcome(*PFS, "run", "--json", "-o", report, "--", program)
    if has_gil:  # the control: pfs calls the interpreter
        assert seen[0] == 9
        return
    assert seen == (0, "end\n", "")
    notes = json.loads(report.read_text())["notes"]
    assert [note for note in notes if "free-threaded" in note] != []
