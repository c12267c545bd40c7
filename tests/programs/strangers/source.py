"""The first program of pipeline.sh: it flushes each line; mended, it does not."""

import sys

for number in range(20_000):
    print("order", number % 100, flush="mended" not in sys.argv)  # FAULT
