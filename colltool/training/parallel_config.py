"""A job resolved for a number of ranks: :class:`ParallelConfig`, which all of this room computes with,
and the groups of ranks that its dimensions form (:meth:`ParallelLayout.group`). It is made from a job
file by :mod:`colltool.training.job_configuration`; its stages are in
:mod:`colltool.training.pipeline_stages`.

Letters in docstrings: of sizes of dimensions t tp, c cp, e ep, t_e etp (the tp of an expert), p pp, v
virtual and D dp; m micro-batches of a step, each of b sequences of s tokens.

Ranks are numbered with the first dimension of ``order`` fastest, so a dimension's stride is the
product of the sizes inside it. All records are hashable: prices and times are cached by them.

Attention and experts cut the same ranks in two ways, as Megatron-Core's two rank generators do
(``parallel_state.py``): tp, cp, dp, pp for what every token passes, and etp, ep, the experts' own
dp and pp for the experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

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
from colltool.training.model import Moe, Shape, TransformerModel
from colltool.training.roofline import Roofline
from colltool.training.stack import Accelerator, Stack
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

Axes = tuple[tuple[int, int], ...]  # (ranks, stride) of each axis, as documents write them


class EvenRanks(NamedTuple):
    """Evenly spaced ranks: (4, 8) are ranks 0, 8, 16 and 24."""

    ranks: int
    stride: int  # distance of neighbours


class RankGroup(NamedTuple):
    """Ranks along one axis or several, innermost first: (2, 1) and (2, 8) are ranks 0, 1, 8, 9."""

    axes: Axes

    @property
    def ranks(self) -> int:
        """Number of its ranks; 1 without axes."""
        return prod(size for size, _ in self.axes)

    @property
    def stride(self) -> int:
        """Distance of neighbours on the innermost axis; 1 without axes."""
        return self.axes[0][1] if self.axes else 1

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the group that begins at rank 0, in order along the axes."""
        members = [0]
        for size, stride in self.axes:
            inner = members
            members = []
            for step in range(size):
                members += [rank + step * stride for rank in inner]
        return tuple(members)


class ParallelLayout(NamedTuple):
    """Sizes of the dimensions of a job, and the order in which ranks are numbered along them."""

    tp: int = 1
    sp: bool = False  # whether tp splits tokens outside its regions too
    cp: int = 1
    cp_mode: ContextMode = "ring"  # how queries meet the keys of other ranks
    ep: int = 1
    etp: int = 1  # ranks that an expert is split over
    pp: int = 1
    virtual: int = 1  # chunks of the model on a stage, where they are interleaved
    dp: int = 1  # 0: not known yet
    order: tuple[str, ...] = ("tp", "cp", "ep", "dp", "pp")  # innermost first
    stages: tuple[int, ...] = ()  # layers of each, where the job lists them
    deduplicate: bool = False  # a token goes once to a rank with several of its experts
    dispatcher: DispatcherName | None = None  # None: NCCL's all-to-all, or as ``deduplicate`` says

    @property
    def ranks(self) -> int:
        """Ranks of the job; 0 while dp is not known."""
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
        gradients; of the ``experts``, as :meth:`sizes` cuts the ranks for them."""
        return _group(self, names, experts)


# cached, as a search asks for the same groups again and again
@lru_cache(maxsize=65536)
def _group(layout: ParallelLayout, names: tuple[str, ...], experts: bool) -> RankGroup:
    """:meth:`ParallelLayout.group`."""
    return group_over(layout.sizes(experts=experts), layout.order, names)


def strides(sizes: dict[str, int], order: tuple[str, ...]) -> dict[str, int]:
    """Distance of neighbouring ranks in each dimension, the first of ``order`` innermost."""
    stride_of = {}
    stride = 1
    for name in order:
        stride_of[name] = stride
        stride *= sizes[name]
    return stride_of


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

    8 ranks with stride 4 in parts of 2: (2, 4), and (4, 8) across.

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
    group: int = 0  # number of ranks that share states; 0: all replicas do
    gathers: int = 2  # of an FSDP layer a micro-batch
    reshard: bool = True  # False: gathered once a step
    bucket: float | None = None  # bytes of gradients; None: the library's
    grad_bytes: int = 4  # of a gradient when it is summed

    @property
    def strategy(self) -> Sharding:
        """What the mode shares, in the table of modes."""
        return SHARDINGS[self.mode]

    @property
    def shards_weights(self) -> bool:
        """Whether weights are sharded too, so that layers are gathered."""
        return self.strategy.weights


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
        """Bytes of a weight."""
        return BYTES[self.params]


class Overlap(NamedTuple):
    """Which dimensions hide their calls under compute, and how."""

    dp: bool = True  # gradients and weights
    tp: TensorOverlap = "none"
    pp: bool = True  # messages between stages, under other micro-batches
    ep: str = ""  # "batch": under another batch, "shared": under the shared expert; "": not at all
    cp: bool = True
    requested: tuple[str, ...] = ()  # keys that the job itself switches on
    overhead_s: float = 0.0  # LogP's o of a call
    # share by which hidden communication slows compute; None: by channels and kernels
    sm_share: float | None = None


class Compression(NamedTuple):
    """Compression of a dimension's calls."""

    on: str  # dimension
    scheme: str  # fp16, int8, 1bit, topk or 1bit-adam
    block: int | None = None  # int8: elements that share a scale
    keep: float | None = None  # topk: share of the elements that are sent
    warmup: float | None = None  # 1bit-adam: share of the steps before it compresses
    overhead_s: float = 0.0  # of a call
    extra_steps: float = 0.0  # share of steps more to the same accuracy
    realised: float | None = None  # ratio of bytes, where it was measured


