"""Options of the commands, each a row of :data:`colltool.commands.arguments.ARGUMENTS`, and the
groups of options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands import option_text
from colltool.commands.arguments import ARGUMENTS, FORMATS, Argument
from colltool.commands.output import chosen_format, screen_of, write, write_bytes
from colltool.estimate.assumptions import DECLARED, KINDS, ModelOptions, words

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

# what typer takes for a value that must be typed
REQUIRED = ...
BY_FUNCTION = Parameter.empty
"""The default is the one that the function has."""
FABRIC_SUFFIXES = (".yaml", ".yml")


class Option(NamedTuple):
    """An option of a command, or an argument that has no flag.

    Args:
        name: the function's parameter that it gives.
        row: what is shown of it and how its text is read.
        default: its value without the option; None is nothing.
        prints: what it prints in place of running the command.
    """

    name: str
    row: Argument
    default: Any = BY_FUNCTION
    prints: Callable[[], None] | None = None


class OptionGroup(NamedTuple):
    """Several options that give one parameter of a command.

    Args:
        name: the parameter.
        options: the options.
        make: its value, made of theirs by name.
    """

    name: str
    options: tuple[Option, ...]
    make: Callable[..., Any]


def option(
    argument: str, help: str | None = None, *, default: Any = BY_FUNCTION, **changes: Any
) -> Option:
    """The option of a row, with ``help`` and other fields in place of the row's."""
    if help is not None:
        changes["help"] = help
    row = ARGUMENTS[argument]._replace(**changes)
    return Option(row.python or argument, row, default)


def schema_option(files: str, definition: str) -> Option:
    """``--schema`` of a command that reads files other than fabrics: print the JSON Schema of
    ``module:Model`` and stop."""

    def print_schema() -> None:
        from pkgutil import resolve_name

        write_schema(resolve_name(definition), files, None)

    help_ = f"Print the JSON Schema of {files} files, for editors, and stop."
    return Option("schema", Argument("--schema", help=help_, kind="flag"), False, print_schema)


def write_schema(definition: Any, files: str, output: Path | None) -> None:
    """Write the JSON Schema of a kind of files, for completion and checks in an editor."""
    from colltool.definitions.reader import json_schema
    from colltool.render.dispatch import to_json

    write(to_json(json_schema(definition, files)), output)


class FabricChoice(NamedTuple):
    """``--fabric``, ``--set`` and ``--machine``: which fabric, with which values in place of its
    own, and whose rows."""

    names: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    machine: str | None = None

    def load(self) -> Fabric:
        """The fabric; refuses more than one."""
        from colltool.fabric.load import load_fabric

        return load_fabric(self.name, self.overrides, self.machine)

    @property
    def several(self) -> list[str]:
        """All that were given, also as ``A,B``."""
        from colltool.fabric.expression import split_fabrics
        from colltool.fabric.load import exists

        found = []
        for name in self.names:
            # a file may have a comma in its name
            found += [name] if exists(name) else split_fabrics(name)
        return found

    @property
    def name(self) -> str:
        """The one that was given: silently taking the last of two would price the wrong thing."""
        if len(self.names) > 1:
            fix = (
                "one a call: write each to a file with --format json -o FILE, and compare two with"
                " colltool diff OLD NEW"
            )
            raise ColltoolError(
                f"given {len(self.names)} times: {', '.join(self.names)}",
                argument="fabric",
                fix=fix,
            )
        return self.names[0]


def _fabric_choice(
    fabric: list[str] | None,
    overrides: list[str] | None,
    per_rack: int | None = None,
    machine: str | None = None,
) -> FabricChoice:
    chosen = FabricChoice(tuple(fabric or ()), tuple(overrides or ()), machine)
    if per_rack is None:
        return chosen
    from colltool.fabric.expression import PER_RACK, with_setting

    names = tuple(with_setting(name, f"{PER_RACK}={per_rack}") for name in chosen.several)
    return chosen._replace(names=names)


def fabric_options(default: Any = REQUIRED, *, machine: bool = True) -> OptionGroup:
    """``--fabric``, ``--set`` and ``--machine``, which a command may leave out that asks for no
    price."""
    # None, not an empty list: typer shows the default of a list, even of an empty one
    options = [
        option("fabric", default=default),
        option("overrides", default=None),
        option("per_rack", default=None),
    ]
    if machine:
        options.append(option("machine", default=None))
    return OptionGroup("fabric", tuple(options), _fabric_choice)


FABRIC = fabric_options()
MAYBE_FABRIC = fabric_options(None)
WIRING = fabric_options(machine=False)
FABRIC_FILE = option("fabric", flags="", metavar="", many=False)
GROUP = ("ranks", "stride", "alone", "shape")
"""Who is in the group."""
EXPERTS = ("tokens", "top_k", "hidden", "experts", "dtype", "groups", "skew")
"""A call of dispatch or combine."""
JOB_FILE = option("job", flags="", metavar="")


def _sizes(
    sizes: str | None, begin: str | None, end: str | None, factor: float | None, step: str | None
) -> list[Any] | None:
    from colltool.commands.reading import size_of, sizes_between

    row = ARGUMENTS["sizes"]
    listed: list[Any] | None = option_text.read_items(sizes, "sizes", row)
    if begin is None and end is None:
        for name, value in (("factor", factor), ("step", step)):
            if value is not None:
                fix = f"add {argument_text('begin', '1M')} {argument_text('end', '1G')}"
                raise ColltoolError("needs a range of sizes", argument=name, fix=fix)
        return listed
    if listed is not None:
        what = f"is given beside {argument_text('sizes')}"
        raise ColltoolError(what, argument="begin" if begin else "end", fix="one of the two")
    if begin is None or end is None:
        missing = "begin" if begin is None else "end"
        fix = f"add {argument_text(missing, '1M' if begin is None else '1G')}"
        raise ColltoolError(
            "a range has two ends", argument="end" if begin is None else "begin", fix=fix
        )
    by = 0.0 if step is None else size_of(step)
    return sizes_between(size_of(begin), size_of(end), factor or 2.0, by)


