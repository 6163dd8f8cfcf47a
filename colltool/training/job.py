"""A job by path, shipped name or mapping: validated with every error in one report, and again for a
number of ranks.

Named files are read, and defaults that follow from other keys filled in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, given, problems_of
from colltool.base.files import read_text
from colltool.base.primitives import Primitive
from colltool.definitions.field_types import Part
from colltool.definitions.reader import Overrides, Reading, Shorthand, read, read_source, sourced
from colltool.definitions.source import KeyPath
from colltool.fabric.load import exists, find_file
from colltool.training.calls import tensor_buckets
from colltool.training.constraint_violations import (
    Violation,
    constraint_violations,
    invalid_overlaps,
)
from colltool.training.drafted import drafted_mapping
from colltool.training.files import Schedule, TensorOverlap
from colltool.training.files.job import JobFile, OverlapFile, ShardFile
from colltool.training.files.presets import (
    mapping_of,
    preset_folder,
    preset_names,
    read_device,
    read_model,
    read_stack,
    stem_of,
)
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
    RankGroup,
    Shard,
)
from colltool.training.strategies import SCHEDULES, default_schedule

SHORT = Shorthand(example="layout.tp=4")
MOST_TRIED = 256  # numbers of replicas, to find one that fits

JobSource = str | os.PathLike[str] | Mapping[str, Any]
F = TypeVar("F", bound=Part)


class PlainCall(NamedTuple):
    """A collective that a job lists itself; ``bytes`` by nccl-tests' convention."""

    primitive: Primitive
    dimension: str
    group: RankGroup
    bytes: float
    calls: int
    time_s: float | None  # of one, where it is known


