"""What the messages of a route cost on the path classes of a group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, assert_never

from colltool.base.arrays import anywhere, first_by, least, pick, record_at, taken
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
    log2_ceil,
)
from colltool.base.result import Same
from colltool.estimate.assumptions import Readings
from colltool.estimate.path_classes import (
    Flows,
    PathClass,
    PathClasses,
    at_most,
    everybody,
    leaving,
    one_alone,
    tree_flows,
)
from colltool.estimate.wired import TierNumbers


class LinkCost(NamedTuple):
    """A run of messages that all pay the same α and bandwidth; one term may have several.

    Args:
        tier, level: where they meet; the slowest of several classes.
        n_beta: in units of the term's payload.
        alpha_s: seconds per message, η (``eta_alpha``) included.
        bandwidth_Bps: without η.
        eta_beta: min(η_β, share).
        share: what oversubscription leaves of the bandwidth; 1 if it is not felt.
        crosses: messages cross an oversubscribed boundary at all.
        energy: J per bit of n_beta, averaged over the tiers crossed; None if those state none.
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
        return self.bandwidth_Bps * self.eta_beta

    @classmethod
    def on(
        cls,
        tier: TierNumbers,
        n_alpha: float,
        alpha_s: float,
        per_byte_s: float,
        *,
        level: str = "",
    ) -> LinkCost:
        """Messages that were put on links: n_β counts bytes over the tier's own bandwidth, slower
        or shared links for more.

        ``alpha_s``: seconds each, η included; ``per_byte_s``: seconds a byte of the payload.
        """
        return cls(
            tier=tier.name,
            level=level or tier.name,
            n_alpha=n_alpha,
            n_beta=per_byte_s * tier.bandwidth_Bps * tier.eta_beta,
            alpha_s=alpha_s,
            eta_alpha=tier.eta_alpha,
            bandwidth_Bps=tier.bandwidth_Bps,
            eta_beta=tier.eta_beta,
        )


def link_costs(terms: Terms, reach: PathClasses, readings: Readings) -> list[LinkCost]:
    """The cost of one term on a group: at least one run of messages, nearest class first."""
    if reach.wired is not None:
        # numpy, which other prices do without
        from colltool.estimate.routed_cost import routed_costs

        return routed_costs(terms, reach, readings)
    match terms.route:
        case Ring() as route:
            if route.via in ("outermost", "innermost"):
                return [
                    _at(
                        _edge_level(reach, route.via), terms.n_alpha, terms.n_beta, reach, everybody
                    )
                ]
            return [
                _walk(
                    reach.hops, terms, reach, route, readings, worst=readings.ring_alpha == "worst"
                )
            ]
        # an open ring: of the farthest class it crosses one edge less than a closed one
        case Chain() as route:
            *near, (far, hops) = reach.hops
            return [
                _walk([*near, (far, hops - 1)] if hops > 1 else near, terms, reach, route, readings)
            ]
        case Trees() as route:  # α along the path from leaf to root; bandwidth of the slowest class
            flows, heights = tree_flows(terms, reach.ranks, route), range(log2_ceil(reach.ranks))
            lanes = [
                (_slowest(reach.met(1 << k, reach.block(2 << k)), 0, 0, reach, flows), 1)
                for k in heights
            ]
            # a level has half the edges of the one below
            edges = [(lane.energy, 0.5**k) for k, (lane, _) in enumerate(lanes)]
            return [_blend(lanes, terms.n_alpha, terms.n_beta)._replace(energy=mean_energy(edges))]
        case Rounds() as route:
            return _rounds(route, reach)
        case Peers() as route:
            return _peers(route, terms, reach)
        case AllPeers() as route:
            return [_all_peers(route, terms, reach)]
        case Pair():
            return [
                _scaled(
                    _at(reach.top(), terms.n_alpha, terms.n_beta, reach, one_alone), 1 / reach.ranks
                )
            ]
        # a server's port, or a rank's where there are many servers; every rank sends M and takes M
        case Servers():
            return [
                _scaled(
                    _at(reach.top(), terms.n_alpha, terms.n_beta, reach, one_alone),
                    2 / terms.n_beta,
                )
            ]
        case Dealt():
            raise ColltoolError("shards are dealt out between domains of different sizes alone")
        case Links():
            return [_at(reach.levels[0], terms.n_alpha, terms.n_beta, reach, one_alone)]
        # every rank sends at once, so oversubscription caps the bandwidth; n_α counts the switch
        # levels
        case Switch() as route:
            top, hardware = reach.top(), reach.in_switch
            assert hardware is not None  # the requirement switch_can let nobody else in
            share = top.share(everybody)
            beta = least(hardware.own_eta.get(route.does, top.eta_beta), share)
            return [
                _cost(top, terms.n_alpha, terms.n_beta, hardware.alpha_s, beta=beta, share=share)
            ]
        case _:
            assert_never(terms.route)


