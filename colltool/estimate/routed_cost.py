"""Cost of a formula's messages where they are routed link by link: a step's messages are put on
links, and the busiest link counts. :func:`routed_link_costs` is the entry;
:mod:`colltool.estimate.link_cost` prices the same formulas on switched tiers, by class of distance.

A formula's terms say how often who sends to whom; steps that repeat are counted once. Loads are
linear in the size, so that a price stays a + b·M. Contention scales each tier's latency and
bandwidth, as everywhere.

Ranks, tiers (innermost first) and messages are numbered from 0. What is read of a group's links
(:class:`~colltool.estimate.wired.LinkNetwork`, here ``wired``), with ``src`` and ``dst`` arrays of ranks:

    on(src, dst)           the tier on which each message travels
    latency(src, dst)      α of each message, seconds, η included
    loads(src, dst, size)  seconds of every port, link and uplink, those of the innermost tier first
    alone(src, dst)        seconds a byte of each message, were it the only one
    numbers, positions     bandwidth, η and energy of each tier; where the group sits on it
    domains, uneven        members in each domain of the innermost tier; the same where they differ,
                           else empty
    posts_s                what a rank takes to post to all others but the last
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, assert_never

import numpy as np

from colltool.algorithms.binary_trees import double_tree_arrays, edges_of, one_root_tree_arrays
from colltool.algorithms.executor import Network
from colltool.algorithms.mixed_sizes import rail_trees, walks_over_rails
from colltool.algorithms.partners import pairs_of_round
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
)
from colltool.estimate.link_cost import LinkCost, merged
from colltool.estimate.wired import LinkNetwork, ports_at_nodes
from colltool.network.arrays import Floats, Indices
from colltool.network.dragonfly import gateway_order
from colltool.network.wires import DragonflyWires


class Sends(NamedTuple):
    """Messages that leave together, an element each: ranks, and bytes in units of the payload."""

    src: Indices
    dst: Indices
    size: Floats


class StepLoad(NamedTuple):
    """Time and energy of a step of messages.

    Args:
        mean_s, longest_s: latency over its messages, seconds.
        per_byte_s: seconds per byte of payload, of the busiest port or link.
        tier: number of the tier with that port or link, innermost 0.
        energy: J/bit times bytes of all messages, in units of the payload; None if no tier states
            any.
    """

    mean_s: float
    longest_s: float
    per_byte_s: float
    tier: int
    energy: float | None

    def times_size(self, size: float) -> StepLoad:
        """The step with messages so many times as large."""
        energy = None if self.energy is None else self.energy * size
        return self._replace(per_byte_s=self.per_byte_s * size, energy=energy)

    def with_latency(self, seconds: float) -> StepLoad:
        """The step with this latency, mean and longest."""
        return self._replace(mean_s=seconds, longest_s=seconds)


def routed_link_costs(
    terms: Terms, wired: LinkNetwork, *, worst: bool, spread: bool
) -> list[LinkCost]:
    """The cost of one term on a group whose messages are routed: one run of messages, or of rounds
    one for each that costs alike. :func:`colltool.estimate.route_cache.routed_costs` caches it.

    ``worst``: steps of rings and chains wait for the longest latency of their messages, else for the
    mean; ``spread``: walks and trees over rails cross a domain over links of their own.

    Raises:
        ColltoolError: the term's route is by switches or servers.
    """
    route = terms.route
    match route:
        case Ring():
            # each of the n_α steps sends the same share of n_β
            size = terms.n_beta / terms.n_alpha
            step = _load(wired, _along_walks(size, wired, route, spread=spread))
            load = _repeat(step, terms.n_alpha, worst=worst)
        case Chain():
            # n_β is what each rank sends in all, n_α only how often α is waited for
            step = _load(wired, _along_walks(terms.n_beta, wired, route, spread=spread))
            load = _repeat(step, 1, worst=worst)
        case Trees():
            load = _trees(route, wired, spread=spread)
        case Rounds():
            return merged(
                _cost(round_terms, _load(wired, sent), wired)
                for round_terms, sent in _rounds(terms, route, wired.ranks)
            )
        case Peers():
            # a message to each peer, n_α in all
            load = _to_peers_in_turn(wired).times_size(terms.n_beta / terms.n_alpha)
        case AllPeers():
            load = _to_peers_at_once(wired).times_size(route.per_peer)
            return [_with_posts(_cost(terms, load, wired), wired)]
        case ShardExchange():
            return [_with_posts(_cost(terms, _exchanged_shards(wired), wired), wired)]
        case Pair():
            load = _to_farthest_rank(terms.n_beta, wired)
        case Links(sends=()):
            load = _between_neighbours(terms, wired)
        case Links():
            # (src, dst, size) of every message
            load = _load(wired, Sends(*map(np.array, zip(*route.sends, strict=True))))
        case Switch() | Servers():
            raise ColltoolError(
                f"{type(route).__name__} does not run where messages are routed link by link"
            )
        case _:
            assert_never(route)
    return [_cost(terms, load, wired)]


def _to_rank_ahead(ranks: int, apart: int) -> Sends:
    """A byte from every rank to the one so far ahead of it."""
    rank = np.arange(ranks)
    return Sends(rank, (rank + apart) % ranks, np.ones(ranks))


def _of_every_pair(ranks: int) -> tuple[Indices, Indices]:
    """Source and destination of a message from every rank to every other."""
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    return src, dst


@lru_cache(maxsize=4)
def _to_peers_in_turn(wired: LinkNetwork) -> StepLoad:
    """A byte to every peer, one after the other: in step k to the rank k ahead."""
    steps = (_to_rank_ahead(wired.ranks, apart) for apart in range(1, wired.ranks))
    if wired.uneven:
        return _without_waiting(wired, steps)
    return _in_sequence([_load(wired, sent) for sent in steps])


def _without_waiting(wired: LinkNetwork, steps: Iterable[Sends]) -> StepLoad:
    """A byte to every peer in steps, where no rank waits for the end of a step: it is done when its
    own messages are. Formulas between even domains (``link_cost``) count so too.

    α is that of the rank that is latest, its mean over the messages; the bytes of each distance
    class take as long as the busiest port or uplink with them. A class is (tier, α in seconds).
    """
    waited_s = np.zeros(wired.ranks)
    energy = 0.0
    loads: dict[tuple[int, float], Floats] = {}
    for sent in steps:
        tier_of_message = wired.on(sent.src, sent.dst)
        alpha_of_message = wired.latency(sent.src, sent.dst)
        waited_s[sent.src] += alpha_of_message
        energy += _energy(wired, sent) or 0.0
        classes = set(zip(tier_of_message.tolist(), alpha_of_message.tolist(), strict=True))
        for tier, alpha_s in sorted(classes):
            in_class = (tier_of_message == tier) & (alpha_of_message == alpha_s)
            load = wired.loads(sent.src[in_class], sent.dst[in_class], sent.size[in_class])
            loads[tier, alpha_s] = loads.get((tier, alpha_s), 0.0) + load
    seconds = {distance: float(load.max()) for distance, load in loads.items()}
    slowest_tier, _ = max(seconds, key=seconds.__getitem__)
    alpha_s = float(waited_s.max()) / (wired.ranks - 1)
    stated_energy = energy if wired.states_energy else None
    return StepLoad(alpha_s, alpha_s, sum(seconds.values()), slowest_tier, stated_energy)


@lru_cache(maxsize=4)
def _to_peers_at_once(wired: LinkNetwork) -> StepLoad:
    """A byte to every peer, all at once. Where ranks are at ports of switches, loads are summed by
    switch, and α is that of the last rank's longest way.

    Domains and axes are filled in order: none is farther from another rank than the last from some.
    """
    if not ports_at_nodes(wired.positions):
        # every message is followed by itself
        src, dst = _of_every_pair(wired.ranks)
        return _load(wired, Sends(src, dst, np.ones(len(src))))
    others = np.arange(wired.ranks - 1)
    last = np.full_like(others, wired.ranks - 1)
    alpha_s = float(wired.latency(last, others).max())
    seconds = wired.to_all()
    slowest = max(range(len(seconds)), key=seconds.__getitem__)
    return StepLoad(alpha_s, alpha_s, seconds[slowest], slowest, _energy_of_all(wired))


def _exchanged_shards(wired: LinkNetwork) -> StepLoad:
    """α of a message across and of one inside; bytes of both at once.

    Domains of 2 and 3 ranks: each of the two sends a third of its shard to each of the three, and
    its neighbour its own shard and half of the 3 from outside, 1 + 3/2 = 5/2 shards of M/5.
    """
    # of each rank, shape (N,): [2, 2, 3, 3, 3] and [0, 0, 1, 1, 1]
    domain_size = np.repeat(wired.domains, wired.domains)
    domain = np.repeat(np.arange(len(wired.domains)), wired.domains)
    src, dst = _of_every_pair(wired.ranks)
    inside = domain[src] == domain[dst]
    across_size = 1 / domain_size[dst] / wired.ranks
    # 1 + (N - n)/n shards inside are N/n
    size = np.where(inside, wired.ranks * across_size, across_size)
    alpha_s = wired.latency(src, dst)
    inside_s = float(alpha_s[inside].max(initial=0.0))
    across_s = float(alpha_s[~inside].max(initial=0.0))
    # the term counts two messages, each with the mean of the two latencies
    return _load(wired, Sends(src, dst, size)).with_latency((inside_s + across_s) / 2)


def _energy_of_all(wired: LinkNetwork) -> float | None:
    """The energy, as :func:`_energy` has it, of a byte from every rank to every other: of 4 nodes of 8
    ranks each has 7 peers on the inner tier and 8 x 3 on the outer."""
    if not wired.states_energy:
        return None
    energy = 0.0
    ranks_inside = 1
    for position, numbers in zip(wired.positions, wired.numbers, strict=True):
        peers = ranks_inside * (position.endpoints - 1)
        energy += wired.ranks * peers * (numbers.energy or 0.0)
        ranks_inside *= position.endpoints
    return energy


def _along_walks(size: float, wired: LinkNetwork, route: Ring | Chain, *, spread: bool) -> Sends:
    """Every rank to the next one, a chain but for the last; over rails R walks that leave each
    domain by a rank of their own.

    R is the number of ranks in the smallest domain: NCCL takes the fewest channels that any node
    has (2.30, src/init.cc). ``size``: bytes of all walks together.
    """
    ranks = wired.ranks
    # a row for each walk, with its ranks in order: shape (walks, ranks)
    match route.via:
        case "rails":
            walks = np.concatenate(walks_over_rails(wired.domains, spread=spread), axis=1)
        case "gateways":
            wires = wired.positions[0].wires
            # the row's requirement several_groups refuses others
            assert isinstance(wires, DragonflyWires)
            walks = np.array([gateway_order(wires)])
        case _:
            walks = np.arange(ranks)[np.newaxis]
    edges = ranks - 1 if isinstance(route, Chain) else ranks
    src = walks[:, :edges].ravel()
    dst = np.roll(walks, -1, axis=1)[:, :edges].ravel()
    return Sends(src, dst, np.full(len(src), size / len(walks)))


def _trees(route: Trees, wired: LinkNetwork, *, spread: bool) -> StepLoad:
    """α of an edge: the mean over the levels from a leaf to the root, each at its slowest edge;
    bytes of all trees at once."""
    if route.rails:
        edges = rail_trees(wired.domains, spread=spread)
    elif route.both_ways:
        edges = edges_of(double_tree_arrays(wired.ranks))
    else:
        edges = edges_of(one_root_tree_arrays(wired.ranks))
    child, parent = edges.child, edges.parent
    alpha_s = wired.latency(child, parent)
    # an edge has the depth of its child, 1 below the root
    levels = range(1, int(edges.depth.max()) + 1)
    mean_s = sum(float(alpha_s[edges.depth == level].max()) for level in levels) / len(levels)
    # of several trees each carries an equal share; streams are numbered from 0
    size = np.full(len(child), 1 / (int(edges.stream.max()) + 1))
    if route.both_ways:
        src = np.concatenate([child, parent])
        dst = np.concatenate([parent, child])
        load = _load(wired, Sends(src, dst, np.tile(size, 2)))
    else:
        # a broadcast goes down and a reduction up: what takes longer counts
        down = _load(wired, Sends(parent, child, size))
        up = _load(wired, Sends(child, parent, size))
        load = max(down, up, key=attrgetter("per_byte_s"))
    return load.with_latency(mean_s)


def _rounds(terms: Terms, route: Rounds, ranks: int) -> Iterator[tuple[Terms, Sends]]:
    """The messages of each round, with a term for one message of its load."""
    taking_part = ranks - route.folded
    # The rank of each that takes part: of 6 ranks with 2 pairs folded 1 and 3 for the pairs, then
    # 4 and 5 for themselves.
    of_pairs = 2 * np.arange(route.folded) + 1
    unpaired = np.arange(2 * route.folded, ranks)
    rank = np.concatenate([of_pairs, unpaired])
    for stride, load in route.steps:
        src, dst = pairs_of_round(route.partner, stride, taking_part)
        sizes = np.full(len(src), load)
        sent = Sends(rank[src], rank[dst], sizes)
        yield terms._replace(n_alpha=1, n_beta=load), sent


def _between_neighbours(terms: Terms, wired: LinkNetwork) -> StepLoad:
    """Messages between neighbours of the innermost tier, as the formula counts them; α of the slowest
    link."""
    wires = wired.positions[0].wires
    numbers = wired.numbers[0]
    # algorithms of this route run on a routed tier alone, which has wires
    assert wires is not None
    alpha_s = wires.longest_alpha_s * numbers.eta_alpha
    per_byte_s = terms.n_beta / (numbers.bandwidth_Bps * numbers.eta_beta)
    energy = None if numbers.energy is None else numbers.energy * wired.ranks * terms.n_beta
    return StepLoad(alpha_s, alpha_s, per_byte_s, tier=0, energy=energy)


def _to_farthest_rank(size: float, wired: LinkNetwork) -> StepLoad:
    """One message from the first rank to one on the outermost tier that it reaches: α is that of the
    longest way to any of them, the bytes are those of the narrowest."""
    others = np.arange(1, wired.ranks)
    tier_of_message = wired.on(np.zeros_like(others), others)
    far = others[tier_of_message == tier_of_message.max()]
    first_rank = np.zeros_like(far)
    longest_s = float(wired.latency(first_rank, far).max())
    receiver = far[np.argmax(wired.alone(first_rank, far))]
    message = Sends(first_rank[:1], np.array([receiver]), np.array([size]))
    return _load(wired, message).with_latency(longest_s)


def _load(wired: LinkNetwork, sent: Sends) -> StepLoad:
    """What a step of these messages takes: the first of the tiers with the busiest port or link
    sets it."""
    alpha_s = wired.latency(sent.src, sent.dst)
    network: Network = wired.network
    # a number for each port, link and uplink, those of the innermost tier first
    loads = wired.loads(sent.src, sent.dst, sent.size)
    slowest = 0
    per_byte_s = 0.0
    start = 0
    for number, tier in enumerate(network.tiers):
        end = start + sum(len(links.exists) for links in tier.classes)
        busiest = float(loads[start:end].max(initial=0.0))
        if busiest > per_byte_s:
            slowest = number
            per_byte_s = busiest
        start = end
    energy = _energy(wired, sent)
    return StepLoad(float(alpha_s.mean()), float(alpha_s.max()), per_byte_s, slowest, energy)


def _energy(wired: LinkNetwork, sent: Sends) -> float | None:
    """Σ over messages of bytes times J/bit of the tier they travel on; None if no tier states any."""
    if not wired.states_energy:
        return None
    energy_of_tier = np.array([numbers.energy or 0.0 for numbers in wired.numbers])
    return float((energy_of_tier[wired.on(sent.src, sent.dst)] * sent.size).sum())


def _repeat(step: StepLoad, count: float, *, worst: bool) -> StepLoad:
    """The same step ``count`` times. Each waits for the mean latency of its messages or, ``worst``,
    the longest, which is then both of the load's."""
    return step.times_size(count).with_latency(step.longest_s if worst else step.mean_s)


