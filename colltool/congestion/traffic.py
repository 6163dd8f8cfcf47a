"""Who sends how many bytes to whom: the traffic of a collective's algorithm, all its steps added
up.

It follows from the routes of the formula where it can, so that groups of a million ranks need no
execution, else from the messages of the executed schedule. Rings over all NICs of a domain, and
compositions over several tiers, are put together from the messages of one tier. Bytes are in units
of M, members are numbered 0 .. N-1 in group order. The sums lose timing: a schedule whose steps
load different links in turn takes longer than the busiest sum says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.algorithms import registry
from colltool.algorithms.composed import (
    NATURAL_ORDER,
    compositions,
    find_composition,
    name_in_phase,
)
from colltool.algorithms.executor import joined
from colltool.algorithms.program import Program, Step, effort, maker
from colltool.algorithms.registry import Choice, find, parse_choice
from colltool.algorithms.rings import paths
from colltool.base import primitives as routes
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, SHORT, Primitive, log2_ceil
from colltool.estimate.groups import alone_on
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Group

MOST_MESSAGES = 2**21  # pairs that a run follows: beyond it, minutes and gigabytes

_MODELLED = {
    AR: ("ring", "dim-ring", "one-shot", "two-shot", "recursive-doubling", "rabenseifner"),
    AG: ("ring", "dim-ring", "direct", "recursive-doubling"),
    RS: ("ring", "dim-ring", "direct", "recursive-halving"),
    A2A: ("direct", "pairwise", "shortest-path", "bruck"),
    BC: ("chain",),
    REDUCE: ("chain",),
    P2P: ("send",),
}


class Traffic(NamedTuple):
    """Messages between members, shape (m,) each; ``neighbours``: laid out well, each is one hop on
    a link of its own."""

    src: Indices
    dst: Indices
    size: Floats
    neighbours: bool = False


class TierSeats(NamedTuple):
    """How a group with as many members in every domain sits on its tiers: what a schedule over
    several has to know."""

    groups: tuple[Group, ...]  # the tiers that it spans, innermost first, each seen alone
    whole: Group  # all of it seen flat
    order: Indices  # the member on each seat, innermost fastest; schedules number members by seat


class SubLattice(NamedTuple):
    """A group that fills a box of a torus or mesh."""

    members: Indices  # by their coordinates, the last axis first
    rings: tuple[bool, ...]  # whether lines along each of those axes close


class Members(NamedTuple):
    """A group as its traffic sees it."""

    ranks: int
    lattice: SubLattice | None = None  # for algorithms that go by its axes
    seated: TierSeats | None = None  # on the tiers, for algorithms known by their schedule

    @property
    def key(self) -> tuple[object, ...]:
        lattice, sits = self.lattice, self.seated
        axes = (
            None
            if lattice is None
            else (lattice.members.shape, lattice.members.tobytes(), lattice.rings)
        )
        return self.ranks, axes, None if sits is None else (sits.groups, sits.whole)


class TrafficRow(NamedTuple):
    """An algorithm whose traffic is known."""

    maker: Callable[[Members, Primitive], Traffic]
    dense: bool = False  # every member sends straight to every other
    by_axes: bool = False  # it needs ``Members.lattice``
    # how members sit, where it needs ``Members.seated``
    seats: Callable[[Fabric, Indices], TierSeats] | None = None


def listed(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm whose traffic follows from its route, or None."""
    if algorithm not in _MODELLED[primitive]:
        return None
    if algorithm == "dim-ring":
        return TrafficRow(_dim_ring, by_axes=True)
    if algorithm == "shortest-path":  # a lattice routes what pairwise sends
        return TrafficRow(partial(_by_route, "pairwise"), dense=True)
    parts = find(primitive, algorithm).schedule(Group(4, "star"))
    return TrafficRow(
        partial(_by_route, algorithm),
        dense=isinstance(parts[0].route, routes.Peers | routes.AllPeers),
    )


def row_of(primitive: Primitive, algorithm: str) -> TrafficRow:
    """As :func:`listed`, or an error that says what is modelled."""
    known = modelled(primitive)
    if not isinstance(algorithm, str):
        raise ColltoolError(
            f"expected the name of an algorithm, got {algorithm!r}",
            argument="algorithm",
            fix=", ".join(known),
        )
    if row := listed(primitive, algorithm):
        return row
    find(primitive, algorithm, known)
    what = f"the partners of '{algorithm}' ({SHORT[primitive]}) are not modelled link by link"
    fix = f"no schedule is written for it; modelled: {', '.join(known)}, and what verify executes"
    raise ColltoolError(what, argument="algorithm", fix=fix)


