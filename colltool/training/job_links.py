"""The busiest links of a training step: each kind's worst under all that a job sends.

Every group of every dimension counts at once: a call sends what its priced schedule (the one that
``verify`` runs) sends, summed over a step. A link's seconds are its bytes at full rate: no
contention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.primitives import A2A, P2P
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import flat_group, place, tier_group
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.training.calls import Call
from colltool.training.collective_cost import PricedSchedule, in_strides
from colltool.training.parallel_config import RankGroup, strides
from colltool.training.step_time import TrainingStep

if TYPE_CHECKING:
    from colltool.congestion.loads import Flow
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
    border: str  # ``ring``, ``next`` or ``previous`` of a point-to-point; empty for a collective
    groups: dict[Ranks, float]  # how often a step each sends


def job_links(fabric: Fabric, step: TrainingStep, readings: Readings) -> JobLinks:
    """The busiest links of a priced step; ColltoolError where a full mesh has too many links to
    follow."""
    # loads numpy, which a plan does without
    from colltool.congestion.loads import Flow, busiest_links
    from colltool.congestion.traffic import MOST_MESSAGES, Unscheduled

    names: dict[str, int] = {}
    flows: list[Flow] = []
    missed: dict[str, list[str]] = defaultdict(list)
    for load in _loads(step):
        by, ran = names.setdefault(load.dimension, len(names)), load.ran
        try:
            traffic = _traffic(load, fabric, readings)
        except Unscheduled as error:
            missed[str(error)].append(load.dimension)
            continue
        if len(traffic.src) * len(load.groups) > MOST_MESSAGES:
            missed[
                f"{ran.choice.spec} on {ran.ranks} ranks sends too many messages to follow"
            ].append(load.dimension)
            continue
        flows.append(Flow(traffic, list(load.groups), list(load.groups.values()), by))
    spoken = list(names)
    links = tuple(
        JobLink(
            **{
                key: getattr(one, key)
                for key in ("tier", "kind", "link", "bytes", "rate_Bps", "busy_s", "over_mean")
            },
            share=one.busy_s / step.step_s if step.step_s else 0.0,
            by=tuple((spoken[number], size) for number, size in one.by),
        )
        for one in (busiest_links(fabric, flows) if flows else ())
    )
    notes = [
        f"not counted, {', '.join(dict.fromkeys(dimensions))}: {reason}"
        for reason, dimensions in missed.items()
    ]
    sent = [one for stage in step.stages for one in stage.sent]
    if timed := dict.fromkeys(one.call.dimension for one in sent if not one.cost.ran):
        notes.append(
            f"not counted, {', '.join(timed)}: their time is given, so their links are unknown"
        )
    if skewed := dict.fromkeys(
        one.call.dimension for one in sent if one.call.primitive is A2A and one.call.skew != 1
    ):
        notes.append(
            f"{', '.join(skewed)}: counted evenly; the step time has the busiest rank's load"
        )
    return JobLinks(links, tuple(notes))


def _loads(step: TrainingStep) -> list[_Load]:
    found: dict[tuple[object, ...], _Load] = {}
    seats = _JobGroups(step)
    for stage, sends in enumerate(step.stages):
        for call, cost, *_ in sends.sent:
            border = ""
            if call.primitive is P2P:
                border = (
                    "ring"
                    if call.dimension != "pp"
                    else "previous"
                    if call.phase == "backward"
                    else "next"
                )
            for ran in cost.ran:
                key = (call.dimension, call.group, ran._replace(bytes=0.0), border)
                load = found.setdefault(key, _Load(call.dimension, ran, border, {}))
                for group, calls in seats.senders(call, ran, stage, border):
                    load.groups[group] = load.groups.get(group, 0.0) + ran.bytes * calls
    return [load for load in found.values() if any(load.groups.values())]


class _JobGroups:
    def __init__(self, step: TrainingStep) -> None:
        self.layout, self.stages = step.config.layout, len(step.stages)
        self.stride = strides(self.layout.sizes(), self.layout.order)["pp"]
        self.groups = cache(self._groups)

    def senders(
        self, call: Call, ran: PricedSchedule, stage: int, border: str
    ) -> Iterator[tuple[Ranks, float]]:
        """The groups that a stage's call runs on, each with how often a step it sends.

        Messages go from a stage to its neighbour; virtual stages also wrap round, except for the
        last chunk.
        """
        if border in ("", "ring"):
            group = (
                call.group
                if len(call.group.axes) == 1 or border
                else RankGroup(((ran.ranks, ran.stride),))
            )
            yield from ((members, call.calls) for members in self.groups(group, stage))
            return
        way, v = 1 if border == "next" else -1, self.layout.virtual
        for members in self.groups(call.group, 0):
            for at in range(call.group.ranks) if self.stages == 1 else [stage]:
                beyond = not 0 <= at + way < len(members)
                if often := call.calls * (v - 1) / v if beyond else call.calls:
                    yield (members[at], members[(at + way) % len(members)]), often

    def _groups(self, group: RankGroup, stage: int) -> tuple[Ranks, ...]:
        """Groups of a shape whose first rank is on a stage, none twice; those over several stages
        count for stage 0."""

        def stage_of(rank: int) -> int:
            return rank // self.stride % self.layout.pp if self.stages > 1 else 0

        offsets, taken, found = group.members, set[int](), []
        spoken_for = stage and any(stage_of(member) for member in offsets)
        for rank in range(0 if spoken_for else self.layout.ranks - offsets[-1]):
            if rank not in taken and stage_of(rank) == stage:
                found.append(tuple(rank + offset for offset in offsets))
                taken.update(found[-1])
        return tuple(found)


def _traffic(load: _Load, fabric: Fabric, readings: Readings) -> Traffic:
    from colltool.congestion.traffic import Members, neighbours, traffic, traffic_from_schedule

    ran = load.ran
    if load.border == "ring":
        return neighbours(len(next(iter(load.groups))), 1.0)
    if load.border:
        return traffic(P2P, "send", Members(2))
    placed = place(in_strides(fabric, ran.stride), GroupSpec(ran.ranks, ran.stride, in_order=True))
    spans = enumerate(placed.spans)
    groups = [
        tier_group(span, readings, scale_out=number > 0 or placed.one_a_node)[0]
        for number, span in spans
    ]
    return traffic_from_schedule(ran.primitive, ran.choice, groups, flat_group(placed, readings)[0])
