"""Libraries by the names that ``--library`` takes: whose schedules each runs, and as which compositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from colltool.algorithms.group import Group

Feature = Literal["nvls", "collnet"]
"""What NCCL runs only where it is there and switched on: reductions in NVSwitch, and in the network."""


class Library(NamedTuple):
    """How people call a library, and whose schedules it runs: names before a bracket in ``shipped_by``; what to add where it runs
    none."""

    spoken: str
    vendors: tuple[str, ...]
    hint: str = ""


LIBRARIES: dict[str, Library] = {
    "nccl": Library("NCCL", ("NCCL",)),
    "rccl": Library("RCCL", ("RCCL",)),
    "mpi": Library("MPI", ("MPI", "MPICH", "Open MPI", "MVAPICH2")),
    "xla": Library("XLA", ("XLA",), hint=" (on GPUs it calls NCCL)"),
    "mscclpp": Library("MSCCL++", ("MSCCL++", "vLLM", "TensorRT-LLM")),
}

OFF: dict[Feature, str] = {
    "nvls": "NVLS, NVLink SHARP, is off or not there",
    "collnet": "CollNet, SHARP in the network, is off as it is unless NCCL_COLLNET_ENABLE=1: library: {collnet: true}",
}


class Running(NamedTuple):
    """The library of a job; ``off`` are features that it has and may not use here."""

    name: str
    off: frozenset[Feature] = frozenset()

    @property
    def spoken(self) -> str:
        """How people call it."""
        return LIBRARIES[self.name].spoken

    def ships(self, shipped_by: Sequence[str]) -> bool:
        """Whether it is among those who ship something."""
        return ships(self.name, shipped_by)

    def without(self, features: Sequence[Feature]) -> str:
        """What is switched off of these, in words; empty where all are on."""
        return next((OFF[feature] for feature in features if feature in self.off), "")


def ships(library: str, shipped_by: Sequence[str]) -> bool:
    """Whether a library is among those who ship something; ``Open MPI (HAN)`` is Open MPI."""
    return any(vendor.partition(" (")[0] in LIBRARIES[library].vendors for vendor in shipped_by)


def nccl_inside(running: Running, group: Group) -> str:
    """NCCL and RCCL know switches and full meshes, no lattices."""
    lattice = group.axes or group.topology == "lattice_tiers"
    return f"{running.spoken} does not run on lattices" if lattice and running.name in ("nccl", "rccl") else ""


def nccl_rails(running: Running, group: Group) -> str:
    """Across nodes NCCL's rings and chains use every NIC of a node."""
    if running.name in ("nccl", "rccl") and group.joined_by == "tiers":
        return f"across nodes {running.spoken} has one for every NIC of a node (multi-rail)"
    return ""


def nccl_links(running: Running, group: Group) -> str:
    """On a full mesh NCCL and RCCL look for rings until no link is left."""
    if running.name in ("nccl", "rccl") and group.dedicated and group.ranks > 2 and not group.one_port:
        return f"on a full mesh {running.spoken} has rings over all links (multi-link)"
    return ""


def rccl_sends(running: Running, group: Group) -> str:
    """AMD accepts two nodes of 8 MI300X on 8 x 400G at 45 GB/s of busbw: one peer after another has 47, all at once 90."""
    if running.name == "rccl" and group.joined_by == "tiers":
        return "across nodes RCCL's grouped sends are as fast as one peer after another"
    return ""


def nccl_tree(running: Running, group: Group) -> str:
    """NCCL's tree is double and binary between nodes alone."""
    if running.name not in ("nccl", "rccl") or group.scale_out:
        return ""
    return f"inside a node {running.spoken}'s tree is a chain of its GPUs: double and binary between nodes alone"


def nccl_switch(running: Running, group: Group) -> str:
    """NVLS reduces inside a node, CollNet between nodes."""
    return running.without(["collnet" if group.scale_out else "nvls"]) if running.name == "nccl" else ""


_NVLS_RANKS = 32
"""Of a node, for an all-gather or reduce-scatter by NVLS: NCCL_MAX_NVLS_ARITY. Source: NCCL 2.30, src/include/device.h."""


