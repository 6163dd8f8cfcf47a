"""Composed schedules: each tier's messages and bytes are those of its phases' prices."""

from collections import defaultdict

import numpy as np
import pytest
from swept import swept

import colltool.algorithms
from colltool.algorithms import executor
from colltool.algorithms.composed import Order
from colltool.algorithms.composed_program import compose
from colltool.algorithms.executor import TierNetworks
from colltool.algorithms.program import program_maker
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import named_candidates
from colltool.estimate.groups import place, tier_group
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.network.group import Axis, Group
from colltool.network.links import tier_of
from tests.wiring import Ports

assert colltool.algorithms
SEGMENTS = 3
STAR = (
    "{{name: t{0}, topology: star, size: {1}, alpha: 1us, bandwidth: 1GB/s, source: {{alpha: x,"
    " bandwidth: x, size: x}}}}"
)
LATTICE = (
    "{{name: t{0}, topology: {2}, shape: {1}, alpha: 1us, bandwidth: 1GB/s, source: {{alpha: x,"
    " bandwidth: x, shape: x}}}}"
)

SMALL = [
    (AR, "hierarchical", (4, 3), "ring/ring"),
    (AR, "hierarchical", (2, 5), "ring/ring"),
    (AR, "hierarchical", (2, 3, 4), "ring/ring/ring"),
    (AR, "hierarchical", (8, 8), "recursive-halving/rabenseifner"),
    (AR, "hierarchical", (4, 8), "recursive-halving/recursive-doubling"),
    (AR, "hierarchical", (4, 5), "direct/two-shot"),
    (AR, "hierarchical", (3, 8), "ring/tree"),
    (RS, "hierarchical", (4, 3), "ring/ring"),
    (RS, "hierarchical", (3, 4, 2), "ring/recursive-halving/ring"),
    (RS, "hierarchical", (4, 8), "direct/pat"),
    (AG, "hierarchical", (4, 3), "ring/ring"),
    (AG, "hierarchical", (3, 4, 2), "ring/recursive-doubling/ring"),
    (AG, "hierarchical", (4, 8), "direct/pat"),
    (BC, "hierarchical", (4, 3), "chain/chain"),
    (BC, "hierarchical", (3, 4, 2), "binomial/chain/binomial"),
    (BC, "hierarchical", (4, 8), "pipelined-tree/scatter-allgather"),
    (REDUCE, "hierarchical", (4, 3), "chain/chain"),
    (REDUCE, "hierarchical", (3, 4, 2), "binomial/chain/binomial"),
    (REDUCE, "hierarchical", (8, 4), "pipelined-tree/pipelined-tree"),
    (AR, "leader", (4, 3), "binomial/ring"),
    (AR, "leader", (4, 4), "chain/rabenseifner"),
    (AR, "leader", (2, 4, 3), "binomial/binomial/ring"),
    (AR, "leader", (4, 5), "chain/ring"),
    (A2A, "two-level", (4, 3), "pairwise/pairwise"),
    (A2A, "two-level", (8, 4), "bruck/direct"),
    (A2A, "two-level", (2, 3, 4), "pairwise/bruck/pairwise"),
    (A2A, "two-level", (5, 6), "direct/bruck"),
    (P2P, "cross-rail", (4, 3), "send/send"),
    (P2P, "cross-rail", (2, 3, 4), "send/send/send"),
]

LATTICES = [
    (AR, "hierarchical", (((4, 4), "torus"), 3), "dim-ring/ring"),
    (AR, "hierarchical", (((4, 3), "mesh"), 4), "dim-ring/ring"),
    (AR, "hierarchical", (((3, 3), "torus"), 2), "multi-ring/ring"),
    (AR, "hierarchical", (((4, 2), "torus"), 3), "dim-ring-bidirectional/ring"),
    (AR, "hierarchical", (3, ((2, 3), "torus")), "ring/dim-ring"),
    (BC, "hierarchical", (((4, 3), "torus"), 4), "dim-chain-bidirectional/chain"),
    (AR, "leader", (((4, 3), "mesh"), 4), "dim-chain/ring"),
    (A2A, "two-level", (((4, 3), "torus"), 3), "shortest-path/pairwise"),
    (A2A, "two-level", (((4, 3), "mesh"), 3), "dim-by-dim/pairwise"),
    (P2P, "cross-rail", (((3, 3), "mesh"), 3), "send/send"),
]


def fabric(tiers, path) -> Fabric:
    rows = [
        STAR.format(k, tier) if isinstance(tier, int) else LATTICE.format(k, list(tier[0]), tier[1])
        for k, tier in enumerate(tiers)
    ]
    path.write_text(
        "schema: colltool.fabric/1\nname: f\ntiers:\n" + "".join(f"  - {row}\n" for row in rows)
    )
    return load_fabric(path)


