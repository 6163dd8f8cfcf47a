"""``verify``: every algorithm at many N and shapes, and what it says of a formula that is wrong."""

from __future__ import annotations

import pytest
from swept import swept

import colltool
from colltool.algorithms import registry
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, Primitive, Ring, Terms
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric
from colltool.verification.verdicts import Counts, judge

STAR = """
schema: colltool.fabric/1
name: star
tiers:
  - {name: sw, topology: star, size: SIZE, alpha: 1us, bandwidth: 100GB/s,
     in_network: {reduce: true, multicast: true, all_to_all: true, alpha_switch: 0.2us}}
"""
CLOS = """
schema: colltool.fabric/1
name: clos
tiers:
  - name: ib
    topology: clos
    size: 32
    bandwidth: 50GB/s
    levels: [{name: leaf, group: 8, alpha: 2us}, {name: spine, group: 32, alpha: 8us, oversubscription: 4}]
"""
IDEALISED_ON_A_STAR = {"double-binary-tree", "in-network", "pipelined-tree"}


def star(size: int) -> Fabric:
    return read_fabric(STAR.replace("SIZE", str(size)), "star.yaml")


def lattice(topology: str, *shape: int) -> Fabric:
    text = (
        STAR.split("  - ")[0]
        + f"  - {{name: l, topology: {topology}, shape: {list(shape)}, alpha: 1us, bandwidth:"
        " 50GB/s}\n"
    )
    return read_fabric(text, "lattice.yaml")


@swept("n", [2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 31, 32, 33, 64, 100])
def test_every_algorithm_on_a_star(n: int) -> None:
    result = colltool.verify(star(n))
    assert result.holds
    assert all(one.post_condition for one in result.results)
    assert {
        one.algorithm for one in result.results if one.verdict == "idealised"
    } <= IDEALISED_ON_A_STAR
    assert {one.primitive for one in result.results} == set(Primitive)


@pytest.mark.ci
@swept("topology", ["torus", "mesh"])
@swept("shape", [(2,), (5,), (8,), (4, 4), (3, 5), (2, 2, 2), (4, 3, 2), (4, 4, 4), (1, 6)], most=2)
def test_every_algorithm_on_a_lattice(topology: str, shape: tuple[int, ...]) -> None:
    result = colltool.verify(lattice(topology, *shape))
    assert result.holds
    ideal = {one.algorithm for one in result.results if one.verdict == "idealised"}
    assert ideal <= {
        "dim-rabenseifner",
        "send",
        "multi-ring",
    }, "ties of a send are split; parts of unequal axes wait by phase"


@pytest.mark.alike(1)
@pytest.mark.parametrize(
    ("fabric", "ranks"), [("dgx-h100", 64), ("nvl72", 144), ("mi300x", 8), ("clos-4to1", 128)]
)
def test_shipped_fabrics_with_their_compositions(fabric: str, ranks: int) -> None:
    result = colltool.verify(fabric, ranks=ranks)
    assert result.holds
    composed = [one for one in result.results if " (" in one.algorithm]
    assert bool(composed) == (fabric != "mi300x")
    across_leaves = fabric == "clos-4to1"  # there steps of one phase meet in leaves and across them
    waits = {
        one.algorithm
        for one in composed
        if one.verdict == "idealised" and "waiting for its slowest pair" in one.note
    }
    assert all(
        one.verdict == "proved" or (across_leaves and one.algorithm in waits) for one in composed
    )


def test_a_clos_with_uplinks_costs_what_is_priced() -> None:
    """Lock step on real uplinks against the flow rule: rings and shift rounds to the digit, XOR
    rounds too."""
    result = colltool.verify(
        read_fabric(CLOS, "clos.yaml"), "ag", algorithms=["ring", "recursive-doubling", "pat"]
    )
    for one in result.results:
        assert one.verdict == "proved"
        assert one.time_s is not None
        assert one.time_s[1] == pytest.approx(one.time_s[0], rel=1e-9), one.algorithm


@swept("ranks", [3, 6, 7, 9, 12, 20, 24, 31])
def test_folded_schedules_cost_at_most_what_is_priced(ranks: int) -> None:
    """Inside a leaf to the digit. Across leaves folding shifts the pairs, and the price takes the
    most that may leave a leaf."""
    results = colltool.verify(read_fabric(CLOS, "clos.yaml"), ranks=ranks).results
    folded = [one for one in results if one.algorithm.endswith("-fold")]
    assert len(folded) == 4
    for one in folded:
        assert one.verdict == "proved"
        assert one.time_s is not None
        ratio = one.time_s[1] / one.time_s[0]
        assert 0.4 < ratio <= 1 + 1e-9 if ranks > 8 else ratio == pytest.approx(1), one.algorithm


def test_padding_takes_ports_beside_the_group() -> None:
    (one,) = colltool.verify(
        read_fabric(CLOS, "clos.yaml"), "ar", ranks=9, algorithms="rabenseifner-padded"
    ).results
    assert (one.verdict, one.n_alpha, one.n_beta) == ("proved", (8, 8), (1.875, 1.875))


def test_pairwise_in_lock_step_is_no_sum_over_a_ranks_own_messages() -> None:
    """All steps but few wait for a pair across the spine, but only some of a leaf's ranks send
    across at once."""
    (one,) = colltool.verify(read_fabric(CLOS, "clos.yaml"), "a2a", algorithms="pairwise").results
    assert one.time_s is not None
    assert one.time_s[1] / one.time_s[0] == pytest.approx(1, abs=0.1)
    assert "waiting for its slowest pair" in one.note


