"""What each group meets on the resources that it uses, with all groups running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.congestion.groups import GroupLayout, MadeWhenSeen
from colltool.congestion.jobs import GroupJob
from colltool.congestion.loads import Baseline, ClassTotals, clean
from colltool.congestion.results import GroupCost, TierEta
from colltool.schedules.links import SMALL, Floats, Indices, LinkModel

_TIE = 1e-12


class Collisions:
    """Filled class by class; arrays of shape (groups,).

    Attributes:
        busiest_s: load/capacity of the group's busiest resource.
        alone_s: the same with the group alone in its places.
        mean_s: mean load/capacity of the resources that the group uses of that class.
        tier, line, resource: the busiest: its tier, class and number; of equal ones the first.
    """

    def __init__(self, groups: int) -> None:
        self.busiest_s, self.alone_s, self.mean_s = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        self.tier, self.line, self.resource = (np.zeros(groups, dtype=SMALL) for _ in range(3))

    def add(self, line: ClassTotals) -> None:
        groups, capacity = len(self.busiest_s), line.kind.capacity_Bps
        by = line.group.astype(np.intp)  # ufunc.at is fast with it
        np.maximum.at(self.alone_s, by, line.own / capacity)
        load = line.load[line.resource]
        most = np.zeros(groups)
        np.maximum.at(most, by, load)
        mean = np.bincount(by, load / capacity, groups) / np.maximum(np.bincount(by, minlength=groups), 1)
        busier = most / capacity > self.busiest_s * (1 + _TIE)
        self.busiest_s[busier], self.mean_s[busier] = most[busier] / capacity, mean[busier]
        self.tier[busier], self.line[busier] = line.tier, line.line
        self.resource[busier] = _first_with(most, line, load)[busier]


def _first_with(most: Floats, line: ClassTotals, load: Floats) -> Indices:
    top = np.flatnonzero(load == most[line.group])[::-1]  # in reverse, so that the first resource is written last
    first = np.zeros(len(most), dtype=SMALL)
    first[line.group[top]] = line.resource[top]
    return first


MAX_ETA_ALPHA = 1000.0  # the most that a fabric file takes


class Affected(NamedTuple):
    """Consecutive groups with one ideal; arrays of shape (groups,)."""

    start: int  # number of the first
    ideal: Baseline
    slowdown: Floats
    busiest_s: Floats
    eta_alpha: Floats


class _Worst(NamedTuple):
    """The worst coefficients of a tier so far, and the group that raised one of them last."""

    alpha: float
    beta: float | None
    group: int


def etas(suffered: Sequence[Affected], models: Sequence[LinkModel], groups: Sequence[GroupLayout]) -> tuple[TierEta, ...]:
    """The η that make the price of a packed group that of the worst group here.

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
    ordered = ((models[tier].tier, one) for tier, one in sorted(worst.items()))
    return tuple(TierEta(tier, one.alpha, one.beta, groups[one.group].name) for tier, one in ordered)


def _worse(before: _Worst, now: _Worst) -> _Worst:
    alpha = min(MAX_ETA_ALPHA, max(before.alpha, now.alpha))
    lower = now.beta is not None and (before.beta is None or now.beta < before.beta)
    return _Worst(alpha, now.beta if lower else before.beta, now.group if lower or alpha > before.alpha else before.group)


def _different(alpha: Floats, beta: Floats) -> list[int]:
    """The first group of every distinct pair of coefficients, in order; repeats can be no worse."""
    first = np.unique(np.stack([alpha, beta]), axis=1, return_index=True)[1]
    return sorted(first.tolist())


class GroupColumns(NamedTuple):
    """The columns of :class:`GroupCost`, shape (groups,) each; ``busiest`` is (tier, line, resource)."""

    slowdown: Floats
    interference: Floats
    extra_hops: Indices
    eta_alpha: Floats
    tail_over_mean: Floats
    ideal_s: Floats
    together_s: Floats
    busiest: tuple[Indices, Indices, Indices]


class GroupCosts(MadeWhenSeen[GroupCost]):
    """The groups of a layout and what they cost; ``runs`` pairs each job with the number of the first group that runs it."""

    def __init__(
        self, groups: Sequence[GroupLayout], runs: Sequence[tuple[int, GroupJob]], columns: GroupColumns, models: list[LinkModel]
    ) -> None:
        self._groups, self._columns, self._models = groups, columns, models
        self._starts, self._runs = np.array([start for start, _ in runs]), [run for _, run in runs]

    def __len__(self) -> int:
        return len(self._groups)

    def _record(self, number: int) -> GroupCost:
        group, columns = self._groups[number], self._columns
        run = self._runs[int(np.searchsorted(self._starts, number, side="right")) - 1]
        slowdown = float(columns.slowdown[number])
        tier, line, resource = (int(part[number]) for part in columns.busiest)
        sized = run.size is not None
        return GroupCost(
            name=group.name,
            ranks=len(group.endpoints),
            primitive=run.primitive,
            algorithm=run.algorithm,
            slowdown=slowdown,
            interference=float(columns.interference[number]),
            extra_hops=int(columns.extra_hops[number]),
            eta_alpha=float(columns.eta_alpha[number]),
            eta_beta=min(1.0, 1 / slowdown),
            tail_over_mean=float(columns.tail_over_mean[number]),
            busiest=self._models[tier].name(line, resource),
            bytes=run.size,
            ideal_s=float(columns.ideal_s[number]) if sized else None,
            together_s=float(columns.together_s[number]) if sized else None,
        )
