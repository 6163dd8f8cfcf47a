"""Every registered formula against the tables of the cost model, written out here a second time,
and against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from math import ceil, log2, prod

import pytest
from effort import some
from swept import swept

import colltool.algorithms as filled
from colltool.algorithms.composed import every_composition
from colltool.algorithms.lattice import busiest_link
from colltool.algorithms.registry import algorithms, find, usual_algorithms
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    P2P,
    REDUCE,
    RS,
    Primitive,
    Rounds,
    Terms,
    least_n_beta,
    totals,
)
from colltool.network.group import Axis, Group, Topology

assert filled

COUNTS = [2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33, 64, 72, 100, 128, 500, 512, 1000, 4096]
POWERS = [n for n in COUNTS if log2(n).is_integer()]
EVERYTHING = frozenset({"reduce", "multicast", "all_to_all"})
SHAPES = [
    *[(d,) for d in (2, 3, 4, 5, 8, 9, 72)],
    *[(2, 2), (3, 2), (2, 5), (4, 4), (5, 3), (16, 8), (1, 6), (7, 1)],
    *[
        (2, 2, 2),
        (4, 4, 4),
        (4, 4, 3),
        (4, 3, 2),
        (8, 8, 8),
        (16, 16, 4),
        (5, 1, 3),
        (256, 2, 2),
        (8, 4, 4, 4),
        (3, 3, 3, 3),
    ],
]


def lg(n: int) -> int:
    return ceil(log2(n))


def on(topology: Topology, n: int, **more: object) -> Group:
    return Group(n, topology, scale_out=True, switch=EVERYTHING, **more)  # type: ignore[arg-type]


def lattice(shape: tuple[int, ...], kind: Topology = "torus") -> Group:
    return Group(prod(shape), kind, axes=tuple(Axis(d, wrap=kind == "torus") for d in shape))


def counts(primitive: Primitive, name: str, group: Group) -> tuple[float, float]:
    row = find(primitive, name)
    assert row.why_not(group) is None
    schedule = row.schedule(group)
    return totals(schedule)


# --- any-to-any fabrics
# -------------------------------------------------------------------------------------------------

Pair = tuple[float, float]
ROOTED: dict[str, Callable[[int], Pair]] = {
    "chain": lambda n: (n - 1, 1),
    "binomial": lambda n: (lg(n), lg(n)),
    "pipelined-tree": lambda n: (lg(n), 1),
}
SCATTERED: dict[str, Callable[[int], Pair]] = {
    "ring": lambda n: (n - 1, (n - 1) / n),
    "pat": lambda n: (lg(n), (n - 1) / n),
    "direct": lambda n: (1, (n - 1) / n),
}
TABLE: dict[tuple[Primitive, str], Callable[[int], Pair]] = {
    **{
        (primitive, name): formula for primitive in (BC, REDUCE) for name, formula in ROOTED.items()
    },
    **{(primitive, name): formula for primitive in (AG, RS) for name, formula in SCATTERED.items()},
    (BC, "scatter-allgather"): lambda n: (lg(n) + n - 1, 2 * (n - 1) / n),
    (AR, "ring"): lambda n: (2 * (n - 1), 2 * (n - 1) / n),
    (AR, "tree"): lambda n: (2 * lg(n), 2 * lg(n)),
    (AR, "double-binary-tree"): lambda n: (2 * lg(n), {2: 1, 3: 1.5}.get(n, 2)),
    (AR, "recursive-doubling"): lambda n: (lg(n), lg(n)),
    (AR, "rabenseifner"): lambda n: (2 * lg(n), 2 * (n - 1) / n),
    (AR, "one-shot"): lambda n: (1, n - 1),
    (AR, "two-shot"): lambda n: (2, 2 * (n - 1) / n),
    (AG, "recursive-doubling"): lambda n: (lg(n), (n - 1) / n),
    (RS, "recursive-halving"): lambda n: (lg(n), (n - 1) / n),
    (A2A, "pairwise"): lambda n: (n - 1, (n - 1) / n),
    (A2A, "bruck"): lambda n: (
        lg(n),
        sum(sum(slot >> k & 1 for slot in range(n)) for k in range(lg(n))) / n,
    ),
    (A2A, "direct"): lambda n: (1, (n - 1) / n),
    (P2P, "send"): lambda n: (1, 1),
}


def kept(n: int) -> int:
    return int(2 ** (lg(n) - 1))


def fullest_blocks(n: int) -> float:
    """Doubling among N' ranks, the first N - N' of which hold two chunks: the most that a block of
    each round holds."""
    chunks = [2] * (n - kept(n)) + [1] * (2 * kept(n) - n)
    return (
        sum(
            max(sum(chunks[at : at + (1 << k)]) for at in range(0, kept(n), 1 << k))
            for k in range(lg(n) - 1)
        )
        / n
    )


TABLE |= {
    (AR, "recursive-doubling-fold"): lambda n: (lg(n) + 1, lg(n) + 1),
    (AR, "rabenseifner-fold"): lambda n: (2 * lg(n), 2 * (kept(n) - 1) / kept(n) + 2),
    (AG, "recursive-doubling-fold"): lambda n: (lg(n) + 1, 1 + fullest_blocks(n)),
    (RS, "recursive-halving-fold"): lambda n: (lg(n) + 1, 1 + fullest_blocks(n)),
}
ON_A_MESH: dict[tuple[Primitive, str], Callable[[int], Pair]] = {
    (AR, "multi-link-ring"): lambda n: (2 * (n - 1), 2 * (n - 1) / n / (n - 1)),
    **{
        (primitive, "multi-link-ring"): lambda n: (n - 1, (n - 1) / n / (n - 1))
        for primitive in (AG, RS)
    },
    **{
        (primitive, "multi-link-chain"): lambda n: (n - 1, 1 / (n - 1))
        for primitive in (BC, REDUCE)
    },
}
OFF_POWERS = {key for key in TABLE if key[1].endswith("-fold")}
POWER_OF_TWO = {
    (AR, "recursive-doubling"),
    (AR, "rabenseifner"),
    (AG, "recursive-doubling"),
    (RS, "recursive-halving"),
}
ALL_LINKS = {(AR, "one-shot"), (AR, "two-shot"), (AG, "direct"), (RS, "direct"), (A2A, "direct")}


def name_of(key: object) -> str:
    return f"{key[0]}-{key[1]}" if isinstance(key, tuple) else ""


@swept("topology", ["star", "full_mesh", "clos"])
@swept("key", TABLE)
def test_any_to_any(key: tuple[Primitive, str], topology: Topology) -> None:
    for n in (
        POWERS
        if key in POWER_OF_TWO
        else [n for n in COUNTS if key not in OFF_POWERS or n not in POWERS]
    ):
        n_alpha, n_beta = TABLE[key](n)
        if topology == "full_mesh" and key in ALL_LINKS:
            n_beta /= n - 1
        assert counts(*key, on(topology, n)) == (n_alpha, pytest.approx(n_beta, rel=1e-12)), n


@swept("key", ON_A_MESH)
def test_over_all_links_of_a_mesh_one_carries_what_a_ring_does_over_the_links_of_a_rank(
    key: tuple[Primitive, str],
) -> None:
    for n in (3, 4, 8, 72):
        assert counts(*key, on("full_mesh", n)) == (
            ON_A_MESH[key](n)[0],
            pytest.approx(ON_A_MESH[key](n)[1], rel=1e-12),
        )
    assert (
        find(*key).why_not(on("full_mesh", 2))
        == "two ranks have one link between them: that is ring or chain"
    )


@swept("key", [key for key in TABLE if key not in ((AG, "pat"), (RS, "pat"))])
def test_flat_over_several_tiers_has_the_same_counts(key: tuple[Primitive, str]) -> None:
    for n in (6, 72, 513) if key in OFF_POWERS else POWERS:
        assert counts(*key, on("tiers", n)) == counts(*key, on("star", n))


@swept("c", [1.0, 1.5, 2.0])
def test_tree_beta_is_the_load_of_the_double_tree_and_of_nothing_else(c: float) -> None:
    assert counts(AR, "double-binary-tree", on("star", 72, tree_beta=c)) == (14, c)
    for row in usual_algorithms():
        group = on("star", 64, tree_beta=c)
        if row.name != "double-binary-tree" and row.why_not(group) is None:
            assert row.schedule(group) == row.schedule(on("star", 64)), row.name


@swept("key", sorted(POWER_OF_TWO))
@swept("n", [n for n in COUNTS if n not in POWERS])
def test_a_rank_count_that_is_no_power_of_two_is_refused_with_the_reason(
    key: tuple[Primitive, str], n: int
) -> None:
    for topology in ("star", "full_mesh", "clos", "tiers"):
        reason = find(*key).why_not(on(topology, n))  # type: ignore[arg-type]
        assert reason == f"needs a power-of-two rank count, got {n}"


@swept("key", [*sorted(OFF_POWERS), (AR, "rabenseifner-padded")])
@swept("n", POWERS)
def test_nobody_is_left_over_at_a_power_of_two(key: tuple[Primitive, str], n: int) -> None:
    reason = find(*key).why_not(on("star", n))
    assert reason == f"only for rank counts that are not a power of two; {n} is one"


@swept(
    ("n", "whole", "idle"),
    [(3, 4, "25%"), (5, 8, "38%"), (6, 8, "25%"), (7, 8, "12%"), (100, 128, "22%")],
)
def test_padding_costs_the_next_power_of_two_and_says_what_it_wastes(
    n: int, whole: int, idle: str
) -> None:
    row, group = find(AR, "rabenseifner-padded"), on("star", n)
    assert counts(AR, row.name, group) == counts(AR, "rabenseifner", on("star", whole))
    assert row.notes_on(group) == [
        f"takes {whole} ranks: {whole - n} beside the group hold zeros, {idle} of all do no work"
    ]
    assert row.status_on(group) == "reference"


def test_six_ranks_in_the_chapters_numbers() -> None:
    """Rabenseifner on 6: padded to 8, 6 α and 1.75 M; folded on 4, 6 α and 3.5 M."""
    assert counts(AR, "rabenseifner-padded", on("star", 6)) == (6, 1.75)
    assert counts(AR, "rabenseifner-fold", on("star", 6)) == (6, 3.5)


@swept("n", [2, 4, 8, 16, 64, 1024])
def test_bruck_at_a_power_of_two_is_half_of_lg_n(n: int) -> None:
    assert counts(A2A, "bruck", on("star", n)) == (lg(n), lg(n) / 2)


@swept("n", range(2, 40))
def test_bruck_slot_by_slot(n: int) -> None:
    """Run it: the block for the rank at distance d travels in each round whose bit is set in d;
    count what a rank sends."""
    sent = Counter(k for distance in range(n) for k in range(lg(n)) if distance >> k & 1)
    (terms,) = find(A2A, "bruck").schedule(on("star", n))
    assert isinstance(terms.route, Rounds)
    assert [(stride, round(load * n, 9)) for stride, load in terms.route.steps] == [
        (1 << k, sent[k]) for k in range(lg(n))
    ]


@swept("n", [2, 3, 5, 6, 7, 9, 12, 64, 72, 100, 513])
def test_the_bytes_of_the_rounds_add_up_to_n_beta(n: int) -> None:
    """A table entry and the round-by-round schedule that the engine charges must be the same."""
    for row in usual_algorithms():
        for topology in ("star", "tiers"):
            group = on(topology, n)  # type: ignore[arg-type]
            if row.why_not(group) is not None:
                continue
            for terms in row.schedule(group):
                if isinstance(terms.route, Rounds):
                    assert sum(load for _, load in terms.route.steps) == pytest.approx(
                        terms.n_beta
                    ), row.name
                    assert len(terms.route.steps) == terms.n_alpha


def test_pat_runs_between_nodes_only() -> None:
    for primitive in (AG, RS):
        reason = find(primitive, "pat").why_not(Group(8, "star", scale_out=False))
        assert reason is not None
        assert "one rank on each" in reason


# --- in-network
# ---------------------------------------------------------------------------------------------------------

IN_NETWORK: dict[Primitive, tuple[set[str], Callable[[int], Pair]]] = {
    AR: ({"reduce", "multicast"}, lambda n: (2, 1)),
    RS: ({"reduce"}, lambda n: (2, (n - 1) / n)),
    AG: ({"multicast"}, lambda n: (2, (n - 1) / n)),
    BC: ({"multicast"}, lambda n: (1, 1)),
    REDUCE: ({"reduce"}, lambda n: (1, 1)),
    A2A: ({"all_to_all"}, lambda n: (2, (n - 1) / n)),
}


@swept("primitive", IN_NETWORK)
@swept("topology", ["star", "clos"])
@swept("levels", [1, 2, 3])
def test_in_network(primitive: Primitive, topology: Topology, levels: int) -> None:
    for n in COUNTS:
        n_alpha, n_beta = IN_NETWORK[primitive][1](n)
        got = counts(primitive, "in-network", on(topology, n, switch_levels=levels))
        assert got == (n_alpha * levels, pytest.approx(n_beta))


@swept("primitive", IN_NETWORK)
def test_in_network_needs_exactly_its_capabilities(primitive: Primitive) -> None:
    needed = IN_NETWORK[primitive][0]
    row = find(primitive, "in-network")
    for bits in product([False, True], repeat=3):
        can = {name for name, bit in zip(sorted(EVERYTHING), bits, strict=True) if bit}
        reason = row.why_not(Group(8, "star", switch=frozenset(can)))
        assert (reason is None) == (needed <= can)
        for missing in needed - can:
            assert reason is not None
            assert missing in reason


@swept("topology", ["full_mesh", "torus", "mesh", "tiers", "lattice_tiers"])
@swept("primitive", IN_NETWORK)
def test_in_network_needs_a_switch_that_joins_the_whole_group(
    primitive: Primitive, topology: Topology
) -> None:
    assert find(primitive, "in-network").why_not(on(topology, 8)) is not None


# --- lattices
# -----------------------------------------------------------------------------------------------------------


def reach_of(d: int, *, wrap: bool) -> int:
    """The farthest pair of one axis, found by walking."""
    return max(
        min(abs(i - j), d - abs(i - j)) if wrap else abs(i - j) for i in range(d) for j in range(d)
    )


def link_loads(
    shape: tuple[int, ...], *, wrap: bool
) -> Counter[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Messages over every directed link when each rank sends one to each other, dimension by
    dimension, ties split."""
    loads: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    nodes = list(product(*map(range, shape)))
    for source, target in product(nodes, nodes):
        here = source
        for axis, d in enumerate(shape):
            forward = (target[axis] - here[axis]) % d
            backward = d - forward if forward else 0
            if not wrap:
                ways = {
                    1 if target[axis] > here[axis] else -1: (abs(target[axis] - here[axis]), 1.0)
                }
            elif d == 2 or forward < backward:
                ways = {1: (forward, 1.0)}
            elif forward > backward:
                ways = {-1: (backward, 1.0)}
            else:
                ways = {1: (forward, 0.5), -1: (backward, 0.5)}
            for direction, (hops, weight) in ways.items():
                at = here
                for _ in range(hops):
                    following = (*at[:axis], (at[axis] + direction) % d, *at[axis + 1 :])
                    loads[at, following] += weight  # type: ignore[assignment]
                    at = following
            here = (*here[:axis], target[axis], *here[axis + 1 :])
    return loads


