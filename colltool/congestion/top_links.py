"""The hottest links, the load of every link, and link classes for a heat strip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.congestion.loads import ClassTotals, between, link_models, totals
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric
from colltool.schedules.links import SMALL, Floats, LinkModel

HOTTEST = 10
CELLS = 64


class LinkLoad(NamedTuple):
    """One resource: ``load`` in the unit of the result, and its load/capacity over the ideal of the group it hurts most."""

    link: str
    line: str
    load: float
    capacity_Bps: float
    over_ideal: float
    groups: int


class LinkClassLoad(NamedTuple):
    """Resources of one kind and direction, for a heat strip."""

    line: str
    links: int
    loaded: int
    busiest: float
    mean: float
    per_cell: int
    cells: tuple[float, ...]  # the busiest of ``per_cell`` links each; 1 is the hottest link of all


class Heat:
    """Filled class by class; ``ideal_s`` is each group's, ``per_link`` keeps every loaded resource."""

    def __init__(self, models: Sequence[LinkModel], ideal_s: Floats, *, per_link: bool) -> None:
        self.models, self.ideal_s, self.per_link = models, ideal_s, per_link
        self._links: list[tuple[float, LinkLoad]] = []
        self.loaded = self.shared = 0  # resources that carry anything, and those that several groups load
        self.tiers: set[int] = set()  # those in use
        self._hottest_s = 0.0
        self._strips: list[tuple[LinkClassLoad, Floats]] = []

    def add(self, line: ClassTotals) -> None:
        rate, name = line.kind.capacity_Bps, f"{line.kind.tier} {line.kind.name}"
        seconds, used = line.load / rate, np.flatnonzero(line.users)
        self.tiers.add(line.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(line.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        kept = used if self.per_link else np.sort(used[np.argsort(-seconds[used].round(18), kind="stable")[:HOTTEST]])
        starts, ends = (np.searchsorted(line.resource, kept, side) for side in ("left", "right"))
        for one, start, end in zip(kept.tolist(), starts, ends, strict=True):
            load, shortest_s = float(line.load[one]), float(self.ideal_s[line.group[start:end]].min())
            over, link = float(f"{load / rate / shortest_s:.10g}"), self.models[line.tier].name(line.line, one)
            self._links.append((float(seconds[one]), LinkLoad(link, name, load, rate, over, groups=int(line.users[one]))))
        every = line.load[line.kind.exists]
        if len(every):
            per_cell, loaded = -(-len(every) // CELLS), every[every > 0]
            cells = np.maximum.reduceat(every, np.arange(0, len(every), per_cell)) / rate
            mean = float(loaded.mean()) if len(loaded) else 0.0
            strip = LinkClassLoad(name, len(every), len(loaded), float(every.max()), mean, per_cell, cells=())
            self._strips.append((strip, cells))

    def hottest(self) -> tuple[LinkLoad, ...]:
        """Hottest first; equal ones in the order of the wiring."""
        ordered = sorted(self._links, key=lambda one: -float(f"{one[0]:.9e}"))
        return tuple(link for _, link in ordered[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded resource in the order of the wiring, where it was asked for."""
        return tuple(link for _, link in self._links) if self.per_link else ()

    def lines(self) -> tuple[LinkClassLoad, ...]:
        """Every class of the tiers in use, cut in cells for a strip, 1 the hottest."""
        return tuple(one._replace(cells=tuple((cells / self._hottest_s).tolist())) for one, cells in self._strips)


class Flow(NamedTuple):
    """Groups that send alike."""

    traffic: Traffic  # between members of a group, in units of M
    groups: Sequence[Sequence[int]]  # the members of each, as ranks of the fabric
    bytes: Sequence[float]  # M of each
    by: int  # number of who sends it, to be told apart


class BusyLink(NamedTuple):
    """The busiest link of a kind, the worse of its two directions."""

    tier: str
    kind: str  # ``ports``, ``leaf links``, ``axis 1``
    link: str  # as ``contention`` names it
    bytes: float
    rate_Bps: float  # without contention
    over_mean: float  # its bytes over the mean of the loaded links of its kind and direction
    by: tuple[tuple[int, float], ...]  # (number of who sends, bytes), the largest first

    @property
    def busy_s(self) -> float:
        """At its full rate."""
        return self.bytes / self.rate_Bps


def busiest_links(fabric: Fabric, flows: Sequence[Flow]) -> tuple[BusyLink, ...]:
    """The busiest link of each kind, innermost tier first."""
    models = link_models(fabric)
    found: dict[tuple[str, str], BusyLink] = {}
    ends = (np.asarray(one.groups, dtype=SMALL) for one in flows)
    sent = [(some, one.traffic, np.asarray(one.bytes, dtype=np.float64), np.full(len(some), one.by, dtype=SMALL))
            for one, some in zip(flows, ends, strict=True)]  # fmt: skip
    for line in totals(models, between(sent)):
        if not line.load.any():
            continue
        at = int(np.argmax(line.load.round(3)))
        load, here = float(line.load[at]), np.flatnonzero(line.resource == at)
        one = BusyLink(
            tier=line.kind.tier,
            kind=_without_way(line.kind.name),
            link=models[line.tier].name(line.line, at),
            bytes=load,
            rate_Bps=line.kind.capacity_Bps,
            over_mean=load / float(line.load[line.load > 0].mean()),
            by=tuple(sorted(zip(line.group[here].tolist(), line.own[here].tolist(), strict=True), key=lambda one: -one[1])),
        )
        before = found.get((one.tier, one.kind))
        if before is None or one.busy_s > before.busy_s * (1 + 1e-9):
            found[one.tier, one.kind] = one
    return tuple(found.values())


def _without_way(name: str) -> str:
    """``ports`` of ``ports out``, ``leaf links`` of ``leaf uplinks``."""
    first, _, last = name.rpartition(" ")
    return f"{first} links" if last in ("uplinks", "downlinks") else first if last in ("out", "in", "+", "-") else name
