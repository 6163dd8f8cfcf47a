"""``verify`` in seconds over several tiers: loads of ports, links and uplinks against what prices
charge for them."""

from __future__ import annotations

import re

import gated
import pytest
from effort import some
from small import Tier, clos, fabric, full_mesh, mesh, star, torus

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate import link_cost as charge
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import place
from colltool.verification.verdicts import VERDICTS
from colltool.verification.verify import verify

NESTED = {
    "meshes": [full_mesh(4, bw=50.0), full_mesh(4, bw=50.0)],
    "star under a mesh": [star(8, bw=400.0), full_mesh(4, bw=50.0)],
    "slow inside": [clos(5, (2, 1.0), (6, 2.0, 6.0), bw=10.0), star(4, bw=200.0)],
    "three": [full_mesh(2, bw=100.0), star(3, bw=40.0), clos(4, (2, 2.0), (4, 8.0, 4.0), bw=50.0)],
}


LOOSER = {
    # pipelines, and trees of which not all ranks send in every step
    *("chain", "pipelined-tree", "double-binary-tree", "tree", "binomial", "scatter-allgather"),
    # steps that differ from rank to rank, or from one step to the next
    *("pairwise", "bruck", "rabenseifner-fold"),
    *("recursive-doubling-fold", "recursive-halving-fold"),
}
"""Whose price over several tiers is not to the digit what its messages take; a composition of one
of them neither."""


@pytest.mark.parametrize("tiers", NESTED.values(), ids=NESTED)
def test_a_price_is_what_the_messages_take(tiers: list[Tier]) -> None:
    """To the digit where all steps are alike; elsewhere never less than the busiest port, link or
    uplink."""
    result = colltool.verify(fabric(*tiers), size=1e9)
    assert result.holds
    for one in result.results:
        assert one.time_s is not None, one
        if LOOSER.isdisjoint(re.findall(r"[\w-]+", one.algorithm)):
            assert one.time_s[1] == pytest.approx(one.time_s[0], rel=1e-9), (
                one.primitive,
                one.algorithm,
            )


def test_all_peers_at_once_over_nested_meshes() -> None:
    """Four ranks behind each of a rank's three links out: 4 x 4 MB over 50 GB/s."""
    (one,) = colltool.verify(
        fabric(*NESTED["meshes"]), "a2a", size=64e6, algorithms="direct"
    ).results
    assert one.time_s == pytest.approx((321e-6, 321e-6))


def test_a_price_below_its_messages_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds charged to the class of their farthest pairs alone, though others wait inside: right
    counts, a wrong price."""
    right = charge._slowest
    monkeypatch.setattr(charge, "_slowest", lambda met, *rest: right(met[:1], *rest))
    result = colltool.verify(fabric(*NESTED["slow inside"]), "a2a", size=1e9, algorithms="bruck")
    (one,) = result.results
    assert (one.verdict, result.holds) == ("mismatch", False)
    assert one.n_beta[0] == pytest.approx(one.n_beta[1])
    assert "bytes on the busiest port, link or uplink take" in one.note


@pytest.mark.parametrize("inner", [torus(4, 2), mesh(3, 3)])
def test_what_cannot_be_compared_is_not_called_proved(inner: Tier) -> None:
    result = colltool.verify(fabric(inner, star(2)), "ar")
    found = {one.algorithm: one for one in result.results}
    assert found["ring"].verdict == "counts only"
    assert found["ring"].time_s is None
    assert "links on the lattice are not known" in found["ring"].note
    assert result.holds
    composed = next(one for name, one in found.items() if name.startswith("hierarchical"))
    assert composed.time_s is not None
    assert composed.time_s[1] == pytest.approx(composed.time_s[0], rel=1e-9)
    assert set(VERDICTS) >= {one.verdict for one in result.results}


@pytest.mark.parametrize("start", range(0, 24, 8))
def test_generated_fabrics(start: int) -> None:
    """No price is below its messages, and no execution below the cut bound."""
    for seed in some(range(start, start + 8), 3):
        where = gated.made(seed)
        if any(tier.protocols for tier in where.tiers):
            continue  # a protocol's bandwidth is not the wires'
        for who in [who for who in gated.groups(where, seed) if (who.ranks or 0) <= 24]:
            try:
                result = verify(where, list(Primitive), 1e9, who)
            except ColltoolError:
                continue
            assert result.holds, [
                (seed, who, one) for one in result.results if one.verdict == "mismatch"
            ]
            for one in result.results:
                bound = float(
                    cut_bound_of(place(where, who), one.primitive, ModelOptions()).seconds(1e9)
                )
                assert one.time_s is None or one.time_s[1] >= bound * (1 - 1e-9), (seed, who, one)


def test_direct_over_nested_meshes_counts_its_busiest_link_in_price_and_its_rank_in_verify() -> (
    None
):
    """What the guide says; the seconds are one."""
    nested = fabric(full_mesh(4), full_mesh(4))
    priced = colltool.price(nested, "rs", size="16MB", algorithms="direct").best
    (one,) = colltool.verify(nested, "rs", algorithms="direct", size="16MB").results
    assert float(priced.n_beta) == pytest.approx(1 / 4)
    assert one.n_beta == pytest.approx((15 / 16, 15 / 16))
    assert one.time_s is not None
    assert one.time_s[0] == pytest.approx(float(priced.total_s - priced.overhead_s))
