"""Options of commands, made from rows of :data:`colltool.commands.arguments.ARGUMENTS`.

Commands share groups of them: the fabric (:class:`FabricChoice`), sizes, the output (:class:`Out`)
and options of the model; a group makes one argument of the command's function. At the end are checks
of output paths that commands make before the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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

# default of an option that must be given, as typer spells it
REQUIRED = ...
# default of an option that has the default of the command's function, or of its public function; the
# marker of inspect for a parameter without one
BY_FUNCTION = Parameter.empty
FABRIC_SUFFIXES = (".yaml", ".yml")


class Option(NamedTuple):
    """An option of a command, or an argument that has no flag.

    Args:
        name: the parameter of the command's function.
        row: flags, help, and how its text is read.
        default: its value if it is not given.
        prints: called in place of the command, such as for ``--schema``.
    """

    name: str
    row: Argument
    default: Any = BY_FUNCTION
    prints: Callable[[], None] | None = None


class OptionGroup(NamedTuple):
    """Several options that make up one parameter of a command.

    Args:
        name: the parameter.
        make: takes the values of the options by name, and returns the parameter's.
    """

    name: str
    options: tuple[Option, ...]
    make: Callable[..., Any]


def option(
    argument: str, help: str | None = None, *, default: Any = BY_FUNCTION, **changes: Any
) -> Option:
    """The option of a row of ARGUMENTS, with ``help`` and other fields in place of the row's."""
    if help is not None:
        changes["help"] = help
    row = ARGUMENTS[argument]._replace(**changes)
    return Option(row.python or argument, row, default)


def schema_option(files: str, definition: str) -> Option:
    """``--schema`` of a command that reads files other than fabrics: print the JSON Schema of
    ``module:Model`` and stop."""

    def print_schema() -> None:
        from pkgutil import resolve_name

        write_schema(resolve_name(definition), files, output=None)

    help_ = f"Print the JSON Schema of {files} files, for editors, and stop."
    return Option(
        "schema", Argument("--schema", help=help_, kind="flag"), default=False, prints=print_schema
    )


def write_schema(definition: Any, files: str, output: Path | None) -> None:
    """Write the JSON Schema of a kind of files, for completion and checks in an editor.

    Args:
        definition: the pydantic model of such a file.
        files: the kind as the schema names it: ``job``.
        output: None for the terminal.
    """
    from colltool.definitions.json_schema import json_schema
    from colltool.render.data_formats import to_json

    write(to_json(json_schema(definition, files)), output)


class FabricChoice(NamedTuple):
    """The values of ``--fabric``, ``--set`` and ``--machine``.

    Args:
        names: as typed, with ``--per-rack`` added to each; empty if none was typed.
        overrides: ``KEY=VALUE`` each.
        machine: the path of a machine file; None for the one beside the fabric's.
    """

    names: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    machine: str | None = None

    def load(self) -> Fabric:
        """The fabric; refuses more than one."""
        from colltool.fabric.load import load_fabric

        return load_fabric(self.name, self.overrides, self.machine)

    def load_for(self, arguments: Mapping[str, Any]) -> Fabric:
        """The fabric for the ranks, shape and stride among a command's arguments.

        Where the ranks leave a rack partly filled, most of each rack takes part instead, which is
        said on stderr: 512 ranks are 64 of 72 in 8 racks.
        """
        loaded = self.load()
        ranks = arguments.get("ranks")
        if ranks is None or arguments.get("shape") or arguments.get("stride", 1) != 1:
            return loaded
        from colltool.analysis.fitted import most_of_each_rack
        from colltool.commands.output import say
        from colltool.fabric.load import load_fabric

        # its overrides leave the other ranks of a rack out
        part = most_of_each_rack(loaded, ranks)
        if part.per_rack is None:
            return loaded
        say(
            f"note: {part.per_rack} of the {part.rack} ranks of each {part.noun} take part"
            f" (--per-rack {part.per_rack})"
        )
        return load_fabric(self.name, [*self.overrides, *part.overrides], self.machine)

    @property
    def several(self) -> list[str]:
        """The names of all given fabrics; ``A,B`` are two."""
        from colltool.fabric.expression import split_fabrics
        from colltool.fabric.load import exists

        fabrics = []
        for name in self.names:
            # a file may have a comma in its name
            fabrics += [name] if exists(name) else split_fabrics(name)
        return fabrics

    @property
    def name(self) -> str:
        """The name of the only given fabric; ColltoolError for several."""
        if len(self.names) > 1:
            raise ColltoolError(
                f"given {len(self.names)} times: {', '.join(self.names)}",
                argument="fabric",
                fix="give one per call: write each to a file with --format json -o FILE, and compare two with"
                " colltool diff OLD NEW",
            )
        return self.names[0]


