"""Field types of job files, and the pydantic models of the files that a job names: models, devices
and stacks.

Docstrings of the models are descriptions of the schemas that ``colltool schema`` prints, so they speak
to authors of such files. In them a Size is in bytes, a Duration in seconds, a Bandwidth in bytes/s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from colltool.base.errors import clipped, nearest
from colltool.base.formatting import parse_flops, parse_time
from colltool.definitions.field_types import (
    MAX_RANKS,
    Bandwidth,
    FieldError,
    FieldHint,
    Flag,
    Label,
    Part,
    Size,
    Words,
    model_check,
    parsed_quantity,
)
from colltool.training.mixers import KINDS

MAX_DIMENSION = 10_000_000  # of a model: a larger one is a typing error

Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "zb1p", "zbv", "dualpipe"]
ShardMode = Literal["ddp", "zero1", "zero2", "fsdp", "hsdp"]
Recompute = Literal["none", "selective", "full"]
Recomputed = Literal[Recompute, "layers", "modules"]
OptimizerName = Literal["adam", "adam-bf16", "adam-8bit", "muon"]
Module = Literal[
    "core_attn", "attention", "mlp", "moe", "shared_experts", "moe_act", "layernorm", "mla_up_proj"
]
ContextMode = Literal["ring", "all-gather", "ulysses"]
# how tokens reach their experts
DispatcherName = Literal["alltoall", "allgather", "deepep", "hybridep", "uccl-ep", "deepep-nvshmem"]
# what tensor parallel calls hide under: nothing, weight gradients, or GEMMs in pieces
TensorOverlap = Literal["none", "bulk", "split"]
# bytes of an element, by precision
BYTES: dict[str, float] = {
    "fp32": 4,
    "tf32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "int8": 1,
    "fp4": 0.5,
}


def values_of(file: Part, keys: Iterable[str]) -> dict[str, Any]:
    """The values of a file's keys, for a record whose fields have the same names."""
    return {key: getattr(file, key) for key in keys}


def _parsed_with_unit(parse: Callable[[str], Any], what: str) -> BeforeValidator:
    """Return a validator that parses a text with its unit; ``what`` it is, for errors."""

    def read(value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError(f"{what} needs its unit")
        return float(parsed_quantity(parse, value))

    return BeforeValidator(read)


def _percent_or_share(value: Any) -> Any:
    """Return ``10%`` or 0.1 as 0.1; bounds are checked after it.

    Raises:
        ValueError: it is no number, alone or with a percent sign.
    """
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip().removesuffix("%")) / 100
        except ValueError as error:
            raise ValueError("expected a share") from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a share")
    return value


