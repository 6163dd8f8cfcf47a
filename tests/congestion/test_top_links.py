"""The busiest resources by name, and the strips of shades: who comes first among equals, and what
is compared with what."""

from __future__ import annotations

import colltool
from colltool.base.primitives import P2P
from colltool.congestion.heat import CELLS, HOTTEST
from colltool.congestion.layout_groups import GroupLayout, Layout
from tests import small


def test_of_equally_busy_lines_the_first_is_named_even_where_rounding_makes_the_second_larger() -> (
    None
):
    """0.1 + 0.2 is not 0.2 + 0.1 of a third: what rank 0 sends and takes is the same but for the
    order of adding up."""
    sent = [1.8, 7.3, 9.8]
    matrix = [[0, *sent], *([[taken, 0, 0, 0] for taken in reversed(sent)])]
    result = colltool.contention(small.fabric(small.star(4)), {}, matrix=matrix, per_link=True)
    loads = {link.link: link.load for link in result.links}
    assert 0 < loads["t1 rank 0 in"] - loads["t1 rank 0 out"] < 1e-12
    assert result.groups[0].busiest == "t1 rank 0 out"
    assert [link.link for link in result.hottest[:2]] == ["t1 rank 0 out", "t1 rank 0 in"]


def test_of_equally_busy_resources_the_first_is_named() -> None:
    """Every rank of the ring sends alike; of the hot destinations the first, and not the sender 0,
    whatever their order."""
    fabric = small.fabric(small.star(12))
    rings = colltool.contention(fabric, {"kind": "block", "group": 4})
    assert [group.busiest for group in rings.groups] == [
        "t1 rank 0 out",
        "t1 rank 4 out",
        "t1 rank 8 out",
    ]
    hot = colltool.contention(
        fabric, {"group": 6, "count": 1, "start": 5}, hot=3, hot_members=(4, 2)
    )
    assert hot.groups[0].busiest == "t1 rank 7 in"


def test_a_group_s_busiest_is_by_load_over_capacity() -> None:
    """16 ranks in two leaves: 8 rings of 2 across them load ports with 1 M of 50 GB/s and uplinks
    with 8 M of 8/3 ports."""
    fabric = small.fabric(small.clos(16, (8, 1.0), (16, 2.0, 3), bw=50.0))
    result = colltool.contention(fabric, {"kind": "cyclic", "group": 2, "stride": 8}, size=1e6)
    assert {group.busiest for group in result.groups} == {"t1 l1 0 uplinks"}
    assert (result.slowdown, result.groups[0].together_s) == (3.0, 3 * 1e6 / 50e9)
    # alone: 1/8 of the load on the uplinks, so its port
    assert result.groups[0].interference == 3.0
    assert [link.groups for link in result.hottest[:5]] == [8, 8, 8, 8, 1]
    assert result.hottest[0].capacity_Bps == 8 / 3 * 50e9
    assert {link.over_ideal for link in result.hottest[:4]} == {3.0}


def test_a_link_is_compared_with_the_group_that_it_hurts_most() -> None:
    """An all-reduce of 1.5 M a rank and a message of 1 M into its first port: 2.5 of 1 against 2.5
    of 1.5."""
    groups = [
        GroupLayout("ring", (0, 1, 2, 3), (0, 1, 2, 3)),
        GroupLayout("send", (4, 0), (4, 0), primitive=P2P),
    ]
    result = colltool.contention(small.fabric(small.star(5)), Layout("made", groups))
    assert (result.hottest[0].link, result.hottest[0].load) == ("t1 rank 0 in", 2.5)
    assert (result.hottest[0].over_ideal, result.hottest[0].groups) == (2.5, 2)
    assert [group.slowdown for group in result.groups] == [1.666666667, 2.5]
    assert (result.loaded, result.shared) == (9, 1)


def test_tail_over_mean_is_of_the_resources_that_a_group_uses() -> None:
    fabric = small.fabric(small.star(6))
    assert (
        colltool.contention(fabric, {"group": 2, "count": 1}, primitive="p2p")
        .groups[0]
        .tail_over_mean
        == 1.0
    )
    assert (
        colltool.contention(fabric, {"group": 4, "count": 1}, primitive="bc")
        .groups[0]
        .tail_over_mean
        == 1.0
    )
    matrix = [[0, 3, 0], [1, 0, 0], [0, 2, 0]]  # in: 1, 5; out: 3, 1, 2
    assert (
        colltool.contention(fabric, {"group": 3, "count": 1}, matrix=matrix)
        .groups[0]
        .tail_over_mean
        == 1.666666667
    )


def test_the_hottest_are_few_and_all_are_kept_where_asked() -> None:
    fabric, pattern = small.fabric(small.star(32)), {"group": 32, "count": 1}
    few, every = (
        colltool.contention(fabric, pattern, hot=4, per_link=per_link) for per_link in (False, True)
    )
    assert (len(few.hottest), few.links, len(every.links)) == (HOTTEST, (), 64)
    assert few.hottest == every.hottest
    # 31/32 at most
    assert [link.link for link in few.hottest[:3]] == [
        "t1 rank 0 in",
        "t1 rank 1 out",
        "t1 rank 2 out",
    ]
    loads = [link.load for link in few.hottest]
    assert loads == sorted(loads, reverse=True)


def test_strips_are_shaded_by_load_over_capacity() -> None:
    """Ports carry 15/16 M; the uplinks of a leaf 8 ranks' 8/16 M each, over 2 ports' rate."""
    fabric = small.fabric(small.clos(16, (8, 1.0), (16, 2.0, 4), bw=50.0))
    lines = {line.line: line for line in colltool.contention(fabric, {}, primitive="a2a").lines}
    assert list(lines) == ["t1 ports out", "t1 ports in", "t1 l1 uplinks", "t1 l1 downlinks"]
    ports, uplinks = lines["t1 ports out"], lines["t1 l1 uplinks"]
    assert (ports.links, ports.loaded, ports.busiest, ports.mean, ports.per_cell) == (
        16,
        16,
        15 / 16,
        15 / 16,
        1,
    )
    assert (uplinks.links, uplinks.loaded, uplinks.busiest, uplinks.mean) == (2, 2, 4.0, 4.0)
    assert ports.cells == (15 / 32,) * 16
    assert uplinks.cells == (1.0, 1.0)


def test_long_lines_share_cells_that_show_their_busiest() -> None:
    fabric = small.fabric(small.star(2 * CELLS + 1))
    out, into = colltool.contention(
        fabric, {"group": 2, "count": 1, "start": 3}, primitive="p2p"
    ).lines
    assert (out.links, out.per_cell, len(out.cells)) == (2 * CELLS + 1, 3, 43)
    assert (out.loaded, out.busiest, out.mean) == (1, 1.0, 1.0)
    assert [place for place, cell in enumerate(out.cells) if cell] == [1]
    assert (out.cells[1], into.cells[1]) == (1.0, 1.0)
    assert CELLS == 64  # what a strip of 512 links is cut in: a character each 8


def test_lines_that_the_wiring_lacks_are_not_drawn() -> None:
    line = colltool.contention(small.fabric(small.mesh(4)), {"group": 2, "count": 1}).lines
    assert [(one.line, one.links, one.loaded) for one in line] == [
        ("t1 axis 1 +", 3, 1),
        ("t1 axis 1 -", 3, 1),
    ]
