"""Turns symbols of Rust into names as the program's source has them.

The grammar is that of the v0 mangling (RFC 2603). A name has no hash of a crate, and a constant no type.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["of_legacy", "of_v0"]

_BASIC = (
    {"a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize", "l": "i32"}
    | {"m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...", "x": "i64", "y": "u64"}
    | {"z": "!"}
)
_SIGNED, _UNSIGNED = "alnsxi", "hmotyj"
_SPECIAL = {"C": "closure", "S": "shim"}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DEEPEST, _MOST_PARTS = 150, 5000  # a name may refer to its own parts, which can make it endless

_LEGACY = re.compile(r"^(.*)::h[0-9a-f]{16}$", re.DOTALL)
_LEGACY_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$")
_LEGACY_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


def of_v0(symbol: str) -> str | None:
    """Returns the name of a symbol that begins with ``_R``; None if it is another language's."""
    mangled, dot, suffix = symbol.partition(".")
    reader = _Reader(mangled[2:])
    try:
        name = reader.path(is_value=True)
        if reader.peek():
            reader.path(is_value=False)  # the crate that has made it of a generic one
        if reader.peek():
            return None
    except (ValueError, IndexError, OverflowError):
        return None
    return name if suffix.startswith("llvm.") else name + dot + suffix


def of_legacy(name: str) -> str:
    """Returns the name of a symbol of the older mangling, of which the demangler of C++ has made ``name``; else ``name``."""
    match = _LEGACY.match(name)
    if match is None:
        return name

    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return _LEGACY_ESCAPES.get(code) or (chr(int(code[1:], 16)) if int(code[1:], 16) < 0x110000 else escape[0])

    parts = (part.removeprefix("_") if part.startswith("_$") else part for part in match[1].split("::"))
    return "::".join(_LEGACY_ESCAPE.sub(character, part.replace("..", "::")) for part in parts)


