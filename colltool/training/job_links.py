"""The busiest links of a training step: the worst of each kind under all that a job sends.

Every group of every dimension counts at once: a call sends what its priced schedule (the one that
``verify`` runs) sends, summed over a step. A link's seconds are its bytes at full rate: no
contention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.primitives import A2A, P2P
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import flat_group, place, tier_group
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.training.calls import Call
from colltool.training.collective_cost import PricedSchedule
from colltool.training.group_fit import in_strides
from colltool.training.parallel_config import RankGroup, strides
from colltool.training.sentences import Remark, remark, sentence
from colltool.training.step_time import TrainingStep

if TYPE_CHECKING:
    from colltool.congestion.busiest import Flow
    from colltool.congestion.traffic import Traffic

Ranks = tuple[int, ...]  # the members of a group, by their numbers in the job


class JobLink(NamedTuple):
    """The busiest link of a kind, such as ``ib leaf 0 uplinks``, under all that a job sends."""

    tier: str  # its name
    kind: str  # such as "leaf uplinks"
    link: str  # its name
    bytes: float  # in a step
    rate_Bps: float  # without contention
    busy_s: float
    share: float  # of the step
    over_mean: float  # its bytes over the mean of its kind, of links that carry any
    by: tuple[tuple[str, float], ...]  # (dimension, bytes), the largest first


class JobLinks(NamedTuple):
    """Busiest links, innermost tier first; ``notes`` say what is not counted."""

    links: tuple[JobLink, ...]
    notes: tuple[str, ...]


class _ScheduleLoad(NamedTuple):
    """What the groups of a dimension send by one schedule in a step."""

    dimension: str
    schedule: PricedSchedule
    border: str  # see :func:`_border`
    groups: dict[Ranks, float]  # bytes, M of the schedule, that each sends in a step


def job_links(fabric: Fabric, step: TrainingStep, readings: ModelOptions) -> JobLinks:
    """Return the busiest links of a priced step.

    Raises:
        ColltoolError: a full mesh has too many links to follow.
    """
    # loads numpy, which a plan does without
    from colltool.congestion.busiest import Flow, busiest_links
    from colltool.congestion.traffic import MOST_MESSAGES
    from colltool.congestion.traffic_by_schedule import Unscheduled

    numbers: dict[str, int] = {}  # of dimensions, by which flows name their senders
    flows: list[Flow] = []
    not_counted: dict[str, list[str]] = defaultdict(list)  # dimensions by reason
    for load in _schedule_loads(step):
        number = numbers.setdefault(load.dimension, len(numbers))
        try:
            traffic = _traffic(load, fabric, readings)
        except Unscheduled as error:
            not_counted[str(error)].append(load.dimension)
            continue
        if len(traffic.src) * len(load.groups) > MOST_MESSAGES:
            algorithm = load.schedule.choice.spec
            reason = sentence(
                remark("too_many_messages", algorithm=algorithm, ranks=load.schedule.ranks)
            )
            not_counted[reason].append(load.dimension)
            continue
        flows.append(Flow(traffic, list(load.groups), list(load.groups.values()), number))
    dimensions = list(numbers)  # by number
    links = []
    for link in busiest_links(fabric, flows) if flows else ():
        links.append(
            JobLink(
                link.tier,
                link.kind,
                link.link,
                link.bytes,
                link.rate_Bps,
                link.busy_s,
                share=link.busy_s / step.step_s if step.step_s else 0.0,
                over_mean=link.over_mean,
                by=tuple((dimensions[number], size) for number, size in link.senders),
            )
        )
    return JobLinks(tuple(links), tuple(map(sentence, _left_out(step, not_counted))))


def _left_out(step: TrainingStep, not_counted: dict[str, list[str]]) -> Iterator[Remark]:
    """Yield what the loads of links leave out."""
    for reason, dimensions in not_counted.items():
        yield remark("links_not_counted", dimensions=_listed(dimensions), reason=reason)
    timed = [call.call.dimension for call in step.sent if not call.cost.schedules]
    if timed:
        yield remark("links_of_given_times", dimensions=_listed(timed))
    exchanges = [call.call for call in step.sent if call.call.primitive is A2A]
    skewed = [call.dimension for call in exchanges if call.skew != 1]
    if skewed:
        yield remark("links_counted_evenly", dimensions=_listed(skewed))


def _listed(names: Iterable[str]) -> str:
    """Return names as text, each once."""
    return ", ".join(dict.fromkeys(names))


def _schedule_loads(step: TrainingStep) -> list[_ScheduleLoad]:
    """Return what each schedule of the step sends, by the groups that run it; a schedule of several
    sizes is one, with all of their bytes."""
    loads: dict[tuple[object, ...], _ScheduleLoad] = {}
    groups = _GroupsOfCalls(step)
    for number, stage in enumerate(step.stages):
        for sent in stage.sent:
            call = sent.call
            border = _border(call)
            for schedule in sent.cost.schedules:
                # without its bytes, so that sizes of one schedule add up
                key = (call.dimension, call.group, schedule._replace(bytes=0.0), border)
                load = loads.setdefault(
                    key, _ScheduleLoad(call.dimension, schedule, border, defaultdict(float))
                )
                for group, calls in groups.senders(call, schedule, number, border):
                    load.groups[group] += schedule.bytes * calls
    return [load for load in loads.values() if any(load.groups.values())]


def _border(call: Call) -> str:
    """Return the neighbour to which a point-to-point goes: "next" or "previous" stage of a pipeline,
    or "ring" of any other, whose ranks all send to the next; empty for a collective."""
    if call.primitive is not P2P:
        return ""
    if call.dimension != "pp":
        return "ring"
    return "previous" if call.phase == "backward" else "next"


class _GroupsOfCalls:
    """The groups of ranks on which calls of a job run."""

    def __init__(self, step: TrainingStep) -> None:
        self.layout = step.config.layout
        self.stages = len(step.stages)
        self.stage_stride = strides(self.layout.sizes(), self.layout.order)["pp"]
        self.groups = cache(self._groups)

    def senders(
        self, call: Call, schedule: PricedSchedule, stage: int, border: str
    ) -> Iterator[tuple[Ranks, float]]:
        """Yield the groups that a stage's call runs on, each with its calls in a step.

        Messages go from a stage to its neighbour; with virtual stages also from the last to the
        first, except for the last chunk.
        """
        if border in ("", "ring"):
            group = call.group
            # a collective over several axes runs along each of them
            if len(group.axes) > 1 and not border:
                group = RankGroup(((schedule.ranks, schedule.stride),))
            for members in self.groups(group, stage):
                yield members, call.calls
            return
        direction = 1 if border == "next" else -1
        chunks = self.layout.virtual
        # a job of plain calls has one stage, and all of its ranks send
        senders = range(call.group.ranks) if self.stages == 1 else [stage]
        for members in self.groups(call.group, 0):
            for sender in senders:
                calls = call.calls
                if not 0 <= sender + direction < len(members):
                    calls = calls * (chunks - 1) / chunks
                if calls:
                    yield (members[sender], members[(sender + direction) % len(members)]), calls

    def _groups(self, group: RankGroup, stage: int) -> tuple[Ranks, ...]:
        """Return the groups of a shape whose first rank is on a stage; those over several stages
        count for stage 0."""

        def stage_of(rank: int) -> int:
            return rank // self.stage_stride % self.layout.pp if self.stages > 1 else 0

        offsets = group.members  # of the group that begins at rank 0
        # the group spans several stages
        if stage and any(stage_of(offset) for offset in offsets):
            return ()
        placed: set[int] = set()
        groups = []
        for rank in range(self.layout.ranks - offsets[-1]):
            if rank not in placed and stage_of(rank) == stage:
                members = tuple(rank + offset for offset in offsets)
                groups.append(members)
                placed.update(members)
        return tuple(groups)


def _traffic(load: _ScheduleLoad, fabric: Fabric, readings: ModelOptions) -> Traffic:
    """Return the messages of one call of a load, between the ranks of a group, in units of M."""
    from colltool.congestion.traffic import Members, ring_traffic
    from colltool.congestion.traffic_by_formula import traffic
    from colltool.congestion.traffic_by_schedule import traffic_from_schedule

    schedule = load.schedule
    if load.border == "ring":
        return ring_traffic(len(next(iter(load.groups))), 1.0)
    if load.border:
        return traffic(P2P, "send", Members(2))
    placed = place(
        in_strides(fabric, schedule.stride),
        GroupSpec(schedule.ranks, schedule.stride, in_order=True),
    )
    groups = []
    for number, span in enumerate(placed.spans):
        scale_out = number > 0 or placed.one_a_node
        groups.append(tier_group(span, readings, scale_out=scale_out)[0])
    return traffic_from_schedule(
        schedule.primitive, schedule.choice, groups, flat_group(placed, readings)[0]
    )
