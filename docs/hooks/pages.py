"""Pages of the site that nobody writes by hand. mkdocs calls the functions whose names begin with `on_`.

The README, the guide for contributors, the changes and every file of the source tree that a page links to become pages. The
tables' pages come from the schema of the installed package, the page of the Python API from `pfs.PUBLIC`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ROOT / "cpp/include/perfschema"

# Page of the site -> file of the tree.
COPIED = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "contribute/testing.md": "tests/README.md",
    "security.md": "SECURITY.md",
}
LANGUAGES = {".h": "c", ".hpp": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python", ".pyi": "python", ".sh": "bash"}

# Title -> how the names of its tables begin. The first that fits decides.
FAMILIES = {
    "Waits": ("events_waits_",),
    "Stages": ("events_stages_",),
    "Statements": ("events_statements_", "prepared_statements_"),
    "Transactions": ("events_transactions_",),
    "Errors": ("events_errors_",),
    "Files, sockets, tables": ("file_", "socket_", "table_", "objects_summary_"),
    "Locks": ("mutex_", "rwlock_", "cond_", "metadata_", "data_lock"),
    "Memory": ("memory_",),
    "Setup": ("setup_", "performance_timers"),
    "Status and variables": ("status_", "global_", "session_", "variables_", "user_variables", "persisted_"),
    "Threads and accounts": ("accounts", "users", "hosts", "threads", "processlist", "host_cache"),
}
OTHER = "Declared by the program"

NO_CONTENTS = "---\nhide: [toc]\n---\n\n"  # of a page without sections
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")


def family_of(table: str) -> str:
    return next((title for title, begins in FAMILIES.items() if table.startswith(begins)), OTHER)


def core() -> Any:
    try:
        from pfs import _core
    except ImportError as error:
        raise PluginError(f"The tables' pages need the installed package (pip install '.[docs]'): {error}") from error
    return _core


def table_page(facts: Any) -> str:
    """Returns the page of a table: what it is, what may be done with it, its columns."""
    lines = [f"{NO_CONTENTS}# {facts['name']}", "", facts["doc"], ""]
    lines += [f"- Operations: {', '.join(facts['operations'])}"]
    lines += [f"- Key: {', '.join(f'`{name}`' for name in facts['key'])}" if facts["key"] else "- No key"]
    lines += ["- Readable when pfs is off"] if facts["available_when_disabled"] else []
    lines += ["", "| column | meaning | type | unit |", "| --- | --- | --- | --- |"]
    for column in facts["columns"]:
        written = " Can be updated." if column["writable"] else ""
        null = ", NULL" if column["nullable"] else ""
        kind = column["sql_type"]
        # The words of an enum or a set may stand on several lines, other types on one.
        kind = kind.replace("','", "', '") if len(kind) > 40 else kind.replace(" ", "&nbsp;")
        kind = kind.replace("|", "\\|") + null
        lines.append(f"| `{column['name']}` | {column['doc']}{written} | {kind} | {column['unit']} |")
    return "\n".join(lines) + "\n"


def tables_page(every: list[Any]) -> str:
    lines = ["# Tables", ""]
    lines += [
        f"pfs fills {len(every)} tables. `pfs.table(name)` returns one as a DataFrame, `pfs.ddl(name)` its `CREATE TABLE`, and",
        "`pfs.describe(name)` its columns as a DataFrame. Times (`TIMER_*`) are picoseconds since the start of the program.",
    ]
    for title in [*FAMILIES, OTHER]:
        lines += ["", f"## {title}", "", "| table | rows |", "| --- | --- |"]
        for one in every:
            if family_of(one["name"]) == title:
                lines.append(f"| [{one['name']}](tables/{one['name']}.md) | {one['doc']} |")
    return "\n".join(lines) + "\n"


def first_sentence(header: Path) -> str:
    """Returns what the head comment of a header says it is, without the name of the file."""
    head = re.match(r"\s*(?:/\*(.*?)\*/|((?://[^\n]*\n)+))", header.read_text(), re.DOTALL)
    text = " ".join(re.sub(r"(?m)^\s*(\*|//)", "", head[1] or head[2]).split()) if head else ""
    text = text.partition(": ")[2] if text.startswith("perfschema/") else text
    return re.split(r"(?<=[.])\s", text)[0]


def headers_page() -> str:
    lines = [f"{NO_CONTENTS}# C and C++ headers", ""]
    lines += [
        "Each header is its own manual: the comment above a function says what it does, what it returns and who may call it.",
        "Begin with `pfs.h` (C) or `pfs.hpp` (C++). `pfs config --cflags --libs` prints the compiler's flags.",
        "",
        "| header | what it declares |",
        "| --- | --- |",
    ]
    first = ["pfs.h", "pfs.hpp"]
    for header in sorted(HEADERS.glob("*.h*"), key=lambda path: (path.name not in first, path.suffix, path.name)):
        lines.append(f"| [`{header.name}`](../{source_page(header.relative_to(ROOT))}) | {first_sentence(header)} |")
    return "\n".join(lines) + "\n"


def python_page() -> str:
    """Returns the page of the Python API: the names of pfs.PUBLIC below their headings, then the modules."""
    import pfs

    lines = ["# Python", "", "`import pfs` gives every name of this page. `pip install perfschema` installs it.", ""]
    lines += [
        "::: pfs",
        "    options:",
        "      members: false",
        "      show_root_heading: false",
        "      show_root_toc_entry: false",
        "",
    ]
    for heading, modules in pfs.PUBLIC.items():
        lines += [f"## {heading}", ""]
        for name in (name for names in modules.values() for name in names):
            lines += [f"::: pfs.{name}", ""]
    titles = {"sqlalchemy": "SQLAlchemy", "otel": "OpenTelemetry", "plot": "Pictures", "server": "Database servers (unstable)"}
    for module in pfs.MODULES:
        if module not in ("errors", "setup"):
            lines += [f"## {titles.get(module, module.title())}", "", f"::: pfs.{module}", ""]
    return "\n".join(lines)


def options_table() -> str:
    """Returns the options of PFS_OPTIONS with their meaning, as the installed package has them."""
    import pfs

    facts = pfs.table("variables_metadata")
    values = dict(pfs.table("global_variables").itertuples(index=False))
    lines = ["## All options", "", "| option | value at start | meaning |", "| --- | --- | --- |"]
    for name, text in zip(facts["VARIABLE_NAME"], facts["DOCUMENTATION"], strict=True):
        if name.startswith("performance_schema") and name in values:
            lines.append(f"| {name} | {values[name]} | {text} |")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Returns the help of each command of pfs, as a terminal of 84 columns shows it."""
    from pfs._ui.cli.manual import contexts

    lines = ["# Commands", "", "`man pfs-top` and `pfs top --help` say the same on a terminal.", ""]
    for context in contexts():
        context.terminal_width = context.max_content_width = 84
        lines += [f"## {context.command_path}", "", "```text", context.get_help(), "```", ""]
    return "\n".join(lines)


