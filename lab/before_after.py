"""Writes docs/reference/before_and_after.md: each program with a fault, run with the fault and mended.

    python lab/before_after.py [NAME ...]      # with names of tests/programs/faults: only their parts of the page

Each runs plain and under `pfs run`, with the fault and mended. Where the rule says "at most", it does so three times: the least
time counts, and the promise of that run. A program that is not found is run twice more. The exit code is 1 if it is still not
found first at its line, has a finding when it is mended, or if mending saves more than "at most". Its part of the page stays as
it was.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lab.found import processor
from pfs._process.findings.find import Finding, text_of
from pfs._process.findings.rule import Rule
from pfs._process.findings.rules import RULES
from tests.python.run.test_findings import FAULTS, FREE_THREADED, NEED, built, place_of, reported

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/before_and_after.md"
TRIES = 3
DIFFER = 0.1  # of the time with the fault: two runs of a program differ by this


@dataclass(frozen=True)
class Ran:
    """Both ways of a program, plain and under `pfs run`. Times are seconds."""

    rule: Rule
    source: Path
    found: Finding | None
    mended: list[str]
    promised: float
    plain: tuple[float, float]
    recorded: tuple[float, float]

    @property
    def saved(self) -> float:
        return self.recorded[0] - self.recorded[1]

    @property
    def is_kept(self) -> bool:
        return self.saved <= self.promised + DIFFER * self.recorded[0]

    @property
    def is_right(self) -> bool:
        found = self.found is not None and self.found.name == self.rule.name and self.found.place == place_of(self.source)
        return found and not self.mended and (self.is_kept or not self.rule.is_bound)


def plainly(command: list[str], folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return time.perf_counter() - begun


def both_ways(rule: Rule, source: Path, folder: Path) -> Ran:
    command = built(source, folder)
    runs = 3 if rule.is_bound else 1
    plain, recorded, reports = [], [], []
    for words in ([], ["mended"]):
        plain.append(min(plainly([*command, *words], folder) for _ in range(runs)))
        reports.append([reported([*command, *words], folder) for _ in range(runs)])
        recorded.append(min(report["took"]["wall"] for report in reports[-1]) / 1e12)
    firsts = [Finding(**report["findings"][0]) if report["findings"] else None for report in reports[0]]
    fastest = min(zip((report["took"]["wall"] for report in reports[0]), firsts, strict=True), key=lambda run: run[0])[1]
    wrong = [first for first in firsts if first is None or first.name != rule.name]
    return Ran(
        rule,
        source,
        (wrong or firsts)[0],
        [found["name"] for report in reports[1] for found in report["findings"]],
        (fastest.time if fastest else 0) / 1e12,
        (plain[0], plain[1]),
        (recorded[0], recorded[1]),
    )


def about(source: Path) -> str:
    """Returns the first comment of a program: what it does, with the fault and mended."""
    text = source.read_text()
    if source.suffix == ".py":
        return " ".join(text.split('"""')[1].split())
    comment = re.match(r"(?:#!.*\n)?((?:(?://|# ).*\n)+)", text)
    return " ".join(re.sub(r"^(?://|#) *", "", comment[1], flags=re.MULTILINE).split()) if comment else ""


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def section(ran: Ran) -> str:
    command = {".py": f"{python_of(ran.source)} {ran.source.name}", ".sh": f"sh {ran.source.name}"}.get(
        ran.source.suffix, f"./{ran.source.stem}"
    )
    before, after = map(milliseconds, ran.plain)
    words = f"{about(ran.source)} It took {before}, and takes {after}."
    return f"""### {ran.source.name}

{textwrap.fill(words, 100, break_long_words=False, break_on_hyphens=False)}

```text
$ pfs run -- {command}
{text_of([ran.found] if ran.found else [])}
$ pfs run -- {command} mended
```
"""


def python_of(source: Path) -> str:
    """Returns the name of the Python that a program needs."""
    return FREE_THREADED if NEED.get(source.stem) == FREE_THREADED else "python"


def row(ran: Ran) -> str:
    times = (ran.recorded[0], ran.promised, max(0.0, ran.saved))
    return f"| [{ran.rule.name}](#{ran.rule.name}) | {ran.source.name} | {' | '.join(map(milliseconds, times))} |"


def main() -> None:
    names = sys.argv[1:] or sorted(FAULTS)
    page = PAGE.read_text() if PAGE.exists() else ""
    rows = {line.split(" | ")[1]: line for line in page.splitlines() if line.startswith("| [")}
    sections = {part.partition("\n")[0]: f"### {part.partition('## ')[0].rstrip()}\n" for part in page.split("\n### ")[1:]}
    is_right = True
    for rule in RULES:
        for name in (name for name in rule.programs if name in names):
            for _ in range(TRIES):
                with tempfile.TemporaryDirectory(prefix="pfs-both-ways-", dir=os.environ.get("TMPDIR")) as folder:
                    ran = both_ways(rule, FAULTS[name], Path(folder))
                if ran.is_right:
                    break
            print(section(ran), row(ran), "" if ran.is_right else f"WRONG {ran.mended}", flush=True)
            if ran.is_right:
                sections[ran.source.name] = section(ran)
                if rule.is_bound:
                    rows[ran.source.name] = row(ran)
            is_right = is_right and ran.is_right
            write(rows, sections)
    sys.exit(not is_right)


def write(rows: dict[str, str], sections: dict[str, str]) -> None:
    """Writes the page: the rows of its table and its sections, by program."""
    parts = [HEAD.format(processor=processor(), count=os.cpu_count(), load=os.getloadavg()[1])]
    programs = {rule.name: [FAULTS[name].name for name in rule.programs if FAULTS[name].name in sections] for rule in RULES}
    bound = [FAULTS[name].name for rule in RULES if rule.is_bound for name in rule.programs]
    parts[0] += "\n".join(rows[name] for name in bound if name in rows) + "\n"
    for rule, of_rule in programs.items():
        parts += [f"## {rule}\n", *(sections[name] for name in of_rule)]
    PAGE.write_text("\n".join(parts))


HEAD = """# Before and after

<!-- Made by `python lab/before_after.py`. Do not edit. -->

For each of the [findings](findings.md), programs that have the fault, and the same programs when
they are mended: then nothing is found. They are in `tests/programs/faults`. Times are wall times
without pfs, on {count} processors ({processor}) with a load of {load:.0f}: compare two of them only.

"At most" is an upper bound of what mending saves. This table compares both, under `pfs run`. Two
runs of a program differ, here by up to a tenth of the time.

| rule | program | took | at most | saved |
| --- | --- | --- | --- | --- |
"""

if __name__ == "__main__":
    main()
