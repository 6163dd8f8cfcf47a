"""Which library runs on a fabric, what of it is off there, and what it is known to run on a group."""

from __future__ import annotations

from colltool.algorithms.libraries import FROM_HOPPER, Feature, Running
from colltool.base.primitives import Primitive
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric


def running_on(fabric: Fabric) -> Running | None:
    """The library of a fabric's key ``library``; None where any may run.

    Of NCCL, NVLS is off where the key says so or the GPUs are older than Hopper, and CollNet unless the key says that it is on.
    """
    facts = fabric.library_facts
    if facts is None or facts.name == "all":
        return None
    off: list[Feature] = []
    if facts.nvls is False or (facts.gpu is not None and facts.gpu not in FROM_HOPPER):
        off.append("nvls")
    if not facts.collnet:
        off.append("collnet")
    return Running(facts.name, frozenset(off))


def library_of(fabric: Fabric) -> str:
    """The name of the library that runs on a fabric; empty where any may."""
    return "" if fabric.library_name == "all" else fabric.library_name


def library_runs(placed: PlacedGroup, primitive: Primitive) -> tuple[str, ...]:
    """What the library runs on a group, where its outermost tier lists it; empty: anything."""
    return (placed.spans[-1].tier.algorithms or {}).get(primitive, ())
