"""How far measurements lie from a price: sigma of ln(measured / price), a sum of squared parts.

``spread.csv`` has the size of each part and ``rows.csv`` what was measured:
``tests/benchmarks/bench_spread.py`` makes both. Each part is switched on by how far a request is
from the measured rows; the distance is a least one over rows, so that taking rows away, or moving
away from them, never narrows an interval.

:func:`spread_without_dials` and then :func:`with_dials`, for numbers that the user changed, are what
:mod:`colltool.estimate.interval` asks and makes an interval of. Distances in size and ranks are counted
in doublings: ``log_size`` and the sizes of rows are log2 of bytes.

The parts, by name:

    base         what stays near the nearest row of such a machine
    collective   it is of another collective
    ranks, size  it is so many doublings away in these
    unmeasured   in the place of the last three: no row is comparable, or all are farther than that
    exchange     an all-to-all between nodes, where none was measured
    racks        it crosses racks
    machine      in the place of base and distance: the machine's own factor
    amd, launch  RCCL runs it across nodes; one process drives all GPUs of a node
    dials        the user changed numbers

``_inside`` or ``_across`` behind a name in ``spread.csv`` is the scope, ``_1KB`` to ``_4GB`` the size at
which a part was fitted.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from math import hypot, inf, log2, sqrt
from pathlib import Path
from typing import NamedTuple

# Sizes at which sigma is fitted, log2 of bytes.
_KNOTS = {"1KB": log2(2**10), "1MB": log2(2**20), "128MB": log2(2**27), "4GB": log2(2**32)}
# Sizes between which a part fades, log2 of bytes.
_8MB = 23.0
_256MB = 28.0
_GB = 30.0
_16GB = 34.0
NEAR_RANKS = 0.5
NEAR_SIZE = 2.0
"""Doublings of ranks and of size that are no distance yet."""
FEWEST_IN_A_RACK = 17
"""Least ranks of a domain that counts as a rack: nodes have at most 16 GPUs."""
MOST_RANKS = 4.0
MOST_SIZE = 6.0
"""Doublings beyond those at which the distance stops growing."""
MOST_PEERS = 32
"""Peers of an all-to-all between nodes beyond which its part stops growing: small ones were published to
28."""

SigmaTable = Mapping[str, float]


class MeasuredPlace(NamedTuple):
    """Where rows are comparable: GPU generation, medium, and whether it joins nodes."""

    generation: str
    medium: str
    across: bool

    @property
    def scope(self) -> str:
        """Suffix of the parts of the sigma table: ``across`` or ``inside``."""
        return "across" if self.across else "inside"


class MeasuredSeries(NamedTuple):
    """Rows of one source, collective and rank count; ``sizes``: log2 of bytes, ascending;
    ``racks``: they join racks."""

    collective: str
    ranks: int
    sizes: tuple[float, ...]
    source: str
    racks: bool = False


Index = Mapping[MeasuredPlace, tuple[MeasuredSeries, ...]]


class ErrorRequest(NamedTuple):
    """What is priced, as far as the error depends on it.

    Args:
        collective: the primitive's name, as ``rows.csv`` has it.
        size: bytes.
        amd: RCCL runs it.
        racks: it crosses domains that are racks.
        peers: GPUs of other domains that each one sends to, of an all-to-all; else 0.
        own: the machine's factor is from the user's own rows.
        one_process: one process drives all GPUs of a node.
        moved: |ln(price / price without the numbers that the user changed)|.
        foreign: it cannot have been measured: an announced machine, an algorithm that its library
            does not run.
    """

    place: MeasuredPlace
    collective: str
    ranks: int
    size: float
    amd: bool = False
    racks: bool = False
    peers: int = 0
    own: bool = False
    one_process: bool = False
    moved: float = 0.0
    foreign: bool = False

    @property
    def in_a_rack(self) -> bool:
        """Whether it is inside a domain of more GPUs than a node has."""
        return not self.place.across and self.ranks >= FEWEST_IN_A_RACK


class Distance(NamedTuple):
    """How far the nearest measured row is.

    Args:
        collective, exchange, ranks, size: the parts of sigma that its distance switches on.
        series: the row's series.
        log_size: log2 of the row's bytes.
    """

    collective: float
    exchange: float
    ranks: float
    size: float
    series: MeasuredSeries
    log_size: float

    @property
    def squared(self) -> float:
        """The square of the sigma of all four parts."""
        return self.collective**2 + self.exchange**2 + self.ranks**2 + self.size**2


class PriceSpread(NamedTuple):
    """The parts of sigma that are not 0, by name, the largest first, and the nearest measured row,
    None where none is comparable."""

    parts: tuple[tuple[str, float], ...]
    nearest: Distance | None

    @property
    def sigma(self) -> float:
        """The standard deviation of ln(measured / price)."""
        return sqrt(sum([value**2 for _, value in self.parts]))


@cache
def sigma_table() -> SigmaTable:
    """The size of each part, from ``spread.csv``."""
    with (Path(__file__).parent / "spread.csv").open(encoding="utf-8", newline="") as file:
        return {row["part"]: float(row["value"]) for row in csv.DictReader(file)}


@cache
def index() -> Index:
    """What was measured by place, from ``rows.csv``."""
    with (Path(__file__).parent / "rows.csv").open(encoding="utf-8", newline="") as file:
        return indexed(csv.DictReader(file))


def indexed(rows: Iterable[Mapping[str, str]], without: Collection[str] = ()) -> Index:
    """Series by place, in the order of rows; ``without``: sources that are left out. A row's scope is
    inside, across or racks: across nodes that are racks."""
    series_by_place: dict[MeasuredPlace, list[MeasuredSeries]] = {}
    for row in rows:
        if row["source"] in without:
            continue
        place = MeasuredPlace(row["generation"], row["medium"], row["scope"] != "inside")
        # distances are counted in doublings
        sizes = tuple(sorted(map(log2, map(int, row["bytes"].split()))))
        series_by_place.setdefault(place, []).append(
            MeasuredSeries(
                row["collective"], int(row["ranks"]), sizes, row["source"], row["scope"] == "racks"
            )
        )
    return {place: tuple(series) for place, series in series_by_place.items()}


def spread_without_dials(
    request: ErrorRequest, sigmas: SigmaTable, rows_by_place: Index, posterior: float | None = None
) -> PriceSpread:
    """The parts of sigma for a request, as if the user had changed no number.

    ``posterior``: sigma of the machine's own smooth correction at this size and rank count. Where
    it is less than distance and racks leave open, it replaces these: rows of the machine itself
    say more than rows like it. Inside a rack it always does: few were measured. Between racks the
    factor is the mean of a few clouds, and the spread of clouds, which stands alone where none was
    measured, falls by the root of their number.
    """
    scope = request.place.scope
    log_size = log2(request.size)
    nearest = None if request.foreign else nearest_row(request, sigmas, rows_by_place)
    base = by_size(sigmas, f"base_{scope}", log_size)
    of_unmeasured = {
        "unmeasured": unmeasured(sigmas, scope, log_size),
        "exchange": exchange(sigmas, request.peers, log_size),
    }
    parts: dict[str, float] = {"base": base} | _distance_parts(nearest, of_unmeasured)
    between_racks = request.racks and request.place.across
    if between_racks:
        parts["racks"] = sigmas["racks"]
    if posterior is not None:
        of_machine = {"machine" if posterior > base else "base": max(base, posterior)}
        if between_racks and not request.own:
            of_machine["racks"] = sigmas["racks"] / sqrt(1 + _clouds(request, rows_by_place))
        # where no all-to-all was measured the factor has seen none either
        sigma_by_distance = hypot(*(value for name, value in parts.items() if name != "exchange"))
        # two clouds' racks are further apart than boxes are, however near the next row
        if request.in_a_rack or hypot(*of_machine.values()) < sigma_by_distance:
            parts = of_machine
    if request.amd and request.place.across:
        parts["amd"] = sigmas["amd"] * _fading(log_size, _8MB, _KNOTS["128MB"])
    if request.one_process:
        parts["launch"] = sigmas["launch"] * _fading(log_size, _KNOTS["1MB"], _256MB)
    positive = [(name, value) for name, value in parts.items() if value > 0]
    return PriceSpread(_largest_first(positive), nearest)


def with_dials(
    spread: PriceSpread, place: MeasuredPlace, moved: float, sigmas: SigmaTable
) -> PriceSpread:
    """The spread of a price that the user's own numbers moved by this much: ``moved`` of
    :class:`ErrorRequest`."""
    dials = sigmas[f"dials_{place.scope}"] * moved
    if dials <= 0:
        return spread
    return PriceSpread(_largest_first([*spread.parts, ("dials", dials)]), spread.nearest)


def _largest_first(parts: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Parts by falling sigma; equal ones stay in their order."""
    return tuple(sorted(parts, key=lambda part: -part[1]))


