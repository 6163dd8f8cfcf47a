"""Serving: tokens/s at most, the network's part of them, KV transfer, and what would change it.

Read from :data:`VIEWS`, at the end: one deployment (:func:`_answer`, :func:`_blocks`), several
(``_list_*``) and one under other numbers (``_spread_*``) follow each other, each with its
documents behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.base.errors import argument_text, either, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import IntervalDocument, nine_in_ten, within
from colltool.render.shared_documents import (
    MovedNumberDocument,
    OnFabricDocument,
)
from colltool.render.views.kernels import no_kernel_interval, warnings_first, without_warnings
from colltool.render.views.sensitivity import quantity
from colltool.serving.deployment import Deployment
from colltool.serving.quantization import WeightFormat
from colltool.serving.results import (
    KvTransfer,
    Served,
    ServedChange,
    ServedOperation,
    ServedPhase,
    ServeList,
)
from colltool.serving.spread import ServedBar, ServeSpread

ANY = "all"
"""The library of a fabric that names none."""

# what a phase makes
_STEP = {
    "decode": "token",
    "prefill": "prefill",
}


def _where(result: Served) -> str:
    """Such as ``hgx-h200, tp 8, batch 64, 4096 in, 1024 out, vllm@0.24.0, weights: bf16``."""
    deployment = result.deployment
    sizes = f"batch {deployment.batch}, {deployment.input} in, {deployment.output} out"
    fabric = on_fabric(result.fabric, result.overrides)
    parts = [fabric, deployment.label, sizes, result.engine, result.weights.label]
    if result.mode == "eager":
        parts.append(result.mode)
    # of a fabric without a library any algorithm counts, and nothing runs them
    return ", ".join(part for part in parts if part != ANY)


def _took(seconds: float, call: ServedOperation | KvTransfer) -> str:
    """Such as ``14.74 us each (-13% to +15%: the kernel's own rows)``."""
    each = " each" if isinstance(call, ServedOperation) else ""
    off = f" ({within(call.interval, seconds)})" if call.interval else ""
    return f"{format_time(seconds)}{each}{off}"


def _largest_operation(phase: ServedPhase) -> ServedOperation:
    """The operation that takes most of a phase."""
    return max(phase.operations, key=lambda operation: operation.total_s)


def _network(phase: ServedPhase) -> str:
    """Such as ``2.428 ms (-13% to +15%: the kernel's own rows)``."""
    interval = phase.network_interval
    off = f" ({within(interval, phase.network_s)})" if interval and phase.network_s else ""
    return f"{format_time(phase.network_s)}{off}"


def _number(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f}" if tokens_per_s >= 100 else f"{tokens_per_s:.3g}"


def _tokens(tokens_per_s: float) -> str:
    return f"{_number(tokens_per_s)} tokens/s"


def _answer(result: Served) -> str:
    sentences = warnings_first(result.notes)
    if result.fits is False:
        sentences.append(_misfit(result))
    decode = result.decode
    if result.tokens_per_s is None or result.time_per_token_s is None:
        sentences += _network_answer(result)
    else:
        sentences.append(_estimate_answer(result))
        sentences.append(_parts(decode))
    if result.overlapped:
        sentences.append(_two_batches(result))
    if result.tpot_s is not None and decode.network_s:
        sentences.append(_given_time(result, result.tpot_s))
    if result.fits:
        sentences.append(f"It fits: {_memory(result)}{_room_for(result)}.")
    best = result.changes[0] if result.changes else None
    if best is not None and best.gain > 1 and result.fits is not False:
        sentences.append(f"Most would be gained by {_change(best)}.")
    return " ".join(sentences)


def _estimate_answer(result: Served) -> str:
    first = "About"
    if result.fits is False:
        first = "If it did: about"
    tokens = _tokens(result.estimated_tokens_per_s or 0.0)
    # the smallest that fills the layout is the default, which few mean
    smallest = result.deployment.dp * result.deployment.pp
    if result.deployment.batch == smallest:
        tokens += f" at batch {smallest}"
    limits = f"at most {_number(result.tokens_per_s or 0.0)}"
    interval = result.decode.estimate_interval
    if interval is not None:
        # the longest step serves the fewest tokens
        least = _number(result.deployment.batch / interval.high_s)
        most = _number(result.deployment.batch / interval.low_s)
        limits = f"{least} to {most}: {interval.reason}; {limits}"
    token = f"{format_time(result.estimated_time_per_token_s or 0.0)} per token (TPOT)"
    prefill = f"at least {format_time(result.prefill.limit_s or 0.0)} per prefill (part of TTFT)"
    where = f"{result.job} on {_where(result)}"
    return f"{first} {tokens} ({limits}), with {token} and {prefill}: {where}."


def _kernels(decode: ServedPhase) -> str:
    """What the kernels of decode wait for."""
    if decode.floor_by == "FLOPs":
        return "compute"
    return "memory"


def _parts(decode: ServedPhase) -> str:
    """What a token's time goes to: ``Kernels take 12.18 ms of it (memory alone at least 6.137 ms),
    the network 2.4 ms, 17%.``"""
    took = format_time(decode.kernels_s or 0.0)
    least = format_time(decode.floor_s or 0.0)
    kernels = f"Kernels take {took} of it ({_kernels(decode)} alone at least {least})"
    if not decode.network_s:
        return f"{kernels}; nothing is sent."
    if decode.beside:
        beside = f"{format_time(decode.hidden_s)} of that while kernels run"
        return f"{kernels}, the network {_network(decode)}, {beside}."
    share = whole_percent(decode.network_s / (decode.estimate_s or 1.0))
    return f"{kernels}, the network {share}: {_network(decode)}."


def _two_batches(result: Served) -> str:
    """What two-batch overlap gains or loses: ``Two-batch overlap loses 8% per token (58.7 ms without
    it) and gains 12% per prefill (...).``"""
    parts = []
    for phase, without in result.overlapped:
        change = phase.least_known_s / without.least_known_s - 1
        verb = "gains"
        if change > 0:
            verb = "loses"
        share = whole_percent(abs(change))
        took = format_time(without.least_known_s)
        what = _STEP[phase.name]
        parts.append(f"{verb} {share} per {what} ({took} without it)")
    said = " and ".join(parts)
    return f"Two-batch overlap {said}."


def _network_answer(result: Served) -> list[str]:
    """What is missing without a known device: only the network can be priced."""
    decode = result.decode
    device = localize(either(shell="--set device=h100", python='overrides=["device=h100"]'))
    unknown = (
        f"Tokens/s are not given: {result.fabric} names no device whose memory and FLOPs are known;"
        f" add {device}."
    )
    if not decode.network_s:
        return [f"Nothing is sent: {result.job} on {_where(result)} needs one rank.", unknown]
    times = f"Network time: {_network(decode)} per token"
    prefill = f"{format_time(result.prefill.network_s)} per prefill"
    return [f"{times} and {prefill}: {result.job} on {_where(result)}.", unknown]


def _given_time(result: Served, tpot_s: float) -> str:
    least_s = result.time_per_token_s
    if least_s is not None and tpot_s < least_s:
        limit = f"its lower limit, {format_time(least_s)}"
        return f"The {format_time(tpot_s)} per token that were given are below {limit}."
    return (
        f"The network is {whole_percent(result.share or 0.0)} of {format_time(tpot_s)} per token."
    )


def _memory(result: Served) -> str:
    capacity = format_bytes(result.capacity_bytes or 0)
    return f"{format_bytes(result.memory_bytes)} of {capacity} per rank"


def _room_for(result: Served) -> str:
    """The largest batch that fits, where it is larger than the one asked about."""
    if result.most_batch is None or result.most_batch <= result.deployment.batch:
        return ""
    return f", up to batch {result.most_batch:,}"


def _misfit(result: Served) -> str:
    fix = "more ranks"
    if (result.most_batch or 0) > 0:
        fix += f", batch {result.most_batch:,} or less"
    if result.weights.dense > 1.5:
        fix += localize(f" or {argument_text('weights', 'fp8')}")
    return f"It does not fit: it needs {_memory(result)}; take {fix}."


def _change(change: ServedChange) -> str:
    """Such as ``batch 128: 11,010 tokens/s (+47%) at 11.6 ms per token``."""
    tokens_per_s = change.estimated_tokens_per_s
    token_s = change.estimated_time_per_token_s
    if tokens_per_s is None or token_s is None:
        took = f"{format_time(change.network_s)} of network time per token"
        return f"{change.change}: {took} ({change.factor:.3g} times)"
    sign = "+" if change.gain >= 1 else "-"
    gain = f"{sign}{whole_percent(abs(change.gain - 1))}"
    token = f"{format_time(token_s)} per token"
    return f"{change.change}: {_tokens(tokens_per_s)} ({gain}) at {token}"


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
    label("wire", "link", drop=5, path="call.wire"),
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


def _network_part(phase: ServedPhase) -> str:
    network = f"network {format_time(phase.network_s)}"
    if phase.beside:
        network += ", in part while kernels run"
    return network


def _limit_lines(result: Served) -> list[str]:
    """The parts of the estimate of decode and of the least time of both phases, and what a
    checkpoint does not quantize."""
    lines = []
    decode = result.decode
    if decode.kernels_s is not None and decode.estimate_s is not None:
        about = f"about {format_time(decode.estimate_s)} per token under CUDA graphs"
        kernels = f"kernels {format_time(decode.kernels_s)}"
        lines.append(f"decode: {about}: {_network_part(decode)}, {kernels}")
    for phase in reversed(result.phases):
        what = _STEP[phase.name]
        if phase.floor_s is None or phase.limit_s is None:
            continue
        limit = f"at least {format_time(phase.limit_s)} per {what}"
        floor = f"{phase.floor_by} {format_time(phase.floor_s)}"
        lines.append(f"{phase.name}: {limit}: {_network_part(phase)}, {floor}")
    if result.weights.kept:
        kept = ", ".join(result.weights.kept)
        lines.append(f"the checkpoint keeps in bf16: {kept}, embedding, head")
    return lines


def _kv_lines(kv: KvTransfer) -> list[str]:
    sent = f"{format_bytes(kv.moved_bytes)} per prefill over {kv.pairs} pairs by {kv.kernel}"
    if kv.moved_bytes > kv.bytes:
        copies = f"{kv.moved_bytes / kv.bytes:.3g}"
        sent = f"{format_bytes(kv.bytes)} x {copies} ranks that hold the same: {sent}"
    lines = [f"{sent}: {_took(kv.total_s, kv)}"]
    if kv.prefill_layer_s is not None:
        layer = format_time(kv.layer_s)
        limit = f"{format_time(kv.prefill_layer_s)}, the lower limit of its prefill"
        if kv.hidden:
            pair = f"it is hidden but for the last layer: {layer} per layer <= {limit}"
        else:
            pair = f"it is not hidden: {layer} per layer > {limit}"
        lines.append(f"sent layer by layer {pair}; exposed {format_time(kv.exposed_s)}")
    if kv.hiding_nic_Bps is not None:
        lines.append(f"smallest NIC per rank that hides it: {format_rate(kv.hiding_nic_Bps)}")
    return [*lines, *kv.notes]


def _blocks(result: Served) -> list[Block]:
    # a first screen has room for two changes, less what else was asked
    changes = 2
    if result.kv is not None:
        changes = 0
    elif result.tpot_s is not None:
        changes = 1
    return [
        Headline(_answer(result)),
        _operations(result),
        *listed(
            "estimate, and lower limits (no kernel reaches them)", _limit_lines(result), first=0
        ),
        *listed("KV transfer", _kv_lines(result.kv) if result.kv else (), first=2),
        *listed("what would change it", map(_change, result.changes), first=changes),
        *listed("notes", without_warnings(result.notes), first=1),
    ]


def _whole(result: Served) -> Any:
    """Both phases without two-batch overlap, where it was asked for."""
    if result.whole is None:
        return LEFT_OUT
    return result.whole


def _hidden(phase: ServedPhase) -> Any:
    """The part of the network that runs beside the kernels, with two-batch overlap."""
    if not phase.beside:
        return LEFT_OUT
    return phase.hidden_s


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
    limit_s: float | None
    limited_by: str | None
    hidden_s: float = optional(_hidden)
    network_interval: IntervalDocument | None
    # of decode where the device is known
    kernels_s: float | None
    estimate_s: float | None
    estimate_interval: IntervalDocument | None
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
    weights: WeightFormat
    tokens_per_s: float | None
    time_per_token_s: float | None
    estimated_tokens_per_s: float | None
    estimated_time_per_token_s: float | None
    phases: list[ServedPhaseDocument]
    kv: KvDocument | None
    tpot_s: float | None
    share: float | None
    bound_tokens_s: float | None
    memory_bytes: float
    capacity_bytes: float | None
    most_batch: int | None
    fits: bool | None
    changes: list[ServedChange]
    notes: list[str]
    without_overlap: list[ServedPhaseDocument] = optional(_whole)


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
    number(
        "estimated_tokens_per_s",
        "tokens/s",
        "{:,.0f}".format,
        path="served.estimated_tokens_per_s",
    ),
    number(
        "estimated_time_per_token_s",
        "per token",
        format_time,
        path="served.estimated_time_per_token_s",
    ),
    number("tokens_per_s", "at most", "{:,.0f}".format, 4, path="served.tokens_per_s"),
    number("time_per_token_s", None, format_time, hidden=True, path="served.time_per_token_s"),
    number("network_s", "network", format_time, path="served.decode.network_s"),
    number("floor_s", "memory or FLOPs", format_time, 3, path="served.decode.floor_s"),
    number("prefill_limit_s", "per prefill", format_time, 2, path="served.prefill.limit_s"),
    number("prefill_network_s", hidden=True, path="served.prefill.network_s"),
    number("bound_tokens_s", hidden=True, path="served.bound_tokens_s"),
    number("memory_bytes", "memory", format_bytes, 4, path="served.memory_bytes"),
    label("kernel", "most by", drop=5),
)


