"""The cost of a layout, from the load of every link when its groups run together.

- ideal: the same collective alone and packed, member i on endpoint i, in as few domains as
  possible; on a lattice ring neighbours are one hop apart on links of their own.
- slowdown = (busiest load/capacity on the resources that the group uses, all groups together) /
  (the same in the ideal); below 1 where the layout is better than the packed one. eta_beta =
  1/slowdown, at most 1.
- interference = the same against the group alone in the same places: what the neighbours cost.
- eta_alpha = mean α of its messages' paths / the same in the ideal, not below 1: on a lattice the
  ratio of hops, on levels of switches each level's own α.
- extra_hops = links of its longest path - the same in the ideal, not below 0.

Loads are sums over all steps, flows spread evenly over parallel uplinks, lattices route by
dimension order.

:func:`contention` is the entry: groups and their traffic (:mod:`colltool.congestion.jobs`), loads
of links (:mod:`colltool.congestion.loads`), the ideal of each group (:func:`_ideals`), then costs
class by class (:class:`_GroupPeaks`). :func:`etas` puts them into numbers of a fabric file;
:mod:`colltool.congestion.layout_notes` has the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.congestion.baseline import Baseline, baseline
from colltool.congestion.heat import Heat, LinkClassLoad, LinkLoad
from colltool.congestion.jobs import JobBatch, JobDefaults, jobs_of
from colltool.congestion.layout_groups import GroupLayout, Layout, LazyRecords
from colltool.congestion.layout_notes import notes_of
from colltool.congestion.loads import (
    ClassTotals,
    SendingGroups,
    all_messages,
    latency,
    link_models,
    totals,
)
from colltool.congestion.rounding import to_ten_digits
from colltool.congestion.skew import Skew
from colltool.fabric.model import Fabric
from colltool.network.arrays import Floats
from colltool.network.links import SMALL, LinkModel

# A resource is busier than another only by more than this share: the rounding of sums.
_TIE = 1e-12
# The largest eta.alpha that a fabric file accepts.
MAX_ETA_ALPHA = 1000.0


class GroupCost(NamedTuple):
    """What a group of a layout costs while all groups run."""

    name: str
    ranks: int
    primitive: Primitive
    algorithm: str
    slowdown: float  # against the packed ideal
    interference: float  # against itself alone in the same places
    extra_hops: int
    eta_alpha: float
    eta_beta: float
    # its busiest port or link over the mean of those of that kind that it uses
    tail_over_mean: float
    busiest: str  # the name of that port, link or uplink
    bytes: float | None  # M; None without a size, as the next two
    ideal_s: float | None  # the bandwidth term at full rate, in the ideal
    together_s: float | None  # the same with all groups running


class TierEta(NamedTuple):
    """The coefficients of one tier for a fabric file."""

    tier: str
    alpha: float
    beta: float | None  # None where the tier bounds no group
    group: str  # the worst, which they are from


@dataclass(frozen=True, eq=False, repr=False)
class Contention(Result):
    """The cost of a layout."""

    subject: ClassVar[str] = "contention"
    fabric: str
    layout: str
    unit: str  # of loads: ``bytes``, or ``M`` where no size was given
    groups: Sequence[GroupCost]  # in the order of the layout
    slowdown: float  # of the worst group
    hottest: tuple[LinkLoad, ...]
    links: tuple[LinkLoad, ...]  # all that are loaded; empty unless they are asked for
    lines: tuple[LinkClassLoad, ...]
    loaded: int  # links that carry anything
    shared: int  # links that several groups load
    etas: tuple[TierEta, ...]
    notes: tuple[str, ...]  # sentences
    overrides: tuple[tuple[str, str], ...] = ()

    def as_eta(self) -> LayoutEta:
        """Its coefficients alone."""
        return LayoutEta(self.fabric, self.layout, self.etas, self.overrides)


@dataclass(frozen=True, eq=False, repr=False)
class LayoutEta(Result):
    """The coefficients of every tier under a layout, for a fabric file."""

    subject: ClassVar[str] = "contention"
    fabric: str
    layout: str
    etas: tuple[TierEta, ...]
    overrides: tuple[tuple[str, str], ...] = ()


class _GroupPeaks:
    """The busiest resource of each group, with all groups running; filled class by class.

    Arrays of shape (groups,): ``busiest_s`` is load/capacity of that resource, ``alone_s`` the same
    with the group alone in its places, ``mean_s`` the mean of the resources of that class that it
    uses. ``busiest`` of shape (groups, 3): its tier, class and number; of equal ones the first.
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self.busiest_s = np.zeros(groups)
        self.alone_s = np.zeros(groups)
        self.mean_s = np.zeros(groups)
        self.busiest = np.zeros((groups, 3), dtype=SMALL)

    def add(self, loads: ClassTotals) -> None:
        """Add a class of resources.

        Its arrays have an element for each resource and group that loads it. Where group 0 loads
        resources 3 and 4, and group 1 resource 4::

            pairs.resource  3  4  4
            group           0  0  1
            load_there      8  9  9    bytes of all groups there
            most            9  9       of each group: resource 4 is the busiest of both
        """
        capacity_Bps = loads.link_class.capacity_Bps
        group = loads.pairs.group.astype(np.intp)  # ufunc.at is fast with it
        np.maximum.at(self.alone_s, group, loads.pairs.load / capacity_Bps)
        load_there = loads.load[loads.pairs.resource]
        most = np.zeros(self.groups)
        np.maximum.at(most, group, load_there)
        most_s = most / capacity_Bps
        resources = np.maximum(np.bincount(group, minlength=self.groups), 1)
        mean_s = np.bincount(group, load_there / capacity_Bps, self.groups) / resources
        # pairs at a group's busiest resource, in reverse: of equal ones the first is written last
        top = np.flatnonzero(load_there == most[group])[::-1]
        busiest = np.zeros(self.groups, dtype=SMALL)
        busiest[group[top]] = loads.pairs.resource[top]
        busier = np.flatnonzero(most_s > self.busiest_s * (1 + _TIE))
        self.busiest_s[busier] = most_s[busier]
        self.mean_s[busier] = mean_s[busier]
        self.busiest[busier, 0] = loads.tier
        self.busiest[busier, 1] = loads.class_number
        self.busiest[busier, 2] = busiest[busier]


