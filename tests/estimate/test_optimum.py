"""Each kind of network at small sizes against the best that any routing and any schedule could do,
by linear programmes.

The arcs are written down here from the meaning of each topology, not from colltool's own wires.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any, NamedTuple

import lp
import pytest
from small import CUBE_MESH, clos, dragonfly, fabric, full_mesh, graph, hyperx, mesh, star, torus
from swept import swept

import colltool

BW = 1.0  # of a link, in units of the 100 GB/s that the fabrics have

Arcs = dict[tuple[int, int], float]


def ports(ranks: int, hosts: int = 0) -> Arcs:
    """Each rank to its switch and back; ``hosts`` of them at each, 0: all at one."""
    return lp.both_ways(
        [(rank, ranks + (rank // hosts if hosts else 0)) for rank in range(ranks)], BW
    )


def grid(shape: tuple[int, ...], rates: tuple[float, ...]) -> Arcs:
    """Every two places that differ along one axis alone, the first axis fastest."""
    places = [place[::-1] for place in product(*(range(size) for size in reversed(shape)))]
    found: Arcs = {}
    for (a, here), (b, there) in combinations(enumerate(places), 2):
        differ = [axis for axis, (x, y) in enumerate(zip(here, there, strict=True)) if x != y]
        if len(differ) == 1:
            found |= {(a, b): rates[differ[0]], (b, a): rates[differ[0]]}
    return found


def shifted(arcs: Arcs, by: int) -> Arcs:
    return {(a + by, b + by): Bps for (a, b), Bps in arcs.items()}


def groups_of(count: int, switches: int, hosts: int, links: int) -> Arcs:
    """A dragonfly: all switches of a group joined, ``links`` cables between two groups, ports dealt
    out by distance."""
    ranks = count * switches * hosts
    found = ports(ranks, hosts)
    for group in range(count):
        inside = lp.both_ways(combinations(range(switches), 2), BW)
        found |= shifted(inside, ranks + group * switches)
    for a, b in combinations(range(count), 2):
        for cable in range(links):
            ends = []
            for here, there in ((a, b), (b, a)):
                port = ((there - here) % count - 1) * links + cable
                ends.append(ranks + here * switches + port * switches // ((count - 1) * links))
            for one in (tuple(ends), tuple(reversed(ends))):
                found[one] = found.get(one, 0.0) + BW
    return found


class Case(NamedTuple):
    tier: dict[str, Any]
    arcs: Arcs
    ranks: int


def mixed(ranks: int, *cables: tuple[int, int, int]) -> Case:
    """Links of so many cables each; nodes from ``ranks`` on are switches."""
    edges = [
        {"between": [end if end < ranks else f"s{end}" for end in (a, b)], "links": links}
        for a, b, links in cables
    ]
    return Case(
        graph(*edges),
        {way: links * BW for a, b, links in cables for way in ((a, b), (b, a))},
        ranks,
    )


def links_between(shape: tuple[int, ...], *, wrap: bool) -> Arcs:
    return {ends: Bps * BW for ends, Bps in lp.lattice(shape, wrap=wrap).items()}


def part_closed() -> Arcs:
    """4 x 3, the first axis a ring, the second open."""
    rings = [(4 * row + at, 4 * row + (at + 1) % 4) for row in range(3) for at in range(4)]
    return lp.both_ways([*rings, *((at, at + 4) for at in range(8))], BW)


CASES = {
    "star": Case(star(6), ports(6), 6),
    "full mesh": Case(full_mesh(6), lp.both_ways(combinations(range(6), 2), BW), 6),
    "clos": Case(clos(6, alpha=1.0, bw=100.0), ports(6), 6),
    "ring": Case(torus(6), links_between((6,), wrap=True), 6),
    "torus": Case(torus(4, 4), links_between((4, 4), wrap=True), 16),
    "torus of unequal axes": Case(torus(3, 5), links_between((3, 5), wrap=True), 15),
    "torus with an axis of two": Case(torus(4, 2), links_between((4, 2), wrap=True), 8),
    "twisted torus": Case(
        torus(2, 2, 4, twist=True),
        lp.lattice((2, 2, 4), twist=dict.fromkeys((0, 1), (0, 0, 2))),
        16,
    ),
    "line": Case(mesh(4), links_between((4,), wrap=False), 4),
    "mesh": Case(mesh(4, 2), links_between((4, 2), wrap=False), 8),
    "mesh of three axes": Case(mesh(2, 3, 2), links_between((2, 3, 2), wrap=False), 12),
    "part-closed torus": Case(torus(4, 3, wrap=[True, False]), part_closed(), 12),
    "cube mesh": Case(
        graph(*({"between": list(ends), "links": links} for ends, links in CUBE_MESH.items())),
        {way: links * BW for (a, b), links in CUBE_MESH.items() for way in ((a, b), (b, a))},
        8,
    ),
    "a ring with a chord": Case(
        graph((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)),
        lp.both_ways([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)], BW),
        5,
    ),
    "pairs at a switch": mixed(4, (0, 1, 1), (2, 3, 1), *((rank, 4, 1) for rank in range(4))),
    "a ring at a switch": mixed(
        4, (0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 3, 1), *((rank, 4, 1) for rank in range(4))
    ),
    "pairs at two switches": mixed(
        4, (0, 1, 1), (2, 3, 1), (0, 4, 1), (1, 4, 1), (2, 5, 1), (3, 5, 1), (4, 5, 1)
    ),
    "cube mesh with its PCIe switches": mixed(
        8,
        *((a, b, links) for (a, b), links in CUBE_MESH.items()),
        *((rank, 8 + rank // 2, 1) for rank in range(8)),
        (8, 9, 1),
        (9, 10, 1),
        (10, 11, 1),
    ),
    "HyperX of ranks": Case(hyperx(3, 3), grid((3, 3), (BW, BW)), 9),
    "HyperX, slower axis": Case(
        hyperx(4, 2, links=[{}, {"bandwidth": "50GB/s"}]), grid((4, 2), (BW, BW / 2)), 8
    ),
    "HyperX of switches": Case(
        hyperx(2, 3, hosts=2), ports(12, 2) | shifted(grid((2, 3), (BW, BW)), 12), 12
    ),
    "balanced dragonfly": Case(dragonfly(1, 3, 4), groups_of(4, 3, 1, 1), 12),
    "dragonfly of cables to spare": Case(dragonfly(2, 2, 3, cables=2), groups_of(3, 2, 2, 2), 12),
}
BEST = {"a2a": lp.all_to_all_s, "ag": lp.all_gather_s, "bc": lp.broadcast_s}


@pytest.mark.ci
@swept("primitive", BEST)
@swept("name", CASES, most=3)
def test_the_fastest_schedule_is_within_a_hundredth_of_the_optimum(
    name: str, primitive: str
) -> None:
    case = CASES[name]
    rows = colltool.price(
        fabric(case.tier), primitive, size=100e9, ideal=True, library="all"
    ).results
    fastest = min(float(one.bandwidth_s) for one in rows)
    best = BEST[primitive](case.arcs, case.ranks)
    assert best * (1 - 1e-6) <= fastest <= best * 1.01
