"""What the library that runs on a group calls an algorithm, and which algorithm it calls so."""

from __future__ import annotations

from colltool.algorithms.aliases import normal_form
from colltool.algorithms.composed import compositions
from colltool.algorithms.libraries import LIBRARIES, ships
from colltool.base.primitives import Primitive
from colltool.estimate.groups import PlacedGroup
from colltool.estimate.running import running_on
from colltool.libraries.nccl.names import name_on, nccl_algorithm, spec_on


def library_name(
    placed: PlacedGroup, primitive: Primitive, spec: str, shipped_by: tuple[str, ...]
) -> str:
    """The library's own name of an algorithm, such as ``NVLSTree``. Empty where it has none.

    Args:
        spec: the algorithm as ``--algorithm`` takes it.
        shipped_by: who ships it, with their own name in brackets: ``"MPICH (recursive doubling)"``.
    """
    running = running_on(placed.fabric)
    if running is None or not ships(running.name, shipped_by):
        return ""
    name = name_on(running.name, primitive, placed.placement, spec)
    if name:
        return name
    for vendor in shipped_by:
        # several names in the brackets are none
        name = _own_name(vendor)
        if name and "," not in name and ships(running.name, (vendor,)):
            return name
    return ""


def spec_of_library_name(placed: PlacedGroup, primitive: Primitive, name: str) -> str:
    """The algorithm that the library on a group calls by this name, in capitals or not. Empty if
    none."""
    running = running_on(placed.fabric)
    if running is None:
        return ""
    if LIBRARIES[running.name].like_nccl:
        # older versions of NCCL knew one CollNet, the chain
        algorithm = "collnet_chain" if name.lower() == "collnet" else nccl_algorithm(name)
        return spec_on(algorithm, primitive, placed.placement)
    normalized = normal_form(name)
    for composition in compositions(primitive):
        for shipped in composition.shipped_as:
            names = [normal_form(_own_name(vendor)) for vendor in shipped.by]
            if shipped.library == running.name and normalized in names:
                return composition.name
    return ""


def _own_name(vendor: str) -> str:
    """The name in a vendor's brackets: ``recursive doubling`` of ``MPICH (recursive doubling)``."""
    return vendor.partition(" (")[2].rstrip(")")
