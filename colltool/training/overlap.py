"""What a step waits for of each collective: what compression leaves, what hides under compute, what
is sent once; and energy."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, assert_never

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, P2P
from colltool.training.calls import Call
from colltool.training.collective_cost import CollectiveCost
from colltool.training.operations import LayerTimes, StageTimes, cut_of, layer_operations
from colltool.training.parallel_config import Compression, ParallelConfig

if TYPE_CHECKING:
    from colltool.training.step_time import TrainingStep

# of a reduce-scatter behind a GEMM in pieces: Transformer Engine's userbuffers with 4 of them
SPLIT_LEFT = 0.25
REGIONS = 2  # of a layer: attention and FFN, each with a gather and a scatter
MOST_BUCKETS = 4096
ROUNDING = 1e-12  # of a time: what a sum of thousands of terms may be off
# lowest and highest share of extra steps to the same accuracy
EXTRA_STEPS = {"fp16": (0.0, 0.0), "int8": (0.05, 0.10), "topk": (0.10, 0.20), "1bit": (0.20, 0.30)}


class PricedCall(NamedTuple):
    """``exposed_s`` and ``hidden_s`` are over the whole step. ``overhead_s``: LogP's 2 o of a call,
    in ``exposed_s`` alone."""

    call: Call
    cost: CollectiveCost
    each_s: float
    exposed_s: float = 0.0
    overhead_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.each_s * self.call.calls

    @property
    def hidden_s(self) -> float:
        """What compute covers of the calls' own time, min(L, T) for one message; 0 where only
        rounding is left."""
        shown_s = max(0.0, self.exposed_s - self.overhead_s * self.call.calls)
        left_s = self.total_s - shown_s
        return left_s if left_s > ROUNDING * self.total_s else 0.0

    @property
    def back(self) -> bool:
        return self.call.phase in ("backward", "again")


class OverlapModel:
    def __init__(self, config: ParallelConfig, times: StageTimes) -> None:
        self.config, self.times = config, times

    def exposed(self, sent: Sequence[PricedCall]) -> list[PricedCall]:
        """The calls of every micro-batch with their exposed seconds; LogP's two overheads a call
        are never hidden."""
        pooled = [one for one in sent if one.call.hides == "other batch"]
        layered = [one for one in sent if one.call.hides == "neighbour layer"]
        alone = [one for one in sent if one.call.hides not in ("neighbour layer", "other batch")]
        found = [one._replace(exposed_s=self._alone(one) * one.call.calls) for one in alone]
        # one batch sends while the other computes, so calls hide under all of a layer's compute
        if pooled:
            layer, load = (
                self._layer(pooled[0].call),
                sum(one.each_s * one.call.each for one in pooled),
            )
            left = (
                max(0.0, load - (layer.all.total_s if layer is not None else 0.0)) / load
                if load
                else 0.0
            )
            found += [one._replace(exposed_s=left * one.total_s) for one in pooled]
        found += self._layered(layered, tuple(found))
        over = 2 * self.config.overlap.overhead_s
        return (
            [one._replace(exposed_s=one.exposed_s + over * one.call.calls) for one in found]
            if over
            else found
        )

    def _layer(self, call: Call) -> LayerTimes | None:
        return self.times.moe if call.per == "moe_layer" else self.times.dense or self.times.moe

    def _alone(self, one: PricedCall) -> float:
        call, layer, cover = one.call, self._layer(one.call), 0.0
        if layer is None:
            return one.each_s
        match call.hides:
            case "nothing":
                pass
            case "split gemm":
                return 0.0 if call.primitive is AG else SPLIT_LEFT * one.each_s
            case "weight gradient":
                cover = layer.gemms.weight_s / REGIONS
            case "attention block":
                # messages a block, times blocks
                blocks = self.config.layout.cp * call.each / max(1, self.config.layout.cp - 1)
                cover = layer.core.of(call.phase) / blocks
            case "shared expert":
                cover = self._shared(call, layer) / REGIONS
            case (
                "neighbour layer"
                | "other batch"
                | "last backward"
                | "first forward"
                | "steady pipeline"
            ):
                raise ValueError(f"{call.hides}: not under a part of its own layer")
            case _:
                assert_never(call.hides)
        return max(0.0, one.each_s - cover)

    def _shared(self, call: Call, layer: LayerTimes) -> float:
        """The shared expert's share, by FLOPs, of the GEMMs that every token passes."""
        shape = self.config.shape
        if shape is None or shape.moe is None or not shape.moe.shared_ffn:
            return 0.0
        flops = {
            one.name: one.flops - one.causal
            for one in layer_operations(shape, cut_of(self.config), experts=True)
        }
        share = flops["shared expert"] / (flops["shared expert"] + flops["attention"])
        return share * layer.gemms.of(call.phase)

    def _layered(
        self, sent: Sequence[PricedCall], others: Sequence[PricedCall]
    ) -> list[PricedCall]:
        """FSDP's gathers and scatters behind the neighbour layer.

        The first gather and the last scatter of a micro-batch are exposed; of every layer what its
        compute does not cover. What others hide there on the same wire takes from the cover: loads
        of one NIC add.
        """
        found: list[PricedCall] = []
        kinds = [
            per for per in ("dense_layer", "moe_layer") if any(one.call.per == per for one in sent)
        ]
        for per, back in ((per, back) for per in kinds for back in (False, True)):
            if unit := [one for one in sent if one.call.per == per and one.back is back]:
                found += self._unit(
                    unit,
                    [one for one in others if one.back is back],
                    back=back,
                    outermost=per == kinds[0],
                )
        for one in (one for one in sent if one.call.per == "micro_batch"):
            regathered = one.back and one.call.primitive is AG
            found.append(one._replace(exposed_s=0.0 if regathered else one.total_s))
        return found

    def _unit(
        self,
        unit: Sequence[PricedCall],
        beside: Sequence[PricedCall],
        *,
        back: bool,
        outermost: bool,
    ) -> list[PricedCall]:
        first, layer, cover, m = unit[0], self._layer(unit[0].call), 0.0, self.config.micro_batches
        load = sum(one.each_s * one.call.each for one in unit)
        if layer is not None:
            cover = layer.all.backward_s + layer.all.again_s if back else layer.all.forward_s
        layers, wire, passes = (
            first.call.calls / first.call.each / m,
            first.cost.wire,
            max(1, self.times.stage.layers) * m,
        )
        # they stretch the layer
        cover += sum(one.exposed_s / passes for one in beside if one.cost.wire != wire)
        cover -= sum(one.hidden_s / passes for one in beside if one.cost.wire == wire)
        left = max(0.0, load - max(0.0, cover)) * layers
        if outermost:  # nothing stands before the first gather, nothing behind the last scatter
            edge = sum(one.each_s for one in unit if one.call.primitive is not AG) if back else load
            left += min(edge, max(0.0, cover))
        share = left / (load * layers) if load else 0.0
        return [one._replace(exposed_s=min(1.0, share) * one.total_s) for one in unit]


