"""``contention``: what a layout costs, from the load of every link when its groups run together.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.congestion.jobs import (
    GroupJob,
    GroupLayout,
    JobBatch,
    JobDefaults,
    Layout,
    MadeWhenSeen,
    jobs_of,
)
from colltool.congestion.loads import (
    Baseline,
    ClassTotals,
    Heat,
    LinkClassLoad,
    LinkLoad,
    baseline,
    between,
    clean,
    latency,
    link_models,
    totals,
)
from colltool.congestion.skew import Skew
from colltool.fabric.model import Fabric
from colltool.network.arrays import Floats
from colltool.network.links import SMALL, LinkModel

_TIE = 1e-12
MAX_ETA_ALPHA = 1000.0  # the most that a fabric file takes


class GroupCost(NamedTuple):
    """One group among all. Seconds are those of the bandwidth term at full rate; None without a
    size."""

    name: str
    ranks: int
    primitive: Primitive
    algorithm: str
    slowdown: float  # against the packed ideal
    interference: float  # against itself in the same places with nobody else there
    extra_hops: int
    eta_alpha: float
    eta_beta: float
    # its busiest port or link over the mean of those of that kind that it uses
    tail_over_mean: float
    busiest: str
    bytes: float | None
    ideal_s: float | None
    together_s: float | None


class TierEta(NamedTuple):
    """The coefficients of one tier for a fabric file, from the worst group; β is None where the
    tier bounds no group."""

    tier: str
    alpha: float
    beta: float | None
    group: str


@dataclass(frozen=True, eq=False, repr=False)
class Contention(Result):
    """What a layout costs. ``unit`` of loads: ``bytes``, or ``M`` where no size was given."""

    subject: ClassVar[str] = "contention"
    fabric: str
    layout: str
    unit: str
    groups: Sequence[GroupCost]
    slowdown: float
    hottest: tuple[LinkLoad, ...]
    links: tuple[LinkLoad, ...]
    lines: tuple[LinkClassLoad, ...]
    loaded: int
    shared: int
    etas: tuple[TierEta, ...]
    notes: tuple[str, ...]
    overrides: tuple[tuple[str, str], ...] = ()

    def as_eta(self) -> LayoutEta:
        return LayoutEta(self.fabric, self.layout, self.etas, self.overrides)


@dataclass(frozen=True, eq=False, repr=False)
class LayoutEta(Result):
    """The coefficients of every tier under a layout, for a fabric file."""

    subject: ClassVar[str] = "contention"
    fabric: str
    layout: str
    etas: tuple[TierEta, ...]
    overrides: tuple[tuple[str, str], ...] = ()


class _Collisions:
    """What each group meets on the resources that it uses, with all groups running; filled class by
    class.

    ``busiest_s``: load/capacity of its busiest resource, ``alone_s`` the same with the group alone
    in its places, ``mean_s`` the mean of the resources of that class that it uses; ``busiest``:
    tier, class and number of that one, of equal ones the first.
    """

    def __init__(self, groups: int) -> None:
        self.busiest_s, self.alone_s, self.mean_s = np.zeros((3, groups))
        self.busiest = np.zeros((groups, 3), dtype=SMALL)

    def add(self, line: ClassTotals) -> None:
        groups, capacity = len(self.busiest_s), line.kind.capacity_Bps
        by = line.group.astype(np.intp)  # ufunc.at is fast with it
        np.maximum.at(self.alone_s, by, line.own / capacity)
        load, most, first = (
            line.load[line.resource],
            np.zeros(groups),
            np.zeros(groups, dtype=SMALL),
        )
        np.maximum.at(most, by, load)
        mean = np.bincount(by, load / capacity, groups) / np.maximum(
            np.bincount(by, minlength=groups), 1
        )
        # in reverse, so that the first resource is written last
        top = np.flatnonzero(load == most[by])[::-1]
        first[by[top]] = line.resource[top]
        busier = most / capacity > self.busiest_s * (1 + _TIE)
        self.busiest_s[busier], self.mean_s[busier] = most[busier] / capacity, mean[busier]
        self.busiest[busier] = np.stack(
            [np.full(groups, line.tier), np.full(groups, line.line), first], axis=1
        )[busier]


class GroupCosts(MadeWhenSeen[GroupCost]):
    """The groups of a layout and what they cost; ``runs`` pairs each job with the number of the
    first group that runs it."""

    def __init__(
        self,
        groups: Sequence[GroupLayout],
        runs: Sequence[tuple[int, GroupJob]],
        columns: dict[str, NDArray[Any]],
        models: list[LinkModel],
    ) -> None:
        self._groups, self._columns, self._models = groups, columns, models
        self._starts, self._runs = np.array([start for start, _ in runs]), [run for _, run in runs]

    def __len__(self) -> int:
        return len(self._groups)

    def _record(self, number: int) -> GroupCost:
        group, run = (
            self._groups[number],
            self._runs[int(np.searchsorted(self._starts, number, side="right")) - 1],
        )
        own = {name: column[number].tolist() for name, column in self._columns.items()}
        tier, line, resource = own.pop("busiest")
        if run.size is None:
            own |= {"ideal_s": None, "together_s": None}
        return GroupCost(
            name=group.name,
            ranks=len(group.endpoints),
            primitive=run.primitive,
            algorithm=run.algorithm,
            eta_beta=min(1.0, 1 / own["slowdown"]),
            busiest=self._models[tier].name(line, resource),
            bytes=run.size,
            **own,
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

    ``primitive``, ``algorithm``, ``size`` (bytes per rank) are for groups that do not give their
    own, ``skew`` for all-to-alls; ``per_link`` keeps every loaded link, not only the hottest.
    """
    if fabric.ranks < 2:
        raise ColltoolError(
            f"{fabric.name} has one rank: nothing to send",
            argument="fabric",
            fix="a fabric of at least 2",
        )
    if primitive is not None and all(group.primitive is not None for group in layout.groups):
        fix = f"leave {given('primitive')} out, or primitive out of a group"
        raise ColltoolError(
            "every group of the layout names what it runs", argument="primitive", fix=fix
        )
    asked = JobDefaults(primitive, algorithm, size, skew or Skew())
    running, models, known = (
        jobs_of(fabric, layout, asked),
        link_models(fabric),
        dict[tuple[object, ...], Baseline](),
    )
    for batch in running:
        if batch.key not in known:
            known[batch.key] = baseline(models, batch.traffic, batch.even * batch.run.scale)
    heat, columns = _columns(
        models, running, [known[batch.key] for batch in running], per_link=per_link
    )
    suffered = []
    for batch in running:
        here = slice(batch.start, batch.start + len(batch.ends))
        suffering = (columns[name][here] for name in ("slowdown", "together_s", "eta_alpha"))
        suffered.append(Affected(batch.start, known[batch.key], *suffering))
    return Contention(
        overrides=fabric.overrides,
        fabric=fabric.name,
        layout=layout.name,
        unit="M" if running[0].run.size is None else "bytes",
        groups=GroupCosts(
            layout.groups, [(batch.start, batch.run) for batch in running], columns, models
        ),
        slowdown=float(columns["slowdown"].max()),
        hottest=heat.hottest(),
        links=heat.every(),
        lines=heat.lines(),
        loaded=heat.loaded,
        shared=heat.shared,
        etas=etas(suffered, models, layout.groups),
        notes=_notes(running, layout.groups, columns["slowdown"], heat, skewed=asked.skew.given),
    )


