"""The estimate of a decode step: steps measured on one H100, published ones, and what it may never
do.

``decode_h100.csv``: steps of PyTorch under CUDA graphs; ``decode_published.csv``: time per token of
engines, with the source of each.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colltool
from colltool.serving.decode_estimate import kernels_interval, kernels_s
from colltool.serving.deployment import Deployment, StepWork, active_flops, step_floor, step_work
from colltool.training.files.presets import read_device
from colltool.training.job import load_job
from colltool.training.model import TransformerModel
from colltool.training.stack import Accelerator, accelerator_of

DATA = Path(__file__).parents[1] / "data"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def h100() -> Accelerator:
    return accelerator_of(read_device("h100", Path()), "h100")


def model_of(row: dict[str, str]) -> TransformerModel:
    """The model of a measured step; heads of 128."""
    sizes = {key: int(row[key]) for key in ("layers", "hidden", "heads", "ffn", "vocab")}
    shape = sizes | {"kv_heads": int(row["kv"]), "head_dim": 128, "gated": True}
    rest = {"sequence": 4096, "batch": {"global": 1}, "stack": "megatron", "device": "h100"}
    model = load_job({"model": shape} | rest).draft.model
    assert model is not None
    return model


def test_steps_take_as_long_as_measured_on_h100() -> None:
    errors = []
    device = h100()
    for row in rows("decode_h100.csv"):
        model = model_of(row)
        work = StepWork(
            float(row["weights_bytes"]),
            float(row["kv_bytes"]),
            active_flops(model, Deployment(), int(row["batch"])),
            device.peak_flops("bf16"),
        )
        seconds = kernels_s(model, Deployment(), device, work)
        interval = kernels_interval(model, device, seconds, step_floor(work, device).total_s)
        assert interval.low_s <= float(row["step_s"]) <= interval.high_s
        errors.append(seconds / float(row["step_s"]) - 1)
    assert len(errors) == 10
    assert max(map(abs, errors)) < 0.14
    assert mean(map(abs, errors)) < 0.07


def test_bytes_of_a_step_are_those_that_were_counted_on_the_card() -> None:
    """Weights without the embedding, and the whole cache."""
    for row in rows("decode_h100.csv"):
        batch = int(row["batch"])
        work = step_work(model_of(row), Deployment(), h100(), batch, int(row["ctx"]) * batch)
        assert work.weight_bytes == pytest.approx(float(row["weights_bytes"]), rel=0.01)
        assert work.kv_bytes == pytest.approx(float(row["kv_bytes"]), rel=0.01)


def test_published_steps_of_engines_lie_in_the_interval() -> None:
    """No number was taken from the dense models; the time of routing stands between those with
    experts."""
    dense = []
    experts = []
    for row in rows("decode_published.csv"):
        served = colltool.serve(
            row["model"],
            row["fabric"],
            tp=int(row["tp"]),
            batch=int(row["batch"]),
            isl=int(row["input"]),
            osl=int(row["output"]),
            engine=row["engine"] or None,
            weights=row["weights"],
        )
        decode = served.decode
        assert decode.limit_s < float(row["token_s"])
        assert decode.estimate_interval.low_s <= float(row["token_s"])
        assert float(row["token_s"]) <= decode.estimate_interval.high_s
        error = decode.estimate_s / float(row["token_s"]) - 1
        if row["model"].startswith("llama"):
            dense.append(error)
        else:
            experts.append(error)
    assert max(map(abs, dense)) < 0.11
    assert mean(map(abs, dense)) < 0.08
    assert -0.41 < min(experts) < max(experts) < 0.11


MODELS = ("llama3-8b", "llama3-70b", "mixtral-8x7b", "deepseek-v3")


@settings(deadline=None)
@given(
    st.sampled_from(MODELS),
    st.sampled_from((1, 2, 4, 8)),
    st.sampled_from(("bf16", "fp8", "nvfp4", "int4")),
    st.integers(1, 4096),
    st.integers(1, 200_000),
    st.floats(1.0, 4.0),
)
def test_an_estimate_is_no_shorter_than_the_limit_and_grows_with_batch_and_context(
    name: str, tp: int, weights: str, tokens: int, context: int, more: float
) -> None:
    model = load_job(name).draft.model
    assert model is not None
    device = h100()
    deployment = Deployment(tp=tp, dtype=weights)

    def estimated(sequences: int, cached: float) -> float:
        work = step_work(model, deployment, device, sequences, sequences * cached)
        seconds = kernels_s(model, deployment, device, work)
        least_s = step_floor(work, device).total_s
        assert seconds >= least_s
        interval = kernels_interval(model, device, seconds, least_s)
        assert least_s <= interval.low_s <= seconds <= interval.high_s
        return seconds

    now = estimated(tokens, context)
    rounding = 1 + 1e-9
    assert estimated(round(tokens * more), context) * rounding >= now
    assert estimated(tokens, context * more) * rounding >= now


def test_other_devices_and_experts_have_wider_intervals() -> None:
    def width(job: str, fabric: str) -> float:
        interval = colltool.serve(job, fabric, tp=8, batch=8).decode.kernels_interval
        return float(interval.high_s / interval.low_s)

    assert width("llama3-70b", "dgx-h100") < width("llama3-70b", "dgx-b200")
    assert width("llama3-70b", "dgx-b200") < width("mixtral-8x7b", "dgx-b200")


def test_one_question_has_one_answer() -> None:
    """A search, a comparison and a change tell the tokens/s of the deployment alone."""
    alone = colltool.serve("llama3-70b", "dgx-h100", tp=8, batch=8)
    found = colltool.serve("llama3-70b", "dgx-h100", search=True, ranks=8, batch=8)
    same = next(one for one in found.served if one.deployment == alone.deployment)
    assert same.estimated_tokens_per_s == alone.estimated_tokens_per_s
    twice = colltool.serve("llama3-70b", "dgx-h100", tp=8, batch=16)
    change = next(change for change in alone.changes if change.change == "batch 16")
    assert change.estimated_tokens_per_s == twice.estimated_tokens_per_s
    assert change.gain == twice.estimated_tokens_per_s / alone.estimated_tokens_per_s
    assert f"about {alone.estimated_tokens_per_s:,.0f} tokens/s" in alone.summary().lower()
