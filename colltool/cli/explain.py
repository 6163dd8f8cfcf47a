"""``colltool explain``."""

from __future__ import annotations

from typing import Annotated

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import EVERYBODY, FabricChoice, GroupChoice, Out
from colltool.estimate.assumptions import Readings

NO_FABRIC = FabricChoice((), ())

EXAMPLES = """
\b
Examples:
  colltool explain double-binary-tree
  colltool explain ring ar -f nvl72 -n 72 -M 16MB
  colltool explain hierarchical:ring/ring ar -f nvl72 -n 144 -M 16MB
  colltool explain multi-rail-ring ar -f dgx-h100 -n 64 -M 16MB --library nccl
"""


@command()
def explain(
    algorithm: Annotated[str, o.option("algorithm", "As price names it.", flags="", metavar="ALGORITHM")],
    primitive: o.MaybePrimitive = None,
    fabric: FabricChoice = NO_FABRIC,
    group: GroupChoice = EVERYBODY,
    size: o.MaybeSize = None,
    library: o.Library = None,
    slow_rank: o.SlowRank = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """An algorithm's formula, where it comes from, what it assumes and which libraries implement it, with your numbers put in."""
    import colltool

    if not fabric.names and (group.given or library is not None or fabric.overrides or ":" in algorithm):
        options = ", ".join(given(name) for name in ("ranks", "stride", "library", "overrides"))
        what = f"{options} and a choice of algorithms need a fabric"
        raise ColltoolError(what, fix=f"add {given('fabric', 'nvl72')} {given('size', '16MB')}")
    out.emit(
        colltool.explain(
            algorithm, primitive, fabric=fabric.load() if fabric.names else None, size=size, library=library,
            slow_rank=slow_rank, readings=readings, **group.arguments,
        )
    )  # fmt: skip
