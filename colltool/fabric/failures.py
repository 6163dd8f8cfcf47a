"""What a single failure takes down, for every kind of part of a fabric or of a sized Clos.

:func:`failures_of` goes through the tiers of a fabric, :func:`failures_of_plan` through the levels of
a Clos that was sized. Bandwidth is lost by the ports and cables that are gone; detours are not
modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.size_clos import ClosPlan


@dataclass(frozen=True)
class Failure:
    """One failed part, and which ranks lose how much by it.

    If groups are not equally full, the part is in the fullest. Source of the question: Collectives
    Explainer Series part 03 §1.1, one switch a pod against one for each of its rails.
    """

    tier: str  # empty for a Clos that is sized without a fabric
    # "NIC" or "port" of an accelerator, each with its cable; "link"; "trunk" of an endpoint;
    # "plane"; "switch"; "switches": all of a domain; "cube" of a lattice, until optical switches
    # replace it
    part: str
    level: str  # of the switch, or that the link enters from below; else the tier
    count: int  # such parts, in all domains
    nics: int  # endpoint ports left without a switch
    endpoints: int  # that lose at most ``share`` of their bandwidth each
    ranks: int  # the same, counted in ranks
    share: float
    beyond: str = ""  # the level whose upward traffic suffers; empty: all traffic of the tier
    cut_off: int = 0  # ranks that reach no other rank on the tier any more

    @classmethod
    def of_domains(
        cls,
        facts: TierFacts,
        part: str,
        level: str,
        count: int,
        endpoints: int,
        share: float = 1.0,
        *,
        nics: int = 0,
        cut_off: int,
    ) -> Failure:
        """A failed part of a tier: ``count`` in each domain; ``endpoints`` lose the share,
        ``cut_off`` of them all of it."""
        return cls(
            tier=facts.name,
            part=part,
            level=level,
            count=count * facts.domains,
            nics=nics,
            endpoints=endpoints,
            ranks=endpoints * facts.planes,
            share=share,
            cut_off=cut_off * facts.planes,
        )


def failures_of(fabric: Fabric) -> tuple[Failure, ...]:
    """Return every kind of single failure, innermost tier first; of a Clos without ``sizing`` only
    those of its NICs."""
    found: list[Failure] = []
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        if facts.endpoints > 1:
            found += _tier_failures(capabilities_of(tier), facts)
    return tuple(found)


def _tier_failures(kind: TierCapabilities[Tier], facts: TierFacts) -> Iterator[Failure]:
    """What fails on a tier: a link, a switch, a plane, and what that leaves."""
    level = kind.reached[0].name
    ports = facts.planes * kind.tier.ports
    # of two endpoints that lose what joins them both are cut off
    alone = 2 if facts.endpoints == 2 else 1
    if facts.sizing is not None:
        yield from _of_sizing(kind, facts, facts.sizing)
        yield from _of_planes(kind, facts)
    elif not kind.has_ports:
        links = ports * kind.fewest_links
        yield Failure.of_domains(
            facts, "link", level, facts.links, 2, 1 / links, cut_off=alone if links == 1 else 0
        )
        cube = kind.cube
        if cube:
            cubes = facts.endpoints // cube
            yield Failure.of_domains(facts, "cube", level, cubes, cube, cut_off=cube)
    elif kind.trunk_Bps is not None:
        yield Failure.of_domains(facts, "trunk", "trunk", facts.links, alone, cut_off=alone)
    else:
        yield from _of_planes(kind, facts)
        yield from _of_ports(kind, facts, level)


def _of_sizing(kind: TierCapabilities[Tier], facts: TierFacts, plan: ClosPlan) -> Iterator[Failure]:
    """Failures of the plan of a tier's switches, in ranks and domains of the tier."""
    ports = facts.planes * kind.tier.ports * plan.split
    for failure in failures_of_plan(plan, facts.endpoints, ports):
        share = failure.share
        # a port has a larger part of what is left by the planes that work; a NIC has a port in each
        if kind.planes is not None and failure.part != "NIC":
            share = min(1.0, share / kind.planes.share)
        yield replace(
            failure,
            tier=facts.name,
            count=failure.count * facts.domains,
            ranks=failure.endpoints * facts.planes,
            share=share,
            cut_off=failure.cut_off * facts.planes,
        )


