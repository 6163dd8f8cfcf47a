"""The price that a user reads: the pick of the library in force first, how far off each row may be,
and which schedule leads where a rank drives a single port at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from colltool.algorithms.partners import posting_caveat
from colltool.algorithms.registry import usual_algorithms
from colltool.base.arrays import first_least
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.accuracy import accuracy_of, unmeasured
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.interval import NO_INTERVAL, SEVERAL, before_dials, interval_of
from colltool.estimate.library_pick import with_library_choice
from colltool.estimate.placement import AnyGroup, GroupSpec
from colltool.estimate.price import price as price_of
from colltool.estimate.results import Accuracy, Price
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

SecondsByWay = Mapping[tuple[str, str], float]
"""Seconds by the title of a schedule and its protocol, which is empty for the fastest one."""


def prices_for_user(
    prices: Sequence[Price],
    fabric: Fabric,
    readings: ModelOptions,
    *,
    required: bool = False,
    lead: bool = True,
) -> tuple[Price, ...]:
    """Prices of one primitive and group as users see them: with the library's pick, an interval for
    each row, and the accuracy of the first one. ``required`` and ``lead`` are those of
    :func:`with_library_choice`."""
    picked = with_library_choice(prices, fabric, readings, required=required, lead=lead)
    return tuple(with_accuracy(price, fabric, price.group.spec, readings) for price in picked)


def price_for_user(price: Price, fabric: Fabric, readings: ModelOptions) -> Price:
    """One price as the library in force runs it, see :func:`prices_for_user`."""
    return prices_for_user([price], fabric, readings)[0]


def with_accuracy(price: Price, fabric: Fabric, group: GroupSpec, readings: ModelOptions) -> Price:
    """A price whose rows carry their intervals; unchanged without rows."""
    if not price.results:
        return price
    runs = price.library.runs if price.library else None
    rows = [*price.results] if runs is None else [*price.results, runs]
    if isinstance(price.bytes, float) and not readings.ideal:
        before = _before(price.primitive, price.bytes, fabric, group, readings, price.asked)
        known = {
            id(row): _with_interval(row, price.primitive, fabric, group, readings, before)
            for row in rows
        }
    else:
        why = NO_INTERVAL if readings.ideal else SEVERAL
        known = {id(row): replace(row, no_interval=why) for row in rows}
    library = price.library
    if library is not None and runs is not None:
        library = library._replace(runs=known[id(runs)])
    found = replace(
        price, results=tuple(known[id(estimate)] for estimate in price.results), library=library
    )
    return replace(found, accuracy=_accuracy(found, fabric, group, readings))


def row_with_accuracy(
    estimate: AlgorithmEstimate,
    primitive: Primitive,
    fabric: Fabric,
    group: GroupSpec,
    readings: ModelOptions,
) -> AlgorithmEstimate:
    """A row of one size with its interval."""
    if readings.ideal:
        return replace(estimate, no_interval=NO_INTERVAL)
    before = _before(primitive, float(estimate.bytes), fabric, group, readings, (estimate.spec,))
    return _with_interval(estimate, primitive, fabric, group, readings, before)


def seconds_by_schedule(
    fabric: Fabric,
    primitive: Primitive,
    size: float,
    group: GroupSpec,
    readings: ModelOptions,
    only: tuple[str, ...] = (),
) -> SecondsByWay:
    """Seconds of each schedule, under its own protocol and, with an empty one, under its
    fastest."""
    try:
        found = price_of(fabric, primitive, size, group, readings, only)
    except ColltoolError:
        # the group needs what the user changed
        return {}
    (chosen,) = with_library_choice([found], fabric, readings, required=False, lead=False)
    rows = [*found.results]
    if chosen.library is not None and chosen.library.runs is not None:
        rows.append(chosen.library.runs)
    seconds: dict[tuple[str, str], float] = {}
    for row in rows:
        seconds.setdefault((row.title, ""), float(row.total_s))
        seconds[row.title, str(row.protocol)] = float(row.total_s)
    return seconds


def _before(
    primitive: Primitive,
    size: float,
    fabric: Fabric,
    group: GroupSpec,
    readings: ModelOptions,
    only: tuple[str, ...],
) -> SecondsByWay | None:
    """Seconds on the fabric before its dials moved. None where the user moved none."""
    other = before_dials(fabric)
    if other is None:
        return None
    return seconds_by_schedule(other, primitive, size, group, readings, only)


def _with_interval(
    estimate: AlgorithmEstimate,
    primitive: Primitive,
    fabric: Fabric,
    group: GroupSpec,
    readings: ModelOptions,
    before: SecondsByWay | None,
) -> AlgorithmEstimate:
    """A row with its interval; ``before`` are the seconds without the user's own numbers."""
    base_s = None
    if before is not None:
        # the change may have changed the protocol: then the fastest before is compared
        under_any = before.get((estimate.title, ""), inf)
        base_s = before.get((estimate.title, str(estimate.protocol)), under_any)
    interval = interval_of(
        fabric,
        primitive,
        group,
        float(estimate.bytes),
        readings,
        total_s=float(estimate.total_s),
        base_total_s=base_s,
        runs=estimate.status == "shipped" and estimate.selectable,
    )
    return replace(estimate, interval=interval)


