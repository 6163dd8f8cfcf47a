"""The content of a fabric drawing: its tiers, their levels of switches, and their texts.

:func:`diagrams` makes a :class:`TierDiagram` of each tier, which the drawings in text
(``fabric_boxes``) and as SVG (:mod:`colltool.extras.pictures.drawing`) draw with these words.

``kind`` is what a tier's topology can do: ``classes`` are the pairs of endpoints by the level of switches where
they meet, nearest first, ``reached`` those of them that its endpoints have; ``named`` tells that the levels have
names, which the only level of a star does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from colltool.base.formatting import counted, format_bit_energy, format_rate
from colltool.fabric.capabilities import DistanceClass, TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.render.dispatch import description_line, on_fabric
from colltool.render.views.fabric_parts import (
    alpha_text,
    in_network_text,
    planes_lines,
    switches_text,
    topology_text,
)


@dataclass(frozen=True)
class LevelDiagram:
    """One level of switches."""

    name: str  # empty where a tier has one unnamed level
    distance: DistanceClass  # of the pairs of endpoints that meet at this level
    groups: int  # in one domain of the tier
    last: int  # endpoints under the last of the groups, which may be fewer
    # at this level's own boundary; ``distance`` has the total down to the endpoints
    hop_oversubscription: float = 1.0
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
        """What its topology says of it."""
        return capabilities_of(self.tier)

    @property
    def ports(self) -> int:
        """Ports of an endpoint, of all its ranks together, or parallel links between two
        endpoints."""
        return self.facts.planes * self.tier.ports

    @property
    def levels(self) -> tuple[LevelDiagram, ...]:
        """Levels of switches, bottom up; none in a tier of direct links."""
        if self.kind.joined_by != "switches":
            return ()
        return tuple(self._level(index) for index in range(len(self.kind.classes)))

    def _level(self, index: int) -> LevelDiagram:
        """A level of switches, with what its box says."""
        kind = self.kind
        facts = self.facts
        distance = kind.classes[index]
        groups = ceil(facts.endpoints / distance.group)
        return LevelDiagram(
            name=distance.name if kind.named else "",
            distance=distance,
            groups=groups,
            last=facts.endpoints - (groups - 1) * distance.group,
            hop_oversubscription=facts.levels[index].uplinks if kind.named else 1.0,
            switches=self._switches_at(index),
            rails=facts.sizing.rails if facts.sizing else 1,
            reached=index < len(kind.reached),
            trunk_Bps=kind.trunk_Bps if index else None,
        )

    def _switches_at(self, index: int) -> int | None:
        """The switches of a level, where they are known."""
        plan = self.facts.sizing
        if plan and self.kind.levels and index < len(plan.levels):
            return plan.levels[index].switches
        # not sized: a tier of one level has all its switches there
        if index == 0 and len(self.kind.reached) == 1:
            return self.facts.switches
        return None


def diagrams(fabric: Fabric) -> tuple[TierDiagram, ...]:
    """The tiers, innermost first."""
    tiers = []
    below = None
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        tiers.append(TierDiagram(tier, facts, below))
        below = tier.name
    return tuple(tiers)


def kind_text(diagram: TierDiagram) -> str:
    """``Clos of 32 nvlink domains``."""
    extent = diagram.kind.extent.replace("x", " x ")
    endpoints = endpoint_text(diagram, diagram.facts.endpoints)
    return f"{topology_text(diagram.tier)} of {extent} {endpoints}"


def endpoint_text(diagram: TierDiagram, count: int = 1) -> str:
    """``rank`` or ``nvlink domains``."""
    name = "rank"
    if diagram.below is not None:
        name = f"{diagram.below} domain"
    if count == 1:
        return name
    return f"{name}s"


def place_text(diagram: TierDiagram) -> str:
    """``32 of these, 8 ranks in each``, or ``256 ranks in all``. Where ranks are the tier's endpoints, which its
    kind counts already, ``32 of these``, and empty for a single domain."""
    facts = diagram.facts
    ranks = "" if diagram.below is None else counted(facts.ranks, "rank")
    if facts.domains == 1:
        if ranks:
            return f"{ranks} in all"
        return ""
    text = f"{facts.domains} of these"
    if ranks:
        return f"{text}, {ranks} in each"
    return text


def fact_texts(diagram: TierDiagram) -> list[tuple[str, str]]:
    """The numbers of a tier as (name, text): ``("bandwidth", "50 GB/s per port, one way")``."""
    tier = diagram.tier
    kind = diagram.kind
    unit = "port" if kind.has_ports else "link"
    facts = [("bandwidth", f"{format_rate(tier.bandwidth)} per {unit}, one way")]
    if not kind.named:
        facts.append(("latency", alpha_text(kind.classes[0])))
    facts += [("split over", line) for line in planes_lines(kind)]
    facts.append(("eta", f"alpha x {tier.eta.alpha:g}, bandwidth x {tier.eta.beta:g}"))
    if kind.in_network is not None:
        facts.append(("in-network", in_network_text(kind.in_network)))
    if tier.energy is not None:
        facts.append(("energy", format_bit_energy(tier.energy)))
    if tier.library and tier.library.protocols:
        names = dict.fromkeys(protocol.name for protocol in tier.library.protocols)
        facts.append(("protocols", ", ".join(names)))
    return facts


def ports_text(diagram: TierDiagram) -> str:
    """``8 ports each`` or ``4 links in parallel``."""
    if diagram.kind.has_ports:
        return f"{counted(diagram.ports, 'port')} each"
    return f"{counted(diagram.ports, 'link')} in parallel"


def max_size_text(diagram: TierDiagram) -> str:
    """``full: max_size is 8``; empty without a limit."""
    max_size = diagram.tier.max_size
    if max_size is None:
        return ""
    text = f"max_size is {max_size}"
    if diagram.facts.endpoints == max_size:
        return f"full: {text}"
    return text


def level_texts(diagram: TierDiagram, level: LevelDiagram) -> list[str]:
    """Texts on how many groups a level joins, its switches and its latency."""
    if diagram.kind.trunk_Bps is not None and level.trunk_Bps is None:
        # the level where trunks leave the endpoints, below those that they lead to: no two endpoints
        # meet here, as in the shipped two-sites, which has "2 of them"
        return [f"{level.groups} of them"]
    texts = [_groups_text(diagram, level)]
    if level.switches is not None and level.name:
        text = switches_text(level.switches)
        if level.rails > 1:
            text += f", {level.switches // level.rails} on each of {level.rails} rails"
            if diagram.kind.planes:
                text += " and planes"
        texts.append(text)
    if diagram.kind.named:
        texts.append(alpha_text(level.distance))
    return texts


def _groups_text(diagram: TierDiagram, level: LevelDiagram) -> str:
    """``4 groups of 32, the last of 8``, ``joins all 32, up to 64``."""
    size = level.distance.group
    if not level.reached:
        return f"for up to {size}, not reached"
    if level.groups > 1:
        text = f"{level.groups} groups of {size}"
        if level.last < size:
            return f"{text}, the last of {level.last}"
        return text
    text = f"joins all {level.last}"
    if diagram.kind.levels and size > level.last:
        return f"{text}, up to {size}"
    return text


def uplink_texts(level: LevelDiagram) -> list[str]:
    """The oversubscription below a level, total and, where it differs, of this hop alone."""
    if level.trunk_Bps is not None:
        return [f"{format_rate(level.trunk_Bps)} each, shared by all that is inside"]
    total = level.distance.oversubscription
    text = f"uplinks {total:.4g}:1"
    if total > 1:
        text += " oversubscribed"
    texts = [text]
    if level.hop_oversubscription != total:
        texts.append(f"{level.hop_oversubscription:.4g}:1 at this hop")
    return texts


def alternative_text(fabric: Fabric) -> str:
    """The drawing in words, for those who do not see it."""
    tiers = counted(len(fabric.tiers), "tier")
    sentences = [f"{counted(fabric.ranks, 'rank')} in {tiers}, innermost first."]
    for diagram in diagrams(fabric):
        sentences.append(f"{diagram.tier.name}: {'; '.join(filter(None, _tier_texts(diagram)))}.")
    return " ".join(sentences)


def _tier_texts(diagram: TierDiagram) -> Iterator[str]:
    """All texts of a tier; some may be empty."""
    yield kind_text(diagram)
    yield place_text(diagram)
    yield max_size_text(diagram)
    yield ports_text(diagram)
    for name, text in fact_texts(diagram):
        yield f"{name} {text}"
    if diagram.kind.named:
        for index, level in enumerate(diagram.levels):
            texts = level_texts(diagram, level)
            if index:
                texts += uplink_texts(level)
            yield f"level {level.name}: {', '.join(texts)}"


def fabric_title(fabric: Fabric) -> str:
    """``nvl72: a rack of 72 GPUs``: the fabric, with what was set, and its description."""
    name = on_fabric(fabric.name, fabric.overrides)
    if not fabric.description:
        return name
    mark = ";" if fabric.overrides else ":"
    return f"{name}{mark} {description_line(fabric)}"
