"""Composed schedules against sums written out by hand, and the best composition against trying all
of them."""

from __future__ import annotations

from itertools import product
from math import ceil, log2, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import clos, fabric, full_mesh, star, switch, torus
from swept import swept

import colltool
from colltool.algorithms.registry import algorithms
from colltool.base.errors import ColltoolError
from colltool.base.primitives import parse_primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.fabric.model import Fabric

pytestmark = pytest.mark.usefixtures("datasheet")

TWO = fabric(star(8, 0.5, 900.0), clos(4, alpha=3.0, bw=50.0))
THREE = fabric(star(4, 0.5, 900.0), full_mesh(3, 1.0, 200.0), clos(8, alpha=4.0, bw=50.0))
TIERS = {
    "two": (TWO, [(8, 0.5e-6, 900e9), (4, 3e-6, 50e9)]),
    "three": (THREE, [(4, 0.5e-6, 900e9), (3, 1e-6, 200e9), (8, 4e-6, 50e9)]),
}
M = 16e6

Numbers = list[tuple[int, float, float]]


def row_of(
    where: Fabric, primitive: str, algorithm: str, size: float = M, **more: object
) -> AlgorithmEstimate:
    (row,) = colltool.price(where, primitive, size=size, algorithms=algorithm, **more).results
    return row


def rings(tiers: Numbers) -> str:
    return "/".join("ring" for _ in tiers)


both = pytest.mark.parametrize(("where", "tiers"), TIERS.values(), ids=list(TIERS))


# --- all-reduce, reduce-scatter, all-gather
# -----------------------------------------------------------------------------


@both
def test_all_reduce_of_rings_is_the_closed_form(where: Fabric, tiers: Numbers) -> None:
    """Σ_l 2(p_l - 1) α_l + 2(p_l - 1)/p_l · (n / Π_{j<l} p_j) / β_l"""
    alpha = sum(2 * (p - 1) * a for p, a, _ in tiers)
    bandwidth = sum(
        2 * (p - 1) / p * M / prod(q for q, _, _ in tiers[:level]) / bw
        for level, (p, _, bw) in enumerate(tiers)
    )
    row = row_of(where, "ar", f"hierarchical:{rings(tiers)}")
    assert row.alpha_s == pytest.approx(alpha)
    assert row.bandwidth_s == pytest.approx(bandwidth)
    assert (row.n_alpha, row.n_beta) == (None, None)


@given(
    st.lists(
        st.tuples(st.integers(2, 9), st.floats(0.1, 20), st.floats(1, 900)), min_size=2, max_size=4
    ),
    st.floats(0, 10),
)
def test_the_closed_form_at_any_depth(
    tiers: list[tuple[int, float, float]], exponent: float
) -> None:
    size = 10**exponent
    where = fabric(*(star(p, a, bw) for p, a, bw in tiers))
    seconds, inside = 0.0, 1
    for p, a, bw in tiers:
        seconds += 2 * (p - 1) * a * 1e-6 + 2 * (p - 1) / p * size / inside / (bw * 1e9)
        inside *= p
    assert row_of(where, "ar", f"hierarchical:{rings(tiers)}", size).total_s == pytest.approx(
        seconds
    )


@both
def test_the_phases_of_an_all_reduce_telescope_and_mirror(where: Fabric, tiers: Numbers) -> None:
    phases = row_of(where, "ar", f"hierarchical:{rings(tiers)}").phases
    depth = len(tiers)
    names = ["reduce_scatter"] * (depth - 1) + ["all_reduce"] + ["all_gather"] * (depth - 1)
    assert [phase.primitive for phase in phases] == names
    up = [M / prod(p for p, _, _ in tiers[:level]) for level in range(depth)]
    assert [phase.bytes for phase in phases] == pytest.approx(up + up[-2::-1])
    order = list(range(depth)) + list(range(depth - 2, -1, -1))
    assert [phase.tier for phase in phases] == [f"t{level + 1}" for level in order]
    assert [phase.ranks for phase in phases] == [tiers[level][0] for level in order]