def source_page(path: Path) -> str:
    """Returns the page of a file of the tree: a manual's own page, else one below source/."""
    for page, copied in COPIED.items():
        if str(path) == copied:
            return page
    return f"source/{path}" if path.suffix == ".md" else f"source/{path}.md"


def shown(path: Path) -> str:
    text = (ROOT / path).read_text()
    if path.suffix == ".md":
        return text
    fence = "`" * 4
    return f"{NO_CONTENTS}# {path.name}\n\n`{path}`\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}{fence}\n"


def rewritten(text: str, page: str, source: Path, linked: set[Path]) -> str:
    """Returns the text with its links as they are on the site.

    `page` is where the text goes, `source` the file that it comes from. A link to a file outside of docs/ leads to the file's
    page, which `linked` notes; a link to a folder, a notebook or the lab becomes plain text. A link that leads nowhere stays,
    so that the build fails.
    """

    def replace(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = Path(os.path.normpath(source.parent / target))
        if path == Path("docs/reference/tables.md") and anchor:  # each table has a page
            return f"{label}({os.path.relpath(f'reference/tables/{anchor[1:]}.md', Path(page).parent)})"
        if not (ROOT / path).exists():
            return match[0]
        if (ROOT / path).is_dir() or path.suffix == ".ipynb" or path.parts[0] == "lab":
            return label[1:-1]
        if path.parts[0] == "docs" and path.suffix in (".md", ".svg", ".png"):
            there = str(path.relative_to("docs"))
        else:
            there = source_page(path)
            linked.add(path)
        return f"{label}({os.path.relpath(there, Path(page).parent)}{anchor})"

    return LINK.sub(replace, text)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    names = core().tables()
    pages: list[Any] = ["reference/tables.md"]
    for title in [*FAMILIES, OTHER]:
        pages.append({title: [f"reference/tables/{name}.md" for name in names if family_of(name) == title]})
    assert config.nav is not None
    (reference,) = (section["Reference"] for section in config.nav if "Reference" in section)
    for page in reference:
        if "Tables" in page:
            page["Tables"] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = {"reference/python.md": python_page(), "reference/c.md": headers_page(), "reference/commands.md": commands_page()}
    every = [core().table_info(name) for name in core().tables()]
    made["reference/tables.md"] = tables_page(every)
    made |= {f"reference/tables/{facts['name']}.md": table_page(facts) for facts in every}
    linked = {header.relative_to(ROOT) for header in HEADERS.glob("*.h*")}
    for page, source in COPIED.items():
        made[page] = rewritten((ROOT / source).read_text(), page, Path(source), linked)
    made["index.md"] = "---\nhide: [navigation]\n---\n\n" + made["index.md"]
    for file in files.documentation_pages():
        if file.src_uri not in made:
            rewritten(file.content_string, file.src_uri, Path("docs") / file.src_uri, linked)
    done: set[Path] = {Path(source) for source in COPIED.values()}
    while linked - done:
        path = min(linked - done)
        done.add(path)
        text = shown(path)
        made[source_page(path)] = rewritten(text, source_page(path), path, linked) if path.suffix == ".md" else text
    for page, text in made.items():
        if (old := files.get_file_from_path(page)) is not None:
            files.remove(old)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = markdown.replace("<details>", '<details markdown="1">')
    if page.file.generated_by:
        return markdown
    if page.file.src_uri == "reference/options.md":
        markdown += "\n" + options_table()
    return rewritten(markdown, page.file.src_uri, Path("docs") / page.file.src_uri, set())


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the page with places where a phone may break the long names of tables and titles."""
    breakable = re.compile(r"(?<=[A-Za-z])([_./(])(?=[A-Za-z])(?![^<]*>)")
    return re.sub(r"<(td|h1)\b.*?</\1>", lambda found: breakable.sub(r"\1<wbr>", found[0]), html, flags=re.DOTALL)
