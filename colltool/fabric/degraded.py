"""A fabric with failed ranks or links: :func:`without_parts` writes the links of its single tier as
a graph, without those that failed.

A link is a pair of ranks, the lower first. Ranks are those of the fabric before the failure, until
``new_rank`` numbers the working ones from 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple, assert_never

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.wires import GraphWires

# a rank, 3, or the link of two, 0-1
_PART = re.compile(r"(\d{1,8})(?:-(\d{1,8}))?")
# Keys of a tier that mean the same on a graph.
_KEYS_KEPT = (
    "name",
    "alpha",
    "bandwidth",
    "eta",
    "ports",
    "cable",
    "energy",
    "post",
    "protocols",
    "source",
    "notes",
)


class LinkNumbers(NamedTuple):
    """What a tier or a link of it states, with parallel ports added up."""

    rate_Bps: float
    alpha_s: float


# Two ranks, the lower first.
Ends = tuple[int, int]
Links = dict[Ends, LinkNumbers]


def without_parts(data: Mapping[str, Any], failed: Sequence[str]) -> dict[str, Any]:
    """Return the data of a fabric whose single tier is a graph of the links that are left. Ranks
    behind a failed one move up.

    Args:
        failed: ranks such as ``3``, and links such as ``0-1``.

    Raises:
        ColltoolError: a text that is no rank or link, a part that the fabric does not have, several
            tiers, or ranks at switches, which have no links among them.
    """
    failed_ranks, failed_links = _parse_parts(failed)
    tier, *outer = load_fabric(data).tiers
    if outer:
        what = f"'{tier.name}' stands many times in this fabric, and would lose the same each time"
        raise _error(what, "start from a fabric of that tier alone")
    capabilities = capabilities_of(tier)
    links = _links(capabilities, tier)
    _check_parts_exist(tier.endpoints, links, failed_ranks, failed_links)
    working = [rank for rank in range(tier.endpoints) if rank not in failed_ranks]
    if len(working) < 2:
        what = f"{len(working)} of {tier.endpoints} ranks would be left"
        raise _error(what, "leave two ranks or more")
    new_rank = {rank: number for number, rank in enumerate(working)}
    working_links: Links = {}
    for (low, high), numbers in links.items():
        if (low, high) not in failed_links and low in new_rank and high in new_rank:
            working_links[new_rank[low], new_rank[high]] = numbers
    linked = set(chain.from_iterable(working_links))
    for rank in working:
        if new_rank[rank] not in linked:
            what = f"rank {rank} is left without any link"
            raise _error(what, "it has failed too: name it as well")
    tier_numbers = _tier_numbers(capabilities, tier)
    tier_data = data["tiers"][0]
    graph = {key: tier_data[key] for key in _KEYS_KEPT if key in tier_data}
    graph["topology"] = "graph"
    graph["edges"] = [
        _edge(ends, numbers, tier_numbers) for ends, numbers in sorted(working_links.items())
    ]
    return {**data, "tiers": [graph]}


def _parse_parts(failed: Sequence[str]) -> tuple[set[int], set[Ends]]:
    """The ranks and the links that were typed."""
    ranks = set()
    links = set()
    for text in failed:
        part = _PART.fullmatch(text.strip())
        if part is None:
            what = f"'{clipped(text)}' is no rank or link"
            raise _error(what, "write a rank, 3, or a link, 0-1")
        if part[2] is None:
            ranks.add(int(part[1]))
        else:
            low, high = sorted(map(int, part.groups()))
            links.add((low, high))
    return ranks, links


def _check_parts_exist(
    endpoints: int, links: Links, failed_ranks: set[int], failed_links: set[Ends]
) -> None:
    """Raise an error for failed ranks or links that the fabric does not have."""
    for rank in failed_ranks:
        if rank >= endpoints:
            raise _error(f"there is no rank {rank}", f"ranks are 0 to {endpoints - 1}")
    for low, high in failed_links:
        if (low, high) not in links:
            # the other end is the sum of both, less this one
            neighbours = [sum(ends) - low for ends in links if low in ends]
            listed = ", ".join(map(str, sorted(neighbours))) or "nobody"
            what = f"there is no link {low}-{high}"
            raise _error(what, f"rank {low} has links to {listed}")


def _error(what: str, fix: str) -> ColltoolError:
    """The error for a part in ``without``, the argument of failed parts."""
    return ColltoolError(what, argument="without", fix=fix)


def _tier_numbers(capabilities: TierCapabilities[Tier], tier: Tier) -> LinkNumbers:
    """The numbers of a link that states none of its own."""
    return LinkNumbers(tier.bandwidth * tier.ports, capabilities.classes[0].alpha_s)


def _links(capabilities: TierCapabilities[Tier], tier: Tier) -> Links:
    """The links of a tier; an error if its ranks have none among them."""
    joined = capabilities.joined_by
    match joined:
        case "pair_links":
            pairs = combinations(range(tier.endpoints), 2)
            return dict.fromkeys(pairs, _tier_numbers(capabilities, tier))
        case "neighbour_links":
            return dict.fromkeys(_neighbours(capabilities, tier), _tier_numbers(capabilities, tier))
        case "routes":
            wires = capabilities.wires(tier.endpoints)
            graph = wires and wires.between_ranks
            if graph is None:
                raise _no_links_error(tier)
            return _links_of_graph(graph)
        case "switches" | "tiers":
            raise _no_links_error(tier)
        case _:
            assert_never(joined)


def _links_of_graph(graph: GraphWires) -> Links:
    """The links of a graph by their ends, parallel links added up."""
    links: Links = {}
    for edge in graph.edges:
        ends = (edge.src, edge.dst)
        # each link is two edges, one each way
        if edge.src < edge.dst:
            rate_Bps = edge.Bps
            if ends in links:
                rate_Bps += links[ends].rate_Bps
            links[ends] = LinkNumbers(rate_Bps, edge.alpha_s)
    return links


def _neighbours(capabilities: TierCapabilities[Tier], tier: Tier) -> list[Ends]:
    """Pairs of neighbours on a torus or mesh; ranks are numbered along the first axis first.

    On a torus of 4x2, rank 3 ends the first line: its link closes the ring to rank 0. Along the second
    axis, where ranks are 4 apart, it has one to rank 7.
    """
    if any(axis.twist for axis in capabilities.axes):
        what = f"the links of a twisted torus, '{tier.name}', are not written out"
        raise _error(what, argument_text("overrides", [f"{tier.name}.twist=false"]))
    pairs = []
    # how far neighbours along the axis are apart in rank: the product of the axes before it
    stride = 1
    for axis in capabilities.axes:
        for rank in range(tier.endpoints):
            place = rank // stride % axis.size
            if place + 1 < axis.size:
                pairs.append((rank, rank + stride))
            elif axis.is_ring:
                pairs.append((rank - place * stride, rank))
        stride *= axis.size
    return pairs


def _no_links_error(tier: Tier) -> ColltoolError:
    """The error of a tier whose ranks have no links among them."""
    fix = f"a rank less is {argument_text('overrides', [f'{tier.name}.size={tier.endpoints - 1}'])}"
    return _error(f"ranks of '{tier.name}' have ports at a switch, not links", fix)


def _edge(ends: Ends, numbers: LinkNumbers, tier_numbers: LinkNumbers) -> Any:
    """A link as a file has it: its ends alone, or with the numbers that differ from the tier's."""
    if numbers == tier_numbers:
        return list(ends)
    edge: dict[str, Any] = {"between": list(ends)}
    if numbers.rate_Bps != tier_numbers.rate_Bps:
        edge["bandwidth"] = f"{numbers.rate_Bps / 1e9!r}GB/s"
    if numbers.alpha_s != tier_numbers.alpha_s:
        edge["alpha"] = f"{numbers.alpha_s * 1e6!r}us"
    return edge
