"""A better error for a command that failed: a key that belongs to the other of ``--set`` (the fabric's)
and ``--job-set`` (the job's)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

from colltool.base.errors import ColltoolError, argument_text


def misplaced_key(values: dict[str, Any]) -> ColltoolError | None:
    """The error for a key of the job in ``--set``, or of the fabric in ``--job-set``; None where there
    is none.

    Args:
        values: of a command's options, by name; None or empty where not typed. ``fabric`` is a list
            in commands that take ``--set`` for it.
    """
    # other commands have no --set of fabrics
    if not isinstance(values.get("fabric"), list):
        return None
    return _job_key_in_set(values) or _fabric_key_in_job_set(values)


def _job_key_in_set(values: dict[str, Any]) -> ColltoolError | None:
    """The error for the first key of ``--set`` that is a section and key of job files."""
    from colltool.training.files.job import JobFile

    for text in values.get("overrides") or ():
        # layout.tp=4: section layout, key tp
        section, dot, path = text.partition("=")[0].strip().partition(".")
        if not dot or section not in JobFile.model_fields:
            continue
        annotation = JobFile.model_fields[section].annotation
        # a section may be one of several models, or None
        keys = set()
        for model in (annotation, *get_args(annotation)):
            for field_name, field in getattr(model, "model_fields", {}).items():
                keys.add(field.alias or field_name)
        if path.partition(".")[0] in keys:
            advice = "write" if "job_overrides" in values else "colltool plan and report take"
            return ColltoolError(
                f"{section} belongs to the job, not to the fabric",
                argument="overrides",
                fix=f"{advice} {argument_text('job_overrides', [text])}",
            )
    return None


def _fabric_key_in_job_set(values: dict[str, Any]) -> ColltoolError | None:
    """The error for the first key of ``--job-set`` that is a tier or field of the fabrics."""
    from colltool.fabric.load import load_fabric
    from colltool.fabric.model import Fabric
    from colltool.training.files.job import JobFile

    for text in values.get("job_overrides") or ():
        section = text.partition("=")[0].strip().partition(".")[0]
        if section in JobFile.model_fields:
            continue
        # a fabric that does not load is another error
        with suppress(ColltoolError):
            tiers: set[str] = set()
            for name in values["fabric"]:
                tiers.update(tier.name for tier in load_fabric(name).tiers)
            if section in tiers or section in Fabric.model_fields:
                return ColltoolError(
                    f"{section} belongs to the fabric, not to the job",
                    argument="job_overrides",
                    fix=f"write {argument_text('overrides', [text])}",
                )
    return None
