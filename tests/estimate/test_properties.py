"""What must hold for any fabric, size and reading: monotone, additive, free of units, above the
lower bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import Tier, clos, fabric, full_mesh, mesh, star, switch, torus
from swept import swept

import colltool
from colltool.algorithms.registry import STATUSES
from colltool.base.errors import ColltoolError
from colltool.base.primitives import busbw_factor, least_n_beta, parse_primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.fabric.model import Fabric

ALPHAS, RATES, ETAS = st.floats(0.1, 50.0), st.floats(1.0, 2000.0), st.floats(0.05, 1.0)
SIZES = st.floats(0, 11).map(lambda exponent: 10**exponent)
PRIMITIVES = st.sampled_from(["ar", "ag", "rs", "a2a", "bc", "reduce", "p2p"])
MODELS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "pipelining": st.sampled_from(["asymptotic", "optimal", 1, 7]),
        "placement": st.sampled_from(["packed", "scattered"]),
        "ring_alpha": st.sampled_from(["mean", "worst"]),
        "phases": st.sampled_from([None, "sequential", "pipelined"]),
    }
)


@st.composite
def tier_lists(draw: st.DrawFn) -> list[Tier]:
    """One or two tiers of any kind; numbers as this module's scales need them."""

    def common() -> dict[str, Any]:
        return {
            "alpha": draw(ALPHAS),
            "bw": draw(RATES),
            "eta": {"alpha": draw(st.floats(1, 3)), "beta": draw(ETAS)},
        }

    def single() -> Tier:
        kind = draw(st.sampled_from(["star", "full_mesh", "torus", "mesh", "clos"]))
        n = draw(st.integers(2, 9))
        if kind == "star":
            return star(n, **common(), in_network=switch(draw(ALPHAS)))
        if kind == "full_mesh":
            return full_mesh(n, **common())
        if kind == "clos":
            numbers = common()
            low, s = numbers.pop("alpha"), draw(st.floats(1, 8))
            return clos(4 * n, (4, low), (4 * n, low * draw(st.floats(1, 5)), s), **numbers)
        return {"torus": torus, "mesh": mesh}[kind](n, draw(st.integers(2, 4)), **common())

    return [single() for _ in range(draw(st.integers(1, 2)))]


def scaled(tiers: list[Tier], *, alpha: float = 1.0, bandwidth: float = 1.0) -> list[Tier]:
    """The same tiers with every α and bandwidth times a factor."""

    def times(text: str, unit: str, factor: float) -> str:
        return f"{float(text.removesuffix(unit)) * factor!r}{unit}"

    made = []
    for tier in tiers:
        new = dict(tier, bandwidth=times(tier["bandwidth"], "GB/s", bandwidth))
        if "alpha" in tier:
            new["alpha"] = times(tier["alpha"], "us", alpha)
        if "levels" in tier:
            new["levels"] = [
                dict(level, alpha=times(level["alpha"], "us", alpha)) for level in tier["levels"]
            ]
        if "in_network" in tier:
            spec = tier["in_network"]
            new["in_network"] = dict(spec, alpha_switch=times(spec["alpha_switch"], "us", alpha))
        made.append(new)
    return made


def rows(
    where: Fabric, primitive: str, size: float, names: list[str] | None = None, **model: Any
) -> dict[str, AlgorithmEstimate]:
    return {
        row.title: row
        for row in colltool.price(
            where, primitive, size=size, algorithms=names or (), **model
        ).results
    }


def same_rows(one: Fabric, primitive: str, size: float, **model: Any) -> list[str]:
    """Titles of the flat algorithms: the same ones on a fabric with other numbers."""
    return [
        row.title
        for row in colltool.price(one, primitive, size=size, **model).results
        if not row.detail
    ]


def best(where: Fabric, primitive: str, size: float, **model: Any) -> float:
    return min(
        float(row.total_s) for row in colltool.price(where, primitive, size=size, **model).results
    )


@given(tier_lists(), PRIMITIVES, SIZES, st.floats(1, 1000), MODELS)
def test_more_bytes_take_longer(
    tiers: list[Tier], primitive: str, size: float, factor: float, model: dict[str, Any]
) -> None:
    where = fabric(*tiers)
    names = same_rows(where, primitive, size, **model)
    less, more = (
        rows(where, primitive, size, names, **model),
        rows(where, primitive, size * factor, names, **model),
    )
    assert all(less[name].total_s <= more[name].total_s * (1 + 1e-12) for name in names)
    assert best(where, primitive, size, **model) <= best(
        where, primitive, size * factor, **model
    ) * (1 + 1e-12)


