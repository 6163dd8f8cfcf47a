"""Predicted times of published measurements: the CSV of questions, and a tool's file of answers."""

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

_QUESTION = ("source", "machine", "hardware", "nodes", "ranks", "collective", "bytes", "library")
_TEMPLATE = (*_QUESTION, "time_us", "low_us", "high_us")
_NEEDED = ("machine", "ranks", "collective", "bytes")
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
        """Whether a measurement is inside; None without an interval."""
        if self.low_s is None or self.high_s is None:
            return None
        return self.low_s <= time_s <= self.high_s


class Question(NamedTuple):
    """What a line answers; ``source`` and ``library`` are empty where it answers any."""

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
        for asked in _questions_of(row):
            if asked in self.answers:
                return self.answers[asked]
        return None


def _questions_of(row: PublishedRow) -> list[Question]:
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
    for measured in published_rows():
        told = measured.source
        question = (told.source, told.machine, told.hardware, measured.nodes, measured.ranks)
        writer.writerow([*question, measured.collective, measured.bytes, told.library, "", "", ""])
    return out.getvalue()


def read_predictions(path: AnyPath) -> Predictions:
    """The answers of a CSV file.

    Raises:
        ColltoolError: no such columns, a number that is none or not positive, an interval without
            its time, two lines for one question; says the line.
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
    """The answers of the lines of a file."""
    columns = _columns(lines, name)
    machines = set()
    asked: set[Question] = set()
    for measured in published_rows():
        machines.add(measured.source.machine)
        asked.update(_questions_of(measured))
    answers: dict[Question, Predicted] = {}
    line_of: dict[Question, int] = {}
    unknown: Counter[str] = Counter()
    empty = 0
    unasked = 0
    for cells in lines:
        line = _AnswerLine(cells, columns, f"{name}:{lines.line_num}")
        found = line.predicted()
        if found is None:
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
        elif question not in asked:
            unasked += 1
        else:
            answers[question] = found
    if not answers:
        raise _nothing_answered(name, unknown, empty, sorted(machines))
    return Predictions(answers, empty, unknown, unasked)


def _columns(lines: csv.DictReader[str], name: str) -> dict[str, str]:
    """The columns of the file by what they are; of times with the unit: ``time_us``."""
    given = {
        (heading or "").strip().lstrip("\ufeff").lower(): heading or ""
        for heading in lines.fieldnames or ()
    }
    missing = [column for column in _NEEDED if column not in given]
    if not any(f"time_{unit}" in given for unit in _SECONDS):
        missing.append("time_us")
    if missing:
        raise ColltoolError(f"no column {', '.join(missing)}", where=f"{name}:1", fix=_FIX)
    return given


class _AnswerLine(NamedTuple):
    """A line of a file of predictions."""

    cells: Mapping[str, str | None]
    columns: Mapping[str, str]
    where: str

    def text(self, column: str) -> str:
        heading = self.columns.get(column)
        return "" if heading is None else (self.cells.get(heading) or "").strip()

    def question(self) -> Question:
        """The question that a line of predictions answers."""
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
            self.text("machine"),
            int(ranks),
            collective,
            size,
            self.text("source"),
            self.text("library"),
        )

    def predicted(self) -> Predicted | None:
        """None where the time is empty."""
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
        if low_s is not None and high_s is not None and not low_s <= time_s <= high_s:
            raise ColltoolError(
                "the time is not between low and high",
                where=self.where,
                fix="low is at most the time, high at least",
            )
        return Predicted(time_s, low_s, high_s)

    def seconds(self, column: str) -> float | None:
        """A time of the line. None where it is empty, or the file has no such column."""
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
