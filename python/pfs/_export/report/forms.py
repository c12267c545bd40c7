"""Writes a report as text, Markdown, JSON or HTML."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pfs._export.report.page import page
from pfs._export.report.shared import cut
from pfs._process.findings.find import saves
from pfs._process.findings.find import text_of as findings_text
from pfs._process.run.report_text import part_text

if TYPE_CHECKING:
    from pfs._export.report.document import Document

__all__ = ["written"]


def written(made: Document, form: str, limit: int) -> str:
    """Returns the document as text, Markdown, JSON or HTML."""
    if form == "json":
        return f"{json.dumps(made.as_json(limit), indent=1)}\n"
    if form == "html":
        return page(made, limit)
    return _markdown(made, limit) if form == "markdown" else _text(made, limit)


def _text(made: Document, limit: int) -> str:
    findings = [findings_text(made.report.findings)] if made.report.findings else []
    about = "\n".join(f"{name}: {text}" for name, text in made.about)
    return "\n\n".join([about, *findings, *map(part_text, made.all_parts(limit))]) + "\n"


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@&])")


def _escaped(text: str) -> str:
    """Returns a text that Markdown and the HTML in it show as it is, without mentions and links."""
    shown = _SPECIAL.sub(r"\\\1", cut(text)).replace("\\@", "@\u200b").replace("://", ":\u200b//")
    return " ".join(shown.split())


def _markdown(made: Document, limit: int) -> str:
    """Returns the report for a pull request: findings first, the lists folded."""
    blocks = [f"### {_escaped(made.title)}", "  \n".join(f"{name}: {_escaped(text)}" for name, text in made.about[1:])]
    for number, one in enumerate(made.report.findings, 1):
        blocks.append(f"{number}. **{_escaped(one.sentence)}**: {saves(one)}. {_escaped(one.advice)}")
    if made.report.processes and not made.report.findings:
        blocks.append("Nothing stands out.")
    for part in made.all_parts(limit):
        if isinstance(part, str):
            blocks.append("  \n".join(map(_escaped, part.splitlines())))
            continue
        rows = [" | ".join(_escaped(cell) for cell in row) for row in (part.columns, *part.rows)]
        rows.insert(1, " | ".join(["---:"] * (len(part.columns) - 1) + [":---"]))
        table = "\n".join(f"| {row} |" for row in rows)
        blocks.append(f"<details><summary>{_escaped(part.title)}</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(blocks) + "\n"
