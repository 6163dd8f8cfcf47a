"""The parameters that one rank holds, by stage, before anybody shards them among replicas."""

from __future__ import annotations

from typing import NamedTuple

from colltool.training.model import embedding_parameters, head_parameters, layer_parameters
from colltool.training.setup import Setup, Stage


class Held(NamedTuple):
    """Parameters of a rank: those that all D c replicas share, and those of its experts, which fewer do."""

    dense: float
    experts: float = 0.0

    @property
    def total(self) -> float:
        """Both."""
        return self.dense + self.experts


def layer_held(setup: Setup, *, experts: bool) -> Held:
    """One layer of a kind; of a model without a shape an equal part of all parameters."""
    model, layout = setup.model, setup.layout
    assert model is not None
    if model.shape is None:
        return Held(model.parameters / model.layers / (layout.tp * layout.ep))
    return Held(*layer_parameters(model.shape, experts=experts).on(layout.tp, layout.ep, layout.etp))


def ends_held(setup: Setup, stage: Stage) -> Held:
    """The embedding of the first stage and the head of the last; a tied head is a copy of its own there, with p > 1."""
    model = setup.model
    assert model is not None
    shape, tp = model.shape, setup.layout.tp
    if shape is None:
        return Held(0.0)
    embedding = embedding_parameters(shape)
    total = embedding.on(tp)[0] if stage.embedding else 0.0
    if stage.head:
        total += head_parameters(shape).on(tp)[0]
        if shape.tied and not stage.embedding:
            total += embedding.split / tp
    return Held(total)


def stage_parameters(setup: Setup, stage: Stage) -> Held:
    """All that a rank of a stage holds: P_l."""
    ends = ends_held(setup, stage)
    dense = layer_held(setup, experts=False) if stage.dense_layers else Held(0.0)
    moe = layer_held(setup, experts=True) if stage.moe_layers else Held(0.0)
    return Held(
        ends.dense + stage.dense_layers * dense.dense + stage.moe_layers * moe.dense,
        stage.moe_layers * moe.experts,
    )
