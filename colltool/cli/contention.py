"""``colltool contention``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import parse_shape
from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import FabricChoice, Out

EXAMPLES = """
\b
Examples:
  colltool contention -f torus512 --pattern axis --axis 1 --group 8 --count 8
  colltool contention -f torus512 --pattern random --seed 1 --group 8 -p a2a
  colltool contention -f torus512 --pattern block --group 6 --as-eta
  colltool contention -f clos-4to1 --pattern cyclic --group 64 -p a2a -M 16MB
  colltool contention -f dgx-h100 --pattern cyclic --group 32 --stride 8 --map rotate
  colltool contention -f star512 --group 64 --count 1 --hot 3
  colltool contention -f torus512 --layout groups.yaml --per-link --format csv
"""


@command(primitive="--primitive")
def contention(
    fabric: FabricChoice,
    layout: Annotated[Path | None, o.option("layout"), o.READ] = None,
    pattern: Annotated[str | None, o.option("kind")] = None,
    group: Annotated[int | None, o.option("group")] = None,
    count: Annotated[int | None, o.option("count")] = None,
    axis: Annotated[int | None, o.option("axis")] = None,
    stride: Annotated[int | None, o.option("stride", "Between groups (block) or ranks (cyclic, axis).", metavar="N")] = None,
    start: Annotated[int | None, o.option("start")] = None,
    seed: Annotated[int | None, o.option("seed", "Of random patterns and maps.", metavar="N")] = None,
    shape: Annotated[str | None, o.option("shape", "Of a box, along each axis.", metavar="4x2", kind="text")] = None,
    map_: Annotated[
        str | None,
        o.option("placed", "Ranks on endpoints: identity, reverse, cyclic, rotate or random.", metavar="KIND"),
    ] = None,
    primitive: Annotated[
        str | None, o.option("primitive", "What groups run. [default: ar, a2a under a skew]", flags="--primitive -p")
    ] = None,
    algorithm: Annotated[str | None, o.option("algorithm", "Its algorithm. [default: ring, pairwise, chain]")] = None,
    size: Annotated[str | None, o.option("size", "Bytes per rank; adds times.")] = None,
    matrix: Annotated[Path | None, o.option("matrix"), o.READ] = None,
    hot: Annotated[str | None, o.option("hot")] = None,
    zipf: Annotated[float | None, o.option("zipf")] = None,
    per_link: Annotated[bool, o.option("per_link")] = False,
    as_eta: Annotated[bool, o.option("as_eta")] = False,
    schema: o.LayoutSchema = False,  # noqa: ARG001 - has printed and stopped
    *,
    out: Out,
) -> None:
    """What a layout costs: the load of every link when its groups run together, against each group alone and packed.

    Static loads: for packets, queues or adaptive routing turn to ns-3, htsim, SST or ASTRA-sim.
    """
    import colltool

    box = parse_shape(shape, "shape") if shape else None
    laid = {"kind": pattern, "group": group, "count": count, "axis": axis, "stride": stride, "start": start, "seed": seed,
            "shape": box}  # fmt: skip
    asked: dict[str, Any] = {key: value for key, value in laid.items() if value is not None}
    if layout is not None and (extra := [*asked, *(["placed"] if map_ is not None else [])]):
        what = f"{', '.join(given(key) for key in extra)} and {given('layout')} both lay the groups out"
        raise ColltoolError(what, argument=extra[0], fix="give one of them")
    if map_ == "random" and pattern != "random":
        asked.pop("seed", None)  # it is the map's
    factor, members = _hot(hot)
    result = colltool.contention(
        fabric.load(), layout or asked, placed=map_, seed=seed or 0, primitive=primitive, algorithm=algorithm, size=size,
        matrix=matrix, hot=factor, hot_members=members, zipf=zipf, per_link=per_link,
    )  # fmt: skip
    out.emit(result.as_eta() if as_eta else result)


def _hot(text: str | None) -> tuple[float | None, tuple[int, ...]]:
    """``3`` or ``3@0,5``: the factor, and which members of a group are hot."""
    if text is None:
        return None, (0,)
    factor, _, members = text.partition("@")
    try:
        return float(factor), tuple(int(member) for member in members.split(",")) if members else (0,)
    except ValueError as error:
        raise ColltoolError(f"'{text}' is not a hot spot", argument="hot", fix="write --hot 3, or --hot 3@0,5") from error