def _accuracy(
    price: Price, fabric: Fabric, group: GroupSpec, readings: ModelOptions
) -> Accuracy | None:
    """Accuracy of the first row; its ``p90`` is the larger side of the row's interval."""
    if not isinstance(price.bytes, float):
        return None
    row = price.best
    if row.status == "own":
        accuracy = unmeasured(price.bytes, readings)
    else:
        extrapolated = bool(row.software_time.notes(price.bytes))
        accuracy = accuracy_of(
            fabric, price.primitive, group, price.bytes, readings, extrapolated=extrapolated
        )
    if accuracy is None or row.interval is None:
        return accuracy
    return accuracy._replace(p90=row.interval.larger_side(float(row.total_s)))


def with_one_port_leader(
    prices: tuple[Price, ...], fabric: Fabric, group: AnyGroup, readings: ModelOptions
) -> tuple[Price, ...]:
    """Add to each price the schedule that leads under ``ports=one``, if another. ``prices`` must
    include all algorithms."""
    found = []
    for price in prices:
        leads: str | tuple[str, ...] = _leads_on_one_port(price, fabric, group, readings)
        if isinstance(price.bytes, float):
            leads = leads[0]
        found.append(replace(price, leads_on_one_port=leads))
    return tuple(found)


def _leads_on_one_port(
    price: Price, fabric: Fabric, group: AnyGroup, readings: ModelOptions
) -> tuple[str, ...]:
    """Titles at each size. Empty where the same schedule leads, or does not post to all peers at
    once on links of their own."""
    rows = price.leading
    unchanged = ("",) * (1 if isinstance(price.bytes, float) else len(price.bytes))
    if readings.ports == "one" or not rows:
        return unchanged
    leaders = _leading_rows(price)
    # where tiers have links of their own any schedule may lose some, elsewhere those that post
    may_lose = set(leaders)
    if all(capabilities_of(tier).joined_by == "switches" for tier in fabric.tiers):
        posting = {row.name for row in usual_algorithms() if row.caveat is posting_caveat}
        for leader in set(leaders):
            choice = rows[leader].choice
            if not posting & {choice.base, *choice.tiers}:
                may_lose.remove(leader)
    if not may_lose:
        return unchanged
    one_port = price_of(fabric, price.primitive, price.bytes, group, readings._replace(ports="one"))
    others = one_port.leading
    if not others:
        return unchanged
    titles = list(unchanged)
    for size, (leader, other) in enumerate(zip(leaders, _leading_rows(one_port), strict=True)):
        if leader in may_lose and others[other].spec != rows[leader].spec:
            titles[size] = others[other].title
    return tuple(titles)


def _leading_rows(price: Price) -> list[int]:
    """The place of the fastest leading row at each size."""
    if isinstance(price.bytes, float):
        return [0]
    index: list[int] = first_least([estimate.total_s for estimate in price.leading]).tolist()
    return index
