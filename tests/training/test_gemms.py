"""What a GEMM's shape costs, held against published measurements of GEMMs alone."""

from __future__ import annotations

import csv
from math import log
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.training.files.presets import read_device, read_stack
from colltool.training.roofline import Gemm, Roofline, attention_core_s, gemm_s
from colltool.training.stack import Stack, accelerator_of, stack_of

ALONE = {"a100-80gb": 0.8, "h100": 0.88, "b200": 0.52}
"""Share of the peak of the largest GEMMs that run alone; XLA's on H100 are too short to heat it."""


# of the libraries of 2021 to 2024 that those GEMMs were measured with
SHAPE = {"half": 150.0, "half_wave": 0.15, "weight_gradient": 0.95, "memory_gemm": 0.85}


def machine(device: str = "h100", share: float = 0.0, **changed: Any) -> Roofline:
    accelerator, stack = (
        accelerator_of(read_device(device, Path()), device),
        stack_of(read_stack("megatron", Path()), "megatron"),
    )
    changed = SHAPE | changed
    if share:
        stack = stack._replace(gemm=(("bf16", ((accelerator.generation, share),)),))
    return Roofline(accelerator, stack._replace(**changed), "bf16")


def published() -> list[tuple[str, Gemm, float]]:
    """SimuMax, configs/system/a100_pcie.json and b200_bf16_ceperm.json
    (github.com/MooreThreads/SimuMax); XLA's matmul_interpolator_data.h, sm_90
    (github.com/tensorflow/tensorflow)."""
    with (Path(__file__).parents[1] / "data" / "gemms.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        return [
            (
                row["device"],
                Gemm(
                    int(row["m"]),
                    int(row["n"]),
                    int(row["k"]),
                    int(row["batch"]),
                    summed=row["summed"] == "1",
                ),
                float(row["us"]) * 1e-6,
            )
            for row in csv.DictReader(file)
        ]


def off(device: str, **changed: Any) -> float:
    """Mean error over the GEMMs of a device."""
    found = [
        abs(log(gemm_s(gemm, machine(device, ALONE[device], **changed)) / real))
        for on, gemm, real in published()
        if on == device
    ]
    return mean(found)


@swept(("device", "most"), [("a100-80gb", 0.08), ("h100", 0.09), ("b200", 0.13)])
def test_published_gemms(device: str, most: float) -> None:
    flat = {"half": 0.0, "half_wave": 0.0, "weight_gradient": 1.0}
    assert off(device) < most
    assert off(device, **flat) > 1.1 * off(device), "the shape says more than one share"


def test_a_gemm_that_fills_the_device_reaches_the_share() -> None:
    large = Gemm(65536, 65536, 65536)
    assert large.flops / gemm_s(large, machine()) == pytest.approx(0.773 * 989.4e12, rel=0.01)


def test_half_where_the_stack_says() -> None:
    """Tiles of 128 x 256: 132 multiprocessors have 0.15 of one each, at K = 150 half of that
    again."""
    tiles = Gemm(128, 256 * 132 * 0.15, 1e6)
    rate = tiles.flops / (gemm_s(tiles, machine(memory_gemm=1e9)) - 3.9e-6)
    assert rate == pytest.approx(0.773 / 2 * 989.4e12, rel=0.001)
    short = Gemm(65536, 65536, 150)
    assert short.flops / (gemm_s(short, machine(memory_gemm=1e9)) - 3.9e-6) == pytest.approx(
        0.773 / 2 * 989.4e12, rel=0.001
    )


def test_a_device_without_multiprocessors_is_filled_by_any_shape() -> None:
    jax = stack_of(read_stack("jax", Path()), "jax")._replace(half=0.0)
    tpu = Roofline(accelerator_of(read_device("tpu-v5p", Path()), "tpu-v5p"), jax, "bf16")
    one, many = Gemm(512, 512, 8192), Gemm(512, 512, 8192, copies=64)
    assert 64 * (gemm_s(one, tpu) - jax.launch_s("bf16")) == pytest.approx(
        gemm_s(many, tpu) - jax.launch_s("bf16")
    )


def test_few_heads_leave_multiprocessors_idle() -> None:
    """SimuMax, B200, 4096 tokens, head dimension 128: 8 heads reach 0.43 of the rate of 64 forward,
    0.83 backward."""
    flops = 4.0 * 4096 * 2048 * 128
    b200 = machine("b200", launch=(("bf16", 0.0),), attention_half_wave=1.0)
    few, many = (attention_core_s(heads * flops, heads * 4096 / 128, b200) for heads in (8, 64))
    assert 0.43 < 8 * few / many * (many / few / 8) ** 2 < 0.83


sides = st.integers(16, 65536)


@given(sides, sides, sides, st.sampled_from(["a100-80gb", "h100", "b200", "mi300x"]))
def test_more_rows_never_take_less(m: int, n: int, k: int, device: str) -> None:
    once, twice = (gemm_s(Gemm(rows, n, k), machine(device)) for rows in (m, 2 * m))
    assert once < twice <= 2 * once * (1 + 1e-12)


def test_a_stack_without_shape_terms_is_a_roofline() -> None:
    stack: Stack = machine().stack._replace(half=0.0, half_wave=0.0, launch=(("bf16", 0.0),))
    gemm = Gemm(1024, 1024, 1024)
    assert gemm_s(gemm, machine()._replace(stack=stack)) == pytest.approx(
        gemm.flops / (0.773 * 989.4e12)
    )
