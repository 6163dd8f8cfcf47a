"""A job resolved for a number of ranks: :class:`ParallelConfig`, the groups that its dimensions
form, and its pipeline stages with their parameters.

Ranks are numbered with the first dimension of ``order`` fastest, so a dimension's stride is the
product of the sizes inside it.
Attention and experts cut the same ranks in two ways, as Megatron-Core's two rank generators do
(``parallel_state.py``): tp, cp, dp, pp for what every token passes, and etp, ep, the experts' own
dp and pp for the experts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.primitives import ceil_div
from colltool.training.files import (
    BYTES,
    ContextMode,
    DispatcherName,
    Module,
    OptimizerName,
    Recomputed,
    Schedule,
    ShardMode,
    TensorOverlap,
)
from colltool.training.model import (
    Accelerator,
    Moe,
    Shape,
    Stack,
    TransformerModel,
    dense_before,
    ends_of,
    layer_parameters,
)
from colltool.training.strategies import (
    OPTIMIZERS,
    RECOMPUTATIONS,
    SCHEDULES,
    SHARDINGS,
    Optimizer,
    PipelineSchedule,
    Recomputation,
    Sharding,
)

Axes = tuple[tuple[int, int], ...]


class RankGroup(NamedTuple):
    """Ranks as (size, stride) of each axis, innermost first; evenly spaced ones have a single
    axis."""

    axes: Axes

    @property
    def ranks(self) -> int:
        return prod(size for size, _ in self.axes)

    @property
    def stride(self) -> int:
        return self.axes[0][1] if self.axes else 1

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the group that begins at rank 0."""
        found = [0]
        for size, stride in self.axes:
            found = [first + step * stride for step in range(size) for first in found]
        return tuple(found)


class ParallelLayout(NamedTuple):
    """Sizes of the dimensions of a job, and the order in which ranks are numbered along them."""

    tp: int = 1
    sp: bool = False
    cp: int = 1
    cp_mode: ContextMode = "ring"
    ep: int = 1
    etp: int = 1
    pp: int = 1
    virtual: int = 1
    dp: int = 1  # 0: not known yet
    order: tuple[str, ...] = ("tp", "cp", "ep", "dp", "pp")
    stages: tuple[int, ...] = ()  # layers of each
    deduplicate: bool = False  # a token goes once to a rank with several of its experts
    dispatcher: DispatcherName | None = None  # None: NCCL's all-to-all, or as ``deduplicate`` says

    @property
    def ranks(self) -> int:
        return self.tp * self.cp * self.pp * self.dp

    @property
    def expert_dp(self) -> int:
        """Replicas of an expert: D t c / (e t_e)."""
        return self.ranks // (self.pp * self.ep * self.etp)

    def sizes(self, *, experts: bool = False) -> dict[str, int]:
        """Ranks of each dimension; of the ``experts``, tp is that of an expert, dp its replicas."""
        if experts:
            return {"tp": self.etp, "cp": 1, "ep": self.ep, "dp": self.expert_dp, "pp": self.pp}
        return {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp, "pp": self.pp}

    def group(self, *names: str, experts: bool = False) -> RankGroup:
        """The group over one dimension or several, such as ``group("cp", "dp")`` that sums
        gradients."""
        return _group(self, names, experts)


# cached, as a search asks for the same groups again and again
@lru_cache(maxsize=65536)
def _group(layout: ParallelLayout, names: tuple[str, ...], experts: bool) -> RankGroup:
    return group_over(layout.sizes(experts=experts), layout.order, names)


def strides(sizes: dict[str, int], order: tuple[str, ...]) -> dict[str, int]:
    """Distance of neighbouring ranks in each dimension, the first of ``order`` innermost."""
    found = {}
    stride = 1
    for name in order:
        found[name] = stride
        stride *= sizes[name]
    return found


def group_over(sizes: dict[str, int], order: tuple[str, ...], names: tuple[str, ...]) -> RankGroup:
    """The group of ranks that differ in these dimensions alone; axes that continue each other are
    merged."""
    stride_of = strides(sizes, order)
    axes: list[tuple[int, int]] = []
    for name in order:
        size = sizes[name]
        if name not in names or size == 1:
            continue
        # this dimension continues the one before: together they are one axis
        if axes and axes[-1][0] * axes[-1][1] == stride_of[name]:
            inner, stride = axes.pop()
            axes.append((inner * size, stride))
        else:
            axes.append((size, stride_of[name]))
    return RankGroup(tuple(axes))


