"""New weights from one mesh to another: the time of a sync, and what takes it."""

from __future__ import annotations

from operator import attrgetter

from colltool.base.formatting import counted, format_bytes, format_rate, format_time
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context, on_fabric
from colltool.render.documents import Document, derived, optional
from colltool.render.intervals import within
from colltool.render.shared_documents import (
    FabricDocument,
    MachineDocument,
    assumed_by_file,
    machine_in_use,
    values_set,
)
from colltool.render.views.kernels import no_kernel_interval
from colltool.render.views.serve import ServedJobDocument
from colltool.serving.quantization import WeightFormat
from colltool.serving.reshard import Resharded, ReshardWay


def _took(way: ReshardWay) -> str:
    """Such as ``1.1 s (-41% to +70%: 9 measured syncs of this way)``."""
    off = f" ({within(way.interval, way.total_s)})" if way.interval else ""
    return f"{format_time(way.total_s)}{off}"


def _answer(result: Resharded) -> str:
    first = result.best
    sent = _sent(result)
    limit = f"The lower limit is {format_time(result.least_s)}"
    if not first.library:
        took = f"Network time: {_took(first)}, limited by {first.wire} ({first.way})"
        return f"{took}. {sent}. {limit}; loading the tensors is not included."
    took = f"A sync by {first.way} ({first.library}) takes {_took(first)}"
    sentences = [took, _decided(first, result), sent, limit]
    fastest = min(result.others, key=attrgetter("total_s"), default=first)
    if fastest.total_s < first.total_s:
        sentences.append(f"Faster: {fastest.way}, {format_time(fastest.total_s)}")
    return f"{'. '.join(sentences)}."


def _sent(result: Resharded) -> str:
    """What goes where: ``llama3-70b on dgx-h100 sends 141.1 GB from 128 ranks to 8 replicas``."""
    source = f"{result.senders} ranks"
    if result.storage_Bps is not None:
        source = f"a store of {format_rate(result.storage_Bps)}"
    size = format_bytes(result.bytes)
    if result.weights is not None:
        size += f" ({result.weights.label})"
    replicas = counted(result.receivers // result.replica, "replica")
    to = f"{replicas} of {counted(result.replica, 'rank')}"
    fabric = on_fabric(result.fabric, result.overrides)
    return f"{result.job} on {fabric} sends {size} from {source} to {to}"


def _decided(first: ReshardWay, result: Resharded) -> str:
    """What takes most of a sync, beside its bytes on the network."""
    wire = f"{format_time(first.wire_s)} on the network"
    match first.decided_by:
        case "wire":
            return f"Bytes decide: {wire}, limited by {first.wire}"
        case "tensors":
            tensors = counted(result.plain_layers, "layer")
            if result.experts:
                tensors = f"{result.experts:,} experts"
            took = f"{tensors} take {format_time(first.tensors_s)} one by one"
            return f"Tensors decide, not bytes: {took}, with {wire}"
        case "load":
            took = f"{format_time(first.load_s)} into the engine"
            return f"Loading decides, not the network: {took}, with {wire}"
    return f"Starting decides, not the network: {format_time(first.start_s)}, with {wire}"


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
_PARTS = ("wire_s", "start_s", "tensors_s", "load_s")
_WIRED = ("wire", "out_bytes", "in_bytes")
_MOST_WAYS = 3  # of a table: both fit the first screen
_OTHERS = "as engines of weights do"


def _ways(result: Resharded) -> Table:
    context_columns = context(result.overrides, job=result.job, fabric=result.fabric)
    ways = (*result.ways, *result.others)
    return Table((*context_columns, *_WAY), ways, 0)


def _blocks(result: Resharded) -> list[Block]:
    headline = Headline(_answer(result))
    table = _ways(result)
    if not result.best.library:
        return [headline, table.without(*_PARTS)]
    table = table.without(*_WIRED)
    blocks: list[Block] = [headline]
    for title, ways in (("", result.ways), (_OTHERS, result.others)):
        if ways:
            blocks.append(
                table._replace(
                    records=ways,
                    title=title,
                    first=_MOST_WAYS,
                )
            )
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
