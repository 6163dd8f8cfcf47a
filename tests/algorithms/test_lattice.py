"""Schedules on tori and meshes: executed on real wiring, their steps and bytes are the
formulas'."""

from itertools import product
from math import prod

import numpy as np
import pytest
from swept import swept

import colltool.algorithms
from colltool.algorithms import executor, program
from colltool.algorithms.lines import (
    halving,
    hamiltonian_cycle,
    one_way,
    open_line,
    ring_both_ways,
    snake,
)
from colltool.algorithms.registry import algorithms, find
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, totals
from colltool.network.group import Axis, Group
from tests.wiring import LatticeNetwork

assert colltool.algorithms
SEGMENTS = 4
DEEP = 16  # of forest, whose formula holds from as many segments as its trees are deep


def segments_of(name: str) -> int:
    return DEEP if name == "forest" else SEGMENTS


SHAPES = [
    (2,),
    (3,),
    (4,),
    (5,),
    (8,),
    (2, 2),
    (3, 2),
    (3, 3),
    (5, 3),
    (4, 4),
    (1, 8),
    (4, 1, 3),
    (4, 3, 2),
    (8, 8),
    (8, 4, 2),
    (3, 3, 3),
    (4, 4, 4),
]
KINDS = ["torus", "mesh", "partial"]

# Lock step makes the parts of a phase wait for one another: on unequal axes that is more than the
# phase's largest load.
MULTI_RING_RS_IN_LOCK_STEP = {
    ("torus", (5, 3)): (4, 1 / 3),
    ("torus", (4, 1, 3)): (4, 3 / 8),
    ("torus", (4, 3, 2)): (6, 3 / 8),
    ("torus", (8, 4, 2)): (12, 11 / 24),
    ("partial", (4, 3, 2)): (6, 3 / 8),
    ("partial", (8, 4, 2)): (12, 11 / 24),
}

# (steps, bytes) of recursive halving on real wiring; the formula takes partners for neighbours and
# links for unshared.
RABENSEIFNER = {
    ("torus", (4,)): (6, 1.5),
    ("torus", (8,)): (14, 2.5),
    ("torus", (1, 8)): (14, 2.5),
    ("torus", (4, 4)): (12, 1.875),
    ("torus", (8, 8)): (28, 2.8125),
    ("torus", (8, 4, 2)): (22, 2.71875),
    ("torus", (4, 4, 4)): (18, 1.96875),
    ("mesh", (4,)): (6, 2.0),
    ("mesh", (8,)): (14, 3.0),
    ("mesh", (1, 8)): (14, 3.0),
    ("mesh", (4, 4)): (12, 2.5),
    ("mesh", (8, 8)): (28, 3.375),
    ("mesh", (8, 4, 2)): (22, 3.28125),
    ("mesh", (4, 4, 4)): (18, 2.625),
    ("partial", (4,)): (6, 2.0),
    ("partial", (8,)): (14, 3.0),
    ("partial", (1, 8)): (14, 3.0),
    ("partial", (4, 4)): (12, 2.0),
    ("partial", (8, 8)): (28, 2.875),
    ("partial", (8, 4, 2)): (22, 2.71875),
    ("partial", (4, 4, 4)): (18, 2.0),
}


def lattice(kind, shape) -> Group:
    """A torus, a mesh, or a part of a torus whose last axis stays open."""
    wraps = [
        kind == "torus" or (kind == "partial" and k < len(shape) - 1) for k in range(len(shape))
    ]
    axes = tuple(Axis(size, wrap) for size, wrap in zip(shape, wraps, strict=True))
    return Group(prod(shape), "mesh" if kind == "mesh" else "torus", axes)


def execute(primitive, name, group):
    network = LatticeNetwork(group.axes)
    outcome = executor.run(
        program.program_maker(primitive, name)(group, segments_of(name)), network.carry
    )
    assert outcome.holds, outcome
    return network


def formula(row, group):
    (steps, load), cut = totals(row.schedule(group)), segments_of(row.name)
    for terms in row.schedule(group):
        if terms.fill is not None:
            steps, load = steps + cut - 1, load + terms.n_beta * (terms.fill - 1) / cut
    return steps, load


def expected(row, kind, shape, group):
    if row.name == "dim-rabenseifner":
        steps, load = RABENSEIFNER.get((kind, shape), formula(find(AR, row.name), group))
        return (steps, load) if row.primitive is AR else (steps / 2, load / 2)
    if row.name == "multi-ring" and (kind, shape) in MULTI_RING_RS_IN_LOCK_STEP:
        steps, load = MULTI_RING_RS_IN_LOCK_STEP[kind, shape]
        return (2 * steps, 2 * load) if row.primitive is AR else (steps, load)
    return formula(row, group)


