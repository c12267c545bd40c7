"""``%load_ext pfs``: the magic, readable frames, completion, names of cells; and pictures of events."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

import pfs
from pfs._read import frame, readable
from pfs._ui.notebook.report import Report
from pfs._ui.notebook.timeline import timeline
from tests.conftest import Run
from tests.python._programs.subject import clean_environment

pytest.importorskip("IPython")

START = """
import pfs
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "pfs")
pfs.load_ipython_extension(shell)  # changes nothing
shell.run_cell("import pfs", store_history=True)
"""


def run(fresh: Run, code: str) -> str:
    return fresh(START + textwrap.dedent(code))


CELL = """%%pfs
import time
lock = pfs.Lock("shop/LOCK_orders")
def work():
    for _ in range(5):
        with lock:
            time.sleep(0.001)
        with pfs.open("/etc/passwd", name="shop/users") as file:
            file.read()
threads = [pfs.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_the_magic_shows_what_a_cell_waited_for(fresh: Run) -> None:
    out = run(
        fresh,
        f"""
        pfs.setup_consumers["lock_holds"].enabled = True
        shell.run_cell({CELL!r}, store_history=True)
        shell.run_cell("a = 1", store_history=True)
        print(set(pfs.table("events_waits_history_long", where="OPERATION = 'lock'")["SOURCE"]))
        print(set(pfs.table("lock_holds_summary_global_by_event_name", where="COUNT_HOLD > 0")["LONGEST_SOURCE"]))
        """,
    )
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["wait/synch/mutex/shop/LOCK_orders"][1] == "15"
    assert lines["wait/synch/mutex/shop/LOCK_orders"][3] == "ms"
    assert lines["/etc/passwd"]
    assert out.splitlines()[-2:] == ["{'In [2]:6'}"] * 2  # line 6 of the cell, that of %%pfs included


def test_the_timeline_names_the_cell_by_its_number(fresh: Run) -> None:
    out = run(
        fresh,
        f"""
        import re
        from IPython.utils.capture import capture_output
        shell.run_cell("a = 1", store_history=True)
        with capture_output() as seen:
            shell.run_cell({CELL!r}, store_history=True)
        shown = seen.outputs[-1].data["text/html"]
        print(sorted(set(re.findall(r"In .\\d+.:", shown))), shell.execution_count)
        """,
    )
    assert out.splitlines()[-1] == "['In [3]:'] 4"


def test_every_cell_is_watched_while_it_is_on(fresh: Run) -> None:
    out = run(
        fresh,
        """
        def cell(text):
            print("@@", text[:12].replace(chr(10), ";"))
            shell.run_cell(text, store_history=True)
        cell("lock = pfs.Lock('shop/LOCK_a')")
        cell("%pfs on")
        cell("%pfs on")
        cell("for _ in range(7):\\n  with lock: pass")
        cell("1 + 1;")
        cell("%%pfs\\nwith lock: pass")
        cell("with lock: 1 / 0")
        cell("%pfs off")
        cell("with lock: pass")
        cell("%pfs later")
        print("@@ statements")
        table = pfs.table("events_statements_history_long", where="EVENT_NAME = 'statement/notebook/cell'")
        for text, errors in zip(table["SQL_TEXT"], table["ERRORS"]):
            print(repr(text), errors)
        waits = pfs.table("events_waits_history_long", where="EVENT_NAME like '%LOCK_a'")
        print(sum(waits["NESTING_EVENT_ID"].isin(table["EVENT_ID"])))
        """,
    )
    said = {part.splitlines()[0].strip(): part.splitlines()[1:] for part in out.split("@@") if part.strip()}
    assert said["%pfs on"] == []
    assert out.count("pfs sees its own objects here: ") == 1  # for it is on already
    (line,) = said["for _ in ran"]
    assert "; 7 waits, " in line
    assert said["1 + 1;"] == []
    assert "; 1 wait, " in said["%%pfs;with l"][0]  # of the magic, once
    assert any("; 1 wait, " in line for line in said["with lock: 1"])
    assert any("ZeroDivisionError" in line for line in said["with lock: 1"])
    assert said["with lock: p"] == []
    assert any("%pfs takes 'on' or 'off', not 'later' (it is off now)" in line for line in said["%pfs later"])
    assert [line.rpartition(" ")[2] for line in said["statements"][:-1]] == ["0", "0", "1"]
    assert said["statements"][-1] == "8"  # of 7 and of 1; those of %%pfs are in no cell that is watched


@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_a_line_below_a_long_cell_says_how_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel: one output, which changes while the cell runs, and is the report at its end."""
    manager = pytest.importorskip("jupyter_client.manager")
    for name, value in clean_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        said: list[tuple[str, dict[str, str], str]] = []

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            if "data" in content:
                said.append((message["msg_type"], content["data"], content.get("transient", {}).get("display_id", "")))

        def execute(cell: str) -> None:
            assert client.execute_interactive(cell, output_hook=hear, timeout=60)["content"]["status"] == "ok"

        execute("import pfs, time\n%load_ext pfs\n%pfs on")
        execute("lock = pfs.Lock('shop/LOCK_a')\nfor _ in range(70):\n    with lock: time.sleep(0.05)")
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    assert {kind for kind, _, _ in said[1:]} == {"update_display_data"}
    assert said[0][0] == "display_data"
    assert len({display for _, _, display in said}) == 1
    lines = [data["text/plain"] for _, data, _ in said]
    running = [line for line in lines if line.startswith("running ")]
    assert len(running) >= 3  # 3.5 s: after 1.0, 1.5, 2.0 ... s
    assert running == lines[:-1]
    counts = [int(line.split("; ")[1].split()[0]) for line in running]
    assert counts == sorted(counts)
    assert "% of it for wait/synch/mutex/shop/LOCK_a" in running[-1]
    assert "; 70 waits, " in lines[-1]
    assert "<details>" in said[-1][1]["text/html"]
    assert "wait/synch/mutex/shop/LOCK_a" in said[-1][1]["text/html"]


UNCHANGED = """%%pfs
import sqlite3, threading, time
lock = threading.RLock()
def work():
    for _ in range(5):
        with lock:
            time.sleep(0.01)
            open("/etc/passwd").read()
    sum(range(3_000_000))
threads = [threading.Thread(target=work, name=f"worker-{n}") for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
db = sqlite3.connect(":memory:")
for n in range(7): db.execute("select ?", (n,)).fetchall()
"""


FILES = """
import os, pfs
files = pfs.attach(os.getpid()).table("file_summary_by_instance", where="COUNT_STAR > 0")
named = files["FILE_NAME"].to_list()
own = files[files["COUNT_READ"] > 0]["FILE_NAME"].to_list()
("/etc/passwd" in named, [name for name in own if name.endswith("/maps") or ".so" in os.path.basename(name) or "/_auto" in name])
"""
TIMELINE = """
import re, threading, time
from pfs._ui.notebook.report import Report
with Report() as measured:
    waited = threading.Lock()
    with waited:
        thread = threading.Thread(target=lambda: (waited.acquire(), time.sleep(0.02)))
        thread.start()
        time.sleep(0.02)
    thread.join()
text = measured.timeline.svg
(measured.seconds, re.findall(">([^<]+)</text>", text)[-6:], " ".join(re.findall("<title>.*?</title>", text)))
"""


@pytest.mark.skipif(not Path(pfs.__file__).with_name("lib").joinpath("libperfschema-run.so").exists(), reason="without pfs run")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client", "ignore::DeprecationWarning:zmq")
def test_a_kernel_under_pfs_run_shows_code_that_knows_nothing_of_pfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = pytest.importorskip("jupyter_client.manager")
    for name, value in clean_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    kernel = manager.KernelManager(kernel_name="python3")
    start = [sys.executable, "-m", "pfs", "run", "--no-report", "--"]
    kernel.kernel_spec.argv[:] = [*start, sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel.start_kernel(cwd=str(tmp_path))
    client = kernel.client()
    said: list[str] = []

    def execute(cell: str) -> None:
        def hear(message: dict[str, Any]) -> None:
            text = message["content"].get("data", {}).get("text/plain", "running")
            if not text.startswith("running"):  # below a cell of more than a second, on a busy machine
                said.append(text)

        assert client.execute_interactive(cell, output_hook=hear, timeout=60)["content"]["status"] == "ok"

    try:
        client.start_channels()
        client.wait_for_ready(60)
        execute("%load_ext pfs")
        execute(UNCHANGED)
        [report] = said
        execute("%pfs on")
        execute("with lock: open('/etc/passwd').read()")
        execute("%pfs off")
        execute(FILES)
        execute(TIMELINE)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    rows = {line.split("  ")[0]: line.split("  ", 1)[1].split() for line in report.splitlines() if "  " in line}
    assert rows["wait/synch/mutex/python/__main__:3"][0] == "15"
    assert rows["wait/synch/mutex/python/__main__:3"][2] == "ms"
    assert int(rows["wait/synch/cond/python/gil"][0]) > 0
    assert int(rows["/etc/passwd"][0]) >= 15
    assert rows["main: SELECT ?"][0] == "7"
    assert not [name for name in rows if "pfs._" in name or "/proc/" in name or "pipe:" in name]
    # Threads that have ended are there, and the events of all threads are those of the waits.
    workers = [int(numbers[0].replace(",", "")) for name, numbers in rows.items() if "thread/python/worker-" in name]
    assert len(workers) == 3
    assert min(workers) >= 5
    assert int(re.search(r"([\d,]+) waits", report)[1].replace(",", "")) >= sum(workers)  # type: ignore[index]
    assert "waited in all threads" in said[1]
    # What pfs reads is no part of the program: symbols, its own files, tables of the process in /proc.
    assert ast.literal_eval(said[2]) == (True, [])
    # The picture is of the cell: the kernel's threads have waited for longer.
    seconds, marks, lines = ast.literal_eval(said[3])
    assert marks[-1] == f"{1000 * seconds:.3g} ms"
    assert re.search(r"wait/synch/mutex/python/threading.Thread.join [\d.]+ .s In \[\d+\]:9<", lines)


def test_what_to_mend_first_names_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "cells_of_notebook", lambda: {"16370544.py": "In [2]"})
    with Report() as report:
        pass
    report.findings = "a lock at 16370544.py:6, not at 99.py:8"
    for text in (repr(report), report._repr_html_()):
        assert "a lock at In [2]:6, not at 99.py:8" in text


def test_the_magic_of_a_cell_that_waits_for_nothing_says_why(fresh: Run) -> None:
    assert "pfs.Lock" in run(fresh, 'shell.run_cell("%%pfs\\n1 + 1\\n")')


def test_frames_are_readable_and_others_are_left_alone(fresh: Run) -> None:
    out = run(
        fresh,
        """
        import pandas as pd
        with pfs.Lock("shop/LOCK_a"): pass
        def html(frame): return shell.display_formatter.format(frame)[0]["text/html"]
        ours = html(pfs.table("events_waits_summary_global_by_event_name", where="COUNT_STAR > 0"))
        print("events_waits_summary_global_by_event_name of process" in ours, " ns<" in ours or " µs<" in ours)
        other = pd.DataFrame({"SUM_TIMER_WAIT": [1]})
        print(html(other) == other._repr_html_())
        shell.run_line_magic("unload_ext", "pfs")
        print("of process" in html(pfs.table("threads")), "pfs" in shell.magics_manager.magics["cell"])
        """,
    )
    assert out.split() == ["True", "True", "True", "False", "False"]


def test_a_long_statement_keeps_its_beginning_and_is_whole_in_the_title() -> None:
    """A path keeps its end, too: both tell it from others."""
    statement = "SELECT `name` , `price` FROM `orders` WHERE `customer` = ? AND `state` IN (...) AND `it's` < ? ORDER BY `price`"
    path = "/usr/lib/python3.11/site-packages/" + "folder/" * 10 + "ascii.py"
    frame = pd.DataFrame({"DIGEST_TEXT": [statement, "COMMIT"], "FILE_NAME": [path, "/etc/passwd"], "query": [statement, None]})
    frame.attrs = {"table": "made", "read_at": 0, "order": ["query"]}
    assert readable.readable(frame)["DIGEST_TEXT"].tolist() == [statement[:55] + "…", "COMMIT"]
    texts = ElementTree.fromstring(readable.html(frame)).findall(".//td")
    shown = [(cell.text or "", cell.get("title")) for cell in texts]
    name = readable.readable(frame)["FILE_NAME"][0]
    assert (name[:9], name[-15:]) == ("/usr/lib/", "folder/ascii.py")
    assert shown == [
        (statement[:55] + "…", statement), (statement[:55] + "…", statement), (name, path),
        ("NULL", None), ("COMMIT", None), ("/etc/passwd", None),
    ]  # fmt: skip


def test_sql_in_a_cell(fresh: Run) -> None:
    out = run(
        fresh,
        """
        import os
        shell.push({"here": os.getpid()})
        for words in ("", "here"):
            print(shell.run_cell_magic("pfs_sql", words, "select count(*) from setup_timers").rows())
        """,
    )
    assert out.split("\n") == ["[(5,)]", "[(5,)]", ""]


def test_names_are_completed(fresh: Run) -> None:
    out = run(
        fresh,
        """
        lock = pfs.Lock("shop/LOCK_a")
        from IPython.core.completer import provisionalcompleter
        shell.Completer.use_jedi = False
        def texts(line):
            with provisionalcompleter():
                return [found.text for found in shell.Completer.completions(line, len(line))]
        print(texts('pfs.table("events_waits_history'))
        print(texts('pfs.setup_instruments["wait/synch/mutex/shop'))
        print(texts('print("events_waits_history'))
        """,
    )
    table, instrument, other = out.splitlines()
    assert table == "['events_waits_history', 'events_waits_history_long']"
    assert "wait/synch/mutex/shop/LOCK_a" in instrument
    assert "events_waits" not in other


def events(rows: list[tuple[int, str, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["THREAD_ID", "EVENT_NAME", "TIMER_START", "TIMER_WAIT"])


def test_a_timeline_has_a_lane_for_each_thread_also_if_it_waits_all_the_time() -> None:
    picture = timeline(
        events([(7, "wait/synch/mutex/a/b", 0, 10**9), (8, "wait/io/file/a/c", 5 * 10**8, 10**6), (9, "idle", 0, 5)]),
        {7: "thread/a/main"},
        begin=4 * 10**8,
        end=6 * 10**8,
    )
    assert (picture.events, picture.drawn) == (2, 2)
    root = ElementTree.fromstring(picture.svg)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"7 thread/a/main", "thread 8", "mutexes", "files", "0", "200 µs"} <= set(texts)
    bars = [node for node in root.iter("{http://www.w3.org/2000/svg}rect") if node.find("*") is not None]
    assert [round(float(bar.get("width", 0))) for bar in bars] == [700, 4]
    with pytest.raises(pfs.InvalidValue, match="TIMER_START"):
        timeline(pd.DataFrame({"A": [1]}))
    with pytest.raises(pfs.InvalidValue, match="picoseconds"):
        timeline(pfs.table("events_waits_history_long", unit="s"))


def test_a_timeline_has_the_colors_of_the_theme_and_an_alternative_text() -> None:
    picture = timeline(events([(1, "wait/io/file/a/b", 0, 2 * 10**9)]))
    assert ElementTree.fromstring(picture.svg).get("aria-label") == "1 event of 1 thread in 2 ms"
    page = ElementTree.fromstring(picture._repr_html_())
    (background, *_) = page.iter("{http://www.w3.org/2000/svg}rect")
    assert background.get("style") == "fill:var(--jp-layout-color0,white)"
    assert "var(" not in picture.svg  # a file stands alone


def test_a_timeline_of_nothing_is_a_picture() -> None:
    picture = timeline(events([]))
    assert "no timed events" in picture.svg
    ElementTree.fromstring(picture.svg)


def test_an_error_is_one_line_for_who_typed_the_call(fresh: Run) -> None:
    """With the nearest name; the traceback is there if a function of the user's own made the call."""
    out = run(
        fresh,
        """
        for cell in (
            "pfs.table('file_sumary_by_instance')",
            "pfs.table('file_summary_by_instance', order='SUM_BYTES_READ desc')",
            "pfs.tabel('threads')",
            "def mine():\\n    return pfs.table('thraeds')\\nmine()",
        ):
            print("---")
            shell.run_cell(cell, store_history=True)
        """,
    )
    _, table, order, attribute, own = out.split("---\n")
    assert table == "UnknownTable: unknown table 'file_sumary_by_instance': the nearest is 'file_summary_by_instance'\n"
    assert order.count("\n") == 1
    assert "the nearest is 'SUM_NUMBER_OF_BYTES_READ'" in order
    assert "module 'pfs' has no attribute 'tabel': the nearest is 'table'" in attribute
    assert own.count("\n") > 5
    assert "the nearest is 'threads'" in own


def test_a_cell_in_which_nothing_is_recorded_says_how(fresh: Run) -> None:
    out = run(fresh, "shell.run_cell('%%pfs\\nopen(\"/etc/hostname\").read()', store_history=True)")
    assert "pfs run --no-report -- jupyter lab" in out


def test_an_error_and_a_result_have_the_number_of_their_cell(fresh: Run) -> None:
    """IPython has counted the cell of a magic already when it runs what stands below."""
    out = run(
        fresh,
        """
        shell.run_cell("a = 1", store_history=True)
        shell.run_cell("%%pfs\\n1 / 0", store_history=True)
        shell.run_cell("%%pfs\\na + 40", store_history=True)
        shell.run_cell("b = 1 / 0", store_history=True)
        shell.run_cell("%%pfs\\nget_ipython().run_cell_magic('pfs', '', 'a')", store_history=True)  # one in another one
        print(shell.user_ns["Out"], shell.execution_count)
        """,
    )
    assert re.findall(r"In\[(\d+)\]", out) == ["3", "5"]
    assert out.splitlines()[-1] == "{4: 41, 6: 1} 7"
