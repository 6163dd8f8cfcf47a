"""What of a call hides under the compute beside it, and what shares its wires."""

from __future__ import annotations

import pytest

from colltool.base.primitives import AG, AR, RS, Primitive
from colltool.training.calls import Call, Hiding, Per, stage_calls
from colltool.training.collective_cost import CollectiveCost
from colltool.training.compute_times import LayerTimes, StageTimes, Times
from colltool.training.job import load_job
from colltool.training.overlap import OverlapModel, PricedCall
from colltool.training.parallel_config import ParallelConfig, ParallelLayout, RankGroup
from colltool.training.pipeline_stages import PipelineStage, pipeline_stages

LAYERS = 10
LAYER = LayerTimes(gemms=Times(10.0, 20.0, weight_s=8.0), core=Times(), elementwise=Times())
STAGE = PipelineStage(0, LAYERS, 0, embedding=True, head=True)
TIMES = StageTimes(STAGE, LAYER, None, Times(), LAYER.all.scaled(LAYERS))


def priced(primitive: Primitive, seconds: float, tier: str, per: Per, hides: Hiding) -> PricedCall:
    call = Call(
        "dp",
        primitive,
        RankGroup(((2, 1),)),
        bytes=1.0,
        calls_per_unit=1,
        per=per,
        phase="backward",
        hides=hides,
        calls=LAYERS,
        source="",
    )
    return PricedCall(call, CollectiveCost("", "", 0.0, seconds, (2,), ((tier, seconds),)), seconds)


@pytest.mark.parametrize(("tier", "exposed_s"), [("nvlink", 10 * (18 - 16) + 16.0), ("ib", 18.0)])
def test_what_hides_on_the_same_wires_leaves_less_cover(tier: str, exposed_s: float) -> None:
    """18 s of a scatter under 20 s of backward; 4 s of TP hide there too, on the same wires or on
    others.

    The last scatter has nothing behind it: what its layer would have covered shows.
    """
    others, scatter = (
        priced(AG, 4.0, tier, "layer", "weight gradient"),
        priced(RS, 18.0, "nvlink", "dense_layer", "neighbour layer"),
    )
    config = ParallelConfig(ParallelLayout(tp=2, sp=True, dp=2))
    hidden, found = OverlapModel(config, TIMES).exposed([others, scatter])
    assert hidden.exposed_s == 0
    assert found.exposed_s == pytest.approx(exposed_s)


def test_what_hides_in_one_pass_counts_in_that_pass_whatever_hides_in_the_other() -> None:
    """A gather in the forward pass changes nothing of the scatter in the backward pass."""
    others = priced(AG, 4.0, "nvlink", "layer", "weight gradient")
    scatter = priced(RS, 18.0, "nvlink", "dense_layer", "neighbour layer")
    gather = scatter._replace(call=scatter.call._replace(primitive=AG, phase="forward"))
    config = ParallelConfig(ParallelLayout(tp=2, sp=True, dp=2))
    alone = OverlapModel(config, TIMES).exposed([others, scatter])
    both = OverlapModel(config, TIMES).exposed([others, gather, scatter])
    assert both[-1] == alone[-1]


def test_what_shows_on_other_wires_stretches_the_layer() -> None:
    """6 s of TP behind 4 s of a weight's gradient: 2 s longer is the layer, and the scatter's
    cover."""
    others, scatter = (
        priced(AG, 6.0, "ib", "layer", "weight gradient"),
        priced(RS, 25.0, "nvlink", "dense_layer", "neighbour layer"),
    )
    found = OverlapModel(ParallelConfig(ParallelLayout(tp=2, sp=True, dp=2)), TIMES).exposed(
        [others, scatter]
    )
    assert found[1].exposed_s == pytest.approx(10 * (25 - 22) + 22)


def test_an_update_is_no_pass_of_a_layer() -> None:
    assert [Times(1.0, 2.0, 3.0).of(phase) for phase in ("forward", "backward", "again")] == [
        1.0,
        2.0,
        3.0,
    ]
    with pytest.raises(KeyError):
        Times(1.0, 2.0, 3.0).of("update")


@pytest.mark.parametrize(("grads", "grad_bytes"), [("fp32", 4), ("bf16", 2)])
def test_zero_gathers_as_many_weights_a_bucket_as_it_scatters_gradients(
    grads: str, grad_bytes: int
) -> None:
    """Buckets are of parameters: those of bf16 weights have half the bytes of those of fp32
    gradients, and are as many."""
    job = load_job(
        {
            "model": "llama3-8b",
            "sequence": 8192,
            "batch": {"global": 64},
            "device": "h100",
            "stack": "megatron",
            "shard": {"mode": "zero1"},
            "precision": {"grads": grads},
        }
    )
    config = job.setup(64)
    sent = [
        call for call in stage_calls(config, pipeline_stages(config)[0]) if call.dimension == "dp"
    ]
    scatters, gathers = (
        [(call.bytes, call.calls) for call in sent if call.primitive is kind] for kind in (RS, AG)
    )
    assert not [call for call in sent if call.primitive is AR]
    assert len(scatters) == 2  # full ones and the last
    assert gathers == [(pytest.approx(size * 2 / grad_bytes), count) for size, count in scatters]
