"""``calibrate``: fits a fabric's tiers to measured series, innermost first, and writes a fabric
that loads again.

:func:`calibrate` sorts the series by tier; :mod:`colltool.calibration.tier_data` fits each tier and
writes it into the file's data; the written file is loaded, and its prices are compared with the
measured times. :func:`with_machine` adds a machine file of the same rows.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest, problems_of
from colltool.base.formatting import format_rate
from colltool.base.result import Result, with_progress
from colltool.calibration.file_notes import head_comments, notes_of
from colltool.calibration.log_fits import check_fits
from colltool.calibration.machine_rows import MachineRows, check_any, machine_rows
from colltool.calibration.next_row import NextRow, next_row
from colltool.calibration.old_form import in_old_form
from colltool.calibration.protocol_fit import mape, unseen_mape
from colltool.calibration.results import FittedSeries, Residual
from colltool.calibration.serialise import without_cables, without_intervals
from colltool.calibration.series_prices import price_series
from colltool.calibration.tier import SeriesFit
from colltool.calibration.tier_data import calibrate_tier
from colltool.definitions.field_types import MAX_BANDWIDTH_BPS, MIN_BANDWIDTH_BPS
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.fabric.yaml_writer import fabric_text
from colltool.logs.series import Measurements, Series, Skipped
from colltool.machines.factor import MeasuredMachine

# Characters of a fabric's name, as the model limits it.
_LONGEST_NAME = 64
# Mean relative error beyond which a fit explains nothing; the error states it as 100%.
_LARGEST_MEAN_ERROR = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """A calibrated fabric, or a machine file alone.

    Args:
        fabric: the calibrated one; as it was loaded where only a machine file was made.
        tier: names of the fitted tiers, innermost first, joined by commas; empty without a fit.
        series: the fit of each series; empty without a fit.
        notes: the caveats of the fit.
        skipped: rows of the logs that were left out, or used with a reservation.
        text: the fabric's YAML file; empty without a fit.
        path: where the caller wrote it; empty if nowhere.
        overrides: of the fabric, key and value, where only a machine file was made.
        machine_rows: the same rows as a machine file; None where there is none.
        no_machine: why a fit has no machine file.
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
    machine_rows: MachineRows | None = None
    no_machine: str = ""

    @property
    def machine_text(self) -> str:
        """The text of the machine file; empty where none can be written."""
        return self.machine_rows.text if self.machine_rows else ""

    @property
    def machine(self) -> MeasuredMachine | None:
        """The machine of these rows, as ``machine=`` of :func:`colltool.price` takes it; None without
        a machine file."""
        return self.machine_rows.machine if self.machine_rows else None

    @cached_property
    def next(self) -> NextRow | None:
        """The measurement that would narrow the machine's prices most; None without a machine file, or
        where none would narrow them much."""
        return next_row(self.machine_rows.file) if self.machine_rows else None


class FitRequest(NamedTuple):
    """The user's choices.

    Args:
        tier: the only one to fit; None for every measured one.
        algorithms: what ran; empty to find it.
        line_Bps: the rate of a port: bandwidths up to it are written as shares of it (eta); None to
            write them as rates.
    """

    tier: str | None = None
    algorithms: tuple[str, ...] = ()
    line_Bps: float | None = None


def calibrate(
    data: dict[str, Any], measurements: Measurements, request: FitRequest, name: str
) -> Calibration:
    """Fit each tier to the series that have it as their outermost one.

    Args:
        data: the fabric's file as read, which stays as it is.
        measurements: the series of the logs, and what was skipped.
        name: of the calibrated fabric.

    Raises:
        ColltoolError: a line rate that no port has, logs without a usable series or of other hosts
            than the fabric's, times that no curve fits.
    """
    line_Bps = request.line_Bps
    if line_Bps is not None and not MIN_BANDWIDTH_BPS <= line_Bps <= MAX_BANDWIDTH_BPS:
        raise ColltoolError(
            f"no port carries {format_rate(line_Bps)}",
            argument="line_rate",
            fix="write 450GB/s, 400Gbps",
        )
    check_any(measurements, "nothing to fit: the logs hold no usable series")
    # These two and calibrate_tier change the data in place. A fitted alpha is that of cables and
    # switches together, and the intervals of old protocols are not those of fitted ones.
    data = deepcopy(data)
    without_cables(data)
    without_intervals(data)
    fabric = read_fabric(fabric_text(data), "fabric")
    check_even(fabric)
    # schema /1, in which protocols are numbers of the tiers
    data = in_old_form(data, fabric)
    by_tier = _by_tier(fabric, measurements.series, request.tier)
    # innermost first: an outer tier's fit takes what the file then says of inner ones
    fits: list[SeriesFit] = []
    for tier, series in with_progress(list(by_tier.items())):
        try:
            fits += calibrate_tier(data, tier, series, request.algorithms, line_Bps)
        # numbers so far apart that no solver takes them
        except np.linalg.LinAlgError as error:
            raise ColltoolError(
                f"{series[0].title}: no line can be fitted to these times",
                where=series[0].points[0].where,
                fix=f"check the unit of the times in the logs, and the numbers of {tier} in the fabric",
            ) from error
    data["name"] = name[:_LONGEST_NAME]
    try:
        fabric = read_fabric(fabric_text(data), "the calibrated fabric")
    except ColltoolError as error:
        raise ColltoolError(
            f"implausible times: {problems_of(error)[0].what}",
            fix="check the unit of the times in the logs",
        ) from error
    results = tuple(_result(fabric, fit) for fit in fits)
    unused = len(measurements.series) - len(results)
    notes = notes_of(results, fits, line_Bps, unused)
    # the second argument has the comments at the head of the file
    text = fabric_text(data, head_comments(results, notes))
    return Calibration(
        fabric=fabric,
        tier=", ".join(by_tier),
        series=results,
        notes=tuple(notes),
        skipped=measurements.skipped,
        text=text,
    )


