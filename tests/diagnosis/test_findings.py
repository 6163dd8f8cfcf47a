"""Findings on series whose cause is known, because they are made with it; and silence where the
numbers do not support one."""

from __future__ import annotations

from collections.abc import Sequence

from handmade import by_steps, judged, series
from small import clos, fabric, star, switch
from swept import swept

from colltool.base.statements import Statement
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.logs.series import Point

STAR = fabric(star(8, 1.0, 100.0), launch_overhead="5us")
NVLS = fabric(star(8, 1.0, 100.0, in_network=switch(0.2)), launch_overhead="5us")
RAILS = fabric(star(8, 1.0, 400.0), clos(4, alpha=5.0, bw=50.0))
SIZES = by_steps(1e3, 1e9, 2.0)
IN_TURN = ModelOptions(phases="sequential")
"""What the times below are made of: NCCL's tree, which streams, would beat it on two nodes."""
LARGE_SIZES = [64e6, 256e6, 1e9]


def ring(size: float) -> float:
    """On STAR: 2(N-1) alpha + 2(N-1)/N M/BW, and the launch."""
    return 5e-6 + 14e-6 + 1.75 * size / 100e9


def tree(size: float) -> float:
    """On STAR: 2 lg N alpha + 2 M/BW, and the launch."""
    return 5e-6 + 6e-6 + 2 * size / 100e9


def best(size: float) -> float:
    return min(ring(size), tree(size))


def multi_rail(size: float, nic: float = 50e9) -> float:
    """On RAILS, 16 ranks on 2 nodes: 30 steps, of which 2 of 16 hops cross; every NIC carries its
    eighth."""
    share = 1 / 8
    inside, outside = 30 / 16 * size / 400e9, 30 / 16 * size * share / nic
    return 30 * (14 * 1e-6 + 2 * 5e-6) / 16 + max(inside, outside)


