"""Memory: the published counts of Korthikanti 2022, states of each kind of sharding, what binds and
what helps."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.training.flops import evenly_loaded
from colltool.training.job import Job, load_job
from colltool.training.job_changes import Change
from colltool.training.memory import (
    Memory,
    layer_activations,
    loss_bytes,
    memory,
    micro_batches_kept,
    state_bytes,
)
from colltool.training.model import Shape
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.proposals import cures

S, B, H, A, V = 2048, 4, 6144, 64, 51200
# 22B of the paper
GPT = {
    "layers": 48,
    "hidden": H,
    "heads": A,
    "ffn": 4 * H,
    "gated": False,
    "vocab": V,
    "bias": True,
}


def job_of(**keys: Any) -> Job:
    content = {
        "model": GPT,
        "sequence": S,
        "batch": {"global": 32, "micro": B},
        "layout": {"tp": 8},
        "device": "a100-80gb",
        "stack": "megatron-2021",
    } | keys
    return load_job(content)


def setup(ranks: int = 8, **keys: Any) -> ParallelConfig:
    return job_of(**keys).setup(ranks)


def shape(run: ParallelConfig) -> Shape:
    assert run.model is not None
    assert run.model.shape is not None
    return run.model.shape


def part(kept: Memory, name: str, stage: int = 0) -> float:
    (found,) = [one.bytes for one in kept.parts if one.part == name and one.stage == stage]
    return found


SBH = S * B * H


@swept(
    ("keys", "published"),
    [
        ({"layout": {"tp": 1}}, SBH * (34 + 5 * A * S / H)),
        ({"layout": {"tp": 8}}, SBH * (10 + 24 / 8 + 5 * A * S / (H * 8))),
        ({"layout": {"tp": 8, "sp": True}}, SBH / 8 * (34 + 5 * A * S / H)),
        ({"layout": {"tp": 8}, "recompute": "selective"}, SBH * (10 + 24 / 8)),
        ({"layout": {"tp": 8, "sp": True}, "recompute": "selective"}, SBH * 34 / 8),
        ({"layout": {"tp": 8, "sp": True}, "stack": "megatron"}, SBH * 34 / 8),
        ({"layout": {"tp": 8}, "recompute": "full"}, SBH * 2),
        ({"layout": {"tp": 8, "sp": True}, "recompute": "full"}, SBH * 2 / 8),
    ],
)
def test_activations_of_a_layer(keys: dict[str, Any], published: float) -> None:
    """Table 2 of arXiv:2205.05198."""
    run = setup(**keys)
    assert layer_activations(run, shape(run), experts=False)[0] == pytest.approx(published)


def test_context_parallelism_divides_them() -> None:
    one, four = (setup(8, layout={"cp": cp}, stack="megatron") for cp in (1, 4))
    stored = [layer_activations(run, shape(run), experts=False)[0] for run in (one, four)]
    assert stored[1] == pytest.approx(stored[0] / 4)


def test_a_gate_grouped_queries_and_no_dropout() -> None:
    """Llama 3 70B, tp 8 with sp: 8 outside; q and the output 4, k and v 0.5, three matrices of 3.5
    h twice 21."""
    run = load_job("llama3-70b").setup(512)
    found = layer_activations(run, shape(run), experts=False)[0]
    assert found == pytest.approx(8192 * 8192 / 8 * (8 + 4 + 0.5 + 21))


def test_experts_keep_their_tokens() -> None:
    """T k (2 h + n_m f_e) w beside attention's part; imbalance on top."""
    run = load_job("mixtral-8x7b").setup(128)
    run = run._replace(model=run.model and run.model._replace(shape=evenly_loaded(shape(run))))
    dense = 4096 * 4096 * (8 + 4 + 1)
    routed = 4096 * 2 * (2 * 4096 + 3 * 14336) * 2
    assert layer_activations(run, shape(run), experts=True)[0] == pytest.approx(dense + routed)