@both
@pytest.mark.parametrize("primitive", ["rs", "ag"])
def test_the_natural_order_moves_the_smallest_pieces_outside(
    where: Fabric, tiers: Numbers, primitive: str
) -> None:
    row = row_of(where, primitive, f"hierarchical:{rings(tiers)}")
    payloads = {
        f"t{level + 1}": M / prod(p for p, _, _ in tiers[:level]) for level in range(len(tiers))
    }
    assert {phase.tier: phase.bytes for phase in row.phases} == pytest.approx(payloads)
    inner_first = [f"t{level + 1}" for level in range(len(tiers))]
    assert [phase.tier for phase in row.phases] == (
        inner_first if primitive == "rs" else inner_first[::-1]
    )
    assert row.total_s == pytest.approx(
        sum(
            (p - 1) * a + (p - 1) / p * payloads[f"t{level + 1}"] / bw
            for level, (p, a, bw) in enumerate(tiers)
        )
    )
    assert row.detail == rings(tiers).replace("/", " / ")


@both
@pytest.mark.parametrize(("primitive", "other"), [("rs", "outer-first"), ("ag", "inner-first")])
def test_the_other_order_moves_as_many_bytes_but_most_of_them_outside(
    where: Fabric, tiers: Numbers, primitive: str, other: str
) -> None:
    natural = row_of(where, primitive, f"hierarchical:{rings(tiers)}")
    turned = row_of(where, primitive, f"hierarchical:{rings(tiers)}", order=other)
    n = where.ranks
    for row in (natural, turned):
        moved = sum(phase.n_beta * phase.bytes for phase in row.phases)
        assert moved == pytest.approx((n - 1) / n * M)
    payloads = {
        f"t{level + 1}": M / prod(p for p, _, _ in tiers[level + 1 :])
        for level in range(len(tiers))
    }
    assert {phase.tier: phase.bytes for phase in turned.phases} == pytest.approx(payloads)
    assert [phase.tier for phase in turned.phases] == [phase.tier for phase in natural.phases][::-1]
    assert turned.alpha_s == pytest.approx(natural.alpha_s)
    assert turned.bandwidth_s > natural.bandwidth_s
    assert turned.detail.endswith(f", {other}")


@both
def test_all_gather_mirrors_reduce_scatter_and_an_all_reduce_is_both_of_the_inner_tiers(
    where: Fabric, tiers: Numbers
) -> None:
    scatter, gather = (
        row_of(where, primitive, f"hierarchical:{rings(tiers)}") for primitive in ("rs", "ag")
    )
    assert scatter.total_s == pytest.approx(gather.total_s)
    assert row_of(where, "ar", f"hierarchical:{rings(tiers)}").total_s == pytest.approx(
        scatter.total_s + gather.total_s
    )


def test_halving_inside_takes_doubling_on_the_way_back() -> None:
    phases = row_of(TWO, "ar", "hierarchical:recursive-halving/rabenseifner").phases
    assert [(p.tier, p.primitive, p.algorithm) for p in phases] == [
        ("t1", "reduce_scatter", "recursive-halving"),
        ("t2", "reduce_scatter", "rabenseifner"),
        ("t2", "all_gather", "rabenseifner"),
        ("t1", "all_gather", "recursive-doubling"),
    ]


@both
def test_streamed_phases_add_their_alphas_and_take_the_busiest_tier(
    where: Fabric, tiers: Numbers
) -> None:
    for primitive in ("ar", "rs", "ag"):
        rows = colltool.price(
            where, primitive, size=M, algorithms=f"hierarchical:{rings(tiers)}", phases="pipelined"
        ).results
        streamed = next(row for row in rows if row.detail.endswith(", pipelined"))
        sequential = next(row for row in rows if row is not streamed)
        assert (
            sequential.total_s == row_of(where, primitive, f"hierarchical:{rings(tiers)}").total_s
        )
        per_tier = {
            tier: sum(phase.bandwidth_s for phase in streamed.phases if phase.tier == tier)
            for tier in {phase.tier for phase in streamed.phases}
        }
        assert streamed.alpha_s == pytest.approx(sequential.alpha_s)
        assert streamed.bandwidth_s == pytest.approx(max(per_tier.values()))
        assert sequential.bandwidth_s == pytest.approx(sum(per_tier.values()))


