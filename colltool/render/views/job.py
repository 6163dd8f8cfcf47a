"""``job show`` and ``job list``: what a job computes, sends and keeps; ``job check``: what was read.

Read from :data:`VIEWS`, at the end: a job (:func:`_answer`, :func:`_blocks`), the list of jobs
(``_list_*``), and the values that ``check`` echoes (:func:`_job_values`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

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
from colltool.render.views.checked_files import checked
from colltool.training.compute_times import StageTimes
from colltool.training.files.presets import PART_KINDS, preset_names
from colltool.training.flops import hardware_flops
from colltool.training.job import Job, PlainCall
from colltool.training.job_results import CheckedJob, JobList, JobsChecked, JobShown, SentBy
from colltool.training.memory import MemoryPart
from colltool.training.model import TransformerModel, active_parameters
from colltool.training.parallel_config import Axes, ParallelConfig, ParallelLayout
from colltool.training.pipeline_stages import PipelineStage, ends_as_layers
from colltool.training.sentences import tokens_text


def numbers_text(numbers: tuple[int, ...]) -> str:
    """Stages of a pipeline: ``0``, ``0-3`` or ``0,2``."""
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


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
    label("stages", drop=4, get=lambda sender: numbers_text(sender.stages)),
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


def _table(result: JobShown) -> Table:
    columns = (*context(job=result.job.name), *_SENT)
    return Table(columns, result.sent, title="sent per rank and step")


def _blocks(result: JobShown) -> Iterator[Block]:
    yield Headline(_answer(result))
    yield _table(result)._replace(first=_MOST_CALLS)
    if result.plain:
        yield Table(_PLAIN, result.plain, title="plain calls")
    yield Lines(result.job.description or "the job", list(_facts(result)), first=0)
    compute = _compute(result)
    yield from listed("compute per micro-batch, without communication", compute, first=0)
    memory = result.memory
    if memory is not None:
        worst = []
        for part in memory.parts:
            if part.stage == memory.worst_stage:
                worst.append(f"{part.part} {format_bytes(part.bytes, 3)}")
        title = f"memory per GPU on stage {memory.worst_stage}, which needs most"
        yield Lines(title, worst, first=0)


def _answer(result: JobShown) -> str:
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
        return f"{text} It fits, tight ({share}): {needs}{_change(result, 'gives it room')}."
    if memory.fits:
        return f"{text} It fits: {needs}."
    change = _change(result, "makes it fit") or (
        "; no other sharding, recomputation or layout of these ranks makes it fit, so take more ranks"
    )
    return f"{text} It does not fit: {needs}{change}."


def _change(result: JobShown, does: str) -> str:
    """What to set against a lack of memory, and the memory it then needs: ``; --job-set layout.tp=4
    makes it fit (60 GB)``. Empty where nothing helps."""
    if result.cure is None:
        return ""
    values, size = result.cure
    typed = to_type(values, "--job-set", "overrides")
    return f"; {typed} {does} ({format_bytes(size, 3)})"


def to_type(values: Iterable[tuple[str, str]], option: str, keyword: str) -> str:
    """What sets these values: ``--job-set layout.tp=4``, or as a keyword of a Python function."""
    pairs = list(map("=".join, values))
    shell = " ".join(f"{option} {pair}" for pair in pairs)
    return localize(either(shell=shell, python=f"{keyword}={pairs!r}"))


def _facts(result: JobShown) -> Iterator[str]:
    setup = result.setup
    yield f"{setup.layout.ranks} ranks: {layout_text(setup)}"
    if setup.model is not None:
        yield _model_text(result.job)
        yield _batch_text(setup)
        yield _strategy_text(setup)
    if setup.device is not None and setup.stack is not None:
        yield f"{setup.device.name} under {setup.stack.name}, GEMMs in {setup.precision.compute}"
    if result.flops is not None:
        text = f"{result.flops:.4g} model FLOPs per step (with the causal half of attention)"
        again = hardware_flops(setup) / result.flops - 1
        yield f"{text}, and {whole_percent(again)} more for recomputation" if again else text


def _batch_text(setup: ParallelConfig) -> str:
    sequences = counted(setup.global_batch, "sequence")
    tokens = f"{tokens_text(setup.global_batch * setup.sequence)} tokens"
    micro = f"{setup.micro_batches} micro-batches of {counted(setup.micro_batch, 'sequence')}"
    return f"sequence {setup.sequence}, global batch {sequences} ({tokens}); {micro}"


def _strategy_text(setup: ParallelConfig) -> str:
    text = f"schedule {setup.schedule}, {setup.shard.mode}, recompute {setup.recompute}"
    if setup.optimizer != "adam":
        text += f", {setup.optimizer} optimizer"
    if setup.lora > 0:
        text += f", LoRA of rank {setup.lora}"
    for what, share in setup.offload._asdict().items():
        if share:
            text += f", {whole_percent(share)} of {what} on the host"
    return text


def layout_text(setup: ParallelConfig) -> str:
    """Such as ``tp 8 (sp) x pp 4 x dp 16, virtual 5``."""
    layout = setup.layout
    parts = []
    for dimension in ("tp", "cp", "pp", "dp"):
        size = getattr(layout, dimension)
        if size == 1:
            continue
        part = f"{dimension} {size}"
        # sequence parallelism splits over the same ranks
        if dimension == "tp" and layout.sp:
            part += " (sp)"
        parts.append(part)
    text = " x ".join(parts) or "one rank"
    for name in ("ep", "etp", "virtual"):
        size = getattr(layout, name)
        if size > 1:
            text += f", {name} {size}"
    if ends_as_layers(setup):
        text += ", embedding and head count as layers"
    return text


def _model_text(job: Job) -> str:
    """Such as ``llama3-70b: 80 layers, 70.55B parameters``."""
    model = job.draft.model
    if model is None:
        return "no model"
    text = f"{model.name}: {model.layers} layers, {_billions(model.parameters)} parameters"
    active = active_parameters(model)
    if active != model.parameters:
        text += f", {_billions(active)} of them active"
    shape = model.shape
    if shape is not None and shape.window:
        text += f", windows of {shape.window} in {round(shape.windowed * model.layers)} layers"
    return text


def _compute(result: JobShown) -> Iterator[str]:
    """A line for all stages that compute alike."""
    alike: dict[str, list[int]] = {}
    for entry in result.times:
        times = entry.all
        # the text is the key: stages that compute alike share it
        text = f"({_stage_text(entry.stage)}): forward {format_time(times.forward_s)}"
        text += f", backward {format_time(times.backward_s)}"
        if times.again_s:
            text += f", recomputation {format_time(times.again_s)}"
        alike.setdefault(text, []).append(entry.stage.number)
    for text, stages in alike.items():
        noun = "stages" if len(stages) > 1 else "stage"
        yield f"{noun} {numbers_text(tuple(stages))} {text}"


def _stage_text(stage: PipelineStage) -> str:
    text = counted(stage.layers, "layer")
    if stage.embedding:
        text += ", embedding"
    if stage.head:
        text += ", head"
    return text


def memory_parts(result: Any) -> tuple[MemoryPart, ...]:
    """The memory of each stage by its parts; empty where it is not known."""
    return result.memory.parts if result.memory else ()


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
    memory: list[MemoryPart] = derived(memory_parts)
    memory_bytes: float | None = derived("memory.bytes")
    worst_stage: int | None = derived("memory.worst_stage")
    capacity_bytes: float | None = derived("memory.capacity_bytes")
    fits: bool | None = derived("memory.fits")
    tight: bool | None = derived("memory.tight")
    # nine runs in ten take from 1 - this to 1 + this of memory_bytes
    memory_within: float | None = derived("memory.within")


def _with_dp(job: Job) -> ParallelConfig:
    # 0 is what a file says whose dp follows from the number of ranks
    layout = job.draft.layout
    return job.draft._replace(layout=layout._replace(dp=max(1, layout.dp)))


def _billions(parameters: float) -> str:
    return f"{parameters / 1e9:.4g}B"


_LIST: Columns[Job] = (
    label("name"),
    label("model", path="model_name"),
    number("parameters", "parameters", _billions, path="draft.model.parameters"),
    label("layout", drop=1, get=lambda job: layout_text(_with_dp(job))),
    label("description", drop=2),
)


def _list_table(result: JobList) -> Table:
    return Table(_LIST, result.jobs)


def _list_blocks(result: JobList) -> list[Block]:
    presets = tuple(f"{kind}: {', '.join(preset_names(kind))}" for kind in PART_KINDS)
    jobs = counted(len(result.jobs), "job")
    use = localize(
        either(
            shell=f"colltool plan {result.jobs[0].name} -f dgx-h100 plans one",
            python=f'colltool.plan("{result.jobs[0].name}", "dgx-h100") plans one',
        )
    )
    return [
        Headline(f"{jobs} ship: {use}."),
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


def _job_values(check: CheckedJob) -> Iterator[str]:
    draft = check.job.draft
    yield _model_text(check.job)
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
    JobsChecked: checked("job", _job_values),
}
