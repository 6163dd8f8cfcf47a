"""How much longer compute takes beside a collective: the measured kernels, and what a plan makes of
it.

``overlap_h100.csv``: kernels beside a kernel that copies on some blocks, measured on one H100 SXM.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.primitives import AG, RS
from colltool.training import overlap_slowdown
from colltool.training.calls import Call
from colltool.training.collective_cost import CollectiveCost
from colltool.training.compute_times import LayerTimes, StageTimes, Times
from colltool.training.job import load_job
from colltool.training.overlap import PricedCall
from colltool.training.overlap_slowdown import Kernels, slowdown, slowed_s
from colltool.training.parallel_config import RankGroup
from colltool.training.pipeline_stages import PipelineStage

ROWS = Path(__file__).parents[1] / "data" / "overlap_h100.csv"
STACKS = Path(colltool.__file__).parent / "training" / "data" / "stacks"
UNITS = 132
ALONE = {
    "gemm": Kernels(1.0),
    "attention": Kernels(0.0, 1.0),
    "elementwise": Kernels(0.0, 0.0, 1.0),
}


class Measured(NamedTuple):
    kernel: str
    blocks: int
    times: float  # as long as alone


def measured() -> Iterator[Measured]:
    with ROWS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    alone = {}
    for row in rows:
        if row["blocks"] == "0":
            alone[row["kernel"], row["shape"]] = float(row["ms"])
    for row in rows:
        if row["blocks"] != "0":
            times = float(row["ms"]) / alone[row["kernel"], row["shape"]]
            yield Measured(row["kernel"], int(row["blocks"]), times)


def refitted(rows: list[Measured]) -> float:
    """The constant of a kind of kernel, by least squares."""
    shares = [row.blocks / UNITS for row in rows]
    more = [row.times - 1 for row in rows]
    products = sum(share * extra for share, extra in zip(shares, more, strict=True))
    return products / sum(share * share for share in shares)


@swept(
    ("kernel", "worst", "on_average", "left_out"),
    [
        ("gemm", 0.1, 0.03, 0.035),
        ("attention", 0.09, 0.04, 0.06),
        ("elementwise", 0.01, 0.01, 0.01),
    ],
)
def test_kernels_beside_channels_take_as_long_as_measured(
    kernel: str, worst: float, on_average: float, left_out: float
) -> None:
    """All rows under the shipped constants, and each number of blocks under a constant fitted to
    the others."""
    rows = [row for row in measured() if row.kernel == kernel]
    errors = []
    for row in rows:
        times = 1 + slowdown(ALONE[kernel], row.blocks / UNITS)
        errors.append(abs(times / row.times - 1))
    assert max(errors) <= worst
    assert mean(errors) <= on_average
    unseen = []
    for blocks in {row.blocks for row in rows}:
        constant = refitted([row for row in rows if row.blocks != blocks])
        for row in rows:
            if row.blocks == blocks:
                unseen.append(abs((1 + constant * blocks / UNITS) / row.times - 1))
    assert mean(unseen) <= left_out


@swept("kernel", ALONE)
def test_the_shipped_constants_are_those_of_the_rows(kernel: str) -> None:
    rows = [row for row in measured() if row.kernel == kernel]
    assert getattr(overlap_slowdown, kernel.upper()) == pytest.approx(refitted(rows), rel=0.05)


SECONDS = st.floats(min_value=0.0, max_value=10.0)


@given(SECONDS, SECONDS, SECONDS, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_more_channels_never_make_compute_faster(
    gemm_s: float, attention_s: float, elementwise_s: float, one: float, other: float
) -> None:
    kernels = Kernels(gemm_s, attention_s, elementwise_s)
    fewer, more = sorted((one, other))
    assert 0 <= slowdown(kernels, fewer) <= slowdown(kernels, more) + 1e-12


@given(st.floats(0.0, 0.5))
def test_a_gemm_loses_at_least_the_multiprocessors_that_channels_hold(share: float) -> None:
    assert 1 + slowdown(Kernels(1.0), share) >= 1 / (1 - share) - 1e-12


LAYER = LayerTimes(gemms=Times(10.0, 20.0), core=Times(), elementwise=Times())
TIMES = StageTimes(
    PipelineStage(0, 1, 0, embedding=True, head=True), LAYER, None, Times(), LAYER.all
)


def call(exposed_s: float, overflow_s: float, channels: int | None) -> PricedCall:
    """A reduce-scatter of 10 s in the backward pass."""
    group = RankGroup(((2, 1),))
    sent = Call(
        "dp",
        RS,
        group,
        bytes=1.0,
        per="step",
        phase="backward",
        source="",
        calls_per_unit=1,
        hides="last backward",
        calls=1,
    )
    cost = CollectiveCost("", "", 0.0, 10.0, (2,), (("nvlink", 10.0),), channels=channels)
    return PricedCall(sent, cost, 10.0, exposed_s=exposed_s, overflow_s=overflow_s)


def job(**overlap: Any) -> dict[str, Any]:
    """Four layers on 32 H100, data parallel."""
    return {
        "model": {"layers": 4, "hidden": 4096, "heads": 32, "ffn": 16384, "vocab": 32000},
        "sequence": 4096,
        "batch": {"global": 64},
        "device": "h100",
        "stack": "megatron",
        "overlap": overlap,
    }


def test_a_call_covers_as_much_less_compute_as_that_is_slower() -> None:
    """16 of 132 units: GEMMs take 1.2545 times as long, so 10 s cover 7.971 s of them."""
    config = load_job(job()).setup(32)
    more = overlap_slowdown.GEMM * 16 / UNITS
    assert slowed_s(config, TIMES, [call(0.0, 0.0, 16)]) == pytest.approx(10 - 10 / (1 + more))
    # where compute ends long before the call, slower compute only fills the wait
    assert slowed_s(config, TIMES, [call(5.0, 5.0, 16)]) == 0
    # what nothing could hide, as the last bucket, is no such wait
    assert slowed_s(config, TIMES, [call(5.0, 0.0, 16)]) == pytest.approx(5 - 5 / (1 + more))
    assert slowed_s(config, TIMES, [call(0.0, 0.0, None)]) == pytest.approx(10 - 10 / (1 + more))


def test_what_a_job_states_acts_in_place_of_the_channels() -> None:
    calls = [call(1.0, 1.0, 32), call(0.0, 0.0, None)]
    config = load_job(job(sm_share=0.1)).setup(32)
    assert slowed_s(config, TIMES, calls) == pytest.approx(0.1 * (9 + 10))
    stack = yaml.safe_load((STACKS / "megatron.yaml").read_text()) | {"slowed": 0.2}
    config = load_job(job() | {"stack": stack}).setup(32)
    assert slowed_s(config, TIMES, calls) == pytest.approx(0.2 * (9 + 10))


def channels_of(fabric: str, ranks: int, **layout: Any) -> dict[str, int | None]:
    """Channels of the calls of a plan, by dimension."""
    planned = colltool.plan(job() | {"layout": layout, "device": None}, fabric, ranks)
    found = {}
    for one in planned.collectives:
        found[one.sent.call.dimension] = one.sent.cost.channels
    return found


def test_channels_are_those_of_the_librarys_choice() -> None:
    """As NCCL prints them: 24 on a node of H100, 16 across nodes, 4 with one GPU on each, 2 to a
    peer across nodes."""
    assert channels_of("dgx-h100", 32)["dp"] == 16
    tensor = channels_of("dgx-h100", 32, tp=8, sp=True)
    assert (tensor["tp"], tensor["dp"]) == (24, 4)
    assert channels_of("dgx-h100", 32, pp=4)["pp"] == 2


def test_a_plan_says_what_holds_the_device_or_that_it_is_assumed() -> None:
    known = colltool.plan(job(), "dgx-h100", 32)
    assert any("dp 16 of 132" in one for one in known.grounds)
    assumed = colltool.plan(job() | {"device": "mi300x"}, "mi300x", 8)
    assert any("37 of 304" in one for one in assumed.grounds)
    assert all(
        "multiprocessors" not in one
        for one in colltool.plan(job(sm_share=0), "dgx-h100", 32).grounds
    )


def test_split_gemms_gather_by_copy_engines_and_scatter_by_20_multiprocessors() -> None:
    """A quarter of a scatter is the last piece, which nothing could hide."""
    config = load_job(job()).setup(32)
    for primitive, units in ((AG, 0), (RS, 20)):
        piece = call(2.5, 0.0, 24)
        sent = piece.call._replace(primitive=primitive, hides="split gemm")
        more = overlap_slowdown.GEMM * units / UNITS
        lost_s = slowed_s(config, TIMES, [piece._replace(call=sent)])
        assert lost_s == pytest.approx(7.5 - 7.5 / (1 + more))


def test_a_tpu_sends_without_its_cores() -> None:
    tpu = job() | {"device": "tpu-v5p", "stack": "jax"}
    planned = colltool.plan(tpu, "tpu-v5p", 64)
    assert sum(one.sent.hidden_s for one in planned.collectives) > 0
    assert "overlap slows compute" not in [part.name for part in planned.parts]
