"""What one failed NIC, link or switch takes down, in ports and cables, before any detour is congested.

Of groups that are not full, the fullest. Source of the question: Collectives Explainer Series part 03 §1.1, one switch a pod
against one for each of its rails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.sizing.records import ClosPlan


@dataclass(frozen=True)
class Failure:
    """One failed part and what that takes from whom.

    ``tier``: empty for a Clos sized without a fabric. ``part``: ``NIC`` or ``port`` of an accelerator, each with its cable;
    ``link``; ``switch``; ``switches``: all of a domain. ``level``: of the switch, or that the link enters from below; else the
    tier. ``count``: such parts, in all domains. ``nics``: endpoint ports left without a switch. ``endpoints``, ``ranks``: that
    lose at most ``share`` of their bandwidth each. ``beyond``: the level whose upward traffic that is; empty: all of the tier's.
    ``cut_off``: ranks that reach nobody on the tier any more.
    """

    tier: str
    part: str
    level: str
    count: int
    nics: int
    endpoints: int
    ranks: int
    share: float
    beyond: str = ""
    cut_off: int = 0


def failures_of(fabric: Fabric) -> tuple[Failure, ...]:
    """Every kind of single failure, innermost tier first; of a Clos without ``sizing`` those of its NICs alone."""
    facts = fabric_facts(fabric).tiers
    return tuple(one for tier, known in zip(fabric.tiers, facts, strict=True) for one in _of_tier(tier, known))


def _of_tier(tier: Tier, facts: TierFacts) -> Iterator[Failure]:
    kind, ports = capabilities_of(tier), facts.planes * tier.ports
    if facts.endpoints == 1:
        return
    if facts.sizing is not None:
        for one in failures_of_plan(facts.sizing, facts.endpoints, ports):
            ranks, cut_off = one.endpoints * facts.planes, one.cut_off * facts.planes
            yield replace(one, tier=tier.name, count=one.count * facts.domains, ranks=ranks, cut_off=cut_off)
        return
    known = partial(Failure, tier=tier.name, level=kind.reached[0].name)
    if kind.joined_by != "switches":
        # at a corner of a mesh there are the fewest
        links = ports * (sum(1 + axis.is_ring for axis in kind.axes if axis.size > 1) or kind.neighbours)
        cut_off = 0 if links > 1 else facts.planes * (2 if facts.endpoints == 2 else 1)
        count, ranks = facts.links * facts.domains, 2 * facts.planes
        yield known(part="link", count=count, nics=0, endpoints=2, ranks=ranks, share=1 / links, cut_off=cut_off)
        return
    part, nics, ranks = "port" if kind.joins == "accelerators" else "NIC", ports * facts.endpoints, facts.planes
    cut_off = ranks if ports == 1 else 0
    yield known(part=part, count=nics * facts.domains, nics=1, endpoints=1, ranks=ranks, share=1 / ports, cut_off=cut_off)
    if facts.switches is not None:
        count, ranks = facts.switches * facts.domains, facts.ranks
        yield known(part="switches", count=count, nics=nics, endpoints=facts.endpoints, ranks=ranks, share=1.0, cut_off=ranks)


def failures_of_plan(plan: ClosPlan, endpoints: int, ports: int) -> tuple[Failure, ...]:
    """Every kind of single failure of a Clos over endpoints of ``ports`` each; an endpoint counts as one rank."""
    return tuple(_of_plan(plan, endpoints, ports))


def _of_plan(plan: ClosPlan, endpoints: int, ports: int) -> Iterator[Failure]:
    on_rail = ceil(plan.ports / plan.rails)
    of_endpoint = ceil(ports / plan.rails)
    serving = min(plan.rails, ports)  # rails that an endpoint has a port on
    members = min(endpoints, ceil(on_rail / of_endpoint))

    def lost(part: str, at: int, count: int, nics: int, share: float, beyond: str = "") -> Failure:
        """``nics`` of one rail lose a share of their traffic."""
        whole = nics in (1, on_rail) or nics % of_endpoint == 0  # else an endpoint at either end is there in part
        touched = min(members, ceil(nics / of_endpoint) if whole else (nics - 2) // of_endpoint + 2)
        return Failure(
            tier="",
            part=part,
            level=plan.levels[at].name,
            count=count,
            nics=0 if beyond else nics,
            endpoints=touched,
            ranks=touched,
            share=share,
            beyond=beyond,
            cut_off=touched if share >= 1 and not beyond else 0,
        )

    leaf, *above = plan.levels
    under_leaf = min(leaf.down_ports, on_rail)
    yield lost("NIC", 0, plan.ports, 1, 1 / ports)
    yield lost("switch", 0, leaf.switches, under_leaf, min(of_endpoint, under_leaf) / ports)
    below, under, spread = leaf, under_leaf, 1
    for at, one in enumerate(above, start=1):
        ways = below.up_ports * spread  # cables out of one group of the level below
        yield lost("link", at, one.cables, under, 1 / (ways * serving), below.name)
        last = at == len(above)
        reached = min(on_rail, leaf.down_ports * ceil(plan.leaves / plan.pods))
        switches = one.per_rail if last else one.per_rail // plan.pods
        under = on_rail if last else reached
        yield lost("switch", at, one.switches, under, 1 / (switches * serving), below.name)
        below, spread = one, switches
