"""``colltool crossover``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o

DEFAULT_FABRIC = ("nvl72",)

EXAMPLES = """
\b
Examples:
  colltool crossover
  colltool crossover ar -f nvl72 -n 72
  colltool crossover ar -f dgx-h100 -n 64 --algorithm hierarchical:ring/ring,multi-rail-ring
  colltool crossover a2a -f nvl72 -n 72 --algorithm pairwise,bruck --format json
"""


def crossover(
    primitive: Annotated[
        str, typer.Argument(metavar="PRIM", help="ar, ag, rs, a2a, bc, reduce.", autocompletion=o.complete_primitive)
    ] = "ar",
    fabric: o.FabricOption = DEFAULT_FABRIC,  # type: ignore[assignment]
    ranks: o.RanksOption = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="The first against each other one, comma-separated. [default: ring against the trees]",
            autocompletion=o.complete_algorithm,
        ),
    ] = None,
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
    """Every size at which the faster of two algorithms changes, solved exactly, and who wins at which size."""
    from colltool import api
    from colltool.cli.output import emit

    reading = o.model(ideal, pipelining, phases, placement, ring_alpha, tree_beta, order)
    loaded = api.load_fabric(o.one(fabric, "--fabric"), set_ or ())
    emit(api.crossover(loaded, primitive, ranks=ranks, algorithms=o.names(algorithm), **reading), form, output)