def test_streaming_counts_a_tier_used_on_both_ways_twice() -> None:
    """A slow inner tier: its reduce-scatter and its all-gather both load the same ports."""
    where = fabric(star(8, 0.5, 10.0), clos(4, alpha=3.0, bw=50.0))
    rows = colltool.price(
        where, "ar", size=M, algorithms="hierarchical:ring/ring", phases="pipelined"
    ).results
    assert min(row.bandwidth_s for row in rows) == pytest.approx(2 * 7 / 8 * M / 10e9)


def test_eta_of_each_tier_is_its_own() -> None:
    where = fabric(
        star(8, 0.5, 900.0, eta={"alpha": 1.5, "beta": 0.5}),
        clos(4, alpha=3.0, bw=50.0, eta={"alpha": 2.0, "beta": 0.8}),
    )
    for phase in row_of(where, "ar", "hierarchical:ring/ring").phases:
        assert (phase.eta_alpha, phase.eta_beta) == {"t1": (1.5, 0.5), "t2": (2.0, 0.8)}[phase.tier]
    assert row_of(where, "ar", "hierarchical:ring/ring", ideal=True).total_s == pytest.approx(
        row_of(TWO, "ar", "hierarchical:ring/ring").total_s
    )


# --- broadcast and reduce
# -----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("primitive", ["bc", "reduce"])
def test_rooted_compositions(where: Fabric, tiers: Numbers, primitive: str) -> None:
    names = "/".join(["pipelined-tree"] * len(tiers))
    streamed = row_of(where, primitive, f"hierarchical:{names}")
    alpha = sum(ceil(log2(p)) * a for p, a, _ in tiers)
    assert streamed.alpha_s == pytest.approx(alpha)
    assert streamed.bandwidth_s == pytest.approx(M / min(bw for _, _, bw in tiers))
    rows = colltool.price(
        where, primitive, size=M, algorithms=f"hierarchical:{names}", phases="sequential"
    ).results
    (sequential,) = rows
    assert sequential.detail.endswith(", sequential")
    assert sequential.alpha_s == pytest.approx(alpha)
    assert sequential.bandwidth_s == pytest.approx(sum(M / bw for _, _, bw in tiers))
    order = [f"t{level + 1}" for level in range(len(tiers))]
    assert [phase.tier for phase in streamed.phases] == (
        order if primitive == "reduce" else order[::-1]
    )
    assert all(phase.bytes == M for phase in streamed.phases)


# --- leader, all-to-all
# -------------------------------------------------------------------------------------------------


@both
def test_leader(where: Fabric, tiers: Numbers) -> None:
    *inside, (p, a, bw) = tiers
    names = "/".join([*("binomial" for _ in inside), "ring"])
    row = row_of(where, "ar", f"leader:{names}")
    alpha = sum(2 * ceil(log2(q)) * b for q, b, _ in inside) + 2 * (p - 1) * a
    bandwidth = sum(2 * ceil(log2(q)) * M / w for q, _, w in inside) + 2 * (p - 1) / p * M / bw
    assert row.alpha_s == pytest.approx(alpha)
    assert row.bandwidth_s == pytest.approx(bandwidth)
    depth = len(tiers)
    assert [phase.primitive for phase in row.phases] == ["reduce"] * (depth - 1) + [
        "all_reduce"
    ] + ["broadcast"] * (depth - 1)
    assert all(phase.bytes == M for phase in row.phases)


def test_leader_pays_for_an_expensive_outer_alpha_at_small_sizes_only() -> None:
    where = fabric(star(8, 0.1, 900.0), clos(4, alpha=30.0, bw=50.0))
    small, large = (
        {
            row.algorithm: float(row.total_s)
            for row in reversed(colltool.price(where, "ar", size=size).results)
        }
        for size in (8.0, 1e9)
    )
    assert small["leader"] <= small["hierarchical"] * 1.1
    assert large["leader"] > 2 * large["hierarchical"]


