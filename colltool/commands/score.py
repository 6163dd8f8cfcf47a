"""Predicted times against published measurements: :func:`score`, and ``colltool score``, which also writes
the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import remembering
from colltool.commands.command import command
from colltool.commands.options import RESULT, Out, option
from colltool.commands.output import chosen_format, write

if TYPE_CHECKING:
    from colltool.calibration.score import Score
    from colltool.commands.reading import AnyPath


@remembering()
def score(predictions: AnyPath | Sequence[AnyPath] = ("colltool",)) -> Score:
    """Score predicted times on published measurements of nccl-tests, rccl-tests and OSU.

    Args:
        predictions: CSV files with the columns ``machine``, ``ranks``, ``collective``, ``bytes``
            and ``time_us``, as ``colltool score --template`` writes; or predictors by name:
            ``colltool``, its prices made without the rows that they are held to; ``nccl``, the
            times of NCCL's tuning model; ``datasheet``, prices without measured numbers;
            ``alpha-beta``, links alone.

    Returns:
        A :class:`colltool.calibration.score.Score`; an error is |predicted/measured - 1|.

    Raises:
        ColltoolError: a file that cannot be read, or that answers nothing; says the line.
    """
    from colltool.calibration.score import score as score_predictions
    from colltool.commands.reading import paths_of

    several = paths_of(predictions, "predictions", "files or names of predictors", "aic.csv")
    return score_predictions(several)


@command(
    [
        option("predictions", default=None),
        option("template", default=False),
        RESULT,
    ],
    public=score,
)
def score_command(out: Out, predictions: list[str] | None = None, template: bool = False) -> None:
    """Score predicted times on published measurements: median error, bias, and how often intervals
    hold, by size, scope, vendor, collective and machine.

    Without a file: colltool's own prices, each made without the source of the row that it is held
    to. --template writes the questions as CSV; fill in time_us (and low_us, high_us) with any tool.

    Examples:
      colltool score
      colltool score --template -o questions.csv
      colltool score mine.csv
      colltool score colltool nccl datasheet alpha-beta mine.csv --format json
    """
    if not template:
        out.emit(score(predictions or ["colltool"]))
        return
    from colltool.calibration.predictions import template as template_csv

    if predictions:
        raise ColltoolError(
            "writes the questions and scores nothing",
            argument="template",
            fix="leave the files out",
        )
    # a terminal gets CSV too; another format, by --format or a suffix, is refused
    form = chosen_format(out.form, out.path)
    if form != "csv" and (out.form is not None or out.path is not None):
        raise ColltoolError(
            "the questions are CSV",
            argument="template",
            fix=f"{argument_text('form', 'csv')}, or -o questions.csv",
        )
    write(template_csv(), out.path)
