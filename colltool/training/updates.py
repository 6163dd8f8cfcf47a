"""The optimizer's update: parameters that have a gradient (LoRA trains few), bytes of optimizer
states, and the seconds of an update on the device or on its host."""

from __future__ import annotations

from colltool.training.files import BYTES
from colltool.training.operations import adapters, cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import (
    PipelineStage,
    RankParameters,
    ends_parameters,
    layer_parameters_of,
    stage_parameters,
)

BYTES_OF_ADAM = 8.0  # of a parameter: two moments in fp32
# bytes of a parameter that Adam moves in fp32: gradient read, weight and two moments read and written
MOVED_BY_ADAM = 28.0
# bytes/s of an update of weights in 16 bits over those in 32: fused AdamW on one H100 SXM, 2026-11
RATE_IN_16_BITS = 0.75
NEWTON_SCHULZ = 5  # iterations (Jordan 2024, Muon, github.com/KellerJordan/Muon)
# seconds of an update per parameter on the host: eight devices share a host whose Adam takes 0.25 ns
# (Ren 2021, ZeRO-Offload, arXiv:2101.06840, table 4)
HOST_UPDATE_S = 2e-9


def trained_layer_parameters(config: ParallelConfig, *, experts: bool) -> RankParameters:
    """Parameters of a layer on a rank that have a gradient.

    LoRA has r (n + k) of each n x k matrix (Hu 2021, arXiv:2106.09685, section 4.1).
    """
    if not config.lora:
        return layer_parameters_of(config, experts=experts)
    cut = cut_of(config)
    operations = layer_operations(config.known_shape, cut, experts=experts)
    matrices = adapters(operations, config.lora)
    return RankParameters(sum(gemm.n * gemm.k for gemm in matrices))


def trained_parameters(config: ParallelConfig, stage: PipelineStage) -> RankParameters:
    """Parameters of a stage on a rank that have a gradient."""
    if not config.lora:
        return stage_parameters(config, stage)
    total = 0.0
    for experts, layers in stage.layers_by_kind:
        total += layers * trained_layer_parameters(config, experts=experts).total
    return RankParameters(total)


def extra_state_bytes(config: ParallelConfig, stage: PipelineStage) -> float:
    """State bytes of a stage's embedding and head beyond those of an optimizer for matrices; 0 of
    other optimizers.

    Muon leaves both to Adam, which also keeps a second moment (Liu 2025, Muon is scalable,
    arXiv:2502.16982, section 2.2).
    """
    if not config.optimizer_row.orthogonal or config.lora:
        return 0.0
    return (BYTES_OF_ADAM - config.optimizer_row.states) * ends_parameters(config, stage)


def optimizer_s(config: ParallelConfig, stage: PipelineStage) -> float:
    """Seconds of a stage's update: each byte of a rank's share of the states goes through memory
    once, and states on the host are updated there."""
    if config.device is None or config.stack is None:
        return 0.0
    parameters = trained_parameters(config, stage)
    # ranks that share the states of a parameter
    dense_ranks = expert_ranks = config.shard.group or 1
    if config.shard.strategy.optimizer and not config.shard.group:
        dense_ranks = config.gradient_ranks
        expert_ranks = config.layout.expert_dp
    own_parameters = parameters.dense / dense_ranks + parameters.experts / expert_ranks
    offloaded = config.offload.optimizer
    # the stack says what it moves for Adam in fp32; other optimizers in proportion
    bytes_per_parameter = config.stack.optimizer_bytes * _moved_bytes(config) / MOVED_BY_ADAM
    rate_Bps = config.stack.memory_optimizer * config.device.bandwidth_Bps
    device_s = (1 - offloaded) * own_parameters * bytes_per_parameter / rate_Bps
    if config.optimizer_row.orthogonal:
        device_s += _orthogonal_s(config, stage, dense_ranks)
    return config.slower * device_s + _host_s(config, offloaded * own_parameters)


def _moved_bytes(config: ParallelConfig) -> float:
    """Bytes of a parameter that an update reads and writes, its states once each way; more where
    they move at a lower rate."""
    states = 2 * config.optimizer_row.states
    if config.precision.master == "none":
        # gradient read, weight read and written
        moved = states + 3 * config.precision.param_bytes
        if config.precision.param_bytes < BYTES["fp32"]:
            moved /= RATE_IN_16_BITS
        return moved
    # Adam's, with the states of this optimizer in place of its own
    return states + MOVED_BY_ADAM - 2 * BYTES_OF_ADAM


def _orthogonal_s(config: ParallelConfig, stage: PipelineStage, ranks: int) -> float:
    """Seconds of Newton-Schulz on the matrices of a rank, one in ``ranks`` of those of the stage.

    An iteration on m x n with m <= n takes 4 m m n + 2 m m m FLOPs. A matrix is not split, so the
    largest is the least time.
    """
    # without a shape its matrices are not known, and the job is refused
    shape = config.known_shape
    total = largest = 0.0
    for experts, layers in stage.layers_by_kind:
        for operation in layer_operations(shape, cut_of(config), experts=experts):
            for gemm in operation.gemms:
                m, n = sorted((gemm.n, gemm.k))  # of the weight
                flops = NEWTON_SCHULZ * (4 * m * m * n + 2 * m**3)
                copies = operation.share * gemm.copies
                total += layers * copies * flops
                largest = max(largest, flops)
    roofline = config.roofline._replace(precision="bf16")
    share = roofline.stack.gemm_share("bf16", roofline.device.generation)
    return roofline.computing_s(max(total / ranks, largest), share)


def _host_s(config: ParallelConfig, parameters: float) -> float:
    """Seconds of the update of parameters on the host.

    Gradients go down, are applied, and weights go up. Tensors overlap, so the slowest of the three
    sets the time.
    """
    if not parameters or config.device is None or not config.device.host_Bps:
        return 0.0
    moved = max(config.shard.grad_bytes, config.precision.param_bytes)
    return parameters * max(moved / config.device.host_Bps, HOST_UPDATE_S)
