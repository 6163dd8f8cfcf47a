"""Prices for every cell of a grid: its axes as they are typed, numeric ones at once as arrays, the
others in loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from math import inf, isfinite, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.basis import PointTimes
from colltool.analysis.judged import Seconds, with_intervals
from colltool.base.arrays import first_least
from colltool.base.errors import ColltoolError, clipped, given, said, taken_from
from colltool.base.primitives import Primitive
from colltool.base.result import followed
from colltool.definitions.reader import spelt
from colltool.estimate.algorithm_estimate import NO_SOFTWARE_TIME, AlgorithmEstimate
from colltool.estimate.assumptions import DECLARED, KINDS, Readings, checked, takes_count, words
from colltool.estimate.candidates import Candidates, by_title, on_layers
from colltool.estimate.groups import library_of, place
from colltool.estimate.interval import Interval, before_dials
from colltool.estimate.leading import best_class, may_lead
from colltool.estimate.placement import GroupSpec
from colltool.estimate.protocols import best_protocol
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric
from colltool.fabric.topology import routed
from colltool.fabric.variants import Place, differences, with_values
from colltool.nccl.nccl_choice import SIMPLE, WITH_A_MODEL, Picked, picked_at
from colltool.nccl.rules import name_on

BLOCK = 8192  # cells priced at once, to keep arrays small
OWN_AXES = ("fabric", "ranks", "bytes")
Floats = NDArray[np.float64]
FabricLoader = Callable[[Sequence[str]], Fabric]
"""Loads a fabric with overrides."""

MOST_VALUES = 10_000
_OWN = {"fabric": "fabrics", "ranks": "ranks", "bytes": "sizes", "size": "sizes"}
"""Axes that every grid has, with the argument that sets their values."""

_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d+)(?P<log>log)?")
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]\S*)?")


class SweepAxis(NamedTuple):
    """One varied key and its values in order: text as ``--set`` takes it, integers for ranks,
    floats (bytes) for sizes."""

    key: str
    values: tuple[Any, ...]

    @property
    def is_reading(self) -> bool:
        return self.key in DECLARED


def axes_of(typed: Sequence[str]) -> tuple[SweepAxis, ...]:
    """Parse the axes of ``--vary``, whose keys must not overlap, as ``ib`` and ``ib.bandwidth``
    do."""
    found = [axis_of(text) for text in typed]
    for index, axis in enumerate(found):
        if any(
            f"{axis.key}.".startswith(f"{one.key}.") or f"{one.key}.".startswith(f"{axis.key}.")
            for one in found[:index]
        ):
            raise _refused(typed[index], f"{axis.key} is varied twice", "name each key once")
    return tuple(found)


def axis_of(text: str) -> SweepAxis:
    """One axis: ``ib.bandwidth=25GB/s:100GB/s:4``, ``alpha=0.1us:10us:5log``,
    ``torus.shape=8x8x8,16x8x4``, ``ideal=true,false``.

    >>> axis_of("ib.bandwidth=25GB/s:100GB/s:4").values
    ('25GB/s', '50GB/s', '75GB/s', '100GB/s')
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not key or not equals or not values:
        fix = f"write {given('vary', ['ib.bandwidth=50GB/s,100GB/s'])}"
        raise _refused(text, "expected KEY=V1,V2 or KEY=LOW:HIGH:COUNT", fix)
    if key in _OWN:
        raise _refused(
            text, f"{key} is an axis of its own", f"list its values in {given(_OWN[key])}"
        )
    if ranged := _RANGE.fullmatch(values):
        found = _between(text, ranged)
    else:
        # at commas, except inside brackets
        found = [part.strip() for part in re.split(r",(?![^\[\]{}]*[\]}])", values)]
        if not all(found):
            raise _refused(text, "an empty value", "separate values with one comma")
        if len(set(found)) < len(found):
            raise _refused(text, "a value stands twice", "name each value once")
    return SweepAxis(
        key, tuple(_reading(text, key, one) if key in DECLARED else spelt(one) for one in found)
    )


