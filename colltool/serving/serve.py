"""Least time of decode and prefill of a served model: its network, and memory or compute.

:func:`serve` is the way in. It lists the collectives of a step, which follow from the model and the
deployment (:func:`_operations`), prices each by the engine's kernel (:func:`_by_kernel`) or the
fabric's library (:func:`_by_library`), adds them up to phases (:func:`_phase`), and adds the
transfer of KV caches between machines.

A phase is a number of equal steps: decode one for a token, prefill one for each chunk of a prompt. A
replica has tp x pp ranks, of which each stage of the pipeline has tp; ``tokens`` are those that a
replica's stage takes in a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text, rename_for_both
from colltool.base.primitives import A2A, AG, AR, P2P, Primitive
from colltool.engines.experts import price_experts
from colltool.engines.files import LibraryFile, Mode
from colltool.engines.price import price_kernels
from colltool.engines.results import KernelEstimate
from colltool.engines.tokens import WIDTHS, Tokens
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.estimate.user_price import price_for_user
from colltool.fabric.model import Fabric
from colltool.fabric.uneven import check_even
from colltool.serving.decode_estimate import kernels_interval, kernels_s
from colltool.serving.deployment import (
    Deployment,
    check_ranks,
    checked_deployment,
    kv_bytes_of_rank,
    shape_of,
    state_bytes_of_rank,
    step_floor,
    step_work,
    weight_bytes,
)
from colltool.serving.kv import kv_transfer
from colltool.serving.quantization import WeightFormat, uniform
from colltool.serving.question import ServeQuestion
from colltool.serving.results import Served, ServedOperation, ServedPhase
from colltool.training.files.presets import preset_names, read_device
from colltool.training.model import Moe, TransformerModel
from colltool.training.stack import Accelerator, accelerator_of

# Format in which activations are reduced, a key of WIDTHS (bytes of a value).
REDUCED = "bf16"


class ServingContext(NamedTuple):
    """A deployment on a fabric, and the libraries of its collectives.

    Args:
        device: what the ranks are; None if the fabric names none, or one without data.
        engine: the engine whose all-reduce runs; None for the fabric's library.
        experts: the library of dispatch and combine; None for the fastest that was measured.
        experts_by_nccl: dispatch and combine are all-to-alls of the fabric's library instead.
        weights: the format of the weights.
        mode, sms: as of :class:`colltool.serving.question.ServeQuestion`.
    """

    model: TransformerModel
    deployment: Deployment
    fabric: Fabric
    device: Accelerator | None
    engine: LibraryFile | None
    experts: LibraryFile | None
    experts_by_nccl: bool
    weights: WeightFormat
    mode: Mode | None = None
    sms: int = 0


def serve(
    model: TransformerModel,
    question: ServeQuestion,
    fabric: Fabric,
    engine: LibraryFile | None,
    experts: LibraryFile | None,
    *,
    by_nccl: bool = False,
) -> Served:
    """Return the times of a token (decode) and of a prefill of a model on a fabric.

    Args:
        question: the deployment, and what else the user said.
        engine: whose all-reduce runs; None for the fabric's library.
        experts: the library of dispatch and combine; None for the fastest that was measured.
        by_nccl: whether all-to-alls of the fabric's library replace dispatch and combine.

    Raises:
        ColltoolError: a deployment that does not fit the model or the fabric, or kernels that were
            not measured there.
    """
    check_even(fabric)
    deployment = checked_deployment(model, question.deployment, question.dp)
    check_ranks(fabric, deployment.ranks, deployment.label, "tp")
    device = _device(fabric)
    serving = ServingContext(
        model=model,
        deployment=deployment,
        fabric=fabric,
        device=device,
        engine=engine,
        experts=experts,
        experts_by_nccl=by_nccl,
        weights=question.weights or uniform(deployment.dtype),
        mode=question.mode,
        sms=question.sms,
    )
    _check_launch(serving)
    without_overlap = None
    batch_parts = 1
    if question.two_batches:
        _check_two_batches(serving)
        without_overlap = _phases(serving, 1)
        batch_parts = 2
    prefill, decode = _phases(serving, batch_parts)
    weights = weight_bytes(model, deployment, deployment.tokens, serving.weights).weights
    # of a rank: the KV cache of a whole sequence, and the state of layers without one
    sequence_bytes = kv_bytes_of_rank(model, deployment) * (deployment.input + deployment.output)
    sequence_bytes += state_bytes_of_rank(model, deployment)
    # a rank holds its part of every sequence of its replica: as many in flight for each stage
    cache_bytes = sequence_bytes * (deployment.tokens * deployment.pp)
    most_batch = None
    if device is not None and sequence_bytes:
        replica_batch = (device.memory_bytes - weights) / sequence_bytes
        # all stages have as many sequences in flight
        stage_batch = floor(replica_batch / deployment.pp)
        most_batch = stage_batch * deployment.pp * deployment.dp
    return Served(
        job=model.name,
        fabric=fabric.name,
        engine=engine.full_name if engine else fabric.library_name,
        deployment=deployment,
        phases=(prefill, decode),
        kv=kv_transfer(model, deployment, fabric, question, prefill),
        tpot_s=question.tpot_s,
        memory_bytes=weights + cache_bytes,
        capacity_bytes=device.memory_bytes if device else None,
        notes=_notes(serving, decode, prefill),
        overrides=fabric.overrides,
        weights=serving.weights,
        most_batch=most_batch,
        whole=without_overlap,
        mode=question.mode,
    )


def _check_launch(serving: ServingContext) -> None:
    """Raise ColltoolError for a mode of launch or a number of SMs that no kernel here takes."""
    exchanges = serving.deployment.exchanges and serving.model.moe_layers
    has_expert_kernels = exchanges and not serving.experts_by_nccl
    if serving.mode is not None and serving.engine is None and not has_expert_kernels:
        raise ColltoolError(
            "only an engine says how its calls are launched",
            argument="mode",
            fix=f"add {argument_text('engine', 'vllm')}, or leave {argument_text('mode')} out",
        )
    if serving.sms and not has_expert_kernels:
        raise ColltoolError(
            "only dispatch and combine take SMs, and this deployment has none of a library's own",
            argument="sms",
            fix=f"leave {argument_text('sms')} out",
        )


def _check_two_batches(serving: ServingContext) -> None:
    """Raise ColltoolError for two-batch overlap of a deployment that exchanges no tokens, or has no
    two halves of a batch."""
    deployment = serving.deployment
    argument = "two_batch_overlap"
    if not (deployment.exchanges and serving.model.moe_layers):
        what = "it hides dispatch and combine, and this deployment sends no tokens to experts"
        fix = "leave it out"
        if serving.model.moe_layers:
            fix += f", or write {argument_text('ep', deployment.tp * 2)}"
        raise ColltoolError(what, argument=argument, fix=fix)
    if deployment.tokens < 2:
        fewest = 2 * deployment.dp * deployment.pp
        raise ColltoolError(
            f"batch {deployment.batch} leaves a sequence for each replica, which has no halves",
            argument=argument,
            fix=f"write {argument_text('batch', fewest)} or more",
        )


def _phases(serving: ServingContext, batch_parts: int) -> tuple[ServedPhase, ServedPhase]:
    """Prefill and decode; each step in ``batch_parts`` steps of a part of its tokens: 2 under
    two-batch overlap, else 1.

    On average a decode step reads the cache of all inputs and half of the outputs, a chunk of
    prefill half of its prompt.
    """
    deployment = serving.deployment
    chunk = min(deployment.chunk, deployment.input)
    chunks = ceil(deployment.input / chunk)
    prompt_read = deployment.input / 2
    cached = (deployment.input + deployment.output / 2) * deployment.tokens
    return (
        _phase("prefill", serving, batch_parts, chunks, chunk, prompt_read),
        _phase("decode", serving, batch_parts, 1, deployment.tokens, cached),
    )


def _device(fabric: Fabric) -> Accelerator | None:
    """The fabric's accelerator; None if it names none, or one without data."""
    name = fabric.device
    if name is None or name not in preset_names("devices"):
        return None
    # a preset's name needs no folder to be found
    return accelerator_of(read_device(name, Path()), name)


