"""Schedules on the links of a twisted torus, link by link."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from lp import lattice
from swept import swept

import colltool
from colltool.algorithms.registry import algorithms, find
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS
from colltool.network.group import Axis, Group
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import TierRanks
from colltool.network.tier_links import links_of
from colltool.network.twisted import twisted_axes
from colltool.network.twisted_links import TwistedLinks
from colltool.verification.executed import execute_flat, flat_trace, formula_counts
from colltool.verification.verdicts import judge

# k x 2k x 2k: an open line fills its middle links late, a ring of another part in the same phase
# does not
IN_LOCK_STEP = 8 / 7


def group_of(*shape: int) -> Group:
    axes = twisted_axes(shape)
    assert axes is not None
    return Group(prod(shape), "torus", axes)


@pytest.mark.ci
@pytest.mark.alike(3)
@pytest.mark.parametrize(
    "shape", [(2, 4), (4, 2), (3, 6), (4, 8), (2, 2, 4), (2, 4, 2), (4, 2, 4), (3, 3, 6)], ids=str
)
def test_every_algorithm_that_is_offered_holds(shape: tuple[int, ...]) -> None:
    group = group_of(*shape)
    for primitive in (AR, RS, AG, BC, REDUCE, A2A, P2P):
        rows = [row for row in algorithms(primitive) if row.why_not(group) is None]
        assert rows
        for row in rows:
            done = execute_flat(row, group, 4)
            assert done.outcome.holds, (row.name, done.outcome)
            wanted = formula_counts(row, group, 4)
            verdict, note = judge(
                row.status, wanted, done.counts, done.busiest, streamed=done.streamed
            )
            if row.name == "multi-ring" and sorted(shape)[1] > min(shape) and len(shape) == 3:
                assert done.counts.n_beta == pytest.approx(wanted.n_beta * IN_LOCK_STEP)
                assert done.busiest <= wanted.n_beta * (1 + 1e-9), (
                    "parts that wait only between phases take the price"
                )
            elif row.name == "send":
                assert done.counts.n_alpha == wanted.n_alpha, "the farthest rank"
            else:
                assert verdict == "proved", (row.name, note)


@swept("shape", [(4, 8), (2, 2, 4), (2, 4, 4), (4, 4, 8)])
def test_an_all_to_all_loads_every_link_alike(shape: tuple[int, ...]) -> None:
    group = group_of(*shape)
    links = links_of(group.joined_by, TierRanks(group.ranks), axes=group.axes)
    assert isinstance(links, TwistedLinks)
    src, dst = np.nonzero(~np.eye(group.ranks, dtype=bool))
    loads = np.array(links.loads(src, dst, np.full(len(src), 1 / group.ranks)))
    assert loads.min() == pytest.approx(loads.max())
    assert loads.max() == pytest.approx(find(A2A, "shortest-path").schedule(group)[0].n_beta)
    assert links.busiest_of_ranks(list(loads)).max() == pytest.approx(loads.max())
    assert int(links.hops(src, dst).max()) == find(A2A, "shortest-path").schedule(group)[0].n_alpha


@swept("shape", [(4, 4), (4, 8), (3, 3), (3, 6, 3)])
def test_with_no_twist_it_is_the_plain_torus(shape: tuple[int, ...]) -> None:
    """The same shortest ways, split over the same ties, link by link."""
    axes = tuple(Axis(size, wrap=True) for size in shape)
    src, dst = np.nonzero(~np.eye(prod(shape), dtype=bool))
    size = np.random.default_rng(7).random(len(src))
    ranks = TierRanks(prod(axis.size for axis in axes))
    plain, twisted = (
        kind(axes, ranks).loads(src, dst, size) for kind in (LatticeLinks, TwistedLinks)
    )
    assert np.allclose(plain, twisted)


@swept("shape", [(2, 4), (4, 8), (2, 2, 4), (2, 4, 4)])
def test_its_links_are_the_cables(shape: tuple[int, ...]) -> None:
    """A message loads one link alone exactly where a cable joins its ends."""
    group, k = group_of(*shape), min(shape)
    links = TwistedLinks(group.axes, TierRanks(group.ranks))
    src, dst = np.nonzero(~np.eye(group.ranks, dtype=bool))
    near = links.hops(src, dst) == 1
    arcs = lattice(
        shape,
        twist={
            axis: [k * (size > k) for size in shape] for axis, size in enumerate(shape) if size == k
        },
    )
    assert set(zip(src[near].tolist(), dst[near].tolist(), strict=True)) == set(arcs)
    assert sum(int(one.exists.sum()) for one in links.classes) == len(arcs)


def test_links_have_names_and_copies() -> None:
    """Two ranks behind each endpoint have links of their own."""
    links = TwistedLinks(group_of(2, 4).axes, TierRanks(16, inside=2, tier="ici"))
    every = list(links.uses(np.array([3]), np.array([9])))
    assert [one.number for one in every] == [0, 1, 2, 3], "one of each class"
    (use,) = (one for one in every if len(one.message))
    assert links.name(0, 8 + 1) == "ici 1 (1, 0) -> (0, 2)"
    assert links.name(2, 6) == "ici 0 (0, 3) -> (0, 0)"
    assert (use.number, use.resource.tolist(), use.share.tolist()) == (0, [8 + 1], [1.0])


def test_an_all_to_all_is_traced_as_one_step() -> None:
    """Its ways tie in three and more: hops in between are not numbered as chunks."""
    group = group_of(2, 4)
    trace = flat_trace(find(A2A, "shortest-path"), group, 1)
    assert [len(one.messages) for one in trace.steps] == [56]


def test_a_layout_loads_what_the_price_says() -> None:
    whole = colltool.contention(
        "tpu-v4-twisted",
        {"kind": "block"},
        primitive="a2a",
        algorithm="shortest-path",
        per_link=True,
    )
    assert len(whole.links) == 128 * 6
    assert {round(one.load, 9) for one in whole.links} == {
        round(find(A2A, "shortest-path").schedule(group_of(4, 4, 8))[0].n_beta, 9)
    }