def _of_planes(kind: TierCapabilities[Tier], facts: TierFacts) -> Iterator[Failure]:
    """One more of the planes that still work, everywhere."""
    planes = kind.planes
    if planes is not None:
        yield Failure(
            tier=facts.name,
            part="plane",
            level=kind.reached[-1].name,
            count=planes.working * facts.domains,
            nics=facts.endpoints * facts.planes * kind.tier.ports,
            endpoints=facts.endpoints,
            ranks=facts.ranks,
            share=1 / planes.working,
            cut_off=facts.ranks if planes.working == 1 else 0,
        )


def _of_ports(kind: TierCapabilities[Tier], facts: TierFacts, level: str) -> Iterator[Failure]:
    """A port of an endpoint, and all switches of a domain where their number is known."""
    ports = facts.planes * kind.tier.ports
    nics = ports * facts.endpoints
    part = "port" if kind.joins == "accelerators" else "NIC"
    cut_off = 1 if ports == 1 else 0
    yield Failure.of_domains(facts, part, level, nics, 1, 1 / ports, nics=1, cut_off=cut_off)
    if facts.switches is not None:
        # domains of different sizes have fewer ranks than the largest times their number
        yield Failure(
            tier=facts.name,
            part="switches",
            level=level,
            count=facts.switches * facts.domains,
            nics=nics,
            endpoints=facts.endpoints,
            ranks=facts.ranks,
            share=1.0,
            cut_off=facts.ranks,
        )


def failures_of_plan(plan: ClosPlan, endpoints: int, ports: int) -> Iterator[Failure]:
    """Yield every kind of single failure of a Clos over endpoints of ``ports`` each; an endpoint
    counts as one rank."""
    on_rail = ceil(plan.ports / plan.rails)
    of_endpoint = ceil(ports / plan.rails)
    # rails that an endpoint has a port on
    rails_used = min(plan.rails, ports)
    members = min(endpoints, ceil(on_rail / of_endpoint))

    def failure(
        part: str, at: int, count: int, nics: int, share: float, beyond: str = ""
    ) -> Failure:
        """``nics`` of one rail lose a share of their traffic."""
        affected = ceil(nics / of_endpoint)
        if nics not in (1, on_rail) and nics % of_endpoint:
            # the ports begin and end within an endpoint: all but two are whole endpoints, and one
            # port at least belongs to each of the two
            affected = (nics - 2) // of_endpoint + 2
        affected = min(members, affected)
        return Failure(
            tier="",
            part=part,
            level=plan.levels[at].name,
            count=count,
            nics=0 if beyond else nics,
            endpoints=affected,
            ranks=affected,
            share=share,
            beyond=beyond,
            cut_off=affected if share >= 1 and not beyond else 0,
        )

    leaf, *above = plan.levels
    below = leaf
    # ports of a rail below one group of switches, and the switches of such a group
    ports_below = min(leaf.down_ports, on_rail)
    switches = 1
    if plan.split > 1:
        yield failure("port", 0, plan.ports, 1, 1 / ports)
    yield replace(
        failure("NIC", 0, plan.ports // plan.split, 1, plan.split / ports), nics=plan.split
    )
    yield failure("switch", 0, leaf.switches, ports_below, min(of_endpoint, ports_below) / ports)
    for number, level in enumerate(above, start=1):
        uplinks = below.up_ports * switches  # cables out of one group of the level below
        loss = 1 / (uplinks * rails_used)
        yield failure("link", number, level.cables, ports_below, loss, below.name)
        if number == len(above):
            ports_below = on_rail
            switches = level.per_rail
        else:
            ports_below = min(on_rail, leaf.down_ports * ceil(plan.leaves / plan.pods))
            switches = level.per_rail // plan.pods
        loss = 1 / (switches * rails_used)
        yield failure("switch", number, level.switches, ports_below, loss, below.name)
        below = level