def _fabric_choice(
    fabric: list[str] | None,
    overrides: list[str] | None,
    per_rack: int | None = None,
    machine: str | None = None,
) -> FabricChoice:
    """The value of :func:`fabric_options`; ``--per-rack`` becomes a setting of each fabric's name."""
    choice = FabricChoice(tuple(fabric or ()), tuple(overrides or ()), machine)
    if per_rack is None:
        return choice
    from colltool.fabric.expression import PER_RACK, with_setting

    names = tuple(with_setting(name, f"{PER_RACK}={per_rack}") for name in choice.several)
    return choice._replace(names=names)


def fabric_options(default: Any = REQUIRED, *, machine: bool = True) -> OptionGroup:
    """``--fabric`` and ``--set``, and ``--machine`` for commands that price."""
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
# of commands that price nothing, and so have no --machine
WIRING = fabric_options(machine=False)
FABRIC_FILE = option("fabric", flags="", metavar="FABRIC", many=False)
# arguments that say who is in the group
GROUP = ("ranks", "stride", "alone", "shape")
# arguments of a call of dispatch or combine
EXPERTS = ("tokens", "top_k", "hidden", "experts", "dtype", "sms", "groups", "skew")
JOB_FILE = option("job", flags="", metavar="JOB")
MODEL_OR_JOB = option(
    "job",
    "Shipped model or job, a file of either, or the config.json of a model.",
    flags="",
    metavar="JOB",
)


def _sizes(
    sizes: str | None, begin: str | None, end: str | None, factor: float | None, step: str | None
) -> list[Any] | None:
    """The sizes that were listed, as text, or those from ``--begin`` to ``--end``, in bytes; None for
    neither.

    Raises:
        ColltoolError: both were given, or half a range.
    """
    from colltool.commands.reading import size_of, sizes_between

    row = ARGUMENTS["sizes"]
    listed: list[Any] | None = option_text.read_items(sizes, "sizes", row)
    if begin is None and end is None:
        for name, value in (("factor", factor), ("step", step)):
            if value is not None:
                raise ColltoolError(
                    "requires a range of sizes",
                    argument=name,
                    fix=f"add {argument_text('begin', '1M')} {argument_text('end', '1G')}",
                )
        return listed
    if listed is not None:
        raise ColltoolError(
            f"cannot be combined with {argument_text('sizes')}",
            argument="begin" if begin else "end",
            fix="leave one of them out",
        )
    if begin is None or end is None:
        stated, missing, example = (
            ("end", "begin", "1M") if begin is None else ("begin", "end", "1G")
        )
        raise ColltoolError(
            "a range of sizes needs two ends",
            argument=stated,
            fix=f"add {argument_text(missing, example)}",
        )
    step_bytes = 0.0 if step is None else size_of(step)
    return sizes_between(size_of(begin), size_of(end), factor or 2.0, step_bytes)


def sizes_options(help: str | None = None) -> OptionGroup:
    """``--size``, or a range of sizes as nccl-tests takes it."""
    options = [option("sizes", help, default=None)]
    options += [option(name, default=None) for name in ("begin", "end", "factor", "step")]
    return OptionGroup("sizes", tuple(options), _sizes)


SIZES = sizes_options()


class Out(NamedTuple):
    """How and where a result is written: the values of the options of the output.

    Args:
        form: ``--format``; None: by the suffix of ``path``, else a table.
        path: ``--output``; None for the terminal.
        columns: ``--columns``, separated by commas; None for the usual ones.
        everything: ``--all``.
        plot: the picture to write; None for none.
        plot_what: ``--plot-what``, one of the result's pictures; empty for its only one.
        chart: ``--chart`` or ``--no-chart``; None where neither was given.
    """

    form: str | None = None
    path: Path | None = None
    columns: str | None = None
    everything: bool = False
    plot: Path | None = None
    plot_what: str = ""
    chart: bool | None = None

    def emit(self, result: Any) -> None:
        """Render a result and write it, and its picture if ``--plot`` was given."""
        from colltool.render.dispatch import rendered

        # matplotlib is loaded only where something is drawn
        if self.plot is not None:
            from colltool.base.extras import plot

            drawn = plot().picture(result, self.plot.suffix, self.plot_what)
            write_bytes(self.plot, drawn, "plot")
        chosen = chosen_format(self.form, self.path)
        names = [] if self.columns is None else [name.strip() for name in self.columns.split(",")]
        screen = screen_of(to_file=self.path is not None) if chosen == "table" else None
        text = rendered(result, chosen, screen, names, everything=self.everything, chart=self.chart)
        write(text, self.path)


