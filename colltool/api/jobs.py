"""Training jobs above their collectives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import AnyFabric, fabric_of, ranks_of, under_library
from colltool.fabric.overrides import Overrides
from colltool.pricing.readings import Readings, checked

if TYPE_CHECKING:
    from colltool.workload.job import Job
    from colltool.workload.plan import Plan


def load_job(job: str | os.PathLike[str] | Mapping[str, Any], overrides: Overrides = ()) -> Job:
    """A validated job.

    Args:
        job: an existing file, else the file name or stem of a shipped job; or what a file would hold, as a mapping.
        overrides: ``KEY=VALUE`` each, as for ``--set``: ``layout.tp=4``, ``batch.global=2048``, ``shard.mode=fsdp``; a later one
            wins. Or a mapping of values by key.

    Returns:
        A :class:`colltool.workload.job.Job`; its :meth:`~colltool.workload.job.Job.setup` resolves it for a number of ranks.

    Raises:
        ManyErrors: everything that is wrong with the content, with ``file:line:column``; key paths of a mapping.
        ColltoolError: no such job, an unreadable file, not YAML.
    """
    from colltool.workload.job import load_job as run

    return run(job, overrides)


def plan(
    job: Job | str | os.PathLike[str] | Mapping[str, Any],
    fabric: AnyFabric,
    ranks: int | None = None,
    *,
    library: str | None = None,
    links: bool = False,
    readings: Readings | None = None,
    **parts: Any,
) -> Plan:
    """A training step on a fabric: its time, what of its communication is exposed, and what changing it gains.

    Args:
        job: a job, or a path, shipped name or mapping to load.
        fabric: a fabric, or a path, shipped name or mapping to load.
        ranks: N; those of the job's layout, and where its dp is auto all of the fabric, when None.
        library: whose schedules run; the fabric's own when None. Of NCCL what its cost model picks.
        links: also follow every message of the job to the busiest link of each kind, :attr:`colltool.workload.plan.Plan.links`.
        readings: of the model; the defaults when None.
        **parts: single readings by name, in place of those.

    Returns:
        A :class:`colltool.workload.plan.Plan`; seconds, bytes, tokens/s.

    Raises:
        ColltoolError: a job or a fabric that cannot be used, or a group that does not sit on the fabric; says what fits.
    """
    from colltool.workload.job import Job as Loaded
    from colltool.workload.plan import plan as run

    loaded = job if isinstance(job, Loaded) else load_job(job)
    return run(loaded, under_library(fabric_of(fabric), library), ranks_of(ranks), checked(readings, **parts), links=links)
