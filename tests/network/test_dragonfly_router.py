"""Routes of a dragonfly: sums by switch against message by message; capacities and distances
against its cables."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from small import dragonfly, fabric
from swept import swept

from colltool.fabric.topology import capabilities_of
from colltool.network.dragonfly_router import DragonflyRouter
from colltool.network.routers import Router
from colltool.network.wires import DragonflyWires, Routing

LOCAL, GLOBAL = 10.0, 7.0
SHAPES = [
    shape
    for shape in product((1, 2), (1, 2, 3, 4), (1, 2, 3, 5), (0, 1, 3), (1, 3))
    if shape[1] * shape[2] > 1
]  # hosts, switches, groups, spines, cables

Switch = tuple[str, int, int]  # kind, group, number in it


def wires(
    hosts: int, switches: int, groups: int, spines: int, cables: int, routing: Routing = "minimal"
) -> DragonflyWires:
    return DragonflyWires(
        endpoints=hosts * switches * groups,
        hosts=hosts,
        switches=switches,
        groups=groups,
        spines=spines,
        local_Bps=LOCAL,
        local_alpha_s=1.0,
        global_Bps=GLOBAL,
        global_alpha_s=1.0,
        cables=cables,
        routing=routing,
    )


def cables(of: DragonflyWires) -> list[tuple[Switch, Switch, float]]:
    """Between switches; a gateway's ports are dealt out by distance to the other group, evenly over
    the group."""
    found: list[tuple[Switch, Switch, float]] = []
    for group in range(of.groups):
        leaves = [("leaf", group, number) for number in range(of.switches)]
        spines = [("spine", group, number) for number in range(of.spines)]
        found += [
            (a, b, LOCAL)
            for a, b in (product(leaves, spines) if spines else combinations(leaves, 2))
        ]
    kind, gateways = ("spine", of.spines) if of.spines else ("leaf", of.switches)
    for a, b in combinations(range(of.groups), 2):
        for cable in range(of.cables):
            ports = [
                ((there - here) % of.groups - 1) * of.cables + cable
                for here, there in ((a, b), (b, a))
            ]
            ends = [port * gateways // ((of.groups - 1) * of.cables) for port in ports]
            found.append(((kind, a, ends[0]), (kind, b, ends[1]), GLOBAL))
    return found


@pytest.mark.parametrize("routing", ["minimal", "valiant", "adaptive"])
def test_a_step_summed_by_switch_loads_what_its_messages_do(routing: Routing) -> None:
    rng = np.random.default_rng(24)
    for shape in SHAPES:
        router = DragonflyRouter(wires(*shape, routing))
        src, dst = rng.integers(0, shape[1] * shape[2], (2, 30))
        # message by message it chooses for equal ones
        size = np.ones(30) if routing == "adaptive" else rng.random(30)
        summed = router.loads(src, dst, size)
        if routing == "minimal":  # of few messages these are not summed
            summed = router._minimal_loads(router._traffic(src, dst, size))
        for one, other in zip(summed, Router.loads(router, src, dst, size), strict=True):
            assert one == pytest.approx(other, abs=1e-9), shape


def test_links_leave_out_no_byte() -> None:
    """Every message to another group passes one cable between groups, or two by way of a third."""
    for shape in (one for one in SHAPES if one[2] > 2):
        everywhere = np.arange(shape[1] * shape[2])
        src, dst = (ends.ravel() for ends in np.meshgrid(everywhere, everywhere))
        away = (src // shape[1] != dst // shape[1]).sum()
        for routing, times in (("minimal", 1), ("valiant", 2)):
            router = DragonflyRouter(wires(*shape, routing))  # type: ignore[arg-type]
            assert router.loads(src, dst, np.ones(len(src)))[router.between].sum() == pytest.approx(
                times * away
            )


def test_what_leaves_the_first_switches_are_their_cables() -> None:
    for shape in SHAPES:
        of = wires(*shape)
        all_cables = cables(of)
        for count in range(1, of.switches * of.groups):
            inside = {
                ("leaf", number // of.switches, number % of.switches) for number in range(count)
            }
            whole, part = divmod(count, of.switches)
            inside |= {
                ("spine", group, spine) for group in range(whole) for spine in range(of.spines)
            }
            sides = [
                inside,
                inside | {("spine", whole, spine) for spine in range(of.spines if part else 0)},
            ]
            out = [
                sum(rate for a, b, rate in all_cables if (a in side) != (b in side))
                for side in sides
            ]
            assert of.leaving_Bps(count) == pytest.approx(min(out)), (shape, count)


EXACT = [(2, 3, 2), (2, 5, 1), (3, 3, 1), (4, 3, 4), (3, 5, 1), (3, 4, 1)]


@swept(
    ("switches", "groups", "each", "most"),
    [*((*one, 1.0) for one in EXACT), (2, 5, 2, 1.3), (2, 6, 1, 1.3)],
)
def test_half_of_the_switches_against_every_half(
    switches: int, groups: int, each: int, most: float
) -> None:
    """Where cables between groups outweigh those inside, halves that split every group may carry
    less."""
    of = DragonflyWires(
        switches * groups, 1, switches, groups, 0, LOCAL, 0.0, GLOBAL, 0.0, each, "minimal"
    )
    every, links = (
        [("leaf", *place) for place in product(range(groups), range(switches))],
        cables(of),
    )
    halves = map(set, combinations(every, len(every) // 2))
    least = min(sum(rate for a, b, rate in links if (a in half) != (b in half)) for half in halves)
    assert least <= of.bisection_Bps * (1 + 1e-9)
    assert of.bisection_Bps <= least * most * (1 + 1e-9)


def test_every_cut_has_no_less_than_its_cables() -> None:
    """A cut that claimed too little would refuse prices that are right."""
    for shape in SHAPES:
        of = wires(*shape)
        for cut in of.cuts():
            first, after = cut.first // of.hosts, -(-cut.after // of.hosts)
            inside = {
                ("leaf", number // of.switches, number % of.switches)
                for number in range(first, after)
            }
            inside |= {
                ("spine", group, spine)
                for group in range(after // of.switches if first == 0 else 0)
                for spine in range(of.spines)
            }
            near = {("spine", after // of.switches, spine) for spine in range(of.spines)}
            out = [
                sum(rate for a, b, rate in cables(of) if (a in side) != (b in side))
                for side in (inside, inside | near)
            ]
            assert cut.Bps >= min(out) * (1 - 1e-9), (shape, cut)


def test_minimal_routes_are_no_shorter_than_the_cables_allow() -> None:
    for hosts, switches, groups, spines, links in SHAPES:
        of = wires(hosts, switches, groups, spines, links)
        beside: dict[Switch, set[Switch]] = {
            ("leaf", g, s): set() for g in range(groups) for s in range(switches)
        }
        for a, b, _ in cables(of):
            beside.setdefault(a, set()).add(b)
            beside.setdefault(b, set()).add(a)
        farthest = 0
        for start in [one for one in beside if one[0] == "leaf"]:
            apart, waiting = {start: 0}, [start]
            for here in waiting:
                for there in beside[here] - set(apart):
                    apart[there] = apart[here] + 1
                    waiting.append(there)
            farthest = max(farthest, *(far for node, far in apart.items() if node[0] == "leaf"))
        tier = fabric(dragonfly(hosts, switches, groups, spines, cables=links)).tiers[0]
        assert farthest <= capabilities_of(tier).diameter_links - 2 <= 3