def _at(
    level: PathClass, n_alpha: float, n_beta: float, reach: PathClasses, flows: Flows
) -> LinkCost:
    """Messages within one class, ``flows(g)`` of them leaving a domain of g at once (all if
    scattered).

    β is min(η_β, share), so contention and oversubscription are never counted twice.
    """
    share = level.share(everybody if reach.scattered else flows)
    return _cost(
        level, n_alpha, n_beta, level.alpha_s, beta=least(level.eta_beta, share), share=share
    )


def _slowest(
    met: Sequence[PathClass], n_alpha: float, n_beta: float, reach: PathClasses, flows: Flows
) -> LinkCost:
    """Pairs that meet in several classes at once: the longest α, the lowest bandwidth."""
    costs = [_at(level, n_alpha, n_beta, reach, flows) for level in met]
    if len(costs) == 1:
        return costs[0]
    slowest = pick(costs, lambda c: c.effective_Bps)
    return _latest(costs, slowest)._replace(crosses=any(one.crosses for one in costs))


def _latest(costs: Sequence[LinkCost], carrying: LinkCost) -> LinkCost:
    """``carrying``, but with the longest α."""
    latest = pick(costs, lambda c: c.alpha_s, most=True)
    return carrying._replace(alpha_s=latest.alpha_s, eta_alpha=latest.eta_alpha)