def nearest_row(request: ErrorRequest, sigmas: SigmaTable, rows_by_place: Index) -> Distance | None:
    """The measured row of the same place at the least distance. None where nothing was measured
    there."""
    log_size = log2(request.size)
    nearest: Distance | None = None
    # of equals the first in the file: (squared distance, line)
    nearest_order = (inf, 0)
    for doublings, line, series in _by_ranks(rows_by_place.get(request.place, ()), request.ranks):
        ranks_part = sigmas["ranks"] * doublings
        # all that follow are further away by their ranks alone
        if ranks_part**2 > nearest_order[0]:
            break
        # log2 of bytes
        row_size = _closest(series.sizes, log_size)
        collective_part = exchange_part = 0.0
        if series.collective != request.collective:
            # by the row's size, so that a request that moves away from it comes no nearer
            collective_part = sigmas["collective"] * _fading(row_size, _KNOTS["1MB"], _16GB)
            exchange_part = exchange(sigmas, request.peers, row_size)
        size_part = sigmas["size"] * _beyond(abs(row_size - log_size), NEAR_SIZE, MOST_SIZE)
        distance = Distance(collective_part, exchange_part, ranks_part, size_part, series, row_size)
        order = (distance.squared, line)
        if order < nearest_order:
            nearest = distance
            nearest_order = order
    return nearest


