"""The traffic of a collective's algorithm: bytes between each pair of members, summed over steps.

It follows from the routes of the formula where possible, so that groups of a million ranks need no
execution, else from the messages of the executed schedule. Rings over all NICs of a domain, and
compositions over several tiers, are put together from the messages of one tier. Bytes are in units
of M, members are numbered 0 .. N-1 in group order. The sums lose timing: a schedule whose steps
load different links in turn takes longer than the busiest sum says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.algorithms.composed import (
    NATURAL_ORDER,
    compositions,
    find_composition,
    name_in_phase,
)
from colltool.algorithms.executor import concatenated
from colltool.algorithms.names import specs_called
from colltool.algorithms.partners import pairs_of_round
from colltool.algorithms.program import Program, estimated_messages, maker
from colltool.algorithms.registry import Choice, find, parse_choice
from colltool.algorithms.rings import paths
from colltool.base import primitives as routes
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    P2P,
    REDUCE,
    RS,
    SHORT,
    Primitive,
    Terms,
    log2_ceil,
)
from colltool.estimate.groups import alone_on
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Group

MOST_MESSAGES = 2**21  # pairs that a run follows: beyond it, minutes and gigabytes
MOST_WORK = 20_000_000  # messages of a schedule that are followed: seconds of work

# Algorithms whose traffic follows from their formula's route; the first of each is the default.
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
    """Messages between members; arrays of shape (m,)."""

    src: Indices
    dst: Indices
    size: Floats
    # in the best layout each message is one hop, on a link of its own
    neighbours: bool = False


class TierPositions(NamedTuple):
    """Positions of a group's members on the tiers; every domain of a tier holds as many of them."""

    groups: tuple[Group, ...]  # the tiers spanned, innermost first, each as its algorithms see it
    whole: Group  # all of the group as flat algorithms see it
    order: Indices  # the member at each position, innermost fastest; schedules number positions


class SubLattice(NamedTuple):
    """A group that fills a box of a torus or mesh."""

    members: Indices  # by their coordinates, the last axis first
    rings: tuple[bool, ...]  # whether lines along each of those axes close


class Members(NamedTuple):
    """A group as its traffic sees it."""

    ranks: int
    lattice: SubLattice | None = None  # for algorithms that go axis by axis
    positions: TierPositions | None = None  # for algorithms known by their schedule

    @property
    def key(self) -> tuple[object, ...]:
        """A hashable that is the same for groups of the same traffic."""
        key: tuple[object, ...] = (self.ranks,)
        if self.lattice is not None:
            grid = self.lattice.members
            key += (grid.shape, grid.tobytes(), self.lattice.rings)
        if self.positions is not None:
            key += (self.positions.groups, self.positions.whole)
        return key


class TrafficRow(NamedTuple):
    """An algorithm whose traffic is known."""

    maker: Callable[[Members], Traffic]
    dense: bool = False  # every member sends straight to every other
    by_axes: bool = False  # ``maker`` needs ``Members.lattice``
    # makes ``Members.positions`` from the members' endpoints, where ``maker`` needs it
    positions: Callable[[Fabric, Indices], TierPositions] | None = None


