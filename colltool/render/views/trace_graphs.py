"""Graphs of Chakra traces, walked with a fabric's prices: what ``trace`` and ``plan`` say of them.

A graph is what one rank did, node after node: ``recorded_s`` is its time as recorded, ``priced_s`` that with prices
in place of its collectives' durations. ``kept`` are its calls that have no price and so keep their recorded
durations: (reason, how many), of which ``unpriced`` is the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from colltool.base.errors import clipped
from colltool.base.formatting import counted, format_time, size_text
from colltool.base.statements import Statement
from colltool.diagnosis.replay import Replayed, ReplayedCall
from colltool.diagnosis.trace_results import TraceComparison
from colltool.render.blocks import Block, Columns, Table, label, number
from colltool.render.dispatch import fabric_of, listed
from colltool.render.documents import Document
from colltool.render.shared_documents import mapping

_MOST_ROWS = 8  # rows of a table without --all
_MOST_NAMED = 3  # kinds of calls, or kernels, that a sentence lists
_GRAPHS: Columns[Replayed] = (
    label("file", "file", clipped, drop=2),
    number("rank"),
    number("recorded_s", "as recorded", format_time),
    number("priced_s", "with prices", format_time),
    number("priced", "priced nodes"),
    number("kept", "others", path="unpriced"),
)
_CALLS: Columns[ReplayedCall] = (
    label("primitive", "primitive", attrgetter("label")),
    number("bytes", "size", size_text),
    number("ranks"),
    number("calls"),
    number("each_s", "price", format_time),
)


def graphs_table(graphs: tuple[Replayed, ...]) -> Table:
    """A row for each graph: its time as recorded and with prices."""
    title = "graphs, as recorded and with these prices"
    return Table(_GRAPHS, graphs, title=title, first=_MOST_ROWS)


def graph_blocks(graphs: tuple[Replayed, ...]) -> list[Block]:
    """Blocks on all graphs, the calls of the slowest, and why some have no price; ``graphs`` is one at least."""
    slowest = _slowest(graphs)
    title = f"calls of the graph of {graph_name(slowest)}"
    calls = Table(_CALLS, slowest.calls, title=title, first=_MOST_ROWS)
    return [graphs_table(graphs), calls, *recorded_lines(graphs)]


def graph_name(graph: Replayed) -> str:
    """``rank 3``, or the file where it does not say the rank."""
    if graph.rank is not None:
        return f"rank {graph.rank}"
    return clipped(graph.file)


def recorded_lines(graphs: Sequence[Replayed]) -> list[Block]:
    """Why calls of graphs keep their recorded durations."""
    nodes = Counter[Statement]()
    for graph in graphs:
        nodes.update(dict(graph.kept))
    lines = [f"{reason}: {counted(count, 'node')}" for reason, count in nodes.most_common()]
    return listed("left as recorded", lines)


def graph_step(graphs: Sequence[Replayed]) -> str:
    """A sentence on the slowest graph with prices in place of its collectives' times; empty without
    graphs."""
    if not graphs:
        return ""
    slowest = _slowest(graphs)
    priced = format_time(slowest.priced_s)
    recorded = format_time(slowest.recorded_s)
    text = f"With these prices the graph of {graph_name(slowest)} takes {priced}"
    text += f" ({recorded} as recorded)"
    if slowest.unpriced:
        text += f"; {counted(slowest.unpriced, 'node')} without a price"
    return text


def prices_alone(result: TraceComparison, files: str) -> str:
    """Say what graphs hold where no call has a recorded time: the prices of calls, or why they have none.
    ``files``: how many there are, in words."""
    slowest = _slowest(result.replayed)
    fabric = fabric_of(result)
    priced = [calls for calls in slowest.calls if calls.each_s is not None]
    if not priced:
        return f"No call of {files} has a price on {fabric}: {_why_not(result, slowest)}"
    texts = []
    for calls in priced[:_MOST_NAMED]:
        size = size_text(calls.bytes)
        text = f"{calls.primitive.label} of {size} on {calls.ranks} ranks"
        price = format_time(calls.each_s or 0.0)
        if calls.calls > 1:
            text = f"{calls.calls} x {text}"
            price = f"{price} each"
        texts.append(f"{text} {price}")
    more = len(priced) - _MOST_NAMED
    if more > 0:
        texts.append(f"and {more} more kinds of calls")
    return f"Prices on {fabric}: {', '.join(texts)}. No call of {files} has a recorded time"


def _why_not(result: TraceComparison, slowest: Replayed) -> str:
    """The first reason why calls have no price, and the kernels of some of them."""
    reasons = [reason for reason, _ in slowest.kept]
    reasons += [excluded.reason for excluded in result.left_out]
    kernels = [clipped(kernel.kernel) for kernel in result.unpriced[:_MOST_NAMED]]
    if kernels:
        return f"{reasons[0]} (kernels: {', '.join(kernels)})"
    return str(reasons[0])


def _slowest(graphs: Sequence[Replayed]) -> Replayed:
    """The graph that takes longest with prices, not as recorded."""
    return max(graphs, key=attrgetter("priced_s"))


class ReplayedDocument(Document, extends=Replayed):
    """The graph of a file, with the durations as recorded and with prices."""

    kept: dict[str, int] = mapping("kept")
