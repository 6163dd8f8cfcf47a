"""The findings of ``validate`` for calls whose measured times waited for nobody: those of groups with a trace of every rank."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError
from colltool.base.primitives import P2P
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.measurements.series import Measurements
from colltool.traces.measurements import Measured, series_of
from colltool.traces.observed import Observations
from colltool.traces.results import Call, Finding


def judged(fabric: Fabric, calls: Sequence[Call], traces: Sequence[Observations], readings: Readings) -> tuple[Finding, ...]:
    """What each series of groups of consecutive ranks tells, where it can be validated."""
    from colltool.calibration.validate import validate

    found = []
    usable = (call for call in calls if not call.bound and not call.reason and call.primitive is not P2P)
    packed = [
        Measured(call.primitive, call.group_size, call.bytes, call.measured_s)
        for call in usable
        if call.axes == ((call.group_size, 1),)
    ]
    for series in series_of(packed, traces):
        try:
            (one,) = validate(fabric, Measurements((series,), ()), readings=readings).series
        except ColltoolError:  # times that no hardware takes, or that nothing shipped explains: no finding is right
            continue
        if one.findings:
            found.append(Finding(series.title, tuple(one.findings)))
    return tuple(found)
