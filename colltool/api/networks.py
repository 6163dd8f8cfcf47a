"""What a layout costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import (
    AnyFabric,
    fabric_of,
    flag_of,
    primitive_of,
    size_of,
    text_of,
    whole_of,
    wrong,
)
from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.primitives import Primitive
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.congestion.groups import Layout
    from colltool.congestion.results import Contention


def contention(
    fabric: AnyFabric,
    layout: Layout | Mapping[str, Any] | str | os.PathLike[str],
    *,
    placed: str | None = None,
    seed: int = 0,
    primitive: Primitive | str | None = None,
    algorithm: str | None = None,
    size: str | float | None = None,
    matrix: str | os.PathLike[str] | Sequence[Sequence[float]] | NDArray[np.float64] | None = None,
    hot: float | None = None,
    hot_members: Sequence[int] = (0,),
    zipf: float | None = None,
    per_link: bool = False,
) -> Contention:
    """What a layout costs: the load of every link when its groups run together, against each group alone and packed.

    Args:
        fabric: as :func:`price`.
        layout: a layout, a path to a layout file, a mapping of what one would hold, or fields of
            :class:`colltool.congestion.patterns.Pattern`, such as ``{"kind": "cyclic", "group": 8}``.
        placed: the kind of :class:`colltool.congestion.patterns.MapPattern` for a pattern, with its ``seed``.
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        matrix, hot, zipf: at most one: a skew of the all-to-all groups. ``matrix``: bytes from row to column, or a CSV of them;
            ``hot``: times the mean that each of ``hot_members`` gets; ``zipf``: the exponent over destinations.
        per_link: keep every loaded link.

    Returns:
        A :class:`colltool.congestion.results.Contention`.

    Raises:
        ColltoolError: a layout, matrix, skew or algorithm that cannot be used; says where and what to do instead.
    """
    from colltool.congestion.contention import contention as run
    from colltool.congestion.skew import Skew

    if sum(value is not None for value in (matrix, hot, zipf)) > 1:
        what = "a matrix, a hot spot and a Zipf skew exclude each other"
        raise ColltoolError(what, argument="matrix", fix="give one of them")
    if matrix is not None and size is not None:
        fix = f"leave {given('size')} out, or scale the matrix"
        raise ColltoolError("the matrix already gives bytes", argument="size", fix=fix)
    named = None if algorithm is None else text_of(algorithm, "algorithm", "ring", noun="the name of an algorithm")
    bytes_ = None if size is None else size_of(size)
    wanted = None if primitive is None else primitive_of(primitive)
    every = flag_of(per_link, "per_link")
    loaded = fabric_of(fabric)
    placed_groups = _layout(loaded, layout, placed, whole_of(seed, "seed"))
    skew = Skew(_matrix(matrix), hot, hot_members, zipf)
    try:
        return run(loaded, placed_groups, primitive=wanted, algorithm=named, size=bytes_, skew=skew, per_link=every)
    except ColltoolError as error:
        if error.argument != "matrix" or not isinstance(matrix, str | os.PathLike):
            raise
        raise ColltoolError(error.what, where=f"{os.fspath(matrix)}:1:1", fix=error.fix) from error


def _layout(fabric: Fabric, layout: Any, placed: str | None, seed: int) -> Layout:
    from colltool.congestion.groups import Layout
    from colltool.congestion.layout import load_layout, pattern_layout
    from colltool.congestion.patterns import MapPattern, Pattern

    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str | os.PathLike) or (isinstance(layout, Mapping) and {"groups", "pattern"} & layout.keys()):
        return load_layout(layout, fabric)
    if not isinstance(layout, Mapping):
        raise wrong(layout, "layout", "a layout", 'give a path, or fields of a pattern such as {"kind": "cyclic", "group": 8}')
    kind = "identity" if placed is None else text_of(placed, "placed", "rotate")
    return pattern_layout(Pattern(**_fields(layout, Pattern._fields)), fabric, MapPattern(kind, seed=seed))


def _fields(layout: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """What a pattern is made of: each field of the type that it has."""
    for name, value in layout.items():
        if name not in known:
            hint = nearest(str(name), list(known))
            fix = f"{hint} fields: {', '.join(known)}".strip()
            raise ColltoolError(f"no field '{name}' of a pattern", argument="layout", fix=fix)
        if name == "kind":
            text_of(value, "kind", "cyclic")
        elif name == "shape" and value is not None:
            if not isinstance(value, list | tuple):
                raise wrong(value, "shape", "a tuple of whole numbers", f"write {given('shape', (4, 2), text='4x2')}")
            for side in value:
                whole_of(side, "shape")
        elif value is not None:
            whole_of(value, name)
    return dict(layout)


def _matrix(matrix: Any) -> Any:
    if isinstance(matrix, str | os.PathLike):
        from colltool.congestion.matrix import load_matrix

        return load_matrix(os.fspath(matrix))
    return matrix