def _columns(
    models: list[LinkModel],
    running: Sequence[JobBatch],
    ideals: Sequence[Baseline],
    *,
    per_link: bool,
) -> tuple[Heat, dict[str, NDArray[Any]]]:
    """The load of the links, and the numbers of every :class:`GroupCost`, shape (groups,) each;
    ``busiest`` (groups, 3)."""
    counts = [len(batch.ends) for batch in running]
    groups = sum(counts)
    ideal_s, ideal_alpha_s, ideal_links = (
        np.repeat(column, counts)
        for column in zip(*((one.busiest_s, one.alpha_s, one.links) for one in ideals), strict=True)
    )
    messages = between(
        (
            batch.ends,
            batch.traffic,
            np.full(count, batch.run.scale),
            np.arange(batch.start, batch.start + count, dtype=SMALL),
        )
        for batch, count in zip(running, counts, strict=True)
    )
    met, heat = _Collisions(groups), Heat(models, ideal_s, per_link=per_link)
    for line in totals(models, messages):
        met.add(line)
        heat.add(line)
    (alpha, links), most, by = (
        latency(models, messages),
        np.zeros(groups),
        messages.group.astype(np.intp),
    )
    np.maximum.at(most, by, links.astype(np.float64))
    alpha_s = np.bincount(by, alpha, groups) / np.bincount(by, minlength=groups)
    return heat, {
        "slowdown": clean(met.busiest_s / ideal_s),
        "interference": clean(met.busiest_s / met.alone_s),
        "extra_hops": np.maximum(0, most - ideal_links).astype(SMALL),
        "eta_alpha": np.maximum(1.0, clean(alpha_s / ideal_alpha_s)),
        "tail_over_mean": clean(met.busiest_s / met.mean_s),
        "ideal_s": ideal_s,
        "together_s": met.busiest_s,
        "busiest": met.busiest,
    }


