"""A node as a dump describes it (accelerators, the links that join them, NICs), and the tiers that
its links make (:func:`inner_tiers`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import mode
from typing import Any, Literal, NamedTuple

from colltool.fabric.dumps.nics import Nic

Pair = tuple[int, int]
Link = Literal["nvlink", "xgmi", "pcie"]

MOST_LINKS = 18
"""The most NVLinks that a GPU has. Source: NVIDIA H100 and B200 data sheets."""
NVLINK_BPS = 25e9
"""One link, one way, of V100 to H200. Source: NVIDIA H100 data sheet (18: 900 GB/s both ways)."""
NVLINK_5_BPS = 50e9
"""One link, one way, of Blackwell. Source: NVIDIA B200 data sheet."""


class NodeSearch(NamedTuple):
    """What NCCL's topology search finds on a node.

    Args:
        release: of NCCL.
        release: of NCCL.
        gpu, cpu, link: as the key ``library`` of a fabric file has them (``hopper``, ``intel``,
            ``nvlink``).
        ranks: those of the first node that NCCL makes of the file, ascending.
        domains: how many such nodes NCCL makes of it; the network joins them.
        groups: the graphs of groups, as ``library.channels`` of a fabric file has them.
        nics: the ``id()`` of each ``net`` element of the file that channels use.
        inside_Bps: what all its rings carry from each GPU to the next, one way; None of one GPU.
        across_Bps: what they carry out of the node, one way; None without NICs.
        gpudirect: False if no NIC is near enough to a GPU.
        notes: sentences on the rings.
        assumed: what the file does not state, as in a fabric file.
    """

    release: str
    gpu: str
    cpu: str
    link: str
    ranks: tuple[int, ...]
    domains: int
    groups: tuple[Mapping[str, Any], ...]
    nics: frozenset[int]
    inside_Bps: float | None
    across_Bps: float | None
    gpudirect: bool
    notes: tuple[str, ...]
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeDump:
    """A node, or several that links join, as a dump describes it.

    Args:
        file, tool: the dump, and what wrote it.
        accelerators: their names in the dump.
        model: their model, such as ``NVIDIA H100``; empty if unknown.
        link: the kind of links of the scale-up network, if there is one.
        to_switch: number of links of each accelerator to switches; empty or zeros if none.
        pairs: number of links between two accelerators, by their positions, lower first.
        link_Bps: one way, of all links of an accelerator to switches, or of a pair; None if
            unknown.
        has_link_counts: False if the dump states which accelerators are joined, not by how many links.
        no_links: why the dump does not state which links join the accelerators; empty if it does.
        pcie_Bps: one way, of an accelerator's slot; None if unknown.
        cpu: ``intel``, ``amd`` or ``arm``; empty if unknown.
        hosts: that the links join.
        has_slots: False if accelerators reach NICs otherwise than over their PCIe slots.
        nics: those that serve the accelerators.
        gpudirect: False if no NIC reaches the memory of accelerators.
        fits: names of bundled fabrics of such machines, if the model is unknown.
        notes: what is odd or left out.
        assumed: what the dump does not state and was taken as usual, as in a fabric file.
        search: what NCCL's search finds on it; None where a dump does not let NCCL search.
    """

    file: str
    tool: str
    accelerators: tuple[str, ...]
    model: str = ""
    link: Link = "nvlink"
    to_switch: tuple[int, ...] = ()
    pairs: Mapping[Pair, int]
    link_Bps: float | None = None
    has_link_counts: bool = True
    no_links: str = ""
    pcie_Bps: float | None = None
    has_slots: bool = True
    nics: tuple[Nic, ...] = ()
    gpudirect: bool = True
    cpu: str = ""
    hosts: int = 1
    fits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    search: NodeSearch | None = None

    @property
    def has_links(self) -> bool:
        """Whether the dump states which links join the accelerators, be it none."""
        return not self.no_links


class InnerTier(NamedTuple):
    """A tier inside a node.

    Args:
        link: the kind of its links, by which the tier is named.
        size: how many endpoints it joins: accelerators, or whole islands of the tier inside.
        links: in parallel, from an endpoint to the switches (star) or between two (full mesh); 0 if
            unknown.
        edges: the joined pairs and the number of their links, of a graph; empty elsewhere.
    """

    link: Link
    topology: Literal["star", "full_mesh", "graph"]
    size: int
    links: int = 1
    edges: tuple[tuple[Pair, int], ...] = ()


def inner_tiers(dump: NodeDump) -> tuple[InnerTier, ...]:
    """Return the tiers that a node's links make, innermost first.

    Switches make a star, equal links of all pairs a full mesh. Where links join some pairs alone,
    equal full meshes of them are joined by PCIe (bridged cards); anything else is a graph.
    """
    count = len(dump.accelerators)
    if any(dump.to_switch):
        return (InnerTier(dump.link, "star", count, _usual(dump.to_switch)),)
    if not dump.pairs:
        return (InnerTier("pcie", "star", count),)
    islands = _islands(count, dump.pairs)
    sizes = {len(island) for island in islands}
    links_of_pairs: set[int] = set()
    for island in islands:
        links_of_pairs.update(dump.pairs.get(pair, 0) for pair in combinations(island, 2))
    # equal islands, in which all pairs have as many links
    if len(sizes) == len(links_of_pairs) == 1:
        inner = _island_tier(dump, sizes.pop(), links_of_pairs.pop())
        if inner.size == count:
            return (inner,)
        return (inner, InnerTier("pcie", "star", count // inner.size))
    if len(islands) > 1:
        return (InnerTier("pcie", "star", count),)
    return (InnerTier(dump.link, "graph", count, edges=tuple(sorted(dump.pairs.items()))),)


def _island_tier(dump: NodeDump, size: int, links: int) -> InnerTier:
    """The tier of ``size`` accelerators that are joined pair by pair, each by the same number of links: a
    full mesh, or switches that the dump does not show."""
    # A matrix states a GPU's links to the switches as links to each of its peers. That is so if the
    # number is all the links that a GPU has, or more than it could have to every peer.
    switched = links == MOST_LINKS or links * (size - 1) > MOST_LINKS
    if dump.link == "nvlink" and dump.has_link_counts and switched:
        return InnerTier("nvlink", "star", size, links)
    return InnerTier(dump.link, "full_mesh", size, links)


def odd_links(dump: NodeDump) -> list[str]:
    """Return notes on links that no tier can express: accelerators with other counts than usual, and
    groups of different size."""
    if any(dump.to_switch):
        usual = _usual(dump.to_switch)
        return [
            f"{device} has {count} of {usual} links to the switches, and is priced with all of them"
            for device, count in zip(dump.accelerators, dump.to_switch, strict=True)
            if count != usual
        ]
    if dump.pairs and inner_tiers(dump)[0].link == "pcie":
        return [
            "links join unequal groups of accelerators, and are left out: PCIe joins all of them"
        ]
    return []


def _usual(counts: tuple[int, ...]) -> int:
    """The most frequent number of links, of equally frequent ones the first; the largest where the most
    have none."""
    # an accelerator without links is odd, however many there are
    return mode(counts) or max(counts)


def _islands(count: int, pairs: Mapping[Pair, int]) -> list[set[int]]:
    """The sets of accelerators that links join, directly or over others, by their positions."""
    islands = [{position} for position in range(count)]
    for pair in pairs:
        joined = [island for island in islands if island.intersection(pair)]
        islands = [island for island in islands if not island.intersection(pair)]
        islands.append(set().union(*joined))
    return islands
