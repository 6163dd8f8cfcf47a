"""Every row of the table of traffic, its bytes and numbers by hand."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from colltool.base.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.training.calls import Call, Hiding, buckets, stage_calls
from colltool.training.dispatchers import rank_copies
from colltool.training.job import load_job
from colltool.training.model import Moe
from colltool.training.parallel_config import ParallelConfig, RankGroup
from colltool.training.pipeline_stages import PipelineStage, pipeline_stages

H, HEADS, KV, D, FFN, VOCAB, LAYERS, SEQ = 1024, 16, 4, 64, 4096, 32000, 8, 2048
MODEL = {"layers": LAYERS, "hidden": H, "heads": HEADS, "kv_heads": KV, "ffn": FFN, "vocab": VOCAB}
MOE = MODEL | {"moe": {"experts": 16, "top_k": 2, "ffn": 512}}
ACTIVATION = SEQ * H * 2  # T h w of one sequence: 4 MiB


def setup(
    ranks: int, model: dict[str, Any] | None = None, batch: int = 0, **keys: Any
) -> ParallelConfig:
    content = {
        "model": model or MODEL,
        "sequence": SEQ,
        "batch": {"global": batch or 2 * ranks},
        "device": "h100",
        "stack": "megatron",
    } | keys
    return load_job(content).setup(ranks)


def sent(run: ParallelConfig, dimension: str, stage: int = 0) -> list[Call]:
    return [
        call
        for call in stage_calls(run, pipeline_stages(run)[stage])
        if call.dimension == dimension
    ]


def step_calls(run: ParallelConfig) -> list[tuple[PipelineStage, tuple[Call, ...]]]:
    return [(stage, stage_calls(run, stage)) for stage in pipeline_stages(run)]


Told = tuple[Primitive, str, float, float, Hiding]


def told(calls: list[Call]) -> list[Told]:
    """Primitive, phase, bytes, calls a step, hides under: what a row says."""
    return [(call.primitive, call.phase, call.bytes, call.calls, call.hides) for call in calls]


# --- tensor parallelism
# -------------------------------------------------------------------------------------------------


def test_tensor_parallelism_is_two_all_reduces_a_layer_each_way() -> None:
    """4 sequences on one replica: m = 4, 8 layers, an all-reduce behind attention and one behind
    the FFN."""
    calls = sent(setup(4, layout={"tp": 4}, batch=4), "tp")
    assert {call.group for call in calls} == {RankGroup(((4, 1),))}
    assert {call.primitive for call in calls} == {AR}
    assert {call.bytes for call in calls} == {ACTIVATION}
    by_phase = {
        phase: sum(call.calls for call in calls if call.phase == phase)
        for phase in ("forward", "backward", "again")
    }
    assert by_phase == {"forward": 2 * 8 * 4, "backward": 2 * 8 * 4, "again": 0}


def test_sequence_parallelism_gathers_and_scatters() -> None:
    calls = sent(setup(4, layout={"tp": 4, "sp": True}, batch=4), "tp")
    numbers = {(call.primitive, call.phase, call.hides): 0.0 for call in calls}
    for call in calls:
        assert call.bytes == ACTIVATION
        numbers[call.primitive, call.phase, call.hides] += call.calls
    assert numbers == {
        (AG, "forward", "nothing"): 64,
        (RS, "forward", "nothing"): 64,
        (AG, "backward", "nothing"): 64,
        (RS, "backward", "weight gradient"): 64,
        (AG, "backward", "weight gradient"): 64,
    }
    plain = sent(setup(4, layout={"tp": 4}, batch=4, overlap={"tp": False}), "tp")
    assert {call.hides for call in plain} == {"nothing"}
    bulk = sent(setup(4, layout={"tp": 4}, batch=4), "tp")
    assert [call.hides for call in bulk if call.phase == "backward"] == ["weight gradient"] * 2


def test_both_send_the_same_bytes_forward() -> None:
    """An all-reduce is a reduce-scatter and an all-gather: bytes on the wire are 2 (t-1)/t M for
    either."""
    plain, spread = (setup(4, layout={"tp": 4, "sp": sp}, batch=4) for sp in (False, True))
    factor = {AR: 2.0, AG: 1.0, RS: 1.0}
    volumes = [
        sum(
            factor[c.primitive] * c.bytes * c.calls for c in sent(run, "tp") if c.phase == "forward"
        )
        for run in (plain, spread)
    ]
    assert volumes[0] == volumes[1]


def test_recomputation_repeats_the_forward_pass() -> None:
    run = setup(4, layout={"tp": 4}, batch=4, recompute="full")
    assert sum(call.calls for call in sent(run, "tp") if call.phase == "again") == 64
    selective = setup(4, layout={"tp": 4}, batch=4, recompute="selective")
    assert not [call for call in sent(selective, "tp") if call.phase == "again"]


def test_userbuffers_hide_under_the_gemm_in_pieces() -> None:
    run = setup(4, layout={"tp": 4, "sp": True}, batch=4, overlap={"tp": True})
    assert {call.hides for call in sent(run, "tp")} == {"split gemm", "weight gradient"}


def test_a_parallel_vocabulary() -> None:
    run = setup(8, layout={"tp": 4, "pp": 2}, batch=4)
    assert told(sent(run, "vocab")) == [(AR, "forward", ACTIVATION, 4, "nothing")]
    assert told(sent(run, "vocab", 1)) == [
        # the maximum, the sum, the target: 4 bytes a token
        (AR, "forward", SEQ * 4, 12, "nothing"),
        (AR, "backward", ACTIVATION, 4, "nothing"),
    ]
    spread = setup(8, layout={"tp": 4, "sp": True, "pp": 2}, batch=4)
    assert [call.primitive for call in sent(spread, "vocab")] == [RS, AG]
    assert [call.primitive for call in sent(spread, "vocab", 1)] == [AG, AR, RS]


# --- context parallelism
# ------------------------------------------------------------------------------------------------

BLOCK = SEQ / 4 * 2 * KV * D * 2  # keys and values of a quarter of the sequence


def test_ring_attention() -> None:
    run = setup(8, layout={"cp": 4}, batch=4)  # dp 2: m = 2
    assert told(sent(run, "cp")) == [
        (P2P, "forward", BLOCK, 3 * 8 * 2, "attention block"),
        (P2P, "backward", BLOCK, 2 * 3 * 8 * 2, "attention block"),
    ]
    assert sent(run, "cp")[0].group == RankGroup(((4, 1),))


def test_ring_attention_with_tensor_parallelism_and_recomputation() -> None:
    run = setup(8, layout={"cp": 4, "tp": 2}, batch=4, recompute="selective")
    assert [(call.phase, call.bytes, call.calls) for call in sent(run, "cp")] == [
        ("forward", BLOCK / 2, 3 * 8 * 4),
        ("again", BLOCK / 2, 3 * 8 * 4),
        ("backward", BLOCK / 2, 6 * 8 * 4),
    ]
    assert sent(run, "cp")[0].group == RankGroup(((4, 2),))


def test_all_gather_of_keys_and_values() -> None:
    run = setup(8, layout={"cp": 4, "cp_mode": "all-gather"}, batch=4)
    whole = SEQ * 2 * KV * D * 2
    assert told(sent(run, "cp")) == [
        (AG, "forward", whole, 16, "nothing"),
        (RS, "backward", whole, 16, "nothing"),
    ]


def test_ulysses() -> None:
    run = setup(8, layout={"cp": 4, "cp_mode": "ulysses"}, batch=4)
    q, kv = SEQ / 4 * HEADS * D * 2, SEQ / 4 * KV * D * 2
    assert told(sent(run, "cp")) == [
        (A2A, "forward", q, 2 * 16, "nothing"),  # q and the output
        (A2A, "forward", kv, 2 * 16, "nothing"),  # k and v
        (A2A, "backward", q, 2 * 16, "nothing"),
        (A2A, "backward", kv, 2 * 16, "nothing"),
    ]


# --- experts
# ------------------------------------------------------------------------------------------------------------


def test_dispatch_and_combine() -> None:
    run = setup(8, MOE, layout={"ep": 8}, batch=16)  # dp 8: m = 2
    size = SEQ * 2 * H * 2  # every token twice
    assert told(sent(run, "ep")) == [
        (A2A, "forward", size, 2 * 8 * 2, "nothing"),
        (A2A, "backward", size, 2 * 8 * 2, "nothing"),
    ]
    assert sent(run, "ep")[0].group == RankGroup(((8, 1),))


def test_tokens_go_once_to_a_rank_with_several_of_their_experts() -> None:
    """k' = e (1 - (1 - 1/e)^k) (e-1)/e leave the rank; the buffer holds those that stay too."""
    run = setup(8, MOE, layout={"ep": 8, "deduplicate": True}, batch=16)
    forward, _ = sent(run, "ep")
    assert forward.bytes == pytest.approx(SEQ * H * 2 * (8 * (1 - (7 / 8) ** 2)))
    assert forward.bytes * 7 / 8 == pytest.approx(SEQ * H * 2 * 1.640625)
    assert rank_copies(1, Moe(8, 4, 512)) == 1