def _notes(serving: ServingContext, *phases: ServedPhase) -> tuple[str, ...]:
    """What is not counted, a warning of idle ranks, and the notes of kernels, each once."""
    notes = [f"not counted: {part}" for part in serving.model.left_out]
    if serving.mode == "eager":
        notes.append("not counted: the host's launches of the model's own kernels")
    serving_ranks = serving.deployment.ranks
    fabric_ranks = serving.fabric.ranks
    # whoever states the size of a tier expects all of it to serve
    is_resized = any(key.endswith(".size") for key, _ in serving.fabric.overrides)
    if is_resized and serving_ranks < fabric_ranks:
        all_ranks = argument_text("ranks", fabric_ranks)
        notes.append(
            f"warning: {serving_ranks} of {fabric_ranks} ranks serve; add {all_ranks} to use all"
        )
    for phase in phases:
        for operation in phase.operations:
            notes += operation.notes
    return tuple(dict.fromkeys(notes))


def _phase(
    name: str,
    serving: ServingContext,
    batch_parts: int,
    steps: int,
    step_tokens: int,
    step_cached: float,
) -> ServedPhase:
    """A phase: the collectives of its ``steps`` equal steps, their network time, and what memory and
    compute take.

    In two halves of a batch the exchanges of one run beside the kernels of the other, in the layers
    that have experts; the weights are read for each half.

    Args:
        batch_parts: equal steps, one after the other, that each step is cut into.
        step_tokens: tokens of an uncut step, for each replica.
        step_cached: tokens of KV cache that an uncut step reads, for each replica.
    """
    # CUDA graphs are captured for decode alone
    in_graph = name == "decode" and serving.mode != "eager"
    times = steps * batch_parts
    tokens = ceil(step_tokens / batch_parts)
    calls = list(_operations(serving, tokens, graph=in_graph))
    totals_s = [call.each_s * (call.calls * times) for call in calls]
    network_s = sum(totals_s)
    operations = []
    for call, total_s in zip(calls, totals_s, strict=True):
        share = total_s / network_s if network_s else 0.0
        operations.append(call._replace(calls=call.calls * times, total_s=total_s, share=share))
    phase = ServedPhase(
        name=name,
        operations=tuple(operations),
        network_s=network_s,
        floor_s=None,
        floor_by=None,
        tokens=tokens,
        beside=serving.model.moe_layers / serving.model.layers if batch_parts == 2 else 0.0,
    )
    if serving.device is None:
        return phase
    return _with_kernels(phase, serving, step_cached / batch_parts, times)