@given(tier_lists(), PRIMITIVES, SIZES, st.floats(1, 10), MODELS)
def test_a_larger_alpha_or_a_smaller_bandwidth_never_helps(
    tiers: list[Tier], primitive: str, size: float, factor: float, model: dict[str, Any]
) -> None:
    where = fabric(*tiers)
    before = rows(where, primitive, size, **model)
    for worse in (
        fabric(*scaled(tiers, alpha=factor)),
        fabric(*scaled(tiers, bandwidth=1 / factor)),
    ):
        after = rows(worse, primitive, size, same_rows(where, primitive, size, **model), **model)
        for name, row in after.items():
            assert before[name].total_s <= row.total_s * (1 + 1e-9)
        if model["pipelining"] != "optimal":
            assert best(where, primitive, size, **model) <= best(
                worse, primitive, size, **model
            ) * (1 + 1e-9)


@given(tier_lists(), PRIMITIVES, SIZES, st.floats(0.1, 10), MODELS)
def test_units_cancel(
    tiers: list[Tier], primitive: str, size: float, factor: float, model: dict[str, Any]
) -> None:
    """Every α times x and every bandwidth by x: every time is x times as long, and so is nothing
    else."""
    where, other = fabric(*tiers), fabric(*scaled(tiers, alpha=factor, bandwidth=1 / factor))
    names = same_rows(where, primitive, size, **model)
    before, after = (
        rows(where, primitive, size, names, **model),
        rows(other, primitive, size, names, **model),
    )
    for name in names:
        assert after[name].total_s == pytest.approx(before[name].total_s * factor, rel=1e-9)


def spelt_otherwise(tiers: list[Tier]) -> list[Tier]:
    """The same tiers with other names for themselves and their levels, α in ns and rates in
    bits."""

    def in_ns(text: str) -> str:
        return f"{float(text.removesuffix('us')) * 1000!r} ns"

    made = []
    for number, tier in enumerate(tiers):
        new = dict(
            tier,
            name=f"other-{number}",
            bandwidth=f"{float(tier['bandwidth'].removesuffix('GB/s')) * 8e9!r}bps",
        )
        if "alpha" in tier:
            new["alpha"] = in_ns(tier["alpha"])
        if "levels" in tier:
            new["levels"] = [
                dict(level, name=f"row{k}", alpha=in_ns(level["alpha"]))
                for k, level in enumerate(tier["levels"])
            ]
        if "in_network" in tier:
            new["in_network"] = dict(
                tier["in_network"], alpha_switch=in_ns(tier["in_network"]["alpha_switch"])
            )
        made.append(new)
    return made