def _between(text: str, ranged: re.Match[str]) -> list[str]:
    low, high = (_QUANTITY.fullmatch(ranged[name].strip()) for name in ("low", "high"))
    if low is None or high is None:
        raise _refused(
            text, "the ends of a range are numbers with their units", "such as 25GB/s:100GB/s:4"
        )
    start, end, count, unit = float(low[1]), float(high[1]), int(ranged["count"]), low[2] or ""
    if unit != (high[2] or ""):
        raise _refused(
            text,
            f"the ends of the range have different units, {low[2]} and {high[2]}",
            "give both in one unit",
        )
    if not start < end:
        raise _refused(
            text,
            f"the range is upside down: {low[0]} is not below {high[0]}",
            f"write {high[0]}:{low[0]}:{count}",
        )
    if not 2 <= count <= MOST_VALUES:
        raise _refused(text, f"a range of {count} values", f"2 to {MOST_VALUES} values")
    if ranged["log"] and start <= 0:
        raise _refused(text, "equal factors start above 0", "a larger low end, or leave log out")
    steps = [index / (count - 1) for index in range(1, count - 1)]
    inner = [
        start * (end / start) ** step if ranged["log"] else start + (end - start) * step
        for step in steps
    ]
    return [
        f"{number}{unit}" for number in (low[1], *(f"{number:.12g}" for number in inner), high[1])
    ]


def _reading(text: str, key: str, value: str) -> Any:
    plain: Any = value
    if KINDS[key] is bool:
        plain = {"true": True, "false": False}.get(value.lower())
        if plain is None:
            raise _refused(
                text, f"{key} is true or false, got '{clipped(value)}'", f"write {key}=true,false"
            )
    elif value not in words(key):
        try:
            plain = int(value) if takes_count(key) else float(value)
        except ValueError:
            known_words = ", ".join(words(key)) or "numbers"
            raise _refused(
                text, f"{key} has no '{clipped(value)}'", f"its values: {known_words}"
            ) from None
    try:
        return getattr(checked(**{key: plain}), key)
    except ColltoolError as error:
        raise _refused(text, f"{key}: {error.what}", error.fix) from None


def _refused(text: str, what: str, fix: str) -> ColltoolError:
    return ColltoolError(what, where=given("vary", [clipped(text)]), fix=fix)


class Cell(NamedTuple):
    """One point of a grid: its axis values, the winner and the runner-up; all None, with a
    ``reason``, if nothing can be priced.

    ``known_as``: the library's name of the winner, ours where it has none, and ``how`` it runs;
    ``runner_up_known_as`` likewise.
    ``alpha_share``: latency's share of the total. ``ideal``: the winner without contention.
    ``selectable``: the user can run the winner. ``fitted_s``: measured software time in the total,
    None if not measured; ``held``: where it is extrapolated.
    ``accuracy``: how far off such a price is. ``picked``: the winner is what the library picks.
    ``interval``: where nine of ten measurements of the winner lie; None under the ideal reading.
    """

    at: tuple[Any, ...]
    algorithm: str | None = None
    known_as: str = ""
    how: str = ""
    spec: str | None = None
    protocol: str = ""
    total_s: float | None = None
    busbw_Bps: float | None = None
    alpha_share: float | None = None
    runner_up: str | None = None
    runner_up_known_as: str = ""
    runner_up_s: float | None = None
    ideal: str | None = None
    ideal_s: float | None = None
    reason: str = ""
    selectable: bool = True
    fitted_s: float | None = None
    held: str = ""
    accuracy: Accuracy | None = None
    picked: bool = False
    interval: Interval | None = None


class PriceRequest(NamedTuple):
    primitive: Primitive
    readings: Readings
    only: tuple[str, ...] = ()


# axes whose values are numbers alone: by their number, where these go
Varied = dict[int, dict[Place, list[float]]]


def cells(
    asked: PriceRequest,
    axes: Sequence[SweepAxis],
    loads: Sequence[FabricLoader],
    groups: Sequence[GroupSpec],
) -> list[Cell]:
    """Every cell, the last axis fastest: fabric (a load each), ranks (a group each) and bytes, then
    what is varied."""
    shape = tuple(len(axis.values) for axis in axes)
    strides = [prod(shape[index + 1 :]) for index in range(len(shape))]
    read = [(index, axis) for index, axis in enumerate(axes) if axis.is_reading]
    found: list[Cell | None] = [None] * prod(shape)
    for number, load in enumerate(loads):
        for fabric, placed_at, varied in _fabrics(load, axes):
            for chosen in product(*(range(len(axis.values)) for _, axis in read)):
                read_at = {index: at for (index, _), at in zip(read, chosen, strict=True)}
                parts = {axes[index].key: axes[index].values[at] for index, at in read_at.items()}
                request = asked._replace(readings=asked.readings._replace(**parts))
                for index, group in enumerate(groups):
                    fixed = {0: number, 1: index} | placed_at | read_at
                    for at, cell in _block(fabric, group, request, axes, varied, fixed):
                        found[
                            sum(step * stride for step, stride in zip(at, strides, strict=True))
                        ] = cell
    return [cell for cell in found if cell is not None]


