"""The fewest switches against every wiring that there is, counted out at small sizes; and that more
never costs less."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.network.sizing.size_clos import ClosPlan, clos_plan

RATIOS = [1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 7.0]


def splits(radix: int, ratio: float) -> Iterator[tuple[int, int]]:
    for down, up in product(range(1, radix), repeat=2):
        if down + up <= radix and down <= ratio * up + 1e-9:
            yield down, up


def two_levels(ports: int, radix: int, ratio: float) -> Iterator[int]:
    """A leaf alone, or leaves and spines with the same cables between any two of them."""
    for down, up in splits(radix, ratio):
        leaves = next(count for count in range(1, ports + 1) if count * down >= ports)
        if leaves == 1:
            yield 1
        for cables in range(1, up + 1):
            if up % cables == 0 and leaves * cables <= radix:
                yield leaves + up // cables


def three_levels(ports: int, radix: int, low: float, high: float) -> Iterator[int]:
    """Pods of leaves and spines as above; the spines of a plane and its switches at the top
    likewise."""
    above = list(splits(radix, high))
    for down, up in splits(radix, low):
        leaves = next(count for count in range(1, ports + 1) if count * down >= ports)
        if leaves == 1:
            yield 1
        for each in (one for one in range(1, up + 1) if up % one == 0):
            spines = up // each
            for pod, (_, spine_up) in product(range(1, leaves + 1), above):
                if pod * each + spine_up > radix or pod * each > high * spine_up + 1e-9:
                    continue
                pods = next(count for count in range(1, leaves + 1) if count * pod >= leaves)
                if pods == 1:
                    yield leaves + spines
                for planes, cables in product(range(1, spines + 1), range(1, spine_up + 1)):
                    if (
                        spines % planes == 0
                        and spine_up % cables == 0
                        and pods * spines // planes * cables <= radix
                    ):
                        yield leaves + pods * spines + planes * (spine_up // cables)


def fewest(ports: int, radix: int, hops: tuple[float, float], levels: int | None) -> int | None:
    every = {
        1: lambda: [1] if ports <= radix else [],
        2: lambda: two_levels(ports, radix, hops[0]),
        3: lambda: three_levels(ports, radix, *hops),
    }
    return min(
        (count for level in ([levels] if levels else [1, 2, 3]) for count in every[level]()),
        default=None,
    )


def sized(
    ports: int, radix: int, hops: tuple[float, ...], levels: int | None = None
) -> ClosPlan | None:
    try:
        return clos_plan(ports, 1, radix, hops=hops, levels=levels)
    except ColltoolError as error:
        if "do not fit" not in error.what:
            raise
        return None


@given(
    st.integers(1, 60),
    st.integers(2, 8),
    st.tuples(st.sampled_from(RATIOS), st.sampled_from(RATIOS)),
    st.sampled_from([None, 2, 3]),
)
@settings(max_examples=examples(60), deadline=None)
def test_no_wiring_takes_fewer_switches(
    ports: int, radix: int, hops: tuple[float, float], levels: int | None
) -> None:
    plan = sized(ports, radix, hops[:1] if levels == 2 else hops, levels)
    assert (plan and plan.switches) == fewest(ports, radix, hops, levels)


@given(
    st.integers(1, 5000),
    st.sampled_from([8, 16, 36, 64]),
    st.lists(st.floats(1, 9), min_size=2, max_size=2),
    st.integers(1, 2),
)
@settings(max_examples=examples(25), deadline=None)
def test_more_oversubscription_more_ports_and_fewer_endpoints_never_take_more(
    ports: int, radix: int, hops: tuple[float, float], larger: int
) -> None:
    base = sized(ports, radix, hops)
    less = [
        sized(
            ports, radix, tuple(hop * (1 + larger * (at == place)) for at, hop in enumerate(hops))
        )
        for place in range(2)
    ]
    less += [sized(ports, radix + larger, hops), sized(max(1, ports - larger), radix, hops)]
    if base:
        assert all(one and one.switches <= base.switches for one in less)


@swept(
    ("endpoints", "ratio", "switches"),
    [(2048, 1, 96), (2048, 2, 80), (4096, 1, 192), (4096, 2, 144)],
)
def test_eight_rails_of_64_port_switches(endpoints: int, ratio: float, switches: int) -> None:
    plan = clos_plan(endpoints, 1, 64, rails=8, hops=(ratio,))
    assert plan.switches == switches
    assert plan.oversubscription == ratio


def test_one_switch_has_no_uplinks_to_oversubscribe() -> None:
    assert [one.switches for one in clos_plan(64, 1, 64, hops=(2.0,)).levels] == [1]
    assert [
        (one.switches, one.down_ports, one.up_ports)
        for one in clos_plan(20, 1, 64, hops=(2.0,), levels=2).levels
    ] == [(1, 42, 21)]


def test_what_is_left_over_is_said() -> None:
    plan = clos_plan(500, 1, 64, hops=(2.0,))
    leaf = plan.levels[0]
    assert (leaf.switches, leaf.down_ports, leaf.up_ports, plan.spare_ports) == (13, 40, 20, 20)
    assert plan.notes == (
        "leaf: a switch leaves 4 of its 64 ports unused",
        "500 ports only partly fill 13 leaves of 40 down-ports",
        "spine: a switch leaves 12 of its 64 ports unused",
    )
    achieved = clos_plan(30, 1, 9, hops=(1.3,))
    assert any("1.25:1 instead of 1.3:1" in note for note in achieved.notes)