def written(value: object) -> str:
    """Return a value as YAML and ``--set`` write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_NUMBER = r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
Duration = Annotated[
    float,
    _parsed_with_unit(parse_time, "a time"),
    Field(ge=0, le=1e7),  # s; a longer time has the wrong unit
    WithJsonSchema(
        {"type": "string", "pattern": rf"^\s*\+?{_NUMBER} ?(s|ms|us|\u00b5s|\u03bcs|ns)\s*$"}
    ),
    FieldHint("a time of at most 10000000 s, such as 7ms or 14.8s", "time"),
]
FlopRate = Annotated[
    float,
    _parsed_with_unit(parse_flops, "a rate of arithmetic"),
    Field(ge=1e9, le=1e18),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*\+?{_NUMBER} ?[kKMGTPE]?FLOP(/s|S)\s*$"}),
    FieldHint("a rate of arithmetic from 1 GFLOP/s to 1 EFLOP/s, such as 989TFLOP/s"),
]
Dimension = Annotated[
    int,
    Field(ge=1, le=MAX_DIMENSION, strict=True),
    FieldHint(f"a whole number from 1 to {MAX_DIMENSION}"),
]
Parallel = Annotated[
    int, Field(ge=1, le=MAX_RANKS, strict=True), FieldHint("a whole number of ranks, such as 8")
]
ParallelOrAuto = Annotated[
    Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True)] | Literal["auto"],
    FieldHint("a whole number of ranks, such as 8, or auto"),
]
Parameters = Annotated[
    float, Field(ge=1, le=1e15, strict=True), FieldHint("a number of parameters, such as 70e9")
]
Share = Annotated[
    float, Field(gt=0, le=1, strict=True), FieldHint("a share above 0 and at most 1, such as 0.78")
]
SmallShare = Annotated[
    float, Field(ge=1e-6, le=1, strict=True), FieldHint("a share from 1e-6 to 1, such as 0.01")
]
PercentOrShare = Annotated[
    float,
    BeforeValidator(_percent_or_share),
    Field(ge=0, le=10),
    WithJsonSchema({"type": ["string", "number"]}),
    FieldHint("a share such as 10% or 0.1"),
]
Factor = Annotated[
    float, Field(ge=0, le=1e6, strict=True), FieldHint("a number of at least 0, such as 20")
]
Imbalance = Annotated[
    float,
    Field(ge=1, le=1000, strict=True),
    FieldHint("the busiest rank's load over the mean, from 1, such as 1.2"),
]
MaybeFlag = Annotated[Flag | None, FieldHint("true or false")]
_FromZero = Annotated[
    int, Field(ge=0, le=1_000_000, strict=True), FieldHint("a whole number from 0")
]
_MLA_HINT = FieldHint(
    "a mapping such as {q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128}"
)


_OPERATION_HINT = FieldHint("a mapping such as {operation: attention, layers: 12}")


class MoeFile(Part):
    """Experts: ``ffn`` the width of one, ``shared_ffn`` of what every token passes,
    ``dense_layers`` the first ones without.

    ``spread``: those are every so-manieth layer, not the first ones. ``latent``: elements of a
    token that experts take, where a matrix narrows it before them.
    ``imbalance``: the busiest rank's load over the mean, 1 where routing is forced even. ``groups``
    of experts, of which a token visits ``top_groups`` at most (group-limited routing, DeepSeek-V3
    Technical Report, arXiv:2412.19437, section 2.1.2).
    """

    experts: Dimension
    top_k: Dimension
    ffn: Dimension
    shared_ffn: _FromZero = 0
    dense_layers: _FromZero = 0
    imbalance: Imbalance | None = None
    groups: Dimension = 1
    top_groups: Dimension | None = None
    spread: Flag = False
    latent: _FromZero = 0

    @model_check
    def _top_fits(self) -> Iterator[FieldError]:
        if self.top_groups is not None and self.top_groups > self.groups:
            yield FieldError(
                f"a token goes to {self.top_groups} of {self.groups} groups",
                f"top_groups is at most {self.groups}",
                ("top_groups",),
            )
            return
        if self.top_k > self.experts:
            yield FieldError(
                f"a token goes to {self.top_k} of {self.experts} experts",
                f"top_k is at most {self.experts}",
                ("top_k",),
            )


class MlaFile(Part):
    """Latent attention: ranks of the two bottlenecks (``q_rank`` 0: queries have none), and what a
    head has with and without position, and as a value.
    """

    q_rank: _FromZero
    kv_rank: Dimension
    nope: Dimension
    rope: Dimension
    value: Dimension


class OperationFile(Part):
    """What mixes the tokens in so many ``layers`` of a model: attention, or what stands in its
    place.

    ``operation``: a name in ``data/operations.toml``; ``sizes``: its sizes by name, of attention
    those of the model unless given; ``window``: keys that a query of it sees, with ``chunked``
    those of its own piece of the sequence.
    """

    operation: Annotated[str, FieldHint(f"one of {', '.join(KINDS)}", "text")]
    layers: Dimension
    window: Dimension | None = None
    chunked: Flag = False
    sizes: Annotated[
        dict[str, Annotated[int, Field(ge=0, le=MAX_DIMENSION, strict=True)]],
        Field(max_length=32),
        FieldHint("a mapping such as {heads: 32, head_dim: 128}"),
    ] = Field(default_factory=dict)


class ModelFile(Part):
    """A model: its shape, or only its size (``parameters`` and ``layers``), with which all that
    needs no shape can be planned.

    ``kv_heads`` are the heads unless given, ``head_dim`` hidden / heads. ``gated``: three matrices
    of the FFN instead of two;
    ``ffn`` 0: no layer has one.
    ``tied``: the head is the embedding. ``bias``: linear layers and norms have one; ``dropout``:
    trained with it, as models with biases are by default. ``positions``: learned ones. ``window``:
    a query meets so many keys in ``windowed_layers`` of the layers, all of them unless given,
    spread evenly. ``operations``: what mixes the tokens, where that is not the same attention in
    every layer. ``ffn_layers``: layers that have a dense FFN, all without experts unless given.
    ``left_out``: what of the model is not counted, for people. ``weights``: format of the published
    checkpoint, in which the model is served unless told otherwise.
    """

    schema_: Annotated[Literal["colltool.model/1"], Field(alias="schema")] = "colltool.model/1"
    name: Label = ""
    description: Words = ""
    layers: Dimension
    hidden: Dimension | None = None
    heads: Dimension | None = None
    kv_heads: Dimension | None = None
    head_dim: Dimension | None = None
    ffn: _FromZero | None = None
    gated: Flag = True
    vocab: Dimension | None = None
    tied: Flag = False
    bias: Flag = False
    dropout: Annotated[Flag | None, FieldHint("true or false")] = None
    positions: _FromZero = 0
    window: Dimension | None = None
    windowed_layers: _FromZero | None = None
    moe: Annotated[
        MoeFile | None, FieldHint("a mapping such as {experts: 8, top_k: 2, ffn: 14336}")
    ] = None
    mla: Annotated[MlaFile | None, _MLA_HINT] = None
    operations: Annotated[
        tuple[Annotated[OperationFile, _OPERATION_HINT], ...],
        Field(max_length=16),
        FieldHint("a list of operations, such as [{operation: attention, layers: 12}]"),
    ] = ()
    ffn_layers: _FromZero | None = None
    parameters: Parameters | None = None
    left_out: Annotated[
        tuple[Label, ...],
        Field(max_length=16),
        FieldHint("a list of what is not counted, in words"),
    ] = ()
    weights: Literal["bf16", "fp8", "nvfp4", "mxfp4", "int4"] = "bf16"

    @model_check
    def _is_whole(self) -> Iterator[FieldError]:
        # one error at a time: what is wrong later often follows from what is wrong before
        missing = [key for key in ("hidden", "heads", "ffn", "vocab") if getattr(self, key) is None]
        only_size = self.parameters is not None and self.moe is None and self.mla is None
        if len(missing) == 4 and only_size:
            return
        if missing:
            yield FieldError(
                f"the model lacks {' and '.join(missing)}",
                "give all of its shape, or only parameters and layers",
            )
            return
        assert self.heads
        assert self.hidden
        if self.heads % (self.kv_heads or self.heads):
            fits = [str(heads) for heads in range(1, self.heads + 1) if self.heads % heads == 0]
            yield FieldError(
                f"{self.heads} heads do not share {self.kv_heads} kv heads evenly",
                f"kv_heads may be {', '.join(fits)}",
                ("kv_heads",),
            )
            return
        if self.head_dim is None and self.mla is None and self.hidden % self.heads:
            yield FieldError(
                f"hidden {self.hidden} is not a multiple of {self.heads} heads",
                "give head_dim, or other heads",
                ("heads",),
            )
            return
        if self.windowed_layers is not None and (
            self.window is None or self.windowed_layers > self.layers
        ):
            what = "no window"
            if self.window is not None:
                what = f"{self.windowed_layers} windowed layers of {self.layers}"
            yield FieldError(
                what, f"window: 4096, and at most {self.layers} layers", ("windowed_layers",)
            )
            return
        if self.moe and self.moe.dense_layers >= self.layers:
            yield FieldError(
                f"{self.moe.dense_layers} dense layers of {self.layers} leave none with experts",
                f"at most {self.layers - 1}, or leave moe out",
                ("moe", "dense_layers"),
            )
            return
        yield from self._wrong_operations()

    def _wrong_operations(self) -> Iterator[FieldError]:
        """Yield an error for each operation that is not known, or lacks sizes that the model does not
        have either."""
        model_sizes = {"hidden", "heads", "kv_heads", "head_dim", "value_dim", "query_inputs"}
        if self.mla is not None:
            model_sizes |= {"q_rank", "kv_rank", "nope", "rope", "value"}
        for place, operation in enumerate(self.operations):
            path = ("operations", place)
            kind = KINDS.get(operation.operation)
            if kind is None:
                what = f"operation '{clipped(operation.operation)}' is not known"
                fix = f"{nearest(operation.operation, list(KINDS))} known: {', '.join(KINDS)}"
                yield FieldError(what, fix.strip(), (*path, "operation"))
                continue
            missing = [
                size for size in kind.needs if size not in model_sizes | operation.sizes.keys()
            ]
            if missing:
                yield FieldError(
                    f"{operation.operation} lacks {' and '.join(missing)}",
                    f"sizes: {{{', '.join(f'{size}: 128' for size in missing)}}}",
                    path,
                )


_PEAK_HINT = FieldHint("a mapping by precision, such as {bf16: 989TFLOP/s, fp8: 1979TFLOP/s}")
_BY_PRECISION_HINT = FieldHint(
    "a mapping by precision and generation, such as {bf16: {hopper: 0.78}}"
)
_BY_GENERATION_HINT = FieldHint("a mapping by generation of the device, such as {hopper: 0.78}")
Generation = Annotated[
    str, Field(pattern=r"^[a-z0-9-]{1,32}$"), FieldHint("a generation, such as hopper", "text")
]
ByGeneration = Annotated[
    dict[Generation, Share], Field(min_length=1, max_length=32), _BY_GENERATION_HINT
]


class DeviceFile(Part):
    """A device: dense peak by precision, memory, and its bandwidth. ``generation`` is what stacks
    give efficiencies for.

    ``units``: its multiprocessors, which take a tile of a GEMM each; without, a GEMM of any shape
    fills the device. ``host``:
    the rate of its link to the host's memory, one way.
    """

    schema_: Annotated[Literal["colltool.device/1"], Field(alias="schema")] = "colltool.device/1"
    name: Label = ""
    description: Words = ""
    generation: Generation
    peak: Annotated[dict[Precision, FlopRate], Field(min_length=1), _PEAK_HINT]
    memory: Size
    bandwidth: Bandwidth
    units: _FromZero | None = None
    host: Bandwidth | None = None


class AttentionFile(Part):
    """Fused (flash) attention: its share of the peak; without, the scores are written out and read
    back.

    ``half_wave``: the blocks a unit, of 128 queries and a head each, at which it reaches half of
    that share. ``backward``: the share of its backward kernel, that of ``efficiency`` when left out.
    """

    flash: Flag = True
    efficiency: ByGeneration
    backward: Annotated[dict[Generation, Share], _BY_GENERATION_HINT] = Field(default_factory=dict)
    half_wave: Factor = 1.0


class StackFile(Part):
    """Software: what its kernels reach of the device, and what it costs beside them.

    ``gemm``: the share of peak that a large GEMM reaches, by precision and generation. A smaller
    one reaches half of it where the device has ``half_wave`` tiles a unit, and where the inner
    dimension is ``half`` (in 8 bits ``fp8_half``); ``weight_gradient``: the share of that where it
    adds to a gradient in 32 bits. ``sustained``: the share of that rate which is left where GEMMs
    run without pause and the device reaches its power limit, by generation. ``grouped``: of a GEMM
    over several experts, by generation, ``grouped_half``: the tokens of an expert at which it
    reaches half of that, ``grouped_k_half``: the inner dimension, ``grouped_tile``: the tokens that
    those of an expert are rounded up to, and ``grouped_launch``: the start of the one kernel for all
    experts; without it each expert is a launch of its own. ``elementwise``: bytes moved a token and
    layer forward, in units of hidden x bytes of an activation, ``inside``: the part of it in tensor
    parallel regions, ``elementwise_ffn``: the same in units of the FFN's width; ``permute``: of a
    token for each of its experts; ``backward_elementwise`` times that backward. ``loss_moves``:
    bytes of a logit that the loss moves each way. ``cast_bytes``: moved a parameter and micro-batch
    where weights are kept in 32 bits and cast for GEMMs, ``quantize``: an element
    that is cast to 8 bits for a GEMM. ``host`` and ``host_moe``: what the host
    takes to launch a layer and micro-batch, without and with experts; a layer takes no less.
    ``memory_*``: the share of memory bandwidth that a GEMM, an elementwise kernel and the optimizer
    reach. ``fixed``: what a step takes beside everything; ``jitter``: its growth a doubling of
    devices beyond 8. ``runtime``: memory that is no tensor of the model, on one device, and
    ``group_memory``: more of each group that a rank communicates in; ``gradient_buffers``: gradients
    have buffers from the start, else they come as activations go; ``eager_copies``: every
    elementwise kernel keeps inputs of its own, nothing is fused; ``last_gemm_again``: what runs
    again has the last GEMM of a feed-forward part too, whose output no gradient needs;
    ``loss_bytes``: of a logit for the
    loss, beside what the head wrote. ``slowed``: by how much compute slows while communication runs
    beside it; left out, the library's channels say. ``allocator``: what the memory allocator holds
    beyond activations, logits and gathered layers, a share of them; ``routing``: what a layer with
    experts takes forward beside its kernels, as the host waits for the tokens of each, and
    ``routing_expert``: what each expert of the rank takes, whose tokens wait for launches of their
    own;
    ``tensor_overlap``: how tensor parallelism hides, and ``recompute``: what runs again, where a job
    does not say; ``quantized_inputs``: GEMMs keep their inputs for the backward pass in their own
    precision. ``assumed``: generations whose shares no measured kernel stands behind.
    """

    schema_: Annotated[Literal["colltool.stack/1"], Field(alias="schema")] = "colltool.stack/1"
    name: Label = ""
    description: Words = ""
    date: Words = ""
    # GEMMs: shares of the peak, and where smaller ones reach half of it
    gemm: Annotated[dict[Precision, ByGeneration], Field(min_length=1), _BY_PRECISION_HINT]
    grouped: Annotated[dict[Generation, Share], _BY_GENERATION_HINT] = Field(default_factory=dict)
    grouped_half: Factor = 100.0
    grouped_k_half: Factor | None = None
    grouped_tile: Factor = 0.0
    grouped_launch: Duration | None = None
    fp8_half: Factor = 512.0
    half: Factor = 150.0
    half_wave: Factor = 0.15
    fp8_half_wave: Factor | None = None
    sustained: Annotated[dict[Generation, Share], _BY_GENERATION_HINT] = Field(default_factory=dict)
    weight_gradient: Share = 0.95
    # other kernels: bytes that they move, and what it takes to start one
    attention: Annotated[
        AttentionFile, FieldHint("a mapping such as {flash: true, efficiency: {hopper: 0.5}}")
    ]
    elementwise: Factor
    elementwise_ffn: Factor = 0.0
    permute: Factor = 6.0
    inside: Share = 0.4
    backward_elementwise: Factor = 2.0
    launch: Annotated[
        dict[Precision, Duration],
        Field(min_length=1),
        FieldHint("a mapping by precision, such as {bf16: 4us}"),
    ]
    # shares of memory bandwidth
    memory_gemm: Share = 0.85
    fp8_memory_gemm: Share | None = None
    memory_elementwise: Share = 0.8
    memory_optimizer: Share = 0.7
    # bytes of a parameter or an element
    optimizer_bytes: Factor = 18.0
    cast_bytes: Factor = 0.0
    quantize: Factor = 0.0
    # a step beside its kernels
    fixed: Duration = 0.0075
    jitter: Annotated[float, Field(ge=0, le=1, strict=True), FieldHint("a share such as 0.007")] = (
        0.007
    )
    # memory of a rank
    runtime: Size
    group_memory: Size = 0.0
    gradient_buffers: Flag = True
    eager_copies: Flag = False
    last_gemm_again: Flag = True
    assumed: Annotated[
        tuple[Generation, ...],
        Field(max_length=32),
        FieldHint("a list of generations, such as [tpu-v4]"),
    ] = ()
    loss_bytes: Factor = 4.0
    loss_moves: Factor = 12.0
    allocator: Annotated[
        float, Field(ge=0, lt=1, strict=True), FieldHint("a share such as 0.1")
    ] = 0.0
    # what the host takes for a layer
    routing: Duration = 0.0
    routing_expert: Duration = 0.0
    host: Duration = 0.0
    host_moe: Duration = 0.0
    # where a job does not say
    tensor_overlap: Annotated[TensorOverlap, FieldHint("none, bulk or split")] = "none"
    recompute: Annotated[Recompute, FieldHint("none, selective or full")] = "none"
    quantized_inputs: Flag = False
    slowed: Annotated[
        float | None, Field(ge=0, lt=1, strict=True), FieldHint("a share such as 0.1")
    ] = None
