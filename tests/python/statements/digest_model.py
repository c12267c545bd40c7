"""What pfs.digest makes of a statement, in plain and slow Python: an expression for each token, then one for each reduction."""

from __future__ import annotations

import re
from pathlib import Path

LETTER = r"[A-Za-z_\x80-\xff]"
PART = r"[A-Za-z0-9_$\x80-\xff]"
BLANKS = r"[\x00-\x20\x7f]"
# Two or more '-' with an operand behind them are signs.
COMMENT = r"(?:\#[^\n]*(?:\n|$)|--(?!-*[0-9.'\"`(@?:$+!~])[^\n]*(?:\n|$)|/\*(?!!).*?(?:\*/|$))".replace("$)", r"\Z)")
SKIPPED = re.compile(f"(?:{BLANKS}|{COMMENT})+", re.DOTALL)
EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
NUMBER = (
    rf"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-9]+)(?!{PART})|[0-9][0-9_]*\.[0-9]*{EXPONENT}|[0-9]+{EXPONENT}(?!{PART})"
    rf"|[0-9][0-9_]*(?!{PART})"
)

VALUE, LIST, SIGNS = "?", "?, ...", ("-", "+")


def split(text: str) -> list[str]:
    return text.split()


OPERATORS = split("<=> ->> := :: <= >= <> != << >> || && -> => == < > = ! | & * / % ^ ~ [ ] { } \\ @@ @ $ ; , ( ) . : - +")
NO_EXPRESSION = {VALUE, "@?", "@@", ")", ".", "::", "@", "$", "]", "{", "}", "\\"}  # nothing of an operand may follow
RENAMED = {"<>": "!=", "%%": "%"}


class Words:
    """The lists of cpp/src/base/sql_words.h."""

    def __init__(self, root: Path) -> None:
        text = (root / "cpp/src/base/sql_words.h").read_text()
        self.shown: dict[str, str] = {}
        self.called: set[str] = set()
        self.before_expression: set[str] = set()
        for word, trait, shown in re.findall(r'\{"(\w+)"(?:, (\w+))?(?:, "(\w+)")?\}', text):
            self.shown[word] = shown or word
            if trait == "kOnlyCalled":
                self.called.add(word)
            if trait == "kBeforeExpression":
                self.before_expression.add(word)


