"""Training jobs above their collectives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colltool.fabric.overrides import Overrides

if TYPE_CHECKING:
    from colltool.workload.job import Job


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
