"""What the commands about fabric files answer: fabrics with their facts and bill, what one failure
takes down, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from math import ceil, isclose
from typing import Any, ClassVar, NamedTuple

from colltool.base.formatting import format_length, format_rate, format_time
from colltool.base.pictures import drawing
from colltool.base.result import Result
from colltool.definitions.source import KeyPath, value_at
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.ground import on_ground
from colltool.fabric.load import FabricSource, fabric_reading
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import Bill, FabricFacts, TierFacts, bill_of, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.sizing.size_clos import ClosPlan


@dataclass(frozen=True)
class Failure:
    """One failed part and what that takes from whom, in ports and cables, before any detour is
    congested.

    Of groups that are not full, the fullest. ``tier``: empty for a Clos sized without a fabric.
    ``part``: ``NIC`` or ``port`` of an accelerator, each with its cable; ``link``; ``trunk`` of an
    endpoint; ``plane``; ``switch``; ``switches``: all of a domain; ``cube`` of a lattice, until
    optical switches put another in its place. ``level``: of the switch, or that the link enters
    from below; else the tier. ``count``: such parts, in all domains. ``nics``: endpoint ports left
    without a switch. ``endpoints``, ``ranks``: that lose at most ``share`` of their bandwidth each.
    ``beyond``: the level whose upward traffic that is; empty: all of the tier's. ``cut_off``: ranks
    that reach nobody on the tier any more. Source of the question: Collectives Explainer Series
    part 03 §1.1, one switch a pod against one for each of its rails.
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
    """Every kind of single failure, innermost tier first; of a Clos without ``sizing`` those of its
    NICs alone."""
    facts = fabric_facts(fabric).tiers
    return tuple(
        one
        for tier, known in zip(fabric.tiers, facts, strict=True)
        for one in _of_tier(tier, known)
    )


def _of_tier(tier: Tier, facts: TierFacts) -> Iterator[Failure]:
    kind, ports = capabilities_of(tier), facts.planes * tier.ports
    if facts.endpoints == 1:
        return
    if facts.sizing is not None:
        for one in failures_of_plan(facts.sizing, facts.endpoints, ports * facts.sizing.split):
            ranks, cut_off = one.endpoints * facts.planes, one.cut_off * facts.planes
            # a port has a larger part of what is left by the planes that work; a NIC has a port in
            # each
            share = (
                one.share
                if kind.planes is None or one.part == "NIC"
                else min(1.0, one.share / kind.planes.share)
            )
            yield replace(
                one,
                tier=tier.name,
                count=one.count * facts.domains,
                ranks=ranks,
                share=share,
                cut_off=cut_off,
            )
        yield from _of_planes(kind, facts)
        return
    known = partial(Failure, tier=tier.name, level=kind.reached[0].name)
    if not kind.has_ports:
        links = ports * kind.fewest_links
        cut_off = 0 if links > 1 else facts.planes * (2 if facts.endpoints == 2 else 1)
        count, ranks = facts.links * facts.domains, 2 * facts.planes
        yield known(
            part="link",
            count=count,
            nics=0,
            endpoints=2,
            ranks=ranks,
            share=1 / links,
            cut_off=cut_off,
        )
        if lost := kind.cube:
            count, ranks = facts.endpoints // lost * facts.domains, lost * facts.planes
            yield known(
                part="cube",
                count=count,
                nics=0,
                endpoints=lost,
                ranks=ranks,
                share=1.0,
                cut_off=ranks,
            )
        return
    if kind.trunk_Bps is not None:
        touched = 2 if facts.endpoints == 2 else 1
        count, ranks = facts.links * facts.domains, touched * facts.planes
        yield Failure(
            tier.name,
            "trunk",
            "trunk",
            count,
            nics=0,
            endpoints=touched,
            ranks=ranks,
            share=1.0,
            cut_off=ranks,
        )
        return
    yield from _of_planes(kind, facts)
    part, nics, ranks = (
        "port" if kind.joins == "accelerators" else "NIC",
        ports * facts.endpoints,
        facts.planes,
    )
    cut_off = ranks if ports == 1 else 0
    yield known(
        part=part,
        count=nics * facts.domains,
        nics=1,
        endpoints=1,
        ranks=ranks,
        share=1 / ports,
        cut_off=cut_off,
    )
    if facts.switches is not None:
        count, ranks = facts.switches * facts.domains, facts.ranks
        yield known(
            part="switches",
            count=count,
            nics=nics,
            endpoints=facts.endpoints,
            ranks=ranks,
            share=1.0,
            cut_off=ranks,
        )


