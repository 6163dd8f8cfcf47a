"""The typer application: hands the declared commands to typer, and rewords its usage errors.

A command's module is imported when the command is called. typer's usual handling of values is
replaced (:class:`_PlainReading`), as it takes a third of the time of a start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from types import GenericAlias
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from colltool import __version__
from colltool.base.errors import ColltoolError, clipped, nearest, nearest_and_all
from colltool.commands.app import COMMANDS, FIRST_GROUPS, GROUPS

PURPOSE = (
    "What a collective costs on a network: which algorithm wins, where the winner"
    " changes, where the time goes."
)
PLAIN: dict[str, Any] = {
    "add_completion": False,
    # plain help: the same in a pipe, and a third of the start-up
    "rich_markup_mode": None,
}
# the groups of options in a command's help
QUESTION, OUTPUT, MODEL = SECTIONS = ("Question", "Output", "Model")
# where the options of an OptionGroup are, by its name; all others are of the question
_GROUP_SECTIONS = {"out": OUTPUT, "readings": MODEL}
# whether help lists the options of the model one by one
show_model: ContextVar[bool] = ContextVar("show_model", default=False)
HELP_FLAGS = {"help_option_names": ["-h", "--help"]}


class _PlainReading:
    """Reads the values of an option in place of typer's own class.

    typer makes a pydantic adapter for each option of a command, whether it is given or not.
    """

    def __init__(self, read: Callable[[str], Any] | None = None) -> None:
        """``read`` takes the text of one value; None leaves the option to typer."""
        self.read = read

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of an option; None if it was not given."""
        if value is None:
            return None
        if self.read is None:
            param._runtime_param = None  # typer makes its own
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        if isinstance(value, list | tuple):
            return [self.read(item) for item in value]
        return self.read(value)


class _WithPlainReading:
    """Mixin of typer's commands: the text of an option is read by the function that ``readers`` has
    under the option's name.

    Versions of typer without ``_runtime_param`` ignore it and read values as they always do.
    """

    readers: Mapping[str, Callable[[str], Any]] = {}

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, and those that typer adds."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "_runtime_param", None) is None:
                parameter._runtime_param = _PlainReading(self.readers.get(parameter.name))
        return parameters


class _PlainCommand(_WithPlainReading, TyperCommand):
    """A command whose help lists its options by what they are for.

    A subclass for each command has ``sections``, where each option is, by its name, and ``not_shown``,
    older flags that are taken too and that help leaves out.
    """

    sections: Mapping[str, str] = {}
    not_shown: frozenset[str] = frozenset()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of the question, of the output and, where asked for, of the model; else
        only the names of the last."""
        by_section: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        by_section |= {section: [] for section in SECTIONS}
        for parameter in self.get_params(ctx):
            # flags and help; None for a hidden option
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            flags, help_ = record
            usual_section = QUESTION
            if _is_argument(parameter):
                # they have their type in pointed brackets: the text says it
                flags = flags.partition(" <")[0]
                usual_section = "Arguments"
            for flag in self.not_shown:
                flags = flags.replace(f", {flag}", "")
            section = self.sections.get(parameter.name, usual_section)
            by_section[section].append((flags, help_))
        for section, records in by_section.items():
            if section == MODEL and records and not show_model.get():
                with formatter.section(section):
                    # the first flag of "--pipelining, -p WORD"
                    names = [flags.split()[0].split(",")[0] for flags, _ in records]
                    formatter.write_text(f"{', '.join(names)}: see --help-model")
            elif records:
                with formatter.section(section):
                    formatter.write_dl(records)


def _is_argument(parameter: Any) -> bool:
    """Whether a parameter of typer is positional."""
    return type(parameter).__name__.endswith("Argument")


class _PlainGroup(_WithPlainReading, TyperGroup):
    """A group of commands, the options of which are read plainly too."""


def help_text(*, everything: bool) -> str:
    """The help of colltool itself: the commands of :data:`FIRST_GROUPS`, or all of them."""
    lines = ["Usage: colltool COMMAND ...", "", *wrap(PURPOSE, 78), ""]
    for group, commands in GROUPS.items():
        if everything or group in FIRST_GROUPS:
            lines.append(f"{group}:")
            lines += [f"  {name:<11} {line}" for name, line in commands.items()]
    if everything:
        lines += ["", "Options: --version, --install-completion, --show-completion, -h"]
        lines += ["COMMAND -h lists a command's options."]
    else:
        lines.append("Try: colltool price ar -f dgx-h100 -n 64 -M 16MB   (COMMAND -h: its options)")
        lines.append(
            f"More: colltool help all lists all {len(COMMANDS)}; colltool guide is the manual."
        )
    return "\n".join(lines) + "\n"


class _LazyGroup(_PlainGroup):
    """A group that imports a command's module when the command is called."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the first screen: a command a line, in groups."""
        formatter.write(help_text(everything=False))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Names in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A stub of a command, with its line of help: enough for help and completion. None for an
        unknown one in an unfinished line, else ColltoolError."""
        if cmd_name in COMMANDS:
            return TyperCommand(cmd_name, short_help=COMMANDS[cmd_name])
        # completion in a shell
        if ctx.resilient_parsing:
            return None
        raise ColltoolError(
            f"no command '{cmd_name}'",
            fix=nearest_and_all(cmd_name, COMMANDS, "commands:"),
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the called command, the command, built on first use, in place of its stub, and
        its arguments; name and command are None if there is none, as in an unfinished line."""
        name, _, arguments = super().resolve_command(ctx, args)
        return name, name and _typer_command(name), arguments


