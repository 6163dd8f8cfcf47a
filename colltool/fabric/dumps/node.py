"""What a dump tells of a node: its accelerators, the links that join them, its NICs; and the tiers
that these links make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

Pair = tuple[int, int]
Link = Literal["nvlink", "xgmi", "pcie"]

MOST_LINKS = 18
"""NVLinks of a GPU, at most. Source: NVIDIA H100 and B200 data sheets."""


class Nic(NamedTuple):
    """A port of a NIC; ``rate_Bps`` one way, None where the dump does not tell it."""

    name: str
    rate_Bps: float | None = None
    infiniband: bool = False


@dataclass(frozen=True, kw_only=True)
class NodeDump:
    """What a dump tells of a node, or of several that links join.

    Args:
        accelerators: their names in the dump.
        model: what they are, such as ``NVIDIA H100``; empty where the dump does not tell.
        link: of the scale-up network where there is one.
        to_switch: links of each accelerator to switches.
        pairs: links between two accelerators, by their positions, lower first.
        link_Bps: of an accelerator's links to switches together, or of a pair, one way, where the
            dump tells it.
        counts_told: False where the dump tells which accelerators are joined, not by how many
            links.
        links_told: False where the dump does not tell whether links join them.
        pcie_Bps: of an accelerator's slot, one way.
        cpu: intel, amd or arm.
        notes: what is odd or left out.
    """

    file: str
    tool: str
    accelerators: tuple[str, ...]
    model: str = ""
    link: Link = "nvlink"
    to_switch: tuple[int, ...] = ()
    pairs: Mapping[Pair, int]
    link_Bps: float | None = None
    counts_told: bool = True
    links_told: bool = True
    pcie_Bps: float | None = None
    nics: tuple[Nic, ...] = ()
    cpu: str = ""
    hosts: int = 1
    notes: tuple[str, ...] = ()

    @property
    def fast_nics(self) -> tuple[Nic, ...]:
        """Those that carry collectives: the fastest. Others serve storage or management."""
        fastest = max((nic.rate_Bps or 0.0 for nic in self.nics), default=0.0)
        return tuple(nic for nic in self.nics if (nic.rate_Bps or 0.0) == fastest)


class InnerTier(NamedTuple):
    """A tier inside a node. ``links``: in parallel, of a port to switches, or of each pair;
    ``edges``: of a graph."""

    link: Link
    topology: Literal["star", "full_mesh", "graph"]
    size: int
    links: int = 1
    edges: tuple[tuple[Pair, int], ...] = ()


def inner_tiers(dump: NodeDump) -> tuple[InnerTier, ...]:
    """The tiers that a node's links make, innermost first.

    Switches make a star, equal links of all pairs a full mesh. Where links join some pairs alone,
    equal full meshes of them are joined by PCIe (bridged cards); anything else is a graph.
    """
    count = len(dump.accelerators)
    if any(dump.to_switch):
        return (InnerTier(dump.link, "star", count, _usual(dump.to_switch)),)
    if not dump.pairs:
        return (InnerTier("pcie", "star", count),)
    islands = _islands(count, dump.pairs)
    every = [dump.pairs.get(pair, 0) for island in islands for pair in combinations(island, 2)]
    sizes = {len(island) for island in islands}
    if len(sizes) == 1 and len(set(every)) == 1:
        size, links = sizes.pop(), every[0]
        if (
            dump.link == "nvlink"
            and dump.counts_told
            and (links * (size - 1) > MOST_LINKS or links == MOST_LINKS)
        ):
            # more than a GPU has: all go to switches, to every other one
            inner = InnerTier("nvlink", "star", size, links)
        else:
            inner = InnerTier(dump.link, "full_mesh", size, links)
        return (inner,) if size == count else (inner, InnerTier("pcie", "star", count // size))
    if len(islands) > 1:
        return (InnerTier("pcie", "star", count),)
    return (InnerTier(dump.link, "graph", count, edges=tuple(sorted(dump.pairs.items()))),)


def odd_links(dump: NodeDump) -> Iterator[str]:
    """What no tier can express, in words."""
    if any(dump.to_switch):
        usual = _usual(dump.to_switch)
        lame = [
            (name, found)
            for name, found in zip(dump.accelerators, dump.to_switch, strict=True)
            if found != usual
        ]
        yield from [
            f"{name} has {found} of {usual} links to the switches, and is priced with all of them"
            for name, found in lame
        ]
    elif dump.pairs and inner_tiers(dump)[0].link == "pcie":
        yield "links join unequal groups of accelerators, and are left out: PCIe joins all of them"


def _usual(counts: tuple[int, ...]) -> int:
    (most_frequent, _), *_ = Counter(counts).most_common(1)
    return most_frequent or max(counts)


def _islands(count: int, pairs: Mapping[Pair, int]) -> list[tuple[int, ...]]:
    """What links join, each ascending."""
    home = list(range(count))

    def root(one: int) -> int:
        while home[one] != one:
            home[one] = one = home[home[one]]
        return one

    for a, b in pairs:
        home[root(max(root(a), root(b)))] = min(root(a), root(b))
    roots = [root(one) for one in range(count)]
    return [
        tuple(one for one in range(count) if roots[one] == island) for island in sorted(set(roots))
    ]
