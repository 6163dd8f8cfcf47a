"""What a step trains, and what its update takes: states of each optimizer, Newton-Schulz of Muon,
states on the host, LoRA."""

from __future__ import annotations

from colltool.training.model import BYTES_OF_ADAM
from colltool.training.operations import adapters, cut_of, layer_operations
from colltool.training.parallel_config import (
    ParallelConfig,
    PipelineStage,
    RankParameters,
    ends_parameters,
    layer_parameters_of,
    stage_parameters,
)

NEWTON_SCHULZ = 5  # iterations (Jordan 2024, Muon, github.com/KellerJordan/Muon)
# seconds a parameter: eight devices share a host whose Adam takes 0.25 ns (Ren 2021, ZeRO-Offload,
# arXiv:2101.06840, table 4)
HOST_UPDATE_S = 2e-9


def trained_layer(config: ParallelConfig, *, experts: bool) -> RankParameters:
    """Parameters of a layer that have a gradient; of LoRA r (n + k) of a matrix (Hu 2021,
    arXiv:2106.09685, section 4.1)."""
    if not config.lora:
        return layer_parameters_of(config, experts=experts)
    assert config.shape is not None
    cut = cut_of(config)
    operations = layer_operations(config.shape, cut, experts=experts)
    matrices = adapters(config.shape, cut, operations, config.lora)
    return RankParameters(sum(gemm.n * gemm.k for gemm in matrices))


def trained(config: ParallelConfig, stage: PipelineStage) -> RankParameters:
    """Parameters of a stage on a rank that have a gradient."""
    if not config.lora:
        return stage_parameters(config, stage)
    total = 0.0
    for experts, layers in stage.layers_by_kind:
        total += layers * trained_layer(config, experts=experts).total
    return RankParameters(total)


def more_states(config: ParallelConfig, stage: PipelineStage) -> float:
    """Bytes that the embedding and the head keep beyond an optimizer for matrices: Adam's second
    moment.

    Liu 2025, Muon is scalable (arXiv:2502.16982), section 2.2.
    """
    if not config.update.orthogonal or config.lora:
        return 0.0
    return (BYTES_OF_ADAM - config.update.states) * ends_parameters(config, stage)


def optimizer_s(config: ParallelConfig, stage: PipelineStage) -> float:
    """Every byte of a rank's share of the states goes through memory once; states on the host are
    updated there."""
    if config.device is None or config.stack is None:
        return 0.0
    held = trained(config, stage)
    # ranks that share the states of a parameter
    dense_ranks = expert_ranks = config.shard.group or 1
    if config.shard.row.optimizer and not config.shard.group:
        dense_ranks, expert_ranks = config.gradient_ranks, config.layout.expert_dp
    mine = held.dense / dense_ranks + held.experts / expert_ranks
    away = config.offload.optimizer
    each = config.stack.optimizer_bytes - BYTES_OF_ADAM + config.update.states
    rate_Bps = config.stack.memory_optimizer * config.device.bandwidth_Bps
    here_s = (1 - away) * mine * each / rate_Bps
    if config.update.orthogonal:
        here_s += _orthogonal_s(config, stage, dense_ranks)
    return config.slower * here_s + _host_s(config, away * mine)


def _orthogonal_s(config: ParallelConfig, stage: PipelineStage, ranks: int) -> float:
    """Newton-Schulz of a rank's matrices, of m x n with m <= n: 4 m m n + 2 m m m an iteration, a
    matrix at a time at least."""
    assert config.device is not None
    assert config.stack is not None
    if config.shape is None:
        return 0.0
    total = largest = 0.0
    for experts, layers in stage.layers_by_kind:
        for operation in layer_operations(config.shape, cut_of(config), experts=experts):
            for gemm in operation.gemms:
                m, n = sorted((gemm.n, gemm.k))
                flops = NEWTON_SCHULZ * (4 * m * m * n + 2 * m**3)
                total += layers * gemm.copies * flops
                largest = max(largest, flops)
    share = config.stack.gemm_share("bf16", config.device.generation)
    return max(total / ranks, largest) / (share * config.device.peak_flops("bf16"))


def _host_s(config: ParallelConfig, parameters: float) -> float:
    """Gradients down, the update, weights up: one after the other for a tensor, so the slowest of
    the three for all."""
    if not parameters or config.device is None or not config.device.host_Bps:
        return 0.0
    moved = max(config.shard.grad_bytes, config.precision.param_bytes)
    return parameters * max(moved / config.device.host_Bps, HOST_UPDATE_S)