def split_group(group: RankGroup, inner: int) -> tuple[RankGroup, RankGroup]:
    """Split a group in parts of ``inner`` ranks: return the first part, and the group of the first
    ranks of all parts.

    Raises:
        ValueError: parts of that size do not tile the group.
    """
    inside: list[tuple[int, int]] = []
    across: list[tuple[int, int]] = []
    remaining = inner
    for size, stride in group.axes:
        part = min(remaining, size)
        if size % part or remaining % part:
            break
        if part > 1:
            inside.append((part, stride))
        if size > part:
            across.append((size // part, stride * part))
        remaining //= part
    else:
        if remaining == 1:
            return RankGroup(tuple(inside)), RankGroup(tuple(across))
    raise ValueError(f"parts of {inner} do not tile {group.ranks} ranks")


class Shard(NamedTuple):
    """How replicas share weights, gradients and optimizer states."""

    mode: ShardMode = "ddp"
    group: int = 0  # ranks that share states where not all replicas do
    gathers: int = 2  # of an FSDP layer a micro-batch
    reshard: bool = True  # False: gathered once a step
    bucket: float | None = None  # bytes of gradients; None: the library's
    grad_bytes: int = 4  # of a gradient when it is summed

    @property
    def row(self) -> Sharding:
        return SHARDINGS[self.mode]

    @property
    def layers(self) -> bool:
        """Whether weights are sharded too, so that layers are gathered."""
        return self.row.weights


class Precision(NamedTuple):
    """Precisions by name, such as bf16."""

    compute: str = "bf16"
    params: str = "bf16"
    grads: str = "fp32"  # when they are summed
    # of tokens on their way to experts; the way back is in ``activation_bytes``
    dispatch: str = "bf16"
    master: str = "fp32"  # of the optimizer's own copy of the weights; none: it has no copy

    @property
    def activation_bytes(self) -> float:
        """Bytes of an activation, w: those of fp8 GEMMs stay in 16 bits."""
        return max(2.0, BYTES[self.compute])

    @property
    def param_bytes(self) -> float:
        return BYTES[self.params]


class Overlap(NamedTuple):
    """Which dimensions hide under compute, and how."""

    dp: bool = True
    tp: TensorOverlap = "none"
    pp: bool = True
    ep: str = ""  # "batch": under another batch, "shared": under the shared expert
    cp: bool = True
    asked: tuple[str, ...] = ()  # keys that the job sets itself
    overhead_s: float = 0.0  # LogP's o of a call
    # share by which hidden communication slows compute; None: by channels and kernels
    sm_share: float | None = None


class Compression(NamedTuple):
    """Compression of a dimension's calls."""

    on: str  # dimension
    scheme: str
    block: int | None = None
    keep: float | None = None
    warmup: float | None = None
    overhead_s: float = 0.0
    extra_steps: float = 0.0  # share of steps more to the same accuracy
    realised: float | None = None  # ratio of bytes, where it was measured


class Offload(NamedTuple):
    """Shares of optimizer states and activations that are kept in the memory of the host."""

    optimizer: float = 0.0
    activations: float = 0.0


class GivenTimes(NamedTuple):
    """Known compute seconds: of a layer and micro-batch, or of a whole step."""

    forward_s: float
    backward_s: float
    per_layer: bool


class ParallelConfig(NamedTuple):
    """All that the time and memory of a step depend on, except the fabric."""

    layout: ParallelLayout
    model: TransformerModel | None = None  # None: plain calls, or given times of a whole step
    sequence: int = 1
    global_batch: int = 1
    micro_batch: int = 1
    shard: Shard = Shard()
    schedule: Schedule = "1f1b"
    recompute: Recomputed = "none"
    again_layers: int = 0  # of a stage, where recompute is "layers"
    again_modules: tuple[Module, ...] = ()  # where it is "modules"
    precision: Precision = Precision()
    optimizer: OptimizerName = "adam"
    offload: Offload = Offload()
    lora: int = 0  # rank of the adapters; 0: every weight is trained
    device: Accelerator | None = None
    stack: Stack | None = None
    overlap: Overlap = Overlap()
    compression: Compression | None = None
    compute: GivenTimes | None = None
    slower: float = 1.0  # factor of the stack's compute times, from a measured step

    @property
    def shape(self) -> Shape | None:
        return self.model.shape if self.model is not None else None

    @property
    def moe(self) -> Moe | None:
        return self.shape.moe if self.shape is not None else None

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a replica in a step, m."""
        return max(1, self.global_batch // (self.layout.dp * self.micro_batch))

    @property
    def pipeline(self) -> PipelineSchedule:
        return SCHEDULES[self.schedule]

    @property
    def again(self) -> Recomputation:
        """What the backward pass computes again."""
        row = RECOMPUTATIONS[self.recompute]
        if row.whole:
            return row
        if self.recompute == "layers":
            return row._replace(max_layers=self.again_layers)
        core = not {"core_attn", "attention"}.isdisjoint(self.again_modules)
        return row._replace(core=core, modules=self.again_modules)

    @property
    def update(self) -> Optimizer:
        return OPTIMIZERS[self.optimizer]

    @property
    def folded(self) -> bool:
        """Whether the model runs down the pipeline and back up, so that it ends where it begins
        (ZB-V)."""
        return self.pipeline.folded and self.layout.pp > 1

    @property
    def chunks(self) -> int:
        """Parts of the model on a stage, v."""
        return 2 if self.folded else self.layout.virtual

    @property
    def tokens(self) -> float:
        """Tokens of a rank in a micro-batch, T = b s / c."""
        return self.micro_batch * self.sequence / self.layout.cp

    @property
    def gradient_ranks(self) -> int:
        """Ranks that sum a gradient, D c."""
        return self.layout.dp * self.layout.cp


def with_values(config: ParallelConfig, values: Mapping[str, Any]) -> ParallelConfig:
    """Return a configuration with other values by key, such as ``{"layout.tp": 8}``.

    Defaults that follow from these keys in a job file are not worked out again.
    """
    for key, value in values.items():
        part, _, name = key.rpartition(".")
        if key == "batch.micro":
            config = config._replace(micro_batch=value)
        elif part:
            changed = getattr(config, part)._replace(**{name: value})
            config = config._replace(**{part: changed})
        else:
            config = config._replace(**{name: value})
    return config


def value_of(config: ParallelConfig, key: str) -> Any:
    """Return the value of a configuration by key, such as ``layout.tp``."""
    return config.micro_batch if key == "batch.micro" else attrgetter(key)(config)


class PipelineStage(NamedTuple):
    """The part of a model that a rank of the pipeline has."""

    number: int
    dense_layers: int
    moe_layers: int
    embedding: bool
    head: bool

    @property
    def layers(self) -> int:
        return self.dense_layers + self.moe_layers

    @property
    def layers_by_kind(self) -> list[tuple[bool, int]]:
        """(Whether layers have experts, number of such layers), without empty kinds."""
        kinds = ((False, self.dense_layers), (True, self.moe_layers))
        return [(experts, layers) for experts, layers in kinds if layers]

    @property
    def kind(self) -> tuple[int, int, bool, bool]:
        """What a stage's compute and calls depend on, equal for stages of one kind."""
        return self.dense_layers, self.moe_layers, self.embedding, self.head


def each_kind(stages: Iterable[PipelineStage]) -> list[PipelineStage]:
    """The last stage of each kind."""
    return list({stage.kind: stage for stage in stages}.values())


def ends_as_layers(config: ParallelConfig) -> bool:
    """Whether the embedding and the head each take the place of a layer: where p x v divides the
    layers only with them.

    Megatron-Core's account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split:
    the 126 layers of Llama 3.1 405B on 8 stages of 8 chunks.
    """
    model, layout = config.model, config.layout
    if model is None or layout.stages or layout.pp == 1 or not config.pipeline.ends_as_layers:
        return False
    chunks, places = layout.pp * layout.virtual, model.layers + 2
    return model.layers % chunks > 0 and places % chunks == 0 and places > layout.pp


def layers_of_stages(layers: int, stages: int, *, folded: bool = False) -> tuple[int, ...]:
    """Layers of each stage, as even as possible: the stages with the embedding and the head are the
    last to get one more.

    >>> layers_of_stages(61, 4), layers_of_stages(126, 8)
    ((15, 16, 15, 15), (15, 16, 16, 16, 16, 16, 16, 15))
    """
    each, odd = divmod(layers, stages)
    ends = [0] if folded else [0, stages - 1]
    longer = [*(stage for stage in range(stages) if stage not in ends), *ends][:odd]
    return tuple(each + (stage in longer) for stage in range(stages))


def even_chunks(config: ParallelConfig) -> float:
    """Chunks v by which the bubble is shorter: fewer where chunks differ by a layer.

    A bubble is as long as the longest chunk: of 20 layers in three chunks 7.
    """
    model, v = config.model, config.layout.virtual
    if v == 1 or model is None or config.folded or ends_as_layers(config):
        return v
    longest = max(config.layout.stages or layers_of_stages(model.layers, config.layout.pp))
    return longest / ceil_div(longest, v)


def pipeline_stages(config: ParallelConfig) -> tuple[PipelineStage, ...]:
    """Return the pipeline stages of a model.

    Its dense layers come first, unless spread; with virtual stages a stage holds every p-th chunk of the model.
    """
    model, layout = config.model, config.layout
    assert model is not None
    return _stages(
        model.layers,
        model.dense_layers,
        layout.pp,
        config.chunks,
        layout.stages,
        folded=config.folded,
        ends=ends_as_layers(config),
        spread=model.spread,
    )


# cached, as layouts of a search share a few hundred pipelines
@lru_cache(maxsize=4096)
def _stages(
    layers: int,
    dense_layers: int,
    p: int,
    v: int,
    counts: tuple[int, ...],
    *,
    folded: bool,
    ends: bool,
    spread: bool,
) -> tuple[PipelineStage, ...]:
    """Return the stages of p stages with v chunks; ``counts``: layers of stages that a job lists."""
    chunk_layers = []  # by stage and chunk
    for count in counts or layers_of_stages(layers, p, folded=folded):
        layers_each, odd = divmod(count, v)
        chunk_layers.append([layers_each + (chunk < odd) for chunk in range(v)])
    if ends:
        chunk_layers = [[(layers + 2) // (p * v)] * v for _ in range(p)]
        chunk_layers[0][0] -= 1
        chunk_layers[-1][-1] -= 1
    dense = [0] * p
    position = 0  # layers before a chunk, which are in order: chunk by chunk, stage by stage
    for chunk in range(v):
        upwards = folded and chunk % 2
        for stage in reversed(range(p)) if upwards else range(p):
            end = position + chunk_layers[stage][chunk]
            before = dense_before(position, layers, dense_layers, spread=spread)
            dense[stage] += dense_before(end, layers, dense_layers, spread=spread) - before
            position = end
    # ZB-V: the head is on the stage of the embedding (arXiv:2401.10241 section 6)
    last = 0 if folded else p - 1
    return tuple(
        PipelineStage(
            stage,
            dense[stage],
            sum(chunk_layers[stage]) - dense[stage],
            embedding=stage == 0,
            head=stage == last,
        )
        for stage in range(p)
    )


class RankParameters(NamedTuple):
    """Parameters of a rank, by their replicas: D c of dense ones, fewer of those of its experts."""

    dense: float
    experts: float = 0.0

    @property
    def total(self) -> float:
        return self.dense + self.experts


def layer_parameters_of(config: ParallelConfig, *, experts: bool) -> RankParameters:
    """Parameters of one layer on a rank; without a shape an equal part of all parameters."""
    model, layout = config.model, config.layout
    assert model is not None
    if model.shape is None:
        return RankParameters(model.parameters / model.layers / (layout.tp * layout.ep))
    layer = layer_parameters(model.shape, experts=experts)
    return RankParameters(*layer.on(layout.tp, layout.ep, layout.etp))


def ends_parameters(config: ParallelConfig, stage: PipelineStage) -> float:
    """Parameters of a stage's embedding and head on a rank; with p > 1 the last stage has its own
    copy of a tied head."""
    if config.shape is None:
        return 0.0
    return ends_of(config.shape, config.layout.tp, embedding=stage.embedding, head=stage.head)


def stage_parameters(config: ParallelConfig, stage: PipelineStage) -> RankParameters:
    """Parameters of a stage on a rank."""
    dense = ends_parameters(config, stage)
    experts = 0.0
    for with_experts, layers in stage.layers_by_kind:
        layer = layer_parameters_of(config, experts=with_experts)
        dense += layers * layer.dense
        experts += layers * layer.experts
    return RankParameters(dense, experts)
