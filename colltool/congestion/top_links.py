"""The hottest links, the load of every link, and link classes for a heat strip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from colltool.congestion.loads import ClassTotals, Messages, link_models, totals
from colltool.congestion.results import LinkClassLoad, LinkLoad
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric
from colltool.schedules.links import SMALL, Floats, Indices, LinkClass, LinkModel

HOTTEST = 10
CELLS = 64


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
        seconds = line.load / line.kind.capacity_Bps
        used = np.flatnonzero(line.users)
        self.tiers.add(line.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(line.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        kept = used if self.per_link else np.sort(used[np.argsort(-seconds[used].round(18), kind="stable")[:HOTTEST]])
        self._keep(line, seconds, kept)
        self._strip(line)

    def _keep(self, line: ClassTotals, seconds: Floats, kept: Indices) -> None:
        starts, ends = (np.searchsorted(line.resource, kept, side) for side in ("left", "right"))
        name, of_tier, rate = _name(line), self.models[line.tier], line.kind.capacity_Bps
        for one, start, end in zip(kept.tolist(), starts, ends, strict=True):
            load, shortest_s = float(line.load[one]), float(self.ideal_s[line.group[start:end]].min())
            link = LinkLoad(
                link=of_tier.name(line.line, one),
                line=name,
                load=load,
                capacity_Bps=rate,
                over_ideal=float(f"{load / rate / shortest_s:.10g}"),
                groups=int(line.users[one]),
            )
            self._links.append((float(seconds[one]), link))

    def _strip(self, line: ClassTotals) -> None:
        load = line.load[line.kind.exists]
        if not len(load):
            return
        per_cell = -(-len(load) // CELLS)
        cells = np.maximum.reduceat(load, np.arange(0, len(load), per_cell)) / line.kind.capacity_Bps
        loaded = load[load > 0]
        one = LinkClassLoad(
            line=_name(line),
            links=len(load),
            loaded=len(loaded),
            busiest=float(load.max()),
            mean=float(loaded.mean()) if len(loaded) else 0.0,
            per_cell=per_cell,
            cells=(),
        )
        self._strips.append((one, cells))

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


def _name(line: ClassTotals) -> str:
    return f"{line.kind.tier} {line.kind.name}"


_WAYS = (" out", " in", " +", " -")


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
    for line in totals(models, _messages(flows)):
        if not line.load.any():
            continue
        one = _busiest(models[line.tier], line)
        before = found.get((one.tier, one.kind))
        if before is None or one.busy_s > before.busy_s * (1 + 1e-9):
            found[one.tier, one.kind] = one
    return tuple(found.values())


def _messages(flows: Sequence[Flow]) -> Messages:
    parts = []
    for one in flows:
        ends = np.asarray(one.groups, dtype=SMALL)
        src, dst = (ends[:, nodes].ravel() for nodes in (one.traffic.src, one.traffic.dst))
        size = np.multiply.outer(np.asarray(one.bytes, dtype=np.float64), one.traffic.size).ravel()
        parts.append((src, dst, size, np.full(len(src), one.by, dtype=SMALL)))
    return Messages(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _busiest(models: LinkModel, line: ClassTotals) -> BusyLink:
    at = int(np.argmax(line.load.round(3)))
    here = np.flatnonzero(line.resource == at)
    shares = sorted(zip(line.group[here].tolist(), line.own[here].tolist(), strict=True), key=lambda one: -one[1])
    load = float(line.load[at])
    return BusyLink(
        tier=line.kind.tier,
        kind=_kind(line.kind),
        link=models.name(line.line, at),
        bytes=load,
        rate_Bps=line.kind.capacity_Bps,
        over_mean=load / float(line.load[line.load > 0].mean()),
        by=tuple(shares),
    )


def _kind(line: LinkClass) -> str:
    """``ports`` of ``ports out``, ``leaf links`` of ``leaf uplinks``."""
    if not line.endpoint:
        return line.name.replace("uplinks", "links").replace("downlinks", "links")
    return next((line.name.removesuffix(way) for way in _WAYS if line.name.endswith(way)), line.name)
