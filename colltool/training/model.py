"""A transformer and its parameter counts; a device, a software stack, and times of kernels.

In this order: :class:`TransformerModel` with its :class:`Shape`, and :func:`layer_parameters`;
:class:`Accelerator` and :class:`Stack`; kernels. The first three are made from the files of a job, by
:func:`transformer_of`, :func:`accelerator_of` and :func:`stack_of`. Kernel times (:func:`gemm_s`,
:func:`core_s`, :func:`moved_s`) follow a roofline: FLOPs at the share of a device's peak that a stack
reaches, or bytes at a share of its memory bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, exp, log
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.files import (
    BYTES,
    DeviceFile,
    MlaFile,
    ModelFile,
    MoeFile,
    OperationFile,
    Recompute,
    StackFile,
    TensorOverlap,
)
from colltool.training.measured_gemms import MeasuredGemm
from colltool.training.mixers import Mixer

# precisions of GEMMs beside which attention and the head stay in 16 bits
EIGHT_BITS = ("fp8", "int8", "fp4")
BYTES_OF_ADAM = 8.0  # of a parameter: two moments in fp32


class Moe(NamedTuple):
    """The experts of a model's layers."""

    experts: int
    top_k: int  # experts that a token visits
    ffn: int  # width of one expert
    shared_ffn: int = 0  # width of the part that every token passes
    dense_layers: int = 0  # layers without experts
    imbalance: float = 1.0  # the busiest rank's load over the mean
    groups: int = 1  # of experts, where routing is limited to some of them
    top_groups: int = 1  # groups that a token's experts are in, at most
    imbalance_given: bool = True  # else it is DEFAULT_IMBALANCE
    spread: bool = False  # dense layers are between those with experts, not before them
    latent: int = 0  # elements of a token that experts take; 0: those of the hidden size

    @property
    def reached(self) -> float:
        """Share of the groups that a token's experts may be in."""
        return self.top_groups / self.groups


# the busiest rank's load over the mean where a job does not say: expert by expert 1.04
# (bias-controlled) to 1.7 (auxiliary loss) in arXiv:2408.15664, table 2; a rank holds several,
# whose loads even out
DEFAULT_IMBALANCE = 1.1


class Mla(NamedTuple):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of its bottlenecks and
    sizes of a head."""

    q_rank: int  # 0: queries are not compressed, as in DeepSeek-V2-Lite
    kv_rank: int
    nope: int
    rope: int
    value: int


class Shape(NamedTuple):
    """Sizes of a transformer's layers, embedding and head."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    matrices: int  # of the FFN; 3 where it is gated
    vocab: int
    tied: bool = False
    bias: bool = False
    dropout: bool = False
    positions: int = 0  # learned position embeddings
    moe: Moe | None = None
    mla: Mla | None = None
    window: int = 0  # keys that a query sees; 0: all before it
    windowed: float = 0.0  # share of layers with the window
    mixers: tuple[Mixer, ...] = ()  # where its layers have other operations than attention
    fed: float = 1.0  # share of the layers without experts that have an FFN

    @property
    def norm(self) -> int:
        """Parameters of a norm."""
        return self.hidden * (2 if self.bias else 1)

    @property
    def attention(self) -> Mixer:
        """Attention of its heads, in every layer."""
        sizes = {"hidden": self.hidden, "heads": self.heads, "kv_heads": self.kv_heads}
        kind = "attention"
        if self.mla is None:
            sizes |= {"head_dim": self.head_dim, "value_dim": self.head_dim}
        else:
            kind = "latent attention"
            sizes |= self.mla._asdict()
            sizes["query_inputs"] = self.mla.q_rank or self.hidden
        return Mixer(kind, tuple(sizes.items()), window=self.window, windowed=self.windowed)

    @property
    def parts(self) -> tuple[Mixer, ...]:
        """What mixes the tokens in its layers."""
        return self.mixers or (self.attention,)

    def keys(self, sequence: int) -> float:
        """Keys that a query of attention in every layer sees, averaged over queries and layers."""
        return self.attention.keys(sequence)