def test_small_tokens_on_the_way_out_and_whole_ones_back() -> None:
    run = setup(8, MOE, layout={"ep": 8}, batch=16, precision={"dispatch": "fp8"})
    size = SEQ * 2 * H
    assert [(call.phase, call.bytes, call.calls) for call in sent(run, "ep")] == [
        ("forward", size, 16),
        ("forward", 2 * size, 16),
        ("backward", 2 * size, 32),
    ]


def test_sequence_parallelism_divides_the_tokens_and_leaves_experts_out_of_tensor_groups() -> None:
    run = setup(8, MOE, layout={"tp": 2, "sp": True, "ep": 8}, batch=16)
    assert {call.bytes for call in sent(run, "ep")} == {SEQ / 2 * 2 * H * 2}
    assert {call.per for call in sent(run, "tp")} == {"layer"}, "attention alone"
    assert sent(run, "ep")[0].group == RankGroup(((8, 1),)), "over the ranks of a tensor group too"


def test_experts_that_are_cut_gather_their_tokens() -> None:
    run = setup(8, MOE, layout={"tp": 2, "sp": True, "ep": 4, "etp": 2}, batch=16)
    gathers = [
        call for call in sent(run, "etp") if call.primitive is AG and call.phase == "forward"
    ]
    assert [(call.group, call.bytes) for call in gathers] == [
        (RankGroup(((2, 1),)), 2 * SEQ / 2 * 2 * H * 2)
    ]
    assert sent(run, "ep")[0].group == RankGroup(((4, 2),))


