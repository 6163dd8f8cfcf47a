"""Predicted times of published measurements: the CSV of questions (:func:`template`), and a tool's file
of answers (:func:`read_predictions`), which :mod:`colltool.calibration.score` holds to the rows.

A *question* is what a prediction answers: a machine, ranks, a collective and a size, and by choice one
source and library. A published row may be answered by the line of any question that fits it.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from io import StringIO
from math import isfinite
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped, either, nearest
from colltool.base.files import AnyPath, read_text
from colltool.base.formatting import parse_size
from colltool.base.primitives import parse_primitive
from colltool.calibration.published import PublishedRow, published_rows

# columns of the CSV: of a question; of the template, in which the last three are empty; and those that a
# file of answers must have
_QUESTION = ("source", "machine", "hardware", "nodes", "ranks", "collective", "bytes", "library")
_TEMPLATE = (*_QUESTION, "time_us", "low_us", "high_us")
_NEEDED = ("machine", "ranks", "collective", "bytes")
# seconds of each unit that a column of times may end in: time_us, low_ms
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_FIX = either(
    shell="colltool score --template > questions.csv writes the columns",
    python="colltool.calibration.predictions.template() has the columns",
)


class Predicted(NamedTuple):
    """Seconds of a prediction, and between which the tool expects measurements; None without
    them."""

    time_s: float
    low_s: float | None = None
    high_s: float | None = None

    def covers(self, time_s: float) -> bool | None:
        """Whether a measured time is inside the interval; None without one."""
        if self.low_s is None or self.high_s is None:
            return None
        return self.low_s <= time_s <= self.high_s


class Question(NamedTuple):
    """What a line answers; ``source`` and ``library`` are empty where it answers any. ``collective``
    is colltool's name, such as ``all_reduce``."""

    machine: str
    ranks: int
    collective: str
    bytes: int
    source: str = ""
    library: str = ""


class Predictions(NamedTuple):
    """The answers of a file.

    Args:
        empty: lines without a time.
        unknown: lines of machines with no published row, by the machine's name.
        unasked: lines of known machines that no published row asks for.
    """

    answers: Mapping[Question, Predicted]
    empty: int = 0
    unknown: Mapping[str, int] = {}
    unasked: int = 0

    def answer(self, row: PublishedRow) -> Predicted | None:
        """The prediction of a row, the most specific line first. None without one."""
        for question in _questions_of(row):
            if question in self.answers:
                return self.answers[question]
        return None


def _questions_of(row: PublishedRow) -> list[Question]:
    """The questions that a row answers, the most specific first."""
    plain = Question(row.source.machine, row.ranks, row.collective, row.bytes)
    source = row.source.source
    library = row.source.library
    return [
        plain._replace(source=source, library=library),
        plain._replace(source=source),
        plain._replace(library=library),
        plain,
    ]


