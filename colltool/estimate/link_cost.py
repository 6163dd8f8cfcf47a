"""Latency and bandwidth of a formula's messages on the path classes of a group.

:func:`link_costs` is the entry: it takes one term of a schedule and gives one or more
:class:`LinkCost`, by the term's route (ring, tree, rounds of pairs, peers, switches). Groups whose
messages are routed link by link go to :mod:`colltool.estimate.route_cache` instead.

A *level* is a path class: all pairs of ranks that are equally far apart, such as those of one leaf. A
*lane* is what a message pays in one class while others travel in other classes at the same time.
*Flows* say how many messages leave a domain at once and share its uplinks.

What is read of a group (:class:`~colltool.estimate.path_classes.PathClasses`) and of a class on it:

    levels, used     all classes, nearest first; those up to the first that joins the whole group
    top()            the last of ``used``
    block(n)         the class in which every aligned block of n ranks lies
    hops             (class, how many hops) of a ring through all ranks
    views            (peers by class, flows) of a rank in a full domain, then of one in the last if
                     that is smaller
    classes_between  (apart, far) the classes up to ``far`` in which pairs ``apart`` ranks from each
                     other meet, one for each tier
    in_switch        switches that reduce or multicast; None where there are none
    span             ranks in one domain of the class
    thinned          the oversubscribed uplinks that its messages cross; ``share`` says what these leave
    dedicated        every pair has a link of its own
    crowd            load of a lattice's busiest link in an all-to-all
    at_once(n)       the class for a rank that sends n messages at once, over several planes
    post_s           what a rank takes to post one more message

Any number may be an array, for many fabrics at once; functions of :mod:`colltool.base.arrays` then choose
element by element. ``pick(records, keys)`` is the record with the least key (``most``: the largest),
``first_by(keys)`` its index, ``record_at`` and ``values_at`` the record or number at an index, ``least``
the minimum, and ``anywhere`` whether a condition holds at any element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, assert_never

from colltool.base.arrays import anywhere, first_by, least, pick, record_at, values_at
from colltool.base.errors import ColltoolError
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Links,
    Pair,
    Peers,
    Ring,
    Rounds,
    Servers,
    ShardExchange,
    Switch,
    Terms,
    Trees,
    log2_ceil,
)
from colltool.base.result import same
from colltool.estimate.assumptions import ModelOptions
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

_CROSSES = attrgetter("crosses")  # LinkCost.crosses


class LinkCost(NamedTuple):
    """A run of messages that all pay the same α and bandwidth; one term may have several.

    Args:
        tier, level: of the class in which they meet; of several the slowest.
        n_alpha: messages one after the other.
        n_beta: in units of the term's payload.
        alpha_s: seconds per message, η (``eta_alpha``) included.
        bandwidth_Bps: without η.
        eta_beta: min(η_β, share).
        share: what oversubscription leaves of the bandwidth; 1 if it does not bind.
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
        """Bandwidth with contention and oversubscription, bytes per second."""
        return self.bandwidth_Bps * self.eta_beta

    @property
    def waited_s(self) -> float:
        """Latency of the whole run, seconds."""
        return self.n_alpha * self.alpha_s

    @property
    def per_byte_s(self) -> float:
        """Seconds per byte of the term's payload."""
        return self.n_beta / self.effective_Bps

    def with_energy_times(self, factor: float) -> LinkCost:
        """The same run with so many times the energy: less than 1 where only a share of the ranks
        sends what n_β counts, more where a rank sends it over several links at once."""
        return self if self.energy is None else self._replace(energy=self.energy * factor)

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