@dataclass(frozen=True)
class Job:
    name: str
    description: str
    draft: ParallelConfig  # dp is 0 where it follows from the ranks
    energy: bool
    steps: int | None
    measured_step_s: float | None
    measured_memory_bytes: float | None
    overrides: tuple[tuple[str, str], ...]  # that it was read with
    model_name: str
    device_from: str  # "job", "default" of a shipped job, "fabric", or ""
    shipped: bool = False
    drafted: bool = False  # from a model alone: its layout is searched
    folder: Path = field(default=Path(), repr=False, compare=False)  # of the files that it names
    file: JobFile = field(kw_only=True, repr=False, compare=False)
    reading: Reading[JobFile] = field(kw_only=True, repr=False, compare=False)

    @property
    def yields(self) -> bool:
        """Whether its layout, stack and precision give way to a fabric that they do not fit."""
        return self.shipped or self.drafted

    def with_values(self, values: Overrides) -> Job:
        """The same job with other values; a text is read as YAML."""
        if not values:
            return self
        changed = _finished(
            read(JobFile, self.reading.data, overrides=values, short=SHORT), self.folder, self.name
        )
        draft, own = changed.draft, self.draft.stack
        if own is not None and own.measured and draft.stack is not None:
            draft = draft._replace(stack=draft.stack._replace(measured=own.measured))
        told = replace(self, draft=draft, file=changed.file, reading=changed.reading)
        return told if "device" not in values else replace(told, device_from=changed.device_from)

    def setup(self, ranks: int | None = None) -> ParallelConfig:
        """On ``ranks``, or those of its layout; ManyErrors where something does not fit, at its
        place in the file."""
        layout = self.draft.layout
        inside = layout.tp * layout.cp * layout.pp
        if ranks is None and not layout.dp:
            raise ColltoolError(
                "dp is auto and follows from the ranks",
                argument="ranks",
                fix=f"write {given('ranks', inside)}",
            )
        total = inside * layout.dp if ranks is None else ranks
        if total < 1:
            raise no_ranks(total, inside)
        config = self.draft._replace(layout=layout._replace(dp=total // inside))
        if (
            found := self._unfilled(inside, total)
            or constraint_violations(config)
            or invalid_overlaps(config)
        ):
            self.refuse(found)
        return config

    def takes(self, values: Overrides) -> bool:
        """Whether the file would be read with these values; one may contradict a key beside it."""
        return read(JobFile, self.reading.data, overrides=values, short=SHORT).model is not None

    def _unfilled(self, inside: int, ranks: int) -> list[Violation]:
        dp, path = self.draft.layout.dp, ("layout", "dp")
        if dp and inside * dp != ranks:
            fits = f"dp: {ranks // inside}, dp: auto, or " if ranks % inside == 0 else ""
            what = f"tp x cp x pp x dp = {inside * dp} does not fill {ranks} ranks"
            return [Violation(path, what, f"{fits}{given('ranks', inside * dp)}")]
        if ranks % inside == 0:
            return []

        def sound(dp: int) -> bool:
            return not constraint_violations(
                self.draft._replace(layout=self.draft.layout._replace(dp=dp))
            )

        below, above = (
            range(ranks // inside, 0, -1),
            range(ranks // inside + 1, ranks // inside + MOST_TRIED),
        )
        found = (next(filter(sound, side), 0) for side in (below[:MOST_TRIED], above))
        near = [given("ranks", dp * inside) for dp in found if dp]
        fix = f"{' or '.join(near)}{', or ' if near else ''}a smaller tp, cp or pp"
        return [Violation(path[:1], f"tp x cp x pp = {inside} does not divide {ranks} ranks", fix)]

    def refuse(self, found: list[Violation]) -> None:
        """Raises ManyErrors, each violation at its place in the file or at its override."""
        again = Reading(JobFile, self.reading.source, self.reading.data, self.reading.applied)
        for one in found:
            again.refuse(one.path, one.what, one.fix)
        again.result()

    def where(self, path: KeyPath) -> str:
        return self.reading.source.where(path)

    def plain_calls(self, config: ParallelConfig) -> tuple[PlainCall, ...]:
        """ManyErrors where a group has one rank, or more than there are."""
        out, wrong = [], []
        for index, call in enumerate(self.file.calls):
            name = call.group if isinstance(call.group, str) else "group"
            if not isinstance(call.group, str):
                group = RankGroup(((call.group.ranks, call.group.stride),))
            elif call.group == "all":
                group = RankGroup(((config.layout.ranks, 1),))
            else:
                group = config.layout.group(call.group, experts=call.group == "ep")
            if group.ranks < 2 or (group.ranks - 1) * group.stride >= config.layout.ranks:
                what = (
                    f"a group of {group.ranks} with stride {group.stride} among"
                    f" {config.layout.ranks} ranks"
                )
                wrong.append(
                    Violation(
                        ("calls", index, "group"), what, "a dimension of at least 2 ranks, or all"
                    )
                )
            fused = (
                tensor_buckets(call.count, call.size, call.bucket)
                if call.bucket
                else ((call.size, call.count),)
            )
            out += [
                PlainCall(call.primitive, name, group, size, count, call.time)
                for size, count in fused
            ]
        if wrong:
            self.refuse(wrong)
        return tuple(out)


def load_job(job: JobSource, overrides: Overrides = (), *, argument: str = "overrides") -> Job:
    """A validated job: a file, else the name of a shipped job; or a mapping of what a file would
    hold.

    ``overrides`` are ``KEY=VALUE`` as for ``--set``, such as ``layout.tp=4``, a later one wins, or
    a mapping of values by key; ``argument`` gave them, for errors. ManyErrors has everything wrong
    with the content, in the order of the file.
    """
    short = SHORT._replace(argument=argument)
    if isinstance(job, Mapping):
        return _finished(_opened(job, "", Path(), overrides, short), Path(), "")
    if not isinstance(job, str | os.PathLike):
        fix = 'give a path, the name of a shipped job ("llama3-70b"), or a mapping'
        raise ColltoolError(
            f"expected a job to load, got a {type(job).__name__}", argument="job", fix=fix
        )
    if is_model(str(job)):
        return drafted_job(str(job), overrides, short)
    file, name = find_job(job)
    text, folder = read_text(file, "definition", name), Path(file).parent
    return _finished(_opened(text, name, folder, overrides, short), folder, stem_of(file))


def is_model(name: str) -> bool:
    """Whether a model is named where a job may be: a config.json, or a shipped model that no
    shipped job is called by."""
    return name.endswith(".json") or (
        name in preset_names("models") and name not in preset_names("jobs") and not exists(name)
    )


def drafted_job(model: str, overrides: Overrides = (), short: Shorthand = SHORT) -> Job:
    """A job for a model alone; sequence and batch are usual ones unless overridden, the layout is
    left to a search."""
    path = os.path.abspath(model) if model.endswith(".json") else model
    made = _opened(drafted_mapping(path), "", Path(), overrides, short)
    job = _finished(made, Path(), "")
    return replace(job, drafted=True)


def _opened(
    content: str | Mapping[str, Any],
    name: str,
    folder: Path,
    overrides: Overrides,
    short: Shorthand,
) -> Reading[JobFile]:
    """A job's reading; what it names is written out where an override goes below the name:
    ``model.moe.imbalance=1``."""
    source, problems = sourced(content, name)
    told = overrides if isinstance(overrides, Iterable) and not isinstance(overrides, str) else ()
    keys = [str(one).partition("=")[0] for one in told]
    for part in ("model", "device", "stack") if isinstance(source.data, dict) else ():
        named = source.data.get(part)
        if isinstance(named, str) and any(key.strip().startswith(f"{part}.") for key in keys):
            with suppress(ColltoolError):  # a name that is not there is refused where it is read
                source.data[part] = mapping_of(part, named, folder)
    return read_source(JobFile, source, problems, overrides, short)


def read_job(text: str, name: str, folder: Path, overrides: Overrides = ()) -> Job:
    """As :func:`load_job`, from text; ``folder`` holds the files that it names."""
    return _finished(read(JobFile, text, name, overrides, SHORT), folder, stem_of(name))


def _finished(reading: Reading[JobFile], folder: Path, stem: str) -> Job:
    found, device_from = None, ""
    if reading.model is not None:
        found = draft(reading, reading.model, folder)
        # of a shipped job it yields to the fabric's; one that a user wrote is meant
        if reading.model.device is not None:
            told = folder != preset_folder("jobs") or any(
                key.split(".")[0] == "device" for key, _ in reading.overrides
            )
            device_from = "job" if told else "default"
        if found is not None and not lacking(reading, reading.model):
            held = found if device_from == "job" else found._replace(device=None)
            for one in constraint_violations(held) or invalid_overlaps(held):
                reading.refuse(one.path, one.what, one.fix)
    file = reading.result()
    assert found is not None  # nothing was refused
    return Job(
        name=file.name or stem or "job",
        description=file.description,
        draft=found,
        energy=file.energy,
        steps=file.steps,
        measured_step_s=file.measured.step if file.measured else None,
        measured_memory_bytes=file.measured.memory if file.measured else None,
        overrides=reading.overrides,
        model_name=found.model.name if found.model else "",
        device_from=device_from,
        shipped=folder == preset_folder("jobs"),
        folder=folder,
        file=file,
        reading=reading,
    )


def find_job(path_or_name: str | os.PathLike[str]) -> tuple[str, str]:
    return find_file(
        path_or_name, "job", preset_folder("jobs"), f"shipped: {', '.join(preset_names('jobs'))}"
    )


def no_ranks(ranks: int, example: int) -> ColltoolError:
    return ColltoolError(
        f"a job on {ranks} ranks", argument="ranks", fix=f"write {given('ranks', example)}"
    )


def _part(
    reading: Reading[JobFile],
    folder: Path,
    failed: list[str],
    key: str,
    value: str | F | None,
    *,
    load: Callable[[str, Path], F],
    made: Callable[..., Any],
) -> Any:
    if value is None or not isinstance(value, str):
        return value and made(value)
    try:
        return made(load(value, folder), Path(value).stem)
    except ColltoolError as error:
        failed.append(key)
        for one in problems_of(error):
            if one.where:
                reading.pass_on((key,), one)
            else:
                reading.refuse((key,), one.what, one.fix)
        return None


def draft(reading: Reading[JobFile], file: JobFile, folder: Path) -> ParallelConfig | None:
    """dp is 0 where it is auto. None where a named file cannot be read; it is then refused in the
    reading."""
    failed: list[str] = []
    part = partial(_part, reading, folder, failed)
    model = part("model", file.model, load=read_model, made=transformer_of)
    device = part("device", file.device, load=read_device, made=accelerator_of)
    stack = part("stack", file.stack, load=read_stack, made=stack_of)
    if failed:
        return None
    layout, compute, times = _layout(file, model), file.compute, None
    if compute is not None and compute.forward_per_layer is not None:
        times = GivenTimes(
            compute.forward_per_layer, compute.backward_per_layer or 0.0, per_layer=True
        )
    elif compute is not None:
        times = GivenTimes(compute.forward or 0.0, compute.backward or 0.0, per_layer=False)
    schedule, batch, small = (
        file.schedule or default_schedule(layout.virtual),
        file.batch,
        file.compression,
    )
    compression = None
    if small is not None:
        known = small.on, small.scheme, small.block, small.keep, small.warmup, small.overhead
        compression = Compression(*known, extra_steps=small.extra_steps, realised=small.ratio)
    return ParallelConfig(
        layout=layout,
        model=model,
        sequence=file.sequence or 1,
        global_batch=batch.global_ if batch else max(1, layout.dp),
        micro_batch=batch.micro if batch else 1,
        shard=shard_of(file.shard, layout, file.precision.grads),
        schedule=schedule,
        **recomputed(file, stack),
        optimizer=file.optimizer,
        offload=Offload(file.offload.optimizer, file.offload.activations),
        lora=file.lora.rank if file.lora else 0,
        precision=Precision(*(getattr(file.precision, name) for name in Precision._fields)),
        device=device,
        stack=stack,
        overlap=overlap_of(file.overlap, layout, schedule, stack),
        compression=compression,
        compute=times,
        slower=file.slower or 1.0,
    )


def recomputed(file: JobFile, stack: Stack | None) -> dict[str, Any]:
    """What a job recomputes, as fields of a configuration: by default what its stack does."""
    said = file.recompute or (stack.recompute if stack is not None else "none")
    if isinstance(said, str):
        return {"recompute": said}
    if said.layers is not None:
        return {"recompute": "layers", "again_layers": said.layers}
    return {"recompute": "modules", "again_modules": said.modules}


def lacking(reading: Reading[JobFile], file: JobFile) -> bool:
    """Whether a job leaves out what it cannot do without, each refused in the reading."""
    wanted: list[tuple[str, str, str]] = []
    if file.model is None and file.compute is None and not file.calls:
        wanted.append(
            ("model", "a job has a model, given times or plain calls", "model: llama3-70b")
        )
    if file.model is not None:
        if file.sequence is None:
            wanted.append(("sequence", "a job with a model needs 'sequence'", "sequence: 8192"))
        if file.batch is None:
            wanted.append(
                ("batch", "a job with a model needs 'batch'", "batch: {global: 1024, micro: 1}")
            )
        if file.compute is None and file.stack is None:  # the device may be the fabric's
            wanted.append(
                (
                    "stack",
                    "no 'stack' says how fast it computes",
                    "stack: megatron, or compute: {...}",
                )
            )
    if file.slower is not None and file.stack is None:
        wanted.append(
            (
                "slower",
                "slower scales a stack, and there is none",
                "stack: megatron, or leave slower out",
            )
        )
    if (
        file.model is None
        and file.compute is not None
        and file.compute.forward_per_layer is not None
    ):
        wanted.append(
            (
                "compute",
                "times of a layer need the number of layers",
                "model: {parameters: 7.0e+9, layers: 32}",
            )
        )
    for key, what, fix in wanted:
        reading.refuse((key,) if key in reading.data else (), what, fix, about_key=True)
    on = file.compression.on if file.compression else ""
    sizes = [
        getattr(file.layout, name) for name in (("cp", "dp") if on == "dp" else (on,) if on else ())
    ]
    if unmatched := bool(sizes) and all(size == 1 for size in sizes):
        reading.refuse(("compression", "on"), f"{on} is 1: there is nothing to compress", "on: dp")
    return bool(wanted) or unmatched


def default_etp(tp: int, *, sp: bool, experts: object) -> int:
    """Width of expert parts where a job does not say: with whole tokens on each rank that of tp."""
    return tp if experts and not sp else 1


def _layout(file: JobFile, model: TransformerModel | None) -> ParallelLayout:
    told = file.layout
    sp = told.sp and told.tp > 1
    experts = model is not None and model.shape is not None and model.shape.moe is not None
    same = {
        key: getattr(told, key)
        for key in ("tp", "cp", "cp_mode", "ep", "pp", "virtual", "order", "deduplicate")
    }
    etp = told.etp or default_etp(told.tp, sp=sp, experts=experts)
    dp = 0 if told.dp == "auto" else told.dp
    return ParallelLayout(**same, sp=sp, etp=etp, dp=dp, stages=told.stages or ())


def shard_of(file: ShardFile, layout: ParallelLayout, grads: str) -> Shard:
    """Under pipelines FSDP does not ``reshard`` by default."""
    reshard = file.reshard if file.reshard is not None else layout.pp == 1
    gathers = file.gathers or (2 if reshard else 1)
    return Shard(
        file.mode,
        file.group or 0,
        gathers,
        reshard,
        file.bucket,
        file.grad_bytes or (4 if grads == "fp32" else 2),
    )


def overlap_of(
    file: OverlapFile, layout: ParallelLayout, schedule: Schedule, stack: Stack | None
) -> Overlap:
    """By default ep hides as the schedule does, tp and ``sm_share`` as in the stack; ``asked`` are
    the file's own keys."""
    hides_experts = SCHEDULES[schedule].hides_experts and layout.ep > 1
    asked = tuple(
        name for name in ("tp", "cp", "ep", "dp", "pp") if getattr(file, name) in (True, "bulk")
    )
    slowed = stack.slowed if stack is not None else 0.0
    usual: TensorOverlap = stack.tensor_overlap if stack is not None else "none"
    hiding: dict[bool | str | None, TensorOverlap] = {True: "split", False: "none", "bulk": "bulk"}
    return Overlap(
        dp=file.dp is not False,
        tp=hiding.get(file.tp, usual),
        pp=file.pp is not False,
        ep={True: "batch", False: "", "shared": "shared", None: "batch" if hides_experts else ""}[
            file.ep
        ],
        cp=file.cp is not False,
        asked=(*asked, "sm_share") if file.sm_share else asked,
        overhead_s=file.overhead,
        sm_share=slowed if file.sm_share is None else file.sm_share,
    )
