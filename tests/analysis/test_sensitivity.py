"""Sensitivity: the same draws by price, flips to the last digit, ranges as they are typed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.analysis.benchmark_command import experiment
from colltool.analysis.what_if import MOST_DRAWN, affordable, draws
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import AR
from colltool.fabric.library_numbers import under_library
from colltool.fabric.ranges import USUAL, parameter_ranges
from colltool.fabric.values import numbers_of, with_values
from colltool.render.dispatch import rendered

pytestmark = pytest.mark.usefixtures("datasheet")

WIDE = ["eta.beta=0.4:1", "alpha=4x"]


def test_every_sample_is_a_price() -> None:
    fabric = colltool.load_fabric("dgx-h100")
    found = colltool.sensitivity(fabric, "ar", size="32MB", ranks=64, vary=WIDE, samples=40, seed=3)
    drawn = draws(found.numbers, 40, 3)
    totals: dict[str, list[float]] = {row.algorithm: [] for row in found.rows}
    best = []
    for sample in range(40):
        one = with_values(fabric, {place: float(values[sample]) for place, values in drawn.items()})
        prices = {
            row.title: row.total_s
            for row in colltool.price(one, "ar", size="32MB", ranks=64).leading
        }
        named = colltool.price(
            one, "ar", size="32MB", ranks=64, algorithms=[row.spec for row in found.rows]
        ).results
        for row in named:
            totals[row.title].append(float(row.total_s))
        best.append(min(prices.values()))
    for row in found.rows:
        assert [row.p5_s, row.p50_s, row.p95_s] == pytest.approx(
            list(np.quantile(totals[row.algorithm], (0.05, 0.5, 0.95)))
        )
        assert row.wins == pytest.approx(
            np.mean(np.array(totals[row.algorithm]) <= np.array(best) * (1 + 1e-12))
        )
    regret = np.array(totals[found.winner]) / np.array(best) - 1
    assert found.holds == pytest.approx(np.mean(regret <= 1e-12))
    assert [found.regret_mean, found.regret_p95] == pytest.approx(
        [regret.mean(), np.quantile(regret, 0.95)]
    )
    assert sum(row.wins for row in found.rows) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "ranks", "size"),
    [("dgx-h100", 64, "32MB"), ("dgx-h100", 8, "16MB"), ("clos-4to1", 512, "1MB")],
)
def test_a_flip_is_where_the_winner_changes(name: str, ranks: int, size: str) -> None:
    fabric = colltool.load_fabric(name)
    found = colltool.sensitivity(fabric, "ar", size=size, ranks=ranks, samples=100)
    assert found.flips
    places = {key: place for place, key in numbers_of(fabric).items()}
    nominal = {one.key: one.value for one in found.numbers}

    def winner(key: str, value: float) -> str:
        rows = colltool.price(
            with_values(fabric, {places[key]: value}), "ar", size=size, ranks=ranks
        ).leading
        # the fastest, whatever NCCL picks
        return min(rows, key=lambda row: float(row.total_s)).title

    for flip in found.flips:
        away = 1e-9 if flip.factor > 1 else -1e-9
        assert winner(flip.key, flip.value) == flip.winner
        assert winner(flip.key, flip.value * (1 + away)) == flip.winner
        assert winner(flip.key, flip.value * (1 - away)) == found.winner
        assert flip.value == pytest.approx(nominal[flip.key] * flip.factor)
        for part in np.geomspace(1, flip.factor * (1 - away), 7):
            assert winner(flip.key, nominal[flip.key] * part) == found.winner
    nearness = [abs(np.log(flip.factor)) for flip in found.flips]
    assert nearness == sorted(nearness)


def test_the_same_seed_gives_the_same() -> None:
    first, second, other = (
        colltool.sensitivity(
            "dgx-h100", "ar", size="32MB", ranks=64, vary=WIDE, seed=seed, samples=2000
        )
        for seed in (1, 1, 2)
    )
    assert first.rows == second.rows
    assert first.rows != other.rows


def test_a_number_that_settles_everything() -> None:
    """Where one number alone is uncertain, knowing it gains what the best choice in each of its
    values gains."""
    found = colltool.sensitivity("dgx-h100", "ar", size="16MB", ranks=64, vary="ib.eta.beta=0.4:1")
    (one,) = found.telling
    assert one.key == "ib.eta.beta"
    blind = min(row.p50_s for row in found.rows)
    assert 0 < one.gain_s < blind
    assert found.experiment == "mpirun -np 8 -N 1 ./build/all_reduce_perf -b 256M -e 4G -f 2 -g 1"


def test_nothing_to_settle() -> None:
    found = colltool.sensitivity("torus512", "ar", size="16MB")
    assert (found.holds, found.regret_p95, found.telling, found.experiment) == (1.0, 0.0, (), "")
    assert found.assumed
    assert [one.key for one in found.numbers] == [
        "torus.alpha",
        "torus.eta.beta",
        "torus.bandwidth",
    ]


def test_ranges() -> None:
    fabric = colltool.load_fabric("dgx-h100")
    found = {
        one.key: one
        for one in parameter_ranges(
            fabric, ["alpha=2x", "ib.alpha=4us:9us", "nvlink.eta.beta=20%", "ib.bandwidth=10%"]
        )
    }
    assert (found["nvlink.alpha"].low, found["nvlink.alpha"].high) == pytest.approx(
        (0.4e-6, 1.6e-6)
    )
    assert (
        found["ib.levels.leaf.alpha"].low,
        found["ib.levels.spine.alpha"].high,
    ) == pytest.approx((4e-6, 9e-6))
    assert (found["nvlink.eta.beta"].low, found["nvlink.eta.beta"].high) == pytest.approx(
        (0.64, 0.96)
    )
    assert (found["ib.bandwidth"].low, found["ib.bandwidth"].high) == pytest.approx((45e9, 55e9))
    assert not any("eta.alpha" in key for key in found)
    (tight,) = parameter_ranges(fabric, ["ib.eta.beta=30%"])
    assert tight.high == 1.0  # no more than all of it
    assert {one.key.rsplit(".", 1)[-1] for one in parameter_ranges(fabric, USUAL)} == {
        "alpha",
        "alpha_switch",
        "launch_overhead",
        "beta",
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "bandwidth",
    }


def test_alpha_is_every_latency() -> None:
    fabric = colltool.load_fabric("dgx-h100")
    assert [one.key for one in parameter_ranges(fabric, ["alpha=2x"])] == [
        "nvlink.alpha",
        "nvlink.in_network.alpha_switch",
        "ib.levels.leaf.alpha",
        "ib.levels.spine.alpha",
        "ib.in_network.alpha_switch",
        "launch_overhead",
    ]
    assert [one.key for one in parameter_ranges(fabric, ["nvlink.alpha=10%"])] == [
        "nvlink.alpha",
        "nvlink.in_network.alpha_switch",
    ]
    measured = {
        one.key for one in parameter_ranges(colltool.load_fabric("dgx-h100-measured"), ["alpha=2x"])
    }
    known = numbers_of(colltool.load_fabric("dgx-h100-measured")).values()
    protocols = [key.split(".") for key in known if "protocols" in key]
    latencies = {
        ".".join(key)
        for key in protocols
        if key[-1] in ("alpha", "launch_overhead") and key[-2] != "eta"
    }
    assert {key for key in measured if "protocols" in key} == latencies
    # the same ends for other things would be odd
    assert [one.key for one in parameter_ranges(fabric, ["alpha=1us:30us"])] == [
        "nvlink.alpha",
        "ib.levels.leaf.alpha",
        "ib.levels.spine.alpha",
    ]
    found = colltool.sensitivity(fabric, "ar", size="32MB", ranks=64, vary="alpha=2x")
    # 100% where the switches' latency is taken to be known
    assert found.holds == pytest.approx(0.799, abs=0.005)


def test_eta_beta_is_also_the_switches() -> None:
    fabric = colltool.load_fabric("dgx-h100")
    (own,) = [
        one
        for one in colltool.sensitivity(
            fabric, "ar", size="1MB", ranks=8, vary="eta.beta=10%", samples=100
        ).numbers
        if "in_network" in one.key
    ]
    assert (own.key, own.low, own.high) == (
        "nvlink.in_network.eta_beta.all_reduce",
        pytest.approx(0.549),
        pytest.approx(0.671),
    )
    every = parameter_ranges(fabric, ["nvlink.in_network.eta_beta=0.4:0.5"])
    assert {one.key.rsplit(".", 1)[-1] for one in every} == {
        "all_reduce",
        "all_gather",
        "reduce_scatter",
    }
    slow = with_values(fabric, {own.place: 0.3})
    prices = [
        colltool.price(one, "ar", size="1GB", ranks=8, algorithms="in-network").best.total_s
        for one in (fabric, slow)
    ]
    assert prices[1] > 1.5 * prices[0]


def test_contention_of_latency_is_a_plain_number() -> None:
    (one,) = parameter_ranges(colltool.load_fabric("dgx-h100"), ["ib.eta.alpha=1:1.5"])
    assert (one.key, one.low, one.high) == ("ib.eta.alpha", 1.0, 1.5)
    with pytest.raises(ColltoolError, match="lies between 1 and inf"):
        parameter_ranges(colltool.load_fabric("dgx-h100"), ["ib.eta.alpha=0.5:1.5"])
    (tight,) = parameter_ranges(colltool.load_fabric("dgx-h100"), ["nvlink.eta.alpha=2x"])
    assert (tight.low, tight.high) == (1.0, 2.0)


def test_a_factor_of_nothing() -> None:
    with pytest.raises(ColltoolError, match="launch_overhead is 0"):
        parameter_ranges(colltool.load_fabric("star512"), ["launch_overhead=2x"])
    assert not [
        one
        for one in parameter_ranges(colltool.load_fabric("star512"), ["alpha=2x"])
        if one.key == "launch_overhead"
    ]
    assert [
        one.high
        for one in parameter_ranges(colltool.load_fabric("star512"), ["launch_overhead=0us:5us"])
    ] == [5e-6]


def test_a_number_is_drawn_the_same_whatever_else_is() -> None:
    fabric = colltool.load_fabric("dgx-h100")
    alone, several = (
        draws(parameter_ranges(fabric, typed), 50, 3)
        for typed in (["ib.bandwidth=10%"], ["alpha=2x", "bandwidth=10%"])
    )
    for place, values in alone.items():
        assert (values == several[place]).all()
    first, second = (several[place] for place in list(several)[:2])
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.5


@swept("ends", ["eta.alpha", "alpha", "eta.beta"])
def test_uncertainty_takes_what_vary_takes(ends: str) -> None:
    how = {"eta.alpha": "1:1.5", "alpha": "2x", "eta.beta": "0.5:1"}[ends]
    data = {
        "schema": "colltool.fabric/1",
        "name": "mine",
        "uncertainty": {ends: how},
        "tiers": [
            {
                "name": "t",
                "topology": "star",
                "size": 8,
                "alpha": "1us",
                "bandwidth": "100GB/s",
                "eta": {"alpha": 1.2},
            }
        ],
    }
    found = colltool.sensitivity(data, "ar", size="1MB", samples=100)
    assert [one.key for one in found.numbers] == [f"t.{ends}"]


@swept(
    ("typed", "words"),
    [
        ("alpha", "expected KEY=RANGE"),
        ("alfa=2x", "'alfa' names no number of dgx-h100"),
        ("alpha=1x", "not a range"),
        ("alpha=150%", "not between"),
        ("alpha=9us:4us", "upside down"),
        ("eta.beta=0.5:1.5", "lies between"),
        ("alpha=fast", "is not a range"),
        ("ib.size=2x", "names no number"),
    ],
)
def test_ranges_that_are_none(typed: str, words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        parameter_ranges(colltool.load_fabric("dgx-h100"), [typed])


def test_a_fabric_may_say_what_is_uncertain() -> None:
    data = {
        "schema": "colltool.fabric/1",
        "name": "mine",
        "tiers": [
            {
                "name": "switch",
                "topology": "star",
                "size": 8,
                "alpha": "1us",
                "bandwidth": "100GB/s",
            }
        ],
        "uncertainty": {"switch.alpha": "2x", "bandwidth": "90GB/s:110GB/s"},
    }
    found = colltool.sensitivity(data, "ar", size="1MB", samples=500)
    assert not found.assumed
    assert [one.key for one in found.numbers] == ["switch.alpha", "switch.bandwidth"]
    with pytest.raises(ManyErrors, match="uncertainty"):
        colltool.load_fabric(data | {"uncertainty": {"switch.alfa": "2x"}})


@swept(
    ("key", "command"),
    [
        ("nvlink.alpha", "./build/all_reduce_perf -b 8 -e 64K -f 2 -g 8"),
        ("nvlink.eta.beta", "./build/all_reduce_perf -b 256M -e 4G -f 2 -g 8"),
        ("ib.levels.leaf.alpha", "mpirun -np 4 -N 1 ./build/all_reduce_perf -b 8 -e 64K -f 2 -g 1"),
    ],
)
def test_what_to_measure(key: str, command: str) -> None:
    assert experiment(colltool.load_fabric("dgx-h100"), AR, key, 32) == command


def test_what_to_measure_elsewhere() -> None:
    assert experiment(colltool.load_fabric("torus512"), AR, "torus.alpha", 512) == ""
    mpi = under_library(colltool.load_fabric("dgx-h100"), "mpi")
    assert (
        experiment(mpi, AR, "ib.bandwidth", 32)
        == "mpirun -np 4 -N 1 osu_allreduce -m 268435456:4294967296"
    )


@pytest.mark.parametrize("more", [{"tree_beta": 1.0}, {"pipelining": "optimal"}, {}], ids=str)
def test_a_winner_whose_name_stands_for_several_schedules(more: dict[str, Any]) -> None:
    found = colltool.sensitivity(
        "dgx-h100",
        "ar",
        ranks=16,
        size="64MB",
        samples=50,
        phases="pipelined",
        ring_alpha="worst",
        **more,
    )
    price = colltool.price(
        "dgx-h100", "ar", ranks=16, size="64MB", phases="pipelined", ring_alpha="worst", **more
    )
    assert found.winner == price.best.title
    assert all(one.low_s > 0 and one.high_s > 0 for one in found.moves)


def test_very_many_numbers_are_drawn_and_turned_less_often_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from colltool.analysis import sensitivity, what_if

    asked: dict[str, Any] = {"size": "32MB", "ranks": 64}
    whole = colltool.sensitivity("dgx-h100", "ar", **asked, samples=100)
    assert (whole.samples, whole.samples_asked, whole.flips_sought) == (
        100,
        100,
        len(whole.numbers),
    )
    assert "100 samples of" in rendered(whole, "table")
    monkeypatch.setattr(what_if, "MOST_DRAWN", 1000)
    for module in (sensitivity, what_if):
        monkeypatch.setattr(module, "MOST_EXAMINED", 6)
    monkeypatch.setattr(sensitivity, "LEAST_EXAMINED", 1)
    found = colltool.sensitivity("dgx-h100", "ar", **asked)
    count = len(found.numbers)  # more than MOST_EXAMINED: each is drawn less often
    assert found.samples == int(1000 / (count * count / 6)) < found.samples_asked == 100_000
    assert found.flips_sought == 36 // count
    assert f"{found.samples} samples (not 100000: there are too many numbers) of" in rendered(
        found, "table"
    )
    assert set(found.flips) < set(whole.flips)
    both = colltool.compare_sensitivity(["dgx-h100", "hgx-h200"], "ar", **asked)
    assert both.samples < both.samples_asked == 100_000
    assert f"{both.samples} samples (not 100000: there are too many numbers)" in rendered(
        both, "table"
    )


@swept("numbers", [0, 1, 11, 31, 83, 100, 101, 216, 537, 10**5])
def test_draws_are_bounded_whatever_is_asked(numbers: int) -> None:
    assert affordable(100, numbers) == (100 if numbers < 1000 else 1)
    assert affordable(100_000, min(numbers, 83)) == 100_000  # as many as shipped fabrics have
    assert affordable(10**6, numbers) * numbers <= max(MOST_DRAWN, numbers)
