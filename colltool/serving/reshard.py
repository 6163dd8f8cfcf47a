"""Time to move weights from one mesh of ranks to another, or from a store.

Use cases are RL's sync from trainer to rollout, resharding, and loading a checkpoint. m senders hold
W/m bytes each; receivers are replicas of r ranks, which need W/r each. The schedules:

- pairs: every replica pulls from the senders;
- tree: the senders feed one replica, and each further one is fed by one before it, chunk by chunk;
- one root: a rank gathers all and broadcasts;
- broadcast: the receivers hold a part each in their hosts, and every one gets all.

Each moves at least W/m bytes out of a sender and W/r into a receiver, the last one all of W into each
node. A way is a schedule as a library runs it; what it takes besides its wire, and the measurements
behind that, are in :mod:`colltool.serving.syncs` (a :class:`SyncLaw` for each way).

:func:`reshard` is the way in; :class:`_MeshNetwork` prices what crosses the network between the two
meshes, :class:`_Syncs` the ways of senders, and :func:`_ways_from_store` those of a store.
"""

from __future__ import annotations

from math import ceil, log2
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import P2P
from colltool.base.result import Result, result
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.interval import Interval, interval_of
from colltool.estimate.placement import GroupSpec, every_stride
from colltool.estimate.price import price
from colltool.estimate.results import Overrides
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.serving.deployment import check_ranks
from colltool.serving.quantization import WeightFormat
from colltool.serving.syncs import PLAIN, SyncedWeights, SyncLaw, sync_law, sync_laws

# Bytes that a replica of a tree forwards at once; assumed large enough for full bandwidth
CHUNK = 64 * 2**20


class ReshardWay(NamedTuple):
    """A way to move the weights.

    Args:
        way: its name for people.
        total_s: seconds in all.
        wire: the link, level or store that limits it.
        out_bytes: bytes that leave the busiest sender.
        in_bytes: bytes that reach the busiest receiver.
        interval: where nine of ten times lie; None if unknown.
        library: what was measured; empty for a store, of which only the wire is priced.
        wire_s, start_s, tensors_s, load_s: parts of ``total_s``: bytes on the wire; pause, plan and
            resume; the time that each tensor takes whatever its bytes; into the serving engine.
    """

    way: str
    total_s: float
    wire: str
    out_bytes: float
    in_bytes: float
    interval: Interval | None = None
    library: str = ""
    wire_s: float = 0.0
    start_s: float = 0.0
    tensors_s: float = 0.0
    load_s: float = 0.0

    @property
    def decided_by(self) -> str:
        """What takes most of it: ``wire``, ``start``, ``tensors`` or ``load``."""
        parts = {
            "wire": self.wire_s,
            "start": self.start_s,
            "tensors": self.tensors_s,
            "load": self.load_s,
        }
        return max(parts, key=parts.__getitem__)


@result
class Resharded(Result):
    """Times to move ``bytes`` of weights, the fastest way first; no way is faster than ``least_s``.

    Args:
        senders, receivers: ranks of the two meshes.
        replica: ranks of a replica of the receivers.
        storage_Bps: total rate of the store that the weights come from; None for senders.
        ways: pairs, tree and one root; or the one that was asked for; or the two ways from a store.
        weights: their format; None if the user gave bytes.
        others: what engines of weights have measured, the fastest first.
        experts, plain_layers: tensors of the weights: experts of all layers, and layers without.
    """

    subject: ClassVar[str] = "reshard"
    job: str
    fabric: str
    bytes: float
    senders: int
    receivers: int
    replica: int
    storage_Bps: float | None
    ways: tuple[ReshardWay, ...]
    least_s: float
    overrides: Overrides = ()
    weights: WeightFormat | None = None
    others: tuple[ReshardWay, ...] = ()
    experts: int = 0
    plain_layers: int = 0

    @property
    def best(self) -> ReshardWay:
        return self.ways[0]


