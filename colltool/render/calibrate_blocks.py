"""``calibrate`` as blocks and as a document."""

from __future__ import annotations

from typing import Any

from colltool import __version__
from colltool.fitting.results import Calibration, Fitted, FittedSeries, Residual
from colltool.fitting.sizes import size_text
from colltool.render.parts import Block, Cell, Column, Lines, Table, gathered, plain
from colltool.units import format_rate, format_time

_SERIES = (
    Column("collective", "collective", right=False),
    Column("ranks", "ranks"),
    Column("algorithm", "algorithm", right=False),
    Column("points", "sizes"),
    Column("left_out", "off curve"),
    Column("mape", "mean error"),
    Column("worst", "worst", 3),
    Column("cv_mape", "on unseen sizes"),
)
_PROTOCOLS = (
    Column("collective", "collective", right=False),
    Column("protocol", "protocol", right=False),
    Column("launch_overhead_s", "launch overhead"),
    Column("launch_overhead_ci95", "overhead 95%", 4),
    Column("alpha_s", "alpha"),
    Column("alpha_ci95", "alpha 95%", 5),
    Column("bandwidth_Bps", "bandwidth"),
    Column("bandwidth_ci95", "bandwidth 95%", 3),
    Column("eta_beta", "eta_b", 1),
    Column("local_copy_Bps", "local copy", 2),
)
_POINTS = (
    Column("collective", "collective", right=False),
    Column("ranks", "ranks"),
    Column("bytes", "size"),
    Column("measured_s", "measured"),
    Column("fitted_s", "fitted"),
    Column("relative_error", "error"),
    Column("algorithm", "algorithm", right=False),
    Column("protocol", "protocol", right=False),
    Column("used", "used", right=False),
)


def calibrate_blocks(result: Calibration) -> list[Block]:
    """How well each series is met, the protocols found, and what a reader should know."""
    title = f"{result.fabric.name}: {result.tier} fitted to {len(result.series)} series"
    out: list[Block] = [Table(_SERIES, tuple(_series_row(one) for one in result.series), None, title), _protocols(result)]
    out.append(Lines("notes", result.notes))
    left = gathered((left.reason, one.series.title) for one in result.series for left in one.left_out)
    if left:
        out.append(
            Lines("off the curve, not in the fit", tuple(f"{', '.join(titles)}: {reason}" for reason, titles in left.items()))
        )
    for title, used in (("rows skipped", False), ("rows used with a reservation", True)):
        lines = tuple(f"{one.rows}: {one.reason} (first at {one.where})" for one in result.skipped if one.used is used)
        out += [Lines(title, lines)] if lines else []
    last = f"written to {result.path}" if result.path else "nothing written: add -o OUT.yaml to keep this fabric"
    return [*out, Lines(last, ())]


def _series_row(one: FittedSeries) -> tuple[Cell, ...]:
    names = (plain(one.series.primitive.spoken), plain(one.series.ranks), plain(" + ".join(one.algorithms)))
    used = sum(residual.used for residual in one.residuals)
    return (*names, plain(used), plain(len(one.left_out)), _percent(one.mape), _signed(one.worst), _percent(one.cv_mape))


def _percent(value: float | None) -> Cell:
    return Cell("-" if value is None else f"{100 * value:.1f}%", value)


def _signed(value: float) -> Cell:
    return Cell(f"{100 * value:+.1f}%", value)


def _protocols(result: Calibration) -> Table:
    """Each fit once, with the collectives that share it."""
    shared: dict[tuple[Fitted, ...], list[str]] = {}
    for one in result.series:
        names = shared.setdefault(_hashable(one.protocols), [])
        if one.series.primitive.spoken not in names:
            names.append(one.series.primitive.spoken)
    found = {_hashable(one.protocols): one.protocols for one in result.series}
    rows = [_protocol_row(", ".join(names), protocol) for key, names in shared.items() for protocol in found[key]]
    scaled = any(protocol.eta_beta is not None for one in result.series for protocol in one.protocols)
    columns = tuple(column._replace(hidden=column.key == "eta_beta" and not scaled) for column in _PROTOCOLS)
    return Table(columns, tuple(rows), None, "protocols, the fastest of which holds at each size")


