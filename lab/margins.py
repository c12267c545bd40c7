"""Prints which limits of the rules the programs of tests/programs/faults are near to: there, another processor decides.

    python lab/margins.py [--runs 1] [--factor 2] [NAME ...]

Each program runs with its fault and mended. Its first finding is shown, with its time as a multiple of the least that is a
finding. Then the rules are asked again with each limit multiplied and divided, by `--factor` at most. A line names each change
that gives another first finding.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pfs._process.attach import attach
from pfs._process.findings import find as finder
from pfs._process.findings import queues
from pfs._process.findings.ask import segments_in
from pfs._process.findings.facts import Facts
from pfs._process.findings.limits import LIMITS
from pfs._process.findings.rules import RULES
from tests.python.run.test_findings import FAULTS, PFS, built

STEPS = (1.25, 1.5, 2, 3, 4)
OF_SYSTEM = {"absent", "in_progress"}  # numbers of errors
PLACES = {"SHARE": (finder,), "LEAST": (finder, queues)}


@contextmanager
def changed(limit: str, factor: float) -> Iterator[None]:
    places = [vars(module) for module in PLACES[limit]] if limit in PLACES else [LIMITS]
    before = [place[limit] for place in places]
    for place in places:
        place[limit] *= factor
    try:
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place[limit] = value


class Ran:
    """A run whose segments are there for questions."""

    def __init__(self, command: list[str], folder: Path) -> None:
        report = folder / "report.json"
        run = [*PFS, "run", "--json", "--keep", "-o", report, "--", *command]
        ended = subprocess.run(run, cwd=folder, check=True, timeout=120, capture_output=True, text=True)
        took = json.loads(report.read_text())["took"]
        self.wall, self.cpu = took["wall"], took["user"] + took["system"]
        self.kept = ended.stderr.rpartition("Segments: ")[2].strip()

    def first(self) -> finder.Finding | None:
        facts = Facts()
        for segment in segments_in(self.kept, or_none=True):
            with attach(segment.path) as schema:
                facts.add(schema._source)
        return next(iter(finder.find(facts, self.wall, self.cpu)), None)


def name_of(found: finder.Finding | None) -> str:
    return "nothing" if found is None else found.name


def margins(ran: Ran, usual: str, limits: set[str], most: float) -> Iterator[str]:
    for limit in sorted(limits):
        for way in (1, -1):
            for step in (step for step in STEPS if step <= most):
                with changed(limit, step**way):
                    first = name_of(ran.first())
                if first != usual:
                    yield f"{limit} {'x' if way > 0 else '/'} {step:g}: {first}"
                    break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--factor", type=float, default=2)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rules = {name: rule for rule in RULES for name in rule.programs}
    for name in options.names or sorted(rules):
        limits = ({*re.findall(r":(\w+)", rules[name].sql), "all_wait"} & LIMITS.keys() | PLACES.keys()) - OF_SYSTEM
        with tempfile.TemporaryDirectory(prefix="pfs-margins-", dir=os.environ.get("TMPDIR")) as folder:
            command = built(FAULTS[name], Path(folder))
            for words in [[], ["mended"]] * options.runs:
                ran = Ran([*command, *words], Path(folder))
                first = ran.first()
                least = max(finder.LEAST, finder.SHARE * first.whole) if first else 0
                times = f", {first.time / least:.1f} times the least" if first else ""
                print(f"{' '.join([name, *words])}: {name_of(first)}{times}; {ran.wall / 1e9:.0f} ms", flush=True)
                for line in margins(ran, name_of(first), limits, options.factor):
                    print("   ", line, flush=True)
                shutil.rmtree(ran.kept, ignore_errors=True)


if __name__ == "__main__":
    main()
