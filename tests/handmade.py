"""Series from a few numbers or a formula, and what validate says of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from colltool.base.primitives import AR, Primitive
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.validate import validate
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.logs.series import Measurements, Point, Series

Time = Callable[[float], float]


def by_steps(first: float, last: float, factor: float = 4.0) -> list[float]:
    """Sizes from the first to the last."""
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


def series(
    time: Time,
    sizes: Iterable[float],
    ranks: int = 8,
    primitive: Primitive = AR,
    *,
    nodes: int | None = None,
    library: str = "NCCL",
) -> Series:
    """The time of each size, measured once."""
    timed = [(size, time(size)) for size in sizes]
    points = tuple(
        Point(size, t, t, t, 1, f"made.log:{line}") for line, (size, t) in enumerate(timed, start=7)
    )
    return Series(primitive, ranks, nodes, points, library, "", "float", ("made.log",))


def judged(
    fabric: Fabric, one: Series, *algorithms: str, readings: ModelOptions | None = None
) -> ValidatedSeries:
    """The only series of a validation."""
    return validate(
        fabric, Measurements((one,), ()), algorithms=algorithms, readings=readings
    ).series[0]
