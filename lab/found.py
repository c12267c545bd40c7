"""Writes docs/howto/found.md: what pfs finds in six programs that are used badly, and what mending them gains.

    python lab/found.py [NAME ...]

Each program runs under `pfs run` once, and plain five times before and after it is mended: the least time counts. It needs redis,
Django and the shell of SQLite.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pfs._process.findings.find import Finding, text_of
from tests.bench.python_work import PFS_RUN

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/howto/found.md"
RUNS = 5


@dataclass(frozen=True)
class Case:
    """A program that is used badly. Its commands run in a shell, in a folder of its own."""

    title: str
    command: str  # {bad} stands for what is mended
    bad: str
    good: str
    mend: str
    files: tuple[tuple[str, str], ...] = ()
    prepare: str = "true"


REDIS = """\
rm -rf appendonlydir
redis-server --port 0 --unixsocket "$PWD/redis" --save '' --appendonly yes $1 > redis.log &
while ! [ -S redis ]; do sleep 0.01; done
redis-benchmark -s redis -c 1 -n 2000 -t set -q > /dev/null
redis-cli -s redis shutdown nosave
wait
"""
LOG = """\
import sys

def log(line: str) -> None:
    with open("app.log", "a") as file:
        file.write(line + "\\n")

def log_kept(line: str, file=open("app.log", "a")) -> None:
    file.write(line + "\\n")

write = log_kept if "kept" in sys.argv else log
for number in range(20_000):
    write(f"order {number} is done")
"""
ROWS = """\
import struct, sys

total = 0
with open("rows.bin", "rb", *map(int, sys.argv[1:])) as file:
    while row := file.read(16):
        total += struct.unpack("<qq", row)[1]
"""
EACH = """\
while read -r line; do
  echo "$line" | cut -d, -f2
done < rows.csv > column
"""

TABLE = "CREATE TABLE sold(item INTEGER, price INTEGER)"
ROW_BY_ROW = "".join(f"INSERT INTO sold VALUES({n}, {n * n});\n" for n in range(300))

CASES = {
    "django": Case(
        "A page of Django",
        "python shop.py{bad}", "", " mended",
        "`Book.objects.select_related(\"author\")` asks for books and authors at once.",
        (("shop.py", (ROOT / "tests/programs/strangers/shop.py").read_text()),),
    ),
    "redis": Case(
        "Redis that is safer than it has to be",
        "sh redis.sh '{bad}'", "--appendfsync always", "--appendfsync everysec",
        "`appendfsync everysec`, if a crash may cost the last second of writes.",
        (("redis.sh", REDIS),),
    ),
    "sqlite": Case(
        "Rows that are inserted one by one",
        "rm -f shop.db; sqlite3 shop.db < {bad}", "each.sql", "together.sql",
        "`BEGIN` before the first row and `COMMIT` after the last one.",
        (("each.sql", f"{TABLE};\n{ROW_BY_ROW}"), ("together.sql", f"{TABLE};\nBEGIN;\n{ROW_BY_ROW}COMMIT;\n")),
    ),
    "shell": Case(
        "A shell script with a program for each line",
        "{bad}", "sh each.sh", "cut -d, -f2 rows.csv > column",
        "`cut -d, -f2 rows.csv > column`.",
        (("each.sh", EACH), ("rows.csv", "".join(f"{n},{n * n}\n" for n in range(300)))),
    ),
    "log": Case(
        "A log that is opened for each line",
        "python log.py{bad}", "", " kept",
        "The file stays open.",
        (("log.py", LOG),),
    ),
    "rows": Case(
        "A file of rows that is read without a buffer",
        "python rows.py{bad}", " 0", "",
        "`open(\"rows.bin\", \"rb\")`: without the 0 it has a buffer.",
        (("rows.py", ROWS),),
        "head -c 1600000 /dev/zero > rows.bin",
    ),
}  # fmt: skip


def seconds(command: str, folder: Path) -> float:
    least = float("inf")
    for _ in range(RUNS):
        begun = time.perf_counter()
        subprocess.run(["sh", "-c", command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        least = min(least, time.perf_counter() - begun)
    return least


def section(case: Case, folder: Path) -> str:
    for name, text in case.files:
        (folder / name).write_text(text)
    subprocess.run(["bash", "-c", case.prepare], cwd=folder, check=True)
    bad, good = (case.command.format(bad=part) for part in (case.bad, case.good))
    report = folder / "report.json"
    subprocess.run([*PFS_RUN, "--json", "-o", report, "--", "sh", "-c", bad], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found = [Finding(**one) for one in json.loads(report.read_text())["findings"]][:1]
    before, after = seconds(bad, folder), seconds(good, folder)
    shown = bad.rpartition("; ")[2]
    mended = f"Mended: {case.mend} It took {before * 1000:.0f} ms, and takes {after * 1000:.0f} ms."
    return f"""## {case.title}

```text
$ pfs run -- {shown}
{text_of(found)}
```

{textwrap.fill(mended, 100, break_long_words=False, break_on_hyphens=False)}
"""


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "an unnamed processor")


def main() -> None:
    names = sys.argv[1:] or list(CASES)
    sections = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="pfs-found-", dir=os.environ.get("TMPDIR")) as folder:
            sections.append(section(CASES[name], Path(folder)))
            print(sections[-1], flush=True)
    if names == list(CASES):
        PAGE.write_text(HEAD.format(processor=processor(), count=os.cpu_count()) + "\n".join(sections))


HEAD = """# What pfs finds in programs you know

<!-- Made by `python lab/found.py`. Do not edit. -->

Six ordinary programs that are used badly, the first finding of `pfs run` for each, and what mending
it gains. Times are wall times without pfs, the least of five, on {count} processors ({processor}).
[Findings](../reference/findings.md) has all rules.

"""

if __name__ == "__main__":
    main()