def _of_planes(kind: TierCapabilities[Tier], facts: TierFacts) -> Iterator[Failure]:
    """One more of the planes that still work, everywhere."""
    if (planes := kind.planes) is not None:
        dark, alone = facts.endpoints * facts.planes * kind.tier.ports, planes.working == 1
        yield Failure(
            tier=kind.tier.name,
            part="plane",
            level=kind.reached[-1].name,
            count=planes.working * facts.domains,
            nics=dark,
            endpoints=facts.endpoints,
            ranks=facts.ranks,
            share=1 / planes.working,
            cut_off=facts.ranks if alone else 0,
        )


def failures_of_plan(plan: ClosPlan, endpoints: int, ports: int) -> Iterator[Failure]:
    """Every kind of single failure of a Clos over endpoints of ``ports`` each; an endpoint counts
    as one rank."""
    on_rail = ceil(plan.ports / plan.rails)
    of_endpoint = ceil(ports / plan.rails)
    serving = min(plan.rails, ports)  # rails that an endpoint has a port on
    members = min(endpoints, ceil(on_rail / of_endpoint))

    def lost(part: str, at: int, count: int, nics: int, share: float, beyond: str = "") -> Failure:
        """``nics`` of one rail lose a share of their traffic."""
        # else an endpoint at either end is there in part
        whole = nics in (1, on_rail) or nics % of_endpoint == 0
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
    below, under, spread = leaf, min(leaf.down_ports, on_rail), 1
    if plan.split > 1:
        yield lost("port", 0, plan.ports, 1, 1 / ports)
    yield replace(lost("NIC", 0, plan.ports // plan.split, 1, plan.split / ports), nics=plan.split)
    yield lost("switch", 0, leaf.switches, under, min(of_endpoint, under) / ports)
    for at, one in enumerate(above, start=1):
        ways = below.up_ports * spread  # cables out of one group of the level below
        yield lost("link", at, one.cables, under, 1 / (ways * serving), below.name)
        last = at == len(above)
        under = on_rail if last else min(on_rail, leaf.down_ports * ceil(plan.leaves / plan.pods))
        spread = one.per_rail if last else one.per_rail // plan.pods
        yield lost("switch", at, one.switches, under, 1 / (spread * serving), below.name)
        below = one


class Usual(NamedTuple):
    """The range of a number in the field, and why."""

    least: float
    most: float
    why: str


# One way, one link or port.
INSIDE_BPS = Usual(
    8e9,
    6e12,
    "links inside a node or rack run from PCIe's 16 GB/s to the 5.2 TB/s announced of NVLink 7",
)
NETWORK_BPS = Usual(1e9, 4e11, "network ports run from 10 Gb/s to 1.6 Tb/s")
ALPHA_S = Usual(2e-8, 2e-4, "one message takes 0.1 to 50 us inside a data centre")
SWITCH_ALPHA_S = Usual(1e-8, 1e-4, "a switch passes a message on in 0.1 to 1 us")
OVERHEAD_S = Usual(0.0, 1e-3, "a call costs 1 to 50 us to launch")
ETA_ALPHA = Usual(1.0, 10.0, "queues make a message a few times slower, not tens of times")
ETA_BETA = Usual(0.1, 1.0, "transports keep 0.5 to 0.98 of the line rate")
OVERSUBSCRIPTION = Usual(1.0, 16.0, "networks for collectives are built 1:1 to 8:1")

PORT_GBPS = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600)
"""Rates at which network ports are sold, in Gb/s."""

_MOST_SHARED = 16  # ranks behind one NIC, or NICs behind one rank
_FAR_M = 1e4  # farther than a campus
_OF_TIER = 3  # steps to a number of a tier: tiers, 0, alpha


class LintWarning(NamedTuple):
    """Something valid that is hardly ever meant: where, what it says, and why that is odd."""

    path: KeyPath
    where: str
    what: str
    why: str


class CheckedFabric(NamedTuple):
    """A valid fabric file by the name it was given, and its warnings."""

    file: str
    fabric: Fabric
    warnings: tuple[LintWarning, ...]


def check_fabric(fabric: FabricSource, name: str = "") -> CheckedFabric:
    """Load a fabric and collect warnings; ``name`` is what the result calls it."""
    reading = fabric_reading(fabric)
    loaded = on_ground(reading.result())
    found = [one._replace(where=reading.source.at(one.path)) for one in lint(loaded, reading.data)]
    return CheckedFabric(
        name or str(fabric),
        loaded,
        tuple(sorted(found, key=lambda one: reading.source.position(one.path))),
    )


def lint(fabric: Fabric, written: dict[str, Any] | None = None) -> list[LintWarning]:
    """Warnings about a fabric; ``written`` is its data as the file spells it, to see slips of the
    unit."""
    data = fabric.model_dump(by_alias=True, exclude_none=True)
    for tier, told in zip(fabric.tiers, data["tiers"], strict=True):
        for level, one in zip(told.get("levels", ()), capabilities_of(tier).classes, strict=False):
            level["oversubscription"] = one.oversubscription
    found: list[LintWarning] = []

    def check(path: KeyPath, usual: Usual, words: Callable[[float], str] = "{:g}".format) -> None:
        value = value_at(path, data)
        if value is not None and not usual.least <= value <= usual.most:
            side = (
                f"above {words(usual.most)}"
                if value > usual.most
                else f"below {words(usual.least)}"
            )
            found.append(LintWarning(path, "", f"{words(value)} is {side}", usual.why))

    check(("launch_overhead",), OVERHEAD_S, format_time)
    found += _old_form(fabric) if written is not None else ()
    for index, tier in enumerate(data["tiers"]):
        path, alone = ("tiers", index), len(data["tiers"]) == 1
        rate = NETWORK_BPS if index else INSIDE_BPS
        if alone:  # one tier may be either
            rate = Usual(NETWORK_BPS.least, INSIDE_BPS.most, f"{NETWORK_BPS.why}; {INSIDE_BPS.why}")
        elif index:  # a scale-up of two levels: no faster than what it joins
            rate = NETWORK_BPS._replace(most=max(NETWORK_BPS.most, data["tiers"][0]["bandwidth"]))
        check((*path, "bandwidth"), rate, format_rate)
        if not index:
            found += _bits(
                (*path, "bandwidth"), value_at((*path, "bandwidth"), written), alone=alone
            )
        for part in (
            (),
            *((key, at) for key in ("levels", "protocols") for at in range(len(tier.get(key, ())))),
        ):
            # where sizes do not tell alpha from the launch overhead, a fit leaves it at 0
            fitted = part[:1] == ("protocols",)
            check(
                (*path, *part, "alpha"),
                ALPHA_S._replace(least=0.0) if fitted else ALPHA_S,
                format_time,
            )
            check((*path, *part, "launch_overhead"), OVERHEAD_S, format_time)
            check((*path, *part, "oversubscription"), OVERSUBSCRIPTION)
            check((*path, *part, "eta", "alpha"), ETA_ALPHA)
            # LL: latency alone
            check(
                (*path, *part, "eta", "beta"), ETA_BETA._replace(least=0.0) if fitted else ETA_BETA
            )
        check((*path, "in_network", "alpha_switch"), SWITCH_ALPHA_S, format_time)
        asked, there = (
            value_at(("in_network", "levels"), tier),
            len(tier["levels"]) if "levels" in tier else 1,
        )
        if asked is not None and asked > there:
            what, why = (
                f"reduces in {asked} levels of switches, the tier has {there}",
                "a switch reduces once; leave it out",
            )
            found.append(
                LintWarning(
                    (*path, "in_network", "levels"), "", what, f"{why} to have them counted"
                )
            )
    # a tier's number that is off by itself is off beside others too: said once
    told = {one.path[-1] for one in found}
    return [
        *found,
        *(
            one
            for one in odd_together(fabric)
            if len(one.path) > _OF_TIER or one.path[-1] not in told
        ),
    ]


def _old_form(fabric: Fabric) -> Iterator[LintWarning]:
    """Said once, of the first tier with protocols of its own."""
    why = (
        "give the tier its medium under schema colltool.fabric/2; rows of your own: colltool"
        " calibrate"
    )
    old = [index for index, tier in enumerate(fabric.tiers) if tier.protocols]
    for index in old[:1]:
        yield LintWarning(
            ("tiers", index, "protocols"),
            "",
            "a form that is read for one more version, schema /1",
            why,
        )


def _bits(path: KeyPath, written: Any, *, alone: bool) -> Iterator[LintWarning]:
    """A rate in bits where bytes are usual: 900Gb/s is an eighth of what was meant."""
    text = written.strip() if isinstance(written, str) else ""
    if text.endswith(("bps", "b/s")):
        number = text.removesuffix("bps").removesuffix("b/s").rstrip()
        if not (alone and any(number in (f"{rate}G", f"{rate / 1000:g}T") for rate in PORT_GBPS)):
            why = "links inside a node or rack are quoted in bytes, GB/s; network ports in bits"
            yield LintWarning(path, "", f"{text} is in bits, an eighth of as many bytes", why)


def odd_together(fabric: Fabric) -> Iterator[LintWarning]:
    """Numbers that do not go together."""
    for index, (inner, outer) in enumerate(pairwise(fabric.tiers), start=1):
        yield from _wrong_way_round(index, inner, outer)
        rate = outer.bandwidth * 8e-9
        sold = any(
            isclose(rate * n, one) or isclose(rate, one * n)
            for one in PORT_GBPS
            for n in range(1, _MOST_SHARED + 1)
        )
        port = outer.bandwidth <= NETWORK_BPS.most  # not a scale-up in two levels
        # a measured rate, counted down twice
        measured = outer.eta.beta < 1 and outer.library is None and port and not sold
        if measured and capabilities_of(outer).joined_by == "switches":
            said = f"{format_rate(outer.bandwidth)}, {rate:.4g} Gb/s"
            what = f"no port is sold at {said}, and eta.beta {outer.eta.beta:g} comes on top"
            why = (
                "bandwidth is the line rate, eta.beta the share reached; for a measured rate,"
                " eta.beta is 1"
            )
            yield LintWarning(("tiers", index, "bandwidth"), "", what, why)
    for index, (tier, facts) in enumerate(
        zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True)
    ):
        yield from (
            _levels(("tiers", index, "levels"), tier)
            if capabilities_of(tier).levels
            else _trunk(("tiers", index), tier)
        )
        for misfit in facts.misfits:
            why = "counts and the bill follow sizing, times follow the rest of the tier"
            yield LintWarning(("tiers", index, "sizing"), "", misfit, why)
    if (
        fabric.prices is not None
        and fabric.prices.power is not None
        and not 0.01 <= fabric.prices.power <= 2
    ):
        what = f"{fabric.prices.power:g} {fabric.prices.currency} for a kWh"
        why = "energy costs some 0.03 to 0.5 USD or EUR a kWh; other currencies scale it"
        yield LintWarning(("prices", "power"), "", what, why)


