"""Where a group sits and what its messages meet there: tiers, distance classes, oversubscription
counted flow by flow."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from math import ceil, log2, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import Tier, clos, fabric, full_mesh, mesh, star, switch, torus
from swept import swept

import colltool
from colltool.algorithms.binary_trees import double_tree, one_root_trees
from colltool.base.errors import ColltoolError
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import flat_group, place, tier_group
from colltool.fabric.model import Fabric
from colltool.network.group import Axis

M = 1e6
ETA = {"alpha": 1.5, "beta": 0.6}


def price_of(
    where: Fabric, primitive: str, algorithm: str, n: int | None = None, **more: object
) -> AlgorithmEstimate:
    (row,) = colltool.price(where, primitive, size=M, ranks=n, algorithms=algorithm, **more).results
    return row


# --- which tiers
# --------------------------------------------------------------------------------------------------------

THREE = fabric(star(8), full_mesh(4), clos(16, (4, 2.0), (16, 8.0)))


@swept(
    ("ranks", "sizes"),
    [
        (2, (2,)),
        (5, (5,)),
        (8, (8,)),
        (16, (8, 2)),
        (24, (8, 3)),
        (32, (8, 4)),
        (64, (8, 4, 2)),
        (512, (8, 4, 16)),
        (None, (8, 4, 16)),
    ],
)
def test_a_group_fills_tiers_innermost_first(ranks: int | None, sizes: tuple[int, ...]) -> None:
    placed = place(THREE, ranks)
    assert placed.sizes == sizes
    assert placed.ranks == prod(sizes)
    inside = 1
    for span in placed.spans:
        assert span.members_inside == inside
        inside *= span.tier.endpoints


def test_a_tier_of_one_endpoint_is_no_tier() -> None:
    placed = place(fabric(star(1), clos(8, alpha=2.0)), 4)
    assert [(span.tier.name, span.endpoints, span.members_inside) for span in placed.spans] == [
        ("t2", 4, 1)
    ]


ALL = {
    "three": THREE,
    "torus": fabric(torus(4, 3, 2)),
    "torus+clos": fabric(torus(4, 4), clos(5, alpha=2.0)),
}


@swept("where", ALL.values())
def test_a_group_that_leaves_a_domain_half_full_is_refused_with_the_nearest_that_fit(
    where: Fabric,
) -> None:
    def fits(n: int) -> bool:
        left = n
        for tier in where.tiers:
            here, axes = min(tier.endpoints, left), getattr(tier, "shape", ())
            if left % here or (
                axes
                and all(
                    prod(box) != here for box in product(*(range(1, size + 1) for size in axes))
                )
            ):
                return False
            left //= here
        return left == 1

    sizes = [n for n in range(2, where.ranks + 1) if fits(n)]
    for n in range(2, where.ranks + 1):
        if n in sizes:
            assert place(where, n).ranks == n
            continue
        with pytest.raises(ColltoolError) as refused:
            place(where, n)
        named = [int(number) for number in re.findall(r"\d+", refused.value.fix.partition(";")[0])]
        assert named == [max(s for s in sizes if s < n), min(s for s in sizes if s > n)]
        assert refused.value.argument == "ranks"


@swept("ranks", [-1, 0, 1, 513, 10**9])
def test_too_few_and_too_many(ranks: int) -> None:
    with pytest.raises(ColltoolError, match=str(ranks)) as refused:
        place(THREE, ranks)
    assert "512" in refused.value.fix


@swept(
    ("ranks", "axes"),
    [
        (24, (Axis(4, True), Axis(3, True), Axis(2, True))),
        (12, (Axis(4, True), Axis(3, True), Axis(1, False))),
        (8, (Axis(4, True), Axis(2, False), Axis(1, False))),
        (4, (Axis(4, True), Axis(1, False), Axis(1, False))),
        (3, (Axis(1, False), Axis(3, True), Axis(1, False))),
        (2, (Axis(2, False), Axis(1, False), Axis(1, False))),
    ],
)
def test_a_part_of_a_torus_axis_is_an_open_line_and_a_whole_one_is_a_ring(
    ranks: int, axes: tuple[Axis, ...]
) -> None:
    group, _ = flat_group(place(ALL["torus"], ranks), ModelOptions())
    assert group.axes == axes


def test_an_open_line_costs_what_a_mesh_does() -> None:
    part = colltool.price(
        fabric(torus(8)), "a2a", size=M, ranks=6, algorithms="shortest-path"
    ).results[0]
    line = colltool.price(fabric(mesh(6)), "a2a", size=M, algorithms="shortest-path").results[0]
    assert (part.n_alpha, part.n_beta) == (line.n_alpha, line.n_beta) == (5, pytest.approx(9 / 6))


# --- distance classes: rings
# --------------------------------------------------------------------------------------------


def distance_class(a: int, b: int, groups: list[int]) -> int:
    """The lowest level that has both endpoints under one switch."""
    return next(level for level, group in enumerate(groups) if a // group == b // group)


def test_eight_pods_split_four_and_four() -> None:
    where = fabric(clos(32, (4, 2.0), (32, 8.0), bw=50.0, eta={"alpha": 1.2, "beta": 0.8}))
    mean = price_of(where, "ar", "ring", 8)
    assert mean.alpha_s == pytest.approx(2 * 7 * (6 * 2e-6 + 2 * 8e-6) / 8 * 1.2)
    assert price_of(where, "ar", "ring", 8, ring_alpha="worst").alpha_s == pytest.approx(
        2 * 7 * 8e-6 * 1.2
    )
    assert price_of(where, "ar", "ring", 8, ideal=True).alpha_s == pytest.approx(
        2 * 7 * (6 * 2e-6 + 2 * 8e-6) / 8
    )
    assert mean.bandwidth_s == pytest.approx(2 * 7 / 8 * M / (50e9 * 0.8))


@given(
    st.sampled_from([[2, 8, 64], [3, 12, 24], [4, 64], [1, 8, 32], [6, 36]]),
    st.integers(2, 64),
    st.booleans(),
)
def test_ring_alpha_hop_by_hop(groups: list[int], n: int, worst: bool) -> None:
    n = min(n, groups[-1])
    alphas = [2.0, 5.0, 11.0][: len(groups)]
    where = fabric(clos(groups[-1], *zip(groups, alphas, strict=True)))
    hops = [alphas[distance_class(rank, (rank + 1) % n, groups)] for rank in range(n)]
    expected = max(hops) if worst else sum(hops) / n
    row = price_of(where, "ag", "ring", n, ring_alpha="worst" if worst else "mean")
    assert row.alpha_s == pytest.approx((n - 1) * expected * 1e-6)


@given(st.integers(2, 16), st.sampled_from([[2, 8], [4, 8], [1, 8], [3, 9]]))
def test_a_packed_ring_over_two_tiers_leaves_each_domain_once(
    inner: int, groups: list[int]
) -> None:
    where = fabric(star(inner, 0.5, 900.0), clos(groups[-1], (groups[0], 3.0), (groups[1], 7.0)))
    n = where.ranks
    hops = []
    for rank in range(n):
        a, b = rank // inner, (rank + 1) % n // inner
        hops.append(0.5 if a == b else [3.0, 7.0][distance_class(a, b, groups)])
    assert price_of(where, "ar", "ring").alpha_s == pytest.approx(
        2 * (n - 1) * sum(hops) / n * 1e-6
    )
    assert price_of(where, "ar", "multi-rail-ring").alpha_s == pytest.approx(
        2 * (n - 1) * sum(hops) / n * 1e-6
    )


def test_a_chain_is_an_open_ring() -> None:
    where = fabric(clos(8, (4, 2.0), (8, 9.0)))
    assert price_of(where, "bc", "chain").alpha_s == pytest.approx((6 * 2 + 9) * 1e-6)
    assert price_of(where, "bc", "chain", 5).alpha_s == pytest.approx((3 * 2 + 9) * 1e-6)
    assert price_of(where, "bc", "chain", 4).alpha_s == pytest.approx(3 * 2e-6)


# --- oversubscription
# ---------------------------------------------------------------------------------------------------


def thin(group: int, s: float, size: int = 32, **more: object) -> Fabric:
    return fabric(clos(size, (group, 2.0), (size, 8.0, s), bw=50.0, **more))


def share_of(row: AlgorithmEstimate) -> float:
    """What is left of the nominal bandwidth in the slowest phase."""
    return min(phase.eta_beta for phase in row.phases)


@swept(("group", "s"), [(4, 2.0), (4, 4.0), (8, 8.0), (4, 1.0)])
def test_a_packed_ring_does_not_feel_a_ratio_up_to_the_domain(group: int, s: float) -> None:
    row = price_of(thin(group, s), "ar", "ring")
    assert row.bandwidth_s == pytest.approx(2 * 31 / 32 * M / 50e9)
    if s > 1:
        assert row.notes == (
            "oversubscription does not bind: too few flows cross the boundary at once (packed)",
        )


@swept(("group", "s"), [(4, 6.0), (4, 100.0), (2, 3.0), (1, 3.0), (1, 1.5)])
def test_beyond_it_the_one_flow_shares_what_is_left(group: int, s: float) -> None:
    """A leaf of one endpoint feels all of s: the published ratio of 3 on single-node leaves."""
    row = price_of(thin(group, s), "ar", "ring")
    assert share_of(row) == pytest.approx(group / s)
    assert row.bandwidth_s == pytest.approx(2 * 31 / 32 * M / 50e9 * s / group)
    assert any("oversubscription leaves" in note for note in row.notes)


FLOWS = [
    ("ar", "ring"),
    ("ag", "ring"),
    ("bc", "chain"),
    ("bc", "pipelined-tree"),
    ("ar", "tree"),
    ("a2a", "bruck"),
    ("ar", "double-binary-tree"),
    ("ar", "rabenseifner"),
]


@swept("primitive_and_name", FLOWS)
@swept("s", [1.5, 4.0, 10.0])
def test_scattered_feels_all_of_it(primitive_and_name: tuple[str, str], s: float) -> None:
    primitive, name = primitive_and_name
    row = price_of(thin(4, s), primitive, name, placement="scattered")
    full = price_of(thin(4, 1.0), primitive, name, placement="scattered")
    assert row.bandwidth_s == pytest.approx(full.bandwidth_s * s)
    assert row.alpha_s == pytest.approx(full.alpha_s)
    nearer = price_of(thin(4, s), primitive, name)
    assert nearer.total_s <= row.total_s


def test_a_group_inside_one_leaf_crosses_nothing() -> None:
    for name in ("ring", "rabenseifner", "double-binary-tree", "one-shot"):
        row = price_of(thin(4, 8.0), "ar", name, 4)
        assert share_of(row) == 1.0
        assert row.notes == price_of(thin(4, 1.0), "ar", name, 4).notes


def share_over(rank: int, peer: int, n: int, groups: list[int], ratios: list[float]) -> float:
    """What the boundaries between two endpoints leave when everybody under each of them sends
    across at once."""
    share = 1.0
    for level in range(1, distance_class(rank, peer, groups) + 1):
        below = groups[level - 1]
        sending = sum(other // below == rank // below for other in range(n))
        share = min(share, below / (ratios[level] * sending))
    return share


RATIOS = [[1.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 4.0], [1.0, 2.0, 6.0], [1.0, 6.0, 2.0]]


@swept("ratios", RATIOS)
@swept("n", [2, 3, 4, 6, 7, 8, 11, 13, 15, 16])
@swept("groups", [[4, 16], [3, 18], [2, 8, 16], [1, 16], [5, 20], [4, 8, 24]])
def test_pairwise_all_to_all_over_all_pairs(groups: list[int], n: int, ratios: list[float]) -> None:
    """Every rank adds up its own messages: α is that of the rank with the farthest peers, bytes
    that of the slowest rank."""
    alphas, ratios = [2.0, 5.0, 11.0][: len(groups)], ratios[: len(groups)]
    levels = [(groups[0], alphas[0]), *zip(groups[1:], alphas[1:], ratios[1:], strict=True)]
    where = fabric(clos(groups[-1], *levels, bw=50.0))  # type: ignore[arg-type]
    latency, transfer = [0.0] * n, [0.0] * n
    for rank in range(n):
        for peer in set(range(n)) - {rank}:
            latency[rank] += alphas[distance_class(rank, peer, groups)] * 1e-6
            transfer[rank] += M / n / (50e9 * share_over(rank, peer, n, groups, ratios))
    row = price_of(where, "a2a", "pairwise", n)
    assert row.alpha_s == pytest.approx(max(latency))
    assert row.bandwidth_s == pytest.approx(max(transfer))
    slowest = max(a + b for a, b in zip(latency, transfer, strict=True))
    assert row.total_s >= slowest * (1 - 1e-12)
    assert sum(phase.n_alpha for phase in row.phases) == n - 1


def test_six_endpoints_on_leaves_of_four() -> None:
    """The two in the second leaf have one near peer and four far ones."""
    row = price_of(fabric(clos(8, (4, 2.0), (8, 8.0))), "a2a", "pairwise", 6)
    assert [(phase.level, phase.n_alpha) for phase in row.phases] == [("l1", 1), ("l2", 4)]


@swept(("pods", "near", "leaf", "far"), [(2, 7, 8, 0), (4, 7, 8, 16), (6, 7, 8, 32)])
def test_pairwise_over_two_tiers_counts_the_inner_one_as_a_class(
    pods: int, near: int, leaf: int, far: int
) -> None:
    where = fabric(star(8, 0.5, 900.0), clos(6, (2, 3.0), (6, 7.0, 2.0), bw=50.0))
    row = price_of(where, "a2a", "pairwise", 8 * pods)
    assert row.alpha_s == pytest.approx((near * 0.5 + leaf * 3 + far * 7) * 1e-6)
    piece = M / (8 * pods)
    assert row.bandwidth_s == pytest.approx(
        near * piece / 900e9 + leaf * piece / 50e9 + far * piece / 25e9
    )


def test_a_pod_alone_in_its_leaf_has_more_far_peers_and_idle_uplinks() -> None:
    """Three pods, two to a leaf: the third sends everything far, over uplinks made for two; the
    other two share theirs."""
    where = fabric(star(8, 0.5, 900.0), clos(6, (2, 3.0), (6, 7.0, 2.0), bw=50.0))
    row = price_of(where, "a2a", "pairwise", 24)
    piece = M / 24
    assert row.alpha_s == pytest.approx((7 * 0.5 + 16 * 7) * 1e-6)
    assert row.bandwidth_s == pytest.approx(
        max(8 / 50e9 + 8 / 25e9, 16 / 50e9) * piece + 7 * piece / 900e9
    )


@swept(
    ("s_2", "s_3", "expected"),
    [(2.0, 4.0, 1 / 4), (4.0, 2.0, 1 / 4), (3.0, 1.0, 1 / 3), (1.0, 3.0, 1 / 3)],
)
def test_of_two_oversubscribed_boundaries_the_smaller_share_counts(
    s_2: float, s_3: float, expected: float
) -> None:
    where = fabric(clos(16, (2, 1.0), (8, 2.0, s_2), (16, 3.0, s_3)))
    row = price_of(where, "a2a", "pairwise")
    by_level = {phase.level: phase.eta_beta for phase in row.phases}
    assert by_level == {"l1": 1.0, "l2": pytest.approx(1 / s_2), "l3": pytest.approx(expected)}
    ring = price_of(where, "ar", "ring", placement="scattered")
    assert share_of(ring) == pytest.approx(expected)


@swept("s", [1.0, 1.1, 1.25, 2.0, 8.0])
@swept("beta", [1.0, 0.8, 0.3])
def test_the_cap_is_never_charged_twice(s: float, beta: float) -> None:
    where = thin(4, s, eta={"alpha": 1.0, "beta": beta})
    for primitive, name in (("a2a", "pairwise"), ("ag", "recursive-doubling")):
        far = price_of(where, primitive, name).phases[-1]
        assert far.eta_beta == pytest.approx(min(beta, 1 / s))
        ideal = price_of(where, primitive, name, ideal=True).phases[-1]
        assert ideal.eta_beta == pytest.approx(1 / s)
        assert ideal.eta_alpha == 1.0


@swept("n", [4, 8, 16, 32])
def test_xor_rounds_pay_the_level_that_they_cross(n: int) -> None:
    """Recursive halving: the partner at distance 2^k; leaves of 4, so distances 1 and 2 stay
    inside."""
    where = thin(4, 2.0)
    row = price_of(where, "rs", "recursive-halving", n)
    alpha = seconds = 0.0
    for k in range(int(log2(n))):
        crosses = 1 << k >= 4
        alpha += 8e-6 if crosses else 2e-6
        seconds += (1 << k) / n * M / (25e9 if crosses else 50e9)
    assert row.alpha_s == pytest.approx(alpha)
    assert row.bandwidth_s == pytest.approx(seconds)


def test_xor_rounds_on_domains_that_are_no_power_of_two() -> None:
    """Leaves of 6: pairs at distance 1 stay inside, at distance 2 ranks 4 and 6 meet across."""
    row = price_of(fabric(clos(12, (6, 2.0), (12, 8.0))), "ag", "recursive-doubling", 8)
    assert row.alpha_s == pytest.approx((2 + 8 + 8) * 1e-6)


@swept("n", [5, 6, 8, 11, 16, 24])
@swept("group", [1, 2, 4, 8])
@swept("name", ["bruck", "pat"])
def test_shift_rounds_flow_by_flow(name: str, group: int, n: int) -> None:
    """Everybody sends stride further, round the corner; the slowest leaf is the one with the most
    leaving at once.

    Bruck sends the slots with bit k; PAT, far to near, passes on the chunks that came from
    distances with no lower bit.
    """
    s = 2.0
    where = thin(group, s, 24)
    seconds = 0.0
    for k in range(ceil(log2(n))):
        stride = 1 << k
        if name == "bruck":
            load = sum(slot >> k & 1 for slot in range(n)) / n
        else:
            load = sum(distance & -distance == stride for distance in range(1, n)) / n
        leaving = Counter(
            rank // group for rank in range(n) if (rank + stride) % n // group != rank // group
        )
        most = max(leaving.values(), default=0)
        share = min(1.0, group / (s * most)) if most else 1.0
        seconds += load * M / (50e9 * share)
    primitive = "a2a" if name == "bruck" else "rs"
    assert price_of(where, primitive, name, n).bandwidth_s == pytest.approx(seconds)


@swept("n", [4, 6, 8, 13, 24])
@swept("group", [1, 2, 4, 8])
@swept("s", [1.0, 2.0, 8.0])
def test_binomial_rounds_flow_by_flow(group: int, n: int, s: float) -> None:
    where = thin(group, s, 24)
    seconds = 0.0
    for k in range(ceil(log2(n))):
        pairs = [(rank, rank + (1 << k)) for rank in range(0, n, 2 << k) if rank + (1 << k) < n]
        leaving = Counter(a // group for a, b in pairs if a // group != b // group)
        seconds += M / (50e9 * min(1.0, group / (s * max(leaving.values(), default=1e-9))))
    assert price_of(where, "bc", "binomial", n).bandwidth_s == pytest.approx(seconds)


def busiest_way(primitive: str, n: int, group: int) -> int:
    """Edges over the uplinks or the downlinks of any domain; one root feeds both trees of a
    payload."""
    up: Counter[int] = Counter()
    down: Counter[int] = Counter()
    for parents in double_tree(n) if primitive == "ar" else one_root_trees(n):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // group != child // group:
                for a, b in [(parent, child)] * (primitive != "reduce") + [(child, parent)] * (
                    primitive != "bc"
                ):
                    up[a // group] += 1
                    down[b // group] += 1
    return max([*up.values(), *down.values()], default=0)


@swept("n", [2, 6, 8, 13, 16, 24])
@swept("group", [1, 2, 4, 8])
@swept("s", [1.0, 2.0, 5.0])
@swept("primitive", ["ar", "bc", "reduce"])
def test_tree_edges_flow_by_flow(primitive: str, group: int, n: int, s: float) -> None:
    """Two trees, half of the payload on every edge; up and down again in an all-reduce."""
    where = thin(group, s, 24)
    load = 2.0 if primitive == "ar" and n > 2 else 1.0
    crossing = busiest_way(primitive, n, group) / 2 * s / group
    name = "double-binary-tree" if primitive == "ar" else "pipelined-tree"
    assert price_of(where, primitive, name, n).bandwidth_s == pytest.approx(
        max(load, crossing) * M / 50e9
    )


@swept("n", [16, 32, 48])
@swept("ratios", [(16.0, 2.0), (2.0, 40.0), (8.0, 8.0)])
@swept("primitive", ["ar", "bc", "reduce"])
def test_tree_edges_over_two_boundaries(
    primitive: str, ratios: tuple[float, float], n: int
) -> None:
    """Each boundary drains what its own domains send: a leaf's edges over the leaf's uplinks, a
    pod's over the pod's."""
    where = fabric(clos(48, (2, 2.0), (16, 4.0, ratios[0]), (48, 8.0, ratios[1]), bw=50.0))
    slowest = 2.0 if primitive == "ar" else 1.0
    for group, s in zip((2, 16), ratios, strict=True):
        slowest = max(slowest, busiest_way(primitive, n, group) / 2 * s / group)
    name = "double-binary-tree" if primitive == "ar" else "pipelined-tree"
    assert price_of(where, primitive, name, n).bandwidth_s == pytest.approx(slowest * M / 50e9)


def test_tree_rounds_pay_the_alpha_of_the_level_that_they_span() -> None:
    row = price_of(thin(4, 1.0), "bc", "pipelined-tree", 16)
    assert row.alpha_s == pytest.approx((2 + 2 + 8 + 8) * 1e-6)
    row = price_of(thin(4, 1.0), "ar", "double-binary-tree", 16)
    assert row.alpha_s == pytest.approx(2 * (2 + 2 + 8 + 8) * 1e-6)


@swept("s", [1.0, 2.0, 10.0])
def test_all_peers_at_once_are_held_up_by_the_port_or_by_the_boundary(s: float) -> None:
    row = price_of(thin(4, s), "a2a", "direct", 32)
    assert row.alpha_s == pytest.approx(8e-6)
    assert row.bandwidth_s == pytest.approx(max(31 / 32 * M / 50e9, 28 / 32 * M * s / 50e9))


def test_a_leader_alone_has_the_uplinks_of_its_whole_domain() -> None:
    """One of eight NICs sends, so a ratio of 8 on leaves of one node is not felt; all rails at once
    feel it."""
    where = fabric(star(8, 0.5, 900.0), clos(4, (1, 2.0), (4, 8.0, 8.0), bw=50.0))
    leader = price_of(where, "ar", "leader:binomial/ring")
    assert min(phase.share for phase in leader.phases) == 1.0
    rails = price_of(where, "ar", "hierarchical:ring/ring")
    assert min(phase.share for phase in rails.phases) == pytest.approx(1 / 8)


# --- in-network, ports, ideal
# -------------------------------------------------------------------------------------------


def hardware(s: float = 1.0, levels: int | None = 2, **more: object) -> Fabric:
    spec = switch(0.3, eta_beta=0.5) | ({} if levels is None else {"levels": levels})
    return fabric(clos(16, (4, 2.0), (16, 8.0, s), bw=50.0, eta=ETA, in_network=spec, **more))


@swept(
    ("levels", "n", "height"),
    [(2, 16, 2), (2, 4, 1), (None, 16, 2), (None, 3, 1), (1, 16, 1), (5, 16, 2)],
)
def test_the_aggregation_tree_is_as_tall_as_the_group_needs(
    levels: int | None, n: int, height: int
) -> None:
    row = price_of(hardware(levels=levels), "ar", "in-network", n)
    assert row.n_alpha == 2 * height
    assert row.alpha_s == pytest.approx(2 * height * 0.3e-6 * ETA["alpha"])
    assert price_of(hardware(levels=levels), "bc", "in-network", n).n_alpha == height


def test_only_an_all_reduce_has_a_bandwidth_coefficient_of_its_own() -> None:
    for primitive in ("ar", "ag", "rs", "bc", "reduce", "a2a"):
        (phase,) = price_of(hardware(), primitive, "in-network").phases
        assert phase.eta_beta == (0.5 if primitive == "ar" else 0.6)
        (ideal,) = price_of(hardware(), primitive, "in-network", ideal=True).phases
        assert (ideal.eta_alpha, ideal.eta_beta) == (1.0, 1.0)


def test_without_one_an_all_reduce_takes_the_tier_s() -> None:
    where = fabric(star(8, eta=ETA, in_network=switch()))
    assert price_of(where, "ar", "in-network").phases[0].eta_beta == 0.6


@swept("s", [1.5, 2.0, 4.0])
def test_oversubscription_caps_the_switches_too(s: float) -> None:
    """Ideal mode keeps s: it is wiring."""
    for primitive, own in {"ar": 0.5, "ag": 0.6}.items():
        (phase,) = price_of(hardware(s), primitive, "in-network").phases
        assert phase.eta_beta == pytest.approx(min(own, 1 / s))
        (ideal,) = price_of(hardware(s), primitive, "in-network", ideal=True).phases
        assert ideal.eta_beta == pytest.approx(1 / s)
        (inside,) = price_of(hardware(s), primitive, "in-network", 4).phases
        assert inside.eta_beta == own


PORTED: list[tuple[str, Tier]] = [
    ("star", star(8, in_network=switch())),
    ("full_mesh", full_mesh(8)),
    ("torus", torus(4, 4)),
    ("mesh", mesh(4, 2)),
    ("clos", clos(8, (4, 2.0), (8, 8.0, 3.0))),
]


@swept("tier", [tier for _, tier in PORTED])
@swept("primitive", ["ar", "ag", "a2a", "bc", "p2p"])
def test_ports_multiply_the_bandwidth_and_nothing_else(tier: Tier, primitive: str) -> None:
    one = {row.algorithm: row for row in colltool.price(fabric(tier), primitive, size=M).results}
    four = {
        row.algorithm: row
        for row in colltool.price(fabric({**tier, "ports": 4}), primitive, size=M).results
    }
    assert one.keys() == four.keys()
    for name, row in one.items():
        assert four[name].bandwidth_s == pytest.approx(row.bandwidth_s / 4)
        assert four[name].alpha_s == pytest.approx(row.alpha_s)


def test_ideal_drops_contention_and_keeps_the_wiring() -> None:
    where = thin(1, 3.0, eta=ETA)
    real, ideal = price_of(where, "ar", "ring"), price_of(where, "ar", "ring", ideal=True)
    assert ideal.bandwidth_s == pytest.approx(2 * 31 / 32 * M / 50e9 * 3)
    assert real.bandwidth_s == pytest.approx(2 * 31 / 32 * M / 50e9 * 3)  # min(0.6, 1/3)
    assert real.alpha_s == pytest.approx(ideal.alpha_s * 1.5)


@swept("primitive", ["ar", "ag", "a2a", "bc"])
def test_more_oversubscription_never_helps(primitive: str) -> None:
    ratios = [1.0, 1.5, 2.0, 4.0, 9.0]
    by_ratio = [
        {
            row.algorithm: row.total_s
            for row in colltool.price(thin(4, s), primitive, size=M).results
        }
        for s in ratios
    ]
    for less, more in pairwise(by_ratio):
        assert all(less[name] <= more[name] * (1 + 1e-12) for name in less)


def test_a_group_with_other_numbers_is_seen_afresh() -> None:
    """What is kept on a span or a group never outlives its numbers."""
    placed, readings = place(colltool.load_fabric("nvl72")), ModelOptions()
    span = placed.spans[-1]
    group, reach = tier_group(span, readings, scale_out=True)
    assert tier_group(span, readings, scale_out=True)[1] is reach
    slower = replace(span, tier=span.tier.model_copy(update={"bandwidth": span.tier.bandwidth / 2}))
    assert (
        tier_group(slower, readings, scale_out=True)[1].top().bandwidth_Bps
        == reach.top().bandwidth_Bps / 2
    )
    leaders = tier_group(span, readings, scale_out=True, leaders=True)[1]
    assert (
        leaders.top().boundaries[-1].ports == reach.top().boundaries[-1].ports * span.members_inside
    )
    assert (
        tier_group(span, readings._replace(tree_beta=1.0), scale_out=True)[0].tree_beta
        == 1.0
        != group.tree_beta
    )
    assert tier_group(span, readings._replace(ideal=True), scale_out=True)[1].top().eta_beta == 1.0
    whole = flat_group(placed, readings)[1]
    assert (
        flat_group(replace(placed, spans=(placed.spans[0], slower)), readings)[1].top()
        != whole.top()
    )


def test_only_thinned_boundaries_take_a_share() -> None:
    """Uplinks that are not oversubscribed carry whatever the endpoints below them send, so leaving
    them out changes nothing."""
    levels = [
        {"name": f"l{g}", "group": g, "alpha": "1us", "oversubscription": s}
        for g, s in ((2, 1), (4, 1), (8, 2), (16, 1.5))
    ]
    fabric = Fabric.model_validate(
        {
            "name": "f",
            "tiers": [
                {"name": "t", "topology": "clos", "size": 16, "bandwidth": 1e9, "levels": levels}
            ],
        }
    )
    reach = tier_group(place(fabric).spans[0], ModelOptions(), scale_out=True)[1]
    for level in reach.levels:
        for most in (0.5, 1, 3, 8, 16):
            shares = [
                b.ports / (b.oversubscription * min(most, b.endpoints)) for b in level.boundaries
            ]
            assert level.share(lambda endpoints, most=most: min(most, endpoints)) == min(
                [1.0, *shares]
            )


# --- hops of a lattice outside
# ------------------------------------------------------------------------------------------


def test_a_message_pays_every_hop_of_a_lattice_around_domains() -> None:
    """Domains on a torus: from the farthest rank as long as from every 8th rank alone, who are on
    the torus only."""
    where = fabric(star(8, alpha=1.0), torus(8, 8, 8, alpha=3.0))
    several, alone = (
        colltool.price(where, "p2p", size=1e3, algorithms="send", **more).best
        for more in ({}, {"stride": 8})
    )
    assert several.n_alpha == alone.n_alpha == 3 * 4
    assert several.total_s == pytest.approx(alone.total_s)
    assert several.total_s > 36e-6
