"""The slice of a lattice that a job takes: all of its groups lie in the box that its ranks rent."""

from __future__ import annotations

from typing import Any

import pytest
from planning import dense, two_tiers

import colltool
from colltool.fabric.load import load_fabric
from colltool.training.group_fit import job_slice


def job(**layout: Any) -> dict[str, Any]:
    more: dict[str, Any] = {"shard": {"mode": "fsdp"}, "batch": {"global": 512, "micro": 1}}
    return dense(stack="jax", recompute="none", device="tpu-v5p", layout=layout, **more)


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("ranks", "shape", "tp"), [(64, "4,4,4", 4), (256, "4,8,8", 4), (2048, "8,16,16", 8)]
)
def test_a_job_on_a_part_is_the_job_on_its_slice(ranks: int, shape: str, tp: int) -> None:
    """The same figures as on a fabric that is that slice and nothing else."""
    sized = job(tp=tp) | {"batch": {"global": ranks}}
    part = colltool.plan(sized, "tpu-v5p", ranks)
    alone = colltool.plan(sized, load_fabric("tpu-v5p", [f"ici.shape=[{shape}]"]), ranks)
    assert part.step_s == alone.step_s
    assert [one.sent.cost for one in part.collectives] == [
        one.sent.cost for one in alone.collectives
    ]
    assert part.grounds[0].startswith(
        f"the ranks are a slice of {shape.replace(',', 'x')} of ici; another, such as "
    )
    assert not any("slice" in ground for ground in alone.grounds)


@pytest.mark.parametrize("tp", [8, 16])
def test_part_of_an_axis_is_priced_axis_by_axis(tp: int) -> None:
    """Of 4 x 8 x 8 chips, 8 are 4 of one axis and 2 of the next: slower than 8 on an axis of their
    own."""
    across = colltool.plan(job(tp=tp), "tpu-v5p", 256)
    along = colltool.plan(
        job(tp=tp),
        load_fabric("tpu-v5p", ["ici.shape=[16,4,4]" if tp == 16 else "ici.shape=[8,8,4]"]),
        256,
    )
    assert across.step_s > along.control_step_s
    assert across.control_step_s == pytest.approx(along.control_step_s)


def test_a_search_and_a_spread_lie_in_it_too() -> None:
    keep = {"tp": 4, "pp": 1, "micro": 1, "shard": "fsdp", "recompute": "none"}
    best = colltool.search_layouts(job(tp=4), "tpu-v5p", 256, keep, top=1).best
    assert best.step_s == pytest.approx(colltool.plan(job(tp=4, sp=True), "tpu-v5p", 256).step_s)
    spread = colltool.plan_sensitivity(
        job(tp=4), "tpu-v5p", 256, vary="ici.bandwidth=0.0001%", samples=2
    )
    assert spread.p50_s == pytest.approx(colltool.plan(job(tp=4), "tpu-v5p", 256).step_s, rel=1e-5)


def test_what_takes_all_of_it_or_is_no_lattice_stays() -> None:
    torus, nodes = load_fabric("tpu-v4-512"), load_fabric(two_tiers())
    assert job_slice(torus, 512) is torus
    assert job_slice(nodes, 16) is nodes
