"""The network of a machine whose logs name no NICs: among the usual NICs of a host, those that fit
what was measured between hosts.

:func:`matching_network` tries every usual number and speed of NICs; :func:`trees_share` lowers the
bar where NCCL may run trees or rings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from statistics import median
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR
from colltool.base.statements import Statement
from colltool.calibration.log_fits import MOST_IN_A_HOST, check_fits
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.scenario import Scenario, with_share
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.size_classes import LARGE, PLATEAU
from colltool.diagnosis.thresholds import HEALTHY_SHARE
from colltool.fabric.model import Fabric
from colltool.logs.series import Series

RINGS = ("multi-rail-ring", "ring")
COUNTS = (8, 4, 2, 1)  # NICs of a host
SPEEDS_GBIT = (800, 400, 200, 100)  # of a NIC, as they are sold
# share of the bundled fabric's network below which a fault is likelier than other NICs
LEAST_NETWORK = 1 / 4
MOST_OF_LINE = 1.02  # largest share of the line rate that measurements show
# largest share of a ring's busbw that trees of two hosts reach, which send each byte once
TWO_HOSTS = 1.7
TREE_GAIN = 1.3  # price of rings over that of trees up to which either may have run
USUAL_SHARE = 0.93  # share of its line rate that a healthy network carries
SHOWS_RATE = 2**24  # bytes from which on messages show a rate


class NetworkMatch(NamedTuple):
    """``nics`` NICs of ``gbit`` Gbit/s a host, of which the measured times show ``share``."""

    nics: int
    gbit: int
    share: float
    fabric: Fabric

    @property
    def said(self) -> Statement:
        """Every usual way to have that rate: ``4 x 200G or 8 x 100G``."""
        total = self.nics * self.gbit
        ways = [
            statement("nics", count=count, gbit=total // count)
            for count in reversed(COUNTS)
            if count <= per_host(self.fabric) and total / count in SPEEDS_GBIT
        ]
        # of many the two with the most NICs, which are the likeliest
        return statement("nics-ways", ways=tuple(ways[-2:]))


def per_host(fabric: Fabric) -> int:
    """Ranks of a host."""
    return fabric.tiers[0].endpoints


def nics_of(fabric: Fabric) -> Statement:
    """The NICs of a host by the fabric's own numbers: one a device."""
    return statement("nics", count=per_host(fabric), gbit=fabric.tiers[-1].bandwidth * 8 / 1e9)


def is_stream(series: Series) -> bool:
    """Whether a series is of a NIC alone, without GPUs: ib_write_bw."""
    return series.version == "perftest"


def between_hosts(fabric: Fabric, series: Sequence[Series]) -> list[Series]:
    """The series that show what the network carries."""
    inside = per_host(fabric)
    if len(fabric.tiers) < 2 or inside > MOST_IN_A_HOST:
        return []
    across = [run for run in series if run.ranks > inside or (run.nodes or 1) > 1]
    return [run for run in across if run.points[-1].bytes >= SHOWS_RATE]


def share_reached(fabric: Fabric, series: Series, *, rings: bool = True) -> float | None:
    """The share that large messages reach of the fastest price (with ``rings``, of a ring's rate in
    an all-reduce). None where nothing runs."""
    try:
        check_fits(fabric, series)
    except ColltoolError:
        return None
    times = Scenario(fabric, only=RINGS if rings and series.primitive is AR else ()).times(series)
    if times is None:
        return None
    shares = [
        time / point.seconds
        for time, point in zip(times, series.points, strict=True)
        if point.bytes * PLATEAU >= series.points[-1].bytes
    ]
    return median(shares[-LARGE:])


def matching_network(fabric: Fabric, series: Sequence[Series]) -> NetworkMatch | None:
    """The usual NICs that fit all series between hosts. None if none do, if the fabric's own do, or
    if no series shows them."""
    across = between_hosts(fabric, series)
    if not across or _least_share(fabric, across) is not None:
        return None
    return min(
        _candidates(fabric, across),
        key=lambda match: abs(log(min(match.share, 1.0) / USUAL_SHARE)),
        default=None,
    )


def _candidates(fabric: Fabric, across: Sequence[Series]) -> Iterator[NetworkMatch]:
    """Every slower network of usual NICs that fits all series between hosts."""
    hosts = per_host(fabric)
    outer = fabric.tiers[-1].bandwidth
    network = frozenset(tier.name for tier in fabric.tiers[1:])
    tried: set[float] = set()
    for count in COUNTS:
        for gbit in SPEEDS_GBIT:
            total = count * gbit / 8 * 1e9 / hosts / outer
            if count > hosts or not LEAST_NETWORK <= total < 1 or total in tried:
                continue
            tried.add(total)
            other = with_share(fabric, total, network)
            share = _least_share(other, across)
            if share is not None:
                yield NetworkMatch(count, gbit, share, other)


def _least_share(fabric: Fabric, across: Sequence[Series]) -> float | None:
    """The lowest share of all series, if every one is at a healthy share."""
    shares: list[float] = []
    for series in across:
        share = share_reached(fabric, series)
        most = TWO_HOSTS if _may_run_trees(fabric, series) else MOST_OF_LINE
        if share is None or not HEALTHY_SHARE <= share <= most:
            return None
        shares.append(share)
    return min(shares)


def _may_run_trees(fabric: Fabric, series: Series) -> bool:
    """Whether it is an all-reduce of exactly two hosts."""
    return series.primitive is AR and series.ranks == 2 * per_host(fabric)


def trees_share(fabric: Fabric, judged: ValidatedSeries) -> float:
    """What a ring reaches of the price, for an all-reduce of two hosts whose NICs bind; 1 for any
    other series.

    There NCCL runs trees, which send each byte once, or rings, by version and topology, and either
    is healthy: 89 and 57 GB/s of busbw over 4 and 2 x 200G on A100 (nccl-tests 152, nccl 837), 158
    over 4 x 200G on GH200 (Alps).
    """
    series = judged.series
    if not _may_run_trees(fabric, series) or len(fabric.tiers) < 2 or not _own_nics(fabric):
        return 1.0
    rings = Scenario(fabric, only=RINGS).times(series)
    share = judged.points[-1].predicted_s / rings[-1] if rings else 1.0
    return share if share < 1 / TREE_GAIN else 1.0


def _own_nics(fabric: Fabric) -> bool:
    """Whether the network was changed: of bundled ones it is known whether trees or rings run."""
    outer = f"{fabric.tiers[-1].name}."
    return any(key.startswith(outer) and key.endswith("bandwidth") for key, _ in fabric.overrides)
