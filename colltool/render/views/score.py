"""``score``: how far predictors are off on published measurements, colltool itself among them.

:func:`_blocks` is the screen. A row is a group of measurements, such as all of a machine; ``by`` says
what groups them, and is ``all`` in the one row of each predictor that has them all. Errors are shares; ``own_median``
is colltool's on those of the rows that its numbers do not come from, None where there are none.

What was not scored is counted by predictor: ``missing`` are published rows without a prediction (of colltool, which is
not scored on what it was fitted to, the rows that its numbers come from), ``unknown`` are lines of a file of
predictions by the machine that they name and no row has, ``unasked`` its other lines that answer no row.
"""

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
# the titles of columns
_LEGEND = (
    "error: median of |predicted/measured - 1|;"
    " p90: what nine of ten rows do not exceed;"
    " bias: median of predicted/measured - 1, negative where too fast;"
    " inside: measurements between low and high;"
    " colltool: its error on the same rows, as far as its numbers were not fitted to them;"
    " nearer: share of these on which the predictor is nearer than colltool,"
    " half and twice the time being equally far"
)
# without --all
_FIRST_ROWS = 12
_FIRST_ROWS_OF_SEVERAL = 8  # of several predictors
_FIRST_NOTES = 4
_MOST_LOST = 20  # predictions that --all lists


def _table(result: Score) -> Table:
    """A row for each predictor and group of measurements; more rows are shown by default of a single predictor."""
    several = len(result.predictors) > 1
    return Table(
        SCORE_COLUMNS, result.rows, first=_FIRST_ROWS_OF_SEVERAL if several else _FIRST_ROWS
    )


def _table_for_people(result: Score) -> Table:
    """The table without columns that are empty. Of a single predictor its name, in all rows the same, goes too, and
    colltool is not compared with itself."""
    table = _table(result).without_empty("covered", "own_median", "nearer")
    if len(result.predictors) > 1:
        return table
    table = table.without("predictor")
    if result.predictors[0].name == OWN:
        return table.without("own_median")
    return table


def _answer(result: Score) -> str:
    """Say the median error of each predictor over all rows; before it, whose times have a wrong unit. A single
    predictor is told in more detail."""
    sentences = [_unit_text(predictor) for predictor in result.predictors if predictor.unit]
    # one row for each predictor, and there is at least one
    overall = [row for row in result.rows if row.by == "all"]
    published = f"{result.published:,} published rows"
    if len(overall) > 1:
        medians = ", ".join(f"{row.predictor} {percent(row.median)}" for row in overall)
        sentences.append(f"Median error: {medians}; each on the rows it answers, of {published}.")
    else:
        row = overall[0]
        median = f"median error {percent(row.median)}"
        text = f"{row.predictor}: {median} on {row.rows:,} of {published}"
        if row.covered is not None:
            text += f", {whole_percent(row.covered)} inside its intervals"
        if row.predictor == OWN:
            text += "; each is priced without its own source"
        elif row.own_median is not None:
            text += f"; colltool there: {percent(row.own_median)}"
        sentences.append(f"{text}.")
    return " ".join(sentences)


def _unit_text(predictor: ScoredPredictor) -> str:
    """What to do about times that look like another unit than their column's, microseconds."""
    fix = f"rename the column time_{predictor.unit}"
    # no column may be in nanoseconds
    if predictor.unit == "ns":
        fix = "divide them by 1000"
    return (
        f"{predictor.name}: its times look like {predictor.unit}, not the unit of their column:"
        f" {fix}."
    )


def _notes(result: Score) -> list[str]:
    """What was not scored: rows without a prediction, and lines of predictions without a row."""
    notes = []
    machines = sorted({source.machine for source in published_sources().values()})
    for predictor in result.predictors:
        if predictor.name == OWN:
            notes.append(
                f"{predictor.name}: {counted(predictor.missing, 'row')} that its numbers come from"
            )
        elif predictor.missing:
            notes.append(
                f"{predictor.name}: {counted(predictor.missing, 'row')} without a prediction"
            )
        for machine, count in predictor.unknown:
            hint = nearest(machine, machines)
            text = f"{predictor.name}: machine '{machine}' has no published row ({counted(count, 'line')})"
            notes.append(f"{text} {hint}".strip())
        if predictor.unasked:
            unasked = counted(predictor.unasked, "line")
            notes.append(f"{predictor.name}: {unasked} for ranks, sizes or sources that no row has")
    return notes


def _lost_text(lost: LostRow) -> str:
    """A measurement on which a predictor is nearer than colltool, with the errors of both."""
    size = title_size(lost.bytes)
    return (
        f"{lost.collective} of {size} on {lost.ranks} ranks of {lost.machine} ({lost.source}):"
        f" {lost.predictor} {signed_percent(lost.error)}, colltool {signed_percent(lost.colltool_error)}"
    )


def _blocks(result: Score) -> list[Block]:
    """The answer and the table, then what was not scored and where another predictor is nearer."""
    lost = result.lost[:_MOST_LOST]
    return [
        Headline(_answer(result)),
        _table_for_people(result),
        *listed("not scored", _notes(result), first=_FIRST_NOTES),
        *listed("where another predictor is nearer, by most", map(_lost_text, lost), first=0),
        Lines(_LEGEND, (), first=0),
    ]


class PredictorDocument(Document, extends=ScoredPredictor):
    """What a predictor answered; ``unknown`` are counts of lines by machine."""

    unknown: dict[str, int] = derived(lambda scored: dict(scored.unknown))


class ScoreDocument(Document):
    """Predictors, their errors by group of rows, and the rows on which one is nearer than colltool. Of the
    ``published`` rows, ``seen`` are those that colltool's numbers were fitted to."""

    published: int
    sources: int
    seen: int
    predictors: list[PredictorDocument]
    rows: list[ScoreRow]
    lost: list[LostRow]


VIEWS = {
    Score: View("score", _blocks, ScoreDocument.of, _table, _answer),
}
