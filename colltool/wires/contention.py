"""``contention``: what a layout costs, by the loads of every link when its groups run together.

- A group's ideal is the same collective alone, packed: member i on endpoint i, in as few domains as possible. On a lattice ring
  neighbours are one hop apart on links of their own.
- slowdown = (busiest load/capacity on the resources that the group uses, all groups together) / (the same in the ideal); below
  1 where the layout is better than the packed one. eta_beta = 1/slowdown, at most 1.
- interference = the same against the group alone in the same places: what the neighbours cost.
- eta_alpha = mean α of the paths of its messages / the same in the ideal, not below 1: on a lattice the ratio of hops, on
  levels of switches each level's own α.
- extra_hops = links of its longest path - the same in the ideal, not below 0.

Loads are sums over all steps, flows spread evenly over parallel uplinks, lattices route by dimension order.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.fabric.topology import kind_of
from colltool.primitives import A2A, AR, Primitive
from colltool.schedules.step import Indices
from colltool.wires.hottest import busiest_names, line_loads, link_loads
from colltool.wires.layout import GroupLayout, Layout
from colltool.wires.links import Wires, wires_of
from colltool.wires.loads import Ideal, LineTotals, Messages, ideal, met, totals
from colltool.wires.results import Contention, GroupCost, TierEta
from colltool.wires.traffic import (
    DEFAULT,
    MOST_MESSAGES,
    Floats,
    Members,
    Skew,
    Traffic,
    mean_bytes,
    messages_of,
    skewed,
    traffic,
)

MAX_ETA_ALPHA = 1000.0  # what a fabric file takes

LIMITS = (
    "Static loads: no packets, queues, congestion control or adaptive routing, and steps are added up. For those turn to a "
    "simulator: ns-3, htsim, SST or ASTRA-sim."
)


class _Running(NamedTuple):
    """A group with its traffic; ``even`` are the sizes of the uniform traffic to compare with."""

    group: GroupLayout
    primitive: Primitive
    algorithm: str
    size: float | None
    traffic: Traffic
    even: Floats
    key: tuple[object, ...]

    @property
    def scale(self) -> float:
        return 1.0 if self.size is None else self.size


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
        fabric, layout: where, and who.
        primitive, algorithm, size: for groups that do not give their own; size in bytes per rank.
        skew: of the all-to-all groups.
        per_link: keep every loaded link, not only the hottest.

    Raises:
        ColltoolError: an algorithm that is not modelled or cannot run on a group, a skew that does not fit, sizes for some groups
            only, too many messages.
    """
    skew = skew or Skew()
    running = _running(fabric, layout, (primitive, algorithm, size), skew)
    wires = wires_of(fabric)
    messages = _together(running)
    lines = totals(wires, messages, len(running))
    found = met(wires, messages, lines, len(running))
    ideals = _ideals(wires, running)
    alone_s = np.array([one.busiest_s for one in ideals])
    slowdowns = np.array([_clean(one) for one in found.busiest_s / alone_s])
    alphas = np.array([max(1.0, _clean(now / one.alpha_s)) for now, one in zip(found.alpha_s, ideals, strict=True)])
    names = busiest_names(wires, lines, found.at)
    sized = running[0].size is not None
    groups = []
    for number, (one_run, alone) in enumerate(zip(running, ideals, strict=True)):
        slowdown = float(slowdowns[number])
        extra = max(0, int(found.links[number]) - alone.links)
        tail = _clean(found.busiest_s[number] / found.mean_s[number])
        times = (float(alone.busiest_s), float(found.busiest_s[number])) if sized else (None, None)
        neighbours = _clean(found.busiest_s[number] / found.alone_s[number])
        eta_beta = min(1.0, 1 / slowdown)
        groups.append(
            GroupCost(
                one_run.group.name, len(one_run.group.ranks), one_run.primitive, one_run.algorithm, slowdown, neighbours, extra,
                float(alphas[number]), eta_beta, tail, names[number], one_run.size, *times
            )
        )  # fmt: skip
    every, hottest = link_loads(wires, lines, alone_s, per_link)
    return Contention(
        fabric.name,
        layout.name,
        "bytes" if sized else "M",
        tuple(groups),
        float(slowdowns.max()),
        hottest,
        every,
        line_loads(wires, lines),
        sum(int(np.count_nonzero(line.users)) for line in lines),
        sum(int(np.count_nonzero(line.users > 1)) for line in lines),
        _etas(wires, running, ideals, slowdowns, found.busiest_s, alphas),
        _notes(wires, running, lines, slowdowns, skew),
    )


