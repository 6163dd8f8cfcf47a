"""A job file as pydantic models.

Their docstrings are the descriptions of the schema that ``colltool schema job`` prints, so they speak
to authors of job files.

A key whose default is None may be left out: then the stack, or a default that follows from the other
keys, says (:mod:`colltool.training.job_configuration`). A Size is bytes, a Duration seconds, a
PercentOrShare a share from 0. The functions under ``@model_check`` yield what does not fit together,
each with a fix and the key at fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from colltool.definitions.field_types import (
    MAX_LISTED,
    FieldError,
    FieldHint,
    Flag,
    Label,
    Part,
    PrimitiveName,
    Size,
    Words,
    model_check,
)
from colltool.training.files import (
    ContextMode,
    DeviceFile,
    Dimension,
    DispatcherName,
    Duration,
    MaybeFlag,
    ModelFile,
    Module,
    OptimizerName,
    Parallel,
    ParallelOrAuto,
    PercentOrShare,
    Precision,
    Recompute,
    Schedule,
    ShardMode,
    SmallShare,
    StackFile,
)
from colltool.training.strategies import SHARDINGS

Axis = Literal["tp", "cp", "ep", "dp", "pp"]
# usual order of ranks, innermost first: the dimensions with the most traffic have the shortest strides
ORDER: tuple[Axis, ...] = ("tp", "cp", "ep", "dp", "pp")


class BatchFile(Part):
    """Sequences of a step, and of a micro-batch of one replica."""

    global_: Annotated[Dimension, Field(alias="global")]
    micro: Dimension = 1


class ParallelLayoutFile(Part):
    """How ranks are cut: the sizes of the dimensions, the order of their ranks (innermost first),
    layers of each stage."""

    tp: Parallel = 1
    sp: Flag = False  # sequence parallelism: tp splits tokens outside its regions too
    cp: Parallel = 1
    cp_mode: ContextMode = "ring"  # how queries meet the keys of other ranks
    ep: Parallel = 1
    dispatcher: Annotated[
        DispatcherName | None, FieldHint(f"one of {', '.join(get_args(DispatcherName))}")
    ] = None
    deduplicate: Flag = False  # a token goes once to a rank with several of its experts
    etp: Annotated[Parallel | None, FieldHint("the tensor parallelism of an expert, 1 or tp")] = (
        None
    )
    pp: Parallel = 1
    virtual: Parallel = 1  # parts of the model on a stage, interleaved
    dp: ParallelOrAuto = "auto"
    order: Annotated[
        tuple[Axis, ...],
        Field(min_length=1, max_length=5),
        FieldHint("a list of tp, cp, ep, dp, pp, innermost first, such as [tp, cp, ep, dp, pp]"),
    ] = ORDER
    stages: Annotated[
        tuple[
            Annotated[int, Field(ge=0, le=100_000, strict=True), FieldHint("a number of layers")],
            ...,
        ]
        | None,
        Field(max_length=10_000),
        FieldHint("the layers of each pipeline stage, such as [21, 20, 20]"),
    ] = None

    @model_check
    def _sends_one_way(self) -> Iterator[FieldError]:
        if self.deduplicate and self.dispatcher in ("alltoall", "allgather"):
            yield FieldError(
                f"{self.dispatcher} does not send a token once to a rank",
                "deduplicate: false, or a dispatcher that does, such as deepep",
                ("deduplicate",),
            )

    @model_check
    def _order_is_whole(self) -> Iterator[FieldError]:
        if sorted(self.order) != sorted(ORDER):
            missing = [axis for axis in ORDER if axis not in self.order]
            what = "the order names a dimension twice"
            if missing:
                what = f"the order leaves out {', '.join(missing)}"
            yield FieldError(what, "name tp, cp, ep, dp and pp once each", ("order",))


class ShardFile(Part):
    """Who keeps the weights, gradients and optimizer states of a replica.

    ``group``: ranks that share them, copies are kept across: of hsdp, and of zero1 within a node
    (Megatron-Core's ``--num-distributed-optimizer-instances``).
    """

    mode: ShardMode = "ddp"
    group: Annotated[Parallel | None, FieldHint("the ranks of a shard group, such as 8")] = None
    gathers: Annotated[
        Literal[1, 2] | None, FieldHint("1 or 2 gathers of a layer a micro-batch")
    ] = None
    reshard: MaybeFlag = None  # false: layers stay gathered for the whole step
    bucket: Size | None = None  # bytes of gradients that go out at once
    grad_bytes: Annotated[Literal[2, 4] | None, FieldHint("2 or 4")] = None

    @model_check
    def _keys_fit_mode(self) -> Iterator[FieldError]:
        mode = self.mode
        sharding = SHARDINGS[self.mode]
        if self.group is not None and not sharding.grouped and mode != "zero1":
            yield FieldError(
                f"{mode} has no shard group", "mode: zero1 or hsdp, or leave group out", ("group",)
            )
        if self.group is None and sharding.grouped:
            yield FieldError(f"{mode} needs the size of its shard group", "group: 8", ("mode",))
        for key in ("gathers", "reshard"):
            if getattr(self, key) is not None and not sharding.weights:
                yield FieldError(
                    f"{mode} gathers no layers", f"mode: fsdp, or leave {key} out", (key,)
                )
        if self.reshard is False and self.gathers == 2:
            yield FieldError(
                "without resharding, layers are gathered once",
                "gathers: 1, or reshard: true",
                ("gathers",),
            )


class PrecisionFile(Part):
    """Data types of GEMMs, of weights, of gradients when they are summed, of tokens on their way
    to experts.

    ``master``: the copy of the weights that the optimizer updates; none where it updates the weights
    themselves (bf16 without master weights).
    """

    compute: Precision = "bf16"
    params: Literal["fp32", "bf16", "fp16", "fp8"] = "bf16"
    grads: Literal["fp32", "bf16", "fp16"] = "fp32"
    dispatch: Literal["bf16", "fp16", "fp8"] = "bf16"
    master: Annotated[
        Literal["fp32", "none"],
        FieldHint("fp32, or none where the optimizer updates the weights themselves"),
    ] = "fp32"


class OverlapFile(Part):
    """What hides: each dimension's communication under compute, or not. ``overhead``: LogP's o of a
    call; ``sm_share``: by how much compute slows while something runs beside it; left out, the
    library's channels and the kind of kernel say.
    """

    dp: MaybeFlag = None
    tp: Annotated[
        Flag | Literal["bulk"] | None,
        FieldHint("true (split GEMMs), bulk (under weight gradients) or false"),
    ] = None
    pp: MaybeFlag = None
    ep: Annotated[
        Flag | Literal["shared"] | None,
        FieldHint("true (another batch), shared (a shared expert) or false"),
    ] = None
    cp: MaybeFlag = None
    overhead: Duration = 0.0
    sm_share: Annotated[
        float | None, Field(ge=0, lt=1, strict=True), FieldHint("a share such as 0.1")
    ] = None


class CompressionFile(Part):
    """A smaller payload for one dimension's collectives; ``extra_steps``: more steps to the same
    accuracy.

    ``ratio``: by how much fewer bytes were sent in fact, in place of what the scheme's format
    makes.
    """

    on: Axis = "dp"
    scheme: Literal["fp16", "int8", "1bit", "topk", "1bit-adam"]
    block: Dimension | None = None  # int8: elements that share a scale
    keep: SmallShare | None = None  # topk: share of the elements that are sent
    warmup: SmallShare | None = None  # 1bit-adam: share of the steps before it compresses
    overhead: Duration = 0.0
    extra_steps: PercentOrShare = 0.0
    ratio: Annotated[
        float | None, Field(ge=1, le=1e5, strict=True), FieldHint("a ratio from 1, such as 8")
    ] = None

    @model_check
    def _keys_fit_scheme(self) -> Iterator[FieldError]:
        owners = {"block": "int8", "keep": "topk", "warmup": "1bit-adam"}
        for key, owner in owners.items():
            if getattr(self, key) is not None and self.scheme != owner:
                yield FieldError(
                    f"{self.scheme} has no {key}", f"scheme: {owner}, or leave {key} out", (key,)
                )
        for key in ("keep", "warmup"):
            if self.scheme == owners[key] and getattr(self, key) is None:
                yield FieldError(f"{self.scheme} needs {key}", f"{key}: 0.01", ("scheme",))


class ComputeFile(Part):
    """Times that are known: of a layer and micro-batch, or of a whole step."""

    forward_per_layer: Duration | None = None
    backward_per_layer: Duration | None = None
    forward: Duration | None = None
    backward: Duration | None = None

    @model_check
    def _is_one_pair(self) -> Iterator[FieldError]:
        pairs = [("forward_per_layer", "backward_per_layer"), ("forward", "backward")]
        given = [pair for pair in pairs if any(getattr(self, key) is not None for key in pair)]
        if len(given) != 1 or any(getattr(self, key) is None for key in given[0]):
            yield FieldError(
                "expected forward and backward, both of a layer or both of a step",
                "forward_per_layer: 7ms and backward_per_layer: 15ms",
            )


class RanksFile(Part):
    """A group that is no dimension of the layout: so many ranks, so far apart."""

    ranks: Parallel
    stride: Parallel = 1


def _module_names(value: Any) -> Any:
    """Names of modules as Megatron's ``--recompute-modules`` is often quoted: ``mla_up_proj, mlp``."""
    if not isinstance(value, str):
        return value
    names = [module.strip() for module in value.split(",")]
    # any other word is refused as a whole
    return names if set(names) <= set(get_args(Module)) else value


_MODULE_HINT = FieldHint(f"one of {', '.join(get_args(Module))}")
_ANY_MODULE = f"({'|'.join(get_args(Module))})"  # a regex: (core_attn|mlp|...)
ModuleNames = Annotated[
    tuple[Annotated[Module, _MODULE_HINT], ...],
    BeforeValidator(_module_names),
    Field(min_length=1, max_length=8),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"enum": list(get_args(Module))}, "minItems": 1},
                {"type": "string", "pattern": rf"^\s*{_ANY_MODULE}(\s*,\s*{_ANY_MODULE})*\s*$"},
            ]
        }
    ),
    FieldHint("modules, such as mla_up_proj, mlp"),
]