class TransformerModel(NamedTuple):
    """A model: its layers with their shape, or only their number and all parameters."""

    name: str
    layers: int
    shape: Shape | None  # None: only layers and parameters are known
    given_parameters: float | None = None
    left_out: tuple[str, ...] = ()  # parts of the model that are not counted
    weights: str = "bf16"  # format of the published checkpoint

    @property
    def parameters(self) -> float:
        if self.given_parameters is not None:
            return self.given_parameters
        return float(parameters(self))

    @property
    def dense_layers(self) -> int:
        if self.shape is None or self.shape.moe is None:
            return self.layers
        return self.shape.moe.dense_layers

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers

    @property
    def spread(self) -> bool:
        """Whether dense layers are between those with experts."""
        return self.shape is not None and self.shape.moe is not None and self.shape.moe.spread

    def has_experts(self, layer: int) -> bool:
        before = dense_before(layer, self.layers, self.dense_layers, spread=self.spread)
        after = dense_before(layer + 1, self.layers, self.dense_layers, spread=self.spread)
        return before == after


def dense_before(position: int, layers: int, dense: int, *, spread: bool) -> int:
    """Return how many of the layers before a position have no experts: the first ones, or every
    so-manieth."""
    if not spread:
        return min(position, dense)
    return position - position * (layers - dense) // layers


class LayerParameters(NamedTuple):
    """Parameters of one layer by how tensor parallelism holds them."""

    split: float  # in t parts
    whole: float  # on every rank
    experts: float = 0.0
    looked_up: float = 0.0  # in t parts, of which a token reads a row

    def on(self, tp: int = 1, ep: int = 1, etp: int = 1) -> tuple[float, float]:
        dense = (self.split + self.looked_up) / tp + self.whole
        return dense, self.experts / (ep * etp)


def ffn_parameters(shape: Shape, width: int, hidden: int = 0) -> float:
    """Parameters of an FFN of a width, on ``hidden`` elements of a token if not all."""
    biases = width if shape.bias else 0
    return float(shape.matrices * (hidden or shape.hidden) * width + biases)


def expert_parameters(shape: Shape, moe: Moe) -> float:
    """Parameters of one expert."""
    return ffn_parameters(shape, moe.ffn, moe.latent)


@lru_cache(maxsize=64)
def layer_parameters(shape: Shape, *, experts: bool) -> LayerParameters:
    """Parameters of a dense layer, or of one with experts."""
    # norms before attention and before the FFN
    whole = 2.0 * shape.norm
    split = table = 0.0
    for mixer in shape.parts:
        mixed = _mixer_parameters(shape, mixer)
        split += mixer.share * mixed.split
        whole += mixer.share * mixed.whole
        table += mixer.share * mixed.looked_up
    if shape.bias:
        whole += shape.hidden
    if not experts or shape.moe is None:
        split += shape.fed * ffn_parameters(shape, shape.ffn)
        return LayerParameters(split, whole, looked_up=table)
    moe = shape.moe
    if moe.shared_ffn:
        split += ffn_parameters(shape, moe.shared_ffn)
    # the router, and the way into a narrower space and back
    whole += shape.hidden * (moe.experts + 2 * moe.latent)
    experts_of_layer = moe.experts * expert_parameters(shape, moe)
    return LayerParameters(split, whole, experts_of_layer, table)


def _mixer_parameters(shape: Shape, mixer: Mixer) -> LayerParameters:
    """Parameters of attention, or of what a layer has in its place."""
    sizes = mixer.on()
    split = mixer.split_parameters()
    whole = mixer.whole_matrices() + sizes.value(mixer.row.small)
    if shape.bias and mixer.row.attends and not mixer.row.whole:
        split += mixer.row.split[0].width(sizes.sizes)
        whole += shape.hidden
    return LayerParameters(split, whole, looked_up=sizes.value(mixer.row.table))


def ends_of(shape: Shape, tp: int = 1, *, embedding: bool = True, head: bool = True) -> float:
    """Parameters of embedding and head, with the norm before it; without the embedding a tied head
    is a copy of its own."""
    table = shape.vocab * shape.hidden / tp
    total = 0.0
    if embedding:
        total += table + shape.positions * shape.hidden
    if head:
        separate = not shape.tied or not embedding
        total += (table if separate else 0.0) + shape.norm
    return total


def parameters(model: TransformerModel) -> float:
    """Parameters of a whole model."""
    shape = model.shape
    assert shape is not None
    total = ends_of(shape)
    total += model.dense_layers * sum(layer_parameters(shape, experts=False))
    return total + model.moe_layers * sum(layer_parameters(shape, experts=True))


