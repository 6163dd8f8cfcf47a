"""``colltool validate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out, Plots
from colltool.estimate.assumptions import Readings

if TYPE_CHECKING:
    from colltool.diagnosis.results import Validation

EXAMPLES = """
\b
Examples:
  colltool validate all_reduce.log -f dgx-h100
  colltool validate osu_allreduce.txt -f my-cluster.yaml -n 64 --max-mape 15%
  colltool validate *.log -f my-cluster.yaml --format json -o validation.json
  colltool validate all_reduce.log -f dgx-h100 --algorithm ring,double-binary-tree --plot validation.svg
"""


@command(primitive="--collective")
def validate(
    logs: o.Logs,
    fabric: FabricChoice,
    ranks: o.LogRanks = None,
    collective: o.Collective = None,
    nodes: o.Nodes = None,
    in_place: o.InPlace = False,
    algorithm: Annotated[
        str | None,
        o.option("algorithms", "What ran, comma-separated. [default: whatever the log's library implements]"),
    ] = None,
    max_mape: Annotated[float | None, o.option("max_mape")] = None,
    *,
    out: Annotated[Out, Plots("time", "busbw")],
    readings: Readings,
) -> None:
    """Compare measured times with the prices of a fabric, size by size, and say what the difference tells.

    Each size is compared with the fastest algorithm that the log's library implements; error = predicted/measured - 1.
    """
    import colltool

    result = colltool.validate(
        fabric.load(), logs, ranks=ranks, primitive=collective, nodes=nodes, in_place=in_place,
        algorithms=values.names(algorithm), max_mape=max_mape, readings=readings,
    )  # fmt: skip
    out.emit(result)
    _finish(result)


def _finish(result: Validation) -> None:
    """Exit 1 where a series does not hold, and name it."""
    if result.holds or result.max_mape is None:
        return
    from colltool.base.formatting import percent, short_percent

    for one in result.series:
        if one.mape > result.max_mape:
            off = f"{percent(one.mape)} off on average, more than {short_percent(result.max_mape)}"
            typer.echo(f"does not hold: {one.series.title}: {off}", err=True)
    raise typer.Exit(EXIT_CHECK_FAILED)
