"""Figures by model of processor: the one that this is, and the last figures of each, kept in files beside the page that shows them.

A file is FOLDER/VENDOR-FAMILY-MODEL.json: the processor, who measured when and how, and what each figure was. `report.py` writes that of this machine,
and its page has a column for each file.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

VENDORS = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}


@dataclass(frozen=True)
class Processor:
    """A model, as /proc/cpuinfo has it. The names that a hypervisor gives say less."""

    vendor: str
    family: int
    model: int

    @property
    def slug(self) -> str:
        return f"{self.vendor}-{self.family}-{self.model}".lower()

    def __str__(self) -> str:
        return f"{self.vendor}, family {self.family} model {self.model}"


def _facts(cpuinfo: str | None) -> dict[str, str]:
    """What /proc/cpuinfo, or that text, says of the first processor."""
    text = Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def this(cpuinfo: str | None = None) -> Processor:
    found = _facts(cpuinfo)
    if "vendor_id" not in found:  # arm64
        return Processor(platform.machine(), int(found.get("CPU implementer", "0"), 0), int(found.get("CPU part", "0"), 0))
    vendor = VENDORS.get(found["vendor_id"], found["vendor_id"])
    return Processor(vendor, int(found["cpu family"]), int(found["model"]))


def name() -> str:
    """What its maker, or the hypervisor, calls it."""
    return _facts(None).get("model name", platform.machine())


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    value: float
    unit: str
    low: float | None = None  # 95 % interval
    high: float | None = None
    limit: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.limit is None or (self.value >= self.limit if self.at_least else self.value <= self.limit)

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({self.low:.2f} to {self.high:.2f})"
        limit = (
            "" if self.limit is None else f", {'≥' if self.at_least else '≤'} {self.limit:g}{'' if self.met else ' **missed**'}"
        )
        return f"{self.value:.2f}{interval}{limit}"


@dataclass(frozen=True)
class Measured:
    """What one model of processor took."""

    processor: Processor
    date: str
    commit: str
    how: str
    figures: dict[str, Figure] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        (folder / f"{self.processor.slug}.json").write_text(text + "\n")


def read(folder: Path) -> list[Measured]:
    """All files of the folder, the newest first."""
    found = []
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text())
        kept["processor"] = Processor(**kept["processor"])
        kept["figures"] = {text: Figure(**figure) for text, figure in kept["figures"].items()}
        found.append(Measured(**kept))
    return sorted(found, key=lambda one: one.date, reverse=True)


def page(columns: list[Measured]) -> list[str]:
    """A line for each figure that any of them has."""
    lines = [
        "| | unit | " + " | ".join(str(one.processor) for one in columns) + " |",
        "| --- | --- |" + " --: |" * len(columns),
    ]
    units = {text: figure.unit for one in reversed(columns) for text, figure in one.figures.items()}
    order = dict.fromkeys(text for one in columns for text in one.figures)
    for text in order:
        cells = [
            str(one.figures[text]) if text in one.figures and one.figures[text].unit == units[text] else "" for one in columns
        ]
        lines.append(f"| {text} | {units[text]} | " + " | ".join(cells) + " |")
    return [*lines, "", *(f"- {one.processor}: {one.date}, {one.commit}; {one.how}" for one in columns)]