def modelled(primitive: Primitive) -> list[str]:
    return list(_MODELLED[primitive])


def default_of(primitive: Primitive) -> str:
    """The algorithm of a group that names none."""
    return "pairwise" if primitive is A2A else _MODELLED[primitive][0]


def traffic(primitive: Primitive, algorithm: str, members: Members) -> Traffic:
    return row_of(primitive, algorithm).maker(members, primitive)


def messages_of(row: TrafficRow, ranks: int) -> int:
    """About how many pairs the row's maker would list."""
    return ranks * (ranks - 1 if row.dense else log2_ceil(ranks))


def _by_route(name: str, members: Members, primitive: Primitive) -> Traffic:
    """Sends by the parts of the formula; rounds with the same partner are one message."""
    n, row = members.ranks, find(primitive, name)
    reason = next((reason for check in row.requires if (reason := check(Group(n, "star")))), None)
    if reason:
        raise ColltoolError(f"{name} {reason}", argument="algorithm")
    here, each, rounds = np.arange(n), 0.0, dict[int, float]()
    for terms in row.schedule(Group(n, "star")):
        match terms.route:
            case routes.Ring():
                return Traffic(here, (here + 1) % n, np.full(n, terms.n_beta), neighbours=True)
            case routes.Chain():  # member 0 is the root
                src, dst = (here[:-1], here[1:]) if primitive is BC else (here[1:], here[:-1])
                return Traffic(src, dst, np.ones(n - 1), neighbours=True)
            case routes.Pair():
                if n != 2:
                    raise ColltoolError(
                        f"p2p joins 2 ranks, got a group of {n}",
                        argument="algorithm",
                        fix="groups of 2",
                    )
                return Traffic(np.array([0]), np.array([1]), np.ones(1), neighbours=True)
            case routes.AllPeers(per_peer):
                each += per_peer
            case routes.Peers():
                each += 1 / n
            case routes.Rounds(partner, steps):
                for stride, load in steps:
                    rounds[stride] = rounds.get(stride, 0.0) + load
            case _:
                raise TypeError(f"no traffic of {terms.route!r}")
    if each:
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        return Traffic(src, dst, np.full(len(src), each))
    strides = sorted(rounds)
    dst = np.concatenate(
        [here ^ stride if partner == "xor" else (here + stride) % n for stride in strides]
    )
    return Traffic(
        np.tile(here, len(strides)), dst, np.repeat([rounds[stride] for stride in strides], n)
    )


def _dim_ring(members: Members, primitive: Primitive) -> Traffic:
    """A reduce-scatter along each axis in turn, the payload shrinking; an all-gather is that
    backwards, an all-reduce both."""
    if members.lattice is None:
        what = "dim-ring needs a group that fills a sub-lattice of a torus or mesh"
        raise ColltoolError(
            what, argument="algorithm", fix=f"{given('algorithm', 'ring')} runs on any group"
        )
    src, dst, size, payload = [], [], [], 1.0
    grid, rings = members.lattice
    for axis in reversed(range(grid.ndim)):
        line = np.moveaxis(grid, axis, -1)
        d = line.shape[-1]
        below = np.arange(1, d)
        # Up and down each link of the line: a ring takes every block but one's own upwards, in
        # units of what a place holds at first; on an open line the sums of a block flow to its
        # place from both ends.
        shares = (
            (np.full(d, (d - 1) / d), np.zeros(d)) if rings[axis] else ((d - below) / d, below / d)
        )
        up, down = (payload * share for share in shares)
        forth, back = {RS: (up, down), AG: (down, up), AR: (up + down, up + down)}[primitive]
        here, there = (ends[..., : len(up)] for ends in (line, np.roll(line, -1, -1)))
        for one, other, sizes in ((here, there, forth), (there, here, back)):
            used = sizes > 0
            src.append(one[..., used].ravel())
            dst.append(other[..., used].ravel())
            size.append(np.broadcast_to(sizes[used], one[..., used].shape).ravel())
        payload /= d
    return Traffic(np.concatenate(src), np.concatenate(dst), np.concatenate(size), neighbours=True)


MOST_WORK = 20_000_000  # messages of a schedule that are followed: seconds of work

_AT_ONCE = 1_000_000


class Unscheduled(Exception):
    """No schedule says what goes where; the text is why."""


