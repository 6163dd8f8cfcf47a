"""``contention``: what a layout costs, from the load of every link when its groups run together.

- ideal: the same collective alone and packed, member i on endpoint i, in as few domains as possible; on a lattice ring
  neighbours are one hop apart on links of their own.
- slowdown = (busiest load/capacity on the resources that the group uses, all groups together) / (the same in the ideal); below
  1 where the layout is better than the packed one. eta_beta = 1/slowdown, at most 1.
- interference = the same against the group alone in the same places: what the neighbours cost.
- eta_alpha = mean α of its messages' paths / the same in the ideal, not below 1: on a lattice the ratio of hops, on levels of
  switches each level's own α.
- extra_hops = links of its longest path - the same in the ideal, not below 0.

Loads are sums over all steps, flows spread evenly over parallel uplinks, lattices route by dimension order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive
from colltool.congestion.collisions import Affected, Collisions, GroupColumns, GroupCosts, etas
from colltool.congestion.groups import GroupLayout, Layout
from colltool.congestion.jobs import JobBatch, JobDefaults, jobs_of
from colltool.congestion.loads import Baseline, Messages, baseline, clean, latency, link_models, totals
from colltool.congestion.results import Contention
from colltool.congestion.skew import Skew
from colltool.congestion.top_links import Heat
from colltool.fabric.model import Fabric
from colltool.schedules.links import SMALL, Floats, LinkModel


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
        skew: of the all-to-all groups.
        per_link: keep every loaded link, not only the hottest.

    Raises:
        ColltoolError: an algorithm that is not modelled or cannot run on a group, a skew that does not fit, sizes for some groups
            only, too many messages, a fabric of one rank.
    """
    if fabric.ranks < 2:
        raise ColltoolError(f"{fabric.name} has one rank: nothing to send", argument="fabric", fix="a fabric of at least 2")
    if primitive is not None and all(group.primitive is not None for group in layout.groups):
        fix = f"leave {given('primitive')} out, or primitive out of a group"
        raise ColltoolError("every group of the layout names what it runs", argument="primitive", fix=fix)
    asked = JobDefaults(primitive, algorithm, size, skew or Skew())
    running = jobs_of(fabric, layout, asked)
    models = link_models(fabric)
    ideals = _ideals(models, running)
    messages = _together(running)
    met, heat = Collisions(len(layout.groups)), Heat(models, _each(running, ideals, lambda one: one.busiest_s), per_link=per_link)
    for line in totals(models, messages):
        met.add(line)
        heat.add(line)
    columns = _columns(running, ideals, met, *_paths(models, messages, len(layout.groups)))
    affected = []
    for batch, one in zip(running, ideals, strict=True):
        here = slice(batch.start, batch.start + len(batch.ends))
        affected.append(Affected(batch.start, one, columns.slowdown[here], columns.together_s[here], columns.eta_alpha[here]))
    return Contention(
        overrides=fabric.overrides,
        fabric=fabric.name,
        layout=layout.name,
        unit="M" if running[0].run.size is None else "bytes",
        groups=GroupCosts(layout.groups, [(batch.start, batch.run) for batch in running], columns, models),
        slowdown=float(columns.slowdown.max()),
        hottest=heat.hottest(),
        links=heat.every(),
        lines=heat.lines(),
        loaded=heat.loaded,
        shared=heat.shared,
        etas=etas(affected, models, layout.groups),
        notes=notes(running, layout.groups, columns.slowdown, heat, skewed=asked.skew.given),
    )


def _together(running: Sequence[JobBatch]) -> Messages:
    parts = []
    for batch in running:
        groups, there = len(batch.ends), np.flatnonzero(batch.traffic.size > 0)
        src, dst = (batch.ends[:, ends[there]].ravel() for ends in (batch.traffic.src, batch.traffic.dst))
        size = np.tile(batch.traffic.size[there] * batch.run.scale, groups)
        parts.append((src, dst, size, np.repeat(np.arange(batch.start, batch.start + groups, dtype=SMALL), len(there))))
    return Messages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ideals(models: list[LinkModel], running: Sequence[JobBatch]) -> list[Baseline]:
    known: dict[tuple[object, ...], Baseline] = {}
    for batch in running:
        if batch.key not in known:
            known[batch.key] = baseline(models, batch.traffic, batch.even * batch.run.scale)
    return [known[batch.key] for batch in running]