class PassBuckets(NamedTuple):
    """Buckets behind the last backward pass, or before the first forward pass (the same in
    reverse).

    Buckets of several dimensions share one NIC: their loads add, and the exposed time is shared out
    by load.
    """

    sent: tuple[PricedCall, ...]
    wires: tuple[str, ...]
    buckets: Buckets
    load_s: float

    def exposed(self, cover_s: float, overhead_s: float) -> list[PricedCall]:
        """The last bucket is always exposed. ``cover_s``: the pass less other traffic;
        ``overhead_s``: LogP's o of a call."""
        if not self.load_s:
            return list(self.sent)
        share = behind_pass(max(0.0, cover_s), self.buckets, overhead_s) / self.load_s
        return [one._replace(exposed_s=share * one.total_s) for one in self.sent]


def of_a_pass(sent: Sequence[PricedCall]) -> PassBuckets:
    """With the seconds of each bucket in the order they become ready, those of one call evenly over
    the pass."""
    placed: list[tuple[float, float]] = []
    shrink = max(1.0, sum(one.call.calls for one in sent) / MOST_BUCKETS)
    for one in sent:
        count = max(1, round(one.call.calls / shrink))
        placed += [((index + 1) / count, one.total_s / count) for index in range(count)]
    in_turn = in_a_row([takes for _, takes in sorted(placed, key=itemgetter(0))])
    wires = tuple(sorted({one.cost.wire for one in sent if one.cost.wire}))
    return PassBuckets(tuple(sent), wires, in_turn, sum(one.total_s for one in sent))


def under_all(sent: Sequence[PricedCall], cover_s: float, overhead_s: float) -> list[PricedCall]:
    """Messages that wait only for the step before: T = 2 o + max(T_c, L)."""
    load = sum(one.total_s for one in sent)
    if not load:
        return list(sent)
    exposed = logp(cover_s, load, overhead_s * sum(one.call.calls for one in sent))
    return [one._replace(exposed_s=exposed * one.total_s / load) for one in sent]


