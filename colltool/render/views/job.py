"""``job show`` and ``job list``: what a job computes, sends and keeps; ``job check``: what was read.

Three parts: a job (:func:`_answer`, :func:`_blocks`) and its document, the list of jobs
(``_list_*``), and the values that ``check`` echoes (:func:`_job_values`).

A job's ``draft`` is what its file says, a result's ``setup`` the same with the ranks of this run. Memory is
that of a GPU on the stage that needs most; ``fits`` and ``capacity_bytes`` are None where no device is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_count,
    format_time,
    whole_percent,
)
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, columns_at, label, number
from colltool.render.dispatch import View, context, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.shared_documents import whole
from colltool.render.views.checked_files import view_of_checks
from colltool.render.views.job_words import (
    billions,
    layout_text,
    model_text,
    stages_text,
    to_type,
)
from colltool.training.compute_times import StageTimes
from colltool.training.files.presets import PART_KINDS, preset_names
from colltool.training.flops import hardware_flops
from colltool.training.job import Job, PlainCall
from colltool.training.job_results import CheckedJob, JobList, JobsChecked, JobShown, SentBy
from colltool.training.memory import MemoryPart
from colltool.training.model import TransformerModel, active_parameters
from colltool.training.parallel_config import Axes, ParallelConfig, ParallelLayout
from colltool.training.pipeline_stages import PipelineStage
from colltool.training.sentences import tokens_text

_MOST_CALLS = 10  # rows without --all
_SENT: Columns[SentBy] = (
    *columns_at(
        "call",
        (
            label("dimension"),
            label("phase", drop=1),
            label("primitive", "primitive", attrgetter("label")),
            number("ranks", path="group.ranks"),
            number("stride", drop=2, path="group.stride"),
            number("bytes", "bytes per call", format_bytes),
            number("calls", "calls per step", format_count),
            label("per", "once per", drop=5, get=lambda sender: sender.call.per.replace("_", "-")),
            label("hides", "may hide under", drop=3),
        ),
    ),
    label("stages", drop=4, get=lambda sender: stages_text(sender.stages)),
    label("source", drop=6, path="call.source", hidden=True),
)
_PLAIN: Columns[PlainCall] = (
    label("primitive", "primitive", attrgetter("label")),
    label("dimension", "group"),
    number("ranks", path="group.ranks"),
    number("bytes", "bytes per call", format_bytes),
    number("calls", "calls per step"),
    number("time_s", "known time"),
)


# --- a job


def _table(result: JobShown) -> Table:
    columns = (*context(job=result.job.name), *_SENT)
    return Table(columns, result.sent, title="sent per rank and step")


def _blocks(result: JobShown) -> Iterator[Block]:
    """The answer and what is sent first; the job, compute and memory after them."""
    yield Headline(_answer(result))
    yield _table(result)._replace(first=_MOST_CALLS)
    if result.plain:
        yield Table(_PLAIN, result.plain, title="plain calls")
    yield Lines(result.job.description or "the job", list(_facts(result)), first=0)
    compute = _compute(result)
    yield from listed("compute per micro-batch, without communication", compute, first=0)
    memory = result.memory
    if memory is not None:
        sizes = []
        for part in memory.parts:
            if part.stage == memory.worst_stage:
                sizes.append(f"{part.part} {format_bytes(part.bytes, 3)}")
        title = f"memory per GPU on stage {memory.worst_stage}, which needs most"
        yield Lines(title, sizes, first=0)


def _answer(result: JobShown) -> str:
    """The job's layout, and whether its worst stage fits the memory of the device."""
    name = on_fabric(result.job.name, result.job.overrides)
    text = f"{name} on {result.setup.layout.ranks} ranks: {layout_text(result.setup)}."
    memory = result.memory
    if memory is None:
        return text
    needs = format_bytes(memory.bytes, 3)
    if memory.capacity_bytes is not None:
        needs += f" of {format_bytes(memory.capacity_bytes, 3)}"
    needs += f" per GPU on stage {memory.worst_stage}, mostly {memory.binds}"
    if memory.fits is None:
        return f"{text} It needs {needs}."
    if memory.tight and memory.share is not None:
        share = f"{whole_percent(memory.share)} +-{whole_percent(memory.within)}"
        return f"{text} It fits, tight ({share}): {needs}{_cure(result, 'gives it room')}."
    if memory.fits:
        return f"{text} It fits: {needs}."
    cure = _cure(result, "makes it fit") or (
        "; no other sharding, recomputation or layout of these ranks makes it fit, so take more ranks"
    )
    return f"{text} It does not fit: {needs}{cure}."


