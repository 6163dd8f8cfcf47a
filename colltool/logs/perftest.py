"""perftest: ib_write_bw, ib_send_lat and the others, between two hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colltool.base.primitives import P2P
from colltool.base.statements import NOTHING
from colltool.logs.log_file import Log
from colltool.logs.records import Format
from colltool.logs.tables import STREAM, LogTable, MeasuredRow, has, numbers, reader_of

_SIGN = re.compile(rb"(?:RDMA_Write|RDMA_Read|Send|Atomic)[^\n]{0,20}(?:BW|Latency)[^\n]{0,20}Test")
_RATES = {"Gb/sec": 1e9 / 8, "MB/sec": 2.0**20, "MiB/sec": 2.0**20, "GB/sec": 1e9}
_AVERAGE_RATE, _AVERAGE_TIME = 3, 5  # columns


def _tables(log: Log) -> Iterator[LogTable]:
    """The one table of a log, of rates or of latencies."""
    # perftest is of verbs, but what it measures is the wire, which MPI uses as it is
    table = LogTable(P2P, 2, "MPI", "perftest", 1, nodes=2, note=STREAM)
    unit_Bps = _RATES["Gb/sec"]
    column = _AVERAGE_RATE
    for number, text in log.clean_lines():
        if text.startswith("#bytes"):
            table.line = number
            table.note = STREAM
            column = _AVERAGE_RATE
            if "usec" in text:
                table.note = NOTHING
                column = _AVERAGE_TIME
            unit_Bps = next((rate for name, rate in _RATES.items() if name in text), unit_Bps)
            continue
        words = numbers(text, 4)
        if len(words) <= column or float(words[column]) <= 0:
            continue
        if column == _AVERAGE_TIME:
            table.rows.append(MeasuredRow(number, words[0], words[column]))
        else:
            table.add_stream(number, words[0], float(words[1]), float(words[column]) * unit_Bps)
    yield table


FORMAT = Format("perftest", "perftest (ib_write_bw)", has(_SIGN), reader_of(_tables))