class RecomputeFile(Part):
    """Part of the layers: so many of each stage, or some modules of every layer, by Megatron-Core's
    names and ``attention``."""

    layers: Dimension | None = None
    modules: ModuleNames | None = None

    @model_check
    def _is_one(self) -> Iterator[FieldError]:
        if (self.layers is None) == (self.modules is None):
            yield FieldError(
                "expected layers or modules, one of them",
                "{layers: 4} of each stage, or {modules: [core_attn, mlp]}",
            )


class OffloadFile(Part):
    """What waits on the host: a share of the optimizer's states, updated there, and of the
    activations between the passes."""

    optimizer: Annotated[PercentOrShare, Field(le=1)] = 0.0
    activations: Annotated[PercentOrShare, Field(le=1)] = 0.0


class LoraFile(Part):
    """Adapters of this rank beside frozen matrices."""

    rank: Dimension


class CallFile(Part):
    """Plain collectives of a step; ``time`` takes a known time of one in place of a price.

    With ``bucket`` they are tensors that go out together: a bucket before the next one would
    overflow it.
    """

    primitive: PrimitiveName
    group: Annotated[
        Literal["tp", "cp", "ep", "dp", "pp", "all"] | RanksFile,
        FieldHint("tp, cp, ep, dp, pp or all, or a mapping such as {ranks: 8, stride: 1}"),
    ] = "all"
    size: Size
    count: Dimension = 1
    bucket: Size | None = None
    time: Duration | None = None

    @model_check
    def _time_is_of_one_call(self) -> Iterator[FieldError]:
        if self.time == 0:
            yield FieldError(
                "a collective that takes 0 s",
                "the time that one takes, or leave time out for a price",
                ("time",),
            )
            return
        if self.bucket is not None and self.time is not None:
            yield FieldError(
                "the time of one call, and a bucket holds several",
                "leave time or bucket out",
                ("time",),
            )


