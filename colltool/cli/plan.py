"""``colltool plan``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.completion import complete_job
from colltool.cli.shared import FabricChoice, Out, command
from colltool.pricing.readings import Readings

EXAMPLES = """
\b
Examples:
  colltool plan llama3-70b -f dgx-h100 -n 256
  colltool plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64
  colltool plan llama3-70b -f clos-4to1 --links
  colltool plan my-job.yaml -f my-cluster.yaml -n 128 --set nvlink.size=64 --job-set layout.tp=4
"""


@command()
def plan(
    job: Annotated[str, typer.Argument(help="A job file, or the name of a shipped one.", autocompletion=complete_job), o.READ],
    fabric: FabricChoice,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            "-n",
            metavar="N",
            help="Ranks of the job. [default: those of its layout, else all of the fabric]",
            parser=values.count("ranks", 1, several="one number of ranks a call"),
        ),
    ] = None,
    job_set: Annotated[
        list[str] | None, typer.Option("--job-set", metavar="KEY=VALUE", help="Override a value of the job; repeatable.")
    ] = None,
    links: Annotated[
        bool, typer.Option("--links", help="Also the busiest link of each kind, all groups of all dimensions sending at once.")
    ] = False,
    library: o.LibraryOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """A training step on a fabric: what it takes, what of its communication is exposed, and what to change.

    Beside it stands the control, the same step with a free network.
    """  # fmt: skip
    from colltool import api

    loaded = api.load_job(job, job_set or ())
    out.keep(loaded.files)
    out.emit(api.plan(loaded, fabric.load(), ranks, library=library, links=links, readings=readings))