def active_parameters(model: TransformerModel) -> float:
    """Parameters that one token passes: of the experts, ``top_k``."""
    shape = model.shape
    if shape is None or shape.moe is None:
        return model.parameters
    # experts that a token does not visit
    idle = (shape.moe.experts - shape.moe.top_k) * expert_parameters(shape, shape.moe)
    return model.parameters - model.moe_layers * idle


def transformer_of(file: ModelFile, name: str = "") -> TransformerModel:
    """A model from its file; ``name`` where the file has none."""
    model_name = file.name or name or "model"
    return TransformerModel(
        model_name,
        file.layers,
        _shape(file),
        file.parameters,
        file.left_out,
        file.weights,
    )


def _shape(file: ModelFile) -> Shape | None:
    """The shape of a model; None where only its size is known."""
    if file.hidden is None or file.heads is None or file.ffn is None or file.vocab is None:
        return None
    windowed = 0.0
    if file.window:
        layers = file.layers if file.windowed_layers is None else file.windowed_layers
        windowed = layers / file.layers
    shape = Shape(
        hidden=file.hidden,
        heads=file.heads,
        kv_heads=file.kv_heads or file.heads,
        head_dim=file.head_dim or max(1, file.hidden // file.heads),
        ffn=file.ffn,
        matrices=3 if file.gated else 2,
        vocab=file.vocab,
        tied=file.tied,
        bias=file.bias,
        dropout=file.bias if file.dropout is None else file.dropout,
        positions=file.positions,
        moe=_moe_of(file.moe) if file.moe else None,
        mla=_mla_of(file.mla) if file.mla else None,
        window=file.window or 0,
        windowed=windowed,
    )
    fed = 1.0 if file.ffn else 0.0
    if file.ffn_layers is not None:
        # layers with experts have no dense FFN
        dense = file.moe.dense_layers if file.moe else file.layers
        fed = file.ffn_layers / dense if dense else 1.0
    mixers = []
    for operation in file.operations:
        mixers.append(_mixer_of(operation, shape, file.layers))
    return shape._replace(mixers=tuple(mixers), fed=fed)


def _mixer_of(file: OperationFile, shape: Shape, layers: int) -> Mixer:
    """An operation with its sizes; those of attention are the model's unless given."""
    sizes = dict(shape.attention.sizes) | file.sizes
    if "head_dim" in file.sizes:
        sizes["value_dim"] = file.sizes.get("value_dim", file.sizes["head_dim"])
    return Mixer(
        file.operation,
        tuple(sizes.items()),
        share=file.layers / layers,
        window=file.window or 0,
        chunked=file.chunked,
    )


def _mla_of(file: MlaFile) -> Mla:
    return Mla(file.q_rank, file.kv_rank, file.nope, file.rope, file.value)


def _moe_of(file: MoeFile) -> Moe:
    return Moe(
        experts=file.experts,
        top_k=file.top_k,
        ffn=file.ffn,
        shared_ffn=file.shared_ffn,
        dense_layers=file.dense_layers,
        groups=file.groups,
        imbalance=DEFAULT_IMBALANCE if file.imbalance is None else file.imbalance,
        top_groups=file.top_groups or file.groups,
        imbalance_given=file.imbalance is not None,
        spread=file.spread,
        latent=file.latent,
    )


Pairs = tuple[tuple[str, float], ...]


class Accelerator(NamedTuple):
    """A device that computes."""

    name: str
    generation: str
    peak: Pairs  # dense FLOP/s by precision
    memory_bytes: float
    bandwidth_Bps: float
    units: int = 0  # multiprocessors; 0: any shape fills the device
    host_Bps: float = 0.0  # one way to the memory of its host; 0: not known

    def peak_flops(self, precision: str) -> float:
        """Dense FLOP/s in a precision; ColltoolError where the device has none."""
        rate = dict(self.peak).get(precision)
        if rate is not None:
            return rate
        has = ", ".join(known for known, _ in self.peak)
        raise ColltoolError(
            f"{self.name} has no peak for {precision}", fix=f"precision: {{compute: one of {has}}}"
        )


class Stack(NamedTuple):
    """What software reaches of a device, as :class:`colltool.training.files.StackFile` describes
    it."""

    name: str
    gemm: tuple[tuple[str, Pairs], ...]
    grouped: Pairs
    fp8_half: float
    flash: bool
    attention: Pairs
    elementwise: float
    backward_elementwise: float
    launch: Pairs
    memory_gemm: float
    memory_elementwise: float
    memory_optimizer: float
    optimizer_bytes: float
    fixed_s: float
    jitter: float
    runtime_bytes: float
    assumed: tuple[str, ...] = ()
    grouped_half: float = 100.0
    inside: float = 0.4
    loss_bytes: float = 4.0
    slowed: float | None = None  # by how much compute slows; None: by channels and kernels
    allocator: float = 0.0
    routing_s: float = 0.0  # of a layer with experts forward, twice that backward
    routing_expert_s: float = 0.0  # of each of its experts on a rank
    tensor_overlap: TensorOverlap = "none"
    recompute: Recompute = "none"
    quantized_inputs: bool = False
    half: float = 150.0
    half_wave: float = 0.15
    weight_gradient: float = 0.95
    attention_half_wave: float = 1.0
    fp8_half_wave: float | None = None
    fp8_memory_gemm: float | None = None
    sustained: Pairs = ()
    grouped_k_half: float | None = None
    grouped_tile: float = 0.0
    grouped_launch: float | None = None
    attention_backward: Pairs = ()
    elementwise_ffn: float = 0.0
    permute: float = 6.0
    loss_moves: float = 12.0
    cast_bytes: float = 0.0
    quantize: float = 0.0  # bytes moved an input of a GEMM in 8 bits
    host_s: float = 0.0  # to launch a layer and micro-batch
    host_moe_s: float = 0.0
    group_bytes: float = 0.0
    gradient_buffers: bool = True
    eager_copies: bool = False
    last_gemm_again: bool = True
    measured: tuple[MeasuredGemm, ...] = ()
    description: str = ""

    def gemm_share(self, precision: str, generation: str) -> float:
        """Share of the peak that GEMMs reach; ColltoolError where it is not known."""
        table = dict(self.gemm).get(precision)
        if table is None:
            known = ", ".join(name for name, _ in self.gemm)
            raise ColltoolError(
                f"stack {self.name} has no efficiency for {precision}",
                fix=f"another precision ({known}), or give the stack as a mapping",
            )
        return self._share_of(table, generation, f"GEMMs in {precision}")

    def attention_share(self, generation: str, *, backward: bool = False) -> float:
        """Share of the bf16 peak that attention reaches."""
        forward = self._share_of(self.attention, generation, "attention")
        return dict(self.attention_backward).get(generation, forward) if backward else forward

    def grouped_share(self, precision: str, generation: str) -> float:
        """Share of the peak that a GEMM over several experts reaches; that of any GEMM where the
        stack has none."""
        return dict(self.grouped).get(generation, self.gemm_share(precision, generation))

    def launch_s(self, precision: str) -> float:
        table = dict(self.launch)
        return table.get(precision, max(table.values()))

    def knows(self, device: Accelerator, precision: str) -> bool:
        """Whether the stack has shares for a device in a precision."""
        generation = device.generation
        try:
            gemms = self.gemm_share(precision, generation)
            return min(gemms, self.attention_share(generation)) > 0
        except ColltoolError:
            return False

    def _share_of(self, table: Pairs, generation: str, what: str) -> float:
        """Return the share of a generation; ColltoolError where the table has none."""
        found = dict(table).get(generation)
        if found is not None:
            return found
        known = ", ".join(name for name, _ in table)
        raise ColltoolError(
            f"stack {self.name} has no efficiency for {what} on {generation}",
            fix=f"a device of {known}, another stack, or the stack as a mapping",
        )


def _pairs_of(table: Mapping[Any, float]) -> Pairs:
    return tuple((str(key), value) for key, value in table.items())


def accelerator_of(file: DeviceFile, name: str = "") -> Accelerator:
    """A device from its file; ``name`` where the file has none."""
    return Accelerator(
        file.name or name or "device",
        file.generation,
        _pairs_of(file.peak),
        memory_bytes=file.memory,
        bandwidth_Bps=file.bandwidth,
        units=file.units or 0,
        host_Bps=file.host or 0.0,
    )


def stack_of(file: StackFile, name: str = "") -> Stack:
    """A stack from its file; ``name`` where the file has none."""
    made: dict[str, Any] = {
        "name": file.name or name or "stack",
        "gemm": tuple((str(precision), _pairs_of(table)) for precision, table in file.gemm.items()),
        "grouped": _pairs_of(file.grouped),
        "flash": file.attention.flash,
        "attention": _pairs_of(file.attention.efficiency),
        "attention_half_wave": file.attention.half_wave,
        "launch": _pairs_of(file.launch),
        "measured": (),
        "fixed_s": file.fixed,
        "routing_s": file.routing,
        "routing_expert_s": file.routing_expert,
        "host_s": file.host,
        "host_moe_s": file.host_moe,
        "sustained": _pairs_of(file.sustained),
        "attention_backward": _pairs_of(file.attention.backward),
        "runtime_bytes": file.runtime,
        "group_bytes": file.group_memory,
    }
    for key in Stack._fields:
        if key not in made:
            made[key] = getattr(file, key)
    return Stack(**made)


class Gemm(NamedTuple):
    """A product of (m, k) and (k, n), ``copies`` of them in one launch; ``grouped``: each with its
    own weights."""

    m: float
    n: float
    k: float
    copies: int = 1
    grouped: bool = False
    summed: bool = False  # added to a gradient in 32 bits

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.copies

    def moved(self, precision: str) -> float:
        """Bytes of its inputs and its result."""
        width = BYTES[precision]
        # results stay in 16 bits where the inputs are in 8
        out = 4.0 if self.summed else max(2.0, width)
        elements = width * (self.m * self.k + self.k * self.n) + out * self.m * self.n
        return self.copies * elements

    @property
    def backward(self) -> tuple[Gemm, Gemm]:
        """The gradients of the input and of the weight."""
        of_input = self._replace(n=self.k, k=self.n)
        return of_input, self._replace(m=self.n, n=self.k, k=self.m, summed=True)


class Roofline(NamedTuple):
    """What kernel times depend on besides sizes; ``precision`` is that of GEMMs."""

    device: Accelerator
    stack: Stack
    precision: str


TILE = 128 * 256  # elements of a result that a multiprocessor computes at once (cuBLAS, CUTLASS)
BLOCK = 128  # queries of a block of fused attention
NEIGHBOURS = 3  # measured GEMMs by which one of another shape is scaled
# share of a layer's time in GEMMs below which an H100 keeps its clock, and from which it is at the
# clock of GEMMs without pause (700 W): clocks of steps on one H100 SXM, 2026-11
COOL, HOT = 0.65, 0.85


def waves(tiles: float, device: Accelerator, half: float) -> float:
    """Share of the peak that w tiles per multiprocessor reach, w / (w + half): the last wave is
    partly idle, and the first one fills slowly."""
    if not device.units:
        return 1.0
    return tiles / (tiles + half * device.units)


@lru_cache(maxsize=16384)
def _measured_ratio(gemm: Gemm, machine: Roofline) -> float:
    """A user's measured times of GEMMs over those of the stack.

    Of the same shape, else a mean of the three nearest, weighted by the distance of the logarithms
    of their sizes.
    """
    # without measured GEMMs, or gemm_s would call this function again
    stack_only = machine._replace(stack=machine.stack._replace(measured=()))
    by_distance = []  # (distance, measured time over that of the stack)
    for row in machine.stack.measured:
        if row.precision == machine.precision:
            distance = sum(
                abs(log(size / measured)) for size, measured in zip(gemm[:3], row[1:4], strict=True)
            )
            by_distance.append(
                (distance, row.seconds / gemm_s(Gemm(row.m, row.n, row.k), stack_only))
            )
    if not by_distance:
        return 1.0
    by_distance.sort()
    # a distance of 0 but for rounding: the same shape
    if by_distance[0][0] < 1e-9:
        return by_distance[0][1]
    nearest = by_distance[:NEIGHBOURS]
    total = sum(1 / distance for distance, _ in nearest)
    return exp(sum(1 / distance * log(ratio) for distance, ratio in nearest) / total)


def gemm_s(gemm: Gemm, machine: Roofline) -> float:
    """Seconds of a GEMM alone: t0 + max(FLOPs / (E peak), bytes / (share of memory bandwidth)).

    E falls with the shape: E w / (w + half_wave) K / (K + half), w the tiles of 128 x 256 a
    multiprocessor, K the inner dimension, in 8 bits with constants of their own; 5% less where a
    weight gradient adds up in 32 bits. On an H100 (``tests/data/h100``) that is 4% off in
    the mean in bf16, 5% in fp8. Several experts are one launch, with the tokens of each in whole
    tiles. A single expert is an ordinary GEMM.
    """
    if not gemm.flops:
        return 0.0
    # a single expert is an ordinary GEMM
    if gemm.grouped and gemm.copies > 1:
        modelled_s = _grouped_s(gemm, machine)
    else:
        modelled_s = _single_s(gemm, machine)
    return modelled_s * _measured_ratio(gemm, machine) if machine.stack.measured else modelled_s


def _single_s(gemm: Gemm, machine: Roofline) -> float:
    device, stack, precision = machine
    half, half_wave, memory = stack.half, stack.half_wave, stack.memory_gemm
    if precision in EIGHT_BITS:
        half = stack.fp8_half
        half_wave = half_wave if stack.fp8_half_wave is None else stack.fp8_half_wave
        memory = stack.fp8_memory_gemm or memory
    share = stack.gemm_share(precision, device.generation) * gemm.k / (gemm.k + half)
    share *= waves(gemm.copies * gemm.m * gemm.n / TILE, device, half_wave)
    if gemm.summed:
        share *= stack.weight_gradient
    computing_s = gemm.flops / (share * device.peak_flops(precision))
    moving_s = gemm.moved(precision) / (memory * device.bandwidth_Bps)
    return stack.launch_s(precision) + max(computing_s, moving_s)


def _grouped_s(gemm: Gemm, machine: Roofline) -> float:
    """Seconds of a GEMM over several experts, whose rows fill whole tiles."""
    device, stack, precision = machine
    half = stack.grouped_k_half
    if half is None:
        half = stack.fp8_half if precision in EIGHT_BITS else stack.half
    share = stack.grouped_share(precision, device.generation) * gemm.k / (gemm.k + half)
    share *= waves(gemm.copies * gemm.m * gemm.n / TILE, device, stack.half_wave)
    share *= gemm.m / (gemm.m + stack.grouped_half)
    if stack.grouped_tile:
        share *= gemm.m / (stack.grouped_tile * ceil(gemm.m / stack.grouped_tile))
    if gemm.summed:
        share *= stack.weight_gradient
    start_s = stack.grouped_launch
    if start_s is None:
        start_s = stack.launch_s(precision) * gemm.copies
    computing_s = gemm.flops / (share * device.peak_flops(precision))
    moving_s = gemm.moved(precision) / (stack.memory_gemm * device.bandwidth_Bps)
    return start_s + max(computing_s, moving_s)


def power_limited(gemms_s: float, others_s: float, machine: Roofline) -> float:
    """Times as long as alone that GEMMs take among other kernels.

    GEMMs draw the most power. Where they take little of a layer the device keeps its clock; where
    they take nearly all of it, it runs at the clock of GEMMs without pause.
    """
    sustained = dict(machine.stack.sustained).get(machine.device.generation, 1.0)
    if sustained == 1 or not gemms_s:
        return 1.0
    busy = gemms_s / (gemms_s + others_s)
    limited = min(1.0, max(0.0, (busy - COOL) / (HOT - COOL)))
    return 1 + limited * (1 / sustained - 1)


def core_s(flops: float, blocks: float, machine: Roofline, *, backward: bool = False) -> float:
    """Seconds of attention's scores and their sum over values, in 16 bits; ``blocks``: of 128
    queries, for all heads."""
    if not flops:
        return 0.0
    device, stack, precision = machine
    if precision in EIGHT_BITS:
        precision = "bf16"
    share = stack.attention_share(device.generation, backward=backward)
    share *= waves(blocks, device, stack.attention_half_wave)
    return stack.launch_s(precision) + flops / (share * device.peak_flops(precision))


def moved_s(size: float, machine: Roofline) -> float:
    """Seconds of elementwise kernels that move ``size`` bytes."""
    return size / (machine.stack.memory_elementwise * machine.device.bandwidth_Bps)
