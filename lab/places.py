"""Measures what a reader takes to find the first line of a program, and the next ones: python lab/places.py [LINES]."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pfs._read.places import lines
from pfs._read.places.symbols import Place, symbol_of

LINES_OF_FUNCTION = 28


def main() -> None:
    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 50_000) // LINES_OF_FUNCTION
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "big.c"), Path(folder, "big")
        body = "".join(f"  x += x * {i} ^ FUNCTION;\n" for i in range(LINES_OF_FUNCTION - 3))
        source.write_text(
            "".join(f"int f{i}(int x) {{\n{body.replace('FUNCTION', str(i))}  return x;\n}}\n" for i in range(count))
            + "int main(void) { return f1(3); }\n"
        )
        subprocess.run(["cc", "-O1", "-g", "-o", program, source], check=True)
        sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout.splitlines()
        size = next(int(line.split("]")[1].split()[4], 16) for line in sections if ".debug_line " in line)
        lines.MOST_BYTES_OF_UNIT = 1 << 30
        symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
        start = int(next(line.split()[0] for line in symbols if line.endswith(f" f{count // 2}")), 16)
        place = Place(str(program), start + 8, "", is_return=True)
        for what, find in (("first symbol", symbol_of), ("first line", lines.line_of), ("second line", lines.line_of)):
            before = time.perf_counter()
            found = find(place)
            print(f"{what}: {found}, {time.perf_counter() - before:.6f} s")
        print(f"{count * LINES_OF_FUNCTION:,} lines, .debug_line has {size / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
