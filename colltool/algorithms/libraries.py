"""Libraries by the names that ``--library`` takes: which schedules each runs, and as which
compositions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from colltool.network.group import Group

KnownLibrary = Literal["nccl", "rccl", "mpi", "xla", "mscclpp"]
LibraryName = Literal[KnownLibrary, "all"]  # as ``--library`` takes it
# NCCL's reductions in NVSwitch, and in the network, where there and switched on
Feature = Literal["nvls", "collnet"]
FROM_HOPPER = ("hopper", "blackwell")  # generations of GPUs that NVLS runs on


class Library(NamedTuple):
    spoken: str  # how people call it
    vendors: tuple[str, ...]  # names in ``shipped_by``, before a bracket, whose schedules it runs
    hint: str = ""  # what to add where it runs none
    # NCCL or a fork, with its rings over all NICs and links and its tree of chains
    like_nccl: bool = False


_ROWS: dict[KnownLibrary, Library] = {
    "nccl": Library("NCCL", ("NCCL",), like_nccl=True),
    "rccl": Library("RCCL", ("RCCL",), like_nccl=True),
    "mpi": Library("MPI", ("MPI", "MPICH", "Open MPI", "MVAPICH2")),
    "xla": Library("XLA", ("XLA",), hint=" (on GPUs it calls NCCL)"),
    "mscclpp": Library("MSCCL++", ("MSCCL++", "vLLM", "TensorRT-LLM")),
}
LIBRARIES: Mapping[str, Library] = {str(name): row for name, row in _ROWS.items()}

NotRunCode = Literal[
    "no_schedule",
    "no_composition",
    "nvls_off",
    "collnet_off",
    "lattice",
    "multi_rail",
    "multi_link",
    "chain_inside",
    "nvls_across",
    "nvls_ranks",
    "msccl_links",
    "kernels_inside",
    "ranks_inside",
]


_OFF: dict[Feature, NotRunCode] = {"nvls": "nvls_off", "collnet": "collnet_off"}


class NotRun(NamedTuple):
    """Why a library does not run a schedule on a group; rendering makes a sentence of the code."""

    code: NotRunCode
    library: str
    by: str = ""  # what the library calls its composition
    most: int = 0  # ranks of a node that it takes
    ranks: int = 0  # ranks of a node that are there

    @property
    def foreign(self) -> bool:
        """The library has no such schedule at all, rather than not running it here."""
        return self.code in ("no_schedule", "no_composition")


class Running(NamedTuple):
    """The library of a job; ``off`` are features that it has and may not use here."""

    name: str
    off: frozenset[Feature] = frozenset()

    @property
    def spoken(self) -> str:
        return LIBRARIES[self.name].spoken

    @property
    def like_nccl(self) -> bool:
        return LIBRARIES[self.name].like_nccl

    def without(self, features: Sequence[Feature]) -> NotRun | None:
        """The first of these features that is switched off; None where all are on."""
        for feature in features:
            if feature in self.off:
                return NotRun(_OFF[feature], self.name)
        return None


@lru_cache(maxsize=4096)
def ships(library: str, shipped_by: tuple[str, ...]) -> bool:
    """Whether a library is among those that ship something; ``Open MPI (HAN)`` is Open MPI."""
    return any(vendor.partition(" (")[0] in LIBRARIES[library].vendors for vendor in shipped_by)


def nccl_inside(running: Running, group: Group) -> NotRun | None:
    """NCCL and RCCL know switches and full meshes, no lattices."""
    if running.like_nccl and (group.axes or group.topology == "lattice_tiers"):
        return NotRun("lattice", running.name)
    return None


def nccl_rails(running: Running, group: Group) -> NotRun | None:
    """Across nodes NCCL's rings and chains use every NIC of a node."""
    if running.like_nccl and group.joined_by == "tiers":
        return NotRun("multi_rail", running.name)
    return None


def nccl_links(running: Running, group: Group) -> NotRun | None:
    """NCCL and RCCL look for rings on a full mesh until no link is left."""
    several_links = group.dedicated and group.ranks > 2 and not group.one_port
    if running.like_nccl and several_links:
        return NotRun("multi_link", running.name)
    return None


def nccl_tree(running: Running, group: Group) -> NotRun | None:
    """NCCL's tree is double and binary only between nodes."""
    if running.like_nccl and not group.scale_out:
        return NotRun("chain_inside", running.name)
    return None


def nccl_switch(running: Running, group: Group) -> NotRun | None:
    """NVLS reduces inside a node, CollNet between nodes."""
    if running.name != "nccl":
        return None
    return running.without(["collnet" if group.scale_out else "nvls"])


# Ranks of a node that gather or scatter by NVLS: NCCL_MAX_NVLS_ARITY. Source: NCCL 2.30,
# src/include/device.h.
_NVLS_RANKS = 32


