"""Predictors held to published measurements: errors by size, scope, vendor, machine and collective.

:func:`score` is the entry. Each predictor answers the rows it can (:func:`_answers_of`), and each group
of rows gets a line of its errors (:func:`_score_row`). ``colltool_ratio`` and the like are of
colltool's own price for a row, beside the predictor's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from statistics import median
from typing import ClassVar, Literal, NamedTuple, get_args

from colltool.base.errors import ColltoolError
from colltool.base.files import AnyPath
from colltool.base.result import Result, result, with_progress
from colltool.calibration.predictions import Predicted, read_predictions
from colltool.calibration.predictors import PREDICTORS
from colltool.calibration.published import PublishedRow, published_rows, published_sources
from colltool.estimate.accuracy import CLASSES, size_class

OWN = "colltool"
"""The predictor that is colltool itself."""
By = Literal["all", "size", "scope", "vendor", "collective", "machine"]
# The unit that a predictor's times are in, by the factor that they are off when read as
# microseconds.
_UNITS = {1e-3: "ms", 1e-6: "s", 1e3: "ns"}
# A median ratio within this factor of such a one means a wrong unit, not a bad predictor.
_UNIT_WITHIN = 3.0


class Judged(NamedTuple):
    """A published row and its prediction."""

    row: PublishedRow
    predicted: Predicted

    @property
    def ratio(self) -> float:
        """Predicted over measured time."""
        return self.predicted.time_s / self.row.time_s

    @property
    def error(self) -> float:
        """|predicted / measured - 1|."""
        return abs(self.ratio - 1)

    @property
    def colltool_ratio(self) -> float:
        """Colltool's price over measured time."""
        return self.row.price_s / self.row.time_s

    @property
    def nearer_by(self) -> float:
        """How much nearer it is than colltool's price, as a logarithm, so that half and twice the
        measured time are equally far. Negative where colltool is nearer."""
        return abs(log(self.colltool_ratio)) - abs(log(self.ratio))


class ScoreRow(NamedTuple):
    """The errors of a predictor on a group of rows, |predicted / measured - 1|.

    Args:
        by, name: what the rows share.
        bias: the median of predicted / measured - 1.
        covered: the share of measurements inside the predictor's intervals; None without any.
        own_median: colltool's median error on those of the rows that it has not seen; None where it
            has seen them all.
        nearer: on which share of these the predictor is nearer than colltool, by factor; None for
            colltool.
    """

    predictor: str
    by: By
    name: str
    rows: int
    median: float
    p90: float
    bias: float
    covered: float | None
    own_median: float | None
    nearer: float | None


class ScoredPredictor(NamedTuple):
    """How much a predictor answered, and which of its lines were of no use."""

    name: str
    answered: int  # rows with a prediction
    missing: int  # rows without a prediction
    unit: str = ""  # that its times seem to be in, where it is not the column's
    unknown: tuple[tuple[str, int], ...] = ()  # lines of machines without a row, by machine
    unasked: int = 0  # other lines that answer no row


class LostRow(NamedTuple):
    """A row on which another predictor is nearer than colltool; errors are predicted / measured -
    1."""

    predictor: str
    source: str
    machine: str
    ranks: int
    collective: str
    bytes: int
    measured_s: float
    predicted_s: float
    colltool_s: float
    error: float
    colltool_error: float


@result
class Score(Result):
    """Predictors on published measurements."""

    subject: ClassVar[str] = "score"
    predictors: tuple[ScoredPredictor, ...]
    rows: tuple[ScoreRow, ...]  # a line for each predictor and group, those of one group together
    # where a predictor is nearer than colltool, by how much, the most first
    lost: tuple[LostRow, ...]
    published: int  # how many rows there are
    sources: int  # of how many sources
    # of these, rows that colltool's own numbers were fitted to, on which it is not scored
    seen: int


def score(predictions: Sequence[AnyPath]) -> Score:
    """Score files of predictions and predictors by name.

    Args:
        predictions: each a name of :data:`PREDICTORS`, or else the path of a file, whose name without
            its suffix is then the predictor's.

    Raises:
        ColltoolError: a name twice, or a file that cannot be read as predictions.
    """
    predictors: list[ScoredPredictor] = []
    judged: dict[str, list[Judged]] = {}
    for file_or_name in predictions:
        path = os.fsdecode(file_or_name)
        name = path if path in PREDICTORS else Path(path).stem
        if name in judged:
            raise ColltoolError(
                f"'{name}' is given twice",
                argument="predictions",
                fix="name files of different tools differently",
            )
        judged[name], scored = _answers_of(name, path)
        predictors.append(scored)
    rows: list[ScoreRow] = []
    for by, group in _groups():
        rows += _rows_of_group(judged, by, group)
    published = published_rows()
    return Score(
        predictors=tuple(predictors),
        rows=tuple(rows),
        lost=tuple(_lost(judged)),
        published=len(published),
        sources=len(published_sources()),
        seen=sum(not measured.unseen for measured in published),
    )