@pytest.mark.parametrize(("n_alpha", "n_beta"), [(13, 1.75), (14, 1.5), (14, 1.76)])
def test_a_wrong_formula_is_a_mismatch_or_a_bound(
    monkeypatch: pytest.MonkeyPatch, n_alpha: float, n_beta: float
) -> None:
    row = registry.find(AR, "ring")
    wrong = row._replace(formula=lambda group: Terms(n_alpha, n_beta, Ring()))
    monkeypatch.setitem(registry._ROWS, (AR, "ring"), wrong)
    result = colltool.verify(star(8), "ar", algorithms="ring")
    too_low = n_alpha < 14 or n_beta < 1.75
    assert result.results[0].verdict == ("mismatch" if too_low else "idealised")
    assert result.holds is not too_low


def test_a_wrong_schedule_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    from colltool.algorithms import program as makers

    make = makers.program_maker(AR, "ring")
    assert make is not None

    def stops_early(group: registry.Group, segments: int):  # type: ignore[no-untyped-def]
        program = make(group, segments)
        batches = list(program.batches)
        return program._replace(batches=iter(batches[:-1]))

    monkeypatch.setitem(makers._MAKERS, (AR, "ring"), stops_early)
    (one,) = colltool.verify(star(8), "ar", algorithms="ring").results
    assert (one.verdict, one.post_condition) == ("mismatch", False)
    assert "does not end with the right chunk" in one.note


def test_an_algorithm_without_a_schedule_is_told_from_a_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from colltool.algorithms import program as makers

    monkeypatch.delitem(makers._MAKERS, (AR, "tree"))
    skipped = {one.algorithm: one.reason for one in colltool.verify(star(8), "ar").skipped}
    assert skipped == {"tree (all-reduce)": "no schedule is written for it"}


def test_segments() -> None:
    for segments in (1, 2, 7, 64):
        results = colltool.verify(star(16), "bc", segments=segments).results
        chain = next(one for one in results if one.algorithm == "chain")
        assert chain.verdict == "proved"
        assert chain.n_alpha == (15 + segments - 1, 15 + segments - 1)


def test_judge() -> None:
    assert judge("shipped", Counts(4, 1.5), Counts(4, 1.5), 1.5) == ("proved", "")
    assert judge("shipped", Counts(4, 1.5), Counts(4, 1.2), 1.2)[0] == "idealised"
    assert judge("reference", Counts(4, 1.5), Counts(5, 1.5), 1.5)[0] == "mismatch"
    assert judge("idealised", Counts(4, 1.5), Counts(5, 1.5), 1.5)[0] == "idealised"


@pytest.mark.parametrize("ranks", [1, 9999])
def test_a_group_that_does_not_fit(ranks: int) -> None:
    with pytest.raises(ColltoolError):
        colltool.verify("star512", ranks=ranks)


def test_nothing_of_that_name() -> None:
    with pytest.raises(ColltoolError, match="nothing to execute on 12 ranks") as refused:
        colltool.verify(star(12), "ar", algorithms="rabenseifner")
    assert "needs a power-of-two rank count" in str(refused.value)
    with pytest.raises(ColltoolError, match="no algorithm 'pairwise' for all-reduce"):
        colltool.verify(star(12), "ar", algorithms=["ring", "pairwise"])


def test_what_was_asked_for_and_not_executed_is_named() -> None:
    result = colltool.verify(
        "dgx-h100",
        "ar",
        ranks=64,
        algorithms=["ring", "multi-rail-ring", "hierarchical:in-network/ring"],
    )
    assert [one.algorithm for one in result.results] == ["ring"]
    reasons = {one.algorithm: one.reason for one in result.skipped}
    assert "baseline" in reasons["multi-rail-ring (all-reduce)"]
    assert "switches" in reasons["hierarchical (in-network / ring) (all-reduce)"]


def test_a_composition_of_ones_choice() -> None:
    (one,) = colltool.verify(
        "dgx-h100", "ar", ranks=64, algorithms="hierarchical:recursive-halving/rabenseifner"
    ).results
    assert (one.algorithm, one.verdict) == (
        "hierarchical (recursive-halving / rabenseifner)",
        "proved",
    )


def test_too_many_ranks_are_not_executed() -> None:
    with pytest.raises(ColltoolError, match="nothing to execute on 4096 ranks") as refused:
        colltool.verify("tpu-v5p", "a2a", ranks=4096)
    assert (
        "take ranks=512" in str(refused.value),
        "take -n 512" in refused.value.spelled("shell"),
    ) == (True, True)


def test_too_many_segments_are_refused_before_they_are_laid_out() -> None:
    with pytest.raises(ColltoolError, match="take segments=39062 or fewer") as refused:
        colltool.verify(star(64), "ar", algorithms="double-binary-tree", segments=65_536)
    assert "take --segments 39062 or fewer" in refused.value.spelled("shell")
    with pytest.raises(ColltoolError, match=r"^segments: "):
        colltool.verify(star(64), "ar", algorithms="double-binary-tree", segments=10**12)


def test_advice_on_too_many_ranks_can_be_taken() -> None:
    """512 leaves a rack of 72 half full: what is advised must run."""
    with pytest.raises(ColltoolError, match="take ranks=504"):
        colltool.verify("nvl72", "ar", algorithms="two-shot")
    assert colltool.verify("nvl72", "ar", ranks=504, algorithms="two-shot").holds
