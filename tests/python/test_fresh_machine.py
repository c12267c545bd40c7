""".ci/fresh-machine ends when it is told to, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_what_it_runs(tmp_path: Path, stop: signal.Signals) -> None:
    tools, trees = tmp_path / "tools", tmp_path / "trees"
    tools.mkdir()
    trees.mkdir()
    begun = tmp_path / "begun"
    for name, body in (("debootstrap", f"touch {begun}; exec sleep 600"), ("apt-get", "echo http://mirror")):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(trees)}
    script = subprocess.Popen([ROOT / ".ci/fresh-machine", "--only", "install"], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not begun.exists():
        assert script.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(list(trees.iterdir())) == 1
    script.send_signal(stop)
    assert script.wait(20) == 128 + stop
    assert list(trees.iterdir()) == []
    assert str(trees) not in subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True).stdout