@lru_cache(maxsize=256)
def _by_ranks(
    rows: tuple[MeasuredSeries, ...], ranks: int
) -> tuple[tuple[float, int, MeasuredSeries], ...]:
    """The series of a place with their distance in ranks, in doublings, and their line in the file;
    the nearest first. From 64 ranks to 256 are 2 doublings, of which 0.5 are no distance yet."""
    series_by_distance = []
    for line, series in enumerate(rows):
        apart = abs(log2(series.ranks) - log2(ranks))
        series_by_distance.append((_beyond(apart, NEAR_RANKS, MOST_RANKS), line, series))
    # series do not compare: by distance, then by line
    return tuple(sorted(series_by_distance, key=lambda row: row[:2]))


def series_of(place: MeasuredPlace, collective: str) -> list[MeasuredSeries]:
    """The measured series of a place and collective; KeyError where nothing was measured."""
    return [series for series in index()[place] if series.collective == collective]


def comparable(request: ErrorRequest, rows_by_place: Index) -> int:
    """The measured rows of the same place and collective within :data:`NEAR_RANKS` and
    :data:`NEAR_SIZE` doublings."""
    return sum(_near_rows(request, series) for series in rows_by_place.get(request.place, ()))


def _near_rows(request: ErrorRequest, series: MeasuredSeries) -> int:
    """The rows of a series that are of the same collective and near."""
    apart = abs(log2(series.ranks) - log2(request.ranks))
    if series.collective != request.collective or apart > NEAR_RANKS:
        return 0
    log_size = log2(request.size)
    return sum(abs(size - log_size) <= NEAR_SIZE for size in series.sizes)


