"""Groups of a layout: strides as products of the sizes inside, experts on a grid of their own,
groups cut in two."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.training.parallel_config import (
    ParallelLayout,
    RankGroup,
    group_over,
    split_group,
    strides,
)

ORDER = ("tp", "cp", "ep", "dp", "pp")


def test_strides_are_the_product_of_the_sizes_inside() -> None:
    sizes = {"tp": 8, "cp": 2, "ep": 1, "dp": 4, "pp": 3}
    assert strides(sizes, ORDER) == {"tp": 1, "cp": 8, "ep": 16, "dp": 16, "pp": 64}
    assert strides(sizes, ("pp", "dp", "ep", "cp", "tp")) == {
        "pp": 1,
        "dp": 3,
        "ep": 12,
        "cp": 12,
        "tp": 24,
    }


def test_groups_of_each_dimension() -> None:
    layout = ParallelLayout(tp=8, cp=2, dp=4, pp=3)
    assert layout.ranks == 192
    assert layout.group("tp") == RankGroup(((8, 1),))
    assert layout.group("dp") == RankGroup(((4, 16),))
    assert layout.group("pp") == RankGroup(((3, 64),))
    assert layout.group("cp", "dp") == RankGroup(((8, 8),)), (
        "two dimensions that continue each other are one axis"
    )
    assert layout.group("tp", "pp") == RankGroup(((8, 1), (3, 64)))
    assert layout.group("ep") == RankGroup(()), "one rank alone"
    assert layout.group("ep").ranks == 1


def test_members() -> None:
    assert RankGroup(((4, 16),)).members == (0, 16, 32, 48)
    assert RankGroup(((2, 1), (2, 8))).members == (0, 1, 8, 9)


def test_experts_have_a_grid_of_their_own() -> None:
    """Megatron-Core: tp 2 x dp 32 of attention, 8 experts over neighbours and 8 replicas of
    each."""
    layout = ParallelLayout(tp=2, sp=True, ep=8, etp=1, dp=32, pp=4)
    assert layout.expert_dp == 2 * 32 // 8
    assert layout.group("ep", experts=True) == RankGroup(((8, 1),))
    assert layout.group("dp", experts=True) == RankGroup(((8, 8),))
    assert layout.group("pp", experts=True) == layout.group("pp") == RankGroup(((4, 64),))
    wide = layout._replace(etp=2)
    assert wide.group("ep", experts=True) == RankGroup(((8, 2),))
    assert wide.expert_dp == 4


def test_data_parallel_outside_of_experts_is_across_nodes() -> None:
    """64 nodes of 8, TP 8: a data parallel group is one rank a node."""
    assert ParallelLayout(tp=8, dp=64).group("dp") == RankGroup(((64, 8),))


sizes = st.fixed_dictionaries({name: st.integers(1, 4) for name in ORDER})


@given(sizes, st.permutations(ORDER), st.sets(st.sampled_from(ORDER), min_size=1))
def test_a_group_is_what_counting_ranks_gives(
    sizes: dict[str, int], order: list[str], names: set[str]
) -> None:
    """Against the enumeration of all coordinates, the first of the order fastest."""
    places: dict[tuple[int, ...], int] = {}
    for number, place in enumerate(product(*(range(sizes[name]) for name in reversed(order)))):
        places[tuple(reversed(place))] = number
    expected = sorted(
        number
        for place, number in places.items()
        if all(not at or name in names for name, at in zip(order, place, strict=True))
    )
    group = group_over(sizes, tuple(order), tuple(names))
    assert sorted(group.members) == expected
    assert group.ranks == len(expected)


@given(sizes, st.permutations(ORDER), st.integers(1, 64))
def test_a_cut_group_is_its_parts(sizes: dict[str, int], order: list[str], inner: int) -> None:
    group = group_over(sizes, tuple(order), ("cp", "dp", "tp"))
    try:
        inside, across = split_group(group, inner)
    except ValueError:
        assert group.ranks % inner or len(group.axes) > 1 or group.ranks < inner
        return
    assert inside.ranks == inner
    assert sorted(a + b for a in inside.members for b in across.members) == sorted(group.members)


@swept(("axes", "inner"), [(((8, 1),), 3), (((4, 1), (4, 16)), 6), (((2, 1),), 4)])
def test_parts_that_do_not_tile(axes: Any, inner: int) -> None:
    with pytest.raises(ValueError, match="do not tile"):
        split_group(RankGroup(axes), inner)