@both
def test_two_level_all_to_all(where: Fabric, tiers: Numbers) -> None:
    row = row_of(where, "a2a", "two-level:" + "/".join("pairwise" for _ in tiers))
    assert row.alpha_s == pytest.approx(sum((p - 1) * a for p, a, _ in tiers))
    assert row.bandwidth_s == pytest.approx(sum((p - 1) / p * M / bw for p, _, bw in tiers))


@both
def test_two_level_saves_alpha_and_never_bytes(where: Fabric, tiers: Numbers) -> None:
    pairwise = row_of(where, "a2a", "pairwise")
    two_level = row_of(where, "a2a", "two-level:" + "/".join("pairwise" for _ in tiers))
    assert two_level.alpha_s < pairwise.alpha_s
    assert two_level.bandwidth_s >= pairwise.bandwidth_s * (1 - 1e-12)


def test_pairwise_over_classes() -> None:
    n, piece = 96, M / 96
    row = row_of(THREE, "a2a", "pairwise")
    assert row.alpha_s == pytest.approx(3 * 0.5e-6 + 8 * 1e-6 + 84 * 4e-6)
    assert row.bandwidth_s == pytest.approx(piece * (3 / 900e9 + 8 / 200e9 + 84 / 50e9))
    assert [(phase.tier, phase.n_alpha) for phase in row.phases] == [
        ("t1", 3),
        ("t2", 8),
        ("t3", 84),
    ]
    assert sum(phase.n_beta for phase in row.phases) == pytest.approx((n - 1) / n)


# --- flat rings
# ---------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("primitive", "passes"), [("ar", 2), ("ag", 1), ("rs", 1)])
def test_flat_rings(where: Fabric, tiers: Numbers, primitive: str, passes: int) -> None:
    n = where.ranks
    steps, load = passes * (n - 1), passes * (n - 1) / n * M
    slowest = min(bw for _, _, bw in tiers)
    _, outer_alpha, outer_bw = tiers[-1]
    inner_size, inner_alpha, inner_bw = tiers[0]
    hops, inside = 0.0, 1
    for p, alpha, _ in tiers:
        crossing = n // inside
        leaving = n // (inside * p) if inside * p < n else 0
        hops += (crossing - leaving) * alpha
        inside *= p
    mean = hops / n
    ring = row_of(where, primitive, "ring")
    assert (ring.alpha_s, ring.bandwidth_s) == (
        pytest.approx(steps * mean),
        pytest.approx(load / slowest),
    )
    outer = row_of(where, primitive, "outer-ring")
    assert (outer.alpha_s, outer.bandwidth_s) == (
        pytest.approx(steps * outer_alpha),
        pytest.approx(load / outer_bw),
    )
    inner = row_of(where, primitive, "inner-ring")
    assert (inner.alpha_s, inner.bandwidth_s) == (
        pytest.approx(steps * inner_alpha),
        pytest.approx(load / inner_bw),
    )
    assert inner.status == "hypothetical"
    rails = row_of(where, primitive, "multi-rail-ring")
    assert rails.alpha_s == pytest.approx(steps * mean)
    best = min([inner_bw, *(inner_size * bw for _, _, bw in tiers[1:])])
    assert rails.bandwidth_s == pytest.approx(load / best)


def test_worst_ring_alpha_takes_the_slowest_hop_in_every_step() -> None:
    assert row_of(TWO, "ar", "ring", ring_alpha="worst").alpha_s == pytest.approx(2 * 31 * 3e-6)


@swept("inner_bw", [100.0, 400.0, 2000.0])
def test_multi_rail_ring_is_bounded_by_the_port_or_by_all_rails(inner_bw: float) -> None:
    where = fabric(star(8, 0.5, inner_bw), clos(4, alpha=3.0, bw=50.0))
    row = row_of(where, "ar", "multi-rail-ring")
    assert row.bandwidth_s == pytest.approx(2 * 31 / 32 * M / min(inner_bw * 1e9, 8 * 50e9))