def test_what_all_to_alls_may_hide_under() -> None:
    shared = MOE | {
        "moe": {"experts": 16, "top_k": 2, "ffn": 512, "shared_ffn": 512, "imbalance": 1.5}
    }
    run = setup(8, shared, layout={"ep": 8}, batch=16, overlap={"ep": "shared"})
    assert {call.hides for call in sent(run, "ep")} == {"shared expert"}
    assert {call.skew for call in sent(run, "ep")} == {1.5}
    two = setup(8, shared, layout={"ep": 8}, batch=16, overlap={"ep": True})
    assert {call.hides for call in sent(two, "ep")} == {"other batch"}


# --- pipelines
# ----------------------------------------------------------------------------------------------------------


def test_every_border_of_two_chunks() -> None:
    run = setup(4, layout={"pp": 4}, batch=8)
    assert told(sent(run, "pp")) == [
        (P2P, "forward", ACTIVATION, 8, "steady pipeline"),
        (P2P, "backward", ACTIVATION, 8, "steady pipeline"),
    ]
    twice = setup(4, layout={"pp": 4, "virtual": 2}, batch=8)
    assert {call.calls for call in sent(twice, "pp")} == {16}
    spread = setup(16, layout={"pp": 4, "tp": 4, "sp": True}, batch=8)
    assert {(call.bytes, call.group) for call in sent(spread, "pp")} == {
        (ACTIVATION / 4, RankGroup(((4, 4),)))
    }


def test_a_tied_embedding_is_summed_over_both_ends() -> None:
    run = setup(8, MODEL | {"tied": True}, layout={"pp": 4, "tp": 2}, batch=8)
    for stage in (0, 3):
        (call,) = sent(run, "embedding", stage)
        assert (call.primitive, call.group, call.bytes) == (
            AR,
            RankGroup(((2, 6),)),
            VOCAB * H / 2 * 4,
        )
    assert not sent(run, "embedding", 1)
    assert not sent(setup(8, layout={"pp": 4, "tp": 2}, batch=8), "embedding")


