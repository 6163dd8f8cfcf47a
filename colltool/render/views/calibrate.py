"""``calibrate``: the fitted protocols, and how well each series fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from colltool.base.errors import either, said
from colltool.base.formatting import format_count, format_rate, format_time, percent, size_text, whole_bytes
from colltool.calibration.calibrate import Calibration, FittedSeries, Residual
from colltool.calibration.serialise import FittedProtocol
from colltool.render.blocks import Block, Column, Headline, Lines, Table, flag, gathered, label, later, number
from colltool.render.view import Document, View, fields, on_fabric, plain, set_field, signed_percent

_SERIES: tuple[Column, ...] = (
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
    number("launch_overhead_s", "launch overhead", format_time, get=lambda one: one.fit.launch_overhead_s),
    _interval("launch_overhead_s", "overhead 95%", format_time, 4),
    number("alpha_s", "alpha", format_time, get=lambda one: one.fit.alpha_s),
    _interval("alpha_s", "alpha 95%", format_time, 5),
    number("bandwidth_Bps", "bandwidth", format_rate, get=lambda one: one.fit.bandwidth_Bps),
    _interval("bandwidth_Bps", "bandwidth 95%", format_rate, 3),
    number("eta_beta", "eta_b", lambda share: format_count(share, 3), 1, get=lambda one: one.fit.eta_beta),
    number("local_copy_Bps", "local copy", format_rate, 2, get=lambda one: one.fit.copy_Bps),
)


class _FittedPoint(NamedTuple):
    result: Calibration
    one: FittedSeries
    residual: Residual


_POINTS: tuple[Column, ...] = (
    label("fabric", "fabric", get=lambda of: of.result.fabric.name),
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


def _table(result: Calibration) -> Table:
    return Table(_POINTS, tuple(_FittedPoint(result, one, residual) for one in result.series for residual in one.residuals))


def _blocks(result: Calibration) -> list[Block]:
    out: list[Block] = [Headline(_answer(result)), _protocols(result)]
    detail: list[Block] = [Table(_SERIES, result.series, None, "series")]
    detail += [Lines("notes", result.notes)] if result.notes else []
    left = gathered((left.reason, one.series.title) for one in result.series for left in one.left_out)
    lines = [f"{', '.join(titles)}: {reason}" for reason, titles in left.items()]
    detail += [Lines("off the curve, not in the fit", tuple(lines))] if lines else []
    for title, used in (("rows skipped", False), ("rows used with a reservation", True)):
        lines = [f"{one.rows}: {one.reason} (first at {one.where})" for one in result.skipped if one.used is used]
        detail += [Lines(title, tuple(lines))] if lines else []
    return [*out, *map(later, detail)]


def _answer(result: Calibration) -> str:
    worst = max(result.series, key=lambda one: one.mape)
    whose = f" at most ({worst.series.title})" if len(result.series) > 1 else ""
    off = f"mean error {percent(worst.mape)}{whose}"
    off += "" if worst.cv_mape is None else f", {percent(worst.cv_mape)} on unseen sizes"
    keep = said(either(shell="add -o OUT.yaml to keep this fabric", python="its text is the file"))
    return f"{_title(result)}: {off}. " + (f"Written to {result.path}." if result.path else f"Nothing written: {keep}.")


def _title(result: Calibration) -> str:
    return f"{on_fabric(result.fabric.name, result.overrides)}: {result.tier} fitted to {len(result.series)} series"


def _protocols(result: Calibration) -> Table:
    shared: dict[tuple[Any, ...], list[str]] = {}
    for one in result.series:
        names = shared.setdefault(_hashable(one.protocols), [])
        if one.series.primitive.spoken not in names:
            names.append(one.series.primitive.spoken)
    found = {_hashable(one.protocols): one.protocols for one in result.series}
    records = tuple(_Shared(", ".join(names), fit) for key, names in shared.items() for fit in found[key])
    table = Table(_PROTOCOLS, records, None, "protocols, the fastest of which holds at each size")
    return table if any(one.fit.eta_beta is not None for one in records) else table.without("eta_beta")


def _hashable(protocols: tuple[FittedProtocol, ...]) -> tuple[Any, ...]:
    return tuple(protocol._replace(ci95=tuple(sorted(protocol.ci95.items()))) for protocol in protocols)  # type: ignore[arg-type]


def _document(result: Calibration) -> Document:
    return {"series": [_series(one) for one in result.series], "fabric": result.path or None} | set_field(result.overrides) | {
        "tier": result.tier,
        "notes": list(result.notes),
        "rows_skipped": plain(result.skipped),
    }  # fmt: skip


def _series(one: FittedSeries) -> Document:
    return {
        "collective": str(one.series.primitive),
        "ranks": one.series.ranks,
        "algorithm": ",".join(one.algorithms),
        "protocols": [_protocol(protocol) for protocol in one.protocols],
        "points": sum(residual.used for residual in one.residuals),
        **fields(one, "mape worst cv_mape"),
        "skipped": plain(one.left_out),
        "nodes": one.series.nodes,
        "confidence": one.confidence,
        "candidates": [{"algorithm": ",".join(c.algorithms), "cv_mape": c.cv_mape} for c in one.candidates],
        "residuals": plain(one.residuals),
    }


def _protocol(one: FittedProtocol) -> Document:
    return {
        **fields(one, "name launch_overhead_s alpha_s bandwidth_Bps"),
        "ci95": {name: list(bounds) for name, bounds in one.ci95.items()},
        "tied": list(one.tied),
        "local_copy_Bps": one.copy_Bps,
        "eta_beta": one.eta_beta,
    }


VIEWS = {Calibration: View("calibrate", _blocks, _document, _table, _answer)}