def traffic_from_schedule(
    primitive: Primitive, choice: Choice, groups: Sequence[Group], whole: Group
) -> Traffic:
    """The messages between the members of one group, numbered innermost fastest, in units of M;
    :class:`Unscheduled` if unknown.

    ``groups`` are the tiers that it spans, innermost first, each seen alone; ``whole`` is all of it
    seen flat.
    """
    sizes = [group.ranks for group in groups]
    if choice.base == "multi-rail-ring":
        return _over_rails(primitive, sizes, spread=groups[0].dedicated)
    if choice.base not in _composed(primitive):
        return _scheduled(primitive, choice.base, whole)
    first: dict[int, Primitive] = {}
    parts = []
    for step in find_composition(primitive, choice.base).steps(
        tuple(sizes), NATURAL_ORDER.get(primitive) or "inner-first"
    ):
        begun, does = first.setdefault(step.tier, step.primitive), step.primitive
        if primitive is AR and choice.tiers[step.tier] == "in-network" and does is not begun:
            continue  # a switch streams both phases as one call
        does = AR if primitive is AR and choice.tiers[step.tier] == "in-network" else does
        own = _scheduled(
            does, name_in_phase(choice.tiers[step.tier], begun, does), groups[step.tier]
        )
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
        return neighbours(
            group.ranks, (2 if primitive is AR else 1) * (group.ranks - 1) / group.ranks
        )
    if effort(primitive, name, group.ranks, None) > MOST_WORK:
        raise Unscheduled(f"{name} on {group.ranks} ranks sends too many messages to follow")
    program = make(group, 1)
    if program.servers:
        raise Unscheduled(
            f"the servers of {name} are not among the ranks, so their ports are unknown"
        )
    if program.stands is not None:
        raise Unscheduled(
            f"{name} goes through the switches by ways of its own, which a layout does not follow"
        )
    loads = _added_up(program).reshape(program.nodes, program.nodes)
    if program.nodes > program.ranks:
        # What passes a switch, as messages to the next member: the same load on every port, and on
        # the border of every domain once each way, as of what is reduced below it. A port's busier
        # direction stands for both.
        up, down = (
            loads[: program.ranks, program.ranks :].sum(axis=1),
            loads[program.ranks :, : program.ranks].sum(axis=0),
        )
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
        total[:] += np.bincount(
            src * program.nodes + dst, program.chunk_bytes[chunk], program.nodes**2
        )

    held: list[Step] = []
    for batch in program.batches:
        held += batch
        if len(held) * program.ranks > _AT_ONCE:
            add(held)
            held = []
    if held:
        add(held)
    return total


def _in_tier(
    own: Traffic, sizes: Sequence[int], tier: int, payload: float, *, leaders: bool
) -> Traffic:
    """One tier's phase in all of its instances at once; with ``leaders`` of the first rank behind
    each endpoint alone."""
    inside, outside = prod(sizes[:tier]), prod(sizes[tier + 1 :])
    within = np.arange(1 if leaders else inside)
    start = (np.arange(outside)[:, None] * inside * sizes[tier] + within).ravel()[:, None]
    src, dst = ((start + nodes * inside).ravel() for nodes in (own.src, own.dst))
    return Traffic(src, dst, np.tile(own.size * payload, len(start)))


def _over_rails(primitive: Primitive, sizes: Sequence[int], *, spread: bool) -> Traffic:
    """A ring for every NIC of a domain, with a share each.

    Inside, all of it goes between neighbours or, ``spread``, over paths through all members that
    share out the pair links.
    """
    nics, domains = sizes[0], prod(sizes[1:])
    size = (2 if primitive is AR else 1) * (prod(sizes) - 1) / prod(sizes)
    inner, outer = neighbours(nics, size), neighbours(domains, size / nics)
    if spread:
        ways = paths(nics)
        inner = Traffic(
            ways[:, :-1].ravel(), ways[:, 1:].ravel(), np.full(ways[:, 1:].size, size / len(ways))
        )
    return _together(
        [
            _in_tier(one, [nics, domains], tier, 1.0, leaders=False)
            for tier, one in enumerate((inner, outer))
        ]
    )


def _together(parts: Sequence[Traffic]) -> Traffic:
    src, dst = (
        np.concatenate(ends) for ends in zip(*((one.src, one.dst) for one in parts), strict=True)
    )
    return Traffic(src, dst, np.concatenate([one.size for one in parts]))


