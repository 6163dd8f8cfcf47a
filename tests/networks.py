"""What every kind of network is asked: what one algorithm takes on it, and whether some price is
below the cut bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import colltool
from colltool.base.primitives import Primitive
from colltool.fabric.model import Fabric

M = 16e6


def seconds(of: Fabric, primitive: str, algorithm: str, **how: object) -> float:
    """What one algorithm takes for :data:`M`."""
    found = colltool.price(of, primitive, size=M, algorithms=algorithm, **how)  # type: ignore[arg-type]
    return float(next(one.total_s for one in found.results if one.spec == algorithm))


def below_the_cut(
    of: Fabric, size: float = M, primitives: Iterable[Primitive] = Primitive
) -> list[str]:
    """The rows whose bytes alone, without contention, take less than the bound; none may."""
    return [row for primitive in primitives for row in _below(of, size, primitive)]


def _below(of: Fabric, size: float, primitive: Primitive) -> Iterator[str]:
    for one in colltool.price(of, primitive, size=size, ideal=True).results:
        if one.lower_bound_s is not None and not float(one.bandwidth_s) >= float(
            one.lower_bound_s
        ) * (1 - 1e-9):
            yield f"{primitive} by {one.spec}: {one.bandwidth_s} s, bound {one.lower_bound_s} s"
