"""What a single failure takes down, for every kind of part of a fabric or of a sized Clos.

:func:`failures_of` goes through the tiers of a fabric, :func:`failures_of_plan` through the levels of
a Clos that was sized. Bandwidth is lost by the ports and cables that are gone; detours are not
modelled.

A tier exists once for each rank of an endpoint, as ``TierFacts`` counts it: ``facts.planes`` is the
number of these copies, and so ranks per endpoint. ``capabilities.planes`` are the parallel networks
that a port is split over (``planes:`` in the file). ``facts.links`` and ``facts.switches`` are of one
domain, all copies included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, NamedTuple

from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.size_clos import ClosPlan

Part = Literal[
    "NIC",  # of an accelerator, with its cable
    "port",  # of an accelerator, or of a NIC that has several
    "link",
    "trunk",  # of an endpoint
    "plane",
    "switch",
    "switches",  # all of a domain
    "cube",  # of a lattice, until optical switches replace it
]


@dataclass(frozen=True)
class Failure:
    """One failed part, and which ranks lose how much by it.

    If groups are not equally full, the part is in the fullest. Source of the question: Collectives
    Explainer Series part 03 §1.1, one switch a pod against one for each of its rails.
    """

    tier: str  # empty for a Clos that is sized without a fabric
    part: Part
    # of the failed switch, or that the failed link enters from below; ``trunk`` of a trunk, and the
    # name of the tier where it has no levels
    level: str
    count: int  # such parts, in all domains
    nics: int  # endpoint ports left without a switch
    endpoints: int  # that lose bandwidth
    ranks: int  # that do, in one domain
    share: float  # of its bandwidth that an endpoint loses, at most; 1 for all
    beyond: str = ""  # the level above which traffic suffers; empty: all traffic of the tier
    cut_off: int = 0  # ranks that reach no other rank on the tier any more

    @classmethod
    def of_part(
        cls,
        part: Part,
        level: str,
        *,
        count: int,
        endpoints: int,
        share: float = 1.0,
        nics: int = 0,
        beyond: str = "",
    ) -> Failure:
        """Return a failed part of a network that is seen without a fabric: an endpoint counts as one
        rank, and there is one domain."""
        return cls(
            tier="",
            part=part,
            level=level,
            count=count,
            nics=nics,
            endpoints=endpoints,
            ranks=endpoints,
            share=share,
            beyond=beyond,
            cut_off=endpoints if share >= 1 and not beyond else 0,
        )

    def on_tier(self, facts: TierFacts) -> Failure:
        """Return the same part of a tier, counted in all of its domains, with what it does in ranks."""
        return replace(
            self,
            tier=facts.name,
            count=self.count * facts.domains,
            # domains of different sizes have fewer ranks than their endpoints would
            ranks=min(facts.ranks, self.endpoints * facts.planes),
            cut_off=min(facts.ranks, self.cut_off * facts.planes),
        )


def failures_of(fabric: Fabric) -> tuple[Failure, ...]:
    """Return every kind of single failure, innermost tier first; none of a tier with one endpoint. Of a
    Clos without ``sizing`` those of its NICs and planes, and of all its switches if the file tells their
    number."""
    found = []
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        if facts.endpoints > 1:
            for failure in _tier_failures(capabilities_of(tier), facts):
                found.append(failure.on_tier(facts))
    return tuple(found)


def _tier_failures(capabilities: TierCapabilities[Tier], facts: TierFacts) -> Iterator[Failure]:
    """The kinds of failure in one domain of a tier, an endpoint counted as one rank."""
    # the lowest level, or the tier itself where it has none
    level = capabilities.reached[0].name
    if facts.sizing is not None:
        yield from _sizing_failures(capabilities, facts, facts.sizing)
        yield from _plane_failures(capabilities, facts)
    elif not capabilities.has_ports:
        yield from _link_failures(capabilities, facts, level)
    elif capabilities.trunk_Bps is not None:
        # without what joins the two endpoints of a tier, both are cut off
        endpoints = 2 if facts.endpoints == 2 else 1
        yield Failure.of_part("trunk", "trunk", count=facts.links, endpoints=endpoints)
    else:
        yield from _plane_failures(capabilities, facts)
        yield from _port_failures(capabilities, facts, level)


def _sizing_failures(
    capabilities: TierCapabilities[Tier], facts: TierFacts, plan: ClosPlan
) -> Iterator[Failure]:
    """The failures of the plan of a tier's switches."""
    # of one endpoint; ``split`` is the number of planes that each NIC has a port in
    ports = facts.planes * capabilities.tier.ports * plan.split
    for failure in failures_of_plan(plan, facts.endpoints, ports):
        share = failure.share
        # a port has a larger part of what is left by the planes that work; a NIC has a port in each
        if capabilities.planes is not None and failure.part != "NIC":
            share = min(1.0, share / capabilities.planes.share)
        yield replace(failure, share=share)


def _link_failures(
    capabilities: TierCapabilities[Tier], facts: TierFacts, level: str
) -> Iterator[Failure]:
    """The failure of a link between two endpoints, and of a cube of a lattice with optical switches."""
    # of the endpoint with the fewest; ``ports`` are the parallel links to each neighbour
    links = facts.planes * capabilities.tier.ports * capabilities.fewest_links
    link = Failure.of_part("link", level, count=facts.links, endpoints=2, share=1 / links)
    # an endpoint with a single link: the end of a line, whose neighbour has another
    if link.cut_off and facts.endpoints > 2:
        link = replace(link, cut_off=1)
    yield link
    if cube_size := capabilities.cube:
        yield Failure.of_part(
            "cube", level, count=facts.endpoints // cube_size, endpoints=cube_size
        )


