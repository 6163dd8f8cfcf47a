"""The price that a user reads: the pick of the library in force first, how far off each row may be,
and which schedule leads where a rank drives a single port at a time.

:func:`prices_for_user` is the entry; it takes prices of :func:`colltool.estimate.price.price`.

An interval is wider where the user changed numbers, by as much as these move the price; so each row is
also priced on the fabric *before* the change.

Of a :class:`~colltool.estimate.results.Price` are read its ``results``, the rows, fastest first where
``bytes`` is a single size; its ``leading`` rows, those that may be called the fastest; and its
``library``, whose ``runs`` is the row of the library's own pick (None where nothing of ours corresponds).
"""

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
    each row, and the accuracy of the first one.

    ``required``: the library's model must know its pick, else it is an error; ``lead``: the pick goes
    first (:func:`with_library_choice`).
    """
    picked = with_library_choice(prices, fabric, readings, required=required, lead=lead)
    return tuple(with_accuracy(price, fabric, price.group.spec, readings) for price in picked)


def price_for_user(price: Price, fabric: Fabric, readings: ModelOptions) -> Price:
    """One price as the library in force runs it, see :func:`prices_for_user`."""
    return prices_for_user([price], fabric, readings)[0]


def with_accuracy(price: Price, fabric: Fabric, group: GroupSpec, readings: ModelOptions) -> Price:
    """A price whose rows carry their intervals, or why they have none (ideal prices, arrays of
    sizes), and the accuracy of its first row; unchanged without rows."""
    if not price.results:
        return price
    runs = price.library.runs if price.library else None
    rows = [*price.results]
    if runs is not None:
        rows.append(runs)
    # by id: the library's pick may be one of the rows, and is the same object afterwards
    if isinstance(price.bytes, float) and not readings.ideal:
        before = _before(price.primitive, price.bytes, fabric, group, readings, price.asked)
        with_interval = {
            id(row): _with_interval(row, price.primitive, fabric, group, readings, before)
            for row in rows
        }
    else:
        reason = NO_INTERVAL if readings.ideal else SEVERAL
        with_interval = {id(row): replace(row, no_interval=reason) for row in rows}
    library = price.library
    if library is not None and runs is not None:
        library = library._replace(runs=with_interval[id(runs)])
    results = tuple(with_interval[id(estimate)] for estimate in price.results)
    priced = replace(price, results=results, library=library)
    return replace(priced, accuracy=_accuracy(priced, fabric, group, readings))


def row_with_accuracy(
    estimate: AlgorithmEstimate,
    primitive: Primitive,
    fabric: Fabric,
    group: GroupSpec,
    readings: ModelOptions,
) -> AlgorithmEstimate:
    """A row of one size with its interval, as :func:`with_accuracy` gives it."""
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
    """Seconds of each schedule (all, or ``only`` these, and the library's pick) under the protocol of
    its row and, with an empty protocol, of its first row, which is the fastest. Empty where the group
    or schedule has no price on this fabric."""
    try:
        priced = price_of(fabric, primitive, size, group, readings, only)
    except ColltoolError:
        # the group needs what the user changed
        return {}
    (with_pick,) = with_library_choice([priced], fabric, readings, required=False, lead=False)
    rows = [*priced.results]
    if with_pick.library is not None and with_pick.library.runs is not None:
        rows.append(with_pick.library.runs)
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
    """Seconds on the fabric before the user changed its numbers; ``only``: the algorithms that the
    price was asked for, all if empty. None where none was changed."""
    fabric_before = before_dials(fabric)
    if fabric_before is None:
        return None
    return seconds_by_schedule(fabric_before, primitive, size, group, readings, only)


def _with_interval(
    estimate: AlgorithmEstimate,
    primitive: Primitive,
    fabric: Fabric,
    group: GroupSpec,
    readings: ModelOptions,
    before: SecondsByWay | None,
) -> AlgorithmEstimate:
    """A row with its interval; ``before`` are the seconds without the user's own numbers, None where
    there are none."""
    base_s = None
    if before is not None:
        # the change may have changed the protocol: then the fastest before is compared, else, of a
        # schedule that did not run before, infinity
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
    """The accuracy of the first row, whose ``p90`` is the larger side of the row's interval. None of an
    ideal price and of an array of sizes."""
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
    """Add to each price the title of the schedule that leads under ``ports=one``, if another, else an
    empty text; a tuple of them for an array of sizes. ``prices`` must include all algorithms."""
    with_leaders = []
    for price in prices:
        title: str | tuple[str, ...] = _titles_on_one_port(price, fabric, group, readings)
        if isinstance(price.bytes, float):
            title = title[0]
        with_leaders.append(replace(price, leads_on_one_port=title))
    return tuple(with_leaders)


def _titles_on_one_port(
    price: Price, fabric: Fabric, group: AnyGroup, readings: ModelOptions
) -> tuple[str, ...]:
    """The title of the schedule that leads on one port, at each size; an empty one where the same
    leads as on all ports, or where one port can make no difference to it."""
    rows = price.leading
    unchanged = ("",) * (1 if isinstance(price.bytes, float) else len(price.bytes))
    if readings.ports == "one" or not rows:
        return unchanged
    leaders = _fastest_by_size(price)
    may_lose = {leader for leader in set(leaders) if _may_lose(rows[leader], fabric)}
    if not may_lose:
        return unchanged
    one_port = price_of(fabric, price.primitive, price.bytes, group, readings._replace(ports="one"))
    rows_on_one_port = one_port.leading
    if not rows_on_one_port:
        return unchanged
    titles = list(unchanged)
    for size, (leader, leader_on_one_port) in enumerate(
        zip(leaders, _fastest_by_size(one_port), strict=True)
    ):
        one_port_row = rows_on_one_port[leader_on_one_port]
        if leader in may_lose and one_port_row.spec != rows[leader].spec:
            titles[size] = one_port_row.title
    return tuple(titles)


def _may_lose(row: AlgorithmEstimate, fabric: Fabric) -> bool:
    """Whether one port may make a row slower: any where a tier joins endpoints by links of their own,
    on switches those that post to all peers at once."""
    if any(capabilities_of(tier).joined_by != "switches" for tier in fabric.tiers):
        return True
    posting = {usual.name for usual in usual_algorithms() if usual.caveat is posting_caveat}
    return bool(posting & {row.choice.base, *row.choice.tiers})


def _fastest_by_size(price: Price) -> list[int]:
    """The index of the fastest leading row, of which there must be one, at each size."""
    # of a single size they stand fastest first
    if isinstance(price.bytes, float):
        return [0]
    indices: list[int] = first_least([estimate.total_s for estimate in price.leading]).tolist()
    return indices