def executed(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm or composition that has a schedule; None of any other."""
    choice = parse_choice(algorithm)
    composed = choice.base in _composed(primitive)
    if not composed and choice.base != "multi-rail-ring" and maker(primitive, choice.base) is None:
        return None

    def seats(fabric: Fabric, ends: Indices) -> TierSeats:
        return tier_seats(fabric, ends) if composed else _flat_seats(fabric, ends)

    def sent(members: Members, _: Primitive) -> Traffic:
        assert members.seated is not None  # rows with seats are asked with them
        _check(primitive, choice, members.seated)
        try:
            return traffic_from_schedule(
                primitive, choice, members.seated.groups, members.seated.whole
            )
        except Unscheduled as error:
            raise ColltoolError(
                str(error), argument="algorithm", fix="a smaller group, or another algorithm"
            ) from error

    return TrafficRow(sent, seats=seats)


def any_row(primitive: Primitive, algorithm: str) -> TrafficRow:
    """By the route of the formula, else by the schedule; an error says what is known."""
    by_schedule = None if listed(primitive, algorithm) else executed(primitive, algorithm)
    return by_schedule or row_of(primitive, algorithm)


def _flat_seats(fabric: Fabric, ends: Indices) -> TierSeats:
    """Flat schedules go from member to member in the group's order; on a lattice, from place to
    place."""
    lattice = any(capabilities_of(tier).axes for tier in fabric.tiers)
    try:
        sits = tier_seats(fabric, ends)
    except ColltoolError:
        if lattice:
            raise
        sits = TierSeats((), Group(len(ends), "tiers"), np.arange(len(ends)))
    return sits if lattice else sits._replace(order=np.arange(len(ends)))


def tier_seats(fabric: Fabric, ends: Indices) -> TierSeats:
    """How the members of a group, at endpoints ``ends`` of shape (N,), sit on the tiers of a
    fabric."""
    order, fix = np.argsort(ends, kind="stable"), f"{given('algorithm', 'ring')} runs on any group"
    units, below = ends[order].astype(np.int64), 1
    groups: list[Group] = []
    for number, tier in enumerate(fabric.tiers):
        units = np.unique(units // below)
        _, members = np.unique(units // tier.endpoints, return_counts=True)
        # endpoints from one member to the next on a lattice
        least, most, stride = int(members.min()), int(members.max()), 1
        if least != most:
            what = f"its domains of {tier.name} hold {least} to {most} members"
            raise ColltoolError(
                f"{what}; a schedule over tiers needs the same number in each",
                argument="algorithm",
                fix=fix,
            )
        if most > 1:
            kind, places = capabilities_of(tier), units.reshape(-1, most)
            if kind.axes:
                steps, first = np.unique(np.diff(places, axis=1)), places[:, 0] % tier.endpoints
                stride = int(steps[0])
                aligned = len(steps) == 1 and not (first % (stride * most) >= stride).any()
                if not aligned or kind.part(most, stride) is None:
                    what = f"its members on {tier.name} do not fill whole axes of it"
                    raise ColltoolError(what, argument="algorithm", fix=fix)
            groups.append(
                alone_on(
                    tier, most, prod(group.ranks for group in groups), stride, scale_out=number > 0
                )
            )
        below = tier.endpoints
    if len(groups) == 1:
        return TierSeats((groups[0],), groups[0], order)
    lattice = any(group.axes for group in groups)
    return TierSeats(
        tuple(groups),
        Group(prod(one.ranks for one in groups), "lattice_tiers" if lattice else "tiers"),
        order,
    )


def _check(primitive: Primitive, choice: Choice, sits: TierSeats) -> None:
    """Refuse what cannot run on these seats."""
    if choice.base not in _composed(primitive):
        row = find(primitive, choice.base, _composed(primitive))
        _refuse(row.name, row.why_not(row.on(sits.whole, choice)))
        return
    if len(sits.groups) < 2:
        _refuse(
            choice.base,
            f"needs a group over several tiers; its {sits.whole.ranks} ranks lie on one",
        )
    if len(choice.tiers) != len(sits.groups):
        what = (
            f"'{choice.spec}' names {counted(len(choice.tiers), 'algorithm')}, the group spans"
            f" {len(sits.groups)} tiers"
        )
        usual = Choice(choice.base, ("ring",) * len(sits.groups)).spec
        raise ColltoolError(
            what,
            argument="algorithm",
            fix=f"one for each, innermost first, such as {given('algorithm', usual)}",
        )
    begun: dict[int, Primitive] = {}
    for step in find_composition(primitive, choice.base).steps(
        tuple(group.ranks for group in sits.groups), "inner-first"
    ):
        begun.setdefault(step.tier, step.primitive)
    for tier, first in begun.items():
        row = registry.row_of(first, choice.tiers[tier]) or find(first, choice.tiers[tier])
        _refuse(row.name, row.why_not(sits.groups[tier]))


def _refuse(name: str, reason: str | None) -> None:
    if reason:
        raise ColltoolError(
            f"{name} cannot run here: {reason}", argument="algorithm", fix="price lists what can"
        )