def _out(format: str | None, output: Path | None, plot: Path | None = None, **fields: Any) -> Out:
    """The value of :func:`result_options`."""
    # refused before the work, not after it
    check_plot(plot)
    return Out(format, to_file(output), plot=plot, **fields)


def result_options(*before: Option, form: Option | None = None) -> OptionGroup:
    """The options of :class:`Out`.

    Args:
        before: ``--plot``, ``--plot-what`` and ``--chart``, where the result can be drawn.
        form: ``--format`` in place of the usual one.
    """
    options = (
        *before,
        form or option("form", default=None),
        option("output", default=None),
        option("columns", default=None),
        option("everything", default=False),
    )
    return OptionGroup("out", options, _out)


PLOT = option("plot", default=None)
CHART = option("chart", default=None)
RESULT = result_options()
DRAWN_RESULT = result_options(PLOT)


def plot_views(views: tuple[str, ...], help: str | None = None) -> Option:
    """``--plot-what``: which of several pictures to draw; the first by default."""
    return option("plot_what", help, words=views, default=views[0])


def extra_formats(forms: tuple[str, ...], help: str, **row: Any) -> Option:
    """``--format`` with more formats than the usual ones."""
    return option("form", help, words=(*FORMATS, *forms), default=None, **row)


def readings_options(without: str = "") -> OptionGroup:
    """All options of the model, but for ``without``."""
    options = tuple(
        _model_option(option_name) for option_name in DECLARED if option_name != without
    )
    return OptionGroup("readings", options, option_text.readings)


def _model_option(option_name: str) -> Option:
    """The option of a field of ModelOptions: a flag, or one of its words or a number."""
    flag = f"--{option_name.replace('_', '-')}"
    help_ = DECLARED[option_name].help
    default = ModelOptions._field_defaults[option_name]
    if KINDS[option_name] is bool:
        return Option(option_name, Argument(flag, help=help_, kind="flag"), default)
    known = words(option_name)
    # P: a number of segments beside the words
    choices = (*known, "P") if int in get_args(KINDS[option_name]) else known
    # text here; option_text.readings checks all of them together
    row = Argument(flag, "|".join(choices) or "NUMBER", help_, words=known)
    return Option(option_name, row, str(default))


READINGS = readings_options()
YAML_TOO = extra_formats(
    ("yaml",),
    "Output format; yaml can be loaded again. [default: table, or by the suffix of -o]",
)
NEW_FILE = option(
    "output", "File to write. [default: the terminal]", metavar="OUT.yaml", default=None
)


def check_plot(path: Path | None) -> None:
    """Raise ColltoolError, before the work, for a picture that cannot be drawn: no matplotlib, an
    unknown suffix, no such folder."""
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


def is_yaml_wanted(out: Out) -> bool:
    """Whether the definition itself is requested, as YAML by the format or the suffix of the file, not
    the table about it; ColltoolError for columns of YAML."""
    by_suffix = out.path is not None and out.path.suffix in FABRIC_SUFFIXES
    wants_yaml = out.form == "yaml" or (out.form is None and by_suffix)
    if wants_yaml and out.columns is not None:
        raise ColltoolError(
            "a YAML file has no columns", argument="columns", fix="leave it out, or --format table"
        )
    return wants_yaml


def new_file(
    output: Path | None, what: str, suffixes: tuple[str, ...] = FABRIC_SUFFIXES
) -> Path | None:
    """The path of a new definition; None for stdout.

    Args:
        what: what is written, for an error: ``a fabric file``.

    Raises:
        ColltoolError: another suffix, or a file that exists.
    """
    path = to_file(output)
    if path is None:
        return None
    if path.suffix not in suffixes:
        raise ColltoolError(
            f"{what} ends in {suffixes[0]}, got {path}",
            argument="output",
            fix=f"name it {path.stem}{suffixes[0]}",
        )
    if os.path.exists(path):  # Path.exists refuses a name that is too long
        raise ColltoolError(
            f"{path} is there already, and somebody may have filled it in",
            argument="output",
            fix="name another file, or remove it first",
        )
    return path