def _hashable(protocols: tuple[Fitted, ...]) -> tuple[Any, ...]:
    return tuple(protocol._replace(ci95=tuple(sorted(protocol.ci95.items()))) for protocol in protocols)  # type: ignore[arg-type]


def _protocol_row(collectives: str, one: Fitted) -> tuple[Cell, ...]:
    def interval(name: str, text: Any) -> Cell:
        if name in one.tied:
            return Cell("not told", "not told")
        bounds = one.ci95.get(name)
        return Cell(
            "-" if bounds is None else f"{text(bounds[0], 3)} .. {text(bounds[1], 3)}", None if bounds is None else list(bounds)
        )

    return (
        plain(collectives),
        plain(one.name),
        Cell(format_time(one.launch_overhead_s), one.launch_overhead_s),
        interval("launch_overhead_s", format_time),
        Cell(format_time(one.alpha_s), one.alpha_s),
        interval("alpha_s", format_time),
        Cell(format_rate(one.bandwidth_Bps), one.bandwidth_Bps),
        interval("bandwidth_Bps", format_rate),
        Cell("-" if one.eta_beta is None else f"{one.eta_beta:.3g}", one.eta_beta),
        Cell("-" if one.copy_Bps is None else format_rate(one.copy_Bps), one.copy_Bps),
    )


def calibrate_points(result: Calibration) -> list[Block]:
    """Every point of every series, for CSV."""
    rows = [_point(one, residual) for one in result.series for residual in one.residuals]
    return [Table(_POINTS, tuple(rows))]


def _point(one: FittedSeries, residual: Residual) -> tuple[Cell, ...]:
    size, error = residual.bytes, residual.relative_error
    return (
        plain(str(one.series.primitive)),
        plain(one.series.ranks),
        Cell(size_text(size), int(size) if float(size).is_integer() else size),
        Cell(format_time(residual.measured_s), residual.measured_s),
        Cell(format_time(residual.fitted_s), residual.fitted_s),
        _signed(error),
        plain(residual.algorithm),
        plain(residual.protocol),
        plain("yes" if residual.used else "no"),
    )


def calibrate_document(result: Calibration) -> dict[str, Any]:
    """The promised fields of ``calibrate``, and then the points."""
    return {
        "schema": "colltool.calibrate/1",
        "colltool": __version__,
        "series": [_series(one) for one in result.series],
        "fabric": result.path or None,
        "tier": result.tier,
        "notes": list(result.notes),
        "rows_skipped": [one._asdict() for one in result.skipped],
    }


def _series(one: FittedSeries) -> dict[str, Any]:
    return {
        "collective": str(one.series.primitive),
        "ranks": one.series.ranks,
        "algorithm": ",".join(one.algorithms),
        "protocols": [_protocol(protocol) for protocol in one.protocols],
        "points": sum(residual.used for residual in one.residuals),
        "mape": one.mape,
        "worst": one.worst,
        "cv_mape": one.cv_mape,
        "skipped": [left._asdict() for left in one.left_out],
        "nodes": one.series.nodes,
        "confidence": one.confidence,
        "candidates": [{"algorithm": ",".join(c.algorithms), "cv_mape": c.cv_mape} for c in one.candidates],
        "residuals": [residual._asdict() for residual in one.residuals],
    }


def _protocol(one: Fitted) -> dict[str, Any]:
    return {
        "name": one.name,
        "launch_overhead_s": one.launch_overhead_s,
        "alpha_s": one.alpha_s,
        "bandwidth_Bps": one.bandwidth_Bps,
        "ci95": {name: list(bounds) for name, bounds in one.ci95.items()},
        "tied": list(one.tied),
        "local_copy_Bps": one.copy_Bps,
        "eta_beta": one.eta_beta,
    }
