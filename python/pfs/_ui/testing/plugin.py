"""Does the work of the pytest plugin. Package pytest_pfs declares the plugin, and calls this module when a test run uses it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pfs import _core, setup
from pfs._read.nearest import hint
from pfs._read.show import as_plain_text, bytes_text, count_text, some, time_text
from pfs._read.source import OWN
from pfs._ui.testing import baseline, shared, unchanged
from pfs._ui.testing.budget import INI, MEASURED, Budget, Exceeded, as_rows, parse_ini
from pfs._ui.testing.children import close, follow, followed
from pfs._ui.testing.lines import lines_of
from pfs._ui.testing.totals import EVENTS, READ, TIME, WRITTEN, Totals, chosen
from pfs.errors import Error, InvalidValue

if TYPE_CHECKING:
    from pfs._process.findings.find import Finding
    from pfs._ui.testing.lines import Lines
    from pfs._ui.testing.overhead import Overhead
    from pfs._ui.testing.totals import Counts
    from pfs._ui.testing.view import View

__all__ = ["Session", "of", "view"]

_NAME = "pfs-session"
_PATHS = ("pfs_snapshot_dir", "pfs_write_baseline", "pfs_fail_on_increase", "pfs_json", "pfs_markdown")
_INSTRUMENTS_SHOWN = 3  # of each test of the report


class _Span:
    """Counts what this process does from now on, and the children that were forked since the session began."""

    def __init__(self) -> None:
        # Looking for children is work of this process, which may be recorded: it stays outside.
        self._children = followed().totals()
        self._own = [(source, Totals.take(source)) for source in followed().sources()]

    def own(self) -> Totals:
        return sum((Totals.take(source).since(before) for source, before in self._own), Totals({}))

    def done(self) -> Totals:
        # A TRUNCATE in this process must not affect the sums of children, which only grow.
        own = self.own()
        return own + (followed().totals() - self._children)


class _Meter:
    """Counts what a test does while it runs."""

    def __init__(self) -> None:
        self.overheads: list[Overhead] = []
        self._not_counted = Totals({})
        self._span = _Span()

    @contextmanager
    def paused(self) -> Iterator[None]:
        span = _Span()
        try:
            yield
        finally:
            self._not_counted += span.done()

    def done(self) -> Totals:
        return self._span.done() - self._not_counted

    def own(self) -> Totals:
        """Returns what this process did, without its children."""
        return self._span.own()


@cache
def _is_on() -> bool:
    """Returns whether pfs is on, which its first use decides."""
    return setup.variables["performance_schema"] == "ON"


_METER = pytest.StashKey[_Meter]()
_DONE = pytest.StashKey[Totals]()
_EXCEEDED = pytest.StashKey[Sequence[Exceeded]]()
_PATTERNS = pytest.StashKey[dict[str, str]]()
# The instruments of waits that no program has registered.
_ALWAYS_THERE = ("wait/io/table/sql/handler", "wait/lock/table/sql/handler", "wait/lock/metadata/sql/mdl")


def _unmatched(budget: Budget) -> dict[str, str]:
    """Returns the patterns of a budget, and the keywords that have none: those that no instrument matches with what may have been
    meant, the others with "". A limit of 0 is kept by a program that does nothing of the kind."""
    given: dict[str, tuple[str, ...]] = {}
    for keyword, patterns in budget.patterns().items():
        limit = budget.limits[keyword]
        if isinstance(limit, dict):
            given |= {pattern: (pattern,) for pattern, number in limit.items() if number}
        elif limit and not unchanged.is_recorded():  # a program that is recorded may do nothing of the kind
            given[keyword] = patterns
    if not given:
        return {}
    names = [str(name) for source in followed().sources() for (name,) in source.rows("setup_instruments", ("NAME",))]
    names = [name for name in names if name not in _ALWAYS_THERE]
    of_program = [name for name in names if name.startswith(("wait/", "stage/", "statement/"))]
    mend = "" if unchanged.is_recorded() else ": only pytest --pfs-instrument records programs that know nothing of pfs"
    return {
        said: ""
        if any(any(_core.matches(names, one)) for one in patterns)
        else mend + (hint(patterns[0], of_program) if of_program else ": no instrument is registered")
        for said, patterns in given.items()
    }


def of(config: pytest.Config) -> Session:
    """Returns the session of a test run. The first call creates it."""
    there = config.pluginmanager.get_plugin(_NAME)
    if there is None:
        there = Session(config)
        config.pluginmanager.register(there, _NAME)
    assert isinstance(there, Session)
    return there


@contextmanager
def view() -> Iterator[View]:
    """Implements the fixture pfs_schema."""
    from pfs._ui.testing.view import View

    children = followed()
    children.totals()  # children that are dead already do not belong to this test
    with children.held():
        yield View(children)
    children.totals()


class Session:
    """Handles budgets, report, files and baseline of a run of pytest, or of one of its workers under pytest-xdist. Workers
    measure and fail tests, and send their counts to the controller as a part of the reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._done: dict[str, dict[str, Any]] = {}  # by test
        self._new: list[str] = []
        for name in _PATHS:
            if config.getoption(name):
                # The path is absolute, because workers get the options and may have another working directory.
                setattr(config.option, name, str(config.invocation_params.dir / config.getoption(name)))
        self._defaults = {name: self._default(name) for name in INI}
        instruments = config.getoption("pfs_instrument")
        if instruments is not None:
            follow(unchanged.Started)
        self._filter = unchanged.Filter(unchanged.packages_of(instruments or ""))
        wants_report = config.getoption("pfs_report") or instruments is not None
        self._report_top = config.getoption("pfs_report_top") if wants_report else 0
        if wants_report and self._report_top < 1:
            raise pytest.UsageError(f"bad value {self._report_top} for --pfs-report-top: legal is a number from 1 on")
        self._folder = config.getoption("pfs_snapshot_dir")
        self._form = _form(config.getoption("pfs_snapshot_format")) if self._folder else ""
        path = config.getoption("pfs_fail_on_increase")
        self._baseline = baseline.read(path, "--pfs-fail-on-increase") if path else None
        self._tolerance = baseline.tolerances(config.getini("pfs_baseline_tolerance"))
        self._json, self._markdown = config.getoption("pfs_json"), config.getoption("pfs_markdown")
        self._writes = config.getoption("pfs_write_baseline")
        if self._writes and Path(self._writes).exists():
            # Raises for a file that is no baseline, which must not be overwritten.
            baseline.read(self._writes, "--pfs-write-baseline")
        self._measures_all = bool(self._report_top or self._folder or path or self._writes or self._json or self._markdown)
        self._patterns: dict[str, str] = {}  # patterns of budgets that no instrument has matched so far, and the nearest name
        self._matched: set[str] = set()
        self._on_unmatched = str(config.getini("pfs_unmatched_pattern"))
        if self._on_unmatched not in ("fail", "warn", "ignore"):
            raise pytest.UsageError(f"pfs_unmatched_pattern: bad value {self._on_unmatched!r}: legal are fail, warn, ignore")
        followed()  # its pipe is open before the first test, which may count descriptors

    def _default(self, name: str) -> object:
        setting = f"pfs_budget_{name}"
        try:
            value = parse_ini(name, str(self._config.getini(setting)))
            Budget().set({name: value})
        except InvalidValue as error:
            raise pytest.UsageError(f"{setting}: {error}") from None
        return value

    # Budgets.

    def budget(self, item: pytest.Item) -> Budget:
        """Returns the budget of a test: defaults of the ini file, then markers of the module, the class and the test."""
        budget = Budget()
        budget.set(self._defaults)
        for mark in reversed(list(item.iter_markers("pfs_budget"))):
            if mark.args:
                raise InvalidValue(f"pfs_budget takes keywords only, not {', '.join(map(repr, mark.args))}")
            budget.set(mark.kwargs)
        for name in budget.limits.keys() & MEASURED.keys():
            if "pfs_overhead" not in getattr(item, "fixturenames", ()):
                raise InvalidValue(f"{name} limits what the fixture pfs_overhead measures, and this test does not use it")
        return budget

    def check(self, item: pytest.Item) -> None:
        try:
            self.budget(item)
        except InvalidValue as error:
            raise pytest.UsageError(f"{item.nodeid}: pytest.mark.pfs_budget: {error}") from None

    def call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Runs around the test function: measures it, and fails it if it exceeds its budget."""
        budget = self.budget(item)
        if not budget.limits and not self._measures_all:
            return (yield)
        if budget.limits and not _is_on():
            reason = setup.status["performance_schema_status_reason"]
            pytest.fail(f"pfs_budget: pfs is off, nothing is counted: {reason}", pytrace=False)
        with self._view() as view:
            meter = item.stash[_METER] = _Meter()
            from_now = None
            if "findings" in budget.limits:
                from pfs._process.findings.ask import FromNow

                from_now = FromNow()
            try:
                try:
                    result = yield
                finally:
                    findings = from_now.findings() if from_now is not None else []
                    done = item.stash[_DONE] = self._filter(meter.done())
                    if view is not None:
                        self._write_files(item, view, done)
            except (Exception, pytest.fail.Exception):  # it may have exceeded its budget, too
                if broken := self._broken(item, budget, meter, done, findings):
                    item.add_report_section("call", "pfs", "\n\n".join(map(str, broken)))
                raise
        if broken := self._broken(item, budget, meter, done, findings):
            pytest.fail("pfs: " + "\n\n".join(map(str, broken)), pytrace=False)
        self._warn_of_blind(item, budget)
        item.stash[_PATTERNS] = _unmatched(budget)
        return result

    def _broken(
        self, item: pytest.Item, budget: Budget, meter: _Meter, done: Totals, findings: Sequence[Finding]
    ) -> list[Exceeded]:
        """Returns the limits that a test has exceeded, and keeps them for the reports."""
        lines = lines_of(meter.own, followed().sources()[-1])
        broken = budget.broken(done, meter.overheads, lines, findings) + self._increases(item.nodeid, done, lines)
        if broken:
            item.stash[_EXCEEDED] = broken
        return broken

    @staticmethod
    def _warn_of_blind(item: pytest.Item, budget: Budget) -> None:
        """Warns of limits on instruments that are off and therefore count nothing."""
        rows = [row for row in OWN.rows("setup_instruments", ("NAME", "ENABLED", "TIMED")) if "NO" in row[1:]]
        if not rows:
            return
        off = {str(name): [int(enabled == "NO"), int(timed == "NO"), 0, 0] for name, enabled, timed in rows}
        for keyword, patterns in budget.patterns().items():
            blind = [
                name
                for name, no in chosen(off, patterns).items()
                if no[0] or (no[1] and keyword in ("max_wait", "max_lock_wait"))
            ]
            if blind:
                more = f" and {len(blind) - 3} more" if len(blind) > 3 else ""
                item.warn(
                    pytest.PytestWarning(
                        f"pfs_budget: {keyword} does not see {', '.join(blind[:3])}{more}: off in setup_instruments"
                    )
                )

    def overhead(self, node: Any) -> Callable[..., Overhead]:
        """Implements the fixture pfs_overhead."""

        counted: list[Overhead] = []

        def measured(
            function: Callable[[], object], *, blocks: int = 30, block_seconds: float = 0.002, count: str = "time"
        ) -> Overhead:
            from pfs._ui.testing.overhead import COUNTS, count_instructions, measure

            if not callable(function):
                raise InvalidValue(f"bad value {function!r}: pfs_overhead measures a function without arguments")
            if count not in COUNTS:
                raise InvalidValue(f"bad value {count!r} for count: legal are {', '.join(COUNTS)}")
            meter = node.stash.get(_METER, None)
            with meter.paused() if meter is not None else nullcontext():
                if count == "instructions":
                    result = count_instructions(function, node, counted)
                    counted.append(result)
                else:
                    result = measure(function, blocks, block_seconds)
            if meter is not None:
                meter.overheads.append(result)
            return result

        return measured

    # Files.

    def _view(self) -> AbstractContextManager[View | None]:
        return view() if self._folder else nullcontext()

    def _write_files(self, item: pytest.Item, view: View, done: Totals) -> None:
        from pfs._ui.testing.view import folder_name

        summary = {"test": item.nodeid, "lost": done.lost, "counts": _as_json(done.counts)}
        view.to_folder(Path(self._folder) / folder_name(item.nodeid), self._form, summary)

    # Baseline.

    def _increases(self, test: str, done: Totals, lines: Lines) -> list[Exceeded]:
        before = None if self._baseline is None else self._baseline.get(test)
        if before is None:
            return []
        rows: list[tuple[str, int, int, int]] = []
        for name, now in baseline.events_of(done.counts).items():
            was = before.get(name, 0)
            share, more = next(
                (tolerance for pattern, *tolerance in self._tolerance if any(_core.matches([name], pattern))), (0.0, 0)
            )
            allowed = max(int(was * (1 + share) + 1e-9), was + int(more))
            if now > allowed:
                rows.append((name, now, was, allowed))
        if not rows:
            return []
        text = as_plain_text(
            f"{self._config.getoption('pfs_fail_on_increase')}: {len(rows)} instruments have more events than there",
            ("EVENT_NAME", "EVENTS", "BASELINE", "ALLOWED"),
            rows,
        )
        more_now = {row[0] for row in rows}
        return [Exceeded(text, lines([name for name in done.counts if baseline.name_of(name) in more_now]))]

    # Reports: a worker writes them, the controller reads them.

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        done = item.stash.get(_DONE, None)
        if call.when == "call" and done is not None:
            exceeded = shared.as_json(item.stash.get(_EXCEEDED, []), str(self._config.rootpath), item.location)
            report.pfs_done = {  # type: ignore[attr-defined]
                "counts": _as_json(done.counts),
                "lost": done.lost,
                "exceeded": exceeded,
            }
            report.pfs_patterns = item.stash.get(_PATTERNS, {})  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        done = getattr(report, "pfs_done", None)
        if done is not None:
            self._done[report.nodeid] = {**done, "passed": report.passed}
            patterns = getattr(report, "pfs_patterns", {})
            self._matched.update(pattern for pattern, near in patterns.items() if not near)
            self._patterns.update((pattern, near) for pattern, near in patterns.items() if near)
            if self._baseline is not None and report.nodeid not in self._baseline:
                self._new.append(report.nodeid)

    def _never_matched(self) -> dict[str, str]:
        never = {pattern: near for pattern, near in sorted(self._patterns.items()) if pattern not in self._matched}
        return {} if self._is_worker or self._on_unmatched == "ignore" else never

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        close()
        if self._on_unmatched == "fail" and self._never_matched() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._is_worker:
            return
        if self._writes:
            baseline.write(Path(self._writes), self._done)
        if self._json:
            shared.write_json(Path(self._json), self._done)
        if self._markdown:
            shared.write_markdown(Path(self._markdown), self._done, self._notes())

    def _notes(self) -> list[str]:
        fails = ", and the run fails" if self._on_unmatched == "fail" else ""
        return [
            f"pfs: no instrument matched '{pattern}' of a budget in the whole run, so it limited nothing{fails}{near}"
            for pattern, near in self._never_matched().items()
        ]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._report_top:
            terminalreporter.section("what tests waited for (pfs)")
            for line in _report(self._done, self._report_top, self._config.getoption("pfs_instrument") is not None):
                terminalreporter.line(line)
        for line in [*self._notes(), *shared.for_github(self._done, self._config.rootpath)]:
            terminalreporter.line(line)
        if self._writes:
            passed = sum(done["passed"] for done in self._done.values())
            terminalreporter.line(f"pfs: {some(passed, 'test')} written to {self._writes}")
        if self._new:
            path = self._config.getoption("pfs_fail_on_increase")
            terminalreporter.line(f"pfs: not compared, because not in {path}: {some(len(self._new), 'test')}")


def _as_json(counts: Counts) -> dict[str, list[int]]:
    return {name: list(numbers) for name, numbers in counts.items()}


def _form(wanted: str | None) -> str:
    from pfs._save.parquet import need_pyarrow

    if wanted == "csv":
        return "csv"
    try:
        need_pyarrow()
    except Error as error:
        if wanted is None:
            return "csv"
        raise pytest.UsageError(f"--pfs-snapshot-format=parquet: {error}") from None
    return "parquet"


def _report(done: Mapping[str, dict[str, Any]], top: int, is_instrumented: bool) -> list[str]:
    def sums(counts: Counts, column: int) -> int:
        return sum(numbers[column] for numbers in counts.values())

    # A statement contains the waits of its client, which would count twice. Statements count for a test that has nothing else.
    waits = {test: chosen(of_test["counts"], ("wait/%",)) or of_test["counts"] for test, of_test in done.items()}
    longest = sorted((test for test in waits if waits[test]), key=lambda test: (-sums(waits[test], TIME), test))
    rows: list[tuple[str, ...]] = []
    for test in longest[:top]:
        counts = waits[test]
        read, written = sums(counts, READ), sums(counts, WRITTEN)
        rows.append(
            (
                test,
                count_text(sums(counts, EVENTS)),
                time_text(waited) if (waited := sums(counts, TIME)) else "-",
                bytes_text(read) if read else "-",
                bytes_text(written) if written else "-",
            )
        )
        rows += [("  " + name, *rest) for name, *rest in as_rows(counts, TIME, _INSTRUMENTS_SHOWN)]
    lost = sum(of_test["lost"] for of_test in done.values())
    title = f"{min(top, len(longest))} of {len(done)} tests" + (
        f"; {count_text(lost)} events or objects were lost" if lost else ""
    )
    lines = as_plain_text(title, ("TEST, EVENT_NAME", "EVENTS", "WAITED", "READ", "WRITTEN"), rows).splitlines()
    if not longest and not _is_on():
        lines.append("No test had an event: pfs is off.")
    elif not longest and is_instrumented:
        lines.append("No test had an event.")
    elif not longest:
        lines += [
            "No test had an event. pfs records what uses its objects:",
            "pfs.Lock, pfs.open, pfs.dbapi ... in the place of threading.Lock, open, sqlite3 ...,",
            "or all that tests do, with --pfs-instrument.",
        ]
    return lines
