"""Activations that wait on the host: their layers take as long as the link to it where that is
slower than their compute."""

from __future__ import annotations

from colltool.training.memory import layer_activations
from colltool.training.operations import LayerTimes, StageTimes, Times
from colltool.training.parallel_config import ParallelConfig


def with_offload(config: ParallelConfig, times: StageTimes) -> StageTimes:
    """A stage whose layers send activations to the host under their forward pass, and fetch them
    under the backward one."""
    if (
        not config.offload.activations
        or config.device is None
        or not config.device.host_Bps
        or config.shape is None
    ):
        return times
    stage, more = times.stage, Times()
    dense, moe = (
        _waiting(config, times.dense, experts=False),
        _waiting(config, times.moe, experts=True),
    )
    for before, after, layers in (
        (times.dense, dense, stage.dense_layers),
        (times.moe, moe, stage.moe_layers),
    ):
        if before is not None and after is not None:
            more = more.plus(after.all.plus(before.all.times(-1.0)).times(layers))
    return times._replace(dense=dense, moe=moe, all=times.all.plus(more))


def _waiting(
    config: ParallelConfig, layer: LayerTimes | None, *, experts: bool
) -> LayerTimes | None:
    if layer is None:
        return None
    assert config.shape is not None
    assert config.device is not None
    kept, _ = layer_activations(config, config.shape, experts=experts)
    link_s = config.offload.activations * kept / config.device.host_Bps
    forward, backward = (
        max(0.0, link_s - under) for under in (layer.all.forward_s, layer.all.backward_s)
    )
    return layer._replace(elementwise=layer.elementwise.plus(Times(forward, backward)))
