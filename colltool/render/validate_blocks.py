"""``validate`` as blocks and as a document."""

from collections.abc import Sequence
from typing import Any

from colltool import __version__
from colltool.fitting.results import Checked, Regime, ValidatedSeries, Validation
from colltool.fitting.sizes import percent, range_text, size_text
from colltool.measured.series import Skipped
from colltool.render.parts import Block, Cell, Column, Lines, Table, plain
from colltool.units import format_rate, format_time

_SUMMARY = (
    Column("collective", "collective", right=False),
    Column("ranks", "ranks"),
    Column("nodes", "nodes", 4),
    Column("sizes", "sizes", 3),
    Column("mape", "mean error"),
    Column("worst", "worst"),
    Column("regimes", "mean error by what bounds the price", 2, right=False),
)


def validate_blocks(result: Validation) -> list[Block]:
    """A summary where there are several series; then each with its findings, and the verdict on all."""
    out: list[Block] = []
    if len(result.series) > 1:
        rows = tuple(_summary_row(one) for one in result.series)
        out.append(Table(_SUMMARY, rows, None, f"measured against {result.fabric}: {len(rows)} series"))
    for one in result.series:
        title = f"{_named(one)} on {result.fabric}: {percent(one.mape)} off on average, worst {percent(one.worst, sign='+')}"
        out.append(_points_table([one], result.fabric, title))
        regimes = tuple(_regime(regime) for regime in one.regimes)
        out += [Lines("mean error by what bounds the price", regimes)] if len(regimes) > 1 else []
        out += [Lines("findings", one.findings)] if one.findings else []
    for used, heading in ((False, "left out"), (True, "used with a reservation")):
        lines = tuple(_skipped(one) for one in result.skipped if one.used is used)
        out += [Lines(heading, lines)] if lines else []
    return [*out, Lines(f"verdict: {result.verdict}", ())]


def _skipped(one: Skipped) -> str:
    return f"{one.reason}: {one.rows} row{'s' * (one.rows != 1)}, first at {one.where}"


def validate_points(result: Validation) -> list[Block]:
    """Every point of every series in one table, for CSV."""
    return [_points_table(result.series, result.fabric, "")]


def _named(one: ValidatedSeries) -> str:
    """A series by its title and what else the log says of it."""
    series = one.series
    more = ", ".join(filter(None, (f"{series.library} {series.version}".strip(), series.dtype)))
    return f"{series.title} ({more})" if more else series.title


def _summary_row(one: ValidatedSeries) -> tuple[Cell, ...]:
    series, regimes = one.series, ", ".join(_regime(regime) for regime in one.regimes)
    return (
        plain(series.primitive.spoken),
        plain(series.ranks),
        Cell(str(series.nodes or "-"), series.nodes),
        plain(len(one.points)),
        Cell(percent(one.mape), one.mape),
        Cell(percent(one.worst, sign="+"), one.worst),
        plain(regimes),
    )


def _regime(regime: Regime) -> str:
    return f"{regime.bound} ({range_text(regime.from_bytes, regime.to_bytes)}) {percent(regime.mape)}"


def _points_table(several: Sequence[ValidatedSeries], fabric: str, title: str) -> Table:
    unnamed = not any(point.protocol for one in several for point in one.points)
    columns = (
        Column("fabric", "fabric", right=False, hidden=True),
        Column("collective", "collective", right=False, hidden=True),
        Column("ranks", "ranks", hidden=True),
        Column("nodes", "nodes", hidden=True),
        Column("bytes", "size"),
        Column("measured_s", "measured"),
        Column("predicted_s", "predicted"),
        Column("relative_error", "error"),
        Column("algorithm", "algorithm", 5, right=False),
        Column("protocol", "protocol", 6, right=False, hidden=unnamed),
        Column("busbw_measured_Bps", "busbw", 3),
        Column("busbw_expected_Bps", "expected", 4),
        Column("bound", "bound by", 7, right=False),
        Column("nearest", "nearest", right=False, hidden=True),
        Column("nearest_error", "its error", hidden=True),
    )
    rows = tuple(_point_row(one, point, fabric) for one in several for point in one.points)
    return Table(columns, rows, None, title)


def _point_row(one: ValidatedSeries, point: Checked, fabric: str) -> tuple[Cell, ...]:
    return (
        plain(fabric),
        plain(str(one.series.primitive)),
        plain(one.series.ranks),
        Cell(str(one.series.nodes or "-"), one.series.nodes),
        Cell(size_text(point.bytes), _whole(point.bytes)),
        Cell(format_time(point.measured_s), point.measured_s),
        Cell(format_time(point.predicted_s), point.predicted_s),
        Cell(percent(point.relative_error, sign="+"), point.relative_error),
        plain(point.algorithm),
        Cell(point.protocol or "-", point.protocol or None),
        Cell(format_rate(point.busbw_measured_Bps), point.busbw_measured_Bps),
        Cell(format_rate(point.busbw_expected_Bps), point.busbw_expected_Bps),
        plain(point.bound),
        plain(point.nearest),
        Cell(percent(point.nearest_error, sign="+"), point.nearest_error),
    )


def _whole(size: float) -> int | float:
    return int(size) if size.is_integer() else size


def validate_document(result: Validation) -> dict[str, Any]:
    """The promised fields of ``validate``, and the verdict."""
    return {
        "schema": "colltool.validate/1",
        "colltool": __version__,
        "fabric": result.fabric,
        "series": [_series_fields(one) for one in result.series],
        "mape": result.mape,
        "verdict": result.verdict,
        "max_mape": result.max_mape,
        "holds": result.holds,
        "skipped": [one._asdict() for one in result.skipped],
    }


def _series_fields(one: ValidatedSeries) -> dict[str, Any]:
    series = one.series
    return {
        "collective": str(series.primitive),
        "ranks": series.ranks,
        "mape": one.mape,
        "worst": one.worst,
        "points": [point._asdict() | {"bytes": _whole(point.bytes)} for point in one.points],
        "findings": list(one.findings),
        "regimes": [_regime_fields(regime) for regime in one.regimes],
        "nodes": series.nodes,
        "library": series.library,
        "version": series.version,
        "dtype": series.dtype,
        "files": list(series.files),
    }


def _regime_fields(one: Regime) -> dict[str, Any]:
    return one._asdict() | {"from_bytes": _whole(one.from_bytes), "to_bytes": _whole(one.to_bytes)}
