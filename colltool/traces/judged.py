"""The findings of ``validate`` for calls whose measured times waited for nobody: those of groups with a trace of every rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.measured.series import Measurements, Point, Series
from colltool.pricing.readings import Readings
from colltool.primitives import P2P, Primitive
from colltool.traces.results import Call, Finding


def series_of(calls: Sequence[Call]) -> tuple[Series, ...]:
    """The calls as series of measured sizes, by primitive and ranks: of groups of consecutive ranks, where all have a trace."""
    times: dict[tuple[Primitive, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        if not call.bound and call.expected_s is not None and call.axes == ((call.group_size, 1),) and call.primitive is not P2P:
            times[call.primitive, call.group_size][call.bytes].append(call.measured_s)
    return tuple(
        Series(
            primitive=primitive,
            ranks=ranks,
            nodes=None,
            points=tuple(
                Point(float(size), median(several), min(several), max(several), len(several), "traces")
                for size, several in sorted(sizes.items())
            ),
            library="NCCL",
        )
        for (primitive, ranks), sizes in sorted(times.items())
    )


def judged(fabric: Fabric, calls: Sequence[Call], readings: Readings) -> tuple[Finding, ...]:
    """What each series tells, where it can be validated."""
    from colltool.fitting.validate import validate

    found = []
    for series in series_of(calls):
        try:
            (one,) = validate(fabric, Measurements((series,), ()), readings=readings).series
        except ColltoolError:  # times that no hardware takes, or that nothing shipped explains: no finding is right
            continue
        if one.findings:
            found.append(Finding(series.title, tuple(one.findings)))
    return tuple(found)