def unmeasured(sigmas: SigmaTable, scope: str, log_size: float) -> float:
    """Sigma where no measured row is comparable: another device, another medium."""
    return _up_to_a_gigabyte(sigmas, f"unmeasured_{scope}", log_size)


def exchange(sigmas: SigmaTable, peers: int, log_size: float) -> float:
    """Sigma of an all-to-all between nodes where none was measured: rings and trees, which were,
    load a path or two of the network, and this one to every peer. By doublings of the peers."""
    doublings = log2(min(max(peers, 1), MOST_PEERS))
    return doublings * _up_to_a_gigabyte(sigmas, "exchange", log_size)


def _up_to_a_gigabyte(sigmas: SigmaTable, name: str, log_size: float) -> float:
    """A part at a size: its square straight in the logarithm from 1 MiB to 1 GiB. Of 0.4 at 1 MiB
    and 0.2 at 1 GiB half way, at 32 MiB, sqrt(0.10) = 0.32."""
    at_1MB = sigmas[f"{name}_1MB"]
    at_1GB = sigmas[f"{name}_1GB"]
    way = min(max((log_size - _KNOTS["1MB"]) / (_GB - _KNOTS["1MB"]), 0.0), 1.0)
    return sqrt(at_1MB**2 + (at_1GB**2 - at_1MB**2) * way)


def _clouds(request: ErrorRequest, rows_by_place: Index) -> int:
    """The sources that measured this collective between racks of such GPUs, near it in ranks and
    size, whatever the network: the machine's factor is of all of them."""
    sources = set()
    for place, place_series in rows_by_place.items():
        if place.generation != request.place.generation or not place.across:
            continue
        for series in place_series:
            if series.racks and _near_rows(request, series):
                sources.add(series.source)
    return len(sources)


def by_size(sigmas: SigmaTable, name: str, log_size: float, *, signed: bool = False) -> float:
    """A part at a size: its square straight in the logarithm of the size between its knots, flat
    outside. ``signed``: not a sigma but a number that may be negative, itself straight."""
    power = 1 if signed else 2
    sizes = list(_KNOTS.values())
    values = [sigmas[f"{name}_{knot}"] ** power for knot in _KNOTS]
    after = bisect_left(sizes, log_size)
    if after in (0, len(sizes)):
        value = values[0 if after == 0 else -1]
    else:
        before = after - 1
        rise = values[after] - values[before]
        doublings = sizes[after] - sizes[before]
        value = values[before] + rise * (log_size - sizes[before]) / doublings
    return value if signed else sqrt(value)


def _distance_parts(
    nearest: Distance | None, unmeasured_parts: dict[str, float]
) -> dict[str, float]:
    """The parts of the distance, or those of an unmeasured request where the distance is more."""
    if nearest is None or nearest.squared >= hypot(*unmeasured_parts.values()) ** 2:
        return unmeasured_parts
    return {
        "collective": nearest.collective,
        "exchange": nearest.exchange,
        "ranks": nearest.ranks,
        "size": nearest.size,
    }


def _closest(sizes: tuple[float, ...], log_size: float) -> float:
    """The closest of ascending sizes."""
    after = bisect_left(sizes, log_size)
    neighbours = sizes[max(after - 1, 0) : after + 1]
    return min(neighbours, key=lambda size: abs(size - log_size))


def _beyond(doublings: float, near: float, most: float) -> float:
    """What counts of a distance: nothing up to ``near``, at most ``most`` beyond it."""
    return min(max(doublings - near, 0.0), most)


def _fading(log_size: float, full: float, gone: float) -> float:
    """1 up to one size, 0 from another on; its square falls linearly in between, in the logarithm:
    sqrt(0.5) half way."""
    return sqrt(min(max((gone - log_size) / (gone - full), 0.0), 1.0))
