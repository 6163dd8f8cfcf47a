"""``colltool job list|show|check|schema``."""

from __future__ import annotations

from typing import Annotated

from colltool.cli import options as o
from colltool.cli.command import command, each_checked, group_app
from colltool.cli.groups import Out

SHOW_EXAMPLES = """
\b
Examples:
  colltool job show llama3-70b -n 512
  colltool job show llama3-70b -n 512 --set layout.tp=4 --set recompute=full
"""

app = group_app("Shipped jobs; show, check and describe job files.")


@app.command("list", short_help="The shipped jobs.", epilog="\b\nExample:\n  colltool job list")
@command()
def list_(*, out: Out) -> None:
    """The shipped jobs."""
    from colltool.training.files.presets import preset_names
    from colltool.training.job import load_job
    from colltool.training.job_results import JobList

    out.emit(JobList(tuple(load_job(name) for name in preset_names("jobs"))))


@app.command(short_help="What a job computes, sends and keeps.", epilog=SHOW_EXAMPLES)
@command()
def show(
    job: o.JobFile,
    ranks: Annotated[
        int | None,
        o.option(
            "ranks",
            "Ranks of the job. [default: those of its layout, where dp is a number]",
            least=1,
            hint="one number of ranks a call",
            offers="",
        ),
    ] = None,
    set_: Annotated[o.Several, o.option("job_overrides", flags="--set")] = None,
    *,
    out: Out,
) -> None:
    """A job on so many ranks: its groups, the collectives of a step, compute of a micro-batch, memory by part. No network yet."""
    from colltool.training.job import load_job
    from colltool.training.job_results import show_job

    loaded = load_job(job, set_ or ())
    out.emit(show_job(loaded, ranks))


@app.command(short_help="Validate job files.", epilog="\b\nExample:\n  colltool job check my-job.yaml gpt3-175b")
@command()
def check(
    files: Annotated[list[str], o.option("files", "Job files, or names of shipped ones.", offers="job"), o.READ],
    *,
    out: Out,
) -> None:
    """Validate job files: what was read, what is odd about it, every error of every file with its line and column."""
    from colltool.training.job_results import JobsChecked, check_job

    out.emit(each_checked(files, check_job, JobsChecked))


@app.command(short_help="The JSON Schema of job files.", epilog="\b\nExample:\n  colltool job schema -o job.schema.json")
@command()
def schema(output: o.Output = None) -> None:
    """The JSON Schema of job files, for completion and checks in an editor."""
    from colltool.cli.output import write
    from colltool.definitions.reader import json_schema
    from colltool.render.dispatch import to_json
    from colltool.training.files.job import JobFile

    write(to_json(json_schema(JobFile, "job")), output)
