"""Reports to send: HTML, Markdown, text. Their numbers are those of the tables, and names of a program can do nothing in them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._export.report.document import document
from pfs._export.report.forms import written
from pfs._process.findings.find import Finding
from pfs._process.run.report import OpenWait, Report
from pfs._read.places.readable import Readable
from pfs._read.source import OWN

PFS = [sys.executable, "-m", "pfs"]
ROOT = Path(__file__).resolve().parents[3]
MOST_OF_SCRIPT = 12_000  # bytes
HOSTILE = (
    "</script><script>alert(1)</script>",
    "</script x=1",
    "<img src=x onerror=alert(1)>",
    "\" onmouseover='alert(1)' x=\"",
    "nul\0and\x1b[31mred",
    "\u202egnp.exe\u2066",
    "&lt;b&gt; <!-- ]]> `code` | *x* @someone https://example.org",
    "\udcff\udcfe",
    "x" * (1 << 20),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run of docs/examples/orders.py."""
    folder = tmp_path_factory.mktemp("report")
    shutil.copy(ROOT / "docs/examples/orders.py", folder)
    command = [*PFS, "run", "--keep", "--no-report", "--", sys.executable, "orders.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    segments = Path(done.stderr.rpartition("Segments: ")[2].strip())
    yield segments
    shutil.rmtree(segments)


def made(source: Path, form: str, *options: str) -> str:
    command = [*PFS, "report", str(source), "--format", form, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


class Parsed(HTMLParser):
    """Collects the tags, the attributes and the texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.in_script = 0
        self.data = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.in_script = 2 if ("id", "data") in attrs else int(tag in ("script", "style"))

    def handle_endtag(self, tag: str) -> None:
        self.in_script = 0

    def handle_data(self, data: str) -> None:
        if self.in_script == 2:
            self.data += data
        elif not self.in_script:
            self.texts.append(data)


def data_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Parsed(page).data)
    return found


def test_the_numbers_of_the_page_are_those_of_the_tables(kept: Path) -> None:
    (segment,) = kept.glob("*.pfs")
    page = made(segment, "html", "--limit", "1000")
    report = data_of(page)["report"]
    with pfs.attach(segment) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name")
        files = schema.table("file_summary_by_instance").set_index("FILE_NAME")
        statements = schema.table("events_statements_summary_by_digest")
    is_file = waits["EVENT_NAME"].str.startswith("wait/io/file/")
    (of_files,) = (row for row in report["classes"] if row["class"] == "files")
    assert of_files["time"] == waits.loc[is_file, "SUM_TIMER_WAIT"].sum() > 0
    assert of_files["count"] == waits.loc[is_file, "COUNT_STAR"].sum()
    (log,) = (row for row in report["files"] if row["file"].endswith("orders.log"))
    assert log["bytes_written"] == files.loc[log["file"], "SUM_NUMBER_OF_BYTES_WRITE"]
    assert log["time"] == files.loc[log["file"], "SUM_TIMER_WAIT"]
    times = dict(zip(statements["DIGEST_TEXT"], statements["SUM_TIMER_WAIT"], strict=True))
    assert {row["digest_text"]: row["time"] for row in report["statements"]} == times
    assert len(times) > 3
    # What people read is made of the same numbers.
    texts = Parsed(page).texts
    assert log["file"] in texts
    assert f"{log['writes']:,}" in texts
    assert any("orders.py:11" in text for text in texts)


def test_flame_and_classes_have_the_same_times(kept: Path) -> None:
    data = data_of(made(kept, "html", "--limit", "1000"))
    for kind in ("files", "mutexes"):
        (whole,) = (row["time"] for row in data["report"]["classes"] if row["class"] == kind)
        parts = [row for row in data["flame"] if row[0] == kind]
        assert sum(row[-1] for row in parts) == pytest.approx(whole, rel=1e-6)
    assert any("orders.py:11" in row[3] for row in data["flame"])


def test_a_folder_a_segment_and_snapshots_give_one_report(kept: Path, tmp_path: Path) -> None:
    (segment,) = kept.glob("*.pfs")
    sources = [kept, segment, tmp_path / "now.zip", tmp_path / "now"]
    for saved in sources[2:]:
        subprocess.run([*PFS, "snapshot", segment, saved], capture_output=True, timeout=60, check=True)
    reports = [json.loads(made(source, "json")) for source in sources]
    assert [one["name"] for one in reports[0]["findings"]] == ["io_under_lock"]
    assert reports[0]["holders"]
    assert [report.pop("lives") for report in reports] == [False, False, True, True]  # a snapshot does not say it
    for report in reports[1:]:
        assert report == reports[0]
    assert list(pfs.findings(sources[2])["NAME"]) == ["io_under_lock"]


def test_the_ending_of_the_name_chooses_the_form(kept: Path, tmp_path: Path) -> None:
    begins = {"a.html": "<!DOCTYPE html>", "a.md": "### pfs report", "a.json": "{", "a.txt": "Program:"}
    for name, begin in begins.items():
        subprocess.run([*PFS, "report", kept, "-o", tmp_path / name], capture_output=True, timeout=60, check=True)
        assert (tmp_path / name).read_text().startswith(begin)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600  # as the segment
    text = (tmp_path / "a.txt").read_text()
    assert "Fix first\n" in text
    assert "No event was lost." in text
    assert "\n1. **orders.log: " in made(kept, "markdown")


def test_what_is_no_source_is_an_error(tmp_path: Path) -> None:
    for source, why in ((tmp_path, "there is no segment in"), (tmp_path / "a.zip", "holds no snapshot")):
        done = subprocess.run([*PFS, "report", source], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert why in done.stderr


def test_a_deadlock_has_its_locks_and_lines() -> None:
    report = Report()
    for name, held_by, line, held_at in (("A", "two", "a.c:1", "b.c:2"), ("B", "one", "b.c:2", "a.c:1")):
        lock = f"wait/synch/mutex/app/{name}"
        report.open.append(OpenWait(1, "thread/app/one", lock, line, 10**12, f"thread/app/{held_by}", held_at, "1 -> 2 -> 1"))
        report.locks[lock] = [1, 10**12, 10**12]
    page = written(document(report, 20), "html", 20)
    texts = Parsed(page).texts
    assert texts.index("mutex/app/A") < texts.index("app/two, now at b.c:2") < texts.index("mutex/app/B")
    assert "DEADLOCK: 2 threads wait for each other for 1 s" in texts
    assert [row[2:] for row in data_of(page)["flame"]] == [
        ["synch/mutex/app/A", "a.c:1", 10**12],
        ["synch/mutex/app/B", "b.c:2", 10**12],
    ]


def hostile() -> Report:
    """A report whose every name is one of HOSTILE."""
    report = Report()
    for number, text in enumerate(HOSTILE):
        numbers = [10**12 + number, 5, 4, 3, 2, 1]
        report.processes.append({"pid": number, "command": text, "events": 5})
        report.files[text] = report.statements[text] = numbers
        report.sockets[text] = numbers[:5]
        report.memory[text] = numbers[:4]
        for waits in (report.locks, report.conditions, report.waits, report.classes):
            waits[f"wait/synch/mutex/{text}"] = [5, 10**12, 9]
        report.blocked[f"wait/synch/mutex/{text}", text] = [5, 10**12, 9]
        report.holders[f"wait/synch/mutex/{text}", text, text] = [5, 10**12]
        report.times[f"thread/{text}", f"wait/{text}"] = [1, 10**12]
        report.open.append(OpenWait(1, text, text, text, 10**12, text, text, "1 -> 2 -> 1"))
        report.lost[text], report.unrecorded[text, text] = 1, 1
        report.notes.append(text)
        report.unread.append(text)
        report.findings.append(Finding("sleeps", text, text, 1, 10**10, 10**12, "wall", True, "Wait."))
        values = (10**12, text.encode(errors="replace").decode())
        report.facts.db.execute("insert into total values(0, 'wait/io/file/x', 'file', 1, ?, ?, 0)", values)
    report.facts._names.append(Readable(OWN))
    report.host = HOSTILE[0]
    return report


def test_no_name_can_do_anything() -> None:
    plain = Parsed(written(document(Report(), 20), "html", 20))
    page = written(document(hostile(), 20), "html", 20)
    found = Parsed(page)
    assert [tag for tag in found.tags if tag in ("script", "img", "iframe", "a", "link", "form")] == ["script", "script"]
    assert set(found.tags) - set(plain.tags) <= {"ol", "li", "ul", "br", "b", "span", "div", "h3", "svg", "rect"} | {
        "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert not [name for name in found.attributes if name.startswith("on")]
    assert not {"src", "href", "action", "style"} & found.attributes
    assert page.isprintable() or not re.search(r"[\0\x1b\u202e\u2066]", page)
    assert any("<img src=x onerror=alert(1)>" in text for text in found.texts)  # shown as it is
    assert data_of(page)["report"]["files"][0]["file"]
    assert not re.search("[<>&]", page.partition('id="data">')[2].partition("</script>")[0])  # a browser ends it at less
    page.encode()


def test_megabytes_of_a_name_make_no_large_page() -> None:
    made = document(hostile(), 20)
    assert max(map(len, Parsed(written(made, "html", 20)).texts)) < 1000
    assert len(written(made, "html", 20)) < 300_000
    assert len(written(made, "markdown", 20)) < 100_000


def test_markdown_shows_names_as_they_are() -> None:
    text = written(document(hostile(), 20), "markdown", 20)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)\b)", text)
    assert "@someone" not in text  # nobody is told
    assert "https://example" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) >= 5 for row in rows)


def test_the_policy_allows_the_page_its_own_script_and_style_only() -> None:
    page = written(document(Report(), 20), "html", 20)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    for tag in ("style", "script"):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    rest = page.replace("http://www.w3.org/2000/svg", "")  # the name of a language, which nobody fetches
    assert not re.search(r"https?:|url\(|@import|innerHTML|eval\(", rest)


def test_the_script_is_short() -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", written(document(Report(), 20), "html", 20), re.DOTALL)
    assert 1000 < len(script.encode()) < MOST_OF_SCRIPT
