"""A model and its parameter counts; a device and a stack, and kernel times by a roofline with the
shares of peak they reach."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import exp, log
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.files import (
    BYTES,
    DeviceFile,
    ModelFile,
    MoeFile,
    Recompute,
    StackFile,
    TensorOverlap,
)
from colltool.training.measured_gemms import MeasuredGemm

EIGHT_BITS = ("fp8", "int8", "fp4")
BYTES_OF_ADAM = 8.0  # of a parameter: two moments in fp32


class Moe(NamedTuple):
    experts: int
    top_k: int  # experts that a token visits
    ffn: int  # width of one expert
    shared_ffn: int = 0  # width of the part that every token passes
    dense_layers: int = 0  # first layers, without experts
    imbalance: float = 1.0  # the busiest rank's load over the mean
    groups: int = 1
    top_groups: int = 1  # of them a token's experts stand in so many at most
    imbalance_said: bool = True  # else it is ROUTED

    @property
    def reached(self) -> float:
        """Share of the groups that a token's experts may stand in."""
        return self.top_groups / self.groups


ROUTED = 1.1
"""The busiest rank's load over the mean where a job does not say. Expert by expert 1.04
(bias-controlled) to 1.7 (auxiliary loss) in arXiv:2408.15664, table 2; a rank holds several, whose
loads even out."""


