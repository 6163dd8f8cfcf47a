"""``colltool breakdown``."""

from __future__ import annotations

from typing import Annotated

from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import EVERYBODY, FabricChoice, GroupChoice, Out, Plots
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
    primitive: o.Primitive,
    fabric: FabricChoice,
    size: o.Size,
    group: GroupChoice = EVERYBODY,
    algorithm: Annotated[str | None, o.option("algorithm", "Break down this one. [default: the fastest]")] = None,
    library: o.Library = None,
    slow_rank: o.SlowRank = None,
    *,
    out: Annotated[Out, Plots()],
    readings: Readings,
) -> None:
    """Where the time of one schedule goes, phase by phase, beside the flat baselines.

    The fastest schedule, or the one of --algorithm.
    """
    import colltool

    name = None if algorithm is None else values.single(algorithm, "algorithm", "algorithm")
    bytes_ = values.single(size, "size", "size")
    out.emit(
        colltool.breakdown(
            fabric.load(), primitive, size=bytes_, algorithm=name, library=library, slow_rank=slow_rank, readings=readings,
            **group.arguments,
        )
    )  # fmt: skip
