"""The :class:`ParallelConfig` of a job file: files that it names are read, and defaults that follow
from other keys are filled in.

:func:`configuration` is the entry; :func:`refuse_incomplete_job` then adds errors for what the job
lacks. :func:`shard_of`, :func:`overlap_of` and :func:`default_etp` serve a search of layouts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, problems_of
from colltool.definitions.field_types import Part
from colltool.definitions.reader import Reading
from colltool.training.files import Schedule, TensorOverlap, values_of
from colltool.training.files.job import JobFile, OverlapFile, ShardFile
from colltool.training.files.presets import read_device, read_model, read_stack
from colltool.training.model import TransformerModel, transformer_of
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
from colltool.training.stack import Accelerator, Stack, accelerator_of, stack_of
from colltool.training.stack_words import WORDS, chosen_stack, idle_word, stack_on
from colltool.training.strategies import SCHEDULES, default_schedule

File = TypeVar("File", bound=Part)


def configuration(reading: Reading[JobFile], file: JobFile, folder: Path) -> ParallelConfig | None:
    """Return the configuration of a job, with dp of 0 where it is auto; None where a named file
    cannot be read: its errors are then in the reading.

    ``folder`` holds the files that the job names.
    """
    parts = _NamedParts(reading, folder)
    model = parts.part("model", file.model, read_model, transformer_of)
    device = parts.part("device", file.device, read_device, accelerator_of)
    stack_file = file.stack
    if isinstance(stack_file, str):
        stack_file = stack_of_job(file, device)
    stack = parts.part("stack", stack_file, read_stack, stack_of)
    # checked after all three are read, so that all errors are in one report
    if parts.is_unread:
        return None
    layout = _layout(file, model)
    batch = file.batch
    schedule = file.schedule or default_schedule(layout.virtual)
    return ParallelConfig(
        layout=layout,
        model=model,
        sequence=file.sequence or 1,
        global_batch=batch.global_ if batch else max(1, layout.dp),
        micro_batch=batch.micro if batch else 1,
        shard=shard_of(file.shard, layout, file.precision.grads),
        schedule=schedule,
        **_recompute_fields(file, stack),
        optimizer=file.optimizer,
        offload=Offload(**values_of(file.offload, Offload._fields)),
        lora=file.lora.rank if file.lora else 0,
        precision=Precision(**values_of(file.precision, Precision._fields)),
        device=device,
        stack=stack,
        overlap=overlap_of(file.overlap, layout, schedule, stack),
        compression=_compression(file),
        compute=_given_times(file),
        slower=file.slower or 1.0,
    )


class _NamedParts:
    """Reads the model, device and stack that a job names or writes out.

    Attributes:
        reading: of the job; it gets the errors of files that cannot be read.
        folder: of the files that the job names.
        is_unread: whether any file could not be read.
    """

    def __init__(self, reading: Reading[JobFile], folder: Path) -> None:
        self.reading = reading
        self.folder = folder
        self.is_unread = False

    def part(
        self,
        key: str,
        value: str | File | None,
        read_file: Callable[[str, Path], File],
        convert: Callable[..., Any],
    ) -> Any:
        """Return what ``convert`` makes of the file at a key; None where the job has none, or where
        the file cannot be read.

        Args:
            key: of the job, for errors.
            value: a file that is written out in the job, or the name or path of one.
            read_file: reads a named file, from the name and the folder of the job.
            convert: makes a record of a file, and of its name where it has one.
        """
        if value is None:
            return None
        if not isinstance(value, str):
            return convert(value)
        try:
            return convert(read_file(value, self.folder), Path(value).stem)
        except ColltoolError as error:
            self.is_unread = True
            for problem in problems_of(error):
                if problem.where:
                    self.reading.add_error((key,), problem)
                else:
                    self.reading.refuse((key,), problem.what, problem.fix)
            return None


def stack_of_job(file: JobFile, device: Accelerator | None) -> str:
    """Return the shipped stack that a job means by the name of one and its words.

    ``device``: what it runs on, which decides some words; None where it is not known yet.
    """
    assert isinstance(file.stack, str)
    named = chosen_stack(file.stack, _words(file))
    if device is None:
        return named
    return stack_on(named, device.name)


def _words(file: JobFile) -> dict[str, bool | None]:
    """The values of the keys that choose a stack of a family, by key; None where left out."""
    return {word: getattr(file, word) for word in WORDS}


def _given_times(file: JobFile) -> GivenTimes | None:
    """Return the times that a job gives; None where it gives none."""
    times = file.compute
    if times is None:
        return None
    if times.forward_per_layer is not None:
        return GivenTimes(times.forward_per_layer, times.backward_per_layer or 0.0, per_layer=True)
    return GivenTimes(times.forward or 0.0, times.backward or 0.0, per_layer=False)


def _compression(file: JobFile) -> Compression | None:
    """Return the compression of a job; None where it has none."""
    compression = file.compression
    if compression is None:
        return None
    return Compression(
        **values_of(compression, ("on", "scheme", "block", "keep", "warmup", "extra_steps")),
        overhead_s=compression.overhead,
        realised=compression.ratio,
    )


def _recompute_fields(file: JobFile, stack: Stack | None) -> dict[str, Any]:
    """Return what a job recomputes, as fields of a configuration; by default what its stack
    does."""
    recompute = file.recompute or (stack.recompute if stack is not None else "none")
    if isinstance(recompute, str):
        return {"recompute": recompute}
    if isinstance(recompute, tuple):
        return {"recompute": "modules", "recomputed_modules": recompute}
    if recompute.layers is not None:
        return {"recompute": "layers", "recomputed_layers": recompute.layers}
    return {"recompute": "modules", "recomputed_modules": recompute.modules}


class _MissingKey(NamedTuple):
    """A key that a job needs, why, and what to write."""

    key: str
    what: str
    fix: str


def refuse_incomplete_job(reading: Reading[JobFile], file: JobFile) -> bool:
    """Add an error for each key that a job lacks, and for words and compression that have nothing to
    act on; return whether there is any."""
    is_refused = False
    idle = idle_word(file.stack, _words(file))
    if idle is not None:
        is_refused = True
        word, fix = idle
        reading.refuse(
            (word,),
            f"{word} chooses among the shipped stacks of a family, and the job's is another",
            fix,
            about_key=True,
        )
    for missing in _missing_keys(file):
        is_refused = True
        # an error stands at its key where the file has it, else at the top
        key = (missing.key,) if missing.key in reading.data else ()
        reading.refuse(key, missing.what, missing.fix, about_key=True)
    if file.compression is not None and _is_alone(file, file.compression.on):
        is_refused = True
        reading.refuse(
            ("compression", "on"),
            f"{file.compression.on} is 1: there is nothing to compress",
            "on: dp",
        )
    return is_refused


def _missing_keys(file: JobFile) -> Iterator[_MissingKey]:
    """Yield the keys that a job lacks."""
    model = file.model
    compute = file.compute
    if model is None and compute is None and not file.calls:
        yield _MissingKey(
            "model", "a job has a model, given times or plain calls", "model: llama3-70b"
        )
    if model is not None and file.sequence is None:
        yield _MissingKey("sequence", "a job with a model needs 'sequence'", "sequence: 8192")
    if model is not None and file.batch is None:
        yield _MissingKey(
            "batch", "a job with a model needs 'batch'", "batch: {global: 1024, micro: 1}"
        )
    # the device may be the fabric's
    if model is not None and compute is None and file.stack is None:
        yield _MissingKey(
            "stack", "no 'stack' says how fast it computes", "stack: megatron, or compute: {...}"
        )
    if file.slower is not None and file.stack is None:
        yield _MissingKey(
            "slower",
            "slower scales a stack, and there is none",
            "stack: megatron, or leave slower out",
        )
    if model is None and compute is not None and compute.forward_per_layer is not None:
        yield _MissingKey(
            "compute",
            "times of a layer need the number of layers",
            "model: {parameters: 7.0e+9, layers: 32}",
        )


def _is_alone(file: JobFile, dimension: str) -> bool:
    """Whether calls along a dimension go to nobody else, as far as the file says: dp may be auto."""
    # replicas sum them over both
    names = ("cp", "dp") if dimension == "dp" else (dimension,)
    return all(getattr(file.layout, name) == 1 for name in names)


def default_etp(tp: int, *, sp: bool, experts: object) -> int:
    """Return etp, the tensor parallelism of experts, where a job gives none: tp where each rank has
    all tokens (no sequence parallelism), else 1. ``experts`` is true where there are any."""
    return tp if experts and not sp else 1


def _layout(file: JobFile, model: TransformerModel | None) -> ParallelLayout:
    """Return the layout of a job, with defaults that depend on the model."""
    layout = file.layout
    sp = layout.sp and layout.tp > 1
    experts = model is not None and model.shape is not None and model.shape.moe
    # 0: it follows from the ranks
    dp = 0
    if layout.dp != "auto":
        dp = layout.dp
    as_in_file = (
        "tp",
        "cp",
        "cp_mode",
        "ep",
        "pp",
        "virtual",
        "order",
        "deduplicate",
        "dispatcher",
    )
    return ParallelLayout(
        **values_of(layout, as_in_file),
        sp=sp,
        etp=layout.etp or default_etp(layout.tp, sp=sp, experts=experts),
        dp=dp,
        stages=layout.stages or (),
    )


def shard_of(file: ShardFile, layout: ParallelLayout, grads: str) -> Shard:
    """Return the sharding of a layout; in a pipeline FSDP does not ``reshard`` by default. ``grads``:
    the precision in which gradients are summed."""
    reshard = layout.pp == 1 if file.reshard is None else file.reshard
    return Shard(
        mode=file.mode,
        group=file.group or 0,
        # a layer that is resharded is gathered again for its backward pass
        gathers=file.gathers or (2 if reshard else 1),
        reshard=reshard,
        bucket=file.bucket,
        grad_bytes=file.grad_bytes or (4 if grads == "fp32" else 2),
    )


# What the values of ``overlap.tp`` and ``overlap.ep`` of a job file mean. None, where a job leaves the
# key out, is not here and gets the default.
TENSOR_OVERLAP: dict[bool | str | None, TensorOverlap] = {
    True: "split",
    False: "none",
    "bulk": "bulk",
}
EXPERT_OVERLAP: dict[bool | str | None, str] = {True: "batch", False: "", "shared": "shared"}


def overlap_of(
    file: OverlapFile, layout: ParallelLayout, schedule: Schedule, stack: Stack | None
) -> Overlap:
    """Return what hides; by default ep is as the schedule has it, tp as the stack, and the others
    hide."""
    # dimensions that the job itself lets hide
    names = ("tp", "cp", "ep", "dp", "pp")
    requested = [name for name in names if getattr(file, name) in (True, "bulk")]
    if file.sm_share:
        requested.append("sm_share")
    default_ep = "batch" if SCHEDULES[schedule].hides_experts and layout.ep > 1 else ""
    default_tp: TensorOverlap = stack.tensor_overlap if stack is not None else "none"
    sm_share = file.sm_share
    if sm_share is None and stack is not None:
        sm_share = stack.slowed
    return Overlap(
        dp=file.dp is not False,
        tp=TENSOR_OVERLAP.get(file.tp, default_tp),
        pp=file.pp is not False,
        ep=EXPERT_OVERLAP.get(file.ep, default_ep),
        cp=file.cp is not False,
        requested=tuple(requested),
        overhead_s=file.overhead,
        sm_share=sm_share,
    )