class GroupCosts(LazyRecords[GroupCost]):
    """The groups of a layout and what they cost.

    Args:
        columns: the numbers of all groups (:func:`_loads_and_columns`), by the fields of :class:`GroupCost`.
    """

    def __init__(
        self,
        groups: Sequence[GroupLayout],
        batches: Sequence[JobBatch],
        columns: dict[str, NDArray[Any]],
        models: list[LinkModel],
    ) -> None:
        self._groups = groups
        self._columns = columns
        self._models = models
        self._jobs = [batch.job for batch in batches]
        self._starts = np.array([batch.start for batch in batches])

    def __len__(self) -> int:
        return len(self._groups)

    def _record(self, number: int) -> GroupCost:
        """The cost of a group, from the arrays in which all groups are computed together."""
        group = self._groups[number]
        # the last batch that starts at the group or before it
        batch = int(np.searchsorted(self._starts, number, side="right")) - 1
        job = self._jobs[batch]
        values = {name: column[number].tolist() for name, column in self._columns.items()}
        tier, class_number, resource = values.pop("busiest")
        if job.size is None:
            values |= {"ideal_s": None, "together_s": None}
        return GroupCost(
            name=group.name,
            ranks=len(group.endpoints),
            primitive=job.primitive,
            algorithm=job.algorithm,
            eta_beta=min(1.0, 1 / values["slowdown"]),
            busiest=self._models[tier].name(class_number, resource),
            bytes=job.size,
            **values,
        )


def contention(
    fabric: Fabric,
    layout: Layout,
    *,
    primitive: Primitive | None = None,
    algorithm: str | None = None,
    size: float | None = None,
    skew: Skew | None = None,
    per_link: bool = False,
) -> Contention:
    """Run every group of a layout at once and compare each with its ideal.

    Args:
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        skew: of all-to-alls.
        per_link: keep every loaded link, not only the hottest.

    Raises:
        ColltoolError: a group that does not fit the fabric, an algorithm whose traffic is not known or
            that cannot run there, or too many messages to follow.
    """
    if fabric.ranks < 2:
        raise ColltoolError(
            f"{fabric.name} has one rank: nothing to send",
            argument="fabric",
            fix="a fabric of at least 2",
        )
    if primitive is not None and all(group.primitive is not None for group in layout.groups):
        fix = f"leave {argument_text('primitive')} out, or primitive out of a group"
        raise ColltoolError(
            "every group of the layout names what it runs", argument="primitive", fix=fix
        )
    defaults = JobDefaults(primitive, algorithm, size, skew or Skew())
    batches = jobs_of(fabric, layout, defaults)
    models = link_models(fabric)
    ideals = _ideals(models, batches)
    heat, columns = _loads_and_columns(models, batches, ideals, per_link=per_link)
    slowdowns = []
    for batch, ideal in zip(batches, ideals, strict=True):
        numbers = slice(batch.start, batch.start + len(batch.ends))
        slowdowns.append(
            GroupSlowdowns(
                start=batch.start,
                ideal=ideal,
                slowdown=columns["slowdown"][numbers],
                busiest_s=columns["together_s"][numbers],
                eta_alpha=columns["eta_alpha"][numbers],
            )
        )
    return Contention(
        overrides=fabric.overrides,
        fabric=fabric.name,
        layout=layout.name,
        unit="M" if batches[0].job.size is None else "bytes",
        groups=GroupCosts(layout.groups, batches, columns, models),
        slowdown=float(columns["slowdown"].max()),
        hottest=heat.hottest(),
        links=heat.every(),
        lines=heat.lines(),
        loaded=heat.loaded,
        shared=heat.shared,
        etas=etas(slowdowns, models, layout.groups),
        notes=notes_of(
            models, batches, layout.groups, columns["slowdown"], heat, skewed=defaults.skew.is_set
        ),
    )


