"""Offload of activations to the host: layers take as long as the link to it where that is slower
than their compute."""

from __future__ import annotations

from colltool.training.compute_times import LayerTimes, StageTimes, Times
from colltool.training.memory import layer_activations
from colltool.training.parallel_config import ParallelConfig


def with_offload(config: ParallelConfig, times: StageTimes) -> StageTimes:
    """Stretch the layers of a stage to the time that their activations take to the host and back, if
    that is longer.

    They leave under the forward pass and come back under the backward one.
    """
    if not config.offload.activations:
        return times
    stage = times.stage
    dense = _with_link_waits(config, times.dense, experts=False)
    moe = _with_link_waits(config, times.moe, experts=True)
    waits = _added_times(times.dense, dense).scaled(stage.dense_layers)
    waits = waits.plus(_added_times(times.moe, moe).scaled(stage.moe_layers))
    return times._replace(
        dense=dense,
        moe=moe,
        all=times.all.plus(waits),
    )


def _added_times(before: LayerTimes | None, after: LayerTimes | None) -> Times:
    """Return the times by which a layer is longer; zeros where the stage has no such layer."""
    if before is None or after is None:
        return Times()
    # times are only added: the layer before goes in with a factor of -1
    return after.all.plus(before.all.scaled(-1.0))


def _with_link_waits(
    config: ParallelConfig, layer: LayerTimes | None, *, experts: bool
) -> LayerTimes | None:
    """Return a layer that waits for the link to the host, as part of its elementwise kernels; as it
    is without a device."""
    if layer is None or config.shape is None or config.device is None:
        return layer
    kept, _ = layer_activations(config, config.shape, experts=experts)
    link_s = config.offload.activations * kept / config.device.host_Bps
    compute = layer.all
    waiting = Times(
        forward_s=max(0.0, link_s - compute.forward_s),
        backward_s=max(0.0, link_s - compute.backward_s),
    )
    elementwise = layer.elementwise.plus(waiting)
    return layer._replace(elementwise=elementwise)
