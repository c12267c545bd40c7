"""Makes one HTML file of a report: style, script and data are in it, and it loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pfs._export.report.shared import LISTS, color_of, cut
from pfs._process.findings.find import saves
from pfs._process.run.contents import Listed, clean
from pfs._process.run.report import add_up, class_of
from pfs._process.run.where_time import NOT_SEEN, words_of
from pfs._read.show import count_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pfs._export.report.document import Document
    from pfs._export.report.sampled import Sampled
    from pfs._process.run.report import Report

__all__ = ["page"]

_TEXTS = ("name", "thread", "line", "held by", "which is at", "kind")  # columns; the others have numbers
_MOST_LOCKS, _MOST_LINES = 6, 8
_MOST_BOXES = 150
_LEAST_BOX = 0.002  # of the picture's width
_ORDINAL = re.compile(r" #\d+$")  # of locks that one line makes


@cache
def _asset(name: str) -> str:
    """Returns a file of this package, without the blanks at the beginnings of its lines."""
    return re.sub(r"\n\s+", "\n", files("pfs._export.report").joinpath(name).read_text("utf-8").strip())


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def shown(text: str) -> str:
    """Returns a text of a program for HTML: one line of bounded length, with nothing that a browser would obey."""
    return escape(clean(cut(text)))


def page(made: Document, limit: int) -> str:
    """Returns the page."""
    report = made.report
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    samples = made.sampled.as_json() if made.sampled is not None else None
    data = {"report": made.as_json(limit), "flame": _flame(report), "samples": samples, "limit": limit}
    body = [_findings(made), *_differences(made.differences), *_parts(made)]
    body += _of_samples(made.sampled, limit) if made.sampled is not None else [_locks(report)]
    body += [_flame_section(), *(_listed(part) for part in made.parts if isinstance(part, Listed))]
    body += [_section("What pfs cost", f"<p>{shown(made.cost)}</p>")] if made.cost else []
    about = "".join(f"<div><dt>{escape(name)}</dt><dd>{shown(text)}</dd></div>" for name, text in made.about)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{shown(made.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{shown(made.title)}</h1><dl>{about}</dl></header>\n<main>\n"
        + "\n".join(filter(None, body))
        + f'\n</main>\n<script type="application/json" id="data">{_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _json(value: Any) -> str:
    """Returns JSON that no browser takes for the end of a script."""
    text = json.dumps(_short(value), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _short(value: Any) -> Any:
    """Returns a value of JSON whose texts have a bounded length."""
    if isinstance(value, dict):
        return {cut(name): _short(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_short, value))
    return cut(value) if isinstance(value, str) else value


def _section(title: str, inner: str, kind: str = "wide", more: str = "") -> str:
    ident = re.sub(r"\W+", "-", title.lower())
    return f'<section class="{kind}" aria-labelledby="{ident}"{more}><h2 id="{ident}">{escape(title)}</h2>{inner}</section>'


def _findings(made: Document) -> str:
    if not made.report.processes:  # samples have no findings
        return ""
    if not made.report.findings:
        return _section("Fix first", "<p>Nothing stands out.</p>")
    items = "".join(
        f"<li><b>{shown(one.sentence)}</b>: {escape(saves(one))}.<br>"
        f'{escape(one.advice)} <span class="pale">[{escape(one.name)}]</span></li>'
        for one in made.report.findings
    )
    return _section("Fix first", f"<ol>{items}</ol>", "wide first")


def _differences(parts: Sequence[str | Listed]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, Listed):
            yield _listed(part)
        else:
            yield _section("Against", "".join(f"<p>{shown(line)}</p>" for line in part.splitlines()))


def _parts(made: Document) -> Iterable[str]:
    """Yields the sentences of the report, and the states of all threads as one bar."""
    states: dict[str, int] = {}
    for (name, state), (_, time) in made.report.times.items():
        if name != NOT_SEEN:
            states[state] = states.get(state, 0) + time
    whole = sum(states.values())
    lines = [line for part in made.parts if isinstance(part, str) for line in part.splitlines()]
    said = "".join(f"<p>{shown(line)}</p>" for line in lines)
    bar = ""
    if whole:
        ordered = sorted(states.items(), key=lambda item: -item[1])
        key = "".join(
            f"<li>{_bar([(color_of(state), 1.0)])}{shown(words_of(state))}</li>" for state, time in ordered if time >= whole / 100
        )
        bar = f'{_bar([(color_of(state), time / whole) for state, time in ordered], "bar state")}<ul class="key">{key}</ul>'
    if said or bar:
        yield _section("What the threads did", bar + said)


def _bar(parts: Sequence[tuple[int, float]], kind: str = "bar") -> str:
    """Returns a bar of colors and shares. The text beside it says the same."""
    left, boxes = 0.0, []
    for color, share in parts:
        boxes.append(f'<rect class="k{color}" x="{left:.2f}" width="{100 * share:.2f}" height="1"/>')
        left += 100 * share
    return f'<svg class="{kind}" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">{"".join(boxes)}</svg>'


def _listed(part: Listed, more: str = "") -> str:
    is_wide = len(part.columns) > 4 or part.columns[-1] in ("line", "of it")
    return _section(part.title, f'<div class="scroll">{_table(part)}</div>', "wide" if is_wide else "", more)


def _table(part: Listed) -> str:
    """Returns a list as a table: the name first, then a bar, then numbers."""
    texts = 2 if part.columns[-1] == "line" or part.columns[-2:] == ("name", "of it") else 1
    color = _color_of_list(part)
    most = max(part.sizes, default=0) or 1
    order = [*range(len(part.columns) - texts, len(part.columns)), *range(len(part.columns) - texts)]
    is_text = [column in _TEXTS or number == len(part.columns) - 1 for number, column in enumerate(part.columns)]
    heads = [f'<th scope="col"{_text_if(is_text[column])}>{escape(part.columns[column])}</th>' for column in order]
    rows = []
    for number, row in enumerate(part.rows):
        cells = [f"<td{_text_if(is_text[column])}>{shown(row[column])}</td>" for column in order]
        if part.sizes:
            cells.insert(texts, f'<td class="bar">{_bar([(color, part.sizes[number] / most)])}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if part.sizes:
        heads.insert(texts, '<td class="bar"></td>')
    kind = ' class="many"' if len(part.columns) > 4 else ""
    return f"<table{kind}><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _text_if(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _color_of_list(part: Listed) -> int:
    return {"Locks": 2, "Blocked longest by a lock": 2, "Conditions": 4, "Files": 5, "Sockets": 6, "Statements": 0}.get(
        part.title, 7
    )


def _of_samples(samples: Sampled, limit: int) -> Iterable[str]:
    """Yields the chart, the lists that follow it, and the locks. Without scripts the lists are those of the whole time."""
    over_time, *lists = samples.lists(limit)
    yield _section(
        "Active threads",
        '<div class="bar-of-chart"><p id="range" role="status"></p>'
        '<button id="whole" hidden data-script>Whole time</button></div>'
        '<ul id="legend" class="key" aria-label="Classes"></ul>'
        '<div id="chart" hidden data-script role="group" aria-label="Average active threads over time"></div>'
        '<p class="pale" hidden data-script>Drag in the chart to choose a time, or move its ends with the arrow keys. '
        "A name in a list chooses what has it. Esc chooses everything.</p>"
        f'<p class="pale">{shown(samples.note)}</p>'
        '<details><summary>The chart as a table</summary><div class="scroll" id="chart-table">'
        f"{_table(over_time)}</div></details>",
    )
    for part in lists:
        yield _listed(part, f' data-list="{LISTS.index(part.title)}"')
    yield _section("Who waits for whom", '<div id="graph"></div>', more=" hidden")


def _locks(report: Report) -> str:
    """Returns the locks that threads waited for: who waits, the lock, and what its holders did meanwhile."""
    sums: dict[str, int] = {}
    for name, (_, time, _) in report.locks.items():
        base = _ORDINAL.sub("", name)
        sums[base] = sums.get(base, 0) + time
    blocks = []
    for name in sorted(sums, key=lambda name: -sums[name])[:_MOST_LOCKS]:
        waiters: dict[str, list[int]] = {}
        held: dict[tuple[str, str], list[int]] = {}
        for (lock, line), (count, time, _) in report.blocked.items():
            if _ORDINAL.sub("", lock) == name:
                add_up(waiters, line, (count, time))
        for (lock, line, act), numbers in report.holders.items():
            if lock == name:
                add_up(held, (line, act), numbers)
        for wait in report.open:
            if wait.name == name and wait.holder is not None:
                add_up(waiters, wait.source, (1, wait.time))
                add_up(
                    held,
                    ("", f"{wait.holder.removeprefix('thread/')}, now at {wait.holder_source or 'an unknown line'}"),
                    (1, wait.time),
                )
        if not waiters and not held:
            continue
        lines = {line for line, _ in held}
        one = next(iter(lines)) if len(lines) == 1 else ""
        left = _side("Threads wait at", [(line or "an unknown line", n[0], n[1]) for line, n in waiters.items()])
        right = _side(
            f"Meanwhile the holder ({one})" if one else "Meanwhile the holder",
            [(f"{act} (locked at {line})" if line and not one else act, n[0], n[1]) for (line, act), n in held.items()],
        )
        blocks.append(
            f'<div class="lock" role="group" aria-label="{shown(name)}"><div>{left}</div>'
            f"<b>{shown(name.removeprefix('wait/synch/'))}<br>{time_text(sums[name])}</b><div>{right}</div></div>"
        )
    note = (
        '<p class="pale">From the history, which has the last events, and the waits that go on. The time of a lock is exact.</p>'
    )
    return _section("Who waits for whom", "".join(blocks) + note) if blocks else ""


def _side(title: str, rows: Sequence[tuple[str, int, int]]) -> str:
    ordered = sorted(rows, key=lambda row: -row[2])[:_MOST_LINES]
    most = max((time for *_, time in ordered), default=0) or 1
    lines = "".join(
        f'<tr><td class="text">{shown(text)}</td><td class="bar">{_bar([(2, time / most)])}</td>'
        f"<td>{time_text(time)}</td><td>{count_text(count)}</td></tr>"
        for text, count, time in ordered
    )
    head = f'<th scope="col" class="text">{shown(title)}</th><td></td><th scope="col">time</th><th scope="col">count</th>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>" if ordered else f"<p>{title}: not known</p>"


def _flame(report: Report) -> list[list[Any]]:
    """Returns class, color, event, line and time (picoseconds) of all waits but idle ones, and of the time in no wait."""
    found: dict[tuple[str, int, str, str], float] = {}
    for name, words, line, time in report.facts.lines():
        if words not in report.idle and (kind := class_of(name)) is not None and name != "idle":
            key = (kind, color_of(name), clean(words.removeprefix("wait/")), clean(line))
            found[key] = found.get(key, 0) + time
    for wait in report.open:
        if wait.name not in report.idle and (kind := class_of(wait.name)) is not None and wait.name != "idle":
            key = (kind, color_of(wait.name), clean(wait.name.removeprefix("wait/")), clean(wait.source))
            found[key] = found.get(key, 0) + wait.time
    for (_, state), (_, time) in report.times.items():
        if state in ("computing", "runnable", "elsewhere"):
            key = (words_of(state), color_of(state), "", "")
            found[key] = found.get(key, 0) + time
    least = sum(found.values()) * _LEAST_BOX
    ordered = sorted(found.items(), key=lambda item: -item[1])
    kept = {key: time for key, time in ordered[:_MOST_BOXES] if time >= least}
    for key, time in ordered[len(kept) :]:
        others = (*key[:2], "others", "")
        kept[others] = kept.get(others, 0) + time
    return [[kind, color, cut(event), cut(line), round(time)] for (kind, color, event, line), time in kept.items()]


def _flame_section() -> str:
    inner = '<div id="flame"></div><p id="flame-says" class="pale" role="status"></p>'
    return _section("Time by class, event and line", inner, more=" hidden")