def machine_calibration(
    fabric: Fabric, measurements: Measurements, request: FitRequest, name: str
) -> Calibration:
    """A machine file of the measured rows, called ``name``, without a fit of tiers."""
    return Calibration(
        fabric=fabric,
        tier="",
        series=(),
        notes=(),
        skipped=measurements.skipped,
        text="",
        overrides=fabric.overrides,
        machine_rows=machine_rows(fabric, measurements, name, request.algorithms),
    )


def with_machine(
    fitted: Calibration, fabric: Fabric, measurements: Measurements, request: FitRequest, name: str
) -> Calibration:
    """A fit with the machine file of the same rows. Where none can be written the fit stands, with
    the reason in ``no_machine``.

    Args:
        fabric: the fabric before the fit: a machine file has ratios to its prices.
        name: of the machine.
    """
    try:
        return replace(
            fitted, machine_rows=machine_rows(fabric, measurements, name, request.algorithms)
        )
    except ColltoolError as error:
        return replace(fitted, no_machine=error.what)


def _by_tier(fabric: Fabric, series: Sequence[Series], only: str | None) -> dict[str, list[Series]]:
    """The series by the outermost tier that they span, innermost first; tiers without any are left
    out.

    Args:
        only: the one tier to fit; None for all.

    Raises:
        ColltoolError: the fabric has no such tier, no series ends on it, or a series does not fit the
            fabric.
    """
    names = [tier.name for tier in fabric.tiers]
    if only is not None and only not in names:
        raise ColltoolError(
            f"{fabric.name} has no tier '{clipped(only)}'",
            argument="tier",
            fix=f"{nearest(only, names)} tiers: {', '.join(names)}".strip(),
        )
    series_by_tier: dict[str, list[Series]] = {name: [] for name in names}
    for measured in series:
        placed = check_fits(fabric, measured)
        series_by_tier[placed.spans[-1].tier.name].append(measured)
    spanned = {
        name: series_of_tier for name, series_of_tier in series_by_tier.items() if series_of_tier
    }
    if only is None:
        return spanned
    if only not in spanned:
        names = list(spanned)
        raise ColltoolError(
            f"no series ends on {only}: they span {', '.join(names)}",
            argument="tier",
            fix=f"take {argument_text('tier', ', '.join(names))}",
        )
    return {only: spanned[only]}


def _result(fabric: Fabric, fit: SeriesFit) -> FittedSeries:
    """The fit of a series with the errors of the written file at each size.

    ``mape`` and ``worst`` are those of the file at the sizes that were fitted; ``cv_mape`` is of sizes
    that no fit has seen.

    Args:
        fabric: the written file, loaded.
        fit: its ``member`` says which sizes were ``used``, its ``errors`` are those of each used size
            under a fit without it.

    Raises:
        ColltoolError: the file is off by more than :data:`_LARGEST_MEAN_ERROR` in the mean.
    """
    series = fit.member.series
    rows = []
    used_errors = []
    # the sizes that the fit does not use it has not seen either
    unseen_errors = list(fit.errors)
    priced = price_series(fabric, series, ModelOptions()).best
    for point, is_used, best in zip(series.points, fit.member.used, priced, strict=True):
        row = Residual(
            bytes=point.bytes,
            measured_s=point.seconds,
            fitted_s=best.seconds,
            relative_error=best.seconds / point.seconds - 1,
            algorithm=best.algorithm,
            protocol=best.protocol,
            used=bool(is_used),
        )
        rows.append(row)
        if row.used:
            used_errors.append(row.relative_error)
        else:
            unseen_errors.append(row.relative_error)
    mean_error = mape(np.array(used_errors))
    if mean_error > _LARGEST_MEAN_ERROR:
        raise ColltoolError(
            f"{series.title}: no alpha-beta curve fits these times, the best is off by more than"
            " 100%",
            where=series.points[0].where,
            fix="check that the log is complete and its units are right",
        )
    return FittedSeries(
        series=series,
        algorithms=fit.choice.fit.algorithms,
        reasons=fit.choice.reasons,
        candidates=fit.choice.candidates,
        protocols=fit.protocols,
        residuals=tuple(rows),
        left_out=fit.left_out,
        mape=mean_error,
        worst=max(used_errors, key=abs, default=0.0),
        cv_mape=unseen_mape(np.array(unseen_errors)),
    )
