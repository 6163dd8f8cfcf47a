"""Communication libraries by the names that ``--library`` takes, and what each of them runs.

:data:`LIBRARIES` is the table. The functions ``(running, group) -> NotRun | None`` are the limits
that algorithms register: where a library that ships a schedule does not run it. :class:`ShippedAs`
rows say which compositions a library ships.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from colltool.network.group import Group

KnownLibrary = Literal["nccl", "rccl", "mpi", "xla", "mscclpp"]
LibraryName = Literal[KnownLibrary, "all"]  # as ``--library`` takes it
# Reductions by NCCL in NVSwitch (NVLS) and in network switches (CollNet), which can be switched off.
Feature = Literal["nvls", "collnet"]
FROM_HOPPER = ("hopper", "blackwell")  # generations of GPUs with NVLS


class Library(NamedTuple):
    """A row of the table of libraries."""

    label: str  # its usual name
    # the names in ``shipped_by`` (before a bracket) whose schedules it runs
    vendors: tuple[str, ...]
    hint: str = ""  # appended to the message that it runs none of the schedules
    # NCCL or a fork: rings over all NICs and links, trees between nodes with chains inside.
    like_nccl: bool = False


_ROWS: dict[KnownLibrary, Library] = {
    "nccl": Library("NCCL", ("NCCL",), like_nccl=True),
    "rccl": Library("RCCL", ("RCCL",), like_nccl=True),
    "mpi": Library("MPI", ("MPI", "MPICH", "Open MPI", "MVAPICH2")),
    "xla": Library("XLA", ("XLA",), hint=" (on GPUs it calls NCCL)"),
    "mscclpp": Library("MSCCL++", ("MSCCL++", "vLLM", "TensorRT-LLM")),
}
LIBRARIES: Mapping[str, Library] = {str(name): row for name, row in _ROWS.items()}

# Reasons, whose sentences rendering has.
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
    """Why a library does not run a schedule on a group; rendering turns the code into a sentence."""

    code: NotRunCode
    library: str
    by: str = ""  # the library's name for its composition
    most: int = 0  # ranks per node that it supports
    ranks: int = 0  # ranks per node of the group

    @property
    def foreign(self) -> bool:
        """Whether the library has no such schedule at all, on any group."""
        return self.code in ("no_schedule", "no_composition")


class Running(NamedTuple):
    """The library of a job, as a key of :data:`LIBRARIES`."""

    name: str
    off: frozenset[Feature] = frozenset()  # features that are switched off

    @property
    def label(self) -> str:
        """Its usual name."""
        return LIBRARIES[self.name].label

    @property
    def like_nccl(self) -> bool:
        """Whether it is NCCL or a fork."""
        return LIBRARIES[self.name].like_nccl

    def without(self, features: Sequence[Feature]) -> NotRun | None:
        """The reason for the first of these features that is switched off; None if all are on."""
        for feature in features:
            if feature in self.off:
                return NotRun(_OFF[feature], self.name)
        return None


@lru_cache(maxsize=4096)
def ships(library: str, shipped_by: tuple[str, ...]) -> bool:
    """Whether a library, a key of :data:`LIBRARIES`, runs a schedule that these vendors ship; ``Open MPI
    (HAN)`` is Open MPI."""
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

    library: KnownLibrary | Literal[""]  # empty: a library without a name for ``--library``
    by: tuple[str, ...]  # who ships it, with their name for it in brackets
    # Algorithms of all tiers but the outermost; empty: any that the library has.
    inner: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()  # algorithms of the outermost tier
    # Chunks stream through all phases, even where the composition's phases are sequential.
    streams: bool = False
    needs: tuple[Feature, ...] = ()  # features that must not be switched off
    lattices: bool = False  # runs on lattices inside, not only on switches and full meshes
    most_inside: int = 0  # ranks per node that it supports; 0: any number

    def why_not_inside(self, ranks: int) -> NotRun | None:
        """The reason if a node has more ranks than it supports; None if not."""
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

MPI_HAN = (ShippedAs("mpi", ("Open MPI (HAN)", "MVAPICH2")),)
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
