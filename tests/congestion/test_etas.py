"""The coefficients for a fabric file: of the worst group, on the tiers that its ideal spans and the
one that bounds it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from colltool.base.errors import ColltoolError
from colltool.congestion.baseline import Baseline
from colltool.congestion.contention import MAX_ETA_ALPHA, GroupSlowdowns, TierEta, etas
from colltool.congestion.layout_groups import GroupLayout
from colltool.congestion.loads import link_models
from tests import small

WIRES = link_models(small.fabric(small.star(4), small.star(8)))
INNER = Baseline(busiest_s=1.0, endpoint_s=1.0, alpha_s=1e-6, links=2, tier=0, tiers=(0,))
BOTH = Baseline(busiest_s=4.0, endpoint_s=2.0, alpha_s=1e-6, links=2, tier=1, tiers=(0, 1))


def of(*suffered: tuple[Baseline, Sequence[float], Sequence[float]]) -> list[TierEta]:
    """The coefficients of groups a, b, c ... by their ideal, times as slow and times the α."""
    some, start = [], 0
    for ideal, slow, alpha in suffered:
        slowdown = np.array(slow)
        some.append(
            GroupSlowdowns(start, ideal, slowdown, slowdown * ideal.busiest_s, np.array(alpha))
        )
        start += len(slow)
    groups = [GroupLayout(name, (0, 1), (0, 1)) for name in "abcdefgh"]
    return list(etas(some, WIRES, groups))


def test_groups_as_good_as_their_ideal_leave_a_tier_as_it_is() -> None:
    assert of((INNER, [1, 1], [1, 1])) == [TierEta("t1", 1.0, 1.0, "a")]


def test_beta_is_of_the_slowest_group_and_never_better_than_the_ideal() -> None:
    assert of((INNER, [2, 4, 3], [1, 1, 1])) == [TierEta("t1", 1.0, 0.25, "b")]
    assert of((INNER, [0.5, 0.25], [1, 1])) == [TierEta("t1", 1.0, 1.0, "a")]
    assert of((INNER, [4, 2], [1, 1]), (INNER, [4, 5], [1, 1])) == [TierEta("t1", 1.0, 0.2, "d")]


def test_alpha_is_of_the_worst_and_names_it_where_it_comes_last() -> None:
    assert of((INNER, [2, 2, 2, 2], [1, 3, 2, 3])) == [TierEta("t1", 3.0, 0.5, "b")]
    assert of((INNER, [4, 2], [1, 3])) == [TierEta("t1", 3.0, 0.25, "b")]
    assert of((INNER, [2, 4], [3, 1])) == [TierEta("t1", 3.0, 0.25, "b")]
    assert of((INNER, [1], [1e9])) == [TierEta("t1", MAX_ETA_ALPHA, 1.0, "a")]


def test_beta_goes_to_the_tier_that_bounds_and_alpha_to_all_that_carry() -> None:
    """The share of a port: where uplinks bound the ideal at twice a port's time, twice as slow
    leaves a quarter."""
    assert of((BOTH, [2], [5])) == [TierEta("t1", 5.0, None, "a"), TierEta("t2", 5.0, 0.25, "a")]
    inner, outer = of((INNER, [3], [1]), (BOTH, [1, 2], [1, 2]))
    assert inner == TierEta("t1", 2.0, 0.3333333333, "c")
    assert outer == TierEta("t2", 2.0, 0.25, "c")


def test_no_slower_than_the_ideal_is_no_share_whatever_bounds_it() -> None:
    for slowdown in (1.0, 0.75):
        assert of((BOTH, [slowdown], [1]))[1] == TierEta("t2", 1.0, 1.0, "a")


def test_the_largest_alpha_is_the_largest_that_a_file_takes() -> None:
    assert (
        small.fabric(small.star(4, eta={"alpha": MAX_ETA_ALPHA})).tiers[0].eta.alpha
        == MAX_ETA_ALPHA
    )
    with pytest.raises(ColltoolError):
        small.fabric(small.star(4, eta={"alpha": MAX_ETA_ALPHA * 1.01}))