def _fabrics(
    load: FabricLoader, axes: Sequence[SweepAxis]
) -> Iterator[tuple[Fabric, dict[int, int], Varied]]:
    """The fabrics that need a load of their own, and what each leaves to be varied by numbers."""
    varied: Varied = {}
    loops: list[tuple[int, SweepAxis]] = []
    loaded: list[Fabric] = []

    def loaded_with(overrides: Sequence[str]) -> Fabric:
        with taken_from(overrides="vary"):
            return load(overrides)

    for index, axis in enumerate(axes):
        if axis.is_reading or axis.key in OWN_AXES:
            continue
        several = [loaded_with([f"{axis.key}={value}"]) for value in followed(axis.values)]
        numbers = differences(several) if len(several) > 1 else None
        if numbers == {}:
            what = f"{axis.key} changes nothing that is priced"
            raise ColltoolError(
                what, argument="vary", fix="a value of a tier, such as ib.bandwidth=50GB/s,100GB/s"
            )
        # by links: for one value at a time
        if numbers is None or several[0].domains or routed(several[0].tiers):
            loops.append((index, axis))
            loaded = several
        else:
            varied[index] = numbers
    for chosen in followed(list(product(*(range(len(axis.values)) for _, axis in loops)))):
        overrides = [
            f"{axis.key}={axis.values[at]}" for (_, axis), at in zip(loops, chosen, strict=True)
        ]
        fabric = loaded[chosen[0]] if len(loops) == 1 else loaded_with(overrides)
        yield fabric, {index: at for (index, _), at in zip(loops, chosen, strict=True)}, varied


def _block(
    fabric: Fabric,
    group: GroupSpec,
    asked: PriceRequest,
    axes: Sequence[SweepAxis],
    varied: Varied,
    fixed: dict[int, int],
) -> Iterator[tuple[tuple[int, ...], Cell]]:
    """The cells where some axes are fixed: over the sizes and what is varied by numbers."""
    loose = [2, *sorted(varied)]
    lengths = [len(axes[axis].values) for axis in loose]
    for start in followed(range(0, prod(lengths), BLOCK)):
        flat = np.arange(start, min(start + BLOCK, prod(lengths)))
        indices = dict(zip(loose, np.unravel_index(flat, lengths), strict=True))
        values = {
            spot: np.array(numbers)[indices[axis]]
            for axis, places in varied.items()
            for spot, numbers in places.items()
        }
        sizes = np.array(axes[2].values, dtype=np.float64)[indices[2]]
        runs = _picked(fabric, values, group, asked, sizes)
        priced = _priced(with_values(fabric, values), group, asked, sizes, runs)
        before = before_dials(fabric) or (fabric if values else None)
        base = None if before is None else _seconds_before(before, group, asked, sizes)
        for number, cell in enumerate(
            with_intervals(priced, fabric, group, asked, sizes.tolist(), base)
        ):
            at = tuple(
                fixed[axis] if axis in fixed else int(indices[axis][number])
                for axis in range(len(axes))
            )
            yield (
                at,
                cell._replace(
                    at=tuple(axis.values[step] for axis, step in zip(axes, at, strict=True))
                ),
            )


Listed = tuple[AlgorithmEstimate, Any]
"""A row for an array of sizes, and a mask of the sizes at which a single price would list it (True:
all)."""


def leading_rows(
    fabric: Fabric, group: GroupSpec, asked: PriceRequest, sizes: Floats
) -> list[AlgorithmEstimate]:
    """The schedules that may be called the fastest, or those that were named, each under its
    fastest protocol."""
    return [row for row, _ in _leading(fabric, group, asked, sizes)]