def nvls_inside(running: Running, group: Group) -> NotRun | None:
    """NVLS gathers and scatters in nodes of few ranks; between nodes CollNetDirect does, which no
    schedule here is."""
    if running.name != "nccl":
        return None
    if group.scale_out:
        return NotRun("nvls_across", running.name)
    if group.ranks > _NVLS_RANKS:
        return NotRun("nvls_ranks", running.name, most=_NVLS_RANKS)
    return None


def kernels_inside(running: Running, group: Group) -> NotRun | None:
    """Kernels that read their peers' memory stay inside a node."""
    if running.name == "rccl" and not group.dedicated:
        return NotRun("msccl_links", running.name)
    across_nodes = group.scale_out or group.joined_by == "tiers"
    if running.name == "mscclpp" and across_nodes:
        return NotRun("kernels_inside", running.name)
    return None


class ShippedAs(NamedTuple):
    """A composition as a library ships it."""

    library: KnownLibrary | Literal[""]  # empty: one that ``--library`` does not know
    by: tuple[str, ...]  # who ships it, with the name that they have for it
    # algorithms of all tiers but the outermost; empty: whatever the library has
    inner: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()  # of the outermost tier
    # chunks pass all phases at once, even where the composition's phases are sequential
    streams: bool = False
    needs: tuple[Feature, ...] = ()
    lattices: bool = False  # it runs on a lattice inside; else on switches and full meshes
    most_inside: int = 0  # most ranks of a node that it takes; 0: any number

    def why_not_inside(self, ranks: int) -> NotRun | None:
        if not self.most_inside or ranks <= self.most_inside:
            return None
        return NotRun(
            "ranks_inside", self.library, by=self.by[0], most=self.most_inside, ranks=ranks
        )


_NVLS = frozenset({"in-network"})
_RING = frozenset({"ring"})
_TREE = frozenset({"double-binary-tree"})
_RINGS = _RING | {"multi-link-ring"}
_SENDS = frozenset({"pairwise", "direct"})
NCCL_ALL_REDUCE = (
    ShippedAs("nccl", ("NCCL (NVLSTree)",), _NVLS, _TREE, streams=True, needs=("nvls",)),
    ShippedAs(
        "nccl", ("NCCL (NVLS with SHARP)",), _NVLS, _NVLS, streams=True, needs=("nvls", "collnet")
    ),
    ShippedAs("nccl", ("NCCL (Tree)",), _RINGS, _TREE, streams=True),
    ShippedAs(
        "nccl",
        ("NCCL (CollNetDirect)",),
        frozenset({"direct"}),
        _NVLS,
        needs=("collnet",),
        most_inside=8,
    ),
    ShippedAs("nccl", ("NCCL (CollNetChain)",), _RINGS, _NVLS, needs=("collnet",)),
    ShippedAs("rccl", ("RCCL (Tree)",), _RINGS, _TREE, streams=True),
)
"""Inside a node NCCL's tree and CollNetChain are a chain of its GPUs, with a share of the vector on
each NIC: a ring there costs the same. CollNetDirect reads all peers at once, at most
NCCL_MAX_DIRECT_ARITY, 7. Source: NCCL 2.30, src/graph/tuning.cc, src/device/all_reduce.h."""

HAN = (ShippedAs("mpi", ("Open MPI (HAN)", "MVAPICH2")),)
SLICES = (ShippedAs("xla", ("XLA (multislice)",), outer=_RING, lattices=True),)
"""Source: Google Cloud TPU Multislice: XLA composes collectives of a slice's ICI and of the data
centre network."""
HOROVOD = (
    ShippedAs(
        "",
        ("Horovod (hierarchical)",),
        _RINGS,
        frozenset({"ring", "recursive-doubling", "rabenseifner"}),
    ),
)
"""Source: HOROVOD_HIERARCHICAL_ALLREDUCE: NCCL's reduce-scatter and all-gather inside a node, MPI's
all-reduce between nodes."""
RAILS_FIRST = (
    ShippedAs(
        "mscclpp",
        ("MSCCL++ (all-gather across nodes)",),
        frozenset({"direct"}),
        frozenset({"direct"}),
        streams=True,
    ),
)
"""Source: microsoft/mscclpp, its all-gather kernels of several nodes: over port channels along
one's own rail, and what arrives goes on piece by piece over memory channels inside the node."""
PXN = (
    ShippedAs("nccl", ("NCCL (PXN)",), _SENDS, _SENDS),
    ShippedAs("", ("DeepEP", "Tutel"), _SENDS, _SENDS),
)
RELAYED = (ShippedAs("nccl", ("NCCL (PXN)",), frozenset({"send"}), frozenset({"send"})),)
"""Source: NCCL 2.12, PXN: to the GPU on the destination's rail over NVLink, then along the rail."""
