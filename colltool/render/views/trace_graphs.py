"""Graphs of Chakra traces, walked with a fabric's prices: what ``trace`` and ``plan`` say of them."""

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
from colltool.render.dispatch import listed, on_fabric
from colltool.render.documents import Document
from colltool.render.shared_documents import mapping

_MOST_ROWS = 8  # rows of a table without --all
_NAMED = 3  # kinds of calls that a sentence lists
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
    title = "graphs, as recorded and with these prices"
    return Table(_GRAPHS, graphs, title=title, first=_MOST_ROWS)


def graph_blocks(graphs: tuple[Replayed, ...]) -> list[Block]:
    """All graphs, the calls of the slowest, and why some have no price."""
    slowest = _slowest(graphs)
    title = f"calls of the graph of {graph_name(slowest)}"
    calls = Table(_CALLS, slowest.calls, title=title, first=_MOST_ROWS)
    return [graphs_table(graphs), calls, *recorded_lines(graphs)]


def graph_name(graph: Replayed) -> str:
    if graph.rank is not None:
        return f"rank {graph.rank}"
    return clipped(graph.file)


def recorded_lines(graphs: Sequence[Replayed]) -> list[Block]:
    """Why calls of graphs keep their recorded durations."""
    whys = Counter[Statement]()
    for graph in graphs:
        whys.update(dict(graph.kept))
    lines = [f"{why}: {counted(calls, 'node')}" for why, calls in whys.most_common()]
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
    """What graphs hold of whose calls no time is known: their prices, or why they have none.
    ``files``: how many there are."""
    slowest = _slowest(result.replayed)
    where = on_fabric(result.fabric, result.overrides)
    priced = [calls for calls in slowest.calls if calls.each_s is not None]
    if not priced:
        return f"No call of {files} has a price on {where}: {_why_not(result, slowest)}"
    texts = []
    for calls in priced[:_NAMED]:
        size = size_text(calls.bytes)
        what = f"{calls.primitive.label} of {size} on {calls.ranks} ranks"
        each = format_time(calls.each_s or 0.0)
        if calls.calls > 1:
            what = f"{calls.calls} x {what}"
            each = f"{each} each"
        texts.append(f"{what} {each}")
    more = len(priced) - _NAMED
    if more > 0:
        texts.append(f"and {more} more kinds of calls")
    return f"Prices on {where}: {', '.join(texts)}. No call of {files} has a recorded time"


def _why_not(result: TraceComparison, slowest: Replayed) -> str:
    """The commonest reason why calls have no price, and the kernels of some of them."""
    reasons = [reason for reason, _ in slowest.kept]
    reasons += [excluded.reason for excluded in result.left_out]
    kernels = [clipped(kernel.kernel) for kernel in result.unpriced[:_NAMED]]
    if kernels:
        return f"{reasons[0]} (kernels: {', '.join(kernels)})"
    return str(reasons[0])


def _slowest(graphs: Sequence[Replayed]) -> Replayed:
    return max(graphs, key=attrgetter("priced_s"))


class ReplayedDocument(Document, extends=Replayed):
    """The graph of a file, with the durations as recorded and with prices."""

    kept: dict[str, int] = mapping("kept")
