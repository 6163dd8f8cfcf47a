"""``calibrate``: fitted protocols and how well each series fits, or the rows of a machine file.

Read from :data:`VIEWS`: :func:`_blocks` is the screen under :func:`_answer`, :func:`_residual_table` the
rows of CSV. Where no protocol was fitted the result has a machine file alone, with
:func:`_rows_blocks` under :func:`_rows_answer`.

A ``FittedSeries`` (``fit``) is a measured ``series`` and what was fitted to it: ``mape`` is the mean error at the
sizes that were used, ``cv_mape`` that at sizes left out for the test (None with too few), both shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_count,
    format_rate,
    format_time,
    percent,
    size_text,
    whole_percent,
)
from colltool.calibration.calibrate import Calibration
from colltool.calibration.machine_rows import SeriesRows
from colltool.calibration.next_row import NextRow
from colltool.calibration.results import FittedSeries, Residual
from colltool.calibration.select import Candidate
from colltool.calibration.serialise import FittedProtocol
from colltool.calibration.usable_points import ExcludedSize
from colltool.estimate.spread import sigma_table
from colltool.logs.series import Skipped
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    columns_at,
    flag,
    label,
    lines_by_names,
    number,
)
from colltool.render.dispatch import View, context, listed, on_fabric, signed_percent
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.shared_documents import values_set


def _points_used(fit: FittedSeries) -> int:
    """How many of a series' sizes the fit uses."""
    return sum(residual.used for residual in fit.residuals)


_FITTED: Columns[FittedSeries] = (
    label("collective", path="series.primitive.label"),
    number("ranks", path="series.ranks"),
    label("algorithm", get=lambda fit: " + ".join(fit.algorithms)),
    number("points", "sizes", get=_points_used),
    number("left_out", "off curve", get=lambda fit: len(fit.left_out)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent, drop=3),
    number("cv_mape", "on unseen sizes", percent),
)


class _SharedProtocol(NamedTuple):
    """A protocol, and the collectives that it was fitted to."""

    collectives: str  # their names, with commas
    protocol: FittedProtocol


def _interval_column(
    field: str, title: str, text: Callable[..., str], drop: int
) -> Column[_SharedProtocol]:
    """The column of a fitted number's 95% interval: the number ``alpha_s`` has the key ``alpha_ci95``."""

    def bounds(row: _SharedProtocol) -> Any:
        # (low, high), or words: the data cannot tell the number from another, and the fit kept the fabric's
        if field in row.protocol.tied:
            return "not told"
        return row.protocol.ci95.get(field)

    def show(ends: Any) -> str:
        if isinstance(ends, str):
            return ends
        return f"{text(ends[0], 3)} .. {text(ends[1], 3)}"

    return number(field.rpartition("_")[0] + "_ci95", title, show, drop, get=bounds)


def _three_digits(share: float) -> str:
    return format_count(share, 3)


_PROTOCOLS: Columns[_SharedProtocol] = (
    label("collective", path="collectives"),
    *columns_at(
        "protocol",
        (
            label("protocol", path="name"),
            number("launch_overhead_s", "launch overhead"),
            _interval_column("launch_overhead_s", "overhead 95%", format_time, drop=4),
            number("alpha_s", "alpha"),
            _interval_column("alpha_s", "alpha 95%", format_time, drop=5),
            number("bandwidth_Bps", "bandwidth"),
            _interval_column("bandwidth_Bps", "bandwidth 95%", format_rate, drop=3),
            number("eta_beta", "eta_b", _three_digits, drop=1),
            number("local_copy_Bps", "local copy", drop=2, path="copy_Bps"),
        ),
    ),
)


class _FittedPoint(NamedTuple):
    """A measured size of a series, as the fit has it."""

    fit: FittedSeries
    residual: Residual


_RESIDUALS: Columns[_FittedPoint] = (
    label("collective", path="fit.series.primitive"),
    number("ranks", path="fit.series.ranks"),
    *columns_at(
        "residual",
        (
            number("bytes", "size", size_text, whole=True),
            number("measured_s", "measured"),
            number("fitted_s", "fitted"),
            number("relative_error", "error", signed_percent),
            label("algorithm"),
            label("protocol"),
            flag("used"),
        ),
    ),
)


