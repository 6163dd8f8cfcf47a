"""What a collective really sends: the messages of its executed schedule, added up by sender and receiver.

Rings over all NICs of a domain, and compositions over several tiers, are put together from the messages of one tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from colltool.algorithms.composed import NATURAL_ORDER, compositions, find_composition
from colltool.algorithms.group import Group
from colltool.algorithms.registry import Choice, find, parse_choice, row_of
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.base.primitives import AR, Primitive
from colltool.congestion.traffic import Members, TierSeats, Traffic, TrafficRow
from colltool.estimate.groups import alone_on
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.schedules.composed import name_in_phase
from colltool.schedules.executor import joined
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
    if choice.base not in _composed(primitive):
        return _scheduled(primitive, choice.base, whole)
    first: dict[int, Primitive] = {}
    parts = []
    for step in find_composition(primitive, choice.base).steps(tuple(sizes), NATURAL_ORDER.get(primitive) or "inner-first"):
        name = name_in_phase(choice.tiers[step.tier], first.setdefault(step.tier, step.primitive), step.primitive)
        own = _scheduled(step.primitive, name, groups[step.tier])
        parts.append(_in_tier(own, sizes, step.tier, step.payload, leaders=step.leaders))
    return _together(parts)


def _composed(primitive: Primitive) -> list[str]:
    return [row.name for row in compositions(primitive)]


def _scheduled(primitive: Primitive, name: str, group: Group) -> Traffic:
    """The messages of one registered algorithm on one group."""
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
    loads = _added_up(program).reshape(program.nodes, program.nodes)
    if program.nodes > program.ranks:
        # What passes a switch, as messages to the next member: the same load on every port, and on the border of every domain
        # once each way, as of what is reduced below it. A port's busier direction stands for both.
        up, down = loads[: program.ranks, program.ranks :].sum(axis=1), loads[program.ranks :, : program.ranks].sum(axis=0)
        return neighbours(program.ranks, float(max(up.max(), down.max())))
    src, dst = np.nonzero(loads * ~np.eye(program.nodes, dtype=bool))
    return Traffic(src, dst, loads[src, dst])


def neighbours(ranks: int, size: float) -> Traffic:
    here = np.arange(ranks)
    return Traffic(here, (here + 1) % ranks, np.full(ranks, size))


def _added_up(program: Program) -> Floats:
    """Bytes of every pair of nodes, shape (nodes * nodes,), in blocks of steps."""
    total = np.zeros(program.nodes**2)

    def add(steps: Sequence[Step]) -> None:
        src, dst, chunk = joined(steps)
        total[:] += np.bincount(src * program.nodes + dst, program.chunk_bytes[chunk], program.nodes**2)

    held: list[Step] = []
    for batch in program.batches:
        held += batch
        if len(held) * program.ranks > _AT_ONCE:
            add(held)
            held = []
    if held:
        add(held)
    return total


def _in_tier(own: Traffic, sizes: Sequence[int], tier: int, payload: float, *, leaders: bool) -> Traffic:
    """One tier's phase in all of its instances at once; with ``leaders`` of the first rank behind each endpoint alone."""
    inside, outside = prod(sizes[:tier]), prod(sizes[tier + 1 :])
    within = np.arange(1 if leaders else inside)
    start = (np.arange(outside)[:, None] * inside * sizes[tier] + within).ravel()[:, None]
    src, dst = ((start + nodes * inside).ravel() for nodes in (own.src, own.dst))
    return Traffic(src, dst, np.tile(own.size * payload, len(start)))


def _over_rails(primitive: Primitive, sizes: Sequence[int], *, spread: bool) -> Traffic:
    """A ring for every NIC of a domain, with a share each.

    Inside, all of it goes between neighbours or, ``spread``, over paths through all members that share out the pair links.
    """
    nics, domains = sizes[0], prod(sizes[1:])
    size = (2 if primitive is AR else 1) * (prod(sizes) - 1) / prod(sizes)
    inner, outer = neighbours(nics, size), neighbours(domains, size / nics)
    if spread:
        ways = paths(nics)
        inner = Traffic(ways[:, :-1].ravel(), ways[:, 1:].ravel(), np.full(ways[:, 1:].size, size / len(ways)))
    return _together([_in_tier(one, [nics, domains], tier, 1.0, leaders=False) for tier, one in enumerate((inner, outer))])


def _together(parts: Sequence[Traffic]) -> Traffic:
    src, dst = (np.concatenate(ends) for ends in zip(*((one.src, one.dst) for one in parts), strict=True))
    return Traffic(src, dst, np.concatenate([one.size for one in parts]))


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


def tier_seats(fabric: Fabric, ends: Indices) -> TierSeats:
    """How the members of a group, at endpoints ``ends`` of shape (N,), sit on the tiers of a fabric.

    Raises:
        ColltoolError: domains that hold unlike numbers of members, or a part of a lattice that is not whole axes.
    """
    order, fix = np.argsort(ends, kind="stable"), f"{given('algorithm', 'ring')} runs on any group"
    units, below = ends[order].astype(np.int64), 1
    groups: list[Group] = []
    for number, tier in enumerate(fabric.tiers):
        units = np.unique(units // below)
        _, members = np.unique(units // tier.endpoints, return_counts=True)
        least, most, stride = int(members.min()), int(members.max()), 1  # endpoints from one member to the next on a lattice
        if least != most:
            what = f"its domains of {tier.name} hold {least} to {most} members"
            raise ColltoolError(f"{what}; a schedule over tiers needs the same number in each", argument="algorithm", fix=fix)
        if most > 1:
            kind, places = capabilities_of(tier), units.reshape(-1, most)
            if kind.axes:
                steps, first = np.unique(np.diff(places, axis=1)), places[:, 0] % tier.endpoints
                stride = int(steps[0])
                aligned = len(steps) == 1 and not (first % (stride * most) >= stride).any()
                if not aligned or kind.part(most, stride) is None:
                    what = f"its members on {tier.name} do not fill whole axes of it"
                    raise ColltoolError(what, argument="algorithm", fix=fix)
            groups.append(alone_on(tier, most, prod(group.ranks for group in groups), stride, scale_out=number > 0))
        below = tier.endpoints
    if len(groups) == 1:
        return TierSeats((groups[0],), groups[0], order)
    lattice = any(group.axes for group in groups)
    return TierSeats(tuple(groups), Group(prod(one.ranks for one in groups), "lattice_tiers" if lattice else "tiers"), order)


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
    begun: dict[int, Primitive] = {}
    for step in find_composition(primitive, choice.base).steps(tuple(group.ranks for group in sits.groups), "inner-first"):
        begun.setdefault(step.tier, step.primitive)
    for tier, first in begun.items():
        row = row_of(first, choice.tiers[tier]) or find(first, choice.tiers[tier])
        _refuse(row.name, row.why_not(sits.groups[tier]))


def _refuse(name: str, reason: str | None) -> None:
    if reason:
        raise ColltoolError(f"{name} cannot run here: {reason}", argument="algorithm", fix="price lists what can")
