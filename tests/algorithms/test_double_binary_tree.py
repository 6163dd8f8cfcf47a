"""The double binary tree at P segments: its formula against the schedule that is executed, port by
port."""

from __future__ import annotations

import pytest
from swept import swept

import colltool
from colltool.algorithms.all_reduce import counted_c
from colltool.algorithms.registry import find
from colltool.base.primitives import AR, log2_ceil
from colltool.network.group import Group
from colltool.verification.executed import execute_flat, formula_counts
from colltool.verification.verdicts import Counts

ROW = find(AR, "double-binary-tree")
SOME = (*range(4, 40), 48, 63, 64, 65, 96, 127, 128, 129, 200, 255, 256, 257, 384, 500, 511, 512)


def counted(ranks: int, segments: int) -> Counts:
    execution = execute_flat(ROW, Group(ranks, "star"), segments)
    assert execution.outcome.holds
    return execution.counts


@swept("ranks", SOME)
def test_a_port_carries_what_the_formula_says(ranks: int) -> None:
    """(2P + 2 lg N - 3)/P for P = 1 and once the pipeline is full; never more between.

    Just above a power of two the last rank hangs alone below the others, and ports carry half a
    segment less.
    """
    rounds = log2_ceil(ranks)
    alone = (ranks - 1) & (ranks - 2) == 0
    for segments in (1, 2, 3, 2 * rounds - 1, 2 * rounds + 6):
        wanted, found = (
            formula_counts(ROW, Group(ranks, "star"), segments),
            counted(ranks, segments),
        )
        assert wanted == (
            2 * rounds + segments - 1,
            pytest.approx((2 * segments + 2 * rounds - 3) / segments),
        )
        assert found.n_alpha == wanted.n_alpha
        assert found.n_beta <= wanted.n_beta * (1 + 1e-12)
        if segments == 1 or segments >= 2 * rounds - 1 + 2 * alone:
            assert found.n_beta == pytest.approx(wanted.n_beta - alone / segments, rel=1e-12)


@pytest.mark.parametrize("segments", [1, 2, 3, 16, 100])
def test_two_and_three_ranks(segments: int) -> None:
    """On 2 ranks each port carries the vector once; on 3 at most one and a half times, and the
    filling."""
    assert counted(2, segments) == (2 + segments - 1, pytest.approx(1.0))
    assert formula_counts(ROW, Group(2, "star"), segments) == (2 + segments - 1, pytest.approx(1.0))
    assert counted(3, segments).n_beta <= formula_counts(ROW, Group(3, "star"), segments).n_beta
    assert formula_counts(ROW, Group(3, "star"), 1000).n_beta == pytest.approx(
        counted(3, 1000).n_beta, rel=2e-3
    )


@pytest.mark.thorough
def test_c_is_the_limit_of_many_segments() -> None:
    for ranks in (2, 3, 4, 7, 8, 12):
        assert counted(ranks, 2000).n_beta == pytest.approx(counted_c(ranks), rel=0.01)


def test_two_ports_fill_as_the_documents_say() -> None:
    """000 part 01 §5.2: at one segment and c = 1 a tree of depth lg N carries lg N."""
    assert formula_counts(ROW, Group(512, "star", tree_beta=1.0), 1) == (18, 9)
    assert formula_counts(ROW, Group(4, "star", tree_beta=1.0), 1) == (4, 2)


def test_two_ports_are_hypothetical_only_where_they_are_needed() -> None:
    assert [ROW.status_on(Group(ranks, "star", tree_beta=1.0)) for ranks in (2, 3, 4)] == [
        "shipped",
        "hypothetical",
        "hypothetical",
    ]
    assert ROW.status_on(Group(3, "star", tree_beta=1.5)) == "shipped"


def test_the_best_number_of_segments_at_512() -> None:
    """16 MB on the star of the ladder: 67.9 us was the least that a bound allowed, 78.8 what 0.2.0
    said."""
    row = colltool.price(
        "star512",
        "ar",
        size=16e6,
        algorithms="double-binary-tree",
        pipelining="optimal",
        ideal=True,
    ).best
    tried = min((17 + p) * 0.5e-6 + (2 * p + 15) / p * 16e6 / 900e9 for p in range(1, 400))
    assert row.total_s == pytest.approx(tried, rel=1e-12)
    assert row.total_s < 67.9e-6
