"""Options of the commands, each made of its row in :data:`colltool.api.arguments.ARGUMENTS`, and
the groups that commands share.

A group becomes one value of the command that asks for it by its type: ``fabric: FabricChoice``,
``group: GroupChoice``, ``out: Out`` and ``readings: Readings`` stand where their options stand.
``READ`` and ``WRITTEN`` mark parameters that name files, so that no output is written over an
input.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

import typer

import colltool
from colltool.api.arguments import ARGUMENTS, FORMATS
from colltool.base.errors import ColltoolError
from colltool.cli import values
from colltool.cli.output import chosen_format, screen_of, write, write_bytes
from colltool.estimate.assumptions import DECLARED, KINDS, Readings, words

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

READ = "names a file that is read"
WRITTEN = "names a file that is written"
FABRIC_SUFFIXES = (".yaml", ".yml")


def option(name: str, help: str | None = None, **other: Any) -> Any:
    """What typer is told of an argument: its row, with ``help`` and other fields in place of the
    row's."""
    row = ARGUMENTS[name]._replace(**other)
    details: dict[str, Any] = {
        "metavar": row.metavar or "|".join(row.words) or None,
        "help": row.help if help is None else help,
        "parser": values.reader(row.python or name, row),
        "autocompletion": values.offered(row),
    }
    return typer.Option(*row.flags.split(), **details) if row.flags else typer.Argument(**details)


def schema_option(files: str, definition: str) -> Any:
    """``--schema`` of a command that reads files other than fabrics: print the JSON Schema of
    ``module:Model`` and stop."""

    def printed(asked: bool) -> None:
        if asked:
            write_schema(resolve_name(definition), files, None)
            raise typer.Exit

    help_ = f"Print the JSON Schema of {files} files, for editors, and stop."
    return typer.Option("--schema", help=help_, is_eager=True, callback=printed)


def write_schema(definition: Any, files: str, output: Path | None) -> None:
    """The JSON Schema of a kind of files, for completion and checks in an editor."""
    from colltool.definitions.reader import json_schema
    from colltool.render.dispatch import to_json

    write(to_json(json_schema(definition, files)), output)


Several = list[str] | None

Primitive = Annotated[str, option("primitive")]
MaybePrimitive = Annotated[str | None, option("primitive", "One primitive. [default: all]")]
FabricFile = Annotated[str, option("fabric", flags="", metavar=""), READ]
Set = Annotated[Several, option("overrides")]
Stride = Annotated[int, option("stride")]
Alone = Annotated[bool, option("alone")]
Shape = Annotated[str | None, option("shape")]
Size = Annotated[str, option("size")]
Sizes = Annotated[str | None, option("sizes")]
Algorithms = Annotated[str | None, option("algorithms")]
AlgorithmFiles = Annotated[Several, option("algorithm_files"), READ]
Library = Annotated[str | None, option("library")]
LibraryFile = Annotated[str | None, option("library_file"), READ]
SlowRank = Annotated[float | None, option("slow_rank")]
Rtol = Annotated[float | None, option("rtol")]
Logs = Annotated[list[str], option("logs"), READ]
LogRanks = Annotated[int | None, option("log_ranks")]
Collective = Annotated[str | None, option("collective")]
Nodes = Annotated[int | None, option("nodes")]
InPlace = Annotated[bool, option("in_place")]
JobFile = Annotated[str, option("job", flags="", metavar=""), READ]
JobSet = Annotated[Several, option("job_overrides")]
Output = Annotated[Path | None, option("output"), WRITTEN]


class ExpertChoice(NamedTuple):
    """``--tokens`` and the like: a call of dispatch or combine."""

    tokens: int | None = None
    top_k: int | None = None
    hidden: int | None = None
    experts: int | None = None
    dtype: str | None = None
    groups: int | None = None
    skew: float | None = None


class FabricChoice(NamedTuple):
    """``--fabric``, ``--set`` and ``--machine``: which fabric, with which values in place of its
    own, and whose rows."""

    names: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    machine: str | None = None

    def load(self) -> Fabric:
        """The fabric; refuses more than one."""
        return colltool.load_fabric(self.name, self.overrides, self.machine)

    @property
    def several(self) -> list[str]:
        """All that were given, also as ``A,B``."""
        from colltool.fabric.load import exists

        return [
            part for name in self.names for part in ([name] if exists(name) else name.split(","))
        ]

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


class GroupChoice(NamedTuple):
    """``--ranks``, ``--stride``, ``--alone`` and ``--shape``: who is in the group."""

    ranks: int | None = None
    stride: int = 1
    alone: bool = False
    shape: tuple[int, ...] | None = None