class Affected(NamedTuple):
    """Consecutive groups with one ideal; arrays of shape (groups,)."""

    start: int  # number of the first
    ideal: Baseline
    slowdown: Floats
    busiest_s: Floats
    eta_alpha: Floats


def etas(
    suffered: Sequence[Affected], models: Sequence[LinkModel], groups: Sequence[GroupLayout]
) -> tuple[TierEta, ...]:
    """The η that make the price of a packed group that of the worst group here.

    α goes to every tier that the ideal spans, β to the one that bounds it. A price takes min(η_β,
    share of the uplinks), so where uplinks bound the ideal already, β is the share of one port that
    survives both: a cautious one for its other traffic.
    """
    # of each tier, and the group that raised one of them last
    worst: dict[int, tuple[float, float | None, int]] = {}
    for some in suffered:
        beta = np.where(
            some.slowdown > 1, np.minimum(1.0, clean(some.ideal.endpoint_s / some.busiest_s)), 1.0
        )
        # repeats can be no worse
        different = np.unique(np.stack([some.eta_alpha, beta]), axis=1, return_index=True)[1]
        for number, tier in product(sorted(different.tolist()), some.ideal.tiers):
            most, least, group = worst.get(tier, (1.0, None, some.start + number))
            alpha = min(MAX_ETA_ALPHA, max(most, float(some.eta_alpha[number])))
            own = float(beta[number]) if tier == some.ideal.tier else None
            lower = own is not None and (least is None or own < least)
            worst[tier] = (
                alpha,
                own if lower else least,
                some.start + number if lower or alpha > most else group,
            )
    return tuple(
        TierEta(models[tier].tier, a, b, groups[group].name)
        for tier, (a, b, group) in sorted(worst.items())
    )


_ALWAYS = (
    (
        "ideal: the same collective alone, packed in as few domains as possible, ring neighbours"
        " one hop apart on a lattice; slowdown: busiest load/capacity against the ideal's; eta_beta"
        " = 1/slowdown, at most 1"
    ),
    (
        "neighbours: the busiest load/capacity against that of the same group in the same places"
        " alone; tail/mean: its busiest port or link over the mean of that kind"
    ),
    (
        "eta_alpha: mean alpha of the paths against the ideal's; extra hops: links of the longest"
        " path beyond the ideal's"
    ),
)
_LINES_APART = (
    "no link carries two groups: lines along one axis have links of their own, however many groups"
    " run at once, so replicas on whole lines do not contend; they do where they interleave, or"
    " where paths turn between axes"
)
_DIFFERENT = (
    "groups differ: a slowdown counts the busiest link's time for all of them, not only while they"
    " overlap"
)
_RAILS = (
    "rails: a leaf joins ports of one rail (position in the domain modulo rails). A message changes"
    " rail inside its domain where its group has the neighbour on that rail; otherwise it climbs to"
    " the last level"
)
_SKEW = (
    "skew: compared with the uniform all-to-all that moves as many bytes; the diagonal stays at"
    " home"
)
_LIMITS = (
    "Static loads: no packets, queues, congestion control or adaptive routing, and steps are added"
    " up. For those use a simulator: ns-3, htsim, SST or ASTRA-sim."
)


def _notes(
    batches: Sequence[JobBatch],
    groups: Sequence[GroupLayout],
    slowdowns: Floats,
    heat: Heat,
    *,
    skewed: bool,
) -> tuple[str, ...]:
    """Remarks on this result; those that always hold come first and last."""
    out = list(_ALWAYS)
    used = [heat.models[tier] for tier in heat.tiers]
    lattice = any(one.hop_alpha_s is not None for one in used)
    rings = all(batch.run.algorithm == "ring" for batch in batches)
    if lattice and rings and len(groups) > 1 and not heat.shared and float(slowdowns.max()) == 1:
        out.append(_LINES_APART)
    if float(slowdowns.min()) < 1 - 1e-9:
        best, share = (
            groups[int(slowdowns.argmin())].name,
            f"{float(slowdowns.min()):.4g} of its load",
        )
        out.append(f"better than the packed ideal that price assumes: group '{best}', {share}")
    if len({(batch.run.primitive, batch.run.size, batch.ends.shape[1]) for batch in batches}) > 1:
        out.append(_DIFFERENT)
    if any(one.rails > 1 for one in used):
        out.append(_RAILS)
    if skewed:
        out.append(_SKEW)
    return (*out, _LIMITS)