@swept("inner_bw", [100.0, 400.0, 2000.0])
@swept("primitive", ["bc", "reduce"])
def test_multi_rail_chain_is_bounded_alike_and_walks_as_a_chain(
    primitive: str, inner_bw: float
) -> None:
    where = fabric(star(8, 0.5, inner_bw), clos(4, alpha=3.0, bw=50.0))
    row, one = (row_of(where, primitive, name) for name in ("multi-rail-chain", "chain"))
    assert row.bandwidth_s == pytest.approx(M / min(inner_bw * 1e9, 8 * 50e9))
    assert one.bandwidth_s == pytest.approx(M / 50e9)
    assert row.alpha_s == pytest.approx(one.alpha_s)


@swept(("s", "slowed"), [(2.0, 1.0), (4.0, 1.0), (8.0, 2.0)])
def test_multi_rail_ring_loads_the_uplinks_in_proportion(s: float, slowed: float) -> None:
    """Leaves of four nodes: one node of four leaves at a time, on all of its rails."""
    where = fabric(star(8, 0.5, 900.0), clos(8, (4, 2.0), (8, 8.0, s), bw=50.0))
    assert row_of(where, "ar", "multi-rail-ring").bandwidth_s == pytest.approx(
        2 * 63 / 64 * M / 400e9 * slowed
    )


# --- choices
# ------------------------------------------------------------------------------------------------------------

CAPABLE = fabric(
    star(8, 0.5, 900.0, eta={"alpha": 1.0, "beta": 0.8}, in_network=switch(eta_beta=0.52)),
    clos(
        16,
        (4, 2.0),
        (16, 8.0, 2.0),
        bw=50.0,
        eta={"alpha": 1.2, "beta": 0.8},
        in_network=switch(0.5, levels=2),
    ),
)
LATTICE = fabric(torus(4, 4, alpha=0.5), clos(6, alpha=3.0, bw=50.0))
NAME = {
    "ar": "hierarchical",
    "ag": "hierarchical",
    "rs": "hierarchical",
    "bc": "hierarchical",
    "reduce": "hierarchical",
    "a2a": "two-level",
}


RUNS_ON = (
    {"bc": "chain", "reduce": "chain", "a2a": "direct"},
    {"bc": "dim-chain", "reduce": "dim-chain", "a2a": "dim-by-dim"},
)
"""What runs on any tier, and on any lattice, beside ``ring``."""


def every_composition(
    where: Fabric, primitive: str, sizes: list[float], **model: object
) -> list[AlgorithmEstimate]:
    """Every composition that has a price, found by trying names; rows hold arrays over the
    sizes."""
    composed = (
        [("leader", "reduce"), ("hierarchical", "rs")]
        if primitive == "ar"
        else [(NAME[primitive], primitive)]
    )
    found = []
    for base, inner in composed:
        tiers = [inner] * (len(where.tiers) - 1) + [primitive]
        common = [
            RUNS_ON[tier.topology == "torus"].get(of, "ring")
            for tier, of in zip(where.tiers, tiers, strict=True)
        ]
        feasible = []
        for index, of_tier in enumerate(tiers):
            names = [row.name for row in algorithms(parse_primitive(of_tier))]
            feasible.append(
                [
                    name
                    for name in names
                    if runs(where, primitive, base, common, index, name, **model)
                ]
            )
        for names in product(*feasible):
            found += colltool.price(
                where, primitive, size=sizes, algorithms=f"{base}:{'/'.join(names)}", **model
            ).results
    return found


def runs(
    where: Fabric,
    primitive: str,
    base: str,
    common: list[str],
    index: int,
    name: str,
    **model: object,
) -> bool:
    names = [*common[:index], name, *common[index + 1 :]]
    try:
        colltool.price(where, primitive, size=1, algorithms=f"{base}:{'/'.join(names)}", **model)
    except ColltoolError:
        return False
    return True


