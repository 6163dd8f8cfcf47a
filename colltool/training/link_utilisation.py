"""The busiest link of each kind under a whole job: every group of every dimension at once.

A call sends what its priced schedule (the one that ``verify`` runs) sends, summed over a step. A link's seconds are its bytes
at full rate: no contention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.primitives import A2A, P2P
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import flat_group, place, tier_group
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import PricedSchedule, in_strides
from colltool.training.layout import RankGroup, strides
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import TrainingStep

if TYPE_CHECKING:
    from colltool.congestion.top_links import BusyLink, Flow
    from colltool.congestion.traffic import Traffic

Ranks = tuple[int, ...]


class JobLink(NamedTuple):
    """The busiest link of a kind, such as ``ib leaf 0 uplinks``, under all that a job sends."""

    tier: str
    kind: str
    link: str
    bytes: float  # in a step
    rate_Bps: float  # without contention
    busy_s: float
    share: float  # of the step
    over_mean: float  # its bytes over the mean of its kind, of links that carry any
    by: tuple[tuple[str, float], ...]  # (dimension, bytes), the largest first


class JobLinks(NamedTuple):
    """Innermost tier first; ``notes`` say what is not counted."""

    links: tuple[JobLink, ...]
    notes: tuple[str, ...]


class _Load(NamedTuple):
    dimension: str
    ran: PricedSchedule
    border: str
    groups: dict[Ranks, float]


def links_of(config: ParallelConfig, fabric: Fabric, step: TrainingStep, readings: Readings | None = None) -> JobLinks:
    """The busiest links of a priced step; ColltoolError where a full mesh has too many links to follow."""
    from colltool.congestion.top_links import Flow, busiest_links  # loads numpy, which a plan does without
    from colltool.congestion.traffic import MOST_MESSAGES
    from colltool.congestion.traffic_from_schedule import Unscheduled

    reading = readings or Readings()
    names: dict[str, int] = {}
    flows: list[Flow] = []
    missed: dict[str, list[str]] = defaultdict(list)
    for load in _loads(config, step):
        by = names.setdefault(load.dimension, len(names))
        try:
            traffic = _traffic(load, fabric, reading)
        except Unscheduled as error:
            missed[str(error)].append(load.dimension)
            continue
        if len(traffic.src) * len(load.groups) > MOST_MESSAGES:
            missed[f"{load.ran.choice.spec} on {load.ran.ranks} ranks sends too many messages to follow"].append(load.dimension)
            continue
        flows.append(Flow(traffic, list(load.groups), list(load.groups.values()), by))
    found = busiest_links(fabric, flows) if flows else ()
    spoken = list(names)
    links = tuple(_named(one, spoken, step.step_s) for one in found)
    return JobLinks(links, tuple(_notes(step, missed)))


def _named(one: BusyLink, names: Sequence[str], step_s: float) -> JobLink:
    return JobLink(
        tier=one.tier,
        kind=one.kind,
        link=one.link,
        bytes=one.bytes,
        rate_Bps=one.rate_Bps,
        busy_s=one.busy_s,
        share=one.busy_s / step_s if step_s else 0.0,
        over_mean=one.over_mean,
        by=tuple((names[number], size) for number, size in one.by),
    )


def _notes(step: TrainingStep, missed: dict[str, list[str]]) -> Iterator[str]:
    for reason, dimensions in missed.items():
        yield f"not counted, {', '.join(dict.fromkeys(dimensions))}: {reason}"
    sent = [one for stage in step.stages for one in stage.sent]
    timed = dict.fromkeys(one.call.dimension for one in sent if not one.cost.ran)
    if timed:
        yield f"not counted, {', '.join(timed)}: their time is given, so their links are unknown"
    skewed = dict.fromkeys(one.call.dimension for one in sent if one.call.primitive is A2A and one.call.skew != 1)
    if skewed:
        yield f"{', '.join(skewed)}: counted evenly; the step time has the busiest rank's load"


def _loads(config: ParallelConfig, step: TrainingStep) -> list[_Load]:
    found: dict[tuple[object, ...], _Load] = {}
    seats = _JobGroups(config, len(step.stages))
    for stage, sends in enumerate(step.stages):
        for one in sends.sent:
            border = _border(one)
            for ran in one.cost.ran:
                key = (one.call.dimension, one.call.group, ran._replace(bytes=0.0), border)
                load = found.setdefault(key, _Load(one.call.dimension, ran, border, {}))
                for group, calls in seats.senders(one, ran, stage, border):
                    load.groups[group] = load.groups.get(group, 0.0) + ran.bytes * calls
    return [load for load in found.values() if any(load.groups.values())]


def _border(one: PricedCall) -> str:
    """``ring``, ``next`` or ``previous`` of a point-to-point; empty for a collective."""
    if one.call.primitive is not P2P:
        return ""
    if one.call.dimension != "pp":
        return "ring"
    return "previous" if one.call.phase == "backward" else "next"


class _JobGroups:
    def __init__(self, config: ParallelConfig, stages: int) -> None:
        layout = config.layout
        self.ranks, self.virtual, self.pp = layout.ranks, layout.virtual, layout.pp
        self.stages = stages
        self.stride = strides(layout.dense_sizes, layout.order)["pp"]
        self._kept: dict[tuple[RankGroup, int], tuple[Ranks, ...]] = {}

    def stage_of(self, rank: int) -> int:
        """The pipeline stage of a rank; 0 where the job has no stages."""
        return rank // self.stride % self.pp if self.stages > 1 else 0

    def senders(self, one: PricedCall, ran: PricedSchedule, stage: int, border: str) -> Iterator[tuple[Ranks, float]]:
        """The groups that a stage's call runs on, each with how often a step it sends."""
        calls = one.call.calls
        if border in ("next", "previous"):
            yield from self._over_border(one.call.group, calls, stage, 1 if border == "next" else -1)
            return
        group = one.call.group if len(one.call.group.axes) == 1 or border else RankGroup(((ran.ranks, ran.stride),))
        for members in self._groups(group, stage):
            yield members, calls

    def _over_border(self, pipeline: RankGroup, calls: float, stage: int, way: int) -> Iterator[tuple[Ranks, float]]:
        """Messages of a stage to its neighbour; virtual stages also wrap round, except for the last chunk."""
        senders = range(pipeline.ranks) if self.stages == 1 else [stage]
        for members in self._groups(pipeline, 0):
            for at in senders:
                beyond = not 0 <= at + way < len(members)
                often = calls * (self.virtual - 1) / self.virtual if beyond else calls
                if often:
                    yield (members[at], members[(at + way) % len(members)]), often

    def _groups(self, group: RankGroup, stage: int) -> tuple[Ranks, ...]:
        """Groups of a shape whose first rank is on a stage, none twice; those over several stages count for stage 0."""
        key = (group, stage)
        if key not in self._kept:
            offsets, taken, found = group.members, set[int](), []
            spoken_for = stage and any(self.stage_of(member) for member in offsets)
            for rank in range(0 if spoken_for else self.ranks - offsets[-1]):
                if rank not in taken and self.stage_of(rank) == stage:
                    found.append(tuple(rank + offset for offset in offsets))
                    taken.update(found[-1])
            self._kept[key] = tuple(found)
        return self._kept[key]


def _traffic(load: _Load, fabric: Fabric, readings: Readings) -> Traffic:
    from colltool.congestion.traffic import Members, traffic
    from colltool.congestion.traffic_from_schedule import neighbours, traffic_from_schedule

    ran = load.ran
    if load.border == "ring":
        return neighbours(len(next(iter(load.groups))), 1.0)
    if load.border:
        return traffic(P2P, "send", Members(2))
    placed = place(in_strides(fabric, ran.stride), GroupSpec(ran.ranks, ran.stride, in_order=True))
    spans = enumerate(placed.spans)
    groups = [tier_group(span, readings, scale_out=number > 0 or placed.one_a_node)[0] for number, span in spans]
    return traffic_from_schedule(ran.primitive, ran.choice, groups, flat_group(placed, readings)[0])
