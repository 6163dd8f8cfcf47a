"""Warnings about numbers of a fabric that contradict each other: :func:`contradictions`.

Numbers that are unusual by themselves: :mod:`colltool.fabric.lint`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import isclose

from colltool.base.formatting import format_length, format_rate, format_time
from colltool.definitions.source import KeyPath
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.fabric.usual_ranges import NETWORK_BPS, PORT_GBPS, LintWarning

# The most ranks behind one NIC, or NICs behind one rank.
_MOST_SHARED = 16
# Metres: farther than a campus.
_FAR_M = 1e4
# The usual price of a kWh, in the currency of the prices.
_LEAST_KWH_PRICE = 0.01
_MOST_KWH_PRICE = 2


def contradictions(fabric: Fabric) -> Iterator[LintWarning]:
    """Yield warnings about numbers that contradict each other, tier by tier, at the key path of the one
    that is likely wrong."""
    for index, (inner, outer) in enumerate(pairwise(fabric.tiers), start=1):
        yield from _wrong_way_round(index, inner, outer)
        yield from _counted_twice(("tiers", index, "bandwidth"), outer)
    for index, facts in enumerate(fabric_facts(fabric).tiers):
        tier = fabric.tiers[index]
        # a trunk and levels exclude each other
        if capabilities_of(tier).levels:
            yield from _level_warnings(("tiers", index, "levels"), tier)
        else:
            yield from _trunk_warnings(("tiers", index), tier)
        for misfit in facts.misfits:
            why = "counts and the bill follow sizing, times follow the rest of the tier"
            yield LintWarning(("tiers", index, "sizing"), misfit, why)
    prices = fabric.prices
    if prices is None or prices.power is None:
        return
    if not _LEAST_KWH_PRICE <= prices.power <= _MOST_KWH_PRICE:
        what = f"{prices.power:g} {prices.currency} for a kWh"
        why = "energy costs some 0.03 to 0.5 USD or EUR a kWh; other currencies scale it"
        yield LintWarning(("prices", "power"), what, why)


def _counted_twice(path: KeyPath, tier: Tier) -> Iterator[LintWarning]:
    """A warning about a bandwidth that seems to be measured, with an eta.beta that reduces it once more;
    none where a library's measured numbers apply, or where no port is so fast."""
    if tier.eta.beta >= 1 or tier.library is not None or tier.bandwidth > NETWORK_BPS.most:
        return
    rate_Gbps = tier.bandwidth * 8e-9
    if capabilities_of(tier).has_ports and not _is_sold(rate_Gbps):
        rate = f"{format_rate(tier.bandwidth)}, {rate_Gbps:.4g} Gb/s"
        what = f"no port is sold at {rate}, and eta.beta {tier.eta.beta:g} comes on top"
        why = (
            "bandwidth is the line rate, eta.beta the share reached; for a measured rate, eta.beta"
            " is 1"
        )
        yield LintWarning(path, what, why)


def _is_sold(rate_Gbps: float) -> bool:
    """Whether a rank's rate is that of a port that is sold, of several, or a share of one."""
    for port_Gbps in PORT_GBPS:
        for count in range(1, _MOST_SHARED + 1):
            if isclose(rate_Gbps * count, port_Gbps) or isclose(rate_Gbps, port_Gbps * count):
                return True
    return False


def _wrong_way_round(index: int, inner: Tier, outer: Tier) -> Iterator[LintWarning]:
    """A warning about an outer tier with less latency than the nearest pairs inside, and one about more
    bandwidth than a rank has inside. ``index``: of the outer tier."""
    outer_s = capabilities_of(outer).classes[0].alpha_s
    inner_s = min(distance.alpha_s for distance in capabilities_of(inner).classes)
    if outer_s < inner_s:
        what = (
            f"alpha {format_time(outer_s)} is below the {format_time(inner_s)} of '{inner.name}'"
            " within"
        )
        why = "tiers go innermost first, and latency grows with distance"
        yield LintWarning(("tiers", index, "alpha"), what, why)
    outer_Bps = outer.bandwidth * outer.ports
    inner_Bps = inner.bandwidth * inner.ports * max(1, capabilities_of(inner).neighbours)
    if outer_Bps > inner_Bps:
        what = f"{format_rate(outer_Bps)} is above the {format_rate(inner_Bps)} of '{inner.name}' within"
        why = (
            "tiers are listed innermost first, and links inside a node are the faster ones;"
            " bandwidth is per rank"
        )
        yield LintWarning(("tiers", index, "bandwidth"), what, why)


def _trunk_warnings(path: KeyPath, tier: Tier) -> Iterator[LintWarning]:
    """A warning about a trunk that limits no traffic, or about a long distance with a separate line for
    every rank."""
    trunk_Bps = capabilities_of(tier).trunk_Bps
    ranks = tier.ranks_inside
    ports_Bps = ranks * tier.bandwidth * tier.ports
    if trunk_Bps is not None and trunk_Bps > ports_Bps:
        what = (
            f"{format_rate(trunk_Bps)} is above the {format_rate(ports_Bps)} of all {ranks} ranks in an"
            " endpoint"
        )
        why = "a trunk is what they share; the ports of the ranks are the limit here"
        yield LintWarning((*path, "trunk"), what, why)
    if trunk_Bps is None and ranks > 1 and tier.cable is not None and tier.cable >= _FAR_M:
        what = (
            f"each of {ranks} ranks sends {format_rate(tier.bandwidth * tier.ports)} as far as"
            f" {format_length(tier.cable)}"
        )
        why = (
            f"bandwidth is per rank, {format_rate(ports_Bps)} in all; what a whole site shares is its"
            " trunk, such as trunk: 1.6Tbps"
        )
        yield LintWarning((*path, "bandwidth"), what, why)


def _level_warnings(path: KeyPath, tier: Tier) -> Iterator[LintWarning]:
    """Warnings about latency or oversubscription that falls from a level to the next, and about a lowest
    level with one endpoint to a switch, or with one left over."""
    classes = capabilities_of(tier).classes
    for index, (below, above) in enumerate(pairwise(classes), start=1):
        if above.alpha_s < below.alpha_s:
            what = (
                f"alpha falls from {format_time(below.alpha_s)} on '{below.name}' to"
                f" {format_time(above.alpha_s)}"
            )
            why = "a pair that meets at a higher level passes the lower ones as well"
            yield LintWarning((*path, index, "alpha"), what, why)
        if above.oversubscription < below.oversubscription:
            what = (
                f"oversubscription falls from {below.oversubscription:g} on '{below.name}' to"
                f" {above.oversubscription:g}"
            )
            why = (
                "a plain number is against all endpoints below, so it cannot fall; for one hop"
                f" write {{uplinks: {above.oversubscription:g}}}"
            )
            yield LintWarning((*path, index, "oversubscription"), what, why)
    lowest = classes[0]
    if len(classes) == 1 or tier.endpoints <= lowest.group:
        return
    if lowest.group == 1:
        what = f"one endpoint to a '{lowest.name}'"
        why = (
            "every pair then crosses the level above and pays each ratio in full; group counts"
            " endpoints: nodes, not ports"
        )
        yield LintWarning((*path, 0, "group"), what, why)
    elif tier.endpoints % lowest.group == 1:
        what = (
            f"{tier.endpoints} endpoints leave one alone on the last '{lowest.name}' of"
            f" {lowest.group}"
        )
        why = "it pays the level above for every message; fill the leaf or move one"
        yield LintWarning((*path, 0, "group"), what, why)
