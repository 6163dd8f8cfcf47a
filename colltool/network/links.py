"""Link models: which ports, links and uplinks of a tier each message loads.

Resources (ports, links, uplinks) come in classes, such as one direction of an axis or the uplinks of
a level, each class with one capacity in bytes/s. Ranks are numbered innermost tier fastest; every
rank behind an endpoint has its own port or links there, as if the tier existed once per such rank:
these are the tier's copies.

:class:`LinkModel` is the interface, :class:`SwitchedLinks` and :class:`MeshLinks` are two of its
implementations; lattices and routed networks have modules of their own, and
:func:`colltool.network.tier_links.links_of` picks the one for a topology.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError
from colltool.base.primitives import ceil_div
from colltool.network.arrays import Floats, Indices

# Holds the number of any rank, group or resource of a fabric whose messages are followed one by one.
SMALL = np.int32

DIRECTIONS = ("out", "in")


class LinkClass(NamedTuple):
    """Ports or links of one kind and direction."""

    tier: str
    name: str  # such as ``axis 1 +``
    exists: NDArray[np.bool_]  # shape (resources,); False at the end of an open axis
    capacity_Bps: float  # of each
    endpoint: bool = True  # ports and links of endpoints, not uplinks between switches


class LinkUse(NamedTuple):
    """Messages that load resources of a class, a pair of the two in each place; arrays of shape (k,)."""

    number: int  # of the class
    resource: Indices  # its number in the class
    message: Indices  # the number of the message
    share: Floats  # of the message's bytes that pass the resource


class TierRanks(NamedTuple):
    """The ranks that a tier joins, and the bandwidth that each has there."""

    ranks: int  # over all domains and copies of the tier
    inside: int = 1  # ranks behind each endpoint
    endpoints: int = 0  # of a domain; 0: of a single domain with all ranks
    tier: str = ""  # its name
    capacity_Bps: float = 1.0  # of a port or link


class LinkModel:
    """The ports and links of one tier, and which of them each message loads.

    Messages are arrays ``src`` and ``dst`` of ranks and ``size`` of bytes, of shape (m,); only those
    that travel on this tier are asked for. A class is known by its ``number`` in :attr:`classes`.
    """

    classes: list[LinkClass]
    # Separate fabrics in the tier; a leaf switch has ports of one of them.
    rails = 1
    # α of one link where ring neighbours can be one link apart: on a lattice.
    hop_alpha_s: float | None = None

    def __init__(self, tier: TierRanks) -> None:
        self.ranks = tier.ranks
        self.inside = tier.inside
        self.endpoints = tier.endpoints or tier.ranks // tier.inside
        self.tier = tier.tier
        self.capacity_Bps = tier.capacity_Bps
        self.copies = tier.ranks // self.endpoints  # over all domains

    def split(self, ranks: Indices) -> tuple[Indices, Indices]:
        """Each rank's endpoint in its domain, and the copy of the tier that it uses.

        In racks of 4 nodes of 8 rank 43 is 3 ranks into node 5: endpoint 1 of rack 1, copy 8 + 3.
        """
        node, behind = np.divmod(ranks, self.inside)
        domain, endpoint = np.divmod(node, self.endpoints)
        return endpoint, domain * self.inside + behind

    def departures(self, src: Indices, dst: Indices) -> Indices:  # noqa: ARG002
        """The rank whose port each message leaves by if a neighbour may forward it; here the
        sender."""
        return src

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The resources that each message loads, class by class; a class may come more than once."""
        raise NotImplementedError

    def slowness(self, number: int, resource: Indices) -> Floats:  # noqa: ARG002
        """How many times as long a byte takes on these resources as on the fastest of their class. Shares
        of :meth:`uses` are multiplied by it already, so that one capacity per class is enough."""
        return np.ones(len(resource))

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes on each resource, an array per class."""
        loads = [np.zeros(len(link_class.exists)) for link_class in self.classes]
        for use in self.uses(src, dst):
            load = loads[use.number]
            load += np.bincount(use.resource, size[use.message] * use.share, len(load))
        return loads

    def to_all(self) -> list[Floats]:
        """Bytes on each resource, an array per class, when every rank sends a byte to each rank
        behind another endpoint; only for an outermost tier with ports."""
        raise NotImplementedError

    def busiest_of_ranks(self, loads: Sequence[Floats]) -> Floats:
        """The largest load of any port or link of each rank, in either direction, shape (N,); only
        for a single tier."""
        raise NotImplementedError

    def hops(self, src: Indices, dst: Indices) -> Indices:
        """Links between neighbours on each message's path; 1 where every pair is joined
        directly."""
        apart: Indices = (src != dst).astype(np.int64)
        return apart

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Each message's α in seconds, without η, and its number of links; shape (m,) each."""
        raise NotImplementedError

    def name(self, number: int, resource: int) -> str:
        """The name of a resource in output."""
        raise NotImplementedError

    # Where every rank has a port, the first two classes are the ports out and the ports in, each with
    # the number of its rank.

    def _port_classes(self) -> list[LinkClass]:
        """The ports of all ranks, out and in."""
        every_rank = np.ones(self.ranks, dtype=bool)
        names = [f"ports {direction}" for direction in DIRECTIONS]
        return [LinkClass(self.tier, name, every_rank, self.capacity_Bps) for name in names]

    def _port_uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The senders' ports out and the receivers' ports in, which are the first two classes."""
        for number, ranks in enumerate((src, dst)):
            # Nodes numbered beyond the ranks are switches and servers, whose ports are not counted.
            message = np.flatnonzero(ranks < self.ranks)
            yield LinkUse(number, ranks[message], message, np.ones(len(message)))

    def _port_name(self, number: int, rank: int) -> str:
        """``ib rank 5 out``."""
        return f"{self.tier} rank {rank} {DIRECTIONS[number]}"

    def _copy_name(self, copy: int) -> str:
        """The tier's name, with the number of the copy where there are several."""
        return f"{self.tier} {copy}" if self.copies > 1 else self.tier


