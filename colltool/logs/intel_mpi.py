"""Intel MPI Benchmarks: sizes are a rank's part where each rank has one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS
from colltool.logs.log_file import Log
from colltool.logs.records import Format
from colltool.logs.tables import LogTable, MeasuredRow, has, numbers, reader_of

_PRIMITIVES = {
    "allreduce": AR,
    "allgather": AG,
    "allgatherv": AG,
    "alltoall": A2A,
    "alltoallv": A2A,
    "bcast": BC,
    "reduce": REDUCE,
    "reduce_scatter": RS,
    "reduce_scatter_block": RS,
    "pingpong": P2P,
    "pingping": P2P,
}
_TITLE = re.compile(r"# *Benchmarking +([A-Za-z_]+)")
_RANKS = re.compile(r"# *#processes *= *(\d{1,7})")
_TIMES = ("t_avg[usec]", "t[usec]")


def _tables(log: Log) -> Iterator[LogTable]:
    """A table per benchmark and number of processes."""
    table = None
    name = ""
    column = 0
    for number, text in log.clean_lines():
        title = _TITLE.match(text)
        ranks = _RANKS.match(text)
        if title:
            name = title[1].lower()
            table = None
        elif ranks and name in _PRIMITIVES:
            primitive = _PRIMITIVES[name]
            # messages go between two, whatever was launched
            count = 2 if primitive is P2P else int(ranks[1])
            table = LogTable(primitive, count, "MPI", "Intel MPI Benchmarks", number)
            table.per_peer = primitive in (AG, A2A)
            yield table
        elif table and text.startswith("#bytes"):
            names = text.split()
            column = next((names.index(time) for time in _TIMES if time in names), 2)
        elif table:
            words = numbers(text, 3)
            if words and words[0] != "0":
                time = words[min(column, len(words) - 1)]
                table.rows.append(MeasuredRow(number, words[0], time))


FORMAT = Format(
    "Intel MPI Benchmarks",
    "Intel MPI Benchmarks ('# Benchmarking Allreduce')",
    has(re.compile(rb"# *Benchmarking +[A-Za-z_]+")),
    reader_of(_tables),
)