class _Reader:
    """Reads a mangled name from left to right. Each method reads a rule of the grammar and returns its text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._parts = 0
        self._lifetimes = 0  # of all binders around

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._text[self._at]
        self._at += 1
        return char

    def _has(self, char: str) -> bool:
        if self.peek() != char:
            return False
        self._at += 1
        return True

    def _base62(self) -> int:
        if self._has("_"):
            return 0
        value = 0
        while not self._has("_"):
            value = value * 62 + _DIGITS.index(self._next())
        return value + 1

    def _optional(self, tag: str) -> int:
        return self._base62() + 1 if self._has(tag) else 0

    def _name(self) -> str:
        is_punycode = self._has("u")
        match = re.compile(r"0|[1-9][0-9]{0,8}").match(self._text, self._at)
        if match is None:
            raise ValueError("no number")
        self._at = match.end()
        self._has("_")
        end = self._at + int(match[0])
        name = self._text[self._at : end]
        if len(self._text) < end:
            raise ValueError("the name ends too early")
        self._at = end
        if not is_punycode:
            return name
        plain, _, rest = name.rpartition("_")
        return (f"{plain}-{rest}" if plain else rest).encode("ascii").decode("punycode")

    def _nested(self) -> None:
        self._depth += 1
        self._parts += 1
        if self._depth > _DEEPEST or self._parts > _MOST_PARTS:
            raise ValueError("too large")

    def _earlier(self) -> int:
        """Goes to an earlier part. Returns where to go on."""
        begin = self._at - 1
        at = self._base62()
        if at >= begin:
            raise ValueError("no earlier part")
        after, self._at = self._at, at
        return after

    def path(self, is_value: bool) -> str:
        text, is_open = self._open_path(is_value)
        return text + ">" if is_open else text

    def _open_path(self, is_value: bool) -> tuple[str, bool]:
        """Returns a path, and whether its last ``>`` is missing: bindings of a trait come before it."""
        self._nested()
        tag = self._next()
        if tag == "I":
            generic = self.path(is_value)
            text, is_open = f"{generic}{'::' if is_value else ''}<{', '.join(self._until_end(self._argument))}", True
        elif tag == "B":
            after = self._earlier()
            text, is_open = self._open_path(is_value)
            self._at = after
        else:
            text, is_open = self._closed_path(tag, is_value), False
        self._depth -= 1
        return text, is_open

    def _closed_path(self, tag: str, is_value: bool) -> str:
        if tag == "C":
            self._optional("s")
            return self._name()
        if tag == "N":
            space = self._next()
            parent = self.path(is_value)
            number = self._optional("s")
            name = self._name()
            if space.isupper():
                return f"{parent}::{{{_SPECIAL.get(space, space)}{':' if name else ''}{name}#{number}}}"
            return f"{parent}::{name}" if name else parent
        if tag in "MXY":
            if tag != "Y":
                self._optional("s")
                self.path(is_value=False)  # where the impl is
            of = self.type()
            return f"<{of}>" if tag == "M" else f"<{of} as {self.path(is_value=False)}>"
        raise ValueError(f"no path begins with {tag}")

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        texts = []
        while not self._has("E"):
            texts.append(read())
        return texts

    def _argument(self) -> str:
        if self._has("L"):
            return self._lifetime(self._base62())
        return self._constant(is_argument=True) if self._has("K") else self.type()

    def _lifetime(self, index: int) -> str:
        if index == 0:
            return "'_"
        depth = self._lifetimes - index
        if depth < 0:
            raise ValueError("an unknown lifetime")
        return f"'{chr(ord('a') + depth)}" if depth < 26 else f"'_{depth}"

    def _binder(self) -> tuple[int, str]:
        """Returns how many lifetimes it makes, and its text. The caller ends them."""
        count = self._optional("G")
        if count > _MOST_PARTS:
            raise ValueError("too large")
        self._lifetimes += count
        names = [self._lifetime(index) for index in range(count, 0, -1)]
        return count, f"for<{', '.join(names)}> " if names else ""

    def type(self) -> str:
        tag = self._next()
        if tag in _BASIC:
            return _BASIC[tag]
        self._nested()
        text = self._type_of(tag)
        self._depth -= 1
        return text

    def _type_of(self, tag: str) -> str:
        if tag in "RQ":
            lifetime = self._lifetime(index) + " " if self._has("L") and (index := self._base62()) else ""
            return f"&{lifetime}{'mut ' if tag == 'Q' else ''}{self.type()}"
        if tag in "PO":
            return f"*{'const' if tag == 'P' else 'mut'} {self.type()}"
        if tag == "A":
            return f"[{self.type()}; {self._constant()}]"
        if tag == "S":
            return f"[{self.type()}]"
        if tag == "T":
            return _tuple(self._until_end(self.type))
        if tag == "F":
            return self._function()
        if tag == "D":
            count, binder = self._binder()
            traits = self._until_end(self._trait)
            self._lifetimes -= count
            if not self._has("L"):
                raise ValueError("no lifetime")
            if index := self._base62():
                traits.append(self._lifetime(index))
            return f"dyn {binder}{' + '.join(traits)}"
        if tag == "B":
            after = self._earlier()
            text = self.type()
            self._at = after
            return text
        self._at -= 1
        return self.path(is_value=False)

    def _trait(self) -> str:
        text, is_open = self._open_path(is_value=False)
        while self._has("p"):
            text += f"{', ' if is_open else '<'}{self._name()} = {self.type()}"
            is_open = True
        return text + ">" if is_open else text

    def _function(self) -> str:
        count, text = self._binder()
        if self._has("U"):
            text += "unsafe "
        if self._has("K"):
            text += f'extern "{"C" if self._has("C") else self._name().replace("_", "-")}" '
        text += f"fn({', '.join(self._until_end(self.type))})"
        if not self._has("u"):
            text += f" -> {self.type()}"
        self._lifetimes -= count
        return text

    def _constant(self, is_argument: bool = False) -> str:
        self._nested()
        tag = self._next()
        if tag == "B":
            after = self._earlier()
            text = self._constant(is_argument)
            self._at = after
        elif tag == "p":
            text = "_"
        elif tag in _SIGNED or tag in _UNSIGNED or tag in "bc":
            text = self._scalar(tag)
        else:
            text = self._compound(tag)
            text = f"{{{text}}}" if is_argument and not text.startswith('"') else text
        self._depth -= 1
        return text

    def _scalar(self, tag: str) -> str:
        is_negative = tag in _SIGNED and self._has("n")
        value = int(self._hexadecimal() or "0", 16)
        if tag == "b":
            return ("false", "true")[value]
        if tag == "c":
            return "'" + _escaped(chr(value), "'") + "'"
        return f"{'-' if is_negative else ''}{value}"

    def _hexadecimal(self) -> str:
        end = self._text.index("_", self._at)
        digits, self._at = self._text[self._at : end], end + 1
        if digits.strip("0123456789abcdef"):
            raise ValueError("no hexadecimal number")
        return digits

    def _compound(self, tag: str) -> str:
        if tag == "e":
            return '*"' + _escaped(bytes.fromhex(self._hexadecimal()).decode(), '"') + '"'
        if tag == "R" and self._has("e"):
            return '"' + _escaped(bytes.fromhex(self._hexadecimal()).decode(), '"') + '"'
        if tag in "RQ":
            return f"&{'mut ' if tag == 'Q' else ''}{self._constant()}"
        if tag == "A":
            return f"[{', '.join(self._until_end(self._constant))}]"
        if tag == "T":
            return _tuple(self._until_end(self._constant))
        if tag != "V":
            raise ValueError(f"no constant begins with {tag}")
        name, kind = self.path(is_value=True), self._next()
        if kind == "U":
            return name
        if kind == "T":
            return f"{name}({', '.join(self._until_end(self._constant))})"
        if kind != "S":
            raise ValueError(f"no value is a {kind}")
        return f"{name} {{ {', '.join(self._until_end(self._field))} }}"

    def _field(self) -> str:
        self._optional("s")
        return f"{self._name()}: {self._constant()}"


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _escaped(text: str, quote: str) -> str:
    known = {"\0": "\\0", "\t": "\\t", "\r": "\\r", "\n": "\\n", "\\": "\\\\", quote: f"\\{quote}"}
    return "".join(known.get(char) or (char if char.isprintable() else f"\\u{{{ord(char):x}}}") for char in text)
