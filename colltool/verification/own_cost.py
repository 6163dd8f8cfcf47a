"""The price of an algorithm of one's own: its messages, step by step, on the ports, links and
uplinks of a group.

Latency is the longest chain of messages, each rank waiting for what it is sent in a step before it
goes on to the next; a step takes the bytes of its busiest port, link or uplink. α, bandwidth and η
are those that shipped algorithms are priced with; what a library adds to its own (start-up, shares
of bandwidth that it reaches) is measured there and known of no file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from colltool.algorithms.executor import Network, joined
from colltool.algorithms.program import Step
from colltool.algorithms.registry import Choice
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.base.primitives import Links
from colltool.custom.schedule import OwnSchedule
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import on_layers
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, Span, flat_group, place
from colltool.estimate.link_cost import LinkCost
from colltool.estimate.phase_costs import own_part, plane_notes
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.wired import TierNumbers, links_on, numbers_on, places_of, seated
from colltool.fabric.model import Fabric
from colltool.fabric.tier_parts import Planes
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkModel, tier_of

_UNMEASURED = "unmeasured: executed on the fabric's links"
_WITHOUT_LIBRARY = f"{_UNMEASURED}; of a library's start-up and losses nothing is in it"


def own_costs(
    schedules: Sequence[OwnSchedule], fabric: Fabric, group: AnyGroup, readings: Readings
) -> list[CostModel]:
    """Each schedule under each protocol of a group; ColltoolError where it is for another number of
    ranks."""
    placed = place(on_layers(fabric, readings), group)
    for name, usual in (("placement", "packed"), ("ports", "all")):
        if (value := getattr(readings, name)) != usual:
            what = f"a schedule of your own is executed {usual}, not {value}"
            raise ColltoolError(
                what, argument=name, fix=f"leave it out, or {given('algorithm_files')}"
            )
    for one in schedules:
        check_ranks(one, placed)
    return [
        own_cost(one, under, readings)
        for one in schedules
        for under in under_protocols(placed, one.primitive)
    ]


def check_ranks(schedule: OwnSchedule, placed: PlacedGroup) -> None:
    if schedule.ranks != placed.ranks:
        what = f"{schedule.name} is for {schedule.ranks} ranks, and the group has {placed.ranks}"
        raise ColltoolError(what, where=schedule.file, fix=f"take {given('ranks', schedule.ranks)}")


def with_own_names(schedules: Sequence[OwnSchedule], taken: Collection[str]) -> list[OwnSchedule]:
    """Schedules whose names are neither of shipped algorithms nor of each other: ``ring`` becomes
    ``ring@my.xml``."""
    found: list[OwnSchedule] = []
    used = set(taken)
    for one in schedules:
        called = f"{one.name}@{Path(one.file).name or 'own'}"
        names = (
            one.name,
            called,
            *(f"{called}-{number}" for number in range(2, len(schedules) + 2)),
        )
        name = next(name for name in names if name not in used)
        used.add(name)
        found.append(one._replace(name=name))
    return found


class OwnLinks(Network):
    """The longest chain of α, message after message through the ranks, and the bytes of every step,
    tier by tier.

    A rank goes on to its next step when all that it is sent in this one has arrived; one that only
    sends, when that has arrived.
    """

    def __init__(self, placed: PlacedGroup, readings: Readings) -> None:
        self.planes = [capabilities_of(span.tier).planes for span in placed.spans]
        self.numbers = [numbers_on(span.seat, ideal=readings.ideal) for span in placed.spans]
        self.placed, places = placed, places_of(placed.domains, placed.ranks)
        super().__init__(
            *(
                _links(span, placed, tier)
                for span, tier in zip(placed.spans, self.numbers, strict=True)
            )
        )
        self.post_s = np.array([one.post_s * one.eta_alpha for one in self.numbers])
        self.ready_s = np.zeros(places)
        # of the chain up to each place
        self.hops_there, self.alpha_there_s = np.zeros((2, places, len(placed.spans)))
        self.per_byte_s = np.zeros(len(placed.spans))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        src, dst, chunk = joined(seated(batch, self.placed.domains, self.placed.ranks))
        on, size = tier_of(self.tiers, src, dst), chunk_bytes[chunk]
        alpha_s, hops = np.zeros(len(src)), np.zeros(len(src))
        busiest = (0.0, 0)
        for number, tier in enumerate(self.tiers):
            if (here := on == number).any():
                alpha_s[here], hops[here] = (
                    tier.latency(src[here], dst[here])[0],
                    tier.hops(src[here], dst[here]),
                )
                loads = zip(
                    tier.classes,
                    _loads(tier, self.planes[number], src[here], dst[here], size[here]),
                    strict=True,
                )
                busiest = max(
                    busiest,
                    (
                        max(float(load.max(initial=0.0)) / one.capacity_Bps for one, load in loads),
                        number,
                    ),
                )
        self.per_byte_s[busiest[1]] += busiest[0]
        self._wait(src, dst, on, alpha_s + self._posting(src, dst, on), hops)

    def _wait(self, src: Indices, dst: Indices, on: Indices, alpha_s: Floats, hops: Floats) -> None:
        """The ranks wait for the last of what they are sent, or of what they send."""
        only = ~np.isin(src, dst)
        src, dst = np.concatenate([src, src[only]]), np.concatenate([dst, src[only]])
        on, alpha_s, hops = (np.concatenate([each, each[only]]) for each in (on, alpha_s, hops))
        arrives = self.ready_s[src] + alpha_s
        order = np.argsort(arrives, kind="stable")
        last = np.full(len(self.ready_s), -1)
        last[dst[order]] = order  # of several the latest stays
        late = np.flatnonzero(last >= 0)
        late = late[arrives[last[late]] > self.ready_s[late]]
        by = last[late]
        chain = [table[src[by]] for table in (self.hops_there, self.alpha_there_s)]
        for table, before, own in zip(
            (self.hops_there, self.alpha_there_s), chain, (hops, alpha_s), strict=True
        ):
            before[np.arange(len(by)), on[by]] += own[by]
            table[late] = before
        self.ready_s[late] = arrives[by]

    def _posting(self, src: Indices, dst: Indices, on: Indices) -> Floats:
        """What the sender takes to post to its further peers of the step, for each message; shape
        (m,)."""
        if not self.post_s.any():
            return np.zeros(len(src))
        ranks = len(self.ready_s)
        pairs, first = np.unique(src.astype(np.int64) * ranks + dst, return_index=True)
        posts = self.post_s[on[first]]
        posted: Floats = (np.bincount(pairs // ranks, posts, ranks) - posts.max())[src]
        return np.maximum(posted, 0.0)

    def chain(self) -> tuple[Floats, Floats]:
        """Hops and seconds of the longest chain on each tier; shape (tiers,) each."""
        end = int(self.ready_s.argmax())
        return self.hops_there[end], self.alpha_there_s[end]


def _loads(
    tier: LinkModel, planes: Planes | None, src: Indices, dst: Indices, size: Floats
) -> list[Floats]:
    """Bytes on a tier's links; on a port whose planes hash flows, as many more as the flows of its
    peers leave planes idle."""
    loads = list(tier.loads(src, dst, size))
    if planes is not None and planes.spread == "ecmp":
        pairs = np.unique(np.stack([src, dst]), axis=1)
        for port, (ranks, peers) in enumerate(zip((src, dst), pairs, strict=True)):
            gain = [
                planes.share_of(max(1, count)) / planes.share
                for count in np.bincount(peers).tolist()
            ]
            loads[port] = tier.loads(src, dst, size / np.array(gain)[ranks])[port]
    return loads


def own_cost(schedule: OwnSchedule, under: PlacedGroup, readings: Readings) -> CostModel:
    """A schedule on a group as it is, under one protocol or none."""
    links, sizes = OwnLinks(under, readings), np.full(_chunks(schedule), 1 / schedule.chunks)
    for number, batch in enumerate(schedule.batches, start=1):
        try:
            links.carry(batch, sizes)
        except ColltoolError as error:
            raise ColltoolError(
                f"step {number}: {error.what}", where=schedule.file, fix=error.fix
            ) from error
    steps, (_, reach) = counted(len(schedule.batches), "step"), flat_group(under, readings)
    found = (each.tolist() for each in (*links.chain(), links.per_byte_s))
    costs = [_link_cost(*one) for one in zip(under.spans, links.numbers, *found, strict=True)]
    parts = tuple(
        CostTerm(schedule.primitive, schedule.name, schedule.ranks, 1.0, cost, route=Links())
        for cost in costs
        if cost.n_alpha or cost.n_beta
    )
    return CostModel(
        schedule.primitive,
        schedule.ranks,
        parts + own_part(under, schedule.primitive, schedule.name),
        readings,
        choice=Choice(schedule.name),
        overhead_s=under.overhead_s,
        composed=len(under.spans) > 1,
        status="own",
        notes=(
            _how_measured(under.protocol),
            f"{schedule.form}, proved in {steps} of {counted(schedule.messages, 'message')}",
            *plane_notes(reach),
        ),
        protocol=under.protocol,
        cut_bound=cut_bound_of(under, schedule.primitive, readings),
    )


def _how_measured(protocol: str) -> str:
    return (
        f"{_UNMEASURED}, with protocol {protocol} as the library's own schedules had it"
        if protocol
        else _WITHOUT_LIBRARY
    )


def _links(span: Span, placed: PlacedGroup, tier: TierNumbers) -> LinkModel:
    places, last = places_of(placed.domains, placed.ranks), span is placed.spans[-1]
    return links_on(span.seat, places, eta_alpha=tier.eta_alpha, eta_beta=tier.eta_beta, last=last)


def _chunks(schedule: OwnSchedule) -> int:
    return 1 + max(int(one.chunk.max()) for batch in schedule.batches for one in batch)


def _link_cost(
    span: Span, tier: TierNumbers, n_alpha: float, alpha_s: float, per_byte_s: float
) -> LinkCost:
    """α is the mean over the chain; n_β counts an uplink's bytes as those of a port that takes as
    long."""
    classes = capabilities_of(span.tier).classes
    each_s = alpha_s / n_alpha if n_alpha else classes[0].alpha_s * tier.eta_alpha
    return LinkCost.on(
        tier, n_alpha, each_s, per_byte_s, level=classes[-1].name if len(classes) == 1 else ""
    )
