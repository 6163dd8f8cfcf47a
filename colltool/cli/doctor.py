"""``colltool doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool doctor all_reduce.log
  colltool doctor node*.log --expect 95% --format json
  colltool doctor all.log --collective ar
  colltool doctor osu_allreduce.txt -f my-cluster.yaml -n 64
  colltool doctor trace/rank*.json.gz
"""

FROM_THE_LOGS = FabricChoice((), ())


@command(primitive="--collective")
def doctor(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="nccl-tests, rccl-tests (text or -J), OSU micro-benchmarks, CSV, or PyTorch profiler traces."
        ),
        o.READ,
    ],
    fabric: FabricChoice = FROM_THE_LOGS,
    expect: Annotated[
        float | None,
        typer.Option(
            "--expect",
            metavar="SHARE",
            help="The share of the expected rate below which something is off: 95%, 0.95. [default: 80%, less of few ranks]",
            parser=values.share("expect", "95% or 0.95"),
        ),
    ] = None,
    collective: Annotated[
        str | None,
        typer.Option("--collective", metavar="PRIM", help="Only this one.", autocompletion=o.complete_primitive),
    ] = None,
    ranks: o.LogRanksOption = None,
    nodes: o.NodesOption = None,
    in_place: o.InPlaceOption = False,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """What ails a machine: from logs or traces alone to what is off, the causes that prices support, and the next experiment.

    The hardware is read from the names of devices; -f says otherwise. Exit 1 where something is off.
    """
    import colltool

    o.check_plot(plot)
    result = colltool.doctor(
        logs,
        fabric.name if fabric.names else None,
        overrides=fabric.overrides,
        expect=expect,
        primitive=collective,
        ranks=ranks,
        nodes=nodes,
        in_place=in_place,
        readings=readings,
    )
    o.draw(plot, result)
    out.emit(result)
    if not result.ok:
        raise typer.Exit(EXIT_CHECK_FAILED)
