"""``serve``: tokens/s of a deployment, the network's part of them, KV transfer, and what would change
it.

:func:`_blocks` is the screen, whose headline is in ``serve_answer``; :func:`_operations` the table,
also for CSV; the document stands last. Several deployments are in ``serve_list``, one under
uncertain numbers in ``serve_spread``. Seconds are those of a step: of decode one token of every sequence, of prefill
a prompt; ``kernels_s``, ``floor_s`` and ``limit_s`` are None where the device is not known.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.render.blocks import Block, Columns, Headline, Table, label, number
from colltool.render.dispatch import View, context, listed
from colltool.render.documents import LEFT_OUT, Document, optional
from colltool.render.intervals import IntervalDocument, nine_in_ten
from colltool.render.shared_documents import OnFabricDocument
from colltool.render.views.kernels import no_kernel_interval, without_warnings
from colltool.render.views.serve_answer import STEP_NOUN, change_text, serve_answer, time_text
from colltool.serving.deployment import Deployment
from colltool.serving.quantization import WeightFormat
from colltool.serving.results import KvTransfer, Served, ServedChange, ServedOperation, ServedPhase


class _ServedLine(NamedTuple):
    """A row of the table: an operation of decode or of prefill."""

    phase: ServedPhase
    call: ServedOperation

    @property
    def within(self) -> str:
        """``-13% to +15%``; empty without an interval."""
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
    """A row for each operation: those of a token, then those of a prefill."""
    records: list[_ServedLine] = []
    # phases are prefill and decode; decode comes first here, as its latency is what users feel
    for phase in reversed(result.phases):
        records += [_ServedLine(phase, operation) for operation in phase.operations]
    context_columns = context(
        result.overrides, job=result.job, fabric=result.fabric, engine=result.engine
    )
    return Table((*context_columns, *_OPERATION), tuple(records))


def _network_part(phase: ServedPhase) -> str:
    """``network 2.428 ms``, as a part of an estimate."""
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
        if phase.floor_s is None or phase.limit_s is None:
            continue
        limit = f"at least {format_time(phase.limit_s)} per {STEP_NOUN[phase.name]}"
        floor = f"{phase.floor_by} {format_time(phase.floor_s)}"
        lines.append(f"{phase.name}: {limit}: {_network_part(phase)}, {floor}")
    if result.weights.kept:
        unquantized = ", ".join(result.weights.kept)
        lines.append(f"the checkpoint keeps in bf16: {unquantized}, embedding, head")
    return lines


def _kv_lines(kv: KvTransfer) -> list[str]:
    """What a prompt's KV cache takes from prefill to decode, and what hides it."""
    transfer = f"{format_bytes(kv.moved_bytes)} per prefill over {kv.pairs} pairs by {kv.kernel}"
    if kv.moved_bytes > kv.bytes:
        copies = f"{kv.moved_bytes / kv.bytes:.3g}"
        transfer = f"{format_bytes(kv.bytes)} x {copies} ranks that hold the same: {transfer}"
    lines = [f"{transfer}: {time_text(kv.total_s, kv.interval)}"]
    if kv.prefill_layer_s is not None:
        layer = format_time(kv.layer_s)
        limit = f"{format_time(kv.prefill_layer_s)}, the lower limit of its prefill"
        if kv.hidden:
            hiding = f"it is hidden but for the last layer: {layer} per layer <= {limit}"
        else:
            hiding = f"it is not hidden: {layer} per layer > {limit}"
        lines.append(f"sent layer by layer {hiding}; exposed {format_time(kv.exposed_s)}")
    if kv.hiding_nic_Bps is not None:
        lines.append(f"smallest NIC per rank that hides it: {format_rate(kv.hiding_nic_Bps)}")
    return [*lines, *kv.notes]


def _blocks(result: Served) -> list[Block]:
    """The answer and its operations, then limits, KV transfer, changes and notes."""
    # a first screen has room for two changes, less what else was asked
    most_changes = 2
    if result.kv is not None:
        most_changes = 0
    elif result.tpot_s is not None:
        most_changes = 1
    return [
        Headline(serve_answer(result)),
        _operations(result),
        *listed(
            "estimate, and lower limits (no kernel reaches them)", _limit_lines(result), first=0
        ),
        *listed("KV transfer", _kv_lines(result.kv) if result.kv else (), first=2),
        *listed("what would change it", map(change_text, result.changes), first=most_changes),
        *listed("notes", without_warnings(result.notes), first=1),
    ]


# --- the document


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
    # with two-batch overlap: the part of the network that runs beside the kernels
    hidden_s: float = optional(lambda phase: phase.hidden_s if phase.beside else LEFT_OUT)
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
    # where two-batch overlap was asked for: both phases without it
    without_overlap: list[ServedPhaseDocument] = optional("whole")


VIEWS = {Served: View("serve", _blocks, ServeDocument.of, _operations, serve_answer)}