def test_latent_attention_keeps_its_bottlenecks() -> None:
    run = load_job("deepseek-v3", ["recompute=none"]).setup(2048)
    attention = 2 * (1536 + 512 + 64 + 128 * (2 * 192 + 2 * 128))
    # Transformer Engine keeps the inputs of GEMMs in fp8: attention's output once more
    quantized = 128 * 128
    expected = 4096 * (7168 * 2 * (2 + 1) + attention + quantized + (2 * 2 + 1) * 18432)
    assert layer_activations(run, shape(run), experts=False)[0] == pytest.approx(expected)


@swept(
    ("schedule", "virtual", "kept"),
    [
        ("1f1b", 1, [4, 3, 2, 1]),
        ("zb1p", 1, [4, 3, 2, 1]),
        ("gpipe", 1, [16, 16, 16, 16]),
        ("zbv", 1, [4, 4, 4, 4]),
        ("dualpipe", 1, [5, 5, 5, 5]),
        ("interleaved", 3, [4 * (1 + 3 / 12), 13 / 3, 11 / 3, 9 / 3]),
    ],
)
def test_micro_batches_that_are_kept(schedule: str, virtual: int, kept: list[float]) -> None:
    run = setup(4, layout={"pp": 4, "virtual": virtual}, schedule=schedule, batch={"global": 16})
    assert [micro_batches_kept(run, stage) for stage in pipeline_stages(run)] == pytest.approx(kept)


def test_no_more_are_kept_than_there_are() -> None:
    run = setup(4, layout={"pp": 4}, batch={"global": 2})
    assert [micro_batches_kept(run, stage) for stage in pipeline_stages(run)] == [2, 2, 2, 1]


def test_logits_stand_on_the_last_stage() -> None:
    run = setup(16, layout={"tp": 8, "pp": 2})
    assert loss_bytes(run, shape(run)) == S * B * V / 8 * 6
    assert [one.stage for one in memory(run).parts if one.part == "logits"] == [1]


@swept(
    ("shard", "expected"),
    [
        ({"mode": "ddp"}, (2, 4, 12)),  # 18 bytes a parameter
        ({"mode": "zero1"}, (2, 4, 12 / 16)),  # 6 + 12/D
        ({"mode": "zero2"}, (2, 4 / 16, 12 / 16)),
        ({"mode": "fsdp"}, (4 / 16, 4 / 16, 8 / 16)),  # 16/N
        ({"mode": "hsdp", "group": 8}, (4 / 8, 4 / 8, 8 / 8)),
    ],
)
def test_states(shard: dict[str, Any], expected: tuple[float, ...]) -> None:
    run = setup(16, layout={}, batch={"global": 16}, shard=shard)
    assert state_bytes(run, 16) == pytest.approx(expected)


def test_fsdp_keeps_two_gathered_layers() -> None:
    run = setup(16, layout={}, batch={"global": 16}, shard={"mode": "fsdp", "grad_bytes": 2})
    layer = 12 * H * H + 13 * H
    ends = 2 * V * H + 2 * H  # the larger unit here
    assert part(memory(run), "gathered layers") == 2 * (layer + ends) + 2 * ends


def test_what_is_gathered_once_a_step_sums_its_gradients_whole() -> None:
    """FSDP under a pipeline does not scatter before the last micro-batch: weights and gradients of
    the stage stand whole."""
    run = setup(16, layout={"pp": 2}, shard={"mode": "fsdp", "grad_bytes": 2})
    held = 24 * (12 * H * H + 13 * H) + V * H
    assert part(memory(run), "gathered layers") == held * (2 + 2)


def test_a_loss_that_copies_its_logits() -> None:
    plain, eager = (
        setup(8, layout={}, batch={"global": 32, "micro": B}, stack=stack)
        for stack in ("megatron", "fsdp")
    )
    assert loss_bytes(plain, shape(plain)) == S * B * V * (2 + 4)
    assert loss_bytes(eager, shape(eager)) == S * B * V * (2 + 10)


