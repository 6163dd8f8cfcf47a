"""``colltool price``."""

from __future__ import annotations

from typing import Annotated

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import EVERYBODY, FabricChoice, GroupChoice, Out
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
    primitive: o.Primitive,
    fabric: FabricChoice,
    group: GroupChoice = EVERYBODY,
    size: Annotated[str | None, o.option("sizes", "Bytes per rank; comma-separated. [default: winners, 1KB to 1GB]")] = None,
    algorithm: o.Algorithms = None,
    top: Annotated[int | None, o.option("top")] = None,
    library: o.Library = None,
    slow_rank: o.SlowRank = None,
    *,
    out: Out,
    readings: Readings,
) -> None:
    """Price every algorithm that can run, fastest first, and say why the others cannot.

    Without a size: the winner and the runner-up at six sizes from 1 KB to 1 GB.
    """
    import colltool

    for argument, value in (("top", top), ("slow_rank", slow_rank)):
        if value is not None and size is None:
            raise ColltoolError("needs a size", argument=argument, fix=f"add a size: {given('size', '16MB')}")
    listed = colltool.price_list(
        fabric.load(), primitive, sizes=values.sizes(size), algorithms=values.names(algorithm), library=library,
        slow_rank=slow_rank, readings=readings, **group.arguments,
    )  # fmt: skip
    out.emit(listed if top is None else listed.top(top))
