"""What a route costs where messages are routed link by link: a step's messages are put on links,
the busiest counts.

A formula's terms say how often who sends to whom; steps that repeat are counted once. Loads are
linear in the size, so that a price stays a + b·M. Contention scales each tier's latency and
bandwidth, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, assert_never

import numpy as np

from colltool.algorithms.executor import Network
from colltool.algorithms.trees import edges_of, two_trees, two_trees_under_one_root
from colltool.algorithms.uneven import rail_trees, walks_over_rails
from colltool.base.errors import ColltoolError
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Dealt,
    Links,
    Pair,
    Peers,
    Ring,
    Rounds,
    Servers,
    Switch,
    Terms,
    Trees,
)
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import spread_inside
from colltool.estimate.link_cost import LinkCost, merged
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.wired import WiredTiers, stands_at_nodes
from colltool.network.arrays import Floats, Indices
from colltool.network.dragonfly import gateway_order
from colltool.network.wires import DragonflyWires


class Sends(NamedTuple):
    """Messages that leave together: ranks, and bytes in units of the payload."""

    src: Indices
    dst: Indices
    size: Floats


class Carried(NamedTuple):
    """What a step takes: seconds of latency, mean and longest; seconds per byte of payload; the
    tier that sets these; J/bit."""

    mean_s: float
    longest_s: float
    per_byte_s: float
    tier: int
    energy: float | None


def routed_costs(terms: Terms, reach: PathClasses, readings: Readings) -> list[LinkCost]:
    """The cost of one term on a group whose tiers are routed, worked out once."""
    wired = reach.wired
    assert wired is not None  # who calls this asked
    worst, route = readings.ring_alpha == "worst", terms.route
    rails = (isinstance(route, Ring | Chain) and route.via == "rails") or (
        isinstance(route, Trees) and route.rails
    )
    # the others cost the same on one port
    spread = rails and spread_inside(wired.seats[0].tier, readings)
    # routes are tuples: a ring and a chain of the same numbers are equal, and 8 is 8.0
    key = repr(terms), worst, spread
    if key not in wired.costs:
        wired.costs[key] = tuple(_routed_costs(terms, wired, worst=worst, spread=spread))
    return list(wired.costs[key])


def _routed_costs(terms: Terms, wired: WiredTiers, *, worst: bool, spread: bool) -> list[LinkCost]:
    ranks, route = wired.ranks, terms.route
    carried = partial(_carried, wired)
    match route:
        case Ring() | Chain():
            each = terms.n_beta / terms.n_alpha if isinstance(route, Ring) else terms.n_beta
            traffic = _around(ranks, each, wired, route, spread=spread)
            if isinstance(route, Chain):
                return [_cost(terms, _times(carried(traffic), 1, worst=worst), wired)]
            return [_cost(terms, _times(carried(traffic), terms.n_alpha, worst=worst), wired)]
        case Trees():
            return [_cost(terms, _trees(route, ranks, wired, spread=spread), wired)]
        case Rounds():
            return merged(
                [_cost(one, carried(sent), wired) for one, sent in _rounds(terms, route, ranks)]
            )
        case Peers():
            return [_cost(terms, _scaled(_to_each(wired), terms.n_beta / terms.n_alpha), wired)]
        case AllPeers():
            return [_posted(_cost(terms, _scaled(_to_all(wired), route.per_peer), wired), wired)]
        case Dealt():
            return [_posted(_cost(terms, _dealt(wired), wired), wired)]
        case Pair():
            return [_cost(terms, _farthest(ranks, terms.n_beta, wired), wired)]
        case Links(sends=()):
            return [_cost(terms, _over_links(terms, wired), wired)]
        case Links():
            src, dst, size = map(np.array, zip(*route.sends, strict=True))
            return [_cost(terms, carried(Sends(src, dst, size)), wired)]
        case Switch() | Servers():
            raise ColltoolError(
                f"{type(route).__name__} does not run where messages are routed link by link"
            )
        case _:
            assert_never(route)


def _ahead(ranks: int, apart: int, size: float) -> Sends:
    rank = np.arange(ranks)
    return Sends(rank, (rank + apart) % ranks, np.full(ranks, size))


@lru_cache(maxsize=4)
def _to_each(wired: WiredTiers) -> Carried:
    """A byte to every peer, one after the other."""
    steps = (_ahead(wired.ranks, k, 1.0) for k in range(1, wired.ranks))
    return (
        _unwaited(wired, steps) if wired.uneven else _sum([_carried(wired, sent) for sent in steps])
    )


def _unwaited(wired: WiredTiers, steps: Iterable[Sends]) -> Carried:
    """Steps in which nobody waits for another pair, as between even domains: a rank is done when
    its own messages are.

    α of the rank that is latest; of each distance class, nearest first, the busiest of all ports
    and uplinks.
    """
    waited, energies, loads = np.zeros(wired.ranks), 0.0, dict[tuple[int, float], Floats]()
    for sent in steps:
        on, took = wired.on(sent.src, sent.dst), wired.latency(sent.src, sent.dst)
        waited[sent.src] += took
        energies += _energy(wired, sent) or 0.0
        for tier in np.unique(on).tolist():
            for alpha_s in np.unique(took[on == tier]).tolist():
                here = (on == tier) & (took == alpha_s)
                loads[tier, alpha_s] = loads.get((tier, alpha_s), 0.0) + wired.loads(
                    *(part[here] for part in sent)
                )
    seconds = {one: float(load.max()) for one, load in loads.items()}
    alpha_s, slowest = (
        float(waited.max()) / (wired.ranks - 1),
        max(seconds, key=seconds.__getitem__),
    )
    known = any(one.energy is not None for one in wired.numbers)
    return Carried(alpha_s, alpha_s, sum(seconds.values()), slowest[0], energies if known else None)


def _scaled(one: Carried, size: float) -> Carried:
    return one._replace(
        per_byte_s=one.per_byte_s * size, energy=None if one.energy is None else one.energy * size
    )


def _first(sent: Sends, count: int) -> Sends:
    return Sends(sent.src[:count], sent.dst[:count], sent.size[:count])


@lru_cache(maxsize=4)
def _to_all(wired: WiredTiers) -> Carried:
    """A byte to every peer, all at once; where ranks stand at switches summed by these, α of the
    last rank's longest way.

    Domains and axes are filled in order: none is farther from another rank than the last from some.
    """
    if stands_at_nodes(wired.seats):
        others = np.arange(wired.ranks - 1)
        alpha_s = float(wired.latency(0 * others + wired.ranks - 1, others).max())
        seconds = wired.to_all()
        slowest = max(range(len(seconds)), key=seconds.__getitem__)
        return Carried(alpha_s, alpha_s, seconds[slowest], slowest, _energy_of_all(wired))
    src, dst = np.nonzero(~np.eye(wired.ranks, dtype=bool))
    return _carried(wired, Sends(src, dst, np.ones(len(src))))


def _dealt(wired: WiredTiers) -> Carried:
    """α of a message across and of one inside; bytes of both at once."""
    own = np.repeat(wired.domains, wired.domains)  # ranks in the domain of each
    domain = np.repeat(np.arange(len(wired.domains)), wired.domains)
    src, dst = np.nonzero(~np.eye(wired.ranks, dtype=bool))
    inside, each = domain[src] == domain[dst], 1 / own[dst] / wired.ranks
    # its own, and a part of what all others outside have
    size = np.where(inside, wired.ranks * each, each)
    took = wired.latency(src, dst)
    mean = sum(float(took[some].max(initial=0.0)) for some in (inside, ~inside)) / 2
    return _carried(wired, Sends(src, dst, size))._replace(mean_s=mean, longest_s=mean)


def _energy_of_all(wired: WiredTiers) -> float | None:
    """As :func:`_energy`, of a byte from every rank to every other."""
    if all(one.energy is None for one in wired.numbers):
        return None
    energy, inside = 0.0, 1
    for seat, numbers in zip(wired.seats, wired.numbers, strict=True):
        energy += wired.ranks * inside * (seat.endpoints - 1) * (numbers.energy or 0.0)
        inside *= seat.endpoints
    return energy


def _around(
    ranks: int, size: float, wired: WiredTiers, route: Ring | Chain, *, spread: bool
) -> Sends:
    """Every rank to the next one, a chain but for the last; over rails R walks that leave each
    domain by a rank of their own.

    R is the number of ranks in the smallest domain: NCCL takes the fewest channels that any node
    has (2.30, src/init.cc).
    """
    if route.via != "rails":
        order = np.arange(ranks)
        if route.via == "gateways":
            wires = wired.seats[0].wires
            assert isinstance(wires, DragonflyWires)  # several_groups let nobody else in
            order = np.array(gateway_order(wires))
        return _first(
            Sends(order, np.roll(order, -1), np.full(ranks, size)), ranks - isinstance(route, Chain)
        )
    # rank at each place of each walk
    walks = np.concatenate(walks_over_rails(wired.domains, spread=spread), axis=1)
    ends = walks, np.roll(walks, -1, axis=1)
    src, dst = (one[:, : ranks - isinstance(route, Chain)].ravel() for one in ends)
    return Sends(src, dst, np.full(len(src), size / len(walks)))


def _trees(route: Trees, ranks: int, wired: WiredTiers, *, spread: bool) -> Carried:
    """α along the way from a leaf to the root, a level at its slowest edge; bytes of all trees at
    once."""
    if route.rails:
        edges = rail_trees(wired.domains, spread=spread)
    else:
        edges = edges_of(two_trees(ranks) if route.both_ways else two_trees_under_one_root(ranks))
    child, parent = edges.child, edges.parent
    took, levels = wired.latency(child, parent), range(1, int(edges.depth.max()) + 1)
    mean = sum(float(took[edges.depth == level].max()) for level in levels) / len(levels)
    size = np.full(len(child), 1 / (int(edges.stream.max()) + 1))
    if route.both_ways:
        up_and_down = Sends(
            np.concatenate([child, parent]), np.concatenate([parent, child]), np.tile(size, 2)
        )
        carried = _carried(wired, up_and_down)
    else:  # a broadcast goes down and a reduction up: of the two what takes longer
        carried = max(
            (_carried(wired, Sends(*ends, size)) for ends in ((parent, child), (child, parent))),
            key=_per_byte,
        )
    return carried._replace(mean_s=mean, longest_s=mean)


def _per_byte(carried: Carried) -> float:
    return carried.per_byte_s


def _rounds(terms: Terms, route: Rounds, ranks: int) -> Iterator[tuple[Terms, Sends]]:
    kept = ranks - route.folded
    # for each that takes part
    stands = np.concatenate([2 * np.arange(route.folded) + 1, np.arange(2 * route.folded, ranks)])
    place = np.arange(kept)
    for stride, load in route.steps:
        match route.partner:
            case "xor":
                src, dst = place, place ^ stride
            case "shift":
                src, dst = place, (place + stride) % kept
            case "fanout":
                src = place[(place % (2 * stride) == 0) & (place + stride < kept)]
                dst = src + stride
            case _:
                assert_never(route.partner)
        yield (
            terms._replace(n_alpha=1, n_beta=load),
            Sends(stands[src], stands[dst], np.full(len(src), load)),
        )


def _over_links(terms: Terms, wired: WiredTiers) -> Carried:
    """Between neighbours, as the formula counts them; α of the slowest link."""
    wires, numbers = wired.seats[0].wires, wired.numbers[0]
    assert wires is not None  # what is routed has them
    alpha_s = wires.slowest_s * numbers.eta_alpha
    per_byte_s = terms.n_beta / (numbers.bandwidth_Bps * numbers.eta_beta)
    energy = None if numbers.energy is None else numbers.energy * wired.ranks * terms.n_beta
    return Carried(alpha_s, alpha_s, per_byte_s, 0, energy)


def _farthest(ranks: int, size: float, wired: WiredTiers) -> Carried:
    """One message from the first rank over the outermost tier: α of the longest way, bytes over the
    narrowest."""
    others = np.arange(1, ranks)
    on = wired.on(0 * others, others)
    far = others[on == on.max()]
    first = 0 * far
    longest = float(wired.latency(first, far).max())
    narrowest = far[np.argmax(wired.alone(first, far))]
    return _carried(wired, Sends(first[:1], np.array([narrowest]), np.array([size])))._replace(
        mean_s=longest, longest_s=longest
    )


def _carried(wired: WiredTiers, sent: Sends) -> Carried:
    took = wired.latency(sent.src, sent.dst)
    network: Network = wired.network
    loads, tier, worst = wired.loads(sent.src, sent.dst, sent.size), 0, 0.0
    at = 0
    for number, one in enumerate(network.tiers):
        width = sum(len(kind.exists) for kind in one.classes)
        busiest = float(loads[at : at + width].max(initial=0.0))
        tier, worst = (number, busiest) if busiest > worst else (tier, worst)
        at += width
    return Carried(float(took.mean()), float(took.max()), worst, tier, _energy(wired, sent))


def _energy(wired: WiredTiers, sent: Sends) -> float | None:
    """Σ over messages of bytes times J/bit of the tier they travel on."""
    if all(one.energy is None for one in wired.numbers):
        return None
    each = np.array([one.energy or 0.0 for one in wired.numbers])
    return float((each[wired.on(sent.src, sent.dst)] * sent.size).sum())


def _times(one: Carried, count: float, *, worst: bool) -> Carried:
    """The same step so often."""
    seconds = one.longest_s if worst else one.mean_s
    return _scaled(one, count)._replace(mean_s=seconds, longest_s=seconds)


def _sum(steps: Sequence[Carried]) -> Carried:
    """Steps one after the other; the tier is that of the longest."""
    took = sum(one.longest_s for one in steps) / len(steps)
    energies = [one.energy for one in steps if one.energy is not None]
    return Carried(
        mean_s=took,
        longest_s=took,
        per_byte_s=sum(one.per_byte_s for one in steps),
        tier=max(steps, key=lambda one: one.per_byte_s).tier,
        energy=sum(energies) if energies else None,
    )


def _cost(terms: Terms, carried: Carried, wired: WiredTiers) -> LinkCost:
    """As a run of messages."""
    cost = LinkCost.on(
        wired.numbers[carried.tier], terms.n_alpha, carried.longest_s, carried.per_byte_s
    )
    if carried.energy is None or not cost.n_beta:
        return cost
    return cost._replace(energy=carried.energy / (wired.ranks * cost.n_beta))


def _posted(one: LinkCost, wired: WiredTiers) -> LinkCost:
    """With what each further message takes that a rank posts at once."""
    return one._replace(alpha_s=one.alpha_s + wired.posts_s)
