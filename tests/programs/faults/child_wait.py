"""Six processes compute one after the other; mended, all at a time."""

import subprocess
import sys

command = [sys.executable, "-S", "-c", "sum(range(1_500_000))"]
if "mended" in sys.argv:
    children = [subprocess.Popen(command) for _ in range(6)]
    assert [child.wait() for child in children] == [0] * 6
else:
    for _ in range(6):
        subprocess.run(command, check=True)  # FAULT
