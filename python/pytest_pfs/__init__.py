"""The pytest plugin of pfs shows what tests wait for, and limits it. docs/howto/pytest.md says how to use it.

It is a package of its own, because importing any module of pfs imports pfs, and a test run that does not use the plugin must not
pay for that. This package only declares; pfs._ui.testing.plugin does the work.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Protocol

    # For annotations of tests: if TYPE_CHECKING: from pytest_pfs import View
    from pfs._ui.testing.overhead import Overhead as Overhead
    from pfs._ui.testing.view import View as View

    class MeasureOverhead(Protocol):
        def __call__(
            self, function: Callable[[], object], *, blocks: int = 30, block_seconds: float = 0.002, count: str = "time"
        ) -> Overhead: ...


_LIMITS = {
    "max_wait": "time that a test may wait, all threads together",
    "max_lock_wait": "time that a test may wait for locks, all threads together",
    "max_events": "waits that a test may have",
    "max_bytes_read": "bytes that a test may read from files and sockets",
    "max_bytes_written": "bytes that a test may write to files and sockets",
    "max_lost": "events and objects that may be lost because a buffer is full",
    "findings": "faults that pfs.findings may find in a test",
}
_BY_PATTERN = "; a number, or lines 'pattern of instruments = number'"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pfs", "what tests wait for (pfs)")
    group.addoption("--pfs-report", action="store_true", help="show the tests that waited longest, and what for")
    group.addoption("--pfs-report-top", type=int, default=10, metavar="N", help="tests that --pfs-report shows (10)")
    group.addoption("--pfs-json", metavar="FILE", help="write what each test did, and the limits that it exceeded, as JSON")
    group.addoption("--pfs-markdown", metavar="FILE", help="write the limits that tests exceeded for a pull request, as Markdown")
    group.addoption("--pfs-snapshot-dir", metavar="DIR", help="write what each test did, table by table, into a folder of DIR")
    group.addoption("--pfs-snapshot-format", choices=("parquet", "csv"), help="of these files (parquet if pyarrow is there)")
    group.addoption("--pfs-write-baseline", metavar="FILE", help="write what each test that passes did into FILE, as JSON")
    group.addoption("--pfs-fail-on-increase", metavar="FILE", help="a test fails that does more than FILE says")
    group.addoption(
        "--pfs-instrument",
        metavar="A,B,...",
        nargs="?",
        const="",
        help="record all that tests do, as pfs run does, and show it; of locks, only those that these packages make",
    )
    parser.addini("pfs_instrument", "as --pfs-instrument: true, or packages whose locks are recorded", default="")
    for name, text in _LIMITS.items():
        parser.addini(f"pfs_budget_{name}", text + (_BY_PATTERN if name not in ("max_lost", "findings") else ""), default="")
    parser.addini(
        "pfs_unmatched_pattern",
        "a pattern of a budget that no instrument matched in the whole run: fail, warn or ignore",
        default="fail",
    )
    parser.addini(
        "pfs_baseline_tolerance",
        "what --pfs-fail-on-increase lets pass: '10%' more or '3' events more; lines 'pattern = 10%' for some instruments",
        default="",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.option.pfs_instrument is None and (wanted := str(config.getini("pfs_instrument"))).lower() not in ("", "false"):
        config.option.pfs_instrument = "" if wanted.lower() == "true" else wanted
    if config.option.pfs_instrument is None:
        return None
    from pfs._ui.testing import unchanged

    return None if unchanged.is_recorded() else unchanged.run(config)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"pfs_budget({', '.join(_LIMITS)}, max_overhead_ratio, max_instructions): "
        "fail the test if it waits, reads, writes or does more than this",
    )
    options = ("pfs_report", "pfs_json", "pfs_markdown", "pfs_snapshot_dir", "pfs_write_baseline", "pfs_fail_on_increase")
    is_recorded = config.getoption("pfs_instrument") is not None
    if (
        is_recorded
        or any(config.getoption(name) for name in options)
        or any(config.getini(f"pfs_budget_{name}") for name in _LIMITS)
    ):
        from pfs._ui.testing import plugin

        plugin.of(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("pfs_budget") is not None:
            from pfs._ui.testing import plugin

            plugin.of(item.config).check(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if not item.config.pluginmanager.has_plugin("pfs-session"):
        return (yield)
    from pfs._ui.testing import plugin

    return (yield from plugin.of(item.config).call(item))


@pytest.fixture
def pfs_schema() -> Iterator[View]:
    """Shows what happened during this test, as DataFrames: ``pfs_schema.table(name)``, ``pfs_schema.events(name)``; with
    ``children=True`` also in forked children. It begins where this fixture is set up."""
    from pfs._ui.testing import plugin

    with plugin.view() as made:
        yield made


@pytest.fixture
def pfs_overhead(request: pytest.FixtureRequest) -> MeasureOverhead:
    """Measures how much longer a function takes with instruments on than with instruments off: ``pfs_overhead(function)``.

    Returns ``ratio``, its 95 % interval ``low`` and ``high``, and ``on`` and ``off``, seconds of a call. It measures `blocks`
    pairs of blocks of at least `block_seconds`, on and off in random order one after the other. The function is called many
    times; these calls count in no budget. All instruments of the process are switched off and on meanwhile.

    With ``count="instructions"`` it counts instructions in the place of time: the processor's counter does, else valgrind, below
    which the test then runs once more.
    """
    from pfs._ui.testing import plugin

    return plugin.of(request.config).overhead(request.node)