def _list_records(result: ServeList) -> list[_NamedServed]:
    return list(map(_NamedServed, result.names, result.served))


def _time_per_sequence(record: _NamedServed) -> float:
    """The inverse of tokens/s; of the network alone where the device is unknown."""
    served = record.served
    took_s = served.estimated_time_per_token_s
    return (served.decode.network_s if took_s is None else took_s) / served.deployment.batch


def _best(records: list[_NamedServed]) -> _NamedServed:
    """The one with the most tokens/s; with the least network where not every device is known."""
    if all(record.served.tokens_per_s for record in records):
        return min(records, key=_time_per_sequence)
    return min(records, key=lambda record: record.served.decode.network_s)


def _list_table(result: ServeList) -> Table:
    records = _list_records(result)
    first = result.served[0]
    context_columns = context(first.overrides, job=first.job, engine=first.engine)
    return Table((*context_columns, *_SERVED), tuple(records), records.index(_best(records)))


def _least(served: Served) -> str:
    """``about 3,580 tokens/s, 17.9 ms per token: 2.428 ms of network and 15.4 ms of kernels``."""
    decode = served.decode
    if decode.kernels_s is None or decode.estimate_s is None:
        return f"{format_time(decode.network_s)} of network time per token"
    least = f"{format_time(decode.kernels_s)} of kernels"
    if decode.network_s:
        interval = decode.network_interval
        off = f" ({within(interval, decode.network_s)})" if interval else ""
        least = f"{format_time(decode.network_s)} of network{off} and {least}"
    token = f"{format_time(decode.estimate_s)} per token"
    return f"about {_tokens(served.deployment.batch / decode.estimate_s)}, {token}: {least}"


