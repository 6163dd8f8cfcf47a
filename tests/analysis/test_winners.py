"""Who wins a comparison: nobody within the error of a ratio, at any size of what is claimed."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.analysis.cells import Cell
from colltool.analysis.outcomes import SAME, CompareLine
from colltool.analysis.winners import (
    MOST_CLASSES,
    NARROW,
    QuestionVerdict,
    joined_verdicts,
    verdict_of,
)
from colltool.base.primitives import AR
from colltool.estimate.interval import Interval
from colltool.estimate.spread import sigma_table
from colltool.render.verdicts import verdict_sentence
from colltool.render.views.compare import verdict

NAMES = ["a", "b", "c"]


def line(size: float, times: list[float | None], sigmas: list[float] | None = None) -> CompareLine:
    """A point whose cells have these seconds, and ratios to the fastest these errors."""
    cells = []
    for seconds in times:
        known = None
        if seconds is not None:
            known = Interval(seconds / 2, seconds * 2, 0.9, 0, "measured", (), None, 0.1)
        cells.append(Cell((), total_s=seconds, interval=known))
    none = (0.0,) * len(times)
    return CompareLine(AR, 8, size, tuple(cells), none, none, tuple(sigmas or none))


POINTS = st.lists(
    st.tuples(
        st.lists(st.one_of(st.none(), st.floats(1e-6, 1e-3)), min_size=3, max_size=3),
        st.lists(st.floats(0, 0.8), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@given(POINTS)
def test_a_ratio_whose_interval_holds_1_has_no_winner(points: Any) -> None:
    for times, sigmas in points:
        here = line(1e6, times, sigmas)
        winner = here.winner()
        others = [at for at in range(3) if at != here.fastest() and times[at] is not None]
        held = []
        for at in others:
            low, high = here.rival_interval(at) or (1.0, 1.0)
            held.append(low <= 1 <= high)
        if any(held):
            assert winner is None
        if winner is not None:
            assert others
            assert all(times[at] > (1 + SAME) * times[winner] for at in others)


@given(POINTS)
def test_what_is_claimed_of_a_class_holds_at_each_of_its_sizes(points: Any) -> None:
    lines = [line(1e3 * 2**at, *point) for at, point in enumerate(points)]
    found = verdict_of(lines, NAMES)
    assert len(found.claims) <= MOST_CLASSES
    claimed = set()
    for claim in found.claims:
        inside = [one for one in lines if claim.from_bytes <= one.bytes <= claim.to_bytes]
        claimed |= {one.bytes for one in inside}
        for one in inside:
            here = one.verdict()
            assert here.kind == claim.kind
            if claim.kind == "winner":
                assert NAMES[here.column] == claim.winner
        if claim.kind == "winner":
            assert all(rival.low is None or rival.low > 1 for rival in claim.rivals)
    assert (found.rest is None) == (len(claimed) == len(lines))
    if not found.claims:
        assert found.winner is None
        assert "faster" not in said(found)


def said(found: QuestionVerdict) -> str:
    comparison = colltool.compare(["star512", "dgx-h100"], "ar", ranks=8, sizes=["1MB"])
    return verdict_sentence(comparison, found)


def at_sizes(*ratios: float) -> QuestionVerdict:
    """The verdict on b's times over a's, at sizes that double from 1 KB on, known to 20%."""
    sigma = 0.18 / sigma_table()["kappa"]
    lines = [line(1e3 * 2**at, [1, ratio], [sigma] * 2) for at, ratio in enumerate(ratios)]
    assert lines[0].rival_error(0) == pytest.approx(exp(0.18) - 1)
    return verdict_of(lines, NAMES[:2])


@swept(
    ("ratios", "text"),
    [
        ([1.3] * 8, "a is 1.3x faster than b"),
        ([1.3] * 7 + [1.5], "a is 1.3x to 1.5x faster than b"),
        ([1.1] * 8, "too close to call (a is ahead by 1.1x)"),
        ([1.01] * 8, "no measurable difference"),
        (
            [1.5] * 4 + [1.0] * 4,
            "a is 1.5x faster than b up to 8 KB; no measurable difference above 8 KB",
        ),
        ([1.1] * 4 + [0.5] * 4, "b is 2x faster than a above 16 KB; too close to call below 16 KB"),
        (
            [1.5] * 4 + [1.1] * 2 + [0.5] * 4,
            "a is 1.5x faster than b up to 8 KB, b 2x faster above 64 KB; too close to call in between",
        ),
        (
            [1.1] * 3 + [1.5] * 4 + [1.1] * 3,
            "a is 1.5x faster than b from 8 KB to 64 KB; too close to call elsewhere",
        ),
        # a band that is no wider than a factor of two is the border of an error
        ([1.1] * 4 + [1.5] * 2 + [1.1] * 4, "no clear winner (a is ahead by 1.1x to 1.5x)"),
        (
            [1.5] * 4 + [1.1] * 2 + [1.7] * 4,
            "a is 1.5x faster than b up to 8 KB and 1.7x from 64 KB",
        ),
    ],
)
def test_one_sentence_a_question(ratios: list[float], text: str) -> None:
    assert NARROW == 4
    sentence = said(at_sizes(*ratios))
    if " and " in text:
        text = text.replace("from", "above") + "; too close to call in between"
    assert sentence == f"All-reduce, 8 ranks: {text}"


def test_of_three_those_behind_are_named() -> None:
    lines = [line(1e3 * 2**at, [1, 1.05, 2], [0, 0.1, 0.1]) for at in range(8)]
    assert said(verdict_of(lines, NAMES)) == "All-reduce, 8 ranks: c is 2x slower than the fastest"
    lines = [line(1e3 * 2**at, [1, 1.5, 2], [0, 0.1, 0.1]) for at in range(8)]
    assert said(verdict_of(lines, NAMES)) == (
        "All-reduce, 8 ranks: a is 1.5x faster than b and 2x faster than c"
    )


def test_rank_counts_with_one_verdict_are_one_sentence() -> None:
    found = [at_sizes(*[1.3] * 8), at_sizes(*[1.6] * 8), at_sizes(*[1.1] * 8)]
    several = [one._replace(ranks=(8 << at,)) for at, one in enumerate(found)]
    first, second = joined_verdicts(several)
    assert said(first) == "All-reduce, 8 and 16 ranks: a is 1.3x to 1.6x faster than b"
    assert second.ranks == (32,)


@settings(max_examples=examples(6), deadline=None)
@given(st.sampled_from(["dgx-h100", "dgx-b200", "hgx-h200", "nvl72"]), st.sampled_from([8, 64]))
def test_the_verdict_of_prices_is_no_surer_than_they_are(name: str, ranks: int) -> None:
    found = colltool.compare(["dgx-a100", name], "ar", ranks=ranks)
    for one in found.lines:
        low, high = one.ratio_interval(1) or (1.0, 1.0)
        if low <= 1 <= high:
            assert one.winner() is None
        elif abs(one.ratio(1) - 1) > SAME:
            assert one.winner() == (0 if one.ratio(1) > 1 else 1)
    (text,) = verdict(found)
    if all(one.winner() is None for one in found.lines) and not found.verdicts[0].claims:
        assert "faster" not in text


def test_two_that_lead_in_turn_have_no_leader() -> None:
    found = said(at_sizes(*[1.1, 0.95] * 4))
    assert found.endswith("too close to call (the times differ by up to 1.1x)")
