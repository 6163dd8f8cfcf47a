"""What ``contention`` returns: frozen records in SI units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.primitives import Primitive
from colltool.base.result import Result


class GroupCost(NamedTuple):
    """One group among all. Seconds are those of the bandwidth term at full rate; None without a size."""

    name: str
    ranks: int
    primitive: Primitive
    algorithm: str
    slowdown: float  # against the packed ideal
    interference: float  # against itself in the same places with nobody else there
    extra_hops: int
    eta_alpha: float
    eta_beta: float
    tail_over_mean: float  # its busiest port or link over the mean of those of that kind that it uses
    busiest: str
    bytes: float | None
    ideal_s: float | None
    together_s: float | None


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


class TierEta(NamedTuple):
    """The coefficients of one tier for a fabric file, from the worst group; β is None where the tier bounds no group."""

    tier: str
    alpha: float
    beta: float | None
    group: str


@dataclass(frozen=True, eq=False, repr=False)
class Contention(Result):
    """What a layout costs. ``unit`` of loads: ``bytes``, or ``M`` where no size was given."""

    subject: ClassVar[str] = "contention"
    fabric: str
    layout: str
    unit: str
    groups: Sequence[GroupCost]
    slowdown: float
    hottest: tuple[LinkLoad, ...]
    links: tuple[LinkLoad, ...]
    lines: tuple[LinkClassLoad, ...]
    loaded: int
    shared: int
    etas: tuple[TierEta, ...]
    notes: tuple[str, ...]
    overrides: tuple[tuple[str, str], ...] = ()

    def as_eta(self) -> LayoutEta:
        return LayoutEta(self.fabric, self.layout, self.etas, self.overrides)


@dataclass(frozen=True, eq=False, repr=False)
class LayoutEta(Result):
    """The coefficients of every tier under a layout, for a fabric file."""

    subject: ClassVar[str] = "contention"
    fabric: str
    layout: str
    etas: tuple[TierEta, ...]
    overrides: tuple[tuple[str, str], ...] = ()
