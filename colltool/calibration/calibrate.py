"""``calibrate``: fits a fabric's tiers to measured series, innermost first, and writes a fabric
that loads again."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import wrap
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from colltool.base.errors import ColltoolError, clipped, given, nearest
from colltool.base.formatting import format_rate, format_time, percent, size_text, whole_percent
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.calibration.machine_rows import OwnRows, own_rows
from colltool.calibration.next_row import NextRow, next_row
from colltool.calibration.old_form import in_old_form
from colltool.calibration.select import Candidate, ExcludedSize, mape, unseen_mape
from colltool.calibration.serialise import (
    FittedProtocol,
    notes_on,
    without_cables,
    without_intervals,
)
from colltool.calibration.series_prices import check_fits, price_series
from colltool.calibration.tier import SeriesFit, calibrate_tier
from colltool.definitions.field_types import MAX_BANDWIDTH_BPS, MIN_BANDWIDTH_BPS
from colltool.estimate.assumptions import Readings
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.templates import fabric_text
from colltool.fabric.uneven import check_even
from colltool.logs.series import Measurements, Series, Skipped
from colltool.machines.factor import MeasuredMachine

_LONGEST_NAME = 64  # as the model has it
_ABSURD = 1.0  # mean relative error beyond which a fit explains nothing


class Residual(NamedTuple):
    """A measured size against the fit; ``relative_error`` is fitted/measured - 1, ``used`` is False
    for sizes left out."""

    bytes: float
    measured_s: float
    fitted_s: float
    relative_error: float
    algorithm: str
    protocol: str
    used: bool


class FittedSeries(NamedTuple):
    """The fit of one series. ``mape`` and ``worst`` (signed) are over the sizes used; ``cv_mape``
    is cross-validated, None with only two sizes. ``confidence`` says in words how clearly
    ``algorithms`` beat ``candidates``."""

    series: Series
    algorithms: tuple[str, ...]
    confidence: str
    candidates: tuple[Candidate, ...]
    protocols: tuple[FittedProtocol, ...]
    residuals: tuple[Residual, ...]
    left_out: tuple[ExcludedSize, ...]
    mape: float
    worst: float
    cv_mape: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """A calibrated fabric; ``text`` is its YAML file, ``notes`` the caveats of the fit.

    ``own``: the same rows as a machine file; without ``series`` that is all, and the fabric is as
    it was.
    """

    subject: ClassVar[str] = "calibrate"
    fabric: Fabric
    tier: str
    series: tuple[FittedSeries, ...]
    notes: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    text: str
    path: str = ""
    overrides: tuple[tuple[str, str], ...] = ()
    own: OwnRows | None = None
    not_own: str = ""

    @property
    def machine_text(self) -> str:
        """The machine file of the measured rows; empty where none can be written, and ``not_own``
        says why."""
        return self.own.text if self.own else ""

    @property
    def machine(self) -> MeasuredMachine | None:
        """The machine of these rows, as ``machine=`` of :func:`colltool.price` takes it."""
        return self.own.machine if self.own else None

    @cached_property
    def next(self) -> NextRow | None:
        """The measurement that would narrow the machine's prices most."""
        return next_row(self.own.file) if self.own else None


class Wanted(NamedTuple):
    """The user's choices: ``tier`` None for every measured one, ``algorithms`` empty to find them
    out, ``line_Bps`` to write bandwidths as shares (eta) of this line rate."""

    tier: str | None = None
    algorithms: tuple[str, ...] = ()
    line_Bps: float | None = None