class Offload(NamedTuple):
    """Shares of optimizer states and activations that are kept in the memory of the host."""

    optimizer: float = 0.0  # updated there too
    activations: float = 0.0


class GivenTimes(NamedTuple):
    """Known compute seconds."""

    forward_s: float
    backward_s: float
    per_layer: bool  # whether they are of a layer and micro-batch, else of a whole step


class ParallelConfig(NamedTuple):
    """All that the time and memory of a step depend on, except the fabric."""

    layout: ParallelLayout
    model: TransformerModel | None = None  # None: plain calls, or given times of a whole step
    sequence: int = 1  # tokens
    global_batch: int = 1  # sequences of a step, over all replicas
    micro_batch: int = 1  # sequences of a replica
    shard: Shard = Shard()
    schedule: Schedule = "1f1b"  # see ``pipeline``
    recompute: Recomputed = "none"  # see ``recomputation``
    recomputed_layers: int = 0  # of a stage, where recompute is "layers"
    recomputed_modules: tuple[Module, ...] = ()  # where it is "modules"
    precision: Precision = Precision()
    optimizer: OptimizerName = "adam"  # see ``optimizer_row``
    offload: Offload = Offload()
    lora: int = 0  # rank of the adapters; 0: every weight is trained
    device: Accelerator | None = None  # None: not known yet, or not needed
    stack: Stack | None = None
    overlap: Overlap = Overlap()
    compression: Compression | None = None  # None: nothing is compressed
    compute: GivenTimes | None = None  # None: it follows from device, stack and shape
    slower: float = 1.0  # factor of the stack's compute times, from a measured step

    @property
    def shape(self) -> Shape | None:
        """The shape of the model; None where only its size is known, or there is none."""
        return self.model.shape if self.model is not None else None

    @property
    def moe(self) -> Moe | None:
        """The experts of the model; None where it has none, or no shape."""
        return self.shape.moe if self.shape is not None else None

    @property
    def known_model(self) -> TransformerModel:
        """The model of a job that has one."""
        assert self.model is not None
        return self.model

    @property
    def known_shape(self) -> Shape:
        """The shape of the model of a job that has both."""
        return self.known_model.known_shape

    @property
    def known_moe(self) -> Moe:
        """The experts of a model that has some."""
        assert self.moe is not None
        return self.moe

    @property
    def roofline(self) -> Roofline:
        """What kernel times depend on, of a job with a device and a stack."""
        assert self.device is not None
        assert self.stack is not None
        return Roofline(self.device, self.stack, self.precision.compute)

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a replica in a step, m; of a layout whose dp is known."""
        return max(1, self.global_batch // (self.layout.dp * self.micro_batch))

    @property
    def pipeline(self) -> PipelineSchedule:
        """The schedule, in the table of schedules."""
        return SCHEDULES[self.schedule]

    @property
    def recomputation(self) -> Recomputation:
        """What the backward pass computes again."""
        row = RECOMPUTATIONS[self.recompute]
        if row.whole:
            return row
        if self.recompute == "layers":
            return row._replace(max_layers=self.recomputed_layers)
        core = not {"core_attn", "attention"}.isdisjoint(self.recomputed_modules)
        return row._replace(core=core, modules=self.recomputed_modules)

    @property
    def optimizer_row(self) -> Optimizer:
        """The optimizer, in the table of optimizers."""
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
        # "layout.tp": the field ``tp`` of the record ``layout``; "batch.micro" has another name here
        part, _, name = key.rpartition(".")
        if key == "batch.micro":
            config = config._replace(micro_batch=value)
        elif part:
            changed = getattr(config, part)._replace(**{name: value})
            config = config._replace(**{part: changed})
        else:
            config = config._replace(**{name: value})
    return config


def value_at_key(config: ParallelConfig, key: str) -> Any:
    """Return the value of a configuration by key, such as ``layout.tp``."""
    return config.micro_batch if key == "batch.micro" else attrgetter(key)(config)
