"""FLOPs of a step: those that it needs (:func:`model_flops`), and those that it computes with
recomputation (:func:`hardware_flops`). An MFU is :func:`ideal_step_s` over the step.

Letters: B sequences of s tokens, L layers, hidden size h, vocabulary V. Of attention's scores the
causal half counts; papers that count all of them have s/6h in the place of s/12h.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.training.model import Shape, TransformerModel
from colltool.training.operations import LayerCut, Operation, layer_operations
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages


def model_flops(config: ParallelConfig) -> float:
    """FLOPs that a step needs over all ranks: forward and twice that backward, nothing recomputed;
    backward as many as forward where weights are frozen.

    Of a GPT 72 B s L h^2 (1 + s/12h + V/12Lh) (Korthikanti 2022, arXiv:2205.05198, eq 7).
    """
    forward = forward_flops(config.known_model, _tokens_of_step(config), config.sequence)
    passes = 2.0 if config.lora else 3.0
    return passes * forward


def hardware_flops(config: ParallelConfig) -> float:
    """FLOPs of a step with recomputation: of layers, of attention's core, or of modules.

    The head is never recomputed: of a GPT 96 B s L h^2 (1 + s/12h + V/16Lh) has 3 of its forward
    passes (Narayanan 2021, arXiv:2104.04473).
    """
    model = config.known_model
    tokens = _tokens_of_step(config)
    needed = model_flops(config)
    if config.recomputation.layers:
        share = 0.0
        for stage in pipeline_stages(config):
            share += stage.layers * config.recomputation.share(stage.layers)
        share /= model.layers
        forward = forward_flops(model, tokens, config.sequence)
        return needed + share * (forward - head_flops(model.known_shape, tokens))
    again = 0.0
    for layers, operations in _operations_by_kind(model, tokens, config.sequence):
        for operation in operations:
            again += layers * operation.share * _flops_again(operation, config)
    return needed + again


def _tokens_of_step(config: ParallelConfig) -> float:
    """Tokens of a step, of all replicas."""
    return float(config.global_batch * config.sequence)


def _flops_again(operation: Operation, config: ParallelConfig) -> float:
    """FLOPs of an operation that are computed again, where layers are not as a whole."""
    recompute = config.recomputation
    flops = 0.0
    if recompute.core:
        flops += operation.causal_flops
    if recompute.reruns(operation.name):
        flops += sum(gemm.flops for gemm in operation.gemms)
    elif "mla_up_proj" in recompute.modules:
        flops += sum(gemm.flops for gemm in operation.up_gemms)
    return flops


def ideal_step_s(config: ParallelConfig) -> float:
    """Seconds at an MFU of 1: the model's FLOPs at the dense peak of all devices in the precision
    of their GEMMs."""
    assert config.device is not None
    peak = config.device.peak_flops(config.precision.compute) * config.layout.ranks
    return model_flops(config) / peak


def forward_flops(model: TransformerModel, tokens: float, sequence: int) -> float:
    """Forward FLOPs of the whole model, with experts loaded evenly."""
    total = head_flops(model.known_shape, tokens)
    for layers, operations in _operations_by_kind(model, tokens, sequence):
        total += layers * sum(operation.flops for operation in operations)
    return total


def head_flops(shape: Shape, tokens: float) -> float:
    """Forward FLOPs of the head."""
    return 2.0 * tokens * shape.hidden * shape.vocab


def evenly_loaded(shape: Shape) -> Shape:
    """The shape with experts loaded evenly, as FLOPs of a model are counted."""
    if shape.moe is None:
        return shape
    return shape._replace(moe=shape.moe._replace(imbalance=1.0))


def _operations_by_kind(
    model: TransformerModel, tokens: float, sequence: int
) -> Iterator[tuple[int, tuple[Operation, ...]]]:
    """Yield the number of layers of each kind, with the operations of a layer on a single rank
    whose experts are loaded evenly."""
    shape = evenly_loaded(model.known_shape)
    cut = LayerCut(tokens, sequence)
    for layers, experts in ((model.dense_layers, False), (model.moe_layers, True)):
        if layers:
            yield layers, layer_operations(shape, cut, experts=experts)