def calibrate(
    data: dict[str, Any], measurements: Measurements, wanted: Wanted, name: str
) -> Calibration:
    """Fit each tier to the series that have it as their outermost one."""
    line_Bps = wanted.line_Bps
    if line_Bps is not None and not MIN_BANDWIDTH_BPS <= line_Bps <= MAX_BANDWIDTH_BPS:
        raise ColltoolError(
            f"no port carries {format_rate(line_Bps)}",
            argument="line_rate",
            fix="write 450GB/s, 400Gbps",
        )
    if not measurements.series:
        why = "; ".join(f"{one.reason} ({one.where})" for one in measurements.skipped)
        what = f"nothing to fit: the logs hold no usable series{f': {why}' if why else ''}"
        raise ColltoolError(what, fix="measure again, and give the whole output of the benchmark")
    data = deepcopy(data)
    without_cables(data)
    without_intervals(data)
    fabric = read_fabric(fabric_text(data), "fabric")
    check_even(fabric)
    data = in_old_form(data, fabric)
    by_tier = _by_tier(fabric, measurements.series, wanted.tier)
    fits: list[SeriesFit] = []
    for tier, series in by_tier.items():
        try:
            fits += calibrate_tier(data, tier, series, wanted.algorithms, line_Bps)
        except np.linalg.LinAlgError as error:  # numbers so far apart that no solver takes them
            what = f"{series[0].title}: no line can be fitted to these times"
            fix = (
                f"check the unit of the times in the logs, and the numbers of {tier} in the fabric"
            )
            raise ColltoolError(what, where=series[0].points[0].where, fix=fix) from error
    data["name"] = name[:_LONGEST_NAME]
    try:
        fabric = read_fabric(fabric_text(data), "the calibrated fabric")
    except ColltoolError as error:
        first = getattr(error, "problems", [error])[0]
        raise ColltoolError(
            f"implausible times: {first.what}", fix="check the unit of the times in the logs"
        ) from error
    results = tuple(_result(fabric, fit) for fit in fits)
    notes = series_notes(results) + notes_on(
        [(fit.member, [one.name for one in fit.protocols]) for fit in fits]
    )
    notes += line_notes(results, line_Bps) if line_Bps else []
    if unused := len(measurements.series) - len(results):
        notes.append(f"{unused} series span other tiers and were left out")
    text = fabric_text(data, head(results, notes))
    return Calibration(
        fabric, ", ".join(by_tier), results, tuple(notes), measurements.skipped, text
    )


def machine_alone(
    fabric: Fabric, measurements: Measurements, wanted: Wanted, name: str
) -> Calibration:
    """A machine file of the rows, and no fit of tiers."""
    own = own_rows(fabric, measurements, name, wanted.algorithms)
    return Calibration(
        fabric, "", (), (), measurements.skipped, "", overrides=fabric.overrides, own=own
    )


def with_own(
    fitted: Calibration, fabric: Fabric, measurements: Measurements, wanted: Wanted, name: str
) -> Calibration:
    """A fit with the machine file of the same rows, or with why there is none."""
    try:
        return replace(fitted, own=own_rows(fabric, measurements, name, wanted.algorithms))
    except ColltoolError as error:
        return replace(fitted, not_own=error.what)


def _by_tier(fabric: Fabric, series: Sequence[Series], only: str | None) -> dict[str, list[Series]]:
    names = [tier.name for tier in fabric.tiers]
    if only is not None and only not in names:
        fix = f"{nearest(only, names)} tiers: {', '.join(names)}".strip()
        raise ColltoolError(
            f"{fabric.name} has no tier '{clipped(only)}'", argument="tier", fix=fix
        )
    found: dict[str, list[Series]] = {name: [] for name in names}
    for one in series:
        found[check_fits(fabric, one).spans[-1].tier.name].append(one)
    kept = {name: listed for name, listed in found.items() if listed and only in (None, name)}
    if not kept:
        spanned = ", ".join(name for name, listed in found.items() if listed)
        fix = f"take {given('tier', spanned)}"
        raise ColltoolError(
            f"no series ends on {only}: they span {spanned}", argument="tier", fix=fix
        )
    return kept


def _result(fabric: Fabric, fit: SeriesFit) -> FittedSeries:
    series, chosen, rows = fit.member.series, fit.chosen, []
    for point, used, best in zip(
        series.points, fit.member.used, price_series(fabric, series, Readings()).best, strict=True
    ):
        error = best.seconds / point.seconds - 1
        rows.append(
            Residual(
                point.bytes,
                point.seconds,
                best.seconds,
                error,
                best.algorithm,
                best.protocol,
                used=bool(used),
            )
        )
    seen = [one.relative_error for one in rows if one.used]
    mean = mape(np.array(seen))
    if mean > _ABSURD:
        what = (
            f"{series.title}: no alpha-beta curve fits these times, the best is off by more than"
            " 100%"
        )
        fix = "check that the log is complete and its units are right"
        raise ColltoolError(what, where=series.points[0].where, fix=fix)
    unseen = np.append(fit.errors, [one.relative_error for one in rows if not one.used])
    return FittedSeries(
        series=series,
        algorithms=chosen.algorithms,
        confidence=chosen.confidence,
        candidates=chosen.candidates,
        protocols=fit.protocols,
        residuals=tuple(rows),
        left_out=fit.left_out,
        mape=mean,
        worst=max(seen, key=abs, default=0.0),
        cv_mape=unseen_mape(unseen),
    )


_T = TypeVar("_T")
_WIDTH = 118
# sizes whose errors the file's head lists: in all, and per series at least
_LISTED, _FEWEST_LISTED = 300, 3
# by what the written file may do worse than the fit on unseen sizes before a note says so
_ASTRAY, _ASTRAY_BY = 2.0, 0.03