class Model:
    def __init__(self, root: Path) -> None:
        self.words = Words(root)

    def text(self, statement: bytes) -> str:
        """DIGEST_TEXT, without a limit."""
        tokens = self.reduce(self.fold_items(self.tokens(statement.decode("latin-1"))))
        text = "".join(token + ("" if token == "@@" else " ") for token in tokens)
        return text.removesuffix(" ").encode("latin-1").decode("utf-8", "replace")

    def starts(self, token: str | None) -> bool:
        """An operand may follow this token."""
        if token is None or token in self.words.before_expression:
            return True
        return token in OPERATORS and token not in NO_EXPRESSION

    def tokens(self, text: str) -> list[str]:
        """Numbers with signs are reduced already; all literals are '?'."""
        out: list[str] = []
        at = 0
        code_comment = False
        was_string = False

        def match(pattern: str, where: int | None = None) -> re.Match[str] | None:
            return re.compile(pattern, re.DOTALL).match(text, at if where is None else where)

        def skip(where: int, inside: bool) -> tuple[int, bool]:
            while True:
                if found := SKIPPED.match(text, where):
                    where = found.end()
                elif found := match(r"/\*![0-9]*", where):
                    where, inside = found.end(), True
                elif inside and text.startswith("*/", where):
                    where, inside = where + 2, False
                else:
                    return where, inside

        def number() -> None:
            while out and out[-1] in SIGNS and self.starts(out[-2] if len(out) > 1 else None):
                out.pop()
            out.append(VALUE)

        def qualifies(end: int) -> bool:
            """What ends there is a name, for a '.' and another name follow."""
            dot, inside = skip(end, code_comment)
            if not text.startswith(".", dot):
                return False
            if match(r"\.[0-9]", dot):
                return dot == end
            return match(rf"{LETTER}|[`\"*]", skip(dot + 1, inside)[0]) is not None

        name_end = -1
        while True:
            at, code_comment = skip(at, code_comment)
            if at == len(text):
                break
            string, was_string = was_string, False
            last = out[-1] if out else None
            begin = at
            if found := match(
                r"(?:([nNeExXbB])(?=')|(_"
                + PART
                + r"*)(?=['\"]))?(?:'(?:[^'\\]|\\.|'')*('|\\?\Z)|\"(?:[^\"\\]|\\.|\"\")*(\"|\\?\Z))"
            ):
                plain = text[begin] == '"'
                if not (found[1] or found[2]) or last != ".":
                    at = found.end()
                    if plain and (last == "." or qualifies(at)):
                        out.append("`" + text[begin + 1 : at - (1 if found[4] == '"' else 0)] + "`")
                        name_end = at
                        continue
                    was_string = True
                    if string:
                        continue
                    if found[1] and found[1] in "xXbB":
                        number()
                    else:
                        out.append(VALUE)
                    continue
            if found := match(r"`((?:[^`]|``)*)(?:`|\Z)"):
                at = name_end = found.end()
                out.append("`" + found[1] + "`")
            elif last == "." and (found := match(rf"[0-9]{PART}*|{LETTER}{PART}*")):
                at = name_end = found.end()
                out.append("`" + found[0] + "`")
            elif found := match(NUMBER if last and last[0] == "`" and name_end == at else rf"{NUMBER}|\.[0-9]+{EXPONENT}"):
                at = found.end()
                number()
            elif found := match(rf"(?:[0-9]|{LETTER}){PART}*"):
                at = found.end()
                word = found[0].upper() if found[0].isascii() else found[0]
                following = skip(at, code_comment)[0]
                keyword = word in self.words.shown
                if last == "@@":
                    keyword = keyword and text.startswith(".", following)
                elif qualifies(at) or (word in self.words.called and not text.startswith("(", following)):
                    keyword = False
                if not keyword:
                    out.append("`" + found[0] + "`")
                    name_end = at
                elif word == "NULL" and self.starts(last) and last not in ("NOT", "IS"):
                    out.append(VALUE)
                else:
                    out.append(self.words.shown[word])
            elif found := match(r"\?[0-9]*|\$[0-9]+|(\$[A-Za-z0-9_\x80-\xff]{0,64}\$)(?:.*?\1|.*\Z)"):
                at = found.end()
                out.append(VALUE)
            elif found := match(rf"\${PART}+"):
                at = found.end()
                if self.starts(last):
                    out.append(VALUE)
                else:
                    out.append("`" + found[0] + "`")
                    name_end = at
            elif found := match(
                rf"@(?:(?:{PART}|\.)(?:{PART}|\.)*|'[^']*(?:'(?:'[^']*(?:'|\Z))*|\Z)|\"[^\"]*(?:\"(?:\"[^\"]*(?:\"|\Z))*|\Z)|`[^`]*(?:`(?:`[^`]*(?:`|\Z))*|\Z))"
            ):
                at = found.end()
                out.append("@?")
            elif self.starts(last) and (found := match(rf"%s(?!{PART})|%\({PART}*\)s(?!{PART})|:(?!:|=){PART}+")):
                at = found.end()
                out.append(VALUE)
            else:
                token = next(token for token in ("%%", *OPERATORS) if text.startswith(token, at))
                at += len(token)
                out.append(RENAMED.get(token, token))
        while out and out[-1] == ";":
            out.pop()
        return out

    @staticmethod
    def fold_items(tokens: list[str]) -> list[str]:
        """Items of rows of values that have no name of a column become values. A row is behind IN, VALUES or another row."""
        out: list[str] = []
        in_row, item = False, -1  # where the item begins in `out`; -1: none
        depth, begins_with_value, is_type, has_open_name = 0, False, False, False

        def ends_with_row() -> bool:
            at = len(out) - 2
            if at < 0 or out[at] != ")":
                return False
            while at > 1 and out[at - 1] == VALUE and out[at - 2] == ",":
                at -= 2
            return at > 1 and out[at - 1] == VALUE and out[at - 2] == "(" and not (at > 2 and out[at - 3] == "IN")

        def end_item() -> None:
            nonlocal item
            del out[item:]
            item = -1
            if not begins_with_value:
                out.append(VALUE)

        for token in tokens:
            last = out[-1] if out else None
            is_name = token[0] == "`"
            if token not in (VALUE, "(") and has_open_name:
                in_row, item = False, -1
            has_open_name = False
            if token in ("SELECT", "WITH", "VALUES", "TABLE", ";") or (token == "]" and item >= 0 and depth == 0):
                in_row, item = False, -1
            if item >= 0:
                if token == "," and depth == 0:
                    end_item()
                elif token == ")" and depth == 0:
                    end_item()
                    in_row = False
                elif token in ("(", "[", "{"):
                    depth += 1
                elif token in (")", "]", "}"):
                    depth -= depth > 0
            elif token == ")":
                in_row = False
            elif token == "(":
                in_row = in_row or last in ("IN", "VALUES") or (last == "," and ends_with_row())
            elif in_row and token not in (VALUE, ",", "IN"):
                item, depth, begins_with_value, is_type = len(out), int(token in ("[", "{")), last == VALUE, False
            if item >= 0 and is_name:
                is_type = last in ("::", "AS") or (last == "." and is_type)
                has_open_name = not is_type
            out.append(token)
        return out

    @staticmethod
    def reduce(tokens: list[str]) -> list[str]:
        """Lists, rows and IN lists."""
        letters = {VALUE: "V", ",": "C", "(": "(", ")": ")", "IN": "I"}
        line = "".join(letters.get(token, "x") for token in tokens)
        others = [token for token in tokens if token not in letters]
        line = re.sub("V(CV)+", "L", line)
        line = re.sub(r"I\([VL]\)", "i", line)
        line = line.replace("(V)", "r").replace("(L)", "R")
        line = re.sub("r(Cr)+", "s", line)
        line = re.sub("R(CR)+", "S", line)
        shown = {"V": VALUE, "L": LIST, "C": ",", "(": "(", ")": ")", "I": "IN", "i": "IN (...)", "r": "(?)", "R": "(...)"}
        shown |= {"s": "(?) /* , ... */", "S": "(...) /* , ... */"}
        rest = iter(others)
        return [shown[letter] if letter != "x" else next(rest) for letter in line]
