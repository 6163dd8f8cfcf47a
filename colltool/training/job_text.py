"""The text of job files: of a job that was read, or of a new one for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colltool.fabric.model import Fabric
from colltool.fabric.templates import start_lines
from colltool.fabric.yaml_writer import fabric_text
from colltool.training.adapted import fit_to_fabric
from colltool.training.files.presets import mapping_of
from colltool.training.job import Job, drafted_job
from colltool.training.sentences import remark, sentence


def job_text(job: Job, comments: Sequence[str] = ()) -> str:
    """Return a job with its overrides as YAML; a model in a config.json is written out, so that the
    file needs no other."""
    data: dict[str, Any] = {"schema": "colltool.job/1", "name": job.name} | job.reading.data
    named = data.get("model")
    if isinstance(named, str) and named.endswith(".json"):
        data["model"] = {"name": job.model_name} | mapping_of("model", named, job.folder)
    return fabric_text(data, comments, compact=True)


def job_start(
    model: str,
    fabric: Fabric | None = None,
    ranks: int | None = None,
    overrides: Sequence[str] = (),
) -> str:
    """Return the text of a job for a model, with a usual sequence and batch; on a fabric with the
    layout that a search finds.

    Raises:
        ColltoolError: no such model, or no layout fits the ranks.
    """
    drafted = drafted_job(model, overrides)
    if fabric is None:
        return job_text(drafted, start_lines("job"))
    found = fit_to_fabric(drafted, fabric, ranks)
    job = found.job.with_values({"device": fabric.device} if fabric.device is not None else {})
    searched = sentence(remark("searched_layout", fabric=fabric.name, ranks=found.ranks))
    return job_text(job, (*start_lines("job"), searched))
