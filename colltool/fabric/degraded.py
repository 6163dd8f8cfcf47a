"""A fabric with failed ranks or links: :func:`without_parts` writes the links of its single tier as
a graph, without those that failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
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


# By the ranks at both ends, the lower first.
Links = dict[tuple[int, int], LinkNumbers]


def without_parts(data: Mapping[str, Any], failed: Sequence[str]) -> dict[str, Any]:
    """Return the data of a fabric whose single tier is a graph of the links that are left. Ranks
    behind a failed one move up.

    Args:
        failed: ranks such as ``3``, and links such as ``0-1``.

    Raises:
        ColltoolError: a text that is no rank or link, a part that the fabric does not have, several
            tiers, or ranks at switches, which have no links among them.
    """
    ranks, links = _parts(failed)
    tier, *outer = load_fabric(data).tiers
    if outer:
        what = f"'{tier.name}' stands many times in this fabric, and would lose the same each time"
        raise _error(what, "start from a fabric of that tier alone")
    kind = capabilities_of(tier)
    found = _links(kind, tier)
    _check_parts_exist(tier.endpoints, found, ranks, links)
    left = [rank for rank in range(tier.endpoints) if rank not in ranks]
    if len(left) < 2:
        what = f"{len(left)} of {tier.endpoints} ranks would be left"
        raise _error(what, "leave two ranks or more")
    new_rank = {rank: new for new, rank in enumerate(left)}
    kept: Links = {}
    for (a, b), numbers in found.items():
        if (a, b) not in links and a in new_rank and b in new_rank:
            kept[new_rank[a], new_rank[b]] = numbers
    linked = set(chain.from_iterable(kept))
    for new, rank in enumerate(left):
        if new not in linked:
            what = f"rank {rank} is left without any link"
            raise _error(what, "it has failed too: name it as well")
    tier_numbers = _numbers(kind, tier)
    tier_data = dict(data["tiers"][0])
    graph = {key: tier_data[key] for key in _KEYS_KEPT if key in tier_data} | {"topology": "graph"}
    graph["edges"] = [_edge(ends, numbers, tier_numbers) for ends, numbers in sorted(kept.items())]
    return {**data, "tiers": [graph]}


def _parts(failed: Sequence[str]) -> tuple[set[int], set[tuple[int, int]]]:
    """The ranks and the links that were typed."""
    ranks, links = set(), set()
    for text in failed:
        part = _PART.fullmatch(text.strip())
        if part is None:
            what = f"'{clipped(text)}' is no rank or link"
            raise _error(what, "write a rank, 3, or a link, 0-1")
        if part[2] is None:
            ranks.add(int(part[1]))
        else:
            a, b = sorted(map(int, part.groups()))
            links.add((a, b))
    return ranks, links


def _check_parts_exist(
    endpoints: int, found: Links, ranks: set[int], links: set[tuple[int, int]]
) -> None:
    """Raise an error for ranks or links that the fabric does not have."""
    for rank in ranks:
        if rank >= endpoints:
            raise _error(f"there is no rank {rank}", f"ranks are 0 to {endpoints - 1}")
    for link in links:
        if link not in found:
            rank, other = link
            # the other end of each of its links
            ends = [sum(pair) - rank for pair in found if rank in pair]
            neighbours = ", ".join(map(str, sorted(ends))) or "nobody"
            what = f"there is no link {rank}-{other}"
            raise _error(what, f"rank {rank} has links to {neighbours}")


def _error(what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, argument="without", fix=fix)


def _numbers(kind: TierCapabilities[Tier], tier: Tier) -> LinkNumbers:
    """Those of a link that has the tier's own numbers."""
    return LinkNumbers(tier.bandwidth * tier.ports, kind.classes[0].alpha_s)


def _links(kind: TierCapabilities[Tier], tier: Tier) -> Links:
    """The links of a tier; an error if its ranks have none among them."""
    joined = kind.joined_by
    match joined:
        case "pair_links":
            pairs = [(a, b) for b in range(tier.endpoints) for a in range(b)]
            return dict.fromkeys(pairs, _numbers(kind, tier))
        case "neighbour_links":
            return dict.fromkeys(_neighbours(kind, tier), _numbers(kind, tier))
        case "routes":
            wires = kind.wires(tier.endpoints)
            graph = wires and wires.between_ranks
            if graph is None:
                raise _no_links_error(tier)
            return _of_graph(graph)
        case "switches" | "tiers":
            raise _no_links_error(tier)
        case _:
            assert_never(joined)


def _of_graph(graph: GraphWires) -> Links:
    """The links of a graph by their ends, parallel links added up."""
    found: Links = {}
    for edge in graph.edges:
        ends = (edge.src, edge.dst)
        # each link is two edges, one each way
        if edge.src < edge.dst:
            rate_Bps = edge.Bps
            if ends in found:
                rate_Bps += found[ends].rate_Bps
            found[ends] = LinkNumbers(rate_Bps, edge.alpha_s)
    return found


def _neighbours(kind: TierCapabilities[Tier], tier: Tier) -> list[tuple[int, int]]:
    """Pairs of neighbours on a torus or mesh; ranks are numbered along the first axis first.

    On a torus of 4x2, rank 3 ends the first line: its link closes the ring to rank 0. Along the second
    axis, where ranks are 4 apart, it has one to rank 7.
    """
    if any(axis.twist for axis in kind.axes):
        what = f"the links of a twisted torus, '{tier.name}', are not written out"
        raise _error(what, argument_text("overrides", [f"{tier.name}.twist=false"]))
    found = []
    stride = 1
    for axis in kind.axes:
        for rank in range(tier.endpoints):
            place = rank // stride % axis.size
            if place + 1 < axis.size:
                found.append((rank, rank + stride))
            elif axis.is_ring:
                found.append((rank - place * stride, rank))
        stride *= axis.size
    return found


def _no_links_error(tier: Tier) -> ColltoolError:
    """The error of a tier whose ranks have no links among them."""
    fix = f"a rank less is {argument_text('overrides', [f'{tier.name}.size={tier.endpoints - 1}'])}"
    return _error(f"ranks of '{tier.name}' have ports at a switch, not links", fix)


def _edge(ends: tuple[int, int], numbers: LinkNumbers, tier_numbers: LinkNumbers) -> Any:
    """A link as a file has it; only numbers that differ from the tier's are written."""
    if numbers == tier_numbers:
        return list(ends)
    edge: dict[str, Any] = {"between": list(ends)}
    if numbers.rate_Bps != tier_numbers.rate_Bps:
        edge["bandwidth"] = f"{numbers.rate_Bps / 1e9!r}GB/s"
    if numbers.alpha_s != tier_numbers.alpha_s:
        edge["alpha"] = f"{numbers.alpha_s * 1e6!r}us"
    return edge
