"""What a layout costs: link loads of groups that run together.

:func:`contention` takes a layout in any form; the command makes the fields of a pattern of its options
and calls it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text, nearest_and_all
from colltool.base.formatting import parse_shape
from colltool.base.primitives import Primitive
from colltool.commands.command import command
from colltool.commands.options import FABRIC, RESULT, FabricChoice, Out, option, schema_option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.congestion.contention import Contention
    from colltool.congestion.layout_groups import Layout
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
    from colltool.commands.reading import count_of, flag_of, primitive_if, size_of, text_of
    from colltool.commands.requests import fabric_of
    from colltool.congestion.contention import contention as run
    from colltool.congestion.matrix_file import load_matrix
    from colltool.congestion.skew import Skew

    # each of them defines all the traffic, so that one is all that can be
    skews = [value for value in (matrix, hot, zipf) if value is not None]
    if len(skews) > 1:
        raise ColltoolError(
            "a matrix, a hot spot and a Zipf skew exclude each other",
            argument="matrix",
            fix="give one of them",
        )
    if matrix is not None and size is not None:
        raise ColltoolError(
            "the matrix already gives bytes",
            argument="size",
            fix=f"leave {argument_text('size')} out, or scale the matrix",
        )
    if algorithm is not None:
        text_of(algorithm, "algorithm", "ring", noun="the name of an algorithm")
    call_options: dict[str, Any] = {
        "algorithm": algorithm,
        "size": None if size is None else size_of(size),
        "primitive": primitive_if(primitive),
        "per_link": flag_of(per_link, "per_link"),
    }
    loaded = fabric_of(fabric)
    groups = _read_layout(loaded, layout, placed, count_of(seed, "seed"))
    if not isinstance(matrix, str | os.PathLike):
        return run(loaded, groups, skew=Skew(matrix, hot, hot_members, zipf), **call_options)
    file = os.fspath(matrix)
    skew = Skew(load_matrix(file), hot, hot_members, zipf)
    try:
        return run(loaded, groups, skew=skew, **call_options)
    except ColltoolError as error:
        if error.argument != "matrix":
            raise
        # the mistake is in the file: report it there, not at the argument
        raise ColltoolError(error.what, where=f"{file}:1:1", fix=error.fix) from error


def _read_layout(fabric: Fabric, layout: Any, placed: str | None, seed: int) -> Layout:
    """A layout from any form that :func:`contention` takes.

    Args:
        placed, seed: of a pattern, the map of ranks and its seed.
    """
    from colltool.commands.reading import text_of, wrong
    from colltool.congestion.layout import load_layout, pattern_layout
    from colltool.congestion.layout_groups import Layout
    from colltool.congestion.patterns import MapPattern, Pattern

    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str | os.PathLike):
        return load_layout(layout, fabric)
    if not isinstance(layout, Mapping):
        raise wrong(
            layout,
            "layout",
            "a layout",
            'give a path, or fields of a pattern such as {"kind": "cyclic", "group": 8}',
        )
    # what a file would hold
    if "groups" in layout or "pattern" in layout:
        return load_layout(layout, fabric)
    # pattern_layout refuses unknown kinds
    kind: Any = "identity" if placed is None else text_of(placed, "placed", "rotate")
    pattern = Pattern(**_checked_fields(layout, Pattern._fields))
    return pattern_layout(pattern, fabric, MapPattern(kind, seed=seed))


def _checked_fields(layout: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The fields of a pattern as they are; ColltoolError for unknown names and values of a wrong
    type. Bounds are checked where the pattern is placed."""
    from colltool.commands.reading import count_of, text_of, wrong

    for name, value in layout.items():
        if name not in known:
            raise ColltoolError(
                f"no field '{name}' of a pattern",
                argument="layout",
                fix=nearest_and_all(str(name), known, "fields:"),
            )
        if name == "kind":
            text_of(value, "kind", "cyclic")
        elif value is None:
            continue
        elif name != "shape":
            count_of(value, name)
        elif not isinstance(value, list | tuple):
            raise wrong(
                value,
                "shape",
                "a tuple of whole numbers",
                f"write {argument_text('shape', (4, 2), text='4x2')}",
            )
        else:
            for side in value:
                count_of(side, "shape")
    return dict(layout)