class _Busy(NamedTuple):
    """Seconds that a link, a level or a store is busy; compares by them."""

    seconds: float
    name: str


class _MeshNetwork(NamedTuple):
    """The network between two meshes.

    Args:
        tier: the innermost tier that joins both meshes.
        domain_ranks: ranks behind an endpoint of the tier.
        pair: two ranks as far apart as the meshes.
        shared_Bps: bandwidth of all senders together through ``shared_level``, the most
            oversubscribed level between the meshes.
    """

    fabric: Fabric
    tier: Tier
    domain_ranks: int
    pair: GroupSpec
    shared_Bps: float
    shared_level: str

    def message_s(self, size: float) -> float:
        """Seconds of a message of ``size`` bytes, at least one, between the meshes."""
        return float(price(self.fabric, P2P, float(max(1.0, size)), self.pair).best.total_s)

    def link_s(self, size: float) -> float:
        """Least seconds of ``size`` bytes in or out of a rank: at the rated speed of its link, or as
        a message, which takes several links at once where two ranks have them."""
        return min(size / self.tier.bandwidth, self.message_s(size))

    def shared(self, size: float) -> _Busy:
        """How long the shared level takes for ``size`` bytes of all senders together."""
        return _Busy(size / self.shared_Bps, self.shared_level)

    def way(
        self, name: str, out_bytes: float, in_bytes: float, shared: _Busy, *, copies: int = 1
    ) -> ReshardWay:
        """A way whose time is the longest of a rank's sends, a rank's receives and shared links.

        Args:
            out_bytes, in_bytes: out of the busiest sender, and into the busiest receiver.
            shared: how long the shared level or store is busy.
            copies: replicas of a tree, which adds the time of a chunk for each of its levels but
                the first: 1 for 2 replicas, 2 for 4 to 7.
        """
        # with equal bytes at both ends max takes the later word, and names the sender as the limit
        size, end = max((out_bytes, "sender"), (in_bytes, "receiver"))
        slowest = max(_Busy(self.message_s(size), f"{self.tier.name} of a {end}"), shared)
        levels = ceil(log2(copies + 1)) - 1
        total_s = slowest.seconds + levels * self.message_s(min(CHUNK, in_bytes))
        return ReshardWay(name, total_s, slowest.name, out_bytes, in_bytes, wire_s=total_s)

    def wire_interval(self, way: ReshardWay) -> Interval | None:
        """Where the time of a way of wire alone lies, as of a message as large as the bytes of its
        busiest rank; None if unknown."""
        return interval_of(
            self.fabric,
            P2P,
            self.pair,
            max(way.out_bytes, way.in_bytes, 1.0),
            ModelOptions(),
            total_s=way.total_s,
            # nothing was measured of a whole sync
            runs=False,
        )


