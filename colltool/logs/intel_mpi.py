"""Intel MPI Benchmarks, versions 2.3 to 2021: IMB-MPI1, and what IMB-NBC has of the same.

A table a benchmark and number of processes (``-npmin`` makes several), whose header names its
columns:

- ``#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]`` of collectives, with ``Mbytes/sec``
  behind it for Sendrecv and Exchange; ``t[usec] Mbytes/sec`` of PingPong and PingPing;
- ``Mbytes/sec Msg/sec`` of Uniband and Biband, a stream of pairs of ranks;
- ``t_ovrl[usec] t_pure[usec] t_CPU[usec] overlap[%]`` of non-blocking collectives;
- ``Group`` before it where several groups ran at once (``-multi 1``, "Multi-" in the title), and
  ``defects`` behind it in builds that check their results.

Sizes are a rank's part where each rank has one, and the whole of a Reduce_scatter. Exchange sends
to both neighbours at once, and Barrier, Gather, Scatter, one-sided calls and files are nothing that
colltool prices: they are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.primitives import A2A, AG
from colltool.logs.collective_names import collectives_of
from colltool.logs.launch_line import Launch, Launches
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import rounding_interval
from colltool.logs.records import Format
from colltool.logs.sentences import statement
from colltool.logs.tables import STREAM, LogTable, MeasuredRow, reader_of, recognised_by, row_words

_KNOWN = (
    "Allreduce",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
    "Bcast",
    "Reduce",
    "Reduce_scatter",
    "PingPong",
    "PingPing",
    "Sendrecv",
    "Uniband",
    "Biband",
)
_BETWEEN_TWO = frozenset(("pingpong", "pingping", "uniband", "biband"))
_WAYS = {"uniband": 1, "biband": 2}  # directions in which their messages go
_WINDOW = 64  # messages in flight of Uniband and Biband
_SIGN = re.compile(rb"#[ \t]{0,20}Benchmarking[ \t]{1,20}[A-Za-z_]")
# "# Benchmarking Allreduce", "# Benchmarking Multi-Allreduce"
_TITLE = re.compile(r"# *Benchmarking +(Multi-)?([\w-]{1,60})")
# "# #processes = 16"
_RANKS = re.compile(r"# *#processes *= *(\d{1,7})")
# "# ( 4 groups of 2 processes each running simultaneous"
_GROUPS = re.compile(r"# *\( *(\d{1,7}) groups? of (\d{1,7}) processes")
# how "PingPongSpecificSource" ends, in lower case
_SOURCE = re.compile(r"(?:specific|any)source$")
# names of the column of times; the first that is there counts
_TIMES = ("t_avg[usec]", "t[usec]", "t_pure[usec]")
_RATE = "Mbytes/sec"
# where times stand in a table whose header was lost, by the number of its columns
_USUAL_TIME = {4: 2, 5: 4, 6: 4, 7: 4}
_LEAST_COLUMNS = 3  # size, repetitions and one time


class _ImbColumns(NamedTuple):
    """The places of a table's columns; None for one that it lacks."""

    size: int = 0
    time: int | None = None
    rate: int | None = None


def _tables(log: Log) -> Iterator[LogTable]:
    """A table per benchmark and number of processes, filled in by the lines that follow its title:
    each is handed out while it is empty."""
    launches = Launches()
    table = None
    columns: _ImbColumns | None = None
    for number, text in log.clean_lines():
        title = _TITLE.match(text)
        if title:
            table = _table(title[2], number)
            columns = None
            yield table
            continue
        if table is None or not text.startswith("#"):
            launches.take(text)
        if table is None:
            continue
        ranks = _RANKS.match(text)
        groups = _GROUPS.match(text)
        if ranks:
            _set_ranks(table, int(ranks[1]), launches.launch)
        elif groups:
            _set_ranks(table, int(groups[2]), launches.launch)
            table.note = statement("groups-together", groups=int(groups[1]))
        elif "#repetitions" in text:
            columns = _columns_of(text.split())
        else:
            _add_row(table, text, number, columns)


def _table(title: str, line: int) -> LogTable:
    """The empty table of a benchmark."""
    name = _SOURCE.sub("", title.lower().removesuffix("_pure"))
    known = collectives_of("imb")
    # "Iallreduce" is the non-blocking form of "Allreduce"
    blocking = name if name in known else name.removeprefix("i")
    table = LogTable(
        known.get(blocking),
        ranks=None,
        library="MPI",
        version="Intel MPI Benchmarks",
        line=line,
    )
    if table.primitive is None:
        table.unpriced = title
    elif blocking in _BETWEEN_TWO:
        # messages go between two, whatever was launched
        table.ranks = 2
    table.per_peer = table.primitive in (AG, A2A) or blocking == "reduce_scatter_block"
    if blocking in _WAYS:
        table.note = STREAM
    elif blocking != name:
        table.note = statement("non-blocking")
    table.benchmark = blocking
    return table


def _set_ranks(table: LogTable, ranks: int, launch: Launch) -> None:
    """Fill in on how many processes a table ran, and on how many hosts; of messages between two the
    processes are 2 already."""
    if table.benchmark not in _BETWEEN_TWO:
        table.ranks = ranks
        table.nodes = launch.nodes_of(ranks)
    elif table.benchmark in _WAYS:
        # pairs are of one rank of either half: on two nodes they cross, on more they may not
        table.nodes = 2 if launch.nodes_of(ranks) == 2 else None
        table.pairs = max(ranks // 2, 1)
    else:
        table.nodes = launch.nodes_of(2)


def _columns_of(names: list[str]) -> _ImbColumns:
    """The columns of a header line; none but the size where that is not named."""
    if "#bytes" not in names:
        return _ImbColumns()
    time = next((names.index(title) for title in _TIMES if title in names), None)
    rate = names.index(_RATE) if _RATE in names else None
    return _ImbColumns(names.index("#bytes"), time, rate)


def _add_row(table: LogTable, text: str, number: int, columns: _ImbColumns | None) -> None:
    """Add a line if it is a row of numbers with a size above 0."""
    words = row_words(text, _LEAST_COLUMNS)
    if not words:
        return
    if columns is None:
        columns = _ImbColumns(0, _USUAL_TIME.get(len(words)))
    if table.unpriced:
        table.rows.append(MeasuredRow(number, words[0], ""))
        return
    if len(words) <= max(columns.size, columns.time or 0, columns.rate or 0):
        return
    size = words[columns.size]
    if size == "0":
        return
    if table.benchmark in _WAYS:
        rate = rounding_interval(words[columns.rate]) if columns.rate is not None else None
        if rate is not None:
            # of a pair, one way
            rate_Bps = rate.value * 1e6 / (table.pairs * _WAYS[table.benchmark])
            table.add_stream(number, size, _WINDOW, rate_Bps)
    elif columns.time is not None:
        table.rows.append(MeasuredRow(number, size, words[columns.time]))


FORMAT = Format(
    "Intel MPI Benchmarks",
    "Intel MPI Benchmarks ('# Benchmarking Allreduce')",
    recognised_by(_SIGN),
    reader_of(_tables, _KNOWN),
    versions="2.3 to 2021",
)
