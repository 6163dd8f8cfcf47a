"""What a step sends once: gradient and weight buckets, pipeline borders, updates; and the energy of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from colltool.base.primitives import P2P
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import ParallelConfig

MOST_BUCKETS = 4096


class PassBuckets(NamedTuple):
    """Buckets behind the last backward pass, or before the first forward pass (the same in reverse).

    Buckets of several dimensions share one NIC: their loads add, and the exposed time is shared out by load.
    """

    sent: tuple[PricedCall, ...]
    wires: tuple[str, ...]
    buckets: Buckets
    load_s: float

    def exposed(self, cover_s: float, overhead_s: float) -> list[PricedCall]:
        """The last bucket is always exposed. ``cover_s``: the pass less other traffic; ``overhead_s``: LogP's o of a call."""
        if not self.load_s:
            return list(self.sent)
        share = behind_pass(max(0.0, cover_s), self.buckets, overhead_s).exposed_s / self.load_s
        return [one._replace(exposed_s=share * one.total_s) for one in self.sent]


def of_a_pass(sent: Sequence[PricedCall]) -> PassBuckets:
    wires = tuple(sorted({one.cost.wire for one in sent if one.cost.wire}))
    return PassBuckets(tuple(sent), wires, in_a_row(_in_turn(sent)), sum(one.total_s for one in sent))


def under_all(sent: Sequence[PricedCall], cover_s: float, overhead_s: float) -> list[PricedCall]:
    """Messages that wait only for the step before: T = 2 o + max(T_c, L)."""
    load = sum(one.total_s for one in sent)
    count = sum(one.call.calls for one in sent)
    if not load:
        return list(sent)
    exposed = logp(cover_s, load, overhead_s * count).exposed_s
    return [one._replace(exposed_s=exposed * one.total_s / load) for one in sent]


def all_of_it(sent: Sequence[PricedCall], overhead_s: float) -> list[PricedCall]:
    return [one._replace(exposed_s=one.total_s + 2 * overhead_s * one.call.calls) for one in sent]


def borders(sent: Sequence[PricedCall], config: ParallelConfig, tau_s: float) -> list[PricedCall]:
    """In steady state, messages between stages hide under other micro-batches.

    The first micro-batch waits at every border going forward, the last going back; other messages show what a chunk's compute
    does not cover.
    """
    crossed = borders_crossed(config)
    cover = tau_s / config.chunks / 2
    over = 2 * config.overlap.overhead_s
    return [
        one._replace(exposed_s=crossed * one.each_s + max(0.0, one.call.calls - crossed) * max(0.0, one.each_s - cover)
                     + over * one.call.calls)
        for one in sent
    ]  # fmt: skip


def borders_crossed(config: ParallelConfig) -> int:
    """By one micro-batch: p v - 1, from the last stage to the first one's next chunk; 2 (p - 1) where ZB-V turns back."""
    stages, chunks = config.layout.pp, config.chunks
    return 2 * (stages - 1) if config.folded else stages * chunks - 1


def _in_turn(sent: Sequence[PricedCall]) -> list[float]:
    """Seconds of each bucket in the order they become ready, those of one call evenly over the pass."""
    placed: list[tuple[float, float]] = []
    shrink = max(1.0, sum(one.call.calls for one in sent) / MOST_BUCKETS)
    for one in sent:
        count = max(1, round(one.call.calls / shrink))
        each = one.total_s / count
        placed += [((index + 1) / count, each) for index in range(count)]
    return [takes for _, takes in sorted(placed, key=itemgetter(0))]


class Overlapped(NamedTuple):
    hidden_s: float
    exposed_s: float


def logp(compute_s: float, latency_s: float, overhead_s: float) -> Overlapped:
    """One message under compute: exposed = 2 o + max(0, L - T_compute)."""
    exposed = 2 * overhead_s + max(0.0, latency_s - compute_s)
    return Overlapped(min(latency_s, compute_s), exposed)


class Corner(NamedTuple):
    """A bucket that may set the end: ready after a share of the pass, and it and all behind it take ``rest_s``."""

    ready: float
    rest_s: float


class Buckets(NamedTuple):
    """Buckets sent one after the other; ``corners`` set when the last one ends."""

    calls: int
    total_s: float
    corners: tuple[Corner, ...]


def in_a_row(takes_s: Sequence[float]) -> Buckets:
    """Buckets that become ready evenly over a pass of any length: end_k = max(ready_k, end_(k-1)) + t_k.

    The last end is the maximum over k of ready_k + t_k + t_(k+1) + ...: lines in the length of the pass, so only their upper
    envelope counts. Equal buckets have two, however many there are.
    """
    count, rest = len(takes_s), 0.0
    found: list[Corner] = []
    for index in range(count - 1, -1, -1):
        rest += takes_s[index]
        now = Corner((index + 1) / count, rest)
        while len(found) > 1 and _below(now, found[-1], found[-2]):
            found.pop()
        found.append(now)
    return Buckets(count, rest, tuple(found))


def _below(one: Corner, middle: Corner, other: Corner) -> bool:
    """Whether the middle corner lies below the envelope of the other two."""
    slope = (other.rest_s - one.rest_s) * (middle.ready - one.ready)
    return (middle.rest_s - one.rest_s) * (other.ready - one.ready) <= slope


def behind_pass(pass_s: float, buckets: Buckets, overhead_s: float = 0.0) -> Overlapped:
    """Each call adds 2 o to the pass. The last bucket is ready when the pass ends, so it is always exposed."""
    if not buckets.calls:
        return Overlapped(0.0, 0.0)
    calls_s = 2 * overhead_s * buckets.calls
    exposed = max((pass_s + calls_s) * ready + rest for ready, rest in buckets.corners) - pass_s
    return Overlapped(max(0.0, buckets.total_s + calls_s - exposed), exposed)


def energy_J(config: ParallelConfig, sent: PricedCall) -> float | None:
    """Joules per step of all calls of one kind on the ranks of a pipeline stage; None where no tier it crosses says.

    Without a model all ranks are one stage. Neighbour messages all spend what the worst pair does.
    """
    if sent.cost.energy_J is None:
        return None
    senders = config.layout.ranks / (1 if config.model is None else config.layout.pp)
    return sent.cost.energy_J * senders * sent.call.calls * _that_send(config, sent)


def _that_send(config: ParallelConfig, sent: PricedCall) -> float:
    """The share of ranks that send: the last of a chain does not."""
    call = sent.call
    if call.per == "border":
        return borders_crossed(config) / (config.layout.pp * config.chunks)
    return 1 - 1 / call.group.ranks if call.primitive is P2P and not call.closed else 1.0
