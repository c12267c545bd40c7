"""Makes the headers of the wrapped calls from cpp/src/capi/calls.def."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["headers"]

_WIDTH = 140
# The calls of these shapes get a key; else a call belongs to what its descriptor or stream has.
_WITH_KEY = {"NAME", "CREATES", "OPEN", "RENAME", "FOPEN", "SOCKET", "ACCEPT"}
# Any pointer to a kind of sockaddr, as the C library declares it (socket.h).
_ADDRESSES = {"const struct sockaddr* ": "PFS_CONST_ADDRESS_ ", "struct sockaddr* ": "PFS_ADDRESS_ "}

_HEAD = """\
/* {path}: {title}. A part of pfs.h.
 * Made by `python -m pfs._generate` from cpp/src/capi/calls.def. Do not edit.
 */
#ifndef {guard}
#define {guard}

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {{
#endif

/* clang-format off */
#ifndef PFS_DISABLE
"""
_TAIL = """
#endif /* PFS_DISABLE */
/* clang-format on */

#ifdef __cplusplus
}}
#endif
#endif /* {guard} */
"""
_TITLES = {
    "perfschema/file_calls.h": "the wrapped calls on files and streams",
    "perfschema/socket_calls.h": "the wrapped calls on sockets",
}


@dataclass(frozen=True)
class _Call:
    type: str
    name: str
    parameters: list[str]
    has_key: bool
    text: str  # what a caller must know

    def prototype(self) -> str:
        own = ["pfs_key_t key"] if self.has_key else []
        if self.parameters[-1] == "...":  # the place of the call goes before a list of any length, behind the key or stream
            own += [] if self.has_key else self.parameters[:1]
            parameters = [*own, "PFS_SITE_", *(self.parameters if self.has_key else self.parameters[1:])]
        else:
            parameters = [*own, *self.parameters, "PFS_SITE_"]
        line = f"PFS_API {self.type} pfs_{self.name}_at({', '.join(parameters)})"
        for plain, any_pointer in _ADDRESSES.items():
            line = line.replace(plain, any_pointer)
        if "const char* format" in parameters:
            before = parameters[: parameters.index("const char* format")]
            at = len(before) + 1 + ("PFS_SITE_" in before)  # which is two parameters
            line += f" __attribute__((format(printf, {at}, {at + 1 if parameters[-1] == '...' else 0})))"
        return line + ";"

    def macro(self) -> str:
        first = "key" if self.has_key else self.parameters[0].split()[-1].lstrip("*")
        if self.parameters[-1] == "...":
            return f"#define pfs_{self.name}({first}, ...) pfs_{self.name}_at(({first}), __FILE__, __LINE__, __VA_ARGS__)"
        return f"#define pfs_{self.name}(...) pfs_{self.name}_at(__VA_ARGS__, __FILE__, __LINE__)"

    def plain(self) -> str:
        if self.has_key:
            return f"#define pfs_{self.name}(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ {self.name}(__VA_ARGS__))"
        return f"#define pfs_{self.name}(...) PFS_PLAIN_ {self.name}(__VA_ARGS__)"

    def declared(self) -> str:
        shown = ", ".join((["key"] if self.has_key else []) + self.parameters)
        if self.name in ("open", "openat"):
            shown = shown.replace("...", "[mode_t mode]")
        comment = _comment(f"{self.type} pfs_{self.name}({shown}): {self.text}")
        return f"{comment}\n{_wrapped(self.prototype())}\n{self.macro()}\n"


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, _WIDTH - 6, break_on_hyphens=False)
    return "/* " + "\n * ".join(lines) + " */"


def _wrapped(line: str) -> str:
    return "\n".join(textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 4, break_on_hyphens=False))


def _split(text: str) -> list[str]:
    """Splits at the commas that are in no parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Gives each row with the lines of the comment above it, and each comment that stands alone with an empty row."""
    row, comment = "", list[str]()
    for line in text.splitlines():
        if row or line.startswith("CALL("):
            row += " " + line
            if row.count("(") == row.count(")"):
                yield row.strip(), comment
                row, comment = "", []
        elif line.startswith("// "):
            comment.append(line[3:])
        elif comment:
            yield "", comment
            comment = []


def headers(root: Path) -> dict[str, str]:
    """Returns the text of each header, by its path below the root of the source tree."""
    declared: dict[str, list[str]] = {}
    plain: dict[str, list[str]] = {}
    path = ""
    for row, comment in _blocks((root / "cpp/src/capi/calls.def").read_text()):
        if not row and comment[0].startswith("header: "):
            path = comment[0].removeprefix("header: ").removesuffix("none")
            if path:
                declared[path], plain[path] = [], []
        elif not row and path:
            title = comment[0].strip("- ")
            lines = [f"/* ---- {title} {'-' * (_WIDTH - 12 - len(title))}", *(f" * {line}" for line in comment[1:]), " */"]
            declared[path].append("\n".join(lines) + "\n")
        elif row and re.match(r"CALL\((BOTH|API),", row):
            _, _, shape, result, name, parameters = _split(row.removeprefix("CALL(").removesuffix(")"))[:6]
            call = _Call(result, name, _split(parameters[1:-1]), shape in _WITH_KEY, " ".join(comment))
            declared[path].append(call.declared())
            plain[path].append(call.plain() + "\n")
    made = {}
    for path, parts in declared.items():
        guard = "PERFSCHEMA_" + re.sub(r"\W", "_", path.removeprefix("perfschema/")).upper()
        body = "\n" + "\n".join(parts) + "\n#else /* PFS_DISABLE */\n\n" + "".join(plain[path])
        made[f"cpp/include/{path}"] = _HEAD.format(path=path, title=_TITLES[path], guard=guard) + body + _TAIL.format(guard=guard)
    return made
