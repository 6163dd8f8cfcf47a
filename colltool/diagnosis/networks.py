"""The network of a machine whose logs name no NICs: the usual NICs of a host that fit what was
measured between hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from statistics import median
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import whole_percent
from colltool.base.primitives import AR
from colltool.calibration.series_prices import MOST_IN_A_HOST, check_fits
from colltool.diagnosis.hypotheses import Scenario
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.thresholds import EXPECT, LARGE, PLATEAU
from colltool.fabric.model import Fabric
from colltool.fabric.variants import scaled_bandwidth, with_tiers
from colltool.logs.series import Series

RINGS = ("multi-rail-ring", "ring")
COUNTS, SPEEDS_GBIT = (8, 4, 2, 1), (800, 400, 200, 100)
LEAST = 1 / 4  # of the bundled fabric's network: below it a fault is likelier than other NICs
# of the line rate, at most; trees of two hosts send each byte once and reach up to TWO_HOSTS of a
# ring's busbw
LINE = 1.02
TWO_HOSTS = 1.7
SURE = 1.3  # advantage of trees up to which they are not told from rings by the NICs
USUAL = 0.93  # of its line rate, what a healthy network carries
SENT = 2**24  # bytes from which messages show a rate


class NetworkMatch(NamedTuple):
    """``nics`` NICs of ``gbit`` Gbit/s a host, of which the measured times show ``share``."""

    nics: int
    gbit: int
    share: float
    fabric: Fabric

    @property
    def said(self) -> str:
        """Every usual way to have that rate: ``4 x 200G or 8 x 100G a host at 93%``."""
        total, hosts = self.nics * self.gbit, per_host(self.fabric)
        ways = [
            f"{count} x {total // count}G"
            for count in COUNTS
            if count <= hosts and total / count in SPEEDS_GBIT
        ]
        return f"{' or '.join(reversed(ways[:2]))} a host at {whole_percent(self.share)}"


def per_host(fabric: Fabric) -> int:
    return fabric.tiers[0].endpoints


def scaled_network(fabric: Fabric, share: float) -> Fabric:
    return with_tiers(
        fabric, lambda tier: scaled_bandwidth(tier, share), range(1, len(fabric.tiers))
    )


def nics_of(fabric: Fabric) -> str:
    """The NICs of a host by the fabric's own numbers: one a device."""
    return f"{per_host(fabric)} x {fabric.tiers[-1].bandwidth * 8 / 1e9:.0f}G"


def is_stream(series: Series) -> bool:
    """Of a NIC alone, without GPUs: ib_write_bw."""
    return series.version == "perftest"


def between_hosts(fabric: Fabric, series: Sequence[Series]) -> list[Series]:
    """The series that show what the network carries."""
    if len(fabric.tiers) < 2 or per_host(fabric) > MOST_IN_A_HOST:
        return []
    across = [one for one in series if one.ranks > per_host(fabric) or (one.nodes or 1) > 1]
    return [one for one in across if one.points[-1].bytes >= SENT]


def reached(fabric: Fabric, series: Series) -> float | None:
    """The share of a ring's rate, or of the fastest price, that large messages reach."""
    scenario = Scenario(fabric, only=RINGS if series.primitive is AR else ())
    try:
        check_fits(fabric, series)
    except ColltoolError:
        return None
    times = scenario.times(series)
    if times is None:
        return None
    plateau = [
        at
        for at, point in enumerate(series.points)
        if point.bytes * PLATEAU >= series.points[-1].bytes
    ][-LARGE:]
    return median(times[at] / series.points[at].seconds for at in plateau)


def matching_network(fabric: Fabric, series: Sequence[Series]) -> NetworkMatch | None:
    """The usual NICs that fit all series between hosts; None if none do, if the fabric's own do, or
    if no series shows them."""
    across = between_hosts(fabric, series)
    if not across or _fits(fabric, across, EXPECT) is not None:
        return None
    found = [match for match in _candidates(fabric, across) if match is not None]
    return min(found, key=lambda one: abs(log(min(one.share, 1.0) / USUAL)), default=None)


def _candidates(fabric: Fabric, across: Sequence[Series]) -> Iterator[NetworkMatch | None]:
    hosts, own = per_host(fabric), fabric.tiers[-1].bandwidth
    tried: set[float] = set()
    for count in (one for one in COUNTS if one <= hosts):
        for gbit in SPEEDS_GBIT:
            total = count * gbit / 8 * 1e9 / hosts / own
            if not LEAST <= total < 1 or total in tried:
                continue
            tried.add(total)
            other = scaled_network(fabric, total)
            share = _fits(other, across, EXPECT)
            yield None if share is None else NetworkMatch(count, gbit, share, other)


def trees_share(fabric: Fabric, one: ValidatedSeries) -> float:
    """What a ring reaches of the price, for an all-reduce of two hosts whose NICs bind; 1 for any
    other series.

    There NCCL runs trees, which send each byte once, or rings, by version and topology, and either
    is healthy: 89 and 57 GB/s of busbw over 4 and 2 x 200G on A100 (nccl-tests 152, nccl 837), 158
    over 4 x 200G on GH200 (Alps).
    """
    series = one.series
    if (
        series.primitive is not AR
        or len(fabric.tiers) < 2
        or series.ranks != 2 * per_host(fabric)
        or not _own_nics(fabric)
    ):
        return 1.0
    rings = Scenario(fabric, only=RINGS).times(series)
    share = one.points[-1].predicted_s / rings[-1] if rings else 1.0
    return share if share < 1 / SURE else 1.0


def _own_nics(fabric: Fabric) -> bool:
    """Whether the network is another than the bundled fabric's, for whose machine trees or rings
    are known."""
    return any(
        key.startswith(f"{fabric.tiers[-1].name}.") and key.endswith("bandwidth")
        for key, _ in fabric.overrides
    )


def _fits(fabric: Fabric, across: Sequence[Series], least: float) -> float | None:
    """The lowest share of all series, if every one is at a healthy share."""
    shares: list[float] = []
    for one in across:
        share = reached(fabric, one)
        trees = one.primitive is AR and one.ranks == 2 * per_host(fabric)
        if share is None or not least <= share <= (TWO_HOSTS if trees else LINE):
            return None
        shares.append(share)
    return min(shares)