def reshard(
    job: str,
    weights: SyncedWeights,
    fabric: Fabric,
    senders: int,
    receivers: int,
    replica: int,
    storage_Bps: float | None = None,
    weight_format: WeightFormat | None = None,
    way: str | None = None,
) -> Resharded:
    """Return each way to bring weights to replicas of ``replica`` ranks.

    They come from ``senders`` ranks, or from a store.

    Args:
        job: the name of the model or job, as the result repeats it.
        storage_Bps: total rate of the store; None where the senders have the weights.
        weight_format: the format of the weights, as the result repeats it.
        way: the only one to price; None for all.

    Raises:
        ColltoolError: meshes that do not fit the fabric or each other, an unknown way.
    """
    check_even(fabric)
    # replicas; rounded up for the error's fix, behind the check a whole quotient
    copies = ceil(receivers / replica)
    if receivers % replica:
        raise ColltoolError(
            f"{receivers} receivers do not make whole replicas of {replica} ranks",
            argument="replica",
            fix=f"write {argument_text('receivers', copies * replica)}",
        )
    laws = sync_laws() if way is None else (sync_law(way),)
    # the receivers of a broadcast hold the weights themselves
    is_broadcast = way is not None and laws[0].schedule == "broadcast"
    sending_ranks = 0 if is_broadcast else senders
    meshes = f"the mesh of {sending_ranks} senders and {receivers} receivers"
    check_ranks(fabric, sending_ranks + receivers, meshes, "receivers")
    network = _mesh_network(fabric, senders, receivers)
    others: list[ReshardWay] = []
    if storage_Bps is not None:
        ways = _ways_from_store(network, weights.bytes, storage_Bps, replica, copies)
        narrowest_s = weights.bytes / storage_Bps
    else:
        syncs = _Syncs(network, weights, senders, receivers, replica)
        priced = [syncs.way(law) for law in laws]
        # the ways that any library has; or the one that was asked for, whoever has it
        ways = [sync for sync in priced if way is not None or sync.way in PLAIN]
        others = [sync for sync in priced if sync not in ways]
        out_of_sender_s = network.link_s(weights.bytes / senders)
        narrowest_s = max(out_of_sender_s, network.shared(weights.bytes).seconds)
    ways.sort(key=lambda sync: sync.total_s)
    others.sort(key=lambda sync: sync.total_s)
    return Resharded(
        job=job,
        fabric=fabric.name,
        bytes=weights.bytes,
        senders=senders,
        receivers=receivers,
        replica=replica,
        storage_Bps=storage_Bps,
        ways=tuple(ways),
        least_s=max(narrowest_s, network.link_s(weights.bytes / replica)),
        overrides=fabric.overrides,
        weights=weight_format,
        others=tuple(others),
        experts=weights.experts,
        plain_layers=weights.plain_layers,
    )


def _ways_from_store(
    network: _MeshNetwork, weights_bytes: float, storage_Bps: float, replica: int, copies: int
) -> list[ReshardWay]:
    """Both ways from a store of ``storage_Bps`` in all: read by every replica, or by one."""
    rank_bytes = weights_bytes / replica
    one_read = _Busy(weights_bytes / storage_Bps, "storage")
    every_read = _Busy(copies * weights_bytes / storage_Bps, "storage")
    tree = "one replica reads, the others are fed by a tree"
    ways = [
        network.way("every replica reads the store", 0.0, rank_bytes, every_read),
        network.way(tree, rank_bytes, rank_bytes, one_read, copies=copies),
    ]
    return [way._replace(interval=network.wire_interval(way)) for way in ways]


class _Syncs(NamedTuple):
    """Syncs from a mesh of ``senders`` ranks to one of ``receivers``, ``replica`` ranks a replica."""

    network: _MeshNetwork
    weights: SyncedWeights
    senders: int
    receivers: int
    replica: int

    def way(self, law: SyncLaw) -> ReshardWay:
        """The sync by a way: its wire, and what it takes besides."""
        # that take part, by which the law's times and its measurements go
        ranks = self.senders + self.receivers
        if law.schedule == "broadcast":
            ranks = self.receivers
        on_wire = self._on_the_wire(law)
        times = law.times(self.weights, ranks)
        total_s = on_wire.total_s + sum(times)
        # a lower end for the interval: an even part of the bytes at the rated speed of a link
        least_s = self.network.link_s(self.weights.bytes * law.sent / max(self.replica, ranks))
        gpu = self.network.fabric.device
        interval = law.interval(total_s, least_s, self.weights, ranks, gpu)
        # times has the parts start_s, tensors_s and load_s
        return on_wire._replace(
            library=law.library, total_s=total_s, interval=interval, **times._asdict()
        )

    def _on_the_wire(self, law: SyncLaw) -> ReshardWay:
        """A way by its schedule, with the wire alone."""
        name = law.way
        network = self.network
        sent_bytes = self.weights.bytes * law.sent
        copies = self.receivers // self.replica
        out_bytes = sent_bytes / self.senders
        in_bytes = sent_bytes / self.replica
        if law.schedule == "pairs":
            shared = network.shared(sent_bytes * copies)
            return network.way(name, copies * out_bytes, in_bytes, shared)
        if law.schedule == "tree":
            # a replica of a tree forwards what it received, unless it is the only one
            if copies > 1:
                out_bytes = max(out_bytes, in_bytes)
            shared = network.shared(sent_bytes)
            return network.way(name, out_bytes, in_bytes, shared, copies=copies)
        if law.schedule == "one root":
            root = _Busy(network.link_s(sent_bytes), f"{network.tier.name} of the root")
            return network.way(name, sent_bytes, sent_bytes, root, copies=copies)
        return self._broadcast(name, sent_bytes)

    def _broadcast(self, name: str, sent_bytes: float) -> ReshardWay:
        """Every receiver gets all: into a node by the links of all its ranks, and inside by its
        own.

        Of 16 GB, in 4 nodes of 8 ranks, 3/4 come from other nodes: 1.5 GB by the link of a rank.
        """
        # among the receivers alone: one of them sends, the others receive
        network = _mesh_network(self.network.fabric, 1, self.receivers - 1)
        nodes = ceil(self.receivers / network.domain_ranks)
        link_bytes = sent_bytes * (1 - 1 / nodes) / network.domain_ranks
        return network.way(name, link_bytes, link_bytes, network.shared(link_bytes))