class Mla(NamedTuple):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks of its bottlenecks and
    sizes of a head."""

    q_rank: int  # 0: queries are not compressed, as in DeepSeek-V2-Lite
    kv_rank: int
    nope: int
    rope: int
    value: int


class Shape(NamedTuple):
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

    @property
    def norm(self) -> int:
        return self.hidden * (2 if self.bias else 1)

    def keys(self, sequence: int) -> float:
        """Keys that a query of a causal model sees, averaged over queries and layers: s/2; in a
        window w - w^2/2s."""
        whole = 0.5 * sequence
        if not self.window or self.window >= sequence:
            return whole
        return (1 - self.windowed) * whole + self.windowed * (
            self.window - 0.5 * self.window**2 / sequence
        )


class TransformerModel(NamedTuple):
    name: str
    layers: int
    shape: Shape | None  # None: only layers and parameters are known
    given_parameters: float | None = None
    left_out: tuple[str, ...] = ()  # parts of the model that are not counted

    @property
    def parameters(self) -> float:
        return (
            self.given_parameters if self.given_parameters is not None else float(parameters(self))
        )

    @property
    def dense_layers(self) -> int:
        moe = self.shape.moe if self.shape else None
        return self.layers if moe is None else moe.dense_layers

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers


class LayerParameters(NamedTuple):
    """Parameters of one layer by how tensor parallelism holds them."""

    split: float  # in t parts
    whole: float  # on every rank
    experts: float = 0.0

    def on(self, tp: int = 1, ep: int = 1, etp: int = 1) -> tuple[float, float]:
        return self.split / tp + self.whole, self.experts / (ep * etp)


def ffn_parameters(shape: Shape, width: int) -> float:
    return float(shape.matrices * shape.hidden * width + (width if shape.bias else 0))


@lru_cache(maxsize=64)
def layer_parameters(shape: Shape, *, experts: bool) -> LayerParameters:
    """The bottlenecks of latent attention are on every rank."""
    h, a = shape.hidden, shape.heads
    whole = 2 * shape.norm + (h if shape.bias else 0)
    if (mla := shape.mla) is not None:
        whole += h * (mla.q_rank + mla.kv_rank + mla.rope) + mla.q_rank + mla.kv_rank
        split = a * (
            (mla.q_rank or h) * (mla.nope + mla.rope)
            + mla.kv_rank * (mla.nope + mla.value)
            + h * mla.value
        )
    else:
        qkv = (a + 2 * shape.kv_heads) * shape.head_dim
        split = h * qkv + h * a * shape.head_dim + (qkv if shape.bias else 0)
        whole += h if shape.bias else 0
    if not experts or shape.moe is None:
        return LayerParameters(split + ffn_parameters(shape, shape.ffn), whole)
    moe = shape.moe
    shared = ffn_parameters(shape, moe.shared_ffn) if moe.shared_ffn else 0.0
    return LayerParameters(
        split + shared, whole + h * moe.experts, moe.experts * ffn_parameters(shape, moe.ffn)
    )


def ends_of(shape: Shape, tp: int = 1, *, embedding: bool = True, head: bool = True) -> float:
    """Parameters of embedding and head, with the norm before it; without the embedding a tied head
    is a copy of its own."""
    table = shape.vocab * shape.hidden / tp
    total = table + shape.positions * shape.hidden if embedding else 0.0
    if head:
        total += (0.0 if shape.tied else table) + shape.norm
        total += table if shape.tied and not embedding else 0.0
    return total


def parameters(model: TransformerModel) -> float:
    shape = model.shape
    assert shape is not None
    total = ends_of(shape) + model.dense_layers * sum(layer_parameters(shape, experts=False))
    return total + model.moe_layers * sum(layer_parameters(shape, experts=True))


def active_parameters(model: TransformerModel) -> float:
    """Parameters that one token passes: of the experts, ``top_k``."""
    shape = model.shape
    if shape is None or shape.moe is None:
        return model.parameters
    idle = (shape.moe.experts - shape.moe.top_k) * ffn_parameters(shape, shape.moe.ffn)
    return model.parameters - model.moe_layers * idle


def transformer_of(file: ModelFile, name: str = "") -> TransformerModel:
    called, shape = file.name or name or "model", None
    if (
        file.hidden is not None
        and file.heads is not None
        and file.ffn is not None
        and file.vocab is not None
    ):
        windowed = (
            file.layers if file.windowed_layers is None else file.windowed_layers
        ) / file.layers
        shape = Shape(
            **{
                key: getattr(file, key)
                for key in ("hidden", "heads", "ffn", "vocab", "tied", "bias", "positions")
            },
            kv_heads=file.kv_heads or file.heads,
            head_dim=file.head_dim or max(1, file.hidden // file.heads),
            matrices=3 if file.gated else 2,
            dropout=file.bias if file.dropout is None else file.dropout,
            moe=_moe_of(file.moe) if file.moe else None,
            mla=Mla(*(getattr(file.mla, key) for key in Mla._fields)) if file.mla else None,
            window=file.window or 0,
            windowed=windowed if file.window else 0.0,
        )
    return TransformerModel(called, file.layers, shape, file.parameters, file.left_out)


def _moe_of(file: MoeFile) -> Moe:
    same = {
        key: getattr(file, key)
        for key in ("experts", "top_k", "ffn", "shared_ffn", "dense_layers", "groups")
    }
    imbalance, top_groups = (
        ROUTED if file.imbalance is None else file.imbalance,
        file.top_groups or file.groups,
    )
    return Moe(
        **same,
        imbalance=imbalance,
        top_groups=top_groups,
        imbalance_said=file.imbalance is not None,
    )


PairsOf = tuple[tuple[str, float], ...]


class Accelerator(NamedTuple):
    name: str
    generation: str
    peak: PairsOf  # dense FLOP/s by precision
    memory_bytes: float
    bandwidth_Bps: float
    units: int = 0  # multiprocessors; 0: any shape fills the device
    host_Bps: float = 0.0  # one way to the memory of its host; 0: not known

    def peak_flops(self, precision: str) -> float:
        if (rate := dict(self.peak).get(precision)) is not None:
            return rate
        has = ", ".join(known for known, _ in self.peak)
        raise ColltoolError(
            f"{self.name} has no peak for {precision}", fix=f"precision: {{compute: one of {has}}}"
        )


class Stack(NamedTuple):
    """What software reaches of a device, as :class:`colltool.training.files.StackFile` describes
    it."""

    name: str
    gemm: tuple[tuple[str, PairsOf], ...]
    grouped: PairsOf
    fp8_half: float
    flash: bool
    attention: PairsOf
    elementwise: float
    backward_elementwise: float
    launch: PairsOf
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
    slowed: float = 0.0
    allocator: float = 0.0
    routing_s: float = 0.0  # of a layer with experts forward, twice that backward
    tensor_overlap: TensorOverlap = "none"
    recompute: Recompute = "none"
    quantized_inputs: bool = False
    half: float = 150.0
    half_wave: float = 0.15
    weight_gradient: float = 0.95
    attention_half_wave: float = 1.0
    measured: tuple[MeasuredGemm, ...] = ()

    def gemm_share(self, precision: str, generation: str) -> float:
        table = dict(self.gemm).get(precision)
        if table is None:
            known = ", ".join(name for name, _ in self.gemm)
            fix = f"another precision ({known}), or give the stack as a mapping"
            raise ColltoolError(f"stack {self.name} has no efficiency for {precision}", fix=fix)
        return self._of(table, generation, f"GEMMs in {precision}")

    def attention_share(self, generation: str) -> float:
        """Of the bf16 peak."""
        return self._of(self.attention, generation, "attention")

    def grouped_share(self, precision: str, generation: str) -> float:
        """Of a GEMM over several experts; that of any GEMM where the stack has none."""
        return dict(self.grouped).get(generation, self.gemm_share(precision, generation))

    def launch_s(self, precision: str) -> float:
        table = dict(self.launch)
        return table.get(precision, max(table.values()))

    def knows(self, device: Accelerator, precision: str) -> bool:
        try:
            return (
                min(
                    self.gemm_share(precision, device.generation),
                    self.attention_share(device.generation),
                )
                > 0
            )
        except ColltoolError:
            return False

    def _of(self, table: PairsOf, generation: str, what: str) -> float:
        if (found := dict(table).get(generation)) is not None:
            return found
        fix = (
            f"a device of {', '.join(name for name, _ in table)}, another stack, or the stack as a"
            " mapping"
        )
        raise ColltoolError(
            f"stack {self.name} has no efficiency for {what} on {generation}", fix=fix
        )


def _pairs(table: Mapping[Any, float]) -> PairsOf:
    return tuple((str(key), value) for key, value in table.items())


def accelerator_of(file: DeviceFile, name: str = "") -> Accelerator:
    known = file.name or name or "device"
    kept = {
        "memory_bytes": file.memory,
        "bandwidth_Bps": file.bandwidth,
        "host_Bps": file.host or 0.0,
    }
    return Accelerator(known, file.generation, _pairs(file.peak), **kept, units=file.units or 0)


def stack_of(file: StackFile, name: str = "") -> Stack:
    made: dict[str, Any] = {
        "name": file.name or name or "stack",
        "gemm": tuple((str(precision), _pairs(table)) for precision, table in file.gemm.items()),
        "grouped": _pairs(file.grouped),
        "flash": file.attention.flash,
        "attention": _pairs(file.attention.efficiency),
        "attention_half_wave": file.attention.half_wave,
        "launch": _pairs(file.launch),
        "measured": (),
        "fixed_s": file.fixed,
        "routing_s": file.routing,
        "runtime_bytes": file.runtime,
    }
    return Stack(**made, **{key: getattr(file, key) for key in Stack._fields if key not in made})


class Gemm(NamedTuple):
    """(m, k) times (k, n), ``copies`` of them in one launch; ``grouped``: each with its own
    weights."""

    m: float
    n: float
    k: float
    copies: int = 1
    grouped: bool = False
    summed: bool = False  # into a gradient in 32 bits

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.copies

    @property
    def backward(self) -> tuple[Gemm, Gemm]:
        """The gradients of the input and of the weight."""
        return self._replace(n=self.k, k=self.n), self._replace(
            m=self.n, n=self.k, k=self.m, summed=True
        )


class Roofline(NamedTuple):
    device: Accelerator
    stack: Stack
    precision: str


TILE = 128 * 256  # elements of a result that a multiprocessor computes at once (cuBLAS, CUTLASS)
BLOCK = 128  # queries of a block of fused attention


def waves(tiles: float, device: Accelerator, half: float) -> float:
    """w / (w + half) for w tiles a multiprocessor: the last wave is partly idle, and the first one
    fills slowly."""
    return 1.0 if not device.units else tiles / (tiles + half * device.units)


NEIGHBOURS = 3


@lru_cache(maxsize=16384)
def _over_model(gemm: Gemm, machine: Roofline) -> float:
    """A user's GEMMs over the stack's: of the same shape, else of the three nearest, by the
    distance of their logarithms."""
    own = machine._replace(stack=machine.stack._replace(measured=()))
    near = []
    for one in machine.stack.measured:
        if one.precision == machine.precision:
            apart = sum(abs(log(mine / its)) for mine, its in zip(gemm[:3], one[1:4], strict=True))
            near.append((apart, one.seconds / gemm_s(Gemm(one.m, one.n, one.k), own)))
    near.sort()
    if not near or near[0][0] < 1e-9:
        return near[0][1] if near else 1.0
    weights = [1 / apart for apart, _ in near[:NEIGHBOURS]]
    return exp(
        sum(weight * log(ratio) for weight, (_, ratio) in zip(weights, near, strict=False))
        / sum(weights)
    )


def gemm_s(gemm: Gemm, machine: Roofline) -> float:
    """t0 + max(FLOPs / (E peak), bytes / (share of memory bandwidth)), in seconds.

    E falls with the shape: E w / (w + 0.15) K / (K + 150), w the tiles of 128 x 256 a
    multiprocessor, K the inner dimension, in 8 bits K / (K + 512); 5% less where a weight gradient
    adds up in 32 bits. Over 276 published GEMMs of A100, H100 and B200 that is 8% off in the mean,
    one E a device 19% (``tests/data/gemms.csv``). Several experts are a launch each, and M tokens
    of one reach M / (M + 100) of the share: they do not fill tiles. A single expert is an ordinary
    GEMM.
    """
    if not gemm.flops:
        return 0.0
    device, stack, precision = machine
    several = gemm.grouped and gemm.copies > 1
    share = (stack.grouped_share if several else stack.gemm_share)(precision, device.generation)
    share *= gemm.k / (gemm.k + (stack.fp8_half if precision in EIGHT_BITS else stack.half))
    share *= waves(gemm.copies * gemm.m * gemm.n / TILE, device, stack.half_wave)
    if several:
        share *= gemm.m / (gemm.m + stack.grouped_half)
    if gemm.summed:
        share *= stack.weight_gradient
    width, out = BYTES[precision], 4.0 if gemm.summed else max(2.0, BYTES[precision])
    moved = gemm.copies * (width * (gemm.m * gemm.k + gemm.k * gemm.n) + out * gemm.m * gemm.n)
    busy = max(
        gemm.flops / (share * device.peak_flops(precision)),
        moved / (stack.memory_gemm * device.bandwidth_Bps),
    )
    took = stack.launch_s(precision) * (gemm.copies if several else 1) + busy
    return took * _over_model(gemm, machine) if stack.measured else took


def core_s(flops: float, blocks: float, machine: Roofline) -> float:
    """Attention's scores and their sum over values, in 16 bits; ``blocks`` of 128 queries and a
    head."""
    if not flops:
        return 0.0
    device, stack, precision = machine
    if precision in EIGHT_BITS:
        precision = "bf16"
    share = stack.attention_share(device.generation) * waves(
        blocks, device, stack.attention_half_wave
    )
    return stack.launch_s(precision) + flops / (share * device.peak_flops(precision))


def moved_s(size: float, machine: Roofline) -> float:
    return size / (machine.stack.memory_elementwise * machine.device.bandwidth_Bps)