@swept("shape", SHAPES, most=1)
@swept("kind", KINDS)
@swept("primitive", [AR, RS, AG, BC, REDUCE, A2A])
def test_steps_and_bytes_are_the_formulas(primitive, kind, shape):
    group = lattice(kind, shape)
    rows = [row for row in algorithms(primitive) if row.why_not(group) is None]
    assert len(rows) >= 1
    for row in rows:
        network = execute(primitive, row.name, group)
        steps, load = expected(row, kind, shape, group)
        assert (row.name, network.hops, network.peak) == (row.name, steps, pytest.approx(load))


@swept("primitive", [AR, RS, AG])
def test_every_scattering_algorithm_of_a_torus_is_executed(primitive):
    group = lattice("torus", (4, 3))
    names = {row.name for row in algorithms(primitive) if row.why_not(group) is None}
    assert names == {"ring", "dim-ring", "dim-ring-bidirectional", "multi-ring", "forest", "tacos"}


@swept("shape", [(5, 3), (4, 1, 3), (4, 3, 2), (8, 4, 2), (3, 2), (4, 4), (2, 2, 2), (6, 5, 4)])
@swept("primitive", [RS, AG, AR])
def test_multi_ring_loads_each_phase_as_its_formula_says(primitive, shape):
    """The parts of a phase share no link, so that a part need not wait for another before the next
    phase."""
    group = lattice("torus", shape)
    long = [size for size in shape if size > 1]
    steps_per_phase, phases = max(long) // 2, []

    def carry(batch, chunk_bytes):
        if not phases or phases[-1][0] == steps_per_phase:
            phases.append([0, LatticeNetwork(group.axes)])
        phases[-1][0] += 1
        phases[-1][1].carry(batch, chunk_bytes)

    assert executor.run(program.program_maker(primitive, "multi-ring")(group, 1), carry).holds
    terms = find(primitive, "multi-ring").schedule(group)
    assert [pytest.approx(network.busiest) for _, network in phases] == [
        one.n_beta for one in terms
    ]
    assert [network.hops for _, network in phases] == [one.n_alpha for one in terms]


@swept("shape", [(8, 8, 8), (16, 4), (12, 5)])
@swept("name", ["dim-ring", "dim-ring-bidirectional"])
def test_larger_tori(name, shape):
    group = lattice("torus", shape)
    network = execute(RS, name, group)
    steps, load = formula(find(RS, name), group)
    assert (network.hops, network.peak) == (steps, pytest.approx(load))


@swept("shape", SHAPES)
@swept("kind", KINDS)
@swept("name", ["ring", "dim-ring", "dim-ring-bidirectional", "multi-ring"])
def test_every_message_goes_to_a_neighbour(name, kind, shape):
    group = lattice(kind, shape)
    if find(AR, name).why_not(group) is not None:
        return
    network = LatticeNetwork(group.axes)
    for batch in program.program_maker(AR, name)(group, 1).batches:
        assert all(network.distance(one.src, one.dst) == 1 for one in batch)


@swept("shape", [*product([1, 2, 3, 4, 5], repeat=2), *product([1, 2, 3, 5], repeat=3)])
@swept("kind", KINDS)
def test_a_cycle_of_links_wherever_there_is_one(kind, shape):
    group = lattice(kind, shape)
    if group.ranks == 1:
        return
    network, long = LatticeNetwork(group.axes), [axis for axis in group.axes if axis.size > 1]
    walk, cycle = snake(group.axes), hamiltonian_cycle(group.axes)
    assert sorted(walk) == list(range(group.ranks))
    assert network.distance(walk[:-1], walk[1:]) == 1
    rings, even = (
        [axis for axis in long if axis.is_ring],
        [axis for axis in long if axis.size % 2 == 0],
    )
    assert (cycle is not None) == (bool(rings) if len(long) == 1 else bool(rings or even))
    if cycle is not None:
        assert sorted(cycle) == list(range(group.ranks))
        assert network.distance(cycle, np.roll(cycle, -1)) == 1


@swept("d", range(2, 10))
def test_an_open_line_carries_one_block_per_link_direction_and_step(d):
    for one in open_line(d):
        assert len(set(zip(one.src.tolist(), one.dst.tolist(), strict=True))) == len(one.src)


@swept("d", range(3, 10))
def test_both_ways_round_a_ring_load_every_link_alike(d):
    for number, one in enumerate(ring_both_ways(d)):
        links, halves = np.unique(one.src * d + one.dst, return_counts=True)
        assert len(links) == 2 * d
        assert set(halves) == {1 if d % 2 == 0 and number == 0 else 2}


@swept(("d", "pattern"), [(8, one_way), (8, open_line), (8, ring_both_ways), (8, halving)])
def test_a_pattern_sends_every_part_of_every_block_once_from_every_other_place(d, pattern):
    """A reduce-scatter without waste: d-1 messages gather a block."""
    sent = sum(len(one.src) for one in pattern(d))
    parts = 2 if pattern is ring_both_ways else 1
    assert sent == d * (d - 1) * parts
