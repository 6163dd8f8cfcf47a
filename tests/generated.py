"""Series as a known fabric would have them, with or without noise, and what calibrate makes of
them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import yaml
from handmade import by_steps
from small import gb, us

from colltool.base.primitives import AR, Primitive
from colltool.calibration.calibrate import Calibration, FitRequest, calibrate
from colltool.calibration.results import FittedSeries
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.price import price
from colltool.fabric.load import read_fabric
from colltool.fabric.model import Fabric
from colltool.logs.series import Measurements, Point, Series

SIZES = by_steps(1024, 2**32)  # 4x a step: 12 sizes
FINE = by_steps(1024, 2**33, 2)  # 24 sizes


def protocol(
    name: str, launch: float, alpha: float, bandwidth: float, **more: Any
) -> dict[str, Any]:
    """Microseconds, microseconds, GB/s."""
    return {
        "name": name,
        "launch_overhead": us(launch),
        "alpha": us(alpha),
        "bandwidth": gb(bandwidth),
        **more,
    }


def document(*tiers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A fabric file as data: tiers t1, t2 ..., innermost first."""
    named = [{"name": f"t{number}", **tier} for number, tier in enumerate(tiers, start=1)]
    return {"schema": "colltool.fabric/1", "name": "small", "tiers": named, **more}


def fabric_of(data: dict[str, Any]) -> Fabric:
    return read_fabric(yaml.safe_dump(data, sort_keys=False), "small.yaml")


def measured(
    truth: Fabric,
    primitive: Primitive,
    ranks: int,
    sizes: Iterable[float] = SIZES,
    algorithms: Sequence[str] = ("ring",),
    *,
    noise: float = 0.0,
    spoil: dict[float, float] | None = None,
    nodes: int | None = None,
    library: str = "NCCL",
) -> Series:
    """The prices of the truth as a series.

    Args:
        truth, primitive, ranks, sizes: what ran.
        algorithms: the fastest of which ran at each size.
        noise: standard deviation of the logarithm of each time.
        spoil: a factor on the time of some sizes.
        nodes, library: as the log says.
    """
    size = np.array(list(sizes), dtype=float)
    rows = price(truth, primitive, size, ranks, ModelOptions(), list(algorithms)).results
    seconds = np.min([np.asarray(row.total_s) for row in rows], axis=0)
    chance = random.Random(f"{primitive} {ranks}")
    times = [
        float(t) * float(np.exp(noise * chance.gauss(0, 1))) * (spoil or {}).get(float(m), 1.0)
        for m, t in zip(size, seconds, strict=True)
    ]
    points = tuple(
        Point(float(m), t, t, t, 1, f"made.log:{line}")
        for line, (m, t) in enumerate(zip(size, times, strict=True), 7)
    )
    return Series(primitive, ranks, nodes, points, library, "", "float", ("made.log",))


def fit(data: dict[str, Any], *series: Series, name: str = "found", **wanted: Any) -> Calibration:
    return calibrate(data, Measurements(series, ()), FitRequest(**wanted), name)


def only(result: Calibration) -> FittedSeries:
    (one,) = result.series
    return one


__all__ = ["AR", "FINE", "SIZES", "document", "fabric_of", "fit", "measured", "only", "protocol"]
