"""Kernels and steps measured on one H100, held against what plan makes of them, part by part."""

from __future__ import annotations

from statistics import mean

import bench_card
import pytest
from swept import swept

from colltool.training.compute_times import stage_times
from colltool.training.pipeline_stages import pipeline_stages
from colltool.training.roofline import Gemm, gemm_s, power_limit_factor

ROWS = bench_card.gemm_rows(bench_card.FOLDER)
STEPS = [bench_card.planned(row) for row in bench_card.step_rows(bench_card.FOLDER)]


def size(errors: list[float]) -> float:
    return mean(abs(error) for error in errors)


@swept(("kind", "most"), [("bf16", 0.06), ("fp8", 0.06), ("grouped", 0.06)])
def test_gemms_alone(kind: str, most: float) -> None:
    found = bench_card.gemm_errors(ROWS)
    assert size(found[kind]) < most
    classes = [name for name in found if name.startswith(f"{kind}, M from")]
    assert len(classes) >= 4
    for name in classes:
        assert size(found[name]) < 0.09, name


def test_gemms_without_pause_run_at_the_power_limit() -> None:
    found = bench_card.gemm_errors(ROWS, sustained=True)
    assert size(found["bf16"] + found["grouped"]) < 0.08
    on = bench_card.machine("bf16")
    assert power_limit_factor(1.0, 0.0, on) == pytest.approx(1 / 0.907)
    assert power_limit_factor(1.0, 1.0, on) == 1


def test_parts_of_steps() -> None:
    """Each part is near by itself: no error hides another."""
    found = bench_card.part_errors(STEPS)
    assert set(found) == set(bench_card.PARTS)
    for part, errors in found.items():
        assert size(errors) < 0.1, part
        assert abs(mean(errors)) < 0.05, part


def test_steps() -> None:
    assert size([step.error for step in STEPS]) < 0.04
    assert mean(step.inside for step in STEPS) >= 0.8


def test_a_host_that_is_slower_than_the_device_sets_the_pass() -> None:
    """1,024 tokens of a 1B model: the device waits."""
    [small] = [row for row in bench_card.step_rows(bench_card.FOLDER) if row["model"] == "gpt1b-6"][
        :1
    ]
    step = bench_card.planned(small | {"seq": 1024})
    [stage] = pipeline_stages(step.config)
    times = stage_times(step.config, stage)
    assert times.all.total_s == pytest.approx(6 * 3e-3)
    assert times.host.total_s > 0.3 * times.all.total_s
    long = bench_card.planned(small | {"seq": 16384})
    assert stage_times(long.config, stage).host.total_s == 0


def test_gemms_in_one_launch_are_not_a_launch_each() -> None:
    on = bench_card.machine("bf16")
    many = gemm_s(Gemm(16, 1536, 2048, copies=128, grouped=True), on)
    assert many < 128 * gemm_s(Gemm(16, 1536, 2048), on) / 1.5
