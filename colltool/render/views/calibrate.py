"""``calibrate`` and ``validate``: fitted protocols and how well each series fits; measured times
against predicted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_count,
    format_rate,
    format_time,
    percent,
    range_text,
    size_text,
    whole_bytes,
    whole_percent,
)
from colltool.calibration.calibrate import Calibration, FittedSeries, Residual
from colltool.calibration.serialise import FittedProtocol
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.estimate.assumptions import USUAL
from colltool.estimate.spread import law
from colltool.logs.series import Series, Skipped
from colltool.render.blocks import (
    Block,
    Column,
    Headline,
    Lines,
    Table,
    flag,
    gathered,
    label,
    later,
    number,
)
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    listed,
    on_fabric,
    plain,
    reached_percent,
    set_field,
    signed_percent,
)
from colltool.render.estimates import model_field

_FITTED: tuple[Column, ...] = (
    label("collective", "collective", get=attrgetter("series.primitive.spoken")),
    number("ranks", "ranks", get=attrgetter("series.ranks")),
    label("algorithm", "algorithm", get=lambda fit: " + ".join(fit.algorithms)),
    number("points", "sizes", get=lambda fit: sum(residual.used for residual in fit.residuals)),
    number("left_out", "off curve", get=lambda fit: len(fit.left_out)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent, 3),
    number("cv_mape", "on unseen sizes", percent),
)


class _SharedProtocol(NamedTuple):
    """A protocol, and the collectives that it was fitted to."""

    collectives: str
    protocol: FittedProtocol


def _interval(field: str, title: str, text: Callable[..., str], drop: int) -> Column:
    def bounds(row: _SharedProtocol) -> Any:
        return "not told" if field in row.protocol.tied else row.protocol.ci95.get(field)

    def show(found: Any) -> str:
        return found if isinstance(found, str) else f"{text(found[0], 3)} .. {text(found[1], 3)}"

    return number(field.rpartition("_")[0] + "_ci95", title, show, drop, get=bounds)


_PROTOCOLS: tuple[Column, ...] = (
    label("collective", "collective", get=attrgetter("collectives")),
    label("protocol", "protocol", get=attrgetter("protocol.name")),
    number(
        "launch_overhead_s",
        "launch overhead",
        format_time,
        get=attrgetter("protocol.launch_overhead_s"),
    ),
    _interval("launch_overhead_s", "overhead 95%", format_time, 4),
    number("alpha_s", "alpha", format_time, get=attrgetter("protocol.alpha_s")),
    _interval("alpha_s", "alpha 95%", format_time, 5),
    number("bandwidth_Bps", "bandwidth", format_rate, get=attrgetter("protocol.bandwidth_Bps")),
    _interval("bandwidth_Bps", "bandwidth 95%", format_rate, 3),
    number(
        "eta_beta",
        "eta_b",
        lambda share: format_count(share, 3),
        1,
        get=attrgetter("protocol.eta_beta"),
    ),
    number("local_copy_Bps", "local copy", format_rate, 2, get=attrgetter("protocol.copy_Bps")),
)


class _FittedPoint(NamedTuple):
    fit: FittedSeries
    residual: Residual


_RESIDUALS = (
    label("collective", "collective", get=attrgetter("fit.series.primitive")),
    number("ranks", "ranks", get=attrgetter("fit.series.ranks")),
    number("bytes", "size", size_text, get=lambda record: whole_bytes(record.residual.bytes)),
    number("measured_s", "measured", format_time, get=attrgetter("residual.measured_s")),
    number("fitted_s", "fitted", format_time, get=attrgetter("residual.fitted_s")),
    number("relative_error", "error", signed_percent, get=attrgetter("residual.relative_error")),
    label("algorithm", "algorithm", get=attrgetter("residual.algorithm")),
    label("protocol", "protocol", get=attrgetter("residual.protocol")),
    flag("used", "used", get=attrgetter("residual.used")),
)


def _residuals(result: Calibration) -> Table:
    records = []
    for fit in result.series:
        records += [_FittedPoint(fit, residual) for residual in fit.residuals]
    fabric = label("fabric", "fabric", get=lambda _: result.fabric.name)
    return Table((fabric, *_RESIDUALS), tuple(records))


_OWN: tuple[Column, ...] = (
    label(
        "collective",
        "collective",
        attrgetter("spoken"),
        get=attrgetter("series.primitive"),
    ),
    number("ranks", "ranks", get=attrgetter("series.ranks")),
    label("scope", "measured"),
    number("rows", "rows", get=lambda record: len(record.rows)),
    number("off", "price was off", percent),
    label("forced", "forced", drop=2, get=lambda record: " ".join(filter(None, record.forced))),
)


def _own_blocks(result: Calibration) -> list[Block]:
    own = result.own
    assert own is not None
    table = Table(_OWN, own.series, None, "rows by series")
    if not any(any(series.forced) for series in own.series):
        table = table.without("forced")
    return [
        Headline(_own(result)),
        *_next_lines(result),
        table,
        *map(later, listed("rows skipped", map(_skipped, result.skipped))),
    ]


def _skipped(skip: Skipped) -> str:
    return f"{skip.rows}: {skip.reason} (first at {skip.where})"


def _own(result: Calibration) -> str:
    own = result.own
    assert own is not None
    where = on_fabric(result.fabric.name, tuple(result.overrides))
    off = sum(abs(row.r) for row in own.file.rows) / own.total
    rows = counted(own.total, "row")
    keep = either(shell="add -o NAME.machine.yaml to keep them", python="machine_text is the file")
    return (
        f"{where}: {rows} of this machine, {percent(off)} off the price without them on average."
        f" {_written(result, keep)}"
    )


def _written(result: Calibration, keep: str) -> str:
    """Where the result was written, or how to keep it."""
    return f"Written to {result.path}." if result.path else f"Nothing written: {said(keep)}."


def _next_lines(result: Calibration) -> list[Block]:
    row = result.next
    if row is None:
        text = "next: no further row would narrow these prices by more than a hundredth"
        return [Lines(text, ())]
    what = f"{row.primitive.spoken} of {size_text(row.bytes)} on {row.ranks} ranks"
    width = f"half-width {_half_width(row.sigma)} to {_half_width(row.sigma_after)}"
    return [Lines(f"next, what narrows its prices most: {what}, {width}", (row.command,))]


def _half_width(sigma: float) -> str:
    """Half-width of the interval of nine in ten measurements, on average over sizes and
    collectives."""
    return whole_percent(exp(law()["kappa"] * sigma) - 1)


def _fitted_blocks(result: Calibration) -> list[Block]:
    if not result.series:
        return _own_blocks(result)
    left_out = []
    for fit in result.series:
        left_out += [(excluded.reason, fit.series.title) for excluded in fit.left_out]
    off_curve = []
    for reason, titles in gathered(left_out).items():
        off_curve.append(f"{', '.join(titles)}: {reason}")
    unused = [skip for skip in result.skipped if not skip.used]
    used = [skip for skip in result.skipped if skip.used]
    detail = [
        Table(_FITTED, result.series, None, "series"),
        *listed("notes", result.notes),
        *listed("off the curve, not in the fit", off_curve),
        *listed("rows skipped", map(_skipped, unused)),
        *listed("rows used with a reservation", map(_skipped, used)),
    ]
    held = [] if result.own is None else [Lines(_held(result), ()), *_next_lines(result)]
    return [Headline(_fitted(result)), *held, _protocols(result), *map(later, detail)]


def _held(result: Calibration) -> str:
    count = 0 if result.own is None else result.own.total
    keep = either(shell="-o NAME.machine.yaml keeps them", python="machine_text is the file")
    return f"a machine file would hold {counted(count, 'row')} as they were measured: {said(keep)}"


def _fitted(result: Calibration) -> str:
    if not result.series:
        return _own(result)
    where = on_fabric(result.fabric.name, result.overrides)
    worst = max(result.series, key=attrgetter("mape"))
    error = f"mean error {percent(worst.mape)}"
    if len(result.series) > 1:
        error += f" at most ({worst.series.title})"
    if worst.cv_mape is not None:
        error += f", {percent(worst.cv_mape)} on unseen sizes"
    keep = either(shell="add -o OUT.yaml to keep this fabric", python="its text is the file")
    fitted = f"{where}: {result.tier} fitted to {len(result.series)} series"
    return f"{fitted}: {error}. {_written(result, keep)}"


def _protocols(result: Calibration) -> Table:
    """The fitted protocols; one row for those that several collectives share."""
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
        names = ", ".join(dict.fromkeys(fit.series.primitive.spoken for fit in group))
        records += [_SharedProtocol(names, protocol) for protocol in group[0].protocols]
    title = "protocols, the fastest of which holds at each size"
    table = Table(_PROTOCOLS, tuple(records), None, title)
    if all(record.protocol.eta_beta is None for record in records):
        return table.without("eta_beta")
    return table


def _fitted_document(result: Calibration) -> Document:
    document: Document = {"series": list(map(_fitted_series, result.series))}
    document["fabric"] = (result.path or None) if result.series else None
    if not result.series:
        document["machine_file"] = result.path or None
    return {
        **document,
        **set_field(tuple(result.overrides)),
        "tier": result.tier,
        "notes": list(result.notes),
        "rows_skipped": plain(result.skipped),
        "rows": 0 if result.own is None else result.own.total,
        "next": _next_document(result),
    }


def _fitted_series(fit: FittedSeries) -> Document:
    candidates = []
    for candidate in fit.candidates:
        algorithm = ",".join(candidate.algorithms)
        candidates.append({"algorithm": algorithm, "cv_mape": candidate.cv_mape})
    return {
        "collective": str(fit.series.primitive),
        "ranks": fit.series.ranks,
        "algorithm": ",".join(fit.algorithms),
        "protocols": list(map(_protocol, fit.protocols)),
        "points": sum(residual.used for residual in fit.residuals),
        **fields(fit, "mape worst cv_mape"),
        "skipped": plain(fit.left_out),
        "nodes": fit.series.nodes,
        "confidence": fit.confidence,
        "candidates": candidates,
        "residuals": plain(fit.residuals),
    }


def _next_document(result: Calibration) -> Document | None:
    row = result.next
    if row is None:
        return None
    return fields(row, "primitive scope ranks bytes sigma sigma_after command")


def _protocol(protocol: FittedProtocol) -> Document:
    return {
        **fields(protocol, "name launch_overhead_s alpha_s bandwidth_Bps"),
        "ci95": {name: list(bounds) for name, bounds in protocol.ci95.items()},
        "tied": list(protocol.tied),
        "local_copy_Bps": protocol.copy_Bps,
        "eta_beta": protocol.eta_beta,
    }


def _regime(regime: Regime) -> str:
    sizes = range_text(regime.from_bytes, regime.to_bytes)
    return f"{regime.bound} ({sizes}) {percent(regime.mape)}"


_SERIES = (
    label(
        "collective",
        "collective",
        attrgetter("spoken"),
        get=attrgetter("series.primitive"),
    ),
    number("ranks", "ranks", get=attrgetter("series.ranks")),
    number("nodes", "nodes", drop=4, get=attrgetter("series.nodes")),
    number("sizes", "sizes", drop=3, get=lambda fit: len(fit.points)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent),
    label(
        "regimes",
        "mean error by what bounds the price",
        drop=2,
        get=lambda fit: ", ".join(map(_regime, fit.regimes)),
    ),
)
_MOST_ROWS = 12


class _JudgedPoint(NamedTuple):
    fit: ValidatedSeries
    point: ValidatedPoint


_POINTS = (
    label("collective", "collective", get=attrgetter("fit.series.primitive"), hidden=True),
    number("ranks", "ranks", get=attrgetter("fit.series.ranks"), hidden=True),
    number("nodes", "nodes", get=attrgetter("fit.series.nodes"), hidden=True),
    number("bytes", "size", size_text, get=lambda record: whole_bytes(record.point.bytes)),
    number("measured_s", "measured", format_time, get=attrgetter("point.measured_s")),
    number("predicted_s", "predicted", format_time, get=attrgetter("point.predicted_s")),
    number("relative_error", "error", signed_percent, get=attrgetter("point.relative_error")),
    number("of_expected", "of expected", reached_percent, 1, get=attrgetter("point.of_expected")),
    label("algorithm", "algorithm", drop=5, get=attrgetter("point.algorithm")),
    label("protocol", "protocol", drop=6, get=attrgetter("point.protocol")),
    number(
        "busbw_measured_Bps", "busbw", format_rate, 3, get=attrgetter("point.busbw_measured_Bps")
    ),
    number(
        "busbw_expected_Bps", "expected", format_rate, 4, get=attrgetter("point.busbw_expected_Bps")
    ),
    label("bound", "bound by", drop=7, get=attrgetter("point.bound")),
    label("nearest", "nearest", drop=8, get=attrgetter("point.nearest"), hidden=True),
    number(
        "nearest_error",
        "its error",
        signed_percent,
        9,
        get=attrgetter("point.nearest_error"),
        hidden=True,
    ),
)


def _points(result: Validation, fits: Iterable[ValidatedSeries], title: str = "") -> Table:
    columns = (*context(fabric=result.fabric), *_POINTS, *context(result.overrides))
    records = []
    for fit in fits:
        records += [_JudgedPoint(fit, point) for point in fit.points]
    table = Table(columns, tuple(records), None, title)
    if any(record.point.protocol for record in records):
        return table
    return table.without("protocol")


def _blocks(result: Validation) -> list[Block]:
    where = on_fabric(result.fabric, result.overrides)
    several = len(result.series) > 1
    out: list[Block] = [Headline(_answer(result))]
    if several:
        title = f"measured against {where}: {len(result.series)} series"
        out.append(Table(_SERIES, result.series, None, title, _MOST_ROWS))
    for fit in result.series:
        title = f"{_series_name(fit.series)} on {where}: {percent(fit.mape)} off on average"
        table = _points(result, [fit], f"{title}, worst {signed_percent(fit.worst)}")
        out.append(table._replace(first=0 if several else _MOST_ROWS))
        if len(fit.regimes) > 1:
            out += listed("mean error by what bounds the price", map(_regime, fit.regimes), first=0)
        out += listed("findings", fit.findings, first=0)
    for used, heading in ((False, "left out"), (True, "used with a reservation")):
        lines = []
        for skip in result.skipped:
            if skip.used is used:
                rows = counted(skip.rows, "row")
                lines.append(f"{skip.reason}: {rows}, first at {skip.where}")
        out += listed(heading, lines, first=0)
    if result.readings != USUAL:
        out.append(Lines(f"readings: {result.readings.spoken()}", ()))
    return out


def _series_name(series: Series) -> str:
    """The title of a series, with its library, version and data type where known."""
    library = f"{series.library} {series.version}".strip()
    more = ", ".join(filter(None, (library, series.dtype)))
    return f"{series.title} ({more})" if more else series.title


def _answer(result: Validation) -> str:
    text = f"{on_fabric(result.fabric, result.overrides)}: {result.verdict}."
    if not result.series:
        return text
    worst = max(result.series, key=lambda fit: abs(fit.worst))
    text += f" Worst: {signed_percent(worst.worst)}"
    return f"{text} ({worst.series.title})." if len(result.series) > 1 else f"{text}."


def _document(result: Validation) -> Document:
    series = []
    for fit in result.series:
        row = {
            "collective": str(fit.series.primitive),
            "ranks": fit.series.ranks,
            **fields(fit, "mape worst"),
            "points": list(map(_checked, fit.points)),
            "findings": list(fit.findings),
            "regimes": list(map(_bounds, fit.regimes)),
            **fields(fit.series, "nodes library version dtype files"),
        }
        series.append(row)
    return {
        "fabric": result.fabric,
        **set_field(result.overrides),
        "series": series,
        "mode": "ideal" if result.readings.ideal else "realistic",
        **model_field(result.readings),
        **fields(result, "mape verdict max_mape holds skipped"),
    }


def _checked(point: ValidatedPoint) -> Document:
    return point._asdict() | {"bytes": whole_bytes(point.bytes), "of_expected": point.of_expected}


def _bounds(regime: Regime) -> Document:
    return regime._asdict() | {
        "from_bytes": whole_bytes(regime.from_bytes),
        "to_bytes": whole_bytes(regime.to_bytes),
    }


VIEWS = {
    Calibration: View("calibrate", _fitted_blocks, _fitted_document, _residuals, _fitted),
    Validation: View(
        "validate", _blocks, _document, lambda result: _points(result, result.series), _answer
    ),
}
