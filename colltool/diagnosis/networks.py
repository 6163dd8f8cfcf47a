"""The network of a machine whose logs name no NICs: among the usual NICs of a host, those that fit
what was measured between hosts.

:func:`matching_network` tries every usual number and speed of NICs.
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
from colltool.diagnosis.scenario import Scenario, with_share
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.size_classes import LARGE, PLATEAU
from colltool.diagnosis.thresholds import HEALTHY_SHARE
from colltool.fabric.model import Fabric
from colltool.logs.series import Series

# the algorithms of rings: over all NICs of a host, else over one
RINGS = ("multi-rail-ring", "ring")

# NICs of a host
COUNTS = (8, 4, 2, 1)
# Gbit/s of a NIC, as they are sold
SPEEDS_GBIT = (800, 400, 200, 100)
# share of the bundled fabric's bandwidth below which a fault is likelier than other NICs
LEAST_OF_BUNDLED = 1 / 4
# largest share of the line rate that measurements show
MOST_OF_LINE = 1.02
# largest share of a ring's busbw that trees of two hosts reach, which send each byte once
TWO_HOSTS = 1.7
# share of its line rate that a healthy network carries
USUAL_SHARE = 0.93
# bytes from which on messages show a rate
SHOWS_RATE = 2**24


class NetworkMatch(NamedTuple):
    """Usual NICs of a host, and the fabric that has them."""

    nics: int
    gbit: int  # Gbit/s of a NIC
    share: float  # lowest share of its prices that a series reaches
    fabric: Fabric  # with them as its network

    @property
    def said(self) -> Statement:
        """Every usual way to have that rate: ``4 x 200G or 8 x 100G``."""
        host_gbit = self.nics * self.gbit
        ways = [
            statement("nics", count=count, gbit=host_gbit // count)
            for count in reversed(COUNTS)
            if count <= per_host(self.fabric) and host_gbit / count in SPEEDS_GBIT
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
    """The series that show what the network between hosts carries: several hosts, and large
    messages."""
    inside = per_host(fabric)
    if len(fabric.tiers) < 2 or inside > MOST_IN_A_HOST:
        return []
    across = [run for run in series if run.ranks > inside or (run.nodes or 1) > 1]
    return [run for run in across if run.points[-1].bytes >= SHOWS_RATE]


def share_reached(fabric: Fabric, series: Series, *, as_rings: bool = True) -> float | None:
    """The share that large messages reach of the fastest price, their median; None where nothing
    runs.

    Args:
        as_rings: all-reduces are compared with a ring's price, not with the fastest.
    """
    try:
        check_fits(fabric, series)
    except ColltoolError:
        return None
    only = RINGS if as_rings and series.primitive is AR else ()
    times = Scenario(fabric, only=only).times(series)
    if times is None:
        return None
    shares = [
        time / point.seconds
        for time, point in zip(times, series.points, strict=True)
        if point.bytes * PLATEAU >= series.points[-1].bytes
    ]
    return median(shares[-LARGE:])


def matching_network(fabric: Fabric, series: Sequence[Series]) -> NetworkMatch | None:
    """The usual NICs that fit all series between hosts, those nearest to what is usual; None if none
    do, if the fabric's own do, or if no series shows them."""
    across = between_hosts(fabric, series)
    if not across or _least_share(fabric, across) is not None:
        return None
    return min(_candidates(fabric, across), key=_distance_to_usual, default=None)


def _distance_to_usual(match: NetworkMatch) -> float:
    """How far times are from those of a healthy network, by log ratio. Trees exceed a ring's price,
    by how much is not known: that counts as 1."""
    return abs(log(min(match.share, 1.0) / USUAL_SHARE))


def _candidates(fabric: Fabric, across: Sequence[Series]) -> Iterator[NetworkMatch]:
    """Every slower network of usual NICs that fits all series between hosts."""
    ranks = per_host(fabric)
    bundled_Bps = fabric.tiers[-1].bandwidth  # of a rank
    network = frozenset(tier.name for tier in fabric.tiers[1:])
    tried: set[float] = set()  # 4 x 200G is 8 x 100G: of these the one with most NICs is taken
    for count in COUNTS:
        for gbit in SPEEDS_GBIT:
            # 4 x 200G on a host of 8 ranks: 12.5 GB/s a rank, half of the 25 of 8 x 200G
            host_Bps = count * gbit / 8 * 1e9
            of_bundled = host_Bps / ranks / bundled_Bps
            if count > ranks or of_bundled in tried:
                continue
            if not LEAST_OF_BUNDLED <= of_bundled < 1:
                continue
            tried.add(of_bundled)
            slower = with_share(fabric, of_bundled, network)
            share = _least_share(slower, across)
            if share is not None:
                yield NetworkMatch(count, gbit, share, slower)


def _least_share(fabric: Fabric, across: Sequence[Series]) -> float | None:
    """The lowest share of all series, if every one is at a healthy share; else None."""
    shares: list[float] = []
    for series in across:
        share = share_reached(fabric, series)
        most = TWO_HOSTS if may_run_trees(fabric, series) else MOST_OF_LINE
        if share is None or not HEALTHY_SHARE <= share <= most:
            return None
        shares.append(share)
    return min(shares)


def may_run_trees(fabric: Fabric, series: Series) -> bool:
    """Whether NCCL may run trees: in an all-reduce of exactly two hosts."""
    return series.primitive is AR and series.ranks == 2 * per_host(fabric)
