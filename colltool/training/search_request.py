"""What is searched: :func:`search_request` checks a user's wish, and lists all sizes to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.training.job import Job
from colltool.training.job_device import on_fabric
from colltool.training.layout_constraints import Constraints, Keep, constraints_of, with_overrides
from colltool.training.model import Shape, TransformerModel
from colltool.training.plan import check_ranks
from colltool.training.search_space import Sizes, Space

# called with how many combinations of sizes are done, and how many there are
Progress = Callable[[int, int], object]


class SearchRequest(NamedTuple):
    """A checked search: the job on the fabric's device, and all sizes to try."""

    job: Job
    fabric: Fabric
    ranks: int
    kept: Constraints  # with what the job's overrides say
    kept_by: str  # the argument that says what is kept, for errors
    space: Space
    sizes: list[Sizes]


def search_request(job: Job, fabric: Fabric, ranks: int | None, keep: Keep | None) -> SearchRequest:
    """Check what a user wants searched; ColltoolError where it cannot be. ``ranks`` None: those of
    the job's layout, else of the fabric."""
    requested = constraints_of(keep)
    job = on_fabric(job, fabric)
    kept = with_overrides(job, requested)
    kept_by = "keep" if requested.values else "job_overrides"
    model, shape = _model_to_search(job)
    total = ranks if ranks is not None else job.draft.layout.ranks or fabric.ranks
    check_ranks(job, fabric, total)
    replica_ranks = (kept.tp or 1) * (kept.cp or 1) * (kept.pp or 1)
    if total % replica_ranks:
        raise ColltoolError(
            f"{kept.text}: tp x cp x pp = {replica_ranks} does not divide {total} ranks",
            argument=kept_by,
            fix="give sizes whose product divides them",
        )
    space = Space(job, model, shape, total, kept)
    return SearchRequest(
        job=job,
        fabric=fabric,
        ranks=total,
        kept=kept,
        kept_by=kept_by,
        space=space,
        sizes=space.sizes(),
    )


def _model_to_search(job: Job) -> tuple[TransformerModel, Shape]:
    """Return the model of a job with its shape; ColltoolError where other layouts cannot be priced."""
    draft = job.draft
    if draft.model is None or draft.model.shape is None:
        problem = f"{job.name} has no model"
        if draft.model is not None:
            problem = f"{draft.model.name} has no shape"
        raise ColltoolError(
            f"{problem}: the compute and memory of other layouts are unknown",
            where=job.where(("model",)),
            fix="give a shipped model such as llama3-70b, or hidden, heads, ffn and vocab",
        )
    if draft.compute is not None:
        raise ColltoolError(
            f"{job.name} gives times of one layout only; a search compares others",
            where=job.where(("compute",)),
            fix="device: h100 and stack: megatron in place of compute",
        )
    return draft.model, draft.model.shape
