"""perftest: ib_write_bw, ib_send_bw, ib_read_bw, their ``_lat``, raw_ethernet, between two hosts.

Columns are found by their names, in every order and with every option that adds some (``-D``,
``--report-per-port``, ``--cpu_util``, ``-a``, service levels): ``#bytes``, ``#iterations``, ``BW
average[...]`` in MB/sec (2^20 bytes, also written MiB/sec) or by ``--report_gbits`` Gb/sec,
``t_avg[usec]``. The older ``ib_*_lat`` without an average give ``t_typical``. A bidirectional rate
is the sum of both directions. ``--out_json`` writes ``BW_average`` in either unit, which MsgRate
beside it tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from colltool.base.primitives import P2P
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import rounding_interval
from colltool.logs.records import Format
from colltool.logs.sentences import statement
from colltool.logs.tables import STREAM, LogTable, MeasuredRow, reader_of, row_words

# a title without its table counts, too: a test that failed
_SIGN = re.compile(
    rb"(?:RDMA_Write|RDMA_Read|Send|Atomic|Raw Ethernet)[^\n]{0,40}(?:BW|Latency)[^\n]{0,20}Test"
)
# "RDMA_Write Bidirectional BW Test"
_TITLE = re.compile(r"[A-Z][\w -]{1,50}(?:BW|Latency)[\w -]{0,20}Test")
# "#bytes  #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]", "99% percentile[usec]"
_COLUMN = re.compile(
    r"#\w+|BW [\w ]+?\[[^\]]+\]|MsgRate[\w ]*\[\w+\]|[\d.]+% percentile\[\w+\]|tps average|[\w.]+\[[^\]]+\]"
)
# "BW average[Gb/sec]"
_UNIT = re.compile(r"\[([^\]]+)\]")
_RATES_Bps = {
    "Gb/sec": 1e9 / 8,
    "Gbps": 1e9 / 8,
    "MB/sec": 2.0**20,
    "MiB/sec": 2.0**20,
    "GB/sec": 1e9,
    "GiB/sec": 2.0**30,
}
_RATE = "BW average"
# names of the column of times; the first that is there counts
_TIMES = ("t_avg[usec]", "t_typical[usec]")
_BYTES, _ITERATIONS = "#bytes", "#iterations"
# columns of rows without a header
_USUAL = ("#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]")
# "MsgSize": 65536, or without quotes MsgSize: 65536
_JSON = re.compile(r'"?(\w{1,30})"?\s{0,9}:\s{0,9}"?([\d.eE+]{1,30})')
# { "MsgSize": 65536, "n_iterations": 5000, "BW_average": 391.9, ... }
_RESULT = re.compile(r"\{[^{}]{0,2000}?MsgSize[^{}]{0,2000}\}")
# share by which a rate in MiB/s may miss what MsgRate says; one in Gb/s, taken for such, misses 0.99
_CONFIRMS = 0.5


class _PerftestColumns(NamedTuple):
    """The places of the columns that count, None for one that a table lacks; and the unit of a
    rate, 0 if it is unknown."""

    size: int
    iterations: int
    rate: int | None
    time: int | None
    unit_Bps: float


def recognises(log: Log) -> bool:
    """Whether a log has a title, a table or a JSON result of perftest."""
    # looking for words is far cheaper than the pattern
    if log.contains(b"#bytes", b"#iterations") or log.contains(b"MsgSize", b"n_iterations"):
        return True
    return log.contains(b" Test") and _SIGN.search(log.content) is not None


def _tables(log: Log) -> Iterator[LogTable]:
    """A table per test, handed out while it is empty and filled in by the lines that follow; the
    first has the rows that stand above any title."""
    if b"MsgSize" in log.content and b"{" in log.content:
        yield _json_table(log)
        return
    table = _table("", 1)
    columns = _columns_of(_USUAL)
    yield table
    for number, text in log.clean_lines():
        if "Test" in text and _TITLE.search(text):
            table = _table(text, number)
            yield table
        elif text.startswith(_BYTES):
            columns = _columns_of(_COLUMN.findall(text))
        else:
            _add_row(table, text, number, columns)


def _table(title: str, line: int) -> LogTable:
    """The empty table of a test."""
    # perftest is of verbs, but what it measures is the wire, which MPI uses as it is
    table = LogTable(P2P, 2, "MPI", "perftest", line, nodes=2)
    if "Atomic" in title:
        table.unpriced = "atomic operations"
    if "Read" in title and "Latency" in title:
        table.note = statement("round-trip")
    table.ways = 2 if "Bidirectional" in title else 1
    return table


def _columns_of(names: list[str] | tuple[str, ...]) -> _PerftestColumns:
    """The columns of a header line; the first two where size and iterations are not named."""
    places = {name: place for place, name in enumerate(names)}
    rate = next((place for title, place in places.items() if title.startswith(_RATE)), None)
    unit = _UNIT.search(names[rate]) if rate is not None else None
    time = next((places[title] for title in _TIMES if title in places), None)
    return _PerftestColumns(
        places.get(_BYTES, 0),
        places.get(_ITERATIONS, 1),
        rate,
        time,
        _RATES_Bps.get(unit[1], 0.0) if unit else 0.0,
    )


def _add_row(table: LogTable, text: str, number: int, columns: _PerftestColumns) -> None:
    """Add a line if it is a row of numbers."""
    words = row_words(text, 3)
    place = columns.time if columns.rate is None else columns.rate
    if not words or place is None or len(words) <= place:
        return
    value = rounding_interval(words[place])
    count = rounding_interval(words[columns.iterations])
    if value is None or value.value <= 0 or count is None:
        return
    if columns.rate is None:
        table.rows.append(MeasuredRow(number, words[columns.size], words[place]))
        return
    table.note = STREAM
    rate_Bps = value.value * columns.unit_Bps / table.ways
    table.add_stream(number, words[columns.size], max(count.value, 1.0), rate_Bps)


def _json_table(log: Log) -> LogTable:
    """The results of ``--out_json`` as one table; older versions write it without quotes."""
    text = log.text()
    table = _table(" ".join(re.findall(r'test"?\s{0,9}:\s{0,9}"?([\w -]{1,60})', text)), 1)
    for match in _RESULT.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        values: dict[str, float] = {}
        for name, printed in _JSON.findall(match[0]):
            value = rounding_interval(printed)
            if value is not None:
                values[name] = value.value
        size = values.get("MsgSize", 0.0)
        if values.get("BW_average"):
            table.note = STREAM
            rate_Bps = _rate_of(values, size) / table.ways
            table.add_stream(number, f"{size:.0f}", max(values.get("n_iterations", 1), 1), rate_Bps)
        elif values.get("t_avg"):
            table.rows.append(MeasuredRow(number, f"{size:.0f}", values["t_avg"] / 1e6))
    return table


def _rate_of(values: Mapping[str, float], size: float) -> float:
    """The rate of a JSON result in bytes/s: in MiB/s where its rate of messages confirms that, else
    in Gb/s."""
    rate = values["BW_average"]
    passed_Bps = values.get("MsgRate", 0.0) * 1e6 * size
    if passed_Bps > 0 and abs(rate * 2.0**20 / passed_Bps - 1) < _CONFIRMS:
        return rate * 2.0**20
    return rate * _RATES_Bps["Gb/sec"]


_KNOWN = ("writes, reads and sends, by bandwidth (from 64 KiB on) and by latency",)
FORMAT = Format("perftest", "perftest (ib_write_bw)", recognises, reader_of(_tables, _KNOWN))
