"""all_reduce_bench of stas00/ml-engineering: a Markdown table of payload, busbw and algbw."""

from __future__ import annotations

import re

from colltool.base.formatting import parse_size
from colltool.base.primitives import AR
from colltool.logs.busbw_ratio import busbw_over_algbw, ranks_of
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import rounding_interval
from colltool.logs.records import Format, ParsedLog, UserHints
from colltool.logs.tables import LogTable, recognised_by, records_of

# "| payload |    busbw   |    algbw   |"
_SIGN = re.compile(rb"\| *payload *\| *busbw *\| *algbw *\|")
# "360.5 GBps"
_RATE = re.compile(r"(?P<GBps>[\d.]{1,20}) *GBps")


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The one table of a log; without the caller's, ranks follow from busbw/algbw."""
    table = LogTable(AR, hints.ranks, "NCCL", "all_reduce_bench", line=1)
    ratios = []
    for number, text in log.clean_lines():
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if cells[0] == "payload":
            table.line = number
        if len(cells) != 3:
            continue
        payload, *rates = cells
        busbw, algbw = map(_RATE.fullmatch, rates)
        if not busbw or not algbw or float(algbw["GBps"]) <= 0:
            continue
        table.add_rate(number, parse_size(payload), float(algbw["GBps"]) * 1e9)
        where = f"{log.file}:{number}"
        ratio = busbw_over_algbw(
            rounding_interval(algbw["GBps"]), rounding_interval(busbw["GBps"]), where
        )
        if ratio:
            ratios.append(ratio)
    if not table.ranks:
        table.ranks, _ = ranks_of(
            AR, ratios, agreed=None, source="", where=f"{log.file}:{table.line}", named=True
        )
    return records_of(log, [table], hints)


FORMAT = Format(
    "all_reduce_bench",
    "all_reduce_bench ('| payload | busbw | algbw |')",
    recognised_by(_SIGN),
    read,
)
