"""``pfs run``: an interpreter without the GIL is left alone."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, ROOT, own_folder, pytestmark
from tests.python.run.test_run_absent import compiled, outcome

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too


@pytest.mark.parametrize("has_gil", [False, True])
def test_a_free_threaded_python_is_recorded_as_a_c_program(tmp_path: Path, has_gil: bool) -> None:
    """Its objects have another form: the first lock crashed.

    This program has the names of such an interpreter. Each of them ends it; so it is no test of the objects' form.
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


@pytest.mark.parametrize("name", ["python3.13t", "python3.14t"])
def test_a_real_free_threaded_python(tmp_path: Path, name: str) -> None:
    """Its tests of threads have the same results, and one line of the report says how it was recorded."""
    if (python := shutil.which(name)) is None:
        pytest.skip(f"no {name}")
    (tmp_path / "work.py").write_text("""
import queue, sys, threading
lock, items, total = threading.Lock(), queue.Queue(), [0]
def work(thread):
    for n in range(500):
        with lock: total[0] += 1
        items.put((thread, n))
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
for thread in threads: thread.start()
got = {items.get() for _ in range(4000)}
for thread in threads: thread.join()
print(total, len(got), sys._is_gil_enabled())
""")
    report = tmp_path / "report.json"
    assert outcome(*PFS, "run", "--json", "-o", report, "--", python, tmp_path / "work.py") == (0, "[4000] 4000 False\n", "")
    said = json.loads(report.read_text())
    assert len([note for note in said["notes"] if "free-threaded" in note]) == 1
    assert {row["class"] for row in said["classes"]} >= {"mutexes", "conditions", "files"}
    found = []
    for under in [(), (*PFS, "run", "--no-report", "--")]:
        code, out, err = outcome(*under, python, "-m", "test", "test_thread", "test_queue")
        assert code == 0, out + err
        found.append(re.findall(r"^Total tests: .*", out, re.MULTILINE))
    assert found[0] == found[1]
    assert len(found[0]) == 1