def link_costs(terms: Terms, paths: PathClasses, readings: ModelOptions) -> list[LinkCost]:
    """The cost of one term on a group: at least one run of messages, nearest class first."""
    if paths.wired is not None:
        # most prices do without routes
        from colltool.estimate.route_cache import routed_costs

        return routed_costs(terms, paths.wired, readings)

    def run_in(level: PathClass, flows: Flows) -> LinkCost:
        """All messages of the term in one class."""
        return _within_class(level, terms.n_alpha, terms.n_beta, paths, flows)

    match terms.route:
        case Ring(via="outermost" | "innermost") as route:
            return [run_in(_edge_level(paths, route.via), everybody)]
        case Ring() as route:
            worst = readings.ring_alpha == "worst"
            return [_along_hops(paths.hops, terms, paths, route, readings, worst=worst)]
        case Chain() as route:
            # an open ring: of the farthest class it crosses one edge less than a closed one
            *near, (far, hops) = paths.hops
            if hops > 1:
                near.append((far, hops - 1))
            return [_along_hops(near, terms, paths, route, readings)]
        case Trees() as route:
            return [_tree(route, terms, paths)]
        case Rounds() as route:
            return merged(_rounds(route, paths))
        case Peers() as route:
            return _peers(route, terms, paths)
        case AllPeers() as route:
            return [_all_peers(route, terms, paths)]
        case Pair():
            return [run_in(paths.top(), one_alone).with_energy_times(1 / paths.ranks)]
        case Servers():
            # The time is that of a server's port, or of a rank's where there are many servers; the
            # energy that of every rank, which sends M and takes M.
            return [run_in(paths.top(), one_alone).with_energy_times(2 / terms.n_beta)]
        case ShardExchange():
            # domains of different sizes have links, and were sent on above
            raise ColltoolError("shards are dealt out between domains of different sizes alone")
        case Links():
            return [run_in(paths.levels[0], one_alone)]
        case Switch() as route:
            return [_switch(route, terms, paths)]
        case _:
            assert_never(terms.route)


def _within_class(
    level: PathClass, n_alpha: float, n_beta: float, paths: PathClasses, flows: Flows
) -> LinkCost:
    """Messages within one class, ``flows(g)`` of them leaving a domain of g endpoints at once. Under
    scattered placement every endpoint's messages may leave it, whatever ``flows``.

    β is min(η_β, share), so contention and oversubscription are never counted twice: η_β of 0.8
    and uplinks for half of the messages leave 0.5.
    """
    share = 1.0
    eta_beta = level.eta_beta
    if level.thinned:
        share = level.share(everybody if paths.scattered else flows)
        eta_beta = least(eta_beta, share)
    return _link_cost(level, n_alpha, n_beta, level.alpha_s, eta_beta=eta_beta, share=share)


def _slowest(
    classes: Sequence[PathClass], load: float, paths: PathClasses, flows: Flows
) -> LinkCost:
    """One message of pairs that meet in several classes at once: the longest α, the lowest
    bandwidth."""
    if len(classes) == 1:
        return _within_class(classes[0], 1, load, paths, flows)
    costs = [_within_class(level, 1, load, paths, flows) for level in classes]
    slowest = pick(costs, [cost.effective_Bps for cost in costs])
    return _latest(costs, slowest)._replace(crosses=any(map(_CROSSES, costs)))


def _latest(costs: Sequence[LinkCost], carrying: LinkCost) -> LinkCost:
    """``carrying``, one of the costs or like them, but with the longest α among them."""
    latest = pick(costs, [cost.alpha_s for cost in costs], most=True)
    return carrying._replace(alpha_s=latest.alpha_s, eta_alpha=latest.eta_alpha)


def _link_cost(
    level: PathClass,
    n_alpha: float,
    n_beta: float,
    alpha_s: float,
    *,
    eta_beta: float,
    share: float,
) -> LinkCost:
    """Messages in one class; ``alpha_s`` is a message's, without η, which is put on it here."""
    return LinkCost(
        tier=level.tier,
        level=level.name,
        n_alpha=n_alpha,
        n_beta=n_beta,
        alpha_s=alpha_s * level.eta_alpha,
        eta_alpha=level.eta_alpha,
        bandwidth_Bps=level.bandwidth_Bps,
        eta_beta=eta_beta,
        share=share,
        crosses=bool(level.thinned),
        energy=level.energy,
    )


