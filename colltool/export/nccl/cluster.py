"""A group as NCCL counts it, and the collectives that its plugin tunes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, BC, REDUCE, RS
from colltool.estimate.group_spec import AnyGroup
from colltool.estimate.groups import PlacedGroup, place
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.nccl.hardware import Hardware
from colltool.nccl.topology_inputs import hardware_of

COLLECTIVES = {"broadcast": BC, "reduce": REDUCE, "allgather": AG, "reducescatter": RS, "allreduce": AR}
"""All that NCCL's plugin tunes, in NCCL's order; all-to-all is not among them."""


class Cluster(NamedTuple):
    """A group on a fabric, and what NCCL's model knows of it."""

    placed: PlacedGroup
    hardware: Hardware

    @property
    def ranks(self) -> int:
        """All of the group."""
        return self.hardware.ranks

    @property
    def nodes(self) -> int:
        """NCCL's nodes: innermost domains, and below a Clos each endpoint is one."""
        return self.hardware.nodes

    @property
    def spoken(self) -> str:
        """``16 ranks on 2 nodes``."""
        return f"{self.ranks} ranks on {self.nodes} node{'s' if self.nodes > 1 else ''}"


def cluster_of(fabric: Fabric, group: AnyGroup) -> Cluster:
    """A group on a fabric that NCCL can run on.

    Raises:
        ColltoolError: a lattice, a full mesh, another library's fabric, a rank count that does not fit, or facts that NCCL's
            model needs and the fabric does not give; says what to write.
    """
    for tier in fabric.tiers:
        if capabilities_of(tier).joined_by != "switches":
            what = f"NCCL does not run on {fabric.name}: '{tier.name}' is a {tier.topology.replace('_', ' ')}"
            fix = "NCCL's tuner needs tiers that are a star or a Clos; RCCL's plugin is not NCCL's"
            raise ColltoolError(what, argument="fabric", fix=fix)
    facts = fabric.library_facts
    if facts is not None and facts.name not in ("nccl", "all"):
        what = f"{fabric.name} runs {facts.name} by its key library, and this file is for NCCL"
        raise ColltoolError(what, argument="fabric", fix="write library: {name: nccl, gpu: hopper, cpu: intel} with your facts")
    placed = place(fabric, group)
    return Cluster(placed, hardware_of(placed))


def clusters_of(fabric: Fabric, groups: Sequence[AnyGroup]) -> list[Cluster]:
    """The groups in the order given, each once; all of the fabric where none is given.

    Raises:
        ColltoolError: as for :func:`cluster_of`.
    """
    return list({cluster.ranks: cluster for cluster in (cluster_of(fabric, group) for group in groups or [None])}.values())
