"""The configuration that a job file asks for: named files are read, and what follows from other keys
is filled in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from colltool.base.errors import ColltoolError, problems_of
from colltool.definitions.field_types import Part
from colltool.definitions.reader import Reading
from colltool.training.files import Schedule, TensorOverlap
from colltool.training.files.job import JobFile, OverlapFile, ShardFile
from colltool.training.files.presets import read_device, read_model, read_stack
from colltool.training.model import (
    Stack,
    TransformerModel,
    accelerator_of,
    stack_of,
    transformer_of,
)
from colltool.training.parallel_config import (
    Compression,
    GivenTimes,
    Offload,
    Overlap,
    ParallelConfig,
    ParallelLayout,
    Precision,
    Shard,
)
from colltool.training.strategies import SCHEDULES, default_schedule

File = TypeVar("File", bound=Part)


def configuration(reading: Reading[JobFile], file: JobFile, folder: Path) -> ParallelConfig | None:
    """The configuration of a job; dp is 0 where it is auto.

    None where a named file cannot be read; it is then refused in the reading.
    """
    failed: list[str] = []
    part = partial(_part, reading, folder, failed)
    model = part("model", file.model, load=read_model, made=transformer_of)
    device = part("device", file.device, load=read_device, made=accelerator_of)
    stack = part("stack", file.stack, load=read_stack, made=stack_of)
    # every named file is read first, so that all errors are in one report
    if failed:
        return None
    layout, batch = _layout(file, model), file.batch
    schedule = file.schedule or default_schedule(layout.virtual)
    return ParallelConfig(
        layout=layout,
        model=model,
        sequence=file.sequence or 1,
        global_batch=batch.global_ if batch else max(1, layout.dp),
        micro_batch=batch.micro if batch else 1,
        shard=shard_of(file.shard, layout, file.precision.grads),
        schedule=schedule,
        **_recomputed(file, stack),
        optimizer=file.optimizer,
        offload=Offload(file.offload.optimizer, file.offload.activations),
        lora=file.lora.rank if file.lora else 0,
        precision=Precision(*(getattr(file.precision, name) for name in Precision._fields)),
        device=device,
        stack=stack,
        overlap=overlap_of(file.overlap, layout, schedule, stack),
        compression=_compression(file),
        compute=_given_times(file),
        slower=file.slower or 1.0,
    )


def _part(
    reading: Reading[JobFile],
    folder: Path,
    failed: list[str],
    key: str,
    value: str | File | None,
    *,
    load: Callable[[str, Path], File],
    made: Callable[..., Any],
) -> Any:
    """A model, device or stack that a job names or writes out; None where there is none."""
    if value is None:
        return None
    if not isinstance(value, str):
        return made(value)
    try:
        return made(load(value, folder), Path(value).stem)
    except ColltoolError as error:
        failed.append(key)
        for problem in problems_of(error):
            if problem.where:
                reading.add_error((key,), problem)
            else:
                reading.refuse((key,), problem.what, problem.fix)
        return None


def _given_times(file: JobFile) -> GivenTimes | None:
    times = file.compute
    if times is None:
        return None
    if times.forward_per_layer is not None:
        return GivenTimes(times.forward_per_layer, times.backward_per_layer or 0.0, per_layer=True)
    return GivenTimes(times.forward or 0.0, times.backward or 0.0, per_layer=False)


def _compression(file: JobFile) -> Compression | None:
    asked = file.compression
    if asked is None:
        return None
    return Compression(
        on=asked.on,
        scheme=asked.scheme,
        block=asked.block,
        keep=asked.keep,
        warmup=asked.warmup,
        overhead_s=asked.overhead,
        extra_steps=asked.extra_steps,
        realised=asked.ratio,
    )


def _recomputed(file: JobFile, stack: Stack | None) -> dict[str, Any]:
    """What a job recomputes, as fields of a configuration: by default what its stack does."""
    asked = file.recompute or (stack.recompute if stack is not None else "none")
    if isinstance(asked, str):
        return {"recompute": asked}
    if asked.layers is not None:
        return {"recompute": "layers", "again_layers": asked.layers}
    return {"recompute": "modules", "again_modules": asked.modules}


def lacking(reading: Reading[JobFile], file: JobFile) -> bool:
    """Whether a job leaves out what it cannot do without, each refused in the reading."""
    model, compute, batch = file.model, file.compute, file.batch
    per_layer = compute is not None and compute.forward_per_layer is not None
    checks = (
        (
            "model",
            model is None and compute is None and not file.calls,
            "a job has a model, given times or plain calls",
            "model: llama3-70b",
        ),
        (
            "sequence",
            model is not None and file.sequence is None,
            "a job with a model needs 'sequence'",
            "sequence: 8192",
        ),
        (
            "batch",
            model is not None and batch is None,
            "a job with a model needs 'batch'",
            "batch: {global: 1024, micro: 1}",
        ),
        (
            # the device may be the fabric's
            "stack",
            model is not None and compute is None and file.stack is None,
            "no 'stack' says how fast it computes",
            "stack: megatron, or compute: {...}",
        ),
        (
            "slower",
            file.slower is not None and file.stack is None,
            "slower scales a stack, and there is none",
            "stack: megatron, or leave slower out",
        ),
        (
            "compute",
            model is None and per_layer,
            "times of a layer need the number of layers",
            "model: {parameters: 7.0e+9, layers: 32}",
        ),
    )
    found = False
    for key, lacks, what, fix in checks:
        if lacks:
            found = True
            reading.refuse((key,) if key in reading.data else (), what, fix, about_key=True)
    if file.compression is None:
        return found
    on = file.compression.on
    sizes = [getattr(file.layout, name) for name in (("cp", "dp") if on == "dp" else (on,))]
    if all(size == 1 for size in sizes):
        found = True
        what = f"{on} is 1: there is nothing to compress"
        reading.refuse(("compression", "on"), what, "on: dp")
    return found


def default_etp(tp: int, *, sp: bool, experts: object) -> int:
    """Width of expert parts where a job does not say: with whole tokens on each rank that of tp."""
    return tp if experts and not sp else 1


def _layout(file: JobFile, model: TransformerModel | None) -> ParallelLayout:
    asked = file.layout
    sp = asked.sp and asked.tp > 1
    experts = model is not None and model.shape is not None and model.shape.moe
    return ParallelLayout(
        tp=asked.tp,
        sp=sp,
        cp=asked.cp,
        cp_mode=asked.cp_mode,
        ep=asked.ep,
        etp=asked.etp or default_etp(asked.tp, sp=sp, experts=experts),
        pp=asked.pp,
        virtual=asked.virtual,
        dp=0 if asked.dp == "auto" else asked.dp,
        order=asked.order,
        stages=asked.stages or (),
        deduplicate=asked.deduplicate,
    )


def shard_of(file: ShardFile, layout: ParallelLayout, grads: str) -> Shard:
    """Sharding of a layout; under pipelines FSDP does not ``reshard`` by default."""
    reshard = layout.pp == 1 if file.reshard is None else file.reshard
    return Shard(
        file.mode,
        file.group or 0,
        file.gathers or (2 if reshard else 1),
        reshard,
        file.bucket,
        file.grad_bytes or (4 if grads == "fp32" else 2),
    )


TENSOR_OVERLAP: dict[bool | str | None, TensorOverlap] = {
    True: "split",
    False: "none",
    "bulk": "bulk",
}
EXPERT_OVERLAP: dict[bool | str | None, str] = {True: "batch", False: "", "shared": "shared"}


def overlap_of(
    file: OverlapFile, layout: ParallelLayout, schedule: Schedule, stack: Stack | None
) -> Overlap:
    """What hides: by default ep as the schedule does, tp and ``sm_share`` as in the stack.

    ``asked`` are the file's own keys.
    """
    asked = [
        name for name in ("tp", "cp", "ep", "dp", "pp") if getattr(file, name) in (True, "bulk")
    ]
    if file.sm_share:
        asked.append("sm_share")
    experts = "batch" if SCHEDULES[schedule].hides_experts and layout.ep > 1 else ""
    tensors: TensorOverlap = stack.tensor_overlap if stack is not None else "none"
    slowed = stack.slowed if stack is not None else 0.0
    return Overlap(
        dp=file.dp is not False,
        tp=TENSOR_OVERLAP.get(file.tp, tensors),
        pp=file.pp is not False,
        ep=EXPERT_OVERLAP.get(file.ep, experts),
        cp=file.cp is not False,
        asked=tuple(asked),
        overhead_s=file.overhead,
        sm_share=slowed if file.sm_share is None else file.sm_share,
    )
