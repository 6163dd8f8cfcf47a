"""What stands where a job is wanted: a job's file, a shipped name, a mapping, or a model alone.

:func:`find_job` finds a file by path or name. :func:`is_model` and :func:`is_model_text` tell a model,
for which a job is drafted, and :func:`with_model` puts another model into a job.
:func:`colltool.training.job.load_job` asks them all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from colltool.base.errors import ColltoolError, nearest, quote
from colltool.base.files import read_text
from colltool.fabric.load import exists, find_file
from colltool.training.files.presets import data_of, preset_folder, preset_names, stem_of

# a path or a shipped name, or what a file would hold
JobSource = str | os.PathLike[str] | Mapping[str, Any]


def find_job(path_or_name: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the path of a job, and the name by which errors call it.

    Raises:
        ColltoolError: there is no such file; the fix has the nearest name of a shipped job or model.
    """
    jobs = preset_names("jobs")
    models = [name for name in preset_names("models") if name not in jobs]
    shipped = f"shipped: {', '.join(jobs)}; models: {', '.join(models)}"
    name = os.fsdecode(path_or_name)
    # neither is there; a name with a folder is a path that somebody typed
    if not (stem_of(name) in jobs or exists(name) or os.path.dirname(name)):
        # a model is taken where a job is: its name may be the nearest
        did_you_mean = nearest(name, [*jobs, *models])  # "did you mean 'llama3-8b'?", or ""
        if any(f"'{model}'" in did_you_mean for model in models):
            what = f"no file and no shipped job is called {quote(name)}"
            raise ColltoolError(what, fix=f"{did_you_mean} {shipped}")
    # finds it, or refuses it with the nearest job
    return find_file(path_or_name, "job", preset_folder("jobs"), shipped)


# keys that a job has and a model lacks
_JOB_KEYS = frozenset({"model", "sequence", "batch", "calls", "compute", "layout"})


def is_model_text(text: str, name: str) -> bool:
    """Whether the text of a file holds a model, by its schema, else by its keys."""
    # every model has the key; most jobs need not be parsed for it
    if "layers" not in text:
        return False
    data = data_of(text, name)
    if not isinstance(data, dict):
        return False
    schema = data.get("schema")
    if isinstance(schema, str):
        return schema.startswith("colltool.model/")
    return "layers" in data and not _JOB_KEYS & data.keys()


def with_model(job: JobSource, model_file: str) -> JobSource:
    """Return a job with another model, as a mapping; in place of a model alone that model's path.

    Raises:
        ColltoolError: there is no such model.
    """
    path = os.path.abspath(model_file)
    shipped = preset_names("models")
    if model_file in shipped:
        path = model_file
    elif not exists(model_file):
        raise ColltoolError(
            f"no model file is called {quote(model_file)}",
            argument="model_file",
            fix=f"the path of one, or a shipped model: {', '.join(shipped)}",
        )
    if isinstance(job, Mapping):
        return {**job, "model": path}
    if is_model(str(job)):
        return path
    file, name = find_job(job)
    text = read_text(file, "definition", name)
    if is_model_text(text, name):
        return path
    content = data_of(text, name)
    if isinstance(content, dict):
        return {**content, "model": path}
    # refused where it is read
    return job


def is_model(name: str) -> bool:
    """Whether a name is that of a model: a config.json, or a shipped model where no job and no file
    has that name."""
    if name.endswith(".json"):
        return True
    if name not in preset_names("models") or name in preset_names("jobs"):
        return False
    return not exists(name)