@command(
    [
        FABRIC,
        "layout",
        "kind",
        "group",
        "count",
        "axis",
        option(
            "stride",
            "Distance between groups (block) or between ranks (cyclic, axis).",
            metavar="N",
            default=None,
        ),
        "start",
        option("seed", "Seed of random patterns and maps.", metavar="N", default=None),
        option("shape", "Shape of a box: ranks along each axis.", metavar="4x2", kind="text"),
        option(
            "placed",
            "Mapping of ranks to endpoints: identity, reverse, cyclic, rotate or random.",
            metavar="KIND",
            file="",
        ),
        option(
            "primitive",
            "Collective of the groups. [default: ar, or a2a for a skew]",
            flags="--primitive -p",
        ),
        option("algorithm", "Algorithm of the groups. [default: ring, pairwise or chain]"),
        option("size", "Bytes per rank; adds times to the output.", kind="text"),
        "matrix",
        "hot",
        "zipf",
        "per_link",
        "as_eta",
        schema_option("layout", "colltool.congestion.layout_file:LayoutFile"),
        RESULT,
    ],
    public=contention,
    primitive="--primitive",
)
def contention_command(
    fabric: FabricChoice,
    out: Out,
    layout: Path | None = None,
    kind: str | None = None,
    group: int | None = None,
    count: int | None = None,
    axis: int | None = None,
    stride: int | None = None,
    start: int | None = None,
    seed: int | None = None,
    shape: str | None = None,
    placed: str | None = None,
    hot: str | None = None,
    as_eta: bool = False,
    **arguments: Any,
) -> None:
    """Show what a layout costs: the load on every link when its groups run together, compared with
    one group alone and with packed groups.

    Loads are static; for packets, queues or adaptive routing use ns-3, htsim, SST or ASTRA-sim.

    Examples:
      colltool contention -f torus512 --pattern axis --axis 1 --group 8 --count 8
      colltool contention -f torus512 --pattern random --seed 1 --group 8 -p a2a
      colltool contention -f torus512 --pattern block --group 6 --as-eta
      colltool contention -f clos-4to1 --pattern cyclic --group 64 -p a2a -M 16MB
      colltool contention -f dgx-h100 --pattern cyclic --group 32 --stride 8 --map rotate
      colltool contention -f star512 --group 64 --count 1 --hot 3
      colltool contention -f torus512 --layout groups.yaml --per-link --format csv
    """
    pattern = {
        "kind": kind,
        "group": group,
        "count": count,
        "axis": axis,
        "stride": stride,
        "start": start,
        "seed": seed,
        "shape": parse_shape(shape, "shape") if shape else None,
    }
    fields = {name: value for name, value in pattern.items() if value is not None}
    if layout is not None:
        map_options = [] if placed is None else ["placed"]
        _refuse_with_layout([*fields, *map_options])
    # --seed is of the pattern and of the map of ranks: a pattern that is not random has none
    if placed == "random" and kind != "random":
        fields.pop("seed", None)
    if hot is not None:
        arguments["hot"], arguments["hot_members"] = _hot_spot(hot)
    result = contention(fabric.load(), layout or fields, placed=placed, seed=seed or 0, **arguments)
    out.emit(result.as_eta() if as_eta else result)


def _refuse_with_layout(options: list[str]) -> None:
    """Raise ColltoolError for options of a pattern beside a layout file."""
    if options:
        named = ", ".join(argument_text(name) for name in options)
        raise ColltoolError(
            f"{named} and {argument_text('layout')} both lay the groups out",
            argument=options[0],
            fix="give one of them",
        )


def _hot_spot(text: str) -> tuple[float, tuple[int, ...]]:
    """The factor over the mean and the hot members, from ``3`` or ``3@0,5``."""
    factor, _, members = text.partition("@")
    try:
        hot_members = tuple(int(member) for member in members.split(",")) if members else (0,)
        return float(factor), hot_members
    except ValueError as error:
        raise ColltoolError(
            f"'{text}' is not a hot spot", argument="hot", fix="write --hot 3, or --hot 3@0,5"
        ) from error
