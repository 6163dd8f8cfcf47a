"""P*, the best cut of a pipelined payload, against trying every number of segments."""

from __future__ import annotations

from math import sqrt

import pytest
from small import clos, fabric, star
from swept import swept

import colltool


@swept("algorithm", ["chain", "pipelined-tree"])
@swept("size", [1e3, 16e6])
def test_the_best_cut_is_the_fastest_of_all(algorithm: str, size: float) -> None:
    where = fabric(star(64, alpha=0.7, bw=400.0))
    (cut,) = colltool.breakdown(where, "bc", size=size, algorithm=algorithm).segments
    times = {}
    for segments in range(1, 2 * cut.segments + 5):
        times[segments] = float(
            colltool.price(
                where, "bc", size=size, algorithms=algorithm, pipelining=segments
            ).best.total_s
        )
    assert cut.segments == min(times, key=times.__getitem__)
    assert cut.seconds == pytest.approx(times[cut.segments])
    assert abs(cut.exact - cut.segments) < 1 or cut.segments == 1


def test_the_chain_of_the_document() -> None:
    """000/01 §3.1: sqrt((N-2) M / (alpha BW)) of 512 ranks at 16 MB."""
    (cut,) = colltool.breakdown(
        "star512", "bc", size="16MB", algorithm="chain", ideal=True
    ).segments
    assert cut.exact == pytest.approx(sqrt(510 * 16e6 / (0.5e-6 * 900e9)))
    assert (cut.tier, cut.segments) == ("star", 135)
    entry = colltool.explain("chain", "bc", fabric="star512", size="16MB", ideal=True).entries[0]
    assert entry.segments == (cut,)


def test_what_does_not_stream_has_no_cut() -> None:
    for name in ("ring", "tree", "in-network", "one-shot"):
        assert not colltool.breakdown("star512", "ar", size="16MB", algorithm=name).segments
    tiers = fabric(star(8), clos(4, alpha=2.0))
    assert not colltool.breakdown(
        tiers, "ar", size="16MB", algorithm="hierarchical:ring/ring"
    ).segments
    (outer,) = colltool.breakdown(
        tiers, "ar", size="16MB", algorithm="hierarchical:ring/double-binary-tree"
    ).segments
    assert outer.tier == tiers.tiers[1].name
