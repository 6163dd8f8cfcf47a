"""``colltool plan``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, get_args

import typer

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
from colltool.cli.completion import complete_job, complete_keep
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool plan llama3-70b -f dgx-h100 -n 256
  colltool plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64
  colltool plan llama3-70b -f clos-4to1 --links
  colltool plan llama3-70b -f dgx-h100 -f dgx-b200 -n 256
  colltool plan llama3-70b -f dgx-h100 -n 256 --vary alpha=2x --vary eta.beta=20%
  colltool plan my-job.yaml -f my-cluster.yaml -n 128 --set nvlink.size=64 --job-set layout.tp=4
  colltool plan llama3-70b -f dgx-h100 -n 256 --search
  colltool plan llama3-70b -f dgx-h100 -n 256 --search --keep tp=8 --keep shard=zero1 --top 20
"""

_TOP = 10


def _top(text: str) -> int:
    """``10``, or ``all``."""
    return values.MOST_ROWS if text == "all" else values.count("top", 1, values.MOST_ROWS, several="one number, or all")(text)


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
    job_set: o.JobSetOption = None,
    links: Annotated[
        bool, typer.Option("--links", help="Also the busiest link of each kind, all groups of all dimensions sending at once.")
    ] = False,
    library: o.LibraryOption = None,
    search: Annotated[
        bool, typer.Option("--search", help="Price every layout that fills the ranks and fits the memory; the best first.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="KEY=VALUE",
            help="Search only layouts with it: tp, sp, cp, ep, etp, pp, virtual, micro, shard or recompute; repeatable.",
            autocompletion=complete_keep,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="K|all", help=f"So many layouts of a search. [default: {_TOP}]", parser=_top),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=RANGE",
            help="Where numbers may be off: alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%; "
            "usual for the fabric's own ranges; repeatable.",
        ),
    ] = None,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """A training step on a fabric: what it takes, what of its communication is exposed, and what to change.

    Beside it stands the control, the same step with a free network. With --search: which layout. Tried are tp (what divides the
    heads), cp (at least 4,096 tokens of a sequence a rank), ep (what divides the experts), pp (what divides the ranks), virtual
    (what divides the layers of a stage), micro-batches of powers of two, ddp, zero1, zero2 and fsdp, recompute none, full, and
    selective without flash attention. All else of the job stays.
    """
    import colltool
    from colltool.training.job import load_job

    for name, value in (("keep", keep), ("top", top)):
        if value and not search:
            raise ColltoolError("is of a search", argument=name, fix="add --search")
    if search and links:
        raise ColltoolError("is of one layout", argument="links", fix="plan the best of the search with --links")
    if plot is not None and (search or vary):
        raise ColltoolError("is of a step as it is", argument="plot", fix=f"leave --{'search' if search else 'vary'} out")
    o.check_plot(plot)
    _check_whose(fabric.overrides)
    loaded = load_job(job, job_set or (), argument="job_overrides")
    if search:
        from colltool.cli.output import Counting

        with Counting("pricing layouts") as watch:
            found = colltool.search_layouts(
                loaded, fabric.load(), ranks, keep or (), top=top or _TOP, library=library, readings=readings, watch=watch
            )
        out.emit(found)
        return
    several = fabric.several
    if len(several) > 1:
        if vary or links:
            raise ColltoolError(
                "is of one fabric", argument="vary" if vary else "links", fix=f"a call for each of {', '.join(several)}"
            )
        compared = colltool.compare_plans(loaded, several, ranks, overrides=fabric.overrides, library=library, readings=readings)
        o.draw(plot, compared)
        out.emit(compared)
    elif vary:
        ranges = [one for one in vary if one != "usual"]
        out.emit(colltool.plan_sensitivity(loaded, fabric.load(), ranks, vary=ranges, library=library, readings=readings))
    else:
        planned = colltool.plan(loaded, fabric.load(), ranks, library=library, links=links, readings=readings)
        o.draw(plot, planned)
        out.emit(planned)


def _check_whose(overrides: Sequence[str]) -> None:
    """Refuse a value of the job among those of the fabric."""
    from colltool.training.files.job import JobFile

    for text in overrides:
        head, dot, rest = text.partition("=")[0].strip().partition(".")
        kind = JobFile.model_fields[head].annotation if dot and head in JobFile.model_fields else None
        fields = [one for part in (kind, *get_args(kind)) for one in getattr(part, "model_fields", {}).items()]
        if rest.partition(".")[0] in {field.alias or name for name, field in fields}:
            what, fix = f"{head} is of the job, not of the fabric", f"write {given('job_overrides', [text])}"
            raise ColltoolError(what, argument="overrides", fix=fix)