def _blend(
    lanes: Sequence[tuple[LinkCost, float]], terms: Terms, *, worst: bool = False
) -> LinkCost:
    """A term's messages over several classes at once: the mean α over messages, or the longest
    (``worst``), and the lowest bandwidth. ``lanes``: the cost in each class, and how many of the
    messages travel in it."""
    costs = [cost for cost, _ in lanes]
    blend = pick(costs, [cost.effective_Bps for cost in costs])._replace(
        n_alpha=terms.n_alpha,
        n_beta=terms.n_beta,
        energy=mean_energy([(cost.energy, weight) for cost, weight in lanes]),
        crosses=any(map(_CROSSES, costs)),
    )
    if worst:
        return _latest(costs, blend)
    weights: float = 0
    waited_s = 0.0
    without_eta_s = 0.0
    for cost, weight in lanes:
        weights += weight
        waited_s += cost.alpha_s * weight
        without_eta_s += cost.alpha_s / cost.eta_alpha * weight
    alpha_s = waited_s / weights
    # the mean's η: all waiting over all waiting without η (to the last digit not waited_s itself)
    return blend._replace(alpha_s=alpha_s, eta_alpha=alpha_s * weights / without_eta_s)


def _along_hops(
    hops: Sequence[tuple[PathClass, int]],
    terms: Terms,
    paths: PathClasses,
    route: Ring | Chain,
    readings: ModelOptions,
    *,
    worst: bool = False,
) -> LinkCost:
    """A walk from rank to rank, with the number of hops in each class.

    Over rails as many walks run at once as a domain has NICs. Outside, each has its own NIC.
    Inside, dedicated links give each its own path (paths through all ranks, one from each, share a
    full mesh evenly); otherwise all share one port.
    """
    inner = paths.levels[0].tier
    # walks at once, one for each NIC
    nics = 1
    if route.via == "rails":
        nics = max(level.span for level in paths.levels if level.tier == inner)
    lanes: list[tuple[LinkCost, float]] = []
    for level, count in hops:
        # without messages, for its α and bandwidth alone: the blend has the counts
        lane = _within_class(level, 0, n_beta=0, paths=paths, flows=at_most(nics))
        if level.tier != inner or (level.dedicated and readings.ports == "all"):
            lane = lane._replace(bandwidth_Bps=lane.bandwidth_Bps * nics)
        lanes.append((lane, count))
    walk = _blend(lanes, terms, worst=worst)
    # Over all links of a full mesh n_β is that of one link: the energy is that of a rank's N - 1.
    return walk.with_energy_times(paths.ranks - 1) if route.via == "links" else walk


def _edge_level(paths: PathClasses, via: str) -> PathClass:
    """The farthest class: of all tiers where ``via`` is outermost, else of the innermost tier."""
    if via == "outermost":
        return paths.levels[-1]
    inner = paths.levels[0].tier
    return [level for level in paths.levels if level.tier == inner][-1]


def _tree(route: Trees, terms: Terms, paths: PathClasses) -> LinkCost:
    """The edges of both trees as one run: α is the mean over the heights from leaf to root, each at
    its slowest class; bandwidth that of the slowest class of all."""
    flows = tree_flows(terms, paths.ranks, route)
    lanes: list[tuple[LinkCost, float]] = []
    edges: list[tuple[float | None, float]] = []
    # at a height the ends of an edge are 2^height ranks apart, in an aligned block of twice as many
    for height in range(log2_ceil(paths.ranks)):
        classes = paths.classes_between(1 << height, paths.block(2 << height))
        lane = _slowest(classes, 0, paths, flows)
        lanes.append((lane, 1))
        # a height has half the edges of the one below
        edges.append((lane.energy, 0.5**height))
    return _blend(lanes, terms)._replace(energy=mean_energy(edges))