def _cure(result: JobShown, effect: str) -> str:
    """What to set against a lack of memory, and the bytes that the job then needs: ``; --job-set layout.tp=4
    makes it fit (60 GB)``, where ``effect`` is ``makes it fit``. Empty where nothing helps."""
    if result.cure is None:
        return ""
    values, size = result.cure
    return f"; {to_type(values, '--job-set', 'overrides')} {effect} ({format_bytes(size, 3)})"


def _facts(result: JobShown) -> Iterator[str]:
    """Lines on the layout, the model, the batch, the device and the work of a step."""
    setup = result.setup
    yield f"{setup.layout.ranks} ranks: {layout_text(setup)}"
    if setup.model is not None:
        yield model_text(result.job)
        yield _batch_text(setup)
        yield _strategy_text(setup)
    if setup.device is not None and setup.stack is not None:
        yield f"{setup.device.name} under {setup.stack.name}, GEMMs in {setup.precision.compute}"
    if result.flops is not None:
        text = f"{result.flops:.4g} model FLOPs per step (with the causal half of attention)"
        recomputed = hardware_flops(setup) / result.flops - 1
        if recomputed:
            text += f", and {whole_percent(recomputed)} more for recomputation"
        yield text


def _batch_text(setup: ParallelConfig) -> str:
    """``sequence 8192, global batch 1024 sequences (8.4M tokens); 16 micro-batches of 1 sequence``."""
    sequences = counted(setup.global_batch, "sequence")
    tokens = f"{tokens_text(setup.global_batch * setup.sequence)} tokens"
    micro = f"{setup.micro_batches} micro-batches of {counted(setup.micro_batch, 'sequence')}"
    return f"sequence {setup.sequence}, global batch {sequences} ({tokens}); {micro}"


def _strategy_text(setup: ParallelConfig) -> str:
    """``schedule 1f1b, zero1, recompute none``, then what differs from the usual."""
    text = f"schedule {setup.schedule}, {setup.shard.mode}, recompute {setup.recompute}"
    if setup.optimizer != "adam":
        text += f", {setup.optimizer} optimizer"
    if setup.lora > 0:
        text += f", LoRA of rank {setup.lora}"
    # the share of weights, of gradients and so on that is kept on the host
    for tensors, share in setup.offload._asdict().items():
        if share:
            text += f", {whole_percent(share)} of {tensors} on the host"
    return text


def _compute(result: JobShown) -> Iterator[str]:
    """Lines on the stages' seconds a micro-batch, one for all stages that have the same text."""
    stages_by_text: dict[str, list[int]] = {}
    for stage_times in result.times:
        times = stage_times.all
        text = f"({_stage_text(stage_times.stage)}): forward {format_time(times.forward_s)}"
        text += f", backward {format_time(times.backward_s)}"
        if times.again_s:
            text += f", recomputation {format_time(times.again_s)}"
        stages_by_text.setdefault(text, []).append(stage_times.stage.number)
    for text, stages in stages_by_text.items():
        noun = "stages" if len(stages) > 1 else "stage"
        yield f"{noun} {stages_text(tuple(stages))} {text}"


def _stage_text(stage: PipelineStage) -> str:
    """``20 layers, embedding``."""
    text = counted(stage.layers, "layer")
    if stage.embedding:
        text += ", embedding"
    if stage.head:
        text += ", head"
    return text


# --- its document


class ModelSizeDocument(Document, of=TransformerModel):
    """The model of a job."""

    name: str
    layers: int
    parameters: float
    active_parameters: float = derived(active_parameters)


class RankGroupDocument(Document):
    """Ranks of a job that send to each other."""

    ranks: int
    stride: int
    axes: Axes


class SentDocument(Document, of=SentBy, at="call"):
    """A collective of a step."""

    dimension: str
    primitive: str
    group: RankGroupDocument = derived(lambda sender: RankGroupDocument.of(sender.call.group))
    bytes: float = whole("call.bytes")
    calls: float = whole("call.calls")
    per: str
    phase: str
    hides: str
    stages: list[int] = derived("stages")
    source: str


class PlainCallDocument(Document, extends=PlainCall):
    """A collective that the job lists itself."""

    group: RankGroupDocument = derived(lambda call: RankGroupDocument.of(call.group))
    bytes: float = whole("bytes")


