"""``colltool verify``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import command
from colltool.cli.groups import Out

DEFAULT_RANKS, TRACED_RANKS = 64, 4
DEFAULT_FABRICS = ("star512", "torus512", "mesh512")

EXAMPLES = """
\b
Examples:
  colltool verify
  colltool verify ar -f torus512 -n 64
  colltool verify a2a -f dgx-h100 -n 64 --format json
  colltool verify ar -f dgx-h100 -n 16 --stride 8
  colltool verify ar -f star512 -n 100 --algorithm double-binary-tree --segments 64
  colltool verify ar -f star512 -n 4 --algorithm ring --trace --values
"""


@command(fabrics="--fabric")
def verify(
    primitive: o.MaybePrimitive = None,
    fabric: Annotated[
        o.Several,
        o.option("fabric", "Whose ports and links carry the messages; repeatable. [default: a star, a torus and a mesh]"),
        o.READ,
    ] = None,
    ranks: Annotated[
        int | None, o.option("ranks", "Ranks in the group. [default: all of FABRIC; without one 64, 4 with --trace]")
    ] = None,
    stride: o.Stride = 1,
    alone: o.Alone = False,
    shape: o.Shape = None,
    algorithm: o.Algorithms = None,
    size: o.Size = "16MB",
    segments: Annotated[int | None, o.option("segments")] = None,
    trace: Annotated[bool, o.option("trace")] = False,
    concrete: Annotated[bool, o.option("values")] = False,
    set_: o.Set = None,
    *,
    out: Out,
) -> None:
    """Execute every algorithm message by message, and compare its formula with what was counted.

    proved: the right result everywhere, the counts of the formula, and no port, link or uplink slower than its price. counts
    only: seconds cannot be compared. idealised: the right result, and the formula is a bound or an ideal that the note
    describes. mismatch: exit 1.
    """
    import colltool

    count = ranks if fabric or shape or ranks is not None else TRACED_RANKS if trace else DEFAULT_RANKS
    result = colltool.verify(
        [colltool.load_fabric(one, set_ or ()) for one in fabric or DEFAULT_FABRICS], primitive, ranks=count, stride=stride,
        alone=alone, shape=shape, algorithms=values.names(algorithm), size=size, segments=segments, trace=trace,
        values="example" if concrete else (),
    )  # fmt: skip
    out.emit(result)
    if not result.holds:
        raise typer.Exit(EXIT_CHECK_FAILED)
