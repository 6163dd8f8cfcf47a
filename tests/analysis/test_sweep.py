"""Sweeps: each cell is what price says there, axes are read as they are typed, and what changes is
told."""

from __future__ import annotations

from itertools import pairwise

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.analysis.axes import axes_of, axis_of
from colltool.analysis.sweep import CLOSE
from colltool.base.errors import ColltoolError

pytestmark = pytest.mark.usefixtures("datasheet")


def test_each_cell_is_a_price() -> None:
    found = colltool.sweep(
        ["dgx-h100", "nvl72"],
        "ar",
        ranks=[8, 64],
        sizes=["64KB", "1GB"],
        vary=["ib.bandwidth=25GB/s,50GB/s", "ideal=true,false"],
    )
    assert len(found.cells) == 32
    for cell in found.cells:
        name, ranks, size, rate, ideal = cell.at
        price = colltool.price(
            colltool.load_fabric(name, [f"ib.bandwidth={rate}"]),
            "ar",
            size=size,
            ranks=ranks,
            ideal=ideal,
        )
        assert (cell.algorithm, cell.total_s) == (
            price.best.title,
            pytest.approx(price.best.total_s, rel=1e-12),
        )
        assert cell.busbw_Bps == pytest.approx(price.best.busbw_Bps)
        assert cell.alpha_share == pytest.approx(price.best.alpha_s / price.best.total_s)
        second = price.leading[1]
        assert (cell.runner_up, cell.runner_up_s) == (second.title, pytest.approx(second.total_s))
        without = colltool.price(
            colltool.load_fabric(name, [f"ib.bandwidth={rate}"]),
            "ar",
            size=size,
            ranks=ranks,
            ideal=True,
        )
        assert cell.ideal == min(without.leading, key=lambda row: float(row.total_s)).title


@settings(max_examples=examples(12), deadline=None)
@given(
    st.sampled_from(["dgx-h100", "dgx-a100", "clos-4to1", "dgx-h100-measured"]),
    st.sampled_from(["ar", "bc", "reduce"]),
    st.sampled_from(["all", "mpi"]),
    st.lists(st.floats(3, 9), min_size=3, max_size=5, unique=True),
    st.sampled_from(
        [[], ["pipelining=asymptotic,8"], ["{}.bandwidth=5GB/s,400GB/s"], ["{}.eta.beta=0.2,1"]]
    ),
)
def test_a_cell_names_who_is_first_and_second_as_price_does(
    name: str, primitive: str, library: str, powers: list[float], vary: list[str]
) -> None:
    """Of one composition many choices are fastest somewhere on a grid; a price lists those that are
    at its own size."""
    tier = colltool.load_fabric(name).tiers[-1].name
    vary = [one.format(tier) for one in vary]
    found = colltool.sweep(
        name,
        primitive,
        ranks=128,
        sizes=[10**power for power in powers],
        vary=vary,
        library=library,
    )
    key = vary[0].partition("=")[0] if vary else ""
    for cell in found.cells:
        own = dict(zip([axis.key for axis in found.axes], cell.at, strict=True))
        fabric = colltool.load_fabric(name, [f"{key}={own[key]}"] if "." in key else [])
        reading = {key: own[key]} if key and "." not in key else {}
        price = colltool.price(
            fabric, primitive, size=own["bytes"], ranks=128, library=library, **reading
        )
        second = price.leading[1] if len(price.leading) > 1 else None
        assert (cell.algorithm, cell.runner_up) == (price.best.title, second and second.title)
        assert cell.runner_up_s == (second and pytest.approx(second.total_s))


def test_shapes_and_sizes_are_axes() -> None:
    found = colltool.sweep("torus512", "ar", sizes=["16MB"], vary="torus.shape=8x8x8,16x8x4,32x4x4")
    totals = [cell.total_s for cell in found.cells]
    alone = [
        colltool.price(
            colltool.load_fabric("torus512", [f"torus.shape={shape}"]), "ar", size="16MB"
        ).best.total_s
        for shape in ("[8, 8, 8]", "[16, 8, 4]", "[32, 4, 4]")
    ]
    assert totals == pytest.approx(alone)
    assert [cell.at[3] for cell in found.cells] == ["[8, 8, 8]", "[16, 8, 4]", "[32, 4, 4]"]


def test_contention_from_none_to_much() -> None:
    """Collectives Explainer Series 05 section 7: 16 MB on 512 ranks, eta from (1, 1) to (1.5,
    0.4)."""
    for fabric, algorithm, ideal, worst in (
        ("star512", "in-network", 18.8, 45.9),
        ("star512", "double-binary-tree", 44.6, 102.4),
        ("torus512", "dim-ring", 56.5, 120.2),
    ):
        tier = colltool.load_fabric(fabric).tiers[0].name
        vary = [f"{tier}.eta.alpha=1,1.5", f"{tier}.eta.beta=1,0.4"]
        if algorithm == "in-network":  # whose switches have a share of their own
            vary.append(f"{tier}.in_network.eta_beta=1,0.4")
        cells = colltool.sweep(fabric, "ar", sizes=["16MB"], vary=vary, algorithms=algorithm).cells
        assert [cells[0].total_s * 1e6, cells[-1].total_s * 1e6] == pytest.approx(
            [ideal, worst], rel=0.02
        )