def prices(of: Fabric, sizes: list[float], ranks: int, *algorithms: str) -> dict[float, float]:
    """What a fabric of domains of 8 prices at each size."""
    one = judged(
        of, series(lambda _: 1.0, sizes, ranks, nodes=ranks // 8), *algorithms, readings=IN_TURN
    )
    return {point.bytes: point.predicted_s for point in one.points}


def said(findings: Sequence[Statement], words: str) -> str:
    """The one finding with these words, or nothing."""
    found = [text for text in map(str, findings) if words in text]
    assert len(found) <= 1
    return found[0] if found else ""


def test_the_models_own_times_reach_what_the_fabric_should_give() -> None:
    one = judged(STAR, series(best, SIZES))
    assert tuple(map(str, one.findings)) == (
        "reaches the busbw predicted for this fabric: 99.8 of 99.8 GB/s at 500 MiB",
        (
            "below 512 KB latency dominates the prediction; small messages take 11.1 us, 11.1 us"
            " predicted"
        ),
    )


def test_reach_is_a_share_of_the_expected_busbw() -> None:
    one = judged(STAR, series(lambda size: best(size) / 0.62, [16e6, 256e6, 1e9]))
    assert tuple(map(str, one.findings)) == (
        "reaches 62% of the busbw predicted for this fabric at 1 GB (61.9 of 99.9 GB/s)",
    )


def test_the_size_from_which_on_it_is_reached() -> None:
    slow = {32 * 2.0**20: 4.5, 64 * 2.0**20: 4.5}
    one = judged(
        STAR, series(lambda size: slow.get(size, 1.0) * best(size), by_steps(2.0**20, 2.0**30, 2.0))
    )
    assert (
        str(one.findings[0])
        == "reaches the busbw predicted for this fabric: 99.9 of 99.9 GB/s at 1 GiB, but only above"
        " 128 MiB: 22% of it at 32 MiB"
    )


def test_a_series_of_small_messages_says_nothing_of_reach() -> None:
    assert not said(judged(STAR, series(best, [1e3, 4e3, 16e3])).findings, "reaches")


def test_faster_than_the_fabric_names_the_port() -> None:
    (faster,) = judged(STAR, series(lambda size: 0.7 * best(size), [256e6, 512e6, 1e9])).findings
    assert (
        str(faster)
        == "faster than this fabric allows: 143 GB/s busbw at 1 GB, predicted 99.9 GB/s on a 100"
        " GB/s port; the fabric file understates bandwidth, or the library reduces in the switch"
    )
    (faster,) = judged(
        STAR, series(lambda size: 0.7 * best(size), [256e6, 512e6, 1e9]), "ring"
    ).findings
    assert str(faster).startswith("faster than ring allows")
    assert str(faster).endswith("another algorithm ran, or the fabric file understates bandwidth")


def test_one_rail_of_eight() -> None:
    large = [64e6, 256e6, 1e9]
    whole = judged(RAILS, series(multi_rail, large, 16, nodes=2), readings=IN_TURN)
    assert whole.mape < 1e-9
    assert not said(whole.findings, "rails")
    one = judged(
        RAILS, series(lambda size: multi_rail(size, 50e9 / 8), large, 16, nodes=2), readings=IN_TURN
    )
    # 8 NICs of 50 GB/s carry what the 400 GB/s inside do, so that one carries an eighth of the
    # whole; so does t1 at an eighth, and the flat algorithms, which keep to one NIC
    assert (
        said(one.findings, "rails")
        == "large messages get 13% of the expected bandwidth, about what 1 of 8 rails carries, or"
        " t1 at 13% of its bandwidth, or double-binary-tree: the measurements cannot tell them"
        " apart"
    )
    two = judged(
        RAILS, series(lambda size: multi_rail(size, 50e9 / 4), large, 16, nodes=2), readings=IN_TURN
    )
    assert "about what 2 of 8 rails carry, or t1 at 25% of its bandwidth: the measurements" in said(
        two.findings, "rails"
    )


def test_rails_alone_where_nothing_else_explains_the_times() -> None:
    wide, half = (fabric(star(8, 1.0, 6400.0), clos(4, alpha=5.0, bw=nic)) for nic in (50.0, 25.0))
    times = prices(half, LARGE_SIZES, 16)
    findings = judged(
        wide, series(times.__getitem__, LARGE_SIZES, 16, nodes=2), readings=IN_TURN
    ).findings
    assert said(findings, "rails").endswith("about what 4 of 8 rails carry")


def test_an_inner_tier_at_a_share_is_named_beside_the_rails() -> None:
    slow = fabric(star(8, 1.0, 100.0), clos(4, alpha=5.0, bw=50.0))
    times = prices(slow, LARGE_SIZES, 16)
    rails = said(
        judged(
            RAILS, series(times.__getitem__, LARGE_SIZES, 16, nodes=2), readings=IN_TURN
        ).findings,
        "rails",
    )
    assert "or t1 at 25% of its bandwidth" in rails
    assert rails.endswith(": the measurements cannot tell them apart")


def test_an_algorithm_that_fits_is_named_beside_the_rails_and_not_again() -> None:
    cluster = fabric(
        star(8, 0.4, 400.0, in_network=switch()),
        clos(8, alpha=3.0, bw=50.0, in_network=switch(0.5)),
    )
    sizes = by_steps(64e6, 1.1e9, 2.0)
    times = prices(cluster, sizes, 64, "hierarchical:ring/double-binary-tree")
    findings = judged(
        cluster, series(times.__getitem__, sizes, 64, nodes=8), readings=IN_TURN
    ).findings
    rails = said(findings, "rails")
    assert "about what 4 of 8 rails carry, or t1 at" in rails
    assert rails.endswith(
        "or hierarchical (ring / double-binary-tree, sequential): the measurements cannot tell them"
        " apart"
    )
    assert not said(findings, "the times match")


def test_large_sizes_on_a_cliff_are_no_rails() -> None:
    sizes = by_steps(1e6, 1.1e9, 2.0)
    cliff = judged(
        RAILS,
        series(lambda size: multi_rail(size) * (4 if size >= 256e6 else 1), sizes, 16, nodes=2),
        readings=IN_TURN,
    )
    assert not said(cliff.findings, "rails")
    assert said(cliff.findings, "no alpha-beta curve from 256 MB to 1.024 GB")
    all_slow = judged(
        RAILS, series(lambda size: multi_rail(size) * 4, sizes, 16, nodes=2), readings=IN_TURN
    )
    assert "2 of 8 rails" in said(all_slow.findings, "rails")


@swept("share", [0.9, 0.7, 0.42])
def test_a_share_that_no_even_number_of_rails_carries_is_no_rail(share: float) -> None:
    slow = judged(
        RAILS,
        series(lambda size: multi_rail(size) / share, [64e6, 256e6, 1e9], 16, nodes=2),
        readings=IN_TURN,
    )
    assert not said(slow.findings, "rails")


def test_one_rail_under_the_best_schedule_for_it() -> None:
    def hierarchical(size: float) -> float:
        """A ring reduce-scatter and all-gather inside, 14 steps; a ring of 2 ranks outside on an
        eighth, over an eighth."""
        return 14e-6 + 1.75 * size / 400e9 + 10e-6 + size / 8 / (50e9 / 8)

    one = judged(RAILS, series(hierarchical, [64e6, 256e6, 1e9], 16, nodes=2), readings=IN_TURN)
    assert "about what 1 of 8 rails carries" in said(one.findings, "rails")


def test_rails_need_a_network() -> None:
    assert not said(
        judged(STAR, series(lambda size: 8 * best(size), [64e6, 256e6, 1e9])).findings, "rails"
    )


def test_in_network_reduction_that_is_off() -> None:
    one = judged(NVLS, series(best, [64e6, 256e6, 1e9]))
    assert {point.algorithm for point in one.points} == {"in-network"}
    assert (
        said(one.findings, "is it off")
        == "matches ring without in-network reduction (NVLS, SHARP): is it off?"
    )
    slower = judged(NVLS, series(lambda size: 1.4 * best(size), [64e6, 256e6, 1e9]))
    assert not said(slower.findings, "is it off")
    on = judged(NVLS, series(lambda size: 5e-6 + 0.4e-6 + size / 100e9, [64e6, 256e6, 1e9]))
    assert on.mape < 1e-9
    assert not said(on.findings, "is it off")


def test_a_ring_where_a_tree_should_win() -> None:
    one = judged(STAR, series(ring, by_steps(4e3, 1.1e6)))
    # at 1.024 MB the tree takes 31.5 us and the ring 36.9: still more than 15% apart
    assert (
        said(one.findings, "the times match")
        == "from 4 KB to 1.024 MB the times match ring, although double-binary-tree should win"
    )


def test_a_level_of_small_messages_is_no_algorithm() -> None:
    one = judged(STAR, series(ring, [1e3, 2e3, 4e3, 8e3, 16e3]))
    assert not said(one.findings, "the times match")
    assert said(one.findings, "small messages").endswith(
        "small messages take 19.1 us, 11.1 us predicted: about 7.99 us more launch overhead, a"
        " higher alpha, or another algorithm"
    )


def test_the_floor_names_what_bounds_the_price() -> None:
    costly = fabric(star(8, 1.0, 100.0), launch_overhead="50us")
    floor = said(judged(costly, series(best, SIZES)).findings, "below")
    # 50 + 6 us against 11: the launch is most of it until 2 M/BW reaches 50 us, at 2.5 MB
    assert floor.startswith(
        "below 4.096 MB launch overhead dominates the prediction; small messages take 11.1 us, 56.1"
        " us predicted"
    )
    assert floor.endswith("about 45 us less launch overhead, a lower alpha, or another algorithm")
    assert said(
        judged(STAR, series(best, [1e3, 4e3])).findings, "dominates the prediction"
    ).startswith("at every size latency dominates the prediction")


def curve(factors: dict[int, float]) -> str:
    """What is said of 21 sizes of 20 us + M/(100 GB/s), some of them off by a factor."""
    times = {2.0**k: (20e-6 + 2.0**k / 100e9) * factors.get(k, 1.0) for k in range(10, 31)}
    findings = judged(STAR, series(times.__getitem__, times)).findings
    others = ("reaches", "small messages", "faster than", "times match")
    return said([one for one in findings if not any(word in str(one) for word in others)], "")


def test_neighbouring_sizes_far_off_are_a_threshold_of_the_library() -> None:
    times = {
        65536.0: 20e-6,
        262144.0: 300e-6,
        1048576.0: 921e-6,
        2097152.0: 129e-6,
        4194304.0: 200e-6,
    }
    one = judged(STAR, series(times.__getitem__, times))
    assert (
        said(one.findings, "alpha-beta")
        == "no alpha-beta curve from 256 KiB to 1 MiB: 921 us at 1 MiB, 129 us at 2 MiB, "
        "as when a library changes protocol or algorithm"
    )
    assert (
        curve({25: 2.0, 26: 2.0})
        == "no alpha-beta curve from 32 MiB to 64 MiB: 188 us at 16 MiB, 711 us at 32 MiB, "
        "as when a library changes protocol or algorithm"
    )
    assert curve(dict.fromkeys(range(28, 31), 3.0)).startswith(
        "no alpha-beta curve from 256 MiB to 1 GiB: 1.36 ms at 128 MiB"
    )


def test_a_step_by_less_has_no_cause() -> None:
    times = {1048576.0: 40e-6, 2097152.0: 70e-6, 4194304.0: 200e-6, 8388608.0: 390e-6}
    # per byte, 4 MiB take 1.43 and 8 MiB 1.39 times what 2 MiB do
    assert (
        said(judged(STAR, series(times.__getitem__, times)).findings, "alpha-beta")
        == "no alpha-beta curve from 4 MiB to 8 MiB: 70 us at 2 MiB, 200 us at 4 MiB"
    )
    assert (
        curve({30: 2.0})
        == "no alpha-beta curve between 512 MiB and 1 GiB: 5.39 ms at 512 MiB, 21.5 ms at 1 GiB"
    )
    in_proportion = {1e6: 40e-6, 16e6: 640e-6, 256e6: 10.24e-3}
    assert not said(
        judged(STAR, series(in_proportion.__getitem__, in_proportion)).findings, "alpha-beta"
    )


def test_single_sizes_out_of_line() -> None:
    assert (
        curve({25: 3.0})
        == "one size is out of line: 1.07 ms at 32 MiB, next to 188 us at 16 MiB and 691 us at"
        " 64 MiB"
    )
    assert (
        curve({25: 0.4})
        == "one size is out of line: 142 us at 32 MiB, next to 188 us at 16 MiB and 691 us at 64 MiB"
    )
    assert (
        curve({18: 3.0, 25: 3.0})
        == "2 sizes are out of line: 67.9 us at 256 KiB, 1.07 ms at 32 MiB"
    )


def test_scattered_times_are_neither() -> None:
    # 30% up and down in turn: where flat, 1.3/0.7 of its neighbours
    assert (
        curve({k: 1.3 if k % 2 else 0.7 for k in range(10, 31)})
        == "the times scatter by up to 86%: measure again"
    )


def test_small_steps_are_nothing() -> None:
    assert curve({}) == curve({k: 1.04 if k % 2 else 0.96 for k in range(10, 31)}) == ""


def test_repeats_that_differ() -> None:
    one = series(best, [64e6, 256e6])
    first = one.points[0]
    apart = Point(
        first.bytes, first.seconds, 0.9 * first.seconds, 1.25 * first.seconds, 3, first.where
    )
    assert (
        said(judged(STAR, one._replace(points=(apart, one.points[1]))).findings, "repeats")
        == "repeats differ by up to 35% at 64 MB"
    )
    near = apart._replace(high_s=1.05 * first.seconds)
    assert not said(judged(STAR, one._replace(points=(near, one.points[1]))).findings, "repeats")
