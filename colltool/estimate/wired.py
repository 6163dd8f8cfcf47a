"""The link models of the tiers that a group spans: for proofs from the fabric as it is, for prices
with contention.

:class:`TierPosition` is a group on one tier, :func:`links_on` the links under it. :class:`LinkNetwork`
has those of all tiers of a group whose messages are routed; :mod:`colltool.estimate.routed_cost`
prices messages on it. Where domains differ in size, each has *places* for as many ranks as the largest,
some of them empty, so that links can be numbered as if all were alike.

Numpy and the link models are imported where they are used: most prices route nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.primitives import ceil_div
from colltool.estimate.placement import PACKED, Occupancy
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.wires import Wires, shared

if TYPE_CHECKING:
    from colltool.algorithms.executor import Network
    from colltool.algorithms.program import Step
    from colltool.estimate.link_cost import LinkCost
    from colltool.network.arrays import Floats, Indices
    from colltool.network.links import LinkModel, LinkUse


@dataclass(frozen=True, eq=False)
class TierPosition:
    """How a group sits on a tier; equal for the same tier object alone, as tiers are long to
    compare.

    Args:
        tier: of a lattice the slice that the group takes.
        endpoints: of the tier that have members of the group.
        members_inside: members of the group behind an endpoint.
        ranks_behind: ranks of any group behind it, which share its links.
        nics: ports of each sender.
        occupancy: how the members sit on the endpoints.
    """

    tier: Tier
    endpoints: int
    members_inside: int = 1
    ranks_behind: int = 1
    nics: int = 1
    occupancy: Occupancy = PACKED

    @property
    def _key(self) -> tuple[object, ...]:
        """What two equal positions have in common."""
        return (
            id(self.tier),
            self.endpoints,
            self.members_inside,
            self.ranks_behind,
            self.nics,
            self.occupancy,
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TierPosition) and self._key == other._key

    @cached_property
    def kind(self) -> TierCapabilities[Tier]:
        """What the tier can do."""
        return capabilities_of(self.tier)

    @cached_property
    def wires(self) -> Wires | None:
        """The wires of a routed tier under the group, a rank's part of what all behind an endpoint
        share. None elsewhere."""
        # with a stride the members are spread over the whole tier
        endpoints = self.endpoints if self.occupancy.stride == 1 else self.tier.endpoints
        wires = self.kind.wires(endpoints)
        return shared(wires, self.occupancy.siblings * self.nics / self.ranks_behind)


class TierNumbers(NamedTuple):
    """A tier's numbers for prices.

    Args:
        bandwidth_Bps: of an endpoint's ports in the planes that work, without η.
        eta_alpha, eta_beta: contention; 1 where prices are ideal.
        energy: J per bit; None if the tier states none.
        post_s: per further message that a rank posts at once, without η.
    """

    name: str
    bandwidth_Bps: float
    eta_alpha: float
    eta_beta: float
    energy: float | None
    post_s: float


def numbers_on(position: TierPosition, *, ideal: bool) -> TierNumbers:
    """The numbers of a tier under a group; ``ideal``: without contention. Of several NICs of a sender
    each has its share of the energy."""
    tier = position.tier
    return TierNumbers(
        name=tier.name,
        bandwidth_Bps=position.kind.rate_Bps,
        eta_alpha=1.0 if ideal else tier.eta.alpha,
        eta_beta=1.0 if ideal else tier.eta.beta,
        energy=None if tier.energy is None else tier.energy / position.nics,
        post_s=tier.post or 0.0,
    )


def links_on(
    position: TierPosition,
    nodes: int,
    *,
    eta_alpha: float = 1.0,
    eta_beta: float = 1.0,
    last: bool,
) -> LinkModel:
    """The links of a tier as the group's members use them.

    ``nodes``: places on the tier, for ranks and on the ``last`` tier for servers or empty places
    after them.

    η is not for the uplinks of levels, whose oversubscription says what they carry: β is the less
    of the two (:mod:`colltool.estimate.link_cost`).
    """
    from colltool.network.links import LevelBoundary, TierRanks
    from colltool.network.tier_links import links_of

    kind = position.kind
    occupancy = position.occupancy
    boundaries = []
    for below, above in pairwise(kind.classes if kind.joined_by == "switches" else ()):
        members = occupancy.members(below.group)
        ports = members * position.members_inside * occupancy.ports(below.group)
        uplinks_Bps = ports * kind.rate_Bps / above.oversubscription
        boundaries.append(LevelBoundary(below.name, members, uplinks_Bps))
    wires = shared(position.wires, position.members_inside)
    if wires is not None:
        wires = wires.scaled(eta_beta).slowed(eta_alpha)
    endpoints = ceil_div(nodes, position.members_inside) if last else position.endpoints
    return links_of(
        kind.joined_by,
        TierRanks(nodes, position.members_inside, endpoints, capacity_Bps=kind.rate_Bps * eta_beta),
        axes=kind.part(position.endpoints, occupancy.stride) or (),
        alphas_s=[level.alpha_s * eta_alpha for level in kind.classes],
        boundaries=boundaries,
        rails=position.members_inside if position.tier.rail_only else 1,
        apart=position.tier.rail_only,
        wires=wires,
        stride=occupancy.stride,
        alone=occupancy.alone,
    )


def places_of(domains: Sequence[int], nodes: int) -> int:
    """Places that ``nodes`` nodes need where each domain has as many as the largest; without
    domains, one for each. 5 ranks in domains of 2 and 3 and a server: 3 + 3 + 1."""
    if not domains:
        return nodes
    return nodes + len(domains) * max(domains) - sum(domains)


# every step of a schedule needs it again
@lru_cache(maxsize=16)
def place_of_each(domains: tuple[int, ...], nodes: int) -> Indices:
    """Where each node sits among these places, domain after domain, shape (nodes,); nodes beyond
    the ranks come last: of domains of 2 and 3 and a server 0, 1, 3, 4, 5, 6."""
    import numpy as np

    largest = max(domains)
    ranks = sum(domains)
    starts = np.arange(len(domains)) * largest
    filled = np.arange(ranks) + np.repeat(starts - np.cumsum([0, *domains[:-1]]), domains)
    return np.concatenate([filled, len(domains) * largest + np.arange(nodes - ranks)])


def between_places(
    batch: tuple[Step, ...], domains: tuple[int, ...], nodes: int
) -> tuple[Step, ...]:
    """The same messages with places in the stead of nodes (:func:`place_of_each`); unchanged where
    domains do not differ, so that every node is its place."""
    if not domains:
        return batch
    place = place_of_each(domains, nodes)
    return tuple(step._replace(src=place[step.src], dst=place[step.dst]) for step in batch)


@dataclass(frozen=True, eq=False)
class LinkNetwork:
    """The tiers of a group whose messages are put on links one by one, innermost first; links are
    built when a price needs them.

    One of the tiers is routed, or ``uneven`` lists the members of each domain of the innermost
    where these differ.

    ``src`` and ``dst`` of the methods are ranks, an element a message.

    Args:
        ideal: without contention.
        costs: a cache for :mod:`colltool.estimate.route_cache`: a schedule costs the same at any
            size and under most readings.
    """

    positions: tuple[TierPosition, ...]
    ranks: int
    ideal: bool
    uneven: tuple[int, ...] = ()
    costs: dict[Hashable, tuple[LinkCost, ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def domains(self) -> Sequence[int]:
        """Members in each domain of the innermost tier."""
        inside = self.positions[0].endpoints
        return self.uneven or (inside,) * (self.ranks // inside)

    @cached_property
    def posts_s(self) -> float:
        """What a rank takes to post to all others, but for the last; seconds, of the rank that
        takes longest."""
        # of one message on each tier
        post_s_on = [numbers.post_s * numbers.eta_alpha for numbers in self.numbers]
        outer_s = post_s_on[-1]
        if self.uneven:
            inner_s = post_s_on[0]
            posts = (
                inner_s * (members - 1) + outer_s * (self.ranks - members)
                for members in self.domains
            )
            return max(posts) - outer_s
        posts_s = 0.0
        inside = 1
        for position, post_s in zip(self.positions, post_s_on, strict=True):
            # of 4 nodes of 8: 7 messages on the inner tier, 24 on the outer
            posts_s += post_s * (inside * position.endpoints - inside)
            inside *= position.endpoints
        return posts_s - outer_s

    @cached_property
    def numbers(self) -> tuple[TierNumbers, ...]:
        """The numbers of each tier, innermost first."""
        return tuple(numbers_on(position, ideal=self.ideal) for position in self.positions)

    @property
    def states_energy(self) -> bool:
        """Whether any tier states an energy per bit."""
        return any(numbers.energy is not None for numbers in self.numbers)

    @cached_property
    def network(self) -> Network:
        """The links of all tiers."""
        from colltool.algorithms.executor import Network

        links_of_tiers = []
        places = places_of(self.uneven, self.ranks)
        for position, tier in zip(self.positions, self.numbers, strict=True):
            last = position is self.positions[-1]
            links_of_tiers.append(
                links_on(
                    position, places, eta_alpha=tier.eta_alpha, eta_beta=tier.eta_beta, last=last
                )
            )
        return Network(*links_of_tiers)

    def _places(self, ranks: Indices) -> Indices:
        """The places at which ranks sit."""
        return place_of_each(self.uneven, self.ranks)[ranks] if self.uneven else ranks

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """Seconds of each port, link and uplink, for sizes in bytes: those of the innermost tier
        first, class by class."""
        return self.network.loads(self._places(src), self._places(dst), size)

    def on(self, src: Indices, dst: Indices) -> Indices:
        """The number of the tier on which each message travels, innermost 0."""
        from colltool.network.links import tier_of

        return tier_of(self.network.tiers, self._places(src), self._places(dst))

    def uses(self, src: Indices, dst: Indices) -> Iterator[tuple[int, LinkUse]]:
        """What the messages load, class by class of each tier, with the number of the tier."""
        import numpy as np

        tier_numbers = self.on(src, dst)
        start = self._places(src)
        end = self._places(dst)
        for number, tier in enumerate(self.network.tiers):
            of_tier = np.flatnonzero(tier_numbers == number)
            for use in tier.uses(start[of_tier], end[of_tier]):
                yield number, use._replace(message=of_tier[use.message])

    def alone(self, src: Indices, dst: Indices) -> Floats:
        """Seconds a byte of each message were it the only one, on its narrowest port or link, η
        included."""
        import numpy as np

        uses_of_class: dict[tuple[int, int], list[LinkUse]] = {}
        for number, use in self.uses(src, dst):
            uses_of_class.setdefault((number, use.number), []).append(use)
        per_byte_s = np.zeros(len(src))
        for (number, link_class), uses in uses_of_class.items():
            links = self.network.tiers[number].classes[link_class]
            count = len(links.exists)
            # Several ways of a message may share a link, such as two halves each over link 5: their
            # shares add up to 1. A pair is a message and a link: message 2, link 5 of 10 is 25.
            pairs = np.concatenate([use.message * count + use.resource for use in uses])
            pair, pair_of_use = np.unique(pairs, return_inverse=True)
            share = np.bincount(pair_of_use, np.concatenate([use.share for use in uses]))
            np.maximum.at(per_byte_s, pair // count, share / links.capacity_Bps)
        return per_byte_s

    def latency(self, src: Indices, dst: Indices) -> Floats:
        """Each message's α on the tier where it travels, η included; seconds."""
        import numpy as np

        tier_numbers = self.on(src, dst)
        start = self._places(src)
        end = self._places(dst)
        alpha_s = np.zeros(len(src))
        for number, tier in enumerate(self.network.tiers):
            of_tier = tier_numbers == number
            if of_tier.any():
                alpha_s[of_tier] = tier.latency(start[of_tier], end[of_tier])[0]
        return alpha_s

    def to_all(self) -> list[float]:
        """Seconds of the busiest port or link of each tier while every rank has a byte for every
        other, all at once.

        Summed by the nodes to which ranks are attached; :func:`ports_at_nodes` says where.
        """
        import numpy as np

        seconds = []
        # ranks behind an endpoint of the tier, and in a domain of it
        below = 1
        for tier, position in zip(self.network.tiers, self.positions, strict=True):
            inside = below * position.endpoints
            if position is self.positions[-1]:
                loads = tier.to_all()
            else:
                # every rank to all of its domain but those that share its endpoint
                src = np.repeat(np.arange(self.ranks), inside)
                dst = src // inside * inside + np.tile(np.arange(inside), self.ranks)
                apart = src // below != dst // below
                loads = tier.loads(src[apart], dst[apart], np.ones(int(apart.sum())))
            classes = zip(tier.classes, loads, strict=True)
            seconds.append(max(float(load.max()) / links.capacity_Bps for links, load in classes))
            below = inside
        return seconds


def ports_at_nodes(positions: Sequence[TierPosition]) -> bool:
    """Whether the ranks of a group fill ports of switches of its last tier, which is the only one
    routed."""
    *inner, last = (position.wires for position in positions)
    if last is None or any(inner):
        return False
    return last.has_ports and positions[-1].occupancy.stride == 1


def pairs_at_once(positions: Sequence[TierPosition], ranks: int) -> int:
    """Pairs of ranks or switches between which an exchange of all with all is put on links. By
    switches every rank is also paired with those of its domain."""
    if not ports_at_nodes(positions):
        return ranks**2
    last = positions[-1].wires
    # ports_at_nodes is false without
    assert last is not None
    return max(last.occupied**2, ranks * (ranks // positions[-1].endpoints))


@lru_cache(maxsize=16)
def link_network(
    positions: tuple[TierPosition, ...], ranks: int, ideal: bool, uneven: tuple[int, ...] = ()
) -> LinkNetwork:
    """The links of these positions; the same object for the same positions, so that costs are kept from one
    price to the next."""
    return LinkNetwork(positions, ranks, ideal, uneven)
