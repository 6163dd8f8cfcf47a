"""A fabric with failed ranks or links: its links written out as a graph, without those."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from colltool.base.errors import ColltoolError, clipped, given
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.wires import GraphWires

_PART = re.compile(r"(\d{1,8})(?:-(\d{1,8}))?")
_KEPT = (
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
"""Keys of a tier that mean the same on a graph."""

# two ranks -> bytes/s and seconds of what joins them
Links = dict[tuple[int, int], tuple[float, float]]


def without(data: Mapping[str, Any], failed: Sequence[str]) -> dict[str, Any]:
    """The data of a fabric whose single tier is a graph of what is left; ranks after a failed one
    move up.

    Args:
        failed: ranks such as ``3``, and links such as ``0-1``.

    Raises:
        ColltoolError: not written so, not there, several tiers, or ranks at switches, which have no
            links of their own.
    """
    ranks, links = _parts(failed)
    tier, *others = load_fabric(data).tiers
    if others:
        what = f"'{tier.name}' stands many times in this fabric, and would lose the same each time"
        raise ColltoolError(what, argument="without", fix="start from a fabric of that tier alone")
    kind = capabilities_of(tier)
    found = _links(kind, tier)
    for rank in ranks:
        if rank >= tier.endpoints:
            raise _not_there(f"rank {rank}", f"ranks are 0 to {tier.endpoints - 1}")
    for link in links:
        if link not in found:
            beside = sorted(b if a == link[0] else a for a, b in found if link[0] in (a, b))
            raise _not_there(
                f"link {link[0]}-{link[1]}",
                f"rank {link[0]} has links to {', '.join(map(str, beside)) or 'nobody'}",
            )
    left = [rank for rank in range(tier.endpoints) if rank not in ranks]
    if len(left) < 2:
        what = f"{len(left)} of {tier.endpoints} ranks would be left"
        raise ColltoolError(what, argument="without", fix="leave two ranks or more")
    number = {rank: place for place, rank in enumerate(left)}
    kept = {
        (number[a], number[b]): own
        for (a, b), own in found.items()
        if (a, b) not in links and a in number and b in number
    }
    alone = set(number.values()) - {end for ends in kept for end in ends}
    if alone:
        what = f"rank {left[min(alone)]} is left without any link"
        raise ColltoolError(what, argument="without", fix="it has failed too: name it as well")
    plain = (tier.bandwidth * tier.ports, kind.classes[0].alpha_s)
    own = dict(data["tiers"][0])
    graph = {key: own[key] for key in _KEPT if key in own} | {"topology": "graph"}
    graph["edges"] = [_edge(ends, numbers, plain) for ends, numbers in sorted(kept.items())]
    return {**data, "tiers": [graph]}


def _parts(failed: Sequence[str]) -> tuple[set[int], set[tuple[int, int]]]:
    ranks, links = set(), set()
    for text in failed:
        part = _PART.fullmatch(text.strip())
        if part is None:
            raise ColltoolError(
                f"'{clipped(text)}' is no rank or link",
                argument="without",
                fix="write a rank, 3, or a link, 0-1",
            )
        if part[2] is None:
            ranks.add(int(part[1]))
        else:
            a, b = sorted((int(part[1]), int(part[2])))
            links.add((a, b))
    return ranks, links


def _not_there(what: str, fix: str) -> ColltoolError:
    return ColltoolError(f"there is no {what}", argument="without", fix=fix)


def _links(kind: TierCapabilities[Tier], tier: Tier) -> Links:
    joined = kind.joined_by
    match joined:
        case "pair_links":
            ends = [(a, b) for b in range(tier.endpoints) for a in range(b)]
            return dict.fromkeys(ends, (tier.bandwidth * tier.ports, kind.classes[0].alpha_s))
        case "neighbour_links":
            return dict.fromkeys(
                _neighbours(kind, tier), (tier.bandwidth * tier.ports, kind.classes[0].alpha_s)
            )
        case "routes":
            wires = kind.wires(tier.endpoints)
            graph = wires and wires.between_ranks
            if graph is None:
                raise _at_switches(tier)
            return _of_graph(graph)
        case "switches" | "tiers":
            raise _at_switches(tier)
        case _:
            assert_never(joined)


def _of_graph(graph: GraphWires) -> Links:
    found: Links = {}
    for edge in graph.edges:
        if edge.a < edge.b:
            before, _ = found.get((edge.a, edge.b), (0.0, 0.0))
            found[edge.a, edge.b] = before + edge.Bps, edge.alpha_s
    return found


def _neighbours(kind: TierCapabilities[Tier], tier: Tier) -> list[tuple[int, int]]:
    """Of a torus or mesh, the first axis fastest."""
    found, stride = [], 1
    if any(axis.twist for axis in kind.axes):
        fix = given("overrides", [f"{tier.name}.twist=false"])
        raise ColltoolError(
            f"the links of a twisted torus, '{tier.name}', are not written out",
            argument="without",
            fix=fix,
        )
    for axis in kind.axes:
        for rank in range(tier.endpoints):
            place = rank // stride % axis.size
            if place + 1 < axis.size:
                found.append((rank, rank + stride))
            elif axis.is_ring:
                found.append((rank - place * stride, rank))
        stride *= axis.size
    return found


def _at_switches(tier: Tier) -> ColltoolError:
    fix = f"a rank less is {given('overrides', [f'{tier.name}.size={tier.endpoints - 1}'])}"
    return ColltoolError(
        f"ranks of '{tier.name}' have ports at a switch, not links", argument="without", fix=fix
    )


def _edge(ends: tuple[int, int], numbers: tuple[float, float], plain: tuple[float, float]) -> Any:
    if numbers == plain:
        return list(ends)
    (rate, alpha_s), more = numbers, {}
    if rate != plain[0]:
        more["bandwidth"] = f"{rate / 1e9!r}GB/s"
    if alpha_s != plain[1]:
        more["alpha"] = f"{alpha_s * 1e6!r}us"
    return {"between": list(ends), **more}