def _running(
    fabric: Fabric, layout: Layout, given: tuple[Primitive | None, str | None, float | None], skew: Skew
) -> list[_Running]:
    runs = [_run(group, given, skew) for group in layout.groups]
    if skew.given and not any(primitive is A2A for primitive, _, _ in runs):
        raise ColltoolError("a skew is of an all-to-all, and no group runs one", where="--primitive", fix="-p a2a")
    sizes = [size for _, _, size in runs]
    if any(size is None for size in sizes) and any(size is not None for size in sizes):
        late = layout.groups[sizes.index(None)]
        what = f"group '{late.name}' has no size, others have one"
        raise ColltoolError(what, where=late.where or "--size", fix="-M 16MB holds for every group that gives none")
    pairs = sum(messages_of(p, name, len(group.ranks)) for (p, name, _), group in zip(runs, layout.groups, strict=True))
    if pairs > MOST_MESSAGES:
        what = f"{pairs} messages between pairs are more than the {MOST_MESSAGES} that are followed one by one"
        raise ColltoolError(what, where="--group", fix="an all-to-all of at most 1448 ranks; smaller groups, or fewer")
    known: dict[tuple[object, ...], tuple[Traffic, Floats]] = {}
    running = []
    for group, (primitive, name, size) in zip(layout.groups, runs, strict=True):
        grid = _grid(fabric, group) if name == "dim-ring" else None
        key = (primitive, name, len(group.ranks), None if grid is None else (grid.shape, grid.tobytes()))
        if key not in known:
            known[key] = _traffic(group, primitive, name, Members(len(group.ranks), grid), skew)
        running.append(_Running(group, primitive, name, size, *known[key], (*key, size)))
    return running


Run = tuple[Primitive, str, float | None]


def _run(group: GroupLayout, given: tuple[Primitive | None, str | None, float | None], skew: Skew) -> Run:
    primitive = group.primitive or given[0] or (A2A if skew.given else AR)
    size = group.size if group.size is not None else given[2]
    if skew.matrix is not None and primitive is A2A:
        size = mean_bytes(skew)
    return primitive, group.algorithm or given[1] or DEFAULT[primitive], size


def _traffic(group: GroupLayout, primitive: Primitive, name: str, members: Members, skew: Skew) -> tuple[Traffic, Floats]:
    try:
        plain = traffic(primitive, name, members)
        if primitive is not A2A or not skew.given:
            return plain, plain.size
        if name == "bruck":
            what = "bruck passes blocks on through others and is not modelled under a skew"
            raise ColltoolError(what, where="--algorithm", fix="--algorithm pairwise")
        return skewed(skew, members.ranks)
    except ColltoolError as error:
        skewed_by_option = error.where.startswith("--") and error.where != "--algorithm"
        where = error.where if skewed_by_option else group.where or error.where or "--algorithm"
        raise ColltoolError(f"group '{group.name}': {error.what}", where=where, fix=error.fix) from error


