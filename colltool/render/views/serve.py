"""``serve``: tokens/s of a deployment, the network's part of them, KV transfer, and what would change
it.

Read from :data:`VIEWS`: :func:`_answer` is the headline, :func:`_blocks` the screen and
:func:`_operations` the rows of CSV. Several deployments are in ``serve_list``, one under uncertain
numbers in ``serve_spread``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.base.errors import argument_text, either, localize
from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, optional
from colltool.render.intervals import IntervalDocument, nine_in_ten, within
from colltool.render.shared_documents import OnFabricDocument
from colltool.render.views.kernels import no_kernel_interval, warnings_first, without_warnings
from colltool.serving.deployment import Deployment
from colltool.serving.quantization import WeightFormat
from colltool.serving.results import KvTransfer, Served, ServedChange, ServedOperation, ServedPhase

ANY = "all"
"""The library of a fabric that names none."""

# what a phase makes
_STEP = {
    "decode": "token",
    "prefill": "prefill",
}


def deployment_in_words(result: Served) -> str:
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


def largest_operation(phase: ServedPhase) -> ServedOperation:
    """The operation that takes most of a phase."""
    return max(phase.operations, key=lambda operation: operation.total_s)


def _network(phase: ServedPhase) -> str:
    """Such as ``2.428 ms (-13% to +15%: the kernel's own rows)``."""
    interval = phase.network_interval
    off = f" ({within(interval, phase.network_s)})" if interval and phase.network_s else ""
    return f"{format_time(phase.network_s)}{off}"


def _number(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f}" if tokens_per_s >= 100 else f"{tokens_per_s:.3g}"


def tokens_text(tokens_per_s: float) -> str:
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
    tokens = tokens_text(result.estimated_tokens_per_s or 0.0)
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
    where = f"{result.job} on {deployment_in_words(result)}"
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
        return [
            f"Nothing is sent: {result.job} on {deployment_in_words(result)} needs one rank.",
            unknown,
        ]
    times = f"Network time: {_network(decode)} per token"
    prefill = f"{format_time(result.prefill.network_s)} per prefill"
    return [f"{times} and {prefill}: {result.job} on {deployment_in_words(result)}.", unknown]


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
    return f"{change.change}: {tokens_text(tokens_per_s)} ({gain}) at {token}"


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


VIEWS = {Served: View("serve", _blocks, ServeDocument.of, _operations, _answer)}
