"""Prices custom schedules: their messages, step by step, on the links of a group.

Latency is that of the longest chain of messages, where each rank waits for the messages that it
receives in a step before it starts the next. The transfer time of a step is that of its busiest
port, link or uplink. α, bandwidth and η are the same as for shipped algorithms; what a library adds
to its own schedules (start-up, shares of bandwidth) is not known for a custom one.

:func:`custom_costs` is the entry, :func:`schedule_cost` prices one schedule, and :class:`CustomLinks`
executes it and adds up its cost. Everything that is by tier is a list or the last axis of an array:
the tiers that the group spans, innermost first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from colltool.algorithms.executor import concatenated
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
from colltool.estimate.wired import LinkNetwork, TierNumbers, between_places, places_of
from colltool.fabric.model import Fabric
from colltool.fabric.tier_parts import Planes
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkModel, tier_of

_UNMEASURED = "unmeasured: executed on the fabric's links"


def custom_costs(
    schedules: Sequence[CustomSchedule], fabric: Fabric, group: AnyGroup, options: ModelOptions
) -> list[CostModel]:
    """The cost of each schedule under each protocol of a group, schedule by schedule.

    Raises:
        ColltoolError: a schedule is for another number of ranks or has a step that no link carries, or
            the options do not apply to custom schedules.
    """
    placed = place(on_layers(fabric, options), group)
    _check_option("placement", options.placement, "packed")
    _check_option("ports", options.ports, "all")
    for schedule in schedules:
        check_ranks(schedule, placed)
    costs = []
    for schedule in schedules:
        for under in under_protocols(placed, schedule.primitive):
            costs.append(schedule_cost(schedule, under, options))
    return costs


def _check_option(name: str, value: str, applies: str) -> None:
    """Raise ColltoolError for an option that custom schedules do not know: they follow the links of
    their own messages."""
    if value != applies:
        raise ColltoolError(
            f"a schedule of your own is executed {applies}, not {value}",
            argument=name,
            fix=f"leave it out, or {argument_text('algorithm_files')}",
        )


def check_ranks(schedule: CustomSchedule, placed: PlacedGroup) -> None:
    """Raise ColltoolError for a schedule that is for another number of ranks than the group has."""
    if schedule.ranks != placed.ranks:
        raise ColltoolError(
            f"{schedule.name} is for {schedule.ranks} ranks, and the group has {placed.ranks}",
            where=schedule.file,
            fix=f"take {argument_text('ranks', schedule.ranks)}",
        )


def with_unique_names(
    schedules: Sequence[CustomSchedule], used: Collection[str]
) -> list[CustomSchedule]:
    """The schedules under names by which a table can tell their prices apart, neither in ``used`` nor
    given twice: ``ring`` becomes ``ring@my.xml``, a second one ``ring@my.xml-2``."""
    renamed: list[CustomSchedule] = []
    in_use = set(used)
    for schedule in schedules:
        name = schedule.name
        if name in in_use:
            name = with_file = f"{name}@{Path(schedule.file).name or 'own'}"
            number = 2
            while name in in_use:
                name = f"{with_file}-{number}"
                number += 1
        in_use.add(name)
        renamed.append(schedule._replace(name=name))
    return renamed


def schedule_cost(
    schedule: CustomSchedule, placed: PlacedGroup, options: ModelOptions
) -> CostModel:
    """The cost of a schedule on a group, under the group's protocol if it has one; ColltoolError at the
    step that no link carries."""
    links = CustomLinks(placed, options)
    sizes = schedule.program().chunk_bytes
    for number, batch in enumerate(schedule.batches, start=1):
        try:
            links.carry(batch, sizes)
        except ColltoolError as error:
            raise ColltoolError(
                f"step {number}: {error.what}", where=schedule.file, fix=error.fix
            ) from error
    hops, alpha_s = links.chain()
    parts = []
    for number, span in enumerate(placed.spans):
        n_alpha = float(hops[number])
        per_byte_s = float(links.per_byte_s[number])
        cost = _link_cost(span, links.numbers[number], n_alpha, float(alpha_s[number]), per_byte_s)
        # a tier that no message crosses has no part
        if cost.n_alpha or cost.n_beta:
            parts.append(
                CostTerm(
                    primitive=schedule.primitive,
                    algorithm=schedule.name,
                    ranks=schedule.ranks,
                    payload=1.0,
                    cost=cost,
                    route=Links(),
                )
            )
    steps = counted(len(schedule.batches), "step")
    messages = counted(schedule.messages, "message")
    # as a flat algorithm sees the group: its notes on planes hold here too
    _, paths = flat_group(placed, options)
    return CostModel(
        schedule.primitive,
        schedule.ranks,
        (*parts, *own_part(placed, schedule.primitive, schedule.name)),
        options,
        choice=Choice(schedule.name),
        overhead_s=placed.overhead_s,
        composed=len(placed.spans) > 1,
        status="own",
        notes=(
            _how_measured(placed.protocol),
            f"{schedule.form}, proved in {steps} of {messages}",
            *schedule.notes,
            *plane_notes(paths),
        ),
        protocol=placed.protocol,
        cut_bound=cut_bound_of(placed, schedule.primitive, options),
    )


def _how_measured(protocol: str) -> str:
    """The note on where the numbers of a price come from."""
    if protocol:
        return f"{_UNMEASURED}, with protocol {protocol} as the library's own schedules had it"
    return f"{_UNMEASURED}; of a library's start-up and losses nothing is in it"


def _link_cost(
    span: Span, numbers: TierNumbers, n_alpha: float, alpha_s: float, per_byte_s: float
) -> LinkCost:
    """The cost of a schedule on one tier.

    α is the mean over the messages of the chain. n_β is that of a port that would take as long as
    the busiest link or uplink.

    Args:
        numbers: α, bandwidth and η of the tier.
        n_alpha, alpha_s: hops and latency of the longest chain there, in seconds with η.
        per_byte_s: transfer time in seconds per byte of M.
    """
    classes = capabilities_of(span.tier).classes
    # without hops any α will do: that of the nearest pairs
    mean_s = alpha_s / n_alpha if n_alpha else classes[0].alpha_s * numbers.eta_alpha
    # messages go at several levels of switches, if there are several: then no one has its name here
    level = classes[-1].name if len(classes) == 1 else ""
    return LinkCost.on(numbers, n_alpha, mean_s, per_byte_s, level=level)


class CustomLinks:
    """Adds up the longest chain of messages and the transfer time of every step, tier by tier.

    A rank starts its next step when all messages to it in this step have arrived; a rank that only
    sends, when its own messages have arrived.
    """

    def __init__(self, placed: PlacedGroup, options: ModelOptions) -> None:
        self.placed = placed
        positions = tuple(span.position for span in placed.spans)
        wired = LinkNetwork(positions, placed.ranks, options.ideal, placed.domains)
        self.numbers = wired.numbers
        self.tiers = wired.network.tiers
        self.post_s = np.array([tier.post_s * tier.eta_alpha for tier in self.numbers])
        # Ranks are numbered by their place: where domains differ in size, each has as many places as the
        # largest has ranks, and places above the ranks of a domain stay empty.
        places = places_of(placed.domains, placed.ranks)
        # When the rank at each place starts its next step; shape (places,).
        self.ready_s = np.zeros(places)
        # The hops and latency on each tier of the chain of messages that each rank waited for;
        # shape (places, tiers).
        self.chain_hops = np.zeros((places, len(self.tiers)))
        self.chain_alpha_s = np.zeros((places, len(self.tiers)))
        # Seconds per byte of M by tier; each step counts on its busiest tier.
        self.per_byte_s = np.zeros(len(self.tiers))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        """Add the messages of a step, which are sent at the same time; ``chunk_bytes`` in units of M."""
        src, dst, chunk = concatenated(
            between_places(batch, self.placed.domains, self.placed.ranks)
        )
        size = chunk_bytes[chunk]
        travels_on = tier_of(self.tiers, src, dst)
        alpha_s = np.zeros(len(src))
        hops = np.zeros(len(src))
        busiest_s = 0.0
        busiest = 0
        for number, tier in enumerate(self.tiers):
            here = travels_on == number
            if not here.any():
                continue
            start = src[here]
            end = dst[here]
            alpha_s[here] = tier.latency(start, end)[0]
            hops[here] = tier.hops(start, end)
            planes = self.placed.spans[number].kind.planes
            loads = _loads(tier, planes, start, end, size[here])
            for link_class, load in zip(tier.classes, loads, strict=True):
                seconds = float(load.max(initial=0.0)) / link_class.capacity_Bps
                # Among equally busy tiers the outermost counts.
                if seconds >= busiest_s:
                    busiest_s = seconds
                    busiest = number
        self.per_byte_s[busiest] += busiest_s
        latency_s = alpha_s + self._posting_s(src, dst, travels_on)
        self._wait(src, dst, travels_on, latency_s, hops)

    def _wait(
        self, src: Indices, dst: Indices, travels_on: Indices, latency_s: Floats, hops: Floats
    ) -> None:
        """Advance every rank to the arrival of the last message that it waits for.

        Four messages of 1, 2, 3 and 5 us between ranks that are all ready at 0, of which rank 3 only
        sends::

            src           0  0  1  3
            dst           1  2  2  0
            message       0  1  2  3  3     the last one again, as rank 3 waits for it
            waiting_rank  1  2  2  0  3
            arrival_s     1  2  3  5  5     in us
            last          3  0  2  4        for ranks 0 to 3: which of the five arrives last
            cause         3  0  2  3        for ranks 0 to 3: the message that it is
        """
        # A rank that only sends waits for its own messages: as if they were sent to itself.
        send_only = np.flatnonzero(~np.isin(src, dst))
        message = np.concatenate([np.arange(len(src)), send_only])
        waiting_rank = np.concatenate([dst, src[send_only]])
        arrival_s = self.ready_s[src[message]] + latency_s[message]
        # The last arrival for each rank, -1 for a rank without messages: later ones overwrite
        # earlier ones.
        order = np.argsort(arrival_s, kind="stable")
        last = np.full(len(self.ready_s), -1)
        last[waiting_rank[order]] = order
        delayed = np.flatnonzero(last >= 0)
        delayed = delayed[arrival_s[last[delayed]] > self.ready_s[delayed]]
        cause = message[last[delayed]]
        tier = travels_on[cause]
        sender = src[cause]
        # The chain of a delayed rank is that of the sender and this message; all are read before
        # any is written.
        chain_hops = self.chain_hops[sender]
        chain_alpha_s = self.chain_alpha_s[sender]
        row = np.arange(len(cause))
        chain_hops[row, tier] += hops[cause]
        chain_alpha_s[row, tier] += latency_s[cause]
        self.chain_hops[delayed] = chain_hops
        self.chain_alpha_s[delayed] = chain_alpha_s
        self.ready_s[delayed] = arrival_s[last[delayed]]

    def _posting_s(self, src: Indices, dst: Indices, travels_on: Indices) -> Floats:
        """Seconds by which each message is late because its sender posts to other peers in the same
        step, shape (messages,)."""
        if not self.post_s.any():
            return np.zeros(len(src))
        places = len(self.ready_s)
        # each sender with each of its peers once: place 3 to 5 of 8 is 3 * 8 + 5
        pairs, first = np.unique(src.astype(np.int64) * places + dst, return_index=True)
        post_s = self.post_s[travels_on[first]]
        posts_of_sender_s = np.bincount(pairs // places, post_s, places)
        # One post of each sender is in α already. Which one is not known: the most expensive of the step
        # is subtracted, so that a sender to a single peer is never late.
        further_s: Floats = (posts_of_sender_s - post_s.max())[src]
        return np.maximum(further_s, 0.0)

    def chain(self) -> tuple[Floats, Floats]:
        """Hops and latency in seconds of the longest chain of all, on each tier; shape (tiers,) each."""
        # the rank that is ready last
        end = int(self.ready_s.argmax())
        return self.chain_hops[end], self.chain_alpha_s[end]


def _loads(
    tier: LinkModel, planes: Planes | None, src: Indices, dst: Indices, size: Floats
) -> list[Floats]:
    """Bytes on a tier's links in units of M, an array for each class of links.

    Where flows are hashed to planes, the bytes on a port are divided by the share of its planes
    that the flows to its peers keep busy, relative to the tier's usual share.
    """
    loads = tier.loads(src, dst, size)
    if planes is None or planes.spread != "ecmp":
        return loads
    pairs = np.unique(np.stack([src, dst]), axis=1)
    # The first two classes are ports out, of senders, and ports in, of receivers.
    for direction, places in enumerate((src, dst)):
        # of each place up to the highest that takes part, for as many peers as it has; shape (places,)
        gains = []
        for peers in np.bincount(pairs[direction]).tolist():
            gains.append(planes.share_of(max(1, peers)) / planes.share)
        scaled_size = size / np.array(gains)[places]
        loads[direction] = tier.loads(src, dst, scaled_size)[direction]
    return loads
