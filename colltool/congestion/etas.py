"""The contention coefficients of a layout, for a fabric file."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.congestion.arrays import Floats, clean
from colltool.congestion.groups import GroupLayout
from colltool.congestion.ideal import Ideal
from colltool.congestion.links import Wires
from colltool.congestion.results import TierEta

MAX_ETA_ALPHA = 1000.0  # what a fabric file takes


class Suffered(NamedTuple):
    """Groups that follow each other and have one ideal.

    Args:
        start: the number of the first.
        ideal: of each.
        slowdown, busiest_s, eta_alpha: of each, shape (groups,).
    """

    start: int
    ideal: Ideal
    slowdown: Floats
    busiest_s: Floats
    eta_alpha: Floats


class _Worst(NamedTuple):
    """Of one tier so far: the coefficients, and the number of the group that gave the last of them."""

    alpha: float
    beta: float | None
    group: int


def etas(suffered: Sequence[Suffered], wires: Sequence[Wires], groups: Sequence[GroupLayout]) -> tuple[TierEta, ...]:
    """What makes a price of a packed group that of the worst group here.

    α goes to every tier that the ideal spans, β to the one that bounds it. A price takes min(η_β, share of the uplinks), so
    where uplinks bound the ideal already, β is the share of one port that survives both: a cautious one for its other traffic.
    """
    worst: dict[int, _Worst] = {}
    for some in suffered:
        beta = np.where(some.slowdown > 1, np.minimum(1.0, clean(some.ideal.endpoint_s / some.busiest_s)), 1.0)
        for number in _different(some.eta_alpha, beta):
            for tier in some.ideal.tiers:
                before = worst.get(tier, _Worst(1.0, None, some.start + number))
                own_beta = float(beta[number]) if tier == some.ideal.tier else None
                worst[tier] = _worse(before, _Worst(float(some.eta_alpha[number]), own_beta, some.start + number))
    ordered = ((wires[tier].tier.name, one) for tier, one in sorted(worst.items()))
    return tuple(TierEta(tier, one.alpha, one.beta, groups[one.group].name) for tier, one in ordered)


def _worse(before: _Worst, now: _Worst) -> _Worst:
    """The larger α and the smaller β of two groups."""
    alpha = min(MAX_ETA_ALPHA, max(before.alpha, now.alpha))
    lower = now.beta is not None and (before.beta is None or now.beta < before.beta)
    return _Worst(alpha, now.beta if lower else before.beta, now.group if lower or alpha > before.alpha else before.group)


def _different(alpha: Floats, beta: Floats) -> list[int]:
    """The first of each pair of coefficients, in the order of the groups: the others can be no worse."""
    first = np.unique(np.stack([alpha, beta]), axis=1, return_index=True)[1]
    return sorted(first.tolist())
