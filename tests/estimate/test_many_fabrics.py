"""A fabric whose values are arrays prices every fabric that they stand for, to the last digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.analysis.cells import PriceRequest, leading_rows
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.values import Place, differences, with_values

MANY = 24


def drawn(fabric: Fabric) -> dict[Place, Any]:
    """Every alpha, bandwidth, eta and oversubscription of a fabric at random."""
    random = np.random.default_rng(7)
    found: dict[Place, Any] = {("launch_overhead",): random.uniform(0, 1e-5, MANY)}
    for number, tier in enumerate(fabric.tiers):
        at: Place = ("tiers", number)
        found[(*at, "bandwidth")] = tier.bandwidth * random.uniform(0.3, 3, MANY)
        found[(*at, "eta", "beta")] = random.uniform(0.4, 1, MANY)
        found[(*at, "eta", "alpha")] = random.uniform(1, 2, MANY)
        if getattr(tier, "alpha", None) is not None:
            found[(*at, "alpha")] = tier.alpha * random.uniform(0.3, 3, MANY)  # type: ignore[union-attr, operator]
        for index, level in enumerate(capabilities_of(tier).levels):
            found[(*at, "levels", index, "alpha")] = level.alpha * random.uniform(0.3, 3, MANY)
            if index:
                found[(*at, "levels", index, "oversubscription")] = random.uniform(1, 6, MANY)
        if capabilities_of(tier).in_network is not None:
            found[(*at, "in_network", "alpha_switch")] = random.uniform(1e-7, 3e-5, MANY)
    return found


def one_of(values: dict[Place, Any], number: int) -> dict[Place, Any]:
    return {place: float(several[number]) for place, several in values.items()}


@swept(
    "readings",
    [
        ModelOptions(),
        ModelOptions(placement="scattered", ring_alpha="worst"),
        ModelOptions(pipelining="optimal"),
    ],
)
@swept(
    ("name", "ranks"),
    [("dgx-h100", 64), ("nvl72", None), ("clos-4to1", 48), ("torus512", None), ("mi300x", None)],
)
@swept("primitive", [AR, AG, A2A, BC], most=1)
def test_each_is_priced_as_by_itself(
    name: str, ranks: int | None, primitive: Primitive, readings: ModelOptions
) -> None:
    fabric = colltool.load_fabric(name)
    values = drawn(fabric)
    sizes = 10 ** np.random.default_rng(1).uniform(2, 9.5, MANY)
    many = {
        row.title: row
        for row in leading_rows(
            with_values(fabric, values), GroupSpec(ranks), PriceRequest(primitive, readings), sizes
        )
    }
    best = np.min([np.broadcast_to(row.total_s, (MANY,)) for row in many.values()], axis=0)
    for number in range(0, MANY, 5):
        alone = price(
            with_values(fabric, one_of(values, number)),
            primitive,
            float(sizes[number]),
            ranks,
            readings,
        )
        assert best[number] == pytest.approx(alone.best.total_s, rel=1e-12)
        for row in alone.leading:
            assert np.broadcast_to(many[row.title].total_s, (MANY,))[number] == pytest.approx(
                row.total_s, rel=1e-12
            )
            assert np.broadcast_to(many[row.title].alpha_s, (MANY,))[number] == pytest.approx(
                row.alpha_s, rel=1e-12
            )


def test_the_numbers_in_which_fabrics_differ() -> None:
    fabrics = [
        colltool.load_fabric(
            "dgx-h100", [f"ib.bandwidth={rate}GB/s", f"ib.levels.spine.alpha={a}us"]
        )
        for rate, a in ((25, 9), (50, 12))
    ]
    assert differences(fabrics) == {
        ("tiers", 1, "bandwidth"): [25e9, 50e9],
        ("tiers", 1, "levels", 1, "alpha"): [9e-6, 12e-6],
    }
    assert (
        differences([colltool.load_fabric("dgx-h100", [f"ib.size={size}"]) for size in (8, 16)])
        is None
    )
    assert differences([colltool.load_fabric(name) for name in ("dgx-h100", "nvl72")]) is None
    assert (
        with_values(
            fabrics[0], {("tiers", 1, "bandwidth"): 50e9, ("tiers", 1, "levels", 1, "alpha"): 12e-6}
        )
        == fabrics[1]
    )


def test_nothing_that_runs_is_told() -> None:
    with pytest.raises(ColltoolError, match="519 ranks do not fit"):
        leading_rows(
            colltool.load_fabric("torus512"),
            GroupSpec(3 * 173),
            PriceRequest(AR, ModelOptions()),
            np.array([1e6]),
        )
