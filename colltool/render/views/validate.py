"""``validate``: measured times against predicted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.formatting import counted, format_rate, format_time, percent, range_text, size_text, whole_bytes
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.estimate.assumptions import USUAL
from colltool.measurements.series import Skipped
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.estimates import model_field
from colltool.render.view import Document, View, fields, on_fabric, reached_percent, set_field, set_text, signed_percent


def _regime(regime: Regime) -> str:
    return f"{regime.bound} ({range_text(regime.from_bytes, regime.to_bytes)}) {percent(regime.mape)}"


_SERIES: tuple[Column, ...] = (
    label("collective", "collective", lambda primitive: primitive.spoken, get=lambda one: one.series.primitive),
    number("ranks", "ranks", get=lambda one: one.series.ranks),
    number("nodes", "nodes", drop=4, get=lambda one: one.series.nodes),
    number("sizes", "sizes", drop=3, get=lambda one: len(one.points)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent),
    label("regimes", "mean error by what bounds the price", drop=2, get=lambda one: ", ".join(map(_regime, one.regimes))),
)

_MOST_ROWS = 12


class _JudgedPoint(NamedTuple):
    result: Validation
    one: ValidatedSeries
    point: ValidatedPoint


_POINTS: tuple[Column, ...] = (
    label("fabric", "fabric", get=lambda of: of.result.fabric, hidden=True),
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
    number("busbw_measured_Bps", "busbw", format_rate, 3, get=lambda of: of.point.busbw_measured_Bps),
    number("busbw_expected_Bps", "expected", format_rate, 4, get=lambda of: of.point.busbw_expected_Bps),
    label("bound", "bound by", drop=7, get=lambda of: of.point.bound),
    label("nearest", "nearest", drop=8, get=lambda of: of.point.nearest, hidden=True),
    number("nearest_error", "its error", signed_percent, 9, get=lambda of: of.point.nearest_error, hidden=True),
)
_SET = label("set", "set", get=lambda of: set_text(of.result.overrides), hidden=True)


def _table(result: Validation) -> Table:
    return _points(result, result.series)


def _points(result: Validation, several: Sequence[ValidatedSeries], title: str = "") -> Table:
    columns = (*_POINTS, _SET) if result.overrides else _POINTS
    records = tuple(_JudgedPoint(result, one, point) for one in several for point in one.points)
    table = Table(columns, records, None, title)
    return table if any(of.point.protocol for of in records) else table.without("protocol")


def _blocks(result: Validation) -> list[Block]:
    where = on_fabric(result.fabric, result.overrides)
    several = len(result.series) > 1
    out: list[Block] = []
    if several:
        out.append(Table(_SERIES, result.series, None, f"measured against {where}: {len(result.series)} series", _MOST_ROWS))
    for one in result.series:
        title = f"{_named(one)} on {where}: {percent(one.mape)} off on average, worst {signed_percent(one.worst)}"
        out.append(_points(result, [one], title)._replace(first=0 if several else _MOST_ROWS))
        regimes = tuple(map(_regime, one.regimes))
        out += [Lines("mean error by what bounds the price", regimes, first=0)] if len(regimes) > 1 else []
        out += [Lines("findings", one.findings, first=0)] if one.findings else []
    for used, heading in ((False, "left out"), (True, "used with a reservation")):
        lines = tuple(_skipped(one) for one in result.skipped if one.used is used)
        out += [Lines(heading, lines, first=0)] if lines else []
    told = [Lines(f"readings: {result.readings.spoken()}", ())] if result.readings != USUAL else []
    return [Headline(_answer(result)), *out, *told]


def _answer(result: Validation) -> str:
    worst = max(result.series, key=lambda one: abs(one.worst), default=None)
    whose = f" ({worst.series.title})" if worst and len(result.series) > 1 else ""
    off = f" Worst: {signed_percent(worst.worst)}{whose}." if worst else ""
    return f"{on_fabric(result.fabric, result.overrides)}: {result.verdict}.{off}"


def _skipped(one: Skipped) -> str:
    return f"{one.reason}: {counted(one.rows, 'row')}, first at {one.where}"


def _named(one: ValidatedSeries) -> str:
    series = one.series
    more = ", ".join(filter(None, (f"{series.library} {series.version}".strip(), series.dtype)))
    return f"{series.title} ({more})" if more else series.title


def _document(result: Validation) -> Document:
    return {"fabric": result.fabric} | set_field(result.overrides) | {
        "series": [_series(one) for one in result.series],
        "mode": "ideal" if result.readings.ideal else "realistic",
        **model_field(result.readings),
        **fields(result, "mape verdict max_mape holds skipped"),
    }  # fmt: skip


def _series(one: ValidatedSeries) -> Document:
    return {
        "collective": str(one.series.primitive),
        "ranks": one.series.ranks,
        **fields(one, "mape worst"),
        "points": [_checked(point) for point in one.points],
        "findings": list(one.findings),
        "regimes": [_bounds(regime) for regime in one.regimes],
        **fields(one.series, "nodes library version dtype files"),
    }


def _checked(point: ValidatedPoint) -> Document:
    return point._asdict() | {"bytes": whole_bytes(point.bytes), "of_expected": point.of_expected}


def _bounds(one: Regime) -> Document:
    return one._asdict() | {"from_bytes": whole_bytes(one.from_bytes), "to_bytes": whole_bytes(one.to_bytes)}


VIEWS = {Validation: View("validate", _blocks, _document, _table, _answer)}