def _list_answer(result: ServeList) -> str:
    records = _list_records(result)
    best = _best(records)
    where = f"{best.served.job} on {_where(best.served)}"
    if result.feasible is not None:
        layouts = counted(result.feasible, "feasible layout")
        found = f"Best of {layouts} ({result.tried} tried): {best.name}"
        return f"{found}, {_least(best.served)}. {where}."
    if len(records) == 1:
        return f"{best.name}: {_least(best.served)}. {where}."
    if not all(record.served.tokens_per_s for record in records):
        took = format_time(best.served.decode.network_s)
        return f"{best.name} has the least network time per token, {took}: {where}."
    others = [record for record in records if record is not best]
    second = _best(others)
    ratio = _time_per_sequence(second) / _time_per_sequence(best)
    # less than half a percent is no difference
    if ratio < 1.005:
        rest = f"about {_tokens(best.served.estimated_tokens_per_s or 0.0)}"
        return f"{best.name} and {second.name} serve the same, {rest}. {where}."
    if _overlap(best.served, second.served):
        first = f"{best.name} serves about {_tokens(best.served.estimated_tokens_per_s or 0.0)}"
        behind = f"{second.name} {_tokens(second.served.estimated_tokens_per_s or 0.0)}"
        why = "the network's error is larger than the difference"
        return f"Too close to call: {first}, {behind}; {why}. {where}."
    ahead = f"{ratio:.3g} times {second.name}"
    return f"{best.name} serves most, {ahead}: {_least(best.served)}. {where}."


