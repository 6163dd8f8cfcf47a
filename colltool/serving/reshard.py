"""Time to move weights from one mesh of ranks to another, or from a store.

Use cases are RL's sync from trainer to rollout, resharding, and loading a checkpoint. m senders hold
W/m bytes each; receivers are replicas of r ranks, which need W/r each. The ways:

- pairs: every replica pulls from the senders;
- tree: the senders feed one replica, and each further one is fed by one before it, chunk by chunk;
- one root: a rank gathers all and broadcasts.

Every way moves at least W/m bytes out of a sender and W/r into a receiver.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import P2P
from colltool.base.result import Result
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.interval import Interval, interval_of
from colltool.estimate.placement import GroupSpec, every_stride, strides
from colltool.estimate.price import price
from colltool.estimate.results import Overrides
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.serving.deployment import check_ranks
from colltool.serving.quantization import WeightFormat

# bytes that a replica of a tree forwards at once; assumed large enough for full bandwidth
CHUNK = 64 * 2**20


class ReshardWay(NamedTuple):
    """A way to move the weights.

    Args:
        wire: the link, level or store that limits it.
        out_bytes: bytes that leave the busiest sender.
        in_bytes: bytes that reach the busiest receiver.
    """

    way: str
    total_s: float
    wire: str
    out_bytes: float
    in_bytes: float
    interval: Interval | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Resharded(Result):
    """Times to move ``bytes`` of weights, the fastest way first; no way is faster than ``least_s``."""

    subject: ClassVar[str] = "serve"
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
        tier: the outermost tier.
        pair: two ranks as far apart as the meshes.
        shared_Bps: bandwidth of all senders together through ``shared_level``, the most
            oversubscribed level between the meshes.
    """

    fabric: Fabric
    tier: Tier
    pair: GroupSpec
    shared_Bps: float
    shared_level: str

    def message_s(self, size: float) -> float:
        return float(price(self.fabric, P2P, float(max(1.0, size)), self.pair).best.total_s)

    def link_s(self, size: float) -> float:
        return size / self.tier.bandwidth

    def shared(self, size: float) -> _Busy:
        return _Busy(size / self.shared_Bps, self.shared_level)

    def way(
        self, name: str, out: float, into: float, shared: _Busy, *, copies: int = 1
    ) -> ReshardWay:
        """A way whose time is the longest of a rank's sends, a rank's receives and shared links.

        Args:
            out, into: bytes out of the busiest sender, and into the busiest receiver.
            shared: how long the shared level or store is busy.
            copies: replicas of a tree, which adds the time of a chunk for each of its levels.
        """
        # with equal bytes at both ends the sender is named as the limit
        size, end = max((out, "sender"), (into, "receiver"))
        slowest = max(_Busy(self.message_s(size), f"{self.tier.name} of a {end}"), shared)
        levels = ceil(log2(copies + 1)) - 1
        total_s = slowest.seconds + levels * self.message_s(min(CHUNK, into))
        # runs=False: nothing was measured of a whole sync
        interval = interval_of(
            self.fabric,
            P2P,
            self.pair,
            max(out, into, 1.0),
            ModelOptions(),
            total_s=total_s,
            runs=False,
        )
        return ReshardWay(name, total_s, slowest.name, out, into, interval)


