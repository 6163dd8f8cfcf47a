"""Sizing: how many switches and cables a k-ary fat-tree or a rail-optimised Clos takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from colltool.errors import ColltoolError


@dataclass(frozen=True)
class FatTree:
    """A non-blocking k-ary fat-tree of equal k-port switches; ``links`` are cables, those to the endpoints included."""

    k: int
    pods: int
    endpoints: int
    edge: int
    aggregation: int
    core: int
    switches: int
    links: int


@dataclass(frozen=True)
class RailPods:
    """A rail-optimised two-level Clos: every rail its own leaves and spines, no cable between rails.

    ``leaves``, ``spines`` and ``cables_per_pair`` are of one rail; ``switches`` and ``cables`` (leaf to spine) of all rails.
    """

    rails: int
    down_ports: int
    up_ports: int
    leaves: int
    spines: int
    cables_per_pair: int
    switches: int
    cables: int
    notes: tuple[str, ...] = ()


def fat_tree(k: int) -> FatTree:
    """The k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core, k³/4 endpoints, 5k²/4 switches.

    Three layers of k³/4 cables each. Source: Al-Fares, Loukissas, Vahdat, "A scalable, commodity data center network
    architecture", SIGCOMM 2008, 63-74, §3, doi:10.1145/1402958.1402967.

    >>> tree = fat_tree(4)
    >>> tree.endpoints, tree.switches, tree.links
    (16, 20, 48)

    Raises:
        ColltoolError: k is odd or below 2.
    """
    if k < 2 or k % 2:
        raise ColltoolError(f"a fat-tree needs an even number of ports per switch, got {k}", fix="give 2, 4, 6, ...")
    per_layer, core, endpoints = k * k // 2, (k // 2) ** 2, k**3 // 4
    return FatTree(
        k=k,
        pods=k,
        endpoints=endpoints,
        edge=per_layer,
        aggregation=per_layer,
        core=core,
        switches=2 * per_layer + core,
        links=3 * endpoints,
    )


def fat_tree_for(endpoints: int) -> FatTree:
    """The smallest k-ary fat-tree that holds the endpoints.

    Raises:
        ColltoolError: no endpoint to hold.
    """
    _at_least_one(endpoints=endpoints)
    k = 2
    while k**3 < 4 * endpoints:
        k += 2
    return fat_tree(k)


def rail_pods(pods: int, rails: int, nics_per_rail: int, radix: int, oversubscription: float = 1.0) -> RailPods:
    """Size a rail-optimised two-level Clos of equal switches.

    A leaf splits its radix at the ratio s = down/up: down = radix·s/(1+s), up = radix/(1+s). Per rail, leaves =
    pods·nics_per_rail/down, spines = leaves·up/radix, parallel cables per leaf-spine pair = up/spines; totals times rails.
    Leaves and spines are rounded up to whole switches, spines on to a number that divides the uplinks, with a note. Source:
    Collectives Explainer Series part 03 appendix A.

    Args:
        pods: lower-tier domains.
        rails: separate fabrics.
        nics_per_rail: NICs of one pod on one rail.
        radix: ports of a switch, leaf and spine alike.
        oversubscription: s >= 1 at the leaf's uplinks.

    Raises:
        ColltoolError: a count below 1, s below 1, a port split that is not whole, or more leaves than a spine has ports.
    """
    _at_least_one(pods=pods, rails=rails, nics_per_rail=nics_per_rail, radix=radix)
    down, up = _split_ports(radix, oversubscription)
    leaves = ceil(pods * nics_per_rail / down)
    if leaves > radix:
        raise ColltoolError(
            f"{leaves} leaves per rail are more than the {radix} ports of a spine",
            fix="two levels do not join them: take a larger radix, more rails or a third level",
        )
    spines = next(count for count in range(ceil(leaves * up / radix), up + 1) if up % count == 0) if leaves > 1 else 0
    notes = _rounding_notes(pods * nics_per_rail, nics_per_rail, (down, up, radix), leaves, spines)
    per_pair = up // spines if spines else 0
    cables = rails * leaves * spines * per_pair
    return RailPods(
        rails=rails,
        down_ports=down,
        up_ports=up,
        leaves=leaves,
        spines=spines,
        cables_per_pair=per_pair,
        switches=rails * (leaves + spines),
        cables=cables,
        notes=notes,
    )


def _split_ports(radix: int, oversubscription: float) -> tuple[int, int]:
    """Down and up ports of a leaf, whole and in exactly the ratio asked for."""
    if not oversubscription >= 1:
        raise ColltoolError(f"an oversubscription of {oversubscription:g} is below 1", fix="1 is non-blocking, 2 is 2:1")
    up = round(radix / (1 + oversubscription))
    down = radix - up
    if up < 1 or abs(down - oversubscription * up) > 1e-9 * radix:
        raise ColltoolError(
            f"{radix} ports do not split into whole numbers at {oversubscription:g}:1",
            fix=f"the nearest split is {radix - max(up, 1)} down and {max(up, 1)} up, {(radix - max(up, 1)) / max(up, 1):.4g}:1",
        )
    return down, up


def _rounding_notes(nics: int, per_pod: int, ports: tuple[int, int, int], leaves: int, spines: int) -> tuple[str, ...]:
    """What was rounded up, or left over, in the sizing of one rail; ``ports`` down and up of a leaf, and of a spine."""
    down, up, radix = ports
    notes = []
    if nics % down:
        notes.append(f"{nics} NICs per rail fill {leaves} leaves of {down} down-ports only in part")
    if down % per_pod and nics > down:
        notes.append(f"the {per_pod} NICs of a pod do not divide a leaf's {down} down-ports: some pods straddle two leaves")
    if not spines:
        notes.append("one leaf joins a whole rail: no spine is needed")
    elif leaves * up < spines * radix:
        notes.append(f"{spines} spines per rail use {leaves * up // spines} of their {radix} ports")
    return tuple(notes)


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ColltoolError(f"{name} must be at least 1, got {count}")
