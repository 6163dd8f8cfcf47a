"""What groups run, and who is in them: layouts made in Python, names as data, tiers that carry
nothing."""

from __future__ import annotations

import re

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.congestion.layout_groups import GroupLayout, Layout
from tests import small
from tests.wiring import on

NAN, INF = float("nan"), float("inf")


@swept(
    "tier",
    [small.star(1), small.full_mesh(1), small.torus(1), small.mesh(1, 1), small.clos(1, (1, 1.0))],
)
def test_a_tier_of_one_endpoint_carries_nothing(tier: small.Tier) -> None:
    for fabric in (
        small.fabric(small.star(4), tier),
        small.fabric(tier, small.star(4)),
        small.fabric(tier, small.torus(4)),
    ):
        result = colltool.contention(fabric, {}, per_link=True)
        assert result.slowdown == 1
        assert {link.load for link in result.links} == {1.5}
    with pytest.raises(ColltoolError, match="small has one rank: nothing to send"):
        colltool.contention(small.fabric(tier), {})


@swept(
    ("groups", "what"),
    [
        ([], "layout 'made' has no groups"),
        ([GroupLayout("a", (), ())], "group 'a' has 0 ranks"),
        ([GroupLayout("a", (0, 1), (0, 1)), GroupLayout("b", (2,), (2,))], "group 'b' has 1 ranks"),
        ([GroupLayout("a", (0, 1), (0, 512))], "endpoint 512 is outside star512"),
        ([GroupLayout("a", (0, 1), (0, -1))], "endpoint -1 is outside star512"),
        ([GroupLayout("a", (0, 1, 2), (5, 3, 5))], "endpoint 5 is in a group twice"),
        *(
            ([GroupLayout("a", (0, 1), (0, 1), size=size)], f"a size of {size} bytes")
            for size in (0.0, -1.0, NAN, INF, 5e-324)
        ),
        ([GroupLayout("a", (0, 1), (0, 1), algorithm="")], ""),
    ],
)
def test_a_layout_made_in_python_is_checked(groups: list[GroupLayout], what: str) -> None:
    if not what:  # no name is no name of its own
        assert colltool.contention("star512", Layout("made", groups)).groups[0].algorithm == "ring"
        return
    with pytest.raises(ColltoolError, match=re.escape(what)):
        colltool.contention("star512", Layout("made", groups))


def test_an_algorithm_that_is_no_name() -> None:
    with pytest.raises(ColltoolError, match="expected the name of an algorithm, got 5"):
        on("star512", group=8, algorithm=5)


@swept("name", ["a\nb", "x|y", "=1+1", "\x1b[31m", "\u202e", "", "[red]"])
def test_names_are_data(name: str) -> None:
    """Escaped where they leave the program, not here: the group is found again under its own
    name."""
    groups = [GroupLayout(name, (0, 2), (0, 2)), GroupLayout("other", (1, 3), (1, 3))]
    result = colltool.contention(small.fabric(small.mesh(8)), Layout("made", groups))
    assert [group.name for group in result.groups] == [name, "other"]
    assert result.etas[0].group == name


def test_a_million_ranks_are_two_arrays_until_somebody_looks() -> None:
    result = colltool.contention(small.fabric(small.clos(64, (8, 1.0), (64, 2.0))), {"group": 2})
    assert repr(result.groups) == "GroupCosts(32 groups)"
    assert result.groups[-1].name == "g31"
    assert [group.name for group in result.groups[1:3]] == ["g1", "g2"]
    assert [group.busiest for group in result.groups[:2]] == ["t1 rank 0 out", "t1 rank 2 out"]
    with pytest.raises(IndexError):
        result.groups[32]
    again = colltool.contention(small.fabric(small.clos(64, (8, 1.0), (64, 2.0))), {"group": 2})
    assert result == again
    assert (
        result.groups
        != colltool.contention(
            small.fabric(small.clos(64, (8, 1.0), (64, 2.0))), {"group": 4}
        ).groups
    )
