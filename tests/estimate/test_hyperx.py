"""HyperX with switches and without: the same wiring as tiers, loads by hand, all axes at once,
executions and the cut bound."""

from __future__ import annotations

from math import prod

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import M, below_the_cut, seconds
from small import Tier, clos, dragonfly, fabric, full_mesh, graph, hyperx, star
from swept import swept

import colltool
from colltool.extras.synthesis.hyperx import axis_orders, axis_split
from colltool.fabric.model import Fabric
from colltool.network.wires import HyperXWires

US = 1e-6


@pytest.mark.parametrize(
    ("of", "as_it_is", "algorithms"),
    [
        (hyperx(6), full_mesh(6), {"ag": "direct", "a2a": "direct", "ar": "two-shot"}),
        (
            hyperx(1, hosts=8, alpha=2.0),
            star(8, alpha=2.0),
            {"ag": "ring", "ar": "recursive-doubling", "a2a": "direct"},
        ),
    ],
    ids=["one axis is a full mesh", "one switch is a star"],
)
def test_the_same_wiring_costs_the_same(
    of: dict[str, object], as_it_is: dict[str, object], algorithms: dict[str, str]
) -> None:
    for primitive, algorithm in algorithms.items():
        assert seconds(fabric(of), primitive, algorithm) == pytest.approx(
            seconds(fabric(as_it_is), primitive, algorithm)
        )


def test_all_to_all_by_hand() -> None:
    """A rank of a 4 x 3 has N/4 messages over each of its three links on the first axis, N/3 over
    those on the second."""
    assert seconds(fabric(hyperx(4, 3)), "a2a", "direct") == pytest.approx(2 * US + M / 3 / 100e9)
    slower = hyperx(4, 3, links=[{}, {"bandwidth": "50GB/s", "alpha": "3us"}])
    assert seconds(fabric(slower), "a2a", "direct") == pytest.approx(4 * US + M / 3 / 50e9)


def test_switches_share_their_links() -> None:
    """Two hosts of a switch send half of what they send to each of three others, over one link of
    40 GB/s to each."""
    tier = hyperx(4, hosts=2, links=[{"bandwidth": "40GB/s", "alpha": "0.5us"}])
    per_link = 2 * 2 * M / 8
    assert seconds(fabric(tier), "a2a", "direct") == pytest.approx(1.5 * US + per_link / 40e9)
    # three ranks behind each port: three ports in, the links as they were
    ranks = fabric(star(3, bw=900.0), tier)
    assert seconds(ranks, "a2a", "direct") == pytest.approx(1.5 * US + 6 * 6 * M / 24 / 40e9)


@swept("shape", [(4, 4), (3, 3, 3), (2, 2, 2, 2)])
def test_all_axes_reach_the_bound_where_axes_are_alike(shape: tuple[int, ...]) -> None:
    ranks, links = prod(shape), sum(size - 1 for size in shape)
    wanted = 2 * len(shape) * US + 2 * (ranks - 1) / ranks * M / (links * 100e9)
    assert seconds(fabric(hyperx(*shape)), "ar", "all-axes") == pytest.approx(wanted)


@given(
    st.lists(
        st.tuples(st.integers(2, 6), st.sampled_from([10.0, 25.0, 50.0, 100.0])),
        min_size=2,
        max_size=4,
    )
)
@settings(max_examples=examples(60), deadline=None)
def test_parts_of_a_payload(axes: list[tuple[int, float]]) -> None:
    """They add up, none is negative, no axis is busier than said, and no rank sends faster than all
    of its links."""
    shape, rates = zip(*axes, strict=True)
    wires = HyperXWires(prod(shape), 0, shape, rates, (0.0,) * len(shape))
    took, parts = axis_split(wires)
    assert sum(parts) == pytest.approx(1)
    assert min(parts) >= -1e-9
    busy = dict.fromkeys(range(len(shape)), 0.0)
    for part, order in zip(parts, axis_orders(wires), strict=True):
        for place, axis in enumerate(order):
            busy[axis] += part / prod(shape[one] for one in order[: place + 1]) / rates[axis]
    assert max(busy.values()) == pytest.approx(took)
    bound = (1 - 1 / prod(shape)) / sum((size - 1) * rate for size, rate in axes)
    assert took >= bound * (1 - 1e-9)
    equal = max(
        sum(
            1 / len(shape) / prod(shape[one] for one in order[: order.index(axis) + 1])
            for order in axis_orders(wires)
        )
        / rates[axis]
        for axis in range(len(shape))
    )
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
def test_executed_schedules_take_what_they_are_priced_at_and_no_price_is_below_the_cut(
    of: Fabric,
) -> None:
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


def test_of_three_axes_none_comes_first_more_often() -> None:
    """A cube of links is the same network as a graph: what is no neighbour is spread over the same
    ways."""
    cube = [(node, node ^ bit) for node in range(8) for bit in (1, 2, 4) if node < node ^ bit]
    for primitive, name in (("ar", "double-binary-tree"), ("bc", "binomial"), ("p2p", "send")):
        as_axes, as_graph = (
            seconds(fabric(one), primitive, name) for one in (hyperx(2, 2, 2), graph(*cube))
        )
        assert as_axes == pytest.approx(as_graph)


def test_a_message_goes_over_the_outermost_tier_however_wide_the_inner_one() -> None:
    """Six ranks of two domains, which one link of 25 GB/s joins; inside a port has 40."""
    where = fabric(star(3, bw=40.0), hyperx(4, 4, bw=25.0))
    assert seconds(where, "p2p", "send", ranks=6) == pytest.approx(1e-6 + M / 25e9)
    assert colltool.verify(where, "p2p", ranks=6, algorithms="send").results[0].verdict == "proved"


@pytest.mark.parametrize(
    "outer",
    [{"rails": "only"}, {"planes": {"count": 4, "spread": "ecmp"}}],
    ids=["rails", "planes"],
)
def test_what_is_not_followed_link_by_link_is_refused_and_the_rest_priced(outer: Tier) -> None:
    """Flows hashed to planes, and rails that never meet: tier by tier they are known."""
    where = fabric(hyperx(8, bw=50.0), clos(4, alpha=1.0, bw=25.0, **outer))
    found = colltool.price(where, "ar", size=M, library="all")
    assert {row.algorithm for row in found.results} == {"hierarchical", "leader"}
    assert "link by link" in next(
        one.reason for one in found.infeasible if one.algorithm == "multi-rail-ring"
    )


def test_a_reduction_goes_up_what_a_broadcast_comes_down() -> None:
    """Links load differently both ways: the price is of the dearer, so that neither takes
    longer."""
    where = fabric(full_mesh(3, bw=100.0), graph((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), bw=25.0))
    for primitive in ("bc", "reduce"):
        assert colltool.verify(where, primitive, algorithms="pipelined-tree").holds


@pytest.mark.parametrize(
    "where",
    [fabric(dragonfly(2, 2, 2)), fabric(star(4), hyperx(2, 4))],
    ids=["dragonfly", "HyperX"],
)
def test_a_slow_rank_is_priced_on_links_of_several_kinds(where: Fabric) -> None:
    rows = colltool.price(where, "bc", size=M, library="all", slow_rank=0.5).results
    known = [row for row in rows if row.slow is not None and row.slow.total_s is not None]
    assert known
    assert all(row.total_s <= row.slow.total_s <= 2 * row.total_s * (1 + 1e-9) for row in known)
