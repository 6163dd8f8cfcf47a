"""Reads the arguments that most public functions share: a fabric under a library and a machine, the
group on it, and model options.

:func:`price_request` is for functions on one fabric; those on several take :func:`model_request` and
:mod:`colltool.commands.several_fabrics`. A path, a shipped name, a mapping and a loaded fabric are all
fabrics here (AnyFabric); :func:`fabric_of` loads what is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import colltool.algorithms  # noqa: F401 - fills the registry
from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.primitives import Primitive
from colltool.commands.reading import (
    AnyFabric,
    group_of,
    is_nothing,
    machine_if,
    names_of,
    primitive_of,
    text_of,
    wrong,
)
from colltool.definitions.overrides import Overrides
from colltool.estimate.assumptions import ModelOptions, checked
from colltool.estimate.machine_factor import as_read
from colltool.estimate.placement import GroupSpec
from colltool.fabric.custom_machine import CustomMachine, on_machine
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.analysis.cells import PriceRequest


class ModelRequest(NamedTuple):
    """The checked :class:`colltool.commands.public_options.Options`, and the group."""

    group: GroupSpec
    library: str | None
    readings: ModelOptions
    machine: CustomMachine | None = None

    def is_other(self, fabric: Fabric) -> bool:
        """Whether a library was requested that is not the fabric's own; ``nccl@2.27``, a version,
        counts as another also where the fabric has NCCL."""
        return self.library is not None and self.library.lower() != fabric.library_name


def model_request(ranks: int | None, options: Mapping[str, object]) -> ModelRequest:
    """Check the options of a public function: the group's, library and machine, ``readings`` (model
    options together), and all others as single model options.

    Raises:
        ColltoolError: an option that there is not, or a value that it cannot have.
    """
    model_options: dict[str, Any] = dict(options)
    stride = model_options.pop("stride", 1)
    alone = model_options.pop("alone", False)
    group = group_of(ranks, stride, alone, model_options.pop("shape", None))
    library = model_options.pop("library", None)
    machine = model_options.pop("machine", None)
    # what is left once readings are out are single options of the model
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
        # as_read leaves out measured rows of a machine where the options ask for none
        fabric=as_read(under_library(as_loaded, model.library), model.readings),
        primitive=primitive_of(primitive),
        group=model.group,
        readings=model.readings,
        other_library=model.is_other(as_loaded),
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
    if isinstance(fabric, Fabric):
        loaded = fabric
        if custom_machine is not None:
            loaded = on_machine(fabric, custom_machine)
    elif isinstance(fabric, str | os.PathLike | Mapping):
        loaded = load_fabric(fabric, machine=custom_machine)
    else:
        raise wrong(
            fabric,
            "fabric",
            "a fabric",
            'give a path, the name of a shipped fabric ("nvl72"), or what load_fabric returns',
        )
    return under_library(loaded, library)


def fabric_with(
    fabric: AnyFabric, overrides: Overrides, machine: CustomMachine | None = None
) -> Fabric:
    """A fabric with overridden values.

    Raises:
        ColltoolError: as of :func:`fabric_of`, an override that cannot be, or any override of a
            fabric that is loaded already.
    """
    if is_nothing(overrides):
        return fabric_of(fabric, machine=machine)
    # load_fabric itself refuses what is no path, name or mapping
    return load_fabric(fabric, overrides, machine_if(machine))  # type: ignore[arg-type]


def typed_of(fabric: AnyFabric) -> str:
    """A path or name as the user wrote it, or the overrides of a loaded fabric; else empty."""
    if isinstance(fabric, Fabric):
        return ", ".join(f"{key}={value}" for key, value in fabric.overrides)
    return os.fspath(fabric) if isinstance(fabric, str | os.PathLike) else ""


def under_library(fabric: Fabric, library: str | None) -> Fabric:
    """A fabric with the requested library, ``nccl`` or ``nccl@2.27``, in place of its own; unchanged
    for None.

    Raises:
        ColltoolError: a library or a version that is not known.
    """
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
    """The error for a library that has no algorithms here: one of kernels, or no known one."""
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
