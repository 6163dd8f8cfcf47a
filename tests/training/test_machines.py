"""Devices and stacks: a source for every number, and what follows where one is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.training.files import DeviceFile, ModelFile, StackFile
from colltool.training.files.presets import preset_names, read_device, read_model, read_stack
from colltool.training.stack import accelerator_of, stack_of

WITHOUT_NUMBERS = {
    "schema_",
    "name",
    "description",
    "date",
    "generation",
    "notes",
    "source",
    "assumed",
}


def sourced(file: BaseModel) -> None:
    """Every number of a shipped file, defaults included, has a line in its source."""
    source: Any = getattr(file, "source")  # noqa: B009 - mypy knows no such field of a BaseModel
    assert isinstance(source, dict)
    numbers = set(type(file).model_fields) - WITHOUT_NUMBERS
    numbers = {name for name in numbers if getattr(file, name) not in ({}, None)}
    assert numbers <= set(source), f"without a source: {sorted(numbers - set(source))}"
    assert all(len(text) > 20 or text == "as for megatron" for text in source.values())


def test_what_is_shipped() -> None:
    assert {"a100-80gb", "b200", "gb300", "h100", "h200", "mi300x", "tpu-v5p"} <= set(
        preset_names("devices")
    )
    assert {"fsdp", "jax", "megatron", "megatron-2021"} <= set(preset_names("stacks"))
    assert {"deepseek-v3", "gpt3-175b", "llama3-70b", "mixtral-8x7b"} <= set(preset_names("jobs"))


@swept("name", preset_names("devices"))
def test_every_number_of_a_device_has_a_source(name: str) -> None:
    sourced(read_device(name, Path()))


@swept("name", preset_names("stacks"))
def test_every_number_of_a_stack_has_a_source_and_a_date(name: str) -> None:
    file = read_stack(name, Path())
    sourced(file)
    assert file.date.startswith("20")


@swept("name", preset_names("models"))
def test_every_model_has_a_source(name: str) -> None:
    source = read_model(name, Path()).source
    assert isinstance(source, str)
    assert "arXiv" in source


@swept(
    ("name", "bf16", "memory", "bandwidth"),
    [
        ("a100-80gb", 312e12, 85.9e9, 2.039e12),
        ("h100", 989e12, 85.9e9, 3.35e12),
        ("h200", 989e12, 150e9, 4.8e12),
        ("b200", 2250e12, 192e9, 7.7e12),
        ("gb200", 2500e12, 186e9, 8e12),
        ("mi300x", 1307e12, 206e9, 5.3e12),
        ("tpu-v5p", 459e12, 95 * 2**30, 2.765e12),
        ("tpu-v6e", 918e12, 32 * 2**30, 1.64e12),
        ("tpu7x", 2307e12, 192 * 2**30, 7.38e12),
    ],
)
def test_published_figures(name: str, bf16: float, memory: float, bandwidth: float) -> None:
    device = accelerator_of(read_device(name, Path()), name)
    assert device.peak_flops("bf16") == pytest.approx(bf16, rel=0.001)
    assert device.memory_bytes == pytest.approx(memory, rel=0.005)
    assert device.bandwidth_Bps == pytest.approx(bandwidth)


def test_a_peak_that_is_not_there_is_refused() -> None:
    with pytest.raises(ColltoolError, match="a100-80gb has no peak for fp8"):
        accelerator_of(read_device("a100-80gb", Path()), "a100-80gb").peak_flops("fp8")


def test_a_stack_says_nothing_of_other_devices() -> None:
    stack = stack_of(read_stack("megatron", Path()), "megatron")
    assert stack.gemm_share("bf16", "hopper") == 0.773
    assert 0.5 < stack.gemm_share("fp8", "blackwell") < 0.7
    with pytest.raises(ColltoolError, match="has no efficiency for GEMMs in bf16 on tpu-v4"):
        stack.gemm_share("bf16", "tpu-v4")
    with pytest.raises(ColltoolError, match="no efficiency for int8"):
        stack.gemm_share("int8", "hopper")


def test_every_device_has_a_stack() -> None:
    tables = [stack_of(read_stack(name, Path()), name) for name in preset_names("stacks")]
    for name in preset_names("devices"):
        generation = read_device(name, Path()).generation
        assert any(generation in dict(dict(stack.gemm)["bf16"]) for stack in tables), name


@swept("kind", [DeviceFile, StackFile, ModelFile])
def test_an_unknown_key_is_refused(kind: type[BaseModel]) -> None:
    assert kind.model_config["extra"] == "forbid"
