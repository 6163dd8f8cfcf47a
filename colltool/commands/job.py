"""Job files: list, start, show and check; and :func:`load_job` for programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError
from colltool.commands.command import CommandGroup, command, each_checked
from colltool.commands.options import (
    JOB_FILE,
    NEW_FILE,
    RESULT,
    YAML_TOO,
    Out,
    is_yaml_wanted,
    new_file,
    option,
    result_options,
    write_schema,
)
from colltool.commands.output import write

if TYPE_CHECKING:
    from colltool.definitions.overrides import Overrides
    from colltool.training.job import Job


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
    from colltool.training.job import load_job as load

    return load(job, overrides)


job_command = CommandGroup("Shipped jobs; show, check and describe job files.")


@command([RESULT], within=job_command, name="list", short_help="The shipped jobs.")
def list_command(out: Out) -> None:
    """List the shipped jobs.

    Example:
      colltool job list
    """
    from colltool.training.files.presets import preset_names
    from colltool.training.job import load_job
    from colltool.training.job_results import JobList

    out.emit(JobList(tuple(load_job(name) for name in preset_names("jobs"))))


@command(
    [
        "model",
        option("fabric", "Also search a layout for this fabric.", many=False),
        option("ranks", "Ranks of the job. [default: the whole fabric]"),
        option("job_overrides", flags="--set"),
        NEW_FILE,
    ],
    within=job_command,
    name="init",
    short_help="Start a job file from a model.",
)
def init_command(
    model: str,
    fabric: str | None = None,
    ranks: int | None = None,
    job_overrides: list[str] | None = None,
    output: Path | None = None,
) -> None:
    """Write a job file for a shipped model or a config.json from Hugging Face, with a usual sequence
    length and batch, and with a layout if a fabric is given.

    Examples:
      colltool job init llama3-8b -o my-job.yaml
      colltool job init config.json -f dgx-h100 -n 64 --set batch.global=256 -o my-job.yaml
    """
    from colltool.fabric.load import load_fabric
    from colltool.training.job_text import job_start

    # a layout is searched on a fabric; without one the file leaves it open
    if ranks is not None and fabric is None:
        raise ColltoolError(
            "needs the fabric whose ranks they are", argument="ranks", fix="add --fabric dgx-h100"
        )
    path = new_file(output, "a job file")
    loaded = None if fabric is None else load_fabric(fabric)
    write(job_start(model, loaded, ranks, job_overrides or ()), path)


@command(
    [
        JOB_FILE,
        option("job_ranks", "Ranks of the job. [default: those of its layout, if dp is a number]"),
        option("job_overrides", flags="--set"),
        result_options(form=YAML_TOO),
    ],
    within=job_command,
    name="show",
    short_help="Show what a job computes, sends and stores.",
)
def show_command(
    job: str, out: Out, ranks: int | None = None, job_overrides: list[str] | None = None
) -> None:
    """Show a job without a network: its groups, the collectives of a step, the compute of a
    micro-batch, and memory by part.

    Examples:
      colltool job show llama3-70b -n 512
      colltool job show llama3-70b -n 512 --set layout.tp=4 --set recompute=full
      colltool job show llama3-70b --set layout.tp=4 --format yaml -o mine.yaml
    """
    from colltool.training.job import load_job
    from colltool.training.job_results import show_job

    loaded = load_job(job, job_overrides or ())
    if is_yaml_wanted(out):
        from colltool.training.job_text import job_text

        write(job_text(loaded), out.path)
        return
    out.emit(show_job(loaded, ranks))


@command(
    [option("files", "Job files, or names of shipped ones.", offers="job"), RESULT],
    within=job_command,
    name="check",
    short_help="Validate job files.",
)
def check_command(files: list[str], out: Out) -> None:
    """Validate job files: print what was read, warnings, and every error with its line and column.

    Example:
      colltool job check my-job.yaml gpt3-175b
    """
    from colltool.training.job_results import JobsChecked, check_job

    out.emit(each_checked(files, check_job, JobsChecked))


@command(["output"], within=job_command, name="schema", short_help="The JSON Schema of job files.")
def schema_command(output: Path | None = None) -> None:
    """Print the JSON Schema of job files, for completion and checks in an editor.

    Example:
      colltool job schema -o job.schema.json
    """
    from colltool.training.files.job import JobFile

    write_schema(JobFile, "job", output)
