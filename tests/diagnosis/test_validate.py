"""Series beside prices: which algorithms count, the errors and their means, whether the ranks fit,
and the verdict."""

from __future__ import annotations

import pytest
from handmade import by_steps, judged, series
from small import clos, fabric, star, switch
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.formatting import of_rates, percent, size_text
from colltool.base.primitives import A2A, AG, AR, P2P, Primitive
from colltool.calibration.log_fits import check_fits
from colltool.calibration.series_prices import price_series
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import ModelOptions
from colltool.logs.sentences import statement
from colltool.logs.series import Measurements, Skipped
from colltool.render.dispatch import blocks
from colltool.render.text import to_text

STAR = fabric(star(8, 1.0, 100.0), launch_overhead="5us")
TWO = fabric(star(8, 1.0, 400.0, in_network=switch()), clos(4, alpha=5.0, bw=50.0))
SKIPPED = (
    Skipped(statement("refused", error="no dtype"), 1, "made.log:2", used=True),
    Skipped(statement("refused", error="wrong result"), 2, "made.log:9"),
)


def best(size: float) -> float:
    """On STAR: the ring or the double binary tree, and the launch."""
    return 5e-6 + min(14e-6 + 1.75 * size / 100e9, 6e-6 + 2 * size / 100e9)


def constant(_size: float) -> float:
    return 1e-3


def titles(one: str, primitive: Primitive, ranks: int = 8, fab: object = STAR) -> set[str]:
    return set(
        price_series(
            fab, series(constant, [1e3, 1e9], ranks, primitive, library=one), ModelOptions()
        ).by_title
    )  # type: ignore[arg-type]


def test_the_models_own_times_have_no_error() -> None:
    one = judged(STAR, series(best, [1e3, 1e6, 16e6, 1e9]))
    assert one.mape < 1e-12
    assert [point.algorithm for point in one.points] == [
        "double-binary-tree",
        "double-binary-tree",
        "ring",
        "ring",
    ]
    assert [point.bound for point in one.points] == [
        "latency",
        "bandwidth",
        "bandwidth",
        "bandwidth",
    ]
    assert one.points[3].busbw_expected_Bps == pytest.approx(1.75e9 / best(1e9))


def test_errors_are_of_the_price_relative_to_the_measurement() -> None:
    factors = {1e3: 1.25, 16e6: 0.8, 1e9: 1.0}
    one = judged(STAR, series(lambda size: factors[size] * best(size), factors))
    assert [point.relative_error for point in one.points] == pytest.approx([-0.2, 0.25, 0.0])
    assert one.mape == pytest.approx(0.15)
    assert one.worst == pytest.approx(0.25)
    assert [(regime.bound, regime.from_bytes, regime.to_bytes) for regime in one.regimes] == [
        ("latency", 1e3, 1e3),
        ("bandwidth", 16e6, 1e9),
    ]
    assert [regime.mape for regime in one.regimes] == pytest.approx([0.2, 0.125])


def test_the_mean_over_all_is_over_points_not_series() -> None:
    exact, off = (
        series(best, [1e6, 16e6, 1e9]),
        series(lambda size: 2 * best(size), [1e6], primitive=AR, library="RCCL"),
    )
    result = validate(
        STAR,
        Measurements(
            (exact, off), (Skipped(statement("refused", error="wrong result"), 2, "made.log:9"),)
        ),
        max_mape=0.4,
    )
    assert result.mape == pytest.approx(0.5 / 4)
    assert not result.holds
    assert result.skipped[0].rows == 2
    assert validate(STAR, Measurements((exact,), ()), max_mape=0.4).holds


def test_nearest_is_the_algorithm_whose_price_comes_nearest() -> None:
    def ring(size: float) -> float:
        return 19e-6 + 1.75 * size / 100e9

    one = judged(STAR, series(ring, [1e3]))
    assert (one.points[0].algorithm, one.points[0].nearest) == ("double-binary-tree", "ring")
    assert one.points[0].nearest_error == pytest.approx(0, abs=1e-12)


