"""``colltool price``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import EVERYBODY, FabricChoice, GroupChoice, Out, command
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool price ar -f nvl72 -M 16MB
  colltool price ar -f nvl72 -n 72 -M 1MB,16MB,1GB --format csv
  colltool price a2a -f dgx-h100 -n 64 -M 64MiB --set ib.levels.spine.oversubscription=4
  colltool price ar -f nvl72 -M 16MB --algorithm hierarchical:ring/ring
  colltool price ar -f dgx-h100 -n 32 --stride 8 -M 1GB
  colltool price ar -f dgx-h100 -n 64 --library nccl
  colltool price ar -f dgx-h100 -n 64 -M 64MB --slow-rank 0.8
  colltool price ag -f my-cluster.yaml
"""


@command()
def price(
    primitive: o.PrimitiveArgument,
    fabric: FabricChoice,
    group: GroupChoice = EVERYBODY,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            "-M",
            metavar="SIZE,...",
            help="Bytes per rank, nccl-tests' convention; comma-separated. [default: winners, 1KB to 1GB]",
        ),
    ] = None,
    algorithm: o.AlgorithmOption = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="K", help="Only the K fastest.", parser=values.count("top", 1, values.MOST_ROWS)),
    ] = None,
    library: o.LibraryOption = None,
    slow_rank: o.SlowRankOption = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Price every algorithm that can run, fastest first, and say why the others cannot.

    Without a size: the winner and the runner-up at six sizes from 1 KB to 1 GB.
    """
    import colltool

    for argument, value, what in (("top", top, "ranks the rows of a size"), ("slow_rank", slow_rank, "is told of a size")):
        if value is not None and size is None:
            raise ColltoolError(what, argument=argument, fix=f"add a size: {given('size', '16MB')}")
    names = o.names(algorithm)
    sizes = o.sizes(size)
    listed = colltool.price_list(
        fabric.load(), primitive, sizes=sizes, algorithms=names, library=library, slow_rank=slow_rank, readings=readings,
        **group.arguments,
    )  # fmt: skip
    if top is not None:
        listed = listed.top(top)
    out.emit(listed)
