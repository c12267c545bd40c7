"""Counts the pages that the kernel gives a program for each request, plain and under `pfs run`: Flask, a thread per request.

    python lab/short_threads.py [--requests 1600]

A fresh page costs the program a fault, and the kernel clears it. The counts hardly depend on other load.
The program counts from the first request on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.bench.python_work import BEGIN, PFS_RUN, PROGRAMS

FIRST = "threads = [threading.Thread(target=ask)"
COUNT = "import resource\nfaults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\nbefore = faults()\n"


def program(requests: int) -> str:
    """Returns Flask's program of python_work.py, which prints its faults after that many requests of four threads."""
    text = f"TIMES = {requests // 4}\n{BEGIN}{PROGRAMS['flask']}"
    assert text.count(FIRST) == 1, "the program makes its threads in another way"
    return text.replace(FIRST, COUNT + FIRST) + "print(faults() - before)\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pfs-short-") as folder:
        (path := Path(folder, "short_program.py")).write_text(program(options.requests))
        for name, before in (("plain", ()), ("pfs run", (*PFS_RUN, "--"))):
            command = [*before, sys.executable, str(path)]
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
            print(f"{name}: {int(done.stdout.split()[-1]) / options.requests:.2f} faults a request")


if __name__ == "__main__":
    main()
