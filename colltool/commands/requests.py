"""Reads the arguments that most public functions share: fabrics under a library and a machine, the
group on them, and model options.

:func:`price_request` is for functions on one fabric, :func:`model_request` and
:func:`sweep_fabrics` or :func:`columns_of` for those on several.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import colltool.algorithms  # noqa: F401 - fills the registry
from colltool.base.errors import ColltoolError, argument_text, clipped, nearest, rename_for_both
from colltool.base.formatting import disambiguate
from colltool.base.primitives import Primitive
from colltool.commands.reading import (
    AnyFabric,
    group_of,
    is_nothing,
    machine_if,
    names_of,
    primitive_of,
    text_of,
    vary_of,
    wrong,
)
from colltool.definitions.overrides import Overrides, texts_of
from colltool.estimate.assumptions import ModelOptions, checked
from colltool.estimate.machine_factor import as_read
from colltool.estimate.placement import GroupSpec
from colltool.fabric.custom_machine import CustomMachine, on_machine
from colltool.fabric.expression import parse_expression
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.analysis.cells import PriceRequest
    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import FabricLoader
    from colltool.analysis.sweep import SweepFabric


class ModelRequest(NamedTuple):
    """The checked :class:`colltool.commands.public_options.Options`, and the group."""

    group: GroupSpec
    library: str | None
    readings: ModelOptions
    machine: CustomMachine | None = None

    def is_other(self, fabric: Fabric) -> bool:
        """Whether a library was requested that is not the fabric's own."""
        return self.library is not None and self.library.lower() != fabric.library_name


def model_request(ranks: int | None, options: Mapping[str, object]) -> ModelRequest:
    """Check the options of a public function; what is none of ``Options`` is a model option."""
    model_options: dict[str, Any] = dict(options)
    stride = model_options.pop("stride", 1)
    alone = model_options.pop("alone", False)
    group = group_of(ranks, stride, alone, model_options.pop("shape", None))
    library = model_options.pop("library", None)
    machine = model_options.pop("machine", None)
    # what is left are single options of the model
    readings = checked(model_options.pop("readings", None), **model_options)
    return ModelRequest(group, library, readings, machine)


class Request(NamedTuple):
    """The arguments of a price without its size.

    Args:
        other_library: whether a library was requested that is not the fabric's own.
    """

    fabric: Fabric
    primitive: Primitive
    group: GroupSpec
    readings: ModelOptions
    other_library: bool


def price_request(
    fabric: AnyFabric, primitive: Primitive | str, ranks: int | None, options: Mapping[str, object]
) -> Request:
    """Check the arguments that most public functions on one fabric share."""
    model = model_request(ranks, options)
    # is_other compares with the library of the file, so load without the requested one
    as_loaded = fabric_of(fabric, machine=model.machine)
    return Request(
        as_read(under_library(as_loaded, model.library), model.readings),
        primitive_of(primitive),
        model.group,
        model.readings,
        model.is_other(as_loaded),
    )


def grid_request(
    primitive: Primitive | str, algorithms: Sequence[str] | str, model: ModelRequest
) -> PriceRequest:
    """The request that every cell of a grid shares."""
    from colltool.analysis.cells import PriceRequest

    return PriceRequest(primitive_of(primitive), model.readings, tuple(names_of(algorithms)))


def fabric_of(
    fabric: AnyFabric, library: str | None = None, machine: CustomMachine | None = None
) -> Fabric:
    """A fabric as it is, or loaded by path or shipped name, under a library and a machine.

    Raises:
        ColltoolError: no fabric, or one that does not load; an unknown library or machine.
    """
    custom_machine = machine_if(machine)
    if not isinstance(fabric, Fabric | str | os.PathLike | Mapping):
        raise wrong(
            fabric,
            "fabric",
            "a fabric",
            'give a path, the name of a shipped fabric ("nvl72"), or what load_fabric returns',
        )
    if not isinstance(fabric, Fabric):
        loaded = load_fabric(fabric, machine=custom_machine)
    elif custom_machine is not None:
        loaded = on_machine(fabric, custom_machine)
    else:
        loaded = fabric
    return under_library(loaded, library)


def fabric_with(
    fabric: AnyFabric, overrides: Overrides, machine: CustomMachine | None = None
) -> Fabric:
    """A fabric with overridden values."""
    if is_nothing(overrides):
        return fabric_of(fabric, machine=machine)
    return load_fabric(fabric, overrides, machine_if(machine))  # type: ignore[arg-type]


def under_library(fabric: Fabric, library: str | None) -> Fabric:
    """A fabric with the requested library in place of its own; unchanged for None."""
    if library is None:
        _check_version(fabric)
        return fabric
    from colltool.algorithms.libraries import LibraryName
    from colltool.fabric.library_numbers import under_library as with_library_of

    known: tuple[LibraryName, ...] = get_args(LibraryName)
    name, at_sign, version = text_of(library, "library", "nccl").lower().partition("@")
    if name not in known:
        raise _unknown_library(name, known)
    if at_sign and name != "nccl":
        raise ColltoolError(
            f"{name} has no versions here",
            argument="library",
            fix=f"write {argument_text('library', name)}",
        )
    return with_library_of(fabric, name, version)