class LevelBoundary(NamedTuple):
    """The uplinks between a level of switches and the next."""

    name: str  # of the lower level
    endpoints: int  # below each switch or pod of the lower level
    uplink_Bps: float  # of all uplinks of such a switch or pod


class SwitchedLinks(LinkModel):
    """A port in each direction per rank, and uplinks and downlinks of switches, over which flows are
    spread evenly.

    With several ``rails`` a leaf belongs to one, and messages between rails climb to the last
    level. Where the rails are ``apart`` they cannot be sent: ColltoolError. Nodes numbered beyond
    the ranks are switches with unlimited ports.

    Args:
        alphas_s: of each level of switches, innermost first; one more than there are boundaries.
    """

    def __init__(
        self,
        tier: TierRanks,
        *,
        alphas_s: Sequence[float] = (0.0,),
        boundaries: Sequence[LevelBoundary] = (),
        rails: int = 1,
        apart: bool = False,
    ) -> None:
        """Make the classes of links: ports out and in, then uplinks and downlinks at each boundary."""
        super().__init__(tier)
        self.alphas_s = np.array(alphas_s)
        self.boundaries = boundaries
        self.rails = rails
        self.apart = apart
        self.classes = self._port_classes()
        domains = ceil_div(self.ranks, self.inside * self.endpoints)
        for level in boundaries:
            switches = domains * ceil_div(self.endpoints, level.endpoints) * rails
            exists = np.full(switches, level.endpoints < self.endpoints)
            for direction in ("up", "down"):
                name = f"{level.name} {direction}links"
                self.classes.append(
                    LinkClass(self.tier, name, exists, level.uplink_Bps, endpoint=False)
                )

    def rail(self, ranks: Indices) -> Indices:
        """The rail of each rank's port: its position behind the endpoint, modulo rails."""
        return ranks % self.inside % self.rails

    def departures(self, src: Indices, dst: Indices) -> Indices:
        """The sender's neighbour behind the same endpoint that is on the receiver's rail."""
        return src - self.rail(src) + self.rail(dst)

    def _switch(self, ranks: Indices, level: LevelBoundary) -> Indices:
        """The switch (or pod) of a level that each rank's port on its rail is below."""
        domain, endpoint = np.divmod(ranks // self.inside, self.endpoints)
        per_domain = ceil_div(self.endpoints, level.endpoints)
        switch: Indices = domain * per_domain + endpoint // level.endpoints
        return switch * self.rails + self.rail(ranks)

    def _check_rails(self, src: Indices, dst: Indices) -> None:
        """Raise ColltoolError for a message between rails that no switch joins."""
        if not self.apart:
            return
        changing = np.flatnonzero(self.rail(src) != self.rail(dst))
        if len(changing):
            first = changing[0]
            what = (
                f"rank {src[first]} sends to rank {dst[first]}, from rail {self.rail(src)[first]}"
                f" to rail {self.rail(dst)[first]}"
            )
            fix = (
                f"send through rank {self.departures(src, dst)[first]}, the sender's neighbour on"
                " that rail"
            )
            raise ColltoolError(f"{what}, and rails never meet here", fix=fix)

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        self._check_rails(src, dst)
        yield from self._port_uses(src, dst)
        for number, level in enumerate(self.boundaries):
            sender_switch = self._switch(src, level)
            receiver_switch = self._switch(dst, level)
            message = np.flatnonzero(sender_switch != receiver_switch)
            whole = np.ones(len(message))
            # up from the sender's switch, down to the receiver's; after the two classes of ports
            for direction, switch in enumerate((sender_switch, receiver_switch)):
                link_class = 2 + 2 * number + direction
                yield LinkUse(link_class, switch[message], message, whole)

    def busiest_of_ranks(self, loads: Sequence[Floats]) -> Floats:
        return np.maximum(loads[0], loads[1])

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """α of the lowest level of switches that joins each pair, and two links for every level
        climbed; between rails it is the last."""
        sender = src // self.inside % self.endpoints
        receiver = dst // self.inside % self.endpoints
        level = np.zeros(len(src), dtype=np.int64)
        for below in self.boundaries:
            level += sender // below.endpoints != receiver // below.endpoints
        if self.rails > 1:
            level[self.rail(src) != self.rail(dst)] = len(self.boundaries)
        return self.alphas_s[level], 2 * (level + 1)

    def name(self, number: int, resource: int) -> str:
        """``ib rank 5 out``, ``ib leaf 3 uplinks``, ``ib leaf 3 rail 1 uplinks``."""
        if number < 2:
            return self._port_name(number, resource)
        level = self.boundaries[(number - 2) // 2]
        direction = ("uplinks", "downlinks")[number % 2]
        switch, rail = divmod(resource, self.rails)
        of_rail = f" rail {rail}" if self.rails > 1 else ""
        return f"{self.tier} {level.name} {switch}{of_rail} {direction}"


class MeshLinks(LinkModel):
    """A full mesh: a link per ordered pair of endpoints, in every copy."""

    def __init__(self, tier: TierRanks, *, alpha_s: float = 0.0) -> None:
        super().__init__(tier)
        self.alpha_s = alpha_s
        exists = np.tile(~np.eye(self.endpoints, dtype=bool).ravel(), self.copies)
        self.classes = [LinkClass(self.tier, "links", exists, tier.capacity_Bps)]

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        sender, copy = self.split(src)
        receiver, _ = self.split(dst)
        link = (copy * self.endpoints + sender) * self.endpoints + receiver
        yield LinkUse(0, link, np.arange(len(src)), np.ones(len(src)))

    def busiest_of_ranks(self, loads: Sequence[Floats]) -> Floats:
        by_pair = loads[0].reshape(self.ranks, self.ranks)
        busiest: Floats = np.maximum(by_pair.max(axis=1), by_pair.max(axis=0))
        return busiest

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:  # noqa: ARG002
        return np.full(len(src), self.alpha_s), np.ones(len(src), dtype=np.int64)

    def name(self, number: int, resource: int) -> str:  # noqa: ARG002
        """``xgmi 2 -> 5``, with the copy where there are several."""
        # as numbered in uses: (copy, sender, receiver), the last fastest
        of_sender, receiver = divmod(resource, self.endpoints)
        copy, sender = divmod(of_sender, self.endpoints)
        return f"{self._copy_name(copy)} {sender} -> {receiver}"


def tier_of(tiers: Sequence[LinkModel], src: Indices, dst: Indices) -> NDArray[np.int8]:
    """The number of the tier that each message travels on, the innermost with both ranks in one
    domain; -1 for a message from a rank to itself. In nodes of 8 from rank 3 to 5 tier 0, to 12
    tier 1."""
    # -1 or 0, and one more for each tier whose endpoints differ
    tier: NDArray[np.int8] = (src != dst).astype(np.int8) - np.int8(1)
    for outer in tiers[1:]:
        tier += src // outer.inside != dst // outer.inside
    return tier
