"""``colltool plan``."""

from __future__ import annotations

from typing import Annotated

from colltool.api.arguments import MOST_ROWS
from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out, Plots
from colltool.estimate.assumptions import Readings

TOP = 10

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


def _top(text: str) -> int:
    """``10``, or ``all``."""
    return MOST_ROWS if text == "all" else values.count("top", 1, MOST_ROWS, several="one number, or all")(text)


@command()
def plan(
    job: o.JobFile,
    fabric: FabricChoice,
    ranks: Annotated[
        int | None,
        o.option(
            "ranks",
            "Ranks of the job. [default: those of its layout, else all of the fabric]",
            least=1,
            hint="one number of ranks a call",
            offers="",
        ),
    ] = None,
    job_set: o.JobSet = None,
    links: Annotated[bool, o.option("links")] = False,
    library: o.Library = None,
    search: Annotated[bool, o.option("search")] = False,
    keep: Annotated[o.Several, o.option("keep")] = None,
    top: Annotated[int | None, o.option("top", f"So many layouts of a search. [default: {TOP}]", _top, metavar="K|all")] = None,
    vary: Annotated[
        o.Several,
        o.option(
            "vary",
            "Where numbers may be off: alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%; "
            "usual for the fabric's own ranges; repeatable.",
            metavar="KEY=RANGE",
        ),
    ] = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """A training step on a fabric: what it takes, what of its communication is exposed, and what to change.

    Beside it stands the control, the same step with a free network. With --search: which layout. Tried are tp (what divides the
    heads), cp (at least 4,096 tokens of a sequence a rank), ep (what divides the experts), pp (what divides the ranks), virtual
    (what divides the layers of a stage), micro-batches of powers of two, ddp, zero1, zero2 and fsdp, recompute none, full, and
    selective without flash attention. All else of the job stays.
    """
    import colltool
    from colltool.cli.output import Counting
    from colltool.training.job import load_job

    for name, value in (("keep", keep), ("top", top)):
        if value and not search:
            raise ColltoolError("goes with a search", argument=name, fix="add --search")
    if search and links:
        raise ColltoolError("is of one layout", argument="links", fix="plan the best of the search with --links")
    if out.plot is not None and (search or vary):
        raise ColltoolError("is of a step as it is", argument="plot", fix=f"leave --{'search' if search else 'vary'} out")
    loaded = load_job(job, job_set or (), argument="job_overrides")
    if search:
        with Counting("pricing layouts") as watch:
            found = colltool.search_layouts(
                loaded, fabric.load(), ranks, keep or (), top=top or TOP, library=library, readings=readings, watch=watch
            )
        out.emit(found)
        return
    several = fabric.several
    if len(several) > 1 and (vary or links):
        fix = f"a call for each of {', '.join(several)}"
        raise ColltoolError("is of one fabric", argument="vary" if vary else "links", fix=fix)
    if len(several) > 1:
        out.emit(colltool.compare_plans(loaded, several, ranks, overrides=fabric.overrides, library=library, readings=readings))
    elif vary:
        ranges = [one for one in vary if one != "usual"]
        out.emit(colltool.plan_sensitivity(loaded, fabric.load(), ranks, vary=ranges, library=library, readings=readings))
    else:
        out.emit(colltool.plan(loaded, fabric.load(), ranks, library=library, links=links, readings=readings))
