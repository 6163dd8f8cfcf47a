"""The pipeline stages of a job, and the parameters of their ranks.

:func:`pipeline_stages` splits the model into :class:`PipelineStage`; :func:`stage_parameters` counts
what a rank of a stage has.

Words: p stages of v chunks each, v virtual stages. A pipeline is folded where the model runs down its
stages and back up (ZB-V), so that it ends on the stage where it begins. Dense layers are spread where
they alternate with those that have experts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from colltool.base.primitives import ceil_div
from colltool.training.model import dense_before, ends_of, layer_parameters
from colltool.training.parallel_config import ParallelConfig

Worked = TypeVar("Worked")


class PipelineStage(NamedTuple):
    """The part of a model that a rank of the pipeline has."""

    number: int  # from 0, in the order of the pipeline
    dense_layers: int
    moe_layers: int  # layers with experts
    embedding: bool  # whether it has the embedding
    head: bool  # whether it has the head

    @property
    def layers(self) -> int:
        """Layers of both kinds."""
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


def once_a_kind(
    stages: Sequence[PipelineStage], work_out: Callable[[PipelineStage], Worked]
) -> list[Worked]:
    """Return what a function works out for each stage; it is called once for those of a kind."""
    by_kind = {stage.kind: work_out(stage) for stage in each_kind(stages)}
    return [by_kind[stage.kind] for stage in stages]


def ends_as_layers(config: ParallelConfig) -> bool:
    """Whether the embedding and the head each take the place of a layer: where p x v divides the
    layers only with them.

    Megatron-Core's account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split:
    the 126 layers of Llama 3.1 405B on 8 stages of 8 chunks.
    """
    model = config.model
    layout = config.layout
    if model is None or layout.stages or layout.pp == 1 or not config.pipeline.ends_as_layers:
        return False
    chunks = layout.pp * layout.virtual
    places = model.layers + 2
    # with a single place a stage, the first and the last would have no layer
    return model.layers % chunks > 0 and places % chunks == 0 and places > layout.pp


def layers_of_stages(layers: int, stages: int, *, folded: bool = False) -> tuple[int, ...]:
    """Layers of each stage, as even as possible: the stages with the embedding and the head are the
    last to get one more.

    >>> layers_of_stages(61, 4), layers_of_stages(126, 8)
    ((15, 16, 15, 15), (15, 16, 16, 16, 16, 16, 16, 15))
    """
    fewest, longer_stages = divmod(layers, stages)
    ends = [0] if folded else [0, stages - 1]
    ends_last = [*(stage for stage in range(stages) if stage not in ends), *ends]
    longer = ends_last[:longer_stages]
    return tuple(fewest + (stage in longer) for stage in range(stages))


def bubble_divisor(config: ParallelConfig) -> float:
    """The factor by which chunks shorten the bubble: v, less where chunks differ by a layer.

    A bubble is as long as the longest chunk: of 20 layers in three chunks 7, so 20/7.
    """
    model = config.model
    v = config.layout.virtual
    if v == 1 or model is None or config.folded or ends_as_layers(config):
        return float(v)
    longest = max(config.layout.stages or layers_of_stages(model.layers, config.layout.pp))
    return longest / ceil_div(longest, v)


def pipeline_stages(config: ParallelConfig) -> tuple[PipelineStage, ...]:
    """Return the pipeline stages of a model.

    Its dense layers come first, unless spread; with virtual stages a stage holds every p-th chunk of
    the model.
    """
    model = config.known_model
    layout = config.layout
    return _stages(
        layers=model.layers,
        dense_layers=model.dense_layers,
        p=layout.pp,
        v=config.chunks,
        stated_layers=layout.stages,
        folded=config.folded,
        with_ends=ends_as_layers(config),
        spread=model.spread,
    )


# cached, as layouts of a search share a few hundred pipelines
@lru_cache(maxsize=4096)
def _stages(
    *,
    layers: int,
    dense_layers: int,
    p: int,
    v: int,
    stated_layers: tuple[int, ...],
    folded: bool,
    with_ends: bool,
    spread: bool,
) -> tuple[PipelineStage, ...]:
    """Return p stages of v chunks.

    Args:
        layers: of the model.
        dense_layers: of these, layers without experts.
        stated_layers: layers of each stage, where a job lists them.
        folded: whether the model runs down the stages and back up.
        with_ends: whether the embedding and the head take the place of a layer each.
        spread: whether dense layers alternate with those that have experts.
    """
    chunk_layers = []  # chunk_layers[stage][chunk]: number of layers
    if with_ends:
        # the embedding and the head take the place of a layer each, in the first and the last chunk
        chunk_layers = [[(layers + 2) // (p * v)] * v for _ in range(p)]
        chunk_layers[0][0] -= 1
        chunk_layers[-1][-1] -= 1
    else:
        for count in stated_layers or layers_of_stages(layers, p, folded=folded):
            # 5 layers in 2 chunks: 3 and 2
            fewest, longer_chunks = divmod(count, v)
            chunk_layers.append([fewest + (chunk < longer_chunks) for chunk in range(v)])
    dense = [0] * p
    # layers before a chunk; their order for p = 3, v = 2, and folded:
    #   stage   0  1  2        0  1  2
    #   chunk   0  1  2        0  1  2
    #           3  4  5        5  4  3
    position = 0
    for chunk in range(v):
        upwards = folded and chunk % 2
        for stage in reversed(range(p)) if upwards else range(p):
            end = position + chunk_layers[stage][chunk]
            before = dense_before(position, layers, dense_layers, spread=spread)
            dense[stage] += dense_before(end, layers, dense_layers, spread=spread) - before
            position = end
    # ZB-V: the head is on the stage of the embedding (arXiv:2401.10241 section 6)
    head_stage = 0 if folded else p - 1
    return tuple(
        PipelineStage(
            stage,
            dense[stage],
            sum(chunk_layers[stage]) - dense[stage],
            embedding=stage == 0,
            head=stage == head_stage,
        )
        for stage in range(p)
    )


class RankParameters(NamedTuple):
    """Parameters of a rank, by which ranks have the same ones."""

    dense: float  # on dp x cp ranks
    experts: float = 0.0  # those of experts, on the replicas of an expert

    @property
    def total(self) -> float:
        """Parameters of both kinds."""
        return self.dense + self.experts


def layer_parameters_of(config: ParallelConfig, *, experts: bool) -> RankParameters:
    """Parameters of one layer on a rank; without a shape an equal part of all parameters."""
    model = config.known_model
    layout = config.layout
    if model.shape is None:
        return RankParameters(model.parameters / model.layers / (layout.tp * layout.ep))
    layer = layer_parameters(model.shape, experts=experts)
    return RankParameters(layer.dense_on(layout.tp), layer.experts / (layout.ep * layout.etp))


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