def _wrong_way_round(index: int, inner: Tier, outer: Tier) -> Iterator[LintWarning]:
    near, far = (
        capabilities_of(outer).classes[0].alpha_s,
        min(one.alpha_s for one in capabilities_of(inner).classes),
    )
    if near < far:
        what = f"alpha {format_time(near)} is below the {format_time(far)} of '{inner.name}' within"
        yield LintWarning(
            ("tiers", index, "alpha"),
            "",
            what,
            "tiers go innermost first, and latency grows with distance",
        )
    wide, narrow = (
        outer.bandwidth * outer.ports,
        inner.bandwidth * inner.ports * max(1, capabilities_of(inner).neighbours),
    )
    if wide > narrow:
        what = f"{format_rate(wide)} is above the {format_rate(narrow)} of '{inner.name}' within"
        why = (
            "tiers are listed innermost first, and links inside a node are the faster ones;"
            " bandwidth is per rank"
        )
        yield LintWarning(("tiers", index, "bandwidth"), "", what, why)


def _trunk(path: KeyPath, tier: Tier) -> Iterator[LintWarning]:
    """A trunk that binds nobody, and a long way on which every rank seems to have a line of its
    own."""
    whole, ranks = capabilities_of(tier).trunk_Bps, tier.ranks_inside
    ports = ranks * tier.bandwidth * tier.ports
    if whole is not None and whole > ports:
        what = (
            f"{format_rate(whole)} is above the {format_rate(ports)} of all {ranks} ranks in an"
            " endpoint"
        )
        yield LintWarning(
            (*path, "trunk"),
            "",
            what,
            "a trunk is what they share; the ports of the ranks are the limit here",
        )
    if whole is None and ranks > 1 and tier.cable is not None and tier.cable >= _FAR_M:
        what = (
            f"each of {ranks} ranks sends {format_rate(tier.bandwidth * tier.ports)} as far as"
            f" {format_length(tier.cable)}"
        )
        why = (
            f"bandwidth is per rank, {format_rate(ports)} in all; what a whole site shares is its"
            " trunk, such as trunk: 1.6Tbps"
        )
        yield LintWarning((*path, "bandwidth"), "", what, why)


