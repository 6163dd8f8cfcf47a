"""``colltool compare|sweep|sensitivity|plan|report``: what to choose, whether the choice holds, and
a page to hand over."""

from __future__ import annotations

import os
from typing import Annotated, Any

import colltool
from colltool.api.arguments import COUNTS
from colltool.base.errors import ColltoolError, clipped
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.options import EVERYBODY, FabricChoice, GroupChoice, Out, Plots
from colltool.cli.output import Counting, chosen_format, collect, working
from colltool.estimate.assumptions import Readings

TOP = 10


@command()
def compare(
    primitive: Annotated[
        str,
        o.option(
            "primitives",
            "ar, ag, rs, a2a, bc, reduce, p2p; several with commas.",
            flags="",
            metavar="PRIM,...",
        ),
    ],
    fabric: FabricChoice,
    vary: Annotated[
        o.Several, o.option("vary", "A column for each value of the fabric; repeatable.")
    ] = None,
    ranks: Annotated[
        o.Several, o.option("rank_counts", f"{COUNTS} [default: all of the smallest fabric]")
    ] = None,
    size: o.Sizes = None,
    algorithm: o.Algorithms = None,
    stride: o.Stride = 1,
    alone: o.Alone = False,
    shape: o.Shape = None,
    library: o.Library = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Fabrics, or values of one, side by side: times, ratios to the first, and what follows in
    sentences.

    Examples:
      colltool compare ar -f dgx-h100 -f dgx-b200 -n 8,64,256
      colltool compare ar,a2a -f dgx-h100 -n 256 --set ib.levels.leaf.group=4 --vary
      ib.levels.spine.oversubscription=1,2,4 colltool compare ar -f dgx-h100 -n 32,64,256 --vary
      library.collnet=false,true
    """
    compared = colltool.compare(
        fabric.several,
        primitive.split(","),
        ranks=values.counts(ranks),
        sizes=values.parts(size, "sizes"),
        vary=vary or (),
        overrides=fabric.overrides,
        algorithms=values.names(algorithm),
        stride=stride,
        alone=alone,
        shape=shape,
        library=library,
        machine=fabric.machine,
        readings=readings,
    )
    out.emit(compared)


@command()
def sweep(
    primitive: o.Primitive,
    fabric: FabricChoice,
    ranks: Annotated[o.Several, o.option("rank_counts")] = None,
    size: o.Sizes = None,
    vary: Annotated[
        o.Several,
        o.option(
            "vary",
            "A value of the fabric or a reading; KEY=LOW:HIGH:COUNT or COUNTlog; repeatable.",
        ),
    ] = None,
    pivot: Annotated[str | None, o.option("pivot")] = None,
    rows: Annotated[str, o.option("rows")] = "",
    cols: Annotated[str, o.option("cols")] = "",
    algorithm: o.Algorithms = None,
    stride: o.Stride = 1,
    alone: o.Alone = False,
    shape: o.Shape = None,
    library: o.Library = None,
    limit: Annotated[int | None, o.option("limit")] = None,
    *,
    out: Annotated[
        Out, Plots(("map", "busbw"), "A map of the fastest schedule, or its busbw as lines.")
    ],
    readings: Readings,
) -> None:
    """The fastest schedule over lists of fabrics, ranks, sizes and values; where the winner
    changes.

    Examples:
      colltool sweep ar -f dgx-h100 -n 8,64,256 -M 1MB,16MB,1GB --pivot busbw
      colltool sweep a2a -f dgx-h100 -n 64 --vary ib.levels.spine.oversubscription=1,2,4
      colltool sweep ar -f torus512 -M 16MB --vary torus.shape=8x8x8,16x8x4 --vary ideal=true,false
      colltool sweep ar -f dgx-h100 -f nvl72 -n 64 --format csv
      colltool sweep ar -f dgx-h100 -n 64 --vary ib.bandwidth=25GB/s:100GB/s:7 --pivot algorithm
      colltool sweep ar -f dgx-h100 -n 8,64,256 --plot busbw.svg --plot-what busbw
    """
    result = colltool.sweep(
        fabric.several,
        primitive,
        ranks=values.counts(ranks),
        sizes=values.parts(size, "sizes"),
        vary=vary or (),
        overrides=fabric.overrides,
        algorithms=values.names(algorithm),
        stride=stride,
        alone=alone,
        shape=shape,
        library=library,
        machine=fabric.machine,
        limit=limit,
        readings=readings,
    )
    if pivot is not None or rows or cols:
        result = result.pivoted(pivot or "busbw", rows, cols)  # type: ignore[arg-type]
    out.emit(result)


_NUMBERS = (
    "alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%; repeatable. "
    "[default: the fabric's uncertainty, else alpha=2x, eta.beta=20%, bandwidth=10%]"
)
_NUMBERS_OF_A_STEP = (
    "Where numbers may be off: alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%; usual for the fabric's"
    " own ranges; repeatable."
)


@command()
def sensitivity(
    primitive: o.Primitive,
    fabric: FabricChoice,
    size: o.Size,
    group: GroupChoice = EVERYBODY,
    vary: Annotated[o.Several, o.option("vary", _NUMBERS, metavar="KEY=RANGE")] = None,
    samples: Annotated[int, o.option("samples")] = 100_000,
    seed: Annotated[int, o.option("seed")] = 1,
    algorithm: o.Algorithms = None,
    library: o.Library = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Whether the winner holds where numbers of the fabric may be off, what would turn it, and what
    to measure.

    Of several fabrics (-f A -f B): how often each is faster than the first.

    Examples:
      colltool sensitivity ar -f dgx-h100 -n 64 -M 16MB
      colltool sensitivity ar -f dgx-h100 -n 64 -M 16MB --vary alpha=2x --vary ib.eta.beta=0.6:0.95
      colltool sensitivity ar -f dgx-h100 -f hgx-h200 -n 64 -M 256MB
      colltool sensitivity a2a -f my-cluster.yaml -M 64MB --vary bandwidth=10% --seed 7 --format
      json
    """
    asked = {
        "size": values.single(size, "size"),
        "vary": vary or (),
        "samples": samples,
        "seed": seed,
        "algorithms": values.names(algorithm),
        "library": library,
        "readings": readings,
        **group._asdict(),
    }
    several = fabric.several
    if len(several) == 1:
        out.emit(colltool.sensitivity(fabric.load(), primitive, **asked))
        return
    if out.plot is not None:
        raise ColltoolError(
            "draws one fabric", argument="plot", fix="colltool compare draws several"
        )
    out.emit(
        colltool.compare_sensitivity(
            several, primitive, overrides=fabric.overrides, machine=fabric.machine, **asked
        )
    )


@command()
def plan(
    job: Annotated[
        list[str],
        o.option(
            "job", "A job file, a shipped one, or Chakra traces: one a rank.", flags="", metavar=""
        ),
        o.READ,
    ],
    fabric: FabricChoice,
    ranks: Annotated[int | None, o.option("job_ranks")] = None,
    job_set: o.JobSet = None,
    links: Annotated[bool, o.option("links")] = False,
    library: o.Library = None,
    search: Annotated[bool, o.option("search")] = False,
    keep: Annotated[o.Several, o.option("keep")] = None,
    top: Annotated[int | None, o.option("layouts")] = None,
    headroom: Annotated[float | None, o.option("headroom")] = None,
    compute: Annotated[str | None, o.option("compute"), o.READ] = None,
    target: Annotated[str | None, o.option("target")] = None,
    mtbf: Annotated[str | None, o.option("mtbf")] = None,
    storage: Annotated[str | None, o.option("storage")] = None,
    checkpoint: Annotated[str | None, o.option("checkpoint")] = None,
    restart: Annotated[str | None, o.option("restart")] = None,
    vary: Annotated[o.Several, o.option("vary", _NUMBERS_OF_A_STEP, metavar="KEY=RANGE")] = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """A training step on a fabric: what it takes, what of its communication is exposed, and what to
    change.

    Beside it stands the control, the same step with a free network. With --search: which layout.
    Tried are tp (what divides the heads), cp (at least 4,096 tokens of a sequence a rank), ep (what
    divides the experts), pp (what divides the ranks), virtual (what divides the layers of a stage),
    micro-batches of powers of two, ddp, zero1, zero2 and fsdp, recompute none, full, and selective
    without flash attention. All else of the job stays. JOB may be a model alone, a config.json or
    the name of a shipped
    one: then the layout is searched, and what else a job needs has usual values that the output
        says. Of Chakra traces (.et files
    or a folder of them) compute is as recorded and collectives are priced.

    Examples:
      colltool plan llama3-70b -f dgx-h100 -n 256
      colltool plan llama3-70b -f dgx-h100 -n 512 --set ib.size=64
      colltool plan llama3-70b -f clos-4to1 --links
      colltool plan llama3-70b -f dgx-h100 -f dgx-b200 -n 256
      colltool plan llama3-70b -f dgx-h100 -n 256 --vary alpha=2x --vary eta.beta=20%
      colltool plan my-job.yaml -f my-cluster.yaml -n 128 --set nvlink.size=64 --job-set layout.tp=4
      colltool plan config.json -f dgx-h100 -n 256
      colltool plan step -f dgx-b200
      colltool plan llama3-70b -f dgx-h100 -n 256 --target step=5%
      colltool plan llama3-70b -f dgx-h100 -n 256 --mtbf 50000h --storage 200GB/s
      colltool plan llama3-70b -f dgx-h100 -n 256 --compute my-gemms.csv
      colltool plan llama3-70b -f dgx-h100 -n 256 --search
      colltool plan llama3-70b -f dgx-h100 -n 256 --search --keep tp=8 --keep shard=zero1 --top 20
    """
    from colltool.api.measurements import trace_files
    from colltool.api.plan_questions import measured_by
    from colltool.training.job import load_job

    alone: dict[str, Any] = {
        "target": target,
        "mtbf": mtbf,
        "storage": storage,
        "checkpoint": checkpoint,
        "restart": restart,
    }
    if files := trace_files(job):
        of_job = {
            "job_ranks": ranks,
            "job_overrides": job_set,
            "links": links,
            "search": search,
            "keep": keep,
            "layouts": top,
            "headroom": headroom,
            "compute": compute,
            "vary": vary,
            "plot": out.plot,
            **alone,
        }
        _refuse_beside_traces(job, files, of_job)
        out.emit(colltool.plan_traces(files, fabric.load(), library=library, readings=readings))
        return
    for name, value in (("keep", keep), ("top", top), ("headroom", headroom)):
        if value is not None and not search:
            raise ColltoolError("goes with a search", argument=name, fix="add --search")
    if search and links:
        raise ColltoolError(
            "is of one layout", argument="links", fix="plan the best of the search with --links"
        )
    if out.plot is not None and (search or vary):
        raise ColltoolError(
            "is of a step as it is",
            argument="plot",
            fix=f"leave --{'search' if search else 'vary'} out",
        )
    loaded = load_job(_only(job), job_set or (), argument="job_overrides")
    several = fabric.several
    for name in (
        name
        for name, value in alone.items()
        if value is not None and (search or vary or len(several) > 1)
    ):
        raise ColltoolError(
            "is of one step on one fabric",
            argument=name,
            fix="leave --search, --vary and further fabrics out",
        )
    loaded = measured_by(loaded, compute)
    asked: dict[str, Any] = {"ranks": ranks, "library": library, "readings": readings}
    if search:
        with Counting("pricing layouts") as watch:
            found = colltool.search_layouts(
                loaded,
                fabric.load(),
                keep=keep or (),
                top=top or TOP,
                headroom=headroom,
                watch=watch,
                **asked,
            )
        out.emit(found)
        return
    if len(several) > 1 and (vary or links):
        fix = f"a call for each of {', '.join(several)}"
        raise ColltoolError("is of one fabric", argument="vary" if vary else "links", fix=fix)
    if len(several) > 1:
        out.emit(
            colltool.compare_plans(
                loaded, several, overrides=fabric.overrides, machine=fabric.machine, **asked
            )
        )
    elif vary:
        out.emit(
            colltool.plan_sensitivity(
                loaded, fabric.load(), vary=[one for one in vary if one != "usual"], **asked
            )
        )
    else:
        out.emit(colltool.plan(loaded, fabric.load(), links=links, **alone, **asked))


def _only(job: list[str]) -> str:
    if len(job) > 1:
        raise ColltoolError(
            "is a second job",
            where=clipped(job[1]),
            fix="a call for each; of traces all files end in .et",
        )
    return job[0]


def _refuse_beside_traces(job: list[str], files: list[str], of_job: dict[str, Any]) -> None:
    """A trace is of one layout, batch and model, none of which it names: options about those have
    no answer."""
    if stray := [one for one in job if one not in files and not os.path.isdir(one)]:
        raise ColltoolError(
            "is no .et file, others are", where=clipped(stray[0]), fix="give traces or one job"
        )
    for name in (name for name, value in of_job.items() if value not in (None, False, [])):
        raise ColltoolError(
            "is of a job, and a trace does not say which",
            argument=name,
            fix="leave it out, or plan a job file",
        )


@command(logs="--log", primitive="--collective")
def report(
    fabric: FabricChoice,
    more: Annotated[o.Several, o.option("logs", "Logs and traces, as with --log."), o.READ] = None,
    against: Annotated[
        o.Several,
        o.option("fabric", "Compare with this one; repeatable.", flags="--against"),
        o.READ,
    ] = None,
    vary: Annotated[
        o.Several,
        o.option("vary", "Values to compare, the first is what the page is about; repeatable."),
    ] = None,
    job: Annotated[str | None, o.option("job"), o.READ] = None,
    job_set: o.JobSet = None,
    log: Annotated[
        o.Several,
        o.option(
            "logs",
            "What was measured: logs of benchmarks, traces; repeatable.",
            flags="--log",
            metavar="LOG",
        ),
        o.READ,
    ] = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    ranks: Annotated[int | None, o.option("page_ranks")] = None,
    shape: o.Shape = None,
    size: Annotated[
        str, o.option("size", "Bytes per rank looked at closely, as in nccl-tests.")
    ] = "64MB",
    primitive: Annotated[str, o.option("primitives")] = "ar,ag,a2a",
    library: o.Library = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """A page to hand over: a fabric drawn and priced, compared, a job's step on it, and what was
    measured.

    With -o report.html one file with pictures and tables that needs no network: for a screen, a
    phone or paper. Without it what follows, in sentences, and the commands that give it.

    Examples:
      colltool report -f dgx-h100 -o report.html
      colltool report -f dgx-h100 --against dgx-b200 --job llama3-70b -n 256 -o report.html
      colltool report -f dgx-h100 --vary ib.levels.spine.oversubscription=1,4 --set ib.size=64 --job
      llama3-70b -o report.html colltool report -f my-cluster.yaml -p ar,a2a -n 144 -M 1GB
      colltool report -f dgx-h100 --log all_reduce.log -o report.html
    """
    if chosen_format(out.form, out.path) == "html":
        from colltool.render.dispatch import without_columns
        from colltool.render.page import check_page

        without_columns(out.columns or "")
        check_page()
    if out.path is not None and not os.path.isdir(out.path.parent):
        what = f"cannot write {out.path}: no such folder"
        raise ColltoolError(what, argument="output", fix=f"create it: mkdir -p {out.path.parent}")
    collect()
    working("pricing the page ...")
    first, *others = fabric.several
    result = colltool.report(
        first,
        against=[*others, *(against or ())],
        vary=vary or (),
        job=job,
        job_overrides=job_set or (),
        logs=[*(log or ()), *(more or ())],
        collective=collective,
        nodes=nodes,
        in_place=in_place,
        ranks=ranks,
        shape=shape,
        size=values.single(size, "size"),
        primitives=[one.strip() for one in primitive.split(",")],
        overrides=fabric.overrides,
        library=library,
        machine=fabric.machine,
        readings=readings,
    )
    out.emit(result)