MODELS = [
    {},
    {"ideal": True},
    {"placement": "scattered"},
    {"phases": "pipelined"},
    {"phases": "sequential"},
]


@swept("model", MODELS, most=1)
@swept("where", [TWO, CAPABLE, LATTICE])
@swept("primitive", NAME)
def test_the_best_composition_is_the_best_of_all(
    where: Fabric, primitive: str, model: dict[str, object]
) -> None:
    check_the_best(where, primitive, [1.0, 64e3, 1e9], **model)


@pytest.mark.parametrize("primitive", ["ar", "ag", "bc"])
def test_the_best_composition_of_three_tiers(primitive: str) -> None:
    check_the_best(THREE, primitive, [100.0, 16e6])


@pytest.mark.parametrize("primitive", ["ar", "bc", "reduce"])
@pytest.mark.parametrize("phases", ["sequential", "pipelined"])
def test_the_best_composition_with_optimal_segments(primitive: str, phases: str) -> None:
    """Whole segments: the best choice is still the best when its pipelines are cut."""
    check_the_best(
        TWO, primitive, [10 ** (k / 4) for k in range(37)], pipelining="optimal", phases=phases
    )


def check_the_best(where: Fabric, primitive: str, sizes: list[float], **model: object) -> None:
    tried = every_composition(where, primitive, sizes, **model)
    assert len(tried) > 3
    for number, size in enumerate(sizes):
        listed = colltool.price(where, primitive, size=size, **model).results
        for base in {row.algorithm for row in tried}:
            fastest = min(float(row.total_s[number]) for row in tried if row.algorithm == base)
            shown = min(float(row.total_s) for row in listed if row.algorithm == base)
            assert shown == pytest.approx(fastest, rel=1e-9), (base, size)


def test_the_textbook_composition_is_always_listed() -> None:
    for size in (1.0, 1e9):
        assert "ring / ring" in [
            row.detail for row in colltool.price(CAPABLE, "ar", size=size).results
        ]


@swept("size", [1.0, 1e9])
@swept("where", [TWO, CAPABLE, LATTICE])
def test_a_name_alone_is_the_fastest_choice_and_the_textbook_one(
    where: Fabric, size: float
) -> None:
    everything = [
        row
        for row in colltool.price(where, "ar", size=size).results
        if row.algorithm == "hierarchical"
    ]
    alone = colltool.price(where, "ar", size=size, algorithms="hierarchical").results
    assert [(row.detail, row.total_s) for row in alone] == [
        (row.detail, row.total_s) for row in everything
    ]
    assert "ring / ring" in {row.detail for row in alone}


@swept("phases", [None, "sequential", "pipelined"])
def test_a_title_as_tables_print_it_is_a_choice_too(phases: str | None) -> None:
    for row in colltool.price(CAPABLE, "ar", size=M, phases=phases).results:
        again = colltool.price(CAPABLE, "ar", size=M, algorithms=[row.title], phases=phases).results
        assert row.total_s in [other.total_s for other in again]


