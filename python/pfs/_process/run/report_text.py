"""A report as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfs._process.findings.find import text_of as findings_text
from pfs._process.run.contents import Listed, contents

if TYPE_CHECKING:
    from pfs._process.run.report import Report

__all__ = ["part_text", "text_of"]


def text_of(report: Report, limit: int, everything: bool = False) -> str:
    """Returns the report for a terminal. `everything`: also rows of little time, and each imported file."""
    findings = [findings_text(report.findings)] if report.findings else []
    return "\n\n".join([*findings, *map(part_text, contents(report, limit, everything))])


def part_text(part: str | Listed) -> str:
    """Returns a sentence as it is, and a list as columns. The name comes last: it has any length."""
    if isinstance(part, str):
        return part
    widths = [max(len(name), *(len(row[i]) for row in part.rows)) for i, name in enumerate(part.columns)]
    lines = (
        "  ".join([*(c.rjust(w) for c, w in zip(row[:-1], widths, strict=False)), row[-1]]) for row in (part.columns, *part.rows)
    )
    return "\n".join([part.title, *("  " + line for line in lines)])