def _cost(
    level: PathClass, n_alpha: float, n_beta: float, alpha_s: float, *, beta: float, share: float
) -> LinkCost:
    """``alpha_s`` is before contention."""
    return LinkCost(
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


def _scaled(one: LinkCost, share: float) -> LinkCost:
    return one if one.energy is None else one._replace(energy=one.energy * share)


def _blend(
    costs: Sequence[tuple[LinkCost, float]], n_alpha: float, n_beta: float, *, worst: bool = False
) -> LinkCost:
    """Messages over several classes at once, weighted: the mean (or worst) α, the lowest
    bandwidth."""
    met = [c for c, _ in costs]
    energy = mean_energy([(c.energy, w) for c, w in costs])
    blend = pick(met, lambda c: c.effective_Bps)._replace(
        n_alpha=n_alpha, n_beta=n_beta, energy=energy
    )
    blend = blend._replace(crosses=any(c.crosses for c in met))
    if worst:
        return _latest(met, blend)
    weight = sum(w for _, w in costs)
    alpha = sum(c.alpha_s * w for c, w in costs) / weight
    return blend._replace(
        alpha_s=alpha, eta_alpha=alpha * weight / sum(c.alpha_s / c.eta_alpha * w for c, w in costs)
    )


def _walk(
    hops: Sequence[tuple[PathClass, int]],
    terms: Terms,
    reach: PathClasses,
    route: Ring | Chain,
    readings: Readings,
    *,
    worst: bool = False,
) -> LinkCost:
    """A walk from rank to rank with so many hops in each class.

    Over rails as many walks run at once as a domain has NICs. Outside, each has its own NIC.
    Inside, dedicated links give each its own path (paths through all ranks, one from each, share a
    full mesh evenly); otherwise all share one port.
    """
    inner = reach.levels[0].tier
    nics = (
        max(level.span for level in reach.levels if level.tier == inner)
        if route.via == "rails"
        else 1
    )
    lanes: list[tuple[LinkCost, float]] = []
    for level, count in hops:
        lane = _at(level, 0, 0, reach, at_most(nics))
        apart = nics if level.tier != inner or (level.dedicated and readings.ports == "all") else 1
        lanes.append((lane._replace(bandwidth_Bps=lane.bandwidth_Bps * apart), count))
    # over all links of a full mesh n_β is one link's; a rank's others carry as much
    return _scaled(
        _blend(lanes, terms.n_alpha, terms.n_beta, worst=worst),
        reach.ranks - 1 if route.via == "links" else 1,
    )


def _edge_level(reach: PathClasses, via: str) -> PathClass:
    inner = reach.levels[0].tier
    return (
        reach.levels[-1]
        if via == "outermost"
        else [level for level in reach.levels if level.tier == inner][-1]
    )


def _rounds(route: Rounds, reach: PathClasses) -> list[LinkCost]:
    """Every round pays its slowest pair; neighbouring rounds that cost the same are merged."""
    costs = []
    for stride, load in route.steps:
        # folded pairs are twice as far apart, and shift the blocks of all others
        straddles = route.partner == "shift" or route.folded % (2 * stride)
        level = (
            reach.top() if straddles else reach.block(4 * stride if route.folded else 2 * stride)
        )
        swapped = at_most(2 * stride) if route.folded else everybody
        flows = {"xor": swapped, "shift": leaving(stride, reach.ranks), "fanout": one_alone}[
            route.partner
        ]
        apart = min(stride, reach.ranks - stride) if route.partner == "shift" else stride
        one = _slowest(reach.met(apart, level), 1, load, reach, flows)
        if route.partner == "shift":
            one = one._replace(energy=_shift_energy(apart, reach))
        elif route.partner == "fanout":  # one in every block of 2·stride ranks sends
            one = _scaled(one, 1 / (2 * stride))
        costs.append(one)
    return merged(costs)


def merged(costs: Sequence[LinkCost]) -> list[LinkCost]:
    """Neighbouring rounds that cost the same as one run."""
    found = []
    for _, run in groupby(
        costs, key=lambda c: (c.tier, c.level, Same(c.eta_beta), Same(c.alpha_s), c.energy)
    ):
        alike = list(run)
        found.append(alike[0]._replace(n_alpha=len(alike), n_beta=sum(c.n_beta for c in alike)))
    return found


def _peers(route: Peers, terms: Terms, reach: PathClasses) -> list[LinkCost]:
    """The messages of the rank with the farthest peers; the bytes of the rank whose ports and
    uplinks take longest."""
    if route.via != "packed":
        edge = _edge_level(reach, route.via)
        return [_at(edge, terms.n_alpha, terms.n_beta * edge.crowd, reach, everybody)]
    per_peer = terms.n_beta / terms.n_alpha
    views = [
        [_at(level, count, count * per_peer, reach, view.flows) for level, count in view.peers]
        for view in reach.views
    ]
    slowest = first_by([sum(c.n_beta / c.effective_Bps for c in seen) for seen in views], most=True)
    farthest = first_by([sum(c.n_alpha * c.alpha_s for c in seen) for seen in views], most=True)
    met = [{(c.tier, c.level): c for c in seen} for seen in views]
    anybody = {place: c for seen in reversed(met) for place, c in seen.items()}
    costs = []
    for place in dict.fromkeys(place for seen in met for place in seen):
        mine = [seen.get(place, anybody[place]._replace(n_alpha=0, n_beta=0)) for seen in met]
        messages, carried = taken(farthest, [c.n_alpha for c in mine]), record_at(slowest, mine)
        if anywhere(messages + carried.n_beta > 0):
            costs.append(carried._replace(n_alpha=messages))
    return costs


def _all_peers(route: AllPeers, terms: Terms, reach: PathClasses) -> LinkCost:
    """One α, the longest, plus the other posts; the busiest of all ports, links and boundaries sets
    the bandwidth term.

    A link between two domains carries a message to each rank of the other: as many as a rank has in
    its own.
    """
    lanes = []
    for peers, flows in reach.views:
        own = 1
        for index, (level, count) in enumerate(peers):
            beyond = [more for other, more in peers[index:] if other.tier == level.tier]
            messages = own if level.dedicated else sum(beyond)
            lanes.append(
                _at(level.at_once(messages), terms.n_alpha, route.per_peer * messages, reach, flows)
            )
            own += count
    busiest = pick(lanes, lambda c: c.n_beta / c.effective_Bps, most=True)
    peers = reach.views[0].peers
    waited = _latest(lanes, busiest)
    posts = sum(level.post_s * count for level, count in peers) - peers[-1][0].post_s
    sent = mean_energy([(level.energy, count) for level, count in peers])
    per_load = None if sent is None else sent * route.per_peer * (reach.ranks - 1) / busiest.n_beta
    return waited._replace(alpha_s=waited.alpha_s + posts * waited.eta_alpha, energy=per_load)


def mean_energy(parts: Sequence[tuple[float | None, float]]) -> float | None:
    """J per bit, weighted by part; tiers without energy count as zero, None if all lack it."""
    known = [energy * part for energy, part in parts if energy is not None]
    return sum(known) / sum(part for _, part in parts) if known else None


def _shift_energy(far: int, reach: PathClasses) -> float | None:
    """J per bit if every rank sends to one ``far`` away: min(far, span) messages leave each
    domain."""
    parts, left = [], 1.0
    for level in reach.used:
        beyond = min(1.0, far / level.span) if level.span < reach.ranks else 0.0
        parts.append((level.energy, left - beyond))
        left = beyond
    return mean_energy(parts)