def template() -> str:
    """The questions as CSV, with empty columns for the answers."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_TEMPLATE)
    # in the order of _TEMPLATE
    for measured in published_rows():
        source = measured.source
        place = (source.source, source.machine, source.hardware, measured.nodes, measured.ranks)
        writer.writerow([*place, measured.collective, measured.bytes, source.library, "", "", ""])
    return out.getvalue()


def read_predictions(path: AnyPath) -> Predictions:
    """The answers of a CSV file.

    Raises:
        ColltoolError: no such columns, a number that is none or not positive, half an interval or one
            that its time is outside of, two lines for one question, no answer at all; says the
            line.
    """
    name = str(path)
    lines = csv.DictReader(StringIO(read_text(path, "matrix")), skipinitialspace=True)
    try:
        return _read(lines, name)
    except csv.Error as error:
        raise ColltoolError(
            f"no line of CSV: {error}", where=f"{name}:{lines.line_num + 1}", fix=_FIX
        ) from error


def _read(lines: csv.DictReader[str], name: str) -> Predictions:
    """The answers of the lines of a file, of whose path errors have ``name``."""
    columns = _columns(lines, name)
    machines = set()
    published_questions: set[Question] = set()
    for measured in published_rows():
        machines.add(measured.source.machine)
        published_questions.update(_questions_of(measured))
    answers: dict[Question, Predicted] = {}
    line_of: dict[Question, int] = {}
    unknown: Counter[str] = Counter()
    empty = 0
    unasked = 0
    for cells in lines:
        line = _AnswerLine(cells, columns, f"{name}:{lines.line_num}")
        predicted = line.predicted()
        if predicted is None:
            empty += 1
            continue
        question = line.question()
        if question in line_of:
            raise ColltoolError(
                f"the same question as line {line_of[question]}",
                where=line.where,
                fix="keep one of the two lines",
            )
        line_of[question] = lines.line_num
        if question.machine not in machines:
            unknown[question.machine] += 1
        elif question not in published_questions:
            unasked += 1
        else:
            answers[question] = predicted
    if not answers:
        raise _nothing_answered(name, unknown, empty, sorted(machines))
    return Predictions(answers, empty, unknown, unasked)


def _columns(lines: csv.DictReader[str], name: str) -> dict[str, str]:
    """The headings of the file by the column that each means: ``{"time_us": " Time_us"}``."""
    headings = {
        # spreadsheets write a mark of byte order before the first
        (heading or "").strip().lstrip("\ufeff").lower(): heading or ""
        for heading in lines.fieldnames or ()
    }
    missing = [column for column in _NEEDED if column not in headings]
    if not any(f"time_{unit}" in headings for unit in _SECONDS):
        missing.append("time_us")
    if missing:
        raise ColltoolError(f"no column {', '.join(missing)}", where=f"{name}:1", fix=_FIX)
    return headings


class _AnswerLine(NamedTuple):
    """A line of a file of predictions.

    Args:
        cells: texts by the file's own headings; None where the line is too short.
        columns: these headings by column, of :func:`_columns`.
        where: file and line, for errors.
    """

    cells: Mapping[str, str | None]
    columns: Mapping[str, str]
    where: str

    def text(self, column: str) -> str:
        """The text in a column; empty where the file has no such column."""
        heading = self.columns.get(column)
        return "" if heading is None else (self.cells.get(heading) or "").strip()

    def question(self) -> Question:
        """The question that the line answers."""
        try:
            collective = str(parse_primitive(self.text("collective")))
            size = round(parse_size(self.text("bytes")))
        except ColltoolError as error:
            raise ColltoolError(error.what, where=self.where, fix=error.fix) from error
        ranks = self.text("ranks")
        if not ranks.isascii() or not ranks.isdigit() or len(ranks) > 9:
            raise ColltoolError(
                f"ranks '{clipped(ranks)}' is no whole number", where=self.where, fix="write 8"
            )
        return Question(
            machine=self.text("machine"),
            ranks=int(ranks),
            collective=collective,
            bytes=size,
            source=self.text("source"),
            library=self.text("library"),
        )

    def predicted(self) -> Predicted | None:
        """The answer of the line. None where its time is empty."""
        time_s = self.seconds("time")
        low_s = self.seconds("low")
        high_s = self.seconds("high")
        if time_s is None:
            return None
        if (low_s is None) != (high_s is None):
            raise ColltoolError(
                "one end of the interval is missing",
                where=self.where,
                fix="give low and high, or neither",
            )
        answer = Predicted(time_s, low_s, high_s)
        if answer.covers(time_s) is False:
            raise ColltoolError(
                "the time is not between low and high",
                where=self.where,
                fix="low is at most the time, high at least",
            )
        return answer

    def seconds(self, column: str) -> float | None:
        """The ``time``, ``low`` or ``high`` of the line. None where it is empty, or the file has no
        such column. Of several units the first that is not empty counts."""
        for unit, factor in _SECONDS.items():
            heading = f"{column}_{unit}"
            text = self.text(heading)
            if not text:
                continue
            try:
                value = float(text)
            except ValueError:
                raise ColltoolError(
                    f"{heading} '{clipped(text)}' is no number", where=self.where, fix="write 12.5"
                ) from None
            if not isfinite(value) or value <= 0:
                raise ColltoolError(
                    f"{heading} {clipped(text)} is no time: it must be above 0",
                    where=self.where,
                    fix="leave unknown times empty",
                )
            return value * factor
        return None


def _nothing_answered(
    name: str, unknown: Mapping[str, int], empty: int, machines: list[str]
) -> ColltoolError:
    """The error for a file without an answer, by what its lines lack."""
    if unknown:
        first = next(iter(unknown))
        return ColltoolError(
            f"no published row is of machine '{clipped(first)}'",
            where=name,
            fix=f"{nearest(first, machines)} {_FIX}".strip(),
        )
    if empty:
        return ColltoolError(
            f"the time column is empty in all {empty} lines", where=name, fix="fill in time_us"
        )
    return ColltoolError("no line answers a published row", where=name, fix=_FIX)
