"""``calibrate`` and ``validate``: fitted protocols and how well each series fits; measured times
against predicted ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
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
    label("collective", "collective", get=lambda one: one.series.primitive.spoken),
    number("ranks", "ranks", get=lambda one: one.series.ranks),
    label("algorithm", "algorithm", get=lambda one: " + ".join(one.algorithms)),
    number("points", "sizes", get=lambda one: sum(residual.used for residual in one.residuals)),
    number("left_out", "off curve", get=lambda one: len(one.left_out)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent, 3),
    number("cv_mape", "on unseen sizes", percent),
)


class _Shared(NamedTuple):
    collectives: str
    fit: FittedProtocol


def _interval(field: str, title: str, text: Callable[..., str], drop: int) -> Column:
    def bounds(one: _Shared) -> Any:
        return "not told" if field in one.fit.tied else one.fit.ci95.get(field)

    def show(found: Any) -> str:
        return found if isinstance(found, str) else f"{text(found[0], 3)} .. {text(found[1], 3)}"

    return number(field.rpartition("_")[0] + "_ci95", title, show, drop, get=bounds)


_PROTOCOLS: tuple[Column, ...] = (
    label("collective", "collective", get=lambda one: one.collectives),
    label("protocol", "protocol", get=lambda one: one.fit.name),
    number(
        "launch_overhead_s",
        "launch overhead",
        format_time,
        get=lambda one: one.fit.launch_overhead_s,
    ),
    _interval("launch_overhead_s", "overhead 95%", format_time, 4),
    number("alpha_s", "alpha", format_time, get=lambda one: one.fit.alpha_s),
    _interval("alpha_s", "alpha 95%", format_time, 5),
    number("bandwidth_Bps", "bandwidth", format_rate, get=lambda one: one.fit.bandwidth_Bps),
    _interval("bandwidth_Bps", "bandwidth 95%", format_rate, 3),
    number(
        "eta_beta",
        "eta_b",
        lambda share: format_count(share, 3),
        1,
        get=lambda one: one.fit.eta_beta,
    ),
    number("local_copy_Bps", "local copy", format_rate, 2, get=lambda one: one.fit.copy_Bps),
)


class _FittedPoint(NamedTuple):
    one: FittedSeries
    residual: Residual


_RESIDUALS = (
    label("collective", "collective", get=lambda of: of.one.series.primitive),
    number("ranks", "ranks", get=lambda of: of.one.series.ranks),
    number("bytes", "size", size_text, get=lambda of: whole_bytes(of.residual.bytes)),
    number("measured_s", "measured", format_time, get=lambda of: of.residual.measured_s),
    number("fitted_s", "fitted", format_time, get=lambda of: of.residual.fitted_s),
    number("relative_error", "error", signed_percent, get=lambda of: of.residual.relative_error),
    label("algorithm", "algorithm", get=lambda of: of.residual.algorithm),
    label("protocol", "protocol", get=lambda of: of.residual.protocol),
    flag("used", "used", get=lambda of: of.residual.used),
)


def _residuals(result: Calibration) -> Table:
    records = tuple(
        _FittedPoint(one, residual) for one in result.series for residual in one.residuals
    )
    return Table(
        (label("fabric", "fabric", get=lambda _: result.fabric.name), *_RESIDUALS), records
    )


_OWN: tuple[Column, ...] = (
    label(
        "collective",
        "collective",
        lambda primitive: primitive.spoken,
        get=lambda of: of.series.primitive,
    ),
    number("ranks", "ranks", get=lambda of: of.series.ranks),
    label("scope", "measured", get=lambda of: of.scope),
    number("rows", "rows", get=lambda of: len(of.rows)),
    number("off", "price was off", percent, get=lambda of: of.off),
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
        (left.reason, one.series.title) for one in result.series for left in one.left_out
    )
    skipped = {
        used: [
            f"{one.rows}: {one.reason} (first at {one.where})"
            for one in result.skipped
            if one.used is used
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
    worst = max(result.series, key=lambda one: one.mape)
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
    for one in result.series:
        names = next((names for protocols, names in shared if protocols == one.protocols), None)
        if names is None:
            shared.append((one.protocols, names := []))
        if one.series.primitive.spoken not in names:
            names.append(one.series.primitive.spoken)
    records = tuple(
        _Shared(", ".join(names), fit) for protocols, names in shared for fit in protocols
    )
    table = Table(_PROTOCOLS, records, None, "protocols, the fastest of which holds at each size")
    return (
        table if any(one.fit.eta_beta is not None for one in records) else table.without("eta_beta")
    )


def _fitted_document(result: Calibration) -> Document:
    series = [
        {
            "collective": str(one.series.primitive),
            "ranks": one.series.ranks,
            "algorithm": ",".join(one.algorithms),
        }
        | {"protocols": [_protocol(protocol) for protocol in one.protocols]}
        | {
            "points": sum(residual.used for residual in one.residuals),
            **fields(one, "mape worst cv_mape"),
        }
        | {"skipped": plain(one.left_out), "nodes": one.series.nodes, "confidence": one.confidence}
        | {
            "candidates": [
                {"algorithm": ",".join(c.algorithms), "cv_mape": c.cv_mape} for c in one.candidates
            ]
        }
        | {"residuals": plain(one.residuals)}
        for one in result.series
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


def _protocol(one: FittedProtocol) -> Document:
    head = fields(one, "name launch_overhead_s alpha_s bandwidth_Bps")
    bounds = {
        "ci95": {name: list(bounds) for name, bounds in one.ci95.items()},
        "tied": list(one.tied),
    }
    return head | bounds | {"local_copy_Bps": one.copy_Bps, "eta_beta": one.eta_beta}


def _regime(regime: Regime) -> str:
    return (
        f"{regime.bound} ({range_text(regime.from_bytes, regime.to_bytes)}) {percent(regime.mape)}"
    )


_SERIES = (
    label(
        "collective",
        "collective",
        lambda primitive: primitive.spoken,
        get=lambda one: one.series.primitive,
    ),
    number("ranks", "ranks", get=lambda one: one.series.ranks),
    number("nodes", "nodes", drop=4, get=lambda one: one.series.nodes),
    number("sizes", "sizes", drop=3, get=lambda one: len(one.points)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent),
    label(
        "regimes",
        "mean error by what bounds the price",
        drop=2,
        get=lambda one: ", ".join(map(_regime, one.regimes)),
    ),
)
_MOST_ROWS = 12


class _JudgedPoint(NamedTuple):
    one: ValidatedSeries
    point: ValidatedPoint


_POINTS = (
    label("collective", "collective", get=lambda of: of.one.series.primitive, hidden=True),
    number("ranks", "ranks", get=lambda of: of.one.series.ranks, hidden=True),
    number("nodes", "nodes", get=lambda of: of.one.series.nodes, hidden=True),
    number("bytes", "size", size_text, get=lambda of: whole_bytes(of.point.bytes)),
    number("measured_s", "measured", format_time, get=lambda of: of.point.measured_s),
    number("predicted_s", "predicted", format_time, get=lambda of: of.point.predicted_s),
    number("relative_error", "error", signed_percent, get=lambda of: of.point.relative_error),
    number("of_expected", "of expected", reached_percent, 1, get=lambda of: of.point.of_expected),
    label("algorithm", "algorithm", drop=5, get=lambda of: of.point.algorithm),
    label("protocol", "protocol", drop=6, get=lambda of: of.point.protocol),
    number(
        "busbw_measured_Bps", "busbw", format_rate, 3, get=lambda of: of.point.busbw_measured_Bps
    ),
    number(
        "busbw_expected_Bps", "expected", format_rate, 4, get=lambda of: of.point.busbw_expected_Bps
    ),
    label("bound", "bound by", drop=7, get=lambda of: of.point.bound),
    label("nearest", "nearest", drop=8, get=lambda of: of.point.nearest, hidden=True),
    number(
        "nearest_error",
        "its error",
        signed_percent,
        9,
        get=lambda of: of.point.nearest_error,
        hidden=True,
    ),
)


def _points(result: Validation, several: Sequence[ValidatedSeries], title: str = "") -> Table:
    columns = (*context(fabric=result.fabric), *_POINTS, *context(result.overrides))
    records = tuple(_JudgedPoint(one, point) for one in several for point in one.points)
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
    for one in result.series:
        more = ", ".join(
            filter(None, (f"{one.series.library} {one.series.version}".strip(), one.series.dtype))
        )
        name = f"{one.series.title} ({more})" if more else one.series.title
        title = (
            f"{name} on {where}: {percent(one.mape)} off on average, worst"
            f" {signed_percent(one.worst)}"
        )
        out.append(_points(result, [one], title)._replace(first=0 if several else _MOST_ROWS))
        if len(one.regimes) > 1:
            out += listed("mean error by what bounds the price", map(_regime, one.regimes), first=0)
        out += listed("findings", one.findings, first=0)
    for used, heading in ((False, "left out"), (True, "used with a reservation")):
        skipped = (one for one in result.skipped if one.used is used)
        out += listed(
            heading,
            (f"{one.reason}: {counted(one.rows, 'row')}, first at {one.where}" for one in skipped),
            first=0,
        )
    return [
        *out,
        *([Lines(f"readings: {result.readings.spoken()}", ())] if result.readings != USUAL else []),
    ]


def _answer(result: Validation) -> str:
    worst = max(result.series, key=lambda one: abs(one.worst), default=None)
    whose = f" ({worst.series.title})" if worst and len(result.series) > 1 else ""
    off = f" Worst: {signed_percent(worst.worst)}{whose}." if worst else ""
    return f"{on_fabric(result.fabric, result.overrides)}: {result.verdict}.{off}"


def _document(result: Validation) -> Document:
    series = [
        {
            "collective": str(one.series.primitive),
            "ranks": one.series.ranks,
            **fields(one, "mape worst"),
        }
        | {"points": [_checked(point) for point in one.points], "findings": list(one.findings)}
        | {
            "regimes": [_bounds(regime) for regime in one.regimes],
            **fields(one.series, "nodes library version dtype files"),
        }
        for one in result.series
    ]
    head = {"fabric": result.fabric, **set_field(result.overrides), "series": series}
    model = {
        "mode": "ideal" if result.readings.ideal else "realistic",
        **model_field(result.readings),
    }
    return head | model | fields(result, "mape verdict max_mape holds skipped")


def _checked(point: ValidatedPoint) -> Document:
    return point._asdict() | {"bytes": whole_bytes(point.bytes), "of_expected": point.of_expected}


def _bounds(one: Regime) -> Document:
    return one._asdict() | {
        "from_bytes": whole_bytes(one.from_bytes),
        "to_bytes": whole_bytes(one.to_bytes),
    }


VIEWS = {
    Calibration: View("calibrate", _fitted_blocks, _fitted_document, _residuals, _fitted),
    Validation: View(
        "validate", _blocks, _document, lambda result: _points(result, result.series), _answer
    ),
}
