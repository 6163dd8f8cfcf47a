"""Composed schedules: phases of single-tier schedules, each run by all domains of its tier at once.

A chunk of the whole is a tuple of chunks, one of each tier's schedule: a tier cuts further what the one inside leaves at a rank.
Between phases it is enough to know where each tier's chunk stands: everywhere, or at one place.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from colltool.algorithms.composed import Order, find_composition
from colltool.algorithms.group import Group
from colltool.algorithms.registry import find
from colltool.base.primitives import A2A, AG, BC, P2P, REDUCE, RS, Primitive
from colltool.schedules.lattice import Cover, Dimension, copies
from colltool.schedules.program import Batches, Indices, Program, maker

_SETTLES = {RS: "home", REDUCE: "home", A2A: "target", P2P: "target"}  # elsewhere a phase leaves its chunks everywhere
_STARTS_AT_HOME = (AG, BC, A2A, P2P)


def compose(primitive: Primitive, name: str, groups: Sequence[Group], choices: Sequence[str], segments: int = 1,
            order: Order = "inner-first") -> Program:  # fmt: skip
    """The schedule of a composition, phase after phase.

    Args:
        groups: the tiers, innermost first, each seen alone; ranks are numbered innermost fastest.
        choices: an algorithm for each tier, by its name in the tier's first phase.
        segments: P of each pipelined phase.
        order: of an all-gather or reduce-scatter.

    Raises:
        ValueError: an algorithm without a schedule, one that needs switches, or phases that cut the payload differently.
    """
    firsts: dict[int, Program] = {}
    phases = []
    for one in find_composition(primitive, name).steps(tuple(group.ranks for group in groups), order):
        begun = firsts[one.tier].primitive if one.tier in firsts else one.primitive
        algorithm = name_in_phase(choices[one.tier], begun, one.primitive)
        make = maker(one.primitive, algorithm)
        if make is None:
            raise ValueError(f"{algorithm} has no schedule for {one.primitive}")
        program = make(groups[one.tier], segments)
        if program.nodes > program.ranks:
            raise ValueError(f"{algorithm} needs switches: it cannot be a phase of a composed schedule")
        phases.append((one.tier, program, _aligned(firsts.setdefault(one.tier, program), program)))
    tiers = [firsts[tier] for tier in range(len(groups))]
    sizes, counts = [one.ranks for one in tiers], [len(one.chunk_bytes) for one in tiers]
    node_strides, chunk_strides = (np.cumprod([1, *numbers[:-1]]).tolist() for numbers in (sizes, counts))
    start = [one.home if primitive in _STARTS_AT_HOME else None for one in tiers]
    dimensions = [Dimension(*one) for one in zip(sizes, node_strides, chunk_strides, counts, start, strict=True)]
    chunk_bytes = reduce(lambda inner, outer: np.multiply.outer(outer, inner).ravel(), [one.chunk_bytes for one in tiers])
    scaled = [(one.home * stride, one.target * stride) for one, stride in zip(tiers, node_strides, strict=True)]
    home, target = (reduce(lambda inner, outer: np.add.outer(outer, inner).ravel(), ends) for ends in zip(*scaled, strict=True))
    ranks = int(np.prod(sizes))
    return Program(primitive, ranks, ranks, chunk_bytes, home, target, batches=_batches(phases, dimensions))


def name_in_phase(choice: str, begun: Primitive, primitive: Primitive) -> str:
    """A tier's choice in a later phase: the all-gather that mirrors its reduce-scatter."""
    return find(begun, choice).mirror if begun is RS and primitive is AG else choice


def _aligned(first: Program, later: Program) -> Indices:
    """Which of the first phase's chunks each of a later one's is: same place, same size, in order."""
    if first is later:
        return np.arange(len(first.chunk_bytes))
    ranked = [np.lexsort((program.chunk_bytes, program.home)) for program in (first, later)]
    keys = [(program.home[at], program.chunk_bytes[at]) for program, at in zip((first, later), ranked, strict=True)]
    if len(ranked[0]) != len(ranked[1]) or not all(np.allclose(a, b) for a, b in zip(*keys, strict=True)):
        raise ValueError(f"{first.primitive} and {later.primitive} of a tier cut the payload differently")
    return ranked[0][np.argsort(ranked[1])]


def _batches(phases: Sequence[tuple[int, Program, Indices]], dimensions: list[Dimension]) -> Batches:
    """Each phase, a tier's program whose chunk j is the tier's chunk ``chunk_at[j]``, over all instances at once.

    Then its tier's chunks stand where it leaves them.
    """
    for tier, program, chunk_at in phases:
        own = dimensions[tier]
        nodes, chunks = copies([one for k, one in enumerate(dimensions) if k != tier])
        cover = Cover(np.arange(own.size) * own.node_stride, chunk_at * own.chunk_stride, nodes, chunks)
        for batch in program.batches:
            yield tuple(cover.spread(one) for one in batch)
        end = _SETTLES.get(program.primitive)
        dimensions[tier] = own._replace(places=None if end is None else getattr(program, end)[np.argsort(chunk_at)])