def test_where_the_winner_changes() -> None:
    found = colltool.sweep("dgx-h100", "ar", ranks=8, sizes=["1MB", "16MB", "1GB"])
    (change,) = found.changes
    assert (change.axis, change.last, change.first) == ("bytes", 1e6, 16e6)
    assert (change.before, change.after) == (found.cells[0].algorithm, found.cells[1].algorithm)
    # what NCCL runs is what a cell shows
    picked = colltool.crossover("dgx-h100", "ar", ranks=8).picks[1].from_bytes
    assert 1e6 < picked < 16e6


def test_close_and_differing_cells() -> None:
    found = colltool.sweep("dgx-h100", "ar", ranks=[8, 64])
    assert found.close
    assert found.differing
    for cell in found.cells:
        assert (cell in found.close) == (cell.runner_up_s / cell.total_s - 1 <= CLOSE)
        assert (cell in found.differing) == (cell.ideal != cell.algorithm)


def test_a_point_that_cannot_be_priced_says_why() -> None:
    found = colltool.sweep(["mi300x", "dgx-h100"], "ar", ranks=[8, 64], sizes=["1MB"])
    (empty,) = [cell for cell in found.cells if cell.algorithm is None]
    assert empty.at[:2] == ("mi300x", 64)
    assert "8" in empty.reason
    with pytest.raises(ColltoolError, match="mi300x"):
        colltool.sweep("mi300x", "ar", ranks=64)


def test_a_pivot_holds_every_cell_once() -> None:
    found = colltool.sweep(
        "dgx-h100", "ar", ranks=[8, 16, 64], sizes=["1MB", "1GB"], vary="ib.bandwidth=25GB/s,50GB/s"
    )
    shown = found.pivoted("busbw")
    assert (shown.pivot.rows, shown.pivot.cols) == ("ranks", "bytes")
    from colltool.analysis.sweep import pivot_tables

    tables = list(pivot_tables(found, shown.pivot))
    assert [dict(at)["ib.bandwidth"] for at, _ in tables] == ["25GB/s", "50GB/s"]
    for at, rows in tables:
        for ranks, row in zip((8, 16, 64), rows, strict=True):
            for size, cell in zip((1e6, 1e9), row, strict=True):
                assert cell.at == ("dgx-h100", ranks, size, dict(at)["ib.bandwidth"])
    assert found.pivoted("total", rows="bytes").pivot == ("total", "bytes", "ib.bandwidth")


@given(st.floats(0.1, 10), st.floats(1.5, 100), st.integers(2, 50), st.booleans())
def test_ranges(low: float, factor: float, count: int, log: bool) -> None:
    found = axis_of(f"ib.alpha={low}us:{low * factor}us:{count}{'log' if log else ''}").values
    numbers = [float(one.removesuffix("us")) for one in found]
    assert len(numbers) == count
    assert [numbers[0], numbers[-1]] == [low, low * factor]
    steps = [b / a if log else b - a for a, b in pairwise(numbers)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-6)


@swept(
    ("typed", "words"),
    [
        (["ib.bandwidth"], "expected KEY=V1,V2"),
        (["ib.bandwidth="], "expected KEY=V1,V2"),
        (["ib.bandwidth=100GB/s:25GB/s:4"], "upside down"),
        (["ib.bandwidth=25GB/s:100GB/s:1"], "a range of 1 values"),
        (["ib.bandwidth=25GB/s:800Gbps:4"], "different units"),
        (["ib.eta.beta=0:1:4log"], "start above 0"),
        (["ib.bandwidth=25GB/s,,50GB/s"], "empty value"),
        (["ib.bandwidth=25GB/s,25GB/s"], "stands twice"),
        (["ib.bandwidth=1GB/s,2GB/s", "ib.bandwidth=3GB/s,4GB/s"], "varied twice"),
        (["ideal=maybe,true"], "true or false"),
        (["placement=packed,heaped"], "no 'heaped'"),
        (["tree_beta=0,1"], "must lie between 1 and 2, got 0.0"),
        (["tree_beta=nan,2"], "must lie between 1 and 2, got nan"),
        (["pipelining=-1,2"], "-1 is not known"),
        (["pipelining=0,2"], "0 is not known"),
        (["pipelining=99999999999999999999,2"], "more than 15 digits"),
        (["ranks=8,16"], "an axis of its own"),
        (["bytes=8,16"], "an axis of its own"),
    ],
)
def test_axes_that_are_none(typed: list[str], words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        axes_of(typed)
