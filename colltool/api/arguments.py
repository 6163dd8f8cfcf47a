"""What the public functions take: fabrics by path or name, primitives by any of their names, sizes as text or arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from colltool.cost import Number, Pipelining
from colltool.errors import ColltoolError
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.pricing.readings import Readings
from colltool.primitives import Primitive, parse_primitive
from colltool.units import parse_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Sizes = str | float | Sequence[float] | NDArray[np.float64]
else:
    Sizes = Any

AnyFabric = Fabric | str | os.PathLike[str]


def readings(
    *,
    ideal: bool = False,
    pipelining: Pipelining = "asymptotic",
    phases: str | None = None,
    placement: str = "packed",
    ring_alpha: str = "mean",
    tree_beta: float = 2.0,
    order: str | None = None,
) -> Readings:
    """How to read the model where it leaves a choice; see :class:`colltool.pricing.readings.Readings`.

    Raises:
        ColltoolError: a reading that does not exist.
    """
    _one_of("phases", phases, (None, "sequential", "pipelined"))
    _one_of("placement", placement, ("packed", "scattered"))
    _one_of("ring_alpha", ring_alpha, ("mean", "worst"))
    _one_of("order", order, (None, "outer-first", "inner-first"))
    if not (isinstance(tree_beta, int | float) and 1 <= tree_beta <= 2):
        raise ColltoolError(
            f"must lie between 1 and 2, got {tree_beta}", where="--tree-beta", fix="2 is a single port; 1 needs two ports"
        )
    segments = isinstance(pipelining, int) and not isinstance(pipelining, bool)
    if pipelining not in ("asymptotic", "optimal") and not (segments and int(pipelining) >= 1):
        fix = "asymptotic, optimal, or a number of segments of at least 1"
        raise ColltoolError(f"'{pipelining}' is not known", where="--pipelining", fix=fix)
    return Readings(ideal, pipelining, phases, placement, ring_alpha, float(tree_beta), order)  # type: ignore[arg-type]


def _one_of(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        raise ColltoolError(f"{name} '{value}' is not known", fix=f"one of {', '.join(str(k) for k in known if k)}")


def fabric_of(fabric: AnyFabric) -> Fabric:
    """A fabric as it is, or loaded by path or shipped name."""
    return fabric if isinstance(fabric, Fabric) else load_fabric(fabric)


def primitive_of(primitive: Primitive | str) -> Primitive:
    """A primitive by any of its names."""
    return primitive if isinstance(primitive, Primitive) else parse_primitive(primitive)


def names_of(algorithms: Sequence[str] | str) -> list[str]:
    """One name or several as a list."""
    return [algorithms] if isinstance(algorithms, str) else list(algorithms)


def sizes_of(size: Sizes) -> Number:
    """A float for one size, a float64 array for several."""
    if isinstance(size, str | int | float) or getattr(size, "ndim", 1) == 0:
        return parse_size(cast("float", size))
    import numpy as np

    try:
        array = np.asarray([parse_size(one) for one in size] if isinstance(size, list | tuple) else size, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ColltoolError("sizes must be numbers of bytes", where="size", fix="text: colltool.units.parse_size") from error
    if array.ndim != 1 or not array.size:
        what = f"sizes must be a one-dimensional array with at least one size, got shape {array.shape}"
        raise ColltoolError(what, where="size")
    return array
