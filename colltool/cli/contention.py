"""``colltool contention``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from colltool.base.errors import ColltoolError, given
from colltool.base.units import parse_shape
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import FabricChoice, Out, command
from colltool.cli.schemas import LayoutSchemaOption

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


def _count(option: str, help_: str, least: int = -values.MOST_RANKS) -> Any:
    argument = option.removeprefix("--")
    return typer.Option(option, metavar="N", help=help_, parser=values.count(argument, least))


@command(primitive="--primitive")
def contention(
    fabric: FabricChoice,
    layout: Annotated[
        Path | None, typer.Option("--layout", metavar="FILE", help="A layout file: groups, what each runs, a map."), o.READ
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="KIND", help="block, cyclic, random, axis or box. [default: block]")
    ] = None,
    group: Annotated[int | None, _count("--group", "Ranks in a group. [default: all]")] = None,
    count: Annotated[int | None, _count("--count", "Groups at once. [default: as many as fit]")] = None,
    axis: Annotated[int | None, _count("--axis", "Axis of a lattice, from 1.")] = None,
    stride: Annotated[int | None, _count("--stride", "Between groups (block) or ranks (cyclic, axis).")] = None,
    start: Annotated[int | None, _count("--start", "Ranks left free before the first group.")] = None,
    seed: Annotated[int | None, _count("--seed", "Of random patterns and maps.")] = None,
    shape: Annotated[str | None, typer.Option("--shape", metavar="4x2", help="Of a box, along each axis.")] = None,
    map_: Annotated[
        str | None, typer.Option("--map", metavar="KIND", help="Ranks on endpoints: identity, reverse, cyclic, rotate or random.")
    ] = None,
    primitive: Annotated[
        str | None,
        typer.Option(
            "--primitive",
            "-p",
            metavar="PRIM",
            help="What groups run. [default: ar, a2a under a skew]",
            autocompletion=o.complete_primitive,
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="Its algorithm. [default: ring, pairwise, chain]",
            autocompletion=o.complete_algorithm,
        ),
    ] = None,
    size: Annotated[str | None, typer.Option("--size", "-M", metavar="SIZE", help="Bytes per rank; adds times.")] = None,
    matrix: Annotated[
        Path | None, typer.Option("--matrix", metavar="FILE", help="CSV of bytes, row sends to column."), o.READ
    ] = None,
    hot: Annotated[
        str | None, typer.Option("--hot", metavar="X[@MEMBER,..]", help="Hot destinations get X times the mean; the first.")
    ] = None,
    zipf: Annotated[
        float | None,
        typer.Option("--zipf", metavar="S", help="Destination k gets a share like (k+1)^-S.", parser=values.real("zipf")),
    ] = None,
    per_link: Annotated[bool, typer.Option("--per-link", help="Every loaded link, not only the hottest.")] = False,
    as_eta: Annotated[bool, typer.Option("--as-eta", help="Print the eta to put in the fabric file.")] = False,
    schema: LayoutSchemaOption = False,  # noqa: ARG001 - has printed and stopped
    *,
    out: Out,
) -> None:
    """What a layout costs: the load of every link when its groups run together, against each group alone and packed.

    Static loads: for packets, queues or adaptive routing turn to ns-3, htsim, SST or ASTRA-sim.
    """
    laid: dict[str, Any] = {
        "kind": pattern,
        "group": group,
        "count": count,
        "axis": axis,
        "stride": stride,
        "start": start,
        "seed": seed,
    }
    if layout is not None:
        extra = [key for key, value in (*laid.items(), ("shape", shape), ("placed", map_)) if value is not None]
        if extra:
            what = f"{', '.join(given(key) for key in extra)} and {given('layout')} both lay the groups out"
            raise ColltoolError(what, argument=extra[0], fix="give one of them")
    import colltool

    kept = {key: value for key, value in laid.items() if value is not None} | (
        {"shape": parse_shape(shape, "shape")} if shape else {}
    )
    if map_ == "random" and pattern != "random":
        kept.pop("seed", None)  # it is the map's
    factor, members = _hot(hot)
    result = colltool.contention(
        fabric.load(), layout or kept, placed=map_, seed=seed or 0, primitive=primitive, algorithm=algorithm, size=size,
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