def borders(sent: Sequence[PricedCall], config: ParallelConfig, tau_s: float) -> list[PricedCall]:
    """In steady state, messages between stages hide under other micro-batches.

    The first micro-batch waits at every border going forward, the last going back; other messages
    show what a chunk's compute does not cover.
    """
    crossed, cover, over = (
        borders_crossed(config),
        tau_s / config.chunks / 2,
        2 * config.overlap.overhead_s,
    )
    return [
        one._replace(
            exposed_s=crossed * one.each_s
            + max(0.0, one.call.calls - crossed) * max(0.0, one.each_s - cover)
            + over * one.call.calls
        )
        for one in sent
    ]


def borders_crossed(config: ParallelConfig) -> int:
    """By one micro-batch: p v - 1, from the last stage to the first one's next chunk; 2 (p - 1)
    where ZB-V turns back."""
    stages = config.layout.pp
    return 2 * (stages - 1) if config.folded else stages * config.chunks - 1


def logp(compute_s: float, latency_s: float, overhead_s: float) -> float:
    """What shows of one message under compute: 2 o + max(0, L - T_compute)."""
    return 2 * overhead_s + max(0.0, latency_s - compute_s)


class Buckets(NamedTuple):
    """Buckets sent one after the other.

    Each corner is a bucket that may set the end: ready after a share of the pass, and the seconds
    that it and all behind it take.
    """

    calls: int
    corners: tuple[tuple[float, float], ...]


def in_a_row(takes_s: Sequence[float]) -> Buckets:
    """Buckets that become ready evenly over a pass of any length: end_k = max(ready_k, end_(k-1)) +
    t_k.

    The last end is the maximum over k of ready_k + t_k + t_(k+1) + ...: lines in the length of the
    pass, so only their upper envelope counts. Equal buckets have two, however many there are.
    """
    count, rest = len(takes_s), 0.0
    found: list[tuple[float, float]] = []

    def below(
        one: tuple[float, float], middle: tuple[float, float], other: tuple[float, float]
    ) -> bool:
        return (middle[1] - one[1]) * (other[0] - one[0]) <= (other[1] - one[1]) * (
            middle[0] - one[0]
        )

    for index in range(count - 1, -1, -1):
        rest += takes_s[index]
        now = (index + 1) / count, rest
        while len(found) > 1 and below(now, found[-1], found[-2]):
            found.pop()
        found.append(now)
    return Buckets(count, tuple(found))


def behind_pass(pass_s: float, buckets: Buckets, overhead_s: float = 0.0) -> float:
    """What shows behind a pass; a call adds 2 o to it. The last bucket is ready when the pass ends,
    so it is always exposed."""
    if not buckets.calls:
        return 0.0
    whole_s = pass_s + 2 * overhead_s * buckets.calls
    return max(whole_s * ready + rest for ready, rest in buckets.corners) - pass_s


def energy_J(config: ParallelConfig, sent: PricedCall) -> float | None:
    """Joules per step of all calls of one kind on the ranks of a pipeline stage; None where no tier
    it crosses says.

    Without a model all ranks are one stage. Neighbour messages all spend what the worst pair does.
    """
    call, share = sent.call, 1.0
    if sent.cost.energy_J is None:
        return None
    if call.per == "border":
        share = borders_crossed(config) / (config.layout.pp * config.chunks)
    elif call.primitive is P2P and not call.closed:
        share = 1 - 1 / call.group.ranks  # the last of a chain does not send
    senders = config.layout.ranks / (1 if config.model is None else config.layout.pp)
    return sent.cost.energy_J * senders * call.calls * share


def ratio(
    scheme: str, *, block: int | None = None, keep: float | None = None, warmup: float | None = None
) -> float:
    """Compression ratio of 4-byte elements; it divides the bandwidth term only.

    fp16 2; int8 4, with a scale per block of b 4b/(b+4); 1-bit 32; top-k with 4-byte indices 1/(2
    keep); 1-bit Adam with a share w of uncompressed steps 1/(w + (1-w)/32).

    >>> ratio("int8", block=128), ratio("topk", keep=0.001)
    (3.878787878787879, 500.0)
    """
    if scheme == "int8" and block is not None:
        return 4 * block / (block + 4)
    if scheme == "topk":
        return 1 / (2 * (keep or 1.0))
    if scheme == "1bit-adam":
        whole = warmup or 0.0
        return 1 / (whole + (1 - whole) / 32)
    return {"fp16": 2.0, "int8": 4.0, "1bit": 32.0}[scheme]


def ratio_of(given: Compression) -> float:
    return given.realised or ratio(
        given.scheme, block=given.block, keep=given.keep, warmup=given.warmup
    )


