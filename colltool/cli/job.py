"""``colltool job list|show|check|schema``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import Out, command, each_checked
from colltool.cli.completion import complete_job

SHOW_EXAMPLES = """
\b
Examples:
  colltool job show llama3-70b -n 512
  colltool job show llama3-70b -n 512 --set layout.tp=4 --set recompute=full
"""

app = typer.Typer(
    help="Shipped jobs; show, check and describe job files.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks", "-n", metavar="N", help="Ranks of the job. [default: those of its layout, where dp is a number]",
        parser=values.count("ranks", 1, several="one number of ranks a call"),
    ),
]  # fmt: skip
_Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the job; repeatable.")]


@app.command("list", short_help="The shipped jobs.", epilog="\b\nExample:\n  colltool job list")
@command()
def list_(*, out: Out) -> None:
    """The shipped jobs."""
    from colltool.training.job import list_jobs, load_job
    from colltool.training.job_results import JobList

    out.emit(JobList(tuple(load_job(name) for name in list_jobs())))


@app.command(short_help="What a job computes, sends and keeps.", epilog=SHOW_EXAMPLES)
@command()
def show(
    job: Annotated[str, typer.Argument(help="A job file, or the name of a shipped one.", autocompletion=complete_job), o.READ],
    ranks: _Ranks = None,
    set_: _Set = None,
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
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Job files, or names of shipped ones.", autocompletion=complete_job),
        o.READ,
    ],
    *,
    out: Out,
) -> None:
    """Validate job files: what was read, what is odd about it, every error of every file with its line and column."""
    from colltool.training.job_results import JobsChecked, check_job

    out.emit(each_checked(files, check_job, JobsChecked))


@app.command(short_help="The JSON Schema of job files.", epilog="\b\nExample:\n  colltool job schema -o job.schema.json")
@command()
def schema(output: o.OutputOption = None) -> None:
    """The JSON Schema of job files, for completion and checks in an editor."""
    from colltool.cli.written import write
    from colltool.fabric.schema import JOB, json_schema
    from colltool.render.dispatch import to_json
    from colltool.training.files.job import JobFile

    write(to_json(json_schema(JobFile, JOB)), output)
