"""``colltool validate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
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
    logs: o.LogsArgument,
    fabric: FabricChoice,
    ranks: o.LogRanksOption = None,
    collective: o.CollectiveOption = None,
    nodes: o.NodesOption = None,
    in_place: o.InPlaceOption = False,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME,...",
            help="What ran, comma-separated. [default: whatever the log's library ships]",
            autocompletion=o.complete_algorithm,
        ),
    ] = None,
    max_mape: Annotated[
        float | None,
        typer.Option(
            "--max-mape",
            metavar="SHARE",
            help="Exit 1 where a series is further off on average: 15%, 0.15.",
            parser=values.share("max_mape", "15% or 0.15"),
        ),
    ] = None,
    plot: o.PlotOption = None,
    plot_what: o.PlotWhatOption = o.PlotWhat.TIME,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Hold measured times against the prices of a fabric, size by size, and say what the difference tells.

    Each size is held against the fastest algorithm that the log's library ships; error = predicted/measured - 1.
    """
    import colltool

    o.check_plot(plot)
    result = colltool.validate(
        fabric.load(),
        logs,
        ranks=ranks,
        primitive=collective,
        nodes=nodes,
        in_place=in_place,
        algorithms=o.names(algorithm),
        max_mape=max_mape,
        readings=readings,
    )
    o.draw(plot, result, plot_what.value)
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
