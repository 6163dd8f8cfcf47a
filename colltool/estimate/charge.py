"""From terms to charges: what the messages of a route pay on a reach.

A :class:`Charge` is a run of messages that all pay the same α and bandwidth. One term may make several, because its rounds or
peers fall in several distance classes.
"""

from collections.abc import Sequence
from functools import singledispatch
from itertools import groupby
from typing import NamedTuple

from colltool.base.arrays import anywhere, first_by, least, pick, record_at, taken
from colltool.base.cost import AllPeers, Chain, Links, Pair, Peers, Ring, Rounds, Route, Servers, Switch, Terms, Trees
from colltool.base.primitives import log2_ceil
from colltool.base.result import Same
from colltool.estimate.distances import Flows, Level, Reach
from colltool.estimate.flows import at_most, everybody, leaving, one_alone, tree_flows
from colltool.estimate.readings import Readings
from colltool.estimate.spent import mean_energy, part_of, round_energy, walk_energy


class Charge(NamedTuple):
    """A run of equal messages.

    Args:
        tier, level: where they meet (several classes: the slowest).
        n_alpha, n_beta: counts; n_beta in units of the term's payload.
        alpha_s: seconds per message, η included.
        eta_alpha: the inflation within it.
        bandwidth_Bps: without η.
        eta_beta: what survives of it: min(η_β, share).
        share: what oversubscription leaves of it, 1 where it is not felt.
        crosses: whether messages cross an oversubscribed boundary at all.
        energy: J for a bit of n_beta, the mean of the tiers that the bytes go over; None where those give none.
    """

    tier: str
    level: str
    n_alpha: float
    n_beta: float
    alpha_s: float
    eta_alpha: float
    bandwidth_Bps: float
    eta_beta: float
    share: float = 1.0
    crosses: bool = False
    energy: float | None = None

    @property
    def effective_Bps(self) -> float:
        """The bandwidth that divides the bytes."""
        return self.bandwidth_Bps * self.eta_beta


