"""The port budget: with how many others a rank exchanges, by routes and by the executed
schedules."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import numpy as np
from swept import swept

import colltool
import colltool.algorithms
from colltool.algorithms.executor import concatenated
from colltool.algorithms.partners import most_partners
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import Algorithm, find, usual_algorithms
from colltool.base.primitives import AR, BC, Primitive, Rounds
from colltool.estimate.routed_cost import _rounds
from colltool.network.group import Axis, Group
from colltool.render.dispatch import document, rendered

assert colltool.algorithms
EVERYTHING = frozenset({"reduce", "multicast", "all_to_all"})


def executed(primitive: Primitive, name: str, group: Group) -> int:
    make = program_maker(primitive, name)
    assert make is not None
    met: list[set[int]] = [set() for _ in range(group.ranks + 100)]
    for batch in make(group, 8).batches:
        for one in batch:
            for src, dst in zip(one.src.tolist(), one.dst.tolist(), strict=True):
                met[src].add(dst)
                met[dst].add(src)
    return max(map(len, met[: group.ranks]))


@swept("ranks", [2, 3, 4, 5, 6, 7, 8, 12, 16, 33, 64])
def test_routes_meet_as_many_as_the_schedules_do(ranks: int) -> None:
    """A small double tree meets fewer, where ranks are parent and child in both trees."""
    group = Group(ranks, "star", scale_out=True, switch=EVERYTHING)
    for row in usual_algorithms():
        if row.why_not(group) is None and program_maker(row.primitive, row.name) is not None:
            found, real = (
                most_partners(row.schedule(group), group),
                executed(row.primitive, row.name, group),
            )
            exact = ranks > 5 or "tree" not in row.name
            assert found == real if exact else found >= real, row.name


@swept("shape", [(4,), (2, 3), (4, 4), (3, 1, 5)])
@swept("name", ["dim-ring", "dim-ring-bidirectional", "multi-ring"])
def test_neighbours_of_a_torus(name: str, shape: tuple[int, ...]) -> None:
    axes = tuple(Axis(size, wrap=True) for size in shape)
    group = Group(prod(shape), "torus", axes)
    assert most_partners(find(AR, name).schedule(group), group) == executed(AR, name, group)


BUDGET: list[tuple[Primitive, str, int]] = [
    (BC, "chain", 2),
    (AR, "ring", 2),
    (BC, "binomial", 9),
    (AR, "recursive-doubling", 9),
    (AR, "rabenseifner", 9),
    (AR, "double-binary-tree", 4),
    (AR, "two-shot", 511),
]


@swept(("primitive", "name", "partners"), BUDGET)
def test_the_budget_on_512_ranks(primitive: Primitive, name: str, partners: int) -> None:
    """Collectives Explainer Series 01 appendix C.5. Of a double tree: 3 in the tree where a rank is
    inside, 1 in the other."""
    explained: Any = colltool.explain(name, primitive, fabric="star512", size="1MB")
    assert explained.entries[0].partners == partners
    assert f"partners: each rank exchanges with at most {partners} others" in rendered(
        explained, "table"
    )
    assert document(explained)["primitives"][0]["partners"] == partners


def test_a_composition_has_the_partners_of_its_phases() -> None:
    (entry,) = colltool.explain("hierarchical", "ar", fabric="nvl72", size="1MB").entries
    assert entry.partners is None


def messages(src: Any, dst: Any) -> frozenset[tuple[int, int]]:
    """The pairs that exchange, whoever sends."""
    return frozenset(
        (min(pair), max(pair)) for pair in zip(src.tolist(), dst.tolist(), strict=True)
    )


IN_ROUNDS = [
    row
    for row in usual_algorithms()
    if "star" in row.topologies
    and row.why_not(Group(8, "star", scale_out=True)) is None
    and any(isinstance(terms.route, Rounds) for terms in row.schedule(Group(8, "star")))
]


@swept("ranks", [2, 3, 4, 6, 8, 13, 16, 32])
@swept("row", IN_ROUNDS)
def test_rounds_join_the_pairs_that_the_schedule_joins(row: Algorithm, ranks: int) -> None:
    """Round by round, in whatever order: what is put on the links of routed tiers is what is
    executed, pairs and bytes."""
    group = Group(ranks, "star", scale_out=True)
    if row.why_not(group) is not None:
        return
    priced: Counter[tuple[frozenset[tuple[int, int]], float]] = Counter()
    for terms in row.schedule(group):
        # what goes another way, such as the ring of scatter-allgather, is held by other tests
        if isinstance(terms.route, Rounds):
            for each, sent in _rounds(terms, terms.route, ranks):
                priced[messages(sent.src, sent.dst), round(each.n_beta, 9)] += 1
    make = program_maker(row.primitive, row.name)
    assert make is not None
    program = make(group, 1)
    done: Counter[tuple[frozenset[tuple[int, int]], float]] = Counter()
    for batch in program.batches:
        src, dst, chunk = concatenated(batch)
        sent_bytes = np.bincount(src, program.chunk_bytes[chunk])
        done[messages(src, dst), round(float(sent_bytes.max()), 9)] += 1
    assert priced <= done
