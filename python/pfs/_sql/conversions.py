"""Converts between texts and numbers where MySQL does. DuckDB refuses to compare them, to add them, and to mix them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

__all__ = ["MACROS", "converted"]

_NUMBER, _INTEGER = "mysql_number", "mysql_integer"
_DEEPEST = 8  # statements within statements whose columns are followed
# MySQL reads a number at the beginning of a text, and 0 where there is none.
MACROS = {
    name: f"create macro {name}(x) as case when x is not null then coalesce(try_cast("
    rf"regexp_extract(x::varchar, '^\s*({form})', 1) as {kind}), 0) end"
    for name, form, kind in (
        (_NUMBER, r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", "double"),
        (_INTEGER, r"[-+]?\d+", "hugeint"),
    )
}
_UNSIGNED = 2**64


def converted(tree: Expression, kinds: Mapping[str, str], exact: bool = False) -> Expression:
    """Returns a statement of MySQL in which each conversion is a call.

    Args:
        kinds: the types of DuckDB by name of column, in lower case.
        exact: quotients of exact numbers are decimal numbers.
    """
    from sqlglot import exp
    from sqlglot.optimizer.annotate_types import annotate_types

    tree = tree.copy()
    titles = [each.sql(dialect="mysql") for each in tree.expressions] if isinstance(tree, exp.Select) else []
    known = {name: exp.DataType.build(kind, dialect="duckdb") for name, kind in kinds.items()}
    for _ in range(_DEEPEST):
        for column in tree.find_all(exp.Column):
            if not _has_type(column):
                column.type = known.get(column.name.lower())
        for cast in reversed(list(tree.find_all(exp.Cast))):
            annotate_types(cast.this, dialect="mysql", overwrite_types=False)  # sqlglot looks into no expression that has a type
        annotate_types(tree, dialect="mysql", overwrite_types=False)
        # A statement knows the columns of its inner statements by their aliases.
        missing = {column.name.lower() for column in tree.find_all(exp.Column) if not _has_type(column)}
        aliases = [each for each in tree.find_all(exp.Alias) if each.alias.lower() in missing and _has_type(each.this)]
        known = {each.alias.lower(): each.this.type for each in aliases}
        if not known:
            break
    rules = _rules()
    for node in reversed(list(tree.walk())):  # what is inside comes first
        rule = next((rule for classes, rule in rules if isinstance(node, classes)), None)
        if rule is not None:
            rule(node)
    if exact:
        from pfs._sql.exact import make_exact

        make_exact(tree)
    for each, title in zip(tree.expressions if titles else [], titles, strict=True):
        if not isinstance(each, exp.Alias) and each.sql(dialect="mysql") != title:
            each.replace(exp.alias_(each.copy(), title, quoted=True))
    return tree


def _has_type(node: Any) -> bool:
    from sqlglot import exp

    return node.type is not None and node.type.this != exp.DataType.Type.UNKNOWN


def _is(node: Any, kinds: Iterable[Any]) -> bool:
    return node.type is not None and node.type.this in kinds


def _is_text(node: Any) -> bool:
    from sqlglot import exp

    return _is(node, exp.DataType.TEXT_TYPES)


def _is_number(node: Any) -> bool:
    from sqlglot import exp

    return _is(node, exp.DataType.NUMERIC_TYPES)


def _is_truth(node: Any) -> bool:
    from sqlglot import exp

    return _is(node, {exp.DataType.Type.BOOLEAN})


def _wrap(node: Any, make: Callable[[Any], Any], kind: str) -> None:
    from sqlglot import exp

    made = make(node.copy())
    made.type = exp.DataType.build(kind)
    node.replace(made)


def _to_number(node: Any) -> None:
    """Turns a text into a number, and a truth value into 1 or 0."""
    from sqlglot import exp

    if _is_text(node):
        _wrap(node, lambda inner: exp.Anonymous(this=_NUMBER, expressions=[inner]), "double")
    elif _is_truth(node):
        _wrap(node, lambda inner: exp.cast(inner, "int"), "int")


def _to_text(node: Any) -> None:
    from sqlglot import exp

    if _is_number(node) or _is_truth(node):
        _wrap(node, lambda inner: exp.cast(inner, "text"), "text")


def _to_truth(node: Any) -> None:
    from sqlglot import exp

    if _is_text(node):
        number = exp.Anonymous(this=_NUMBER, expressions=[node.copy()])
        _wrap(node, lambda _: exp.NEQ(this=number, expression=exp.Literal.number(0)), "boolean")


def _compare(nodes: Iterable[Any]) -> None:
    """Makes numbers of the texts that meet a number. DuckDB itself reads a literal of digits, as an integer of any size."""
    from sqlglot import exp

    nodes = list(nodes)
    if any(map(_is_number, nodes)):
        for node in nodes:
            if not (isinstance(node, exp.Literal) and node.name.isdecimal()) and _is_text(node):
                _to_number(node)


def _mix(nodes: Iterable[Any]) -> None:
    """Makes texts of the values that meet a text in one column."""
    nodes = list(nodes)
    if any(map(_is_text, nodes)):
        for node in nodes:
            _to_text(node)


def _operands(node: Any) -> list[Any]:
    return [each for each in (node.this, node.args.get("expression")) if each is not None]


def _connect(node: Any) -> None:
    for each in _operands(node):
        _to_truth(each)


def _calculate(node: Any) -> None:
    from sqlglot import exp

    operands = _operands(node)
    for each in operands:
        if isinstance(each, exp.HexString):
            each.replace(exp.Literal.number(int(each.name or "0", 16)))
    operands = _operands(node)
    if any(isinstance(each, exp.Interval) or _is(each, exp.DataType.TEMPORAL_TYPES) for each in operands):
        return
    if any(_is_text(each) or _is_truth(each) for each in operands):
        for each in operands:
            _to_number(each)
        node.type = exp.DataType.build("double")


def _cast(node: Any) -> None:
    """Converts a text to the number that it begins with, or 0; to a time, or NULL. A negative number wraps if it gets no sign."""
    from sqlglot import exp

    this, to = node.this, node.to
    is_number = isinstance(this, exp.Literal) and not this.is_string
    if to.is_type(*exp.DataType.TEMPORAL_TYPES) and not isinstance(node, exp.TryCast):
        if _is_text(this):
            node.replace(exp.TryCast(**node.args))
        elif is_number and this.name.isdecimal() and len(this.name) in (8, 14):
            form = exp.Literal.string("%Y%m%d%H%M%S"[: 6 if len(this.name) == 8 else 12])
            this.replace(exp.Anonymous(this="try_strptime", expressions=[exp.Literal.string(this.name), form]))
    elif to.is_type(*exp.DataType.TEXT_TYPES) and _is_truth(this):
        _to_number(this)
    elif _is_text(this) and not (isinstance(this, exp.Literal) and this.name.isdecimal()):
        if to.is_type(*exp.DataType.INTEGER_TYPES):
            _wrap(this, lambda inner: exp.Anonymous(this=_INTEGER, expressions=[inner]), "hugeint")
        elif to.is_type(*exp.DataType.FLOAT_TYPES):
            _wrap(this, lambda inner: exp.Anonymous(this=_NUMBER, expressions=[inner]), "double")
    elif to.is_type(exp.DataType.Type.UBIGINT) and isinstance(this, exp.Neg) and this.this.is_int:
        _wrap(this, lambda inner: exp.paren(exp.Add(this=exp.Literal.number(_UNSIGNED), expression=inner)), "hugeint")


def _of_number(node: Any) -> None:
    from sqlglot import exp

    if _is_text(node.this):
        _to_number(node.this)
        node.type = exp.DataType.build("double")


def _cases(node: Any) -> None:
    branches = [each.args["true"] for each in node.args["ifs"]]
    default = node.args.get("default")
    if node.this is not None:
        _compare([node.this, *(each.this for each in node.args["ifs"])])
    _mix([*branches, *([] if default is None else [default])])
    node.type = node.args["ifs"][0].args["true"].type


def _if(node: Any) -> None:
    from sqlglot import exp

    if not (isinstance(node.parent, exp.Case) and node.parent.this is not None):
        _to_truth(node.this)
    if isinstance(node.parent, exp.Case):  # which mixes all of its branches
        return
    _mix(each for each in (node.args["true"], node.args.get("false")) if each is not None)
    node.type = node.args["true"].type


def _first(node: Any) -> None:
    _mix([node.this, *node.expressions])
    node.type = node.this.type


def _inner(node: Any) -> None:
    node.type = node.this.type


def _rules() -> list[tuple[Any, Callable[[Any], None]]]:
    from sqlglot import exp

    comparisons = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    return [
        (exp.Paren, _inner),
        (comparisons, lambda node: _compare(_operands(node))),
        (exp.Between, lambda node: _compare([node.this, node.args["low"], node.args["high"]])),
        (exp.In, lambda node: _compare([node.this, *node.expressions])),
        ((exp.Like, exp.ILike, exp.RegexpLike, exp.Length, exp.Substring), lambda node: _to_text(node.this)),
        ((exp.Upper, exp.Lower, exp.Left, exp.Right, exp.Trim), lambda node: _to_text(node.this)),
        ((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg), _calculate),
        ((exp.Sum, exp.Avg, exp.Abs, exp.Round, exp.Floor, exp.Ceil, exp.Sign, exp.Sqrt, exp.Stddev, exp.Variance), _of_number),
        ((exp.And, exp.Or, exp.Not), _connect),
        ((exp.Where, exp.Having), lambda node: _to_truth(node.this)),
        (exp.Cast, _cast),
        (exp.Case, _cases),
        (exp.If, _if),
        ((exp.Coalesce, exp.Greatest, exp.Least), _first),
    ]
