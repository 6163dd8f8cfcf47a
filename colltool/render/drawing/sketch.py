"""What a drawing of a fabric shows, before anything is drawn: its tiers, their levels, and how many of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from colltool.fabric.capabilities import DistanceClass, TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of


@dataclass(frozen=True)
class LevelSketch:
    """One level of switches.

    Attributes:
        name: as the file has it; empty where a tier has one level and no name for it.
        pairs: of endpoints that meet here: how many are under one group, and their alpha.
        groups: of this level in one domain of the tier; ``last`` endpoints are under the last of them.
        uplinks: oversubscription of the boundary below, at its switches alone; that against the endpoints is in ``pairs``.
        switches, rails: on all rails, where the file gives what decides.
        reached: whether any two endpoints meet here; a level above is there for more of them.
    """

    name: str
    pairs: DistanceClass
    groups: int
    last: int
    uplinks: float = 1.0
    switches: int | None = None
    rails: int = 1
    reached: bool = True


@dataclass(frozen=True)
class TierSketch:
    """One tier: ``below`` is the tier that its endpoints are domains of, None where they are ranks."""

    tier: Tier
    facts: TierFacts
    below: str | None

    @property
    def kind(self) -> TierCapabilities[Tier]:
        """What it can do."""
        return capabilities_of(self.tier)

    @property
    def ports(self) -> int:
        """Of an endpoint, or links in parallel between two: those of all its ranks."""
        return self.facts.planes * self.tier.ports

    @property
    def levels(self) -> tuple[LevelSketch, ...]:
        """Its levels of switches, bottom up; none where links join its endpoints."""
        return tuple(_levels(self)) if self.kind.joined_by == "switches" else ()


def sketches(fabric: Fabric) -> tuple[TierSketch, ...]:
    """The tiers of a fabric, innermost first."""
    below = [None, *(tier.name for tier in fabric.tiers)]
    facts = fabric_facts(fabric).tiers
    return tuple(TierSketch(*one) for one in zip(fabric.tiers, facts, below, strict=False))


def _levels(sketch: TierSketch) -> Iterator[LevelSketch]:
    """Counts of switches are those of its sizing, or the one switch that joins all."""
    kind, facts, plan = sketch.kind, sketch.facts, sketch.facts.sizing
    for index, one in enumerate(kind.classes):
        stage = plan.levels[index] if plan and kind.levels and index < len(plan.levels) else None
        whole = facts.switches if index == 0 and len(kind.reached) == 1 else None
        groups = ceil(facts.endpoints / one.group)
        yield LevelSketch(
            name=one.name if kind.levels else "",
            pairs=one,
            groups=groups,
            last=facts.endpoints - (groups - 1) * one.group,
            uplinks=facts.levels[index].uplinks if kind.levels else 1.0,
            switches=stage.switches if stage else whole,
            rails=plan.rails if plan else 1,
            reached=index < len(kind.reached),
        )
