"""What a layout costs: link loads of groups that run together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import colltool
from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.formatting import parse_shape
from colltool.base.primitives import Primitive
from colltool.commands import options as o
from colltool.commands.command import command
from colltool.commands.options import FabricChoice, Out

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.congestion.contention import Contention
    from colltool.congestion.jobs import Layout
    from colltool.fabric.model import Fabric


def contention(
    fabric: AnyFabric,
    layout: Layout | Mapping[str, Any] | AnyPath,
    *,
    placed: str | None = None,
    seed: int = 0,
    primitive: Primitive | str | None = None,
    algorithm: str | None = None,
    size: str | float | None = None,
    matrix: AnyPath | Sequence[Sequence[float]] | NDArray[np.float64] | None = None,
    hot: float | None = None,
    hot_members: Sequence[int] = (0,),
    zipf: float | None = None,
    per_link: bool = False,
) -> Contention:
    """What a layout costs: the load of every link when its groups run together, against each group
    alone and packed.

    Args:
        fabric: as :func:`price`.
        layout: a layout, a path to a layout file, a mapping of what one would hold, or fields of
            :class:`colltool.congestion.patterns.Pattern`, such as
            ``{"kind": "cyclic", "group": 8}``.
        placed: the kind of :class:`colltool.congestion.patterns.MapPattern` for a pattern, with its
            ``seed``.
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        matrix, hot, zipf: at most one: a skew of the all-to-all groups. ``matrix``: bytes from row
            to column, or a CSV of them; ``hot``: times the mean that each of ``hot_members`` gets;
            ``zipf``: the exponent over destinations.
        per_link: keep every loaded link.

    Raises:
        ColltoolError: a layout, matrix, skew or algorithm that cannot be used; says where and what
            to do instead.
    """
    from colltool.commands import reading as v
    from colltool.congestion.contention import contention as run
    from colltool.congestion.skew import Skew, load_matrix

    if sum(value is not None for value in (matrix, hot, zipf)) > 1:
        what = "a matrix, a hot spot and a Zipf skew exclude each other"
        raise ColltoolError(what, argument="matrix", fix="give one of them")
    if matrix is not None and size is not None:
        fix = f"leave {given('size')} out, or scale the matrix"
        raise ColltoolError("the matrix already gives bytes", argument="size", fix=fix)
    asked: dict[str, Any] = {
        "algorithm": (
            None
            if algorithm is None
            else v.text_of(algorithm, "algorithm", "ring", noun="the name of an algorithm")
        ),
        "size": None if size is None else v.size_of(size),
        "primitive": None if primitive is None else v.primitive_of(primitive),
        "per_link": v.flag_of(per_link, "per_link"),
    }
    loaded = v.fabric_of(fabric)
    groups = _layout(loaded, layout, placed, v.count_of(seed, "seed"))
    sent = load_matrix(os.fspath(matrix)) if isinstance(matrix, str | os.PathLike) else matrix
    try:
        return run(loaded, groups, skew=Skew(sent, hot, hot_members, zipf), **asked)
    except ColltoolError as error:
        if error.argument != "matrix" or not isinstance(matrix, str | os.PathLike):
            raise
        raise ColltoolError(error.what, where=f"{os.fspath(matrix)}:1:1", fix=error.fix) from error


def _layout(fabric: Fabric, layout: Any, placed: str | None, seed: int) -> Layout:
    from colltool.commands import reading as v
    from colltool.congestion.jobs import Layout
    from colltool.congestion.layout import load_layout, pattern_layout
    from colltool.congestion.patterns import MapPattern, Pattern

    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str | os.PathLike) or (
        isinstance(layout, Mapping) and {"groups", "pattern"} & layout.keys()
    ):
        return load_layout(layout, fabric)
    if not isinstance(layout, Mapping):
        raise v.wrong(
            layout,
            "layout",
            "a layout",
            'give a path, or fields of a pattern such as {"kind": "cyclic", "group": 8}',
        )
    # refused where it is laid out
    kind: Any = "identity" if placed is None else v.text_of(placed, "placed", "rotate")
    return pattern_layout(
        Pattern(**_fields(layout, Pattern._fields)), fabric, MapPattern(kind, seed=seed)
    )


def _fields(layout: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What a pattern is made of: each field of the type that it has."""
    from colltool.commands import reading as v

    for name, value in layout.items():
        if name not in known:
            fix = f"{nearest(str(name), list(known))} fields: {', '.join(known)}".strip()
            raise ColltoolError(f"no field '{name}' of a pattern", argument="layout", fix=fix)
        if name == "kind":
            v.text_of(value, "kind", "cyclic")
        elif name == "shape" and value is not None:
            if not isinstance(value, list | tuple):
                raise v.wrong(
                    value,
                    "shape",
                    "a tuple of whole numbers",
                    f"write {given('shape', (4, 2), text='4x2')}",
                )
            for side in value:
                v.count_of(side, "shape")
        elif value is not None:
            v.count_of(value, name)
    return dict(layout)