def test_only_what_the_library_ships() -> None:
    assert titles("NCCL", AR) == {"ring", "double-binary-tree"}
    assert (
        titles("MPI", AR)
        == titles("Cray MPICH", AR)
        == {"ring", "recursive-doubling", "rabenseifner"}
    )
    assert titles("", AR) >= titles("NCCL", AR) | titles("MPI", AR)
    assert titles("RCCL", P2P) == {"send"}
    assert "direct" in titles("NCCL", A2A)
    assert "bruck" in titles("MPI", A2A)
    assert "bruck" not in titles("NCCL", A2A)


def test_a_composition_takes_only_the_librarys_choices() -> None:
    nccl = titles("NCCL", AR, 32, TWO)
    assert "hierarchical (ring / ring)" not in nccl
    assert {
        "hierarchical (in-network / double-binary-tree)",
        "hierarchical (ring / double-binary-tree)",
    } <= nccl
    assert not any("recursive" in title or "leader" in title for title in nccl)
    assert not any("in-network" in title for title in titles("RCCL", AR, 32, TWO))


def test_what_the_fabric_lists_comes_first_and_what_the_user_names_before_that() -> None:
    listed = fabric(star(8, 1.0, 100.0, algorithms={"ar": ["recursive-doubling"]}))
    assert titles("NCCL", AR, fab=listed) == {"recursive-doubling"}
    one = judged(listed, series(constant, [1e6]), "ring")
    assert one.points[0].algorithm == "ring"


def test_a_named_algorithm_serves_the_series_it_is_one_of() -> None:
    both = Measurements((series(constant, [1e6]), series(constant, [1e6], primitive=AG)), ())
    result = validate(STAR, both, algorithms=["double-binary-tree", "ring"])
    assert [one.points[0].algorithm for one in result.series] == ["double-binary-tree", "ring"]
    with pytest.raises(
        ColltoolError,
        match="all-gather, 8 ranks: double-binary-tree is not an algorithm for all-gather",
    ):
        validate(STAR, both, algorithms=["double-binary-tree"])


def test_the_protocol_of_the_price_is_named() -> None:
    protocols = [
        {"name": "ll", "alpha": "1us", "bandwidth": "10GB/s"},
        {"name": "simple", "alpha": "5us", "bandwidth": "100GB/s"},
    ]
    one = judged(fabric(star(8, 1.0, 100.0, protocols=protocols)), series(constant, [1e3, 1e9]))
    assert [point.protocol for point in one.points] == ["ll", "simple"]
    # ll: six steps of 1 us; simple: fourteen of 5 us and 1.75 GB at 100 GB/s
    assert one.points[0].predicted_s == pytest.approx(6e-6 + 2e3 / 10e9)
    assert one.points[1].predicted_s == pytest.approx(70e-6 + 1.75e9 / 100e9)


@swept("limit", [0.0, -0.1, float("nan"), float("inf")])
def test_a_limit_that_is_none(limit: float) -> None:
    with pytest.raises(
        ColltoolError, match=r"^max_mape: must be a positive share(.|\n)*write 0.15"
    ):
        validate(STAR, Measurements((series(best, [1e6]),), ()), max_mape=limit)


def test_rows_used_with_a_reservation_are_not_left_out() -> None:
    text = to_text(blocks(validate(STAR, Measurements((series(best, [1e6]),), SKIPPED))))
    assert "left out:\n  wrong result: 2 rows, first at made.log:9\n" in text
    assert "used with a reservation:\n  no dtype: 1 row, first at made.log:2\n" in text


def test_no_series() -> None:
    with pytest.raises(ColltoolError, match=r"no usable series\n  measure again"):
        validate(STAR, Measurements((), ()))
    with pytest.raises(ColltoolError) as error:
        validate(STAR, Measurements((), SKIPPED))
    assert (
        str(error.value)
        == "made.log:9: nothing to validate: the logs hold no usable series: wrong result, 2 rows\n"
        "  measure again, and give the whole output of the benchmark"
    )