def _each(running: Sequence[JobBatch], ideals: Sequence[Baseline], number: Callable[[Baseline], float]) -> Floats:
    return np.repeat([number(one) for one in ideals], [len(batch.ends) for batch in running])


def _paths(models: list[LinkModel], messages: Messages, groups: int) -> tuple[Floats, Floats]:
    """For every group the mean α of its messages in seconds, without η, and the most links of any."""
    alpha, links = latency(models, messages)
    most, by = np.zeros(groups), messages.group.astype(np.intp)  # ufunc.at is fast with it
    np.maximum.at(most, by, links.astype(np.float64))
    return np.bincount(by, alpha, groups) / np.bincount(by, minlength=groups), most


def _columns(
    running: Sequence[JobBatch], ideals: Sequence[Baseline], met: Collisions, alpha_s: Floats, links: Floats
) -> GroupColumns:
    ideal_s = _each(running, ideals, lambda one: one.busiest_s)
    return GroupColumns(
        slowdown=clean(met.busiest_s / ideal_s),
        interference=clean(met.busiest_s / met.alone_s),
        extra_hops=np.maximum(0, links - _each(running, ideals, lambda one: one.links)).astype(SMALL),
        eta_alpha=np.maximum(1.0, clean(alpha_s / _each(running, ideals, lambda one: one.alpha_s))),
        tail_over_mean=clean(met.busiest_s / met.mean_s),
        ideal_s=ideal_s,
        together_s=met.busiest_s,
        busiest=(met.tier, met.line, met.resource),
    )


_ALWAYS = (
    "ideal: the same collective alone, packed in as few domains as possible, ring neighbours one hop apart on a lattice; "
    "slowdown: busiest load/capacity against the ideal's; eta_beta = 1/slowdown, at most 1",
    "neighbours: the busiest load/capacity against that of the same group in the same places alone; "
    "tail/mean: its busiest port or link over the mean of that kind",
    "eta_alpha: mean alpha of the paths against the ideal's; extra hops: links of the longest path beyond the ideal's",
)
_LINES_APART = (
    "no link carries two groups: lines along one axis have links of their own, however many groups run at once, so "
    "replicas on whole lines do not contend; they do where they interleave, or where paths turn between axes"
)
_DIFFERENT = "groups differ: a slowdown counts the busiest link's time for all of them, not only while they overlap"
_RAILS = (
    "rails: a leaf joins ports of one rail (position in the domain modulo rails). A message changes rail inside its "
    "domain where its group has the neighbour on that rail; otherwise it climbs to the last level"
)
_SKEW = "skew: compared with the uniform all-to-all that moves as many bytes; the diagonal stays at home"
_LIMITS = (
    "Static loads: no packets, queues, congestion control or adaptive routing, and steps are added up. For those use a "
    "simulator: ns-3, htsim, SST or ASTRA-sim."
)


def notes(
    batches: Sequence[JobBatch], groups: Sequence[GroupLayout], slowdowns: Floats, heat: Heat, *, skewed: bool
) -> tuple[str, ...]:
    """Remarks on this result; those that always hold come first and last."""
    out = list(_ALWAYS)
    used = [heat.models[tier] for tier in heat.tiers]
    lattice = any(one.hop_alpha_s is not None for one in used)
    rings = all(batch.run.algorithm == "ring" for batch in batches)
    if lattice and rings and len(groups) > 1 and not heat.shared and float(slowdowns.max()) == 1:
        out.append(_LINES_APART)
    if float(slowdowns.min()) < 1 - 1e-9:
        best, share = groups[int(slowdowns.argmin())].name, f"{float(slowdowns.min()):.4g} of its load"
        out.append(f"better than the packed ideal that price assumes: group '{best}', {share}")
    if len({(batch.run.primitive, batch.run.size, batch.ends.shape[1]) for batch in batches}) > 1:
        out.append(_DIFFERENT)
    if any(one.rails > 1 for one in used):
        out.append(_RAILS)
    if skewed:
        out.append(_SKEW)
    return (*out, _LIMITS)