@cache
def _typer_command(name: str) -> Any:
    """The typer command of a declared command or group, by the name of its module."""
    from colltool.commands.command import CommandGroup

    declared = getattr(import_module(f"colltool.commands.{name}"), f"{name}_command")
    if isinstance(declared, CommandGroup):
        parent = typer.Typer(
            cls=_PlainGroup,
            help=declared.help,
            context_settings=HELP_FLAGS,
            no_args_is_help=True,
            **PLAIN,
        )
        for command in declared.commands:
            _declare(parent, command, command.short_help)
    else:
        parent = typer.Typer(**PLAIN)
        _declare(parent, declared, COMMANDS[name])
    typer_command = typer.main.get_command(parent)
    typer_command.name = name
    return typer_command


def _readers(command: Any) -> dict[str, Callable[[str], Any]]:
    """The function that reads the text of each option that is no flag, by the option's name: Path or
    str where nothing else is to be read."""
    from colltool.commands.option_text import reader

    readers = {}
    for option in command.options:
        if option.row.kind != "flag":
            as_typed = Path if option.row.kind == "path" else str
            readers[option.name] = reader(option.name, option.row) or as_typed
    return readers


def _sections(command: Any) -> dict[str, str]:
    """The section of the help, by name, of each option that is not of the question."""
    sections = {"help": OUTPUT}
    for part in command.parts:
        section = _GROUP_SECTIONS.get(part.name)
        if section is not None:
            sections |= {option.name: section for option in getattr(part, "options", ())}
    return sections


def _declare(parent: typer.Typer, command: Any, short_help: str) -> None:
    """Declare a command to typer, which takes options and help from a function's signature, docstring
    and annotations: those that ``run`` is given here."""
    parameters = [_parameter(option) for option in command.options]

    def run(**values: Any) -> None:
        command.run(values)

    run.__doc__ = command.help
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # typer makes the command itself, so that what it needs goes with the class
    not_shown = frozenset(option.row.also for option in command.options if option.row.also)
    attributes = {
        "readers": _readers(command),
        "sections": _sections(command),
        "not_shown": not_shown,
    }
    command_class = type("_Command", (_PlainCommand,), attributes)
    declare = parent.command(
        command.name, cls=command_class, epilog=command.examples, short_help=short_help
    )
    declare(run)


# types of arguments in typer by the kind of their row; all others are text
TYPES: dict[str, Any] = {
    "flag": bool,
    "count": int,
    "number": float,
    "share": float,
    "path": Path,
    "pair": tuple[str, str],
}