def times_fewer(config: ParallelConfig) -> float:
    """The ratio for the element width that the job sends, or the one that was realised; at least
    1."""
    assert config.compression is not None
    if config.compression.realised is not None:
        return config.compression.realised
    width = (
        config.shard.grad_bytes
        if config.compression.on == "dp"
        else config.precision.activation_bytes
    )
    return max(1.0, ratio_of(config.compression) * width / 4)


def is_compressed(given: Compression, call: Call) -> bool:
    """On dp only gradients, not the gathered weights; on other dimensions everything."""
    if given.on == "dp":
        return call.dimension in ("dp", "expert dp") and call.primitive is not AG
    return call.dimension == given.on


def priced(call: Call, cost: CollectiveCost, config: ParallelConfig) -> PricedCall:
    """As it is sent: compressed where the job asks for that."""
    over = 2 * config.overlap.overhead_s
    if config.compression is None or not is_compressed(config.compression, call):
        return PricedCall(call, cost, cost.each_s, overhead_s=over)
    fewer = times_fewer(config)
    small_s, _ = compressed(
        cost.each_s, fewer, config.compression.overhead_s, fixed_s=cost.latency_s
    )
    return PricedCall(call, cost.scaled(1 / fewer), small_s, overhead_s=over)


def compressed(
    collective_s: float, ratio: float, overhead_s: float, fixed_s: float = 0.0
) -> tuple[float, float]:
    """t' = fixed + (t - fixed)/r + overhead, and the overhead above which it does not pay.

    ``fixed_s``: the part of t that is not bandwidth, such as latency and launch.
    """
    return fixed_s + (collective_s - fixed_s) / ratio + overhead_s, (collective_s - fixed_s) * (
        1 - 1 / ratio
    )


def time_to_accuracy(
    steps: float, compute_s: float, collective_s: float, extra_steps: float = 0.0
) -> float:
    """S (1 + x)(T_c + t), with a share x of extra steps."""
    return steps * (1 + extra_steps) * (compute_s + collective_s)


def break_even_extra_steps(compute_s: float, before_s: float, after_s: float) -> float:
    """The share of extra steps at which compression gains nothing: (T_c + t)/(T_c + t') - 1.

    >>> round(break_even_extra_steps(0.3, 0.2, 0.05), 4)
    0.4286
    """
    return (compute_s + before_s) / (compute_s + after_s) - 1


class GradientCompression(NamedTuple):
    given: Compression
    ratio: float  # of 4-byte elements
    times_fewer: float  # for the element width that is sent
    each_s: float  # of the longest call
    plain_each_s: float  # the same uncompressed
    largest_overhead_s: float  # a larger one makes that call slower than uncompressed
    step_s: float
    plain_step_s: float
    control_s: float
    break_even_extra_steps: float  # share of extra steps at which a run gains nothing

    @property
    def pays(self) -> bool:
        return self.given.overhead_s < self.largest_overhead_s

    @property
    def gains(self) -> bool:
        return self.given.extra_steps < self.break_even_extra_steps

    def run_s(self, steps: int) -> float:
        """Seconds to the accuracy of ``steps`` uncompressed steps, extra steps included."""
        return time_to_accuracy(
            steps, self.control_s, self.step_s - self.control_s, self.given.extra_steps
        )

    def plain_run_s(self, steps: int) -> float:
        return time_to_accuracy(steps, self.control_s, self.plain_step_s - self.control_s)


def gradient_compression(
    config: ParallelConfig, now: TrainingStep, without: TrainingStep
) -> GradientCompression | None:
    """``without`` is the same step uncompressed. None without compression; ColltoolError where its
    dimension sends nothing."""
    given = config.compression
    if given is None:
        return None
    calls = [
        one for stage in without.stages for one in stage.sent if is_compressed(given, one.call)
    ]
    longest = max(calls, key=lambda one: one.each_s, default=None)
    if longest is None:
        fix = "another dimension of compression.on, or no compression"
        raise ColltoolError(
            f"compression is on {given.on}, and no collective of the job is of it", fix=fix
        )
    fewer = times_fewer(config)
    each_s, largest_s = compressed(
        longest.each_s, fewer, given.overhead_s, fixed_s=longest.cost.latency_s
    )
    network = without.step_s - without.control_s, now.step_s - now.control_s
    return GradientCompression(
        given=given,
        ratio=ratio_of(given),
        times_fewer=fewer,
        each_s=each_s,
        plain_each_s=longest.each_s,
        largest_overhead_s=largest_s,
        step_s=now.step_s,
        plain_step_s=without.step_s,
        control_s=now.control_s,
        break_even_extra_steps=(
            break_even_extra_steps(now.control_s, *network) if now.step_s else 0.0
        ),
    )