def sizes_options(help: str | None = None) -> OptionGroup:
    """``--size``, or a range of sizes as nccl-tests takes it."""
    options = [option("sizes", help, default=None)]
    options += [option(name, default=None) for name in ("begin", "end", "factor", "step")]
    return OptionGroup("sizes", tuple(options), _sizes)


SIZES = sizes_options()


class Out(NamedTuple):
    """``--plot``, ``--format``, ``--output``, ``--columns`` and ``--all``: how a result is written,
    where to, and what of it."""

    form: str | None = None
    path: Path | None = None
    columns: str | None = None
    everything: bool = False
    plot: Path | None = None
    plot_what: str = ""

    def emit(self, result: Any) -> None:
        """Draw a result where a picture is asked for, render it and write it."""
        from colltool.render.dispatch import rendered

        # matplotlib is loaded only where something is drawn
        if self.plot is not None:
            from colltool.base.extras import plot

            drawn = plot().picture(result, self.plot.suffix, self.plot_what)
            write_bytes(self.plot, drawn, "plot")
        chosen = chosen_format(self.form, self.path)
        names = [] if self.columns is None else [name.strip() for name in self.columns.split(",")]
        screen = screen_of(to_file=self.path is not None) if chosen == "table" else None
        write(rendered(result, chosen, screen, names, everything=self.everything), self.path)


def _out(format: str | None, output: Path | None, plot: Path | None = None, **rest: Any) -> Out:
    # refused before the work, not after it
    check_plot(plot)
    return Out(format, to_file(output), plot=plot, **rest)


def result_options(*before: Option, form: Option | None = None) -> OptionGroup:
    """How a result is written; ``before``: how it is drawn, ``form``: in which formats."""
    options = (
        *before,
        form or option("form", default=None),
        option("output", default=None),
        option("columns", default=None),
        option("everything", default=False),
    )
    return OptionGroup("out", options, _out)


PLOT = option("plot", default=None)
RESULT = result_options()
DRAWN_RESULT = result_options(PLOT)


def plot_views(views: tuple[str, ...], help: str | None = None) -> Option:
    """Which of several pictures is drawn of a result, the first where nothing is said."""
    return option("plot_what", help, words=views, default=views[0])


def extra_format(form: str, help: str) -> Option:
    """``--format`` with one more format than all commands have."""
    return option("form", help, words=(*FORMATS, form), default=None)


def readings_options(without: str = "") -> OptionGroup:
    """Options of the readings of the model, one of which may be left out."""
    options = tuple(_reading_option(name) for name in DECLARED if name != without)
    return OptionGroup("readings", options, option_text.readings)


def _reading_option(name: str) -> Option:
    flag = f"--{name.replace('_', '-')}"
    help_ = DECLARED[name].help
    default = ModelOptions._field_defaults[name]
    if KINDS[name] is bool:
        return Option(name, Argument(flag, help=help_, kind="flag"), default)
    known = words(name)
    shown = (*known, "P") if int in get_args(KINDS[name]) else known
    # read as text: what is known only together with other readings is checked there
    row = Argument(flag, "|".join(shown) or "NUMBER", help_, words=known)
    return Option(name, row, str(default))


READINGS = readings_options()
YAML_TOO = extra_format(
    "yaml",
    "How to write it; yaml is a file that loads again. [default: table, or by the suffix of -o]",
)
NEW_FILE = option(
    "output", "Where to write it. [default: the terminal]", metavar="OUT.yaml", default=None
)


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn before the work starts: no matplotlib, an unknown
    suffix, a folder that is none."""
    if path is not None:
        from colltool.base.extras import plot

        plot().check_plot(path)


def to_file(path: Path | None) -> Path | None:
    """The file to write; None is stdout, and so is ``-``."""
    if path is None or str(path) == "-":
        return None
    if not path.name:  # Path("") is the current folder
        raise ColltoolError(
            "is not the name of a file",
            argument="output",
            fix="write -o FILE, or -o - for the terminal",
        )
    return path


def as_yaml(out: Out) -> bool:
    """Whether a definition itself is asked for, not what is made of it."""
    by_suffix = out.path is not None and out.path.suffix in FABRIC_SUFFIXES
    asked = out.form == "yaml" or (out.form is None and by_suffix)
    if asked and out.columns is not None:
        fix = "leave it out, or --format table"
        raise ColltoolError("a YAML file has no columns", argument="columns", fix=fix)
    return asked


def new_file(
    output: Path | None, what: str, suffixes: tuple[str, ...] = FABRIC_SUFFIXES
) -> Path | None:
    """Where a definition is written; ColltoolError for another suffix, or a file that is there."""
    path = to_file(output)
    if path is None:
        return None
    if path.suffix not in suffixes:
        fix = f"name it {path.stem}{suffixes[0]}"
        raise ColltoolError(f"{what} ends in {suffixes[0]}, got {path}", argument="output", fix=fix)
    if os.path.exists(path):  # Path.exists refuses a name that is too long
        there = f"{path} is there already, and somebody may have filled it in"
        raise ColltoolError(there, argument="output", fix="name another file, or remove it first")
    return path
