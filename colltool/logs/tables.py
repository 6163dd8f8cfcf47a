"""Tables of benchmarks that are one header and rows of numbers, as records.

Each row becomes a time. A bandwidth is of a stream of messages: it counts as one transfer of all of
them, from messages on that are long enough to fill the link. A format is a generator of
:class:`LogTable`, which :func:`reader_of` makes a reader: it may hand out a table first and fill it
in as it reads on, for all tables are made before the first is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.base.statements import NOTHING, Statement
from colltool.logs.busbw_ratio import SAY_RANKS, RanksNotStated
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import (
    UnusableRow,
    message_size,
    positive_time,
    rounding_interval,
)
from colltool.logs.records import (
    Note,
    ParsedLog,
    Record,
    UserHints,
    agreed_nodes,
    agreed_primitive,
    agreed_ranks,
    nothing_usable,
)
from colltool.logs.sentences import statement

STREAM = statement("stream")
FILLS = 2.0**16  # bytes of a message that fills a link
_MOST_WORDS = 20  # words of a line that is a row


class MeasuredRow(NamedTuple):
    """A row of a table as it is printed."""

    line: int
    size: str  # bytes
    time: str | float  # us as text, or seconds
    message: float = 0.0  # bytes of each message where the row is of a stream of them, else 0


@dataclass
class LogTable:
    """What a program measured in one table, as its reader fills it in."""

    primitive: Primitive | None  # None where the table does not say
    ranks: int | None  # None where the table does not say
    library: str  # as :func:`colltool.logs.series.log_library` reads it
    version: str
    line: int  # of the header
    nodes: int | None = None
    per_peer: bool = False  # sizes are what a rank has for one other
    note: Statement = NOTHING  # a reservation about every row
    dtype: str = ""
    benchmark: str = ""  # its name; in errors the version is named without one
    unpriced: str = ""  # the benchmark's name where there is no price of it, else empty
    short: int = 0  # line of its first row of messages too short to fill a link; 0 without one
    pairs: int = 1  # of ranks that share a rate
    ways: int = 1  # directions that share a rate
    rows: list[MeasuredRow] = field(default_factory=list)

    def add_rate(self, line: int, size: float, rate_Bps: float, message: float = 0.0) -> None:
        """Add a transfer of ``size`` bytes at a rate, of a stream of messages of ``message``
        bytes."""
        self.rows.append(MeasuredRow(line, f"{size:.0f}", size / rate_Bps, message))

    def add_stream(self, line: int, size: str, count: float, rate_Bps: float) -> None:
        """Add a stream of ``count`` messages of ``size`` bytes, unless they are too short to fill a
        link."""
        message = float(size)
        if message >= FILLS and rate_Bps > 0:
            self.add_rate(line, message * count, rate_Bps, message)
        else:
            self.short = self.short or line


def records_of(
    log: Log, tables: Iterable[LogTable], hints: UserHints, known: Sequence[str] = ()
) -> ParsedLog:
    """Records of all tables.

    Args:
        known: names of the benchmarks that are read, for errors.

    Raises:
        ColltoolError: no row is usable.
    """
    records: list[Record] = []
    notes: list[Note] = []
    unpriced: dict[str, LogTable] = {}  # the first table of each benchmark without a price
    short = 0  # the line of a message too short to fill a link
    for table in tables:
        short = short or table.short
        if table.unpriced:
            unpriced.setdefault(table.unpriced, table)
            reason = statement("no-price", name=table.unpriced)
            notes += [Note(reason, log.file, line) for line, *_ in table.rows]
        elif table.rows:
            add_records(table, log.file, hints, records, notes)
    if records:
        return ParsedLog(records, notes)
    if unpriced:
        first = next(iter(unpriced.values()))
        raise ColltoolError(
            f"{first.version}: there is no price of {' and '.join(unpriced)}",
            where=f"{log.file}:{first.line}",
            fix=f"read are: {', '.join(known)}",
        )
    if short:
        raise ColltoolError(
            "a table without usable rows: messages below 64 KiB do not fill a link, so their rate"
            " is no bandwidth",
            where=f"{log.file}:{short}",
            fix="measure sizes from 64 KiB on, or latencies",
        )
    if notes:
        raise nothing_usable(
            f"a table without usable rows: {notes[0].reason}",
            notes,
            notes[0].where,
            "measure it again",
        )
    raise ColltoolError(
        "a table without usable rows",
        where=f"{log.file}:1",
        fix="the run was cut short; run it again",
    )


def add_records(
    table: LogTable, file: str, hints: UserHints, records: list[Record], notes: list[Note]
) -> None:
    """Add a table's records, and notes on rows that cannot be used or are doubted; ColltoolError
    where neither table nor caller says the collective or the ranks, or they differ."""
    where = f"{file}:{table.line}"
    primitive = agreed_primitive(table.primitive, hints, where)
    if primitive is None:
        raise ColltoolError(
            "the table does not say which collective it is",
            where=where,
            fix=f"say it: {argument_text('primitive')}",
        )
    ranks = agreed_ranks(table.ranks, hints, where)
    if ranks is None:
        raise RanksNotStated(
            f"{table.benchmark or table.version} does not say on how many ranks it ran",
            where=where,
            fix=SAY_RANKS,
        )
    nodes = agreed_nodes(table.nodes, hints, where)
    # a size is M, the bytes that a rank has for all others together
    parts = ranks if table.per_peer else 1
    for measured in table.rows:
        try:
            size = message_size(measured.size) * parts
            seconds = measured.time
            if isinstance(seconds, str):
                # us
                seconds = positive_time(seconds).value / 1e6
        except UnusableRow as error:
            notes.append(Note(error.reason, file, measured.line))
            continue
        if table.note:
            notes.append(Note(table.note, file, measured.line, used=True))
        records.append(
            Record(
                primitive,
                ranks,
                nodes,
                size,
                seconds,
                table.dtype,
                library=table.library,
                version=table.version,
                file=file,
                line=measured.line,
                message=measured.message,
            )
        )


def reader_of(
    tables: Callable[[Log], Iterator[LogTable]], known: Sequence[str] = ()
) -> Callable[[Log, UserHints], ParsedLog]:
    """The reader of a format, by a generator of its tables that needs no hints; ``known`` as in
    :func:`records_of`."""
    return lambda log, hints: records_of(log, list(tables(log)), hints, known)


def recognised_by(sign: re.Pattern[bytes]) -> Callable[[Log], bool]:
    """The test of a format by a pattern that stands anywhere in its logs."""
    return lambda log: sign.search(log.content) is not None


def row_words(text: str, least: int) -> list[str]:
    """The words of a row that begins with ``least`` numbers; empty for other lines."""
    words = text.split(None, _MOST_WORDS)
    if len(words) < least or not all(map(rounding_interval, words[:least])):
        return []
    return words
