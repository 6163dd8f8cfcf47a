"""Reads arguments that ``serve`` and ``reshard`` take: the served model and the format of its weights,
the libraries of its collectives and KV caches, and a time per token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text, clipped, rename_for_both

if TYPE_CHECKING:
    from colltool.commands.plan import AnyJob
    from colltool.commands.reading import AnyPath
    from colltool.engines.files import LibraryFile
    from colltool.serving.quantization import WeightFormat
    from colltool.training.job import Job
    from colltool.training.model import TransformerModel


def job_of(job: AnyJob, model_file: AnyPath | None = None) -> Job:
    """Return a job, loaded if it is not, with the model of ``model_file``, if there is one, in place of
    its own; a job that is loaded keeps its model."""
    from colltool.commands.reading import path_of
    from colltool.training.job import Job, load_job

    if model_file is not None:
        path_of(model_file, "model_file", "a path", "model.yaml")
    return job if isinstance(job, Job) else load_job(job, (), model_file=model_file)


def model_of(job: Job) -> TransformerModel:
    """Return the model that a job trains or serves.

    Raises:
        ColltoolError: the job lists its calls instead of naming a model.
    """
    if job.draft.model is None:
        raise ColltoolError(
            f"{job.name} names no model",
            argument="job",
            fix="a job with a model, or a config.json",
        )
    return job.draft.model


def weights_of(weights: Any, job: Job, model: TransformerModel) -> WeightFormat:
    """Return the format of a model's weights: as asked, else as the checkpoint of its config.json has
    it, else as the model's file says."""
    from colltool.commands.reading import text_of
    from colltool.serving.checkpoint_weights import checkpoint_weights
    from colltool.serving.quantization import uniform

    if weights is not None:
        return uniform(text_of(weights, "weights", "bf16").lower())
    model_name = job.file.model if job.file is not None else None
    if isinstance(model_name, str) and model_name.endswith(".json"):
        # a relative path is of the job's folder
        of_checkpoint = checkpoint_weights(str((job.folder or Path()) / model_name), model)
        if of_checkpoint is not None:
            return of_checkpoint
    return uniform(model.weights)


def kv_dtype_of(kv_dtype: Any) -> str:
    """Return the lower-case name of the format of the KV cache."""
    from colltool.commands.reading import choice_of
    from colltool.engines.tokens import WIDTHS

    return choice_of(kv_dtype, "kv_dtype", list(WIDTHS), "format of numbers")


def tpot_seconds(tpot: Any) -> float | None:
    """The user's time per output token, in seconds, from a number or text; None if there is none."""
    from colltool.base.formatting import parse_time
    from colltool.commands.reading import number_of

    if tpot is None:
        return None
    seconds = parse_time(tpot) if isinstance(tpot, str) else number_of(tpot, "tpot")
    # a million seconds: far more than anyone means
    if not 0 < seconds < 1e6:
        raise ColltoolError(
            "a time above 0", argument="tpot", fix=f"write {argument_text('tpot', '18ms')}"
        )
    return seconds


def engine_of(engine: Any, library_file: AnyPath | None) -> LibraryFile | None:
    """An engine by name, also as ``vllm 0.24``, or from a file; None for NCCL, which is the fabric's
    own.

    Raises:
        ColltoolError: no such engine, a library that is none, or a name and a file.
    """
    from colltool.commands.reading import path_of
    from colltool.engines.files import NCCL
    from colltool.engines.lookup import find_library, library_of

    if library_file is not None:
        path_of(library_file, "library_file", "a path", "mine.toml")
    # library_of refuses a name beside a file
    if engine is None or library_file is not None:
        return library_of(None if engine is None else str(engine), library_file)
    name = _library_name(engine, "engine", "vllm@0.24.0")
    if name.partition("@")[0] == NCCL:
        return None
    library = find_library(name)
    if "all_reduce" not in library.operations or library.runs:
        raise ColltoolError(
            f"{library.full_name} is no inference engine: it has no all-reduce of its own",
            argument="engine",
            fix="vllm, sglang or trtllm; without it the fabric's own library runs",
        )
    return library


def experts_of(library: Any) -> tuple[LibraryFile | None, bool]:
    """The library whose kernels dispatch and combine tokens (None for the fastest measured one), and
    whether NCCL's all-to-all takes their place."""
    from colltool.engines.files import NCCL
    from colltool.engines.lookup import find_library

    if library is None:
        return None, False
    name = _library_name(library, "experts_library", "deepep@1")
    if name == NCCL:
        return None, True
    return find_library(name), False


def _library_name(value: Any, argument: str, example: str) -> str:
    """``vllm@0.24`` for ``vLLM 0.24``; errors show the example."""
    from colltool.commands.reading import text_of

    return text_of(value, argument, example).strip().lower().replace(" ", "@")


# libraries of which times by size are published
_KV_LIBRARIES = ("mooncake", "mori-io")


def kv_library_of(library: Any) -> LibraryFile:
    """The library that moves KV caches; mooncake for None."""
    from colltool.commands.reading import text_of
    from colltool.engines.lookup import find_library

    name = "mooncake"
    if library is not None:
        name = text_of(library, "kv_library", name).lower()
    if name.partition("@")[0] not in _KV_LIBRARIES:
        raise ColltoolError(
            f"{clipped(name)} moves no KV caches here: no times by size are published",
            argument="kv_library",
            fix=f"{' and '.join(_KV_LIBRARIES)} do",
        )
    with rename_for_both(library="kv_library"):
        return find_library(name)
