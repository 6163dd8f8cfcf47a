"""The busiest link of each kind under the calls of a job: :func:`busiest_links`, which ``plan --links``
asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.congestion.loads import (
    ClassTotals,
    SendingGroups,
    all_messages,
    link_models,
    totals,
)
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric
from colltool.network.links import SMALL, LinkModel


class Flow(NamedTuple):
    """Groups that send alike."""

    traffic: Traffic  # between members of a group, in units of M
    groups: Sequence[Sequence[int]]  # the members of each, as ranks of the fabric
    bytes: Sequence[float]  # M of each
    sender: int  # a number of the caller's: :attr:`BusyLink.senders` repeats it


class BusyLink(NamedTuple):
    """The busiest link of a kind, the worse of its two directions."""

    tier: str
    kind: str  # ``ports``, ``leaf links``, ``axis 1``
    link: str  # as ``contention`` names it
    bytes: float
    rate_Bps: float  # without contention
    over_mean: float  # its bytes over the mean of the loaded links of its kind and direction
    senders: tuple[tuple[int, float], ...]  # (number, bytes), the largest first

    @property
    def busy_s(self) -> float:
        """Seconds that its bytes take at full rate."""
        return self.bytes / self.rate_Bps


def busiest_links(fabric: Fabric, flows: Sequence[Flow]) -> tuple[BusyLink, ...]:
    """The busiest link of each kind that carries anything, innermost tier first.

    Raises:
        ColltoolError: a full mesh with too many links to follow.
    """
    models = link_models(fabric)
    batches = []
    for flow in flows:
        ends = np.asarray(flow.groups, dtype=SMALL)
        amounts = np.asarray(flow.bytes, dtype=np.float64)
        senders = np.full(len(ends), flow.sender, dtype=SMALL)
        batches.append(SendingGroups(ends, flow.traffic, amounts, senders))
    by_kind: dict[tuple[str, str], BusyLink] = {}
    for loads in totals(models, all_messages(batches)):
        if not loads.load.any():
            continue
        link = _busiest_of(loads, models[loads.tier])
        busiest = by_kind.get((link.tier, link.kind))
        # Both directions are one kind; of those that are equal but for rounding the first is kept.
        if busiest is None or link.busy_s > busiest.busy_s * (1 + 1e-9):
            by_kind[link.tier, link.kind] = link
    return tuple(by_kind.values())


def _busiest_of(loads: ClassTotals, model: LinkModel) -> BusyLink:
    """The busiest link of a class, and who loads it."""
    # To thousandths of a byte, so that of links that are equal but for rounding the first is named.
    resource = int(np.argmax(loads.load.round(3)))
    load = float(loads.load[resource])
    on_it = loads.pairs.resource == resource
    senders = loads.pairs.group[on_it].tolist()
    bytes_of_each = loads.pairs.load[on_it].tolist()
    return BusyLink(
        tier=loads.link_class.tier,
        kind=_without_direction(loads.link_class.name),
        link=model.name(loads.class_number, resource),
        bytes=load,
        rate_Bps=loads.link_class.capacity_Bps,
        over_mean=load / float(loads.load[loads.load > 0].mean()),
        senders=tuple(sorted(zip(senders, bytes_of_each, strict=True), key=lambda pair: -pair[1])),
    )


def _without_direction(name: str) -> str:
    """The kind of link that a class is of: ``ports`` for ``ports out``, ``leaf links`` for ``leaf
    uplinks``, and a name without a direction as it is."""
    kind, _, direction = name.rpartition(" ")
    if direction in ("uplinks", "downlinks"):
        return f"{kind} links"
    return kind if direction in ("out", "in", "+", "-") else name
