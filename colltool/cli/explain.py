"""``colltool explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli.command import EVERYBODY, FabricChoice, GroupChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool explain double-binary-tree
  colltool explain ring ar -f nvl72 -n 72 -M 16MB
  colltool explain hierarchical:ring/ring ar -f nvl72 -n 144 -M 16MB
  colltool explain multi-rail-ring ar -f dgx-h100 -n 64 -M 16MB --library nccl
"""


NO_FABRIC = FabricChoice((), ())


@command()
def explain(
    algorithm: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help="As price names it.", autocompletion=o.complete_algorithm)
    ],
    primitive: o.MaybePrimitive = None,
    fabric: FabricChoice = NO_FABRIC,
    group: GroupChoice = EVERYBODY,
    size: o.MaybeSize = None,
    library: o.LibraryOption = None,
    slow_rank: o.SlowRankOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """An algorithm's formula, where it comes from, what it assumes and who ships it, with your numbers put in."""
    import colltool

    if not fabric.names and (group.given or library is not None or fabric.overrides or ":" in algorithm):
        options = ", ".join(given(name) for name in ("ranks", "stride", "library", "overrides"))
        what = f"{options} and a choice of algorithms need a fabric"
        raise ColltoolError(what, fix=f"add {given('fabric', 'nvl72')} {given('size', '16MB')}")
    loaded = fabric.load() if fabric.names else None
    explained = colltool.explain(
        algorithm, primitive, fabric=loaded, size=size, library=library, slow_rank=slow_rank, readings=readings, **group.arguments
    )
    out.emit(explained)
