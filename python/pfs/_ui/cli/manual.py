"""Writes the man pages of ``pfs`` from the help of its commands. ``python -m pfs._generate`` calls it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from pfs import _core
from pfs._ui.cli.commands import pfs_command

__all__ = ["contexts", "pages"]


def _escaped(text: str) -> str:
    """Returns text as troff prints it. A line must not begin like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def _paragraphs(text: str) -> Iterator[str]:
    r"""Returns the paragraphs of a help text. Those that begin with \b keep their lines, as click has it."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0] == "\b":
            yield "\n".join([".PP", ".nf", ".RS 4", *map(_escaped, lines[1:]), ".RE", ".fi"])
        else:
            yield ".PP\n" + _escaped(" ".join(lines))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in [*parameter.opts, *parameter.secondary_opts])
            is_number = isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)
            metavar = "N" if is_number and parameter.metavar is None else parameter.make_metavar(context)
            value = "" if parameter.is_flag or parameter.count else f" \\fI{_escaped(metavar)}\\fR"
            default = parameter.default if parameter.show_default and isinstance(parameter.default, str | int | float) else None
            text = parameter.help or ""
            if default is not None and not parameter.is_flag:
                text += f"  [default: {default}]"
            yield f".TP\n{names}{value}\n{_escaped(text)}"


def _page(command: click.Command, context: click.Context) -> str:
    name = context.command_path.replace(" ", "-")
    usage = " ".join(command.collect_usage_pieces(context))
    text = (command.help or "").split("\f")[0]
    first, _, rest = inspect.cleandoc(text).partition("\n\n")
    lines = [
        f'.TH {name.upper()} 1 "" "pfs {_core.__version__}" "pfs"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(' '.join(first.split()).rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_escaped(context.command_path)}\\fR {_escaped(usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(first),
        *(_paragraphs(rest) if rest else ()),
    ]
    if options := list(_options(command, context)):
        lines += [".SH OPTIONS", *options]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            title = inspect.cleandoc(found.help or "").partition("\n\n")[0]
            lines.append(f".TP\n\\fB{_escaped(f'{name}-{child}')}\\fR(1)\n{_escaped(' '.join(title.split()))}")
    lines += [
        ".SH EXIT STATUS",
        _status(command),
    ]
    if context.parent is not None:
        siblings = [context.parent.command_path.replace(" ", "-")]
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(other)}\\fR(1)" for other in siblings)]
    return "\n".join(lines) + "\n"


def _status(command: click.Command) -> str:
    status = "0 if all went well, 1 for an error of pfs, 2 for a wrong command line"
    if command.name == "run":
        status = "That of the program"
    fails_on = any("--fail-on" in parameter.opts for parameter in command.params)
    return status + ("; 3 if a rule of --fail-on found something." if fails_on else ".")


def pages() -> dict[str, str]:
    """Returns the man pages by the names of their files, such as pfs-top.1."""
    return {context.command_path.replace(" ", "-") + ".1": _page(context.command, context) for context in contexts()}


def contexts(
    command: click.Command = pfs_command, name: str = "pfs", parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yields the context of each command, a group before its commands."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            inner = command.get_command(context, child)
            assert inner is not None
            yield from contexts(inner, child, context)