# --- whether the ranks fit
# --------------------------------------------------------------------------------------------

FITS = [(8, 1), (4, 1), (16, 2), (32, 4), (16, None), (2, None)]
DO_NOT = {
    (64, None): ("64 ranks do not fit: small has 32", "type --set t2.size=8,"),
    (64, 8): ("64 ranks do not fit: small has 32", "type --set t2.size=8,"),
    (12, None): ("leave a domain half full", "type --set t1.size=4,"),
    (13, None): (
        "leave a domain half full",
        "the nearest sizes that fill whole domains are 8 and 16; or use a fabric with",
    ),
    (8, 2): (
        "small puts 8 ranks in each domain of t1, the log has 4 on a node",
        "type --set t1.size=4,",
    ),
    (32, 8): (
        "small puts 8 ranks in each domain of t1, the log has 4 on a node",
        "type --set t1.size=4 --set t2.size=8,",
    ),
    (16, 1): ("the log has 16 on a node", "type --set t1.size=16,"),
    (8, 3): ("are not spread evenly over the nodes", "use a fabric with"),
    (7, 7): ("the log has 1 on a node", "type --set t1.size=1 --set t2.size=7,"),
}


@swept(("ranks", "nodes"), FITS)
def test_ranks_that_fit(ranks: int, nodes: int | None) -> None:
    assert check_fits(TWO, series(constant, [1e6], ranks, nodes=nodes)).ranks == ranks


@swept(("ranks", "nodes"), DO_NOT)
def test_ranks_that_do_not_fit_and_what_to_type(ranks: int, nodes: int | None) -> None:
    what, fix = DO_NOT[ranks, nodes]
    with pytest.raises(ColltoolError) as error:
        check_fits(TWO, series(constant, [1e6], ranks, nodes=nodes))
    assert error.value.where == "made.log:7"
    assert error.value.what.startswith(f"all-reduce, {ranks} ranks")
    assert what in error.value.what
    assert error.value.lines("shell")[1].startswith(fix)


def test_what_cannot_be_set_is_not_suggested() -> None:
    wired = fabric(star(8, max_size=8), clos(4, (2, 1.0), (4, 2.0)))
    with pytest.raises(ColltoolError, match="use a fabric"):
        check_fits(wired, series(constant, [1e6], 16, nodes=1))
    with pytest.raises(ColltoolError, match="use a fabric"):
        check_fits(wired, series(constant, [1e6], 64, nodes=8))


def test_a_domain_larger_than_any_host_spans_hosts() -> None:
    rack = fabric(star(72), clos(4, alpha=5.0))
    assert check_fits(rack, series(constant, [1e6], 72, nodes=18)).ranks == 72


# --- the verdict
# ------------------------------------------------------------------------------------------------------


def verdict(factors: dict[float, float]) -> str:
    measured = Measurements((series(lambda size: factors[size] * best(size), factors),), ())
    return str(validate(STAR, measured).verdict)


def test_verdicts() -> None:
    sizes = [1e3, 4e3, 16e3, 64e3, 1e6, 16e6, 256e6, 1e9]
    assert verdict(dict.fromkeys(sizes, 1.0)) == "0.0% off on average over 8 sizes; trust it"
    # a third more time than the price: -25%; 1/1.04 - 1 = -3.8%
    assert (
        verdict({size: 4 / 3 if size < 1e6 else 1.04 for size in sizes})
        == "14% off on average over 8 sizes; trust it above 1 MB (3.8%), not below (25%)"
    )
    assert (
        verdict({size: 4 / 3 if size >= 1e6 else 1.04 for size in sizes})
        == "14% off on average over 8 sizes; trust it below 1 MB (3.8%), not above (25%)"
    )
    assert (
        verdict(dict.fromkeys(sizes, 2.0))
        == "50% off on average over 8 sizes; do not trust it: no range of sizes is within 10%"
    )
    assert verdict({1e6: 2.0}) == "50% off on average over 1 size; too few sizes to judge"
    assert (
        verdict({1e6: 1.0, 16e6: 1.0}) == "0.0% off on average over 2 sizes; too few sizes to judge"
    )


