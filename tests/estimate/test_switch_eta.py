"""``in_network.eta_beta``: a number is the all-reduce's, a mapping has one by primitive, and phases
of others have the tier's."""

from __future__ import annotations

from typing import Any

import pytest
from small import clos, fabric, star, switch
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric

pytestmark = pytest.mark.usefixtures("datasheet")

M = 1e9
ETA = {"alpha": 1.0, "beta": 0.8}


def node(eta_beta: Any) -> Fabric:
    return fabric(star(8, 1.0, 400.0, eta=ETA, in_network=switch(0.3, eta_beta=eta_beta)))


def survives(where: Fabric, primitive: str, **more: Any) -> float:
    (row,) = colltool.price(where, primitive, size=M, algorithms="in-network", **more).results
    (phase,) = row.phases
    assert phase.bandwidth_s == pytest.approx(phase.n_beta * M / (400e9 * phase.eta_beta))
    return float(phase.eta_beta)


@swept("primitive", ["ar", "ag", "rs", "bc", "reduce"])
def test_a_number_is_the_all_reduces(primitive: str) -> None:
    assert survives(node(0.5), primitive) == (0.5 if primitive == "ar" else 0.8)


def test_a_mapping_has_one_by_primitive_under_any_of_its_names() -> None:
    where = node({"all_reduce": 0.5, "ag": 0.6})
    assert [survives(where, primitive) for primitive in ("ar", "ag", "rs")] == [0.5, 0.6, 0.8]
    assert survives(node({"all-gather": 0.6}), "ar") == 0.8


def test_a_number_and_a_mapping_of_the_all_reduce_are_the_same() -> None:
    for primitive in ("ar", "ag", "bc"):
        prices = [
            colltool.price(node(eta), primitive, size=M).results
            for eta in (0.5, {"all_reduce": 0.5})
        ]
        assert prices[0] == prices[1]


def test_ideal_has_none() -> None:
    assert survives(node({"all_reduce": 0.5, "all_gather": 0.6}), "ag", ideal=True) == 1.0


def test_a_phase_of_another_collective_has_the_tiers() -> None:
    both = {"all_reduce": 0.5, "all_gather": 0.6, "reduce_scatter": 0.7}
    where = fabric(
        star(8, 1.0, 400.0, eta=ETA, in_network=switch(0.3, eta_beta=both)),
        clos(4, alpha=2.0, bw=50.0),
    )
    (row,) = colltool.price(where, "ar", size=M, algorithms="hierarchical:in-network/ring").results
    assert {phase.eta_beta for phase in row.phases if phase.tier == "t1"} == {0.8}
    (row,) = colltool.price(where, "ag", size=M, algorithms="hierarchical:in-network/ring").results
    assert {phase.eta_beta for phase in row.phases if phase.tier == "t1"} == {0.6}


def test_one_primitive_can_be_overridden() -> None:
    where = colltool.load_fabric(
        "dgx-h100", overrides={"nvlink.in_network.eta_beta.all_gather": "0.5"}
    )
    assert where.tiers[0].in_network.switch_eta_beta == {
        "all_reduce": 0.61,
        "all_gather": 0.5,
        "reduce_scatter": 0.67,
    }


@swept(
    ("given", "words"),
    [
        ({"all_gather": 2}, "from 0.000001 to 1"),
        ({"all_gahter": 0.5}, "did you mean 'all_gather'?"),
        ({"ag": 0.5, "all_gather": 0.6}, "gives all_gather twice"),
        ("half", "or one by primitive"),
        (0, "or one by primitive"),
    ],
)
def test_what_it_may_not_be(given: Any, words: str) -> None:
    with pytest.raises(ColltoolError, match=words.replace("?", r"\?")):
        colltool.load_fabric(
            {"name": "f", "tiers": [star(8, 1.0, 400.0, in_network=switch(0.3, eta_beta=given))]}
        )