@swept("wrap", [True, False])
@swept("d", range(1, 14))
def test_busiest_link_of_one_axis_counted_link_by_link(d: int, wrap: bool) -> None:
    """A rank sends M/d to each other rank of the axis, so a link with k messages carries k·M/d."""
    busiest = max(link_loads((d,), wrap=wrap).values(), default=0)
    assert busiest_link(Axis(d, wrap)) == pytest.approx(busiest / d)


@swept("wrap", [True, False])
@swept("d", [4, 6, 8, 16, 32])
def test_busiest_link_of_an_even_axis_is_the_published_eighth_or_quarter(
    d: int, wrap: bool
) -> None:
    assert busiest_link(Axis(d, wrap)) == d / (8 if wrap else 4)


WHOLE = [
    (2,),
    (3,),
    (7,),
    (8,),
    (2, 2),
    (3, 2),
    (3, 3),
    (4, 2),
    (4, 3),
    (5, 4),
    (2, 2, 2),
    (3, 2, 2),
    (4, 3, 2),
    (4, 4, 2),
    (4, 4, 3),
]


@swept("kind", ["torus", "mesh"])
@swept("shape", WHOLE)
def test_shortest_path_all_to_all_on_a_whole_lattice_counted_link_by_link(
    shape: tuple[int, ...], kind: Topology
) -> None:
    n = prod(shape)
    n_alpha, n_beta = counts(A2A, "shortest-path", lattice(shape, kind))
    assert n_beta == pytest.approx(max(link_loads(shape, wrap=kind == "torus").values()) / n)
    assert n_alpha == sum(reach_of(d, wrap=kind == "torus") for d in shape)


