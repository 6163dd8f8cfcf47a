"""``plan`` of Chakra traces: worked steps, a planned step written and read back, what is
refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import colltool
from colltool.extras.interop.chakra import chakra
from tests.commands.conftest import run as command
from tests.logs.test_chakra_traces import comm, gemm, write

MODEL = {"hidden": 1024, "layers": 8, "heads": 16, "ffn": 4096, "vocab": 32000, "tied": True}
JOB: dict[str, Any] = {
    **{"name": "small", "model": MODEL, "device": "h100", "stack": "megatron", "sequence": 2048},
    **{
        "layout": {"tp": 8, "dp": "auto"},
        "batch": {"global": 16, "micro": 1},
        "overlap": {"dp": False, "tp": False},
    },
}


@pytest.mark.parametrize("fabric", ["dgx-h100", "dgx-b200"])
def test_compute_stays_and_collectives_are_priced(tmp_path: Path, fabric: str) -> None:
    """One call that the next compute waits for, one beside 10 ms of it; times recorded for the
    calls do not matter."""
    nodes = gemm(1, 1000), comm(2, 0, 2**20, 1), gemm(3, 10_000, 2), comm(4, 0, 2**20, 2, lasts=9)
    found = colltool.plan_traces(write(tmp_path / "a.0.et", *nodes), fabric)
    (row,) = found.collectives
    assert row.each_s == pytest.approx(
        colltool.trace(fabric, tmp_path / "a.0.et").calls[0].expected_s
    )
    assert found.control_step_s == pytest.approx(11e-3)
    assert found.step_s == pytest.approx(11e-3 + row.each_s)
    assert (row.calls, row.total_s) == (2, pytest.approx(2 * row.each_s))
    assert (
        found.exposed_s
        == pytest.approx(row.exposed_s)
        == pytest.approx(sum(one.exposed_s for one in found.tiers))
    )


def test_the_slowest_rank_is_the_step(tmp_path: Path) -> None:
    for rank, lasts in enumerate((100, 300, 200)):
        write(tmp_path / f"a.{rank}.et", gemm(1, lasts), comm(2, 0, 2**20, 1), rank=rank)
    found = colltool.plan_traces(tmp_path, "dgx-h100")
    assert (found.slowest.rank, [one.rank for one in found.ranks]) == (1, [0, 1, 2])
    assert found.compute_s == pytest.approx(300e-6)


def test_a_planned_step_is_read_back(tmp_path: Path) -> None:
    """With nothing hidden the step is the plan's without what is no work; microseconds are rounded
    in compute alone."""
    plan = colltool.plan(JOB, "dgx-h100", 16)
    path = tmp_path / "step.0.et"
    path.write_bytes(chakra(plan)["workload.0.et"])
    waits = sum(part.exposed_s for part in plan.parts if part.name in ("bubble", "fixed", "jitter"))
    found = colltool.plan_traces(path, "dgx-h100")
    assert found.step_s == pytest.approx(plan.step_s - waits, abs=3e-6)
    elsewhere = colltool.plan_traces(path, "dgx-a100")
    assert elsewhere.control_step_s == found.control_step_s
    assert elsewhere.step_s > found.step_s


@pytest.mark.ci
@pytest.mark.alike(1)
@pytest.mark.parametrize(
    "layout",
    [{"tp": 1}, {"tp": 8}, {"tp": 8, "pp": 2}, {"tp": 2, "pp": 2}],
    ids=["dp", "tp and dp", "tp, pp and dp", "tp of two"],
)
def test_what_a_plan_hides_is_hidden_in_its_trace(tmp_path: Path, layout: dict[str, int]) -> None:
    """Gradients under the last backward pass, weights under the first forward; a call is hidden as
    a whole or not at all."""
    plan = colltool.plan(
        {
            **JOB,
            "layout": {"dp": "auto", **layout},
            "batch": {"global": 64, "micro": 1},
            "overlap": {},
        },
        "dgx-h100",
        32,
    )
    for name, written in chakra(plan).items():
        (tmp_path / name).write_bytes(written)
    waits = sum(part.exposed_s for part in plan.parts if part.name in ("bubble", "fixed", "jitter"))
    dp = [one.sent for one in plan.collectives if one.paces and one.sent.call.dimension == "dp"]
    assert sum(one.hidden_s for one in dp) > 0
    assert colltool.plan_traces(tmp_path, "dgx-h100").step_s == pytest.approx(
        plan.step_s - waits, rel=0.1
    )


def test_what_a_trace_cannot_answer_is_refused(tmp_path: Path) -> None:
    file = str(write(tmp_path / "a.0.et", gemm(1, 10), comm(2, 0, 2**20, 1)))
    for options in (["--search"], ["--job-set", "layout.tp=2"], ["-n", "8"], ["--vary", "usual"]):
        ran = command("plan", file, "-f", "dgx-h100", *options)
        assert (ran.code, ran.out) == (2, "")
        assert "changes a job" in ran.err
    assert "is not a trace (.et)" in command("plan", file, "x.yaml", "-f", "dgx-h100").err
