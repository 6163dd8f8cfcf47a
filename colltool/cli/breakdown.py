"""``colltool breakdown``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o

EXAMPLES = """
\b
Examples:
  colltool breakdown ar -f nvl72 -n 144 -M 16MB
  colltool breakdown ar -f dgx-h100 -n 64 -M 1GB --algorithm hierarchical:ring/ring
  colltool breakdown ag -f tpu-v4-512 -M 64MB --algorithm dim-ring
"""


def breakdown(
    primitive: o.PrimitiveArgument,
    fabric: o.FabricOption,
    size: o.SizeOption,
    ranks: o.RanksOption = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm", "-a", help="Break down this one. [default: the fastest]", autocompletion=o.complete_algorithm
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
    """Where the time of one schedule goes, phase by phase, beside the flat baselines.

    The fastest schedule, or the one of --algorithm.
    """
    from colltool import api
    from colltool.cli.output import emit

    reading = o.model(ideal, pipelining, phases, placement, ring_alpha, tree_beta, order)
    name = None if algorithm is None else o.single(algorithm, "--algorithm")
    loaded = api.load_fabric(o.one(fabric, "--fabric"), set_ or ())
    emit(api.breakdown(loaded, primitive, size=o.single(size, "--size"), ranks=ranks, algorithm=name, **reading), form, output)
