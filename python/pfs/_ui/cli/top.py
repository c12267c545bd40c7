"""``pfs top`` shows what a process does now, as a live screen, or as lines if the output is no terminal."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pfs._process import by_name
from pfs._process.attach import Schema, attach
from pfs._process.findings.ask import LastMinute
from pfs._process.segment import SegmentSource
from pfs._read.past import Past, past
from pfs._read.places.readable import Readable
from pfs._read.present import Blocked
from pfs._read.samples import BUSIEST, COLUMNS, SECTIONS, Choice, Row, Sample, Section, rows_between, take
from pfs._read.show import bytes_text, count_text, plain, rate_text, some, time_text
from pfs._ui.cli.blocked import blocked_lines, blocked_screen, wrapped
from pfs._ui.cli.keyboard import Keyboard
from pfs._ui.cli.options import Interval, where_option
from pfs._ui.cli.options import Process as ProcessArgument
from pfs._ui.cli.rows import write_lines
from pfs._ui.cli.top_minute import MinuteLine
from pfs._ui.cli.top_past import cut, past_screen
from pfs._ui.cli.top_roles import role_lines
from pfs._ui.cli.top_view import HELP, KEYS, KEYS_OF_HISTORY, LONGEST, SHORTEST, View
from pfs.errors import Error, InvalidValue, UnknownColumn

__all__ = ["View", "lines", "live", "top"]

_NAME, _NUMBER = 16, 9  # columns that a name needs, and that a number takes
_TALL = 24  # lines that a screen needs for remarks,
_TALLER = 30  # and for a line of each role of threads
_WIDE = 160  # columns from which two parts stand side by side

_EXTRA_TEXTS: dict[str, Callable[[int], str]] = {"read/s": bytes_text, "written/s": bytes_text}


class Sampler(Protocol):
    """Is what the screen shows: a process, or a fleet.

    Attributes:
        problem: why there are no more samples.
        roles: a line with what all threads did, and one for each of the largest roles.
        remarks: lines below them, with the worst fault of the last minute.
    """

    problem: str

    @property
    def roles(self) -> list[str]: ...
    @property
    def remarks(self) -> list[str]: ...
    @property
    def sections(self) -> Sequence[Section]: ...
    @property
    def blocked(self) -> Sequence[Blocked]: ...
    def look(self) -> None: ...
    def rows(self, section: Section, choice: Choice) -> list[Row]: ...
    def space(self, section: Section) -> tuple[int, int]: ...
    def headline(self) -> str: ...


class Process:
    """Samples a process, and shows what happened between the last two samples. Its death ends the samples, not the screen."""

    def __init__(self, schema: Schema) -> None:
        source = schema._source
        assert isinstance(source, SegmentSource)
        self._source = source
        self.schema = schema
        self.started = source.identity.started / 1e6
        self.reason = str(schema.status["performance_schema_status_reason"])  # why pfs is not fully on
        self.problem = ""  # why there are no more samples
        self._finding: list[str] = []
        self._last_minute = LastMinute()
        self.minute = MinuteLine(source)
        self.before: Sample | None = None
        self.after = take(source, schema.is_alive is False)
        self.new_lost = 0
        self._widest: dict[str, int] = {}  # name of a section -> longest name so far
        self._most: dict[str, int] = {}  # name of a section -> most rows so far
        self._names = Readable(source)
        self._past: tuple[tuple[object, ...], Past] | None = None  # the history that was shown last, and of what it is

    @property
    def sections(self) -> Sequence[Section]:
        return SECTIONS

    @property
    def blocked(self) -> Sequence[Blocked]:
        return self.after.blocked

    def look(self) -> None:
        """Takes another sample, unless the process is dead."""
        if self.problem:
            return
        is_gone = self.schema.is_alive is False
        try:
            sample = take(self._source, is_gone)
        except Error as error:
            self.problem = str(error)
            return
        if is_gone:
            self.problem = "the process is dead"
            if sample.sums == self.after.sums:
                self.after.blocked = sample.blocked
                return  # the screen keeps what it did last
        self._finding = self._last_minute.worst([self._source])
        self.new_lost = sample.lost - self.after.lost
        self.before, self.after = self.after, sample

    @property
    def seconds(self) -> float:
        """The seconds between the two samples, or since the start if there is only one."""
        taken = self.after.taken
        passed = taken - (time.monotonic() - (time.time() - self.started) if self.before is None else self.before.taken)
        return max(passed, 1e-3)

    def rows(self, section: Section, choice: Choice = BUSIEST) -> list[Row]:
        rows = rows_between(self.before, self.after, self.seconds, section, choice)
        self._widest[section.name] = max([self._widest.get(section.name, _NAME), *(len(plain(row.name)) for row in rows)])
        self._most[section.name] = max(self._most.get(section.name, 0), len(rows))
        return rows

    def past(self, section: Section, row: Row) -> Past:
        """Returns the history of a row, as it was at the last sample."""
        wanted = (section.name, row.key, self.after.taken)
        if self._past is None or self._past[0] != wanted:
            self._past = (wanted, past(self._source, section.name, row.key, self.after.threads, self._names))
        return self._past[1]

    def space(self, section: Section) -> tuple[int, int]:
        """Returns the longest name and the most rows that a section has had. The screen jumps less than with those of now."""
        return self._widest.get(section.name, _NAME), self._most.get(section.name, 0)

    def headline(self) -> str:
        """Returns the two lines of the headline."""
        waits = self.rows(SECTIONS[0])
        up = max(0, int(time.time() - self.started))
        state = self.problem or {True: "alive", False: "dead", None: "in another container"}[self.schema.is_alive]
        when = "since the start" if self.before is None else f"in {self.seconds:.1f} s"
        speed = f"{rate_text(sum(row.count for row in waits))} waits/s, {time_text(int(sum(row.time for row in waits)))} waited/s"
        return (
            f"pfs top: process {self.schema.pid} ({state}), up {up // 3600}:{up // 60 % 60:02}:{up % 60:02}: "
            f"{plain(self.schema.command)}\n"
            f"{when}: {speed}, {some(len(self.after.threads), 'thread')}, lost {count_text(self.after.lost)}"
            + (f" (+{count_text(self.new_lost)})" if self.new_lost else "")
            + (f"; {plain(self.reason)}" if self.reason else "")
            + self.ceiling()
        )

    @property
    def remarks(self) -> list[str]:
        return self.minute.lines() + self._finding

    @property
    def roles(self) -> list[str]:
        return role_lines(self.before, self.after)

    def ceiling(self) -> str:
        """Returns what pfs costs and what its ceiling has changed; "" without a ceiling."""
        ((limit, overhead),) = self._source.rows("setup_overhead", ("LIMIT_PPM", "OVERHEAD_PPM"))
        if not limit:
            return ""
        steps = Counter(str(step).lower() for (step,) in self._source.rows("setup_instruments", ("OVERHEAD_STEP",)))
        changed = ", ".join(f"{steps[step]} {step}" for step in ("sampled", "counted", "off") if steps[step])
        return f"; pfs costs {overhead / 1e4:.2f} % of at most {limit / 1e4:g} %: {changed or 'all full'}"


def cells(section: Section, row: Row) -> list[str]:
    extras = [_EXTRA_TEXTS.get(name, rate_text)(int(value)) for name, value in zip(section.extras, row.extras, strict=True)]
    now = [plain(row.now)] if section.name == "threads" else []
    return [plain(row.name), rate_text(row.count), time_text(int(row.time)), time_text(int(row.average)), *extras, *now]


def headings(section: Section) -> list[str]:
    return [section.name, "events/s", "time/s", "average", *section.extras, *(["now"] if section.name == "threads" else [])]


def shortened(name: str, width: int, section: Section) -> str:
    """Returns a name that fits the width. Paths and names of instruments keep their ends, statements their beginnings. Threads
    keep numbers and ends."""
    if len(name) <= width:
        return name
    number, space, rest = name.partition(" ")
    if section.name == "threads" and space:
        return f"{number} …{rest[len(number) + 2 - width :]}"
    return cut(name, width, keeps_end=section.name != "statements")


def cut_at_comma(line: str, width: int) -> str:
    """Returns as many parts of a list with commas as fit the width."""
    return line if len(line) <= width else line[:width].rpartition(", ")[0] or line[:width]


def table_of(section: Section, rows: Sequence[Row], view: View, height: int, width: int, name_width: int) -> Table:
    """Returns a table of the first rows that fills the width. Names take at most `name_width` columns."""
    drawn = Table(box=None, show_edge=False, expand=True, padding=(0, 1, 0, 0), header_style="bold reverse", pad_edge=False)
    titles = headings(section)
    has_now = titles[-1] == "now"
    numbers = len(titles) - 1 - has_now
    texts_width = width - numbers * (_NUMBER + 1) - 1
    now_width = min(texts_width // 2, texts_width - 1 - _NAME) if has_now else 0
    name_width = max(_NAME, min(name_width, texts_width - now_width - 1))
    now_width = texts_width - name_width - 1 if has_now else 0
    first, is_descending = view.choice.order[0]
    sorted_by = COLUMNS.index(first)
    for at, title in enumerate(titles):
        shown = title + (("▼" if is_descending else "▲") if at == sorted_by else "")
        if at == 0:
            drawn.add_column(shown, width=name_width, no_wrap=True)
        elif title == "now":
            drawn.add_column(shown, width=now_width, no_wrap=True)
        else:
            drawn.add_column(shown, width=_NUMBER, justify="right", no_wrap=True)
    if not has_now:
        drawn.add_column("", ratio=1)  # the bar of the headings goes on
    for row in rows[: height - 1]:
        texts = cells(section, row)
        texts[0] = shortened(texts[0], name_width, section)
        if has_now:
            texts[-1] = shortened(texts[-1], now_width, section)
        drawn.add_row(*map(Text, texts), style="reverse" if view.is_chosen(section, row) else None)
    for _ in range(len(rows), height - 1):
        drawn.add_row("")
    return drawn


def shares(wanted: Sequence[int], height: int) -> list[int]:
    """Divides lines among parts that want this many: each gets its equal share, and the lines that one does not need go to those
    that need more. The last part takes the lines that nobody needs."""
    given = [0] * len(wanted)
    left = height
    for done, at in enumerate(sorted(range(len(wanted)), key=lambda at: wanted[at])):
        given[at] = max(min(2, wanted[at]), min(wanted[at], left // (len(wanted) - done)))
        left -= given[at]
    given[-1] += max(0, left)
    return given


def parts_of(process: Sampler, view: View, sections: Sequence[Section], width: int, height: int) -> list[Table]:
    """Returns the tables of these sections, one below the other, with `height` lines together."""
    rows = [process.rows(section, view.choice) for section in sections]
    space = [process.space(section) for section in sections]
    name_width = max(longest for longest, _ in space)
    # The heading, the rows, an empty line; a part without rows is a heading.
    heights = shares([most + 2 if some_rows else 1 for (_, most), some_rows in zip(space, rows, strict=True)], height)
    tables = []
    for section, some_rows, lines in zip(sections, rows, heights, strict=True):
        if len(sections) == 1:  # all rows can be chosen: the screen follows
            view.listed += [(section, row) for row in some_rows]
            chosen = next((at for at, row in enumerate(some_rows) if view.is_chosen(section, row)), 0)
            some_rows = some_rows[max(0, min(chosen - (lines - 1) // 2, len(some_rows) - lines + 1)) :]
        else:
            view.listed += [(section, row) for row in some_rows[: lines - 1]]
        tables.append(table_of(section, some_rows, view, lines, width, name_width))
    return tables


def remarks_of(process: Sampler, with_roles: bool) -> list[str]:
    """Returns the remarks, below the line for all threads and, if they are wanted, those of their roles."""
    return [*process.roles[: None if with_roles else 1], *process.remarks]


def screen_of(process: Sampler, view: View, width: int, height: int) -> Group:
    """Returns the screen, with exactly `height` lines."""
    lines = [line[:width] for line in process.headline().split("\n")]
    state = "frozen, " if view.is_frozen else ""
    lines[1] = f"{lines[1]:<{width - len(state) - 14}.{width - len(state) - 14}} {state}every {view.interval:g} s"[:width]
    head = [Text(lines[0], style="bold red" if process.problem else "bold"), Text(lines[1])]
    keys = Text(KEYS[:width], style="dim", end="")
    if view.is_help:
        texts = [part for line in HELP.split("\n") for part in wrapped(line, width, 12) or [""]][: height - len(head) - 1]
        return Group(*head, *(Text(line) for line in texts + [""] * (height - len(head) - 1 - len(texts))), keys)
    if view.is_open and view.chosen is not None:
        section, row = view.chosen
        left, keys = height - len(head) - 1, Text(KEYS_OF_HISTORY[:width], style="dim", end="")
        if isinstance(process, Process):
            return Group(*head, *past_screen(section.name, row.name, process.past(section, row), width, left), keys)
        return Group(
            *head, Text("pfs top PID shows the history: it is that of one process."[:width]), *[Text("")] * (left - 1), keys
        )
    view.listed = []
    waiting = blocked_screen(process.blocked, width, max(1, min(height // 2, height - len(head) - 3)))
    head += [Text(line, style="bold red" if at == 0 else "") for at, line in enumerate(waiting)]
    if height >= _TALL:
        head += [Text(cut_at_comma(line, width)) for line in remarks_of(process, with_roles=height >= _TALLER)]
    chosen = list(process.sections) if view.section == 0 else [process.sections[view.section - 1]]
    left = height - len(head) - 1
    if len(chosen) > 1 and width >= _WIDE and left >= 4:
        half = (width - 2) // 2
        beside = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        beside.add_column(width=half)
        beside.add_column(width=width - 2 - half)
        beside.add_row(
            Group(*parts_of(process, view, chosen[::2], half, left)),
            Group(*parts_of(process, view, chosen[1::2], width - 2 - half, left)),
        )
        return Group(*head, beside, keys)
    chosen = chosen[: max(1, left // 2)]
    return Group(*head, *parts_of(process, view, chosen, width, max(2 * len(chosen), left)), keys)


def live(process: Sampler, view: View, count: int | None, to_stderr: bool = False) -> None:
    """Shows the screen until `q`, Ctrl-C or `count` samples. On stderr it reads no keys: the input belongs to another program."""
    console = Console(highlight=False, emoji=False, markup=False, stderr=to_stderr)
    if isinstance(process, Process):
        process.minute.watch()
    with Keyboard(not to_stderr) as keyboard, Live(console=console, screen=True, auto_refresh=False) as screen:
        due = time.monotonic() + min(view.interval, 0.5)  # the first screen shows the time since the start
        while not view.is_over and count != 0:
            screen.update(screen_of(process, view, console.width, console.height), refresh=True)
            # After a change of its size the screen is wrong for at most a quarter of a second.
            for key in keyboard.read(min(0.25, due - time.monotonic())):
                view.press(key)
            if time.monotonic() < due:
                continue
            due = time.monotonic() + view.interval
            if not view.is_frozen:
                process.look()
                count = None if count is None else count - 1


def can_show_screens() -> bool:
    """Returns whether the output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and not Console().is_dumb_terminal


