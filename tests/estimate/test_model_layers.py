"""One model in layers: every dial acts or is named, ideal is the documents' formula, and layers add
up to the price."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import shipped_fabrics
from colltool.fabric.model import Fabric
from colltool.fabric.values import Place, keys_of, values_of, with_values

MEASURED = (
    "dgx-a100",
    "dgx-h100",
    "hgx-h200",
    "dgx-b200",
    "nvl72",
    "gh200",
    "mi300x-cluster",
    "aws-p5",
    "mpi-cluster",
)
DIALS = (("alpha", 3.0), ("bandwidth", 0.25), ("eta.alpha", 2.5), ("eta.beta", 0.4))
MORE_IS_SLOWER = frozenset(
    {"alpha", "alpha_switch", "oversubscription", "launch_overhead", "post", "cable", "energy"}
)


def groups(name: str) -> list[int]:
    """Inside an innermost domain, two domains, and sixteen."""
    where = colltool.load_fabric(name)
    inside = where.tiers[0].endpoints
    return [
        count
        for count in dict.fromkeys((min(inside, 8), 2 * inside, 16 * inside))
        if 1 < count <= where.ranks
    ]


def ring(where: Any, ranks: int, size: float, **more: Any) -> Any:
    algorithm = (
        "ring"
        if ranks <= colltool.load_fabric("dgx-h100").tiers[0].endpoints
        else "multi-rail-ring"
    )
    return colltool.price(where, "ar", ranks=ranks, size=size, algorithms=algorithm, **more).best


@swept(
    "key",
    [
        "ib.eta.beta=0.4",
        "ib.eta.alpha=3",
        "ib.levels.leaf.alpha=9us",
        "ib.bandwidth=5GB/s",
        "launch_overhead=100us",
        "nvlink.eta.beta=0.3",
        "nvlink.alpha=9us",
        "nvlink.bandwidth=50GB/s",
    ],
)
@swept("size", ["1KB", "1MB", "1GB"])
def test_a_dial_of_a_measured_machine_slows_what_pays_it(key: str, size: str) -> None:
    """Findings A1: measured protocols stood beside these numbers, and none of them acted."""
    plain = colltool.price("dgx-h100", "ar", ranks=64, size=size, algorithms="multi-rail-ring").best
    set_ = colltool.price(
        colltool.load_fabric("dgx-h100", [key]),
        "ar",
        ranks=64,
        size=size,
        algorithms="multi-rail-ring",
    ).best
    assert (
        set_.total_s > plain.total_s * (1 + 1e-6)
        or key.startswith("nvlink.bandwidth")
        or key.startswith("nvlink.eta.beta")
    )


def changed(where: Fabric, at: Place, factor: float) -> Fabric:
    value = values_of(where)[at] * factor
    return with_values(where, {at: value})


def numeric_keys(where: Fabric) -> dict[Place, str]:
    every = values_of(where)
    return {
        at: key
        for at, key in keys_of(where).items()
        if isinstance(every[at], float)
        and every[at]
        and "prices" not in at
        and "sizing" not in at
        and at[-2:] != (0, "oversubscription")  # no uplinks enter the first level
    }


# ub-mesh has four axes of links of its own, and takes as long as all others together
SLOW = {"ub-mesh"}


@pytest.mark.alike(4)
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.thorough] * (one in SLOW)) for one in shipped_fabrics()],
)
def test_no_key_of_a_shipped_fabric_is_dead(name: str) -> None:
    """Each number, set to another value, moves some price in the right direction, or every answer
    names it with the reason."""
    where = colltool.load_fabric(name)
    for at, key in numeric_keys(where).items():
        worse = 2.0 if set(key.split(".")) & MORE_IS_SLOWER or key.endswith("eta.alpha") else 0.5
        if key.endswith("oversubscription"):
            worse = 4.0
        moved, named = moves(where, at, key, worse)
        assert moved or named, f"{name}: {key} neither moves a price nor is named"


def moves(where: Fabric, at: Place, key: str, worse: float) -> tuple[bool, bool]:
    """Whether a value made worse slows a price and never speeds one up, and whether answers that it
    leaves alone name it."""
    text = shown(values_of(where)[at] * worse, key)
    other = colltool.load_fabric(where.name, {key: text})
    moved, named = False, True
    inside = where.tiers[0].endpoints
    for ranks in dict.fromkeys(
        (
            min(inside, 8),
            min(where.ranks, 2 * inside),
            where.ranks if where.ranks <= 4096 else 2 * inside,
        )
    ):
        if ranks < 2 or (where.ranks % ranks and where.domains):
            continue
        for primitive in ("ar", "a2a"):
            for size in (1e3, 64e6):
                try:
                    row = colltool.price(where, primitive, ranks=ranks, size=size).best
                    after = colltool.price(
                        other, primitive, ranks=ranks, size=size, algorithms=row.spec
                    )
                except ColltoolError:
                    continue
                assert after.best.total_s >= row.total_s * (1 - 1e-9) or "hashed" in key, (
                    key,
                    ranks,
                    primitive,
                    size,
                )
                moved = moved or after.best.total_s > row.total_s * (1 + 1e-9)
                if after.best.total_s == row.total_s:
                    named = named and key in [told.key for told in after.inert]
        if moved:
            return True, True
    return moved, named


def shown(value: float, key: str) -> Any:
    name = key.rpartition(".")[2]
    if name in ("alpha", "alpha_switch", "launch_overhead", "post") and not key.endswith(
        "eta.alpha"
    ):
        return f"{value * 1e6:.12g}us"
    if name in ("bandwidth", "trunk"):
        return f"{value / 1e9:.12g}GB/s"
    if name == "energy":
        return f"{value * 1e12 / 1:.12g}pJ/bit"
    if name == "cable":
        return f"{value:.12g}m"
    return value


@pytest.mark.alike(12)
@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("primitive", ["ar", "ag", "a2a"])
def test_layers_add_up_to_the_price(name: str, primitive: str) -> None:
    for ranks in groups(name):
        for size in (1e3, 1e6, 256e6):
            row = colltool.price(name, primitive, ranks=ranks, size=size).best
            layers = row.layers
            assert sum(layers) == pytest.approx(row.total_s, rel=1e-12)
            assert row.alpha_s + row.bandwidth_s == pytest.approx(
                layers.wires_s + layers.contention_s, rel=1e-12
            )
            assert row.software_s == pytest.approx(
                layers.library_s + layers.machine_s - row.overhead_s, rel=1e-9, abs=1e-15
            )
            assert layers.wires_s > 0


@swept("name", MEASURED)
def test_readings_leave_layers_out_and_mean_it(name: str) -> None:
    for ranks in groups(name):
        whole = colltool.price(name, "ar", ranks=ranks, size=1e6).best
        wires, contention, library, _ = whole.layers
        spec = whole.spec
        ideal = colltool.price(name, "ar", ranks=ranks, size=1e6, algorithms=spec, ideal=True).best
        datasheet = colltool.price(
            name, "ar", ranks=ranks, size=1e6, algorithms=spec, numbers="datasheet"
        ).best
        assert ideal.total_s == pytest.approx(wires, rel=1e-12)
        assert datasheet.total_s == pytest.approx(wires + contention, rel=1e-12)
        assert datasheet.software_s == pytest.approx(0.0, abs=1e-15)
        same = colltool.price(
            name, "ar", ranks=ranks, size=1e6, algorithms=spec, numbers="library"
        ).results
        assert any(
            row.total_s == pytest.approx(wires + contention + library, rel=1e-9) for row in same
        )


@given(st.floats(0.1, 5), st.floats(10, 1000), st.integers(2, 8), st.floats(1e2, 1e10))
def test_ideal_is_the_documents_formula_on_a_measured_machine(
    alpha: float, rate: float, ranks: int, size: float
) -> None:
    """2(N-1)·α + 2(N-1)/N·M/BW, no protocol, launch, copy or η in it. Findings A8: LL was priced at
    η 1."""
    where = colltool.load_fabric(
        "dgx-h100", {"nvlink.alpha": f"{alpha!r}us", "nvlink.bandwidth": f"{rate!r}GB/s"}
    )
    row = colltool.price(where, "ar", ranks=ranks, size=size, algorithms="ring", ideal=True).best
    steps = 2 * (ranks - 1)
    assert row.total_s == pytest.approx(
        steps * alpha * 1e-6 + steps / ranks * size / (rate * 1e9), rel=1e-9
    )


def test_datasheet_numbers_hold_nothing_fitted() -> None:
    """Findings A9: alpha_switch 21.73 us and a launch of 8.2 us stood under the word datasheet."""
    row = colltool.price(
        "nvl72", "ar", ranks=72, size="16MB", algorithms="in-network", numbers="datasheet"
    ).best
    assert row.total_s == pytest.approx(2 * 0.2e-6 + 16e6 / (900e9 * 0.52), rel=1e-12)


def test_ideal_beside_numbers_is_refused() -> None:
    with pytest.raises(ColltoolError, match="wires alone"):
        colltool.price("dgx-h100", "ar", ranks=8, size="1MB", ideal=True, numbers="library")


def test_an_own_file_with_a_medium_stands_on_what_its_library_takes() -> None:
    """Findings A7: README's cluster beat an NVL72 seventeen times, as it carried no library's
    cost."""
    tiers = [
        {
            "name": "nvlink",
            "topology": "star",
            "size": 8,
            "alpha": "0.5us",
            "bandwidth": "450GB/s",
            "eta": {"alpha": 1.0, "beta": 0.8},
        },
        {
            "name": "ib",
            "topology": "clos",
            "size": 32,
            "alpha": "2us",
            "bandwidth": "50GB/s",
            "eta": {"alpha": 1.2, "beta": 0.92},
        },
    ]
    own = {"schema": "colltool.fabric/2", "name": "own", "tiers": tiers, "library": "nccl"}
    mine = colltool.price(
        own, "ag", ranks=64, size="64KB", numbers="library", algorithms="multi-rail-ring"
    ).best
    shipped = colltool.price(
        "dgx-h100", "ag", ranks=64, size="64KB", numbers="library", algorithms="multi-rail-ring"
    ).best
    assert mine.total_s == pytest.approx(shipped.total_s, rel=1e-9)
    assert mine.layers.library_s > 0.5 * mine.total_s


def test_a_value_that_moves_nothing_is_named_with_the_reason() -> None:
    for key, reason in {
        "nvlink.alpha=9us": "run",
        "ib.sizing.radix=128": "switches and cables",
        "ib.levels.spine.alpha=99us": "no two members meet at spine",
    }.items():
        found = colltool.price(colltool.load_fabric("dgx-h100", [key]), "ar", ranks=64, size="1GB")
        told = {one.key: one.reason for one in found.inert}
        assert reason in told[key.partition("=")[0]]
    inside = colltool.price(
        colltool.load_fabric("dgx-h100", ["ib.bandwidth=1GB/s"]), "ar", ranks=8, size="1GB"
    )
    assert "nothing crosses ib" in inside.inert[0].reason
