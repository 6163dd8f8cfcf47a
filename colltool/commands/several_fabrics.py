"""Several fabrics, to be loaded with other values: columns of a comparison, fabrics of a sweep.

:func:`several_of` makes a list of what a caller gives, :func:`sweep_fabrics` names each,
:func:`fitted_fabrics` grows those that do not hold the ranks, and :func:`columns_of` also takes every
combination of varied values. None is kept loaded: each carries a FabricLoader, a function that takes
further overrides (``["ib.alpha=2us"]``, or none) and returns the fabric with them. Here such functions
are partials, one around the other, so that overrides come in this order: those of all fabrics, the
change that makes a fabric fit, the values of its column, and what is asked later; of two values for one
key the later wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, rename_for_both
from colltool.base.formatting import disambiguate
from colltool.commands.reading import AnyFabric, is_nothing, machine_if, vary_of, wrong
from colltool.commands.requests import fabric_of, typed_of, under_library
from colltool.definitions.overrides import Overrides, texts_of
from colltool.estimate.placement import GroupSpec
from colltool.fabric.custom_machine import CustomMachine
from colltool.fabric.expression import parse_expression
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.analysis.axes import SweepAxis
    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import FabricLoader
    from colltool.analysis.sweep import SweepFabric


def several_of(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[AnyFabric]:
    """One fabric or several, as a list of at least one, as they are."""
    if isinstance(fabrics, Fabric | str | os.PathLike | Mapping):
        return [fabrics]
    if not isinstance(fabrics, Sequence) or not fabrics:
        raise wrong(
            fabrics,
            "fabrics",
            "a fabric or several",
            f"write {argument_text('fabrics', ['dgx-h100', 'nvl72'])}",
        )
    return list(fabrics)


def columns_of(
    fabrics: Sequence[AnyFabric],
    vary: Sequence[str] | str,
    overrides: Overrides,
    library: str | None,
    machine: CustomMachine | None = None,
    groups: Sequence[GroupSpec] = (),
) -> list[CompareColumn]:
    """Every fabric under every combination of values, named by what distinguishes it; fabrics that
    do not hold the ``groups`` are grown.

    The columns of a fabric follow each other, in the order of the combinations; without ``vary`` it
    has one.

    Raises:
        ColltoolError: an axis that is an option of the model, or names nothing.
    """
    from colltool.analysis.compare import CompareColumn

    axes = _axes_of_fabrics(vary)
    columns = []
    varied = [axis.key for axis in axes]
    # mistakes in overrides are reported at overrides, not at vary
    grown = fitted_fabrics(fabrics, overrides, library, machine, groups, varied)
    for fabric, short in zip(grown, _short_names(fabrics), strict=True):
        for values in product(*(axis.values for axis in axes)):
            settings = [(axis.key, str(value)) for axis, value in zip(axes, values, strict=True)]
            # columns of a single fabric are named by their values alone
            title = []
            if len(fabrics) > 1 or not settings:
                title.append(short.column or fabric.name)
            title += [f"{key}={value}" for key, value in _short_keys(settings)]
            varied_pairs = [f"{key}={value}" for key, value in settings]
            columns.append(
                CompareColumn(
                    name=" ".join(title),
                    fabric=short.file or fabric.name,
                    set=tuple(settings),
                    load=partial(_load_varied, fabric.load, varied_pairs),
                    fitted=fabric.fitted,
                )
            )
    return columns


def _axes_of_fabrics(vary: Sequence[str] | str) -> tuple[SweepAxis, ...]:
    """The varied keys with their values; ColltoolError for a key that is an option of the model."""
    from colltool.analysis.axes import axes_of

    axes = axes_of(vary_of(vary))
    for axis in axes:
        if axis.is_option:
            raise ColltoolError(
                f"{axis.key} is an option of the model, not a value of a fabric",
                argument="vary",
                fix="use colltool sweep to vary it",
            )
    return axes


class _ShortNames(NamedTuple):
    """What a fabric that is compared with itself goes by: of ``nvl72:racks=4`` its settings as the
    name of the column, and ``nvl72`` as its file. Empty for any other fabric."""

    column: str = ""
    file: str = ""


def _short_names(fabrics: Sequence[AnyFabric]) -> list[_ShortNames]:
    """The short names of each fabric, in their order: those of a file that is named several times,
    with other values each, and empty ones for all others."""
    # None for a loaded fabric, a path or a mapping
    expressions = [
        parse_expression(fabric) if isinstance(fabric, str) else None for fabric in fabrics
    ]
    # None again where there is no expression
    files = [expression and expression.name for expression in expressions]
    names = []
    for fabric, expression in zip(fabrics, expressions, strict=True):
        if expression is None or files.count(expression.name) < 2:
            names.append(_ShortNames())
            continue
        settings = str(fabric).removeprefix(expression.name).removeprefix(":")
        stem = os.path.basename(expression.name).removesuffix(".yaml")
        names.append(_ShortNames(settings or stem, stem))
    return names


def _short_keys(settings: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keys with their values; a key that is the only one is shortened to its last word."""
    if len(settings) != 1:
        return settings
    [(key, value)] = settings
    return [(key.rsplit(".", 1)[-1], value)]


