"""Settings for instruments that register later: changes by a pattern leave rules, which are shown and can be removed; and what a
program says when PFS_OPTIONS was refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pfs
from tests.conftest import Run

RULE = """
rules = pfs.setup_instruments.rules
print([row[1:4] for row in rules._rows(rules._columns())])
"""


def settings(fresh: Run, script: str, options: str | None = None) -> list[str]:
    """Returns "ENABLED TIMED" of the lock app/LOCK_a, made at the place of MAKE."""
    code = (
        "import pfs\n"
        "def shown(lock='LOCK_a'):\n"
        "    row = pfs.setup_instruments['%/app/' + lock]\n"
        "    print(row.enabled, row.timed)\n" + script.replace("MAKE", "lock = pfs.Lock('app/LOCK_a')")
    )
    return fresh(code, options=options).splitlines()


def test_the_line_of_the_readme_works_in_a_fresh_program(fresh: Run) -> None:
    script = 'pfs.setup_instruments["wait/synch/mutex/%"].timed = "CONTENDED"\nMAKE\nshown()'
    assert settings(fresh, script) == ["True CONTENDED"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('pfs.setup_instruments["wait/synch/mutex/%"].enabled = False\nMAKE\nshown()', ["False True"]),
        ('pfs.setup_instruments.update("%/app/%", timed=False)\nMAKE\nshown()', ["True False"]),
        ("pfs.setup_instruments.update(enabled=False)\nMAKE\nshown()", ["False True"]),
        ('pfs.setup_instruments.update({"NAME": "%/APP/%"}, enabled=False)\nMAKE\nshown()', ["False True"]),
        # A rule for other instruments, or one that chooses by what is there now, says nothing.
        ('pfs.setup_instruments["wait/io/%"].enabled = False\nMAKE\nshown()', ["True True"]),
        ('pfs.setup_instruments.update({"NAME": "%", "TIMED": True}, enabled=False)\nMAKE\nshown()', ["True True"]),
        # The youngest rule wins, setting by setting, as if the instrument had been there all the time.
        (
            'pfs.setup_instruments["%/app/%"].enabled = False\npfs.setup_instruments["wait/%"].enabled = True\n'
            'pfs.setup_instruments["%/app/%"].timed = False\nMAKE\nshown()',
            ["True False"],
        ),
        # CONTENDED is for locks that can be tried; others are timed.
        (
            'pfs.setup_instruments["wait/%"].timed = "CONTENDED"\nc = pfs.Condition(name="app/COND")\n'
            'print(pfs.setup_instruments["wait/synch/cond/app/COND"].timed)',
            ["True"],
        ),
        # An exact name is a rule only if it is not there yet.
        ('pfs.setup_instruments.update("wait/synch/mutex/app/LOCK_a", enabled=False)\nMAKE\nshown()', ["False True"]),
        (
            'MAKE\npfs.setup_instruments["wait/synch/mutex/app/LOCK_a"].enabled = False\nprint(len(pfs.setup_instruments.rules))',
            ["0"],
        ),
    ],
)
def test_rules_hold_for_instruments_that_come_later(fresh: Run, script: str, expected: list[str]) -> None:
    # A condition of its own lock cannot be tried: the update refuses CONTENDED only where such an instrument is there already.
    if "CONTENDED" in script:
        script = script.replace('["wait/%"].timed = "CONTENDED"', '.rules.insert(pattern="wait/%", timed="CONTENDED")')
    assert settings(fresh, script) == expected


def test_only_keeps_its_promise_and_takes_it_back(fresh: Run) -> None:
    script = """
with pfs.setup_instruments.only("wait/io/%"):
    MAKE
    shown()
    file = pfs.open("/dev/null", "rb", name="app/null")
    shown("null")
shown()
shown("null")
print(len(pfs.setup_instruments.rules))
"""
    assert settings(fresh, script) == ["False True", "True True", "True True", "True True", "0"]


def test_with_puts_rules_back_in_their_order(fresh: Run) -> None:
    script = f"""