def _grid(fabric: Fabric, group: GroupLayout) -> Indices | None:
    """The members by lattice coordinates, where they fill a sub-lattice of one domain of the innermost tier."""
    lattice, inside = kind_of(fabric.tiers[0]).axes, fabric.tiers[0].endpoints
    ends = np.array(group.endpoints)
    if not lattice or len(np.unique(ends // inside)) > 1:
        return None
    axes, here = [], ends % inside
    for axis in lattice:
        axes.append(np.unique(here % axis.size, return_inverse=True))
        here = here // axis.size
    extents = [len(values) for values, _ in axes]
    if prod(extents) != len(ends):
        return None
    grid = np.full(extents[::-1], -1, dtype=np.int64)
    grid[tuple(place for _, place in reversed(axes))] = np.arange(len(ends))
    return grid


def _together(running: Sequence[_Running]) -> Messages:
    parts = []
    for number, one_run in enumerate(running):
        ends, there = np.array(one_run.group.endpoints), np.flatnonzero(one_run.traffic.size > 0)
        src, dst = ends[one_run.traffic.src[there]], ends[one_run.traffic.dst[there]]
        parts.append((src, dst, one_run.traffic.size[there] * one_run.scale, np.full(len(there), number)))
    return Messages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ideals(wires: list[Wires], running: Sequence[_Running]) -> list[Ideal]:
    known: dict[tuple[object, ...], Ideal] = {}
    for one_run in running:
        if one_run.key not in known:
            one = one_run.traffic
            known[one_run.key] = ideal(wires, one.src, one.dst, one_run.even * one_run.scale, one.neighbours)
    return [known[one_run.key] for one_run in running]


def _etas(
    wires: list[Wires], running: Sequence[_Running], ideals: Sequence[Ideal], slowdowns: Floats, busiest_s: Floats, alphas: Floats
) -> tuple[TierEta, ...]:
    """What makes a price of a packed group that of the worst group here.

    α goes to every tier that the ideal spans, β to the one that bounds it. A price takes min(η_β, share of the uplinks), so
    where uplinks bound the ideal already, β is the share of one port that survives both: a cautious one for its other traffic.
    """
    out: dict[int, TierEta] = {}
    for one_run, alone, slowdown, busy, alpha in zip(running, ideals, slowdowns, busiest_s, alphas, strict=True):
        beta = min(1.0, _clean(alone.endpoint_s / float(busy))) if slowdown > 1 else 1.0
        for tier in alone.tiers:
            before = out.get(tier, TierEta(wires[tier].tier.name, 1.0, None, one_run.group.name))
            highest = min(MAX_ETA_ALPHA, max(before.alpha, float(alpha)))
            worse = tier == alone.tier and (before.beta is None or beta < before.beta)
            group = one_run.group.name if worse or highest > before.alpha else before.group
            out[tier] = TierEta(before.tier, highest, beta if worse else before.beta, group)
    return tuple(out[tier] for tier in sorted(out))


def _clean(value: float) -> float:
    """Without the dust of sums of many parts."""
    return float(f"{value:.10g}")


def _notes(
    wires: list[Wires], running: Sequence[_Running], lines: list[LineTotals], slowdowns: Floats, skew: Skew
) -> tuple[str, ...]:
    notes = [
        "ideal: the same collective alone, packed in as few domains as possible, ring neighbours one hop apart on a lattice; "
        "slowdown: busiest load/capacity against the ideal's; eta_beta = 1/slowdown, at most 1",
        "neighbours: the busiest load/capacity against that of the same group in the same places alone; "
        "tail/mean: its busiest port or link over the mean of that kind",
        "eta_alpha: mean alpha of the paths against the ideal's; extra hops: links of the longest path beyond the ideal's",
    ]
    used = {line.tier for line in lines}
    shared = any((line.users > 1).any() for line in lines)
    lattice = any(wires[tier].hop_alpha_s is not None for tier in used)
    rings = all(one_run.algorithm == "ring" for one_run in running)
    if lattice and rings and len(running) > 1 and not shared and float(slowdowns.max()) == 1:
        notes.append(
            "no link carries two groups: lines along one axis have links of their own, however many groups run at once, so "
            "replicas on whole lines do not contend; they do where they interleave, or where paths turn between axes"
        )
    if float(slowdowns.min()) < 1 - 1e-9:
        best = running[int(np.argmin(slowdowns))].group.name
        share = f"{float(slowdowns.min()):.4g} of its load"
        notes.append(f"better than the packed ideal, which is what price assumes: group '{best}', {share}")
    if len({(one_run.primitive, one_run.size, len(one_run.group.ranks)) for one_run in running}) > 1:
        notes.append("groups differ: a slowdown is how long the busiest link needs for all of them, not only while they overlap")
    if any(wires[tier].rails > 1 for tier in used):
        notes.append(
            "rails: a leaf joins ports of one rail (position in the domain modulo rails). A message changes rail inside its "
            "domain where its group has the neighbour on that rail; otherwise it climbs to the last level"
        )
    if skew.given:
        notes.append("skew: compared with the uniform all-to-all that moves as many bytes; the diagonal stays at home")
    return (*notes, LIMITS)
