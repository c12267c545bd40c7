"""Defines the command ``pfs report``."""

from __future__ import annotations

import click

from pfs._base import paths
from pfs._export.report import FORMS, form_of
from pfs._ui.cli.options import Interval, Process

__all__ = ["report"]


@click.command()
@click.argument("source", metavar="PID|NAME|SEGMENT|FOLDER|FILE", type=Process(saved=True))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write there: as HTML, Markdown or JSON if the name ends in .html, .md or .json, else as text.",
)
@click.option("--against", metavar="SOURCE", type=Process(saved=True), help="Show what has changed since this one was made.")
@click.option("--for", "sampling", metavar="TIME", type=Interval(0.1, 86400), help="Sample a process for so long before: 30s.")
@click.option("-f", "--format", "form", type=click.Choice(list(FORMS)), help="How, whatever the name ends in.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows of each list.")
@click.option("--all", "everything", is_flag=True, help="Also what took little time, and each file that Python imports.")
def report(
    source: int | str,
    output: str | None,
    against: int | str | None,
    sampling: float | None,
    form: str | None,
    limit: int,
    everything: bool,
) -> None:
    """Makes a report to read or to send: what to mend first, where the time went, and the longest lists.

    It reads a process, dead or alive, all processes of a run whose folder is given, a snapshot, or samples of pfs record. The
    HTML page is one file that needs no network. No report has literals of statements.

    \b
    pfs report 4711 --for 30s -o report.html
    pfs report /dev/shm/pfs-1000/run-x1y2z3 -o report.html
    pfs report web.ash -o report.html
    pfs report after.zip --against before.zip -o report.md
    pfs report app.pfs.zip -o report.md
    """
    from pfs._export.report.document import document
    from pfs._export.report.forms import written
    from pfs._process.run.read import report_of, samples_in

    samples = samples_in(source)
    if sampling is not None:
        from pfs._process.history.samples import samples as take

        samples = take(source, seconds=sampling, exact=False)
    made = document(report_of(source), limit, everything, samples=samples)
    if against is not None:
        made.set_against(document(report_of(against), limit, everything, samples=samples_in(against)), limit)
    text = written(made, form or form_of(output), limit)
    if output in (None, "-"):
        click.echo(text, nl=False)
        return
    with paths.replaced(output, paths.mode_of(made.report.read)) as file:
        file.write(text.encode())
