"""What a report was asked for, checked: a :class:`Page`, its fabrics (:class:`PageColumn`), and the
deployment of a served model (:func:`deployment_of`).

A page also writes the command lines that make its results again: an empty tuple where a fabric or a
file was given as an object, which no command takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import (
    ColltoolError,
    argument_text,
    clipped,
    nearest_and_all,
    rename_for_both,
)
from colltool.base.formatting import Shape
from colltool.base.primitives import Primitive
from colltool.commands.arguments import ARGUMENTS
from colltool.commands.shell import command_line

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric
    from colltool.definitions.overrides import Overrides
    from colltool.estimate.assumptions import ModelOptions
    from colltool.fabric.custom_machine import CustomMachine
    from colltool.fabric.model import Fabric

# fabrics of a page: more could not be told apart in a picture, and the page would exceed 2 MB
MAX_COLUMNS = 6


class PageColumn(NamedTuple):
    """A fabric of the page.

    Args:
        title: distinguishes it from the others.
        typed: the file or name as the user wrote it; empty for a fabric object or mapping.
        file: the fabric as its file says.
        fabric: the fabric under the requested library.
    """

    title: str
    typed: str
    file: Fabric
    fabric: Fabric

    @property
    def sets(self) -> list[str]:
        """Its overrides as ``KEY=VALUE``."""
        return [f"{key}={value}" for key, value in self.file.overrides]

    def line(self, command: str, **options: Any) -> tuple[str, ...]:
        """The command line about its file, a positional argument, as a tuple of one; empty if it was
        given as an object."""
        if not self.typed:
            return ()
        return (command_line(command, self.typed, sets=self.sets, options=options),)


class Page(NamedTuple):
    """The arguments of a report, checked.

    Args:
        columns: its fabrics, first the one that the page is about.
        fabrics, vary, overrides: the columns' sources, as arguments of :func:`colltool.compare`.
        primitives: a section each.
        ranks: ranks of the job and of the detailed results; None if not given.
        size: bytes per rank of the detailed results.
        library, machine, readings, shape: as arguments of :func:`colltool.price`.
    """

    columns: Sequence[PageColumn]
    fabrics: Sequence[AnyFabric]
    vary: Sequence[str]
    overrides: Overrides
    primitives: Sequence[Primitive]
    ranks: int | None
    size: float
    library: str | None
    readings: ModelOptions
    shape: Shape | None = None
    machine: CustomMachine | None = None

    @property
    def first(self) -> PageColumn:
        """The fabric that the page is about."""
        return self.columns[0]

    @property
    def reference_ranks(self) -> int:
        """Ranks of the detailed results: the given number, else the largest that fills whole
        domains of every fabric."""
        from colltool.estimate.groups import place
        from colltool.estimate.placement import GroupSpec

        if self.ranks is not None:
            return self.ranks
        if self.shape is not None:
            return place(self.first.fabric, GroupSpec(shape=self.shape)).ranks
        if len(self.columns) == 1:
            return self.first.fabric.ranks
        common = common_counts([column.fabric for column in self.columns])
        if not common:
            raise ColltoolError(
                "no number of ranks fills whole domains of every fabric",
                argument="against",
                fix=f"say how many: {argument_text('ranks', 64)}",
            )
        return max(common)

    def line(self, command: str, *arguments: str, **options: Any) -> tuple[str, ...]:
        """A command line on the fabric that the page is about, as a tuple of one."""
        return self._line_on(self.first, command, arguments, options)

    def line_on_each(self, command: str, argument: str, **options: Any) -> tuple[str, ...]:
        """The same on each fabric, a line each."""
        lines: tuple[str, ...] = ()
        for column in self.columns:
            lines += self._line_on(column, command, (argument,), options)
        return lines

    def _line_on(
        self, column: PageColumn, command: str, arguments: Sequence[str], options: dict[str, Any]
    ) -> tuple[str, ...]:
        """A command line on one fabric, as a tuple of one; empty if the fabric or an argument has no
        text, as it was given as an object."""
        if not column.typed or not all(arguments):
            return ()
        return (self._line(command, arguments, [column.typed], column.sets, options),)

    def side_by_side(self, command: str, argument: str, **options: Any) -> tuple[str, ...]:
        """A command line on all fabrics at once: with ``--set`` what they share, with ``--vary``
        what distinguishes them."""
        from colltool.analysis.axes import axes_of

        sources = list(dict.fromkeys(column.typed for column in self.columns))
        if not argument or not all(sources):
            return ()
        varied = {axis.key for axis in axes_of(self.vary)}
        overrides = self.first.file.overrides
        sets = [f"{key}={value}" for key, value in overrides if key not in varied]
        options["vary"] = list(self.vary)
        return (self._line(command, [argument], sources, sets, options),)

    def _line(
        self,
        command: str,
        arguments: Iterable[str],
        fabrics: list[str],
        sets: list[str],
        options: dict[str, Any],
    ) -> str:
        """The command line that makes a result of the page again."""
        # every command of the page has the library and the machine
        model = {"library": self.library, "machine": typed_path(self.machine) or None}
        return command_line(
            command,
            *arguments,
            fabrics=fabrics,
            sets=sets,
            readings=self.readings,
            options={**options, **model},
        )


def page_columns(
    fabrics: list[AnyFabric],
    vary: Sequence[str] | str,
    overrides: Overrides,
    library: str | None,
    machine: CustomMachine | None,
) -> list[PageColumn]:
    """The fabrics, each under every combination of values, in the order of
    :func:`colltool.commands.several_fabrics.columns_of`.

    Raises:
        ColltoolError: more than :data:`MAX_COLUMNS`, or the same fabric twice.
    """
    from colltool.commands.reading import vary_of
    from colltool.commands.several_fabrics import columns_of

    under_library = columns_of(fabrics, vary, overrides, library, machine)
    as_filed = columns_of(fabrics, vary, overrides, library=None, machine=machine)
    if len(under_library) > MAX_COLUMNS:
        raise ColltoolError(
            f"a page compares at most {MAX_COLUMNS} fabrics or values, got {len(under_library)}",
            argument="vary" if vary_of(vary) else "against",
            fix="colltool compare takes more",
        )
    # the columns of a fabric follow each other, as many of each as there are combinations of values
    values_each = len(under_library) // len(fabrics)
    known = []
    columns = []
    for number, column in enumerate(under_library):
        file = as_filed[number].load(())
        # the same file with other values is another column
        if (file, column.set) in known:
            raise ColltoolError(
                f"{file.name} stands twice", argument="against", fix="another fabric"
            )
        known.append((file, column.set))
        typed = typed_path(fabrics[number // values_each])
        columns.append(PageColumn(column.name, typed, file, column.load(())))
    return columns


def typed_path(source: Any) -> str:
    """The path or name as the user wrote it; empty for a loaded object or a mapping."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else ""


