"""Deployments of a served model: how it is split over ranks, its weights and KV cache in bytes, and
the lower limit of a step, the least time of memory and compute on a rank.

A model's :class:`~colltool.training.model.Shape` has its ``parts``, the kinds of its sequence mixers
(attention, recurrent layers), each with a ``share`` of the layers and formulas of the values that it
keeps for a token (``cache``) or a sequence (``state``). ``mixer.on(tp)`` evaluates them with tp ranks,
``mixer.on()`` without a split. Parameters of a layer are ``split`` by tp, ``replicated`` on every rank,
``looked_up`` (tables of which a token reads rows), or of its ``experts``. Widths are bytes of a value.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.engines.tokens import WIDTHS
from colltool.fabric.expression import nodes_for
from colltool.fabric.model import Fabric
from colltool.serving.quantization import BF16, WeightFormat, uniform
from colltool.training.model import Shape, TransformerModel, ends_of, layer_parameters
from colltool.training.stack import Accelerator

# Tokens of a step of chunked prefill, the default of vLLM and SGLang
CHUNK = 8192


class Deployment(NamedTuple):
    """How a model is served.

    Args:
        tp, pp: tensor and pipeline parallelism.
        dp: replicas of attention, each of tp ranks (data-parallel attention).
        ep: ranks that the experts of a layer are on; 1 if it has none, or if tensor parallelism
            splits them too.
        batch: sequences in flight in the whole deployment.
        input, output: tokens of a sequence.
        dtype: format of weights, of those that are quantized; activations are reduced in bf16.
        kv_dtype: format of the KV cache.
        chunk: tokens of a step of prefill.
    """

    tp: int = 1
    ep: int = 1
    pp: int = 1
    dp: int = 1
    batch: int = 1
    input: int = 4096
    output: int = 1024
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    chunk: int = CHUNK

    @property
    def ranks(self) -> int:
        """Ranks of the whole deployment; experts share them with attention."""
        return self.tp * self.pp * self.dp

    @property
    def tokens(self) -> int:
        """Tokens of a replica's decode step: one for each sequence in a pipeline stage."""
        return max(1, ceil(self.batch / (self.dp * self.pp)))

    @property
    def exchanges(self) -> bool:
        """Whether tokens are sent to experts on other ranks; else tp splits every expert."""
        return self.ep > self.tp

    @property
    def label(self) -> str:
        """The layout for people: ``tp 8, ep 16, dp 2``, without sizes of 1 but tp's."""
        sizes = [f"tp {self.tp}"]
        for dimension, ranks in (("ep", self.ep), ("pp", self.pp), ("dp", self.dp)):
            if ranks > 1:
                sizes.append(f"{dimension} {ranks}")
        return ", ".join(sizes)


def shape_of(model: TransformerModel) -> Shape:
    """Return a model's shape.

    Raises:
        ColltoolError: only its layers and parameters are known.
    """
    if model.shape is None:
        raise ColltoolError(
            f"of {model.name} only layers and parameters are known",
            argument="job",
            fix="give its shape, or a config.json",
        )
    return model.shape


