"""What a collective really sends: the messages of its executed schedule, added up by sender and receiver.

Rings over all NICs of a domain, and compositions over several tiers, are put together from the messages of one tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from colltool.algorithms.composed import compositions, find_composition, natural_order
from colltool.algorithms.group import Group
from colltool.algorithms.registry import Choice, find, parse_choice, row_of
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.base.primitives import AR, Primitive
from colltool.congestion.seats import TierSeats, tier_seats
from colltool.congestion.traffic import Members, Traffic, TrafficRow
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.schedules.composed import name_in_phase
from colltool.schedules.gather_scatter import paths
from colltool.schedules.links import Floats, Indices
from colltool.schedules.program import Program, Step, effort, maker

MOST_WORK = 20_000_000  # messages of a schedule that are followed: seconds of work
_AT_ONCE = 1_000_000


class Unscheduled(Exception):
    """No schedule says what goes where; the text is why."""


def traffic_from_schedule(primitive: Primitive, choice: Choice, groups: Sequence[Group], whole: Group) -> Traffic:
    """The messages between the members of one group, numbered innermost fastest, in units of M.

    ``groups`` are the tiers that it spans, innermost first, each seen alone; ``whole`` is all of it seen flat.

    Raises:
        Unscheduled: an algorithm without a schedule here, or one of too many messages.
    """
    sizes = [group.ranks for group in groups]
    if choice.base == "multi-rail-ring":
        return _over_rails(primitive, sizes, spread=groups[0].dedicated)
    if all(row.name != choice.base for row in compositions(primitive)):
        return scheduled(primitive, choice.base, whole)
    order = natural_order(primitive) or "inner-first"
    first: dict[int, Primitive] = {}
    parts = []
    for step in find_composition(primitive, choice.base).steps(tuple(sizes), order):
        begun = first.setdefault(step.tier, step.primitive)
        name = name_in_phase(choice.tiers[step.tier], begun, step.primitive)
        own = scheduled(step.primitive, name, groups[step.tier])
        parts.append(_in_tier(own, sizes, step.tier, step.payload, leaders=step.leaders))
    return _together(parts)


def scheduled(primitive: Primitive, name: str, group: Group) -> Traffic:
    """The messages of one registered algorithm on one group; raises :class:`Unscheduled`."""
    make = maker(primitive, name)
    if make is None:
        raise Unscheduled(f"no schedule is written for {name}")
    if name == "ring" and not group.axes:  # the same, without following every chunk round
        return neighbours(group.ranks, (2 if primitive is AR else 1) * (group.ranks - 1) / group.ranks)
    if effort(primitive, name, group.ranks, None) > MOST_WORK:
        raise Unscheduled(f"{name} on {group.ranks} ranks sends too many messages to follow")
    program = make(group, 1)
    if program.servers:
        raise Unscheduled(f"the servers of {name} are not among the ranks, so their ports are unknown")
    return _summed(program)


def neighbours(ranks: int, size: float) -> Traffic:
    here = np.arange(ranks)
    return Traffic(here, (here + 1) % ranks, np.full(ranks, size))


def _summed(program: Program) -> Traffic:
    loads = _added_up(program).reshape(program.nodes, program.nodes)
    if program.nodes > program.ranks:
        return _through_switch(loads, program.ranks)
    src, dst = np.nonzero(loads * ~np.eye(program.nodes, dtype=bool))
    return Traffic(src, dst, loads[src, dst])


def _added_up(program: Program) -> Floats:
    """Bytes of every pair of nodes, shape (nodes * nodes,), in blocks of steps."""
    total = np.zeros(program.nodes**2)
    held: list[Step] = []
    for batch in program.batches:
        held += batch
        if len(held) * program.ranks > _AT_ONCE:
            total += _of_pairs(held, program)
            held = []
    return total + _of_pairs(held, program) if held else total


def _of_pairs(steps: Sequence[Step], program: Program) -> Floats:
    pair = np.concatenate([one.src * program.nodes + one.dst for one in steps])
    size = np.concatenate([program.chunk_bytes[one.chunk] for one in steps])
    return np.asarray(np.bincount(pair, size, program.nodes**2), dtype=np.float64)


def _through_switch(loads: Floats, ranks: int) -> Traffic:
    """What passes a switch, as messages to the next member: the same load on every port, and on the border of every domain
    once each way, as of what is reduced below it. A port's busier direction stands for both.
    """
    up, down = loads[:ranks, ranks:].sum(axis=1), loads[ranks:, :ranks].sum(axis=0)
    return neighbours(ranks, float(max(up.max(), down.max())))


def _in_tier(own: Traffic, sizes: Sequence[int], tier: int, payload: float, *, leaders: bool) -> Traffic:
    """One tier's phase in all of its instances at once; with ``leaders`` of the first rank behind each endpoint alone."""
    inside, outside = prod(sizes[:tier]), prod(sizes[tier + 1 :])
    within = np.arange(1 if leaders else inside)
    above = np.arange(outside) * inside * sizes[tier]
    start = (above[:, None] + within).ravel()[:, None]
    src, dst = ((start + nodes * inside).ravel() for nodes in (own.src, own.dst))
    return Traffic(src, dst, np.tile(own.size * payload, len(start)))


