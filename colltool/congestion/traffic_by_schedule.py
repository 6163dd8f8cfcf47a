"""Traffic that is read from schedules: executed on one tier, and put together over several.

:func:`row_by_schedule` says whether an algorithm has one; :func:`traffic_from_schedule` sums its
messages. Rings over all NICs of a domain, and compositions over several tiers, are put together
from the messages of one tier (:func:`_in_tier`). Sizes are in units of M.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from colltool.algorithms.composed import (
    NATURAL_ORDER,
    composition_names,
    find_composition,
    name_in_phase,
)
from colltool.algorithms.executor import concatenated
from colltool.algorithms.program import Program, estimated_messages, program_maker
from colltool.algorithms.registry import Choice, find, parse_choice
from colltool.algorithms.rings import paths
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.primitives import AR, Primitive
from colltool.congestion.tier_positions import flat_positions, tier_positions
from colltool.congestion.traffic import (
    Members,
    TierPositions,
    Traffic,
    TrafficRow,
    all_together,
    ring_traffic,
)
from colltool.network.arrays import Floats
from colltool.network.group import Group

MOST_WORK = 20_000_000  # messages of a schedule that are followed: seconds of work


class Unscheduled(Exception):
    """Raised where no schedule tells the messages; its text is the reason."""


def traffic_from_schedule(
    primitive: Primitive, choice: Choice, groups: Sequence[Group], whole: Group
) -> Traffic:
    """The messages between the members of one group, numbered innermost fastest, in units of M;
    :class:`Unscheduled` if unknown.

    ``groups`` are the tiers that it spans, innermost first, each seen alone; ``whole`` is all of it
    seen flat.
    """
    sizes = tuple(group.ranks for group in groups)
    if choice.base == "multi-rail-ring":
        return _over_rails(primitive, sizes, spread=groups[0].dedicated)
    if choice.base not in composition_names(primitive):
        return _of_one_schedule(primitive, choice.base, whole)
    # of the first phase of each tier, which names its algorithm
    first_primitives: dict[int, Primitive] = {}
    parts = []
    order = NATURAL_ORDER.get(primitive, "inner-first")
    for phase in find_composition(primitive, choice.base).steps(sizes, order):
        algorithm = choice.tiers[phase.tier]
        primitive_of_phase = phase.primitive
        first_primitive = first_primitives.setdefault(phase.tier, primitive_of_phase)
        if primitive is AR and algorithm == "in-network":
            # A switch streams both phases of a tier as one call.
            if primitive_of_phase is not first_primitive:
                continue
            primitive_of_phase = AR
        in_phase = name_in_phase(algorithm, first_primitive, primitive_of_phase)
        alone = _of_one_schedule(primitive_of_phase, in_phase, groups[phase.tier])
        parts.append(_in_tier(alone, sizes, phase.tier, phase.payload, leaders=phase.leaders))
    return all_together(parts)


def _of_one_schedule(primitive: Primitive, name: str, group: Group) -> Traffic:
    """The messages of one registered algorithm on one group; :class:`Unscheduled` where its schedule does
    not tell them."""
    make_program = program_maker(primitive, name)
    ranks = group.ranks
    if make_program is None:
        raise Unscheduled(f"no schedule is written for {name}")
    if name == "ring" and not group.axes:
        # The same without following every chunk all the way round.
        return ring_traffic(ranks, _ring_share(primitive, ranks))
    if estimated_messages(primitive, name, ranks, segments=None) > MOST_WORK:
        raise Unscheduled(f"{name} on {ranks} ranks sends too many messages to follow")
    # One segment: cutting chunks smaller moves the same bytes.
    program = make_program(group, 1)
    if program.servers:
        what = f"the servers of {name} are not among the ranks, so their ports are unknown"
        raise Unscheduled(what)
    if program.node_places is not None:
        what = (
            f"{name} goes through the switches by ways of its own, which a layout does not follow"
        )
        raise Unscheduled(what)
    loads = _pair_loads(program)
    if program.nodes > ranks:
        # Switches have numbers beyond the ranks. A layout counts loads of ports and uplinks, not who
        # is meant: so what a rank exchanges with a switch may stand as a message to the next member.
        # That loads every port as much, and the border of every domain once each way, as what is
        # reduced below the border does. A port's busier direction counts for both.
        to_switches = loads[:ranks, ranks:].sum(axis=1)
        from_switches = loads[ranks:, :ranks].sum(axis=0)
        return ring_traffic(ranks, float(max(to_switches.max(), from_switches.max())))
    np.fill_diagonal(loads, 0.0)
    src, dst = np.nonzero(loads)
    return Traffic(src, dst, loads[src, dst])


def _ring_share(primitive: Primitive, ranks: int) -> float:
    """What a ring sends on each link in units of M; an all-reduce goes round twice."""
    rounds = 2 if primitive is AR else 1
    return rounds * (ranks - 1) / ranks


def _pair_loads(program: Program) -> Floats:
    """Bytes from every node to every other over all steps, shape (nodes, nodes)."""
    loads = np.zeros(program.nodes**2)
    for batch in program.batches:
        src, dst, chunk = concatenated(batch)
        np.add.at(loads, src * program.nodes + dst, program.chunk_bytes[chunk])
    return loads.reshape(program.nodes, program.nodes)


def _in_tier(
    alone: Traffic, sizes: Sequence[int], tier: int, payload: float, *, leaders: bool
) -> Traffic:
    """One tier's phase in all of its instances at once.

    ``alone`` is the phase among endpoints; with ``leaders`` only the first rank behind each of them
    takes part, else every rank does: on domains of 4, a message from endpoint 0 to 1 then stands for
    those from rank 0 to 4, 1 to 5, 2 to 6 and 3 to 7.
    """
    inside = prod(sizes[:tier])  # members behind one endpoint of the tier
    outside = prod(sizes[tier + 1 :])  # domains of the tier
    behind = np.arange(1 if leaders else inside)
    # The first member of each instance, shape (instances, 1).
    starts = (np.arange(outside)[:, None] * inside * sizes[tier] + behind).ravel()[:, None]
    return Traffic(
        (starts + alone.src * inside).ravel(),
        (starts + alone.dst * inside).ravel(),
        np.tile(alone.size * payload, len(starts)),
    )


def _over_rails(primitive: Primitive, sizes: Sequence[int], *, spread: bool) -> Traffic:
    """A ring for every NIC of a domain, with a share each.

    Inside, all of it goes between neighbours or, ``spread``, over paths through all members that
    share out the pair links.
    """
    nics = sizes[0]
    domains = prod(sizes[1:])
    size = _ring_share(primitive, nics * domains)
    inner = ring_traffic(nics, size)
    if spread:
        orders = paths(nics)  # members in the order of each path, shape (paths, nics)
        share = np.full(orders[:, 1:].size, size / len(orders))
        inner = Traffic(orders[:, :-1].ravel(), orders[:, 1:].ravel(), share)
    outer = ring_traffic(domains, size / nics)
    shape = (nics, domains)
    return all_together(
        [
            _in_tier(inner, shape, tier=0, payload=1.0, leaders=False),
            _in_tier(outer, shape, tier=1, payload=1.0, leaders=False),
        ]
    )


def row_by_schedule(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm or composition that has a schedule; None of any other."""
    choice = parse_choice(algorithm)
    is_composed = choice.base in composition_names(primitive)
    is_known = is_composed or choice.base == "multi-rail-ring"
    if not is_known and program_maker(primitive, choice.base) is None:
        return None
    positions = tier_positions if is_composed else flat_positions
    return TrafficRow(partial(_by_schedule, primitive, choice), positions=positions)


