"""A shipped job, or a model alone, on a fabric that its own layout does not fit; and what starts a
job file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from effort import some
from planning import adds_up, dense, two_tiers
from small import HF_LLAMA
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import shipped_fabrics
from colltool.training.files.presets import preset_names
from colltool.training.job_text import job_start, job_text

FIGURES = ("has no compute figures here", "fits")


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(HF_LLAMA))
    return str(tmp_path / "config.json")


@pytest.mark.parametrize("fabric", ["dgx-a100", "hgx-h200", "nvl72", "tpu-v5p", "mi300x"])
def test_a_shipped_job_runs_where_it_fits(fabric: str) -> None:
    """On another number of ranks, device, stack and precision, each change told."""
    found = colltool.plan("llama3-70b", fabric)
    assert found.memory is not None
    assert found.memory.fits
    assert found.ranks > 1
    adds_up(found)


@pytest.mark.alike(2)
@pytest.mark.parametrize("job", preset_names("jobs"))
def test_a_refusal_is_of_the_machine_not_of_the_layout(job: str) -> None:
    """No figures of the device, or not enough memory in any layout."""
    refused = []
    for fabric in some(shipped_fabrics()[::6], 1):
        try:
            colltool.plan(job, fabric)
        except ColltoolError as error:
            refused.append(str(error))
    assert [one for one in refused if not any(words in one for words in FIGURES)] == []


def test_what_changes_is_told() -> None:
    found = colltool.plan("deepseek-v3", "tpu-v5p", 2048)
    said = " | ".join(found.grounds)
    assert "stack jax" in said
    assert "bf16" in said
    few = colltool.plan("llama3-70b", "dgx-h100", 16)
    assert "its own layout does not fit 16 ranks here; the fastest that does is tp" in " | ".join(
        few.grounds
    )
    assert few.ranks == 16


def test_a_users_own_job_is_meant_as_it_is() -> None:
    with pytest.raises(ColltoolError, match="does not divide 20 ranks"):
        colltool.plan(dense(), two_tiers(), 20)


def test_a_job_is_kept_where_it_fits() -> None:
    plain = colltool.plan("llama3-70b", "dgx-h100", 256)
    assert plain.job.overrides == ()
    assert not any("nearest" in one or "its layout is" in one for one in plain.grounds)


@pytest.mark.thorough
def test_a_model_alone_is_planned(config: str) -> None:
    found = colltool.plan(config, "dgx-h100", 64)
    assert found.memory is not None
    assert found.memory.fits
    said = " | ".join(found.grounds)
    assert "assumed: sequence 8192, global batch 512 (4.2M tokens)" in said
    best = colltool.search_layouts(config, "dgx-h100", 64, top=1).best
    assert found.step_s == best.step_s


def test_keys_below_a_named_part_are_overridden() -> None:
    told = colltool.load_job(
        "mixtral-8x7b", ["model.moe.imbalance=1.5", "device.memory=100GB", "stack.fixed=1ms"]
    )
    assert told.draft.moe is not None
    assert told.draft.device is not None
    assert told.draft.stack is not None
    assert (told.draft.moe.imbalance, told.draft.device.memory_bytes, told.draft.stack.fixed_s) == (
        1.5,
        100e9,
        1e-3,
    )
    with pytest.raises(ColltoolError, match="moe"):
        colltool.load_job("mixtral-8x7b", ["model.moe.imbalanced=1.5"])


def test_a_job_file_starts_from_a_model(config: str, tmp_path: Path) -> None:
    for model in (config, "llama3-8b"):
        text = job_start(model)
        (tmp_path / "mine.yaml").write_text(text)
        loaded = colltool.load_job(tmp_path / "mine.yaml")
        assert loaded.draft.model is not None
        assert not loaded.drafted
        assert config not in text, "it stands alone"
    on = yaml.safe_load(
        job_start("llama3-8b", colltool.load_fabric("dgx-h100"), 64, ["batch.global=128"])
    )
    assert (on["batch"]["global"], on["device"]) == (128, "h100")
    planned = colltool.plan(on, "dgx-h100", 64)
    assert planned.memory is not None
    assert planned.memory.fits
    with pytest.raises(ColltoolError, match="no shipped model is called 'llama9'"):
        job_start("llama9")


@swept("name", preset_names("jobs"))
def test_a_job_written_out_is_the_same_job(name: str, tmp_path: Path) -> None:
    changed = colltool.load_job(name, ["batch.global=1920"])
    (tmp_path / "again.yaml").write_text(job_text(changed))
    again = colltool.load_job(tmp_path / "again.yaml")
    assert again.draft == changed.draft
    assert (again.name, again.overrides) == (changed.name, ())
