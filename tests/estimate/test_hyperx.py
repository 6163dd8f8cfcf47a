"""HyperX with switches and without: the same wiring as tiers, loads by hand, all axes at once, executions and the cut bound."""

from __future__ import annotations

from math import prod

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import M, below_the_cut, seconds
from small import fabric, full_mesh, hyperx, star

import colltool
from colltool.algorithms.hyperx import shares, turned_axes
from colltool.algorithms.wires import HyperXWires
from colltool.fabric.model import Fabric

US = 1e-6


@pytest.mark.parametrize(
    ("of", "as_it_is", "algorithms"),
    [
        (hyperx(6), full_mesh(6), {"ag": "direct", "a2a": "direct", "ar": "two-shot"}),
        (hyperx(1, hosts=8, alpha=2.0), star(8, alpha=2.0), {"ag": "ring", "ar": "recursive-doubling", "a2a": "direct"}),
    ],
    ids=["one axis is a full mesh", "one switch is a star"],
)
def test_the_same_wiring_costs_the_same(of: dict[str, object], as_it_is: dict[str, object], algorithms: dict[str, str]) -> None:
    for primitive, algorithm in algorithms.items():
        assert seconds(fabric(of), primitive, algorithm) == pytest.approx(seconds(fabric(as_it_is), primitive, algorithm))


def test_all_to_all_by_hand() -> None:
    """A rank of a 4 x 3 has N/4 messages over each of its three links on the first axis, N/3 over those on the second."""
    assert seconds(fabric(hyperx(4, 3)), "a2a", "direct") == pytest.approx(2 * US + M / 3 / 100e9)
    slower = hyperx(4, 3, links=[{}, {"bandwidth": "50GB/s", "alpha": "3us"}])
    assert seconds(fabric(slower), "a2a", "direct") == pytest.approx(4 * US + M / 3 / 50e9)


def test_switches_share_their_links() -> None:
    """Two hosts of a switch send half of what they send to each of three others, over one link of 40 GB/s to each."""
    tier = hyperx(4, hosts=2, links=[{"bandwidth": "40GB/s", "alpha": "0.5us"}])
    per_link = 2 * 2 * M / 8
    assert seconds(fabric(tier), "a2a", "direct") == pytest.approx(1.5 * US + per_link / 40e9)
    ranks = fabric(star(3, bw=900.0), tier)  # three ranks behind each port: three ports in, the links as they were
    assert seconds(ranks, "a2a", "direct") == pytest.approx(1.5 * US + 6 * 6 * M / 24 / 40e9)


@pytest.mark.parametrize("shape", [(4, 4), (3, 3, 3), (2, 2, 2, 2)])
def test_all_axes_reach_the_bound_where_axes_are_alike(shape: tuple[int, ...]) -> None:
    ranks, links = prod(shape), sum(size - 1 for size in shape)
    wanted = 2 * len(shape) * US + 2 * (ranks - 1) / ranks * M / (links * 100e9)
    assert seconds(fabric(hyperx(*shape)), "ar", "all-axes") == pytest.approx(wanted)


@given(st.lists(st.tuples(st.integers(2, 6), st.sampled_from([10.0, 25.0, 50.0, 100.0])), min_size=2, max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_parts_of_a_payload(axes: list[tuple[int, float]]) -> None:
    """They add up, none is negative, no axis is busier than said, and no rank sends faster than all of its links."""
    shape, rates = zip(*axes, strict=True)
    wires = HyperXWires(prod(shape), 0, shape, rates, (0.0,) * len(shape))
    took, parts = shares(wires)
    assert sum(parts) == pytest.approx(1)
    assert min(parts) >= -1e-9
    busy = dict.fromkeys(range(len(shape)), 0.0)
    for part, order in zip(parts, turned_axes(wires), strict=True):
        for place, axis in enumerate(order):
            busy[axis] += part / prod(shape[one] for one in order[: place + 1]) / rates[axis]
    assert max(busy.values()) == pytest.approx(took)
    bound = (1 - 1 / prod(shape)) / sum((size - 1) * rate for size, rate in axes)
    assert took >= bound * (1 - 1e-9)
    equal = max(sum(1 / len(shape) / prod(shape[one] for one in order[: order.index(axis) + 1]) for order in turned_axes(wires))
                / rates[axis] for axis in range(len(shape)))  # fmt: skip
    assert took <= equal * (1 + 1e-9)


@pytest.mark.parametrize(
    "of",
    [
        fabric(hyperx(4, 3, links=[{}, {"bandwidth": "30GB/s"}])),
        fabric(hyperx(2, 3, hosts=2, links=[{"alpha": "0.2us"}, {"bandwidth": "50GB/s"}])),
        fabric(star(2, bw=400.0), hyperx(2, 2, hosts=2, links=[{"bandwidth": "150GB/s"}] * 2)),
        fabric(hyperx(2, 2), star(3, bw=25.0)),
    ],
    ids=["direct", "switches", "outer", "inner"],
)
def test_executed_schedules_take_what_they_are_priced_at_and_no_price_is_below_the_cut(of: Fabric) -> None:
    done = colltool.verify(of, size=M)
    assert done.holds
    assert sum(one.verdict == "proved" for one in done.results) > len(done.results) / 2
    assert below_the_cut(of) == []


def test_groups_are_boxes_where_ranks_forward() -> None:
    of = fabric(hyperx(4, 4))
    assert seconds(of, "a2a", "direct", ranks=8) == pytest.approx(2 * US + M / 2 / 100e9)
    with pytest.raises(colltool.ColltoolError, match="6 ranks"):
        colltool.price(of, "a2a", size=M, ranks=6)
    seconds(fabric(hyperx(2, 2, hosts=4)), "a2a", "direct", ranks=6)
