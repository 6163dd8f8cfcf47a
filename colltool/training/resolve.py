"""A job file's values as a setup: named files are read, and defaults that follow from other keys filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from colltool.base.errors import ColltoolError, problems_of
from colltool.definitions.field_types import Part
from colltool.definitions.reader import Reading
from colltool.training.files.job import JobFile, OverlapFile, ShardFile
from colltool.training.files.schema import Schedule
from colltool.training.layout import ParallelLayout
from colltool.training.model import TransformerModel, transformer_of
from colltool.training.parallel_config import Compression, GivenTimes, Overlap, ParallelConfig, Precision, Shard
from colltool.training.presets import read_device, read_model, read_stack
from colltool.training.roofline import accelerator_of, stack_of
from colltool.training.strategies import SCHEDULES, default_schedule

F = TypeVar("F", bound=Part)


def draft(reading: Reading[JobFile], folder: Path) -> ParallelConfig | None:
    """dp is 0 where it is auto. None where something does not hold; it is then refused in the reading."""
    file = reading.model
    if file is None:
        return None
    named = _NamedParts(reading, folder)
    model = named.part("model", file.model, read_model, transformer_of)
    device = named.part("device", file.device, read_device, accelerator_of)
    stack = named.part("stack", file.stack, read_stack, stack_of)
    if named.failed:
        return None
    layout, compute = _layout(file, model), file.compute
    times = None
    if compute is not None:
        per_layer = compute.forward_per_layer is not None
        forward, backward = (
            (compute.forward_per_layer, compute.backward_per_layer) if per_layer else (compute.forward, compute.backward)
        )
        times = GivenTimes(float(forward or 0), float(backward or 0), per_layer)
    schedule = file.schedule or default_schedule(layout.virtual)
    return ParallelConfig(
        layout=layout,
        model=model,
        sequence=file.sequence or 1,
        global_batch=file.batch.global_ if file.batch else max(1, layout.dp),
        micro_batch=file.batch.micro if file.batch else 1,
        shard=shard_of(file.shard, layout, file.precision.grads),
        schedule=schedule,
        recompute=file.recompute,
        precision=Precision(*(getattr(file.precision, name) for name in Precision._fields)),
        device=device,
        stack=stack,
        overlap=overlap_of(file.overlap, layout, schedule, 0.0 if stack is None else stack.slowed),
        compression=_compression(file),
        compute=times,
        slower=file.slower or 1.0,
    )


def lacking(reading: Reading[JobFile]) -> bool:
    """Whether a job leaves out what it cannot do without, each refused in the reading."""
    file = reading.model
    if file is None:
        return True
    wanted: list[tuple[str, str, str]] = []
    if file.model is None and file.compute is None and not file.calls:
        wanted.append(("model", "a job has a model, given times or plain calls", "model: llama3-70b"))
    if file.model is not None:
        wanted += [
            (key, f"a job with a model needs '{key}'", cure)
            for key, value, cure in (
                ("sequence", file.sequence, "sequence: 8192"),
                ("batch", file.batch, "batch: {global: 1024, micro: 1}"),
            )
            if value is None
        ]
        if file.compute is None and file.stack is None:  # the device may be the fabric's
            wanted.append(("stack", "no 'stack' says how fast it computes", "stack: megatron, or compute: {...}"))
    if file.slower is not None and file.stack is None:
        wanted.append(("slower", "slower scales a stack, and there is none", "stack: megatron, or leave slower out"))
    if file.model is None and file.compute is not None and file.compute.forward_per_layer is not None:
        wanted.append(("compute", "times of a layer need the number of layers", "model: {parameters: 7.0e+9, layers: 32}"))
    for key, what, fix in wanted:
        reading.refuse((key,) if key in reading.data else (), what, fix, about_key=True)
    return bool(wanted) | _unmatched(reading, file)


def _unmatched(reading: Reading[JobFile], file: JobFile) -> bool:
    on = file.compression.on if file.compression else ""
    sizes = [getattr(file.layout, name) for name in (("cp", "dp") if on == "dp" else (on,) if on else ())]
    if sizes and all(size == 1 for size in sizes):
        reading.refuse(("compression", "on"), f"{on} is 1: there is nothing to compress", "on: dp")
        return True
    return False


class _NamedParts:
    def __init__(self, reading: Reading[JobFile], folder: Path) -> None:
        self.reading, self.folder = reading, folder
        self.failed = False

    def part(self, key: str, value: str | F | None, load: Callable[[str, Path], F], made: Callable[..., Any]) -> Any:
        """From its mapping, or from the file that its name means."""
        if value is None:
            return None
        if not isinstance(value, str):
            return made(value)
        try:
            return made(load(value, self.folder), Path(value).stem)
        except ColltoolError as error:
            self.failed = True
            for one in problems_of(error):
                if one.where:
                    self.reading.pass_on((key,), one)
                else:
                    self.reading.refuse((key,), one.what, one.fix)
            return None


def _layout(file: JobFile, model: TransformerModel | None) -> ParallelLayout:
    given = file.layout
    sp = given.sp and given.tp > 1
    experts = model is not None and model.shape is not None and model.shape.moe is not None
    etp = given.etp or (given.tp if experts and not sp else 1)
    return ParallelLayout(
        tp=given.tp,
        sp=sp,
        cp=given.cp,
        cp_mode=given.cp_mode,
        ep=given.ep,
        etp=etp,
        pp=given.pp,
        virtual=given.virtual,
        dp=0 if given.dp == "auto" else given.dp,
        order=given.order,
        stages=given.stages or (),
        deduplicate=given.deduplicate,
    )


def shard_of(file: ShardFile, layout: ParallelLayout, grads: str) -> Shard:
    """Under pipelines FSDP does not ``reshard`` by default."""
    reshard = file.reshard if file.reshard is not None else layout.pp == 1
    gathers = file.gathers or (2 if reshard else 1)
    return Shard(file.mode, file.group or 0, gathers, reshard, file.bucket, file.grad_bytes or (4 if grads == "fp32" else 2))


def overlap_of(file: OverlapFile, layout: ParallelLayout, schedule: Schedule, slowed: float) -> Overlap:
    """By default ep hides as the schedule does, and sm_share is ``slowed``."""
    asked = {True: "batch", False: "", "shared": "shared"}
    ep = asked[file.ep] if file.ep is not None else "batch" if SCHEDULES[schedule].hides_experts and layout.ep > 1 else ""
    return Overlap(
        dp=file.dp is not False,
        tp=file.tp is True,
        pp=file.pp is not False,
        ep=ep,
        cp=file.cp is not False,
        asked=_asked(file),
        overhead_s=file.overhead,
        sm_share=slowed if file.sm_share is None else file.sm_share,
    )


def _asked(file: OverlapFile) -> tuple[str, ...]:
    """The keys that a file itself switches on."""
    hidden = tuple(name for name in ("tp", "cp", "ep", "dp", "pp") if getattr(file, name) is True)
    return (*hidden, "sm_share") if file.sm_share else hidden


def _compression(file: JobFile) -> Compression | None:
    given = file.compression
    if given is None:
        return None
    return Compression(
        on=given.on,
        scheme=given.scheme,
        block=given.block,
        keep=given.keep,
        warmup=given.warmup,
        overhead_s=given.overhead,
        extra_steps=given.extra_steps,
    )