def _with_kernels(
    phase: ServedPhase, serving: ServingContext, cached: float, times: int
) -> ServedPhase:
    """The phase with the lower limit of memory and compute, and decode also with the estimate of its
    kernels: only steps of decode were measured. The device is known here.

    Args:
        cached: tokens of KV cache that a step reads, for each replica.
        times: steps of the phase.
    """
    model = serving.model
    deployment = serving.deployment
    device = serving.device
    assert device is not None
    work = step_work(model, deployment, device, phase.tokens, cached, serving.weights)
    limit = step_floor(work, device)
    # a token passes all stages
    steps = deployment.pp * times
    floor_s = limit.total_s * steps
    floor_by = "memory" if limit.memory_s > limit.compute_s else "FLOPs"
    phase = phase._replace(floor_s=floor_s, floor_by=floor_by)
    if phase.name != "decode":
        return phase
    estimate_s = kernels_s(model, deployment, device, work) * steps
    interval = kernels_interval(model, device, estimate_s, floor_s)
    return phase._replace(kernels_s=estimate_s, kernels_interval=interval)


def _operations(serving: ServingContext, tokens: int, *, graph: bool) -> Iterator[ServedOperation]:
    """Each collective of a step, with its calls over all layers of all pipeline stages; their total
    and share are not yet filled in.

    Args:
        tokens: tokens of the step, for each replica.
        graph: whether the step runs in a CUDA graph.
    """
    model = serving.model
    deployment = serving.deployment
    shape = shape_of(model)
    tp = GroupSpec(deployment.tp)
    activation_bytes = tokens * shape.hidden * WIDTHS[REDUCED]
    if deployment.tp > 1:
        # After attention and after the FFN, unless experts on other ranks take the FFN's place. The
        # parts of a shape are its kinds of attention, each with its share of the layers; fed is the
        # share of layers with an FFN.
        mixers = sum(mixer.share for mixer in shape.parts if mixer.description.split)
        calls = mixers * model.layers + shape.fed * model.dense_layers
        if not deployment.exchanges:
            calls += model.moe_layers
        yield _all_reduce(serving, activation_bytes, tp)._replace(calls=round(calls))
    if shape.moe is not None and deployment.exchanges and model.moe_layers:
        combined = _tokens_to_combine(serving, shape.moe, tokens)
        # results are combined in full precision, tokens are sent in the 8 bits that experts take
        dispatched = combined._replace(dtype=serving.weights.sends)
        for exchange, sent in (("dispatch", dispatched), ("combine", combined)):
            operation = _exchange(serving, exchange, sent, graph=graph)
            yield operation._replace(calls=model.moe_layers)
    if deployment.pp > 1:
        # ranks of a stage are next to each other, and each sends to its peer of the next stage
        pair = GroupSpec(2, deployment.tp * deployment.dp)
        stages = _by_library(serving, "p2p", P2P, activation_bytes / deployment.tp, pair)
        yield stages._replace(calls=deployment.pp - 1)
    # last, as in a step
    if deployment.tp > 1:
        # prefill needs the logits of the last token of each sequence only
        logits_bytes = min(tokens, deployment.tokens) * shape.vocab * WIDTHS[REDUCED]
        yield _by_library(serving, "all-gather", AG, logits_bytes, tp)._replace(calls=1)