def _levels(path: KeyPath, tier: Tier) -> Iterator[LintWarning]:
    classes = capabilities_of(tier).classes
    for index, (below, above) in enumerate(pairwise(classes), start=1):
        if above.alpha_s < below.alpha_s:
            what = (
                f"alpha falls from {format_time(below.alpha_s)} on '{below.name}' to"
                f" {format_time(above.alpha_s)}"
            )
            why = "a pair that meets at a higher level passes the lower ones as well"
            yield LintWarning((*path, index, "alpha"), "", what, why)
        if above.oversubscription < below.oversubscription:
            what = (
                f"oversubscription falls from {below.oversubscription:g} on '{below.name}' to"
                f" {above.oversubscription:g}"
            )
            why = (
                "a plain number is against all endpoints below, so it cannot fall; for one hop"
                " write "
            )
            why += f"{{uplinks: {above.oversubscription:g}}}"
            yield LintWarning((*path, index, "oversubscription"), "", what, why)
    first, last = classes[0], tier.endpoints % classes[0].group
    if len(classes) > 1 and first.group == 1 < tier.endpoints:
        why = (
            "every pair then crosses the level above and pays each ratio in full; group counts"
            " endpoints: nodes, not ports"
        )
        yield LintWarning((*path, 0, "group"), "", f"one endpoint to a '{first.name}'", why)
    elif len(classes) > 1 and last == 1 and tier.endpoints > first.group:
        what = (
            f"{tier.endpoints} endpoints leave one alone on the last '{first.name}' of"
            f" {first.group}"
        )
        yield LintWarning(
            (*path, 0, "group"),
            "",
            what,
            "it pays the level above for every message; fill the leaf or move one",
        )


