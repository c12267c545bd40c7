"""Says how long pfs.otel takes to make the spans of a process, and how many bytes they are.

python lab/otel_spans.py [SPANS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pfs.otel

PROGRAM = """
import pfs, sys
for number in range({n}):
    with pfs.statement("app/job", "select 1"), pfs.stage("app/step"): pass
print("ready", flush=True)
sys.stdin.read()
"""


def main(spans: int) -> None:
    n = spans // 2
    sizes = ",".join(f"performance_schema_events_{kind}_history_long_size={n}" for kind in ("statements", "stages"))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(n=n)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PFS_OPTIONS": sizes},
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdout.readline()
    exporter = pfs.otel.exporter(program.pid)
    for _ in range(2):  # the second reading has nothing new
        began = time.process_time()
        size = sum(len(request.SerializeToString()) for request in exporter.traces())
        print(f"{exporter.counts.spans} spans so far: {time.process_time() - began:.2f} s, {size / 1e6:.1f} MB")
    exporter.close()
    program.stdin.close()
    program.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
