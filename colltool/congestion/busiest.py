"""The busiest link of each kind when different groups send different things, all added up over a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.congestion.arrays import SMALL
from colltool.congestion.links import Line, Wires, wires_of
from colltool.congestion.loads import LineTotals, Messages, totals
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric

_WAYS = (" out", " in", " +", " -")


class Flow(NamedTuple):
    """Groups that send alike.

    Args:
        traffic: between members of a group, sizes in units of M.
        groups: the members of each, as ranks of the fabric.
        bytes: M of each.
        by: the number of who sends it, to be told apart.
    """

    traffic: Traffic
    groups: Sequence[Sequence[int]]
    bytes: Sequence[float]
    by: int


class BusyLink(NamedTuple):
    """The busiest link of a kind, the worse of its two directions.

    Args:
        tier: of it.
        kind: ``ports``, ``leaf links``, ``axis 1``.
        link: as ``contention`` names it.
        bytes: that it carries.
        rate_Bps: at which it carries them, without contention.
        over_mean: its bytes over the mean of those of its kind and direction that carry any.
        by: (number of who sends, bytes), the largest first.
    """

    tier: str
    kind: str
    link: str
    bytes: float
    rate_Bps: float
    over_mean: float
    by: tuple[tuple[int, float], ...]

    @property
    def busy_s(self) -> float:
        """Seconds that it takes for them at its full rate."""
        return self.bytes / self.rate_Bps


def busiest_links(fabric: Fabric, flows: Sequence[Flow]) -> tuple[BusyLink, ...]:
    """The busiest link of each kind, innermost tier first.

    Raises:
        ColltoolError: a full mesh of too many links to follow.
    """
    wires = wires_of(fabric)
    found: dict[tuple[str, str], BusyLink] = {}
    for line in totals(wires, _messages(flows)):
        if not line.load.any():
            continue
        one = _busiest(wires[line.tier], line)
        before = found.get((one.tier, one.kind))
        if before is None or one.busy_s > before.busy_s * (1 + 1e-9):
            found[one.tier, one.kind] = one
    return tuple(found.values())


def _messages(flows: Sequence[Flow]) -> Messages:
    """Every message of every group, told apart by who sends."""
    parts = []
    for one in flows:
        ends = np.asarray(one.groups, dtype=SMALL)
        src, dst = (ends[:, nodes].ravel() for nodes in (one.traffic.src, one.traffic.dst))
        size = np.multiply.outer(np.asarray(one.bytes, dtype=np.float64), one.traffic.size).ravel()
        parts.append((src, dst, size, np.full(len(src), one.by, dtype=SMALL)))
    return Messages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _busiest(wires: Wires, line: LineTotals) -> BusyLink:
    at = int(np.argmax(line.load.round(3)))
    here = np.flatnonzero(line.resource == at)
    shares = sorted(zip(line.group[here].tolist(), line.own[here].tolist(), strict=True), key=lambda one: -one[1])
    load = float(line.load[at])
    return BusyLink(
        tier=line.kind.tier,
        kind=_kind(line.kind),
        link=wires.name(line.line, at),
        bytes=load,
        rate_Bps=line.kind.capacity_Bps,
        over_mean=load / float(line.load[line.load > 0].mean()),
        by=tuple(shares),
    )


def _kind(line: Line) -> str:
    """``ports`` of ``ports out``, ``leaf links`` of ``leaf uplinks``."""
    if not line.endpoint:
        return line.name.replace("uplinks", "links").replace("downlinks", "links")
    return next((line.name.removesuffix(way) for way in _WAYS if line.name.endswith(way)), line.name)
