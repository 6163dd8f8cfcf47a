"""``colltool price``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.errors import ColltoolError

EXAMPLES = """
\b
Examples:
  colltool price ar -f nvl72 -M 16MB
  colltool price ar -f nvl72 -n 72 -M 1MB,16MB,1GB --format csv
  colltool price a2a -f dgx-h100 -n 64 -M 64MiB --set ib.levels.spine.oversubscription=4
  colltool price ar -f nvl72 -M 16MB --algorithm hierarchical:ring/ring
  colltool price ag -f my-cluster.yaml
"""


def price(
    primitive: o.PrimitiveArgument,
    fabric: o.FabricOption,
    ranks: o.RanksOption = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", "-M", help="Bytes per rank, nccl-tests' convention; comma-separated. [default: winners, 1KB to 1GB]"
        ),
    ] = None,
    algorithm: o.AlgorithmOption = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Only the K fastest.")] = None,
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
    """Price every algorithm that can run, fastest first, and say why the others cannot.

    Without a size: the winner and the runner-up at six sizes from 1 KB to 1 GB.
    """
    from colltool import api
    from colltool.cli.output import emit

    if top is not None and size is None:
        raise ColltoolError("ranks the rows of a size", where="--top", fix="add a size: -M 16MB")
    reading = o.model(ideal, pipelining, phases, placement, ring_alpha, tree_beta, order)
    loaded = api.load_fabric(o.one(fabric, "--fabric"), set_ or ())
    listed = api.price_list(loaded, primitive, sizes=o.sizes(size), ranks=ranks, algorithms=o.names(algorithm), **reading)
    if top is not None:
        listed = listed._replace(prices=tuple(one._replace(results=one.results[:top]) for one in listed.prices))
    emit(listed, form, output)
