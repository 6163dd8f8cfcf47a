"""``score``: how far predictors are off on published measurements."""

from __future__ import annotations

from colltool.base.errors import nearest
from colltool.base.formatting import counted, percent, title_size, whole_percent
from colltool.calibration.published import published_sources
from colltool.calibration.score import OWN, LostRow, Score, ScoredPredictor, ScoreRow
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, listed, signed_percent
from colltool.render.documents import Document, derived

SCORE_COLUMNS: Columns[ScoreRow] = (
    label("predictor"),
    label("by", hidden=True),
    label("name", "rows of"),
    number("rows"),
    number("median", "error", percent),
    number("p90", "p90", percent, drop=2),
    number("bias", "bias", signed_percent, drop=1),
    number("covered", "inside", whole_percent),
    number("own_median", "colltool", percent),
    number("nearer", "nearer", whole_percent),
)
_LEGEND = (
    "error: median of |predicted/measured - 1|; p90: what nine of ten rows do not exceed; bias:"
    " median of predicted/measured - 1, negative where too fast; inside: measurements between low"
    " and high; colltool: its error on the same rows, as far as its numbers were not fitted to them;"
    " nearer: share of these on which the predictor is nearer than colltool, half and twice the time being equally far"
)
_FIRST_ROWS, _SEVERAL_ROWS = 12, 8  # without --all; of several predictors
_FIRST_NOTES = 4  # shown without --all
_MOST_LOST = 20  # predictions that are listed


def _table(result: Score) -> Table:
    several = len(result.predictors) > 1
    return Table(SCORE_COLUMNS, result.rows, first=_SEVERAL_ROWS if several else _FIRST_ROWS)


def _table_for_people(result: Score) -> Table:
    table = _table(result)
    empty = []
    for column in ("covered", "own_median", "nearer"):
        if all(getattr(line, column) is None for line in result.rows):
            empty.append(column)
    if len(result.predictors) == 1:
        empty.append("predictor")
        if result.predictors[0].name == OWN:
            empty.append("own_median")
    return table.without(*empty)


def _answer(result: Score) -> str:
    """The median error over all rows, of each predictor."""
    units = [_unit_text(scored) for scored in result.predictors if scored.unit]
    everything = [line for line in result.rows if line.by == "all"]
    rows = f"{result.published:,} published rows"
    if len(everything) > 1:
        medians = [f"{line.predictor} {percent(line.median)}" for line in everything]
        told = f"Median error: {', '.join(medians)}; each on the rows it answers, of {rows}."
        return " ".join([*units, told])
    line = everything[0]
    told = f"{line.predictor}: median error {percent(line.median)} on {line.rows:,} of {rows}"
    if line.covered is not None:
        told += f", {whole_percent(line.covered)} inside its intervals"
    if line.predictor == OWN:
        told += "; each is priced without its own source"
    elif line.own_median is not None:
        told += f"; colltool there: {percent(line.own_median)}"
    return " ".join([*units, f"{told}."])


def _unit_text(scored: ScoredPredictor) -> str:
    cure = f"rename the column time_{scored.unit}"
    if scored.unit == "ns":
        cure = "divide them by 1000"
    return (
        f"{scored.name}: its times look like {scored.unit}, not the unit of their column: {cure}."
    )


def _notes(result: Score) -> list[str]:
    found = []
    machines = sorted({source.machine for source in published_sources().values()})
    for scored in result.predictors:
        if scored.name == OWN:
            found.append(
                f"{scored.name}: {counted(scored.missing, 'row')} that its numbers come from"
            )
        elif scored.missing:
            found.append(f"{scored.name}: {counted(scored.missing, 'row')} without a prediction")
        for machine, count in scored.unknown:
            hint = nearest(machine, machines)
            text = f"{scored.name}: machine '{machine}' has no published row ({counted(count, 'line')})"
            found.append(f"{text} {hint}".strip())
        if scored.unasked:
            unasked = counted(scored.unasked, "line")
            found.append(f"{scored.name}: {unasked} for ranks, sizes or sources that no row has")
    return found


def _lost_text(lost: LostRow) -> str:
    size = title_size(lost.bytes)
    return (
        f"{lost.collective} of {size} on {lost.ranks} ranks of {lost.machine} ({lost.source}):"
        f" {lost.predictor} {signed_percent(lost.error)}, colltool {signed_percent(lost.colltool_error)}"
    )


def _blocks(result: Score) -> list[Block]:
    lost = result.lost[:_MOST_LOST]
    return [
        Headline(_answer(result)),
        _table_for_people(result),
        *listed("not scored", _notes(result), first=_FIRST_NOTES),
        *listed("where another predictor is nearer, by most", map(_lost_text, lost), first=0),
        Lines(_LEGEND, (), first=0),
    ]


class PredictorDocument(Document, extends=ScoredPredictor):
    """What a predictor answered."""

    unknown: dict[str, int] = derived(lambda scored: dict(scored.unknown))


class ScoreDocument(Document):
    """``colltool.score/1``."""

    published: int
    sources: int
    seen: int
    predictors: list[PredictorDocument]
    rows: list[ScoreRow]
    lost: list[LostRow]


VIEWS = {
    Score: View("score", _blocks, ScoreDocument.of, _table, _answer),
}