def _switch(route: Switch, terms: Terms, paths: PathClasses) -> LinkCost:
    """Every rank sends at once, so oversubscription caps the bandwidth; n_α counts the switch
    levels."""
    top = paths.top()
    hardware = paths.in_switch
    # the row's requirement switch_can refuses groups without
    assert hardware is not None
    share = top.share(everybody)
    eta_beta = least(hardware.switch_eta_beta.get(route.does, top.eta_beta), share)
    return _link_cost(
        top, terms.n_alpha, terms.n_beta, hardware.alpha_s, eta_beta=eta_beta, share=share
    )


def _rounds(route: Rounds, paths: PathClasses) -> Iterator[LinkCost]:
    """The cost of each round in order, as one message; it pays its slowest pair."""
    for stride, load in route.steps:
        match route.partner:
            case "xor":
                # folded pairs are twice as far apart
                flows = at_most(2 * stride) if route.folded else everybody
                classes = paths.classes_between(stride, _class_of_round(stride, route, paths))
                yield _slowest(classes, load, paths, flows)
            case "shift":
                apart = min(stride, paths.ranks - stride)
                classes = paths.classes_between(apart, paths.top())
                cost = _slowest(classes, load, paths, leaving(stride, paths.ranks))
                yield cost._replace(energy=_shift_energy(apart, paths))
            case "fanout":
                # one in every block of 2·stride ranks sends
                classes = paths.classes_between(stride, _class_of_round(stride, route, paths))
                yield _slowest(classes, load, paths, one_alone).with_energy_times(1 / (2 * stride))
            case _:
                assert_never(route.partner)


def _class_of_round(stride: int, route: Rounds, paths: PathClasses) -> PathClass:
    """The class in which pairs of a round meet; folded pairs are twice as far apart, and shift the
    blocks of all others.

    Of 6 ranks 2 pairs are folded, and ranks 1, 3, 4 and 5 go on. At stride 1 the pairs (1, 3) and
    (4, 5) lie in aligned blocks of 4; at stride 2 so do neither (1, 4) nor (3, 5): the farthest class.
    """
    if route.folded % (2 * stride):
        return paths.top()
    return paths.block(4 * stride if route.folded else 2 * stride)


def merged(costs: Iterable[LinkCost]) -> list[LinkCost]:
    """The costs of rounds, with neighbours that cost the same joined into one run of as many
    messages."""
    runs: list[LinkCost] = []
    for cost in costs:
        if runs and _costs_alike(runs[-1], cost):
            run = runs.pop()
            cost = run._replace(n_alpha=run.n_alpha + 1, n_beta=run.n_beta + cost.n_beta)
        else:
            cost = cost._replace(n_alpha=1)
        runs.append(cost)
    return runs


def _costs_alike(first: LinkCost, second: LinkCost) -> bool:
    """Whether a message and a byte cost the same in two rounds."""
    if (first.tier, first.level, first.energy) != (second.tier, second.level, second.energy):
        return False
    return same((first.alpha_s, first.eta_beta), (second.alpha_s, second.eta_beta))