def charge(terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """What one term pays on a reach: at least one charge, nearest class first."""
    return _charge(terms.route, terms, reach, readings)


@singledispatch
def _charge(route: Route, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    raise TypeError(f"no route {route!r}")


def _at(level: Level, n_alpha: float, n_beta: float, reach: Reach, flows: Flows) -> Charge:
    """A charge within one class, with ``flows(g)`` messages leaving a domain of g at once; all, where scattered.

    β is min(η_β, share): contention and oversubscription are never charged twice.
    """
    count = everybody if reach.scattered else flows
    share = level.share(count)
    return _charged(level, n_alpha, n_beta, level.alpha_s, beta=least(level.eta_beta, share), share=share)


def _slowest(met: Sequence[Level], n_alpha: float, n_beta: float, reach: Reach, flows: Flows) -> Charge:
    """A charge for pairs that meet in several classes at once, the farthest first: the longest α, the least bandwidth."""
    charges = [_at(level, n_alpha, n_beta, reach, flows) for level in met]
    if len(charges) == 1:
        return charges[0]
    slowest = pick(charges, lambda c: c.effective_Bps)
    return _latest(charges, slowest)._replace(crosses=any(one.crosses for one in charges))


def _latest(charges: Sequence[Charge], carrying: Charge) -> Charge:
    """A charge that waits for the longest α of several."""
    latest = pick(charges, lambda c: c.alpha_s, most=True)
    return carrying._replace(alpha_s=latest.alpha_s, eta_alpha=latest.eta_alpha)


def _charged(level: Level, n_alpha: float, n_beta: float, alpha_s: float, *, beta: float, share: float) -> Charge:
    """A charge at the level's latency contention and bandwidth; ``alpha_s`` before contention."""
    return Charge(
        tier=level.tier,
        level=level.name,
        n_alpha=n_alpha,
        n_beta=n_beta,
        alpha_s=alpha_s * level.eta_alpha,
        eta_alpha=level.eta_alpha,
        bandwidth_Bps=level.bandwidth_Bps,
        eta_beta=beta,
        share=share,
        crosses=bool(level.thinned),
        energy=level.energy,
    )


def _blend(charges: Sequence[tuple[Charge, float]], n_alpha: float, n_beta: float, *, worst: bool = False) -> Charge:
    """One charge for messages that flow through several classes at once: the mean (or worst) α, the slowest bandwidth.

    ``charges`` carry the weight of each class.
    """
    slowest = pick([c for c, _ in charges], lambda c: c.effective_Bps)
    if worst:
        farthest = pick([c for c, _ in charges], lambda c: c.alpha_s, most=True)
        alpha, eta = farthest.alpha_s, farthest.eta_alpha
    else:
        weight = sum(w for _, w in charges)
        alpha = sum(c.alpha_s * w for c, w in charges) / weight
        eta = alpha * weight / sum(c.alpha_s / c.eta_alpha * w for c, w in charges)
    return slowest._replace(
        n_alpha=n_alpha,
        n_beta=n_beta,
        alpha_s=alpha,
        eta_alpha=eta,
        crosses=any(c.crosses for c, _ in charges),
        energy=mean_energy([(c.energy, w) for c, w in charges]),
    )


@_charge.register
def _ring(route: Ring, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    if route.via in ("outermost", "innermost"):
        return [_at(_edge_level(reach, route.via), terms.n_alpha, terms.n_beta, reach, everybody)]
    lanes = _lanes(reach.hops(), reach, route, readings)
    one = _blend(lanes, terms.n_alpha, terms.n_beta, worst=readings.ring_alpha == "worst")
    return [one._replace(energy=walk_energy(route, reach, one.energy))]


def _lanes(
    hops: Sequence[tuple[Level, int]], reach: Reach, route: Ring | Chain, readings: Readings
) -> list[tuple[Charge, float]]:
    """What a walk from rank to rank pays on each level, with its hops there.

    Over rails as many walks go at once as a domain has NICs: outside each by its own NIC, inside over links of their own where
    pairs have any, for paths through all ranks, one from each, share the links of a full mesh out evenly; else over one port.
    """
    inner = reach.levels[0].tier
    nics = max(level.span for level in reach.levels if level.tier == inner) if route.via == "rails" else 1
    lanes: list[tuple[Charge, float]] = []
    for level, count in hops:
        lane = _at(level, 0, 0, reach, at_most(nics))
        apart = nics if level.tier != inner or (level.dedicated and readings.ports == "all") else 1
        lanes.append((lane._replace(bandwidth_Bps=lane.bandwidth_Bps * apart), count))
    return lanes


def _edge_level(reach: Reach, via: str) -> Level:
    """The top class of the outermost or of the innermost tier."""
    inner = reach.levels[0].tier
    return reach.levels[-1] if via == "outermost" else [level for level in reach.levels if level.tier == inner][-1]


@_charge.register
def _chain(route: Chain, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """An open ring: of the farthest class it crosses one edge less than a closed one."""
    *near, (far, hops) = reach.hops()
    counts = [*near, (far, hops - 1)] if hops > 1 else near
    one = _blend(_lanes(counts, reach, route, readings), terms.n_alpha, terms.n_beta)
    return [one._replace(energy=walk_energy(route, reach, one.energy))]


@_charge.register
def _trees(route: Trees, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """α along the path from leaf to root; bandwidth of the slowest class, with the trees' own edges counted as flows."""
    lanes = []
    flows = tree_flows(terms, reach.ranks, route)
    for k in range(log2_ceil(reach.ranks)):
        lanes.append((_slowest(reach.met(1 << k, reach.block(2 << k)), 0, 0, reach, flows), 1))
    edges = [(lane.energy, 0.5**k) for k, (lane, _) in enumerate(lanes)]  # every level has half the edges of the one below
    return [_blend(lanes, terms.n_alpha, terms.n_beta)._replace(energy=mean_energy(edges))]


@_charge.register
def _rounds(route: Rounds, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """Every round pays its slowest pair; neighbouring rounds of one class, share and α are merged."""
    charges = []
    for stride, load in route.steps:
        level = reach.top() if route.partner == "shift" else _met(stride, route.folded, reach)
        swapped = at_most(2 * stride) if route.folded else everybody
        flows = {"xor": swapped, "shift": leaving(stride, reach.ranks), "fanout": one_alone}[route.partner]
        apart = min(stride, reach.ranks - stride) if route.partner == "shift" else stride
        one = _slowest(reach.met(apart, level), 1, load, reach, flows)
        charges.append(one._replace(energy=round_energy(route, stride, reach, one.energy)))
    merged = []
    for _, run in groupby(charges, key=lambda c: (c.tier, c.level, Same(c.eta_beta), Same(c.alpha_s), c.energy)):
        alike = list(run)
        merged.append(alike[0]._replace(n_alpha=len(alike), n_beta=sum(c.n_beta for c in alike)))
    return merged


def _met(stride: int, folded: int, reach: Reach) -> Level:
    """Where partners at a stride meet. Folded pairs are twice as far apart, and shift the blocks of all others behind them."""
    if folded % (2 * stride):
        return reach.top()
    return reach.block(4 * stride if folded else 2 * stride)


@_charge.register
def _peers(route: Peers, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """The messages of the rank with the farthest peers; the bytes of the rank whose ports and uplinks need longest."""
    if route.via != "packed":
        edge = _edge_level(reach, route.via)
        return [_at(edge, terms.n_alpha, terms.n_beta * edge.crowd, reach, everybody)]
    per_peer = terms.n_beta / terms.n_alpha
    views = [[_at(level, count, count * per_peer, reach, view.flows) for level, count in view.peers] for view in reach.views()]
    slowest = first_by([sum(c.n_beta / c.effective_Bps for c in seen) for seen in views], most=True)
    farthest = first_by([sum(c.n_alpha * c.alpha_s for c in seen) for seen in views], most=True)
    met = [{(c.tier, c.level): c for c in seen} for seen in views]
    places = dict.fromkeys(place for seen in met for place in seen)
    charges = []
    for place in places:
        somebody = next(seen[place] for seen in met if place in seen)
        absent = somebody._replace(n_alpha=0, n_beta=0)
        mine = [seen.get(place, absent) for seen in met]
        messages = taken(farthest, [c.n_alpha for c in mine])
        carried = record_at(slowest, mine)
        if anywhere(messages + carried.n_beta > 0):
            charges.append(carried._replace(n_alpha=messages))
    return charges


@_charge.register
def _all_peers(route: AllPeers, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """One α, the longest, and what the other posts take; the busiest of all ports, links and boundaries sets the time.

    A link between two domains carries a message to each rank of the other one: as many as a rank has in its own.
    """
    lanes = []
    for peers, flows in reach.views():
        own = 1
        for index, (level, count) in enumerate(peers):
            beyond = [more for other, more in peers[index:] if other.tier == level.tier]
            lanes.append(_at(level, terms.n_alpha, route.per_peer * (own if level.dedicated else sum(beyond)), reach, flows))
            own += count
    busiest = pick(lanes, lambda c: c.n_beta / c.effective_Bps, most=True)
    peers = reach.views()[0].peers
    waited = _latest(lanes, busiest)
    posts = sum(level.post_s * count for level, count in peers) - peers[-1][0].post_s
    sent = mean_energy([(level.energy, count) for level, count in peers])
    per_load = None if sent is None else sent * route.per_peer * (reach.ranks - 1) / busiest.n_beta
    return [waited._replace(alpha_s=waited.alpha_s + posts * waited.eta_alpha, energy=per_load)]


@_charge.register
def _pair(route: Pair, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    one = _at(reach.top(), terms.n_alpha, terms.n_beta, reach, one_alone)
    return [one._replace(energy=part_of(one.energy, 1 / reach.ranks))]


@_charge.register
def _servers(route: Servers, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """A server's port, or a rank's where there are many servers; every rank sends M and takes M."""
    one = _at(reach.top(), terms.n_alpha, terms.n_beta, reach, one_alone)
    return [one._replace(energy=part_of(one.energy, 2 / terms.n_beta))]


@_charge.register
def _links(route: Links, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    return [_at(reach.levels[0], terms.n_alpha, terms.n_beta, reach, one_alone)]


@_charge.register
def _switch(route: Switch, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """Every rank sends at once, so oversubscription caps the bandwidth; n_α is already times the levels."""
    top, hardware = reach.top(), reach.in_switch
    assert hardware is not None  # the requirement switch_can let nobody else in
    share = top.share(everybody)
    beta = least(hardware.own_eta.get(route.does, top.eta_beta), share)
    return [_charged(top, terms.n_alpha, terms.n_beta, hardware.alpha_s, beta=beta, share=share)]
