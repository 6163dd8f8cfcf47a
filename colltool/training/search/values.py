"""The values with which ``plan`` shows a layout that a search found, as ``--job-set`` takes them."""

from __future__ import annotations

from typing import Any

from colltool.training.files.job import ShardFile
from colltool.training.files.values import written
from colltool.training.job import Job
from colltool.training.search.overlap import followed
from colltool.training.setup import Setup


def values_of(job: Job, setup: Setup) -> tuple[tuple[str, str], ...]:
    """Keys and values that make this setup of the job; what its file says already, or what follows, is left out."""
    found = {**_sizes(job, setup), **_shard(job.file.shard, setup), **_overlap(job, setup)}
    return tuple((key, "null" if value is None else written(value)) for key, value in found.items())


def _sizes(job: Job, setup: Setup) -> dict[str, Any]:
    file, layout = job.file, setup.layout
    given = file.layout
    found: dict[str, Any] = {f"layout.{name}": getattr(layout, name) for name in ("tp", "cp", "ep", "pp", "virtual")
                             if getattr(layout, name) != getattr(given, name)}  # fmt: skip
    if layout.tp > 1 and layout.sp != given.sp:
        found["layout.sp"] = layout.sp
    moe = setup.model is not None and setup.model.shape is not None and setup.model.shape.moe is not None
    if layout.etp != (given.etp or (layout.tp if moe and not layout.sp else 1)):
        found["layout.etp"] = layout.etp
    if given.stages and not layout.stages:
        found["layout.stages"] = None
    if given.dp not in ("auto", layout.dp):
        found["layout.dp"] = layout.dp
    if file.batch is not None and setup.micro_batch != file.batch.micro:
        found["batch.micro"] = setup.micro_batch
    if setup.schedule != (file.schedule or ("interleaved" if layout.virtual > 1 else "1f1b")):
        found["schedule"] = setup.schedule
    return found | ({"recompute": setup.recompute} if setup.recompute != file.recompute else {})


def _shard(file: ShardFile, setup: Setup) -> dict[str, Any]:
    found: dict[str, Any] = {} if setup.shard.mode == file.mode else {"shard.mode": setup.shard.mode}
    gone = [*(["group"] if setup.shard.mode != "hsdp" else []), *([] if setup.shard.layers else ["gathers", "reshard"])]
    return found | {f"shard.{key}": None for key in gone if getattr(file, key) is not None}


def _overlap(job: Job, setup: Setup) -> dict[str, Any]:
    """What the job asks to hide and this layout cannot follow."""
    return {f"overlap.{name}": None for name in followed(job.file.overlap, setup)[1]}