def _plane_failures(capabilities: TierCapabilities[Tier], facts: TierFacts) -> Iterator[Failure]:
    """The failure of one more of the planes that still work, everywhere; none without planes."""
    planes = capabilities.planes
    if planes is not None:
        yield Failure.of_part(
            "plane",
            capabilities.reached[-1].name,
            count=planes.working,
            nics=facts.endpoints * facts.planes * capabilities.tier.ports,
            endpoints=facts.endpoints,
            share=1 / planes.working,
        )


def _port_failures(
    capabilities: TierCapabilities[Tier], facts: TierFacts, level: str
) -> Iterator[Failure]:
    """The failure of a port of an endpoint, and of all switches of a domain at once where their number
    is known."""
    ports = facts.planes * capabilities.tier.ports
    nics = ports * facts.endpoints
    part: Part = "port" if capabilities.joins == "accelerators" else "NIC"
    yield Failure.of_part(part, level, count=nics, nics=1, endpoints=1, share=1 / ports)
    if facts.switches is not None:
        yield Failure.of_part(
            "switches", level, count=facts.switches, nics=nics, endpoints=facts.endpoints
        )


def failures_of_plan(plan: ClosPlan, endpoints: int, ports: int) -> Iterator[Failure]:
    """Yield every kind of single failure of a Clos, the leaves' before those of the levels above.

    Args:
        endpoints: how many it joins; each counts as one rank.
        ports: of one endpoint, on all rails and planes.
    """
    rail = _Rail.of(plan, endpoints, ports)
    leaf = plan.levels[0]
    if plan.split > 1:
        yield Failure.of_part(
            "port", leaf.name, count=plan.ports, nics=1, endpoints=1, share=1 / ports
        )
    yield Failure.of_part(
        "NIC",
        leaf.name,
        count=plan.ports // plan.split,
        nics=plan.split,  # ports of one NIC, all of one endpoint
        endpoints=1,
        share=plan.split / ports,
    )
    below_leaf = rail.group(0).ports
    yield Failure.of_part(
        "switch",
        leaf.name,
        count=leaf.switches,
        nics=below_leaf,
        endpoints=rail.endpoints_of(below_leaf),
        # an endpoint loses the ports that it has on this leaf: all of the rail, or as many as fit
        share=min(rail.of_endpoint, below_leaf) / ports,
    )
    for number in range(1, len(plan.levels)):
        yield from _failures_above_leaves(rail, number)


def _failures_above_leaves(rail: _Rail, number: int) -> Iterator[Failure]:
    """The failures of a cable into level ``number`` (from 0, the leaves) and of a switch of that level.

    What suffers is traffic of an endpoint that leaves the level below. It is spread evenly over the
    cables of each rail that its group of switches has upwards: where leaves have 32 uplinks on each of
    8 rails, a cable carries 1/256. It is spread as evenly over the switches that these cables lead to.
    """
    below = rail.plan.levels[number - 1]
    level = rail.plan.levels[number]
    # a cable is of the level that it enters, and takes from the group of switches at its lower end
    sending = rail.group(number - 1)
    group = rail.group(number)
    cables = below.up_ports * sending.switches
    yield Failure.of_part(
        "link",
        level.name,
        count=level.cables,
        endpoints=rail.endpoints_of(sending.ports),
        share=1 / (cables * rail.rails_used),
        beyond=below.name,
    )
    yield Failure.of_part(
        "switch",
        level.name,
        count=level.switches,
        endpoints=rail.endpoints_of(group.ports),
        share=1 / (group.switches * rail.rails_used),
        beyond=below.name,
    )


class _SwitchGroup(NamedTuple):
    """Switches of one level and rail that reach the same endpoint ports below: one leaf, the spines of
    a pod, or all switches of the top level."""

    switches: int
    ports: int


class _Rail(NamedTuple):
    """One rail of a Clos, and the endpoints with ports on it; if rails differ, the fullest."""

    plan: ClosPlan
    ports: int  # of all endpoints
    of_endpoint: int  # ports of one endpoint
    members: int  # endpoints that have ports on it
    rails_used: int  # rails that one endpoint has ports on

    @classmethod
    def of(cls, plan: ClosPlan, endpoints: int, ports: int) -> _Rail:
        on_rail = ceil(plan.ports / plan.rails)
        of_endpoint = ceil(ports / plan.rails)
        members = min(endpoints, ceil(on_rail / of_endpoint))
        return cls(plan, on_rail, of_endpoint, members, rails_used=min(plan.rails, ports))

    def group(self, number: int) -> _SwitchGroup:
        """Return a group of switches of a level, by its number from 0."""
        plan = self.plan
        if number == 0:
            return _SwitchGroup(1, min(plan.down_ports, self.ports))
        switches = plan.levels[number].per_rail
        if number == len(plan.levels) - 1:
            return _SwitchGroup(switches, self.ports)
        below_pod = plan.down_ports * ceil(plan.leaves / plan.pods)
        return _SwitchGroup(switches // plan.pods, min(self.ports, below_pod))

    def endpoints_of(self, ports: int) -> int:
        """Return the most endpoints that so many neighbouring ports may belong to.

        Where endpoints have 4 ports each, 6 neighbouring ones are 4 and 2, or 1, 4 and 1: three
        endpoints at most. A single port, and all ports of the rail, can lie in one way only.
        """
        endpoints = ceil(ports / self.of_endpoint)
        if ports not in (1, self.ports) and ports % self.of_endpoint:
            # most are touched with one port at either end, and whole endpoints between
            endpoints = (ports - 2) // self.of_endpoint + 2
        return min(self.members, endpoints)
