"""``colltool sweep``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool sweep ar -f dgx-h100 -n 8,64,256 -M 1MB,16MB,1GB --pivot busbw
  colltool sweep a2a -f dgx-h100 -n 64 --vary ib.levels.spine.oversubscription=1,2,4
  colltool sweep ar -f torus512 -M 16MB --vary torus.shape=8x8x8,16x8x4 --vary ideal=true,false
  colltool sweep ar -f dgx-h100 -f nvl72 -n 64 --format csv
  colltool sweep ar -f dgx-h100 -n 64 --vary ib.bandwidth=25GB/s:100GB/s:7 --pivot algorithm
  colltool sweep ar -f dgx-h100 -n 8,64,256 --plot busbw.svg --plot-what busbw
"""


@command()
def sweep(
    primitive: o.PrimitiveArgument,
    fabric: FabricChoice,
    ranks: Annotated[
        list[str] | None,
        typer.Option("--ranks", "-n", metavar="N,...", help="Numbers of ranks. [default: all of each fabric]"),
    ] = None,
    size: o.SizesOption = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", metavar="KEY=V1,V2", help="A value of the fabric or a reading; KEY=LOW:HIGH:COUNT or COUNTlog; repeatable."
        ),
    ] = None,
    pivot: Annotated[
        o.PivotWhat | None,
        typer.Option(
            "--pivot",
            metavar="busbw|total|algorithm",
            help="Tables of two axes that show this.",
            parser=values.choice("pivot", o.PivotWhat),
        ),
    ] = None,
    rows: Annotated[str, typer.Option("--rows", metavar="AXIS", help="The axis down: fabric, ranks, bytes or a KEY.")] = "",
    cols: Annotated[str, typer.Option("--cols", metavar="AXIS", help="The axis across.")] = "",
    algorithm: o.AlgorithmOption = None,
    stride: o.StrideOption = 1,
    alone: o.AloneOption = False,
    shape: o.ShapeOption = None,
    library: o.LibraryOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="CELLS", help="The most cells. [default: 100000]", parser=values.count("limit", 1, 10**7)
        ),
    ] = None,
    plot: o.PlotOption = None,
    plot_what: o.SweepPlotOption = o.SweepPlot.MAP,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """The fastest schedule over lists of fabrics, ranks, sizes and values; where the winner changes."""
    import colltool

    o.check_plot(plot)
    result = colltool.sweep(
        fabric.several,
        primitive,
        ranks=values.counts(ranks or [], "ranks"),
        sizes=o.sizes(size),
        vary=vary or (),
        overrides=fabric.overrides,
        algorithms=o.names(algorithm),
        stride=stride,
        alone=alone,
        shape=shape,
        library=library,
        limit=limit,
        readings=readings,
    )
    if pivot is not None or rows or cols:
        result = result.pivoted(str((pivot or o.PivotWhat.BUSBW).value), rows, cols)  # type: ignore[arg-type]
    o.draw(plot, result, plot_what.value)
    out.emit(result)
