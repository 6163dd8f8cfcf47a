"""The content of a fabric drawing: its tiers, their levels of switches, and the texts beside
them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from colltool.base.formatting import counted, format_bit_energy, format_rate
from colltool.fabric.capabilities import DistanceClass, TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.render.views.fabric_parts import (
    alpha_text,
    in_network_text,
    planes_lines,
    spoken_topology,
    switches_text,
)


@dataclass(frozen=True)
class LevelDiagram:
    """One level of switches."""

    name: str  # empty where a tier has one unnamed level
    pairs: DistanceClass
    groups: int  # in one domain of the tier
    last: int  # endpoints under the last of the groups
    # oversubscription at this level's own boundary; ``pairs`` has the total down to the endpoints
    uplinks: float = 1.0
    switches: int | None = None  # on all rails; None where the fabric file does not give enough
    rails: int = 1
    reached: bool = True  # False if no two endpoints need this level to meet
    trunk_Bps: float | None = None  # of what joins this level and the one below


@dataclass(frozen=True)
class TierDiagram:
    """One tier; its endpoints are domains of the tier ``below``, or ranks where that is None."""

    tier: Tier
    facts: TierFacts
    below: str | None

    @property
    def kind(self) -> TierCapabilities[Tier]:
        return capabilities_of(self.tier)

    @property
    def ports(self) -> int:
        """Ports of an endpoint, of all its ranks together, or parallel links between two
        endpoints."""
        return self.facts.planes * self.tier.ports

    @property
    def levels(self) -> tuple[LevelDiagram, ...]:
        """Levels of switches, bottom up; none in a tier of direct links."""
        kind, facts, plan = self.kind, self.facts, self.facts.sizing
        found = []
        for index, pairs in enumerate(kind.classes if kind.joined_by == "switches" else ()):
            stage = (
                plan.levels[index] if plan and kind.levels and index < len(plan.levels) else None
            )
            whole = facts.switches if index == 0 and len(kind.reached) == 1 else None
            groups = ceil(facts.endpoints / pairs.group)
            level = LevelDiagram(
                name=pairs.name if kind.named else "",
                pairs=pairs,
                groups=groups,
                last=facts.endpoints - (groups - 1) * pairs.group,
                uplinks=facts.levels[index].uplinks if kind.named else 1.0,
                switches=stage.switches if stage else whole,
                rails=plan.rails if plan else 1,
                reached=index < len(kind.reached),
                trunk_Bps=kind.trunk_Bps if index else None,
            )
            found.append(level)
        return tuple(found)


def diagrams(fabric: Fabric) -> tuple[TierDiagram, ...]:
    below = [None, *(tier.name for tier in fabric.tiers)]
    facts = fabric_facts(fabric).tiers
    return tuple(TierDiagram(*parts) for parts in zip(fabric.tiers, facts, below, strict=False))


def kind_text(diagram: TierDiagram) -> str:
    """Such as ``Clos of 32 nvlink domains``."""
    of = (
        f"{diagram.kind.extent.replace('x', ' x ')}"
        f" {endpoint_text(diagram, diagram.facts.endpoints)}"
    )
    return f"{spoken_topology(diagram.tier)} of {of}"


def endpoint_text(diagram: TierDiagram, count: int = 1) -> str:
    """Such as ``rank`` or ``nvlink domains``."""
    return ("rank" if diagram.below is None else f"{diagram.below} domain") + "s" * (count != 1)


def place_text(diagram: TierDiagram) -> str:
    """Such as ``32 of these, 8 ranks in each``."""
    facts = diagram.facts
    inside = "" if diagram.below is None else counted(facts.ranks, "rank")
    if facts.domains == 1:
        return f"{inside} in all" if inside else ""
    return f"{facts.domains} of these" + (f", {inside} in each" if inside else "")


def fact_texts(diagram: TierDiagram) -> list[tuple[str, str]]:
    tier, kind = diagram.tier, diagram.kind
    thing = "port" if kind.has_ports else "link"
    facts = [("bandwidth", f"{format_rate(tier.bandwidth)} a {thing}, one way")]
    facts += [] if kind.named else [("latency", alpha_text(kind.classes[0]))]
    facts += [("split over", line) for line in planes_lines(kind)]
    facts += [("eta", f"alpha x {tier.eta.alpha:g}, bandwidth x {tier.eta.beta:g}")]
    facts += [] if kind.in_network is None else [("in-network", in_network_text(kind.in_network))]
    facts += [] if tier.energy is None else [("energy", format_bit_energy(tier.energy))]
    names = list(
        dict.fromkeys(row.name for row in (tier.library.protocols if tier.library else ()))
    )
    return facts + ([("protocols", ", ".join(names))] if names else [])


def ports_text(diagram: TierDiagram) -> str:
    """Such as ``8 ports each`` or ``4 links in parallel``."""
    if diagram.kind.has_ports:
        return f"{counted(diagram.ports, 'port')} each"
    return f"{counted(diagram.ports, 'link')} in parallel"


def most_text(diagram: TierDiagram) -> str:
    """Such as ``full: max_size is 8``; empty without a limit."""
    most = diagram.tier.max_size
    full = "full: " if diagram.facts.endpoints == most else ""
    return "" if most is None else f"{full}max_size is {most}"


def level_texts(diagram: TierDiagram, level: LevelDiagram) -> list[str]:
    per = level.pairs.group
    if diagram.kind.trunk_Bps is not None and level.trunk_Bps is None:
        # where its trunk leaves an endpoint: no pair meets there
        return [f"{level.groups} of them"]
    if level.groups > 1:
        groups = f"{level.groups} groups of {per}" + (
            f", the last of {level.last}" if level.last < per else ""
        )
    else:
        beyond = diagram.kind.levels and per > level.last
        groups = f"joins all {level.last}" + (f", up to {per}" if beyond else "")
    if not level.reached:
        groups = f"for up to {per}, not reached"
    texts = [groups]
    if level.switches is not None and level.name:
        each = level.switches // level.rails
        planes = " and planes" if diagram.kind.planes else ""
        rails = f", {each} on each of {level.rails} rails{planes}" if level.rails > 1 else ""
        texts.append(f"{switches_text(level.switches)}{rails}")
    return [*texts, alpha_text(level.pairs)] if diagram.kind.named else texts


def uplink_texts(level: LevelDiagram) -> list[str]:
    """The oversubscription below a level, total and, where it differs, of this hop alone."""
    if level.trunk_Bps is not None:
        return [f"{format_rate(level.trunk_Bps)} each, shared by all that is inside"]
    total, hop = level.pairs.oversubscription, level.uplinks
    said = f"uplinks {total:.4g}:1" + (" oversubscribed" if total > 1 else "")
    return [said] if total == hop else [said, f"{hop:.4g}:1 at this hop"]


def alternative_text(fabric: Fabric) -> str:
    parts = [
        f"{counted(fabric.ranks, 'rank')} in {counted(len(fabric.tiers), 'tier')}, innermost first."
    ]
    for diagram in diagrams(fabric):
        told = [kind_text(diagram), place_text(diagram), most_text(diagram), ports_text(diagram)]
        told += [f"{name} {text}" for name, text in fact_texts(diagram)]
        for index, level in enumerate(diagram.levels if diagram.kind.named else ()):
            beside = level_texts(diagram, level) + (uplink_texts(level) if index else [])
            told.append(f"level {level.name}: {', '.join(beside)}")
        parts.append(f"{diagram.tier.name}: {'; '.join(filter(None, told))}.")
    return " ".join(parts)