def priced(one: Fabric, primitive: Primitive, name: str, order: Order | None):
    """(n_α, n_β in units of M) of every tier: the sums over its phases."""
    readings = ModelOptions(pipelining=SEGMENTS, phases="sequential", order=order or "auto")
    [costed] = named_candidates(place(one), primitive, readings, [name])
    counts = defaultdict(lambda: [0.0, 0.0])
    for part in costed.parts:
        own = part.cost
        counted = part.pipeline.counts(SEGMENTS) if part.pipeline else (own.n_alpha, own.n_beta)
        counts[own.tier][0] += counted[0]
        counts[own.tier][1] += counted[1] * part.payload
    return [tuple(counts[f"t{k}"]) for k in range(len(one.tiers))]


def check(tiers, primitive, name, choice, path, order: Order | None = None):
    one = fabric(tiers, path)
    groups = [
        tier_group(span, ModelOptions(), scale_out=k > 0)[0]
        for k, span in enumerate(place(one).spans)
    ]
    network = TierNetworks(groups)
    program = compose(
        primitive, name, groups, choice.split("/"), SEGMENTS, order or _natural(primitive)
    )
    outcome = executor.run(program, network.carry)
    assert outcome.holds, outcome
    executed = [(tier.hops, pytest.approx(tier.peak)) for tier in network.networks]
    assert priced(one, primitive, f"{name}:{choice}", order) == executed


def _natural(primitive: Primitive) -> Order:
    return "outer-first" if primitive is AG else "inner-first"


@swept(("primitive", "name", "tiers", "choice"), SMALL + LATTICES)
def test_every_tier_carries_what_its_phases_are_priced_at(primitive, name, tiers, choice, tmp_path):
    check(tiers, primitive, name, choice, tmp_path / "f.yaml")


@swept(("primitive", "order"), [(AG, "inner-first"), (RS, "outer-first")])
@swept("sizes", [(4, 3), (2, 3, 4)])
def test_the_other_order_moves_the_bytes_outside(primitive, order, sizes, tmp_path):
    check(
        sizes,
        primitive,
        "hierarchical",
        "/".join(["ring"] * len(sizes)),
        tmp_path / "f.yaml",
        order,
    )


def test_64_ranks_in_three_tiers(tmp_path):
    check((8, 4, 2), AR, "hierarchical", "ring/ring/ring", tmp_path / "f.yaml")


def test_chunks_of_the_whole_are_tuples_of_the_tiers_chunks():
    program = compose(RS, "hierarchical", [Group(4, "star"), Group(3, "star")], ["ring", "ring"])
    assert len(program.chunk_bytes) == 12
    assert program.chunk_bytes.sum() == pytest.approx(1)
    assert sorted(program.home) == list(range(12))


def test_a_message_counts_on_the_outermost_tier_it_crosses():
    groups = [Group(3, "star"), Group(4, "torus", (Axis(4, True),))]
    network = TierNetworks(groups)
    ranks = np.arange(12)
    tier = tier_of(network.tiers, ranks[[0, 0, 0, 5]], ranks[[1, 3, 4, 5]])
    assert tier.tolist() == [0, 1, 1, -1]


def test_a_phase_carries_what_its_schedule_carries_alone():
    """Also where a schedule and its formula differ: the double binary tree in lock step."""
    groups = [Group(4, "star"), Group(8, "star")]
    network, alone = TierNetworks(groups), Ports(8)
    assert executor.run(
        compose(AR, "hierarchical", groups, ["ring", "double-binary-tree"], SEGMENTS), network.carry
    ).holds
    assert executor.run(
        program_maker(AR, "double-binary-tree")(groups[1], SEGMENTS), alone.carry
    ).holds
    assert network.networks[1].hops == alone.hops
    assert network.networks[1].peak == pytest.approx(alone.peak / 4)
    assert network.networks[1].busiest == pytest.approx(alone.busiest / 4)
    assert network.hops == network.networks[0].hops + alone.hops
    assert network.busiest == pytest.approx(1.5)


def test_an_algorithm_in_the_switches_is_refused():
    groups = [Group(4, "star", switch=frozenset({"reduce", "multicast"}))] * 2
    with pytest.raises(ValueError, match="needs switches"):
        compose(AR, "hierarchical", groups, ["in-network", "ring"])


def test_an_algorithm_without_a_schedule_is_refused():
    groups = [Group(4, "star"), Group(2, "star")]
    with pytest.raises(ValueError, match="no schedule"):
        compose(AR, "hierarchical", groups, ["ring", "bruck"])
