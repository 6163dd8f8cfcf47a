"""``colltool explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.errors import ColltoolError

EXAMPLES = """
\b
Examples:
  colltool explain double-binary-tree
  colltool explain ring ar -f nvl72 -n 72 -M 16MB
  colltool explain hierarchical:ring/ring ar -f nvl72 -n 144 -M 16MB
"""


def explain(
    algorithm: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help="As price names it.", autocompletion=o.complete_algorithm)
    ],
    primitive: Annotated[
        str | None, typer.Argument(metavar="PRIM", help="One primitive. [default: all]", autocompletion=o.complete_primitive)
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", "-f", help="Put this fabric's numbers in.", autocompletion=o.complete_fabric),
    ] = None,
    ranks: o.RanksOption = None,
    size: Annotated[str | None, typer.Option("--size", "-M", help="Bytes per rank.")] = None,
    ideal: o.IdealOption = False,
    set_: o.SetOption = None,
    form: o.FormatOption = None,
    output: o.OutputOption = None,
    pipelining: o.PipeliningOption = "asymptotic",
    phases: o.PhasesOption = None,
    placement: o.PlacementOption = o.Placement.PACKED,
    ring_alpha: o.RingAlphaOption = o.RingAlpha.MEAN,
    tree_beta: o.TreeBetaOption = 2.0,
    order: o.OrderOption = None,
) -> None:
    """An algorithm's formula, where it comes from, what it assumes and who ships it, with your numbers put in."""
    from colltool import api
    from colltool.cli.output import chosen_format, emit
    from colltool.render.explain_blocks import explain_blocks

    if fabric is None and (ranks is not None or set_ or ":" in algorithm):
        raise ColltoolError("ranks, --set and a choice of algorithms need a fabric", fix="add -f nvl72 -M 16MB")
    reading = o.model(ideal, pipelining, phases, placement, ring_alpha, tree_beta, order)
    loaded = None if fabric is None else api.load_fabric(fabric, set_ or ())
    explained = api.explain(algorithm, primitive, fabric=loaded, size=size, ranks=ranks, **reading)
    emit(explained if chosen_format(form, output) is o.Format.JSON else explain_blocks(explained), form, output)
