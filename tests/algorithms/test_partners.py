"""The port budget: with how many others a rank exchanges, by routes and by the executed
schedules."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import colltool
import colltool.algorithms
from colltool.algorithms.partners import most_partners
from colltool.algorithms.program import maker
from colltool.algorithms.registry import every_algorithm, find
from colltool.base.primitives import AR, BC, Primitive
from colltool.network.group import Axis, Group
from colltool.render.dispatch import document, rendered

assert colltool.algorithms
EVERYTHING = frozenset({"reduce", "multicast", "all_to_all"})


def executed(primitive: Primitive, name: str, group: Group) -> int:
    make = maker(primitive, name)
    assert make is not None
    met: list[set[int]] = [set() for _ in range(group.ranks + 100)]
    for batch in make(group, 8).batches:
        for one in batch:
            for src, dst in zip(one.src.tolist(), one.dst.tolist(), strict=True):
                met[src].add(dst)
                met[dst].add(src)
    return max(map(len, met[: group.ranks]))


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 12, 16, 33, 64])
def test_routes_meet_as_many_as_the_schedules_do(ranks: int) -> None:
    """A small double tree meets fewer, where ranks are parent and child in both trees."""
    group = Group(ranks, "star", scale_out=True, switch=EVERYTHING)
    for row in every_algorithm():
        if row.why_not(group) is None and maker(row.primitive, row.name) is not None:
            found, real = (
                most_partners(row.schedule(group), group),
                executed(row.primitive, row.name, group),
            )
            exact = ranks > 5 or "tree" not in row.name
            assert found == real if exact else found >= real, row.name


@pytest.mark.parametrize("shape", [(4,), (2, 3), (4, 4), (3, 1, 5)])
@pytest.mark.parametrize("name", ["dim-ring", "dim-ring-bidirectional", "multi-ring"])
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


@pytest.mark.parametrize(("primitive", "name", "partners"), BUDGET)
def test_the_budget_on_512_ranks(primitive: Primitive, name: str, partners: int) -> None:
    """Collectives Explainer Series 01 appendix C.5. Of a double tree: 3 in the tree where a rank is
    inside, 1 in the other."""
    explained: Any = colltool.explain(name, primitive, fabric="star512", size="1MB")
    assert explained.entries[0].partners == partners
    assert f"partners: a rank exchanges with {partners} others at most" in rendered(
        explained, "table"
    )
    assert document(explained)["primitives"][0]["partners"] == partners


def test_a_composition_has_the_partners_of_its_phases() -> None:
    (entry,) = colltool.explain("hierarchical", "ar", fabric="nvl72", size="1MB").entries
    assert entry.partners is None
