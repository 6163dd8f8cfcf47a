"""The library that runs on a fabric, as its file states it, and what its tiers list as run by it."""

from __future__ import annotations

from colltool.algorithms.libraries import FROM_HOPPER, Feature, Running
from colltool.base.primitives import Primitive
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric


def running_on(fabric: Fabric) -> Running | None:
    """The fabric's library; None if any may run.

    NCCL's NVLS is off if the fabric says so or its GPUs predate Hopper; CollNet is off unless the
    fabric says it is on.
    """
    facts = fabric.library_facts
    if facts is None or facts.name == "all":
        return None
    off: list[Feature] = []
    if not facts.collnet:
        off.append("collnet")
    before_hopper = facts.gpu is not None and facts.gpu not in FROM_HOPPER
    if facts.nvls is False or before_hopper:
        off.append("nvls")
    return Running(facts.name, frozenset(off))


def library_of(fabric: Fabric) -> str:
    """The name of the fabric's library; empty if any may run."""
    if fabric.library_name == "all":
        return ""
    return fabric.library_name


def library_runs(placed: PlacedGroup, primitive: Primitive) -> tuple[str, ...]:
    """The specs that the outermost tier lists as run by the library; empty: it runs anything."""
    return placed.spans[-1].tier.runs(primitive)
