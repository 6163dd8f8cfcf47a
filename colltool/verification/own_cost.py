"""The price of a custom schedule: its messages, step by step, on the links of a group.

Latency is the longest chain of messages, each rank waiting for what it is sent in a step before it
goes on to the next; a step takes the bytes of its busiest port, link or uplink. α, bandwidth and η
are those that shipped algorithms are priced with; what a library adds to its own schedules
(start-up, shares of bandwidth that it reaches) is not known for a file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from colltool.algorithms.executor import Network, joined
from colltool.algorithms.program import Step
from colltool.algorithms.registry import Choice
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import counted
from colltool.base.primitives import Links
from colltool.custom.schedule import CustomSchedule
from colltool.estimate.assumptions import ModelOptions
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
    schedules: Sequence[CustomSchedule], fabric: Fabric, group: AnyGroup, readings: ModelOptions
) -> list[CostModel]:
    """Each schedule under each protocol of a group; ColltoolError where it is for another number of
    ranks."""
    placed = place(on_layers(fabric, readings), group)
    for name, usual in (("placement", "packed"), ("ports", "all")):
        value = getattr(readings, name)
        if value != usual:
            what = f"a schedule of your own is executed {usual}, not {value}"
            fix = f"leave it out, or {argument_text('algorithm_files')}"
            raise ColltoolError(what, argument=name, fix=fix)
    for schedule in schedules:
        check_ranks(schedule, placed)
    costs = []
    for schedule in schedules:
        for under in under_protocols(placed, schedule.primitive):
            costs.append(own_cost(schedule, under, readings))
    return costs


def check_ranks(schedule: CustomSchedule, placed: PlacedGroup) -> None:
    if schedule.ranks != placed.ranks:
        what = f"{schedule.name} is for {schedule.ranks} ranks, and the group has {placed.ranks}"
        raise ColltoolError(
            what, where=schedule.file, fix=f"take {argument_text('ranks', schedule.ranks)}"
        )


def with_own_names(
    schedules: Sequence[CustomSchedule], taken: Collection[str]
) -> list[CustomSchedule]:
    """Schedules under names of their own, which neither shipped algorithms nor other schedules
    have: ``ring`` becomes ``ring@my.xml``, a second one ``ring@my.xml-2``."""
    renamed: list[CustomSchedule] = []
    used = set(taken)
    for schedule in schedules:
        name = schedule.name
        if name in used:
            name = with_file = f"{name}@{Path(schedule.file).name or 'own'}"
            number = 2
            while name in used:
                name = f"{with_file}-{number}"
                number += 1
        used.add(name)
        renamed.append(schedule._replace(name=name))
    return renamed


class OwnLinks(Network):
    """The longest chain of α, message after message through the ranks, and the bytes of every step,
    tier by tier.

    A rank goes on to its next step when all that it is sent in this one has arrived; one that only
    sends, when that has arrived.
    """

    def __init__(self, placed: PlacedGroup, readings: ModelOptions) -> None:
        self.placed = placed
        self.planes = [capabilities_of(span.tier).planes for span in placed.spans]
        self.numbers = [numbers_on(span.position, ideal=readings.ideal) for span in placed.spans]
        places = places_of(placed.domains, placed.ranks)
        links = []
        for span, tier in zip(placed.spans, self.numbers, strict=True):
            last = span is placed.spans[-1]
            links.append(
                links_on(
                    span.position,
                    places,
                    eta_alpha=tier.eta_alpha,
                    eta_beta=tier.eta_beta,
                    last=last,
                )
            )
        super().__init__(*links)
        self.post_s = np.array([tier.post_s * tier.eta_alpha for tier in self.numbers])
        # When each place can go on, and the chain of messages that it waited for, tier by tier.
        self.ready_s = np.zeros(places)
        self.chain_hops = np.zeros((places, len(links)))
        self.chain_alpha_s = np.zeros((places, len(links)))
        # Seconds per byte of M, each step's on its busiest tier.
        self.per_byte_s = np.zeros(len(links))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        src, dst, chunk = joined(seated(batch, self.placed.domains, self.placed.ranks))
        size = chunk_bytes[chunk]
        on = tier_of(self.tiers, src, dst)
        alpha_s = np.zeros(len(src))
        hops = np.zeros(len(src))
        busiest_s = 0.0
        busiest = 0
        for number, tier in enumerate(self.tiers):
            here = on == number
            if not here.any():
                continue
            start = src[here]
            end = dst[here]
            alpha_s[here] = tier.latency(start, end)[0]
            hops[here] = tier.hops(start, end)
            loads = _loads(tier, self.planes[number], start, end, size[here])
            for link_class, load in zip(tier.classes, loads, strict=True):
                seconds = float(load.max(initial=0.0)) / link_class.capacity_Bps
                # Of equally busy tiers the outermost counts.
                if seconds >= busiest_s:
                    busiest_s = seconds
                    busiest = number
        self.per_byte_s[busiest] += busiest_s
        self._wait(src, dst, on, alpha_s + self._posting(src, dst, on), hops)

    def _wait(self, src: Indices, dst: Indices, on: Indices, alpha_s: Floats, hops: Floats) -> None:
        """Let the ranks wait for the last of what they are sent, or of what they send."""
        # A rank that only sends waits for its own message: as if it were sent to itself.
        only = np.flatnonzero(~np.isin(src, dst))
        message = np.concatenate([np.arange(len(src)), only])
        waits = np.concatenate([dst, src[only]])
        arrives = self.ready_s[src[message]] + alpha_s[message]
        order = np.argsort(arrives, kind="stable")
        last = np.full(len(self.ready_s), -1)
        last[waits[order]] = order  # of several the latest stays
        late = np.flatnonzero(last >= 0)
        late = late[arrives[last[late]] > self.ready_s[late]]
        by = message[last[late]]
        before = src[by]
        # Read for all places before any is written.
        chain_hops = self.chain_hops[before]
        chain_alpha_s = self.chain_alpha_s[before]
        each = np.arange(len(by))
        chain_hops[each, on[by]] += hops[by]
        chain_alpha_s[each, on[by]] += alpha_s[by]
        self.chain_hops[late] = chain_hops
        self.chain_alpha_s[late] = chain_alpha_s
        self.ready_s[late] = arrives[last[late]]

    def _posting(self, src: Indices, dst: Indices, on: Indices) -> Floats:
        """Seconds that the sender takes to post to its further peers of the step, for each message;
        shape (m,)."""
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
        return self.chain_hops[end], self.chain_alpha_s[end]


def _loads(
    tier: LinkModel, planes: Planes | None, src: Indices, dst: Indices, size: Floats
) -> list[Floats]:
    """Bytes on a tier's links; on a port whose planes hash flows, as many more as the flows of its
    peers leave planes idle."""
    loads = tier.loads(src, dst, size)
    if planes is None or planes.spread != "ecmp":
        return loads
    pairs = np.unique(np.stack([src, dst]), axis=1)
    # Ports out, then in, are the first two classes.
    for port, ranks in enumerate((src, dst)):
        gains = []
        for peers in np.bincount(pairs[port]).tolist():
            gains.append(planes.share_of(max(1, peers)) / planes.share)
        loads[port] = tier.loads(src, dst, size / np.array(gains)[ranks])[port]
    return loads


def own_cost(schedule: CustomSchedule, under: PlacedGroup, readings: ModelOptions) -> CostModel:
    """A schedule on a group as it is, under one protocol or none."""
    links = OwnLinks(under, readings)
    sizes = schedule.program().chunk_bytes
    for number, batch in enumerate(schedule.batches, start=1):
        try:
            links.carry(batch, sizes)
        except ColltoolError as error:
            what = f"step {number}: {error.what}"
            raise ColltoolError(what, where=schedule.file, fix=error.fix) from error
    hops, alpha_s = links.chain()
    parts = []
    for number, span in enumerate(under.spans):
        n_alpha = float(hops[number])
        per_byte_s = float(links.per_byte_s[number])
        cost = _link_cost(span, links.numbers[number], n_alpha, float(alpha_s[number]), per_byte_s)
        if cost.n_alpha or cost.n_beta:
            parts.append(
                CostTerm(
                    schedule.primitive, schedule.name, schedule.ranks, 1.0, cost, route=Links()
                )
            )
    steps = counted(len(schedule.batches), "step")
    messages = counted(schedule.messages, "message")
    _, reach = flat_group(under, readings)
    return CostModel(
        schedule.primitive,
        schedule.ranks,
        (*parts, *own_part(under, schedule.primitive, schedule.name)),
        readings,
        choice=Choice(schedule.name),
        overhead_s=under.overhead_s,
        composed=len(under.spans) > 1,
        status="own",
        notes=(
            _how_measured(under.protocol),
            f"{schedule.form}, proved in {steps} of {messages}",
            *plane_notes(reach),
        ),
        protocol=under.protocol,
        cut_bound=cut_bound_of(under, schedule.primitive, readings),
    )


def _how_measured(protocol: str) -> str:
    if protocol:
        return f"{_UNMEASURED}, with protocol {protocol} as the library's own schedules had it"
    return _WITHOUT_LIBRARY


def _link_cost(
    span: Span, tier: TierNumbers, n_alpha: float, alpha_s: float, per_byte_s: float
) -> LinkCost:
    """The cost of a schedule on one tier.

    α is the mean over the chain; n_β counts an uplink's bytes as those of a port that takes as
    long.
    """
    classes = capabilities_of(span.tier).classes
    mean_s = alpha_s / n_alpha if n_alpha else classes[0].alpha_s * tier.eta_alpha
    level = classes[-1].name if len(classes) == 1 else ""
    return LinkCost.on(tier, n_alpha, mean_s, per_byte_s, level=level)
