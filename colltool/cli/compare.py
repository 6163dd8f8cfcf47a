"""``colltool compare``."""

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
  colltool compare ar -f dgx-h100 -f dgx-b200 -n 8,64,256
  colltool compare ar,a2a -f dgx-h100 -n 256 --set ib.levels.leaf.group=4 --vary ib.levels.spine.oversubscription=1,2,4
  colltool compare ar -f dgx-h100 -n 32,64,256 --vary library.collnet=false,true
"""


@command()
def compare(
    primitive: Annotated[str, o.option("primitives")],
    fabric: FabricChoice,
    vary: Annotated[o.Several, o.option("vary", "A column for each value of the fabric; repeatable.")] = None,
    ranks: Annotated[
        o.Several,
        o.option("ranks", f"{o.COUNTS} [default: all of the smallest fabric]", metavar="N,...", kind="text"),
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
    """Fabrics, or values of one, side by side: times, ratios to the first, and what follows in sentences."""
    import colltool

    out.emit(
        colltool.compare(
            fabric.several, primitive.split(","), ranks=values.counts(ranks, "ranks"), sizes=values.sizes(size), vary=vary or (),
            overrides=fabric.overrides, algorithms=values.names(algorithm), stride=stride, alone=alone, shape=shape,
            library=library, readings=readings,
        )
    )  # fmt: skip
