"""The executable schedule of a composition, from those of its tiers: the schedule of each phase runs in
all domains of its tier at the same time.

A chunk of the whole is a tuple of chunks, one of each tier's schedule, as a tier cuts further what
the tier inside leaves at a rank. Between phases it is enough to know where each tier's chunk is:
at all ranks of the tier, or at one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.algorithms.composed import Order, find_composition, name_in_phase
from colltool.algorithms.lines import Dimension, LineCopies, copy_offsets
from colltool.algorithms.program import Batches, Program, program_maker
from colltool.base.primitives import A2A, AG, BC, P2P, REDUCE, RS, Primitive
from colltool.network.arrays import Indices, np
from colltool.network.group import Group

# Primitives whose chunks are at one rank at first, their home; of the others every rank has all.
_STARTS_AT_HOME = (AG, BC, A2A, P2P)


class _Phase(NamedTuple):
    """The schedule of a phase on its tier alone."""

    tier: int
    program: Program
    chunk_at: Indices  # the tier's chunk that each chunk of the program corresponds to


def compose(
    primitive: Primitive,
    name: str,
    groups: Sequence[Group],
    choices: Sequence[str],
    segments: int = 1,
    order: Order = "inner-first",
) -> Program:
    """Make the schedule of a composition, phase after phase, each pipelined one in P segments.

    Args:
        groups: the ranks of each tier alone, innermost first.
        choices: the algorithm of each tier, by its name in the tier's first phase.

    Raises:
        ValueError: an algorithm has no schedule or needs switches, or two phases of a tier cut the
            payload differently.
    """
    sizes = tuple(group.ranks for group in groups)
    firsts: dict[int, Program] = {}
    phases = []
    for phase in find_composition(primitive, name).steps(sizes, order):
        tier = phase.tier
        first_primitive = firsts[tier].primitive if tier in firsts else phase.primitive
        algorithm = name_in_phase(choices[tier], first_primitive, phase.primitive)
        make = program_maker(phase.primitive, algorithm)
        if make is None:
            raise ValueError(f"{algorithm} has no schedule for {phase.primitive}")
        program = make(groups[tier], segments)
        if program.nodes > program.ranks:
            raise ValueError(
                f"{algorithm} needs switches: it cannot be a phase of a composed schedule"
            )
        first = firsts.setdefault(tier, program)
        phases.append(_Phase(tier, program, _matching_chunks(first, program)))
    # Chunk and rank numbers of the whole have a digit for each tier, the innermost fastest.
    dimensions = []
    chunk_bytes = np.ones(1)
    home = target = np.zeros(1, dtype=np.int64)
    ranks = 1
    chunks = 1
    for tier in range(len(groups)):
        first = firsts[tier]
        count = len(first.chunk_bytes)
        # of a chunk that all ranks have, such as an all-reduce's, None
        places = first.home if primitive in _STARTS_AT_HOME else None
        dimensions.append(Dimension(first.ranks, ranks, chunks, count, places))
        chunk_bytes = np.multiply.outer(first.chunk_bytes, chunk_bytes).ravel()
        home = np.add.outer(first.home * ranks, home).ravel()
        target = np.add.outer(first.target * ranks, target).ravel()
        ranks *= first.ranks
        chunks *= count
    return Program(
        primitive, ranks, ranks, chunk_bytes, home, target, batches=_batches(phases, dimensions)
    )


def _matching_chunks(first: Program, later: Program) -> Indices:
    """The chunk of a tier's first phase that each chunk of a later one corresponds to: at the same
    rank, of the same size, in order.

    Raises:
        ValueError: they have other chunks.
    """
    if first is later:
        return np.arange(len(first.chunk_bytes))
    first_order = np.lexsort((first.chunk_bytes, first.home))
    later_order = np.lexsort((later.chunk_bytes, later.home))
    if (
        len(first_order) != len(later_order)
        or not np.array_equal(first.home[first_order], later.home[later_order])
        or not np.allclose(first.chunk_bytes[first_order], later.chunk_bytes[later_order])
    ):
        raise ValueError(
            f"{first.primitive} and {later.primitive} of a tier cut the payload differently"
        )
    aligned: Indices = first_order[np.argsort(later_order)]
    return aligned


def _batches(phases: Sequence[_Phase], dimensions: list[Dimension]) -> Batches:
    """The steps of each phase in all domains of its tier at once; ``dimensions`` are updated with
    where each phase leaves its chunks."""
    for tier, program, chunk_at in phases:
        dimension = dimensions[tier]
        node_offsets, chunk_offsets = copy_offsets(dimensions[:tier] + dimensions[tier + 1 :])
        node_at = np.arange(dimension.size) * dimension.node_stride
        lines = LineCopies(node_at, chunk_at * dimension.chunk_stride, node_offsets, chunk_offsets)
        for batch in program.batches:
            yield tuple(lines.on_all_lines(step) for step in batch)
        places = _places_after(program)
        if places is not None:
            places = places[np.argsort(chunk_at)]
        dimensions[tier] = dimension._replace(places=places)


def _places_after(program: Program) -> Indices | None:
    """The rank at which a phase leaves each of its chunks; None: at all ranks."""
    if program.primitive in (RS, REDUCE):
        return program.home
    if program.primitive in (A2A, P2P):
        return program.target
    return None