def series_notes(results: Sequence[FittedSeries]) -> list[str]:
    notes = []
    for one in results:
        title = one.series.title
        sure = f"{one.series.primitive.spoken}: {' + '.join(one.algorithms)} ({one.confidence})"
        tied = sorted({field for protocol in one.protocols for field in protocol.tied})
        alone = (
            len(
                {
                    other.series.ranks
                    for other in results
                    if other.series.primitive is one.series.primitive
                }
            )
            == 1
        )
        notes += [sure] + [_tied(one, field, alone=alone) for field in tied]
        if one.cv_mape is not None and one.mape > _ASTRAY * one.cv_mape + _ASTRAY_BY:
            notes.append(
                f"{title}: the fit alone is {percent(one.cv_mape)} off, the written file"
                f" {percent(one.mape)}: the inner tiers are not what the fit assumes; name what"
                " ran, or calibrate each tier by itself"
            )
        if (far := len(one.left_out) / len(one.series.points)) > 0.25:
            notes.append(
                f"{title}: {whole_percent(far)} of the sizes are off any alpha-beta curve and left"
                " out of the fit"
            )
        if len(one.series.points) < 8:
            notes.append(
                f"{title}: {len(one.series.points)} sizes only; trust the fit between them, not"
                " beyond"
            )
    sizes = [point.bytes for one in results for point in one.series.points]
    measured = {one.series.primitive for one in results}
    others = ", ".join(primitive.spoken for primitive in Primitive if primitive not in measured)
    notes.append(
        f"measured from {size_text(min(sizes))} to {size_text(max(sizes))}: prices beyond are"
        " extrapolated"
    )
    notes += [f"not measured, priced with each tier's own numbers: {others}"] if others else []
    if not all(one.series.library for one in results):
        notes.append("the logs do not name their library: NCCL's algorithms are assumed")
    return list(dict.fromkeys(notes))


def line_notes(results: Sequence[FittedSeries], line_Bps: float) -> list[str]:
    above = {
        p.name: p.bandwidth_Bps for one in results for p in one.protocols if p.eta_beta is None
    }
    return [
        f"{name} carries {format_rate(rate)}, more than the stated line rate of"
        f" {format_rate(line_Bps)}: its bandwidth is written instead of an eta"
        for name, rate in above.items()
    ]


def _tied(one: FittedSeries, field: str, *, alone: bool) -> str:
    where = ", ".join(protocol.name for protocol in one.protocols if field in protocol.tied)
    inseparable = "these sizes cannot separate alpha from the launch overhead"
    cure = "; measure a second rank count to tell them apart" if alone else ""
    what = {
        "alpha_s": (
            f"{inseparable}: alpha is kept near the fabric's, the launch overhead is the rest{cure}"
        ),
        "launch_overhead_s": (
            f"{inseparable}, which is kept near the fabric's: alpha is the rest{cure}"
        ),
        "bandwidth_Bps": "no size is large enough to determine the bandwidth",
    }[field]
    return f"{one.series.primitive.spoken}, {where}: {what}"


def head(results: Sequence[FittedSeries], notes: Sequence[str]) -> list[str]:
    """Comment lines for the top of the file: the error of each series, by size."""
    lines = [
        "Written by colltool calibrate. Fitted - measured, in percent of the measured time, by"
        " size:"
    ]
    most = max(_FEWEST_LISTED, _LISTED // max(len(results), 1))
    for one in results:
        unseen = f", on unseen sizes {percent(one.cv_mape)}" if one.cv_mape is not None else ""
        lines += [
            "",
            (
                f"{one.series.title}: mean {percent(one.mape)}, worst"
                f" {percent(one.worst, sign='+')}{unseen}"
            ),
        ]
        some, rest = _some([residual for residual in one.residuals if residual.used], most)
        cells = [
            f"{size_text(r.bytes).replace(' ', '')} {100 * r.relative_error:+.1f}" for r in some
        ]
        lines += [f"  {line}" for line in [*wrap(", ".join(cells), _WIDTH - 4), *rest]]
        if one.left_out:
            measured, (far, rest) = (
                {r.bytes: r.measured_s for r in one.residuals},
                _some(one.left_out, most),
            )
            told = [
                f"{size_text(left.bytes)} ({format_time(measured[left.bytes])}): {left.reason}"
                for left in far
            ]
            lines += [
                "  off the curve, not in the fit:",
                *(f"    {line}" for line in [*told, *rest]),
            ]
    return [*lines, "", *(line for note in notes for line in wrap(note, _WIDTH - 2))]


def _some(sizes: Sequence[_T], most: int) -> tuple[Sequence[_T], list[str]]:
    left = len(sizes) - most
    if left <= 0:
        return sizes, []
    some = [sizes[round(i * (len(sizes) - 1) / (most - 1))] for i in range(most)]
    return some, [f"and {left} size{'s' * (left > 1)} between these"]
