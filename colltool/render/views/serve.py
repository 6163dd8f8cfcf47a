"""Serving: the network's part of a token, KV transfer, and what would change it."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import Document, derived, optional
from colltool.render.intervals import nine_in_ten, within
from colltool.render.shared_documents import (
    FabricDocument,
    MachineDocument,
    MovedNumberDocument,
    OnFabricDocument,
    machine_in_use,
    values_set,
)
from colltool.render.views.kernels import no_kernel_interval
from colltool.render.views.sensitivity import quantity
from colltool.serving.deployment import Deployment
from colltool.serving.reshard import Resharded, ReshardWay
from colltool.serving.results import (
    KvTransfer,
    Served,
    ServedChange,
    ServedOperation,
    ServedPhase,
    ServeList,
)
from colltool.serving.spread import ServedBar, ServeSpread


def _where(result: Served) -> str:
    deployment = result.deployment
    sizes = f"batch {deployment.batch}, {deployment.input} in, {deployment.output} out"
    fabric = on_fabric(result.fabric, result.overrides)
    return f"{result.job} on {fabric}, {deployment.label}, {sizes}, {result.engine}"


def _took(seconds: float, call: ServedOperation | KvTransfer | ReshardWay) -> str:
    """Such as ``14.74 us each (-13% to +15%: the kernel's own rows)``."""
    each = " each" if isinstance(call, ServedOperation) else ""
    off = f" ({within(call.interval, seconds)})" if call.interval else ""
    return f"{format_time(seconds)}{each}{off}"


def _largest_operation(phase: ServedPhase) -> ServedOperation:
    """The operation that takes most of a phase."""
    return max(phase.operations, key=lambda operation: operation.total_s)


def _answer(result: Served) -> str:
    decode = result.decode
    # a single rank sends nothing
    if not decode.network_s:
        return f"No network in a token: {_where(result)} needs one rank.{_memory(result)}"
    times = f"{format_time(decode.network_s)} of network a token"
    answer = f"{times}, {format_time(result.prefill.network_s)} a prompt: {_where(result)}."
    if result.share is not None:
        answer += f" That is {whole_percent(result.share)} of {format_time(result.tpot_s or 0.0)}."
    elif decode.floor_s:
        answer += f" Memory and FLOPs take at least {format_time(decode.floor_s)} a token."
    largest = _largest_operation(decode)
    calls = f"{format_count(largest.calls)} x {largest.operation} by {largest.kernel}"
    return f"{answer} Most of it: {calls}, {_took(largest.each_s, largest)}.{_memory(result)}"


def _memory(result: Served) -> str:
    if result.fits is not False:
        return ""
    capacity = format_bytes(result.capacity_bytes or 0)
    return f" It does not fit: {format_bytes(result.memory_bytes)} of {capacity} a rank."


class _ServedLine(NamedTuple):
    """A row of the table: an operation of decode or of prefill."""

    phase: ServedPhase
    call: ServedOperation

    @property
    def within(self) -> str:
        return nine_in_ten(self.call.interval, self.call.each_s)


_OPERATION: Columns[_ServedLine] = (
    label("phase", path="phase.name"),
    label("operation", path="call.operation"),
    label("group", "ranks", path="call.group"),
    number("bytes", "bytes", format_bytes, 3, path="call.bytes"),
    label("kernel", fold=20, path="call.kernel"),
    number("each_s", "each", format_time, 2, path="call.each_s"),
    number("calls", "calls", format_count, 1, path="call.calls"),
    number("total_s", "total", format_time, path="call.total_s"),
    number("share", "share", whole_percent, 4, path="call.share"),
    label("wire", drop=5, path="call.wire"),
    label("within", "nine in ten", drop=6),
    label("why", drop=7, path="call.why"),
    number("error", "off by", whole_percent, hidden=True, path="call.error"),
)


def _operations(result: Served) -> Table:
    records: list[_ServedLine] = []
    # decode first: its latency is what users feel
    for phase in reversed(result.phases):
        records += [_ServedLine(phase, operation) for operation in phase.operations]
    context_columns = context(
        result.overrides, job=result.job, fabric=result.fabric, engine=result.engine
    )
    return Table((*context_columns, *_OPERATION), tuple(records))


def _bounds(result: Served) -> list[str]:
    """What no kernel can beat: tokens/s by the network, the floors of both phases, and memory."""
    decode = result.decode
    lines = []
    if result.bound_tokens_s is not None:
        tokens = f"{result.bound_tokens_s:,.0f} tokens/s in all"
        a_user = f"{1 / decode.network_s:,.0f} a sequence"
        lines.append(f"bound by the network: {tokens}, {a_user}")
    for phase, what in ((decode, "a token"), (result.prefill, "a prompt")):
        if phase.floor_s is not None:
            floor = f"{format_time(phase.floor_s)} {what} by {phase.floor_by}"
            lines.append(f"floor of {phase.name}: {floor} (no kernel reaches it)")
    if result.capacity_bytes is not None:
        fits = "fits" if result.fits else "does not fit"
        memory = f"{format_bytes(result.memory_bytes)} of {format_bytes(result.capacity_bytes)}"
        lines.append(f"memory: {memory} a rank, {fits}")
    return lines


def _kv_lines(kv: KvTransfer) -> list[str]:
    sent = f"{format_bytes(kv.bytes)} a prompt over {kv.pairs} pairs by {kv.kernel}"
    lines = [f"{sent}: {_took(kv.total_s, kv)}"]
    if kv.prefill_layer_s is not None:
        layer = format_time(kv.layer_s)
        floor = f"{format_time(kv.prefill_layer_s)}, the floor of its prefill"
        if kv.hidden:
            pair = f"hides but for the last layer: {layer} a layer <= {floor}"
        else:
            pair = f"does not hide: {layer} a layer > {floor}"
        lines.append(f"layer by layer it {pair}; exposed {format_time(kv.exposed_s)}")
    if kv.hiding_nic_Bps is not None:
        lines.append(f"smallest NIC of a rank that hides it: {format_rate(kv.hiding_nic_Bps)}")
    return [*lines, *kv.notes]


def _blocks(result: Served) -> list[Block]:
    changes = (
        f"{change.change}: {format_time(change.network_s)} a token, {change.factor:.3g}x"
        for change in result.changes
    )
    return [
        Headline(_answer(result)),
        _operations(result),
        *(Lines(line, ()) for line in _bounds(result)),
        *listed("KV transfer", _kv_lines(result.kv) if result.kv else ()),
        *listed("what would change it", changes, first=5),
        *listed("notes", result.notes, first=2),
    ]


class OperationDocument(Document, extends=ServedOperation):
    """A collective operation of a step."""

    group: str
    no_interval: str = optional(no_kernel_interval)


class ServedPhaseDocument(Document, of=ServedPhase):
    """Prefill or decode."""

    name: str
    network_s: float
    floor_s: float | None
    floor_by: str | None
    tokens: int
    operations: list[OperationDocument]


class KvDocument(Document, extends=KvTransfer):
    """The transfer of a prompt's KV cache from the ranks of prefill to those of decode."""

    no_interval: str = optional(no_kernel_interval)


class ServedJobDocument(Document):
    """The job that a result is for, by its name."""

    job: str


class ServeDocument(ServedJobDocument, OnFabricDocument):
    """A deployment on a fabric."""

    engine: str
    deployment: Deployment
    phases: list[ServedPhaseDocument]
    kv: KvDocument | None
    tpot_s: float | None
    share: float | None
    bound_tokens_s: float | None
    memory_bytes: float
    capacity_bytes: float | None
    fits: bool | None
    changes: list[ServedChange]
    notes: list[str]


# --- several deployments


class _NamedServed(NamedTuple):
    """One of several deployments, by the name that it has in their table."""

    name: str
    served: Served

    @property
    def kernel(self) -> str:
        decode = self.served.decode
        return _largest_operation(decode).kernel if decode.operations else ""


_SERVED: Columns[_NamedServed] = (
    label("name", "deployment"),
    number("network_s", "network a token", format_time, path="served.decode.network_s"),
    number("floor_s", "floor", format_time, 2, path="served.decode.floor_s"),
    number("prefill_network_s", "a prompt", format_time, 1, path="served.prefill.network_s"),
    number("bound_tokens_s", "tokens/s at most", "{:,.0f}".format, 3, path="served.bound_tokens_s"),
    number("memory_bytes", "memory", format_bytes, 4, path="served.memory_bytes"),
    label("kernel", "most by", drop=5),
)


def _list_records(result: ServeList) -> list[_NamedServed]:
    return list(map(_NamedServed, result.names, result.served))


def _network_s(record: _NamedServed) -> float:
    return record.served.decode.network_s


def _list_table(result: ServeList) -> Table:
    records = _list_records(result)
    best = records.index(min(records, key=_network_s))
    first = result.served[0]
    context_columns = context(first.overrides, job=first.job, engine=first.engine)
    return Table((*context_columns, *_SERVED), tuple(records), best)


def _list_answer(result: ServeList) -> str:
    records = _list_records(result)
    # deployments of a search are ordered already
    if result.title == "side by side":
        best = min(records, key=_network_s)
        took = format_time(_network_s(best))
        where = _where(best.served)
        return f"{best.name} has the least network a token, {took}: {where}."
    took = f"{format_time(_network_s(records[0]))} of network a token"
    by = f"{took} of {result.title}, by network and floor together"
    return f"{result.names[0]}: {by}. {_where(result.served[0])}."


def _list_blocks(result: ServeList) -> list[Block]:
    refused = (f"{name}: {why}" for name, why in result.refused)
    return [
        Headline(_list_answer(result)),
        _list_table(result),
        *listed("not possible", refused, first=0),
    ]


class RefusedDeployment(NamedTuple):
    """A deployment that is not possible, and why."""

    name: str
    reason: str


class NameDocument(Document):
    """The name of a deployment."""

    name: str


class NamedServeDocument(NameDocument, ServeDocument):
    """A deployment by its name."""


def _named_documents(result: ServeList) -> tuple[dict[str, Any], ...]:
    return tuple(
        NamedServeDocument.of(record.served, name=record.name) for record in _list_records(result)
    )


class ServeListDocument(Document):
    """Deployments side by side, or the best of those that were tried."""

    title: str
    tried: int
    served: list[NamedServeDocument] = derived(_named_documents)
    refused: list[RefusedDeployment] = derived(
        lambda result: tuple(RefusedDeployment(*pair) for pair in result.refused)
    )


# --- reshard


def _reshard_answer(result: Resharded) -> str:
    first = result.best
    source = f"{result.senders} ranks"
    if result.storage_Bps is not None:
        source = f"a store of {format_rate(result.storage_Bps)}"
    fabric = on_fabric(result.fabric, result.overrides)
    sent = f"{result.job} on {fabric}, {format_bytes(result.bytes)} from {source}"
    to = f"{result.receivers // result.replica} replicas of {result.replica} ranks"
    took = f"{_took(first.total_s, first)} by {first.way}, limited by {first.wire}"
    least = f"No way takes less than {format_time(result.least_s)}."
    return f"{took}: {sent} to {to}. {least}"


_WAY: Columns[ReshardWay] = (
    label("way"),
    number("total_s", "total", format_time),
    label("wire", "limited by", drop=1),
    number("out_bytes", "out of a sender", format_bytes, 2),
    number("in_bytes", "into a receiver", format_bytes, 2),
)


def _ways(result: Resharded) -> Table:
    context_columns = context(result.overrides, job=result.job, fabric=result.fabric)
    return Table((*context_columns, *_WAY), result.ways, 0)


def _reshard_blocks(result: Resharded) -> list[Block]:
    return [Headline(_reshard_answer(result)), _ways(result)]


class ReshardWayDocument(Document, extends=ReshardWay):
    """A way to bring weights from trainers to servers."""

    no_interval: str = optional(no_kernel_interval)


class ReshardDocument(ServedJobDocument, FabricDocument):
    """The ways to bring weights from trainers to servers."""

    bytes: float
    senders: int
    receivers: int
    replica: int
    storage_Bps: float | None
    least_s: float
    ways: list[ReshardWayDocument]
    set: dict[str, str] = optional(values_set)
    machine: MachineDocument | None = optional(machine_in_use)


# --- how far uncertain numbers move it


def _spread_answer(result: ServeSpread) -> str:
    decode = result.served.decode
    ends = f"{format_time(result.p5_s)} and {format_time(result.p95_s)}"
    samples = f"90% of the samples lie between {ends}"
    took = f"{format_time(decode.network_s)} of network a token"
    answer = f"{took}; {samples}: {_where(result.served)}."
    if not result.moved or not result.moved[0].span_s:
        none = "Of the fabric's numbers none moves it: what is left is the kernels' own error."
        return f"{answer} {none}"
    most = result.moved[0]
    name = most.number.key
    low = f"{format_time(most.low_s)} at {quantity(name, most.number.low)}"
    high = f"{format_time(most.high_s)} at {quantity(name, most.number.high)}"
    return f"{answer} {name} moves it most: {low}, {high}."


_MOST_NUMBERS = 6
_MOVED: Columns[ServedBar] = (
    label("key", "number", path="number.key"),
    number("value", "now", "{:.4g}".format, path="number.value"),
    number("low", "from", "{:.4g}".format, 2, path="number.low"),
    number("high", "to", "{:.4g}".format, 2, path="number.high"),
    number("low_s", "a token from", format_time),
    number("high_s", "to", format_time),
    number("span_s", "apart", format_time, 1),
)


def _spread_table(result: ServeSpread) -> Table:
    title = "the network of a token when one number changes alone"
    moving = sum(bar.span_s > 0 for bar in result.moved)
    columns = (*context(result.served.overrides, job=result.served.job), *_MOVED)
    return Table(columns, result.moved, title=title, first=max(1, min(moving, _MOST_NUMBERS)))


def _spread_blocks(result: ServeSpread) -> list[Block]:
    return [Headline(_spread_answer(result)), _spread_table(result)]


class ServedBarDocument(MovedNumberDocument, of=ServedBar):
    """The network of a token at both ends of a number's range."""


class ServeSpreadDocument(Document):
    """The network of a token over samples of a fabric's uncertain numbers."""

    served: ServeDocument = derived(lambda result: ServeDocument.of(result.served))
    network_s: float = derived("served.decode.network_s")
    p5_s: float
    p50_s: float
    p95_s: float
    samples: int
    seed: int
    moved: list[ServedBarDocument]


VIEWS = {
    ServeSpread: View(
        "serve-spread", _spread_blocks, ServeSpreadDocument.of, _spread_table, _spread_answer
    ),
    Resharded: View("reshard", _reshard_blocks, ReshardDocument.of, _ways, _reshard_answer),
    Served: View("serve", _blocks, ServeDocument.of, _operations, _answer),
    ServeList: View("serve-list", _list_blocks, ServeListDocument.of, _list_table, _list_answer),
}
