"""ucc_perftest of UCC: a header of settings, and a row a size with the average, least and most time
of all ranks.

``-F`` adds bandwidths, by whose ratio to size/time the number of ranks follows; without it the
launch line or the caller says it. Sizes are count x type of what a rank sends: of an all-gather its
part, of an all-to-all its part for each other in versions up to 1.3, and all of it in later ones,
which close with "Total time". ``-c`` takes collectives without a price (barrier, gather, scatter)
and operations without communication (memcpy, reducedt): they are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from colltool.base.primitives import A2A, AG, AR, RS
from colltool.logs.busbw_ratio import RowRange, busbw_over_algbw, ranks_of
from colltool.logs.collective_names import collectives_of
from colltool.logs.launch_line import Launches
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import RoundingInterval, rounding_interval
from colltool.logs.records import Format, ParsedLog, UserHints
from colltool.logs.tables import LogTable, MeasuredRow, records_of, row_words

# "       Count        Size                Time, us"
_SIGN = re.compile(rb"Count[ \t]{1,40}Size[ \t]{1,40}Time, us")
_SETTINGS = (b"Collective:", b"Memory type:")
# "Collective:             Allreduce", "Memory type:            cuda"
_SETTING = re.compile(r"(?P<name>Collective|Memory type|Datatype): *(?P<value>\S.{0,60})")
_KNOWN = ("allreduce", "allgather", "alltoall", "bcast", "reduce", "reduce_scatter")
_SENDS_ALL = (b"Total time:", b"Bus Bandwidth")  # of versions that print the whole of an all-to-all
# places of columns: count, size, then average, least and most of the time, then of the bandwidth
_SIZE, _TIME, _BANDWIDTH = 1, 2, 5


def read(log: Log, hints: UserHints) -> ParsedLog:
    """All tables of a log; ColltoolError where no row is usable."""
    return records_of(log, list(_tables(log, hints)), hints, _KNOWN)


def _tables(log: Log, hints: UserHints) -> Iterator[LogTable]:
    """A table per collective; one without a collective's name for rows above the first name."""
    launches = Launches()
    sends_all = any(words in log.content for words in _SENDS_ALL)
    table = LogTable(hints.primitive, ranks=None, library="UCC", version="ucc_perftest", line=1)
    ratios: list[RowRange] = []
    for number, text in log.clean_lines():
        setting = _SETTING.match(text)
        if setting is None:
            launches.take(text)
            _add_row(table, ratios, text, number, log.file)
            continue
        value = setting["value"].strip()
        if setting["name"] == "Collective":
            yield _with_ranks(table, ratios, launches, hints, log.file)
            ratios = []
            table = _table(value, number, sends_all)
        elif setting["name"] == "Datatype":
            table.dtype = value
        elif "host" in value.lower():
            table.library = "MPI"  # messages of hosts, without kernels
    yield _with_ranks(table, ratios, launches, hints, log.file)


def _table(name: str, line: int, sends_all: bool) -> LogTable:
    """The empty table of a collective."""
    primitive = collectives_of("ucc").get(re.sub(r"[\s_-]", "", name).lower())
    table = LogTable(primitive, ranks=None, library="UCC", version="ucc_perftest", line=line)
    if primitive is None:
        table.unpriced = name
    table.per_peer = primitive is AG or (primitive is A2A and not sends_all)
    return table


def _add_row(table: LogTable, ratios: list[RowRange], text: str, number: int, file: str) -> None:
    """Add a line to the table if it is a row of numbers, and to ``ratios`` what its bandwidth says of
    the ranks."""
    words = text.split()
    # such as a barrier, which has no size
    if table.unpriced and len(words) > _TIME and words[0] == "N/A":
        table.rows.append(MeasuredRow(number, "1", words[_TIME]))
        return
    words = row_words(text, _BANDWIDTH)
    if not words:
        return
    table.rows.append(MeasuredRow(number, words[_SIZE], words[_TIME]))
    if len(words) <= _BANDWIDTH or table.primitive is None:
        return
    size = rounding_interval(words[_SIZE])
    time = rounding_interval(words[_TIME])
    busbw = rounding_interval(words[_BANDWIDTH])
    if size is None or time is None or time.low <= 0:
        return
    # bytes over us are MB/s; the rate is open by the same share as the time
    algbw = RoundingInterval(
        size.value / time.value / 1e3,
        size.value * time.half_digit / time.value**2 / 1e3,
    )
    ratio = busbw_over_algbw(algbw, busbw, f"{file}:{number}")
    if ratio:
        ratios.append(ratio)


def _with_ranks(
    table: LogTable, ratios: list[RowRange], launches: Launches, hints: UserHints, file: str
) -> LogTable:
    """A table with its ranks by the launch line; where neither that nor the caller says them, by
    its bandwidths."""
    launch = launches.launch
    table.ranks = launch.ranks
    table.nodes = launch.nodes_of(launch.ranks)
    is_unknown = not table.ranks and hints.ranks is None
    if is_unknown and ratios and table.primitive in (AR, A2A, AG, RS):
        if table.per_peer:
            # bandwidth over what a rank has for one other is n - 1: x / (x + 1) is (n - 1) / n
            ratios = [
                RowRange(row.low / (row.low + 1), row.high / (row.high + 1), row.where)
                for row in ratios
            ]
        table.ranks, _ = ranks_of(
            table.primitive,
            ratios,
            agreed=None,
            source="",
            where=f"{file}:{table.line}",
            named=True,
        )
    return table


FORMAT = Format(
    "ucc_perftest",
    "ucc_perftest ('Collective: Allreduce')",
    lambda log: log.contains(*_SETTINGS) or _SIGN.search(log.content) is not None,
    read,
    versions="1.0 to 1.6",
)