def test_the_worst_stage_by_hand() -> None:
    """GPT-3 175B, tp 8, pp 8, everything recomputed: stage 0 of 12 layers and the embedding, 8
    micro-batches kept."""
    kept = memory(load_job("gpt3-175b").setup(512))
    h, s, t = 12288, 2048, 8
    held = 12 * ((12 * h * h + 7 * h) / t + 6 * h) + 50257 * h / t + 2048 * h
    assert kept.worst_stage == 0
    assert part(kept, "weights") == pytest.approx(2 * held, rel=1e-12)
    assert part(kept, "optimizer") == pytest.approx(12 * held, rel=1e-12)
    assert part(kept, "activations") == 8 * 12 * 2 * s * h
    assert part(kept, "layer computed again") == s * h * (10 + 24 / t + 5 * 96 * s / (h * t))
    assert kept.binds == "optimizer"
    assert kept.bytes == sum(one.bytes for one in kept.parts if one.stage == 0)
    assert kept.fits


def test_a_published_run_fits_and_without_recomputation_does_not() -> None:
    """Korthikanti 2022: the 175B model on 64 A100 of 80 GB needs selective recomputation and
    sequence parallelism."""
    layout = {"tp": 8, "pp": 8, "virtual": 3}
    big = {"model": "gpt3-175b", "batch": {"global": 64, "micro": 1}}
    with_both = setup(64, layout=layout | {"sp": True}, recompute="selective", **big)
    with_neither = setup(64, layout=layout, **big)
    assert memory(with_both).fits
    assert not memory(with_neither).fits
    assert memory(with_neither).binds == "activations"


@swept(
    "said",
    ["{modules: [mla_up_proj, mlp]}", "mla_up_proj, mlp", "mla_up_proj,mlp", "[mla_up_proj, mlp]"],
)
def test_modules_are_named_as_megatron_names_them(said: str) -> None:
    run = load_job("deepseek-v3", [f"recompute={said}"]).setup(2048)
    none = load_job("deepseek-v3", ["recompute=none"]).setup(2048)
    full = load_job("deepseek-v3", ["recompute=full"]).setup(2048)
    assert (run.recompute, run.recomputed_modules) == ("modules", ("mla_up_proj", "mlp"))
    assert memory(full).bytes < memory(run).bytes < memory(none).bytes


@swept("said", ["mla,mlp", "fulll", "mlp,,", "7"])
def test_another_word_is_refused_with_the_modules(said: str) -> None:
    with pytest.raises(ColltoolError, match=r"recompute.*core_attn.*mla_up_proj"):
        load_job("deepseek-v3", [f"recompute={said}"])


def eager(**keys: Any) -> ParallelConfig:
    """One card of eager PyTorch, where gradients come as activations go."""
    content = {
        "model": {"layers": 4, "hidden": 4096, "heads": 32, "ffn": 14336, "vocab": 128256},
        "sequence": 4096,
        "batch": {"global": 1, "micro": 1},
        "layout": {"tp": 1},
        "device": "h100",
        "stack": "fsdp",
    }
    return load_job(content | keys).setup(1)


def names_of(kept: Memory) -> set[str]:
    return {one.part for one in kept.parts}


def test_gradients_stand_beside_activations_only_where_they_add_up() -> None:
    once, summed = eager(), eager(batch={"global": 8, "micro": 1})
    assert "gradients" not in names_of(memory(once))
    held = part(memory(summed), "gradients")
    assert memory(summed).bytes == pytest.approx(memory(once).bytes + held)
    buffers = eager(stack="megatron")
    assert "gradients" in names_of(memory(buffers)), "its buffers are there from the start"


def test_a_short_sequence_is_largest_when_gradients_are_whole() -> None:
    short = memory(eager(sequence=512, recompute="full"))
    assert part(short, "gradients") > part(short, "layer computed again")
    assert "logits" not in names_of(short)


def test_bf16_without_master_weights() -> None:
    """8 bytes a parameter with moments in bf16, 6 beside activations; 18 and 14 with master weights
    in fp32."""
    pure = eager(precision={"master": "none", "grads": "bf16"}, optimizer="adam-bf16")
    assert state_bytes(pure, 1) == (2, 2, 4)
    assert state_bytes(eager(precision={"master": "none"}, optimizer="adam-8bit"), 1) == (2, 4, 2)
    assert state_bytes(eager(), 1) == (2, 4, 12)
    sharded = setup(
        16, layout={}, batch={"global": 16}, shard={"mode": "fsdp"}, precision={"master": "none"}
    )
    assert state_bytes(sharded, 16) == (2 / 16, 4 / 16, 8 / 16)
    with pytest.raises(ColltoolError, match=r"fp32, or none"):
        eager(precision={"master": "bf16"})