def _ideals(models: list[LinkModel], batches: Sequence[JobBatch]) -> list[Baseline]:
    """The ideal of each batch, in their order; worked out once for batches of one ``key``."""
    ideal_by_key: dict[tuple[object, ...], Baseline] = {}
    for batch in batches:
        if batch.key not in ideal_by_key:
            ideal_by_key[batch.key] = baseline(
                models, batch.traffic, batch.uniform * batch.job.scale
            )
    return [ideal_by_key[batch.key] for batch in batches]


def _loads_and_columns(
    models: list[LinkModel],
    batches: Sequence[JobBatch],
    ideals: Sequence[Baseline],
    *,
    per_link: bool,
) -> tuple[Heat, dict[str, NDArray[Any]]]:
    """The load of the links, and the numbers of every :class:`GroupCost` by its field, shape (groups,)
    each. ``busiest`` is (groups, 3), the tier, class and number of a resource. ``ideal_s`` and
    ``together_s`` are there without a size too, then for an M of 1 byte."""
    counts = [len(batch.ends) for batch in batches]
    groups = sum(counts)
    ideal_s = np.repeat([ideal.busiest_s for ideal in ideals], counts)
    ideal_alpha_s = np.repeat([ideal.alpha_s for ideal in ideals], counts)
    ideal_links = np.repeat([ideal.links for ideal in ideals], counts)
    messages = all_messages(map(_sending_groups, batches))
    peaks = _GroupPeaks(groups)
    heat = Heat(models, ideal_s, per_link=per_link)
    for loads in totals(models, messages):
        peaks.add(loads)
        heat.add(loads)
    alpha_s, links = latency(models, messages)
    group = messages.group.astype(np.intp)
    longest = np.zeros(groups)
    np.maximum.at(longest, group, links.astype(np.float64))
    mean_alpha_s = np.bincount(group, alpha_s, groups) / np.bincount(group, minlength=groups)
    return heat, {
        "slowdown": to_ten_digits(peaks.busiest_s / ideal_s),
        "interference": to_ten_digits(peaks.busiest_s / peaks.alone_s),
        "extra_hops": np.maximum(0, longest - ideal_links).astype(SMALL),
        "eta_alpha": np.maximum(1.0, to_ten_digits(mean_alpha_s / ideal_alpha_s)),
        "tail_over_mean": to_ten_digits(peaks.busiest_s / peaks.mean_s),
        "ideal_s": ideal_s,
        "together_s": peaks.busiest_s,
        "busiest": peaks.busiest,
    }


def _sending_groups(batch: JobBatch) -> SendingGroups:
    """A batch as the loads take it: bytes of M, or 1 where no size is given."""
    groups = len(batch.ends)
    numbers = np.arange(batch.start, batch.start + groups, dtype=SMALL)
    return SendingGroups(batch.ends, batch.traffic, np.full(groups, batch.job.scale), numbers)


class GroupSlowdowns(NamedTuple):
    """Consecutive groups with one ideal; arrays of shape (groups,)."""

    start: int  # number of the first
    ideal: Baseline
    slowdown: Floats
    busiest_s: Floats
    eta_alpha: Floats


def etas(
    slowdowns: Sequence[GroupSlowdowns], models: Sequence[LinkModel], groups: Sequence[GroupLayout]
) -> tuple[TierEta, ...]:
    """The η that make the price of a packed group that of the worst group here.

    α goes to every tier that the ideal spans, β to the one that bounds it. A price takes min(η_β,
    share of the uplinks), so where uplinks bound the ideal already, β is the share of one port that
    survives both: a cautious one for its other traffic. Where a port takes 2 s and an uplink 4 s in the
    ideal, and the busiest link here 8 s, β is 2/8.
    """
    worst: dict[int, TierEta] = {}  # by the number of the tier
    for of_batch in slowdowns:
        ideal = of_batch.ideal
        surviving_share = np.minimum(1.0, to_ten_digits(ideal.endpoint_s / of_batch.busiest_s))
        beta = np.where(of_batch.slowdown > 1, surviving_share, 1.0)
        # Groups with the numbers of an earlier one can be no worse.
        numbers = np.stack([of_batch.eta_alpha, beta])
        _, different = np.unique(numbers, axis=1, return_index=True)
        for number in sorted(different.tolist()):
            name = groups[of_batch.start + number].name
            alpha = float(of_batch.eta_alpha[number])
            for tier in ideal.tiers:
                eta = worst.get(tier) or TierEta(models[tier].tier, 1.0, beta=None, group=name)
                # None: another tier bounds the group
                tier_beta = float(beta[number]) if tier == ideal.tier else None
                worst[tier] = _worse_eta(eta, alpha, tier_beta, name)
    return tuple(eta for _, eta in sorted(worst.items()))


def _worse_eta(eta: TierEta, alpha: float, beta: float | None, group: str) -> TierEta:
    """The worse of both; named is the group that worsened one of them last."""
    alpha = min(MAX_ETA_ALPHA, max(eta.alpha, alpha))
    if beta is not None and (eta.beta is None or beta < eta.beta):
        return TierEta(eta.tier, alpha, beta, group)
    if alpha > eta.alpha:
        return eta._replace(alpha=alpha, group=group)
    return eta
