"""``colltool crossover``."""

from __future__ import annotations

from typing import Annotated

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import EVERYBODY, FabricChoice, GroupChoice, Out, Plots
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
    primitive: o.Primitive = "ar",
    fabric: FabricChoice = DEFAULT_FABRIC,
    group: GroupChoice = EVERYBODY,
    algorithm: Annotated[
        str | None,
        o.option("algorithms", "The first against each other one, comma-separated. [default: ring against the trees]"),
    ] = None,
    library: o.Library = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Every size at which the faster of two algorithms changes, solved exactly, and who wins at which size.

    Without options: all-reduce on all of nvl72, ring against the trees.
    """
    import colltool

    names = values.names(algorithm)
    out.emit(
        colltool.crossover(fabric.load(), primitive, algorithms=names, library=library, readings=readings, **group.arguments)
    )
