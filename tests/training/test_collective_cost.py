"""What a job's calls cost: NCCL's pick priced alone is the row that a whole price puts first."""

from __future__ import annotations

import random

import pytest
from small import shipped
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, BC, REDUCE, RS
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.library_pick import price_of_pick, with_library_choice
from colltool.estimate.placement import GroupSpec, every_stride
from colltool.estimate.price import price
from colltool.fabric.load import shipped_fabrics

READINGS = (ModelOptions(), ModelOptions(ideal=True), ModelOptions(numbers="datasheet"))
NCCL = [name for name in shipped_fabrics() if shipped(name).library_name == "nccl"]


@swept("seed", range(12), most=4)
@swept("name", NCCL, most=8)
def test_a_pick_alone_is_the_first_of_all(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    where, readings = shipped(name), rng.choice(READINGS)
    stride = rng.choice([one for one in every_stride(where) if one < where.ranks])
    group = GroupSpec(rng.choice([2, 4, 8, 16, 32, 64, 72, 128]), stride, in_order=True)
    asked = where, rng.choice([AR, AG, RS, BC, REDUCE]), 2 ** rng.uniform(3, 32), group, readings
    try:
        alone = price_of_pick(*asked)
    except ColltoolError:  # no such group
        return
    if alone is None:
        return
    (whole,) = with_library_choice((price(*asked),), where, readings, required=False)
    assert whole.library is not None
    runs = whole.library.runs
    assert runs is not None
    assert alone.group == whole.group
    assert (alone.best.title, alone.best.protocol) == (runs.title, runs.protocol)
    assert alone.best.total_s == runs.total_s
    assert alone.best.phases == runs.phases


def test_there_is_something_to_pick() -> None:
    assert len(NCCL) >= 8
    found = price_of_pick(
        shipped("dgx-h100"), AR, 1e6, GroupSpec(64, 1, in_order=True), ModelOptions()
    )
    assert found is not None
    assert len(found.results) == 1


@pytest.mark.parametrize(
    "readings", [ModelOptions(phases="sequential"), ModelOptions(phases="pipelined")]
)
def test_where_compositions_come_both_ways_the_whole_list_tells(readings: ModelOptions) -> None:
    assert price_of_pick(shipped("dgx-h100"), AR, 1e6, 64, readings) is None
