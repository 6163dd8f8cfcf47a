"""Prices under other values of a fabric's numbers: at single values (:class:`WhatIf`), and at draws
of all numbers at once (:func:`draws`, :func:`totals_of`)."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from colltool.analysis.cells import BLOCK, Floats, PriceRequest, leading_rows
from colltool.base.result import with_progress
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.groups import check_by_class
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import ParameterRange
from colltool.fabric.values import Place, with_values

# Numbers times samples: draws of so many take 80 MB, and pricing them seconds.
MOST_DRAWN = 10_000_000
# Draws priced at once where numbers are many: a price holds several arrays for each number.
DRAWS_AT_ONCE = 1 << 18
# Beyond so many numbers pricing slows down with each: then fewer draws are priced, and only the
# most influential numbers are examined.
MOST_EXAMINED = 100


class WhatIf(NamedTuple):
    """What is priced, again and again; ``size`` in bytes."""

    fabric: Fabric
    request: PriceRequest
    group: GroupSpec
    size: float

    def rows(self, values: Mapping[Place, Any], count: int = 1) -> list[AlgorithmEstimate]:
        """The schedules that may win with these values in place of the file's, priced ``count``
        times each: every value is one number, or an array of so many."""
        return leading_rows(
            with_values(self.fabric, values),
            self.group,
            self.request,
            np.full(count, self.size),
        )

    def at_both_ends(self, numbers: Sequence[ParameterRange]) -> list[AlgorithmEstimate]:
        """Two elements per number: at its low and at its high end, with all others as in the
        file."""
        # a of 2 (1 to 3) and b of 20 (10 to 30): a is 1, 3, 2, 2 while b is 20, 20, 10, 30
        count = 2 * len(numbers)
        varied = {}
        for index, number in enumerate(numbers):
            values = np.full(count, number.value)
            values[2 * index] = number.low
            values[2 * index + 1] = number.high
            varied[number.place] = values
        return self.rows(varied, count)

    def only(self, names: Sequence[str]) -> WhatIf:
        """The same question about the algorithms of these names alone."""
        return self._replace(request=self.request._replace(only=tuple(names)))


def affordable(samples: int, numbers: int) -> int:
    """The number of samples to draw: numbers times samples stay within :data:`MOST_DRAWN`, and
    beyond :data:`MOST_EXAMINED` numbers pricing takes seconds at most."""
    # at most 100,000 samples of 100 numbers; of 200 numbers 25,000, as each sample holds twice as
    # many and is priced twice as slowly
    drawn_per_sample = max(1, numbers)
    slowdown = max(1.0, numbers / MOST_EXAMINED)
    most = int(MOST_DRAWN / (drawn_per_sample * slowdown))
    return max(1, min(samples, most))


def draws(numbers: Sequence[ParameterRange], samples: int, seed: int) -> dict[Place, Floats]:
    """Independent draws of every number, uniform by factor (``even``) or by value.

    A number's draws depend only on the seed and its key, so they are the same whatever else is
    drawn.
    """
    drawn: dict[Place, Floats] = {}
    for number in numbers:
        generator = np.random.default_rng([seed, *number.key.encode()])
        # 0 draws the low end, 1 the high one
        share = generator.random(samples)
        if number.even and number.low > 0:
            factor = number.high / number.low
            drawn[number.place] = number.low * factor**share
        else:
            drawn[number.place] = number.low + (number.high - number.low) * share
    return drawn


def totals_of(
    question: WhatIf, drawn: dict[Place, Floats], nominal: AlgorithmEstimate
) -> tuple[dict[str, AlgorithmEstimate], Floats]:
    """Every relevant schedule by title, the nominal winner first, and the seconds of each in every
    sample, (schedules, samples).

    Which choices of a composition ever win is known only after all blocks; the rest are then filled
    in by name.
    """
    check_by_class(question.fabric, question.group)
    listed = {nominal.title: nominal}
    blocks_s: list[dict[str, Floats]] = []
    for block in _blocks(drawn):
        rows = question.rows(block.values, block.length)
        listed |= {row.title: row for row in rows}
        blocks_s.append(seconds_by_title(rows, block.length))
    for block, by_title in zip(_blocks(drawn), blocks_s, strict=True):
        missing = [row.spec for title, row in listed.items() if title not in by_title]
        if missing:
            rows = question.only(missing).rows(block.values, block.length)
            by_title.update(seconds_by_title(rows, block.length))
    totals_s = []
    for title in listed:
        parts_s = [by_title[title] for by_title in blocks_s]
        totals_s.append(np.concatenate(parts_s))
    return listed, np.stack(totals_s)


def seconds_by_title(rows: Sequence[AlgorithmEstimate], count: int) -> dict[str, Floats]:
    """Seconds of each row at ``count`` elements, by title."""
    return {row.title: np.broadcast_to(row.total_s, (count,)) for row in rows}


class _DrawnBlock(NamedTuple):
    """Some of the draws: the values of each number, ``length`` of each."""

    values: dict[Place, Floats]
    length: int


def _blocks(drawn: dict[Place, Floats]) -> Iterator[_DrawnBlock]:
    """The draws in parts that memory allows to price at once."""
    count = len(next(iter(drawn.values())))
    step = max(1, min(BLOCK, DRAWS_AT_ONCE // len(drawn)))
    for start in with_progress(range(0, count, step)):
        part = slice(start, start + step)
        # a view would keep all draws
        values = {place: drawn[place][part].copy() for place in drawn}
        yield _DrawnBlock(values, min(step, count - start))
        # a price is made of few objects in reference cycles with large arrays, which would linger
        # otherwise
        gc.collect(1)


def percentiles(values: Floats) -> tuple[float, float, float]:
    """The 5th, the 50th and the 95th percentile."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return low, middle, high
