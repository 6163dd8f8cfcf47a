"""``colltool sweep``."""

from __future__ import annotations

from typing import Annotated

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out, Plots
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
    primitive: o.Primitive,
    fabric: FabricChoice,
    ranks: o.RankCounts = None,
    size: o.Sizes = None,
    vary: Annotated[
        o.Several,
        o.option("vary", "A value of the fabric or a reading; KEY=LOW:HIGH:COUNT or COUNTlog; repeatable."),
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
    out: Annotated[Out, Plots("map", "busbw", help="A map of the fastest schedule, or its busbw as lines.")],
    readings: Readings,
) -> None:
    """The fastest schedule over lists of fabrics, ranks, sizes and values; where the winner changes."""
    import colltool

    result = colltool.sweep(
        fabric.several, primitive, ranks=values.counts(ranks, "ranks"), sizes=values.sizes(size), vary=vary or (),
        overrides=fabric.overrides, algorithms=values.names(algorithm), stride=stride, alone=alone, shape=shape,
        library=library, limit=limit, readings=readings,
    )  # fmt: skip
    if pivot is not None or rows or cols:
        result = result.pivoted(pivot or "busbw", rows, cols)  # type: ignore[arg-type]
    out.emit(result)