def on_device(share: float) -> Memory:
    """Memory on a device of which it takes so much."""
    needed = memory(eager()).bytes
    device = {
        "name": "card",
        "generation": "hopper",
        "peak": {"bf16": "989TFLOP/s"},
        "memory": f"{round(needed / share)}B",
        "bandwidth": "3.35TB/s",
    }
    return memory(eager(device=device))


def test_what_is_within_the_error_is_tight_and_fits() -> None:
    error = on_device(1.0).within
    assert 0.02 < error < 0.15
    said = [(kept.fits, kept.tight) for kept in map(on_device, (0.8, 0.99, 1.01, 1 + 2 * error))]
    assert said == [(True, False), (True, True), (True, True), (False, False)]


def smallest_change(job: Job, ranks: int) -> tuple[Change, Memory] | None:
    return next(cures(job, job.setup(ranks)), None)


def test_the_smallest_change_that_fits() -> None:
    run = job_of(
        model="gpt3-175b",
        batch={"global": 64, "micro": 1},
        layout={"tp": 8, "pp": 8, "virtual": 3},
    )
    found = smallest_change(run, 64)
    assert found is not None
    what_the_paper_does = {"layout.sp": "true", "recompute": "selective"}
    assert found[0].values == what_the_paper_does
    assert found[1].fits
    replicated = job_of(
        model="gpt3-175b", batch={"global": 16, "micro": 1}, layout={"tp": 8}, recompute="full"
    )
    change = smallest_change(replicated, 16)
    assert change is None or change[1].fits
    fitting = job_of(
        model="gpt3-175b",
        batch={"global": 64, "micro": 1},
        recompute="selective",
        layout={"tp": 8, "sp": True, "pp": 8},
    )
    assert smallest_change(fitting, 64) is None


def test_a_replica_that_does_not_fit_is_sharded_first() -> None:
    run = load_job(
        {
            "model": "llama3-8b",
            "sequence": 2048,
            "batch": {"global": 64, "micro": 1},
            "device": "h100",
            "stack": "megatron",
        }
    )
    assert not memory(run.setup(64)).fits
    found = smallest_change(run, 64)
    assert found is not None
    assert found[0].values == {"shard.mode": "zero1"}


def test_the_change_is_what_set_takes() -> None:
    """Loaded again with it, the job fits as promised."""
    job = load_job("deepseek-v3", ["recompute=none"])
    found = smallest_change(job, 2048)
    assert found is not None
    changed = load_job("deepseek-v3", {"recompute": "none"} | found[0].values)
    assert memory(changed.setup(2048)) == found[1]


def test_dualpipe_keeps_both_ends_of_the_model() -> None:
    both, one = (
        load_job("deepseek-v3", [f"schedule={how}"]).setup(2048) for how in ("dualpipe", "1f1b")
    )
    assert part(memory(both), "weights") == 2 * part(memory(one), "weights")
    assert part(memory(both), "optimizer") == part(memory(one), "optimizer")


def test_without_a_device_nothing_says_whether_it_fits() -> None:
    run = load_job(
        {
            "model": {"parameters": 7.0e9, "layers": 32},
            "sequence": 1,
            "batch": {"global": 8},
            "compute": {"forward": "1s", "backward": "2s"},
        }
    ).setup(8)
    kept = memory(run)
    assert kept.fits is None
    assert kept.capacity_bytes is None
    assert kept.bytes == 18 * 7e9
    with pytest.raises(ColltoolError, match="has no model"):
        memory(load_job({"compute": {"forward": "1s", "backward": "2s"}}).setup(8))


def test_every_stage_has_its_states() -> None:
    found = memory(setup(16, layout={"tp": 8, "pp": 2})).parts
    for stage in (0, 1):
        names = [kept.part for kept in found if kept.stage == stage]
        assert names[:4] == ["weights", "gradients", "optimizer", "activations"]