def _tokens_to_combine(serving: ServingContext, moe: Moe, tokens: int) -> Tokens:
    """What a rank gets back from experts in a layer; ``tokens`` are those of a replica."""
    deployment = serving.deployment
    # group-limited routing limits the nodes only if every group has ranks of its own
    groups = moe.top_groups if moe.top_groups < moe.groups <= deployment.ep else 0
    # the ranks of tp share a replica's tokens
    rank_tokens = max(1, ceil(tokens / deployment.tp))
    hidden = shape_of(serving.model).hidden
    return Tokens(rank_tokens, moe.top_k, hidden, moe.experts, REDUCED, groups, sms=serving.sms)


def _all_reduce(serving: ServingContext, size: float, group: GroupSpec) -> ServedOperation:
    """An all-reduce of ``size`` bytes by the engine's kernel, or else by the fabric's library."""
    engine = serving.engine
    if engine is None or "all_reduce" not in engine.operations:
        return _by_library(serving, "all-reduce", AR, size, group)
    with rename_for_both(library="engine"):
        priced = price_kernels(engine, serving.fabric, "all_reduce", size, group, serving.mode)
    best = priced.best
    best = best._replace(notes=(*priced.notes, *best.notes))
    why = priced.library.reason if priced.library is not None else ""
    return _by_kernel("all-reduce", group, best, best.kernel, why)


def _by_kernel(
    name: str, group: GroupSpec, row: KernelEstimate, kernel: str, why: str
) -> ServedOperation:
    """A collective as the price of a kernel has it; ``_operations`` adds its calls.

    Args:
        name: of the operation, as in :class:`ServedOperation`.
        group: with a number of ranks, as all groups here.
        kernel: its name for people.
        why: why this kernel runs.
    """
    return ServedOperation(
        operation=name,
        ranks=group.ranks or 0,
        stride=group.stride,
        bytes=row.bytes,
        kernel=kernel,
        why=why,
        each_s=row.total_s,
        wire=row.wire,
        error=row.error,
        notes=row.notes,
        interval=row.interval,
    )


def _by_library(
    serving: ServingContext, name: str, primitive: Primitive, size: float, group: GroupSpec
) -> ServedOperation:
    """A collective of ``size`` bytes by the fabric's library; ``_operations`` adds its calls."""
    fabric = serving.fabric
    prices = price_for_user(price(fabric, primitive, float(size), group), fabric, ModelOptions())
    best = prices.best
    # only NCCL's own estimates make a pick
    picked_by_nccl = prices.library is not None and prices.library.pick is not None
    kernel = best.title
    if fabric.library_name != "all":
        kernel = f"{fabric.library_name} {best.title}"
    return ServedOperation(
        operation=name,
        ranks=group.ranks or 0,
        stride=group.stride,
        bytes=size,
        kernel=kernel,
        why="NCCL's pick" if picked_by_nccl else "the fastest here",
        each_s=float(best.total_s),
        wire=best.phases[-1].tier if best.phases else "",
        interval=best.interval,
    )


def _exchange(
    serving: ServingContext, name: str, tokens: Tokens, *, graph: bool
) -> ServedOperation:
    """Dispatch or combine by the experts' library, by the fastest that was measured there, or as an
    all-to-all of the fabric's library.

    Args:
        name: ``dispatch`` or ``combine``.
        tokens: what a rank sends.
        graph: whether the step runs in a CUDA graph.
    """
    group = GroupSpec(serving.deployment.ep)
    if serving.experts_by_nccl:
        return _by_library(serving, name, A2A, tokens.copied_bytes, group)
    with rename_for_both(library="experts_library"):
        priced = price_experts(serving.experts, serving.fabric, name, tokens, group, serving.mode)
    why = "the fastest measured on this machine"
    if serving.experts:
        why = "the faster of its modes"
    best = priced.best
    captured = [row for row in priced.results if row.captured and row.measured_here]
    # steps of decode run in CUDA graphs, where some kernel can
    if graph and captured and not best.captured:
        best = captured[0]
        why += " that a CUDA graph can run"
    return _by_kernel(name, group, best, f"{best.library} {best.kernel}", why)
