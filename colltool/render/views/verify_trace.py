"""``verify --trace``: every step of a schedule, with what each rank holds after it.

:func:`trace_tables` is what ``verify`` shows, :func:`trace_legend` how to read it. Nodes are the ranks,
then the switches of a schedule that computes in the network. ``trace.summed`` tells that chunks are added up, and a
chunk has ``values`` where the schedule ran on numbers, else none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.algorithms.trace import Holdings, Message, Trace, TracedChunk, TracedStep
from colltool.base.formatting import format_count
from colltool.render.blocks import Column, Columns, Table, label, number
from colltool.verification.verify import Verified

_ONE_DIGIT = 10  # ranks whose numbers have one
_NODES_A_TABLE = 4  # that fit beside the messages on 80 columns

_MOVED_CHUNKS = "0>1:2 is chunk 2 from rank 0 to rank 1"
_ADDED_CHUNKS = (
    "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own; without + it takes its place. "
)
_SUMS = f"{_ADDED_CHUNKS}2:013 is chunk 2 summed over ranks 0, 1 and 3"
_SUMS_OF_MANY = f"{_ADDED_CHUNKS}2:0-3+12 is chunk 2 summed over ranks 0 to 3 and 12"


def trace_legend(trace: Trace) -> str:
    """What the texts of messages and chunks mean."""
    if not trace.summed:
        return _MOVED_CHUNKS
    if trace.ranks <= _ONE_DIGIT:
        return _SUMS
    return _SUMS_OF_MANY


# --- tables


class _TraceRow(NamedTuple):
    """The state after a step; step 0 is the start."""

    step: int
    traced: TracedStep | None  # None at the start
    holds: Holdings  # chunks of each node

    @property
    def messages(self) -> str:
        """``0>1:2+ 1>0:0,1+``; empty at the start."""
        if self.traced is None:
            return ""
        return _messages_text(self.traced.messages)


_STEP_COLUMNS: Columns[_TraceRow] = (
    number("step_n_alpha", "n_alpha", format_count, drop=2, path="traced.n_alpha"),
    number("step_n_beta", "n_beta", format_count, drop=2, path="traced.n_beta"),
    label("messages", fold=12),
)


def trace_tables(row: Verified, trace: Trace) -> Iterator[Table]:
    """The steps of a verified row with what every node holds, some nodes to a table: a table that is
    too wide would lose some."""
    nodes = range(len(trace.start))
    for first in nodes[::_NODES_A_TABLE]:
        yield _trace_table(row, trace, nodes[first : first + _NODES_A_TABLE])


def _trace_table(row: Verified, trace: Trace, nodes: range) -> Table:
    """The steps with what some nodes hold after each; the first table also has the messages."""
    states = [_TraceRow(0, traced=None, holds=trace.start)]
    for index, step in enumerate(trace.steps, start=1):
        states.append(_TraceRow(index, step, step.holds))
    step_columns = _STEP_COLUMNS if nodes.start == 0 else ()
    holdings = (_holdings_column(trace, node) for node in nodes)
    columns: Columns[_TraceRow] = (number("step"), *step_columns, *holdings)
    return Table(
        columns,
        tuple(states),
        title=_trace_title(row, trace, nodes),
    )


def _trace_title(row: Verified, trace: Trace, nodes: range) -> str:
    """``ring, all-reduce on star8, 8 ranks: 8 chunks of M/8; ranks 0 to 3``."""
    chunks = "one chunk of M"
    if len(trace.chunk_bytes) > 1:
        sizes = sorted({f"M/{1 / size:g}" for size in trace.chunk_bytes})
        chunks = f"{len(trace.chunk_bytes)} chunks of {' and '.join(sizes)}"
    question = f"{row.primitive.label} on {row.fabric}, {row.group.label}"
    title = f"{row.algorithm}, {question}: {chunks}"
    if len(nodes) == len(trace.start):
        return title
    if len(nodes) == 1:
        return f"{title}; rank {nodes[0]}"
    return f"{title}; ranks {nodes[0]} to {nodes[-1]}"


def _holdings_column(trace: Trace, node: int) -> Column[_TraceRow]:
    """The column of what a rank, or a switch after the ranks, holds."""

    def chunks(row: _TraceRow) -> str:
        return " ".join(_held_text(chunk, trace) for chunk in row.holds[node])

    title = f"rank {node}" if node < trace.ranks else f"node {node}"
    return label(f"rank_{node}", title, get=chunks, fold=6)


# --- chunks and messages in a cell


def _held_text(chunk: TracedChunk, trace: Trace) -> str:
    """A chunk that is held, with the ranks that it is summed over, or with its numbers."""
    if trace.summed and not chunk.values:
        return f"{chunk.chunk}:{_ranks_of_sum(chunk.ranks, trace.ranks)}"
    return _chunk_text(chunk)


def _ranks_of_sum(ranks: Sequence[int], all_ranks: int) -> str:
    """The ascending ranks in a sum: ``013``; where numbers may have two digits ``0-3+12``."""
    if all_ranks <= _ONE_DIGIT:
        return "".join(map(str, ranks))
    # ranks that follow each other
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = []
    for run in runs:
        text = str(run[0])
        if len(run) > 1:
            text += f"-{run[-1]}"
        texts.append(text)
    return "+".join(texts)


def _messages_text(messages: Sequence[Message]) -> str:
    """Messages, merged by sender, receiver and whether they are added: ``0>1:2+ 1>0:0,1+``."""
    chunks_of: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        pair = f"{message.src}>{message.dst}"
        plus = "+" if message.add else ""
        chunks_of.setdefault((pair, plus), []).append(_chunk_text(message))
    return " ".join(
        f"{pair}:{','.join(chunks)}{plus}" for (pair, plus), chunks in chunks_of.items()
    )


def _chunk_text(chunk: Message | TracedChunk) -> str:
    """The number of a chunk, with its values where the run is on numbers: ``2(5)``."""
    if not chunk.values:
        return str(chunk.chunk)
    values = " ".join(f"{value:g}" for value in chunk.values)
    return f"{chunk.chunk}({values})"