def _answers_of(name: str, path: str) -> tuple[list[Judged], ScoredPredictor]:
    """The rows that a predictor answers, and how many these are; ``path``: the name of one of ours,
    or a file of predictions."""
    published = published_rows()
    file = None
    # a callable: a published row to its Predicted, or None where it has no answer
    answer = PREDICTORS.get(path)
    if answer is None:
        file = read_predictions(path)
        answer = file.answer
    answers = []
    for measured in with_progress(published):
        # what a price was fitted to says nothing of its error
        if name == OWN and not measured.unseen:
            continue
        predicted = answer(measured)
        if predicted is not None:
            answers.append(Judged(measured, predicted))
    missing = len(published) - len(answers)
    scored = ScoredPredictor(name, len(answers), missing, _unit(answers))
    if file is not None:
        scored = scored._replace(unknown=tuple(file.unknown.items()), unasked=file.unasked)
    return answers, scored


def machine_score(machine: str) -> list[ScoreRow]:
    """colltool's errors on rows of a shipped machine that its numbers have not seen: of all, and by
    size, scope and collective. Empty where it has no such rows."""
    judged, _ = _answers_of(OWN, OWN)
    on_machine = [entry for entry in judged if entry.row.fabric == machine]
    rows: list[ScoreRow] = []
    for by, group in _groups():
        if by not in ("vendor", "machine"):
            rows += _rows_of_group({OWN: on_machine}, by, group)
    return rows


def _unit(answers: Sequence[Judged]) -> str:
    """The unit that times are likely in, where the median ratio is near a factor of :data:`_UNITS`;
    else empty. A file without any answer was refused before."""
    middle = median(entry.ratio for entry in answers)
    for factor, unit in _UNITS.items():
        if factor / _UNIT_WITHIN <= middle <= factor * _UNIT_WITHIN:
            return unit
    return ""


def _group_of(row: PublishedRow, by: By) -> str:
    """The group of rows, by this key, that a row counts in."""
    match by:
        case "all":
            return "all"
        case "size":
            return CLASSES[size_class(row.bytes)]
        case "scope":
            return "across nodes" if row.nodes > 1 else "inside a node"
        case "vendor":
            return row.source.vendor
        case "collective":
            return row.collective
        case "machine":
            return row.fabric


def _groups() -> Iterator[tuple[By, str]]:
    """All groups, as a key and a name; sizes from small to large, others by their first row."""
    for by in get_args(By):
        names = (
            CLASSES if by == "size" else [_group_of(measured, by) for measured in published_rows()]
        )
        for group in dict.fromkeys(names):
            yield by, group


def _rows_of_group(judged: dict[str, list[Judged]], by: By, group: str) -> Iterator[ScoreRow]:
    """A line for each predictor that answers any row of a group."""
    for predictor, answers in judged.items():
        answers_here = [entry for entry in answers if _group_of(entry.row, by) == group]
        if answers_here:
            yield _score_row(predictor, by, group, answers_here)


def _score_row(name: str, by: By, group: str, answers_here: Sequence[Judged]) -> ScoreRow:
    """A predictor's errors on a group of rows, from its answers there."""
    unseen = [entry for entry in answers_here if entry.row.unseen]
    inside_interval = []  # of the answers that have an interval
    for entry in answers_here:
        inside = entry.predicted.covers(entry.row.time_s)
        if inside is not None:
            inside_interval.append(inside)
    errors = sorted(entry.error for entry in answers_here)
    colltool_median = nearer = None
    if unseen:
        colltool_median = median(abs(entry.colltool_ratio - 1) for entry in unseen)
    if name != OWN:
        nearer = _share([entry.nearer_by > 0 for entry in unseen])
    return ScoreRow(
        predictor=name,
        by=by,
        name=group,
        rows=len(answers_here),
        median=median(errors),
        # the smallest error that nine of ten do not exceed: the 23rd of 25, -(-n // 10) rounding up
        p90=errors[-(-9 * len(errors) // 10) - 1],
        bias=median(entry.ratio for entry in answers_here) - 1,
        covered=_share(inside_interval),
        own_median=colltool_median,
        nearer=nearer,
    )


def _share(yes: Sequence[bool]) -> float | None:
    """Share of the answers that are yes; None without any."""
    return sum(yes) / len(yes) if yes else None


def _lost(judged: dict[str, list[Judged]]) -> list[LostRow]:
    """Rows on which another predictor is nearer than colltool, the farthest from colltool first."""
    lost = []
    for predictor, answers in judged.items():
        for entry in answers:
            if predictor != OWN and entry.row.unseen and entry.nearer_by > 0:
                lost.append((predictor, entry))
    lost.sort(key=lambda pair: -pair[1].nearer_by)
    return [_lost_row(*pair) for pair in lost]


def _lost_row(name: str, entry: Judged) -> LostRow:
    """An answer that colltool's price is farther from than the predictor's, for the list."""
    row = entry.row
    return LostRow(
        predictor=name,
        source=row.source.source,
        machine=row.source.machine,
        ranks=row.ranks,
        collective=row.collective,
        bytes=row.bytes,
        measured_s=row.time_s,
        predicted_s=entry.predicted.time_s,
        colltool_s=row.price_s,
        error=entry.ratio - 1,
        colltool_error=entry.colltool_ratio - 1,
    )