def _parameter(option: Any) -> inspect.Parameter:
    """An option as a parameter that typer understands."""
    from colltool.commands.completion import completion_of
    from colltool.commands.option_text import reader
    from colltool.commands.project import may_be_stated

    row = option.row
    value_type: Any = TYPES.get(row.kind, str)
    if row.many:
        value_type = GenericAlias(list, value_type)
    # the project's file may state it: whether it is missing is known once that is read
    default = None if may_be_stated(option) else option.default
    if default is None:
        value_type = value_type | None
    details: dict[str, Any] = {
        "metavar": row.metavar or "|".join(row.words) or None,
        "help": row.help,
        "parser": reader(option.name, row),
        "autocompletion": completion_of(row),
    }
    if option.prints:
        details |= {"is_eager": True, "callback": _printing(option.prints)}
    # without flags it is a positional argument
    if row.flags:
        flags = f"{row.flags} {row.also}"
        declared = typer.Option(default, *flags.split(), **details)
    else:
        declared = typer.Argument(default, **details)
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=value_type
    )


def _printing(prints: Callable[[], None]) -> Callable[[bool], None]:
    """The callback of a flag that prints something in place of running the command."""

    def callback(is_given: bool) -> None:
        if is_given:
            prints()
            raise typer.Exit

    return callback


def _print_version() -> None:
    from colltool.commands.output import write

    write(f"colltool {__version__}\n", output=None)


app = typer.Typer(
    name="colltool",
    cls=_LazyGroup,
    help=PURPOSE,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_FLAGS,
    rich_markup_mode=None,
)


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_printing(_print_version),
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


def reworded(error: Any) -> ColltoolError:
    """A usage error of typer as a ColltoolError with a fix.

    The classes of typer's errors are private: they are told apart by name, and have other
    attributes each.
    """
    context = getattr(error, "ctx", None)
    class_name = type(error).__name__
    if class_name == "NoSuchOption":
        return _no_such_option(error.option_name, context)
    parameter: Any = getattr(error, "param", None)
    name = _display_name(parameter) or str(getattr(error, "option_name", ""))
    if class_name == "MissingParameter" and parameter.name == "fabric":
        from colltool.commands.project import which_fabric

        return ColltoolError(f"{name} is missing", fix=f"name {which_fabric()}")
    if class_name == "MissingParameter":
        meaning = f"{parameter.help.rstrip('.')}; " if getattr(parameter, "help", None) else ""
        return ColltoolError(f"{name} is missing", fix=f"{meaning}{_where_help_is(context)}")
    return ColltoolError(
        clipped(str(error.message).rstrip("."), 200), where=name, fix=_where_help_is(context)
    )


# Other tools' names of our options.
_KNOWN_ELSEWHERE = {
    "--threshold": "--rtol",
    "--tolerance": "--rtol",
    "--tol": "--rtol",
    "--nranks": "--ranks",
    "--gpus": "--ranks",
    "--np": "--ranks",
    "--minbytes": "--begin",
    "--maxbytes": "--end",
    "--stepfactor": "--factor",
    "--stepbytes": "--step",
    "--collective": "--primitive",
}


def _no_such_option(typed: str, context: Any) -> ColltoolError:
    """The error for an unknown option, with the one that is meant: another tool's name for it, its
    beginning, or a misspelling."""
    known: list[str] = []
    if context:
        for parameter in context.command.get_params(context):
            known += [flag for flag in parameter.opts if flag.startswith("--")]
    meant = [flag for flag in known if flag.startswith(typed)]
    ours = _KNOWN_ELSEWHERE.get(typed)
    if ours in known:
        meant = [ours]
    hint = f"did you mean '{meant[0]}'?" if meant else nearest(typed, known)
    return ColltoolError(
        f"no option '{clipped(typed)}'", fix=f"{hint} {_where_help_is(context)}".strip()
    )


def _display_name(parameter: Any) -> str:
    """``--ranks`` of an option, ``PRIM`` of an argument; empty for None."""
    if parameter is None:
        return ""
    if _is_argument(parameter):
        return str(parameter.metavar or parameter.name.upper())
    return str(
        next((option for option in parameter.opts if option.startswith("--")), parameter.opts[0])
    )


def _where_help_is(context: Any) -> str:
    """``colltool price -h shows what it takes``."""
    path = "colltool" if context is None else context.command_path
    return f"{path} -h shows what it takes"
