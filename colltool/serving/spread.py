"""Uncertainty of a token's network time, over ranges of the fabric's numbers and over the stated
errors of kernels: :func:`serve_spread`.

Each number is first moved alone to either end of its range; then all are drawn at once, many times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log
from random import Random
from statistics import NormalDist, quantiles
from typing import ClassVar, NamedTuple

from colltool.analysis.what_if import draws
from colltool.base.result import Result, result
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import ParameterRange
from colltool.fabric.values import with_values
from colltool.serving.results import Served

# median of the absolute value of a standard normal variable, 0.67: a median error over it is a sigma
_MEDIAN_OF_NORMAL = NormalDist().inv_cdf(0.75)


class ServedBar(NamedTuple):
    """The network time of a token with one number at the low and at the high end of its range."""

    number: ParameterRange
    low_s: float
    high_s: float

    @property
    def span_s(self) -> float:
        """How much the number moves the time."""
        return abs(self.high_s - self.low_s)


@result
class ServeSpread(Result):
    """A token's network time under uncertain numbers.

    Args:
        served: the deployment with every number as the fabric has it.
        moved: each number of the fabric alone, the largest effect first.
        p5_s, p50_s, p95_s: percentiles with all numbers, and the errors of kernels, drawn at once.
        samples, seed: how many draws, and the seed of both generators.
    """

    subject: ClassVar[str] = "serve_spread"
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
    """Return the spread of a token's network time.

    Args:
        served: the deployment on the fabric as it is.
        numbers: numbers of the fabric and their ranges.
        run: the same question on a changed fabric.
    """
    moved = []
    for number in numbers:
        low = run(with_values(fabric, {number.place: number.low}))
        high = run(with_values(fabric, {number.place: number.high}))
        moved.append(ServedBar(number, low.decode.network_s, high.decode.network_s))
    moved.sort(key=lambda bar: -bar.span_s)
    # by the number's place in the fabric: an array of (samples,) values
    samples_by_place = draws(numbers, samples, seed)
    random = Random(seed)
    times_s = []
    for sample in range(samples):
        values = {
            place: float(samples_of[sample]) for place, samples_of in samples_by_place.items()
        }
        times_s.append(_network_s_with_errors(run(with_values(fabric, values)), random))
    # nineteen cuts, 5% apart: the first is at 5%, the tenth at 50%, the last at 95%
    cuts = quantiles(times_s, n=20, method="inclusive")
    return ServeSpread(
        served=served,
        moved=tuple(moved),
        p5_s=cuts[0],
        p50_s=cuts[9],
        p95_s=cuts[18],
        samples=samples,
        seed=seed,
    )


def _network_s_with_errors(served: Served, random: Random) -> float:
    """The network time of a token with each kernel's time multiplied by a random factor.

    Factors are log-normal with the kernel's stated median error, one for all calls of a kernel;
    1 for a kernel without.
    """
    factors: dict[str, float] = {}
    total_s = 0.0
    for call in served.decode.operations:
        # one draw per call, used or not: draws of other kernels then do not depend on names
        deviation = random.gauss(0.0, 1.0)
        sigma = log(1 + (call.error or 0.0)) / _MEDIAN_OF_NORMAL
        factor = factors.setdefault(call.kernel, exp(deviation * sigma))
        total_s += call.total_s * factor
    return total_s
