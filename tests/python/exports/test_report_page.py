"""A browser opens reports: zoom by mouse, finger and keyboard, lists that follow, what a screen reader finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from pfs._export.report.document import document
from pfs._export.report.forms import written
from tests.python._programs.chromium import Page, chromium
from tests.python._programs.sampled_frame import service
from tests.python.exports.test_report import hostile
from tests.python.exports.test_report_samples import with_samples

pytestmark = pytest.mark.needs("chromium")
LOCK = "mutex/shop/LOCK_stock (lock)"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return service(60, 12, digests=6, lines=6)


@pytest.fixture(scope="module")
def opened(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    path.write_text(written(with_samples(frame), "html", 20))
    with chromium(folder, path) as page:
        yield page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """The page, with the whole time chosen. At the end nothing has gone wrong in it."""
    opened.key("Escape")
    yield opened
    assert opened.complaints == []


def rows(page: Page, number: int) -> dict[str, tuple[float, str]]:
    """Returns the active threads and the share of each row of a list."""
    found = page(
        f"[...document.querySelectorAll('[data-list=\"{number}\"] tbody tr')].map(row => [...row.cells].map(c => c.textContent))"
    )
    return {name: (float(threads), share) for name, _, threads, share in found}


def chosen(page: Page) -> tuple[float, float]:
    """Returns where the chosen time begins and ends, in parts of the whole."""
    at = page("[...document.querySelectorAll('[role=slider]')].map(s => [s.ariaValueNow, s.ariaValueMax].map(Number))")
    return at[0][0] / at[0][1], at[1][0] / at[1][1]


def truth(frame: pd.DataFrame, event: str, begin: float, end: float) -> float:
    """Returns the average active threads of an event in a part of the time."""
    times = frame["SAMPLE_TIME"]
    first, whole = times.iloc[0], times.iloc[-1] - times.iloc[0]
    within = (times > first + begin * whole) & (times <= first + end * whole) & (frame["EVENT_NAME"] == event)
    return float(frame.loc[within, "WEIGHT"].sum() / 1e12 / ((end - begin) * whole.total_seconds()))


def test_lists_follow_the_mouse(page: Page, frame: pd.DataFrame) -> None:
    assert chosen(page) == (0, 1)
    whole = rows(page, 0)[LOCK][0]
    assert whole == pytest.approx(truth(frame, "wait/synch/mutex/shop/LOCK_stock", 0, 1), rel=0.02)
    page.drag("#chart", 0.4, 0.6)
    begin, end = chosen(page)
    assert (begin, end) == pytest.approx((0.4, 0.6), abs=0.02)
    assert rows(page, 0)[LOCK][0] == pytest.approx(truth(frame, "wait/synch/mutex/shop/LOCK_stock", begin, end), rel=0.05)
    assert next(iter(rows(page, 0))) == LOCK
    assert "shop/log: file/shop/log (sync) at log.c:7" in page("document.getElementById('graph').textContent")
    page.drag("#chart", 0.3, 0.05)
    assert chosen(page) == pytest.approx((0.05, 0.3), abs=0.02)
    assert LOCK not in rows(page, 0)
    assert page("document.getElementById('graph').closest('section').hidden")
    assert "mutexes" not in page("[...document.querySelectorAll('#flame button')].map(b => b.textContent)")


def test_lists_follow_a_finger(page: Page) -> None:
    page.swipe("#chart", 0.7, 0.9)
    assert chosen(page) == pytest.approx((0.7, 0.9), abs=0.02)
    assert LOCK not in rows(page, 0)


def test_the_keyboard_alone_zooms_filters_and_resets(page: Page) -> None:
    page("document.activeElement.blur(); document.querySelector('[role=slider]').focus()")
    for _ in range(9):
        page.key("ArrowRight", shift=True)
    begin = chosen(page)[0]
    assert 0.3 < begin < 0.6
    page.key("ArrowLeft")
    assert chosen(page)[0] < begin
    page.key("Tab")  # the other end
    page.key("Home")
    assert chosen(page)[1] == pytest.approx(chosen(page)[0], abs=0.01)
    page.key("End")
    assert chosen(page)[1] == 1
    page.key("Escape")
    assert chosen(page) == (0, 1)
    seen = []
    for _ in range(40):  # by Tab to a row of the first list
        page.key("Tab")
        seen.append(page("document.activeElement.textContent"))
        if seen[-1] == LOCK:
            break
    assert seen[-1] == LOCK
    page.key("Enter")
    assert page("document.activeElement.ariaPressed") == "true"
    assert list(rows(page, 0)) == [LOCK]
    assert f"only {LOCK}" in page("document.getElementById('range').textContent")
    page.key("Escape")
    assert len(rows(page, 0)) > 2


def test_a_class_can_be_left_out(page: Page) -> None:
    before = rows(page, 4)
    page("[...document.querySelectorAll('#legend input')].find(i => i.parentNode.textContent === 'mutexes').click()")
    assert LOCK not in rows(page, 0)
    assert sum(threads for threads, _ in rows(page, 4).values()) < sum(threads for threads, _ in before.values()) - 1
    page("[...document.querySelectorAll('#legend input')].find(i => i.parentNode.textContent === 'mutexes').click()")
    assert rows(page, 4) == before


def test_a_screen_reader_finds_its_way(page: Page) -> None:
    tree = page.tree()
    assert {role for role, _ in tree} >= {"banner", "main", "region", "heading", "table", "slider", "status", "button"}
    names = [name for role, name in tree if role == "region"]
    assert len(names) == len(set(names)) > 8
    assert {"Active threads", "By line", "Who waits for whom"} <= set(names)
    assert [name for role, name in tree if role == "slider"] == ["Begin of the time", "End of the time"]
    assert all(name for role, name in tree if role in ("button", "slider", "region", "heading", "checkbox", "columnheader"))
    page("document.querySelector('details').open = true")
    cells = page("[...document.querySelectorAll('#chart-table tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    assert 10 < len(cells) <= 24
    heads = page("[...document.querySelectorAll('#chart-table th[scope=col]')].map(c => c.textContent)")
    mutex = heads.index("mutexes")
    assert max(float(row[mutex]) for row in cells) == pytest.approx(6, rel=0.05)
    assert float(cells[0][mutex]) == 0


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_fits_a_screen_and_has_contrast(frame: pd.DataFrame, tmp_path: Path, width: int, dark: bool) -> None:
    path = tmp_path / "report.html"
    made = document(hostile(), 20, samples=frame)
    path.write_text(written(made, "html", 20))
    with chromium(tmp_path, path, width, 900, dark) as page:
        assert page("document.documentElement.scrollWidth") <= width
        colors = page(
            "[...document.querySelectorAll('p, td, th, dt, h2, button, summary')].map(e => [getComputedStyle(e).color,"
            " getComputedStyle(e.closest('#flame button') || e.closest('section') || document.body).backgroundColor])"
        )
        ratios = [contrast(*pair) for pair in colors]
        assert len(ratios) > 50
        assert min(ratios) >= 4.5
        assert page.complaints == []
        assert page.printed().startswith(b"%PDF")


def contrast(one: str, other: str) -> float:
    """Returns the contrast of two colors: the formula of WCAG 2."""

    def light(color: str) -> float:
        parts = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
