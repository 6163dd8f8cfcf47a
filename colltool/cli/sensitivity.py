"""``colltool sensitivity``."""

from __future__ import annotations

from typing import Annotated

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import EVERYBODY, FabricChoice, GroupChoice, Out, Plots
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
    primitive: o.Primitive,
    fabric: FabricChoice,
    size: o.Size,
    group: GroupChoice = EVERYBODY,
    vary: Annotated[
        o.Several,
        o.option(
            "vary",
            "alpha=2x, eta.beta=0.6:0.9, ib.bandwidth=10%; repeatable. "
            "[default: the fabric's uncertainty, else alpha=2x, eta.beta=20%, bandwidth=10%]",
            metavar="KEY=RANGE",
        ),
    ] = None,
    samples: Annotated[int, o.option("samples")] = 100_000,
    seed: Annotated[int, o.option("seed")] = 1,
    algorithm: o.Algorithms = None,
    library: o.Library = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Whether the winner holds where numbers of the fabric may be off, what would turn it, and what to measure.

    Of several fabrics (-f A -f B): how often each is faster than the first.
    """
    import colltool

    asked = {"size": values.single(size, "size", "size"), "vary": vary or (), "samples": samples, "seed": seed,
             "algorithms": values.names(algorithm), "library": library, "readings": readings, **group.arguments}  # fmt: skip
    several = fabric.several
    if len(several) == 1:
        out.emit(colltool.sensitivity(fabric.load(), primitive, **asked))
        return
    if out.plot is not None:
        raise ColltoolError("draws one fabric", argument="plot", fix="colltool compare draws several")
    out.emit(colltool.compare_sensitivity(several, primitive, overrides=fabric.overrides, **asked))
