"""Weights from one mesh to another: RL's sync from trainer to rollout, resharding, and the load of
a checkpoint.

m senders hold W/m each; n receivers are replicas of r ranks, which need W/r each. Pairs: every
replica pulls from the senders.
Tree: the senders feed one replica, each further one is fed by one before it, chunk by chunk. One
    root: a rank gathers all and
broadcasts. No way moves fewer bytes than W/m out of a sender and W/r into a receiver.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import P2P
from colltool.base.result import Result
from colltool.estimate.assumptions import Readings
from colltool.estimate.interval import Interval, interval_of
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.estimate.results import Overrides
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even

CHUNK = 64 * 2**20  # bytes that a replica passes on at once


class ReshardWay(NamedTuple):
    """One way to move the weights: ``wire`` limits it; bytes out of the busiest sender and into the
    busiest receiver."""

    way: str
    total_s: float
    wire: str
    out_bytes: float
    in_bytes: float
    interval: Interval | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Resharded(Result):
    """What moving ``bytes`` of weights takes, fastest way first; ``least_s``: no way is faster on
    these wires."""

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

    @property
    def best(self) -> ReshardWay:
        return self.ways[0]


class _Wires(NamedTuple):
    """Seconds of a message between two meshes, and what leaves all senders a second; ``level``:
    what that is called."""

    fabric: Fabric
    tier: Tier
    pair: GroupSpec
    all_Bps: float
    level: str

    def message_s(self, size: float) -> float:
        return float(price(self.fabric, P2P, float(max(1.0, size)), self.pair).best.total_s)

    def interval(self, size: float, total_s: float) -> Interval | None:
        """Nobody measured the wires of a whole sync alone."""
        return interval_of(
            self.fabric, P2P, self.pair, size, Readings(), total_s=total_s, runs=False
        )


def reshard(
    job: str,
    weights: float,
    fabric: Fabric,
    senders: int,
    receivers: int,
    replica: int,
    storage_Bps: float | None = None,
) -> Resharded:
    """Each way to bring ``weights`` bytes from senders (or a store) to replicas of ``replica``
    ranks among the receivers.

    Raises:
        ColltoolError: meshes that do not fit the fabric or each other.
    """
    check_even(fabric)
    if receivers % replica:
        what = f"{receivers} receivers are no whole replicas of {replica}"
        raise ColltoolError(
            what,
            argument="replica",
            fix=f"write {given('receivers', ceil(receivers / replica) * replica)}",
        )
    if senders + receivers > fabric.ranks:
        what = f"{senders} and {receivers} ranks do not fit {fabric.name} with {fabric.ranks}"
        raise ColltoolError(what, argument="receivers", fix="fewer, or a larger fabric")
    wires, copies = _wires(fabric, senders, receivers), receivers // replica
    into = weights / replica
    if storage_Bps is not None:
        store, whole = (
            _AllTogether(copies * weights / storage_Bps, "storage"),
            _AllTogether(weights / storage_Bps, "storage"),
        )
        ways = [
            _way("every replica reads the store", wires, 0.0, into, store),
            _way(
                "one replica reads, the others are fed by a tree",
                wires,
                into,
                into,
                whole,
                copies=copies,
            ),
        ]
        least = max(whole.seconds, into / wires.tier.bandwidth)
    else:
        out = weights / senders
        pairs, tree = (
            _AllTogether(weights * count / wires.all_Bps, wires.level) for count in (copies, 1)
        )
        root = _AllTogether(weights / wires.tier.bandwidth, f"{wires.tier.name} of the root")
        ways = [
            _way("pairs", wires, copies * out, into, pairs),
            _way("tree", wires, max(out, into if copies > 1 else 0.0), into, tree, copies=copies),
            _way("one root", wires, weights, weights, root, copies=copies),
        ]
        least = max(
            out / wires.tier.bandwidth, into / wires.tier.bandwidth, weights / wires.all_Bps
        )
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
        least_s=least,
        overrides=fabric.overrides,
    )


class _AllTogether(NamedTuple):
    """What all messages together need of a wire or a store."""

    seconds: float
    name: str


def _way(
    name: str, wires: _Wires, out: float, into: float, shared: _AllTogether, *, copies: int = 1
) -> ReshardWay:
    """The slowest of what a rank sends, what one receives and what all share; a tree adds a chunk
    for each level."""
    each, wire = max(
        (out, f"{wires.tier.name} of a sender"), (into, f"{wires.tier.name} of a receiver")
    )
    took = _AllTogether(wires.message_s(each), wire)
    depth = ceil(log2(copies + 1)) - 1 if copies > 1 else 0
    fill_s = depth * wires.message_s(min(CHUNK, into))
    slowest = max(took, shared)
    total_s = slowest.seconds + fill_s
    return ReshardWay(
        name, total_s, slowest.name, out, into, wires.interval(max(out, into, 1.0), total_s)
    )


def _wires(fabric: Fabric, senders: int, receivers: int) -> _Wires:
    tier = fabric.tiers[-1]
    inside = fabric.ranks // tier.endpoints
    stride = min(max(senders, receivers, inside), fabric.ranks // 2)
    endpoints = ceil((senders + receivers) / inside)
    share, level = 1.0, f"{tier.name} of all senders"
    for one in capabilities_of(tier).classes:
        if one.oversubscription > share:
            share, level = one.oversubscription, f"{tier.name} {one.name}"
        if one.group >= endpoints:
            break
    # what all share is apart
    pair = GroupSpec(2, stride // inside * inside if stride >= inside else stride, alone=True)
    return _Wires(fabric, tier, pair, senders * capabilities_of(tier).rate_Bps / share, level)
