"""``job show`` and ``job list``: what a job computes, sends and keeps."""

from __future__ import annotations

from typing import Any

from colltool.base.errors import either, said
from colltool.base.formatting import counted, format_bytes, format_count, format_time, whole_bytes, whole_percent
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.view import Document, View, fields, on_fabric, plain, set_field
from colltool.training.files.presets import PARTS, preset_names
from colltool.training.job import Job, PlainCall
from colltool.training.job_results import JobList, JobShown, SentBy
from colltool.training.model import active_parameters
from colltool.training.operations import hardware_flops
from colltool.training.parallel_config import ParallelConfig, RankGroup, ends_as_layers


def numbers_text(numbers: tuple[int, ...]) -> str:
    """Stages of a pipeline: ``0``, ``0-3`` or ``0,2``."""
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


_MOST_CALLS = 10
_SENT = (
    label("job", "job", get=lambda one: one[0].job.name, hidden=True),
    label("dimension", "dimension", get=lambda one: one[1].call.dimension),
    label("phase", "phase", drop=1, get=lambda one: one[1].call.phase),
    label("primitive", "primitive", lambda primitive: primitive.spoken, get=lambda one: one[1].call.primitive),
    number("ranks", "ranks", get=lambda one: one[1].call.group.ranks),
    number("stride", "stride", drop=2, get=lambda one: one[1].call.group.stride),
    number("bytes", "bytes a call", format_bytes, get=lambda one: one[1].call.bytes),
    number("calls", "calls a step", format_count, get=lambda one: one[1].call.calls),
    label("per", "every", drop=5, get=lambda one: one[1].call.per.replace("_", "-")),
    label("hides", "may hide under", drop=3, get=lambda one: one[1].call.hides),
    label("stages", "stages", drop=4, get=lambda one: numbers_text(one[1].stages)),
    label("source", "source", drop=6, get=lambda one: one[1].call.source, hidden=True),
)
_PLAIN = (
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    label("dimension", "group"),
    number("ranks", "ranks", get=lambda one: one.group.ranks),
    number("bytes", "bytes a call", format_bytes),
    number("calls", "calls a step"),
    number("time_s", "known time", format_time),
)


def _table(result: JobShown) -> Table:
    return Table(_SENT, tuple((result, one) for one in result.sent), None, "what a rank sends in a step")


def _blocks(result: JobShown) -> list[Block]:
    out: list[Block] = [Headline(_answer(result)), _table(result)._replace(first=_MOST_CALLS)]
    out += [Table(_PLAIN, result.plain, None, "plain calls")] if result.plain else []
    detail: list[Block] = [Lines(result.job.description or "the job", tuple(_facts(result)))]
    if result.times:
        detail.append(Lines("compute of a micro-batch, nothing sent", tuple(_compute(result))))
    if result.memory is not None:
        worst = (part for part in result.memory.parts if part.stage == result.memory.worst_stage)
        title = f"memory of a rank on stage {result.memory.worst_stage}, the worst"
        detail.append(Lines(title, tuple(f"{part.part} {format_bytes(part.bytes, 3)}" for part in worst)))
    return [*out, *map(later, detail)]


def _answer(result: JobShown) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    text, kept = f"{name} on {result.setup.layout.ranks} ranks: {layout_text(result.setup)}.", result.memory
    if kept is None:
        return text
    room = "" if kept.capacity_bytes is None else f" of {format_bytes(kept.capacity_bytes, 3)}"
    needs = f"{format_bytes(kept.bytes, 3)}{room} on the worst stage, {kept.worst_stage}, most of it {kept.binds}"
    if kept.fits is not False:
        return f"{text} {'It fits: ' if kept.fits else 'It needs '}{needs}."
    if result.cure is None:
        cure = "no other sharding, recomputation or layout of these ranks makes it fit: take more ranks"
    else:
        pairs = [f"{key}={value}" for key, value in result.cure[0]]
        shell = " ".join(f"--job-set {pair}" for pair in pairs)
        cure = f"{said(either(shell=shell, python=f'overrides={pairs!r}'))} fits, with {format_bytes(result.cure[1], 3)}"
    return f"{text} It does not fit: {needs}; {cure}."


def _facts(result: JobShown) -> list[str]:
    setup = result.setup
    lines = [f"{setup.layout.ranks} ranks: {layout_text(setup)}"]
    if setup.model is not None:
        lines.append(model_text(result.job))
        tokens = setup.global_batch * setup.sequence
        of = f"micro-batches: {setup.micro_batches} of {counted(setup.micro_batch, 'sequence')}"
        lines.append(f"{counted(setup.global_batch, 'sequence')} of {setup.sequence} a step, {tokens / 1e6:.4g}e6 tokens; {of}")
        lines.append(f"schedule {setup.schedule}, {setup.shard.mode}, recompute {setup.recompute}")
    if setup.device is not None and setup.stack is not None:
        lines.append(f"{setup.device.name} under {setup.stack.name}, GEMMs in {setup.precision.compute}")
    if result.flops is not None:
        again = hardware_flops(setup) / result.flops - 1
        more = f", {whole_percent(again)} more computed again" if again else ""
        lines.append(f"{result.flops:.4g} FLOPs a step that the model needs (the causal half of attention){more}")
    return lines