@swept(
    ("where", "primitive", "name", "message"),
    [
        (TWO, "ar", "hierarchical:ring", "names 1 algorithms, the group spans 2 tiers"),
        (TWO, "ar", "hierarchical:ring/ring/ring", "names 3 algorithms, the group spans 2 tiers"),
        (TWO, "ar", "hierarchical:ring/rnig", "did you mean 'ring'"),
        (TWO, "ar", "hierarchical:pairwise/ring", "'pairwise' is an algorithm of a2a"),
        (TWO, "ar", "hierarchical:ring/", "ends where a name is due"),
        (
            TWO,
            "ar",
            "hierarchical:dim-ring/ring",
            "dim-ring cannot run on t1: needs a torus or a mesh",
        ),
        (
            TWO,
            "ar",
            "hierarchical:in-network/ring",
            "in-network cannot run on t1: needs switches that do reduce",
        ),
        (TWO, "rs", "hierarchical:pat/ring", "pat cannot run on t1: runs between nodes only"),
        (
            THREE,
            "rs",
            "hierarchical:ring/recursive-halving/ring",
            "recursive-halving cannot run on t2: needs a power-of-two",
        ),
        (TWO, "ar", "ring:ring/ring", "'ring' takes no choice"),
        (TWO, "ar", "two-level:ring/ring", "no algorithm 'two-level' for all-reduce"),
        (
            fabric(star(8)),
            "ar",
            "hierarchical:ring",
            "needs a group over several tiers; 8 ranks lie inside t1",
        ),
        (fabric(star(8)), "ar", "leader", "needs a group over several tiers"),
    ],
)
def test_choices_that_cannot_be(where: Fabric, primitive: str, name: str, message: str) -> None:
    with pytest.raises(ColltoolError) as refused:
        colltool.price(where, primitive, size=M, algorithms=name)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("primitive", "name", "capability"),
    [
        ("ar", "hierarchical:in-network/ring", "multicast"),
        ("ar", "leader:in-network/ring", "multicast"),
    ],
)
def test_a_tier_that_cannot_make_the_way_back_says_why(
    primitive: str, name: str, capability: str
) -> None:
    """The switches reduce but do not multicast: the reduce-scatter runs, its all-gather does
    not."""
    where = fabric(star(8, in_network=switch(multicast=False)), clos(4, alpha=3.0))
    with pytest.raises(ColltoolError) as refused:
        colltool.price(where, primitive, size=M, algorithms=name)
    assert "None" not in str(refused.value)
    assert capability in str(refused.value)


def test_a_group_inside_the_inner_tier_is_not_composed() -> None:
    result = colltool.price(TWO, "ar", size=M, ranks=8)
    assert not any(row.detail for row in result.results)
    reasons = {cannot.algorithm: cannot.reason for cannot in result.infeasible}
    assert reasons["hierarchical"] == "needs a group over several tiers; 8 ranks lie inside t1"


def test_in_network_hardware_serves_each_tier_where_it_can() -> None:
    row = row_of(CAPABLE, "ar", "hierarchical:in-network/in-network")
    assert [(p.tier, p.primitive, p.eta_beta) for p in row.phases] == [
        # streamed: the switch reduces one chunk while it multicasts another
        ("t1", "all_reduce", 0.52),
        ("t2", "all_reduce", 0.5),  # the ratio of 2 caps the tier's 0.8
    ]
    assert row.alpha_s == pytest.approx(2 * 0.2e-6 + 4 * 0.5e-6 * 1.2)


def test_a_hypothetical_part_makes_the_whole_hypothetical() -> None:
    rows = colltool.price(
        TWO, "ar", size=M, algorithms="hierarchical:ring/double-binary-tree", tree_beta=1.0
    ).results
    assert rows[0].status == "hypothetical"


@pytest.mark.parametrize(("ranks", "send", "cross_rail"), [(288, 2.0, 3.24), (2304, 8.0, 9.24)])
def test_a_pair_on_two_rails_pays_a_hop_inside_and_the_path_along_the_rail(
    ranks: int, send: float, cross_rail: float
) -> None:
    """NVL72 pods on rails: 1.24 us inside; 2 us through one leaf, 8 us through the spine."""
    results = colltool.price("nvl72", "p2p", ranks=ranks, size=1, ideal=True).results
    times = {row.algorithm: float(row.alpha_s) * 1e6 for row in results}
    assert times == pytest.approx({"send": send, "cross-rail": cross_rail})


def test_across_rails_bytes_stream_over_the_slower_tier() -> None:
    prices = {
        phases: (
            colltool.price(
                "nvl72", "p2p", size="16MB", algorithms="cross-rail", phases=phases, ideal=True
            ).results[0]
        )
        for phases in ("auto", "sequential")
    }
    assert float(prices["auto"].bandwidth_s) == pytest.approx(16e6 / 50e9)
    assert float(prices["sequential"].bandwidth_s) == pytest.approx(16e6 / 50e9 + 16e6 / 900e9)
    assert prices["auto"].shipped_by == ("NCCL (PXN)",)