def _unknown_library(name: str, known: Sequence[str]) -> ColltoolError:
    """The error for a library that is none of algorithms."""
    from colltool.engines.lookup import is_library

    listed = ", ".join(known)
    if is_library(name):
        what = f"{clipped(name)} is a library of kernels, not of algorithms"
        fix = f"engines' kernels are for price, compare, crossover and serve; here: {listed}"
    else:
        what = f"no library '{clipped(name)}' is known"
        hint = nearest(name, list(known))
        fix = f"{hint} known: {listed}, and those of colltool library list"
    return ColltoolError(what, argument="library", fix=fix)


def _check_version(fabric: Fabric) -> None:
    """Raise ColltoolError for an overridden version of NCCL that there is no data of.

    An unknown version in the file itself is allowed, it may be newer than colltool: then the pick
    of NCCL is unknown.
    """
    is_overridden = any(key.partition(".")[0] == "library" for key, _ in fabric.overrides)
    if not is_overridden or fabric.library_name != "nccl":
        return
    facts = fabric.library_facts
    if facts is not None and facts.version:
        from colltool.libraries.nccl.hardware import constants

        # refuses an unknown version
        constants(facts.version)


def several_of(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[AnyFabric]:
    """One fabric or several, as a list, not yet loaded."""
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

    The columns of a fabric follow each other, in the order of the combinations.

    Raises:
        ColltoolError: an axis that is an option of the model, or names nothing.
    """
    from colltool.analysis.axes import axes_of
    from colltool.analysis.compare import CompareColumn

    axes = axes_of(vary_of(vary))
    for axis in axes:
        if axis.is_option:
            raise ColltoolError(
                f"{axis.key} is an option of the model, not a value of a fabric",
                argument="vary",
                fix="use colltool sweep to vary it",
            )
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
                    " ".join(title),
                    short.file or fabric.name,
                    tuple(settings),
                    partial(_load_varied, fabric.load, varied_pairs),
                    fabric.fitted,
                )
            )
    return columns


class _ShortNames(NamedTuple):
    """What a fabric that is compared with itself goes by: of ``nvl72:racks=4`` its settings as the
    name of the column, and ``nvl72`` as its file. Empty for any other fabric."""

    column: str = ""
    file: str = ""


def _short_names(fabrics: Sequence[AnyFabric]) -> list[_ShortNames]:
    """The names of each fabric that is there several times with other values."""
    # None for a loaded fabric, a path or a mapping
    expressions = [
        parse_expression(fabric) if isinstance(fabric, str) else None for fabric in fabrics
    ]
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
    """Keys with their values; a single key is shortened to its last word."""
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
    """Several fabrics with their names; equal names get their path or overrides added."""
    from colltool.analysis.sweep import SweepFabric

    custom_machine = machine_if(machine)
    names = []
    loaders = []
    for fabric in fabrics:
        if isinstance(fabric, Fabric) and is_nothing(overrides):
            names.append(fabric.name)
            # it is loaded already
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
    as_given = sweep_fabrics(fabrics, overrides, library, machine)
    for source, swept in zip(fabrics, as_given, strict=True):
        change = fitted(swept.load(()), groups, varied)
        # one that is loaded already stays as it was loaded
        if change.overrides and not isinstance(source, Fabric):
            load = partial(_load_fitted, swept.load, change.overrides)
            # larger than a fabric may be: the ranks do not fit, which its cells say
            with suppress(ColltoolError):
                load(())
                swept = swept._replace(load=load, fitted=change)
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


def typed_of(fabric: AnyFabric) -> str:
    """A path or name as the user wrote it, or the overrides of a loaded fabric; else empty."""
    if isinstance(fabric, Fabric):
        return ", ".join(f"{key}={value}" for key, value in fabric.overrides)
    return os.fspath(fabric) if isinstance(fabric, str | os.PathLike) else ""


def _load_with(
    fabric: Any,
    overrides: Sequence[str] | None,
    library: str | None,
    machine: CustomMachine | None,
    more: Sequence[str],
) -> Fabric:
    """A fabric with ``overrides`` and ``more`` overridden values.

    ``overrides`` of None is a loaded fabric, which is loaded again only if there are ``more``.
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
    if overrides is None and not more:
        return fabric_of(fabric, library, machine)
    return under_library(load_fabric(fabric, [*(overrides or ()), *more], machine), library)


def _load_varied(load: FabricLoader, varied_pairs: Sequence[str], more: Sequence[str]) -> Fabric:
    """A fabric with the values of its column and ``more``; mistakes in them are reported at
    ``vary``."""
    with rename_for_both(overrides="vary"):
        return load([*varied_pairs, *more])
