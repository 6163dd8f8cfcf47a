"""Which library runs on a fabric, and what of it is off there."""

from __future__ import annotations

from colltool.algorithms.libraries import Feature, Running
from colltool.fabric.model import Fabric

_WITH_NVLS = ("hopper", "blackwell")


def running_on(fabric: Fabric) -> Running | None:
    """The library of a fabric's key ``library``; None where any may run.

    Of NCCL, NVLS is off where the key says so or the GPUs are older than Hopper, and CollNet unless the key says that it is on.
    """
    facts = fabric.library_facts
    if facts is None or not library_of(fabric):
        return None
    off: list[Feature] = []
    if facts.nvls is False or (facts.gpu is not None and facts.gpu not in _WITH_NVLS):
        off.append("nvls")
    if not facts.collnet:
        off.append("collnet")
    return Running(facts.name, frozenset(off))


def library_of(fabric: Fabric) -> str:
    """The name of the library that runs on a fabric; empty where any may."""
    facts = fabric.library_facts
    return "" if facts is None or facts.name == "all" else facts.name