def row_by_route(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm whose traffic follows from its route, or None."""
    if algorithm not in _MODELLED[primitive]:
        return None
    if algorithm == "dim-ring":
        return TrafficRow(partial(_dim_ring, primitive), by_axes=True)
    if algorithm == "shortest-path":  # a lattice routes what pairwise sends
        algorithm = "pairwise"
    parts = find(primitive, algorithm).schedule(Group(4, "star"))
    dense = isinstance(parts[0].route, routes.Peers | routes.AllPeers)
    return TrafficRow(partial(_by_route, primitive, algorithm), dense)


def row_of(primitive: Primitive, algorithm: str) -> TrafficRow:
    """The row that :func:`row_by_route` finds, or an error that lists what is modelled."""
    row = row_by_route(primitive, algorithm)
    if row is not None:
        return row
    known = modelled(primitive)
    find(primitive, algorithm, known)
    what = f"the partners of '{algorithm}' ({SHORT[primitive]}) are not modelled link by link"
    fix = f"no schedule is written for it; modelled: {', '.join(known)}, and what verify executes"
    raise ColltoolError(what, argument="algorithm", fix=fix)


def modelled(primitive: Primitive) -> list[str]:
    """Algorithms whose traffic follows from their route, the default first."""
    return list(_MODELLED[primitive])


def default_of(primitive: Primitive) -> str:
    """The algorithm of a group that names none."""
    return "pairwise" if primitive is A2A else _MODELLED[primitive][0]


def traffic(primitive: Primitive, algorithm: str, members: Members) -> Traffic:
    """The messages of an algorithm whose traffic follows from its route, in units of M."""
    return row_of(primitive, algorithm).maker(members)


def messages_of(row: TrafficRow, ranks: int) -> int:
    """Estimate how many messages the row's maker would list."""
    return ranks * (ranks - 1 if row.dense else log2_ceil(ranks))


def neighbours(ranks: int, size: float) -> Traffic:
    """Traffic of a ring: every member sends ``size`` to the next."""
    here = np.arange(ranks)
    return Traffic(here, (here + 1) % ranks, np.full(ranks, size))


def _by_route(primitive: Primitive, name: str, members: Members) -> Traffic:
    """Traffic that follows from the route of the formula."""
    n = members.ranks
    # Any topology will do: only the route is read, and the star is free of conditions.
    star = Group(n, "star")
    algorithm = find(primitive, name)
    for requirement in algorithm.requires:
        reason = requirement(star)
        if reason:
            raise ColltoolError(f"{name} {reason}", argument="algorithm")
    schedule = algorithm.schedule(star)
    here = np.arange(n)
    match schedule[0].route:
        case routes.Ring():
            return neighbours(n, schedule[0].n_beta)._replace(neighbours=True)
        case routes.Chain():  # member 0 is the root
            src, dst = here[:-1], here[1:]
            if primitive is not BC:
                src, dst = dst, src
            return Traffic(src, dst, np.ones(n - 1), neighbours=True)
        case routes.Pair():
            if n != 2:
                what = f"p2p joins 2 ranks, got a group of {n}"
                raise ColltoolError(what, argument="algorithm", fix="groups of 2")
            return Traffic(here[:1], here[1:], np.ones(1), neighbours=True)
        case _:
            return _among_peers(schedule, n)


def _among_peers(schedule: Sequence[Terms], n: int) -> Traffic:
    """Traffic with all peers, or with one after the other; rounds with the same partner are one
    message."""
    to_each_peer = 0.0
    # by stride and kind of partner
    rounds: defaultdict[tuple[int, routes.Partner], float] = defaultdict(float)
    for terms in schedule:
        match terms.route:
            case routes.AllPeers(per_peer):
                to_each_peer += per_peer
            case routes.Peers():
                to_each_peer += 1 / n
            case routes.Rounds(partner, steps):
                for stride, load in steps:
                    rounds[stride, partner] += load
            case _:
                raise TypeError(f"no traffic of {terms.route!r}")
    if to_each_peer:
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        return Traffic(src, dst, np.full(len(src), to_each_peer))
    parts = []
    for (stride, way), size in sorted(rounds.items()):
        src, dst = pairs_of_round(way, stride, n)
        parts.append(Traffic(src, dst, np.full(len(src), size)))
    return _together(parts)


def _dim_ring(primitive: Primitive, members: Members) -> Traffic:
    """Traffic of a reduce-scatter along each axis in turn, the payload shrinking; an all-gather is
    the same backwards, an all-reduce both."""
    if members.lattice is None:
        raise _ring_instead("dim-ring needs a group that fills a sub-lattice of a torus or mesh")
    grid, rings = members.lattice
    parts = []
    payload = 1.0
    for axis in reversed(range(grid.ndim)):
        line = np.moveaxis(grid, axis, -1)
        d = line.shape[-1]
        # What crosses each link of the line, up and down, in units of what a place holds at first.
        if rings[axis]:
            # All blocks but one's own go upwards.
            forth = payload * np.full(d, (d - 1) / d)
            back = np.zeros(d)
        else:
            # The sums of a block flow to its place from both ends.
            below = np.arange(1, d)
            forth = payload * ((d - below) / d)
            back = payload * (below / d)
        if primitive is AG:
            forth, back = back, forth
        elif primitive is AR:
            forth = back = forth + back
        here = line[..., : len(forth)]
        there = np.roll(line, -1, -1)[..., : len(forth)]
        for src, dst, sizes in ((here, there, forth), (there, here, back)):
            used = sizes > 0
            size = np.broadcast_to(sizes, src.shape)
            parts.append(
                Traffic(src[..., used].ravel(), dst[..., used].ravel(), size[..., used].ravel())
            )
        payload /= d
    return _together(parts)._replace(neighbours=True)


def _ring_instead(what: str) -> ColltoolError:
    fix = f"{argument_text('algorithm', 'ring')} runs on any group"
    return ColltoolError(what, argument="algorithm", fix=fix)


def _together(parts: Sequence[Traffic]) -> Traffic:
    """All messages of several parts."""
    return Traffic(
        np.concatenate([part.src for part in parts]),
        np.concatenate([part.dst for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


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
    if choice.base not in _composed(primitive):
        return _scheduled(primitive, choice.base, whole)
    begun: dict[int, Primitive] = {}  # the primitive of each tier's first phase
    parts = []
    order = NATURAL_ORDER.get(primitive) or "inner-first"
    for phase in find_composition(primitive, choice.base).steps(sizes, order):
        algorithm = choice.tiers[phase.tier]
        does = phase.primitive
        first = begun.setdefault(phase.tier, does)
        if primitive is AR and algorithm == "in-network":
            # A switch streams both phases of a tier as one call.
            if does is not first:
                continue
            does = AR
        in_phase = name_in_phase(algorithm, first, does)
        alone = _scheduled(does, in_phase, groups[phase.tier])
        parts.append(_in_tier(alone, sizes, phase.tier, phase.payload, leaders=phase.leaders))
    return _together(parts)


def _composed(primitive: Primitive) -> list[str]:
    return [composition.name for composition in compositions(primitive)]


def _scheduled(primitive: Primitive, name: str, group: Group) -> Traffic:
    """The messages of one registered algorithm on one group."""
    make = maker(primitive, name)
    ranks = group.ranks
    if make is None:
        raise Unscheduled(f"no schedule is written for {name}")
    if name == "ring" and not group.axes:
        # The same without following every chunk all the way round.
        return neighbours(ranks, _ring_share(primitive, ranks))
    if estimated_messages(primitive, name, ranks, segments=None) > MOST_WORK:
        raise Unscheduled(f"{name} on {ranks} ranks sends too many messages to follow")
    program = make(group, 1)
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
        # What passes a switch becomes messages to the next member: the same load on every port,
        # and on the border of every domain once each way, as of what is reduced below it. A port's
        # busier direction counts for both.
        up = loads[:ranks, ranks:].sum(axis=1)
        down = loads[ranks:, :ranks].sum(axis=0)
        return neighbours(ranks, float(max(up.max(), down.max())))
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
    takes part, else every rank does.
    """
    inside = prod(sizes[:tier])
    outside = prod(sizes[tier + 1 :])
    behind = np.arange(1 if leaders else inside)
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
    inner = neighbours(nics, size)
    if spread:
        ways = paths(nics)
        share = np.full(ways[:, 1:].size, size / len(ways))
        inner = Traffic(ways[:, :-1].ravel(), ways[:, 1:].ravel(), share)
    outer = neighbours(domains, size / nics)
    shape = (nics, domains)
    return _together(
        [
            _in_tier(inner, shape, tier=0, payload=1.0, leaders=False),
            _in_tier(outer, shape, tier=1, payload=1.0, leaders=False),
        ]
    )


def row_by_schedule(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm or composition that has a schedule. None of any other."""
    choice = parse_choice(algorithm)
    composed = choice.base in _composed(primitive)
    if not composed and choice.base != "multi-rail-ring" and maker(primitive, choice.base) is None:
        return None
    positions = tier_positions if composed else _flat_positions
    return TrafficRow(partial(_by_schedule, primitive, choice), positions=positions)


def _by_schedule(primitive: Primitive, choice: Choice, members: Members) -> Traffic:
    positions = members.positions
    assert positions is not None  # the row makes them
    _check(primitive, choice, positions)
    try:
        return traffic_from_schedule(primitive, choice, positions.groups, positions.whole)
    except Unscheduled as error:
        fix = "a smaller group, or another algorithm"
        raise ColltoolError(str(error), argument="algorithm", fix=fix) from error


def traffic_row(primitive: Primitive, algorithm: str) -> TrafficRow:
    """The row by the route of the formula, else by the schedule; an error lists what is known."""
    for spec in (algorithm, *specs_called(algorithm, primitive, _composed(primitive))):
        row = row_by_route(primitive, spec) or row_by_schedule(primitive, spec)
        if row is not None:
            return row
    return row_of(primitive, algorithm)


def _flat_positions(fabric: Fabric, ends: Indices) -> TierPositions:
    """Positions for flat schedules, which go from member to member in the group's order; on a
    lattice, from place to place."""
    if any(capabilities_of(tier).axes for tier in fabric.tiers):
        return tier_positions(fabric, ends)
    order = np.arange(len(ends))
    try:
        return tier_positions(fabric, ends)._replace(order=order)
    except ColltoolError:
        # Domains of different sizes: flat schedules run all the same.
        return TierPositions((), Group(len(ends), "tiers"), order)


def tier_positions(fabric: Fabric, ends: Indices) -> TierPositions:
    """Positions of the members of a group, at endpoints ``ends`` of shape (N,), on the tiers."""
    order = np.argsort(ends, kind="stable")
    # The tier's endpoints with members behind them, numbered through the fabric.
    occupied = ends[order].astype(np.int64)
    below = 1  # endpoints of the tier below in one of its domains
    inside = 1  # members behind each occupied endpoint
    groups: list[Group] = []
    for number, tier in enumerate(fabric.tiers):
        occupied = np.unique(occupied // below)
        _, members = np.unique(occupied // tier.endpoints, return_counts=True)
        least = int(members.min())
        most = int(members.max())
        if least != most:
            what = f"its domains of {tier.name} hold {least} to {most} members"
            raise _ring_instead(f"{what}; a schedule over tiers needs the same number in each")
        if most > 1:
            stride = _stride_on(tier, occupied.reshape(-1, most))
            groups.append(alone_on(tier, most, inside, stride, scale_out=number > 0))
            inside *= most
        below = tier.endpoints
    if len(groups) == 1:
        return TierPositions((groups[0],), groups[0], order)
    lattice = any(group.axes for group in groups)
    whole = Group(inside, "lattice_tiers" if lattice else "tiers")
    return TierPositions(tuple(groups), whole, order)


def _stride_on(tier: Tier, places: Indices) -> int:
    """Endpoints from one member to the next on a lattice, else 1; shape of ``places``: (domains,
    members)."""
    kind = capabilities_of(tier)
    if not kind.axes:
        return 1
    members = places.shape[1]
    steps = np.unique(np.diff(places, axis=1))
    stride = int(steps[0])
    first = places[:, 0] % tier.endpoints
    aligned = len(steps) == 1 and not (first % (stride * members) >= stride).any()
    if not aligned or kind.part(members, stride) is None:
        raise _ring_instead(f"its members on {tier.name} do not fill whole axes of it")
    return stride


def _check(primitive: Primitive, choice: Choice, positions: TierPositions) -> None:
    """Refuse what cannot run at these positions."""
    composed = _composed(primitive)
    if choice.base not in composed:
        algorithm = find(primitive, choice.base, composed)
        _refuse(algorithm.name, algorithm.why_not(algorithm.on(positions.whole, choice)))
        return
    groups = positions.groups
    if len(groups) < 2:
        ranks = positions.whole.ranks
        _refuse(choice.base, f"needs a group over several tiers; its {ranks} ranks lie on one")
    if len(choice.tiers) != len(groups):
        named = counted(len(choice.tiers), "algorithm")
        usual = Choice(choice.base, ("ring",) * len(groups)).spec
        raise ColltoolError(
            f"'{choice.spec}' names {named}, the group spans {len(groups)} tiers",
            argument="algorithm",
            fix=f"one for each, innermost first, such as {argument_text('algorithm', usual)}",
        )
    sizes = tuple(group.ranks for group in groups)
    begun: set[int] = set()
    for phase in find_composition(primitive, choice.base).steps(sizes, "inner-first"):
        # A tier's algorithm is named by its first phase.
        if phase.tier not in begun:
            begun.add(phase.tier)
            algorithm = find(phase.primitive, choice.tiers[phase.tier])
            _refuse(algorithm.name, algorithm.why_not(groups[phase.tier]))


def _refuse(name: str, reason: str | None) -> None:
    if reason:
        what = f"{name} cannot run here: {reason}"
        raise ColltoolError(what, argument="algorithm", fix="price lists what can")
