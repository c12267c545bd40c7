"""``%load_ext pfs``: the magic, readable frames, completion, names of cells; and pictures of events."""

from __future__ import annotations

import textwrap
from xml.etree import ElementTree

import pandas as pd
import pytest

import pfs
from tests.conftest import Run

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
        shell.run_cell({CELL!r}, store_history=True)
        shell.run_cell("a = 1", store_history=True)
        print(set(pfs.table("events_waits_history_long", where="OPERATION = 'lock'")["SOURCE"]))
        """,
    )
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["wait/synch/mutex/shop/LOCK_orders"][1] == "15"
    assert lines["wait/synch/mutex/shop/LOCK_orders"][3] == "ms"
    assert lines["/etc/passwd"]
    assert out.splitlines()[-1] == "{'In [2]:6'}"  # line 6 of the cell, that of %%pfs included


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
        print(texts('pfs.t.setup_ti'))
        print(texts('pfs.setup_instruments["wait/synch/mutex/shop'))
        print(texts('print("events_waits_history'))
        """,
    )
    table, attribute, instrument, other = out.splitlines()
    assert table == "['events_waits_history', 'events_waits_history_long']"
    assert "setup_timers" in attribute
    assert "wait/synch/mutex/shop/LOCK_a" in instrument
    assert "events_waits" not in other


def events(rows: list[tuple[int, str, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["THREAD_ID", "EVENT_NAME", "TIMER_START", "TIMER_WAIT"])


def test_a_timeline_has_a_lane_for_each_thread_also_if_it_waits_all_the_time() -> None:
    picture = pfs.timeline(
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
        pfs.timeline(pd.DataFrame({"A": [1]}))
    with pytest.raises(pfs.InvalidValue, match="picoseconds"):
        pfs.timeline(pfs.table("events_waits_history_long", unit="s"))


def test_a_timeline_of_nothing_is_a_picture() -> None:
    picture = pfs.timeline(events([]))
    assert "no timed events" in picture.svg
    ElementTree.fromstring(picture.svg)