@given(tier_lists(), PRIMITIVES, SIZES, MODELS)
def test_names_and_units_change_nothing(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    plain = colltool.price(fabric(*tiers), primitive, size=size, **model)
    other = colltool.price(fabric(*spelt_otherwise(tiers)), primitive, size=f"{size!r}B", **model)
    totals = {row.title: float(row.total_s) for row in plain.results}
    assert {row.title: float(row.total_s) for row in other.results} == pytest.approx(
        totals, rel=1e-9
    )
    winners = [
        [one.algorithm for one in colltool.crossover(where, "ar").winners]
        for where in (fabric(*tiers), fabric(*spelt_otherwise(tiers)))
    ]
    assert winners[0] == winners[1]


@given(tier_lists(), PRIMITIVES, SIZES, MODELS)
def test_the_best_is_the_least_of_what_may_lead(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    found = colltool.price(fabric(*tiers), primitive, size=size, **model)
    able = found.leading or [row for row in found.others if row.status == found.others[0].status]
    assert found.best.total_s == min(float(row.total_s) for row in able)


def streams(row: AlgorithmEstimate, primitive: str, details: set[str]) -> bool:
    """Whether the phases of a row go on at once, so that the busiest tier's bytes count alone;
    ``details``: those of all rows."""
    if not row.detail or ", sequential" in row.detail:
        return False
    return (
        ", pipelined" in row.detail
        or primitive in ("bc", "reduce", "p2p")
        # as a library runs it: the other way is the one that is named
        or f"{row.detail}, sequential" in details
        or any(note.startswith("phases stream through all tiers") for note in row.notes)
    )


@given(tier_lists(), PRIMITIVES, SIZES, MODELS)
def test_parts_add_up(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    where = fabric(*tiers, launch_overhead="3us")
    result = colltool.price(where, primitive, size=size, **model)
    for rows in (
        result.leading,
        *([r for r in result.others if r.status == status] for status in STATUSES),
    ):
        assert [float(row.total_s) for row in rows] == sorted(float(row.total_s) for row in rows)
    assert result.results == (*result.leading, *result.others)
    details = {row.detail for row in result.results}
    for row in result.results:
        assert row.overhead_s == pytest.approx(3e-6)
        assert row.total_s == pytest.approx(row.alpha_s + row.bandwidth_s + 3e-6)
        assert row.alpha_s == pytest.approx(sum(phase.alpha_s for phase in row.phases))
        summed = sum(phase.bandwidth_s for phase in row.phases)
        by_tier: dict[str, float] = {}
        for phase in row.phases:
            by_tier[phase.tier] = by_tier.get(phase.tier, 0) + phase.bandwidth_s
        slowest = max(by_tier.values())
        at_once = streams(row, primitive, details)
        assert row.bandwidth_s == pytest.approx(slowest if at_once else summed)
        for phase in row.phases:
            assert phase.bandwidth_s == pytest.approx(
                phase.n_beta * phase.bytes / (phase.bandwidth_Bps * phase.eta_beta)
            )
        if row.n_beta is not None:
            moved = sum(phase.n_beta * phase.bytes for phase in row.phases)
            assert row.n_beta * size == pytest.approx(moved)
            assert row.n_alpha == pytest.approx(sum(phase.n_alpha for phase in row.phases))
        assert row.algbw_Bps == pytest.approx(size / row.total_s)
        assert row.busbw_Bps == pytest.approx(
            row.algbw_Bps * busbw_factor(parse_primitive(primitive), where.ranks)
        )


@given(tier_lists(), PRIMITIVES, st.lists(SIZES, min_size=1, max_size=8), MODELS)
def test_arrays_price_as_scalars_do(
    tiers: list[Tier], primitive: str, sizes: list[float], model: dict[str, Any]
) -> None:
    where = fabric(*tiers)
    together = colltool.price(where, primitive, size=np.array(sizes), **model)
    for number, size in enumerate(sizes):
        alone = rows(where, primitive, size, **model)
        flat = {row.title for row in together.results if not row.detail}
        assert flat == {title for title, row in alone.items() if not row.detail}
        for row in together.results:
            assert row.total_s.shape == (len(sizes),)
            if row.title in alone:
                one = alone[row.title]
                for field in ("total_s", "alpha_s", "bandwidth_s", "algbw_Bps", "busbw_Bps"):
                    assert np.broadcast_to(getattr(row, field), len(sizes))[
                        number
                    ] == pytest.approx(getattr(one, field), rel=1e-12)


@given(tier_lists(), PRIMITIVES, SIZES, MODELS)
def test_ideal_is_never_slower(
    tiers: list[Tier], primitive: str, size: float, model: dict[str, Any]
) -> None:
    where = fabric(*tiers)
    real, ideal = (
        rows(where, primitive, size, **model),
        rows(where, primitive, size, **model, ideal=True),
    )
    for name, row in real.items():
        if not row.detail:
            assert ideal[name].total_s <= row.total_s * (1 + 1e-12)
            assert all(phase.eta_alpha == pytest.approx(1) for phase in ideal[name].phases)


@given(
    st.integers(2, 300),
    ALPHAS,
    RATES,
    PRIMITIVES,
    SIZES,
    st.sampled_from(["asymptotic", "optimal", 3]),
)
def test_nothing_is_faster_than_the_lower_bound(
    n: int, alpha: float, bw: float, primitive: str, size: float, reading: Any
) -> None:
    """One full-duplex port per rank. Only an all-reduce in the switch may move M instead of
    2(N-1)/N M."""
    where = fabric(star(n, alpha, bw, in_network=switch(alpha)))
    least = least_n_beta(parse_primitive(primitive), n) * size / (bw * 1e9)
    for name, row in rows(where, primitive, size, pipelining=reading).items():
        bound = size / (bw * 1e9) if (primitive, name) == ("ar", "in-network") else least
        assert row.bandwidth_s >= bound * (1 - 1e-9)
        assert row.alpha_s >= alpha * 1e-6 * (1 - 1e-9)
        if (primitive, name) != ("ar", "in-network"):
            assert row.busbw_Bps <= bw * 1e9 * (1 + 1e-9)


@given(tier_lists(), PRIMITIVES, SIZES, st.floats(0, 100))
def test_launch_overhead_is_paid_once(
    tiers: list[Tier], primitive: str, size: float, overhead: float
) -> None:
    without, with_it = fabric(*tiers), fabric(*tiers, launch_overhead=f"{overhead!r}us")
    before = rows(without, primitive, size)
    for name, row in rows(with_it, primitive, size).items():
        assert row.total_s == pytest.approx(before[name].total_s + overhead * 1e-6, rel=1e-9)


@given(tier_lists(), PRIMITIVES, SIZES)
def test_scattered_is_the_cautious_reading(tiers: list[Tier], primitive: str, size: float) -> None:
    where = fabric(*tiers)
    packed, scattered = (
        rows(where, primitive, size),
        rows(where, primitive, size, placement="scattered"),
    )
    for name in set(packed) & set(scattered):
        assert packed[name].total_s <= scattered[name].total_s * (1 + 1e-9)


@given(tier_lists(), SIZES)
def test_a_ring_with_the_worst_alpha_is_never_faster(tiers: list[Tier], size: float) -> None:
    where = fabric(*tiers)
    mean, worst = rows(where, "ar", size), rows(where, "ar", size, ring_alpha="worst")
    assert all(
        mean[name].total_s <= worst[name].total_s * (1 + 1e-12) for name in set(mean) & set(worst)
    )


@given(tier_lists(), PRIMITIVES, SIZES)
def test_streaming_is_never_slower_than_phases_in_turn(
    tiers: list[Tier], primitive: str, size: float
) -> None:
    where = fabric(*tiers)
    times = [best(where, primitive, size, phases=phases) for phases in ("pipelined", "sequential")]
    assert times[0] <= times[1] * (1 + 1e-12)


@swept(
    "size",
    [
        0.5,
        0,
        -1,
        2e18,
        float("nan"),
        float("inf"),
        [],
        [[1.0]],
        ["1MB", "x"],
        [1.0, float("nan")],
        True,
        None,
    ],
)
def test_sizes_that_cannot_be(size: Any) -> None:
    with pytest.raises(ColltoolError):
        colltool.price(fabric(star(4)), "ar", size=size)


@swept(
    "sizes",
    [[1e3, 1e6], (1e3, 1e6), np.array([1e3, 1e6]), np.array([1000, 1000000]), ["1KB", "1MB"]],
)
def test_ways_to_give_several_sizes(sizes: Any) -> None:
    (row,) = colltool.price(fabric(star(4)), "ar", size=sizes, algorithms="ring").results
    assert row.total_s == pytest.approx([6e-6 + 1.5 * size / 100e9 for size in (1e3, 1e6)])


def test_several_sizes_have_no_single_best() -> None:
    with pytest.raises(ColltoolError, match="no single best"):
        _ = colltool.price(fabric(star(4)), "ar", size=[1.0, 2.0]).best


NO_MODELS = [
    {"phases": "both"},
    {"placement": "random"},
    {"ring_alpha": "median"},
    {"order": "sideways"},
    {"tree_beta": 0.9},
    {"tree_beta": 3},
    {"tree_beta": "2"},
    {"tree_beta": float("nan")},
]


@swept("model", NO_MODELS)
def test_readings_that_do_not_exist(model: dict[str, Any]) -> None:
    with pytest.raises(ColltoolError):
        colltool.price(fabric(star(4)), "ar", size=1, **model)


def test_ties_keep_registry_order() -> None:
    result = colltool.price(fabric(star(4)), "rs", size=1e6)
    names = [row.algorithm for row in result.results]
    assert names == ["direct", "recursive-halving", "ring"]
    again = colltool.price(fabric(star(2)), "ag", size=1e6)
    assert [row.algorithm for row in again.results] == ["ring", "recursive-doubling", "direct"]
