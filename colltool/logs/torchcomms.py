"""torchcomms: a column of algbw in GB/s for each backend, of which NCCL's is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colltool.base.formatting import parse_size
from colltool.logs.busbw_ratio import rounding_interval
from colltool.logs.log_file import Log
from colltool.logs.records import Format
from colltool.logs.sentences import statement
from colltool.logs.tables import LogTable, has, reader_of

_SIGN = re.compile(rb"Size +NCCL\(?\w*\)? +\S+")
_SIZE = re.compile(r"(\d+)([KMG]?)B")


def _tables(log: Log) -> Iterator[LogTable]:
    """The table of a log, whose size column names a unit."""
    table = None
    for number, text in log.clean_lines():
        words = text.split()
        if len(words) < 2:
            continue
        if words[0] == "Size" and words[1].startswith("NCCL"):
            table = LogTable(None, ranks=None, library="NCCL", version="torchcomms", line=number)
            table.note = statement("assumed-unit", column=words[1])
            yield table
        size = _SIZE.fullmatch(words[0])
        rate = rounding_interval(words[1])
        if table and size and rate and rate.value > 0:
            # its KB are of 1,024 bytes
            binary = f"{size[1]}{size[2]}iB" if size[2] else words[0]
            table.add_rate(number, parse_size(binary), rate.value * 1e9)


FORMAT = Format("torchcomms", "torchcomms ('Size NCCL(auto) ...')", has(_SIGN), reader_of(_tables))
