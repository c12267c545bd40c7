"""Shortens names of C++ for people: ``std::map<std::string, ...>::find``. Tables and JSON keep the whole names."""

from __future__ import annotations

import re

__all__ = ["shortened"]

_MOST = 80  # characters of a name that stays as it is
_MOST_ARGUMENT = 24  # characters of a first argument that is kept
_STRING = re.compile(r"std::(?:__cxx11::)?basic_string<char, std::char_traits<char>, std::allocator<char> ?>")
# The brackets of an operator enclose nothing.
_TOKEN = re.compile(r"operator(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>|\(\))|->|\(anonymous namespace\)|.", re.DOTALL)


def shortened(name: str) -> str:
    """Returns a name with ``...`` for arguments of templates and functions if it is long. Other names stay as they are."""
    if len(name) <= _MOST or "<" not in name:
        return name
    name = _STRING.sub("std::string", name).replace("std::__cxx11::", "std::")
    for brackets, depth in ("<>", 2), ("<>", 1), ("()", 1):
        if len(name) <= _MOST:
            return name
        name = _folded(name, brackets, depth)
    begin, end = _MOST // 2, _MOST - _MOST // 2
    return name if len(name) <= 2 * _MOST else f"{name[:begin]}...{name[-end:]}"  # the line is at the end


def _folded(text: str, brackets: str, most: int) -> str:
    """Returns a text with only the first argument in brackets of depth `most`; as it is if the brackets do not match."""
    depth, out, inside = 0, [""], [""]  # inside: the arguments in the brackets that are folded
    nested = 0  # brackets of any kind in them
    for token in _TOKEN.findall(text):
        is_folded = depth == most
        if is_folded and (nested or token != brackets[1]):
            nested += (token in ("<", "(")) - (token in (">", ")"))
            if token == "," and not nested:
                inside.append("")
            else:
                inside[-1] += token
            continue
        if is_folded:
            first, *more = (each.strip() for each in inside)
            kept = first if len(first) <= _MOST_ARGUMENT else "..."
            out.append(kept + (", ..." if more and kept != "..." else ""))
            inside = [""]
        if token == brackets[0] and not (token == "(" and out[-1].endswith(" ")):  # a line in parentheses is no argument
            depth += 1
        elif token == brackets[1] and depth:
            depth -= 1
        out.append(token)
    return text if depth else "".join(out)