def _in_sequence(steps: Sequence[StepLoad]) -> StepLoad:
    """Steps one after the other: the sum of their bytes, the mean of their longest latencies, and the
    tier of the step whose bytes take longest."""
    energies = [step.energy for step in steps if step.energy is not None]
    longest = max(steps, key=attrgetter("per_byte_s"))
    alpha_s = sum(step.longest_s for step in steps) / len(steps)
    return StepLoad(
        mean_s=alpha_s,
        longest_s=alpha_s,
        per_byte_s=sum(step.per_byte_s for step in steps),
        tier=longest.tier,
        energy=sum(energies) if energies else None,
    )


def _cost(terms: Terms, load: StepLoad, wired: LinkNetwork) -> LinkCost:
    """The load as a run of ``terms.n_alpha`` messages, each with its longest latency (the mean where
    the step waits for no more); energy is per bit of n_β of each rank."""
    cost = LinkCost.on(wired.numbers[load.tier], terms.n_alpha, load.longest_s, load.per_byte_s)
    if load.energy is None or not cost.n_beta:
        return cost
    return cost._replace(energy=load.energy / (wired.ranks * cost.n_beta))


def _with_posts(cost: LinkCost, wired: LinkNetwork) -> LinkCost:
    """Add what each further message takes that a rank posts at once."""
    return cost._replace(alpha_s=cost.alpha_s + wired.posts_s)
