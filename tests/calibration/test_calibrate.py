"""Calibrate finds the fabric that a series was made from, says what it cannot know, and writes what
prices the series."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from effort import examples
from generated import FINE, SIZES, document, fabric_of, fit, measured, only, protocol
from handmade import by_steps
from hypothesis import given, settings
from hypothesis import strategies as st
from small import clos, fabric, star, switch
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, RS, Primitive
from colltool.calibration.calibrate import Calibration
from colltool.calibration.results import FittedSeries
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.price import price
from colltool.fabric.load import read_fabric
from colltool.logs.series import Measurements, Point, Series
from colltool.render import dispatch as door
from colltool.render.data_formats import to_json
from colltool.render.text import PIPE, to_text

LOW, MID, HIGH = (
    ("low-latency", 5.0, 0.8, 40.0),
    ("mid", 9.0, 1.1, 120.0),
    ("high-bandwidth", 20.0, 1.4, 360.0),
)
LISTS = {1: (HIGH,), 2: (LOW, HIGH), 3: (LOW, MID, HIGH)}
BLANK = document(star(64, 1.0, 400.0))
RING = ("ring",)
RUNS = {AR: "ring", AG: "ring", RS: "ring", A2A: "pairwise", BC: "chain"}

NO_ANSWER = re.compile(
    "a single size does not determine a line|implausible times|no alpha-beta curve fits|from a"
    " port of"
)


def truth(*listed: tuple[str, float, float, float], size: int = 64, **more: Any) -> Any:
    return fabric_of(
        document(star(size, 1.0, 400.0, protocols=[protocol(*one) for one in listed], **more))
    )


TWO = truth(LOW, HIGH)


def series(primitive: Primitive = AR, *ranks: int, **more: Any) -> list[Series]:
    return [measured(TWO, primitive, n, FINE, (RUNS[primitive],), **more) for n in ranks]


def assert_written_well(result: Calibration, limit: float = 0.01) -> None:
    """The text loads again as the fabric, and prices each used point within the limit."""
    again = read_fabric(result.text, "found.yaml")
    assert again == result.fabric
    checked = validate(again, Measurements(tuple(one.series for one in result.series), ()))
    for one, held in zip(result.series, checked.series, strict=True):
        for residual, point in zip(one.residuals, held.points, strict=True):
            assert residual.fitted_s == pytest.approx(point.predicted_s, rel=1e-9)
            assert not residual.used or abs(point.relative_error) <= limit
        if all(residual.used for residual in one.residuals):
            assert one.mape == pytest.approx(held.mape, abs=1e-9)


def assert_honest(result: Calibration) -> None:
    """What every answer keeps, however bad the series: it loads, its numbers are finite, its
    formats can be written."""
    assert read_fabric(result.text, "found.yaml") == result.fabric
    text = to_json(door.document(result))
    assert not re.search(r"\b(NaN|Infinity)\b", text)
    assert to_text(door.blocks(result), PIPE)
    for one in result.series:
        assert len(one.residuals) == len(one.series.points)
        assert sum(not residual.used for residual in one.residuals) == len(one.left_out)
        assert math.isfinite(one.mape)
        for found in one.protocols:
            assert min(found.launch_overhead_s, found.alpha_s) >= 0
            assert found.bandwidth_Bps > 0
            assert all(low <= high for low, high in found.ci95.values())


# --- recovery
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.alike(4)
@pytest.mark.parametrize(
    ("primitive", "count"), [*((primitive, 2) for primitive in RUNS), (AR, 1), (AR, 3)]
)
def test_what_made_the_series_comes_back(primitive: Primitive, count: int) -> None:
    made = truth(*LISTS[count])
    found = fit(
        BLANK,
        *(measured(made, primitive, n, FINE, (RUNS[primitive],)) for n in (4, 64)),
        algorithms=(RUNS[primitive],),
    )
    protocols = found.series[0].protocols
    # nothing says which
    assert [one.name for one in protocols] == [f"segment-{place}" for place in range(1, count + 1)]
    for one, (_, launch, alpha, bandwidth) in zip(protocols, LISTS[count], strict=True):
        assert one.launch_overhead_s == pytest.approx(launch * 1e-6, rel=0.01)
        assert one.alpha_s == pytest.approx(alpha * 1e-6, rel=0.01)
        assert one.bandwidth_Bps == pytest.approx(bandwidth * 1e9, rel=0.01)
        assert (one.tied, one.copy_Bps, one.eta_beta) == ((), None, None)
    assert all(series.mape < 1e-3 and (series.cv_mape or 0) < 2e-3 for series in found.series)
    assert_written_well(found)


@pytest.mark.parametrize("primitive", [AR, BC])
def test_noise_leaves_the_truth_inside_the_intervals(primitive: Primitive) -> None:
    found = fit(
        BLANK, *series(primitive, 2, 4, 8, 32, 64, noise=0.02), algorithms=(RUNS[primitive],)
    )
    protocols = found.series[0].protocols
    assert len(protocols) == 2
    missed = []
    for one, (_, launch, alpha, bandwidth) in zip(protocols, (LOW, HIGH), strict=True):
        true = {
            "launch_overhead_s": launch * 1e-6,
            "alpha_s": alpha * 1e-6,
            "bandwidth_Bps": bandwidth * 1e9,
        }
        for name, value in true.items():
            low, high = one.ci95[name]
            assert low < getattr(one, name) < high
            assert high / low < 1.35
            assert low * 0.98 < value < high * 1.02
            missed += [] if low <= value <= high else [(one.name, name)]
    assert len(missed) <= 1  # of six intervals of 95%
    assert all(0.005 < one.mape < 0.03 for one in found.series)
    assert_written_well(found, 0.1)


realistic = st.tuples(
    st.floats(2, 30), st.floats(0.2, 6), st.floats(5, 100), st.floats(1.2, 4), st.floats(3, 12)
)


@settings(max_examples=examples(6), deadline=None, derandomize=True)
@given(realistic, st.sampled_from([AR, AG, RS, BC]))
def test_any_two_protocols_that_differ_are_priced_again(
    numbers: tuple[float, ...], primitive: Primitive
) -> None:
    launch, alpha, bandwidth, slower, faster = numbers
    made = truth(
        ("a", launch, alpha, bandwidth), ("b", launch * slower, alpha * slower, bandwidth * faster)
    )
    name = RUNS[primitive]
    found = fit(
        BLANK, *(measured(made, primitive, n, FINE, (name,)) for n in (4, 64)), algorithms=(name,)
    )
    assert_written_well(found)
    last = found.series[0].protocols[-1]
    assert last.bandwidth_Bps == pytest.approx(bandwidth * faster * 1e9, rel=0.01)


def test_p2p_comes_back_but_for_alpha() -> None:
    found = fit(BLANK, measured(TWO, P2P, 2, FINE, ("send",)))
    for one, (_, launch, alpha, bandwidth) in zip(only(found).protocols, (LOW, HIGH), strict=True):
        assert one.launch_overhead_s + one.alpha_s == pytest.approx(
            (launch + alpha) * 1e-6, rel=0.01
        )
        assert one.bandwidth_Bps == pytest.approx(bandwidth * 1e9, rel=0.01)
        assert one.tied == ("alpha_s",)
    assert_written_well(found)


def test_a_local_copy_comes_back() -> None:
    made = fabric_of(
        document(
            star(64, 1.0, 400.0, protocols=[protocol(*LOW, local_copy="500GB/s"), protocol(*HIGH)])
        )
    )
    found = fit(BLANK, *(measured(made, AG, n, FINE) for n in (2, 4, 8)), algorithms=RING)
    low, high = found.series[0].protocols
    assert low.copy_Bps == pytest.approx(500e9, rel=0.02)
    assert high.copy_Bps is None
    assert found.fabric.tiers[0].protocols is not None
    assert found.fabric.tiers[0].protocols[0].local_copy == pytest.approx(500e9, rel=0.02)
    assert_written_well(found)


def test_one_rank_count_does_not_tell_a_local_copy_from_bandwidth() -> None:
    made = fabric_of(
        document(star(64, 1.0, 400.0, protocols=[protocol(*LOW, local_copy="500GB/s")]))
    )
    found = fit(BLANK, measured(made, AG, 8, FINE), algorithms=RING)
    assert only(found).protocols[0].copy_Bps is None
    assert_written_well(found)


@pytest.mark.parametrize(("launch", "alpha"), [(0.0, 2.0), (0.5, 300.0), (500.0, 0.05)])
def test_one_of_launch_and_alpha_may_be_all(launch: float, alpha: float) -> None:
    made = truth(("only", launch, alpha, 50.0))
    found = fit(BLANK, *(measured(made, AR, n, FINE) for n in (2, 64)), algorithms=RING)
    (one,) = found.series[0].protocols
    assert one.launch_overhead_s == pytest.approx(launch * 1e-6, rel=0.01, abs=1e-6)
    assert one.alpha_s == pytest.approx(alpha * 1e-6, rel=0.01, abs=0.05e-6)
    assert_written_well(found)


# --- what the series do not tell
# --------------------------------------------------------------------------------------


def test_one_rank_count_ties_alpha_and_launch_overhead() -> None:
    found = fit(BLANK, *series(AR, 8), algorithms=RING)
    for one, (_, launch, alpha, _bandwidth) in zip(only(found).protocols, (LOW, HIGH), strict=True):
        assert one.tied == ("alpha_s",)
        assert one.alpha_s == pytest.approx(1e-6, rel=1e-3)  # the fabric's
        assert one.launch_overhead_s + 14 * one.alpha_s == pytest.approx(
            (launch + 14 * alpha) * 1e-6, rel=0.01
        )
        assert set(one.ci95) == {"launch_overhead_s", "bandwidth_Bps"}
    assert any("second rank count" in note for note in found.notes)
    assert_written_well(found)


def test_two_rank_counts_do_not_tell_alpha_where_no_step_is_felt() -> None:
    made = [measured(TWO, AR, n, by_steps(2**33, 2**37, 2)) for n in (4, 8)]
    found = fit(BLANK, *made, algorithms=RING)
    (one,) = found.series[0].protocols
    assert one.tied == ("alpha_s",)
    assert one.bandwidth_Bps == pytest.approx(360e9, rel=1e-3)
    assert_written_well(found)


def test_small_messages_do_not_tell_the_bandwidth() -> None:
    made = [measured(TWO, AR, n, by_steps(8, 2048, 2), noise=0.02) for n in (4, 16)]
    found = fit(BLANK, *made, algorithms=RING)
    (one,) = found.series[0].protocols
    assert one.tied == ("bandwidth_Bps",)
    assert (one.bandwidth_Bps, one.copy_Bps) == (400e9, None)  # the fabric's
    assert "bandwidth_Bps" not in one.ci95
    assert any("no size is large enough" in note for note in found.notes)
    assert_written_well(found, 0.1)


@pytest.mark.parametrize("count", [2, 3])
def test_few_sizes_have_an_answer_and_a_warning(count: int) -> None:
    found = fit(BLANK, measured(TWO, AR, 8, [2**10, 2**13, 2**14][:count]), algorithms=RING)
    assert only(found).mape < 0.01
    assert any(f"{count} sizes only" in note for note in found.notes)
    # nothing is left to fit without one of two
    assert (only(found).cv_mape is None) == (count == 2)
    assert_honest(found)


def test_two_sizes_tell_no_algorithm_from_another() -> None:
    one = only(fit(BLANK, measured(TWO, AR, 8, [2**10, 2**13])))
    assert one.confidence.startswith("cannot be told from double-binary-tree: too few sizes")
    assert {candidate.cv_mape for candidate in one.candidates} == {None}


def test_a_single_size_is_refused() -> None:
    with pytest.raises(
        ColltoolError,
        match=r"made\.log:7: all-reduce, 8 ranks: a single size does not determine a line",
    ):
        fit(BLANK, measured(TWO, AR, 8, [2**20]))


def test_one_size_on_several_rank_counts_is_an_answer() -> None:
    found = fit(BLANK, *(measured(TWO, AR, n, [2**20]) for n in (2, 4, 8)), algorithms=RING)
    assert all(one.mape < 0.02 for one in found.series)
    assert_honest(found)


@pytest.mark.parametrize(("seconds", "word"), [(30.0, "a time from"), (1e9, "a rate from")])
def test_times_beyond_any_fabric_ask_for_their_unit(seconds: float, word: str) -> None:
    points = tuple(
        Point(m, t, t, t, 1, "made.log:7")
        for m, t in ((1e3, seconds), (1e6, seconds * (1 + (word == "a rate from"))))
    )
    with pytest.raises(ColltoolError, match="implausible times") as error:
        fit(BLANK, Series(AR, 8, None, points), algorithms=RING)
    assert error.value.fix == "check the unit of the times in the logs"


# --- points that lie on no curve
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "noise"), [(0, 0.0), (10, 0.02), (22, 0.0)])
def test_one_slow_point_is_left_out(at: int, noise: float) -> None:
    clean = measured(TWO, AR, 4, FINE, noise=noise)
    found = fit(
        BLANK,
        clean,
        measured(TWO, AR, 8, FINE, noise=noise, spoil={FINE[at]: 3.0}),
        algorithms=RING,
    )
    assert found.series[0].left_out == ()
    (left,) = found.series[1].left_out
    assert left.bytes == FINE[at]
    assert re.fullmatch(r"outlier at .*: (2\.9|3|3\.1)x as slow as the rest predicts", left.reason)
    whole = fit(BLANK, clean, measured(TWO, AR, 8, FINE, noise=noise), algorithms=RING)
    for spoiled, other in zip(found.series[1].protocols, whole.series[1].protocols, strict=True):
        assert spoiled.bandwidth_Bps == pytest.approx(other.bandwidth_Bps, rel=0.03)
    assert_written_well(found, 0.1 if noise else 0.01)


def test_a_slow_range_is_left_out_and_named() -> None:
    spoil = dict.fromkeys(FINE[8:12], 5.0)
    found = fit(
        BLANK, measured(TWO, AR, 4, FINE), measured(TWO, AR, 8, FINE, spoil=spoil), algorithms=RING
    )
    left = found.series[1].left_out
    assert [one.bytes for one in left] == FINE[8:12]
    assert len({one.reason for one in left}) == 1
    assert re.fullmatch(
        r"no alpha-beta curve from 256 \w+ to 2 \w+: up to 5x as slow as the rest predicts",
        left[0].reason,
    )
    assert "off the curve, not in the fit:" in found.text
    assert_written_well(found)


def test_mostly_cliffs_are_an_answer_that_says_so() -> None:
    spoil = {size: (8.0, 1.0, 20.0, 5.0)[i % 4] for i, size in enumerate(FINE)}
    found = fit(BLANK, measured(TWO, AR, 8, FINE, spoil=spoil), algorithms=RING)
    assert len(only(found).left_out) > len(FINE) / 2
    assert any("75% of the sizes are off any alpha-beta curve" in note for note in found.notes)
    assert_honest(found)


@swept(
    "spoil",
    [
        dict.fromkeys(FINE, 1.0) | {FINE[12]: 1 / 3},
        {m: 1 / m for m in FINE},
        {m: m**-2 for m in FINE},
    ],
)
def test_times_that_make_no_sense_are_an_honest_answer_or_refused(
    spoil: dict[float, float],
) -> None:
    try:
        found = fit(BLANK, measured(TWO, AR, 8, FINE, spoil=spoil), algorithms=RING)
    except ColltoolError as error:
        assert NO_ANSWER.search(error.what)  # noqa: PT017 - an answer is fine too
    else:
        assert_honest(found)


def test_noise_everywhere_shows_in_the_errors() -> None:
    found = fit(BLANK, measured(TWO, AR, 8, FINE, noise=0.4), algorithms=RING)
    assert only(found).mape > 0.08
    assert (only(found).cv_mape or 0) > only(found).mape
    assert_honest(found)


# --- which algorithm
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ran", ["ring", "double-binary-tree"])
def test_several_rank_counts_tell_ring_from_tree(ran: str) -> None:
    found = fit(
        document(star(8, 1.0, 400.0)),
        *(measured(TWO, AR, n, SIZES, (ran,), noise=0.01) for n in (2, 4, 8)),
    )
    assert {one.algorithms for one in found.series} == {(ran,)}
    assert found.series[0].confidence.startswith(("clearly", "probably"))
    listed = found.fabric.tiers[0].algorithms
    assert listed is not None
    assert listed[AR] == (ran,)


def test_one_rank_count_does_not() -> None:
    one = only(
        fit(
            document(star(8, 1.0, 4000.0)),
            measured(TWO, AR, 8, FINE, ("double-binary-tree",), noise=0.02),
        )
    )
    assert one.confidence.startswith("cannot be told from")
    assert [candidate.algorithms for candidate in one.candidates] == [
        ("ring",),
        ("double-binary-tree",),
    ]


def test_mpi_runs_what_mpi_ships() -> None:
    made = [measured(TWO, AG, n, SIZES, ("recursive-doubling",), library="MPI") for n in (2, 4, 16)]
    assert fit(BLANK, *made).series[0].algorithms == ("recursive-doubling",)


BOTH = ("ring", "in-network")


@cache
def switched(ranks: tuple[int, ...], noise: float, **wanted: Any) -> tuple[Calibration, Any]:
    made = truth(
        LOW, HIGH, size=8, in_network=switch(2.0, eta_beta=0.8, protocols=["high-bandwidth"])
    )
    blank = document(star(8, 1.0, 450.0, in_network=switch(0.3, eta_beta=0.3)))
    return (
        fit(blank, *(measured(made, AR, n, SIZES, BOTH, noise=noise) for n in ranks), **wanted),
        made,
    )


@pytest.mark.alike(1)
@pytest.mark.parametrize(("line_Bps", "named"), [(None, ()), (450e9, BOTH)])
def test_a_switch_beside_rings_is_found(line_Bps: float | None, named: tuple[str, ...]) -> None:
    found, _ = switched((2, 4, 8), 0.0, line_Bps=line_Bps, algorithms=named)
    assert {one.algorithms for one in found.series} == {BOTH}
    tier: Any = found.fabric.tiers[0]
    assert tier.in_network.protocols == ("segment-2",)
    # what a switch takes beyond the launch of its protocol: 20 us and two switches of 2 us against
    # 20 us and 2 of 0.4 or so
    last = found.series[0].protocols[-1]
    assert last.launch_overhead_s + 2 * tier.in_network.alpha_switch == pytest.approx(
        24e-6, rel=0.02
    )
    share = 1.0 if line_Bps is None else 360 / 450
    assert tier.in_network.eta_beta == pytest.approx(0.8 * share, rel=0.01)
    assert_written_well(found)


@pytest.mark.alike(1)
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_switch_whose_protocol_runs_nothing_else_gets_one_of_its_own(noise: float) -> None:
    found, _ = switched((4, 8), noise)  # in the switch wherever the second protocol would serve
    assert {one.algorithms for one in found.series} == {BOTH}
    low, high = found.series[0].protocols
    assert low.bandwidth_Bps == pytest.approx(40e9, rel=0.1)
    assert high.bandwidth_Bps == pytest.approx(0.8 * 360e9, rel=0.05)
    assert_written_well(found, 0.1 if noise else 0.01)


def test_what_no_port_carries_ran_in_the_switch() -> None:
    found, _ = switched((8,), 0.02)
    assert only(found).algorithms == ("in-network",)  # busbw 504 GB/s on ports of 450
    assert "from a port of 450 GB/s" in only(found).confidence
    assert_written_well(found, 0.1)


def test_both_on_one_rank_count_when_named() -> None:
    found, _ = switched((8,), 0.02, algorithms=BOTH)
    assert only(found).algorithms == BOTH
    assert_written_well(found, 0.1)


@swept(
    ("names", "words"),
    [
        (("rang",), "no algorithm 'rang'"),
        (("in-network",), "in-network"),
        (("recursive-doubling",), "needs a power-of-two rank count, got 6"),
        (("ring", "recursive-doubling"), "needs a power-of-two rank count, got 6"),
    ],
)
def test_an_algorithm_that_cannot_run(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(ColltoolError) as error:
        fit(BLANK, *series(AR, 4, 6), algorithms=names)
    assert error.value.argument == "algorithms"
    assert words in error.value.what


# --- tiers
# ------------------------------------------------------------------------------------------------------------

INNER = [protocol(*LOW), protocol(*HIGH)]
OUTER = [protocol("low-latency", 7, 2.5, 8), protocol("high-bandwidth", 30, 5, 45)]
NODES = fabric_of(
    document(star(4, 1.0, 400.0, protocols=INNER), clos(8, alpha=3.0, bw=50.0, protocols=OUTER))
)


def across(*ranks: int) -> list[Series]:
    return [measured(NODES, AR, n, SIZES, RING if n <= 4 else ("multi-rail-ring",)) for n in ranks]


@cache
def two_tiers() -> Calibration:
    return fit(document(star(4, 1.0, 400.0), clos(8, alpha=3.0, bw=50.0)), *across(2, 4, 8, 16, 32))


@pytest.mark.ci
def test_both_tiers_in_one_call_price_both() -> None:
    found = two_tiers()
    assert found.tier == "t1, t2"
    assert [one.series.ranks for one in found.series] == [2, 4, 8, 16, 32]
    inner, outer = found.series[0].protocols, found.series[-1].protocols
    assert [one.bandwidth_Bps for one in inner] == pytest.approx([40e9, 360e9], rel=0.01)
    assert [one.bandwidth_Bps for one in outer] == pytest.approx([8e9, 45e9], rel=0.01)
    shared = [set(tier.protocols_for(AR)) for tier in found.fabric.tiers]
    assert {one.name for one in outer} <= shared[0] & shared[1]
    assert_written_well(found)


def test_every_primitive_has_a_price_across_calibrated_tiers() -> None:
    for primitive in Primitive:
        for ranks in (4, 32):
            assert price(two_tiers().fabric, primitive, 1e6, ranks).results


def test_an_inner_tier_that_was_not_measured_stays() -> None:
    blank = document(star(4, 1.0, 400.0), clos(8, alpha=3.0, bw=50.0))
    found = fit(blank, *across(8, 16, 32))
    inner, outer = found.fabric.tiers
    assert inner == fabric_of(blank).tiers[0]
    assert outer.protocols is not None
    assert [one.bandwidth for one in outer.protocols] == pytest.approx([8e9, 45e9], rel=0.01)
    assert_written_well(found)


def test_only_one_tier() -> None:
    blank = document(star(4, 1.0, 400.0), clos(8, alpha=3.0, bw=50.0))
    found = fit(blank, *across(2, 4, 8), tier="t1")
    assert [one.series.ranks for one in found.series] == [2, 4]
    assert found.fabric.tiers[1] == fabric_of(blank).tiers[1]
    assert "1 series span other tiers and were left out" in found.notes


@pytest.mark.parametrize(
    ("tier", "words", "fix"),
    [
        ("t3", "has no tier 't3'", "t1, t2"),
        ("t2", "no series ends on t2: they span t1", 'take tier="t1"'),
    ],
)
def test_a_tier_that_cannot_be_calibrated(tier: str, words: str, fix: str) -> None:
    with pytest.raises(ColltoolError, match=words) as error:
        fit(document(star(4, 1.0, 400.0), clos(8, alpha=3.0, bw=50.0)), *across(2, 4), tier=tier)
    assert error.value.argument == "tier"
    assert fix in str(error.value)


def test_ranks_that_the_fabric_cannot_hold_are_named_by_their_line() -> None:
    with pytest.raises(
        ColltoolError, match=r"^made\.log:7: all-reduce, 16 ranks: 16 ranks do not fit"
    ):
        fit(document(star(8, 1.0, 400.0)), *series(AR, 16))


# --- several collectives
# ----------------------------------------------------------------------------------------------


def test_what_shares_protocols_shares_one_list() -> None:
    made = [one for primitive in (AG, RS) for one in series(primitive, 4, 8, noise=0.02)]
    found = fit(BLANK, *made, algorithms=RING)
    listed = found.fabric.tiers[0].protocols or ()
    assert [one.name for one in listed] == ["segment-1", "segment-2"]
    assert {one.primitives for one in listed} == {(AG, RS)}
    assert len({one.protocols[0].bandwidth_Bps for one in found.series}) == 1
    assert_written_well(found, 0.1)


def test_what_differs_has_lists_of_its_own_and_nothing_is_told_of_the_rest() -> None:
    slow = truth(("low-latency", 2.0, 0.5, 10.0), ("high-bandwidth", 8.0, 2.0, 200.0))
    made = [*series(AR, 4, 16), *(measured(slow, AG, n, FINE) for n in (4, 16))]
    found = fit(BLANK, *made, algorithms=RING)
    tier = found.fabric.tiers[0]
    said = [one.primitives for one in tier.protocols or ()]
    assert None not in said
    assert {primitive for listed in said for primitive in listed or ()} == {AR, AG}
    assert set(tier.algorithms or {}) == {AR, AG}
    for primitive in set(Primitive) - {AR, AG}:
        got, bare = (
            price(one, primitive, 1e6, 16).best for one in (found.fabric, fabric_of(BLANK))
        )
        assert got.total_s == bare.total_s
        assert (
            f"{primitive.label} was not measured on t1: priced with the tier's own numbers"
            in got.notes
        )
    assert not any(
        "was not measured" in note for note in price(found.fabric, AG, 1e6, 16).best.notes
    )
    assert_written_well(found)


# --- line rate
# --------------------------------------------------------------------------------------------------------


def test_a_line_rate_turns_bandwidths_into_eta() -> None:
    made = series(AR, 4, 16)
    plain, shared = (fit(BLANK, *made, algorithms=RING, line_Bps=line) for line in (None, 450e9))
    assert [one.eta_beta for one in shared.series[0].protocols] == pytest.approx(
        [40 / 450, 360 / 450], rel=0.01
    )
    tier = shared.fabric.tiers[0]
    assert tier.bandwidth == 450e9
    assert all(one.bandwidth is None for one in tier.protocols or ())
    for one, other in zip(plain.series, shared.series, strict=True):
        assert [r.fitted_s for r in one.residuals] == pytest.approx(
            [r.fitted_s for r in other.residuals], rel=1e-3
        )
    assert not any("line rate" in note for note in shared.notes)
    (row,) = price(shared.fabric, AR, 1e12, 16, ModelOptions(ideal=True), RING).results
    assert float(row.total_s) == pytest.approx(2 * 15 / 16 * 1e12 / 450e9, rel=1e-3)
    assert_written_well(shared)


def test_a_line_rate_below_what_was_measured_is_said() -> None:
    found = fit(BLANK, *series(AR, 4, 16), algorithms=RING, line_Bps=200e9)
    low, high = found.series[0].protocols
    assert low.eta_beta == pytest.approx(0.2, rel=0.01)
    assert (high.eta_beta, high.bandwidth_Bps) == (None, pytest.approx(360e9, rel=0.01))
    (note,) = [note for note in found.notes if "line rate" in note]
    assert re.fullmatch(
        r"segment-2 carries 3\d\d.* GB/s, more than the stated line rate of 200 GB/s: .* instead of"
        r" an eta",
        note,
    )
    assert_written_well(found)


def test_a_tiers_own_eta_is_not_paid_twice() -> None:
    blank = document(star(64, 1.0, 400.0, eta={"alpha": 1.5, "beta": 0.7}))
    assert_written_well(fit(blank, *series(AR, 4, 16), algorithms=RING))


# --- what is written
# --------------------------------------------------------------------------------------------------


def test_the_head_gives_the_error_of_every_used_size() -> None:
    found = fit(BLANK, *series(AR, 4, 16, noise=0.02), algorithms=RING)
    head = "\n".join(line[1:].strip() for line in found.text.splitlines() if line.startswith("#"))
    for one in found.series:
        assert f"{one.series.title}: mean {one.mape:.1%}, worst {one.worst:+.1%}" in head
        cells = (
            re.split(rf"{re.escape(one.series.title)}: mean[^\n]*\n", head)[1]
            .split("\n\n")[0]
            .replace("\n", " ")
            .split(", ")
        )
        errors = [float(cell.rsplit(" ", 1)[1]) for cell in cells]
        assert errors == [
            pytest.approx(100 * r.relative_error, abs=0.0501) for r in one.residuals if r.used
        ]


def test_the_same_series_give_the_same_bytes(remembered: Callable[[], None]) -> None:
    made = series(AR, 8, noise=0.02)
    first = fit(BLANK, *made)
    remembered()
    second = fit(BLANK, *made)
    assert first.text == second.text
    assert to_json(door.document(first)) == to_json(door.document(second))


def test_the_data_given_is_left_alone() -> None:
    before = json.dumps(BLANK)
    fit(BLANK, *series(AR, 8), algorithms=RING)
    assert json.dumps(BLANK) == before


@pytest.mark.parametrize("again", [(4, 16), (8,)])
def test_a_calibrated_fabric_can_be_calibrated_again(again: tuple[int, ...]) -> None:
    import yaml

    first = fit(BLANK, *series(AR, 4, 16), algorithms=RING)
    second = fit(yaml.safe_load(first.text), *series(AR, *again), algorithms=RING, name="twice")
    assert second.fabric.name == "twice"
    assert [one.name for one in second.fabric.tiers[0].protocols or ()] == [
        "segment-1",
        "segment-2",
    ]
    assert_written_well(second)


def test_a_calibrated_switch_can_be_calibrated_again() -> None:
    import yaml

    first, made = switched((4, 8), 0.0)
    second = fit(
        yaml.safe_load(first.text),
        *(measured(made, AR, n, SIZES, BOTH) for n in (4, 8)),
        algorithms=BOTH,
    )
    assert_written_well(second)


def test_other_tiers_and_keys_are_kept() -> None:
    blank = document(
        star(8, 1.0, 400.0, notes="as bought", ports=1), description="ours", launch_overhead="3us"
    )
    found = fit(blank, *series(AR, 8), algorithms=RING)
    assert (found.fabric.description, found.fabric.tiers[0].notes, found.fabric.name) == (
        "ours",
        "as bought",
        "found",
    )
    assert found.fabric.tiers[0].alpha == pytest.approx(1e-6)
    protocols = found.fabric.tiers[0].protocols or ()
    assert all(
        "made.log" in str(one.source) and one.launch_overhead is not None for one in protocols
    )
    assert_written_well(found)


def test_full_meshes_run_what_uses_all_links() -> None:
    from small import full_mesh

    mesh = fabric(full_mesh(8, 1.0, 50.0))
    found = fit(document(full_mesh(8, 2.0, 60.0)), measured(mesh, AR, 8, FINE, ("two-shot",)))
    assert only(found).algorithms == ("two-shot",)
    assert only(found).protocols[0].bandwidth_Bps == pytest.approx(50e9, rel=0.01)
    assert_written_well(found)


# --- anything at all
# --------------------------------------------------------------------------------------------------

times = st.floats(-6.5, 0.0).map(lambda power: 10**power)
random_points = st.dictionaries(
    st.integers(0, 34).map(lambda power: float(2**power)), times, min_size=1, max_size=30
)


@settings(max_examples=examples(10), deadline=None, derandomize=True)
@given(
    st.dictionaries(st.sampled_from([2, 4, 8]), random_points, min_size=1, max_size=3),
    st.sampled_from([AR, AG, A2A, P2P, BC]),
    st.sampled_from([None, 450e9]),
)
def test_random_series_are_an_answer_or_an_error(
    by_ranks: dict[int, dict[float, float]], primitive: Primitive, line_Bps: float | None
) -> None:
    made = []
    for ranks, found in sorted(by_ranks.items()):
        points = tuple(Point(m, t, t, t, 1, "made.log:7") for m, t in sorted(found.items()))
        made.append(Series(primitive, ranks, None, points, "NCCL"))
    try:
        result = fit(document(star(8, 1.0, 400.0, in_network=switch())), *made, line_Bps=line_Bps)
    except ColltoolError as error:
        assert NO_ANSWER.search(error.what)  # noqa: PT017 - an answer is fine too
    else:
        assert_honest(result)


def test_every_series_keeps_its_order_and_its_rest() -> None:
    made = [*series(AG, 4, 8), *series(AR, 8, spoil={FINE[5]: 4.0})]
    found = fit(BLANK, *made, algorithms=RING)
    kept: list[FittedSeries] = list(found.series)
    assert [one.series for one in kept] == made
    assert [len(one.left_out) for one in kept] == [0, 0, 1]


def test_each_collective_takes_the_algorithms_that_compute_it() -> None:
    """``--algorithm ring,pairwise`` of a log with all-reduce and all-to-all."""
    both = (measured(TWO, AR, 8, FINE), measured(TWO, A2A, 8, FINE, algorithms=("pairwise",)))
    found = fit(BLANK, *both, algorithms=("ring", "pairwise"))
    assert {one.series.primitive: one.algorithms for one in found.series} == {
        AR: ("ring",),
        A2A: ("pairwise",),
    }
    with pytest.raises(ColltoolError, match="tree is not an algorithm for all-to-all"):
        fit(BLANK, *both, algorithms=("tree",))