class MeasuredFile(Part):
    """What was measured of this job: the step anchors the stack."""

    step: Duration | None = None
    memory: Size | None = None


_FileName = Annotated[str, Field(min_length=1, max_length=1000)]  # of a shipped file, or a path


class JobFile(Part):
    """A job file. ``slower``: times as long as the stack says everything computes, such as a
    measured step found. ``cuda_graphs`` of ``stack: megatron`` and ``compile`` of ``stack: fsdp``:
    which of its stacks runs.
    """

    schema_: Annotated[Literal["colltool.job/1"], Field(alias="schema")] = "colltool.job/1"
    name: Label = ""
    description: Words = ""
    model: Annotated[
        _FileName | ModelFile | None,
        FieldHint(
            "a shipped model, the path of a config.json, or a mapping such as {parameters: 7.0e+9,"
            " layers: 32}"
        ),
    ] = None
    sequence: Dimension | None = None
    batch: Annotated[BatchFile | None, FieldHint("a mapping such as {global: 1024, micro: 1}")] = (
        None
    )
    layout: Annotated[ParallelLayoutFile, FieldHint("a mapping such as {tp: 8, pp: 4}")] = (
        ParallelLayoutFile()
    )
    shard: Annotated[ShardFile, FieldHint("a mapping such as {mode: zero1}")] = ShardFile()
    schedule: Schedule | None = None
    recompute: Annotated[
        Recompute | RecomputeFile | ModuleNames | None,
        FieldHint(
            "none, selective (attention's core), full, modules such as 'mla_up_proj, mlp' (of"
            f" {', '.join(get_args(Module))}), or a mapping such as {{layers: 4}}"
        ),
    ] = None
    optimizer: Annotated[
        OptimizerName, FieldHint(f"one of {', '.join(get_args(OptimizerName))}")
    ] = "adam"
    offload: Annotated[OffloadFile, FieldHint("a mapping such as {optimizer: 100%}")] = (
        OffloadFile()
    )
    lora: Annotated[LoraFile | None, FieldHint("a mapping such as {rank: 16}")] = None
    precision: Annotated[PrecisionFile, FieldHint("a mapping such as {compute: bf16}")] = (
        PrecisionFile()
    )
    device: Annotated[
        _FileName | DeviceFile | None, FieldHint("a shipped device such as h100, or a mapping")
    ] = None
    stack: Annotated[
        _FileName | StackFile | None, FieldHint("a shipped stack such as megatron, or a mapping")
    ] = None
    cuda_graphs: MaybeFlag = None
    compile: MaybeFlag = None
    overlap: Annotated[OverlapFile, FieldHint("a mapping such as {dp: true}")] = OverlapFile()
    compression: Annotated[
        CompressionFile | None, FieldHint("a mapping such as {scheme: int8, block: 128}")
    ] = None
    energy: Flag = False
    steps: (
        Annotated[int, Field(ge=1, le=10**12, strict=True), FieldHint("a whole number of steps")]
        | None
    ) = None
    compute: Annotated[
        ComputeFile | None,
        FieldHint("a mapping such as {forward_per_layer: 7ms, backward_per_layer: 15ms}"),
    ] = None
    calls: Annotated[
        tuple[
            Annotated[
                CallFile,
                FieldHint("a mapping such as {primitive: ar, group: dp, size: 1MB, count: 1000}"),
            ],
            ...,
        ],
        Field(max_length=MAX_LISTED),
        FieldHint("a list of calls, such as - {primitive: ar, group: dp, size: 1MB}"),
    ] = ()
    slower: Annotated[
        float | None,
        Field(ge=0.01, le=100, strict=True),
        FieldHint("times as long as the stack says, such as 1.1"),
    ] = None
    measured: Annotated[MeasuredFile | None, FieldHint("a mapping such as {step: 14.8s}")] = None