def lines(process: Sampler, view: View, count: int | None, limit: int, to_stderr: bool = False) -> None:
    """Prints a block of lines per interval. The first block covers the time since the start."""
    chosen = process.sections if view.section == 0 else [process.sections[view.section - 1]]
    while count != 0 and not view.is_over:
        click.echo(process.headline(), err=to_stderr)
        for line in [*blocked_lines(process.blocked), *remarks_of(process, with_roles=True)]:
            click.echo(line, err=to_stderr)
        for section in chosen:
            rows = process.rows(section, view.choice)[:limit]
            if not rows:
                continue
            texts = [headings(section), *(cells(section, row) for row in rows)]
            widths = [max(len(row[at]) for row in texts) for at in range(len(texts[0]))]
            is_number = [at != 0 and title != "now" for at, title in enumerate(texts[0])]
            write_lines(texts, widths, is_number, to_stderr)
        sys.stdout.flush()
        count = None if count is None else count - 1
        if process.problem:
            click.echo(f"pfs: {process.problem}", err=True)
            return
        if count != 0:
            click.echo(err=to_stderr)
            view.pause()
            process.look()


def picture(process: Sampler, view: View, path: str) -> None:
    """Saves a screen of 80x24 as SVG. It has no history: its texts of statements can hold literals, and a picture is shared."""
    view.is_open = False
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(file=nowhere, record=True, width=80, height=24, force_terminal=True, highlight=False, markup=False)
        console.print(screen_of(process, view, 80, 24))
        console.save_svg(path, title="pfs top")


