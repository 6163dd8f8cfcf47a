"""The numbers that decide what is said: each held just below and just above, where one more or less
would change a sentence."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from generated import document, fit, only
from handmade import by_steps, judged, series
from small import fabric, star
from swept import swept

from colltool.algorithms.composed import compositions
from colltool.algorithms.registry import algorithms, parse_choice
from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_time
from colltool.base.primitives import Primitive
from colltool.calibration import calibrate
from colltool.calibration import library_choice as candidates
from colltool.calibration import serialise as entries
from colltool.calibration.certainty import Certainty
from colltool.calibration.envelope import Envelope
from colltool.calibration.log_fits import check_fits
from colltool.calibration.series_prices import IN_SWITCH, price_series
from colltool.diagnosis.cliffs import cliff_in
from colltool.diagnosis.findings import SeriesContext
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import ModelOptions
from colltool.logs.series import Measurements, Point, Series

STAR = fabric(star(8, 1.0, 100.0), launch_overhead="5us")
SIZES = by_steps(1e3, 1e9, 2.0)


def ring(size: float) -> float:
    return 5e-6 + 14e-6 + 1.75 * size / 100e9


def best(size: float) -> float:
    return min(ring(size), 5e-6 + 6e-6 + 2 * size / 100e9)


def points(count: int, slow: dict[int, float]) -> list[Point]:
    """Sizes in powers of two whose time is in proportion, times a factor at some."""
    times = [1e-6 * 2.0**i * slow.get(i, 1.0) for i in range(count)]
    return [Point(1024.0 * 2**i, t, t, t, 1, "made.log:7") for i, t in enumerate(times)]


def case(one: Series) -> SeriesContext:
    readings = ModelOptions()
    return SeriesContext(
        fabric=STAR,
        placed=check_fits(STAR, one),
        series=one,
        readings=readings,
        algorithms=("ring",),
        priced=price_series(STAR, one, readings, ["ring"]),
        points=judged(STAR, one, "ring").points,
    )


@swept(
    ("count", "spoiled", "scatters"),
    [
        (15, 3, False),
        (15, 4, True),
        (20, 4, True),
        (21, 4, False),
        (24, 4, False),
        (25, 4, False),
        (25, 5, True),
        (30, 6, True),
        (30, 5, False),
    ],
)
def test_four_sizes_above_their_neighbours_are_scatter_and_a_fifth_of_many(
    count: int, spoiled: int, scatters: bool
) -> None:
    said = str(cliff_in(points(count, {3 * i + 2: 1.6 for i in range(spoiled)})))
    assert said is not None
    assert said.startswith("the times scatter") == scatters


@pytest.mark.parametrize(("off", "counts"), [(1.09, False), (1.11, True)])
def test_a_tenth_above_the_curve_through_its_neighbours_is_above(off: float, counts: bool) -> None:
    said = str(cliff_in(points(20, {2: 1.6, 5: 1.6, 8: 1.6, 11: off})))
    assert said is not None
    assert said.startswith("the times scatter") == counts


@pytest.mark.parametrize(("factor", "breaks"), [(1.29, False), (1.31, True)])
def test_a_step_of_a_third_beyond_proportion_is_none_of_a_price(
    factor: float, breaks: bool
) -> None:
    assert bool(cliff_in(points(12, dict.fromkeys(range(6, 12), factor)))) == breaks


@pytest.mark.parametrize(("share", "breaks"), [(0.86, False), (0.84, True)])
def test_a_time_that_falls_by_more_than_a_seventh_is_none_of_a_price(
    share: float, breaks: bool
) -> None:
    flat = [
        one._replace(bytes=one.bytes, seconds=t)
        for one, t in zip(points(6, {}), [1.0] * 3 + [share] * 3, strict=True)
    ]
    assert bool(cliff_in(flat)) == breaks


def test_the_three_largest_sizes_speak_for_what_bandwidth_bounds() -> None:
    one = case(series(ring, SIZES))
    assert one.large == range(len(SIZES) - 3, len(SIZES))
    assert len(one.bandwidth_bound) > 3
    short = case(series(ring, [1e3, 2e3, 256e6, 512e6]))
    assert short.large == short.bandwidth_bound == range(2, 4)


@pytest.mark.parametrize(("factor", "slower"), [(1.14, False), (1.16, True)])
def test_a_price_explains_what_is_within_a_seventh(factor: float, slower: bool) -> None:
    one = case(series(lambda size: factor * ring(size), SIZES))
    assert all(one.is_slower(i) == slower for i in range(len(SIZES)))


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.92, "reaches the busbw predicted for ring"), (0.89, "reaches 89% of the busbw")],
)
def test_nine_tenths_of_the_busbw_is_what_a_fabric_should_give(share: float, words: str) -> None:
    one = judged(STAR, series(lambda size: ring(size) / share, SIZES), "ring")
    assert str(one.findings[0]).startswith(words)


TABLES = packaged_toml(candidates.CANDIDATES)


@swept("table", ["nccl", "mpi", "full_mesh"])
def test_every_candidate_is_an_algorithm_of_its_primitive(table: str) -> None:
    for key, names in TABLES[table].items():
        primitive = Primitive(key)
        known = {row.name for row in algorithms(primitive)} | {
            row.name for row in compositions(primitive)
        }
        everything = {row.name for one in Primitive for row in algorithms(one)}
        for name in names:
            choice = parse_choice(name)
            assert choice.base in known
            assert all(part in everything for part in name.partition(":")[2].split("/") if part)


def test_every_primitive_has_candidates_of_every_library() -> None:
    for primitive in Primitive:
        assert candidates.algorithms_to_try(primitive, "NCCL", "star", 1)
        assert candidates.algorithms_to_try(primitive, "MPI", "star", 1)
    assert IN_SWITCH in {row.name for row in algorithms(Primitive.ALL_REDUCE)}


def verdict(errors: dict[int, float]) -> str:
    """On prices that hold but for some of 21 sizes, by how much of their time these are priced too
    low."""
    sizes = by_steps(1e3, 1.1e9, 2.0)
    times = {size: best(size) / (1 - errors.get(at, 0.0)) for at, size in enumerate(sizes)}
    return str(validate(STAR, Measurements((series(times.__getitem__, times),), ())).verdict)


@pytest.mark.parametrize(("error", "named"), [(0.24, False), (0.26, True)])
def test_a_size_a_quarter_off_is_named(error: float, named: bool) -> None:
    assert ("but for" in verdict({9: error})) == named


@pytest.mark.parametrize(("stray", "named"), [((4, 16), True), ((4, 10, 16), False)])
def test_three_stray_sizes_are_too_many_to_name(stray: tuple[int, ...], named: bool) -> None:
    said = verdict(dict.fromkeys(stray, 0.4))
    assert "trust it" in said
    assert ("but for" in said) == named


@swept(
    ("factor", "words"),
    [
        (1.24, ""),
        (1.26, "more launch overhead"),
        (1 / 1.24, ""),
        (1 / 1.26, "less launch overhead"),
    ],
)
def test_floors_a_quarter_apart_are_worth_a_word(factor: float, words: str) -> None:
    (said,) = [
        one
        for one in map(
            str, judged(STAR, series(lambda size: factor * ring(size), SIZES), "ring").findings
        )
        if "small" in one
    ]
    assert ("about" in said) == bool(words)
    assert words in said


def test_five_sizes_make_a_floor() -> None:
    # of four or six the median is in the middle
    factors = dict(zip(SIZES, [1.0, 1.0, 3.0, 3.0, 3.0, 1.0], strict=False))
    one = judged(STAR, series(lambda size: factors.get(size, 1.0) * ring(size), SIZES), "ring")
    (said,) = [found for found in map(str, one.findings) if "small messages take" in found]
    assert f"small messages take {format_time(3 * ring(SIZES[2]), 3)}," in said


@pytest.mark.parametrize(("apart", "named"), [(0.19, False), (0.21, True)])
def test_repeats_a_fifth_apart_are_worth_a_word(apart: float, named: bool) -> None:
    one = series(ring, SIZES)
    spread = tuple(
        p._replace(high_s=p.seconds * (1 + apart / 2), low_s=p.seconds * (1 - apart / 2))
        for p in one.points
    )
    found = map(str, judged(STAR, one._replace(points=spread), "ring").findings)
    assert any("repeats differ" in said for said in found) == named


# --- what a calibration dares to say
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times_wide", "tied"), [(4.9, ()), (5.1, ("bandwidth_Bps",))])
def test_a_bandwidth_that_may_be_five_times_itself_is_not_told(
    monkeypatch: pytest.MonkeyPatch, times_wide: float, tied: tuple[str, ...]
) -> None:
    def as_wide(_sample: object, found: Envelope, component: int) -> Certainty:
        theta = found.theta[component]
        ci95 = np.stack([theta, theta], axis=1)
        ci95[2, 0] /= times_wide
        return Certainty(ci95, alpha_is_determined=True)

    monkeypatch.setattr(entries, "certainty", as_wide)
    (one,) = only(
        fit(document(star(8, 1.0, 100.0)), series(ring, SIZES), algorithms=("ring",))
    ).protocols
    assert one.tied == tied
    assert one.bandwidth_Bps == pytest.approx(100e9, rel=0.01)


@pytest.mark.parametrize(("off", "absurd"), [(0.99, False), (1.01, True)])
def test_a_fit_that_is_off_by_the_size_of_the_times_is_refused(
    monkeypatch: pytest.MonkeyPatch, off: float, absurd: bool
) -> None:
    monkeypatch.setattr(calibrate, "mape", lambda _errors: off)
    with (
        pytest.raises(ColltoolError, match="no alpha-beta curve fits") if absurd else nullcontext()
    ):
        assert (
            only(fit(document(star(8, 1.0, 100.0)), series(ring, SIZES), algorithms=("ring",))).mape
            == off
        )
