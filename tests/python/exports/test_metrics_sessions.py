"""The gauges of what threads do, and the alert rules that use them: a hung, a busy and a healthy service."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

import pfs.metrics
from pfs._process.history.watch import Watch
from tests.python._programs.subject import Subject

ALERTS = Path(__file__).parents[3] / "docs/examples/production/alerts.yml"
HUNG = """
import threading
lock, quiet = pfs.Lock("app/LOCK_orders"), pfs.socketpair("app/quiet")
ready = threading.Event()
def hold():
    with lock:
        ready.set()
        quiet[0].recv(1)
def want():
    with lock: pass
pfs.Thread(target=hold, name="hold", daemon=True).start()
ready.wait()
for _ in range(2): pfs.Thread(target=want, name="want", daemon=True).start()
pool = pfs.Condition("app/COND_pool")
def idle():
    with pool: pool.wait()
pfs.Thread(target=idle, name="idle", daemon=True).start()
"""


def values(text: str) -> dict[str, float]:
    """The samples of the gauges by their name and labels."""
    lines = re.findall(r"^(pfs_(?:active|blocked|deadlocked|longest)\S*?(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def test_a_hung_program_has_blocked_threads_and_idle_ones_are_not_active(program: Subject) -> None:
    assert values(pfs.metrics.text(program.pid))["pfs_blocked_threads"] == 0
    program.do(HUNG)
    time.sleep(0.5)
    found = values(pfs.metrics.text(program.pid))
    assert found['pfs_active_threads{class="wait/synch/mutex",event="wait/synch/mutex/app/LOCK_orders"}'] == 2
    assert found['pfs_active_threads{class="wait/io/socket",event="wait/io/socket/app/quiet"}'] == 1
    assert not any("COND_pool" in name for name in found)
    assert (found["pfs_blocked_threads"], found["pfs_deadlocked_threads"]) == (2, 0)
    assert 0.4 < found["pfs_longest_wait_seconds"] < 60


def test_between_scrapes_the_exporter_averages(program: Subject) -> None:
    """One thread holds the lock half of the time; the other waits for it then."""
    program.do("""
        import threading, time
        lock = pfs.Lock("app/LOCK_half")
        def hold():
            while True:
                with lock: time.sleep(0.3)
                time.sleep(0.3)
        def want():
            while True:
                with lock: pass
                time.sleep(0.01)
        for work in (hold, want): pfs.Thread(target=work, name=work.__name__, daemon=True).start()
    """)
    from pfs._export.metrics.api import exporter
    from pfs._export.metrics.text import text_of

    reads = exporter(program.pid)
    try:
        name = 'pfs_active_threads{class="wait/synch/mutex",event="wait/synch/mutex/app/LOCK_half"}'
        for _ in range(2):
            reads.metrics()
        time.sleep(6)
        found = values(text_of(reads.metrics()))[name]
    finally:
        reads.close()
    assert 0.2 < found < 0.8  # a single look says 0 or 1


def test_the_last_minute_is_kept_by_class(program: Subject) -> None:
    program.do(HUNG)
    from pfs import _core

    watch = Watch(_core.Segment(str(program.path)))
    time.sleep(3.5)
    minute = watch.minute(12)
    watch.stop()
    assert set(minute) - {"computing", "runnable"} == {"wait/synch/mutex", "wait/io/socket"}
    locks = minute["wait/synch/mutex"]
    assert locks[:10] == [0.0] * 10  # nobody looked then
    assert 2 * 2 < sum(locks) * 5 < 2 * 5  # two threads for some three seconds; a part has five


PROMTOOL = """
rule_files: [{rules}]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - {{series: 'pfs_blocked_threads{{instance="a"}}', values: '{blocked}'}}
      - {{series: 'pfs_longest_wait_seconds{{instance="a"}}', values: '{longest}'}}
      - {{series: 'pfs_deadlocked_threads{{instance="a"}}', values: '{deadlocked}'}}
      - {{series: 'pfs_active_threads{{instance="a",class="runnable",event=""}}', values: '{runnable}'}}
    alert_rule_test:
{alerts}
"""


def alert(name: str, at: str, value: str | None) -> str:
    """What promtool shall find at a time: nothing without a value."""
    texts = dict(re.findall(r"alert: (\w+).*?summary: \"(.*?)\"", ALERTS.read_text(), re.DOTALL))
    severity = "critical" if name in ("PfsHung", "PfsDeadlock") else "warning"
    found = f"      - {{eval_time: {at}, alertname: {name}, exp_alerts: ["
    if value is not None:
        summary = texts[name].replace("{{ $value }}", value)
        labels = f"instance: a, severity: {severity}"
        found += f'{{exp_labels: {{{labels}}}, exp_annotations: {{summary: "{summary}"}}}}'
    return found + "]}"


SERVICES: dict[str, tuple[dict[str, str], list[tuple[str, str, str | None]]]] = {
    # Hung since minute 1: the wait grows. It fires within a minute of it being 0.
    "hung": ({"blocked": "0x3 2x20", "longest": "0x3 0+15x20"}, [("PfsHung", "45s", None), ("PfsHung", "2m", "60")]),
    "deadlocked": ({"deadlocked": "0x3 2x20"}, [("PfsDeadlock", "45s", None), ("PfsDeadlock", "2m", "2")]),
    "slow": ({"runnable": "6x80", "blocked": "3x80"}, [("PfsNoProcessor", "15m", "6"), ("PfsBlockedThreads", "15m", "3")]),
    "healthy": (
        {"runnable": "1x80", "blocked": "1 0 0x78", "longest": "0.1x80"},
        [(name, "15m", None) for name in ("PfsHung", "PfsDeadlock", "PfsNoProcessor", "PfsBlockedThreads")],
    ),
}


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("service", SERVICES)
def test_alerts_fire_for_a_hung_and_a_slow_service_only(service: str, tmp_path: Path) -> None:
    series, expected = SERVICES[service]
    filled = {"blocked": "0x80", "longest": "0x80", "deadlocked": "0x80", "runnable": "0x80"} | series
    test = tmp_path / "test.yml"
    test.write_text(PROMTOOL.format(rules=ALERTS, alerts="\n".join(alert(*one) for one in expected), **filled))
    done = subprocess.run(["promtool", "test", "rules", str(test)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