def nvls_inside(running: Running, group: Group) -> str:
    """NVLS gathers and scatters inside a node of few ranks; between nodes CollNetDirect does, which no schedule here is."""
    if running.name != "nccl":
        return ""
    if group.scale_out:
        return "NVLS gathers and scatters inside a node alone"
    return f"NVLS gathers and scatters on at most {_NVLS_RANKS} ranks of a node" if group.ranks > _NVLS_RANKS else ""


def kernels_inside(running: Running, group: Group) -> str:
    """Kernels that read their peers' memory stay inside a node."""
    if running.name == "rccl" and not group.dedicated:
        return "RCCL takes MSCCL's kernels where every pair of GPUs has a link of its own"
    if running.name == "mscclpp" and (group.scale_out or group.joined_by == "tiers"):
        return "its kernels read their peers' memory, inside a node alone"
    return ""


class ShippedAs(NamedTuple):
    """A composition as a library ships it.

    Args:
        library: of :data:`LIBRARIES`; empty for one that ``--library`` does not know.
        by: who ships it, with the name that they have for it.
        inner: algorithms of every tier but the outermost; empty: whatever the library has for the phase.
        outer: of the outermost tier, in the same way.
        streams: chunks pass through all phases at once, though the composition's phases follow one another otherwise.
        needs: features that it takes.
        lattices: whether it runs on a lattice inside; else inside switches and full meshes.
        most_inside: the most ranks of a node that it takes; 0 for any number.
    """

    library: str
    by: tuple[str, ...]
    inner: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    streams: bool = False
    needs: tuple[Feature, ...] = ()
    lattices: bool = False
    most_inside: int = 0

    def why_not_inside(self, ranks: int) -> str:
        """Why it does not run with so many ranks of a node; empty where it does."""
        if not self.most_inside or ranks <= self.most_inside:
            return ""
        return f"{self.by[0]} takes at most {self.most_inside} ranks of a node, not {ranks}"


_NVLS, _RING, _TREE = frozenset({"in-network"}), frozenset({"ring"}), frozenset({"double-binary-tree"})
_RINGS = _RING | {"multi-link-ring"}
_SENDS = frozenset({"pairwise", "direct"})
NCCL_ALL_REDUCE = (
    ShippedAs("nccl", ("NCCL (NVLSTree)",), _NVLS, _TREE, streams=True, needs=("nvls",)),
    ShippedAs("nccl", ("NCCL (NVLS with SHARP)",), _NVLS, _NVLS, streams=True, needs=("nvls", "collnet")),
    ShippedAs("nccl", ("NCCL (Tree)",), _RINGS, _TREE, streams=True),
    ShippedAs("nccl", ("NCCL (CollNetDirect)",), frozenset({"direct"}), _NVLS, needs=("collnet",), most_inside=8),
    ShippedAs("nccl", ("NCCL (CollNetChain)",), _RINGS, _NVLS, needs=("collnet",)),
    ShippedAs("rccl", ("RCCL (Tree)",), _RINGS, _TREE, streams=True),
)
"""Inside a node NCCL's tree and CollNetChain are a chain of its GPUs, with a share of the vector on each NIC: a ring there costs
the same. CollNetDirect reads all peers at once, at most NCCL_MAX_DIRECT_ARITY, 7. Source: NCCL 2.30, src/graph/tuning.cc,
src/device/all_reduce.h."""

HAN = (ShippedAs("mpi", ("Open MPI (HAN)", "MVAPICH2")),)
SLICES = (ShippedAs("xla", ("XLA (multislice)",), outer=_RING, lattices=True),)
"""Source: Google Cloud TPU Multislice: XLA composes collectives of a slice's ICI and of the data centre network."""
HOROVOD = (ShippedAs("", ("Horovod (hierarchical)",), _RINGS, frozenset({"ring", "recursive-doubling", "rabenseifner"})),)
"""Source: HOROVOD_HIERARCHICAL_ALLREDUCE: NCCL's reduce-scatter and all-gather inside a node, MPI's all-reduce between nodes."""
PXN = (
    ShippedAs("nccl", ("NCCL (PXN)",), _SENDS, _SENDS),
    ShippedAs("", ("DeepEP", "Tutel"), _SENDS, _SENDS),
)
RELAYED = (ShippedAs("nccl", ("NCCL (PXN)",), frozenset({"send"}), frozenset({"send"})),)
"""Source: NCCL 2.12, PXN: to the GPU on the destination's rail over NVLink, then along the rail."""
