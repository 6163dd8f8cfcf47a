"""CSV written by people: a row per measurement and columns by header name; any bad row is an error.

:func:`is_csv` and :func:`read_csv` are the entries; what the columns hold and how a row becomes a
record is :mod:`colltool.logs.csv_table`'s.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted
from colltool.logs.csv_table import EXAMPLE, CsvTable, column_names, is_known_column
from colltool.logs.log_file import MAX_LINE, Log
from colltool.logs.records import (
    Format,
    ParsedLog,
    Record,
    UserHints,
    one_error,
)

_MOST_ERRORS = 20  # mistakes that are listed
_MOST_KINDS = 1000  # kinds of mistakes that are counted
_MOST_ABOVE = 1000  # lines among which the header is searched
# "1,024.5" within an error
_NUMBER = re.compile(r"\d[\d.,]*")


def is_csv(log: Log) -> bool:
    """Whether the first line that is no comment names two columns that are understood."""
    _, header = _header(log)
    understood = [name for name in column_names(header) if is_known_column(name)]
    return len(understood) > 1


def read_csv(log: Log, hints: UserHints) -> ParsedLog:
    """All rows; ColltoolError with every kind of mistake otherwise."""
    header_line, header = _header(log)
    table = CsvTable(header, f"{log.file}:{header_line}", log.file, hints)
    records: list[Record] = []
    mistakes = _Mistakes(log.file)
    # all mistakes are reported at once, so that a file is corrected once
    for line, cells in _rows(log, header_line, table.separator):
        table.check_machine(cells, line)
        try:
            record = table.record(cells, line)
        except ColltoolError as error:
            mistakes.add(error, line)
            continue
        if record:
            records.append(record)
    mistakes.raise_all()
    if not records:
        raise ColltoolError(
            "no rows below the header", where=f"{log.file}:{header_line}", fix=EXAMPLE
        )
    return ParsedLog(records, table.notes)


def _header(log: Log) -> tuple[int, str]:
    """The first line that is no comment, behind its number; an empty one where all are."""
    for number, line in islice(enumerate(log.lines(), 1), _MOST_ABOVE):
        if not _is_comment(line):
            return number, line
    return 1, ""


def _rows(log: Log, header_line: int, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row below the header; ColltoolError for a line that is no
    CSV."""
    for number, line in islice(enumerate(log.lines(), 1), header_line, None):
        if _is_comment(line):
            continue
        where = f"{log.file}:{number}"
        if len(line) > MAX_LINE:
            raise ColltoolError(
                f"a line of more than {MAX_LINE} characters is not a row", where=where, fix=EXAMPLE
            )
        line = line.rstrip("\r")
        reader = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
        try:
            cells = next(reader)
        except (csv.Error, StopIteration) as error:
            raise ColltoolError(
                f"is not valid CSV: {error}", where=where, fix="a cell with quotes ends on its line"
            ) from error
        yield number, [cell.strip() for cell in cells]


def _is_comment(line: str) -> bool:
    """Whether a line is blank or begins with #."""
    text = line.lstrip()
    return not text or text.startswith("#")


class _Mistakes:
    """The first row of each kind of mistake, and how many rows have it."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.first_errors: dict[str, ColltoolError] = {}  # by kind
        self.row_counts: Counter[str] = Counter()  # by kind

    def add(self, error: ColltoolError, line: int) -> None:
        """Count the mistake of a row."""
        kind = _NUMBER.sub("0", error.what)  # quoted numbers do not tell kinds apart
        # beyond so many kinds all further ones count as the last
        if kind not in self.first_errors and len(self.first_errors) > _MOST_KINDS:
            kind = next(reversed(self.first_errors))
        if kind not in self.first_errors:
            # of the same class: a missing rank count may be stated by the caller
            self.first_errors[kind] = type(error)(
                error.what, where=f"{self.file}:{line}", fix=error.fix
            )
        self.row_counts[kind] += 1

    def raise_all(self) -> None:
        """Raise all mistakes at once, the first of each kind; nothing without any."""
        errors = []
        for kind, error in self.first_errors.items():
            what = error.what
            more = self.row_counts[kind] - 1
            if more:
                what = f"{what} (and {counted(more, 'more row')})"
            errors.append(type(error)(what, where=error.where, fix=error.fix))
        unlisted = len(errors) - _MOST_ERRORS
        if unlisted > 0:
            last = ColltoolError(f"and {unlisted} more mistakes", fix="correct these first")
            errors = [*errors[:_MOST_ERRORS], last]
        if errors:
            raise one_error(errors)


FORMAT = Format("CSV", "CSV ('collective,ranks,bytes,time_us')", is_csv, read_csv)
