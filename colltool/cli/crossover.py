"""``colltool crossover``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli.command import EVERYBODY, FabricChoice, GroupChoice, Out, command
from colltool.estimate.assumptions import Readings

DEFAULT_FABRIC = FabricChoice(("nvl72",), ())

EXAMPLES = """
\b
Examples:
  colltool crossover
  colltool crossover ar -f nvl72 -n 72
  colltool crossover ar -f dgx-h100 -n 64 --algorithm hierarchical:ring/ring,multi-rail-ring
  colltool crossover a2a -f nvl72 -n 72 --algorithm pairwise,bruck --format json
"""


@command()
def crossover(
    primitive: Annotated[
        str, typer.Argument(metavar="PRIM", help="ar, ag, rs, a2a, bc, reduce, p2p.", autocompletion=o.complete_primitive)
    ] = "ar",
    fabric: FabricChoice = DEFAULT_FABRIC,
    group: GroupChoice = EVERYBODY,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME,...",
            help="The first against each other one, comma-separated. [default: ring against the trees]",
            autocompletion=o.complete_algorithm,
        ),
    ] = None,
    library: o.LibraryOption = None,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Every size at which the faster of two algorithms changes, solved exactly, and who wins at which size.

    Without options: all-reduce on all of nvl72, ring against the trees.
    """
    import colltool

    o.check_plot(plot)
    names = o.names(algorithm)
    result = colltool.crossover(fabric.load(), primitive, algorithms=names, library=library, readings=readings, **group.arguments)
    o.draw(plot, result)
    out.emit(result)
