"""torchcomms: a column of algbw in GB/s for each backend, of which NCCL's is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colltool.base.formatting import parse_size
from colltool.logs.log_file import Log
from colltool.logs.printed_numbers import rounding_interval
from colltool.logs.records import Format
from colltool.logs.sentences import statement
from colltool.logs.tables import LogTable, reader_of, recognised_by

# "Size   NCCL(auto)   NCCLX(auto)"
_SIGN = re.compile(rb"Size +NCCL\(?\w*\)? +\S+")
# "64KB"
_SIZE = re.compile(r"\d+[KMG]?B")


def _tables(log: Log) -> Iterator[LogTable]:
    """Each table of a log; sizes name their unit."""
    table = None
    for number, text in log.clean_lines():
        words = text.split()
        if len(words) < 2:
            continue
        first, of_nccl, *_ = words
        if first == "Size" and of_nccl.startswith("NCCL"):
            table = LogTable(None, ranks=None, library="NCCL", version="torchcomms", line=number)
            table.note = statement("assumed-unit", column=of_nccl)
            yield table
        rate = rounding_interval(of_nccl)
        if table and _SIZE.fullmatch(first) and rate and rate.value > 0:
            # its KB are of 1,024 bytes
            size = re.sub("([KMG])B", r"\1iB", first)
            table.add_rate(number, parse_size(size), rate.value * 1e9)


FORMAT = Format(
    "torchcomms", "torchcomms ('Size NCCL(auto) ...')", recognised_by(_SIGN), reader_of(_tables)
)