def checked_deployment(
    model: TransformerModel, deployment: Deployment, dp: int | None
) -> Deployment:
    """Return a deployment with ``dp``, or for None with as many replicas as fill the experts' ranks.

    Raises:
        ColltoolError: sizes that do not divide the model or each other.
    """
    _check_experts(model, deployment)
    if dp is None:
        dp = max(1, deployment.ep // deployment.tp)
    deployment = deployment._replace(dp=dp)
    replica_ranks = deployment.tp * deployment.dp
    if deployment.exchanges and deployment.ep != replica_ranks:
        attention = f"tp {deployment.tp} x dp {deployment.dp} = {replica_ranks}"
        raise ColltoolError(
            f"experts on {deployment.ep} ranks, attention on {attention}",
            argument="dp",
            fix=f"write {argument_text('dp', deployment.ep // deployment.tp)}",
        )
    heads = shape_of(model).heads
    if heads % deployment.tp:
        raise ColltoolError(
            f"{heads} heads do not fill tp {deployment.tp}",
            argument="tp",
            fix=f"one of {_divisors(heads)}",
        )
    if deployment.pp > model.layers:
        raise ColltoolError(
            f"{model.layers} layers are too few for pp {deployment.pp}",
            argument="pp",
            fix=f"at most {model.layers}",
        )
    fewest = deployment.dp * deployment.pp
    if deployment.batch < fewest:
        raise ColltoolError(
            f"{deployment.batch} sequences leave some of {fewest} replicas and stages idle",
            argument="batch",
            fix=f"write {argument_text('batch', fewest)} or more",
        )
    return deployment


def _divisors(number: int) -> str:
    """All divisors for an error: ``1, 2, 4 or 8``."""
    *smaller, largest = [str(size) for size in range(1, number + 1) if number % size == 0]
    return f"{', '.join(smaller)} or {largest}" if smaller else largest


def _check_experts(model: TransformerModel, deployment: Deployment) -> None:
    """Raise ColltoolError for an ep that the model's experts, or tp, do not divide evenly."""
    moe = shape_of(model).moe
    if deployment.ep > 1:
        if moe is None:
            raise ColltoolError(
                f"{model.name} has no experts",
                argument="ep",
                fix=f"leave {argument_text('ep')} out",
            )
        if moe.experts % deployment.ep:
            raise ColltoolError(
                f"{moe.experts} experts do not fill {deployment.ep} ranks evenly",
                argument="ep",
                fix=f"one of {_divisors(moe.experts)}",
            )
    if deployment.exchanges and deployment.ep % deployment.tp:
        raise ColltoolError(
            f"ep {deployment.ep} is no multiple of tp {deployment.tp}",
            argument="ep",
            fix=f"write {argument_text('ep', deployment.tp * 2)}",
        )


def kv_bytes(model: TransformerModel, dtype: str) -> float:
    """Return the bytes of KV cache of a token in all layers.

    A layer has 2 kv_heads d w; with latent attention (c_kv + d_rope) w; a recurrent layer none.
    """
    values = 0.0
    for mixer in shape_of(model).parts:
        values += mixer.share * mixer.on().value(mixer.description.cache)
    return model.layers * values * WIDTHS[dtype]


def kv_bytes_of_rank(
    model: TransformerModel, deployment: Deployment, read_tokens: float = 0.0
) -> float:
    """Return the bytes of KV cache of a token on a rank, in its pipeline stage.

    Args:
        read_tokens: 0 for the bytes that are kept; else tokens of a sequence that a step reads, and
            what comes back is the mean of their bytes, where windows leave some out.
    """
    values = 0.0
    for mixer in shape_of(model).parts:
        cached = mixer.on().value(mixer.description.cache)
        # tp splits the KV heads, down to one a rank; a latent cache is the same on every rank
        if not mixer.description.on_all_ranks and cached:
            cached /= min(deployment.tp, dict(mixer.sizes)["kv_heads"])
        # a shape without mixers is attention alone, where only a share of the layers may have the
        # window: it is not counted
        if read_tokens and mixer.window and shape_of(model).mixers:
            cached *= min(1.0, mixer.window / read_tokens)
        values += mixer.share * cached
    return model.layers * values * WIDTHS[deployment.kv_dtype] / deployment.pp


def state_bytes_of_rank(model: TransformerModel, deployment: Deployment) -> float:
    """Return the bytes on a rank, in its pipeline stage, of what recurrent layers keep of a
    sequence however long it is, in 16 bits at least."""
    width = max(BF16, WIDTHS[deployment.kv_dtype])
    values = 0.0
    for mixer in shape_of(model).parts:
        rank = mixer.on(deployment.tp)
        values += mixer.share * rank.value(mixer.description.state)
    layers = model.layers / deployment.pp
    return layers * values * width


def check_ranks(fabric: Fabric, ranks: int, what: str, argument: str) -> None:
    """Refuse more ranks than a fabric has.

    Args:
        what: what needs them: ``tp 16, dp 2``.
        argument: the argument of the error.

    Raises:
        ColltoolError: too many, and the fabric to type instead.
    """
    if ranks <= fabric.ranks:
        return
    nodes = nodes_for(fabric, ranks)
    fix = f"at most {fabric.ranks}, or another fabric"
    if nodes is not None:
        fix = f"write {argument_text('fabric', f'{fabric.name}:nodes={nodes}')}"
    needs = f"{what} needs {ranks} ranks, {fabric.name} has {fabric.ranks}"
    raise ColltoolError(needs, argument=argument, fix=fix)


class Floor(NamedTuple):
    """The lower limit of a step on a rank; no kernel reaches it.

    Weights and KV come from memory at its rated bandwidth, FLOPs are at the dense peak.
    """

    memory_s: float
    compute_s: float

    @property
    def total_s(self) -> float:
        """The longer of the two, which overlap."""
        return max(self.memory_s, self.compute_s)


class WeightBytes(NamedTuple):
    """Bytes of a rank's weights, and of those that a step reads."""

    weights: float
    read: float


def weight_bytes(
    model: TransformerModel,
    deployment: Deployment,
    tokens: int,
    weights: WeightFormat | None = None,
) -> WeightBytes:
    """Return the weights of a rank of the busiest stage, for a step of ``tokens`` per replica.

    A step reads the experts that at least one token chose, on average over uniform routing: a token
    of any replica, where tokens are sent to experts.

    Args:
        tokens: one for each sequence of a replica's stage in decode.
        weights: their format; None for the deployment's for all.
    """
    widths = uniform(deployment.dtype) if weights is None else weights
    shape = shape_of(model)
    dense = layer_parameters(shape, experts=False)
    moe = layer_parameters(shape, experts=True)
    split = model.dense_layers * dense.split + model.moe_layers * moe.split
    replicated = model.dense_layers * dense.replicated + model.moe_layers * moe.replicated
    # of all stages, as are looked_up and experts: stages divide them evenly
    layers = split / deployment.tp * widths.dense + replicated * widths.whole
    looked_up = model.layers * dense.looked_up / deployment.tp * widths.ends
    expert_ranks = deployment.ep if deployment.exchanges else deployment.tp
    experts = model.moe_layers * moe.experts / expert_ranks * widths.experts
    chosen = 1.0
    if shape.moe is not None:
        all_tokens = tokens * deployment.dp if deployment.exchanges else tokens
        chosen = 1 - (1 - shape.moe.top_k / shape.moe.experts) ** all_tokens
    ends = ends_of(shape, deployment.tp) * widths.ends
    # A step reads the whole head, which is half of the ends, but of the embedding only a row per token;
    # a tied head is the embedding.
    read_of_ends = ends if shape.tied else ends / 2
    read = (layers + experts * chosen) / deployment.pp + read_of_ends
    return WeightBytes((layers + experts + looked_up) / deployment.pp + ends, read)


def active_flops(model: TransformerModel, deployment: Deployment, tokens: float) -> float:
    """Return the FLOPs of a rank for ``tokens`` of a replica in one stage: two per parameter that a
    token uses."""
    shape = shape_of(model)
    dense = layer_parameters(shape, experts=False)
    moe = layer_parameters(shape, experts=True)
    # parameters of the experts that a token visits, in one layer
    visited = 0.0
    if shape.moe is not None:
        visited = moe.experts * (shape.moe.top_k / shape.moe.experts)
    used = model.dense_layers * (dense.split + dense.replicated)
    used += model.moe_layers * (moe.split + moe.replicated + visited)
    # the embedding is looked up, not multiplied; the head is counted in every stage
    stage_used = used / deployment.pp + ends_of(shape, 1, embedding=False)
    return 2 * tokens * stage_used / deployment.tp


class StepWork(NamedTuple):
    """What a step reads and computes on a rank of one stage.

    Args:
        weight_bytes, kv_bytes: of the weights and of the cache that it reads.
        flops: of its products.
        peak_flops: FLOP/s of the device in the format of the weights.
    """

    weight_bytes: float
    kv_bytes: float
    flops: float
    peak_flops: float


def step_work(
    model: TransformerModel,
    deployment: Deployment,
    device: Accelerator,
    tokens: int,
    cached: float,
    weights: WeightFormat | None = None,
) -> StepWork:
    """Return what a step reads and computes.

    Args:
        weights: their format; None for the deployment's for all.
        tokens: tokens of the step, for each replica.
        cached: tokens of KV cache that the step reads, for each replica.
    """
    widths = uniform(deployment.dtype) if weights is None else weights
    return StepWork(
        weight_bytes=weight_bytes(model, deployment, tokens, widths).read,
        kv_bytes=kv_bytes_of_rank(model, deployment, cached / tokens) * cached,
        flops=active_flops(model, deployment, tokens),
        peak_flops=widths.peak(dict(device.peak)),
    )


def step_floor(work: StepWork, device: Accelerator) -> Floor:
    """Return the lower limit of a step on a rank of one stage."""
    read_bytes = work.weight_bytes + work.kv_bytes
    return Floor(read_bytes / device.bandwidth_Bps, work.flops / work.peak_flops)
