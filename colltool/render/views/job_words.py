"""Words of a training job that the views of jobs and of plans share: its layout, its model, its stages,
and what to type for a value of it."""

from __future__ import annotations

from collections.abc import Iterable

from colltool.base.errors import either, localize
from colltool.training.job import Job
from colltool.training.model import active_parameters
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import ends_as_layers


def layout_text(setup: ParallelConfig) -> str:
    """``tp 8 (sp) x pp 4 x dp 16, virtual 5``: dimensions of one rank are left out."""
    layout = setup.layout
    parts = []
    for dimension in ("tp", "cp", "pp", "dp"):
        size = getattr(layout, dimension)
        if size == 1:
            continue
        part = f"{dimension} {size}"
        # sequence parallelism splits over the same ranks
        if dimension == "tp" and layout.sp:
            part += " (sp)"
        parts.append(part)
    text = " x ".join(parts) or "one rank"
    for name in ("ep", "etp", "virtual"):
        size = getattr(layout, name)
        if size > 1:
            text += f", {name} {size}"
    if ends_as_layers(setup):
        text += ", embedding and head count as layers"
    return text


def model_text(job: Job) -> str:
    """``llama3-70b: 80 layers, 70.55B parameters``."""
    model = job.draft.model
    if model is None:
        return "no model"
    parameters = billions(model.parameters)
    text = f"{model.name}: {model.layers} layers, {parameters} parameters"
    active = active_parameters(model)
    if active != model.parameters:
        text += f", {billions(active)} of them active"
    shape = model.shape
    if shape is not None and shape.window:
        windowed_layers = round(shape.windowed * model.layers)
        text += f", windows of {shape.window} in {windowed_layers} layers"
    return text


def billions(parameters: float) -> str:
    """``70.55B``."""
    return f"{parameters / 1e9:.4g}B"


def stages_text(stages: tuple[int, ...]) -> str:
    """Stages of a pipeline: ``0``, ``0-3`` or ``0,2``."""
    first = stages[0]
    last = stages[-1]
    if len(stages) > 2 and stages == tuple(range(first, last + 1)):
        return f"{first}-{last}"
    return ",".join(map(str, stages))


def to_type(
    values: Iterable[tuple[str, str]],
    option: str,
    keyword: str,
) -> str:
    """What sets these (key, value) pairs: ``--job-set layout.tp=4`` by the option, in Python
    ``overrides=['layout.tp=4']`` by the keyword."""
    pairs = list(map("=".join, values))
    shell = " ".join(f"{option} {pair}" for pair in pairs)
    python = f"{keyword}={pairs!r}"
    return localize(either(shell=shell, python=python))