def reshard(
    job: str,
    weights: float,
    fabric: Fabric,
    senders: int,
    receivers: int,
    replica: int,
    storage_Bps: float | None = None,
    kept: WeightFormat | None = None,
) -> Resharded:
    """Return each way to bring ``weights`` bytes to replicas of ``replica`` ranks.

    They come from ``senders`` ranks, or from a store.

    Raises:
        ColltoolError: meshes that do not fit the fabric or each other.
    """
    check_even(fabric)
    copies = ceil(receivers / replica)
    if receivers % replica:
        what = f"{receivers} receivers do not make whole replicas of {replica} ranks"
        raise ColltoolError(
            what, argument="replica", fix=f"write {argument_text('receivers', copies * replica)}"
        )
    meshes = f"the mesh of {senders} senders and {receivers} receivers"
    check_ranks(fabric, senders + receivers, meshes, "receivers")
    network = _network(fabric, senders, receivers)
    if storage_Bps is not None:
        ways = _ways_from_store(network, weights, storage_Bps, replica, copies)
        narrowest_s = weights / storage_Bps
    else:
        ways = _ways_from_ranks(network, weights, senders, replica, copies)
        narrowest_s = max(network.link_s(weights / senders), network.shared(weights).seconds)
    ways.sort(key=lambda way: way.total_s)
    return Resharded(
        job=job,
        fabric=fabric.name,
        bytes=weights,
        senders=senders,
        receivers=receivers,
        replica=replica,
        storage_Bps=storage_Bps,
        ways=tuple(ways),
        least_s=max(narrowest_s, network.link_s(weights / replica)),
        overrides=fabric.overrides,
        weights=kept,
    )


def _ways_from_store(
    network: _MeshNetwork, weights: float, storage_Bps: float, replica: int, copies: int
) -> list[ReshardWay]:
    into = weights / replica
    once = _Busy(weights / storage_Bps, "storage")
    each = _Busy(copies * weights / storage_Bps, "storage")
    tree = "one replica reads, the others are fed by a tree"
    return [
        network.way("every replica reads the store", 0.0, into, each),
        network.way(tree, into, into, once, copies=copies),
    ]


def _ways_from_ranks(
    network: _MeshNetwork, weights: float, senders: int, replica: int, copies: int
) -> list[ReshardWay]:
    out = weights / senders
    into = weights / replica
    # a replica of a tree forwards what it received, unless it is the only one
    passed_on = into if copies > 1 else 0.0
    root = _Busy(network.link_s(weights), f"{network.tier.name} of the root")
    return [
        network.way("pairs", copies * out, into, network.shared(weights * copies)),
        network.way("tree", max(out, passed_on), into, network.shared(weights), copies=copies),
        network.way("one root", weights, weights, root, copies=copies),
    ]


def _network(fabric: Fabric, senders: int, receivers: int) -> _MeshNetwork:
    tier = fabric.tiers[-1]
    abilities = capabilities_of(tier)
    inside = fabric.ranks // tier.endpoints
    endpoints = ceil((senders + receivers) / inside)
    # the most oversubscribed level that the two meshes need
    oversubscription = 1.0
    level = f"{tier.name} of all senders"
    for part in abilities.classes:
        if part.oversubscription > oversubscription:
            oversubscription = part.oversubscription
            level = f"{tier.name} {part.name}"
        if part.group >= endpoints:
            break
    # two ranks as far apart as the meshes, at the same place of their nodes
    stride = min(max(senders, receivers, inside), fabric.ranks // 2)
    if stride >= inside:
        stride = stride // inside * inside
    if strides(fabric, stride) is None:
        raise _no_such_distance(fabric, senders, receivers, inside)
    # alone: shared_Bps accounts for the other messages
    pair = GroupSpec(2, stride, alone=True)
    shared_Bps = senders * abilities.rate_Bps / oversubscription
    return _MeshNetwork(fabric, tier, pair, shared_Bps, level)


def _no_such_distance(fabric: Fabric, senders: int, receivers: int, inside: int) -> ColltoolError:
    """The error of a mesh whose ranks do not divide the fabric evenly, so that no pair of ranks is
    typical of the distance between the meshes.

    ``inside``: ranks of an endpoint of the outermost tier, which every mesh fills at least.
    """
    mesh = "receivers" if receivers >= senders else "senders"
    ranks = max(senders, receivers)
    known = [stride for stride in every_stride(fabric) if stride >= inside]
    below = [stride for stride in known if stride < ranks]
    above = [stride for stride in known if stride > ranks]
    near = below[-1:] + above[:1]
    verb = "does is" if len(near) == 1 else "do are"
    return ColltoolError(
        f"{ranks} {mesh} do not divide the {fabric.ranks} ranks of {fabric.name} evenly",
        argument=mesh,
        fix=f"the nearest that {verb} {' and '.join(map(str, near))}",
    )
