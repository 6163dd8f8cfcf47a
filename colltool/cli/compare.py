"""``colltool compare``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
from colltool.cli.completion import complete_primitive
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool compare ar -f dgx-h100 -f dgx-b200 -n 8,64,256
  colltool compare ar,a2a -f dgx-h100 -n 256 --set ib.levels.leaf.group=4 --vary ib.levels.spine.oversubscription=1,2,4
  colltool compare ar -f dgx-h100 -n 32,64,256 --vary library.collnet=false,true
"""


@command()
def compare(
    primitive: Annotated[
        str,
        typer.Argument(
            metavar="PRIM,...", help="ar, ag, rs, a2a, bc, reduce, p2p; several with commas.", autocompletion=complete_primitive
        ),
    ],
    fabric: FabricChoice,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=V1,V2", help="A column for each value of the fabric; repeatable."),
    ] = None,
    ranks: Annotated[
        list[str] | None,
        typer.Option("--ranks", "-n", metavar="N,...", help="Numbers of ranks. [default: all of the smallest fabric]"),
    ] = None,
    size: o.SizesOption = None,
    algorithm: o.AlgorithmOption = None,
    stride: o.StrideOption = 1,
    alone: o.AloneOption = False,
    shape: o.ShapeOption = None,
    library: o.LibraryOption = None,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Fabrics, or values of one, side by side: times, ratios to the first, and what follows in sentences."""
    import colltool

    o.check_plot(plot)
    result = colltool.compare(
        fabric.several,
        primitive.split(","),
        ranks=values.counts(ranks or [], "ranks"),
        sizes=o.sizes(size),
        vary=vary or (),
        overrides=fabric.overrides,
        algorithms=o.names(algorithm),
        stride=stride,
        alone=alone,
        shape=shape,
        library=library,
        readings=readings,
    )
    o.draw(plot, result)
    out.emit(result)