def winner(fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float) -> AlgorithmEstimate:
    rows = _leading(fabric, group, asked, np.array([size]))
    return rows[int(first_least(list(_totals(rows, 1)))[0])][0]


def _leading(fabric: Fabric, group: GroupSpec, asked: PriceRequest, sizes: Floats) -> list[Listed]:
    placed = place(on_layers(fabric, asked.readings), group)
    costs = []
    where: dict[str, Any] = {}
    for cost, at in Candidates(placed, asked.primitive, asked.readings).shown(asked.only, [sizes]):
        costs.append(cost)
        where[cost.title] = where.get(cost.title, False) | at
    leading = may_lead(costs, asked.only) or best_class(costs)
    mine = by_title(leading)
    return [
        (best_protocol([one.at(sizes) for one in same]), where[title])
        for title, same in mine.items()
    ]


Runs = list[Picked | None]
"""What the library picks at each element; None where that is not known."""


def _picked(
    fabric: Fabric,
    values: dict[Place, Floats],
    group: GroupSpec,
    asked: PriceRequest,
    sizes: Floats,
) -> Runs:
    """Leader of each element, as ``price`` has it: of named algorithms the fastest leads."""
    if asked.only or fabric.library_name not in WITH_A_MODEL:
        return [None] * len(sizes)
    found: Runs = [None] * len(sizes)
    each = np.stack([sizes * 0, *values.values()], axis=1)
    for combination, at in zip(*_alike(each), strict=True):
        one = with_values(
            fabric,
            {spot: float(value) for spot, value in zip(values, combination[1:], strict=True)},
        )
        with suppress(ColltoolError):  # a group that does not fit has its reason in the cell
            for number, pick in zip(
                at.tolist(),
                picked_at(one, group, asked.primitive, sizes[at].tolist()) or [],
                strict=False,
            ):
                found[number] = pick
    return found


def _alike(each: Floats) -> tuple[Floats, list[NDArray[np.intp]]]:
    """The different rows of a table, and where each stands."""
    rows, of = np.unique(each, axis=0, return_inverse=True)
    return rows, [np.flatnonzero(of.reshape(-1) == number) for number in range(len(rows))]


def _with_runs(
    fabric: Fabric,
    group: GroupSpec,
    asked: PriceRequest,
    sizes: Floats,
    listed: list[Listed],
    runs: Runs,
) -> tuple[list[Listed], NDArray[np.intp]]:
    """The rows, those under Simple that a pick is priced as, and for each element the row that its
    pick is (-1: the fastest)."""
    specs = [row.spec for row, _ in listed]
    simple = {one.spec for one in runs if one and one.simple and one.spec in specs}
    under: dict[str, int] = {}
    placed = place(on_layers(fabric, asked.readings), group)
    for one in (
        Candidates(placed, asked.primitive, asked.readings).named(sorted(simple), [sizes])
        if simple
        else ()
    ):
        if (
            one.protocol.lower() == SIMPLE
            and one.rank_class == listed[0][0].rank_class
            and one.choice.spec not in under
        ):
            under[one.choice.spec] = len(listed)
            listed = [*listed, (best_protocol([one.at(sizes)]), np.zeros(len(sizes), dtype=bool))]
    at = [specs.index(one.spec) if one and one.spec in specs else -1 for one in runs]
    return listed, np.array(
        [
            under.get(one.spec, own) if one and one.simple else own
            for one, own in zip(runs, at, strict=True)
        ]
    )


def _totals(rows: Sequence[Listed], count: int) -> Floats:
    """Seconds by row and element; inf where a price would not list the row."""
    return np.stack(
        [np.where(at, np.broadcast_to(row.total_s, (count,)), np.inf) for row, at in rows]
    )


def _ranked(
    rows: Sequence[Listed], count: int, runs: NDArray[np.intp] | None = None
) -> tuple[Floats, NDArray[np.intp], Floats, NDArray[np.intp]]:
    """Seconds by row and element, the row that leads each element (the pick, else the fastest); the
    same without it."""
    totals = _totals(rows, count)
    first = first_least(list(totals))
    if runs is not None:
        first = np.where(runs >= 0, runs, first)
    titles = np.unique([row.title for row, _ in rows], return_inverse=True)[1]
    behind = np.where(titles[:, None] == titles[first][None, :], np.inf, totals)
    bare = np.stack([np.broadcast_to(row.total_s, (count,)) for row, _ in rows])
    return bare, first, behind, first_least(list(behind))