@command(primitive="--primitive")
def contention_command(
    fabric: FabricChoice,
    layout: Annotated[Path | None, o.option("layout"), o.READ] = None,
    pattern: Annotated[str | None, o.option("kind")] = None,
    group: Annotated[int | None, o.option("group")] = None,
    count: Annotated[int | None, o.option("count")] = None,
    axis: Annotated[int | None, o.option("axis")] = None,
    stride: Annotated[
        int | None,
        o.option("stride", "Between groups (block) or ranks (cyclic, axis).", metavar="N"),
    ] = None,
    start: Annotated[int | None, o.option("start")] = None,
    seed: Annotated[
        int | None, o.option("seed", "Of random patterns and maps.", metavar="N")
    ] = None,
    shape: Annotated[
        str | None, o.option("shape", "Of a box, along each axis.", metavar="4x2", kind="text")
    ] = None,
    map_: Annotated[
        str | None,
        o.option(
            "placed",
            "Ranks on endpoints: identity, reverse, cyclic, rotate or random.",
            metavar="KIND",
        ),
    ] = None,
    primitive: Annotated[
        str | None,
        o.option(
            "primitive", "What groups run. [default: ar, a2a under a skew]", flags="--primitive -p"
        ),
    ] = None,
    algorithm: Annotated[
        str | None, o.option("algorithm", "Its algorithm. [default: ring, pairwise, chain]")
    ] = None,
    size: Annotated[str | None, o.option("size", "Bytes per rank; adds times.")] = None,
    matrix: Annotated[Path | None, o.option("matrix"), o.READ] = None,
    hot: Annotated[str | None, o.option("hot")] = None,
    zipf: Annotated[float | None, o.option("zipf")] = None,
    per_link: Annotated[bool, o.option("per_link")] = False,
    as_eta: Annotated[bool, o.option("as_eta")] = False,
    schema: Annotated[  # noqa: ARG001 - has printed and stopped
        bool, o.schema_option("layout", "colltool.congestion.layout:LayoutFile")
    ] = False,
    *,
    out: Out,
) -> None:
    """What a layout costs: the load of every link when its groups run together, against each group
    alone and packed.

    Static loads: for packets, queues or adaptive routing turn to ns-3, htsim, SST or ASTRA-sim.

    Examples:
      colltool contention -f torus512 --pattern axis --axis 1 --group 8 --count 8
      colltool contention -f torus512 --pattern random --seed 1 --group 8 -p a2a
      colltool contention -f torus512 --pattern block --group 6 --as-eta
      colltool contention -f clos-4to1 --pattern cyclic --group 64 -p a2a -M 16MB
      colltool contention -f dgx-h100 --pattern cyclic --group 32 --stride 8 --map rotate
      colltool contention -f star512 --group 64 --count 1 --hot 3
      colltool contention -f torus512 --layout groups.yaml --per-link --format csv
    """
    box = parse_shape(shape, "shape") if shape else None
    laid = {
        "kind": pattern,
        "group": group,
        "count": count,
        "axis": axis,
        "stride": stride,
        "start": start,
        "seed": seed,
        "shape": box,
    }
    asked: dict[str, Any] = {key: value for key, value in laid.items() if value is not None}
    if layout is not None and (extra := [*asked, *(["placed"] if map_ is not None else [])]):
        what = (
            f"{', '.join(given(key) for key in extra)} and {given('layout')} both lay the"
            " groups out"
        )
        raise ColltoolError(what, argument=extra[0], fix="give one of them")
    if map_ == "random" and pattern != "random":
        asked.pop("seed", None)  # it is the map's
    factor, _, members = (hot or "").partition("@")
    try:
        times = float(factor) if hot is not None else None
        hot_members = tuple(int(member) for member in members.split(",")) if members else (0,)
    except ValueError as error:
        raise ColltoolError(
            f"'{hot}' is not a hot spot", argument="hot", fix="write --hot 3, or --hot 3@0,5"
        ) from error
    result = colltool.contention(
        fabric.load(),
        layout or asked,
        placed=map_,
        seed=seed or 0,
        primitive=primitive,
        algorithm=algorithm,
        size=size,
        matrix=matrix,
        hot=times,
        hot_members=hot_members,
        zipf=zipf,
        per_link=per_link,
    )
    out.emit(result.as_eta() if as_eta else result)