def _peers(route: Peers, terms: Terms, paths: PathClasses) -> list[LinkCost]:
    """A run of messages for each class of peers, one peer after the other: the messages of the rank
    with the farthest peers, the bytes of the rank whose ports and uplinks take longest.

    Ranks differ where the last domain is smaller: :attr:`PathClasses.views` has one view of the
    group for each kind of rank.
    """
    if route.via != "packed":
        edge = _edge_level(paths, route.via)
        return [_within_class(edge, terms.n_alpha, terms.n_beta * edge.crowd, paths, everybody)]
    per_peer = terms.n_beta / terms.n_alpha
    # by (tier, level): the runs of each view, and one run for every class of any view
    runs_of_views: list[dict[tuple[str, str], LinkCost]] = []
    classes: dict[tuple[str, str], LinkCost] = {}
    # seconds of bytes and of messages, view by view
    carried_s = []
    waited_s = []
    for peers, flows in paths.views:
        runs = [
            _within_class(level, count, count * per_peer, paths, flows) for level, count in peers
        ]
        carried_s.append(sum(run.per_byte_s for run in runs))
        waited_s.append(sum(run.waited_s for run in runs))
        runs_of_views.append({(run.tier, run.level): run for run in runs})
        for class_of_run, run in runs_of_views[-1].items():
            classes.setdefault(class_of_run, run)
    # views by index: the one whose bytes take longest, and the one whose messages wait longest
    slowest = first_by(carried_s, most=True)
    farthest = first_by(waited_s, most=True)
    costs = []
    for class_of_run, run in classes.items():
        # of a view whose rank has no peers in the class
        absent = run._replace(n_alpha=0, n_beta=0)
        candidates = [runs_of_view.get(class_of_run, absent) for runs_of_view in runs_of_views]
        messages = values_at(farthest, [cost.n_alpha for cost in candidates])
        carried = record_at(slowest, candidates)
        if anywhere(messages + carried.n_beta > 0):
            costs.append(carried._replace(n_alpha=messages))
    return costs


def _all_peers(route: AllPeers, terms: Terms, paths: PathClasses) -> LinkCost:
    """One α, the longest, plus the other posts; the busiest of all ports, links and boundaries sets
    the bandwidth term.

    A port of a rank carries its messages of a class and all farther ones of the tier. A dedicated
    link between two domains carries one to each rank of the other domain, as many as the rank's own
    domain has.
    """
    lanes = []
    for peers, flows in paths.views:
        # the rank itself and its peers in nearer classes: the ranks of its own domain
        nearer = 1
        for index, (level, count) in enumerate(peers):
            if level.dedicated:
                messages = nearer
            else:
                messages = sum(more for other, more in peers[index:] if other.tier == level.tier)
            load = route.per_peer * messages
            lanes.append(_within_class(level.at_once(messages), terms.n_alpha, load, paths, flows))
            nearer += count
    busiest = pick(lanes, [lane.per_byte_s for lane in lanes], most=True)
    waited = _latest(lanes, busiest)
    # of a rank of a full domain; its last post, to the farthest class, is part of α
    peers = paths.views[0].peers
    posts_s = sum(level.post_s * count for level, count in peers) - peers[-1][0].post_s
    energy = mean_energy([(level.energy, count) for level, count in peers])
    if energy is not None:
        # of all bytes that a rank sends, per byte of n_β
        energy = energy * route.per_peer * (paths.ranks - 1) / busiest.n_beta
    return waited._replace(alpha_s=waited.alpha_s + posts_s * waited.eta_alpha, energy=energy)


def mean_energy(weighted: Sequence[tuple[float | None, float]]) -> float | None:
    """The mean of J per bit over (energy, weight); tiers without energy count as zero, None if all
    lack it."""
    total_weight: float = 0
    known = []
    for energy, weight in weighted:
        total_weight += weight
        if energy is not None:
            known.append(energy * weight)
    return sum(known) / total_weight if known else None


def _shift_energy(far: int, paths: PathClasses) -> float | None:
    """J per bit, averaged over the messages, if every rank sends to one ``far`` away, so that
    min(far, span) messages leave each domain. None if no tier states any.

    One ahead, in nodes of 8 and leaves of 16: 7/8 of the messages stay in the node, 1/16 in the
    leaf, 1/16 go further.
    """
    energy_by_share = []
    # shares of all messages: those that meet in this class or further out, and further out alone
    reaching_level = 1.0
    for level in paths.used:
        beyond = min(1.0, far / level.span) if level.span < paths.ranks else 0.0
        energy_by_share.append((level.energy, reaching_level - beyond))
        reaching_level = beyond
    return mean_energy(energy_by_share)