def _residual_table(result: Calibration) -> Table:
    """Every measured size of every series, beside the fit."""
    records = []
    for fit in result.series:
        records += [_FittedPoint(fit, residual) for residual in fit.residuals]
    return Table((*context(fabric=result.fabric.name), *_RESIDUALS), records)


_MEASURED_ROWS: Columns[SeriesRows] = (
    label("collective", "collective", attrgetter("label"), path="series.primitive"),
    number("ranks", path="series.ranks"),
    label("scope", "measured"),
    number("rows", get=lambda record: len(record.rows)),
    number("off", "price was off", percent, path="mean_deviation"),
    label("forced", drop=2, get=lambda record: " ".join(filter(None, record.forced))),
)


def _rows_blocks(result: Calibration) -> Iterator[Block]:
    """The rows of a machine file by series."""
    own_rows = result.machine_rows
    # a result has a fit, or rows, or both
    assert own_rows is not None
    yield Headline(_rows_answer(result))
    yield _next_measurement(result)
    table = Table(_MEASURED_ROWS, own_rows.series, title="rows by series")
    yield table.without_empty("forced")
    yield from listed("rows skipped", map(_skipped_text, result.skipped), first=0)


def _skipped_text(skip: Skipped) -> str:
    """``3: no time (first at a.log:12)``."""
    return f"{skip.rows}: {skip.reason} (first at {skip.where})"


def _rows_answer(result: Calibration) -> str:
    """How many rows were measured, how far the prices are off, and where the file is; of a result with rows."""
    own_rows = result.machine_rows
    assert own_rows is not None
    # as plain pairs, which name no machine file: these rows are to become one
    fabric = on_fabric(result.fabric.name, tuple(result.overrides))
    # r is ln(measured / price), which for small errors is the relative error
    mean_error = sum(abs(measured.r) for measured in own_rows.file.rows) / own_rows.total
    rows = counted(own_rows.total, "row")
    how_to_keep = either(
        shell="add -o NAME.machine.yaml to keep them", python="machine_text is the file"
    )
    return (
        f"{rows} measured on this machine differ from the prices of {fabric} by"
        f" {percent(mean_error)} on average. {_written_sentence(result, how_to_keep)}"
    )


def _written_sentence(result: Calibration, how_to_keep: str) -> str:
    """Where the result was written, or how to keep it."""
    if result.path:
        return f"Written to {result.path}."
    return f"Nothing written: {localize(how_to_keep)}."


def _next_measurement(result: Calibration) -> Lines:
    """The command to measure next, and what it would do for the intervals of prices."""
    row = result.next
    if row is None:
        return Lines("no further measurement would narrow these prices by more than 1%", ())
    collective = f"{row.primitive.label} of {size_text(row.bytes)} on {row.ranks} ranks"
    width = f"+-{_half_width(row.sigma)} -> +-{_half_width(row.sigma_after)}"
    return Lines(f"measure next, to narrow prices most ({collective}: {width})", (row.command,))


def _half_width(sigma: float) -> str:
    """Half-width in percent of the interval of nine in ten measurements. ``sigma`` is the standard deviation of
    the error's logarithm, on average over sizes and collectives; kappa of it hold nine in ten."""
    return whole_percent(exp(sigma_table()["kappa"] * sigma) - 1)


def _blocks(result: Calibration) -> Iterator[Block]:
    """What was fitted, where the machine file is, and the protocols; series and rows left out after
    them."""
    # rows of calls that no protocol was fitted to are a machine file all the same
    if not result.series:
        yield from _rows_blocks(result)
        return
    yield Headline(_answer(result))
    if result.machine_rows is not None:
        rows = counted(result.machine_rows.total, "row")
        how_to_keep = either(
            shell=f"-o NAME.machine.yaml keeps the {rows} as they were measured",
            python=f"machine_text is a file of the {rows} as they were measured",
        )
        yield Lines(localize(how_to_keep), ())
        yield _next_measurement(result)
    yield _protocol_table(result)
    yield Table(_FITTED, result.series, title="series", first=0)
    yield from listed("notes", result.notes, first=0)
    left_out = []
    for fit in result.series:
        left_out += [(excluded.reason, fit.series.title) for excluded in fit.left_out]
    yield from listed("off the curve and not in the fit", lines_by_names(left_out), first=0)
    unused = [_skipped_text(skip) for skip in result.skipped if not skip.used]
    yield from listed("rows skipped", unused, first=0)
    used = [_skipped_text(skip) for skip in result.skipped if skip.used]
    yield from listed("rows used with a reservation", used, first=0)