@swept("kind", ["torus", "mesh"])
@swept("shape", SHAPES)
def test_dim_by_dim_all_to_all(shape: tuple[int, ...], kind: Topology) -> None:
    wrap = kind == "torus"
    loads = [(d * d // 4) / d / (2 if wrap and d >= 3 else 1) for d in shape]
    diameter = sum(d // 2 if wrap else d - 1 for d in shape)
    assert counts(A2A, "dim-by-dim", lattice(shape, kind)) == (diameter, pytest.approx(sum(loads)))
    assert counts(A2A, "shortest-path", lattice(shape, kind)) == (
        diameter,
        pytest.approx(max(loads)),
    )


@swept("kind", ["torus", "mesh"])
@swept("shape", SHAPES)
def test_dim_ring_and_dim_chain(shape: tuple[int, ...], kind: Topology) -> None:
    n, hops = prod(shape), sum(d - 1 for d in shape)
    group = lattice(shape, kind)
    assert counts(AR, "dim-ring", group) == (2 * hops, pytest.approx(2 * (n - 1) / n))
    for primitive in (AG, RS):
        assert counts(primitive, "dim-ring", group) == (hops, pytest.approx((n - 1) / n))
        assert counts(primitive, "ring", group) == (n - 1, pytest.approx((n - 1) / n))
    assert counts(AR, "ring", group) == (2 * (n - 1), pytest.approx(2 * (n - 1) / n))
    for primitive in (BC, REDUCE):
        assert counts(primitive, "dim-chain", group) == (hops, 1)


@swept("shape", SHAPES)
def test_bidirectional_on_a_torus(shape: tuple[int, ...]) -> None:
    group, payload, n_beta = lattice(shape), 1.0, 0.0
    for d in shape:
        n_beta += payload * (d - 1) / d / (2 if d >= 3 else 1)
        payload /= d
    hops = sum(d // 2 for d in shape)
    assert counts(AR, "dim-ring-bidirectional", group) == (2 * hops, pytest.approx(2 * n_beta))
    for primitive in (AG, RS):
        assert counts(primitive, "dim-ring-bidirectional", group) == (hops, pytest.approx(n_beta))
    for primitive in (BC, REDUCE):
        assert counts(primitive, "dim-chain-bidirectional", group) == (hops, 1)


@swept("k", [1, 2, 3, 4])
@swept("d", [3, 4, 5, 8])
def test_multi_ring_on_a_cube(d: int, k: int) -> None:
    n = d**k
    group = lattice((d,) * k)
    assert counts(AR, "multi-ring", group) == (
        2 * k * (d // 2),
        pytest.approx(2 * (n - 1) / n / (2 * k)),
    )
    for primitive in (AG, RS):
        assert counts(primitive, "multi-ring", group) == (
            k * (d // 2),
            pytest.approx((n - 1) / n / (2 * k)),
        )


@swept("shape", SHAPES)
def test_multi_ring_follows_its_parts_step_by_step(shape: tuple[int, ...]) -> None:
    """k parts of M/k; part i runs the axes from i on, cyclically; a step costs the slowest part on
    its own axis."""
    used = [d for d in shape if d > 1]
    k, n_alpha, n_beta = len(used), 0, 0.0
    for step in range(k):
        costs = []
        for part in range(k):
            done = prod(used[(part + earlier) % k] for earlier in range(step))
            d = used[(part + step) % k]
            costs.append((d // 2, (d - 1) / d / k / done / (2 if d >= 3 else 1)))
        n_alpha += max(hops for hops, _ in costs)
        n_beta += max(load for _, load in costs)
    assert counts(RS, "multi-ring", lattice(shape)) == (n_alpha, pytest.approx(n_beta))


@swept("kind", ["torus", "mesh"])
@swept("shape", SHAPES)
def test_dim_rabenseifner(shape: tuple[int, ...], kind: Topology) -> None:
    group, n = lattice(shape, kind), prod(shape)
    odd = [d for d in shape if not log2(d).is_integer()]
    for primitive, times in {AR: 2, AG: 1, RS: 1}.items():
        row = find(primitive, "dim-rabenseifner")
        if odd:
            assert row.why_not(group) == f"needs a power-of-two size on every axis, got {odd[0]}"
            continue
        assert counts(primitive, row.name, group) == (
            times * sum(map(lg, shape)),
            pytest.approx(times * (n - 1) / n),
        )
        assert row.status == "idealised"
        assert "on ring wiring" in row.note


@swept("shape", SHAPES)
def test_dim_chain_from_the_middle_of_a_mesh(shape: tuple[int, ...]) -> None:
    for primitive in (BC, REDUCE):
        row = find(primitive, "dim-chain-middle")
        assert counts(primitive, row.name, lattice(shape, "mesh")) == (
            sum(ceil((d - 1) / 2) for d in shape),
            1,
        )
        assert row.why_not(lattice(shape)) == "needs a mesh; this is a torus"
        assert row.status == "idealised"
        assert "root to stand in the middle" in row.note
    assert counts(BC, "dim-chain-middle", lattice((8, 8, 8), "mesh")) == (12, 1)


@swept("kind", ["torus", "mesh"])
@swept("shape", SHAPES)
def test_a_broadcast_down_all_links_of_the_root(shape: tuple[int, ...], kind: Topology) -> None:
    """Farthest is the far corner, one hop along each axis at a time, or what waits at its door for
    the way round."""
    group, used = lattice(shape, kind), [d for d in shape if d > 1]
    rings = kind == "torus" and min(used) > 2
    if not rings and len(used) == 1:
        assert (
            find(BC, "multi-chain").why_not(group)
            == "an open line has one link from its end: that is dim-chain"
        )
        return
    corner = sum(d - 1 for d in used)
    beside = (
        [corner + 1 if rings else corner - (d - 1) + 2 for d in used] if len(used) > 1 else [corner]
    )
    for primitive in (BC, REDUCE):
        assert counts(primitive, "multi-chain", group) == (
            max(corner, *beside),
            pytest.approx(1 / len(used) / (1 + rings)),
        )


def test_both_directions_need_closed_axes() -> None:
    for primitive in (AR, AG, RS):
        row = find(primitive, "dim-ring-bidirectional")
        assert row.why_not(lattice((4, 4), "mesh")) is not None
        partial = Group(12, "torus", axes=(Axis(4, wrap=True), Axis(3, wrap=False)))
        assert "3 ranks along axis 2 are an open line" in (row.why_not(partial) or "")
        # two ranks: one link
        assert (
            row.why_not(Group(8, "torus", axes=(Axis(4, wrap=True), Axis(2, wrap=False)))) is None
        )


def test_on_an_open_axis_a_multi_ring_takes_all_steps_and_twice_the_bytes() -> None:
    closed, opened = ((Axis(4, wrap=True), Axis(4, wrap=wrap)) for wrap in (True, False))
    assert counts(AR, "multi-ring", Group(16, "torus", axes=closed)) == (8, pytest.approx(15 / 32))
    assert counts(AR, "multi-ring", Group(16, "torus", axes=opened)) == (12, pytest.approx(15 / 16))
    assert find(AR, "multi-ring").why_not(lattice((4, 4), "mesh")) is not None


@pytest.mark.parametrize("shape", [(3, 1, 4), (8, 4, 2)])
def test_the_phases_of_a_lattice_all_reduce_mirror_each_other(shape: tuple[int, ...]) -> None:
    for name in ("dim-ring", "dim-ring-bidirectional", "multi-ring"):
        phases = find(AR, name).schedule(lattice(shape))
        half = len(phases) // 2
        assert [(t.n_alpha, t.n_beta, t.payload) for t in phases[:half]] == [
            (t.n_alpha, t.n_beta, t.payload) for t in phases[: half - 1 : -1]
        ]
        assert [t.primitive for t in phases] == [RS] * half + [AG] * half


# --- identities
# ---------------------------------------------------------------------------------------------------------

GROUPS = [
    *[on(topology, n) for topology in ("star", "full_mesh", "clos") for n in (2, 3, 8, 72, 512)],  # type: ignore[arg-type]
    *[lattice(shape, kind) for kind in ("torus", "mesh") for shape in SHAPES],  # type: ignore[arg-type]
]


def runs(primitive: Primitive, name: str, group: Group) -> bool:
    return find(primitive, name).why_not(group) is None


@swept(
    "name",
    ["ring", "pat", "direct", "in-network", "dim-ring", "dim-ring-bidirectional", "multi-ring"],
)
def test_all_gather_costs_what_reduce_scatter_does(name: str) -> None:
    here = [group for group in GROUPS if runs(AG, name, group)]
    assert here
    for group in here:
        assert counts(AG, name, group) == pytest.approx(counts(RS, name, group))


def test_doubling_costs_what_halving_does() -> None:
    for n in POWERS:
        assert counts(AG, "recursive-doubling", on("star", n)) == counts(
            RS, "recursive-halving", on("star", n)
        )


HALVES = {
    "ring": ("ring", "ring"),
    "rabenseifner": ("recursive-halving", "recursive-doubling"),
    "two-shot": ("direct", "direct"),
    "dim-ring": ("dim-ring", "dim-ring"),
    "dim-ring-bidirectional": ("dim-ring-bidirectional", "dim-ring-bidirectional"),
    "multi-ring": ("multi-ring", "multi-ring"),
}


@swept("name", HALVES)
def test_an_all_reduce_is_its_reduce_scatter_and_its_all_gather(name: str) -> None:
    scatter, gather = HALVES[name]
    here = [group for group in GROUPS if runs(AR, name, group)]
    assert here
    for group in here:
        whole, one, other = (
            counts(AR, name, group),
            counts(RS, scatter, group),
            counts(AG, gather, group),
        )
        assert whole == pytest.approx((one[0] + other[0], one[1] + other[1]))


@swept(
    "name",
    [
        "chain",
        "binomial",
        "pipelined-tree",
        "dim-chain",
        "dim-chain-bidirectional",
        "dim-chain-middle",
        "multi-chain",
        "in-network",
    ],
)
def test_reduce_is_a_broadcast_backwards(name: str) -> None:
    for group in GROUPS:
        if runs(BC, name, group):
            assert counts(BC, name, group) == counts(REDUCE, name, group)


# --- lower bounds
# -------------------------------------------------------------------------------------------------------

AT_ONCE = {"one-shot", "two-shot", "direct", "in-network", "send"}
"""These post several messages for one α, or leave the work to the switches: no lg N rounds."""


@swept("row", usual_algorithms())
def test_no_schedule_beats_the_lower_bounds(row: object) -> None:
    """n_β on all ports of a rank together; n_α of schedules that exchange with one rank at a
    time."""
    primitive, name = row.primitive, row.name  # type: ignore[attr-defined]
    for group in [*some(GROUPS, 10), *(on("tiers", n) for n in (4, 64, 144))]:
        if not runs(primitive, name, group):
            continue
        n_alpha, n_beta = counts(primitive, name, group)
        least = (
            1.0 if (primitive, name) == (AR, "in-network") else least_n_beta(primitive, group.ranks)
        )
        # A2A, AG and RS by all links at once and lattices: the bound holds for the sum of a rank's
        # ports.
        ports = (
            group.ranks - 1
            if group.topology == "full_mesh"
            else sum(min(a.size - 1, 2) for a in group.axes) or 1
        )
        assert n_beta * ports >= least * (1 - 1e-12)
        if not group.axes and name not in AT_ONCE:
            assert n_alpha >= log2(group.ranks)
        if group.axes and name != "dim-rabenseifner":
            assert n_alpha >= sum(a.size // 2 if a.wrap else (a.size - 1) / 2 for a in group.axes)


def test_only_reduction_in_the_switch_goes_below_the_bound_of_an_all_reduce() -> None:
    below = {
        row.name
        for row in algorithms(AR)
        if runs(AR, row.name, on("star", 64)) and counts(AR, row.name, on("star", 64))[1] < 1.9
    }
    assert below == {"in-network"}


# --- the registry
# -------------------------------------------------------------------------------------------------------

FLAT = {
    AR: (
        """ring tree double-binary-tree recursive-doubling rabenseifner one-shot two-shot in-network
        dim-ring dim-rabenseifner dim-ring-bidirectional multi-ring outer-ring multi-rail-ring inner-ring"""
    ),
    AG: "ring recursive-doubling pat direct in-network dim-ring dim-ring-bidirectional multi-ring",
    RS: "ring recursive-halving pat direct in-network dim-ring dim-ring-bidirectional multi-ring",
    BC: (
        "chain binomial pipelined-tree scatter-allgather in-network dim-chain"
        " dim-chain-bidirectional dim-chain-middle"
    ),
    REDUCE: (
        "chain binomial pipelined-tree in-network dim-chain dim-chain-bidirectional"
        " dim-chain-middle"
    ),
    A2A: "pairwise bruck direct in-network shortest-path dim-by-dim",
    P2P: "send",
}
COMPOSED = {
    AR: {"hierarchical", "leader"},
    AG: {"hierarchical"},
    RS: {"hierarchical"},
    BC: {"hierarchical"},
    REDUCE: {"hierarchical"},
    A2A: {"two-level"},
    P2P: {"cross-rail"},
}


@swept("primitive", list(Primitive))
def test_every_row_of_the_model_is_registered(primitive: Primitive) -> None:
    missing = set(FLAT[primitive].split()) - {row.name for row in algorithms(primitive)}
    assert not missing
    assert COMPOSED.get(primitive, set()) == {
        row.name for row in every_composition() if row.primitive is primitive
    }


def test_every_row_of_the_tables_is_tested_above() -> None:
    """A new row needs an independent expression here."""
    checked = set(TABLE) | set(ON_A_MESH) | {(primitive, "in-network") for primitive in IN_NETWORK}
    lattices = {
        "dim-ring",
        "dim-chain",
        "dim-ring-bidirectional",
        "dim-chain-bidirectional",
        "dim-chain-middle",
        "multi-chain",
        "multi-ring",
        "dim-rabenseifner",
    }
    # the last two in test_uneven
    rails = {"multi-rail-ring", "multi-rail-chain", "multi-rail-tree", "multi-rail-direct"}
    baselines = {"outer-ring", "inner-ring", "outer-pairwise", "inner-pairwise"}
    # test_hyperx, test_forest, test_tacos, test_mcf, test_dragonfly: by each axis's load, cuts,
    # linear programmes, each link
    on_links = {"all-axes", "forest", "tacos", "mcf", "gateway-ring", "gateway-chain"}
    others = (
        lattices
        | rails
        | baselines
        | on_links
        | {"shortest-path", "dim-by-dim", "rabenseifner-padded"}
    )
    assert {
        (row.primitive, row.name) for row in usual_algorithms() if row.name not in others
    } == checked


@swept("row", usual_algorithms())
def test_every_row_is_documented(row: object) -> None:
    assert row.source  # type: ignore[attr-defined]
    assert row.formula.__doc__  # type: ignore[attr-defined]
    assert row.equation.startswith("t = ")  # type: ignore[attr-defined]
    assert row.status in ("shipped", "reference", "idealised", "hypothetical")  # type: ignore[attr-defined]
    if row.status == "shipped":  # type: ignore[attr-defined]
        assert row.shipped_by  # type: ignore[attr-defined]
    assert all(check.__doc__ for check in row.requires)  # type: ignore[attr-defined]


@swept("n", [2, 3, 64, 72])
@swept("passes", [(AR, 2), (AG, 1), (RS, 1)])
def test_flat_rings_over_tiers(passes: tuple[Primitive, int], n: int) -> None:
    primitive, times = passes
    for name in ("outer-ring", "inner-ring", "multi-rail-ring"):
        assert counts(primitive, name, on("tiers", n)) == (
            times * (n - 1),
            pytest.approx(times * (n - 1) / n),
        )
        assert (
            find(primitive, name).why_not(on("star", n))
            == "needs a group over several tiers; this is a star"
        )
        assert (find(primitive, name).status == "hypothetical") == (name == "inner-ring")
    for rooted in (BC, REDUCE):
        assert counts(rooted, "multi-rail-chain", on("tiers", n)) == (n - 1, 1)
        assert (
            find(rooted, "multi-rail-chain").why_not(on("clos", n))
            == "needs a group over several tiers; this is a Clos"
        )
    for name in ("outer-pairwise", "inner-pairwise"):
        assert counts(A2A, name, on("tiers", n)) == (n - 1, pytest.approx((n - 1) / n))


def test_all_terms_are_positive_and_finite() -> None:
    for row in usual_algorithms():
        for group in some(GROUPS, 30):
            if row.why_not(group) is None:
                for terms in row.schedule(group):
                    assert isinstance(terms, Terms)
                    assert terms.n_alpha > 0
                    assert 0 < terms.n_beta < 1e7
                    assert 0 < terms.payload <= 1
