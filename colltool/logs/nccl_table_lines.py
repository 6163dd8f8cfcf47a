"""Lines of the tables that nccl-tests prints: the header, and rows, of which one may be broken into
pieces by what other processes print.

:func:`columns_of` reads a header, :func:`row_head` tells a row, and :class:`PartialRow` puts its
pieces together; :mod:`colltool.logs.nccl_tests_text` calls them line by line.
"""

from __future__ import annotations

import re

from colltool.base.errors import ColltoolError
from colltool.logs.nccl_table import IN, OUT, Columns, TextRow
from colltool.logs.printed_numbers import UnusableRow, rounding_interval

# columns that begin a half
_TIMES = ("time", "cputime")
# columns behind the halves
_AFTER_THE_HALVES = ("timestamp", "algo", "proto", "nchannels")
# "     1048576        262144     float     sum      -1    45.12   23.24   43.58      0"
_ROW = re.compile(r"(?:^|\s)(\d+)\s+\d+\s+[a-z]\w*(?=\s|$)")
# "[0]" between the cells of a row
_TAG = re.compile(r"\[\d{1,5}\](?=\s|$)")
# printed into the line of a row that was not finished: who says it, then what
_ERROR = re.compile(
    r"(?:[\w.-]+: )?(?:\.\. )?(?:Test (?:NCCL |CUDA |HIP )?[Ff]ailure|NCCL failure|Cuda failure|CUDA error|HIP error"
    r"|terminate called|Segmentation fault|Bus error|Killed|\*\*\* |slurmstepd|srun: |mpirun|Traceback"
    r"|\[[\w.-]+:\d+\] )"
)
_MOST_QUOTED = 160  # characters of an error that are quoted
# "#       (B)    (elements)                               (ms)  (GB/s)  (GB/s)"
_OTHER_UNIT = re.compile(r"\((ms|s|ns)\)")
_AGAIN = "measure again with a current nccl-tests"


def untagged(text: str) -> str:
    """A line without the [0] that a launcher puts before each piece that a rank printed, also
    between the cells of a row; lines that list ranks are left as they are."""
    return _TAG.sub(" ", text) if "]" in text and "Rank" not in text else text


def columns_of(text: str, above: str, line: int, file: str) -> Columns | None:
    """The columns of a table's header line; None for any other line.

    ``#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong``

    Args:
        above: the line before, which labels the halves.
        line: number of the header.

    Raises:
        ColltoolError: a table whose times are too coarse.
    """
    if "algbw" not in text:
        return None
    words = [word.lstrip("#") for word in text.split()]
    if "bytes" in words and "time" in words and "size" not in words:
        raise ColltoolError(
            "a table of nccl-tests 2.0 or older, whose times are in ms, rounded to 1 us",
            where=f"{file}:{line}",
            fix=_AGAIN,
        )
    if "size" not in words:
        return None
    names = tuple(filter(None, words[words.index("size") :]))
    starts = tuple(place for place, name in enumerate(names) if name in _TIMES)
    if names[:3] != ("size", "count", "type") or len(starts) not in (1, 2):
        return None
    labels: tuple[str, ...] = (OUT, IN)
    if len(starts) == 2:
        end = starts[1]
    else:
        end = _end_of_halves(names)
        labels = (IN,) if IN in above and OUT not in above else (OUT,)
    return Columns(
        line,
        names,
        labels,
        starts,
        width=end - starts[0],
        values=len(names) + names.count("timestamp"),
        without_redop="redop" in names,
    )


def _end_of_halves(names: tuple[str, ...]) -> int:
    """Where the columns behind the halves begin."""
    for place, name in enumerate(names):
        if name in _AFTER_THE_HALVES:
            return place
    return len(names)


def check_unit(text: str, line: int, file: str) -> None:
    """Refuse a table whose times are not in us, by the line of units below the names."""
    unit = _OTHER_UNIT.search(text.partition("(B)")[2])
    if unit:
        raise ColltoolError(f"times in {unit[1]}, not us", where=f"{file}:{line}", fix=_AGAIN)


def row_head(text: str) -> str | None:
    """A row, or its beginning, from the size on; None for other lines."""
    head = _ROW.search(text)
    if head is None or "#" in text[: head.start(1)]:
        return None
    return text[head.start(1) :]


def _cells_and_error(text: str, columns: Columns) -> tuple[str, str]:
    """The cells of a row, and the error that a process printed into its line, empty without one."""
    error = _ERROR.search(text)
    if error is None:
        return text, ""
    # words of the columns before the times are no error's; two of these, redop and root, may lack
    if len(text[: error.start()].split()) < columns.starts[0] - 2:
        return text, ""
    return text[: error.start()], text[error.start() :].strip()[:_MOST_QUOTED]


class PartialRow:
    """A row as far as it was read: NCCL's messages may break it in the middle, and the rest follows
    on a later line.

    Attributes:
        line: where it begins.
        text: its cells so far; ``missing``: how many lack, negative for too many.
        error: printed into its line by a process; empty without one.
        is_joined: it has pieces of several lines.
    """

    def __init__(self, columns: Columns, line: int, head: str) -> None:
        self.columns = columns
        self.line = line
        self.text, self.error = _cells_and_error(head, columns)
        self.is_joined = False
        self.missing = columns.values - len(columns.words(self.text))

    def add(self, text: str) -> bool:
        """Add a line if it is the next piece of the row: numbers, no more than are missing.

        Returns:
            Whether it is.
        """
        words = text.split(None, max(self.missing, 0))
        if not words or len(words) > self.missing:
            return False
        if words[0] != "N/A" and not rounding_interval(words[0]):
            return False
        self.text += f" {' '.join(words)}"
        self.missing -= len(words)
        self.is_joined = True
        return True

    def row(self) -> TextRow:
        """The row; UnusableRow where it has too few cells or too many, or an error ended it."""
        if self.error and self.missing:
            raise UnusableRow("run-failed", error=self.error)
        if self.missing < 0:
            raise UnusableRow("too-many-values")
        # a whole half may be missing: one of the two was not measured
        one_half = len(self.columns.starts) == 2 and self.missing == self.columns.width
        if self.missing and not one_half:
            raise UnusableRow("truncated")
        return TextRow(self.line, self.text, self.columns, self.is_joined)