class ComputeDocument(Document, of=StageTimes, at="all"):
    """Compute of a stage in a micro-batch."""

    stage: int = derived("stage.number")
    layers: int = derived("stage.layers")
    forward_s: float
    backward_s: float
    again_s: float
    weight_s: float


class JobShowDocument(Document):
    """What a job computes, sends and keeps."""

    job: str = derived("job.name")
    set: dict[str, str] = optional(lambda result: dict(result.job.overrides) or LEFT_OUT)
    ranks: int = derived("setup.layout.ranks")
    layout: ParallelLayout = derived("setup.layout")
    model: ModelSizeDocument | None = derived("job.draft.model")
    micro_batches: int = derived("setup.micro_batches")
    model_flops: float | None = derived("flops")
    collectives: list[SentDocument] = derived("sent")
    calls: list[PlainCallDocument] = derived("plain")
    compute: list[ComputeDocument] = derived("times")
    memory: list[MemoryPart] = derived(lambda result: result.memory.parts if result.memory else ())
    memory_bytes: float | None = derived("memory.bytes")
    worst_stage: int | None = derived("memory.worst_stage")
    capacity_bytes: float | None = derived("memory.capacity_bytes")
    fits: bool | None = derived("memory.fits")
    tight: bool | None = derived("memory.tight")
    # nine runs in ten take from 1 - this to 1 + this of memory_bytes
    memory_within: float | None = derived("memory.within")


# --- the list of jobs


def _with_dp(job: Job) -> ParallelConfig:
    """A job's configuration with a dp of at least 1, for its words: where dp follows from the number of
    ranks, a file has 0."""
    layout = job.draft.layout
    return job.draft._replace(layout=layout._replace(dp=max(1, layout.dp)))


_LIST: Columns[Job] = (
    label("name"),
    label("model", path="model_name"),
    number("parameters", "parameters", billions, path="draft.model.parameters"),
    label("layout", drop=1, get=lambda job: layout_text(_with_dp(job))),
    label("description", drop=2),
)


def _list_table(result: JobList) -> Table:
    return Table(_LIST, result.jobs)


def _list_blocks(result: JobList) -> list[Block]:
    """The jobs that ship, and the parts that a job's file may name."""
    presets = tuple(f"{kind}: {', '.join(preset_names(kind))}" for kind in PART_KINDS)
    jobs = counted(len(result.jobs), "job")
    example = localize(
        either(
            shell=f"colltool plan {result.jobs[0].name} -f dgx-h100 plans one",
            python=f'colltool.plan("{result.jobs[0].name}", "dgx-h100") plans one',
        )
    )
    return [
        Headline(f"{jobs} ship: {example}."),
        _list_table(result),
        Lines("a job file may also name", presets),
    ]


class JobOfListDocument(Document, of=Job):
    """A shipped job."""

    name: str
    description: str
    model: ModelSizeDocument | None = derived("draft.model")
    # 0 where the ranks are the user's choice
    ranks: int | None = derived(lambda job: job.draft.layout.ranks or None)


class JobListDocument(Document):
    """The shipped jobs, and the parts that a job's file may name."""

    jobs: list[JobOfListDocument]
    models: list[str] = derived(lambda _: preset_names("models"))
    devices: list[str] = derived(lambda _: preset_names("devices"))
    stacks: list[str] = derived(lambda _: preset_names("stacks"))


def _list_summary(result: JobList) -> str:
    return f"{counted(len(result.jobs), 'job')}: {', '.join(job.name for job in result.jobs)}"


# --- what was read of a job's file


def _job_values(check: CheckedJob) -> Iterator[str]:
    """Lines that echo a checked job: its model, layout and batch."""
    draft = check.job.draft
    yield model_text(check.job)
    layout = layout_text(_with_dp(check.job))
    yield layout if draft.layout.dp else f"{layout}, dp from the ranks"
    if draft.model:
        yield (
            f"{draft.global_batch} sequences of {draft.sequence} tokens, {draft.micro_batch} per"
            f" micro-batch, {draft.schedule}, {draft.shard.mode}"
        )


VIEWS = {
    JobShown: View("job-show", _blocks, JobShowDocument.of, _table, _answer),
    JobList: View("job-list", _list_blocks, JobListDocument.of, _list_table, _list_summary),
    JobsChecked: view_of_checks("job", _job_values),
}
