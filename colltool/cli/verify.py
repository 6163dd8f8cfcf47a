"""``colltool verify``."""

from __future__ import annotations

from typing import Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import Out, command

EXAMPLES = """
\b
Examples:
  colltool verify
  colltool verify ar -f torus512 -n 64
  colltool verify a2a -f dgx-h100 -n 64 --format json
  colltool verify ar -f dgx-h100 -n 16 --stride 8
  colltool verify ar -f star512 -n 100 --algorithm double-binary-tree --segments 64
  colltool verify ar -f star512 -n 4 --algorithm ring --trace
"""

DEFAULT_RANKS, TRACED_RANKS = 64, 4
MOST_SEGMENTS = 65_536  # each is sent one by one
DEFAULT_FABRICS = ("star512", "torus512", "mesh512")


@command(fabrics="--fabric")
def verify(
    primitive: o.MaybePrimitive = None,
    fabric: Annotated[
        list[str] | None,
        typer.Option(
            "--fabric",
            "-f",
            metavar="FABRIC",
            help="Whose ports and links carry the messages; repeatable. [default: a star, a torus and a mesh]",
            autocompletion=o.complete_fabric,
        ),
        o.READ,
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            "-n",
            metavar="N",
            help="Ranks in the group. [default: all of FABRIC; without one 64, 4 with --trace]",
            parser=values.count("ranks", -values.MOST_RANKS, several=o.ONE_COUNT),
            autocompletion=o.complete_ranks,
        ),
    ] = None,
    stride: o.StrideOption = 1,
    alone: o.AloneOption = False,
    shape: o.ShapeOption = None,
    algorithm: o.AlgorithmOption = None,
    size: o.SizeOption = "16MB",
    segments: Annotated[
        int | None,
        typer.Option(
            "--segments",
            metavar="P",
            help="P of pipelined algorithms. [default: 16; 2 with --trace]",
            parser=values.count("segments", 1, MOST_SEGMENTS),
        ),
    ] = None,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Print every step: who sends what to whom, what each rank then holds. 8 ranks at most."),
    ] = False,
    concrete: Annotated[
        bool, typer.Option("--values", help="With --trace: on small numbers, whose sum on 4 ranks is 10 26 18 34.")
    ] = False,
    set_: o.SetOption = None,
    *,
    out: Out,
) -> None:
    """Execute every algorithm message by message, and hold its formula against what was counted.

    proved: the right result everywhere, the counts of the formula, and no port, link or uplink slower than its price. counts
    only: seconds cannot be compared. idealised: the right result, and the formula is a bound or an ideal that the note
    describes. mismatch: exit 1.
    """
    import colltool

    count = ranks if fabric or shape or ranks is not None else TRACED_RANKS if trace else DEFAULT_RANKS
    loaded = [colltool.load_fabric(one, set_ or ()) for one in fabric or DEFAULT_FABRICS]
    names = o.names(algorithm)
    result = colltool.verify(
        loaded,
        primitive,
        ranks=count,
        stride=stride,
        alone=alone,
        shape=shape,
        algorithms=names,
        size=size,
        segments=segments,
        trace=trace,
        values="example" if concrete else (),
    )
    out.emit(result)
    if not result.holds:
        raise typer.Exit(EXIT_CHECK_FAILED)
