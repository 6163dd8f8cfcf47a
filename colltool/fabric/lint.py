"""Warnings about a fabric file: values that are valid and hardly ever meant.

:func:`lint` checks each number against its usual range, and numbers against each other
(:func:`contradictions`); :func:`check_fabric` places the warnings in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import isclose
from typing import Any, NamedTuple

from colltool.base.formatting import format_length, format_rate, format_time
from colltool.definitions.source import KeyPath, value_at
from colltool.fabric.library_numbers import with_library_numbers
from colltool.fabric.load import FabricSource, fabric_reading
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import fabric_facts
from colltool.fabric.topology import capabilities_of


class UsualRange(NamedTuple):
    """The usual range of a number in SI units, and the reason that a warning gives."""

    least: float
    most: float
    why: str


# Bytes/s of one link or port, one way; the reasons name what the bounds come from.
INSIDE_BPS = UsualRange(
    8e9,
    6e12,
    "links inside a node or rack run from PCIe's 16 GB/s to the 5.2 TB/s announced of NVLink 7",
)
NETWORK_BPS = UsualRange(1e9, 4e11, "network ports run from 10 Gb/s to 1.6 Tb/s")
ALPHA_S = UsualRange(2e-8, 2e-4, "one message takes 0.1 to 50 us inside a data centre")
SWITCH_ALPHA_S = UsualRange(1e-8, 1e-4, "a switch passes a message on in 0.1 to 1 us")
OVERHEAD_S = UsualRange(0.0, 1e-3, "a call costs 1 to 50 us to launch")
ETA_ALPHA = UsualRange(1.0, 10.0, "queues make a message a few times slower, not tens of times")
ETA_BETA = UsualRange(0.1, 1.0, "transports keep 0.5 to 0.98 of the line rate")
OVERSUBSCRIPTION = UsualRange(1.0, 16.0, "networks for collectives are built 1:1 to 8:1")

# Rates at which network ports are sold, in Gb/s.
PORT_GBPS = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600)

# Ranks behind one NIC, or NICs behind one rank.
_MOST_SHARED = 16
# Metres: farther than a campus.
_FAR_M = 1e4
# Steps of the path to a number of a tier: tiers, 0, alpha.
_TIER_NUMBER_STEPS = 3

Words = Callable[[float], str]


class LintWarning(NamedTuple):
    """A warning: what is odd and why. ``where`` is the place in the file, as in errors, once it is
    known."""

    path: KeyPath
    what: str
    why: str
    where: str = ""


class CheckedFabric(NamedTuple):
    """A valid fabric file by the name that was typed, and its warnings."""

    file: str
    fabric: Fabric
    warnings: tuple[LintWarning, ...]


def check_fabric(fabric: FabricSource, name: str = "") -> CheckedFabric:
    """Load a fabric and return it with its warnings in the order of the file; ``name``: of the
    result."""
    reading = fabric_reading(fabric)
    loaded = with_library_numbers(reading.result())
    source = reading.source
    found = lint(loaded, reading.data)
    found.sort(key=lambda warning: source.position(warning.path))
    placed = tuple(warning._replace(where=source.at(warning.path)) for warning in found)
    return CheckedFabric(name or str(fabric), loaded, placed)


def lint(fabric: Fabric, written: dict[str, Any] | None = None) -> list[LintWarning]:
    """Return the warnings about a fabric; ``written``: its data as the file has it, to find wrong
    units."""
    data = fabric.model_dump(by_alias=True, exclude_none=True)
    for tier, numbers in zip(fabric.tiers, data["tiers"], strict=True):
        for level, reached in zip(
            numbers.get("levels", ()), capabilities_of(tier).classes, strict=False
        ):
            level["oversubscription"] = reached.oversubscription
    found = list(_unusual(data, ("launch_overhead",), OVERHEAD_S, format_time))
    if written is not None:
        found += _schema_1(fabric)
    for index, numbers in enumerate(data["tiers"]):
        path = ("tiers", index)
        found += _tier_numbers(data, path)
        if index == 0:
            alone = len(data["tiers"]) == 1
            rate = (*path, "bandwidth")
            found += _rate_in_bits(rate, value_at(rate, written), alone=alone)
        found += _tier_parts(data, path)
        found += _switch_levels(path, numbers)
    # a number of a tier that is unusual by itself also contradicts others: reported once
    reported = {warning.path[-1] for warning in found}
    for warning in contradictions(fabric):
        if len(warning.path) > _TIER_NUMBER_STEPS or warning.path[-1] not in reported:
            found.append(warning)
    return found


def _unusual(
    data: dict[str, Any], path: KeyPath, usual: UsualRange, words: Words = "{:g}".format
) -> Iterator[LintWarning]:
    """A warning if there is a number at a path and it is outside of its usual range."""
    value = value_at(path, data)
    if value is None or usual.least <= value <= usual.most:
        return
    side = f"above {words(usual.most)}"
    if value < usual.least:
        side = f"below {words(usual.least)}"
    yield LintWarning(path, f"{words(value)} is {side}", usual.why)


def _tier_numbers(data: dict[str, Any], path: KeyPath) -> Iterator[LintWarning]:
    """A bandwidth that no link of this place has."""
    tiers = data["tiers"]
    rate = INSIDE_BPS
    if len(tiers) == 1:  # one tier may be either
        why = f"{NETWORK_BPS.why}; {INSIDE_BPS.why}"
        rate = UsualRange(NETWORK_BPS.least, INSIDE_BPS.most, why)
    elif path[-1]:  # a scale-up of two levels: no faster than what it joins
        rate = NETWORK_BPS._replace(most=max(NETWORK_BPS.most, tiers[0]["bandwidth"]))
    yield from _unusual(data, (*path, "bandwidth"), rate, format_rate)


def _tier_parts(data: dict[str, Any], path: KeyPath) -> Iterator[LintWarning]:
    """Unusual latencies, overheads and contention of a tier, its levels and its protocols."""
    tier = value_at(path, data)
    parts = [path]
    for key in ("levels", "protocols"):
        parts += [(*path, key, number) for number in range(len(tier.get(key, ())))]
    for part in parts:
        alpha = ALPHA_S
        beta = ETA_BETA
        if "protocols" in part:
            # where sizes do not tell alpha from the launch overhead, a fit leaves it at 0; of LL a
            # fit may find latency alone
            alpha = alpha._replace(least=0.0)
            beta = beta._replace(least=0.0)
        yield from _unusual(data, (*part, "alpha"), alpha, format_time)
        yield from _unusual(data, (*part, "launch_overhead"), OVERHEAD_S, format_time)
        yield from _unusual(data, (*part, "oversubscription"), OVERSUBSCRIPTION)
        yield from _unusual(data, (*part, "eta", "alpha"), ETA_ALPHA)
        yield from _unusual(data, (*part, "eta", "beta"), beta)
    yield from _unusual(data, (*path, "in_network", "alpha_switch"), SWITCH_ALPHA_S, format_time)


def _switch_levels(path: KeyPath, tier: dict[str, Any]) -> Iterator[LintWarning]:
    """More levels of switches that reduce than the tier has."""
    reducing = value_at(("in_network", "levels"), tier)
    there = len(tier["levels"]) if "levels" in tier else 1
    if reducing is not None and reducing > there:
        what = f"reduces in {reducing} levels of switches, the tier has {there}"
        why = "a switch reduces once; leave it out to have them counted"
        yield LintWarning((*path, "in_network", "levels"), what, why)


def _schema_1(fabric: Fabric) -> Iterator[LintWarning]:
    """A warning about the form of schema /1, once, at the first tier with protocols."""
    for index, tier in enumerate(fabric.tiers):
        if tier.protocols:
            what = "a form that is read for one more version, schema /1"
            why = (
                "give the tier its medium under schema colltool.fabric/2; rows of your own:"
                " colltool calibrate"
            )
            yield LintWarning(("tiers", index, "protocols"), what, why)
            return


def _rate_in_bits(path: KeyPath, written: Any, *, alone: bool) -> Iterator[LintWarning]:
    """A rate in bits where bytes are usual: 900Gb/s is an eighth of what was meant."""
    text = written.strip() if isinstance(written, str) else ""
    if not text.endswith(("bps", "b/s")):
        return
    number = text.removesuffix("bps").removesuffix("b/s").rstrip()
    sold = {f"{rate}G" for rate in PORT_GBPS} | {f"{rate / 1000:g}T" for rate in PORT_GBPS}
    if not (alone and number in sold):
        why = "links inside a node or rack are quoted in bytes, GB/s; network ports in bits"
        yield LintWarning(path, f"{text} is in bits, an eighth of as many bytes", why)


def contradictions(fabric: Fabric) -> Iterator[LintWarning]:
    """Yield warnings about numbers that contradict each other."""
    for index, (inner, outer) in enumerate(pairwise(fabric.tiers), start=1):
        yield from _wrong_way_round(index, inner, outer)
        yield from _counted_twice(("tiers", index, "bandwidth"), outer)
    facts = fabric_facts(fabric).tiers
    for index, (tier, known) in enumerate(zip(fabric.tiers, facts, strict=True)):
        if capabilities_of(tier).levels:
            yield from _level_warnings(("tiers", index, "levels"), tier)
        else:
            yield from _trunk_warnings(("tiers", index), tier)
        for misfit in known.misfits:
            why = "counts and the bill follow sizing, times follow the rest of the tier"
            yield LintWarning(("tiers", index, "sizing"), misfit, why)
    prices = fabric.prices
    if prices is not None and prices.power is not None and not 0.01 <= prices.power <= 2:
        what = f"{prices.power:g} {prices.currency} for a kWh"
        why = "energy costs some 0.03 to 0.5 USD or EUR a kWh; other currencies scale it"
        yield LintWarning(("prices", "power"), what, why)


def _counted_twice(path: KeyPath, tier: Tier) -> Iterator[LintWarning]:
    """A bandwidth that seems to be measured, with an eta.beta that reduces it once more."""
    if tier.eta.beta >= 1 or tier.library is not None or tier.bandwidth > NETWORK_BPS.most:
        return
    rate_Gbps = tier.bandwidth * 8e-9
    if capabilities_of(tier).joined_by == "switches" and not _is_sold(rate_Gbps):
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
    """An outer tier with less latency or more bandwidth than the one inside."""
    outer_s = capabilities_of(outer).classes[0].alpha_s
    inner_s = min(reached.alpha_s for reached in capabilities_of(inner).classes)
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
    """A trunk that limits no traffic, or a long distance with a separate line for every rank."""
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
    """Latency or oversubscription that falls from a level to the next, or groups of one endpoint."""
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