def _by_schedule(primitive: Primitive, choice: Choice, members: Members) -> Traffic:
    """The traffic of members at their positions; ColltoolError where the algorithm does not run there, or
    its messages are not known."""
    positions = members.positions
    assert positions is not None  # the row makes them
    _check_it_runs(primitive, choice, positions)
    try:
        return traffic_from_schedule(primitive, choice, positions.groups, positions.whole)
    except Unscheduled as error:
        fix = "a smaller group, or another algorithm"
        raise ColltoolError(str(error), argument="algorithm", fix=fix) from error


def _check_it_runs(primitive: Primitive, choice: Choice, positions: TierPositions) -> None:
    """Raise ColltoolError for an algorithm or a composition that cannot run at these positions."""
    names = composition_names(primitive)
    if choice.base not in names:
        algorithm = find(primitive, choice.base, names)
        _raise_if(algorithm.name, algorithm.why_not(algorithm.on(positions.whole, choice)))
        return
    groups = positions.groups
    if len(groups) < 2:
        ranks = positions.whole.ranks
        _raise_if(choice.base, f"needs a group over several tiers; its {ranks} ranks lie on one")
    if len(choice.tiers) != len(groups):
        named = counted(len(choice.tiers), "algorithm")
        rings = Choice(choice.base, ("ring",) * len(groups)).spec
        raise ColltoolError(
            f"'{choice.spec}' names {named}, the group spans {len(groups)} tiers",
            argument="algorithm",
            fix=f"one for each, innermost first, such as {argument_text('algorithm', rings)}",
        )
    sizes = tuple(group.ranks for group in groups)
    tiers_checked: set[int] = set()
    for phase in find_composition(primitive, choice.base).steps(sizes, "inner-first"):
        # A tier's algorithm is named by its first phase.
        if phase.tier not in tiers_checked:
            tiers_checked.add(phase.tier)
            algorithm = find(phase.primitive, choice.tiers[phase.tier])
            _raise_if(algorithm.name, algorithm.why_not(groups[phase.tier]))


def _raise_if(name: str, reason: str | None) -> None:
    """Raise ColltoolError for an algorithm that cannot run; nothing without a reason."""
    if reason:
        what = f"{name} cannot run here: {reason}"
        raise ColltoolError(what, argument="algorithm", fix="price lists what can")