def _mesh_network(fabric: Fabric, senders: int, receivers: int) -> _MeshNetwork:
    """The network between two meshes: the innermost tier that joins all their ranks."""
    domain_ranks = 1
    for tier in fabric.tiers:
        if domain_ranks * tier.endpoints >= senders + receivers and tier.endpoints > 1:
            break
        domain_ranks *= tier.endpoints
    # where no tier holds all ranks, the loop has counted the endpoints of the outermost one too
    domain_ranks = min(domain_ranks, fabric.ranks // tier.endpoints)
    abilities = capabilities_of(tier)
    shared = _shared_uplinks(tier, domain_ranks, ceil((senders + receivers) / domain_ranks))
    # 24 senders that share uplinks by 16: 16 of them have 16 / oversubscription ports, the other 8
    # as many, but no more than their own
    full_groups, more = divmod(senders, shared.ranks)
    group_ports = shared.ranks / shared.oversubscription
    # rounds otherwise than full_groups * group_ports
    ports = full_groups * shared.ranks / shared.oversubscription + min(more, group_ports)
    # two ranks as far apart as the meshes, at the same place of their nodes
    distance = max(senders, receivers, domain_ranks) // domain_ranks * domain_ranks
    tier_ranks = domain_ranks * tier.endpoints
    strides = [step for step in every_stride(fabric) if domain_ranks <= step < tier_ranks]
    stride = next((step for step in strides if step >= distance), strides[-1])
    # alone: shared_Bps accounts for the other messages
    pair = GroupSpec(2, stride, alone=True)
    shared_Bps = ports * abilities.rate_Bps
    return _MeshNetwork(fabric, tier, domain_ranks, pair, shared_Bps, shared.level)


class _SharedUplinks(NamedTuple):
    """A level of a tier, and how many ranks below it share its uplinks."""

    level: str
    ranks: int
    oversubscription: float


def _shared_uplinks(tier: Tier, domain_ranks: int, endpoints: int) -> _SharedUplinks:
    """The most oversubscribed level that so many endpoints of a tier need to reach each other."""
    most = _SharedUplinks(f"{tier.name} of all senders", domain_ranks, 1.0)
    below = domain_ranks
    # classes of pairs of endpoints, the nearest first
    for part in capabilities_of(tier).classes:
        if part.oversubscription > most.oversubscription:
            most = _SharedUplinks(f"{tier.name} {part.name}", below, part.oversubscription)
        if part.group >= endpoints:
            break
        below = part.group * domain_ranks
    return most
