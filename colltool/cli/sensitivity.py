"""``colltool sensitivity``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import EVERYBODY, FabricChoice, GroupChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool sensitivity ar -f dgx-h100 -n 64 -M 16MB
  colltool sensitivity ar -f dgx-h100 -n 64 -M 16MB --vary alpha=2x --vary ib.eta.beta=0.6:0.95
  colltool sensitivity ar -f dgx-h100 -f hgx-h200 -n 64 -M 256MB
  colltool sensitivity a2a -f my-cluster.yaml -M 64MB --vary bandwidth=10% --seed 7 --format json
"""


@command()
def sensitivity(
    primitive: o.PrimitiveArgument,
    fabric: FabricChoice,
    size: o.SizeOption,
    group: GroupChoice = EVERYBODY,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=RANGE",
            help="alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%; repeatable. "
            "[default: the fabric's uncertainty, else alpha=2x, eta.beta=20%, bandwidth=10%]",
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option("--samples", metavar="K", help="Draws of all numbers at once.", parser=values.count("samples", 100, 10**6)),
    ] = 100_000,
    seed: Annotated[int, typer.Option("--seed", metavar="K", help="Of the draws.", parser=values.count("seed"))] = 1,
    algorithm: o.AlgorithmOption = None,
    library: o.LibraryOption = None,
    plot: o.PlotOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Whether the winner holds where numbers of the fabric may be off, what would turn it, and what to measure.

    Of several fabrics (-f A -f B): how often each is faster than the first.
    """
    import colltool

    o.check_plot(plot)
    asked = {"size": o.single(size, "size", "size"), "vary": vary or (), "samples": samples, "seed": seed,
             "algorithms": o.names(algorithm), "library": library, "readings": readings, **group.arguments}  # fmt: skip
    several = fabric.several
    if len(several) > 1:
        if plot is not None:
            raise ColltoolError("is of one fabric", argument="plot", fix="colltool compare draws several")
        out.emit(colltool.compare_sensitivity(several, primitive, overrides=fabric.overrides, **asked))
        return
    result = colltool.sensitivity(fabric.load(), primitive, **asked)
    o.draw(plot, result)
    out.emit(result)
