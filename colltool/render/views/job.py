"""``job show`` and ``job list``: what a job computes, sends and keeps; ``job check`` and
``fabric check``: what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import either, said
from colltool.base.formatting import (
    counted,
    format_bit_energy,
    format_bytes,
    format_count,
    format_length,
    format_rate,
    format_time,
    shape_text,
    whole_bytes,
    whole_percent,
)
from colltool.fabric.model import Tier
from colltool.fabric.properties import fabric_facts
from colltool.fabric.results import CheckedFabric, FabricsChecked
from colltool.fabric.topology import capabilities_of
from colltool.render.blocks import Block, Headline, Lines, Table, label, number
from colltool.render.dispatch import Document, View, context, fields, on_fabric, plain, set_field
from colltool.render.views.fabric_parts import library_text, part_lines, prices_text
from colltool.training.files.presets import PARTS, preset_names
from colltool.training.job import Job, PlainCall
from colltool.training.job_results import CheckedJob, JobList, JobsChecked, JobShown, SentBy
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
    label("dimension", "dimension", get=attrgetter("call.dimension")),
    label("phase", "phase", drop=1, get=attrgetter("call.phase")),
    label(
        "primitive",
        "primitive",
        attrgetter("spoken"),
        get=attrgetter("call.primitive"),
    ),
    number("ranks", "ranks", get=attrgetter("call.group.ranks")),
    number("stride", "stride", drop=2, get=attrgetter("call.group.stride")),
    number("bytes", "bytes a call", format_bytes, get=attrgetter("call.bytes")),
    number("calls", "calls a step", format_count, get=attrgetter("call.calls")),
    label("per", "every", drop=5, get=lambda row: row.call.per.replace("_", "-")),
    label("hides", "may hide under", drop=3, get=attrgetter("call.hides")),
    label("stages", "stages", drop=4, get=lambda row: numbers_text(row.stages)),
    label("source", "source", drop=6, get=attrgetter("call.source"), hidden=True),
)
_PLAIN = (
    label("primitive", "primitive", attrgetter("spoken")),
    label("dimension", "group"),
    number("ranks", "ranks", get=attrgetter("group.ranks")),
    number("bytes", "bytes a call", format_bytes),
    number("calls", "calls a step"),
    number("time_s", "known time", format_time),
)


def _table(result: JobShown) -> Table:
    return Table(
        (*context(job=result.job.name), *_SENT), result.sent, None, "what a rank sends in a step"
    )


def _blocks(result: JobShown) -> list[Block]:
    out: list[Block] = [Headline(_answer(result)), _table(result)._replace(first=_MOST_CALLS)]
    out += [Table(_PLAIN, result.plain, None, "plain calls")] if result.plain else []
    out.append(Lines(result.job.description or "the job", tuple(_facts(result)), first=0))
    if result.times:
        out.append(
            Lines("compute of a micro-batch, nothing sent", tuple(_compute(result)), first=0)
        )
    if (kept := result.memory) is not None:
        worst = tuple(
            f"{part.part} {format_bytes(part.bytes, 3)}"
            for part in kept.parts
            if part.stage == kept.worst_stage
        )
        out.append(
            Lines(f"memory of a rank on stage {kept.worst_stage}, the worst", worst, first=0)
        )
    return out


def _answer(result: JobShown) -> str:
    name = on_fabric(result.job.name, result.job.overrides)
    text, kept = (
        f"{name} on {result.setup.layout.ranks} ranks: {layout_text(result.setup)}.",
        result.memory,
    )
    if kept is None:
        return text
    room = "" if kept.capacity_bytes is None else f" of {format_bytes(kept.capacity_bytes, 3)}"
    needs = (
        f"{format_bytes(kept.bytes, 3)}{room} on the worst stage, {kept.worst_stage}, most of it"
        f" {kept.binds}"
    )
    if kept.fits is not False:
        return f"{text} {'It fits: ' if kept.fits else 'It needs '}{needs}."
    if result.cure is None:
        cure = (
            "no other sharding, recomputation or layout of these ranks makes it fit: take more"
            " ranks"
        )
    else:
        pairs = [f"{key}={value}" for key, value in result.cure[0]]
        shell = " ".join(f"--job-set {pair}" for pair in pairs)
        cure = (
            f"{said(either(shell=shell, python=f'overrides={pairs!r}'))} fits, with"
            f" {format_bytes(result.cure[1], 3)}"
        )
    return f"{text} It does not fit: {needs}; {cure}."


def _facts(result: JobShown) -> Iterator[str]:
    setup = result.setup
    yield f"{setup.layout.ranks} ranks: {layout_text(setup)}"
    if setup.model is not None:
        yield _model_text(result.job)
        tokens = f"{setup.global_batch * setup.sequence / 1e6:.4g}e6 tokens"
        of = f"micro-batches: {setup.micro_batches} of {counted(setup.micro_batch, 'sequence')}"
        yield (
            f"{counted(setup.global_batch, 'sequence')} of {setup.sequence} a step, {tokens}; {of}"
        )
        beside = [f"{setup.optimizer} optimizer"] * (setup.optimizer != "adam") + [
            f"LoRA of rank {setup.lora}"
        ] * (setup.lora > 0)
        beside += [
            f"{whole_percent(share)} of {what} on the host"
            for what, share in setup.offload._asdict().items()
            if share
        ]
        yield ", ".join(
            [
                f"schedule {setup.schedule}",
                setup.shard.mode,
                f"recompute {setup.recompute}",
                *beside,
            ]
        )
    if setup.device is not None and setup.stack is not None:
        yield f"{setup.device.name} under {setup.stack.name}, GEMMs in {setup.precision.compute}"
    if result.flops is not None:
        again = hardware_flops(setup) / result.flops - 1
        more = f", {whole_percent(again)} more computed again" if again else ""
        yield (
            f"{result.flops:.4g} FLOPs a step that the model needs (the causal half of"
            f" attention){more}"
        )


def layout_text(setup: ParallelConfig) -> str:
    """Such as ``tp 8 (sp) x pp 4 x dp 16, virtual 5``."""
    layout = setup.layout
    names = {"tp": f"tp {layout.tp}{' (sp)' if layout.sp else ''}"}
    parts = [
        names.get(name, f"{name} {size}")
        for name in ("tp", "cp", "pp", "dp")
        if (size := getattr(layout, name)) > 1
    ]
    extra = [
        f"{name} {size}" for name in ("ep", "etp", "virtual") if (size := getattr(layout, name)) > 1
    ]
    extra += ["the embedding and the head in the place of a layer each"] * ends_as_layers(setup)
    return ", ".join((" x ".join(parts) or "one rank", *extra))


def _model_text(job: Job) -> str:
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
    for entry in result.times:
        parts = f"forward {format_time(entry.all.forward_s)}, backward {format_time(entry.all.backward_s)}"
        again = f", computed again {format_time(entry.all.again_s)}" if entry.all.again_s else ""
        ends = [
            word
            for word, there in (("embedding", entry.stage.embedding), ("head", entry.stage.head))
            if there
        ]
        held = ", ".join((counted(entry.stage.layers, "layer"), *ends))
        found.setdefault(f"({held}): {parts}{again}", []).append(entry.stage.number)
    return [
        f"stage{'s' * (len(stages) > 1)} {numbers_text(tuple(stages))} {text}"
        for text, stages in found.items()
    ]


def _document(result: JobShown) -> Document:
    layout, kept = result.setup.layout, result.memory
    return (
        {"job": result.job.name, **set_field(result.job.overrides), "ranks": layout.ranks}
        | {"layout": plain(layout), "model": _model(result.job)}
        | {"micro_batches": result.setup.micro_batches, "model_flops": result.flops}
        | {
            "collectives": [_sent(call) for call in result.sent],
            "calls": [_plain(call) for call in result.plain],
        }
        | {
            "compute": [
                {"stage": entry.stage.number, "layers": entry.stage.layers} | entry.all._asdict()
                for entry in result.times
            ]
        }
        | {"memory": plain(kept.parts) if kept else [], "memory_bytes": kept and kept.bytes}
        | {name: kept and getattr(kept, name) for name in ("worst_stage", "capacity_bytes", "fits")}
    )


def _model(job: Job) -> Document | None:
    model = job.draft.model
    if model is None:
        return None
    return {
        "name": model.name,
        "layers": model.layers,
        "parameters": model.parameters,
        "active_parameters": active_parameters(model),
    }


def _sent(sender: SentBy) -> Document:
    call = sender.call
    head = {
        "dimension": call.dimension,
        "primitive": str(call.primitive),
        "group": _group(call.group),
    }
    sizes = {"bytes": whole_bytes(call.bytes), "calls": whole_bytes(call.calls)}
    return (
        head
        | sizes
        | fields(call, "per phase hides")
        | {
            "stages": list(sender.stages),
            "source": call.source,
        }
    )


def _group(group: RankGroup) -> Document:
    return fields(group, "ranks stride axes")


def _plain(call: PlainCall) -> Document:
    size = {"group": _group(call.group), "bytes": whole_bytes(call.bytes)}
    return fields(call, "primitive dimension") | size | fields(call, "calls time_s")


def _with_dp(job: Job) -> ParallelConfig:
    layout = job.draft.layout
    return job.draft._replace(layout=layout._replace(dp=max(1, layout.dp)))


_LIST = (
    label("name", "name"),
    label("model", "model", get=attrgetter("model_name")),
    number(
        "parameters",
        "parameters",
        lambda value: f"{value / 1e9:.4g}e9",
        get=lambda row: row.draft.model and row.draft.model.parameters,
    ),
    label("layout", "layout", drop=1, get=lambda row: layout_text(_with_dp(row))),
    label("description", "description", drop=2),
)


def _list_table(result: JobList) -> Table:
    return Table(_LIST, result.jobs)


def _list_blocks(result: JobList) -> list[Block]:
    return [
        _list_table(result),
        Lines(
            "a job file may also name",
            tuple(f"{kind}: {', '.join(preset_names(kind))}" for kind in PARTS),
        ),
    ]


def _list_document(result: JobList) -> Document:
    rows = [
        fields(job, "name description")
        | {
            "model": _model(job),
            "ranks": job.draft.layout.ranks or None,
        }
        for job in result.jobs
    ]
    return {"jobs": rows} | {kind: preset_names(kind) for kind in PARTS}


def _list_summary(result: JobList) -> str:
    return f"{counted(len(result.jobs), 'job')}: {', '.join(job.name for job in result.jobs)}"


class _Said(NamedTuple):
    file: str
    kind: str
    what: str
    where: str = ""
    why: str = ""


_CHECKED = (
    label("file", "file"),
    label("kind", "kind"),
    label("where", "where"),
    label("what", "what"),
    label("why", "why"),
)


def _checked(noun: str, values: Callable[[Any], Iterable[str]]) -> View:
    """The view of checked files: ``noun`` is what they are, ``values`` what was read from one."""

    def table(result: Any) -> Table:
        told = []
        for check in result.checks:
            told += [_Said(check.file, "value", line) for line in values(check)]
            told += [
                _Said(check.file, "warning", odd.what, odd.where, odd.why) for odd in check.warnings
            ]
        return Table(_CHECKED, tuple(told))

    def blocks(result: Any) -> list[Block]:
        odd = {
            check.file: [f"warning: {odd.where}: {odd.what} ({odd.why})" for odd in check.warnings]
            for check in result.checks
        }
        return [
            Lines(f"{check.file}: ok", (*values(check), *odd[check.file]))
            for check in result.checks
        ]

    def document(result: Any) -> Document:
        odd = [
            {"file": check.file} | fields(each, "where what why")
            for check in result.checks
            for each in check.warnings
        ]
        return {"valid": [check.file for check in result.checks], "warnings": odd}

    def summary(result: Any) -> str:
        odd = sum(len(check.warnings) for check in result.checks)
        warned = f", {counted(odd, 'warning')}" if odd else ""
        return (
            f"{counted(len(result.checks), noun)} ok{warned}:"
            f" {', '.join(check.file for check in result.checks)}"
        )

    return View(f"{noun}-check", blocks, document, table, summary)


def _of_job(check: CheckedJob) -> Iterator[str]:
    draft = check.job.draft
    yield _model_text(check.job)
    yield f"{layout_text(_with_dp(check.job))}{'' if draft.layout.dp else ', dp from the ranks'}"
    if draft.model:
        batch = (
            f"{draft.global_batch} sequences of {draft.sequence}, {draft.micro_batch} a"
            f" micro-batch, {draft.schedule}"
        )
        yield f"{batch}, {draft.shard.mode}"


def _of_fabric(check: CheckedFabric) -> Iterator[str]:
    fabric = check.fabric
    overhead = ", no launch overhead"
    if fabric.launch_overhead:
        overhead = f", launch overhead {format_time(fabric.launch_overhead)}"
    elif any(
        protocol.launch_s
        for tier in fabric.tiers
        if tier.library
        for protocol in tier.library.protocols
    ):
        overhead = ", launch as the library takes it"
    yield (
        f"{fabric.name}: {fabric.ranks}"
        f" ranks{overhead}{', hypothetical' if fabric.hypothetical else ''}"
    )
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        yield _tier_in_values(tier)
        yield from (f"{tier.name} {line}" for line in part_lines(tier, facts))
        if (sizing := capabilities_of(tier).sizing) is not None:
            rails = f"{sizing.rails} rails of {sizing.nics_per_rail} NICs an endpoint"
            yield f"{tier.name} sizing: {rails}, switches of {sizing.radix} ports"
    if fabric.library_facts:
        yield library_text(fabric.library_facts)
    if fabric.uncertainty:
        yield f"uncertainty: {', '.join(f'{key} {how}' for key, how in fabric.uncertainty.items())}"
    if fabric.prices:
        yield prices_text(fabric.prices)


def _tier_in_values(tier: Tier) -> str:
    """Such as
    ``ib: clos of 32, alpha 2 us to 8 us, cable 100 m, 50 GB/s, eta 1.2/0.8, 30 pJ/bit``."""
    data: dict[str, Any] = tier.model_dump(exclude_none=True)
    extent = shape_text(data["shape"]) if "shape" in data else str(tier.endpoints)
    alphas = [data["alpha"]] if "alpha" in data else [level["alpha"] for level in data["levels"]]
    alpha = " to ".join(dict.fromkeys(format_time(alpha) for alpha in (alphas[0], alphas[-1])))
    kind = capabilities_of(tier)
    cables = [level.cable_m for level in kind.classes]
    lengths = " to ".join(dict.fromkeys(format_length(cable) for cable in (cables[0], cables[-1])))
    cable = f"cable {lengths}, " if any(cables) else ""
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    energy = f", {format_bit_energy(tier.energy)}" if tier.energy is not None else ""
    post = f"post {format_time(tier.post)}, " if tier.post else ""
    eta = f"eta {tier.eta.alpha:g}/{tier.eta.beta:g}"
    return (
        f"{tier.name}: {kind.spoken} of {extent}, alpha {alpha}, {post}{cable}{rate}, {eta}{energy}"
    )


VIEWS = {
    JobShown: View("job-show", _blocks, _document, _table, _answer),
    JobList: View("job-list", _list_blocks, _list_document, _list_table, _list_summary),
    JobsChecked: _checked("job", _of_job),
    FabricsChecked: _checked("fabric", _of_fabric),
}
