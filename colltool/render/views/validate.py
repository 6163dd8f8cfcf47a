"""``validate``: measured times against predicted ones.

:func:`_answer` is the headline, :func:`_blocks` the screen, :func:`_points` a row for each size. A fit is a
measured series beside its predictions: ``mape`` is the mean error of its sizes, ``worst`` the largest with its sign,
both shares. A regime is a range of sizes whose price is bound by the same part, such as latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from colltool.base.formatting import (
    percent,
    range_text,
    sentence,
    size_text,
)
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.estimate.assumptions import USUAL
from colltool.logs.series import Series, Skipped
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    columns_at,
    label,
    number,
)
from colltool.render.busbw_chart import BusbwChart, series_chart
from colltool.render.dispatch import (
    View,
    context,
    fabric_of,
    listed,
    reached_percent,
    signed_percent,
)
from colltool.render.documents import Document, derived
from colltool.render.estimates import ModelDocument
from colltool.render.shared_documents import (
    OnFabricDocument,
    ideal_or_realistic,
    model_echo,
    whole,
)
from colltool.render.views.health import SeriesWords, skipped_text


def _regime_text(regime: Regime) -> str:
    """``latency (1KB to 64KB) 7.3%``."""
    sizes = range_text(regime.from_bytes, regime.to_bytes)
    return f"{regime.bound} ({sizes}) {percent(regime.mape)}"


_SERIES: Columns[ValidatedSeries] = (
    label("collective", "collective", attrgetter("label"), path="series.primitive"),
    number("ranks", path="series.ranks"),
    number("nodes", drop=4, path="series.nodes"),
    number("sizes", drop=3, get=lambda fit: len(fit.points)),
    number("mape", "mean error", percent),
    number("worst", "worst", signed_percent),
    label(
        "regimes",
        "mean error by what bounds the price",
        drop=2,
        get=lambda fit: ", ".join(map(_regime_text, fit.regimes)),
    ),
)
_MOST_ROWS = 12  # shown without --all
_MOST_NAMED = 3  # series that the answer names


class _JudgedPoint(NamedTuple):
    """A measured size of a series beside its prediction."""

    fit: ValidatedSeries
    point: ValidatedPoint


_POINTS: Columns[_JudgedPoint] = (
    *columns_at(
        "fit.series",
        (
            label("collective", path="primitive", hidden=True),
            number("ranks", hidden=True),
            number("nodes", hidden=True),
        ),
    ),
    *columns_at(
        "point",
        (
            number("bytes", "size", size_text, path="shown_bytes", whole=True),
            number("measured_s", "measured"),
            number("predicted_s", "predicted"),
            number("relative_error", "error", signed_percent),
            number("of_expected", "of expected", reached_percent, drop=1),
            label("algorithm", drop=5),
            label("protocol", drop=6),
            number("busbw_measured_Bps", "busbw", drop=3),
            number("busbw_expected_Bps", "expected", drop=4),
            label("bound", "bound by", drop=7),
            label("nearest", drop=8, hidden=True),
            number("nearest_error", "its error", signed_percent, drop=9, hidden=True),
        ),
    ),
)


def _points(result: Validation, fits: Iterable[ValidatedSeries], title: str = "") -> Table:
    """The measured sizes of some series beside their predictions."""
    columns = (*context(fabric=result.fabric), *_POINTS, *context(result.overrides))
    records = []
    for fit in fits:
        records += [_JudgedPoint(fit, point) for point in fit.points]
    return Table(columns, records, title=title).without_empty("protocol")


def _blocks(result: Validation) -> Iterator[Block]:
    """How far off predictions are: in all, by series, and at each size."""
    fabric = fabric_of(result)
    several = len(result.series) > 1
    yield Headline(_answer(result))
    if several:
        title = f"measured times, compared with the prices of {fabric}"
        yield Table(_SERIES, result.series, title=title, first=_MOST_ROWS)
    for fit in result.series:
        title = f"{_series_name(fit.series)} on {fabric}: {percent(fit.mape)} off on average"
        table = _points(result, [fit], f"{title}, worst {signed_percent(fit.worst)}")
        yield table._replace(first=0 if several else _MOST_ROWS)
        if len(fit.regimes) > 1:
            regimes = map(_regime_text, fit.regimes)
            yield from listed("mean error by what bounds the price", regimes, first=0)
        yield from listed("findings", fit.findings, first=0)
    left_out = [skipped_text(rows) for rows in result.skipped if not rows.used]
    reserved = [skipped_text(rows) for rows in result.skipped if rows.used]
    yield from listed("left out", left_out, first=0)
    yield from listed("used with a reservation", reserved, first=0)
    if result.readings != USUAL:
        yield Lines(f"model options: {result.readings.label()}", ())


def _chart(result: Validation) -> BusbwChart | None:
    """The chart of the series with the worst size; None without series."""
    if not result.series:
        return None
    return series_chart(_worst(result))


def _worst(result: Validation) -> ValidatedSeries:
    """The series with the largest error at a size."""
    return max(result.series, key=lambda fit: abs(fit.worst))


def _series_name(series: Series) -> str:
    """The title of a series, with its library, version and data type where known."""
    library = f"{series.library} {series.version}".strip()
    details = ", ".join(filter(None, (library, series.dtype)))
    return f"{series.title} ({details})" if details else series.title


def _answer(result: Validation) -> str:
    """Say the verdict, the worst size, and, of a few series, what each reaches of what is expected."""
    fabric = fabric_of(result)
    text = f"{fabric} is {result.verdict}."
    if result.other_hardware:
        text = f"{sentence(result.other_hardware)}. {text}"
    if not result.series:
        return text
    worst = _worst(result)
    title = f" ({worst.series.title})" if len(result.series) > 1 else ""
    text += f" The worst size is {signed_percent(worst.worst)}{title}."
    judged = [health for health in result.health if health.judgeable]
    if not judged or len(judged) > _MOST_NAMED:
        return text
    words = SeriesWords(result.health, result.devices, fabric)
    return f"{text} {sentence(words.outcomes(judged))}."


class ValidatedPointDocument(Document, extends=ValidatedPoint):
    """A measured size against its price."""

    bytes: float = whole("bytes")
    of_expected: float


class RegimeDocument(Document, extends=Regime):
    """Neighbouring sizes with the same bound."""

    from_bytes: float = whole("from_bytes")
    to_bytes: float = whole("to_bytes")


class ValidatedSeriesDocument(Document, of=ValidatedSeries):
    """A measured series against its prices."""

    collective: str = derived("series.primitive")
    ranks: int = derived("series.ranks")
    mape: float
    worst: float
    points: list[ValidatedPointDocument]
    findings: list[str]
    regimes: list[RegimeDocument]
    nodes: int | None = derived("series.nodes")
    library: str = derived("series.library")
    version: str = derived("series.version")
    dtype: str = derived("series.dtype")
    files: list[str] = derived("series.files")


class ValidateDocument(OnFabricDocument):
    """Measured times against predicted ones."""

    series: list[ValidatedSeriesDocument]
    mode: str = derived(lambda result: ideal_or_realistic(result.readings))
    model: ModelDocument = derived(model_echo)
    mape: float
    verdict: str
    max_mape: float | None
    holds: bool
    skipped: list[Skipped]


VIEWS = {
    Validation: View(
        "validate",
        _blocks,
        ValidateDocument.of,
        lambda result: _points(result, result.series),
        _answer,
        chart=_chart,
    ),
}
