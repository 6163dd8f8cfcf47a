"""``colltool doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED
from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out, Plots
from colltool.estimate.assumptions import Readings

FROM_THE_LOGS = FabricChoice((), ())

EXAMPLES = """
\b
Examples:
  colltool doctor all_reduce.log
  colltool doctor node*.log --expect 95% --format json
  colltool doctor all.log --collective ar
  colltool doctor osu_allreduce.txt -f my-cluster.yaml -n 64
  colltool doctor trace/rank*.json.gz
"""


@command(primitive="--collective")
def doctor(
    logs: Annotated[
        list[str],
        o.option("logs", "nccl-tests, rccl-tests (text or -J), OSU micro-benchmarks, CSV, or PyTorch profiler traces."),
        o.READ,
    ],
    fabric: FabricChoice = FROM_THE_LOGS,
    expect: Annotated[float | None, o.option("expect")] = None,
    collective: Annotated[str | None, o.option("collective", "Only this one.")] = None,
    ranks: o.LogRanks = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """What ails a machine: from logs or traces alone to what is off, the causes that prices support, and the next experiment.

    The hardware is read from the names of devices; -f says otherwise. Exit 1 where something is off.
    """
    import colltool

    result = colltool.doctor(
        logs, fabric.name if fabric.names else None, overrides=fabric.overrides, expect=expect, primitive=collective,
        ranks=ranks, nodes=nodes, in_place=in_place, readings=readings,
    )  # fmt: skip
    out.emit(result)
    if not result.ok:
        raise typer.Exit(EXIT_CHECK_FAILED)