def common_counts(fabrics: Sequence[Fabric]) -> set[int]:
    """Rank counts that fill whole domains of every fabric."""
    from colltool.estimate.placement import whole_groups

    return set.intersection(*(set(whole_groups(fabric)) for fabric in fabrics))


# arguments of serve that a page takes, in the order in which an error lists them: no files, and
# nothing that gives several deployments
_DEPLOYMENT = (
    "tp",
    "ep",
    "pp",
    "dp",
    "batch",
    "isl",
    "osl",
    "chunk",
    "prefill_tp",
    "ranks",
    "sms",
    "engine",
    "experts_library",
    "weights",
    "kv_dtype",
    "tpot",
    "kv_library",
    "mode",
    "two_batch_overlap",
)


def deployment_of(serve: Any, options: Any) -> dict[str, Any]:
    """Return the arguments of :func:`colltool.serve` for a page's served model; none without options.

    Args:
        serve: the served model or job; None if the page has none.
        options: a mapping, or ``KEY=VALUE`` texts.

    Raises:
        ColltoolError: options without a model, or that are none of a deployment.
    """
    from colltool.commands.reading import is_nothing
    from colltool.definitions.overrides import texts_of

    if is_nothing(options):
        return {}
    if serve is None:
        raise ColltoolError(
            "requires a served model",
            argument="serve_options",
            fix=f"add {argument_text('serve', 'deepseek-v3')}",
        )
    pairs: list[tuple[str, Any]] = []
    if isinstance(options, Mapping):
        pairs += options.items()
    else:
        with rename_for_both(overrides="serve_options"):
            for text in texts_of(options):
                key, _, value = text.partition("=")
                pairs.append((key.strip(), value))
    deployment: dict[str, Any] = {}
    for key, value in pairs:
        name = key.replace("-", "_")
        if name not in _DEPLOYMENT:
            raise ColltoolError(
                f"serve has no option '{clipped(key)}' for a page",
                argument="serve_options",
                fix=nearest_and_all(name, _DEPLOYMENT),
            )
        deployment[name] = _deployment_value(name, value)
    return deployment


def _deployment_value(name: str, value: Any) -> Any:
    """An argument of serve from its text, read as its option is: a number, true or false, or text."""
    text = str(value).strip()
    kind = ARGUMENTS[name].kind
    if kind == "count":
        if not text.isdigit():
            raise ColltoolError(
                f"{name} is a number, got '{clipped(text)}'",
                argument="serve_options",
                fix=f"write {name}=8",
            )
        return int(text)
    if kind == "flag":
        if text.lower() not in ("true", "false"):
            raise ColltoolError(
                f"{name} is true or false, got '{clipped(text)}'",
                argument="serve_options",
                fix=f"write {name}=true",
            )
        return text.lower() == "true"
    return text
