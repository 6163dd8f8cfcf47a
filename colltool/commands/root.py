"""The typer application: its commands by name, each imported when it is called; and its usage
errors in our words."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from colltool import __version__
from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.commands.app import COMMANDS

EXAMPLES = """
\b
Start here:
  colltool fabric list                    which fabrics there are
  colltool price ar -f nvl72 -M 16MB      every algorithm on one of them
  colltool fabric show nvl72              what it is made of, and its numbers
  colltool guide                          the manual
\b
Then:
  colltool crossover ar -f nvl72          where the winner changes
  colltool breakdown ar -f nvl72 -M 16MB  where the time goes
  colltool explain ring                   a formula in words
  colltool price ar -f nvl72 -M 16MB --set ib.bandwidth=100GB/s
                                          what if a value were another
\b
COMMAND -h shows its options, in the order: what is asked, how it is
written, how the model is read.
"""


class _Lazy(TyperGroup):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """In the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, built when it is first asked for."""
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:  # a shell that completes
                return None
            fix = f"{nearest(cmd_name, list(COMMANDS))} commands: {', '.join(COMMANDS)}".strip()
            raise ColltoolError(f"no command '{cmd_name}'", fix=fix)
        return _built(cmd_name)


@cache
def _built(cmd_name: str) -> Any:
    short_help = COMMANDS[cmd_name]
    found = getattr(import_module(f"colltool.commands.{cmd_name}"), f"{cmd_name}_command")
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
        found.command(cmd_name, epilog=function.examples, short_help=short_help)(function)
    command = typer.main.get_command(found)
    command.name = cmd_name
    return command


app = typer.Typer(
    name="colltool",
    cls=_Lazy,
    help=(
        "What a collective costs on a fabric: which algorithm wins, where the winner changes, where"
        " the time goes."
    ),
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same in a pipe, and a third of the start-up
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from colltool.commands.output import write

        write(f"colltool {__version__}\n", None)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def reworded(error: Any) -> ColltoolError:
    """The error that says the same as one of click; what that knows besides its text depends on its
    class, private to typer."""
    context = getattr(error, "ctx", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        options = [
            name
            for one in (context.command.get_params(context) if context else ())
            for name in one.opts
        ]
        hint = nearest(error.option_name, [name for name in options if name.startswith("--")])
        return ColltoolError(
            f"no option '{clipped(error.option_name)}'", fix=f"{hint} {_help(context)}".strip()
        )
    parameter: Any = getattr(error, "param", None)
    name = _name(parameter) or str(getattr(error, "option_name", ""))
    if kind == "MissingParameter" and parameter.name == "fabric":
        from colltool.fabric.load import shipped_fabrics

        add, why = (
            ("add -f with", ": a price needs a fabric") if name.startswith("--") else ("name", "")
        )
        fix = (
            f"{add} a fabric file, or one of {', '.join(shipped_fabrics())}; colltool fabric list"
            " says what they are"
        )
        return ColltoolError(f"{name} is missing{why}", fix=fix)
    if kind == "MissingParameter":
        means = f"{parameter.help.rstrip('.')}; " if getattr(parameter, "help", None) else ""
        return ColltoolError(f"{name} is missing", fix=f"{means}{_help(context)}")
    message = clipped(str(error.message).rstrip("."), 200)
    return ColltoolError(message, where=name, fix=_help(context))


def _name(parameter: Any) -> str:
    """``--ranks`` of an option, ``PRIM`` of an argument."""
    if parameter is None:
        return ""
    if type(parameter).__name__.endswith("Argument"):
        return str(parameter.metavar or parameter.name.upper())
    return str(next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0]))


def _help(context: Any) -> str:
    path = "colltool" if context is None else context.command_path
    return f"{path} -h shows what it takes"
