"""The parameters that one rank holds, by stage, before anybody shards them among replicas."""

from __future__ import annotations

from typing import NamedTuple

from colltool.training.model import embedding_parameters, head_parameters, layer_parameters
from colltool.training.parallel_config import ParallelConfig, PipelineStage


class RankParameters(NamedTuple):
    """Parameters of a rank: those that all D c replicas share, and those of its experts, which fewer do."""

    dense: float
    experts: float = 0.0

    @property
    def total(self) -> float:
        """Both."""
        return self.dense + self.experts


def layer_parameters_of(config: ParallelConfig, *, experts: bool) -> RankParameters:
    """One layer of a kind; of a model without a shape an equal part of all parameters."""
    model, layout = config.model, config.layout
    assert model is not None
    if model.shape is None:
        return RankParameters(model.parameters / model.layers / (layout.tp * layout.ep))
    return RankParameters(*layer_parameters(model.shape, experts=experts).on(layout.tp, layout.ep, layout.etp))


def ends_parameters(config: ParallelConfig, stage: PipelineStage) -> RankParameters:
    """The embedding of the first stage and the head of the last; a tied head is a copy of its own there, with p > 1."""
    model = config.model
    assert model is not None
    shape, tp = model.shape, config.layout.tp
    if shape is None:
        return RankParameters(0.0)
    embedding = embedding_parameters(shape)
    total = embedding.on(tp)[0] if stage.embedding else 0.0
    if stage.head:
        total += head_parameters(shape).on(tp)[0]
        if shape.tied and not stage.embedding:
            total += embedding.split / tp
    return RankParameters(total)


def stage_parameters(config: ParallelConfig, stage: PipelineStage) -> RankParameters:
    """All that a rank of a stage holds: P_l."""
    ends = ends_parameters(config, stage)
    dense = layer_parameters_of(config, experts=False) if stage.dense_layers else RankParameters(0.0)
    moe = layer_parameters_of(config, experts=True) if stage.moe_layers else RankParameters(0.0)
    return RankParameters(
        ends.dense + stage.dense_layers * dense.dense + stage.moe_layers * moe.dense,
        stage.moe_layers * moe.experts,
    )
