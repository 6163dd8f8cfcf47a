"""What a layout costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import AnyFabric, fabric_of, primitive_of
from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.primitives import Primitive
from colltool.units import parse_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.wires.groups import Layout
    from colltool.wires.results import Contention


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
            :class:`colltool.wires.patterns.Pattern`, such as ``{"kind": "cyclic", "group": 8}``.
        placed: the kind of :class:`colltool.wires.patterns.MapPattern` for a pattern, with its ``seed``.
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        matrix, hot, zipf: at most one: a skew of the all-to-all groups. ``matrix``: bytes from row to column, or a CSV of them;
            ``hot``: times the mean that each of ``hot_members`` gets; ``zipf``: the exponent over destinations.
        per_link: keep every loaded link.

    Returns:
        A :class:`colltool.wires.results.Contention`.

    Raises:
        ColltoolError: a layout, matrix, skew or algorithm that cannot be used; says where and what to do instead.
    """
    from colltool.wires.contention import contention as run
    from colltool.wires.skew import Skew

    loaded = fabric_of(fabric)
    placed_groups = _layout(loaded, layout, placed, seed)
    skew = Skew(_matrix(matrix), hot, hot_members, zipf)
    if sum(value is not None for value in (matrix, hot, zipf)) > 1:
        raise ColltoolError("a matrix, a hot spot and a Zipf skew exclude each other", where="--matrix", fix="give one of them")
    if matrix is not None and size is not None:
        raise ColltoolError("the matrix already gives bytes", where="--size", fix="leave -M out, or scale the matrix")
    try:
        return run(
            loaded,
            placed_groups,
            primitive=None if primitive is None else primitive_of(primitive),
            algorithm=algorithm,
            size=None if size is None else parse_size(size),
            skew=skew,
            per_link=per_link,
        )
    except ColltoolError as error:
        if error.where != "--matrix" or not isinstance(matrix, str | os.PathLike):
            raise
        raise ColltoolError(error.what, where=f"{os.fspath(matrix)}:1:1", fix=error.fix) from error


def _layout(fabric: Fabric, layout: Any, placed: str | None, seed: int) -> Layout:
    from colltool.wires.groups import Layout
    from colltool.wires.layout import load_layout, pattern_layout
    from colltool.wires.patterns import MapPattern, Pattern

    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, str | os.PathLike) or (isinstance(layout, Mapping) and {"groups", "pattern"} & layout.keys()):
        return load_layout(layout, fabric)
    return pattern_layout(Pattern(**layout), fabric, MapPattern(placed or "identity", seed=seed))


def _matrix(matrix: Any) -> Any:
    if isinstance(matrix, str | os.PathLike):
        from colltool.wires.matrix import load_matrix

        return load_matrix(os.fspath(matrix))
    return matrix