@dataclass(frozen=True, eq=False, repr=False)
class FabricList(Result):
    subject: ClassVar[str] = "fabric"
    fabrics: tuple[Fabric, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FabricShown(Result):
    subject: ClassVar[str] = "fabric"
    fabric: Fabric
    facts: FabricFacts

    @property
    def bill(self) -> Bill:
        return bill_of(self.fabric)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return failures_of(self.fabric)


@dataclass(frozen=True, eq=False, repr=False)
class FabricDrawn(Result):
    subject: ClassVar[str] = "fabric"
    fabric: Fabric
    facts: FabricFacts

    @cached_property
    def svg(self) -> str:
        """One ``<svg>`` element."""
        return drawing().fabric_svg(self.fabric, self.fabric.name)


@dataclass(frozen=True, eq=False, repr=False)
class FabricSized(Result):
    """A Clos sized for so many endpoints of so many ports."""

    subject: ClassVar[str] = "fabric_parts"
    endpoints: int
    ports_per_endpoint: int
    plan: ClosPlan
    bill: Bill

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(failures_of_plan(self.plan, self.endpoints, self.ports_per_endpoint))


@dataclass(frozen=True, eq=False, repr=False)
class FabricsChecked(Result):
    subject: ClassVar[str] = "job"
    checks: tuple[CheckedFabric, ...]