def _overlap(best: Served, second: Served) -> bool:
    """Whether the intervals of two fabrics overlap; on one fabric both err alike."""
    if best.fabric == second.fabric:
        return False
    slow = best.decode.network_interval
    fast = second.decode.network_interval
    if slow is None or fast is None or best.deployment.batch != second.deployment.batch:
        return False
    # the law of the kernels errs alike on both
    return (best.decode.kernels_s or 0) + slow.high_s > (second.decode.kernels_s or 0) + fast.low_s


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
    feasible: int | None
    served: list[NamedServeDocument] = derived(_named_documents)
    refused: list[RefusedDeployment] = derived(
        lambda result: tuple(RefusedDeployment(*pair) for pair in result.refused)
    )


# --- how far uncertain numbers move it


def _spread_answer(result: ServeSpread) -> str:
    decode = result.served.decode
    ends = f"{format_time(result.p5_s)} to {format_time(result.p95_s)}, 90% of the samples"
    took = f"The network takes {format_time(decode.network_s)} per token ({ends})"
    answer = f"{took}: {result.served.job} on {_where(result.served)}."
    if not result.moved or not result.moved[0].span_s:
        none = "None of the fabric's numbers changes it: only the kernels' own error is left."
        return f"{answer} {none}"
    most = result.moved[0]
    name = most.number.key
    low = f"{format_time(most.low_s)} at {quantity(name, most.number.low)}"
    high = f"{format_time(most.high_s)} at {quantity(name, most.number.high)}"
    return f"{answer} {name} matters most: {low}, {high}."


_MOST_NUMBERS = 6  # rows of numbers that move the time, without --all
_MOVED: Columns[ServedBar] = (
    label("key", "number", path="number.key"),
    number("value", "now", "{:.4g}".format, path="number.value"),
    number("low", "from", "{:.4g}".format, 2, path="number.low"),
    number("high", "to", "{:.4g}".format, 2, path="number.high"),
    number("low_s", "per token from", format_time),
    number("high_s", "to", format_time),
    number("span_s", "apart", format_time, 1),
)


def _spread_table(result: ServeSpread) -> Table:
    title = "network time per token when one number changes alone"
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
        "serve-spread",
        _spread_blocks,
        ServeSpreadDocument.of,
        _spread_table,
        _spread_answer,
    ),
    Served: View(
        "serve",
        _blocks,
        ServeDocument.of,
        _operations,
        _answer,
    ),
    ServeList: View(
        "serve-list",
        _list_blocks,
        ServeListDocument.of,
        _list_table,
        _list_answer,
    ),
}