def test_one_bad_size_is_no_range() -> None:
    sizes = by_steps(1e3, 1.1e9, 2.0)
    bad = dict.fromkeys(sizes, 1.0) | {sizes[-3]: 2.0}
    assert (
        verdict(bad)
        == f"2.4% off on average over 21 sizes; trust it, but for {size_text(sizes[-3])} (50%)"
    )
    hump = dict.fromkeys(sizes, 1.0) | dict.fromkeys(sizes[8:11], 10.0)
    assert (
        verdict(hump)
        == "13% off on average over 21 sizes; trust it, but for 256 KB to 1.024 MB (90%)"
    )
    few = dict.fromkeys([1e3, 4e3, 16e3, 64e3], 1.0)
    assert (
        verdict(few | {16e3: 0.5})
        == "25% off on average over 4 sizes; trust it, but for 16 KB (100%)"
    )


def of_several(*factors: tuple[Primitive, float]) -> str:
    """The verdict on series of four sizes, each its price times a factor."""
    exact = [
        series(constant, [1e6, 4e6, 16e6, 64e6], primitive=primitive) for primitive, _ in factors
    ]
    prices = [
        {point.bytes: point.predicted_s for point in judged(STAR, one).points} for one in exact
    ]
    made = [
        series(lambda size, times=times, by=by: by * times[size], times, primitive=primitive)  # type: ignore[misc]
        for (primitive, by), times in zip(factors, prices, strict=True)
    ]
    return str(validate(STAR, Measurements(tuple(made), ())).verdict)


def test_series_that_are_off_are_named() -> None:
    # 1/1.12 - 1 = -10.7%
    assert (
        of_several((AR, 1.0), (AG, 1.0), (P2P, 1.12))
        == "3.6% off on average over 12 sizes; trust it, but for p2p on 8 ranks (11%)"
    )
    assert (
        of_several((AR, 1.0), (A2A, 2.0))
        == "25% off on average over 8 sizes; trust it, but for all-to-all on 8 ranks (50%)"
    )
    assert (
        of_several((AR, 2.0), (AG, 2.0))
        == "50% off on average over 8 sizes; do not trust it: no range of sizes is within 10%"
    )


def test_series_of_one_name_are_told_apart() -> None:
    sizes = [1e6, 4e6, 16e6]
    half, double = (
        series(lambda size, by=by: by * best(size), sizes, nodes=1)._replace(dtype=name)  # type: ignore[misc]
        for name, by in (("half", 1.0), ("double", 2.0))
    )
    assert str(validate(STAR, Measurements((half, double), ())).verdict).endswith(
        "trust it, but for all-reduce of double on 8 ranks on 1 node (50%)"
    )


@swept(
    ("share", "text"),
    [
        (0.12955, "13.0%"),
        (0.0, "0.0%"),
        (10.0, "1000.0%"),
        (11.6, "12 times"),
        (1013664.564, "1013665 times"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text
    assert percent(-share, sign="+") == ("-" + text if share else "-0.0%")


@swept(
    ("size", "text"),
    [
        (8.0, "8 B"),
        (65536.0, "64 KiB"),
        (2.0**30, "1 GiB"),
        (16e6, "16 MB"),
        (1048320.0, "1.048 MB"),
        (1e3, "1 KB"),
    ],
)
def test_sizes_as_benchmarks_step(size: float, text: str) -> None:
    assert size_text(size) == text


def test_rates_share_their_unit() -> None:
    assert of_rates(231e9, 372e9) == "231 of 372 GB/s"
    assert of_rates(900e6, 1.2e9) == "900 MB/s of 1.2 GB/s"
