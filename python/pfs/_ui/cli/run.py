"""``pfs run`` runs a program that nobody has changed and shows what it waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

import click

from pfs._base import paths
from pfs._export.report import form_of
from pfs._process import processes
from pfs._process.run import launch
from pfs._process.run import program as programs
from pfs._process.run.watch import Watch
from pfs._read.places import own_names
from pfs._read.show import plain, some, storable
from pfs._ui.cli.findings import fail_on_option, failing
from pfs._ui.cli.options import Interval, some_of
from pfs._ui.cli.recording import contended_option, only_option, python_option
from pfs.errors import Error, InvalidValue

__all__ = ["run"]

# Protocols of servers whose requests --decode makes statements of: cpp/run/protocols/conversations.cpp.
PROTOCOLS = ("redis", "http")


def names_of(context: click.Context, parameter: click.Parameter, value: IO[str] | None) -> tuple[str, own_names.OwnNames] | None:
    """Returns a file of names, as text and as names, if all its lines are legal."""
    if value is None:
        return None
    try:
        text = value.read()
        return text, own_names.parse(text, value.name)
    except (UnicodeDecodeError, InvalidValue) as error:
        raise click.BadParameter(str(error), context, parameter) from None


@contextlib.contextmanager
def showing(folder: str, interval: float) -> Iterator[None]:
    """Shows ``pfs top`` of all processes on stderr, from a thread: a screen on a terminal, else lines. It reads no keys."""
    from pfs._ui.cli.top import View, lines, live
    from pfs._ui.cli.top_tree import TreeSampler

    view = View(interval)

    def show() -> None:
        while not view.is_over and not processes.scan_all(processes.with_users(folder)):
            time.sleep(0.05)
        with contextlib.suppress(Error):  # the last process has gone
            if not view.is_over:
                sampler = TreeSampler(folder)
                if sys.stderr.isatty():
                    live(sampler, view, None, to_stderr=True)
                else:
                    lines(sampler, view, None, 10, to_stderr=True)

    thread = threading.Thread(target=show, name="top", daemon=True)
    thread.start()
    try:
        yield
    finally:
        view.is_over = True
        thread.join()


@contextlib.contextmanager
def sampling(folder: str, path: str | None, hz: float) -> Iterator[None]:
    """Samples all processes of a run."""
    if path is None:
        yield
        return
    from pfs._process.history.samples import recording_of

    with recording_of(lambda: processes.scan_all(processes.with_users(folder)), path, hz):
        yield


def _ended_by(code: int, keep: bool) -> str:
    """Returns the end of the title about a program that a signal has ended; "" for others."""
    if code >= 0:
        return ""
    name = signal.Signals(-code).name if -code in signal.Signals.__members__.values() else f"signal {-code}"
    wanted = -code in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return f", ended by {name}" + ("" if wanted or keep else " (--keep leaves its tables)")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@only_option(launch.PARTS)
@click.option(
    "--decode",
    metavar="A,B,...",
    callback=some_of(PROTOCOLS, "protocol"),
    help=f"Make statements of the requests that a server gets in these protocols: {', '.join(PROTOCOLS)}.",
)
@python_option
@contended_option
@click.option(
    "--children", type=click.Choice(["none", "fork", "all"]), default="all", show_default=True, help="Also record these."
)
@click.option("--report/--no-report", "wants_report", default=True, show_default=True, help="Print the report at the end.")
@click.option("--all", "everything", is_flag=True, help="Report also what took little time, and each file that Python imports.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write the report there instead of to stderr: as HTML, Markdown or JSON if the name ends in .html, .md or .json.",
)
@click.option(
    "--names", metavar="FILE", type=click.File("r"), callback=names_of, help="Your own names of locks and other places."
)
@click.option("--top", "wants_top", is_flag=True, help="Show pfs top on stderr while the program runs.")
@click.option("-i", "--interval", type=Interval(0.1, 60), default="1s", show_default=True, help="Of --top.")
@click.option("--keep", is_flag=True, help="Keep the segments, and say where they are.")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Rows of each list.")
@click.option(
    "--record", "samples", metavar="FOLDER", help="Sample all processes meanwhile, and keep the samples there: see pfs record."
)
@click.option("--hz", type=click.FloatRange(0.1, 1000), default=20, show_default=True, help="Samples a second, of --record.")
@fail_on_option
@click.option("--force", is_flag=True, help="Run a program, too, in which pfs sees nothing.")
@click.argument("command", metavar="-- PROGRAM [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(
    context: click.Context,
    only: list[str],
    decode: list[str],
    python: list[str],
    all_on: bool,
    children: str,
    wants_report: bool,
    as_json: bool,
    output: str | None,
    names: tuple[str, own_names.OwnNames] | None,
    wants_top: bool,
    interval: float,
    keep: bool,
    limit: int,
    samples: str | None,
    hz: float,
    fail_on: list[str],
    everything: bool,
    force: bool,
    command: tuple[str, ...],
) -> None:
    """Runs a program, unchanged, and shows what it waited for: its locks, files, sockets and statements.

    The exit code is that of the program; 3 if it is 0 and --fail-on finds something. Options of pfs stand before the program.

    \b
    pfs run app.py
    pfs run -- xz -T2 -k file
    pfs run --decode redis -- redis-server redis.conf
    pfs run --names locks.txt -- ./app
    pfs run --top -- make -j8 > make.txt
    pfs run --keep --children none -- python3 server.py
    """
    if wants_top and sys.stdout.isatty() and sys.stderr.isatty():
        raise click.UsageError(
            "--top and the program would write to one terminal: send the program's output elsewhere (> FILE), or call pfs top in "
            "another terminal."
        )
    words, outside = programs.behind_shim(programs.command_of(command, os.environ), os.environ)
    try:
        program = programs.look(words[0], outside)
    except OSError as error:
        raise click.ClickException(f"{error.strerror}: {error.filename}") from None
    if program.blind and not force:
        raise click.UsageError(f"pfs can see nothing of {program.path}: {program.blind}. --force runs it all the same.")
    shows = wants_report or as_json or output is not None
    reads = shows or bool(fail_on)
    with launch.folder_of_run(keep) as folder:
        if names is not None and os.path.isdir(folder):
            with open(paths.made(os.path.join(folder, own_names.BESIDE)), "w", encoding="utf-8") as beside:
                beside.write(names[0])
        environment = outside | launch.environment(
            folder,
            only,
            decode,
            python or None,
            all_on,
            children,
            program.sanitizers,
            keeps_dead=reads or keep,
            wrappers=() if names is None else names[1].wrappers,
        )

        def say(why: str) -> None:  # without a report nothing else tells
            click.echo(f"pfs run: not recorded: {plain(storable(why))}", err=True)

        with Watch(folder, takes=reads and not keep, says=None if shows else say) as watch:
            before = launch.Took.so_far()
            try:
                child = subprocess.Popen(words, env=environment, close_fds=False)
            except OSError as error:
                raise click.ClickException(f"{error.strerror}: {words[0]}") from None
            with showing(folder, interval) if wants_top else contextlib.nullcontext(), sampling(folder, samples, hz):
                code = launch.wait_for(child)
            took = launch.Took.so_far() - before
        found = processes.scan_all(processes.with_users(folder))
        if reads:
            from pfs._process.run import report as reports  # not before the program has run: it does not wait for that
            from pfs._process.run.report_text import text_of

            gathered = reports.gather(found, watch.report, watch.ended)
            gathered.unrecorded = watch.unrecorded()
            gathered.finish(took)
            if fail_on and code == 0:
                code = failing(gathered.findings, fail_on)
            form = "json" if as_json else form_of(output)
            if form == "text":
                unseen = "".join(
                    f"\npfs cannot see: {what}" for what in program.unseen + ([program.blind] if program.blind else [])
                )
                title = f"\npfs run: {' '.join(command)}: {some(len(gathered.processes), 'process')}{_ended_by(code, keep)}"
                text = storable(f"{title}{unseen}\n\n{text_of(gathered, limit, everything)}\n\n")
            else:
                from pfs._export.report.document import document
                from pfs._export.report.forms import written

                gathered.notes += program.unseen
                from pfs._process.run.read import samples_in

                found_samples = samples_in(samples) if samples is not None else None
                text = written(document(gathered, limit, everything, command, code, found_samples), form, limit)
            if shows:
                if output in (None, "-"):
                    click.echo(text.removesuffix("\n"), err=output is None)
                else:
                    with paths.replaced(output, paths.mode_of(segment.path for segment in found)) as file:
                        file.write(text.encode())
        if keep:
            click.echo(f"Segments: {folder}", err=True)
    context.exit(launch.end_as(code))
