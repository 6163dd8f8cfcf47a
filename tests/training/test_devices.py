"""What a job computes on: its own device, else the fabric's; never another than stands at the ends
of the wires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planning import dense
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.fabric.media import DEVICES
from colltool.render.dispatch import document
from colltool.training.files.presets import preset_names

NO_HARDWARE = {"kd-mesh", "mesh512", "mpi-cluster", "star512", "superpod-textbook", "torus512"}
# No FLOP/s of these are known.
WITHOUT_PEAK = (
    "b60",
    "gb10",
    "l40s",
    "mi355x",
    "mi455x",
    "rtx-pro-6000",
    "trainium2",
    "trainium3",
    "vr200",
)
# No peak of these devices is kept.
UNKNOWN = {
    "atlas-950",
    "cloudmatrix384",
    "dgx-1v",
    "frontier",
    "maia-200",
    "rubin-ultra-nvl576",
    "tomahawk-ultra",
    "tpu-8i",
    "tpu-8t",
    "ub-mesh",
}


def job(**parts: Any) -> dict[str, Any]:
    found = dense(**parts)
    return {key: value for key, value in found.items() if value is not None}


def refused(given: Any, fabric: Any, ranks: int = 64) -> str:
    with pytest.raises(ColltoolError) as caught:
        colltool.plan(given, fabric, ranks)
    return caught.value.spelled("shell")


def test_a_fabric_names_what_jobs_know() -> None:
    assert set(DEVICES) == set(preset_names("devices")) | set(WITHOUT_PEAK)


@swept("name", shipped_fabrics())
def test_every_fabric_of_hardware_names_its_device(name: str) -> None:
    assert (load_fabric(name).device is None) == (name in NO_HARDWARE | UNKNOWN)


def test_an_unknown_device_is_refused_with_the_nearest() -> None:
    with pytest.raises(ColltoolError, match=r"no device is called 'h10'[\s\S]*did you mean 'h100'"):
        load_fabric("dgx-h100", ["device=h10"])


def test_a_shipped_job_follows_the_fabric() -> None:
    """The same job on both with its device typed is the same step: nothing else differs."""
    found = colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-b200"], 256)
    assert [one.device for one in found.plans] == ["h100", "b200"]
    for one, name in zip(found.plans, ("h100", "b200"), strict=True):
        typed = colltool.plan(
            colltool.load_job("llama3-70b", [f"device={name}"]), f"dgx-{name}", 256
        )
        assert typed.step_s == one.step_s
        assert typed.control_step_s == one.control_step_s
    assert found.plans[1].control_step_s < 0.7 * found.plans[0].control_step_s
    columns = document(found)
    assert [(one["device"], one["device_from"]) for one in columns["plans"]] == [
        ("h100", "fabric"),
        ("b200", "fabric"),
    ]
    assert columns["verdict"][0].startswith("dgx-b200 (b200, not h100): ")


def test_a_job_without_a_device_follows_too(tmp_path: Path) -> None:
    given = job(device=None)
    assert colltool.plan(given, "dgx-b200", 64).device == "b200"
    assert (
        colltool.search_layouts(given, "dgx-b200", 64, {"tp": 8, "micro": 1, "pp": 1}, top=1).device
        == "b200"
    )
    said = refused(given, "star512")
    assert "nothing says how fast job computes: no 'device', and star512 names none either" in said
    assert "device: h100" in said


def test_what_a_job_says_itself_is_not_overruled() -> None:
    said = refused(colltool.load_job("llama3-70b", ["device=h100"]), "dgx-b200", 256)
    assert "the job asks for h100, but dgx-b200 has b200" in said
    assert "--set device=h100" in said
    assert "has b200" in refused(job(device="h100"), "dgx-b200")
    assert "has tpu-v5p" in refused(job(device="h100"), "tpu-v5p")
    as_told = colltool.plan(job(device="h100"), load_fabric("dgx-b200", ["device=h100"]), 64)
    assert as_told.device == "h100"
    with pytest.raises(ColltoolError, match="has b200"):
        colltool.search_layouts(job(device="h100"), "dgx-b200", 64, top=1)


def test_the_same_chip_with_other_memory_is_no_clash() -> None:
    assert colltool.plan(job(device="h200"), "dgx-h100", 64).device == "h200"
    own = {
        "generation": "hopper",
        "peak": {"bf16": "900TFLOP/s"},
        "memory": "96GiB",
        "bandwidth": "2.4TB/s",
    }
    assert colltool.plan(job(device=own), "dgx-h100", 64).device == "device"
    assert "has b200" in refused(job(device=own), "dgx-b200")
    assert "has b200" in refused(job(device="gb200"), "dgx-b200")  # another peak


def test_a_stack_that_does_not_know_the_device_names_one_that_does() -> None:
    said = refused(colltool.load_job("llama3-70b", ["stack=megatron"]), "tpu-v5p", 256)
    assert "stack megatron-eager has no efficiency for bf16 on tpu-v5p" in said
    assert "--job-set stack=jax" in said


def test_of_a_device_without_figures_a_job_gives_them() -> None:
    assert "has no compute figures here" in refused("llama3-70b", "trn2-ultraserver", 64)
    own = {
        "generation": "hopper",
        "peak": {"bf16": "667TFLOP/s"},
        "memory": "96GB",
        "bandwidth": "2.9TB/s",
    }
    loaded = colltool.load_job(job(device=own, layout={}))
    assert colltool.plan(loaded, load_fabric("trn2-ultraserver"), 64).device == "device"


def test_a_fabric_without_one_says_whose_device_it_is() -> None:
    alone = colltool.plan("llama3-70b", "star512", 256)
    assert "computes on h100, the job's: star512 names no device" in alone.grounds
    both = document(colltool.compare_plans("llama3-70b", ["dgx-b200", "star512"], 256))
    assert "star512 names no device, so it computes on h100, the job's device" in both["verdict"]
    assert "dp groups are placed differently: 1 x 8 on dgx-b200, 8 on star512" in both["verdict"]


def test_groups_that_sit_alike_are_not_named() -> None:
    both = document(colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-b200"], 256))
    assert len(both["verdict"]) == 1


def test_given_times_need_no_device() -> None:
    times = {"forward": "1s", "backward": "2s"}
    given = job(device=None, stack=None, compute=times)
    assert colltool.plan(given, "dgx-b200", 64).device is None
