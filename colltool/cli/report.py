"""``colltool report``."""

from __future__ import annotations

import os
from typing import Annotated

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out
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
    more: Annotated[o.Several, o.option("logs", "Logs and traces, as with --log."), o.READ] = None,
    against: Annotated[o.Several, o.option("fabric", "Compare with this one; repeatable.", flags="--against"), o.READ] = None,
    vary: Annotated[o.Several, o.option("vary", "Values to compare, the first is what the page is about; repeatable.")] = None,
    job: Annotated[str | None, o.option("job", flags="--job"), o.READ] = None,
    job_set: o.JobSet = None,
    log: Annotated[
        o.Several,
        o.option("logs", "What was measured: logs of benchmarks, traces; repeatable.", flags="--log", metavar="LOG"),
        o.READ,
    ] = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    ranks: Annotated[
        int | None,
        o.option(
            "ranks",
            "Looked at closely, of the job, and of logs that do not say. [default: all of the smallest fabric]",
            hint="one number of ranks a page",
        ),
    ] = None,
    shape: o.Shape = None,
    size: Annotated[str, o.option("size", "Bytes per rank looked at closely, as in nccl-tests.")] = "64MB",
    primitive: Annotated[str, o.option("primitives", "ar, ag, rs, a2a, bc, reduce, p2p.", flags="--primitive -p")] = "ar,ag,a2a",
    library: o.Library = None,
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

    if chosen_format(out.form, out.path) == "html":
        from colltool.render.page import check_page

        check_page()
        if out.path is not None and not os.path.isdir(out.path.parent):
            what = f"cannot write {out.path}: no such folder"
            raise ColltoolError(what, argument="output", fix=f"create it: mkdir -p {out.path.parent}")
    collect()
    working("pricing the page ...")
    first, *others = fabric.several
    result = colltool.report(
        first, against=[*others, *(against or ())], vary=vary or (), job=job, job_overrides=job_set or (),
        logs=[*(log or ()), *(more or ())], collective=collective, nodes=nodes, in_place=in_place, ranks=ranks, shape=shape,
        size=values.single(size, "size", "size"), primitives=[one.strip() for one in primitive.split(",")],
        overrides=fabric.overrides, library=library, readings=readings,
    )  # fmt: skip
    out.emit(result)
