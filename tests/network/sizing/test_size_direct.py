"""Dragonflies, dragonfly+ and HyperX: published sizes, every shape tried out, uniform traffic and
all halves of explicit ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from math import ceil, prod

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric
from colltool.fabric.properties import fabric_facts
from colltool.network.sizing.size_direct import (
    DIRECT,
    Direct,
    DirectPlan,
    _dragonfly_of,
    _RailRequest,
    direct_plan,
)
from colltool.network.wires import DragonflyWires
from colltool.render.dispatch import document

Switch = tuple[int, ...]
Cable = tuple[Switch, Switch, int]


def dealt(groups: int, gateways: int, parallel: int) -> DragonflyWires:
    """Where cables between groups end."""
    one = {"local_Bps": 1.0, "local_alpha_s": 0.0, "global_Bps": 1.0, "global_alpha_s": 0.0}
    sizes = {"endpoints": groups * gateways, "hosts": 1, "switches": gateways, "groups": groups}
    return DragonflyWires(**sizes, **one, spines=0, cables=parallel, routing="minimal")  # type: ignore[arg-type]


def cables(plan: DirectPlan) -> Iterator[Cable]:
    """One by one: the two switches, and a number; spines follow the leaves of their group."""
    each = [one.parallel for one in plan.levels[1:]]
    if plan.topology == "hyperx":
        places = list(product(*map(range, plan.shape)))
        for a, b in combinations(places, 2):
            apart = [axis for axis, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
            if len(apart) == 1:
                yield from ((a, b, number) for number in range(each[apart[0]]))
        return
    switches, groups = plan.shape
    first = switches if plan.spines else 0
    pairs = list(
        product(range(switches), range(first, first + plan.spines))
        if first
        else combinations(range(switches), 2)
    )
    for group, (a, b) in product(range(groups), pairs):
        yield from (((group, a), (group, b), number) for number in range(each[0]))
    if groups > 1:
        wires = dealt(groups, plan.spines or switches, each[1])
        for (a, b), number in product(combinations(range(groups), 2), range(each[1])):
            ends = wires.gateway(a, b, number), wires.gateway(b, a, number)
            yield (a, first + ends[0]), (b, first + ends[1]), number


def endpoint_switches(plan: DirectPlan) -> list[Switch]:
    if plan.topology == "hyperx":
        return list(product(*map(range, plan.shape)))
    return list(product(range(plan.shape[1]), range(plan.shape[0])))


def routes(
    plan: DirectPlan,
    a: Switch,
    b: Switch,
    between: dict[tuple[int, int], list[tuple[Switch, Switch]]],
) -> list[list[Switch]]:
    """The minimal ones, alike used: over axes in rotating order, or by each cable between two
    groups."""
    if plan.topology == "hyperx":
        axes = len(a)
        found = []
        for turn in range(axes):
            at, passed = a, [a]
            for axis in (*range(turn, axes), *range(turn)):
                at = (*at[:axis], b[axis], *at[axis + 1 :])
                passed.append(at)
            found.append(passed)
        return found
    if a[0] != b[0]:
        return [[*way(plan, a, x), *way(plan, y, b)] for x, y in between[a[0], b[0]]]
    if plan.spines:
        return [[a, (a[0], plan.shape[0] + spine), b] for spine in range(plan.spines)]
    return [[a, b]]


def way(plan: DirectPlan, a: Switch, b: Switch) -> list[Switch]:
    return [a] if a == b else [a, b]


def loads(plan: DirectPlan) -> dict[tuple[Switch, Switch], float]:
    """By one-way pair of switches, over the cables between them, when every endpoint sends a port's
    rate, alike to all."""
    bundle: Counter[tuple[Switch, Switch]] = Counter()
    between: dict[tuple[int, int], list[tuple[Switch, Switch]]] = {}
    for a, b, _ in cables(plan):
        bundle.update([(a, b), (b, a)])
        if plan.topology != "hyperx" and a[0] != b[0]:
            between.setdefault((a[0], b[0]), []).append((a, b))
            between.setdefault((b[0], a[0]), []).append((b, a))
    ends = endpoint_switches(plan)
    ports = plan.levels[0].ports
    put: Counter[tuple[Switch, Switch]] = Counter()
    for a, b in product(ends, repeat=2):
        if a != b:
            several = routes(plan, a, b, between)
            for passed in several:
                for hop in pairwise(passed):
                    if hop[0] != hop[1]:
                        put[hop] += ports / len(ends) / len(several)  # type: ignore[assignment]
    return {pair: load / bundle[pair] for pair, load in put.items()}


def sized(topology: Direct, endpoints: int, radix: int, most: float = 1.0) -> DirectPlan | None:
    try:
        return direct_plan(topology, endpoints, 1, radix, most=most)
    except ColltoolError as error:
        if "joins" not in error.what:
            raise
        return None


SMALL = (
    st.sampled_from(DIRECT),
    st.integers(2, 90),
    st.integers(4, 14),
    st.sampled_from([1.0, 1.5, 2.0, 3.0]),
)


@given(*SMALL)
@settings(max_examples=examples(60), deadline=None)
def test_an_explicit_one_has_the_ports_the_cables_and_the_loads(
    topology: Direct, endpoints: int, radix: int, most: float
) -> None:
    plan = sized(topology, endpoints, radix, most)
    if plan is None:
        return
    every = list(cables(plan))
    at = Counter(end for a, b, _ in every for end in (a, b))
    ends = endpoint_switches(plan)
    assert len(every) == plan.cables == sum(one.cables for one in plan.levels[1:])
    assert (
        len(ends) + plan.spines * plan.shape[-1]
        == plan.switches
        == sum(one.switches for one in plan.levels)
    )
    assert all(at[end] + plan.hosts <= radix for end in ends)
    assert all(count <= radix for count in at.values())
    assert len(ends) * plan.hosts == endpoints + plan.spare_ports
    busiest = max(loads(plan).values(), default=0.0)
    assert busiest <= plan.oversubscription + 1e-9
    assert plan.oversubscription <= most + 1e-9
    if (
        topology == "hyperx"
        or plan.shape[1] == 1
        or (plan.shape[1] - 1) * plan.levels[2].parallel % (plan.spines or plan.shape[0]) == 0
    ):
        assert busiest == pytest.approx(plan.oversubscription)


def least_cut(plan: DirectPlan) -> float:
    """Of all halves of the switches with endpoints, spines on either side, over what a half
    injects."""
    every = [(a, b) for a, b, _ in cables(plan)]
    ends = endpoint_switches(plan)
    spines = [
        (group, plan.shape[0] + one)
        for group in range(plan.shape[-1])
        for one in range(plan.spines)
    ]
    sides = product(combinations(ends, len(ends) // 2), product((False, True), repeat=len(spines)))
    halves = (
        {*half, *(one for one, here in zip(spines, also, strict=True) if here)}
        for half, also in sides
    )
    return min(sum((a in half) != (b in half) for a, b in every) for half in halves) / (
        len(ends) // 2 * plan.hosts
    )


@swept(
    ("topology", "endpoints", "radix", "most", "exact"),
    [
        ("dragonfly", 17, 6, 1.0, False),
        ("dragonfly", 33, 10, 2.0, False),
        ("dragonfly", 16, 6, 1.0, True),
        ("dragonfly_plus", 12, 6, 1.0, False),
        ("hyperx", 32, 8, 1.0, False),
        ("hyperx", 27, 7, 1.0, False),
    ],
)
def test_no_half_is_cut_off_more_than_is_said(
    topology: Direct, endpoints: int, radix: int, most: float, exact: bool
) -> None:
    plan = sized(topology, endpoints, radix, most)
    assert plan is not None
    cut = least_cut(plan)
    assert cut >= plan.bisection - 1e-9
    assert cut == pytest.approx(plan.bisection) or not exact


def every_shape(
    topology: Direct, endpoints: int, radix: int, most: float
) -> Iterator[tuple[int, int]]:
    """Switches and cables between them of every shape that serves, tried out one count at a
    time."""
    counts = range(1, radix + 1)
    few = range(1, endpoints + 1)
    if topology == "hyperx":
        for axes in (1, 2, 3):
            for shape in product(range(1, radix + 1), repeat=axes):
                nodes, hosts = prod(shape), ceil(endpoints / prod(shape))
                for each in product(range(1, 5), repeat=axes):
                    between = sum((size - 1) * one for size, one in zip(shape, each, strict=True))
                    carried = all(
                        size == 1 or hosts <= most * size * one + 1e-9
                        for size, one in zip(shape, each, strict=True)
                    )
                    if carried and hosts + between <= radix:
                        yield nodes, nodes * between // 2
        return
    for switches, groups, spines in product(
        counts, few, counts if topology == "dragonfly_plus" else [0]
    ):
        hosts = ceil(endpoints / (switches * groups))
        for local, far in product(range(1, radix + 1), range(1, 13) if groups > 1 else [0]):
            out = (groups - 1) * far
            at_gateway = ceil(out / (spines or switches))
            share = at_gateway / out * (groups - 1) / groups if out else 0.0
            if spines:
                load = hosts * (share + (switches - 1) / switches / groups / spines) / local
                used = max(hosts + spines * local, switches * local + at_gateway)
            else:
                load = hosts * (2 * share + 1 / groups / switches) / local if switches > 1 else 0.0
                used = hosts + (switches - 1) * local + at_gateway
            if (
                used <= radix
                and max(load, switches * hosts / groups / far if out else 0.0) <= most + 1e-9
            ):
                inside = switches * spines if spines else switches * (switches - 1) // 2
                yield (
                    groups * (switches + spines),
                    groups * inside * local + groups * (groups - 1) // 2 * far,
                )


@given(st.sampled_from(DIRECT), st.integers(2, 24), st.integers(3, 7), st.sampled_from([1.0, 2.0]))
@settings(max_examples=examples(25), deadline=None)
def test_no_shape_takes_fewer(topology: Direct, endpoints: int, radix: int, most: float) -> None:
    plan = sized(topology, endpoints, radix, most)
    best = min(every_shape(topology, endpoints, radix, most), default=None)
    if best is None or (topology == "hyperx" and plan is not None and len(plan.shape) > 3):
        assert plan is None or len(plan.shape) > 3
    else:
        assert plan is not None
        assert (plan.switches, plan.cables) <= best
        assert len(plan.shape) > 3 or (plan.switches, plan.cables) == best


@pytest.mark.parametrize(
    ("endpoints", "radix", "hosts", "shape"),
    [
        (72, 7, 2, (4, 9)),
        (1056, 15, 4, (8, 33)),
        (16 * 32 * 513, 63, 16, (32, 513)),
        (16 * 32 * 513, 64, 16, (32, 513)),
    ],
)
def test_published_dragonflies(
    endpoints: int, radix: int, hosts: int, shape: tuple[int, int]
) -> None:
    """The largest balanced ones, a = 2p = 2h, g = ah+1: Kim et al. 2008, figures 4 and 5; over 256K
    endpoints of radix 64."""
    plan = direct_plan("dragonfly", endpoints, 1, radix)
    assert (plan.hosts, plan.shape, plan.diameter, plan.spare_ports) == (hosts, shape, 5, 0)
    assert {one.parallel for one in plan.levels} == {1}
    assert sized("dragonfly", endpoints + 1, min(radix, 63)) is None


def test_published_dragonfly_plus() -> None:
    """k²/4 endpoints a group and as many cables out of it, so k²/4+1 groups: Shpiner et al.
    2017."""
    for radix in (8, 36):
        group = radix**2 // 4
        plan = direct_plan("dragonfly_plus", group * (group + 1), 1, radix)
        assert (plan.hosts, plan.spines, plan.shape) == (
            radix // 2,
            radix // 2,
            (radix // 2, group + 1),
        )
        assert sized("dragonfly_plus", group * (group + 1) + 1, radix) is None


def test_frontier_as_it_was_built() -> None:
    """74 groups of 32 switches, 16 ports of each for nodes, four cables to every other group: 512
    ports over 292, 57%."""
    made = _dragonfly_of(_RailRequest(9472 * 4, 1, 64, 1.75), 32, 74)
    assert made is not None
    assert (made.hosts, made.parallel) == (16, (1, 4))


@swept("topology", DIRECT)
@swept(("endpoints", "radix"), [(60, 8), (256, 16), (12, 16)])
def test_the_file_that_it_names_has_what_it_counts(
    topology: Direct, endpoints: int, radix: int
) -> None:
    plan = direct_plan(topology, endpoints, 1, radix)
    own: dict[str, object] = {"name": "net", "alpha": "2us", "bandwidth": "50GB/s"}
    rate = {"bandwidth": "50GB/s", "alpha": "0.5us"}
    keys = {
        key: value | rate if isinstance(value, dict) else value for key, value in plan.tier.items()
    }
    fabric = load_fabric({"name": "sized", "tiers": [own | keys]})
    facts = fabric_facts(fabric).tiers[0]
    room = endpoints + plan.spare_ports
    assert (facts.endpoints, facts.switches, facts.links) == (
        room,
        plan.switches,
        room + plan.cables,
    )
    assert facts.diameter_links == plan.diameter
    half = room // 2 * 50e9
    assert plan.bisection * half * (1 - 1e-9) <= facts.bisection_Bps <= half * (1 + 1e-9)
    assert colltool.price(fabric, "a2a", size="1MB", ranks=room).best.total_s > 0


def test_rails_and_ports_of_an_endpoint() -> None:
    """Two rails are two of the same; two ports of one endpoint on a rail end at one switch."""
    one, two = (direct_plan("hyperx", 300, rails, 16, rails=rails) for rails in (1, 2))
    assert (two.switches, two.cables, two.ports, two.tier) == (
        2 * one.switches,
        2 * one.cables,
        600,
        {},
    )
    wide = direct_plan("hyperx", 300, 2, 32)
    assert (wide.levels[0].ports, wide.ports) == (2 * wide.hosts, 600)


def test_beside_a_clos_and_what_it_costs() -> None:
    """4096 ports of 64-port switches: a 10x21 HyperX with 20 each, a Clos of 320 switches; copper
    has no optics."""
    result = colltool.size_fabric(
        4096, 64, topology="hyperx", prices={"currency": "USD", "switch": 30000, "optic": 600}
    )
    told = document(result)
    assert (told["switches"], told["shape"], told["bisection"]) == (210, [10, 21], 0.5)
    assert told["bill"]["cost"]["parts"] == 210 * 30000 + 2 * (4096 + 1890 + 2100) * 600
    assert told["clos"]["switches"] == colltool.size_fabric(4096, 64).plan.switches == 320
    assert told["clos"]["cost"]["parts"] == 320 * 30000 + 2 * 3 * 4096 * 600
    copper = colltool.size_fabric(
        4096, 64, topology="hyperx", prices={"currency": "USD", "optic": 600, "copper": ["switch"]}
    )
    assert document(copper)["bill"]["cost"]["parts"] == 2 * (1890 + 2100) * 600
    assert document(copper)["clos"]["cost"]["parts"] == 2 * 2 * 4096 * 600, (
        "endpoints are on copper there too"
    )
    assert [(one.part, one.count, one.cut_off) for one in result.failures] == [
        ("NIC", 4096, 1),
        ("switch", 210, 20),
    ]


@swept(
    ("arguments", "words"),
    [
        ({"topology": "ring"}, "'ring' is no topology that is sized"),
        ({"topology": "hyperx", "levels": 2}, "levels: does not apply to a hyperx"),
        ({"topology": "dragonfly", "oversubscription": "2,2"}, "a dragonfly takes one ratio"),
        (
            {"topology": "dragonfly", "oversubscription": "48x400Gbps:8x800Gbps"},
            "a dragonfly takes one ratio",
        ),
        (
            {"topology": "dragonfly", "ports_per_endpoint": 3, "rails": 2},
            "2 rails do not divide the 3 ports",
        ),
        ({"topology": "dragonfly", "endpoints": 10**8}, "are more than 10000000"),
        (
            {"topology": "dragonfly", "endpoints": 10**6},
            "no dragonfly of 64-port switches joins 1000000 ports at 1:1",
        ),
        ({"topology": "dragonfly_plus", "radix": 2}, "no dragonfly.* of 2-port switches"),
        ({"topology": "hyperx", "radix": 2000}, "2 to 1024 ports"),
        ({"topology": 3}, "topology: expected"),
    ],
)
def test_what_is_no_such_network(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.size_fabric(**{"endpoints": 64, "radix": 64} | arguments)  # type: ignore[arg-type]
