"""Training jobs above their collectives."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.values import (
    AnyFabric,
    count_if,
    count_of,
    fabric_of,
    fraction_if,
    several_of,
    typed_of,
    vary_of,
    wheres,
    wrong,
)
from colltool.base.errors import given
from colltool.base.files import remembering
from colltool.definitions.reader import Overrides
from colltool.estimate.assumptions import Readings, checked
from colltool.estimate.groups import as_read
from colltool.fabric.own_machine import OwnMachine
from colltool.training.job import Job
from colltool.training.job import load_job as load

if TYPE_CHECKING:
    from colltool.analysis.jobs import Plans, PlanSpread
    from colltool.training.layout_search import LayoutSearch, Watch
    from colltool.training.plan import Plan
    from colltool.training.search_space import Keep

AnyJob = Job | str | os.PathLike[str] | Mapping[str, Any]

MOST_DRAWS = 10_000
"""Steps that are planned one after the other."""


def load_job(job: str | os.PathLike[str] | Mapping[str, Any], overrides: Overrides = ()) -> Job:
    """A validated job.

    Args:
        job: an existing file, else the file name or stem of a shipped job; or what a file would
            hold, as a mapping.
        overrides: ``KEY=VALUE`` each, as for ``--set``: ``layout.tp=4``, ``batch.global=2048``,
            ``shard.mode=fsdp``; a later one wins. Or a mapping of values by key.

    Returns:
        A :class:`colltool.training.job.Job`; its :meth:`~colltool.training.job.Job.setup` resolves
        it for a number of ranks.

    Raises:
        ManyErrors: everything that is wrong with the content, with ``file:line:column``; key paths
            of a mapping.
        ColltoolError: no such job, an unreadable file, not YAML.
    """
    return load(job, overrides)


def _job_of(job: AnyJob) -> Job:
    return job if isinstance(job, Job) else load(job, ())


def plan(
    job: AnyJob,
    fabric: AnyFabric,
    ranks: int | None = None,
    *,
    library: str | None = None,
    machine: OwnMachine | None = None,
    links: bool = False,
    compute: str | os.PathLike[str] | None = None,
    target: str | None = None,
    mtbf: str | None = None,
    storage: str | None = None,
    checkpoint: str | None = None,
    restart: str | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Plan:
    """A training step on a fabric: its time, what of its communication is exposed, and what
    changing it gains.

    Args:
        job, fabric: one of each, or a path, shipped name or mapping to load.
        ranks: N; default: those of the job's layout, and where its dp is auto all of the fabric.
        library: whose schedules run; default: the fabric's own. Of NCCL what its cost model picks.
        machine: as :func:`colltool.price`.
        links: also follow every message of the job to the busiest link of each kind,
            :attr:`colltool.training.plan.Plan.links`.
        compute: a CSV of measured GEMMs (M, N, K, dtype, us) in place of the stack's shares of
            peak.
        target: the least network for it: ``"mfu=45%"``, or ``"step=5%"`` over the step of a free
            network.
        mtbf: between failures of one rank, such as ``"50000h"``; then steps a day with checkpoints
            over ``storage``, a rate such as ``"200GB/s"`` of all ranks, every ``checkpoint``
            (default: the best interval), with ``restart`` (10min) each time.
        readings, **parts: of the model, and single ones by name in place of those.

    Returns:
        A :class:`colltool.training.plan.Plan`; seconds, bytes, tokens/s.

    Raises:
        ColltoolError: a job or a fabric that cannot be used, or a group that does not sit on the
            fabric; says what fits.
    """
    from colltool.analysis.jobs import planned
    from colltool.api.plan_questions import asked_of, measured_by

    loaded, count, read = _job_of(job), count_if(ranks, "ranks", 1), checked(readings, **parts)
    on = as_read(fabric_of(fabric, library, machine), read)
    return planned(
        measured_by(loaded, compute),
        on,
        count,
        read,
        asked_of(links, target, mtbf, storage, checkpoint, restart),
    )


def search_layouts(
    job: AnyJob,
    fabric: AnyFabric,
    ranks: int | None = None,
    keep: Keep | None = None,
    *,
    top: int | None = None,
    headroom: float | None = None,
    library: str | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    watch: Watch | None = None,
    **parts: Any,
) -> LayoutSearch:
    """Every layout of a job that fills the ranks and fits the memory, priced as :func:`plan` prices
    one, the best first.

    tp, sp, cp, ep, etp, pp, virtual, micro-batch, shard and recompute of the job are searched; the
    rest of it stays.

    Args:
        keep: what every layout must have: ``{"tp": 8, "shard": "zero1"}``, or ``["tp=8"]``.
        top: only the best so many; default: all.
        headroom: the share of a device's memory that every layout leaves free; default: what nine
            published runs in ten took more than their plan.
        watch: called as it goes with how much of how much is done.
        job, fabric, ranks, library, machine, readings, **parts: as :func:`plan`.

    Raises:
        ColltoolError: as :func:`plan`, a constraint that cannot hold, or no layout that fits; says
            what ruled them out.
    """
    from colltool.training.layout_search import search as run

    loaded, top = _job_of(job), count_if(top, "top", 1)
    if watch is not None and not callable(watch):
        raise wrong(
            watch, "watch", "a function of two numbers", "write watch=print, or leave it out"
        )
    read, count = checked(readings, **parts), count_if(ranks, "ranks", 1)
    on = as_read(fabric_of(fabric, library, machine), read)
    free = fraction_if(headroom, "headroom")
    if free is not None and free >= 1:
        raise wrong(headroom, "headroom", "a share below 1", f"write {given('headroom', 0.1)}")
    return run(loaded, on, count, keep, top=top, readings=read, watch=watch, headroom=free)


@remembering()
def compare_plans(
    job: AnyJob,
    fabrics: Sequence[AnyFabric],
    ranks: int | None = None,
    *,
    overrides: Overrides = (),
    library: str | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Plans:
    """One job on several fabrics, each planned as :func:`plan` does, the others held against the
    first.

    Args:
        fabrics: at least two.
        ranks: N; default: those of the job's layout, and where its dp is auto all of the smallest
            fabric.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        job, library, machine, readings, **parts: as :func:`plan`.
    """
    from colltool.analysis.jobs import plans as run

    loaded = _job_of(job)
    read = checked(readings, **parts)
    on = [
        as_read(where.load(()), read)
        for where in wheres(several_of(fabrics), overrides, library, machine)
    ]
    typed = [typed_of(one) for one in several_of(fabrics)]
    return run(loaded, on, count_if(ranks, "ranks", 1), read, typed)


def plan_sensitivity(
    job: AnyJob,
    fabric: AnyFabric,
    ranks: int | None = None,
    *,
    vary: Sequence[str] | str = (),
    samples: int = 100,
    seed: int = 1,
    library: str | None = None,
    machine: OwnMachine | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> PlanSpread:
    """The step of a job where numbers of the fabric may be other than the file says.

    Args:
        vary: ranges, as in :func:`colltool.sensitivity`.
        samples, seed: how many draws of all numbers at once, and their seed.
        job, fabric, ranks, library, machine, readings, **parts: as :func:`plan`.
    """
    from colltool.analysis.jobs import plan_spread as run
    from colltool.fabric.variants import ranges_of

    loaded, read = _job_of(job), checked(readings, **parts)
    on = as_read(fabric_of(fabric, library, machine), read)
    numbers, assumed = ranges_of(on, vary_of(vary))
    drawn = {"samples": count_of(samples, "samples", 2, MOST_DRAWS), "seed": count_of(seed, "seed")}
    return run(loaded, on, count_if(ranks, "ranks", 1), read, numbers, assumed=assumed, **drawn)
