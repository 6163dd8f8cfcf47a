"""A step of decode and of prefill on a fabric: which collectives, by which kernels, and what they
take."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, P2P, Primitive
from colltool.engines.files import AskedLibrary
from colltool.engines.formulas import FORMULAS, WIDTHS, KernelCall, Tokens
from colltool.engines.intervals import kernel_interval
from colltool.engines.price import ground, price_experts, price_kernels, where_of
from colltool.engines.results import KernelEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import place
from colltool.estimate.interval import Interval
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.estimate.user_price import judged, price_for_user
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.serving.deployment import (
    Deployment,
    deployment_of,
    floor_of,
    held,
    kv_bytes,
    shape_of,
)
from colltool.serving.results import KvTransfer, Served, ServedOperation, ServedPhase, ServeQuestion
from colltool.training.files.presets import preset_names, read_device
from colltool.training.model import Accelerator, Shape, TransformerModel, accelerator_of

_NOWHERE = Path()
REDUCED = "bf16"  # activations travel in it


class ServedCall(NamedTuple):
    seconds: float
    kernel: str
    why: str
    wire: str
    error: float | None = None
    notes: tuple[str, ...] = ()
    interval: Interval | None = None


class ServedOn(NamedTuple):
    """What a step is priced with: the fabric, the engine's library and that of the experts (None:
    NCCL, or the fastest)."""

    fabric: Fabric
    engine: AskedLibrary | None
    experts: AskedLibrary | None
    by_nccl: bool = False  # experts by NCCL's all-to-all


def serve(
    model: TransformerModel,
    question: ServeQuestion,
    fabric: Fabric,
    engine: AskedLibrary | None,
    experts: AskedLibrary | None,
    *,
    by_nccl: bool = False,
) -> Served:
    """The network's part of a token and of the first token.

    Raises:
        ColltoolError: a deployment that does not fit the model or the fabric, or kernels that were
            not measured there.
    """
    check_even(fabric)
    own = deployment_of(model, question.deployment, question.dp)
    if own.ranks > fabric.ranks:
        raise ColltoolError(
            f"{own.spoken} needs {own.ranks} ranks, {fabric.name} has {fabric.ranks}",
            argument="tp",
            fix="fewer",
        )
    device, on = _device(fabric), ServedOn(fabric, engine, experts, by_nccl)
    machine, chunk = _Machine(model, own, on, device), min(own.chunk, own.input)
    decode = _phase("decode", machine, own.tokens, own.input + own.output / 2)
    prefill = _phase("prefill", machine, chunk, own.input / 2, times=ceil(own.input / chunk))
    weights = held(model, own, own.tokens).weights
    cache = (
        kv_bytes(model, own.kv_dtype)
        / own.pp
        / (1 if shape_of(model).mla else min(own.tp, shape_of(model).kv_heads))
    )
    needs = weights + cache * own.tokens * own.pp * (own.input + own.output)
    return Served(
        job=model.name,
        fabric=fabric.name,
        engine=engine.library.called if engine else fabric.library_name,
        deployment=own,
        phases=(prefill, decode),
        kv=_kv(model, own, question, on, prefill),
        tpot_s=question.tpot_s,
        memory_bytes=needs,
        capacity_bytes=device.memory_bytes if device else None,
        notes=_said(engine, experts, decode, prefill),
        overrides=fabric.overrides,
    )


def _said(
    engine: AskedLibrary | None, experts: AskedLibrary | None, *phases: ServedPhase
) -> tuple[str, ...]:
    asked = [one for one in (engine, experts) if one is not None and one.unknown]
    unknown = [
        f"warning: no data of {one.library.name} {one.unknown}: {one.library.called}'s kernels"
        for one in asked
    ]
    told = (note for phase in phases for one in phase.operations for note in one.notes)
    return tuple(dict.fromkeys([*unknown, *told]))


def _device(fabric: Fabric) -> Accelerator | None:
    name = fabric.device or ""
    return (
        accelerator_of(read_device(name, _NOWHERE), name)
        if name in preset_names("devices")
        else None
    )


class _Machine(NamedTuple):
    model: TransformerModel
    own: Deployment
    on: ServedOn
    device: Accelerator | None


def _phase(
    name: str, machine: _Machine, tokens: int, context: float, times: int = 1
) -> ServedPhase:
    """A step of ``tokens`` a replica, ``times`` over: decode's sequences, or the chunks of one
    prompt."""
    model, own, on, device = machine
    operations = tuple(
        _summed(one, count * times) for one, count in _operations(model, own, on, tokens)
    )
    network = sum(one.total_s for one in operations)
    told = [one._replace(share=one.total_s / network if network else 0.0) for one in operations]
    sequences = tokens if name == "decode" else 1
    floor = floor_of(model, own, device, tokens, context * sequences)
    if floor is None:
        return ServedPhase(name, tuple(told), network, None, None, tokens)
    by = "memory" if floor.memory_s > floor.compute_s else "FLOPs"
    return ServedPhase(name, tuple(told), network, floor.total_s * own.pp * times, by, tokens)


def _summed(one: ServedOperation, calls: float) -> ServedOperation:
    return one._replace(calls=calls, total_s=one.each_s * calls)


def _operations(
    model: TransformerModel, own: Deployment, on: ServedOn, tokens: int
) -> Iterator[tuple[ServedOperation, float]]:
    """Each collective of a step with its calls: a token passes all layers, in all stages."""
    shape, tp = shape_of(model), GroupSpec(own.tp)
    vector = tokens * shape.hidden * WIDTHS[REDUCED]
    # after attention and after the FFN, which of a layer with experts elsewhere is theirs
    if own.tp > 1:
        calls = 2 * model.layers - (model.moe_layers if own.exchanges else 0)
        yield _operation("all-reduce", tp, vector, _reduced(on, vector, tp)), calls
    if own.exchanges and model.moe_layers:
        group = GroupSpec(own.ep)
        what = _tokens(shape, own, max(1, ceil(tokens / own.tp)))
        for name, sent in (
            ("dispatch", "fp8" if own.dtype != "bf16" else "bf16"),
            ("combine", REDUCED),
        ):
            bytes_, found = _exchanged(on, name, what._replace(dtype=sent), group)
            yield _operation(name, group, bytes_, found), model.moe_layers
    if own.pp > 1:
        pair = GroupSpec(2, own.tp * own.dp)
        yield (
            _operation("p2p", pair, vector / own.tp, _by_library(on, P2P, vector / own.tp, pair)),
            own.pp - 1,
        )
    if own.tp > 1:
        logits = min(tokens, own.tokens) * shape.vocab * WIDTHS[REDUCED]
        yield _operation("all-gather", tp, logits, _by_library(on, AG, logits, tp)), 1


def _operation(name: str, group: GroupSpec, size: float, found: ServedCall) -> ServedOperation:
    return ServedOperation(
        operation=name,
        ranks=group.ranks or 0,
        stride=group.stride,
        bytes=size,
        kernel=found.kernel,
        why=found.why,
        each_s=found.seconds,
        wire=found.wire,
        error=found.error,
        notes=found.notes,
        interval=found.interval,
    )


def _tokens(shape: Shape, own: Deployment, tokens: int) -> Tokens:
    assert shape.moe is not None
    groups = (
        shape.moe.top_groups
        if shape.moe.groups > 1 and shape.moe.top_groups < shape.moe.groups
        else 0
    )
    nodes = groups if groups and own.ep >= shape.moe.groups else 0
    return Tokens(tokens, shape.moe.top_k, shape.hidden, shape.moe.experts, REDUCED, nodes)


def _reduced(on: ServedOn, size: float, group: GroupSpec) -> ServedCall:
    """By the engine's kernel, else by the fabric's library."""
    if on.engine is None or "all_reduce" not in on.engine.library.operations:
        return _by_library(on, AR, size, group)
    found = price_kernels(on.engine, on.fabric, "all_reduce", size, group)
    choice, best = found.library, found.best
    assert choice is not None
    return _by_kernel(best, best.kernel, choice.reason)


def _by_kernel(best: KernelEstimate, name: str, why: str) -> ServedCall:
    return ServedCall(
        seconds=best.total_s,
        kernel=name,
        why=why,
        wire=best.wire,
        error=best.error,
        notes=best.notes,
        interval=best.interval,
    )


def _by_library(on: ServedOn, primitive: Primitive, size: float, group: GroupSpec) -> ServedCall:
    fabric = on.fabric
    found = price(fabric, primitive, float(size), group)
    if fabric.library_name == "nccl":
        told = price_for_user(found, fabric, Readings())
    else:
        told = judged(found, fabric, found.group.spec, Readings())
    best = told.best
    picked = told.library.pick if told.library is not None else None
    why = "NCCL's pick" if picked is not None else "the fastest that runs"
    wire = best.phases[-1].tier if best.phases else ""
    return ServedCall(
        float(best.total_s),
        f"{fabric.library_name} {best.title}",
        why,
        wire,
        interval=best.interval,
    )


def _exchanged(on: ServedOn, name: str, what: Tokens, group: GroupSpec) -> tuple[float, ServedCall]:
    """Bytes that leave a rank, and the kernel: the library asked for, else the fastest that was
    measured on the machine."""
    if on.by_nccl:
        size = what.tokens * what.top_k * what.hidden * WIDTHS[what.dtype]
        return size, _by_library(on, A2A, size, group)
    found = price_experts(on.experts, on.fabric, name, what, group)
    best = found.best
    why = "the faster of its modes" if on.experts else "the fastest measured on this machine"
    return best.bytes, _by_kernel(best, f"{best.library} {best.kernel}", why)


def _kv(
    model: TransformerModel,
    own: Deployment,
    question: ServeQuestion,
    on: ServedOn,
    prefill: ServedPhase,
) -> KvTransfer | None:
    """The cache of one prompt from the machines of prefill to those of decode, over all pairs of
    ranks at once."""
    if question.prefill_tp is None:
        return None
    pairs = min(question.prefill_tp, own.tp)
    size = kv_bytes(model, own.kv_dtype) * own.input
    where = where_of(on.fabric, GroupSpec(2, own.tp) if own.tp * 2 <= on.fabric.ranks else None)
    assert question.kv is not None
    across = place(on.fabric, None).spans[-1].tier
    nic = capabilities_of(across).rate_Bps
    found = ground(question.kv.library, "kv_transfer", where._replace(nodes=2, ranks_a_node=1))
    kernel = found.kernels[0]
    times = FORMULAS[kernel.formula].of(kernel.parameters, KernelCall(pairs, size, 0, nic))
    layer = times.bandwidth_s / model.layers
    # a layer's cache travels while the next is computed; what is left is the last one
    computed = None if prefill.floor_s is None else prefill.floor_s / model.layers
    hides = computed is not None and layer <= computed
    needed = (
        None
        if computed is None
        else size / model.layers / computed / pairs / kernel.parameters["eta"]
    )
    return KvTransfer(
        bytes=size,
        pairs=pairs,
        kernel=f"{question.kv.library.called} {kernel.name}",
        total_s=times.total_s,
        layer_s=layer,
        prefill_layer_s=computed,
        hidden=hides,
        exposed_s=times.latency_s + layer if hides else times.total_s,
        hiding_nic_Bps=needed,
        error=kernel.error,
        interval=kernel_interval(
            times.total_s, kernel.error, kernel.error_of, on_ground=pairs == 8
        ),
        notes=(*found.notes, *(() if pairs == 8 else (f"measured on 8 pairs, not on {pairs}",))),
    )
