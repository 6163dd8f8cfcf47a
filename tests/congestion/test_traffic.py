"""The traffic of every algorithm against its schedule, executed message by message: who sends how
much to whom, and which links of a lattice carry it."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from swept import swept

import colltool
from colltool.algorithms.executor import run
from colltool.algorithms.program import Step, program_maker
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.congestion.jobs import JobDefaults, jobs_of
from colltool.congestion.layout_groups import GroupLayout, Layout
from colltool.congestion.skew import Skew
from colltool.congestion.traffic import (
    MOST_MESSAGES,
    Members,
    Traffic,
    message_estimate,
)
from colltool.congestion.traffic_by_formula import (
    default_of,
    modelled,
    row_by_formula,
    traffic,
)
from colltool.fabric.model import Fabric
from colltool.network.group import Axis, Group
from tests import small
from tests.wiring import LatticeNetwork, link_name

Pairs = NDArray[np.float64]
ROWS = [(primitive, name) for primitive in Primitive for name in modelled(primitive)]
BY_AXES = [row for row in ROWS if row_by_formula(*row).by_axes]
ANYWHERE = [row for row in ROWS if not row_by_formula(*row).by_axes]


def executed(primitive: Primitive, name: str, group: Group) -> Pairs:
    """Bytes from every rank (row) to every other, in units of M, as the schedule sends them."""
    make = program_maker(primitive, name)
    assert make is not None, f"no schedule of {name}"
    pairs = np.zeros((group.ranks, group.ranks))

    def carry(batch: tuple[Step, ...], chunk_bytes: NDArray[np.float64]) -> None:
        for one in batch:
            np.add.at(pairs, (one.src, one.dst), chunk_bytes[one.chunk])

    outcome = run(make(group, 4), carry)
    assert outcome.holds, outcome.problem
    return pairs


def modelled_pairs(one: Traffic, ranks: int) -> Pairs:
    pairs = np.zeros((ranks, ranks))
    np.add.at(pairs, (one.src, one.dst), one.size)
    return pairs


def runs_on(primitive: Primitive, name: str, ranks: int) -> bool:
    if primitive is P2P:
        return ranks == 2
    return not (ranks & (ranks - 1)) or name not in (
        "recursive-doubling",
        "recursive-halving",
        "rabenseifner",
    )


def test_every_primitive_has_an_algorithm_by_default() -> None:
    assert {primitive: default_of(primitive) for primitive in Primitive} == {
        primitive: (
            {
                "all_to_all": "pairwise",
                "broadcast": "chain",
                "reduce": "chain",
                "p2p": "send",
            }.get(str(primitive), "ring")
        )
        for primitive in Primitive
    }
    assert len(ROWS) == 21


@swept("ranks", [2, 3, 4, 5, 6, 7, 8, 9])
@swept(("primitive", "name"), ANYWHERE)
def test_pair_by_pair_it_is_what_the_schedule_sends(
    primitive: Primitive, name: str, ranks: int
) -> None:
    """A schedule of any-to-any groups. On a lattice ``ring`` and ``chain`` go in the order of the
    layout's members: what another order than the schedule's walk over neighbours costs is what
    contention is asked; so is it with partners of powers of two.
    """
    if not runs_on(primitive, name, ranks):
        with pytest.raises(ColltoolError, match=r"power-of-two|joins 2 ranks"):
            traffic(primitive, name, Members(ranks))
        return
    group = Group(ranks, "star", scale_out=True)
    # a schedule of lattices, whose messages are those of any all-to-all
    if name == "shortest-path":
        group = Group(ranks, "mesh", (Axis(ranks, False),))
    one = traffic(primitive, name, Members(ranks))
    np.testing.assert_allclose(
        modelled_pairs(one, ranks), executed(primitive, name, group), atol=1e-12
    )
    pairs = len(np.unique(one.src * ranks + one.dst))
    assert len(one.src) <= message_estimate(row_by_formula(primitive, name), ranks)
    assert not row_by_formula(primitive, name).dense or pairs == message_estimate(
        row_by_formula(primitive, name), ranks
    )
    assert not one.neighbours or len(one.src) == pairs, "each message has its link to itself"


def test_the_widest_all_to_all_is_the_one_that_its_refusal_names() -> None:
    widest, wider = (
        message_estimate(row_by_formula(A2A, "pairwise"), ranks) for ranks in (1448, 1449)
    )
    assert widest <= MOST_MESSAGES < wider


def lattice(kind: str, shape: tuple[int, ...]) -> Fabric:
    return small.fabric(small.torus(*shape) if kind == "torus" else small.mesh(*shape))


def placed(
    kind: str, shape: tuple[int, ...], box: tuple[int, ...], apart: tuple[int, ...]
) -> tuple[Fabric, Layout]:
    """A group on a box of a lattice, ``apart`` from place to place of each axis."""
    strides = [prod(shape[:k]) for k in range(len(shape))]
    places = product(
        *(range(0, b * a, a) for b, a in zip(reversed(box), reversed(apart), strict=True))
    )
    ends = tuple(
        sum(p * s for p, s in zip(reversed(place), strides, strict=True)) for place in places
    )
    return lattice(kind, shape), Layout("box", [GroupLayout("g", tuple(range(len(ends))), ends)])


WHOLE = [
    (2,),
    (3,),
    (5,),
    (8,),
    (2, 2),
    (4, 2),
    (2, 3),
    (3, 3),
    (1, 4),
    (2, 2, 2),
    (3, 2, 4),
    (2, 1, 3),
]
PARTS = [  # of which shape, the box, how far its places are apart
    ((8,), (4,), (1,)),
    ((8,), (3,), (2,)),
    ((4, 4), (2, 4), (1, 1)),
    ((5, 3), (3, 3), (1, 1)),
    ((6, 4), (2, 2), (3, 1)),
]
BOXES = [(shape, shape, (1,) * len(shape)) for shape in WHOLE] + PARTS


@swept(("shape", "box", "apart"), BOXES)
@swept("kind", ["torus", "mesh"])
@swept(("primitive", "name"), BY_AXES)
def test_axis_by_axis_it_is_what_the_schedule_sends(
    primitive: Primitive,
    name: str,
    kind: str,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    apart: tuple[int, ...],
) -> None:
    """A part of an axis is an open line, as a price has it; so are two ranks, and all of a mesh."""
    fabric, layout = placed(kind, shape, box, apart)
    axes = tuple(
        Axis(taken, kind == "torus" and taken == size)
        for taken, size in zip(box, shape, strict=True)
    )
    group = Group(prod(box), "torus" if kind == "torus" else "mesh", axes)
    (batch,) = jobs_of(fabric, layout, JobDefaults(primitive, name, None, Skew()))
    expected = executed(primitive, name, group)
    np.testing.assert_allclose(modelled_pairs(batch.traffic, group.ranks), expected, atol=1e-12)
    src, dst = np.nonzero(expected)
    net = LatticeNetwork(axes)
    assert net.distance(src, dst) == 1
    np.testing.assert_allclose(
        net.loads(batch.traffic.src, batch.traffic.dst, batch.traffic.size),
        net.loads(src, dst, expected[src, dst]),
        atol=1e-12,
    )
    assert len(
        set(zip(batch.traffic.src.tolist(), batch.traffic.dst.tolist(), strict=True))
    ) == len(batch.traffic.src)


def test_places_all_round_a_closed_axis_make_a_ring_themselves() -> None:
    fabric, layout = placed("torus", (8,), (4,), (2,))
    (batch,) = jobs_of(fabric, layout, JobDefaults(RS, "dim-ring", None, Skew()))
    np.testing.assert_allclose(
        modelled_pairs(batch.traffic, 4),
        executed(RS, "dim-ring", Group(4, "torus", (Axis(4, True),))),
        atol=1e-12,
    )


def link_totals(result: Any) -> dict[str, float]:
    return {link.link: link.load for link in result.links}


LINKS = [
    (AR, "dim-ring"),
    (AG, "dim-ring"),
    (RS, "dim-ring"),
    (A2A, "shortest-path"),
    (A2A, "pairwise"),
    (A2A, "direct"),
]


@swept("shape", WHOLE)
@swept("kind", ["torus", "mesh"])
@swept(("primitive", "name"), LINKS)
def test_link_by_link_the_result_is_the_executed_schedule_on_its_lattice(
    primitive: Primitive, name: str, kind: str, shape: tuple[int, ...]
) -> None:
    """From the public function to the links: a 0 on the downward links of an all-gather is what
    this would have caught."""
    axes = tuple(Axis(size, kind == "torus") for size in shape)
    group = Group(prod(shape), "torus" if kind == "torus" else "mesh", axes)
    result = colltool.contention(
        lattice(kind, shape), {}, primitive=primitive, algorithm=name, per_link=True
    )
    net = LatticeNetwork(axes)
    # schedules of any-to-any groups: their pairs, on this lattice
    if name in ("pairwise", "direct"):
        group = Group(prod(shape), "star", scale_out=True)
    pairs = executed(primitive, name, group)
    src, dst = np.nonzero(pairs)
    loads = net.loads(src, dst, pairs[src, dst])
    assert link_totals(result) == pytest.approx(
        {_named(net, int(link)): loads[link] for link in np.flatnonzero(loads > 1e-12)}
    )
    assert result.slowdown == 1.0


def _named(net: LatticeNetwork, link: int) -> str:
    return f"t1 {link_name(net, link).partition(', ')[2]}"


def test_dim_ring_on_a_line_and_on_a_ring_by_hand() -> None:
    """Four places: a ring takes 3/4 one way; a line 3/4, 2/4, 1/4 up and 1/4, 2/4, 3/4 down, an
    all-reduce 1 both ways."""
    for primitive, ring, line in ((RS, (3, 0), (3, 1)), (AG, (0, 3), (1, 3)), (AR, (3, 3), (4, 4))):
        closed, opened = (
            link_totals(
                colltool.contention(
                    lattice(kind, (4,)),
                    {},
                    primitive=primitive,
                    algorithm="dim-ring",
                    per_link=True,
                )
            )
            for kind in ("torus", "mesh")
        )
        assert (closed.get("t1 (0) -> (1)", 0) * 4, closed.get("t1 (1) -> (0)", 0) * 4) == ring
        assert (opened["t1 (0) -> (1)"] * 4, opened["t1 (1) -> (0)"] * 4) == line
