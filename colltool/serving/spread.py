"""A token's network time where numbers of the fabric, and the kernels' own laws, may be off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random
from statistics import NormalDist, quantiles
from typing import ClassVar, NamedTuple

from colltool.analysis.sensitivity import draws
from colltool.base.result import Result
from colltool.fabric.model import Fabric
from colltool.fabric.variants import ParameterRange, with_values
from colltool.serving.results import Served

# half of the errors of a normal are within so many deviations
_MEDIAN_OF_NORMAL = NormalDist().inv_cdf(0.75)


class ServedBar(NamedTuple):
    """The network time of a token with one number at either end of its range."""

    number: ParameterRange
    low_s: float
    high_s: float

    @property
    def span_s(self) -> float:
        return abs(self.high_s - self.low_s)


@dataclass(frozen=True, eq=False, repr=False)
class ServeSpread(Result):
    """A token's network time under uncertain numbers: each alone (``moved``, largest effect first),
    and all at once.

    Beside the fabric's numbers each kernel's law is drawn as far off as its stated error, the same
    for all its calls.
    """

    subject: ClassVar[str] = "serve"
    served: Served
    moved: tuple[ServedBar, ...]
    p5_s: float
    p50_s: float
    p95_s: float
    samples: int
    seed: int


def serve_spread(
    served: Served,
    fabric: Fabric,
    numbers: Sequence[ParameterRange],
    run: Callable[[Fabric], Served],
    *,
    samples: int,
    seed: int,
) -> ServeSpread:
    moved = []
    for one in numbers:
        ends = [
            run(with_values(fabric, {one.place: value})).decode.network_s
            for value in (one.low, one.high)
        ]
        moved.append(ServedBar(one, *ends))
    drawn, luck = draws(numbers, samples, seed), Random(seed)
    times = []
    for sample in range(samples):
        changed = run(
            with_values(fabric, {place: float(values[sample]) for place, values in drawn.items()})
        )
        times.append(_with_errors(changed, luck))
    cuts = quantiles(times, n=20, method="inclusive")
    return ServeSpread(
        served=served,
        moved=tuple(sorted(moved, key=lambda one: -one.span_s)),
        p5_s=cuts[0],
        p50_s=cuts[9],
        p95_s=cuts[18],
        samples=samples,
        seed=seed,
    )


def _with_errors(served: Served, luck: Random) -> float:
    """The network time with each kernel off by a factor whose median error is the stated one."""
    factors: dict[str, float] = {}
    for one in served.decode.operations:
        drawn = luck.gauss(0.0, 1.0)
        factors.setdefault(one.kernel, exp(drawn * log(1 + (one.error or 0.0)) / _MEDIAN_OF_NORMAL))
    return sum(one.total_s * factors[one.kernel] for one in served.decode.operations)