def _over_rails(primitive: Primitive, sizes: Sequence[int], *, spread: bool) -> Traffic:
    """A ring for every NIC of a domain, with a share each; inside, all of it between neighbours or ``spread`` over pair links."""
    nics, domains = sizes[0], prod(sizes[1:])
    size = (2 if primitive is AR else 1) * (prod(sizes) - 1) / prod(sizes)
    ends = [nics, domains]
    inner, outer = _on_paths(nics, size) if spread else neighbours(nics, size), neighbours(domains, size / nics)
    return _together([_in_tier(inner, ends, 0, 1.0, leaders=False), _in_tier(outer, ends, 1, 1.0, leaders=False)])


def _on_paths(ranks: int, size: float) -> Traffic:
    """``size`` over paths through all members that share out the links between them."""
    ways = paths(ranks)
    return Traffic(ways[:, :-1].ravel(), ways[:, 1:].ravel(), np.full(ways[:, 1:].size, size / len(ways)))


def _together(parts: Sequence[Traffic]) -> Traffic:
    columns: list[Indices | Floats] = [np.concatenate([getattr(one, name) for one in parts]) for name in ("src", "dst", "size")]
    src, dst, size = columns
    return Traffic(src, dst, size)  # type: ignore[arg-type]  # three columns of one kind each


def executed(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm or composition that has a schedule; None of any other."""
    choice = parse_choice(algorithm)
    composed = choice.base in _composed(primitive)
    if not composed and choice.base != "multi-rail-ring" and maker(primitive, choice.base) is None:
        return None

    def seats(fabric: Fabric, ends: Indices) -> TierSeats:
        return tier_seats(fabric, ends) if composed else _flat_seats(fabric, ends)

    def traffic(members: Members, _: Primitive) -> Traffic:
        assert members.seated is not None  # rows with seats are asked with them
        _check(primitive, choice, members.seated)
        try:
            return traffic_from_schedule(primitive, choice, members.seated.groups, members.seated.whole)
        except Unscheduled as error:
            raise ColltoolError(str(error), argument="algorithm", fix="a smaller group, or another algorithm") from error

    return TrafficRow(traffic, seats=seats)


def _composed(primitive: Primitive) -> list[str]:
    return [row.name for row in compositions(primitive)]


def _flat_seats(fabric: Fabric, ends: Indices) -> TierSeats:
    """Flat schedules go from member to member in the group's order; on a lattice, from place to place."""
    lattice = any(capabilities_of(tier).axes for tier in fabric.tiers)
    try:
        sits = tier_seats(fabric, ends)
    except ColltoolError:
        if lattice:
            raise
        sits = TierSeats((), Group(len(ends), "tiers"), np.arange(len(ends)))
    return sits if lattice else sits._replace(order=np.arange(len(ends)))


def _check(primitive: Primitive, choice: Choice, sits: TierSeats) -> None:
    """Refuse what cannot run on these seats."""
    if choice.base not in _composed(primitive):
        row = find(primitive, choice.base, _composed(primitive))
        _refuse(row.name, row.why_not(row.on(sits.whole, choice)))
        return
    if len(sits.groups) < 2:
        _refuse(choice.base, f"needs a group over several tiers; its {sits.whole.ranks} ranks lie on one")
    if len(choice.tiers) != len(sits.groups):
        what = f"'{choice.spec}' names {counted(len(choice.tiers), 'algorithm')}, the group spans {len(sits.groups)} tiers"
        usual = Choice(choice.base, ("ring",) * len(sits.groups)).spec
        raise ColltoolError(what, argument="algorithm", fix=f"one for each, innermost first, such as {given('algorithm', usual)}")
    sizes = tuple(group.ranks for group in sits.groups)
    begun: dict[int, Primitive] = {}
    for step in find_composition(primitive, choice.base).steps(sizes, "inner-first"):
        begun.setdefault(step.tier, step.primitive)
    for tier, first in begun.items():
        row = row_of(first, choice.tiers[tier]) or find(first, choice.tiers[tier])
        _refuse(row.name, row.why_not(sits.groups[tier]))


def _refuse(name: str, reason: str | None) -> None:
    if reason:
        raise ColltoolError(f"{name} cannot run here: {reason}", argument="algorithm", fix="price lists what can")
