"""Crossovers against bisection on real prices, and the winners against pricing everything."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil, log2, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import clos, fabric, star, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import BC
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import named_candidates
from colltool.estimate.crossover import positive_roots
from colltool.estimate.groups import place
from colltool.estimate.results import Crossing
from colltool.estimate.software_time import Curve
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric

TWO = fabric(star(8, 0.5, 900.0), clos(4, alpha=3.0, bw=50.0))


def totals(
    where: Fabric | str, primitive: str, names: list[str], size: float, **more: object
) -> dict[str, float]:
    """Seconds by title."""
    return {
        row.title: float(row.total_s)
        for row in colltool.price(where, primitive, size=size, algorithms=names, **more).results
    }


def difference(
    where: Fabric, primitive: str, pair: list[str], **more: object
) -> Callable[[float], float]:
    def at(size: float) -> float:
        both = totals(where, primitive, pair, size, **more)
        return both[pair[0]] - both[pair[1]]

    return at


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """The sign change between low and high, on a logarithmic scale."""
    below = function(low) > 0
    for _ in range(45):
        middle = sqrt(low * high)
        low, high = (middle, high) if (function(middle) > 0) == below else (low, middle)
    return sqrt(low * high)


def crossings(
    where: Fabric | str, primitive: str, pair: list[str], **more: object
) -> tuple[Crossing, ...]:
    (found,) = colltool.crossover(where, primitive, algorithms=pair, **more).pairs
    return found.crossings


def check_sides(
    where: Fabric,
    primitive: str,
    pair: list[str],
    crossing: Crossing,
    margin: float = 1.001,
    **more: object,
) -> None:
    below, above = (
        totals(where, primitive, pair, size, **more)
        for size in (crossing.bytes / margin, crossing.bytes * margin)
    )
    assert min(below, key=below.__getitem__) == crossing.faster_below
    assert min(above, key=above.__getitem__) == crossing.faster_above


alphas, rates = st.floats(0.1, 50), st.floats(1, 2000)


@given(alphas, rates, st.integers(4, 2000))
def test_ring_against_tree(alpha: float, bw: float, n: int) -> None:
    where = fabric(star(n, alpha, bw))
    (crossing,) = crossings(where, "ar", ["ring", "tree"])
    scale = alpha * 1e-6 * bw * 1e9
    lg = ceil(log2(n))
    assert crossing.bytes == pytest.approx(scale * (n - 1 - lg) / (lg - (n - 1) / n))
    if crossing.bytes >= 10:
        assert crossing.bytes == pytest.approx(
            bisect(difference(where, "ar", ["ring", "tree"]), 1.0, 1e18), rel=1e-6
        )
        check_sides(where, "ar", ["ring", "tree"], crossing)


@given(alphas, rates, st.integers(8, 2000), st.sampled_from([1.6, 1.8, 1.9, 2.0]))
def test_ring_against_the_double_tree(alpha: float, bw: float, n: int, c: float) -> None:
    where = fabric(star(n, alpha, bw))
    pair = ["ring", "double-binary-tree"]
    (found,) = colltool.crossover(where, "ar", algorithms=pair, tree_beta=c).pairs
    if c <= 2 * (n - 1) / n:
        assert found.crossings == ()
        assert found.dominates == "double-binary-tree"
        return
    scale = alpha * 1e-6 * bw * 1e9
    (crossing,) = found.crossings
    assert crossing.bytes == pytest.approx(
        2 * (n - 1 - ceil(log2(n))) * scale / (c - 2 * (n - 1) / n), rel=1e-6
    )
    assert found.dominates is None
    check_sides(where, "ar", pair, crossing, tree_beta=c)


@given(alphas, rates, st.sampled_from([4, 8, 64, 512, 4096]))
def test_pairs_of_one_primitive_cross_where_bisection_says(alpha: float, bw: float, n: int) -> None:
    where = fabric(star(n, alpha, bw))
    for primitive, pair in (
        ("ar", ["rabenseifner", "recursive-doubling"]),
        ("a2a", ["pairwise", "bruck"]),
        ("bc", ["scatter-allgather", "binomial"]),
        ("bc", ["chain", "binomial"]),
    ):
        for crossing in crossings(where, primitive, pair):
            at = difference(where, primitive, pair)
            root = bisect(at, crossing.bytes / 100, crossing.bytes * 100)
            assert crossing.bytes == pytest.approx(root, rel=1e-6)


def test_approximations_stand_beside_the_exact_size() -> None:
    (pair,) = colltool.crossover(
        fabric(star(64, 1.0, 100.0)), "ar", algorithms=["ring", "tree"]
    ).pairs
    assert pair.approximations == pytest.approx(
        # the second: 004's "about 1.2 MB"
        {"N*alpha*BW/log2N": 64e5 / 6, "N*alpha*BW/(log2N-1)": 1.28e6, "N*alpha*BW": 64e5}
    )
    (two,) = colltool.crossover(
        fabric(star(2, 1.0, 100.0)), "ar", algorithms=["ring", "tree"]
    ).pairs
    assert set(two.approximations) == {"N*alpha*BW/log2N", "N*alpha*BW"}
    (odd,) = colltool.crossover(
        fabric(star(100, 1.0, 100.0)), "ar", algorithms=["ring", "tree"]
    ).pairs
    assert odd.approximations["N*alpha*BW/log2N"] == pytest.approx(1e7 / log2(100))


def test_approximations_see_the_contention_that_prices_see() -> None:
    where = fabric(star(64, 1.0, 100.0, eta={"alpha": 1.5, "beta": 0.5}))
    (pair,) = colltool.crossover(where, "ar", algorithms=["ring", "tree"]).pairs
    assert pair.approximations["N*alpha*BW"] == pytest.approx(64e5 * 0.75)


DOMINATED = [
    ("ar", ["ring", "rabenseifner"], "rabenseifner", {}),
    ("ag", ["ring", "recursive-doubling"], "recursive-doubling", {}),
    ("ag", ["ring", "direct"], "direct", {}),
    ("bc", ["binomial", "pipelined-tree"], "pipelined-tree", {}),
    ("ar", ["recursive-doubling", "tree"], "recursive-doubling", {}),
    ("ar", ["ring", "double-binary-tree"], "double-binary-tree", {"tree_beta": 1}),
]


@swept(("primitive", "pair", "winner", "model"), DOMINATED)
def test_dominated_pairs(
    primitive: str, pair: list[str], winner: str, model: dict[str, object]
) -> None:
    for names in (pair, pair[::-1]):
        (found,) = colltool.crossover(fabric(star(64)), primitive, algorithms=names, **model).pairs
        assert (found.crossings, found.dominates) == ((), winner)


FLAT_AND_COMPOSED = [
    ["multi-rail-ring", "ring"],
    ["hierarchical:ring/ring", "ring"],
    ["leader:binomial/ring", "ring"],
    ["hierarchical:ring/ring", "leader:binomial/ring"],
    ["one-shot", "hierarchical:ring/ring"],
]


@swept("pair", FLAT_AND_COMPOSED)
def test_flat_against_composed(pair: list[str]) -> None:
    (found,) = colltool.crossover(TWO, "ar", algorithms=pair).pairs
    names = [found.a, found.b]
    for size in (1.0, 1e3, 1e5, 1e7, 1e9, 1e12):
        both = totals(TWO, "ar", names, size)
        winner = found.dominates
        for crossing in found.crossings:
            winner = (
                crossing.faster_above if size > crossing.bytes else winner or crossing.faster_below
            )
        assert both[str(winner)] == pytest.approx(min(both.values()))


def test_the_balance_is_where_latency_and_bandwidth_take_the_same_time() -> None:
    found = colltool.crossover(fabric(star(64, 1.0, 100.0)), "ar", algorithms=["ring", "tree"])
    assert found.balance == pytest.approx({"ring": 126 * 1e5 / (126 / 64), "tree": 1e5})
    for name, size in found.balance.items():
        (row,) = colltool.price(
            fabric(star(64, 1.0, 100.0)), "ar", size=size, algorithms=name
        ).results
        assert row.alpha_s == pytest.approx(row.bandwidth_s)


# --- readings
# -----------------------------------------------------------------------------------------------------------

PAIRS = [
    ("bc", ["chain", "binomial"]),
    ("bc", ["chain", "pipelined-tree"]),
    ("bc", ["scatter-allgather", "pipelined-tree"]),
    ("bc", ["scatter-allgather", "chain"]),
    ("ar", ["rabenseifner", "double-binary-tree"]),
    ("ar", ["ring", "double-binary-tree"]),
]


@swept("segments", [1, 4, 64])
@swept(("primitive", "pair"), PAIRS)
def test_a_given_number_of_segments_crosses_exactly(
    primitive: str, pair: list[str], segments: int
) -> None:
    where = fabric(star(64))
    for crossing in crossings(where, primitive, pair, pipelining=segments):
        both = totals(where, primitive, pair, crossing.bytes, pipelining=segments)
        assert both[pair[0]] == pytest.approx(both[pair[1]], rel=1e-9)
        check_sides(where, primitive, pair, crossing, pipelining=segments)


def sign_changes(at: Callable[[float], float]) -> list[float]:
    """Every size between 1 byte and 1 TB at which two prices swap, found without looking at the
    formula."""
    sizes = [10 ** (k / 20) for k in range(241)]
    values = [at(size) for size in sizes]
    rounding = [abs(value) < 1e-15 for value in values]
    found = []
    last = None
    for index, value in enumerate(values):
        if rounding[index]:
            continue
        if last is not None and (values[last] > 0) != (value > 0):
            found.append(bisect(at, sizes[last], sizes[index]))
        last = index
    return found


@pytest.mark.ci
@swept("n", [4, 8, 64, 512], most=2)
@swept(("primitive", "pair"), PAIRS)
def test_optimal_segments_cross_where_whole_numbers_of_them_do(
    primitive: str, pair: list[str], n: int
) -> None:
    """The smooth form is only a first guess: the sizes told are those at which real prices swap,
    all of them."""
    where = fabric(star(n))
    solved = [c.bytes for c in crossings(where, primitive, pair, pipelining="optimal")]
    real = sign_changes(difference(where, primitive, pair, pipelining="optimal"))
    assert solved == [pytest.approx(size, rel=1e-6) for size in real]


@pytest.mark.parametrize("n", [4, 8, 64])
def test_prices_are_equal_at_a_crossing_of_optimal_segments(n: int) -> None:
    where = fabric(star(n))
    for primitive, pair in PAIRS:
        for crossing in crossings(where, primitive, pair, pipelining="optimal"):
            both = totals(where, primitive, pair, crossing.bytes, pipelining="optimal")
            assert both[pair[0]] == pytest.approx(both[pair[1]], rel=1e-6), (pair, crossing.bytes)


def test_the_curve_of_optimal_segments_is_never_above_the_price() -> None:
    """t at the best whole P cannot be below the least of t over all P; the curve is that least."""
    reading = ModelOptions(pipelining="optimal")
    for n in (2, 3, 8, 64):
        (costed,) = named_candidates(place(fabric(star(n))), BC, reading, ["chain"])
        for size in (1.0, 1e3, 1e5, 1e6, 1e8, 1e10):
            assert costed.curve.at(size) <= float(costed.at(size).total_s) * (1 + 1e-9)


def test_streamed_phases_with_optimal_segments_have_no_closed_form() -> None:
    with pytest.raises(ColltoolError, match="no closed form"):
        colltool.crossover(TWO, "bc", algorithms=["hierarchical", "chain"], pipelining="optimal")


def test_at_least_two_algorithms() -> None:
    with pytest.raises(ColltoolError, match="needs two algorithms"):
        colltool.crossover(TWO, "ar", algorithms=["ring"])
    with pytest.raises(ColltoolError, match="needs two algorithms"):
        colltool.crossover(TWO, "ar", algorithms=["ring", "ring"])


# --- the quadratic
# ------------------------------------------------------------------------------------------------------

coefficients = st.floats(-1e3, 1e3).filter(lambda x: abs(x) > 1e-3)


@given(st.floats(0.01, 1e4), st.floats(1.01, 1e6), coefficients)
def test_roots_of_a_made_up_quadratic(one: float, apart: float, scale: float) -> None:
    """b(x - one)(x - other) in x = sqrt(M), moved to a curve and back."""
    other = one * apart
    made = Curve(scale * one * other, scale, -scale * (one + other))
    roots = positive_roots(made, Curve(0.0, 0.0))
    assert roots == pytest.approx([one**2, other**2], rel=1e-6)


@swept(
    ("curve", "expected"),
    [
        (Curve(0, 0, 0), []),
        (Curve(1, 0, 0), []),
        (Curve(1, 1, 0), []),
        (Curve(-1, 0.5, 0), [2]),
        (Curve(-2, 0, 1), [4]),
        (Curve(2, 0, 1), []),
        (Curve(1, 1, 1), []),
        (Curve(1, 1, -2), [1]),
        (Curve(0, 1, -3), [9]),
        (Curve(-4, 1, -3), [16]),
        (Curve(5, 1, -3), []),
        (Curve(2, 1, -3), [1, 4]),
    ],
)
def test_roots_by_hand(curve: Curve, expected: list[float]) -> None:
    assert positive_roots(curve, Curve(0, 0, 0)) == pytest.approx(expected)
    assert positive_roots(Curve(0, 0, 0), curve) == pytest.approx(expected)


# --- winners
# ------------------------------------------------------------------------------------------------------------

FABRICS = {
    "star": fabric(star(64, 0.5, 900.0)),
    "nvl72": "nvl72",
    "dgx-h100": "dgx-h100",
    "torus512": "torus512",
    "torus+clos": fabric(torus(4, 4), clos(8, (4, 2.0), (8, 6.0, 8.0))),
}


@swept(
    "model",
    [{}, {"ideal": True}, {"placement": "scattered"}, {"pipelining": 8}, {"phases": "pipelined"}],
    most=1,
)
@swept("primitive", ["ar", "ag", "a2a", "bc"])
@swept("where", FABRICS.values())
def test_the_winner_is_the_fastest_of_all_that_may_lead(
    where: Fabric | str, primitive: str, model: dict[str, object]
) -> None:
    loaded = colltool.load_fabric(where) if isinstance(where, str) else where
    winners = colltool.crossover(loaded, primitive, **model).winners
    assert winners[0].from_bytes == 1.0
    assert winners[-1].to_bytes is None
    assert all(one.to_bytes == other.from_bytes for one, other in pairwise(winners))
    assert all(
        (one.algorithm, one.protocol) != (other.algorithm, other.protocol)
        for one, other in pairwise(winners)
    )
    for size in [10 ** (k / 2) for k in range(25)]:
        (winner,) = (
            w for w in winners if w.from_bytes <= size and (w.to_bytes is None or size < w.to_bytes)
        )
        real = {
            r.title: float(r.total_s)
            for r in colltool.price(loaded, primitive, size=size, **model).leading
        }
        assert winner.algorithm in real
        assert real[winner.algorithm] == pytest.approx(min(real.values()), rel=1e-9)


@pytest.mark.parametrize("primitive", ["ar", "bc"])
def test_winners_with_optimal_segments(primitive: str) -> None:
    for where in (FABRICS["star"], colltool.load_fabric("torus512")):
        winners = colltool.crossover(where, primitive, pipelining="optimal").winners  # type: ignore[arg-type]
        for size in [10 ** (k / 4) for k in range(49)]:
            (winner,) = (
                w
                for w in winners
                if w.from_bytes <= size and (w.to_bytes is None or size < w.to_bytes)
            )
            rows = colltool.price(where, primitive, size=size, pipelining="optimal").leading
            real = {row.title: float(row.total_s) for row in rows}
            assert real[winner.algorithm] <= min(real.values()) * (1 + 1e-9), (size, winner)


def test_hypothetical_rows_win_nothing() -> None:
    for primitive in ("ar", "ag", "a2a"):
        names = {winner.algorithm for winner in colltool.crossover("nvl72", primitive).winners}
        assert not names & {"inner-ring", "inner-pairwise"}
    torus = {winner.algorithm for winner in colltool.crossover("torus512", "ar").winners}
    assert "dim-rabenseifner" not in torus  # idealised: executed it takes twice its price


def test_on_one_rank_pair_the_usual_pairs_may_coincide() -> None:
    for primitive in ("ar", "ag", "rs", "a2a", "bc", "reduce"):
        for pair in colltool.crossover(fabric(star(2)), primitive).pairs:
            assert pair.dominates is not None or pair.crossings


def test_a_pair_of_which_one_was_measured_says_so() -> None:
    """A ring that reaches half of its wires, as NCCL was measured to, beside a tree that NCCL does
    not run."""
    half = [{"algorithm": "ring", "primitives": ["all_reduce"], "share": 0.5}]
    told = fabric(star(64), library={"name": "nccl", "reached": half})
    assert colltool.crossover(told, "ar", algorithms=["ring", "tree"]).uneven
    assert not colltool.crossover(fabric(star(64)), "ar", algorithms=["ring", "tree"]).uneven
    assert not colltool.crossover(told, "ar", algorithms=["tree", "double-binary-tree"]).uneven
    # has no figures
    assert not colltool.crossover(
        under_library(told, "mpi"), "ar", algorithms=["ring", "tree"]
    ).uneven
