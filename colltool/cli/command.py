"""Groups of options that commands share, and the one decorator that puts them into a command's signature.

A command asks for one by a parameter of its type: ``fabric: FabricChoice``, ``group: GroupChoice``, ``readings: Readings``. The
decorator tells typer of the group's options, where the parameter stands, and hands the command one value in their place. It also
keeps what is written off what is read, and says how errors are to call the command's arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import typer

from colltool.base.errors import ColltoolError, ManyErrors, called, speaking
from colltool.base.progress import watched
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.completion import words as complete_words
from colltool.cli.output import Counting
from colltool.cli.written import keep_apart, kept, read_here, written_twice
from colltool.estimate.assumptions import DECLARED, KINDS, Readings, words

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

FABRIC_SUFFIXES = (".yaml", ".yml")

Parameters = Iterator[inspect.Parameter]
Checked = TypeVar("Checked")


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
    """``--format``, ``--output``, ``--columns`` and ``--all``: how a result is written, where to, and what of it."""

    form: o.OutputFormat | None
    path: Path | None
    columns: str | None = None
    everything: bool = False

    def emit(self, result: Any) -> None:
        """Render a result and write it."""
        from colltool.cli.output import emit

        keep_apart(self.path, "output")
        emit(result, self.form, self.path, self.columns, everything=self.everything)


class Without(NamedTuple):
    """Beside ``Readings`` in an annotation: readings that a command does not offer."""

    names: tuple[str, ...]


def command(**names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command from a function that asks for groups of options.

    Args:
        **names: what errors call an argument here, where it is not the option that :mod:`colltool.base.errors` knows.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        asked = inspect.signature(function, eval_str=True).parameters
        parts = {name: list(_expanded(parameter)) for name, parameter in asked.items()}
        signature = inspect.Signature([part for several in parts.values() for part in several])

        @wraps(function)
        def run(**given: Any) -> None:
            with called("shell", **names), speaking("shell"), kept() as outputs:
                _keep_apart(signature, given)
                taken = {name: _taken(asked[name], parts[name], given) for name in asked}
                try:
                    with Counting(function.__name__.strip("_")) as watch, watched(watch):
                        function(**taken)
                except typer.Exit:  # a check that did not hold: what it found is written all the same
                    outputs.leave()
                    raise
                outputs.leave()
                _say_bytes(given.get("size"))

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {part.name: part.annotation for part in signature.parameters.values()}
        return run

    return decorate


def _kind(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type of a parameter, and what stands beside it in ``Annotated``."""
    if get_origin(parameter.annotation) is Annotated:
        kind, *beside = get_args(parameter.annotation)
        return kind, tuple(beside)
    return parameter.annotation, ()


def _expanded(parameter: inspect.Parameter) -> Parameters:
    """The options of a group in place of the parameter that asks for it; any other parameter as it is."""
    kind, beside = _kind(parameter)
    if kind is FabricChoice:
        default = parameter.default
        yield _option("fabric", o.FabricOption, (default.names or None) if isinstance(default, FabricChoice) else default)
        yield _option("set_", o.SetOption, None)
    elif kind is GroupChoice:
        yield _option("ranks", o.RanksOption, None)
        yield _option("stride", o.StrideOption, 1)
        yield _option("alone", o.AloneOption, False)
        yield _option("shape", o.ShapeOption, None)
    elif kind is Out:
        yield _option("form", o.FormatOption, None)
        yield _option("output", o.OutputOption, None)
        yield _option("columns", o.ColumnsOption, None)
        yield _option("everything", o.AllOption, False)
    elif kind is Readings:
        left_out = next((one.names for one in beside if isinstance(one, Without)), ())
        yield from (_reading(name) for name in DECLARED if name not in left_out)
    else:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


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


def _taken(parameter: inspect.Parameter, parts: list[inspect.Parameter], given: dict[str, Any]) -> Any:
    """What the command gets for one of its parameters."""
    kind, _ = _kind(parameter)
    own = {part.name: given[part.name] for part in parts}
    if kind is FabricChoice:
        return FabricChoice(tuple(own["fabric"] or ()), tuple(own["set_"] or ()))
    if kind is GroupChoice:
        return GroupChoice(**own)
    if kind is Out:
        return Out(own["form"], to_file(own["output"]), own["columns"], own["everything"])
    return values.readings(own) if kind is Readings else own[parameter.name]


def to_file(path: Path | None) -> Path | None:
    """The file to write; None is stdout, and so is ``-``.

    Raises:
        ColltoolError: an empty name.
    """
    if path is None or str(path) == "-":
        return None
    if not path.name:  # Path("") is the current folder
        raise ColltoolError("is no name of a file", argument="output", fix="write -o FILE, or -o - for the terminal")
    return path


def _keep_apart(signature: inspect.Signature, given: dict[str, Any]) -> None:
    """Refuse before the work starts to write over a file that is read, or two results into one.

    :meth:`Outputs.leave` knows of all that was read, also by the names within a list or another file.
    """
    from colltool.base.writing import same_file, same_place

    marked = {name: _kind(parameter)[1] for name, parameter in signature.parameters.items()}
    read = [path for name, marks in marked.items() if o.READ in marks for path in _paths(given[name])]
    written = [(name, path) for name, marks in marked.items() if o.WRITTEN in marks for path in _paths(given[name])]
    for index, (name, path) in enumerate(written):
        if any(same_file(path, one) for one in read):
            raise read_here(path, name)
        if any(same_place(path, other) for _, other in written[:index]):
            raise written_twice(path, name)


def _say_bytes(size: Any) -> None:
    """Say of small sizes without a unit that they are bytes, as in nccl-tests: somebody may have meant megabytes."""
    bare = values.bare_sizes(size) if isinstance(size, str) else []
    if bare:
        from colltool.cli.streams import say

        several = len(bare) > 1
        say(f"note: -M {','.join(bare)} {'are' if several else 'is'} bytes, as in nccl-tests; write {bare[0]}MB for megabytes")


def _paths(value: Any) -> list[Path]:
    several = value if isinstance(value, list | tuple) else [value]
    return [Path(one) for one in several if one is not None and str(one) != "-"]


def each_checked(files: Iterable[str], check: Callable[[str], Checked], result: Callable[[tuple[Checked, ...]], Any]) -> Any:
    """What a check makes of each file, as a result; where one does not hold, what was found of the others goes to stderr.

    Raises:
        ManyErrors: the mistakes of all files at once.
    """
    checks: list[Checked] = []
    problems: list[ColltoolError] = []
    for file in files:
        try:
            checks.append(check(file))
        except ManyErrors as error:
            problems += error.problems
        except ColltoolError as error:
            problems.append(error)
    if problems:
        _say_of_the_others(result(tuple(checks)) if checks else None)
        raise ManyErrors(problems)
    return result(tuple(checks))


def _say_of_the_others(result: Any) -> None:
    """On an error stdout stays empty, and nobody should have to ask again for the files that hold."""
    if result is not None:
        from colltool.cli.streams import say
        from colltool.render.dispatch import rendered

        say(*rendered(result, "table").splitlines())