# --- gradients
# ----------------------------------------------------------------------------------------------------------

# q and out, k and v, three matrices, two norms
LAYER = 2 * H * H + 2 * H * KV * D + 3 * H * FFN + 2 * H
WEIGHTS = LAYERS * LAYER + 2 * VOCAB * H + H


def test_ddp_sums_in_buckets() -> None:
    run = setup(8, shard={"mode": "ddp", "bucket": "100MB", "grad_bytes": 2})
    full = int(WEIGHTS * 2 // 100e6)
    assert told(sent(run, "dp")) == [
        (AR, "backward", 100e6, full, "last backward"),
        (AR, "backward", WEIGHTS * 2 - full * 100e6, 1, "last backward"),
    ]
    assert sum(call.bytes * call.calls for call in sent(run, "dp")) == WEIGHTS * 2


def test_context_ranks_sum_gradients_too() -> None:
    run = setup(8, layout={"cp": 4}, batch=4)
    assert {call.group for call in sent(run, "dp")} == {RankGroup(((8, 1),))}


@pytest.mark.parametrize("mode", ["zero1", "zero2"])
def test_zero_scatters_gradients_and_gathers_weights(mode: str) -> None:
    run = setup(8, shard={"mode": mode, "bucket": "1GB"})
    assert told(sent(run, "dp")) == [
        (RS, "backward", WEIGHTS * 4, 1, "last backward"),
        (AG, "forward", WEIGHTS * 2, 1, "first forward"),
    ]
    late = setup(8, shard={"mode": mode, "bucket": "1GB"}, overlap={"dp": False})
    assert {call.hides for call in sent(late, "dp")} == {"nothing"}


def test_fsdp_gathers_a_layer_for_each_pass() -> None:
    """m = 2, 8 layers and the embedding with the head: 3 collectives each."""
    run = setup(8, shard={"mode": "fsdp", "grad_bytes": 2})
    ends = (2 * VOCAB * H + H) * 2
    assert told(sent(run, "dp")) == [
        (AG, "forward", LAYER * 2, 16, "neighbour layer"),
        (AG, "backward", LAYER * 2, 16, "neighbour layer"),
        (RS, "backward", LAYER * 2, 16, "neighbour layer"),
        (AG, "forward", ends, 2, "neighbour layer"),
        (AG, "backward", ends, 2, "neighbour layer"),
        (RS, "backward", ends, 2, "neighbour layer"),
    ]


def test_fsdp_with_one_gather_is_one_all_reduce_in_volume() -> None:
    once = setup(8, batch=8, shard={"mode": "fsdp", "gathers": 1, "grad_bytes": 2})
    assert sum(call.bytes * call.calls for call in sent(once, "dp")) == pytest.approx(
        2 * WEIGHTS * 2
    )
    twice = setup(8, batch=8, shard={"mode": "fsdp", "grad_bytes": 2})
    assert sum(call.bytes * call.calls for call in sent(twice, "dp")) == pytest.approx(
        3 * WEIGHTS * 2
    )


def test_fsdp_under_a_pipeline_gathers_once_a_step() -> None:
    run = setup(8, layout={"pp": 2}, batch=16, shard={"mode": "fsdp"})
    forward = [
        call for call in sent(run, "dp") if call.phase == "forward" and call.bytes == LAYER * 2
    ]
    assert [(call.calls, call.per) for call in forward] == [(4, "step")]


def test_hsdp_shards_inside_and_sums_across() -> None:
    run = setup(16, shard={"mode": "hsdp", "group": 8, "grad_bytes": 2})
    inside = [call for call in sent(run, "dp") if call.primitive is not AR]
    assert {call.group for call in inside} == {RankGroup(((8, 1),))}
    across = [call for call in sent(run, "dp") if call.primitive is AR]
    assert told(across) == [
        (AR, "backward", LAYER / 8 * 2, LAYERS, "last backward"),
        (AR, "backward", (WEIGHTS - LAYERS * LAYER) / 8 * 2, 1, "last backward"),
    ], "a layer as soon as its gradient is scattered, the embedding with the head"
    assert {call.group for call in across} == {RankGroup(((2, 8),))}
    assert sum(call.bytes * call.calls for call in across) == pytest.approx(WEIGHTS / 8 * 2)


def test_experts_have_replicas_of_their_own() -> None:
    run = setup(16, MOE, layout={"ep": 8}, batch=16, shard={"mode": "zero1", "bucket": "10GB"})
    experts = LAYERS * 16 / 8 * 3 * H * 512
    assert told(sent(run, "expert dp")) == [
        (RS, "backward", experts * 4, 1, "last backward"),
        (AG, "forward", experts * 2, 1, "first forward"),
    ]
    assert {call.group for call in sent(run, "expert dp")} == {RankGroup(((2, 8),))}
    assert {call.group for call in sent(run, "dp")} == {RankGroup(((16, 1),))}
    alone = setup(8, MOE, layout={"ep": 8}, batch=16)
    assert not sent(alone, "expert dp"), "each expert is there once"


def test_the_norm_of_gradients_goes_over_all_ranks() -> None:
    run = setup(16, layout={"tp": 2, "pp": 2}, batch=16)
    for stage in (0, 1):
        (call,) = sent(run, "norm", stage)
        assert (call.primitive, call.group, call.bytes, call.calls) == (
            AR,
            RankGroup(((16, 1),)),
            4.0,
            1,
        )


# --- all of them
# --------------------------------------------------------------------------------------------------------


def test_one_rank_sends_nothing() -> None:
    assert step_calls(setup(1))[0][1] == ()


def test_a_model_without_a_shape_shares_its_gradients() -> None:
    job = load_job(
        {
            "model": {"parameters": 7.0e9, "layers": 32},
            "sequence": 1,
            "batch": {"global": 8},
            "shard": {"mode": "ddp", "bucket": "100GB", "grad_bytes": 2},
            "compute": {"forward_per_layer": "7ms", "backward_per_layer": "15ms"},
        }
    )
    calls = step_calls(job.setup(8))[0][1]
    assert [(call.dimension, call.bytes) for call in calls] == [("dp", 14e9), ("norm", 4.0)]


def test_every_call_says_where_it_comes_from_and_what_it_hides_under() -> None:
    runs = [
        setup(64, MOE, layout={"tp": 2, "sp": True, "cp": 2, "ep": 4, "etp": 2, "pp": 2}, batch=32),
        setup(64, MODEL | {"tied": True}, layout={"tp": 4, "pp": 2}, batch=32),
    ]
    seen = set()
    for run in runs:
        for _, calls in step_calls(run):
            for call in calls:
                seen.add(call.dimension)
                assert len(call.source) > 15
                assert call.hides in get_args(Hiding)
                assert call.group.ranks > 1
                assert max(call.group.members) < 64
                assert call.bytes > 0
                assert call.calls > 0
    assert seen == {"tp", "vocab", "cp", "ep", "etp", "pp", "dp", "expert dp", "embedding", "norm"}


def test_layers_of_a_folded_pipeline_stand_at_both_ends() -> None:
    run = setup(4, layout={"pp": 4}, batch=8, schedule="zbv")
    assert pipeline_stages(run)[0] == PipelineStage(0, 2, 0, embedding=True, head=True)
    assert not any(stage.head for stage in pipeline_stages(run)[1:])


def test_dense_layers_come_first() -> None:
    deep = MOE | {"layers": 8, "moe": {"experts": 16, "top_k": 2, "ffn": 512, "dense_layers": 3}}
    run = setup(4, deep, layout={"pp": 4}, batch=8)
    assert [(stage.dense_layers, stage.moe_layers) for stage in pipeline_stages(run)] == [
        (2, 0),
        (1, 1),
        (0, 2),
        (0, 2),
    ]
    interleaved = setup(4, deep, layout={"pp": 4, "virtual": 2}, batch=8)
    assert [(stage.dense_layers, stage.moe_layers) for stage in pipeline_stages(interleaved)] == [
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 2),
    ]


def test_buckets_hold_everything() -> None:
    assert buckets(100.0, 25.0) == ((25.0, 4),)
    assert buckets(10.0, 25.0) == ((10.0, 1),)
    assert sum(size * number for size, number in buckets(1e9 + 7, 25e6)) == pytest.approx(1e9 + 7)
