"""``calibrate`` and ``validate``: fitted protocols and how well each series fits; measured times
against predicted ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    label("algorithm", "algorithm", get=lambda row: " + ".join(row.algorithms)),
    number("points", "sizes", get=lambda row: sum(residual.used for residual in row.residuals)),
    number("left_out", "off curve", get=lambda row: len(row.left_out)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent, 3),
    number("cv_mape", "on unseen sizes", percent),
)


class _Shared(NamedTuple):
    collectives: str
    fit: FittedProtocol


def _interval(field: str, title: str, text: Callable[..., str], drop: int) -> Column:
    def bounds(row: _Shared) -> Any:
        return "not told" if field in row.fit.tied else row.fit.ci95.get(field)

    def show(found: Any) -> str:
        return found if isinstance(found, str) else f"{text(found[0], 3)} .. {text(found[1], 3)}"

    return number(field.rpartition("_")[0] + "_ci95", title, show, drop, get=bounds)


_PROTOCOLS: tuple[Column, ...] = (
    label("collective", "collective", get=attrgetter("collectives")),
    label("protocol", "protocol", get=attrgetter("fit.name")),
    number(
        "launch_overhead_s",
        "launch overhead",
        format_time,
        get=attrgetter("fit.launch_overhead_s"),
    ),
    _interval("launch_overhead_s", "overhead 95%", format_time, 4),
    number("alpha_s", "alpha", format_time, get=attrgetter("fit.alpha_s")),
    _interval("alpha_s", "alpha 95%", format_time, 5),
    number("bandwidth_Bps", "bandwidth", format_rate, get=attrgetter("fit.bandwidth_Bps")),
    _interval("bandwidth_Bps", "bandwidth 95%", format_rate, 3),
    number(
        "eta_beta",
        "eta_b",
        lambda share: format_count(share, 3),
        1,
        get=attrgetter("fit.eta_beta"),
    ),
    number("local_copy_Bps", "local copy", format_rate, 2, get=attrgetter("fit.copy_Bps")),
)


class _FittedPoint(NamedTuple):
    fit: FittedSeries
    residual: Residual


_RESIDUALS = (
    label("collective", "collective", get=attrgetter("fit.series.primitive")),
    number("ranks", "ranks", get=attrgetter("fit.series.ranks")),
    number("bytes", "size", size_text, get=lambda of: whole_bytes(of.residual.bytes)),
    number("measured_s", "measured", format_time, get=attrgetter("residual.measured_s")),
    number("fitted_s", "fitted", format_time, get=attrgetter("residual.fitted_s")),
    number("relative_error", "error", signed_percent, get=attrgetter("residual.relative_error")),
    label("algorithm", "algorithm", get=attrgetter("residual.algorithm")),
    label("protocol", "protocol", get=attrgetter("residual.protocol")),
    flag("used", "used", get=attrgetter("residual.used")),
)


def _residuals(result: Calibration) -> Table:
    records = tuple(
        _FittedPoint(fit, residual) for fit in result.series for residual in fit.residuals
    )
    return Table(
        (label("fabric", "fabric", get=lambda _: result.fabric.name), *_RESIDUALS), records
    )


_OWN: tuple[Column, ...] = (
    label(
        "collective",
        "collective",
        attrgetter("spoken"),
        get=attrgetter("series.primitive"),
    ),
    number("ranks", "ranks", get=attrgetter("series.ranks")),
    label("scope", "measured"),
    number("rows", "rows", get=lambda of: len(of.rows)),
    number("off", "price was off", percent),
    label("forced", "forced", drop=2, get=lambda of: " ".join(filter(None, of.forced))),
)


def _own_blocks(result: Calibration) -> list[Block]:
    own = result.own
    assert own is not None
    table = Table(_OWN, own.series, None, "rows by series")
    table = table if any(any(series.forced) for series in own.series) else table.without("forced")
    skipped = [f"{left.rows}: {left.reason} (first at {left.where})" for left in result.skipped]
    return [
        Headline(_own(result)),
        *_next_lines(result),
        table,
        *map(later, listed("rows skipped", skipped)),
    ]


def _own(result: Calibration) -> str:
    own = result.own
    assert own is not None
    where = on_fabric(result.fabric.name, tuple(result.overrides))
    off = sum(abs(row.r) for row in own.file.rows) / own.total
    keep = said(
        either(shell="add -o NAME.machine.yaml to keep them", python="machine_text is the file")
    )
    kept = f"Written to {result.path}." if result.path else f"Nothing written: {keep}."
    return (
        f"{where}: {counted(own.total, 'row')} of this machine, {percent(off)} off the price"
        f" without them on average. {kept}"
    )


def _next_lines(result: Calibration) -> list[Block]:
    row = result.next
    if row is None:
        return [
            Lines("next: no further row would narrow these prices by more than a hundredth", ())
        ]
    narrows = (
        f"next, what narrows its prices most: {row.primitive.spoken} of {size_text(row.bytes)} on"
        f" {row.ranks} ranks"
    )
    return [
        Lines(
            f"{narrows}, half-width {_half_width(row.sigma)} to {_half_width(row.sigma_after)}",
            (row.command,),
        )
    ]


def _half_width(sigma: float) -> str:
    """Of the interval of nine in ten measurements, on average over sizes and collectives."""
    return whole_percent(exp(law()["kappa"] * sigma) - 1)


def _fitted_blocks(result: Calibration) -> list[Block]:
    if not result.series:
        return _own_blocks(result)
    left = gathered(
        (left.reason, fit.series.title) for fit in result.series for left in fit.left_out
    )
    skipped = {
        used: [
            f"{skip.rows}: {skip.reason} (first at {skip.where})"
            for skip in result.skipped
            if skip.used is used
        ]
        for used in (False, True)
    }
    detail = [
        Table(_FITTED, result.series, None, "series"),
        *listed("notes", result.notes),
        *listed(
            "off the curve, not in the fit",
            (f"{', '.join(titles)}: {reason}" for reason, titles in left.items()),
        ),
        *listed("rows skipped", skipped[False]),
        *listed("rows used with a reservation", skipped[True]),
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
    worst = max(result.series, key=lambda row: row.mape)
    whose = f" at most ({worst.series.title})" if len(result.series) > 1 else ""
    unseen = "" if worst.cv_mape is None else f", {percent(worst.cv_mape)} on unseen sizes"
    where = (
        f"{on_fabric(result.fabric.name, result.overrides)}: {result.tier} fitted to"
        f" {len(result.series)} series"
    )
    keep = said(either(shell="add -o OUT.yaml to keep this fabric", python="its text is the file"))
    kept = f"Written to {result.path}." if result.path else f"Nothing written: {keep}."
    return f"{where}: mean error {percent(worst.mape)}{whose}{unseen}. {kept}"


def _protocols(result: Calibration) -> Table:
    shared: list[tuple[tuple[FittedProtocol, ...], list[str]]] = []
    for fit in result.series:
        names = next((names for protocols, names in shared if protocols == fit.protocols), None)
        if names is None:
            shared.append((fit.protocols, names := []))
        if fit.series.primitive.spoken not in names:
            names.append(fit.series.primitive.spoken)
    records = tuple(
        _Shared(", ".join(names), fit) for protocols, names in shared for fit in protocols
    )
    table = Table(_PROTOCOLS, records, None, "protocols, the fastest of which holds at each size")
    return (
        table
        if any(record.fit.eta_beta is not None for record in records)
        else table.without("eta_beta")
    )


def _fitted_document(result: Calibration) -> Document:
    series = [
        {
            "collective": str(fit.series.primitive),
            "ranks": fit.series.ranks,
            "algorithm": ",".join(fit.algorithms),
        }
        | {"protocols": [_protocol(protocol) for protocol in fit.protocols]}
        | {
            "points": sum(residual.used for residual in fit.residuals),
            **fields(fit, "mape worst cv_mape"),
        }
        | {"skipped": plain(fit.left_out), "nodes": fit.series.nodes, "confidence": fit.confidence}
        | {
            "candidates": [
                {"algorithm": ",".join(c.algorithms), "cv_mape": c.cv_mape} for c in fit.candidates
            ]
        }
        | {"residuals": plain(fit.residuals)}
        for fit in result.series
    ]
    tail = {"tier": result.tier, "notes": list(result.notes), "rows_skipped": plain(result.skipped)}
    own = {"rows": 0 if result.own is None else result.own.total, "next": _next_document(result)}
    written = (
        {"fabric": result.path or None}
        if result.series
        else {"fabric": None, "machine_file": result.path or None}
    )
    return {"series": series} | written | set_field(tuple(result.overrides)) | tail | own


def _next_document(result: Calibration) -> Document | None:
    row = result.next
    if row is None:
        return None
    return fields(row, "primitive scope ranks bytes sigma sigma_after command")


def _protocol(protocol: FittedProtocol) -> Document:
    head = fields(protocol, "name launch_overhead_s alpha_s bandwidth_Bps")
    bounds = {
        "ci95": {name: list(bounds) for name, bounds in protocol.ci95.items()},
        "tied": list(protocol.tied),
    }
    return head | bounds | {"local_copy_Bps": protocol.copy_Bps, "eta_beta": protocol.eta_beta}


def _regime(regime: Regime) -> str:
    return (
        f"{regime.bound} ({range_text(regime.from_bytes, regime.to_bytes)}) {percent(regime.mape)}"
    )


_SERIES = (
    label(
        "collective",
        "collective",
        attrgetter("spoken"),
        get=attrgetter("series.primitive"),
    ),
    number("ranks", "ranks", get=attrgetter("series.ranks")),
    number("nodes", "nodes", drop=4, get=attrgetter("series.nodes")),
    number("sizes", "sizes", drop=3, get=lambda row: len(row.points)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent),
    label(
        "regimes",
        "mean error by what bounds the price",
        drop=2,
        get=lambda row: ", ".join(map(_regime, row.regimes)),
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
    number("bytes", "size", size_text, get=lambda of: whole_bytes(of.point.bytes)),
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


def _points(result: Validation, several: Sequence[ValidatedSeries], title: str = "") -> Table:
    columns = (*context(fabric=result.fabric), *_POINTS, *context(result.overrides))
    records = tuple(_JudgedPoint(fit, point) for fit in several for point in fit.points)
    table = Table(columns, records, None, title)
    return table if any(of.point.protocol for of in records) else table.without("protocol")


def _blocks(result: Validation) -> list[Block]:
    where, several = on_fabric(result.fabric, result.overrides), len(result.series) > 1
    out: list[Block] = [Headline(_answer(result))]
    if several:
        out.append(
            Table(
                _SERIES,
                result.series,
                None,
                f"measured against {where}: {len(result.series)} series",
                _MOST_ROWS,
            )
        )
    for fit in result.series:
        more = ", ".join(
            filter(None, (f"{fit.series.library} {fit.series.version}".strip(), fit.series.dtype))
        )
        name = f"{fit.series.title} ({more})" if more else fit.series.title
        title = (
            f"{name} on {where}: {percent(fit.mape)} off on average, worst"
            f" {signed_percent(fit.worst)}"
        )
        out.append(_points(result, [fit], title)._replace(first=0 if several else _MOST_ROWS))
        if len(fit.regimes) > 1:
            out += listed("mean error by what bounds the price", map(_regime, fit.regimes), first=0)
        out += listed("findings", fit.findings, first=0)
    for used, heading in ((False, "left out"), (True, "used with a reservation")):
        skipped = (skip for skip in result.skipped if skip.used is used)
        out += listed(
            heading,
            (
                f"{skip.reason}: {counted(skip.rows, 'row')}, first at {skip.where}"
                for skip in skipped
            ),
            first=0,
        )
    return [
        *out,
        *([Lines(f"readings: {result.readings.spoken()}", ())] if result.readings != USUAL else []),
    ]


def _answer(result: Validation) -> str:
    worst = max(result.series, key=lambda row: abs(row.worst), default=None)
    whose = f" ({worst.series.title})" if worst and len(result.series) > 1 else ""
    off = f" Worst: {signed_percent(worst.worst)}{whose}." if worst else ""
    return f"{on_fabric(result.fabric, result.overrides)}: {result.verdict}.{off}"


def _document(result: Validation) -> Document:
    series = [
        {
            "collective": str(fit.series.primitive),
            "ranks": fit.series.ranks,
            **fields(fit, "mape worst"),
        }
        | {"points": [_checked(point) for point in fit.points], "findings": list(fit.findings)}
        | {
            "regimes": [_bounds(regime) for regime in fit.regimes],
            **fields(fit.series, "nodes library version dtype files"),
        }
        for fit in result.series
    ]
    head = {"fabric": result.fabric, **set_field(result.overrides), "series": series}
    model = {
        "mode": "ideal" if result.readings.ideal else "realistic",
        **model_field(result.readings),
    }
    return head | model | fields(result, "mape verdict max_mape holds skipped")


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
