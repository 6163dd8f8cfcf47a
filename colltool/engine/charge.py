"""From terms to charges: what the messages of a route pay on a reach.

A :class:`Charge` is a run of messages that all pay the same α and bandwidth. One term may make several, because its rounds or
peers fall in several distance classes.
"""

from collections.abc import Sequence
from functools import singledispatch
from itertools import groupby
from typing import NamedTuple

from colltool.algorithms.trees import edges_leaving
from colltool.cost import AllPeers, Chain, Links, Pair, Peers, Ring, Rounds, Route, Switch, Terms, Trees
from colltool.engine.reach import Level, Reach
from colltool.engine.readings import Readings
from colltool.primitives import log2_ceil


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


def _one(_endpoints: int) -> float:
    return 1.0


def _all(endpoints: int) -> float:
    return float(endpoints)


def _at(level: Level, n_alpha: float, n_beta: float, reach: Reach, flows: float | None) -> Charge:
    """A charge within one class; ``flows`` messages leave a domain at once, None for all of its endpoints."""
    count = _all if flows is None or reach.scattered else (lambda endpoints: min(flows, endpoints))
    beta, share = level.effective_beta(count), level.share(count)
    alpha = level.alpha_s * level.eta_alpha
    bandwidth = level.bandwidth_Bps
    return Charge(level.tier, level.name, n_alpha, n_beta, alpha, level.eta_alpha, bandwidth, beta, share, _crosses(level))


def _crosses(level: Level) -> bool:
    return any(boundary.oversubscription > 1 for boundary in level.boundaries)


def _blend(charges: Sequence[tuple[Charge, float]], n_alpha: float, n_beta: float, *, worst: bool = False) -> Charge:
    """One charge for messages that flow through several classes at once: the mean (or worst) α, the slowest bandwidth.

    ``charges`` carry the weight of each class.
    """
    slowest = min((c for c, _ in charges), key=lambda c: c.effective_Bps)
    if worst:
        alpha, eta = max((c.alpha_s, c.eta_alpha) for c, _ in charges)
    else:
        weight = sum(w for _, w in charges)
        alpha = sum(c.alpha_s * w for c, w in charges) / weight
        eta = alpha * weight / sum(c.alpha_s / c.eta_alpha * w for c, w in charges)
    crosses = any(c.crosses for c, _ in charges)
    return slowest._replace(n_alpha=n_alpha, n_beta=n_beta, alpha_s=alpha, eta_alpha=eta, crosses=crosses)


@_charge.register
def _ring(route: Ring, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    if route.via in ("outermost", "innermost"):
        return [_at(_edge_level(reach, route.via), terms.n_alpha, terms.n_beta, reach, None)]
    inner = reach.levels[0].tier
    rails = max(level.span for level in reach.levels if level.tier == inner) if route.via == "rails" else 1
    lanes = []
    for level, hops in reach.hops():
        lane = _at(level, terms.n_alpha, terms.n_beta, reach, rails)
        outside = rails if level.tier != inner else 1
        lanes.append((lane._replace(bandwidth_Bps=lane.bandwidth_Bps * outside), hops))
    return [_blend(lanes, terms.n_alpha, terms.n_beta, worst=readings.ring_alpha == "worst")]


def _edge_level(reach: Reach, via: str) -> Level:
    """The top class of the outermost or of the innermost tier."""
    inner = reach.levels[0].tier
    return reach.levels[-1] if via == "outermost" else [level for level in reach.levels if level.tier == inner][-1]


@_charge.register
def _chain(route: Chain, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """An open ring: of the farthest class it crosses one edge less than a closed one."""
    *near, (far, hops) = reach.hops()
    counts = [*near, (far, hops - 1)] if hops > 1 else near
    return [_blend([(_at(level, 0, 0, reach, 1), n) for level, n in counts], terms.n_alpha, terms.n_beta)]


@_charge.register
def _trees(route: Trees, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """α along the path from leaf to root; bandwidth of the slowest class, with the trees' own edges counted as flows."""
    lanes = []
    for k in range(log2_ceil(reach.ranks)):
        level = reach.block(2 << k)
        lanes.append((_at(level, 0, 0, reach, _tree_flows(level, terms, reach, route)), 1))
    return [_blend(lanes, terms.n_alpha, terms.n_beta)]


def _tree_flows(level: Level, terms: Terms, reach: Reach, route: Trees) -> float:
    """Edges that leave a domain, half a payload each, as a number of full flows of n_β·M."""
    if not _crosses(level):
        return 1.0
    edges = max(edges_leaving(reach.ranks, b.endpoints, both_ways=route.both_ways) for b in level.boundaries)
    return max(edges / 2 / terms.n_beta, 1e-9)


@_charge.register
def _rounds(route: Rounds, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """Every round pays its slowest pair; neighbouring rounds of one class and share are merged."""
    charges = []
    for stride, load in route.steps:
        level = reach.top() if route.partner == "shift" else reach.block(2 * stride)
        flows = {"xor": None, "shift": float(stride), "fanout": 1.0}[route.partner]
        charges.append(_at(level, 1, load, reach, flows))
    merged = []
    for _, run in groupby(charges, key=lambda c: (c.tier, c.level, c.eta_beta)):
        same = list(run)
        merged.append(same[0]._replace(n_alpha=len(same), n_beta=sum(c.n_beta for c in same)))
    return merged


@_charge.register
def _peers(route: Peers, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    if route.via != "packed":
        return [_at(_edge_level(reach, route.via), terms.n_alpha, terms.n_beta, reach, None)]
    per_peer = terms.n_beta / terms.n_alpha
    return [_at(level, count, count * per_peer, reach, None) for level, count in reach.peers()]


@_charge.register
def _all_peers(route: AllPeers, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """One α, of the farthest peer; the busiest of all ports and boundaries sets the time."""
    peers = reach.peers()
    farthest = _at(peers[-1][0], terms.n_alpha, 0, reach, None)
    lanes = []
    for index, (level, _) in enumerate(peers):
        beyond = [count for other, count in peers[index:] if other.tier == level.tier]
        load = route.per_peer * (1 if level.dedicated else sum(beyond))
        lanes.append(_at(level, terms.n_alpha, load, reach, None))
    busiest = max(lanes, key=lambda c: c.n_beta / c.effective_Bps)
    return [busiest._replace(alpha_s=farthest.alpha_s, eta_alpha=farthest.eta_alpha)]


@_charge.register
def _pair(route: Pair, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    return [_at(reach.top(), terms.n_alpha, terms.n_beta, reach, 1)]


@_charge.register
def _links(route: Links, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    return [_at(reach.levels[0], terms.n_alpha, terms.n_beta, reach, 1)]


@_charge.register
def _switch(route: Switch, terms: Terms, reach: Reach, readings: Readings) -> list[Charge]:
    """Every rank sends at once, so oversubscription caps the bandwidth; n_α is already times the levels."""
    top, hardware = reach.top(), reach.in_switch
    assert hardware is not None  # the requirement switch_can let nobody else in
    share = top.share(_all)
    beta = min(hardware.eta_beta if route.own_eta else top.eta_beta, share)
    alpha = hardware.alpha_s * top.eta_alpha
    n_alpha, n_beta, bandwidth = terms.n_alpha, terms.n_beta, top.bandwidth_Bps
    return [Charge(top.tier, top.name, n_alpha, n_beta, alpha, top.eta_alpha, bandwidth, beta, share, _crosses(top))]