pfs.setup_instruments["%/app/%"].enabled = False
pfs.setup_instruments["wait/%"].timed = False
{RULE}
with pfs.setup_instruments:
    pfs.setup_instruments["%/app/%"].enabled = True
    pfs.setup_instruments["%/other/%"].enabled = True
    MAKE
    shown()
{RULE}
shown()
"""
    before, inside, after, at_end = settings(fresh, script)
    assert before == after == "[('%/app/%', 'NO', None), ('wait/%', None, 'NO')]"
    assert inside == "True False"
    assert at_end == "False False"


def test_rules_can_be_removed_and_take_back_what_they_did(fresh: Run) -> None:
    script = """
pfs.setup_instruments["%/app/%"].enabled = False
pfs.setup_instruments["%/app/%"].timed = False
MAKE
other = pfs.Lock("app/LOCK_b")
pfs.setup_instruments["%/app/LOCK_b"].enabled = True
shown()
print(pfs.setup_instruments.rules.delete("\\\\%/app/\\\\%"))
shown()
shown("LOCK_b")
pfs.setup_instruments.rules.insert(pattern="%/app/%", enabled=False)
shown()
pfs.truncate("setup_instrument_rules")
shown()
"""
    assert settings(fresh, script) == ["False False", "2", "True True", "True True", "False True", "True True"]


def test_presets_are_the_first_rules(fresh: Run) -> None:
    options = (
        "performance_schema_instrument='wait/synch/mutex/app/LOCK_a=on',performance_schema_instrument='wait/synch/%=counted'"
    )
    assert settings(fresh, "MAKE\nshown()\n" + RULE, options) == [
        "True True",
        "[('wait/synch/%', 'YES', 'NO'), ('wait/synch/mutex/app/LOCK\\\\_a', 'YES', 'YES')]",
    ]
    assert settings(fresh, 'pfs.setup_instruments["wait/%"].enabled = False\nMAKE\nshown()', options) == ["False True"]


def test_threads_have_settings_of_their_own(fresh: Run) -> None:
    out = fresh("""
        import pfs
        pfs.setup_instruments.update(enabled=False)
        thread = pfs.Thread(target=int, instrument="app/worker")
        thread.start(); thread.join()
        print(pfs.setup_threads["thread/app/worker"].enabled)
    """)
    assert out == "True\n"


def test_a_forked_child_has_the_rules(fresh: Run) -> None:
    out = fresh("""
        import os, pfs
        pfs.setup_instruments["%/app/%"].enabled = False
        if os.fork() == 0:
            lock = pfs.Lock("app/LOCK_a")
            print(pfs.setup_instruments["%/app/%"].enabled, flush=True)
            os._exit(0)
        os.wait()
    """)
    assert out == "False\n"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pfs.setup_instruments["wait/io/fil/%"], pfs.UnknownName, ("wait/io/fil/%", "nearest")),
        (lambda: pfs.setup_instruments.update("wait/io/fil/%", enabled=False), pfs.UnknownName, ("nearest",)),
        (lambda: pfs.setup_instruments.update("wait/io/file/none/%", timed="CONTENDED"), pfs.InvalidValue, ("CONTENDED",)),
        (lambda: pfs.setup_instruments.rules.insert(pattern="x/%", enabled=True), pfs.InvalidValue, ("x/%",)),
        (lambda: pfs.setup_instruments.rules.insert(pattern="wait/%"), pfs.InvalidValue, ("ENABLED", "TIMED")),
        (lambda: pfs.setup_instruments.rules.insert(pattern="wait/%", enabled="PERHAPS"), pfs.InvalidValue, ("PERHAPS",)),
        (lambda: pfs.setup_instruments.rules.insert(ordinal=3, pattern="wait/%"), pfs.Error, ("ORDINAL", "PATTERN")),
    ],
)
def test_bad_rules_are_refused_and_leave_nothing(call: object, error: type[Exception], words: tuple[str, ...]) -> None:
    pfs.open(os.devnull, name="t/data").close()  # an instrument whose name is near
    before = pfs.setup_instruments.rules.save()._rows
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert all(word in str(caught.value) for word in words), caught.value
    assert pfs.setup_instruments.rules.save()._rows == before


def test_rules_from_outside(tmp_path: Path) -> None:
    """Another process adds a rule, sees it, and removes it; the program follows."""
    script = """
