"""Groups of options that commands share: each becomes one value of the command that asks for it by its type.

``fabric: FabricChoice``, ``group: GroupChoice``, ``out: Out`` and ``readings: Readings`` stand where their options stand.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

import typer

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.completion import words as complete_words
from colltool.cli.output import keep_apart, write_bytes
from colltool.estimate.assumptions import DECLARED, KINDS, Readings, words

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

Parameters = Iterator[inspect.Parameter]


class FabricChoice(NamedTuple):
    """``--fabric`` and ``--set``: which fabric, with which values in place of its own."""

    names: tuple[str, ...]
    overrides: tuple[str, ...]

    def load(self) -> Fabric:
        """The fabric.

        Raises:
            ColltoolError: given more than once, or as :func:`colltool.load_fabric`.
        """
        from colltool.fabric.load import load_fabric

        return load_fabric(self.name, self.overrides)

    @property
    def several(self) -> list[str]:
        """All that were given, also as ``A,B``."""
        from colltool.fabric.load import exists

        return [part for name in self.names for part in ([name] if exists(name) else name.split(","))]

    @property
    def name(self) -> str:
        """The one that was given.

        Raises:
            ColltoolError: given more than once.
        """
        return values.one(list(self.names), "fabric")


class GroupChoice(NamedTuple):
    """``--ranks``, ``--stride``, ``--alone`` and ``--shape``: who is in the group."""

    ranks: int | None = None
    stride: int = 1
    alone: bool = False
    shape: tuple[int, ...] | None = None

    @property
    def given(self) -> bool:
        """Whether any of them was given."""
        return self != GroupChoice()

    @property
    def arguments(self) -> dict[str, Any]:
        """As the public functions take them."""
        return self._asdict()


EVERYBODY = GroupChoice()


class Out(NamedTuple):
    """``--plot``, ``--format``, ``--output``, ``--columns`` and ``--all``: how a result is written, where to, and what of it."""

    form: str | None = None
    path: Path | None = None
    columns: str | None = None
    everything: bool = False
    plot: Path | None = None
    plot_what: str = ""

    def emit(self, result: Any) -> None:
        """Draw a result where a picture is asked for, render it and write it."""
        from colltool.cli.output import emit

        self.draw(result)
        keep_apart(self.path, "output")
        emit(result, self.form, self.path, self.columns, everything=self.everything)

    def draw(self, result: Any) -> None:
        """Write the picture of a result where one is asked for."""
        if self.plot is not None:
            from colltool.render.plot import picture

            keep_apart(self.plot, "plot")
            write_bytes(self.plot, picture(result, self.plot.suffix, self.plot_what), "plot")


class Plots:
    """Beside ``Out`` in an annotation: results are drawn too, as one of several views where there are such."""

    def __init__(self, *views: str, help: str | None = None) -> None:
        self.views, self.help = views, help


class Also(NamedTuple):
    """Beside ``Out`` in an annotation: one more format, and the line of help for all."""

    form: str
    help: str


class Without(NamedTuple):
    """Beside ``Readings`` in an annotation: readings that a command does not offer."""

    names: tuple[str, ...]


def capabilities_of(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type of a parameter, and what stands beside it in ``Annotated``."""
    if get_origin(parameter.annotation) is Annotated:
        kind, *beside = get_args(parameter.annotation)
        return kind, tuple(beside)
    return parameter.annotation, ()


def expanded(parameter: inspect.Parameter) -> Parameters:
    """The options of a group in place of the parameter that asks for it; any other parameter as it is."""
    kind, beside = capabilities_of(parameter)
    if kind is FabricChoice:
        default = parameter.default
        yield _option("fabric", o.Fabrics, (default.names or None) if isinstance(default, FabricChoice) else default)
        yield _option("set_", o.Set, None)
    elif kind is GroupChoice:
        yield _option("ranks", o.Ranks, None)
        yield _option("stride", o.Stride, 1)
        yield _option("alone", o.Alone, False)
        yield _option("shape", o.Shape, None)
    elif kind is Out:
        yield from _outputs(beside)
    elif kind is Readings:
        left_out = next((one.names for one in beside if isinstance(one, Without)), ())
        yield from (_reading(name) for name in DECLARED if name not in left_out)
    else:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _outputs(beside: tuple[Any, ...]) -> Parameters:
    form = o.option("form")
    for one in beside:
        if isinstance(one, Plots):
            yield _option("plot", Annotated[Path | None, o.option("plot"), o.WRITTEN], None)
            if one.views:
                yield _option("plot_what", Annotated[str, o.option("plot_what", one.help, words=one.views)], one.views[0])
        if isinstance(one, Also):
            form = o.option("form", one.help, words=(*o.FORMATS, one.form))
    yield _option("form", Annotated[str | None, form], None)
    yield _option("output", o.Output, None)
    yield _option("columns", Annotated[str | None, o.option("columns")], None)
    yield _option("everything", Annotated[bool, o.option("everything")], False)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _reading(name: str) -> inspect.Parameter:
    """A reading of the model as an option: its words, its default, its line of help."""
    option, default, known = f"--{name.replace('_', '-')}", Readings._field_defaults[name], words(name)
    if KINDS[name] is bool:
        return _option(name, Annotated[bool, typer.Option(option, help=DECLARED[name].help)], default)
    metavar = "|".join((*known, "P") if int in get_args(KINDS[name]) else known) or "NUMBER"
    declared = typer.Option(option, metavar=metavar, help=DECLARED[name].help, autocompletion=complete_words(known))
    return _option(name, Annotated[str, declared], str(default))


def taken(parameter: inspect.Parameter, parts: list[inspect.Parameter], given: dict[str, Any]) -> Any:
    """What the command gets for one of its parameters."""
    kind, _ = capabilities_of(parameter)
    own = {part.name: given[part.name] for part in parts}
    if kind is FabricChoice:
        return FabricChoice(tuple(own["fabric"] or ()), tuple(own["set_"] or ()))
    if kind is GroupChoice:
        return GroupChoice(**own)
    if kind is Out:
        check_plot(own.get("plot"))
        return Out(path=to_file(own.pop("output")), **own)
    return values.readings(own) if kind is Readings else own[parameter.name]


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn before the work starts.

    Raises:
        ColltoolError: no matplotlib, an unknown suffix, a folder that cannot be written.
    """
    if path is not None:
        from colltool.render import plot

        plot.check_plot(path)


def to_file(path: Path | None) -> Path | None:
    """The file to write; None is stdout, and so is ``-``.

    Raises:
        ColltoolError: an empty name.
    """
    if path is None or str(path) == "-":
        return None
    if not path.name:  # Path("") is the current folder
        raise ColltoolError("is not the name of a file", argument="output", fix="write -o FILE, or -o - for the terminal")
    return path
