"""``colltool breakdown``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli.command import EVERYBODY, FabricChoice, GroupChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool breakdown ar -f nvl72 -n 144 -M 16MB
  colltool breakdown ar -f dgx-h100 -n 64 -M 1GB --algorithm hierarchical:ring/ring
  colltool breakdown ag -f tpu-v4-512 -M 64MB --algorithm dim-ring
"""


@command()
def breakdown(
    primitive: o.PrimitiveArgument,
    fabric: FabricChoice,
    size: o.SizeOption,
    group: GroupChoice = EVERYBODY,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="Break down this one. [default: the fastest]",
            autocompletion=o.complete_algorithm,
        ),
    ] = None,
    library: o.LibraryOption = None,
    slow_rank: o.SlowRankOption = None,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Where the time of one schedule goes, phase by phase, beside the flat baselines.

    The fastest schedule, or the one of --algorithm.
    """
    import colltool

    o.check_plot(plot)
    name = None if algorithm is None else o.single(algorithm, "algorithm", "algorithm")
    bytes_ = o.single(size, "size", "size")
    loaded = fabric.load()
    result = colltool.breakdown(
        loaded, primitive, size=bytes_, algorithm=name, library=library, slow_rank=slow_rank, readings=readings, **group.arguments
    )
    o.draw(plot, result)
    out.emit(result)