import sys, pfs
pfs.Lock("app/LOCK_first")
print("ready", flush=True)
for line in sys.stdin:
    lock = pfs.Lock(line.strip())
    print(pfs.setup_instruments["%/" + line.strip()].enabled, flush=True)
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")} | {"PFS_DIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def made(name: str) -> str:
            print(name, file=program.stdin, flush=True)
            return program.stdout.readline().strip()  # type: ignore[union-attr]

        assert program.stdout.readline() == "ready\n"
        (path,) = tmp_path.glob("*.pfs")
        with pfs.attach(path, write=True) as schema:
            schema.setup_instruments["wait/synch/mutex/app/%"].enabled = False
            assert made("app/LOCK_second") == "False"
            assert schema.table("setup_instrument_rules")["PATTERN"].tolist() == ["wait/synch/mutex/app/%"]
            schema.setup_instruments.rules.truncate()
            assert made("app/LOCK_third") == "True"
            assert schema.setup_instruments["%/app/LOCK_second"].enabled is True
        program.send_signal(signal.SIGKILL)


def test_refused_options_are_said_once_with_the_nearest_name(tmp_path: Path) -> None:
    def said(options: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        env |= {"PFS_DIR": str(tmp_path), "PFS_OPTIONS": options}
        script = 'import pfs; [pfs.Lock(f"app/LOCK_{i}") for i in range(3)]; pfs.table("threads")'
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stderr

    line = said("performance_schema_instrumentz='wait/%=off'")
    assert line.count("\n") == 1
    assert "the nearest is 'performance_schema_instrument'" in line
    assert "performance_schema_events_waits_history_size" in said("performance_schema_event_waits_history_size=3")
    assert "performance_schema_consumer_events_waits_history" in said("performance_schema_consumr_events_waits_history=ON")
    assert said("performance_schema_print_bad_options=OFF,typo") == ""
    assert said("performance_schema_events_waits_history_size=3") == ""


def test_stderr_that_is_a_file_of_the_program_is_left_alone(tmp_path: Path) -> None:
    """A program that closed its stderr may have opened a file of its own under that number."""
    path = tmp_path / "data"
    script = f"""
import os
os.close(2)
assert os.open({str(path)!r}, os.O_RDWR | os.O_CREAT, 0o600) == 2
import pfs
pfs.table("threads")
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    subprocess.run([sys.executable, "-c", script], env=env | {"PFS_DIR": str(tmp_path), "PFS_OPTIONS": "typo"}, check=True)
    assert path.read_bytes() == b""


def test_ps_and_top_show_that_options_were_refused(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")} | {"PFS_DIR": str(tmp_path)}
    script = 'import pfs; pfs.table("threads"); print("ready", flush=True); input()'
    with subprocess.Popen(
        [sys.executable, "-c", script], env=env | {"PFS_OPTIONS": "performance_schema_print_bad_options=OFF,typo"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        for arguments in (["ps"], ["top", str(program.pid), "--batch", "--count", "1"]):
            done = subprocess.run([sys.executable, "-m", "pfs", *arguments], env=env, capture_output=True, text=True, check=True)
            assert "'typo' is not of the form name=value" in done.stdout, arguments
        program.kill()


def test_a_dead_process_still_shows_its_rules(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")} | {"PFS_DIR": str(tmp_path)}
    script = 'import os, pfs; pfs.setup_instruments["wait/io/%"].timed = False; os.kill(os.getpid(), 9)'
    subprocess.run([sys.executable, "-c", script], env=env, check=False)
    (path,) = tmp_path.glob("*.pfs")
    done = subprocess.run(
        [sys.executable, "-m", "pfs", "show", path, "setup_instrument_rules", "--format", "json"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [(row["PATTERN"], row["TIMED"]) for row in json.loads(done.stdout)] == [("wait/io/%", "NO")]