NO_FABRIC, EVERYBODY, NO_TOKENS = FabricChoice(), GroupChoice(), ExpertChoice()


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
        if self.plot is not None:
            from colltool.base.pictures import plot

            drawn = plot().picture(result, self.plot.suffix, self.plot_what)
            write_bytes(self.plot, drawn, "plot")
        from colltool.render.dispatch import rendered

        chosen = chosen_format(self.form, self.path)
        names = [] if self.columns is None else [name.strip() for name in self.columns.split(",")]
        screen = screen_of(to_file=self.path is not None) if chosen == "table" else None
        write(rendered(result, chosen, screen, names, everything=self.everything), self.path)


class Plots(NamedTuple):
    """Beside ``Out`` in an annotation: results are drawn too, as one of several views where there
    are such."""

    views: tuple[str, ...] = ()
    help: str | None = None


class Also(NamedTuple):
    """Beside ``Out`` in an annotation: one more format, and the line of help for all."""

    form: str
    help: str


class Without(NamedTuple):
    """Beside ``Readings`` or ``FabricChoice`` in an annotation: a reading, or an option, that a
    command does not offer."""

    name: str


WiringChoice = Annotated[FabricChoice, Without("machine")]
"""A fabric of which no price is asked."""


def capabilities_of(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type of a parameter, and what stands beside it in ``Annotated``."""
    if get_origin(parameter.annotation) is Annotated:
        kind, *beside = get_args(parameter.annotation)
        return kind, tuple(beside)
    return parameter.annotation, ()


def expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The options of a group in place of the parameter that asks for it; any other parameter as it
    is."""
    (kind, beside), default = capabilities_of(parameter), parameter.default
    parts: dict[str, tuple[Any, Any]]
    if kind is FabricChoice:
        names = (default.names or None) if isinstance(default, FabricChoice) else default
        parts = {
            "fabric": (Annotated[list[str], option("fabric"), READ], names),
            "set_": (Set, None),
        }
        if Without("machine") not in beside:
            parts["machine"] = (Annotated[str | None, option("machine"), READ], None)
    elif kind is GroupChoice:
        ranks = Annotated[int | None, option("ranks")]
        parts = {
            "ranks": (ranks, None),
            "stride": (Stride, 1),
            "alone": (Alone, False),
            "shape": (Shape, None),
        }
    elif kind is ExpertChoice:
        texts = {"dtype": str | None, "skew": float | None}
        parts = {
            name: (Annotated[texts.get(name, int | None), option(name)], None)
            for name in ExpertChoice._fields
        }
    elif kind is Out:
        parts, form = {}, option("form")
        for one in beside:
            if isinstance(one, Plots):
                parts["plot"] = Annotated[Path | None, option("plot"), WRITTEN], None
                if one.views:
                    parts["plot_what"] = (
                        Annotated[str, option("plot_what", one.help, words=one.views)],
                        one.views[0],
                    )
            else:
                form = option("form", one.help, words=(*FORMATS, one.form))
        parts |= {"form": (Annotated[str | None, form], None), "output": (Output, None)}
        parts["columns"] = Annotated[str | None, option("columns")], None
        parts["everything"] = Annotated[bool, option("everything")], False
    elif kind is Readings:
        parts = {name: _reading(name) for name in DECLARED if Without(name) not in beside}
    else:
        return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=annotation
        )
        for name, (annotation, usual) in parts.items()
    ]


def _reading(name: str) -> tuple[Any, Any]:
    """A reading of the model as an option: its words, its line of help; its default."""
    flag, default, known = (
        f"--{name.replace('_', '-')}",
        Readings._field_defaults[name],
        words(name),
    )
    if KINDS[name] is bool:
        return Annotated[bool, typer.Option(flag, help=DECLARED[name].help)], default
    metavar = "|".join((*known, "P") if int in get_args(KINDS[name]) else known) or "NUMBER"
    complete = values.words(known)
    return Annotated[
        str, typer.Option(flag, metavar=metavar, help=DECLARED[name].help, autocompletion=complete)
    ], str(default)


def taken(
    parameter: inspect.Parameter, parts: list[inspect.Parameter], given: dict[str, Any]
) -> Any:
    """What the command gets for one of its parameters."""
    kind, _ = capabilities_of(parameter)
    own = {part.name: given[part.name] for part in parts}
    if kind is FabricChoice:
        return FabricChoice(
            tuple(own["fabric"] or ()), tuple(own["set_"] or ()), own.get("machine")
        )
    if kind is GroupChoice:
        return GroupChoice(**own)
    if kind is ExpertChoice:
        return ExpertChoice(**own)
    if kind is Out:
        check_plot(own.get("plot"))
        return Out(path=to_file(own.pop("output")), **own)
    return values.readings(own) if kind is Readings else own[parameter.name]


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn before the work starts: no matplotlib, an unknown
    suffix, a folder that is none."""
    if path is not None:
        from colltool.base.pictures import plot

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