@click.command()
@click.argument("process", metavar="[PID|NAME|FOLDER]", type=ProcessArgument(), required=False)
@click.option("-i", "--interval", type=Interval(SHORTEST, LONGEST), default="1s", show_default=True, help="Between two screens.")
@click.option("--count", type=click.IntRange(1), help="End after this many intervals.")
@where_option
@click.option(
    "-s", "--sort", metavar="COLUMNS", default="SUM_TIMER_WAIT desc", show_default=True,
    help="By these columns, which --where has, too: NAME, COUNT_STAR, SUM_TIMER_WAIT, AVG_TIMER_WAIT.",
)  # fmt: skip
@click.option("--only", type=click.Choice([*(section.name for section in SECTIONS), "nodes", "processes"]), help="One part only.")
@click.option("-n", "--limit", type=click.IntRange(1), default=10, show_default=True, help="Rows of each part, without a screen.")
@click.option(
    "-b", "--batch", is_flag=True, help="Lines instead of a screen. Implied if the output is no terminal, or a dumb one."
)
@click.option("--svg", metavar="FILE", help="Also save the last screen as a picture, without a history.")
@click.option("--tree", "is_tree", is_flag=True, help="Also the processes that it has started; it was started by pfs run.")
@click.option("--fleet", metavar="FOLDER", help="The processes of all hosts that write to this folder with pfs collect.")
def top(
    process: int | str | None,
    interval: float,
    count: int | None,
    where: str | None,
    sort: str,
    only: str | None,
    limit: int,
    batch: bool,
    svg: str | None,
    is_tree: bool,
    fleet: str | None,
) -> None:
    """Shows what a process does: the threads that wait for locks now and the holders of those locks, and its busiest waits,
    files, statements and threads, per second of the last interval. Waits count while they run.

    Without PID it shows the only process that runs. FOLDER has the segments of pfs run, or the folders of several runs: it shows
    the sums of all their processes, ended ones, too, if pfs run had --keep. With --fleet it shows the busiest waits, nodes,
    statements and processes of many hosts between the last two cuts of each. A terminal that cannot move its cursor (TERM=dumb)
    gets lines.

    \b
    pfs top
    pfs top nginx
    pfs top 4711 --interval 500ms --only files --sort 'COUNT_STAR desc'
    pfs top 4711 --where 'AVG_TIMER_WAIT > 5ms'
    pfs top 4711 --batch --count 2 | tee now.txt
    pfs top 4711 --tree
    pfs top --fleet /shared/pfs --only nodes

    Keys: 1-4 show one part, 0 all; up, down and enter open the history of a row: the lines of code that wait for a lock, the
    last waits of a thread, the runs of a statement; t c a n sort by time, count, average, name; space freezes; + and - change
    the interval; ? shows help; q ends.
    """
    try:
        view = View(interval, Choice(sort, where))
    except (InvalidValue, UnknownColumn) as error:
        raise click.BadParameter(str(error), param_hint="--where or --sort") from None
    if fleet is not None:
        if process is not None:
            raise click.UsageError("--fleet is for all processes of a folder: leave PID away.")
        from pfs._ui.cli.top_fleet import FleetSampler

        _show(FleetSampler(fleet), view, only, count, limit, batch, svg)
        return
    chosen = by_name.only_living() if process is None else process
    if is_tree or os.path.isdir(str(chosen)):
        from pfs._process.run.tree import folder_of
        from pfs._ui.cli.top_tree import TreeSampler

        _show(TreeSampler(*folder_of(chosen)), view, only, count, limit, batch, svg)
        return
    with attach(chosen) as schema:
        _show(Process(schema), view, only, count, limit, batch, svg)


def _show(process: Sampler, view: View, only: str | None, count: int | None, limit: int, batch: bool, svg: str | None) -> None:
    names = ["", *(section.name for section in process.sections)]
    if (only or "") not in names:
        raise click.UsageError(f"bad value '{only}' for --only: legal are {', '.join(names[1:])}")
    view.section = names.index(only or "")
    try:
        if batch or not can_show_screens():
            lines(process, view, count, limit)
        else:
            live(process, view, count)
    except KeyboardInterrupt:
        pass
    if svg is not None:
        picture(process, view, svg)
