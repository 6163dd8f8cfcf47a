"""``reshard``: new weights from the ranks of trainers to those of servers, the time of a sync, and what
takes it.

:func:`_answer` is the headline, :func:`_ways` the table. A way is a library that moves weights, or,
with an empty ``library``, the fabric's own links; all ways of a result are of one kind. ``others`` are ways that other
engines take, ``best`` is the fastest of ``ways``, the first.
"""

from __future__ import annotations

from operator import attrgetter

from colltool.base.formatting import counted, format_bytes, format_rate, format_time
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context, fabric_of
from colltool.render.documents import Document, derived, optional
from colltool.render.shared_documents import (
    FabricDocument,
    MachineDocument,
    assumed_by_file,
    machine_in_use,
    values_set,
)
from colltool.render.views.kernels import no_kernel_interval
from colltool.render.views.serve import ServedJobDocument
from colltool.render.views.serve_answer import time_text
from colltool.serving.quantization import WeightFormat
from colltool.serving.reshard import Resharded, ReshardWay


def _answer(result: Resharded) -> str:
    """The time of the best way and what decides it, what goes where, the lower limit, and a faster
    way of other engines."""
    best = result.best
    question = _question(result)
    time = time_text(best.total_s, best.interval)
    limit = f"The lower limit is {format_time(result.least_s)}"
    if not best.library:
        network = f"Network time: {time}, limited by {best.wire} ({best.way})"
        return f"{network}. {question}. {limit}; loading the tensors is not included."
    sync = f"A sync by {best.way} ({best.library}) takes {time}"
    sentences = [sync, _deciding_part(best, result), question, limit]
    fastest = min(result.others, key=attrgetter("total_s"), default=best)
    if fastest.total_s < best.total_s:
        sentences.append(f"Faster: {fastest.way}, {format_time(fastest.total_s)}")
    return f"{'. '.join(sentences)}."


def _question(result: Resharded) -> str:
    """What goes where: ``llama3-70b on dgx-h100 sends 141.1 GB (bf16) from 128 ranks to 8 replicas of
    8 ranks``."""
    source = f"{result.senders} ranks"
    if result.storage_Bps is not None:
        source = f"a store of {format_rate(result.storage_Bps)}"
    size = format_bytes(result.bytes)
    if result.weights is not None:
        size += f" ({result.weights.label})"
    replicas = counted(result.receivers // result.replica, "replica")
    receivers = f"{replicas} of {counted(result.replica, 'rank')}"
    fabric = fabric_of(result)
    return f"{result.job} on {fabric} sends {size} from {source} to {receivers}"


def _deciding_part(way: ReshardWay, result: Resharded) -> str:
    """Say what takes most of a sync: bytes on the network, tensors one by one, loading, or the start."""
    network = f"{format_time(way.wire_s)} on the network"
    match way.decided_by:
        case "wire":
            return f"Bytes decide: {network}, limited by {way.wire}"
        case "tensors":
            tensors = counted(result.plain_layers, "layer")
            if result.experts:
                tensors = f"{result.experts:,} experts"
            moving = f"{tensors} take {format_time(way.tensors_s)} one by one"
            return f"Tensors decide, not bytes: {moving}, with {network}"
        case "load":
            loading = f"{format_time(way.load_s)} into the engine"
            return f"Loading decides, not the network: {loading}, with {network}"
    return f"Starting decides, not the network: {format_time(way.start_s)}, with {network}"


_WAY: Columns[ReshardWay] = (
    label("way"),
    number("total_s", "total", format_time),
    number("wire_s", "network", format_time, 5),
    number("start_s", "start", format_time, 4),
    number("tensors_s", "tensors", format_time, 6),
    number("load_s", "load", format_time, 6),
    label("wire", "limited by", drop=1),
    number("out_bytes", "sent per sender", format_bytes, 2),
    number("in_bytes", "received per receiver", format_bytes, 3),
)
_LIBRARY_COLUMNS = ("wire_s", "start_s", "tensors_s", "load_s")  # of ways by a library
_LINK_COLUMNS = ("wire", "out_bytes", "in_bytes")  # of ways by links alone
_MOST_WAYS = 3  # rows of a table without --all: both tables fit the first screen


def _ways(result: Resharded) -> Table:
    """All ways, for CSV."""
    context_columns = context(result.overrides, job=result.job, fabric=result.fabric)
    ways = (*result.ways, *result.others)
    return Table((*context_columns, *_WAY), ways, 0)


def _blocks(result: Resharded) -> list[Block]:
    """The answer, and the ways: of links alone in one table, of libraries those asked for and those of
    others."""
    headline = Headline(_answer(result))
    table = _ways(result)
    if not result.best.library:
        return [headline, table.without(*_LIBRARY_COLUMNS)]
    table = table.without(*_LINK_COLUMNS)
    blocks: list[Block] = [headline]
    for title, ways in (("", result.ways), ("as engines of weights do", result.others)):
        if ways:
            blocks.append(table._replace(records=ways, title=title, first=_MOST_WAYS))
    return blocks


class ReshardWayDocument(Document, extends=ReshardWay):
    """A way to bring weights from trainers to servers."""

    decided_by: str = derived("decided_by")
    no_interval: str = optional(no_kernel_interval)


class ReshardDocument(ServedJobDocument, FabricDocument):
    """The ways to bring weights from trainers to servers."""

    bytes: float
    senders: int
    receivers: int
    replica: int
    weights: WeightFormat | None
    storage_Bps: float | None
    least_s: float
    ways: list[ReshardWayDocument]
    others: list[ReshardWayDocument]
    experts: int
    plain_layers: int
    set: dict[str, str] = optional(values_set)
    fabric_assumed: list[str] = optional(assumed_by_file)
    machine: MachineDocument | None = optional(machine_in_use)


VIEWS = {
    Resharded: View(
        "reshard",
        _blocks,
        ReshardDocument.of,
        _ways,
        _answer,
    ),
}