def layout_text(setup: ParallelConfig) -> str:
    """Such as ``tp 8 (sp) x pp 4 x dp 16, virtual 5``."""
    layout = setup.layout
    sizes = (("tp", layout.tp), ("cp", layout.cp), ("pp", layout.pp), ("dp", layout.dp))
    parts = [f"{name} {size}" for name, size in sizes if size > 1]
    text = " x ".join(parts) or "one rank"
    if layout.sp:
        text = text.replace(f"tp {layout.tp}", f"tp {layout.tp} (sp)", 1)
    extra = [f"ep {layout.ep}"] * (layout.ep > 1) + [f"etp {layout.etp}"] * (layout.etp > 1)
    extra += [f"virtual {layout.virtual}"] * (layout.virtual > 1)
    if ends_as_layers(setup):
        extra.append("the embedding and the head in the place of a layer each")
    return ", ".join((text, *extra))


def model_text(job: Job) -> str:
    """Such as ``llama3-70b: 80 layers, 70.55e9 parameters``."""
    model = job.draft.model
    if model is None:
        return "no model"
    text = f"{model.name}: {model.layers} layers, {model.parameters / 1e9:.4g}e9 parameters"
    active = active_parameters(model)
    text += f", {active / 1e9:.4g}e9 of them active" if active != model.parameters else ""
    shape = model.shape
    if shape is not None and shape.window:
        text += f", windows of {shape.window} in {round(shape.windowed * model.layers)} layers"
    return text


def _compute(result: JobShown) -> list[str]:
    found: dict[str, list[int]] = {}
    for one in result.times:
        parts = f"forward {format_time(one.all.forward_s)}, backward {format_time(one.all.backward_s)}"
        again = f", computed again {format_time(one.all.again_s)}" if one.all.again_s else ""
        ends = [word for word, there in (("embedding", one.stage.embedding), ("head", one.stage.head)) if there]
        held = ", ".join((counted(one.stage.layers, "layer"), *ends))
        found.setdefault(f"({held}): {parts}{again}", []).append(one.stage.number)
    return [f"stage{'s' * (len(stages) > 1)} {numbers_text(tuple(stages))} {text}" for text, stages in found.items()]


def _document(result: JobShown) -> Document:
    setup = result.setup
    head = {"job": result.job.name} | set_field(result.job.overrides) | {"ranks": setup.layout.ranks}
    kept = result.memory
    return head | {
        "layout": setup.layout._asdict() | {"order": list(setup.layout.order), "stages": list(setup.layout.stages)},
        "model": _model(result.job),
        "micro_batches": setup.micro_batches,
        "model_flops": result.flops,
        "collectives": [_sent(one) for one in result.sent],
        "calls": [_plain(one) for one in result.plain],
        "compute": [
            {"stage": one.stage.number, "layers": one.stage.layers} | one.all._asdict() for one in result.times
        ],
        "memory": plain(kept.parts) if kept else [],
        "memory_bytes": kept.bytes if kept else None,
        "worst_stage": kept.worst_stage if kept else None,
        "capacity_bytes": kept.capacity_bytes if kept else None,
        "fits": kept.fits if kept else None,
    }  # fmt: skip


def _model(job: Job) -> Document | None:
    model = job.draft.model
    if model is None:
        return None
    return {"name": model.name, "layers": model.layers, "parameters": model.parameters,
            "active_parameters": active_parameters(model)}  # fmt: skip


def _sent(one: SentBy) -> Document:
    call = one.call
    return {
        "dimension": call.dimension,
        "primitive": str(call.primitive),
        "group": _group(call.group),
        "bytes": whole_bytes(call.bytes),
        "calls": whole_bytes(call.calls),
        **fields(call, "per phase hides"),
        "stages": list(one.stages),
        "source": call.source,
    }


def _group(group: RankGroup) -> Document:
    return fields(group, "ranks stride") | {"axes": [list(axis) for axis in group.axes]}


def _plain(one: PlainCall) -> Document:
    return {"primitive": str(one.primitive), "dimension": one.dimension, "group": _group(one.group),
            "bytes": whole_bytes(one.bytes)} | fields(one, "calls time_s")  # fmt: skip


_LIST = (
    label("name", "name"),
    label("model", "model", get=lambda one: one.model_name),
    number("parameters", "parameters", lambda value: f"{value / 1e9:.4g}e9", get=lambda one: _of_model(one, "parameters")),
    label("layout", "layout", drop=1, get=lambda one: layout_text(one.draft._replace(layout=_with_dp(one)))),
    label("description", "description", drop=2),
)


def _of_model(job: Job, field: str) -> Any:
    return getattr(job.draft.model, field) if job.draft.model else None


def _with_dp(job: Job) -> Any:
    return job.draft.layout._replace(dp=max(1, job.draft.layout.dp))


def _list_table(result: JobList) -> Table:
    return Table(_LIST, result.jobs)


def _list_blocks(result: JobList) -> list[Block]:
    named = tuple(f"{kind}: {', '.join(preset_names(kind))}" for kind in PARTS)
    return [_list_table(result), Lines("a job file may also name", named)]


def _list_document(result: JobList) -> Document:
    rows = [fields(one, "name description") | {"model": _model(one), "ranks": one.draft.layout.ranks or None}
            for one in result.jobs]  # fmt: skip
    return {"jobs": rows} | {kind: preset_names(kind) for kind in PARTS}


def _list_summary(result: JobList) -> str:
    return f"{counted(len(result.jobs), 'job')}: {', '.join(one.name for one in result.jobs)}"


VIEWS = {
    JobShown: View("job-show", _blocks, _document, _table, _answer),
    JobList: View("job-list", _list_blocks, _list_document, _list_table, _list_summary),
}