def _known_as(
    rows: Sequence[AlgorithmEstimate], primitive: Primitive, fabric: Fabric, group: GroupSpec
) -> list[str]:
    library, placement = library_of(fabric), place(fabric, group).placement
    return [name_on(library, primitive, placement, row.spec) or row.title for row in rows]


def _of_leaders(rows: Sequence[AlgorithmEstimate], name: str, first: NDArray[np.intp]) -> Floats:
    """A number of the row that leads each element."""
    found: Floats = np.stack([np.broadcast_to(getattr(row, name), first.shape) for row in rows])[
        first, np.arange(len(first))
    ]
    return found


def _priced(
    fabric: Fabric, group: GroupSpec, asked: PriceRequest, sizes: Floats, runs: Runs
) -> list[Cell]:
    count = len(sizes)
    try:
        listed = _leading(fabric, group, asked, sizes)
    except ColltoolError as error:
        return [Cell((), reason=said(error.what))] * count
    ideal = _leading(
        fabric, group, asked._replace(readings=asked.readings._replace(ideal=True)), sizes
    )
    listed, led = _with_runs(fabric, group, asked, sizes, listed, runs)
    rows = [row for row, _ in listed]
    (totals, first, behind, second), (without, quiet, *_) = (
        _ranked(listed, count, led),
        _ranked(ideal, count),
    )
    alpha_s, busbw = (_of_leaders(rows, name, first) for name in ("alpha_s", "busbw_Bps"))
    fitted = {
        at: np.broadcast_to(row.fitted_s, (count,))
        for at, row in enumerate(rows)
        if row.software_time is not NO_SOFTWARE_TIME
    }
    names, found = _known_as(rows, asked.primitive, fabric, group), []
    for n, (at, next_at, ideal_at) in enumerate(
        zip(first.tolist(), second.tolist(), quiet.tolist(), strict=True)
    ):
        row, total, later = rows[at], float(totals[at, n]), float(behind[next_at, n])
        found.append(
            Cell(
                at=(),
                algorithm=row.title,
                known_as=names[at],
                how=row.how,
                spec=row.spec,
                protocol=str(row.protocol if isinstance(row.protocol, str) else row.protocol[n]),
                total_s=total,
                busbw_Bps=float(busbw[n]),
                alpha_share=float(alpha_s[n]) / total,
                runner_up=rows[next_at].title if isfinite(later) else None,
                runner_up_known_as=names[next_at] if isfinite(later) else "",
                runner_up_s=later if isfinite(later) else None,
                ideal=ideal[ideal_at][0].title,
                ideal_s=float(without[ideal_at, n]),
                selectable=row.selectable,
                fitted_s=float(fitted[at][n]) if at in fitted else None,
                held="; ".join(row.software_time.notes(float(row.bytes[n]))),
                picked=int(led[n]) >= 0,
            )
        )
    return found


def _seconds_before(
    fabric: Fabric, group: GroupSpec, asked: PriceRequest, sizes: Floats
) -> Seconds:
    """Seconds of each schedule by size, as picked, else under its fastest protocol; nothing where
    the group does not fit."""
    each = np.unique(sizes)
    picks = _priced(fabric, group, asked, each, _picked(fabric, {}, group, asked, each))
    if picks[0].total_s is None:
        return {}
    rows = [
        (row.title, np.broadcast_to(row.total_s, each.shape))
        for row, _ in _leading(fabric, group, asked, each)
    ]
    seconds = {
        (title, size): float(took[n])
        for title, took in rows
        for n, size in enumerate(each.tolist())
    }
    return seconds | {
        (str(cell.algorithm), float(each[n])): cell.total_s or inf for n, cell in enumerate(picks)
    }


def point_of(
    primitive: Primitive, ranks: int, size: float, names: Sequence[str], columns: Sequence[Cell]
) -> PointTimes:
    """Times of the columns that have a price, except those priced by measured protocols."""
    took = (
        (name, cell.total_s, cell.fitted_s)
        for name, cell in zip(names, columns, strict=True)
        if not cell.protocol
    )
    return PointTimes(
        primitive,
        ranks,
        size,
        tuple((name, total, fitted) for name, total, fitted in took if total is not None),
    )
