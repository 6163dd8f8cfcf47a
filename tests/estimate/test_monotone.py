"""More ranks or bytes, less bandwidth, more latency: never faster, but for the exceptions in
``tests/monotone.py``."""

from __future__ import annotations

import gated
import pytest
from monotone import EXEMPT, fewer_faster, ordered, slower_when_better
from small import shipped
from swept import swept

import colltool
from colltool.base.primitives import Primitive
from colltool.fabric.library_numbers import under_library
from colltool.fabric.load import shipped_fabrics

LIBRARIES = ("nccl", "rccl", "mpi", "xla", "mscclpp", "all")


@swept("name", shipped_fabrics(), most=1)
def test_more_ranks_and_more_bytes_are_never_faster_on_a_shipped_fabric(name: str) -> None:
    own = shipped(name)
    for number, primitive in enumerate(Primitive):
        assert fewer_faster(own, primitive)[0] == []
        for library in LIBRARIES[number % 2 :: 2]:  # each with every other primitive
            assert fewer_faster(under_library(own, library), primitive, most=4)[0] == []


@swept("name", shipped_fabrics(), most=3)
def test_nothing_better_makes_a_shipped_fabric_slower(name: str) -> None:
    where = shipped(name)
    for primitive in Primitive:
        assert slower_when_better(where, primitive, where.ranks) == []


@swept("seed", range(24), most=6)
def test_on_fabrics_that_nobody_thought_of(seed: int) -> None:
    where = gated.made(seed)
    readings = gated.READINGS[seed % len(gated.READINGS)]
    primitive = list(Primitive)[seed % len(Primitive)]
    assert slower_when_better(where, primitive, where.ranks, readings) == []
    assert fewer_faster(ordered(where), primitive, readings)[0] == []


@pytest.mark.thorough
def test_every_exception_is_needed() -> None:
    shipped = (
        ("mi300x", "all", Primitive.ALL_TO_ALL),
        ("trn2-ultraserver", "all", Primitive.ALL_REDUCE),
        ("star512", "mpi", Primitive.ALL_REDUCE),
        ("dgx-h100", "nccl", Primitive.ALL_REDUCE),
        ("mi300x-cluster", "rccl", Primitive.ALL_REDUCE),
        ("mi300x-cluster", "rccl", Primitive.BROADCAST),
        ("mpi-cluster", "mpi", Primitive.ALL_TO_ALL),
        ("dgx-1v", "all", Primitive.ALL_REDUCE),
        ("uneven-racks", "nccl", Primitive.ALL_GATHER),
    )
    steps = [
        fewer_faster(under_library(colltool.load_fabric(name), library), primitive)
        for name, library, primitive in shipped
    ]
    found = ((52, Primitive.ALL_TO_ALL), (175, Primitive.ALL_REDUCE), (581, Primitive.ALL_REDUCE))
    steps += [
        fewer_faster(
            ordered(gated.made(seed)), primitive, gated.READINGS[seed % len(gated.READINGS)]
        )
        for seed, primitive in found
    ]
    assert {reason for _, excused in steps for reason in excused} == {one.reason for one in EXEMPT}
