"""What a step trains and updates: optimizers, states and activations on the host, LoRA, states
shared by part of the replicas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning import adds_up, dense, part, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, RS
from colltool.training.flops import model_flops
from colltool.training.job import load_job
from colltool.training.memory import memory
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages, stage_parameters
from colltool.training.updates import HOST_UPDATE_S, optimizer_s, trained_parameters

RANKS = 64
ONE: dict[str, Any] = {"layout": {}, "shard": {"mode": "ddp"}, "batch": {"global": 64, "micro": 1}}


def setup(**keys: Any) -> ParallelConfig:
    return load_job(dense(**ONE) | keys).setup(RANKS)


def kept(config: ParallelConfig, name: str) -> float:
    return sum(one.bytes for one in memory(config).parts if one.part == name and one.stage == 0)


@swept(("kind", "each"), [("adam", 12), ("adam-bf16", 8), ("adam-8bit", 6)])
def test_states_of_a_parameter(kind: str, each: int) -> None:
    config = setup(optimizer=kind)
    held = stage_parameters(config, pipeline_stages(config)[0]).total
    assert kept(config, "optimizer") == pytest.approx(each * held)
    assert kept(config, "weights") == pytest.approx(2 * held)


def test_muon_keeps_one_momentum_of_matrices_and_two_of_the_ends() -> None:
    config = setup(optimizer="muon")
    held, ends = (
        stage_parameters(config, pipeline_stages(config)[0]).total,
        2 * 128256 * 4096 + 4096,
    )
    assert kept(config, "optimizer") == pytest.approx(8 * held + 4 * ends)


def test_muon_orthogonalizes_in_five_iterations() -> None:
    """Of a matrix of 4096 x 14336: 5 (4 m m n + 2 m m m), and of all of them on each replica under
    DDP."""
    plain, muon = (
        optimizer_s(one, pipeline_stages(one)[0])
        for one in (setup(optimizer="adam-bf16"), setup(optimizer="muon"))
    )
    flops = sum(
        5 * (4 * m * m * n + 2 * m**3)
        for m, n in ((4096, 6144), (4096, 4096), (4096, 28672), (4096, 14336))
    )
    assert muon - plain == pytest.approx(32 * flops / (0.773 * 989.4e12))


def test_muon_gathers_whole_matrices_where_states_are_sharded() -> None:
    job = dense(optimizer="muon", layout={})
    muon, adam = (colltool.plan(one, two_tiers(), RANKS) for one in (job, dense(layout={})))
    gathered = [
        one.sent.call
        for one in muon.collectives
        if one.sent.call.primitive is AG and one.sent.call.phase == "update"
    ]
    assert sum(one.bytes * one.calls for one in gathered) == pytest.approx(2 * 8.03e9, rel=1e-3)
    assert muon.step_s > adam.step_s
    adds_up(muon)


def test_states_on_the_host_leave_the_device() -> None:
    here, away = setup(), setup(offload={"optimizer": "75%"})
    assert kept(away, "optimizer") == pytest.approx(kept(here, "optimizer") / 4)
    stage = pipeline_stages(here)[0]
    held = stage_parameters(here, stage).total
    on_host = 0.75 * held * max(4 / 63e9, HOST_UPDATE_S)
    assert optimizer_s(away, stage) == pytest.approx(optimizer_s(here, stage) / 4 + on_host)


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_on_the_host_is_less_on_the_device_and_no_faster(one: float, other: float) -> None:
    less, more = sorted((one, other))
    fewer, full = (
        setup(offload={"optimizer": share, "activations": share}) for share in (less, more)
    )
    assert memory(full).bytes <= memory(fewer).bytes * (1 + 1e-12)
    stages = pipeline_stages(fewer)[0], pipeline_stages(full)[0]
    assert optimizer_s(full, stages[1]) >= optimizer_s(fewer, stages[0]) * (1 - 1e-12)


def test_activations_hide_under_compute_or_wait_for_the_link() -> None:
    job = dense(**ONE)
    whole, hidden = (
        colltool.plan(one, two_tiers(), RANKS)
        for one in (job, job | {"offload": {"activations": 0.2}})
    )
    assert hidden.step_s == pytest.approx(whole.step_s), (
        "a fifth goes over PCIe while the layer computes"
    )
    slow = {
        "generation": "hopper",
        "peak": {"bf16": "989.4TFLOP/s"},
        "memory": "80GiB",
        "bandwidth": "3.35TB/s",
        "units": 132,
        "host": "1GB/s",
    }
    waits = colltool.plan(
        job | {"offload": {"activations": 1.0}, "device": slow}, two_tiers(), RANKS
    )
    assert waits.step_s > 2 * whole.step_s
    adds_up(waits)
    assert waits.memory_bytes is not None
    assert whole.memory_bytes is not None
    assert waits.memory_bytes < whole.memory_bytes


def test_offload_needs_the_rate_of_the_link() -> None:
    device = {
        "generation": "hopper",
        "peak": {"bf16": "989TFLOP/s"},
        "memory": "80GiB",
        "bandwidth": "3.35TB/s",
    }
    with pytest.raises(ColltoolError, match="gives no rate to the memory of its host"):
        load_job(dense(device=device, offload={"optimizer": 1}, layout={}))


def test_lora_trains_what_peft_counts() -> None:
    """Llama 3 8B, rank 16, all linear layers: PEFT prints 41,943,040 trainable parameters."""
    config = setup(lora={"rank": 16})
    assert trained_parameters(config, pipeline_stages(config)[0]).total == 41_943_040


def test_lora_leaves_out_weight_gradients() -> None:
    job = dense(**ONE)
    full, lora = (
        colltool.plan(one, two_tiers(), RANKS) for one in (job, job | {"lora": {"rank": 16}})
    )
    assert 0.6 < lora.control_step_s / full.control_step_s < 0.85
    assert model_flops(lora.setup) == pytest.approx(2 / 3 * model_flops(full.setup))
    assert kept(lora.setup, "gradients") == 4 * 41_943_040
    assert kept(lora.setup, "optimizer") == 12 * 41_943_040
    sent = [one.sent.call for one in lora.collectives if one.sent.call.dimension == "dp"]
    assert sum(call.bytes * call.calls for call in sent) == pytest.approx(4 * 41_943_040)
    assert lora.error is None, "no published run stands behind it"
    assert full.error is not None


def test_lora_under_fsdp_gathers_weights_and_sums_adapters() -> None:
    found = colltool.plan(
        dense(**ONE | {"shard": {"mode": "fsdp"}, "lora": {"rank": 16}}), two_tiers(), RANKS
    )
    sent = {
        kind: sum(
            one.sent.call.bytes * one.sent.call.calls
            for one in found.collectives
            if one.sent.call.primitive is kind
        )
        for kind in (AG, RS)
    }
    assert sent[AG] == pytest.approx(2 * 2 * 8.03e9, rel=1e-3)
    assert sent[RS] == pytest.approx(4 * 41_943_040)


def test_zero1_in_groups_sums_shards_across_them() -> None:
    """Megatron-Core's instances of the distributed optimizer: states of an eighth on each, and
    gradients over all."""
    job = dense(layout={"tp": 1}, batch={"global": 64, "micro": 1})
    whole, groups = (
        colltool.plan(job | {"shard": {"mode": "zero1"} | more}, two_tiers(), RANKS)
        for more in ({}, {"group": 8})
    )
    calls = [one.sent.call for one in groups.collectives if one.sent.call.dimension == "dp"]
    sent = {
        kind: sum(call.bytes * call.calls for call in calls if call.primitive is kind)
        for kind in (RS, AR, AG)
    }
    held = stage_parameters(groups.setup, pipeline_stages(groups.setup)[0]).total
    assert sent == pytest.approx({RS: 4 * held, AR: 4 * held / 8, AG: 2 * held})
    assert kept(groups.setup, "optimizer") == pytest.approx(12 * held / 8)
    assert kept(whole.setup, "optimizer") == pytest.approx(12 * held / 64)
    assert part(groups, "optimizer").exposed_s == pytest.approx(
        8 * part(whole, "optimizer").exposed_s
    )
    adds_up(groups)