def _answer(result: Calibration) -> str:
    """What was fitted to what, how far off the worst series is, and where the fit is."""
    if not result.series:
        return _rows_answer(result)
    fabric = on_fabric(result.fabric.name, result.overrides)
    worst = max(result.series, key=attrgetter("mape"))
    measured = worst.series.title
    subject = "it"
    if len(result.series) > 1:
        subject = f"the worst of them ({measured})"
        measured = f"{len(result.series)} measurements"
    error = f"{subject} is {percent(worst.mape)} off on average"
    if worst.cv_mape is not None:
        error += f", {percent(worst.cv_mape)} on unseen sizes"
    how_to_keep = either(shell="add -o OUT.yaml to keep this fabric", python="its text is the file")
    return (
        f"Fitted {result.tier} of {fabric} to {measured}: {error}."
        f" {_written_sentence(result, how_to_keep)}"
    )


def _protocol_table(result: Calibration) -> Table:
    """The fitted protocols; one row for those that several collectives share."""
    # a list of groups rather than a dict by protocols, which hold dicts and so are not hashable
    groups: list[list[FittedSeries]] = []
    for fit in result.series:
        for group in groups:
            if group[0].protocols == fit.protocols:
                group.append(fit)
                break
        else:
            groups.append([fit])
    records = []
    for group in groups:
        names = ", ".join(dict.fromkeys(fit.series.primitive.label for fit in group))
        records += [_SharedProtocol(names, protocol) for protocol in group[0].protocols]
    title = "protocols (at each size the fastest one counts)"
    return Table(_PROTOCOLS, records, title=title).without_empty("eta_beta")


# --- the document of a fit


class FittedProtocolDocument(Document, of=FittedProtocol):
    """A fitted protocol, and 95% intervals of its numbers."""

    name: str
    launch_overhead_s: float
    alpha_s: float
    bandwidth_Bps: float
    ci95: dict[str, list[float]] = derived(
        lambda protocol: {term: list(bounds) for term, bounds in protocol.ci95.items()}
    )
    tied: list[str]
    local_copy_Bps: float | None = derived("copy_Bps")
    eta_beta: float | None


class CandidateDocument(Document, of=Candidate):
    """Algorithms that would fit as well or nearly so."""

    algorithm: str = derived(lambda candidate: ",".join(candidate.algorithms))
    cv_mape: float | None


class ExcludedSizeDocument(Document, of=ExcludedSize):
    """A size that the fit does not use, and why."""

    bytes: float
    reason: str


class FittedSeriesDocument(Document, of=FittedSeries):
    """The fit of a series."""

    collective: str = derived("series.primitive")
    ranks: int = derived("series.ranks")
    algorithm: str = derived(lambda fit: ",".join(fit.algorithms))
    protocols: list[FittedProtocolDocument]
    points: int = derived(_points_used)
    mape: float
    worst: float
    cv_mape: float | None
    skipped: list[ExcludedSizeDocument] = derived("left_out")
    nodes: int | None = derived("series.nodes")
    confidence: str
    candidates: list[CandidateDocument]
    residuals: list[Residual]


class NextRowDocument(Document, extends=NextRow):
    """The measurement that would narrow prices most."""

    command: str


class CalibrateDocument(Document):
    """Protocols fitted to measured times."""

    series: list[FittedSeriesDocument]
    # where the result was written: a fabric, or without a fit a machine file
    fabric: str | None = derived(lambda result: (result.series and result.path) or None)
    # null where it was not written
    machine_file: str | None = optional(
        lambda result: LEFT_OUT if result.series else result.path or None
    )
    set: dict[str, str] = optional(values_set)
    tier: str
    notes: list[str]
    rows_skipped: list[Skipped] = derived("skipped")
    rows: int = derived(
        lambda result: 0 if result.machine_rows is None else result.machine_rows.total
    )
    next: NextRowDocument | None


VIEWS = {
    Calibration: View("calibrate", _blocks, CalibrateDocument.of, _residual_table, _answer),
}