def sweep_fabrics(
    fabrics: Sequence[AnyFabric],
    overrides: Overrides,
    library: str | None,
    machine: CustomMachine | None = None,
) -> list[SweepFabric]:
    """Several fabrics with their names; equal names get their path or overrides added.

    Each path is loaded here once, for its name. A fabric that the caller has loaded stays as it is:
    with overrides its loader refuses it.
    """
    from colltool.analysis.sweep import SweepFabric

    custom_machine = machine_if(machine)
    names = []
    loaders = []
    for fabric in fabrics:
        if isinstance(fabric, Fabric) and is_nothing(overrides):
            names.append(fabric.name)
            # nothing to load
            pairs = None
        else:
            pairs = _pairs_of(overrides)
            names.append(fabric_of(fabric).name)
        loaders.append(partial(_load_with, fabric, pairs, library, custom_machine))
    distinct = disambiguate(names, [typed_of(fabric) for fabric in fabrics])
    return [SweepFabric(name, load) for name, load in zip(distinct, loaders, strict=True)]


def fitted_fabrics(
    fabrics: Sequence[AnyFabric],
    overrides: Overrides,
    library: str | None,
    machine: CustomMachine | None,
    groups: Sequence[GroupSpec],
    varied: Sequence[str] = (),
) -> list[SweepFabric]:
    """The fabrics of :func:`sweep_fabrics`; those that do not hold the groups are grown, or take
    part of each rack.

    Args:
        varied: keys whose values are axes, which are left alone.
    """
    from colltool.analysis.fitted import fitted

    fabrics_that_fit = []
    as_named = sweep_fabrics(fabrics, overrides, library, machine)
    for fabric, swept in zip(fabrics, as_named, strict=True):
        change = fitted(swept.load(()), groups, varied)
        # one that the caller has loaded stays as it is
        if change.overrides and not isinstance(fabric, Fabric):
            load_grown = partial(_load_fitted, swept.load, change.overrides)
            # one that cannot be loaded is larger than a fabric may be: it stays as it is, and its
            # cells say that the ranks do not fit
            with suppress(ColltoolError):
                load_grown(())
                swept = swept._replace(load=load_grown, fitted=change)
        fabrics_that_fit.append(swept)
    return fabrics_that_fit


def _load_fitted(load: FabricLoader, change: Sequence[str], more: Sequence[str]) -> Fabric:
    """A fabric with the overrides that make it fit, and ``more``."""
    return load([*change, *more])


def _pairs_of(overrides: Overrides) -> list[str]:
    """Overrides as ``KEY=VALUE``."""
    if isinstance(overrides, Mapping):
        return [f"{key}={value}" for key, value in overrides.items()]
    return texts_of(overrides)


def _load_with(
    fabric: Any,
    pairs: Sequence[str] | None,
    library: str | None,
    machine: CustomMachine | None,
    more: Sequence[str],
) -> Fabric:
    """A fabric with overrides, ``pairs`` and ``more``, under a library and a machine.

    Args:
        pairs: ``KEY=VALUE``; None for a fabric that the caller has loaded.

    Raises:
        ColltoolError: ``more`` vary the library, which the requested one would replace; a loaded
            fabric is to have ``more``; or what cannot be loaded.
    """
    if library is not None:
        keys = {text.partition("=")[0].strip() for text in more}
        if keys & {"library", "library.name"}:
            named = argument_text("library", library)
            raise ColltoolError(
                f"the library is varied, and {named} would take the place of every value",
                argument="vary",
                fix=f"leave {argument_text('library')} out",
            )
    if pairs is None and not more:
        return fabric_of(fabric, library, machine)
    return under_library(load_fabric(fabric, [*(pairs or ()), *more], machine), library)


def _load_varied(load: FabricLoader, varied_pairs: Sequence[str], more: Sequence[str]) -> Fabric:
    """A fabric with the values of its column and ``more``; mistakes in them are reported at
    ``vary``."""
    with rename_for_both(overrides="vary"):
        return load([*varied_pairs, *more])
