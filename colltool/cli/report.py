"""``colltool report``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
from colltool.cli.completion import complete_fabric, complete_job, complete_primitive
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool report -f dgx-h100 -o report.html
  colltool report -f dgx-h100 --against dgx-b200 --job llama3-70b -n 256 -o report.html
  colltool report -f dgx-h100 --vary ib.levels.spine.oversubscription=1,4 --set ib.size=64 --job llama3-70b -o report.html
  colltool report -f my-cluster.yaml -p ar,a2a -n 144 -M 1GB
  colltool report -f dgx-h100 --log all_reduce.log -o report.html
"""


@command(logs="--log", primitives="--primitive", primitive="--collective")
def report(
    fabric: FabricChoice,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="LOG...", help="Logs and traces, as with --log.", show_default=False), o.READ
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option("--against", metavar="FABRIC", help="One to compare with; repeatable.", autocompletion=complete_fabric),
        o.READ,
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=V1,V2", help="Values to compare, the first is what the page is about; repeatable."),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="A job file, or the name of a shipped one.", autocompletion=complete_job),
        o.READ,
    ] = None,
    job_set: o.JobSetOption = None,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="LOG", help="What was measured: logs of benchmarks, traces; repeatable."),
        o.READ,
    ] = None,
    collective: o.CollectiveOption = None,
    nodes: o.NodesOption = None,
    in_place: o.InPlaceOption = False,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            "-n",
            metavar="N",
            help="Looked at closely, of the job, and of logs that do not say. [default: all of the smallest fabric]",
            parser=values.count("ranks", -values.MOST_RANKS, several="one number of ranks a page"),
            autocompletion=o.complete_ranks,
        ),
    ] = None,
    shape: o.ShapeOption = None,
    size: Annotated[
        str, typer.Option("--size", "-M", metavar="SIZE", help="Bytes per rank looked at closely, nccl-tests' convention.")
    ] = "64MB",
    primitive: Annotated[
        str,
        typer.Option(
            "--primitive", "-p", metavar="PRIM,...", help="ar, ag, rs, a2a, bc, reduce, p2p.", autocompletion=complete_primitive
        ),
    ] = "ar,ag,a2a",
    library: o.LibraryOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """A page to hand over: a fabric drawn and priced, compared, a job's step on it, and what was measured.

    With -o report.html one file with pictures and tables that needs no network: for a screen, a phone or paper. Without it
    what follows, in sentences, and the commands that give it.
    """
    import colltool
    from colltool.cli.output import chosen_format, collect, working

    if chosen_format(out.form, out.path) is o.OutputFormat.HTML:
        from colltool.render.page import check_page

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
        size=o.single(size, "size", "size"),
        primitives=[one.strip() for one in primitive.split(",")],
        overrides=fabric.overrides,
        library=library,
        readings=readings,
    )
    out.emit(result)
